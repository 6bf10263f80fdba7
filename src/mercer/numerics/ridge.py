"""Covariances of features and ridge systems in them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

__all__ = ["covariance_of", "solve_ridge"]

Array = NDArray[np.float64]


def covariance_of(Z: NDArray[np.floating], weights: Array | None = None) -> Array:
    """Return Z' W Z / n in double precision, its lower triangle.

    The product is made in the precision of the features, which is twice as fast in single: its
    rounding, about 1e-7 of the largest eigenvalue, is below the ridges in use.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features, float32 or float64, C-ordered.
    weights : ndarray of shape (n,), default=None
        Weights of the rows; None means 1.
    """
    scaled = Z if weights is None else Z * np.sqrt(weights).astype(Z.dtype)[:, np.newaxis]
    product = blas.ssyrk if Z.dtype == np.float32 else blas.dsyrk
    # Fortran order without a copy: the transpose of a C-ordered array.
    covariance: Array = product(1.0 / len(Z), scaled.T, lower=1).astype(np.float64, copy=False)
    return covariance


def solve_ridge(covariance: Array, ridge: float, right: Array) -> Array:
    """Solve (covariance + ridge I) x = right, with more ridge if rounding needs it.

    Parameters
    ----------
    covariance : ndarray of shape (m, m)
        Only its lower triangle is read.
    ridge : float
        Added to the diagonal.
    right : ndarray of shape (m, k)
        Right sides.

    Returns
    -------
    solution : ndarray of shape (m, k)
        NaN if the covariance is not finite.
    """
    diagonal = np.einsum("ii->i", covariance)
    jitter = np.finfo(np.float64).eps * float(diagonal.sum())
    while True:
        matrix = covariance.copy(order="F")
        np.einsum("ii->i", matrix)[:] += ridge
        _, solution, info = lapack.dposv(matrix, right, lower=1, overwrite_a=1)
        if info == 0:
            result: Array = solution
            return result
        ridge = max(10.0 * ridge, jitter)
        if not np.isfinite(ridge):
            return np.full_like(right, np.nan)
