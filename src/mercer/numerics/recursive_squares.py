r"""Recursive least squares on a dictionary that changes: one row in O(M²) operations.

Of a Gaussian process with covariance k, seen through noise of variance s, kept are the points, the
triangular root T of the inverse Gram matrix, K⁻¹ = Q = T'T (its rounding errors grow with the
condition of K, those of Q with the square of that) and, at the points, the posterior mean m and the
posterior covariance in units of the noise, P. In these units

    P⁻¹ = s K⁻¹ + A'A,      m = P A'y,      coefficients = Q m,

with A the rows seen as combinations of the points; all stays finite for s = 0, which is KRLS of
Engel, Mannor and Meir. A row x with q = Q k(x), h = P q, t = q'h, and g = k(x, x) - k(x)'q outside
the span of the points:

- as a point of its own, v = s + g + s t: P loses s h h' / v and gets the row h s / v and the corner
  (g + s t) / v; m moves by (s h, g + s t) / v times the error, its new entry from the prediction;
- as a combination of the points, v = 1 + t: P loses h h' / v, and m moves by h / v times the error.

To remove a point is to leave out its entries of m and P, which is exact, and to turn T until the
column of the point is 0 but for the last row (Givens rotations). Where rows go with their points,
only the root of (K + s I)⁻¹ and the targets are kept. A weight of a row divides its noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer._pointers import call_pointer
from mercer.numerics.blas import rank_update, symmetric_product
from mercer.numerics.small_dense import dot

__all__ = [
    "ERROR", "NEVER", "OLDEST",
    "Recursion", "Rules", "Stream",
    "kernel_row", "learn_row", "learn_rows",
]  # fmt: skip

Array = NDArray[np.float64]

# Which point goes where there are too many.
NEVER, ERROR, OLDEST = range(3)

# Exponential forgetting stops where the uncertainty, in units of the noise, is so large: without
# rows that tell more it would grow for ever.
_MOST_SPREAD = 1e8
# Squared distances to the span below this, in units of k(x, x), are rounding.
_ROUNDING = 1e-10


class Recursion(NamedTuple):
    """The state, with room for more points; the oldest is the first."""

    points: Array  # (capacity, n_features)
    diagonal: Array  # (capacity,), that of the matrix whose inverse is kept
    root: Array  # (capacity, capacity), T, lower; of K + s I where rows go with their points
    spread: Array  # (capacity, capacity), P, lower; (0, 0) where rows go with their points
    gram: Array  # (capacity, capacity), K, lower, where rows fade to the prior, else (0, 0)
    values: Array  # (capacity, n_outputs + 1), m, or the targets of the rows; the last is of ones
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
    """Rows to learn, in order, and what is told of them."""

    inputs: Array  # (n_rows, n_features)
    targets: Array  # (n_rows, n_outputs)
    sample_weights: Array  # (n_rows,), positive
    said: Array  # (n_rows, n_outputs) written: predictions before a row was learned
    variances: Array  # (n_rows,) written: of the targets by then, in units of the signal's
    errors: Array  # (n_rows,) written: RKHS norm of what the removal of a point changed
    sizes: NDArray[np.int64]  # (n_rows,) written: points after a row


@njit(cache=True)
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


@njit(cache=True)
def _product(blas: tuple[int, int], matrix: Array, vector: Array) -> Array:
    out = np.empty((1, vector.size))
    symmetric_product(blas, vector.reshape(1, vector.size), matrix, out)
    product: Array = out[0]
    return product


@njit(cache=True)
def _add_product(blas: tuple[int, int], sign: float, vector: Array, matrix: Array) -> None:
    """Add ``sign * vector vector'``."""
    rank_update(blas, sign, vector.reshape(1, vector.size), matrix)


@njit(cache=True)
def _root_times(root: Array, vector: Array) -> Array:
    out = np.empty(vector.size)
    for i in range(vector.size):
        out[i] = dot(root[i, : i + 1], vector[: i + 1])
    return out


@njit(cache=True)
def _transpose_times(root: Array, vector: Array) -> Array:
    out = np.zeros(vector.size)
    for i in range(vector.size):
        own = vector[i]
        for j in range(i + 1):
            out[j] += own * root[i, j]
    return out


@njit(cache=True)
def _inverse_diagonal(root: Array, size: int) -> Array:
    diagonal = np.zeros(size)
    for i in range(size):
        for j in range(i + 1):
            diagonal[j] += root[i, j] * root[i, j]
    return diagonal


@njit(cache=True)
def _leave_out(matrix: Array, size: int, j: int) -> None:
    """Close the gap of a row and column of a lower triangle."""
    for i in range(j + 1, size):
        for k in range(j):
            matrix[i - 1, k] = matrix[i, k]
        for k in range(j, i):
            matrix[i - 1, k] = matrix[i, k + 1]


@njit(cache=True)
def _turn_out(root: Array, size: int, j: int) -> None:
    """Root of the inverse without a point, by plane rotations."""
    for i in range(j, size - 1):
        upper, lower = root[i, j], root[i + 1, j]
        radius = np.hypot(upper, lower)
        cosine, sine = (lower / radius, upper / radius) if radius > 0.0 else (1.0, 0.0)
        root[i, i + 1] = 0.0
        # Row i without the column goes to its place; its last entry is positive up to the sign.
        for k in range(i + 2):
            a, b = root[i, k], root[i + 1, k]
            root[i, k] = cosine * a - sine * b
            root[i + 1, k] = sine * a + cosine * b
    for i in range(j, size - 1):
        sign = -1.0 if root[i, i + 1] < 0.0 else 1.0
        for k in range(j):
            root[i, k] *= sign
        for k in range(j, i + 1):
            root[i, k] = sign * root[i, k + 1]


@njit(cache=True)
def _forget(state: Recursion, size: int, rules: Rules) -> None:
    """Let what is known fade."""
    spread, keep = state.spread, rules.forgetting
    if rules.to_prior:
        prior = (1.0 - keep) / rules.noise
        for i in range(size):
            for j in range(i + 1):
                spread[i, j] = keep * spread[i, j] + prior * state.gram[i, j]
        state.values[:size] *= np.sqrt(keep)
        return
    largest = 0.0
    for i in range(size):
        largest = max(largest, spread[i, i])
    if largest < _MOST_SPREAD:
        for i in range(size):
            for j in range(i + 1):
                spread[i, j] /= keep


@njit(cache=True)
def _join(
    state: Recursion, size: int, x: Array, row: Array, q: Array, diagonal: float, pivot: float
) -> None:
    """Give a row the next slot, ``q`` being the inverse times its kernels."""
    state.points[size] = x
    state.diagonal[size] = diagonal
    scale = np.sqrt(pivot)
    state.root[size, :size] = -q / scale
    state.root[size, size] = 1.0 / scale
    if state.gram.size:
        state.gram[size, :size] = row
        state.gram[size, size] = diagonal


@njit(cache=True)
def _shed(state: Recursion, size: int, rules: Rules) -> float:
    """Remove the point that has to go; return the RKHS norm of the change of the function."""
    diagonal = _inverse_diagonal(state.root, size)
    n_outputs = state.weights.shape[1]
    j, least = 0, np.inf
    for i in range(size if rules.removal == ERROR else 0):
        value = 0.0
        for c in range(n_outputs):
            value += (state.weights[i, c] / diagonal[i]) ** 2
        if value < least:
            j, least = i, value
    column = np.zeros(size)
    column[j:] = state.root[j:size, j]
    column = _transpose_times(state.root, column)  # of the inverse
    squared = 0.0
    for c in range(n_outputs):
        own = state.weights[j, c]
        squared += own * own / diagonal[j]
        for i in range(size):
            state.weights[i, c] -= column[i] * own / diagonal[j]
    _turn_out(state.root, size, j)
    if state.spread.size:
        _leave_out(state.spread, size, j)
    if state.gram.size:
        _leave_out(state.gram, size, j)
    for i in range(j, size - 1):
        state.points[i] = state.points[i + 1]
        state.diagonal[i] = state.diagonal[i + 1]
        state.values[i] = state.values[i + 1]
        state.weights[i] = state.weights[i + 1]
    return float(np.sqrt(squared))


@njit(cache=True)
def learn_row(
    blas: tuple[int, int],
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
    blas : tuple of int
        From :func:`mercer.numerics.blas.blas_addresses`, for float64.
    state : Recursion
        Changed in place; has room for one more point.
    size : int
        Points in use.
    rules : Rules
        What becomes of rows and points.
    rows : Stream
        Rows; what is told of this one is written.
    i : int
        Which of them.
    row : ndarray of shape (size,)
        Its kernels with the points.
    own : float
        Its k(x, x).

    Returns
    -------
    size : int
        Points after it.
    joined : bool
        Whether the row became a point, so that the root was changed.
    """
    n_outputs = rows.targets.shape[1]
    noise = rules.noise / rows.sample_weights[i]
    step = np.empty(n_outputs + 1)  # errors of the predictions, from now on
    if not rules.drops_rows and rules.forgetting < 1.0:
        _forget(state, size, rules)
        if rules.to_prior:
            state.weights[:size] *= np.sqrt(rules.forgetting)
    q = _root_times(state.root, row)
    outside = own - dot(q, q)
    q = _transpose_times(state.root, q)
    said = np.zeros(n_outputs + 1)
    for c in range(n_outputs):
        for j in range(size):
            said[c] += row[j] * state.weights[j, c]
        rows.said[i, c] = said[c]
        step[c] = rows.targets[i, c] - said[c]
    for j in range(size):
        said[n_outputs] += q[j] * state.values[j, n_outputs]
    step[n_outputs] = 1.0 - said[n_outputs]
    joins = True
    if rules.drops_rows:
        rows.variances[i] = outside + noise
        for j in range(size if rules.label_step > 0.0 else 0):
            for c in range(n_outputs):
                old = state.values[j, c]
                state.values[j, c] += rules.label_step * row[j] * (rows.targets[i, c] - old)
        _join(state, size, rows.inputs[i], row, q, own + noise, outside + noise)
        for c in range(n_outputs):
            state.values[size, c] = rows.targets[i, c]
        state.values[size, n_outputs] = 1.0
        size += 1
    else:
        h = _product(blas, state.spread, q)
        inside = rules.noise * dot(q, h)  # variance of the prediction at the points' best guess
        rows.variances[i] = max(outside, 0.0) + inside + noise
        joins = outside > max(rules.tolerance, _ROUNDING) * own and (
            size < rules.max_size or rules.removal != NEVER
        )
        if joins:
            total = noise + outside + inside
            _add_product(blas, -1.0, h * np.sqrt(rules.noise / total), state.spread)
            state.spread[size, :size] = h * (noise / total)
            state.spread[size, size] = (outside + inside) / total / rows.sample_weights[i]
            for c in range(n_outputs + 1):
                for j in range(size):
                    state.values[j, c] += rules.noise * h[j] / total * step[c]
                state.values[size, c] = said[c] + (outside + inside) / total * step[c]
            _join(state, size, rows.inputs[i], row, q, own, outside)
            size += 1
        else:
            total = 1.0 / rows.sample_weights[i] + dot(q, h)
            _add_product(blas, -1.0, h / np.sqrt(total), state.spread)
            for c in range(n_outputs + 1):
                for j in range(size):
                    state.values[j, c] += h[j] / total * step[c]
    for c in range(n_outputs):
        values = state.values[:size, c].copy()
        state.weights[:size, c] = _transpose_times(state.root, _root_times(state.root, values))
    rows.errors[i] = 0.0
    if size > rules.max_size:
        rows.errors[i] = _shed(state, size, rules)
        size -= 1
    rows.sizes[i] = size
    return size, joins


@njit(cache=True)
def learn_rows(
    address: int,
    parameters: Array,
    blas: tuple[int, int],
    state: Recursion,
    size: int,
    rules: Rules,
    rows: Stream,
    first: int,
    n_changes: int,
) -> tuple[int, int, int]:
    """Learn rows until all are learned, there is no room, or the root has changed often enough.

    Parameters
    ----------
    address, parameters
        Of the compiled kernel.
    blas, state, size, rules, rows
        As of :func:`learn_row`.
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
        size, joined = learn_row(blas, state, size, rules, rows, i, row, own)
        n_changes -= joined
        i += 1
    return size, i, n_changes
