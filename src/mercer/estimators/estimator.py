"""Base class of all estimators: input rows, explanations and files.

Rows are arrays, lists, sparse matrices or tables. Numbers without missing values are used as they
are. In other tables each column is encoded by what it holds, see :mod:`mercer.estimators.inputs`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from mercer.columns import TablePreprocessor
from mercer.columns.audit import TableAudit
from mercer.columns.readings import TargetForm
from mercer.columns.target_means import codes_among
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
from mercer.estimators.inputs import (
    Columns,
    Roles,
    StreamColumns,
    audit_of,
    check_weights,
    finite_or_where,
    lenient_inputs,
    measured,
    named_columns,
    own_view,
    without_column,
)
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
    """Return whether all columns of a frame hold numbers or booleans, by their types."""
    if hasattr(X, "iloc"):
        from pandas.api.types import is_numeric_dtype

        return all(map(is_numeric_dtype, X.dtypes))
    if hasattr(X, "column_names"):
        from pyarrow import types

        kinds = types.is_integer, types.is_floating, types.is_boolean
        return all(any(kind(one) for kind in kinds) for one in X.schema.types)
    return all(one.is_numeric() or str(one) == "Boolean" for one in X.dtypes)


def _dense(X: Any) -> Any:
    """Return a frame with sparse columns made dense, unless all are sparse and mostly 0."""
    fills = [getattr(one, "fill_value", None) for one in getattr(X, "dtypes", ())]
    if all(fill == 0 for fill in fills) or not any(hasattr(d, "fill_value") for d in X.dtypes):
        return X
    plain = {i: d.subtype for i, d in enumerate(X.dtypes) if hasattr(d, "fill_value")}
    return X.set_axis(range(X.shape[1]), axis=1).astype(plain).set_axis(X.columns, axis=1)


def _as_rows(X: Any) -> Any:
    """Return rows in a form that keeps the types of cells; NumPy would turn mixed lists into text.

    Raises
    ------
    TypeError
        For dicts, and for lazy frames.
    ValueError
        For frames in which two columns have the same name.
    """
    if is_frame(X):
        if hasattr(X, "iloc"):  # pandas; other libraries refuse duplicate names themselves
            view_table(X)
        return _dense(X) if hasattr(X, "iloc") else X
    if sparse.issparse(X):
        return X  # scipy's DOK matrices are dicts
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
        except ValueError:  # rows of different lengths; the later check reports them
            return X
        return np.asarray(X, dtype=object) if array.dtype.kind in "USOMm" else array
    return X


def _are_numbers(X: Any) -> bool:
    """Return whether rows hold only numbers or NaN; True for what only the later check refuses."""
    if sparse.issparse(X):
        return True
    if is_frame(X):
        return _has_numbers(X)
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind not in ("U", "S", "O", "M", "m") or np.ndim(X) != 2:
        return True
    try:
        np.asarray(X).astype(np.float64) if kind in "USO" else None
    except (ValueError, TypeError, OverflowError):
        return False
    return kind in "USO"


def _has_gaps(X: Any) -> bool:
    """Return whether checked rows contain NaN."""
    return isinstance(X, np.ndarray) and bool(np.isnan(np.min(X)))


def _means(X: FloatArray) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        means: Array = X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(means).all():  # the sum of huge numbers overflowed
        means = (X / np.float64(len(X))).sum(axis=0)
    return means


def _counted(weights: Any, n_rows: int) -> NDArray[np.intp] | slice:
    """Return the rows whose weight is not 0; all rows if every weight is 0."""
    if weights is None:
        return slice(None)
    rows = np.flatnonzero(check_weights(weights, n_rows, some=False))
    return rows if 0 < rows.size < n_rows else slice(None)


def _view(X: Any, names: Sequence[str], texts: Sequence[str] = ()) -> TableView:
    """View rows as a table under the column names of the model.

    Parameters
    ----------
    X : frame or array of shape (n_rows, n_features)
        Rows.
    names : sequence of str
        Names of the columns.
    texts : sequence of str, default=()
        Columns to keep as text even where it looks like numbers.
    """
    if is_frame(X):
        view = view_table(X)
        return view if view.names == names else _renamed(view, names)
    array = np.asarray(X)
    columns = dict(zip(names, array.T, strict=True))
    if array.dtype.kind in "US":  # NumPy turned the numbers into text, too
        kept = set(texts)
        columns = {n: c if n in kept else _parsed(c) for n, c in columns.items()}
    return view_table(columns)


def _parsed(column: NDArray[Any]) -> NDArray[Any]:
    try:
        return column.astype(np.float64)
    except ValueError:
        return column


def _renamed(view: TableView, names: Sequence[str]) -> TableView:
    """Return a table view under other column names."""
    if len(view.names) != len(names):
        raise ValueError(
            f"These rows have {len(view.names)} columns, but the model has learned {len(names)}. "
            "Give those that it learned."
        )
    sources = dict(zip(names, view.names, strict=True))
    return TableView(
        names=list(names),
        n_rows=view.n_rows,
        column=lambda name: view.column(sources[name]),
        slice=lambda start, stop: _renamed(view.slice(start, stop), names),
    )


def not_fitted(model: Any) -> NotFittedError:
    """Return the error of a model that has learned nothing; it is an AttributeError, too."""
    return NotFittedError(f"This {type(model).__name__} is not fitted yet: call `fit` first.")


# -- estimators ------------------------------------------------------------------------------------


class Estimator(BaseEstimator):
    """Base class of all estimators: takes rows or tables, explains predictions, saves to files."""

    n_features_in_: int
    categorical_features: Any
    #: Encoder of the columns; None if rows are used as they are.
    _columns: Columns | None = None
    #: Means of unencoded columns, which fill missing values in later rows.
    _means: Array | None = None
    #: Name of the column of groups in a table, which is not an input.
    _left_out: str | None = None
    #: Meaning of the columns of the training tables; None if rows came without targets.
    roles_: Roles | None = None
    #: How the learned quantities were written, if as dates or text such as ``$1,200``.
    target_form_: TargetForm | None = None
    #: Importances computed last, with a mark of the function that they belong to.
    _importances: Importances | None = None
    #: Whether arrays may be mapped read-only from a file (``all_or_nothing`` then copies them).
    _unpickled = False
    #: Whether rows are encoded by somebody who reads tables.
    _learns_encoded = False
    #: Whether rows may be tables; otherwise they must be numbers.
    _takes_tables: ClassVar[bool] = False

    @property
    def preprocessor_(self) -> TablePreprocessor | None:
        """Encoder of the columns; None if rows are used as they are, or come as a stream."""
        if not hasattr(self, "n_features_in_"):
            raise not_fitted(self)
        return self._columns if isinstance(self._columns, TablePreprocessor) else None

    @property
    def audit_(self) -> TableAudit:
        """What each column of the first rows holds, and how it was encoded."""
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
        """Number of inputs after encoding the columns."""
        return self.n_features_in_ if self._columns is None else self._columns.n_features_out_

    def _checked_rows(
        self,
        X: Any,
        *y: Any,
        first: bool,
        gaps: bool,
        learns: bool = True,
        weights: Any = None,
        codes: bool = False,
        **options: Any,
    ) -> Any:
        """Return rows encoded as inputs, and targets if there are any.

        Parameters
        ----------
        X : array-like, frame or CSR matrix of shape (n_rows, n_features)
            Rows as the user gave them.
        *y : array-like
            Targets.
        first : bool
            Whether these rows determine how columns are encoded.
        gaps : bool
            Whether the function accepts NaN.
        learns : bool
            Whether the rows will be learned.
        weights : array-like of shape (n_rows,) or None
            Weights of the rows; rows of weight 0 do not influence the encoding.
        codes : bool
            Whether to look for columns of numbers that are codes in the first rows.
        **options : dict
            Options of the check of the targets.
        """
        if not self._takes_tables and (first or self._columns is None):
            finite = "allow-nan" if gaps else True
            checks = {**_CHECKS, **options, "ensure_all_finite": finite}
            return numeric_rows(self, X, *y, reset=first, **checks)
        if self._left_out is not None and not first and is_frame(X):
            X = without_column(X, self._left_out)
        y = _plain(self, y, options, first=first)
        if first:
            found = self._first_rows(_as_rows(X), y, gaps, weights, codes, options)
        else:
            found = self._later_rows(X, y, gaps, learns, options)
        return found if y else found[0]

    def _first_rows(
        self,
        X: Any,
        y: Sequence[Any],
        gaps: bool,
        weights: Any,
        codes: bool,
        options: dict[str, Any],
    ) -> Any:
        """Determine from the first rows how columns are encoded, and encode them."""
        self._columns = self._means = self.roles_ = None
        rows, is_plain = X, _are_numbers(X)
        if is_plain:
            rows, *y = _numbers(self, X, y, reset=True, **options)
        else:
            validate_data(self, X, skip_check_array=True)
        names = column_names(self)
        named = named_columns(self.categorical_features, names, hasattr(self, "feature_names_in_"))
        quantities = options.get("y_numeric", False)
        codes &= isinstance(self.categorical_features, str) and not self._learns_encoded
        found: set[str] | None = None if codes else set()  # None: not looked for yet
        plain = is_plain and not named and (gaps or not _has_gaps(rows))
        if plain and not gaps and isinstance(rows, np.ndarray):
            some = _counted(weights, len(rows))
            self._means = _means(rows[some])
            told = _told(y, quantities=quantities) if codes else None
            if told is not None:
                inputs = dict(zip(names, rows[some].T, strict=True))
                found = codes_among(inputs, lambda: inputs, told[some])
                plain = not found
        if plain:
            return rows, *y
        self._means = None
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
            told = _told(y, quantities=quantities)
            chosen, counted = view, _counted(weights, view.n_rows)
            if isinstance(counted, np.ndarray):
                chosen, told = chosen_rows(view, counted), None if told is None else told[counted]
            self._columns = measured(chosen, told, named, dtype, found)
        return self._encoded(view, gaps, learned=True), *y

    def _later_rows(
        self, X: Any, y: Sequence[Any], gaps: bool, learns: bool, options: dict[str, Any]
    ) -> Any:
        """Encode rows in the same way as the first ones."""
        columns = self._columns
        if columns is None:
            X = _as_rows(X)
            try:
                rows, *y = _numbers(self, X, y, reset=False, **options)
            except (TypeError, ValueError):
                if not _are_numbers(X):  # raises an error that names the cell and the remedy
                    number_block(_view(X, column_names(self)), column_names(self))
                raise
            return (rows if gaps else self._filled(rows)), *y
        view = self._later_view(X)
        y = _targets(self, view, y, options)
        if learns and isinstance(columns, StreamColumns):
            self._columns = columns.grown(view)
        return self._encoded(view, gaps, learned=learns), *y

    def _later_view(self, X: Any) -> TableView:
        """View later rows as a table with the columns of the first rows."""
        columns = self._columns
        if self.roles_ is not None and isinstance(columns, TablePreprocessor) and is_table(X):
            return own_view(columns, X)
        if sparse.issparse(X):
            raise ValueError(
                "This model learned columns with gaps, categories or codes, and these are a sparse "
                "matrix. Use `toarray()`, or a DataFrame."
            )
        X = _as_rows(X)
        if not is_frame(X):
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return _view(X, column_names(self), [] if columns is None else columns.text_columns_)

    def _encoded(self, view: TableView, gaps: bool, *, learned: bool) -> FloatArray:
        """Encode rows, and check that the values fit the number type of the inputs."""
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
        """Return the inputs of one row, shape (1, n_features)."""
        columns = self._columns
        assert columns is not None
        inputs: FloatArray = columns.transform(
            _view(row, column_names(self), columns.text_columns_)
        )[0]
        return inputs

    def in_numbers(self, y: Any, *, first: bool = False) -> Any:
        """Convert targets to the numbers that are learned, such as dates to days since 1970.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Targets, written like the learned ones; numbers are returned unchanged.
        first : bool, default=False
            Whether these targets determine how targets are written.

        Raises
        ------
        ValueError
            If a target is written in another way.
        """
        if first:
            self.target_form_ = form_of(y)
        return y if self.target_form_ is None else quantities_of(self.target_form_, y)

    def as_written(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert predicted numbers back to dates, if dates were learned.

        Parameters
        ----------
        values : ndarray
            Numbers, as in ``scores`` and explanations.
        """
        return values if self.target_form_ is None else self.target_form_.answers(values)

    def _filled(self, X: Any) -> Any:
        """Replace missing values by means."""
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
        """Return what explanations need; AttributeError if rows have no predictions."""

    @property
    def feature_importances_(self) -> Array:
        r"""Share of each column in how much the prediction varies; the shares sum to 1.

        The share of column j is :math:`T_j / \sum_i T_i`, where

        .. math:: T_j = \tfrac12 E \bigl(f(x) - f(x_{-j}, x'_j)\bigr)^2

        over rows x and x' among at most 1,024 rows that the model keeps: half the mean squared
        change of the prediction when the column takes its value from another row. This is the total
        effect of Sobol, estimated as by Jansen. f is the prediction; for a classifier, the score of
        each class, which is a log-odds for losses with probabilities (probabilities of a confident
        classifier change only in the few rows that flip). Effects on several outputs are added;
        several targets count the same, whatever their units.

        Inputs encoded from one column count together; columns left out have share 0, and so have
        all columns of a constant function. Targets are not used, so a column that matters to a poor
        model may be useless.

        Shape (n_features_in_,), or for a model of a table one entry for each of its
        ``feature_names_in_``. Computed on first use and kept until the function changes;
        ``feature_importances_errors_`` estimates the error of the shares.

        Raises
        ------
        AttributeError
            If the model is not fitted, predicts only for pairs of rows, or learned sparse rows,
            none of which it keeps.
        """
        return self._shares().effects.copy()

    @property
    def feature_importances_errors_(self) -> Array:
        """Standard errors of ``feature_importances_``, which come from comparing only some rows.

        They concern this fitted function, not how shares would differ with another seed or other
        rows.

        Raises
        ------
        AttributeError
            As ``feature_importances_``.
        """
        return self._shares().standard_errors.copy()

    def _shares(self) -> Effects:
        """Return importances with their standard errors."""
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
        r"""Explain predictions: return the contribution of each column, for each row.

        Contributions are Shapley values relative to background rows. Starting from a background
        row, columns are replaced one after the other by the values of the explained row. The
        contribution of a column is the change that it causes, averaged over all orders of the
        columns and over the background rows. The baseline is the mean prediction for the background
        rows; baseline and contributions sum to the prediction.

        Orders are sampled, and each is used forward and backward. Contributions are therefore exact
        if the function has interactions of at most two columns, or if few columns differ (up to 5
        with the default ``n_permutations``). Otherwise their error is about their
        ``standard_errors``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features); a table for a table's model
            Dense rows to explain.
        output : object, default=None
            Output to explain: label of a class, quantile level, or number of a target. Default: the
            second of two classes, the class predicted for each row if there are more, the middle
            quantile level. Required for several targets.
        background : array-like, DataFrame or table, default=None
            Rows to compare with. Default: up to 100 of the learned rows that the model keeps, and
            fewer (down to 16) with more than 80 columns.
        n_permutations : int, default=2
            Orders of the columns for each background row.
        random_state : int, RandomState instance or None, default=0
            Seed for the orders.

        Returns
        -------
        explanation : Explanation
            Contributions in units of the prediction; for classifiers, of the probability, or of the
            score if the loss has no probabilities.

        Raises
        ------
        AttributeError
            If the model is not fitted, or predicts only for pairs of rows.
        ValueError
            For rows that the model cannot predict for, an unknown output, or no rows to compare
            with.

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
        """Compute how the prediction depends on one column while all others keep their values.

        Each background row takes each grid value in turn. The curve is the mean prediction; the
        curves of single rows are kept too. If columns are correlated, some of the modified rows are
        unrealistic.

        Parameters
        ----------
        feature : str or int
            Name or number of the column. A date column "when" also has the parts "when:hour",
            "when:weekday", "when:day" and "when:day_of_year", if its dates vary in them. If grid
            dates are at least a day apart, rows keep their time of day; if weeks apart, also their
            weekday; if years apart, also their day of the year.
        grid : array-like, default=None
            Values of the column in its own unit: categories, numbers or times. Default: the values
            in the background rows if these are few, else equally spaced numbers from the 2.5 % to
            the 97.5 % quantile, or the most frequent categories.
        grid_size : int, default=40
            Largest number of grid values.
        output : object, default=None
            As for :meth:`explain`, but with more than two classes it must be given.
        background : array-like, DataFrame or table, default=None
            Rows whose predictions are averaged; default: rows that the model keeps.

        Returns
        -------
        dependence : Dependence
            Grid values and curves, in units of the prediction.

        Raises
        ------
        AttributeError
            If the model is not fitted, or predicts only for pairs of rows.
        ValueError
            If the column or output is unknown, if the column is text and there is no ``grid``, or
            if there are no background rows.

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
        for name in ("_unpickled", "_conformal"):  # recomputed when needed
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._unpickled = True
        self.__dict__.pop("_tuned", None)  # makes single rows check `_unpickled` first

    def save(self, path: Any) -> None:
        """Save the model to a file: data only, with a checksum, replaced atomically.

        Parameters
        ----------
        path : str or path-like
            File to write. :func:`mercer.load_model` reads it back; learning can continue there, bit
            for bit.

        Raises
        ------
        ValueError
            If the model is not fitted, or a part, such as a user's function, cannot be stored
            without code.
        OSError
            If the file cannot be written.
        """
        save_model(self, path)


def _refuse_text(estimator: Any, y: Sequence[Any]) -> None:
    """Raise ``ValueError`` if quantities are text that does not read as numbers."""
    for targets in y:
        cells = np.asarray(targets, dtype=object if isinstance(targets, list | tuple) else None)
        if cells.dtype.kind not in "USO":
            continue
        texts = (
            str(cell) if isinstance(cell, str) else cell.decode(errors="replace")
            for cell in cells.flat
            if isinstance(cell, str | bytes)
        )
        text = next((one for one in texts if not is_number(one)), None)
        if text is not None:
            raise ValueError(
                f"y holds text, such as {text!r}, but a {type(estimator).__name__} learns "
                "quantities. For classes use KernelClassifier; else convert y to numbers."
            )


def _plain(
    estimator: Any, y: Sequence[Any], options: Mapping[str, Any], *, first: bool
) -> tuple[Any, ...]:
    """Return targets in NumPy types; None is left to the later check."""
    quantities = bool(options.get("y_numeric"))
    if first:
        estimator.target_form_ = None
    if quantities:
        y = [estimator.in_numbers(one, first=first) for one in y]
    found = tuple(plain_targets(one, quantities=quantities) for one in y)
    if quantities:
        _refuse_text(estimator, found)
    return found


def column_names(estimator: Any) -> list[str]:
    """Return the column names of an estimator's rows; x0, x1, ... if the rows had no names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{number}" for number in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def _twin(model: Any) -> Any:
    """Return a shallow copy, which shares the learner."""
    twin: Any = object.__new__(type(model))
    vars(twin).update(vars(model))
    return twin


def answering_numbers(model: Any) -> Any:
    """Return a copy that predicts numbers where this model predicts dates; else the model itself.

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
    """Copy a fitted model; the copy takes the encoded inputs in place of tables."""
    bare = _twin(model)
    for name in ("feature_names_in_", "roles_", "target_form_"):
        vars(bare).pop(name, None)
    if getattr(model, "_columns", None) is not None:
        bare.n_features_in_, bare._columns = model.n_inputs_, None
    return bare


def with_columns(bare: Any, columns: TablePreprocessor, roles: Roles) -> Any:
    """Inverse of :func:`without_columns`: return a copy that takes tables and encodes them.

    Parameters
    ----------
    bare : estimator
        Estimator that learned inputs encoded by ``columns``, or nothing yet.
    columns : TablePreprocessor
        Encoder of the columns.
    roles : Roles
        Meaning of the other columns of the tables.
    """
    model = _twin(bare)
    vars(model).pop("_learns_encoded", None)
    model._columns, model.roles_, model._means = columns, roles, None
    model.feature_names_in_ = np.array(columns.feature_names_in_, dtype=object)
    model.n_features_in_ = len(model.feature_names_in_)
    return model


def _numbers(estimator: Any, X: Any, y: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Check numeric rows, which may be dense with missing values, and targets if there are any."""
    checks = {**_CHECKS, **options, "ensure_all_finite": "allow-nan"}
    found = finite_or_where(lambda: validate_data(estimator, X, *y, **checks), X, *y)
    rows = found[0] if y else found
    if sparse.issparse(rows) and np.isnan(rows.data).any():
        finite_or_where(lambda: check_array(rows, accept_sparse="csr", input_name="X"), rows)
    return found if y else (rows,)


def _targets(
    estimator: Any, view: TableView, y: Sequence[Any], options: Mapping[str, Any]
) -> Sequence[Any]:
    """Check the targets of rows, if there are any, before they are used."""
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
    """Check rows of an estimator that takes only numbers, with an error that helps for others.

    Parameters
    ----------
    estimator : estimator
        Estimator that gets the rows.
    X : array-like, frame or CSR matrix of shape (n_rows, n_features)
        Rows.
    *y : array-like
        Targets, if there are any.
    **options : dict
        As for :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    rows : ndarray or CSR matrix, or with targets a tuple of these
        Result of :func:`~sklearn.utils.validation.validate_data`.

    Raises
    ------
    ValueError
        If rows or targets are invalid.
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
    """Return the first cell that is text and not a number; None if there is none."""
    if _are_numbers(X):
        return None
    if is_frame(X):
        view = view_table(X)
        columns = [view.column(name) for name in view.names]
        cells: Any = [c.first() for c in columns if isinstance(c, Levels) and not c.boolean]
    else:
        cells = np.ravel(X)
    return next((str(one) for one in cells if isinstance(one, str) and not is_number(one)), None)
