"""Room for the points of a dictionary, and where they are in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.state import Dictionary, Newcomers

Indices = NDArray[np.int64]


def grown_capacity(capacity: int, needed: int, most: int) -> int:
    """Capacity where ``needed`` is more than there is, and ``most`` will never be exceeded.

    Examples
    --------
    >>> grown_capacity(100, 101, 1000), grown_capacity(100, 101, 120)
    (166, 120)
    """
    grown = max(needed, int(1.5 * capacity) + 16)
    return max(needed, min(grown, most))


def new_arrays(
    capacity: int, n_features: int, n_columns: int, dtype: np.dtype[Any], *, inverse: bool
) -> Dictionary:
    """Arrays for so many points; with room for an inverse Gram matrix where there is one."""
    square = capacity if inverse else 0
    return Dictionary(
        np.zeros((capacity, n_features), dtype),
        np.zeros(capacity),
        np.zeros((capacity, n_columns)),
        np.zeros((square, square), dtype),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.bool_),
    )


def take_over(new: Dictionary, old: Dictionary, n: int) -> None:
    """Copy the first points of other arrays."""
    for name in ("points", "self_kernel", "weights", "origin", "pinned"):
        getattr(new, name)[:n] = getattr(old, name)[:n]
    if new.inverse.size:
        new.inverse[:n, :n] = old.inverse[:n, :n]


def no_newcomers(arrays: Dictionary, n: int) -> Newcomers:
    """Nothing to add to the first points of some arrays."""
    dtype = arrays.points.dtype
    return Newcomers(
        np.zeros((0, arrays.points.shape[1]), dtype),
        np.zeros((0, n), dtype),
        np.zeros((0, 0), dtype),
        np.zeros((0, arrays.weights.shape[1])),
        np.zeros(0, np.bool_),
    )


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
