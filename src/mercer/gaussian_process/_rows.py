"""Posterior by descent on rows that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._descent import Solver, column_variances, expand
from mercer.gaussian_process._methods import Method, Operator, schedule_of
from mercer.gaussian_process._operator import operator_descent, operator_variances
from mercer.learning import AutomaticStep
from mercer.sums import target_scale

__all__ = ["DescentPosterior"]

Array = NDArray[np.float64]

# Attributes that learning sets, and their number of axes.
_STORED = {"expansion": 3, "rows": 2, "row_weights": 1, "target_mean": 1, "target_scale": 1}


class DescentPosterior:
    """Posterior by descent on given rows, which are kept for the variances.

    Parameters
    ----------
    method : Method
        How the mean is found.
    blocks : FeatureBlocks
        Features for the mean.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether the model is of the targets less their mean and over their standard deviation.
    step : AutomaticStep
        Step size where none was given.
    seed : int
        Of the order of the rows.
    """

    def __init__(
        self,
        method: Method,
        blocks: FeatureBlocks,
        noise: float,
        normalize: bool,
        step: AutomaticStep,
        seed: int,
    ) -> None:
        self.method = method
        self.blocks = blocks
        self.noise = noise
        self.normalize = normalize
        self.step = step
        self.seed = seed
        self._theta: Array | None = None

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Descend to the posterior mean.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs; kept.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, at least 0: the noise of a row is ``noise / weight``.

        Raises
        ------
        ValueError
            For inputs outside the kernel's domain, or a step that flips signs.
        mercer.exceptions.DivergenceError
            If the steps are too large.
        """
        used = weights > 0.0
        self.rows, targets, self.row_weights = X[used], targets[used], weights[used]
        self.target_mean, self.target_scale = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
        if self.normalize:
            self.target_mean = np.average(targets, axis=0, weights=self.row_weights)
            deviations = (targets - self.target_mean) ** 2
            variance = np.average(deviations, axis=0, weights=self.row_weights)
            self.target_scale = target_scale(variance, self.target_mean)
        self.expansion = self._solver()((targets - self.target_mean) / self.target_scale)
        self._theta = None

    def _solver(self) -> Solver:
        ridge = self.noise / self.rows.shape[0]
        return self.method.solver(
            self.blocks, self.rows, self.row_weights, ridge, self.step, self.seed
        )

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        return expand(self.blocks, self.expansion, X) * self.target_scale + self.target_mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        if self.method.variance == "columns":
            variances = column_variances(self.blocks, self._solver(), self.rows, X)
        else:
            options = Operator() if self.method.variance == "operator" else self.method.variance
            assert isinstance(options, Operator)
            variances = self._operator_variance(options, X)
        return np.outer(variances, self.target_scale**2)

    def _operator_variance(self, options: Operator, X: Array) -> Array:
        blocks = self.blocks.resized(options.block_size)
        if self._theta is None:
            n = self.rows.shape[0]
            ridge = self.noise / n
            self._theta = operator_descent(
                blocks,
                self.rows,
                self.row_weights,
                regularization=ridge,
                step_size=schedule_of(options.step_size, self.step, options.batch_size, n, ridge),
                n_steps=options.n_steps,
                batch_size=options.batch_size,
                generator=np.random.RandomState(self.seed),
            )
        return operator_variances(blocks, self._theta, X)

    def features(self, X: Array) -> Array:
        """Features of rows, shape (n, n_blocks * block_size)."""
        return self.blocks.of_first(len(self.expansion), self.blocks.prepare(X))

    @property
    def n_rows(self) -> int:
        """Rows learned, those of weight 0 left out."""
        return int(self.row_weights.size)

    @property
    def size(self) -> int:
        """Number of features, of all blocks."""
        n_blocks, block_size, _ = self.expansion.shape
        return int(n_blocks * block_size)

    @property
    def coefficients(self) -> Array:
        """Weights of the features, in units of the targets, (n_features, n_targets)."""
        stacked: Array = self.expansion.reshape(-1, self.expansion.shape[2]) * self.target_scale
        return stacked

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        return self.target_mean, self.target_scale

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_theta": None}

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, as plain data."""
        return {name: getattr(self, name) for name in _STORED}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        for name, n_axes in _STORED.items():
            array = state[name]
            if array.ndim != n_axes or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"`{name}` is of the wrong shape or not finite")
            setattr(self, name, array)
        n_targets = self.expansion.shape[2]
        if (
            self.expansion.shape[1] != self.blocks.block_size
            or self.rows.shape != (self.row_weights.size, self.blocks.map.n_inputs)
            or self.target_mean.shape != (n_targets,)
            or self.target_scale.shape != (n_targets,)
            or not (self.row_weights > 0.0).all()
            or not (self.target_scale > 0.0).all()
        ):
            raise ValueError("the parts of the posterior do not fit together")
        self._theta = None
