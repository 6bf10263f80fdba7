"""Numbers drawn for rows, by which some are picked, and all are put in order, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.columns.keys import mixed
from mercer.sums import Rows

Keys = NDArray[np.uint64]


class KeyedRows(NamedTuple):
    """Rows with their keys.

    Attributes
    ----------
    rows : Rows
        The rows.
    keys : ndarray of shape (n,) of uint64
        Keys of the rows.
    """

    rows: Rows
    keys: Keys

    def take(self, index: Any) -> KeyedRows:
        """Rows of a mask or numbers."""
        return KeyedRows(self.rows[index], self.keys[index])

    @classmethod
    def joined(cls, several: Sequence[KeyedRows]) -> KeyedRows:
        """Join one or more key rows, in order."""
        rows = Rows.joined([one.rows for one in several])
        return cls(rows, np.concatenate([one.keys for one in several]))

    def in_order(self) -> Rows:
        """Rows by their keys: as good as shuffled, and the same however they were cut."""
        return self.rows[np.argsort(self.keys, kind="stable")]


def row_keys(seed: int, shard: int, first: int, n: int) -> Keys:
    """Keys of successive rows by their places: as good as drawn at random.

    Parameters
    ----------
    seed : int
        Seed of the draw.
    shard : int
        Number of the shard.
    first, n : int
        Number of the first row there, and how many rows.

    Returns
    -------
    keys : ndarray of shape (n,) of uint64
        Uniform over all numbers of 64 bits; the same wherever they are made.

    References
    ----------
    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
    (SplitMix64).

    Examples
    --------
    >>> keys = row_keys(0, shard=3, first=0, n=1000)
    >>> bool((row_keys(0, 3, 990, 10) == keys[990:]).all())
    True
    >>> bool(abs(keys.astype(float).mean() / 2**64 - 0.5) < 0.05)
    True
    """
    numbers = np.arange(first, first + n, dtype=np.uint64)
    with np.errstate(over="ignore"):
        stream = mixed(mixed(np.array([seed], np.uint64)) + np.uint64(shard))
        return mixed(stream + numbers)
