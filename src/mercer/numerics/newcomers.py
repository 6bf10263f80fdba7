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
    """Split newcomers into those to keep and those that depend on the points before them.

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
        Positions among the newcomers, in order of arrival.
    factor : ndarray of shape (n_kept, n_kept)
        Lower Cholesky factor of ``schur`` on the kept ones.
    """
    n_new = schur.shape[0]
    kept = np.empty(n_new, np.int64)
    absorbed = np.empty(n_new, np.int64)
    factor = np.zeros((n_new, n_new))
    n_kept = n_absorbed = 0
    for i in range(n_new):
        pivot = schur[i, i]
        for p in range(n_kept):
            total = schur[i, kept[p]]
            for k in range(p):
                total -= factor[n_kept, k] * factor[p, k]
            factor[n_kept, p] = total / factor[p, p]
            pivot -= factor[n_kept, p] ** 2
        if pivot <= threshold * self_kernel[i] or pivot <= 0.0:
            absorbed[n_absorbed] = i
            n_absorbed += 1
        else:
            factor[n_kept, n_kept] = np.sqrt(pivot)
            kept[n_kept] = i
            n_kept += 1
    return kept[:n_kept], absorbed[:n_absorbed], factor[:n_kept, :n_kept].copy()


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
