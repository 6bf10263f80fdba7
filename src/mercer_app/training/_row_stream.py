"""The rows that a training learns, in an order that the data and the settings alone decide.

Pass p reads the files in order and shuffles them in a buffer with the seed (seed, p). Rows of a
group stay together if a ranking compares rows within groups, and so do blocks of a series that the
default expansion holds out together. To resume inside a pass, it is read again and its first rows
are dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from mercer.columns.null_values import Unreadable
from mercer.default import DefaultLearner
from mercer.estimators.inputs import say_if_alike, values_by_column
from mercer.estimators.pairs import group_order
from mercer.expansions import Auto
from mercer.selection import FEWEST_GROUPS, block_length, block_of_series
from mercer.sums import Rows, RowsByNumber
from mercer_app.files import read_tables, shuffled
from mercer_app.files.tables import Labelled, in_place, looked_through, told_types
from mercer_app.rows import TableRows
from mercer_app.training.tables import expansion_of

Result = TypeVar("Result")
Grouped = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]
_PIECE = 8192  # rows
Block = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]
_CHUNK = 8192  # rows learned between two reports of progress
_BUFFER_BYTES = 2**26


class RowStream:
    """Rows of several passes over files, encoded for a model.

    Parameters
    ----------
    data : path
        As for :func:`mercer_app.files.read_tables`.
    rows : TableRows
        What reads tables, past its warm-up.
    n_passes : int
        Passes over the data.
    seed : int
        Seed of the shuffling.
    shuffle_buffer : int
        Rows shuffled at a time, fewer if they would take more than 64 MiB; below 2 the order stays.
    rows_per_pass : int or None
        Rows of the data, if known.
    rows_per_step : int
        Rows that a step learns.
    cuts_matter : bool
        Whether what is learned depends, in its last digits, on where the rows are cut into chunks.
    strict : bool, default=False
        Whether a cell that cannot be what its column is is an error rather than a gap.

    Attributes
    ----------
    rows_per_pass : int or None
        Known at the end of the first pass.
    labelled : Labelled
        Counts the rows of this pass that have no target.
    unreadable : Unreadable
        Cells that cannot be what their columns are, as many as were met in a pass.
    """

    def __init__(
        self,
        data: str | os.PathLike[str],
        rows: TableRows,
        *,
        n_passes: int,
        seed: int,
        shuffle_buffer: int,
        rows_per_pass: int | None,
        rows_per_step: int,
        cuts_matter: bool = False,
        strict: bool = False,
    ) -> None:
        self.data = data
        self.reads = rows
        self.n_passes = n_passes
        self.seed = seed
        self.shuffle_buffer = shuffle_buffer
        self.rows_per_pass = rows_per_pass
        self.rows_per_step = rows_per_step
        self.cuts_matter = cuts_matter
        self.strict = strict
        self._of_passes = [Unreadable(strict=strict)]
        self.labelled = Labelled(None)

    def chunks(self, start: int, *, every: int | None) -> Iterator[Block]:
        """Yield the rows from row ``start`` on, in chunks of whole steps.

        The result does not depend on where the stream is cut, except for the first chunk, from
        which the estimator draws its sample: it always has the same length, at most that of a pass.
        If cuts matter, all chunks have that length. A short last mini-batch joins the chunk before
        it, since its step is scaled there.

        Parameters
        ----------
        start : int
            Rows learned already, over all passes; the end of a chunk.
        every : int or None
            Chunks must not be much longer than this number of rows, unless cuts matter.

        Yields
        ------
        X, y : ndarray
            About 8,192 rows.
        group : ndarray or None
            Groups of the rows, if the model uses groups.

        Raises
        ------
        ValueError
            For rows that cannot be encoded, and if the files change while they are read.
        """
        b = self.rows_per_step
        full = max(_CHUNK // b, 1) * b
        whole = full
        if self.n_passes > 1:
            # A row that comes twice in a sample would tell a race what it is judged by.
            most = self.reads.preprocessor.n_samples_seen_
            full = min(full, most if self.cuts_matter else max(most // b, 1) * b)
        later = full
        # After a short first chunk steps are still cautious, and cuts are seen in their last bits.
        if every is not None and not self.cuts_matter and full == whole:
            later = min(full, -(-every // b) * b)
        size = later if start else full
        yield from _in_chunks(self._rows(start), size, later, b)

    def last_pass(self) -> Iterator[tuple[NDArray[np.floating], NDArray[Any]]]:
        """Yield inputs and targets of all rows once more, in the order of the last pass."""
        for X, y, _ in _in_chunks(self._one_pass(self.n_passes - 1), _CHUNK, _CHUNK, 1):
            yield X, y

    def _rows(self, start: int) -> Iterator[Block]:
        known = self.rows_per_pass
        first, skip = divmod(start, known) if known else (0, start)
        for number in range(first, self.n_passes):
            n_seen = 0
            for X, y, group in self._one_pass(number):
                n_seen += len(y)
                dropped = min(skip, len(y))
                skip -= dropped
                if dropped < len(y):
                    yield X[dropped:], y[dropped:], None if group is None else group[dropped:]
            if self.rows_per_pass not in (None, n_seen):
                raise ValueError(
                    f"{self.data} changed while it was read: pass {number + 1} found {n_seen:,} "
                    f"rows instead of {self.rows_per_pass:,}. Train on files that nothing writes "
                    "to."
                )
            self.rows_per_pass = n_seen

    def find_blocks(self) -> None:
        """Let the default expansion hold out blocks, if rows are a series in their own order.

        The model could not detect this by itself after shuffling. It is detected on as many first
        rows as are shuffled at a time. A warning is given if rows look like a series or like
        groups.
        """
        estimator = self.reads.estimator
        expansion = expansion_of(estimator)
        if not isinstance(expansion, Auto) or expansion.block_length != "auto":
            return
        if self.reads.group is not None or self.reads.time is not None:
            return
        if self.shuffle_buffer < 2:
            return  # the estimator gets them in their order
        held: list[Block] = []
        n_held, size = 0, max(self._buffer_rows, _CHUNK)
        first = None
        for table, block in self._in_order(lambda table: (table, self._encoded(table))):
            first = table if first is None else first
            held.append(block)
            n_held += len(block[1])
            if n_held >= size:
                break
        X, y, _ = _split(held, size)[0]
        labels = np.unique(y) if is_classifier(estimator) else None

        def take(numbers: NDArray[np.int64]) -> Rows:
            targets = y[numbers, np.newaxis]
            if labels is not None:
                targets = np.where(targets == labels, 1.0, -1.0)
            return Rows(X[numbers], targets.astype(np.float64), np.ones(numbers.size))

        rows = RowsByNumber(len(y), take)
        inputs = self.reads.preprocessor
        columns = values_by_column(first, inputs.feature_names_in_)
        say_if_alike(rows, columns, inputs.owners_out(), expansion.seed)
        length = block_length(rows, expansion.seed)
        if length > 1:
            params = {**expansion.get_params(deep=False), "block_length": length}
            estimator.set_params(expansion=Auto(**params))

    @property
    def unreadable(self) -> Unreadable:
        """Cells that cannot be what their columns are, as many as were met in a pass."""
        return max(self._of_passes, key=lambda one: sum(one.counts.values()))

    @property
    def _buffer_rows(self) -> int:
        preprocessor = self.reads.preprocessor
        row_bytes = preprocessor.n_features_out_ * np.dtype(preprocessor.dtype_).itemsize
        return max(1, min(self.shuffle_buffer, _BUFFER_BYTES // row_bytes))

    def _encoded(self, table: Any) -> Block:
        """Return inputs, targets, and groups or times of the rows of a table."""
        reads = self.reads
        return *reads.rows(table), (reads.groups if reads.time is None else reads.times)(table)

    def _in_order(self, encode: Callable[[Any], Result]) -> Iterator[Result]:
        """Tables in the order of the files, encoded."""
        reads = self.reads
        self.labelled = Labelled(reads.target if reads.has_target else None)
        unreadable = Unreadable(strict=self.strict)
        self._of_passes.append(unreadable)
        tables = read_tables(
            self.data,
            columns=reads.columns_,
            column_types=told_types(self.data, reads.preprocessor.kinds or {}),
            unreadable=unreadable,
        )
        return in_place(
            self.data,
            looked_through(self.data, tables, reads.preprocessor, unreadable),
            encode,
            labelled=self.labelled,
        )

    def _one_pass(self, number: int) -> Iterator[Block]:
        rows: Iterator[Any] = self._in_order(self._encoded)
        size, seed = self._buffer_rows, np.random.SeedSequence([self.seed, number])
        if self.reads.group is not None:
            rows = rows if self.shuffle_buffer < 2 else shuffled_groups(rows, size, seed)
            ranks = self.reads.compared_within is not None
            return rows if ranks else self._each_once(rows)
        if self.reads.time is not None:
            return self._last_judging(self._by_time(rows), seed)
        if self.shuffle_buffer < 2:
            return rows
        length = getattr(expansion_of(self.reads.estimator), "block_length", 1)
        if length == 1 or isinstance(length, str):
            return shuffled(rows, size, seed)
        return _shuffled_blocks(rows, int(length), size, seed)

    def _each_once(self, rows: Iterable[Grouped]) -> Iterator[Block]:
        """Pass rows on; ValueError if a group returns after another one, or there are too few."""
        seen: set[float] = set()
        last = None
        for X, y, group in rows:
            starts = np.flatnonzero(np.diff(group, prepend=np.nan) != 0.0)
            for value in group[starts].tolist():
                if value in seen and value != last:
                    raise ValueError(
                        f"Rows of a group of {self.reads.group!r} are far apart in {self.data}, "
                        "and those of one are to be held out together. Sort the file by this "
                        f"column, or read more rows at a time than {self._buffer_rows:,} with "
                        "`shuffle_buffer`."
                    )
                seen.add(value)
                last = value
            yield X, y, group
        if len(seen) < FEWEST_GROUPS:
            raise ValueError(
                f"{self.reads.group!r} has {len(seen)} groups in {self.data}, and at least "
                f"{FEWEST_GROUPS} are needed to learn from some and judge by others. Leave it out, "
                "or name another column."
            )

    def _by_time(self, rows: Iterable[Grouped]) -> Iterator[Grouped]:
        """Put rows in order, as many at a time as are shuffled; ValueError if they are further."""
        held: list[Grouped] = []
        n_held, last, size = 0, -np.inf, self._buffer_rows if self.shuffle_buffer > 1 else 0

        def first(n: int) -> Grouped:
            nonlocal held, n_held, last
            X, y, times = _joined(held)
            order = np.argsort(times, kind="stable")
            if times[order[0]] < last:
                raise ValueError(
                    f"Rows of {self.data} are out of the order of {self.reads.time!r} by more than "
                    f"{size:,} rows. Sort the file by this column, or read more rows at a time "
                    "with `shuffle_buffer`."
                )
            some, rest = order[:n], order[n:]
            last, n_held = float(times[some[-1]]), rest.size
            held = [(X[rest], y[rest], times[rest])]
            return X[some], y[some], times[some]

        for block in rows:
            held.append(block)
            n_held += len(block[1])
            if n_held >= size + _PIECE:
                yield first(n_held - size)
        if n_held:
            yield first(n_held)

    def _last_judging(
        self, rows: Iterable[Grouped], seed: np.random.SeedSequence
    ) -> Iterator[Block]:
        """Shuffle rows in the order of time in blocks, but for the last ones, which judge.

        These are a quarter of all and ``most_held`` rows at most, or all of so few that each row
        may be a point.
        """
        settings = DefaultLearner.settings
        last: list[Block] = []
        most = max(settings.few, settings.most_held)

        def before() -> Iterator[Block]:
            n = n_last = 0
            for X, y, _ in rows:
                last.append((X, y, None))
                n, n_last = n + len(y), n_last + len(y)
                if n_last >= most + _PIECE:
                    first, rest = _split(last, n_last - most)
                    last[:], n_last = [rest], most
                    yield first
            kept = n if n <= settings.few else min(settings.most_held, n // 4)
            if n_last > kept:
                first, rest = _split(last, n_last - kept)
                last[:] = [rest]
                yield first

        length = block_of_series(settings.few + 1) if self.shuffle_buffer > 1 else 1
        early = before()
        yield from (
            early if length == 1 else _shuffled_blocks(early, length, self._buffer_rows, seed)
        )
        yield from last


def _shuffled_blocks(
    rows: Iterable[Block], length: int, size: int, seed: np.random.SeedSequence
) -> Iterator[Block]:
    """Shuffle blocks of ``block`` rows, which stay together; a shorter last block stays last.

    Blocks are a fifth of the ``size`` rows that are shuffled at a time, if they would be longer.
    """
    held: list[Block] = []
    length = min(length, max(1, size // 5))

    def blocks() -> Iterator[tuple[NDArray[Any], ...]]:
        for some in rows:
            held.append(some)
            whole = sum(len(y) for _, y, _ in held) // length * length
            if whole:
                full, rest = _split(held, whole)
                held[:] = [rest]
                yield tuple(array.reshape(-1, length, *array.shape[1:]) for array in full[:2])

    for X, y in shuffled(blocks(), max(1, size // length), seed):
        yield X.reshape(-1, X.shape[-1]), y.reshape(-1), None
    yield from (rest for rest in held if len(rest[1]))


def _in_chunks(blocks: Iterable[Block], first: int, later: int, least: int) -> Iterator[Block]:
    """Cut blocks anew: the first of some rows, later ones of others, the last of the least."""
    held: list[Block] = []
    n_held, size = 0, first
    for block in blocks:
        held.append(block)
        n_held += len(block[1])
        while n_held >= size + least:
            chunk, rest = _split(held, size)
            yield chunk
            held, n_held, size = [rest], n_held - size, later
    if n_held:
        yield _split(held, n_held)[0]


def _split(held: list[Block], size: int) -> tuple[Block, Block]:
    """Join blocks and cut them after ``size`` rows."""
    X, y, group = (
        None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*held, strict=True)
    )
    first, rest = (
        tuple(None if array is None else array[part] for array in (X, y, group))
        for part in (slice(size), slice(size, None))
    )
    return cast(Block, first), cast(Block, rest)


def shuffled_groups(
    blocks: Iterable[Grouped],
    buffer_size: int,
    random_state: int | np.random.Generator | np.random.SeedSequence | None = None,
) -> Iterator[Grouped]:
    """Shuffle groups, and the rows of each, but keep the rows of a group together.

    A ranking pairs a row with earlier rows of its group, which a small buffer holds. If
    neighbouring rows of the stream have different groups, there is nothing to learn. So a window of
    rows is read and given out group by group, with groups and the rows of each in random order. A
    group at the end of the window is kept for the next window, unless it fills the window. Groups
    whose rows are far apart in the files are brought together only within a window.

    Parameters
    ----------
    blocks : iterable of (X, y, group)
        Blocks of rows; ``group`` of shape (n_rows,).
    buffer_size : int
        Rows of a window.
    random_state : int, numpy.random.Generator, numpy.random.SeedSequence or None, default=None
        The same seed and the same rows give the same order, for any cuts into blocks.

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
    held: list[Grouped] = []
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


def _shuffled(rows: Grouped, rng: np.random.Generator) -> Iterator[Grouped]:
    order = group_order(rows[2], rng)
    for start in range(0, order.size, _PIECE):
        X, y, g = (array[order[start : start + _PIECE]] for array in rows)
        yield X, y, g


def _start_of_last_group(group: NDArray[np.float64]) -> int:
    """Return the first row of the last run of equal groups; 0 if there is only one run."""
    others = np.flatnonzero(group != group[-1])
    return int(others[-1]) + 1 if others.size else 0


def _joined(held: list[Grouped]) -> Grouped:
    X, y, group = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
    return X, y, group


def _cut(rows: Grouped, start: int, stop: int) -> Grouped:
    X, y, group = (array[start:stop] for array in rows)
    return X, y, group
