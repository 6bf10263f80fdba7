r"""One step of kernel orthogonal matching pursuit on the inverse Gram matrix (POLK, Algorithm 1).

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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.blas import exchange_update, rank_update, symmetric_product
from mercer.numerics.small_dense import cholesky, dot, lower_solve, lower_transpose_solve
from mercer.numerics.state import GREEDY, Dictionary, Limits, Newcomers, copy_row, move, put

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
        Result of :func:`mercer.numerics.blas.blas_addresses`.
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
        Result of :func:`mercer.numerics.blas.blas_addresses`.
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
