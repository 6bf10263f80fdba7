r"""Base class of objectives, and the objectives of single rows.

These are the mean of a loss, density ratios and novelty. Density ratios minimise the variational
form of a divergence, whose minimiser tells p/q. The function of novelty is large where rows are
common, and has a threshold.

Compositional objectives are functions of a loss and of an expectation of it:

.. math:: \min_f\; E_\theta\, \varphi\bigl(l_\theta(f),\, g,\, v\bigr) + \frac{\lambda}{2}\|f\|^2,
          \qquad g = E_\xi\, h_\xi(f)

A single row does not determine g, so g is tracked over the stream. The risk (:mod:`mercer.risks`)
defines :math:`\varphi` and h, the loss defines l; here they are evaluated on rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.divergences import Divergence
from mercer.losses import Loss, loss_and_slopes
from mercer.numerics.risks import (
    FIRST_ROWS,
    CompiledRisk,
    Tracked,
    Way,
    Weighed,
    averaged_direction,
    effect_of_rows,
    mean_of_rows,
    new_tracked,
    pace_of,
    track,
    weigh,
)
from mercer.records import Listed, Record
from mercer.risks import Outer, Risk, check_outer, check_shape
from mercer.validation import check_real, integer, positive

Array = NDArray[np.float64]


class Batch(NamedTuple):
    """Rows of one step."""

    X: NDArray[np.floating]  # (n, n_features)
    targets: Array  # (n, target_width), encoded by the loss
    weights: Array  # (n,), sample weight times class weight
    #: Values of the function before the last step at the objective's points, (n_points, n_outputs),
    #: for objectives that need them.
    previous: Array | None = None


class Anchors(NamedTuple):
    """Points of a step that the objective keeps for later steps, with their places.

    Functions keep such points (:meth:`mercer.functions.KernelExpansion.add`).
    """

    before: NDArray[np.int64]  # (n_points,), place before this step, -1 for none
    after: NDArray[np.int64]  # (n_points,), place after it, -1 for none


class Objective(ABC):
    """Objective as the loop sees it: where f must be evaluated, and in which direction it moves.

    A new objective implements :meth:`points` and :meth:`slopes`. If it has scalars of its own (a
    threshold, a tracked mean), it also implements :meth:`update` and lists their names in
    ``saved_scalars``; if its state is not plain numbers, it implements :meth:`state` and
    :meth:`set_state`. Expansion, kernel and schedule need no change.

    Attributes
    ----------
    curvature : float or None
        Upper bound of the second derivative with respect to the values; None if there is none.
    lipschitz : float or None
        Upper bound of the norm of the derivative at a row of weight 1; None if there is none.
    copies : int
        How many copies of each output the function has; the first copies are used to predict.
    clip : float or None
        Maximum norm of slopes, if the user sets one.
    tolerance_scale : float
        Factor of automatic compression tolerances.
    rows_per_sample : int
        Rows that one sample of the user makes.
    sample_name : str
        What the user calls samples, in the plural.
    rows_per_slope : int or None
        Rows that count as one in the unit of automatic tolerances, with or without a slope; None
        leaves rows without a slope out. If it is given, the scale of losses is the largest loss
        seen, not the loss at f = 0.
    needs_previous : bool
        Whether :meth:`slopes` needs ``Batch.previous``.
    monitors : tuple of str
        Names of numbers that :meth:`measured` returns for the history.
    saved_scalars : tuple of str
        Names of the numeric attributes that :meth:`update` changes; :meth:`state` consists of them.
    """

    curvature: float | None = None
    lipschitz: float | None = None
    copies: int = 1
    clip: float | None = None
    tolerance_scale: float = 1.0
    rows_per_sample: int = 1
    sample_name: str = "rows"
    rows_per_slope: int | None = None
    needs_previous: bool = False
    monitors: tuple[str, ...] = ()
    saved_scalars: tuple[str, ...] = ()
    #: Result of :meth:`remedy`.
    _remedy: str = ""
    #: Result of :meth:`measured`.
    _measured: tuple[float, ...] = ()

    @abstractmethod
    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the points at which the objective needs the function, (n_points, n_features)."""

    @abstractmethod
    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return the derivative of the objective with respect to the function values, and losses.

        Parameters
        ----------
        values : ndarray of shape (n_points, n_outputs)
            The function at :meth:`points`.
        batch : Batch
            Rows of this step.

        Returns
        -------
        slopes : ndarray of shape (n_points, n_outputs)
            Derivatives, divided by the number of rows.
        losses : ndarray of shape (n,)
            Loss of each row before it is learned, for the progressive curve.
        """

    def update(self, values: Array, batch: Batch, step_size: float) -> None:  # noqa: B027
        """Update the objective's own scalars; called once per step, after :meth:`slopes`.

        Parameters
        ----------
        values : ndarray of shape (n_points, n_outputs)
            The function at :meth:`points` before it moves.
        batch : Batch
            Rows of this step.
        step_size : float
            Step size of this step.
        """

    def at_zero(self, targets: Array, weights: Array, n_outputs: int) -> tuple[Array, Array]:
        """Return slopes and losses at f = 0, which set the units of tolerances and of divergence.

        Parameters
        ----------
        targets : ndarray of shape (n, target_width)
            Targets of the rows.
        weights : ndarray of shape (n,)
            Weights of the rows.
        n_outputs : int
            Number of outputs of the function.

        Returns
        -------
        slopes : ndarray of shape (n, n_outputs)
            As in :meth:`slopes`.
        losses : ndarray of shape (n,)
        """
        batch = Batch(np.empty((0, 0)), targets, weights)
        return self.slopes(np.zeros((weights.size, n_outputs)), batch)

    def losses_of(self, values: Array, batch: Batch) -> Array:
        """Return the losses, (n,), of rows that are not learned, without changing any state.

        Parameters
        ----------
        values : ndarray of shape (n, n_outputs)
            The function at the rows.
        batch : Batch
            The rows.
        """
        return self.slopes(values, batch)[1]

    def anchors(self, batch: Batch) -> Anchors | None:
        """Return which points are kept for later; None for none. Called before :meth:`update`."""
        return None

    def steepness(self, batch: Batch, n_points: int) -> Array:
        """Return weights of the points in a bound of the Hessian, for Newton steps.

        Parameters
        ----------
        batch : Batch
            Rows of the step.
        n_points : int
            Number of :meth:`points`.

        Returns
        -------
        weights : ndarray of shape (n_points,)
            The Hessian is at most :attr:`curvature` times the mean over the points of (weight times
            squared features).
        """
        return batch.weights

    def mixing(self, step_size: float, regularization: float, n_outputs: int) -> Array | None:
        """Return how a step mixes the outputs before it adds the slopes.

        Parameters
        ----------
        step_size, regularization : float
            Settings of the step.
        n_outputs : int
            Number of outputs of the function.

        Returns
        -------
        mixing : ndarray of shape (n_outputs, n_outputs) or None
            f becomes f @ mixing; None for the usual factor 1 - step_size * regularization.
        """
        return None

    def batch_rate(self, gram: Array, targets: Array, weights: Array) -> float | None:
        """Return how fast a unit step moves its own batch: steps are stable up to 2 / rate.

        Parameters
        ----------
        gram : ndarray of shape (n, n)
            Kernel matrix of the rows.
        targets : ndarray of shape (n, target_width)
            Targets of the rows.
        weights : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        rate : float or None
            A bound; None for the bound by :attr:`curvature` and the row sums of the matrix.
        """
        return None

    def measured(self) -> tuple[float, ...]:
        """Return the :attr:`monitors` of the last step, as means over its rows."""
        return self._measured

    def remedy(self) -> str:
        """Return the advice that ends the error of a diverging run; "" for the usual advice."""
        return self._remedy

    def state(self) -> dict[str, Any]:
        """Return copies of the numbers and arrays that :meth:`update` changes."""
        return {name: getattr(self, name) for name in self.saved_scalars}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`state`.

        Raises
        ------
        ValueError
            If the state does not belong to this objective.
        """
        if set(state) != set(self.saved_scalars):
            raise ValueError(
                f"{sorted(state)} is not the state of {type(self).__name__}, which is "
                f"{sorted(self.saved_scalars)}."
            )
        for name in self.saved_scalars:
            setattr(self, name, check_real(name, state[name]))


class Pointwise(Objective):
    """Expected loss of single rows (POLK, eq. (1); Ying & Zhou, Algorithm 1).

    Parameters
    ----------
    loss : Loss
        The loss.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.curvature, self.lipschitz = loss.curvature, loss.lipschitz

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        losses, slopes = loss_and_slopes(self.loss, values, batch.targets)
        scaled: Array = slopes * (batch.weights / batch.weights.size)[:, np.newaxis]
        return scaled, losses


class TwoSample(Objective):
    r"""Estimate the ratio of two densities p and q from a sample of each.

    .. math:: \min_f\; \frac{1}{T'(0)}\bigl(E_q\,\varphi^*(T(f(x))) - E_p\,T(f(x))\bigr)
        + \frac{\lambda}{2}\|f\|^2

    for the conjugate :math:`\varphi^*` and the link T of a divergence (:mod:`mercer.divergences`).
    Without the ridge the minimiser has :math:`T(f) = \varphi'(p/q)`. The factor makes a ridge mean
    the same for all divergences. For Kullback-Leibler it is :math:`E_q e^f - E_p f` with :math:`f =
    \log p/q`.

    Column 0 of the targets is 1 for rows of p, 0 for rows of q. Every batch needs rows of both;
    each sample has its own mean, so the numbers of rows may differ.

    Parameters
    ----------
    divergence : Divergence
        The divergence.

    Raises
    ------
    ValueError
        If the link does not rise at 0, where learning begins, or a function of the divergence
        returns an array of a wrong shape.

    References
    ----------
    DSG, eq. (8). Every step sees both samples, instead of one chosen by a coin. The coin adds a
    variance of :math:`\|E_p k_x + E_q k_x p/q\|^2 = 4 \|E_p k_x\|^2` at the minimum, which no
    number of rows in a step makes smaller.

    Examples
    --------
    >>> from mercer.divergences import KullbackLeibler
    >>> batch = Batch(np.zeros((3, 1)), np.array([[1.0], [0.0], [0.0]]), np.ones(3))
    >>> TwoSample(KullbackLeibler()).slopes(np.zeros((3, 1)), batch)[0].ravel()
    array([-1. ,  0.5,  0.5])
    """

    def __init__(self, divergence: Divergence) -> None:
        self.divergence = divergence
        at = np.zeros(2)
        for name in ("link", "link_derivative", "ratio", "conjugate", "conjugate_derivative"):
            found = getattr(divergence, name)(divergence.link(at) if "conjugate" in name else at)
            if np.shape(found) != at.shape:
                raise ValueError(
                    f"`{name}` of {divergence!r} must return a number for each of its numbers, an "
                    f"array of shape (2,) for two, got shape {np.shape(found)}."
                )
        self._unit = float(divergence.link_derivative(np.zeros(1))[0])
        if not 0.0 < self._unit < np.inf:
            raise ValueError(
                f"The derivative of the link of {divergence!r} must be above 0 and finite at 0, "
                f"where learning begins, got {self._unit!r}."
            )

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        from_p = batch.targets[:, 0] > 0.5
        n, n_p = from_p.size, int(from_p.sum())
        share = batch.weights / np.where(from_p, n_p, n - n_p)
        of, f = self.divergence, self.divergence.within(values[:, 0])
        s, rate = of.link(f), of.link_derivative(f) / self._unit
        of_rows = np.where(from_p, -rate, of.conjugate_derivative(s) * rate)
        losses = np.where(from_p, -s, of.conjugate(s)) / self._unit
        # Beyond some values the losses continue as straight lines.
        losses = (losses + of_rows * (values[:, 0] - f)) * share * n
        slopes: Array = of_rows * share
        return slopes[:, np.newaxis], losses


class Novelty(Objective):
    r"""Find f and a threshold tau below which f lies for a share nu of the rows.

    .. math:: \min_{f, \tau}\; E \max(0, \tau - f(x)) + \frac{\nu}{2}\|f\|^2 - \nu\tau

    At the minimum, f is a weighted mean of kernels at the least common rows, so f and tau are of
    the size of kernel values. The learner's ridge parameter must be nu.

    Parameters
    ----------
    nu : float
        Share of the rows below the threshold, in (0, 1].
    unit : float, default=1.0
        Typical size of f at the minimum. The threshold starts there, and its steps are multiplied
        by it, which changes the path but not the minimum. 1 is the paper's step; a smaller value,
        such as the mean of the Gram matrix, keeps the first steps from moving the threshold far
        below every f.

    Attributes
    ----------
    threshold : float
        Present value of tau.

    References
    ----------
    DSG, Section 4, "Kernel Novelty Detection". A weight multiplies its row's term ``max(0, tau - f)
    - nu tau``, so f and tau grow alike with the weights.

    Examples
    --------
    >>> batch = Batch(np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2))
    >>> novelty, values = Novelty(nu=0.5), np.array([[0.2], [2.0]])
    >>> novelty.slopes(values, batch)[0].ravel()
    array([-0.5,  0. ])
    >>> novelty.update(values, batch, step_size=0.1)  # as many rows below as there should be
    >>> novelty.threshold
    1.0
    """

    lipschitz = 1.0
    saved_scalars = ("threshold",)

    def __init__(self, nu: float, unit: float = 1.0) -> None:
        self.nu = nu
        self.unit = unit
        self.threshold = unit

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return slopes and losses; a row exactly at the threshold has slope 0."""
        down = (-batch.weights / batch.weights.size)[:, np.newaxis]
        scaled: Array = np.where(values < self.threshold, down, 0.0)
        losses = np.maximum(self.threshold - values[:, 0], 0.0) - self.nu * self.threshold
        return scaled, losses

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Move the threshold down if more than a share nu of the rows is below it, otherwise up."""
        below = values[:, 0] < self.threshold
        slope = float(np.mean(batch.weights * (below - self.nu)))
        self.threshold -= self.unit * step_size * slope


def lower_quantile(values: Array, weights: Array, share: float) -> float:
    """Return the largest value such that at most a share of the weight lies strictly below it.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values, at least one.
    weights : ndarray of shape (n,)
        Weights, not all 0.
    share : float
        Share of the weight, in (0, 1].

    Returns
    -------
    quantile : float
        One of the values.

    Examples
    --------
    >>> lower_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.25)
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    # The factor keeps rounding from excluding a row.
    within = np.searchsorted(total, share * total[-1] * (1.0 + 1e-12), side="right")
    return float(values[order[min(int(within), values.size - 1)]])


_LISTED = ("inner", "effect", "scalars", "settled")
_STORED = Record(
    n_rows=integer(low=0),
    inner=Listed("n_inner"),
    effect=Listed("n_inner"),
    scalars=Listed("n_scalars"),
    settled=Listed("n_scalars"),
    n_steps=integer(low=0),
    unit=positive(),
    weight=positive(),
)


class _Step(NamedTuple):
    """Result of a batch."""

    slopes: Array  # (n, n_outputs)
    objective: Array  # (n,)
    after: Tracked | None
    clipped: float
    clamped: float


class Compositional(Objective):
    r"""A risk of a loss (COLK, eq. (1)-(2), in the form :math:`E\,\varphi(l, g, v)`).

    The slope of one row has two parts: :math:`a\, l'` for its own loss and :math:`E[b]\, h'` for
    its effect on the expectation, with :math:`a = \partial\varphi / \partial l` and :math:`b =
    \partial\varphi / \partial g`. ``Tracker.pairs`` chooses the rows that supply them:

    - ``"tracked"``: every row supplies both. It uses g and E[b] as tracked before the row, which
      are independent of it.
    - ``"stream"``, ``"reservoir"``: rows 2i and 2i + 1 of a batch are a pair of independent rows.
      The first supplies a and b, the second h (COLK, Algorithm 1). A row without a partner supplies
      both, as above. They use g after the step's own h, with the rule "nasa" g before it.

    Parameters
    ----------
    loss : Loss
        Loss of single rows.
    risk : Risk
        Risk of the loss to minimise.

    Attributes
    ----------
    inner : ndarray of shape (n_inner,) or None
        Present value of g; None before the first rows.
    scalars : ndarray of shape (n_scalars,) or None
        The risk's own scalars, such as the quantile of CVaR.

    References
    ----------
    COLK, Algorithm 1, eq. (19)-(26). Two deviations: with tracked pairs a step needs one row
    instead of two, and g starts at the first h instead of 0.

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> from mercer.risks import CVaR
    >>> objective = Compositional(Squared(), CVaR(0.5, smoothing=1e-6))
    >>> batch = Batch(np.zeros((4, 1)), np.array([[0.0], [1.0], [2.0], [5.0]]), np.ones(4))
    >>> values = np.zeros((4, 1))
    >>> objective.slopes(values, batch)[0].ravel().round(3)  # only the worst half has slopes
    array([ 0. ,  0. , -1. , -2.5])
    """

    def __init__(self, loss: Loss, risk: Risk) -> None:
        self.loss, self.risk = loss, risk
        tracker = risk.tracking
        paired = tracker is not None and tracker.pairs != "tracked"
        self.needs_previous = tracker is not None and tracker.rule == "momentum"
        direction = tracker is not None and tracker.rule == "nasa"
        low, high = risk.inner_range
        #: Settings of the steps, as compiled code takes them.
        self.way = Way(
            unit=math.nan if risk.units == "running" else float(risk.units),
            rate=1.0 if tracker is None else float(tracker.rate),
            paired=paired,
            momentum=self.needs_previous,
            direction_rate=float(tracker.direction_rate) if tracker and direction else -1.0,
            clip=-1.0 if risk.clip is None else float(risk.clip),
            low=float(low),
            high=float(high),
        )
        weight, clip = risk.largest_weight, risk.clip
        if weight is not None and loss.curvature is not None:
            # In a pair only one row supplies its own slope, so each counts twice.
            self.curvature = loss.curvature * weight * (2.0 if paired else 1.0)
        self.clip = None if clip is None else float(clip)
        bounds = [] if self.clip is None else [self.clip]
        if weight is not None and loss.lipschitz is not None:
            bounds.append(loss.lipschitz * weight)
        self.lipschitz = min(bounds, default=None)
        self.monitors = (
            "clipped_fraction",
            "clamped_fraction",
            *_numbered("inner_value", risk.n_inner),
            *risk.scalar_names,
        )
        # For "nasa" the function has two copies of its outputs: f and its averaged direction.
        self.copies = 2 if direction else 1
        self._remedy = (
            f". The objective is {' '.join(repr(risk).split())} of {loss!r}: lower its weight, "
            "bound it by `clip` or `max_deviation`, leave `clamp` on, or standardise the columns "
            "and the target."
        )
        self._now: Tracked | None = None
        self._last: tuple[Array, _Step] | None = None
        self._measured = (0.0,) * len(self.monitors)

    @property
    def inner(self) -> Array | None:
        """Present tracked expectation g."""
        return None if self._now is None else self._now.inner.copy()

    @property
    def scalars(self) -> Array | None:
        """The risk's own scalars, averaged over the steps in the same way as the function."""
        return None if self._now is None else self._now.settled.copy()

    # -- one step -------------------------------------------------------------------------------

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return slopes and losses; a loss is the value of phi, whose mean is the risk."""
        # The loop finds and reports losses that overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            step = self._step(values, batch)
        self._last = values, step
        if self.copies == 1:
            return step.slopes, step.objective
        return np.tile(self.way.direction_rate * step.slopes, 2), step.objective

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Update g, E[b], the scalars and the unit of the loss from the rows."""
        step = self._last[1] if self._last is not None and self._last[0] is values else None
        step = step or self._step(values, batch)
        self._now, self._last = step.after, None
        if step.after is not None:
            self._measured = step.clipped, step.clamped, *step.after.inner, *step.after.scalars

    def mixing(self, step_size: float, regularization: float, n_outputs: int) -> Array | None:
        r"""Return the mixing of "nasa", with which f moves along its averaged direction.

        In the outputs [f, e] with :math:`e = -\eta d`: e becomes (1 - rho) e - eta rho slopes, and
        f becomes (1 - eta lambda) f + e.
        """
        if self.copies == 1:
            return None
        mixing = np.empty((n_outputs, n_outputs))
        averaged_direction(step_size, regularization, self.way.direction_rate, mixing)
        return mixing

    def _step(self, values: Array, batch: Batch) -> _Step:
        risk, way, weights = self.risk, self.way, _numbers(batch.weights)
        n, begun = weights.size, self._now is not None
        values = values[:, : values.shape[1] // self.copies]
        losses, slopes = map(_numbers, loss_and_slopes(self.loss, values, batch.targets))
        if not weights.any():  # rows without weight change nothing
            return _Step(np.zeros_like(slopes), losses, self._now, 0.0, 0.0)
        now = self._now or self._first(losses, slopes, values, batch)
        unit = float(now.scales[0]) if math.isnan(way.unit) else way.unit
        pace = pace_of(weights, now.counts[0], now.scales[1], way.rate)
        paired = way.paired and n > 1
        second = slice(1, None, 2) if paired else slice(None)
        # The second rows supply the expectation.
        h = risk.inner(batch.targets[second], values[second], losses[second], slopes[second])
        old = np.empty((0, risk.n_inner))
        if way.momentum and batch.previous is not None:
            before, targets = batch.previous[second], batch.targets[second]
            old = risk.inner(targets, before, *loss_and_slopes(self.loss, before, targets)).value
        after = new_tracked(risk.n_inner, risk.n_scalars)
        track(now, begun, _numbers(h.value), _numbers(old), weights, pace, way, after.inner)
        # The first rows use a g that is independent of them; "nasa" moves all at once.
        newest = paired and (self.copies == 1 or not begun)
        outer = risk.outer(losses, after.inner if newest else now.inner, now.scalars, unit)
        start = np.zeros(risk.n_scalars)
        if now.counts[0] < FIRST_ROWS:
            start = _numbers(risk.start(losses[weights > 0.0]))
        total = np.empty_like(slopes)
        clipped = weigh(
            now,
            begun,
            losses,
            slopes,
            _weighed(outer),
            _numbers(h.derivative),
            weights,
            pace,
            way,
            _numbers(risk.scalar_steps(unit)),
            start,
            total,
            after,
        )
        return _Step(total, outer.value, after, clipped, np.count_nonzero(outer.clamped) / n)

    def _first(self, losses: Array, slopes: Array, values: Array, batch: Batch) -> Tracked:
        """Initialise everything from the first rows: g starts at h, not at 0."""
        risk, weights, n = self.risk, _numbers(batch.weights), batch.weights.size
        first = new_tracked(risk.n_inner, risk.n_scalars)
        mean_of_rows(np.abs(losses)[:, np.newaxis], weights, 0, 1, first.scales[:1])
        first.scales[:] = first.scales[0] or 1.0, weights.mean()
        h = risk.inner(batch.targets, values, losses, slopes)
        check_shape(risk, "Inner.value", h.value, (n, risk.n_inner))
        check_shape(risk, "Inner.derivative", h.derivative, (n, risk.n_inner, values.shape[1]))
        mean_of_rows(_numbers(h.value), weights, 0, 1, first.inner)
        scalars = risk.start(losses[weights > 0.0])
        check_shape(risk, "start(losses)", scalars, (risk.n_scalars,))
        first.scalars[:] = first.settled[:] = scalars
        unit = float(first.scales[0]) if math.isnan(self.way.unit) else self.way.unit
        outer = risk.outer(losses, first.inner, first.scalars, unit)
        check_outer(risk, outer, n)
        effect_of_rows(_weighed(outer), slopes, weights, self.way.clip, 1, first.effect)
        return first

    # -- compiled loops -------------------------------------------------------------------------

    def compiled(self) -> CompiledRisk | None:
        """Return the risk for the compiled loop, or None if its formulas are not all compiled."""
        return self.risk.compiled() if self.risk.inner_is_loss else None

    @property
    def tracked(self) -> Tracked | None:
        """What the compiled loop may change in place; None while first rows have to be learned."""
        now = self._now
        starts = now is None or (self.risk.n_scalars and now.counts[0] < FIRST_ROWS)
        return None if starts else now

    # -- state ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        now = self._now
        if now is None:
            return {}
        (n_rows, n_steps), (unit, weight) = now.counts.tolist(), now.scales.tolist()
        values = {"n_rows": n_rows, "n_steps": n_steps, "unit": unit, "weight": weight}
        return _STORED.written_of(values | {name: getattr(now, name) for name in _LISTED})

    def set_state(self, state: dict[str, Any]) -> None:
        sizes = {"n_inner": self.risk.n_inner, "n_scalars": self.risk.n_scalars}
        self._last, now = None, None
        if state:
            values = _STORED.read(state, sizes)
            now = Tracked(
                counts=np.array([values["n_rows"], values["n_steps"]], np.int64),
                scales=np.array([values["unit"], values["weight"]], np.float64),
                **{name: np.array(values[name], np.float64) for name in _LISTED},
            )
        self._now = now


def make_objective(loss: Loss, risk: Risk | None) -> Objective:
    """Return the objective for the expected loss, or for a risk of the loss.

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> type(make_objective(Squared(), None)).__name__
    'Pointwise'
    """
    return Pointwise(loss) if risk is None else Compositional(loss, risk)


def _numbers(values: Any) -> Array:
    """Return an array as compiled code takes it."""
    return np.ascontiguousarray(values, dtype=np.float64)


def _weighed(outer: Outer) -> Weighed:
    """Return what a risk gives as compiled code takes it."""
    value, by_loss, by_inner, by_scalars = map(_numbers, outer[:4])
    clamped = np.ascontiguousarray(outer.clamped, dtype=np.bool_)
    return Weighed(value, by_loss, by_inner, by_scalars, clamped)


def _numbered(name: str, n: int) -> tuple[str, ...]:
    return (name,) if n == 1 else tuple(f"{name}_{i}" for i in range(n))
