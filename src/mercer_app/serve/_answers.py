"""What a model answers to requests: for rows, for files, and about itself."""

from __future__ import annotations

import bz2
import gzip
import io
import math
import zlib
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from mercer import __version__
from mercer.conformal import check_coverage
from mercer_app.files.places import MemoryFile, ending_of_bytes
from mercer_app.files.tables import unusual_files
from mercer_app.models.files import (
    Oddities,
    TableWriter,
    arrow_columns,
    as_learned,
    encoded_tables,
    said_of_extra,
)
from mercer_app.models.predictions import (
    check_columns,
    check_interval,
    explained,
    predicted_columns,
    predictions,
)
from mercer_app.rows import TableRows
from mercer_app.serve._columns import Cell, Column, columns_of_model, table_of_rows

MOST_ROWS = 1_000_000  # of a file
MOST_EXPLAINED = 100  # rows of a request
_MOST_UNPACKED = 256 * 2**20  # bytes of a file that was compressed
_COVERAGE = 0.9  # of intervals, if none is asked for


class TooLarge(ValueError):  # noqa: N818  # as HTTP calls it
    """There are more rows than a request may have."""


class Told(NamedTuple):
    """Answers for rows.

    Attributes
    ----------
    predictions : list of dict
        For each row what `mercer predict` writes: names of columns and values; the classes of a set
        as a list.
    explanations : list of dict or None
        For each row baseline, prediction and contributions of the columns, the largest first.
    notes : list of str
        Notes to show.
    """

    predictions: list[dict[str, Any]]
    explanations: list[dict[str, Any]] | None
    notes: list[str]


class Batch(NamedTuple):
    """Predictions for a file.

    Attributes
    ----------
    csv : buffer
        What `mercer predict` writes as CSV.
    n_rows : int
        Number of rows.
    notes : list of str
        Notes to show.
    """

    csv: Any
    n_rows: int
    notes: list[str]


class Answers:
    """A model, asked by several threads.

    One thread at a time asks the model itself, for no more than some thousand rows, so that a large
    file does not keep others waiting.

    Parameters
    ----------
    model : estimator
        Fitted to tables, or to rows whose features have names: it predicts for rows.
    coverage : float or None, default=None
        Share of rows whose interval, or set of classes, is to hold the truth, for the page; None
        for .9, or for no interval where the model has none.

    Attributes
    ----------
    columns : list of Column
        Columns that it reads.
    coverage : float or None
        Coverage of intervals on the page; None if there are none.
    no_interval, no_explanation : str
        Reason why there are none; "" if there are.

    Raises
    ------
    ValueError
        If a coverage is asked for that the model cannot promise.

    Examples
    --------
    >>> import pandas
    >>> from mercer import KernelClassifier
    >>> heights = pandas.DataFrame({"height": [540.0, 60.0] * 100})
    >>> model = KernelClassifier(random_state=0).fit(heights, ["Bern", "Bonn"] * 100)
    >>> told = Answers(model).rows([{"height": 500}, {"height": None}])
    >>> told.predictions[0]["prediction"], told.notes[0][:40]
    ('Bern', 'The request has gaps in columns that had')
    """

    def __init__(self, model: Any, coverage: float | None = None) -> None:
        reads = TableRows.of(model)
        if reads is None:
            raise ValueError(
                f"This {type(model).__name__} learned arrays, whose columns have no names that a "
                "page could show. Fit it to a DataFrame."
            )
        self.reads, self.model = reads, reads.model
        self.columns: list[Column] = columns_of_model(reads)
        self.by_name = {column.name: column for column in self.columns}
        self._lock = Lock()
        check_interval(reads, coverage)
        wanted = _COVERAGE if coverage is None else coverage
        self.no_interval = self._why_not(lambda: check_interval(reads, wanted))
        self.coverage = None if self.no_interval else wanted
        # What is compiled or loaded at the first answer is so before anybody asks.
        some = [self.typical()]
        self.rows(some, self.coverage)
        self.no_explanation = ""
        self.no_explanation = self._why_not(lambda: self.rows(some, explain=True))

    @staticmethod
    def _why_not(ask: Any) -> str:
        try:
            ask()
        except (ValueError, AttributeError) as error:
            return str(error) or type(error).__name__
        return ""

    def typical(self) -> dict[str, Cell]:
        """Return a row of means and commonest values."""
        return {column.name: column.value(column.typical) for column in self.columns}

    def described(self) -> dict[str, Any]:
        """Say what the model is, as JSON has it."""
        reads = self.reads
        found = {
            "mercer": __version__,
            "task": reads.task,
            "target": reads.target,
            "rows_measured": reads.preprocessor.n_samples_seen_,
            "columns": [column.described() for column in self.columns],
            "ignored": sorted(
                {*reads.preprocessor.columns_in_, *reads.preprocessor.exclude} - {*self.by_name}
            ),
            "interval": not self.no_interval,
            "explain": not self.no_explanation,
        }
        if reads.task == "classification":
            found["classes"] = reads.classes_.tolist()
        return found

    # -- rows -------------------------------------------------------------------------------------

    def rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        coverage: float | None = None,
        *,
        explain: bool = False,
    ) -> Told:
        """Answer for rows as JSON has them.

        Parameters
        ----------
        rows : sequence of mapping
            Names of columns and cells.
        coverage : float or None, default=None
            Adds intervals or sets of classes, that hold the truth of such a share of the rows.
        explain : bool, default=False
            Whether to return what each column adds.

        Raises
        ------
        ValueError
            For data that `mercer predict` refuses, and for requests that the model cannot answer.
        """
        if explain and self.no_explanation:
            raise ValueError(self.no_explanation)
        if explain and len(rows) > MOST_EXPLAINED:
            raise TooLarge(
                f"{len(rows):,} rows are to be explained, but a request may have {MOST_EXPLAINED}. "
                "Send them in several requests, or use `mercer explain`."
            )
        self._check_coverage(coverage)
        if not rows:
            raise ValueError("The request holds no rows, so there is nothing to predict.")
        data = _in_memory(table_of_rows(self.reads, self.columns, rows))
        answers: list[dict[str, Any]] = []
        told: list[dict[str, Any]] = []
        odd = Oddities()
        check_columns(self.reads, data, ())
        tables = encoded_tables(self.reads, data, odd=odd)
        while True:
            with self._lock:
                found = next(tables, None)
                if found is None:
                    break
                table, X, _ = found
                answers += self._records(X, coverage)
                told += self._explained(table, X) if explain else []
        notes = [*said_of_extra(self.reads, data), *odd.said(self.reads, data)]
        return Told(answers, told if explain else None, list(map(_sentence, notes)))

    def _check_coverage(self, coverage: float | None) -> None:
        if coverage is not None:
            check_coverage(coverage)
            if self.no_interval:
                raise ValueError(self.no_interval)

    def _records(self, X: Any, coverage: float | None) -> list[dict[str, Any]]:
        """Return predictions for inputs, a dict for each row."""
        quantities = self.reads.predicts_quantities
        found = predictions(self.reads, X, coverage if quantities else None)
        columns = {k: _plain(v) for k, v in found.items()}
        if coverage is not None and not quantities:
            labels = self.reads.classes_
            sets = self.reads.estimator.predict_set(X, coverage)
            columns["set"] = [labels[row].tolist() for row in sets]
        return [
            {name: _finite(value) for name, value in zip(columns, row, strict=True)}
            for row in zip(*columns.values(), strict=True)
        ]

    def _explained(self, table: Any, X: Any) -> list[dict[str, Any]]:
        """Return what each column adds to predictions, a dict for each row."""
        told = explained(self.model, table, X)
        baselines = np.broadcast_to(told.baseline, told.prediction.shape)
        outputs = told.output if isinstance(told.output, list) else [told.output] * len(baselines)
        return [
            {
                "quantity": told.quantity,
                "output": output.item() if isinstance(output, np.generic) else output,
                "prediction": float(told.prediction[row]),
                "baseline": float(baselines[row]),
                "contributions": {name: float(add) for name, add in told.largest(row)},
            }
            for row, output in enumerate(outputs)
        ]

    def cells(self, cells: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
        """Read a row of a form; absent columns are missing values.

        Parameters
        ----------
        cells : mapping of str to str
            What was typed, by columns.

        Returns
        -------
        row : dict
            As :meth:`rows` takes it.
        notes : list of str
            What is odd about it.

        Raises
        ------
        ValueError
            If the cell of a numeric column is not a number.
        """
        row: dict[str, Any] = {c.name: c.value(cells.get(c.name, "")) for c in self.columns}
        notes = [c.unread(cells.get(c.name, "")) for c in self.columns if c.reading.was_text]
        notes += [column.beyond(row[column.name]) for column in self.columns]
        row |= {name: None for name in cells if name not in row}
        return row, [note for note in notes if note]

    # -- files ------------------------------------------------------------------------------------

    def batch(
        self, content: bytes, coverage: float | None = None, keep: Sequence[str] = ()
    ) -> Batch:
        """Predict for a file in memory.

        Parameters
        ----------
        content : bytes
            CSV of any dialect, also compressed by gzip or bzip2, Parquet or Arrow.
        coverage : float or None, default=None
            Adds intervals, or sets of classes.
        keep : sequence of str, default=()
            Columns to copy.

        Raises
        ------
        ValueError
            As `mercer predict` refuses data.
        TooLarge
            If it has more than a million rows.
        """
        import pyarrow as pa

        if content.startswith(b"PK\x03\x04"):
            raise ValueError(
                "The file is a ZIP archive or a spreadsheet, which is not read. Unpack it, or save "
                "the sheet as CSV."
            )
        self._check_coverage(coverage)
        content = _unpacked(content)
        # A copy of pyarrow's own: its threads may let go of the bytes while Python ends.
        copied = pa.BufferOutputStream()
        copied.write(content)
        keep, reads = list(dict.fromkeys(keep)), self.reads
        file = MemoryFile(copied.getvalue(), f"file{ending_of_bytes(content)}", "the file")
        data = as_learned(reads, file)
        check_columns(reads, data, keep)
        notes = [f"{file}: {said}" for file, said in unusual_files(data)]
        notes += said_of_extra(reads, data, *keep)
        odd, sink = Oddities(), pa.BufferOutputStream()
        writer = TableWriter(sink, ".csv")
        tables = encoded_tables(reads, data, more=keep, odd=odd)
        while True:
            with self._lock:
                found = next(tables, None)
                if found is None:
                    break
                table, X, _ = found
                columns = predicted_columns(reads, keep, table, X, coverage)
            if odd.n_rows > MOST_ROWS:
                raise TooLarge(
                    f"The file has more than {MOST_ROWS:,} rows, which is the most that the page "
                    "takes. Use `mercer predict`, which reads files of any size."
                )
            writer.write(arrow_columns(columns))
        if not odd.n_rows:
            raise ValueError("The file holds no rows, so there is nothing to predict.")
        writer.close()
        notes += odd.said(reads, data)
        return Batch(sink.getvalue(), odd.n_rows, list(map(_sentence, notes)))


def _unpacked(content: bytes) -> bytes:
    """Unpack what is compressed by gzip or bzip2, if it is not too much; damaged bytes stay.

    Raises
    ------
    TooLarge
        If it is.
    """
    kinds = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
    unpack: Any = next((kind for start, kind in kinds.items() if content.startswith(start)), None)
    if unpack is None:
        return content
    try:
        with unpack(io.BytesIO(content)) as file:
            plain: bytes = file.read(_MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error):
        return content
    if len(plain) > _MOST_UNPACKED:
        raise TooLarge(
            f"The file has more than {_MOST_UNPACKED >> 20} MB when it is unpacked, which is the "
            "most that the page takes. Use `mercer predict`, which reads files of any size."
        )
    return plain


def _in_memory(table: Any) -> MemoryFile:
    """Put a table into a file in memory, so that all is read by one way."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return MemoryFile(sink.getvalue(), "request.arrow", "the request")


def _plain(values: Any) -> list[Any]:
    """Return what JSON can hold: dates as text."""
    return (np.datetime_as_string(values) if values.dtype.kind == "M" else values).tolist()  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    """Return a value as JSON has it, which knows no infinite numbers."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
