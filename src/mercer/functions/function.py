"""Interface of functions, as the loop and prediction see them, and storage for their points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.numerics.compression import Dictionary, Newcomers
from mercer.records import Field, Numbers, Sizes

Array = NDArray[np.float64]


class Function(ABC):
    """A function with ``n_outputs`` outputs, built with a kernel.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    expansion : Expansion
        How the function stays small.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    averaging : float or None
        Evaluate the average of the iterates with weights ``t**averaging`` (0: plain mean); None for
        the last iterate.
    """

    expansion: Any
    #: Slots of points that return in later steps; empty if the function keeps no such points.
    slots: NDArray[np.int64] = np.empty(0, np.int64)

    def __init__(
        self,
        kernel: Kernel,
        expansion: Expansion,
        n_features: int,
        n_outputs: int,
        averaging: float | None,
    ) -> None:
        self.kernel = kernel
        self.expansion = expansion
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.averaging = averaging

    @property
    def promoted(self) -> str:
        """The safer path in use, if any: ``""``, ``"float64"`` or ``"triangular"``."""
        return ""

    @abstractmethod
    def evaluate(self, X: Any) -> Array:
        """Return values of the function (of the averaged one, if there is one).

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.

        Returns
        -------
        values : ndarray of shape (n, n_outputs)

        Raises
        ------
        ValueError
            If a row is outside the kernel's domain, or a value is not finite.
        """

    @abstractmethod
    def keep_previous(self) -> None:
        """Start to remember the function before the last step.

        Until the next step, the current function also counts as the previous one: :math:`f_{-1} =
        f_0`.
        """

    @abstractmethod
    def map_outputs(self, mixing: Array) -> None:
        """Replace the outputs f by f @ ``mixing``, for example to insert one for a new class.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            Column j holds the coefficients of the new output j in the old outputs.
        """

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return copies of everything that learning changes; for :meth:`restore`."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`snapshot`, bit for bit.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """

    def check_restored(self) -> None:  # noqa: B027  some have nothing to check
        """Check what was restored from a file, in which anything may stand.

        Raises
        ------
        ValueError
            If what depends on the points is not that of these points.
        """


def dense_rows(X: Any, dtype: DTypeLike, precision: str) -> NDArray[np.floating]:
    """Return rows as a dense array of the type that a ``precision`` computes in.

    Raises
    ------
    ValueError
        If a value exceeds the range of that type.
    """
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    with np.errstate(over="ignore"):
        rows: NDArray[np.floating] = np.ascontiguousarray(dense, dtype=dtype)
    if rows.dtype != dense.dtype and not np.isfinite(rows).all():
        raise ValueError(
            f"An input of size {float(np.abs(dense).max()):.3g} leaves the range of {rows.dtype}, "
            f"in which precision={precision!r} computes. Rescale the inputs, for example with "
            "sklearn.preprocessing.StandardScaler, or use precision='double'."
        )
    return rows


def precise_rows(X: Any, dtype: DTypeLike, precision: str) -> NDArray[np.floating]:
    """Return rows as a dense float64 array: predictions use float64 whatever the precision.

    Raises
    ------
    ValueError
        If a value exceeds the range of the type used in learning: see :func:`dense_rows`.
    """
    rows = dense_rows(X, np.float64, precision)
    if np.dtype(dtype) != np.float64:
        dense_rows(rows, dtype, precision)
    return rows


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
