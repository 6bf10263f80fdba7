"""Interface of learners: those that take steps, those that do not, and rows learned elsewhere."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from threading import RLock
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import Advice, DivergenceError, ParameterError, Setting
from mercer.history import History
from mercer.learning.step_sizes import AutomaticStep, FirstRows
from mercer.objectives import Objective, Pointwise
from mercer.sums import CellsPart, Rows
from mercer.threads import WITH_LOCKS, one_blas_thread
from mercer.validation import check_real

Array = NDArray[np.float64]

#: Most steps of a pass over rows that lie elsewhere: each step costs a round of messages.
MOST_STEPS = 48


class Layout(NamedTuple):
    """Plan of the work on rows, wherever these lie.

    Attributes
    ----------
    rows : callable
        Maps inputs, encoded targets and weights to the :class:`mercer.sums.Rows` to learn.
    summands : dict of int to object
        Objects that sum up rows, by the number of the component: regressions that have learned no
        rows yet. They have ``learn(rows)`` and ``merge(other)``.
    partitions : dict of int to CellsPart
        Components, by number, that need all rows of each of their regions in one place.
    n_steps : int
        Number of steps of a pass over all rows that follows; 0 for none.
    """

    rows: Callable[[Any, Array, Array], Rows]
    summands: dict[int, Any]
    partitions: dict[int, CellsPart]
    n_steps: int = 0


class Solved(NamedTuple):
    """A solved component with cells.

    Attributes
    ----------
    part : CellsPart
        The component.
    values : ndarray of shape (n_held, n_outputs)
        Predictions for the held out rows by a fit without them.
    """

    part: CellsPart
    values: Array


class Ask(Protocol):
    """Function that is summed over rows where they lie; it can be pickled."""

    def __call__(self, rows: Rows, of: Any, /) -> list[Array]:
        """Return sums over rows.

        Parameters
        ----------
        rows : Rows
            The rows; there may be none.
        of : object
            Argument that changes from step to step, such as coefficients.
        """


class StepsElsewhere(Protocol):
    """Rows that lie elsewhere, divided into the steps that the layout asks for.

    Attributes
    ----------
    n_steps : int
        Number of steps of a pass over all rows that are not held out.
    """

    n_steps: int

    def total(self, step: int, ask: Ask, of: Any, held: Rows | None = None) -> list[Array]:
        """Return sums over the rows of a step.

        Parameters
        ----------
        step : int
            Number of the step.
        ask : Ask
            Function to sum; it is sent only once while it is the same object.
        of : object
            Second argument of ``ask``.
        held : Rows, default=None
            Held out rows, which are in this process: each step includes a share of them.
        """


class Elsewhere(Protocol):
    """Learner whose rows may be learned elsewhere."""

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Choose kernels, features and sizes from a sample in random order, and plan the rest.

        Parameters
        ----------
        X, targets, weights
            The sample, in the form of ``learn``.
        n_rows : int
            Total number of rows.
        n_regions : int
            Number of regions of a partition.
        """

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take over results from elsewhere, and make the choices that need held out rows.

        Parameters
        ----------
        held : Rows
            Held out rows: inputs, encoded targets and weights.
        solved : dict of int to Solved
            Solved partitions, by the number of the component.
        sums : dict of int to object
            Merged summands, by the number of the component.
        steps : StepsElsewhere, default=None
            Rows for steps, if the layout has steps.
        """


def refuse_elsewhere(objective: Objective) -> None:
    """Raise ValueError if rows of an objective cannot be learned in several places."""
    if type(objective) is not Pointwise:
        raise ValueError(
            f"The objective {type(objective).__name__} cannot be learned in several places: its "
            "rows belong together, or it follows averages from step to step. Use the mean of a "
            "loss, or learn all rows in one place."
        )


_REMEDY = (
    "; standardise the columns (and the target of a regression), or use a loss with bounded slopes "
    "such as 'huber'."
)

StepSize = Callable[[int], float]
Take = Callable[[NDArray[np.int64]], tuple[Any, Array, Array]]

# A loss this many times larger than the first one means that the step size is unstable.
LOSS_GROWTH = 1e12


class StepRecord(NamedTuple):
    """Entry of the history for one step."""

    n_rows: int
    loss: float
    step_size: float
    monitors: tuple[float, ...] = ()


class NewOutputs(NamedTuple):
    """Change of the outputs of a function when classes are added.

    Attributes
    ----------
    places : ndarray of shape (n_old,)
        Position of each old class among all classes.
    mixing : ndarray of shape (n_outputs, n_outputs_new)
        Column j holds the coefficients of the new output j in the old outputs.
    objective : Objective
        Objective for the new outputs.
    """

    places: NDArray[np.int64]
    mixing: Array
    objective: Objective


class Passes(NamedTuple):
    """Passes of ``fit`` over its rows.

    Attributes
    ----------
    n_passes : int
        Number of passes.
    n_rows : int
        Number of rows learned in all passes together; rows held out do not count.
    """

    n_passes: int
    n_rows: int


class Learner(ABC):
    """Interface of an object that updates a function from rows, as estimators use it.

    A learner declares which objectives it solves without steps (:attr:`solves`), so that step sizes
    have no meaning, and which combinations it refuses (:attr:`refuses`).

    Parameters
    ----------
    objective : Objective
        Objective to minimise.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction or SumOfComponents
        Function to learn.
    step_size : callable or AutomaticStep
        Maps the step number (1, 2, ...) to the step size.
    regularization : float or callable
        Ridge parameter; a gradient step multiplies the function by 1 - step size * regularization.
        Learners by steps take a schedule, which maps the step number (1, 2, ...) to it.
    batch_size : int
        Rows per step.
    automatic : AutomaticStep
        The automatic step size, used as a reference even if ``step_size`` is another.
    """

    function: Any
    objective: Objective
    #: Tests for objectives whose minimum is solved for, so that there are no step sizes.
    solves: ClassVar[tuple[Callable[[Objective], bool], ...]] = ()
    #: Functions that return why an objective cannot be learned on a function, or None if it can.
    refuses: ClassVar[tuple[Callable[[Objective, Any], str | None], ...]] = ()
    #: Whether scores get a level after `fit`. Some learners find a level themselves or follow a
    #: stream.
    gets_level: ClassVar[bool] = False

    def __init__(
        self,
        objective: Objective,
        function: Any,
        step_size: StepSize | AutomaticStep,
        regularization: Any,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        check_parts(type(self), objective, function, step_size)
        self.function = function
        self.objective = objective
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.automatic = automatic
        self.history = History(objective.monitors)
        if objective.needs_previous:
            function.keep_previous()
        self.n_samples = 0
        self.first = FirstRows()
        self._warned = False
        self._own = RLock()
        WITH_LOCKS.add(self)

    @classmethod
    def makes_steps(cls, objective: Objective) -> bool:
        """Whether an objective is learned by steps, which need a step size."""
        return not any(solves(objective) for solves in cls.solves)

    def tune(
        self, step_size: StepSize | AutomaticStep, regularization: Any, batch_size: int
    ) -> None:
        """Change the settings for further rows, as after ``set_params`` on a running stream."""
        self.step_size, self.regularization, self.batch_size = step_size, regularization, batch_size

    # -- learning -------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        """Learn rows in order.

        Each gradient step is on ``batch_size`` rows; a Newton step waits until there are more rows.
        If a step fails, all steps of the call are undone.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Inputs.
        targets : ndarray of shape (n, target_width)
            Targets as the loss encodes them.
        weights : ndarray of shape (n,)
            Weights of the rows.

        Raises
        ------
        DivergenceError
            If predictions or slopes overflow, or the loss explodes.
        """

    @abstractmethod
    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        """Learn all rows in each of the given orders; a failing step leaves the function broken.

        Parameters
        ----------
        X, targets, weights
            See :meth:`learn`.
        orders : iterable of ndarray of shape (n,)
            Order of the rows in each pass; each is requested when its pass begins.
        report : callable
            Called every few thousand rows with the number of rows learned since the last call; if
            it returns true, learning stops.
        """

    @abstractmethod
    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        """Learn one row: as :meth:`learn`, without its fixed costs.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            Input, finite, float64 or float32.
        target : ndarray of shape (target_width,)
            Target as the loss encodes it.
        weight : float
            Weight of the row.
        """

    def evaluate(self, X: Any) -> Array:
        """Return values of the learned function, shape (n, n_outputs).

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.

        Raises
        ------
        ValueError
            If a row is outside the kernel's domain, or a value is not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            values: Array = self.current_function().evaluate(X)
        if not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise ValueError(
                f"f is not finite at row {at}: values of the kernel times coefficients leave the "
                "range of float64. Rescale the inputs, or the targets of a regression, for example "
                "with sklearn.preprocessing.StandardScaler, and fit again."
            )
        return values

    @abstractmethod
    def evaluate_row(self, x: Array) -> Array:
        """Return values at one row, (n_outputs,): as :meth:`evaluate`, without its fixed costs.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            Point, finite, of the type of the function.
        """

    @abstractmethod
    def current_function(self) -> Any:
        """Return the function, updated by all rows so far."""

    @abstractmethod
    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        """Return the number of passes of ``fit``, and of rows learned in all passes.

        Parameters
        ----------
        n_passes : int
            Fewest passes, if the learner takes steps.
        weights : ndarray of shape (n,)
            Weights of the rows.
        """

    @abstractmethod
    def end_race(self) -> None:
        """Keep only the best of several candidates, as no further row will be new to them."""

    @abstractmethod
    def finish(self, take: Take | None = None) -> None:
        """Finish learning after the last row, if the learner has anything left to do.

        Parameters
        ----------
        take : callable or None, default=None
            Maps row numbers, in the order of learning, to inputs, encoded targets and weights. None
            if rows cannot be visited again.
        """

    @abstractmethod
    def map_outputs(self, new: NewOutputs) -> None:
        """Change the outputs and the objective when classes are added.

        Parameters
        ----------
        new : NewOutputs
            How the new outputs follow from the present ones.
        """

    def note(self, record: StepRecord) -> None:
        """Add a step, or rows that were predicted, to the history."""
        self.history.add(
            np.array([record.n_rows]),
            np.array([record.loss]),
            np.array([self.function.size]),
            np.zeros(1),
            np.array([record.step_size]),
            np.array([record.monitors]),
        )

    # -- state ----------------------------------------------------------------------------------

    @abstractmethod
    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        """Return what learning changes as plain data, copied.

        Parameters
        ----------
        whole : bool, default=False
            Whether to go on learning must be possible, as where a call is to be undone; a file may
            leave out what only that needs.
        """

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what :meth:`to_state` returned, bit for bit.

        Raises
        ------
        ValueError
            If numbers or arrays are out of their range or do not fit together.
        """

    # -- what all ways share --------------------------------------------------------------------

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Let in one thread at a time, where an answer ends what learning has put off."""
        with self._own, one_blas_thread():
            yield

    def _forked(self) -> None:
        self._own = RLock()

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _own=RLock())
        WITH_LOCKS.add(self)

    def _replace_objective(self, objective: Objective) -> None:
        """Set another objective, which takes over the scalars of the last one."""
        objective.set_state(self.objective.state())
        self.objective = objective

    def _state_with(self, function: dict[str, Any]) -> dict[str, Any]:
        """Everything but what is a way's own, beside the state of the function."""
        numbers = {
            "n_samples": self.n_samples,
            "first": list(astuple(self.first)),
            "warned": self._warned,
        }
        return {
            "numbers": numbers,
            "objective": self.objective.state(),
            "function": function,
            "history": self.history.to_state(),
        }

    def _restore_with_function(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`_state_with`; ValueError if numbers are out of their range."""
        numbers = state["numbers"]
        self.n_samples, self._warned = int(numbers["n_samples"]), bool(numbers["warned"])
        n_rows, squares, loss, n_counted = numbers["first"]
        self.first = FirstRows(int(n_rows), float(squares), float(loss), int(n_counted))
        if min(self.n_samples, n_rows, squares, n_counted) < 0:
            raise ValueError("The numbers of the learner are out of their range.")
        self.objective.set_state(state["objective"])
        self.function.restore(state["function"])
        self.history.restore(state["history"])


class StepLearner(Learner):
    """Base class of learners that take steps: it checks steps and can undo a call.

    See :class:`Learner` for the parameters.
    """

    gets_level = True

    def ridges(self, first: int, n_steps: int) -> Array:
        """Return the ridge parameters of steps, (n_steps,), from the number of the first one on.

        Raises
        ------
        ValueError
            If a schedule gives a number below 0 or one that is not finite.
        """
        if not callable(self.regularization):
            return np.full(n_steps, float(self.regularization))
        steps = range(first, first + n_steps)
        return np.array(
            [check_real("regularization", self.regularization(t), low=0.0) for t in steps]
        )

    @property
    def ridge(self) -> float:
        """Ridge parameter of the next step."""
        t = self.function.n_steps + 1 if callable(self.regularization) else 1
        return float(self.ridges(t, 1)[0])

    def check_steps(self, step_sizes: Array, first: int, ridges: Array) -> None:
        """Check step sizes before the first step is taken.

        Parameters
        ----------
        step_sizes : ndarray of shape (n_steps,)
            Sizes of successive steps.
        first : int
            Number of the first step.
        ridges : ndarray of shape (n_steps,)
            Share of the function that a step of size 1 removes.

        Raises
        ------
        ValueError
            If a step size is not positive and finite, or would flip the sign of the function.
        """
        wrong = ~((step_sizes > 0.0) & np.isfinite(step_sizes))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(
                f"`step_size` must be positive and finite, got {step_sizes[at]!r} at step "
                f"{first + at}. Check the schedule."
            )
        at = int(np.argmax(step_sizes * ridges))
        product = float(step_sizes[at] * ridges[at])
        if product >= 1.0:
            raise ValueError(
                f"`step_size * regularization` must be below 1, got {step_sizes[at]:g} * "
                f"{ridges[at]:g} = {product:g}. The factor 1 - step_size * "
                "regularization would flip the sign of every coefficient. Use a step size below "
                f"{1.0 / ridges[at]:.3g}."
            )

    def curvature(self) -> float:
        """Return the curvature of the objective, or an estimate from the first slopes."""
        if self.objective.curvature is not None or self.objective.lipschitz is not None:
            return self.automatic.curvature
        # At the optimum of a Poisson loss the curvature is the target, and so is -slope at f = 0.
        return max(self.automatic.curvature, 2.0 * self.first.slope)

    def diverged(
        self, step_size: float, row: int = 0, why: str = "", stable: float | None = None
    ) -> DivergenceError:
        """Return the error of a run that diverged.

        Parameters
        ----------
        step_size : float
            Size of the step.
        row : int, default=0
            Number of rows of this call before the batch of the step.
        why : str, default=""
            Further text for the message.
        stable : float, default=None
            Largest stable step size; None for the automatic step size.
        """
        if stable is None:
            stable = float(self.automatic.of_batch(self.batch_size))
        safe = min(stable, step_size / 4.0)
        samples = (self.n_samples + row) // self.objective.rows_per_sample
        return DivergenceError(
            f"Learning diverged after {samples} {self.objective.sample_name} with step size "
            f"{step_size:.3g}: predictions are no longer finite or the loss exploded.{why} Try a "
            f"step size of about {safe:.3g}, lower still if the {self.objective.sample_name} of a "
            "batch resemble each other or weigh much"
            f"{self.objective.remedy() or _REMEDY}"
        )

    def largest_loss(self, targets: Array, weights: Array) -> float:
        """Return the loss beyond which the run has diverged."""
        # The first rows may have been unusually easy, so take the loss of f = 0 on these rows, too.
        _, losses = self.objective.at_zero(targets, weights, self.function.n_outputs)
        losses = np.abs(losses)
        largest = max(abs(self.first.loss), float(losses.max()))
        if self.objective.rows_per_slope is not None:
            self.first.loss = max(self.first.loss, float(losses.mean()))
        most = float(np.finfo(np.float64).max)
        return min(LOSS_GROWTH * largest, most) if largest > 0.0 else most

    @contextmanager
    def all_or_nothing(
        self, mark: Callable[[], Any], back: Callable[[Any], None]
    ) -> Iterator[None]:
        """Undo all changes if the body of the ``with`` statement fails.

        Parameters
        ----------
        mark : callable
            Returns all that learning changes except the history; may share arrays.
        back : callable
            Restores the result of ``mark``.
        """
        first, history, state = copy.copy(self.first), self.history.to_state(), mark()
        try:
            yield
        except BaseException:
            self.first = first
            self.history.restore(history)
            back(state)
            raise


def checked_rows(function: Any, X: Any) -> Any:
    """Return dense rows of a function's precision, after a check that its kernel is finite there.

    Raises
    ------
    ValueError
        If the square of a kernel of a row with itself is not finite.
    """
    rows = function.rows(X)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.square(function.kernel.diag(rows), dtype=np.float64)
    if not np.isfinite(squared).all():
        raise ValueError(
            f"{function.kernel!r} overflows on these rows, whose largest input is "
            f"{float(np.abs(rows).max()):.3g}. Rescale the inputs, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return rows


def check_parts(
    learner: type[Learner], objective: Objective, function: Any, step_size: StepSize | AutomaticStep
) -> None:
    """Check that a learner can learn a function with an objective and a step size.

    Parameters
    ----------
    learner : type of Learner
        Class of the learner.
    objective : Objective
        Objective to minimise.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction or SumOfComponents
        Function to learn.
    step_size : callable or AutomaticStep
        Step size, if there are steps.

    Raises
    ------
    ValueError
        If the learner refuses the combination, or the step size would have no meaning.
    """
    if not learner.makes_steps(objective) and not isinstance(step_size, AutomaticStep):
        raise ParameterError(
            f"`step_size` has no meaning for {function.expansion!r} with this objective, got "
            f"{step_size!r}: equations are solved, in no steps.",
            parameter="step_size",
            value=step_size,
            mend=Advice(
                "Use ", Setting("step_size", "auto"), ", or KOMP or Budget for gradient steps."
            ),
        )
    for reason in learner.refuses:
        why = reason(objective, function)
        if why is not None:
            raise ValueError(why)
