"""Sources of rows that arrive: pipes, files that grow, folders that fill, local sockets.

Each row comes with its place, for messages, and each source knows its position after the last row
that it gave: continuing from there neither skips nor repeats a row.

The thread that asks for rows reads them, a chunk at a time. If it takes long over a row, the source
waits, and so does the program that writes to it: nothing is buffered here.
"""

from __future__ import annotations

import csv
import hashlib
import io
import ipaddress
import json
import os
import re
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mercer.validation import check_integer
from mercer_app.files.dialect import CsvDialect, reader
from mercer_app.files.tables import check_batch, read_tables, require_pyarrow

_LONGEST_LINE = 2**24
_BOM = b"\xef\xbb\xbf"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")


class Record(NamedTuple):
    """A row as it came.

    Attributes
    ----------
    values : dict of str to object
        By column.
    place : str
        Where it stands, for messages.
    is_text : bool
        Whether all values are text, as in CSV, so that the caller must interpret them.
    error : str
        Why the line is not a row, if it is not.
    """

    values: dict[str, Any]
    place: str
    is_text: bool = False
    error: str = ""


class Lines:
    r"""Turn bytes into rows, and count what was used up.

    A line is a row: quoted cells may hold commas, but no line ends. The first line decides: if it
    begins with ``{``, every line is a JSON object; otherwise it holds the names of CSV columns. The
    delimiter is the tab, semicolon, bar or comma that gives most names, otherwise runs of blanks. A
    row with another number of cells may have blanks or backslashes before quotes, or blanks next to
    tabs. Between semicolons, numbers may have decimal commas. If the first line is not UTF-8, the
    text is read as Windows-1252, which includes Latin-1.

    Parameters
    ----------
    name : str
        Name of the source, for messages.
    dialect : CsvDialect, default=None
        Known delimiter, decimal mark, encoding and quotes.

    Raises
    ------
    ValueError
        If lines of the encoding do not end in the byte that they end with in ASCII.

    Attributes
    ----------
    byte, line : int
        Bytes and lines up to the end of the row that came last.

    Examples
    --------
    >>> lines = Lines("towns.csv")
    >>> rows = lines.records([b"town,height\nBern,5", b"40\nBonn,6"], to_the_end=lambda: False)
    >>> for row in rows:
    ...     print(row.place, row.values)
    line 2 of towns.csv {'town': 'Bern', 'height': '540'}
    >>> lines.byte  # the last line may not be whole
    21
    """

    def __init__(self, name: str, dialect: CsvDialect | None = None) -> None:
        self._name = name
        self._told = dialect or CsvDialect()
        encoding = self._told.encoding
        if encoding is not None and "\n".encode(encoding) != b"\n":
            raise ValueError(
                f"`encoding` {encoding!r} is not read line by line. Convert the rows to UTF-8, as "
                f"`iconv -f {encoding} -t utf-8` does."
            )
        self._dialect = self._told.or_else(CsvDialect(delimiter=",", decimal=".", quote='"'))
        self.byte = self.line = 0
        self._known = False
        self._columns: list[str] | None = None  # of CSV

    def records(
        self, chunks: Iterator[bytes] | list[bytes], *, to_the_end: Callable[[], bool]
    ) -> Iterator[Record]:
        """Turn chunks of bytes into rows.

        Parameters
        ----------
        chunks : iterator of bytes
            Cut anywhere.
        to_the_end : callable
            Asked after the last chunk: whether a last line without an end is a row.

        Raises
        ------
        ValueError
            If the first line cannot be used, or a line has no end.
        """
        rest = b""
        for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            for text in whole:
                yield from self._record(text, 1)
            if len(rest) > _LONGEST_LINE:
                raise ValueError(
                    f"Line {self.line + 1:,} of {self._name} has no end within {_LONGEST_LINE:,} "
                    "bytes. Rows are lines: JSON objects or CSV."
                )
        if rest and to_the_end():
            yield from self._record(rest, 0)

    def read_header(self, file: BinaryIO) -> None:
        """Look at the first line of a file, which was opened, if it was read before."""
        for text in iter(partial(file.readline, _LONGEST_LINE), b""):
            if file.tell() > self.byte:
                return  # it came later, and is yet to be read
            self._look(text)
            if self._known:
                return

    def _record(self, text: bytes, end: int) -> Iterator[Record]:
        self.byte += len(text) + end
        self.line += 1
        if not text.strip():
            return
        if not self._known:
            self._look(text)
            if self._columns is not None or not self._known:
                return
        place, encoding = f"line {self.line:,} of {self._name}", self._dialect.encoding or "utf-8"
        try:
            values = self._values(text.removeprefix(_BOM).decode(encoding))
        except UnicodeDecodeError:
            said = f"it is no {encoding.upper()} text; `encoding` tells another one"
            yield Record({}, place, error=said)
        except (ValueError, RecursionError) as error:
            yield Record({}, place, error=str(error))
        else:
            yield Record(values, place, is_text=self._columns is not None)

    def _values(self, text: str) -> dict[str, Any]:
        if self._columns is None:
            try:
                values = json.loads(text)
            except json.JSONDecodeError as error:
                raise ValueError(f"it is no JSON ({error.msg}, column {error.colno})") from None
            if not isinstance(values, dict):
                raise ValueError("it is JSON, but no object with columns and values")
            return values
        cells = self._fitting(text, len(self._columns))
        if len(cells) != len(self._columns):
            raise ValueError(
                f"it has {len(cells)} cell{'s' * (len(cells) != 1)}, but there are "
                f"{len(self._columns)} columns"
            )
        if self._dialect.decimal == ",":
            cells = [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c) else c for c in cells]
        return dict(zip(self._columns, cells, strict=True))

    def _fitting(self, text: str, width: int) -> list[str]:
        """Return the cells of a row; a way of writing that no row had is taken if only it fits."""
        told, known = self._told, self._dialect
        ways = [known]
        if told.blanks is None and known.quote and f" {known.quote}" in text:
            ways = [replace(known, blanks=True), known]
        if told.escape is None and "\\" in text:
            ways += [replace(way, escape="\\") for way in ways]
        if told.delimiter is None and known.delimiter == "\t":
            ways.append(replace(known, delimiter="whitespace"))
        for way in ways:
            with suppress(ValueError):
                cells = self._cells(text, way)
                if len(cells) == width:
                    return cells
        return self._cells(text, known)

    def _cells(self, text: str, dialect: CsvDialect) -> list[str]:
        cells: list[str]
        try:
            (cells,) = reader([text], dialect, strict=True)
        except csv.Error as error:
            raise ValueError(
                f"it is no CSV ({error}); quoted cells must end in their line"
            ) from None
        return cells

    def _look(self, text: bytes) -> None:
        """Find out from the first line how rows are written."""
        text = text.removeprefix(_BOM).rstrip(b"\r\n")
        if not text.strip():
            return
        told, usual = self._told, self._dialect
        excel = re.fullmatch(rb"sep=(.)\s*", text, re.IGNORECASE)
        if excel:  # a line of Excel's that names the delimiter
            self._told = told.or_else(CsvDialect(delimiter=excel[1].decode("latin-1")))
            return
        self._known = True
        if text.lstrip().startswith(b"{"):
            return
        place = f"Line {max(self.line, 1):,} of {self._name}"
        try:
            encoding = told.encoding or _encoding_of(text)
            names = text.decode(encoding)
            delimiter = told.delimiter or _delimiter_of(names, told)
            decimal = "," if delimiter == ";" else "."
            found = CsvDialect(delimiter=delimiter, decimal=decimal, encoding=encoding)
            self._dialect = told.or_else(found).or_else(usual)
            columns = [name.strip() for name in self._cells(names, self._dialect)]
        except (ValueError, csv.Error) as error:
            raise ValueError(
                f"{place} should name columns, but cannot be read: {error}. Rows are JSON objects, "
                "one a line, or CSV after a line of names."
            ) from None
        if names.lstrip().startswith("[") or "" in columns or len(set(columns)) < len(columns):
            raise ValueError(
                f"{place} should be a JSON object, or name the columns of CSV, each by another "
                f"name, got {names[:80]!r}."
            )
        self._columns = columns


def _encoding_of(text: bytes) -> str:
    """Tell UTF-8 from Windows-1252.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is UTF-16, which is not read line by line; convert it to UTF-8")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter_of(names: str, told: CsvDialect) -> str:
    """Return the delimiter that makes most names; a comma may be part of names, if others do."""

    def width(delimiter: str) -> int:
        (cells,) = reader([names], told.or_else(CsvDialect(delimiter=delimiter)))
        return len(cells)

    best = max(("\t", ";", "|", ","), key=width)
    if width(best) > 1:
        return best
    return "whitespace" if len(names.split()) > 1 else ","


#: Called before every wait for more rows; True gives up waiting.
Pause = Callable[[], bool]

_CHUNK = 2**16  # bytes read at once, the capacity of a pipe
_POLL = 0.2  # seconds between two checks for new data
_SETTLED = 1.0  # seconds without a change after which a file counts as complete
_HEAD = 1024  # first bytes, which identify a file
_CONNECTING = 10.0  # seconds that a producer may take to open its socket

_TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_TEXTS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt", ".log")


class Source(ABC):
    """Rows in the order in which they arrive.

    Attributes
    ----------
    name : str
        For messages.
    rewinds : bool
        Whether it can be read again from a position. If not, whoever sends must send again.
    """

    name: str
    rewinds = True

    @abstractmethod
    def records(self, pause: Pause) -> Generator[Record]:
        """Yield the rows from the position on, until the end or until ``pause`` returns true.

        Parameters
        ----------
        pause : callable
            Called before each wait; returns whether to stop.

        Raises
        ------
        ValueError, OSError
            For what no later row can mend. A row that is wrong alone has an ``error`` instead.
        """

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """Return where the source is after the row that came last, as plain data."""

    @abstractmethod
    def go_to(self, position: dict[str, Any]) -> None:
        """Go on from a position of an earlier run.

        Raises
        ------
        ValueError
            If the data read so far has disappeared or changed.
        """


def open_source(
    address: str,
    *,
    follow: bool = False,
    skip: int | None = None,
    dialect: CsvDialect | None = None,
) -> Source:
    """Find out what kind of source an address means.

    Parameters
    ----------
    address : str
        ``-`` for standard input, ``unix:PATH`` or ``tcp:HOST:PORT`` for Arrow IPC over a local
        socket, else a file or a folder.
    follow : bool, default=False
        For a file or folder: wait for more at its end.
    skip : int or None, default=None
        For sources that cannot be read again: number of rows at the beginning to skip. None: as
        many as were read before, for producers that send from the beginning each time.
    dialect : CsvDialect or None, default=None
        Known delimiter, decimal mark and encoding of text.

    Raises
    ------
    ValueError
        If an option does not apply to the source, or the address cannot be used.
    FileNotFoundError
        If the file or folder does not exist.

    Examples
    --------
    >>> open_source("-").name
    'standard input'
    """
    source: Source
    if address == "-":
        source = Pipe("-", skip=skip, dialect=dialect)
    elif address.startswith(("unix:", "tcp:")):
        source = ArrowSocket(address, skip=skip)
    else:
        path = Path(address)
        if not path.exists():
            raise FileNotFoundError(f"There is no file or folder {address}.")
        if path.is_dir():
            source = ArrivingFiles(path, follow=follow, dialect=dialect)
        elif not path.is_file():
            source = Pipe(address, skip=skip, dialect=dialect)
        elif path.name.lower().endswith(_TABLES):
            source = TableFile(path)
        else:
            source = GrowingFile(path, follow=follow, dialect=dialect)
    if follow and not isinstance(source, GrowingFile | ArrivingFiles):
        raise ValueError(
            f"`follow` is for a text file that grows or a folder, but {source.name} ends by itself."
        )
    if skip is not None and source.rewinds:
        raise ValueError(
            f"`skip` is for what cannot be read again, but {source.name} can: a run that goes on "
            "finds its place there."
        )
    return source


# -- what cannot be read again -----------------------------------------------------------------


class _Once(Source):
    """A source that is gone once read: its position is a number of rows."""

    rewinds = False

    def __init__(self, skip: int | None) -> None:
        self._skip = None if skip is None else check_integer("skip", skip, low=0)
        self._n_before = 0 if self._skip is None else self._skip
        self._n_read = 0
        self._n_skipped = self._n_before

    def position(self) -> dict[str, Any]:
        return {"rows": self._n_before + self._n_read}

    def go_to(self, position: dict[str, Any]) -> None:
        self._n_before = check_integer("rows", position["rows"], low=0)
        self._n_skipped = self._n_before if self._skip is None else self._skip

    def _after_skipping(self, records: Iterator[Record]) -> Iterator[Record]:
        """Drop the rows that are known already."""
        left = self._n_skipped
        for record in records:
            if left:
                left -= 1
                continue
            self._n_read += 1
            yield record
        if left and not self._gave_up:
            raise ValueError(
                f"{self.name} ended after {self._n_skipped - left:,} rows, but the first "
                f"{self._n_skipped:,} were to be skipped, as they are known already. Send them "
                "again, or set `skip` to 0 if what comes now follows them."
            )

    _gave_up = False


class Pipe(_Once):
    """JSON lines or CSV from standard input, or another pipe.

    Parameters
    ----------
    address : str, default="-"
        ``-`` for standard input, else a named pipe.
    skip, dialect : default=None
        See :func:`open_source`.
    """

    def __init__(
        self, address: str = "-", *, skip: int | None = None, dialect: CsvDialect | None = None
    ) -> None:
        super().__init__(skip)
        self._address, self._dialect = address, dialect
        self.name = "standard input" if address == "-" else address

    def records(self, pause: Pause) -> Generator[Record]:
        descriptor = os.dup(0) if self._address == "-" else os.open(self._address, os.O_RDONLY)
        try:
            lines = Lines(self.name, self._dialect)
            chunks = self._chunks(descriptor, pause)
            yield from self._after_skipping(
                lines.records(chunks, to_the_end=lambda: not self._gave_up)
            )
        finally:
            os.close(descriptor)

    def _chunks(self, descriptor: int, pause: Pause) -> Iterator[bytes]:
        while _readable(descriptor, pause):
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return
            yield chunk
        self._gave_up = True


def _rows_of(table: Any, name: str, first: int) -> Iterator[Record]:
    """Yield the rows of a table; an error in place of those with values that Python has not."""

    def rows(part: Any) -> Any:
        try:
            return part.to_pylist()
        except (OverflowError, ValueError, NotImplementedError) as error:
            if part.num_rows > 1:  # which of them?
                return (row for n in range(part.num_rows) for row in rows(part.slice(n, 1)))
            return [f"it holds a value that Python has not ({error})"]

    for number, row in enumerate(rows(table), first):
        place = f"row {number:,} of {name} (the first is row 0)"
        if isinstance(row, str):
            yield Record({}, place, error=row)
        else:
            yield Record(row, place)


class _GaveUp(Exception):  # noqa: N818  # no error
    """Waiting was given up inside code that has no return value for it."""


class ArrowSocket(_Once):
    """An Arrow IPC stream from a program on this machine that listens on a socket.

    Parameters
    ----------
    address : str
        ``unix:PATH`` of a Unix domain socket, or ``tcp:HOST:PORT`` with a host of this machine.
    skip : int or None, default=None
        See :func:`open_source`.

    Raises
    ------
    ValueError
        If the address is not of this form, or not of this machine.
    """

    def __init__(self, address: str, *, skip: int | None = None) -> None:
        super().__init__(skip)
        require_pyarrow()
        self.name = address
        kind, _, rest = address.partition(":")
        self._family: int = socket.AF_UNIX
        self._where: Any = rest
        if kind == "unix":
            if not rest:
                raise ValueError("`unix:` needs the path of a socket, such as unix:rows.sock.")
            return
        host, _, port = rest.rpartition(":")
        host = host.strip("[]")
        if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 2**16 or not host:
            raise ValueError(
                f"{address!r} is no address of a socket. Write tcp:HOST:PORT, such as "
                "tcp:localhost:5005, or unix:PATH."
            )
        if host != "localhost" and not _is_loopback(host):
            raise ValueError(
                f"{address!r} may be another machine: rows come unencrypted and from anyone there. "
                "Use localhost or 127.0.0.1, with a tunnel if they come from elsewhere."
            )
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._where = (host, int(port))

    def records(self, pause: Pause) -> Generator[Record]:
        connection = self._connect(pause)
        if connection is None:
            return
        with connection:
            yield from self._after_skipping(self._rows(connection, pause))

    def _rows(self, connection: socket.socket, pause: Pause) -> Iterator[Record]:
        arrow, number = require_pyarrow(), 0
        file = io.BufferedReader(_Waiting(connection, pause), _CHUNK)
        try:
            with arrow.ipc.open_stream(arrow.PythonFile(file, mode="r")) as stream:
                for batch in stream:
                    check_batch(batch)
                    for record in _rows_of(batch, self.name, number):
                        yield record
                        number += 1
        except _GaveUp:
            self._gave_up = True
        except (arrow.ArrowException, OSError, MemoryError) as error:
            raise ValueError(
                f"{self.name} sent no Arrow IPC stream, or broke off in it after {number:,} rows: "
                f"{str(error) or 'what it announced does not fit into memory'}"
            ) from error

    def _connect(self, pause: Pause) -> socket.socket | None:
        """Connect, once somebody listens; None if waiting was given up."""
        until = time.monotonic() + _CONNECTING
        while True:
            connection = socket.socket(self._family, socket.SOCK_STREAM)
            try:
                connection.connect(self._where)
                return connection
            except (ConnectionRefusedError, FileNotFoundError) as error:
                connection.close()
                if time.monotonic() > until:
                    raise ConnectionError(
                        f"Nobody listens on {self.name} ({error.strerror}). Start the program that "
                        "sends the rows first; it must listen there."
                    ) from None
            if pause():
                return None
            time.sleep(_POLL)


def _is_loopback(host: str) -> bool:
    """Whether it is an address of this machine; a name may begin like one and be of another."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Waiting(io.RawIOBase):
    """A connection as a file, whose reads can be given up."""

    def __init__(self, connection: socket.socket, pause: Pause) -> None:
        self._connection, self._pause = connection, pause

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not _readable(self._connection.fileno(), self._pause):
            raise _GaveUp
        return self._connection.recv_into(buffer)


def _readable(descriptor: int, pause: Pause) -> bool:
    """Wait until there is something to read; False if that was given up."""
    wait = 0.0
    while not select.select([descriptor], [], [], wait)[0]:
        if pause():
            return False
        wait = _POLL
    return True


# -- files ---------------------------------------------------------------------------------------


class _TextPart:
    """Rows of a text file, and how far they were read."""

    def __init__(self, path: Path, name: str, dialect: CsvDialect | None = None) -> None:
        self.path, self._name = path, name
        self._lines = Lines(name, dialect)
        self._file: BinaryIO | None = None

    def records(self, pause: Pause, *, follow: bool = False) -> Iterator[Record]:
        with open(self.path, "rb") as self._file:
            self._lines.read_header(self._file)
            self._file.seek(self._lines.byte)
            chunks = self._chunks(self._file, pause, follow)
            yield from self._lines.records(chunks, to_the_end=lambda: not follow)

    def _chunks(self, file: BinaryIO, pause: Pause, follow: bool) -> Iterator[bytes]:
        while True:
            if chunk := file.read(_CHUNK):
                yield chunk
            elif not follow or pause():
                return
            else:
                self._check_still_there(file)
                time.sleep(_POLL)

    def _check_still_there(self, file: BinaryIO) -> None:
        read, now = os.fstat(file.fileno()), None
        with suppress(FileNotFoundError):
            now = self.path.stat()
        if now is None or (now.st_dev, now.st_ino) != (read.st_dev, read.st_ino):
            raise ValueError(
                f"{self.path} was removed or replaced by another file while it was followed. For "
                "logs that rotate, follow the folder of the files that are finished."
            )
        if read.st_size < file.tell():
            raise ValueError(
                f"{self.path} was cut to {read.st_size:,} bytes, but {file.tell():,} had been "
                "read. Only append to a file that is followed."
            )

    def position(self) -> dict[str, Any]:
        return {
            "byte": self._lines.byte,
            "line": self._lines.line,
            "head": self._head(self._lines.byte),
        }

    def go_to(self, position: dict[str, Any]) -> None:
        byte = check_integer("byte", position["byte"], low=0)
        size = self.path.stat().st_size
        if size < byte or self._head(byte) != position["head"]:
            what = f"has {size:,} bytes" if size < byte else "begins otherwise"
            raise ValueError(
                f"{self.path} is not the file that was read before: {byte:,} bytes of it were, but "
                f"now it {what}. Restore it, or start afresh without the checkpoint."
            )
        self._lines.byte, self._lines.line = byte, int(position["line"])

    def _head(self, byte: int) -> str:
        """Digest of the first bytes, of those that were read."""
        if self._file is None or self._file.closed:
            with open(self.path, "rb") as file:
                head = file.read(min(byte, _HEAD))
        else:  # the name may lead elsewhere by now
            place = self._file.tell()
            self._file.seek(0)
            head = self._file.read(min(byte, _HEAD))
            self._file.seek(place)
        return hashlib.sha256(head).hexdigest()[:16]


class _TablePart:
    """Rows of a Parquet or Arrow file, and how far they were read."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self._name = path, name
        self._row = 0

    def records(self, pause: Pause) -> Iterator[Record]:
        start = 0
        for table in read_tables(self.path, rows_per_table=1024):
            if start + table.num_rows > self._row:
                more = table.slice(self._row - start)
                for record in _rows_of(more, self._name, self._row):
                    self._row += 1
                    yield record
            start += table.num_rows

    def position(self) -> dict[str, Any]:
        return {"row": self._row, "size": self.path.stat().st_size}

    def go_to(self, position: dict[str, Any]) -> None:
        if self.path.stat().st_size != position["size"]:
            raise ValueError(
                f"{self.path} is not the file that was read before: it had {position['size']:,} "
                "bytes. Restore it, or start afresh without the checkpoint."
            )
        self._row = check_integer("row", position["row"], low=0)


class GrowingFile(Source):
    """A text file, JSON lines or CSV, to which rows are appended.

    Parameters
    ----------
    path : path-like
        The file.
    follow : bool, default=False
        At the end, wait for more; a line counts once its end is there. Otherwise the file ends
        where it ends, and a last line without an end counts, too.
    dialect : CsvDialect or None, default=None
        See :func:`open_source`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        follow: bool = False,
        dialect: CsvDialect | None = None,
    ) -> None:
        self.name, self._follow = os.fspath(path), follow
        self._part = _TextPart(Path(path), Path(path).name, dialect)

    def records(self, pause: Pause) -> Generator[Record]:
        yield from self._part.records(pause, follow=self._follow)

    def position(self) -> dict[str, Any]:
        return self._part.position()

    def go_to(self, position: dict[str, Any]) -> None:
        self._part.go_to(position)


class TableFile(Source):
    """A Parquet or Arrow file, row by row.

    Parameters
    ----------
    path : path-like
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._part = _TablePart(Path(path), Path(path).name)

    def records(self, pause: Pause) -> Generator[Record]:
        yield from self._part.records(pause)

    def position(self) -> dict[str, Any]:
        return self._part.position()

    def go_to(self, position: dict[str, Any]) -> None:
        self._part.go_to(position)


class ArrivingFiles(Source):
    """A folder into which files come; each is read once, whole.

    The next file is the first by name of those present, once it has not changed for a second.
    Ignored are names that begin with "." or "_", endings other than those of CSV, JSON lines,
    Parquet and Arrow, as unfinished files have (.tmp, .part, ...), and empty files.

    Parameters
    ----------
    folder : path-like
        The folder.
    follow : bool, default=False
        After the last file, wait for more.
    settled : float, default=1.0
        Seconds without a change after which a file counts as whole.
    dialect : CsvDialect or None, default=None
        See :func:`open_source`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        follow: bool = False,
        settled: float = _SETTLED,
        dialect: CsvDialect | None = None,
    ) -> None:
        self.name, self._folder, self._follow = os.fspath(folder), Path(folder), follow
        self._settled, self._dialect = settled, dialect
        self._done: dict[str, int] = {}  # sizes of files that were read, of those still there
        self._part: _TextPart | _TablePart | None = None
        self._seen: tuple[str, int, int, float] | None = None

    def records(self, pause: Pause) -> Generator[Record]:
        while True:
            if self._part is None:
                path = self._next(pause)
                if path is None:
                    return
                self._part = _part_of(path, self._dialect)
            path = self._part.path
            before = path.stat()
            yield from self._part.records(pause)
            after = path.stat()
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                self._refuse_change(path)
            self._done[path.name] = after.st_size
            self._part = None

    def _next(self, pause: Pause) -> Path | None:
        """Return the next file, once it is whole; None at the end."""
        while True:
            began = time.monotonic()
            entry = self._first()
            if entry is not None and self._is_whole(entry):
                return self._folder / entry.name
            if (entry is None and not self._follow) or pause():
                return None
            # A folder of very many files is not listed all the time.
            time.sleep(max(_POLL, 10.0 * (time.monotonic() - began)))

    def _first(self) -> os.DirEntry[str] | None:
        """Find the first file by name that was not read."""
        first, there = None, {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name in self._done:
                    there[entry.name] = self._done[entry.name]
                    if entry.stat().st_size != there[entry.name]:
                        self._refuse_change(self._folder / entry.name)
                elif (
                    (first is None or entry.name < first.name)
                    and _is_finished(entry.name)
                    and entry.is_file()
                    and entry.stat().st_size
                ):
                    first = entry
        self._done = there
        return first

    def _is_whole(self, entry: os.DirEntry[str]) -> bool:
        """Whether a file has stayed as it is for a while."""
        found, now = os.stat(self._folder / entry.name), time.monotonic()
        if 2.0 * self._settled < time.time() - found.st_mtime:
            return True
        seen = (entry.name, found.st_size, found.st_mtime_ns)
        if self._seen is None or self._seen[:3] != seen:
            self._seen = (*seen, now)
        return now - self._seen[3] >= self._settled

    def _refuse_change(self, path: Path) -> None:
        raise ValueError(
            f"{path} changed after it was read as a whole. Write files under a name that ends in "
            ".tmp, or elsewhere, and rename them into the folder once they are finished."
        )

    def position(self) -> dict[str, Any]:
        part = None
        if self._part is not None:
            part = {"file": self._part.path.name, **self._part.position()}
        return {"done": [list(pair) for pair in sorted(self._done.items())], "part": part}

    def go_to(self, position: dict[str, Any]) -> None:
        self._done = {str(name): int(size) for name, size in position["done"]}
        part = position["part"]
        self._part = None
        if part is not None:
            path = self._folder / part["file"]
            if not path.is_file():
                raise ValueError(
                    f"{path} is gone, of which a part was read before. Restore it, or start afresh "
                    "without the checkpoint."
                )
            self._part = _part_of(path, self._dialect)
            self._part.go_to(part)


def _part_of(path: Path, dialect: CsvDialect | None) -> _TextPart | _TablePart:
    if path.name.lower().endswith(_TABLES):
        return _TablePart(path, path.name)
    return _TextPart(path, path.name, dialect)


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "_")) and name.lower().endswith(_TABLES + _TEXTS)
