"""The learner's loop compiled, for small models and streams of single rows.

It does what mercer.learning.loop does in Python, step for step: predict, take the slopes, shrink,
add, compress. It stops early, with a reason, when Python has to do something: grow an array,
change to a safer path, or take over because the model outgrew plain loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.komp import BREAKDOWN, UNFINISHED
from mercer.numerics.state import Dictionary, Limits, Newcomers, copy_row
from mercer.numerics.step import INVERSE, Compressor, call_compress, needs_rows, worst_conditioning
from mercer.pointers import call_pointer

Array = NDArray[np.float64]

FINISHED, NO_ROOM, TOO_LARGE, DIVERGED, ILL_CONDITIONED, BROKEN_DOWN, HALF_DONE = range(7)

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
def run_rows(
    functions: Functions,
    compressor: Compressor,
    dictionary: Dictionary,
    rows: Rows,
    steps: Steps,
    limits: Limits,
    start: Progress,
    regularization: float,
    batch_size: int,
    averaging: float,
    max_work: int,
    largest_loss: float,
) -> tuple[Progress, int]:
    """Learn from rows in mini-batches until all are done or Python is needed.

    Parameters
    ----------
    functions, compressor, dictionary, rows, steps, limits
        See the tuples; ``compressor`` comes from :func:`mercer.numerics.step.with_code`.
        ``limits.squared_tolerance`` is replaced by each step's own tolerance.
    start : Progress
        Where to begin; ``rows_done`` is the index of the first row.
    regularization : float
        Ridge parameter lambda.
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
    progress : Progress
        Where the loop stands now. The step in question is not done when the reason is
        ``NO_ROOM``, ``TOO_LARGE``, ``DIVERGED`` or ``BROKEN_DOWN``; after ``HALF_DONE`` its
        newcomers have joined, but the compression has to be finished on a safer path.
    reason : int
        Why it stopped.
    """
    size, oldest, scale, n_steps, row = start
    inputs = rows.inputs
    n_rows, n_features = inputs.shape
    n_columns = dictionary.weights.shape[1]
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
            call_pointer(
                functions.kernel,
                (
                    np.int64(dictionary.points.ctypes.data),
                    np.int64(inputs[row + i].ctypes.data),
                    np.int64(kernel_rows[i].ctypes.data),
                    np.int64(functions.kernel_parameters.ctypes.data),
                    np.int64(size),
                    np.int64(n_features),
                ),
            )
            for c in range(n_outputs):
                scores[i, c] = 0.0
            for j in range(size):
                k = np.float64(kernel_rows[i, j])
                for c in range(n_outputs):
                    scores[i, c] += k * dictionary.weights[j, c]
            for c in range(n_outputs):
                scores[i, c] *= scale
            call_pointer(
                functions.loss,
                (
                    np.int64(rows.targets[row + i].ctypes.data),
                    np.int64(scores[i].ctypes.data),
                    np.int64(slopes[i].ctypes.data),
                    np.int64(value.ctypes.data),
                    np.int64(functions.loss_parameters.ctypes.data),
                    np.int64(n_outputs),
                ),
            )
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
        # Shrink the function; the rows that have a slope are the newcomers.
        factor = 1.0 - eta * regularization
        scale = shrink(dictionary, size, n_outputs, scale, factor)
        coefficients = np.zeros((n_active, n_columns))
        new_points = np.empty((n_active, n_features), inputs.dtype)
        new_rows = np.empty((n_active, size if reads_rows else 0), inputs.dtype)
        new_gram = np.zeros((n_active, n_active), inputs.dtype)
        for p in range(n_active):
            i = active[p]
            copy_row(new_points, p, inputs, row + i, n_features)
            for c in range(n_outputs):
                coefficients[p, c] = -eta / n * slopes[i, c] / scale
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
        # Add them, and keep the function small.
        new = Newcomers(new_points, new_rows, new_gram, coefficients, np.zeros(n_active, np.bool_))
        squared = squared_tolerance(steps.tolerances[step], scale)
        reach = Limits(squared, limits.max_size, limits.threshold, limits.rule, n_outputs)
        size, oldest, error, status = call_compress(
            compressor.code,
            (functions.blas, compressor, dictionary, size, oldest, new, reach),
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
    return Progress(size, oldest, scale, n_steps, row), reason


@jit()
def run_one_row(  # type: ignore[no-untyped-def]
    functions, compressor, dictionary, rows, steps, limits, start, regularization, averaging, most
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
    progress, reason = run_rows(
        Functions(*functions),
        Compressor(*compressor),
        Dictionary(*dictionary),
        Rows(*rows),
        Steps(*steps),
        Limits(*limits),
        Progress(*start),
        regularization,
        1,
        averaging,
        1 << 62,
        most,
    )
    return progress.size, progress.oldest, progress.scale, progress.n_steps, reason


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
