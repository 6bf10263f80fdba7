"""What a model answers to requests: for rows, for files, and about itself and its columns."""

from __future__ import annotations

import bz2
import gzip
import io
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mercer import __version__
from mercer.columns.calendar_parts import compact_dates
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.readings import Reading, held_before
from mercer.columns.views import check_names, level_text
from mercer_app.export.trees import written_value
from mercer_app.files.places import MemoryFile, ending_of_bytes
from mercer_app.files.tables import TableFiles, unusual_files
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

Cell: TypeAlias = str | int | float | bool | None

_DIGITS = 4  # of means that are shown
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class Column:
    """A column that the model reads.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "category", "boolean", "date", "time", "text"}
        What it is.
    typical : str
        The mean or the commonest value in training, as a cell of a CSV file; "" of text.
    ends : tuple of float or None
        Range in training, for numbers, and for dates in seconds since 1970.
    levels : list of str
        Known categories, the commonest first.
    gaps : bool
        Whether it had cells without a value in training.
    reading : Reading
        How it is read.
    has_hours : bool
        For dates, whether they have times of day.
    """

    name: str
    kind: str
    typical: str
    ends: tuple[float, float] | None
    levels: list[str]
    gaps: bool
    reading: Reading
    has_hours: bool

    @property
    def is_moment(self) -> bool:
        """Whether it had a date or time type, which JSON does not have."""
        return self.kind in ("date", "time") and self.reading.form is None

    def value(self, text: str) -> Cell:
        """Return what a cell of a form means.

        Parameters
        ----------
        text : str
            Text as typed; blanks mean a missing value.

        Raises
        ------
        ValueError
            If the column held numbers, and the text is not a number.
        """
        stripped = text.strip()
        if not stripped:
            return None
        if self.reading.was_text or self.is_moment:
            return text
        if self.kind == "boolean":
            return {"true": True, "false": False}.get(stripped.lower(), text)
        if stripped.lower() == "nan":
            return None
        if not _NUMBER.fullmatch(stripped):  # Python reads 1_000, too, and digits of all scripts
            raise ValueError(
                f"Column {self.name!r} held {held_before(self.kind)} in training but now holds "
                f"{text!r}. Correct it, or leave it empty, which is a missing value."
            )
        number = float(stripped)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    def described(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "gaps": self.gaps}
        if self.typical:
            found["typical"] = self.value(self.typical)
        if self.ends is not None:
            low, high = self.ends
            written = self._written if self.kind == "date" else float
            found |= {"minimum": written(low), "maximum": written(high)}
        if self.levels:
            found["categories"] = self.levels
        return found

    def unread(self, text: str) -> str:
        """Say that a cell is taken as no value, if it is not written as those in training."""
        form, said = self.reading.form, ""
        if (
            isinstance(form, NumberForm | DateForm)
            and text.strip()
            and not np.isfinite(form.read([text])).all()
        ):
            said = (
                f"{text!r} is no {self.kind} as those of the column {self.name!r} are written, "
                f"such as {self.typical!r}: it is taken as no value."
            )
        return said

    def beyond(self, value: Cell) -> str:
        """Say that a number or a date is outside of what was learned."""
        said = ""
        if self.ends is not None and value is not None:
            low, high = self.ends
            number = self._seconds(value) if self.kind == "date" else value
            if not isinstance(number, str) and (number < low or number > high):
                said = (
                    f"{self.name!r} was between {self._written(low)} and {self._written(high)} in "
                    f"training: {self._written(number)} is beyond what was learned."
                )
        return said

    def _written(self, number: float) -> str:
        """Write a number, or a date in seconds since 1970."""
        if self.kind != "date":
            return f"{number:.6g}"
        return str(np.datetime64(int(number), "s").astype("datetime64[D]"))

    def _seconds(self, value: str | float) -> float:
        """Return a date as seconds since 1970; NaN if it is not a date."""
        if isinstance(value, str):
            form = self.reading.form
            read = form if isinstance(form, DateForm) else DateForm("ymd")
            (seconds,) = read.read([value])
        else:
            (seconds,) = compact_dates(np.array([float(value)]))
        return float(seconds)


def columns_of_model(reads: TableRows) -> list[Column]:
    """Return the columns that a model reads, in the order of the table that it learned."""
    seen = reads.preprocessor.statistics_
    numbers, missing = seen.numbers, seen.missing
    rows = {name: row for row, name in enumerate(seen.number_names)}
    found = []
    for name, reading in reads.preprocessor.readings_.items():
        if not reading.used:
            continue
        typical, levels = "", list[str]()
        ends: tuple[float, float] | None = None
        hours = rows.get(f"{name}:hour")
        has_hours = hours is not None and bool(numbers.maximum[hours] > 0)
        if name in rows:
            row = rows[name]
            if numbers.count[row]:
                typical = _shown(reading, float(numbers.mean[row]), has_hours)
                plain = reading.kind == "number" and not isinstance(reading.form, NumberForm)
                if reads.knows_ranges and (plain or reading.kind == "date"):
                    ends = float(numbers.minimum[row]), float(numbers.maximum[row])
        elif name in seen.levels:
            counts = seen.levels[name].counts
            levels = sorted(counts, key=lambda level: (-counts[level], level))
            typical = next(iter(levels), "")
        gaps = missing[name] > 0
        found.append(Column(name, reading.kind, typical, ends, levels, gaps, reading, has_hours))
    return found


def _shown(reading: Reading, mean: float, has_hours: bool) -> str:
    """Write a mean as a cell of the column."""
    if reading.kind == "time":
        mean = 60.0 * round(mean / 60.0)
        return f"{int(mean) // 3600 % 24:02}:{int(mean) % 3600 // 60:02}"
    if reading.kind != "date":
        mean = float(f"{mean:.{_DIGITS}g}")
        value = written_value(reading, int(mean) if mean.is_integer() else mean)
        return str(value)
    moment = datetime(1970, 1, 1) + timedelta(seconds=mean)
    if reading.form is None:
        return moment.isoformat(timespec="minutes") if has_hours else moment.date().isoformat()
    mean = 86_400.0 * math.floor(mean / 86_400.0)
    value = written_value(reading, mean)
    return value.removesuffix(" 00:00:00") if isinstance(value, str) else f"{value:.0f}"


# -- rows of a request ----------------------------------------------------------------------------


def table_of_rows(reads: TableRows, columns: Sequence[Column], rows: Sequence[Any]) -> Any:
    """Make a table of rows as JSON has them.

    Parameters
    ----------
    reads : TableRows
        The model that they are for.
    columns : sequence of Column
        Columns of the model.
    rows : sequence of dict of str to cells
        A cell is a number, text, a truth value, or None for a missing value. Dates and times are
        text.

    Returns
    -------
    table : pyarrow.Table
        The columns of the model, and others that the rows have, without values.

    Raises
    ------
    ValueError
        If a row is not an object, lacks a column, or has another kind of cell.
    """
    import pyarrow as pa

    used = [column.name for column in columns]
    for number, row in enumerate(rows):
        where = f"Row {number} of the request" if len(rows) > 1 else "The request"
        if not isinstance(row, Mapping):
            raise ValueError(f"{where} must be an object of columns and values, got {_kind(row)}.")
        check_names(used, [*row], where, taken=reads.preprocessor.exclude)
    arrays = {c.name: _array(c, [row[c.name] for row in rows]) for c in columns}
    extra = dict.fromkeys(name for row in rows for name in row if name not in arrays)
    return pa.table(arrays | {name: pa.nulls(len(rows)) for name in extra})


def _kind(value: Any) -> str:
    """Name what JSON calls a value."""
    kinds = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "a truth value",
        type(None): "null",
    }
    return kinds.get(type(value), "a number")


def _array(column: Column, cells: list[Any]) -> Any:
    """Make an array of cells, as a file of types has it."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds <= {str, int, float, bool}:
        row = next(n for n, cell in enumerate(cells) if isinstance(cell, dict | list))
        raise ValueError(
            f"Column {column.name!r} holds {_kind(cells[row])} in row {row} of the request, where "
            "a number, text, true, false or null can be."
        )
    if kinds == {str}:
        return _moments(column, cells) if column.is_moment else pa.array(cells, pa.string())
    if kinds <= {int, float}:
        if float in kinds:
            return pa.array([None if c is None else float(c) for c in cells], pa.float64())
        return pa.array(cells, pa.int64())
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if column.reading.was_text:
        first = next(cell for cell in cells if cell is not None and not isinstance(cell, str))
        raise ValueError(
            f"Column {column.name!r} held text or categories in training but now holds "
            f"{_kind(first)}, {first!r}, too. Convert it to text in the same way as the training "
            "data."
        )
    texts = [str(c).lower() if isinstance(c, bool) else c for c in cells]
    return pa.array([None if c is None else level_text(c) for c in texts], pa.string())


def _moments(column: Column, cells: list[str | None]) -> Any:
    """Read dates or times in ISO 8601; other text is kept, and refused later."""
    import pyarrow as pa

    read = time.fromisoformat if column.kind == "time" else _moment
    try:
        found = [None if cell is None else read(cell.strip()) for cell in cells]
    except ValueError:
        return pa.array(cells, pa.string())
    return pa.array(found, pa.time64("us") if column.kind == "time" else pa.timestamp("us"))


def _moment(text: str) -> datetime | date:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


# -- answers ---------------------------------------------------------------------------------------


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
        self.rows([self.typical()], self.coverage)
        self.no_explanation = self._why_not(self._try_explanation)

    @staticmethod
    def _why_not(ask: Any) -> str:
        said = ""
        try:
            ask()
        except (ValueError, AttributeError) as error:
            said = str(error) or type(error).__name__
        return said

    def _try_explanation(self) -> None:
        """Explain a row compared with itself, which takes no longer with more columns."""
        kept = self.model._explained().background(2)
        if kept is None or len(kept) < 2:  # refused, whatever the row
            explained(self.model, None, np.zeros((1, 0)), background=None)
        else:
            explained(self.model, None, kept[:1], background=kept[:1])

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
        data = TableFiles(_in_memory(table_of_rows(self.reads, self.columns, rows)))
        answers: list[dict[str, Any]] = []
        told: list[dict[str, Any]] = []
        odd = Oddities()
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
        if coverage is not None and self.no_interval:
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
                "output": output,
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
        notes = [c.unread(cells.get(c.name, "")) for c in self.columns]
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
        keep, reads = [*dict.fromkeys(keep)], self.reads
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
