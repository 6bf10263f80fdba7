"""Newton steps on rows: the loop of an objective on a fixed set of features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer import records
from mercer.exceptions import DivergenceError
from mercer.learning.elsewhere import MOST_STEPS, StepsElsewhere
from mercer.learning.learner import Array, Record
from mercer.learning.loop import cut_pass
from mercer.learning.regression_targets import (
    begins_with_regression,
    newton_curvature,
    regression_scale,
    regression_targets,
    usual_size,
    winsorised,
)
from mercer.learning.step_sizes import AutomaticStep
from mercer.objectives import Batch, Objective, Pointwise
from mercer.records import Recorded, State
from mercer.sums import (
    Basis,
    Blocks,
    FeatureTable,
    NewtonSteps,
    RidgeStream,
    Rows,
    Statistics,
)
from mercer.sums.newton import products_with
from mercer.validation import positive, real

Floats = NDArray[np.floating[Any]]

# Rows of a step, if a batch has less: half a row for each feature, but at least so many.
_ROWS_PER_STEP = 256
# Rows that the regression is on with which learning begins; the steps see all.
_ROWS_PER_FEATURE, _FIRST_ROWS = 15, 20_000
# Regressions with another loss than the squared one descend on them: steps with each width of the
# smoothing, in units of the mean absolute residual, and bytes that the features may take.
_DESCENT, _QUICK_DESCENT, _WIDTHS, _FEATURE_BYTES = 15, 5, (1.0, 0.3, 0.1), 600_000_000
_VALUES = 4  # that steps have in memory for a row and an output
_BLOCK = 8192
# Of steps on rows that lie elsewhere: rows for each feature, at least, and lengths that are tried
# until one does not overshoot, each half of the one before.
_ROWS_ELSEWHERE, _HALVINGS = 16, 12
# Rows that residuals and losses are measured on.
_JUDGES = 2000
# Where slopes are looked up, in widths from a value: midpoints of equal parts.
_PLACES = (-0.8, -0.4, 0.0, 0.4, 0.8)


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
            Whether targets far out may be winsorised, if the loss is lower then.
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
        clipped = winsorised(targets, rows.weights) if robust else targets
        if (clipped != targets).any():
            # Rows far out are wrong, or right and rare: the loss tells which.
            fit = min(fit, solved(clipped), key=loss)
        start, stream = fit
        few = rows[:_JUDGES]
        residuals = np.abs(basis.features(few.X) @ start - targets[: len(few)])
        if robust:
            residual = usual_size(residuals, few.weights)
        else:
            residual = float(np.average(residuals, axis=0, weights=few.weights).mean())
        return cls(regression_scale(objective) * start, stream.ridge, residual, stream.all_sums())


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


class Settings(NamedTuple):
    """What learning on a fixed set of features needs to know.

    Attributes
    ----------
    ridges : tuple of float
        Ridge parameters of the objective that are raced.
    forgetting : float
        Factor by which a row's weight falls with each row after it.
    averaging : float or None
        Exponent of the averages of a stream.
    batch_size : int
        Rows of the smallest step.
    fallback : float
        Curvature where the objective has none.
    step_size : callable or AutomaticStep
        Step number to step size in units of the longest one that is safe.
    largest_loss : callable
        Targets and weights to the loss beyond which a run has diverged.
    diverged : callable
        Step size to the error of a run that has diverged.
    """

    ridges: tuple[float, ...]
    forgetting: float
    averaging: float | None
    batch_size: int
    fallback: float
    step_size: Any
    largest_loss: Callable[[Array, Array], float]
    diverged: Callable[[float], DivergenceError]


class SlopesOf(NamedTuple):
    """Rows, their losses and the gradient in the coefficients: :class:`mercer.learning.Ask`.

    Losses are summed with and without weights; the gradient is left out if only they are asked.
    """

    objective: Objective
    basis: Basis
    with_gradient: bool = True

    def __call__(self, rows: Rows, coefficients: Array) -> list[Array]:
        """Return the sums for these rows."""
        n = len(rows)
        gradient = np.zeros_like(coefficients) if self.with_gradient else np.zeros(0)
        if not n:
            return [np.zeros(3), gradient]
        Z = self.basis.features(rows.X)
        values = NewtonSteps.values(Z, coefficients)
        with np.errstate(over="ignore", invalid="ignore"):  # found by who asks
            slopes, losses = self.objective.slopes(values, Batch(*rows.arrays))
            if self.with_gradient:
                # Slopes are in shares of the rows that are asked together.
                gradient = n * products_with(Z, slopes)
            return [np.array([n, losses.sum(), losses @ rows.weights]), gradient]


def cut_steps(n_rows: int, batch_size: int, n_features: int) -> list[int]:
    """Where the Newton steps of a pass begin, and its end; they are of about equal size.

    Rows of short steps would count more than others.
    """
    n = rows_per_step(batch_size, n_features) // batch_size
    units = cut_pass(-(-n_rows // batch_size), n, exact=False)
    return [*(batch_size * start for start in units[:-1]), n_rows]


def rows_per_step(batch_size: int, n_features: int) -> int:
    """Rows of a Newton step: a multiple of the batch, for so many features."""
    return batch_size * -(-max(_ROWS_PER_STEP, n_features // 2) // batch_size)


def descent_rows(batch_size: int, n_features: int, n_outputs: int) -> int:
    """Rows, at most, that whole steps are made on."""
    fit_in_memory = _FEATURE_BYTES // (8 * (n_features + _VALUES * n_outputs))
    return max(rows_per_step(batch_size, n_features), fit_in_memory)


def regressed_rows(n_features: int) -> int:
    """Rows, at most, of the regression that learning begins with."""
    return max(_ROWS_PER_FEATURE * n_features, _FIRST_ROWS)


class NewtonRows(Recorded):
    """An objective on a fixed set of features, learned by Newton steps.

    Parameters
    ----------
    objective : Objective
        What is minimised; its own scalars move with the steps.
    basis : Basis
        The features.
    n_outputs : int
        Components of the function.
    settings : Settings
        Everything else.
    """

    _record = records.Record(
        ridge=real(low=0.0), curvature=positive(), steps=State(), _waiting=Blocks()
    )

    def __init__(
        self, objective: Objective, basis: Basis, n_outputs: int, settings: Settings
    ) -> None:
        self.objective, self.basis = objective, basis
        self.n_outputs, self.settings = n_outputs, settings
        self.ridge = settings.ridges[0]
        self.curvature = 1.0
        self.steps = self._new_steps()
        self.n_descended = 0  # rows that whole steps were made on
        self._waiting: list[Rows] = []

    def _new_steps(self) -> NewtonSteps:
        s = self.settings
        return NewtonSteps(self.basis, self.n_outputs, self.curvature, s.averaging, s.forgetting)

    @property
    def n_first_rows(self) -> int:
        """Rows that :meth:`begin` can make use of."""
        if self.descends:
            return descent_rows(self.settings.batch_size, self.basis.size, self.n_outputs)
        return regressed_rows(self.basis.size)

    @property
    def rows_per_step(self) -> int:
        """Rows of a step, a multiple of the batch."""
        return rows_per_step(self.settings.batch_size, self.basis.size)

    def solve(self) -> Array:
        """Coefficients to predict with, (n_features, n_outputs)."""
        return self.steps.mean

    # -- the beginning --------------------------------------------------------------------------

    def begin(self, rows: Rows, *, quickly: bool = False) -> None:
        """Take the curvature, the ridge and the first function from some rows.

        Parameters
        ----------
        rows : Rows
            The rows; not all of them need be used.
        quickly : bool, default=False
            Whether fewer whole steps will do, for a single prediction.
        """
        basis = self.basis
        if self.descends:
            rows = rows[: self.n_first_rows]
            basis = FeatureTable(basis, rows.X)
            rows = replace(rows, X=basis.numbers)
        first = FirstFit.of(
            self.objective,
            basis,
            rows,
            self.n_outputs,
            self.settings.ridges,
            forgetting=self.settings.forgetting,
            robust=self.descends and self.objective.lipschitz is not None,
        )
        residual = None if first is None else first.residual
        self.curvature = newton_curvature(self.objective, self.settings.fallback, residual)
        if first is not None and len(self.settings.ridges) > 1:
            # Relative to the curvature: a multiple of an objective has the same minimum.
            self.ridge = first.ridge * self.curvature
        # Weights count as rows: the ridge is that of their mean.
        self.ridge *= float(rows.weights.mean()) or 1.0
        self.steps = self._new_steps()
        if first is not None:
            self.steps.start(first.coefficients)
        if first is not None and isinstance(basis, FeatureTable):
            self.steps.take_bound(first.sums, len(rows))
            n_steps = _QUICK_DESCENT if quickly else _DESCENT
            self._descend(basis.values, rows, first.residual, n_steps)
        else:
            self._bound(basis, rows)

    @property
    def descends(self) -> bool:
        """Whether the first rows are learned by steps on all of them at once."""
        s = self.settings
        return descends(self.objective, self.n_outputs, s.step_size, s.forgetting)

    def _descend(self, Z: Floats, rows: Rows, residual: float, n_steps: int) -> None:
        """Find the minimum on the rows of the bound, with less and less smoothing."""
        objective, steps = self.objective, self.steps
        batch = Batch(*rows.arrays)
        widths = _WIDTHS if objective.lipschitz is not None else (1.0,) * len(_WIDTHS)
        for share in widths:
            width = share * residual
            steps.set_curvature(newton_curvature(objective, self.settings.fallback, width))
            slopes = SmoothedSlopes(objective, batch, width)
            steps.descend(Z, slopes, self.ridge, n_steps)
        if not np.isfinite(steps.iterate).all():
            raise self.settings.diverged(1.0)
        self.n_descended = len(rows)
        steps.restart_stream(n_steps * len(widths))
        steps.set_curvature(self.curvature)

    def _losses(self, basis: Basis, rows: Rows, coefficients: Array) -> Array:
        values = self.steps.values(basis.features(rows.X), coefficients)
        return self.objective.losses_of(values, Batch(*rows.arrays))

    def _bound(self, basis: Basis, rows: Rows) -> None:
        """Sum up the bound of the Hessian."""
        # An objective of pairs fills its buffer on the way: let a copy do that.
        objective, n = copy.deepcopy(self.objective), self.rows_per_step
        for start in range(0, len(rows), n):
            if not self.steps.wants_points:
                break
            batch = Batch(*rows[start : start + n].arrays)
            points = objective.points(batch)
            Z = basis.features(points)
            self.steps.add_points(Z, objective.steepness(batch, len(points)))
            objective.update(np.zeros((len(points), self.n_outputs)), batch, 0.0)

    # -- learning -------------------------------------------------------------------------------

    def passes(
        self,
        take: Callable[[NDArray[np.int64]], Rows],
        orders: Sequence[NDArray[np.int64]],
        note: Callable[[Record], bool],
    ) -> None:
        """Visit rows again and again, with steps that fall to 0.

        Parameters
        ----------
        take : callable
            Numbers of rows to the rows.
        orders : sequence of ndarray of int
            The rows of each pass, in order.
        note : callable
            Told what every step did; a true result stops.
        """
        if self.n_descended >= orders[0].size:  # the minimum on all rows
            for start in range(0, self.n_descended, _BLOCK):
                rows = take(orders[0][start : start + _BLOCK])
                loss = float(self._losses(self.basis, rows, self.steps.iterate).sum())
                if note(Record(len(rows), loss, 1.0, self.objective.measured())):
                    break
            return
        cut = self.cut(orders[0].size)
        total = len(orders) * (len(cut) - 1)
        done, stopped = 0, False
        for order in orders:
            for start, stop in pairwise(cut):
                share = self._share(1.0 - done / total)
                record = self._step(take(order[start:stop]), share, stream=False)
                done += 1
                stopped = note(record)
                if stopped:
                    break
            if stopped:
                break
        self.steps.restart_stream(len(cut) - 1)

    def cut(self, n_rows: int) -> list[int]:
        """Where the steps of a pass begin, and its end."""
        return cut_steps(n_rows, self.settings.batch_size, self.basis.size)

    def steps_elsewhere(self, n_rows: int) -> int:
        """Return how many steps a pass over rows has that lie elsewhere: few, on many rows each."""
        return max(1, min(MOST_STEPS, n_rows // (_ROWS_ELSEWHERE * self.basis.size)))

    def longest(self, rows: Rows) -> float:
        """Size of the longest step on rows such as these, and no fewer, that does not overshoot."""
        some = rows[: _ROWS_ELSEWHERE * self.basis.size]
        return self.steps.largest_step(self.basis.features(some.X), some.weights, self.ridge)

    def passes_elsewhere(
        self, rows: StepsElsewhere, held: Rows, n_passes: int, longest: float
    ) -> Iterator[Record]:
        """Visit rows that lie elsewhere, with steps that fall to 0.

        Parameters
        ----------
        rows : StepsElsewhere
            The rows.
        held : Rows
            Further rows, which are at hand.
        n_passes : int
            How often.
        longest : float
            Size of the longest step; shorter ones are made where its rows' loss would rise.

        Yields
        ------
        record : Record
            What a step did.
        """
        ask, total = SlopesOf(self.objective, self.basis), n_passes * rows.n_steps
        ask_loss = ask._replace(with_gradient=False)

        for done in range(total):
            step, before = done % rows.n_steps, self.steps
            (n, losses, weighted), gradient = rows.total(step, ask, before.iterate, held)
            if not n:
                continue
            start = weighted / n + before.penalty(self.ridge)
            share = self._share(1.0 - done / total)
            if not (np.isfinite(start) and np.isfinite(gradient).all()):
                raise self.settings.diverged(longest * share)
            # The sample may not have seen how heavy or steep these rows are: they tell.
            for size in longest * share * 0.5 ** np.arange(_HALVINGS):
                self.steps = before.copy()
                self.steps.step(gradient / n, size, self.ridge)
                if np.isfinite(self.steps.iterate).all():
                    (*_, weighted), _ = rows.total(step, ask_loss, self.steps.iterate, held)
                    if weighted / n + self.steps.penalty(self.ridge) <= start:
                        longest = min(longest, 2.0 * size / share)
                        break
            else:  # as good as it can be
                self.steps, size = before.copy(), 0.0
            yield Record(int(n), float(losses), float(size), self.objective.measured())
        self.steps.restart_stream(rows.n_steps)

    def learn(self, rows: Rows) -> list[Record]:
        """Learn rows of a stream; those too few for a step wait for more."""
        self._waiting.append(rows.own())
        n = self.rows_per_step
        records: list[Record] = []
        size = sum(map(len, self._waiting))
        if size < n:
            return records
        rows = Rows.joined(self._waiting)
        for start in range(0, size - n + 1, n):
            share = self._share(self.steps.falling(n))
            records.append(self._step(rows[start : start + n], share, stream=True))
            self.steps.average(n)
        left = size % n
        self._waiting = [rows[size - left :].own()] if left else []
        return records

    def _share(self, automatic: float) -> float:
        """Size of the next step in units of the longest that is safe."""
        schedule = self.settings.step_size
        if isinstance(schedule, AutomaticStep):
            return automatic
        size = float(schedule(self.steps.n_steps + 1))
        if not 0.0 < size <= 2.0:
            raise ValueError(
                f"`step_size` must be above 0 and at most 2 here, got {size!r} at step "
                f"{self.steps.n_steps + 1}: steps on a fixed dictionary are counted in units of "
                "the longest one that does not overshoot. Use 1, a falling schedule, or 'auto'."
            )
        return size

    def _step(self, rows: Rows, share: float, *, stream: bool) -> Record:
        objective, steps = self.objective, self.steps
        batch = Batch(*rows.arrays)
        points = objective.points(batch)
        Z = self.basis.features(points)
        values = steps.values(Z, steps.iterate)
        if objective.needs_previous:
            batch = batch._replace(previous=steps.values(Z, steps.before))
        with np.errstate(over="ignore", invalid="ignore"):  # found, and said, below
            slopes, losses = objective.slopes(values, batch)
        largest = self.settings.largest_loss(rows.targets, rows.weights)
        if not (np.isfinite(slopes).all() and losses.max() <= largest):
            raise self.settings.diverged(share)
        weights = objective.steepness(batch, len(points))
        if stream and steps.wants_points:
            steps.add_points(Z, weights)
        size = share * steps.largest_step(Z, weights, self.ridge)
        mixing = objective.mixing(size, 0.0, self.n_outputs)
        rate = 1.0 if mixing is None else float(getattr(objective, "direction_rate", 1.0))
        # Scalars of the objective's own move as far as the function's values do.
        unit = float(getattr(objective, "unit", 1.0))
        objective.update(values, batch, size / (self.curvature * unit))
        steps.step(products_with(Z, slopes), size, self.ridge, mixing, rate)
        if not np.isfinite(steps.iterate).all():
            raise self.settings.diverged(size)
        return Record(len(rows), float(losses.sum()), size, objective.measured())

    # -- outputs and state ----------------------------------------------------------------------

    def map_outputs(
        self, mixing: Array, objective: Objective, relabel: Callable[[Array], Array]
    ) -> None:
        """Replace the outputs f by f @ ``mixing``, and go on with another objective."""
        self.objective, self.n_outputs = objective, mixing.shape[1]
        self._waiting = [replace(r, targets=relabel(r.targets)) for r in self._waiting]
        self.steps = self.steps.copy()
        self.steps.map_outputs(mixing)

    def copy(self) -> Self:
        """Copy that may go another way; the objective is the same."""
        other = copy.copy(self)
        other.steps, other._waiting = self.steps.copy(), list(self._waiting)
        return other

    def _adopt(self, values: dict[str, Any]) -> None:
        steps = self._new_steps()
        steps.restore(values.pop("steps"))
        super()._adopt(values)
        self.steps = steps
