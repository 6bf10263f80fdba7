"""Choose the components of a model and their sizes, from the race and the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import isqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.functions.sum_of_components import Component
from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.maps import Affine
from mercer.selection import Candidate, RaceResult, RaceSettings, bias_of
from mercer.sums import (
    CellsPart,
    GlobalPart,
    Rows,
    TreesPart,
    choose_centers,
    distinct_rows,
    labels_of_codes,
)
from mercer.sums.leaves import MOST_GROWN, N_LEAVES
from mercer.sums.ridge import in_single
from mercer.threads import in_order

# Factor on the number of cells that all rows need, and fewest points worth having sums for.
_ROOM, _FEWEST_POINTS = 1.25, 64
# Trees may take one part in so many of the memory.
_TREES_SHARE = 8
# Operations per second that a time budget assumes. Seconds of a race whose pilots have a thousand
# rows, what each column adds, and up to how many: of more, principal components take part.
_RATE, _RACE_SECONDS, _RACE_SECONDS_A_COLUMN, _RACE_COLUMNS = 2e10, 0.5, 0.02, 100
# Pilot fit that finds the class boundary: its points, the rows it learns, and the rows that choose
# its ridge.
_PILOT_POINTS, _PILOT_ROWS, _PILOT_JUDGES = 800, 8000, 2000


class Resources(Protocol):
    """Time and memory that learning may use; :class:`mercer.expansions.Auto` describes them."""

    budget_seconds: float | None
    max_memory: int
    forgetting: float
    refresh: float
    expected_rows: int | None
    resumable: bool
    block_length: int | str
    seed: int


class AllocationSettings(NamedTuple):
    """Limits that decide how large the components are.

    Attributes
    ----------
    n_points, many_points : int, default=2000 and 4000
        Points of the global component if there are no cells (as for images): ``many_points`` from
        ``many_rows`` rows on, ``n_points`` below.
    many_rows : int, default=40000
        Rows from which the global component has ``many_points``.
    rows_per_point, least_points : int, default=8 and 1000
        The global component has one point for so many rows, but at least ``least_points``.
    beside_cells, fewest_points : int, default=1000 and 250
        Points of a global component beside cells, and the fewest it may have to save time.
    partitions : tuple of int, default=(2**62, 200000)
        Rows up to which each family of kernels has a first and a second partition.
    enough, enough_for_steps : int, default=20 and 6
        Rows per point that the global component learns: beside cells, which correct it; and before
        Newton steps on the loss, which make up for sums over fewer rows.
    plenty : int, default=15000
        Number of rows above which half of ``enough`` is enough, for trees as well.
    near_boundary : float, default=5/8
        Share of the points of a large dictionary that lie near the boundary between classes, if
        steps on the loss follow.
    n_trees, least_for_trees, most_columns : int, default=100, 100 and 256
        Number of trees, fewest rows to grow trees from, and most columns that trees may have.
    many_trees, many_within : int and float, default=300 and 1.2
        Number of trees of numbers, if all rows are in memory, and the squared error of the usual
        trees is within this multiple of that of the best other component.
    rows_of_leaf : int, default=10
        Fewest rows of a leaf of many trees.
    most_families : int, default=2
        Most families of kernels that get cells.
    most_cells, most_sums : int, default=4096 and 1024
        Most cells of a partition: if the cells keep their rows, and if they may have sums.
    """

    n_points: int = 2000
    many_points: int = 4000
    many_rows: int = 40_000
    rows_per_point: int = 8
    least_points: int = 1000
    beside_cells: int = 1000
    fewest_points: int = 250
    partitions: tuple[int, ...] = (2**62, 200_000)
    enough: int = 20
    plenty: int = 15_000
    enough_for_steps: int = 6
    near_boundary: float = 5 / 8
    n_trees: int = 100
    least_for_trees: int = 100
    most_columns: int = 256
    many_trees: int = 300
    many_within: float = 1.2
    rows_of_leaf: int = 10
    most_families: int = 2
    most_cells: int = 4096
    most_sums: int = 1024


class Sizes(NamedTuple):
    """Sizes of components: points of the global one, most rows it learns, number of partitions."""

    n_points: int
    max_rows: int | None
    n_partitions: int


class Grown(NamedTuple):
    """Trees, with the rows on which they were grown; None if no tree splits the rows."""

    rows: Rows
    trees: TreesPart | None


class CellSizes(NamedTuple):
    """Sizes in a partition: most cells, points of a cell's sums, rows a cell keeps, its bytes."""

    most: int
    size: int
    kept: int
    n_bytes: int


@dataclass(frozen=True)
class Allocation:
    """Create the components of a model, before they learn any row.

    Attributes
    ----------
    rows : Rows
        The first rows, in random order. Only targets of ``learned`` rows are used.
    expected_rows : int or None
        Total number of rows, if known. If None, cells are split as they grow.
    resources : Resources
        Time and memory that learning may use.
    classes : bool
        Whether the targets are class codes.
    learned : Rows or None
        The rows whose targets dictionaries of classes and trees may use; the others are held out.
        Targets are scaled so that all count alike. None: all rows may be used, and no trees are
        grown.
    n_regions : int or None
        Number of regions that partitions divide the space into. The cells of a region are laid out
        and solved elsewhere, separately and from all of its rows, so sums take no other memory.
        None: cells are laid out here.
    grown : Grown or None
        Trees that were grown before, which are those of the model if their rows are ``learned``.
    race, settings
        Settings of the race, and of the sizes of components.
    """

    rows: Rows
    expected_rows: int | None
    resources: Resources
    classes: bool
    learned: Rows | None = field(default=None, kw_only=True)
    n_regions: int | None = field(default=None, kw_only=True)
    grown: Grown | None = field(default=None, kw_only=True)
    race: RaceSettings = field(default=RaceSettings(), kw_only=True)
    settings: AllocationSettings = field(default=AllocationSettings(), kw_only=True)

    @property
    def n_rows(self) -> int:
        """Number of rows to plan for: the expected rows, or the first rows if unknown."""
        return len(self.rows) if self.expected_rows is None else self.expected_rows

    @property
    def n_outputs(self) -> int:
        """Number of columns of the targets."""
        return int(self.rows.targets.shape[1])

    def for_race(self, result: RaceResult, *, steps: bool = False) -> list[Component]:
        """Create the components for the kernels that a race chose.

        Parameters
        ----------
        result : RaceResult
            Result of the race.
        steps : bool, default=False
            Whether Newton steps on all rows follow; they make up for sums over fewer rows.
        """
        makers = [*self._makers(result, steps=steps), self.trees]
        # The last components take the longest to make, so they start first.
        made = in_order(lambda make: make(), reversed(makers))
        return [component for component in reversed(made) if component is not None]

    def _makers(self, result: RaceResult, *, steps: bool) -> list[Callable[[], Component | None]]:
        """Return functions that each create one component; trees are not among them."""
        settings = self.settings
        if self.n_rows <= min(self.race.small, self._most_points()):
            return [partial(self._of_finalist, result, one) for one in result.finalists]
        local = list(result.cells[: settings.most_families])
        sizes = self.sizes(result.finalists[0].map.n_outputs, local, steps=steps)
        steps = steps and sizes.n_partitions == 0
        dtype = np.dtype(np.float32 if result.takes_single else np.float64)  # of rows in cells
        makers: list[Callable[[], Component | None]]
        makers = [partial(self._global, result.kernel, sizes, steps=steps)]
        if sizes.n_partitions == 0:
            return makers
        if result.plain is not None and 2 * sizes.n_points <= self._most_points():
            kernel = result.kernel_of(result.plain)
            makers.append(partial(self._global, kernel, sizes, steps=False))
        # Cells get half of the memory, global components the other half.
        memory = self.resources.max_memory // 2
        n_inputs = max(one.map.n_outputs for one in local)
        smallest = self._cell_sizes(n_inputs, memory // 2).n_bytes  # if there are two cells or more
        n_partitions = min(sizes.n_partitions, memory // (2 * smallest))
        cells = self._cell_sizes(n_inputs, memory // max(1, n_partitions))
        for number in range(n_partitions):
            of_family, family = divmod(number, len(local))
            constant = bias_of(result.constant)
            makers.append(partial(self._cells, local[family], constant, of_family, cells, dtype))
        return makers

    def trees(self, *, many: bool = False) -> TreesPart | None:
        """Grow trees, if rows, memory and time allow; return None if no tree splits the rows.

        Parameters
        ----------
        many : bool, default=False
            Whether to grow many of them, with smaller leaves, whatever was grown before.
        """
        if self.learned is None or not self._has_trees:
            return None
        settings, sizes = self.settings, {"n_trees": self.settings.n_trees}
        if many:
            sizes = {"n_trees": settings.many_trees, "rows_of_leaf": settings.rows_of_leaf}
        elif self.grown is not None and self.grown.rows.equals(self.learned):
            return self.grown.trees
        part = TreesPart.grown(
            self.learned,
            **sizes,
            forgetting=self.resources.forgetting,
            seed=self.resources.seed,
            classes=self.classes,
        )
        part.max_rows = self._enough * part.n_points
        return part if part.n_points > sizes["n_trees"] else None  # some tree splits

    @property
    def _has_trees(self) -> bool:
        """Whether there are enough rows, memory and time for trees, and not too many columns."""
        settings, learned, budget = self.settings, self.learned, self.resources.budget_seconds
        if learned is None or len(learned) < settings.least_for_trees:
            return False
        fits = _TREES_SHARE * self._bytes_of_trees() <= self.resources.max_memory
        if budget is not None:
            fits &= self.seconds_of_race() + self._seconds_of_trees() <= budget
        return fits and learned.X.shape[1] <= settings.most_columns

    def _bytes_of_trees(self) -> int:
        return sum_bytes(self.settings.n_trees * N_LEAVES, self.n_outputs)

    def _cell_sizes(self, n_inputs: int, memory: int) -> CellSizes:
        """Return the sizes of cells with which a partition fits into the memory.

        If the memory holds all expected rows, there are as many cells as these rows need. The sums
        that cells have if more rows come are then limited to the points that still fit.
        """
        race, n_outputs = self.race, self.n_outputs
        row = 4 * n_inputs + 8 * (2 * n_outputs + 1)  # a point, with its coefficients
        if self.n_regions is not None:
            return self._cell_sizes_of_regions(row, memory)
        n_bytes = max(sum_bytes(race.cell_size, n_outputs), race.kept_rows * row)
        sizes = CellSizes(memory // n_bytes, race.cell_size, race.kept_rows, n_bytes)
        wanted = int(_ROOM * self.n_cells())
        whole = self.expected_rows is not None and wanted * race.kept_rows * row <= memory
        if whole and self.settings.most_sums < wanted <= self.settings.most_cells:
            points = min(race.cell_size, most_points(memory // wanted, n_outputs))
            if points >= _FEWEST_POINTS:
                return CellSizes(wanted, points, race.kept_rows, n_bytes)
        return sizes._replace(most=min(sizes.most, self.settings.most_sums))

    def _cell_sizes_of_regions(self, row: int, memory: int) -> CellSizes:
        """Return the sizes of cells that are solved elsewhere.

        If the model can hold all rows, every row is a point. Otherwise cells have the points of
        sums, in double precision.
        """
        race, n_cells = self.race, int(_ROOM * self.n_cells())
        if self.n_rows * row <= memory:
            return CellSizes(n_cells, race.cell_size, race.kept_rows, race.kept_rows * row)
        n_bytes = 2 * race.cell_size * row
        return CellSizes(memory // n_bytes, race.cell_size, race.kept_rows, n_bytes)

    def for_kernel(self, kernel: Kernel) -> Component:
        """Create the component of a kernel that the user gave: cells if it is partitioned.

        Parameters
        ----------
        kernel : Kernel
            Kernel with its numbers resolved.
        """
        rows, resources, settings = self.rows, self.resources, self.settings
        n, n_outputs = self.n_rows, self.n_outputs
        map, inner = kernel.unwrapped() if isinstance(kernel, Mapped) else (None, kernel)
        few = self.race.small
        if isinstance(inner, Partitioned) and (map is None or isinstance(map, Affine)) and n > few:
            memory = resources.max_memory // inner.n_cells
            in_cell = min(self.race.cell_size, most_points(memory, n_outputs))
            keeps = max(in_cell, min(self.race.kept_rows, 2 * in_cell))
            return CellsPart(inner, map, in_cell, n_outputs, 0, resources.forgetting, keeps)
        most = self._most_points()
        if n <= min(few, most):
            return self._of_all_rows(kernel)
        sizes = self.sizes(rows.X.shape[1], [], steps=False)
        size = min(settings.n_points, sizes.n_points, self._points_for_rows(), most)
        points = self.dictionary(kernel, size).astype(np.float64)
        rows_at_most = None if resources.budget_seconds is None else sizes.max_rows
        return GlobalPart(kernel, points, n_outputs, resources.forgetting, rows_at_most)

    def sizes(self, n_inputs: int, local: list[Candidate], *, steps: bool) -> Sizes:
        """Return the largest sizes within the time budget; kernels in ``local`` get cells."""
        settings, n = self.settings, self.n_rows
        if not local:
            size = settings.many_points if n >= settings.many_rows else settings.n_points
            # Sums over fewer rows and Newton steps afterwards are as good, in a third of the time.
            fewer = steps and size > settings.n_points
            choices = [Sizes(size, settings.enough_for_steps * size if fewer else None, 0)]
        else:
            n_partitions = len(local) * sum(n <= limit for limit in settings.partitions)
            size = min(settings.n_points, settings.beside_cells)
            enough = self._enough * size
            choices = [Sizes(size, enough, p) for p in range(n_partitions, 0, -1)]
        while choices[-1].n_points > settings.fewest_points:
            size = choices[-1].n_points // 2
            choices.append(Sizes(size, self._enough * size, min(1, choices[-1].n_partitions)))
        choices.append(choices[-1]._replace(n_partitions=0))
        if self.resources.budget_seconds is None:
            return choices[0]
        spent = self.seconds_of_race() + (self._seconds_of_trees() if self._has_trees else 0.0)
        for sizes in choices:
            if spent + self.seconds(sizes, n_inputs) <= self.resources.budget_seconds:
                break
        return sizes

    def seconds(self, sizes: Sizes, n_inputs: int) -> float:
        """Estimate the CPU time to learn all rows on an ordinary core, by counting operations."""
        n_rows, M = self.n_rows, sizes.n_points
        rows = min(n_rows, sizes.max_rows or n_rows)
        in_all = rows * M * (M + 2 * n_inputs + 100) / _RATE + 3 * M**3 / _RATE
        n_cells, m = min(self.n_cells(), self.settings.most_cells), self.race.cell_rows
        a_row = m * (m + 2 * n_inputs + 100)
        a_partition = (n_rows * a_row + n_cells * m**3) / _RATE
        return in_all + sizes.n_partitions * a_partition

    def seconds_of_race(self) -> float:
        """Estimate the CPU time of a race, which was measured on drawn tables."""
        pilot = self.race.pilot_rows / 1000
        share = min(1.0, self.n_rows / (2.5 * self.race.pilot_rows))  # judges are 2.5 times as many
        one = _RACE_SECONDS + _RACE_SECONDS_A_COLUMN * min(self.rows.X.shape[1], _RACE_COLUMNS)
        return float(share * pilot**2 * one)

    def _seconds_of_trees(self) -> float:
        """Estimate the CPU time to grow trees, learn their leaves and solve for these."""
        n_outputs, n_columns = self.n_outputs, self.rows.X.shape[1]
        n_trees = self.settings.n_trees
        n_leaves = n_trees * N_LEAVES
        rows = min(self.n_rows, self._enough * n_leaves)
        # An addition at a random place in memory takes as long as many in a matrix product.
        operations = 100 * min(rows, MOST_GROWN) * n_trees * (n_columns + 10)
        if self.n_rows > MOST_GROWN:  # from sums; fewer rows are swept, which takes no time
            operations += 20 * rows * n_trees * (n_trees // 2 + n_outputs) + 2 * n_leaves**3
        return float(operations / _RATE)

    def n_cells(self) -> int:
        """Return the number of cells in a partition of all rows."""
        return max(2, self.n_rows // self.race.cell_rows)

    def _most_points(self) -> int:
        """Most points that fit into half of the memory, less what trees take."""
        memory = self.resources.max_memory // 2
        if self._has_trees:
            memory -= self._bytes_of_trees()
        return most_points(memory, self.n_outputs, keeps_kernel=True)

    @property
    def _enough(self) -> int:
        """Rows that components learn for each point, or leaf, beside cells."""
        settings = self.settings
        return settings.enough if self.n_rows <= settings.plenty else settings.enough // 2

    def _points_for_rows(self) -> int:
        return max(self.settings.least_points, self.n_rows // self.settings.rows_per_point)

    def _of_finalist(self, result: RaceResult, one: Candidate) -> GlobalPart:
        """Create a part with a point at every row; its ridge starts at that of the pilot fit."""
        part = self._of_all_rows(result.kernel_of(one), single=result.takes_single)
        if one.ridge is not None:
            part.ridge = part.strongest = one.ridge
        return part

    def _of_all_rows(self, kernel: Kernel, *, single: bool = False) -> GlobalPart:
        points = self.rows.X.astype(np.float64, copy=False)  # parts share them
        dtype = np.float32 if single else np.float64
        return GlobalPart(kernel, points, self.n_outputs, self.resources.forgetting, dtype=dtype)

    def _global(self, kernel: Kernel, sizes: Sizes, *, steps: bool) -> GlobalPart:
        settings, most = self.settings, self._most_points()
        size = min(sizes.n_points, self._points_for_rows(), most)
        is_large = size > settings.n_points
        n_near = int(settings.near_boundary * size) if steps and is_large else 0
        points = self.dictionary(kernel, size, n_near)
        # Sums of products in float32 cost half, but lose the smallest eigenvalues. Only large
        # dictionaries can do without these.
        points = points.astype(np.float32 if is_large else np.float64)
        return GlobalPart(kernel, points, self.n_outputs, self.resources.forgetting, sizes.max_rows)

    def dictionary(self, kernel: Kernel, size: int, n_near: int = 0) -> Any:
        """Choose the points: ``n_near`` rows near the class boundary, and k-means of the others.

        The places of the means reveal the classes of rows, so rows held out are not used.
        """
        rows = self.learned if self.classes and self.learned is not None else self.rows
        near = boundary_rows(kernel, rows, n_near) if n_near else np.zeros(0, dtype=np.int64)
        others = rows[np.setdiff1d(np.arange(len(rows)), near)] if near.size else rows
        centers = choose_centers(
            others.X,
            size - near.size,
            "kmeans",
            labels=labels_of_codes(others.targets) if self.classes else None,
            kernel=kernel,
            seed=self.resources.seed,
        )
        if not near.size:
            return centers
        points = np.concatenate([rows.X[near], centers])
        images = kernel.unwrapped()[0](points) if isinstance(kernel, Mapped) else points
        return points[distinct_rows(images)]

    def _cells(
        self,
        candidate: Candidate,
        constant: float,
        number: int,
        cells: CellSizes,
        dtype: np.dtype[Any],
    ) -> CellsPart:
        """Create cells for a candidate; its first partition cuts along columns, others do not."""
        with np.errstate(over="ignore"):
            images = in_single(candidate.map(self.rows.X))
        partition = Partitioned.balanced(
            images,
            min(self.n_cells(), cells.most) if self.n_regions is None else self.n_regions,
            kernel=candidate.kernel,
            constant=constant,
            columns=number == 0,
            seed=self.resources.seed + number,
        )
        ridge = {} if candidate.ridge is None else {"first_ridge": candidate.ridge}
        part = CellsPart(
            partition,
            candidate.map,
            cells.size,
            self.n_outputs,
            cells.most,
            self.resources.forgetting,
            cells.kept,
            dtype,
            **ridge,
        )
        part.along_columns = number == 0
        return part


def sum_bytes(size: int, n_outputs: int, *, keeps_kernel: bool = False) -> int:
    """Bytes of the sums of a dictionary, stored as one triangle, and of its Gram matrix if kept."""
    halves = 3 if keeps_kernel else 1
    return 8 * (halves * size * (size + 1) // 2 + (size + 3) * (n_outputs + 1))


def most_points(memory: int, n_outputs: int, *, keeps_kernel: bool = False) -> int:
    """Return the most points that a dictionary may have for its :func:`sum_bytes` to fit."""
    halves, b = 3 if keeps_kernel else 1, n_outputs + 1
    linear = halves + 2 * b
    root = isqrt(max(0, linear**2 + 8 * halves * (memory // 8 - 3 * b)))
    return max(1, (root - linear) // (2 * halves))


def boundary_rows(kernel: Kernel, rows: Rows, n: int) -> NDArray[np.int64]:
    """Find the rows at which a small pilot fit is least sure of the class.

    What a classification loss gains or loses is decided near the boundary between classes. If
    classes are far apart, k-means puts few points there, and steps on the loss need more.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    rows : Rows
        Rows in random order; targets are class codes -1 and +1, one column for two classes.
    n : int
        Number of rows to find.

    Returns
    -------
    numbers : ndarray of shape (min(n, n_rows),)
        Row numbers, least sure first.
    """
    learned = rows.whole(min(_PILOT_ROWS, 4 * len(rows) // 5), least=1)
    points = np.asarray(rows.X[:_PILOT_POINTS], dtype=np.float64)
    pilot = GlobalPart(kernel, points, rows.targets.shape[1])
    pilot.learn(rows[:learned])
    pilot.solve(rows[learned : learned + _PILOT_JUDGES])
    values = pilot.evaluate(rows.X)
    if values.shape[1] == 1:
        margins = np.abs(values[:, 0])
    else:
        own = np.take_along_axis(values, labels_of_codes(rows.targets)[:, np.newaxis], 1)[:, 0]
        np.put_along_axis(values, labels_of_codes(rows.targets)[:, np.newaxis], -np.inf, 1)
        margins = np.abs(own - values.max(axis=1))
    return np.argsort(margins, kind="stable")[:n]
