"""Numbers and dates that people write as text, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["DateForm", "NumberForm", "compact_dates"]

Floats = NDArray[np.float64]

# Share of the rows with a value that must be of a form.
MOSTLY = 0.95

# -- numbers --------------------------------------------------------------------------------------

_SPACES = re.compile(r"[\s\u00a0\u202f\u2009']")
_SIGNED = re.compile(
    r"(?P<open>\(?)\s*(?P<sign>[-+\u2212]?)\s*(?P<before>[^\d\s.,()+-]*)\s*(?P<sign2>[-+\u2212]?)\s*"
    r"(?P<digits>\d[\d.,\s\u00a0\u202f\u2009']*|[.,]\d+)(?P<power>[eE][-+]?\d+)?"
    r"\s*(?P<after>[^\d.,()+-]*?)\s*(?P<close>\)?)"
)
# What may stand before a number: signs and codes of currencies.
_CURRENCY = re.compile(
    r"[$€£¥₹₩₽฿₺₪¢]|[A-Z]{0,3}[$€£¥]|USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|Fr\.?|kr\.?"
)
_LONGEST_UNIT = 8  # letters, as in "minutes"
# Groups of three digits with one mark between; in India of two before the last, as 12,34,567.
_GROUPED = re.compile(
    r"[1-9]\d{0,2}(?P<mark>[., ])\d{3}(?:(?P=mark)\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}"
)
_NO_UNIT = "\0"  # of text that is no number with a unit


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written in a column of text.

    Parameters
    ----------
    decimal : {".", ","}
        What stands before the decimals.
    unit : str
        What stands beside all numbers, such as "%", "km" or "$".

    Examples
    --------
    >>> form = NumberForm.of(["$1,234.50", "($20)", "$7"], [1, 1, 1])
    >>> form.read(["$1,234.50", "($20)", "free"]).tolist(), form.unit
    ([1234.5, -20.0, nan], '$')
    """

    decimal: Literal[".", ","]
    unit: str = ""

    @classmethod
    def of(
        cls, levels: Sequence[str], counts: Sequence[int], *, mostly: float = MOSTLY
    ) -> Self | None:
        """Find the form that most values have; None if there is none.

        Parameters
        ----------
        levels : sequence of str
            Different values.
        counts : sequence of int
            How often each occurs.
        mostly : float, default=0.95
            Share of all that must have it.
        """
        found = [_SIGNED.fullmatch(level.strip()) for level in levels]
        total = sum(counts)
        units: dict[str, int] = {}
        for match, count in zip(found, counts, strict=True):
            unit = _NO_UNIT if match is None else _unit(match)
            if unit != _NO_UNIT:
                units[unit] = units.get(unit, 0) + count
        # A bare number among others with a unit is one of that unit.
        unit = max(sorted(units), key=lambda name: (bool(name), units[name]), default="")
        if sum(units.get(name, 0) for name in {unit, ""}) < mostly * total or not total:
            return None
        best: Self | None = None
        most = mostly * total
        for decimal in (".", ","):
            form = cls(decimal, unit)
            read = np.isfinite(form.read(levels))
            n = int(np.dot(read, counts))
            if n > most or (best is None and n == most):
                best, most = form, n
        return best

    def read(self, levels: Sequence[str]) -> Floats:
        """Read values; NaN for what is none of this form."""
        return np.array([self._number(level) for level in levels], dtype=np.float64)

    def _number(self, text: str) -> float:
        match = _SIGNED.fullmatch(text.strip())
        if match is None or _unit(match) not in (self.unit, ""):
            return np.nan
        digits = _SPACES.sub(" ", match["digits"]).strip()
        whole, point, decimals = digits.partition(self.decimal)
        if point and not (decimals.isdecimal() or not decimals):
            return np.nan
        if not (whole.isdecimal() or not whole):
            if not _GROUPED.fullmatch(whole):
                return np.nan
            whole = re.sub("[., ]", "", whole)
        bracketed = bool(match["open"])
        if bracketed != bool(match["close"]) or (match["sign"] and match["sign2"]):
            return np.nan
        value = float(f"{whole or '0'}.{decimals or '0'}{match['power'] or ''}")
        negative = bracketed or (match["sign"] or match["sign2"]) in ("-", "\u2212")
        return -value if negative else value


def _unit(match: re.Match[str]) -> str:
    """Return what stands beside a number, in the singular."""
    before, after = match["before"], match["after"]
    if before and (after or not _CURRENCY.fullmatch(before)):
        return _NO_UNIT
    if len(after) > _LONGEST_UNIT or (match["open"] and after and not _CURRENCY.fullmatch(after)):
        return _NO_UNIT
    return before or (after[:-1] if len(after) > 2 and after.endswith("s") else after)


# -- dates ----------------------------------------------------------------------------------------

_MONTHS = {
    start: number
    for number, starts in enumerate(
        (
            "jan jän gen ene janv",
            "feb fév fev febb févr",
            "mar mär mrz mär maer",
            "apr avr abr",
            "may mai mag",
            "jun juin giu",
            "jul juil lug",
            "aug aoû aou ago",
            "sep set",
            "oct okt ott out",
            "nov",
            "dec dez déc dic",
        ),
        start=1,
    )
    for start in starts.split()
}  # fmt: skip
_TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})[:h](?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?(?:\s*(?P<zone>Z|UTC|GMT|[-+]\d{2}:?\d{2}))?"
)
_DAY_NAME = r"(?:[^\W\d_]{2,10}\.?,?\s+)?"
_YEAR = r"(?P<year>\d{4}|'?\d{2})"
_MONTH_NAME = r"(?P<month>[^\W\d_]{3,10})\.?"
_MARK = r"(?P<mark>\. ?|[-/ ])"
_ORDERS = {
    "ymd": (
        rf"(?P<year>\d{{4}})(?P<mark>[-/]|\.(?=\d+\.))(?P<month>\d{{1,2}})"
        rf"(?:(?P=mark)(?P<day>\d{{1,2}}))?{_TIME}"
    ),
    "dmy": rf"{_DAY_NAME}(?P<day>\d{{1,2}}){_MARK}(?P<month>\d{{1,2}})(?P=mark){_YEAR}{_TIME}",
    "mdy": rf"{_DAY_NAME}(?P<month>\d{{1,2}}){_MARK}(?P<day>\d{{1,2}})(?P=mark){_YEAR}{_TIME}",
    "d month y": (
        rf"{_DAY_NAME}(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er)?[-/ ]?\s*(?:de\s+)?{_MONTH_NAME}"
        rf"[-/, ]*(?:de\s+)?{_YEAR}{_TIME}"
    ),
    "month d y": (
        rf"{_DAY_NAME}{_MONTH_NAME}[-/ ]?\s*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/, ]+{_YEAR}{_TIME}"
    ),
    "month y": rf"{_MONTH_NAME}[-/, ]*(?P<year>\d{{4}})",
    "time": (
        r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
        r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    ),
}
_SECONDS_OF_DAY = 86_400.0
_TURN_OF_CENTURY = 69  # two digits from here on are of the last century, as POSIX has it
_YEARS = range(1500, 2501)


@dataclass(frozen=True)
class DateForm:
    """How dates, or times of the day, are written in a column of text.

    Parameters
    ----------
    order : str
        What comes first: "ymd", "dmy", "mdy", or with the month's name "d month y", "month d y",
        "month y"; "time" for times of the day alone.
    clear : bool
        Whether no other order would do, as it would if no day were above the 12th.

    Examples
    --------
    >>> form = DateForm.of(["31.01.2024", "1.2.2024 13:30"], [1, 1])
    >>> form.order, form.read(["31.01.2024", "1.2.2024 13:30", "soon"]).tolist()
    ('dmy', [1706659200.0, 1706794200.0, nan])
    """

    order: str
    clear: bool = True

    #: Orders that :meth:`of` looks for.
    ORDERS: ClassVar[tuple[str, ...]] = tuple(_ORDERS)

    @classmethod
    def of(
        cls, levels: Sequence[str], counts: Sequence[int], *, mostly: float = MOSTLY
    ) -> Self | None:
        """Find the form that most values have; None if there is none.

        Parameters
        ----------
        levels : sequence of str
            Different values.
        counts : sequence of int
            How often each occurs.
        mostly : float, default=0.95
            Share of all that must have it.
        """
        total = sum(counts)
        fits = {
            order: int(np.dot(np.isfinite(cls(order).read(levels)), counts)) for order in _ORDERS
        }
        most = max(fits.values(), default=0)
        if not total or most < mostly * total:
            return None
        equal = [order for order in _ORDERS if fits[order] == most]
        if {"dmy", "mdy"} <= set(equal):
            # Slashes are written where months come first, points and dashes where days do.
            slashes = sum("/" in level for level in levels)
            return cls("mdy" if 2 * slashes > len(levels) else "dmy", clear=False)
        return cls(equal[0])

    @property
    def is_time(self) -> bool:
        """Whether these are times of the day, without a date."""
        return self.order == "time"

    def read(self, levels: Sequence[str]) -> Floats:
        """Seconds since 1970, or of the day; NaN for what is none of this form."""
        pattern = re.compile(_ORDERS[self.order])
        return np.array([_seconds(pattern.fullmatch(level.strip())) for level in levels])


def _seconds(match: re.Match[str] | None) -> float:
    """Seconds that a matched date or time means; NaN if there is no such day."""
    if match is None:
        return np.nan
    parts = match.groupdict()
    seconds = _time_of_day(parts)
    if "year" not in parts:
        return seconds
    if len(parts["year"]) < 4 and parts.get("mark", "").startswith(".") and len(match[0]) < 8:
        return np.nan  # versions such as 1.2.10 look like that
    day, month, year = int(parts.get("day") or 1), _month(parts["month"]), _year(parts["year"])
    try:
        days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return np.nan
    return days * _SECONDS_OF_DAY + seconds if year in _YEARS else np.nan


def _time_of_day(parts: dict[str, str | None]) -> float:
    """Seconds since midnight, in UTC where a zone is given; NaN if there is no such time."""
    hour, minute = int(parts.get("hour") or 0), int(parts.get("minute") or 0)
    second = float((parts.get("second") or "0").replace(",", "."))
    half = (parts.get("half") or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return np.nan
        hour = hour % 12 + 12 * (half == "p")
    if hour > 24 or minute > 59 or second >= 61.0 or hour * 60 + minute > 24 * 60:
        return np.nan
    offset = 0
    zone = parts.get("zone") or "Z"
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    return (hour * 60 + minute - offset) * 60 + second


def _month(text: str) -> int:
    """Return the number of a month; 0 if there is none of that name."""
    if text.isdecimal():
        return int(text)
    name = text.lower()
    return _MONTHS.get(name[:4]) or _MONTHS.get(name[:3]) or 0


def _year(text: str) -> int:
    """Return a year of four digits."""
    year = int(text.lstrip("'"))
    if len(text.lstrip("'")) > 2:
        return year
    return year + (1900 if year >= _TURN_OF_CENTURY else 2000)


def compact_dates(values: Floats) -> Floats:
    """Read numbers such as 20240131 as dates; NaN for what is none.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers.

    Returns
    -------
    seconds : ndarray of shape (n,)
        Since 1970.

    Examples
    --------
    >>> compact_dates(np.array([20240131.0, 20240230.0, 17.0])).tolist()
    [1706659200.0, nan, nan]
    """
    seconds = np.full(len(values), np.nan)
    with np.errstate(invalid="ignore"):
        able = (values >= 1900_01_01) & (values <= 2100_12_31) & (values == np.round(values))
    whole = values[able].astype(np.int64)
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = (year - 1970) * 12 + np.where(real, month, 1) - 1
    start = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - start
    real &= day <= length
    seconds[able] = np.where(real, (start + day - 1) * _SECONDS_OF_DAY, np.nan)
    return seconds
