r"""Apply the net change of a compression step to the dictionary and its inverse Gram matrix.

With R the points that went, Q the newcomers that stay, :math:`B = P k_Q` and S the newcomers'
Schur complement:

- downdate: :math:`L_R L_R^T = P_{RR}`, :math:`Y_2 = L_R^{-1} P_{R:}`;
- grow: :math:`H = L_R^{-1} B_{RQ}`, :math:`B_1 = B_Q - Y_2^T H`,
  :math:`S_1 = S_{QQ} + H^T H = L_1 L_1^T`, :math:`Y_1 = L_1^{-1} B_1^T`;
- :math:`P \leftarrow P + Y_1^T Y_1 - Y_2^T Y_2`, new rows :math:`-L_1^{-T} Y_1`, new block
  :math:`L_1^{-T} L_1^{-1}`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer.numerics.blas import exchange_update, rank_update
from mercer.numerics.small_dense import cholesky, lower_solve, lower_transpose_solve
from mercer.numerics.state import Dictionary, Newcomers

__all__ = ["commit_net_change"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]


@njit(cache=True)
def commit_net_change(
    blas: tuple[int, int],
    dictionary: Dictionary,
    size: int,
    alive: NDArray[np.bool_],
    new: Newcomers,
    kept: NDArray[np.int64],
    coefficients: Array,
    projections: Floats,
    schur: Array,
) -> tuple[int, bool]:
    """Downdate the old points that went and grow the newcomers that stay.

    Parameters
    ----------
    blas : tuple of int
        From :func:`mercer.numerics.blas.blas_addresses`.
    dictionary : Dictionary
        Changed in place.
    size : int
        Model order before.
    alive : ndarray of shape (size + n_kept,) of bool
        Which old points and which kept newcomers live on.
    new : Newcomers
        All newcomers.
    kept : ndarray of int64
        Those of them that were not absorbed.
    coefficients : ndarray of shape (size + n_kept, n_columns)
        Coefficients after the compression.
    projections : ndarray of shape (n_new, size)
        ``P k`` of each newcomer.
    schur : ndarray of shape (n_new, n_new)
        The newcomers' Schur complement.

    Returns
    -------
    size : int
        Model order after.
    fine : bool
        False if a factor was not positive definite; nothing has changed then.
    """
    weights, inverse = dictionary.weights, dictionary.inverse
    n_outputs = weights.shape[1]
    n_gone = 0
    for i in range(size):
        if not alive[i]:
            n_gone += 1
    gone = np.empty(n_gone, np.int64)
    n_gone = 0
    for i in range(size):
        if not alive[i]:
            gone[n_gone] = i
            n_gone += 1
    n_stay = 0
    stay = np.empty(kept.size, np.int64)
    stay_weights = np.empty((kept.size, n_outputs))
    for p in range(kept.size):
        if alive[size + p]:
            stay[n_stay] = kept[p]
            stay_weights[n_stay] = coefficients[size + p]
            n_stay += 1
    if n_gone == 0 and n_stay == 0:
        weights[:size] = coefficients[:size]
        return size, True
    # Downdate: Y2 = L_R^-1 P[R, :].
    block = np.empty((n_gone, n_gone))
    down = np.empty((n_gone, size), inverse.dtype)
    for r in range(n_gone):
        g = gone[r]
        for i in range(g + 1):
            down[r, i] = inverse[g, i]
        for i in range(g + 1, size):
            down[r, i] = inverse[i, g]
        for s in range(r + 1):
            block[r, s] = inverse[g, gone[s]]
            block[s, r] = block[r, s]
    gone_factor, fine = cholesky(block)
    if not fine:
        return size, False
    lower_solve(gone_factor, down)
    # Grow: H = L_R^-1 B[R, Q], B1 = B[:, Q] - Y2' H, S1 = S_QQ + H'H, Y1 = L1^-1 B1'.
    bridge = np.empty((n_gone, n_stay))
    up = np.empty((n_stay, size), inverse.dtype)
    for q in range(n_stay):
        for r in range(n_gone):
            bridge[r, q] = projections[stay[q], gone[r]]
    lower_solve(gone_factor, bridge)
    fresh = np.empty((n_stay, n_stay))
    for q in range(n_stay):
        for s in range(n_stay):
            total = schur[stay[q], stay[s]]
            for r in range(n_gone):
                total += bridge[r, q] * bridge[r, s]
            fresh[q, s] = total
        for i in range(size):
            up[q, i] = projections[stay[q], i]
        for r in range(n_gone):
            c = bridge[r, q]
            for i in range(size):
                up[q, i] -= c * down[r, i]
    fresh_factor, fine = cholesky(fresh)
    if not fine:
        return size, False
    weights[:size] = coefficients[:size]
    lower_solve(fresh_factor, up)
    if n_stay == 1 and n_gone == 1:
        exchange_update(up[0], down[0], inverse)
    else:
        rank_update(blas, 1.0, up, inverse)
        rank_update(blas, -1.0, down, inverse)
    # New rows -L1^-T Y1 and the new block L1^-T L1^-1, from one factor so that all stays symmetric.
    lower_transpose_solve(fresh_factor, up)
    corner = np.zeros((n_stay, n_stay))
    for q in range(n_stay):
        corner[q, q] = 1.0
    lower_solve(fresh_factor, corner)
    lower_transpose_solve(fresh_factor, corner)
    # Newcomers take the slots of those that went, then append; left-over holes get the tail.
    for q in range(n_stay):
        slot = gone[q] if q < n_gone else size + q - n_gone
        dictionary.points[slot] = new.points[stay[q]]
        dictionary.self_kernel[slot] = new.gram[stay[q], stay[q]]
        weights[slot] = stay_weights[q]
        dictionary.origin[slot] = -1 - stay[q]
        dictionary.pinned[slot] = new.pinned[stay[q]]
        for i in range(size):
            value = -up[q, i]
            if i <= slot:
                inverse[slot, i] = value
            else:
                inverse[i, slot] = value
        for s in range(q + 1):
            other = gone[s] if s < n_gone else size + s - n_gone
            inverse[max(slot, other), min(slot, other)] = corner[q, s]
    new_size = size + n_stay - n_gone
    last = size - 1
    hole = n_stay
    back = n_gone - 1
    while hole <= back:
        while back >= hole and gone[back] == last:
            back -= 1
            last -= 1
        if hole > back:
            break
        slot = gone[hole]
        dictionary.points[slot] = dictionary.points[last]
        dictionary.self_kernel[slot] = dictionary.self_kernel[last]
        weights[slot] = weights[last]
        dictionary.origin[slot] = dictionary.origin[last]
        dictionary.pinned[slot] = dictionary.pinned[last]
        for i in range(last):
            if i < slot:
                inverse[slot, i] = inverse[last, i]
            elif i > slot:
                inverse[i, slot] = inverse[last, i]
        inverse[slot, slot] = inverse[last, last]
        hole += 1
        last -= 1
    return new_size, True
