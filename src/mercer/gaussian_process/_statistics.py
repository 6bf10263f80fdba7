"""Bayesian linear regression from sums over the rows.

Free of kernels: a row is a vector of features z and its targets y. The model is y = z'w + noise
with w ~ N(0, I) and noise of variance ``noise / weight`` for each row.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.blas import dsyrk

from mercer.exceptions import ConditioningWarning

__all__ = ["FeatureStatistics", "WeightPosterior", "target_scale", "weight_posterior"]

Array = NDArray[np.float64]

_JITTERS = 12  # each ten times the one before, from the rounding error of the sums upwards


class FeatureStatistics:
    """Sums over the rows that the posterior depends on; their size does not grow with the rows.

    Parameters
    ----------
    n_features : int
        Number of features M.
    n_targets : int
        Number of targets.

    Attributes
    ----------
    gram : ndarray of shape (n_features, n_features)
        Z'WZ, lower triangle, in Fortran order.
    products : ndarray of shape (n_features, n_targets)
        Z'W(Y - origin).
    feature_sums : ndarray of shape (n_features,)
        Z'W1.
    target_sums, target_squares : ndarray of shape (n_targets,)
        Sums of w (y - origin) and of w (y - origin)².
    origin : ndarray of shape (n_targets,)
        Constant that is subtracted of the targets first: near their mean, so that the variance is
        no difference of large numbers.
    weight, log_weight : float
        Sums of the weights and of their logarithms.
    n_rows : int
        Rows of positive weight.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        self.gram = np.zeros((n_features, n_features), order="F")
        self.products = np.zeros((n_features, n_targets))
        self.feature_sums = np.zeros(n_features)
        self.target_sums = np.zeros(n_targets)
        self.target_squares = np.zeros(n_targets)
        self.origin = np.zeros(n_targets)
        self.weight = 0.0
        self.log_weight = 0.0
        self.n_rows = 0

    def add(self, Z: Array, targets: Array, weights: Array) -> None:
        """Add rows.

        Parameters
        ----------
        Z : ndarray of shape (n, n_features)
            Features, C-ordered; overwritten.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, above 0.
        """
        root = np.sqrt(weights)
        Z *= root[:, np.newaxis]
        Y = (targets - self.origin) * root[:, np.newaxis]
        # Only a triangle: half the work of Z.T @ Z.
        self.gram = dsyrk(1.0, Z.T, beta=1.0, c=self.gram, lower=1, overwrite_c=1)
        self.products += Z.T @ Y
        self.feature_sums += Z.T @ root
        self.target_sums += root @ Y
        self.target_squares += np.sum(Y**2, axis=0)
        self.weight += float(weights.sum())
        self.log_weight += float(np.log(weights).sum())
        self.n_rows += weights.size

    def normalization(self) -> tuple[Array, Array]:
        """Weighted mean and standard deviation of the targets (1 for constant ones)."""
        shift = self.target_sums / self.weight
        mean = self.origin + shift
        return mean, target_scale(self.target_squares / self.weight - shift**2, mean)

    def centred(self, mean: Array, scale: Array) -> tuple[Array, Array]:
        """Z'WY and the diagonal of Y'WY for the targets (y - mean) / scale."""
        shift = mean - self.origin
        products = (self.products - np.outer(self.feature_sums, shift)) / scale
        squares = self.target_squares - 2.0 * shift * self.target_sums + self.weight * shift**2
        return products, squares / scale**2

    def copy(self) -> Self:
        """Copy that shares nothing."""
        twin = object.__new__(type(self))
        for name, value in self.__dict__.items():
            # In Fortran order where the original is.
            twin.__dict__[name] = value.copy("A") if isinstance(value, np.ndarray) else value
        return twin

    def snapshot(self) -> dict[str, Any]:
        """All sums as plain data; of the Gram matrix a triangle."""
        state = {name: value for name, value in self.__dict__.items() if name != "gram"}
        state["triangle"] = self.gram[np.tril_indices(self.gram.shape[0])]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        M, C = self.products.shape
        shapes: dict[str, tuple[int, ...]] = {
            "triangle": (M * (M + 1) // 2,),
            "products": (M, C),
            "feature_sums": (M,),
            "target_sums": (C,),
            "target_squares": (C,),
            "origin": (C,),
        }
        for name, shape in shapes.items():
            array = state[name]
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"the sums `{name}` are of the wrong shape or not finite")
        self.gram[np.tril_indices(M)] = state["triangle"]
        for name in list(shapes)[1:]:
            setattr(self, name, state[name].copy())
        self.weight, self.log_weight = float(state["weight"]), float(state["log_weight"])
        self.n_rows = int(state["n_rows"])
        if not (self.weight > 0.0 and math.isfinite(self.weight + self.log_weight)):
            raise ValueError("the sums of the weights are out of their range")
        if self.n_rows < 1 or (np.diag(self.gram) < 0.0).any():
            raise ValueError("the sums over the rows are out of their range")


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
        Variance of the noise, and what was added to it where rounding demanded more.
    """

    mean: Array
    factor: Array
    noise: float

    def variances(self, Z: Array) -> Array:
        """Posterior variances of z'w for rows of features, shape (n,)."""
        # noise |L⁻¹z|² instead of k(x, x) - ...: nothing cancels.
        variances: Array = self.noise * np.sum(self._whitened(Z) ** 2, axis=0)
        return variances

    def covariance(self, Z: Array) -> Array:
        """Posterior covariance of z'w between rows of features, shape (n, n)."""
        V = self._whitened(Z)
        covariance: Array = self.noise * (V.T @ V)
        return covariance

    def draw(self, normals: Array) -> Array:
        """Weights minus their mean, from independent standard normals of the same shape."""
        solved = solve_triangular(self.factor, normals, lower=True, trans="T", check_finite=False)
        return np.asarray(math.sqrt(self.noise) * solved)

    def effective_dimension(self) -> float:
        """Trace of A (A + noise I)⁻¹ with A = Z'WZ: how many features the data determine."""
        M = self.factor.shape[0]
        inverse = solve_triangular(self.factor, np.eye(M), lower=True, check_finite=False)
        return float(M - self.noise * np.sum(inverse**2))

    def _whitened(self, Z: Array) -> Array:
        solved: Array = solve_triangular(self.factor, Z.T, lower=True, check_finite=False)
        return solved


def target_scale(variance: Array, mean: Array) -> Array:
    """Scale of targets: their standard deviation, 1 for those that are constant."""
    # Rounding leaves a constant target a relative deviation of 1e-16, not more.
    return np.sqrt(np.where(variance <= 1e-28 * mean**2, 1.0, variance))


def weight_posterior(
    statistics: FeatureStatistics, noise: float, mean: Array, scale: Array
) -> tuple[WeightPosterior, float]:
    r"""Posterior of the weights and the logarithm of the marginal likelihood.

    With :math:`A = Z^TWZ` and :math:`b = Z^TWy` the mean is :math:`(A + \sigma^2 I)^{-1} b` and the
    covariance :math:`\sigma^2 (A + \sigma^2 I)^{-1}`: DSG, eq. (9), for the kernel
    :math:`z(x)^T z(x')`, by the identity under eq. (10).

    Parameters
    ----------
    statistics : FeatureStatistics
        Sums over the rows.
    noise : float
        Variance of the noise of a row of weight 1, in units of the squared scaled target.
    mean, scale : ndarray of shape (n_targets,)
        The model is of the targets (y - mean) / scale.

    Returns
    -------
    posterior : WeightPosterior
        Posterior, in units of the scaled targets.
    log_likelihood : float
        Log density of the targets, in their own units, summed over them.
    """
    products, squares = statistics.centred(mean, scale)
    factor, noise = _factor(statistics.gram, noise, statistics.n_rows)
    half = solve_triangular(factor, products, lower=True, check_finite=False)
    weights = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
    # Of ZZ' + noise I in n dimensions, by what is known in M dimensions.
    n, M = statistics.n_rows, factor.shape[0]
    log_det = 2.0 * float(np.log(np.diag(factor)).sum()) + (n - M) * math.log(noise)
    # It is |weights|² + |residuals|² / noise: of an interpolated target the first term is left,
    # where the difference is all rounding.
    quadratic = np.maximum((squares - np.sum(half**2, axis=0)) / noise, np.sum(weights**2, axis=0))
    log_likelihood = -0.5 * float(quadratic.sum()) - scale.size * 0.5 * (
        log_det + n * math.log(2.0 * math.pi) - statistics.log_weight
    )
    log_likelihood -= n * float(np.log(scale).sum())
    return WeightPosterior(weights, factor, noise), log_likelihood


def _factor(gram: Array, noise: float, n_rows: int) -> tuple[Array, float]:
    """Lower Cholesky factor of gram + noise I, and the noise: more only where rounding needs it."""
    diagonal = np.arange(gram.shape[0])
    rounding = float(np.finfo(np.float64).eps) * float(np.trace(gram))
    for attempt in range(_JITTERS):
        jitter = 0.0 if attempt == 0 else rounding * 10.0 ** (attempt - 1)
        matrix = gram.copy("F")
        matrix[diagonal, diagonal] += noise + jitter
        try:
            factor: Array = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        if jitter > 0.0:
            warnings.warn(
                f"`noise` = {noise:.3g} is below the rounding error of the sums over {n_rows} rows "
                f"(about {rounding:.3g}), so {jitter:.3g} was added to it. The posterior is that "
                "of the larger noise; give a `noise` of at least that much.",
                ConditioningWarning,
                stacklevel=2,
            )
        return factor, noise + jitter
    raise ValueError(
        f"The sums over {n_rows} rows are no Gram matrix even with jitter: the features have "
        "values that are not finite or out of all proportion. Rescale the inputs, for example with "
        "sklearn.preprocessing.StandardScaler."
    )
