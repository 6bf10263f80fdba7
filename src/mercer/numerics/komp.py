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

Symmetric matrices live in their lower triangle. Coefficients may carry extra columns after the
first ``n_criterion`` ones (averages); they are refitted alike but do not count in the criterion.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer.numerics.blas import symmetric_product
from mercer.numerics.commit import commit_net_change
from mercer.numerics.newcomers import absorb, book_absorbed
from mercer.numerics.small_dense import dot, lower_solve
from mercer.numerics.state import GREEDY, Dictionary, Limits, Newcomers

__all__ = ["BREAKDOWN", "DONE", "UNFINISHED", "komp_step", "removal_errors"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]

# Removals that the factor U can hold before it is committed and the loop goes on.
_MAX_FACTOR = 256
DONE, BREAKDOWN, UNFINISHED = 0, 1, 2
# Share of the squared tolerance that absorbing newcomers may take; and what a tolerance of 0
# allows, in units of the largest newcomer, lest it refuse exact duplicates.
BOOKED_SHARE = 1e-2
EXACT = 1e-9
# Squared tolerances below this, in the same unit, need float64.
SINGLE_FLOOR = 1e-6


def removal_errors(coefficients: Array, gram_inverse: Array) -> Array:
    r"""Squared RKHS error of removing each dictionary point, the rest refitted.

    For :math:`f = \sum_i w_i k(d_i, \cdot)` on the dictionary :math:`D`, the squared distance from
    :math:`f` to the span of :math:`D \setminus \{d_j\}` is :math:`\|w_j\|^2 / [K_{DD}^{-1}]_{jj}`.

    Parameters
    ----------
    coefficients : ndarray of shape (model_order, n_outputs)
        Coefficients :math:`w`, one row per dictionary point.
    gram_inverse : ndarray of shape (model_order, model_order)
        Inverse of the Gram matrix of the dictionary.

    Returns
    -------
    errors : ndarray of shape (model_order,)
        Squared errors, in units of the squared RKHS norm.

    References
    ----------
    POLK, Section 3.2, for the criterion; the closed form is block inversion of the Gram matrix.

    Examples
    --------
    >>> removal_errors(np.array([[3.0], [2.0]]), np.eye(2))
    array([9., 4.])
    """
    errors: Array = np.sum(coefficients**2, axis=1) / np.diag(gram_inverse)
    return errors


@njit(cache=True)
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
    """Remove points greedily from ``diag(P, 0) + V'V``; ``coefficients`` has all rows.

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
    n_free = total - np.sum(pinned)
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
            larger[:n_removed] = removed
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


@njit(cache=True)
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
        From :func:`mercer.numerics.blas.blas_addresses`.
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
    projections = np.empty((n_new, size), inverse.dtype)
    symmetric_product(blas, new.rows, inverse, projections)
    schur = np.empty((n_new, n_new))
    new_self = np.empty(n_new)
    for i in range(n_new):
        new_self[i] = new.gram[i, i]
        for j in range(i + 1):
            schur[i, j] = new.gram[i, j] - dot(new.rows[i], projections[j])
            schur[j, i] = schur[i, j]
    kept, absorbed, factor = absorb(schur, new_self, limits.threshold)
    coefficients = np.empty((size + kept.size, weights.shape[1]))
    coefficients[:size] = weights[:size]
    squared_error = book_absorbed(
        schur,
        factor,
        kept,
        absorbed,
        projections,
        coefficients,
        new.coefficients,
        limits.n_criterion,
    )
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
            # Kernel values in float32 cannot tell such distances.
            return size, squared_error, BREAKDOWN
        if squared_error > affordable:
            # Too near to the rest for this arithmetic, too costly to absorb.
            return size, squared_error, BREAKDOWN
    growth = np.zeros((kept.size, size + kept.size), inverse.dtype)
    self_kernel = np.empty(size + kept.size)
    self_kernel[:size] = dictionary.self_kernel[:size]
    pinned = np.empty(size + kept.size, np.bool_)
    pinned[:size] = dictionary.pinned[:size]
    for p in range(kept.size):
        coefficients[size + p] = new.coefficients[kept[p]]
        self_kernel[size + p] = new_self[kept[p]]
        pinned[size + p] = new.pinned[kept[p]]
        growth[p, :size] = -projections[kept[p]]
        growth[p, size + p] = 1.0
    lower_solve(factor, growth)
    again, committed = True, -1.0
    while again:
        alive, squared_error, again, broken = _prune(
            inverse, size, growth, coefficients, self_kernel, pinned, squared_error, limits
        )
        if broken:
            return size, committed, BREAKDOWN if committed < 0.0 else UNFINISHED
        size, fine = commit_net_change(
            blas, dictionary, size, alive, new, kept, coefficients, projections, schur
        )
        if not fine:
            return size, committed, BREAKDOWN if committed < 0.0 else UNFINISHED
        committed = squared_error
        if again:
            # The factor was full: go on from the committed state, without newcomers.
            kept = kept[:0]
            projections = np.empty((0, size), inverse.dtype)
            growth = np.zeros((0, size), inverse.dtype)
            coefficients = weights[:size].copy()
            self_kernel = dictionary.self_kernel[:size].copy()
            pinned = dictionary.pinned[:size].copy()
    return size, squared_error, DONE
