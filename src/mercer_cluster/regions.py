"""Cells of a part of space, from all rows that lie there: small problems that need nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.learning import Solved
from mercer.sums import CellsPart, Rows, squared_error
from mercer_cluster.keys import KeyedRows
from mercer_cluster.settings import Settings

Array = NDArray[np.float64]

# Rows that a cell gets, about, of those that make it full.
_FULL = 0.8


class Region(NamedTuple):
    """Solved cells of a part of the space.

    Attributes
    ----------
    part : CellsPart
        The cells.
    numbers : ndarray of shape (n,) of int
        Which of the rows held back lie in the region.
    values : ndarray of shape (n, n_outputs)
        Predictions of the cells for these rows before learning them.
    n_rows : int
        Rows that were learned.
    error : float
        Sum of the squared errors at rows before they were learned: those held back, and some more.
    """

    part: CellsPart
    numbers: NDArray[np.int64]
    values: Array
    n_rows: int
    error: float


#: Solves the regions of several numbers, each with a given number of rows per cell.
Solve = Callable[[Sequence[tuple[int, int]]], list[Region]]


class Regions:
    """The regions of all partitions of a plan.

    A cell keeps its rows, each of which becomes a point, or it takes some of them as points of sums
    over all. In that case a cell may have thousands of rows, which average the noise, and the model
    is smaller by as much. Which is better depends on the noise and on the roughness of the
    function, so a few regions of each partition try both; errors on held-out rows decide for all.

    Parameters
    ----------
    partitions : dict of int to CellsPart
        Components, whose cells are the regions, by their number.
    held : Rows
        Rows held back, as they are learned.
    n_rows : int
        Rows in all.
    settings : Settings
        Sizes.
    """

    def __init__(
        self, partitions: dict[int, CellsPart], held: Rows, n_rows: int, settings: Settings
    ) -> None:
        self.partitions = partitions
        self._held, self._n_rows, self._settings = held, n_rows, settings
        self.places = [
            (number, region)
            for number, part in partitions.items()
            for region in range(part.partition.n_cells)
        ]

    def __len__(self) -> int:
        return len(self.places)

    def pieces(self, keyed: KeyedRows) -> list[tuple[int, KeyedRows]]:
        """Rows of each region, mapped, with the region's number; none of those without rows."""
        found, first = [], 0
        for part in self.partitions.values():
            images, members = self._mapped(part, keyed.rows)
            mapped = KeyedRows(images, keyed.keys)
            found += [(first + region, mapped.take(mine)) for region, mine in members.items()]
            first += part.partition.n_cells
        return found

    @staticmethod
    def _mapped(part: CellsPart, rows: Rows) -> tuple[Rows, dict[int, NDArray[np.int64]]]:
        images, members = part.place(rows.X)
        return Rows(images, rows.targets, rows.weights), members

    def solve(self, number: int, rows_per_cell: int, pieces: Sequence[KeyedRows]) -> Region:
        """Lay out and solve the cells of a region.

        Parameters
        ----------
        number : int
            Which one.
        rows_per_cell : int
            Rows of a cell, about: one of :meth:`choices`.
        pieces : sequence of KeyedRows
            All of its rows, mapped; their keys put them in order.
        """
        component, region = self.places[number]
        whole, settings = self.partitions[component], self._settings
        mapped, members = self._mapped(whole, self._held)
        numbers = members.get(region, np.zeros(0, dtype=np.int64))
        held = mapped[numbers]
        rows = KeyedRows.joined(pieces).in_order() if pieces else held[:0]
        n_judging = min(int(settings.judging * len(rows)), settings.most_judging)
        learned, judges = rows[n_judging:], Rows.joined([held, rows[:n_judging]])
        part = self._cells(whole, region, learned if len(learned) else held, rows_per_cell)
        part.learn(learned)
        values, error = part.solve(judges), 0.0
        if len(judges):
            error = squared_error(values, judges, whole.unit) * float(judges.weights.sum())
        return Region(part.compact(), numbers, values[: len(held)], len(rows), error)

    def _cells(self, whole: CellsPart, region: int, rows: Rows, rows_per_cell: int) -> CellsPart:
        """Return the cells of a region before learning."""
        outer, n_cells = whole.partition, max(1, len(rows) // rows_per_cell)
        if whole.max_cells == 0 or not len(rows):  # the user chose the cells, or there are no rows
            partition = outer.inside(region)
        else:
            partition = type(outer).balanced(
                rows.X,
                n_cells,
                kernel=outer.kernel,
                constant=float(outer.constant),
                columns=whole.along_columns,
                seed=outer.seed + region,
            )
        part = CellsPart(
            partition,
            None,
            whole.size,
            whole.n_outputs,
            2 * n_cells if rows_per_cell == self._kept(whole) else n_cells,
            whole.forgetting,
            whole.keeps,
            whole.dtype,
            whole.first_ridge,
        )
        part.unit = whole.unit
        return part

    @staticmethod
    def _kept(whole: CellsPart) -> int:
        """Rows of a cell that keeps them, about."""
        return int(_FULL * whole.keeps)

    def choices(self, component: int) -> list[int]:
        """Rows per cell that are worth trying, of a component; the model's memory bounds cells."""
        whole = self.partitions[component]
        if whole.max_cells == 0:
            return [self._kept(whole)]
        least = max(self._kept(whole), -(-self._n_rows // whole.max_cells))
        by_sums = [multiple * whole.size for multiple in self._settings.rows_per_point]
        found = [least] if least == self._kept(whole) else []
        found += [rows for rows in by_sums if rows >= least]
        largest = self._n_rows // max(1, whole.partition.n_cells)
        return [rows for rows in found if rows <= largest] or [least]

    def pilots(self, component: int) -> list[int]:
        """Numbers of the regions of a component that try."""
        mine = [number for number, (of, _) in enumerate(self.places) if of == component]
        some = np.linspace(0, len(mine) - 1, min(len(mine), self._settings.pilots)).astype(int)
        return [mine[place] for place in np.unique(some)]

    def solved(self, solve: Solve) -> list[Region]:
        """Solve all regions, with as many rows to a cell as those that try find best.

        Parameters
        ----------
        solve : callable
            Pairs of numbers and rows per cell to regions; it may solve them anywhere.
        """
        tried = [
            (number, rows)
            for component in self.partitions
            for rows in self.choices(component)
            for number in self.pilots(component)
            if len(self.choices(component)) > 1
        ]
        found = dict(zip(tried, solve(tried), strict=True))
        best = {
            component: min(
                self.choices(component),
                key=lambda rows: sum(
                    found[number, rows].error
                    for number in self.pilots(component)
                    if (number, rows) in found
                ),
            )
            for component in self.partitions
        }
        wanted = [(number, best[component]) for number, (component, _) in enumerate(self.places)]
        left = [pair for pair in wanted if pair not in found]
        found.update(zip(left, solve(left), strict=True))
        return [found[pair] for pair in wanted]

    def joined(self, regions: Sequence[Region]) -> dict[int, Solved]:
        """Components of the regions of each partition."""
        made: dict[int, Solved] = {}
        for component, whole in self.partitions.items():
            pairs = zip(self.places, regions, strict=True)
            mine = [one for (of, _), one in pairs if of == component]
            values: Any = np.empty((len(self._held), whole.n_outputs))
            for one in mine:
                values[one.numbers] = one.values
            made[component] = Solved(CellsPart.joined(whole, [one.part for one in mine]), values)
        return made
