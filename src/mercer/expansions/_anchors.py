"""Points that come again step after step, and so have places in the dictionary.

A pairwise objective pairs every row with those of a buffer. A point of the buffer that is in the
dictionary gets its coefficient there, instead of joining as a newcomer in every step, and may not
be removed as long as it is in the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.expansions.kernel_expansion import KernelExpansion

__all__ = ["Anchored", "follow_slots", "place_points"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]


class Anchored(NamedTuple):
    """Where the points of a step are."""

    slots: Indices  # (n_points,), of the dictionary before the step; -1 if they are not there
    newcomers: Indices  # numbers of the points that join
    pinned: NDArray[np.bool_]  # (n_newcomers,), whether they must stay
    after: Indices  # (n_points,), places after the step, -1 for none

    def slots_of_places(self, origin: Indices) -> Indices:
        """Slots of the places after a step.

        Parameters
        ----------
        origin : ndarray of shape (size,) of int64
            ``Dictionary.origin`` after the step, numbered before it.
        """
        final = follow_slots(self.slots, origin - 1)
        final[self.newcomers] = follow_slots(np.arange(self.newcomers.size), -1 - origin)
        places = np.full(int(self.after.max(initial=-1)) + 1, -1, np.int64)
        stay = self.after >= 0
        places[self.after[stay]] = final[stay]
        return places


def place_points(
    f: KernelExpansion,
    X: Floats,
    rows: Floats,
    self_kernel: Array,
    coefficients: Array,
    before: Indices,
    after: Indices,
) -> Anchored:
    """Give the points of a step that are in the dictionary their coefficients; number the slots.

    Parameters
    ----------
    f : KernelExpansion
        Changed in place.
    X : ndarray of shape (n_points, n_features)
        The points.
    rows : ndarray of shape (n_points, size)
        Kernels of the points with the dictionary.
    self_kernel : ndarray of shape (n_points,)
        k(x, x) of the points.
    coefficients : ndarray of shape (n_points, n_outputs)
        In units of the scaled ones.
    before, after : ndarray of shape (n_points,) of int64
        Places of the points before and after the step, -1 for none.
    """
    n, d = f.size, f.arrays
    slots = np.full(before.size, -1, np.int64)
    known = (before >= 0) & (before < f.slots.size)
    slots[known] = f.slots[before[known]]
    wanted = coefficients.any(axis=1) | ((before < 0) & (after >= 0))
    for i in np.flatnonzero(wanted & (slots < 0)) if n else ():
        distances = d.self_kernel[:n] + self_kernel[i] - 2.0 * rows[i]
        nearest = int(np.argmin(distances))
        if np.array_equal(d.points[nearest], X[i].astype(f.dtype, copy=False)):
            slots[i] = nearest
    there = slots >= 0
    np.add.at(d.weights[:, : f.n_outputs], slots[there], coefficients[there])
    d.origin[:n] = np.arange(1, n + 1)
    d.pinned[:n] = False
    d.pinned[slots[there & (after >= 0)]] = True
    newcomers = np.flatnonzero(wanted & ~there)
    return Anchored(slots, newcomers, after[newcomers] >= 0, after)


def follow_slots(slots: Indices, old: Indices) -> Indices:
    """Slots of points after those of a dictionary have moved.

    Parameters
    ----------
    slots : ndarray of shape (n_points,) of int64
        Slots before, -1 for none.
    old : ndarray of shape (size,) of int64
        Slot that the point of each slot had before; below 0 if it was not there.
    """
    moved = np.full(max(int(slots.max(initial=-1)), int(old.max(initial=-1))) + 1, -1, np.int64)
    stayed = np.flatnonzero(old >= 0)
    moved[old[stayed]] = stayed
    return np.where(slots >= 0, moved[slots], -1) if moved.size else slots.copy()
