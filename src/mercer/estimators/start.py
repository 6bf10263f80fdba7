"""The learning problem of an estimator, and the choice of function and learner that solve it.

The expansion decides how the function starts and which learner updates it. The default expansions
have learners in :mod:`mercer.default` and :mod:`mercer.streams`. All other functions are learned by
steps, by sums or by recursive least squares (:mod:`mercer.learning`).

``kernel="auto"`` for functions that do not race scales the inputs and centres the targets: the race
of :mod:`mercer.selection` chooses a map on some of the first rows, and the learner then receives
mapped rows, so compiled loops need no mapped kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.default import DefaultLearner
from mercer.expansions import Auto, Dictionary, Expansion, Stream, as_expansion
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
from mercer.learning.regression_targets import race_rows, weighted_medians, winsorised
from mercer.losses import Loss
from mercer.maps import Affine, Standardize
from mercer.objectives import Objective
from mercer.selection import RaceSettings, race
from mercer.streams import StreamFunction, StreamLearner
from mercer.sums import Rows

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
    regularization : float or callable
        Ridge parameter for learning by steps, or one for each step number.
    rows_per_step : int
        Rows per step.
    """

    step_size: Any
    regularization: Any
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
    regularization: Any,
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
    return as_expansion("komp")


def set_ridge(function: Any, ridge: float | None) -> None:
    """Set the ridge of a function that learns by sums; None lets the function choose it."""
    if isinstance(function, SumOfComponents):
        function.set_ridge(ridge)


def solves(expansion: Expansion) -> bool:
    """Return whether learning solves equations or takes Newton steps, so needs no step size."""
    return expansion.mode in ("solve", "recursive")


Array = NDArray[np.float64]

#: With fewer rows, scales and centres are too uncertain: inputs and targets stay as they are.
FEWEST_ROWS = 20
#: Fewer rows than in the race of a whole model, since only a map and perhaps a length scale are
#: chosen. The map is final, so weights of columns are not chosen on few rows.
RACE = RaceSettings(small=2000, pilot_rows=400, fewest_for_metrics=100)
#: Rows of that race if there are more than ``small``. A third is for pilots, which fit half of it
#: and then, for the best pilot, all of it; the other rows judge.
MANY_ROWS = 6000
# Values more median absolute deviations from the median than this are errors or codes. Heavy tails,
# which may matter, are nearer.
_OUTLYING = 100.0
# Squares of mapped values must not overflow, not even in float32.
_FAR = 1e9


def image_of(map: Affine, X: Any) -> NDArray[np.floating]:
    """Map rows to a dense array; values are clipped at ±1e9, which is far away as well.

    Parameters
    ----------
    map : Affine
        The map.
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
        Finite rows.

    Examples
    --------
    >>> image_of(Affine([0.0], [1e5]), np.array([[2.0], [-1e308]]))
    array([[ 2.e+05],
           [-1.e+09]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        image: NDArray[np.floating] = map(X if isinstance(X, np.ndarray) else X.toarray())
    if not np.abs(image).max(initial=0.0) <= _FAR:
        image = np.clip(np.nan_to_num(image, nan=_FAR, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)
    return image


class MappedRows:
    """Rows that are mapped only when they are read.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows, not copied.
    map : Affine
        The map.

    Examples
    --------
    >>> rows = MappedRows(np.array([[1.0], [3.0], [5.0]]), Affine([3.0], [0.5]))
    >>> rows.shape, rows[1:]
    ((3, 1), array([[0.],
           [1.]]))
    """

    def __init__(self, X: NDArray[np.floating], map: Affine) -> None:
        self._rows, self._map = X, map

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns after the map."""
        return len(self._rows), self._map.n_outputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return self._rows.dtype

    def __len__(self) -> int:
        return len(self._rows)

    def toarray(self) -> NDArray[np.floating]:
        """Return all rows, mapped."""
        return self[:]

    def __getitem__(self, which: Any) -> NDArray[np.floating]:
        return image_of(self._map, self._rows[which])


def standardized(X: NDArray[np.floating]) -> Affine:
    """Return the map of each column to mean 0 and deviation 1, in which outliers count little."""
    return Standardize().fit(_without_outliers(X, np.ones(len(X))))


def _without_outliers(X: NDArray[np.floating], weights: Array) -> NDArray[np.floating]:
    """Return rows with far outliers moved closer, so that one value cannot set a column's scale."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = winsorised(np.asarray(X, dtype=np.float64), weights, beyond=_OUTLYING)
    return rows.astype(X.dtype, copy=False)


def input_map(
    objective: Objective, rows: Rows, n_outputs: int, settings: RaceSettings = RACE
) -> tuple[Affine, float] | None:
    """Choose the map of the inputs with which a regression best predicts an objective's targets.

    Parameters
    ----------
    objective : Objective
        Objective to minimise.
    rows : Rows
        Rows in random order, with positive weights and encoded targets.
    n_outputs : int
        Number of outputs of the function.
    settings : RaceSettings
        Settings of the race.

    Returns
    -------
    map, length_scale : Affine and float, or None
        The map, and the length scale that the regression uses after it; None if the objective has
        no regression targets.
    """
    rows = replace(rows, X=_without_outliers(rows.X, rows.weights))
    judged = race_rows(objective, rows, n_outputs)
    if judged is None:
        return None
    # Affine maps only. On few rows, metrics learned upon metrics follow noise, and steps do not
    # smooth.
    gaussian = settings._replace(families=("gaussian",), rounds=1)
    result = race(judged, None, 0, cells=False, settings=gaussian)
    best = result.best_global
    d, n = best.map.n_inputs, min(len(judged), settings.pilot_rows)
    if result.plain is not None and "full metric" in best.metric and d * (d + 1) // 2 > n:
        # The metric has more numbers than its pilot has rows. It helps pilots on few rows, but
        # harms the model of all rows.
        best = result.plain
    assert isinstance(best.map, Affine)
    return best.map, best.length


def centre_of(loss: Loss, y: Array, weights: Array) -> Array | None:
    """Return the centre of regression targets: the mean, or the median for bounded slopes.

    Parameters
    ----------
    loss : Loss
        Loss; the result is None unless it is a loss of residuals.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.

    Examples
    --------
    >>> from mercer.losses import AbsoluteError, Poisson, Squared
    >>> y, weights = np.r_[np.zeros(30), 4.0], np.ones(31)
    >>> [centre_of(loss, y, weights) for loss in (Squared(), AbsoluteError(), Poisson())]
    [array([0.12903226]), array([0.]), None]
    """
    used = weights > 0.0
    if not loss.of_residuals or np.count_nonzero(used) < FEWEST_ROWS:
        return None
    targets, weights = y.reshape(len(y), -1)[used], weights[used]
    if loss.lipschitz is not None:
        return weighted_medians(targets, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        centre: Array = np.average(targets, axis=0, weights=weights)
    return centre if np.isfinite(centre).all() else None


def mean_and_deviation(y: Array, weights: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of targets, (n_targets,); 1 for constant targets.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.

    Raises
    ------
    ValueError
        If mean or deviation is not finite.

    Examples
    --------
    >>> mean_and_deviation(np.array([1.0, 3.0]), np.ones(2))
    (array([2.]), array([1.]))
    """
    targets = y.reshape(len(y), -1)
    weights = weights if weights.any() else np.ones(len(y))
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Array = np.average(targets, axis=0, weights=weights)
        squares: Array = np.average((targets - mean) ** 2, axis=0, weights=weights)
    if not np.isfinite(squares).all():
        raise ValueError(
            f"The targets are too large to be learned in units of their deviation, up to "
            f"{np.abs(targets).max():.3g}. Divide them by some power of ten."
        )
    return mean, np.where(squares > 0.0, np.sqrt(squares), 1.0)
