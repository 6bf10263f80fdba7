"""Step sizes: the largest safe ones, those of theorems, and the unit of tolerances."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ConditioningWarning
from mercer.expansions import RandomFeatures
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.objectives import Objective
from mercer.schedules import PowerDecay, Relative
from mercer.threads import one_blas_thread

Array = NDArray[np.float64]

_TYPICAL = 0.95
_HEAVIEST = 1e200
_EIGEN_SAMPLE = 500
_FIRST_ROWS = 1000
# 2 is the limit of stability on the rows of one batch.
_MARGIN = 1.5
# Angles of float32 features have relative errors of about 1e-8: at this angle, 3e-4 radians.
_FAR_OFF = 3e4
# Number of steps after which step sizes have halved.
_SLOW = 100.0


class AutomaticStep:
    r"""Largest safe step size for a mini-batch, from the kernel and the loss.

    For a loss of curvature L and a kernel with :math:`k(x, x) \le \kappa` whose covariance operator
    has top eigenvalue :math:`\lambda_1`, the step size for a mini-batch of n rows is
    :math:`\eta = n / (L (\kappa + (n - 1) \lambda_1))`: n rows move the function n times as far as
    one row, until their kernel functions overlap. If slopes are bounded, nothing can diverge, and a
    step ``boldness`` times larger learns faster in one pass.

    Parameters
    ----------
    curvature : float
        Curvature L; 1 for losses without a bound, whose slopes are bounded instead.
    bound : float
        Bound kappa.
    top_eigenvalue : float
        Top eigenvalue of the covariance operator.
    boldness : float, default=1.0
        Factor on the step size.
    typical : float or None, default=None
        Value that relative steps (:class:`mercer.schedules.Relative`) use as the largest k(x, x):
        for a kernel without a bound, the 95 % quantile. None for ``bound``.

    Examples
    --------
    >>> float(AutomaticStep(0.5, 1.0, 0.05).of_batch(32).round(1))
    25.1
    """

    def __init__(
        self,
        curvature: float,
        bound: float,
        top_eigenvalue: float,
        boldness: float = 1.0,
        typical: float | None = None,
    ) -> None:
        self.curvature = curvature
        self.bound = bound
        self.top_eigenvalue = top_eigenvalue
        self.boldness = boldness
        self.typical = bound if typical is None else typical

    def of_batch(self, n: NDArray[np.int64] | int) -> Any:
        """Return the step size for mini-batches of ``n`` rows."""
        spread = self.bound + (np.asarray(n) - 1) * self.top_eigenvalue
        return self.boldness * np.asarray(n) / (self.curvature * spread)


@dataclass(frozen=True)
class CarefulSteps:
    """Schedule with shorter steps for rows that have larger weights or norms than usual.

    The first step size of the schedule suits a usual row. Rows that move the function further get
    at most this size divided by their excess, even late in the stream. It is for step sizes that
    the library chooses.

    Attributes
    ----------
    schedule : callable
        Maps the step number (1, 2, ...) to the step size.
    usual : float
        k(x, x) of usual rows.
    order : int
        Power of k(x, x) that step sizes are divided by.
    unbounded : bool
        Whether slopes are unbounded. Bold steps on heavy rows would then diverge, so the limit
        falls with the square of the weight.
    """

    schedule: Any
    usual: float
    order: int
    unbounded: bool

    def __call__(self, t: int) -> float:
        """Return the size of step ``t`` for usual rows."""
        return float(self.schedule(t))

    def limits(
        self, kernel: Kernel, X: Any, weights: Array, rows_per_step: NDArray[np.int64]
    ) -> Array:
        """Return the largest step sizes, (n_steps,), for batches of rows."""
        heaviness = np.maximum(weights, 1.0)
        starts = np.cumsum(rows_per_step) - rows_per_step
        with np.errstate(over="ignore"):  # the loop detects and reports overflow
            if kernel.bound is None:
                own = np.asarray(kernel.diag(X), dtype=np.float64)
                heaviness = heaviness * np.maximum(own / self.usual, 1.0) ** self.order
            heaviest = np.maximum.reduceat(heaviness, starts) ** (2 if self.unbounded else 1)
        return np.asarray(self(1) / np.minimum(heaviest, _HEAVIEST))


def automatic_step(kernel: Kernel, sample: Any, curvature: float, boldness: float) -> AutomaticStep:
    """Compute the automatic step size from a sample of rows.

    Raises
    ------
    ValueError
        If kernel values of the rows are not finite.
    """
    # A random sample: the first rows may be sorted, and every second row may be of one kind.
    few = sample[np.sort(np.random.default_rng(0).permutation(sample.shape[0])[:_EIGEN_SAMPLE])]
    gram = np.asarray(kernel(few), dtype=np.float64)
    diagonal = np.asarray(kernel.diag(sample), dtype=np.float64)
    if not (np.isfinite(gram).all() and np.isfinite(diagonal).all()):
        raise ValueError(
            f"{kernel!r} gives values that are not finite on these rows, whose largest input is "
            f"{float(abs(sample).max()):.3g}: distances or products leave the range of "
            f"{sample.dtype}, or the kernel is not defined there. Rescale the inputs, for example "
            "with sklearn.preprocessing.StandardScaler."
        )
    largest = kernel.bound if kernel.bound is not None else float(diagonal.max())
    typical = largest if kernel.bound is not None else float(np.quantile(diagonal, _TYPICAL))
    with one_blas_thread():  # several threads take seconds if other work uses the cores
        top = float(np.linalg.eigvalsh(gram)[-1]) / gram.shape[0]
    # If all rows are zero, an unbounded kernel has k(x, x) = 0; any positive bound will do then.
    return AutomaticStep(
        curvature,
        largest or 1.0,
        min(max(top, 0.0), largest) or 1.0,
        boldness,
        typical or largest or 1.0,
    )


def theorem_steps(loss: Loss) -> Relative:
    r"""Return the step sizes with the best rate in the theorem on unregularised learning.

    With :math:`\alpha` and L of the loss (its ``hoelder_exponent`` and ``hoelder_constant``), the
    exponent of the decay is :math:`2 / (\alpha + 2)`. The theorem leaves the first step size open;
    here it is :math:`1 / (L \kappa^2)`.

    Parameters
    ----------
    loss : Loss
        The loss.

    Raises
    ------
    ValueError
        If the theorem does not cover the loss.

    References
    ----------
    Ying and Zhou, Theorem 2: the excess risk falls like :math:`T^{-\alpha / (\alpha + 2)}`.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> steps = theorem_steps(Logistic())
    >>> round(steps.schedule.power, 3)
    0.667
    """
    if loss.hoelder_exponent is None:
        raise ValueError(
            f"`step_size='theory'` has no steps for {loss!r}. The theorem asks for a loss of "
            "margins y f whose slope is Hölder continuous (Ying and Zhou, Definition 1). Use "
            "'logistic', 'squared_hinge', 'least_squares_margin' or QNormHinge(q), or "
            "`step_size='auto'`."
        )
    return Relative(PowerDecay(1.0, 2.0 / (loss.hoelder_exponent + 2.0)))


def stable_steps(
    objective: Objective,
    kernel: Kernel,
    curvature: float,
    rows_per_step: NDArray[np.int64],
    X: Any,
    targets: Array,
    weights: Array,
) -> Array:
    """Return the largest step size of each batch that cannot overshoot on its rows.

    Similar rows in a batch, and large weights, add up to more than the top eigenvalue of a sample
    shows. The eigenvalues of the Gram matrix of the batch are bounded by its row sums, unless the
    objective has a better bound (:meth:`Objective.batch_rate`).
    """
    root = np.sqrt(weights)
    if rows_per_step.max() == 1:
        sums = np.asarray(kernel.diag(X), dtype=np.float64) * weights
        return np.asarray(1.0 / (curvature * np.maximum(sums, 1e-300)))
    stable, start = np.empty(rows_per_step.size), 0
    for step, n in enumerate(rows_per_step):
        rows = slice(start, start + n)
        gram = np.asarray(kernel(X[rows]), dtype=np.float64)
        rate = objective.batch_rate(gram, targets[rows], weights[rows])
        if rate is None:
            gram = np.abs(gram) * np.outer(root[rows], root[rows])
            rate = float(gram.sum(axis=1).max()) * curvature / n
        stable[step] = _MARGIN / max(rate, 1e-300)
        start += n
    return stable


def steps_of_batch(
    objective: Objective, kernel: Kernel, X: NDArray[np.floating], targets: Array, weights: Array
) -> float:
    """Return the largest step size that cannot overshoot; infinity if the objective has none."""
    if type(objective).batch_rate is Objective.batch_rate:
        return float("inf")
    gram = np.asarray(kernel(X), dtype=np.float64)
    rate = objective.batch_rate(gram, targets, weights)
    return float("inf") if rate is None else _MARGIN / max(rate, 1e-300)


@dataclass
class FirstRows:
    """Slopes and losses at f = 0 of the first 1,000 rows that have a slope.

    Attributes
    ----------
    n_rows : int
        Number of rows so far that have a slope.
    squares : float
        Sum of the squared slopes of these rows.
    loss : float
        Largest mean loss of a call among them, or so far (:attr:`Objective.rows_per_slope`).
    n_counted : int
        Number of rows to divide the sum of squares by.
    """

    n_rows: int = 0
    squares: float = 0.0
    loss: float = 0.0
    n_counted: int = 0

    @property
    def slope(self) -> float:
        """Root mean square of the slopes, the unit of automatic tolerances."""
        return float(np.sqrt(self.squares / self.n_counted)) if self.n_counted else 0.0

    @property
    def seen(self) -> bool:
        """Whether enough rows were seen."""
        return self.n_rows >= _FIRST_ROWS

    def look(self, objective: Objective, n_outputs: int, targets: Array, weights: Array) -> None:
        """Note the next rows of the stream, unless there are enough."""
        if self.seen:
            return
        every = objective.rows_per_slope
        n = weights.size
        # The loop detects and reports overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            slopes, losses = objective.at_zero(targets, weights, n_outputs)
            squares = np.sum((slopes * n) ** 2, axis=1)
        self.loss = max(self.loss, float(np.abs(losses).mean()))
        finite = np.isfinite(squares)
        sloping = np.flatnonzero(finite & (squares > 0.0))[: _FIRST_ROWS - self.n_rows]
        self.n_rows += sloping.size
        self.squares += float(squares[sloping].sum())
        if every is None:
            self.n_counted = self.n_rows
        else:
            looked = n if not self.seen else int(sloping[-1]) + 1
            self.n_counted += -(-int(np.sum(finite[:looked])) // every)


class FeatureSteps:
    r"""Automatic step sizes on random features, and the limit of stability.

    A Newton step on a batch moves the function a part of the way to the optimum of the batch, by
    step size times curvature: half of it at first, a quarter at step 100, and so on like 1 / t.
    Plain steps begin with the largest stable step size, :math:`\gamma_0 = 1 / (L \lambda_1)`, and
    continue with :math:`\gamma_t = \gamma_0 / (1 + \nu \gamma_0 t)`, which approaches the
    :math:`1 / (\nu t)` of DSG, Theorem 4. Both stay below :math:`1 / (2 \nu)`, so no step shrinks
    the function by more than half. Cyclic steps solve for the ridge and shrink nothing.

    Parameters
    ----------
    automatic : AutomaticStep
        Bound, top eigenvalue and boldness.
    curvature : float
        Curvature L of the objective.
    mode : {"newton", "faithful", "cyclic"}
        Kind of step.
    regularization : float
        Ridge parameter nu.
    n_rows, n_features : int
        Number of rows of a step, and of features of its block.
    unbounded : bool
        Whether slopes are unbounded, so that too large steps diverge.
    """

    def __init__(
        self,
        automatic: AutomaticStep,
        curvature: float,
        mode: str,
        regularization: float,
        n_rows: int,
        n_features: int,
        unbounded: bool,
    ) -> None:
        self.mode, self.regularization, self.unbounded = mode, regularization, unbounded
        self.curvature = curvature
        self.top_eigenvalue = automatic.top_eigenvalue
        # The features of a block are a sample, just as the rows of a batch are.
        n = min(n_rows, n_features)
        self._plain = float(automatic.of_batch(n)) * automatic.curvature / curvature
        self._own, self._others = automatic.bound, (n - 1) * automatic.top_eigenvalue

    def __call__(self, t: int, whole: bool = False, weights: Array | None = None) -> float:
        """Return the size of a step.

        Parameters
        ----------
        t : int
            Number of the step, from 1.
        whole : bool, default=False
            Whether the step is on all rows.
        weights : ndarray of shape (n,), default=None
            Weights of the rows of the step; None means 1. Newton steps do not need them.
        """
        if self.mode == "cyclic":
            return 1.0 if whole else 0.5 * _falling(t)
        if self.mode == "newton":
            size = 0.5 / self.curvature * _falling(t)
        else:
            first = self._plain / self._heaviness(weights)
            size = first / (1.0 + self.regularization * first * t)
        return min(size, 0.5 / self.regularization) if self.regularization > 0.0 else size

    def _heaviness(self, weights: Array | None) -> float:
        """Return how much weights increase the curvature of the objective, at least 1."""
        if weights is None:
            return 1.0
        steepness = self._own * float(weights.max()) + self._others * float(weights.mean())
        return max(1.0, steepness / (self._own + self._others))

    def largest(self) -> float:
        """Return the largest safe step size."""
        return self(1)

    def _limit(self) -> float:
        if self.mode == "cyclic":
            return 2.0
        return 2.0 / (self.curvature * (self.top_eigenvalue if self.mode == "faithful" else 1.0))

    def limit(self, heaviness: float = 1.0) -> str:
        """Describe the limit of stability, for rows that increase the curvature by a factor."""
        eigenvalue = ""
        if self.mode == "faithful":
            eigenvalue = f" and the kernel's top eigenvalue {self.top_eigenvalue:.3g}"
        return (
            f"In mode {self.mode!r} steps are stable up to {self._limit() / heaviness:.3g}, for "
            f"the loss's curvature {self.curvature:.3g}{eigenvalue}"
            f"{f' and a mean weight of {heaviness:.3g}' if heaviness > 1.0 else ''}."
        )

    def check(self, step_size: float, weights: Array | None = None) -> None:
        """Refuse a first step that must diverge.

        Parameters
        ----------
        step_size : float
            Size of the step.
        weights : ndarray of shape (n,), default=None
            Weights of the rows of the step; None means 1.

        Raises
        ------
        ValueError
            If the step size is beyond the limit of stability.
        """
        # The eigenvalue is estimated from a sample.
        slack = 1.5 if self.mode == "faithful" else 1.0
        heaviness = 1.0
        if self.mode == "faithful" and weights is not None:
            # The mean: a single heavy row does no lasting harm.
            heaviness = max(1.0, float(weights.mean()))
        if self.unbounded and step_size > slack * self._limit() / heaviness:
            raise ValueError(
                f"`step_size` {step_size:.3g} is beyond the limit of stability. "
                f"{self.limit(heaviness)} Use {self.largest() / heaviness:.3g}, or 'auto'."
            )


def _falling(t: int) -> float:
    return 1.0 / (1.0 + t / _SLOW)


def warn_if_off_centre(kernel: Kernel, sample: Any, expansion: RandomFeatures) -> None:
    """Warn of rows so far from the origin that float32 features lose accuracy.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    sample : ndarray or CSR matrix of shape (n, n_features)
        Sample of rows.
    expansion : RandomFeatures
        Expansion, which has the precision.
    """
    length_scale = getattr(kernel, "length_scale", None)
    if length_scale is None or expansion.precision == "double":
        return
    rows = sample if isinstance(sample, np.ndarray) else sample.toarray()
    with np.errstate(over="ignore"):
        distance = float(np.sqrt(np.median(np.sum(np.square(rows, dtype=np.float64), axis=1))))
    # Larger rows exceed the range of float32, and the features refuse them.
    if _FAR_OFF * length_scale < distance < float(np.finfo(np.float32).max):
        warnings.warn(
            f"The rows are {distance:.3g} from the origin, {distance / length_scale:.3g} times the "
            "length scale: features in single precision lose digits there. Centre the columns, for "
            "example with sklearn.preprocessing.StandardScaler, or use precision='double'.",
            ConditioningWarning,
            stacklevel=4,
        )
