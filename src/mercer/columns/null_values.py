"""Cells that hold no value: the usual marks and those that somebody names, and cells that are odd.

An odd cell cannot be what its column is. Such cells are counted, or an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from typing import Any, Self

from mercer.exceptions import Advice, InPython, ParameterError
from mercer.threads import own_property

_ALL = ""  # columns
_MOST_SAID = 20  # messages about single columns

#: Cells of text files that mean a missing value in any column: pyarrow's, and a database's.
_USUAL = frozenset(
    (
        *("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "\\N"),
        *("#N/A", "#NA", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    )
)
#: These may be real text, such as a fence of kind "None" or a minus, so they mean a missing value
#: only among numbers.
_AMONG_NUMBERS = frozenset(
    (
        *("None", "none", "NONE", "Null", "Nan", "NAN", "na", "Na", "nil", "NIL", "n.a.", "N.A."),
        *("<NA>", "(null)", "missing", "Missing", "MISSING", "-", "--", "---", "?", "??", "."),
        *("..", "*", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#CALC!"),
        *("#SPILL!", ":", "**", "***", "...", "\u2026", "\u2013", "\u2014", "(X)", "(x)"),
        *("(D)", "(S)", "(Z)", "(NA)", "n.d.", "N.D.", "n. d.", "nd", "ND", "N.D", "n/d", "N/D"),
        *("s/d", "S/D", "s.d.", "k.A.", "k. A.", "k.a.", "k/A", "keine Angabe", "keine Angaben"),
        *("unbekannt", "unknown", "Unknown", "UNKNOWN", "not available", "Not available"),
        *("Not Available", "not applicable", "nicht bekannt", "no data", "No data", "No Data"),
        *("NO DATA", "nodata", "NODATA", "empty", "blank", "undefined", "N.A", "n.a", "n. a."),
        *("N. A.", "n.v.", "n.b.", "inconnu", "sin dato", "sin datos", "Nil", "<null>", "<NULL>"),
        *("[NULL]", "(none)", "(missing)", "<missing>", "NaT", "#N/V", "#BEZUG!", "#WERT!"),
        *("#NV", "#ZAHL!", "#\xa1REF!", "+nan", "-NAN", "+NaN", "-1.#INF", "1.#SNAN"),
    )
)


@dataclass(frozen=True)
class NullValues:
    """Which cells stand for no value.

    Parameters
    ----------
    marks : tuple of (str, str), default=()
        A column, or "" for all columns, and the text that means a missing value there. An empty
        text means that the usual marks are values in that column.

    Examples
    --------
    >>> nulls = NullValues.of({"": -999, "country": ""})
    >>> "NA" in nulls.gaps("age"), "NA" in nulls.gaps("country"), "-999" in nulls.gaps("country")
    (True, False, True)
    """

    marks: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the setting for a user's ``null_values``.

        Parameters
        ----------
        value : str, number, sequence of these, mapping of columns to these, or None
            One or several marks for all columns, or a mapping from columns to marks, with "" for
            all columns. An empty mark means that the usual marks are values.

        Raises
        ------
        ParameterError
            If ``value`` is of another kind.

        Examples
        --------
        >>> NullValues.of([-999.0, "n.v."]).marks
        (('', '-999'), ('', 'n.v.'))
        """
        if isinstance(value, cls):
            return value
        by_column = value if isinstance(value, Mapping) else {_ALL: () if value is None else value}
        marks = []
        for column, some in by_column.items():
            one = isinstance(some, str | bytes | Mapping) or not isinstance(some, Iterable)
            for mark in [some] if one else some:
                text = _written(mark)
                if not isinstance(column, str) or text is None:
                    raise ParameterError(
                        "`null_values` must be text or a number that stands for no value, a list "
                        "of these, or such for columns, as {'age': -1, 'country': ''}, got "
                        f"{mark!r}{f' for {column!r}' if column != _ALL else ''}.",
                        parameter="null_values",
                        value=value,
                    )
                marks.append((column, text))
        return cls(tuple(dict.fromkeys(marks)))

    def to_config(self) -> dict[str, list[str]]:
        """Return plain data that :meth:`of` reads."""
        found: dict[str, list[str]] = {}
        for column, mark in self.marks:
            found.setdefault(column, []).append(mark)
        return found

    def within(self, columns: Iterable[str]) -> Self:
        """Return the marks of some columns, and the marks for all columns."""
        there = {_ALL, *columns}
        return type(self)(tuple(one for one in self.marks if one[0] in there))

    @property
    def columns(self) -> list[str]:
        """Columns that have their own marks."""
        return [column for column in self.to_config() if column != _ALL]

    @own_property
    def by_cell(self) -> tuple[str, ...]:
        """Columns in which text cells are interpreted differently from other columns.

        Marks that are numbers are not included, since they are recognised after reading.
        """
        own = [name for name, mark in self.marks if name != _ALL and number_of(mark) is None]
        return tuple(dict.fromkeys(own))

    def __bool__(self) -> bool:
        return bool(self.marks)

    def has_usual(self, column: str = _ALL) -> bool:
        """Return whether the usual marks mean a missing value in a column."""
        return not {(_ALL, ""), (column, "")} & {*self.marks}

    def named(self, column: str = _ALL) -> tuple[str, ...]:
        """Return what was named for a column, numbers in several spellings."""
        some = [mark for name, mark in self.marks if name in (_ALL, column) and mark]
        return tuple(dict.fromkeys(one for mark in some for one in _spelled(mark)))

    def gaps(self, column: str = _ALL) -> frozenset[str]:
        """Return the cells of text files that are gaps in a column, of whatever kind."""
        return frozenset((*(_USUAL if self.has_usual(column) else ("",)), *self.named(column)))

    def number_gaps(self, column: str = _ALL) -> frozenset[str]:
        """Return those that are gaps in a column of numbers, dates or truth values."""
        gaps = self.gaps(column)
        return gaps | _AMONG_NUMBERS if self.has_usual(column) else gaps


def number_of(mark: str) -> float | None:
    """Return the number that a mark is; None of other text, and of codes such as 007.

    Examples
    --------
    >>> number_of("-999"), number_of("007"), number_of("n.v."), number_of("nan")
    (-999.0, None, None, None)
    """
    if "_" in mark or not mark.isascii() or re.match(r"\s*[+-]?0\d", mark):
        return None
    try:
        number = float(mark)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def moment_of(mark: str) -> float | None:
    """Return the date that a mark is, in seconds since 1970; None of other text.

    Examples
    --------
    >>> moment_of("1970-01-02"), moment_of("9999-12-31 00:00") > 2e11, moment_of("-999")
    (86400.0, True, None)
    """
    try:
        moment = datetime.fromisoformat(mark)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


def _written(mark: Any) -> str | None:
    """Return a mark as text; None if it is invalid."""
    if isinstance(mark, str):
        return mark.strip()
    if isinstance(mark, bool) or not isinstance(mark, Real) or math.isnan(mark):
        return None
    whole = math.isfinite(mark) and mark == math.floor(mark)
    return str(math.floor(mark)) if whole else str(mark)


def _spelled(mark: str) -> tuple[str, ...]:
    """Return other ways to write a whole number."""
    number = number_of(mark)
    if number is None or abs(number) >= 2**53 or not number.is_integer():
        return (mark,)
    return (mark, f"{number:.0f}", f"{number:.1f}", f"{number:.2f}")


_NO_COUNTS: Mapping[str, int] = {}
#: How messages call what a column is.
_A = {
    **dict.fromkeys(("number", "int64", "double", "float"), "a number"),
    **dict.fromkeys(("date", "date32[day]", "timestamp[s]", "timestamp[ns]"), "a date"),
    **dict.fromkeys(("time", "time32[s]"), "a time of the day"),
    **dict.fromkeys(("boolean", "bool"), "a truth value"),
}


class ReadError(ValueError):
    """An error about a file whose message is complete."""


class Unreadable:
    """Cells that cannot be what their columns are.

    Parameters
    ----------
    strict : bool, default=True
        Whether the first odd cell raises an error; otherwise all are counted.

    Attributes
    ----------
    counts : dict of str to int
        How many there are in each column that has some.
    first : dict of str to (str, str, str)
        What the column is, the first such cell, and its place.

    Examples
    --------
    >>> seen = Unreadable(strict=False)
    >>> seen.add("z", "number", 2, "many", "line 7 of a.csv")
    >>> print(*seen.said())
    The column 'z' has 2 cells that cannot be read as a number, first 'many' in line 7 of a.csv: \
such cells are taken for missing values.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self.first: dict[str, tuple[str, str, str]] = {}

    def add(self, name: str, kind: str, n: int, cell: str, place: str) -> None:
        """Take down cells of a column, of which the first is at a place.

        Raises
        ------
        ReadError
            If it is strict.
        """
        if self.strict:
            raise ReadError(
                Advice(
                    f"{place}: the column {name!r} holds {cell!r}, which cannot be read as "
                    f"{_A.get(kind, kind)}. Correct the file, or ",
                    typed(f"`column_types={{{name!r}: 'string'}}` (or 'float64')"),
                    ".",
                )
            )
        self.counts[name] = self.counts.get(name, 0) + n
        self.first.setdefault(name, (kind, cell, place))

    def merge(self, other: Unreadable) -> None:
        """Add cells that another reader found in later rows."""
        for name, n in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + n
            self.first.setdefault(name, other.first[name])

    def said(self, more: Mapping[str, int] = _NO_COUNTS) -> list[str]:
        """Return messages about odd cells, except for columns already reported."""
        odd = [(name, n) for name, n in self.counts.items() if n > more.get(name, 0)]
        return cut_short(
            f"The column {name!r} has {n:,} cell{'s' * (n != 1)} that cannot be read as "
            f"{_A.get(kind, kind)}, first {cell!r} in {place}: "
            "such cells are taken for missing values."
            for name, n in odd
            for kind, cell, place in [self.first[name]]
        )


def cut_short(messages: Iterable[str]) -> list[str]:
    """Return messages about single columns, only the first ones if there are many.

    Examples
    --------
    >>> cut_short(f"{n} is odd." for n in range(1, 100, 2))[-2:]
    ['39 is odd.', 'So it is with 30 more columns.']
    """
    said = list(messages)
    rest = len(said) - _MOST_SAID
    return said if rest < 2 else [*said[:_MOST_SAID], f"So it is with {rest:,} more columns."]


def typed(setting: str) -> InPython:
    """Return the advice to declare the type of a column."""
    return InPython(
        f"choose a type with {setting}",
        ("convert it to Parquet with the types that you want",),
    )
