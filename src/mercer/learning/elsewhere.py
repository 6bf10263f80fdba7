"""What a learner hands out, and takes back, where its rows are learned in several places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.sums import CellsPart, Rows

__all__ = ["Elsewhere", "Layout", "Solved"]

Array = NDArray[np.float64]


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
        Newton steps of a pass over all rows, which follow; 0 for none.
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
        self, held: Rows, solved: dict[int, Solved], sums: dict[int, Any], gradients: Any = None
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
        gradients : Gradients, default=None
            Of the loss at all rows, if Newton steps were laid out.
        """
