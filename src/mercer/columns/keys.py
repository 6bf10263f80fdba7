"""Numbers drawn for rows by what is in them: the same wherever and in whatever pieces they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def content_keys(seed: int, columns: Sequence[Any]) -> Keys:
    """Keys of rows by what is in them: the same in any shard and at any place.

    Rows that are equal have the same key.

    Parameters
    ----------
    seed : int
        Seed of the draw.
    columns : sequence of ndarray of shape (n,) or (n, k)
        All that the rows hold: numbers, or labels of any kind.

    Returns
    -------
    keys : ndarray of shape (n,) of uint64

    Examples
    --------
    >>> import numpy as np
    >>> x, label = np.array([1.0, 2.0, 1.0]), np.array(["a", "b", "a"])
    >>> keys = content_keys(0, [x, label])
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    >>> bool((content_keys(0, [x[1:], label[1:]]) == keys[1:]).all())
    True
    """
    found: Keys = np.full(len(columns[0]), mixed(np.array([seed], np.uint64))[0])
    with np.errstate(over="ignore"):
        for column in columns:
            for bits in _bits(column):
                found = (found ^ bits) * _GOLDEN
                found ^= found >> np.uint64(32)
    return mixed(found)


def _bits(column: Any) -> list[Keys]:
    """Columns as numbers of 64 bits."""
    if column.dtype.kind in "fiub":
        # Zero has two signs, which are equal.
        numbers = np.ascontiguousarray((column.astype(np.float64) + 0.0).T)
        return list(np.atleast_2d(numbers.view(np.uint64)))
    labels, places = np.unique(column.astype(str), return_inverse=True)
    return [bits_of_labels(labels.tolist())[places]]


def bits_of_labels(labels: Sequence[str]) -> Keys:
    """Labels as numbers of 64 bits, the same in every process."""
    digests = [hashlib.blake2b(label.encode(), digest_size=8).digest() for label in labels]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def mixed(numbers: Keys) -> Keys:
    """Scramble numbers of 64 bits (the last step of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(1)) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        return z ^ (z >> np.uint64(31))
