"""Rows of text as they arrive: JSON lines, or CSV after a line of names."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from mercer_app.files.dialect import CsvDialect, reader

_LONGEST_LINE = 2**24
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
        """Look at the first line of a file, from which later rows are to be read."""
        file.seek(0)
        while not self._known:
            text = b""
            while not text.endswith(b"\n") and len(text) <= _LONGEST_LINE:
                piece = file.readline(2**16)
                if not piece:
                    break
                text += piece
            if not text:
                return
            self._look(text.rstrip(b"\r\n"))

    def _record(self, text: bytes, end: int) -> Iterator[Record]:
        self.byte += len(text) + end
        self.line += 1
        text = text.rstrip(b"\r")
        if not text.strip():
            return
        if not self._known:
            self._look(text)
            if self._columns is not None or not self._known:
                return
        if self.line == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        place = f"line {self.line:,} of {self._name}"
        try:
            values = self._values(text.decode(self._dialect.encoding or "utf-8"))
        except UnicodeDecodeError:
            encoding = (self._dialect.encoding or "utf-8").upper()
            yield Record({}, place, error=f"it is no {encoding} text; `encoding` tells another one")
        except (ValueError, csv.Error, RecursionError) as error:
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
        text = text.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
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
        except ValueError as error:
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
        return max(map(len, reader([names], told.or_else(CsvDialect(delimiter=delimiter)))))

    best = max(("\t", ";", "|", ","), key=width)
    if width(best) > 1:
        return best
    return "whitespace" if told.widths is None and len(names.split()) > 1 else ","
