"""How a CSV file is written: given by the user, or detected from its beginning."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, chain, islice, pairwise, takewhile, tee
from pathlib import Path
from typing import Any, NamedTuple, Self

from mercer.columns.null_values import NullValues, ReadError
from mercer.columns.views import check_names
from mercer.exceptions import Advice, InPython, ParameterError

_CANDIDATES = (",", ";", "\t", "|")
_NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
_RUNS = "whitespace"  # runs of blanks and tabs are one delimiter
_MARKS = {"comma": ",", "point": "."}
_ESCAPES = {"backslash": "\\"}
_BOMS = (  # UTF-32 first, whose marks begin with those of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ENCODINGS = {"cp1252": "Latin-1 (Windows-1252)", "iso8859-1": "Latin-1"}
_MOST_LINES = 5000  # lines from which delimiter, decimal mark and header are detected
_TYPED_ROWS = 200  # rows whose cells decide between two delimiters
_TIE = 0.01  # weight that decides between equally good readings
#: Characters of a row, to which each line adds some more, as Python keeps them; an unclosed quote
#: makes longer rows.
LONGEST_ROW, OF_A_LINE = 2**24, 64
_FEWEST_LINES = 5  # lines whose common blanks separate columns of fixed widths
_ALIGNED = 0.9  # share of the rows with as many words as there are names

# Else Python's reader takes cells of up to 131,072 characters.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))

_SPECIAL = re.compile(r"[\t\"\r\n]")  # what must stand between quotes where tabs part cells

_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_DATE = re.compile(r"\s*\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\s*\d{1,2}:\d{2}")
_GROUPED = r"[+-]?\d{1,3}"
_COMMA = re.compile(rf"{_GROUPED}(\.\d{{3}})+,\d+|{_GROUPED}(\.\d{{3}}){{2,}}")
_POINT = re.compile(rf"{_GROUPED}(,\d{{3}})+\.\d+|{_GROUPED}(,\d{{3}}){{2,}}")
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # with decimals, or in thousands


@dataclass(frozen=True)
class CsvDialect:
    """How a CSV file is written; what is None is found out from the first megabyte of each file.

    Parameters
    ----------
    delimiter : str or None, default=None
        The character between cells, or its name: "comma", "semicolon", "tab", "pipe", "space"; or
        "whitespace": any run of blanks and tabs.
    decimal : {".", ","} or None, default=None
        The decimal mark, or its name: "point", "comma".
    encoding : str or None, default=None
        Such as "utf-8", "utf-16", "latin-1", "cp1250": any that Python knows.
    quote : str or None, default=None
        The character around cells that hold delimiters or line ends; "" if there is none.
    comment : str or None, default=None
        The character that starts lines which are not rows; "" if there is none.
    header : bool or None, default=None
        Whether the first line names the columns. Without a header they are named column_1,
        column_2, ...; None: it should, and values there are an error.
    escape : str or None, default=None
        The character, or its name "backslash", before one that then means itself, as before quotes
        inside quotes; "" if there is none.
    blanks : bool or None, default=None
        Whether blanks before cells are left out, so that quotes may come after them.
    widths : str or None, default=None
        For columns of fixed widths: the number of characters of each column, as "5,3,10", or their
        places, counted from 1, as "1-5,6-8,12-21". Delimiters are then ignored.
    null_values : str, number, sequence of these, mapping of columns to these, or None, default=None
        Further cells that mean a missing value, such as -999 or "n.v.", in all columns, or in some:
        ``{"age": -1}``; the column "" means all. An empty mark means that the usual marks are
        values and only empty cells are missing: "", or ``{"country": ""}``. The given cells are
        missing values in Parquet and Arrow files, too.

    Raises
    ------
    ParameterError
        If a parameter has another value.

    Examples
    --------
    >>> CsvDialect(delimiter="tab", decimal=",").describe()
    'columns separated by tabs, decimal comma'
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    comment: str | None = None
    header: bool | None = None
    escape: str | None = None
    blanks: bool | None = None
    widths: str | None = None
    null_values: Any = None

    def __post_init__(self) -> None:
        if self.null_values is not None:
            object.__setattr__(self, "null_values", NullValues.of(self.null_values))
        for name in ("delimiter", "decimal", "quote", "comment", "escape"):
            value = getattr(self, name)
            named = {"delimiter": _NAMED, "decimal": _MARKS, "escape": _ESCAPES}.get(name, {})
            value = named.get(value, value) if isinstance(value, str) else value
            object.__setattr__(self, name, value)
            absent = value == "" and name in ("quote", "comment", "escape")
            if not (value is None or absent or (name, value) == ("delimiter", _RUNS)):
                _check_character(name, value)
        if self.decimal not in (None, ".", ","):
            raise ParameterError(
                f"`decimal` must be '.' or ',', got {self.decimal!r}.", parameter="decimal"
            )
        others = (self.quote, self.comment, self.escape)
        if self.delimiter is not None and self.delimiter in others:
            raise ParameterError(
                f"`delimiter` is {self.delimiter!r}, and so is `quote`, `comment` or `escape`. "
                "They must differ.",
                parameter="delimiter",
            )
        for name in ("header", "blanks"):
            if getattr(self, name) not in (None, True, False):
                raise ParameterError(
                    f"`{name}` must be True, False or None, got {getattr(self, name)!r}.",
                    parameter=name,
                )
        if self.widths:
            _spans_of(self.widths)
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _checked_encoding(self.encoding))

    def describe(self, usual: str = ",") -> str:
        """Say in words how this differs from UTF-8 with commas and decimal points.

        Parameters
        ----------
        usual : str, default=","
            Delimiter used by default.

        Returns
        -------
        text : str
            Empty if it does not differ.
        """
        said = []
        if self.widths:
            said.append(f"columns of fixed widths, at {self.widths}")
        elif self.delimiter not in (None, usual):
            said.append(f"columns separated by {self.separator}")
        if self.decimal == ",":
            said.append("decimal comma")
        if self.encoding not in (None, "utf-8"):
            said.append(_ENCODINGS.get(self.encoding or "", str(self.encoding).upper()))
        if self.quote not in (None, '"') and not self.widths:
            said.append(f"quotes {self.quote}" if self.quote else "no quotes")
        if self.escape:
            said.append(f"{self.escape} escapes what follows")
        if self.comment:
            said.append(f"lines with {self.comment} left out")
        if self.header is False:
            said.append("no line of names")
        return ", ".join(said)

    @property
    def separator(self) -> str:
        """What separates the columns, in words."""
        names = {"\t": "tabs", " ": "blanks", _RUNS: "runs of blanks"}
        return names.get(self.delimiter or "", repr(self.delimiter))

    @property
    def rewritten(self) -> bool:
        """Whether lines must be rewritten, as only Python can read them: see :func:`rewritten`."""
        own = self.null_values is not None and self.null_values.by_cell
        return bool(self.widths or self.escape or self.blanks or self.delimiter == _RUNS or own)

    @property
    def plain(self) -> Self:
        """The dialect of rewritten lines."""
        if not self.rewritten:
            return self
        return replace(self, delimiter="\t", quote='"', escape="", blanks=False, widths="")

    def or_else(self, other: Self) -> Self:
        """Return a dialect that has of another what is None here."""
        here = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(other, **{name: value for name, value in here.items() if value is not None})


class CsvPath(str):
    """A path, a folder or a glob, and how the CSV files there are written.

    The path is a string, and is accepted wherever a path of data is.

    Parameters
    ----------
    path : path
        As for :func:`read_tables`.
    dialect : CsvDialect
        Known settings of the files; the others are detected for each file.

    Examples
    --------
    >>> from mercer_app.files import CsvDialect, CsvPath
    >>> path = CsvPath("towns.csv", CsvDialect(decimal=","))
    >>> path, path.dialect.decimal
    ('towns.csv', ',')
    """

    dialect: CsvDialect

    def __new__(cls, path: str | os.PathLike[str], dialect: CsvDialect) -> Self:
        self = super().__new__(cls, os.fspath(path))
        self.dialect = dialect
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.dialect)


@dataclass(frozen=True, order=True)
class ToldFile:
    """A file on a disk, and the known settings of its dialect.

    Attributes
    ----------
    path : Path
        The file.
    dialect : CsvDialect
        Known settings.
    """

    path: Path
    dialect: CsvDialect = field(compare=False)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The name after the last slash."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """Ending of the name."""
        return self.path.suffix

    def stat(self) -> os.stat_result:
        """Size and times."""
        return self.path.stat()


class Sniffed(NamedTuple):
    """What is known of a file before it is read.

    Attributes
    ----------
    dialect : CsvDialect
        Complete dialect, without None.
    header_line : int
        Line number of the names, counted from 1; without names, of the first row. Earlier lines are
        not read.
    names : tuple of str
        Names of the columns.
    as_written : bool
        Whether the names are the cells of the line.
    clean : bool
        Whether all lines can be read as they are, so that none must be left out or rewritten.
    late_comments : bool
        Whether lines that begin with # and have other cells than the rest may yet be comments.
    """

    dialect: CsvDialect
    header_line: int
    names: tuple[str, ...]
    as_written: bool
    clean: bool
    late_comments: bool


def advise(name: str, value: str = "...") -> InPython:
    """Piece of an :class:`Advice` that names the option for one setting of a dialect."""
    option = f"`--{name}`" if value == "..." else f"`--{name} {value}`"
    if name == "header":
        option = "`--header`" if value == "True" else "`--no-header`"
    shown = value if name == "header" or value == "..." else repr(value)
    return InPython(f"`dialect=CsvDialect({name}={shown})`", (option,))


def check_names_of_file(
    wanted: Sequence[str], found: Sequence[str], where: str, *, taken: Iterable[str] = ()
) -> None:
    """Raise ``ValueError`` for wanted columns that a file lacks, as ``check_names`` does.

    One that seems to have one column may have several.
    """
    try:
        check_names(wanted, found, where, taken=taken)
    except ValueError as error:
        if len(found) > 1:
            raise
        raise ValueError(
            Advice(
                f"{error} If lines of a file hold more columns than this one, say what separates "
                "them with ",
                advise("delimiter"),
                ", or where columns of fixed widths lie with ",
                advise("widths"),
                ".",
            )
        ) from None


def sniff(
    beginning: bytes,
    *,
    whole: bool = True,
    told: CsvDialect | None = None,
    usual: str = ",",
    place: str = "The text",
) -> Sniffed:
    r"""Find out how a CSV file is written.

    Parameters
    ----------
    beginning : bytes
        About the first megabyte of the file.
    whole : bool, default=True
        Whether that is all; if not, the last line may be cut off.
    told : CsvDialect or None, default=None
        What is known.
    usual : str, default=","
        Delimiter to use if there is no evidence for another.
    place : str, default="The text"
        What to call it in messages.

    Raises
    ------
    ReadError
        If it is not text, or the first line holds values instead of names.

    Examples
    --------
    >>> sniff(b"town;height\nBern;540,5\nBonn;60,25\n").dialect.describe()
    "columns separated by ';', decimal comma"
    """
    told = told or CsvDialect()
    encoding = told.encoding or _find_encoding(beginning, whole, place)
    text = _decoded(beginning, encoding, whole, place)
    lines = list(islice(io.StringIO(text, newline=""), _MOST_LINES))
    cut = not whole or len(lines) == _MOST_LINES
    if cut and len(lines) > 1:
        lines.pop()
    excel = re.fullmatch(r"sep=(.)\s*", lines[0], re.IGNORECASE) if lines else None
    if excel:
        told = told.or_else(CsvDialect(delimiter=excel[1]))
    comment = "#" if told.comment is None else told.comment
    looked_at = _Beginning(lines, int(bool(excel)), comment, cut)
    _refuse_other_texts(text, looked_at, told, place)
    found = looked_at.cells(replace(told, encoding=encoding), usual)
    sniffed = _with_lines(found, told, looked_at, place)
    if whole and found.quote and found.quote in text:
        refuse_unclosed(blanked(io.StringIO(text, newline=""), sniffed), sniffed, place)
    return sniffed


class _Beginning(NamedTuple):
    """Lines from which is found out how they are written.

    Attributes
    ----------
    lines : list of str
        Lines with their ends.
    first : int
        Number of the first line that may be a row.
    comment : str
        What lines that are not rows may begin with.
    cut : bool
        Whether the last row may not be whole.
    """

    lines: list[str]
    first: int
    comment: str
    cut: bool

    def marked(self, dialect: CsvDialect) -> list[int]:
        """Numbers of the lines that begin like comments and not inside a quoted cell."""
        begin = [n for n, line in enumerate(self.lines) if line.startswith(self.comment or "\n#")]
        if not begin:
            return []
        inside = list(inside_quotes(self.lines[self.first :], dialect, self.comment))
        return [n for n in begin if n >= self.first and not inside[n - self.first]]

    def rows(self, dialect: CsvDialect) -> list[list[str]]:
        """Return the rows that are not comments; if all look like comments, all of them."""
        marked = set(self.marked(dialect))
        some = (self.lines[n] for n in range(self.first, len(self.lines)) if n not in marked)
        rows = list(_rows_of(some, dialect)) or list(_rows_of(self.lines[self.first :], dialect))
        if self.cut and len(rows) > 1 and any(re.search(r"[\r\n]", cell) for cell in rows[-1]):
            rows.pop()  # the end of a quoted cell may be cut off
        if dialect.widths and dialect.header is not False and rows:
            words = self._filled(dialect)[0].split()
            if len(words) == len(rows[0]) and any(map(_is_number, rows[-1])):
                rows[0] = words  # names need not stand above their columns
        if dialect.header is not False and _lack_a_name(rows):
            at_end = not any(row[-1].strip() for row in rows[1:])
            rows[0] = [*rows[0], ""] if at_end else ["", *rows[0]]
        return rows

    def cells(self, told: CsvDialect, usual: str) -> CsvDialect:
        """Choose how cells are parted, so that rows have as many as the first."""
        quotes = ['"'] if told.quote is None else [told.quote]
        if told.quote is None and any(
            "'" in line and re.search(r"(^|[,;\t|])\s*'", line) for line in self.lines
        ):
            quotes.append("'")
        if told.widths:
            told = replace(told, delimiter=" ")
        some = _CANDIDATES if told.delimiter is None else (told.delimiter,)
        best: tuple[float, int, bool] = (0.0, 0, False)
        chosen = None
        for quote in quotes:
            for delimiter in (d for d in some if d == _RUNS or any(d in x for x in self.lines)):
                plain = replace(told, delimiter=delimiter, quote=quote)
                for way in self._ways(plain):
                    score = _score(self.rows(way), quote, told.delimiter is not None)
                    if score is None or (quote == "'" and score[0] <= best[0]):
                        continue  # double quotes do as well
                    if (*score, delimiter == usual) > best:
                        best, chosen = (*score, delimiter == usual), way
        if told.delimiter is None and not told.widths:
            chosen = self._aligned(told, chosen) or chosen
        if chosen is None:
            delimiter = told.delimiter or self._of_one_column(usual, quotes[0])
            chosen = replace(told, delimiter=delimiter, quote=quotes[0])
        absent = CsvDialect(escape="", blanks=False, widths="", null_values=NullValues())
        return chosen.or_else(absent)

    def _ways(self, plain: CsvDialect) -> Iterator[CsvDialect]:
        """Give a dialect, and the same with escapes or blanks before quotes if there may be such.

        The likely ones come first, in case all are equally good.
        """
        quote, delimiter = re.escape(plain.quote or ""), re.escape(plain.delimiter or "")
        if plain.widths or plain.delimiter == _RUNS:
            yield plain
            return
        blanks = escape = False
        if plain.blanks is None and quote and plain.delimiter != " ":
            after = re.compile(rf"(?:^|{delimiter})[ ]+{quote}[^{quote}]*{quote}")
            blanks = any(quote[-1] in line and after.search(line) for line in self.lines)
        if plain.escape is None and any("\\" in line for line in self.lines):
            # A quote after a backslash at the end of a cell may belong to a folder: "C:\".
            meant = rf"\\{quote}(?!\s*(?:{delimiter}|$))|" if quote else ""
            sign = re.compile(rf"(?<!\\)(?:\\\\)*(?:{meant}\\{delimiter})")
            escape = any("\\" in line and sign.search(line) for line in self.lines)
        spaced = [replace(plain, blanks=True)] if blanks else []
        for way in (*spaced, plain):
            if escape:
                yield replace(way, escape="\\")
        yield from (*spaced, plain)

    def _filled(self, dialect: CsvDialect) -> list[str]:
        """Lines that are neither empty nor comments, with blanks for tabs and without ends."""
        marked = set(self.marked(dialect))
        lines = (
            self.lines[n].rstrip().expandtabs()
            for n in range(self.first, len(self.lines))
            if n not in marked
        )
        return [line for line in lines if line]

    def _aligned(self, told: CsvDialect, chosen: CsvDialect | None) -> CsvDialect | None:
        """Look for columns set apart by runs of blanks, or of fixed widths, with numbers in some.

        Parameters
        ----------
        told : CsvDialect
            What is known.
        chosen : CsvDialect or None
            By which rows have the same number of cells; no other is looked for, unless these hold
            several numbers.
        """
        if chosen is not None and not _hold_several(self.rows(chosen)):
            return None
        runs = replace(told, delimiter=_RUNS, quote='"' if told.quote is None else told.quote)
        rows = self.rows(runs)
        width = len(rows[0]) if rows else 0
        alike = [row for row in rows[1:] or rows if len(row) == width]
        numbers = [_is_numeric(row[n] for row in alike) for n in range(width)] if alike else []
        enough = any(numbers) if chosen is None or chosen.delimiter == "\t" else all(numbers)
        if width > 1 and enough and len(alike) >= _ALIGNED * len(rows[1:] or rows):
            return runs
        return None if chosen is not None else self._of_fixed_widths(told)

    def _of_fixed_widths(self, told: CsvDialect) -> CsvDialect | None:
        """Find columns between which all lines have blanks."""
        lines = self._filled(replace(told, delimiter=" ", quote=""))
        if len(lines) < _FEWEST_LINES:
            return None
        headed = told.header is not False
        # Names may be longer than their columns, or have blanks.
        for body in (lines[1:], lines)[1 - headed :]:
            width = max(map(len, body))
            taken = bytearray(width)
            for word in chain.from_iterable(re.finditer("[^ ]+", line) for line in body):
                taken[slice(*word.span())] = bytes([1]) * len(word.group())
            ends = [n for n in range(width) if taken[n] and not (n + 1 < width and taken[n + 1])]
            starts = [n for n in range(width) if taken[n] and not (n and taken[n - 1])]
            if len(starts) < 2:
                continue
            numeric = [
                _is_numeric(line[a : b + 1] for line in lines[headed:])
                for a, b in zip(starts, ends, strict=True)
            ]
            # Longer numbers begin farther left, longer texts end farther right.
            cuts = [ends[n] + 1 if numeric[n + 1] else starts[n + 1] for n in range(len(ends) - 1)]
            places = [0, *cuts, max(width, len(lines[0]))]
            widths = ",".join(str(b - a) for a, b in pairwise(places))
            found = replace(told, delimiter=" ", quote="", widths=widths)
            names = self.rows(found)[0]
            alone = headed and body is not lines
            if any(numeric) and (names == lines[0].split() if alone else "" not in names):
                return found
        return None

    def _of_one_column(self, usual: str, quote: str) -> str:
        """Choose a delimiter under which every row has one cell, if the usual one is in some."""
        best, fewest = usual, None
        for delimiter in dict.fromkeys((usual, *_CANDIDATES)):
            rows = self.rows(CsvDialect(delimiter=delimiter, quote=quote))
            if delimiter == usual and rows and len(rows[0]) > 1:
                return usual  # no row has as many cells as there are names: an error will say so
            split = sum(len(row) > 1 for row in rows)
            if fewest is None or split < fewest:
                best, fewest = delimiter, split
        return best


def _with_lines(
    found: CsvDialect,
    told: CsvDialect,
    looked_at: _Beginning,
    place: str,
) -> Sniffed:
    """Find out which lines are comments, which is the header, and what the decimal mark is."""
    lines, first, comment, _ = looked_at
    rows, marked = looked_at.rows(found), looked_at.marked(found)
    width = len(rows[0]) if rows else 0
    filled = [n for n in range(first, len(lines)) if lines[n].strip()]
    top = list(takewhile(set(marked).__contains__, filled))
    header_line = filled[len(top)] if len(top) < len(filled) else first
    hashed = False
    if told.header is not False and rows and any(map(_is_number, rows[0])):
        for n in reversed(top):  # "# x, y, z" above numbers names them
            cells = _cells_of(re.sub(rf"^{re.escape(comment)}\s+(?=\S)", "", lines[n]), found)
            if len(cells) == width and not any(map(_is_number, cells)):
                rows.insert(0, cells)
                header_line, hashed = n, True
                break
    left_out = [n for n in marked if n != header_line]
    late_comments = told.comment is None
    if told.comment is None and not any(n < header_line for n in left_out):
        # Lines among the rows may be rows, such as "#fun", "#sad", ...
        odd = sum(len(_cells_of(lines[n], found)) != width for n in left_out)
        if 2 * odd <= len(left_out) and not _is_numeric(row[0] for row in rows[1:]):
            left_out, late_comments = [], not marked
        comment = comment if left_out else ""
    header = told.header
    if header is None:
        _refuse_values(rows, place)
        header = True
    if header and not hashed and rows and not rows[0][0]:
        written = _cells_of(lines[header_line], found)
        if len(written) < width:
            quoted = all(
                x.startswith(found.quote or "\n") for x in lines[header_line + 1 :] if x.strip()
            )
            _check_names_of_rows(rows, written, found, place, quoted=quoted)
    cells = rows[0] if rows and header else [""] * width
    # A file may begin with two byte order marks, as of two that were joined.
    names = tuple(cell.strip("\ufeff \t\r\n") or f"column_{n}" for n, cell in enumerate(cells, 1))
    above = lines[:header_line]
    return Sniffed(
        replace(
            found,
            decimal=told.decimal or _find_decimal(rows[header:], str(found.delimiter)),
            comment=comment,
            header=header,
        ),
        header_line + 1,
        names,
        as_written=header and not (hashed or found.widths) and names == tuple(cells),
        clean=not (
            found.rewritten or left_out or told.comment or any(x.strip("\r\n") for x in above)
        ),
        late_comments=late_comments,
    )


def _check_character(name: str, value: object) -> None:
    good = isinstance(value, str) and len(value) == 1 and value.isascii()
    if not good or str(value).isalnum() or str(value) in "\r\n\0":
        raise ParameterError(
            f"`{name}` must be a single character of ASCII that is no letter, digit or line end, "
            f"got {value!r}.",
            parameter=name,
            value=value,
        )


def _checked_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name)
        "".encode(found.name)  # some codecs are not for text
    except (LookupError, TypeError):
        raise ParameterError(
            f"`encoding` {name!r} is not known. Usual ones are utf-8, utf-16, latin-1, cp1252, "
            "cp1250, cp1251, shift_jis and gb18030.",
            parameter="encoding",
            value=name,
        ) from None
    return "utf-8" if found.name == "utf-8-sig" else found.name


def _find_encoding(beginning: bytes, whole: bool, place: str) -> str:
    """Tell encodings apart by their first bytes, and by what cannot be in UTF-8."""
    for mark, name in _BOMS:
        if beginning.startswith(mark):
            return name
    if b"\0" in beginning:
        even, odd = (beginning[start::2].count(0) for start in (0, 1))
        if max(even, odd) > len(beginning) // 4 > 10 * min(even, odd):
            return "utf-16-le" if odd > even else "utf-16-be"
        kind = "It is compressed by gzip: name it .csv.gz. " if beginning[:2] == b"\x1f\x8b" else ""
        if beginning[:2] == b"PK":
            kind = "It may be an Excel workbook: save it as CSV. "
        raise ReadError(
            Advice(
                f"{place} holds zero bytes, as no text does: it may be damaged or cut off. {kind}"
                "If it is text, say in which encoding with ",
                advise("encoding"),
                ".",
            )
        )
    for name in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(name)().decode(beginning, whole)
        except UnicodeDecodeError:
            continue
        return name
    return "iso8859-1"


def _decoded(beginning: bytes, encoding: str, whole: bool, place: str) -> str:
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        return codecs.getincrementaldecoder(name)().decode(beginning, whole)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        before = codecs.getincrementaldecoder(name)("replace").decode(beginning[:start])
        raise bad_bytes(place, before.count("\n") + 1, encoding) from None


def bad_bytes(place: str, line: int, encoding: str) -> ReadError:
    """Say that a line is not in the encoding."""
    other = "latin-1" if encoding in ("utf-8", "cp1252") else "utf-8"
    return ReadError(
        Advice(
            f"{place}: line {line:,} holds bytes that are no {encoding.upper()}. Say what the "
            "encoding is with ",
            advise("encoding", other),
            " or another, or mend the line.",
        )
    )


_OTHER_TEXTS = (
    ("<!doctype", "a page of the web", "Download the data themselves."),
    ("<html", "a page of the web", "Download the data themselves."),
    ("<?xml", "XML", "Write it as CSV or Parquet."),
    ("version https://git-lfs", "the place of a file in Git LFS", "Fetch it with `git lfs pull`."),
    ("@relation", "ARFF", "Write it as CSV: names in one line, and the rows behind `@data`."),
)


def _refuse_other_texts(text: str, looked_at: _Beginning, told: CsvDialect, place: str) -> None:
    """Raise an error for files that are not CSV, and for a title above the column names."""
    for begins, what, mend in _OTHER_TEXTS:
        if text.lstrip()[: len(begins)].lower() == begins:
            raise ReadError(f"{place} holds {what}, not CSV. {mend}")
    if re.match(r'\s*(\[\s*)?\{\s*"', text):
        raise ReadError(
            f"{place} holds JSON, not CSV. Write it as CSV or Parquet; JSON lines can be learned "
            "with `mercer stream`."
        )
    for delimiter in _CANDIDATES if told.delimiter is None and told.header is None else ():
        rows = looked_at.rows(replace(told, delimiter=delimiter, quote=told.quote or '"'))
        # Spreadsheets write delimiters after a title, too.
        filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
        start = next((n for n, cells in enumerate(filled) if cells > 1), 0)
        if not (start and rows[0][0].strip()) or any(map(_is_number, rows[start])):
            continue
        width, body = len(rows[start]), rows[start + 1 :]
        like = [row for row in body if len(row) == width]
        if len(like) < max(2, 0.8 * len(body)):
            continue
        if any(_is_numeric(row[n] for row in like) for n in range(width)):
            raise ReadError(
                f"{place} begins with {rows[0][0].strip()[:40]!r}, which looks like a title: the "
                f"names of the columns seem to be {', '.join(rows[start])[:60]!r} below it. Delete "
                "what is above the names, or begin those lines with '#'."
            )


def _lack_a_name(rows: list[list[str]]) -> bool:
    """Whether all rows have one cell more than there are names: R names no column of row names."""
    width = len(rows[0]) if len(rows) > 2 else 0
    return width > 1 and all(len(row) == width + 1 for row in rows[1:])


def _check_names_of_rows(
    rows: list[list[str]], names: list[str], dialect: CsvDialect, place: str, *, quoted: bool
) -> None:
    """Look whether the cells that are more than names are names of rows, as R writes them.

    Raises
    ------
    ReadError
        If they are not: a delimiter amid the rows would give all columns the names of others.

    Warns
    -----
    UserWarning
        If they may be.
    """
    first = [row[0].strip() for row in rows[1:]]
    numbers = [cell.isdecimal() for cell in first]
    inner = list(zip(*(row[1:] for row in rows[1:]), strict=True))
    cut = dialect.delimiter not in (" ", _RUNS) and any(
        all(cell.startswith(" ") for cell in column) for column in inner
    )
    cut = cut and not all(cell.startswith(" ") for column in inner for cell in column)
    labels = all(numbers) or not any(map(_is_number, first))
    text = f"{place}: rows have {len(names) + 1:,} cells, but the first line names {len(names):,}"
    if len(set(first)) < len(first) or not labels or cut:
        raise ReadError(
            Advice(
                f"{text} columns, so that it is not known which cells are whose. Cells that hold a "
                f"{dialect.delimiter!r} must stand between quotes, as must each quote in them be "
                "doubled; if it is escaped otherwise, say so with ",
                advise("escape"),
                "; if the first column has no name, give it one.",
            )
        )
    if not (quoted or dialect.delimiter in (" ", "\t", _RUNS)):
        warnings.warn(
            f"{text}. The first cell of each row is taken for the name of the row, such as "
            f"{first[0]!r}; if it is not, cells that hold a {dialect.delimiter!r} must stand "
            "between quotes.",
            stacklevel=2,
        )


def _score(rows: list[list[str]], quote: str, told: bool) -> tuple[float, int] | None:
    """Rate cells: how many rows have as many as the first, and how many cells are numbers."""
    if not rows:
        return None
    width, others = len(rows[0]), rows[1:] or rows
    same = sum(len(row) == width for row in others) / len(others)
    if not told and (width < 2 or same < 0.5):
        return None
    cells = [cell for row in others[:_TYPED_ROWS] for cell in row if cell.strip()]
    numbers = sum(map(_is_number, cells)) / max(len(cells), 1)
    same -= _TIE * ("" in rows[0])
    if quote == "'":
        return same + numbers, width
    # Columns whose cells all are between quotes of the other kind are not read by these.
    wrapped = _wrapped(rows) + _TIE * all(map(_is_wrapped, rows[0]))
    return same + numbers - wrapped, width


def _hold_several(rows: list[list[str]]) -> bool:
    """Whether the cells of a column are several numbers each, with blanks between them."""

    def several(cell: str) -> bool:
        words = cell.split()
        return len(words) > 1 and 2 * sum(map(_is_number, words)) >= len(words)

    width = max(map(len, rows), default=0)
    columns = ([row[n] for row in rows[1:_TYPED_ROWS] if len(row) > n] for n in range(width))
    return any(
        len(cells) >= len(rows[1:_TYPED_ROWS]) / 2
        and sum(map(several, cells)) >= _ALIGNED * len(cells) > 0
        for cells in columns
    )


def _wrapped(rows: list[list[str]]) -> float:
    """Return the share of columns whose cells stand between single quotes, name included."""
    columns = list(zip(*(row for row in rows if len(row) == len(rows[0])), strict=True))
    whole = [
        any(column[1:]) and all(_is_wrapped(cell) for cell in column[1:] if cell)
        for column in columns
    ]
    return sum(whole) / max(len(whole), 1)


def _is_wrapped(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == "'" == cell[-1]


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _COMMA.fullmatch(cell) or _POINT.fullmatch(cell))


def _is_numeric(cells: Iterable[str]) -> bool:
    known = [cell for cell in cells if cell.strip()]
    return bool(known) and sum(map(_is_number, known)) > 0.9 * len(known)


def _find_decimal(rows: list[list[str]], delimiter: str) -> str:
    """Choose between decimal comma and point by columns; recognise thousands separators."""
    width = len(rows[0]) if rows else 0
    if delimiter != ";" and not any("," in cell for row in rows for cell in row):
        return "."
    votes: Counter[str] = Counter()
    for number in range(width):
        cells = [row[number].strip() for row in rows if len(row) == width]
        if _is_numeric(cells):
            votes[_mark_of(cells)] += 1
    if votes[","] != votes["."]:
        return max(",.", key=votes.__getitem__)
    if not votes[","] and delimiter == ";":  # of those who have decimal commas
        return "," if votes["?,"] else "."
    return "."


def _mark_of(cells: list[str]) -> str:
    """Say which decimal mark a column of numbers has; with a question mark if that is a guess."""
    counts: Counter[str] = Counter()
    for cell in cells:
        if _COMMA.fullmatch(cell):
            counts[","] += 1
        elif _POINT.fullmatch(cell):
            counts["."] += 1
        elif _UNCLEAR.fullmatch(cell):
            counts["?," if "," in cell else "?."] += 1
        elif "," in cell or "." in cell:
            counts["," if "," in cell else "."] += 1
        elif cell:
            counts["whole"] += 1
    if counts[","] != counts["."]:
        return max(",.", key=counts.__getitem__)
    if bool(counts["?,"]) == bool(counts["?."]):
        return ""
    mark = "," if counts["?,"] else "."
    if counts["whole"]:  # 950 next to 1.234: the mark separates thousands
        mark = "," if mark == "." else "."
    return f"?{mark}"


def _refuse_values(rows: list[list[str]], place: str) -> None:
    """Raise if the first line holds values instead of names."""
    if not rows or not any(map(_is_number, rows[0])) or _are_counted(rows[0]):
        return
    width = len(rows[0])
    for column, cell in enumerate(rows[0]):
        below = (row[column] for row in rows[1:] if len(row) == width)
        if cell.strip() and not (_is_number(cell) or _DATE.match(cell) or cell in below):
            return
    shown = ", ".join(cell.strip() for cell in rows[0][:5]) + ", ..." * (width > 5)
    raise ReadError(
        Advice(
            f"{place} has values where names of columns should be: its first line is {shown}. Add "
            "a line of names; or, with ",
            advise("header", "False"),
            ", call the columns column_1, column_2, ...; or, if these are names, say ",
            advise("header", "True"),
            ".",
        )
    )


def _are_counted(cells: list[str]) -> bool:
    """Return whether names count, 0, 1, 2, ..., as for arrays, or are years."""
    if not all(re.fullmatch(r"\d+", cell) for cell in cells):
        return False
    first = int(cells[0])
    return [int(c) for c in cells] == list(range(first, first + len(cells))) and (
        first < 2 or len(cells) > 2
    )


def _cells_of(line: str, dialect: CsvDialect) -> list[str]:
    return next(_rows_of([line], dialect), [])


def _rows_of(lines: Iterable[str], dialect: CsvDialect) -> Iterator[list[str]]:
    """Split lines into cells as far as possible; empty lines are not rows."""
    try:
        yield from (row for row in reader(lines, dialect) if len(row) > 1 or "".join(row).strip())
    except csv.Error:  # a cell longer than what Python's reader takes
        return


def reader(lines: Iterable[str], dialect: CsvDialect, *, strict: bool = False) -> Any:
    """Return an iterator over the rows of a dialect, by Python's reader if it can read them."""
    delimiter, quote = dialect.delimiter or ",", dialect.quote
    if dialect.widths:
        spans = _spans_of(dialect.widths)
        return ([line[a:b].strip() for a, b in spans] for line in map(_without_tabs, lines))
    if delimiter == _RUNS:
        return (_words_of(line, quote or "") for line in lines)
    options: dict[str, Any] = {
        "delimiter": delimiter,
        "escapechar": dialect.escape or None,
        "skipinitialspace": bool(dialect.blanks),
    }
    if quote == "":
        return csv.reader(lines, quoting=csv.QUOTE_NONE, **options)
    return csv.reader(lines, quotechar=quote or '"', strict=strict, **options)


def _without_tabs(line: str) -> str:
    return line.rstrip("\r\n").expandtabs()


def _words_of(line: str, quote: str) -> list[str]:
    """Split a line at runs of blanks and tabs that are not between quotes."""
    if not quote or quote not in line:
        return line.split()
    mark = re.escape(quote)
    found = re.findall(rf"{mark}((?:[^{mark}]|{mark}{mark})*){mark}(?=\s|$)|(\S+)", line)
    return [plain or quoted.replace(2 * quote, quote) for quoted, plain in found]


def _spans_of(widths: str) -> list[tuple[int, int]]:
    """Places of columns of fixed widths.

    Examples
    --------
    >>> _spans_of("5,3"), _spans_of("1-5,8-8")
    ([(0, 5), (5, 8)], [(0, 5), (7, 8)])
    """
    try:
        if "-" in widths:
            pairs = [[int(place) for place in one.split("-")] for one in widths.split(",")]
            spans = [(first - 1, last) for first, last in pairs]
        else:
            spans = list(pairwise(accumulate(map(int, widths.split(",")), initial=0)))
        good = all(0 <= first < last for first, last in spans)
    except ValueError:
        good = False
    if not good:
        raise ParameterError(
            "`widths` must say how many characters each column has, as '5,3,10', or their places, "
            f"as '1-5,6-8,12-21', got {widths!r}.",
            parameter="widths",
            value=widths,
        )
    return spans


def rewritten(
    lines: Iterable[str], dialect: CsvDialect, place: str, names: Sequence[str] = ()
) -> Iterator[str]:
    r"""Yield lines rewritten for :attr:`CsvDialect.plain`, one for each line.

    In columns with their own null values, these become empty, and values that would be missing in
    other columns are quoted.

    Examples
    --------
    >>> dialect = CsvDialect(delimiter="whitespace", quote='"')
    >>> list(rewritten(["a   b\n", ' 1  "x y"\n'], dialect, "The text"))
    ['a\tb\n', '1\tx y\n']
    """
    held: list[str] = []  # lines of the row that is being read
    n_lines = n_held = 0

    def taken() -> Iterator[str]:
        nonlocal n_lines, n_held
        for line in lines:
            held.append(_without_marks(line, dialect))
            n_lines += 1
            n_held += len(line) + OF_A_LINE
            if n_held > LONGEST_ROW:
                raise unclosed(place, n_lines - len(held) + 1, dialect)
            yield held[-1]

    out = io.StringIO()
    write = csv.writer(out, delimiter="\t", lineterminator="\n").writerow
    own = _own_gaps(dialect, names)
    header = bool(dialect.header)
    last: list[str] = []
    for cells in reader(taken(), dialect):
        if len(cells) > 1 or (cells and cells[0].strip()):
            if own and not header and len(cells) == len(names):
                yield _with_own_gaps(cells, own)
            else:
                write(cells)
                yield out.getvalue()
                out.seek(0)
                out.truncate()
            header = False
        else:
            yield "\n" * len(held)
        last, n_held = held[:], 0
        held.clear()
    if len(last) > 1 or (last and dialect.quote and dialect.quote in last[0]):
        try:
            list(reader(last, dialect, strict=True))
        except csv.Error as error:
            if "end of data" in str(error):
                raise unclosed(place, n_lines - len(last) + 1, dialect) from None


def _own_gaps(dialect: CsvDialect, names: Sequence[str]) -> dict[int, tuple[frozenset[str], bool]]:
    """Return by place of a column its gaps, and whether all other cells are values."""
    nulls = dialect.null_values or NullValues()
    return {
        n: (frozenset(nulls.named(name)), not nulls.has_usual(name))
        for n, name in enumerate(names)
        if name in nulls.by_cell
    }


def _with_own_gaps(cells: list[str], own: dict[int, tuple[frozenset[str], bool]]) -> str:
    written = []
    for n, cell in enumerate(cells):
        gaps, literal = own.get(n, (frozenset(), False))
        if cell.strip() in gaps:
            cell = ""
        if (literal and cell.strip()) or _SPECIAL.search(cell):
            cell = '"' + cell.replace('"', '""') + '"'
        written.append(cell)
    return "\t".join(written) + "\n"


def _without_marks(line: str, dialect: CsvDialect) -> str:
    r"""Empty the cells \N, which databases write; it is not an escape sequence."""
    if not dialect.escape or "\\N" not in line:
        return line
    delimiter = re.escape(dialect.delimiter or ",")
    return re.sub(rf"(^|{delimiter})\\N(?={delimiter}|\s*$)", r"\1", line)


def inside_quotes(lines: Iterable[str], dialect: CsvDialect, comment: str = "") -> Iterator[bool]:
    """Say of each line whether it begins inside a quoted cell; comments open none."""
    quote, inside = dialect.quote or "", False
    if dialect.widths or dialect.delimiter == _RUNS:
        quote = ""  # a cell ends with its line
    blanks = " *" if dialect.blanks else ""
    opening = re.compile(rf"(?:^|{re.escape(dialect.delimiter or ',')}){blanks}{re.escape(quote)}")
    escaped = re.compile(rf"{re.escape(dialect.escape)}.") if dialect.escape else None
    for line in lines:
        yield inside
        if quote and quote in line and (inside or not (comment and line.startswith(comment))):
            some = escaped.sub("..", line) if escaped else line
            inside = _ends_inside(some, inside, opening, quote)


def _ends_inside(line: str, inside: bool, opening: re.Pattern[str], quote: str) -> bool:
    at = 0
    while True:
        while inside:
            at = line.find(quote, at)
            if at < 0:
                return True
            doubled = line.startswith(quote, at + 1)
            at += 2 if doubled else 1
            inside = doubled
        found = opening.search(line, at)
        if found is None:
            return False
        at, inside = found.end(), True


def blanked(lines: Iterable[str], sniffed: Sniffed) -> Iterator[str]:
    """Give lines with those empty that are not to be read, so that the numbers of others stay."""
    comment, twice = sniffed.dialect.comment, tee(lines)
    starts = inside_quotes(twice[0], sniffed.dialect, comment or "")
    for number, (line, inside) in enumerate(zip(twice[1], starts, strict=True), 1):
        left_out = comment and line.startswith(comment) and not inside
        if number < sniffed.header_line or (left_out and number != sniffed.header_line):
            yield "\n"
        else:
            yield line


def refuse_unclosed(lines: Iterable[str], sniffed: Sniffed, place: str) -> None:
    """Raise if a quoted cell has no end.

    Raises
    ------
    ReadError
        Naming the line that it begins in.
    """
    opened, was_inside = 0, False
    for number, inside in enumerate(inside_quotes(chain(lines, [""]), sniffed.dialect)):
        if inside and not was_inside:
            opened = number
        was_inside = inside
    if was_inside:
        raise unclosed(place, opened, sniffed.dialect)


def unclosed(place: str, line: int, dialect: CsvDialect) -> ReadError:
    """Say that the quoted cell that begins in a line does not end."""
    return ReadError(
        Advice(
            f"{place}: in line {line:,} a cell begins with {dialect.quote} and does not end: the "
            "closing quote is missing. Add it",
            InPython(", or say `dialect=CsvDialect(quote='')`", ("",)),
            ".",
        )
    )
