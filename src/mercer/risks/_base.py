"""What all risks share: the interface of the compositional objective, units and sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._component import Component
from mercer._validation import check_real, or_none, parameters, positive
from mercer.risks._tracker import Tracker, as_tracker

__all__ = ["Array", "Inner", "Outer", "Risk"]

Array = NDArray[np.float64]


class Inner(NamedTuple):
    """The inner map of each row.

    Attributes
    ----------
    value : ndarray of shape (n, m)
        h, whose expectation is g.
    derivative : ndarray of shape (n, m, n_outputs)
        Derivative of h in the values of the function at the row.
    """

    value: Array
    derivative: Array


class Outer(NamedTuple):
    """The outer function of each row, and its partial derivatives.

    Attributes
    ----------
    value : ndarray of shape (n,)
        phi.
    by_loss : ndarray of shape (n,)
        Derivative in the loss of the row: the weight of the row's own slope.
    by_inner : ndarray of shape (n, m)
        Derivative in g.
    by_scalars : ndarray of shape (n, k)
        Derivative in the extra scalars v.
    clamped : ndarray of bool of shape (n,)
        Where a safeguard changed the weights of the row.
    """

    value: Array
    by_loss: Array
    by_inner: Array
    by_scalars: Array
    clamped: NDArray[np.bool_]


def _check_units(name: str, value: Any) -> None:
    if isinstance(value, str) or value is None:
        if value != "running":
            raise ValueError(
                f"`{name}` must be 'running' or a positive number, got {value!r}. Write "
                "units=1.0 for formulas in the units of the loss itself."
            )
    else:
        check_real(name, value, low=0, open_low=True, why="It is a scale of losses.")


class Risk(Component, ABC):
    r"""Base of all risks; subclass it to state a compositional objective of your own.

    A risk replaces the mean loss by

    .. math:: R(f) = E_\theta\big[\phi(l_\theta(f), g, v)\big], \qquad g = E_\xi[h_\xi(f)],

    with the loss :math:`l` of a row, expectations :math:`g` that the learner tracks, and scalars
    :math:`v` that it moves along with f. To add an objective:

    1. Set ``n_inner`` to the length of :math:`g`, and define :meth:`inner` unless
       :math:`h` is the loss itself.
    2. Set ``n_scalars`` to the length of :math:`v`, and define :meth:`start` and
       :meth:`scalar_steps`, unless there are none.
    3. Define :meth:`outer`: :math:`\phi` and its partial derivatives, for all rows at once.
       ``unit`` is the scale of the loss: what is not free of units (a weight of a squared loss, a
       smoothing, a step) must be multiplied by the power of it that makes
       :math:`\phi(cl, cg, cv; c\,\text{unit}) = c\,\phi(l, g, v; \text{unit})`.
    4. If weights have no bound, as below, take a ``clip``: a row far out may make a step of any
       size. Declare ``largest_weight``, ``monotone`` and ``inner_range`` where they are better than
       the cautious values here: automatic step sizes and trackers use them.

    Parameters go into ``__init__`` unchanged and are checked in ``_check``, which should call
    ``super()._check()``. Sums and positive multiples of risks are risks: see :class:`Mixture`.

    Attributes
    ----------
    n_inner : int
        Length m of g; 0 if there is no inner expectation, so that one sample is enough.
    n_scalars : int
        Length k of v.
    largest_weight : float or None
        Bound on the factor by which the slope of a row's loss is multiplied, whether
        :math:`|\partial\phi/\partial l|` alone or together with the expectation of the outer slope
        in g; None if there is none.
    monotone : bool
        Whether a larger loss is never rewarded, whatever the distribution of the losses.
    inner_range : tuple of float
        Range of g where the loss is never negative.
    units : "running" or float
        Scale of the loss: a running mean that the learner keeps, or a fixed positive number; 1.0
        gives the raw formulas of the papers.
    clip : float or None
        Largest multiple of a slope that enters the function, in units of the slope of the loss;
        both terms of a row are scaled by one factor. None: no limit.
    tracker : Tracker or str
        How g is tracked; without meaning if ``n_inner`` is 0.

    See Also
    --------
    DeviationRisk : the shorter way to risks of the form loss + weight * deviation.

    References
    ----------
    COLK, eq. (1)-(2); with the loss of the row in the outer function, which eq. (9)-(11) need.

    Examples
    --------
    The mean plus a multiple of the standard deviation, :math:`\sqrt{E[l^2] - E[l]^2}`, has two
    inner expectations:

    >>> import numpy as np
    >>> from mercer.risks import Inner, Outer, Risk
    >>> class StandardDeviation(Risk):
    ...     n_inner = 2
    ...     inner_range = (0.0, np.inf)
    ...     def __init__(self, weight=0.5, clip=None):
    ...         self.weight, self.clip = weight, clip
    ...     def inner(self, targets, values, losses, slopes):
    ...         h = np.stack([losses, losses**2], axis=1)
    ...         dh = np.stack([slopes, 2 * losses[:, None] * slopes], axis=1)
    ...         return Inner(h, dh)
    ...     def outer(self, losses, inner, scalars, unit):
    ...         n = len(losses)
    ...         sd = np.sqrt(max(inner[1] - inner[0] ** 2, (1e-3 * unit) ** 2))
    ...         by_inner = self.weight / sd * np.array([-inner[0], 0.5])
    ...         return Outer(losses + self.weight * sd, np.ones(n), np.tile(by_inner, (n, 1)),
    ...                      np.empty((n, 0)), np.zeros(n, bool))
    >>> risk = StandardDeviation()
    >>> losses = np.array([1.0, 3.0])
    >>> g = risk.inner(None, None, losses, np.ones((2, 1))).value.mean(axis=0)
    >>> risk.outer(losses, g, risk.start(losses), unit=2.0).value.mean().item()
    2.5
    """

    n_inner: int = 0
    n_scalars: int = 0
    largest_weight: float | None = None
    monotone: bool = False
    inner_range: tuple[float, float] = (-math.inf, math.inf)
    units: float | str = "running"
    clip: float | None = None
    tracker: Tracker | str = "momentum"

    @property
    def tracking(self) -> Tracker | None:
        """The tracker; None if there is no inner expectation to follow."""
        return as_tracker(self.tracker) if self.n_inner else None

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """What the scalars are called in the history of a model."""
        return tuple(f"scalar_{i}" for i in range(self.n_scalars))

    _parameters = parameters(
        units=_check_units,
        clip=or_none(positive("With a clip of 0 nothing is learned; write clip=None for none.")),
        tracker=lambda name, value: as_tracker(value),
    )

    def inner(self, targets: Array, values: Array, losses: Array, slopes: Array) -> Inner:
        """Inner map of each row, by default its loss.

        Parameters
        ----------
        targets : ndarray of shape (n, target width)
            Encoded targets.
        values : ndarray of shape (n, n_outputs)
            The function at the rows.
        losses : ndarray of shape (n,)
            Loss of each row.
        slopes : ndarray of shape (n, n_outputs)
            Derivative of each loss in the values.

        Returns
        -------
        inner : Inner
            With m = ``n_inner`` columns.

        Raises
        ------
        NotImplementedError
            If the risk has more than one inner expectation and does not say which.
        """
        if self.n_inner > 1:
            raise NotImplementedError(
                f"{type(self).__name__} has n_inner = {self.n_inner}, but the loss is one number "
                f"a row. Define inner(targets, values, losses, slopes) with {self.n_inner} columns."
            )
        return Inner(losses[:, None][:, : self.n_inner], slopes[:, None, :][:, : self.n_inner])

    @abstractmethod
    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        """Outer function of each row and its partial derivatives.

        Parameters
        ----------
        losses : ndarray of shape (n,)
            Loss of each row.
        inner : ndarray of shape (m,)
            g of now.
        scalars : ndarray of shape (k,)
            v of now.
        unit : float
            Scale of the loss, above 0, in its units.

        Returns
        -------
        outer : Outer
        """

    def start(self, losses: Array) -> Array:
        """First values of the scalars.

        Parameters
        ----------
        losses : ndarray of shape (n,)
            Losses of the first rows, at least one.

        Returns
        -------
        scalars : ndarray of shape (k,)

        Raises
        ------
        NotImplementedError
            If the risk has scalars and does not say where they start.
        """
        return self._no_scalars("start(losses)")

    def scalar_steps(self, unit: float) -> Array:
        """Step sizes of the scalars: v moves by -step * mean(by_scalars) in every step.

        Parameters
        ----------
        unit : float
            Scale of the loss, above 0, in its units.

        Returns
        -------
        steps : ndarray of shape (k,)

        Raises
        ------
        NotImplementedError
            If the risk has scalars and does not say how they move.
        """
        return self._no_scalars("scalar_steps(unit)")

    def _no_scalars(self, missing: str) -> Array:
        if self.n_scalars:
            raise NotImplementedError(
                f"{type(self).__name__} has n_scalars = {self.n_scalars}. Define {missing}."
            )
        return np.empty(0)

    def describe(self) -> str:
        """One line for reports: what is minimised."""
        return repr(self)

    def __add__(self, other: Any) -> Risk:
        from mercer.risks._mixture import added

        return added(self, other) if isinstance(other, Risk) else NotImplemented

    def __mul__(self, other: Any) -> Risk:
        from mercer.risks._mixture import scaled

        number = isinstance(other, Real) and not isinstance(other, bool)
        return scaled(self, float(other)) if number else NotImplemented

    __rmul__ = __mul__

    # NumPy scalars would otherwise make an object array of `np.float64(2) * risk`.
    __array_ufunc__ = None
