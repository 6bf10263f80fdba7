"""Targets that components learn by least squares, and the correction to the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.default.means import has_mean
from mercer.kernels import Kernel
from mercer.learning.regression_targets import (
    begins_with_regression,
    outlying_from,
    regression_targets,
    usual_size,
    weighted_medians,
)
from mercer.losses import AbsoluteError, Loss, Squared, loss_and_slopes
from mercer.objectives import Compositional, Objective, Pointwise
from mercer.records import Maybe, Numbers, Part, Record, Recorded
from mercer.risks import Risk
from mercer.selection import left_out_by_pilot, pilot_kernel
from mercer.sums import Correction, Rows, coded_rows, targets_of_codes
from mercer.validation import real

Array = NDArray[np.float64]

# Rows that decide on limits for outliers, and the fewest that may decide.
_ROWS, _FEWEST = 2000, 30
# Gains, in standard errors, from which limits are used. On eight tables of prices, speeds and the
# like (two draws of 2,000 rows each), limits around the median gain at most 2, and limits around a
# function at most 6. If a tenth of the targets are wrong by much, they gain 5 to 40.
_SURE_OF_WIDE, _SURE_OF_CLOSE = 4.0, 7.0
_TINY, _ROUNDING = 1e-300, 1e-9
# Limits are dropped once the share of targets outside is so many times the share at the start, or
# so many times the least share.
_DRIFT, _LEAST_OUTSIDE = 2.0, 0.02


class _Reach(Numbers):
    """Distances in files: infinity (no limit) is written as -1."""

    def written(self, value: Any) -> Any:
        return np.where(np.isfinite(value), value, -1.0)

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Array:
        found = super().read(name, value, sizes)
        return np.where(found < 0.0, np.inf, found)


@dataclass(frozen=True, eq=False)
class Limits(Recorded):
    """Limits around a rough location that targets are clipped to, against outliers.

    Attributes
    ----------
    location : Correction
        Centre of the limits as a function of the inputs: the correction of the value 0.
    reach : ndarray of shape (n_targets,)
        Largest distance from the centre; targets beyond it are clipped.
    outside : float
        Share of the rows beyond the limits when these were found.
    """

    location: Correction
    reach: Array
    outside: float = 0.0

    _record = Record(
        location=Part(Correction, "n_features", n_values="n_targets", n_scores="n_targets"),
        reach=_Reach("n_targets"),
        outside=real(low=0.0, high=1.0),
    )

    def __call__(self, rows: Rows) -> Rows:
        """Return rows with targets clipped to the limits."""
        centre = self.location(rows.X, np.zeros_like(rows.targets))
        targets = np.clip(rows.targets, centre - self.reach, centre + self.reach)
        return replace(rows, targets=targets)

    @classmethod
    def around(cls, location: Correction, rows: Rows) -> Limits:
        """Return limits at six times the median distance of targets from a location."""
        centre = location(rows.X, np.zeros_like(rows.targets))
        usual = weighted_medians(np.abs(rows.targets - centre), rows.weights)
        found = cls(location, outlying_from(usual))
        return replace(found, outside=found.share_outside(rows))

    def share_outside(self, rows: Rows) -> float:
        """Return the share of rows with a target that is clipped."""
        return float(np.mean((self(rows).targets != rows.targets).any(axis=1)))


class LearnedTargets(Recorded):
    """Targets as components learn them: numbers (logarithms of counts), or codes of classes.

    Parameters
    ----------
    objective : Pointwise or Compositional
        Mean of a loss, or a risk of it.
    n_outputs : int
        Number of scores of the loss.

    Attributes
    ----------
    unit : ndarray of shape (n_targets,)
        Unit of each target in which errors are compared.
    limits : Limits or None
        Limits that numbers are clipped to, so that outliers do not spoil their mean.

    Raises
    ------
    ValueError
        If the scores of the loss are in other units than targets.
    """

    _record = Record(
        unit=Numbers("n_targets", above=0.0),
        limits=Maybe(Part(Limits, "n_features", "n_targets")),
    )

    def __init__(self, objective: Objective, n_outputs: int) -> None:
        if not isinstance(objective, Pointwise | Compositional):
            raise ValueError(
                "The default expansion learns the mean of a loss, or a risk of it, by sums over "
                f"rows, got the objective {type(objective).__name__}. Use "
                "expansion='dictionary', 'komp' or 'random_features'."
            )
        if objective.copies > 1:
            raise ValueError(
                "Tracker('nasa') averages directions of steps, and the default expansion makes "
                "none. Leave the tracker out, or use expansion='komp'."
            )
        if not begins_with_regression(objective, n_outputs):
            raise ValueError(
                f"The default expansion begins with least squares, but scores of "
                f"loss={objective.loss!r} are in other units than targets. Use "
                "expansion='dictionary' or 'komp'."
            )
        self.objective, self.n_outputs = objective, n_outputs
        self.unit = np.ones(self.n_targets)
        self.limits: Limits | None = None

    @property
    def loss(self) -> Loss:
        """The loss of the objective."""
        return self.objective.loss

    @property
    def corrects(self) -> bool:
        """Whether a correction is needed: the minimiser is neither a mean nor scores of classes."""
        return self.risk is not None or not (self.are_codes or isinstance(self.loss, Squared))

    @property
    def of_mean(self) -> bool:
        """Whether predictions are means of numbers, or probabilities of classes."""
        return self.risk is None and has_mean(self.loss)

    @property
    def risk(self) -> Risk | None:
        """The risk of the loss that is minimised; None if its mean is."""
        return self.objective.risk if isinstance(self.objective, Compositional) else None

    @property
    def stacked_by(self) -> Loss:
        """The loss that the weights of components minimise."""
        return self.loss if self.are_codes else Squared()

    @property
    def are_codes(self) -> bool:
        """Whether targets are codes of classes."""
        return self.loss.task == "classification"

    @property
    def n_targets(self) -> int:
        """Number of columns of the targets that components learn."""
        return self.n_outputs if self.are_codes else self.loss.target_width(self.n_outputs)

    def __call__(self, rows: Rows) -> Rows:
        """Return rows with the targets that components learn."""
        if self.are_codes or isinstance(self.loss, Squared):
            return rows
        numbers = regression_targets(self.objective, rows.targets, self.n_targets)
        assert numbers is not None
        learned = replace(rows, targets=numbers)
        return learned if self.limits is None else self.limits(learned)

    def measure(self, rows: Rows) -> None:
        """Set the limits, and the unit of each target, with which all targets count alike.

        Parameters
        ----------
        rows : Rows
            Rows in random order.
        """
        self.unit, self.limits = np.ones(self.n_targets), None
        if not self.are_codes and self.loss.lipschitz is not None:
            self.limits = limits_of(self(rows))
        if self.loss.task == "regression" and self.n_targets > 1:
            deviations = self(rows).targets.std(axis=0)
            self.unit = np.where(deviations > 0.0, deviations, 1.0)

    def in_units(self, rows: Rows) -> Rows:
        """Divide the learned targets of rows by their units."""
        return rows.map_targets(np.diag(1.0 / self.unit), np.zeros(self.n_targets))

    def correction(
        self, held: Rows, targets: Array, values: Array, kernel: Kernel | None
    ) -> Correction:
        """Fit the correction that maps predictions for held out rows to the least loss.

        Parameters
        ----------
        held : Rows
            The held out rows.
        targets : ndarray of shape (n, n_targets)
            Their targets as components learn them.
        values : ndarray of shape (n, n_targets)
            Predictions of the weighted components.
        kernel : Kernel or None
            Kernel of the inputs.
        """
        missed = [
            usual_size(residuals[:, np.newaxis], held.weights) or _ROUNDING * (size or 1.0)
            for residuals, size in zip(
                np.abs(values - targets).T, np.abs(targets).max(axis=0), strict=True
            )
        ]
        return Correction.fitted(
            replace(held, targets=targets_of_codes(self.loss, held.targets)),
            values,
            self.loss,
            self.n_outputs,
            risk=self.risk,
            unit=float(np.mean(missed)) if self.are_codes else np.array(missed),
            kernel=kernel,
        )

    def follow(self, rows: Rows) -> None:
        """Drop the limits if many more targets lie outside than before: the stream has drifted."""
        if self.limits is None:
            return
        limits, self.limits = self.limits, None
        if limits.share_outside(self(rows)) < _DRIFT * max(limits.outside, _LEAST_OUTSIDE):
            self.limits = limits


@dataclass(frozen=True)
class Learnable:
    """Map from rows to rows as components learn them, to be used where the rows lie."""

    targets: LearnedTargets
    n_outputs: int
    dtype: Any

    def __call__(self, X: Any, targets: Array, weights: Array) -> Rows:
        """Return rows as components learn them, from inputs, encoded targets and weights."""
        loss, sizes = self.targets.loss, (self.n_outputs, self.dtype)
        return self.targets(coded_rows(loss, X, targets, weights, *sizes))


def limits_of(rows: Rows) -> Limits | None:
    """Find limits outside which targets are wrong, rather than right and rare.

    A pilot fit learns the targets three times: as they are, clipped to limits around their median,
    and clipped to limits around a function with the least absolute error. Limits are used if they
    lower the absolute error of its leave-one-out predictions by many standard errors. If targets
    are rare but right, limits lower it by a few standard errors at most.

    Parameters
    ----------
    rows : Rows
        Rows in random order, with the targets that are learned by least squares.

    Returns
    -------
    limits : Limits or None
        None if targets are not clipped.
    """
    rows = rows[:_ROWS]
    middle = weighted_medians(rows.targets, rows.weights)
    wide = Limits.around(Correction.constant(middle, rows.X.shape[1]), rows)
    if len(rows) < _FEWEST or (wide(rows).targets == rows.targets).all():
        return wide
    loss, n_targets = AbsoluteError(), middle.size

    def errors(learned: Rows) -> Array:
        values = left_out_by_pilot(learned)
        missed = usual_size(np.abs(values - rows.targets), rows.weights)
        h = Correction.fitted(rows, values, loss, n_targets, unit=missed or 1.0)
        return loss_and_slopes(loss, h(rows.X, values), rows.targets)[0]

    spread = usual_size(np.abs(rows.targets - middle), rows.weights)
    location = Correction.fitted(
        rows,
        np.zeros_like(rows.targets),
        loss,
        n_targets,
        unit=spread or 1.0,
        kernel=pilot_kernel(rows.X),
    )
    close = Limits.around(location, rows)
    given, of_wide, of_close = errors(rows), errors(wide(rows)), errors(close(rows))
    if max(_sure(given - of_wide) / _SURE_OF_WIDE, _sure(given - of_close) / _SURE_OF_CLOSE) < 1.0:
        return None
    return wide if of_wide.mean() < of_close.mean() else close


def _sure(gains: Array) -> float:
    """Return the mean of gains, in units of its standard error."""
    return float(gains.mean() / max(gains.std() / np.sqrt(gains.size), _TINY))
