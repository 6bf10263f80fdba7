r"""Recursive least squares on a dictionary that changes: one row in O(M²) operations.

Of a Gaussian process with covariance k, seen through noise of variance s, kept are the points and
the Cholesky factor R of the Gram matrix, K = R'R. The functions b = R'⁻¹ k(.) are an orthonormal
basis of the points' span; of a row x, g = k(x, x) - b'b is left outside. The coordinates of f have
the posterior mean u and, in units of the noise, the posterior covariance S,

    S⁻¹ = s I + B'B,      u = S B'y,      coefficients = R⁻¹ u,

with B the rows in the basis of their time. No entry of b is larger than the root of k(x, x), so
that this is as well conditioned as the data, however near to dependent the points are, and all
stays finite for s = 0, which is KRLS of Engel, Mannor and Meir. With h = S b and t = b'h a row is
learned

- as a point, which adds the coordinate sqrt(g) to b, with v = s + g + s t: S loses s h h' / v and
  gets the row -sqrt(g) h / v and the corner (1 + t) / v; u moves by (s h, sqrt(g)) / v times the
  error;
- as the combination of the points that is nearest to it, with v = 1 + t: S loses h h' / v, and u
  moves by h / v times the error.

To remove a point, its column of R is left out and plane rotations of the basis make R triangular
again; the last coordinate is then of no point any more, and to leave it out is exact for the
posterior of all others. Where rows go with their points, R is the factor of K + s I instead, and
the targets are kept. A weight of a row divides its noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.small_dense import dot
from mercer.pointers import call_pointer

Array = NDArray[np.float64]

# Which point is removed if there are too many.
NEVER, ERROR, OLDEST = range(3)

# Exponential forgetting stops at this uncertainty, in units of the noise: without informative rows
# it would grow for ever.
_MOST_SPREAD = 1e8
# Added to k(x, x) of a point, relative to it: without it, the factor of many points, each just
# outside the span of the earlier ones, is noise. Rows this close to the span do not join.
_JITTER = 1e-10
_ROUNDING = 10.0 * _JITTER
# Rows and columns that are exchanged together.
_BLOCK = 16


class Recursion(NamedTuple):
    """The state, with room for more points; the oldest is the first."""

    points: Array  # (capacity, n_features)
    diagonal: Array  # (capacity,), that of the matrix that is factorised
    precisions: Array  # (capacity,), that of its inverse, where points go by their error
    factor: Array  # (capacity, capacity), R, upper; of K + s I where rows go with their points
    spread: Array  # (capacity, capacity), S, whole; (0, 0) where rows go with their points
    values: Array  # (capacity, n_outputs + 1), u, or the targets of the rows; the last is of ones
    weights: Array  # (capacity, n_outputs), coefficients


class Rules(NamedTuple):
    """Which rows join, which points go, and what is forgotten."""

    tolerance: float  # rows that are nearer to the span of the points do not join
    max_size: int
    noise: float
    forgetting: float
    to_prior: bool
    removal: int  # one of the names above
    drops_rows: bool  # whether what a row taught goes with its point
    label_step: float


class Stream(NamedTuple):
    """Rows to learn, in order, with results for each row."""

    inputs: Array  # (n_rows, n_features)
    targets: Array  # (n_rows, n_outputs)
    sample_weights: Array  # (n_rows,), positive
    said: Array  # (n_rows, n_outputs) written: predictions before a row was learned
    variances: Array  # (n_rows,) written: of the targets by then, in units of the signal's
    errors: Array  # (n_rows,) written: RKHS norm of what the removal of a point changed
    sizes: NDArray[np.int64]  # (n_rows,) written: points after a row


@jit()
def kernel_row(address: int, parameters: Array, points: Array, size: int, x: Array) -> Array:
    """Kernels of a row with the first points."""
    row = np.empty(size)
    call_pointer(
        address,
        (
            np.int64(points.ctypes.data),
            np.int64(x.ctypes.data),
            np.int64(row.ctypes.data),
            np.int64(parameters.ctypes.data),
            np.int64(size),
            np.int64(x.size),
        ),
    )
    return row


@jit()
def _subtract(target: Array, factor: float, vector: Array) -> None:
    for j in range(target.size):
        target[j] -= factor * vector[j]


@jit()
def _forward(factor: Array, right: Array, first: int) -> Array:
    """Solve R'x = right, of which all before ``first`` is 0."""
    x, n = right.copy(), right.size
    for i in range(first, n):
        x[i] /= factor[i, i]
        _subtract(x[i + 1 :], x[i], factor[i, i + 1 : n])
    return x


@jit()
def _backward(factor: Array, right: Array) -> Array:
    """Solve R x = right."""
    x, n = right.copy(), right.size
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - dot(factor[i, i + 1 : n], x[i + 1 : n])) / factor[i, i]
    return x


@jit()
def _times(matrix: Array, vector: Array) -> Array:
    out = np.empty(vector.size)
    for i in range(vector.size):
        out[i] = dot(matrix[i, : vector.size], vector)
    return out


@jit()
def _take_product(matrix: Array, vector: Array, factor: float) -> None:
    """Subtract ``factor * vector vector'``; what is symmetric stays so to the last bit."""
    scaled = vector * np.sqrt(factor)
    for i in range(vector.size):
        _subtract(matrix[i, : vector.size], scaled[i], scaled)


@jit()
def _turn(matrix: Array, size: int, first: int, turns: Array) -> None:
    """Turn neighbouring rows, from ``first`` on."""
    for i in range(first, size - 1):
        along, across = turns[i, 0], turns[i, 1]
        for k in range(min(matrix.shape[1], size)):
            upper, lower = matrix[i, k], matrix[i + 1, k]
            matrix[i, k] = along * upper + across * lower
            matrix[i + 1, k] = along * lower - across * upper


@jit()
def _transpose(matrix: Array, size: int) -> None:
    for i0 in range(0, size, _BLOCK):
        for k0 in range(0, i0 + 1, _BLOCK):
            for i in range(i0, min(i0 + _BLOCK, size)):
                for k in range(k0, min(k0 + _BLOCK, i)):
                    matrix[i, k], matrix[k, i] = matrix[k, i], matrix[i, k]


@jit()
def _mirror(matrix: Array, size: int) -> None:
    """Take the lower triangle: exponential forgetting would blow up what is not symmetric."""
    for i0 in range(0, size, _BLOCK):
        for k0 in range(0, i0 + 1, _BLOCK):
            for i in range(i0, min(i0 + _BLOCK, size)):
                for k in range(k0, min(k0 + _BLOCK, i)):
                    matrix[k, i] = matrix[i, k]


@jit()
def _turn_out(state: Recursion, size: int, j: int) -> None:
    """Turn the basis until its last function is of no point but ``j``, and leave both out."""
    factor, turns = state.factor, np.empty((size, 2))
    for i in range(size):
        for k in range(max(i, j + 1), size):
            factor[i, k - 1] = factor[i, k]
    for i in range(j, size - 1):
        upper, lower = factor[i, i], factor[i + 1, i]
        radius = np.hypot(upper, lower)
        along, across = upper / radius, lower / radius
        turns[i, 0], turns[i, 1] = along, across
        factor[i, i], factor[i + 1, i] = radius, 0.0
        for k in range(i + 1, size - 1):
            a, b = factor[i, k], factor[i + 1, k]
            factor[i, k] = along * a + across * b
            factor[i + 1, k] = along * b - across * a
    if state.spread.size:
        _turn(state.values, size, j, turns)
        if j < size - 1:
            _turn(state.spread, size, j, turns)
            _transpose(state.spread, size)
            _turn(state.spread, size, j, turns)
            _mirror(state.spread, size)
    else:
        for i in range(j, size - 1):
            state.values[i] = state.values[i + 1]


@jit()
def _forget(state: Recursion, size: int, rules: Rules) -> None:
    """Let what is known fade."""
    spread, keep = state.spread, rules.forgetting
    factor = keep if rules.to_prior else 1.0 / keep
    if not rules.to_prior:
        largest = 0.0
        for i in range(size):
            largest = max(largest, spread[i, i])
        if largest > _MOST_SPREAD:
            return
    for i in range(size):
        for j in range(size):
            spread[i, j] *= factor
    if rules.to_prior:
        for i in range(size):
            spread[i, i] += (1.0 - keep) / rules.noise
        state.values[:size] *= np.sqrt(keep)
        state.weights[:size] *= np.sqrt(keep)


@jit()
def _join(
    state: Recursion, size: int, rules: Rules, x: Array, b: Array, diagonal: float, pivot: float
) -> None:
    """Give a row, which is ``b`` in the basis, the next slot."""
    for i in range(x.size):
        state.points[size, i] = x[i]
    state.diagonal[size] = diagonal
    for i in range(size):
        state.factor[i, size] = b[i]
    state.factor[size, size] = np.sqrt(pivot)
    if rules.removal == ERROR:
        combination = _backward(state.factor, b)
        for i in range(size):
            state.precisions[i] += combination[i] * combination[i] / pivot
        state.precisions[size] = 1.0 / pivot


@jit()
def _shed(state: Recursion, size: int, rules: Rules) -> float:
    """Remove the point that has to go; return the RKHS norm of the change of the function."""
    n_outputs = state.weights.shape[1]
    j, least = 0, np.inf
    for i in range(size if rules.removal == ERROR else 0):
        value = 0.0
        for c in range(n_outputs):
            value += (state.weights[i, c] / state.precisions[i]) ** 2
        if value < least:
            j, least = i, value
    column = np.zeros(size)
    column[j] = 1.0
    column = _backward(state.factor, _forward(state.factor, column, j))  # of the inverse
    squared = 0.0
    for c in range(n_outputs):
        own = state.weights[j, c]
        squared += own * own / column[j]
        for i in range(size):
            state.weights[i, c] -= column[i] * own / column[j]
    for i in range(size):
        without = state.precisions[i] - column[i] * column[i] / column[j]
        state.precisions[i] = max(without, 1.0 / state.diagonal[i])
    _turn_out(state, size, j)
    for i in range(j, size - 1):
        for j in range(state.points.shape[1]):
            state.points[i, j] = state.points[i + 1, j]
        state.diagonal[i] = state.diagonal[i + 1]
        state.precisions[i] = state.precisions[i + 1]
        state.weights[i] = state.weights[i + 1]
    return float(np.sqrt(squared))


@jit()
def learn_row(
    state: Recursion,
    size: int,
    rules: Rules,
    rows: Stream,
    i: int,
    row: Array,
    own: float,
) -> tuple[int, bool]:
    """Learn one row, whose kernels are known.

    Parameters
    ----------
    state : Recursion
        Changed in place; has room for one more point.
    size : int
        Points in use.
    rules : Rules
        What becomes of rows and points.
    rows : Stream
        Rows; results for this row are written to it.
    i : int
        Index of the row.
    row : ndarray of shape (size,)
        Kernels of the row with the points.
    own : float
        k(x, x) of the row.

    Returns
    -------
    size : int
        Points after it.
    joined : bool
        Whether the row became a point, so that the factor was changed.
    """
    n_outputs = rows.targets.shape[1]
    noise = rules.noise / rows.sample_weights[i]
    step = np.empty(n_outputs + 1)  # errors of the predictions, from now on
    if not rules.drops_rows and rules.forgetting < 1.0:
        _forget(state, size, rules)
    b = _forward(state.factor, row, 0)
    outside = own - dot(b, b)
    said = np.zeros(n_outputs + 1)
    for c in range(n_outputs):
        for j in range(size):
            said[c] += row[j] * state.weights[j, c]
        rows.said[i, c] = said[c]
        step[c] = rows.targets[i, c] - said[c]
    joins = True
    if rules.drops_rows:
        rows.variances[i] = outside + noise
        for j in range(size if rules.label_step > 0.0 else 0):
            for c in range(n_outputs):
                old = state.values[j, c]
                state.values[j, c] += rules.label_step * row[j] * (rows.targets[i, c] - old)
        _join(state, size, rules, rows.inputs[i], b, own + noise, outside + noise)
        for c in range(n_outputs):
            state.values[size, c] = rows.targets[i, c]
        state.values[size, n_outputs] = 1.0
        size += 1
    else:
        for j in range(size):
            said[n_outputs] += b[j] * state.values[j, n_outputs]
        step[n_outputs] = 1.0 - said[n_outputs]
        own *= 1.0 + _JITTER
        outside += _JITTER * own
        h = _times(state.spread, b)
        inside = dot(b, h)
        share = 1.0 / rows.sample_weights[i] + inside
        rows.variances[i] = max(outside, 0.0) + rules.noise * share
        joins = outside > max(rules.tolerance, _ROUNDING) * own and (
            size < rules.max_size or rules.removal != NEVER
        )
        if joins:
            total, new = outside + rules.noise * share, np.sqrt(outside)
            _take_product(state.spread, h, rules.noise / total)
            state.spread[size, :size] = -new / total * h
            state.spread[:size, size] = state.spread[size, :size]
            state.spread[size, size] = share / total
            for c in range(n_outputs + 1):
                for j in range(size):
                    state.values[j, c] += rules.noise * h[j] / total * step[c]
                state.values[size, c] = new / total * step[c]
            _join(state, size, rules, rows.inputs[i], b, own, outside)
            size += 1
        else:
            _take_product(state.spread, h, 1.0 / share)
            for c in range(n_outputs + 1):
                for j in range(size):
                    state.values[j, c] += h[j] / share * step[c]
    for c in range(n_outputs):
        values = state.values[:size, c].copy()
        if rules.drops_rows:
            values = _forward(state.factor, values, 0)
        state.weights[:size, c] = _backward(state.factor, values)
    rows.errors[i] = 0.0
    if size > rules.max_size:
        rows.errors[i] = _shed(state, size, rules)
        size -= 1
    rows.sizes[i] = size
    return size, joins


@jit()
def learn_rows(
    address: int,
    parameters: Array,
    state: Recursion,
    size: int,
    rules: Rules,
    rows: Stream,
    first: int,
    n_changes: int,
) -> tuple[int, int, int]:
    """Learn rows until all are learned, there is no room, or the factor has changed often enough.

    Parameters
    ----------
    address, parameters
        Address and parameters of the compiled kernel.
    state, size, rules, rows
        As for :func:`learn_row`.
    first : int
        Row to begin with.
    n_changes : int
        Rows that may become points.

    Returns
    -------
    size : int
        Points after them.
    row : int
        The next row to learn.
    n_changes : int
        Rows that may still become points.
    """
    n_rows = rows.inputs.shape[0]
    i = first
    while i < n_rows and size < state.points.shape[0] and n_changes > 0:
        x = rows.inputs[i]
        row = kernel_row(address, parameters, state.points, size, x)
        own = kernel_row(address, parameters, rows.inputs[i : i + 1], 1, x)[0]
        size, joined = learn_row(state, size, rules, rows, i, row, own)
        n_changes -= joined
        i += 1
    return size, i, n_changes
