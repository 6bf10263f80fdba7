"""Stochastic block mirror descent: a gradient step on one random block of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.losses import Loss
from mercer.schedules import as_schedule
from mercer_reproduction.baselines._base import Array, CachedFeatures, LinearSolver, row_batches


class SBMD(LinearSolver):
    r"""Any loss on features by stochastic block mirror descent (r-SBMD, n-SBMD).

    A step draws a batch and one block b of the weights,
    :math:`w_b \leftarrow w_b - \gamma_t(Z_b^T l' / B + \nu w_b)`, and leaves the rest as it is.
    Predictions are with the mean of the iterates weighted by the step sizes.

    Parameters
    ----------
    features : CachedFeatures
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1, or targets.
    loss : Loss
        A margin or a regression loss.
    step_size : float or callable
        gamma, or a schedule of the step number 1, 2, ...
    regularization : float
        nu.
    batch_size : int, default=1
        B.
    n_blocks : int, default=8
        Number of blocks of about equal size.
    seed : int, default=0
        Of the order of the rows and of the blocks.

    References
    ----------
    Dang, Lan (2015), Stochastic block mirror descent methods; DSG, Tables 2 and 3.
    """

    def __init__(
        self,
        features: CachedFeatures,
        y: Any,
        loss: Loss,
        *,
        step_size: Any,
        regularization: float,
        batch_size: int = 1,
        n_blocks: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(features)
        self._y, self._loss = np.asarray(y, dtype=np.float64), loss
        self._step_size, self._ridge = as_schedule(step_size), regularization
        self._batches = row_batches(len(features), batch_size, seed)
        self._rng = np.random.default_rng((seed, 1))
        self._blocks = np.array_split(np.arange(features.n_features), n_blocks)
        self._t, self._weight = 0, 0.0
        self._w = np.zeros(features.n_features)
        self._mean = np.zeros(features.n_features)

    @property
    def weights(self) -> Array:
        return self._mean

    def step(self) -> int:
        rows = next(self._batches)
        block = self._blocks[self._rng.integers(len(self._blocks))]
        self._t += 1
        gamma = float(self._step_size(self._t))
        Z = self.features[rows]
        slopes = self._loss.derivative(self._y[rows], Z @ self._w) / rows.size
        self._w[block] -= gamma * (slopes @ Z[:, block] + self._ridge * self._w[block])
        self._weight += gamma
        self._mean += (gamma / self._weight) * (self._w - self._mean)
        return rows.size
