"""Ridge regressions in the cells of a partition, one for each cell, from sums of its own."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.kernels.partitioned import rows_by_cell
from mercer.maps import Affine
from mercer.sums.basis import distinct_rows
from mercer.sums.ridge import add_rows, check_regressions, general_ridge, merged, solutions
from mercer.sums.rows import Rows
from mercer.sums.statistics import Statistics, check_alike

__all__ = ["CELL_RIDGES", "Cell", "CellsPart", "LocalFunction", "no_range"]

Array = NDArray[np.float64]

#: Ridges that cells try.
CELL_RIDGES = np.array([1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
# A cell takes its dictionary from the rows it has once they are so many times its size, even if
# few of them are distinct.
_PATIENCE = 4
# Rows as a multiple of its size from which half of a cell that was split predicts by its own.
_TRUSTED = 3
# Cells, spread evenly, whose errors choose the ridge of all.
_ASKED = 64
# Rows as a multiple of the dictionary beyond which a cell is split, if cells are.
_CROWDED = 8
# Where old rows are forgotten, times over which they fade until a cell chooses its points anew.
_FADED = 4.0


class LocalFunction(NamedTuple):
    """What a cell predicts with: f(x) = sum_i c_i (k(x, d_i) + constant), cut to a range."""

    kernel: Kernel
    constant: float
    points: Array  # (n_points, n_features)
    coefficients: Array  # (n_points, n_outputs)
    range: Array  # (2, n_outputs): lowest and highest value; the other way round for any

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    def penalty(self) -> Array:
        """Kernel matrix of the points."""
        return self.features(self.points)

    def features(self, X: Array) -> Array:
        """Kernel values, (n, n_points)."""
        K = np.asarray(self.kernel(X, self.points), dtype=np.float64)
        K += self.constant
        return K

    def without_points(self) -> LocalFunction:
        """Return the function 0 on no points."""
        return self._replace(points=self.points[:0], coefficients=self.coefficients[:0])

    def mapped(self, codes: Array, offset: Array) -> LocalFunction:
        """Return the same function with other outputs."""
        ends = mapped_range(self.range, codes, offset)
        return self._replace(coefficients=self.coefficients @ codes, range=ends)


class Cell:
    """Sums over the rows of a cell.

    Until it has ``size`` distinct rows a cell keeps them all, and they are its dictionary. Then
    its dictionary stays as it is, and sums take the place of rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel inside the cell, resolved.
    constant : float
        Added to it.
    size : int
        Largest number of points.
    rows : Rows
        No rows, of the right shapes, in float64.
    before : LocalFunction or None, default=None
        What to predict with while there are few rows of the cell's own.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    """

    def __init__(
        self,
        kernel: Kernel,
        constant: float,
        size: int,
        rows: Rows,
        before: LocalFunction | None = None,
        forgetting: float = 1.0,
    ) -> None:
        n_features, n_outputs = rows.X.shape[1], rows.targets.shape[1]
        none = np.empty((0, n_features))
        #: Lowest and highest target learned; infinite, the other way round, without any.
        self.range = no_range(n_outputs)
        self.function = LocalFunction(kernel, constant, none, np.empty((0, n_outputs)), self.range)
        self.size = size
        self.before = before
        self.forgetting = forgetting
        self.rows: Rows | None = rows
        self.statistics: Statistics | None = None
        self.n_rows = 0

    @property
    def is_filling(self) -> bool:
        """Whether it keeps its rows."""
        return self.rows is not None

    @property
    def predictor(self) -> LocalFunction:
        """Function to predict with."""
        return self.function if self.before is None else self.before

    def learn(self, rows: Rows) -> None:
        """Add rows."""
        self.n_rows += len(rows)
        self.range = wider_range(self.range, rows.targets)
        if self.statistics is not None:
            self._add(self.statistics, rows)
            return
        assert self.rows is not None
        self.rows = Rows.joined([self.rows, rows])
        patience = _PATIENCE * self.size
        if len(self.rows) >= self.size:
            firsts = distinct_rows(self.rows.X[:patience])[: self.size]
            if firsts.size == self.size or len(self.rows) >= patience:
                self._freeze(self.rows, firsts)

    def _add(self, statistics: Statistics, rows: Rows) -> None:
        add_rows(statistics, self.function, rows, self.forgetting, max(len(rows), 1))

    def _freeze(self, rows: Rows, chosen: NDArray[np.int64]) -> None:
        # The first points are those it had before: it predicts as it did until it is solved.
        coefficients = np.zeros((chosen.size, rows.targets.shape[1]))
        coefficients[: len(self.function.coefficients)] = self.function.coefficients
        self.function = self.function._replace(points=rows.X[chosen], coefficients=coefficients)
        self.statistics = Statistics(chosen.size, rows.targets.shape[1])
        self._add(self.statistics, rows)
        self.rows = None

    @property
    def has_equations(self) -> bool:
        """Whether it has enough rows of its own to predict by them."""
        trusted = self.before is None or self.n_rows >= _TRUSTED * self.size
        return trusted and self.n_rows > 0 and (self.statistics is not None or bool(self.rows))

    def equations(self) -> tuple[Statistics, Array] | None:
        """Return sums and kernel matrix of the dictionary; None if there are none."""
        if not self.has_equations:
            return None
        if self.statistics is not None:
            return self.statistics, self.function.penalty()
        assert self.rows is not None
        statistics, penalty = self.begin_with(self.rows)
        self._add(statistics, self.rows)
        return statistics, penalty

    def total(self) -> tuple[Array, float]:
        """Weighted sum of the targets learned, (n_outputs,), and of the weights."""
        if self.statistics is not None:
            return self.statistics.target_sums, self.statistics.weight
        assert self.rows is not None
        rows = self.rows.discounted(self.forgetting)
        return rows.weights @ rows.targets, float(rows.weights.sum())

    def begin_with(self, rows: Rows) -> tuple[Statistics, Array]:
        """Take these rows as the dictionary; return sums of no row and its kernel matrix.

        One whose dictionary is fixed, though it has no rows, keeps it.
        """
        if self.statistics is not None:
            return self.statistics.copy(), self.function.penalty()
        points = rows.X[distinct_rows(rows.X)[: self.size]]
        self.function = self.function._replace(points=points)
        return Statistics(len(points), rows.targets.shape[1]), self.function.features(points)

    def path(self, equations: tuple[Statistics, Array], X: Array, ridges: Iterable[float]) -> Array:
        """Regularisation path: predictions at rows for all ridges, (n_ridges, n, n_outputs)."""
        Z = self.function.features(X)
        return np.stack([cut(Z @ w, self.range) for w in solutions(*equations, ridges)])

    def finish(self, equations: tuple[Statistics, Array], held: Rows | None, ridge: float) -> None:
        """Solve with some more rows; predictions go by the cell's own rows from now on."""
        statistics, penalty = equations
        ends = self.range
        if held is not None:
            ends = wider_range(ends, held.targets)
            statistics = statistics if statistics is not self.statistics else statistics.copy()
            self._add(statistics, held)
        (solution,) = solutions(statistics, penalty, [ridge])
        coefficients = np.ascontiguousarray(solution)  # as they are in a file
        self.function = self.function._replace(coefficients=coefficients, range=ends)
        self.before = None

    def merged(self, other: Cell) -> Cell:
        """Return a cell of the rows of both, those of ``other`` first; both stay as they are.

        Raises
        ------
        ValueError
            If both have fixed their dictionaries, on different points.
        """
        for cell in (self, other):
            if cell.rows is None and cell.statistics is None:
                raise ValueError(
                    "Cells without sums cannot be merged: they come from a file that was saved "
                    "without them. Save with expansion=Auto(resumable=True) to have them there."
                )
        made = copy.copy(self if self.rows is None else other)
        made.before = self.before if other.before is not None else None
        if self.rows is not None:
            # As if these rows went on where the other's end.
            if made.statistics is None:  # coefficients are of other points than it will choose
                made.function = self.function.without_points()
            else:
                made.statistics = made.statistics.copy()
            if len(self.rows):
                made.learn(self.rows)
            if made.is_filling:
                made.function = self.function
        else:
            assert self.statistics is not None
            earlier = other.statistics
            if earlier is None:
                assert other.rows is not None
                earlier = Statistics(len(self.function.points), len(self.range[0]))
                if len(other.rows):
                    self._add(earlier, other.rows)
            else:
                check_alike(
                    "points in each cell",
                    self.function.points,
                    other.function.points,
                    "Let one process learn until its cells have their points, and let all others "
                    "learn on copies of it (`emptied`).",
                )
            made.statistics = merged(self.statistics, earlier, self.forgetting)
        made.n_rows = self.n_rows + other.n_rows
        (low, high), (other_low, other_high) = self.range, other.range
        made.range = np.stack([np.minimum(low, other_low), np.maximum(high, other_high)])
        return made

    def emptied(self) -> Cell:
        """Return a cell with the same dictionary and function, and no rows."""
        made = copy.copy(self)
        made.n_rows, made.range = 0, no_range(self.range.shape[1])
        if self.rows is not None:
            made.rows = self.rows[:0]
        if self.statistics is not None:
            made.statistics = Statistics(*self.statistics.products.shape)
        return made

    def predict_constant(self, values: Array, at: Array) -> None:
        """Predict these values around a point while there is no row."""
        self.function = self.function._replace(points=at[np.newaxis])
        height = self.function.penalty()[0, 0]
        self.function = self.function._replace(coefficients=values[np.newaxis] / height)
        self.function = self.function._replace(range=no_range(len(values)))

    def evaluate(self, X: Array) -> Array:
        """Values at rows of the cell, (n, n_outputs), within the range of the targets seen."""
        function = self.predictor
        return cut(function.features(X) @ function.coefficients, function.range)

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.function = self.function.mapped(codes, offset)
        self.before = None if self.before is None else self.before.mapped(codes, offset)
        if self.rows is not None:
            self.rows = self.rows.map_targets(codes, offset)
        if self.statistics is not None:
            self.statistics.map_targets(codes, offset)
        self.range = mapped_range(self.range, codes, offset)


def no_range(n_outputs: int) -> Array:
    """Range without a target in it, which cuts nothing: (2, n_outputs)."""
    return np.repeat([[np.inf], [-np.inf]], n_outputs, axis=1)


def wider_range(ends: Array, targets: Array) -> Array:
    """Range with these targets in it, too."""
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.stack([np.minimum(ends[0], low), np.maximum(ends[1], high)])


def mapped_range(ends: Array, codes: Array, offset: Array) -> Array:
    """Range of the targets y @ codes + offset."""
    if ends[0, 0] > ends[1, 0]:
        return no_range(offset.size)
    return np.sort(ends @ codes + offset, axis=0)


def cut(values: Array, ends: Array) -> Array:
    """Values within a range; they are changed in place."""
    return values if ends[0, 0] > ends[1, 0] else np.clip(values, *ends, out=values)


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
        self.ridges = CELL_RIDGES
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
    def n_targets(self) -> int:
        """Number of targets C."""
        return self.n_outputs

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

    def _most_rows(self) -> int | None:
        """Rows with which a cell is split or renewed; None for never."""
        limit = _CROWDED * self.size
        if self._splits:
            return limit
        if self.forgetting == 1.0:
            return None
        return max(limit, math.ceil(_FADED / (1.0 - self.forgetting)))

    def _first_crowded(self, members: dict[int, NDArray[np.int64]]) -> tuple[int, int] | None:
        """Cell that is the first to be split or renewed, and its rows before that."""
        limit = self._most_rows()
        if limit is None:
            return None
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
        cell.finish(equations, None, general_ridge(*equations, self.ridges))
        self.partition = partition
        self.cells[number] = self._new(number, cell)
        self.cells.append(self._new(len(self.cells), cell))

    def _renew(self, number: int) -> None:
        """Let a cell choose its points anew: the rows that they are have long been forgotten."""
        cell = self.cells[number]
        equations = cell.equations()
        if equations is not None:
            cell.finish(equations, None, general_ridge(*equations, self.ridges))
            self.cells[number] = self._new(number, cell)

    def merge(self, other: CellsPart) -> None:
        """Add the rows that another part has learned, which stays as it is.

        They count as having come before those of this one, cell by cell. A cell that keeps its
        rows takes them over, or is taken over; two that have fixed their dictionaries need to have
        the same. Predictions go by all rows from the next solution on.

        Parameters
        ----------
        other : CellsPart
            Of the same partition.

        Raises
        ------
        ValueError
            If the partitions, the dictionaries or the settings differ; neither part has changed
            then.
        """
        for name in ("partition", "map", "size", "max_cells"):
            check_alike(
                f"`{name}`",
                getattr(self, name),
                getattr(other, name),
                "Let one process make the part, and let all others learn on copies of it "
                "(`emptied`); cells that are split apart cannot be put together.",
            )
        check_regressions(self, other)
        pairs = list(zip(self.cells, other.cells, strict=True))
        made = copy.copy(self)
        made.cells = [mine.merged(theirs) for mine, theirs in pairs]
        for number, (mine, theirs) in enumerate(pairs):
            most = made._most_rows()
            before, now = max(mine.n_rows, theirs.n_rows), made.cells[number].n_rows
            if most is not None and before < most <= now:
                made._split(number) if made._splits else made._renew(number)
        self.cells, self.partition = made.cells, made.partition

    def emptied(self) -> Self:
        """Return the same cells without rows: for those that are learned elsewhere."""
        empty = copy.copy(self)
        empty.cells = [cell.emptied() for cell in self.cells]
        return empty

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on rows that were not learned, then learn them for the moment, too.

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
        ridge = self._best_ridge(mapped.discounted(self.forgetting), members)
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
                    ours = cell.begin_with(more)
            if ours is not None:
                cell.finish(ours, more, ridge)
            elif cell.before is None and cell.statistics is None:
                cell.predict_constant(mean, centres[number])
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
        self.ridges = CELL_RIDGES if ridge is None else np.array([ridge])

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.n_outputs = offset.size
        self.unit = np.ones(offset.size)
        for cell in self.cells:
            cell.map_targets(codes, offset)
