"""The learner's loop compiled, for small models, streams of single rows, and pairs of rows.

The loops do what :mod:`mercer.learning.loop` does in Python, step for step: predict, take the
slopes, shrink, add, compress. They stop early, with a reason, when Python has to do something: grow
an array, change to a safer path, or take over because the model outgrew plain loops.

The loop on pairs, for pair kernels of first order, pairs a row with the rows of a buffer, and adds
the row to it last. The kernels between the buffer and the dictionary are kept from step to step, so
a step evaluates little more than the kernels of its row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.compression import (
    BREAKDOWN,
    INVERSE,
    UNFINISHED,
    Compressor,
    Dictionary,
    Limits,
    Newcomers,
    call_compress,
    copy_row,
    needs_rows,
    worst_conditioning,
)
from mercer.numerics.small_dense import dot
from mercer.pointers import call_pointer

Array = NDArray[np.float64]

FINISHED, NO_ROOM, TOO_LARGE, DIVERGED, ILL_CONDITIONED, BROKEN_DOWN, HALF_DONE, UNUSUAL = range(8)

# Below this factor lazily scaled coefficients are multiplied out, long before they underflow.
SMALLEST_SCALE = 1e-6


class Functions(NamedTuple):
    """Compiled kernel and loss, by address, and their parameters."""

    kernel: int
    kernel_parameters: Array
    loss: int
    loss_parameters: Array
    blas: tuple[int, int]


class Rows(NamedTuple):
    """Rows to learn from, in order."""

    inputs: NDArray[np.floating]  # (n_rows, n_features)
    targets: Array  # (n_rows, target_width)
    sample_weights: Array  # (n_rows,)


class Steps(NamedTuple):
    """What each step uses and reports; one entry per step, or per row for ``losses``."""

    step_sizes: Array
    ridges: Array  # lambda of each step
    tolerances: Array
    losses: Array  # (n_rows,) written: loss of each row before it was learned
    errors: Array  # written: compression error
    model_orders: NDArray[np.int64]  # written


class Progress(NamedTuple):
    """Where the loop stands."""

    size: int
    oldest: int
    scale: float  # true coefficients are scale * weights
    n_steps: int  # steps done over the whole life of the model
    rows_done: int  # rows of this call that were learned


#: :class:`Progress` as compiled functions return it: for a named tuple Numba runs Python code, and
#: crashes where that ends in KeyboardInterrupt.
Done = tuple[int, int, float, int, int]


@jit()
def squared_tolerance(tolerance: float, scale: float) -> float:
    """Squared tolerance in units of the scaled coefficients; negative stays negative (never)."""
    return tolerance * abs(tolerance) / (scale * scale)


@jit()
def shrink(dictionary: Dictionary, size: int, n_outputs: int, scale: float, factor: float) -> float:
    """Multiply the function by ``factor``; return the new scale of the coefficients."""
    scale *= factor
    if scale < SMALLEST_SCALE:
        for j in range(size):
            for c in range(n_outputs):
                dictionary.weights[j, c] *= scale
        scale = 1.0
    return scale


@jit()
def average(dictionary: Dictionary, size: int, n_outputs: int, scale: float, mixing: float) -> None:
    """Move the averaged coefficients (the second half of the columns) towards the current ones."""
    weights = dictionary.weights
    for j in range(size):
        for c in range(n_outputs):
            mean = weights[j, n_outputs + c]
            weights[j, n_outputs + c] = mean + mixing * (scale * weights[j, c] - mean)


@jit()
def values_of_row(
    functions: Functions,
    dictionary: Dictionary,
    size: int,
    scale: float,
    x: NDArray[np.floating],
    kernel_row: NDArray[np.floating],
    values: Array,
) -> None:
    """Write the kernels of a point with the dictionary, and the current iterate's values."""
    call_pointer(
        functions.kernel,
        (
            np.int64(dictionary.points.ctypes.data),
            np.int64(x.ctypes.data),
            np.int64(kernel_row.ctypes.data),
            np.int64(functions.kernel_parameters.ctypes.data),
            np.int64(size),
            np.int64(x.size),
        ),
    )
    for c in range(values.size):
        values[c] = 0.0
    for j in range(size):
        k = np.float64(kernel_row[j])
        for c in range(values.size):
            values[c] += k * dictionary.weights[j, c]
    for c in range(values.size):
        values[c] *= scale


@jit()
def loss_of_row(
    functions: Functions, target: Array, values: Array, slopes: Array, loss: Array
) -> None:
    """Write the loss of a row, (1,), and its slopes."""
    call_pointer(
        functions.loss,
        (
            np.int64(target.ctypes.data),
            np.int64(values.ctypes.data),
            np.int64(slopes.ctypes.data),
            np.int64(loss.ctypes.data),
            np.int64(functions.loss_parameters.ctypes.data),
            np.int64(slopes.size),
        ),
    )


@jit()
def join(
    functions: Functions,
    compressor: Compressor,
    dictionary: Dictionary,
    limits: Limits,
    inputs: NDArray[np.floating],
    row: int,
    kernel_rows: NDArray[np.floating],
    active: NDArray[np.int64],
    slopes: Array,
    rate: float,
    size: int,
    oldest: int,
    scale: float,
    tolerance: float,
    reads_rows: bool,
) -> tuple[int, int, float, int]:
    """Let rows of a step join the dictionary, and keep the function small.

    Parameters
    ----------
    functions, compressor, dictionary, limits
        As in :func:`run_rows`.
    inputs, row
        The step has the rows from ``row`` on.
    kernel_rows : ndarray of shape (n, size)
        Kernels of the rows with the dictionary.
    active : ndarray of int64
        Which of the rows join.
    slopes, rate : ndarray of shape (n, n_outputs), float
        Their coefficients are ``rate * slopes``.
    size, oldest, scale : int, int, float
        As in :class:`Progress`.
    tolerance : float
        Of the step.
    reads_rows : bool
        Whether the compressor needs the kernels between the newcomers and all others.

    Returns
    -------
    size, oldest, error, status
        What the compression returns.
    """
    n_active, n_features = active.size, inputs.shape[1]
    coefficients = np.zeros((n_active, dictionary.weights.shape[1]))
    new_points = np.empty((n_active, n_features), inputs.dtype)
    new_rows = np.empty((n_active, size if reads_rows else 0), inputs.dtype)
    new_gram = np.zeros((n_active, n_active), inputs.dtype)
    for p in range(n_active):
        i = active[p]
        copy_row(new_points, p, inputs, row + i, n_features)
        for c in range(slopes.shape[1]):
            coefficients[p, c] = rate * slopes[i, c] / scale
        if reads_rows:
            copy_row(new_rows, p, kernel_rows, i, size)
    for p in range(n_active):
        # All kernels among the newcomers if they are needed, otherwise only k(x, x).
        first = 0 if reads_rows else p
        call_pointer(
            functions.kernel,
            (
                np.int64(new_points[first:].ctypes.data),
                np.int64(new_points[p].ctypes.data),
                np.int64(new_gram[p, first:].ctypes.data),
                np.int64(functions.kernel_parameters.ctypes.data),
                np.int64(p + 1 - first),
                np.int64(n_features),
            ),
        )
        for q in range(first, p):
            new_gram[q, p] = new_gram[p, q]
    new = Newcomers(new_points, new_rows, new_gram, coefficients, np.zeros(n_active, np.bool_))
    squared = squared_tolerance(tolerance, scale)
    reach = Limits(squared, limits.max_size, limits.threshold, limits.rule, limits.n_criterion)
    size, oldest, error, status = call_compress(
        compressor.code,
        (functions.blas, compressor, dictionary, size, oldest, new, reach),
    )
    return size, oldest, error, status


@jit()
def run_rows(
    functions: Functions,
    compressor: Compressor,
    dictionary: Dictionary,
    rows: Rows,
    steps: Steps,
    limits: Limits,
    start: Progress,
    batch_size: int,
    averaging: float,
    max_work: int,
    largest_loss: float,
) -> tuple[Done, int]:
    """Learn from rows in mini-batches until all are done or Python is needed.

    Parameters
    ----------
    functions, compressor, dictionary, rows, steps, limits
        See the tuples; ``compressor`` comes from :func:`mercer.numerics.compression.with_code`.
        ``limits.squared_tolerance`` is replaced by each step's own tolerance.
    start : Progress
        Where to begin; ``rows_done`` is the index of the first row.
    batch_size : int
        Rows per step.
    averaging : float
        Negative: none. Otherwise the exponent p of averaging weights that grow like ``t**p``:
        0 is the plain (Polyak) mean of all iterates.
    max_work : int
        Stop when model order times input dimension exceeds this.
    largest_loss : float
        Finite; a row that loses more means that the run diverges.

    Returns
    -------
    progress : tuple
        Where the loop stands now. The step in question is not done when the reason is
        ``NO_ROOM``, ``TOO_LARGE``, ``DIVERGED`` or ``BROKEN_DOWN``; after ``HALF_DONE`` its
        newcomers have joined, but the compression has to be finished on a safer path.
    reason : int
        Why it stopped.
    """
    size, oldest, scale, n_steps, row = start
    inputs = rows.inputs
    n_rows, n_features = inputs.shape
    n_outputs = limits.n_criterion
    capacity = dictionary.weights.shape[0]
    most = min(batch_size, n_rows)
    scores = np.empty((most, n_outputs))
    slopes = np.empty((most, n_outputs))
    active = np.empty(most, np.int64)
    value = np.empty(1)
    step = row // batch_size
    reason = FINISHED
    reads_rows = needs_rows(compressor.kind)
    while row < n_rows:
        n = min(batch_size, n_rows - row)
        if size + n > capacity:
            reason = NO_ROOM
            break
        if size * n_features > max_work:
            reason = TOO_LARGE
            break
        # Predict all rows of the batch, and take the slopes of their losses.
        eta = steps.step_sizes[step]
        kernel_rows = np.empty((n, size), inputs.dtype)
        n_active = 0
        finite = True
        for i in range(n):
            values_of_row(
                functions, dictionary, size, scale, inputs[row + i], kernel_rows[i], scores[i]
            )
            loss_of_row(functions, rows.targets[row + i], scores[i], slopes[i], value)
            steps.losses[row + i] = value[0]
            finite = finite and value[0] <= largest_loss  # false for NaN, too
            weight = rows.sample_weights[row + i]
            moved = False
            for c in range(n_outputs):
                slopes[i, c] *= weight
                finite = finite and np.isfinite(slopes[i, c])
                moved = moved or slopes[i, c] != 0.0
            if moved:
                active[n_active] = i
                n_active += 1
        if not finite:
            reason = DIVERGED
            break
        # Shrink the function, add the rows that have a slope, and keep it small.
        factor = 1.0 - eta * steps.ridges[step]
        scale = shrink(dictionary, size, n_outputs, scale, factor)
        size, oldest, error, status = join(
            functions,
            compressor,
            dictionary,
            limits,
            inputs,
            row,
            kernel_rows,
            active[:n_active],
            slopes,
            -eta / n,
            size,
            oldest,
            scale,
            steps.tolerances[step],
            reads_rows,
        )
        if status == BREAKDOWN:
            # The caller repeats the step on another path: take the shrinking back.
            scale /= factor
            reason = BROKEN_DOWN
            break
        n_steps += 1
        if averaging >= 0.0:
            average(dictionary, size, n_outputs, scale, (averaging + 1.0) / (n_steps + averaging))
        steps.errors[step] = error * scale
        steps.model_orders[step] = size
        step += 1
        row += n
        if status == UNFINISHED:
            reason = HALF_DONE
            break
        if compressor.kind == INVERSE and (
            worst_conditioning(dictionary, size) > compressor.conditioning_limit
        ):
            reason = ILL_CONDITIONED
            break
    return (size, oldest, scale, n_steps, row), reason


@jit()
def run_one_row(  # type: ignore[no-untyped-def]
    functions, compressor, dictionary, rows, steps, limits, start, averaging, most
):
    """:func:`run_rows` on one row, by plain tuples: these are read four times as fast.

    Parameters are as in :func:`run_rows`, but as plain tuples; ``most`` is ``largest_loss``.

    Returns
    -------
    size, oldest, scale, n_steps : int, int, float, int
        See :class:`Progress`.
    reason : int
        As there.
    """
    (size, oldest, scale, n_steps, _), reason = run_rows(
        Functions(*functions),
        Compressor(*compressor),
        Dictionary(*dictionary),
        Rows(*rows),
        Steps(*steps),
        Limits(*limits),
        Progress(*start),
        1,
        averaging,
        1 << 62,
        most,
    )
    return size, oldest, scale, n_steps, reason


@jit()
def score_one_row(functions, dictionary, size, first_column, scale, x, scores):  # type: ignore[no-untyped-def]
    """:func:`score_row` by plain tuples."""
    score_row(Functions(*functions), Dictionary(*dictionary), size, first_column, scale, x, scores)


@jit()
def score_row(
    functions: Functions,
    dictionary: Dictionary,
    size: int,
    first_column: int,
    scale: float,
    x: NDArray[np.floating],
    scores: Array,
) -> None:
    """Write the function's values at one point to ``scores``.

    Parameters
    ----------
    functions, dictionary, size
        As in :func:`run_rows`.
    first_column : int
        0 for the current iterate, n_outputs for the averaged one.
    scale : float
        Factor of the coefficients.
    x : ndarray of shape (n_features,)
        Point.
    scores : ndarray of shape (n_outputs,)
        Result.
    """
    kernel_row = np.empty(size, dictionary.points.dtype)
    call_pointer(
        functions.kernel,
        (
            np.int64(dictionary.points.ctypes.data),
            np.int64(x.ctypes.data),
            np.int64(kernel_row.ctypes.data),
            np.int64(functions.kernel_parameters.ctypes.data),
            np.int64(size),
            np.int64(x.size),
        ),
    )
    for c in range(scores.size):
        total = 0.0
        for j in range(size):
            total += np.float64(kernel_row[j]) * dictionary.weights[j, first_column + c]
        scores[c] = scale * total


Floats = NDArray[np.floating]

DIFFERENCE, SIGN, SAME = range(3)
OPPOSITE, ALL, BALANCED = range(3)


class Buffered(NamedTuple):
    """The buffer, by place; places without a row have weight 0."""

    points: Floats  # (n_places, n_features)
    targets: Array  # (n_places, 2), label and group
    weights: Array  # (n_places,)
    slots: NDArray[np.int64]  # (n_places,), of the dictionary, -1 for none
    kernels: Floats  # (n_places, capacity), with the points of the dictionary


class Rules(NamedTuple):
    """Settings of learning from pairs, and how rows move through the buffer."""

    label: int  # DIFFERENCE, SIGN or SAME
    normalize: int  # OPPOSITE, ALL or BALANCED
    pattern: Array  # (2,) or (2, 2), of the pair kernel
    tie: float  # loss of a pair at f = 0, for rows without a partner
    places: NDArray[np.int64]  # (n_rows,), buffer place of each row, -1 for none


@jit()
def kernel_row(functions: Functions, points: Floats, size: int, x: Floats, out: Floats) -> None:
    """Write the kernels of the first ``size`` points with a point."""
    call_pointer(
        functions.kernel,
        (
            np.int64(points.ctypes.data),
            np.int64(x.ctypes.data),
            np.int64(out.ctypes.data),
            np.int64(functions.kernel_parameters.ctypes.data),
            np.int64(size),
            np.int64(x.size),
        ),
    )


@jit()
def kernels_of_buffer(functions: Functions, points: Floats, size: int, buffered: Buffered) -> None:
    """Fill in the kernels between the buffer and the points of the dictionary."""
    for b in range(buffered.weights.size):
        if buffered.weights[b] > 0.0:
            kernel_row(functions, points, size, buffered.points[b], buffered.kernels[b])


@jit()
def _pair_label(rules: Rules, first: float, second: float) -> float:
    if rules.label == SAME:
        return 1.0 if first == second else -1.0
    difference = first - second
    if rules.label == SIGN:
        return float(np.sign(difference))
    return difference


@jit()
def label_pairs(buffered: Buffered, rules: Rules, target: Array, labels: Array) -> Array:
    """Write the labels of a row's pairs, 0 for none; return the weights of its partners, (2,).

    With BALANCED these are the weights for labels of either sign, otherwise the first is for all.
    """
    totals = np.zeros(2)
    for b in range(labels.size):
        labels[b] = 0.0
        weight = buffered.weights[b]
        if weight <= 0.0 or buffered.targets[b, 1] != target[1]:
            continue
        label = _pair_label(rules, target[0], buffered.targets[b, 0])
        labels[b] = label
        if label != 0.0 or rules.normalize == ALL:
            totals[1 if rules.normalize == BALANCED and label > 0.0 else 0] += weight
    return totals


@jit()
def slopes_of_pairs(
    functions: Functions,
    buffered: Buffered,
    rules: Rules,
    labels: Array,
    totals: Array,
    values: Array,
    pulls: Array,
) -> float:
    """Write the derivative of the row's mean loss in f of each of its pairs; return that loss.

    Parameters
    ----------
    functions, buffered, rules
        As in :func:`run_pairs`.
    labels, totals : ndarray of shape (n_places,) and (2,)
        See :func:`label_pairs`.
    values : ndarray of shape (n_places,)
        Values of f at the pairs; read where there is a label.
    pulls : ndarray of shape (n_places,)
        Written.
    """
    one, margin, value, slope = np.ones(1), np.empty(1), np.empty(1), np.empty(1)
    loss, alone = 0.0, True
    for b in range(labels.size):
        pulls[b] = 0.0
        label = labels[b]
        if label == 0.0:
            continue
        alone = False
        margin[0] = label * values[b]
        call_pointer(
            functions.loss,
            (
                np.int64(one.ctypes.data),
                np.int64(margin.ctypes.data),
                np.int64(slope.ctypes.data),
                np.int64(value.ctypes.data),
                np.int64(functions.loss_parameters.ctypes.data),
                np.int64(1),
            ),
        )
        balanced = rules.normalize == BALANCED
        share = buffered.weights[b] / totals[1 if balanced and label > 0.0 else 0]
        if balanced:
            share *= 0.5
        pulls[b] = share * label * slope[0]
        loss += share * value[0]
    return rules.tie if alone else loss


@jit()
def _twin(dictionary: Dictionary, size: int, row: Floats, own: float, x: Floats) -> int:
    """Slot of the point that is the same, or -1."""
    nearest, least = -1, np.inf
    for j in range(size):
        distance = dictionary.self_kernel[j] + own - 2.0 * np.float64(row[j])
        if distance < least:
            nearest, least = j, distance
    if nearest >= 0:
        for j in range(x.size):
            if dictionary.points[nearest, j] != x[j]:
                return -1
    return nearest


@jit()
def follow(
    functions: Functions,
    points: Floats,
    origin: NDArray[np.int64],
    old_size: int,
    n_new: int,
    buffered: Buffered,
    own_slot: int,
    own_row: Floats,
    x: Floats,
    place: int,
) -> None:
    """Bring the slots and kernels of the buffer up to date after a step, and let the row enter.

    Parameters
    ----------
    functions, buffered
        As in :func:`run_pairs`. Slots are numbered as ``origin`` is.
    points : ndarray of shape (capacity, n_features)
        The dictionary after the step.
    origin : ndarray of shape (size,) of int64
        Slot before the step of each point. Newcomers count from ``old_size`` on, and the number
        after theirs stands for all other points.
    old_size, n_new : int
        Numbers of points before the step, and of newcomers.
    own_slot, own_row, x, place
        Slot of the row or -1, its kernels with the dictionary before the step, the row itself, and
        its place in the buffer or -1.
    """
    moved = np.full(old_size + n_new + 1, -1, np.int64)
    for s in range(origin.size):
        moved[origin[s]] = s
    n_places = buffered.weights.size
    for b in range(n_places):
        if buffered.slots[b] >= 0:
            buffered.slots[b] = moved[buffered.slots[b]]
    column = np.empty(n_places, buffered.kernels.dtype)
    for s in range(origin.size):
        if origin[s] >= old_size:
            kernel_row(functions, buffered.points, n_places, points[s], column)
            for b in range(n_places):
                buffered.kernels[b, s] = column[b]
        elif origin[s] != s:
            # Points move towards the front, so that no column is overwritten before it is read.
            for b in range(n_places):
                buffered.kernels[b, s] = buffered.kernels[b, origin[s]]
    if place < 0:
        return
    for s in range(origin.size):
        if origin[s] < old_size:
            buffered.kernels[place, s] = own_row[origin[s]]
        else:
            kernel_row(functions, points[s:], 1, x, buffered.kernels[place, s:])
    for j in range(x.size):
        buffered.points[place, j] = x[j]
    buffered.slots[place] = moved[own_slot] if own_slot >= 0 else -1


@jit()
def run_pairs(
    functions: Functions,
    compressor: Compressor,
    dictionary: Dictionary,
    buffered: Buffered,
    rules: Rules,
    rows: Rows,
    steps: Steps,
    limits: Limits,
    start: Progress,
    averaging: float,
    largest_loss: float,
) -> tuple[Done, int]:
    """Learn from rows one by one, each paired with those in the buffer.

    Parameters
    ----------
    functions, compressor, dictionary, rows, steps, limits, start
        As in :func:`run_rows`; the loss is one of margins.
    buffered : Buffered
        Changed in place; kernels as :func:`kernels_of_buffer` fills them in.
    rules : Rules
        What is learned.
    averaging, largest_loss : float
        As there.

    Returns
    -------
    progress : tuple
        Where the loop stands now.
    reason : int
        Why it stopped, as in the row loop. After ``BROKEN_DOWN`` and ``HALF_DONE`` the kernels of
        the buffer must be recomputed once the step is finished.
    """
    size, oldest, scale, n_steps, row = start
    inputs = rows.inputs
    n_rows, n_features = inputs.shape
    n_columns = dictionary.weights.shape[1]
    capacity = dictionary.weights.shape[0]
    n_places = buffered.weights.size
    first, second = rules.pattern[0], rules.pattern[1]
    labels, values, pulls = np.empty(n_places), np.empty(n_places), np.empty(n_places)
    newcomer_places = np.empty(n_places + 1, np.int64)
    newcomer_pull = np.empty(n_places + 1)
    own_kernel = np.empty(1, inputs.dtype)
    own_row = np.empty(capacity, inputs.dtype)
    current, before = np.empty(capacity), np.empty(capacity)
    origin = np.empty(capacity, np.int64)
    reason = FINISHED
    while row < n_rows:
        place = rules.places[row]
        if size + n_places + 1 > capacity or place >= n_places:
            reason = NO_ROOM
            break
        x, weight, eta = inputs[row], rows.sample_weights[row], steps.step_sizes[row]
        kernel_row(functions, dictionary.points, size, x, own_row)
        for j in range(size):
            current[j] = scale * dictionary.weights[j, 0]
        own_value = dot(own_row[:size], current[:size])
        totals = label_pairs(buffered, rules, rows.targets[row], labels)
        for b in range(n_places):
            if labels[b] != 0.0:
                other = dot(buffered.kernels[b, :size], current[:size])
                values[b] = first * own_value + second * other
        loss = slopes_of_pairs(functions, buffered, rules, labels, totals, values, pulls)
        own_pull = 0.0
        for b in range(n_places):
            pulls[b] *= weight
            own_pull += pulls[b]
        # False for NaN, too.
        if not (loss <= largest_loss and np.isfinite(own_pull)):
            reason = DIVERGED
            break
        factor = 1.0 - eta * steps.ridges[row]
        scale = shrink(dictionary, size, 1, scale, factor)
        for j in range(size):
            before[j] = dictionary.weights[j, 0]
            dictionary.origin[j] = j + 1
            dictionary.pinned[j] = False
        # Points that are in the dictionary get their coefficients there; the others join it.
        n_new = 0
        own_slot = -1
        if own_pull != 0.0 or place >= 0:
            own = _self_kernel(functions, inputs, row, own_kernel)
            own_slot = _twin(dictionary, size, own_row, own, x)
            if own_slot >= 0:
                dictionary.weights[own_slot, 0] -= eta * first * own_pull / scale
                dictionary.pinned[own_slot] = place >= 0
            else:
                newcomer_places[0], newcomer_pull[0] = -1, first * own_pull
                n_new = 1
        for b in range(n_places):
            if buffered.weights[b] <= 0.0:
                continue
            slot = buffered.slots[b]
            if slot < 0 and pulls[b] != 0.0:
                own = _self_kernel(functions, buffered.points, b, own_kernel)
                slot = _twin(dictionary, size, buffered.kernels[b], own, buffered.points[b])
                buffered.slots[b] = slot
            if slot >= 0:
                dictionary.weights[slot, 0] -= eta * second * pulls[b] / scale
                dictionary.pinned[slot] = dictionary.pinned[slot] or b != place
            elif pulls[b] != 0.0:
                newcomer_places[n_new], newcomer_pull[n_new] = b, second * pulls[b]
                n_new += 1
        points = np.empty((n_new, n_features), inputs.dtype)
        new_rows = np.empty((n_new, size), inputs.dtype)
        gram = np.empty((n_new, n_new), inputs.dtype)
        coefficients = np.zeros((n_new, n_columns))
        pinned = np.empty(n_new, np.bool_)
        for i in range(n_new):
            b = newcomer_places[i]
            if b < 0:
                copy_row(points, i, inputs, row, n_features)
                for j in range(size):
                    new_rows[i, j] = own_row[j]
                pinned[i] = place >= 0
            else:
                copy_row(points, i, buffered.points, b, n_features)
                copy_row(new_rows, i, buffered.kernels, b, size)
                pinned[i] = b != place
            coefficients[i, 0] = -eta * newcomer_pull[i] / scale
        for i in range(n_new):
            kernel_row(functions, points, n_new, points[i], gram[i])
        old_size = size
        new = Newcomers(points, new_rows, gram, coefficients, pinned)
        squared = squared_tolerance(steps.tolerances[row], scale)
        reach = Limits(squared, limits.max_size, limits.threshold, limits.rule, 1)
        size, oldest, error, status = call_compress(
            compressor.code,
            (functions.blas, compressor, dictionary, size, oldest, new, reach),
        )
        if status == BREAKDOWN:
            # The caller repeats the step on another path: as if it had not begun.
            for j in range(size):
                dictionary.weights[j, 0] = before[j]
            scale /= factor
            reason = BROKEN_DOWN
            break
        for s in range(size):
            number = dictionary.origin[s]
            origin[s] = number - 1 if number > 0 else old_size - 1 - number
            if number == 0:
                origin[s] = old_size + n_new
        for i in range(n_new):
            if newcomer_places[i] < 0:
                own_slot = old_size + i
            else:
                buffered.slots[newcomer_places[i]] = old_size + i
        follow(
            functions,
            dictionary.points,
            origin[:size],
            old_size,
            n_new,
            buffered,
            own_slot,
            own_row,
            x,
            place,
        )
        if place >= 0:
            copy_row(buffered.targets, place, rows.targets, row, 2)
            buffered.weights[place] = weight
        n_steps += 1
        if averaging >= 0.0:
            average(dictionary, size, 1, scale, (averaging + 1.0) / (n_steps + averaging))
        steps.losses[row] = loss
        steps.errors[row] = error * scale
        steps.model_orders[row] = size
        row += 1
        if status == UNFINISHED:
            reason = HALF_DONE
            break
        if compressor.kind == INVERSE and (
            worst_conditioning(dictionary, size) > compressor.conditioning_limit
        ):
            reason = ILL_CONDITIONED
            break
    return (size, oldest, scale, n_steps, row), reason


@jit()
def _self_kernel(functions: Functions, points: Floats, b: int, out: Floats) -> float:
    kernel_row(functions, points[b:], 1, points[b], out)
    return np.float64(out[0])
