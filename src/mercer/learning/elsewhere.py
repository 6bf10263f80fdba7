"""What a learner hands out, and takes back, where its rows are learned in several places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.objectives import Objective, Pointwise
from mercer.sums import CellsPart, Rows

Array = NDArray[np.float64]

#: Steps of a pass over rows that lie elsewhere, at most: each costs a round of messages.
MOST_STEPS = 48


class Layout(NamedTuple):
    """What is to be done with rows, wherever they are.

    Attributes
    ----------
    rows : callable
        Inputs, encoded targets and weights to the :class:`mercer.sums.Rows` that are learned.
    summands : dict of int to object
        What adds up rows: regressions that have learned none, by the number of the component. They
        have ``learn(rows)`` and ``merge(other)``.
    partitions : dict of int to CellsPart
        Components in whose regions rows are brought together, by their number.
    n_steps : int
        Steps of a pass over all rows, which follow; 0 for none.
    """

    rows: Callable[[Any, Array, Array], Rows]
    summands: dict[int, Any]
    partitions: dict[int, CellsPart]
    n_steps: int = 0


class Solved(NamedTuple):
    """A component of cells that are solved.

    Attributes
    ----------
    part : CellsPart
        The component.
    values : ndarray of shape (n_held, n_outputs)
        What it says of the rows held back before it has learned them.
    """

    part: CellsPart
    values: Array


class Ask(Protocol):
    """What is asked of rows; it can be pickled."""

    def __call__(self, rows: Rows, of: Any, /) -> list[Array]:
        """Sum over rows.

        Parameters
        ----------
        rows : Rows
            Perhaps none.
        of : object
            What changes from step to step, such as coefficients.
        """


class StepsElsewhere(Protocol):
    """Rows of steps, which lie elsewhere: each step has as many as the layout says.

    Attributes
    ----------
    n_steps : int
        Steps of a pass over all rows but those held back.
    """

    n_steps: int

    def total(self, step: int, ask: Ask, of: Any, held: Rows | None = None) -> list[Array]:
        """Sum over the rows of a step.

        Parameters
        ----------
        step : int
            Which one.
        ask : Ask
            It is sent once, as long as it is the same object.
        of : object
            Its second argument.
        held : Rows, default=None
            Rows held back, which are at hand: each step has its share of them.
        """


class Elsewhere(Protocol):
    """A learner whose rows may be learned elsewhere."""

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Choose all that is not learned from every row, from a sample in random order.

        Parameters
        ----------
        X, targets, weights
            The sample, as of ``learn``.
        n_rows : int
            Rows in all.
        n_regions : int
            Regions of a partition.
        """

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take over what was learned elsewhere, and choose what rows held back choose.

        Parameters
        ----------
        held : Rows
            Rows that nobody has learned: inputs, encoded targets and weights.
        solved : dict of int to Solved
            Partitions that are solved.
        sums : dict of int to object
            Merged summands.
        steps : StepsElsewhere, default=None
            The rows of steps, if some were laid out.
        """


def refuse_elsewhere(objective: Objective) -> None:
    """Raise ValueError if rows of an objective cannot be learned in several places."""
    if type(objective) is not Pointwise:
        raise ValueError(
            f"The objective {type(objective).__name__} cannot be learned in several places: its "
            "rows belong together, or it follows averages from step to step. Use the mean of a "
            "loss, or learn all rows in one place."
        )
