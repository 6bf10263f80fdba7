"""Matrices of sums over rows, and their factors with as much jitter as rounding asks for.

A sum of products is positive semi-definite but for its rounding errors. Every factorisation tries
one jitter after the other and takes the first with which the matrix is positive definite; they
differ in where the jitters begin and in what is said when none is enough.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lu_factor, lu_solve

from mercer.exceptions import ConditioningWarning
from mercer.numerics.lapack import cholesky, solve, solve_triangle
from mercer.records import Record, Recorded, Triangle
from mercer.threads import in_order, tiles
from mercer.validation import real

Array = NDArray[np.float64]

#: Of the mean of the diagonal, a power of ten: for sums of products in float64. Each attempt is
#: with ten times the last.
LEAST_JITTER = 1e-11
_ATTEMPTS = 11
_EPS = float(np.finfo(np.float64).eps)


def _first_factor(
    matrix: Callable[[float], Array], jitters: Iterable[float]
) -> tuple[Array, float] | None:
    """Lower Cholesky factor of the first positive definite matrix, and its jitter.

    Parameters
    ----------
    matrix : callable
        Jitter to a matrix in Fortran order, which is overwritten; its lower triangle is read.
    jitters : iterable of float
        Jitters to try, in rising order.
    """
    for jitter in jitters:
        lower = matrix(jitter)
        if cholesky(lower):
            return lower, jitter
    return None


@dataclass(frozen=True)
class RidgeFactor(Recorded):
    """Cholesky factor of a ridge regression's matrix.

    Attributes
    ----------
    lower : ndarray of shape (n_features, n_features)
        Lower factor, in Fortran order; above the diagonal is anything.
    jitter : float
        What was added to the diagonal.
    least_jitter : float
        Smallest jitter, relative to the mean of the diagonal of the sums.
    """

    lower: Array
    jitter: float
    least_jitter: float

    _record = Record(
        lower=Triangle("n_features"), jitter=real(low=0.0), least_jitter=real(low=0.0)
    ).where(
        "the factor of a ridge regression has a diagonal that is not above 0",
        lambda it: (np.diag(it["lower"]) > 0.0).all(),
    )

    def solve(self, right: Array) -> Array:
        """Solution for right-hand sides of shape (n_features, n_columns)."""
        return solve(self.lower, right)

    def whiten(self, columns: Array, *, transposed: bool = False) -> Array:
        """L⁻¹ (or L'⁻¹) times columns, (n_features, n_columns): squares add up to leverages."""
        return solve_triangle(self.lower, columns, transposed=transposed)


def factor_ridge(
    moments: Array,
    ridge: float,
    penalty: Array | None = None,
    least_jitter: float = LEAST_JITTER,
) -> RidgeFactor:
    """Factor moments + ridge * penalty + jitter * I.

    Parameters
    ----------
    moments : ndarray of shape (n_features, n_features)
        Symmetric and positive semi-definite up to rounding; the lower triangle is read.
    ridge : float
        Ridge parameter, at least 0.
    penalty : ndarray of shape (n_features, n_features), default=None
        Symmetric, in C order; None for the identity.
    least_jitter : float, default=1e-11
        The first one that is tried, a power of ten, in means of the diagonal of
        moments + ridge * penalty; as it is where that is 0, so that no rows and no ridge have a
        factor, too.

    Raises
    ------
    ValueError
        If no jitter makes the matrix positive definite.
    """
    n = max(len(moments), 1)
    penalized = 1.0 if penalty is None else float(np.trace(penalty)) / n
    size = float(np.trace(moments)) / n + ridge * penalized or 1.0

    def matrix(relative: float) -> Array:
        whole = np.empty(moments.shape, order="F")

        def fill(columns: slice) -> None:
            below = slice(columns.start, None), columns
            if penalty is None:
                whole[below] = moments[below]
            else:
                # Symmetric, so the transpose only declares Fortran order.
                np.multiply(penalty.T[below], ridge, out=whole[below])
                whole[below] += moments[below]

        in_order(fill, tiles(len(whole)))
        jitter = size * relative
        whole.ravel("K")[:: len(whole) + 1] += jitter + (ridge if penalty is None else 0.0)
        return whole

    # The same values wherever the attempts began.
    first = round(math.log10(least_jitter))
    found = _first_factor(matrix, (10.0 ** (first + attempt) for attempt in range(_ATTEMPTS)))
    if found is None:
        raise ValueError(
            f"The sums over the rows are no Gram matrix even with jitter (mean of the diagonal "
            f"{size:.3g}): the features have values that are not finite or out of all proportion. "
            "Rescale the inputs, for example with sklearn.preprocessing.StandardScaler."
        )
    lower, relative = found
    return RidgeFactor(lower, size * relative, relative)


def factor_noise(gram: Callable[[], Array], noise: float, n_rows: int) -> tuple[Array, float]:
    """Lower Cholesky factor of Z'WZ + noise I, and the noise: more only where rounding needs it.

    Parameters
    ----------
    gram : callable
        Recomputes Z'WZ, (n_features, n_features): in Fortran order, with its lower triangle, and
        zeros where the factor has zeros.
    noise : float
        Variance of the noise.
    n_rows : int
        Rows that were added up.

    Raises
    ------
    ValueError
        If no jitter makes the matrix positive definite.
    """

    def matrix(jitter: float) -> Array:
        whole = gram()
        np.einsum("ii->i", whole)[:] += noise + jitter
        return whole

    def rounding() -> float:
        return _EPS * float(np.trace(gram()))

    def jitters() -> Iterator[float]:
        yield 0.0
        least = rounding()
        yield from (least * 10.0**attempt for attempt in range(_ATTEMPTS))

    found = _first_factor(matrix, jitters())
    if found is None:
        raise ValueError(
            f"The sums over {n_rows} rows are no Gram matrix even with jitter: the features have "
            "values that are not finite or out of all proportion. Rescale the inputs, for example "
            "with sklearn.preprocessing.StandardScaler."
        )
    lower, jitter = found
    if jitter > 0.0:
        warnings.warn(
            f"`noise` = {noise:.3g} is below the rounding error of the sums over {n_rows} rows "
            f"(about {rounding():.3g}), so {jitter:.3g} was added to it. The posterior is that "
            "of the larger noise; give a `noise` of at least that much.",
            ConditioningWarning,
            stacklevel=2,
        )
    return lower, noise + jitter


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
    least = _EPS * float(np.einsum("ii->i", covariance).sum())

    def matrix(ridge: float) -> Array:
        whole = covariance.copy(order="F")
        np.einsum("ii->i", whole)[:] += ridge
        return whole

    def ridges() -> Iterator[float]:
        rising = ridge
        while np.isfinite(rising):
            yield rising
            rising = max(10.0 * rising, least)

    found = _first_factor(matrix, ridges())
    if found is None:
        return np.full_like(right, np.nan)
    return solve(found[0], right)


def solve_square(matrix: Array, right: Array, size: float) -> Array:
    """Solve a system that need not be symmetric, with a little jitter.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        The matrix; its diagonal is changed.
    right : ndarray of shape (m,)
        Right side.
    size : float
        Unit of the jitter, at least 0.
    """
    matrix[np.diag_indices(len(matrix))] += LEAST_JITTER * size or 1.0
    solution: Array = lu_solve(lu_factor(matrix), right)
    return solution
