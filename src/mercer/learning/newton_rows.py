"""Newton steps on rows, for any objective on a fixed set of features."""

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

# Fewest rows of a step, which also has at least half a row for each feature.
_ROWS_PER_STEP = 256
# Rows of the first least squares fit: so many per feature, but at least the second number. Steps
# use all rows.
_ROWS_PER_FEATURE, _FIRST_ROWS = 15, 20_000
# Descent of regressions with a loss other than squared error: number of steps for each width of
# smoothing (fewer for one prediction), widths in units of the mean absolute residual, and most
# bytes of features.
_DESCENT, _QUICK_DESCENT, _WIDTHS, _FEATURE_BYTES = 15, 5, (1.0, 0.3, 0.1), 600_000_000
_VALUES = 4  # numbers in memory per row and output during steps
_BLOCK = 8192
# For steps on rows that lie elsewhere: fewest rows of a step per feature, and most step sizes to
# try, each half of the one before, until a step does not overshoot.
_ROWS_ELSEWHERE, _HALVINGS = 16, 12
# Most rows on which residuals and losses are measured.
_JUDGES = 2000
# Offsets from a value, in widths, at which slopes are averaged: midpoints of equal parts.
_PLACES = (-0.8, -0.4, 0.0, 0.4, 0.8)


class FirstFit(NamedTuple):
    """Least squares fit to the targets of a loss, from which steps on the loss begin.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features, n_outputs)
        Coefficients at which steps begin.
    ridge : float
        Ridge that was chosen.
    residual : float
        Weighted mean absolute residual.
    sums : Statistics
        Sums over the rows of positive weight.
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
        """Fit rows; return None if the objective has no targets for least squares.

        Parameters
        ----------
        objective : Objective
            Objective to minimise.
        basis : Basis
            Basis of the features.
        rows : Rows
            Rows with the targets of the objective.
        n_outputs : int
            Number of outputs of the function.
        ridges : sequence of float
            One ridge in units of the objective, or several in units of the squared error, of which
            the best is chosen.
        forgetting : float
            Factor by which the weight of a row falls with each row after it.
        robust : bool
            Whether to winsorise outlying targets if that lowers the loss.
        """
        rows = rows[rows.weights > 0.0]  # rows of weight 0 are ignored
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
            # Outliers are wrong, or right and rare: the loss of the two fits tells which.
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
    """Whether rows in memory are learned by full Newton steps on all of them.

    This needs the mean of a regression loss whose curvature or slopes are bounded, so that the size
    of a step is known. Step sizes must be automatic, and old rows must not be forgotten.

    Parameters
    ----------
    objective : Objective
        Objective to minimise.
    n_outputs : int
        Number of outputs of the function.
    step_size : callable or AutomaticStep
        Step size of the learner.
    forgetting : float
        Factor by which the weight of a row falls with each row after it.
    """
    if type(objective) is not Pointwise or objective.loss.task != "regression":
        return False
    bounded = objective.curvature is not None or objective.lipschitz is not None
    automatic = isinstance(step_size, AutomaticStep) and forgetting == 1.0
    return bounded and automatic and begins_with_regression(objective, n_outputs)


class SmoothedSlopes:
    """Smoothed derivatives of an objective at fixed rows: means over nearby values.

    They are the derivatives of the loss averaged over shifts of up to a width to both sides. Its
    curvature is at most the bound of the slopes divided by the width.

    Parameters
    ----------
    objective : Objective
        Mean of a loss.
    batch : Batch
        The rows.
    width : float
        Largest shift of values. Losses with unbounded slopes are not smoothed.
    """

    def __init__(self, objective: Objective, batch: Batch, width: float) -> None:
        self._objective, self._batch = objective, batch
        self._moves = [0.0]
        if objective.lipschitz is not None:
            self._moves = [place * width for place in _PLACES]

    def __call__(self, values: Array) -> Array:
        """Return slopes at values, both of shape (n_rows, n_outputs)."""
        total = np.zeros_like(values)
        for move in self._moves:
            total += self._objective.slopes(values + move, self._batch)[0]
        return total / len(self._moves)


class Settings(NamedTuple):
    """Settings of learning on a fixed set of features.

    Attributes
    ----------
    ridges : tuple of float
        Ridge parameters of the objective to choose from.
    forgetting : float
        Factor by which the weight of a row falls with each row after it.
    averaging : float or None
        Exponent of the weights of averages over the steps of a stream.
    batch_size : int
        Rows of the smallest step.
    fallback : float
        Curvature to use if the objective has no bound.
    step_size : callable or AutomaticStep
        Maps the step number to the step size, in units of the longest safe step.
    largest_loss : callable
        Maps targets and weights to the loss beyond which a run has diverged.
    diverged : callable
        Maps a step size to the error of a run that has diverged.
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
    """Sums of losses and of gradients over rows: a :class:`mercer.learning.Ask`.

    Rows are counted, and losses are summed without and with weights. The gradient in the
    coefficients is optional.
    """

    objective: Objective
    basis: Basis
    with_gradient: bool = True

    def __call__(self, rows: Rows, coefficients: Array) -> list[Array]:
        """Return the sums over rows."""
        n = len(rows)
        gradient = np.zeros_like(coefficients) if self.with_gradient else np.zeros(0)
        if not n:
            return [np.zeros(3), gradient]
        Z = self.basis.features(rows.X)
        values = NewtonSteps.values(Z, coefficients)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks
            slopes, losses = self.objective.slopes(values, Batch(*rows.arrays))
            if self.with_gradient:
                # Slopes are divided by the number of rows of the batch.
                gradient = n * products_with(Z, slopes)
            return [np.array([n, losses.sum(), losses @ rows.weights]), gradient]


def cut_steps(n_rows: int, batch_size: int, n_features: int) -> list[int]:
    """Return the starts of the Newton steps of a pass, and its end.

    Steps have about the same number of rows, as rows of short steps would count more.
    """
    n = rows_per_step(batch_size, n_features) // batch_size
    units = cut_pass(-(-n_rows // batch_size), n, exact=False)
    return [*(batch_size * start for start in units[:-1]), n_rows]


def rows_per_step(batch_size: int, n_features: int) -> int:
    """Return the number of rows of a Newton step, a multiple of the batch size."""
    return batch_size * -(-max(_ROWS_PER_STEP, n_features // 2) // batch_size)


def descent_rows(batch_size: int, n_features: int, n_outputs: int) -> int:
    """Return the most rows for full steps on all of them, within the memory for features."""
    fit_in_memory = _FEATURE_BYTES // (8 * (n_features + _VALUES * n_outputs))
    return max(rows_per_step(batch_size, n_features), fit_in_memory)


def regressed_rows(n_features: int) -> int:
    """Return the most rows of the first least squares fit."""
    return max(_ROWS_PER_FEATURE * n_features, _FIRST_ROWS)


class NewtonRows(Recorded):
    """Newton steps for an objective on a fixed set of features.

    Parameters
    ----------
    objective : Objective
        Objective to minimise; steps update its scalars, too.
    basis : Basis
        Basis of the features.
    n_outputs : int
        Number of outputs of the function.
    settings : Settings
        All other settings.
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
        self.n_descended = 0  # rows that full steps were taken on
        self._waiting: list[Rows] = []

    def _new_steps(self) -> NewtonSteps:
        s = self.settings
        return NewtonSteps(self.basis, self.n_outputs, self.curvature, s.averaging, s.forgetting)

    @property
    def n_first_rows(self) -> int:
        """Most rows that :meth:`begin` uses."""
        if self.descends:
            return descent_rows(self.settings.batch_size, self.basis.size, self.n_outputs)
        return regressed_rows(self.basis.size)

    @property
    def rows_per_step(self) -> int:
        """Number of rows of a step, a multiple of the batch size."""
        return rows_per_step(self.settings.batch_size, self.basis.size)

    def solve(self) -> Array:
        """Return the coefficients to predict with, (n_features, n_outputs)."""
        return self.steps.mean

    # -- the beginning --------------------------------------------------------------------------

    def begin(self, rows: Rows, *, quickly: bool = False) -> None:
        """Choose the curvature, the ridge and the first coefficients from rows.

        Parameters
        ----------
        rows : Rows
            The first rows; at most :attr:`n_first_rows` of them are used.
        quickly : bool, default=False
            Whether to take fewer full steps, for a single prediction.
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
            # Relative to the curvature, so that a multiple of an objective has the same minimum.
            self.ridge = first.ridge * self.curvature
        # A row of weight 2 counts as two rows, so the ridge is multiplied by the mean weight.
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
        """Whether the first rows are learned by full steps on all of them."""
        s = self.settings
        return descends(self.objective, self.n_outputs, s.step_size, s.forgetting)

    def _descend(self, Z: Floats, rows: Rows, residual: float, n_steps: int) -> None:
        """Minimise the objective on the rows of the bound, with less and less smoothing."""
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
        """Add rows to the bound of the Hessian while they change it."""
        # A copy, as an objective of pairs fills its buffer here.
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
        """Take steps in several passes over rows, with step sizes that fall to 0.

        Parameters
        ----------
        take : callable
            Maps row numbers to rows.
        orders : sequence of ndarray of int
            Row numbers of each pass, in order.
        note : callable
            Called with the record of each step; if it returns true, learning stops.
        """
        if self.n_descended >= orders[0].size:  # the minimum on all rows is found already
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
        """Return the starts of the steps of a pass, and its end."""
        return cut_steps(n_rows, self.settings.batch_size, self.basis.size)

    def steps_elsewhere(self, n_rows: int) -> int:
        """Return the number of steps of a pass over rows elsewhere: few steps on many rows each."""
        return max(1, min(MOST_STEPS, n_rows // (_ROWS_ELSEWHERE * self.basis.size)))

    def longest(self, rows: Rows) -> float:
        """Return the largest step size that does not overshoot on at least so many similar rows."""
        some = rows[: _ROWS_ELSEWHERE * self.basis.size]
        return self.steps.largest_step(self.basis.features(some.X), some.weights, self.ridge)

    def passes_elsewhere(
        self, rows: StepsElsewhere, held: Rows, n_passes: int, longest: float
    ) -> Iterator[Record]:
        """Take steps in passes over rows that lie elsewhere, with step sizes that fall to 0.

        Parameters
        ----------
        rows : StepsElsewhere
            The rows.
        held : Rows
            Further rows, which are in this process.
        n_passes : int
            Number of passes.
        longest : float
            Largest step size; a step is shortened if the loss of its rows would rise.

        Yields
        ------
        record : Record
            Record of a step for the history.
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
            # These rows may be heavier or steeper than the sample, so check their loss.
            for size in longest * share * 0.5 ** np.arange(_HALVINGS):
                self.steps = before.copy()
                self.steps.step(gradient / n, size, self.ridge)
                if np.isfinite(self.steps.iterate).all():
                    (*_, weighted), _ = rows.total(step, ask_loss, self.steps.iterate, held)
                    if weighted / n + self.steps.penalty(self.ridge) <= start:
                        longest = min(longest, 2.0 * size / share)
                        break
            else:  # no step lowers the loss: stay
                self.steps, size = before.copy(), 0.0
            yield Record(int(n), float(losses), float(size), self.objective.measured())
        self.steps.restart_stream(rows.n_steps)

    def learn(self, rows: Rows) -> list[Record]:
        """Learn rows of a stream; rows that are too few for a step wait for more."""
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
        """Return the size of the next step, in units of the longest safe step."""
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
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
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
        # Scalars of the objective move as far as the values of the function.
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
        """Replace the outputs f by f @ ``mixing``, and set another objective."""
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
