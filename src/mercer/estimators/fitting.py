"""How the kernel estimators learn: the steps of ``fit`` and ``partial_fit``.

Both check the rows and record what is known about their targets. The first rows fill in the numbers
of the problem (:mod:`mercer.estimators.start`), whose learner then receives the rows. Estimators
differ in how they check rows (``_checked``), in the record of their targets
(:mod:`mercer.estimators.targets`), and in a few choices that parameters leave open. The public
``fit`` and ``partial_fit`` are methods of the estimators; classifier and regressor have theirs from
:class:`LossEstimator`, which adds a loss, a risk of it, and the default expansion. A failed call
leaves the model as it was (:func:`all_or_nothing`).
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.columns.null_values import NullValues
from mercer.columns.views import is_frame
from mercer.component import own_copy
from mercer.default import DefaultLearner
from mercer.default.targets import LearnedMean, has_mean, level_of
from mercer.estimators.estimator import Estimator, column_names, not_fitted
from mercer.estimators.files import of_state, state_of
from mercer.estimators.inputs import (
    HeldBy,
    StreamColumns,
    are_plain,
    check_named,
    check_not_tiny,
    resolve_kernel,
    sample_of,
    say_if_alike,
    taken_out,
    values_by_column,
    warn_if_one_column_decides,
)
from mercer.estimators.kept_rows import HeldOutRows, KeptRows, keep_learned
from mercer.estimators.start import (
    AVERAGING,
    FEWEST_ROWS,
    MANY_ROWS,
    RACE,
    MappedRows,
    Plan,
    Problem,
    Tuning,
    are_few,
    automatic_expansion,
    image_of,
    input_map,
    set_ridge,
    solves,
    standardized,
)
from mercer.estimators.targets import LossTargets, Targets
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Auto, Expansion, RandomFeatures, Stream, as_expansion
from mercer.functions import (
    BilinearFeatures,
    DictionaryFunction,
    FeatureExpansion,
    FittedPart,
    SumOfComponents,
)
from mercer.history import History
from mercer.kernels import Gaussian, Kernel, Mapped, as_kernel
from mercer.learning import AutomaticStep, Learner, NewOutputs, warn_if_off_centre
from mercer.learning.regression_targets import begins_with_regression
from mercer.losses import Logistic, Loss, Softmax, Squared, as_loss
from mercer.maps import Affine
from mercer.objectives import Compositional, Pointwise
from mercer.risks import Risk, Tracker, as_risk
from mercer.schedules import Relative, as_schedule
from mercer.selection import RaceSettings
from mercer.streams import StreamFunction
from mercer.streams.mixture import NO_SINGLE
from mercer.sums import Correction, Rows, codes_of_targets, rows_at_once
from mercer.threads import check_jobs, jobs
from mercer.validation import check_choice, check_integer, check_real

if TYPE_CHECKING:
    from mercer.answers.explain import Explained


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Restore all attributes of a model if the body of the ``with`` statement fails.

    An unpickled model first gets its own arrays, since some may be mapped read-only.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(n_rows=3)
    >>> try:
    ...     with all_or_nothing(model):
    ...         model.n_rows = 4
    ...         raise ValueError
    ... except ValueError:
    ...     print(model.n_rows)
    3
    """
    if model.__dict__.pop("_unpickled", False):
        own_arrays(model)
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


@contextmanager
def as_before(learner: Learner, *, whole: bool) -> Iterator[None]:
    """Restore a learner's settings if the body of the ``with`` statement fails.

    Learners restore by themselves what they have learned.

    Parameters
    ----------
    learner : Learner
        The learner.
    whole : bool
        Whether its outputs may change, so that all of it must be restored.
    """
    settings = learner.step_size, learner.regularization, learner.batch_size
    before = (learner.objective, learner.to_state(whole=True)) if whole else None
    try:
        yield
    except BaseException:
        learner.tune(*settings)
        if before is not None:
            learner.objective = before[0]
            learner.restore(before[1])
        raise


def own_arrays(part: Any) -> Any:
    """Copy every read-only array in a model.

    Parameters
    ----------
    part : object
        A model or a part of one. Objects of this library's classes, mappings and lists are changed
        in place; all else is left alone.

    Returns
    -------
    part : object
        The same object; a copy if it is a read-only array, or a tuple that holds one.

    Examples
    --------
    >>> import numpy as np
    >>> sums = np.zeros(3)
    >>> sums.flags.writeable = False
    >>> parts = {"sums": sums, "names": ("a", "b")}
    >>> own_arrays(parts)["sums"].flags.writeable
    True
    """
    return _own(part, {})


def _own(part: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(part, str | int | float | None):
        return part
    if id(part) not in seen:
        seen[id(part)] = part, part  # it may contain itself; keeping it also keeps its id unique
        seen[id(part)] = part, _own_inside(part, seen)
    return seen[id(part)][1]


def _own_inside(part: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(part, np.ndarray):
        return part if part.flags.writeable else np.array(part)
    if isinstance(part, tuple):
        items = [_own(item, seen) for item in part]
        if all(new is old for new, old in zip(items, part, strict=True)):
            return part
        return type(part)(*items) if hasattr(part, "_fields") else tuple(items)
    if isinstance(part, list):
        part[:] = [_own(item, seen) for item in part]
    kind: Any = type(part)
    if isinstance(part, dict) or _is_ours(kind):
        inside = part if isinstance(part, dict) else vars(part)
        for name, value in inside.items():
            inside[name] = _own(value, seen)
    return part


@cache
def _is_ours(kind: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "mercer" for base in kind.__mro__)


class Progress(NamedTuple):
    """Argument of the callback of ``fit``, which is called every few thousand rows.

    Attributes
    ----------
    n_samples : int
        Rows learned so far.
    n_total : int
        Rows that this fit will learn, over all passes.
    loss : float
        Mean progressive loss of the latest window; NaN before the first one.
    model_order : int
        Number of dictionary points or random features.
    seconds : float
        Wall time since the start of the fit.
    rows_per_second : float
        Rows learned per second.
    """

    n_samples: int
    n_total: int
    loss: float
    model_order: int
    seconds: float
    rows_per_second: float


class Reporter:
    """Reports the progress of a fit to a callback and, if asked to, to standard error.

    Parameters
    ----------
    learner : Learner
        Learner of the fit.
    n_total : int
        Rows that the learner will receive, over all passes.
    rows_per_sample : int
        Rows of the learner for each sample of the user.
    callback : callable or None
        Called with a :class:`Progress`; stops the fit if it returns a true value.
    verbose : int
        Above 0 writes lines to standard error.
    """

    def __init__(
        self,
        learner: Learner,
        n_total: int,
        rows_per_sample: int,
        callback: Callable[[Progress], object] | None,
        verbose: int,
    ) -> None:
        self.learner, self.n_total = learner, n_total // rows_per_sample
        self.rows_per_sample = rows_per_sample
        self.callback, self.verbose = callback, verbose
        self.start = time.perf_counter()
        self.done = 0

    def __call__(self, n_rows: int) -> bool:
        """Report ``n_rows`` more rows; return whether to stop."""
        self.done += n_rows
        if self.callback is None and not self.verbose:
            return False
        seconds = time.perf_counter() - self.start
        done = self.done // self.rows_per_sample
        progress = Progress(
            done,
            self.n_total,
            # Learners that solve sums at the end have no loss before.
            float(self.learner.history.loss[-1]) if len(self.learner.history) else float("nan"),
            self.learner.function.size,
            seconds,
            done / max(seconds, 1e-9),
        )
        if self.verbose:
            sys.stderr.write(
                f"{progress.n_samples}/{progress.n_total} rows  loss {progress.loss:.4f}  "
                f"model order {progress.model_order}  {progress.rows_per_second:,.0f} rows/s\n"
            )
        return bool(self.callback(progress)) if self.callback is not None else False


Array = NDArray[np.float64]
Callback = Callable[[Progress], object] | None
Order = Callable[[np.random.RandomState, bool], NDArray[np.int64]]

_RIDGE, _MOST_RIDGE = 1e-6, 1e30  # functions are 0 before matrices in float32 overflow
# Rows mapped at a time, and bytes: larger arrays have new pages each time, which cost more than the
# copy does.
_BLOCK, _BYTES = 2**15, 24 * 2**20
# Objects with settable parameters, to use in place of names.
_OBJECTS = {
    "expansion": "expansion=Auto(), or =KOMP(), ... of mercer.expansions",
    "kernel": "kernel=Gaussian(), ... of mercer.kernels",
    "loss": "loss=Huber(), ... of mercer.losses",
    "risk": "risk=CVaR(), ... of mercer.risks",
}


# Parameters only for learning by steps: defaults, and why sums over rows do not use them.
_OF_STEPS = {
    "n_passes": (1, "in which a second pass would count every row twice"),
    "batch_size": (32, "in which a row counts the same in any batch"),
    "average": ("suffix", "and has no iterates to average"),
}


# Placeholders: for the step size of learners that solve equations, and for kernels before a race.
_NO_STEPS, _BEFORE_RACE = AutomaticStep(1.0, 1.0, 1.0), Gaussian(1.0)


class Given(NamedTuple):
    """Rows as the user gave them.

    Attributes
    ----------
    X : array-like
        Inputs.
    y : array-like or None
        Targets.
    sample_weight : array-like or None
        Weights of the rows.
    classes : array-like or None
        Classes that the user names with these rows.
    group : array-like or None
        Group of each row.
    more : bool
        Whether more rows may follow, as on a stream.
    held_by : HeldBy
        Which rows to hold out together.
    """

    X: Any
    y: Any = None
    sample_weight: Any = None
    classes: Any = None
    group: Any = None
    more: bool = False
    held_by: HeldBy = HeldBy()


class Data(NamedTuple):
    """Rows after checking.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, n_features)
        Inputs.
    y : object
        Labels or numbers that ``targets`` can encode.
    weights : ndarray of shape (n,)
        Weights of the rows, times the weights of their classes.
    targets : Targets
        What is known about all targets so far, these included, without their values.
    new_outputs : NewOutputs or None
        How the function's outputs change, if the rows brought new classes.
    order : callable
        Maps a generator, and whether to shuffle, to the order of the rows in a pass.
    groups : array-like or None
        Groups of the rows, as the user gave them.
    """

    X: Any
    y: Any
    weights: Array
    targets: Targets
    order: Order
    new_outputs: NewOutputs | None = None
    groups: Any = None


def held_together(given: Given, plan: Plan) -> tuple[Given, str | None]:
    """Read which rows to hold out together, and take a column of groups out of the inputs.

    Parameters
    ----------
    given : Given
        Rows, with groups and time as arrays or as names of columns.
    plan : Plan
        Plan of the estimator.

    Returns
    -------
    given : Given
        The same rows with groups and time as arrays, and without the column of groups.
    left_out : str or None
        Name of the column taken out; None if there is none.

    Raises
    ------
    ValueError
        If the expansion holds out no rows by groups or time, or there is no such column.
    """
    groups, time = given.held_by
    if groups is None and time is None:
        return given, None
    if plan.default != "tables":
        name = "groups" if time is None else "time"
        raise ValueError(
            f"`{name}` says which rows are held out together, and {plan.expansion!r} does not hold "
            "out any by them: only the default expansion does. Leave it out, or use "
            "expansion='auto'."
        )
    X, left_out = given.X, None
    if isinstance(groups, str):
        X, groups, left_out = *taken_out(X, groups, "groups"), groups
    if isinstance(time, str):
        time = taken_out(X, time, "time")[1]
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    held_by = HeldBy(groups, time).checked(n_rows, given.sample_weight)
    return given._replace(X=X, held_by=held_by), left_out


class KernelEstimator(Estimator):
    """Base class of estimators that learn one function, by steps or by sums; not for direct use."""

    learner_: Learner
    targets_: Targets
    kernel: Any
    expansion: Any
    step_size: Any
    regularization: Any
    batch_size: Any
    n_passes: Any
    shuffle: Any
    average: Any
    n_jobs: Any
    random_state: Any
    verbose: Any

    #: Class of the record of the targets.
    _targets_type: ClassVar[type[Targets]]
    #: Names that `step_size` may be, besides a number or a schedule.
    _step_names: ClassVar[tuple[str, ...]] = ("auto",)
    #: What ``expansion="random_features"`` stands for.
    _features: ClassVar[Expansion] = RandomFeatures("auto")
    #: Whether there are targets on which kernels can be compared.
    _has_race: ClassVar[bool] = False
    #: Samples of `batch_size` rows each that one step learns from.
    _n_samples: ClassVar[int] = 1
    #: Settings of the race that chooses a map of the inputs.
    _race_settings: ClassVar[RaceSettings] = RACE
    _kernel: Kernel
    #: Map applied to the inputs before the function; None if the function takes them as they are.
    _map: Affine | None = None
    #: Constant added to each score; None for none.
    _level: Array | None = None
    #: Parameters from which the learner's settings were made; None if they may have changed since.
    _tuned: tuple[Any, Any, Any] | None = None
    #: Feature names of rows given as dicts, in the order of the columns; None before the first
    #: dict.
    _row_names: list[Any] | None = None

    #: Which cells count as missing in rows that were read from files.
    _nulls: NullValues | None = None
    #: Rows given to `calibrate`, scored at that call; None if there are none.
    _calibration: HeldOutRows | None = None
    #: Conformal intervals made from them, with a mark of the model that they belong to.
    _conformal: tuple[Any, Any] | None = None
    #: Sample of the learned rows, for explanations; None if no rows are kept.
    _kept: KeptRows | None = None
    #: Single rows that the sample passes over: how many it will, and how many it has so far.
    _to_pass: int = 0
    _passed: int = 0

    # -- learning -------------------------------------------------------------------------------

    def _find_level(self, X: Any, targets: Array, weights: Array) -> None:
        """Find the constant to add to scores from all rows of ``fit``; here there is none."""

    def _forget(self) -> None:
        """Forget everything learned from earlier rows; subclasses that keep more extend this."""
        self._row_names = self._map = self._kept = self._left_out = self._nulls = None
        self._level = self._calibration = self._conformal = None
        self._to_pass = self._passed = 0

    @abstractmethod
    def _checked(self, given: Given, known: Any, plan: Plan) -> Data:
        """Check rows, and record what must be known about their targets before learning.

        Parameters
        ----------
        given : Given
            Rows as the user gave them.
        known : Targets or None
            Record of the targets so far; None when starting afresh.
        plan : Plan
            Plan of the estimator.
        """

    def _fit(self, given: Given, callback: Callback = None) -> Self:
        """Learn all rows from scratch, in ``n_passes`` passes; on failure restore the old state."""
        with all_or_nothing(self), jobs(self.n_jobs):
            plan = self.plan()
            self._check(plan)
            self._check_ignored(plan)
            self._forget()
            given, self._left_out = held_together(given, plan)
            data = self._checked(given, None, plan)
            self._meet(data)
            generator, n = check_random_state(self.random_state), data.X.shape[0]
            problem = self._problem(data, plan, generator, n)
            learner = self._adopt(problem)
            if isinstance(learner, DefaultLearner):
                learner.hold_together(*given.held_by)
            keep_learned(self, data.X, data.weights)
            encoded = self.targets_.encode(data.y, data.groups)
            if not data.weights.any():
                raise ValueError("`class_weight` is zero for all rows, so there is nothing to fit.")
            passes = learner.plan_passes(self._n_passes(n), data.weights)
            n_rows = passes.n_rows * data.targets.visits
            report = Reporter(learner, n_rows, data.targets.rows_per_sample, callback, self.verbose)
            orders = self._orders(data, passes.n_passes, generator)
            rows = self._visited(data.X)
            learner.learn_passes(rows, encoded, data.weights, orders, report)
            self._find_level(data.X, encoded, data.weights)
            self._look_at_order(given, data, encoded)
        return self

    def _look_at_order(self, given: Given, data: Data, encoded: Array) -> None:
        """Warn if rows depend on each other; does nothing unless an estimator holds rows out."""

    def _partial_fit(self, given: Given) -> Self:
        """Learn more rows, in order; on failure restore the old state."""
        first = not hasattr(self, "learner_")
        told = any(each is not None for each in given.held_by)
        plan = self.plan(given.X if first and not told else None)
        self._check(plan)
        self._check_ignored(plan if first else None)
        with all_or_nothing(self), jobs(self.n_jobs):
            data = self._checked(given, None if first else self.targets_, plan)
            if first:
                self._meet(data)
                generator = check_random_state(self.random_state)
                problem = self._problem(data, plan, generator)
                self._learn(self._adopt(problem), data, given.held_by)
            else:
                # New categories on a stream become inputs of the function.
                past = self._past_of_new()
                with as_before(self.learner_, whole=data.new_outputs is not None or past.size > 0):
                    if past.size:
                        self.learner_.function.mixture.add_inputs(past.size, past)
                    self._meet(data)
                    self._tune()
                    self._learn(self.learner_, data, given.held_by)
                set_ridge(self.learner_.function, self._chosen_ridge())
        return self

    def _past_of_new(self) -> Array:
        """Return the values that earlier rows have in inputs added since."""
        if not isinstance(self._columns, StreamColumns):
            return np.empty(0)
        return self._columns.past_of_new(self.learner_.function.n_features)

    def _meet(self, data: Data) -> None:
        """Store the record of the targets, and add outputs to the function for new classes."""
        self.targets_ = data.targets
        if data.new_outputs is not None:
            self.learner_.map_outputs(data.new_outputs)
            self._level = None  # new classes make the old level invalid

    def _learn(self, learner: Learner, data: Data, held_by: HeldBy) -> None:
        encoded = self.targets_.encode(data.y, data.groups)
        X = self._image(data.X)
        self.targets_, rows = self.targets_.with_partners(X, encoded, data.weights)
        keep_learned(self, data.X, data.weights)  # before what is not undone by restored attributes
        if isinstance(learner, DefaultLearner):
            learner.in_time |= held_by.time is not None
            learner.learn(*rows, held_by.groups)
        else:
            learner.learn(*rows)

    def _orders(
        self, data: Data, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the order of the rows in each pass; it may repeat rows."""
        shuffle = bool(self.shuffle) and not self._has_gaps()  # streams keep their order
        for _ in range(n_passes):
            yield data.order(generator, shuffle)

    # -- the problem ----------------------------------------------------------------------------

    def _problem(
        self,
        data: Data,
        plan: Plan,
        generator: np.random.RandomState,
        n_rows: int | None = None,
    ) -> Problem:
        """Resolve all numbers from the first rows; ``n_rows`` is the total if it is known."""
        expansion = own_copy(plan.expansion)
        if plan.default == "stream":  # its ways have their own kernels and steps
            plan = plan._replace(expansion=expansion)
            return self._problem_of(plan, _BEFORE_RACE, _NO_STEPS, None, np.float64)
        scales = (
            plan.maps
            and isinstance(data.X, np.ndarray)
            and int(np.count_nonzero(data.weights)) >= FEWEST_ROWS
        )
        seen = data
        if scales and not data.weights.all():  # a given kernel is resolved on all rows
            seen = data._replace(X=data.X[data.weights > 0.0])
        sample = self._sample(seen, generator)
        check_not_tiny(sample, each=scales or plan.races)
        kernel: Any = self.kernel
        # The checks below find and report overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            if scales:
                kernel = self._scale(data, sample, expansion, generator)
                sample = self._image(sample)
            elif isinstance(kernel, str) and not plan.races:
                columns: Any = self._columns
                names = None if columns is None else columns.owners_out()
                warn_if_one_column_decides(sample, names)
            automatic = _NO_STEPS
            if plan.races and plan.default:
                kernel = _BEFORE_RACE
            else:
                kernel = own_copy(as_kernel("auto" if plan.races else kernel))
                kernel = resolve_kernel(kernel, sample, generator)
                self.targets_, automatic = self._measured(plan, kernel, sample, data)
        expansion = expansion.sized(n_rows, self.targets_.n_scores)
        if isinstance(expansion, RandomFeatures):
            warn_if_off_centre(kernel, sample, expansion)
        averaging = AVERAGING[self.average] if expansion.averages else None
        plan = plan._replace(expansion=expansion)
        return self._problem_of(plan, kernel, automatic, averaging, sample.dtype)

    def _scale(
        self, data: Data, sample: Any, expansion: Expansion, generator: np.random.RandomState
    ) -> Kernel | str:
        """Choose the map of the inputs, and return the kernel for mapped rows."""
        objective = self.targets_.objective(None)
        n_outputs = objective.copies * self.targets_.n_scores
        found = None
        if begins_with_regression(objective, n_outputs):
            used = np.flatnonzero(data.weights)
            race = self._race_settings
            n = race.pilot_rows
            if used.size > race.small:
                n, race = MANY_ROWS, race._replace(pilot_rows=MANY_ROWS // 3)
            some = generator.choice(used, min(used.size, n), replace=False)
            encoded = self.targets_.encode(data.y[some])
            rows = Rows(data.X[some], encoded, data.weights[some])
            found = input_map(objective, rows, n_outputs, race)
        self._map = standardized(sample) if found is None else found[0]
        if found is None or expansion.mode == "faithful":
            return "gaussian"  # steps learn faster with a shorter length scale than exact solutions
        return Gaussian(found[1])

    def _visited(self, X: Any) -> Any:
        """Return rows that are mapped for the function only when they are read."""
        return X if self._map is None else MappedRows(X, self._map)

    def _sample(self, data: Data, generator: np.random.RandomState) -> Any:
        """Return the rows that automatic choices look at."""
        return data.X[sample_of(data.X.shape[0], generator)]

    def _measured(
        self, plan: Plan, kernel: Kernel, sample: Any, data: Data
    ) -> tuple[Targets, AutomaticStep]:
        """Return the record of the targets with units, and the largest safe steps."""
        return self.targets_.measured(kernel, sample, self._visited(data.X), data.y)

    def _problem_of(
        self,
        plan: Plan,
        kernel: Kernel,
        automatic: AutomaticStep,
        averaging: float | None,
        dtype: Any,
    ) -> Problem:
        """Return the problem with these numbers, which come from rows or from a file."""
        expansion = plan.expansion
        objective = self.targets_.objective(automatic)
        if objective.copies > 1 and isinstance(expansion, RandomFeatures):
            averaging = None  # old blocks' coefficients keep changing, so they have no average
        return Problem(
            objective,
            kernel,
            expansion,
            averaging,
            self.n_inputs_ if self._map is None else self._map.n_outputs,
            objective.copies * self.targets_.n_scores,
            dtype,
            automatic,
            self._tuning(automatic, expansion),
            plan.races,
            self._chosen_ridge(),
            self.targets_.bilinear,
        )

    def _adopt(self, problem: Problem) -> Learner:
        """Start on a problem: create its learner, which has learned no rows yet."""
        self._kernel = problem.kernel
        self.learner_ = problem.learner()
        self._note_tuning()
        return self.learner_

    # -- steps and ridge ------------------------------------------------------------------------

    def _tune(self) -> None:
        """Pass the current parameters, which may have changed, to the learner."""
        learner = self.learner_
        learner.tune(*self._tuning(learner.automatic, learner.function.expansion))
        self._note_tuning()

    def _note_tuning(self) -> None:
        """Remember the parameters from which the learner's settings were made."""
        single = self.targets_.rows_per_sample == 1  # rows that need a partner take the slow path
        tuned = self.step_size, self.regularization, self.batch_size
        self._tuned = tuned if single else None

    def _is_tuned(self) -> bool:
        """Return whether the learner has the current parameters; fast enough for single rows."""
        tuned = self._tuned
        return (
            tuned is not None
            and tuned[0] is self.step_size
            and tuned[1] is self.regularization
            and tuned[2] is self.batch_size
        )

    def _tuning(self, automatic: AutomaticStep, expansion: Expansion) -> Tuning:
        ridge = self._ridge()
        if isinstance(self.regularization, str):  # in the unit of the steps
            ridge /= self.targets_.flatness(automatic)
        n_rows = self._n_samples * self._batch_size(expansion) * self.targets_.rows_per_sample
        return Tuning(self._steps(automatic, expansion), ridge, n_rows)

    def _steps(self, automatic: AutomaticStep, expansion: Expansion) -> Any:
        """Return the step sizes; a learner that solves equations needs no choice of them."""
        if isinstance(self.step_size, str):
            if self.step_size == "auto" and solves(expansion):
                return automatic
            return self.targets_.named_steps(self.step_size, automatic, expansion)
        schedule = own_copy(as_schedule(self.step_size))
        if isinstance(schedule, Relative):
            return schedule.resolved(self.targets_.unit_of_steps(automatic))
        return schedule

    def _ridge(self) -> Any:
        """Return the ridge for learning by steps, for objectives of curvature 1, or a schedule."""
        if self._chooses("regularization"):
            return 0.0 if self._is_theory() else _RIDGE
        if callable(self.regularization):
            return own_copy(as_schedule(self.regularization))
        return check_real("regularization", self.regularization, low=0.0, high=_MOST_RIDGE)

    def _chosen_ridge(self) -> float | None:
        """Return the ridge for learning by sums; None to choose it on held-out rows."""
        if isinstance(self.regularization, str) or callable(self.regularization):
            return None
        return check_real("regularization", self.regularization, low=0.0)

    def _batch_size(self, expansion: Expansion) -> int:
        """Return the number of samples per step."""
        return check_integer("batch_size", self.batch_size, low=1)

    def _n_passes(self, n_rows: int) -> int:
        """Return the number of passes of ``fit`` over ``n_rows`` rows."""
        return check_integer("n_passes", self.n_passes, low=1)

    def _is_theory(self) -> bool:
        return isinstance(self.step_size, str) and self.step_size == "theory"

    # -- parameters -----------------------------------------------------------------------------

    def plan(self, first: Any = None) -> Plan:
        """Return the choices that follow from the parameters.

        Parameters
        ----------
        first : array-like, default=None
            First rows of a stream; None if all rows come at once, or none are known yet.
        """
        if self._chooses("expansion"):
            return self._plan_with(self._automatic_expansion(few=are_few(first)))
        if isinstance(self.expansion, str) and self.expansion == "random_features":
            return self._plan_with(self._features)
        return self._plan_with(as_expansion(self.expansion))

    def _plan_with(self, expansion: Expansion) -> Plan:
        """Return the plan for an expansion."""
        size, chooses = self._batch_size(expansion), self._chooses("kernel")
        return Plan.of(expansion, size, chooses_kernel=chooses, has_race=self._has_race)

    def _chooses(self, name: str) -> bool:
        """Return whether a parameter is "auto", so that the model chooses it."""
        value = getattr(self, name)
        return isinstance(value, str) and value == "auto"

    @abstractmethod
    def _automatic_expansion(self, *, few: bool) -> Expansion:
        """Return the expansion for ``expansion="auto"``, given the other parameters.

        Parameters
        ----------
        few : bool
            Whether a stream starts with few rows.
        """

    def _may_have_gaps(self, known: Any, plan: Plan) -> bool:
        """Return whether rows may have missing values, which are then NaN."""
        if known is None:
            return plan.default == "stream"
        # An estimator whose rows are learned elsewhere has no learner.
        return hasattr(self, "learner_") and self._has_gaps()

    def check(self) -> None:
        """Raise an error for parameters that are invalid or contradict each other.

        Raises
        ------
        ValueError
            For any such parameter.
        """
        self._check(self.plan())

    def _check(self, plan: Plan) -> None:
        for check in self._checks:
            check(self, plan)

    def _check_learning(self, plan: Plan) -> None:
        """Refuse invalid parameters of learning and of the function."""
        self._n_passes(1)
        self._ridge()
        check_choice("average", self.average, tuple(AVERAGING))
        check_jobs(self.n_jobs)
        if not isinstance(self.shuffle, bool | np.bool_):
            raise ValueError(f"`shuffle` must be True or False, got {self.shuffle!r}.")
        if not isinstance(self.verbose, bool | np.bool_):
            check_integer("verbose", self.verbose, low=0)
        if not isinstance(self.step_size, str):
            as_schedule(self.step_size)
        else:
            others = "a positive number or a schedule"
            check_choice("step_size", self.step_size, self._step_names, others)
        if not plan.races:
            as_kernel(self.kernel)
        mode = plan.expansion.mode
        if callable(self.regularization) and (plan.default is not None or solves(plan.expansion)):
            raise ValueError(
                f"`regularization={self.regularization!r}` is a schedule, one ridge for each step, "
                f"but {self.expansion!r} makes no steps. Use a number, or `expansion='komp'`."
            )
        relative = self._is_theory() or isinstance(self.step_size, Relative)
        if relative and mode != "faithful":
            raise ValueError(
                f"`step_size={self.step_size!r}` is for gradient steps, but {self.expansion!r} in "
                f"mode {mode!r} solves equations, which sets the scale of its steps. Use "
                "RandomFeatures(mode='faithful') or a kernel expansion, or `step_size='auto'`."
            )

    #: Checks of the parameters, each called with the estimator and its plan; subclasses add more.
    _checks: ClassVar[tuple[Callable[[Any, Plan], None], ...]] = (_check_learning,)

    def check_settings(self, *, anew: bool) -> None:
        """Raise an error for parameters that would be ignored.

        Parameters
        ----------
        anew : bool
            Whether a new learner will be made from the parameters; False if it exists already.

        Raises
        ------
        ValueError
            For any such parameter.
        """
        self._check_ignored(self.plan() if anew else None)

    def _check_ignored(self, plan: Plan | None) -> None:
        """Refuse parameters that the plan, or without a plan the present learner, would ignore."""
        if plan is not None:
            sums = plan.default is not None
        else:
            sums = isinstance(self.learner_.function, SumOfComponents | StreamFunction)
        if not sums:
            return
        if plan is None and self._has_gaps():
            self._check_left_open(self.learner_.function.expansion, "step_size", "regularization")
        for name, (default, why) in _OF_STEPS.items():
            value = getattr(self, name)
            if value != default:
                raise ParameterError(
                    f"`{name}` is of learning by steps, and must be {default!r} for the default "
                    f"expansion, got {value!r}: this sums over rows, {why}.",
                    parameter=name,
                    value=value,
                    mend=Advice(
                        "Leave it out, or choose ",
                        InPython(
                            "another expansion, such as 'komp'",
                            ("another one, such as ", Setting("expansion", "komp")),
                        ),
                        ".",
                    ),
                )

    def _check_left_open(self, expansion: Stream, *names: str) -> None:
        """Refuse parameters that each way of a stream chooses for itself."""
        for name in names:
            if not self._chooses(name):
                raise ValueError(
                    f"`{name}` must be 'auto' for {expansion!r}, whose ways have kernels and "
                    f"steps of their own, got {getattr(self, name)!r}. Leave it out, or use "
                    "`expansion='komp'`."
                )

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``part__parameter`` names a parameter of a component.

        On a fitted model ``step_size``, ``regularization`` and ``batch_size`` (and
        ``class_weight``) take effect with the next rows; all others with the next ``fit``.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown name, a value that a component refuses, or a parameter of a component
            that was given as a name.
        """
        if self._tuned is not None:
            self._tuned = None
        for key in params:
            name, _, inner = key.partition("__")
            value = params.get(name, getattr(self, name, None))
            if inner and isinstance(value, str | None) and name in self._get_param_names():
                raise ValueError(
                    f"`{key}` is a parameter of an object, but {name}={value!r} is none. "
                    f"Give the object itself, {type(self).__name__}({_OBJECTS.get(name, name)}), "
                    f"whose parameters can be set and searched as {name}__...."
                )
        super().set_params(**params)
        return self

    # -- what was learned -----------------------------------------------------------------------

    @property
    def kernel_(self) -> Kernel:
        """Kernel with its numbers resolved; for a sum of parts, the kernel of the only part."""
        function = self._fitted().current_function()
        raced = isinstance(function, SumOfComponents | DictionaryFunction | StreamFunction)
        kernel: Kernel = function.kernel if raced else self._kernel
        return kernel if self._map is None else Mapped(kernel, self._map)

    @property
    def dictionary_(self) -> NDArray[np.floating]:
        """Dictionary points, one per row."""
        function = self._fitted().current_function()
        if isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                "A model of random features has no dictionary. Its features are "
                "`random_features(X)`, with which f(X) = random_features(X) @ coefficients_ "
                "(+ intercept_ of a regressor)."
            )
        dictionary: NDArray[np.floating] = function.dictionary
        return dictionary if self._map is None else self._map.preimage(dictionary)

    def random_features(self, X: Any) -> NDArray[np.floating]:
        """Return the random features of a model with ``expansion=RandomFeatures(...)``.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Z : ndarray of shape (n_samples, model_order_)
            f(X) = Z @ ``coefficients_``, plus ``intercept_`` where there is one.

        Raises
        ------
        AttributeError
            If the model has a dictionary instead.
        """
        check_is_fitted(self, "learner_")
        function = self.learner_.current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(NO_SINGLE)
        if not isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a dictionary: f(X) = "
                "kernel_(X, dictionary_) @ coefficients_ (+ intercept_)."
            )
        X = self._rows_to_predict(X)
        with jobs(self.n_jobs):
            return function.random_features(self._image(X))

    @property
    def coefficients_(self) -> Array:
        """Coefficients of f(x) = Σ_i ``coefficients_[i]`` k(d_i, x), one row per point.

        Classifiers and regressors add their ``intercept_`` to f.
        """
        coefficients: Array = self._fitted().current_function().coefficients
        return coefficients[:, : self.targets_.n_scores]

    @property
    def model_order_(self) -> int:
        """Number of dictionary points, or of random features."""
        return int(self._fitted().current_function().size)

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned so far, counted in every pass."""
        return self._fitted().n_samples // self.targets_.rows_per_sample

    @property
    def history_(self) -> History:
        """Progressive loss, model order and compression error over the stream."""
        return self._fitted().history

    def _fitted(self) -> Learner:
        if not hasattr(self, "learner_"):
            raise not_fitted(self)
        return self.learner_

    def _has_gaps(self) -> bool:
        """Return whether rows may have missing values, as in the default for streams."""
        return isinstance(self.learner_.function, StreamFunction)

    def scores(self, X: Any) -> Array:
        """Return the values of the learned function, from which predictions are made.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_scores)
            One per output. Regression: one per target, or per quantile level of each target, in the
            unit of learning. Two classes: a single one.
        """
        if not hasattr(self, "learner_"):
            check_is_fitted(self, "learner_")
        X = self._rows_to_predict(X)
        with jobs(self.n_jobs):
            return self._scores_at(X)

    def _scores_at(self, X: Any) -> Array:
        """Return scores at checked inputs, without the extra outputs that only objectives need."""
        return self._evaluate(X)[:, : self.targets_.n_scores]

    def _rows_to_predict(self, X: Any) -> Any:
        """Check rows in the same way as the rows that were learned."""
        unnamed = self._columns is None and not hasattr(self, "feature_names_in_")
        if unnamed and are_plain(X, self.n_features_in_):
            return X  # as it would come back from scikit-learn's check, which takes longer
        return self._checked_rows(X, first=False, gaps=self._has_gaps(), learns=False)

    def _evaluate(self, X: Any) -> Array:
        """Return values at checked inputs with the level added, one column per output."""
        values = self._before_level(X)
        return values if self._level is None else values + self._level

    def _before_level(self, X: Any) -> Array:
        """Return values at checked inputs before the level is added."""
        block = rows_at_once(X.shape[1], _BLOCK, _BYTES)  # limits the memory of copies, too
        if X.shape[0] <= block or (self._map is None and X.dtype == np.float64):
            # Double precision: then a row's image does not depend on the rows beside it.
            return self.learner_.evaluate(self._image(X.astype(np.float64, copy=False)))
        starts = range(0, X.shape[0], block)
        return np.vstack([self._before_level(X[start : start + block]) for start in starts])

    def _image(self, X: Any) -> Any:
        """Return rows as the function takes them, mapped if there is a map."""
        return X if self._map is None else image_of(self._map, X)

    def _explained(self) -> Explained:
        """Return what explanations of this model need, if it can be explained."""
        from mercer.estimators.explained import of_function

        return of_function(self)

    # -- files ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything that prediction and further learning need, as plain data.

        Returns
        -------
        state : dict
            Nested; holds arrays, numbers, text, lists and None.

        Raises
        ------
        ValueError
            If the estimator is not fitted, or a part cannot be stored without code.
        """
        return state_of(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild an estimator; it predicts and goes on learning as if nothing had happened.

        Parameters
        ----------
        state : dict
            From :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        model: Self = of_state(cls, state)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        takes = self._takes_tables
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = takes
        return tags


class TaskEstimator(KernelEstimator):
    """Base class of estimators with one function and an objective without a loss."""

    _features = RandomFeatures("auto", mode="faithful")  # the only mode that supports these

    def _check_mode(self, plan: Plan) -> None:
        """Refuse modes that minimise with another norm."""
        mode = plan.expansion.mode
        if mode not in ("faithful", "solve"):
            raise ValueError(
                f"`expansion` must have mode='faithful' or 'solve' for a {type(self).__name__}, "
                f"got {self.expansion!r}, whose mode is {mode!r}. The other modes minimise with "
                "another norm than that of the kernel, or need a loss of bounded curvature, so "
                "their values would not mean what they should. Use "
                "`RandomFeatures(mode='faithful')` or `KOMP()`."
            )

    _checks = (*KernelEstimator._checks, _check_mode)

    def _automatic_expansion(self, *, few: bool) -> Expansion:
        return automatic_expansion()


# Trackers of a risk for which the user chose no steps to follow.
_UNTRACKED = (None, Tracker())
_OF_STREAMS = (Squared, Logistic, Softmax)


class LossEstimator(KernelEstimator):
    """Base class of estimators with a loss and, possibly, a risk of it; not for direct use.

    For risks on pairs of independent rows, it puts the two rows of a pair next to each other.
    """

    risk: Any
    loss: Any
    _task: ClassVar[Any]
    _has_race = True
    _takes_tables = True
    targets_: LossTargets

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callback = None,
        *,
        groups: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn all rows from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and used in computations, all other types become float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, which multiply the loss.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; stops the
            fit if it returns a true value.
        groups : array-like of shape (n_samples,) or str, default=None
            Group of each row, for example the person it is about. Rows of a group are alike, so
            they are held out together whenever held-out rows choose or judge something. The name of
            a column removes that column from the inputs, for prediction too. Only for the default
            expansion; see :doc:`/default_learner`.
        time : array-like of shape (n_samples,) or str, default=None
            Number, date or ISO text that orders the rows: the last rows judge what was learned from
            earlier ones, and old rows count less if later ones follow another law. A column given
            by name stays among the inputs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.
        """
        return self._fit(Given(X, y, sample_weight, held_by=HeldBy(groups, time)), callback)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Set the rows used to calibrate prediction intervals or sets, in place of rows kept back.

        A model of the default expansion keeps back rows of its own, and a model of a stream tracks
        its errors. All others need rows that they have not learned. So does any model that will
        predict rows unlike the learned ones.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Rows that the model has not learned and will not learn. The model and its file keep
            them.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid rows or targets; the model is unchanged.
        """
        from mercer.estimators.evidence import calibration

        self._calibration, self._conformal = calibration(self, X, y, sample_weight), None
        return self

    def learn_groups(self, X: Any, y: Any, groups: NDArray[np.int64]) -> Self:
        """Learn more rows of files as ``partial_fit`` does, holding out whole groups.

        Parameters
        ----------
        X, y : array-like
            Rows, sorted so that a group's rows are neighbours, and their targets.
        groups : ndarray of shape (n_samples,) of int64
            Group of each row; a group that has ended does not return.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(groups)))

    def learn_in_time(self, X: Any, y: Any) -> Self:
        """Learn more rows of files as ``partial_fit`` does; the last rows overall judge the model.

        Parameters
        ----------
        X, y : array-like
            Rows in order of time, later than all earlier calls, and their targets.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(time=True)))

    def _look_at_order(self, given: Given, data: Data, encoded: Array) -> None:
        """Warn if rows look alike in groups or in time and the user has not said so.

        Checks only the automatic block length, and only if no rows are copies of each other.
        """
        learner = self.learner_
        if not isinstance(learner, DefaultLearner) or learner.resources.block_length != "auto":
            return
        copies = learner.judged is not None and learner.judged.rows.groups is not None
        told = any(each is not None for each in given.held_by)
        if told or copies or not isinstance(data.X, np.ndarray):
            return
        used: Any = data.weights > 0.0
        used = slice(None) if used.all() else used
        named, columns = is_frame(given.X), {}
        of: Any = self._columns
        owners = column_names(self) if of is None else of.owners_out()
        if named:
            columns = values_by_column(given.X)
        elif self._columns is None:
            columns = dict(zip(column_names(self), data.X.T, strict=True))
        columns = {name: values[used] for name, values in columns.items()}
        rows = learner.used_rows(data.X, encoded, data.weights)
        say_if_alike(rows, columns, owners, learner.resources.seed, named=named)

    def _wants_level(self) -> bool:
        """Return whether to add a level to scores, which makes the mean prediction right.

        True for losses whose prediction is a mean, without a risk and with ``kernel="auto"``. A
        model with a given kernel consists of its coefficients alone, as in the papers.
        """
        known = self.targets_
        of_mean = known.risk is None and has_mean(known.loss)
        return of_mean and self.learner_.gets_level and self._chooses("kernel")

    def _find_level(self, X: Any, targets: Array, weights: Array) -> None:
        """Find the level from all rows of ``fit``; rows learned later do not change it."""
        if self._wants_level():
            codes, used = self._coded(targets), np.flatnonzero(weights > 0.0)
            mean = weights @ codes / weights.sum()
            self._level = self._level_by(X, codes, weights, used, mean)

    def find_level(self, pieces: Iterable[tuple[Any, NDArray[Any]]]) -> None:
        """Find the level, as :meth:`fit` does, from rows that were learned in pieces.

        Rows learned later do not change it. Models without a level, and models with
        ``class_weight``, whose weights depend on the order of the rows, stay as they are.

        Parameters
        ----------
        pieces : iterable of (X, y)
            Inputs, encoded if the model has columns, and targets of all rows once more.
        """
        if not self._wants_level() or getattr(self, "class_weight", None) is not None:
            return
        learned: LearnedMean | None = None
        for X, y in pieces:
            codes = self._coded(self.targets_.encode(y))
            learned = learned or LearnedMean(X.shape[1], codes.shape[1], X.dtype, seed=0)
            learned.add(Rows(X, codes, np.ones(len(codes))))
        if learned is not None:
            X, codes, weights = learned.sample.arrays
            mean = learned.total / learned.weight
            self._level = self._level_by(X, codes, weights, np.arange(len(X)), mean)

    def _coded(self, targets: Array) -> Array:
        """Numbers, or codes of classes, of encoded targets."""
        return codes_of_targets(self.targets_.loss, targets, self.targets_.n_scores)

    def _level_by(
        self, X: Any, codes: Array, weights: Array, used: NDArray[np.int64], mean: Array
    ) -> Array:
        """Return the level by rows of some numbers, for a mean of all codes."""

        def look(some: NDArray[np.int64]) -> tuple[Array, Array, Array]:
            some = used[some]
            return self._before_level(X[some]), codes[some], weights[some]

        with jobs(self.n_jobs):
            return level_of(look, used.size, mean, self.targets_.loss, seed=0)

    def _asked_risk(self) -> Risk | None:
        """Return a copy of the requested risk; None for the mean loss."""
        return None if self.risk is None else own_copy(as_risk(self.risk))

    def _check_risk(self, plan: Plan) -> None:
        """Refuse a risk, step size or ridge that contradict each other or the expansion."""
        risk = self._asked_risk()
        if isinstance(self.expansion, Auto) and not self._chooses("step_size"):
            raise ValueError(
                f"`step_size={self.step_size!r}` is for learning by steps, but {self.expansion!r} "
                "solves equations. Leave the step size out, or use expansion='komp'."
            )
        if plan.expansion.mode == "recursive" and not self._chooses("regularization"):
            raise ValueError(
                f"`regularization` has no meaning for {self.expansion!r}, got "
                f"{self.regularization!r}: its ridge is of the sum over the rows, not of their "
                "mean. Leave it out, and give the expansion a `noise`."
            )
        tracker = None if risk is None else risk.tracking
        if plan.expansion.mode == "cyclic" and tracker is not None and tracker.rule == "nasa":
            raise ValueError(
                "Tracker('nasa') moves all coefficients along an averaged direction, which "
                "RandomFeatures(mode='cyclic') cannot: it solves for one block at a time. Use mode "
                "'newton' or 'faithful', or Tracker('momentum')."
            )
        if tracker is not None and tracker.pairs == "stream":
            size = check_integer("batch_size", self.batch_size, low=2)
            if size % 2:
                raise ValueError(
                    f"`batch_size` must be even for Tracker(pairs='stream'), whose rows come in "
                    f"pairs, got {size}. Use {size + 1}, or pairs='tracked'."
                )

    def _check_stream(self, plan: Plan) -> None:
        """Refuse parameters that each way of a stream chooses for itself."""
        if isinstance(plan.expansion, Stream):
            self._check_left_open(plan.expansion, "kernel", "step_size", "regularization")

    def _check_categories(self, plan: Plan) -> None:
        """Refuse ``categorical_features`` that do not name columns."""
        check_named(self.categorical_features)

    _checks = (*KernelEstimator._checks, _check_risk, _check_stream, _check_categories)

    def _has_usual_loss(self) -> bool:
        return self._chooses("loss") or isinstance(as_loss(self.loss, self._task), _OF_STREAMS)

    def _automatic_expansion(self, *, few: bool) -> Expansion:
        """Return the expansion for "auto"; few rows with a usual loss start a stream."""
        left_open = all(map(self._chooses, ("kernel", "step_size", "regularization")))
        if few and self.risk is None and left_open and self._has_usual_loss():
            return Stream()
        risk = self._asked_risk()
        tracks = risk is not None and (risk.clip is not None or risk.tracking not in _UNTRACKED)
        if tracks or not self._chooses("step_size"):
            return automatic_expansion()
        adds_up = True
        if self._task == "regression":
            loss = as_loss(self.loss, self._task)
            adds_up = begins_with_regression(Pointwise(loss), loss.n_scores(1))
        return automatic_expansion("sums" if adds_up else "newton", self._chosen_ridge())

    # -- what was learned -----------------------------------------------------------------------

    @property
    def loss_(self) -> Loss:
        """The loss in use."""
        self._fitted()
        return self.targets_.loss

    @property
    def risk_(self) -> Risk | None:
        """The risk in use."""
        self._fitted()
        return self.targets_.risk

    @property
    def race_(self) -> list[dict[str, Any]]:
        """Candidates of the race of the default expansion: one dict for each pilot fit.

        Keys: ``form`` ("global" or "cells"), ``metric`` (how inputs are scaled), ``n_inputs``
        (after the map), ``length`` (length scale), ``error`` (mean squared error on rows not
        fitted) and its ``standard_error``.

        Raises
        ------
        AttributeError
            If there was no race.
        """
        function = self._fitted().current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(f"There was no race. {NO_SINGLE}")
        result = getattr(function, "race_result", None)
        if result is None:
            raise AttributeError(
                "There was no race: `kernel`, `expansion` or `step_size` were given, or a risk or "
                "a loss that the default expansion does not minimise; or no row was learned yet."
            )
        return [dict(entry) for entry in result.table]

    @property
    def block_length_(self) -> int:
        """Number of consecutive rows that the default expansion holds out together.

        1 if each row is held out by itself; more if neighbouring rows depend on each other, as in a
        time series (``block_length`` of :class:`mercer.expansions.Auto`).

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().block

    @property
    def parts_(self) -> list[FittedPart]:
        """Parts of a model of the default expansion, whose sum is f.

        Each part (:class:`mercer.functions.FittedPart`) has ``weight``, ``map``, ``kernel``,
        ``dictionary`` and ``coefficients``, and evaluates to ``weight * kernel(map(X), dictionary)
        @ coefficients``. Scores of classes are f + b f³ with b = ``bend_``. For regression with
        another loss than the squared one, and under a risk, ``correction_`` turns f into scores.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return [FittedPart.of(weight, part) for weight, part in self._components().used]

    @property
    def bend_(self) -> float:
        """The number b >= 0 of a model of the default expansion, whose scores are f + b f³.

        It calibrates probabilities (:func:`mercer.selection.calibrate`); 0 for regression and after
        Newton steps.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().bend

    @property
    def level_(self) -> NDArray[np.float64] | None:
        """Constant added to each score after learning, (n_outputs,); None if nothing is added.

        It makes the mean prediction for the learned rows equal to the mean of their targets, or the
        mean probability of a class equal to its share within 1.25 %. None for losses whose
        predictions are not means, under a risk, and with a given kernel.
        """
        function = self._fitted().current_function()
        return function.level if isinstance(function, SumOfComponents) else self._level

    @property
    def intercept_(self) -> Array:
        """Constant term of each score: its ``level_``, plus the centre if the targets were centred.

        Targets are centred with ``normalize_y``, and for learning by steps with ``kernel="auto"``.
        """
        level = self.level_
        centre = self.targets_.intercept
        return centre if level is None else centre + level * self.targets_.unit

    @property
    def correction_(self) -> Correction | None:
        """What a model of the default expansion adds to the sum of its parts, which is the mean.

        ``correction_(X, f)`` turns values f of the parts at rows X into scores that minimise a loss
        other than the squared one, or a risk. None if nothing is added.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().correction

    def _components(self) -> SumOfComponents:
        """Return the function if it is a sum of parts, else raise ``AttributeError``."""
        function = self._fitted().current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(NO_SINGLE)
        if not isinstance(function, SumOfComponents):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a single part: see "
                "`kernel_`, `dictionary_` and `coefficients_`."
            )
        return function

    @property
    def held_out_(self) -> HeldOutRows | None:
        """Rows that a model of the default expansion kept back, with their scores; else None.

        The fit that scored these rows had not learned them, so their errors estimate the errors on
        new rows. Some of them also chose the weights of the parts. The final model has learned them
        as well. They are stored in its file.
        """
        learner = self._fitted()
        found = learner.held_out() if isinstance(learner, DefaultLearner) else None
        if found is None:
            return None
        y = self.targets_.decode(found.targets)
        return HeldOutRows(found.X, y, found.scores, found.weights, found.groups)

    @property
    def value_at_risk_(self) -> float:
        """Quantile of the loss as estimated by a CVaR, in units of the loss.

        An average over the steps, of losses of rows before they were learned. For given rows use
        ``mercer.display.row_losses`` and ``tail_of``.

        Raises
        ------
        AttributeError
            If the risk has none.
        """
        learner = self._fitted()
        function = learner.current_function()  # includes rows that wait for a step
        objective = learner.objective
        if isinstance(objective, Compositional):
            scalars = objective.scalars
            if isinstance(function, SumOfComponents) and function.correction is not None:
                scalars = function.correction.scalars
            names = objective.risk.scalar_names
            named = {} if scalars is None else dict(zip(names, scalars, strict=True))
            if "value_at_risk" in named:
                return float(named["value_at_risk"])
        raise AttributeError(
            "There is a value at risk for a risk with one CVaR(...) only, once rows with weight "
            f"were learned; this model has risk {self.risk_!r}."
        )
