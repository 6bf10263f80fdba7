r"""Which columns matter, what they add to a prediction, and how predictions depend on them.

All methods compare predictions for rows whose columns come from different rows. So they need only
the function and some rows, and work for every expansion. A model provides an :class:`Explained`
record of how columns become inputs and what is predicted. Formulas are in
:mod:`mercer.numerics.attribution`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer.columns.preprocessing import ColumnGrid, number_grid
from mercer.columns.views import listed
from mercer.numerics.attribution import Effects, shapley_values, total_effects
from mercer.threads import jobs
from mercer.validation import check_integer, nearest

Array = NDArray[np.float64]
Rows = NDArray[np.floating]

# Largest number of rows over which predictions are averaged, and of their values shown.
_AVERAGED = 256
# Rows that explanations compare with, and about how often they evaluate the function for a row.
_BACKGROUND, _LEAST, _EVALUATIONS = 100, 16, 2**15
# Rows that importances compare if more rows are kept, and their accuracy: a column whose standard
# error is below this share of the largest importance needs no more pairs.
_RANKED, _ACCURACY = 1024, 0.01
_ROUNDING = 1e-9
_SAID = 4  # columns that the text of an explanation shows


# -- results ---------------------------------------------------------------------------------------


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
        What is explained: the label of a class, a quantile level or the number of a target, or one
        of these per row as a list; None for a single output.
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
            Largest number of columns; None for all.
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
        Mean prediction for the background rows with the column set to each grid value.
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
        For a date column: names of the parts of the calendar that the model also uses, such as
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


# -- what a model provides -------------------------------------------------------------------------


class Explained(NamedTuple):
    """A fitted model, as explanations see it.

    Attributes
    ----------
    values : callable
        Maps inputs of shape (n, n_inputs) to predictions of shape (n, n_outputs).
    owners : ndarray of shape (n_inputs,)
        Number of the column that each input is made of.
    names : list of str
        Names of the columns.
    encode : callable
        Maps the user's rows to inputs.
    background : callable
        Returns some learned rows as inputs, in random order; None if there are none. Its argument
        is the largest number of rows, 256 by default.
    grid : callable
        Maps the number of a column, inputs, a size, values or None, and a part of the calendar or
        "" to a :class:`ColumnGrid`.
    outputs : list
        Labels of the outputs; [None] for a single one.
    default : int, "predicted" or None
        Output explained if none is named: a fixed index, "predicted" for the output with the
        largest value in each row, or None if there is no natural choice.
    quantity : str
        What the values are, in words.
    in_units : bool
        Whether outputs have different units, so that they do not add up.
    scores : callable or None
        Maps inputs to the scores used by importances in place of the values: unlike probabilities,
        scores do not saturate near 1.
    n_jobs : int or None
        Threads that evaluate.
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
    n_jobs: int | None = None

    def scaled(self, scale: float, shift: float) -> Explained:
        """Return the same with other units of the predictions."""
        values = self.values
        return self._replace(values=lambda X: values(X) * scale + shift)

    def chosen(self, output: Any, at_rows: Array) -> tuple[NDArray[np.intp], Any]:
        """Return the output to explain of each row, and what it is called.

        Raises
        ------
        ValueError
            If the output does not exist, or there are several and none was named.
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


# -- functions -------------------------------------------------------------------------------------


class Importances(NamedTuple):
    """What matters to a function, and to which one.

    Attributes
    ----------
    of : bytes
        Values of the function at the rows that were compared.
    shares : Effects
        Shares of the columns, and their standard errors.
    """

    of: bytes
    shares: Effects


def importances(told: Explained, known: Importances | None) -> Importances:
    """Say how much predictions vary with each column; ``feature_importances_`` has the formula.

    Parameters
    ----------
    told : Explained
        The model.
    known : Importances or None
        What was found before, which is returned if the function is still the same.

    Raises
    ------
    AttributeError
        If there are no rows to compare with.
    """
    rows = told.background(_RANKED)
    if rows is None or len(rows) < 2:
        raise AttributeError(f"There are no `feature_importances_`: {_NO_ROWS}")
    values = told.values if told.scores is None else told.scores
    with jobs(told.n_jobs):
        before = values(rows)
        key = before.tobytes()
        if known is not None and known.of == key:
            return known
        spread = before.std(axis=0)
        unit = spread if told.in_units else np.ones(len(spread))
        # A constant varies by rounding, which columns share by chance.
        unit = np.where(spread > _ROUNDING * np.abs(before).max(axis=0), unit, np.inf)
        found = total_effects(
            lambda X: values(X) / unit,
            rows,
            told.owners,
            len(told.names),
            _EVALUATIONS,
            _ACCURACY,
        )
        total = found.effects.sum() or 1.0
    return Importances(key, Effects(*(part / total for part in found)))


def explanation(
    told: Explained,
    X: Any,
    *,
    output: Any = None,
    background: Any = None,
    n_permutations: int = 2,
    random_state: Any = 0,
) -> Explanation:
    """Say what each column adds to the prediction for each row, by Shapley values.

    Parameters
    ----------
    told : Explained
        The model.
    X : array-like or table
        Rows to explain.
    output, background, n_permutations, random_state
        As for :meth:`mercer.KernelRegressor.explain`.

    Raises
    ------
    ValueError
        For rows that the model cannot predict for, an output that does not exist, or no rows to
        compare with.
    """
    n_walks = check_integer("n_permutations", n_permutations, low=1)
    rows = _dense(told.encode(X))
    n_columns = np.unique(told.owners).size
    most = _EVALUATIONS // (4 * max(1, n_columns - 1))
    most = int(np.clip(most, _LEAST, _BACKGROUND))
    others = _compared(told, background, most)
    dtype = np.result_type(rows, others)
    generator = np.random.default_rng(check_random_state(random_state).randint(2**31))
    with jobs(told.n_jobs):
        numbers, label = told.chosen(output, told.values(rows))
        found = shapley_values(
            told.values,
            rows.astype(dtype, copy=False),
            others.astype(dtype, copy=False),
            told.owners,
            len(told.names),
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
        feature_names=list(told.names),
        output=label,
        quantity=told.quantity,
        rows=X,
    )


def dependence(
    told: Explained,
    feature: Any,
    *,
    grid: Any = None,
    grid_size: int = 40,
    output: Any = None,
    background: Any = None,
) -> Dependence:
    """Say how predictions depend on one column, all others being as they are.

    Parameters
    ----------
    told : Explained
        The model.
    feature, grid, grid_size, output, background
        As for :meth:`mercer.KernelRegressor.partial_dependence`.

    Raises
    ------
    ValueError
        If the column or the output does not exist, the column is text and ``grid`` is not given, or
        there are no rows.
    """
    size = check_integer("grid_size", grid_size, low=2)
    column, part = _column(feature, told.names)
    others = _compared(told, background, _AVERAGED)
    made = told.grid(column, others, size, grid, part)
    if told.default == "predicted" and output is None:
        told = told._replace(default=None)
    each = [*made.inputs] + ([] if made.missing is None else [made.missing])
    with jobs(told.n_jobs):
        number, label = told.chosen(output, told.values(others[:1]))
        dtype = np.result_type(others, np.float64)
        curves = np.empty((len(others), len(each)))
        for i, inputs in enumerate(each):
            rows = others.astype(dtype)
            rows[:, made.slots] = inputs
            curves[:, i] = told.values(rows)[:, number[0]]
    n, own = len(made.values), None
    if made.kind != "category":
        own = told.grid(column, others, _AVERAGED, None, part).values
    return Dependence(
        feature_name=told.names[column] + (f":{part}" if part else ""),
        kind=made.kind,
        grid=made.values,
        values=curves[:, :n].mean(axis=0),
        individual=curves[:, :n],
        missing=None if made.missing is None else float(curves[:, n].mean()),
        output=label,
        quantity=told.quantity,
        background=own,
        parts=[f"{told.names[column]}:{one}" for one in made.parts],
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
    if isinstance(feature, str) and feature in names:
        return list(names).index(feature), ""
    date, _, part = str(feature).rpartition(":")
    if date not in names or not part:
        raise ValueError(
            f"`feature` must be a column, got {feature!r}.{nearest(str(feature), names)} There are "
            f"{listed(list(names))}."
        )
    return list(names).index(date), part


def plain_grid(X: Rows, column: int, size: int, values: Any) -> ColumnGrid:
    """Return the grid of a column that is used without encoding.

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
