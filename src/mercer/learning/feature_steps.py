"""Learner on random features (DSG, Algorithms 1 and 2).

Each step adds a block of features, and its values are added at once to all rows still to come: each
block is drawn once for all rows of a call ("right-looking"). Rows of later calls are not known on a
stream, so each call evaluates the old blocks on its rows ("left-looking"). Both ways give the same
coefficients up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer import records
from mercer.features.feature_map import Prepared
from mercer.functions.feature_expansion import FeatureExpansion, Update
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
    Take,
    refuse_elsewhere,
)
from mercer.learning.loop import cut_pass
from mercer.learning.step_sizes import AutomaticStep, FeatureSteps, steps_of_batch
from mercer.objectives import Batch, Objective
from mercer.records import Numbers
from mercer.schedules import PowerDecay
from mercer.sums import Rows
from mercer.threads import one_blas_thread
from mercer.validation import check_real

_REPORT = 8192  # rows between two reports of progress
# A run has diverged once predictions are this many times larger than all targets, and than 1.
_EXPLODED = 1e3
# Number of steps over which the losses of the candidates are averaged.
_MEMORY = 50.0
# Fewest and most rows held out to choose the ridge; in between, a twentieth of all rows.
_HELD_OUT = 500, 5000
_FEW_ROWS = 50
# For steps on rows that lie elsewhere: most step sizes to try, each half of the one before, until
# losses rise by at most this share.
_HALVINGS, _RISE = 12, 0.1


@dataclass(frozen=True, eq=False)
class Waiting(Rows):
    """Rows too few for a step, with the function's values there, (n, n_columns)."""

    values: Array

    _record = records.Record(**Rows._record.fields, values=Numbers("n_rows", "n_columns"))

    def batch(self) -> Batch:
        """Return the rows as a batch for objectives."""
        return Batch(self.X, self.targets, self.weights)


class Slopes(NamedTuple):
    """Slopes and losses of all candidates at some rows.

    Attributes
    ----------
    slopes : ndarray of shape (n_points, n_candidates * n_outputs)
        Derivatives in the values; 0 for candidates that have diverged.
    losses : ndarray of shape (n_candidates,)
        Sums of losses over the rows; infinite for candidates that have diverged.
    sound : bool
        Whether at least one candidate has not diverged.
    size : float
        Root mean square of the values, the least over candidates.
    unit : float
        Largest target so far, if that is above 1.
    """

    slopes: Array
    losses: Array
    sound: bool
    size: float
    unit: float


class Candidates:
    """Candidates for the ridge, each with a copy of the objective, which may have scalars.

    Parameters
    ----------
    objective : Objective
        Objective, copied for each candidate.
    n : int
        Number of candidates.

    Attributes
    ----------
    objectives : list of Objective
        One objective for each candidate.
    race : ndarray of shape (n,)
        Mean loss of each candidate so far.
    unit : float
        Largest target so far, if that is above 1.
    """

    def __init__(self, objective: Objective, n: int) -> None:
        self.objectives = [copy.deepcopy(objective) for _ in range(n)]
        self.race = np.zeros(n)
        self.unit = 1.0

    def __len__(self) -> int:
        return len(self.objectives)

    def split(self, values: Array) -> list[Array]:
        """Split values into the columns of each candidate."""
        return np.split(values, len(self), axis=1)

    def slopes(self, values: Array, batches: list[Batch]) -> Slopes:
        """Compute the slopes and losses of each candidate on its batch."""
        parts = self.split(values)
        results = [
            o.slopes(v, batch) for o, v, batch in zip(self.objectives, parts, batches, strict=True)
        ]
        unit = max(self.unit, float(np.abs(batches[0].targets).max(initial=0.0)))
        sizes = np.array([np.sqrt(np.mean(np.square(v))) for v in parts])
        # A ridge that is too small for the step may make its candidate diverge, but no other.
        sound = np.array([bool(np.isfinite(slopes).all()) for slopes, _ in results])
        sound &= sizes <= _EXPLODED * unit
        slopes = [np.where(ok, s, 0.0) for (s, _), ok in zip(results, sound, strict=True)]
        losses = np.array([float(losses.sum()) for _, losses in results])
        losses[~sound] = np.inf
        return Slopes(np.hstack(slopes), losses, bool(sound.any()), float(sizes.min()), unit)

    def update(self, values: Array, batches: list[Batch], step_size: float) -> None:
        """Update the scalars of the objectives after a step."""
        for o, v, batch in zip(self.objectives, self.split(values), batches, strict=True):
            o.update(v, batch, step_size)

    def note(self, means: Array) -> None:
        """Add the mean losses of a step to the race; its rows must be new to all candidates."""
        share = 1.0 / _MEMORY if self.race.any() else 1.0
        self.race = (1.0 - share) * self.race + share * means

    def judge(self, held: Waiting) -> None:
        """Decide the race by the losses of held out rows."""
        batch = held.batch()
        losses = [
            float(objective.losses_of(part, batch) @ held.weights)
            for objective, part in zip(self.objectives, self.split(held.values), strict=True)
        ]
        self.race = np.array(losses)

    def keep(self, one: int) -> None:
        """Drop all candidates but one, which ends the race."""
        self.objectives, self.race = self.objectives[one : one + 1], np.zeros(1)

    def replace(self, objective: Objective) -> None:
        """Set copies of another objective, which take over the scalars."""
        states = self.states()
        self.objectives = [copy.deepcopy(objective) for _ in states]
        self.set_states(states)

    # -- state ------------------------------------------------------------------------------------

    def states(self) -> list[dict[str, Any]]:
        """Scalars of the objectives."""
        return [objective.state() for objective in self.objectives]

    def set_states(self, states: list[dict[str, Any]]) -> None:
        """Go back to :meth:`states`."""
        for objective, state in zip(self.objectives, states, strict=True):
            objective.set_state(state)

    def to_state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        objectives = {str(i): state for i, state in enumerate(self.states())}
        return {"race": self.race.copy(), "unit": self.unit, "objectives": objectives}

    def restore(self, state: dict[str, Any], n: int) -> None:
        """Inverse of :meth:`to_state` for so many candidates; ValueError if it does not fit."""
        race, objectives = state["race"], state["objectives"]
        if race.shape != (n,) or race.dtype != np.float64 or len(objectives) != n:
            raise ValueError("The candidates of the learner do not fit together.")
        self.race, self.unit = race.copy(), check_real("unit", state["unit"], low=1.0)
        self.objectives = [copy.deepcopy(self.objectives[0]) for _ in range(n)]
        self.set_states([objectives[str(i)] for i in range(n)])


class _BlockSums(NamedTuple):
    """Sums over rows that fit a block of features: a :class:`mercer.learning.Ask`."""

    candidates: Candidates
    losses_only: bool = False

    def __call__(self, rows: Rows, function: FeatureExpansion) -> list[Array]:
        n, n_columns = len(rows), function.n_candidates * function.n_outputs
        if not n:
            m = 0 if self.losses_only else function.block_size
            losses = np.zeros(function.n_candidates)
            return [np.zeros(()), losses, np.zeros((m, n_columns)), np.zeros((m, m))]
        points = function.prepare(rows.X)
        batches = [Batch(*rows.arrays)] * function.n_candidates
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks
            found = self.candidates.slopes(function.current(points), batches)
            if self.losses_only:
                none = np.zeros((0, n_columns)), np.zeros((0, 0))
                return [np.array(float(n)), found.losses, *none]
            gradient, covariance = function.asked(points, found.slopes, rows.weights)
        assert covariance is not None
        # Gradient and covariance are means over the rows of the batch.
        return [np.array(float(n)), found.losses, n * gradient, n * covariance]


@dataclass(frozen=True)
class _Dense:
    """Map from inputs, targets and weights to dense rows, to be used where rows lie."""

    function: FeatureExpansion

    def __call__(self, X: Any, targets: Array, weights: Array) -> Rows:
        return Rows(self.function.rows(X), targets, weights)


class FeatureLearner(StepLearner):
    """Learner on random features; see :class:`Learner` for the parameters.

    Rows wait until there are enough for a step. Until then, predictions take a provisional step on
    the waiting rows, which is undone when more rows arrive. If the outputs change, the step is
    final, as the waiting targets are for the old outputs.
    """

    function: FeatureExpansion
    _waiting: Waiting | None = None
    _before_provisional: tuple[FeatureExpansion, list[dict[str, Any]]] | None = None

    @property
    def objective(self) -> Objective:
        """Objective of the best candidate."""
        return self._candidates.objectives[self.function.best]

    @objective.setter
    def objective(self, objective: Objective) -> None:
        self._candidates = Candidates(objective, self.function.n_candidates)

    # -- step sizes -----------------------------------------------------------------------------

    @property
    def rows_per_step(self) -> int:
        """Number of rows of a step."""
        n_outputs = self.function.n_outputs
        return self.function.expansion.plan(self.batch_size, n_outputs=n_outputs).rows_per_step

    def _steps(self, n_rows: int | None = None) -> FeatureSteps:
        return FeatureSteps(
            self.automatic,
            self.curvature(),
            self.function.expansion.mode,
            self.ridge,
            self.rows_per_step if n_rows is None else n_rows,
            self.function.block_size,
            self.objective.lipschitz is None,
        )

    def _step_size(self, batch: Waiting, whole: bool) -> float:
        """Return the size of the next step; with ``whole``, it is on all rows."""
        t, weights = self.function.n_steps + 1, batch.weights
        if isinstance(self.step_size, AutomaticStep):
            size = self._steps(len(weights))(t, whole, weights)
            if self.function.expansion.mode == "faithful":
                rows = batch.batch()[:3]
                size = min(size, steps_of_batch(self.objective, self.function.kernel, *rows))
        else:
            size = float(self.step_size(t))
        # In cyclic mode, the ridge is part of the equations of the step and shrinks nothing.
        as_given = self._falls_like_the_theorem()
        free = as_given or self.function.expansion.mode == "cyclic"
        self.check_steps(np.array([size]), t, np.array([0.0 if free else self.ridge]))
        if t == 1 and not as_given:
            self._steps().check(size, weights)
        return size

    def _falls_like_the_theorem(self) -> bool:
        """Whether steps fall like theta / t (DSG, Theorem 4), which may begin far too large."""
        steps = self.step_size
        return (
            self.function.expansion.mode == "faithful"
            and not self.objective.needs_previous
            and isinstance(steps, PowerDecay)
            and steps.power >= 1.0
        )

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        """Plan enough passes for the least number of steps."""
        expansion, wanted = self.function.expansion, n_passes
        if expansion.mode != "faithful":
            n_used = int(np.count_nonzero(weights))
            for _ in range(2):  # the second round accounts for rows that several passes hold out
                steps = len(self._cut(n_used - self._n_held_out(n_used, wanted))) - 1
                wanted = max(n_passes, -(-expansion.min_steps // steps))
        n = len(weights)
        return Passes(wanted, wanted * (n - self._n_held_out(n, wanted)))

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        if X.shape[0] == 0:
            return
        rows = self.function.rows(X)
        self._undo_provisional()
        with self.all_or_nothing(self._mark, self._back):
            self._learn(rows, targets, weights)
        self.n_samples += X.shape[0]

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))

    def _learn(self, X: NDArray[np.floating], targets: Array, weights: Array) -> None:
        f = self.function
        self.first.look(self.objective, f.n_outputs, targets, weights)
        prepared = f.prepare(X)
        values = f.current(prepared)
        waiting = Waiting(X, targets, weights, values)
        joined = self._waiting is not None
        if self._waiting is not None:
            waiting = Waiting.joined([self._waiting, waiting])
        n, rows_per_step, done = len(waiting), self.rows_per_step, 0
        collect = f.expansion.mode != "faithful"
        if joined and n >= rows_per_step:
            prepared = f.prepare(waiting.X)
        while n - done >= (rows_per_step if collect else 1):
            stop = min(done + rows_per_step, n)
            batch = waiting[done:stop]
            share = self._share(stop - done) if done else 1.0
            update = self._step(batch, _rows(prepared, done, stop), share=share)
            f.apply(update, _rows(prepared, stop, n), waiting.values[stop:])
            done = stop
        self._waiting = waiting[done:] if done < n else None
        if self._waiting is not None:
            # Otherwise these rows could make a step of a later call fail.
            self._check_slopes(self._waiting[-min(len(self._waiting), len(X)) :])
        if self._waiting is not None and (done or not joined):
            # The caller may change its arrays, and views would keep whole arrays alive.
            self._waiting = self._waiting.own()

    def _check_slopes(self, rows: Waiting) -> None:
        """Raise an error if slopes at rows are so large that sums and solutions may overflow."""
        values = self._candidates.split(rows.values)[self.function.best]
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, _ = self.objective.slopes(values, rows.batch())
        if not np.abs(slopes).max() < np.sqrt(np.finfo(self.function.dtype).max) / len(values):
            stable = self._steps().largest()
            raise self.diverged(stable, 0, " The slopes of the last rows overflow.", stable)

    def _share(self, n_rows: int) -> float:
        """Return the share of a step for a short last batch, whose missing rows count as zeros."""
        if self.function.expansion.mode != "faithful" or isinstance(self.step_size, AutomaticStep):
            return 1.0
        return min(1.0, n_rows / self.rows_per_step)

    def _step(
        self,
        batch: Waiting,
        prepared: Prepared,
        *,
        whole: bool = False,
        fresh: bool = True,
        share: float = 1.0,
        provisional: bool = False,
    ) -> Update:
        """Take a step of ``share`` of the step size; if provisional, it is not noted anywhere."""
        f = self.function
        n_rows = len(batch)
        step_size, ridge = share * self._step_size(batch, whole), self.ridge
        rows = self._batches(batch, prepared)
        values = batch.values
        others = self.objective.points(rows[0])[n_rows:]
        if len(others):  # the objective adds points
            more = f.prepare(others)
            values = np.vstack([values, f.current(more)])
            prepared = tuple(np.concatenate(both) for both in zip(prepared, more, strict=True))
        # Overflow is checked below.
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, losses, sound, size, unit = self._candidates.slopes(values, rows)
            steepness = self.objective.steepness(rows[0], len(values))
            self._candidates.update(values, rows, step_size)
            update = f.step(
                prepared,
                slopes,
                step_size,
                ridge,
                steepness,
                self.curvature(),
                self.objective.mixing(step_size, ridge, f.n_outputs),
            )
        if not (sound and np.isfinite(update.coefficients).all()):
            why = f" The root mean square of f is {size:.3g}. {self._steps().limit()}"
            raise self.diverged(step_size, 0, why, self._steps().largest())
        if provisional:
            return update
        self._candidates.unit = unit
        if fresh and f.n_candidates > 1:
            self._candidates.note(losses / n_rows)
            f.best = int(np.argmin(self._candidates.race))
        self.note(StepRecord(n_rows, losses[f.best], step_size, self.objective.measured()))
        return update

    def _batches(self, rows: Waiting, prepared: Prepared) -> list[Batch]:
        """Return the batch for the objective of each candidate."""
        plain = rows.batch()
        if not self.objective.needs_previous:
            return [plain] * len(self._candidates)
        previous = self.function.previous(prepared, rows.values)
        return [plain._replace(previous=part) for part in self._candidates.split(previous)]

    # -- rows that can be visited again -----------------------------------------------------------

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        f = self.function
        dense = f.rows(X)
        self.first.look(self.objective, f.n_outputs, targets, weights)
        orders = list(orders)
        held = held_out(len(dense), self._n_held_out(len(dense), len(orders)))
        passes = [order[~held[order]] for order in orders] if held.any() else orders
        cuts = [self._cut(order.size) for order in passes]
        values = np.zeros((len(dense), f.n_candidates * f.n_outputs))
        held_points, held_values = f.prepare(dense[held]), values[held]
        unreported, stopped = 0, False
        for number, (order, cut) in enumerate(zip(passes, cuts, strict=True)):
            last = number == len(passes) - 1
            rows = Waiting(dense[order], targets[order], weights[order], values[order])
            points = f.prepare(rows.X)
            for start, stop in pairwise(cut):
                update = self._step(
                    rows[start:stop],
                    _rows(points, start, stop),
                    whole=len(cut) == 2,
                    fresh=number == 0,
                    share=self._share(stop - start) if start else 1.0,
                )
                self.n_samples += stop - start
                unreported += stop - start
                if held.any():
                    f.apply(update, held_points, held_values)
                finished = last and stop == order.size
                if unreported >= _REPORT or finished:
                    stopped, unreported = report(unreported), 0
                if stopped:
                    break
                # Rows of earlier steps return in the next pass.
                first = stop if last else 0
                f.apply(update, _rows(points, first, order.size), rows.values[first:])
            if stopped:
                break
            values[order] = rows.values
        if weights[held].any():
            self._judge(Waiting(dense[held], targets[held], weights[held], held_values))
        self._keep_best()

    def _n_held_out(self, n: int, n_passes: int) -> int:
        return n_held_out(n, n_passes, self.function.n_candidates)

    def _cut(self, n: int) -> list[int]:
        exact = self.function.expansion.mode == "faithful"
        return cut_pass(n, self.rows_per_step, exact=exact)

    def _judge(self, held: Waiting) -> None:
        """Choose the best candidate on held out rows."""
        self._candidates.judge(held)
        self.function.best = int(np.argmin(self._candidates.race))

    def end_race(self) -> None:
        self._undo_provisional()
        self._keep_best()

    def _keep_best(self) -> None:
        best = self.function.best
        if self._waiting is not None:
            values = self._candidates.split(self._waiting.values)[best]
            self._waiting = replace(self._waiting, values=values.copy())
        self.function.keep(best)
        self._candidates.keep(best)

    # -- rows that are learned elsewhere ----------------------------------------------------------

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Note the size of losses and targets in a sample, and plan steps elsewhere."""
        refuse_elsewhere(self.objective)
        self.first.look(self.objective, self.function.n_outputs, targets, weights)
        self._candidates.unit = max(1.0, float(np.abs(targets).max(initial=0.0)))
        n_steps = max(1, min(MOST_STEPS, n_rows // self.rows_per_step))
        return Layout(_Dense(self.function), {}, {}, n_steps)

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take steps on rows elsewhere; held out rows choose step sizes and the ridge."""
        assert steps is not None
        self.function, self._candidates = self.function.copy(), copy.deepcopy(self._candidates)
        f, n_seen = self.function, 0
        values = np.zeros((len(held), f.n_candidates * f.n_outputs))
        judges = Waiting(f.rows(held.X), held.targets, held.weights, values=values)
        points = f.prepare(judges.X)
        ask = _BlockSums(self._candidates)
        ask_losses = ask._replace(losses_only=True)
        steep = self.objective.curvature is None and self.objective.lipschitz is None
        least = self._held_loss(judges)
        n_passes = -(-f.expansion.min_steps // steps.n_steps) or 1
        for step in [*range(steps.n_steps)] * n_passes:
            size = self._step_size(judges, whole=steps.n_steps == 1)
            n, losses, gradient, covariance = steps.total(step, ask, f.copy())
            if not n:
                continue
            before = judges.values.copy()
            # Step sizes are safe only for bounded slopes, so the loss of held out rows is checked.
            for step_size in size * 0.5 ** np.arange(_HALVINGS):
                self.function = trial = f.copy()
                judges.values[:] = before
                update = trial.move(
                    gradient / n, covariance / n, step_size, self.ridge, self.curvature()
                )
                trial.apply(update, points, judges.values)
                new = self._held_loss(judges)
                sound = not _rises(least, new)
                if sound and steep:  # the loss of an outlier in the step's rows may rise
                    own = steps.total(step, ask_losses, trial.copy())[1]
                    sound = not _rises(losses.min(), own.min())
                if sound:
                    break
            else:
                limits = self._steps()
                raise self.diverged(size, 0, f" {limits.limit()}", limits.largest())
            f, least = self.function, new
            record = int(n), float(losses[f.best]), float(step_size), self.objective.measured()
            self.note(StepRecord(*record))
            n_seen += int(n)
        self.n_samples = n_seen // n_passes
        self._keep_best()

    def _held_loss(self, held: Waiting) -> float:
        """Return the loss of the best candidate on held out rows; infinite if not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._judge(held)
        least = float(self._candidates.race.min())
        return least if np.isfinite(least) else np.inf

    # -- rows that wait ---------------------------------------------------------------------------

    def current_function(self) -> FeatureExpansion:
        self._provisional()
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        with one_blas_thread():
            return np.asarray(self.evaluate(x[np.newaxis])[0])

    def _provisional(self) -> None:
        """Take a step on the waiting rows, which is undone when more rows arrive."""
        waiting = self._waiting
        if waiting is None or self._before_provisional is not None:
            return
        with self.one_at_a_time():
            if self._before_provisional is not None:
                return
            # The step is not renewed for every new row, or single rows would cost a step each.
            n = len(waiting)
            grain = max(1, 1 << max(0, n.bit_length() - 4))
            before, states = self.function.copy(), self._candidates.states()
            try:
                self._step_on(waiting[: n - n % grain], provisional=True)
            except BaseException:
                self._put_back(before, states)
                raise
            self._before_provisional = before, states

    def _step_on(self, rows: Waiting, *, provisional: bool) -> None:
        """Take a smaller step on rows that are too few for a full step."""
        share = max(len(rows) / self.rows_per_step, 1.0 / (1.0 + self.function.n_steps))
        points = self.function.prepare(rows.X)
        self._step(rows, points, share=share, provisional=provisional)

    def _put_back(self, function: FeatureExpansion, states: list[dict[str, Any]]) -> None:
        self.function = function
        self._candidates.set_states(states)

    def _undo_provisional(self) -> None:
        if self._before_provisional is not None:
            self._put_back(*self._before_provisional)
            self._before_provisional = None

    def map_outputs(self, new: NewOutputs) -> None:
        self._undo_provisional()
        if self._waiting is not None:
            self._step_on(self._waiting, provisional=False)
            self._waiting = None
        self.function.map_outputs(new.mixing)
        self._candidates.replace(new.objective)

    def finish(self, take: Take | None = None) -> None:
        """Do nothing, as waiting rows count through a provisional step."""

    # -- state ------------------------------------------------------------------------------------

    def _mark(self) -> Any:
        c = self._candidates
        return self.function.copy(), self._waiting, c.race, c.unit, c.states()

    def _back(self, state: Any) -> None:
        c = self._candidates
        function, self._waiting, c.race, c.unit, states = state
        self._put_back(function, states)

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        self._undo_provisional()
        waiting = None if self._waiting is None else self._waiting.to_state()
        state = self._state_with(self.function.snapshot())
        return {**state, **self._candidates.to_state(), "waiting": waiting}

    def restore(self, state: dict[str, Any]) -> None:
        self._before_provisional = None
        self._restore_with_function(state)
        f, n = self.function, self.function.n_candidates
        self._candidates.restore(state, n)
        self._waiting, waiting = None, state["waiting"]
        if waiting is not None:
            sizes = {"n_features": f.n_features, "n_columns": n * f.n_outputs}
            self._waiting = Waiting.from_state(waiting, **sizes)
            if self._waiting.X.dtype != f.dtype or not len(self._waiting):
                raise ValueError("The rows that wait for a step are none of this function.")


def _rows(prepared: Prepared, first: int, last: int) -> Prepared:
    return tuple(array[first:last] for array in prepared)


def _rises(old: float, new: float) -> bool:
    return new > old + _RISE * abs(old)


def n_held_out(n: int, n_passes: int, n_candidates: int) -> int:
    """Return the number of rows to hold out; none in a single pass, where each batch is new."""
    if n_candidates == 1 or n_passes == 1 or n < _FEW_ROWS:
        return 0
    return min(max(_HELD_OUT[0], n // 20), _HELD_OUT[1], n // 5)


def held_out(n: int, how_many: int) -> NDArray[np.bool_]:
    """Mark a random choice of rows to hold out."""
    held = np.zeros(n, dtype=np.bool_)
    held[np.random.default_rng(n).permutation(n)[:how_many]] = True
    return held
