r"""Compositional objectives: a function of a loss and of what is expected of it.

.. math:: \min_f\; E_\theta\, \varphi\bigl(l_\theta(f),\, g,\, v\bigr) + \frac{\lambda}{2}\|f\|^2,
          \qquad g = E_\xi\, h_\xi(f)

One row does not say what g is, so it is tracked over the stream. The risk
(:mod:`mercer.risks`) states :math:`\varphi` and h, the loss states l; here they meet the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss
from mercer.objectives._base import Array, Batch, Objective
from mercer.objectives.pointwise import Pointwise
from mercer.risks import Risk, as_tracker

__all__ = ["Compositional", "make_objective"]

# Rows over which the unit of the loss and the mean weight are remembered.
_MEMORY = 1000
# Rows of a step that add up in the move of a scalar; more are averaged, or it would overshoot.
_MOST_ROWS = 50


_UNCUT = np.ones((1, 1))


class _Scalars(NamedTuple):
    """All that is tracked, after some rows."""

    n_rows: int
    inner: Array  # (n_inner,), g
    effect: Array  # (n_inner,), E dphi/dg
    scalars: Array  # (n_scalars,), v
    unit: float  # running mean size of the loss
    weight: float  # running mean weight of the rows


class _Step(NamedTuple):
    """What a batch asks for."""

    slopes: Array  # (n, n_outputs)
    objective: Array  # (n,)
    after: _Scalars
    clipped: float
    clamped: float


class Compositional(Objective):
    r"""A risk of a loss (COLK, eq. (1)-(2), in the form :math:`E\,\varphi(l, g, v)`).

    The slope of one row has two parts, :math:`a\, l'` for its own loss and
    :math:`E[b]\, h'` for what it does to the expectation, with :math:`a = \partial\varphi /
    \partial l` and :math:`b = \partial\varphi / \partial g`. ``Tracker.pairs`` says who supplies
    them:

    - ``"tracked"``: every row supplies both, against g and E[b] as tracked before it, from which
      it is independent.
    - ``"stream"``, ``"reservoir"``: rows 2i and 2i + 1 of a batch are a pair of independent rows.
      The first supplies a and b, the second h (COLK, Algorithm 1). A row without a partner
      supplies both, as above.

    Parameters
    ----------
    loss : Loss
        Loss of single rows.
    risk : Risk
        What is minimised of it.

    Attributes
    ----------
    inner : ndarray of shape (n_inner,) or None
        g of now; None before the first rows.
    scalars : ndarray of shape (n_scalars,) or None
        The risk's own scalars, such as the quantile of CVaR.

    References
    ----------
    COLK, Algorithm 1, eq. (19)-(26). Two deviations: tracked pairs need one row for each step
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
        self._pointwise = Pointwise(loss)
        tracker = as_tracker(risk.tracker) if risk.n_inner else None
        self._rate = 1.0 if tracker is None else float(tracker.rate)
        self._paired = tracker is not None and tracker.pairs != "tracked"
        self.needs_previous = tracker is not None and tracker.rule == "momentum"
        self.direction_rate = (
            float(tracker.direction_rate)
            if tracker is not None and tracker.rule == "nasa"
            else None
        )
        weight, clip = risk.largest_weight, risk.clip
        if weight is not None and loss.curvature is not None:
            # Of pairs only one row in two brings its own slope, so that each counts twice.
            self.curvature = loss.curvature * weight * (2.0 if self._paired else 1.0)
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
        # Of "nasa" the function has two copies of its outputs: f, and its averaged direction.
        self.copies = 1 if self.direction_rate is None else 2
        self._now: _Scalars | None = None
        self._last: tuple[Array, _Step] | None = None
        self._measured = (0.0,) * len(self.monitors)

    @property
    def inner(self) -> Array | None:
        """Tracked expectation g of now."""
        return None if self._now is None else self._now.inner.copy()

    @property
    def scalars(self) -> Array | None:
        """The risk's own scalars."""
        return None if self._now is None else self._now.scalars.copy()

    # -- one step -------------------------------------------------------------------------------

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """See :class:`Objective`; the losses are the values of phi, whose mean is the risk."""
        # Losses that overflow are found, and said, by the loop.
        with np.errstate(over="ignore", invalid="ignore"):
            step = self._step(values, batch)
        self._last = values, step
        if self.direction_rate is None:
            return step.slopes, step.objective
        return np.tile(self.direction_rate * step.slopes, 2), step.objective

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Track what the rows say of g, E[b], the scalars and the unit of the loss."""
        step = self._last[1] if self._last is not None and self._last[0] is values else None
        step = step or self._step(values, batch)
        self._now, self._last = step.after, None
        self._measured = step.clipped, step.clamped, *step.after.inner, *step.after.scalars

    def mixing(self, step_size: float, regularization: float, n_outputs: int) -> Array | None:
        r"""See :class:`Objective`; with "nasa" f goes on along its averaged direction.

        In the outputs [f, e] with :math:`e = -\eta d`: e becomes (1 - rho) e - eta rho slopes, and
        f becomes (1 - eta lambda) f + e.
        """
        if self.direction_rate is None:
            return None
        keep = 1.0 - self.direction_rate
        small = np.array([[1.0 - step_size * regularization, 0.0], [keep, keep]])
        return np.kron(small, np.eye(n_outputs // 2))

    def measured(self) -> tuple[float, ...]:
        """See :class:`Objective`."""
        return self._measured

    def _step(self, values: Array, batch: Batch) -> _Step:
        risk, n = self.risk, batch.weights.size
        values = values[:, : values.shape[1] // self.copies]
        losses, slopes = self._loss(values, batch.targets)
        now = self._now or self._first(losses, slopes, values, batch)
        unit = now.unit if risk.units == "running" else float(risk.units)
        recent = min(1.0, max(n / (now.n_rows + n), n / _MEMORY))
        weight = now.weight + recent * (float(batch.weights.sum()) / n - now.weight)
        if weight == 0.0:  # no row has had any weight yet
            return _Step(np.zeros_like(values), losses, now, 0.0, 0.0)
        shares = batch.weights / weight
        paired = self._paired and n > 1
        first = slice(0, None, 2) if paired else slice(None)
        second = slice(1, None, 2) if paired else slice(None)

        # What the second rows say of the expectation.
        parts = batch.targets[second], values[second], losses[second], slopes[second]
        h = risk.inner(*parts)
        inner = self._track(now, h.value, shares[second], second, batch)
        # The first rows meet g from which they are independent.
        outer = risk.outer(losses, inner if paired else now.inner, now.scalars, unit)
        a, b = outer.by_loss, outer.by_inner
        own, b = a[first, np.newaxis] * slopes[first], b[first]
        total = np.zeros_like(values)
        if paired:
            k = h.value.shape[0]
            theirs = _through(b[:k] * shares[first][:k, np.newaxis], h.derivative)
            factors = self._factors(own, theirs)
            total[first], total[second] = factors * own, factors[:k] * theirs
        else:
            # What a row does to g is cut with its own slope, or all others would pay for it.
            factors = self._factors(own)
            total = factors * own + _through(now.effect, h.derivative)
            if self.clip is not None:
                again = self._factors(total)
                total, factors = again * total, np.minimum(factors, again)
        total *= (batch.weights / own.shape[0])[:, np.newaxis]
        clipped = 0.0 if self.clip is None else float(np.mean(factors < 1.0))

        effect = _mean(self._factors(own) * b, shares[first])
        # A step on n rows moves the scalars as far as n steps on one.
        moves = min(own.shape[0], _MOST_ROWS) * risk.scalar_steps(unit)
        moves *= _mean(outer.by_scalars[first], shares[first])
        size = float(np.abs(losses) @ shares) / n
        after = _Scalars(
            now.n_rows + n,
            inner,
            now.effect + self._rate * (effect - now.effect) if self._now else effect,
            now.scalars - moves,
            now.unit + recent * (size - now.unit) if self._now else now.unit,
            weight,
        )
        return _Step(total, outer.value, after, clipped, np.count_nonzero(outer.clamped) / n)

    def _loss(self, values: Array, targets: Array) -> tuple[Array, Array]:
        """Loss of each row and its derivative, without weights."""
        return self.loss.value_and_derivative(
            targets[:, 0] if self.loss.multiclass else targets, values
        )

    def _first(self, losses: Array, slopes: Array, values: Array, batch: Batch) -> _Scalars:
        """Take all from the first rows themselves: g starts at h, not at 0."""
        risk, weights = self.risk, batch.weights
        weight = float(weights.mean())
        shares = weights / weight if weight > 0.0 else np.ones_like(weights)
        unit = float(np.mean(np.abs(losses) * shares)) or 1.0
        inner = _mean(risk.inner(batch.targets, values, losses, slopes).value, shares)
        scalars = risk.start(losses)
        own = unit if risk.units == "running" else float(risk.units)
        outer = risk.outer(losses, inner, scalars, own)
        factors = self._factors(outer.by_loss[:, np.newaxis] * slopes)
        effect = _mean(factors * outer.by_inner, shares)
        return _Scalars(0, inner, effect, scalars, unit, weight)

    def _track(self, now: _Scalars, h: Array, shares: Array, rows: slice, batch: Batch) -> Array:
        """Move g: COLK, eq. (20) with momentum, eq. (19) else."""
        mean = _mean(h, shares)
        if self._now is None:
            inner = mean
        elif self.needs_previous and batch.previous is not None:
            before, targets = batch.previous[rows], batch.targets[rows]
            losses, slopes = self._loss(before, targets)
            old = _mean(self.risk.inner(targets, before, losses, slopes).value, shares)
            inner = (1.0 - self._rate) * (now.inner - old) + mean
        else:
            inner = now.inner + self._rate * (mean - now.inner)
        # Momentum may overshoot what a mean can be at all.
        low, high = self.risk.inner_range
        if h.size and h.min() >= low and h.max() <= high:
            inner = np.clip(inner, low, high)
        return inner

    def _factors(self, own: Array, theirs: Array | None = None) -> Array:
        """Factors, (n, 1) or (1, 1), that cut slopes to the clip: both of a pair by one."""
        if self.clip is None:
            return _UNCUT
        sizes = np.linalg.norm(own, axis=1)
        if theirs is not None:
            k = len(theirs)
            sizes[:k] = np.maximum(sizes[:k], np.linalg.norm(theirs, axis=1))
        factors: Array = self.clip / np.maximum(sizes, self.clip)
        return factors[:, np.newaxis]

    def remedy(self) -> str:
        """See :class:`Objective`."""
        risk = " ".join(repr(self.risk).split())
        return (
            f". The objective is {risk} of {self.loss!r}: lower its weight, bound it by `clip` or "
            "`max_deviation`, leave `clamp` on, or standardise the columns and the target."
        )

    # -- state ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """See :class:`Objective`."""
        if self._now is None:
            return {}
        state = self._now._asdict()
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """See :class:`Objective`."""
        self._last = None
        if not state:
            self._now = None
            return
        if set(state) != set(_Scalars._fields):
            raise ValueError(f"The state of a risk has other parts, got {sorted(state)}.")
        arrays = {k: np.array(state[k], np.float64) for k in ("inner", "effect", "scalars")}
        m, k = self.risk.n_inner, self.risk.n_scalars
        numbers = [float(state["unit"]), float(state["weight"])]
        fits = (
            [a.shape for a in arrays.values()] == [(m,), (m,), (k,)]
            and all(np.isfinite(a).all() for a in arrays.values())
            and np.isfinite(numbers).all()
            and min(numbers) >= 0.0
            and int(state["n_rows"]) >= 0
        )
        if not fits:
            raise ValueError("The numbers of the risk are out of their range.")
        self._now = _Scalars(int(state["n_rows"]), **arrays, unit=numbers[0], weight=numbers[1])


def make_objective(loss: Loss, risk: Risk | None) -> Objective:
    """Return the objective for the expected loss, or for a risk of it.

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> type(make_objective(Squared(), None)).__name__
    'Pointwise'
    """
    return Pointwise(loss) if risk is None else Compositional(loss, risk)


def _mean(values: Array, shares: Array) -> Array:
    """Weighted mean over rows, (n, ...) -> (...); 0 without rows."""
    mean: Array = shares @ values / max(1, shares.size)
    return mean


def _through(weights: Array, derivatives: Array) -> Array:
    """Chain rule: (n, m) or (m,) with (n, m, n_outputs) to (n, n_outputs)."""
    slopes: Array = np.einsum("...m,...mk->...k", weights, derivatives)
    return slopes


def _numbered(name: str, n: int) -> tuple[str, ...]:
    return (name,) if n == 1 else tuple(f"{name}_{i}" for i in range(n))
