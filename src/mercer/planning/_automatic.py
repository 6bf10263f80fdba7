"""Automatic step sizes: the largest that are safe, and those of the theorems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.schedules import PowerDecay, Relative

__all__ = ["AutomaticStep", "CarefulSteps", "automatic_step", "theorem_steps"]

Array = NDArray[np.float64]

_TYPICAL = 0.95
_HEAVIEST = 1e200
_EIGEN_SAMPLE = 500


class AutomaticStep:
    r"""Step size from the kernel and the loss: the largest that is safe for a mini-batch.

    For a loss of curvature L and a kernel with :math:`k(x, x) \le \kappa` whose covariance operator
    has top eigenvalue :math:`\lambda_1`, a mini-batch of n rows takes
    :math:`\eta = n / (L (\kappa + (n - 1) \lambda_1))`: n rows move the function n times as far as
    one until their kernels overlap. Where slopes are bounded nothing can diverge, and a step
    ``boldness`` times larger learns faster in one pass.

    Parameters
    ----------
    curvature : float
        L; 1 for losses without a bound, whose slopes are bounded instead.
    bound : float
        kappa.
    top_eigenvalue : float
        Top eigenvalue of the covariance operator.
    boldness : float, default=1.0
        Factor.
    typical : float or None, default=None
        What relative steps (:class:`mercer.schedules.Relative`) take for the largest k(x, x): the
        95 % quantile of a kernel without a bound. None for ``bound``.

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
        """Step size for mini-batches of ``n`` rows."""
        spread = self.bound + (np.asarray(n) - 1) * self.top_eigenvalue
        return self.boldness * np.asarray(n) / (self.curvature * spread)


@dataclass(frozen=True)
class CarefulSteps:
    """A schedule whose steps are shorter where rows are heavier, or longer, than usual.

    Its first step is as long as is good for a usual row; rows that move the function further get
    no more than that, however late they come. For steps that the library chooses.

    Attributes
    ----------
    schedule : callable
        Step number (1, 2, ...) to step size.
    usual : float
        k(x, x) of usual rows.
    order : int
        Power of k(x, x) to which a row counts.
    unbounded : bool
        Whether slopes are unbounded: bold steps on heavy rows would then diverge, so that the
        limit falls with the square of the weight.
    """

    schedule: Any
    usual: float
    order: int
    unbounded: bool

    def __call__(self, t: int) -> float:
        """Size of step ``t`` for usual rows."""
        return float(self.schedule(t))

    def limits(
        self, kernel: Kernel, X: Any, weights: Array, rows_per_step: NDArray[np.int64]
    ) -> Array:
        """Longest steps, shape (n_steps,), for batches of some rows."""
        heaviness = np.maximum(weights, 1.0)
        starts = np.cumsum(rows_per_step) - rows_per_step
        with np.errstate(over="ignore"):  # what overflows is found, and said, by the loop
            if kernel.bound is None:
                own = np.asarray(kernel.diag(X), dtype=np.float64)
                heaviness = heaviness * np.maximum(own / self.usual, 1.0) ** self.order
            heaviest = np.maximum.reduceat(heaviness, starts) ** (2 if self.unbounded else 1)
        return np.asarray(self(1) / np.minimum(heaviest, _HEAVIEST))


def automatic_step(kernel: Kernel, sample: Any, curvature: float, boldness: float) -> AutomaticStep:
    """Look at a sample of rows for the automatic step size.

    Raises
    ------
    ValueError
        If the kernel overflows on them.
    """
    # Not the first rows, which may be sorted, nor every second, which may alternate.
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
    top = float(np.linalg.eigvalsh(gram)[-1]) / gram.shape[0]
    # All rows may be zero for an unbounded kernel; any positive bound will do then.
    return AutomaticStep(
        curvature,
        largest or 1.0,
        min(max(top, 0.0), largest) or 1.0,
        boldness,
        typical or largest or 1.0,
    )


def theorem_steps(loss: Loss) -> Relative:
    r"""Return the steps of best rate that the theorem on unregularised learning has for a loss.

    With :math:`\alpha` and L of the loss (its ``hoelder_exponent`` and ``hoelder_constant``), the
    exponent of the decay is :math:`2 / (\alpha + 2)`. The theorem leaves the first step open; this
    takes :math:`1 / (L \kappa^2)`.

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
