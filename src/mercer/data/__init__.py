"""Streams of data: reading, shuffling, preprocessing and evaluation in constant memory."""

from mercer.data.audit import ColumnAudit, TableAudit
from mercer.data.dialect import CsvDialect, CsvPath
from mercer.data.evaluation import ProgressiveResult, progressive
from mercer.data.preprocessing import TablePreprocessor
from mercer.data.shuffle import shuffled
from mercer.data.sources import Stream, stream
from mercer.data.tables import count_rows, read_tables, schema, sniff_csv
from mercer.data.tasks import TaskGuess, guess_task, infer_task

__all__ = [
    "ColumnAudit",
    "CsvDialect",
    "CsvPath",
    "ProgressiveResult",
    "Stream",
    "TableAudit",
    "TablePreprocessor",
    "TaskGuess",
    "count_rows",
    "guess_task",
    "infer_task",
    "progressive",
    "read_tables",
    "schema",
    "shuffled",
    "sniff_csv",
    "stream",
]
