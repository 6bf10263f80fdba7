"""Risks that add moments of the losses about their mean: variances and higher ones."""

from __future__ import annotations

import numpy as np

from mercer._validation import integer, parameters
from mercer.risks._base import Array
from mercer.risks._deviation import DeviationRisk, flag
from mercer.risks._formulas import check_smoothing, positive_part
from mercer.risks._tracker import Tracker

__all__ = ["CentralMoments", "Semivariance", "Variance"]


class Variance(DeviationRisk):
    r"""Mean plus a multiple of the variance: :math:`\phi = l + \eta z^2 / S`, :math:`z = l - E[l]`.

    Rows with a loss far below the mean get a negative weight, hence ``clamp``.
    :class:`Semivariance` and :class:`UpperSemideviation` have no such rows.

    Parameters
    ----------
    weight : float, default=0.5
        :math:`\eta`, at least 0.
    max_deviation : float or None, default=10.0
        :math:`|z|` beyond which the square goes on along its tangent, in units of S; None for the
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
        """See :class:`DeviationRisk`: the square."""
        return u**2, 2.0 * u

    def describe(self) -> str:
        """One line for reports."""
        return f"mean plus {self.weight:g} times the variance of the losses"


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
        """See :class:`DeviationRisk`: the square of the positive part."""
        s, ds = positive_part(u, self.smoothing)
        return s**2, 2.0 * s * ds

    def describe(self) -> str:
        """One line for reports."""
        return f"mean plus {self.weight:g} times the variance of the losses above their mean"


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
        positive=flag("It says whether only losses above the mean count."),
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
        """See :class:`DeviationRisk`: the sum of the powers."""
        base, slope = positive_part(u, self.smoothing) if self.positive else (u, np.ones_like(u))
        value, derivative = np.zeros_like(u), np.zeros_like(u)
        for p in range(2, self.order + 1):
            value += base**p
            derivative += p * base ** (p - 1)
        return value, derivative * slope

    def slope_bounds(self) -> tuple[float, float] | None:
        """See :class:`DeviationRisk`."""
        bounds = super().slope_bounds()
        if bounds is None or self.positive:
            return bounds
        # Odd orders are not convex; the slope at the right end bounds the others by size.
        return -bounds[1], bounds[1]

    def describe(self) -> str:
        """One line for reports."""
        side = " above their mean" if self.positive else ""
        return (
            f"mean plus {self.weight:g} times the central moments 2 to {self.order} of the losses"
            f"{side}"
        )
