"""Learner on kernel expansions.

If all parts are built in, steps run in compiled code (:mod:`mercer.numerics.loops`, also for
pairs, :mod:`mercer.numerics.pair_matrices` and :mod:`mercer.numerics.risks`) while the model is
small or the batch size is 1. Tests compare compiled code with Python.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError, NothingLearnedWarning
from mercer.functions import BilinearExpansion, KernelExpansion
from mercer.learning.learner import (
    LOSS_GROWTH,
    Array,
    NewOutputs,
    Passes,
    StepLearner,
    StepSize,
    Take,
)
from mercer.learning.loop import UnsoundStepError, make_step
from mercer.learning.step_sizes import AutomaticStep, CarefulSteps, FirstRows, stable_steps
from mercer.numerics import loops
from mercer.numerics.compression import Compressor, with_code
from mercer.numerics.dense import blas_addresses
from mercer.numerics.loops import (
    ALL,
    BALANCED,
    DIFFERENCE,
    OPPOSITE,
    SAME,
    SIGN,
    Buffered,
    Functions,
    Rows,
    Rules,
    Steps,
    kernels_of_buffer,
    run_one_row,
    run_pairs,
    run_rows,
    score_one_row,
)
from mercer.numerics.pair_matrices import codes_of, run_pair_matrices
from mercer.numerics.risks import CompiledRisk, UnderRisk, no_past, run_under_risk
from mercer.objectives import Batch, Compositional, Objective, Pairwise, Pointwise
from mercer.records import Passing
from mercer.schedules import Constant
from mercer.threads import one_blas_thread

# Compiled loops over points beat BLAS calls from Python while model order x inputs is below this.
_MAX_WORK = 16_384
# Compiled code needs plain, writable, C-ordered arrays.
_PLAIN: Any = ["C", "ALIGNED", "WRITEABLE"]
# A model is idle only after so many times the rows that a buffer holds.
_IDLE = 10
_CHUNK = 8192  # rows between two reports of progress
# Functions that the compiled loops on pairs know, by the order of the pair kernel, and the numbers
# of the options there.
_OF_ORDER: dict[int, type[Any]] = {1: KernelExpansion, 2: BilinearExpansion}
_LABELS = {"difference": DIFFERENCE, "sign": SIGN, "same": SAME}
_NORMALIZATIONS = {"opposite": OPPOSITE, "all": ALL, "balanced": BALANCED}


class _SingleRow(NamedTuple):
    """Prepared arguments for learning a single row, and the settings that they are for."""

    first: FirstRows
    objective: Objective
    step_size: Any
    regularization: Any
    batch_size: int
    compressor: Compressor
    dtype: np.dtype[Any]
    functions: tuple[Any, ...]
    compression: tuple[Any, ...]
    rows: Rows
    steps: Steps
    limits: tuple[Any, ...]
    averaging: float
    is_constant: bool
    risk: CompiledRisk | None
    watched: Array


class KernelLearner(StepLearner, Passing):
    """Learner on a kernel expansion; see :class:`Learner` for the parameters."""

    # Memory addresses are invalid in another process.
    _passing: ClassVar[dict[str, Any]] = {"_functions": {}, "_single": None}

    function: KernelExpansion

    def __init__(
        self,
        objective: Objective,
        function: KernelExpansion,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self._functions: dict[Any, tuple[Objective, Functions | None]] = {}
        self._single: _SingleRow | None = None

    # -- plan of the steps ----------------------------------------------------------------------

    def _plan(
        self, rows_per_step: NDArray[np.int64], X: Any, targets: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Return sizes, ridges and tolerances of all steps of a call, before the first step."""
        first = self.function.n_steps + 1
        n_steps = rows_per_step.size
        ridges = self.ridges(first, n_steps)
        with np.errstate(divide="ignore"):  # no ridge, no limit
            longest = 1.0 / ridges
        if isinstance(self.step_size, AutomaticStep):
            step_sizes = np.asarray(self.step_size.of_batch(rows_per_step), dtype=np.float64)
            if not self._slopes_are_bounded():
                kernel, curvature = self.function.kernel, self.curvature()
                stable = stable_steps(
                    self.objective, kernel, curvature, rows_per_step, X, targets, weights
                )
                step_sizes = np.minimum(step_sizes, stable)
            step_sizes = np.minimum(step_sizes, 0.5 * longest)
        else:
            numbers = range(first, first + n_steps)
            try:
                step_sizes = np.array([self.step_size(t) for t in numbers], float).reshape(n_steps)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"`step_size` must give positive numbers: {error}.") from error
            if isinstance(self.step_size, CarefulSteps):
                limits = self.step_size.limits(self.function.kernel, X, weights, rows_per_step)
                # With the longest steps that the ridge allows, all rows so far count alike.
                limits = np.minimum(limits, longest / (1.0 + np.array(numbers)))
                step_sizes = np.minimum(step_sizes, limits)
        self.check_steps(step_sizes, first, ridges)
        if n_steps > 1 and not isinstance(self.step_size, AutomaticStep):
            # With a schedule, missing rows of a short last batch count as zeros.
            step_sizes[-1] *= rows_per_step[-1] / self.batch_size
        bound: Any = self.automatic.bound
        if self.function.kernel.bound is None:
            # Without a bound, use the largest k(x, x) of each batch.
            diagonal = np.asarray(self.function.kernel.diag(X), dtype=np.float64)
            bound = np.maximum.reduceat(diagonal, np.cumsum(rows_per_step) - rows_per_step)
        norms = self.first.slope * np.sqrt(bound) / rows_per_step * self.objective.tolerance_scale
        tolerances = self.function.expansion.tolerances(step_sizes, first, norms)
        if self.objective.clip is not None:
            self._check_tolerances(tolerances, step_sizes * self.objective.clip * np.sqrt(bound))
        return step_sizes, ridges, tolerances

    def _check_tolerances(self, tolerances: Array, largest: Array) -> None:
        """Raise ValueError if clipped steps are so small that the tolerance undoes all of them."""
        if (tolerances >= largest).all():
            raise ValueError(
                f"The compression tolerance ({tolerances[0]:.3g}) is not below the largest change "
                f"of a step ({largest[0]:.3g}): the step size times the clip of the slopes, "
                f"{self.objective.clip:.3g}. Every step would be undone. Lower `tolerance` or "
                "`parsimony`, or raise `step_size` or `clip`."
            )

    def _slopes_are_bounded(self) -> bool:
        return self.objective.lipschitz is not None

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        self._learn(X, targets, weights, protect=True)

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        # The rest of a pass, at least one batch, is joined to the next pass: a short last batch is
        # never learned alone, and is scaled as one of several.
        chunk = max(1, _CHUNK // self.batch_size) * self.batch_size
        waiting = np.empty(0, np.int64)
        for order in orders:
            order = np.concatenate([waiting, order])
            while order.size - chunk >= self.batch_size + order.size % self.batch_size:
                rows, order = order[:chunk], order[chunk:]
                self._learn(X[rows], targets[rows], weights[rows], protect=False)
                if report(rows.size):
                    return
            waiting = order
        if waiting.size:
            self._learn(X[waiting], targets[waiting], weights[waiting], protect=False)
            report(waiting.size)

    def _learn(self, X: Any, targets: Array, weights: Array, *, protect: bool) -> None:
        n = X.shape[0]
        if n == 0:
            return
        b = self.batch_size
        rows_per_step = np.full((n + b - 1) // b, b, np.int64)
        rows_per_step[-1] = n - (rows_per_step.size - 1) * b
        targets, weights = (np.require(a, np.float64, _PLAIN) for a in (targets, weights))
        n_steps = rows_per_step.size
        undo, has_run = None, False
        if protect and n_steps > 1:  # arrays are at hand then, in case that memory has run out
            undo = copy.deepcopy(vars(self.history)), self.function.snapshot(packed=False)
        scalars, slots, first = self.objective.state(), self.function.slots, copy.copy(self.first)
        try:
            self.first.look(self.objective, self.function.n_outputs, targets, weights)
            step_sizes, ridges, tolerances = self._plan(rows_per_step, X, targets, weights)
            steps = Steps(
                step_sizes,
                ridges,
                tolerances,
                np.zeros(n),
                np.zeros(n_steps),
                np.zeros(n_steps, np.int64),
            )
            watched = np.zeros((n_steps, len(self.objective.monitors)))
            self._run(X, targets, weights, steps, watched)
            has_run = True
            sums = np.add.reduceat(steps.losses, np.arange(0, n, b))
            self.history.add(
                rows_per_step, sums, steps.model_orders, steps.errors, step_sizes, watched
            )
        except BaseException:
            if has_run and undo is None:  # a single step, which is whole
                raise
            self.first = first
            self.objective.set_state(scalars)
            if undo is not None:
                vars(self.history).update(undo[0])
                self.function.restore(undo[1])
            elif protect:
                self.function.slots = slots
            raise
        self.n_samples += n
        self._warn_if_nothing_learned(tolerances, float(step_sizes[-1]))

    def _run(self, X: Any, targets: Array, weights: Array, steps: Steps, watched: Array) -> None:
        f = self.function
        n, b = X.shape[0], self.batch_size
        rows: Rows | None = None
        largest_loss = self.largest_loss(targets, weights)
        max_work = np.iinfo(np.int64).max if b == 1 else _MAX_WORK
        row = 0
        while row < n:
            dtype = np.dtype(f.computes_in or f.dtype)
            functions = self.compiled(dtype) if isinstance(X, np.ndarray) else None
            small = f.size * f.n_features <= max_work
            if functions is not None and (self._pairs or (small and self._goes_compiled)):
                if rows is None or rows.inputs.dtype != dtype:
                    inputs = np.asarray(X, f.dtype)
                    rows = Rows(np.require(inputs, dtype, _PLAIN), targets, weights)
                if self._pairs:
                    row = self._run_pairs(functions, rows, steps, row, largest_loss)
                elif type(self.objective) is Compositional:
                    objective: Any = self.objective
                    row = self._run_under_risk(
                        functions,
                        objective.compiled(),
                        rows,
                        steps,
                        watched,
                        row,
                        max_work,
                        largest_loss,
                    )
                else:
                    row = self._run_rows(functions, rows, steps, row, max_work, largest_loss)
                continue
            stop = min(row + b, n)
            block = X[row:stop] if isinstance(X, np.ndarray) else X[row:stop].toarray()
            self._step(Batch(block, targets[row:stop], weights[row:stop]), row, steps, largest_loss)
            watched[row // b] = self.objective.measured()
            row = stop

    def _step(self, batch: Batch, row: int, steps: Steps, largest_loss: float) -> None:
        """Take one step in Python; compiled code does the same.

        A step that is the only one of its call is undone if it fails: by a kernel of the user, say.
        """
        t = row // self.batch_size
        undo = self.function.snapshot(packed=False) if steps.step_sizes.size == 1 else None
        batch = batch._replace(X=np.ascontiguousarray(batch.X, dtype=self.function.dtype))
        eta, tolerance = steps.step_sizes[t], steps.tolerances[t]
        try:
            losses, steps.errors[t] = make_step(
                self.function,
                self.objective,
                batch,
                eta,
                steps.ridges[t],
                tolerance,
                largest_loss,
            )
        except UnsoundStepError:
            raise self.diverged(eta, row) from None
        except BaseException:
            if undo is not None:
                self.function.restore(undo)
            raise
        steps.losses[row : row + losses.size] = losses
        steps.model_orders[t] = self.function.size

    def _settle(
        self, reason: int, steps: Steps, row: int, finish: Callable[[float, float], float]
    ) -> None:
        """Do what a compiled loop that stopped before a row has left to Python.

        After ``NO_ROOM``, ``TOO_LARGE`` and ``UNUSUAL`` the callers go on. ``finish`` maps the
        error of a step that is half done, and its tolerance, to its total error.
        """
        if reason == loops.DIVERGED:
            raise self.diverged(steps.step_sizes[row // self.batch_size], row)
        done = (row - 1) // self.batch_size
        if reason == loops.HALF_DONE:
            steps.errors[done] = finish(steps.errors[done], steps.tolerances[done])
        elif reason in (loops.ILL_CONDITIONED, loops.BROKEN_DOWN):
            self.function.use_safer_path()
        if reason in (loops.HALF_DONE, loops.ILL_CONDITIONED):
            steps.model_orders[done] = self.function.size

    def _run_rows(
        self,
        functions: Functions,
        rows: Rows,
        steps: Steps,
        row: int,
        max_work: int,
        largest_loss: float,
    ) -> int:
        """Learn rows from ``row`` on, until all are learned or the function is too large.

        Returns
        -------
        row : int
            The next row to learn.
        """
        f, b = self.function, self.batch_size
        f.reserve(min(len(rows.inputs) - row, b))
        done, reason = run_rows(
            functions,
            with_code(f.compressor, f.dtype),
            f.arrays,
            rows,
            steps,
            f.limits(),
            f.progress(row),
            b,
            -1.0 if f.averaging is None else f.averaging,
            max_work,
            largest_loss,
        )
        f.resume(done)
        if reason != loops.FINISHED:
            self._settle(reason, steps, done[-1], f.finish)
        return int(done[-1])

    def _run_under_risk(
        self,
        functions: Functions,
        risk: CompiledRisk,
        rows: Rows,
        steps: Steps,
        watched: Array,
        row: int,
        max_work: int,
        largest_loss: float,
    ) -> int:
        """Learn rows from ``row`` on under a risk, as :meth:`_run_rows` does for the mean."""
        objective: Any = self.objective
        f, b = self.function, self.batch_size
        f.reserve(min(len(rows.inputs) - row, b))
        past = no_past(f.dtype) if f.past is None else f.past.compiled(f.arrays)
        done, reason = run_under_risk(
            functions,
            with_code(f.compressor, f.dtype),
            f.arrays,
            UnderRisk(risk, objective.way, objective.tracked, past, watched),
            rows,
            steps,
            f.limits(),
            f.progress(row),
            b,
            -1.0 if f.averaging is None else f.averaging,
            max_work,
            largest_loss,
        )
        f.resume(done, past=None if f.past is None else past)
        if reason != loops.FINISHED:
            self._settle(reason, steps, done[-1], f.end_half_done)
        return int(done[-1])

    def _run_pairs(
        self, functions: Functions, rows: Rows, steps: Steps, row: int, largest_loss: float
    ) -> int:
        """Learn pairs from ``row`` on, until all are learned or Python takes over.

        Returns
        -------
        row : int
            The next row to learn.
        """
        objective: Any = self.objective
        f: Any = self.function
        X, first, dtype = rows.inputs, row, f.dtype
        targets, weights = rows.targets, rows.sample_weights
        places = objective.places(targets[row:], weights[row:])
        rules = Rules(
            _LABELS[objective.pair_label],
            _NORMALIZATIONS[objective.normalize],
            objective.pattern,
            float(objective.loss.value([1.0], [0.0])[0]),
            np.concatenate([np.full(row, -1, np.int64), places]),
        )
        n_places = max(int(places.max()) + 1, objective.kept.weights.size)
        buffered = _buffer(objective, f, X, n_places)
        is_matrix, reason = isinstance(f, BilinearExpansion), loops.FINISHED
        try:
            while row < len(X) and reason != loops.UNUSUAL:
                if X.dtype != (f.computes_in or f.dtype):  # the function went to double precision
                    break
                f.reserve(n_places + 1)
                dictionary: Any = f.compiled() if is_matrix else f.arrays
                kernels = np.zeros((n_places, len(dictionary.points)), X.dtype)
                buffered = buffered._replace(kernels=kernels)
                kernels_of_buffer(functions, dictionary.points, f.size, buffered)
                parts = dictionary, buffered, rules, rows, steps, f.limits(), f.progress(row)
                if is_matrix:
                    done, reason = run_pair_matrices(
                        functions, codes_of(f.kind), *parts, largest_loss
                    )
                else:
                    averaging = -1.0 if f.averaging is None else f.averaging
                    compressor = with_code(f.compressor, f.dtype)
                    done, reason = run_pairs(functions, compressor, *parts, averaging, largest_loss)
                f.resume(done, buffered.slots)
                row = done[-1]
                if reason != loops.FINISHED:
                    self._settle(reason, steps, row, f.finish_with_slots)
                buffered = buffered._replace(slots=f.slots)
        finally:
            points = buffered.points.astype(dtype, copy=False)
            objective.take_buffer(points, *buffered[1:3], targets[first:row], weights[first:row])
        if reason == loops.UNUSUAL:
            batch = Batch(X[row : row + 1], targets[row : row + 1], weights[row : row + 1])
            self._step(batch, row, steps, largest_loss)
            row += 1
        return row

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        f, single = self.function, self._single
        # The first rows set the unit of the tolerance, and heavy rows lower the step size, so these
        # rows are learned by `learn`.
        if single is None or weight > 1.0 or not f.size or not self._goes_on(single):
            single = self._prepared(x, target, weight)
            if single is None:
                self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))
                return
        rows, steps = single.rows, single.steps
        rows.inputs[0], rows.targets[0], rows.sample_weights[0] = x, target, weight
        if not single.is_constant:
            self._plan_row(steps, rows)
        risk = single.risk
        is_learned = self._learn_one(single) if risk is None else self._weigh_one(single, risk)
        if not is_learned:
            # Learn it on the safer path, or confirm that it diverges.
            self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))
            return
        self.n_samples += 1
        monitors = None if risk is None else single.watched[0]
        self.history.add_one(
            steps.losses[0], f.size, steps.errors[0], steps.step_sizes[0], monitors
        )

    def _learn_one(self, single: _SingleRow) -> bool:
        """Learn the prepared row; return whether that was possible."""
        f, steps = self.function, single.steps
        if f.size + 1 > f.arrays.points.shape[0]:
            f.reserve(1)
        *progress, reason = run_one_row(
            single.functions,
            single.compression,
            tuple(f.arrays),
            tuple(single.rows),
            tuple(steps),
            single.limits,
            (f.size, f.oldest, f.scale, f.n_steps, 0),
            single.averaging,
            LOSS_GROWTH * abs(self.first.loss),
        )
        f.resume_row(*progress)
        if reason == loops.HALF_DONE:
            steps.errors[0] = f.finish(steps.errors[0], steps.tolerances[0])
        elif reason not in (loops.FINISHED, loops.DIVERGED):
            f.use_safer_path()
        return reason in (loops.FINISHED, loops.ILL_CONDITIONED, loops.HALF_DONE)

    def _weigh_one(self, single: _SingleRow, risk: CompiledRisk) -> bool:
        """Learn the prepared row under a risk, as :meth:`_learn_one` does for the mean."""
        functions = self.compiled(self.function.dtype)
        if functions is None or not self._goes_compiled:
            return False
        try:
            row = self._run_under_risk(
                functions,
                risk,
                single.rows,
                single.steps,
                single.watched,
                0,
                np.iinfo(np.int64).max,
                LOSS_GROWTH * abs(self.first.loss),
            )
        except DivergenceError:
            return False
        return row == 1

    def _goes_on(self, single: _SingleRow) -> bool:
        """Whether the prepared arguments are for the present settings."""
        return (
            single.first is self.first
            and single.objective is self.objective
            and single.step_size is self.step_size
            and single.dtype is self.function.arrays.points.dtype
            and single.regularization == self.regularization
            and single.batch_size == self.batch_size
            and single.compressor is self.function.compressor
        )

    def _prepared(self, x: Array, target: Array, weight: float) -> _SingleRow | None:
        """Prepare arguments for single rows; None if this row must be learned by :meth:`learn`."""
        f = self.function
        objective: Any = self.objective
        waits = not self.first.seen or weight > 1.0 or f.size == 0 or not self._goes_compiled
        waits = waits or type(objective) not in (Pointwise, Compositional)
        functions = None if waits else self.compiled(f.dtype)
        if functions is None:
            return None
        rows = Rows(np.empty((1, x.size), f.dtype), np.empty((1, target.size)), np.ones(1))
        rows.inputs[0], rows.targets[0] = x, target
        sizes, ridges, tolerances, losses, errors = np.empty((5, 1))
        steps = Steps(sizes, ridges, tolerances, losses, errors, np.zeros(1, np.int64))
        is_constant = self._is_constant()
        if is_constant:
            self._plan_row(steps, rows)
        self._single = _SingleRow(
            self.first,
            self.objective,
            self.step_size,
            self.regularization,
            self.batch_size,
            f.compressor,
            f.dtype,
            tuple(functions),
            tuple(with_code(f.compressor, f.dtype)),
            rows,
            steps,
            tuple(f.limits()),
            -1.0 if f.averaging is None else float(f.averaging),
            is_constant,
            objective.compiled() if type(objective) is Compositional else None,
            np.zeros((1, len(objective.monitors))),
        )
        return self._single

    def _plan_row(self, steps: Steps, rows: Rows) -> None:
        planned = self._plan(np.ones(1, np.int64), rows.inputs, rows.targets, np.ones(1))
        for place, values in zip(steps[:3], planned, strict=True):
            place[0] = values[0]

    def _is_constant(self) -> bool:
        """Whether all steps on single rows have the same size and tolerance."""
        steady = isinstance(self.step_size, AutomaticStep | Constant)
        steady = steady and self.function.kernel.bound is not None
        steady = steady and not callable(self.regularization)
        return steady and not callable(getattr(self.function.expansion, "tolerance", None))

    @property
    def _pairs(self) -> bool:
        """Whether the compiled loop on pairs can learn this objective and function."""
        objective: Any = self.objective
        return (
            type(objective) is Pairwise
            and self.batch_size == 1
            and objective.pair_kernel.bias == 0.0
            and isinstance(self.function, _OF_ORDER[objective.pair_kernel.order])
        )

    @property
    def _goes_compiled(self) -> bool:
        """Whether the objective has seen what the compiled loop needs: under a risk, first rows."""
        objective = self.objective
        return type(objective) is not Compositional or objective.tracked is not None

    # -- the function and its outputs -----------------------------------------------------------

    def current_function(self) -> KernelExpansion:
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        f = self.function
        functions = self.compiled(f.dtype)
        if functions is None:
            with one_blas_thread():
                return np.asarray(self.evaluate(x[np.newaxis])[0])
        values = np.empty(f.n_outputs)
        if f.averaging is None:
            score_one_row(tuple(functions), tuple(f.arrays), f.size, 0, f.scale, x, values)
        else:
            score_one_row(tuple(functions), tuple(f.arrays), f.size, f.n_outputs, 1.0, x, values)
        return values

    def last_iterate_row(self, x: Array) -> Array:
        """Return values of the last iterate at one row, (n_outputs,), even with averaging.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            Point, finite, of the type of the function.
        """
        f = self.function
        functions = self.compiled(f.dtype)
        if functions is None:
            return np.asarray(f.current(x[np.newaxis])[0])
        values = np.empty(f.n_outputs)
        score_one_row(tuple(functions), tuple(f.arrays), f.size, 0, f.scale, x, values)
        return values

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        return Passes(n_passes, n_passes * len(weights))

    def map_outputs(self, new: NewOutputs) -> None:
        self.function.map_outputs(new.mixing)
        self._replace_objective(new.objective)

    def end_race(self) -> None:
        """Do nothing, as there are no candidates."""

    def finish(self, take: Take | None = None) -> None:
        """Do nothing, as every row is learned already."""

    # -- compiled parts -------------------------------------------------------------------------

    def compiled(self, dtype: np.dtype[Any]) -> Functions | None:
        """Return the compiled kernel and loss, or None if a part has no compiled form."""
        objective, functions = self._functions.get(dtype, (None, None))
        if objective is not self.objective:  # compiled for another loss or other outputs
            functions = self._compile(dtype)
            self._functions[dtype] = self.objective, functions
        return functions

    def _compile(self, dtype: np.dtype[Any]) -> Functions | None:
        objective: Any = self.objective
        if type(objective) is Compositional:
            if objective.compiled() is None or not isinstance(self.function, KernelExpansion):
                return None
        elif type(objective) is not Pointwise and not self._pairs:
            return None
        kernel, loss = self.function.kernel.compiled(dtype), objective.loss.compiled()
        if kernel is None or loss is None:
            return None
        parts = kernel.address, kernel.parameters, loss.address, loss.parameters
        return Functions(*parts, blas_addresses(dtype))

    # -- things that must not pass in silence ---------------------------------------------------

    def _typical_norm(self) -> float:
        """Return the RKHS norm of what a usual row adds with step size 1."""
        scale = self.objective.tolerance_scale / self.batch_size
        return self.first.slope * float(np.sqrt(self.automatic.bound)) * scale

    def _warn_if_nothing_learned(self, tolerances: Array, step_size: float) -> None:
        if self._warned or self.first.slope == 0.0:
            return
        held = int(np.count_nonzero(self.function.slots >= 0))
        # A function may become 0 for a while: it is idle only if it was always 0.
        empty = self.function.size == 0 and not self.history.model_order.any()
        idle = empty or (
            0 < self.function.size <= held
            and self.n_samples > _IDLE * held
            and tolerances[-1] > step_size * self._typical_norm()
            and bool(self.function.coefficients.any())
        )
        if not idle:
            return
        self._warned = True
        warnings.warn(
            f"The compression tolerance ({tolerances[-1]:.3g}) exceeds what a step adds to the "
            "function, so every step was undone and nothing is being learned. Lower `tolerance` "
            "or `parsimony`, or raise `step_size`.",
            NothingLearnedWarning,
            stacklevel=2,
        )

    # -- state ----------------------------------------------------------------------------------

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        return self._state_with(self.function.snapshot())

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)


def _buffer(
    objective: Pairwise, f: KernelExpansion, X: NDArray[np.floating], n_places: int
) -> Buffered:
    """Return a copy of the buffer with room for all further rows of the call."""
    kept, slots = objective.kept, np.full(n_places, -1, np.int64)
    n = kept.weights.size
    points = np.zeros((n_places, X.shape[1]), X.dtype)
    targets, weights = np.zeros((n_places, 2)), np.zeros(n_places)
    if n:
        points[:n], targets[:n], weights[:n] = kept
    held = f.slots[:n_places]
    slots[: held.size] = held
    return Buffered(points, targets, weights, slots, np.zeros((0, 0), X.dtype))
