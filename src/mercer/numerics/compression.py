r"""One step that keeps a dictionary small, whichever way: KOMP, a budget, quantisation, or none.

The Python loop and the compiled loops all call :func:`compress`, so there is one place where
newcomers join a dictionary. The compiled loops have the step by its address: it is compiled once
for all kinds, and of these only what is used. ``Dictionary``, ``Newcomers`` and ``Limits`` are the
arrays that travel together through the compiled functions.

Kernel orthogonal matching pursuit on the inverse Gram matrix (POLK, Algorithm 1)
----------------------------------------------------------------------------------
A step appends newcomers to a dictionary and then removes points greedily while the function stays
within the tolerance of what it was. With :math:`P = K_{DD}^{-1}`, removing point *j* and
refitting the others costs :math:`\|w_j\|^2 / P_{jj}` of squared error, the refit is
:math:`W \leftarrow W - P_{:j} w_j^T / P_{jj}`, and the errors of successive removals add up because
what is lost is orthogonal to what stays.

This differs from the printed algorithm in:

1. The error of a removal comes from the closed form, not from a least-squares solve per candidate.
2. Newcomers that depend linearly on the rest are absorbed into it before the loop, and what that
   costs is booked against the tolerance.
3. The loop works on the low-rank factors of ``P`` with newcomers appended and points removed,
   ``diag(P, 0) + V'V - U'U``. Only the net change is committed to ``P``: growing it by
   near-dependent newcomers and shrinking it again would destroy it by cancellation.

The net change: with R the points that went, Q the newcomers that stay, :math:`B = P k_Q` and S the
newcomers' Schur complement,

- downdate: :math:`L_R L_R^T = P_{RR}`, :math:`Y_2 = L_R^{-1} P_{R:}`;
- grow: :math:`H = L_R^{-1} B_{RQ}`, :math:`B_1 = B_Q - Y_2^T H`,
  :math:`S_1 = S_{QQ} + H^T H = L_1 L_1^T`, :math:`Y_1 = L_1^{-1} B_1^T`;
- :math:`P \leftarrow P + Y_1^T Y_1 - Y_2^T Y_2`, new rows :math:`-L_1^{-T} Y_1`, new block
  :math:`L_1^{-T} L_1^{-1}`.

Symmetric matrices live in their lower triangle. Coefficients may carry extra columns after the
first ``n_criterion`` ones (averages); they are refitted alike but do not count in the criterion.

On a triangular root of the inverse Gram matrix, for ill-conditioned dictionaries
----------------------------------------------------------------------------------
The state is :math:`T = L^{-1}`, with L the Cholesky factor of the Gram matrix, so that :math:`P =
T^T T`. Its rounding errors grow with cond(K), those of an explicit inverse with cond(K)². Adding or
removing a point costs O(M²) in plain loops, so this is a fall-back.

A point is added by :math:`l = T k`, :math:`\pi = k(x,x) - \|l\|^2` (the squared distance to the
span) and the new row :math:`[-l^T T, 1] / \sqrt{\pi}`. It is removed by plane rotations that push
the mass of its column into the last row, which is then dropped: what remains is triangular again.

Budgets and quantisation
------------------------
Budget maintenance of BSGD (Wang, Crammer, Vucetic 2012) and truncation of NORMA act on a dictionary
that already holds the newcomers and bring it back to at most ``max_size`` points; quantisation
decides which newcomers join. Projection is a removal of KOMP with another rule for choosing the
point.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba.core.types
import numpy as np
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.dense import exchange_update, rank_update, symmetric_product
from mercer.numerics.small_dense import cholesky, dot, lower_solve, lower_transpose_solve
from mercer.pointers import machine_code, pointer_call

GREEDY, SMALLEST = 0, 1


class Dictionary(NamedTuple):
    """Arrays of a kernel expansion, whose first ``size`` rows are in use; no ``Expansion``."""

    points: NDArray[np.floating]  # (capacity, n_features)
    self_kernel: NDArray[np.float64]  # (capacity,), k(d, d)
    weights: NDArray[np.float64]  # (capacity, n_columns): scaled coefficients, then their averages
    inverse: NDArray[np.floating]  # (capacity, capacity), lower triangle; what it holds is the
    # inverse Gram matrix P, or its triangular root T with P = T'T, as the step function says
    origin: NDArray[np.int64]  # (capacity,), 1 + the slot of the point when its owner last numbered
    # the slots; for a point that was not there -1 - its number among the newcomers, or 0 if it was
    # made by merging
    pinned: NDArray[np.bool_]  # (capacity,), whether the point must stay


class Newcomers(NamedTuple):
    """Points about to join a dictionary of ``size`` points."""

    points: NDArray[np.floating]  # (n_new, n_features)
    rows: NDArray[np.floating]  # (n_new, size), kernel with the dictionary
    gram: NDArray[np.floating]  # (n_new, n_new), kernel among themselves
    coefficients: NDArray[np.float64]  # (n_new, n_columns)
    pinned: NDArray[np.bool_]  # (n_new,), whether the point must stay, unless it is absorbed


class Limits(NamedTuple):
    """How far a compression may go."""

    squared_tolerance: float  # squared RKHS distance that it may cover
    max_size: int  # largest number of points; further points are removed at any cost
    threshold: float  # newcomers whose relative pivot is at most this are absorbed
    rule: int  # GREEDY: remove the cheapest point (KOMP); SMALLEST: of smallest norm (BSGD)
    n_criterion: int  # leading columns whose change counts as error


# Slices are assigned by explicit loops: for each slice assignment numba would compile the text of
# an error about shapes, which takes longer than all else in these functions.


@jit()
def copy_row(
    target: NDArray[np.floating], i: int, source: NDArray[np.floating], j: int, n: int
) -> None:
    """``target[i, :n] = source[j, :n]``."""
    for k in range(n):
        target[i, k] = source[j, k]


@jit()
def put(dictionary: Dictionary, slot: int, new: Newcomers, i: int) -> None:
    """Let newcomer ``i`` have a slot."""
    copy_row(dictionary.points, slot, new.points, i, new.points.shape[1])
    dictionary.self_kernel[slot] = new.gram[i, i]
    copy_row(dictionary.weights, slot, new.coefficients, i, new.coefficients.shape[1])
    dictionary.origin[slot] = -1 - i
    dictionary.pinned[slot] = new.pinned[i]


@jit()
def move(dictionary: Dictionary, slot: int, last: int) -> None:
    """Let the point of slot ``last`` have another one; the inverse is left to the caller."""
    copy_row(dictionary.points, slot, dictionary.points, last, dictionary.points.shape[1])
    dictionary.self_kernel[slot] = dictionary.self_kernel[last]
    copy_row(dictionary.weights, slot, dictionary.weights, last, dictionary.weights.shape[1])
    dictionary.origin[slot] = dictionary.origin[last]
    dictionary.pinned[slot] = dictionary.pinned[last]


Array = NDArray[np.float64]
Floats = NDArray[np.floating]

# Removals that the factor U can hold before it is committed and the loop continues.
_MAX_FACTOR = 256
DONE, BREAKDOWN, UNFINISHED = 0, 1, 2
# Share of the squared tolerance that absorbing newcomers may take; and what a tolerance of 0
# allows, in units of the largest newcomer, lest it refuse exact duplicates.
BOOKED_SHARE = 1e-2
EXACT = 1e-9
# Squared tolerances below this, in the same unit, need float64.
SINGLE_FLOOR = 1e-6


# Exact and near duplicates are common in streams. Kept, they would make the Gram matrix singular;
# dropped, they would cost more than they need. So newcomers that depend linearly on the dictionary
# are absorbed into it, and what that costs is booked.


@jit()
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
        copy_row(factor, p, rows, order[p], p + 1)
    return order[:n_kept].copy(), order[n_kept:].copy(), factor


@jit()
def _book_absorbed(
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


@jit()
def _prune(
    inverse: Floats,
    size: int,
    growth: Floats,
    coefficients: Array,
    self_kernel: Array,
    pinned: NDArray[np.bool_],
    squared_error: float,
    limits: Limits,
) -> tuple[NDArray[np.bool_], float, bool, bool]:
    """Remove points greedily from ``diag(P, 0) + V'V - U'U``; ``coefficients`` has all rows.

    ``growth`` is V, ``removed`` U, ``diagonal`` the present P_jj, ``squares`` the |w_j|²: a removal
    costs squares / diagonal.

    Returns which points live, the squared error, whether the factor is full (the caller commits
    and comes back) and whether the arithmetic broke down.
    """
    n_growth, total = growth.shape
    n_outputs = coefficients.shape[1]
    diagonal = np.zeros(total)
    squares = np.zeros(total)
    for i in range(size):
        diagonal[i] = inverse[i, i]
    for p in range(n_growth):
        for i in range(total):
            diagonal[i] += np.float64(growth[p, i]) ** 2
    for i in range(total):
        for c in range(limits.n_criterion):
            squares[i] += coefficients[i, c] ** 2
    alive = np.ones(total, np.bool_)
    n_alive = total
    n_free = 0
    for i in range(total):
        if not pinned[i]:
            n_free += 1
    removed = np.empty((min(total, 8), total), growth.dtype)
    n_removed = 0
    column = np.empty(total, growth.dtype)
    tie = 1e-9 if column.itemsize == 8 else 1e-4
    while n_free > 0:
        best, least = -1, np.inf
        for i in range(total):
            if alive[i] and not pinned[i]:
                if diagonal[i] == 0.0:
                    return alive, squared_error, False, True
                value = (
                    squares[i] / diagonal[i]
                    if limits.rule == GREEDY
                    else squares[i] * self_kernel[i]
                )
                if value < least:
                    best, least = i, value
        if best < 0:
            return alive, squared_error, False, True
        cost = squares[best] / diagonal[best]
        if n_alive <= limits.max_size and squared_error + cost > limits.squared_tolerance:
            break
        if n_removed == _MAX_FACTOR:
            return alive, squared_error, True, False
        # Column `best` of the current inverse.
        for i in range(total):
            column[i] = 0.0
        if best < size:
            for i in range(best + 1):
                column[i] = inverse[best, i]
            for i in range(best + 1, size):
                column[i] = inverse[i, best]
        for p in range(n_growth):
            c = growth[p, best]
            if c != 0.0:
                for i in range(total):
                    column[i] += c * growth[p, i]
        for p in range(n_removed):
            c = removed[p, best]
            for i in range(total):
                column[i] -= c * removed[p, i]
        pivot = np.float64(column[best])
        if not pivot > 0.0:
            return alive, squared_error, False, True
        # The running diagonal loses digits; the column is the better value. If with it the point
        # costs more than it seemed to, choose again.
        diagonal[best] = pivot
        if limits.rule == GREEDY and squares[best] / pivot > least * (1.0 + tie):
            continue
        cost = squares[best] / pivot
        if n_alive <= limits.max_size and squared_error + cost > limits.squared_tolerance:
            break
        alive[best] = False
        n_alive -= 1
        n_free -= 1
        squared_error += cost
        if n_removed == removed.shape[0]:
            larger = np.empty((min(2 * n_removed, _MAX_FACTOR), total), growth.dtype)
            for p in range(n_removed):
                copy_row(larger, p, removed, p, total)
            removed = larger
        root = 1.0 / np.sqrt(pivot)
        for i in range(total):
            u = np.float64(column[i]) * root
            removed[n_removed, i] = u
            diagonal[i] -= u * u
            if alive[i]:
                ratio = np.float64(column[i]) / pivot
                for c in range(n_outputs):
                    coefficients[i, c] -= ratio * coefficients[best, c]
                square = 0.0
                for c in range(limits.n_criterion):
                    square += coefficients[i, c] ** 2
                squares[i] = square
        n_removed += 1
    return alive, squared_error, False, False


@jit()
def _commit_net_change(
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
        Result of :func:`mercer.numerics.dense.blas_addresses`.
    dictionary : Dictionary
        Changed in place.
    size : int
        Model order before.
    alive : ndarray of shape (size + n_kept,) of bool
        Which old points and which kept newcomers live on.
    new : Newcomers
        All newcomers.
    kept : ndarray of int64
        Newcomers that were not absorbed.
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
        False if a factor was not positive definite; then nothing has changed.
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
            copy_row(stay_weights, n_stay, coefficients, size + p, n_outputs)
            n_stay += 1
    if n_gone == 0 and n_stay == 0:
        for i in range(size):
            copy_row(weights, i, coefficients, i, n_outputs)
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
    for i in range(size):
        copy_row(weights, i, coefficients, i, n_outputs)
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
        put(dictionary, slot, new, stay[q])
        copy_row(weights, slot, stay_weights, q, n_outputs)
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
        move(dictionary, slot, last)
        for i in range(last):
            if i < slot:
                inverse[slot, i] = inverse[last, i]
            elif i > slot:
                inverse[i, slot] = inverse[last, i]
        inverse[slot, slot] = inverse[last, last]
        hole += 1
        last -= 1
    return new_size, True


@jit(inline="always")  # it has one caller, which would be compiled with a copy of it else
def komp_step(
    blas: tuple[int, int],
    dictionary: Dictionary,
    size: int,
    new: Newcomers,
    limits: Limits,
) -> tuple[int, float, int]:
    """Append newcomers, prune within the tolerance and commit the net change.

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`mercer.numerics.dense.blas_addresses`.
    dictionary : Dictionary
        Changed in place; ``inverse`` is the inverse Gram matrix.
    size : int
        Model order before the step; ``size + n_new`` must not exceed the capacity.
    new : Newcomers
        Points to append; their coefficients are changed.
    limits : Limits
        How far the compression may go.

    Returns
    -------
    size : int
        Model order after the step.
    squared_error : float
        Squared distance between the function before and after the compression.
    status : int
        ``DONE``, or ``BREAKDOWN`` when the explicit inverse is not accurate enough here: the
        dictionary then is as before. ``UNFINISHED`` when that shows only after a block of removals
        was committed: the newcomers have joined, more points may have to go.
    """
    n_new = new.points.shape[0]
    weights, inverse = dictionary.weights, dictionary.inverse
    # P k of the newcomers, and their Schur complement.
    projections = np.empty((n_new, size), inverse.dtype)
    symmetric_product(blas, new.rows, inverse, projections)
    schur = np.empty((n_new, n_new))
    new_self = np.empty(n_new)
    for i in range(n_new):
        new_self[i] = new.gram[i, i]
        for j in range(i + 1):
            schur[i, j] = new.gram[i, j] - dot(new.rows[i], projections[j])
            schur[j, i] = schur[i, j]
    # Newcomers that depend on the other points are absorbed.
    kept, absorbed, factor = absorb(schur, new_self, limits.threshold)
    coefficients = np.empty((size + kept.size, weights.shape[1]))
    for i in range(size):
        copy_row(coefficients, i, weights, i, weights.shape[1])
    squared_error = _book_absorbed(
        schur,
        factor,
        kept,
        absorbed,
        projections,
        coefficients,
        new.coefficients,
        limits.n_criterion,
    )
    # What that cost must be affordable.
    single = inverse.itemsize == 4
    if limits.rule == GREEDY and (single or squared_error > 0.0):
        largest = 0.0
        for i in range(n_new):
            square = 0.0
            for c in range(limits.n_criterion):
                square += new.coefficients[i, c] ** 2
            largest = max(largest, square * new_self[i])
        affordable = EXACT * largest
        if limits.squared_tolerance > 0.0:
            affordable = BOOKED_SHARE * limits.squared_tolerance
        if single and 0.0 < limits.squared_tolerance < SINGLE_FLOOR * largest:
            # Kernel values in float32 cannot resolve such distances.
            return size, squared_error, BREAKDOWN
        if squared_error > affordable:
            # Too near to the rest for this arithmetic, too costly to absorb.
            return size, squared_error, BREAKDOWN
    # V, what the other newcomers add to P.
    growth = np.zeros((kept.size, size + kept.size), inverse.dtype)
    self_kernel = np.empty(size + kept.size)
    pinned = np.empty(size + kept.size, np.bool_)
    for i in range(size):
        self_kernel[i] = dictionary.self_kernel[i]
        pinned[i] = dictionary.pinned[i]
    for p in range(kept.size):
        copy_row(coefficients, size + p, new.coefficients, kept[p], weights.shape[1])
        self_kernel[size + p] = new_self[kept[p]]
        pinned[size + p] = new.pinned[kept[p]]
        for i in range(size):
            growth[p, i] = -projections[kept[p], i]
        growth[p, size + p] = 1.0
    lower_solve(factor, growth)
    # Remove and commit, repeated while U was full; below 0 nothing was committed yet.
    again, committed = True, -1.0
    while again:
        alive, squared_error, again, broken = _prune(
            inverse, size, growth, coefficients, self_kernel, pinned, squared_error, limits
        )
        if broken:
            return size, committed, BREAKDOWN if committed < 0.0 else UNFINISHED
        size, fine = _commit_net_change(
            blas, dictionary, size, alive, new, kept, coefficients, projections, schur
        )
        if not fine:
            return size, committed, BREAKDOWN if committed < 0.0 else UNFINISHED
        committed = squared_error
        if again:
            # The factor was full: continue from the committed state, without newcomers.
            kept = kept[:0]
            projections = np.empty((0, size), inverse.dtype)
            growth = np.zeros((0, size), inverse.dtype)
            coefficients = weights[:size].copy()
            self_kernel = dictionary.self_kernel[:size].copy()
            pinned = dictionary.pinned[:size].copy()
    return size, squared_error, DONE


_GOLDEN = 0.6180339887498949
_ROUNDS = 12


@jit()
def _norm2(row: Array, n_criterion: int) -> float:
    total = 0.0
    for c in range(n_criterion):
        total += row[c] ** 2
    return total


@jit()
def append(dictionary: Dictionary, size: int, new: Newcomers) -> int:
    """Append all newcomers; return the new size."""
    for i in range(new.points.shape[0]):
        put(dictionary, size + i, new, i)
    return int(size + new.points.shape[0])


@jit()
def _idle(dictionary: Dictionary, size: int) -> int:
    """Return the slot of a point without coefficients that may be removed, or -1."""
    for j in range(size):
        if not dictionary.pinned[j]:
            idle = True
            for c in range(dictionary.weights.shape[1]):
                idle = idle and dictionary.weights[j, c] == 0.0
            if idle:
                return j
    return -1


@jit()
def overwrite_oldest(
    dictionary: Dictionary, size: int, new: Newcomers, max_size: int, oldest: int, n_criterion: int
) -> tuple[int, int, float]:
    """Append newcomers to a ring of ``max_size`` slots: beyond it, each replaces the oldest point.

    Points without coefficients are replaced first.

    Returns
    -------
    size, oldest : int
        Points in use, and the slot of the oldest one.
    error : float
        Bound of the RKHS norm of what was dropped: the sum of the norms of the dropped terms.
    """
    error = 0.0
    for i in range(new.points.shape[0]):
        if size < max_size:
            put(dictionary, size, new, i)
            size += 1
            continue
        idle = _idle(dictionary, size)
        if idle >= 0:
            put(dictionary, idle, new, i)
            continue
        for _ in range(max_size):
            if not dictionary.pinned[oldest]:
                break
            oldest = (oldest + 1) % max_size
        dropped = _norm2(dictionary.weights[oldest], n_criterion)
        error += np.sqrt(dropped * dictionary.self_kernel[oldest])
        put(dictionary, oldest, new, i)
        oldest = (oldest + 1) % max_size
    return size, oldest, error


@jit()
def _smallest(dictionary: Dictionary, size: int, n_criterion: int) -> tuple[int, float]:
    best, least = -1, np.inf
    for j in range(size):
        value = _norm2(dictionary.weights[j], n_criterion) * dictionary.self_kernel[j]
        if value < least and not dictionary.pinned[j]:
            best, least = j, value
    return best, least


@jit()
def remove_smallest(
    dictionary: Dictionary, size: int, max_size: int, n_criterion: int
) -> tuple[int, float]:
    """Delete the terms of smallest RKHS norm until ``max_size`` remain (BSGD removal).

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the norms of the deleted terms, a bound of the RKHS error (exact for one).
    """
    error = 0.0
    while size > max_size:
        best, least = _smallest(dictionary, size, n_criterion)
        if best < 0:
            break  # all are pinned
        error += np.sqrt(least)
        size -= 1
        move(dictionary, best, size)
    return size, error


@jit()
def _merged_norm2(h: float, log_k: float, alpha: float, beta: float, rho: float) -> float:
    a = np.exp(log_k * (1.0 - h) ** 2)
    b = np.exp(log_k * h**2)
    norm2: float = alpha * a * a + beta * b * b + 2.0 * rho * a * b
    return norm2


@jit()
def _golden_section(
    low: float, high: float, log_k: float, alpha: float, beta: float, rho: float
) -> tuple[float, float]:
    """Largest squared norm of the merged term for h in [low, high], and that h."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = _merged_norm2(left, log_k, alpha, beta, rho)
    at_right = _merged_norm2(right, log_k, alpha, beta, rho)
    for _ in range(_ROUNDS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _merged_norm2(left, log_k, alpha, beta, rho)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _merged_norm2(right, log_k, alpha, beta, rho)
    if at_left > at_right:
        return at_left, left
    return at_right, right


@jit()
def _best_merge(log_k: float, alpha: float, beta: float, rho: float) -> tuple[float, float]:
    if log_k >= -2.0:
        found: tuple[float, float] = _golden_section(0.0, 1.0, log_k, alpha, beta, rho)
        return found
    # Distant points give two maxima, one near each point.
    first, h_first = _golden_section(0.0, 0.5, log_k, alpha, beta, rho)
    second, h_second = _golden_section(0.5, 1.0, log_k, alpha, beta, rho)
    if first > second:
        return first, h_first
    return second, h_second


@jit(fastmath={"reassoc", "contract"})
def _squared_distance(x: NDArray[np.floating], z: NDArray[np.floating]) -> float:
    total = x[0] * 0.0
    for j in range(x.size):
        total += (x[j] - z[j]) ** 2
    return np.float64(total)


@jit()
def merge_smallest(
    dictionary: Dictionary, size: int, max_size: int, inverse_width: float, n_criterion: int
) -> tuple[int, float]:
    r"""Merge the smallest term with its best partner until ``max_size`` remain (BSGD merging).

    Two Gaussian terms :math:`w_m k(d_m, \cdot) + w_n k(d_n, \cdot)` become one at
    :math:`z = h d_m + (1 - h) d_n`, which loses
    :math:`\alpha + \beta + 2 \rho k - \|w_z\|^2` of squared norm.

    Parameters
    ----------
    dictionary : Dictionary
        Changed in place; merged centres are not data points.
    size, max_size : int
        Points in use, and how many may remain.
    inverse_width : float
        :math:`1 / (2 \ell^2)` of the Gaussian kernel.
    n_criterion : int
        Leading columns whose change counts as error.

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the norms lost in each merge, a bound of the RKHS error (exact for one).
    """
    points, weights = dictionary.points, dictionary.weights
    error = 0.0
    while size > max_size:
        m, alpha = _smallest(dictionary, size, n_criterion)
        if m < 0:
            break  # all are pinned
        partner, least, place, log_best = -1, np.inf, 0.0, 0.0
        for n in range(size):
            if n == m or dictionary.pinned[n]:
                continue
            log_k = -inverse_width * _squared_distance(points[m], points[n])
            beta = _norm2(weights[n], n_criterion)
            rho = 0.0
            for c in range(n_criterion):
                rho += weights[m, c] * weights[n, c]
            joint = alpha + beta + 2.0 * rho * np.exp(log_k)
            norm2, h = _best_merge(log_k, alpha, beta, rho)
            if joint - norm2 < least:
                partner, least, place, log_best = n, joint - norm2, h, log_k
        if partner < 0:  # a budget of zero points, or a single one
            error += np.sqrt(alpha)
            size -= 1
            move(dictionary, m, size)
            continue
        error += np.sqrt(max(least, 0.0))
        to_m = np.exp(log_best * (1.0 - place) ** 2)
        to_n = np.exp(log_best * place**2)
        for c in range(weights.shape[1]):
            weights[partner, c] = to_m * weights[m, c] + to_n * weights[partner, c]
        for j in range(points.shape[1]):
            points[partner, j] = place * points[m, j] + (1.0 - place) * points[partner, j]
        dictionary.origin[partner] = 0
        size -= 1
        move(dictionary, m, size)
    return size, error


@jit()
def quantise(
    dictionary: Dictionary,
    size: int,
    new: Newcomers,
    squared_radius: float,
    max_size: int,
    n_criterion: int,
) -> tuple[int, float]:
    """Let newcomers join that are far from all points; others add to the nearest (QKLMS).

    Parameters
    ----------
    dictionary : Dictionary
        Changed in place.
    size : int
        Points in use.
    new : Newcomers
        Points to add, with their kernels.
    squared_radius : float
        Largest squared distance of a newcomer that does not join.
    max_size : int
        Points that there may be; from then on none joins.
    n_criterion : int
        Leading columns whose change counts as error.

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the RKHS norms of what moved, a bound of the error (exact for one newcomer).
    """
    error = 0.0
    before = size
    for i in range(new.points.shape[0]):
        nearest, least = -1, np.inf
        for j in range(size):
            distance = _squared_distance(dictionary.points[j], new.points[i])
            if distance < least:
                nearest, least = j, distance
        if nearest < 0 or (least > squared_radius and size < max_size):
            put(dictionary, size, new, i)
            size += 1
            continue
        if nearest < before:
            shared = new.rows[i, nearest]
        else:
            shared = new.gram[i, -1 - dictionary.origin[nearest]]
        squared = new.gram[i, i] + dictionary.self_kernel[nearest] - 2.0 * shared
        error += np.sqrt(_norm2(new.coefficients[i], n_criterion) * max(squared, 0.0))
        for c in range(dictionary.weights.shape[1]):
            dictionary.weights[nearest, c] += new.coefficients[i, c]
    return size, error


# Relative pivots below this are rounding errors.
_EXACT = 1e-14


@jit()
def _outside(root: Floats, size: int, row: Array, self_kernel: float, inner: Array) -> float:
    """Write ``inner = T k``; return the squared distance of the point to the span."""
    pivot = self_kernel
    for i in range(size):
        total = dot(root[i, : i + 1], row[: i + 1])
        inner[i] = total
        pivot -= total * total
    return pivot


@jit()
def _transpose_product(root: Floats, size: int, inner: Array, out: Array) -> None:
    """Write ``out = T' inner``."""
    for j in range(size):
        out[j] = 0.0
    for i in range(size):
        c = inner[i]
        for j in range(i + 1):
            out[j] += c * root[i, j]


@jit()
def _remove_from_root(j: int, size: int, dictionary: Dictionary) -> None:
    """Remove point ``j`` from the triangular root and close the gap in the other arrays."""
    root = dictionary.inverse
    for i in range(j, size - 1):
        # Rotate rows i and i + 1 so that column j vanishes in row i.
        a, b = root[i, j], root[i + 1, j]
        radius = np.hypot(a, b)
        if radius == 0.0:
            cosine, sine = 1.0, 0.0
        else:
            cosine, sine = b / radius, a / radius
        root[i, i + 1] = 0.0
        for k in range(i + 2):
            upper, lower = root[i, k], root[i + 1, k]
            root[i, k] = cosine * upper - sine * lower
            root[i + 1, k] = sine * upper + cosine * lower
    for i in range(size - 1):
        for k in range(j, i + 1):
            root[i, k] = root[i, k + 1]
        if root[i, i] < 0.0:
            for k in range(i + 1):
                root[i, k] = -root[i, k]
    for i in range(j, size - 1):
        move(dictionary, i, i + 1)


@jit(inline="always")  # it has one caller, which would be compiled with a copy of it else
def triangular_step(
    dictionary: Dictionary, size: int, new: Newcomers, limits: Limits
) -> tuple[int, float]:
    """Append newcomers and prune within the tolerance, on the triangular root.

    Parameters
    ----------
    dictionary : Dictionary
        Changed in place; ``inverse`` is the triangular root.
    size, new, limits
        As in :func:`komp_step`.

    Returns
    -------
    size : int
        Model order after the step.
    squared_error : float
        Squared distance between the function before and after the compression.
    """
    weights, root, self_kernel = dictionary.weights, dictionary.inverse, dictionary.self_kernel
    n_new, n_columns = new.coefficients.shape
    capacity = size + n_new
    threshold = limits.threshold
    if limits.squared_tolerance > 0.0:
        # Absorb less eagerly where the cost would show against the tolerance.
        largest = _EXACT
        for i in range(n_new):
            square = 0.0
            for c in range(limits.n_criterion):
                square += new.coefficients[i, c] ** 2
            largest = max(largest, square * new.gram[i, i])
        affordable = 1e-3 * limits.squared_tolerance / (max(n_new, 1) * largest)
        threshold = max(_EXACT, min(threshold, affordable))
    row, inner, share = np.empty(capacity), np.empty(capacity), np.empty(capacity)
    kept = np.empty(n_new, np.int64)
    absorbed = np.empty(n_new, np.int64)
    n_kept = n_absorbed = 0
    old = size
    # The newcomer farthest from the span of the rest comes first; see `absorb`.
    pivots = np.empty(n_new)
    waiting = np.ones(n_new, np.bool_)
    for i in range(n_new):
        pivots[i] = _outside(root, size, new.rows[i], new.gram[i, i], inner)
    while True:
        best, largest = -1, 0.0
        for i in range(n_new):
            if waiting[i] and pivots[i] > largest * new.gram[i, i]:
                best, largest = i, pivots[i] / new.gram[i, i]
        if best < 0:
            break
        for j in range(old):
            row[j] = new.rows[best, j]
        for p in range(n_kept):
            row[old + p] = new.gram[best, kept[p]]
        pivot = pivots[best]
        if n_new > 1:  # the running pivot loses digits; this one does not
            pivot = _outside(root, size, row, new.gram[best, best], inner)
        if pivot <= threshold * new.gram[best, best] or pivot <= 0.0:
            pivots[best] = 0.0
            continue
        waiting[best] = False
        _transpose_product(root, size, inner, share)
        scale = 1.0 / np.sqrt(pivot)
        for j in range(size):
            root[size, j] = -share[j] * scale
        root[size, size] = scale
        put(dictionary, size, new, best)
        kept[n_kept] = best
        n_kept += 1
        size += 1
        for i in range(n_new):
            if waiting[i]:
                outside = 0.0
                for j in range(old):
                    outside += root[size - 1, j] * new.rows[i, j]
                for p in range(n_kept):
                    outside += root[size - 1, old + p] * new.gram[i, kept[p]]
                pivots[i] -= outside * outside
    for i in range(n_new):
        if waiting[i]:
            absorbed[n_absorbed] = i
            n_absorbed += 1
    # The absorbed ones are projected on everything kept, so that the residuals are orthogonal to
    # every later removal and their joint norm starts the running error.
    inners = np.zeros((n_absorbed, size))
    for m in range(n_absorbed):
        i = absorbed[m]
        for j in range(old):
            row[j] = new.rows[i, j]
        for p in range(n_kept):
            row[old + p] = new.gram[i, kept[p]]
        _outside(root, size, row, new.gram[i, i], inners[m])
        _transpose_product(root, size, inners[m], share)
        for j in range(size):
            for c in range(n_columns):
                weights[j, c] += share[j] * new.coefficients[i, c]
    squared_error = 0.0
    for m in range(n_absorbed):
        for o in range(n_absorbed):
            residual = new.gram[absorbed[m], absorbed[o]]
            for j in range(size):
                residual -= inners[m, j] * inners[o, j]
            for c in range(limits.n_criterion):
                squared_error += (
                    new.coefficients[absorbed[m], c] * residual * new.coefficients[absorbed[o], c]
                )
    squared_error = max(squared_error, 0.0)
    diagonal = np.empty(size)
    while size > 0:
        for j in range(size):
            diagonal[j] = 0.0
        for i in range(size):
            for j in range(i + 1):
                diagonal[j] += root[i, j] ** 2
        best, least = -1, np.inf
        for j in range(size):
            square = 0.0
            for c in range(limits.n_criterion):
                square += weights[j, c] ** 2
            value = square * self_kernel[j] if limits.rule == SMALLEST else square / diagonal[j]
            if value < least and not dictionary.pinned[j]:
                best, least = j, value
        if best < 0:
            break
        square = 0.0
        for c in range(limits.n_criterion):
            square += weights[best, c] ** 2
        cost = square / diagonal[best]
        if size <= limits.max_size and squared_error + cost > limits.squared_tolerance:
            break
        for i in range(size):
            inner[i] = root[i, best] if i >= best else 0.0
        _transpose_product(root, size, inner, share)
        for j in range(size):
            if j != best:
                for c in range(n_columns):
                    weights[j, c] -= share[j] / diagonal[best] * weights[best, c]
        _remove_from_root(best, size, dictionary)
        size -= 1
        squared_error += cost
    return size, squared_error


_t: Any = numba.core.types  # numba is only partly typed

# How a dictionary is kept small.
PLAIN, RING, INVERSE, TRIANGULAR, REMOVE, MERGE, QUANTISE = range(7)


class Compressor(NamedTuple):
    """Which compression runs, and its constants."""

    kind: int  # one of the names above
    inverse_width: float  # MERGE: 1 / (2 length_scale²) of the Gaussian kernel
    conditioning_limit: float  # INVERSE: largest k(d, d) P_jj that is still trusted
    squared_radius: float = 0.0  # QUANTISE: of a point, within which newcomers add to it
    code: int = 0  # address of the step in compiled code, from with_code


@jit()
def needs_rows(kind: int) -> bool:
    """Whether a compression reads the kernels of the newcomers with the dictionary."""
    return bool(kind in (INVERSE, TRIANGULAR, QUANTISE))


@jit()
def worst_conditioning(dictionary: Dictionary, size: int) -> float:
    """Return the largest k(d, d) / (squared distance of d to the span of the others)."""
    worst = 0.0
    for j in range(size):
        worst = max(worst, dictionary.inverse[j, j] * dictionary.self_kernel[j])
    return worst


# -- one function for each kind, compiled when it is first used ------------------------------------


@jit()
def _inverse(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, squared_error, status = komp_step(blas, dictionary, size, new, limits)
    return size, oldest, np.sqrt(squared_error), status


@jit()
def _triangular(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, squared_error = triangular_step(dictionary, size, new, limits)
    return size, oldest, np.sqrt(squared_error), DONE


@jit()
def _ring(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, oldest, error = overwrite_oldest(
        dictionary, size, new, limits.max_size, oldest, limits.n_criterion
    )
    return size, oldest, error, DONE


@jit()
def _quantise(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, error = quantise(
        dictionary, size, new, compressor.squared_radius, limits.max_size, limits.n_criterion
    )
    return size, oldest, error, DONE


@jit()
def _plain(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    return append(dictionary, size, new), oldest, 0.0, DONE


@jit()
def _remove(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size = append(dictionary, size, new)
    size, error = remove_smallest(dictionary, size, limits.max_size, limits.n_criterion)
    return size, oldest, error, DONE


@jit()
def _merge(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size = append(dictionary, size, new)
    size, error = merge_smallest(
        dictionary, size, limits.max_size, compressor.inverse_width, limits.n_criterion
    )
    return size, oldest, error, DONE


_FUNCTIONS: dict[int, Any] = {
    PLAIN: _plain,
    RING: _ring,
    INVERSE: _inverse,
    TRIANGULAR: _triangular,
    REMOVE: _remove,
    MERGE: _merge,
    QUANTISE: _quantise,
}


def compress(
    blas: tuple[int, int],
    compressor: Compressor,
    dictionary: Dictionary,
    size: int,
    oldest: int,
    new: Newcomers,
    limits: Limits,
) -> tuple[int, int, float, int]:
    """Let newcomers join the dictionary and bring it back within its limits.

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`mercer.numerics.dense.blas_addresses`.
    compressor : Compressor
        What to do.
    dictionary : Dictionary
        Changed in place.
    size, oldest : int
        Points in use; slot of the oldest one (``RING`` only).
    new : Newcomers
        Points to add; ``rows`` are read if :func:`needs_rows` requires them.
    limits : Limits
        How far the compression may go.

    Returns
    -------
    size, oldest : int
        The same, after the step.
    error : float
        RKHS distance between the function before and after the compression: exact for
        ``INVERSE`` and ``TRIANGULAR``, an upper bound for the others.
    status : int
        ``DONE``, ``BREAKDOWN`` or ``UNFINISHED``, see :func:`komp_step`.
    """
    function = _FUNCTIONS[compressor.kind]
    changed: tuple[int, int, float, int]
    changed = function(blas, compressor, dictionary, size, oldest, new, limits)
    return changed


def with_code(compressor: Compressor, dtype: np.dtype[Any]) -> Compressor:
    """Add the address of what :func:`compress` does on points of ``dtype``, for compiled loops.

    The address depends on the kind, which may change while learning, and is invalid in another
    process: ask for it at each call of a loop.
    """
    return compressor._replace(code=_address(compressor.kind, dtype))


@functools.cache
def _address(kind: int, dtype: np.dtype[Any]) -> int:
    return machine_code(_FUNCTIONS[kind], _arguments(dtype))


@functools.cache
def _arguments(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Types of the arguments of :func:`compress` in compiled code."""
    array, points = _t.Array, from_dtype(dtype)
    matrix, numbers = array(points, 2, "C"), array(_t.float64, 1, "C")
    weights, flags = array(_t.float64, 2, "C"), array(_t.boolean, 1, "C")
    dictionary = matrix, numbers, weights, matrix, array(_t.int64, 1, "C"), flags
    return (
        _t.UniTuple(_t.int64, 2),
        _t.NamedTuple((_t.int64, *3 * [_t.float64], _t.int64), Compressor),
        _t.NamedTuple(dictionary, Dictionary),
        _t.int64,
        _t.int64,
        _t.NamedTuple((matrix, matrix, matrix, weights, flags), Newcomers),
        _t.NamedTuple((_t.float64, _t.int64, _t.float64, _t.int64, _t.int64), Limits),
    )


# ``call_compress(address, arguments)``: :func:`compress` in compiled loops, which are the same for
# all kinds.
call_compress = pointer_call(
    _t.Tuple((_t.int64, _t.int64, _t.float64, _t.int64)),
    lambda: [_arguments(np.dtype(name)) for name in ("f", "d")],
)
