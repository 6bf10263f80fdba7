"""Pegasos: stochastic gradient steps 1 / (nu t) on the hinge loss, with averaging."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer_reproduction.baselines._base import Array, CachedFeatures, LinearSolver, row_batches


class Pegasos(LinearSolver):
    r"""Hinge loss on features by Pegasos (r-Pegasos, n-Pegasos).

    .. math:: w \leftarrow (1 - \tfrac1t) w + \tfrac{1}{\nu t B}\sum_{y\,w\cdot z < 1} y z

    and then :math:`w \leftarrow w\min(1, 1/(\sqrt\nu\|w\|))`. Predictions are with the mean of the
    iterates weighted by t: with a regularization of the order 1 / n the first steps are huge.

    Parameters
    ----------
    features : CachedFeatures
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    regularization : float
        nu.
    batch_size : int, default=1
        B.
    average : bool, default=True
        Predict with the average, not with the last iterate.
    seed : int, default=0
        Of the order of the rows.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter (2011), Pegasos; the weights of the average are those of
    Lacoste-Julien, Schmidt, Bach (2012); DSG, Table 2.
    """

    def __init__(
        self,
        features: CachedFeatures,
        y: Any,
        *,
        regularization: float,
        batch_size: int = 1,
        average: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(features)
        self._y = np.asarray(y, dtype=np.float64)
        self._ridge, self._average = regularization, average
        self._batches = row_batches(len(features), batch_size, seed)
        self._t = 0
        self._w = np.zeros(features.n_features)
        self._mean = np.zeros(features.n_features)

    @property
    def weights(self) -> Array:
        return self._mean if self._average else self._w

    def step(self) -> int:
        rows = next(self._batches)
        self._t += 1
        t, Z, y = self._t, self.features[rows], self._y[rows]
        pull = np.where(y * (Z @ self._w) < 1.0, y, 0.0) / rows.size
        self._w = (1.0 - 1.0 / t) * self._w + (pull @ Z) / (self._ridge * t)
        norm = float(np.linalg.norm(self._w))
        self._w *= min(1.0, 1.0 / (np.sqrt(self._ridge) * norm)) if norm > 0.0 else 1.0
        self._mean += (2.0 / (t + 1)) * (self._w - self._mean)
        return rows.size
