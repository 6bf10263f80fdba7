"""Random block coordinate descent: the full gradient in one random block of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.losses import Loss
from mercer_reproduction.baselines._base import Array, CachedFeatures, LinearSolver, tiles


class RBCD(LinearSolver):
    r"""A smooth loss on features by random block coordinate descent (r-RBCD, n-RBCD).

    .. math:: w_b \leftarrow w_b - \frac{Z_b^T l' / n + \nu w_b}{L\lambda_1(Z_b^T Z_b / n) + \nu}

    with the curvature bound L of the loss. A step touches all rows in one of the blocks; as many
    steps as blocks are counted as a pass over the rows.

    Parameters
    ----------
    features : CachedFeatures
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1, or targets.
    loss : Loss
        A smooth margin or regression loss.
    regularization : float
        nu.
    n_blocks : int, default=8
        Number of blocks of about equal size.
    seed : int, default=0
        Of the order of the blocks.

    Raises
    ------
    ValueError
        If the loss is not smooth.

    References
    ----------
    Nesterov (2012), Efficiency of coordinate descent methods; DSG, Tables 2 and 3.
    """

    def __init__(
        self,
        features: CachedFeatures,
        y: Any,
        loss: Loss,
        *,
        regularization: float,
        n_blocks: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(features)
        if loss.curvature is None:
            raise ValueError(
                f"{loss!r} is not smooth: its second derivative has no bound, so no step of block "
                "coordinate descent is safe. Use SquaredHinge() or Logistic()."
            )
        self._y, self._loss, self._curvature = np.asarray(y, np.float64), loss, loss.curvature
        self._ridge, self._rng = regularization, np.random.default_rng(seed)
        self._blocks = np.array_split(np.arange(features.n_features), n_blocks)
        self._top: dict[int, float] = {}
        self._Z: list[Any] = []
        self._w = np.zeros(features.n_features)
        self._f = np.zeros(len(features))

    @property
    def weights(self) -> Array:
        return self._w

    def step(self) -> int:
        n = len(self.features)
        if not self._Z:
            self._Z = [np.empty((n, block.size), np.float32) for block in self._blocks]
            for tile in tiles(n):
                Z = self.features.make(self.features.rows(tile))
                for own, block in zip(self._Z, self._blocks, strict=True):
                    own[tile] = Z[:, block]
        b = int(self._rng.integers(len(self._blocks)))
        Z, block = self._Z[b], self._blocks[b]
        if b not in self._top:
            self._top[b] = float(np.linalg.eigvalsh((Z.T @ Z).astype(np.float64))[-1]) / n
        slopes = self._loss.derivative(self._y, self._f) / n
        # In the type of Z, which would be copied otherwise.
        gradient = slopes.astype(Z.dtype) @ Z + self._ridge * self._w[block]
        change = -gradient / (self._curvature * self._top[b] + self._ridge)
        self._w[block] += change
        self._f += Z @ change.astype(Z.dtype)
        return max(n // len(self._blocks), 1)
