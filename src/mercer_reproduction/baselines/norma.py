r"""NORMA: stochastic gradient descent with the exact kernel, one coefficient for each row.

``KernelClassifier(expansion=Full())`` is the same algorithm, and a test compares the two. This one
keeps the rows themselves instead of a dictionary: its memory does not grow beyond the data, and a
step makes kernel values a tile at a time, which is what half a million points need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.schedules import as_schedule
from mercer_reproduction.baselines._base import Array, Floats, Solver, tiles

# Coefficients are divided by the product of the shrink factors, which must not underflow.
_SMALLEST_SCALE = 1e-200


class RowExpansion:
    r"""A function :math:`f = \sum_i a_i k(x_i, \cdot)` on the rows visited so far.

    The rows are put in random order once; then every batch is a slice, and the rows visited in the
    first pass are the first ones.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    kernel : Kernel
        With its numbers resolved.
    batch_size : int
        Rows of a batch.
    seed : int
        Of the order.
    """

    def __init__(self, X: Floats, y: Any, kernel: Kernel, batch_size: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        order = self._rng.permutation(len(X))
        self.X, self.y = X[order], np.asarray(y, dtype=np.float64)[order]
        self.kernel = kernel
        self.coefficients = np.zeros_like(self.y)
        self.n_visited = 0
        self._slices = list(tiles(len(X), batch_size))
        self._waiting = self._slices[::-1]

    def next_rows(self) -> slice:
        """Rows of the next batch; after the first pass, batches come in random order."""
        if not self._waiting:
            self._waiting = [self._slices[i] for i in self._rng.permutation(len(self._slices))]
        return self._waiting.pop()

    def visit(self, rows: slice) -> None:
        """Note that these rows may have coefficients from now on."""
        self.n_visited = max(self.n_visited, rows.stop)

    def evaluate(self, X: Floats, coefficients: Array | None = None) -> Array:
        """Values of f at the rows of ``X``, shape (n_rows,) or (n_rows, n_targets)."""
        a = self.coefficients if coefficients is None else coefficients
        values = np.zeros((len(X), *a.shape[1:]))
        for own in tiles(len(X)):
            for seen in tiles(self.n_visited):
                gram = self.kernel(X[own], self.X[seen])
                values[own] += gram @ a[seen].astype(gram.dtype, copy=False)
        return values


class NORMA(Solver):
    r"""Functional stochastic gradient descent on the exact kernel.

    A step is :math:`f \leftarrow (1 - \gamma\nu) f - \frac{\gamma}{B}\sum_b l'_b k(x_b, \cdot)`.
    Predictions are with the mean of the later half of the iterates, in closed form: a coefficient
    made in step i counts with the shrink factors of the steps after it.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows; float32 is computed in.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Labels -1 and +1, or targets; each column is learned as if it were alone.
    kernel : Kernel
        With its numbers resolved.
    loss : Loss
        A margin or a regression loss.
    step_size : float or callable
        :math:`\gamma`, or a schedule of the step number 1, 2, ...
    regularization : float
        :math:`\nu`.
    batch_size : int, default=1
        B.
    average : bool, default=True
        Predict with the mean of the later half of the iterates, not with the last one.
    seed : int, default=0
        Of the order of the rows.

    References
    ----------
    Kivinen, Smola, Williamson (2004), Online learning with kernels; DSG, Table 2.
    """

    def __init__(
        self,
        X: Floats,
        y: Any,
        kernel: Kernel,
        loss: Loss,
        *,
        step_size: Any,
        regularization: float,
        batch_size: int = 1,
        average: bool = True,
        seed: int = 0,
    ) -> None:
        self.rows = RowExpansion(X, y, kernel, batch_size, seed)
        self._loss, self._step_size = loss, as_schedule(step_size)
        self._ridge, self._average = regularization, average
        # The coefficient of a row is `rows.coefficients` times the product of all shrink factors.
        self._scale = 1.0
        self._sums_of_scales = [0.0]
        self._added: list[tuple[slice, Array]] = []

    def step(self) -> int:
        """See :class:`Solver`.

        Raises
        ------
        ValueError
            If the step size or the number of steps is so large that the function vanishes.
        """
        rows = self.rows.next_rows()
        gamma = float(self._step_size(len(self._added) + 1))
        f = self._scale * self.rows.evaluate(self.rows.X[rows])
        slopes = self._loss.derivative(self.rows.y[rows], f) / len(f)
        self._scale *= 1.0 - gamma * self._ridge
        if not self._scale > _SMALLEST_SCALE:
            raise ValueError(
                f"The shrink factors 1 - step_size * regularization multiply to {self._scale:g} "
                f"with step size {gamma:g} and regularization {self._ridge:g}: nothing would be "
                "left of the first rows. Use smaller ones."
            )
        added = -gamma * slopes / self._scale
        self.rows.coefficients[rows] += added
        self.rows.visit(rows)
        self._sums_of_scales.append(self._sums_of_scales[-1] + self._scale)
        self._added.append((rows, added))
        return len(f)

    @property
    def coefficients(self) -> Array:
        """Coefficients of the rows in ``rows.X``, averaged if wanted, one for each target."""
        if not self._average or not self._added:
            return self._scale * self.rows.coefficients
        S, T = self._sums_of_scales, len(self._added)
        T0 = T // 2
        averaged = np.zeros_like(self.rows.coefficients)
        for i, (rows, added) in enumerate(self._added):
            averaged[rows] += added * (S[T] - S[max(T0, i)]) / (T - T0)
        return averaged

    def decision_function(self, X: Floats) -> Array:
        return self.rows.evaluate(X, self.coefficients)
