"""Tables as strangers may send them: CSV, JSON lines, Parquet and Arrow, altered and read.

*Tables.* They begin as sixty rows of numbers, categories, free text, dates, truth values and gaps.
Some things are then altered: cells, names, rows and columns; how CSV and JSON are written; types of
Parquet and Arrow; bits, words, cuts and splices of any file, also below its compression.

*The promise.* `mercer fit`, `predict` and `stream` end with one clear line about the error and
code 2, or with predictions that are finite. Nothing takes more than some seconds or 2 GiB. Memory
ends there, and tables that are refused for want of it are counted apart. pyarrow reads in a process
of its own, so that a crash is a case like others.

To run it:

    python reliability/tables.py                     # long: 100,000 tables
    python reliability/tables.py --short             # seconds
    python reliability/tables.py --case 1234         # one table, with what the command says
    python reliability/tables.py --case 1234 --to broken.csv     # and the table
"""

from __future__ import annotations

import os

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve what they do not use

import bz2
import contextlib
import datetime as dt
import gzip
import importlib
import io
import json
import shutil
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mercer_app.cli import main as mercer

sys.path.insert(0, str(_rig.ROOT / "tests"))
sent = importlib.import_module("sender").sent

MEMORY = 2 * 2**30
LONGEST_S = 15.0
N = 60
QUICK = ("--expansion", "budget", "--max-size", "9")
Random = np.random.Generator


def _base() -> dict[str, list[Any]]:
    """Columns of the table to begin with."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, N)).round(3)
    words = ["old", "new", "lake", "garden", "quiet", "street"]
    first = dt.date(2024, 1, 1)
    return {
        "x": x.tolist(),
        "z": [None if i % 9 == 4 else value for i, value in enumerate(z.tolist())],
        "count": rng.integers(0, 500, N).tolist(),
        "town": [("Bern", "Bonn", "Ulm")[i % 3] for i in range(N)],
        "note": [" ".join(rng.choice(words, 5)) + f" {i}" for i in range(N)],
        "when": [first + dt.timedelta(int(day)) for day in rng.integers(0, 700, N)],
        "lift": [bool(value) for value in rng.integers(0, 2, N)],
        "y": (3.0 * x + z).round(2).tolist(),
        "kind": ["yes" if a > 0 else "no" for a in x],
    }


BASE = _base()
TARGETS = ("y", "kind")

# -- text -----------------------------------------------------------------------------------------

#: Cells of CSV. Long ones are made when they are put.
CELLS = (
    *("", " ", "0", "-0", "1e308", "-1e308", "1e309", "1e400", "1e-400", "5e-324", "1e155"),
    "1e-160",
    *("nan", "NaN", "NAN", "-nan", "inf", "Inf", "-inf", "+Infinity", "-INFINITY", "1.#INF", "∞"),
    *("NA", "null", "None", "#N/A", "#REF!", "?", "-", "--", ".", "1.", ".5", "+1", "1e5", "1E+05"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" * 400, "0" * 400),
    *(
        "0x1F",
        "1_000",
        "1,5",
        "1.234,56",
        "1'000",
        "12K",
        "50 %",
        "$1,200",
        "(5)",
        "½",
        "٣",
        "\uff11",
    ),
    *("true", "FALSE", "yes", "'", '"', '""', '"a', 'a"b', '"a"b', "a,b", "a;b", "a\tb", "\\"),
    '\\"',
    *("0001-01-01", "9999-12-31", "10000-01-01", "2024-02-30", "00/00/0000", "31.12.2023"),
    "20240131",
    *("2024-01-01T24:00:00", "1677-09-20", "2262-04-12", "25:61", "23:59:60", "1 Jan 2024"),
    "-1-1-1",
    *("2024-01-01T00:00:00+99:99", "2024-01-01 00:00:00.123456789 America/New_York", "IST"),
    *("\x00", "a\x00b", "\x1b[31mred", "\r", "a\nb", "\u2028", "\ufeff", "\u202e", "\ud800", "😀"),
    "ß",
    *("=1+1", "<script>", "{", "[1, 2]", '{"a": 1}', "%s%n", "../../etc/passwd", "é" * 300),
)
LONG = (1_000, 70_000, 2_000_000)
#: Values of JSON, as they are written.
JSON = (
    *("null", "true", "false", "0", "-0", "-0.0", "1e308", "1e309", "-1e400", "5e-324", "1e-400"),
    *("NaN", "Infinity", "-Infinity", "nan", "1" * 400, "1" * 5000, "9223372036854775808", "0x1"),
    *('""', '"a"', '"nan"', '"Infinity"', '"1e999"', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"'),
    *("[]", "{}", "[1]", '{"a": 1}', "[[[]]]", "01", "1.", ".5", "+1", "1_0", "'a'", ""),
    "undefined",
    *("[" * 50 + "]" * 50, "[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000),
    *("[" * 200_000, '"' + "a" * 2_000_000 + '"', '"2024-01-01"', '"9999-12-31T23:59:59Z"'),
)
NAMES = (
    *("", " ", "x", "y", "kind", "X", "x ", "\x00", '"', "a,b", "a\nb", "\x1b[31m", "=x", "{"),
    "[x]",
    *("nan", "1", "x:day", "é", "😀", "\u202ex", "a" * 70_000, "prediction", "(target)", "row"),
    "sep=;",
)
ENCODINGS = ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "utf-7", "cp500", "shift_jis")


@dataclass
class Text:
    """Cells as text, and how they are written."""

    names: list[str]
    rows: list[list[str]]
    delimiter: str = ","
    end: str = "\n"
    quote: str = '"'
    quoted: float = 0.0  # share of cells that have quotes without need
    header: bool = True
    encoding: str = "utf-8"
    before: str = ""
    after: str = ""

    def content(self, rng: Random) -> bytes:
        """The file."""

        def cell(value: str) -> str:
            need = any(mark in value for mark in (self.delimiter, self.quote, "\n", "\r"))
            if (need and rng.random() < 0.95) or rng.random() < self.quoted:
                return self.quote + value.replace(self.quote, self.quote * 2) + self.quote
            return value

        lines = [self.names] if self.header else []
        text = self.end.join(self.delimiter.join(map(cell, row)) for row in (*lines, *self.rows))
        whole = self.before + text + self.end + self.after
        return whole.encode(self.encoding, "surrogatepass" if "utf" in self.encoding else "replace")


def _one(rng: Random, some: Any) -> Any:
    return some[int(rng.integers(len(some)))]


def _written(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def text() -> Text:
    """The table to begin with, as text."""
    return Text(
        list(BASE), [[_written(value) for value in row] for row in zip(*BASE.values(), strict=True)]
    )


def _odd_cell(rng: Random) -> str:
    if rng.random() < 0.01:
        return str(_one(rng, ("a", "9", '"', "\t", " ", "a b "))) * int(_one(rng, LONG))
    return str(_one(rng, CELLS))


def put_cells(rng: Random, table: Text) -> None:
    for _ in range(int(rng.integers(1, 4))):
        row = _one(rng, table.rows) if table.rows else table.names
        if row:
            row[int(rng.integers(len(row)))] = _odd_cell(rng)


def put_column(rng: Random, table: Text) -> None:
    """Cells of a column alike, or each an odd one, in all rows or in some."""
    number, alike, share = (
        int(rng.integers(len(table.names) or 1)),
        rng.random() < 0.5,
        rng.random(),
    )
    cell = str(_one(rng, CELLS))
    for row in table.rows:
        if number < len(row) and rng.random() < 2 * share:
            row[number] = cell if alike else str(_one(rng, CELLS))


def put_name(rng: Random, table: Text) -> None:
    if table.names:
        table.names[int(rng.integers(len(table.names)))] = str(_one(rng, NAMES))


def ragged(rng: Random, table: Text) -> None:
    for _ in range(int(rng.integers(1, 4))):
        if table.rows:
            row = _one(rng, table.rows)
            more = [str(_one(rng, CELLS))] * int(_one(rng, (1, 3, 5_000)))
            row[:] = row + more if rng.random() < 0.5 else row[:-1]


def few_rows(rng: Random, table: Text) -> None:
    table.rows = table.rows[: int(_one(rng, (0, 1, 2, 3, 5, 9)))]


def few_columns(rng: Random, table: Text) -> None:
    width = int(rng.integers(len(table.names) + 1))
    table.names, table.rows = table.names[:width], [row[:width] for row in table.rows]


def many_columns(rng: Random, table: Text) -> None:
    n = int(_one(rng, (100, 500)))
    kept = table.rows[:20]
    cells = [str(_one(rng, CELLS)) if rng.random() < 0.3 else "1.5" for _ in kept]
    same = rng.random() < 0.2
    table.names = table.names + ["c" if same else f"c{i}" for i in range(n)]
    table.rows = [row + [cell] * n for row, cell in zip(kept, cells, strict=True)]


def repeat_rows(rng: Random, table: Text) -> None:
    table.rows = [list(row) for row in (table.rows[: int(_one(rng, (1, 60)))] * 5)[:300]]


def shuffle(rng: Random, table: Text) -> None:
    if table.rows:
        rng.shuffle(_one(rng, table.rows))


def way_of_writing(rng: Random, table: Text) -> None:
    match int(rng.integers(9)):
        case 0:
            table.delimiter = str(
                _one(rng, (";", "\t", "|", " ", ":", "~", ",,", "\x01", "\x00", "é"))
            )
        case 1:
            table.end = str(_one(rng, ("\r\n", "\r", "\n\n", "\r\r\n", "\x00\n", "\u2028", "\x0b")))
        case 2:
            table.quote = str(_one(rng, ("'", "`", "“")))
            table.quoted = 0.5
        case 3:
            table.quoted = float(_one(rng, (0.1, 1.0)))
        case 4:
            table.header = False
        case 5:
            table.encoding = str(_one(rng, ENCODINGS))
        case 6:
            table.before = str(_one(rng, ("\ufeff", "\ufeff\ufeff", "sep=;\n", "sep=", "# a\n",
                                          "\n\n", "\x00",
                                          "a title\n", '"', "\x1a",
                                          "," * 5_000 + "\n")))  # fmt: skip
        case 7:
            table.after = str(
                _one(rng, ('"', "\x1a", "\x00", "x", ",,,", "\n\n\n", "total,60\n", '"' * 5_001))
            )
        case _:
            table.delimiter, table.quoted = ";", 0.3
            table.rows = [[cell.replace(".", ",") for cell in row] for row in table.rows]


TEXT_ALTERATIONS: tuple[Callable[[Random, Text], None], ...] = (
    *(put_cells, put_cells, put_cells, put_column, put_column, put_column, put_name, ragged),
    few_rows,
    *(few_columns, many_columns, repeat_rows, shuffle, way_of_writing, way_of_writing),
    way_of_writing,
)


def csv_file(rng: Random) -> tuple[str, bytes]:
    """The ending and the bytes of a text table."""
    table = text()
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3]))):
        _one(rng, TEXT_ALTERATIONS)(rng, table)
    content = table.content(rng)
    if rng.random() < 0.3:
        content = bytes_altered(rng, content)
    ending = str(
        _one(rng, (".csv", ".csv", ".csv", ".csv.gz", ".csv.gz", ".csv.bz2", ".tsv", ".txt"))
    )
    if ending.endswith((".gz", ".bz2")):
        pack = gzip.compress if ending.endswith(".gz") else bz2.compress
        if rng.random() < 0.03:
            more = bytes(_one(rng, (b"a", b"1,", b"1\n", b"\n")))
            content += more * (2**26 if ending.endswith(".gz") else 2**22)
        content = pack(content, 1)
        if rng.random() < 0.5:
            content = content * 2 if rng.random() < 0.2 else bytes_altered(rng, content)
    return ending, content


def json_file(rng: Random) -> tuple[str, bytes]:
    """The ending and the bytes of JSON lines."""
    names = list(BASE)
    rows = [
        {name: json.dumps(value, default=str) for name, value in zip(names, row, strict=True)}
        for row in zip(*BASE.values(), strict=True)
    ][: int(_one(rng, (0, 1, 12, 25, 25)))]
    for _ in range(int(rng.choice([0, 1, 1, 2, 3]))):
        if not rows:
            break
        name = str(_one(rng, names))
        match int(rng.integers(6)):
            case 0:
                for row in rows:
                    if name in row and rng.random() < 0.5:
                        row[name] = str(_one(rng, JSON))
            case 1:
                value = str(_one(rng, JSON))
                for row in rows:
                    row[name] = value
            case 2:
                _one(rng, rows).pop(name, None)
            case 3:
                _one(rng, rows)[str(_one(rng, NAMES))] = str(_one(rng, JSON))
            case 4:
                _one(rng, rows).update((f"c{i}", "1.5") for i in range(int(_one(rng, (1, 2_000)))))
            case _:
                _one(rng, rows)[name] = str(_one(rng, JSON))

    def line(row: dict[str, str]) -> str:
        inside = ", ".join(f"{json.dumps(name)}: {value}" for name, value in row.items())
        if rng.random() < 0.01:
            inside += f', "x": {_one(rng, JSON)}'
        return "{" + inside + "}"

    lines = [line(row) for row in rows]
    if rng.random() < 0.2:
        lines.insert(int(rng.integers(len(lines) + 1)), str(_one(rng, JSON)))
    end = str(_one(rng, ("\n", "\n", "\n", "\r\n", "\r", "\n\n", " ")))
    content = (str(_one(rng, ("", "", "", "\ufeff", "[", "\x00"))) + end.join(lines) + end).encode(
        str(_one(rng, ("utf-8", "utf-8", "utf-8", "utf-16", "latin-1"))), "replace"
    )
    return ".jsonl", bytes_altered(rng, content) if rng.random() < 0.3 else content


# -- tables of types ------------------------------------------------------------------------------

_WORDS = (0, 1, -1, 2, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**40, 2**53, 2**63 - 1, -(2**63), 10**9)
_NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e155, -0.0, 1.0)


def _repeated(values: list[Any], kind: Any = None) -> Any:
    return pa.array([values[i % len(values)] for i in range(N)], kind)


#: Columns of other types.
ARRAYS: tuple[Callable[[Random], Any], ...] = (
    lambda rng: pa.nulls(N),
    lambda rng: _repeated([float(x) for x in rng.choice(_NUMBERS, 3)], pa.float64()),
    lambda rng: _repeated([float(x) for x in rng.choice(_NUMBERS, 3)], pa.float32()),
    lambda rng: pa.array(np.float16([np.nan, np.inf, 65504.0] * (N // 3))),
    lambda rng: _repeated([2**63 - 1, -(2**63), 0, None], pa.int64()),
    lambda rng: _repeated([2**64 - 1, 0, None], pa.uint64()),
    lambda rng: _repeated([-128, 127], pa.int8()),
    lambda rng: _repeated([Decimal("9" * 38), Decimal(0), None], pa.decimal128(38, 0)),
    lambda rng: _repeated([Decimal("1e-70"), Decimal(1)], pa.decimal256(76, 70)),
    lambda rng: _repeated(["", "a\x00b", "\x1b[31m", "😀", None, "nan", "1e999"]),
    lambda rng: _repeated(["a" * int(_one(rng, LONG)), "b"], pa.large_string()),
    lambda rng: _repeated(["a", None, "long enough to lie elsewhere"], pa.string_view()),
    lambda rng: _repeated([b"\xff\xfe", b"", None], pa.binary()),
    lambda rng: _repeated([b"abcd", None], pa.binary(4)),
    lambda rng: pa.array([b"\xff\xfe\xff"] * N, pa.binary()).view(pa.string()),
    lambda rng: _repeated([[1.0, 2.0], [], None], pa.list_(pa.float64())),
    lambda rng: _repeated([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    lambda rng: _repeated([{"a": 1, "b": {"c": "d"}}, None]),
    lambda rng: _repeated([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    lambda rng: pa.array([_WORDS[i % 9] for i in range(N)], pa.int64()).view(pa.timestamp("ns")),
    lambda rng: pa.array([_WORDS[i % 14] for i in range(N)], pa.int64()).view(pa.timestamp("s")),
    lambda rng: _repeated([2**62, -(2**62)], pa.int64()).view(pa.timestamp("us", "Europe/Berlin")),
    lambda rng: pa.array([_WORDS[i % 9] for i in range(N)], pa.int32()).view(pa.date32()),
    lambda rng: _repeated([2**62, 0], pa.int64()).view(pa.date64()),
    lambda rng: _repeated([-5, 86_400, 2**31 - 1], pa.int32()).view(pa.time32("s")),
    lambda rng: _repeated([2**62, -1], pa.int64()).view(pa.duration("s")),
    lambda rng: _repeated(["a", "b", None]).dictionary_encode(),
    lambda rng: pa.DictionaryArray.from_arrays(
        pa.array([0, None] * (N // 2)), pa.array([None, "a"])
    ),
    lambda rng: pa.DictionaryArray.from_arrays(pa.array([0, 1] * (N // 2)), pa.array(["a", "a"])),
    lambda rng: pa.DictionaryArray.from_arrays(
        pa.array([0, 1] * (N // 2)), pa.array([1.5, np.nan])
    ),
    lambda rng: pa.DictionaryArray.from_arrays(
        pa.array([None] * N, pa.int8()), pa.array([], pa.string())
    ),
    lambda rng: pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([1.5])),
    lambda rng: pa.UnionArray.from_sparse(
        pa.array([0, 1] * (N // 2), pa.int8()), [pa.array([1.0] * N), pa.array(["a"] * N)]
    ),
    lambda rng: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16))),
    lambda rng: pa.array([pa.MonthDayNano([1, 2, 3])] * N),
)


def typed() -> Any:
    """The table to begin with, with types."""
    return pa.table(BASE)


def arrow_table(rng: Random) -> Any:
    """A table of odd columns, names and sizes."""
    table = typed()
    if rng.random() < 0.3:
        number = table.column_names.index("town")
        table = table.set_column(number, "town", table.column("town").dictionary_encode())
    for _ in range(int(rng.choice([0, 1, 1, 2, 3]))):
        number = int(rng.integers(max(table.num_columns, 1)))
        match int(rng.integers(8)):
            case 0 | 1 | 2 | 3 if table.num_rows == N and table.num_columns:
                name = table.column_names[number]
                table = table.set_column(number, name, _one(rng, ARRAYS)(rng))
            case 4 if table.num_columns:
                names = list(table.column_names)
                names[number] = str(_one(rng, NAMES))
                table = table.rename_columns(names)
            case 5:
                table = table.slice(0, int(_one(rng, (0, 1, 2, 5))))
            case 6:
                table = table.select(list(range(number)))
            case 7 if table.num_columns:
                for i in range(int(_one(rng, (1, 1_000)))):
                    table = table.append_column(f"c{i}", table.column(number))
            case _:
                said = str(_one(rng, ("", "{}", '{"columns": [1]}', "[" * 5_000)))
                table = table.replace_schema_metadata({"pandas": said, "ARROW:schema": said})
    return table


def parquet_file(rng: Random) -> tuple[str, bytes]:
    """The ending and the bytes of a Parquet file."""
    sink = io.BytesIO()
    options: dict[str, Any] = {
        "compression": str(_one(rng, ("none", "snappy", "gzip", "zstd", "lz4", "brotli"))),
        "row_group_size": int(_one(rng, (1, 7, 1_000))),
        "use_dictionary": bool(rng.integers(2)),
        "data_page_version": str(_one(rng, ("1.0", "2.0"))),
        "version": str(_one(rng, ("1.0", "2.6"))),
    }
    try:
        pq.write_table(arrow_table(rng), sink, **options)
    except (pa.ArrowException, NotImplementedError, ValueError):  # types that Parquet lacks
        sink = io.BytesIO()
        pq.write_table(typed(), sink, **options)
    content = sink.getvalue()
    for _ in range(int(_one(rng, (0, 0, 1, 1, 1, 2)))):
        size = int.from_bytes(content[-8:-4], "little")
        if rng.random() < 0.5 and size < len(content) - 8:  # the end, which says where all is
            start = len(content) - 8 - size
            end = bytes_altered(rng, content[start:-8])
            content = content[:start] + end + struct.pack("<I", len(end)) + content[-4:]
        else:
            content = bytes_altered(rng, content)
    return str(_one(rng, (".parquet", ".pq"))), content


def arrow_file(rng: Random, stream: bool = False) -> tuple[str, bytes]:
    """The ending and the bytes of an Arrow file or stream."""
    table, sink = arrow_table(rng), io.BytesIO()
    packed = str(_one(rng, ("", "", "lz4", "zstd"))) or None
    make = pa.ipc.new_stream if stream or rng.random() < 0.3 else pa.ipc.new_file
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as writer:
        writer.write_table(table, max_chunksize=int(_one(rng, (7, 1_000))))
    content = sink.getvalue()
    if rng.random() < 0.7:
        content = bytes_altered(rng, content)
    return str(_one(rng, (".arrow", ".feather", ".ipc"))), content


def bytes_altered(rng: Random, content: bytes) -> bytes:
    """Alter bits, bytes and words; cut, insert, repeat."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(max(len(changed), 1)))
        match int(rng.integers(8)):
            case 0 if changed:
                changed[at] ^= 1 << int(rng.integers(8))
            case 1 if changed:
                changed[at] = int(_one(rng, b"\x00\xff\x7f\x80\n\r\",;\t\\'0e-{[\x1b"))
            case 2:
                del changed[at : at + int(rng.integers(1, 100))]
            case 3:
                changed[at:at] = changed[at : at + int(rng.integers(1, 200))]
            case 4 | 5:  # a word of a header or of data, in its place
                size, word = (4, "<i") if rng.random() < 0.6 else (8, "<q")
                at -= at % size
                value = int(_one(rng, _WORDS))
                if size == 4:
                    value = (value + 2**31) % 2**32 - 2**31
                if at + size <= len(changed):
                    changed[at : at + size] = struct.pack(word, value)
            case 6:
                del changed[at:]
            case _:
                start = int(rng.integers(max(len(changed), 1)))
                changed[at : at + 64] = changed[start : start + 64]
    return bytes(changed)


# -- cases ----------------------------------------------------------------------------------------


@dataclass
class Told:
    """What a command said."""

    code: int
    words: str


@dataclass
class Case:
    """A table and the commands that read it."""

    way: str
    ending: str
    content: bytes
    options: list[str] = field(default_factory=list)
    target: str = "y"


def case_of(number: int) -> Case:
    """What a case is."""
    rng = np.random.default_rng([57, number])
    target = str(_one(rng, TARGETS))
    way = str(_one(rng, ("fit", "fit", "predict", "predict", "stream", "stream", "socket")))
    if way == "socket":
        made = arrow_file(rng, stream=True)
    else:
        makers = [csv_file, csv_file, parquet_file, arrow_file, json_file]
        maker = makers[int(rng.integers(5 if way == "stream" else 4))]
        made = json_file(rng) if way == "stream" and rng.random() < 0.4 else maker(rng)
    options: list[str] = []
    if way == "fit":
        other = TARGETS[1 - TARGETS.index(target)]
        options += [] if rng.random() < 0.1 else QUICK
        options += ["--exclude", other] if rng.random() < 0.5 else []
    if way == "predict":
        options += ["--strict"] if rng.random() < 0.2 else []
    if way in ("stream", "socket"):
        options += ["--skip-bad"] if rng.random() < 0.6 else []
        task = "regression" if target == "y" else "classification"
        options += ["--task", task] if rng.random() < 0.3 else []
        options += ["--expansion", "komp", "--max-size", "9"] if rng.random() < 0.2 else []
    elif rng.random() < 0.1 and made[0].startswith((".csv", ".t")):
        options += [
            *_one(rng, (("--no-header",), ("--encoding", str(_one(rng, ENCODINGS))),
                        ("--delimiter", str(_one(rng, (";", "whitespace", "|")))), ("--decimal",
                        "comma"),
                        ("--escape", "backslash")))
        ]  # fmt: skip
    return Case(way, *made, options, target)


SHOWN: list[str] = []  # by the commands of a case, for `--case`


def said_by(*words: object) -> Told:
    """Run the command in this process; its code and what it wrote to standard error."""
    error = io.StringIO()
    output = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(output):
        try:
            mercer([str(word) for word in words])
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
    SHOWN.append(error.getvalue())
    return Told(int(code), error.getvalue())


@cache
def model(target: str) -> Path:
    """A model of the table to begin with."""
    path = _rig.scratch() / "base.csv"
    path.write_bytes(text().content(np.random.default_rng(0)))
    out = _rig.scratch() / f"{target}.mercer"
    other = TARGETS[1 - TARGETS.index(target)]
    quick = QUICK if target == "y" else ()
    told = said_by("fit", path, "--target", target, "--exclude", other, "--out", out, *quick)
    assert told.code == 0, told.words
    return out


def check_said(told: Told) -> bool:
    """Whether the command succeeded; an exception if it did not say clearly why not."""
    words = told.words
    if told.code not in (0, 2) or "Traceback" in words or "error: unexpected" in words:
        raise RuntimeError(f"code {told.code}: {words[-300:]!r}")
    odd = {mark for mark in words if not mark.isprintable() and mark not in "\n\t"}
    if odd:
        raise RuntimeError(f"control characters {sorted(odd)!r} are shown: {words[-300:]!r}")
    if told.code == 2:
        errors = [line for line in words.splitlines() if line.startswith("error: ")]
        if len(errors) != 1 or not 20 < len(errors[0]) < 2_000:
            raise RuntimeError(f"not one clear line: {words[-300:]!r}")
    return told.code == 0


def check_finite(path: Path) -> None:
    """Raise RuntimeError if a prediction in a file is not finite."""
    if path.suffix == ".jsonl":
        for line in path.read_text().splitlines():
            values = json.loads(line, parse_constant=float)
            if not np.isfinite([v for v in values.values() if isinstance(v, float)]).all():
                raise RuntimeError(f"a prediction is not finite: {line[:200]}")
        return
    table = pq.read_table(path)
    if not table.num_rows:
        raise RuntimeError("there are no predictions")
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type) and not np.isfinite(column.to_numpy()).all():
            raise RuntimeError(f"{name} is not finite")


def _run(case: Case, folder: Path) -> str:
    path, out = folder / f"table{case.ending}", folder / "out.mercer"
    path.write_bytes(case.content)
    answers = folder / "answers.parquet"
    if case.way in ("stream", "socket"):
        answers = folder / "answers.jsonl"
        rows = (
            sent(case.content, folder / "s")
            if case.way == "socket"
            else contextlib.nullcontext(path)
        )
        with rows as source:
            told = said_by(
                *("stream", source, "--target", case.target, "--out", out, "--predictions"),
                answers,
                *case.options,
            )
    elif case.way == "fit":
        told = said_by("fit", path, "--target", case.target, "--out", out, *case.options)
        if check_said(told):
            how = [word for word in case.options if word.startswith("--no-h")]
            for name in ("encoding", "delimiter", "decimal", "escape"):
                if f"--{name}" in case.options:
                    at = case.options.index(f"--{name}")
                    how += case.options[at : at + 2]
            told = said_by("predict", out, path, "--out", answers, *how)
    else:
        told = said_by("predict", model(case.target), path, "--out", answers, *case.options)
    if not check_said(told):
        wants = any(words in told.words for words in ("alloc of size", "memory"))
        return f"{case.way} refused" + (", out of memory" if wants else "")
    if case.way in ("fit", "predict") or answers.exists():  # a stream may ask for nothing
        check_finite(answers)
    return f"{case.way} done"


def run(number: int) -> str:
    """Let commands read the table of a case; how it ended."""
    case = case_of(number)
    for again in (False, True):
        SHOWN.clear()
        folder = _rig.scratch() / f"{os.getpid()}-{number}-{again}"
        folder.mkdir()
        start = time.perf_counter()
        try:
            outcome = _run(case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        took = time.perf_counter() - start
        if took < LONGEST_S:  # what is compiled on the first call is not the table's doing
            return outcome
    raise RuntimeError(f"took {took:.1f} s: {outcome}")


def main(arguments: list[str]) -> int:
    """Run the cases and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tables", type=int)
    parser.add_argument("--case", type=int)
    parser.add_argument("--to", type=Path, help="where to write the table of --case")
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    report = _rig.Report("tables", options)
    if options.case is not None:
        case = case_of(options.case)
        print(case.way, case.target, case.ending, *case.options, f"{len(case.content):,} bytes")
        if options.to:
            options.to.write_bytes(case.content)
        try:
            print(run(options.case))
        finally:
            print(*SHOWN)
        return 0
    for target in TARGETS:
        model(target)
    n = options.tables if options.tables is not None else 300 if options.short else 100_000
    tally = _rig.each_case(run, range(options.first, options.first + n), MEMORY)
    report.add_tally("tables", tally)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
