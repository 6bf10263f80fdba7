"""Learner of recursive least squares: it updates the exact solution row by row, without steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.functions import RecursiveFunction
from mercer.kernels import CompiledKernel
from mercer.learning.learner import (
    Array,
    NewOutputs,
    Passes,
    StepLearner,
    StepSize,
    Take,
    checked_rows,
)
from mercer.learning.regression_targets import is_quadratic, regression_targets
from mercer.learning.step_sizes import AutomaticStep
from mercer.numerics.recursive_squares import Stream, kernel_row, learn_row, learn_rows
from mercer.objectives import Batch, Objective
from mercer.records import Passing
from mercer.sums import shift_of_codes
from mercer.threads import one_blas_thread

_CHUNK = 8192  # rows between two reports of progress
_HUGE = 1e100  # smaller targets do not overflow when squared, or by an ill-conditioned Gram matrix


def _lacks_squares(objective: Objective, function: Any) -> str | None:
    if is_quadratic(objective):
        return None
    loss = getattr(objective, "loss", None)
    return (
        f"{function.expansion!r} solves least squares row by row, which the objective "
        f"{type(objective).__name__}({'' if loss is None else repr(loss)}) is not. Use "
        "loss='squared' without a risk, for classes 'least_squares_margin', or KOMP, Quantized or "
        "Budget for steps of any loss."
    )


class RecursiveLearner(StepLearner, Passing):
    """Learner of recursive least squares; see :class:`Learner` for the parameters."""

    # Memory addresses are invalid in another process.
    _passing: ClassVar[dict[str, Any]] = {"_compiled": None}

    function: RecursiveFunction
    gets_level = False
    solves = (is_quadratic,)
    refuses = (_lacks_squares,)

    def __init__(
        self,
        objective: Objective,
        function: RecursiveFunction,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self._compiled: CompiledKernel | None = None

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        f = self.function
        if X.shape[0] == 0:
            return
        rows = checked_rows(self.function, X)
        with self.all_or_nothing(lambda: f.snapshot(packed=False), f.restore):
            self._learn(rows, targets, weights)
        self.n_samples += X.shape[0]

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        for order in orders:
            for start in range(0, order.size, _CHUNK):
                some = order[start : start + _CHUNK]
                self._learn(checked_rows(self.function, X[some]), targets[some], weights[some])
                self.n_samples += some.size
                if report(some.size):
                    return

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        rows, targets, weights = x[np.newaxis], target[np.newaxis], np.array([float(weight)])
        if self.function.kernel.bound is None or not np.abs(target).max() < _HUGE:
            self.learn(rows, targets, weights)  # may overflow, and can be undone
            return
        self._learn(rows.astype(np.float64, copy=False), targets, weights)
        self.n_samples += 1

    def _learn(self, X: Array, targets: Array, weights: Array) -> None:
        f = self.function
        self.first.look(self.objective, f.n_outputs, targets, weights)
        encoded = regression_targets(self.objective, targets, f.n_outputs)
        assert encoded is not None
        used = weights > 0.0  # rows of weight 0 are ignored
        n = int(np.count_nonzero(used))
        rows = Stream(
            np.ascontiguousarray(X[used]),
            np.array(encoded[used], dtype=np.float64, order="C"),
            np.array(weights[used], dtype=np.float64),
            np.zeros((n, f.n_outputs)),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n, np.int64),
        )
        done = 0
        while done < n:
            f.reserve()
            done = self._run(rows, done)
            f.refresh()
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (rows.targets - rows.said) ** 2
        if not (np.isfinite(squares).all() and np.isfinite(f.arrays.weights[: f.size]).all()):
            raise DivergenceError(
                f"Least squares on {f.expansion!r} are no longer finite after {self.n_samples + n} "
                "rows: targets or kernels are too large for float64. Standardise the columns and "
                "the target, or give the expansion more `noise`."
            )
        f.note_errors(squares, rows.variances)
        batch = Batch(X[used], targets[used], weights[used])
        losses = self.objective.losses_of(rows.said, batch)
        self.history.add(
            np.ones(n, np.int64), losses, rows.sizes, rows.errors, np.ones(n), np.zeros((n, 0))
        )

    def _run(self, rows: Stream, done: int) -> int:
        """Learn rows from ``done`` on while there is room; return the number of the next row."""
        f = self.function
        compiled = self._kernel()
        if compiled is not None:
            f.size, done, f.n_changes = learn_rows(
                compiled.address,
                compiled.parameters,
                f.arrays,
                f.size,
                f.rules,
                rows,
                done,
                f.n_changes,
            )
            return int(done)
        x = rows.inputs[done : done + 1]
        own = float(np.asarray(f.kernel.diag(x))[0])
        row = np.array(f.kernel(x, f.arrays.points[: f.size])[0], dtype=np.float64)
        f.size, joined = learn_row(f.arrays, f.size, f.rules, rows, done, row, own)
        f.n_changes -= int(joined)
        return done + 1

    def _kernel(self) -> CompiledKernel | None:
        """Return the compiled kernel, or None if it has no compiled form."""
        if self._compiled is None:
            self._compiled = self.function.kernel.compiled(np.float64)
        return self._compiled

    # -- the function and its outputs -----------------------------------------------------------

    def current_function(self) -> RecursiveFunction:
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        f, compiled = self.function, self._kernel()
        if compiled is None or not f.size:
            with one_blas_thread():
                return np.asarray(self.evaluate(x[np.newaxis])[0])
        row = kernel_row(compiled.address, compiled.parameters, f.arrays.points, f.size, x)
        return np.asarray(row @ f.arrays.weights[: f.size])

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        """Plan one pass, as a second pass would count every row twice."""
        return Passes(1, len(weights))

    def map_outputs(self, new: NewOutputs) -> None:
        n_old, n_new = new.mixing.shape
        self.function.map_outputs(*shift_of_codes(new.places, n_old, n_new))
        self._replace_objective(new.objective)

    def end_race(self) -> None:
        """Do nothing, as there are no candidates."""

    def finish(self, take: Take | None = None) -> None:
        """Do nothing, as every row is learned already."""

    # -- state ----------------------------------------------------------------------------------

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        return self._state_with(self.function.snapshot())

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)
