"""Risks that need no inner expectation: the mean, CVaR and the entropic risk."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from mercer.risks._base import Array, Outer, Risk, check_smoothing, positive_part
from mercer.validation import parameters, positive, real

_STEP = "It is the size of a step, in units of the scale that the scalar has."


class Mean(Risk):
    """The mean loss, which is what a learner without a risk minimises.

    Parameters
    ----------
    units : "running" or float, default="running"
        No effect, since the mean has the scale of the loss; accepted because all risks have it.

    Raises
    ------
    ValueError
        If ``units`` is neither.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import Mean
    >>> Mean().outer(np.array([1.0, 3.0]), np.empty(0), np.empty(0), unit=1.0).by_loss
    array([1., 1.])
    """

    largest_weight = 1.0
    monotone = True
    _summary = "mean of the losses"

    def __init__(self, *, units: float | str = "running") -> None:
        self.units = units
        self._check()

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        n = len(losses)
        return Outer(
            value=losses.copy(),
            by_loss=np.ones(n),
            by_inner=np.empty((n, 0)),
            by_scalars=np.empty((n, 0)),
            clamped=np.zeros(n, dtype=bool),
        )


# Values of phi, weights of the losses, and where they are bounded.
_Weighed = tuple[Array, Array, NDArray[np.bool_]]


class _CertaintyEquivalent(Risk):
    r"""Base class of the risks :math:`\min_v E[\phi(l, v)]`: one scalar, and nothing to track.

    The best v is where the weights :math:`\partial\phi / \partial l` are 1 in the mean.
    """

    n_scalars = 1
    monotone = True
    quantile_step: float
    #: Unit of v, in units of the loss.
    _scale: float = 1.0

    @abstractmethod
    def start(self, losses: Array) -> Array: ...

    @abstractmethod
    def _weighed(self, losses: Array, v: float, unit: float) -> _Weighed:
        """Values, weights and bounds of some rows, each of shape (n,)."""

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        value, weights, clamped = self._weighed(losses, scalars[0], unit)
        by_scalars = (1.0 - weights)[:, None]
        return Outer(value, weights, np.empty((len(losses), 0)), by_scalars, clamped)

    def scalar_steps(self, unit: float) -> Array:
        return np.array([self.quantile_step * self._scale * unit])


class CVaR(_CertaintyEquivalent):
    r"""Conditional value at risk: the mean of the worst losses.

    .. math:: \mathrm{CVaR}_q = \min_v E[\phi], \qquad
        \phi(l, v) = v + \frac{S}{1-q}\, s\Big(\frac{l - v}{S}\Big)

    with a smoothed positive part :math:`s` and the scale :math:`S` of the loss. At the minimum the
    scalar :math:`v` is the q-quantile of the losses. Only a share of about :math:`1 - q` of the
    rows teaches, each with a weight of up to :math:`1 / (1 - q)`.

    Parameters
    ----------
    level : float, default=0.9
        q, in (0, 1): 0.9 for the mean of the worst 10 %.
    smoothing : float, default=0.1
        Width :math:`\tau` of the kink of :math:`s(u) = \tau\log(1 + e^{u/\tau})`, in units of S;
        0 leaves the kink.
    quantile_step : float, default=0.01
        Step size of :math:`v`, above 0, in units of S.
    clip : float or None, default=None
        Largest multiple of a slope that enters f; None: no limit. See :class:`Risk`.
    units : "running" or float, default="running"
        Scale S of the loss; 1.0 for the raw formula. See :class:`Risk`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Rockafellar and Uryasev (2000), "Optimization of conditional value-at-risk". COLK, Section II,
    mentions it with the semivariance.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import CVaR
    >>> risk, losses = CVaR(0.75, smoothing=0.0), np.array([1.0, 2.0, 3.0, 8.0])
    >>> risk.outer(losses, np.empty(0), np.array([3.0]), unit=1.0).value.mean().item()
    8.0
    >>> print(CVaR(0.9).describe())
    CVaR at level 0.9: the mean of the worst 10 % of the losses
    """

    scalar_names = ("value_at_risk",)

    _parameters = parameters(
        **Risk._parameters,
        level=real(
            low=0,
            high=1,
            open_low=True,
            open_high=True,
            why="It is the share of the losses that do not count; use Mean() to count them all.",
        ),
        smoothing=check_smoothing,
        quantile_step=positive(_STEP),
    )

    _summary = (
        "CVaR at level {risk.level:g}: the mean of the worst {risk._counted:g} % of the losses"
    )

    def __init__(
        self,
        level: float = 0.9,
        *,
        smoothing: float = 0.1,
        quantile_step: float = 0.01,
        clip: float | None = None,
        units: float | str = "running",
    ) -> None:
        self.level = level
        self.smoothing = smoothing
        self.quantile_step = quantile_step
        self.clip = clip
        self.units = units
        self._check()

    @property
    def largest_weight(self) -> float:  # type: ignore[override]
        """1 / (1 - level)."""
        return 1.0 / (1.0 - float(self.level))

    @property
    def _counted(self) -> float:
        """Share of the losses that count, in percent."""
        return 100.0 * (1.0 - self.level)

    def _weighed(self, losses: Array, v: float, unit: float) -> _Weighed:
        excess, slope = positive_part((losses - v) / unit, self.smoothing)
        value = v + unit * excess / (1.0 - self.level)
        return value, slope / (1.0 - self.level), np.zeros(len(losses), dtype=bool)

    def start(self, losses: Array) -> Array:
        """Return the quantile of the first losses."""
        return np.array([np.quantile(losses, self.level)])


class Entropic(_CertaintyEquivalent):
    r"""Entropic risk :math:`\rho \log E[e^{l/\rho}]`, the exponential mean of the losses.

    .. math:: \rho \log E[e^{l/\rho}] = \min_v E[\phi], \qquad
        \phi(l, v) = v + \rho\big(e^{(l - v)/\rho} - 1\big), \qquad \rho = T S

    with the scale :math:`S` of the loss; at the minimum :math:`v` is the risk itself. In this form
    one sample per step is enough and nothing has to be tracked. It lies between the mean (:math:`T
    \to \infty`) and the largest loss (:math:`T \to 0`).

    Parameters
    ----------
    temperature : float, default=1.0
        T, above 0: :math:`\rho` in units of S.
    quantile_step : float, default=0.01
        Step size of :math:`v`, above 0, in units of :math:`\rho`: about the weight of the newest
        loss in :math:`v`.
    max_weight : float, default=20.0
        Largest weight of a row, above 1: beyond it the exponential continues along its tangent, so
        that a large loss neither overflows nor makes f jump. It makes the risk lower than with the
        exponential.
    clip : float or None, default=None
        Largest multiple of a slope that enters f; None: no limit. See :class:`Risk`.
    units : "running" or float, default="running"
        Scale S of the loss; 1.0 for the raw formula. See :class:`Risk`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Ben-Tal and Teboulle (2007), "An old-new concept of convex risk measures: the optimized
    certainty equivalent".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.risks import Entropic
    >>> losses = np.array([0.0, 1.0])
    >>> v = np.log(np.exp(losses).mean(keepdims=True))
    >>> outer = Entropic().outer(losses, np.empty(0), v, unit=1.0)
    >>> bool(outer.value.mean().round(4) == v[0].round(4)), outer.by_loss.round(3)
    (True, array([0.538, 1.462]))
    """

    scalar_names = ("certainty_equivalent",)

    _parameters = parameters(
        **Risk._parameters,
        temperature=positive("It is a scale."),
        quantile_step=positive(_STEP),
        max_weight=real(low=1, open_low=True, why="The weights of the rows are 1 in the mean."),
    )

    _summary = (
        "entropic risk at temperature {risk.temperature:g}: the exponential mean of the losses"
    )

    def __init__(
        self,
        temperature: float = 1.0,
        *,
        quantile_step: float = 0.01,
        max_weight: float = 20.0,
        clip: float | None = None,
        units: float | str = "running",
    ) -> None:
        self.temperature = temperature
        self.quantile_step = quantile_step
        self.max_weight = max_weight
        self.clip = clip
        self.units = units
        self._check()

    @property
    def largest_weight(self) -> float:  # type: ignore[override]
        """The parameter ``max_weight``."""
        return float(self.max_weight)

    @property
    def _scale(self) -> float:  # type: ignore[override]
        return self.temperature

    def _weighed(self, losses: Array, v: float, unit: float) -> _Weighed:
        rho = self.temperature * unit
        exponent = (losses - v) / rho
        largest = math.log(self.max_weight)
        near = np.minimum(exponent, largest)
        weights = np.exp(near)
        value = v + rho * (weights * (1.0 + exponent - near) - 1.0)
        return value, weights, exponent > largest

    def start(self, losses: Array) -> Array:
        """Return the mean of the first losses, which is never above the risk."""
        return np.array([np.mean(losses)])
