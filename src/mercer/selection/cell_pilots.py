"""Pilots of cells in a race: exact fits to some cells of the first rows, judged on other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import DistanceKernel, Partitioned
from mercer.kernels.cells import rows_by_cell
from mercer.maps import FixedMap
from mercer.selection.families import LITTLE, Family
from mercer.selection.pilots import error_of, table_entry
from mercer.sums import ExactRidge, Rows, descend
from mercer.sums.basis import in_single
from mercer.sums.cells import CELL_RIDGES
from mercer.sums.ridge import descend_able
from mercer.threads import in_order

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
_Values = Callable[[float], Array | None]

# Share of the rows that is fitted.
_FITTED = 0.8
# Index of the ridge to begin with.
_FIRST_RIDGE = 4


class CellPilot(NamedTuple):
    """A pilot of cells with one length scale and one ridge, fitted and judged."""

    length: float
    ridge: int  # index in CELL_RIDGES
    error: float
    deviation: float  # standard error of it


class CellPilots:
    """Pilots that use the same cells, so that their errors are comparable.

    Parameters
    ----------
    rows : Rows
        Rows in random order; the last fifth judges.
    map : FixedMap
        Map of the inputs before the space is divided into cells.
    cell_rows, most_rows, n_asked : int
        Usual and largest number of rows of a cell, and number of cells that are fitted.
    seed : int
        Seed for the cells.
    """

    def __init__(
        self,
        rows: Rows,
        map: FixedMap,
        cell_rows: int,
        most_rows: int,
        n_asked: int,
        seed: int,
    ) -> None:
        self._rows = rows
        n, images = rows.whole(int(_FITTED * len(rows)), least=1), _single(map, rows.X)
        partition = Partitioned.balanced(images[:n], max(2, n // cell_rows), seed=seed)
        fitted = rows_by_cell(partition.cells(images[:n]))
        judged = rows_by_cell(partition.cells(images[n:]))
        able = sorted(fitted.keys() & judged.keys())
        asked = np.linspace(0, len(able) - 1, min(len(able), n_asked)).astype(int)
        self._cells: list[tuple[Numbers, Numbers]] = [
            (fitted[cell][:most_rows], judged[cell] + n) for cell in (able[at] for at in asked)
        ]
        self._judges = rows[np.concatenate([theirs for _, theirs in self._cells])]

    def best_length(
        self, family: Family, map: FixedMap, lengths: list[float], first: int, name: str
    ) -> tuple[CellPilot, list[dict[str, Any]]]:
        """Find the best length scale and ridge for a family of kernels after a map.

        Parameters
        ----------
        family : Family
            Family of local kernels.
        map : FixedMap
            Map of the inputs.
        lengths, first : list of float and int
            Length scales to try, and the index of the first one.
        name : str
            Name of the map, for the table.
        """
        values_with, table = self._fits(family, map), []
        state = {"ridge": _FIRST_RIDGE}

        def attempt(number: int) -> tuple[float, CellPilot]:
            values = values_with(lengths[number])

            def judge(ridge: int) -> tuple[float, tuple[float, float] | None]:
                predictions = values(float(CELL_RIDGES[ridge]))
                if predictions is None:
                    return np.inf, None
                found = error_of(predictions, self._judges)
                return found[0], found

            state["ridge"], numbers = descend_able(judge, state["ridge"], CELL_RIDGES.size)
            assert numbers is not None  # the largest ridge suits any kernel matrix
            pilot = CellPilot(lengths[number], state["ridge"], *numbers)
            what = "cells", family.name, name, map.n_outputs
            table.append(table_entry(*what, pilot.length, *numbers))
            return pilot.error, pilot

        return descend(attempt, first, len(lengths))[1], table

    def _fits(self, family: Family, map: FixedMap) -> Callable[[float], _Values]:
        """Return a function from length scale to ridge to values at the judging rows, clipped.

        The values are clipped to the range of the targets; None if a ridge is too weak for single
        precision.
        """
        images = _single(map, self._rows.X)
        unit = family.make(1.0)
        assert isinstance(unit, DistanceKernel)
        pieces = []
        for mine, theirs in self._cells:
            own = unit.separations(images[mine], images[mine])
            pieces.append((self._rows[mine], own, unit.separations(images[theirs], images[mine])))

        def with_length(length: float) -> _Values:
            kernel = family.make(length)
            assert isinstance(kernel, DistanceKernel)

            def fits_of(piece: tuple[Rows, Any, Any]) -> _Values:
                fitted, own, others = piece
                mean = np.average(fitted.targets, axis=0, weights=fitted.weights)
                ends = fitted.targets.min(axis=0), fitted.targets.max(axis=0)
                K = kernel.of_separations(own) + LITTLE
                exact = ExactRidge(K, fitted.targets - mean, fitted.weights)
                across = kernel.of_separations(others) + LITTLE

                def values(ridge: float) -> Array | None:
                    fit = exact.fit(ridge)
                    return None if fit is None else np.clip(fit.values(across) + mean, *ends)

                return values

            fits = in_order(fits_of, pieces)

            def with_ridge(ridge: float) -> Array | None:
                found = [one for one in in_order(lambda fit: fit(ridge), fits) if one is not None]
                return np.concatenate(found) if len(found) == len(fits) else None

            return with_ridge

        return with_length


def _single(map: FixedMap, X: Any) -> NDArray[np.float32]:
    """Return mapped rows in single precision."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(in_single(map(X)))
