"""Which parts a model gets, from what the race found and what may be spent."""

from __future__ import annotations

from math import isqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.maps import Affine
from mercer.parts._boundary import boundary_rows
from mercer.selection import DEFAULT, Candidate, RaceResult, RaceSettings
from mercer.sums import CellsPart, GlobalPart, Rows, choose_centers, distinct_rows, labels_of_codes

__all__ = ["Means", "Part", "line_up", "only_part"]

Array = NDArray[np.float64]
Part = GlobalPart | CellsPart

# Points of the global part, and rows for each of them: of images and the like, and of what cells
# learn besides.
_POINTS, _MANY_POINTS, _ROWS_PER_POINT = 2000, 4000, 8
_MANY_ROWS = 40_000
# Rows up to which there is a first, a second and a third partition; and rows beyond which a smaller
# dictionary must do beside them.
_PARTITIONS = (2**62, 2_000_000, 200_000)
_LONG = 200_000
_FEWEST_POINTS = 250
# Operations per second that a budget counts on, and the time of the race.
_RATE, _RACE_SECONDS = 2e10, 2.5
# Rows for each point that the global part learns beside cells: it is not they who make it better.
_ENOUGH = 20
_ENOUGH_FOR_STEPS = 6
# Part of a large dictionary near the boundary of classes, where steps on the loss follow.
_NEAR_BOUNDARY = 5 / 8
# A second metric makes partitions more different, which pays if it is worse by no more than this.
_NEAR = 1.05
_MOST_CELLS = 1024
# So many rows can afford smaller cells.
_FINE_FROM, _FINE_ROWS = 100_000, 700
# Cells whose error in the race is so many times that of one dictionary are not worth their time.
_HOPELESS = 1.3


class Means(Protocol):
    """What may be spent: see :class:`mercer.expansions.Auto`."""

    budget_seconds: float | None
    max_memory: int
    forgetting: float
    refresh: float
    expected_rows: int | None
    resumable: bool
    block_length: int | str
    seed: int


def line_up(
    contest: RaceResult,
    rows: Rows,
    n_rows: int | None,
    means: Means,
    *,
    classes: bool,
    steps: bool = False,
    settings: RaceSettings = DEFAULT,
) -> list[Part]:
    """Parts that have learned nothing.

    Parameters
    ----------
    contest : RaceResult
        What the race found.
    rows : Rows
        The first rows, from which come dictionaries and anchors.
    n_rows : int or None
        Rows to come in all, if known; None makes cells that are split as they grow.
    means : Means
        What may be spent.
    classes : bool
        Whether the targets are class codes.
    steps : bool, default=False
        Whether Newton steps on all rows follow, which mend what sums of fewer rows lose.
    settings : RaceSettings
        Those of the race.
    """
    n = len(rows) if n_rows is None else n_rows
    worth = [c for c in contest.cells if c.error < _HOPELESS * contest.best_global.error]
    near = [c for c in worth if c.error <= _NEAR * worth[0].error][:2]
    sizes = _sizes(contest.best_global.map.n_outputs, near, n, means, settings, steps=steps)
    steps = steps and sizes.n_partitions == 0
    one = _global(contest, rows, n, sizes, means, settings.small, classes=classes, steps=steps)
    parts: list[Part] = [one]
    cell, memory = _sum_bytes(settings.cell_size, rows.targets.shape[1]), means.max_memory
    n_partitions = min(sizes.n_partitions, memory // (4 * cell))
    # Half of the memory: the other half is the global part's.
    most = min(_MOST_CELLS, memory // (2 * cell) // max(1, n_partitions))
    for number in range(n_partitions):
        candidate = near[number % len(near)]
        parts.append(
            _cells(candidate, contest.constant, rows, n_rows, means, number, most, settings)
        )
    return parts


class _Sizes(NamedTuple):
    """How large the parts are: points of the global one, its rows at most, partitions."""

    n_points: int
    max_rows: int | None
    n_partitions: int


def _sizes(
    n_inputs: int,
    near: list[Candidate],
    n: int,
    means: Means,
    settings: RaceSettings,
    *,
    steps: bool,
) -> _Sizes:
    if not near:
        size = _MANY_POINTS if n >= _MANY_ROWS else _POINTS
        # Newton's steps mend what the sums of fewer rows lose, for a third of the time.
        most = _ENOUGH_FOR_STEPS * size if steps and size > _POINTS else None
        choices = [_Sizes(size, most, 0)]
    else:
        n_partitions = sum(n <= limit for limit in _PARTITIONS)
        size = _POINTS if n <= _LONG else _POINTS // 2
        choices = [_Sizes(size, _ENOUGH * size, p) for p in range(n_partitions, 0, -1)]
    while choices[-1].n_points > _FEWEST_POINTS:
        size = choices[-1].n_points // 2
        choices.append(_Sizes(size, _ENOUGH * size, min(1, choices[-1].n_partitions)))
    choices.append(choices[-1]._replace(n_partitions=0))
    if means.budget_seconds is None:
        return choices[0]
    for sizes in choices:
        if _RACE_SECONDS + _seconds(sizes, n_inputs, n, settings) <= means.budget_seconds:
            break
    return sizes


def _seconds(sizes: _Sizes, n_inputs: int, n_rows: int, settings: RaceSettings) -> float:
    """CPU time to learn so many rows on an ordinary core, by counts of operations."""
    M, rows = sizes.n_points, min(n_rows, sizes.max_rows or n_rows)
    in_all = rows * M * (M + 2 * n_inputs + 100) / _RATE + 3 * M**3 / _RATE
    n_cells, m = min(_n_cells(n_rows, settings.cell_rows), _MOST_CELLS), settings.cell_size
    a_row = 2 * n_cells * n_inputs + m * (m + 2 * n_inputs + 100)
    a_partition = n_rows * a_row / _RATE + 4 * n_cells * m**3 / _RATE
    return in_all + sizes.n_partitions * a_partition


def _global(
    contest: RaceResult,
    rows: Rows,
    n: int,
    sizes: _Sizes,
    means: Means,
    small: int,
    *,
    classes: bool,
    steps: bool,
) -> GlobalPart:
    kernel = contest.kernel
    n_outputs = rows.targets.shape[1]
    most = _most_points(means.max_memory // 2, n_outputs, keeps_kernel=True)
    if n <= min(small, most):
        return GlobalPart(kernel, rows.X.astype(np.float64), n_outputs, means.forgetting)
    size = min(sizes.n_points, max(1000, n // _ROWS_PER_POINT), most)
    n_near = int(_NEAR_BOUNDARY * size) if steps and size > _POINTS else 0
    points = _points(kernel, rows, size, means, classes=classes, n_near=n_near)
    # Sums of products in float32 cost half and hide the smallest eigenvalues, which only large
    # dictionaries can do without.
    points = points.astype(np.float32 if size > _POINTS else np.float64)
    return GlobalPart(kernel, points, n_outputs, means.forgetting, sizes.max_rows)


def _sum_bytes(size: int, n_outputs: int, *, keeps_kernel: bool = False) -> int:
    """Memory of the sums of a dictionary, whose matrix is packed, and of its kernel matrix."""
    halves = 3 if keeps_kernel else 1
    return 8 * (halves * size * (size + 1) // 2 + (size + 3) * (n_outputs + 1))


def _most_points(memory: int, n_outputs: int, *, keeps_kernel: bool = False) -> int:
    """Points of the largest dictionary whose :func:`_sum_bytes` are within the memory."""
    halves, b = 3 if keeps_kernel else 1, n_outputs + 1
    linear = halves + 2 * b
    root = isqrt(max(0, linear**2 + 8 * halves * (memory // 8 - 3 * b)))
    return max(1, (root - linear) // (2 * halves))


def _points(
    kernel: Kernel, rows: Rows, size: int, means: Means, *, classes: bool, n_near: int = 0
) -> Any:
    """Return a dictionary: so many rows near the boundary of classes, and means of others."""
    near = boundary_rows(kernel, rows, n_near) if n_near else np.zeros(0, dtype=np.int64)
    others = rows[np.setdiff1d(np.arange(len(rows)), near)] if near.size else rows
    centers = choose_centers(
        others.X,
        size - near.size,
        "kmeans",
        labels=labels_of_codes(others.targets) if classes else None,
        kernel=kernel,
        seed=means.seed,
    )
    if not near.size:
        return centers
    points = np.concatenate([rows.X[near], centers])
    images = kernel.unwrapped()[0](points) if isinstance(kernel, Mapped) else points
    return points[distinct_rows(images)]


def only_part(
    kernel: Kernel,
    rows: Rows,
    n_rows: int | None,
    means: Means,
    *,
    classes: bool,
    settings: RaceSettings = DEFAULT,
) -> Part:
    """Return the part of a kernel of the user's own: cells if it is partitioned.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    rows, n_rows, means, classes, settings
        As of :func:`line_up`.
    """
    n, n_outputs = len(rows) if n_rows is None else n_rows, rows.targets.shape[1]
    small = settings.small
    map, inner = kernel.unwrapped() if isinstance(kernel, Mapped) else (None, kernel)
    if isinstance(inner, Partitioned) and (map is None or isinstance(map, Affine)) and n > small:
        in_cell = min(
            settings.cell_size, _most_points(means.max_memory // inner.n_cells, n_outputs)
        )
        return CellsPart(inner, map, in_cell, n_outputs, 0, means.forgetting)
    most = _most_points(means.max_memory // 2, n_outputs, keeps_kernel=True)
    if n <= min(small, most):
        return GlobalPart(kernel, rows.X.astype(np.float64), n_outputs, means.forgetting)
    sizes = _sizes(rows.X.shape[1], [], n, means, settings, steps=False)
    size = min(_POINTS, sizes.n_points, max(1000, n // _ROWS_PER_POINT), most)
    points = _points(kernel, rows, size, means, classes=classes).astype(np.float64)
    rows_at_most = None if means.budget_seconds is None else sizes.max_rows
    return GlobalPart(kernel, points, n_outputs, means.forgetting, rows_at_most)


def _n_cells(n_rows: int, cell_rows: int) -> int:
    return max(2, n_rows // (cell_rows if n_rows < _FINE_FROM else _FINE_ROWS))


def _cells(
    candidate: Candidate,
    constant: float,
    rows: Rows,
    n_rows: int | None,
    means: Means,
    number: int,
    most: int,
    settings: RaceSettings,
) -> CellsPart:
    n = len(rows) if n_rows is None else n_rows
    images = np.asarray(candidate.map(rows.X), dtype=np.float32)
    partition = Partitioned.fitted(
        images,
        min(_n_cells(n, settings.cell_rows), most),
        multiple=candidate.length,
        constant=constant,
        seed=means.seed + number,
    )
    return CellsPart(
        partition,
        candidate.map,
        settings.cell_size,
        rows.targets.shape[1],
        most,
        means.forgetting,
    )
