"""A uniform sample of the rows of a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowSample"]

Array = NDArray[np.float64]


class RowSample:
    """A uniform sample of rows of a stream: those with the smallest random keys.

    Parameters
    ----------
    size : int
        Rows to keep.

    Attributes
    ----------
    X, y : ndarray
        Inputs and targets.
    group : ndarray of shape (n_rows,) or None
        Groups, if there are any.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(0)
        self.keys: Array = np.empty(0)
        self.X: NDArray[Any] = np.empty((0, 0))
        self.y: NDArray[Any] = np.empty(0)
        self.group: Array | None = None

    def add(self, X: NDArray[Any], y: NDArray[Any], group: Array | None = None) -> None:
        """Take some more rows of the stream."""
        if not self.size:
            return
        keys = np.concatenate([self.keys, self.rng.random(len(y))])
        kept = np.sort(np.argsort(keys)[: self.size])
        if self.keys.size:
            X, y = np.concatenate([self.X, X]), np.concatenate([self.y, y])
            if group is not None and self.group is not None:
                group = np.concatenate([self.group, group])
        self.keys, self.X, self.y = keys[kept], X[kept], y[kept]
        self.group = None if group is None else group[kept]
