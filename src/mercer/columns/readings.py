"""What each column of a table holds, and how to read it: fixed after the first rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.calendar_parts import PARTS, as_moments, compact_dates
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.target_means import codes_among
from mercer.columns.views import (
    Levels,
    Numbers,
    TableView,
    Texts,
    first_text,
    is_number,
    level_text,
    levels_of,
    listed,
    missing_cells,
    read_once,
    rows_of_levels,
)
from mercer.columns.written import CLOCKS, CODES, ORDERS, number_match, read_codes
from mercer.exceptions import Advice, Setting
from mercer.records import Field, IfAny, Maybe, Record, Recorded, Several, Sizes
from mercer.validation import check_choice, choice, integer, real, text, truth

Floats = NDArray[np.float64]

#: Kinds that a user may declare for a column.
KINDS = (
    "number",
    "category",
    "text",
    "date",
    "date:ymd",
    "date:dmy",
    "date:mdy",
    "time",
)

_TOLD = "as told"
_SAMPLE = 200  # different values that must have a form before all values are checked
_FEW_ROWS = 30  # with fewer rows, identifiers and copies are not recognised
_FEW_LEVELS = 20  # largest number of categories if text might be something else
_DISTINCT = 0.95  # share of rows with a unique value from which values name rows
_MANY_WORDS = 4.0  # mean number of words of free text
_ZERO_FIRST = re.compile(r"0\d+|'0\d+|=\s?\"0\d+\"")  # the last two are text in spreadsheets
_DIGITS = r"\d{5,}"  # codes; years have fewer digits
_MANY_PHRASES = 100  # least number of different values of free text
_LIST_MARK = re.compile(r"[,;|]\s*(?=[^\W\d])")  # between values of a list, as "Comedy, Drama"
_LISTED = 0.2  # mean number of list marks
_MOST_WORDS = 3  # different words among quantities
_MONEY = "$£€¥₹"  # next to a number, these have no other meaning
#: Words, and impossible or conventional dates: zeros, Excel's day 0, the first and last years.
_NO_QUANTITY = re.compile(
    r"(?:[^\d¼-¾⅐-⅞]|0)*|(?:0?1[/.-]0?0|0?0[/.-]0?1)[/.-](?:19)?00\b.*|"
    r"(?:.*[/.-])?(?:0001|9999)(?:[/.T -].*)?"
)
_COMMON = 0.5  # least share of rows in frequent categories
_DENSE = 0.5  # share of the whole numbers in a range from which they number the rows
_FEWEST_DATES = 10  # different numbers such as 20240131 needed to take them for dates
_NO_DATES = (0, 99991231, 99999999)  # numbers that mean a missing date
_ID_NAME = re.compile(
    r"(?i)(.*[_\s.-])?(id|ids|uuid|guid|key|index|idx|rowid|row_?(nr|no|num|number|id)|nr)|"
    r".*[a-z](Id|ID|Key|Nr)|unnamed:?_?\s?\d+|rownames"
)
_ORDER_NAME = re.compile(
    r"(?i).*(time|date|day|week|month|year|hour|minute|second)|(.*[^a-z]|time)?(step|age|t)"
)

#: Numbers that programs write for a missing value: limits of number types, never measured, ...
_FILLED = (
    *(3.4028234663852886e38, 9.969209968386869e36, 1.7976931348623157e308, 1.7e308),
    *(1e20, 1e30, 1e35, 1e36, 1e37, 1e38, 1e300, 2.0**63, 2.0**64),
)
_FILLED_FROM = 1e18
#: ... and numbers that may also be measured.
_MAY_BE_FILLED = (
    *(99, 999, 9999, 99999, 999999, 9999999, 99999999, 999999999),
    *(99.9, 999.9, 9999.9, 99999.9, 99.99, 999.99, 9999.99, 999.999, 99.999),
    *(888, 8888, 88888, 777, 7777, 9998, 9997, 998, 997, 9996, 32767, 32768, 65535),
    *(2147483647, 2147483648, 4294967295, 1e10 - 1, 1e12 - 1),
)
_FEWEST_OTHERS = 20  # other numbers needed to recognise a mark
_REPEATED = 3  # rows of a mark
_FAR, _FARTHEST = 3.0, 100.0  # distance from the others, in their range; for a single row
#: Days that programs write for a missing date, in seconds since 1970.
_FILLED_DAYS = tuple(
    np.datetime64(day, "s").astype(float)
    for day in (
        *("0001-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1901-01-01"),
        *("1970-01-01", "2099-12-31", "2100-01-01", "2199-12-31", "2999-12-31", "3000-01-01"),
        *("9999-01-01", "9999-12-30", "9999-12-31"),
    )
)
_HUGE = 1e12
_ALONE = 5.0  # distance from the others, in the largest gap between neighbours

#: How text is read in columns that held dates or times, not text, in training.
_WRITTEN = {"date": DateForm("ymd"), "time": DateForm("time")}
_MOMENTS = tuple(_WRITTEN)
_HELD = {"date": "dates", "time": "times of the day", "boolean": "truth values"}
_AS = {"date": "a date as 2024-01-31", "time": "a time as 13:30"}

#: Parts of the calendar by kind; constant parts are dropped, like all constant columns.
_PARTS_OF = {"date": tuple(PARTS)}
#: Part of a number that is a code: its category.
CODE = "code"


class _Form(Field):
    """How values are written: a form, stored with its class, or the name of a form."""

    def written(self, value: Any) -> Any:
        return {type(value).__name__: value.to_state()} if isinstance(value, Recorded) else value

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        for kind in (NumberForm, DateForm):
            if isinstance(value, dict) and [*value] == [kind.__name__]:
                return kind.from_state(value[kind.__name__])
        return check_choice(name, value, ("yyyymmdd", *CODES))


@dataclass(frozen=True)
class Reading(Recorded):
    """How one column is read.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "category", "boolean", "date", "time", "text", "identifier", "copy", "empty"}
        Kind of the column; the last three are left out.
    form : NumberForm, DateForm, "yyyymmdd", "digits", "letters" or None
        How values are written, if not in their own type; "digits" and "letters" are for codes whose
        order depends on the target.
    was_text : bool
        Whether the column held text, and so is read as text.
    note : str
        Remark on what was found.
    strays : int
        Number of rows whose value has another form, and so counts as missing.
    calendar : bool
        Whether parts of the calendar are inputs in addition to the time.
    no_data : tuple of float
        Numbers that mean a missing value, such as -9999; for dates in seconds since 1970.
    huge : bool
        Whether the column held numbers of 1e12 and more, so that 3.4e38 may be a value.
    coded : bool
        Whether its numbers are codes, so that each is also a category.
    """

    name: str
    kind: str
    form: NumberForm | DateForm | str | None = None
    was_text: bool = False
    note: str = ""
    strays: int = 0
    calendar: bool = True
    no_data: tuple[float, ...] = ()
    huge: bool = False
    coded: bool = False

    _record = Record(
        name=text(),
        kind=text(),
        form=Maybe(_Form()),
        was_text=truth(),
        note=text(),
        strays=integer(low=0),
        calendar=truth(),
        no_data=IfAny(Several(real()), ()),
        huge=IfAny(truth(), False),
        coded=IfAny(truth(), False),
    )

    @property
    def used(self) -> bool:
        """Whether the column is encoded as inputs."""
        return self.kind not in ("identifier", "copy", "empty")

    @property
    def parts(self) -> tuple[str, ...]:
        """What it is read as in addition: parts of the calendar, of :data:`PARTS`, or its code."""
        if self.coded:
            return (CODE,)
        return _PARTS_OF.get(self.kind, ()) if self.calendar else ()

    @property
    def way(self) -> tuple[Any, ...]:
        """Attributes that must be equal for two columns to be read alike."""
        return self.kind, self.form, self.was_text, self.calendar, self.no_data, self.coded

    @property
    def names(self) -> list[str]:
        """Names of the columns that it is read as."""
        return [self.name, *(f"{self.name}:{part}" for part in self.parts)]

    @property
    def of_text(self) -> NumberForm | DateForm | None:
        """Form for reading text; for columns that held no text, as a computer writes values."""
        if isinstance(self.form, NumberForm | DateForm):
            return self.form
        if self.form is not None or self.was_text:
            return None
        return NumberForm(".") if self.kind == "number" else _WRITTEN.get(self.kind)

    @property
    def marks(self) -> tuple[float, ...]:
        """All numbers that mean a missing value, including those that are never measured."""
        filled = self.kind == "number" and not self.huge
        return (*self.no_data, *_FILLED, *(-mark for mark in _FILLED)) if filled else self.no_data

    def is_another(self, n_odd: int, n_cells: int) -> bool:
        """Return whether most cells of a column without text before are odd: it is another one."""
        return not self.was_text and 2 * n_odd > n_cells

    def read(self, column: Numbers | Levels, *, lenient: bool = False) -> Numbers | Levels:
        """Read a column by its kind; unexpected text is an error, or missing if ``lenient``."""
        if self.kind in ("category", "text"):
            as_it_is = self.was_text and not self.note.startswith(_TOLD)
            levels = levels_of(column, self.name) if as_it_is else as_levels(column)
            if self.kind == "text":
                return Texts(levels.codes, levels.levels)
            return levels
        if isinstance(column, Levels):
            if self.form in CODES:
                values = np.append(read_codes(column.levels, str(self.form)), np.nan)[column.codes]
                return Numbers(values, integer=False)
            form = self.of_text
            typed = self.form is None and not lenient
            if form is None or column.boolean or (typed and self.kind == "number"):
                return column  # the later numeric check refuses it
            row = first_stray(self.kind, column) if typed else None
            if row is not None:
                raise ValueError(
                    f"Column {self.name!r} held {held_before(self.kind)} in training but now holds "
                    f"{column.levels[column.codes[row]]!r} in row {row} of this table, which is "
                    f"not {_AS[self.kind]}. Convert the column, as pandas.to_datetime does, with a "
                    "missing value in place of what is none."
                )
            # The code -1 of missing values picks the last entry.
            values = np.append(form.read(column.levels), np.nan)[column.codes]
            return self._without_marks(Numbers(values, integer=False))
        if self.form == "yyyymmdd" and not column.unit:
            column = Numbers(compact_dates(column.values.astype(np.float64)), integer=False)
        return self._without_marks(column)

    def _without_marks(self, column: Numbers) -> Numbers:
        """Turn numbers that mean a missing value into NaN."""
        marks, values = self.marks, column.values
        if not (marks and values.size) or (column.unit and self.kind == "number"):
            return column
        if (
            not self.no_data
            and max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values))) < _FILLED_FROM
        ):
            return column  # the usual case
        values = values.astype(np.float64)
        gaps = _among(values, marks)
        if not gaps.any():
            return column
        return replace(column, values=np.where(gaps, np.nan, values), integer=False)


def as_levels(column: Numbers | Levels) -> Levels:
    """Return the values of a column as categories."""
    if isinstance(column, Levels):
        return column
    values = column.values
    present = ~np.isnan(values)
    distinct, places = np.unique(values[present], return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[present] = places
    return Levels(codes, [level_text(value) for value in distinct.tolist()])


# -- all columns ----------------------------------------------------------------------------------


class Readings:
    """How all columns of a table are read.

    Parameters
    ----------
    columns : sequence of Reading
        How to read each column, in the order of the table.
    """

    def __init__(self, columns: Sequence[Reading]) -> None:
        self.columns = {reading.name: reading for reading in columns}

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.columns.values())

    @property
    def used(self) -> list[str]:
        """Names of the columns that are encoded as inputs."""
        return [name for name, reading in self.columns.items() if reading.used]

    @property
    def names(self) -> list[str]:
        """Names of the columns of what :meth:`read` returns."""
        return [name for one in self if one.used for name in one.names]

    @property
    def parts(self) -> list[str]:
        """Names of the parts of columns among :attr:`names`."""
        return [name for one in self if one.used for name in one.names[1:]]

    def read(self, view: TableView, *, lenient: bool = False) -> TableView:
        """Return a view of what the columns mean: numbers, categories and texts only.

        Parameters
        ----------
        view : TableView
            Columns to read.
        lenient : bool, default=False
            Whether text in columns that held numbers, dates or times is missing, not an error.
        """
        sources = {
            name: (reading, part)
            for reading in self
            if reading.used
            for name, part in zip(reading.names, (None, *reading.parts), strict=True)
        }

        def column(name: str) -> Numbers | Levels:
            reading, part = sources[name]
            if part is None:
                return reading.read(view.column(name), lenient=lenient)
            base = whole.column(reading.name)
            if isinstance(base, Levels):
                return base
            if part == CODE:
                return as_levels(base)
            return Numbers(PARTS[part](base.values.astype(np.float64)), integer=False)

        def costly(name: str, found: Numbers | Levels) -> bool:
            reading, part = sources[name]
            return part is None and (reading.was_text or bool(reading.parts))

        plain = TableView(
            names=list(sources),
            n_rows=view.n_rows,
            column=column,
            slice=lambda start, stop: self.read(view.slice(start, stop), lenient=lenient),
        )
        whole = read_once(plain, costly)
        return whole

    def unreadable(self, view: TableView) -> list[tuple[str, str, int, str, int]]:
        """Find cells whose form differs from their column's.

        Returns
        -------
        found : list of (str, str, int, str, int)
            Name of the column, its kind, number of such cells, the first such cell and its row.
        """
        found = []
        there = set(view.names)
        for one in self:
            form = one.of_text
            if not one.used or form is None or one.name not in there:
                continue
            column = view.column(one.name)
            if isinstance(column, Levels) and not column.boolean:
                rows = rows_of_levels(column, np.isnan(form.read(column.levels)).tolist())
                if rows.size:
                    first = int(rows[0])
                    cell = column.levels[column.codes[first]]
                    found.append((one.name, one.kind, int(rows.size), cell, first))
        return found

    @classmethod
    def plain(cls, view: TableView, names: Sequence[str]) -> Self:
        """Read columns by their types, except text that is clearly dates or money."""
        readings = []
        for name in names:
            column = view.column(name)
            text = isinstance(column, Levels) and not column.boolean
            written = sure_quantities(name, column) if text else None
            readings.append(written or Reading(name, _kind_of(column), was_text=text))
        return cls(_without_taken_names(readings, view.names))

    @classmethod
    def of(
        cls,
        view: TableView,
        names: Sequence[str],
        *,
        kinds: Mapping[str, str],
        include: Collection[str],
        keep: bool,
        min_count: int,
        literal: Collection[str] = (),
        codes: Collection[str] | None = (),
        y: NDArray[Any] | None = None,
    ) -> Self:
        """Determine how to read columns from the first rows.

        Parameters
        ----------
        view : TableView
            First rows.
        names : sequence of str
            Columns to examine.
        kinds : mapping of str to str
            Declared kinds of some columns, of :data:`KINDS`.
        include : collection of str
            Columns to use even if they look like identifiers or copies.
        keep : bool
            Whether to use all numbers that look like identifiers, and all copies.
        min_count : int
            Least number of rows of a frequent category.
        literal : collection of str, default=()
            Columns in which no number means a missing value.
        codes : collection of str or None, default=()
            Columns of numbers that are codes; None to find these.
        y : ndarray of shape (n_rows,) or None, default=None
            Targets, which decide whether the order of an identifier matters, and what are codes.

        Raises
        ------
        ValueError
            If a column cannot be of its declared kind.
        """
        readings: list[Reading] = []
        first: dict[bytes, str] = {}
        for name in names:
            column = view.column(name)
            if missing_cells(column) == view.n_rows:
                readings.append(Reading(name, "empty", note="no value"))
                continue
            if name in kinds:
                found = _as_told(name, column, kinds[name])
            else:
                found = _look(name, column, min_count, literal=name in literal)
                if found.kind == "identifier" and y is not None:
                    found = _in_order(found, column, y)
            same = first.setdefault(_fingerprint(column), name) if _varies(column) else name
            if same != name and view.n_rows >= _FEW_ROWS and name not in kinds and not keep:
                found = Reading(name, "copy", note=f"is the same as {same!r}")
            kept = keep and isinstance(column, Numbers)
            if not found.used and (name in include or kept):
                found = _forced(name, column, found)
            readings.append(found)
        readings = _with_codes(readings, view, codes, y)
        return cls(_without_taken_names(readings, view.names))

    def or_identifiers(self) -> Self:
        """Use columns that look like identifiers if there are no others: numbers, or code words."""
        if any(one.used for one in self):
            return self
        return type(self)(
            [
                replace(
                    one,
                    kind="text" if one.was_text else "number",
                    note=f"used, though it {one.note}",
                )
                if one.kind == "identifier"
                else one
                for one in self
            ]
        )

    def remarked(self, remarks: Mapping[str, str]) -> Self:
        """Return the readings with one more note on some columns."""
        return type(self)(
            [
                replace(one, note=_joined(one.note, remarks[name])) if name in remarks else one
                for name, one in self.columns.items()
            ]
        )

    @property
    def empty(self) -> list[str]:
        """Names of the columns without a value so far."""
        return [name for name, one in self.columns.items() if one.kind == "empty"]

    def known(self, others: Readings) -> Self:
        """Return the readings with empty columns replaced by others' readings of them."""
        return type(self)([others.columns.get(name, one) for name, one in self.columns.items()])

    def merged(self, other: Readings, mine: Collection[str], theirs: Collection[str]) -> Self:
        """Join two readings in which some columns had no value.

        Parameters
        ----------
        other : Readings
            Readings of other rows.
        mine, theirs : collection of str
            Columns without a value in the rows of each, which are read as by the other.

        Raises
        ------
        ValueError
            If columns are read in different ways.
        """
        joined = []
        differing = sorted(self.columns.keys() ^ other.columns.keys())
        for name, one in self.columns.items():
            another = other.columns.get(name, one)
            if name in mine or one.kind == "empty":
                one = another
            elif name not in theirs and another.kind != "empty" and one.way != another.way:
                differing.append(name)
            joined.append(one)
        if differing:
            raise ValueError(
                "Statistics of tables with different columns cannot be merged; these are absent "
                "from one of them, or of another kind, as numbers in one and text or codes in the "
                f"other: {listed(differing)}. Let all of them `look` at the same rows first."
            )
        return type(self)(joined)


def _with_codes(
    readings: Sequence[Reading],
    view: TableView,
    codes: Collection[str] | None,
    y: NDArray[Any] | None,
) -> list[Reading]:
    """Read columns of numbers that are codes as both, unless another one has the code's name."""

    def values_of(some: Iterable[Reading]) -> dict[str, NDArray[Any]]:
        read = {one.name: one.read(view.column(one.name)) for one in some if one.used}
        return {
            name: column.codes if isinstance(column, Levels) else column.values
            for name, column in read.items()
        }

    found, note = codes or (), ""
    if codes is None and y is not None:
        numbers = [one for one in readings if one.kind == "number" and not one.was_text]
        of_numbers = values_of(one for one in numbers if one.note != _TOLD)
        found = codes_among(of_numbers, lambda: values_of(readings), y)
        note = "numbers are codes: rows of one are alike, neighbours are not"
    names = set(view.names)
    return [
        replace(one, coded=True, note=_joined(one.note, note) if note else one.note)
        if one.name in found and one.kind == "number" and f"{one.name}:{CODE}" not in names
        else one
        for one in readings
    ]


def _without_taken_names(readings: Sequence[Reading], taken: Sequence[str]) -> list[Reading]:
    """Read dates without parts of the calendar if other columns have the names of these parts."""
    names = set(taken)
    return [
        one
        if names.isdisjoint(one.names[1:])
        else replace(
            one,
            calendar=False,
            note=_joined(one.note, "no parts of the calendar: other columns have their names"),
        )
        for one in readings
    ]


def _varies(column: Numbers | Levels) -> bool:
    """Return whether a column varies; constant columns may still differ from each other later."""
    if isinstance(column, Levels):
        return bool((column.codes != column.codes[0]).any())
    values = column.values
    return bool(((values != values[0]) & ~(np.isnan(values) & np.isnan(values[0]))).any())


def _fingerprint(column: Numbers | Levels) -> bytes:
    """Return a hash that is equal for columns with equal values."""
    if isinstance(column, Numbers):
        return b"n" + column.values.astype(np.float64).tobytes()
    distinct, codes = np.unique(column.codes, return_inverse=True)
    levels = [column.levels[code] if code >= 0 else "\0" for code in distinct]
    order = np.argsort(levels)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return b"l" + places[codes].tobytes() + "\1".join(sorted(levels)).encode()


def _kind_of(column: Numbers | Levels) -> str:
    """Return the kind of a column by its type."""
    if isinstance(column, Numbers):
        return column.unit or "number"
    return "boolean" if column.boolean else "category"


def _as_told(name: str, column: Numbers | Levels, kind: str) -> Reading:
    """Return the reading of a column of a declared kind."""
    said, _, order = kind.partition(":")
    text = isinstance(column, Levels) and not column.boolean
    if said in ("category", "text"):
        return Reading(name, said, was_text=text, note=_TOLD)
    if isinstance(column, Numbers):
        compact = said == "date" and not column.unit
        if compact and np.isfinite(compact_dates(column.values.astype(np.float64))).any():
            return Reading(name, "date", "yyyymmdd", note=_TOLD)
        return Reading(name, said, note=_TOLD, huge=said == "number")
    levels, counts = column.counted()
    form: NumberForm | DateForm | None
    among = [one for one in ORDERS if (one in CLOCKS) == (said != "date")]
    if said == "number":
        form = NumberForm.of(levels, counts.tolist(), mostly=0.0)
    else:
        form = DateForm(order) if order else None
    if form is None:
        form = DateForm.of(levels, counts.tolist(), mostly=0.0, among=among)
    if form is None or not np.isfinite(form.read(levels)).any():
        raise ValueError(
            Advice(
                f"No value of the column {name!r} can be read as a {said}, such as {levels[0]!r}. "
                if levels
                else f"The column {name!r} has no value. ",
                "Leave out ",
                Setting("kinds", (f"{name}={kind}",), f"`kinds={{{name!r}: {kind!r}}}`"),
                ", or correct the column.",
            )
        )
    return _strays(Reading(name, said, form, was_text=True, note=_TOLD), column)


def _forced(name: str, column: Numbers | Levels, found: Reading) -> Reading:
    """Return a reading of a column that would otherwise be left out."""
    note = f"used, though it {found.note}" if found.kind == "identifier" else found.note
    if isinstance(column, Numbers):
        return Reading(name, column.unit or "number", note=note)
    return Reading(name, "text", was_text=True, note=note)


def _look(name: str, column: Numbers | Levels, min_count: int, *, literal: bool) -> Reading:
    """Determine a column's kind, and which of its numbers mean a missing value."""
    found = _look_at(name, column, min_count)
    if found.kind not in ("number", "date"):
        return found
    if literal:
        return replace(found, huge=found.kind == "number")
    read = replace(found, huge=True).read(column)
    if not isinstance(read, Numbers) or (read.unit and found.kind == "number"):
        return found
    values = read.values
    marks, rest = no_data_of(values) if found.kind == "number" else (_no_days_of(values), 0.0)
    if not marks:
        return found if rest < _HUGE else replace(found, huge=True)
    n = int(np.count_nonzero(_among(values.astype(np.float64), marks)))
    if found.kind == "date":
        shown = ", ".join(map(str, as_moments(np.array(marks), "D", clock=False)))
    else:
        shown = ", ".join(f"{mark:.10g}" for mark in marks)
    note = _joined(found.note, f"{shown} means no value, in {n:,} cell{'s' * (n != 1)}")
    return replace(found, no_data=marks, huge=rest >= _HUGE, note=note)


def _among(values: Floats, marks: Sequence[float]) -> NDArray[np.bool_]:
    """Return which values equal some marks, up to single precision."""
    found = np.zeros(values.shape, dtype=bool)
    with np.errstate(over="ignore"):
        for mark in marks:
            found |= np.abs(values - mark) <= 2e-6 * abs(mark)
    return found


def no_data_of(values: NDArray[Any]) -> tuple[tuple[float, ...], float]:
    """Find numbers that programs write for a missing value, such as -9999.

    They must be in a known list and outside the range of all other numbers. Numbers that are never
    measured, such as 3.4e38, must be far outside. Numbers that may be measured, such as 999, must
    be repeated, and lie outside by the range of the others, or by three times the range if above.
    Negative marks need not if all other numbers are positive.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Numbers of a column; NaN for missing values.

    Returns
    -------
    marks : tuple of float
        Marks found, in ascending order.
    largest : float
        Largest absolute value of the other numbers.

    Examples
    --------
    >>> no_data_of(np.array([*range(100), -999.0, -999.0, -999.0]))
    ((-999.0,), 99.0)
    >>> no_data_of(np.array([*range(2000)]))  # a real 999
    ((), 1999.0)
    """
    some = values[~np.isnan(values)].astype(np.float64)
    if not some.size:
        return (), 0.0
    low, high = float(some.min()), float(some.max())
    largest = max(abs(low), abs(high))
    known = (*_FILLED, *_MAY_BE_FILLED)
    if not any(abs(abs(end) - one) <= 2e-6 * one for end in (low, high) for one in known):
        return (), largest
    distinct, counts = np.unique(some, return_counts=True)
    marked = _among(np.abs(distinct), known)
    others = distinct[~marked]
    if counts[~marked].sum() < _FEWEST_OTHERS or others.size < 2:
        return (), largest
    gap = float(np.diff(others).max()) if others.size >= _FEW_ROWS else np.inf
    marks = [
        float(value)
        for value, count in zip(distinct[marked], counts[marked], strict=True)
        if _means_none(float(value), int(count), float(others[0]), float(others[-1]), gap)
    ]
    rest = np.abs(distinct[~np.isin(distinct, marks)]).max()
    return tuple(marks), float(rest)


def _means_none(value: float, count: int, low: float, high: float, gap: float) -> bool:
    """Return whether a number of the known list lies far enough outside the others' range."""
    span = high - low
    outside = low - value if value < 0.0 else value - high
    if abs(value) >= _FILLED_FROM:
        return outside > 1e3 * max(span, abs(low), abs(high))
    if outside >= _FARTHEST * span:
        return True
    if outside <= 0.0 or count < _REPEATED:
        return False
    alone = count > _REPEATED and outside >= _ALONE * gap
    if value < 0.0:
        return low >= 0.0 or outside >= span or (alone and 2.0 * outside >= span)
    return outside >= _FAR * span or (alone and outside >= span)


def _no_days_of(seconds: Floats) -> tuple[float, ...]:
    """Find days that programs write for a missing date: known days, far from all others.

    Examples
    --------
    >>> days = np.arange(400.0) * 86_400 + 1.7e9
    >>> _no_days_of(np.append(days, 253402214400.0))  # 9999-12-31
    (253402214400.0,)
    >>> _no_days_of(np.append(days, 0.0))  # may be one that was meant
    ()
    """
    distinct, counts = np.unique(seconds[np.isfinite(seconds)], return_counts=True)
    marked = _among(distinct, _FILLED_DAYS)
    others = distinct[~marked]
    if not marked.any() or counts[~marked].sum() < _FEWEST_OTHERS or others.size < 2:
        return ()
    low, high = others[0], others[-1]
    outside = np.maximum(low - distinct, distinct - high) / (high - low)
    none = marked & (outside >= np.where(counts >= _REPEATED, _FAR, _FARTHEST))
    return tuple(distinct[none].tolist())


def _look_at(name: str, column: Numbers | Levels, min_count: int) -> Reading:
    """Determine the kind of a column."""
    if isinstance(column, Numbers):
        return _look_at_numbers(name, column)
    if column.boolean:
        return Reading(name, "boolean")
    if column.declared:
        return Reading(name, "category", was_text=True)
    return _look_at_text(name, column, min_count)


def _look_at_numbers(name: str, column: Numbers) -> Reading:
    if column.unit:
        return Reading(name, column.unit)
    values = column.values[~np.isnan(column.values)]
    distinct = np.unique(values)
    whole = bool(np.all(distinct == np.round(distinct)))
    if not whole or distinct.size < 2:
        return Reading(name, "number")
    dates = compact_dates(distinct.astype(np.float64))
    known = np.isfinite(dates)
    if np.count_nonzero(known) >= _FEWEST_DATES and (known | np.isin(distinct, _NO_DATES)).all():
        none = ", ".join(f"{value:.0f}" for value in distinct[~known])
        means = f"{none} means no value" if none else ""
        shown = "202401" if distinct[known][-1] < 1e6 else "20240131"
        return Reading(name, "date", "yyyymmdd", note=_joined(f"dates as {shown}", means))
    n = values.size
    if n >= _FEW_ROWS and distinct.size == n and not _ORDER_NAME.fullmatch(name):
        # Random numbers this close together would repeat.
        if n >= _DENSE * (distinct[-1] - distinct[0] + 1):
            return Reading(name, "identifier", note="numbers the rows")
        if _ID_NAME.fullmatch(name):
            return Reading(name, "identifier", note="has another number in each row")
    return Reading(name, "number")


def _look_at_text(name: str, column: Levels, min_count: int) -> Reading:
    levels, counts = column.counted()
    plain = Reading(name, "category", was_text=True)
    n = int(counts.sum())
    if not n:
        return plain
    common = counts[counts >= min_count].sum() >= _COMMON * n
    found = _quantities_of(levels, counts, common) or _beside_words(levels, counts, common)
    if isinstance(found, DateForm):
        note = _said(found, levels)
        kind = "time" if found.is_time else "number" if found.is_duration else "date"
        return _strays(replace(plain, kind=kind, form=found, note=note), column)
    if found is not None:
        return _strays(replace(plain, kind="number", form=found), column)
    words = _words_or_categories(plain, levels, counts, min_count)
    few = _some(levels, counts)[0]
    first = [np.isfinite(DateForm(order).read(few)) for order in ("dmy", "mdy")]
    if np.mean(first[0] | first[1]) >= 0.95:
        note = "dates with days first and dates with months first, which nobody can tell apart"
        words = replace(words, note=_joined(words.note, note))
    return words


def _quantities_of(
    levels: Sequence[str], counts: NDArray[np.int64], common: bool
) -> DateForm | NumberForm | None:
    """Return the form of dates, times, durations or numbers, if most values are such."""
    dates = _dates_of(levels, counts)
    # Values that all read as plain numbers are not durations.
    if (dates is None or dates.is_duration) and NumberForm.of(*_some(levels, counts), mostly=0.5):
        number = NumberForm.of(levels, counts.tolist())
        return dates if number is None or _are_codes(levels, number, common) else number
    return dates


def _beside_words(
    levels: Sequence[str], counts: NDArray[np.int64], common: bool
) -> DateForm | NumberForm | None:
    """Return the form of quantities if all other values are a few repeated words.

    For example, "never" or 0000-00-00 in one row of five.
    """
    may_be = np.array([not _NO_QUANTITY.fullmatch(level.strip()) for level in levels])
    if may_be.all() or may_be.sum() <= _FEW_LEVELS:
        return None
    form = _quantities_of(
        [level for level, one in zip(levels, may_be, strict=True) if one], counts[may_be], common
    )
    if form is None:
        return None
    words = ~np.isfinite(form.read(levels)) & ~may_be
    few = np.count_nonzero(words) <= _MOST_WORDS and 2 * counts[words].sum() <= counts.sum()
    return form if few else None


def _some(levels: Sequence[str], counts: NDArray[np.int64]) -> tuple[list[str], list[int]]:
    """Return some of many values, and their counts."""
    some = np.linspace(0, len(levels) - 1, min(_SAMPLE, len(levels))).astype(np.int64)
    return [levels[i] for i in some], counts[some].tolist()


def _dates_of(levels: Sequence[str], counts: NDArray[np.int64]) -> DateForm | None:
    """Return the form of dates, times or durations, if most values are such."""
    if DateForm.of(*_some(levels, counts), mostly=0.5) is None:
        return None
    return DateForm.of(levels, counts.tolist())


def _said(form: DateForm, levels: Sequence[str]) -> str:
    """Return in words how dates are written."""
    orders = form.order.split("|")
    said = orders[0]
    if len(orders) > 1:  # one of each
        firsts = [int(np.argmax(np.isfinite(DateForm(o).read(levels)))) for o in orders]
        said = ", or ".join(f"{o} as {levels[i]!r}" for o, i in zip(orders, firsts, strict=True))
    what = "durations " if form.is_duration else ""
    unit = ", in seconds" if form.is_duration else ""
    return f"{what}written {said}{unit}" + ("" if form.clear else ", a guess")


def held_before(kind: str) -> str:
    """Return in words what a column of a kind without text held in training."""
    return _HELD.get(kind, "numbers")


def first_stray(kind: str, column: Levels) -> int | None:
    """Return the first row whose text is not of the kind that training had; None if there is none.

    Examples
    --------
    >>> first_stray("date", Levels(np.array([0, -1, 1]), ["2024-01-31 13:30", "31/1/2024"]))
    2
    """
    form = _WRITTEN.get(kind)
    if form is None:
        return first_text(column)
    rows = rows_of_levels(column, np.isnan(form.read(column.levels)).tolist())
    return int(rows[0]) if rows.size else None


# -- quantities as they are written ---------------------------------------------------------------

# Length in seconds of the units in which times differ.
_UNITS = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
_DAY = _UNITS["days"]


@dataclass(frozen=True)
class TargetForm(Recorded):
    """How target quantities are written: they are read as numbers, and predicted as written.

    Attributes
    ----------
    kind : {"number", "date", "time", "duration"}
        Kind of the quantities.
    form : NumberForm, DateForm, "yyyymmdd" or None
        How values are written, if not in their own type.
    unit : str
        Unit of the learned numbers: for dates ``days``, ``hours``, ``minutes`` or ``seconds`` since
        1970, for times of day since midnight, whichever fits their spread; for durations seconds;
        for numbers the unit written next to them.
    step : {"D", "s", "us"}
        Resolution of predictions: days if all dates were days.

    Examples
    --------
    >>> column = Levels(np.array([0, 1, 2]), ["31.01.2024", "1.2.2024", "29.2.2024"])
    >>> form = TargetForm.of("paid", column)
    >>> form.read(column).tolist(), form.unit
    ([19753.0, 19754.0, 19782.0], 'days')
    >>> form.answers(np.array([19753.4])).tolist()
    [datetime.date(2024, 1, 31)]
    >>> TargetForm.of("n", Levels(np.array([0, 1]), ["$1,200", "$900"])).unit
    '$'
    >>> TargetForm.of("n", Levels(np.array([0, 1]), ["3", "5"])) is None  # as good as names
    True
    """

    kind: str
    form: NumberForm | DateForm | str | None = None
    unit: str = ""
    step: str = "s"

    _record = Record(
        kind=choice("number", "date", "time", "duration"),
        form=Maybe(_Form()),
        unit=text(),
        step=choice("D", "s", "us"),
    ).where(
        "the form of the target is unknown",
        lambda it: it["kind"] not in _MOMENTS or it["unit"] in _UNITS,
    )

    @classmethod
    def of(cls, name: str, column: Numbers | Levels, told: str = "") -> Self | None:
        """Determine how a column of quantities is written; None for plain numbers and classes.

        Parameters
        ----------
        name : str
            Name of the column.
        column : Numbers or Levels
            First rows.
        told : str, default=""
            Kind declared by the user, of :data:`KINDS`.
        """
        found = _as_told(name, column, told) if told else _quantities(name, column)
        if found is None or found.kind not in ("number", "date", "time"):
            return None
        form = found.form
        if found.kind == "number":
            if isinstance(form, DateForm):
                return cls("duration", form, "seconds")
            return cls("number", form, form.unit) if isinstance(form, NumberForm) else None
        seconds = cls(found.kind, form).read(column)
        unit, step = _unit_and_step(seconds[np.isfinite(seconds)])
        # The first of many times may be at midnight.
        alone = form is None and found.kind == "date" and len(seconds) == 1
        return cls(found.kind, form, unit, "s" if alone and step == "D" else step)

    @property
    def is_text(self) -> bool:
        """Whether the column is read as text."""
        return isinstance(self.form, NumberForm | DateForm)

    @property
    def is_moment(self) -> bool:
        """Whether predictions are dates or times rather than numbers."""
        return self.kind in _MOMENTS

    @property
    def said(self) -> str:
        """Description in words that can follow a colon."""
        if self.kind == "duration":
            return "durations, answered in seconds"
        if self.kind == "number":
            return "numbers"
        if self.kind == "time":
            return f"times of the day, with errors in {self.unit}"
        how = " as 20240131" if self.form == "yyyymmdd" else ""
        if isinstance(self.form, DateForm):
            how = f" written {self.form.order}" + ("" if self.form.clear else ", a guess")
        return f"dates{how}, with errors in {self.unit}"

    @property
    def axis(self) -> str:
        """Unit of the learned numbers, and their origin."""
        since = {"date": " since 1970", "time": " since midnight"}.get(self.kind, "")
        return f"{self.unit}{since}"

    def read(self, column: Numbers | Levels) -> Floats:
        """Return the learned numbers of a column, NaN for values of another form."""
        if isinstance(column, Levels):
            form = _WRITTEN[self.kind] if not self.is_text else self.form
            assert isinstance(form, NumberForm | DateForm)
            # The code -1 of missing values picks the last entry.
            seconds = np.append(form.read(column.levels), np.nan)[column.codes]
        else:
            seconds = column.values.astype(np.float64)
            if self.form == "yyyymmdd" and not column.unit:
                seconds = compact_dates(seconds)
            elif self.is_moment and column.unit != self.kind:
                seconds = np.full(len(seconds), np.nan)
        return seconds / _UNITS[self.unit] if self.is_moment and self.unit else seconds

    def quantities(self, column: Numbers | Levels, name: str, where: str = "") -> Floats:
        """Return the learned numbers of a column; ValueError for values of another form.

        Parameters
        ----------
        column : Numbers or Levels
            Column without missing values.
        name : str
            Name of the column in error messages.
        where : str, default=""
            Text after the row number in error messages.
        """
        found = self.read(column)
        if not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found)))
            if isinstance(column, Levels):
                cell: Any = column.levels[column.codes[row]]
            else:
                cell = column.values[row].item()
            raise ValueError(
                f"{name} holds {cell!r} in row {row}{where}, which is no {self.kind} as the first "
                "ones are written. Correct such cells, or remove these rows."
            )
        return found

    def answers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert numbers to dates (datetime64) or times of day (text)."""
        if not self.is_moment:
            return values
        seconds = np.asarray(values, dtype=np.float64) * _UNITS[self.unit]
        return as_moments(seconds, self.step, self.kind == "time")

    @property
    def moments(self) -> dict[str, Any] | None:
        """What exported models need for :meth:`answers`; None if predictions are numbers."""
        if not self.is_moment:
            return None
        return {"size": _UNITS[self.unit], "step": self.step, "clock": self.kind == "time"}


def _quantities(name: str, column: Numbers | Levels) -> Reading | None:
    """Return the reading of a column of quantities, unless these are plain numbers."""
    if isinstance(column, Numbers):
        found = _look_at_numbers(name, column)
        return found if found.kind in ("date", "time") else None
    if column.boolean or column.declared:
        return None
    levels, counts = column.counted()
    if not levels:
        return None
    dates = _dates_of(levels, counts)
    if dates is None or dates.is_duration:  # not durations if all read as plain numbers
        form = NumberForm.of(levels, counts.tolist(), mostly=1.0)
        if not (form is None or _are_codes(levels, form, True)):
            return None if _are_plain(levels, form.read(levels)) else Reading(name, "number", form)
    if dates is None:
        return None
    kind = "time" if dates.is_time else "number" if dates.is_duration else "date"
    return Reading(name, kind, dates)


def sure_quantities(name: str, column: Numbers | Levels) -> Reading | None:
    """Return the reading of a few cells that can only be dates with years, or money.

    Parameters
    ----------
    name : str
        Name of the column.
    column : Numbers or Levels
        First cells.

    Examples
    --------
    >>> from mercer.columns.views import Levels
    >>> cells = ["2024-01-31", "$6,888.22", "3-4-21", "12A", "50%", "10:30", "5 kg"]
    >>> found = [sure_quantities("x", Levels(np.zeros(1, int), [cell])) for cell in cells]
    >>> [None if one is None else one.kind for one in found]
    ['date', 'number', None, None, None, None, None]
    """
    found = _quantities(name, column)
    if found is None:
        return None
    form = found.form
    money = isinstance(form, NumberForm) and len(form.unit) == 1 and form.unit in _MONEY
    date = isinstance(form, DateForm) and found.kind == "date" and form.clear
    return replace(found, was_text=True) if money or date else None


def _unit_and_step(seconds: Floats) -> tuple[str, str]:
    """Return the unit in which times differ, and their resolution."""
    if not seconds.size:
        return "seconds", "s"
    if np.all(seconds % _DAY == 0.0):
        return "days", "D"
    spread = float(seconds.std())
    unit = next((unit for unit, size in _UNITS.items() if spread >= size), "seconds")
    return unit, "s" if np.all(seconds == np.round(seconds)) else "us"


def time_form(name: str, column: Numbers | Levels) -> DateForm | NumberForm | None:
    """Return how the times that order rows are written; None for numbers and dates.

    Parameters
    ----------
    name : str
        Name of the column.
    column : Numbers or Levels
        First rows.

    Raises
    ------
    ValueError
        For text or truth values that have no order in time.

    Examples
    --------
    >>> time_form("day", Levels(np.array([0, 1]), ["31.1.2024", "1.2.2024"])).order
    'dmy'
    """
    if isinstance(column, Numbers):
        return None
    form = None if column.boolean else _look_at_text(name, column, 1).form
    if isinstance(form, NumberForm | DateForm):
        return form
    raise ValueError(
        f"`time` must be a column of dates, times or numbers, and {name!r} holds other text, first "
        f"{column.first()!r}. Name another column, or write its dates as 2024-01-31."
    )


def _are_plain(levels: Sequence[str], values: Floats) -> bool:
    """Return whether all numbers are written as a computer writes them."""
    return all(
        is_number(level) and float(level) == value
        for level, value in zip(levels, values.tolist(), strict=True)
        if np.isfinite(value)
    )


def _are_codes(levels: Sequence[str], form: NumberForm, common: bool) -> bool:
    """Return whether text that reads as numbers means codes, such as 007, or a few steps 1 to 5.

    Codes are also repeated whole numbers with equal numbers of digits, such as postal codes, and a
    few steps such as 1, 2 and >2.
    """
    if any(_ZERO_FIRST.fullmatch(level.strip()) for level in levels):
        return True
    lengths = {len(level.strip()) for level in levels}
    if common and len(lengths) == 1 and all(re.fullmatch(_DIGITS, x.strip()) for x in levels):
        return True
    if len(levels) > 2 * _FEW_LEVELS:
        return False
    values = form.read(levels)
    known = values[np.isfinite(values)]
    if known.size > _FEW_LEVELS:
        return False
    parts = [match for match in map(number_match, levels) if match is not None]
    if any(match["bound"] or match["more"] or match["fraction"] for match in parts):
        return True
    plain = not form.unit and _are_plain(levels, values)
    return plain and bool(np.all(known == np.round(known)))


def _words_or_categories(
    plain: Reading, levels: Sequence[str], counts: NDArray[np.int64], min_count: int
) -> Reading:
    """Distinguish free text and identifiers from categories."""
    n, k = int(counts.sum()), len(levels)
    if k <= _FEW_LEVELS:
        return plain
    words = float(np.dot([len(level.split()) for level in levels], counts)) / n
    if n >= _FEW_ROWS and k >= _DISTINCT * n and words < 1.5:
        marked = sum(bool(re.search(r"\d|@", level)) for level in levels)
        if marked >= 0.9 * k:
            return replace(plain, kind="identifier", note="has another code in each row")
    common = int(counts[counts >= min_count].sum())
    listed = float(np.dot([len(_LIST_MARK.findall(level)) for level in levels], counts)) / n
    if k > _MANY_PHRASES and (words >= _MANY_WORDS or listed >= _LISTED):
        return replace(plain, kind="text")
    if common < _COMMON * n:
        return replace(plain, kind="text", note=f"{k:,} different values, most of them rare")
    return plain


# -- identifiers whose order says something --------------------------------------------------------

_SURE = 4.5  # standard deviations; chance does not reach it, even for many classes
_MOST_CLASSES = 20  # classes examined, the most common first
_SORTED = 0.99  # share of rising steps, or correlation, of sorted values
_LONGEST_CODE = 15  # digits that a number holds


def _in_order(found: Reading, column: Numbers | Levels, y: NDArray[Any]) -> Reading:
    """Keep an identifier whose order depends on the target, such as times in an unknown form.

    An identifier that only repeats the order of the rows is left out: either it counts the rows, or
    rows are sorted by the target, which new rows are not.
    """
    form, values = _order_of(column)
    known = np.isfinite(values)
    if y.ndim != 1 or len(y) != len(values) or np.count_nonzero(known) < _FEW_ROWS:
        return found
    values = values[known]
    targets = _as_quantities(y[known])
    order = np.argsort(values, kind="stable")
    if not any(_is_smooth(target[order]) for target in targets):
        return found
    up = float(np.mean(np.diff(values) > 0))
    if max(up, 1.0 - up) >= _SORTED:
        counts_rows = values.size >= _DENSE * (np.ptp(values) + 1)
        if counts_rows or all(_is_sorted(target) for target in targets):
            return replace(found, note=f"{found.note}, in an order that tells of the target")
    note = f"{found.note}, but its order tells of the target"
    return replace(found, kind="number", form=form, note=note)


def _order_of(column: Numbers | Levels) -> tuple[str | None, Floats]:
    """Return numbers in the order of identifiers, and how codes were turned into numbers."""
    if isinstance(column, Numbers):
        return None, column.values.astype(np.float64)
    levels = column.counted()[0]
    runs = [re.findall(r"\d+", level) for level in levels]
    shapes = {
        re.sub(r"\d+", "#", level) if len(run) == 1 else re.sub(r"\d", "0", level)
        for level, run in zip(levels, runs, strict=True)
    }
    form = "letters" if len({len(level) for level in levels}) == 1 else ""
    if len(shapes) == 1 and max(len("".join(run)) for run in runs) <= _LONGEST_CODE:
        form = "digits"
    if not form:
        return None, np.full(len(column.codes), np.nan)
    return form, np.append(read_codes(column.levels, form), np.nan)[column.codes]


def _as_quantities(y: NDArray[Any]) -> list[Floats]:
    """Return targets as numbers: for classes, indicators of the most common ones."""
    if y.dtype.kind == "f":
        return [np.where(np.isfinite(y), y, 0.0)]
    _, codes, counts = np.unique(y.astype(str), return_inverse=True, return_counts=True)
    return [(codes == code).astype(np.float64) for code in np.argsort(-counts)[:_MOST_CLASSES]]


def _ranks(values: Floats) -> Floats:
    """Return centred ranks; equal values share a rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    return np.asarray(ranks - ranks.mean())


def _is_smooth(target: Floats) -> bool:
    """Return whether targets in an order have a trend or similar neighbours, beyond chance.

    For random orders, the rank correlation with the position and von Neumann's ratio of neighbours
    have known means and variances.
    """
    ranks = _ranks(target)
    n, variance = ranks.size, float(np.mean(ranks**2))
    if variance == 0.0:
        return False
    places = np.arange(n) - (n - 1) / 2.0
    trend = abs(float(ranks @ places)) / np.sqrt(variance * float(places @ places))
    alike = 1.0 - float(np.mean(np.diff(ranks) ** 2)) / (2.0 * variance)
    return bool(max(trend, alike * np.sqrt(n)) > _SURE)


def _is_sorted(target: Floats) -> bool:
    """Return whether rows are sorted by a target, or come class by class, with few exceptions."""
    if np.unique(target).size == 2:
        return bool(np.count_nonzero(np.diff(target)) <= 2)
    return bool(abs(np.corrcoef(_ranks(target), np.arange(target.size))[0, 1]) > _SORTED)


def _strays(reading: Reading, column: Levels) -> Reading:
    """Note the rows whose values have another form than the column."""
    assert isinstance(reading.form, NumberForm | DateForm)
    levels, counts = column.counted()
    values = reading.form.read(levels)
    bad = np.isnan(values)
    if isinstance(reading.form, NumberForm) and not reading.note:
        shown = int(np.argmax(~bad))
        # With units of several sizes, show how the number is read.
        size = f", which is {values[shown]:g}" if reading.form.scale else ""
        reading = replace(reading, note=f"as {levels[shown]!r}{size}")
    if not bad.any():
        return reading
    n = int(counts[bad].sum())
    what = "number" if reading.kind == "number" else reading.kind
    first = levels[int(np.argmax(bad))]
    note = f"{n:,} cell{'s' * (n != 1)} that {'are' if n != 1 else 'is'} no {what}, as {first!r}"
    return replace(reading, note=_joined(reading.note, note), strays=n)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
