"""Columns of a model as a form shows them, and rows of a request as a table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np

from mercer.columns.calendar_parts import compact_dates
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.readings import Reading, held_before
from mercer.columns.views import check_names, level_text
from mercer_app.export.columns import statistics_of, written_value
from mercer_app.rows import TableRows

Cell = str | int | float | bool | None

_DIGITS = 4  # of means that are shown
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


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
    lowest, highest : float or None
        Range in training, for numbers, and for dates in seconds since 1970.
    levels : tuple of str
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
    lowest: float | None
    highest: float | None
    levels: tuple[str, ...]
    gaps: bool
    reading: Reading
    has_hours: bool = False

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
        if self.lowest is not None and self.highest is not None:
            ends: list[Any] = [self.lowest, self.highest]
            ends = [*map(self._written, ends)] if self.kind == "date" else ends
            found |= {"minimum": ends[0], "maximum": ends[1]}
        if self.levels:
            found["categories"] = list(self.levels)
        return found

    def unread(self, text: str) -> str:
        """Say that a cell is taken as no value, if it is not written as those in training."""
        form = self.reading.form
        if not text.strip() or not isinstance(form, NumberForm | DateForm):
            return ""
        if math.isfinite(form.read([text])[0]):
            return ""
        return (
            f"{text!r} is no {self.kind} as those of the column {self.name!r} are written, such as "
            f"{self.typical!r}: it is taken as no value."
        )

    def beyond(self, value: Cell) -> str:
        """Say that a number or a date is outside of what was learned."""
        if self.lowest is None or self.highest is None or isinstance(value, bool | None):
            return ""
        number = self._seconds(value) if self.kind == "date" else value
        if isinstance(number, str) or self.lowest <= number <= self.highest or number != number:
            return ""
        low, high, said = map(self._written, (self.lowest, self.highest, number))
        return (
            f"{self.name!r} was between {low} and {high} in training: {said} is beyond what was "
            "learned."
        )

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
            return float(read.read([value])[0])
        return float(compact_dates(np.array([float(value)]))[0])


def columns_of_model(reads: TableRows) -> list[Column]:
    """Return the columns that a model reads, in the order of the table that it learned."""
    seen = statistics_of(reads.preprocessor)
    numbers = seen.numbers
    rows = {name: row for row, name in enumerate(seen.number_names)}
    found = []
    for name, reading in reads.preprocessor.readings_.items():
        if not reading.used:
            continue
        typical, lowest, highest, has_hours = "", None, None, False
        levels: tuple[str, ...] = ()
        if name in rows:
            row, hours = rows[name], rows.get(f"{name}:hour")
            has_hours = hours is not None and bool(numbers.maximum[hours] > 0)
            if numbers.count[row]:
                typical = _shown(reading, float(numbers.mean[row]), has_hours)
                plain = reading.kind == "number" and not isinstance(reading.form, NumberForm)
                if plain or reading.kind == "date":
                    lowest, highest = float(numbers.minimum[row]), float(numbers.maximum[row])
        elif name in seen.levels:
            counts = seen.levels[name].counts
            levels = tuple(sorted(counts, key=lambda level: (-counts[level], level)))
            typical = levels[0] if levels else ""
        gaps = seen.missing(name) > 0
        found.append(
            Column(name, reading.kind, typical, lowest, highest, levels, gaps, reading, has_hours)
        )
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
    return value.removesuffix(" 00:00:00") if isinstance(value, str) else str(int(value or 0))


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
        check_names(used, list(row), where, taken=reads.preprocessor.exclude)
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
