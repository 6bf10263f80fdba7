"""The interface of learners, what all of them share, and what those with steps share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from threading import RLock
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import Advice, DivergenceError, ParameterError, Setting
from mercer.history import History
from mercer.learning.step_sizes import AutomaticStep, FirstRows
from mercer.objectives import Objective
from mercer.threads import one_blas_thread

_REMEDY = (
    "; standardise the columns (and the target of a regression), or use a loss with bounded slopes "
    "such as 'huber'."
)

Array = NDArray[np.float64]
StepSize = Callable[[int], float]
Take = Callable[[NDArray[np.int64]], tuple[Any, Array, Array]]

# A loss this many times larger than the first one means that the step size is unstable.
LOSS_GROWTH = 1e12

_ALONE = RLock()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one thread in: several may predict, and to them the model does not change."""
    with _ALONE, one_blas_thread():
        yield


class Record(NamedTuple):
    """What the history notes of a step."""

    n_rows: int
    loss: float
    step_size: float
    monitors: tuple[float, ...] = ()


class NewOutputs(NamedTuple):
    """What becomes of a function's outputs when classes are added.

    Attributes
    ----------
    places : ndarray of shape (n_old,)
        Where the old classes are among all.
    mixing : ndarray of shape (n_outputs, n_outputs_new)
        Column j tells how the new output j is made of the old ones.
    objective : Objective
        For the new outputs.
    """

    places: NDArray[np.int64]
    mixing: Array
    objective: Objective


class Passes(NamedTuple):
    """How often ``fit`` visits its rows.

    Attributes
    ----------
    n_passes : int
        Visits of each row.
    n_rows : int
        Rows that are learned in all of them, fewer where some are held out.
    """

    n_passes: int
    n_rows: int


class Learner(ABC):
    """How a function is learned: what estimators ask of every way.

    A learner declares which objectives it solves (:attr:`solves`), so that steps and their size
    mean nothing, and what it refuses (:attr:`refuses`).

    Parameters
    ----------
    objective : Objective
        What is minimised.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction or SumOfComponents
        What is learned.
    step_size : callable or AutomaticStep
        Step number (1, 2, ...) to step size.
    regularization : float
        Ridge parameter; a gradient step multiplies the function by 1 - step size * regularization.
    batch_size : int
        Rows per step.
    automatic : AutomaticStep
        The automatic choice, for reference even when ``step_size`` is another.
    """

    function: Any
    objective: Objective
    #: Which objectives have their minimum solved for, so that there are no steps to size.
    solves: ClassVar[tuple[Callable[[Objective], bool], ...]] = ()
    #: Why an objective cannot be learned on a function: reasons, or None where it can.
    refuses: ClassVar[tuple[Callable[[Objective, Any], str | None], ...]] = ()
    #: Whether scores get a level after `fit`: some find their own, and some follow a stream.
    gets_level: ClassVar[bool] = False

    def __init__(
        self,
        objective: Objective,
        function: Any,
        step_size: StepSize | AutomaticStep,
        regularization: float,
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

    @classmethod
    def makes_steps(cls, objective: Objective) -> bool:
        """Whether an objective is learned by steps, for which a step size is needed."""
        return not any(solves(objective) for solves in cls.solves)

    def tune(
        self, step_size: StepSize | AutomaticStep, regularization: float, batch_size: int
    ) -> None:
        """Learn the next rows with other settings, as after ``set_params`` on a running stream."""
        self.step_size, self.regularization, self.batch_size = step_size, regularization, batch_size

    # -- learning -------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        """Learn rows in order.

        Gradient steps are on ``batch_size`` rows each; Newton steps are on more, and wait for them.
        If a step fails, all of this call are undone.

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
        """Learn all rows in each of the given orders. A step that fails leaves a broken function.

        Parameters
        ----------
        X, targets, weights
            As in :meth:`learn`.
        orders : iterable of ndarray of shape (n,)
            Order of the rows in each pass; asked for when its pass begins.
        report : callable
            Told the number of rows learned since it was last called, every few thousand; a true
            result stops.
        """

    @abstractmethod
    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        """Learn one row: :meth:`learn` without its fixed costs.

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
        """Values of what was learned, shape (n, n_outputs).

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.
        """
        values: Array = self.current_function().evaluate(X)
        return values

    @abstractmethod
    def evaluate_row(self, x: Array) -> Array:
        """Values at one row, shape (n_outputs,): :meth:`evaluate` without its fixed costs.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            Point, finite, of the type of the function.
        """

    @abstractmethod
    def current_function(self) -> Any:
        """Return the function, with all rows learned so far in it."""

    @abstractmethod
    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        """Return how often ``fit`` visits its rows, and how many of them are learned in all.

        Parameters
        ----------
        n_passes : int
            How often at least, where the learner makes steps.
        weights : ndarray of shape (n,)
            Weights of the rows.
        """

    @abstractmethod
    def end_race(self) -> None:
        """Keep the best of several candidates: no row that comes will be new to them."""

    @abstractmethod
    def finish(self, take: Take | None = None) -> None:
        """Learn that all rows came, where that changes anything.

        Parameters
        ----------
        take : callable or None, default=None
            Numbers of rows, in the order in which they were learned, to their inputs, encoded
            targets and weights, where they can be visited again.
        """

    @abstractmethod
    def map_outputs(self, new: NewOutputs) -> None:
        """Go on with the outputs of more classes, and with their objective.

        Parameters
        ----------
        new : NewOutputs
            How they follow from those of now.
        """

    def note(self, record: Record) -> None:
        """Write a step, or rows that were judged, into the history."""
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

    def _replace_objective(self, objective: Objective) -> None:
        """Go on with another objective, which takes over the scalars of the last."""
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
        n_rows, squares, loss, *counted = numbers["first"]
        n_counted = int(counted[0]) if counted else int(n_rows)
        self.first = FirstRows(int(n_rows), float(squares), float(loss), n_counted)
        if min(self.n_samples, n_rows, squares, n_counted) < 0:
            raise ValueError("The numbers of the learner are out of their range.")
        self.objective.set_state(state["objective"])
        self.function.restore(state["function"])
        self.history.restore(state["history"])


class StepLearner(Learner):
    """A learner that makes steps: nothing about them may pass in silence, and a call can be undone.

    See :class:`Learner` for its parameters.
    """

    gets_level = True

    def check_steps(self, step_sizes: Array, first: int, shrinkage: float) -> None:
        """Check step sizes before the first of them is made.

        Parameters
        ----------
        step_sizes : ndarray
            Of steps that follow each other.
        first : int
            Number of the first of them.
        shrinkage : float
            Part of itself that the function loses in a step of size 1.

        Raises
        ------
        ValueError
            If one is not positive and finite, or would flip the sign of the function.
        """
        wrong = ~((step_sizes > 0.0) & np.isfinite(step_sizes))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(
                f"`step_size` must be positive and finite, got {step_sizes[at]!r} at step "
                f"{first + at}. Check the schedule."
            )
        product = float(step_sizes.max()) * shrinkage
        if product >= 1.0:
            raise ValueError(
                f"`step_size * regularization` must be below 1, got {step_sizes.max():g} * "
                f"{self.regularization:g} = {product:g}. The factor 1 - step_size * "
                "regularization would flip the sign of every coefficient. Use a step size below "
                f"{1.0 / self.regularization:.3g}."
            )

    def curvature(self) -> float:
        """Curvature of the objective, or what the first slopes say where it has no bound."""
        if self.objective.curvature is not None or self.objective.lipschitz is not None:
            return self.automatic.curvature
        # At the optimum of a Poisson loss the curvature is the target, and so is -slope at f = 0.
        return max(self.automatic.curvature, 2.0 * self.first.slope)

    def diverged(
        self, step_size: float, row: int = 0, why: str = "", stable: float | None = None
    ) -> DivergenceError:
        """Error of a run that diverged.

        Parameters
        ----------
        step_size : float
            Of the step.
        row : int, default=0
            Where its batch begins in this call.
        why : str, default=""
            What else there is to say.
        stable : float, default=None
            Largest step that is stable; None for the automatic one.
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
        """Loss beyond which the run has diverged."""
        # The first rows may have been uncommonly easy: ask what f = 0 would lose on these, too.
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
        """Undo everything if what is done here fails.

        Parameters
        ----------
        mark : callable
            Gives what learning changes, without the history; may share arrays.
        back : callable
            Goes back to that.
        """
        first, history, state = copy.copy(self.first), self.history.to_state(), mark()
        try:
            yield
        except BaseException:
            self.first = first
            self.history.restore(history)
            back(state)
            raise


def check_parts(
    learner: type[Learner], objective: Objective, function: Any, step_size: StepSize | AutomaticStep
) -> None:
    """Refuse parts that do not go together, by what a learner declares.

    Parameters
    ----------
    learner : type of Learner
        How it would be learned.
    objective : Objective
        What would be minimised.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction or SumOfComponents
        What would be learned.
    step_size : callable or AutomaticStep
        Of the steps, if there are any.

    Raises
    ------
    ValueError
        If the learner cannot learn that, or the step size could mean nothing.
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
