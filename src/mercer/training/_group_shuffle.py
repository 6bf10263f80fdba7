"""Shuffling of rows that are compared within groups, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data.shuffle import group_order

__all__ = ["shuffled_groups"]

Rows = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]

_PIECE = 8192  # rows


def shuffled_groups(
    blocks: Iterable[Rows],
    buffer_size: int,
    random_state: int | np.random.Generator | np.random.SeedSequence | None = None,
) -> Iterator[Rows]:
    """Shuffle groups, and the rows of each, but keep the rows of a group together.

    A ranking pairs a row with earlier ones of its group, which a buffer of few rows holds: where
    the groups of neighbours in the stream differ, there is nothing to learn. So a window of rows
    is read and given out group by group, the groups in random order, the rows of a group, too. A
    group that the window ends within is left to the next one, unless it fills the window. Groups
    whose rows are far apart in the files are together as far as they are in one window.

    Parameters
    ----------
    blocks : iterable of (X, y, group)
        Blocks of rows; ``group`` of shape (n_rows,).
    buffer_size : int
        Rows of a window.
    random_state : int, numpy.random.Generator, numpy.random.SeedSequence or None, default=None
        The same seed and the same rows give the same order, however these are cut into blocks.

    Yields
    ------
    X, y, group : ndarray
        Every row exactly once.

    Examples
    --------
    >>> group = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 3.0])
    >>> parts = shuffled_groups([(group[:, None], group, group)], 6, random_state=0)
    >>> np.concatenate([part[2] for part in parts])
    array([2., 2., 3., 1., 1., 1.])
    """
    rng = np.random.default_rng(random_state)
    held: list[Rows] = []
    n_held = 0
    for block in blocks:
        held.append(block)
        n_held += len(block[2])
        while n_held > buffer_size:
            rows = _joined(held)
            end = _start_of_last_group(rows[2][:buffer_size]) or buffer_size
            yield from _shuffled(_cut(rows, 0, end), rng)
            held, n_held = [_cut(rows, end, n_held)], n_held - end
    if n_held:
        yield from _shuffled(_joined(held), rng)


def _shuffled(rows: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    order = group_order(rows[2], rng)
    for start in range(0, order.size, _PIECE):
        X, y, g = (array[order[start : start + _PIECE]] for array in rows)
        yield X, y, g


def _start_of_last_group(group: NDArray[np.float64]) -> int:
    """First row of the run of equal groups at the end; 0 if there is no other."""
    others = np.flatnonzero(group != group[-1])
    return int(others[-1]) + 1 if others.size else 0


def _joined(held: list[Rows]) -> Rows:
    X, y, group = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
    return X, y, group


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    X, y, group = (array[start:stop] for array in rows)
    return X, y, group
