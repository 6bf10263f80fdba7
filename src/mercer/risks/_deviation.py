"""Risks of the form loss + weight * deviation from the mean loss."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from mercer._validation import Check, or_none, parameters, positive, real
from mercer.risks._base import Array, Outer, Risk
from mercer.risks._formulas import check_smoothing, positive_part
from mercer.risks._tracker import Tracker

__all__ = ["DeviationRisk", "UpperSemideviation", "flag"]


def flag(why: str) -> Check:
    """Return the check for True or False."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False, got {value!r}. {why}")

    return check


class DeviationRisk(Risk):
    r"""Base of the risks that add a deviation of the loss from its mean.

    .. math:: \phi(l, g) = l + \eta S\, d(z / S), \qquad z = l - g, \quad g = E[l]

    with the weight :math:`\eta` and the scale :math:`S` of the loss. The slope of a row's loss is
    weighted by :math:`a = 1 + \eta d'(z/S)`, that of the inner sample by :math:`b = 1 - a`. A
    subclass gives :math:`d` and :math:`d'` in :meth:`deviation`.

    Two safeguards keep the weights within reason, because polynomials of the loss otherwise make
    a run explode. Beyond ``max_deviation`` the deviation goes on along its tangent, which bounds
    the weights; with ``clamp`` a negative :math:`a`, which would push f *away* from rows with a
    small loss, becomes 0 before :math:`b` is taken from it. Neither makes such a risk monotone: a
    row's total weight is :math:`a + E[b]`.

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
            By default the slopes at both ends, which is right for convex deviations; None if
            there is no bound.
        """
        if self.max_deviation is None:
            return None
        reach = float(self.max_deviation)
        low, high = self.deviation(np.array([-reach, reach]))[1]
        return float(low), float(high)

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        """See :class:`Risk`."""
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

    _parameters = parameters(
        **Risk._parameters,
        weight=real(low=0, why="Below 0 the deviation would be rewarded; 0 leaves the mean."),
        max_deviation=or_none(
            positive("It is in units of the loss scale; write max_deviation=None for no bound.")
        ),
        clamp=flag("It says whether negative weights become 0."),
    )


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
        """See :class:`DeviationRisk`: the positive part."""
        return positive_part(u, self.smoothing)

    def slope_bounds(self) -> tuple[float, float]:
        """See :class:`DeviationRisk`."""
        return 0.0, 1.0

    def describe(self) -> str:
        """One line for reports."""
        return f"mean plus {self.weight:g} times the mean excess of the losses over their mean"
