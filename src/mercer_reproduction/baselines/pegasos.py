"""Pegasos: stochastic gradient steps 1 / (nu t) on the hinge or squared loss, with averaging."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.validation import check_choice
from mercer_reproduction.baselines._base import Array, CachedFeatures, LinearSolver, row_batches


class Pegasos(LinearSolver):
    r"""A loss on features by Pegasos (r-Pegasos, n-Pegasos).

    .. math:: w \leftarrow (1 - \tfrac1t) w - \tfrac{1}{\nu t B}\sum_b \ell'(w\cdot z_b, y_b)\, z_b

    with the hinge or half of the squared loss, and then :math:`w \leftarrow w\min(1, R/\|w\|)`,
    where R bounds the norm of the solution: :math:`\nu R^2` is 1 for the hinge, and the mean of
    :math:`y^2` for squares. Predictions are with the mean of the iterates weighted by t: with a
    regularization of the order 1 / n the first steps are huge.

    Parameters
    ----------
    features : CachedFeatures
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1 (hinge) or targets (square).
    loss : {"hinge", "square"}, default="hinge"
        What is minimised.
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
        loss: str = "hinge",
        *,
        regularization: float,
        batch_size: int = 1,
        average: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(features)
        self._y = np.asarray(y, dtype=np.float64)
        self._hinge = check_choice("loss", loss, ("hinge", "square")) == "hinge"
        self._ridge, self._average = regularization, average
        largest = 1.0 if self._hinge else float(np.mean(self._y**2))
        self._radius = np.sqrt(largest / regularization)
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
        values = Z @ self._w
        pull = (np.where(y * values < 1.0, y, 0.0) if self._hinge else y - values) / rows.size
        self._w = (1.0 - 1.0 / t) * self._w + (pull @ Z) / (self._ridge * t)
        norm = float(np.linalg.norm(self._w))
        self._w *= min(1.0, self._radius / norm) if norm > 0.0 else 1.0
        self._mean += (2.0 / (t + 1)) * (self._w - self._mean)
        return rows.size
