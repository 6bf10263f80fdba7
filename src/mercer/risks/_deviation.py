"""Risks of the form loss + weight * deviation from the mean loss: semideviations and moments."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from mercer.risks._base import Array, Outer, Risk, Tracker, check_smoothing, positive_part
from mercer.validation import Check, integer, or_none, parameters, positive, real


def _flag(why: str) -> Check:
    """Return the check for True or False."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False, got {value!r}. {why}")

    return check


class DeviationRisk(Risk):
    r"""Base of the risks that add a deviation of the loss from its mean.

    .. math:: \phi(l, g) = l + \eta S\, d(z / S), \qquad z = l - g, \quad g = E[l]

    with the weight :math:`\eta` and the scale :math:`S` of the loss. The slope of a row's loss is
    weighted by :math:`a = 1 + \eta d'(z/S)`, the slope of the inner sample by :math:`b = 1 - a`. A
    subclass defines :math:`d` and :math:`d'` in :meth:`deviation`.

    Two safeguards limit the weights, because polynomials of the loss otherwise make a run explode.
    Beyond ``max_deviation`` the deviation continues along its tangent, which bounds the weights.
    With ``clamp``, a negative :math:`a`, which would push f *away* from rows with a small loss,
    becomes 0 before :math:`b` is computed. Neither makes such a risk monotone: a row's total weight
    is :math:`a + E[b]`.

    Attributes
    ----------
    weight : float
        :math:`\eta`.
    max_deviation : float or None
        Bound on :math:`|z| / S`; None: none.
    clamp : bool
        Whether negative weights are set to 0.

    References
    ----------
    COLK, eq. (8)-(12) and (46)-(47); the safeguards are not in the paper, whose own objective
    diverges without them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import DeviationRisk
    >>> class LogCosh(DeviationRisk):
    ...     weight = 0.5
    ...     def deviation(self, u):
    ...         return np.log(np.cosh(u)), np.tanh(u)
    >>> losses = np.array([1.0, 3.0])
    >>> LogCosh().outer(losses, np.array([2.0]), np.empty(0), unit=2.0).by_loss.round(3)
    array([0.769, 1.231])
    """

    n_inner = 1
    inner_range = (0.0, math.inf)
    weight: float
    max_deviation: float | None = None
    clamp: bool = True

    _parameters = parameters(
        **Risk._parameters,
        weight=real(low=0, why="Below 0 the deviation would be rewarded; 0 leaves the mean."),
        max_deviation=or_none(
            positive("It is in units of the loss scale; write max_deviation=None for no bound.")
        ),
        clamp=_flag("It says whether negative weights become 0."),
    )

    @abstractmethod
    def deviation(self, u: Array) -> tuple[Array, Array]:
        """Deviation and its derivative.

        Parameters
        ----------
        u : ndarray of shape (n,)
            Loss minus mean loss, in units of the loss scale.

        Returns
        -------
        value, slope : ndarray of shape (n,)
        """

    def slope_bounds(self) -> tuple[float, float] | None:
        """Smallest and largest slope of :meth:`deviation` within ``max_deviation``.

        Returns
        -------
        bounds : tuple of float or None
            By default the slopes at both ends (of the line, if there is no ``max_deviation``),
            which is right for convex deviations; None if they are not finite.
        """
        reach = math.inf if self.max_deviation is None else float(self.max_deviation)
        with np.errstate(all="ignore"):
            low, high = self.deviation(np.array([-reach, reach]))[1]
        return (float(low), float(high)) if np.isfinite([low, high]).all() else None

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        # An overflow is for the learner to report, which can name the step and the remedy.
        with np.errstate(over="ignore", invalid="ignore"):
            u = (losses - inner[0]) / unit
            near, beyond = u, np.zeros(len(u), dtype=bool)
            if self.max_deviation is not None:
                near = np.clip(u, -self.max_deviation, self.max_deviation)
                beyond = near != u
            value, slope = self.deviation(near)
            value = np.where(beyond, value + slope * (u - near), value)
            by_loss = 1.0 + self.weight * slope
            negative = by_loss < 0 if self.clamp else np.zeros(len(u), dtype=bool)
            by_loss = np.where(negative, 0.0, by_loss)
            return Outer(
                value=losses + self.weight * unit * value,
                by_loss=by_loss,
                by_inner=(1.0 - by_loss)[:, None],
                by_scalars=np.empty((len(losses), 0)),
                clamped=beyond | negative,
            )

    def _weights(self) -> tuple[float, float] | None:
        """Smallest and largest weight a."""
        bounds = self.slope_bounds()
        if bounds is None:
            return None
        low, high = (1.0 + self.weight * bound for bound in bounds)
        return (max(low, 0.0), max(high, 0.0)) if self.clamp else (low, high)

    @property
    def largest_weight(self) -> float | None:  # type: ignore[override]
        """Bound on a and on a + E[b] = 1 + a - E[a]; None without ``max_deviation``."""
        weights = self._weights()
        if weights is None:
            return None
        low, high = weights
        return max(abs(low), abs(high), 1.0 + high - low)

    @property
    def monotone(self) -> bool:  # type: ignore[override]
        """Whether 1 + a - E[a] is never negative: no two weights a differ by more than 1."""
        weights = self._weights()
        return weights is not None and weights[1] - weights[0] <= 1.0


class UpperSemideviation(DeviationRisk):
    r"""Mean plus a multiple of the mean excess over the mean: :math:`\phi = l + \eta S s(z/S)`.

    :math:`s` is a smoothed positive part and :math:`z = l - E[l]`. All weights lie in
    :math:`[1, 1 + \eta]`, so that neither a clamp nor a bound on the deviation is needed. With
    ``weight`` up to 1 the risk never rewards a larger loss, and without the smoothing it is
    coherent. The gentlest way to control a tail.

    Parameters
    ----------
    weight : float, default=1.0
        :math:`\eta`, at least 0.
    smoothing : float, default=0.1
        Width :math:`\tau` of the kink of :math:`s(u) = \tau\log(1 + e^{u/\tau})`, in units of S;
        0 leaves the kink.
    clip, units, tracker
        As in :class:`Risk`; None, ``"running"`` and ``"momentum"`` by default.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Ogryczak and Ruszczynski (1999), "From stochastic dominance to mean-risk models", first order.
    COLK, Section V, after eq. (46), names semideviations as the convex alternative.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import UpperSemideviation
    >>> risk = UpperSemideviation(smoothing=0.0)
    >>> risk.outer(np.array([0.0, 4.0]), np.array([2.0]), np.empty(0), unit=1.0).by_loss
    array([1., 2.])
    """

    _parameters = parameters(**DeviationRisk._parameters, smoothing=check_smoothing)

    _summary = "mean plus {risk.weight:g} times the mean excess of the losses over their mean"

    def __init__(
        self,
        weight: float = 1.0,
        *,
        smoothing: float = 0.1,
        clip: float | None = None,
        units: float | str = "running",
        tracker: Tracker | str = "momentum",
    ) -> None:
        self.weight = weight
        self.smoothing = smoothing
        self.clip = clip
        self.units = units
        self.tracker = tracker
        self._check()

    def deviation(self, u: Array) -> tuple[Array, Array]:
        """Return the positive part and its slope."""
        return positive_part(u, self.smoothing)


class Variance(DeviationRisk):
    r"""Mean plus a multiple of the variance: :math:`\phi = l + \eta z^2 / S`, :math:`z = l - E[l]`.

    Rows with a loss far below the mean get a negative weight, hence ``clamp``.
    :class:`Semivariance` and :class:`UpperSemideviation` have no such rows.

    Parameters
    ----------
    weight : float, default=0.5
        :math:`\eta`, at least 0.
    max_deviation : float or None, default=10.0
        :math:`|z|` beyond which the square continues along its tangent, in units of S; None for the
        square everywhere, with unbounded weights.
    clamp : bool, default=True
        Whether negative weights are set to 0.
    clip : float or None, default=None
        Largest multiple of a slope that enters f; None: no limit. See :class:`Risk`.
    units : "running" or float, default="running"
        Scale S of the loss; 1.0 for the raw formula. See :class:`Risk`.
    tracker : Tracker or str, default="momentum"
        How E[l] is tracked.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    COLK, eq. (9)-(12), without the positive part.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import Variance
    >>> outer = Variance(0.5).outer(np.array([0.0, 4.0]), np.array([2.0]), np.empty(0), unit=1.0)
    >>> outer.value.mean().item(), outer.by_loss, outer.clamped
    (4.0, array([0., 3.]), array([ True, False]))
    """

    _summary = "mean plus {risk.weight:g} times the variance of the losses"

    def __init__(
        self,
        weight: float = 0.5,
        *,
        max_deviation: float | None = 10.0,
        clamp: bool = True,
        clip: float | None = None,
        units: float | str = "running",
        tracker: Tracker | str = "momentum",
    ) -> None:
        self.weight = weight
        self.max_deviation = max_deviation
        self.clamp = clamp
        self.clip = clip
        self.units = units
        self.tracker = tracker
        self._check()

    def deviation(self, u: Array) -> tuple[Array, Array]:
        """Return the square and its slope."""
        return u**2, 2.0 * u


class Semivariance(DeviationRisk):
    r"""Mean plus a multiple of the upper semivariance: :math:`\phi = l + \eta S s(z/S)^2`.

    :math:`s` is a smoothed positive part and :math:`z = l - E[l]`: only losses above the mean
    count.

    Parameters
    ----------
    weight : float, default=0.5
        :math:`\eta`, at least 0.
    smoothing : float, default=0.1
        Width :math:`\tau` of the kink of :math:`s(u) = \tau\log(1 + e^{u/\tau})`, in units of S;
        0 leaves the kink.
    max_deviation, clamp, clip, units, tracker
        As in :class:`Variance`, with the same defaults.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    COLK, eq. (8) and (12).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import Semivariance
    >>> risk = Semivariance(0.5, smoothing=0.0)
    >>> risk.outer(np.array([0.0, 4.0]), np.array([2.0]), np.empty(0), unit=1.0).by_loss
    array([1., 3.])
    """

    _parameters = parameters(**DeviationRisk._parameters, smoothing=check_smoothing)

    _summary = "mean plus {risk.weight:g} times the variance of the losses above their mean"

    def __init__(
        self,
        weight: float = 0.5,
        *,
        smoothing: float = 0.1,
        max_deviation: float | None = 10.0,
        clamp: bool = True,
        clip: float | None = None,
        units: float | str = "running",
        tracker: Tracker | str = "momentum",
    ) -> None:
        self.weight = weight
        self.smoothing = smoothing
        self.max_deviation = max_deviation
        self.clamp = clamp
        self.clip = clip
        self.units = units
        self.tracker = tracker
        self._check()

    def deviation(self, u: Array) -> tuple[Array, Array]:
        """Return the square of the positive part and its slope."""
        s, ds = positive_part(u, self.smoothing)
        return s**2, 2.0 * s * ds


class CentralMoments(DeviationRisk):
    r"""Mean plus central moments: :math:`\phi = l + \eta \sum_{p=2}^{P} z^p / S^{p-1}`.

    Moments of order 4 make the step of degree 7 in f for the squared loss, and weigh the moments
    by powers of the unit of the targets. This risk is here to compare with the paper; for a tail
    to be controlled use :class:`UpperSemideviation` or :class:`CVaR`.

    Parameters
    ----------
    order : int, default=4
        Highest moment :math:`P`, at least 2.
    weight : float, default=0.1
        :math:`\eta`, at least 0.
    positive : bool, default=False
        Whether a smoothed positive part takes the place of :math:`z`, so that only losses above
        the mean count.
    smoothing : float, default=0.1
        Width of the kink of that positive part, in units of S; 0 leaves the kink.
    max_deviation : float or None, default=2.0
        As in :class:`Variance`, but lower: the weights grow with its power ``order - 1``.
    clamp, clip, units, tracker
        As in :class:`Variance`, with the same defaults.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    COLK, eq. (46)-(47), with P = 4. The raw formula is ``CentralMoments(units=1.0, clamp=False,
    max_deviation=None)``; it diverges.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import CentralMoments
    >>> risk = CentralMoments(order=3, weight=1.0)
    >>> risk.outer(np.array([3.0]), np.array([2.0]), np.empty(0), unit=1.0).value
    array([5.])
    """

    _parameters = parameters(
        **DeviationRisk._parameters,
        order=integer(low=2, why="The first central moment is 0."),
        smoothing=check_smoothing,
        positive=_flag("It says whether only losses above the mean count."),
    )

    _summary = (
        "mean plus {risk.weight:g} times the central moments 2 to {risk.order} of the losses"
        "{risk._side}"
    )

    def __init__(
        self,
        order: int = 4,
        *,
        weight: float = 0.1,
        positive: bool = False,
        smoothing: float = 0.1,
        max_deviation: float | None = 2.0,
        clamp: bool = True,
        clip: float | None = None,
        units: float | str = "running",
        tracker: Tracker | str = "momentum",
    ) -> None:
        self.order = order
        self.weight = weight
        self.positive = positive
        self.smoothing = smoothing
        self.max_deviation = max_deviation
        self.clamp = clamp
        self.clip = clip
        self.units = units
        self.tracker = tracker
        self._check()

    def deviation(self, u: Array) -> tuple[Array, Array]:
        """Return the sum of the powers and its slope."""
        base, slope = positive_part(u, self.smoothing) if self.positive else (u, np.ones_like(u))
        value, derivative = np.zeros_like(u), np.zeros_like(u)
        for p in range(2, self.order + 1):
            value += base**p
            derivative += p * base ** (p - 1)
        return value, derivative * slope

    def slope_bounds(self) -> tuple[float, float] | None:
        bounds = super().slope_bounds()
        if bounds is None or self.positive:
            return bounds
        # Odd orders are not convex; the slope at the right end bounds the others by size.
        return -bounds[1], bounds[1]

    @property
    def _side(self) -> str:
        return " above their mean" if self.positive else ""
