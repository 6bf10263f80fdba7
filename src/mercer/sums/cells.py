"""Ridge regressions in the cells of a partition: each cell fits all its rows, or uses sums."""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.kernels.partitioned import rows_by_cell
from mercer.maps import FixedMap
from mercer.numerics.expansions import Expansion, Profile, gram
from mercer.records import Passing
from mercer.sums.ridge import (
    ExactFit,
    ExactRidge,
    Trial,
    add_rows,
    check_regressions,
    descend,
    general_ridge,
    in_single,
    merged,
    scaled_product,
    solutions,
)
from mercer.sums.rows import Rows, distinct_rows
from mercer.sums.statistics import Statistics, check_alike
from mercer.threads import in_order

Array = NDArray[np.float64]
Cells = NDArray[np.int64]

#: Ridges that cells try, from the strongest to the weakest, and the number of the first one.
CELL_RIDGES, FIRST_CELL_RIDGE = 10.0 ** -np.arange(1.0, 7.0, 0.5), 4
# Rows that are mapped and placed at a time.
_CHUNK = 4096
# A cell with new points predicts by them once it has so many times as many rows as points.
_TRUSTED = 2
# Number of cells, spread evenly, whose errors choose the ridge of all cells: if cells keep their
# rows, and if all have sums.
_ASKED, _ASKED_SUMS = 10, 64
# Fewer held out rows in these cells choose by chance.
_TELLING = 100
# A full cell keeps its rows if at most this share of them is distinct.
_REPEATED = 0.75
# If old rows are forgotten, a cell chooses its points anew after so many times as many rows as
# points, and after so many time constants of forgetting.
_CROWDED, _FADED = 8, 4.0
# Ridges below the first need double precision; rounding never needs a ridge above the second.
_WEAK, _STRONGEST = 3e-7, 1e6


class LocalFunction(NamedTuple):
    """Function of a cell: f(x) = sum_i c_i (k(x, d_i) + constant), clipped to a range."""

    kernel: Kernel
    constant: float
    points: Array  # (n_points, n_features)
    coefficients: Array  # (n_points, n_outputs)
    range: Array  # (2, n_outputs): lowest and highest value; reversed for no limits

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def profile(self) -> Profile | None:
        """The kernel and the constant as a function of distances, if the kernel is one."""
        profile = self.kernel.profile
        return profile and profile._replace(offset=profile.offset + self.constant)

    def penalty(self) -> Any:
        """Return the Gram matrix of the points."""
        return self.features(self.points)

    def upper_penalty(self) -> Any:
        """Return the Gram matrix of the points, of which only one triangle may be filled."""
        profile = self.profile
        if profile is None or self.points.dtype != np.float32:
            return self.penalty()
        return gram(self.points, profile)

    def features(self, X: Any) -> Any:
        """Return kernel values plus the constant, (n, n_points), in the precision of the points."""
        K: Any = self.kernel(X.astype(self.points.dtype, copy=False), self.points)
        K += K.dtype.type(self.constant)
        return K

    def evaluate(self, X: Any) -> Array:
        """Return values at rows, (n, n_outputs), clipped to the range, in double precision.

        In single precision, the last bits of kernel values depend on which rows are computed
        together, and large coefficients would make the difference visible.
        """
        precise = self._replace(points=self.points.astype(np.float64, copy=False))
        values: Array = scaled_product(precise.features(X), self.coefficients)
        return np.clip(values, *np.sort(self.range, axis=0))

    def mapped(self, codes: Array, offset: Array) -> LocalFunction:
        """Return the function with outputs mapped by ``codes``; the range gets the offset, too."""
        ends = mapped_range(self.range, codes, offset)
        return self._replace(coefficients=self.coefficients @ codes, range=ends)


def packed_functions(functions: Sequence[LocalFunction]) -> Callable[[Any, Cells], Array]:
    """Return the values at rows, (n, n_outputs), as a function of the rows and of their cells."""
    n_outputs = functions[0].coefficients.shape[1]
    profiles = [profile for one in functions if (profile := one.profile) is not None]
    if len(profiles) == len(functions) and len({profile.form for profile in profiles}) == 1:
        points = [one.points for one in functions]
        coefficients = [one.coefficients for one in functions]
        ranges = np.stack([one.range for one in functions])
        return Expansion(profiles, points, coefficients, ranges, compact=True)

    def evaluate(images: Any, cells: Cells) -> Array:
        values, members = np.zeros((len(images), n_outputs)), rows_by_cell(cells)

        def fill(number: int) -> None:
            if functions[number].size:
                mine = members[number]
                values[mine] = functions[number].evaluate(images[mine])

        in_order(fill, members)
        return values

    return evaluate


class Cell:
    """Ridge regression on the rows of one cell, from the rows themselves or from sums.

    A cell keeps its rows, each of which is a point, until it is full. Then it is split, or
    :meth:`freeze` makes some rows its dictionary for good and replaces the rows by sums.

    Parameters
    ----------
    kernel : Kernel
        Kernel inside the cell, with its numbers resolved.
    constant : float
        Constant added to the kernel.
    size : int
        Most points once the cell has sums.
    rows : Rows
        Rows to begin with, or none; their type is the precision of the cell. They do not count as
        learned.
    before : LocalFunction or None, default=None
        Function to predict with while the cell has few rows.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    """

    _pieces: list[Rows] | None

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
        #: Lowest and highest target learned; infinity and minus infinity without any.
        self.range = no_range(n_outputs)
        self.function = LocalFunction(kernel, constant, none, np.empty((0, n_outputs)), self.range)
        self.size = size
        self.before = before
        #: Number of rows from which the cell no longer predicts with ``before``.
        self.patience = 0
        self.forgetting = forgetting
        self.rows = rows
        self.statistics: Statistics | None = None
        self.n_rows = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle stores: inputs of rows that are points are there only once."""
        rows, points = self.rows, self.function.points
        if rows is not None and (rows.X is points or rows.X.base is points):
            return {**vars(self), "_pieces": [replace(rows, X=points[:0])]}
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.rows is not None and len(self.rows.X) < len(self.rows):
            self.rows = replace(self.rows, X=self.function.points[: len(self.rows)])

    @property
    def rows(self) -> Rows | None:
        """The rows that the cell keeps; None once it has sums. They are joined when asked for."""
        if self._pieces is not None and len(self._pieces) > 1:
            self._pieces = [Rows.joined(self._pieces)]
        return None if self._pieces is None else self._pieces[0]

    @rows.setter
    def rows(self, rows: Rows | None) -> None:
        self._pieces = None if rows is None else [rows]

    @property
    def is_filling(self) -> bool:
        """Whether the cell keeps its rows."""
        return self._pieces is not None

    @property
    def n_kept(self) -> int:
        """Number of rows that the cell keeps."""
        return sum(map(len, self._pieces or ()))

    @property
    def predictor(self) -> LocalFunction:
        """The function to predict with: ``before``, if there is one."""
        return self.function if self.before is None else self.before

    def learn(self, rows: Rows) -> None:
        """Add rows to the kept rows or the sums."""
        self.n_rows += len(rows)
        self.range = wider_range(self.range, rows.targets)
        if self.statistics is not None:
            self._add(self.statistics, rows)
        else:
            assert self._pieces is not None
            self._pieces = [*self._pieces, rows]

    def _add(self, statistics: Statistics, rows: Rows) -> None:
        add_rows(statistics, self.function, rows, self.forgetting, max(len(rows), 1))

    def is_full(self, keeps: int) -> bool:
        """Whether the cell has ``keeps`` rows, nearly all distinct; repeated rows are merged."""
        assert self.rows is not None
        if len(self.rows) < keeps:
            return False
        if self.forgetting == 1.0:  # otherwise the weight of a row depends on its place
            self.rows = self.rows.without_repeats()
        return len(self.rows) > _REPEATED * keeps

    def freeze(self) -> None:
        """Make the first distinct rows the dictionary for good, and replace the rows by sums."""
        assert self.rows is not None
        rows, before = self.rows, self.predictor
        chosen = distinct_rows(rows.X)[: self.size]
        n_outputs = rows.targets.shape[1]
        none = np.zeros((chosen.size, n_outputs))
        # Until it is solved, the cell predicts as before.
        self.before = before if before.size else None
        points = rows.X[chosen].astype(np.float64)  # single loses small eigenvalues
        self.function = self.function._replace(points=points, coefficients=none)
        self.statistics = Statistics(chosen.size, n_outputs)
        self._add(self.statistics, rows)
        self.rows = None

    @property
    def has_rows(self) -> bool:
        """Whether the cell has enough rows to predict by them instead of with ``before``."""
        return self.n_rows > 0 and (self.before is None or self.n_rows >= self.patience)

    def total(self) -> tuple[Array, float]:
        """Return the weighted sum of the targets learned, (n_outputs,), and the sum of weights."""
        if self.statistics is not None:
            return self.statistics.target_sums, self.statistics.weight
        assert self.rows is not None
        rows = self.rows.discounted(self.forgetting)
        return rows.weights @ rows.targets, float(rows.weights.sum())

    def values_at(self, held: Rows, ridge: float, most: int) -> Array:
        """Predict held out rows, (n_held, n_outputs), by a fit to the rows of the cell."""
        if self.rows is None:
            assert self.statistics is not None
            (w,) = solutions(self.statistics, self.function.penalty(), [ridge])
            values: Array = self.function.features(held.X) @ w
            return np.clip(values, *np.sort(self.range, axis=0))
        if self.forgetting == 1.0 and len(held) <= most:
            exact, fit, _ = self._exact(Rows.joined([self.rows, held]), ridge)
            values = held.targets - exact.held_out(fit, len(held))
            return np.clip(values, *np.sort(self.range, axis=0))
        # In a joint fit the later, held out rows would reduce the weights of the cell's rows.
        alone = self._fitted(self.rows, ridge, most)._replace(range=self.range)
        return alone.evaluate(held.X)

    def left_out(self, held: Rows, ridge: float) -> tuple[Rows, Array]:
        """Return kept and held out rows, each predicted by a fit to all others."""
        assert self._pieces is not None
        rows = Rows.joined([*self._pieces, held])
        exact, fit, _ = self._exact(rows, ridge)
        values = rows.targets - exact.left_out(fit, len(rows))
        return rows, np.clip(values, *wider_range(self.range, held.targets))

    def solve(self, held: Rows | None, ridge: float, most: int) -> Array | None:
        """Fit the rows of the cell and held out rows; predictions use this fit from now on.

        Parameters
        ----------
        held : Rows or None
            Held out rows, which only this solution includes; they are not learned.
        ridge : float
            Ridge parameter.
        most : int
            Number of held out rows up to which a cell that keeps its rows predicts them from the
            joint fit. More are predicted by a separate fit without them.

        Returns
        -------
        values : ndarray of shape (n_held, n_outputs) or None
            Predictions for the held out rows by a fit to the rows of the cell; None if either are
            missing.
        """
        ends = self.range if held is None else wider_range(self.range, held.targets)
        values = None
        pieces = self._pieces
        if pieces is None:
            assert self.statistics is not None
            if held is not None and self.n_rows:
                values = self.values_at(held, ridge, most)
            statistics = self.statistics.copy()
            if held is not None:
                self._add(statistics, held)
            (w,) = solutions(statistics, self.function.penalty(), [ridge])
            function = self.function._replace(coefficients=np.ascontiguousarray(w))
        elif held is None:
            function = self._fitted(Rows.joined(pieces), ridge, most)
        elif not self.n_kept:
            function = self._fitted(held, ridge, most)
        elif self.forgetting == 1.0 and len(held) <= most:
            n, together = self.n_kept, Rows.joined([*pieces, held])
            exact, fit, function = self._exact(together, ridge)
            values = held.targets - exact.held_out(fit, len(held))
            values = np.clip(values, *np.sort(self.range, axis=0))
            self.rows = together[:n]  # shares memory with the points
        else:
            values = self.values_at(held, ridge, most)
            function = self._fitted(Rows.joined([*pieces, held]), ridge, most)
        self.function = function._replace(range=ends)
        self.before = None
        return values

    def _fitted(self, rows: Rows, ridge: float, most: int) -> LocalFunction:
        """Fit rows: exactly, or by sums on the last distinct rows if there are too many."""
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
        """Fit with a point at every row, in double precision if the ridge is too weak."""
        aged = rows.discounted(self.forgetting)
        dtype: Any = rows.X.dtype if ridge >= _WEAK else np.float64
        while True:
            function = self.function._replace(points=rows.X.astype(dtype, copy=False))
            exact = ExactRidge(function.upper_penalty(), aged.targets, aged.weights)
            fit = exact.fit(ridge, last=True)
            if fit is not None:
                coefficients = np.ascontiguousarray(fit.coefficients)
                return exact, fit, function._replace(coefficients=coefficients)
            if dtype != np.float64:
                dtype = np.float64
            elif ridge < _STRONGEST:  # rows hardly differ: rounding needs a stronger ridge
                ridge *= 10.0
            else:
                raise ValueError(
                    f"{function.kernel!r} is not positive definite on {len(rows)} rows. Use "
                    "another kernel, or rescale the inputs."
                )

    def merged(self, other: Cell) -> Cell:
        """Return a new cell with the rows of both, those of ``other`` first; both stay unchanged.

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
            # As if these rows had arrived after the rows of the other cell.
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
        """Return a cell with new rows or none, which predicts as this one until it is solved.

        Without rows, it keeps the range of the targets.
        """
        kernel, constant = self.function.kernel, self.function.constant
        before = self.predictor if self.predictor.size else None
        made = Cell(kernel, constant, self.size, rows, before, self.forgetting)
        made.n_rows = len(rows)
        made.range = wider_range(made.range, rows.targets) if len(rows) else self.range
        return made

    def resting(self) -> Cell:
        """Return the cell without points, coefficients and inputs of rows that are points."""
        made, rows, function = copy.copy(self), self.rows, self.function
        none, coefficients = function.points[:0].copy(), function.coefficients[:0].copy()
        made.function = function._replace(points=none, coefficients=coefficients)
        if rows is not None:
            known = np.array_equal(rows.X, function.points[: len(rows)])
            arrays = map(_in_few_bytes, (rows.targets, rows.weights))
            made.rows = Rows(rows.X[:0].copy() if known else rows.X, *arrays)
        return made

    def awake(self, points: Array, coefficients: Array) -> Cell:
        """Inverse of :meth:`resting`, given the points and the coefficients."""
        made, rows = copy.copy(self), self.rows
        points = points.astype(self.function.points.dtype, copy=False)
        made.function = self.function._replace(points=points, coefficients=coefficients)
        if rows is not None:
            X = rows.X if len(rows.X) == len(rows) else points[: len(rows)]
            X = X.astype(rows.X.dtype, copy=False)
            made.rows = Rows(X, *(array.astype(np.float64) for array in rows.arrays[1:]))
        return made

    def compact(self) -> Cell:
        """Return a cell that predicts as this one, without rows and sums."""
        made = copy.copy(self)
        made.rows = made.statistics = None
        return made

    def predict_constant(self, values: Array, at: Array) -> None:
        """Predict given values around a point ``at``; for cells without rows."""
        self.function = self.function._replace(points=at[np.newaxis])
        height = self.function.penalty()[0, 0]
        self.function = self.function._replace(coefficients=values[np.newaxis] / height)
        self.function = self.function._replace(range=no_range(len(values)))

    def evaluate(self, X: Array) -> Array:
        """Return values at rows of the cell, (n, n_outputs), clipped to the targets' range."""
        return self.predictor.evaluate(X)

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Replace the targets y by y @ codes + offset, and the outputs accordingly."""
        self.function = self.function.mapped(codes, offset)
        self.before = None if self.before is None else self.before.mapped(codes, offset)
        if self.rows is not None:
            self.rows = self.rows.map_targets(codes, offset)
        if self.statistics is not None:
            self.statistics.map_targets(codes, offset)
        self.range = mapped_range(self.range, codes, offset)


def _in_few_bytes(array: Array) -> NDArray[Any]:
    """Return a copy of numbers in the smallest of three types that changes none of them."""
    with np.errstate(over="ignore", invalid="ignore"):
        for dtype in (np.int8, np.float32):
            narrow = array.astype(dtype)
            if np.array_equal(narrow, array):
                return narrow
    return array.copy()


def no_range(n_outputs: int) -> Array:
    """Return the range of no targets, which clips nothing once it is sorted: (2, n_outputs)."""
    return np.repeat([[np.inf], [-np.inf]], n_outputs, axis=1)


def wider_range(ends: Array, targets: Array) -> Array:
    """Return the range extended to include targets."""
    wider = np.empty_like(ends)  # without the methods' detours: each cell asks for each batch
    np.minimum(ends[0], np.minimum.reduce(targets), out=wider[0])
    np.maximum(ends[1], np.maximum.reduce(targets), out=wider[1])
    return wider


def mapped_range(ends: Array, codes: Array, offset: Array) -> Array:
    """Return the range of the targets y @ codes + offset."""
    if ends[0, 0] > ends[1, 0]:
        return no_range(offset.size)
    return np.sort(ends @ codes + offset, axis=0)


class CellsPart(Passing):
    """Kernel expansion with a partitioned kernel, fitted by ridge regression in each cell.

    The cost of learning a row does not depend on the number of cells. Predictions of a cell are
    clipped to the range of the targets that it learned.

    Parameters
    ----------
    partition : Partitioned
        Kernel of mapped rows, with its numbers resolved.
    map : FixedMap or None
        Map of the inputs, if any.
    size : int
        Most points of a cell once it has sums.
    n_outputs : int
        Number of targets C.
    max_cells : int, default=0
        A full cell is split while there are fewer cells than this; after that it gets sums.
    forgetting : float, default=1.0
        Factor that the sums of a cell are multiplied by for each row that it learns.
    keeps : int or None, default=None
        Number of rows at which a cell is full; until then, each row is a point. None for ``size``.
    dtype : dtype, default=float64
        Type in which cells that keep their rows compute, unless the ridge is too weak for it.
    first_ridge : int, default=4
        Number of the ridge to try first, in ``CELL_RIDGES``.
    """

    form = "cells"
    # The cells, and while they rest, what has their points and coefficients.
    _cells: list[Cell]
    _resting: Expansion | None = None
    #: Whether cells are split along columns, wherever they are laid out.
    along_columns = True
    #: Whether rows are independent of each other, so that each may be predicted from all others.
    alone = False
    # Functions of the cells at the last predictions, and what computes their values.
    _packed: tuple[list[LocalFunction], Callable[[Any, Cells], Array]] | None = None
    _passing: ClassVar[dict[str, Any]] = {"_packed": None}

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
        first_ridge: int = FIRST_CELL_RIDGE,
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
            Cell(kernel, constant, size, none, forgetting=forgetting)
            for kernel in partition.cell_kernels
        ]

    @property
    def cells(self) -> list[Cell]:
        """The cells; while they :meth:`rest`, copies."""
        resting = self._resting
        if resting is None:
            return self._cells
        return [cell.awake(*resting.parts(number)) for number, cell in enumerate(self._cells)]

    @cells.setter
    def cells(self, cells: list[Cell]) -> None:
        self._cells, self._resting = cells, None

    def rest(self, *, sums: bool = True) -> None:
        """Let points and coefficients lie in memory once only, packed as predictions need them.

        Rows and sums go, too, unless ``sums`` is False: then further rows may be learned.
        """
        if sums:
            self._cells = [cell.compact() for cell in self._cells]
        if self._resting is None and all(cell.before is None for cell in self._cells):
            function = self._function(range(len(self._cells)))
            if isinstance(function, Expansion):
                self._cells = [cell.resting() for cell in self._cells]
                self._resting, self._packed = function, None

    def _wake(self) -> None:
        self.cells = self.cells

    def no_rows(self) -> Rows:
        """Return an empty :class:`Rows` of the type that cells keep."""
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
        """Number of points of all cells."""
        if self._resting is not None:
            return int(self._resting.counts.sum())
        return sum(len(cell.predictor.points) for cell in self.cells)

    def place(self, X: Any) -> tuple[Any, dict[int, NDArray[np.int64]]]:
        """Return mapped rows, in the precision of the part, and the row numbers of each cell."""
        images, cells = self._placed(X)
        return images, rows_by_cell(cells)

    def _placed(self, X: Any) -> tuple[Any, NDArray[np.int64]]:
        """Return mapped rows, in the precision of the part, and the cell of each."""
        images = np.empty((len(X), self.partition.n_features), self.dtype)
        cells = np.empty(len(X), np.int64)

        def place(start: int) -> None:
            rows = slice(start, start + _CHUNK)
            some = X[rows] if self.map is None else self.map(X[rows])
            single = self.dtype == np.float32
            some = in_single(some) if single else some.astype(self.dtype, copy=False)
            cells[rows] = self.partition.cells(some)
            images[rows] = some

        in_order(place, range(0, len(X), _CHUNK))
        return images, cells

    def learn(self, rows: Rows) -> None:
        """Add rows to their cells; split, freeze or renew cells that become full."""
        self._wake()
        images, members = self.place(rows.X)
        mapped = Rows(images, rows.targets, rows.weights)
        # Cells are handled in the order in which they become full, and at that very row, so that
        # results do not depend on how the stream is cut into batches.
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
        """Return the number of the row that fills a cell; -1 if none does."""
        room = self._room(self.cells[number])
        return int(mine[int(room) - 1]) if 0 < room <= len(mine) else -1

    def _room(self, cell: Cell) -> float:
        """Return how many more rows a cell takes before it is split, frozen or renewed."""
        if cell.is_filling:
            return self.keeps - cell.n_kept
        if self.forgetting == 1.0:
            return math.inf
        return max(_CROWDED * self.size, math.ceil(_FADED / (1.0 - self.forgetting))) - cell.n_rows

    def _is_crowded(self, cell: Cell) -> bool:
        return cell.is_filling and self._room(cell) <= 0

    def _relieve(self, number: int) -> None:
        """Split a full cell, or replace its rows by sums; renew the points of a cell with sums."""
        cell = self.cells[number]
        if not cell.is_filling:
            self._renew(number)
        elif cell.is_full(self.keeps) and not self._split(number):
            cell.freeze()

    def _split(self, number: int) -> bool:
        """Split a cell and its rows; the halves predict as the cell until they are solved."""
        cell = self.cells[number]
        assert cell.rows is not None
        if len(self.cells) >= self.max_cells:
            return False
        try:
            # No check is needed, as all rows are known to be in the cell.
            seed = len(self.cells)
            self.partition = self.partition.split(number, cell.rows.X, seed, check=False)
        except ValueError:
            return False  # the rows are too much alike
        last = self.partition.last_half(cell.rows.X)
        self.cells[number] = cell.renewed(cell.rows[~last])
        self.cells.append(cell.renewed(cell.rows[last]))
        return True

    def _renew(self, number: int) -> None:
        """Let a cell choose new points, as the rows behind its points are long forgotten."""
        cell = self.cells[number]
        assert cell.statistics is not None
        equations = cell.statistics, cell.function.penalty()
        cell.solve(None, general_ridge(*equations, self.ridges), self.keeps)
        self.cells[number] = cell.renewed(self.no_rows())
        self.cells[number].patience = _TRUSTED * self.size

    def merge(self, other: CellsPart) -> None:
        """Add the rows that another part has learned; the other part stays unchanged.

        In each cell, the rows of the other part count as older than the rows of this one. If one of
        two cells keeps its rows, these are added to the other cell. If both have fixed
        dictionaries, the dictionaries must be equal. Predictions use all rows after the next
        solution.

        Parameters
        ----------
        other : CellsPart
            Part with the same partition.

        Raises
        ------
        ValueError
            If the partitions, the dictionaries or the settings differ; both parts are then
            unchanged.
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
        """Return a part with the cells of several solved parts, one for each cell of a partition.

        The result only predicts; it has neither rows nor sums.

        Parameters
        ----------
        whole : CellsPart
            Part with the partition; unchanged.
        regions : sequence of CellsPart
            One part for each cell of the partition, without a map.
        """
        made = copy.copy(whole)
        made.partition = whole.partition.refined([region.partition for region in regions])
        made.cells = [region.cells[0] for region in regions]
        made.cells += [cell for region in regions for cell in region.cells[1:]]
        return made

    def compact(self) -> Self:
        """Return a part that only predicts: its cells have neither rows nor sums."""
        made = copy.copy(self)
        made._cells = [cell.compact() for cell in self._cells]
        return made

    def emptied(self) -> Self:
        """Return a part with the same cells without rows, to learn rows elsewhere."""
        empty = copy.copy(self)
        empty.cells = [cell.emptied() for cell in self.cells]
        return empty

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on held out rows, then solve with these rows included.

        All cells share the ridge, as each has too few held out rows to choose its own.

        Parameters
        ----------
        held : Rows
            Rows held out from :meth:`learn`.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Predictions for the held out rows by fits without them.
        """
        self._wake()
        self._packed = None  # so that functions that are replaced do not stay in memory
        images, members = self.place(held.X)
        mapped = replace(held, X=images)
        ridge = self._best_ridge(mapped, members)
        mapped = replace(mapped, groups=None)
        # Of no use where each cell has rows.
        lacking = any(cell.n_rows == 0 for cell in self.cells)
        mean = self._mean_target() if lacking else np.zeros(self.n_outputs)
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
                    cell.predict_constant(mean, self.partition.centres[number])
            if values is not None:
                predictions[some] = values

        in_order(solve, range(len(self.cells)))
        return predictions

    def judge(self, held: Rows) -> Trial:
        """Predict held out rows by fits without them; the same factors include the rows already."""
        return Trial(self.solve(held))

    def _best_ridge(self, held: Rows, members: dict[int, NDArray[np.int64]]) -> float:
        """Return the ridge with the least squared error on held out rows, in a sample of cells.

        If these cells have hardly any, and rows are independent, it is the least error of all
        rows, each predicted from all others of its cell.
        """
        able = [number for number in sorted(members) if self.cells[number].has_rows]
        n_asked = _ASKED if any(cell.is_filling for cell in self.cells) else _ASKED_SUMS
        places = np.linspace(0, len(able) - 1, min(len(able), n_asked)).astype(int)
        n_judges = sum(len(members[able[place]]) for place in places)
        alone = self.alone and held.groups is None and self.forgetting == 1.0
        alone &= n_judges < _TELLING
        held = held.discounted(self.forgetting)

        def attempt(number: int) -> tuple[float, None]:
            ridge = float(self.ridges[number])

            def error_at(place: int) -> float:
                cell, judges = self.cells[able[place]], held[members[able[place]]]
                if alone and cell.is_filling and len(judges) <= self.keeps:
                    judges, values = cell.left_out(judges, ridge)
                else:
                    values = cell.values_at(judges, ridge, self.keeps)
                errors = np.sum(((values - judges.targets) / self.unit) ** 2, axis=1)
                return float(errors @ judges.weights)

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
        """Return values at rows, shape (n, n_outputs)."""
        images, cells = self._placed(X)
        return self._function(cells.tolist())(images, cells)

    def _function(self, asked: Iterable[int]) -> Callable[[Any, Cells], Array]:
        """Return the values at mapped rows of the cells that are asked for, packed once."""
        if self._resting is not None:
            return self._resting
        known, evaluate = self._packed or ([], None)
        # Functions of cells are replaced one by one, and never changed.
        are_current = len(known) == len(self.cells) and all(
            known[number] is self.cells[number].predictor for number in set(asked)
        )
        if evaluate is None or not are_current:
            known = [cell.predictor for cell in self.cells]
            evaluate = packed_functions(known)
            self._packed = known, evaluate
        return evaluate

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
        """Bytes of the sums and the rows in a file."""
        return sum(
            4 * len(cell.function.points) ** 2 if cell.rows is None else cell.rows.n_bytes
            for cell in self.cells
        )

    def keep_ridge(self) -> None:
        """Use only the ridge that would be tried first, unless one was given."""
        if self.ridges.size > 1:
            self.fix_ridge(float(self.ridges[self.first_ridge]))

    def fix_ridge(self, ridge: float | None) -> None:
        """Use only this ridge; with None, choose among all ridges again."""
        self.ridges = CELL_RIDGES if ridge is None else np.array([ridge])

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Replace the targets y of all cells by y @ codes + offset."""
        self.n_outputs = offset.size
        self.unit = np.ones(offset.size)
        self._wake()
        for cell in self.cells:
            cell.map_targets(codes, offset)
