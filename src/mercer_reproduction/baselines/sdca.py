r"""Stochastic dual coordinate ascent, on the exact kernel and on features.

The problem is :math:`\frac1n\sum_i l(f(x_i), y_i) + \frac\nu2\|f\|^2`, and at the solution
:math:`f = \frac{1}{\nu n}\sum_i a_i k(x_i, \cdot)`. A step maximises the dual in one coordinate:

- hinge, :math:`a_i = y_i\beta_i`:
  :math:`\beta_i \leftarrow \mathrm{clip}(\beta_i + (1 - y_i f(x_i))\,\nu n / k(x_i, x_i), 0, 1)`;
- square, :math:`\frac12(f - y)^2`:
  :math:`\Delta a_i = (y_i - f(x_i) - a_i) / (1 + k(x_i, x_i)/(\nu n))`.

Coordinates are visited in random order, every one once in a pass. A batch is only a way to compute:
its rows are updated one after the other, each with the current f. Predictions are with the mean of
the functions after each batch, weighted by its number: with a regularization of the order 1 / n the
last rows visited would else outweigh all others.

References: Shalev-Shwartz, Zhang (2013), Stochastic dual coordinate ascent methods; DSG, Table 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.kernels import Kernel
from mercer.validation import check_choice
from mercer_reproduction.baselines._base import (
    Array,
    CachedFeatures,
    Floats,
    LinearSolver,
    Solver,
    row_batches,
)
from mercer_reproduction.baselines.norma import RowExpansion


@jit("float64(boolean, float64, float64, float64, float64, float64)", inline="always")
def _increment(hinge: bool, a: float, y: float, f: float, self_kernel: float, nu_n: float) -> float:
    """Change of the dual coordinate ``a`` that maximises the dual in it alone."""
    if not hinge:
        return (y - f - a) / (1.0 + self_kernel / nu_n)
    if self_kernel <= 0.0:
        return y - a if y * f < 1.0 else 0.0
    beta = y * a + (1.0 - y * f) * nu_n / self_kernel
    return y * min(max(beta, 0.0), 1.0) - a


@jit(
    "void(boolean, float64[:, ::1], float64[::1], float64[::1], float64[::1], float64)",
)
def _ascend_on_gram(
    hinge: bool, gram: Array, f: Array, y: Array, a: Array, nu_n: float
) -> None:  # pragma: no cover - compiled
    """Update the coordinates ``a`` of a batch in order; ``f`` are the values before it."""
    for i in range(f.size):
        change = _increment(hinge, a[i], y[i], f[i], gram[i, i], nu_n)
        a[i] += change
        if change != 0.0:
            for j in range(i + 1, f.size):
                f[j] += gram[i, j] * change / nu_n


@jit(
    "void(boolean, float32[:, ::1], float64[::1], float64[::1], float64[::1], float64)",
)
def _ascend_on_features(
    hinge: bool, Z: NDArray[np.float32], w: Array, y: Array, a: Array, nu_n: float
) -> None:  # pragma: no cover - compiled
    """Update the coordinates ``a`` of a batch in order, and w = sum_i a_i z_i / (nu n)."""
    for i in range(Z.shape[0]):
        f, square = 0.0, 0.0
        for j in range(Z.shape[1]):
            f += Z[i, j] * w[j]
            square += Z[i, j] * Z[i, j]
        change = _increment(hinge, a[i], y[i], f, square, nu_n)
        a[i] += change
        if change != 0.0:
            for j in range(Z.shape[1]):
                w[j] += Z[i, j] * change / nu_n


class KernelSDCA(Solver):
    """Dual coordinate ascent on the exact kernel (k-SDCA).

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows; float32 is computed in.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1 (hinge) or targets (square).
    kernel : Kernel
        With its numbers resolved.
    loss : {"hinge", "square"}
        What is minimised.
    regularization : float
        nu.
    batch_size : int, default=256
        Rows whose kernel values are computed at once; the result depends on it only through the
        order of the rows.
    average : bool, default=True
        Predict with the average, not with the last iterate.
    seed : int, default=0
        Of the order of the rows.
    """

    def __init__(
        self,
        X: Floats,
        y: Any,
        kernel: Kernel,
        loss: str,
        *,
        regularization: float,
        batch_size: int = 256,
        average: bool = True,
        seed: int = 0,
    ) -> None:
        self._hinge = check_choice("loss", loss, ("hinge", "square")) == "hinge"
        self.rows = RowExpansion(X, y, kernel, batch_size, seed)
        self._nu_n = regularization * len(X)
        self.dual = np.zeros(len(X))
        self._average = average
        self._mean = np.zeros(len(X))
        self._t = 0

    def step(self) -> int:
        rows = self.rows.next_rows()
        X, y = self.rows.X[rows], self.rows.y[rows]
        f = self.rows.evaluate(X)
        gram = np.asarray(self.rows.kernel(X), dtype=np.float64)
        _ascend_on_gram(self._hinge, gram, f, y, self.dual[rows], self._nu_n)
        self.rows.coefficients[rows] = self.dual[rows] / self._nu_n
        self.rows.visit(rows)
        self._t += 1
        seen = slice(self.rows.n_visited)
        self._mean[seen] += (2.0 / (self._t + 1)) * (
            self.rows.coefficients[seen] - self._mean[seen]
        )
        return len(X)

    @property
    def coefficients(self) -> Array:
        """Coefficients of the rows in ``rows.X``, averaged if wanted, shape (n_rows,)."""
        return self._mean if self._average else self.rows.coefficients

    def decision_function(self, X: Floats) -> Array:
        return self.rows.evaluate(X, self.coefficients)


class SDCA(LinearSolver):
    """Dual coordinate ascent on features (r-SDCA, n-SDCA).

    Parameters
    ----------
    features : CachedFeatures
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1 (hinge) or targets (square).
    loss : {"hinge", "square"}
        What is minimised.
    regularization : float
        nu.
    batch_size : int, default=256
        Rows whose features are computed at once.
    average : bool, default=True
        Predict with the average, not with the last iterate.
    seed : int, default=0
        Of the order of the rows.
    """

    def __init__(
        self,
        features: CachedFeatures,
        y: Any,
        loss: str,
        *,
        regularization: float,
        batch_size: int = 256,
        average: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(features)
        self._hinge = check_choice("loss", loss, ("hinge", "square")) == "hinge"
        self._y = np.asarray(y, dtype=np.float64)
        self._nu_n = regularization * len(features)
        self._batches = row_batches(len(features), batch_size, seed)
        self.dual = np.zeros(len(features))
        self._average = average
        self._w = np.zeros(features.n_features)
        self._mean = np.zeros(features.n_features)
        self._t = 0

    @property
    def weights(self) -> Array:
        return self._mean if self._average else self._w

    def step(self) -> int:
        rows = next(self._batches)
        a = self.dual[rows]
        _ascend_on_features(self._hinge, self.features[rows], self._w, self._y[rows], a, self._nu_n)
        self.dual[rows] = a
        self._t += 1
        self._mean += (2.0 / (self._t + 1)) * (self._w - self._mean)
        return rows.size
