"""A part of many cells, each a ridge regression of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.kernels._cells import rows_by_cell
from mercer.maps import Affine
from mercer.parts._cell import RIDGES, Cell
from mercer.sums import Rows

__all__ = ["CellsPart"]

Array = NDArray[np.float64]

# Cells, spread evenly, whose errors choose the ridge of all.
_ASKED = 64
# Rows as a multiple of the dictionary beyond which a cell is split, if cells are.
_CROWDED = 8
# Where old rows are forgotten, times over which they fade until a cell chooses its points anew.
_FADED = 4.0


class CellsPart:
    """Kernel expansion with a partitioned kernel, fitted cell by cell by least squares.

    Learning a row costs what one cell costs, however many there are. A cell's predictions are
    cut to the range of the targets it has seen.

    Parameters
    ----------
    partition : Partitioned
        Kernel of mapped rows, resolved.
    map : Affine or None
        Map of the inputs; None for none.
    size : int
        Points of a cell.
    n_outputs : int
        Number of targets C.
    max_cells : int, default=0
        Cells that have many rows are split while there are fewer cells than this.
    forgetting : float, default=1.0
        Factor of a cell's sums for each row that it learns.
    """

    form = "cells"

    def __init__(
        self,
        partition: Partitioned,
        map: Affine | None,
        size: int,
        n_outputs: int,
        max_cells: int = 0,
        forgetting: float = 1.0,
    ) -> None:
        self.partition = partition
        self.map = map
        self.size = size
        self.n_outputs = n_outputs
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.ridges = RIDGES
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        #: Whether cells that have many rows are split.
        self.may_split = True
        self.cells = [self._new(c) for c in range(partition.n_cells)]

    def _new(self, cell: int, parent: Cell | None = None) -> Cell:
        inside = self.partition.inside(cell)
        none = Rows.none(inside.centres.shape[1], self.n_outputs, np.float64)
        before = None if parent is None else parent.predictor
        constant = float(inside.constant)
        made = Cell(inside.kernel, constant, self.size, none, before, self.forgetting)
        if parent is not None:
            made.range = parent.range
        return made

    @property
    def kernel(self) -> Kernel:
        """Kernel of the expansion."""
        return self.partition if self.map is None else Mapped(self.partition, self.map)

    @property
    def n_points(self) -> int:
        """Points of all cells."""
        return sum(len(cell.predictor.points) for cell in self.cells)

    def _image(self, X: Any) -> Any:
        rows = X if self.map is None else self.map(X)
        return np.ascontiguousarray(rows)

    def _placed(self, X: Any) -> tuple[Array, dict[int, NDArray[np.int64]]]:
        """Images of rows, in float64, and which of them are in which cell."""
        images = self._image(X)
        return images.astype(np.float64, copy=False), rows_by_cell(self.partition.cells(images))

    def learn(self, rows: Rows) -> None:
        """Add rows to the sums of their cells."""
        images, members = self._placed(rows.X)
        mapped = Rows(images, rows.targets, rows.weights)
        while (crowded := self._first_crowded(members)) is not None:
            # Just when it has so many rows, however the stream is cut.
            number, n = crowded
            mine = members.pop(number)
            self.cells[number].learn(mapped[mine[:n]])
            self._split(number) if self._splits else self._renew(number)
            rest = mine[n:]
            of_rest = rows_by_cell(self.partition.cells(images[rest]))
            members.update({cell: rest[some] for cell, some in of_rest.items()})
        for number, mine in members.items():
            self.cells[number].learn(mapped[mine])

    @property
    def _splits(self) -> bool:
        return self.may_split and len(self.cells) < self.max_cells

    def _first_crowded(self, members: dict[int, NDArray[np.int64]]) -> tuple[int, int] | None:
        """Cell that is the first to be split or renewed, and its rows before that."""
        limit = _CROWDED * self.size
        if not self._splits:
            if self.forgetting == 1.0:
                return None
            limit = max(limit, math.ceil(_FADED / (1.0 - self.forgetting)))
        missing = {c: limit - self.cells[c].n_rows for c in members}
        crowded = [c for c, mine in members.items() if 0 < missing[c] <= len(mine)]
        if not crowded:
            return None
        first = min(crowded, key=lambda c: int(members[c][missing[c] - 1]))
        return first, missing[first]

    def _split(self, number: int) -> None:
        """Divide a cell; its halves predict as it did until they have rows enough of their own."""
        cell = self.cells[number]
        equations = cell.equations()
        if equations is None or len(cell.function.points) < 2:
            return
        try:
            partition = self.partition.split(number, cell.function.points)
        except ValueError:
            return  # its points differ by less than what a mean of them is rounded by
        cell.finish(equations, None, cell.general_ridge(equations, self.ridges))
        self.partition = partition
        self.cells[number] = self._new(number, cell)
        self.cells.append(self._new(len(self.cells), cell))

    def _renew(self, number: int) -> None:
        """Let a cell choose its points anew: the rows that they are have long been forgotten."""
        cell = self.cells[number]
        equations = cell.equations()
        if equations is not None:
            cell.finish(equations, None, cell.general_ridge(equations, self.ridges))
            self.cells[number] = self._new(number, cell)

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on rows that were not learned, then learn them, too.

        All cells share it: one of many has few of these rows, too few to choose by.

        Parameters
        ----------
        held : Rows
            Rows kept back from :meth:`learn`.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Values at the rows before they were learned.
        """
        images, members = self._placed(held.X)
        mapped = Rows(images, held.targets, held.weights)
        ridge = self._best_ridge(mapped.aged(self.forgetting), members)
        mean, centres = self._mean_target(), self.partition.centres
        predictions = np.tile(mean, (len(held), 1))
        for number, cell in enumerate(self.cells):
            some, ours = members.get(number), cell.equations()
            more = None if some is None else mapped[some]
            if more is not None:
                if ours is not None:
                    predictions[some] = cell.path(ours, more.X, [ridge])[0]
                elif cell.before is not None:
                    predictions[some] = cell.evaluate(more.X)
                else:
                    ours = cell.nothing_yet(more)
            if ours is not None:
                cell.finish(ours, more, ridge)
            elif cell.before is None:
                cell.say(mean, centres[number])
        return predictions

    def _best_ridge(self, judges: Rows, members: dict[int, NDArray[np.int64]]) -> float:
        """Ridge with the least squared error at mapped rows, of some cells if there are many."""
        able = [number for number in sorted(members) if self.cells[number].has_equations]
        places = np.linspace(0, len(able) - 1, min(len(able), _ASKED)).astype(int)
        errors = np.zeros(self.ridges.size)
        for place in places if self.ridges.size > 1 else []:
            cell, rows = self.cells[able[place]], judges[members[able[place]]]
            ours = cell.equations()
            assert ours is not None
            path = cell.path(ours, rows.X, self.ridges)
            errors += np.sum(((path - rows.targets) / self.unit) ** 2, axis=2) @ rows.weights
        return float(self.ridges[int(np.argmin(errors))])

    def _mean_target(self) -> Array:
        totals = [cell.total() for cell in self.cells]
        weight = sum(weight for _, weight in totals)
        sums = np.sum([sums for sums, _ in totals], axis=0)
        return np.asarray(sums / weight if weight > 0.0 else sums)

    def evaluate(self, X: Any) -> Array:
        """Values at rows, shape (n, n_outputs)."""
        images, members = self._placed(X)
        values = np.zeros((len(images), self.n_outputs))
        for number, mine in members.items():
            cell = self.cells[number]
            if len(cell.predictor.points):
                values[mine] = cell.evaluate(images[mine])
        return values

    @property
    def dictionary(self) -> Any:
        """Points of all cells in units of the mapped inputs, one cell after the other."""
        return np.concatenate([cell.predictor.points for cell in self.cells])

    @property
    def coefficients(self) -> Array:
        """Coefficients of the :attr:`dictionary`, (n_points, n_outputs)."""
        return np.concatenate([cell.predictor.coefficients for cell in self.cells])

    @property
    def sum_bytes(self) -> int:
        """Memory of the sums in a file."""
        return sum(4 * len(cell.function.points) ** 2 for cell in self.cells)

    def fix_ridge(self, ridge: float | None) -> None:
        """Use this ridge and try no others; or, for None, choose among all again."""
        self.ridges = RIDGES if ridge is None else np.array([ridge])

    def map_outputs(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.n_outputs = offset.size
        self.unit = np.ones(offset.size)
        for cell in self.cells:
            cell.map_outputs(codes, offset)
