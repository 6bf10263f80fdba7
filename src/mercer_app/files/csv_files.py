"""CSV files of any usual dialect as record batches, and the types of their columns."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import numpy as np

from mercer.columns.forms import MOSTLY, NumberForm
from mercer.columns.null_values import NullValues, ReadError
from mercer.columns.views import is_number
from mercer.exceptions import Advice
from mercer.threads import own_property
from mercer_app.files.dialect import (
    LONGEST_ROW,
    OF_A_LINE,
    CsvDialect,
    Sniffed,
    advise,
    bad_bytes,
    blanked,
    inside_quotes,
    reader,
    refuse_unclosed,
    rewritten,
    sniff,
    unclosed,
)
from mercer_app.files.places import AnyFile, MemoryFile, as_bytes


def is_text_type(kind: Any) -> bool:
    """Whether a type is one of text."""
    import pyarrow as pa

    types = pa.types
    found = types.is_string(kind) or types.is_large_string(kind) or "string_view" in str(kind)
    return bool(found)


def is_number_type(kind: Any) -> bool:
    """Whether a type is one of numbers."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def wider(one: Any, other: Any) -> Any:
    """Return the type of a column that has one type in some files, and another in others.

    Numbers of different types become numbers; truth values among numbers become 0 and 1. Dates and
    times get the finest unit read. Other mixtures, such as numbers and text, become text.

    Parameters
    ----------
    one, other : pyarrow.DataType
        The types.

    Returns
    -------
    kind : pyarrow.DataType or None
        None if no type holds both, as with lists.

    Examples
    --------
    >>> import pyarrow as pa
    >>> wider(pa.int64(), pa.float64()), wider(pa.null(), pa.int8())
    (DataType(double), DataType(int8))
    >>> wider(pa.timestamp("ns"), pa.date32()), wider(pa.string(), pa.int64())
    (TimestampType(timestamp[us]), DataType(string))
    """
    import pyarrow as pa

    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_dictionary(one) and types.is_dictionary(other):
        values = wider(one.value_type, other.value_type)
        return None if values is None else pa.dictionary(pa.int32(), values)
    one, other = (kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other))
    if one == other:
        return one
    if any(types.is_nested(kind) or types.is_binary(kind) for kind in (one, other)):
        return None
    if is_text_type(one) or is_text_type(other):
        return pa.large_string() if pa.large_string() in (one, other) else pa.string()
    counts = [is_number_type(kind) or types.is_boolean(kind) for kind in (one, other)]
    if all(counts):
        return _of_numbers([kind for kind in (one, other) if not types.is_boolean(kind)])
    for tell, kind in (
        (lambda kind: types.is_timestamp(kind) or types.is_date(kind), _moments(one, other)),
        (types.is_time, pa.time64("us")),
        (types.is_duration, pa.duration("us")),
    ):
        if tell(one) and tell(other):
            return kind
    return pa.string()


def _of_numbers(kinds: list[Any]) -> Any:
    """Return the type of all numbers of some types."""
    import pyarrow as pa

    types = pa.types
    if all(map(types.is_integer, kinds)):
        if all(map(types.is_unsigned_integer, kinds)):
            return pa.uint64()
        if pa.uint64() not in kinds:
            return pa.int64()
    return pa.float64()


def _moments(one: Any, other: Any) -> Any:
    import pyarrow as pa

    zones = [getattr(kind, "tz", None) for kind in (one, other)]
    return pa.timestamp("us", zones[0] or zones[1])


def one_value(text: str, kind: Any) -> Any:
    """Return text as an array of one value of a type; null if it cannot be read."""
    import pyarrow as pa

    try:
        if pa.types.is_time(kind):  # which text is not cast to
            return pa.array([f"1970-01-01 {text}"]).cast(pa.timestamp("us")).cast(kind)
        if pa.types.is_timestamp(kind):  # of UTC, where no zone is given
            return pa.array([text]).cast(pa.timestamp(kind.unit)).cast(kind)
        if pa.types.is_boolean(kind) and text.lower() not in ("true", "false"):
            return pa.nulls(1, kind)
        return pa.array([text]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)


@lru_cache(maxsize=256)
def values_of(texts: tuple[str, ...], kind: Any) -> Any:
    """Read texts as an array of those that are values of a type; no number is one nearby.

    Examples
    --------
    >>> import pyarrow as pa
    >>> values_of(("-1", "0.5", "n.v."), pa.int64()).to_pylist()
    [-1]
    """
    import pyarrow as pa

    found = [one_value(text, kind) for text in texts]
    return pa.concat_arrays([pa.nulls(0, kind), *found]).drop_null()


# Of a CSV file: from its beginning and its end the types of its columns are inferred.
INFERENCE_BYTES = 2**23
LAST_BYTES = 2**20
_BLOCK_BYTES = 2**20  # of a CSV file with up to so many columns, parsed at once
_BLOCK_COLUMNS = 2**10
_SNIFFED_BYTES = 2**20
_WHOLE = re.compile(r"[+-]?[0-9]+")

_ZEROS = re.compile(rb"(?:^|[^\w.:/+-])0\d", re.MULTILINE)  # where a code may begin

#: Told of cells that cannot be what their column is: column, type, how many, the first, its place.
Unfit = Callable[[str, str, int, str, str], None]

_TRUTH = {"1": True, "true": True, "0": False, "false": False}


class Csv:
    """CSV files: see :class:`mercer_app.files.tables._Format`.

    What is UTF-8 and has no lines to leave out is read by pyarrow alone. Blocks of whole rows are
    cut here and given to it where that is not so, or where it meets a gap or a comment that it
    does not know.
    """

    @staticmethod
    def schema(file: AnyFile) -> Any:
        """Infer the types of the columns from the beginning and the end; null where no value is."""
        import pyarrow as pa

        fields = list(_inferred(file, marks=True))
        if any(pa.types.is_binary(field.type) for field in fields):
            _refuse_bad_bytes(file)
        empty = [n for n, field in enumerate(fields) if pa.types.is_null(field.type)]
        as_text = list(_inferred(file, marks=False)) if empty else []
        for n in empty:
            if pa.types.is_string(as_text[n].type):
                fields[n] = fields[n].with_type(pa.string())
        whole = [f.name for f in fields if pa.types.is_integer(f.type)]
        codes = _codes(file, whole)
        fields = [f.with_type(pa.string()) if f.name in codes else f for f in fields]
        last = _last_rows(file)
        if last is not None:
            nulls = _nulls(file)
            for n, column in enumerate(last.columns):
                gaps = nulls.number_gaps(fields[n].name)
                kind = Csv.joined(fields[n].type, column.type, partial(_cells, column, gaps))
                fields[n] = fields[n].with_type(kind)
        return pa.schema(fields)

    @staticmethod
    def joined(one: Any, other: Any, cells: Callable[[], Any]) -> Any:
        """Return the type of a column whose cells are of two in two places.

        Parameters
        ----------
        one, other : pyarrow.DataType
            The types.
        cells : callable
            Returns some cells of the other place, as text, null for those that mean a gap.
        """
        import pyarrow as pa
        from pyarrow import compute

        if pa.types.is_string(other) and is_number_type(one):
            text = cells()
            found = _numbers(text, ".", pa.float64())
            if text.null_count < len(text):
                # A few cells that are not numbers do not turn a column of numbers into text.
                share = (len(found) - found.null_count) / (len(text) - text.null_count)
                codes = compute.any(compute.match_substring_regex(text, r"^0\d")).as_py()
                return one if share >= MOSTLY and not codes else pa.string()
            return one
        if pa.types.is_boolean(one) != pa.types.is_boolean(other) and not (
            pa.types.is_null(one) or pa.types.is_null(other)
        ):
            return pa.string()
        kind = wider(one, other)
        if pa.types.is_timestamp(kind) and pa.timestamp("ns") in (one, other):
            return pa.timestamp("ns")  # text has its digits
        return kind

    @staticmethod
    def cells(file: AnyFile, name: str) -> Any:
        """Return the first cells of a column as text, null for those that mean a gap."""
        import pyarrow as pa

        types = {name: pa.string()}
        blocks = _by_blocks(file, types, [name], marks=False, size=INFERENCE_BYTES)
        return _cells(next(blocks).column(0), _nulls(file).number_gaps(name))

    @staticmethod
    def batches(
        file: AnyFile, layout: Any, rows: int, groups: tuple[int, ...] | None, unfit: Unfit
    ) -> Iterator[Any]:
        """Read the columns of a layout; whole numbers may become others from some row on."""
        import pyarrow as pa

        text = [n for n, f in enumerate(layout) if pa.types.is_string(f.type)]
        n_read, last = 0, None
        if _is_plain(file):
            try:
                with _streamed(file, _whole(file), layout, not text, layout.names) as batches:
                    for last in batches:
                        yield last
                        n_read += last.num_rows
            except pa.ArrowInvalid as error:
                if not _is_mendable(error):
                    raise
            else:
                if last is not None and _ends_in_lines(last, text):
                    with _lines(file) as lines:
                        refuse_unclosed(lines, _sniffed(file), str(file))
                return
        for table in _by_blocks(file, layout, layout.names, unfit=unfit):
            if n_read < table.num_rows:
                yield from _with_gaps(table.slice(n_read), text, _nulls(file)).to_batches()
            n_read = max(0, n_read - table.num_rows)

    @staticmethod
    def count(file: AnyFile) -> int | None:
        """Return None: the number is unknown without reading everything."""
        return None

    @staticmethod
    def groups(file: AnyFile) -> list[int]:
        """Return no row groups."""
        return []

    @staticmethod
    def line_of(file: AnyFile, row: int) -> tuple[int, int]:
        """Return the number of the line in which a row ends, from 1 on, and of rows before it.

        The line is 0 if the file has fewer rows.
        """
        number = -1
        with _lines(file) as lines:
            for number, (_, end, _) in enumerate(_values(file, lines)):
                if number == row:
                    return end, number
        return 0, number + 1

    @staticmethod
    def written(file: AnyFile, rows: Mapping[str, int]) -> dict[str, str]:
        """Return what stands in a row of some columns."""
        places = {name: place for place, name in enumerate(_sniffed(file).names)}
        of_row: dict[int, list[str]] = {}
        for name, row in rows.items():
            of_row.setdefault(row, []).append(name)
        found = {}
        with _lines(file) as lines:
            some = islice(_values(file, lines), max(of_row, default=-1) + 1)
            for row, (_, _, cells) in enumerate(some):
                for name in of_row.get(row, ()):
                    found[name] = cells[places[name]].strip() if len(cells) > places[name] else ""
        return found

    @staticmethod
    def described(file: AnyFile) -> str:
        """Say how the file is written, if not as usual."""
        return _sniffed(file).dialect.describe(_usual(file))

    @staticmethod
    def dialect(file: AnyFile) -> CsvDialect:
        """Return how the file is written."""
        return _sniffed(file).dialect

    @staticmethod
    def explain(file: AnyFile, error: Exception) -> None:
        """Raise what is known about a file that pyarrow could not read.

        Raises
        ------
        ReadError
            Naming the line, if it can be found.
        """
        said = str(error)
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in said:
            _refuse_bad_bytes(file)
        if "CSV parse error" in said or "straddl" in said or "out of sync" in said:
            _refuse_ragged(file)


def _usual(file: AnyFile) -> str:
    return "\t" if file.name.lower().endswith((".tsv", ".tsv.gz", ".tsv.bz2")) else ","


def _sniffed(file: AnyFile) -> Sniffed:
    told = getattr(file, "dialect", None) or CsvDialect()
    if isinstance(file, MemoryFile):
        if "dialect" not in file.known:
            file.known["dialect"] = _look(file, told, _usual(file))
        found: Sniffed = file.known["dialect"]
        return found
    status = os.stat(file)
    return _look_once(os.fspath(file), status.st_size, status.st_mtime_ns, told, _usual(file))


def _nulls(file: AnyFile) -> NullValues:
    """Return which cells of a file stand for no value."""
    found: NullValues = _sniffed(file).dialect.null_values
    return found


@lru_cache(maxsize=64)
def _look_once(path: str, size: int, changed: int, told: CsvDialect, usual: str) -> Sniffed:
    return _look(Path(path), told, usual)


def _look(file: AnyFile, told: CsvDialect, usual: str) -> Sniffed:
    with as_bytes(file) as source:
        beginning = source.read(_SNIFFED_BYTES + 1)
    whole = len(beginning) <= _SNIFFED_BYTES
    return sniff(beginning[:_SNIFFED_BYTES], whole=whole, told=told, usual=usual, place=str(file))


# -- by pyarrow alone ---------------------------------------------------------------------------


def _is_plain(file: AnyFile) -> bool:
    sniffed = _sniffed(file)
    return sniffed.clean and sniffed.dialect.encoding == "utf-8"


def _whole(file: AnyFile) -> Any:
    """Return what pyarrow's reader of CSV opens."""
    return as_bytes(file) if isinstance(file, MemoryFile) else os.fspath(file)


def _block_bytes(file: AnyFile) -> int:
    """Return how much is parsed at once: of many columns more, as each takes its time."""
    return _BLOCK_BYTES * max(1, len(_sniffed(file).names) // _BLOCK_COLUMNS)


def _streamed(
    file: AnyFile,
    source: Any,
    types: Any,
    marks: bool,
    columns: Sequence[str] = (),
    block: int | None = None,
) -> Any:
    from pyarrow import csv as arrow

    return arrow.open_csv(
        source, **_settings(file, types, columns, marks=marks, block=block or _block_bytes(file))
    )


def _inferred(file: AnyFile, *, marks: bool) -> Any:
    """Infer the schema; with ``marks`` cells such as "-" are gaps."""
    import pyarrow as pa

    if _is_plain(file):
        # The parser reads 32 blocks ahead, so it is given only the block wanted, and enough of the
        # next one to show that the last row of the block may be incomplete. Its threads may release
        # the bytes while Python ends, which aborts the process if they are Python's.
        with as_bytes(file) as source:
            beginning = source.read_buffer(INFERENCE_BYTES + _BLOCK_BYTES)
        try:
            source = pa.BufferReader(beginning)
            with _streamed(file, source, {}, marks, block=INFERENCE_BYTES) as rows:
                return rows.schema
        except pa.ArrowInvalid as error:
            if not _is_mendable(error):
                raise
    return next(_by_blocks(file, {}, (), marks=marks, size=INFERENCE_BYTES)).schema


def _codes(file: AnyFile, names: Sequence[str]) -> set[str]:
    """Return those columns of digits in which some begin with zeros, as 02139 does: no numbers."""
    import pyarrow as pa
    from pyarrow import compute

    if names and _sniffed(file).dialect.encoding == "utf-8" and not _sniffed(file).dialect.widths:
        with as_bytes(file) as source:
            if not _ZEROS.search(source.read(_SNIFFED_BYTES)):
                return set()
    if not names:
        return set()
    text = dict.fromkeys(names, pa.string())
    some = next(_by_blocks(file, text, names, marks=False, size=INFERENCE_BYTES))
    found = {name: compute.match_substring_regex(some[name], r"^\s*0\d") for name in names}
    return {name for name, zeros in found.items() if compute.any(zeros).as_py()}


def _last_rows(file: AnyFile) -> Any:
    """Read the last rows of a file that is longer than the inspected part; None if impossible.

    It is impossible for compressed files, for encodings with several bytes per character, and after
    line ends in cells. Blocks are read leniently in any case.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    sniffed = _sniffed(file)
    if isinstance(file, MemoryFile) or file.name.lower().endswith((".gz", ".bz2")):
        return None
    encoding, size = str(sniffed.dialect.encoding), os.stat(file).st_size
    if (
        sniffed.dialect.plain != sniffed.dialect
        or "utf-16" in encoding
        or "utf-32" in encoding
        or size <= INFERENCE_BYTES + LAST_BYTES
    ):
        return None
    with open(file, "rb") as source:
        source.seek(size - LAST_BYTES)
        _, _, rows = source.read().partition(b"\n")
    block = rows.decode(encoding, "replace").encode()
    options = _settings(
        file,
        {},
        (),
        marks=True,
        block=len(block) + 1,
        beginning=False,
        skip=lambda row: "skip" if _is_noise(row.text, sniffed.late_comments) else "error",
    )
    try:
        found = arrow.read_csv(pa.BufferReader(block), **options) if block.strip() else None
    except pa.ArrowInvalid:
        return None
    return None if found is None or not found.num_rows else found


def _is_mendable(error: Exception) -> bool:
    """Whether there may be a comment, a long row, or a cell that is not what its column is."""
    said = str(error)
    unfit = "conversion error to " in said and "invalid UTF8" not in said
    return "CSV parse error: " in said or "straddl" in said or unfit


def _settings(
    file: AnyFile,
    types: Any,
    columns: Sequence[str],
    *,
    marks: bool,
    block: int,
    beginning: bool = True,
    skip: Callable[[Any], str] | None = None,
) -> dict[str, Any]:
    """Return the options of pyarrow's readers."""
    from pyarrow import csv as arrow

    sniffed = _sniffed(file)
    dialect = sniffed.dialect.plain
    named = beginning and sniffed.as_written
    gaps = dialect.null_values.number_gaps() if marks else dialect.null_values.gaps()
    return {
        "read_options": arrow.ReadOptions(
            use_threads=False,
            block_size=block,
            column_names=None if named else list(sniffed.names),
            skip_rows=0 if named or not beginning else sniffed.header_line - 1,
            skip_rows_after_names=int(beginning and not named and bool(dialect.header)),
        ),
        "parse_options": arrow.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=True,
            invalid_row_handler=skip,
        ),
        "convert_options": arrow.ConvertOptions(
            column_types=types,
            include_columns=list(columns),
            decimal_point=dialect.decimal,
            strings_can_be_null=not marks,
            quoted_strings_can_be_null=not dialect.null_values.by_cell,
            null_values=[*gaps, *(f" {gap}" for gap in gaps)] if marks else [*gaps],
        ),
    }


# -- in blocks that are cut here ------------------------------------------------------------------


def _by_blocks(
    file: AnyFile,
    types: Any,
    columns: Sequence[str],
    *,
    marks: bool = True,
    size: int | None = None,
    unfit: Unfit | None = None,
) -> Iterator[Any]:
    """Read blocks of about ``size`` characters; with ``marks`` gaps of text are left as they are.

    Cells unlike their column count as missing if there is an object to report them to.

    Everything is done by this thread: a reader in another thread would be interrupted inside Python
    code if this process ends early.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    late, beginning = _sniffed(file).late_comments, True
    with _lines(file, errors="strict") as lines:
        for line, block in _blocks(lines, file, size or _block_bytes(file)):
            options = _settings(
                file,
                types,
                columns,
                marks=marks,
                block=len(block) + 1,
                beginning=beginning,
                skip=lambda row: "skip" if _is_noise(row.text, late) else "error",
            )
            try:
                found = arrow.read_csv(pa.BufferReader(block), **options)
            except pa.ArrowInvalid as error:
                if unfit is None or "conversion error to " not in str(error):
                    raise
                place = _Place(file, line, block, beginning)
                found = _leniently(block, options, types, place, unfit)
            beginning = False
            yield found
        if beginning:
            raise ReadError(f"{file} holds no line that could be a header.")


# Blocks without a row, one after the other, at which a file is given up: a packed file of a
# megabyte may hold 10^9 empty lines.
_MOST_EMPTY = 8


def _blocks(lines: Iterable[str], file: AnyFile, size: int) -> Iterator[tuple[int, bytes]]:
    """Cut lines between rows; yield each block with the number of lines before it."""
    dialect = _sniffed(file).dialect.plain
    held: list[str] = []
    n_held = opened = first = empty = 0
    twice = tee(chain(lines, [""]))  # what comes after the last line is outside of quotes
    starts = inside_quotes(twice[0], dialect)
    for number, (line, inside) in enumerate(zip(twice[1], starts, strict=True)):
        opened = (opened or number) if inside else 0
        if inside and (not line or n_held + OF_A_LINE * (number - opened) > size + LONGEST_ROW):
            raise unclosed(str(file), opened, dialect)
        if not inside and (n_held >= size or not line):
            block, held, n_held = "".join(held), [], 0
            if block.strip("\r\n"):
                empty = 0
                yield first, block.encode()
            elif line and (empty := empty + 1) == _MOST_EMPTY:
                raise ReadError(
                    f"{file} has nothing but empty lines for {empty * size:,} characters up to "
                    f"line {number:,}: it is damaged, or made to take long. Remove these lines."
                )
            first = number
        held.append(line)
        n_held += len(line)


@dataclass
class _Place:
    """A block of a file after a number of lines; it may be the beginning."""

    file: AnyFile
    line: int
    block: bytes
    beginning: bool

    @own_property
    def _ends(self) -> list[int]:
        """The line in which each row ends, as far as they can be read."""
        header = int(self.beginning and bool(_sniffed(self.file).dialect.header))
        rows = _rows(self.file, io.StringIO(self.block.decode(), newline=""))
        ends: list[int] = []
        with suppress(csv.Error):  # a cell may be longer than what Python's reader takes
            ends.extend(end for _, end, _ in islice(rows, header, None))
        return ends

    def of(self, row: int) -> str:
        """Say where a row of the block is."""
        name = self.file if isinstance(self.file, MemoryFile) else self.file.name
        if row < len(self._ends):
            return f"line {self.line + self._ends[row]:,} of {name}"
        return f"{name}, behind line {self.line:,}"


def _leniently(
    block: bytes, options: dict[str, Any], types: Any, place: _Place, unfit: Unfit
) -> Any:
    """Read a block in which some cells are not what their columns are, which become gaps."""
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    layout = types if isinstance(types, pa.Schema) else pa.schema(list(types.items()))
    convert = options["convert_options"]
    convert.column_types = {field.name: pa.string() for field in layout}
    table = arrow.read_csv(pa.BufferReader(block), **options)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    decimal = str(_sniffed(place.file).dialect.decimal)
    nulls = _nulls(place.file)
    for field in layout:
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            continue
        gaps = nulls.number_gaps(field.name)
        text = _cells(columns[field.name], gaps)
        values = _read_text(text, field.type, decimal)
        bad = compute.and_(values.is_null(), text.is_valid())
        rows = np.flatnonzero(bad.to_numpy(zero_copy_only=False))
        if rows.size:
            first = int(rows[0])
            unfit(field.name, str(field.type), rows.size, text[first].as_py(), place.of(first))
        columns[field.name] = values
    return pa.Table.from_arrays([*columns.values()], names=[*columns])


def _read_text(text: Any, kind: Any, decimal: str) -> Any:
    """Read cells as values of a type, null where they are none."""
    import pyarrow as pa
    from pyarrow import compute

    if is_number_type(kind):
        return _numbers(text, decimal, kind)
    coded = text.dictionary_encode()
    levels = coded.dictionary.to_pylist()
    if pa.types.is_boolean(kind):
        read = pa.array([_TRUTH.get(level.lower()) for level in levels], kind)
    else:
        read = pa.concat_arrays([one_value(level, kind) for level in levels] or [pa.nulls(0, kind)])
    return compute.take(read, coded.indices)


def _cells(column: Any, gaps: Iterable[str]) -> Any:
    """Return cells as text in one piece, null for those that mean a gap."""
    import pyarrow as pa
    from pyarrow import compute

    text = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    text = compute.utf8_trim_whitespace(text.cast(pa.string()))
    rows = pa.array(np.arange(len(text)))
    return text.take(compute.if_else(compute.is_in(text, pa.array([*gaps])), None, rows))


def _numbers(text: Any, decimal: str, kind: Any) -> Any:
    """Read cells as numbers, whole ones only as long as all are; marks of thousands are known."""
    import pyarrow as pa
    from pyarrow import compute

    coded = text.dictionary_encode()
    levels = coded.dictionary.to_pylist()
    written = NumberForm("," if decimal == "," else ".").read(levels)
    whole = pa.types.is_integer(kind)
    values: list[float | int | None] = []
    for level, number in zip(levels, written, strict=True):
        plain = level.replace(",", ".") if decimal == "," else level
        value: float | int | None = float(plain) if is_number(plain) else float(number)
        if whole and _WHOLE.fullmatch(level) and -(2**63) <= int(level) < 2**63:
            value = int(level)
        if isinstance(value, float) and np.isnan(value):
            value = None
        values.append(value)
    whole = whole and all(value is None or isinstance(value, int) for value in values)
    read = pa.array(
        [v if v is None or whole else float(v) for v in values],
        pa.int64() if whole else pa.float64(),
    )
    return compute.take(read, coded.indices)


def _ends_in_lines(batch: Any, text: Sequence[int]) -> bool:
    """Return whether text of the last row has line ends, as after an unclosed quote."""
    last = batch.slice(batch.num_rows - 1) if batch.num_rows else batch
    return any("\n" in (cell or "") for n in text for cell in last.column(n).to_pylist())


def _with_gaps(table: Any, text: Sequence[int], nulls: NullValues) -> Any:
    """Make gaps of what means a gap in text, too."""
    import pyarrow as pa
    from pyarrow import compute

    columns = list(table.columns)
    rows = pa.array(np.arange(table.num_rows))
    for n in text:
        gaps = pa.array([*nulls.gaps(table.column_names[n])])
        # Select rows with take: if_else is broken in old pyarrow for slices of text arrays.
        columns[n] = columns[n].take(compute.if_else(compute.is_in(columns[n], gaps), None, rows))
    return pa.Table.from_arrays(columns, schema=table.schema)


# -- lines, for messages about a place ---------------------------------------------------------


def _is_noise(text: str, marked: bool) -> bool:
    return not text.strip() or (marked and text.startswith("#"))


@contextmanager
def _lines(file: AnyFile, *, errors: str = "replace") -> Iterator[Iterator[str]]:
    """Open a file as lines of text, those empty that are not to be read."""
    sniffed = _sniffed(file)
    encoding = sniffed.dialect.encoding
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    with as_bytes(file) as source:
        lines = io.TextIOWrapper(source, encoding, errors, newline="")
        if sniffed.clean:
            yield iter(lines)
        elif not sniffed.dialect.rewritten:
            yield blanked(lines, sniffed)
        else:
            yield rewritten(blanked(lines, sniffed), sniffed.dialect, str(file), sniffed.names)


def _rows(file: AnyFile, lines: Iterable[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield first and last line of each row, the header too, and its cells."""
    sniffed = _sniffed(file)
    marked, width = _sniffed(file).late_comments, len(sniffed.names)
    rows, end = reader(lines, sniffed.dialect.plain), 0
    for cells in rows:
        start, end = end + 1, rows.line_num
        if cells and (len(cells) == width or not _is_noise(cells[0], marked)):
            yield start, end, cells


def _values(file: AnyFile, lines: Iterable[str]) -> Iterator[tuple[int, int, list[str]]]:
    return islice(_rows(file, lines), int(bool(_sniffed(file).dialect.header)), None)


def _refuse_ragged(file: AnyFile) -> None:
    """Raise for the first line with another number of cells than there are columns."""
    sniffed, end = _sniffed(file), 0
    dialect, width = sniffed.dialect, len(sniffed.names)
    try:
        with _lines(file) as lines:
            for start, end, cells in _values(file, lines):  # noqa: B007
                if len(cells) != width:
                    break
            else:
                return
    except csv.Error:  # a cell without an end, or nearly
        raise unclosed(str(file), end + 1, dialect) from None
    if start < end:
        with _lines(file) as lines:
            refuse_unclosed(lines, sniffed, str(file))
    goes_on = f" (it goes on to line {end:,}: is a quote not closed?)" if start < end else ""
    one = len(cells) == 1
    raise ReadError(
        Advice(
            f"{file}: line {start:,}{goes_on} has {len(cells):,} cell{'s' * (not one)}, but there "
            f"{'are' if width != 1 else 'is'} {width:,} column{'s' * (width != 1)}, separated by "
            f"{dialect.separator}. Mend the line; cells that hold such must stand between quotes. "
            "If something else separates the columns, say so with ",
            advise("delimiter"),
            ".",
        )
    )


def _refuse_bad_bytes(file: AnyFile) -> None:
    """Raise for the first line with bytes that are not in the encoding."""
    encoding = str(_sniffed(file).dialect.encoding)
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with as_bytes(file) as source:
        piece = b"more"
        while piece:
            piece = source.read(_BLOCK_BYTES)
            held = decoder.getstate()
            try:
                line += decoder.decode(piece, not piece).count("\n")
            except UnicodeDecodeError as error:
                decoder.setstate(held)
                before = codecs.getincrementaldecoder(encoding)("replace")
                before.setstate(held)
                good = max(0, error.start - len(held[0]))
                line += before.decode(piece[:good]).count("\n")
                raise bad_bytes(str(file), line, encoding) from None
