"""Rows with their targets and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "RevisitableRows",
    "Rows",
    "RowsByNumber",
    "blocks_from_state",
    "blocks_to_state",
    "check_sizes",
    "rows_at_once",
]

Array = NDArray[np.float64]

_LARGEST, _LARGEST_TARGET = 1e15, 1e60
_LEAST_WEIGHT = 1e-200  # sums take logarithms of weights


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows; of all that methods return only :meth:`own` surely shares no arrays.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
        Inputs, float32 or float64.
    targets : ndarray of shape (n, target_width)
        Numbers, or what stands for classes.
    weights : ndarray of shape (n,)
        Weights, at least 0.
    """

    X: Any
    targets: Array
    weights: Array

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Inputs, targets, weights."""
        return tuple(vars(self).values())

    def __getitem__(self, index: Any) -> Self:
        """Rows of a slice, a mask or numbers."""
        return type(self)(*(array[index] for array in self.arrays))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_bytes(self) -> int:
        """Memory that they take."""
        return sum(int(array.nbytes) for array in self.arrays)

    def own(self) -> Self:
        """Copy that keeps no other array alive."""
        # In the order of a file, so that products are the same to the last bit.
        return type(self)(*(np.array(array, order="C") for array in self.arrays))

    def map_targets(self, matrix: Array, offset: Array) -> Self:
        """Rows with the targets y @ matrix + offset."""
        return replace(self, targets=self.targets @ matrix + offset)

    def aged(self, forgetting: float) -> Self:
        """Rows of which each weighs ``forgetting`` times as much as if it were the next one.

        Examples
        --------
        >>> rows = Rows(np.zeros((3, 1)), np.zeros((3, 1)), np.ones(3))
        >>> rows.aged(0.5).weights
        array([0.25, 0.5 , 1.  ])
        """
        if forgetting == 1.0:
            return self
        factors = forgetting ** np.arange(len(self) - 1, -1, -1.0)
        return replace(self, weights=np.maximum(self.weights * factors, _LEAST_WEIGHT))

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """All of them in order, one at least."""
        if len(several) == 1:
            return several[0]
        columns: Any = zip(*(rows.arrays for rows in several), strict=True)
        return cls(*map(np.concatenate, columns))

    @classmethod
    def none(cls, n_features: int, n_outputs: int, dtype: Any) -> Self:
        """No rows."""
        return cls(np.empty((0, n_features), dtype), np.empty((0, n_outputs)), np.empty(0))

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        return dict(vars(self.own()))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        rows = cls(**state)
        fits = (
            rows.X.ndim == rows.targets.ndim == 2
            and rows.X.dtype in (np.float32, np.float64)
            and rows.targets.dtype == rows.weights.dtype == np.float64
            and rows.weights.ndim == 1
            and all(len(array) == len(rows) for array in rows.arrays)
            and all(np.isfinite(array).all() for array in (rows.X, rows.targets, rows.weights))
            and (rows.weights >= 0.0).all()
        )
        if not fits:
            raise ValueError("The rows that are kept do not fit together.")
        return rows.own()


class RevisitableRows(Protocol):
    """Rows that can be looked at again, wherever they lie; :class:`Rows` are some."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: NDArray[np.int64], /) -> Rows: ...


@dataclass(frozen=True)
class RowsByNumber:
    """Rows that are made when they are asked for: a :class:`RevisitableRows`.

    Attributes
    ----------
    n_rows : int
        How many there are.
    take : callable
        Numbers of rows to :class:`Rows`.
    """

    n_rows: int
    take: Callable[[NDArray[np.int64]], Rows]

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, numbers: NDArray[np.int64], /) -> Rows:
        return self.take(numbers)


def blocks_to_state(blocks: Sequence[Rows]) -> dict[str, Any] | None:
    """Rows in several blocks as plain data, copied; None for no block."""
    return Rows.joined(blocks).to_state() if blocks else None


def blocks_from_state(state: dict[str, Any] | None) -> list[Rows]:
    """Inverse of :func:`blocks_to_state`, in one block; ValueError if the arrays do not fit."""
    blocks = [] if state is None else [Rows.from_state(state)]
    return [block for block in blocks if len(block)]


def rows_at_once(n_columns: int, most: int = 131_072, most_bytes: int = 2**26) -> int:
    """How many rows to take at a time: so many, or fewer that take so many bytes."""
    return int(max(1024, min(most, most_bytes // (8 * max(n_columns, 1)))))


def check_sizes(X: Any, targets: Array) -> None:
    """Raise ValueError for numbers whose squares would overflow."""
    for name, array, most in (("inputs", X, _LARGEST), ("targets", targets, _LARGEST_TARGET)):
        values = array if isinstance(array, np.ndarray) else array.data
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        if largest > most:
            raise ValueError(
                f"The {name} reach {largest:.3g}: sums of squares of such numbers overflow. "
                f"Rescale the {name}, or drop such rows."
            )
