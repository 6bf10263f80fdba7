"""The exact posterior on a fixed set of random features, from streaming sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.gaussian_process._blocks import FeatureBlocks
from mercer.gaussian_process._statistics import (
    FeatureStatistics,
    WeightPosterior,
    weight_posterior,
)

__all__ = ["FeaturePosterior"]

Array = NDArray[np.float64]


class FeaturePosterior:
    r"""Gaussian process whose kernel is :math:`z(x)^T z(x')` for M random features.

    The posterior is exact for that kernel; the kernel is a Monte Carlo estimate of the one asked
    for, its error falls like :math:`1 / \sqrt{M}`. Memory is M² numbers whatever the number of
    rows, and rows may come in any number of calls.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features; block 0 is used.
    n_targets : int
        Number of targets.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether the model is of the targets less their mean and over their standard deviation.
    chunk : int
        Rows at a time.
    """

    def __init__(
        self, blocks: FeatureBlocks, n_targets: int, noise: float, normalize: bool, chunk: int
    ) -> None:
        self.blocks = blocks
        self.noise = noise
        self.normalize = normalize
        self.chunk = chunk
        self.statistics = FeatureStatistics(blocks.block_size, n_targets)
        self._solved: tuple[WeightPosterior, float, Array, Array] | None = None

    @property
    def n_rows(self) -> int:
        """Rows learned, those of weight 0 left out."""
        return self.statistics.n_rows

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Add rows; all of them or, after an error, none.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, at least 0: the noise of a row is ``noise / weight``.

        Raises
        ------
        ValueError
            For inputs outside the kernel's domain or features that are not finite.
        """
        used = weights > 0.0
        if not used.all():
            X, targets, weights = X[used], targets[used], weights[used]
        if weights.size == 0:
            return
        prepared = self.blocks.prepare(X)
        several = weights.size > self.chunk
        statistics = self.statistics.copy() if several else self.statistics
        origin = statistics.origin
        if self.normalize and statistics.n_rows == 0:
            origin = np.average(targets, axis=0, weights=weights)
        for start in range(0, weights.size, self.chunk):
            rows = slice(start, start + self.chunk)
            Z = self.blocks.of(tuple(part[rows] for part in prepared))
            if not np.isfinite(Z).all():
                raise ValueError(
                    f"Random features of {self.blocks.kernel!r} are not finite on these rows, "
                    f"whose largest input is {float(np.abs(X[rows]).max()):.3g}. Rescale the "
                    "inputs, for example with sklearn.preprocessing.StandardScaler."
                )
            statistics.origin = origin
            statistics.add(Z, targets[rows], weights[rows])
        self.statistics, self._solved = statistics, None

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        posterior, _, mean, scale = self._solve()
        return self._by_chunks(X, lambda Z: Z @ posterior.mean) * scale + mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        posterior, _, _, scale = self._solve()
        return np.outer(self._by_chunks(X, posterior.variances), scale**2)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        posterior, _, _, scale = self._solve()
        covariance = posterior.covariance(self.features(X))
        return np.multiply.outer(covariance, scale**2)

    def sample(self, X: Array, n_samples: int, generator: np.random.RandomState) -> Array:
        """Values of functions drawn from the posterior, shape (n, n_targets, n_samples)."""
        posterior, _, mean, scale = self._solve()
        M, C = posterior.mean.shape
        deviations = posterior.draw(generator.standard_normal((M, C * n_samples)))
        weights = posterior.mean[:, :, np.newaxis] + deviations.reshape(M, C, n_samples)
        values = self._by_chunks(X, lambda Z: Z @ weights.reshape(M, -1))
        scaled: Array = values.reshape(-1, C, n_samples) * scale[:, np.newaxis]
        return scaled + mean[:, np.newaxis]

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Log density of the targets learned, for this noise or another one."""
        if noise is None or noise == self.noise:
            return self._solve()[1]
        mean, scale = self.normalization()
        return weight_posterior(self.statistics, noise, mean, scale)[1]

    def effective_dimension(self) -> float:
        """Return the number of features that the data determine, between 0 and M."""
        return self._solve()[0].effective_dimension()

    def features(self, X: Array) -> Array:
        """Features of rows, shape (n, n_features)."""
        return self.blocks.of(self.blocks.prepare(X))

    @property
    def coefficients(self) -> Array:
        """Weights of the posterior mean, in units of the targets, (n_features, n_targets)."""
        posterior, _, _, scale = self._solve()
        return posterior.mean * scale

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        if self.normalize:
            return self.statistics.normalization()
        n_targets = self.statistics.products.shape[1]
        return np.zeros(n_targets), np.ones(n_targets)

    def set_noise(self, noise: float) -> None:
        """Take another noise; the sums do not depend on it."""
        if noise != self.noise:
            self.noise, self._solved = noise, None

    def _solve(self) -> tuple[WeightPosterior, float, Array, Array]:
        # Once for all rows learned, when somebody asks.
        if self._solved is None:
            mean, scale = self.normalization()
            self._solved = *weight_posterior(self.statistics, self.noise, mean, scale), mean, scale
        return self._solved

    def _by_chunks(self, X: Array, function: Any) -> Array:
        prepared = self.blocks.prepare(X)
        parts = [
            function(self.blocks.of(tuple(part[start : start + self.chunk] for part in prepared)))
            for start in range(0, X.shape[0], self.chunk)
        ]
        return np.concatenate(parts)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solved": None}

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, as plain data."""
        return {"statistics": self.statistics.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        self.statistics.restore(state["statistics"])
        self._solved = None
