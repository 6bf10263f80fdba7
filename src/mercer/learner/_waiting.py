"""Rows too few for a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.learner._base import Array

__all__ = ["Waiting"]


class Waiting(NamedTuple):
    """Rows too few for a step, with the function's values there."""

    X: NDArray[np.floating]
    targets: Array
    weights: Array
    values: Array

    def join(self, X: Any, targets: Array, weights: Array, values: Array) -> Waiting:
        """Return these rows and some more."""
        new: Any = zip(self, (X, targets, weights, values), strict=True)
        return Waiting(*(np.concatenate(pair) for pair in new))

    def cut(self, first: int, last: int | None = None) -> Waiting:
        """Return some of the rows; shares the arrays."""
        arrays: Any = (array[first:last] for array in self)
        return Waiting(*arrays)

    def copied(self) -> Waiting:
        """Return the rows in arrays of their own."""
        arrays: Any = (array.copy() for array in self)
        return Waiting(*arrays)

    @classmethod
    def from_state(
        cls, state: dict[str, Any], n_features: int, n_columns: int, dtype: np.dtype[Any]
    ) -> Waiting:
        """Inverse of ``_asdict``.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        rows = cls(**state)
        size = len(rows.X)
        if not (
            rows.X.shape == (size, n_features)
            and rows.X.dtype == dtype
            and rows.targets.ndim == 2
            and len(rows.targets) == size
            and rows.weights.shape == (size,)
            and rows.values.shape == (size, n_columns)
            and all(array.dtype == np.float64 for array in rows[1:])
        ):
            raise ValueError("The rows that wait for a step do not fit together.")
        return rows
