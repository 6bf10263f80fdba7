"""What the solvers for comparison share: steps, batches of rows, features kept in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
FeatureMaker = Callable[[Floats], Floats]

#: Rows that are mapped or compared at once: their kernel values stay in the cache.
TILE = 2048
# Features of this many bytes are kept for the next pass; more are computed again.
_CACHE_BYTES = 2**31


class Solver(ABC):
    """A training that goes on step by step."""

    @abstractmethod
    def step(self) -> int:
        """Do one step; return the number of training rows that it visited."""

    @abstractmethod
    def decision_function(self, X: Floats) -> Array:
        """Scores of rows with what is learned so far, shape (n_rows,)."""


def row_batches(n_rows: int, batch_size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Batches of row numbers without end: each pass in a new random order.

    All batches have ``batch_size`` rows (or ``n_rows``, if that is less); rows that are left over
    at the end of a pass are not visited in it.

    Examples
    --------
    >>> batches = row_batches(5, 2, seed=0)
    >>> sorted(np.concatenate([next(batches), next(batches)]).tolist())
    [0, 2, 3, 4]
    """
    rng = np.random.default_rng(seed)
    size = min(batch_size, n_rows)
    while True:
        order = rng.permutation(n_rows)
        for start in range(0, n_rows - size + 1, size):
            yield order[start : start + size]


def tiles(n_rows: int, size: int = TILE) -> Iterator[slice]:
    """Slices that cover the rows, ``size`` at a time."""
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


class CachedFeatures:
    """Features of the training rows in float32, computed when a row is first visited.

    Parameters
    ----------
    make : callable
        Maps rows (n, n_inputs) to features (n, n_features).
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    keep : bool, default=True
        Keep the features of a row for the next pass, if there are not too many.
    """

    def __init__(self, make: FeatureMaker, X: Floats, *, keep: bool = True) -> None:
        self.make, self._X = make, X
        self.n_features = make(X[:1]).shape[1]
        self._known = np.zeros(len(X), dtype=bool)
        keep = keep and 4 * len(X) * self.n_features <= _CACHE_BYTES
        self._store = np.empty((len(X), self.n_features), np.float32) if keep else None

    def __len__(self) -> int:
        return len(self._X)

    def rows(self, chosen: slice) -> Floats:
        """Return the inputs of some rows, not their features."""
        return self._X[chosen]

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features of some rows, C-ordered, a new array."""
        if self._store is None:
            return np.ascontiguousarray(self.make(self._X[rows]), dtype=np.float32)
        new = rows[~self._known[rows]]
        for tile in tiles(new.size):
            self._store[new[tile]] = self.make(self._X[new[tile]])
        self._known[new] = True
        return self._store[rows]


class LinearSolver(Solver):
    """A linear function of features; ``weights`` is what predictions use."""

    def __init__(self, features: CachedFeatures) -> None:
        self.features = features

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Weights of the features, shape (n_features,)."""

    def decision_function(self, X: Floats) -> Array:
        w = self.weights
        return np.concatenate([self.features.make(X[tile]) @ w for tile in tiles(len(X))])
