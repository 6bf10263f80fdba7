"""The kinds of files that hold tables: schema, record batches, number of rows.

Errors are pyarrow's own; ``tables.py`` says which file and column they concern.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

__all__ = ["FORMATS", "INFERENCE_BYTES", "Csv", "Format", "ending_of", "format_of"]

INFERENCE_BYTES = 2**23  # of a CSV file, from which the types of its columns are inferred
_BLOCK_BYTES = 2**20  # of a CSV file, parsed at once; longer than any row
_BUFFER_BYTES = 2**16  # of a Parquet column chunk, decompressed at once


class Format(Protocol):
    """What reading a kind of file takes."""

    @staticmethod
    def schema(file: Path, types: Mapping[str, Any]) -> Any: ...

    @staticmethod
    def batches(file: Path, layout: Any, rows: int) -> Iterator[Any]: ...

    @staticmethod
    def count(file: Path) -> int | None: ...


class _Parquet:
    @staticmethod
    def schema(file: Path, types: Mapping[str, Any]) -> Any:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as source:
            return source.schema_arrow

    @staticmethod
    def batches(file: Path, layout: Any, rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        # Buffered, not pre-buffered: a file may be one row group larger than the memory.
        with pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False) as source:
            yield from source.iter_batches(rows, columns=layout.names, use_threads=False)

    @staticmethod
    def count(file: Path) -> int | None:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as source:
            return int(source.metadata.num_rows)


class _Ipc:
    @staticmethod
    def _open(file: Path, fields: Sequence[int] = ()) -> Any:
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(fields))
        try:
            return pa.ipc.open_file(pa.memory_map(os.fspath(file)), options=options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(pa.memory_map(os.fspath(file)), options=options)

    @staticmethod
    def schema(file: Path, types: Mapping[str, Any]) -> Any:
        with _Ipc._open(file) as source:
            return source.schema

    @staticmethod
    def batches(file: Path, layout: Any, rows: int) -> Iterator[Any]:
        with _Ipc._open(file) as source:
            if hasattr(source, "num_record_batches"):
                for index in range(source.num_record_batches):
                    yield source.get_batch(index)
            else:
                yield from source

    @staticmethod
    def count(file: Path) -> int | None:
        # One column is enough; the others need not be decompressed.
        with _Ipc._open(file, fields=[0]) as source:
            if not hasattr(source, "num_record_batches"):
                return None
            batches = (source.get_batch(index) for index in range(source.num_record_batches))
            return sum(int(batch.num_rows) for batch in batches)


class Csv:
    @staticmethod
    def _delimiter(file: Path) -> str:
        return "\t" if (ending_of(file) or "").startswith(".tsv") else ","

    @staticmethod
    def _inferred(file: Path, types: Any) -> Any:
        import pyarrow as pa

        # The parser reads 32 blocks ahead, so it is given no more than the block wanted and enough
        # of the next one to see that the last row of the block may be incomplete.
        with pa.input_stream(os.fspath(file), compression="detect") as source:
            beginning = pa.py_buffer(source.read(INFERENCE_BYTES + _BLOCK_BYTES))
        with Csv._open(file, pa.BufferReader(beginning), types, INFERENCE_BYTES) as rows:
            return rows.schema

    @staticmethod
    def _open(
        file: Path, source: Any, types: Any, block_bytes: int, columns: Sequence[str] = ()
    ) -> Any:
        from pyarrow import csv as arrow

        return arrow.open_csv(
            source,
            read_options=arrow.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=arrow.ParseOptions(
                delimiter=Csv._delimiter(file), newlines_in_values=True
            ),
            convert_options=arrow.ConvertOptions(
                column_types=types, include_columns=list(columns), strings_can_be_null=True
            ),
        )

    @staticmethod
    def schema(file: Path, types: Mapping[str, Any]) -> Any:
        import pyarrow as pa

        fields = list(Csv._inferred(file, types))
        empty = [pa.types.is_null(field.type) for field in fields]
        return pa.schema(
            [f.with_type(pa.float64()) if e else f for f, e in zip(fields, empty, strict=True)]
        )

    @staticmethod
    def batches(file: Path, layout: Any, rows: int) -> Iterator[Any]:
        with Csv._open(file, file, layout, _BLOCK_BYTES, layout.names) as source:
            yield from source

    @staticmethod
    def count(file: Path) -> int | None:
        return None

    @staticmethod
    def line_of(file: Path, row: int) -> int:
        """Return the number of the line in which a row ends, the first being 1."""
        import pyarrow as pa

        with pa.input_stream(os.fspath(file), compression="detect") as source:
            text = io.TextIOWrapper(source, "utf-8", "replace", newline="")
            lines = csv.reader(text, delimiter=Csv._delimiter(file))
            next(islice((line for line in lines if line), row + 1, None), None)
            return lines.line_num

    @staticmethod
    def column_name(file: Path, index: int) -> str:
        return str(Csv._inferred(file, None).names[index])


FORMATS: dict[str, type[Format]] = {
    ".parquet": _Parquet,
    ".pq": _Parquet,
    ".csv": Csv,
    ".csv.gz": Csv,
    ".tsv": Csv,
    ".tsv.gz": Csv,
    ".arrow": _Ipc,
    ".feather": _Ipc,
    ".ipc": _Ipc,
}


def ending_of(file: Path) -> str | None:
    """Return the supported ending of a file's name, or None."""
    name = file.name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending)), None)


def format_of(file: Path) -> type[Format]:
    """Return the format that a file's name ends in.

    Raises
    ------
    ValueError
        If the ending is not supported.
    """
    ending = ending_of(file)
    if ending is None:
        raise ValueError(
            f"{file}: the ending {file.suffix!r} is not supported. Supported are "
            f"{', '.join(FORMATS)}."
        )
    return FORMATS[ending]
