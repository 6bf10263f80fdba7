"""Rows, dict rows and batches of Python iterators, as blocks of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer._validation import nearest

__all__ = ["Block", "blocks_of", "concatenate", "feature_array", "target_array"]

Array = NDArray[Any]
Block = tuple[Any, Array | None]  # X: ndarray or CSR of shape (n, n_features); y: (n,) or None


def feature_array(X: Any, dtype: DTypeLike) -> Any:
    """Return features as a dense or CSR matrix of the dtype.

    Raises
    ------
    ValueError
        If they are not two-dimensional or no numbers.
    """
    if sparse.issparse(X):
        return sparse.csr_matrix(X).astype(dtype)
    try:
        # A copy: a generator may fill one array again and again, blocks wait in buffers.
        array = np.array(X, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The features must be numbers in rows of equal length: {error}. Encode text columns "
            "with `mercer.data.TablePreprocessor` first."
        ) from None
    if array.ndim != 2:
        raise ValueError(
            f"The features of a batch must be two-dimensional, got shape {array.shape}. Use "
            "`X.reshape(-1, 1)` for a single feature."
        )
    return array


def target_array(y: Any, n_rows: int) -> Array:
    """Return targets as an array with one entry (or row) per row of features.

    Raises
    ------
    ValueError
        If the lengths differ or a target is missing (None).
    """
    array = np.asarray(y)
    if array.ndim == 0 or len(array) != n_rows:
        raise ValueError(
            f"There must be one target per row, got {n_rows} rows and targets of shape "
            f"{array.shape}."
        )
    if array.dtype.kind == "O" and any(value is None for value in array.ravel()):
        row = next(i for i, value in enumerate(array.ravel()) if value is None)
        raise ValueError(f"The target is missing (None) in row {row} of a batch; drop such rows.")
    return array


def concatenate(blocks: Sequence[Block]) -> Block:
    """Join blocks, dense or sparse.

    Raises
    ------
    ValueError
        If some have targets and others not, or numbers of features differ.
    """
    features, targets = [X for X, _ in blocks], [y for _, y in blocks]
    if len({X.shape[1] for X in features}) > 1:
        raise ValueError(
            "All batches must have the same number of features, got "
            f"{sorted({X.shape[1] for X in features})}."
        )
    if len(blocks) == 1:
        return blocks[0]
    present = [y for y in targets if y is not None]
    if present and len(present) < len(targets):
        raise ValueError("Some batches have targets and some have none.")
    if any(sparse.issparse(X) for X in features):
        X = sparse.vstack(features, format="csr")
    else:
        X = np.concatenate(features)
    return X, np.concatenate(present) if present else None


def blocks_of(
    items: Iterable[Any], *, dtype: DTypeLike, size: int, columns: Sequence[str] | None
) -> Iterator[Block]:
    """Turn an iterable of rows or batches into blocks.

    Parameters
    ----------
    items : iterable
        Pairs (x, y) or bare x, where x is a row (sequence of numbers), a dict row or a batch
        (two-dimensional); the first item decides.
    dtype : dtype
        Of the features.
    size : int
        Rows collected before a block is made of them.
    columns : sequence of str or None
        Keys of dict rows to use.

    Yields
    ------
    block : (X, y)
        Arrays of at most ``size`` rows, or the batches as they come.

    Raises
    ------
    ValueError
        For items of another form, missing or new keys, rows of changing length.
    """
    items = iter(items)
    first = next(items, None)
    if first is None:
        return
    paired = isinstance(first, tuple) and len(first) == 2
    sample = first[0] if paired else first
    items = chain([first], items)
    if isinstance(sample, Mapping):
        yield from _dict_rows(items, paired, dtype, size, columns or sorted(sample))
        return
    if columns is not None:
        raise ValueError("`columns` selects columns by name, but the rows have no names.")
    dimensions = 2 if sparse.issparse(sample) else np.ndim(sample)
    if dimensions == 2:
        for item in items:
            X, y = _split(item, paired)
            X = feature_array(X, dtype)
            yield X, None if y is None else target_array(y, X.shape[0])
    elif dimensions == 1:
        yield from _plain_rows(items, paired, dtype, size, len(sample))
    else:
        raise ValueError(
            "An iterator must yield rows (x, y), x a sequence of numbers or a dict, or batches "
            f"(X, y) with X two-dimensional; the first item is {first!r:.100}."
        )


def _split(item: Any, paired: bool) -> tuple[Any, Any]:
    if paired != (isinstance(item, tuple) and len(item) == 2):
        raise ValueError(
            "All items must have the form of the first one, "
            f"{'a pair (x, y)' if paired else 'features without a target'}; got {item!r:.100}."
        )
    return item if paired else (item, None)


def _collected(
    items: Iterator[Any], paired: bool, size: int
) -> Iterator[tuple[int, list[Any], list[Any]]]:
    start = 0
    while chunk := [_split(item, paired) for item in islice(items, size)]:
        yield start, [x for x, _ in chunk], [y for _, y in chunk]
        start += len(chunk)


def _plain_rows(
    items: Iterator[Any], paired: bool, dtype: DTypeLike, size: int, n_features: int
) -> Iterator[Block]:
    for start, rows, targets in _collected(items, paired, size):
        for number, row in enumerate(rows, start):
            if np.ndim(row) != 1 or len(row) != n_features:
                raise ValueError(
                    f"Row {number} has the shape {np.shape(row)}, but the first row has "
                    f"{n_features} features."
                )
        yield feature_array(rows, dtype), target_array(targets, len(rows)) if paired else None


def _dict_rows(
    items: Iterator[Any], paired: bool, dtype: DTypeLike, size: int, keys: Sequence[str]
) -> Iterator[Block]:
    expected: int | None = None
    for start, rows, targets in _collected(items, paired, size):
        X = np.empty((len(rows), len(keys)), dtype=dtype)
        for i, row in enumerate(rows):
            expected = len(row) if expected is None else expected
            try:
                X[i] = [row[key] for key in keys]
            except KeyError as error:
                name = str(error.args[0])
                raise ValueError(
                    f"Row {start + i} has no key {name!r}.{nearest(name, map(str, row))} Every "
                    "row needs the keys of the first one; give missing values a number."
                ) from None
            except (TypeError, ValueError):
                key = next(key for key in keys if not _is_real(row[key]))
                raise ValueError(
                    f"Row {start + i} has {row[key]!r} under the key {key!r}, which is no number. "
                    "Encode text with `mercer.data.TablePreprocessor` first."
                ) from None
            if len(row) != expected:
                new = sorted(map(str, set(row) - set(keys)))
                raise ValueError(
                    f"Row {start + i} has {len(row)} keys, the first row {expected}; keys not in "
                    f"use: {new}. Every row needs the same keys."
                )
        yield X, target_array(targets, len(rows)) if paired else None


def _is_real(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
