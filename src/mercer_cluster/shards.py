"""Shards: pieces of the data that workers read by themselves and turn into rows.

Numbers drawn for rows pick some of them, and put all in order, wherever they are. A first look
at all rows tells their number, their types, and a sample.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns import TablePreprocessor
from mercer.columns.keys import bits_of_labels, content_keys, mixed
from mercer.columns.null_values import Unreadable
from mercer.columns.views import Levels, is_table, missing_cells, view_table
from mercer.estimators.inputs import check_weights
from mercer.exceptions import Advice, DivergenceError, ShardError, WorkerError
from mercer.sums import Rows
from mercer_app.files.sources import feature_names, table_blocks
from mercer_app.files.tables import (
    FileColumns,
    FilePart,
    Labelled,
    TableFiles,
    as_told,
    file_parts,
    has_types,
    looked_through,
    require_pyarrow,
)
from mercer_app.rows import TableRows
from mercer_cluster.settings import DEFAULT, Settings

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


Result = TypeVar("Result")

# Rows of a table that are read, and encoded, at a time.
_ROWS = 65_536
_NONE: Mapping[str, str] = {}


class UnlikeBlocksError(ValueError):
    """Two blocks of rows cannot be joined.

    Attributes
    ----------
    places : tuple of int
        Where the two stand among the blocks.
    """

    def __init__(self, what: str, one: int, other: int) -> None:
        super().__init__(what)
        self.places = (one, other)


class Shard(NamedTuple):
    """A piece of the data.

    Attributes
    ----------
    name : str
        For messages.
    data : object
        A part of a file, arrays (X, y) or (X, y, sample_weight), a table, a function that returns
        one of these or an iterator of them, or a handle of an engine.
    """

    name: str
    data: Any


class Block(NamedTuple):
    """Rows of a shard, as they were read: arrays, or a table."""

    X: Any
    y: Any = None
    weights: Any = None
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return int(self.X.num_rows if hasattr(self.X, "num_rows") else self.X.shape[0])

    @property
    def counts(self) -> Any:
        """Which rows have a weight above 0, an array of truth values."""
        return np.ones(len(self), dtype=bool) if self.weights is None else self.weights > 0.0

    def keys(self, seed: int, shard: int, first: int, *, by_content: bool) -> NDArray[np.uint64]:
        """Keys of the rows: by what is in them, or by their places.

        Parameters
        ----------
        seed : int
            Seed of the draw.
        shard, first : int
            Number of the shard, and of the first row there.
        by_content : bool
            By what is in them; sparse rows have keys by their places in any case.
        """
        if not by_content or sparse.issparse(self.X):
            return row_keys(seed, shard, first, len(self))
        if not hasattr(self.X, "num_rows"):
            weights = [] if self.weights is None else [self.weights]
            return content_keys(seed, [self.X, self.y, *weights])
        view, columns = view_table(self.X), []
        for name in sorted(view.names):
            column = view.column(name)
            if isinstance(column, Levels):
                # The code -1 of missing values picks the last entry.
                levels = bits_of_labels([*column.levels, ""])
                columns.append(levels[column.codes].view(np.int64))
            else:
                columns.append(column.values)
        return content_keys(seed, columns)

    def take(self, numbers: NDArray[np.int64]) -> Block:
        """Rows of these numbers, copied."""
        if hasattr(self.X, "num_rows"):
            return Block(self.X.take(numbers))
        weights = None if self.weights is None else self.weights[numbers]
        return Block(self.X[numbers], self.y[numbers], weights)

    @staticmethod
    def joined(blocks: Sequence[Block]) -> Block:
        """Join one or more blocks.

        Raises
        ------
        UnlikeBlocksError
            If two blocks cannot be joined.
        """
        if hasattr(blocks[0].X, "num_rows"):
            return Block(_joined_tables([block.X for block in blocks]))
        for place, block in enumerate(blocks):
            if block.y.shape[1:] != blocks[0].y.shape[1:]:
                shapes = f"{blocks[0].y.shape} and {block.y.shape}"
                raise UnlikeBlocksError(f"targets of the shapes {shapes}", 0, place)
        stacked: Any = sparse.vstack if sparse.issparse(blocks[0].X) else np.concatenate
        X: Any = stacked([block.X for block in blocks])
        y = np.concatenate([block.y for block in blocks])
        if all(block.weights is None for block in blocks):
            return Block(sparse.csr_matrix(X) if sparse.issparse(X) else X, y)
        weights = [np.ones(len(b)) if b.weights is None else b.weights for b in blocks]
        return Block(sparse.csr_matrix(X) if sparse.issparse(X) else X, y, np.concatenate(weights))


def _joined_tables(tables: Sequence[Any]) -> Any:
    """Join tables of Arrow whose columns may be of other types, or in another order."""
    import pyarrow as pa

    columns = {}
    for name in tables[0].column_names:
        for place, table in enumerate(tables):
            if name not in table.column_names:
                raise UnlikeBlocksError(f"other columns: one of them lacks {name!r}", 0, place)
        found = [table.column(name) for table in tables]
        columns[name] = pa.chunked_array([c for one in _alike(name, found) for c in one.chunks])
    return pa.table(columns).combine_chunks()


def _alike(name: str, columns: Sequence[Any]) -> list[Any]:
    """Convert the chunked arrays of a column to one type: text, or the widest number type."""
    import pyarrow as pa

    kinds = list(dict.fromkeys(one.type for one in columns))
    if len(kinds) == 1 and not pa.types.is_dictionary(kinds[0]):
        return list(columns)
    present = [kind for kind in kinds if not pa.types.is_null(kind)]
    if len(present) == 1 and not pa.types.is_dictionary(present[0]):
        return [one.cast(present[0]) if pa.types.is_null(one.type) else one for one in columns]
    views = [view_table(pa.table({name: one})).column(name) for one in columns]
    known = [n for n, view in enumerate(views) if missing_cells(view) < len(columns[n])]
    families = [_family(columns[n].type, views[n]) for n in known]
    for n, family in zip(known, families, strict=True):
        if family != families[0]:
            raise UnlikeBlocksError(
                f"{families[0]} and {family} in the column {name!r}, of the types "
                f"{columns[known[0]].type} and {columns[n].type}",
                known[0],
                n,
            )
    if families[:1] == ["text"]:
        return [_text(view, len(one)) for view, one in zip(views, columns, strict=True)]
    whole = all(
        pa.types.is_null(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind))
        for kind in kinds
    )
    return [
        one.cast(pa.int64())
        if whole
        else pa.chunked_array(
            [
                np.full(len(one), np.nan)
                if isinstance(view, Levels)
                else np.asarray(view.values, dtype=np.float64)
            ]
        )
        for view, one in zip(views, columns, strict=True)
    ]


def _family(kind: Any, view: Any) -> str:
    """Return the kind of values; values of one kind can be joined."""
    import pyarrow as pa

    if isinstance(view, Levels):
        return "text"
    if not pa.types.is_temporal(kind):
        return "numbers"
    return "durations" if pa.types.is_duration(kind) or pa.types.is_time(kind) else "times"


def _text(view: Any, n_rows: int) -> Any:
    """Make a column of text; one of another kind has no values."""
    import pyarrow as pa

    if not isinstance(view, Levels):
        return pa.chunked_array([pa.nulls(n_rows, pa.large_string())])
    levels = pa.array(view.levels, pa.large_string())
    return pa.chunked_array([levels.take(pa.array(view.codes, mask=view.codes < 0))])


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Context in which errors name the shard.

    Raises
    ------
    ShardError
        For any exception, except those about missing memory, a missing package or a lost worker.
        These are raised unchanged, with a note.
    """
    try:
        yield
    except ShardError:
        raise
    except (ImportError, MemoryError, DivergenceError, WorkerError) as error:
        error.add_note(f"This happened with {name}.")
        raise
    except (ValueError, TypeError, OSError) as error:
        message = error.args[0] if error.args and isinstance(error.args[0], Advice) else str(error)
        said = message if message.startswith(name) else Advice(f"{name}: ", message)
        raise ShardError(said, name) from error
    except Exception as error:
        said = (
            f"{name}: {type(error).__name__}: {error}. Whatever reads this shard raised it; see "
            "the traceback, and mend the shard or leave it out."
        )
        raise ShardError(said, name) from error


def shards_of(
    data: Any,
    handles: Sequence[Any] | None = None,
    *,
    wanted: Callable[[str], bool] | None = None,
    types: Mapping[str, str] = _NONE,
    kinds: Mapping[str, str] = _NONE,
    strict: bool = True,
) -> list[Shard]:
    """Return the pieces of the data, in an order determined by the data.

    Parameters
    ----------
    data : path or sequence
        A file, a folder, a glob or an address, whose large Parquet files are cut into parts; or
        several paths, arrays, tables and functions, each a shard.
    handles : sequence of handle, default=None
        Partitions of a dataset of the engine's own, if ``data`` is one.
    wanted : callable, default=None
        Tells by its name whether a column of a file is read; None: all are.
    types : mapping of str to str, default={}
        Types of columns of CSV files: see ``column_types`` of :func:`mercer_app.files.read_tables`.
    kinds : mapping of str to str, default={}
        What somebody said that columns are: see :class:`mercer.columns.TablePreprocessor`.
    strict : bool, default=True
        Whether a cell of CSV that cannot be what its column is is an error rather than a gap.

    Raises
    ------
    ValueError
        If there are none.
    FileNotFoundError
        If a path leads nowhere.
    """
    if handles is not None:
        return [Shard(f"partition {number}", handle) for number, handle in enumerate(handles)]
    found: list[Shard] = []
    if isinstance(data, str | os.PathLike):
        found = _of_path(data)
    elif isinstance(data, Iterable) and not (is_table(data) or isinstance(data, Mapping)):
        for number, one in enumerate(data):
            if isinstance(one, str | os.PathLike):
                found += _of_path(one)
            elif isinstance(one, tuple) or callable(one) or is_table(one) or _is_matrix(one):
                found.append(Shard(f"shard {number}", one))
            else:
                raise ValueError(
                    f"Shard {number} must be a path, arrays (X, y), a table, or a function that "
                    f"returns one of these, got `{type(one).__name__}`."
                )
    else:
        raise ValueError(
            "`shards` must be a path or a sequence of shards (paths, arrays (X, y), tables, or "
            f"functions that return one of these), got `{type(data).__name__}`. A single table or "
            "pair of arrays needs no workers: use the methods of the estimator."
        )
    if not found:
        raise ValueError("`shards` is empty: there is nothing to work on.")
    parts = [shard.data for shard in found if isinstance(shard.data, FilePart)]
    if parts:
        files = list(dict.fromkeys(part.file for part in parts))
        columns = data.columns if isinstance(data, TableFiles) else FileColumns.of(files)
        told = {} if has_types(files) else {**as_told(kinds, columns.names), **types}
        layout = columns.typed(told)
        if wanted is not None:
            layout = require_pyarrow().schema([f for f in layout if wanted(f.name)])
        found = [
            Shard(shard.name, FileShard(shard.data, layout, strict))
            if isinstance(shard.data, FilePart)
            else shard
            for shard in found
        ]
    return found


def _is_matrix(data: Any) -> bool:
    """Whether data are inputs without targets."""
    return sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2)


class FileShard(NamedTuple):
    """A part of a file, and the columns and types that all files have."""

    part: FilePart
    layout: Any
    strict: bool = True

    def __call__(self, unreadable: Unreadable | None = None) -> Iterator[Any]:
        """Read it as a sequence of tables, and take down cells that cannot be read."""
        seen = Unreadable(strict=self.strict) if unreadable is None else unreadable
        return self.part.tables(self.layout, rows_per_table=_ROWS, unreadable=seen)


def _of_path(path: str | os.PathLike[str]) -> list[Shard]:
    return [Shard(str(part), part) for part in file_parts(path)]


def items_of(data: Any) -> Iterator[Any]:
    """Yield the arrays and tables of a shard."""
    if callable(data) and not is_table(data):
        yield from items_of(data())
    elif isinstance(data, tuple) or is_table(data) or _is_matrix(data):
        yield data
    elif isinstance(data, Iterable):
        for one in data:
            yield from items_of(one)
    else:
        raise ValueError(
            "A shard must be arrays (X, y), a table, or an iterator of these, got "
            f"`{type(data).__name__}`."
        )


def arrow_table(table: Any) -> Any:
    """Return any table as one of Arrow."""
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, Mapping):
        return pa.table(dict(table))
    return pa.Table.from_pandas(table, preserve_index=False)


class Reader(ABC):
    """How shards become rows of an estimator."""

    @abstractmethod
    def blocks(self, data: Any) -> Iterator[Block]:
        """Rows of a shard, as they are, some ten thousand at a time."""

    @abstractmethod
    def rows(self, block: Block) -> Block:
        """Arrays that the estimator takes."""

    @abstractmethod
    def width(self, block: Block) -> int:
        """Columns of the inputs that the estimator takes."""


class ArrayReader(Reader):
    """Shards of numbers.

    Parameters
    ----------
    target : str or None
        Column of the targets, for tables.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target

    def blocks(self, data: Any) -> Iterator[Block]:
        names: list[str] = []
        for item in items_of(data):
            if is_table(item):
                found = self._names(item)
                if sorted(found) != sorted(names):
                    names = found
                for X, y in table_blocks([item], names, self.target, np.float64):
                    yield Block(X, y, names=tuple(names))
                continue
            if self.target is not None:
                raise ValueError(
                    f"`target` names the column {self.target!r}, but the shard holds arrays, which "
                    "have no names. Leave `target` out, or give tables."
                )
            n_arrays = len(item) if isinstance(item, tuple) else 1
            if n_arrays not in (2, 3):
                raise ValueError(
                    f"arrays must be (X, y) or (X, y, sample_weight), got {n_arrays} of them."
                )
            X, y, *weights = item
            X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
            y = np.asarray(y)
            w = np.asarray(weights[0]) if weights and weights[0] is not None else None
            if X.ndim != 2 or y.shape[:1] != X.shape[:1] or (w is not None and len(w) != len(y)):
                raise ValueError(
                    f"X must have two dimensions, and y (and sample_weight) a value for each row, "
                    f"got shapes {X.shape} and {y.shape}."
                )
            yield Block(X, y, w)

    def _names(self, table: Any) -> list[str]:
        """Columns of the inputs."""
        if self.target is None:
            raise ValueError("`target` must name the column to predict, where shards are tables.")
        return feature_names(view_table(table).names, self.target, None, "The table")

    def rows(self, block: Block) -> Block:
        return block

    def width(self, block: Block) -> int:
        return int(block.X.shape[1])


class TableReader(Reader):
    """Shards of tables with columns of any kind.

    Parameters
    ----------
    reads : TableRows
        What reads their columns and targets.
    """

    def __init__(self, reads: TableRows) -> None:
        self.reads = reads

    def blocks(self, data: Any) -> Iterator[Block]:
        """Read Arrow tables with the rows that have a target."""
        names: list[str] = []
        labelled = Labelled(self.reads.target if self.reads.has_target else None)
        for item in items_of(data):
            if not is_table(item):
                raise ValueError("shards must be tables where `columns` is given, got arrays.")
            table = arrow_table(item)
            names = names or table.column_names
            if names != table.column_names and sorted(names) == sorted(table.column_names):
                table = table.select(names)
            table, _ = labelled.of(table)
            for start in range(0, table.num_rows, _ROWS):
                yield Block(table.slice(start, _ROWS))

    def rows(self, block: Block) -> Block:
        """Read inputs and targets."""
        return Block(*self.reads.rows(block.X))

    def width(self, block: Block) -> int:
        return self.reads.preprocessor.n_features_out_


# Share of different keys from which rows may be drawn by what is in them: equal rows would be drawn
# together.
_VARIED = 0.95


class Survey:
    """Survey of some rows; two surveys can be added.

    Attributes
    ----------
    name : str
        Name of the first shard.
    limit : int
        Largest number of rows of the sample.
    by_content : bool
        Whether keys are by what is in the rows, or by their places.
    n_rows : dict of int to int
        Rows of each shard.
    n_used : int
        Rows of all shards with a weight above 0.
    n_inputs : int
        Columns of the inputs; of tables, of all columns.
    class_counts : dict or None
        Rows of each label, of a classification.
    columns : TablePreprocessor or tuple of str or None
        What is known of the columns.
    keys, shards, numbers : ndarray
        Keys, shards and numbers of the rows of the sample: those with the lowest keys of all.
    rows : Block or None
        These rows.
    unreadable : Unreadable
        Cells of files that cannot be what their columns are.
    """

    def __init__(self, name: str, settings: Settings = DEFAULT, *, by_content: bool = True) -> None:
        self.name, self.settings, self.by_content = name, settings, by_content
        self.limit = settings.sample
        self.n_rows: dict[int, int] = {}
        self.n_used = 0
        self.n_inputs = 0
        self.class_counts: dict[Any, int] | None = None
        self.columns: TablePreprocessor | tuple[str, ...] | None = None
        self.keys = np.zeros(0, np.uint64)
        self.shards = np.zeros(0, np.int64)
        self.numbers = np.zeros(0, np.int64)
        self.rows: Block | None = None
        self.unreadable = Unreadable(strict=False)

    @classmethod
    def of(
        cls,
        reader: Reader,
        data: Any,
        shard: int,
        name: str,
        *,
        seed: int,
        classes: bool,
        settings: Settings = DEFAULT,
        by_content: bool = True,
    ) -> Survey:
        """Look at a shard.

        Parameters
        ----------
        reader : Reader
            How it becomes rows.
        data : object
            The shard.
        shard, name : int and str
            Number and name of the shard.
        seed : int
            Seed of the sample.
        classes : bool
            Whether targets are labels.
        settings : Settings
            Sizes.
        by_content : bool, default=True
            Whether keys are by what is in the rows, or by their places.

        Raises
        ------
        ShardError
            If it cannot be read, or holds what nobody can learn.
        """
        found, n = cls(name, settings, by_content=by_content), 0
        waiting: list[Survey] = []  # rows of the sample are joined now and then
        unreadable = Unreadable(strict=isinstance(data, FileShard) and data.strict)
        with naming(name):
            for block in reader.blocks(_looked_at(reader, data, unreadable)):
                if not len(block):
                    continue
                mine = cls(name, settings, by_content=by_content)
                mine._look(reader, block, classes=classes)
                mine.n_rows = {shard: len(block)}
                keys = block.keys(seed, shard, n, by_content=by_content)
                able = np.flatnonzero((keys < found._enough) & block.counts)
                mine.n_used = int(np.count_nonzero(block.counts))
                lowest = able[_lowest(keys[able], mine.limit)]
                mine.keys, mine.numbers = keys[lowest], n + lowest
                mine.shards, mine.rows = np.full(lowest.size, shard), block.take(lowest)
                n += len(block)
                waiting.append(mine)
                if sum(one.keys.size for one in waiting) > mine.limit:
                    found, waiting = found.merge(*waiting), []
            found = found.merge(*waiting)
        found.n_rows, found.unreadable = {shard: n}, unreadable
        return found

    @property
    def _enough(self) -> np.uint64:
        """Key from which rows are not wanted."""
        full = self.keys.size >= self.limit
        return np.uint64(self.keys.max()) if full else np.uint64(2**64 - 1)

    def _look(self, reader: Reader, block: Block, *, classes: bool) -> None:
        if isinstance(reader, TableReader):
            columns = TablePreprocessor.from_state(reader.reads.preprocessor.to_state())
            y = reader.reads.targets(block.X)
            self.columns = reader.reads.measure(columns, block.X, y)
            self.n_inputs = len(columns.columns_in_)
        else:
            y, self.n_inputs, self.columns = block.y, block.X.shape[1], block.names
            _check_finite("X", block.X.data if sparse.issparse(block.X) else block.X)
            _check_finite("y", y)
            if block.weights is not None:
                check_weights(block.weights, len(block), some=False)
        self.limit = self.settings.sample_of(self.n_inputs)
        if classes:
            labels, counts = np.unique(y, return_counts=True)
            self.class_counts = dict(zip(labels, counts.tolist(), strict=True))

    def merge(self, *others: Survey) -> Survey:
        """Return the survey of the rows of all; none of them is changed.

        Raises
        ------
        ShardError
            If they are of other columns.
        """
        several = [self, *others]
        told = [one for one in several if one.rows is not None]
        made = copy.copy(told[0] if told else self)
        for one in told[1:]:
            made._add(one)
        made.n_rows = {shard: n for one in several for shard, n in one.n_rows.items()}
        made.n_used = sum(one.n_used for one in several)
        made.unreadable = Unreadable(strict=False)
        for one in several:
            made.unreadable.merge(one.unreadable)
        if len(told) > 1:
            keys = np.concatenate([one.keys for one in told])
            lowest = _lowest(keys, made.limit)
            made.keys = keys[lowest]
            made.shards = np.concatenate([one.shards for one in told])[lowest]
            made.numbers = np.concatenate([one.numbers for one in told])[lowest]
            try:
                made.rows = Block.joined([one.rows for one in told if one.rows is not None])
            except UnlikeBlocksError as error:
                one, other = (told[place] for place in error.places)
                raise one._unlike(other, str(error)) from error
            made.rows = made.rows.take(lowest)
        return made

    def _add(self, other: Survey) -> None:
        """Add what is known of columns and targets."""
        if self.n_inputs != other.n_inputs:
            raise self._unlike(other, f"{self.n_inputs} and {other.n_inputs} columns of inputs")
        if isinstance(self.columns, TablePreprocessor):
            columns = TablePreprocessor.from_state(self.columns.to_state())
            try:
                self.columns = columns.merge(other.columns)  # type: ignore[arg-type]
            except ValueError as error:
                raise self._unlike(other, f"columns that do not fit together: {error}") from error
        elif self.columns != other.columns:
            raise self._unlike(other, f"the columns {self.columns} and {other.columns}")
        if self.class_counts is not None and other.class_counts is not None:
            both = (*self.class_counts, *other.class_counts)
            if len({_kind(label) for label in both}) > 1:
                words = " and ".join(sorted({type(label).__name__ for label in both}))
                raise self._unlike(other, f"labels of different types, {words}")
            counts = dict(self.class_counts)
            for label, n in other.class_counts.items():
                counts[label] = counts.get(label, 0) + n
            self.class_counts = dict(sorted(counts.items()))

    def _unlike(self, other: Survey, what: str) -> ShardError:
        who = f"{self.name} and {other.name} have"
        if self.name == other.name:
            who = f"Tables of {self.name} have"
        return ShardError(
            f"{who} {what.removesuffix('.')}. All shards need the same columns, of the "
            "same kinds; mend this one, or leave it out.",
            other.name,
        )

    @property
    def is_varied(self) -> bool:
        """Whether hardly any rows of the sample have the same key."""
        return np.unique(self.keys).size >= _VARIED * self.keys.size

    def n_below(self, n: int) -> int:
        """Return the rows with the smallest keys: ``n`` rows, or fewer if keys are equal."""
        ordered = np.sort(self.keys)
        return int(np.searchsorted(ordered, ordered[n]))

    def in_order(self) -> Block:
        """Rows of the sample in the order of the shards."""
        assert self.rows is not None
        return self.rows.take(np.lexsort((self.numbers, self.shards)))

    def drawn(self, first: int, last: int) -> Block:
        """Rows of the sample from one place to another in the order of their keys."""
        assert self.rows is not None
        return self.rows.take(np.argsort(self.keys, kind="stable")[first:last])


def _looked_at(reader: Reader, data: Any, unreadable: Unreadable) -> Any:
    """Return a shard that takes down cells of files that cannot be read, if it is of files."""
    if not isinstance(data, FileShard) or not isinstance(reader, TableReader):
        return data
    file, columns = data.part.file, reader.reads.preprocessor
    tables = data(unreadable)
    return looked_through(file, tables, columns, unreadable, data.part.first)


def _check_finite(name: str, values: NDArray[Any]) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        places = np.argwhere(~np.isfinite(values))
        what = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(
            f"{name} has {what} in {len(np.unique(places[:, 0])):,} rows, from which nothing can "
            "be learned. Leave such rows out, or fill in numbers; of tables `columns` says what "
            "takes the place of gaps in the inputs."
        )


def _kind(label: Any) -> str:
    """Kind of a label: numbers of all types are one, and so is text."""
    kind = np.asarray(label).dtype.kind
    return {"i": "number", "u": "number", "f": "number"}.get(kind, kind)


def _lowest(keys: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Places of the lowest keys, in no order if there are more."""
    if keys.size <= n:
        return np.arange(keys.size)
    return np.asarray(np.sort(np.argpartition(keys, n)[:n]), dtype=np.int64)
