"""Choices that data make: automatic step sizes and the unit of automatic tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.objectives import Batch, Objective

__all__ = ["AutomaticStep", "FeatureSteps", "FirstRows", "stable_steps"]

Array = NDArray[np.float64]

_FIRST_ROWS = 1000
# Steps after which those of a stream of unknown length have halved.
_SLOW = 100.0
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


class FeatureSteps:
    r"""Automatic step sizes on random features, and the limit of stability.

    A Newton step on a batch moves the function there by step size times curvature of the way to
    the batch's optimum: half of it at first, nothing at the end where the number of steps is known.
    Plain steps take the largest stable one, :math:`\gamma_0 = 1 / (L \lambda_1)`, and then
    :math:`\gamma_t = \gamma_0 / (1 + \nu \gamma_0 t)`, which is the :math:`1 / (\nu t)` of
    DSG, Theorem 4, from where it is stable.

    Parameters
    ----------
    automatic : AutomaticStep
        Bound, top eigenvalue and boldness.
    curvature : float
        Curvature L of the objective.
    mode : {"newton", "faithful", "cyclic"}
        Kind of step.
    regularization : float
        Ridge parameter nu.
    n_rows, n_features : int
        Of a step and of its block.
    unbounded : bool
        Whether slopes are unbounded, so that too large steps really diverge.
    """

    def __init__(
        self,
        automatic: AutomaticStep,
        curvature: float,
        mode: str,
        regularization: float,
        n_rows: int,
        n_features: int,
        unbounded: bool,
    ) -> None:
        self.mode, self.regularization, self.unbounded = mode, regularization, unbounded
        self.curvature = curvature
        self.top_eigenvalue = automatic.top_eigenvalue
        # The features of a block are a sample, just as the rows of a batch are.
        self._plain = float(automatic.of_batch(min(n_rows, n_features)))
        self._plain *= automatic.curvature / curvature

    def __call__(self, t: int, n_steps: int | None, whole: bool) -> float:
        """Size of step ``t`` of ``n_steps`` (None: unknown); ``whole``: it sees all rows."""
        if self.mode == "cyclic":
            return 1.0 if whole else self._fading(0.5, t, n_steps)
        if self.mode == "newton":
            return self._fading(0.5 / self.curvature, t, n_steps)
        size = self._plain / (1.0 + self.regularization * self._plain * t)
        return min(size, 0.5 / self.regularization) if self.regularization > 0.0 else size

    def _fading(self, first: float, t: int, n_steps: int | None) -> float:
        if n_steps is None:
            return first / (1.0 + t / _SLOW)
        return first * max(1.0 - t / (n_steps + 1.0), 1.0 / (n_steps + 1.0))

    def largest(self) -> float:
        """Largest step size that is safe."""
        return self(1, None, False)

    def _limit(self) -> float:
        if self.mode == "cyclic":
            return 2.0
        return 2.0 / (self.curvature * (self.top_eigenvalue if self.mode == "faithful" else 1.0))

    def limit(self) -> str:
        """Say where the limit of stability is."""
        eigenvalue = ""
        if self.mode == "faithful":
            eigenvalue = f" and the kernel's top eigenvalue {self.top_eigenvalue:.3g}"
        return (
            f"In mode {self.mode!r} steps are stable up to {self._limit():.3g}, for the loss's "
            f"curvature {self.curvature:.3g}{eigenvalue}."
        )

    def check(self, step_size: float) -> None:
        """Refuse a first step that is bound to diverge.

        Raises
        ------
        ValueError
            If it is, with the limit.
        """
        # The eigenvalue is that of a sample.
        slack = 1.5 if self.mode == "faithful" else 1.0
        if self.unbounded and step_size > slack * self._limit():
            raise ValueError(
                f"`step_size` {step_size:.3g} is beyond the limit of stability. {self.limit()} Use "
                f"{self.largest():.3g}, or 'auto'."
            )


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
