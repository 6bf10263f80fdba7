"""Files of the command: models, tables for them, and what it writes, looked at beforehand."""

from __future__ import annotations

import glob
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from mercer.columns.null_values import NullValues, Unreadable
from mercer.columns.readings import held_before
from mercer.columns.views import listed
from mercer.model_file import load_model, replacing, sync_folder, unfinished_folder
from mercer_app.files import read_tables
from mercer_app.files.places import FilePath, check_place, local_path
from mercer_app.files.tables import (
    FileColumns,
    Labelled,
    TableFiles,
    find_files,
    has_types,
    in_place,
    looked_through,
    with_nulls,
)
from mercer_app.messages import leave_output, note
from mercer_app.rows import TableRows

# Of names that are meant for files, where predictions are a folder.
_ENDINGS = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".arrow", ".feather", ".ipc")


def load_table_rows(path: Path, target: str | None = None) -> TableRows:
    """Load a model that learned tables, or rows with named features, and what reads them.

    Parameters
    ----------
    path : Path
        The file.
    target : str or None, default=None
        Column of the targets, which the file of a model of rows does not name.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file does not exist, or is not such a model.
    """
    model = load_model_file(path)
    found = TableRows.of(model, target)
    if found is None:
        raise ValueError(
            f"{path} holds a {type(model).__name__} of arrays without named columns, as `save` "
            "writes it. Use `mercer.load_model` in Python, or train with `mercer fit`."
        )
    return found


def load_model_file(path: Path) -> Any:
    """Load any model; FileNotFoundError if the file does not exist."""
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    return load_model(path)


def note_extra(
    reads: TableRows, data: str | os.PathLike[str], *used: str | None, quiet: bool = False
) -> None:
    """Say once which columns of the files neither training knew nor this command uses."""
    for text in said_of_extra(reads, data, *used):
        note(text, quiet=quiet)


def said_of_extra(reads: TableRows, data: str | os.PathLike[str], *used: str | None) -> list[str]:
    """Return a note on columns that training did not have and that are not used."""
    known = {*reads.preprocessor.columns_in_, *reads.preprocessor.exclude, *used}
    extra = [name for name in TableFiles.of(data).columns.names if name not in known]
    said = f"{data}: not looked at, as training had no such column: {listed(extra)}"
    return [said] if extra else []


def as_learned(reads: TableRows, data: FilePath, target: str | None = None) -> TableFiles:
    """Return files to answer for, with what stood for no value in those that a model learned.

    Parameters
    ----------
    reads : TableRows
        The model.
    data : path
        The files.
    target : str or None, default=None
        What the column of the targets is called there, if not as in training.
    """
    marks = reads.preprocessor.nulls_.marks
    if target is not None:
        marks += tuple((target, mark) for name, mark in marks if name == reads.target)
    return TableFiles.of(with_nulls(data, NullValues(marks)))


def column_types(reads: TableRows, data: str | os.PathLike[str]) -> dict[str, str]:
    """Types of columns that CSV files must be read with: text stays text, even if all digits."""
    if has_types(find_files(data)):
        return {}
    text = set(reads.text_columns_)
    labels = getattr(reads.estimator, "classes_", None)
    if labels is not None and labels.dtype.kind == "U":
        text.add(str(reads.target))
    columns = TableFiles.of(data).columns
    types = dict.fromkeys(sorted(text & {*columns.names}), "string")
    return types | dict.fromkeys(_numbers_as_text(reads, columns, types), "float64")


def _numbers_as_text(
    reads: TableRows, columns: FileColumns, types: Mapping[str, str]
) -> Iterator[str]:
    """Name columns of numbers some of whose cells are none here, or have digits after zeros."""
    as_text = {*columns.of_text}
    for name, reading in reads.preprocessor.readings_.items():
        plain = reading.kind == "number" or reading.form == "yyyymmdd"
        if name in as_text and name not in types and plain and not reading.was_text:
            yield name


class Oddities:
    """What tables hold that training did not know, counted over all rows.

    Attributes
    ----------
    unreadable : Unreadable
        Cells that cannot be what their columns are.
    n_rows : int
        Rows of the tables.
    unlabelled : int
        Further rows, without a target, that were left out.
    gaps : Counter of str
        Rows with a gap in a column that had none.
    new : Counter of str
        Rows with a new category, by columns.
    examples : dict of str to str
        A new category of each.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.unreadable = Unreadable(strict=strict)
        self.n_rows = self.unlabelled = 0
        self.gaps: Counter[str] = Counter()
        self.new: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def look(self, reads: TableRows, table: Any) -> None:
        """Take a table."""
        self.gaps.update(reads.preprocessor.new_gaps(table))
        for name, (n, category) in reads.preprocessor.new_categories(table).items():
            self.new[name] += n
            self.examples.setdefault(name, category)
        self.n_rows += table.num_rows

    def merge(self, other: Oddities) -> None:
        """Add the content of later tables."""
        self.unreadable.merge(other.unreadable)
        self.n_rows += other.n_rows
        self.unlabelled += other.unlabelled
        self.gaps.update(other.gaps)
        self.new.update(other.new)
        self.examples = {**other.examples, **self.examples}

    def warn(self, reads: TableRows, data: str | os.PathLike[str]) -> None:
        """Warn of what there was."""
        for text in self.said(reads, data):
            warnings.warn(text, stacklevel=3)

    def said(self, reads: TableRows, data: str | os.PathLike[str]) -> list[str]:
        """Return the note."""
        texts = self.unreadable.said()
        if self.unlabelled:
            texts.append(
                f"{data} has {_rows(self.unlabelled)} without a value of {reads.target!r}. There "
                "is nothing to compare with in them: they are left out."
            )
        if self.gaps:
            filled = reads.preprocessor.fillings()
            said = [
                f"{k!r} ({_rows(n)}; taken as {filled[k]})" for k, n in self.gaps.most_common(10)
            ]
            texts.append(
                f"{data} has gaps in columns that had none in training, so that nothing was "
                f"learned of them: {', '.join(said)}{' and others' * (len(self.gaps) > 10)}."
            )
        if self.new:
            said = [
                f"{k!r} ({n:,} of {_rows(self.n_rows)}, such as {self.examples[k]!r})"
                for k, n in self.new.most_common(10)
            ]
            texts.append(
                f"{data} holds categories that the {_rows(reads.preprocessor.n_samples_seen_)} "
                "which training measured did not have; they are taken as '(other)': "
                f"{', '.join(said)}{' and others' * (len(self.new) > 10)}."
            )
        return texts


Encoded = tuple[Any, NDArray[np.floating], Any]


def encoded_tables(
    reads: TableRows,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    more: Sequence[str] = (),
    odd: Oddities | None = None,
    strict: bool = False,
) -> Iterator[Encoded]:
    """Read files for a model; yield tables with encoded inputs and, with ``target``, targets.

    Warns
    -----
    UserWarning
        At the end, if there were gaps in columns that had none in training, new categories, or
        cells that cannot be what their columns are, unless ``odd`` is to take that down. With
        ``strict`` the first such cell is an error.
    """
    refuse_text(reads, data)
    columns, types = columns_of(reads, target, more), column_types(reads, data)
    found = Oddities(strict=strict) if odd is None else odd
    seen = found.unreadable
    tables = read_tables(data, columns=columns, column_types=types, unreadable=seen)
    tables = looked_through(data, tables, reads.preprocessor, seen)
    yield from encoded_in_place(partial(in_place, data, tables), reads, target, found)
    if odd is None:
        found.warn(reads, data)


def values_of(table: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return what the rows of an Arrow table have in some columns, as they are written."""
    found = {}
    for name in names:
        values = np.empty(table.num_rows, dtype=object)
        values[:] = table.column(name).to_pylist()
        found[name] = values
    return found


def columns_of(reads: TableRows, target: str | None, more: Sequence[str]) -> list[str]:
    """Columns to read for a model: its inputs, others, and the target."""
    more = [*more] if target is None else [*more, target]
    return list(dict.fromkeys([*reads.preprocessor.feature_names_in_, *more]))


def encoded_in_place(
    read: Callable[..., Iterator[Encoded]], reads: TableRows, target: str | None, odd: Oddities
) -> Iterator[Encoded]:
    """Encode tables, those with a target where one is named, and take down what is odd about them.

    Parameters
    ----------
    read : callable
        Takes what encodes a table, and ``labelled``, as :func:`mercer_app.files.tables.in_place`
        does.
    reads, target, odd
        The model, the column of the targets, if any, and where to take it down.
    """

    def encoded(table: Any) -> Encoded:
        X = reads.inputs(table, extra="drop", lenient=True)
        y = None if target is None else reads.targets(table, column=target)
        odd.look(reads, table)
        return table, X, y

    labelled = Labelled(target if reads.has_target else None)
    yield from read(encoded, labelled=labelled)
    odd.unlabelled += labelled.n_left_out


def _rows(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"


def refuse_text(reads: TableRows, data: str | os.PathLike[str]) -> None:
    """Raise if most cells of a column of numbers, dates or times are none: it is another column.

    Raises
    ------
    ValueError
        Naming the place of the first such cell.
    """
    names = {*reads.preprocessor.feature_names_in_} - {*reads.text_columns_}
    readings = {n: one for n, one in reads.preprocessor.readings_.items() if n in names}
    types = column_types(reads, data)
    changed = [name for name in TableFiles.of(data).columns.of_text if name in readings]
    if not changed:
        return
    odd, n_cells = Unreadable(strict=False), Counter[str]()
    given = {name: kind for name, kind in types.items() if name in changed}
    tables = read_tables(data, columns=changed, column_types=given, unreadable=odd)
    for table in looked_through(data, tables, reads.preprocessor, odd):
        n_cells.update({n: table.num_rows - table.column(n).null_count for n in changed})
    for name, n in odd.counts.items():
        _, cell, place = odd.first[name]
        n_cells[name] += n if name in given else 0  # these are gaps in the tables
        if readings[name].is_another(n, n_cells[name]):
            others = f", and {n - 1:,} more such cells" if n > 1 else ""
            raise ValueError(
                f"Column {name!r} held {held_before(readings[name].kind)} in training but now "
                f"holds {cell!r} in {place}{others}. Correct such cells, or leave them empty, "
                "which is a missing value."
            )


def check_writable(path: Path, *inputs: str | Path | None, endings: tuple[str, ...] = ()) -> None:
    """Raise unless a file can be written, so that no hours of work end without a place.

    Parameters
    ----------
    path : Path
        File that will be written or replaced.
    *inputs : path or None
        Data that is read, which must not be the file to be replaced.
    endings : tuple of str, default=()
        Endings that the file may have; () allows all.

    Raises
    ------
    OSError, ValueError
        Saying why it cannot be.
    """
    if endings and path.suffix.lower() not in endings:
        raise ValueError(
            f"{str(path)!r} would need another ending: {' or '.join(endings)} can be written."
        )
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder. Name a file in it to write to.")
    check_place(path)
    for source in inputs:
        where = None if source is None else local_path(source)
        if where is not None and path.exists() and any(_same(path, f) for f in _files(where)):
            raise ValueError(f"{str(path)!r} is read as data: writing there would destroy it.")


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        return list(source.iterdir())
    return [Path(name) for name in glob.glob(str(source), recursive=True)] + [source]


def _same(a: Path, b: Path) -> bool:
    return b.exists() and os.path.samefile(a, b)


def check_new_folder(path: Path) -> None:
    """Raise an error unless a folder can be written, and is empty or absent.

    Raises
    ------
    OSError, ValueError
        Saying why it cannot be.
    """
    if path.name.lower().endswith(_ENDINGS) and not path.is_dir():
        raise ValueError(
            f"{str(path)!r} is named as a file, but with `--engine` predictions are a folder, with "
            "a Parquet file for each shard. Name a folder."
        )
    if path.is_dir() and any(path.iterdir()):
        raise ValueError(
            f"The folder {str(path)!r} is not empty: what it holds would be taken for predictions, "
            "too. Empty it, or name another."
        )
    if path.exists() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is a file. Name a folder.")
    check_place(path)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Write files to a folder that appears with all of them, or not at all."""
    place = Path(os.path.realpath(path))
    with unfinished_folder(place) as temporary:
        yield temporary
        temporary.replace(place)
    sync_folder(place.parent)


def arrow_columns(columns: dict[str, Any]) -> Any:
    """Make a table of arrays of equal lengths."""
    import pyarrow as pa

    arrays = [
        pa.array(np.asarray(values)) if isinstance(values, np.ndarray) else values
        for values in columns.values()
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))


class TableWriter:
    """Writes tables of the same columns to one place.

    Parameters
    ----------
    place : str or binary file
        Where.
    kind : {".parquet", ".pq", ".csv", ".arrow"}
        Format; .arrow is an IPC stream.
    """

    def __init__(self, place: Any, kind: str) -> None:
        self._place, self._kind = place, kind
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Append rows."""
        from pyarrow import csv, ipc, parquet

        if self._writer is None:
            kinds = {".csv": csv.CSVWriter, ".arrow": ipc.RecordBatchStreamWriter}
            kind = kinds.get(self._kind, parquet.ParquetWriter)
            self._writer = kind(self._place, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write what ends the table."""
        if self._writer is not None:
            try:
                self._writer.close()
            finally:
                if hasattr(self._writer, "is_open"):  # else it tries again when it is collected
                    self._writer.is_open = False


@contextmanager
def table_writer(path: Path) -> Iterator[TableWriter]:
    """Write a table piece by piece; the file appears whole, or not at all."""
    with replacing(path) as temporary:
        temporary.touch()  # a table without rows is a file, too
        writer = TableWriter(str(temporary), path.suffix.lower())
        try:
            yield writer
        finally:
            writer.close()


@contextmanager
def piped_tables(*, arrow: bool) -> Iterator[TableWriter]:
    """Write a table piece by piece to standard output, as long as somebody reads it."""
    file = sys.stdout.buffer
    writer = TableWriter(file, ".arrow" if arrow else ".csv")
    try:
        yield writer
        writer.close()
        file.flush()
    except BrokenPipeError:  # a reader such as `head` has read enough
        leave_output()
        raise typer.Exit(0) from None
