"""The learning problem of an estimator, and the choice of function and learner that solve it.

The expansion decides how the function starts and which learner updates it. The default expansions
have learners in :mod:`mercer.default` and :mod:`mercer.streams`. All other functions are learned by
steps, by sums or by recursive least squares (:mod:`mercer.learning`).
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

# A stream whose first call has fewer rows counts as one that starts with few rows.
_FEW_ROWS = 256
#: `average` parameter to the exponent of the weights in the average of the iterates.
AVERAGING = {None: None, "polyak": 0.0, "suffix": 3.0}


class Plan(NamedTuple):
    """Choices that follow from an estimator's parameters, "auto" included; made before learning.

    Attributes
    ----------
    expansion : Expansion
        How the function stays small.
    batch_size : int
        Samples per step.
    default : {"tables", "stream"} or None
        Default expansion in use, which learns by sums over rows; None for any other expansion.
    races : bool
        Whether the function itself chooses its kernel and the map of its inputs.
    maps : bool
        Whether a map of the inputs is chosen before the function is created.

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
        """Return the plan for an expansion.

        Parameters
        ----------
        expansion : Expansion
            How the function stays small.
        batch_size : int
            Samples per step.
        chooses_kernel : bool
            Whether the model chooses the kernel (``kernel="auto"``).
        has_race : bool
            Whether the estimator has targets on which kernels can be compared.
        """
        default = "stream" if isinstance(expansion, Stream) else None
        if isinstance(expansion, Auto):
            default = "tables"
        races = chooses_kernel and has_race and isinstance(expansion, Auto | Dictionary | Stream)
        return cls(expansion, batch_size, default, races, chooses_kernel and not races)

    @property
    def scales(self) -> bool:
        """Whether inputs and targets are rescaled: whenever the model chooses the kernel."""
        return self.races or self.maps


def are_few(X: Any) -> bool:
    """Return whether a stream starts with few dense rows, and so may consist of single rows.

    Parameters
    ----------
    X : array-like, frame or None
        Rows as the user gave them; None if there are none yet, or if all come at once.

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
    """Settings of a learner that may change while a stream is running.

    Attributes
    ----------
    step_size : callable or AutomaticStep
        Maps the step number (1, 2, ...) to a step size.
    regularization : float
        Ridge parameter for learning by steps.
    rows_per_step : int
        Rows per step.
    """

    step_size: Any
    regularization: float
    rows_per_step: int


@dataclass(frozen=True)
class Problem:
    """The learning problem with every number resolved.

    Attributes
    ----------
    objective : Objective
        Objective to minimise.
    kernel : Kernel
        Kernel of the function.
    expansion : Expansion
        How the function stays small.
    averaging : float or None
        Exponent of the weights in averaged coefficients; None to use the last iterate.
    n_features, n_outputs : int
        Number of inputs, and of outputs of the function.
    dtype : dtype
        Type of the inputs; None if it is not known before the first rows.
    automatic : AutomaticStep
        Largest safe steps, kept even if other steps are used.
    tuning : Tuning
        Step sizes and ridge.
    races : bool
        Whether a race chooses the kernel.
    ridge : float or None
        Ridge for learning by sums; None to choose it on held-out rows.
    bilinear : bool
        Whether the function takes two points and is bilinear in their features.
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
        """Return the function before learning, f = 0."""
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
        """Return the learner of a new function, before any row."""
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
    """Return the learner for a function that has not learned any rows yet.

    Parameters
    ----------
    objective : Objective
        Objective to minimise.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction, StreamFunction or other
        Function to learn.
    step_size : callable or AutomaticStep
        Maps the step number (1, 2, ...) to a step size.
    regularization : float
        Ridge parameter.
    batch_size : int
        Rows per step.
    automatic : AutomaticStep
        Automatic step sizes, kept for reference even when ``step_size`` is another.
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
    """Return the expansion that ``expansion="auto"`` stands for.

    Parameters
    ----------
    way : {"sums", "newton", "steps"}, default="steps"
        How the objective is learned. By sums over rows: means and risks of losses whose scores are
        in units of the targets, or of classes. By Newton steps on sums: other losses. By gradient
        steps: objectives without a loss, and whenever a step size is given.
    ridge : float or None, default=None
        Ridge for learning by sums; None to choose it on held-out rows.

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
    """Set the ridge of a function that learns by sums; None lets the function choose it."""
    if isinstance(function, SumOfComponents):
        function.set_ridge(ridge)


def solves(expansion: Expansion) -> bool:
    """Return whether learning solves equations or takes Newton steps, so needs no step size."""
    return expansion.mode in ("solve", "recursive")
