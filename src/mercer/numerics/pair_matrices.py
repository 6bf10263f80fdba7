"""The learner's loop compiled, for pairs of rows and pair kernels of second order.

The function is a matrix on the dictionary (:mod:`mercer.numerics.bilinear`). As in
:func:`mercer.numerics.loops.run_pairs`, each row is paired with the rows of a buffer, and the
kernels between the buffer and the dictionary are kept from step to step. In this way a step takes
some products of a matrix and a vector. Python takes a step that needs more, such as a new inverse.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba.core.types
import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.bilinear import (
    ABSORB_LESS,
    FLAGS,
    INDICES,
    JOINED,
    LIMITS,
    REFRESH,
    SQUARE,
    STATE,
    TWINS,
    VECTOR,
    Array,
    BilinearState,
    Indices,
    add_block,
    address_of_way,
    call_way,
    fold,
    leading_block,
    let_in,
    order_of_joining,
    refresh_norms,
    times,
    transpose_times,
)
from mercer.numerics.compression import BOOKED_SHARE, GREEDY, Limits, copy_row
from mercer.numerics.loops import (
    DIVERGED,
    FINISHED,
    HALF_DONE,
    NO_ROOM,
    SMALLEST_SCALE,
    UNUSUAL,
    Buffered,
    Functions,
    Rows,
    Rules,
    Steps,
    follow,
    kernel_row,
    label_pairs,
    slopes_of_pairs,
    squared_tolerance,
)
from mercer.numerics.small_dense import dot
from mercer.pointers import machine_code, pointer_call

_t: Any = numba.core.types  # numba is only partly typed
Flags = NDArray[np.bool_]


class PairMatrix(NamedTuple):
    """A bilinear function as the loop changes it."""

    state: BilinearState
    points: Array  # (capacity, n_features)
    ages: Indices  # (capacity,)


class MatrixProgress(NamedTuple):
    """Where the loop stands."""

    size: int
    scale: float  # true coefficients are scale * coefficients
    n_steps: int  # steps done over the whole life of the model
    n_joined: int  # times that a point was new to the buffer, over that life
    age_of_norms: int  # steps since the norms of rows and columns were computed
    rows_done: int  # rows of this call that were learned


class _Points(NamedTuple):
    """The points of a step: the row comes first, then the places of the buffer."""

    slots: Indices  # (1 + n_places,), in the dictionary; newcomers count from its size on
    unknown: Flags  # (1 + n_places,), need a slot, and their places do not tell it
    filled: Flags  # (1 + n_places,), have coefficients
    stays: Flags  # (1 + n_places,), return in later steps


class _Newcomers(NamedTuple):
    """Points that are to join."""

    points: Array  # (n_new, n_features)
    rows: Array  # (n_new, size), kernels with the dictionary
    gram: Array  # (n_new, n_new), among themselves


@jit()
def _copy(target: Array, source: Array, n: int) -> None:
    """``target[:n] = source[:n]``."""
    for i in range(n):
        target[i] = source[i]


@jit()
def _values_of_pairs(
    C: Array,
    size: int,
    scale: float,
    own_row: Array,
    kernels: Array,
    pattern: Array,
    labels: Array,
    values: Array,
) -> None:
    """Write the values of f at the pairs of the row that have labels.

    They are sums of B(x, x), B(x, x'), B(x', x) and B(x', x'), with the weights of the pattern.
    """
    product, between = np.empty(size), np.zeros(size)
    own = 0.0
    if pattern[0, 0] != 0.0 or pattern[0, 1] != 0.0:
        transpose_times(C, size, own_row, product)
        own = pattern[0, 0] * dot(product, own_row)
        for j in range(size):
            between[j] = pattern[0, 1] * product[j]
    if pattern[1, 0] != 0.0:
        times(C, size, own_row, product)
        for j in range(size):
            between[j] += pattern[1, 0] * product[j]
    for b in range(labels.size):
        if labels[b] == 0.0:
            continue
        row = kernels[b, :size]
        value = own + dot(between, row)
        if pattern[1, 1] != 0.0:
            times(C, size, row, product)
            value += pattern[1, 1] * dot(product, row)
        values[b] = scale * value


@jit()
def _mark(buffered: Buffered, pattern: Array, pulls: Array, place: int, points: _Points) -> None:
    """Write which points have coefficients, or return later, and their slots so far as known."""
    first = pattern[0, 1] != 0.0 or pattern[1, 0] != 0.0
    second = first or pattern[1, 1] != 0.0
    own = 0.0
    points.slots[0], points.filled[0], points.stays[0] = -1, False, place >= 0
    for b in range(pulls.size):
        i, there = 1 + b, buffered.weights[b] > 0.0
        points.slots[i] = buffered.slots[b] if there else -1
        points.filled[i] = second and pulls[b] != 0.0
        points.stays[i] = there and b != place
        points.filled[0] = points.filled[0] or (first and pulls[b] != 0.0)
        own += pattern[0, 0] * pulls[b]
    points.filled[0] = points.filled[0] or own != 0.0
    for i in range(points.slots.size):
        points.unknown[i] = points.slots[i] < 0 and (points.filled[i] or points.stays[i])


@jit()
def _meet(
    functions: Functions,
    matrix: PairMatrix,
    size: int,
    buffered: Buffered,
    x: Array,
    own_row: Array,
    points: _Points,
) -> _Newcomers:
    """Give slots to unknown points: those of points that are the same, or new ones."""
    theirs = matrix.state.self_kernel
    most = 0
    for i in range(points.unknown.size):
        most += points.unknown[i]
    new = _Newcomers(np.empty((most, x.size)), np.empty((most, size)), np.empty((most, most)))
    n_new = 0
    for i in range(points.unknown.size):
        if not points.unknown[i]:
            continue
        point, row = new.points[n_new], new.rows[n_new]
        _copy(point, x if i == 0 else buffered.points[i - 1], x.size)
        _copy(row, own_row if i == 0 else buffered.kernels[i - 1], size)
        gram = new.gram[n_new]
        kernel_row(functions, new.points, n_new + 1, point, gram)
        own, nearest, other, least = gram[n_new], -1, 0.0, np.inf
        for j in range(size):
            distance = theirs[j] + own - 2.0 * row[j]
            if distance < least:
                nearest, other, least = j, theirs[j], distance
        for q in range(n_new):
            distance = new.gram[q, q] + own - 2.0 * gram[q]
            if distance < least:
                nearest, other, least = size + q, new.gram[q, q], distance
        if nearest >= 0 and least <= TWINS * max(own, other):
            points.slots[i] = nearest
            continue
        for q in range(n_new):
            new.gram[q, n_new] = gram[q]
        points.slots[i] = size + n_new
        n_new += 1
    return _Newcomers(new.points[:n_new], new.rows[:n_new], leading_block(new.gram, n_new))


@jit()
def _pin(points: _Points, size: int) -> tuple[Flags, int]:
    """Return which of the points, newcomers included, must stay, and how many."""
    pinned = np.zeros(size, np.bool_)
    n_pinned = 0
    for i in range(points.slots.size):
        slot = points.slots[i]
        if points.stays[i] and slot >= 0 and not pinned[slot]:
            pinned[slot] = True
            n_pinned += 1
    return pinned, n_pinned


@jit()
def _block(
    points: _Points, size: int, at: Indices, pattern: Array, pulls: Array, eta: float, scale: float
) -> tuple[Indices, Array]:
    """Return different slots, and what a step adds to their coefficients.

    ``at`` holds the slots of the newcomers.
    """
    n_points = points.slots.size
    slots, where = np.empty(n_points, np.int64), np.empty(n_points, np.int64)
    n = 0
    for i in range(n_points):
        if not points.filled[i]:
            continue
        slot = points.slots[i]
        slots[n] = slot if slot < size else at[slot - size]
        where[i] = 0
        while slots[where[i]] != slots[n]:
            where[i] += 1
        n += where[i] == n
    block = np.zeros((n, n))
    own = 0.0
    for b in range(pulls.size):
        own += pattern[0, 0] * pulls[b]
        if pulls[b] == 0.0 or not points.filled[1 + b]:
            continue
        j = where[1 + b]
        block[j, j] -= eta * (pattern[1, 1] * pulls[b]) / scale
        if points.filled[0]:
            i = where[0]
            block[i, j] -= eta * (pattern[0, 1] * pulls[b]) / scale
            block[j, i] -= eta * (pattern[1, 0] * pulls[b]) / scale
    if points.filled[0]:
        block[where[0], where[0]] -= eta * own / scale
    return slots[:n], block


@jit()
def _with_left(
    state: BilinearState, size: int, new: _Newcomers, joined: Indices, left: Indices
) -> tuple[Array, Array]:
    """Return Gram matrix and coefficients of the dictionary and the newcomers left behind it."""
    before = size - joined.size
    total = size + left.size
    K, C = np.zeros((total, total)), np.zeros((total, total))
    for i in range(size):
        copy_row(K, i, state.gram, i, size)
        copy_row(C, i, state.coefficients, i, size)
    for i in range(left.size):
        p = left[i]
        copy_row(K, size + i, new.rows, p, before)
        for q in range(joined.size):
            K[size + i, before + q] = new.gram[p, joined[q]]
        for q in range(left.size):
            K[size + i, size + q] = new.gram[p, left[q]]
        for j in range(size):
            K[j, size + i] = K[size + i, j]
    return K, C


@jit()
def _join(
    state: BilinearState,
    size: int,
    new: _Newcomers,
    points: _Points,
    pattern: Array,
    pulls: Array,
    eta: float,
    scale: float,
    limits: Limits,
    joined: Indices,
) -> tuple[int, float, bool]:
    """Add newcomers to the dictionary, and the coefficients of a step.

    Parameters
    ----------
    state, size, new, points
        The dictionary, changed in place, the newcomers, and the points of the step.
    pattern, pulls, eta, scale
        What :func:`_block` adds.
    limits : Limits
        Of the step, with the threshold of dependent points.
    joined : ndarray of shape (n_new,) of int64
        Written: the newcomers that joined, by their slots.

    Returns
    -------
    n_joined : int
        How many joined.
    squared_error : float
        Error of projecting the others, which depend on the rest.
    done : bool
        False if others had better be removed to make room: nothing has changed then.
    """
    n_new, n_joined = len(new.rows), 0
    order = order_of_joining(state, size, new.rows, new.gram)
    undo = leading_block(state.inverse, size if n_new > 1 and state.inverse.size else 0)
    sparing = limits.threshold >= 0.0 and limits.rule == GREEDY and limits.squared_tolerance >= 0.0
    at = np.empty(n_new, np.int64)
    threshold = limits.threshold
    while True:
        n_joined, status = let_in(
            state, size, new.rows, new.gram, order, threshold, joined, n_joined
        )
        if status != JOINED:
            for i in range(len(undo)):
                copy_row(state.inverse, i, undo, i, size)
            return 0, 0.0, False
        left = np.empty(n_new - n_joined, np.int64)
        for p in range(n_new):
            at[p] = -1
        for q in range(n_joined):
            at[joined[q]] = size + q
        n_left = 0
        for p in range(n_new):
            if at[p] < 0:
                left[n_left], at[p] = p, size + n_joined + n_left
                n_left += 1
        now = size + n_joined
        slots, block = _block(points, size, at, pattern, pulls, eta, scale)
        if n_left == 0:
            add_block(state, now, slots, block)
            booked = 0.0
            break
        K, C = _with_left(state, now, new, joined[:n_joined], left)
        for p in range(slots.size):
            for q in range(slots.size):
                C[slots[p], slots[q]] += block[p, q]
        numbers = np.arange(now + n_left)
        inverse = leading_block(state.inverse, now)
        folded, booked = fold(K, C, numbers[:now], numbers[now:], inverse)
        if booked <= BOOKED_SHARE * limits.squared_tolerance or not sparing:
            for i in range(now):
                copy_row(state.coefficients, i, folded, i, now)
            refresh_norms(state, now)
            break
        threshold, sparing = ABSORB_LESS, False
    for i in range(points.slots.size):
        if points.slots[i] >= size:
            slot = at[points.slots[i] - size]
            points.slots[i] = slot if slot < now else -1
    return n_joined, booked, True


_OF_JOIN = (
    STATE,
    _t.int64,
    _t.NamedUniTuple(SQUARE, 3, _Newcomers),
    _t.NamedTuple((INDICES, FLAGS, FLAGS, FLAGS), _Points),
    SQUARE,
    VECTOR,
    _t.float64,
    _t.float64,
    LIMITS,
    INDICES,
)
_call_join = pointer_call(_t.Tuple((_t.int64, _t.float64, _t.boolean)), lambda: [_OF_JOIN])


class Codes(NamedTuple):
    """Addresses of functions that are not compiled into the loop."""

    join: int
    way: int


@functools.cache
def codes_of(kind: int) -> Codes:
    """Return the addresses for a way to stay small; they are invalid in another process."""
    return Codes(machine_code(_join, _OF_JOIN), address_of_way(kind))


@jit()
def run_pair_matrices(
    functions: Functions,
    codes: Codes,
    matrix: PairMatrix,
    buffered: Buffered,
    rules: Rules,
    rows: Rows,
    steps: Steps,
    limits: Limits,
    start: MatrixProgress,
    largest_loss: float,
) -> tuple[tuple[int, float, int, int, int, int], int]:
    """Learn from rows one by one, each paired with those in the buffer.

    Parameters
    ----------
    functions, buffered, rules, rows, steps, largest_loss
        As in :func:`mercer.numerics.loops.run_pairs`, in float64.
    codes : Codes
        How the dictionary stays small; see :func:`codes_of`.
    matrix : PairMatrix
        The function, changed in place.
    limits : Limits
        Of the dictionary; the threshold of :func:`mercer.numerics.bilinear.join`.
    start : MatrixProgress
        Where to begin; ``rows_done`` is the index of the first row.

    Returns
    -------
    progress : tuple
        Where the loop stands now.
    reason : int
        Why it stopped, as in the other loops. Before ``UNUSUAL`` nothing of the step is done, and
        Python has to take it; after ``HALF_DONE`` points may still have to be removed.
    """
    size, scale, n_steps, n_seen, age, row = start
    state, points_of, ages = matrix
    capacity, n_features = points_of.shape
    n_places = buffered.weights.size
    labels, values, pulls = np.empty(n_places), np.empty(n_places), np.empty(n_places)
    points = _Points(
        np.empty(1 + n_places, np.int64),
        np.empty(1 + n_places, np.bool_),
        np.empty(1 + n_places, np.bool_),
        np.empty(1 + n_places, np.bool_),
    )
    own_row, joined = np.empty(capacity), np.empty(1 + n_places, np.int64)
    reason = FINISHED
    while row < len(rows.inputs):
        x, place = rows.inputs[row], rules.places[row]
        weight, eta = rows.sample_weights[row], steps.step_sizes[row]
        kernel_row(functions, points_of, size, x, own_row)
        totals = label_pairs(buffered, rules, rows.targets[row], labels)
        _values_of_pairs(
            state.coefficients,
            size,
            scale,
            own_row[:size],
            buffered.kernels,
            rules.pattern,
            labels,
            values,
        )
        loss = slopes_of_pairs(functions, buffered, rules, labels, totals, values, pulls)
        total = 0.0
        for b in range(n_places):
            pulls[b] *= weight
            total += pulls[b]
        if not (loss <= largest_loss and np.isfinite(total)):  # true for NaN, too
            reason = DIVERGED
            break
        _mark(buffered, rules.pattern, pulls, place, points)
        new = _meet(functions, matrix, size, buffered, x, own_row, points)
        n_new = len(new.points)
        if size + n_new > capacity:
            reason = NO_ROOM
            break
        if _pin(points, size + n_new)[1] >= limits.max_size:
            reason = UNUSUAL
            break
        factor = 1.0 - eta * steps.ridges[row]
        scale *= factor
        if scale < SMALLEST_SCALE:
            for i in range(size):
                for j in range(size):
                    state.coefficients[i, j] *= scale
            for norms in (state.row_norms, state.column_norms):
                for i in range(min(size, norms.size)):
                    norms[i] *= scale * scale
            scale = 1.0
        squared = squared_tolerance(steps.tolerances[row], scale)
        reach = Limits(squared, limits.max_size, limits.threshold, limits.rule, 1)
        n_joined, booked, done = _call_join(
            codes.join,
            (state, size, new, points, rules.pattern, pulls, eta, scale, reach, joined),
        )
        if not done:
            scale /= factor
            reason = UNUSUAL
            break
        if n_joined < n_new:
            age = 0  # the norms were computed anew
        for q in range(n_joined):
            copy_row(points_of, size + q, new.points, joined[q], n_features)
        for i in range(1 + n_places):
            if points.unknown[i] and points.slots[i] >= 0:
                n_seen += 1
                ages[points.slots[i]] = n_seen  # a point that is seen again counts as new
        # Compress, and follow what moves.
        old_size, size = size, size + n_joined
        pinned, _ = _pin(points, size)
        origin = np.arange(size)
        size, error, done = call_way(codes.way, (state, size, pinned, origin, ages, booked, reach))
        for s in range(size):
            if origin[s] != s:
                copy_row(points_of, s, points_of, origin[s], n_features)
                ages[s] = ages[origin[s]]
        for b in range(n_places):
            buffered.slots[b] = points.slots[1 + b]
        follow(
            functions,
            points_of,
            origin[:size],
            old_size,
            n_joined,
            buffered,
            points.slots[0],
            own_row,
            x,
            place,
        )
        if place >= 0:
            copy_row(buffered.targets, place, rows.targets, row, 2)
            buffered.weights[place] = weight
        n_steps += 1
        age += 1
        if age >= max(REFRESH, size):
            if state.row_norms.size:
                refresh_norms(state, size)
            age = 0
        steps.losses[row] = loss
        steps.errors[row] = error * scale
        steps.model_orders[row] = size
        row += 1
        if not done:
            reason = HALF_DONE
            break
    return (size, scale, n_steps, n_seen, age, row), reason
