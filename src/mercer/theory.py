r"""Bounds of the papers' theorems, and the parameters that they ask for, as numbers.

Each function is a formula of one of the four papers; its arguments have the library's names, and
their descriptions give the papers' symbols. What the library knows is taken from its objects: where
a bound on slopes is asked for, a loss will do, and where a bound on k(x, x) is, a kernel. Misprints
are mended, and said so.

The bounds hold for independent rows that are learned one at a time. Most of them are far from what
is measured, and some say nothing: ``docs/math/bounds.md`` shows both side by side.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import zeta

from mercer.exceptions import ParameterError
from mercer.kernels import Cauchy, DistanceKernel, Kernel, as_kernel
from mercer.losses import Loss, as_loss
from mercer.schedules import Constant, InverseTime, PowerDecay, Relative, as_schedule
from mercer.validation import check_integer, check_real

__all__ = [
    "Ball",
    "Box",
    "COLKBounds",
    "COLKSettings",
    "DSGBounds",
    "PathLimits",
    "Rate",
    "StepConditions",
    "check_steps",
    "colk_model_order",
    "packing_number",
    "pairwise_distance",
    "pairwise_norm",
    "pairwise_rate",
    "polk_bias",
    "polk_model_order",
    "polk_norm",
    "polk_radius",
    "polk_step_size",
    "unregularized_limits",
    "unregularized_rate",
]


Array = NDArray[np.float64]


#: Of kernels at nearer points 1 - k is mostly rounding.
_LEAST_DISTANCE = 1e-6


#: Bounds multiply powers of what is given; they are not calculated of larger and smaller numbers.
_LEAST, _LARGEST = 1e-60, 1e60
#: Each row is a step that is calculated: so many take hours.
_MOST_ROWS = 10**10
_MOST_DIMENSIONS = 10**6


def _positive(**values: float) -> list[float]:
    return [check_real(name, value, low=_LEAST, high=_LARGEST) for name, value in values.items()]


def _not_negative(**values: float) -> list[float]:
    return [check_real(name, value, low=0, high=_LARGEST) for name, value in values.items()]


def _between(name: str, value: float, low: float, high: float, why: str = "") -> float:
    """Return a number that lies between two others and is neither."""
    return check_real(name, value, low=low, high=high, open_low=True, open_high=True, why=why)


def _rate(value: float) -> float:
    """Return the rate of a tracker."""
    return check_real("tracker_rate", value, low=0, high=1, open_low=True)


def _of_loss(name: str, value: float | str | Loss, attribute: str) -> float:
    """Return a number, or the one that a loss declares."""
    if not isinstance(value, str | Loss):
        return _positive(**{name: value})[0]
    loss = as_loss(value)
    number = getattr(loss, attribute)
    if number is None:
        raise ParameterError(
            f"`{name}` cannot be taken from {loss!r}.",
            parameter=name,
            value=value,
            why=f"The loss has no `{attribute}`, because there is no bound for all scores.",
            mend="Give a number: a bound for the scores that occur.",
        )
    return float(number)


def _of_kernel(name: str, value: float | str | Kernel) -> float:
    """Return a number, or the bound of a kernel."""
    if not isinstance(value, str | Kernel):
        return _positive(**{name: value})[0]
    kernel = as_kernel(value)
    if kernel.bound is None:
        raise ParameterError(
            f"`{name}` cannot be taken from {kernel!r}.",
            parameter=name,
            value=value,
            why="There is no bound on its k(x, x) for all x.",
            mend="Give a number: the largest k(x, x) of your rows.",
        )
    return float(kernel.bound)


def _exp(exponent: float) -> float:
    return math.exp(exponent) if exponent < 709 else math.inf


# -- POLK ------------------------------------------------------------------------------------------


def polk_radius(
    *, step_size: float, regularization: float, parsimony: float, variance: float
) -> float:
    r"""Return how near a constant step comes to the optimum, infinitely often.

    With KOMP's tolerance :math:`\varepsilon = K \eta^{3/2}`, almost surely
    :math:`\liminf \|f_t - f^*\| \le
    \frac{\sqrt\eta}{\lambda} (K + \sqrt{K^2 + \lambda \sigma^2})`.

    Parameters
    ----------
    step_size : float
        The constant step :math:`\eta`, below :math:`1 / \lambda`.
    regularization : float
        Ridge :math:`\lambda`.
    parsimony : float
        :math:`K`, the ``parsimony`` of :class:`~mercer.expansions.KOMP`; 0 without compression.
    variance : float
        :math:`\sigma^2`, a bound on the mean squared norm of a step divided by :math:`\eta`. By
        :func:`polk_norm` and :func:`polk_bias`, :math:`(2 C X + K \sqrt\eta)^2` is one.

    Returns
    -------
    radius : float
        In the norm of the kernel's space.

    Raises
    ------
    ValueError
        If a number is outside its range, or the step is not below :math:`1 / \lambda`.

    References
    ----------
    POLK, Theorem 2, eq. (25).

    Examples
    --------
    >>> from mercer.theory import polk_radius
    >>> polk_radius(step_size=0.01, regularization=0.1, parsimony=0.0, variance=0.1)
    0.1
    """
    (regularization,) = _positive(regularization=regularization)
    _between(
        "step_size",
        step_size,
        0,
        1 / regularization,
        "The theorem asks for steps below 1 / `regularization`.",
    )
    parsimony, variance = _not_negative(parsimony=parsimony, variance=variance)
    spread = parsimony + math.sqrt(parsimony**2 + regularization * variance)
    return math.sqrt(step_size) / regularization * spread


def polk_step_size(
    *, radius: float, regularization: float, parsimony: float, variance: float
) -> float:
    r"""Return the largest constant step for which :func:`polk_radius` is a wanted one.

    Parameters
    ----------
    radius : float
        What :func:`polk_radius` may be at most.
    regularization, parsimony, variance : float
        As in :func:`polk_radius`; of parsimony and variance one must be above 0.

    Returns
    -------
    step_size : float
        :math:`\eta`, below :math:`1 / \lambda`.

    Raises
    ------
    ValueError
        If a number is outside its range.

    References
    ----------
    POLK, Theorem 2, eq. (25), solved for the step.

    Examples
    --------
    >>> from mercer.theory import polk_step_size
    >>> round(polk_step_size(radius=0.1, regularization=0.1, parsimony=0.0, variance=0.1), 9)
    0.01
    """
    radius, regularization = _positive(radius=radius, regularization=regularization)
    parsimony, variance = _not_negative(parsimony=parsimony, variance=variance)
    if parsimony == variance == 0:
        raise ParameterError(
            "`parsimony` and `variance` are both 0.",
            parameter="variance",
            value=variance,
            why="Without noise and compression every step below 1 / `regularization` converges.",
            mend="Give the variance of the steps.",
        )
    spread = parsimony + math.sqrt(parsimony**2 + regularization * variance)
    below = math.nextafter(1 / regularization, 0)
    root = min(radius * regularization / spread, 1e150)  # its square is a number, far above `below`
    return min(root**2, below)


def polk_norm(
    *,
    slope_bound: float | str | Loss,
    kernel_bound: float | str | Kernel,
    regularization: float,
) -> float:
    r"""Return a bound on the norm of every iterate and of the optimum, :math:`C X / \lambda`.

    Parameters
    ----------
    slope_bound : float, str or Loss
        :math:`C`, a bound on the slopes of the loss, or a loss that has one (``lipschitz``).
    kernel_bound : float, str or Kernel
        :math:`X^2`, a bound on k(x, x), or a kernel that has one.
    regularization : float
        Ridge :math:`\lambda`, above 0.

    Returns
    -------
    norm : float
        Bound of :math:`\|f_t\|` at every step, if all steps are below :math:`1 / \lambda`.

    Raises
    ------
    ValueError
        If a number is outside its range, or the loss or the kernel knows no bound.

    References
    ----------
    POLK, Proposition 5, eq. (36).

    Examples
    --------
    >>> from mercer.theory import polk_norm
    >>> polk_norm(slope_bound="logistic", kernel_bound="gaussian", regularization=0.1)
    10.0
    """
    slope = _of_loss("slope_bound", slope_bound, "lipschitz")
    (regularization,) = _positive(regularization=regularization)
    return slope * math.sqrt(_of_kernel("kernel_bound", kernel_bound)) / regularization


def polk_bias(*, step_size: float, tolerance: float) -> float:
    r"""Return how far compression moves a step's gradient, :math:`\varepsilon / \eta`.

    Parameters
    ----------
    step_size : float
        Step :math:`\eta` (:math:`\alpha` in COLK).
    tolerance : float
        :math:`\varepsilon`, the ``tolerance`` of :class:`~mercer.expansions.KOMP` at that step.

    Returns
    -------
    bias : float
        In the norm of the kernel's space.

    Raises
    ------
    ValueError
        If a number is outside its range.

    References
    ----------
    POLK, Proposition 6, eq. (40); COLK, Proposition 1, eq. (83).

    Examples
    --------
    >>> from mercer.theory import polk_bias
    >>> polk_bias(step_size=0.5, tolerance=0.01)
    0.02
    """
    (step_size,), (tolerance,) = _positive(step_size=step_size), _not_negative(tolerance=tolerance)
    return tolerance / step_size


class Box(NamedTuple):
    """Inputs that lie in a box with axes along the columns.

    Attributes
    ----------
    sides : tuple of float
        Length in each column, 0 for one that is constant.

    Examples
    --------
    >>> from mercer.theory import Box
    >>> Box((1.0, 2.0)).dimension
    2
    """

    sides: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.sides)

    def _diameter(self) -> float:
        return math.hypot(*self.sides)

    def _most(self, distance: float) -> float:
        cell = distance / math.sqrt(self.dimension)  # side of a cube in which one point has room
        cells = float(np.prod(np.maximum(1.0, np.ceil(np.divide(self.sides, cell)))))
        # Balls of half the distance are disjoint, and lie in the box enlarged by that: its volume
        # is a sum over k of elementary symmetric polynomials of the sides (Steiner).
        sums: Array = np.ones(1)
        for side in filter(None, self.sides):
            sums = np.convolve(sums, [1.0, 2 * side / distance])
        balls = [
            part * np.exp(_log_ball(self.dimension - k) - _log_ball(self.dimension))
            for k, part in enumerate(sums)
        ]
        return min(cells, float(np.floor(sum(balls))))


class Ball(NamedTuple):
    """Inputs that lie in a ball.

    Attributes
    ----------
    radius : float
        In the units of the columns.
    dimension : int
        Number of columns.

    Examples
    --------
    >>> from mercer.theory import Ball
    >>> Ball(1.0, dimension=3)
    Ball(radius=1.0, dimension=3)
    """

    radius: float
    dimension: int

    def _diameter(self) -> float:
        return 2 * self.radius

    def _most(self, distance: float) -> float:
        volume = float(np.floor(np.float64(1 + self._diameter() / distance) ** self.dimension))
        return min(Box((self._diameter(),) * self.dimension)._most(distance), volume)


def _log_ball(dimension: int) -> float:
    """Logarithm of the volume of a ball of radius 1."""
    return dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)


def packing_number(kernel: str | Kernel, domain: Box | Ball, distance: float) -> float:
    r"""Return how many points have room in a domain, if kernels at them keep a distance.

    The number is exact in one dimension, and a bound in others: the smaller of the number of
    cubes of that diameter that cover the domain, and of the balls that its volume allows.

    Parameters
    ----------
    kernel : str or Kernel
        A stationary kernel with a length scale that is a number.
    domain : Box or Ball
        Where inputs lie.
    distance : float
        :math:`\delta`: any two points have :math:`\|k(x, \cdot) - k(x', \cdot)\| > \delta`.

    Returns
    -------
    number : float
        A whole number, possibly too large for an integer; 1 if no two points are so far apart.

    Raises
    ------
    ValueError
        If the kernel is not stationary, or a number is outside its range.

    References
    ----------
    POLK, Theorem 3; Engel, Mannor and Meir, The kernel recursive least-squares algorithm, 2004.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.theory import Box, packing_number
    >>> packing_number(Gaussian(0.1), Box((1.0,)), 0.5)
    20.0
    """
    kernel = as_kernel(kernel)
    check_real(
        "distance",
        distance,
        low=_LEAST_DISTANCE,
        why="Kernels at nearer points cannot be told apart in double precision.",
    )
    if not isinstance(domain, Box | Ball):
        raise ParameterError(
            f"`domain` must be a Box or a Ball, got {domain!r}.",
            parameter="domain",
            value=domain,
            mend="Write Box((1.0, 2.0)), with the length of each column, or Ball(1.0, 2).",
        )
    lengths = domain.sides if isinstance(domain, Box) else (domain.radius,)
    if not isinstance(lengths, Sequence):
        raise ParameterError(
            f"`domain` must have the length of each column, got {domain!r}.",
            parameter="domain",
            value=domain,
            mend=f"Write Box(({lengths!r},)) for one column.",
        )
    dimension = check_integer("domain.dimension", domain.dimension, low=1, high=_MOST_DIMENSIONS)
    for length in lengths:
        check_real("domain", length, low=0)
    if not isinstance(kernel, DistanceKernel | Cauchy):
        raise ParameterError(
            f"`kernel` must be stationary, got {kernel!r}.",
            parameter="kernel",
            value=kernel,
            why="Points are counted by their distances.",
            mend="Take the Gaussian, Matern, RationalQuadratic, Laplacian or Cauchy kernel.",
        )

    def excess(separation: float) -> float:
        # Along the diagonal, where these kernels fall fastest or as fast as elsewhere.
        there = np.full((1, dimension), separation / math.sqrt(dimension))
        here = np.zeros((1, dimension))
        return float(2 - 2 * kernel(here, there)[0, 0]) - distance**2

    diameter = domain._diameter()
    if excess(diameter) <= 0:
        return 1.0
    near = diameter
    while excess(near) > 0:
        near /= 2
    root = brentq(excess, near, 2 * near, xtol=1e-300, rtol=1e-14)
    with np.errstate(over="ignore"):
        return float(domain._most(root))


def polk_model_order(
    kernel: str | Kernel,
    domain: Box | Ball,
    *,
    step_size: float,
    parsimony: float,
    slope_bound: float | str | Loss,
) -> float:
    r"""Return a bound on POLK's model order with a constant step.

    Whenever the model grows, the kernel at the new point is farther than
    :math:`K \sqrt\eta / C` from the span of those that are there. So there are no more points
    than have room at that distance (:func:`packing_number`).

    Parameters
    ----------
    kernel : str or Kernel
        A stationary kernel with a length scale that is a number.
    domain : Box or Ball
        Where inputs lie.
    step_size : float
        The constant step :math:`\eta`.
    parsimony : float
        :math:`K`, the ``parsimony`` of :class:`~mercer.expansions.KOMP`.
    slope_bound : float, str or Loss
        :math:`C`, a bound on the slopes of the loss, or a loss that has one (``lipschitz``).

    Returns
    -------
    model_order : float
        A whole number, possibly too large for an integer.

    Raises
    ------
    ValueError
        As :func:`packing_number`; or if the loss knows no bound.

    Notes
    -----
    The proof looks at steps at which the model grows. A newcomer that takes the place of another
    point, and several newcomers of one batch, are not in it: do not size memory by this number.

    References
    ----------
    POLK, Theorem 3 and eq. (76).

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.theory import Ball, polk_model_order
    >>> polk_model_order(
    ...     Gaussian(1.0), Ball(3.0, 2), step_size=0.25, parsimony=0.1, slope_bound="logistic"
    ... )
    14631.0
    """
    (step_size,), (parsimony,) = _positive(step_size=step_size), _positive(parsimony=parsimony)
    slope = _of_loss("slope_bound", slope_bound, "lipschitz")
    return packing_number(kernel, domain, parsimony * math.sqrt(step_size) / slope)


# -- COLK ------------------------------------------------------------------------------------------


def colk_model_order(
    *,
    step_size: float,
    tolerance: float,
    dimension: int,
    slope_bound: float | str | Loss,
    inner_slope_bound: float | str | Loss = 1.0,
    packing_constant: float = 1.0,
) -> float:
    r"""Return a bound on COLK's model order, :math:`Y (C L)^{2p} (\alpha / \varepsilon)^{2p}`.

    Parameters
    ----------
    step_size : float
        The constant step :math:`\alpha`.
    tolerance : float
        :math:`\varepsilon`, the ``tolerance`` of :class:`~mercer.expansions.KOMP`.
    dimension : int
        Number of columns :math:`p`.
    slope_bound : float, str or Loss
        :math:`C_\ell`, a bound on the slopes of the outer function.
    inner_slope_bound : float, str or Loss, default=1.0
        :math:`L_h`, a bound on the slopes of the inner function.
    packing_constant : float, default=1.0
        :math:`Y`: no more than :math:`Y \nu^{-p}` points of the domain have kernels whose squared
        distances exceed :math:`\nu`. For a Gaussian kernel of length scale s on a box with sides
        :math:`a_i`, :math:`\prod_i (a_i \sqrt{2p} / s + 2)` will do.

    Returns
    -------
    model_order : float
        For stationary kernels :func:`packing_number` at the distance
        :math:`\varepsilon / (\alpha C L)` is smaller, of the order :math:`(\alpha / \varepsilon)^p`
        for smooth ones.

    Raises
    ------
    ValueError
        If a number is outside its range, or a loss knows no bound.

    References
    ----------
    COLK, Theorem 1, eqs. (40) and (53).

    Examples
    --------
    >>> from mercer.theory import colk_model_order
    >>> colk_model_order(step_size=0.02, tolerance=0.002, dimension=1, slope_bound=2.0)
    400.0
    """
    step_size, tolerance, packing_constant = _positive(
        step_size=step_size, tolerance=tolerance, packing_constant=packing_constant
    )
    slope = _of_loss("slope_bound", slope_bound, "lipschitz")
    slope *= _of_loss("inner_slope_bound", inner_slope_bound, "lipschitz")
    power = 2 * check_integer("dimension", dimension, low=1, high=_MOST_DIMENSIONS)
    with np.errstate(over="ignore"):
        return packing_constant * float(np.float64(slope * step_size / tolerance) ** power)


class COLKSettings(NamedTuple):
    r"""What :meth:`COLKBounds.settings` asks for.

    Attributes
    ----------
    step_size : float
        :math:`\alpha`.
    tracker_rate : float
        :math:`\beta`, the ``rate`` of :class:`~mercer.risks.Tracker`.
    tolerance : float
        :math:`\varepsilon`, the ``tolerance`` of :class:`~mercer.expansions.KOMP`.
    regularization : float
        :math:`\lambda`.
    n_steps : float
        :math:`T`, a whole number.
    """

    step_size: float
    tracker_rate: float
    tolerance: float
    regularization: float
    n_steps: float


@dataclass(frozen=True, kw_only=True)
class COLKBounds:
    r"""Bounds for the compositional learner with constant steps, from the constants of a problem.

    The problem is to minimise :math:`E\,\ell(E\,h(f)) + \frac\lambda2 \|f\|^2`.

    Parameters
    ----------
    strong_convexity : float
        :math:`\lambda_0`, below 1: what is left of the ridge, see :meth:`regularization`.
    outer_curvature : float, str or Loss
        :math:`L_\ell`: how fast the slope of the outer function changes, or a loss that knows it
        (``curvature``).
    inner_lipschitz : float
        :math:`L_h`: how fast the inner function changes with f, in the norm of the kernel's space.
    inner_slope : float
        :math:`G_h`, of which the square bounds the mean squared slope of the inner function.
    gradient_variance : float
        :math:`\sigma_f^2`, a bound on the mean squared norm of a step divided by :math:`\alpha`.
    inner_variance : float
        :math:`\sigma_\delta^2`, a bound on the variance of the inner function.
    distance : float
        :math:`Z`, a bound on :math:`\|f_t - f^*\|`.
    solution_norm : float
        :math:`\|f^*\|`.
    kernel_bound : float, str or Kernel, default=1.0
        :math:`U^2`, a bound on k(x, x), or a kernel that has one.

    Raises
    ------
    ValueError
        If a number is outside its range, or the loss or the kernel knows no bound.

    References
    ----------
    COLK, Lemma 1 and Theorems 2 and 3, with the constants of Appendices C and D.

    Examples
    --------
    >>> from mercer.theory import COLKBounds
    >>> problem = COLKBounds(
    ...     strong_convexity=0.5, outer_curvature=1.0, inner_lipschitz=1.0, inner_slope=1.0,
    ...     gradient_variance=1.0, inner_variance=1.0, distance=2.0, solution_norm=1.0,
    ... )
    >>> problem.z
    (6.0, 4.0, 8.0, 8.0)
    >>> settings = problem.settings(accuracy=0.3)
    >>> settings.step_size, round(settings.tracker_rate, 4), settings.n_steps
    (0.01, 0.0122, 562.0)
    >>> used = settings._asdict()
    >>> del used["regularization"]  # it follows from the others
    >>> problem.squared_distance(**used) <= 0.3
    True
    """

    strong_convexity: float
    outer_curvature: float | str | Loss
    inner_lipschitz: float
    inner_slope: float
    gradient_variance: float
    inner_variance: float
    distance: float
    solution_norm: float
    kernel_bound: float | str | Kernel = 1.0

    def __post_init__(self) -> None:
        _between(
            "strong_convexity",
            self.strong_convexity,
            0,
            1,
            "The theorem asks for a lambda_0 between 0 and 1.",
        )
        _positive(
            inner_lipschitz=self.inner_lipschitz,
            inner_slope=self.inner_slope,
            gradient_variance=self.gradient_variance,
            inner_variance=self.inner_variance,
            distance=self.distance,
            solution_norm=self.solution_norm,
        )
        _ = self._curvature  # says what is wrong with the loss and the kernel

    @property
    def _curvature(self) -> float:
        """The product of L_l and U², which always come together."""
        curvature = _of_loss("outer_curvature", self.outer_curvature, "curvature")
        return curvature * _of_kernel("kernel_bound", self.kernel_bound)

    @property
    def z(self) -> tuple[float, float, float, float]:
        """The constants Z1 to Z4 of Theorem 2."""
        noise = self._curvature * self.inner_lipschitz**2
        z = (
            self.gradient_variance * (1 + 2 * noise),
            2 * self._curvature * self.inner_variance,
            2 * self.distance,
            4 * noise,
        )
        first, second, third, fourth = (part / self.strong_convexity for part in z)
        return first, second, third, fourth

    def regularization(self, *, step_size: float, tracker_rate: float) -> float:
        r"""Return the ridge, :math:`\lambda = L_\ell U^2 G_h^2 \alpha / \beta + \lambda_0`.

        Parameters
        ----------
        step_size, tracker_rate : float
            :math:`\alpha` and :math:`\beta`.

        Returns
        -------
        regularization : float
            Theorems 1 and 2 are about this ridge.
        """
        (step_size,) = _positive(step_size=step_size)
        ratio = step_size / _rate(tracker_rate)
        return self._curvature * self.inner_slope**2 * ratio + self.strong_convexity

    def tracking_error(self, *, step_size: float, tracker_rate: float, tolerance: float) -> float:
        r"""Return a bound on the mean squared error of the tracked inner value.

        Parameters
        ----------
        step_size, tracker_rate, tolerance : float
            :math:`\alpha`, :math:`\beta` and :math:`\varepsilon`.

        Returns
        -------
        error : float
            Of the rule "momentum" of :class:`~mercer.risks.Tracker`, at every step (eq. (63)).
        """
        (step_size,), (tolerance,) = (
            _positive(step_size=step_size),
            _not_negative(tolerance=tolerance),
        )
        tracker_rate = _rate(tracker_rate)
        drift = step_size**2 * self.gradient_variance + 2 * tolerance**2
        noise = 2 * tracker_rate * self.inner_variance
        return 2 * self.inner_lipschitz**2 * drift / tracker_rate + noise

    def squared_distance(
        self, n_steps: float, *, step_size: float, tracker_rate: float, tolerance: float
    ) -> float:
        r"""Return a bound on the mean of :math:`\|f_{T+1} - f^*\|^2` for convex problems.

        Parameters
        ----------
        n_steps : float
            :math:`T`.
        step_size, tracker_rate, tolerance : float
            :math:`\alpha`, below :math:`1 / \lambda_0`, :math:`\beta` and :math:`\varepsilon`.

        Returns
        -------
        bound : float
            Eq. (42), for the ridge of :meth:`regularization`.

        Raises
        ------
        ValueError
            If the step is outside its range.
        """
        _between(
            "step_size",
            step_size,
            0,
            1 / self.strong_convexity,
            "The theorem asks for steps below 1 / `strong_convexity`.",
        )
        n_steps, tolerance = _not_negative(n_steps=n_steps, tolerance=tolerance)
        tracker_rate = _rate(tracker_rate)
        z1, z2, z3, z4 = self.z
        start = math.exp(n_steps * math.log1p(-step_size * self.strong_convexity))
        noise = z1 * step_size**2 + z2 * tracker_rate**2 + z3 * tolerance + z4 * tolerance**2
        return start * self.solution_norm**2 + noise / step_size

    def settings(self, accuracy: float) -> COLKSettings:
        r"""Return parameters for which :meth:`squared_distance` is a wanted accuracy.

        Parameters
        ----------
        accuracy : float
            :math:`\delta`, the mean of :math:`\|f_{T+1} - f^*\|^2` at the end. Each of the five
            terms of eq. (42) gets a fifth of it.

        Returns
        -------
        settings : COLKSettings
            Step, rate of the tracker, tolerance, ridge and number of steps.

        Raises
        ------
        ValueError
            If the accuracy is so coarse that steps or rates would be 1 or more.

        Notes
        -----
        Eq. (43) prints :math:`\varepsilon \le \delta Z_4^{1/2} / Z_1^{3/2}`. From
        :math:`Z_4 \varepsilon^2 / \alpha \le \delta / 5` follows
        :math:`\varepsilon \le \delta / (5 \sqrt{Z_1 Z_4})`, which is taken.
        """
        (accuracy,) = _positive(accuracy=accuracy)
        z1, z2, z3, z4 = self.z
        step_size = accuracy / (5 * z1)
        tracker_rate = accuracy / (5 * math.sqrt(z1 * z2))
        if step_size * self.strong_convexity >= 1 or tracker_rate >= 1:
            raise ParameterError(
                f"`accuracy` is too coarse: {accuracy!r} gives a step of {step_size:g} and a rate "
                f"of {tracker_rate:g}.",
                parameter="accuracy",
                value=accuracy,
                why="The theorem asks for rates below 1 and steps below 1 / `strong_convexity`.",
                mend="Ask for a smaller one.",
            )
        tolerance = min(accuracy / math.sqrt(z1 * z4), accuracy**2 / (5 * z1 * z3)) / 5
        halvings = math.log(max(5 * self.solution_norm**2 / accuracy, 1.0))
        n_steps = math.ceil(halvings / -math.log1p(-step_size * self.strong_convexity))
        ridge = self.regularization(step_size=step_size, tracker_rate=tracker_rate)
        return COLKSettings(step_size, tracker_rate, tolerance, ridge, float(max(n_steps, 1)))

    def squared_gradient(
        self,
        n_steps: float,
        *,
        step_size: float,
        tracker_rate: float,
        tolerance: float,
        initial_gap: float,
        risk_curvature: float,
    ) -> float:
        r"""Return a bound on the least mean of :math:`\|\nabla R(f_t)\|^2`, convex or not.

        Parameters
        ----------
        n_steps : float
            :math:`T`.
        step_size, tracker_rate, tolerance : float
            :math:`\alpha`, :math:`\beta` and :math:`\varepsilon`.
        initial_gap : float
            :math:`R(f_1) - R(f^*)` plus the squared error of the tracker at the first step.
        risk_curvature : float
            :math:`L_R`: how fast the gradient of the risk changes.

        Returns
        -------
        bound : float
            For the best of the first :math:`T` iterates.

        Raises
        ------
        ValueError
            If the step is not small enough, :math:`L_\ell^2 G_h^2 U^2 \alpha / \beta \le 1/4`.

        References
        ----------
        COLK, Theorem 3, eqs. (44) and (79), and Lemma 3.
        """
        n_steps = check_real("n_steps", n_steps, low=1)
        tolerance, initial_gap, risk_curvature = _not_negative(
            tolerance=tolerance, initial_gap=initial_gap, risk_curvature=risk_curvature
        )
        tracker_rate = _rate(tracker_rate)
        curvature = _of_loss("outer_curvature", self.outer_curvature, "curvature")
        most = tracker_rate / (4 * self._curvature * curvature * self.inner_slope**2)
        check_real(
            "step_size",
            step_size,
            low=0,
            open_low=True,
            high=most,
            why="Theorem 3 asks for steps that are small beside the tracker's rate.",
        )
        drift = (risk_curvature / 2 + 4 * self.inner_lipschitz**2) * self.gradient_variance
        noise = drift * step_size**2 + 4 * self.inner_variance * tracker_rate**2
        bias = tolerance**2 / (2 * step_size)
        return 4 * (initial_gap / n_steps + noise + bias) / step_size


# -- DSG -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DSGBounds:
    r"""Bounds for doubly stochastic gradients with the steps :math:`\gamma_t = \theta / t`.

    They are about one row and one random feature a step.

    Parameters
    ----------
    scale : float
        :math:`\theta`. With the ridge, :math:`\theta \nu` has to lie in (1, 2) or be a whole
        number.
    regularization : float
        Ridge :math:`\nu`.
    slope_bound : float, str or Loss
        :math:`M`, a bound on the slopes of the loss, or a loss that has one (``lipschitz``).
    curvature : float, str or Loss
        :math:`L`: how fast the slopes change, or a loss that knows it (``curvature``).
    solution_norm : float
        :math:`\|f_*\|`, in the norm of the kernel's space.
    kernel_bound : float, str or Kernel, default=1.0
        :math:`\kappa`, a bound on k(x, x'), or a kernel that has one.
    feature_bound : float, default=2.0
        :math:`\phi`, a bound on products of features, :math:`\phi_\omega(x) \phi_\omega(x')`: 2 for
        :math:`\sqrt2 \cos`.

    Raises
    ------
    ValueError
        If a number is outside its range, or the loss or the kernel knows no bound.

    Notes
    -----
    :math:`Q_1` comes from an induction (Lemma 14) that multiplies an inequality by
    :math:`1 - 2 \theta \nu / t`. So it is proved for :math:`\theta \nu = 1`, and for larger
    products from :math:`t = 2 \theta \nu` on. The recursion itself exceeds it before.

    References
    ----------
    DSG, Theorems 4 to 6, Lemmas 7 and 9, Corollaries 11 to 13.

    Examples
    --------
    >>> from mercer.theory import DSGBounds
    >>> bounds = DSGBounds(
    ...     scale=10.0, regularization=0.1, slope_bound="logistic", curvature="logistic",
    ...     solution_norm=1.0,
    ... )
    >>> bounds.c_squared
    3600.0
    >>> round(bounds.squared_error(1000))  # of scores of the order of 1
    369
    """

    scale: float
    regularization: float
    slope_bound: float | str | Loss
    curvature: float | str | Loss
    solution_norm: float
    kernel_bound: float | str | Kernel = 1.0
    feature_bound: float = 2.0

    def __post_init__(self) -> None:
        _positive(
            scale=self.scale,
            regularization=self.regularization,
            feature_bound=self.feature_bound,
        )
        _not_negative(solution_norm=self.solution_norm)
        _ = self._m, self._l, self._kappa  # say what is wrong with the loss and the kernel
        if not (1 < self._product < 2 or self._is_whole):
            raise ParameterError(
                f"`scale` times `regularization` is {self._product:g}.",
                parameter="scale",
                value=self.scale,
                why="The theorems ask for a product between 1 and 2, or a whole number.",
                mend=f"Take scale={1 / self.regularization:g}.",
            )

    @property
    def _m(self) -> float:
        return _of_loss("slope_bound", self.slope_bound, "lipschitz")

    @property
    def _l(self) -> float:
        return _of_loss("curvature", self.curvature, "curvature")

    @property
    def _kappa(self) -> float:
        return _of_kernel("kernel_bound", self.kernel_bound)

    @property
    def _product(self) -> float:
        return self.scale * self.regularization

    @property
    def _is_whole(self) -> bool:
        return self._product >= 0.5 and abs(self._product - round(self._product)) < 1e-9

    @property
    def c_squared(self) -> float:
        r""":math:`C^2 = 4 (\kappa + \phi)^2 M^2 \theta^2`: the error that random features make."""
        return 4 * ((self._kappa + self.feature_bound) * self._m * self.scale) ** 2

    @property
    def q1(self) -> float:
        r""":math:`Q_1`, of which the square divided by t bounds the error that random rows make."""
        excess = 2 * self._product - 1
        q0 = math.sqrt(self._kappa * self.c_squared * 2) * self._l * self.scale
        noise = self._kappa * ((1 + self._product) * self.scale * self._m) ** 2
        return max(self.solution_norm, (q0 + math.sqrt(q0**2 + excess * noise)) / excess)

    @property
    def q2(self) -> float:
        r""":math:`Q_2`, the same as :attr:`q1` with high probability."""
        reach = 8 + (self._kappa + self.feature_bound) * self.scale * self._l
        q0 = 4 * math.sqrt(2 * self._kappa) * self._m * self.scale * reach
        noise = self._kappa * (self._m * (1 + self._product)) ** 2
        spread = self.scale**2 + 16 * self.scale / self.regularization
        return max(self.solution_norm, q0 + math.sqrt(q0**2 + noise * spread))

    def feature_error(self, n_steps: int, delta: float | None = None) -> float:
        r"""Return a bound on the squared error that random features make at a point.

        Parameters
        ----------
        n_steps : int
            :math:`t`.
        delta : float or None, default=None
            None for a bound of the mean, :math:`B_1^2`; a probability for :math:`B_2^2`, which is
            exceeded with that probability at most.

        Returns
        -------
        bound : float
            Lemma 7, with the sum of the squared weights :math:`a_t^i` of the steps itself. The mean
            is at most :attr:`c_squared` divided by t (Lemma 8).
        """
        steps = self.scale / np.arange(1, check_integer("n_steps", n_steps, low=1) + 1)
        later = np.cumprod(np.append(1.0, (1 - self.regularization * steps[:0:-1])))[::-1]
        weights = float(np.sum((steps * later) ** 2))
        bound = self.c_squared / self.scale**2 * weights
        return bound if delta is None else bound * math.log(2 / self._delta(delta)) / 2

    def squared_error(self, n_steps: int) -> float:
        r"""Return a bound on the mean of :math:`|f_{t+1}(x) - f_*(x)|^2`.

        Parameters
        ----------
        n_steps : int
            :math:`t`.

        Returns
        -------
        bound : float
            :math:`(2 C^2 + 2 \kappa Q_1^2) / t`, at every x (Theorem 4), at the worst x and on
            average (Corollaries 11 and 12).
        """
        check_integer("n_steps", n_steps, low=1)
        return 2 * (self.c_squared + self._kappa * self.q1**2) / n_steps

    def average_squared_error(self, n_steps: int) -> float:
        r"""Return the bound of :meth:`squared_error` for the mean of the first t iterates.

        Parameters
        ----------
        n_steps : int
            :math:`t`.

        Returns
        -------
        bound : float
            Corollary 11.
        """
        return self.squared_error(n_steps) * (math.log(n_steps) + 1)

    def likely_squared_error(
        self, n_steps: int, delta: float, *, everywhere: bool = False
    ) -> float:
        r"""Return a bound on the squared error that holds with probability :math:`1 - 3 \delta`.

        Parameters
        ----------
        n_steps : int
            :math:`t`, at least 4 and at least :math:`\theta \nu`, which has to be a whole number.
        delta : float
            :math:`\delta`, below 1 / e.
        everywhere : bool, default=False
            False for the squared error at one x (Theorem 5), True for its mean over all x
            (Corollary 12).

        Returns
        -------
        bound : float

        Raises
        ------
        ValueError
            If a number is outside its range.
        """
        features, rows = self._likely(n_steps, delta)
        if everywhere:
            features += self.c_squared * (math.log(4 * n_steps) + 0.5) / n_steps
        return features + rows

    def likely_excess_risk(self, n_steps: int, delta: float) -> float:
        r"""Return a bound on the excess risk that holds with probability :math:`1 - 3 \delta`.

        Parameters
        ----------
        n_steps, delta
            As in :meth:`likely_squared_error`.

        Returns
        -------
        bound : float
            Theorem 6. The risk is the mean loss without the ridge; the paper's L in this theorem is
            the bound on slopes.
        """
        features, rows = self._likely(n_steps, delta)
        features += self.c_squared * (math.log(4 * n_steps) + 0.5) / n_steps
        return self._m * (math.sqrt(features) + math.sqrt(rows))

    def average_excess_risk(self, n_steps: int) -> float:
        r"""Return a bound on the excess regularised risk of the mean of the first t iterates.

        Parameters
        ----------
        n_steps : int
            :math:`t`.

        Returns
        -------
        bound : float
            For the expectation of that mean, and :math:`\theta \nu = 1` (Corollary 13).

        Raises
        ------
        ValueError
            If :math:`\theta \nu` is not 1.
        """
        if not (self._is_whole and round(self._product) == 1):
            raise ParameterError(
                f"`scale` times `regularization` is {self._product:g}, not 1.",
                parameter="scale",
                value=self.scale,
                why="Corollary 13 is about steps of 1 / (`regularization` t).",
                mend=f"Take scale={1 / self.regularization:g}.",
            )
        mixed = math.sqrt(self._kappa * self.c_squared / 2) / self.scale * self._l * self.q1
        q = (4 * self._kappa * self._m**2 + 2 * mixed) / self.regularization
        check_integer("n_steps", n_steps, low=1)
        return q * (math.log(n_steps) + 1) / n_steps

    def _delta(self, delta: float) -> float:
        return _between("delta", delta, 0, 1)

    def _likely(self, n_steps: int, delta: float) -> tuple[float, float]:
        """Parts of the bound of Theorem 5: of random features, and of random rows."""
        _between("delta", delta, 0, 1 / math.e)
        if not self._is_whole:
            raise ParameterError(
                f"`scale` times `regularization` is {self._product:g}, not a whole number.",
                parameter="scale",
                value=self.scale,
                why="Bounds with high probability are proved for whole numbers only.",
                mend=f"Take scale={1 / self.regularization:g}.",
            )
        check_integer("n_steps", n_steps, low=max(4, round(self._product)))
        features = self.c_squared * math.log(2 / delta) / n_steps
        rows = 2 * self._kappa * self.q2**2 * math.log(2 * n_steps / delta)
        return features, rows * math.log(n_steps) ** 2 / n_steps


# -- Ying and Zhou ---------------------------------------------------------------------------------


class _Activating(NamedTuple):
    """What the theorems know of a loss of margins, phi(y f)."""

    loss: Loss
    exponent: float
    constant: float

    def value(self, margin: float) -> float:
        return float(self.loss.value([1.0], [margin])[0])

    def slope(self, margin: float) -> float:
        return float(self.loss.derivative([1.0], [margin])[0])

    @property
    def norm_constant(self) -> float:
        """The square of C_phi of Lemma 4."""
        far = 64.0  # where the slopes of losses that fall for ever are still below 0
        if self.slope(far) < 0:
            return 2 * self.value(0.0) + 2 * self.slope(0.0) ** 2 / self.constant
        low, high = 0.0, far
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if self.slope(middle) < 0 else (low, middle)
        return self.constant * high**2


def activating_loss(loss: str | Loss, *, pairs: bool) -> Loss:
    """Return a loss that the theorems of Ying & Zhou are about.

    Parameters
    ----------
    loss : str or Loss
        A loss or its name.
    pairs : bool
        Whether it is one of the theorems on pairs, which ask for a Lipschitz continuous slope.

    Raises
    ------
    ValueError
        If the loss is another.
    """
    chosen = as_loss(loss)
    exponent, constant = chosen.hoelder_exponent, chosen.hoelder_constant
    if exponent is None or constant is None or (pairs and exponent != 1.0):
        kind, last = ("Lipschitz", "") if pairs else ("Hölder", " or QNormHinge(q)")
        raise ParameterError(
            f"`loss` must be a loss of one margin with a {kind} continuous slope, got {loss!r}.",
            parameter="loss",
            value=loss,
            why="Where the slope jumps, or there is no one margin, the theorems on learning "
            "without regularization say nothing (Ying and Zhou, Definition 1).",
            mend=f"Use 'logistic', 'squared_hinge', 'least_squares_margin'{last}.",
        )
    return chosen


def _activating(loss: str | Loss, *, pairs: bool) -> _Activating:
    known: Any = activating_loss(loss, pairs=pairs)
    return _Activating(known, float(known.hoelder_exponent), float(known.hoelder_constant))


def _power_of(schedule: Any, *, low: float) -> tuple[float, float]:
    """Return c and theta of steps c t^-theta, with theta between ``low`` and 1."""
    given = schedule = as_schedule(schedule)
    unit = 1.0
    while isinstance(schedule, Relative) and schedule.unit is not None:
        unit, schedule = unit * float(schedule.unit), as_schedule(schedule.schedule)
    if not isinstance(schedule, PowerDecay):
        raise ParameterError(
            f"`schedule` must be a power of t, got {given!r}.",
            parameter="schedule",
            value=given,
            why="The theorem is about steps c t^-theta.",
            mend="Take PowerDecay(c, theta), or Relative(PowerDecay(...)) with its unit.",
        )
    _between(
        "schedule.power",
        schedule.power,
        low,
        1,
        f"The theorem asks for a power between {low:g} and 1.",
    )
    (scale,) = _positive(**{"schedule.scale": unit * float(schedule.scale)})
    return scale, float(schedule.power)


class StepConditions(NamedTuple):
    """Which conditions steps fulfil: True, False, or None if it cannot be told.

    Attributes
    ----------
    diverges : bool or None
        Whether steps add up to infinity, so that every function can be reached.
    summable : bool or None
        Whether their noise adds up to something finite.
    small : bool or None
        Whether every step is small enough for the norm bound of pairs; None without pairs.
    pairs : bool
        Whether conditions are those of pairs.
    """

    diverges: bool | None
    summable: bool | None
    small: bool | None
    pairs: bool

    @property
    def fulfilled(self) -> bool | None:
        """Whether all conditions hold; None if that cannot be told."""
        those = {self.diverges, self.summable, *([self.small] if self.pairs else [])}
        return False if False in those else None if None in those else True


def check_steps(
    schedule: Any,
    loss: str | Loss,
    *,
    pairs: bool = False,
    kernel_bound: float | None = None,
    warn: bool = False,
) -> StepConditions:
    r"""Tell whether steps fulfil the conditions under which unregularised learning converges.

    Without pairs: :math:`\sum \gamma_t = \infty` and :math:`\sum \gamma_t^{1 + \alpha} < \infty`.
    With pairs: :math:`\sum \gamma_t / \ln t = \infty` and the sum of
    :math:`(M_t D_t + M_t^2) \gamma_t / \sqrt{t - 1} + \gamma_t^2 M_t^2` is finite, where
    :math:`D_t` is the bound of :func:`pairwise_norm` and :math:`M_t` the largest slope that such a
    function meets; and :math:`\gamma_t \tilde\kappa^2 \le 1 / (4 L)`.

    Parameters
    ----------
    schedule : float, Schedule or callable
        Steps :math:`\gamma_t`. The sums of the schedules in :mod:`mercer.schedules` are known;
        of a function of t nothing can be told.
    loss : str or Loss
        Loss of margins with a Hölder continuous slope; with pairs, a Lipschitz continuous one.
    pairs : bool, default=False
        Whether the algorithm learns from pairs (:class:`~mercer.KernelRanker`).
    kernel_bound : float or None, default=None
        Bound on the kernel of pairs, :math:`\tilde\kappa^2`
        (:meth:`~mercer.kernels.PairKernel.bound`). Without it steps that are not ``Relative``
        cannot be judged.
    warn : bool, default=False
        Whether to warn of each condition that is broken.

    Returns
    -------
    conditions : StepConditions

    Raises
    ------
    ValueError
        If the loss is not one that the theorems are about, or the schedule is none.

    Warns
    -----
    UserWarning
        If ``warn`` and a condition is broken.

    Notes
    -----
    The conditions are sufficient. For pairs and the logistic loss they say
    :math:`\theta > 2/3`, for unbounded slopes :math:`\theta > 3/4`; Theorems 3 and 4 prove rates
    from :math:`\theta > 1/2` on.

    References
    ----------
    Ying and Zhou, Theorem 1, Lemma 4 and eq. (3.24).

    Examples
    --------
    >>> from mercer.schedules import Constant, PowerDecay
    >>> from mercer.theory import check_steps
    >>> check_steps(PowerDecay(4.0, 0.5), "logistic")  # squares of such steps are not summable
    StepConditions(diverges=True, summable=False, small=None, pairs=False)
    >>> check_steps(PowerDecay(0.5, 0.8), "logistic", pairs=True, kernel_bound=2.0).fulfilled
    True
    """
    known = _activating(loss, pairs=pairs)
    if kernel_bound is not None:
        (kernel_bound,) = _positive(kernel_bound=kernel_bound)
    steps = as_schedule(schedule)
    inner, relative = steps, False
    while isinstance(inner, Relative):
        relative |= inner.unit is None
        inner = as_schedule(inner.schedule)
    power = _decay(inner)
    if pairs:
        # D_t² grows as t^(1 - theta); slopes that are not bounded grow as D_t.
        least = 2 / 3 if known.loss.lipschitz is not None else 3 / 4
    else:
        least = 1 / (1 + known.exponent)
    small = None
    if pairs and power is not None and relative:
        small = inner(1) <= 0.25  # the unit is 1 / (L kappa²)
    elif pairs and power is not None and kernel_bound is not None:
        small = 4 * known.constant * kernel_bound * steps(1) <= 1
    conditions = StepConditions(
        None if power is None else power <= 1,
        None if power is None else power > least,
        small,
        pairs,
    )
    if warn:
        _warn_of(conditions, steps, least)
    return conditions


def _decay(schedule: Callable[[int], float]) -> float | None:
    """Return theta if steps are of the order t^-theta, else None."""
    if isinstance(schedule, PowerDecay):
        return float(schedule.power)
    return (
        0.0
        if isinstance(schedule, Constant)
        else 1.0
        if isinstance(schedule, InverseTime)
        else None
    )


def _warn_of(conditions: StepConditions, steps: Any, least: float) -> None:
    told = {
        "diverges": "fall too fast, so that they add up to a finite length: what is farther from "
        "the start cannot be reached. Take PowerDecay(c, theta) with theta of at most 1.",
        "summable": "fall too slowly for the proof: their noise need not die out. Take "
        f"PowerDecay(c, theta) with theta between {least:.3g} and 1.",
        "small": "are too large at first for the proof: a step may overshoot. Take "
        "Relative(PowerDecay(0.25, theta)), or a smaller first step.",
    }
    for name, words in told.items():
        if getattr(conditions, name) is False:
            warnings.warn(f"The steps {steps!r} {words}", UserWarning, stacklevel=3)


class PathLimits(NamedTuple):
    r"""Bounds that hold at every step of unregularised learning.

    Attributes
    ----------
    risk : float
        :math:`D_\infty`, of the mean risk.
    squared_distance : float
        :math:`\bar D_\infty`, of the mean of :math:`\|g_t - g_H\|^2`.
    """

    risk: float
    squared_distance: float


def unregularized_limits(
    schedule: Any, loss: str | Loss, *, kernel_bound: float | str | Kernel, solution_norm: float
) -> PathLimits:
    r"""Return bounds on the risk and the distance of every iterate of unregularised learning.

    Parameters
    ----------
    schedule : Schedule
        Steps :math:`\gamma_t = c\,t^{-\theta}`, a :class:`~mercer.schedules.PowerDecay` with
        :math:`\theta` between :math:`1 / (1 + \alpha)` and 1.
    loss : str or Loss
        Loss of margins with a Hölder continuous slope.
    kernel_bound : float, str or Kernel
        :math:`\kappa^2`, a bound on k(x, x), or a kernel that has one.
    solution_norm : float
        :math:`\|g_H\|` of the function with the least risk.

    Returns
    -------
    limits : PathLimits
        With the sums of the steps themselves, where the paper bounds them in (3.3).

    Raises
    ------
    ValueError
        If the loss or the steps are not those of the theorem, or the kernel knows no bound.

    References
    ----------
    Ying and Zhou, Lemmas 1 and 2, eqs. (3.2) and (3.6); the proof of Theorem 1 needs both.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay
    >>> from mercer.theory import unregularized_limits
    >>> limits = unregularized_limits(
    ...     PowerDecay(1.0, 2 / 3), "logistic", kernel_bound="gaussian", solution_norm=1.0
    ... )
    >>> [round(limit, 2) for limit in limits]
    [2.66, 10.56]
    """
    known = _activating(loss, pairs=False)
    alpha, holder = known.exponent, known.constant
    c, theta = _power_of(schedule, low=1 / (1 + alpha))
    kappa2 = _of_kernel("kernel_bound", kernel_bound)
    (norm,) = _not_negative(solution_norm=solution_norm)
    growth = _growth(known, kappa2) * c ** (1 + alpha) * float(zeta(theta * (1 + alpha)))
    risk = (1 + known.value(0.0)) * _exp(growth)
    noise = kappa2 * (1 + alpha) ** 2 * (holder / alpha**alpha) ** (2 / (1 + alpha))
    with np.errstate(over="ignore"):
        spread = float(np.float64(risk) ** (2 * alpha / (1 + alpha)))
    return PathLimits(risk, norm**2 + noise * spread * c**2 * float(zeta(2 * theta)))


def _growth(known: _Activating, kappa2: float) -> float:
    """Return the constant A_alpha of Lemma 1."""
    alpha = known.exponent
    return float(known.constant**2 * (1 + 1 / alpha) ** alpha * kappa2 ** (1 + alpha))


class Rate(NamedTuple):
    """A bound that falls as a power of the number of rows; call it with that number.

    Attributes
    ----------
    constant : float
        Its value after one row.
    exponent : float
        How fast it falls, above 0.

    Examples
    --------
    >>> from mercer.theory import Rate
    >>> Rate(constant=2.0, exponent=0.5)(100)
    0.2
    """

    constant: float
    exponent: float

    def __call__(self, n_rows: float) -> float:
        """Value after ``n_rows`` rows, 1 at least."""
        n_rows = check_real("n_rows", n_rows, low=1)
        return float(self.constant * n_rows**-self.exponent)


def unregularized_rate(
    schedule: Any, loss: str | Loss, *, kernel_bound: float | str | Kernel, solution_norm: float
) -> Rate:
    r"""Return a bound on the mean excess risk of the last iterate of unregularised learning.

    Parameters
    ----------
    schedule, loss, kernel_bound, solution_norm
        As in :func:`unregularized_limits`.

    Returns
    -------
    rate : Rate
        The constant is :math:`C_{\theta, \alpha, H}`, the exponent
        :math:`\min(\alpha \theta / 2, 1 - \theta)`, largest for
        :math:`\theta = 2 / (\alpha + 2)`.

    Raises
    ------
    ValueError
        As :func:`unregularized_limits`.

    References
    ----------
    Ying and Zhou, Theorem 2 and its proof.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay
    >>> from mercer.theory import unregularized_rate
    >>> rate = unregularized_rate(
    ...     PowerDecay(1.0, 2 / 3), "logistic", kernel_bound="gaussian", solution_norm=1.0
    ... )
    >>> round(rate.constant, 2), round(rate.exponent, 3)
    (12.76, 0.333)
    """
    known = _activating(loss, pairs=False)
    alpha = known.exponent
    c, theta = _power_of(schedule, low=1 / (1 + alpha))
    risk, distance = unregularized_limits(
        schedule, loss, kernel_bound=kernel_bound, solution_norm=solution_norm
    )
    beta = min(alpha * theta / 2, 1 - theta)
    noise = _growth(known, _of_kernel("kernel_bound", kernel_bound)) * (1 + risk)
    with np.errstate(over="ignore", invalid="ignore"):
        early = np.float64(2 * c / distance) ** (beta / theta)
        early *= np.float64(2**beta * risk) ** (1 + beta / theta)
    late = distance / c + math.sqrt(noise * distance / c)
    return Rate(max(risk, math.inf if np.isnan(early) else float(early), late), beta)


def pairwise_norm(schedule: Any, loss: str | Loss, n_rows: int) -> float:
    r"""Return a bound on the norm of a function learned from pairs, whatever the rows are.

    :math:`\|f_{t+1}\| \le C_\phi \sqrt{\sum_{j=2}^t \gamma_j}` if
    :math:`\gamma_t \tilde\kappa^2 \le 1 / (4 L)` for all t (:func:`check_steps`).

    Parameters
    ----------
    schedule : float, Schedule or callable
        Steps :math:`\gamma_t`.
    loss : str or Loss
        Loss of margins with a Lipschitz continuous slope.
    n_rows : int
        :math:`t`, rows that were learned; the first has no partner.

    Returns
    -------
    norm : float
        In the norm of the space of the kernel of pairs.

    Raises
    ------
    ValueError
        If the loss is not one that the lemma is about.

    References
    ----------
    Ying and Zhou, Lemma 4.

    Examples
    --------
    >>> from mercer.theory import pairwise_norm
    >>> pairwise_norm(0.125, "squared_hinge", 101)
    5.0
    """
    known = _activating(loss, pairs=True)
    return math.sqrt(known.norm_constant * math.fsum(_sizes(schedule, n_rows)))


def pairwise_distance(
    schedule: Any,
    loss: str | Loss,
    n_rows: int,
    *,
    kernel_bound: float,
    solution_norm: float,
    variance: float,
) -> float:
    r"""Return a bound on the mean squared distance to the optimum, learned from all pairs.

    :math:`E\|f_{t+1} - f_H\|^2 \le \big[\|f_H\|^2 + \sigma_H^2 (4 + \ln t)\big]
    \exp\big((1 + 32 \tilde\kappa^4 L^2) \sum_{j=2}^t \gamma_j^2\big)`, whatever the steps are.

    Parameters
    ----------
    schedule : float, Schedule or callable
        Steps :math:`\gamma_t`.
    loss : str or Loss
        Loss of margins with a Lipschitz continuous slope.
    n_rows : int
        :math:`t`, rows that were learned; the first has no partner.
    kernel_bound : float
        :math:`\tilde\kappa^2`, a bound on the kernel of pairs
        (:meth:`~mercer.kernels.PairKernel.bound`).
    solution_norm : float
        :math:`\|f_H\|` of the function with the least risk.
    variance : float
        :math:`\sigma_H^2`, the mean squared norm of the gradient of a pair at that function.

    Returns
    -------
    squared_distance : float
        In the norm of the space of the kernel of pairs, infinite if it is above all floats.

    Raises
    ------
    ValueError
        If the loss is not one that the lemma is about, or a number is outside its range.

    Notes
    -----
    Two slips of the proof do not change the result. The gradients have the factor
    :math:`y - \tilde y`, which :math:`\sigma_H^2` lacks in print. And the noise of a step is
    :math:`(2 \gamma_t^2 + 1 / (t - 1)) \sigma_H^2`, not
    :math:`(2 \gamma_t^2 + 1) \sigma_H^2 / (t - 1)`: all pairs of a step share its row, so their
    gradients have a mean that more pairs do not take away.

    References
    ----------
    Ying and Zhou, Lemma 3.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay
    >>> from mercer.theory import pairwise_distance
    >>> distance = pairwise_distance(
    ...     PowerDecay(0.1, 0.8), "logistic", 1000,
    ...     kernel_bound=2.0, solution_norm=1.0, variance=0.1,
    ... )
    >>> round(distance, 2)
    2.34
    """
    known, sizes = _activating(loss, pairs=True), _sizes(schedule, n_rows)
    kappa2, norm = _positive(kernel_bound=kernel_bound, solution_norm=solution_norm)
    (variance,) = _not_negative(variance=variance)
    squares = math.fsum(size**2 for size in sizes)
    growth = _exp((1 + 32 * (kappa2 * known.constant) ** 2) * squares)
    return (norm**2 + variance * (4 + math.log(n_rows))) * growth


def _sizes(schedule: Any, n_rows: int) -> Iterator[float]:
    """Give the steps from the second row, the first with a partner, to the last."""
    steps, last = as_schedule(schedule), check_integer("n_rows", n_rows, low=1, high=_MOST_ROWS)
    return (check_real("schedule", steps(t), low=0, high=_LARGEST) for t in range(2, last + 1))


def pairwise_rate(
    schedule: Any,
    loss: str | Loss,
    *,
    kernel_bound: float,
    solution_norm: float,
    variance: float,
    delta: float = 0.05,
    gaussian_constant: float = math.sqrt(math.pi / 2),
) -> Rate:
    r"""Return a bound on the mean excess risk of the last iterate of learning from all pairs.

    Parameters
    ----------
    schedule : Schedule
        Steps :math:`\gamma_t = c\,t^{-\theta}`, a :class:`~mercer.schedules.PowerDecay` with
        :math:`\theta` between 1/2 and 1 and :math:`c \le 1 / (4 L \tilde\kappa^2)`.
    loss : str or Loss
        Loss of margins with a Lipschitz continuous slope. If its slopes are bounded
        (``lipschitz``), the rate is that of Theorem 4, otherwise that of Theorem 3.
    kernel_bound : float
        :math:`\tilde\kappa^2`, a bound on the kernel of pairs
        (:meth:`~mercer.kernels.PairKernel.bound`).
    solution_norm : float
        :math:`\|f_H\|` of the function with the least risk.
    variance : float
        :math:`\sigma_H^2`, the mean squared norm of the gradient of a pair at that function.
    delta : float, default=0.05
        :math:`\delta`, what is lost of the exponent; the constant grows as it falls.
    gaussian_constant : float, default=1.2533
        :math:`\mu` with Rademacher averages at most :math:`\mu` times Gaussian ones;
        :math:`\sqrt{\pi / 2}` is one.

    Returns
    -------
    rate : Rate
        The exponent is :math:`\min(\theta/2 - 1/4 - \delta/2, 1 - \theta - \delta)`, or
        :math:`\min(\theta/4 - \delta/2, 1 - \theta - \delta)` for bounded slopes.

    Raises
    ------
    ValueError
        If the loss or the steps are not those of the theorems, or a number is outside its range.

    Notes
    -----
    The printed constants are mended in three places. :math:`c \le 1 / (4 L \tilde\kappa^2)` has the
    bound of the kernel of pairs. In :math:`D_2`, :math:`2 c / a_H` replaces :math:`c / a_H`:
    :math:`x - \gamma_t x^2 / E_t` grows up to :math:`E_t / (2 \gamma_t)` only. The noise
    :math:`d_\theta` gets the factor c that it lost in (3.29) and (3.31).

    References
    ----------
    Ying and Zhou, Theorems 3 and 4 and their proofs.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay
    >>> from mercer.theory import pairwise_rate
    >>> rate = pairwise_rate(
    ...     PowerDecay(0.5, 0.8), "logistic", kernel_bound=2.0, solution_norm=1.0, variance=0.1
    ... )
    >>> f"{rate.constant:.2g}", round(rate.exponent, 3)
    ('2.4e+03', 0.15)
    """
    known = _activating(loss, pairs=True)
    holder, slopes = known.constant, known.loss.lipschitz
    (kappa2,) = _positive(kernel_bound=kernel_bound)
    c, theta = _power_of(schedule, low=0.5)
    check_real(
        "schedule.scale",
        c,
        high=1 / (4 * kappa2 * holder),
        why="The theorems ask for first steps of at most 1 / (4 L kernel_bound).",
    )
    norm, mu = _positive(solution_norm=solution_norm, gaussian_constant=gaussian_constant)
    (variance,) = _not_negative(variance=variance)
    most = min(theta - 0.5 if slopes is None else theta / 4, 1 - theta)
    _between(
        "delta",
        delta,
        0,
        most,
        "The theorem loses that much of the exponent, which must stay above 0.",
    )
    start = theta / 2 - 0.25 if slopes is None else theta / 4
    beta = min(start - delta / 2, 1 - theta - delta)
    at_zero = norm**2 + 4 * variance  # a_H
    log_growth = (1 + 32 * (kappa2 * holder) ** 2) * c**2 / (2 * theta - 1)
    reach = math.sqrt(c * known.norm_constant / (1 - theta))
    growth = _exp(log_growth)
    if slopes is None:
        noise = (3 * holder * math.sqrt(kappa2) * reach + abs(known.slope(0.0))) ** 2
        noise *= 4 * kappa2 * (holder * c * kappa2 + 8 * math.sqrt(2) * mu)
    else:
        noise = 8 * math.sqrt(2) * mu * (holder * math.sqrt(kappa2) * reach + slopes)
        noise = 4 * kappa2 * slopes * (noise + holder * c * kappa2 * slopes)
    first = 2 * growth * at_zero / c
    part = 2 * holder * kappa2 * growth
    early = at_zero
    if variance:
        share = beta / (theta + beta)
        bracket = log_growth * theta / (theta + beta) + share * math.log(2 * c / at_zero)
        bracket += math.log(2 ** (2 + beta) * variance * holder * kappa2 / theta)
        later = math.log(2) + math.log(2 * c / at_zero) / (theta + beta)
        early += variance * (bracket / theta + later)
    with np.errstate(over="ignore"):
        second = np.float64(2 ** (1 + beta) * part * max(early, 0.0)) ** (1 + beta / theta)
        second *= np.float64(2 * c / at_zero) ** (beta / theta)
    third = 2 * growth * (at_zero + 2 * variance / delta * math.log(1 / delta)) / c + c * noise
    return Rate(max(first, float(second), third), beta)
