"""What an estimator has to solve, as a record, and which function and learner solve it.

An expansion tells how its function starts and which learner learns it: components of the default
and the ways of a stream by their own (:mod:`mercer.default`, :mod:`mercer.streams`), all other
functions by steps, by sums or by recursive least squares (:mod:`mercer.learning`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from scipy import sparse

from mercer.default import DefaultLearner
from mercer.expansions import KOMP, Auto, Dictionary, Expansion, Stream
from mercer.functions import (
    DictionaryFunction,
    FeatureExpansion,
    KernelExpansion,
    RecursiveFunction,
    SumOfComponents,
    start,
    start_bilinear,
)
from mercer.kernels import Kernel
from mercer.learning import (
    AutomaticStep,
    FeatureLearner,
    KernelLearner,
    Learner,
    RecursiveLearner,
    SecondOrderLearner,
)
from mercer.learning.learner import StepSize
from mercer.objectives import Objective
from mercer.streams import StreamFunction, StreamLearner

# A first call of fewer rows begins a stream.
_FEW_ROWS = 256
#: Exponents of the weights of the averages.
AVERAGING = {None: None, "polyak": 0.0, "suffix": 3.0}


class Plan(NamedTuple):
    """What the parameters of an estimator stand for, "auto" included; made once, before all else.

    Attributes
    ----------
    expansion : Expansion
        How the function will stay small.
    batch_size : int
        Samples of a step.
    default : {"tables", "stream"} or None
        Which default learns, by sums over rows; None where another expansion was chosen.
    races : bool
        Whether the function chooses for itself its kernel and the map of its inputs.
    maps : bool
        Whether a map of the inputs is chosen before there is a function.

    Examples
    --------
    >>> plan = Plan.of(Auto(), 32, chooses_kernel=True, has_race=True)
    >>> plan.default, plan.races, plan.maps
    ('tables', True, False)
    """

    expansion: Expansion
    batch_size: int
    default: str | None
    races: bool
    maps: bool

    @classmethod
    def of(
        cls, expansion: Expansion, batch_size: int, *, chooses_kernel: bool, has_race: bool
    ) -> Self:
        """Say what follows from an expansion.

        Parameters
        ----------
        expansion : Expansion
            How the function will stay small.
        batch_size : int
            Samples of a step.
        chooses_kernel : bool
            Whether the kernel is left to the model.
        has_race : bool
            Whether there are targets that kernels can race for.
        """
        default = "stream" if isinstance(expansion, Stream) else None
        if isinstance(expansion, Auto):
            default = "tables"
        races = chooses_kernel and has_race and isinstance(expansion, Auto | Dictionary | Stream)
        return cls(expansion, batch_size, default, races, chooses_kernel and not races)

    @property
    def scales(self) -> bool:
        """Whether scales of inputs and targets are found: with the kernel, which is chosen."""
        return self.races or self.maps


def are_few(X: Any) -> bool:
    """Whether the first rows of a stream are few, and dense: so it may be one of single rows.

    Parameters
    ----------
    X : array-like, frame or None
        Rows as they were given; None if there are none yet, or all come at once.

    Examples
    --------
    >>> are_few([{"a": 1.0}]), are_few(range(256)), are_few(None)
    (True, False, False)
    """
    if X is None or sparse.issparse(X) or not hasattr(X, "__len__"):
        return False
    if hasattr(X, "iloc") and all(getattr(one, "fill_value", None) == 0 for one in X.dtypes):
        return False  # a frame of sparse columns
    return getattr(X, "shape", None) != () and len(X) < _FEW_ROWS


class Tuning(NamedTuple):
    """Settings that may be changed on a running stream.

    Attributes
    ----------
    step_size : callable or AutomaticStep
        Step number (1, 2, ...) to step size.
    regularization : float
        Ridge parameter of learning by steps.
    rows_per_step : int
        Rows that a step learns.
    """

    step_size: Any
    regularization: float
    rows_per_step: int


@dataclass(frozen=True)
class Problem:
    """What is to be learned, with all numbers filled in.

    Attributes
    ----------
    objective : Objective
        What is minimised.
    kernel : Kernel
        Of the functions.
    expansion : Expansion
        How the function stays small.
    averaging : float or None
        Exponent of the weights of averaged coefficients; None for the last iterate.
    n_features, n_outputs : int
        Columns of the inputs, and of the function.
    dtype : dtype
        Of the inputs; None if rows are still to tell.
    automatic : AutomaticStep
        Largest safe steps, whatever the steps are.
    tuning : Tuning
        Steps and ridge.
    races : bool
        Whether a race chooses the kernel.
    ridge : float or None
        Ridge of learning by sums; None for one that is chosen on rows held out.
    bilinear : bool
        Whether the function is one of two points, bilinear in their features.
    """

    objective: Objective
    kernel: Kernel
    expansion: Expansion
    averaging: float | None
    n_features: int
    n_outputs: int
    dtype: Any
    automatic: AutomaticStep
    tuning: Tuning
    races: bool = False
    ridge: float | None = None
    bilinear: bool = False

    def function(self) -> Any:
        """Return f = 0."""
        if self.bilinear:
            return start_bilinear(self.expansion, self.kernel, self.n_features, self.dtype)
        if isinstance(self.expansion, Stream):
            loss: Any = getattr(self.objective, "loss", None)
            is_class = loss is not None and loss.task == "classification"
            sizes = self.n_features, self.n_outputs
            return StreamFunction(self.expansion, *sizes, is_class=is_class)
        function: Any = start(
            self.expansion,
            self.kernel,
            self.n_features,
            self.n_outputs,
            self.dtype,
            self.averaging,
        )
        if isinstance(function, SumOfComponents | DictionaryFunction):
            function.races = self.races
        set_ridge(function, self.ridge)
        return function

    def learner(self) -> Learner:
        """Return what learns the function, which has learned nothing yet."""
        return make_learner(self.objective, self.function(), *self.tuning, self.automatic)


def make_learner(
    objective: Objective,
    function: KernelExpansion
    | FeatureExpansion
    | DictionaryFunction
    | RecursiveFunction
    | StreamFunction
    | SumOfComponents,
    step_size: StepSize | AutomaticStep,
    regularization: float,
    batch_size: int,
    automatic: AutomaticStep,
) -> Learner:
    """Return the learner for a function that has learned nothing.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction, StreamFunction or other
        What is learned, which has learned nothing yet.
    step_size : callable or AutomaticStep
        Step number (1, 2, ...) to step size.
    regularization : float
        Ridge parameter.
    batch_size : int
        Rows per step.
    automatic : AutomaticStep
        The automatic choice, for reference even when ``step_size`` is another.
    """
    cls: Any = FeatureLearner if isinstance(function, FeatureExpansion) else KernelLearner
    if isinstance(function, SumOfComponents):
        cls = DefaultLearner
    elif isinstance(function, RecursiveFunction):
        cls = RecursiveLearner
    elif isinstance(function, StreamFunction):
        cls = StreamLearner
    elif function.expansion.mode == "solve":
        cls = SecondOrderLearner
    learner: Learner = cls(objective, function, step_size, regularization, batch_size, automatic)
    return learner


def automatic_expansion(way: str = "steps", ridge: float | None = None) -> Expansion:
    """Return what ``expansion="auto"`` stands for.

    Parameters
    ----------
    way : {"sums", "newton", "steps"}, default="steps"
        How the objective can be learned: by sums over rows, as means and risks of losses whose
        scores are in units of the targets, or of classes, can; by Newton steps on sums, as other
        losses; by gradient steps, as objectives of their own, and wherever a step size is given.
    ridge : float or None, default=None
        Ridge of learning by sums; None for one that is chosen on rows held out.

    Examples
    --------
    >>> [automatic_expansion(way) for way in ("sums", "newton", "steps")]
    [Auto(), Dictionary(size='auto'), KOMP(max_size=1000)]
    """
    if way == "sums":
        return Auto()
    if way == "newton":
        return Dictionary("auto", ridge="auto" if ridge is None else None)
    return KOMP(max_size=1000)


def set_ridge(function: Any, ridge: float | None) -> None:
    """Give a function that learns by sums its ridge; None for one that it chooses."""
    if isinstance(function, SumOfComponents):
        function.set_ridge(ridge)


def solves(expansion: Expansion) -> bool:
    """Whether equations are solved, or Newton steps made, so that no steps need a size."""
    return expansion.mode in ("solve", "recursive")
