r"""KOMP on a triangular square root of the inverse Gram matrix, for ill-conditioned dictionaries.

The state is :math:`T = L^{-1}`, with L the Cholesky factor of the Gram matrix, so that :math:`P =
T^T T`. Its rounding errors grow with cond(K), those of an explicit inverse with cond(K)². Adding or
removing a point costs O(M²) in plain loops, so this is a fall-back.

A point is added by :math:`l = T k`, :math:`\pi = k(x,x) - \|l\|^2` (the squared distance to the
span) and the new row :math:`[-l^T T, 1] / \sqrt{\pi}`. It is removed by plane rotations that push
the mass of its column into the last row, which is then dropped: what remains is triangular again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.small_dense import dot
from mercer.numerics.state import SMALLEST, Dictionary, Limits, Newcomers, move, put

Array = NDArray[np.float64]
Floats = NDArray[np.floating]

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
def _remove(j: int, size: int, dictionary: Dictionary) -> None:
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
        As in :func:`mercer.numerics.komp.komp_step`.

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
        _remove(best, size, dictionary)
        size -= 1
        squared_error += cost
    return size, squared_error
