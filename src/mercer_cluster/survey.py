"""First look at all rows: their number, their types, and a sample of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns import TablePreprocessor
from mercer.columns.odd_cells import Unreadable
from mercer.estimators.inputs import check_weights
from mercer.exceptions import ShardError
from mercer_app.files.tables import looked_through
from mercer_cluster.settings import DEFAULT, Settings
from mercer_cluster.shards import (
    Block,
    FileShard,
    Reader,
    TableReader,
    UnlikeBlocksError,
    naming,
)

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
