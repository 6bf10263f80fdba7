r"""Which columns matter, what they add to a prediction, and how predictions depend on them.

All of it compares predictions for rows whose columns come from different rows, so that it needs
nothing but the function and some rows: every expansion goes the same way. A model tells by an
:class:`Explained` how columns become inputs and what is predicted for these; its public methods are
those of :class:`Explaining`. Formulas are in :mod:`mercer.numerics.attribution`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer.columns.column_grid import ColumnGrid, number_grid
from mercer.columns.views import listed
from mercer.estimators.kept_rows import KeptRows, rows_to_state, with_gaps
from mercer.numerics.attribution import Effects, shapley_values, total_effects
from mercer.numerics.philox import row_uniforms
from mercer.threads import jobs
from mercer.validation import check_integer, nearest

Array = NDArray[np.float64]
Rows = NDArray[np.floating]

# Rows that a model keeps, and the memory that they may take.
_KEPT, _KEPT_BYTES = 256, 2**20
# Rows that explanations compare with, and about how often they evaluate the function for a row.
_BACKGROUND, _LEAST, _EVALUATIONS = 100, 16, 2**15
# Rows that importances compare where there are more than those kept, and how well they are known:
# columns whose standard error is below this share of the largest one need no more pairs.
_RANKED, _ACCURACY = 1024, 0.01
_ROUNDING = 1e-9
_SAID = 4  # columns that an explanation shows by itself


# -- what comes of it ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each column adds to the predictions for some rows.

    ``baseline + contributions.sum(axis=1)`` is ``prediction`` to rounding.

    Attributes
    ----------
    contributions : ndarray of shape (n_samples, n_columns)
        What columns add, in units of the prediction.
    baseline : float or ndarray of shape (n_samples,)
        Mean prediction for the background rows; one for each row where rows have outputs of their
        own.
    prediction : ndarray of shape (n_samples,)
        What is predicted.
    standard_errors : ndarray of shape (n_samples, n_columns)
        How far contributions may be off, as not all orders of the columns were tried; 0 where they
        were.
    feature_names : list of str
        Names of the columns.
    output : object
        What is explained: the label of a class, a quantile level or the number of a target, or a
        list of them, one for each row; None where there is one output.
    quantity : str
        In words: "prediction", "probability" or "score".
    rows : object
        The rows as they were given.
    """

    contributions: Array
    baseline: Any
    prediction: Array
    standard_errors: Array
    feature_names: list[str]
    output: Any
    quantity: str
    rows: Any

    def __repr__(self) -> str:
        """Say what the first row's prediction is made of."""
        n_rows, n_columns = self.contributions.shape
        said = f"Explanation of {n_rows:,} row{'s' * (n_rows != 1)}, {n_columns:,} columns"
        if not n_rows:
            return said
        baseline = float(np.broadcast_to(self.baseline, self.prediction.shape)[0])
        adds = [f"{add:+.4g} ({name})" for name, add in self.largest(0, _SAID)]
        adds += ["..."] * (n_columns > len(adds))
        return f"{said}; {self.quantity} {self.prediction[0]:.4g} = {baseline:.4g} {' '.join(adds)}"

    def largest(self, row: int, n: int | None = None) -> list[tuple[str, float]]:
        """Return names and contributions of a row, those first that are furthest from 0.

        Parameters
        ----------
        row : int
            Number of the row.
        n : int or None, default=None
            At most so many; None for all.
        """
        mine = self.contributions[row]
        order = np.argsort(-np.abs(mine), kind="stable")[:n]
        return [(self.feature_names[i], float(mine[i])) for i in order]


@dataclass(frozen=True, eq=False)
class Dependence:
    """How predictions depend on one column, all others being as they are.

    Attributes
    ----------
    feature_name : str
        Name of the column.
    kind : {"number", "time", "category"}
        What its values are.
    grid : ndarray of shape (n_grid,)
        Values of the column, in its own units.
    values : ndarray of shape (n_grid,)
        Mean prediction for the background rows if all of them had this value.
    individual : ndarray of shape (n_background, n_grid)
        Predictions for each of these rows, whose mean that is.
    missing : float or None
        Mean prediction if the column had no value; None if it always had one, or where that is a
        category.
    output : object
        As :attr:`Explanation.output`.
    quantity : str
        In words: "prediction", "probability" or "score".
    background : ndarray or None
        Values that the background rows have in the column, each once (of more than 256 equally
        spaced ones); None of categories.
    parts : list of str
        Of a date: names of the parts of the calendar that the model looks at, too, such as
        "when:hour". They are features for ``partial_dependence``.
    """

    feature_name: str
    kind: str
    grid: NDArray[Any]
    values: Array
    individual: Array
    missing: float | None
    output: Any
    quantity: str
    background: NDArray[Any] | None = None
    parts: Sequence[str] = ()


# -- what a model tells ----------------------------------------------------------------------------


class Explained(NamedTuple):
    """A fitted model, as explanations see it.

    Attributes
    ----------
    values : callable
        From inputs of shape (n, n_inputs) to predictions of shape (n, n_outputs).
    owners : ndarray of shape (n_inputs,)
        Number of the column that each input is made of.
    names : list of str
        Names of the columns.
    encode : callable
        From rows as users have them to inputs.
    background : callable
        Returns some rows that were learned, as inputs, in random order; None if there are none. At
        most as many as are asked for, 256 if nothing is said.
    grid : callable
        From the number of a column, inputs, a size, values or None, and a part of the calendar or
        "" to a :class:`ColumnGrid`.
    outputs : list
        Labels of the outputs; [None] for a single one.
    default : int, "predicted" or None
        Output that is explained if none is named: always the same, for each row that with the
        largest value; None if there is no such.
    quantity : str
        What the values are, in words.
    in_units : bool
        Whether outputs have units of their own, which do not add up.
    scores : callable or None
        What importances look at instead of the values: from inputs to scores, of which one that is
        sure of itself says more than a probability near 1.
    """

    values: Callable[[Rows], Array]
    owners: NDArray[np.intp]
    names: list[str]
    encode: Callable[[Any], Any]
    background: Callable[..., Rows | None]
    grid: Callable[[int, Rows, int, Any, str], ColumnGrid]
    outputs: Sequence[Any]
    default: int | str | None
    quantity: str
    in_units: bool = False
    scores: Callable[[Rows], Array] | None = None

    def scaled(self, scale: float, shift: float) -> Explained:
        """Return the same with other units of the predictions."""
        values = self.values
        return self._replace(values=lambda X: values(X) * scale + shift)

    def chosen(self, output: Any, at_rows: Array) -> tuple[NDArray[np.intp], Any]:
        """Return the output to explain of each row, and what it is called.

        Raises
        ------
        ValueError
            If there is no such output, or several and none was named.
        """
        n, labels = len(at_rows), list(self.outputs)
        if output is None and self.default == "predicted":
            best = np.argmax(at_rows, axis=1)
            return best, [labels[i] for i in best]
        number = self.default if output is None else _place(output, labels)
        if number is None:
            said = "None" if output is None else f"{output!r}"
            raise ValueError(
                f"`output` must be one of {listed([*map(str, labels)])}, got {said}: one output "
                "is explained at a time, and this model has several. Name it."
                if len(labels) > 1
                else f"`output` must be None, got {said}: this model has one output. Leave it out."
            )
        return np.full(n, int(number)), labels[int(number)]


def _place(output: Any, labels: list[Any]) -> int | None:
    """Return the place of a label; of outputs that are numbered, text of the number will do."""
    for place, label in enumerate(labels):
        same = label is not None and (label == output or str(label) == str(output))
        if same:
            return place
    return None


def evenly(X: Rows, most: int, weights: Array | None = None) -> Rows:
    """Draw rows evenly, the same ones each time, in random order.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows.
    most : int
        At most so many.
    weights : ndarray of shape (n_rows,) or None, default=None
        Those of weight 0 are not drawn.
    """
    rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0.0)
    drawn: Rows = X[rows[np.argsort(row_uniforms(0, rows.size), kind="stable")[:most]]]
    return drawn


def kept_of(kept: KeptRows | None, X: Any, weights: Array) -> KeptRows | None:
    """Return a sample of the rows learned so far and some more; None of sparse rows.

    Parameters
    ----------
    kept : KeptRows or None
        Rows of before.
    X : ndarray or CSR matrix of shape (n, n_inputs)
        New rows.
    weights : ndarray of shape (n,)
        Their weights.
    """
    if not isinstance(X, np.ndarray):
        return None
    capacity = capacity_of(X.shape[1])
    if kept is None:
        kept = KeptRows.none(X.shape[1], X.dtype)
    return kept.extended(X, weights, capacity)


def capacity_of(n_inputs: int) -> int:
    """Return how many rows are kept."""
    return max(2, min(_KEPT, _KEPT_BYTES // (8 * max(1, n_inputs))))


def kept_to_state(kept: KeptRows | None) -> dict[str, Any]:
    """Return rows as plain data, ``{}`` if there are none.

    Examples
    --------
    >>> kept_to_state(kept_of(None, np.array([[np.nan, 2.0]]), np.ones(1)))["kept"]["gaps"]
    array([[ True, False]])
    """
    return {} if kept is None else {"kept": kept.to_state() | rows_to_state("rows", kept.rows)}


def kept_from_state(state: dict[str, Any] | None, n_inputs: int) -> KeptRows | None:
    """Inverse of :func:`kept_to_state`.

    Raises
    ------
    ValueError
        If they do not fit the inputs.
    """
    if state is None:
        return None
    arrays = {name: value for name, value in state.items() if name != "gaps"}
    kept = KeptRows.from_state(arrays, n_inputs, _KEPT)
    return kept._replace(rows=with_gaps(kept.rows, state.get("gaps")))


# -- methods ---------------------------------------------------------------------------------------


class Explaining:
    """``feature_importances_``, ``explain`` and ``partial_dependence``; not for direct use."""

    _importances: tuple[bytes, Effects] | None = None

    def _explained(self) -> Explained:
        """Tell what explanations need; AttributeError if rows have no predictions."""
        raise NotImplementedError

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
        explained = self._explained()
        rows = explained.background(_RANKED)
        if rows is None or len(rows) < 2:
            raise AttributeError(f"There are no `feature_importances_`: {_NO_ROWS}")
        values = explained.values if explained.scores is None else explained.scores
        with jobs(getattr(self, "n_jobs", None)):
            before = values(rows)
            key = before.tobytes()
            if self._importances is None or self._importances[0] != key:
                spread = before.std(axis=0)
                unit = spread if explained.in_units else np.ones(len(spread))
                # A constant varies by rounding, which columns share by chance.
                unit = np.where(spread > _ROUNDING * np.abs(before).max(axis=0), unit, np.inf)
                found = total_effects(
                    lambda X: values(X) / unit,
                    rows,
                    explained.owners,
                    len(explained.names),
                    _EVALUATIONS,
                    _ACCURACY,
                )
                total = found.effects.sum() or 1.0
                self._importances = key, Effects(*(part / total for part in found))
        return self._importances[1]

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
        n_walks = check_integer("n_permutations", n_permutations, low=1)
        explained = self._explained()
        rows = _dense(explained.encode(X))
        n_columns = np.unique(explained.owners).size
        most = _EVALUATIONS // (4 * max(1, n_columns - 1))
        most = int(np.clip(most, _LEAST, _BACKGROUND))
        others = _compared(explained, background, most)
        dtype = np.result_type(rows, others)
        generator = np.random.default_rng(check_random_state(random_state).randint(2**31))
        with jobs(getattr(self, "n_jobs", None)):
            numbers, label = explained.chosen(output, explained.values(rows))
            found = shapley_values(
                explained.values,
                rows.astype(dtype, copy=False),
                others.astype(dtype, copy=False),
                explained.owners,
                len(explained.names),
                numbers,
                n_walks,
                generator,
            )
        same = not isinstance(label, list)
        return Explanation(
            contributions=found.contributions,
            baseline=float(found.baselines[0]) if same and len(rows) else found.baselines,
            prediction=found.predictions,
            standard_errors=found.standard_errors,
            feature_names=list(explained.names),
            output=label,
            quantity=explained.quantity,
            rows=X,
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
        size = check_integer("grid_size", grid_size, low=2)
        explained = self._explained()
        column, part = _column(feature, explained.names)
        others = _compared(explained, background, _KEPT)
        made = explained.grid(column, others, size, grid, part)
        if explained.default == "predicted" and output is None:
            explained = explained._replace(default=None)
        each = [*made.inputs] + ([] if made.missing is None else [made.missing])
        with jobs(getattr(self, "n_jobs", None)):
            number, label = explained.chosen(output, explained.values(others[:1]))
            dtype = np.result_type(others, np.float64)
            curves = np.empty((len(others), len(each)))
            for i, inputs in enumerate(each):
                rows = others.astype(dtype)
                rows[:, made.slots] = inputs
                curves[:, i] = explained.values(rows)[:, number[0]]
        n = len(made.values)
        own = (
            None
            if made.kind == "category"
            else explained.grid(column, others, _KEPT, None, part).values
        )
        return Dependence(
            feature_name=explained.names[column] + (f":{part}" if part else ""),
            kind=made.kind,
            grid=made.values,
            values=curves[:, :n].mean(axis=0),
            individual=curves[:, :n],
            missing=None if made.missing is None else float(curves[:, n].mean()),
            output=label,
            quantity=explained.quantity,
            background=own,
            parts=[f"{explained.names[column]}:{one}" for one in made.parts],
        )


_NO_ROWS = (
    "this model learned sparse rows, of which it keeps none. Some hundred rows as `background` "
    "explain predictions."
)


def _dense(X: Any) -> Rows:
    if isinstance(X, np.ndarray):
        return X
    raise ValueError(
        "Columns of sparse rows cannot be told apart one by one. Use some rows of them, dense: "
        "`X.toarray()`."
    )


def _compared(explained: Explained, background: Any, most: int) -> Rows:
    """Return the rows that predictions are compared with."""
    if background is not None:
        rows = _dense(explained.encode(background))
        if not len(rows):
            raise ValueError("`background` must hold at least one row, got none.")
        return rows
    kept = explained.background()
    if kept is None or len(kept) < 2:
        raise ValueError(f"`background` must be given: {_NO_ROWS}")
    return kept[:most]


def _column(feature: Any, names: Sequence[str]) -> tuple[int, str]:
    """Return the number of a column, and the part of the calendar that is asked for."""
    if isinstance(feature, numbers.Integral) and not isinstance(feature, bool):
        if not 0 <= int(feature) < len(names):
            raise ValueError(
                f"`feature` must be a number from 0 to {len(names) - 1}, or the name of a column, "
                f"got {feature!r}."
            )
        return int(feature), ""
    if feature in names:
        return list(names).index(feature), ""
    date, _, part = str(feature).rpartition(":")
    if date not in names or not part:
        raise ValueError(
            f"`feature` must be a column, got {feature!r}.{nearest(str(feature), names)} There are "
            f"{listed(list(names))}."
        )
    return list(names).index(date), part


def plain_grid(X: Rows, column: int, size: int, values: Any) -> ColumnGrid:
    """Grid of a column that goes in as it is.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows.
    column : int
        Number of the column.
    size : int
        Largest number of values.
    values : array-like or None
        These values instead.
    """
    given = None if values is None else np.asarray(values, dtype=np.float64).ravel()
    grid = number_grid(X[:, column], size) if given is None else given
    if not grid.size or not np.isfinite(grid).all():
        raise ValueError(
            "`grid` must hold finite numbers, one at least."
            if values is not None
            else "The background rows have no value in this column. Give some as `grid`."
        )
    return ColumnGrid("number", grid, grid[:, np.newaxis], np.array([column]))
