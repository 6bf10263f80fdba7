"""The posterior on a fixed dictionary of inducing points, from streaming sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer.features import FeatureOptions
from mercer.gaussian_process._blocks import FeatureBlocks
from mercer.gaussian_process._features import FeaturePosterior
from mercer.kernels import Kernel
from mercer.second_order import KernelBasis, factor_ridge

__all__ = ["InducingFeatures", "InducingPosterior"]

Array = NDArray[np.float64]


class InducingFeatures:
    r"""Features :math:`z(x) = L^{-1} k(D, x)` with :math:`LL^T = k(D, D)` for a dictionary D.

    Their inner products are :math:`q(x, x') = k(x, D) k(D, D)^{-1} k(D, x')`, the part of the
    kernel that functions on D hold: k itself where x or x' is in D, never more than k elsewhere.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_inputs)
        Dictionary, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> features = InducingFeatures(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> Z = features.of(features.prepare(np.array([[0.0], [9.0]])))
    >>> (Z @ Z.T).round(9) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel = kernel
        self.basis = KernelBasis(kernel, points)
        # With jitter the points are known up to a little noise: still a part of the kernel.
        self._lower = factor_ridge(self.basis.penalty(), 0.0).lower

    @property
    def points(self) -> Array:
        """Dictionary, shape (n_points, n_inputs)."""
        return np.asarray(self.basis.points, dtype=np.float64)

    @property
    def block_size(self) -> int:
        """Number of points, and of features."""
        return self.basis.size

    def prepare(self, X: Array) -> tuple[Array]:
        """Rows, C-ordered, in float64."""
        return (np.ascontiguousarray(X, dtype=np.float64),)

    def of(self, prepared: tuple[Array], number: int = 0) -> Array:
        """Features of prepared rows, shape (n, n_points); there is one block of them."""
        return self.whiten(self.basis.features(prepared[0]).T).T

    def whiten(self, values: Any) -> Array:
        """Weights in z of the functions with given values at the points: L⁻¹ values."""
        whitened: Array = solve_triangular(self._lower, values, lower=True, check_finite=False)
        return whitened

    def coefficients(self, weights: Array) -> Array:
        """Coefficients of the kernel functions at the points for weights in z: L'⁻¹ weights."""
        solved: Array = solve_triangular(
            self._lower, weights, lower=True, trans="T", check_finite=False
        )
        return solved


class InducingPosterior:
    r"""Sparse Gaussian process: what rows say of a function, through its values at a dictionary.

    The likelihood sees :math:`q(x, x')` of :class:`InducingFeatures` (deterministic training
    conditional, projected process); in predictions the part k - q, of which no row says anything,
    keeps its prior, so that far from the dictionary the prior comes back. Mean and variance are
    those of the variational posterior, too, and :meth:`log_marginal_likelihood` is its bound.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_inputs)
        Dictionary.
    n_targets : int
        Number of targets.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether the model is of the targets less their mean and over their standard deviation.
    chunk : int
        Rows at a time.

    References
    ----------
    J. Quiñonero-Candela, C. E. Rasmussen, A unifying view of sparse approximate Gaussian process
    regression, JMLR 2005, Section 5. M. K. Titsias, Variational learning of inducing variables in
    sparse Gaussian processes, AISTATS 2009, Section 3. J. T. Wilson et al., Efficiently sampling
    functions from Gaussian process posteriors, ICML 2020, for :meth:`sample`.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        n_targets: int,
        *,
        noise: float,
        normalize: bool,
        chunk: int,
    ) -> None:
        self.features = InducingFeatures(kernel, points)
        self.posterior = FeaturePosterior(self.features, n_targets, noise, normalize, chunk)
        self.prior_sum = 0.0  # of w k(x, x) over the rows

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows; all of them or, after an error, none.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, above 0: the noise of a row is ``noise / weight``.

        Raises
        ------
        ValueError
            For inputs outside the kernel's domain or features that are not finite.
        """
        prior = self.features.kernel.diag(X)
        self.posterior.learn(X, targets, weights)
        self.prior_sum += float(weights @ prior)

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets), by the kernel itself: M operations a row."""
        mean, chunk = self.posterior.normalization()[0], self.posterior.chunk
        coefficients = self.coefficients
        parts = [
            self.features.basis.features(X[start : start + chunk]) @ coefficients
            for start in range(0, X.shape[0], chunk)
        ]
        return np.concatenate(parts) + mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        weights, _, _, scale = self.posterior.solution()
        known, held = self.posterior.by_chunks(
            X, lambda Z: np.column_stack([weights.variances(Z), np.sum(Z**2, axis=1)])
        ).T
        # Next to a point k - q is the rounding error of either.
        rest = np.maximum(self.features.kernel.diag(X) - held, 0.0)
        return np.outer(known + rest, scale**2)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        weights, _, _, scale = self.posterior.solution()
        Z = self.posterior.features(X)
        rest = np.asarray(self.features.kernel(X), dtype=np.float64) - Z @ Z.T
        diagonal = np.einsum("ii->i", rest)
        np.maximum(diagonal, 0.0, out=diagonal)
        return np.multiply.outer(weights.covariance(Z) + rest, scale**2)

    def sample(
        self,
        X: Array,
        n_samples: int,
        generator: np.random.RandomState,
        n_features: int,
        design: str,
    ) -> Array:
        r"""Values of functions drawn from the posterior, shape (n, n_targets, n_samples).

        A function of the prior, g, made of random features, is corrected to have values at the
        dictionary that are drawn from the posterior: :math:`g(x) + z(x)^T (w - L^{-1} g(D))`. So
        random features stand for the part k - q only, and one function is drawn for all x.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs.
        n_samples : int
            Number of functions.
        generator : RandomState
            Source of randomness.
        n_features : int
            Number of random features.
        design : str
            How they are drawn.

        Raises
        ------
        ValueError
            If the kernel has no random features.
        """
        kernel, points = self.features.kernel, self.features.points
        weights = self.posterior.draw(n_samples, generator)
        try:
            blocks = FeatureBlocks(
                kernel,
                points.shape[1],
                n_features,
                int(generator.randint(2**31)),
                FeatureOptions(paired=True, design=design),
            )
        except ValueError as error:
            raise ValueError(
                "A sample needs random features, for the part of the function that the dictionary "
                f"does not hold. {error} `predict(X, return_cov=True)` needs none: values at few "
                "rows can be drawn from that normal distribution."
            ) from error
        normals = generator.standard_normal((n_features, weights.shape[1]))

        def of_prior(rows: Array) -> Array:
            values = np.zeros((rows.shape[0], weights.shape[1]))
            blocks.add(blocks.prepare(rows), 0, normals, values)
            return values

        correction = weights - self.features.whiten(of_prior(points))
        values = self.posterior.by_chunks(X, lambda Z: Z @ correction)
        return self.posterior.in_units(values + of_prior(X), n_samples)

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        r"""Titsias' lower bound of the log density of the targets learned.

        It is that of the projected process, :math:`\log N(y | 0, Q + \Sigma)`, less
        :math:`\frac12 \mathrm{tr}\,\Sigma^{-1} (K - Q)` for each target (Titsias, Section 3),
        with :math:`\Sigma` the noise of the rows. The density of the projected process alone may be
        larger than that of the kernel's own: more of it does not mean a better model.

        Parameters
        ----------
        noise : float, default=None
            Another noise than that of the model.
        """
        weights, log_likelihood, _, scale = self.posterior.solution(noise)
        held = float(np.trace(self.posterior.statistics.gram))
        rest = max(self.prior_sum - held, 0.0)
        return log_likelihood - 0.5 * scale.size * rest / weights.noise

    @property
    def coefficients(self) -> Array:
        """Coefficients of the mean on the dictionary, in units of the targets."""
        return self.features.coefficients(self.posterior.coefficients)

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, and the dictionary, as plain data."""
        return {
            "points": self.features.points,
            "prior_sum": self.prior_sum,
            **self.posterior.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot` on the same dictionary; ValueError if it does not fit."""
        self.posterior.restore(state)
        self.prior_sum = float(state["prior_sum"])
        if not 0.0 <= self.prior_sum < np.inf:
            raise ValueError("the sum of the prior variances is out of its range")
