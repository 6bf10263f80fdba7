"""What batches of rows allow, and the unit of automatic tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.objectives import Objective

__all__ = ["FirstRows", "stable_steps", "steps_of_batch"]

Array = NDArray[np.float64]

_FIRST_ROWS = 1000
# 2 is the limit of stability on the rows of one batch.
_MARGIN = 1.5


def stable_steps(
    objective: Objective,
    kernel: Kernel,
    curvature: float,
    rows_per_step: NDArray[np.int64],
    X: Any,
    targets: Array,
    weights: Array,
) -> Array:
    """Largest step of each batch that cannot overshoot on its own rows.

    Rows of one batch that resemble each other add up, and so do weights; the top eigenvalue of
    a sample does not know. The row sums of the batch's Gram matrix bound its eigenvalues, unless
    the objective knows better (:meth:`Objective.batch_rate`).
    """
    root = np.sqrt(weights)
    if rows_per_step.max() == 1:
        sums = np.asarray(kernel.diag(X), dtype=np.float64) * weights
        return np.asarray(1.0 / (curvature * np.maximum(sums, 1e-300)))
    stable, start = np.empty(rows_per_step.size), 0
    for step, n in enumerate(rows_per_step):
        rows = slice(start, start + n)
        gram = np.asarray(kernel(X[rows]), dtype=np.float64)
        rate = objective.batch_rate(gram, targets[rows], weights[rows])
        if rate is None:
            gram = np.abs(gram) * np.outer(root[rows], root[rows])
            rate = float(gram.sum(axis=1).max()) * curvature / n
        stable[step] = _MARGIN / max(rate, 1e-300)
        start += n
    return stable


def steps_of_batch(
    objective: Objective, kernel: Kernel, X: NDArray[np.floating], targets: Array, weights: Array
) -> float:
    """Largest step that cannot overshoot on its rows where the objective knows; else infinity."""
    if type(objective).batch_rate is Objective.batch_rate:
        return float("inf")
    gram = np.asarray(kernel(X), dtype=np.float64)
    rate = objective.batch_rate(gram, targets, weights)
    return float("inf") if rate is None else _MARGIN / max(rate, 1e-300)


@dataclass
class FirstRows:
    """Slopes and losses at f = 0 of the first 1,000 rows that have a slope.

    Attributes
    ----------
    n_rows : int
        Rows noted so far that have a slope.
    squares : float
        Sum of their squared slopes.
    loss : float
        Largest mean loss of a call among them, or so far (:attr:`Objective.rows_per_slope`).
    n_counted : int
        Rows over which the mean of the squares is taken.
    """

    n_rows: int = 0
    squares: float = 0.0
    loss: float = 0.0
    n_counted: int = 0

    @property
    def slope(self) -> float:
        """Root mean square of the slopes, the unit of automatic tolerances."""
        return float(np.sqrt(self.squares / self.n_counted)) if self.n_counted else 0.0

    @property
    def seen(self) -> bool:
        """Whether enough rows were seen."""
        return self.n_rows >= _FIRST_ROWS

    def look(self, objective: Objective, n_outputs: int, targets: Array, weights: Array) -> None:
        """Note rows that come next in the stream."""
        if self.seen:
            return
        every = objective.rows_per_slope
        n = weights.size
        # What overflows is found, and said, by the loop.
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, losses = objective.at_zero(targets, weights, n_outputs)
            squares = np.sum((slopes * n) ** 2, axis=1)
        self.loss = max(self.loss, float(np.abs(losses).mean()))
        finite = np.isfinite(squares)
        sloping = np.flatnonzero(finite & (squares > 0.0))[: _FIRST_ROWS - self.n_rows]
        self.n_rows += sloping.size
        self.squares += float(squares[sloping].sum())
        if every is None:
            self.n_counted = self.n_rows
        else:
            looked = n if not self.seen else int(sloping[-1]) + 1
            self.n_counted += -(-int(np.sum(finite[:looked])) // every)
