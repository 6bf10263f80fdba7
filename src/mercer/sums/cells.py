"""Ridge regressions in the cells of a partition, one for each cell: of all its rows, or by sums."""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.kernels.cells import rows_by_cell
from mercer.maps import FixedMap
from mercer.sums.basis import in_single
from mercer.sums.exact import ExactFit, ExactRidge, scaled_product
from mercer.sums.ridge import (
    add_rows,
    check_regressions,
    descend,
    general_ridge,
    merged,
    solutions,
)
from mercer.sums.rows import Rows, distinct_rows
from mercer.sums.statistics import Statistics, check_alike
from mercer.threads import in_order

Array = NDArray[np.float64]

#: Ridges that cells try, from the strongest to the weakest.
CELL_RIDGES = 10.0 ** -np.arange(1.0, 7.0, 0.5)
# Number of the ridge that they begin with.
_FIRST = 4
# Rows that are mapped and placed at a time.
_CHUNK = 4096
# Rows as a multiple of its points from which a cell that has chosen them anew predicts by them.
_TRUSTED = 2
# Cells, spread evenly, whose errors choose the ridge of all: that keep their rows, or have sums.
_ASKED, _ASKED_SUMS = 10, 64
# A cell that is full goes on where no more than such a part of its rows are distinct.
_REPEATED = 0.75
# Where old rows are forgotten, rows as a multiple of its points, and times over which they fade,
# until a cell chooses its points anew.
_CROWDED, _FADED = 8, 4.0
# Ridges below this need double precision; and more than rounding can ask for.
_WEAK, _STRONGEST = 3e-7, 1e6


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

    def penalty(self) -> Any:
        """Kernel matrix of the points."""
        return self.features(self.points)

    def features(self, X: Any) -> Any:
        """Kernel values, (n, n_points), in the precision of the points."""
        K: Any = self.kernel(X.astype(self.points.dtype, copy=False), self.points)
        K += K.dtype.type(self.constant)
        return K

    def evaluate(self, X: Any) -> Array:
        """Values at rows, (n, n_outputs), within the range.

        In double precision: coefficients may be so large that the last bits of single kernel
        values, which depend on the rows beside, are seen in the values.
        """
        precise = self._replace(points=self.points.astype(np.float64, copy=False))
        values: Array = scaled_product(precise.features(X), self.coefficients)
        return cut(values, self.range)

    def mapped(self, codes: Array, offset: Array) -> LocalFunction:
        """Return the same function with other outputs."""
        ends = mapped_range(self.range, codes, offset)
        return self._replace(coefficients=self.coefficients @ codes, range=ends)


class Cell:
    """Sums over the rows of a cell.

    A cell keeps its rows, all of which are points, until it is full. Then it is split, or
    :meth:`freeze` takes some of them as its dictionary, and sums take the place of rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel inside the cell, resolved.
    constant : float
        Added to it.
    size : int
        Largest number of points beside sums.
    rows : Rows
        Rows to begin with or none, in the precision in which it computes; they do not count as
        learned.
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
        none = np.empty((0, n_features), rows.X.dtype)
        #: Lowest and highest target learned; infinite, the other way round, without any.
        self.range = no_range(n_outputs)
        self.function = LocalFunction(kernel, constant, none, np.empty((0, n_outputs)), self.range)
        self.size = size
        self.before = before
        #: Rows of its own from which what it predicted before is given up.
        self.patience = 0
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
        else:
            assert self.rows is not None
            self.rows = Rows.joined([self.rows, rows])

    def _add(self, statistics: Statistics, rows: Rows) -> None:
        add_rows(statistics, self.function, rows, self.forgetting, max(len(rows), 1))

    def is_full(self, keeps: int) -> bool:
        """Whether it has so many rows, once those that repeat are one with all their weight."""
        assert self.rows is not None
        if len(self.rows) < keeps:
            return False
        if self.forgetting == 1.0:  # else rows weigh by their age
            self.rows = self.rows.without_repeats()
        return len(self.rows) > _REPEATED * keeps

    def freeze(self) -> None:
        """Let the first rows be the dictionary for good, and sums take the place of rows."""
        assert self.rows is not None
        rows, before = self.rows, self.predictor
        chosen = distinct_rows(rows.X)[: self.size]
        n_outputs = rows.targets.shape[1]
        none = np.zeros((chosen.size, n_outputs))
        # It predicts as it did until it is solved.
        self.before = before if before.size else None
        points = rows.X[chosen].astype(np.float64)  # in which sums hide no eigenvalues
        self.function = self.function._replace(points=points, coefficients=none)
        self.statistics = Statistics(chosen.size, n_outputs)
        self._add(self.statistics, rows)
        self.rows = None

    @property
    def has_rows(self) -> bool:
        """Whether it has enough rows of its own to predict by them."""
        return self.n_rows > 0 and (self.before is None or self.n_rows >= self.patience)

    def total(self) -> tuple[Array, float]:
        """Weighted sum of the targets learned, (n_outputs,), and of the weights."""
        if self.statistics is not None:
            return self.statistics.target_sums, self.statistics.weight
        assert self.rows is not None
        rows = self.rows.discounted(self.forgetting)
        return rows.weights @ rows.targets, float(rows.weights.sum())

    def values_at(self, held: Rows, ridge: float, most: int) -> Array:
        """Values at rows, (n_held, n_outputs), by the cell's own, of which it has some."""
        if self.rows is None:
            assert self.statistics is not None
            (w,) = solutions(self.statistics, self.function.penalty(), [ridge])
            return cut(self.function.features(held.X) @ w, self.range)
        if self.forgetting == 1.0 and len(held) <= most:
            exact, fit, _ = self._exact(Rows.joined([self.rows, held]), ridge)
            return cut(held.targets - exact.held_out(fit, len(held)), self.range)
        # Beside younger rows the first ones would weigh less than by themselves.
        alone = self._fitted(self.rows, ridge, most)._replace(range=self.range)
        return alone.evaluate(held.X)

    def solve(self, held: Rows | None, ridge: float, most: int) -> Array | None:
        """Solve with some more rows; predictions go by the cell's own rows from now on.

        Parameters
        ----------
        held : Rows or None
            Rows that are not learned, which the solution is to have, too.
        ridge : float
            The ridge.
        most : int
            Rows beyond which those that are not learned are no points of a cell that keeps its own,
            unless there is nothing else.

        Returns
        -------
        values : ndarray of shape (n_held, n_outputs) or None
            Values at these rows by all others; None if there are none of either.
        """
        ends = self.range if held is None else wider_range(self.range, held.targets)
        values = None
        if self.rows is None:
            assert self.statistics is not None
            if held is not None and self.n_rows:
                values = self.values_at(held, ridge, most)
            statistics = self.statistics.copy()
            if held is not None:
                self._add(statistics, held)
            (w,) = solutions(statistics, self.function.penalty(), [ridge])
            function = self.function._replace(coefficients=np.ascontiguousarray(w))
        elif held is None:
            function = self._fitted(self.rows, ridge, most)
        elif not len(self.rows):
            function = self._fitted(held, ridge, most)
        elif self.forgetting == 1.0 and len(held) <= most:
            n, together = len(self.rows), Rows.joined([self.rows, held])
            exact, fit, function = self._exact(together, ridge)
            values = cut(held.targets - exact.held_out(fit, len(held)), self.range)
            self.rows = together[:n]  # which are points: in memory once
        else:
            values = self.values_at(held, ridge, most)
            function = self._fitted(Rows.joined([self.rows, held]), ridge, most)
        self.function = function._replace(range=ends)
        self.before = None
        return values

    def _fitted(self, rows: Rows, ridge: float, most: int) -> LocalFunction:
        """Fit to rows: exact, or by sums where they are too many."""
        if len(rows) <= 2 * most:
            return self._exact(rows, ridge)[2]
        if self.forgetting == 1.0:
            rows = rows.without_repeats()
        if len(rows) <= 2 * most:
            return self._exact(rows, ridge)[2]
        points = rows.X[distinct_rows(rows.X)[-most:]].astype(np.float64)
        function = self.function._replace(points=points)
        statistics = Statistics(len(points), rows.targets.shape[1])
        add_rows(statistics, function, rows, self.forgetting, len(rows))
        (w,) = solutions(statistics, function.penalty(), [ridge])
        return function._replace(coefficients=np.ascontiguousarray(w))

    def _exact(self, rows: Rows, ridge: float) -> tuple[ExactRidge, ExactFit, LocalFunction]:
        """Fit with a point at every row, in double precision where the ridge is too weak."""
        aged = rows.discounted(self.forgetting)
        for dtype in (rows.X.dtype, np.dtype(np.float64)) if ridge >= _WEAK else (np.float64,):
            function = self.function._replace(points=rows.X.astype(dtype, copy=False))
            exact = ExactRidge(function.penalty(), aged.targets, aged.weights)
            fit = exact.fit(ridge)
            if fit is not None:
                break
        while fit is None:  # rows that hardly differ: rounding wants more
            if not ridge < _STRONGEST:
                raise ValueError(
                    f"{function.kernel!r} is not positive definite on {len(rows)} rows. Use "
                    "another kernel, or rescale the inputs."
                )
            ridge *= 10.0
            fit = exact.fit(ridge)
        coefficients = np.ascontiguousarray(fit.coefficients)
        return exact, fit, function._replace(coefficients=coefficients)

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
            if made.statistics is not None:
                made.statistics = made.statistics.copy()
            else:
                made.function = self.function
            if len(self.rows):
                made.learn(self.rows)
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

    def renewed(self, rows: Rows) -> Cell:
        """Return a cell that has these rows or none, and predicts as this one until it is solved.

        Without rows it keeps the range of the targets.
        """
        kernel, constant = self.function.kernel, self.function.constant
        before = self.predictor if self.predictor.size else None
        made = Cell(kernel, constant, self.size, rows, before, self.forgetting)
        made.n_rows = len(rows)
        made.range = wider_range(made.range, rows.targets) if len(rows) else self.range
        return made

    def compact(self) -> Cell:
        """Return a cell that predicts as this one, and has neither rows nor sums."""
        made = copy.copy(self)
        made.rows = made.statistics = None
        return made

    def predict_constant(self, values: Array, at: Array) -> None:
        """Predict these values around a point while there is no row."""
        self.function = self.function._replace(points=at[np.newaxis])
        height = self.function.penalty()[0, 0]
        self.function = self.function._replace(coefficients=values[np.newaxis] / height)
        self.function = self.function._replace(range=no_range(len(values)))

    def evaluate(self, X: Array) -> Array:
        """Values at rows of the cell, (n, n_outputs), within the range of the targets seen."""
        return self.predictor.evaluate(X)

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
    map : FixedMap or None
        Map of the inputs; None for none.
    size : int
        Points of a cell beside sums.
    n_outputs : int
        Number of targets C.
    max_cells : int, default=0
        Cells that are full are split while there are fewer cells than this, and have sums then.
    forgetting : float, default=1.0
        Factor of a cell's sums for each row that it learns.
    keeps : int or None, default=None
        Rows with which a cell is full, all of which are points until then; None for ``size``.
    dtype : dtype, default=float64
        In what cells that keep their rows compute, where their ridge is not too weak for it.
    first_ridge : int, default=4
        Number of the ridge to begin with, among ``CELL_RIDGES``.
    """

    form = "cells"
    #: Whether its cells are split along columns, wherever they are laid out.
    along_columns = True

    def __init__(
        self,
        partition: Partitioned,
        map: FixedMap | None,
        size: int,
        n_outputs: int,
        max_cells: int = 0,
        forgetting: float = 1.0,
        keeps: int | None = None,
        dtype: DTypeLike = np.float64,
        first_ridge: int = _FIRST,
    ) -> None:
        self.partition = partition
        self.map = map
        self.size = size
        self.n_outputs = n_outputs
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.keeps = size if keeps is None else keeps
        self.dtype = np.dtype(dtype)
        self.first_ridge = first_ridge
        self.ridges = CELL_RIDGES
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        constant, none = float(partition.constant), self.no_rows()
        self.cells = [
            Cell(partition.inside(c).kernel, constant, size, none, forgetting=forgetting)
            for c in range(partition.n_cells)
        ]

    def no_rows(self) -> Rows:
        """No rows, as cells keep them."""
        return Rows.none(self.partition.n_features, self.n_outputs, self.dtype)

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

    def place(self, X: Any) -> tuple[Any, dict[int, NDArray[np.int64]]]:
        """Images of rows, in the precision of the part, and which of them are in which cell."""
        images = np.empty((len(X), self.partition.n_features), self.dtype)
        cells = np.empty(len(X), np.int64)

        def place(start: int) -> None:
            cut = slice(start, start + _CHUNK)
            some = np.ascontiguousarray(X[cut] if self.map is None else self.map(X[cut]))
            single = self.dtype == np.float32
            some = in_single(some) if single else some.astype(self.dtype, copy=False)
            cells[cut] = self.partition.cells(some)
            images[cut] = some

        in_order(place, range(0, len(X), _CHUNK))
        return images, rows_by_cell(cells)

    def learn(self, rows: Rows) -> None:
        """Add rows to those of their cells, or to the sums."""
        images, members = self.place(rows.X)
        mapped = Rows(images, rows.targets, rows.weights)
        # Just when a cell has so many rows, and the first one first, however the stream is cut.
        queue = [(at, c) for c, mine in members.items() if (at := self._filled_at(c, mine)) >= 0]
        heapq.heapify(queue)
        while queue:
            number = heapq.heappop(queue)[1]
            mine = members.pop(number)
            n = int(self._room(self.cells[number]))
            self.cells[number].learn(mapped[mine[:n]])
            rest, n_before = mine[n:], len(self.cells)
            self._relieve(number)
            halves = [(number, rest)]
            if len(self.cells) > n_before:
                last = self.partition.last_half(images[rest])
                halves = [(number, rest[~last]), (n_before, rest[last])]
            for cell, some in halves:
                if len(some):
                    members[cell] = some
                    if (at := self._filled_at(cell, some)) >= 0:
                        heapq.heappush(queue, (at, cell))
        in_order(lambda number: self.cells[number].learn(mapped[members[number]]), members)

    def _filled_at(self, number: int, mine: NDArray[np.int64]) -> int:
        """Which of these rows fills a cell; -1 for none."""
        room = self._room(self.cells[number])
        return int(mine[int(room) - 1]) if 0 < room <= len(mine) else -1

    def _room(self, cell: Cell) -> float:
        """Rows that a cell takes before it is split, frozen or renewed."""
        if cell.rows is not None:
            return self.keeps - len(cell.rows)
        if self.forgetting == 1.0:
            return math.inf
        return max(_CROWDED * self.size, math.ceil(_FADED / (1.0 - self.forgetting))) - cell.n_rows

    def _is_crowded(self, cell: Cell) -> bool:
        return cell.is_filling and self._room(cell) <= 0

    def _relieve(self, number: int) -> None:
        """Split a cell that is full, let sums take the place of its rows, or renew its points."""
        cell = self.cells[number]
        if not cell.is_filling:
            self._renew(number)
        elif cell.is_full(self.keeps) and not self._split(number):
            cell.freeze()

    def _split(self, number: int) -> bool:
        """Divide a cell and its rows; its halves predict as it did until they are solved."""
        cell = self.cells[number]
        assert cell.rows is not None
        if len(self.cells) >= self.max_cells:
            return False
        try:
            # Whose rows they are is known.
            seed = len(self.cells)
            self.partition = self.partition.split(number, cell.rows.X, seed, check=False)
        except ValueError:
            return False  # its rows are too much alike
        last = self.partition.last_half(cell.rows.X)
        self.cells[number] = cell.renewed(cell.rows[~last])
        self.cells.append(cell.renewed(cell.rows[last]))
        return True

    def _renew(self, number: int) -> None:
        """Let a cell choose its points anew: the rows that they are have long been forgotten."""
        cell = self.cells[number]
        assert cell.statistics is not None
        equations = cell.statistics, cell.function.penalty()
        cell.solve(None, general_ridge(*equations, self.ridges), self.keeps)
        self.cells[number] = cell.renewed(self.no_rows())
        self.cells[number].patience = _TRUSTED * self.size

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
        for name in ("partition", "map", "size", "max_cells", "keeps", "dtype"):
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
            if min(self._room(mine), other._room(theirs)) > 0 >= made._room(made.cells[number]):
                made._relieve(number)
        while full := [c for c, cell in enumerate(made.cells) if made._is_crowded(cell)]:
            for number in full:
                made._relieve(number)
        self.cells, self.partition = made.cells, made.partition

    @classmethod
    def joined(cls, whole: CellsPart, regions: Sequence[CellsPart]) -> CellsPart:
        """Part of all cells of several, which are solved, each in one cell of a partition.

        It predicts, and has neither rows nor sums.

        Parameters
        ----------
        whole : CellsPart
            Of the partition; stays as it is.
        regions : sequence of CellsPart
            One for each of its cells, without a map.
        """
        made = copy.copy(whole)
        made.partition = whole.partition.refined([region.partition for region in regions])
        made.cells = [region.cells[0] for region in regions]
        made.cells += [cell for region in regions for cell in region.cells[1:]]
        return made

    def compact(self) -> Self:
        """Return what is needed to predict: cells without rows and sums."""
        made = copy.copy(self)
        made.cells = [cell.compact() for cell in self.cells]
        return made

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
        images, members = self.place(held.X)
        mapped = Rows(images, held.targets, held.weights)
        ridge = self._best_ridge(mapped, members)
        mean, centres = self._mean_target(), self.partition.centres
        predictions = np.tile(mean, (len(held), 1))

        def solve(number: int) -> None:
            cell, some = self.cells[number], members.get(number)
            more = None if some is None else mapped[some]
            if cell.has_rows or (more is not None and cell.before is None):
                values = cell.solve(more, ridge, self.keeps)
            elif more is not None:
                values = cell.evaluate(more.X)
            else:
                values = None
                if cell.before is None and cell.is_filling:
                    cell.predict_constant(mean, centres[number])
            if values is not None:
                predictions[some] = values

        in_order(solve, range(len(self.cells)))
        return predictions

    def _best_ridge(self, held: Rows, members: dict[int, NDArray[np.int64]]) -> float:
        """Ridge with the least squared error at mapped rows, of some cells if there are many."""
        able = [number for number in sorted(members) if self.cells[number].has_rows]
        n_asked = _ASKED if any(cell.is_filling for cell in self.cells) else _ASKED_SUMS
        places = np.linspace(0, len(able) - 1, min(len(able), n_asked)).astype(int)
        weights = held.discounted(self.forgetting).weights

        def attempt(number: int) -> tuple[float, None]:
            ridge = float(self.ridges[number])

            def error_at(place: int) -> float:
                cell, some = self.cells[able[place]], members[able[place]]
                values = cell.values_at(held[some], ridge, self.keeps)
                errors = np.sum(((values - held.targets[some]) / self.unit) ** 2, axis=1)
                return float(errors @ weights[some])

            return sum(in_order(error_at, places)), None

        if self.ridges.size == 1:
            return float(self.ridges[0])
        return float(self.ridges[descend(attempt, self.first_ridge, self.ridges.size)[0]])

    def _mean_target(self) -> Array:
        totals = [cell.total() for cell in self.cells]
        weight = sum(weight for _, weight in totals)
        sums = np.sum([sums for sums, _ in totals], axis=0)
        return np.asarray(sums / weight if weight > 0.0 else sums)

    def evaluate(self, X: Any) -> Array:
        """Values at rows, shape (n, n_outputs)."""
        images, members = self.place(X)
        values = np.zeros((len(images), self.n_outputs))

        def evaluate(number: int) -> None:
            cell, mine = self.cells[number], members[number]
            if len(cell.predictor.points):
                values[mine] = cell.evaluate(images[mine])

        in_order(evaluate, members)
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
        """Memory of the sums and the rows in a file."""
        return sum(
            4 * len(cell.function.points) ** 2 if cell.rows is None else cell.rows.n_bytes
            for cell in self.cells
        )

    def fix_ridge(self, ridge: float | None) -> None:
        """Use this ridge and try no others; or, for None, choose among all again."""
        self.ridges = CELL_RIDGES if ridge is None else np.array([ridge])

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.n_outputs = offset.size
        self.unit = np.ones(offset.size)
        for cell in self.cells:
            cell.map_targets(codes, offset)
