"""Weighted sums of risks, which are risks again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mercer._validation import check_real
from mercer.risks._base import Array, Inner, Outer, Risk
from mercer.risks._tracker import Tracker, as_tracker

__all__ = ["Mixture", "added", "scaled"]


class Mixture(Risk):
    r"""Weighted sum of risks, :math:`\sum_i w_i R_i(f)`.

    The inner expectations and the scalars of the parts stand side by side and share nothing. Also
    written with operators: ``0.5 * CVaR(0.9) + 0.5 * Mean()``.

    A part with a number as ``units`` keeps it; the others have those of the mixture. All parts
    that have something to track must have the same ``tracker``.

    Parameters
    ----------
    risks : list of Risk
        The parts, at least one; none with a ``clip`` of its own, which is for the sum only.
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

    def _check(self) -> None:
        is_list = isinstance(self.risks, list | tuple)
        if not is_list or not self.risks or not all(isinstance(r, Risk) for r in self.risks):
            raise ValueError(
                f"`risks` must be a list of risks, at least one, got {self.risks!r}. Write for "
                "example Mixture([Mean(), CVaR(0.9)]); as_risk makes a risk of a name."
            )
        if self.weights is not None:
            if np.shape(self.weights) != (len(self.risks),):
                raise ValueError(
                    f"`weights` must have one number for each of the {len(self.risks)} risk(s), "
                    f"got {self.weights!r}. Write weights=None for equal ones."
                )
            for weight in self.weights:
                why = "A weight of 0 or below would ignore or reward a risk."
                check_real("weights", weight, low=0, open_low=True, why=why)
        for part in self.risks:
            if part.clip is not None:
                raise ValueError(
                    f"A part of a mixture must have clip=None, got {part!r}: the limit is on what "
                    "enters the function, which is one sum. Write Mixture(..., clip="
                    f"{part.clip!r})."
                )
        trackers = [as_tracker(part.tracker) for part in self.risks if part.n_inner]
        for other in trackers[1:]:
            if other != trackers[0]:
                raise ValueError(
                    f"The risks of a mixture must have the same tracker, got {trackers[0]!r} and "
                    f"{other!r}. One pass over the stream can track in one way only."
                )
        super()._check()

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
        """Those of the parts; names that occur again are numbered."""
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
        """Smallest range that holds those of all parts with inner expectations."""
        ranges = [part.inner_range for part in self.risks if part.n_inner]
        if not ranges:
            return -math.inf, math.inf
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    @property
    def tracker(self) -> Tracker | str:  # type: ignore[override]
        """The tracker that all parts with inner expectations have."""
        return next((part.tracker for part in self.risks if part.n_inner), "momentum")

    def inner(self, targets: Array, values: Array, losses: Array, slopes: Array) -> Inner:
        """See :class:`Risk`."""
        parts = [part.inner(targets, values, losses, slopes) for part in self.risks]
        return Inner(
            np.concatenate([part.value for part in parts], axis=1),
            np.concatenate([part.derivative for part in parts], axis=1),
        )

    def outer(self, losses: Array, inner: Array, scalars: Array, unit: float) -> Outer:
        """See :class:`Risk`."""
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
        """See :class:`Risk`."""
        return np.concatenate([part.start(losses) for part in self.risks])

    def scalar_steps(self, unit: float) -> Array:
        """See :class:`Risk`: divided by the weights, so that the scalars move as they do alone."""
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


def added(left: Risk, right: Risk) -> Mixture:
    """Sum of two risks; sums of sums are flat.

    Raises
    ------
    ValueError
        As :class:`Mixture`.
    """
    risks, weights = zip(*_terms(left), *_terms(right), strict=True)
    return Mixture(list(risks), list(weights))


def scaled(risk: Risk, factor: float) -> Mixture:
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
    # A mixture with a clip or units of its own is kept whole.
    if type(risk) is Mixture and risk.clip is None and risk.units == "running":
        return [(part, weight) for part, weight, _, _ in risk._parts()]
    return [(risk, 1.0)]
