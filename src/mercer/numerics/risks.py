r"""Steps under a risk: what is tracked, how rows are weighed, and the compiled loop over rows.

An objective under a risk is a function of the loss of a row, of inner expectations g and of scalars
v. Both loops, in Python (:class:`mercer.objectives.Compositional`) and compiled
(:func:`run_under_risk`), take a step by the same three functions: :func:`pace_of` says how much the
rows count, :func:`track` moves g, :func:`weigh` makes the slopes and moves the rest. In between the
risk weighs the losses, in compiled code (:func:`outer_of_rows`) if it has any. So the loops give
the same bits wherever the function has the same values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.jit import jit
from mercer.numerics.compression import (
    BREAKDOWN,
    INVERSE,
    UNFINISHED,
    Compressor,
    Dictionary,
    Limits,
    copy_row,
    needs_rows,
    worst_conditioning,
)
from mercer.numerics.loops import (
    BROKEN_DOWN,
    DIVERGED,
    FINISHED,
    HALF_DONE,
    ILL_CONDITIONED,
    NO_ROOM,
    TOO_LARGE,
    Done,
    Functions,
    Progress,
    Rows,
    Steps,
    average,
    join,
    loss_of_row,
    shrink,
    values_of_row,
)
from mercer.pointers import call_pointer

Array = NDArray[np.float64]
Floats = NDArray[np.floating]

# Memory, in rows, of the running unit of the loss and the running mean weight.
_MEMORY = 1000
# Up to this many rows of a step add up when a scalar moves; more are averaged, or it overshoots.
_MOST_ROWS = 50
# Rows after which the scalars begin to take steps.
FIRST_ROWS = 100
# The weight of a batch is limited to this many times the usual weight.
_MOST_WEIGHT = 10.0
# In the mean of the scalars, weights of the steps grow like t³, as for the iterates.
_SUFFIX = 4.0


class CompiledRisk(NamedTuple):
    """A risk as compiled code takes it: a weighted sum of terms.

    Attributes
    ----------
    addresses : ndarray of shape (n_terms,) of int64
        Address of ``void row(double* loss, double* inner, double* scalars, double* unit,
        double* out, double* parameters)``, valid as long as the process lives.
    weights : ndarray of shape (n_terms,)
        Weights of the terms.
    units : ndarray of shape (n_terms,)
        Scale of the loss, NaN for that of the step.
    sizes : ndarray of shape (n_terms, 3) of int64
        Numbers of inner expectations, scalars and parameters.
    parameters : ndarray
        The numbers of the terms, one after the other.
    """

    addresses: NDArray[np.int64]
    weights: Array
    units: Array
    sizes: NDArray[np.int64]
    parameters: Array


class Weighed(NamedTuple):
    """The outer function of each row and its derivatives, as in :class:`mercer.risks.Outer`."""

    value: Array  # (n,)
    by_loss: Array  # (n,)
    by_inner: Array  # (n, m)
    by_scalars: Array  # (n, k)
    clamped: NDArray[np.bool_]  # (n,)


class Tracked(NamedTuple):
    """What an objective follows over the steps, after some of them."""

    counts: NDArray[np.int64]  # (2,), rows and steps
    inner: Array  # (m,), g
    effect: Array  # (m,), E dphi/dg
    scalars: Array  # (k,), v
    settled: Array  # (k,), mean of v over the steps, in which later steps count more
    scales: Array  # (2,), running means: size of the loss, and weight of the rows


class Pace(NamedTuple):
    """How much the rows of a step count."""

    own_weight: float  # mean weight of the rows
    recent: float  # share of the rows in running means
    weight: float  # running mean weight, with these rows
    share: float  # weight of these rows relative to earlier ones
    rate: float  # share of the rows in what is tracked


class Way(NamedTuple):
    """Settings of steps under a risk."""

    unit: float  # scale of the loss; NaN for the running one
    rate: float  # of the tracker
    paired: bool  # rows 2i and 2i + 1 are a pair
    momentum: bool  # g is corrected by f before the last step
    direction_rate: float  # of the averaged direction; negative for none
    clip: float  # of slopes; negative for none
    low: float  # range of g
    high: float


class Past(NamedTuple):
    """The function before the last step; see :class:`mercer.functions.kernel_expansion.Previous`.

    While a step is half done ``n_on_slots`` is -1, and all points are off the slots.
    """

    on_slots: Array  # (capacity, n_outputs)
    points: Floats  # (capacity, n_features)
    coefficients: Array  # (capacity, n_outputs)
    sizes: NDArray[np.int64]  # (2,), numbers of coefficients on slots, and of points


class UnderRisk(NamedTuple):
    """What the loop under a risk minimises, changes and reports."""

    risk: CompiledRisk
    way: Way
    now: Tracked  # changed in place; it has begun, and scalars are beyond their first rows
    past: Past  # the function before the last step if ``way.momentum``; changed in place
    watched: Array  # (n_steps, 2 + m + k), written: what is reported of each step


def no_past(dtype: DTypeLike) -> Past:
    """Return empty arrays, where no function before is needed."""
    none = np.empty((0, 0))
    return Past(none, none.astype(dtype), none, np.zeros(2, np.int64))


def new_tracked(n_inner: int, n_scalars: int) -> Tracked:
    """Return arrays to be filled in."""
    m, k = n_inner, n_scalars
    return Tracked(
        np.zeros(2, np.int64), np.zeros(m), np.zeros(m), np.zeros(k), np.zeros(k), np.zeros(2)
    )


def new_weighed(n: int, n_inner: int, n_scalars: int) -> Weighed:
    """Return arrays to be filled in."""
    return Weighed(
        np.empty(n),
        np.empty(n),
        np.empty((n, n_inner)),
        np.empty((n, n_scalars)),
        np.empty(n, np.bool_),
    )


@jit()
def copy_numbers(target: Floats, source: Floats) -> None:
    """``target[: source.size] = source``."""
    for i in range(source.size):
        target[i] = source[i]


# -- the risk of rows ------------------------------------------------------------------------------


@jit(nogil=True)
def outer_of_rows(
    risk: CompiledRisk,
    losses: Array,
    inner: Array,
    scalars: Array,
    unit: float,
    weighed: Weighed,
    steps: Array,
) -> None:
    """Write the outer function of some rows, and the step sizes of the scalars.

    Parameters
    ----------
    risk : CompiledRisk
        The risk.
    losses : ndarray of shape (n,)
        Loss of each row.
    inner, scalars : ndarray of shape (m,) and (k,)
        Present g and v.
    unit : float
        Scale of the loss.
    weighed : Weighed
        Written.
    steps : ndarray of shape (k,)
        Written.
    """
    # One array for what a row writes, and the scale of the loss that it reads.
    room = np.empty(4 + inner.size + 2 * scalars.size)
    out = room[1:]
    for i in range(losses.size):
        weighed.value[i], weighed.by_loss[i], weighed.clamped[i] = 0.0, 0.0, False
        first_g = first_v = first_number = 0
        for term in range(risk.addresses.size):
            n_inner, n_scalars = risk.sizes[term, 0], risk.sizes[term, 1]
            room[0] = unit if np.isnan(risk.units[term]) else risk.units[term]
            # What is beyond the end of an array is not read.
            call_pointer(
                risk.addresses[term],
                (
                    np.int64(losses[i:].ctypes.data),
                    np.int64(inner[first_g:].ctypes.data),
                    np.int64(scalars[first_v:].ctypes.data),
                    np.int64(room.ctypes.data),
                    np.int64(out.ctypes.data),
                    np.int64(risk.parameters[first_number:].ctypes.data),
                ),
            )
            w = risk.weights[term]
            weighed.value[i] += w * out[0]
            weighed.by_loss[i] += w * out[1]
            weighed.clamped[i] = weighed.clamped[i] or out[2] != 0.0
            for j in range(n_inner):
                weighed.by_inner[i, first_g + j] = w * out[3 + j]
            for j in range(n_scalars):
                weighed.by_scalars[i, first_v + j] = w * out[3 + n_inner + j]
                steps[first_v + j] = out[3 + n_inner + n_scalars + j] / w
            first_g += n_inner
            first_v += n_scalars
            first_number += risk.sizes[term, 2]


# -- one step --------------------------------------------------------------------------------------


@jit(error_model="numpy")
def pace_of(weights: Array, n_rows: int, usual: float, rate: float) -> Pace:
    """Return how much some rows count.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Weights of the rows.
    n_rows : int
        Rows before these.
    usual : float
        Their running mean weight.
    rate : float
        Rate of the tracker.
    """
    n = weights.size
    total = 0.0
    for i in range(n):
        total += weights[i]
    own_weight = total / n
    recent = min(1.0, max(n / (n_rows + n), n / _MEMORY))
    weight = usual + recent * (own_weight - usual)
    share = min(own_weight / weight, _MOST_WEIGHT)
    return Pace(own_weight, recent, weight, share, min(1.0, rate * share))


@jit(error_model="numpy")
def mean_of_rows(values: Array, weights: Array, first: int, stride: int, mean: Array) -> None:
    """Write the weighted mean of some rows, 0 if all weights are 0.

    Parameters
    ----------
    values : ndarray of shape (n_values, m)
        One row for each of the rows below.
    weights : ndarray of shape (n,)
        Weights of all rows.
    first, stride : int
        The rows are first, first + stride, and so on.
    mean : ndarray of shape (m,)
        Written.
    """
    total = 0.0
    for i in range(first, weights.size, stride):
        total += weights[i]
    for j in range(mean.size):
        mean[j] = 0.0
        for i in range(first, weights.size, stride):
            mean[j] += weights[i] * values[(i - first) // stride, j]
        mean[j] /= total if total != 0.0 else 1.0


@jit(error_model="numpy")
def track(
    now: Tracked, begun: bool, h: Array, old: Array, weights: Array, pace: Pace, way: Way, g: Array
) -> None:
    """Write g after some rows: COLK, eq. (20) with momentum, else (19).

    Parameters
    ----------
    now : Tracked
        What is tracked before the rows.
    begun : bool
        Whether there were rows before.
    h : ndarray of shape (n_inner_rows, m)
        Inner values of the rows that supply the expectation: each second one if they are paired.
    old : ndarray of shape (n_inner_rows, m) or (0, m)
        Those of the function before the last step, for momentum.
    weights : ndarray of shape (n,)
        Weights of all rows.
    pace : Pace
        How much the rows count.
    way : Way
        Settings.
    g : ndarray of shape (m,)
        Written.
    """
    m = g.size
    paired = way.paired and weights.size > 1
    first, stride = (1, 2) if paired else (0, 1)
    some = False
    for i in range(first, weights.size, stride):
        some = some or weights[i] != 0.0
    if not some:
        copy_numbers(g, now.inner)
        return
    mean_of_rows(h, weights, first, stride, g)
    if begun and old.shape[0]:
        before = np.empty(m)
        mean_of_rows(old, weights, first, stride, before)
        for j in range(m):
            corrected = now.inner[j] + pace.share * (g[j] - before[j])
            g[j] = corrected - pace.rate * (now.inner[j] - before[j])
    elif begun:
        for j in range(m):
            g[j] = now.inner[j] + pace.rate * (g[j] - now.inner[j])
    # Momentum may overshoot the range of a mean.
    inside = True
    for i in range(h.shape[0]):
        for j in range(m):
            inside = inside and way.low <= h[i, j] <= way.high
    if inside:
        for j in range(m):
            g[j] = min(max(g[j], way.low), way.high)


@jit(error_model="numpy")
def _factor(squared: float, clip: float) -> float:
    """Return the factor that clips a slope of this squared norm."""
    return 1.0 if clip < 0.0 else clip / max(np.sqrt(squared), clip)


@jit(error_model="numpy")
def effect_of_rows(
    weighed: Weighed, slopes: Array, weights: Array, clip: float, stride: int, effect: Array
) -> None:
    """Write the mean of the derivatives in g over each ``stride``-th row.

    A row's effect on g is clipped with its own slope, or all others would pay for it.
    """
    n_first = (weights.size + stride - 1) // stride if effect.size else 0
    cut = np.empty((n_first, effect.size))
    for p in range(n_first):
        squared = 0.0
        for c in range(slopes.shape[1]):
            squared += (weighed.by_loss[p * stride] * slopes[p * stride, c]) ** 2
        factor = _factor(squared, clip)
        for j in range(effect.size):
            cut[p, j] = factor * weighed.by_inner[p * stride, j]
    mean_of_rows(cut, weights, 0, stride, effect)


@jit(error_model="numpy")
def weigh(
    now: Tracked,
    begun: bool,
    losses: Array,
    slopes: Array,
    weighed: Weighed,
    derivative: Array,
    weights: Array,
    pace: Pace,
    way: Way,
    scalar_steps: Array,
    start: Array,
    total: Array,
    after: Tracked,
) -> float:
    """Write the slopes of a step, and what is tracked after it.

    Parameters
    ----------
    now, begun, weights, pace, way
        As in :func:`track`.
    losses, slopes : ndarray of shape (n,) and (n, n_outputs)
        Losses of the rows and their derivatives.
    weighed : Weighed
        The risk at these losses.
    derivative : ndarray of shape (n_inner_rows, m, n_outputs)
        Derivative of the inner values in those of the function.
    scalar_steps : ndarray of shape (k,)
        Step sizes of v.
    start : ndarray of shape (k,)
        Starting values of v by these rows, for the first rows of all.
    total : ndarray of shape (n, n_outputs)
        Written: the slopes, divided by the number of rows.
    after : Tracked
        Written, but for g.

    Returns
    -------
    clipped : float
        Share of the rows whose slopes were clipped.
    """
    n, n_outputs = slopes.shape
    m, k = now.inner.size, now.scalars.size
    paired = way.paired and n > 1
    stride = 2 if paired else 1
    n_first = (n + stride - 1) // stride
    clipped = 0
    for i in range(0, n, stride):
        squared = 0.0
        for c in range(n_outputs):
            total[i, c] = weighed.by_loss[i] * slopes[i, c]
            squared += total[i, c] ** 2
        factor = _factor(squared, way.clip)
        if paired:
            if i + 1 < n:
                # The first row of a pair supplies the derivative in g, the second that of g.
                pull = min(weights[i] / pace.weight, _MOST_WEIGHT)
                theirs = 0.0
                for c in range(n_outputs):
                    total[i + 1, c] = 0.0
                    for j in range(m):
                        slope = weighed.by_inner[i, j] * pull * derivative[i // 2, j, c]
                        total[i + 1, c] += slope
                    theirs += total[i + 1, c] ** 2
                factor = _factor(max(squared, theirs), way.clip)
                for c in range(n_outputs):
                    total[i + 1, c] *= factor * (weights[i + 1] / n_first)
            for c in range(n_outputs):
                total[i, c] *= factor * (weights[i] / n_first)
        else:
            squared = 0.0
            for c in range(n_outputs):
                theirs = 0.0
                for j in range(m):
                    theirs += now.effect[j] * derivative[i, j, c]
                total[i, c] = factor * total[i, c] + theirs
                squared += total[i, c] ** 2
            again = _factor(squared, way.clip)
            factor = min(factor, again)
            for c in range(n_outputs):
                total[i, c] *= again * (weights[i] / n_first)
        clipped += factor < 1.0
    effect = after.effect
    effect_of_rows(weighed, slopes, weights, way.clip, stride, effect)
    if begun:
        for j in range(m):
            effect[j] = now.effect[j] + pace.rate * (effect[j] - now.effect[j])
    n_rows, n_steps = now.counts[0], now.counts[1]
    by_scalars = after.scalars
    if stride == 1 or k == 0:
        mean_of_rows(weighed.by_scalars, weights, 0, 1, by_scalars)
    else:
        own = np.empty((n_first, k))
        for p in range(n_first):
            copy_row(own, p, weighed.by_scalars, p * stride, k)
        mean_of_rows(own, weights, 0, stride, by_scalars)
    moves = min(n_first * pace.share, _MOST_ROWS)
    settling = _SUFFIX / (n_steps + _SUFFIX)
    for j in range(k):
        if n_rows < FIRST_ROWS:
            # The very first rows may be unusual, so start at a mean of starting values.
            after.scalars[j] = now.scalars[j] + n / (n_rows + n) * (start[j] - now.scalars[j])
        else:
            # A step on n rows moves the scalars as far as n steps on one row.
            after.scalars[j] = now.scalars[j] - moves * scalar_steps[j] * by_scalars[j]
        after.settled[j] = now.settled[j] + settling * (after.scalars[j] - now.settled[j])
    size = 0.0
    for i in range(n):
        size += abs(losses[i]) * weights[i]
    size /= n * pace.own_weight
    if size == 0.0:  # losses of rows all on the right side give no unit
        size = now.scales[0]
    after.scales[0] = now.scales[0]
    if begun:
        after.scales[0] += min(1.0, pace.recent * pace.share) * (size - now.scales[0])
    after.scales[1] = pace.weight
    after.counts[0], after.counts[1] = n_rows + n, n_steps + 1
    return float(clipped / n_first)


@jit()
def averaged_direction(eta: float, regularization: float, rate: float, mixing: Array) -> None:
    """Write how a step mixes the outputs [f, e] with its averaged direction, e = -eta d.

    e becomes (1 - rate) e, before the slopes, and f becomes (1 - eta lambda) f + e.
    """
    n = mixing.shape[0] // 2
    for b in range(2 * n):
        for c in range(2 * n):
            mixing[b, c] = 0.0
    for c in range(n):
        mixing[c, c] = 1.0 - eta * regularization
        mixing[n + c, c] = mixing[n + c, n + c] = 1.0 - rate


@jit()
def mix(dictionary: Dictionary, size: int, scale: float, mixing: Array) -> None:
    """Replace the outputs f by f @ mixing; the new coefficients have scale 1."""
    n = mixing.shape[0]
    old = np.empty(n)
    for s in range(size):
        for c in range(n):
            old[c] = scale * dictionary.weights[s, c]
        for c in range(n):
            total = 0.0
            for b in range(n):
                if mixing[b, c] != 0.0:
                    total += old[b] * mixing[b, c]
            dictionary.weights[s, c] = total


# -- the loop --------------------------------------------------------------------------------------


@jit()
def _copy_points(source: Past, target: Past) -> None:
    """Copy the points that have left, and all sizes."""
    for s in range(source.sizes[1]):
        copy_row(target.points, s, source.points, s, source.points.shape[1])
        copy_row(target.coefficients, s, source.coefficients, s, source.coefficients.shape[1])
    target.sizes[0], target.sizes[1] = source.sizes[0], source.sizes[1]


@jit()
def _remember(dictionary: Dictionary, size: int, scale: float, past: Past) -> None:
    """Keep the function before a step, and number the slots."""
    copy_numbers(past.points.ravel(), dictionary.points[:size].ravel())
    for s in range(size):
        for c in range(past.coefficients.shape[1]):
            past.coefficients[s, c] = scale * dictionary.weights[s, c]
        dictionary.origin[s] = s + 1
    past.sizes[0], past.sizes[1] = -1, size


@jit()
def _number(dictionary: Dictionary, size: int, past: Past) -> None:
    """Move coefficients back to the points that are still in the dictionary after the step."""
    n_outputs = past.coefficients.shape[1]
    went = np.ones(past.sizes[1], np.bool_)
    for s in range(size):
        origin = dictionary.origin[s]
        for c in range(n_outputs):
            past.on_slots[s, c] = past.coefficients[origin - 1, c] if origin > 0 else 0.0
        if origin > 0:
            went[origin - 1] = False
    n_went = 0
    for s in range(past.sizes[1]):
        if went[s]:
            copy_row(past.points, n_went, past.points, s, past.points.shape[1])
            copy_row(past.coefficients, n_went, past.coefficients, s, n_outputs)
            n_went += 1
    past.sizes[0], past.sizes[1] = size, n_went


@jit()
def _value_before(
    functions: Functions, past: Past, kernel_row: Floats, x: Floats, gone: Floats, values: Array
) -> None:
    """Write values of the function before the last step at a point."""
    n_on_slots, n_points = past.sizes[0], past.sizes[1]
    for c in range(values.size):
        on_slots = others = 0.0
        for s in range(n_on_slots):
            on_slots += np.float64(kernel_row[s]) * past.on_slots[s, c]
        if n_points:
            if c == 0:
                call_pointer(
                    functions.kernel,
                    (
                        np.int64(past.points.ctypes.data),
                        np.int64(x.ctypes.data),
                        np.int64(gone.ctypes.data),
                        np.int64(functions.kernel_parameters.ctypes.data),
                        np.int64(n_points),
                        np.int64(x.size),
                    ),
                )
            for s in range(n_points):
                others += np.float64(gone[s]) * past.coefficients[s, c]
        values[c] = on_slots + others


@jit()
def _copy_tracked(source: Tracked, target: Tracked) -> None:
    target.counts[0], target.counts[1] = source.counts[0], source.counts[1]
    copy_numbers(target.inner, source.inner)
    copy_numbers(target.effect, source.effect)
    copy_numbers(target.scalars, source.scalars)
    copy_numbers(target.settled, source.settled)
    copy_numbers(target.scales, source.scales)


@jit()
def run_under_risk(
    functions: Functions,
    compressor: Compressor,
    dictionary: Dictionary,
    objective: UnderRisk,
    rows: Rows,
    steps: Steps,
    limits: Limits,
    start: Progress,
    batch_size: int,
    averaging: float,
    max_work: int,
    largest_loss: float,
) -> tuple[Done, int]:
    """Learn from rows in mini-batches under a risk until all are done or Python is needed.

    Parameters
    ----------
    functions, compressor, dictionary, rows, steps, limits, start
        As in :func:`mercer.numerics.loops.run_rows`.
    objective : UnderRisk
        What is minimised.
    batch_size, averaging, max_work, largest_loss
        As there.

    Returns
    -------
    progress : tuple
        Where the loop stands now.
    reason : int
        Why it stopped, as there. After ``HALF_DONE`` the slots must still be numbered.
    """
    size, oldest, scale, n_steps, row = start
    risk, way, now, past, watched = objective
    inputs = rows.inputs
    n_rows, n_features = inputs.shape
    n_columns = limits.n_criterion
    n_outputs = n_columns if way.direction_rate < 0.0 else n_columns // 2
    capacity = dictionary.weights.shape[0]
    m, k = now.inner.size, now.scalars.size
    most = min(batch_size, n_rows)
    scores = np.empty((most, n_columns))
    active = np.empty(most, np.int64)
    moves = np.empty((most, n_columns))
    mixing = np.empty((n_columns, n_columns))
    before = np.empty((capacity, n_columns))
    gone = np.empty(past.points.shape[0], inputs.dtype)
    spare = Past(
        past.on_slots,
        np.empty(past.points.shape, inputs.dtype),
        np.empty(past.coefficients.shape),
        np.empty(2, np.int64),
    )
    scalar_steps, no_start = np.empty(k), np.zeros(k)
    after = Tracked(
        np.zeros(2, np.int64), np.zeros(m), np.zeros(m), np.zeros(k), np.zeros(k), np.zeros(2)
    )
    step = row // batch_size
    reason = FINISHED
    reads_rows = needs_rows(compressor.kind)
    # Room for a batch: of the last one, which may be shorter, the first rows.
    all_kernel_rows = np.empty((most, capacity), inputs.dtype)
    loss, slope_before, value_before = np.empty(1), np.empty(n_outputs), np.empty(n_outputs)
    room = Weighed(
        np.empty(most),
        np.empty(most),
        np.empty((most, m)),
        np.empty((most, k)),
        np.empty(most, np.bool_),
    )
    all_losses, all_slopes = np.empty(most), np.empty((most, n_outputs))
    all_total, all_h, all_old = (
        np.empty((most, n_outputs)),
        np.empty((most, m)),
        np.empty((most, m)),
    )
    all_derivatives = np.empty((most, m, n_outputs))
    while row < n_rows:
        n = min(batch_size, n_rows - row)
        if size + n > capacity:
            reason = NO_ROOM
            break
        if size * n_features > max_work:
            reason = TOO_LARGE
            break
        paired = way.paired and n > 1
        first, stride = (1, 2) if paired else (0, 1)
        n_inner_rows = n // 2 if paired else n
        weights = rows.sample_weights[row : row + n]
        losses, slopes, total = all_losses[:n], all_slopes[:n], all_total[:n]
        h, derivative = all_h[:n_inner_rows], all_derivatives[:n_inner_rows]
        old = all_old[: n_inner_rows if way.momentum else 0]
        weighed = Weighed(
            room.value[:n],
            room.by_loss[:n],
            room.by_inner[:n],
            room.by_scalars[:n],
            room.clamped[:n],
        )
        # Predict all rows of the batch, and take the losses.
        eta, ridge = steps.step_sizes[step], steps.ridges[step]
        kernel_rows = all_kernel_rows[:n]
        for i in range(n):
            target = rows.targets[row + i]
            values_of_row(
                functions, dictionary, size, scale, inputs[row + i], kernel_rows[i], scores[i]
            )
            loss_of_row(functions, target, scores[i, :n_outputs], slopes[i], loss)
            losses[i] = loss[0]
            if i < first or (i - first) % stride or m == 0:
                continue
            p = (i - first) // stride
            if way.momentum:
                x = inputs[row + i]
                _value_before(functions, past, kernel_rows[i], x, gone, value_before)
                loss_of_row(functions, target, value_before, slope_before, loss)
            for j in range(m):
                h[p, j] = losses[i]
                if way.momentum:
                    old[p, j] = loss[0]
                for c in range(n_outputs):
                    derivative[p, j, c] = slopes[i, c]
        # Weigh them.
        pace = pace_of(weights, now.counts[0], now.scales[1], way.rate)
        clipped, n_clamped = 0.0, 0
        if pace.own_weight == 0.0:  # rows without weight change nothing
            _copy_tracked(now, after)
            copy_numbers(weighed.value, losses)
            for i in range(n):
                for c in range(n_outputs):
                    total[i, c] = 0.0
        else:
            unit = now.scales[0] if np.isnan(way.unit) else way.unit
            track(now, True, h, old, weights, pace, way, after.inner)
            g = after.inner if paired and way.direction_rate < 0.0 else now.inner
            outer_of_rows(risk, losses, g, now.scalars, unit, weighed, scalar_steps)
            clipped = weigh(
                now,
                True,
                losses,
                slopes,
                weighed,
                derivative,
                weights,
                pace,
                way,
                scalar_steps,
                no_start,
                total,
                after,
            )
            for i in range(n):
                n_clamped += weighed.clamped[i]
        finite = True
        n_active = 0
        for i in range(n):
            finite = finite and weighed.value[i] <= largest_loss  # false for NaN, too
            moved = False
            for c in range(n_columns):
                move = total[i, c % n_outputs]
                if way.direction_rate >= 0.0:
                    move *= way.direction_rate
                finite = finite and np.isfinite(move)
                moves[i, c] = -eta * move
                moved = moved or moves[i, c] != 0.0
            if moved:
                active[n_active] = i
                n_active += 1
        if not finite:
            reason = DIVERGED
            break
        # Move the function.
        old_scale = scale
        for s in range(size):
            for c in range(n_columns):
                before[s, c] = dictionary.weights[s, c]
        if way.momentum:
            _copy_points(past, spare)
            _remember(dictionary, size, scale, past)
        if way.direction_rate < 0.0:
            scale = shrink(dictionary, size, n_columns, scale, 1.0 - eta * ridge)
        else:
            averaged_direction(eta, ridge, way.direction_rate, mixing)
            mix(dictionary, size, scale, mixing)
            scale = 1.0
        old_size = size
        size, oldest, error, status = join(
            functions,
            compressor,
            dictionary,
            limits,
            inputs,
            row,
            kernel_rows,
            active[:n_active],
            moves,
            1.0,
            size,
            oldest,
            scale,
            steps.tolerances[step],
            reads_rows,
        )
        if status == BREAKDOWN:
            # The caller repeats the step on another path: as if it had not begun.
            scale = old_scale
            for s in range(old_size):
                for c in range(n_columns):
                    dictionary.weights[s, c] = before[s, c]
            if way.momentum:
                _copy_points(spare, past)
            reason = BROKEN_DOWN
            break
        _copy_tracked(after, now)
        n_steps += 1
        for i in range(n):
            steps.losses[row + i] = weighed.value[i]
        watched[step, 0], watched[step, 1] = clipped, n_clamped / n
        for j in range(m):
            watched[step, 2 + j] = now.inner[j]
        for j in range(k):
            watched[step, 2 + m + j] = now.scalars[j]
        steps.errors[step] = error * scale
        steps.model_orders[step] = size
        step += 1
        row += n
        if status == UNFINISHED:
            reason = HALF_DONE
            break
        if way.momentum:
            _number(dictionary, size, past)
        if averaging >= 0.0:
            average(dictionary, size, n_columns, scale, (averaging + 1.0) / (n_steps + averaging))
        if compressor.kind == INVERSE and (
            worst_conditioning(dictionary, size) > compressor.conditioning_limit
        ):
            reason = ILL_CONDITIONED
            break
    return (size, oldest, scale, n_steps, row), reason
