r"""Points that leave the dictionary of a bilinear function: projections and plain deletions.

See :mod:`mercer.numerics.bilinear` for what a removal costs. The norms of rows and columns that
are kept from step to step and the inverse Gram matrix P only say which point to look at: the point
chosen is computed afresh from K and C, so that the error that is reported does not drift.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer.numerics.bilinear import (
    COSINE,
    REFINEMENTS,
    BilinearState,
    change_norm2,
    times,
    transpose_times,
)
from mercer.numerics.small_dense import dot
from mercer.numerics.state import GREEDY

__all__ = ["delete", "project_away", "removal_errors"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# A point that costs at most this much more than it seemed to (relative) is still the cheapest.
_TIE = 1e-9


def removal_errors(coefficients: Array, gram: Array, gram_inverse: Array) -> Array:
    r"""Squared Hilbert-Schmidt error of removing each dictionary point, the rest refitted.

    Parameters
    ----------
    coefficients : ndarray of shape (model_order, model_order)
        C.
    gram, gram_inverse : ndarray of shape (model_order, model_order)
        K and its inverse.

    Returns
    -------
    errors : ndarray of shape (model_order,)
        Squared errors, in units of the squared norm.

    Examples
    --------
    >>> removal_errors(np.array([[3.0, 1.0], [0.0, 2.0]]), np.eye(2), np.eye(2))
    array([10.,  5.])
    """
    C, K, pivots = coefficients, gram, np.diag(gram_inverse)
    rows, columns = np.sum(C @ K * C, axis=1), np.sum(C.T @ K * C.T, axis=1)
    errors: Array = (rows + columns - np.diag(C) ** 2 / pivots) / pivots
    return errors


@njit(cache=True)
def _close_gap(
    state: BilinearState, gap: int, last: int, pinned: NDArray[np.bool_], origin: Indices
) -> None:
    """Move the last point into the slot of one that went."""
    for matrix in (state.coefficients, state.gram, state.inverse):
        if matrix.size:
            matrix[gap, :last] = matrix[last, :last]
            matrix[:last, gap] = matrix[:last, last]
            matrix[gap, gap] = matrix[last, last]
    for vector in (state.self_kernel, state.row_norms, state.column_norms):
        if vector.size:
            vector[gap] = vector[last]
    pinned[gap] = pinned[last]
    origin[gap] = origin[last]


@njit(cache=True)
def _term_norms2(state: BilinearState, size: int, out: Array) -> None:
    """Squared norm of what goes if a point is deleted: its row and column."""
    C, K = state.coefficients, state.gram
    along = np.zeros(size)
    for k in range(size):
        for i in range(size):
            along[i] += C[k, i] * K[k, i]
    for i in range(size):
        out[i] = change_norm2(
            K[i, i],
            state.row_norms[i],
            state.column_norms[i],
            C[i, i],
            dot(C[i, :size], K[i, :size]),
            along[i],
        )


@njit(cache=True)
def project_away(
    state: BilinearState,
    size: int,
    pinned: NDArray[np.bool_],
    origin: Indices,
    squared_error: float,
    squared_tolerance: float,
    max_size: int,
    rule: int,
) -> tuple[int, float, bool]:
    """Remove points, the others refitted, while the error allows it or there are too many.

    Parameters
    ----------
    state : BilinearState
        Changed in place.
    size : int
        Points in use.
    pinned : ndarray of shape (size,) of bool
        Points that must stay; follows the slots.
    origin : ndarray of shape (size,) of int64
        Numbers that follow the slots.
    squared_error : float
        Squared error made so far.
    squared_tolerance : float
        Squared error that may be made; negative for none.
    max_size : int
        Points beyond this go whatever they cost.
    rule : int
        GREEDY: the cheapest point goes; SMALLEST: that whose terms have the smallest norm.

    Returns
    -------
    size : int
        Points in use.
    squared_error : float
        Squared error made, that from before included.
    accurate : bool
        False if the inverse is not good enough to go on.
    """
    C, K, P = state.coefficients, state.gram, state.inverse
    values, fresh = np.empty(size), np.empty(size, np.bool_)
    p, rest, repair = np.empty(size), np.empty(size), np.empty(size)
    q, column = np.empty(size), np.empty(size)
    g, h, left, right = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    stale = True
    while size > 0:
        if stale:
            if rule == GREEDY:
                for i in range(size):
                    pivot = P[i, i]
                    if not pivot > 0.0:
                        return size, squared_error, False
                    norms = state.row_norms[i] + state.column_norms[i]
                    values[i] = (norms - C[i, i] ** 2 / pivot) / pivot
            else:
                _term_norms2(state, size, values)
            fresh[:] = False
            stale = False
        j = -1
        for i in range(size):
            if not pinned[i] and (j < 0 or values[i] < values[j]):
                j = i
        if j < 0:
            break
        forced = size > max_size
        if not forced and (rule != GREEDY or squared_error + values[j] > squared_tolerance):
            break
        # The residual of point j is r = Φ q with q = P[:, j] / P[j, j].
        p[:size] = P[j, :size]
        for attempt in range(REFINEMENTS + 1):
            if not p[j] > 0.0:
                return size, squared_error, False
            times(K, size, p, rest)
            worst = 0.0
            for i in range(size):
                rest[i] = (1.0 if i == j else 0.0) - rest[i]
                worst = max(worst, rest[i] ** 2 / (K[i, i] * p[j]))
            if worst <= COSINE**2:
                break
            if attempt == REFINEMENTS:
                return size, squared_error, False
            times(P, size, rest, repair)
            for i in range(size):
                p[i] += repair[i]
        own = C[j, j]
        for i in range(size):
            q[i] = p[i] / p[j]
            column[i] = C[i, j]
        times(K, size, C[j, :size], g)
        times(K, size, column[:size], h)
        squared = (q[j] - dot(q[:size], rest[:size])) / p[j]
        row_norm, column_norm = dot(C[j, :size], g[:size]), dot(column[:size], h[:size])
        cost = change_norm2(
            squared,
            row_norm,
            column_norm,
            own,
            dot(q[:size], g[:size]),
            dot(q[:size], h[:size]),
        )
        cost = max(cost, 0.0)
        if rule == GREEDY and not fresh[j]:
            seemed, values[j], fresh[j] = values[j], cost, True
            if cost > seemed * (1.0 + _TIE):
                # The running norms lose digits. If the point costs more than it seemed to, choose
                # again.
                state.row_norms[j], state.column_norms[j] = row_norm, column_norm
                continue
        if not forced and squared_error + cost > squared_tolerance:
            break
        squared_error += cost
        # C <- R C R' with R = I - q e_j', and the Gram matrix of what the points turn into.
        times(C, size, g, left)
        transpose_times(C, size, h, right)
        root = 1.0 / np.sqrt(p[j])
        for i in range(size):
            row = C[i, j] - q[i] * own
            state.row_norms[i] += q[i] * (q[i] * row_norm - 2.0 * left[i]) - row**2 * squared
            col = C[j, i] - q[i] * own
            state.column_norms[i] += q[i] * (q[i] * column_norm - 2.0 * right[i]) - col**2 * squared
            repair[i] = col
            p[i] *= root
        for i in range(size):
            for k in range(size):
                C[i, k] -= q[i] * repair[k] + column[i] * q[k]
                P[i, k] -= p[i] * p[k]
        size -= 1
        _close_gap(state, j, size, pinned, origin)
        stale = True
    return size, squared_error, True


_AGES = 2.0**62  # more than there are


@njit(cache=True)
def delete(
    state: BilinearState,
    size: int,
    pinned: NDArray[np.bool_],
    origin: Indices,
    max_size: int,
    ages: Indices,
) -> tuple[int, float]:
    """Delete points, the others as they are, until ``max_size`` remain.

    Parameters
    ----------
    state, size, pinned, origin, max_size
        As in :func:`project_away`.
    ages : ndarray of shape (size,) or (0,) of int64
        By ``origin``: the point with the smallest number goes first. With none it is the one
        whose terms have the smallest norm.

    Returns
    -------
    size : int
        Points in use.
    error : float
        Sum of the norms of what was deleted: a bound of the error, exact for one point.
    """
    C, K = state.coefficients, state.gram
    error = 0.0
    values, column = np.empty(size), np.empty(size)
    g, h, left, right = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    while size > max_size:
        if ages.size:
            for i in range(size):
                values[i] = ages[origin[i]]
                if not (C[i, :size].any() or C[:size, i].any()):
                    values[i] -= _AGES  # points that add nothing go first
        else:
            _term_norms2(state, size, values)
        j = -1
        for i in range(size):
            if not pinned[i] and (j < 0 or values[i] < values[j]):
                j = i
        if j < 0:
            break
        for i in range(size):
            column[i] = C[i, j]
        times(K, size, C[j, :size], g)
        times(K, size, column[:size], h)
        row_norm, column_norm = dot(C[j, :size], g[:size]), dot(column[:size], h[:size])
        norm2 = change_norm2(K[j, j], row_norm, column_norm, C[j, j], g[j], h[j])
        error += np.sqrt(max(norm2, 0.0))
        if state.row_norms.size:
            times(C, size, K[j, :size], left)
            transpose_times(C, size, K[j, :size], right)
            for i in range(size):
                state.row_norms[i] -= C[i, j] * (2.0 * left[i] - C[i, j] * K[j, j])
                state.column_norms[i] -= C[j, i] * (2.0 * right[i] - C[j, i] * K[j, j])
        size -= 1
        _close_gap(state, j, size, pinned, origin)
    return size, error
