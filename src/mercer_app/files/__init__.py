"""Rows from files and other sources, a bounded number at a time."""

from mercer_app.files.dialect import CsvDialect, CsvPath
from mercer_app.files.sources import Stream, shuffled, stream
from mercer_app.files.tables import count_rows, read_tables, schema, sniff_csv

__all__ = [
    "CsvDialect",
    "CsvPath",
    "Stream",
    "count_rows",
    "read_tables",
    "schema",
    "shuffled",
    "sniff_csv",
    "stream",
]
