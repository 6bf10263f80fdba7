"""The exact posterior on a fixed set of features, from streaming sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mercer.functions.feature_blocks import FeatureBlocks
from mercer.kernels import Kernel
from mercer.sums import Statistics, WeightPosterior, check_alike, weight_posterior

__all__ = ["FeaturePosterior", "FeatureSource"]

Array = NDArray[np.float64]


class FeatureSource(Protocol):
    """Features of rows whose inner products are, or stand for, a kernel."""

    kernel: Kernel

    @property
    def block_size(self) -> int:
        """Number of features M."""
        ...

    def prepare(self, X: Array) -> tuple[Any, ...]:
        """Rows as arrays of as many rows; ValueError outside the kernel's domain."""
        ...

    def of(self, prepared: tuple[Any, ...], number: int = 0) -> Array:
        """Features of prepared rows, shape (n, M), C-ordered and the caller's own."""
        ...


class FeaturePosterior:
    r"""Gaussian process whose kernel is :math:`z(x)^T z(x')` for M features.

    The posterior is exact for that kernel. Of random features it is a Monte Carlo estimate of the
    one asked for, whose error falls like :math:`1 / \sqrt{M}`. Memory is M²/2 numbers, and M² more
    to predict, whatever the number of rows, which may come in any number of calls.

    Parameters
    ----------
    blocks : FeatureSource
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
        self, blocks: FeatureSource, n_targets: int, noise: float, normalize: bool, chunk: int
    ) -> None:
        self.blocks = blocks
        self.noise = noise
        self.normalize = normalize
        self.chunk = chunk
        self.statistics = Statistics(blocks.block_size, n_targets)
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
                    f"Features of {self.blocks.kernel!r} are not finite on these rows, "
                    f"whose largest input is {float(np.abs(X[rows]).max()):.3g}. Rescale the "
                    "inputs, for example with sklearn.preprocessing.StandardScaler."
                )
            statistics.origin = origin
            statistics.add(Z, targets[rows], weights[rows])
        self.statistics, self._solved = statistics, None

    def merge(self, other: FeaturePosterior) -> None:
        """Add the rows of another posterior, which stays as it is; the noise stays, too.

        Parameters
        ----------
        other : FeaturePosterior
            On the same features, of as many targets, normalised alike.

        Raises
        ------
        ValueError
            If these differ; neither posterior has changed then.
        """
        if not _are_same(self.blocks, other.blocks):
            raise ValueError(
                f"Posteriors on other features cannot be merged: {_named(self.blocks)} and "
                f"{_named(other.blocks)}. Make both with the same kernel, features and seed, or on "
                "the same inducing points."
            )
        check_alike(
            "`normalize`",
            self.normalize,
            other.normalize,
            "Normalise the targets of both, or none.",
        )
        statistics = self.statistics.copy()
        statistics.merge(other.statistics)
        self.statistics, self._solved = statistics, None

    def emptied(self) -> Self:
        """Return the same model of no rows: for those that are learned elsewhere."""
        n_targets = self.statistics.products.shape[1]
        return type(self)(self.blocks, n_targets, self.noise, self.normalize, self.chunk)

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        posterior, _, mean, scale = self.solution()
        return self.by_chunks(X, lambda Z: Z @ posterior.mean) * scale + mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        posterior, _, _, scale = self.solution()
        return np.outer(self.by_chunks(X, posterior.variances), scale**2)

    def covariance(self, X: Array) -> Array:
        """Posterior covariances between rows, shape (n, n, n_targets)."""
        posterior, _, _, scale = self.solution()
        covariance = posterior.covariance(self.features(X))
        return np.multiply.outer(covariance, scale**2)

    def sample(self, X: Array, n_samples: int, generator: np.random.RandomState) -> Array:
        """Values of functions drawn from the posterior, shape (n, n_targets, n_samples)."""
        weights = self.draw(n_samples, generator)
        values = self.by_chunks(X, lambda Z: Z @ weights)
        return self.in_units(values, n_samples)

    def draw(self, n_samples: int, generator: np.random.RandomState) -> Array:
        """Weights drawn from their posterior, shape (n_features, n_targets * n_samples)."""
        posterior = self.solution()[0]
        M, C = posterior.mean.shape
        deviations = posterior.draw(generator.standard_normal((M, C * n_samples)))
        return np.repeat(posterior.mean, n_samples, axis=1) + deviations

    def in_units(self, values: Array, n_samples: int) -> Array:
        """Values of drawn functions, (n, n_targets * n_samples), in units of the targets.

        Returns
        -------
        values : ndarray of shape (n, n_targets, n_samples)
        """
        mean, scale = self.normalization()
        scaled: Array = values.reshape(-1, scale.size, n_samples) * scale[:, np.newaxis]
        return scaled + mean[:, np.newaxis]

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Log density of the targets learned, for this noise or another one."""
        return self.solution(noise)[1]

    def effective_dimension(self) -> float:
        """Return the number of features that the data determine, between 0 and M."""
        return self.solution()[0].effective_dimension()

    def features(self, X: Array) -> Array:
        """Features of rows, shape (n, n_features)."""
        return self.blocks.of(self.blocks.prepare(X))

    @property
    def size(self) -> int:
        """Number of features."""
        return self.blocks.block_size

    @property
    def coefficients(self) -> Array:
        """Weights of the posterior mean, in units of the targets, (n_features, n_targets)."""
        posterior, _, _, scale = self.solution()
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

    def solution(self, noise: float | None = None) -> tuple[WeightPosterior, float, Array, Array]:
        """Posterior of the weights, log likelihood, mean and scale of the targets.

        Parameters
        ----------
        noise : float, default=None
            Another noise than that of the model.
        """
        if noise is not None and noise != self.noise:
            mean, scale = self.normalization()
            return *weight_posterior(self.statistics, noise, mean, scale), mean, scale
        # Once for all rows learned, when somebody asks.
        if self._solved is None:
            mean, scale = self.normalization()
            self._solved = *weight_posterior(self.statistics, self.noise, mean, scale), mean, scale
        return self._solved

    def by_chunks(self, X: Array, function: Callable[[Array], Array]) -> Array:
        """Return a function of the features of rows, made for some rows at a time."""
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
        return {"statistics": self.statistics.to_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        self.statistics.restore(state["statistics"])
        self._solved = None


def _are_same(mine: FeatureSource, theirs: FeatureSource) -> bool:
    if not (isinstance(mine, FeatureBlocks) and isinstance(theirs, FeatureBlocks)):
        return mine is theirs or mine == theirs
    names = "kernel", "block_size", "seed", "options", "dtype"
    return mine.map.n_inputs == theirs.map.n_inputs and all(
        getattr(mine, name) == getattr(theirs, name) for name in names
    )


def _named(features: FeatureSource) -> str:
    return f"{features.block_size:,} of {features.kernel!r}"
