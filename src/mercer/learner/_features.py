"""The loop on random features (DSG, Algorithms 1 and 2).

What a step adds is a block of features, and its values at all rows still to come are added at
once: every block is drawn once for all rows of a call ("right-looking"). A stream, whose later
rows are not known, evaluates the old blocks on the rows of each call instead ("left-looking"). Both
give the same coefficients up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import pairwise
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._threads import one_blas_thread
from mercer._validation import check_real
from mercer.expansions.feature_expansion import FeatureExpansion, Mark, Update
from mercer.features._base import Prepared
from mercer.learner._base import Array, Learner, StepSize
from mercer.learner._passes import cut_pass, held_out, n_held_out
from mercer.learner._waiting import Waiting
from mercer.objectives import Batch, Objective
from mercer.planning import AutomaticStep, FeatureSteps, steps_of_batch

__all__ = ["FeatureLearner"]

# Predictions this many times larger than any target or 1 mean that the run has diverged.
_EXPLODED = 1e3
# Steps over which the losses of the candidates are averaged.
_MEMORY = 50.0
_REPORT = 8192  # rows between two reports of progress
_PROVISIONAL = RLock()


class FeatureLearner(Learner):
    """The loop on random features; see :class:`Learner` for its parameters.

    Rows wait until there are enough for a step. Until then they count through a provisional
    step on them, which is undone when more rows come. If the outputs change, this step is final:
    targets that wait are those of the old outputs.
    """

    function: FeatureExpansion

    def __init__(
        self,
        objective: Objective,
        function: FeatureExpansion,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self._waiting: Waiting | None = None
        self._before_provisional: tuple[Mark, list[dict[str, Any]]] | None = None
        self.race = np.zeros(function.n_candidates)
        self._unit = 1.0  # largest target so far, if that is above 1

    # -- one objective for each candidate, because objectives may have scalars of their own --------

    @property
    def objective(self) -> Objective:
        """Objective of the best candidate."""
        return self._objectives[self.function.best]

    @objective.setter
    def objective(self, objective: Objective) -> None:
        n = self.function.n_candidates
        self._objectives = [copy.deepcopy(objective) for _ in range(n)]

    # -- step sizes -----------------------------------------------------------------------------

    @property
    def rows_per_step(self) -> int:
        """Rows of a step."""
        n_outputs = self.function.n_outputs
        return self.function.expansion.plan(self.batch_size, n_outputs=n_outputs).rows_per_step

    def _steps(self, n_rows: int | None = None) -> FeatureSteps:
        return FeatureSteps(
            self.automatic,
            self.curvature(),
            self.function.expansion.mode,
            self.regularization,
            self.rows_per_step if n_rows is None else n_rows,
            self.function.block_size,
            self.objective.lipschitz is None,
        )

    def safe_step(self) -> float:
        """See :class:`Learner`."""
        return self._steps().largest()

    @property
    def shrinkage(self) -> float:
        """See :class:`Learner`: in cyclic mode the ridge is in the equations of the step."""
        return 0.0 if self.function.expansion.mode == "cyclic" else self.regularization

    def _step_size(self, batch: Waiting, whole: bool) -> float:
        """Size of the next step; ``whole``: on all rows."""
        t, weights = self.function.n_steps + 1, batch.weights
        if isinstance(self.step_size, AutomaticStep):
            size = self._steps(len(weights))(t, whole, weights)
            if self.function.expansion.mode == "faithful":
                size = min(
                    size,
                    steps_of_batch(self.objective, self.function.kernel, batch.X, *batch[1:3]),
                )
        else:
            size = float(self.step_size(t))
        self.check_steps(np.array([size]), t)
        if t == 1:
            self._steps().check(size, weights)
        return size

    def n_passes(self, n_passes: int, n_rows: int) -> int:
        """See :class:`Learner`."""
        expansion, wanted = self.function.expansion, n_passes
        if expansion.mode == "faithful":
            return n_passes
        for _ in range(2):  # the second time without the rows that several passes hold out
            steps = len(self._cut(n_rows - self._n_held_out(n_rows, wanted))) - 1
            wanted = max(n_passes, -(-expansion.min_steps // steps))
        return wanted

    def n_learned(self, n_rows: int, n_passes: int) -> int:
        """See :class:`Learner`."""
        return (n_rows - self._n_held_out(n_rows, n_passes)) * n_passes

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        """See :class:`Learner`."""
        if X.shape[0] == 0:
            return
        rows = self.function.rows(X)
        self._undo_provisional()
        state = self._state()
        try:
            self._learn(rows, targets, weights)
        except BaseException:
            self._go_back(state)
            raise
        self.n_samples += X.shape[0]

    def _learn(self, X: NDArray[np.floating], targets: Array, weights: Array) -> None:
        f = self.function
        self.first.look(self.objective, f.n_outputs, targets, weights)
        prepared = f.prepare(X)
        values = f.current(prepared)
        waiting = Waiting(X, targets, weights, values)
        joined = self._waiting is not None
        if self._waiting is not None:
            waiting = self._waiting.join(*waiting)
        n, rows_per_step, done = len(waiting.X), self.rows_per_step, 0
        collect = f.expansion.mode != "faithful"
        if joined and n >= rows_per_step:
            prepared = f.prepare(waiting.X)
        while n - done >= (rows_per_step if collect else 1):
            stop = min(done + rows_per_step, n)
            batch = waiting.cut(done, stop)
            share = self._share(stop - done) if done else 1.0
            update = self._step(batch, _rows(prepared, done, stop), share=share)
            f.apply(update, _rows(prepared, stop, n), waiting.values[stop:])
            done = stop
        self._waiting = waiting.cut(done) if done < n else None
        if self._waiting is not None:
            # A step of a later call could fail for them, and that call would not be to blame.
            self._check_slopes(self._waiting.cut(-min(len(self._waiting.X), len(X))))
        if self._waiting is not None and (done or not joined):
            # The caller's arrays are the caller's, and views would keep all of theirs alive.
            self._waiting = self._waiting.copied()

    def _check_slopes(self, rows: Waiting) -> None:
        """Refuse rows whose slopes are so large that sums and solutions may overflow."""
        values = np.split(rows.values, self.function.n_candidates, axis=1)[self.function.best]
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, _ = self.objective.slopes(values, Batch(*rows[:3]))
        if not np.abs(slopes).max() < np.sqrt(np.finfo(self.function.dtype).max) / len(values):
            raise self.diverged(self.safe_step(), 0, " The slopes of the last rows overflow.")

    def _share(self, n_rows: int) -> float:
        """Part of a step for the last batch of a call: its missing rows count as zeros."""
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
        """Make a step: ``share`` of one and not noted anywhere if it is provisional."""
        f = self.function
        n_rows = len(batch.X)
        step_size = share * self._step_size(batch, whole)
        rows = self._batches(batch, prepared)
        values = batch.values
        others = self.objective.points(rows[0])[n_rows:]
        if len(others):  # points of the objective's own
            more = f.prepare(others)
            values = np.vstack([values, f.current(more)])
            prepared = tuple(np.concatenate(both) for both in zip(prepared, more, strict=True))
        parts = np.split(values, f.n_candidates, axis=1)
        # Sums that overflow are found, and said, below.
        with np.errstate(over="ignore", invalid="ignore"):
            results = [
                o.slopes(v, r) for o, v, r in zip(self._objectives, parts, rows, strict=True)
            ]
            unit = max(self._unit, float(np.abs(batch.targets).max(initial=0.0)))
            sizes = np.array([np.sqrt(np.mean(np.square(v))) for v in parts])
            sound = np.array([bool(np.isfinite(slopes).all()) for slopes, _ in results])
            sound &= sizes <= _EXPLODED * unit
            slopes = np.hstack(
                [np.where(ok, r[0], 0.0) for r, ok in zip(results, sound, strict=True)]
            )
            steepness = self.objective.steepness(rows[0], len(values))
            for o, v, r in zip(self._objectives, parts, rows, strict=True):
                o.update(v, r, step_size)
            update = f.step(
                prepared,
                slopes,
                step_size,
                self.regularization,
                steepness,
                self.curvature(),
                self.objective.mixing(step_size, self.regularization, f.n_outputs),
            )
        if not (sound.any() and np.isfinite(update.coefficients).all()):
            why = f" The root mean square of f is {sizes.min():.3g}. {self._steps().limit()}"
            raise self.diverged(step_size, 0, why)
        # A ridge that is too small for the step may ruin its candidate, and no other.
        losses = np.array([float(r[1].sum()) for r in results])
        losses[~sound] = np.inf
        if provisional:
            return update
        self._unit = unit
        if fresh and f.n_candidates > 1:
            means, share = losses / n_rows, 1.0 / _MEMORY if self.race.any() else 1.0
            self.race = (1.0 - share) * self.race + share * means
            f.best = int(np.argmin(self.race))
        self.history.add(
            np.array([n_rows]),
            np.array([losses[f.best]]),
            np.array([f.size]),
            np.zeros(1),
            np.array([step_size]),
            np.array([self.objective.measured()]),
        )
        return update

    def _batches(self, rows: Waiting, prepared: Prepared) -> list[Batch]:
        """Rows as the objective of each candidate sees them."""
        n = self.function.n_candidates
        plain = Batch(rows.X, rows.targets, rows.weights)
        if not self.objective.needs_previous:
            return [plain] * n
        previous = self.function.previous(prepared, rows.values)
        return [plain._replace(previous=part) for part in np.split(previous, n, axis=1)]

    # -- rows that can be visited again -----------------------------------------------------------

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        """See :class:`Learner`."""
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
                    rows.cut(start, stop),
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
                # Rows already seen are met again in the next pass.
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
        """Choose the best candidate on rows held out."""
        parts = np.split(held.values, self.function.n_candidates, axis=1)
        rows = Batch(held.X, held.targets, held.weights)
        losses = [
            float(objective.losses_of(part, rows) @ held.weights)
            for objective, part in zip(self._objectives, parts, strict=True)
        ]
        self.race = np.array(losses)
        self.function.best = int(np.argmin(losses))

    def end_race(self) -> None:
        """See :class:`Learner`."""
        self._undo_provisional()
        self._keep_best()

    def _keep_best(self) -> None:
        best = self.function.best
        if self._waiting is not None:
            values = np.split(self._waiting.values, self.function.n_candidates, axis=1)[best]
            self._waiting = self._waiting._replace(values=values.copy())
        self.function.keep(best)
        self._objectives = self._objectives[best : best + 1]
        self.race = np.zeros(1)

    # -- rows that wait ---------------------------------------------------------------------------

    def current_function(self) -> FeatureExpansion:
        """See :class:`Learner`."""
        self._provisional()
        return self.function

    def evaluate(self, X: Any) -> Array:
        """See :class:`Learner`."""
        return self.current_function().evaluate(X)

    def _provisional(self) -> None:
        """Make a step on the rows that wait, to be undone when more rows come."""
        waiting = self._waiting
        if waiting is None or self._before_provisional is not None:
            return
        # Several threads may predict at the same time: to them the model does not change.
        with _PROVISIONAL, one_blas_thread():
            if self._before_provisional is not None:
                return
            # Not every row that comes changes the step, or single rows would cost a step each.
            n = len(waiting.X)
            grain = max(1, 1 << max(0, n.bit_length() - 4))
            mark, states = self.function.mark(), [o.state() for o in self._objectives]
            try:
                self._step_on(waiting.cut(0, n - n % grain), provisional=True)
            except BaseException:
                self._put_back(mark, states)
                raise
            self._before_provisional = mark, states

    def _step_on(self, rows: Waiting, *, provisional: bool) -> None:
        """Make a step on rows that are too few for a whole one."""
        share = max(len(rows.X) / self.rows_per_step, 1.0 / (1.0 + self.function.n_steps))
        points = self.function.prepare(rows.X)
        self._step(rows, points, share=share, provisional=provisional)

    def _put_back(self, mark: Mark, states: list[dict[str, Any]]) -> None:
        self.function.back(mark)
        for objective, state in zip(self._objectives, states, strict=True):
            objective.set_state(state)

    def _undo_provisional(self) -> None:
        if self._before_provisional is not None:
            self._put_back(*self._before_provisional)
            self._before_provisional = None

    def map_outputs(self, mixing: Array, objective: Objective) -> None:
        """See :class:`Learner`."""
        self._undo_provisional()
        if self._waiting is not None:
            self._step_on(self._waiting, provisional=False)
            self._waiting = None
        super().map_outputs(mixing, objective)

    def _replace_objective(self, objective: Objective) -> None:
        states = [o.state() for o in self._objectives]
        self.objective = objective
        for mine, state in zip(self._objectives, states, strict=True):
            mine.set_state(state)

    # -- state ------------------------------------------------------------------------------------

    def _state(self) -> tuple[Any, ...]:
        """Everything that :meth:`learn` changes, sharing arrays that are never changed in place."""
        return (
            self.function.mark(),
            self.function.best,
            self.race,
            self._unit,
            self._waiting,
            copy.copy(self.first),
            [o.state() for o in self._objectives],
            self.history.snapshot(),
        )

    def _go_back(self, state: tuple[Any, ...]) -> None:
        mark, self.function.best, self.race, self._unit, self._waiting, *rest = state
        self.first, scalars, history = rest
        self._put_back(mark, scalars)
        self.history.restore(history)

    def snapshot(self) -> dict[str, Any]:
        """See :class:`Learner`."""
        self._undo_provisional()
        waiting = None if self._waiting is None else self._waiting._asdict()
        return {
            **super().snapshot(),
            "race": self.race.copy(),
            "unit": self._unit,
            "objectives": {str(i): o.state() for i, o in enumerate(self._objectives)},
            "waiting": waiting,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`Learner`."""
        self._before_provisional = None
        super().restore(state)
        f, n = self.function, self.function.n_candidates
        race, objectives, waiting = state["race"], state["objectives"], state["waiting"]
        if race.shape != (n,) or race.dtype != np.float64 or len(objectives) != n:
            raise ValueError("The candidates of the learner do not fit together.")
        self.race = race.copy()
        self._unit = check_real("unit", state["unit"], low=1.0)
        self._objectives = [copy.deepcopy(self._objectives[0]) for _ in range(n)]
        for i, objective in enumerate(self._objectives):
            objective.set_state(objectives[str(i)])
        self._waiting = None
        if waiting is not None:
            self._waiting = Waiting.from_state(waiting, f.n_features, n * f.n_outputs, f.dtype)


def _rows(prepared: Prepared, first: int, last: int) -> Prepared:
    return tuple(array[first:last] for array in prepared)
