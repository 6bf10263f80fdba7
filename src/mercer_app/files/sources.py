"""Streams of mini-batches from arrays, files, tables and iterators, shuffled in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer.columns.views import (
    Levels,
    TableView,
    check_names,
    is_table,
    listed,
    number_block,
    view_table,
)
from mercer.validation import check_choice, check_integer, nearest
from mercer_app.files.tables import count_rows, read_tables, schema

Array = NDArray[Any]
Piece = TypeVar("Piece", bound="Array | tuple[Any, ...]")


def shuffled(
    blocks: Iterable[Piece],
    buffer_size: int,
    random_state: int | np.random.Generator | np.random.SeedSequence | None = None,
) -> Iterator[Piece]:
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


Block = tuple[Any, Array | None]  # X: ndarray or CSR of shape (n, n_features); y: (n,) or None
Shuffle = Callable[[Iterable[Any]], Iterator[Any]]
Opener = Callable[[Shuffle], Iterator[Block]]
_BLOCK_VALUES = 2**20  # numbers read from a file at once: 8 MiB of float64


class Stream:
    """Mini-batches (X, y); made by :func:`stream`.

    Attributes
    ----------
    batch_size : int
        Rows of every batch but the last.
    n_rows : int or None
        Number of rows of a pass, where it is known without reading them.
    feature_names : list of str or None
        Names of the columns of X, where they have names.
    n_passes_ : int
        Number of passes begun so far.
    """

    def __init__(
        self,
        opener: Opener,
        *,
        batch_size: int,
        shuffle_buffer: int = 0,
        seed: int = 0,
        n_rows: int | None = None,
        feature_names: list[str] | None = None,
        one_pass: bool = False,
    ) -> None:
        self.batch_size = batch_size
        self.n_rows = n_rows
        self.feature_names = feature_names
        self.n_passes_ = 0
        self._opener = opener
        self._shuffle_buffer = shuffle_buffer
        self._seed = seed
        self._one_pass = one_pass

    def __iter__(self) -> Iterator[tuple[Any, Array | None]]:
        if self._one_pass and self.n_passes_:
            raise ValueError(
                "This stream was read from an iterator, which can be used only once. For more "
                "passes, give `stream` a list, arrays, a file, or a function that returns a new "
                "iterator."
            )
        # Every pass has its own order, which depends only on the seed and its number.
        rng = np.random.SeedSequence(self._seed, spawn_key=(self.n_passes_,))
        self.n_passes_ += 1
        return _rebatched(self._opener(self._shuffler(rng)), self.batch_size)

    def _shuffler(self, rng: np.random.SeedSequence) -> Shuffle:
        if self._shuffle_buffer == 0:
            return iter
        return lambda blocks: shuffled(blocks, self._shuffle_buffer, rng)


def stream(
    source: Any,
    y: Any = None,
    *,
    target: str | None = None,
    batch_size: int = 32,
    columns: Sequence[str] | None = None,
    shuffle_buffer: int = 0,
    random_state: int | np.random.Generator | None = None,
    dtype: Literal["float64", "float32"] = "float64",
) -> Stream:
    """Present any source of rows as mini-batches (X, y).

    Parameters
    ----------
    source : object
        One of

        - an array or sparse matrix of shape (n_samples, n_features), with ``y``;
        - the path of a Parquet, CSV or Arrow file, a folder or a glob of them, see
          :func:`read_tables`, or a table in memory, with ``target``; all columns numeric;
        - an iterable of rows (x, y), x being a sequence of numbers or a dict (its keys sorted), or
          of batches (X, y) of any sizes, or of tables (with ``target``);
        - a function without arguments that returns such an iterable, called for every pass.

        In an iterable y may be left out: x instead of (x, y).
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
        Targets for arrays and tables in memory.
    target : str or None, default=None
        Name of the column that holds the targets.
    batch_size : int, default=32
        Rows of every batch but the last.
    columns : sequence of str or None, default=None
        Names of the features, in this order. None: all columns but the target, in their order.
    shuffle_buffer : int, default=0
        Number of rows mixed by :func:`shuffled`; 0 keeps the order.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the shuffling. Passes have different orders; the same seed gives the same ones.
    dtype : {"float64", "float32"}, default="float64"
        Type of the features.

    Returns
    -------
    batches : Stream
        Iterable of pairs X of shape (n, n_features), y of shape (n,) or (n, n_outputs) or None.
        It may be iterated again unless the source is an iterator.

    Raises
    ------
    ValueError
        If the source is of no such form, names are wrong, columns are not numeric, or lengths
        differ; errors of later rows come when these are read.
    FileNotFoundError, ImportError
        As :func:`read_tables`.

    Notes
    -----
    Memory holds a batch, the shuffling buffer and one piece of a file of about 8 MiB.
    Missing numbers become NaN; :class:`mercer.columns.TablePreprocessor` deals with them and with
    text.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(10.0).reshape(5, 2), np.array(["a", "b", "a", "b", "a"])
    >>> [batch.shape for batch, _ in stream(X, y, batch_size=2)]
    [(2, 2), (2, 2), (1, 2)]
    >>> rows = [({"speed": 3.0, "angle": 0.1}, 1), ({"speed": 4.0, "angle": 0.3}, 0)]
    >>> for X, y in stream(rows):
    ...     print(X, y)
    [[0.1 3. ]
     [0.3 4. ]] [1 0]
    """
    check_integer("batch_size", batch_size, low=1)
    check_integer("shuffle_buffer", shuffle_buffer, low=0)
    check_choice("dtype", dtype, ("float64", "float32"))
    seed = int(np.random.default_rng(random_state).integers(2**63))
    settings: dict[str, Any] = {
        "batch_size": batch_size,
        "shuffle_buffer": shuffle_buffer,
        "seed": seed,
    }
    if isinstance(source, str | os.PathLike):
        _no_targets(y, "a file")
        names = feature_names(schema(source).names, target, columns, f"`{os.fspath(source)}`")
        wanted = names if target is None else [*names, target]
        rows = int(np.clip(_BLOCK_VALUES // max(len(names), 1), batch_size, 8192))

        def read() -> Iterator[Any]:
            return read_tables(source, columns=wanted, rows_per_table=rows)

        opener = _table_opener(read, names, target, dtype)
        return Stream(opener, n_rows=count_rows(source), feature_names=names, **settings)
    if is_table(source):
        return _table_stream(source, y, target, columns, dtype, settings)
    if y is not None or isinstance(source, np.ndarray) or sparse.issparse(source):
        _no_names(target, columns)
        X = sparse.csr_matrix(source) if sparse.issparse(source) else np.asarray(source)
        feature_array(X[:1], dtype)  # fails early for a wrong shape or type
        targets = None if y is None else target_array(y, X.shape[0])
        opener = _array_opener(X, targets, batch_size, dtype)
        return Stream(opener, n_rows=X.shape[0], **settings)
    if not callable(source) and not isinstance(source, Iterable):
        raise ValueError(
            "`source` must be an array, a sparse matrix, a table, a path, an iterable of rows or "
            f"batches, or a function that returns one; got `{type(source).__name__}`."
        )

    def items(shuffle: Shuffle) -> Iterator[Block]:
        parts = source() if callable(source) else source
        return shuffle(_iterable_blocks(parts, target, columns, dtype, batch_size))

    one_pass = not callable(source) and iter(source) is source
    return Stream(items, one_pass=one_pass, **settings)


def _table_stream(
    table: Any,
    y: Any,
    target: str | None,
    columns: Sequence[str] | None,
    dtype: DTypeLike,
    settings: dict[str, Any],
) -> Stream:
    view = view_table(table)
    names = feature_names(view.names, target, columns, "The table")
    if y is not None and target is not None:
        raise ValueError(f"Give the targets once: as `y` or as the column {target!r}, not both.")
    if y is None:
        opener = _table_opener(lambda: iter([table]), names, target, dtype)
    else:
        X = number_block(view, _numeric(view, names)).T
        opener = _array_opener(X, target_array(y, view.n_rows), settings["batch_size"], dtype)
    return Stream(opener, n_rows=view.n_rows, feature_names=names, **settings)


def _array_opener(X: Any, y: Array | None, size: int, dtype: DTypeLike) -> Opener:
    def blocks(shuffle: Shuffle) -> Iterator[Block]:
        n = X.shape[0]
        # Row numbers are shuffled, not rows: they cost 8 bytes each, and CSR rows have no room.
        for rows in shuffle(np.arange(i, min(i + size, n)) for i in range(0, n, size)):
            yield feature_array(X[rows], dtype), None if y is None else y[rows]

    return blocks


def _table_opener(
    read: Callable[[], Iterator[Any]], names: list[str], target: str | None, dtype: DTypeLike
) -> Opener:
    return lambda shuffle: shuffle(table_blocks(read(), names, target, dtype))


def _iterable_blocks(
    parts: Iterable[Any],
    target: str | None,
    columns: Sequence[str] | None,
    dtype: DTypeLike,
    size: int,
) -> Iterator[Block]:
    parts = iter(parts)
    for first in parts:
        rest = _prepend(first, parts)
        # A dict of scalars is a row, a dict of arrays a table.
        if is_table(first) and not (isinstance(first, Mapping) and _is_row(first)):
            names = feature_names(view_table(first).names, target, columns, "The first table")
            yield from table_blocks(rest, names, target, dtype)
        else:
            if target is not None:
                raise ValueError(
                    f"`target` ({target!r}) names a column of tables, but the source yields rows; "
                    "yield pairs (x, y)."
                )
            yield from blocks_of(rest, dtype=dtype, size=size, columns=columns)


def _prepend(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _is_row(item: Mapping[Any, Any]) -> bool:
    return all(np.ndim(value) == 0 for value in item.values())


def table_blocks(
    tables: Iterable[Any], names: list[str], target: str | None, dtype: DTypeLike
) -> Iterator[Block]:
    """Features and targets of tables whose columns are numbers, some thousand rows at a time.

    Parameters
    ----------
    tables : iterable of tables
        Tables with these columns.
    names : list of str
        Columns of the features, in this order.
    target : str or None
        Column of the targets.
    dtype : dtype
        Type of the features.

    Raises
    ------
    ValueError
        If a column is missing or holds no numbers, or a target is missing.
    """
    step = max(256, _BLOCK_VALUES // max(len(names), 1))
    n_seen = 0
    for table in tables:
        whole = view_table(table)
        check_names(names if target is None else [*names, target], whole.names, "The table")
        for start in range(0, whole.n_rows, step):
            view = whole.slice(start, min(start + step, whole.n_rows))
            X = number_block(view, _numeric(view, names)).T.astype(dtype, order="C")
            yield X, None if target is None else _targets(view, target, n_seen)
            n_seen += view.n_rows


def _numeric(view: TableView, names: list[str]) -> list[str]:
    for name in names:
        column = view.column(name)
        if isinstance(column, Levels) and column.first() is not None:
            raise ValueError(
                f"Column {name!r} holds text, categories or booleans, first {column.first()!r}; a "
                "stream needs numbers. Leave it out with `columns=[...]`, or read the file with "
                "`read_tables` and encode it with `TablePreprocessor`."
            )
    return names


def _targets(view: TableView, target: str, n_seen: int) -> Array:
    column = view.column(target)
    if isinstance(column, Levels):
        missing = column.codes < 0
        levels = [False, True] if column.boolean else column.levels
        values = np.array(levels or [""])[column.codes]
    else:
        values = column.values
        missing = np.isnan(values)
    if missing.any():
        row = n_seen + int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"The target {target!r} is missing in row {row}. Nothing can be learned from such a "
            "row; drop it."
        )
    return values


def feature_names(
    found: Sequence[str], target: str | None, columns: Sequence[str] | None, where: str
) -> list[str]:
    """Columns that are features: those asked for, or all but the target.

    Parameters
    ----------
    found : sequence of str
        Columns that there are.
    target, columns
        As of :func:`stream`.
    where : str
        What has the columns, for messages.

    Raises
    ------
    ValueError
        If a column does not exist, or no features are left.
    """
    if isinstance(columns, str):
        raise ValueError(f"`columns` must be a sequence of names, got {columns!r}.")
    check_names([] if target is None else [target], found, where)
    check_names(columns or [], found, where, taken=[] if target is None else [target])
    if target is not None and target in (columns or []):
        raise ValueError(
            f"The target {target!r} is among `columns`: the features would give the answer away."
        )
    names = list(found if columns is None else columns)
    names = [name for name in names if name != target]
    if not names:
        raise ValueError(f"{where} has no feature columns left.")
    return names


def _no_targets(y: Any, what: str) -> None:
    if y is not None:
        raise ValueError(f"Targets of {what} are one of its columns: use `target=`, not `y`.")


def _no_names(target: str | None, columns: Sequence[str] | None) -> None:
    if target is not None or columns is not None:
        raise ValueError("`target` and `columns` are names, but the columns of arrays have none.")


def _rebatched(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    held: list[Block] = []
    n_held = 0
    for X, y in blocks:
        start, n = 0, X.shape[0]
        while n_held + n - start >= size:
            stop = start + size - n_held
            yield concatenate([*held, _rows(X, y, start, stop)])
            held, n_held, start = [], 0, stop
        if start < n:
            held.append(_rows(X, y, start, n))
            n_held += n - start
    if n_held:
        yield concatenate(held)


def _rows(X: Any, y: Array | None, start: int, stop: int) -> Block:
    return X[start:stop], None if y is None else y[start:stop]


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
            "with `mercer.columns.TablePreprocessor` first."
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
        Type of the features.
    size : int
        Number of rows per block.
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
                    "Encode text with `mercer.columns.TablePreprocessor` first."
                ) from None
            if len(row) != expected:
                new = listed(sorted(map(str, set(row) - set(keys))))
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
