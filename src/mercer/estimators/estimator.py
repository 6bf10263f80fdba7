"""Base of all estimators: rows as users have them, explanations, files.

Rows are arrays, lists, sparse matrices, and tables. Those of numbers without gaps go in as they
are. In others each column is read for what it is, see :mod:`mercer.estimators.columns`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from mercer.columns import TablePreprocessor
from mercer.columns.audit import TableAudit
from mercer.columns.readings import TargetForm
from mercer.columns.views import (
    Levels,
    TableView,
    chosen_rows,
    is_frame,
    is_number,
    is_table,
    number_block,
    view_table,
)
from mercer.estimators.columns import (
    Columns,
    Roles,
    StreamColumns,
    audit_of,
    lenient_inputs,
    measured,
    named_columns,
    own_view,
)
from mercer.estimators.inputs import check_weights, finite_or_where, without_column
from mercer.estimators.targets import form_of, plain_targets, quantities_of
from mercer.model_file import save_model

if TYPE_CHECKING:
    from mercer.answers.explain import Dependence, Explained, Explanation, Importances
    from mercer.numerics.attribution import Effects

Array = NDArray[np.float64]
FloatArray = NDArray[np.floating]

_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


# -- what the rows are -----------------------------------------------------------------------------


def _has_numbers(X: Any) -> bool:
    """Whether all columns of a frame are of numbers or booleans, by their types."""
    if hasattr(X, "iloc"):
        from pandas.api.types import is_numeric_dtype

        return all(map(is_numeric_dtype, X.dtypes))
    if hasattr(X, "column_names"):
        from pyarrow import types

        kinds = types.is_integer, types.is_floating, types.is_boolean
        return all(any(kind(one) for kind in kinds) for one in X.schema.types)
    return all(one.is_numeric() or str(one) == "Boolean" for one in X.dtypes)


def _dense(X: Any) -> Any:
    """Return a frame whose sparse columns are dense, unless all columns are sparse and mostly 0."""
    fills = [getattr(one, "fill_value", None) for one in getattr(X, "dtypes", ())]
    if all(fill == 0 for fill in fills) or not any(hasattr(d, "fill_value") for d in X.dtypes):
        return X
    plain = {i: d.subtype for i, d in enumerate(X.dtypes) if hasattr(d, "fill_value")}
    return X.set_axis(range(X.shape[1]), axis=1).astype(plain).set_axis(X.columns, axis=1)


def _as_rows(X: Any) -> Any:
    """Return rows in a form that keeps the types of cells: lists with text would become text.

    Raises
    ------
    TypeError
        For dicts, and for frames that are not computed yet.
    ValueError
        For frames in which two columns have the same name.
    """
    if is_frame(X):
        if hasattr(X, "iloc"):  # others refuse such themselves
            view_table(X)
        return _dense(X) if hasattr(X, "iloc") else X
    if sparse.issparse(X):
        return X  # of one kind scipy makes dicts
    if isinstance(X, Mapping) or (isinstance(X, list | tuple) and X and isinstance(X[0], Mapping)):
        raise TypeError(
            "Rows are dicts here, or columns in a dict: put them into a DataFrame, such as "
            "pandas.DataFrame(X). Single dicts are for `learn_one` and `predict_one`."
        )
    if type(X).__name__ == "LazyFrame":
        raise TypeError("A LazyFrame has no rows yet: call its method collect() before.")
    if isinstance(X, list | tuple):
        try:
            array = np.asarray(X)
        except ValueError:  # rows of different lengths, of which the check says more
            return X
        return np.asarray(X, dtype=object) if array.dtype.kind in "USOMm" else array
    return X


def _are_numbers(X: Any) -> bool:
    """Whether rows are numbers, gaps or not; what is no table at all is left to the check."""
    if sparse.issparse(X):
        return True
    if is_frame(X):
        return _has_numbers(X)
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind not in ("U", "S", "O", "M", "m") or np.ndim(X) != 2:
        return True
    try:
        np.asarray(X).astype(np.float64) if kind in "USO" else None
    except (ValueError, TypeError):
        return False
    return kind in "USO"


def _has_gaps(X: Any) -> bool:
    """Whether there is NaN in checked rows."""
    return isinstance(X, np.ndarray) and bool(np.isnan(np.min(X)))


def _means(X: FloatArray) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        means: Array = X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(means).all():  # sums of huge numbers
        means = (X / np.float64(len(X))).sum(axis=0)
    return means


def _counted(weights: Any, n_rows: int) -> NDArray[np.intp] | slice:
    """Return the rows whose weight is not 0; all if that is so of none."""
    if weights is None:
        return slice(None)
    rows = np.flatnonzero(check_weights(weights, n_rows, some=False))
    return rows if 0 < rows.size < n_rows else slice(None)


def _view(X: Any, names: Sequence[str], texts: Sequence[str] = ()) -> TableView:
    """Look at rows column by column, under the names of the model's columns.

    Parameters
    ----------
    X : frame or array of shape (n_rows, n_features)
        Rows.
    names : sequence of str
        Of the columns.
    texts : sequence of str, default=()
        Those that hold text, also where it looks like numbers.
    """
    if is_frame(X):
        view = view_table(X)
        return view if view.names == names else _renamed(view, names)
    array = np.asarray(X)
    columns = dict(zip(names, array.T, strict=True))
    if array.dtype.kind in "US":  # in which numbers are text, too
        columns = {n: c if n in set(texts) else _parsed(c) for n, c in columns.items()}
    return view_table(columns)


def _parsed(column: NDArray[Any]) -> NDArray[Any]:
    try:
        return column.astype(np.float64)
    except ValueError:
        return column


def _renamed(view: TableView, names: Sequence[str]) -> TableView:
    """Look at a view under other names."""
    sources = dict(zip(names, view.names, strict=True))
    return TableView(
        names=list(names),
        n_rows=view.n_rows,
        column=lambda name: view.column(sources[name]),
        slice=lambda start, stop: _renamed(view.slice(start, stop), names),
    )


# -- estimators ------------------------------------------------------------------------------------


class Estimator(BaseEstimator):
    """Base of all estimators: takes rows or tables, explains itself, and is stored in files."""

    n_features_in_: int
    categorical_features: Any
    #: What becomes of the columns; None where rows go in as they are.
    _columns: Columns | None = None
    #: Means of columns that went in as they are, which take the place of gaps in later rows.
    _means: Array | None = None
    #: Column of groups in a table, which is no input.
    _left_out: str | None = None
    #: What the columns of the tables are that it was trained on; None if rows came without targets.
    roles_: Roles | None = None
    #: How quantities were written that it learned, if they are dates or text such as ``$1,200``.
    target_form_: TargetForm | None = None
    #: Importances as they were found last, and of which function.
    _importances: Importances | None = None
    #: Whether arrays may be mapped from a file for reading (``all_or_nothing`` copies them then).
    _unpickled = False
    #: Whether rows may be tables; else they must be numbers.
    _takes_tables: ClassVar[bool] = False

    @property
    def preprocessor_(self) -> TablePreprocessor | None:
        """How columns became inputs; None if rows went in as they are, or come as a stream."""
        if not hasattr(self, "n_features_in_"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        return self._columns if isinstance(self._columns, TablePreprocessor) else None

    @property
    def audit_(self) -> TableAudit:
        """What each column of the first rows is, and what became of it."""
        columns = self.preprocessor_
        if columns is None:
            why = (
                "rows of numbers without gaps went in as they are"
                if self._columns is None
                else "columns of a stream are looked at row by row"
            )
            raise AttributeError(f"This {type(self).__name__} has no `audit_`: {why}.")
        leaks = {} if self.roles_ is None else self.roles_.leaks
        return audit_of(columns, column_names(self), leaks)

    @property
    def n_inputs_(self) -> int:
        """Inputs that the columns become."""
        return self.n_features_in_ if self._columns is None else self._columns.n_features_out_

    def _checked_rows(
        self,
        X: Any,
        *y: Any,
        first: bool,
        gaps: bool,
        learns: bool = True,
        weights: Any = None,
        **options: Any,
    ) -> Any:
        """Return rows as inputs, and targets if there are any.

        Parameters
        ----------
        X : array-like, frame or CSR matrix of shape (n_rows, n_features)
            As they were given.
        *y : array-like
            Targets.
        first : bool
            Whether these rows say what the columns are.
        gaps : bool
            Whether the function knows what to do with NaN.
        learns : bool
            Whether the rows are to be learned.
        weights : array-like of shape (n_rows,) or None
            Of the rows; those of weight 0 say nothing of the columns.
        **options : dict
            Checks of the targets.
        """
        if not self._takes_tables and (first or self._columns is None):
            finite = "allow-nan" if gaps else True
            checks = {**_CHECKS, **options, "ensure_all_finite": finite}
            return numeric_rows(self, X, *y, reset=first, **checks)
        if self._left_out is not None and not first and is_frame(X):
            X = without_column(X, self._left_out)
        y = _plain(self, y, options, first=first)
        if options.get("y_numeric"):
            _refuse_text(self, y)
        if first:
            found = self._first_rows(_as_rows(X), y, gaps, weights, options)
        else:
            found = self._later_rows(X, y, gaps, learns, options)
        return found if y else found[0]

    def _first_rows(
        self, X: Any, y: Sequence[Any], gaps: bool, weights: Any, options: dict[str, Any]
    ) -> Any:
        """Decide what becomes of the columns."""
        self._columns = self._means = self.roles_ = None
        rows, is_plain = X, _are_numbers(X)
        if is_plain:
            rows, *y = _numbers(self, X, y, reset=True, **options)
        else:
            validate_data(self, X, skip_check_array=True)
        names = column_names(self)
        named = named_columns(self.categorical_features, names, hasattr(self, "feature_names_in_"))
        if is_plain and not named and (gaps or not _has_gaps(rows)):
            if isinstance(rows, np.ndarray) and not gaps:
                self._means = _means(rows[_counted(weights, len(rows))])
            return rows, *y
        if is_plain and not gaps and rows.shape[0] == 1 and _has_gaps(rows):
            raise ValueError(
                "Input X contains NaN, and a first row alone does not tell what takes its place. "
                "Begin with a row without gaps, or with several rows."
            )
        if sparse.issparse(rows):
            raise ValueError(
                "`categorical_features` are for dense rows, and these are sparse. Leave it out, or "
                "use `toarray()`."
            )
        view = _view(X if is_frame(X) else rows, names)
        y = _targets(self, view, y, options)
        if gaps:
            self._columns = StreamColumns(named).grown(view)
        else:
            dtype = "float32" if is_plain and rows.dtype == np.float32 else "auto"
            told = _told(y, quantities=options.get("y_numeric", False))
            some, counted = view, _counted(weights, view.n_rows)
            if isinstance(counted, np.ndarray):
                some, told = chosen_rows(view, counted), None if told is None else told[counted]
            self._columns = measured(some, told, named, dtype)
        return self._encoded(view, gaps, learned=True), *y

    def _later_rows(
        self, X: Any, y: Sequence[Any], gaps: bool, learns: bool, options: dict[str, Any]
    ) -> Any:
        """Read rows as the first ones were."""
        columns = self._columns
        if columns is None:
            X = _as_rows(X)
            try:
                rows, *y = _numbers(self, X, y, reset=False, **options)
            except (TypeError, ValueError):
                if not _are_numbers(X):  # say where, and what to do
                    number_block(_view(X, column_names(self)), column_names(self))
                raise
            return (rows if gaps else self._filled(rows)), *y
        view = self._later_view(X)
        y = _targets(self, view, y, options)
        if learns and isinstance(columns, StreamColumns):
            self._columns = columns.grown(view)
        return self._encoded(view, gaps, learned=learns), *y

    def _later_view(self, X: Any) -> TableView:
        """Look at rows column by column, which are those of the first ones."""
        columns = self._columns
        if self.roles_ is not None and isinstance(columns, TablePreprocessor) and is_table(X):
            return own_view(columns, X)
        if sparse.issparse(X):
            raise ValueError(
                "This model learned columns with gaps or categories, and these rows are a sparse "
                "matrix. Use `toarray()`, or a DataFrame."
            )
        X = _as_rows(X)
        if not is_frame(X):
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return _view(X, column_names(self), [] if columns is None else columns.text_columns_)

    def _encoded(self, view: TableView, gaps: bool, *, learned: bool) -> FloatArray:
        """Encode rows, and check that numbers of their type can hold them."""
        columns = self._columns
        assert columns is not None
        if learned or not isinstance(columns, TablePreprocessor):
            inputs: Any = columns.transform(view, extra="drop", learned=learned)
        else:
            inputs = lenient_inputs(columns, view)
        checked: FloatArray = finite_or_where(
            lambda: check_array(
                inputs,
                dtype=_CHECKS["dtype"],
                ensure_all_finite="allow-nan" if gaps else True,
                estimator=self,
                input_name="X",
            ),
            view,
        )
        return checked

    def _encoded_row(self, row: NDArray[Any]) -> FloatArray:
        """Return the inputs of a row, an array of shape (1, n_features)."""
        columns = self._columns
        assert columns is not None
        inputs: FloatArray = columns.transform(
            _view(row, column_names(self), columns.text_columns_)
        )[0]
        return inputs

    def in_numbers(self, y: Any, *, first: bool = False) -> Any:
        """Return targets as they are learned: dates as days since 1970, say; numbers as they are.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Targets, written as those that were learned.
        first : bool, default=False
            Whether these say how targets are written.

        Raises
        ------
        ValueError
            If one is written in another way.
        """
        if first:
            self.target_form_ = form_of(y)
        return y if self.target_form_ is None else quantities_of(self.target_form_, y)

    def as_written(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what numbers mean that were predicted: dates, if such were learned.

        Parameters
        ----------
        values : ndarray
            Numbers, as ``scores`` and explanations have them.
        """
        return values if self.target_form_ is None else self.target_form_.answers(values)

    def _filled(self, X: Any) -> Any:
        """Put means in the place of gaps."""
        if not _has_gaps(X):
            return X
        if self._means is None:
            raise ValueError(
                "Input X contains NaN, but nothing is known of the means of the columns: the rows "
                "that this model learned had no gaps, and were sparse. Impute them before."
            )
        return np.where(np.isnan(X), self._means.astype(X.dtype), X)

    # -- explanations ----------------------------------------------------------------------------

    @abstractmethod
    def _explained(self) -> Explained:
        """Tell what explanations need; AttributeError if rows have no predictions."""

    @property
    def feature_importances_(self) -> Array:
        r"""How much the prediction varies with each column, as shares of 1.

        The share of column j is :math:`T_j / \sum_i T_i`, where

        .. math:: T_j = \tfrac12 E \bigl(f(x) - f(x_{-j}, x'_j)\bigr)^2

        over rows x and x' among those that the model keeps (1,024 at most): what the prediction
        changes, squared, if the value of the column is that of another row. It is the total effect
        of Sobol, by Jansen's estimate. f is the prediction, of a classifier the score of each
        class, which for losses with probabilities is a log-odds: probabilities of a classifier that
        is sure move in the few rows that flip only. Terms of several outputs are added up; several
        targets count the same, whatever their units.

        Inputs that are made of one column count together, and columns that are left out have 0. All
        are 0 for a constant function. No target is looked at: what matters to a poor model may be
        of no use.

        Shape (n_features_in_,), or of a table's model one for each of its
        ``feature_names_in_``. It is computed when asked for and kept until the function changes;
        ``feature_importances_errors_`` tells how far the shares may be off.

        Raises
        ------
        AttributeError
            If the model is not fitted, answers on pairs of rows only, or learned sparse rows, of
            which it keeps none.
        """
        return self._shares().effects.copy()

    @property
    def feature_importances_errors_(self) -> Array:
        """Standard errors of ``feature_importances_``: not all rows are compared with all others.

        They say how far the shares of this function may be off, not how far those of a function
        learned with another seed or from other rows would be.

        Raises
        ------
        AttributeError
            As ``feature_importances_``.
        """
        return self._shares().standard_errors.copy()

    def _shares(self) -> Effects:
        """Return importances and their standard errors."""
        from mercer.answers.explain import importances

        self._importances = importances(self._explained(), self._importances)
        return self._importances.shares

    def explain(
        self,
        X: Any,
        *,
        output: Any = None,
        background: Any = None,
        n_permutations: int = 2,
        random_state: Any = 0,
    ) -> Explanation:
        r"""Say what each column adds to the prediction for each row.

        Contributions are Shapley values. With the columns of a set S from the row and all others
        from a background row, a column adds what it changes on average over all orders in which
        columns go from the background row to the row; the mean over the background rows is its
        contribution. The baseline is the mean prediction for these, and baseline and contributions
        sum to the prediction.

        Orders are drawn, and each is gone through forward and backward: contributions are exact
        where columns act alone or in twos, and where few columns differ (up to 5 with the usual
        ``n_permutations``), and are off by about their ``standard_errors`` elsewhere.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features); a table for a table's model
            Rows to explain, dense.
        output : object, default=None
            What to explain of several outputs: the label of a class, a quantile level, the number
            of a target. By default of two classes the second, of more for each row the one that is
            predicted, and of quantile levels the middle one. Of several targets it must be given.
        background : array-like, DataFrame or table, default=None
            Rows to compare with. By default up to 100 of those that the model has learned and
            keeps, fewer (down to 16) of more than 80 columns.
        n_permutations : int, default=2
            Orders of the columns for each background row.
        random_state : int, RandomState instance or None, default=0
            Seed of the orders.

        Returns
        -------
        explanation : Explanation
            Contributions in units of the prediction; of a classifier of the probability, or of the
            score if its loss has no probabilities.

        Raises
        ------
        AttributeError
            If the model is not fitted, or answers on pairs of rows only.
        ValueError
            For rows that the model cannot predict for, an output that is not there, or if there
            are no rows to compare with.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
        >>> model = KernelRegressor(random_state=0).fit(X, 2.0 * X[:, 0] - X[:, 1])
        >>> told = model.explain([[1.0, 0.0, 0.5]], background=np.zeros((1, 3)))
        >>> np.round(told.contributions, 1) + 0.0
        array([[2., 0., 0.]])
        """
        from mercer.answers.explain import explanation

        return explanation(
            self._explained(),
            X,
            output=output,
            background=background,
            n_permutations=n_permutations,
            random_state=random_state,
        )

    def partial_dependence(
        self,
        feature: Any,
        *,
        grid: Any = None,
        grid_size: int = 40,
        output: Any = None,
        background: Any = None,
    ) -> Dependence:
        """Say how the prediction depends on one column, all others being as they are.

        Each background row is given each value of the grid in turn; the curve is the mean of the
        predictions, and those of the single rows are kept, too. Where columns go together, some of
        the rows are such as there are none.

        Parameters
        ----------
        feature : str or int
            Name or number of the column. Of a date "when" the names "when:hour", "when:weekday",
            "when:day" and "when:day_of_year" are its parts, where it has them; where dates of the
            grid are a day apart or more, rows keep their own times of the day, if they are weeks
            apart their weekdays, too, and if years apart their days of the year.
        grid : array-like, default=None
            Values of the column, in its own units: categories, numbers or times. By default those
            that background rows have if these are few, else equally spaced numbers from the 2.5 %
            to the 97.5 % quantile; of categories the most frequent ones.
        grid_size : int, default=40
            Largest number of values.
        output : object, default=None
            As for :meth:`explain`; without it, of more than two classes one must be named.
        background : array-like, DataFrame or table, default=None
            Rows whose predictions are averaged; those that the model keeps by default.

        Returns
        -------
        dependence : Dependence
            Values and curves, in units of the prediction.

        Raises
        ------
        AttributeError
            If the model is not fitted, or answers on pairs of rows only.
        ValueError
            If the column or the output is not there, is text and ``grid`` is not given, or if there
            are no rows.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
        >>> model = KernelRegressor(random_state=0).fit(X, X[:, 0] ** 2)
        >>> curve = model.partial_dependence(0, grid=[-0.5, 0.0, 0.5])
        >>> np.round(curve.values, 2) + 0.0
        array([0.25, 0.  , 0.25])
        """
        from mercer.answers.explain import dependence

        return dependence(
            self._explained(),
            feature,
            grid=grid,
            grid_size=grid_size,
            output=output,
            background=background,
        )

    # -- files -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("_unpickled", "_conformal"):  # which can be found again
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._unpickled = True
        self.__dict__.pop("_tuned", None)  # a single row must not go past what looks for the mark

    def save(self, path: Any) -> None:
        """Write the model to a file: data only, check-summed, atomically replaced.

        Parameters
        ----------
        path : str or path-like
            Where to write. :func:`mercer.load_model` reads it back, and learning may go on there
            bit for bit.

        Raises
        ------
        ValueError
            If the model is not fitted, or a part (a user's function, say) cannot be stored without
            code.
        OSError
            If the file cannot be written.
        """
        save_model(self, path)


def _refuse_text(estimator: Any, y: Sequence[Any]) -> None:
    """Raise ``ValueError`` if quantities are text that is no number."""
    for targets in y:
        cells = np.asarray(targets, dtype=object if isinstance(targets, list | tuple) else None)
        if cells.dtype.kind not in "USO":
            continue
        texts = (str(cell) for cell in cells.flat if isinstance(cell, str))
        text = next((one for one in texts if not is_number(one)), None)
        if text is not None:
            raise ValueError(
                f"y holds text, such as {text!r}, but a {type(estimator).__name__} learns "
                "quantities. For classes use KernelClassifier; else convert y to numbers."
            )


def _plain(
    estimator: Any, y: Sequence[Any], options: Mapping[str, Any], *, first: bool
) -> tuple[Any, ...]:
    """Return targets, if there are any, in NumPy's types; None is left to the check."""
    quantities = bool(options.get("y_numeric"))
    if first:
        estimator.target_form_ = None
    if quantities:
        y = [estimator.in_numbers(one, first=first) for one in y]
    return tuple(plain_targets(one, quantities=quantities) for one in y)


def column_names(estimator: Any) -> list[str]:
    """Names of the columns of an estimator's rows: x0, x1, ... where they came without."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{number}" for number in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def _twin(model: Any) -> Any:
    """Return another object with the same attributes: what learns is shared."""
    twin: Any = object.__new__(type(model))
    vars(twin).update(vars(model))
    return twin


def answering_numbers(model: Any) -> Any:
    """Return a model that answers numbers where this one answers dates; any other one itself.

    Parameters
    ----------
    model : estimator
        A model, or a Pipeline that ends in one.
    """
    *before, (name, last) = getattr(model, "steps", None) or [("", model)]
    if getattr(last, "target_form_", None) is None:
        return model
    twin = _twin(last)
    twin.target_form_ = None
    if last is model:
        return twin
    answering = _twin(model)
    answering.steps = [*before, (name, twin)]
    return answering


def without_columns(model: Any) -> Any:
    """Copy a fitted model; the copy takes arrays of the inputs that its columns became."""
    bare = _twin(model)
    for name in ("feature_names_in_", "roles_", "target_form_"):
        vars(bare).pop(name, None)
    if getattr(model, "_columns", None) is not None:
        bare.n_features_in_, bare._columns = model.n_inputs_, None
    return bare


def with_columns(bare: Any, columns: TablePreprocessor, roles: Roles) -> Any:
    """Inverse of :func:`without_columns`: a copy that takes tables, and knows what they held.

    Parameters
    ----------
    bare : estimator
        That learned inputs as ``columns`` make them, or nothing yet.
    columns : TablePreprocessor
        How columns became inputs.
    roles : Roles
        What else was in the tables.
    """
    model = _twin(bare)
    model._columns, model.roles_, model._means = columns, roles, None
    model.feature_names_in_ = np.array(columns.feature_names_in_, dtype=object)
    model.n_features_in_ = len(model.feature_names_in_)
    return model


def _numbers(estimator: Any, X: Any, y: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Check rows of numbers, dense ones with gaps or not, and targets if there are any."""
    checks = {**_CHECKS, **options, "ensure_all_finite": "allow-nan"}
    found = finite_or_where(lambda: validate_data(estimator, X, *y, **checks), X, *y)
    rows = found[0] if y else found
    if sparse.issparse(rows) and np.isnan(rows.data).any():
        finite_or_where(lambda: check_array(rows, accept_sparse="csr", input_name="X"), rows)
    return found if y else (rows,)


def _targets(
    estimator: Any, view: TableView, y: Sequence[Any], options: Mapping[str, Any]
) -> Sequence[Any]:
    """Check the targets of rows, if there are any, before what they tell is looked at."""
    if not y:
        return ()
    rows = np.zeros((view.n_rows, 1))
    checked: tuple[Any, ...] = finite_or_where(
        lambda: check_X_y(rows, *y, estimator=estimator, **options), rows, *y
    )
    return checked[1:]


def _told(y: Sequence[Any], *, quantities: bool) -> NDArray[Any] | None:
    """Return targets as a preprocessor takes them: float64 for quantities only."""
    if not y:
        return None
    targets = np.asarray(y[0])
    if quantities:
        targets = targets.astype(np.float64)
        return targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    return targets.astype(object) if targets.dtype.kind == "f" else targets


def numeric_rows(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Check rows of an estimator that takes numbers only, and say what to do with others.

    Parameters
    ----------
    estimator : estimator
        Whose rows they are.
    X : array-like, frame or CSR matrix of shape (n_rows, n_features)
        Rows.
    *y : array-like
        Targets, if there are any.
    **options : dict
        As for :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    rows : ndarray or CSR matrix, or with targets a tuple of these
        As that function returns them.

    Raises
    ------
    ValueError
        If rows or targets are unusable.
    """
    first = options.get("reset", True)
    y = _plain(estimator, y, options, first=first)
    if getattr(estimator, "_columns", None) is not None:
        if first:
            estimator._columns = estimator.roles_ = None
        else:
            view = estimator._later_view(X)
            X = estimator._encoded(view, False, learned=bool(y))
            estimator = without_columns(estimator)
    try:
        return finite_or_where(lambda: validate_data(estimator, X, *y, **options), X, *y)
    except (TypeError, ValueError) as error:
        text = _first_text(_as_rows(X))
        if text is None:
            raise
        raise ValueError(
            f"There is text in the rows, first {text!r}, but a {type(estimator).__name__} learns "
            "numbers. Encode the columns with mercer.columns.TablePreprocessor, or train on files, "
            "which does so."
        ) from error


def _first_text(X: Any) -> str | None:
    """Return the first text among the cells of rows that is no number."""
    if _are_numbers(X):
        return None
    if is_frame(X):
        view = view_table(X)
        columns = [view.column(name) for name in view.names]
        cells: Any = [c.first() for c in columns if isinstance(c, Levels) and not c.boolean]
    else:
        cells = np.ravel(X)
    return next((str(one) for one in cells if isinstance(one, str) and not is_number(one)), None)
