"""Rows too few for a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.learner._base import Array
from mercer.objectives import Batch
from mercer.sums import Rows

__all__ = ["Waiting"]


@dataclass(frozen=True, eq=False)
class Waiting(Rows):
    """Rows too few for a step, with the function's values there, (n, n_columns)."""

    values: Array

    def batch(self) -> Batch:
        """Rows as objectives see them."""
        return Batch(self.X, self.targets, self.weights)

    def check(self, n_features: int, n_columns: int, dtype: np.dtype[Any]) -> None:
        """Raise ValueError if they do not fit a function."""
        values, n = self.values, len(self)
        fits = self.X.shape == (n, n_features) and self.X.dtype == dtype and n > 0
        if not fits or values.shape != (n, n_columns) or values.dtype != np.float64:
            raise ValueError("The rows that wait for a step do not fit together.")
