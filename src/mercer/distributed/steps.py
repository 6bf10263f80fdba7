"""Gradients of Newton steps whose rows lie in several places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.default.newton import gradients_of
from mercer.losses import Loss
from mercer.sums import Basis, Rows

__all__ = ["Gather", "Gradient", "GradientsElsewhere"]

Array = NDArray[np.float64]

# Rows whose features are in memory together.
_TOGETHER = 4096


class Gradient(NamedTuple):
    """Sums over some rows.

    Attributes
    ----------
    weight : float
        Of the weights.
    sums : list of ndarray
        Of the weighted gradients in the coefficients of each component.
    """

    weight: float
    sums: list[Array]

    @classmethod
    def of(
        cls,
        pieces: Iterable[Rows],
        loss: Loss,
        bases: Sequence[Basis],
        coefficients: Sequence[Array],
    ) -> Gradient:
        """Sum over rows in pieces.

        Parameters
        ----------
        pieces : iterable of Rows
            The rows.
        loss, bases, coefficients
            As of :func:`mercer.default.newton.gradients_of`, and what makes the features.
        """
        total = cls(0.0, [np.zeros_like(each) for each in coefficients])
        for rows in pieces:
            for start in range(0, len(rows), _TOGETHER):
                some = rows[start : start + _TOGETHER]
                features = [basis.features(some.X) for basis in bases]
                found = gradients_of(loss, some, features, coefficients)
                total = total.plus(cls(float(some.weights.sum()), found))
        return total

    def plus(self, other: Gradient) -> Gradient:
        """Sum over the rows of both."""
        pairs = zip(self.sums, other.sums, strict=True)
        return Gradient(self.weight + other.weight, [one + more for one, more in pairs])


#: Step, loss, bases and coefficients to the gradients of some rows of the step each, in an order
#: that does not depend on who works.
Gather = Callable[[int, Any, Sequence[Basis], Sequence[Array]], Sequence[Gradient]]


class GradientsElsewhere:
    """Gradients of steps, see :class:`mercer.default.newton.Gradients`.

    Parameters
    ----------
    n_steps : int
        Steps of a pass.
    loss : Loss
        What is minimised.
    held : Rows
        Rows held back, which are at hand.
    gather : callable
        Brings the gradients of all others.
    """

    def __init__(self, n_steps: int, loss: Loss, held: Rows, gather: Gather) -> None:
        self.n_steps, self.loss, self.held = n_steps, loss, held
        self._gather = gather
        self._with_held = False

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[int]:
        """Numbers of the steps; each has as many rows as the plan says."""
        self._with_held = held
        return [step for _ in range(n_passes) for step in range(self.n_steps)]

    def visit(self, step: int, bases: Sequence[Basis]) -> int:
        """Return the step: its rows are elsewhere."""
        return step

    def at(
        self, visited: int, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Gradient of the mean loss, rows held back among the others if these are learned, too."""
        found = list(self._gather(visited, self.loss, bases, coefficients))
        if self._with_held:
            some = self.held[visited :: self.n_steps]
            found.append(Gradient.of([some], self.loss, bases, coefficients))
        total = found[0]
        for one in found[1:]:
            total = total.plus(one)
        return [each / total.weight for each in total.sums]
