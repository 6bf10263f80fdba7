"""Reading numbers and dates that are written as text.

The text of this module is put into exported models that have such columns, see
:mod:`mercer.export`: it needs nothing but NumPy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_UNIT", "ORDERS", "number_match", "read_dates", "read_numbers", "unit_of"]


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
_LONGEST = 64  # characters; of long runs of blanks there are many ways to make parts of a number
# Groups of three digits with one mark between; in India of two before the last, as 12,34,567.
_GROUPED = re.compile(
    r"[1-9]\d{0,2}(?P<mark>[., ])\d{3}(?:(?P=mark)\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}"
)
NO_UNIT = "\0"  # of text that is no number with a unit


def read_numbers(texts: Sequence[str], decimal: str, unit: str) -> NDArray[np.float64]:
    """Read numbers; NaN for what is none with this decimal mark, and this unit or none."""
    return np.array([_number_of(text, decimal, unit) for text in texts], dtype=np.float64)


def number_match(text: str) -> re.Match[str] | None:
    """Find the parts of a number, if text may be one."""
    text = text.strip()
    return _SIGNED.fullmatch(text) if len(text) <= _LONGEST else None


def _number_of(text: str, decimal: str, unit: str) -> float:
    match = number_match(text)
    if match is None or unit_of(match) not in (unit, ""):
        return math.nan
    digits = _SPACES.sub(" ", match["digits"]).strip()
    whole, point, decimals = digits.partition(decimal)
    if point and not (decimals.isdecimal() or not decimals):
        return math.nan
    if not (whole.isdecimal() or not whole):
        if not _GROUPED.fullmatch(whole):
            return math.nan
        whole = re.sub("[., ]", "", whole)
    bracketed = bool(match["open"])
    if bracketed != bool(match["close"]) or (match["sign"] and match["sign2"]):
        return math.nan
    value = float(f"{whole or '0'}.{decimals or '0'}{match['power'] or ''}")
    negative = bracketed or (match["sign"] or match["sign2"]) in ("-", "\u2212")
    return -value if negative else value


def unit_of(match: re.Match[str]) -> str:
    """Return what stands beside a number, in the singular."""
    before, after = match["before"], match["after"]
    if before and (after or not _CURRENCY.fullmatch(before)):
        return NO_UNIT
    if len(after) > _LONGEST_UNIT or (match["open"] and after and not _CURRENCY.fullmatch(after)):
        return NO_UNIT
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
ORDERS = {
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


def read_dates(texts: Sequence[str], order: str) -> NDArray[np.float64]:
    """Seconds since 1970, or of the day, of what is written in an order; NaN for what is not."""
    pattern = re.compile(ORDERS[order])
    matches = (pattern.fullmatch(text.strip()) for text in texts)
    return np.array([_seconds(match) for match in matches], dtype=np.float64)


def _seconds(match: re.Match[str] | None) -> float:
    """Seconds that a matched date or time means; NaN if there is no such day."""
    if match is None:
        return math.nan
    parts = match.groupdict()
    seconds = _time_of_day(parts)
    if "year" not in parts:
        return seconds
    if len(parts["year"]) < 4 and parts.get("mark", "").startswith(".") and len(match[0]) < 8:
        return math.nan  # versions such as 1.2.10 look like that
    day, month, year = int(parts.get("day") or 1), _month(parts["month"]), _year(parts["year"])
    try:
        days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return math.nan
    return days * _SECONDS_OF_DAY + seconds if year in _YEARS else math.nan


def _time_of_day(parts: dict[str, str | None]) -> float:
    """Seconds since midnight, in UTC where a zone is given; NaN if there is no such time."""
    hour, minute = int(parts.get("hour") or 0), int(parts.get("minute") or 0)
    second = float((parts.get("second") or "0").replace(",", "."))
    half = (parts.get("half") or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return math.nan
        hour = hour % 12 + 12 * (half == "p")
    if hour > 24 or minute > 59 or second >= 61.0 or hour * 60 + minute > 24 * 60:
        return math.nan
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
