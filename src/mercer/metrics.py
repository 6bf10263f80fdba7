"""Measures of a ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau, rankdata
from sklearn.metrics import roc_auc_score

from mercer.validation import check_integer, check_numbers

__all__ = ["auc_standard_error", "concordance", "ndcg"]

Array = NDArray[np.float64]

_FEW = 64  # rows of a group up to which its pairs are compared one by one


def auc_standard_error(positive: NDArray[np.bool_], scores: Array) -> float:
    """Say how far the area under a ROC curve is off for lack of rows, as a standard deviation.

    Parameters
    ----------
    positive : ndarray of shape (n_rows,) of bool
        Class of each row.
    scores : ndarray of shape (n_rows,)
        Scores of the rows.

    Returns
    -------
    standard_error : float
        NaN with fewer than two rows of a class.

    Raises
    ------
    ValueError
        If ``positive`` is not of bool, lengths differ, or scores are not finite.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated
    receiver operating characteristic curves; computed by ranks as by Sun and Xu (2014).

    Examples
    --------
    >>> auc_standard_error(np.array([True, True, False, False]), np.array([4.0, 3.0, 2.0, 1.0]))
    0.0
    """
    positive = np.asarray(positive)
    if positive.dtype != bool:
        raise ValueError(f"`positive` must be an array of bool, got {positive.dtype}.")
    _, scores = _checked(positive, scores)
    variance = 0.0
    ranks = rankdata(scores)
    for own in (positive, ~positive):
        n = int(own.sum())
        if n < 2:
            return float("nan")
        # Share of the other class that each row is above, ties half.
        share = (ranks[own] - rankdata(scores[own])) / (own.size - n)
        variance += float(np.var(share, ddof=1)) / n
    return float(np.sqrt(variance))


def concordance(
    y: ArrayLike, scores: ArrayLike, group: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """Share of the pairs with different y whose scores are in the same order; ties count half.

    For two classes it is the area under the ROC curve.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Numbers; higher ones should have higher scores.
    scores : array-like of shape (n_samples,)
        Scores.
    group : array-like of shape (n_samples,), default=None
        Only pairs of one group count; a group counts by the number of its pairs.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for two classes without groups.

    Returns
    -------
    share : float
        Between 0 and 1; 0.5 for uninformative scores.

    Raises
    ------
    ValueError
        If no pair has different y, or weights are given where they cannot be used.

    Examples
    --------
    >>> concordance([1, 2, 3], [0.1, 0.5, 0.4])  # one of three pairs is in the wrong order
    0.6666666666666666
    """
    y, scores = _checked(y, scores)
    if sample_weight is not None:
        if group is not None or np.unique(y).size != 2:
            raise ValueError(
                "`sample_weight` is for two classes without groups: pairs of graded rows are "
                "counted, not weighed. Leave it out."
            )
        return float(roc_auc_score(y, scores, sample_weight=sample_weight))
    right, total = (float(np.sum(counts)) for counts in concordant_pairs(y, scores, group))
    if total == 0.0:
        raise ValueError("All y are equal (within each group): no pair has an order to compare.")
    return right / total


def concordant_pairs(
    y: ArrayLike, scores: ArrayLike, group: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Count the pairs of each group in the right order.

    Parameters
    ----------
    y, scores, group : array-like of shape (n_samples,)
        As for :func:`concordance`.

    Returns
    -------
    n_right : ndarray of shape (n_groups,)
        Pairs with different y whose scores are in the same order, ties half.
    n_pairs : ndarray of shape (n_groups,)
        Pairs with different y. Groups are in the order of their labels.

    Examples
    --------
    >>> concordant_pairs([1, 2, 2, 5], [3, 4, 7, 1], ["a", "a", "b", "b"])
    (array([1., 0.]), array([1., 1.]))
    """
    y, scores = _checked(y, scores)
    order, group_of, starts = _by_group(group, y.size)
    y, scores = y[order], scores[order]
    ends = np.append(starts[1:], y.size)
    right, total = np.zeros(starts.size), np.zeros(starts.size)
    for i in np.flatnonzero(ends - starts > _FEW):
        rows = slice(starts[i], ends[i])
        right[i], total[i] = _concordant(y[rows], scores[rows])
    # Small groups all at once: each row with the one that comes `step` after it in its group.
    first = np.flatnonzero((ends - starts <= _FEW)[group_of])
    for step in range(1, _FEW):
        first = first[first + step < ends[group_of[first]]]
        if not first.size:
            break
        tau = _sign(y[first], y[first + step])
        agreement = tau * _sign(scores[first], scores[first + step])
        shares = np.where(tau == 0, 0.0, 0.5 * (1.0 + agreement))
        right += np.bincount(group_of[first], shares, minlength=starts.size)
        total += np.bincount(group_of[first], tau != 0, minlength=starts.size)
    return right, total


def _sign(first: Array, second: Array) -> NDArray[np.int8]:
    """Whether the first is above (1), below (-1) or equal (0)."""
    return (first > second).astype(np.int8) - (first < second).astype(np.int8)


def _concordant(y: Array, scores: Array) -> tuple[float, float]:
    """Count the pairs in the right order, ties half, and all pairs with different y."""
    n_pairs, tied_y, tied_scores = _pairs(np.array([y.size])), _ties(y), _ties(scores)
    different = n_pairs - tied_y
    if different == 0.0:
        return 0.0, 0.0
    if n_pairs == tied_scores:
        return 0.5 * different, different
    # tau-b is the surplus of concordant pairs over this root.
    surplus = kendalltau(y, scores).statistic * np.sqrt(different * (n_pairs - tied_scores))
    return 0.5 * (different + float(surplus)), different


def _ties(values: Array) -> float:
    return _pairs(np.unique(values, return_counts=True)[1])


def _pairs(counts: NDArray[np.int64]) -> float:
    return float(np.sum(counts * (counts - 1.0)) / 2.0)


def ndcg(
    y: ArrayLike, scores: ArrayLike, group: ArrayLike | None = None, k: int | None = None
) -> float:
    """Normalised discounted cumulative gain, the mean over groups with more than one row.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Gains, at least 0; for the usual exponential gains pass 2**y - 1.
    scores : array-like of shape (n_samples,)
        Scores.
    group : array-like of shape (n_samples,), default=None
        Group (query) of each row; None for one.
    k : int or None, default=None
        How many rows of the top of each group count; None for all.

    Returns
    -------
    gain : float
        1 for a perfect order; rows with equal scores share their places, as in scikit-learn's
        ``ndcg_score``. Groups without any gain count as 0.

    Raises
    ------
    ValueError
        For gains below 0, or if no group has two rows.

    Examples
    --------
    >>> round(ndcg([3, 2, 0, 1], [0.9, 0.8, 0.1, 0.5]), 3)
    1.0
    """
    y, scores = _checked(y, scores)
    if (y < 0.0).any():
        raise ValueError(f"`y` must not be below 0, got {y.min():g}: it is what a row gains.")
    if k is not None:
        check_integer("k", k, low=1)
    order, group_of, starts = _by_group(group, y.size)
    sizes = np.diff(np.append(starts, y.size))
    if sizes.max(initial=0) < 2:
        raise ValueError("No group has two rows, so that there is no order to judge.")
    places = np.arange(y.size) - starts[group_of]
    discounts = np.where(places < (y.size if k is None else k), 1.0 / np.log2(places + 2.0), 0.0)
    gains, values = y[order], scores[order]
    ranked = np.lexsort((-values, group_of))
    # Rows with equal scores share their places, so that each has the mean gain.
    tied = _runs(group_of, values[ranked])
    means = np.bincount(tied, gains[ranked]) / np.bincount(tied)
    found = np.bincount(group_of, means[tied] * discounts)
    best = np.bincount(group_of, gains[np.lexsort((-gains, group_of))] * discounts)
    shares = np.divide(found, best, out=np.zeros(best.size), where=best > 0.0)
    return float(shares[sizes > 1].mean())


def _runs(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Give the rows of each run of equal ones the number of the run, from 0 on."""
    new = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.concatenate([[0], np.cumsum(new)])


def _checked(y: ArrayLike, scores: ArrayLike) -> tuple[Array, Array]:
    gains, values = check_numbers("`y`", y), check_numbers("`scores`", scores)
    if gains.ndim != 1 or gains.shape != values.shape:
        raise ValueError(
            f"`y` and `scores` must be vectors of one length, got shapes {gains.shape} and "
            f"{values.shape}."
        )
    if not (np.isfinite(gains).all() and np.isfinite(values).all()):
        raise ValueError("`y` and `scores` must be finite.")
    return gains, values


def _by_group(
    group: ArrayLike | None, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Sort rows by their groups: their order; in it, the group of each; where each group starts."""
    if group is None:
        return np.arange(n), np.zeros(n, dtype=np.int64), np.zeros(min(n, 1), dtype=np.int64)
    groups = np.asarray(group)
    if groups.shape != (n,):
        raise ValueError(f"`group` must have shape ({n},), got {groups.shape}.")
    _, numbers = np.unique(groups, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    group_of = numbers[order]
    return order, group_of, np.flatnonzero(np.diff(group_of, prepend=-1))
