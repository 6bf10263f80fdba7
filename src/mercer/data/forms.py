"""Forms of numbers and dates that people write as text, and how they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mercer.data.written import NO_UNIT, ORDERS, number_match, read_dates, read_numbers, unit_of

__all__ = ["DateForm", "NumberForm"]

Floats = NDArray[np.float64]

# Share of the rows with a value that must be of a form.
MOSTLY = 0.95

# -- numbers --------------------------------------------------------------------------------------


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
        found = [number_match(level) for level in levels]
        total = sum(counts)
        units: dict[str, int] = {}
        for match, count in zip(found, counts, strict=True):
            unit = NO_UNIT if match is None else unit_of(match)
            if unit != NO_UNIT:
                units[unit] = units.get(unit, 0) + count
        # A bare number among others with a unit is one of that unit.
        unit = max(sorted(units), key=lambda name: (bool(name), units[name]), default="")
        if sum(units.get(name, 0) for name in {unit, ""}) < mostly * total or not total:
            return None
        point, comma = cls(".", unit), cls(",", unit)
        by_point, by_comma = point.read(levels), comma.read(levels)
        n_point, n_comma = (int(np.dot(np.isfinite(read), counts)) for read in (by_point, by_comma))
        if max(n_point, n_comma) < mostly * total:
            return None
        if n_point == n_comma:
            return comma if _has_thousands(by_comma, by_point) else point
        return point if n_point > n_comma else comma

    def read(self, levels: Sequence[str]) -> Floats:
        """Read values; NaN for what is none of this form."""
        return read_numbers(levels, self.decimal, self.unit)


def _has_thousands(values: Floats, as_decimals: Floats) -> bool:
    """Whether marks part thousands, as in 1.234 beside 950, rather than decimals."""
    with np.errstate(invalid="ignore"):
        marked = np.abs(values) > np.abs(as_decimals)
    whole = np.abs(values[values == as_decimals])
    return bool(marked.any() and whole.any() and whole.max() < 1000.0)


# -- dates ----------------------------------------------------------------------------------------


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
    ORDERS: ClassVar[tuple[str, ...]] = tuple(ORDERS)

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
            order: int(np.dot(np.isfinite(cls(order).read(levels)), counts)) for order in ORDERS
        }
        most = max(fits.values(), default=0)
        if not total or most < mostly * total:
            return None
        equal = [order for order in ORDERS if fits[order] == most]
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
        return read_dates(levels, self.order)
