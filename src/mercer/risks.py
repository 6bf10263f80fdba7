"""Risks: what is minimised in place of the mean loss.

A risk defines how the losses of single rows are combined into an objective. It works with any loss
and any expansion.

- :class:`CVaR`, :class:`UpperSemideviation` and :class:`Entropic` control the tail: they pay for
  rare large losses. They never reward a larger loss.
- :class:`Variance`, :class:`Semivariance` and :class:`CentralMoments` penalise the spread of the
  losses. They are not monotone, and need their safeguards.

Risk-averse is the *opposite* of robust. A risk follows exactly the rows that an outlier spoils:
for bad labels use :class:`~mercer.losses.Huber` or :class:`~mercer.losses.AbsoluteError` instead.

Every quantity with a scale is in units of the loss (``units``), so that a risk means the same
whatever unit the targets are measured in.

A risk of your own: see :class:`Risk`.

Examples
--------
>>> from mercer.risks import CVaR, Mean, as_risk
>>> as_risk("cvar:0.95")
CVaR(level=0.95)
>>> print((0.5 * CVaR(0.9) + 0.5 * Mean()).describe())
0.5 times: CVaR at level 0.9: the mean of the worst 10 % of the losses; plus 0.5 times: mean of
the losses
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numba import types
from numpy.typing import NDArray

from mercer.component import Component
from mercer.exceptions import Advice, InPython, ParameterError
from mercer.jit import c_function, jit
from mercer.numerics.risks import CompiledRisk, new_weighed, outer_of_rows
from mercer.validation import (
    Check,
    check_real,
    choice,
    integer,
    or_none,
    parameters,
    positive,
    real,
)

__all__ = [
    "RISKS",
    "CVaR",
    "CentralMoments",
    "DeviationRisk",
    "Entropic",
    "Inner",
    "Mean",
    "Mixture",
    "Outer",
    "Risk",
    "Semivariance",
    "Tracker",
    "UpperSemideviation",
    "Variance",
    "as_risk",
    "as_tracker",
]

_RULES = ("momentum", "scgd", "nasa")
_PAIRS = ("tracked", "stream", "reservoir")
_SHARE = real(
    low=0, high=1, open_low=True, why="It is the share of the newest sample in a running mean."
)

Array = NDArray[np.float64]

_c: Any = types  # numba is only partly typed
_ROW = _c.void(*[_c.CPointer(_c.float64)] * 6)


@functools.cache
def _compile(row: Callable[..., None]) -> Any:
    # Functions typed at a prompt have no file beside which numba could keep a cache.
    cache = row.__module__.startswith("mercer.")
    return c_function(_ROW, cache=cache, error_model="numpy")(row)


class Tracker(Component):
    r"""Follow :math:`g = E[h_\xi(f)]`, an expectation of a function that every step changes.

    One sample in place of :math:`g` would bias every slope (for the variance it would make the
    risk vanish), so a running value :math:`g_t` is kept.

    Parameters
    ----------
    rule : {"momentum", "scgd", "nasa"}, default="momentum"
        - ``"momentum"``: :math:`g_{t+1} = (1-\beta)(g_t - h_\xi(f_{t-1})) + h_\xi(f_t)`. Corrects
          for the last step's change of f, so it also needs f before that step.
        - ``"scgd"``: :math:`g_{t+1} = (1-\beta) g_t + \beta h_\xi(f_t)`. Lags behind f, but does
          not add the noise of differences: better for heavy-tailed losses, and for steps much above
          ``rate``.
        - ``"nasa"``: ``"scgd"`` with an averaged direction of f, whose slopes are taken at
          :math:`g_t`, not :math:`g_{t+1}`; all on one time scale.
    rate : float, default=0.1
        :math:`\beta` in (0, 1]: the weight of the newest sample. At least half of the step size is
        advisable.
    pairs : {"tracked", "stream", "reservoir"}, default="tracked"
        Where the two independent samples of a step come from.

        - ``"tracked"``: every row is both, and the expectation of the outer slope is tracked as
          the inner one is; a step of one row is enough.
        - ``"stream"``: rows of the stream are outer and inner sample in turn. ``fit`` visits each
          row twice a pass, once as either, in two independent orders.
        - ``"reservoir"``: the inner sample is drawn from earlier rows. ``history_`` counts both
          rows of a pair, ``n_samples_seen_`` the new one.
    direction_rate : float, default=0.1
        :math:`\rho` in (0, 1]: weight of the newest direction in the average of ``"nasa"``; the
        other rules do not use it.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    COLK, eq. (20) for ``"momentum"``, eq. (19) for ``"scgd"``, Algorithm 1 for ``"stream"``.
    Ghadimi, Ruszczynski and Wang (2020), "A single timescale stochastic approximation method for
    nested stochastic optimization", for ``"nasa"``.

    Examples
    --------
    >>> from mercer.risks import Semivariance, Tracker
    >>> Semivariance(tracker=Tracker("scgd", rate=0.05)).tracker
    Tracker(rate=0.05, rule='scgd')
    """

    _parameters = parameters(
        rule=choice(*_RULES),
        pairs=choice(*_PAIRS),
        rate=_SHARE,
        direction_rate=_SHARE,
    )

    def __init__(
        self,
        rule: str = "momentum",
        *,
        rate: float = 0.1,
        pairs: str = "tracked",
        direction_rate: float = 0.1,
    ) -> None:
        self.rule = rule
        self.rate = rate
        self.pairs = pairs
        self.direction_rate = direction_rate
        self._check()


def as_tracker(value: Any) -> Tracker:
    """Turn a tracker or the name of a rule into a tracker.

    Parameters
    ----------
    value : Tracker or {"momentum", "scgd", "nasa"}
        A tracker is returned as it is; a name stands for that rule with default rates.

    Returns
    -------
    tracker : Tracker

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> as_tracker("scgd")
    Tracker(rule='scgd')
    """
    if isinstance(value, Tracker):
        return value
    if isinstance(value, str) and value in _RULES:
        return Tracker(value)
    listed = ", ".join(repr(rule) for rule in _RULES)
    raise ValueError(
        f"`tracker` must be one of {listed} or a Tracker, got {value!r}. Write for example "
        "Tracker('scgd', rate=0.05) for a rate of your own."
    )


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

    1. Set ``n_inner`` to the length of :math:`g`, and define :meth:`inner` unless :math:`h` is the
       loss itself.
    2. Set ``n_scalars`` to the length of :math:`v`; if it is not 0, define :meth:`start` and
       :meth:`scalar_steps`.
    3. Define :meth:`outer`: :math:`\phi` and its partial derivatives, for all rows at once.
       ``unit`` is the scale of the loss: numbers with a unit (a weight of a squared loss, a
       smoothing, a step) must be multiplied by the power of it that makes :math:`\phi(cl, cg, cv;
       c\,\text{unit}) = c\,\phi(l, g, v; \text{unit})`. Or define ``row``, a static method that
       numba compiles, in place of :meth:`outer` and :meth:`scalar_steps`: ``row(loss, inner,
       scalars, unit, out, parameters)`` reads ``loss[0]``, g, v, ``unit[0]`` and the numbers of
       ``row_parameters()``, and writes one after the other :math:`\phi`, its derivative in the
       loss, 1 or 0 for whether a safeguard changed it, its derivatives in g and in v, and the
       step sizes of v. Steps on kernel expansions then run in a compiled loop, as with the risks
       of mercer, unless :math:`h` is not the loss.
    4. If weights have no bound, as below, take a ``clip``: an outlying row may otherwise make a
       step of any size. Declare ``largest_weight``, ``monotone`` and ``inner_range`` if they are
       better than the cautious values here: automatic step sizes and trackers use them.

    Parameters go into ``__init__`` unchanged and are checked in ``_check``, which should call
    ``super()._check()``. Sums and positive multiples of risks are risks: see :class:`Mixture`.

    Attributes
    ----------
    n_inner : int
        Length m of g; 0 without an inner expectation, so that one sample is enough.
    n_scalars : int
        Length k of v.
    largest_weight : float or None
        Bound on the factor by which the slope of a row's loss is multiplied, both for
        :math:`|\partial\phi/\partial l|` alone and together with the expectation of the outer slope
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
    #: Formula of one row, for compiled loops; see the description of the class.
    row: ClassVar[Callable[..., None] | None] = None
    #: Parameters whose numbers ``row`` reads, in its order.
    _row_numbers: ClassVar[tuple[str, ...]] = ()
    _row_is_current: ClassVar[bool] = False
    #: Text of :meth:`describe`, with the risk as ``{risk}``; its ``repr`` if empty.
    _summary: ClassVar[str] = ""

    _parameters = parameters(
        units=_check_units,
        clip=or_none(positive("With a clip of 0 nothing is learned; write clip=None for none.")),
        tracker=lambda name, value: as_tracker(value),
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Compiled loops must not run the inherited row of a risk whose subclass changed a formula.
        if "row" in vars(cls):
            cls._row_is_current = True
            if getattr(cls.outer, "__isabstractmethod__", False):
                cls.outer = Risk._outer_by_row  # type: ignore[method-assign]
        elif {"outer", "deviation", "scalar_steps"} & set(vars(cls)):
            cls._row_is_current = False

    def row_parameters(self) -> list[float]:
        """Numbers that ``row`` reads from its argument ``parameters``."""
        return [float(getattr(self, name)) for name in self._row_numbers]

    def compiled(self) -> CompiledRisk | None:
        """Address and numbers for compiled loops; None for risks given in NumPy only.

        Compiled at the first call, then kept on disk.
        """
        return self._compiled_row() if self._row_is_current else None

    def _compiled_row(self) -> CompiledRisk:
        numbers = np.array(self.row_parameters(), dtype=np.float64)
        return CompiledRisk(
            np.array([_compile(cast("Callable[..., None]", type(self).row)).address]),
            np.ones(1),
            np.full(1, np.nan),
            np.array([[self.n_inner, self.n_scalars, numbers.size]]),
            numbers,
        )

    @property
    def inner_is_loss(self) -> bool:
        """Whether each inner value is the loss of the row."""
        return type(self).inner is Risk.inner

    def _run_row(
        self, compiled: CompiledRisk, losses: Array, inner: Array, scalars: Array, unit: float
    ) -> tuple[Outer, Array]:
        """Return the outer function and the step sizes of the scalars, by compiled code."""
        losses, inner, scalars = (
            np.ascontiguousarray(numbers, dtype=np.float64) for numbers in (losses, inner, scalars)
        )
        weighed = new_weighed(losses.size, self.n_inner, self.n_scalars)
        steps = np.empty(self.n_scalars)
        outer_of_rows(compiled, losses, inner, scalars, float(unit), weighed, steps)
        return Outer(*weighed), steps

    @property
    def tracking(self) -> Tracker | None:
        """The tracker; None without an inner expectation to track."""
        return as_tracker(self.tracker) if self.n_inner else None

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """What the scalars are called in the history of a model."""
        return tuple(f"scalar_{i}" for i in range(self.n_scalars))

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
            Inner values, with m = ``n_inner`` columns.

        Raises
        ------
        NotImplementedError
            If the risk has more than one inner expectation and does not define this method.
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
            Present value of g.
        scalars : ndarray of shape (k,)
            Present value of v.
        unit : float
            Scale of the loss, above 0, in its units.

        Returns
        -------
        outer : Outer
        """

    def _outer_by_row(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        return self._run_row(self._compiled_row(), losses, inner, scalars, unit)[0]

    def start(self, losses: Array) -> Array:
        """First values of the scalars.

        Parameters
        ----------
        losses : ndarray of shape (n,)
            Losses of the first rows, one or more.

        Returns
        -------
        scalars : ndarray of shape (k,)

        Raises
        ------
        NotImplementedError
            If the risk has scalars and does not define this method.
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
            If the risk has scalars and does not define this method.
        """
        if self.row is None or not self.n_scalars:
            return self._no_scalars("scalar_steps(unit)")
        inner, scalars = np.zeros(self.n_inner), np.zeros(self.n_scalars)
        return self._run_row(self._compiled_row(), np.zeros(1), inner, scalars, unit)[1]

    def _no_scalars(self, missing: str) -> Array:
        if self.n_scalars:
            raise NotImplementedError(
                f"{type(self).__name__} has n_scalars = {self.n_scalars}. Define {missing}."
            )
        return np.empty(0)

    def describe(self) -> str:
        """One line for reports: what is minimised."""
        return self._summary.format(risk=self) if self._summary else repr(self)

    def __add__(self, other: Any) -> Risk:
        return _added(self, other) if isinstance(other, Risk) else NotImplemented

    def __mul__(self, other: Any) -> Risk:
        number = isinstance(other, Real) and not isinstance(other, bool)
        return _scaled(self, float(other)) if number else NotImplemented

    __rmul__ = __mul__

    # NumPy scalars would otherwise make an object array of `np.float64(2) * risk`.
    __array_ufunc__ = None


def _check_risks(name: str, value: Any) -> None:
    is_list = isinstance(value, list | tuple)
    if not is_list or not value or not all(isinstance(risk, Risk) for risk in value):
        raise ValueError(
            f"`{name}` must be a list of risks, at least one, got {value!r}. Write for "
            "example Mixture([Mean(), CVaR(0.9)]); as_risk makes a risk of a name."
        )


def _check_weights(mixture: Mixture) -> None:
    if mixture.weights is None:
        return
    if np.shape(mixture.weights) != (len(mixture.risks),):
        raise ValueError(
            f"`weights` must have one number for each of the {len(mixture.risks)} risk(s), "
            f"got {mixture.weights!r}. Write weights=None for equal ones."
        )
    for weight in mixture.weights:
        why = "A weight of 0 or below would ignore or reward a risk."
        check_real("weights", weight, low=0, open_low=True, why=why)


def _refuse_clips_of_parts(mixture: Mixture) -> None:
    for part in mixture.risks:
        if part.clip is not None:
            raise ValueError(
                f"A part of a mixture must have clip=None, got {part!r}: the limit is on what "
                "enters the function, which is one sum. Write Mixture(..., clip="
                f"{part.clip!r})."
            )


def _require_one_tracker(mixture: Mixture) -> None:
    trackers = [as_tracker(part.tracker) for part in mixture.risks if part.n_inner]
    for other in trackers[1:]:
        if other != trackers[0]:
            raise ValueError(
                f"The risks of a mixture must have the same tracker, got {trackers[0]!r} and "
                f"{other!r}. One pass over the stream can track in one way only."
            )


class Mixture(Risk):
    r"""Weighted sum of risks, :math:`\sum_i w_i R_i(f)`.

    The inner expectations and the scalars of the parts are kept side by side and share nothing.
    Mixtures can also be written with operators: ``0.5 * CVaR(0.9) + 0.5 * Mean()``.

    A part with a number as ``units`` keeps it; the other parts use the units of the mixture. All
    parts that track something must have the same ``tracker``.

    Parameters
    ----------
    risks : list of Risk
        One or more parts, without a ``clip``, which is for the sum only.
    weights : list of float or None, default=None
        Weights :math:`w_i`, above 0. None: equal ones that sum to 1.
    clip : float or None, default=None
        Largest multiple of a slope that enters f; None: no limit. See :class:`Risk`.
    units : "running" or float, default="running"
        Scale of the loss. See :class:`Risk`.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or trackers differ.

    Examples
    --------
    >>> from mercer.risks import CVaR, Mean
    >>> risk = 0.5 * CVaR(0.9) + 0.5 * Mean()
    >>> risk
    Mixture(risks=[CVaR(), Mean()], weights=[0.5, 0.5])
    >>> round(risk.largest_weight, 9)
    5.5
    """

    _parameters = parameters(risks=_check_risks, **Risk._parameters)
    _relations = (_check_weights, _refuse_clips_of_parts, _require_one_tracker)

    def __init__(
        self,
        risks: Sequence[Risk],
        weights: Sequence[float] | None = None,
        *,
        clip: float | None = None,
        units: float | str = "running",
    ) -> None:
        self.risks = risks
        self.weights = weights
        self.clip = clip
        self.units = units
        self._check()

    def __eq__(self, other: object) -> bool:
        # A tuple or an array comes back from a model file as a list or an array.
        if type(other) is not type(self):
            return NotImplemented
        return (
            list(self.risks) == list(other.risks)
            and self._weights() == other._weights()
            and (self.clip, self.units) == (other.clip, other.units)
        )

    __hash__ = None  # type: ignore[assignment]  # mutable by set_params

    def _weights(self) -> list[float]:
        if self.weights is None:
            return [1.0 / len(self.risks)] * len(self.risks)
        return [float(weight) for weight in self.weights]

    def _parts(self) -> Iterator[tuple[Risk, float, slice, slice]]:
        """Each part, its weight, and where its inner expectations and scalars stand."""
        m = k = 0
        for part, weight in zip(self.risks, self._weights(), strict=True):
            inner, scalars = slice(m, m + part.n_inner), slice(k, k + part.n_scalars)
            yield part, weight, inner, scalars
            m, k = inner.stop, scalars.stop

    @property
    def n_inner(self) -> int:  # type: ignore[override]
        """Sum over the parts."""
        return sum(part.n_inner for part in self.risks)

    @property
    def n_scalars(self) -> int:  # type: ignore[override]
        """Sum over the parts."""
        return sum(part.n_scalars for part in self.risks)

    @property
    def scalar_names(self) -> tuple[str, ...]:
        """Names from the parts; repeated names are numbered."""
        names: list[str] = []
        for name in (name for part in self.risks for name in part.scalar_names):
            again = names.count(name) + sum(other.startswith(f"{name}_") for other in names)
            names.append(f"{name}_{again + 1}" if again else name)
        return tuple(names)

    @property
    def largest_weight(self) -> float | None:  # type: ignore[override]
        """Weighted sum over the parts; None if one has none."""
        total = 0.0
        for part, weight, _, _ in self._parts():
            if part.largest_weight is None:
                return None
            total += weight * part.largest_weight
        return total

    @property
    def monotone(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.monotone for part in self.risks)

    @property
    def inner_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Smallest range that contains the ranges of all parts with inner expectations."""
        ranges = [part.inner_range for part in self.risks if part.n_inner]
        if not ranges:
            return -math.inf, math.inf
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    @property
    def tracker(self) -> Tracker | str:  # type: ignore[override]
        """The tracker that all parts with inner expectations have."""
        return next((part.tracker for part in self.risks if part.n_inner), "momentum")

    def inner(self, targets: Array, values: Array, losses: Array, slopes: Array) -> Inner:
        parts = [part.inner(targets, values, losses, slopes) for part in self.risks]
        return Inner(
            np.concatenate([part.value for part in parts], axis=1),
            np.concatenate([part.derivative for part in parts], axis=1),
        )

    def compiled(self) -> CompiledRisk | None:
        """Those of the parts, with their weights; None if one has none."""
        terms = [part.compiled() for part in self.risks] if type(self) is Mixture else [None]
        if any(term is None for term in terms):
            return None
        scaled = [
            term._replace(
                weights=weight * term.weights,
                units=np.where(np.isnan(term.units), _unit_of(part, math.nan), term.units),
            )
            for (part, weight, _, _), term in zip(self._parts(), terms, strict=True)
            if term is not None
        ]
        return CompiledRisk(*(np.concatenate(arrays) for arrays in zip(*scaled, strict=True)))

    @property
    def inner_is_loss(self) -> bool:
        """Whether all inner values are the loss of the row."""
        return type(self) is Mixture and all(part.inner_is_loss for part in self.risks)

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        compiled = self.compiled()
        if compiled is not None:
            return self._run_row(compiled, losses, inner, scalars, unit)[0]
        weights = self._weights()
        parts = [
            part.outer(losses, inner[where], scalars[which], _unit_of(part, unit))
            for part, _, where, which in self._parts()
        ]

        def joined(take: Callable[[Outer], Array]) -> Array:
            columns = [w * take(part) for w, part in zip(weights, parts, strict=True)]
            return np.concatenate(columns, axis=1)

        return Outer(
            value=joined(lambda part: part.value[:, None]).sum(axis=1),
            by_loss=joined(lambda part: part.by_loss[:, None]).sum(axis=1),
            by_inner=joined(lambda part: part.by_inner),
            by_scalars=joined(lambda part: part.by_scalars),
            clamped=np.any([part.clamped for part in parts], axis=0),
        )

    def start(self, losses: Array) -> Array:
        return np.concatenate([part.start(losses) for part in self.risks])

    def scalar_steps(self, unit: float) -> Array:
        """Return the parts' steps divided by their weights, so scalars move as they do alone."""
        return np.concatenate(
            [part.scalar_steps(_unit_of(part, unit)) / w for part, w, _, _ in self._parts()]
        )

    def describe(self) -> str:
        """One line for reports."""
        return "; plus ".join(
            f"{weight:g} times: {part.describe()}"
            for part, weight in zip(self.risks, self._weights(), strict=True)
        )


def _unit_of(part: Risk, unit: float) -> float:
    """Scale of the loss for a part: its own, if it has a number."""
    return unit if isinstance(part.units, str) else float(part.units)


def _added(left: Risk, right: Risk) -> Mixture:
    """Sum of two risks; sums of sums are flat.

    Raises
    ------
    ValueError
        As :class:`Mixture`.
    """
    risks, weights = zip(*_terms(left), *_terms(right), strict=True)
    return Mixture(list(risks), list(weights))


def _scaled(risk: Risk, factor: float) -> Mixture:
    """Multiple of a risk.

    Raises
    ------
    ValueError
        If the factor is not positive.
    """
    why = "A multiple of 0 leaves nothing to minimise, and one below 0 would maximise."
    check_real("factor", factor, low=0, open_low=True, why=why)
    risks, weights = zip(*_terms(risk), strict=True)
    return Mixture(list(risks), [factor * weight for weight in weights])


def _terms(risk: Any) -> list[tuple[Risk, float]]:
    # A mixture with its own clip or units is kept whole.
    if type(risk) is Mixture and risk.clip is None and risk.units == "running":
        return [(part, weight) for part, weight, _, _ in risk._parts()]
    return [(risk, 1.0)]


# Formulas below are those of numbers and of arrays alike: rows run them compiled.


def _positive_part(u: Any, smoothing: float) -> tuple[Any, Any]:
    if smoothing == 0.0:
        positive = np.maximum(u, 0.0)
        return positive, np.sign(positive)
    scaled = u / smoothing
    softplus = np.maximum(scaled, 0.0) + np.log1p(np.exp(-np.abs(scaled)))
    return smoothing * softplus, 1.0 / (1.0 + np.exp(-scaled))


_positive_part_of_row = jit(error_model="numpy")(_positive_part)


def positive_part(u: Array, smoothing: float) -> tuple[Array, Array]:
    r"""Positive part :math:`\max(u, 0)`, smoothed to a softplus, and its derivative.

    .. math:: s(u) = \tau \log(1 + e^{u/\tau}), \qquad s'(u) = \frac{1}{1 + e^{-u/\tau}}

    Parameters
    ----------
    u : ndarray of shape (n,)
        Numbers in units of the loss scale.
    smoothing : float
        :math:`\tau`, in the same units; 0 gives the positive part itself, with slope 0 at its
        kink.

    Returns
    -------
    value, slope : ndarray of shape (n,)

    References
    ----------
    COLK, Section II, after eq. (12), which calls it a softmax.

    Examples
    --------
    >>> positive_part(np.array([-1.0, 0.0, 2.0]), 0.0)
    (array([0., 0., 2.]), array([0., 0., 1.]))
    """
    # A loss that is NaN or overflows is for the learner to report.
    with np.errstate(over="ignore", invalid="ignore"):
        value, slope = _positive_part(u, smoothing)
    return value, slope


#: Check of the width of a smoothed kink.
check_smoothing = real(
    low=0, why="It is the width of a smoothed kink in units of the loss scale; 0 leaves the kink."
)


def _flag(why: str) -> Check:
    """Return the check for True or False."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False, got {value!r}. {why}")

    return check


def _near(u: Any, reach: float) -> tuple[Any, Any]:
    """Deviations, and where the deviation is computed: within its bound."""
    return u, np.minimum(np.maximum(u, -reach), reach)


def _with_deviation(
    losses: Any,
    unit: float,
    u: Any,
    near: Any,
    value: Any,
    slope: Any,
    weight: float,
    lowest: float,
) -> tuple[Any, Any, Any]:
    """phi, its derivative in the loss and whether a safeguard changed it.

    Beyond the bound, where u is not ``near``, the deviation continues along its tangent.
    """
    own = 1.0 + weight * slope
    phi = losses + weight * unit * (value + slope * (u - near))
    return phi, np.maximum(own, lowest), (near != u) | (own < lowest)


_near_of_row = jit(error_model="numpy")(_near)
_with_deviation_of_row = jit(error_model="numpy")(_with_deviation)


@jit(error_model="numpy")
def _write_deviation(loss, unit, u, near, value, slope, out, parameters):  # type: ignore[no-untyped-def]
    phi, by_loss, clamped = _with_deviation_of_row(
        loss[0], unit[0], u, near, value, slope, parameters[0], parameters[2]
    )
    out[0], out[1], out[2], out[3] = phi, by_loss, clamped, 1.0 - by_loss


def _square(u: Any) -> tuple[Any, Any]:
    return u * u, 2.0 * u


def _powers(base: Any, slope: Any, order: int) -> tuple[Any, Any]:
    """Sum of the powers from 2 on, and its derivative."""
    power, value, derivative = base * base, base * base, 2.0 * base
    for p in range(3, order + 1):
        derivative = derivative + p * power
        power = power * base
        value = value + power
    return value, derivative * slope


_square_of_row = jit(error_model="numpy")(_square)
_powers_of_row = jit(error_model="numpy")(_powers)


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
        reach = self._safeguards()[1]
        with np.errstate(all="ignore"):
            low, high = self.deviation(np.array([-reach, reach]))[1]
        return (float(low), float(high)) if np.isfinite([low, high]).all() else None

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        if self._row_is_current:
            return self._outer_by_row(losses, inner, scalars, unit)
        # An overflow is for the learner to report, which can name the step and the remedy.
        with np.errstate(over="ignore", invalid="ignore"):
            weight, reach, lowest = self._safeguards()
            u, near = _near((losses - inner[0]) / unit, reach)
            value, slope = self.deviation(near)
            value, by_loss, clamped = _with_deviation(
                losses, unit, u, near, value, slope, weight, lowest
            )
            none = np.empty((len(losses), 0))
            return Outer(value, by_loss, (1.0 - by_loss)[:, None], none, clamped)

    def _safeguards(self) -> tuple[float, float, float]:
        """Numbers of both safeguards: the weight, the largest deviation and the lowest a."""
        reach = math.inf if self.max_deviation is None else float(self.max_deviation)
        return float(self.weight), reach, 0.0 if self.clamp else -math.inf

    def row_parameters(self) -> list[float]:
        return [*self._safeguards(), *super().row_parameters()]

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

    _row_numbers = ("smoothing",)

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        u, near = _near_of_row((loss[0] - inner[0]) / unit[0], parameters[1])
        value, slope = _positive_part_of_row(near, parameters[3])
        _write_deviation(loss, unit, u, near, value, slope, out, parameters)


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
        return _square(u)

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        u, near = _near_of_row((loss[0] - inner[0]) / unit[0], parameters[1])
        value, slope = _square_of_row(near)
        _write_deviation(loss, unit, u, near, value, slope, out, parameters)


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
        return _powers(*positive_part(u, self.smoothing), 2)

    _row_numbers = ("smoothing",)

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        u, near = _near_of_row((loss[0] - inner[0]) / unit[0], parameters[1])
        positive, rising = _positive_part_of_row(near, parameters[3])
        value, slope = _powers_of_row(positive, rising, 2)
        _write_deviation(loss, unit, u, near, value, slope, out, parameters)


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
        base, slope = positive_part(u, self.smoothing) if self.positive else (u, 1.0)
        return _powers(base, slope, self.order)

    _row_numbers = ("order", "positive", "smoothing")

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        u, near = _near_of_row((loss[0] - inner[0]) / unit[0], parameters[1])
        base, rising = near, 1.0
        if parameters[4] != 0.0:
            base, rising = _positive_part_of_row(near, parameters[5])
        value, slope = _powers_of_row(base, rising, int(parameters[3]))
        _write_deviation(loss, unit, u, near, value, slope, out, parameters)

    def slope_bounds(self) -> tuple[float, float] | None:
        bounds = super().slope_bounds()
        if bounds is None or self.positive:
            return bounds
        # Odd orders are not convex; the slope at the right end bounds the others by size.
        return -bounds[1], bounds[1]

    @property
    def _side(self) -> str:
        return " above their mean" if self.positive else ""


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
    outer = Risk._outer_by_row

    def __init__(self, *, units: float | str = "running") -> None:
        self.units = units
        self._check()

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        out[0], out[1], out[2] = loss[0], 1.0, 0.0


@jit(error_model="numpy")
def _write_certainty_equivalent(out, phi, weight, clamped, step):  # type: ignore[no-untyped-def]
    out[0], out[1], out[2], out[3], out[4] = phi, weight, clamped, 1.0 - weight, step


class _CertaintyEquivalent(Risk):
    r"""Base class of the risks :math:`\min_v E[\phi(l, v)]`: one scalar, and nothing to track.

    The best v is where the weights :math:`\partial\phi / \partial l` are 1 in the mean.
    """

    n_scalars = 1
    monotone = True
    quantile_step: float
    outer = Risk._outer_by_row

    @abstractmethod
    def start(self, losses: Array) -> Array: ...


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

    _row_numbers = ("level", "smoothing", "quantile_step")

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        v, share = scalars[0], 1.0 - parameters[0]
        excess, slope = _positive_part_of_row((loss[0] - v) / unit[0], parameters[1])
        phi, step = v + unit[0] * excess / share, parameters[2] * unit[0]
        _write_certainty_equivalent(out, phi, slope / share, 0.0, step)

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

    _row_numbers = ("temperature", "max_weight", "quantile_step")

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):  # type: ignore[no-untyped-def]
        v, rho, largest = scalars[0], parameters[0] * unit[0], math.log(parameters[1])
        exponent = (loss[0] - v) / rho
        near = np.minimum(exponent, largest)
        weight = np.exp(near)
        phi = v + rho * (weight * (1.0 + exponent - near) - 1.0)
        _write_certainty_equivalent(out, phi, weight, exponent > largest, parameters[2] * rho)

    def start(self, losses: Array) -> Array:
        """Return the mean of the first losses, which is never above the risk."""
        return np.array([np.mean(losses)])


class RiskOfRows(NamedTuple):
    """A risk and its derivatives.

    Attributes
    ----------
    value : float
        The risk.
    slopes : ndarray of shape (n, n_outputs)
        Derivatives in the values of the function at the rows.
    by_scalars : ndarray of shape (k,)
        Derivatives in the scalars.
    inner : ndarray of shape (m,)
        The inner expectations g.
    clamped : float
        Share of the rows whose weights a safeguard changed.
    """

    value: float
    slopes: Array
    by_scalars: Array
    inner: Array
    clamped: float


def risk_of_rows(
    risk: Risk | None,
    targets: Array,
    values: Array,
    losses: Array,
    slopes: Array,
    share: Array,
    scalars: Array,
    unit: float,
) -> RiskOfRows:
    r"""Risk of the losses of some rows, :math:`\sum_i p_i \varphi(l_i, \sum_j p_j h_j, v)`.

    Parameters
    ----------
    risk : Risk or None
        None for the mean.
    targets : ndarray of shape (n, target width)
        Encoded targets.
    values : ndarray of shape (n, n_outputs)
        The function at the rows.
    losses : ndarray of shape (n,)
        Loss of each row.
    slopes : ndarray of shape (n, n_outputs)
        Derivatives of the losses in the values.
    share : ndarray of shape (n,)
        Weights p of the rows, which add up to 1.
    scalars : ndarray of shape (k,)
        The risk's own scalars v.
    unit : float
        Scale of the loss, above 0.

    Returns
    -------
    found : RiskOfRows

    References
    ----------
    COLK, eq. (1)-(2), with both expectations over the rows.

    Examples
    --------
    >>> from mercer.risks import UpperSemideviation
    >>> losses, ones = np.array([1.0, 3.0]), np.ones((2, 1))
    >>> found = risk_of_rows(
    ...     UpperSemideviation(1.0), ones, ones, losses, ones, np.full(2, 0.5), np.empty(0), 1.0
    ... )
    >>> round(found.value, 2)
    2.5
    """
    if risk is None:
        none = np.empty(0)
        return RiskOfRows(float(share @ losses), share[:, np.newaxis] * slopes, none, none, 0.0)
    n, n_outputs = slopes.shape
    inner = risk.inner(targets, values, losses, slopes)
    check_shape(risk, "Inner.value", inner.value, (n, risk.n_inner))
    check_shape(risk, "Inner.derivative", inner.derivative, (n, risk.n_inner, n_outputs))
    expected = share @ inner.value
    outer = risk.outer(losses, expected, scalars, unit)
    check_outer(risk, outer, n)
    each = outer.by_loss[:, np.newaxis] * slopes
    if risk.n_inner:
        each = each + np.einsum("m,nmc->nc", share @ outer.by_inner, inner.derivative)
    return RiskOfRows(
        float(share @ outer.value),
        share[:, np.newaxis] * each,
        share @ outer.by_scalars,
        expected,
        float(share @ outer.clamped),
    )


def check_outer(risk: Risk, outer: Outer, n: int) -> None:
    """Raise ValueError if a user's ``outer`` returns values of a wrong form."""
    if not isinstance(outer, Outer):
        raise ValueError(
            f"{type(risk).__name__}.outer must return an Outer(value, by_loss, by_inner, "
            f"by_scalars, clamped), got {type(outer).__name__}."
        )
    shapes = (n,), (n,), (n, risk.n_inner), (n, risk.n_scalars), (n,)
    for name, array, shape in zip(Outer._fields, outer, shapes, strict=True):
        check_shape(risk, f"Outer.{name}", array, shape)


def check_shape(risk: Risk, name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if an array of a risk has another shape."""
    if np.shape(array) != shape:
        raise ValueError(
            f"{name} of {type(risk).__name__} must have shape {shape}, got {np.shape(array)}: "
            f"rows first, then n_inner = {risk.n_inner} or n_scalars = {risk.n_scalars}."
        )


RISKS: dict[str, type[Risk]] = {
    "mean": Mean,
    "cvar": CVaR,
    "upper_semideviation": UpperSemideviation,
    "semideviation": UpperSemideviation,
    "entropic": Entropic,
    "semivariance": Semivariance,
    "variance": Variance,
    "central_moments": CentralMoments,
}


def as_risk(value: Any) -> Risk | None:
    """Turn a risk or its name into a risk.

    Parameters
    ----------
    value : Risk, str or None
        A risk, returned as it is; the name of one, with its first parameter after a colon if it
        is not the default; or None for no risk at all.

    Returns
    -------
    risk : Risk or None

    Raises
    ------
    ValueError
        For an unknown name, a parameter that the risk does not have, or something that is not a
        risk.

    Examples
    --------
    >>> as_risk("cvar:0.95"), as_risk("central_moments:3"), as_risk("semideviation")
    (CVaR(level=0.95), CentralMoments(order=3), UpperSemideviation())
    """
    if value is None or isinstance(value, Risk):
        return value
    name, colon, text = value.partition(":") if isinstance(value, str) else ("", "", "")
    if name in RISKS:
        return _with_first(value, RISKS[name], text) if colon else RISKS[name]()
    close = difflib.get_close_matches(name.lower(), RISKS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else ""
    if isinstance(value, type) and issubclass(value, Risk):
        hint = f"Did you mean {value.__name__}(), with brackets?"
    listed = ", ".join(repr(known) for known in RISKS)
    raise ParameterError(
        Advice(
            "`risk` must be ",
            InPython("None, a risk of mercer.risks or "),
            f"one of the names {listed}, also with a number as in 'cvar:0.9', got {value!r}.",
        ),
        parameter="risk",
        value=value,
        mend=hint,
    )


def _with_first(value: str, cls: type[Risk], text: str) -> Risk:
    """Make a risk of a name and the text of its first parameter."""
    first = next(iter(inspect.signature(cls).parameters.values()))
    if first.kind is first.KEYWORD_ONLY:
        raise ValueError(
            f"{cls.__name__} takes no number, got {value!r}. Write {value.partition(':')[0]!r}."
        )
    try:
        number = type(first.default)(text)
    except ValueError:
        kind = "an integer" if isinstance(first.default, int) else "a number"
        raise ValueError(
            f"After the colon there must be {kind}, the `{first.name}` of {cls.__name__}, got "
            f"{value!r}. Write for example '{value.partition(':')[0]}:{first.default}'."
        ) from None
    return cls(number)
