"""Newcomers that depend linearly on the dictionary: absorb them and book what it costs.

Exact and near duplicates are common in streams. Kept, they would make the Gram matrix singular;
dropped, they would cost more than they need.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer.numerics.small_dense import lower_solve, lower_transpose_solve

__all__ = ["absorb", "book_absorbed"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]


@njit(cache=True)
def absorb(
    schur: Array, self_kernel: Array, threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Split newcomers into those to keep and those that depend on the others.

    The one farthest from the span of the rest comes first (pivoted Cholesky). In order of arrival
    rows that resemble each other, as in a sorted stream, would give a factor so ill-conditioned
    that the coefficients of the step come out as noise.

    Parameters
    ----------
    schur : ndarray of shape (n_new, n_new)
        Gram matrix of the newcomers' parts outside the span of the dictionary.
    self_kernel : ndarray of shape (n_new,)
        k(x, x) of each newcomer.
    threshold : float
        A newcomer is absorbed when its pivot is at most ``threshold * k(x, x)``.

    Returns
    -------
    kept, absorbed : ndarray of int64
        Positions among the newcomers; the kept ones in the order of the factor.
    factor : ndarray of shape (n_kept, n_kept)
        Lower Cholesky factor of ``schur`` on the kept ones.
    """
    n_new = schur.shape[0]
    order = np.arange(n_new)
    pivots = np.empty(n_new)
    for i in range(n_new):
        pivots[i] = schur[i, i]
    # Row i of `rows` belongs to newcomer i, whatever its place.
    rows = np.zeros((n_new, n_new))
    n_kept = 0
    while n_kept < n_new:
        best = -1
        largest = threshold
        for p in range(n_kept, n_new):
            i = order[p]
            if pivots[i] > 0.0 and pivots[i] > largest * self_kernel[i]:
                best, largest = p, pivots[i] / self_kernel[i]
        if best < 0:
            break
        chosen = order[best]
        for p in range(best, n_kept, -1):  # the others keep their order
            order[p] = order[p - 1]
        order[n_kept] = chosen
        root = np.sqrt(pivots[chosen])
        rows[chosen, n_kept] = root
        for p in range(n_kept + 1, n_new):
            i = order[p]
            total = schur[i, chosen]
            for k in range(n_kept):
                total -= rows[i, k] * rows[chosen, k]
            rows[i, n_kept] = total / root
            pivots[i] -= rows[i, n_kept] ** 2
        n_kept += 1
    factor = np.zeros((n_kept, n_kept))
    for p in range(n_kept):
        factor[p, : p + 1] = rows[order[p], : p + 1]
    return order[:n_kept].copy(), order[n_kept:].copy(), factor


@njit(cache=True)
def book_absorbed(
    schur: Array,
    factor: Array,
    kept: NDArray[np.int64],
    absorbed: NDArray[np.int64],
    projections: Floats,
    coefficients: Array,
    new_coefficients: Array,
    n_criterion: int,
) -> float:
    """Give the absorbed newcomers' coefficients to the rest; return the squared error of that.

    ``projections`` is (P k_a)', one row per newcomer. The residual is orthogonal to every later
    removal, so its square simply starts the running error.
    """
    n_absorbed, n_outputs = absorbed.size, new_coefficients.shape[1]
    if n_absorbed == 0:
        return 0.0
    mixing = np.empty((kept.size, n_absorbed))
    for p in range(kept.size):
        for m in range(n_absorbed):
            mixing[p, m] = schur[kept[p], absorbed[m]]
    lower_solve(factor, mixing)
    error = 0.0
    for m in range(n_absorbed):
        for o in range(n_absorbed):
            residual = schur[absorbed[m], absorbed[o]]
            for p in range(kept.size):
                residual -= mixing[p, m] * mixing[p, o]
            for c in range(n_criterion):
                error += (
                    new_coefficients[absorbed[m], c] * residual * new_coefficients[absorbed[o], c]
                )
    lower_transpose_solve(factor, mixing)
    size = projections.shape[1]
    for m in range(n_absorbed):
        gift = new_coefficients[absorbed[m]]
        for i in range(size):
            share = np.float64(projections[absorbed[m], i])
            for p in range(kept.size):
                share -= projections[kept[p], i] * mixing[p, m]
            for c in range(n_outputs):
                coefficients[i, c] += share * gift[c]
        for p in range(kept.size):
            for c in range(n_outputs):
                new_coefficients[kept[p], c] += mixing[p, m] * gift[c]
    return max(error, 0.0)
