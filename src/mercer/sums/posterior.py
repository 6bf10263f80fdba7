"""Bayesian linear regression from sums over the rows.

There are no kernels here: a row is a vector of features z with targets y. The model is
y = z'w + noise with w ~ N(0, I) and noise of variance ``noise / weight`` for each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.factor import factor_noise
from mercer.numerics.lapack import solve_triangle
from mercer.sums.statistics import Statistics

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WeightPosterior:
    """Posterior N(mean, noise (LL')⁻¹) of the weights, given the noise.

    Attributes
    ----------
    mean : ndarray of shape (n_features, n_targets)
        Posterior means, one column per target.
    factor : ndarray of shape (n_features, n_features)
        Lower Cholesky factor L of Z'WZ + noise I; the covariance is the same for all targets.
    noise : float
        Variance of the noise, including what was added to it because of rounding.
    """

    mean: Array
    factor: Array
    noise: float

    def variances(self, Z: Array) -> Array:
        """Return the posterior variances of z'w for rows of features, shape (n,)."""
        # noise |L⁻¹z|² instead of k(x, x) - ...: no cancellation.
        variances: Array = self.noise * np.sum(self._whitened(Z) ** 2, axis=0)
        return variances

    def covariance(self, Z: Array) -> Array:
        """Return the posterior covariance of z'w between rows of features, shape (n, n)."""
        V = self._whitened(Z)
        covariance: Array = self.noise * (V.T @ V)
        return covariance

    def draw(self, normals: Array) -> Array:
        """Return a draw of the weights minus their mean, from standard normals of that shape."""
        return math.sqrt(self.noise) * solve_triangle(self.factor, normals, transposed=True)

    def effective_dimension(self) -> float:
        """Return the trace of A (A + noise I)⁻¹, A = Z'WZ: how many features the data determine."""
        M = self.factor.shape[0]
        inverse = solve_triangle(self.factor, np.eye(M))
        return float(M - self.noise * np.sum(inverse**2))

    def _whitened(self, Z: Array) -> Array:
        return solve_triangle(self.factor, Z.T)


def weight_posterior(
    statistics: Statistics, noise: float, mean: Array, scale: Array
) -> tuple[WeightPosterior, float]:
    r"""Return the posterior of the weights, and the log marginal likelihood.

    With :math:`A = Z^TWZ` and :math:`b = Z^TWy`, the mean is :math:`(A + \sigma^2 I)^{-1} b`, the
    covariance :math:`\sigma^2 (A + \sigma^2 I)^{-1}`: DSG, eq. (9), for the kernel
    :math:`z(x)^T z(x')`, by the identity under eq. (10).

    Parameters
    ----------
    statistics : Statistics
        Sums over the rows.
    noise : float
        Variance of the noise of a row of weight 1, in units of the squared scaled target.
    mean, scale : ndarray of shape (n_targets,)
        Centre and scale of the targets that are modelled, (y - mean) / scale.

    Returns
    -------
    posterior : WeightPosterior
        Posterior, in units of the scaled targets.
    log_likelihood : float
        Log density of the targets in their original units, summed over the targets.
    """
    products, squares = statistics.centred(mean, scale)
    factor, noise = factor_noise(lambda: statistics.gram, noise, statistics.n_rows)
    half = solve_triangle(factor, products)
    weights = solve_triangle(factor, half, transposed=True)
    # log det of the n x n matrix ZZ' + noise I, from the factor in M dimensions.
    n, M = statistics.n_rows, factor.shape[0]
    log_det = 2.0 * float(np.log(np.diag(factor)).sum()) + (n - M) * math.log(noise)
    # It equals |weights|² + |residuals|² / noise. For an interpolated target the residuals vanish
    # and the difference is only rounding, so |weights|² is a lower bound.
    quadratic = np.maximum((squares - np.sum(half**2, axis=0)) / noise, np.sum(weights**2, axis=0))
    log_likelihood = -0.5 * float(quadratic.sum()) - scale.size * 0.5 * (
        log_det + n * math.log(2.0 * math.pi) - statistics.log_weight
    )
    log_likelihood -= n * float(np.log(scale).sum())
    return WeightPosterior(weights, factor, noise), log_likelihood
