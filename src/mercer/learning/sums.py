"""Learners on a fixed set of features, which add rows to sums.

They solve the squared loss, take Newton steps on rows for any other objective, and solve the linear
equations of policy evaluation, whose slopes are linear in the function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.learning.learner import (
    MOST_STEPS,
    Array,
    Layout,
    NewOutputs,
    Passes,
    Solved,
    StepLearner,
    StepRecord,
    StepsElsewhere,
    StepSize,
    Take,
    checked_rows,
    refuse_elsewhere,
)
from mercer.learning.loop import cut_pass
from mercer.learning.regression_targets import (
    begins_with_regression,
    is_quadratic,
    newton_curvature,
    race_rows,
    regression_scale,
    regression_targets,
    usual_size,
    winsorised,
)
from mercer.learning.step_sizes import AutomaticStep
from mercer.numerics.dense import solve_square
from mercer.objectives import Batch, Bellman, Novelty, Objective, Pointwise
from mercer.records import Numbers, Record, Recorded, State
from mercer.sums import (
    Basis,
    Blocks,
    FeatureTable,
    NewtonSteps,
    RidgeStream,
    Rows,
    Statistics,
    check_alike,
    check_same_basis,
    check_sizes,
    class_numbers,
    relabelled,
    shift_of_codes,
)
from mercer.sums.newton import products_with
from mercer.threads import one_blas_thread
from mercer.validation import integer, positive, real

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

    _record = Record(ridge=real(low=0.0), curvature=positive(), steps=State(), _waiting=Blocks())

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
        note: Callable[[StepRecord], bool],
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
                if note(StepRecord(len(rows), loss, 1.0, self.objective.measured())):
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
    ) -> Iterator[StepRecord]:
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
        record : StepRecord
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
            yield StepRecord(int(n), float(losses), float(size), self.objective.measured())
        self.steps.restart_stream(rows.n_steps)

    def learn(self, rows: Rows) -> list[StepRecord]:
        """Learn rows of a stream; rows that are too few for a step wait for more."""
        self._waiting.append(rows.own())
        n = self.rows_per_step
        records: list[StepRecord] = []
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

    def _step(self, rows: Rows, share: float, *, stream: bool) -> StepRecord:
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
        return StepRecord(len(rows), float(losses.sum()), size, objective.measured())

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


# Transitions that are added to sums together, and most features in memory at a time.
_TRANSITIONS, _FEATURES = 128, 2**21


def is_linear(objective: Objective) -> bool:
    """Whether slopes at rows are linear in the values at these rows, and depend on nothing else."""
    return isinstance(objective, Bellman) and objective.method != "pkgtd"


class LinearRows(Recorded):
    r"""Policy evaluation on a fixed set of features, by sums over all transitions so far.

    For f = Z w with slopes s, the gradient is linear in w: Z's = S w + b. With the ridge it is 0
    at :math:`(S / n + \lambda P) w = -b / n`, where all steps of the method would come to rest.
    For temporal differences this is LSTD.

    Parameters
    ----------
    objective : Bellman
        Objective to solve.
    basis : Basis
        Basis of the features.
    n_outputs : int
        Number of outputs of the function.
    ridge : float
        Ridge parameter.
    forgetting : float
        Factor by which the weight of a row falls with each row after it.

    Attributes
    ----------
    n_rows : float
        Total weight of the rows so far; each row had weight 1 when it arrived.

    References
    ----------
    S. J. Bradtke, A. G. Barto, "Linear least-squares algorithms for temporal difference learning",
    Machine Learning, 1996.
    """

    _record = Record(
        n_rows=real(low=0.0),
        _waiting=Blocks(),
        _matrix=Numbers("n_outputs", "n_outputs", "n_features", "n_features"),
        _right=Numbers("n_outputs", "n_features"),
    )

    def __init__(
        self, objective: Bellman, basis: Basis, n_outputs: int, ridge: float, forgetting: float
    ) -> None:
        self.objective, self.basis, self.n_outputs = objective, basis, n_outputs
        self.ridge, self.forgetting = ridge, forgetting
        self.n_rows = 0.0
        self._matrix = np.zeros((n_outputs, n_outputs, basis.size, basis.size))
        self._right = np.zeros((n_outputs, basis.size))
        self._waiting: list[Rows] = []

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.basis.size

    def add(self, rows: Rows) -> None:
        """Add rows, which must be whole transitions."""
        self._waiting.append(rows.own())
        if sum(map(len, self._waiting)) >= _TRANSITIONS * self.objective.n_rows:
            self._add_up()

    def merge(self, other: LinearRows) -> None:
        """Add the transitions of another object; the other stays unchanged.

        The transitions of the other count as older than those of this one, which matters if old
        ones are forgotten. Transitions that wait to be summed are merged, too.

        Parameters
        ----------
        other : LinearRows
            Sums for the same method and discount, on the same features.

        Raises
        ------
        ValueError
            If the two differ in anything that the sums depend on; both are then unchanged.
        """
        check_same_basis(self.basis, other.basis)
        for name in ("method", "discount", "auxiliary"):
            mine, theirs = (getattr(one.objective, name) for one in (self, other))
            check_alike(f"`{name}`", mine, theirs, "The equations would be of two problems.")
        for name in ("n_outputs", "ridge", "forgetting"):
            mine, theirs = getattr(self, name), getattr(other, name)
            check_alike(f"`{name}`", mine, theirs, "Use one for all transitions.")
        both = self.copy(), other.copy()
        for one in both:
            one._add_up()
        now, earlier = both
        # The weights of the rows so far sum to (1 - decay) / (1 - decay of one transition).
        m = self.objective.n_rows
        decay = max(0.0, 1.0 - now.n_rows / m * (1.0 - self.forgetting**m))
        self._matrix = earlier._matrix * decay + now._matrix
        self._right = earlier._right * decay + now._right
        self.n_rows, self._waiting = earlier.n_rows * decay + now.n_rows, []

    def emptied(self) -> Self:
        """Return the same equations without transitions, to learn transitions elsewhere."""
        return type(self)(self.objective, self.basis, self.n_outputs, self.ridge, self.forgetting)

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows = Rows.joined(self._waiting)
        matrix, right, n_rows = self._matrix.copy(), self._right.copy(), self.n_rows
        m = self.objective.n_rows
        step = m * max(_TRANSITIONS, _FEATURES // (m * self.basis.size))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            n = len(block) // m
            decay = np.ones(n)
            if self.forgetting < 1.0:
                decay = self.forgetting ** (m * np.arange(n - 1, -1, -1.0))
                old = self.forgetting ** (m * n)
                matrix, right, n_rows = matrix * old, right * old, n_rows * old
            self._add_block(block, decay, matrix, right)
            n_rows += m * float(decay.sum())
        self._matrix, self._right, self.n_rows, self._waiting = matrix, right, n_rows, []

    def _add_block(self, rows: Rows, decay: Array, matrix: Array, right: Array) -> None:
        m, n_outputs = self.objective.n_rows, self.n_outputs
        n = len(rows) // m
        batch = Batch(*rows.arrays)
        Z = self.basis.features(rows.X).reshape(n, m, -1)
        # Slopes are means over the transitions.
        scale = n * decay[:, np.newaxis, np.newaxis]
        zero = np.zeros((n * m, n_outputs))
        at_zero = self.objective.slopes(zero, batch)[0].reshape(n, m, n_outputs)
        right += np.einsum("iam,iao->om", Z, at_zero * scale, optimize=True)
        # Derivatives of the slopes in the value of each output at each row of a transition.
        by_value = np.empty((m, n_outputs, n, m, n_outputs))
        for row in range(m):
            for output in range(n_outputs):
                unit = zero.reshape(n, m, n_outputs).copy()
                unit[:, row, output] = 1.0
                slopes = self.objective.slopes(unit.reshape(zero.shape), batch)[0]
                by_value[row, output] = (slopes.reshape(n, m, n_outputs) - at_zero) * scale
        for own in range(m):
            for o, q in np.ndindex(n_outputs, n_outputs):
                factors = by_value[:, q, :, own, o]  # (m, n)
                if factors.any():
                    moved = np.einsum("bi,ibm->im", factors, Z, optimize=True)
                    matrix[o, q] += Z[:, own].T @ moved.astype(Z.dtype)

    def solve(self) -> Array:
        """Solve the equations; return the coefficients, (n_features, n_outputs)."""
        self._add_up()
        M, n_outputs = self.basis.size, self.n_outputs
        if not self.n_rows > 0.0:
            return np.zeros((M, n_outputs))
        # Means over transitions, like the slopes.
        n = self.n_rows / self.objective.n_rows
        whole = (self._matrix / n).transpose(0, 2, 1, 3).reshape(n_outputs * M, n_outputs * M)
        penalty = self.basis.penalty()
        each = np.eye(M) if penalty is None else penalty
        size = float(np.abs(np.diag(whole)).mean())
        whole += np.kron(np.eye(n_outputs), self.ridge * each)
        solution = solve_square(whole, -self._right.ravel() / n, size)
        if not np.isfinite(solution).all():
            raise ValueError(
                "The equations of the value function have no finite solution: rewards or kernel "
                "values are out of all proportion. Scale the rewards to a size of about 1, and "
                "standardise the states."
            )
        return np.ascontiguousarray(solution.reshape(n_outputs, M).T)

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        other = copy.copy(self)
        other._waiting = list(self._waiting)
        return other


# Fewest steps of `fit` and on the first rows of a stream; fewest steps for a prediction before the
# dictionary is chosen; and the factor on both if learning begins at f = 0.
_STEPS, _FEW_STEPS, _FROM_ZERO = 50, 20, 3
Engine = RidgeStream | LinearRows | NewtonRows

# Number of rows so far, and at the last solution; and the first rows, while they are kept.
_ROWS = Record(_n_rows=integer(low=0), _n_solved=integer(low=0), _first_rows=Blocks("n_features"))

_FIRST_BYTES = 2**30  # most bytes of the first rows
_CHUNK = 8192  # rows that are learned, or reported, together


@dataclass(frozen=True)
class _Checked:
    """Map from inputs, targets and weights to checked rows, to be used where rows lie."""

    function: Any

    def __call__(self, X: Any, targets: Array, weights: Array) -> Rows:
        return Rows(checked_rows(self.function, X), targets, weights)


def _lacks_equations(objective: Objective, function: Any) -> str | None:
    if not isinstance(objective, Bellman) or is_linear(objective):
        return None
    return (
        f"{function.expansion!r} has no equations for method={objective.method!r}, whose steps "
        "follow an average along the trajectory. Use 'td' or 'gtd2', or a KOMP expansion."
    )


def _lacks_a_use_for_ridges(objective: Objective, function: Any) -> str | None:
    ridge = function.expansion.ridge
    if isinstance(ridge, str | None) or begins_with_regression(objective, function.n_outputs):
        return None
    if isinstance(objective, Novelty):
        return (
            f"`ridge` is `nu` for novelty detection, got ridge={ridge!r}: the share "
            "of rows below the threshold depends on it. Use ridge=None or 'auto'."
        )
    if np.size(ridge) > 1:
        return (
            f"`ridge` must be one number for the objective {type(objective).__name__}, got "
            f"{ridge!r}: ridges are compared by squared errors of targets, and it has "
            "none. Use a number, or None for the `regularization` of the estimator."
        )
    return None


class SecondOrderLearner(StepLearner):
    """Learner on a fixed set of features; see :class:`Learner` for the parameters.

    The first rows are kept until there are enough to choose the features and a first function.
    Until then, each prediction fits a provisional function to all rows so far. After that, a
    squared loss is summed into equations, which are solved when a prediction is asked for. Other
    losses are learned by Newton steps.
    """

    solves = (is_quadratic, is_linear)
    refuses = (_lacks_equations, _lacks_a_use_for_ridges)

    def __init__(
        self,
        objective: Objective,
        function: Any,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self._fresh = objective.state()
        self._engine: Engine | None = None
        self._first_rows: list[Rows] = []
        self._n_rows = 0
        self._n_solved = 0
        self._longest_step = 1.0  # used if rows lie elsewhere

    # -- settings -------------------------------------------------------------------------------

    def _ridges(self) -> tuple[float, ...]:
        expansion = self.function.expansion
        automatic = isinstance(expansion.ridge, str) and not begins_with_regression(
            self.objective, self.function.n_outputs
        )
        ridges: tuple[float, ...] = () if automatic else expansion.ridges()
        return ridges or (self.regularization,)

    def _settings(self) -> Settings:
        return Settings(
            self._ridges(),
            getattr(self.function.expansion, "forgetting", 1.0),
            self.function.averaging,
            self.batch_size,
            self.curvature(),
            self.step_size,
            self.largest_loss,
            self._overflow,
        )

    def _overflow(self, step_size: float) -> DivergenceError:
        return self.diverged(step_size, 0, " Slopes overflow, or the loss explodes.")

    @property
    def ridge(self) -> float:
        """Ridge parameter of the last solution; if there are several, the best one."""
        return self._ridges()[0] if self._engine is None else float(self._engine.ridge)

    def _follow_settings(self) -> None:
        """Apply the present settings; Newton steps keep the ridge that they began with."""
        if isinstance(self._engine, NewtonRows):
            self._engine.settings = self._settings()
        elif isinstance(self._engine, LinearRows) and self._engine.ridge != self._ridges()[0]:
            self._engine.ridge, self._n_solved = self._ridges()[0], 0
        elif isinstance(self._engine, RidgeStream) and self._new_ridges() != self._engine.ridges:
            self._engine.part.choose_among(self._new_ridges())
            self._n_solved = 0

    def _new_ridges(self) -> tuple[float, ...]:
        """Return ridges in units of the squared error without its factor, strongest first."""
        curvature = float(self.objective.curvature or 1.0)
        return tuple(sorted((ridge / curvature for ridge in self._ridges()), reverse=True))

    def _new_engine(self, basis: Basis) -> Engine:
        settings, f = self._settings(), self.function
        if isinstance(self.objective, Bellman):
            ridge, forgetting = settings.ridges[0], settings.forgetting
            return LinearRows(self.objective, basis, f.n_outputs, ridge, forgetting)
        if is_quadratic(self.objective):
            return RidgeStream(basis, f.n_outputs, self._new_ridges(), settings.forgetting)
        return NewtonRows(self.objective, basis, f.n_outputs, settings)

    @property
    def _n_first_rows(self) -> int:
        wanted = int(self.function.expansion.n_first_rows)
        if type(self.objective) is Pointwise:
            return wanted
        # Rows that belong together are adjacent in a batch, so take whole batches.
        return -(-wanted // self.batch_size) * self.batch_size

    @property
    def _chunk(self) -> int:
        m = self.objective.rows_per_sample
        return _CHUNK // m * m

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        if X.shape[0] == 0:
            return
        rows = Rows(checked_rows(self.function, X), targets, weights)
        with self.all_or_nothing(self._mark, self._back):
            self._follow_settings()
            self._look(targets, weights)
            self._learn(rows)
        self.n_samples += X.shape[0]

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))

    def _look(self, targets: Array, weights: Array) -> None:
        check_sizes(None, targets, weights)
        # Without weights: the curvature is that of the loss, and weights are applied elsewhere.
        used = (weights > 0.0).astype(np.float64)
        if type(self.objective) is Pointwise and used.any():
            targets, used = targets[used > 0.0], used[used > 0.0]
        self.first.look(self.objective, self.function.n_outputs, targets, used)

    def _learn(self, rows: Rows) -> None:
        if type(self.objective) is Pointwise:
            rows = rows[rows.weights > 0.0]  # rows of weight 0 are ignored
        if self._engine is None:
            n_missing = max(self._n_first_rows - self._n_rows, 0)
            first = rows[:n_missing]
            self._judge(first)
            self._first_rows.append(first.own())
            self._n_rows += len(first)
            if self._n_rows < self._n_first_rows:
                return
            self._choose_features()
            rows = rows[n_missing:]
        if len(rows):
            self._learn_on(rows)

    def _choose_features(self) -> None:
        """Choose the features for good, and learn the rows kept so far."""
        self._engine = self._begun(_STEPS, chosen=True)
        self._first_rows = []
        self._solve()

    def _begun(self, n_steps: int, *, chosen: bool) -> Engine:
        """Build features from the rows kept so far, and learn these rows on them."""
        self._first_rows = [Rows.joined(self._first_rows)]
        rows = self._first_rows[0]
        self.objective.set_state(self._fresh)
        engine = self._new_engine(self._build_basis(rows, chosen=chosen))
        if isinstance(engine, NewtonRows):
            self._rehearse(engine, rows, n_steps)
        else:
            engine.add(rows)
        return engine

    def _build_basis(self, rows: Rows, *, chosen: bool) -> Basis:
        """Build features from rows: for good if ``chosen``, otherwise quickly for a prediction."""
        f = self.function
        used = rows.weights > 0.0 if rows.weights.any() else slice(None)
        loss: Any = getattr(self.objective, "loss", None)
        labels = None
        if (
            loss is not None
            and getattr(loss, "task", "") == "classification"
            and begins_with_regression(self.objective, self.function.n_outputs)
        ):
            labels = class_numbers(rows.targets[used], loss)
        if getattr(f, "races", False) and rows.weights.any():
            f.select_kernel(race_rows(self.objective, rows[used], f.n_outputs), chosen=chosen)
        basis: Basis = f.build_basis(rows.X[used], labels, chosen=chosen)
        return basis

    def _rehearse(self, engine: NewtonRows, rows: Rows, n_steps: int) -> None:
        """Learn rows by descent or, if that is not possible, passes with at least ``n_steps``."""
        engine.begin(rows, quickly=n_steps < _STEPS)
        if engine.n_descended >= len(rows):
            return
        n = len(rows)
        n_passes = -(-self._times(n_steps) // (len(engine.cut(n)) - 1))
        engine.passes(lambda numbers: rows[numbers], [np.arange(n)] * n_passes, lambda _: False)

    def _learn_on(self, rows: Rows) -> None:
        """Learn rows on the features that were chosen."""
        engine = self._engine
        assert engine is not None
        if isinstance(engine, NewtonRows):
            for record in engine.learn(rows):
                self.note(record)
            self._n_rows += len(rows)
            self._solve()
            return
        for start in range(0, len(rows), self._chunk):
            block = rows[start : start + self._chunk]
            self._judge(block)
            engine.add(block)
            self._n_rows += len(block)
            # Occasional solutions keep the progressive loss meaningful.
            if self._n_rows >= 2 * self._n_solved:
                self._solve()

    def _judge(self, rows: Rows) -> None:
        """Note the loss of rows before they are learned, by the function of the last solution."""
        if not len(rows):
            return
        values = self.function.evaluate(rows.X)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.objective.losses_of(values, Batch(*rows.arrays))
        self.note(StepRecord(len(rows), float(losses.sum()), 1.0, self.objective.measured()))

    # -- rows that can be visited again -----------------------------------------------------------

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        """Plan one pass for a squared loss, or enough passes for the least number of steps."""
        n = self._n_passes(n_passes, int(np.count_nonzero(weights)))
        return Passes(n, n * len(weights))

    def _n_passes(self, n_passes: int, n_rows: int) -> int:
        if not self.makes_steps(self.objective):
            return 1
        size = min(int(self.function.largest_size), n_rows)
        most = descent_rows(self.batch_size, size, self.function.n_outputs)
        if self._descends and n_rows <= min(most, self._most_first_rows):
            return 1
        n_steps = len(cut_steps(n_rows, self.batch_size, size)) - 1
        return max(n_passes, -(-self._times(_STEPS) // n_steps))

    @property
    def _most_first_rows(self) -> int:
        """Most rows to begin with: they are made dense, so fewer if there are many columns."""
        f = self.function
        return max(int(f.largest_size), _FIRST_BYTES // (8 * int(f.n_features)))

    @property
    def _descends(self) -> bool:
        forgetting = getattr(self.function.expansion, "forgetting", 1.0)
        return descends(self.objective, self.function.n_outputs, self.step_size, forgetting)

    def _times(self, n_steps: int) -> int:
        """Return the steps to take if ``n_steps`` are enough after a least squares fit."""
        regresses = begins_with_regression(self.objective, self.function.n_outputs)
        return n_steps if regresses else _FROM_ZERO * n_steps

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        self._look(targets, weights)
        passes, untold = list(orders), 0
        n_rows = sum(map(len, passes))
        if type(self.objective) is Pointwise and weights.any():
            passes = [order[weights[order] > 0.0] for order in passes]  # weight 0 is ignored

        def take(numbers: NDArray[np.int64]) -> Rows:
            return Rows(checked_rows(self.function, X[numbers]), targets[numbers], weights[numbers])

        def take_again(numbers: NDArray[np.int64]) -> Rows:
            return Rows(self.function.rows(X[numbers]), targets[numbers], weights[numbers])

        def count(n_rows: int) -> None:
            nonlocal untold
            self.n_samples += n_rows
            untold += n_rows

        def tell() -> bool:
            nonlocal untold
            told, untold = untold, 0
            return told > 0 and report(told)

        def note(record: StepRecord) -> bool:
            self.note(record)
            count(record.n_rows)
            return untold >= _CHUNK and tell()

        order = passes[0]
        count(n_rows - sum(map(len, passes)))
        most = self._most_first_rows
        basis = self._build_basis(take(order[: min(self._n_first_rows, most)]), chosen=True)
        self._engine = engine = self._new_engine(basis)
        if isinstance(engine, NewtonRows):
            for start in range(0, order.size, _CHUNK):  # once: passes take rows again and again
                checked_rows(self.function, X[order[start : start + _CHUNK]])
            engine.begin(take_again(order[: min(engine.n_first_rows, most)]))
            engine.passes(take_again, passes, note)
            self._n_rows = order.size
        else:
            for start in range(0, order.size, self._chunk):
                if start and tell():
                    break
                rows = take(order[start : start + self._chunk])
                self._learn_on(rows)
                count(len(rows))
        self._solve()
        tell()

    # -- the function ---------------------------------------------------------------------------

    def current_function(self) -> Any:
        """Return the function; solve first if enough rows arrived since the last solution."""
        if self._is_stale():
            with self.one_at_a_time():
                if self._is_stale():
                    self._solve()
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        with one_blas_thread():
            return np.asarray(self.evaluate(x[np.newaxis])[0])

    def _is_stale(self) -> bool:
        refresh = float(getattr(self.function.expansion, "refresh", 0.0))
        return self._n_rows > self._n_solved * (1.0 + refresh)

    def _solve(self) -> None:
        """Solve for all rows so far, and set the coefficients of the function."""
        engine = self._engine
        if engine is None and self._first_rows:
            engine = self._begun(_FEW_STEPS, chosen=False)
        if engine is not None:
            self.function.set_coefficients(engine.solve())
        self._n_solved = self._n_rows

    def map_outputs(self, new: NewOutputs) -> None:
        """Change the outputs; targets of rows that are kept are encoded anew."""
        old: Any = self.objective
        objective: Any = new.objective
        n_old, n_new = (size // old.copies for size in new.mixing.shape)

        def relabel(targets: Array) -> Array:
            return relabelled(targets, new.places, old.loss, objective.loss, n_new)

        self._fresh = objective.state()
        self.function.map_outputs(new.mixing)
        self._replace_objective(objective)
        self._first_rows = [replace(r, targets=relabel(r.targets)) for r in self._first_rows]
        engine = self._engine
        if isinstance(engine, NewtonRows):
            engine.map_outputs(new.mixing, objective, relabel)
        elif isinstance(engine, RidgeStream):
            engine.map_targets(*shift_of_codes(new.places, n_old, n_new))
            self._n_solved = 0
        else:
            self._n_solved = 0

    # -- rows that are learned elsewhere ----------------------------------------------------------

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Choose kernel and features from a sample, and plan sums or steps elsewhere."""
        refuse_elsewhere(self.objective)
        sample = Rows(checked_rows(self.function, X), targets, weights)[weights > 0.0]
        self._look(targets, weights)
        basis = self._build_basis(sample[: self._n_first_rows], chosen=True)
        self._engine = engine = self._new_engine(basis)
        rows = _Checked(self.function)
        if isinstance(engine, NewtonRows):
            engine.begin(sample[: min(engine.n_first_rows, self._most_first_rows)])
            self._longest_step = engine.longest(sample)
            return Layout(rows, {}, {}, engine.steps_elsewhere(n_rows))
        assert isinstance(engine, RidgeStream)
        return Layout(rows, {0: engine.part.emptied()}, {})

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take over sums from elsewhere, or take Newton steps on rows elsewhere.

        The held out rows choose the ridge of sums, as the last rows of a stream do. Newton steps
        start at the function fitted to the sample.
        """
        held = Rows(checked_rows(self.function, held.X), held.targets, held.weights)
        assert self._engine is not None
        self._engine = engine = self._engine.copy()
        if isinstance(engine, RidgeStream):
            engine.take_over(sums[0].statistics.copy(), held)
            self._n_rows = engine.n_rows
        else:
            assert isinstance(engine, NewtonRows)
            assert steps is not None
            n_passes = -(-self._times(_STEPS) // steps.n_steps)
            n_seen = 0
            for record in engine.passes_elsewhere(steps, held, n_passes, self._longest_step):
                self.note(record)
                n_seen += record.n_rows
            self._n_rows = n_seen // n_passes
        self.n_samples = self._n_rows
        self._solve()

    def end_race(self) -> None:
        """Do nothing, as there are no candidates."""

    def finish(self, take: Take | None = None) -> None:
        """Choose the features now if there were too few rows to do so before."""
        if self._engine is None and self._first_rows:
            with self.all_or_nothing(self._mark, self._back):
                self._choose_features()

    # -- state ----------------------------------------------------------------------------------

    def _mark(self) -> Any:
        return (
            None if self._engine is None else self._engine.copy(),
            list(self._first_rows),
            self._n_rows,
            self._n_solved,
            self.function.copy(),
            self.objective.state(),
        )

    def _back(self, state: Any) -> None:
        self._engine, self._first_rows, *numbers, self.function, scalars = state
        self._n_rows, self._n_solved = numbers
        self.objective.set_state(scalars)

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        engine = self._engine
        return {
            **self._state_with(self.function.snapshot()),
            "rows": _ROWS.written(self),
            "engine": None if engine is None else engine.to_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)
        rows = _ROWS.read(state["rows"], {})
        if rows["_n_solved"] > rows["_n_rows"]:
            raise ValueError("More rows were solved for than there are.")
        vars(self).update(rows)
        self._engine = None
        if state["engine"] is not None:
            if self.function.basis is None:
                raise ValueError("There is a solution without a dictionary.")
            self._engine = self._new_engine(self.function.basis)
            self._engine.restore(state["engine"])
