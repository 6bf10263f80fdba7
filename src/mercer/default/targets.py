"""What components learn of the targets, by least squares, and what the loss makes of it."""

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

# Rows that tell what is far out, and how many there must be to tell.
_ROWS, _FEWEST = 2000, 30
# Standard errors from which limits are of use. Of eight tables of prices, speeds and the like, two
# draws of 2,000 rows each, those around the median help by 2 at most and those around a function by
# 6; where a tenth of the targets are wrong by much it is 5 to 40.
_SURE_OF_WIDE, _SURE_OF_CLOSE = 4.0, 7.0
_TINY, _ROUNDING = 1e-300, 1e-9
# Limits are given up once so many times more targets are outside than were, or than this share.
_DRIFT, _LEAST_OUTSIDE = 2.0, 0.02


class _Reach(Numbers):
    """Distances, of which no limit is infinite, and -1 in files."""

    def written(self, value: Any) -> Any:
        return np.where(np.isfinite(value), value, -1.0)

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Array:
        found = super().read(name, value, sizes)
        return np.where(found < 0.0, np.inf, found)


@dataclass(frozen=True, eq=False)
class Limits(Recorded):
    """How far from a rough location targets may be, so that wrong ones do not spoil a mean.

    Attributes
    ----------
    location : Correction
        Of the value 0: a function of the rows.
    reach : ndarray of shape (n_targets,)
        Distances beyond which targets are moved to them.
    outside : float
        Share of the rows beyond them when they were found.
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
        """Rows whose targets are within the limits."""
        centre = self.location(rows.X, np.zeros_like(rows.targets))
        targets = np.clip(rows.targets, centre - self.reach, centre + self.reach)
        return replace(rows, targets=targets)

    @classmethod
    def around(cls, location: Correction, rows: Rows) -> Limits:
        """Six usual distances from a location."""
        centre = location(rows.X, np.zeros_like(rows.targets))
        usual = weighted_medians(np.abs(rows.targets - centre), rows.weights)
        found = cls(location, outlying_from(usual))
        return replace(found, outside=found.share_outside(rows))

    def share_outside(self, rows: Rows) -> float:
        """Share of rows with a target that is moved."""
        return float(np.mean((self(rows).targets != rows.targets).any(axis=1)))


class LearnedTargets(Recorded):
    """Targets as components learn them: numbers (logarithms of counts), or codes of classes.

    Parameters
    ----------
    objective : Pointwise or Compositional
        Mean of a loss, or a risk of it.
    n_outputs : int
        Scores of the loss.

    Attributes
    ----------
    unit : ndarray of shape (n_targets,)
        Unit of each target in which errors are compared.
    limits : Limits or None
        Of numbers, lest outliers spoil their mean.

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
        """What is minimised."""
        return self.objective.loss

    @property
    def corrects(self) -> bool:
        """Whether something else is wanted than the mean of numbers, or scores of classes."""
        return self.risk is not None or not (self.are_codes or isinstance(self.loss, Squared))

    @property
    def of_mean(self) -> bool:
        """Whether what is predicted is a mean: of numbers, or the chances of classes."""
        return self.risk is None and has_mean(self.loss)

    @property
    def risk(self) -> Risk | None:
        """Risk of the loss that is minimised; None for its mean."""
        return self.objective.risk if isinstance(self.objective, Compositional) else None

    @property
    def stacked_by(self) -> Loss:
        """What the weights of components minimise."""
        return self.loss if self.are_codes else Squared()

    @property
    def are_codes(self) -> bool:
        """Whether they are codes of classes."""
        return self.loss.task == "classification"

    @property
    def n_targets(self) -> int:
        """Numbers, or codes of classes, that components learn."""
        return self.n_outputs if self.are_codes else self.loss.target_width(self.n_outputs)

    def __call__(self, rows: Rows) -> Rows:
        """Rows with the targets that are learned."""
        if self.are_codes or isinstance(self.loss, Squared):
            return rows
        numbers = regression_targets(self.objective, rows.targets, self.n_targets)
        assert numbers is not None
        learned = replace(rows, targets=numbers)
        return learned if self.limits is None else self.limits(learned)

    def measure(self, rows: Rows) -> None:
        """Set the limits and the unit of each target, so that none counts for more than another.

        Parameters
        ----------
        rows : Rows
            In random order.
        """
        self.unit, self.limits = np.ones(self.n_targets), None
        if not self.are_codes and self.loss.lipschitz is not None:
            self.limits = limits_of(self(rows))
        if self.loss.task == "regression" and self.n_targets > 1:
            deviations = self(rows).targets.std(axis=0)
            self.unit = np.where(deviations > 0.0, deviations, 1.0)

    def in_units(self, rows: Rows) -> Rows:
        """Rows whose learned targets are in their units."""
        return rows.map_targets(np.diag(1.0 / self.unit), np.zeros(self.n_targets))

    def correction(
        self, held: Rows, targets: Array, values: Array, kernel: Kernel | None
    ) -> Correction:
        """Take what components say of rows, which they have not learned, to the least loss.

        Parameters
        ----------
        held : Rows
            The rows.
        targets : ndarray of shape (n, n_targets)
            What components learn of them.
        values : ndarray of shape (n, n_targets)
            What components say.
        kernel : Kernel or None
            Of the inputs.
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
        """Give up limits outside which there are more and more targets: a stream has drifted."""
        if self.limits is None:
            return
        limits, self.limits = self.limits, None
        if limits.share_outside(self(rows)) < _DRIFT * max(limits.outside, _LEAST_OUTSIDE):
            self.limits = limits


@dataclass(frozen=True)
class Learnable:
    """What components learn of rows, wherever these are."""

    targets: LearnedTargets
    n_outputs: int
    dtype: Any

    def __call__(self, X: Any, targets: Array, weights: Array) -> Rows:
        """Rows with what is learned, of inputs, encoded targets and weights."""
        loss, sizes = self.targets.loss, (self.n_outputs, self.dtype)
        return self.targets(coded_rows(loss, X, targets, weights, *sizes))


def limits_of(rows: Rows) -> Limits | None:
    """Find limits outside which targets are wrong, rather than right and rare.

    A pilot learns the targets as they are, within limits around their median, and around a function
    that has the least absolute error. Limits are for good if what the pilot then says of rows that
    it left out has the lower absolute error by many standard errors; where targets are rare but
    right they help by a few at most.

    Parameters
    ----------
    rows : Rows
        In random order, with the targets that are learned by least squares.

    Returns
    -------
    limits : Limits or None
        None for none.
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
    """Mean in units of its standard error."""
    return float(gains.mean() / max(gains.std() / np.sqrt(gains.size), _TINY))
