"""Learner on a fixed set of features: it solves the squared loss, and takes Newton steps else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import records
from mercer.exceptions import DivergenceError
from mercer.learning.elsewhere import Layout, Solved, StepsElsewhere, refuse_elsewhere
from mercer.learning.learner import (
    Array,
    NewOutputs,
    Passes,
    Record,
    StepLearner,
    StepSize,
    Take,
    one_at_a_time,
)
from mercer.learning.newton_rows import NewtonRows, Settings, cut_steps, descends, descent_rows
from mercer.learning.regression_targets import begins_with_regression, is_quadratic, race_rows
from mercer.learning.step_sizes import AutomaticStep
from mercer.learning.temporal_differences import LinearRows, is_linear
from mercer.objectives import Batch, Bellman, Novelty, Objective, Pointwise
from mercer.sums import (
    Basis,
    Blocks,
    RidgeStream,
    Rows,
    class_numbers,
    relabelled,
    shift_of_codes,
)
from mercer.threads import one_blas_thread
from mercer.validation import integer

Floats = NDArray[np.floating[Any]]

# Fewest steps of `fit` and on the first rows of a stream; fewest steps for a prediction before the
# dictionary is chosen; and the factor on both if learning begins at f = 0.
_STEPS, _FEW_STEPS, _FROM_ZERO = 50, 20, 3
Engine = RidgeStream | LinearRows | NewtonRows

# Number of rows so far, and at the last solution; and the first rows, while they are kept.
_ROWS = records.Record(
    _n_rows=integer(low=0), _n_solved=integer(low=0), _first_rows=Blocks("n_features")
)

_FIRST_BYTES = 2**30  # most bytes of the first rows
_CHUNK = 8192  # rows that are learned, or reported, together


def checked_rows(function: Any, X: Any) -> Floats:
    """Return dense rows for a function, after a check that its kernel is finite at them."""
    rows: Floats = function.rows(X)
    with np.errstate(over="ignore", invalid="ignore"):
        own = function.kernel.diag(rows)
    if not np.isfinite(np.square(own, dtype=np.float64)).all():
        raise ValueError(
            f"{function.kernel!r} overflows on these rows, whose largest input is "
            f"{float(np.abs(rows).max()):.3g}. Rescale the inputs, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return rows


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
        rows = Rows(self._checked(X), targets, weights)
        with self.all_or_nothing(self._mark, self._back):
            self._follow_settings()
            self._look(targets, weights)
            self._learn(rows)
        self.n_samples += X.shape[0]

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))

    def _look(self, targets: Array, weights: Array) -> None:
        # Without weights: the curvature is that of the loss, and weights are applied elsewhere.
        used = (weights > 0.0).astype(np.float64)
        if type(self.objective) is Pointwise and used.any():
            targets, used = targets[used > 0.0], used[used > 0.0]
        self.first.look(self.objective, self.function.n_outputs, targets, used)

    def _checked(self, X: Any) -> Floats:
        """Return dense rows, after a check that the kernel is finite at them."""
        return checked_rows(self.function, X)

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
        self.note(Record(len(rows), float(losses.sum()), 1.0, self.objective.measured()))

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
            return Rows(self._checked(X[numbers]), targets[numbers], weights[numbers])

        def count(n_rows: int) -> None:
            nonlocal untold
            self.n_samples += n_rows
            untold += n_rows

        def tell() -> bool:
            nonlocal untold
            told, untold = untold, 0
            return told > 0 and report(told)

        def note(record: Record) -> bool:
            self.note(record)
            count(record.n_rows)
            return untold >= _CHUNK and tell()

        order = passes[0]
        count(n_rows - sum(map(len, passes)))
        most = self._most_first_rows
        basis = self._build_basis(take(order[: min(self._n_first_rows, most)]), chosen=True)
        self._engine = engine = self._new_engine(basis)
        if isinstance(engine, NewtonRows):
            engine.begin(take(order[: min(engine.n_first_rows, most)]))
            engine.passes(take, passes, note)
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
            with one_at_a_time():
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
        sample = Rows(self._checked(X), targets, weights)[weights > 0.0]
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
        held = Rows(self._checked(held.X), held.targets, held.weights)
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
