"""Tables from Parquet, CSV and Arrow files of any size, a bounded number of rows at a time."""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.columns.null_values import NullValues, ReadError, Unreadable, typed
from mercer.columns.views import check_names, listed
from mercer.exceptions import Advice
from mercer.threads import own_property
from mercer.validation import check_integer
from mercer_app.files.csv_files import Csv, Unfit, is_number_type, values_of, wider
from mercer_app.files.dialect import CsvDialect, CsvPath, ToldFile, check_names_of_file
from mercer_app.files.places import (
    AnyFile,
    FilePath,
    MemoryFile,
    RemoteFile,
    local_path,
    opened,
    remote_files,
    size_of,
)

Result = TypeVar("Result")
Place = TypeVar("Place", bound=FilePath)

_NONE: Mapping[str, str] = {}
_BUFFER_BYTES = 2**16  # of a Parquet column chunk, decompressed at once
_REMOTE_BUFFER_BYTES = 2**20  # each is a request to the store


def require_pyarrow() -> Any:
    """Return the module ``pyarrow``, which is an optional dependency.

    Raises
    ------
    ImportError
        Naming the extra to install.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            "Reading Parquet, CSV and Arrow files needs pyarrow, which is not installed. "
            'Install it with `pip install "mercer[cli]"`.'
        ) from error
    return pyarrow


def read_tables(
    path: FilePath,
    *,
    columns: Sequence[str] | None = None,
    rows_per_table: int = 8192,
    column_types: Mapping[str, str] | None = None,
    dialect: CsvDialect | None = None,
    unreadable: Unreadable | None = None,
) -> Iterator[Any]:
    r"""Read a file, a folder or a glob of files as a sequence of small tables.

    Files are read one after the other in the sorted order of their names, by one thread and with
    bounded readahead, so that the memory used does not depend on their size. (CSV: 32 blocks of
    1 MiB, or of a MiB for each 1,024 columns where there are more than 2,048.)

    Parameters
    ----------
    path : path
        A file, a folder (its own files with a supported ending; names that begin with "." or "_"
        are skipped) or a glob such as ``"2024-*.parquet"`` (``**`` crosses folders). Endings:
        .parquet, .pq; .csv, .tsv, also with .gz or .bz2; .arrow, .feather, .ipc; of files that are
        not found in a folder .txt, .data, .dat, which are read as CSV. Addresses such as
        ``s3://bucket/folder/*.parquet``, ``gs://...`` or ``file:///...`` are read by pyarrow, or
        by fsspec if it is installed; of object stores Parquet files only.
    columns : sequence of str or None, default=None
        Columns to read, in this order. None: all, in the order of the first file.
    rows_per_table : int, default=8192
        Rows of every table but the last, which may be shorter.
    column_types : mapping of str to str or None, default=None
        Arrow types such as ``{"zip": "string", "price": "float64"}`` that override those found.
    dialect : CsvDialect or None, default=None
        How CSV files are written: delimiter, decimal mark, encoding and so on. Settings that it
        leaves open are detected from the first MiB of each file.
    unreadable : Unreadable or None, default=None
        Records cells of CSV unlike their column, which then count as missing. With None the first
        such cell is an error.

    Returns
    -------
    tables : iterator of pyarrow.Table
        Tables with the schema of :func:`schema`, except that whole numbers of CSV files are float64
        in tables that also hold fractions or numbers beyond 64 bits.

    Raises
    ------
    ImportError
        Without pyarrow.
    FileNotFoundError
        If the file does not exist, or there is nothing readable in the folder or under the glob.
    ValueError
        For unsupported endings, broken files, unknown columns, files of different columns, and
        values that do not fit the type of their column, naming the file and the column; for CSV
        the line, too.

    Notes
    -----
    The type of a column is one that holds what all files have: numbers for whole numbers and
    fractions, text for numbers and text (see ``mercer_app.files.csv_files``). Of CSV files the
    first 8 MiB and the last one are looked at, the last not of those that are compressed. Where
    nineteen of twenty cells are numbers in the end of a file, or in another one, the column stays
    one of numbers. Columns without any value there are taken as numbers. A cell elsewhere that is
    no such value is an error, unless ``unreadable`` takes it down; ``column_types`` settles it.

    Empty cells and "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A" and "\\N" are missing
    values, in text columns as well. In columns whose other cells are all numbers, dates or truth
    values, so are "None", "-", "--", "?", ".", "..", "*", ":", "(D)", "missing", "unknown", "n.a.",
    "k.A.", "<NA>", "nil", errors of spreadsheets such as "#DIV/0!" and others; among text these are
    kept as text. ``null_values`` of the ``dialect`` adds marks, or makes the usual marks values.
    Digits with leading zeros, such as 02139, are text.

    Empty lines are skipped, and so are lines that begin with "#", where these are comments: at the
    top, or among the rows with another number of cells. Of a line of comments above numbers that
    has as many cells as they have, these are the names.

    Arrow files are mapped into memory: pages that were read count as resident until the system
    needs the memory, which it can reclaim at no cost.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "towns.csv"
    >>> _ = file.write_text("town,height\nBern,540\nBonn,60\nUlm,478\n")
    >>> [table.num_rows for table in read_tables(file, rows_per_table=2)]
    [2, 1]
    >>> folder.cleanup()
    """
    arrow, found = require_pyarrow(), TableFiles.of(told(path, dialect))
    check_integer("rows_per_table", rows_per_table, low=1)
    layout = found.columns.typed(column_types or {})
    if columns is not None:
        if isinstance(columns, str):
            raise ValueError(f"`columns` must be a sequence of names, got {columns!r}.")
        check_names_of_file(columns, layout.names, f"`{found}`")
        layout = arrow.schema([layout.field(name) for name in columns])
    parts = map(FilePart, found.files)
    batches = _batches(parts, layout, rows_per_table, unreadable or Unreadable())
    return _rechunk(batches, layout, rows_per_table)


class FileColumns(NamedTuple):
    """The columns of files, which all have the same ones.

    Attributes
    ----------
    first : str
        The first file.
    fields : list of pyarrow.Field
        Names, and the type of each that holds what all files have.
    differing : dict of str to ReadError
        Columns of which no type holds that, and why.
    """

    first: str
    fields: list[Any]
    differing: dict[str, ReadError]

    @classmethod
    def of(cls, files: Sequence[AnyFile]) -> Self:
        """Look at the beginnings of files, and at the ends of large ones of CSV."""
        pa = require_pyarrow()
        fields: dict[str, Any] = {}
        differing: dict[str, ReadError] = {}
        for file in files:
            found = {field.name: field for field in _fields_of(file)}
            fields = found if file is files[0] else fields
            if found.keys() != fields.keys():
                missing, new = fields.keys() - found.keys(), found.keys() - fields.keys()
                differs = (("lacks", sorted(missing)), ("adds", sorted(new)))
                said = [f"{verb} {listed(names)}" for verb, names in differs if names]
                raise ValueError(
                    f"{file} has other columns than {files[0]}: it {' and '.join(said)}. All files "
                    "must have the same columns; read the others on their own."
                )
            for name, field in fields.items():
                if name not in differing:
                    try:
                        fields[name] = field.with_type(_joined(field, found[name], file))
                    except ReadError as error:
                        differing[name] = error
        if any(map(_is_csv, files)):  # columns without a value may have numbers further down
            for name, field in fields.items():
                if pa.types.is_null(field.type):
                    fields[name] = field.with_type(pa.float64())
        return cls(f"{files[0]}", [*fields.values()], differing)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in the order of the first file."""
        return [field.name for field in self.fields]

    @property
    def of_text(self) -> list[str]:
        """Names of the columns of text."""
        return [field.name for field in self.fields if "string" in str(field.type)]

    def typed(self, types: Mapping[str, str] = _NONE) -> Any:
        """Return the schema of the files if some columns have other types than they seem to have.

        Parameters
        ----------
        types : mapping of str to str
            Arrow types of columns.

        Raises
        ------
        ValueError
            For unknown types and columns, and for a column without a type that all files have.
        """
        import pyarrow as pa

        wanted = {}
        for name, alias in types.items():
            try:
                wanted[name] = alias if isinstance(alias, pa.DataType) else pa.type_for_alias(alias)
            except ValueError:
                raise ValueError(
                    f"`column_types` must name Arrow types such as 'string', 'int64' or 'float64', "
                    f"got {alias!r} for column {name!r}."
                ) from None
        check_names(list(wanted), self.names, self.first)
        for name, error in self.differing.items():
            if name not in wanted:
                raise error
        return pa.schema([f.with_type(wanted.get(f.name, f.type)) for f in self.fields])


class TableFiles(os.PathLike[str]):
    """The files that a path means, found and looked at once; accepted wherever a path is.

    It is made where a command or a training begins, so that all that reads its files takes their
    columns for the same.

    Parameters
    ----------
    path : path
        As for :func:`read_tables`.
    """

    def __init__(self, path: FilePath) -> None:
        self.path = path

    @classmethod
    def of(cls, path: FilePath) -> Self:
        """Return the files of a path, or those that a caller has found."""
        return path if isinstance(path, cls) else cls(path)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def dialect(self) -> CsvDialect | None:
        """Known settings of CSV files."""
        told: CsvDialect | None = getattr(self.path, "dialect", None)
        return told

    @own_property
    def files(self) -> list[AnyFile]:
        """The files, sorted by name."""
        return _found(self.path)

    @own_property
    def columns(self) -> FileColumns:
        """Their columns."""
        return FileColumns.of(self.files)


class FilePart(NamedTuple):
    """A file, or some of the row groups of a Parquet file.

    Attributes
    ----------
    file : Path or RemoteFile
        The file.
    groups : tuple of int or None
        Numbers of the row groups; None for all of the file.
    first : int
        Number of its first row in the file.
    """

    file: AnyFile
    groups: tuple[int, ...] | None = None
    first: int = 0

    def __str__(self) -> str:
        if self.groups is None:
            return f"{self.file}"
        return f"{self.file}, row groups {self.groups[0]} to {self.groups[-1]}"

    def tables(
        self,
        layout: Any,
        *,
        rows_per_table: int = 8192,
        unreadable: Unreadable | None = None,
    ) -> Iterator[Any]:
        """Read the part as a sequence of small tables: see :func:`read_tables`.

        Parameters
        ----------
        layout : pyarrow.Schema
            Columns to read and their types, from :func:`schema` of all files.
        rows_per_table : int, default=8192
            Rows of every table but the last.
        unreadable : Unreadable or None, default=None
            As of :func:`read_tables`.
        """
        batches = _batches([self], layout, rows_per_table, unreadable or Unreadable())
        return _rechunk(batches, layout, rows_per_table)


def file_parts(path: FilePath, rows: int = 2**19) -> list[FilePart]:
    """Return the files that a path means, large Parquet files in parts of whole row groups.

    Parameters
    ----------
    path
        As for :func:`read_tables`.
    rows : int, default=524288
        Rows per part; a larger row group is a part by itself.

    Returns
    -------
    parts : list of FilePart
        They depend on the files only.
    """
    require_pyarrow()
    parts: list[FilePart] = []
    for file in find_files(path):
        try:
            sizes = _format_of(file).groups(file)
        except unread() as error:
            _refuse(file, error)
        if sum(sizes) <= rows:
            parts.append(FilePart(file))
            continue
        some: list[int] = []
        for number, size in enumerate(sizes):
            if some and sum(sizes[n] for n in some) + size > rows:
                parts.append(FilePart(file, tuple(some), sum(sizes[: some[0]])))
                some = []
            some.append(number)
        parts.append(FilePart(file, tuple(some), sum(sizes[: some[0]])))
    return parts


def schema(
    path: FilePath,
    *,
    column_types: Mapping[str, str] | None = None,
    dialect: CsvDialect | None = None,
) -> Any:
    """Return the ``pyarrow.Schema`` of the tables that :func:`read_tables` yields.

    Parameters
    ----------
    path, column_types, dialect
        As for :func:`read_tables`; only the beginnings of the files are read.

    Returns
    -------
    schema : pyarrow.Schema
        Names and types.

    Raises
    ------
    ImportError, FileNotFoundError, ValueError
        As :func:`read_tables`.
    """
    require_pyarrow()
    return TableFiles.of(told(path, dialect)).columns.typed(column_types or {})


def sniff_csv(path: FilePath) -> CsvDialect:
    r"""Find out how a CSV file is written.

    Parameters
    ----------
    path : path
        A file, or several, of which the first by name is looked at: its first MiB.

    Returns
    -------
    dialect : CsvDialect
        Complete dialect that :func:`read_tables` uses, without None.

    Raises
    ------
    ImportError
        Without pyarrow.
    FileNotFoundError
        If the file does not exist.
    ValueError
        If it is not a CSV file, or not text.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "towns.csv"
    >>> _ = file.write_text("town;height\nBern;540,2\nBonn;60,5\n")
    >>> print(sniff_csv(file).describe())
    columns separated by ';', decimal comma
    >>> folder.cleanup()
    """
    require_pyarrow()
    file = find_files(path)[0]
    if not _is_csv(file):
        raise ValueError(f"{file} is no CSV file by its name.")
    try:
        return Csv.dialect(file)
    except unread() as error:
        _refuse(file, error)


def count_rows(path: FilePath) -> int | None:
    """Return the number of rows; None if it is unknown without reading everything (CSV).

    Parameters
    ----------
    path
        As for :func:`read_tables`.

    Returns
    -------
    n_rows : int or None
        Summed over the files.

    Raises
    ------
    ImportError, FileNotFoundError, ValueError
        As :func:`read_tables`.
    """
    require_pyarrow()
    total = 0
    for file in find_files(path):
        try:
            rows = _format_of(file).count(file)
        except unread() as error:  # pyarrow's errors are of these kinds
            _refuse(file, error)
        if rows is None:
            return None
        total += rows
    return total


def find_files(path: FilePath) -> list[AnyFile]:
    """Return the files that a path, a glob or an address means, sorted by name."""
    return TableFiles.of(path).files


def _found(path: FilePath) -> list[AnyFile]:
    if isinstance(path, MemoryFile):
        return [path]
    where, address, is_folder = local_path(path), os.fspath(path), False
    files: list[AnyFile]
    if where is None:
        found, is_folder = remote_files(address)
        files = [*found]
    elif where.is_file():
        files = [where]
    elif where.is_dir():
        files, is_folder = [*sorted(file for file in where.iterdir() if file.is_file())], True
    elif glob.has_magic(os.fspath(where)):
        matching = map(Path, glob.glob(os.fspath(where), recursive=True))
        files = [*sorted(file for file in matching if file.is_file())]
    else:
        raise FileNotFoundError(f"There is no file or folder {address}.")
    if is_folder:
        files = [f for f in files if _ending_of(f) and not f.name.startswith((".", "_"))]
    if not files and is_folder:
        raise FileNotFoundError(
            f"The folder {address} holds no file that can be read; supported endings are "
            f"{', '.join(_FORMATS)}."
        )
    if not files:
        raise FileNotFoundError(f"No file matches {address!r}.")
    for file in files:
        if _format_of(file) is not _Parquet and isinstance(file, RemoteFile):
            raise ValueError(
                f"{file} is in an object store, of which only Parquet files are read. Convert it, "
                "or copy it to a disk."
            )
    dialect = getattr(path, "dialect", None)
    return files if dialect is None else [_told_file(file, dialect) for file in files]


def _told_file(file: AnyFile, dialect: CsvDialect) -> AnyFile:
    if isinstance(file, Path):
        return ToldFile(file, dialect)
    return replace(file, dialect=dialect) if isinstance(file, RemoteFile) else file


def _is_csv(file: AnyFile) -> bool:
    return issubclass(_format_of(file), Csv)


def told(path: Place, dialect: CsvDialect | None) -> Place:
    """Join a path with the known settings of its files."""
    if dialect is None:
        return path
    joined: Any
    dialect = dialect.or_else(getattr(path, "dialect", None) or CsvDialect())
    if isinstance(path, TableFiles):
        joined = TableFiles(told(path.path, dialect))
    elif isinstance(path, MemoryFile):
        joined = MemoryFile(path.content, path.name, str(path), dialect)
    else:
        joined = CsvPath(path, dialect)
    return joined  # type: ignore[no-any-return]


def with_nulls(path: Place, nulls: NullValues) -> Place:
    """Join a path with what stands for no value in its files."""
    return told(path, CsvDialect(null_values=nulls)) if nulls else path


def nulls_told(path: FilePath) -> NullValues:
    """Return the null values declared for the files of a path."""
    dialect = getattr(path, "dialect", None)
    return NullValues.of(None if dialect is None else dialect.null_values)


def unusual_files(path: FilePath) -> list[tuple[AnyFile, str]]:
    """Return the CSV files that are not UTF-8 with commas and points, and how they are written."""
    found: list[tuple[AnyFile, str]] = []
    for file in filter(_is_csv, find_files(path)):
        try:
            said = Csv.described(file)
        except unread() as error:
            _refuse(file, error)
        found += [(file, said)] if said else []
    return found


def place_of(path: FilePath, row: int) -> str:
    """Return the place of a row of :func:`read_tables`: a line of a CSV file, or a row number."""
    files, start = find_files(path), 0
    in_memory = isinstance(files[0], MemoryFile)
    for file in files if all(map(_is_csv, files)) else ():
        with suppress(csv.Error):  # a cell may be longer than what Python's reader takes
            line, n_rows = Csv.line_of(file, row - start)
            if line:
                return f"line {line:,} of {path if in_memory else file.name}"
            start += n_rows
            continue
        break
    name = str(path) if in_memory else Path(path).name
    return f"row {row:,} of {name} (the first is row 0)"


def written_at(path: FilePath, rows: Mapping[str, int]) -> dict[str, str]:
    """Return what stands in a row of some columns of a CSV file; nothing of several, or others.

    Parameters
    ----------
    path : path
        The file.
    rows : mapping of str to int
        A row of each column.
    """
    files = find_files(path)
    if len(files) == 1 and _is_csv(files[0]):
        with suppress(csv.Error):  # a cell may be longer than what Python's reader takes
            return Csv.written(files[0], rows)
    return {}


def has_types(files: Iterable[AnyFile]) -> bool:
    """Return whether files store the types of their columns; CSV files do not."""
    return not all(map(_is_csv, files))


class Labelled:
    """Chooses the rows of tables that have a target, and counts the others.

    Parameters
    ----------
    column : str or None
        Where targets are; None chooses all rows.

    Attributes
    ----------
    n_left_out : int
        Rows without a value there.
    """

    def __init__(self, column: str | None) -> None:
        self.column = column
        self.n_left_out = 0

    def rows(self, table: Any) -> NDArray[np.int64]:
        """Return the numbers of the rows chosen."""
        if self.column not in table.column_names:
            return np.arange(table.num_rows)
        missing = table.column(self.column).is_null(nan_is_null=True).to_numpy()
        self.n_left_out += int(np.count_nonzero(missing))
        return np.flatnonzero(~missing)

    def of(self, table: Any) -> tuple[Any, NDArray[np.int64]]:
        """Return the table of the rows chosen, and their numbers."""
        import pyarrow as pa

        rows = self.rows(table)
        if len(rows) == table.num_rows:
            return table, rows
        try:
            return table.take(rows), rows
        except pa.ArrowNotImplementedError as error:
            raise ValueError(
                "Rows without a target cannot be left out, as a column is of an unusual type "
                f"({error}). Write it as another type."
            ) from error


def in_place(
    data: FilePath,
    tables: Iterator[Any],
    encode: Callable[[Any], Result],
    start: int = 0,
    *,
    labelled: Labelled | None = None,
) -> Iterator[Result]:
    """Encode tables of a file, from a row on; errors say which rows of the file they concern.

    Parameters
    ----------
    data : path
        The file.
    tables : iterator of pyarrow.Table
        Rows of the file.
    encode : callable
        What to do with a table.
    start : int, default=0
        Row of the file that they begin with.
    labelled : Labelled, default=None
        Which rows are wanted; tables without such are left out. None: all.

    Raises
    ------
    ValueError
        What ``encode`` raises, after the place.
    """
    for table in tables:
        n = table.num_rows
        some, rows = (labelled or Labelled(None)).of(table)
        if len(rows) or not n:
            try:
                result = encode(some)
            except ValueError as error:
                place = f"{data}, {n:,} row{'s' * (n != 1)} from row {start:,} on"
                raise ValueError(f"{place}: {_placed(str(error), data, start + rows)}") from error
            yield result
        start += n


def drawn_in_place(
    data: FilePath,
    tables: Iterator[Any],
    draw: Callable[[Iterator[Any]], Result],
    labelled: Labelled,
) -> Result:
    """Let a function draw tables of a file from its beginning; errors say which row they concern.

    Parameters
    ----------
    data, tables, labelled
        As for :func:`in_place`.
    draw : callable
        Draws as many tables as it needs.

    Raises
    ------
    ValueError
        What ``draw`` raises.
    """
    start, rows = 0, np.arange(0)

    def some() -> Iterator[Any]:
        nonlocal start, rows
        for table in tables:
            chosen, rows = labelled.of(table)
            rows += start
            start += table.num_rows
            if len(rows):
                yield chosen

    try:
        return draw(some())
    except ValueError as error:
        message = _placed(str(error), data, rows)
        if message == str(error):
            raise
        raise ValueError(message) from error


def _placed(message: str, data: FilePath, rows: NDArray[np.int64]) -> str:
    """Say where in the file a row of a table is, if a message names one."""
    return re.sub(
        r"row (\d+) of this table",
        lambda found: place_of(data, int(rows[int(found[1])])),
        message,
    )


def looked_through(
    data: FilePath, tables: Iterable[Any], columns: Any, unreadable: Unreadable, start: int = 0
) -> Iterator[Any]:
    """Yield tables of a file, from a row on, after looking for cells that are not read.

    Parameters
    ----------
    data : path
        The file.
    tables : iterable of pyarrow.Table
        Rows of the file.
    columns : TablePreprocessor
        How they are read.
    unreadable : Unreadable
        Where it is taken down.
    start : int, default=0
        Row that the tables begin with.
    """
    where = cache(partial(place_of, data))  # which may take reading
    for table in tables:
        for name, kind, n, cell, row in columns.unreadable(table):
            place = "" if name in unreadable.first else where(start + row)
            unreadable.add(name, kind, n, cell, place)
        yield table
        start += table.num_rows


def told_types(data: FilePath, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the types by which CSV files are read where somebody said what columns are."""
    if not kinds or has_types(find_files(data)):
        return {}
    return as_told(kinds, TableFiles.of(data).columns.names)


def as_told(kinds: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the types of columns of CSV that are there, of those whose kinds were said.

    Cells that are not dates are kept as text: a number may have leading zeros or trailing text.
    """
    known = {name for name, kind in kinds.items() if kind in ("category", "text", "number")}
    return dict.fromkeys(sorted(known & set(names)), "string")


def _fields_of(file: AnyFile) -> Any:
    """Return the columns of a file and their types; in CSV, null where no value is seen."""
    import pyarrow as pa

    try:
        found = _format_of(file).schema(file)
    except unread() as error:
        _refuse(file, error)
    names = found.names
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{file} has more than one column named {repeated!r}; rename one.")
    # Not all of Arrow's functions take views of text.
    return [f.with_type(pa.large_string()) if str(f.type) == "string_view" else f for f in found]


def _joined(field: Any, other: Any, file: AnyFile) -> Any:
    """Return the type of a column in all files up to one that has it as another type."""
    if field.type == other.type:
        return field.type
    try:
        if _is_csv(file):
            return Csv.joined(field.type, other.type, lambda: Csv.cells(file, field.name))
        kind = wider(field.type, other.type)
    except unread() as error:
        _refuse(file, error)
    if kind is None:
        raise ReadError(
            Advice(
                f"{file}: column {field.name!r} is of type {other.type}, which no type has in "
                f"common with {field.type}, as in files before. Make the files agree, or ",
                typed(f"`column_types={{{field.name!r}: 'string'}}`"),
                ".",
            )
        )
    return kind


def _batches(
    parts: Iterable[FilePart], layout: Any, rows: int, unreadable: Unreadable
) -> Iterator[Any]:
    for file, groups, _ in parts:
        nulls = nulls_told(file)
        try:
            for batch in _format_of(file).batches(file, layout, rows, groups, unreadable.add):
                if not _is_csv(file):
                    check_batch(batch)
                yield from _without(nulls, _conform(batch, layout, file)).to_batches()
        except unread() as error:
            _refuse(file, error)


def check_batch(batch: Any) -> None:
    """Raise ``pyarrow.ArrowInvalid`` if a column points to places outside of it, or is no Unicode.

    Readers of Arrow believe what a file says of itself, and of Parquet what it calls text.
    """
    import pyarrow as pa

    try:
        columns = batch.columns
    except KeyError:
        named = ", ".join(f"{field.name!r} of {field.type}" for field in batch.schema)
        raise pa.ArrowInvalid(f"pyarrow knows no values of a type among {named}") from None
    for column in columns:
        plain = pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)
        column.validate(full=not plain)


def unread() -> tuple[type[Exception], ...]:
    """Return the exceptions of readers: those of the system, and pyarrow's own."""
    import pyarrow as pa

    return (OSError, ValueError, MemoryError, pa.ArrowException)


def _conform(batch: Any, layout: Any, file: AnyFile) -> Any:
    """Select the columns of ``layout`` and cast them to its types.

    In CSV files whole numbers become fractions if some numbers are fractions.
    """
    import pyarrow as pa

    if batch.schema.equals(layout):
        return pa.Table.from_batches(batch.to_batches() if isinstance(batch, pa.Table) else [batch])
    columns, fields = [], []
    for field in layout:
        column = batch.column(batch.schema.get_field_index(field.name))
        if pa.types.is_integer(field.type) and pa.types.is_floating(column.type):
            field = field.with_type(column.type)
        if column.type != field.type:
            try:
                column = _cast(column, field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ReadError(
                    Advice(
                        f"{file}: column {field.name!r} is of type {column.type} and cannot be "
                        f"read as {field.type} ({error}). Make the files agree, or ",
                        typed(f"`column_types={{{field.name!r}: 'string'}}`"),
                        ".",
                    )
                ) from None
        columns.append(column)
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _without(nulls: NullValues, table: Any) -> Any:
    """Make gaps of the cells that were named as no values."""
    import pyarrow as pa
    from pyarrow import compute

    if not nulls:
        return table
    rows, columns = pa.array(np.arange(table.num_rows)), list(table.columns)
    for n, field in enumerate(table.schema):
        column = columns[n]
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        values = values_of(nulls.named(field.name), column.type)
        if len(values):
            gaps = compute.is_in(column, values)
            if compute.any(gaps).as_py():
                # Select rows with take: if_else is broken in old pyarrow for slices of text arrays.
                columns[n] = columns[n].take(compute.if_else(gaps, None, rows))
    return pa.Table.from_arrays(columns, schema=table.schema)


def _cast(column: Any, kind: Any) -> Any:
    """Cast a column; digits of numbers and of times that the type cannot hold are lost."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        column = column.cast(column.type.value_type)
    rounds = pa.types.is_floating(kind) and is_number_type(column.type)
    return column.cast(kind, safe=not (rounds or pa.types.is_temporal(kind)))


def _rechunk(batches: Iterator[Any], layout: Any, rows: int) -> Iterator[Any]:
    """Join and cut record batches to tables of exactly ``rows`` rows, without copying."""
    held: list[Any] = []
    n_held = 0
    for batch in batches:
        start = 0
        while n_held + batch.num_rows - start >= rows:
            stop = start + rows - n_held
            yield _table_of([*held, batch.slice(start, stop - start)], layout)
            held, n_held, start = [], 0, stop
        if start < batch.num_rows:
            held.append(batch.slice(start))
            n_held += batch.num_rows - start
    if n_held:
        yield _table_of(held, layout)


def _table_of(batches: list[Any], layout: Any) -> Any:
    """Join record batches, whose whole numbers may be fractions in some."""
    import pyarrow as pa

    for one in batches:
        if one.schema.equals(layout):
            continue
        pairs = zip(layout, one.schema, strict=True)
        layout = pa.schema(
            [found if pa.types.is_floating(found.type) else field for field, found in pairs]
        )
    if any(one.schema.types != layout.types for one in batches):
        tables = [pa.Table.from_batches([one]).cast(layout, safe=False) for one in batches]
        return pa.concat_tables(tables)
    return pa.Table.from_batches(batches, schema=layout)


def _refuse(file: AnyFile, error: Exception) -> NoReturn:
    """Raise what is known about a file that could not be read."""
    if isinstance(error, ReadError):
        raise ValueError(*error.args) from None
    if isinstance(error, PermissionError | FileNotFoundError):
        raise error
    if size_of(file) == 0:
        raise ValueError(
            f"{file} is empty (0 bytes): there is not even a header to read."
        ) from None
    if _is_csv(file):
        try:
            Csv.explain(file, error)
        except ReadError as known:
            raise ValueError(*known.args) from None
    raise ValueError(f"{file} could not be read, it may be damaged or cut off: {error}") from error


class _Format(Protocol):
    """What reading a kind of file takes; errors are pyarrow's own, and `_refuse` places them."""

    @staticmethod
    def schema(file: AnyFile) -> Any: ...

    @staticmethod
    def batches(
        file: AnyFile, layout: Any, rows: int, groups: tuple[int, ...] | None, unfit: Unfit
    ) -> Iterator[Any]: ...

    @staticmethod
    def count(file: AnyFile) -> int | None: ...

    @staticmethod
    def groups(file: AnyFile) -> list[int]: ...


class _Parquet:
    @staticmethod
    @contextmanager
    def _open(file: AnyFile, **options: Any) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with opened(file) as source, pq.ParquetFile(source, **options) as found:
            yield found

    @staticmethod
    def schema(file: AnyFile) -> Any:
        with _Parquet._open(file) as source:
            return source.schema_arrow

    @staticmethod
    def batches(
        file: AnyFile, layout: Any, rows: int, groups: tuple[int, ...] | None, unfit: Unfit
    ) -> Iterator[Any]:
        # Buffered, not pre-buffered: a file may be one row group larger than the memory.
        size = _REMOTE_BUFFER_BYTES if isinstance(file, RemoteFile) else _BUFFER_BYTES
        with _Parquet._open(file, buffer_size=size, pre_buffer=False) as source:
            some = {} if groups is None else {"row_groups": list(groups)}
            yield from source.iter_batches(rows, columns=layout.names, use_threads=False, **some)

    @staticmethod
    def count(file: AnyFile) -> int | None:
        with _Parquet._open(file) as source:
            return int(source.metadata.num_rows)

    @staticmethod
    def groups(file: AnyFile) -> list[int]:
        with _Parquet._open(file) as source:
            found = source.metadata
            return [int(found.row_group(n).num_rows) for n in range(found.num_row_groups)]


class _Ipc:
    @staticmethod
    def _open(file: AnyFile, fields: Sequence[int] = ()) -> Any:
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(fields))

        def source() -> Any:
            return file.source() if isinstance(file, MemoryFile) else pa.memory_map(str(file))

        try:
            return pa.ipc.open_file(source(), options=options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source(), options=options)

    @staticmethod
    def schema(file: AnyFile) -> Any:
        with _Ipc._open(file) as source:
            return source.schema

    @staticmethod
    def batches(
        file: AnyFile, layout: Any, rows: int, groups: tuple[int, ...] | None, unfit: Unfit
    ) -> Iterator[Any]:
        with _Ipc._open(file) as source:
            if hasattr(source, "num_record_batches"):
                for index in range(source.num_record_batches):
                    yield source.get_batch(index)
            else:
                yield from source

    @staticmethod
    def count(file: AnyFile) -> int | None:
        # One column is enough; the others need not be decompressed.
        with _Ipc._open(file, fields=[0]) as source:
            if not hasattr(source, "num_record_batches"):
                return None
            batches = (source.get_batch(index) for index in range(source.num_record_batches))
            return sum(int(batch.num_rows) for batch in batches)

    @staticmethod
    def groups(file: AnyFile) -> list[int]:
        return []


_FORMATS: dict[str, type[_Format]] = {
    ".parquet": _Parquet,
    ".pq": _Parquet,
    **dict.fromkeys((".csv", ".csv.gz", ".csv.bz2", ".tsv", ".tsv.gz", ".tsv.bz2"), Csv),
    ".arrow": _Ipc,
    ".feather": _Ipc,
    ".ipc": _Ipc,
}

# Endings that other texts have as well: in a folder such files are ignored.
_MAYBE = (".txt", ".data", ".dat")
_ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "Save the sheet as CSV."),
    **dict.fromkeys(
        (".jsonl", ".ndjson"), "Learn it with `mercer stream`, or write it as Parquet or CSV."
    ),
    ".json": "Write it as Parquet or CSV.",
    **dict.fromkeys((".zip", ".7z", ".tar", ".xz", ".zst"), "Unpack it."),
}


def _ending_of(file: AnyFile) -> str | None:
    """Return the supported ending of a file's name, or None."""
    name = file.name.lower()
    return next((ending for ending in _FORMATS if name.endswith(ending)), None)


def _format_of(file: AnyFile) -> type[_Format]:
    """Return the format that a file's name ends in.

    Raises
    ------
    ValueError
        If the ending is not supported.
    """
    ending, last = _ending_of(file), file.suffix.lower()
    if ending is not None:
        return _FORMATS[ending]
    if last in _MAYBE:
        return Csv
    what = f"the ending {file.suffix!r} is not supported" if last else "the name has no ending"
    raise ValueError(
        f"{file}: {what}. Supported are {', '.join((*_FORMATS, *_MAYBE))}. "
        f"{_ADVICE.get(last, 'If it is one of these, rename it.')}"
    )
