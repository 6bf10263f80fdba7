"""Streams of data: reading, shuffling, preprocessing and evaluation in constant memory."""

from mercer.data.changing import (
    ChangingStream,
    make_moving_centers,
    make_rotating_plane,
    make_sea,
    make_sine,
)
from mercer.data.dialect import CsvDialect, CsvPath
from mercer.data.evaluation import ProgressiveResult, progressive
from mercer.data.preprocessing import TablePreprocessor
from mercer.data.samples import load_parquet_dataset, make_multidist
from mercer.data.shuffle import shuffled
from mercer.data.sources import Stream, stream
from mercer.data.tables import count_rows, read_tables, schema, sniff_csv
from mercer.data.tasks import TaskGuess, guess_task, infer_task

__all__ = [
    "ChangingStream",
    "CsvDialect",
    "CsvPath",
    "ProgressiveResult",
    "Stream",
    "TablePreprocessor",
    "TaskGuess",
    "count_rows",
    "guess_task",
    "infer_task",
    "load_parquet_dataset",
    "make_moving_centers",
    "make_multidist",
    "make_rotating_plane",
    "make_sea",
    "make_sine",
    "progressive",
    "read_tables",
    "schema",
    "shuffled",
    "sniff_csv",
    "stream",
]
