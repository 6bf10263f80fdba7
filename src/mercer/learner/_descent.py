"""Slopes smoothed over a width, for regressions whose losses have kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.learner._refusals import begins_with_regression
from mercer.objectives import Batch, Objective, Pointwise
from mercer.planning import AutomaticStep

__all__ = ["SmoothedSlopes", "descends"]

Array = NDArray[np.float64]

# Where slopes are looked up, in widths from a value: midpoints of equal parts.
_PLACES = (-0.8, -0.4, 0.0, 0.4, 0.8)


def descends(objective: Objective, n_outputs: int, step_size: Any, forgetting: float) -> bool:
    """Whether rows that are at hand are learned by whole steps on all of them.

    That is so of means of losses of targets whose curvature or slopes are bounded, so that a step
    has a length, where all rows count the same and the size of steps is left open.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    n_outputs : int
        Components of the function.
    step_size : callable or AutomaticStep
        As of the learner.
    forgetting : float
        Factor by which a row's weight falls with each row after it.
    """
    if type(objective) is not Pointwise or objective.loss.task != "regression":
        return False
    bounded = objective.curvature is not None or objective.lipschitz is not None
    automatic = isinstance(step_size, AutomaticStep) and forgetting == 1.0
    return bounded and automatic and begins_with_regression(objective, n_outputs)


class SmoothedSlopes:
    """Derivatives of an objective at fixed rows, as a mean over values near by.

    The loss with these slopes is the mean of the loss moved by up to a width to both sides, whose
    curvature is at most the bound of the slopes divided by the width.

    Parameters
    ----------
    objective : Objective
        Mean of a loss.
    batch : Batch
        The rows.
    width : float
        How far values are moved; of losses with unbounded slopes they are not.
    """

    def __init__(self, objective: Objective, batch: Batch, width: float) -> None:
        self._objective, self._batch = objective, batch
        self._moves = [0.0]
        if objective.lipschitz is not None:
            self._moves = [place * width for place in _PLACES]

    def __call__(self, values: Array) -> Array:
        """Slopes at values, both of shape (n_rows, n_outputs)."""
        total = np.zeros_like(values)
        for move in self._moves:
            total += self._objective.slopes(values + move, self._batch)[0]
        return total / len(self._moves)
