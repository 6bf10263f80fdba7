"""Interface of learners whose rows are learned in several places (processes or machines)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.objectives import Objective, Pointwise
from mercer.sums import CellsPart, Rows

Array = NDArray[np.float64]

#: Most steps of a pass over rows that lie elsewhere: each step costs a round of messages.
MOST_STEPS = 48


class Layout(NamedTuple):
    """Plan of the work on rows, wherever these lie.

    Attributes
    ----------
    rows : callable
        Maps inputs, encoded targets and weights to the :class:`mercer.sums.Rows` to learn.
    summands : dict of int to object
        Objects that sum up rows, by the number of the component: regressions that have learned no
        rows yet. They have ``learn(rows)`` and ``merge(other)``.
    partitions : dict of int to CellsPart
        Components, by number, that need all rows of each of their regions in one place.
    n_steps : int
        Number of steps of a pass over all rows that follows; 0 for none.
    """

    rows: Callable[[Any, Array, Array], Rows]
    summands: dict[int, Any]
    partitions: dict[int, CellsPart]
    n_steps: int = 0


class Solved(NamedTuple):
    """A solved component with cells.

    Attributes
    ----------
    part : CellsPart
        The component.
    values : ndarray of shape (n_held, n_outputs)
        Predictions for the held out rows by a fit without them.
    """

    part: CellsPart
    values: Array


class Ask(Protocol):
    """Function that is summed over rows where they lie; it can be pickled."""

    def __call__(self, rows: Rows, of: Any, /) -> list[Array]:
        """Return sums over rows.

        Parameters
        ----------
        rows : Rows
            The rows; there may be none.
        of : object
            Argument that changes from step to step, such as coefficients.
        """


class StepsElsewhere(Protocol):
    """Rows that lie elsewhere, divided into the steps that the layout asks for.

    Attributes
    ----------
    n_steps : int
        Number of steps of a pass over all rows that are not held out.
    """

    n_steps: int

    def total(self, step: int, ask: Ask, of: Any, held: Rows | None = None) -> list[Array]:
        """Return sums over the rows of a step.

        Parameters
        ----------
        step : int
            Number of the step.
        ask : Ask
            Function to sum; it is sent only once while it is the same object.
        of : object
            Second argument of ``ask``.
        held : Rows, default=None
            Held out rows, which are in this process: each step includes a share of them.
        """


class Elsewhere(Protocol):
    """Learner whose rows may be learned elsewhere."""

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Choose kernels, features and sizes from a sample in random order, and plan the rest.

        Parameters
        ----------
        X, targets, weights
            The sample, in the form of ``learn``.
        n_rows : int
            Total number of rows.
        n_regions : int
            Number of regions of a partition.
        """

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take over results from elsewhere, and make the choices that need held out rows.

        Parameters
        ----------
        held : Rows
            Held out rows: inputs, encoded targets and weights.
        solved : dict of int to Solved
            Solved partitions, by the number of the component.
        sums : dict of int to object
            Merged summands, by the number of the component.
        steps : StepsElsewhere, default=None
            Rows for steps, if the layout has steps.
        """


def refuse_elsewhere(objective: Objective) -> None:
    """Raise ValueError if rows of an objective cannot be learned in several places."""
    if type(objective) is not Pointwise:
        raise ValueError(
            f"The objective {type(objective).__name__} cannot be learned in several places: its "
            "rows belong together, or it follows averages from step to step. Use the mean of a "
            "loss, or learn all rows in one place."
        )
