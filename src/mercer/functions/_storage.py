"""Storage for the points of a dictionary, and the slots that they occupy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.state import Dictionary, Newcomers
from mercer.records import Field, Numbers, Sizes

Indices = NDArray[np.int64]


class Half(Field):
    """A square matrix determined by one triangle: stored as the triangle, or as a whole.

    Copies that live only during a call are whole, which is faster.

    Parameters
    ----------
    size : str
        Dimension of its rows and columns.
    dtype : dtype or tuple of dtype, default=numpy.float64
        The type, or the allowed types.
    triangle : callable, default=numpy.tril_indices
        Indices of the triangle in a matrix of that size.
    symmetric : bool, default=False
        Whether the other triangle is the mirror image; otherwise it is read as zeros.
    """

    def __init__(
        self,
        size: str,
        dtype: Any = np.float64,
        triangle: Callable[[int], Any] = np.tril_indices,
        *,
        symmetric: bool = False,
    ) -> None:
        self.size, self.dtype, self.triangle, self.symmetric = size, dtype, triangle, symmetric

    def of(self, matrix: NDArray[Any], *, packed: bool) -> NDArray[Any]:
        """Return what is stored of a matrix: one triangle, or all of it."""
        return matrix[self.triangle(len(matrix))] if packed else matrix

    def written(self, value: Any) -> Any:
        return np.array(value, order="C")

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        is_whole = np.ndim(value) == 2
        n = sizes.setdefault(self.size, len(value) if is_whole else isqrt(2 * np.size(value)))
        shape = (n, n) if is_whole else (n * (n + 1) // 2,)
        numbers = Numbers(*shape, dtype=self.dtype).read(name, value, sizes)
        if is_whole:
            return numbers
        matrix = np.zeros((n, n), numbers.dtype)
        matrix[self.triangle(n)] = numbers
        if self.symmetric:
            matrix.T[self.triangle(n)] = numbers
        return matrix

    @property
    def dimensions(self) -> Iterator[str]:
        yield self.size


def grown_capacity(capacity: int, needed: int, most: int) -> int:
    """Return a capacity for ``needed`` points, with room to grow but at most ``most``.

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
    """Return empty arrays for a number of points, with an inverse Gram matrix if needed."""
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
    """Copy the first ``n`` points of other arrays."""
    for name in ("points", "self_kernel", "weights", "origin", "pinned"):
        getattr(new, name)[:n] = getattr(old, name)[:n]
    if new.inverse.size:
        new.inverse[:n, :n] = old.inverse[:n, :n]


def no_newcomers(arrays: Dictionary, n: int) -> Newcomers:
    """Return a record of newcomers that adds nothing to the first ``n`` points."""
    dtype = arrays.points.dtype
    return Newcomers(
        np.zeros((0, arrays.points.shape[1]), dtype),
        np.zeros((0, n), dtype),
        np.zeros((0, 0), dtype),
        np.zeros((0, arrays.weights.shape[1])),
        np.zeros(0, np.bool_),
    )


def follow_slots(slots: Indices, old: Indices) -> Indices:
    """Return slots of points after the points of a dictionary have moved.

    Parameters
    ----------
    slots : ndarray of shape (n_points,) of int64
        Slots before, -1 for none.
    old : ndarray of shape (size,) of int64
        Former slot of the point in each slot; below 0 if the point is new.
    """
    moved = np.full(max(int(slots.max(initial=-1)), int(old.max(initial=-1))) + 1, -1, np.int64)
    stayed = np.flatnonzero(old >= 0)
    moved[old[stayed]] = stayed
    return np.where(slots >= 0, moved[slots], -1) if moved.size else slots.copy()
