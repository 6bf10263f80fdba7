"""Shuffling of streams that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.validation import check_integer

Array = NDArray[Any]
Block = TypeVar("Block", bound="Array | tuple[Any, ...]")


def shuffled(
    blocks: Iterable[Block],
    buffer_size: int,
    random_state: int | np.random.Generator | np.random.SeedSequence | None = None,
) -> Iterator[Block]:
    r"""Shuffle the rows of a stream of blocks in a buffer of fixed size.

    Once the buffer is full, every new row takes the place of a random row of the buffer, which is
    sent on in its stead; at the end the buffer follows in random order. So a row waits for
    ``buffer_size`` rows on average (the wait is geometric), and can overtake at most
    ``buffer_size`` others. Rows much further apart than that keep their order on the whole: for
    data sorted by class, the buffer must be a fair share of the data. With a buffer as large as
    the data, every permutation is equally likely.

    Parameters
    ----------
    blocks : iterable of ndarray or of tuples of ndarrays
        Blocks of rows. The arrays of a tuple belong together row by row; None stays None.
    buffer_size : int
        Number of rows held back.
    random_state : int, numpy.random.Generator, numpy.random.SeedSequence or None, default=None
        The same seed and the same blocks give the same order.

    Yields
    ------
    block : ndarray or tuple of ndarrays
        Blocks no longer than the longest that came in; every row exactly once.

    Raises
    ------
    ValueError
        If the buffer size is not a positive integer, or blocks do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.concatenate(list(shuffled(np.arange(12).reshape(4, 3), 6, random_state=0)))
    >>> sorted(rows.tolist()) == list(range(12))
    True
    """
    check_integer("buffer_size", buffer_size, low=1)
    return _shuffled(blocks, buffer_size, np.random.default_rng(random_state))


def _shuffled(blocks: Iterable[Any], size: int, rng: np.random.Generator) -> Iterator[Any]:
    buffer: list[Array | None] = []
    held = longest = 0
    single = False
    for block in blocks:
        single = not isinstance(block, tuple)
        arrays = [block] if single else list(block)
        n = _length(arrays)
        longest = max(longest, n)
        buffer = _make_room(buffer, arrays, size)
        start = min(size - held, n)
        _put(buffer, slice(held, held + start), arrays, slice(0, start))
        held += start
        for first in range(start, n, size):
            rows = slice(first, min(first + size, n))
            slots = rng.choice(size, rows.stop - rows.start, replace=False)
            out = _take(buffer, slots)
            _put(buffer, slots, arrays, rows)
            yield out[0] if single else tuple(out)
    order = rng.permutation(held)
    for first in range(0, held, max(longest, 1)):
        out = _take(buffer, order[first : first + longest])
        yield out[0] if single else tuple(out)


def _length(arrays: list[Array | None]) -> int:
    if any(sparse.issparse(array) for array in arrays):
        raise ValueError(
            "Sparse blocks cannot be shuffled in a buffer, because rows have different sizes. "
            "Pass the whole CSR matrix to `stream`, which shuffles row numbers, or dense blocks."
        )
    lengths = {len(array) for array in arrays if array is not None}
    if len(lengths) != 1:
        raise ValueError(f"The arrays of a block must have equal lengths, got {sorted(lengths)}.")
    return lengths.pop()


def _make_room(
    buffer: list[Array | None], arrays: list[Array | None], size: int
) -> list[Array | None]:
    """Allocate the buffer, or widen its type (longer text, floats after integers)."""
    if not buffer:
        return [None if a is None else np.empty((size, *a.shape[1:]), a.dtype) for a in arrays]
    if [a is None for a in arrays] != [b is None for b in buffer]:
        raise ValueError("All blocks must consist of the same arrays; some lack the targets.")
    wide: list[Array | None] = []
    for array, held in zip(arrays, buffer, strict=True):
        if array is None or held is None:
            wide.append(None)
            continue
        text = [a.dtype.kind in "USO" for a in (array, held)]
        if array.shape[1:] != held.shape[1:] or text[0] != text[1]:
            raise ValueError(
                f"Blocks must agree in shape and kind: rows of shape {array.shape[1:]} and type "
                f"{array.dtype} follow rows of shape {held.shape[1:]} and type {held.dtype}."
            )
        wide.append(held.astype(np.result_type(held, array), copy=False))
    return wide


def _put(buffer: list[Array | None], slots: Any, arrays: list[Array | None], rows: slice) -> None:
    for held, array in zip(buffer, arrays, strict=True):
        if held is not None and array is not None:
            held[slots] = array[rows]


def _take(buffer: list[Array | None], slots: Array) -> list[Array | None]:
    return [None if held is None else held[slots] for held in buffer]
