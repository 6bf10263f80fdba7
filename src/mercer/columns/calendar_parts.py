"""Dates as numbers and back: what is written as 20240131, and the parts of the calendar.

The text of this module is put into exported models that have dates, see :mod:`mercer_app.export`:
it needs nothing but NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

_DAY = 86_400.0


def _part(of: Callable[[Seconds], Seconds]) -> Callable[[Seconds], Seconds]:
    """Make a part of the calendar of seconds since 1970, NaN where unknown."""

    def made(seconds: Seconds) -> Seconds:
        known = np.isfinite(seconds)
        values = np.full(len(seconds), np.nan)
        values[known] = of(seconds[known])
        return values

    return made


def _day_of(period: str) -> Callable[[Seconds], Seconds]:
    """Count the days since the beginning of the month or year, from 1."""

    def days(seconds: Seconds) -> Seconds:
        today = np.floor(seconds / _DAY).astype(np.int64).astype("datetime64[D]")
        begun = today.astype(f"datetime64[{period}]").astype("datetime64[D]")
        return np.asarray((today - begun).astype(np.float64) + 1.0)

    return days


#: Parts of the calendar that inputs are made of. 1970 began on a Thursday; Monday is 0.
PARTS = {
    "day_of_year": _part(_day_of("Y")),
    "day": _part(_day_of("M")),
    "weekday": _part(lambda s: (np.floor(s / _DAY) + 3.0) % 7.0),
    "hour": _part(lambda s: s % _DAY / 3600.0),
}


def compact_dates(values: Seconds) -> Seconds:
    """Read numbers such as 20240131, 20240131154500 and 202401 as dates; NaN for what is none.

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
    >>> compact_dates(np.array([20240131.0, 202402.0, 20240230.0, 17.0])).tolist()
    [1706659200.0, 1706745600.0, nan, nan]
    """
    seconds = np.full(len(values), np.nan)
    clock = np.zeros(len(values))
    for digits in (4, 6):  # hours and minutes behind, and seconds
        with np.errstate(invalid="ignore"):
            timed = (values >= 1900_01_01 * 10.0**digits) & (values < 2101_00_00 * 10.0**digits)
            timed &= values == np.floor(values)
            rest = np.where(timed, values % 10.0**digits, 0.0) * 10.0 ** (6 - digits)
            days = np.where(timed, values // 10.0**digits, values)
        hour, minute, second = rest // 10_000, rest // 100 % 100, rest % 100
        real = (hour < 24) & (minute < 60) & (second < 60)
        clock = np.where(timed, np.where(real, hour * 3600 + minute * 60 + second, np.nan), clock)
        values = days
    with np.errstate(invalid="ignore", over="ignore"):
        values = np.where((values >= 1900_01) & (values <= 2100_12), values * 100 + 1, values)
        able = (values >= 1900_01_01) & (values <= 2100_12_31) & (values == np.round(values))
    whole = values[able].astype(np.int64)
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = (year - 1970) * 12 + np.where(real, month, 1) - 1
    start = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - start
    real &= day <= length
    seconds[able] = np.where(real, (start + day - 1) * _DAY, np.nan)
    return np.asarray(seconds + clock)


def as_moments(seconds: Seconds, step: str, clock: bool) -> NDArray[Any]:
    """Turn seconds into dates, or into text of times of the day; NaT where they are unknown.

    Parameters
    ----------
    seconds : ndarray
        Since 1970, or since midnight.
    step : {"D", "s", "us"}
        To what they are rounded.
    clock : bool
        Whether they are times of the day, which those before and after it are drawn to.

    Returns
    -------
    moments : ndarray
        datetime64, or text.

    Examples
    --------
    >>> as_moments(np.array([1706659200.0]), "D", False).tolist()
    [datetime.date(2024, 1, 31)]
    >>> as_moments(np.array([48600.4, -5.0, 1e6]), "s", True).tolist()
    ['13:30:00', '00:00:00', '23:59:59']
    """
    size = {"D": _DAY, "s": 1.0, "us": 1e-6}[step]
    known = np.isfinite(seconds)
    steps = np.round(np.where(known, seconds, 0.0) / size)
    if clock:
        steps = np.clip(steps, 0.0, round(_DAY / size) - 1)
    moments = np.clip(steps, -1e17, 1e17).astype(np.int64).astype(f"datetime64[{step}]")
    moments[~known] = np.datetime64("NaT")
    return np.char.partition(np.datetime_as_string(moments), "T")[..., 2] if clock else moments
