r"""What single columns do to the values of a function, measured by rows that mix those of two.

Free functions on arrays: a function is a callable from rows of inputs to values, and several inputs
may be made of one column, which then come from the same row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.floating]
Values = Callable[[Rows], Array]

_MOST_BYTES = 2**24  # of mixed rows in memory at a time
# Subsets are enumerated if that takes at most this many times the evaluations of walks.
_EXACT = 2.0


class Attribution(NamedTuple):
    """Shares of columns in the values of a function at some rows.

    Attributes
    ----------
    contributions : ndarray of shape (n_rows, n_columns)
        What each column adds; with the baselines these sum to the predictions.
    standard_errors : ndarray of shape (n_rows, n_columns)
        How far they may be off, as not all orders of the columns were walked through; 0 where
        they were.
    baselines : ndarray of shape (n_rows,)
        Mean value at the background rows.
    predictions : ndarray of shape (n_rows,)
        Value at the rows.
    """

    contributions: Array
    standard_errors: Array
    baselines: Array
    predictions: Array


class Effects(NamedTuple):
    """Total effects of columns.

    Attributes
    ----------
    effects : ndarray of shape (n_columns,)
        In squared units of the values.
    standard_errors : ndarray of shape (n_columns,)
        How far they may be off, as not all rows were compared with all others.
    """

    effects: Array
    standard_errors: Array


def shapley_values(
    values: Values,
    rows: Rows,
    background: Rows,
    owners: NDArray[np.intp],
    n_columns: int,
    outputs: NDArray[np.intp],
    n_walks: int,
    generator: np.random.Generator,
) -> Attribution:
    r"""Shapley values of columns, with columns that are left out taken from background rows.

    The game of a row x and a background row b pays :math:`v(S) = f(x_S, b_{\bar S})` to a set S of
    columns; contributions are its Shapley values, averaged over the background. Each background row
    has its own random orders of the columns, each used forward and backward. This is exact for sums
    of functions of one and of two columns; with few columns, all subsets are evaluated instead. The
    steps of a walk lead from f(b) to f(x), so contributions always sum to the difference.

    Parameters
    ----------
    values : callable
        Maps rows of shape (n, n_inputs) to values of shape (n, n_outputs).
    rows : ndarray of shape (n_rows, n_inputs)
        Rows to explain.
    background : ndarray of shape (n_background, n_inputs)
        Rows that take the place of what is left out.
    owners : ndarray of shape (n_inputs,)
        Number of the column that each input is made of.
    n_columns : int
        Number of columns; those without inputs have contribution 0.
    outputs : ndarray of shape (n_rows,)
        Output to explain, of each row.
    n_walks : int
        Orders of the columns for each background row; each is also used backward. At least 2 with a
        single background row, since one order does not allow an error estimate.
    generator : numpy Generator
        What orders are drawn from.

    Returns
    -------
    attribution : Attribution
        Contributions in units of the values.

    References
    ----------
    Štrumbelj and Kononenko, "Explaining prediction models and individual predictions with feature
    contributions", 2014; Lundberg and Lee, "A unified approach to interpreting model predictions",
    2017. Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value estimation",
    2022, for walks in both directions.

    Examples
    --------
    >>> def product(X):
    ...     return X[:, :1] * X[:, 1:]
    >>> some = np.array([[2.0, 3.0]]), np.zeros((1, 2)), np.arange(2), 2, np.zeros(1, dtype=int)
    >>> shapley_values(product, *some, 1, np.random.default_rng(0)).contributions
    array([[3., 3.]])
    """
    at_rows, at_background = values(rows), values(background)
    n_walks = max(n_walks, 2) if len(background) == 1 else n_walks
    baselines = at_background.mean(axis=0)[outputs]
    predictions = at_rows[np.arange(len(rows)), outputs]
    found, errors = np.zeros((2, len(rows), n_columns))
    for n, (row, output) in enumerate(zip(rows, outputs, strict=True)):
        differs = _differing(row, background, owners, n_columns)
        active = np.flatnonzero(differs.any(axis=0))
        if not active.size:
            continue
        game = _Game(values, row, background, owners, active, differs[:, active], int(output))
        ends = at_background[:, output], float(predictions[n])
        walked = 2.0 * n_walks * (active.size - 1)
        if active.size < 20 and 2.0**active.size - 2.0 <= _EXACT * walked:
            found[n, active] = _exact(game, *ends)
        else:
            found[n, active], errors[n, active] = _walked(game, *ends, n_walks, generator)
    return Attribution(found, errors, baselines, predictions)


class _Game(NamedTuple):
    """A row among background rows: the columns in which they differ, and the function."""

    values: Values
    row: Rows
    background: Rows
    owners: NDArray[np.intp]
    active: NDArray[np.intp]  # columns in which some background row differs
    differs: NDArray[np.bool_]  # (n_background, n_active)
    output: int

    def of(self, which: NDArray[np.intp], taken: NDArray[np.bool_]) -> Array:
        """Values where rows of the background take some columns from the row.

        ``which`` are the background rows, shape (n,), and ``taken`` the active columns that are
        taken from the row, shape (n, n_active).
        """
        place = np.full(int(self.owners.max()) + 1, -1)
        place[self.active] = np.arange(self.active.size)
        places = place[self.owners]
        moving = np.flatnonzero(places >= 0)
        found = np.empty(len(which))
        chunk = _rows_at_once(self.background)
        for start in range(0, len(which), chunk):
            some = slice(start, start + chunk)
            mixed = self.background[which[some]]
            inputs = taken[some][:, places[moving]]
            mixed[:, moving] = np.where(inputs, self.row[moving], mixed[:, moving])
            found[some] = self.values(mixed)[:, self.output]
        return found


def _rows_at_once(rows: Rows) -> int:
    return int(max(256, _MOST_BYTES // (8 * max(1, rows.shape[1]))))


def _differing(
    row: Rows, others: Rows, owners: NDArray[np.intp], n_columns: int
) -> NDArray[np.bool_]:
    """Whether other rows differ from a row in each column, shape (n_others, n_columns)."""
    differ = (others != row) & ~(np.isnan(others) & np.isnan(row))
    found = np.zeros((len(others), n_columns), dtype=bool)
    if owners.size:
        order = np.argsort(owners, kind="stable")
        columns, starts = np.unique(owners[order], return_index=True)
        found[:, columns] = np.logical_or.reduceat(differ[:, order], starts, axis=1)
    return found


def _exact(game: _Game, at_background: Array, at_row: float) -> Array:
    """Shapley values by all subsets of the columns."""
    n, n_background = game.active.size, len(game.background)
    subsets = np.arange(2**n)[:, None] >> np.arange(n) & 1 == 1
    inner = subsets[1:-1]
    which = np.repeat(np.arange(n_background), len(inner))
    paid = game.of(which, np.tile(inner, (n_background, 1)))
    means = paid.reshape(n_background, len(inner)).mean(axis=0)
    means = np.concatenate([[at_background.mean()], means, [at_row]])
    sizes = subsets.sum(axis=1)
    shares = np.array([factorial(s) * factorial(n - s - 1) / factorial(n) for s in range(n)])
    found = np.empty(n)
    for i in range(n):
        without = np.flatnonzero(~subsets[:, i])
        found[i] = shares[sizes[without]] @ (means[without + 2**i] - means[without])
    return found


def _walked(
    game: _Game, at_background: Array, at_row: float, n_walks: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Shapley values by walks forward and backward, and their standard errors."""
    n, n_background = game.active.size, len(game.background)
    sums = np.zeros((n_background, n_walks, n))
    together = max(1, 2**21 // n**2)  # background rows at a time, for the sets along their walks
    for start in range(0, n_background, together):
        which = np.arange(start, min(start + together, n_background))
        for walk in range(n_walks):
            order = generator.permuted(np.tile(np.arange(n), (len(which), 1)), axis=1)
            for one in (order, order[:, ::-1]):
                sums[which, walk] += 0.5 * _steps(game, which, one, at_background[which], at_row)
    means = sums.mean(axis=(0, 1))
    if n_walks > 1:  # orders are drawn for each background row, which itself is given
        variance = sums.var(axis=1, ddof=1).mean(axis=0) / n_walks
    else:  # how much rows differ counts, too
        variance = sums[:, 0].var(axis=0, ddof=1)
    return means, np.sqrt(variance / n_background)


def _steps(
    game: _Game, which: NDArray[np.intp], order: NDArray[np.intp], start: Array, end: float
) -> Array:
    """Return what each column adds between background rows and the row, (n_which, n_active)."""
    n_rows, n = order.shape
    moves = np.take_along_axis(game.differs[which], order, axis=1)
    n_moves = np.cumsum(moves, axis=1)
    # After the last differing column the mixed row is the row itself; other columns change nothing.
    needed = moves & (n_moves < n_moves[:, -1:])
    walk, step = np.nonzero(needed)
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.broadcast_to(np.arange(n), order.shape), axis=1)
    height = np.empty((n_rows, n + 1))
    height[:, 0] = start
    after = np.zeros((n_rows, n))
    after[walk, step] = game.of(which[walk], position[walk] <= step[:, None])
    for s in range(n):
        moved = np.where(n_moves[:, s] == n_moves[:, -1], end, after[:, s])
        height[:, s + 1] = np.where(moves[:, s], moved, height[:, s])
    found = np.empty((n_rows, n))
    np.put_along_axis(found, order, np.diff(height, axis=1), axis=1)
    return found


def total_effects(
    values: Values,
    rows: Rows,
    owners: NDArray[np.intp],
    n_columns: int,
    n_evaluations: int,
    accuracy: float = 0.0,
) -> Effects:
    r"""Total effects of columns: how much values vary with a column alone, summed over outputs.

    .. math:: T_j = \tfrac12 \sum_o E \bigl(f_o(x) - f_o(x_{-j}, x'_j)\bigr)^2

    over rows x and x' of a sample. This is Jansen's estimate of the total effect of Sobol: the
    variance that remains when all other columns are known, so 0 for a column that the function does
    not use.

    Each row x is compared with the rows 1, 2, ... places further. Half of the evaluations give all
    columns the same pairs. The other half goes to the columns whose estimates are not yet accurate
    enough, the least accurate ones first.

    Parameters
    ----------
    values : callable
        Maps rows of shape (n, n_inputs) to values of shape (n, n_outputs).
    rows : ndarray of shape (n_rows, n_inputs)
        A sample in random order.
    owners : ndarray of shape (n_inputs,)
        Number of the column that each input is made of.
    n_columns : int
        Number of columns.
    n_evaluations : int
        About how many rows are evaluated, 32 for each column at least.
    accuracy : float, default=0.0
        Columns whose standard error is below this share of the largest effect are known well
        enough.

    Returns
    -------
    effects : Effects
        The effects, and how far they may be off.

    References
    ----------
    Jansen, "Analysis of variance designs for model output", Computer Physics Communications 1999.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(9000, 3))
    >>> found = total_effects(lambda X: X[:, :1] + 2.0 * X[:, 1:2], rows, np.arange(3), 3, 90000)
    >>> found.effects.round(1), found.standard_errors.round(2)
    (array([1. , 3.9, 0. ]), array([0.01, 0.05, 0.  ]))
    """
    n, before = len(rows), values(rows)
    of_column = [np.flatnonzero(owners == column) for column in range(n_columns)]
    moving = np.array([column for column in range(n_columns) if of_column[column].size], dtype=int)
    known = _Pairs(n_columns, n)
    left, place = n_evaluations, 0
    while moving.size and place < n * (n - 1):
        # Number of pairs at a time; in one round over all rows, all pairs have the same distance.
        # If few of them differ, evaluations last longer, and rounds get longer.
        size = max(left // (4 * moving.size), place // 8)
        size = int(np.clip(size, min(_LEAST_PAIRS, n), n))
        which = np.arange(place, min(place + size, n * (place // n + 1))) % n
        others = (which + 1 + place // n) % n
        for column in moving:
            inputs = of_column[column]
            mine, theirs = rows[np.ix_(which, inputs)], rows[np.ix_(others, inputs)]
            differ = ~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs))).all(axis=1)
            squares = np.zeros(which.size)
            if differ.any():
                mixed = rows[which[differ]]
                mixed[:, inputs] = theirs[differ]
                squares[differ] = np.sum((values(mixed) - before[which[differ]]) ** 2, axis=1)
                left -= int(differ.sum())
            known.add(column, which, others, squares)
        place += which.size
        if left <= 0:
            break
        if left <= n_evaluations // 2:
            found = known.effects()
            known_well = accuracy * found.effects.max(initial=0.0)
            like_the_worst = _WORST * found.standard_errors.max(initial=0.0)
            moving = np.flatnonzero(found.standard_errors > max(known_well, like_the_worst))
    return known.effects()


_LEAST_PAIRS = 32
# Columns whose standard error is below this share of the largest one wait for the others.
_WORST = 0.7


class _Pairs:
    """What changed between pairs of rows, for each column."""

    def __init__(self, n_columns: int, n_rows: int) -> None:
        # Of each row as the first and as the second one of pairs: what changed, and how often.
        self._sums, self._counts = np.zeros((2, 2, n_columns, n_rows))
        self._squares = np.zeros(n_columns)

    def add(
        self, column: int, which: NDArray[np.intp], others: NDArray[np.intp], found: Array
    ) -> None:
        """Take account of some pairs, in which no row is twice the first or the second one."""
        for side, rows in enumerate((which, others)):
            self._sums[side, column, rows] += found
            self._counts[side, column, rows] += 1.0
        self._squares[column] += np.sum(found**2)

    def effects(self) -> Effects:
        """Half the means and their standard errors; pairs that share a row are not independent."""
        n = np.maximum(self._counts[0].sum(axis=1), 1.0)
        means = self._sums[0].sum(axis=1) / n
        off = np.sum((self._sums - means[:, np.newaxis] * self._counts) ** 2, axis=(0, 2))
        single = np.maximum(self._squares - n * means**2, 0.0)
        # What single pairs add is in what their first and their second rows add.
        errors = np.sqrt(np.maximum(off - single, single)) / n
        return Effects(means / 2.0, errors / 2.0)
