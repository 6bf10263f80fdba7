"""Leading eigenvectors of symmetric matrices, with a sign of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

__all__ = ["axes_of_rows", "leading_axes"]

Array = NDArray[np.float64]

# Beyond this size, and for fewer axes than this share of it, Lanczos iterations are faster than
# reducing the whole matrix.
_LARGE = 1000
_FEW = 0.1


def leading_axes(matrix: Array, n_axes: int) -> tuple[Array, Array]:
    """Largest eigenvalues of a positive semi-definite matrix, and their eigenvectors.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    n_axes : int
        Number of eigenvectors, from 1 to n.

    Returns
    -------
    values : ndarray of shape (n_axes,)
        Eigenvalues, the largest first, at least 0.
    axes : ndarray of shape (n, n_axes)
        Orthonormal columns. The largest number of each by size is positive; among numbers that are
        equal up to rounding, the first.

    Examples
    --------
    >>> values, axes = leading_axes(np.array([[1.0, -1.0], [-1.0, 1.0]]), 1)
    >>> values.round(6), axes.round(3).T
    (array([2.]), array([[ 0.707, -0.707]]))
    """
    n = len(matrix)
    found = _by_lanczos(matrix, n_axes) if n > _LARGE and n_axes <= _FEW * n else None
    if found is None:
        found = linalg.eigh(matrix, subset_by_index=(n - n_axes, n - 1))
    values, axes = found
    order = np.argsort(values)[::-1]
    return np.maximum(values[order], 0.0), _with_signs(axes[:, order])


def axes_of_rows(rows: Array, n_axes: int) -> tuple[Array, Array]:
    """Return ``leading_axes(rows.T @ rows, n_axes)`` of fewer rows than columns.

    Axes of eigenvalues that are 0 up to rounding are arbitrary.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Rows.
    n_axes : int
        Number of eigenvectors, from 1 to n_rows.

    Examples
    --------
    >>> values, axes = axes_of_rows(np.array([[3.0, 4.0, 0.0]]), 1)
    >>> values, axes.round(3).T
    (array([25.]), array([[0.6, 0.8, 0. ]]))
    """
    values, combinations = leading_axes(rows @ rows.T, n_axes)
    axes = rows.T @ combinations
    lengths = np.linalg.norm(axes, axis=0)
    # Of small eigenvalues products of rows know the directions up to parts of larger ones.
    axes = linalg.qr(axes / np.where(lengths > 0.0, lengths, 1.0), mode="economic")[0]
    return values, _with_signs(axes)


def _by_lanczos(matrix: Array, n_axes: int) -> tuple[Array, Array] | None:
    """Eigenvalues and eigenvectors, or None if the iterations do not converge."""
    # A fixed start makes the result a function of the matrix alone; random, because a regular one
    # may be orthogonal to an eigenvector.
    start = np.random.default_rng(0).standard_normal(len(matrix))
    try:
        values, axes = eigsh(matrix, n_axes, which="LA", v0=start)
    except ArpackNoConvergence:
        return None
    return values, axes


def _with_signs(axes: Array) -> Array:
    size = np.abs(axes)
    first = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    return np.asarray(axes * np.sign(axes[first, np.arange(axes.shape[1])]))
