r"""Compression of bilinear functions :math:`B(x, z) = \sum_{ij} C_{ij}\, k(d_i, x)\, k(d_j, z)`.

B is an operator on the RKHS, with the Hilbert-Schmidt norm :math:`\|B\|^2 = \mathrm{tr}(C'KCK)`.
Every change that takes point *j* out of the dictionary replaces :math:`\varphi(d_j)` by
:math:`\varphi(d_j) - r`, on both sides. With :math:`c = \sum_k C_{jk} \varphi(d_k)` and
:math:`d = \sum_k C_{kj} \varphi(d_k)` (the row and the column of *j*) and :math:`\gamma = C_{jj}`,

.. math:: B_{before} - B_{after} = r \otimes c + d \otimes r - \gamma\, r \otimes r,

whose squared norm is :func:`change_norm2`. For the projection onto the span of the others r is
orthogonal to it, :math:`\|r\|^2 = 1 / P_{jj}` with :math:`P = K^{-1}`, and the errors of successive
projections add in squares; for a plain deletion :math:`r = \varphi(d_j)`.

The squared norms :math:`\mathrm{diag}(CKC')` of the rows and :math:`\mathrm{diag}(C'KC)` of the
columns are updated from step to step, so that a step with one new point costs O(M²). They and the
inverse Gram matrix P are only used to choose the point to remove: its error is recomputed from K
and C, so the reported error does not drift.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba.core.types
import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.compression import (
    GREEDY,
    INVERSE,
    PLAIN,
    REMOVE,
    RING,
    Limits,
    absorb,
    copy_row,
)
from mercer.numerics.small_dense import dot
from mercer.pointers import machine_code, pointer_call

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# A residual is taken for orthogonal to the dictionary if no cosine exceeds this. The errors of
# successive projections then add in squares to seven digits.
COSINE = 1e-7
# Refinements of a column of the inverse before it counts as inaccurate, and the largest cosine
# that a fresh inverse may start them from.
REFINEMENTS = 3
_REFINABLE = 1e-4
# A dependent point whose projection has larger weights than this (as multiples of norms) should
# stay, and another go: large weights make large coefficients that cancel.
_LARGE = 10.0
# Largest k(d, d) P_jj. Rounding errors of kernel values begin to show in squared distances at 1e-13
# of k(d, d); this keeps two digits away.
_CROWDED = 1e11
JOINED, DEPENDENT, CROWDED, INACCURATE = range(4)
# New points closer than this to the span of the others (squared, relative to k(x, x)) are projected
# on it. A point accepted at a squared distance of s brings the condition number of the Gram matrix
# to 1 / s and, with the weights of its projection, some orders of magnitude beyond: up to about
# 1e13 for 1e-8, where an inverse that is refined once is still good to seven digits.
ABSORB = 1e-8
# The same, for tolerances too small for it.
ABSORB_LESS = 1e-10
# Points closer than this (squared, relative to k(x, x)) differ only by rounding.
TWINS = 1e-13
# The running norms of rows and columns are recomputed after at least this many steps.
REFRESH = 64

# A point that costs at most this much more than it seemed to (relative) is still the cheapest.
_TIE = 1e-9


class BilinearState(NamedTuple):
    """A bilinear function: the first ``size`` rows and columns are in use.

    Arrays that a way of compressing does not need have no rows: ``gram``, ``inverse``, the norms.
    """

    self_kernel: Array  # (capacity,), k(d, d)
    coefficients: Array  # (capacity, capacity), C
    gram: Array  # (capacity, capacity), K
    inverse: Array  # (capacity, capacity), P
    row_norms: Array  # (capacity,), diag(C K C')
    column_norms: Array  # (capacity,), diag(C' K C)


@jit()
def change_norm2(
    squared: float, row: float, column: float, own: float, row_dot: float, column_dot: float
) -> float:
    r"""Squared norm of :math:`r \otimes c + d \otimes r - \gamma\, r \otimes r`.

    Parameters
    ----------
    squared, row, column : float
        Squared norms of r, c and d.
    own : float
        gamma.
    row_dot, column_dot : float
        Inner products of r with c and with d.
    """
    return (
        squared * (row + column + own * own * squared)
        + 2.0 * row_dot * column_dot
        - 2.0 * own * squared * (row_dot + column_dot)
    )


@jit()
def times(matrix: Array, size: int, vector: Array, out: Array) -> None:
    """Write ``out = A @ vector``, A being the leading block of ``matrix``."""
    for i in range(size):
        out[i] = dot(matrix[i, :size], vector)


@jit()
def transpose_times(matrix: Array, size: int, vector: Array, out: Array) -> None:
    """Write ``out = A' @ vector``, A being the leading block of ``matrix``."""
    out[:] = 0.0
    for k in range(size):
        factor = vector[k]
        for i in range(size):
            out[i] += factor * matrix[k, i]


@jit()
def add_block(state: BilinearState, size: int, slots: Indices, block: Array) -> None:
    """Add a block to the coefficients: ``C[slots, slots] += block``, all slots different."""
    C, K, n = state.coefficients, state.gram, slots.size
    if state.row_norms.size:
        columns = np.empty((n, size))
        for q in range(n):
            for i in range(size):
                columns[q, i] = C[i, slots[q]]
        for p in range(n):
            for q in range(n):
                u = block[p, q]
                if u == 0.0:
                    continue
                i, j = slots[p], slots[q]
                row = 2.0 * dot(K[j, :size], C[i, :size])
                column = 2.0 * dot(K[i, :size], columns[q])
                for o in range(n):
                    row += block[p, o] * K[j, slots[o]]
                    column += block[o, q] * K[i, slots[o]]
                state.row_norms[i] += u * row
                state.column_norms[j] += u * column
    for p in range(n):
        for q in range(n):
            C[slots[p], slots[q]] += block[p, q]


@jit()
def leading_block(matrix: Array, size: int) -> Array:
    """Return a copy of ``matrix[:size, :size]``."""
    block = np.empty((size, size))
    for i in range(size):
        copy_row(block, i, matrix, i, size)
    return block


@jit()
def refresh_norms(state: BilinearState, size: int) -> None:
    """Recompute the norms of rows and columns: O(size³), without old rounding errors."""
    C, K = leading_block(state.coefficients, size), leading_block(state.gram, size)
    rows, columns = C @ K, K @ C
    for i in range(size):
        state.row_norms[i], state.column_norms[i] = dot(rows[i], C[i]), 0.0
    for i in range(size):
        for j in range(size):
            state.column_norms[j] += columns[i, j] * C[i, j]


# -- points that join ------------------------------------------------------------------------------


@jit()
def join(state: BilinearState, size: int, row: Array, self_kernel: float, threshold: float) -> int:
    """Append a point with coefficients 0, unless it depends on the others.

    Parameters
    ----------
    state : BilinearState
        Changed in place.
    size : int
        Points in use, below the capacity.
    row : ndarray of shape (size,)
        Kernels of the point with them.
    self_kernel : float
        k(x, x).
    threshold : float
        The point depends on the others if its squared distance to their span is at most this
        times k(x, x). Negative: it joins in any case, and the inverse is not looked at.

    Returns
    -------
    status : int
        ``JOINED``; otherwise nothing has changed. ``DEPENDENT``: the point depends on the others.
        ``CROWDED``: it is less to blame than others, which depend on the rest together with it, or
        have large weights in its projection. ``INACCURATE``: the inverse is too inaccurate to
        decide.
    """
    K, P, C = state.gram, state.inverse, state.coefficients
    if threshold >= 0.0:
        if self_kernel <= 0.0:
            return DEPENDENT
        weights, rest, repair = np.empty(size), np.empty(size), np.empty(size)
        times(P, size, row, weights)
        for attempt in range(REFINEMENTS + 1):
            times(K, size, weights, rest)
            squared = self_kernel
            for i in range(size):
                rest[i] = row[i] - rest[i]
                # Twice the cross term less |projection|², which rounds better and is stationary.
                squared -= weights[i] * (row[i] + rest[i])
            least = max(squared, threshold * self_kernel)
            worst = 0.0
            for i in range(size):
                worst = max(worst, rest[i] ** 2 / (K[i, i] * least))
            if worst <= COSINE**2:
                break
            if attempt == REFINEMENTS:
                return INACCURATE
            times(P, size, rest, repair)
            for i in range(size):
                weights[i] += repair[i]
        largest, crowded = 0.0, 0.0
        for i in range(size):
            share = K[i, i] * weights[i] ** 2
            largest = max(largest, share)
            crowded = max(crowded, K[i, i] * P[i, i] + share / least)
        if squared <= threshold * self_kernel:
            return DEPENDENT if largest <= _LARGE**2 * self_kernel else CROWDED
        if crowded > _CROWDED:
            return CROWDED
        root = 1.0 / np.sqrt(squared)
        for i in range(size):
            weights[i] *= root
        for i in range(size):
            for k in range(size):
                P[i, k] += weights[i] * weights[k]
            P[i, size] = P[size, i] = -weights[i] * root
        P[size, size] = root * root
    if K.size:
        K[size, :size] = row
        K[:size, size] = row
        K[size, size] = self_kernel
    state.self_kernel[size] = self_kernel
    C[size, : size + 1] = 0.0
    C[:size, size] = 0.0
    if state.row_norms.size:
        state.row_norms[size] = state.column_norms[size] = 0.0
    return JOINED


@jit()
def order_of_joining(state: BilinearState, size: int, rows: Array, gram: Array) -> Indices:
    """Return the order in which newcomers join; the farthest first if they may be dependent.

    Parameters
    ----------
    state, size
        As in :func:`join`.
    rows, gram : ndarray of shape (n_new, size) and (n_new, n_new)
        Kernels of the newcomers with the points, and among themselves.
    """
    n_new = len(rows)
    if n_new < 2 or not state.inverse.size:
        return np.arange(n_new)
    schur, own, weights = leading_block(gram, n_new), np.empty(n_new), np.empty(size)
    for p in range(n_new):
        own[p] = gram[p, p]
        times(state.inverse, size, rows[p], weights)
        for q in range(n_new):
            schur[q, p] -= dot(rows[q], weights)
    kept, absorbed, _ = absorb(schur, own, ABSORB_LESS)
    order = np.empty(n_new, np.int64)
    for p in range(n_new):
        order[p] = kept[p] if p < kept.size else absorbed[p - kept.size]
    return order


@jit()
def let_in(
    state: BilinearState,
    size: int,
    rows: Array,
    gram: Array,
    order: Indices,
    threshold: float,
    joined: Indices,
    n_joined: int,
) -> tuple[int, int]:
    """Let newcomers :func:`join` one by one, until one is neither let in nor dependent.

    Parameters
    ----------
    state, threshold
        As in :func:`join`.
    size : int
        Points in use before the first newcomer joined.
    rows, gram, order
        As in, and from, :func:`order_of_joining`.
    joined : ndarray of shape (n_new,) of int64
        The newcomers that have joined, by their slots; further ones are written behind the first
        ``n_joined``.
    n_joined : int
        How many have joined already.

    Returns
    -------
    n_joined : int
        How many have joined now.
    status : int
        ``JOINED`` if no other is left than dependent ones; otherwise what :func:`join` said.
    """
    row = np.empty(size + len(rows))
    for p in order:
        waits = True
        for i in range(n_joined):
            waits = waits and joined[i] != p
            row[size + i] = gram[p, joined[i]]
        if not waits:
            continue
        for i in range(size):
            row[i] = rows[p, i]
        now = size + n_joined
        status = join(state, now, row[:now], gram[p, p], threshold)
        if status == JOINED:
            joined[n_joined] = p
            n_joined += 1
        elif status != DEPENDENT:
            return n_joined, status
    return n_joined, JOINED


@jit()
def _part(matrix: Array, rows: Indices, columns: Indices) -> Array:
    """Return ``matrix[np.ix_(rows, columns)]``."""
    part = np.empty((rows.size, columns.size))
    for i in range(rows.size):
        for j in range(columns.size):
            part[i, j] = matrix[rows[i], columns[j]]
    return part


@jit()
def _squared_norm(left: Array, K: Array, S: Array) -> float:
    """Return tr(L K L' S) for symmetric K and S."""
    middle = np.ascontiguousarray(left @ K @ left.T)
    return float(dot(middle.ravel(), S.ravel()))


@jit()
def fold(
    gram: Array, coefficients: Array, kept: Indices, dependent: Indices, inverse: Array
) -> tuple[Array, float]:
    r"""Project a bilinear function onto the span of some of its points.

    With W the weights of the projections of the dependent points A on the kept ones D and S the
    Gram matrix of their residuals, :math:`T = C_{DA} + W'C_{AA}` and :math:`V = C_{AD} + C_{AA}W`,

    .. math:: C \leftarrow C_{DD} + T W + W' C_{AD}, \quad
        \|\cdot\|^2 = \mathrm{tr}(T'KT S) + \mathrm{tr}(V K V'S) + \mathrm{tr}(C_{AA}'S C_{AA} S)

    Parameters
    ----------
    gram, coefficients : ndarray of shape (n, n)
        Gram matrix and coefficients of all points.
    kept, dependent : ndarray of int64
        The points, parted in two.
    inverse : ndarray of shape (n_kept, n_kept)
        Inverse of the Gram matrix of the kept ones.

    Returns
    -------
    coefficients : ndarray of shape (n_kept, n_kept)
        Coefficients of the projection.
    squared_error : float
        Squared Hilbert-Schmidt distance to it.
    """
    K, k = _part(gram, kept, kept), _part(gram, dependent, kept)
    C_AD, C_DA = _part(coefficients, dependent, kept), _part(coefficients, kept, dependent)
    C_AA = _part(coefficients, dependent, dependent)
    W = k @ inverse
    W += (k - W @ K) @ inverse
    S = _part(gram, dependent, dependent)
    S -= W @ k.T
    S -= (k - W @ K) @ W.T
    S = 0.5 * (S + S.T)
    W_t = np.ascontiguousarray(W.T)
    T_t = np.ascontiguousarray(C_DA.T)
    T_t += np.ascontiguousarray(C_AA.T) @ W
    V = C_AD + C_AA @ W
    error = _squared_norm(T_t, K, S) + _squared_norm(V, K, S)
    error += _squared_norm(np.ascontiguousarray(C_AA.T), S, S)
    projected = _part(coefficients, kept, kept)
    projected += np.ascontiguousarray(T_t.T) @ W
    projected += W_t @ C_AD
    return projected, max(error, 0.0)


def cholesky_inverse(gram: Array) -> Array | None:
    """Inverse Gram matrix from a Cholesky factor; None if it cannot be trusted.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Gram matrix; singular up to rounding errors, perhaps.
    """
    try:
        root = np.linalg.inv(np.linalg.cholesky(gram))
    except np.linalg.LinAlgError:
        return None
    # Errors of this product are small against |root_i| |root_j|; any symmetric mean of an inverse
    # that is good from one side only would be worse by the condition number.
    inverse: Array = root.T @ root
    rest = np.abs(np.eye(len(gram)) - gram @ inverse)
    cosines = rest / np.sqrt(np.outer(np.diag(gram), np.diag(inverse)))
    return inverse if bool(np.max(cosines, initial=0.0) <= _REFINABLE) else None


def trusted_inverse(gram: Array, threshold: float) -> tuple[Indices, Array]:
    """Choose points that are far from the span of each other, and invert their Gram matrix.

    The one farthest from the span of those chosen comes next, as long as its squared distance is
    above the threshold times k(x, x); should the inverse be inaccurate nevertheless, above 10
    times as much, and so on.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Gram matrix of all points.
    threshold : float
        The threshold.

    Returns
    -------
    kept : ndarray of int64
        Ascending numbers of the points chosen.
    inverse : ndarray of shape (n_kept, n_kept)
        Exactly symmetric.
    """
    diagonal = np.ascontiguousarray(gram.diagonal())
    while True:
        kept = np.sort(absorb(gram.copy(), diagonal, threshold)[0])
        inverse = cholesky_inverse(gram[np.ix_(kept, kept)])
        if inverse is not None:
            return kept, inverse
        threshold *= 10.0


@jit()
def _close_gap(
    state: BilinearState, gap: int, last: int, pinned: NDArray[np.bool_], origin: Indices
) -> None:
    """Move the last point into the slot of one that went."""
    for matrix in (state.coefficients, state.gram, state.inverse):
        if matrix.size:
            for i in range(last):
                matrix[gap, i] = matrix[last, i]
            for i in range(last):
                matrix[i, gap] = matrix[i, last]
            matrix[gap, gap] = matrix[last, last]
    for vector in (state.self_kernel, state.row_norms, state.column_norms):
        if vector.size:
            vector[gap] = vector[last]
    pinned[gap] = pinned[last]
    origin[gap] = origin[last]


@jit()
def _term_norms2(state: BilinearState, size: int, out: Array) -> None:
    """Return the squared norm of the row and column deleted with a point."""
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


@jit()
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
        Largest number of points; further points are removed at any cost.
    rule : int
        GREEDY: remove the cheapest point; SMALLEST: the point whose terms have the smallest norm.

    Returns
    -------
    size : int
        Points in use.
    squared_error : float
        Squared error made, that from before included.
    accurate : bool
        False if the inverse is too inaccurate to continue.
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
        for i in range(size):
            p[i] = P[j, i]
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


@jit()
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
        Numbered by ``origin``: the point with the smallest number is removed first. Without ages,
        the point whose terms have the smallest norm.

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
                    values[i] -= _AGES  # points without coefficients are removed first
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


# -- one function for each way to stay small, compiled when it is first used ----------------------


@jit()
def _keep_all(state, size, pinned, origin, ages, booked, limits):  # type: ignore[no-untyped-def]
    return size, 0.0, True


@jit()
def _project(state, size, pinned, origin, ages, booked, limits):  # type: ignore[no-untyped-def]
    size, booked, accurate = project_away(
        state,
        size,
        pinned,
        origin,
        booked,
        limits.squared_tolerance,
        limits.max_size,
        limits.rule,
    )
    return size, np.sqrt(booked), accurate


@jit()
def _delete_smallest(state, size, pinned, origin, ages, booked, limits):  # type: ignore[no-untyped-def]
    size, error = delete(state, size, pinned, origin, limits.max_size, ages[:0])
    return size, error, True


@jit()
def _delete_oldest(state, size, pinned, origin, ages, booked, limits):  # type: ignore[no-untyped-def]
    size, error = delete(state, size, pinned, origin, limits.max_size, ages[:size])
    return size, error, True


_WAYS: dict[int, Any] = {
    PLAIN: _keep_all,
    INVERSE: _project,
    REMOVE: _delete_smallest,
    RING: _delete_oldest,
}


def bring_to_size(
    kind: int,
    state: BilinearState,
    size: int,
    pinned: NDArray[np.bool_],
    origin: Indices,
    ages: Indices,
    booked: float,
    limits: Limits,
) -> tuple[int, float, bool]:
    """Remove points in the way of a compressor.

    Parameters
    ----------
    kind : int
        One of the ways of :mod:`mercer.numerics.compression`.
    state, size, pinned, origin
        As in :func:`project_away`.
    ages : ndarray of shape (capacity,) of int64
        As in :func:`delete`.
    booked : float
        Squared error made so far.
    limits : Limits
        How far the compression may go.

    Returns
    -------
    size : int
        Points in use.
    error : float
        Hilbert-Schmidt norm of the error, or a bound of it.
    accurate : bool
        Whether it is done; otherwise see :func:`project_away`.
    """
    way = _WAYS[kind]
    changed: tuple[int, float, bool] = way(state, size, pinned, origin, ages, booked, limits)
    return changed


_t: Any = numba.core.types  # numba is only partly typed
VECTOR, SQUARE = _t.Array(_t.float64, 1, "C"), _t.Array(_t.float64, 2, "C")
FLAGS, INDICES = _t.Array(_t.boolean, 1, "C"), _t.Array(_t.int64, 1, "C")
STATE = _t.NamedTuple((VECTOR, *3 * [SQUARE], VECTOR, VECTOR), BilinearState)
LIMITS = _t.NamedTuple((_t.float64, _t.int64, _t.float64, _t.int64, _t.int64), Limits)
_OF_WAY = (STATE, _t.int64, FLAGS, INDICES, INDICES, _t.float64, LIMITS)


@functools.cache
def address_of_way(kind: int) -> int:
    """Return the address of what :func:`bring_to_size` does, for compiled code in this process."""
    return machine_code(_WAYS[kind], _OF_WAY)


# ``call_way(address, arguments)``: :func:`bring_to_size` in compiled code, without the kind.
call_way = pointer_call(_t.Tuple((_t.int64, _t.float64, _t.boolean)), lambda: [_OF_WAY])
