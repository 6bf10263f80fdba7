"""Sums over the rows of steps, which lie in several places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.learning import Ask
from mercer.sums import Rows

Array = NDArray[np.float64]

# Rows whose features are in memory together.
_TOGETHER = 4096

#: Maps the step, the question and its argument to sums over some rows of the step each, in an order
#: that does not depend on the workers.
Gather = Callable[[int, Ask, Any], Sequence[list[Array]]]


def total_of(pieces: Iterable[Rows], ask: Ask, of: Any) -> list[Array]:
    """Sum over rows in pieces.

    Parameters
    ----------
    pieces : iterable of Rows
        The rows; at least one piece, if of no rows.
    ask, of
        As of :meth:`mercer.learning.StepsElsewhere.total`.
    """
    some = (
        rows[start : start + _TOGETHER]
        for rows in pieces
        for start in range(0, max(len(rows), 1), _TOGETHER)
    )
    return _added([ask(rows, of) for rows in some])


def _added(found: Sequence[list[Array]]) -> list[Array]:
    return reduce(lambda one, more: [a + b for a, b in zip(one, more, strict=True)], found)


class Totals:
    """Sums over rows of steps: :class:`mercer.learning.StepsElsewhere`.

    Parameters
    ----------
    n_steps : int
        Steps of a pass.
    gather : callable
        Brings the sums over the rows of a step.
    """

    def __init__(self, n_steps: int, gather: Gather) -> None:
        self.n_steps, self._gather = n_steps, gather

    def total(self, step: int, ask: Ask, of: Any, held: Rows | None = None) -> list[Array]:
        """Sum over the rows of a step, and its share of the rows held back."""
        found = list(self._gather(step, ask, of))
        if held is not None:
            found.append(ask(held[step :: self.n_steps], of))
        return _added(found)
