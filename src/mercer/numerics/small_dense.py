"""Cholesky factors and triangular solves for matrices of a few dozen rows, in compiled code.

A LAPACK call costs more than the work at this size, and the solves act on rows in place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit

Array = NDArray[np.float64]
Floats = NDArray[np.floating]


@jit(fastmath={"reassoc", "contract"})
def dot(a: Floats, b: Floats) -> float:
    """Inner product summed in float64 (the order of summation is the compiler's)."""
    total = 0.0
    for i in range(a.size):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@jit()
def cholesky(matrix: Array) -> tuple[Array, bool]:
    """Lower Cholesky factor of a small matrix, and whether it is positive definite."""
    n = matrix.shape[0]
    factor = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = total / factor[j, j]
            elif total > 0.0:
                factor[i, i] = np.sqrt(total)
            else:
                return factor, False
    return factor, True


@jit()
def lower_solve(factor: Array, rows: Floats) -> None:
    """Overwrite ``rows`` with ``factor**-1 @ rows``, ``factor`` being lower triangular."""
    n, width = rows.shape
    for i in range(n):
        for k in range(i):
            c = factor[i, k]
            if c != 0.0:
                for j in range(width):
                    rows[i, j] -= c * rows[k, j]
        inverse = 1.0 / factor[i, i]
        for j in range(width):
            rows[i, j] *= inverse


@jit()
def lower_transpose_solve(factor: Array, rows: Floats) -> None:
    """Overwrite ``rows`` with ``factor.T**-1 @ rows``, ``factor`` being lower triangular."""
    n, width = rows.shape
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            c = factor[k, i]
            if c != 0.0:
                for j in range(width):
                    rows[i, j] -= c * rows[k, j]
        inverse = 1.0 / factor[i, i]
        for j in range(width):
            rows[i, j] *= inverse
