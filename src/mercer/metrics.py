"""Measures of a ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score, roc_auc_score

from mercer._validation import check_integer

__all__ = ["concordance", "ndcg"]

Array = NDArray[np.float64]


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
        Between 0 and 1; 0.5 for scores that know nothing.

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
    right = total = 0.0
    for rows in _rows_of_groups(group, y.size):
        n_right, n_pairs = _concordant(y[rows], scores[rows])
        right, total = right + n_right, total + n_pairs
    if total == 0.0:
        raise ValueError("All y are equal (within each group): no pair has an order to compare.")
    return right / total


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
        Gains, at least 0; for the usual exponential ones pass 2**y - 1.
    scores : array-like of shape (n_samples,)
        Scores.
    group : array-like of shape (n_samples,), default=None
        Group (query) of each row; None for one.
    k : int or None, default=None
        How many rows of the top of each group count; None for all.

    Returns
    -------
    gain : float
        1 for a perfect order. Groups without any gain count as 0.

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
    groups = [rows for rows in _rows_of_groups(group, y.size) if rows.size > 1]
    if not groups:
        raise ValueError("No group has two rows, so that there is no order to judge.")
    return float(np.mean([ndcg_score(y[None, rows], scores[None, rows], k=k) for rows in groups]))


def _checked(y: ArrayLike, scores: ArrayLike) -> tuple[Array, Array]:
    gains, values = np.asarray(y, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if gains.ndim != 1 or gains.shape != values.shape:
        raise ValueError(
            f"`y` and `scores` must be vectors of one length, got shapes {gains.shape} and "
            f"{values.shape}."
        )
    if not (np.isfinite(gains).all() and np.isfinite(values).all()):
        raise ValueError("`y` and `scores` must be finite.")
    return gains, values


def _rows_of_groups(group: ArrayLike | None, n: int) -> list[NDArray[np.int64]]:
    if group is None:
        return [np.arange(n)]
    groups = np.asarray(group)
    if groups.shape != (n,):
        raise ValueError(f"`group` must have shape ({n},), got {groups.shape}.")
    _, numbers = np.unique(groups, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
