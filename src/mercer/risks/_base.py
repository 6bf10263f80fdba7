"""What all risks share: the interface of the compositional objective, tracking, units, sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mercer.component import Component
from mercer.validation import check_real, choice, or_none, parameters, positive, real

_RULES = ("momentum", "scgd", "nasa")
_PAIRS = ("tracked", "stream", "reservoir")
_SHARE = real(
    low=0, high=1, open_low=True, why="It is the share of the newest sample in a running mean."
)

Array = NDArray[np.float64]


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
        - ``"nasa"``: ``"scgd"`` with an averaged direction of f; all on one time scale.
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
       c\,\text{unit}) = c\,\phi(l, g, v; \text{unit})`.
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
    #: Text of :meth:`describe`, with the risk as ``{risk}``; its ``repr`` if empty.
    _summary: ClassVar[str] = ""

    _parameters = parameters(
        units=_check_units,
        clip=or_none(positive("With a clip of 0 nothing is learned; write clip=None for none.")),
        tracker=lambda name, value: as_tracker(value),
    )

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
        return self._no_scalars("scalar_steps(unit)")

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

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
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
    if smoothing == 0:
        return np.maximum(u, 0.0), np.where(np.isnan(u), np.nan, u > 0.0)
    # A loss that is NaN or overflows is for the learner to report.
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = u / smoothing
        slope: Array = special.expit(scaled)
        return smoothing * np.logaddexp(0.0, scaled), slope


#: Check of the width of a smoothed kink.
check_smoothing = real(
    low=0, why="It is the width of a smoothed kink in units of the loss scale; 0 leaves the kink."
)
