"""Step sizes: any function of the step number t = 1, 2, ... will do; these are the usual ones.

A schedule is any function, such as ``lambda t: 0.5 / t``. The parameter objects here can also be
stored in model files and tuned by a grid search.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

from mercer.component import Component, own_copy
from mercer.validation import check_real, or_none, parameters, positive, real

__all__ = ["Constant", "InverseTime", "PowerDecay", "Relative", "Schedule", "as_schedule"]

_WHY = "A step of 0 learns nothing, and one below 0 moves away from the solution."


class Schedule(Component, ABC):
    """A positive number that depends on the step number."""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """Value at step ``t`` = 1, 2, ...; the first step is 1."""


class Constant(Schedule):
    r"""A constant step size, :math:`\eta_t = c`.

    Parameters
    ----------
    value : float
        The value :math:`c`, above 0.

    Raises
    ------
    ValueError
        If ``value`` is not positive.

    References
    ----------
    POLK, Theorem 2.

    Examples
    --------
    >>> from mercer.schedules import Constant
    >>> Constant(0.5)(10)
    0.5
    """

    _parameters = parameters(value=positive(_WHY))

    def __init__(self, value: float) -> None:
        self.value = value
        self._check()

    def __call__(self, t: int) -> float:
        """Value at step ``t`` = 1, 2, ..."""
        return float(self.value)


class PowerDecay(Schedule):
    r"""Decay by a power of the step number, :math:`\eta_t = s t^{-p}`.

    Parameters
    ----------
    scale : float
        The first value :math:`s`, above 0.
    power : float, default=0.5
        Exponent :math:`p`, at least 0. For exponents in (0.5, 1] the squared steps are summable and
        the steps are not, the classical condition of stochastic approximation.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    Ying and Zhou, Theorem 2, for unregularised learning; POLK, Theorem 1.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay
    >>> PowerDecay(2.0)(4)
    1.0
    """

    _parameters = parameters(
        scale=positive(_WHY),
        power=real(low=0, why="Below 0 the steps would grow for ever."),
    )

    def __init__(self, scale: float, power: float = 0.5) -> None:
        self.scale = scale
        self.power = power
        self._check()

    def __call__(self, t: int) -> float:
        """Value at step ``t`` = 1, 2, ..."""
        return float(self.scale) * math.pow(t, -float(self.power))


class InverseTime(Schedule):
    r"""Nearly constant at first, then like 1 / t: :math:`\eta_t = s / (1 + t / t_0)`.

    The rule :math:`1 / (\lambda (t + t_0))` of strongly convex objectives, with a ridge
    :math:`\lambda`, is ``InverseTime(scale=1 / (regularization * offset), offset=offset)``.

    Parameters
    ----------
    scale : float
        The value :math:`s` that the first steps are close to, above 0.
    offset : float
        Number of steps :math:`t_0`, above 0, after which the value is half of ``scale``.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    DSG, Theorem 4, has theta / t, whose first step is far too large in practice; the offset mends
    that and leaves the rate as it is.

    Examples
    --------
    >>> from mercer.schedules import InverseTime
    >>> InverseTime(0.5, offset=100)(100)
    0.25
    """

    _parameters = parameters(
        scale=positive(_WHY),
        offset=positive("It is the number of steps after which the value has halved."),
    )

    def __init__(self, scale: float, offset: float) -> None:
        self.scale = scale
        self.offset = offset
        self._check()

    def __call__(self, t: int) -> float:
        """Value at step ``t`` = 1, 2, ..."""
        return float(self.scale) / (1 + float(t) / float(self.offset))


def _not_relative(name: str, value: Any) -> None:
    if isinstance(value, Relative):
        raise ValueError(
            f"`{name}` is relative itself: {value!r}. Steps in units of a unit have "
            "no meaning. Leave one `Relative` out."
        )
    as_schedule(value)


class Relative(Schedule):
    r"""Another schedule, in units of :math:`1 / (L \kappa^2)`: :math:`\eta_t = s_t / (L \kappa^2)`.

    L is how fast the slopes of the loss change, and :math:`\kappa^2` is the size of the kernel, so
    one schedule fits all losses, kernels and scales of the inputs. Estimators fill in the unit
    after the first rows:

    - L is the loss's ``hoelder_constant`` if it has one, else its ``curvature``, or 1 if its slopes
      are bounded but their change is not.
    - :math:`\kappa^2` is the largest k(x, x). For unbounded kernels it is the 95 % quantile of k(x,
      x) over a sample of the rows: the largest values would make all steps far too small.

    Parameters
    ----------
    schedule : float, Schedule or callable
        Step sizes in this unit.
    unit : float or None, default=None
        The unit itself, above 0; None leaves it to the estimator.

    Raises
    ------
    ValueError
        If a parameter is outside its range; when called, if the unit is not known yet.

    References
    ----------
    Ying and Zhou, Theorem 3, whose constants are of this form.

    Examples
    --------
    >>> from mercer.schedules import PowerDecay, Relative
    >>> steps = Relative(PowerDecay(4.0)).resolved(0.5)
    >>> steps(4)
    1.0
    """

    _parameters = parameters(schedule=_not_relative, unit=or_none(positive(_WHY)))

    def __init__(self, schedule: float | Callable[[int], float], unit: float | None = None) -> None:
        self.schedule = schedule
        self.unit = unit
        self._check()

    def resolved(self, unit: float) -> Relative:
        r"""Return this schedule with its unit filled in; one that has a unit keeps it.

        Parameters
        ----------
        unit : float
            :math:`1 / (L \kappa^2)`, above 0.

        Raises
        ------
        ValueError
            If ``unit`` is not positive.
        """
        return Relative(own_copy(self.schedule), unit if self.unit is None else self.unit)

    def __call__(self, t: int) -> float:
        """Value at step ``t`` = 1, 2, ..."""
        if self.unit is None:
            raise ValueError(
                f"{self!r} has no unit yet, so it gives no step sizes. Estimators that take "
                "relative steps fill it in from the first rows; elsewhere use "
                "`.resolved(unit)` with 1 / (L * largest k(x, x)), or the schedule inside it."
            )
        return float(self.unit) * float(as_schedule(self.schedule)(t))


def as_schedule(value: Any) -> Callable[[int], float]:
    """Turn a number, a schedule or a function into a schedule.

    Parameters
    ----------
    value : float, Schedule or callable
        A number is the same at every step. A schedule or a function of the step number is returned
        as it is.

    Returns
    -------
    schedule : callable
        Function of the step number t = 1, 2, ...

    Raises
    ------
    ValueError
        If ``value`` is of another kind, or a number that is not positive.

    Examples
    --------
    >>> from mercer.schedules import as_schedule
    >>> as_schedule(0.5)
    Constant(value=0.5)
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        return Constant(check_real("value", value, low=0.0, open_low=True, why=_WHY))
    if isinstance(value, type) and issubclass(value, Schedule):
        raise ValueError(
            f"A schedule must be an object, got the class {value.__name__} itself. Write "
            f"{value.__name__}(...) with its parameters in the brackets."
        )
    if callable(value):
        schedule: Callable[[int], float] = value
        return schedule
    raise ValueError(
        "A schedule must be a positive number, one of Constant, PowerDecay, InverseTime and "
        f"Relative, or a function of the step number t = 1, 2, ..., got {value!r}."
    )
