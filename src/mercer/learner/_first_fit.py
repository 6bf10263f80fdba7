"""The regression that Newton steps begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from mercer.learner._base import Array
from mercer.learner._codes import (
    drawn_in,
    newton_curvature,
    regression_scale,
    regression_targets,
    usual_size,
)
from mercer.objectives import Batch, Objective
from mercer.sums import Basis, RidgeStream, Rows, Statistics

__all__ = ["FirstFit"]

# Rows that residuals and losses are measured on.
_JUDGES = 2000


class FirstFit(NamedTuple):
    """A regression on the targets of a loss, in place of the loss.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features, n_outputs)
        Where steps begin.
    ridge : float
        The one chosen.
    residual : float
        Weighted mean absolute residual.
    sums : Statistics
        Over the rows of positive weight.
    """

    coefficients: Array
    ridge: float
    residual: float
    sums: Statistics

    @classmethod
    def of(
        cls,
        objective: Objective,
        basis: Basis,
        rows: Rows,
        n_outputs: int,
        ridges: Sequence[float],
        *,
        forgetting: float,
        robust: bool,
    ) -> Self | None:
        """Fit rows; None where the objective has no targets that a regression can be on.

        Parameters
        ----------
        objective : Objective
            What is minimised.
        basis : Basis
            The features.
        rows : Rows
            With the targets of the objective.
        n_outputs : int
            Of the function.
        ridges : sequence of float
            In units of the objective; several are raced in units of the squared error.
        forgetting : float
            Factor by which a row's weight falls with each row after it.
        robust : bool
            Whether targets far out may be drawn in, if the loss is lower then.
        """
        rows = rows[rows.weights > 0.0]  # others leave no trace
        targets = regression_targets(objective, rows.targets, n_outputs)
        if targets is None or not len(rows):
            return None
        if len(ridges) == 1:  # in units of the squared error, whose curvature is 1
            ridges = [ridges[0] / newton_curvature(objective, 1.0, None)]

        def solved(targets: Array) -> tuple[Array, RidgeStream]:
            stream = RidgeStream(basis, n_outputs, ridges, forgetting)
            stream.add(replace(rows, targets=targets))
            return stream.solve(), stream

        def loss(fit: tuple[Array, RidgeStream]) -> float:
            last = rows[-_JUDGES:]
            values = basis.features(last.X).astype(np.float64) @ fit[0]
            return float(objective.losses_of(values, Batch(*last.arrays)).sum())

        fit = solved(targets)
        drawn = drawn_in(targets, rows.weights) if robust else targets
        if (drawn != targets).any():
            # Rows far out are wrong, or right and rare: the loss tells which.
            fit = min(fit, solved(drawn), key=loss)
        start, stream = fit
        few = rows[:_JUDGES]
        residuals = np.abs(basis.features(few.X) @ start - targets[: len(few)])
        if robust:
            residual = usual_size(residuals, few.weights)
        else:
            residual = float(np.average(residuals, axis=0, weights=few.weights).mean())
        return cls(regression_scale(objective) * start, stream.ridge, residual, stream.sums())
