"""Rows as parts learn them, and how they are put in order of their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "check_sizes"]

Array = NDArray[np.float64]

_LARGEST, _LARGEST_TARGET = 1e15, 1e60
_LEAST_WEIGHT = 1e-200  # sums take logarithms of weights


@dataclass(frozen=True)
class Rows:
    """Some rows.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
        Inputs, float32 or float64.
    targets : ndarray of shape (n, n_outputs)
        Numbers, or class codes -1 and +1.
    weights : ndarray of shape (n,)
        Weights, above 0.
    """

    X: Any
    targets: Array
    weights: Array

    def __getitem__(self, index: Any) -> Rows:
        """Rows of a slice, a mask or numbers."""
        return Rows(self.X[index], self.targets[index], self.weights[index])

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_bytes(self) -> int:
        """Memory that they take."""
        return int(self.X.nbytes + self.targets.nbytes + self.weights.nbytes)

    def join(self, other: Rows) -> Rows:
        """Both, these first."""
        return Rows.joined([self, other])

    def own(self) -> Rows:
        """Copy that keeps no other array alive."""
        # In the order of a file, so that products are the same to the last bit.
        return Rows(*(np.array(one, order="C") for one in (self.X, self.targets, self.weights)))

    def map_targets(self, matrix: Array, offset: Array) -> Rows:
        """Rows with the targets y @ matrix + offset."""
        return Rows(self.X, self.targets @ matrix + offset, self.weights)

    def aged(self, forgetting: float) -> Rows:
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
        return Rows(self.X, self.targets, np.maximum(self.weights * factors, _LEAST_WEIGHT))

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        mine = self.own()
        return {"X": mine.X, "targets": mine.targets, "weights": mine.weights}

    @staticmethod
    def joined(several: list[Rows]) -> Rows:
        """All of them in order."""
        return Rows(
            np.concatenate([rows.X for rows in several]),
            np.concatenate([rows.targets for rows in several]),
            np.concatenate([rows.weights for rows in several]),
        )

    @classmethod
    def none(cls, n_features: int, n_outputs: int, dtype: Any) -> Self:
        """No rows."""
        return cls(np.empty((0, n_features), dtype), np.empty((0, n_outputs)), np.empty(0))


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
