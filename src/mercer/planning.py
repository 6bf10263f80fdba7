"""Choices that data make: automatic step sizes and the unit of automatic tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.objectives import Batch, Objective

__all__ = ["AutomaticStep", "FirstRows", "stable_steps"]

Array = NDArray[np.float64]

_FIRST_ROWS = 1000
# 2 is the limit of stability on the rows of one batch.
_MARGIN = 1.5


class AutomaticStep:
    r"""Step size from the kernel and the loss: the largest that is safe for a mini-batch.

    For a loss of curvature L and a kernel with :math:`k(x, x) \le \kappa` whose covariance operator
    has top eigenvalue :math:`\lambda_1`, a mini-batch of n rows takes
    :math:`\eta = n / (L (\kappa + (n - 1) \lambda_1))`: n rows move the function n times as far as
    one until their kernels overlap. Where slopes are bounded nothing can diverge, and a step
    ``boldness`` times larger learns faster in one pass.

    Parameters
    ----------
    curvature : float
        L; 1 for losses without a bound, whose slopes are bounded instead.
    bound : float
        kappa.
    top_eigenvalue : float
        Top eigenvalue of the covariance operator.
    boldness : float, default=1.0
        Factor.

    Examples
    --------
    >>> float(AutomaticStep(0.5, 1.0, 0.05).of_batch(32).round(1))
    25.1
    """

    def __init__(
        self, curvature: float, bound: float, top_eigenvalue: float, boldness: float = 1.0
    ) -> None:
        self.curvature = curvature
        self.bound = bound
        self.top_eigenvalue = top_eigenvalue
        self.boldness = boldness

    def of_batch(self, n: NDArray[np.int64] | int) -> Any:
        """Step size for mini-batches of ``n`` rows."""
        spread = self.bound + (np.asarray(n) - 1) * self.top_eigenvalue
        return self.boldness * np.asarray(n) / (self.curvature * spread)


def stable_steps(
    kernel: Kernel, curvature: float, rows_per_step: NDArray[np.int64], X: Any, weights: Array
) -> Array:
    """Largest step of each batch that cannot overshoot on its own rows.

    Rows of one batch that resemble each other add up, and so do weights; the top eigenvalue of
    a sample does not know. The row sums of the batch's Gram matrix bound its eigenvalues.
    """
    root = np.sqrt(weights)
    if rows_per_step.max() == 1:
        sums = np.asarray(kernel.diag(X), dtype=np.float64) * weights
        return np.asarray(1.0 / (curvature * np.maximum(sums, 1e-300)))
    stable, start = np.empty(rows_per_step.size), 0
    for step, n in enumerate(rows_per_step):
        rows = slice(start, start + n)
        gram = np.abs(kernel(X[rows])) * np.outer(root[rows], root[rows])
        stable[step] = _MARGIN * n / (curvature * max(float(gram.sum(axis=1).max()), 1e-300))
        start += n
    return stable


@dataclass
class FirstRows:
    """Slopes and losses at f = 0 of the first 1,000 rows that have a slope.

    Attributes
    ----------
    n_rows : int
        Rows noted so far.
    squares : float
        Sum of their squared slopes.
    loss : float
        Largest mean loss of a call among them.
    """

    n_rows: int = 0
    squares: float = 0.0
    loss: float = 0.0

    @property
    def slope(self) -> float:
        """Root mean square of the slopes, the unit of automatic tolerances."""
        return float(np.sqrt(self.squares / self.n_rows)) if self.n_rows else 0.0

    @property
    def seen(self) -> bool:
        """Whether enough rows were seen."""
        return self.n_rows >= _FIRST_ROWS

    def look(self, objective: Objective, n_outputs: int, targets: Array, weights: Array) -> None:
        """Note rows that come next in the stream."""
        if self.seen:
            return
        n = weights.size
        batch = Batch(np.empty((0, 0)), targets, weights)
        slopes, losses = objective.slopes(np.zeros((n, n_outputs)), batch)
        squares = np.sum((slopes * n) ** 2, axis=1)
        squares = squares[squares > 0.0][: _FIRST_ROWS - self.n_rows]
        self.n_rows += squares.size
        self.squares += float(squares.sum())
        self.loss = max(self.loss, float(np.abs(losses).mean()))
