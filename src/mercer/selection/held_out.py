"""Held-out rows: which rows are held out together, and what their errors say about components.

Rows may depend on their neighbours, as in a time series. A row held out alone is predicted by its
neighbours in time, which future rows will not have. Choices by such errors are too local, so blocks
of rows are held out together where that makes a difference (block cross-validation; Racine, Journal
of Econometrics 99, 2000).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.stats import rankdata

from mercer.kernels import Bias, Gaussian, Kernel, Mapped
from mercer.losses import Loss, Squared, loss_and_slopes
from mercer.maps import Standardize
from mercer.sums import GlobalPart, RevisitableRows, Rows, targets_of_codes

Array = NDArray[np.float64]

# Rows per block; fewer if there are few rows.
_BLOCK = 50
#: Fewest rows for a decision about blocks.
FEWEST_ROWS = 200
#: Fewest groups, so that some can be held out and enough are left.
FEWEST_GROUPS = 5
# Groups of more than this share of the rows (1 / _LARGE) are held out only if no others can be.
_LARGE = 5
# Rows count as repeated if equal pairs are this many times as frequent as by chance, in tables with
# a column of mostly distinct values.
_BEYOND_CHANCE = 10.0
# Stretches of rows that are examined, and blocks in each.
_STRETCHES, _BLOCKS = 20, 2
# The pilot: points, and length scale in median distances, short enough to follow neighbours.
_POINTS, _LENGTH, _OFFSET = 250, 0.5, 0.1
_TELLING_LENGTH = 300  # rows
# Blocks are used if their errors exceed the errors of as many random rows by this many standard
# errors, and by this factor.
_SURE, _GROWTH = 3.0, 1.25
# Rows may be in order if the autocorrelation of ranks at one lag, or at all lags together, exceeds
# that of rows in no order by so many standard errors. Ranks count up to so many deviations.
_AT_ONE_LAG, _AT_ALL_LAGS, _RAREST = 4.5, 6.0, 3.0
# Rows are sorted by a target if this share of its variance lies between stretches.
_SORTED = 0.7
_ROUNDING = 1e-14
# Half-lives of old rows, as shares of all rows; most rows of the pilots that choose one, and the
# periods of later rows that they predict.
_HALF_LIVES, _MOST_PREDICTED, _PERIODS = (1 / 4, 1 / 8, 1 / 16, 1 / 32), 4000, 4
# Stacking: a component whose weight is below this share of all weights is dropped.
_DUST = 0.05
# Strength of the prior (equal weights that sum to 1), in rows, for numbers and for classes: without
# it, weights could grow at will on a handful of rows.
_PRIOR, _CLASS_PRIOR = 1.0, 0.3
# Fewest rows that determine how large errors are.
_TELLING = 100
_LEAST_FACTOR = 0.1  # on scores, in calibration
_HEAVY = 1e4  # weight of the equation "weights sum to 1", relative to all others
# Rows count as alike if their errors correlate by at least _WORTH, and exceed random signs by
# _BEYOND_DOUBT standard errors; for neighbours, also by _OF_STRETCHES over stretches.
_WORTH, _BEYOND_DOUBT, _OF_STRETCHES = 0.2, 4.0, 2.0
_FEWEST_TELL, _MOST_TELL = 100, 1000  # rows used for that
_SIMILAR = 5  # similar rows per row
_SORTED_SHARE, _FEW_CHANGES = 0.95, 6
# Columns that may name groups: least number of values; first columns and rows examined.
_LEAST_VALUES, _FIRST_ROWS, _MOST_NAMING = 10, 5000, 30
#: Columns among which those that name groups are looked for: the first ones.
FIRST_COLUMNS = 100
_NAMES_A_GROUP = re.compile(
    r"(.*[_ .-])?(id|subject|patient|person|participant|user|customer|client|animal|student|family"
    r"|household|school|station|machine|device|sensor|batch)([_ .-]?(id|no|nr|number|code|name))?",
    re.IGNORECASE,
)


def block_length(rows: RevisitableRows, seed: int) -> int:
    """Return how many rows to hold out together: 1, or 50 if neighbours predict each other.

    In each of twenty stretches of rows, a pilot predicts rows with their block left out, and the
    same rows with as many random rows left out. For rows in no order both errors are alike. Rows
    sorted by a target, or by the only input, count as independent: leaving out a block would leave
    out a class, or a part of the line.

    Parameters
    ----------
    rows : RevisitableRows
        Rows in the order of arrival.
    seed : int
        Seed for the pilot's points and the random rows.

    Returns
    -------
    length : int
        1 if rows may be held out one by one.
    """
    n_rows = len(rows)
    if n_rows < FEWEST_ROWS:
        return 1
    block = block_of_series(n_rows)
    stretch = min(_BLOCKS * block, n_rows // _STRETCHES)
    starts = np.arange(_STRETCHES, dtype=np.int64) * n_rows // _STRETCHES
    some = _standard(rows[(starts[:, np.newaxis] + np.arange(stretch)).ravel()])
    if some.X.shape[1] < 2 or _is_sorted(some.targets):
        return 1
    if not may_be_in_order(np.column_stack([some.X, some.targets]), stretch):
        return 1
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(some))
    in_blocks = _errors(some, drawn, block)
    alone = np.empty_like(in_blocks)
    alone[drawn] = _errors(some[drawn], np.arange(len(some)), block)
    growth = (in_blocks - alone).reshape(_STRETCHES, stretch).mean(axis=1)
    sure = growth.mean() > _SURE * growth.std(ddof=1) / np.sqrt(_STRETCHES)
    return block if sure and in_blocks.mean() > _GROWTH * alone.mean() else 1


def may_be_in_order(columns: NDArray[np.floating[Any]], stretch: int) -> bool:
    """Return whether values in any column resemble those some rows before: a cheap first look.

    Neighbours can predict each other only if they are alike. In rows in no order, the sum of
    products of standardised ranks at one lag has mean 0 and variance one per pair. Ranks, and a
    limit for them, keep outliers and rare classes from looking like an order.

    Parameters
    ----------
    columns : ndarray of shape (n_stretches * stretch, n_columns)
        Inputs and targets in stretches of consecutive rows.
    stretch : int
        Rows of a stretch, which are compared with each other only.

    Examples
    --------
    >>> wave = np.sin(np.arange(1000.0) / 9.0)[:, np.newaxis]
    >>> may_be_in_order(wave, 100), may_be_in_order(np.random.default_rng(0).permuted(wave), 100)
    (True, False)
    """
    ranks = rankdata(columns, axis=0)
    ranks -= ranks.mean(axis=0)
    scale = ranks.std(axis=0)
    ranks = np.clip(ranks[:, scale > 0.0] / scale[scale > 0.0], -_RAREST, _RAREST)
    pieces = ranks.reshape(-1, stretch, ranks.shape[1])
    lags = np.arange(1, min(_BLOCK, stretch // 2) + 1)
    # Padded with zeros, so that the end of a stretch is not compared with its beginning.
    spectrum = np.abs(np.fft.rfft(pieces, 2 * stretch, axis=1)) ** 2
    products = np.fft.irfft(spectrum, axis=1).sum(axis=0)[lags]
    pairs = len(pieces) * (stretch - lags)
    alike = products / np.sqrt(pairs)[:, np.newaxis]
    together = products.sum(axis=0) / np.sqrt(pairs.sum())
    return bool((alike > _AT_ONE_LAG).any() or (together > _AT_ALL_LAGS).any())


def block_of_series(n_rows: int) -> int:
    """Return the number of consecutive rows to hold out together in a series of ``n_rows``."""
    return max(1, min(_BLOCK, n_rows // _STRETCHES))


def group_order(order: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an order with the rows of each group together; groups follow their first rows.

    Groups with more than a fifth of the rows come first: the last rows judge, and should be few.

    Parameters
    ----------
    order : ndarray of shape (n,) of int
        Indices of the rows.
    groups : ndarray of int
        Group of each row, by row index.

    Examples
    --------
    >>> groups = np.array([0, 1, 2, 3, 4, 0, 5])
    >>> group_order(np.array([1, 0, 2, 3, 4, 5, 6]), groups).tolist()
    [0, 5, 1, 2, 3, 4, 6]
    """
    _, firsts, numbers = np.unique(groups[order], return_index=True, return_inverse=True)
    large = np.bincount(numbers) * _LARGE > order.size
    ranks = firsts - np.where(large, order.size, 0)
    return order[np.argsort(ranks[numbers], kind="stable")]


# Equal rows are common rows, not copies, if they are this share of all rows and more than a few.
_COMMON, _FEW_COPIES = 0.1, 10
_ROWS_IN_CACHE = 2048


def repeats(X: Any, targets: Array) -> NDArray[np.int64] | None:
    """Return groups of rows that occur several times; None if none do, or only by chance.

    A row's copies predict it, but will not predict new rows. In tables with few columns of few
    values, rows repeat by chance and new rows will repeat them, so these are not copies. Copies
    require a column of mostly distinct values, and far more equal rows than if columns were
    independent. Rows that make up a tenth of all rows will occur in new data, too, so each counts
    alone.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Inputs.
    targets : ndarray of shape (n, n_targets)
        Targets as numbers.

    Examples
    --------
    >>> X = np.repeat(np.linspace(0.0, 1.0, 20), 2)[:, np.newaxis]
    >>> repeats(X, X)[:6]
    array([0, 0, 1, 1, 2, 2])
    >>> repeats(X[::2], X[::2]) is None
    True
    """
    n, d = len(X), X.shape[1]
    if n < 2:
        return None
    factors = np.sqrt(np.arange(2.0, d + targets.shape[1] + 2.0))
    # Row by row, so that sums of equal rows are equal to the last bit.
    pieces = (X[start : start + _ROWS_IN_CACHE] for start in range(0, n, _ROWS_IN_CACHE))
    sums = np.concatenate([(some * factors[:d]).sum(axis=1) for some in pieces])
    sums += (targets * factors[d:]).sum(axis=1)
    found, firsts, numbers, counts = np.unique(
        sums, return_index=True, return_inverse=True, return_counts=True
    )
    if found.size == n:
        return None
    first = firsts[numbers]
    same = (X[first] == X).all(axis=1) & (targets == targets[first]).all(axis=1)
    rare = counts <= max(_COMMON * n, _FEW_COPIES)
    same, counts = same & rare[numbers], np.where(rare, counts, 1)
    groups: NDArray[np.int64] = np.where(same, numbers, found.size + np.arange(n)).astype(np.int64)
    equal = float(np.sum(counts * (counts - 1.0)))
    distinct = [np.unique(column[firsts], return_counts=True)[1] for column in (*X.T, *targets.T)]
    if max(each.size for each in distinct) * 2 < found.size or not same.any():
        return None
    chance = float(np.prod([np.sum((each / found.size) ** 2) for each in distinct]))
    return groups if equal > _BEYOND_CHANCE * chance * n * (n - 1.0) else None


def half_life(rows: RevisitableRows, seed: int) -> float:
    """Return after how many further rows a row should count half; infinity if old rows still hold.

    Pilots learn three quarters of the rows with one half-life each, and predict later rows, a
    sixteenth of all at a time, before they learn these. Old rows lose weight only if the error
    without that is higher by a quarter, and by three standard errors, since a law that stays the
    same is learned better from all rows. Where a column tells the time, functions follow the change
    themselves.

    Parameters
    ----------
    rows : RevisitableRows
        Rows in the order of time.
    seed : int
        Seed for the points of the pilots.
    """
    n = len(rows)
    some = np.linspace(0, n - 1, min(n, _MOST_PREDICTED)).astype(np.int64)
    if some.size < FEWEST_ROWS:
        return np.inf
    few = _standard(rows[some])
    if _one_way(few.X).any():
        return np.inf
    drawn = few.X[np.random.default_rng(seed).permutation(len(few))]
    kernel, points = pilot_kernel(few.X, drawn), drawn[:_POINTS].astype(np.float64)
    cuts = np.linspace(3 * len(few) // 4, len(few), _PERIODS + 1).astype(int)

    def errors(share: float) -> Array:
        part = GlobalPart(kernel, points, few.targets.shape[1], 0.5 ** (1.0 / (share * len(few))))
        part.learn(few[: cuts[0]])
        found = []
        for period in (few[slice(*cut)] for cut in pairwise(cuts)):
            found.append(np.sum((part.judge(period).values - period.targets) ** 2, axis=1))
            part.learn(period)
        return np.concatenate(found)

    plain = errors(np.inf)
    others = {share: errors(share) for share in _HALF_LIVES}
    best = min(others, key=lambda share: float(others[share].mean()))
    gains = [each.mean() for each in np.array_split(plain - others[best], _STRETCHES)]
    sure = np.mean(gains) > _SURE * np.std(gains, ddof=1) / np.sqrt(_STRETCHES)
    return best * n if sure and plain.mean() > _GROWTH * others[best].mean() else np.inf


def block_order(order: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Return rows in blocks that stay together; block k comes where k comes in ``order``.

    Parameters
    ----------
    order : ndarray of shape (n,) of int
        Permutation of 0 to n - 1; rows in their original order stay so.
    block : int
        Rows per block, at most a fifth of all rows; a shorter last block stays last.

    Examples
    --------
    >>> block_order(np.array([6, 1, 3, 0, 5, 2, 4, 8, 7, 10, 9]), 2).tolist()
    [2, 3, 6, 7, 0, 1, 4, 5, 8, 9, 10]
    """
    block = min(block, max(1, order.size // 5))
    whole = order.size // block
    firsts = order[order < whole] * block
    moved = (firsts[:, np.newaxis] + np.arange(block)).ravel()
    return np.concatenate([moved, np.arange(whole * block, order.size)])


def order_in_blocks(order: NDArray[np.int64], weights: Array, block: int) -> NDArray[np.int64]:
    """Return an order in which blocks stay together; rows of weight 0 come last.

    Parameters
    ----------
    order : ndarray of shape (n,) of int
        Indices of the rows.
    weights : ndarray of shape (n,)
        Weights of the rows.
    block : int
        Rows per block; with 1 the order is returned unchanged.

    Examples
    --------
    >>> weights = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    >>> order_in_blocks(np.array([2, 4, 3, 1, 0, 5, 6, 7, 8, 9, 10]), weights, 2).tolist()
    [7, 8, 5, 6, 3, 4, 0, 1, 9, 10, 2]
    """
    if block == 1:
        return order
    counts = weights > 0.0
    used, ranks = np.flatnonzero(counts), np.cumsum(counts) - 1
    in_blocks = used[block_order(ranks[order[counts[order]]], block)]
    return np.concatenate([in_blocks, order[~counts[order]]])


def _standard(rows: Rows) -> Rows:
    """Return rows with targets of mean 0 and variance 1; constant targets become 0."""
    mean, deviation = rows.targets.mean(axis=0), rows.targets.std(axis=0)
    varies = deviation > _ROUNDING * np.abs(mean)
    scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
    return replace(rows, targets=(rows.targets - mean) * scale)


def _is_sorted(targets: NDArray[np.float64]) -> bool:
    """Return whether nearly all variance of a standardised target lies between stretches.

    One of several targets suffices: a class that occurs in only one stretch could not be predicted.
    """
    stretches = targets.reshape(_STRETCHES, -1, targets.shape[1])
    within, whole = stretches.var(axis=1).mean(axis=0), targets.var(axis=0)
    return bool((within < (1.0 - _SORTED) * whole).any())


def left_out_by_pilot(
    rows: Rows, block: int = 1, some: NDArray[np.int64] | slice = slice(None)
) -> Array:
    """Predict each row, (n, n_outputs), by a small kernel machine fitted to all other rows.

    Parameters
    ----------
    rows : Rows
        Rows to predict.
    block : int, default=1
        Number of rows left out together.
    some : ndarray of int, default=all
        Indices of rows; the first ones are the points.
    """
    drawn = rows.X[some]
    points = drawn[:_POINTS].astype(np.float64)
    kernel = pilot_kernel(rows.X, drawn)
    return GlobalPart(kernel, points, rows.targets.shape[1]).solve_without(rows, block)


def pilot_kernel(X: Any, drawn: Any = None) -> Kernel:
    """Return the kernel of a pilot, with a length scale short enough to follow neighbours.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Rows that determine the standardisation of columns.
    drawn : ndarray, default=None
        Rows whose first ones determine the length scale; None for ``X``.
    """
    map = Standardize().fit(X)
    some = (X if drawn is None else drawn)[:_TELLING_LENGTH]
    length = Gaussian.median_distance(np.asarray(map(some), dtype=np.float64))
    return Mapped(Gaussian(_LENGTH * length) + Bias(_OFFSET), map)


def _errors(rows: Rows, some: NDArray[np.int64], block: int) -> NDArray[np.float64]:
    """Return the squared error of each row with its block left out, by a pilot on some rows."""
    left_out = left_out_by_pilot(rows, block, some) - rows.targets
    return np.asarray(np.sum(left_out**2, axis=1))


def neighbours_alike(rows: RevisitableRows, seed: int) -> float:
    """Return the correlation of errors of neighbouring rows beyond what inputs explain; else 0.

    In stretches of rows a pilot predicts each row from all others. The errors of a row and the next
    row are compared with the errors of a row and the most similar rows elsewhere: if inputs explain
    the errors, both correlate alike. A column that counts rows is not used as an input. Rows that
    are sorted by their target or by another input give 0.

    Parameters
    ----------
    rows : RevisitableRows
        Rows in the order of arrival; targets are numbers or codes of classes.
    seed : int
        Seed for the pilot's points.
    """
    n = len(rows)
    if n < _FEWEST_TELL:
        return 0.0
    stretch = min(_MOST_TELL, n) // _STRETCHES
    starts = np.arange(_STRETCHES, dtype=np.int64) * n // _STRETCHES
    some = rows[(starts[:, np.newaxis] + np.arange(stretch)).ravel()]
    if _in_order(some.targets):
        return 0.0
    steps = np.diff(some.X.reshape(_STRETCHES, stretch, -1).astype(np.float64), axis=1)
    counts = np.isclose(steps, steps[:1, :1], rtol=1e-3).all(axis=(0, 1)) & (steps[0, 0] != 0.0)
    some = replace(some, X=np.ascontiguousarray(some.X[:, ~counts]))
    if _one_way(some.X).any():
        return 0.0
    drawn = np.random.default_rng(seed).permutation(len(some))
    errors = _errors_alone(some, drawn)
    size = float(np.mean(np.sum(errors**2, axis=1)))
    beside = np.sum(errors[:-1] * errors[1:], axis=1)
    cut = (_STRETCHES, stretch)  # pairs within stretches only
    alike = np.append(beside, 0.0).reshape(cut)[:, :-1].mean(axis=1)
    if not alike.mean() > _WORTH * size:
        return 0.0
    elsewhere = np.sum(errors * errors[_similar(some, drawn)].mean(axis=1), axis=1)[:-1]
    more = alike - np.append(elsewhere, 0.0).reshape(cut)[:, :-1].mean(axis=1)
    signs = np.sum((beside - elsewhere) ** 2) / beside.size**2
    sure = more.mean() > _BEYOND_DOUBT * np.sqrt(signs)
    sure &= more.mean() > _OF_STRETCHES * more.std(ddof=1) / np.sqrt(_STRETCHES)
    return float(alike.mean() / size) if sure and more.mean() > _WORTH * size else 0.0


def _similar(rows: Rows, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows most similar to each, but not its neighbours; ties go by a random order."""
    Z = rows.X.astype(np.float64)
    Z = (Z - Z.mean(axis=0)) / np.where(Z.std(axis=0) > 0.0, Z.std(axis=0), 1.0)
    places = np.arange(len(rows))
    squares = np.sum(Z**2, axis=1)
    distances = squares - 2.0 * (Z @ Z.T)
    distances[np.abs(places[:, np.newaxis] - places) <= 1] = np.inf
    return drawn[np.argpartition(distances[:, drawn], _SIMILAR, axis=1)[:, :_SIMILAR]]


def groups_alike(
    rows: RevisitableRows, groups: NDArray[np.int64], others: NDArray[np.bool_], seed: int
) -> float:
    """Return the correlation of errors within groups predicted from the other groups; else 0.

    Parameters
    ----------
    rows : RevisitableRows
        Rows whose targets are numbers or codes of classes.
    groups : ndarray of shape (n,) of int64
        Group numbers, from 0, of the first rows.
    others : ndarray of shape (n_features,) of bool
        Inputs not made from the column of groups, since those may hold means of a group's targets.
    seed : int
        Seed for the groups and the pilot's points.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(int(groups.max()) + 1)[groups]
    chosen = np.argsort(numbers, kind="stable")[:_MOST_TELL]
    some = rows[chosen]
    X = np.ascontiguousarray(some.X[:, others])
    some = replace(some, X=X, groups=numbers[chosen])
    errors = _errors_alone(some, rng.permutation(len(some)))
    firsts = some.ends[:-1]
    counts = np.diff(some.ends)
    squares = np.sum(errors**2, axis=1)
    sizes = np.add.reduceat(squares, firsts)
    within = float(np.sum(np.add.reduceat(errors, firsts) ** 2) - sizes.sum())
    by_chance = float(np.sum(sizes**2) - np.sum(squares**2))
    n_pairs = float(np.sum(counts * (counts - 1.0)))
    if not n_pairs or not by_chance > 0.0:
        return 0.0
    found = within / n_pairs / float(squares.mean())
    sure = within > _BEYOND_DOUBT * np.sqrt(2.0 * by_chance)
    return found if sure and found > _WORTH else 0.0


def columns_of_groups(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    """Return columns that may name groups of rows, with the group number of each first row.

    Either the column's name suggests groups, or another column with about as many values is
    constant within each group, as the age of a person is. A column that only rises or only falls
    with the values of the first is the same quantity in another unit, and says nothing.

    Parameters
    ----------
    columns : mapping of str to ndarray of shape (n,)
        Numbers, or codes of categories.
    """
    found, named = {}, {}
    for name, values in list(columns.items())[:FIRST_COLUMNS]:
        codes = np.unique(values[:_FIRST_ROWS], return_inverse=True)[1].astype(np.int64)
        if codes.size and _LEAST_VALUES <= int(codes.max()) + 1 <= codes.size // 2:
            found[name] = codes
    most = sorted(found, key=lambda name: -int(found[name].max()))[:_MOST_NAMING]
    for name in most:
        codes, k = found[name], int(found[name].max()) + 1
        first = np.zeros(k, dtype=np.int64)
        first[codes[::-1]] = np.arange(codes.size)[::-1]
        others = (found[one] for one in most if one != name and found[one].max() + 1 >= k / 2)
        if _NAMES_A_GROUP.fullmatch(name) or any(
            np.array_equal(other[first][codes], other)
            and np.ptp(np.sign(np.diff(other[first]))) > 1
            for other in others
        ):
            named[name] = codes
    return named


def _in_order(targets: Array) -> bool:
    """Return whether rows are sorted by a target, or come class by class."""
    changes = np.count_nonzero(np.diff(targets, axis=0), axis=0)
    return bool((changes <= _FEW_CHANGES).all() or _one_way(targets).any())


def _one_way(columns: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which columns are monotone, with at least a few changes."""
    steps = np.diff(columns, axis=0)
    changes, up = np.count_nonzero(steps, axis=0), np.count_nonzero(steps > 0.0, axis=0)
    one_way = np.maximum(up, changes - up) >= _SORTED_SHARE * changes
    return np.asarray(one_way & (changes > _FEW_CHANGES))


def _errors_alone(rows: Rows, drawn: NDArray[np.int64]) -> Array:
    """Return errors of a pilot without each row or its group; of the mean if that is better."""
    rows = _standard(rows)
    if not rows.X.shape[1]:
        return rows.targets
    errors = rows.targets - left_out_by_pilot(rows, 1, drawn)
    return errors if np.mean(errors**2) < np.mean(rows.targets**2) else rows.targets


def stack(
    predictions: list[Array], codes: Array, weights: Array, loss: Loss, block: int = 1
) -> Array:
    r"""Return non-negative weights :math:`v_p` that minimise the loss of :math:`\sum_p v_p f_p`.

    With the squared loss of numbers, the weights sum to at most 1. With classes, they also turn
    values between the codes -1 and +1 into scores in units of the loss. The minimised function is
    the mean loss plus :math:`\frac{s^2}{n} \sum_p (v_p - 1/P)^2` (three tenths of it for classes),
    with n the effective number of rows; this prior keeps the first rows from being trusted too
    much. In a series a block counts as one row, since its errors are alike: parts that extrapolate
    differently are better averaged than weighed by a few blocks. The noise s² is the smallest mean
    squared error of a part, or the mean square of the codes for fewer than 100 rows. So where a
    part tells classes apart without errors, little holds the weights back. While the smallest
    weight is below a twentieth of the total, its part is left out and the others are weighted
    again.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, n_outputs)
        Values of each part at the rows.
    codes : ndarray of shape (n, n_outputs)
        Numbers, or class codes -1 and +1.
    weights : ndarray of shape (n,)
        Weights of the rows.
    loss : Loss
        The loss.
    block : int, default=1
        Number of successive rows that were held out together.

    Returns
    -------
    v : ndarray of shape (n_parts,)

    References
    ----------
    L. Breiman, Stacked regressions, Machine Learning 24, 1996.
    """
    n_parts, share = len(predictions), weights / weights.sum()
    start = np.full(n_parts, 1.0 / n_parts)
    worth = block * (_PRIOR if isinstance(loss, Squared) else _CLASS_PRIOR)
    size = float(share @ np.sum(codes**2, axis=1))
    if 1.0 / float(share @ share) >= _TELLING:
        size = min(float(share @ np.sum((f - codes) ** 2, axis=1)) for f in predictions)
    prior = worth * size * float(share @ share)
    if isinstance(loss, Squared):
        root = np.sqrt(share)[:, np.newaxis]
        columns = np.column_stack([(root * values).ravel() for values in predictions])
        stacked = np.vstack([columns, np.sqrt(prior) * np.eye(n_parts)])
        right = np.append((root * codes).ravel(), np.sqrt(prior) * start)
        v: Array = nnls(stacked, right)[0]
        if v.sum() > 1.0:
            # At most the weight of all rows: few rows would be exaggerated.
            heavy = _HEAVY * np.sqrt(float(np.sum(stacked**2)))
            v = nnls(np.vstack([stacked, np.full(n_parts, heavy)]), np.append(right, heavy))[0]
        return _without_dust(v, predictions, codes, weights, loss, block)
    targets = targets_of_codes(loss, codes)
    parts = np.stack(predictions)

    def value(v: Array) -> tuple[float, Array]:
        losses, slopes = loss_and_slopes(loss, np.tensordot(v, parts, 1), targets)
        slope = np.einsum("pij,ij->p", parts, slopes * share[:, np.newaxis])
        distance = v - start
        total = float(share @ losses) + prior * float(distance @ distance)
        return total, slope + 2.0 * prior * distance

    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 50.0)] * n_parts)
    v = np.asarray(found.x, dtype=np.float64)
    return _without_dust(v, predictions, codes, weights, loss, block)


def calibrate(values: Array, codes: Array, weights: Array, loss: Loss) -> tuple[float, float]:
    r"""Return factor a and bend b of scores :math:`a f + b (a f)^3` that minimise a class loss.

    Least squares on codes estimates 2 p - 1 for a probability p. Its logit, :math:`2
    \,\mathrm{artanh}(2 p - 1)`, is steeper at the ends, so a single factor is too bold for noisy
    labels and too cautious for clean ones. The minimised function is the mean loss plus :math:`((a
    - 1)^2 + b_1^2) / n`, with :math:`b_1` the bend at scores of ordinary size. Predicted classes do
    not change.

    Parameters
    ----------
    values : ndarray of shape (n, n_outputs)
        Scores f at held-out rows, in units of the loss.
    codes : ndarray of shape (n, n_outputs)
        Class codes -1 and +1.
    weights : ndarray of shape (n,)
        Weights of the rows.
    loss : Loss
        The loss.

    Returns
    -------
    factor, bend : float
        Factor above 0, and bend of at least 0.
    """
    share, targets = weights / weights.sum(), targets_of_codes(loss, codes)
    size = float(np.sqrt(share @ np.mean(values**2, axis=1)))
    if size == 0.0:
        return 1.0, 0.0
    cubes, worth = values * (values / size) ** 2, float(share @ share)

    def value(found: Array) -> tuple[float, Array]:
        losses, slopes = loss_and_slopes(loss, found[0] * values + found[1] * cubes, targets)
        slopes *= share[:, np.newaxis]
        away = found - np.array([1.0, 0.0])
        total = float(share @ losses) + worth * float(away @ away)
        slope = np.array([np.sum(slopes * values), np.sum(slopes * cubes)])
        return total, slope + 2.0 * worth * away

    start, bounds = np.array([1.0, 0.0]), [(_LEAST_FACTOR, None), (0.0, None)]
    factor, bend = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(factor), float(bend / (factor**3 * size**2))


def _without_dust(
    v: Array, predictions: list[Array], codes: Array, weights: Array, loss: Loss, block: int
) -> Array:
    """Drop the smallest weights, whose share the others take over; equal weights if all are 0."""
    if not v.any():
        return np.full(v.size, 1.0 / v.size)
    least = int(np.argmin(np.where(v > 0.0, v, np.inf)))
    if v[least] >= _DUST * v.sum():
        return v
    used = np.setdiff1d(np.flatnonzero(v), least)
    found = np.zeros(v.size)
    found[used] = stack([predictions[part] for part in used], codes, weights, loss, block)
    return found


def mean_loss(loss: Loss, values: Array, rows: Rows) -> float:
    """Return the weighted mean loss of values at rows, whose targets are codes or numbers."""
    losses = loss_and_slopes(loss, values, targets_of_codes(loss, rows.targets))[0]
    return float(rows.weights @ losses / rows.weights.sum())
