"""Forms of numbers and dates that people write as text, and how they are found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.written import (
    CLOCKS,
    FAMILIES,
    NO_UNIT,
    ORDERS,
    match_values,
    number_match,
    read_dates,
    read_numbers,
    suffix_and_unit,
    unit_of,
)
from mercer.records import Record, Recorded
from mercer.validation import choice, text, truth

Floats = NDArray[np.float64]
Match = re.Match[str] | None

# Share of the rows with a value that must be of a form.
MOSTLY = 0.95
_SAMPLE = 200  # different values that are tried in all orders of dates
_BOUNDS = 0.5  # share of cells such as <500 above which they name classes
# Share of cells with a letter for thousands, from which it is more than part of a house number.
_SCALED = 0.05
# Letters that mean multiples even if bare numbers occur, too; "5 m" is more often metres.
_COUNTED = frozenset("kKMB千万萬만億亿억")

# -- numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberForm(Recorded):
    """How numbers are written in a column of text.

    Parameters
    ----------
    decimal : {".", ","}
        What stands before the decimals.
    unit : str
        Unit written next to all numbers, such as "%", "km" or "$".
    scale : str
        Family of units of different sizes that occur together: "count" for 1.3K and 963, "metres"
        for 2 km and 300 m, see :data:`mercer.columns.written.FAMILIES`; "" if all have one unit.

    Examples
    --------
    >>> form = NumberForm.of(["$1,234.50", "($20)", "$7"], [1, 1, 1])
    >>> form.read(["$1,234.50", "($20)", "free"]).tolist(), form.unit
    ([1234.5, -20.0, nan], '$')
    >>> NumberForm.of(["1.3K", "963"], [1, 1]).read(["1.3K", "963", "2M"]).tolist()
    [1300.0, 963.0, 2000000.0]
    """

    decimal: Literal[".", ","]
    unit: str = ""
    scale: str = ""

    _record = Record(decimal=choice(".", ","), unit=text(), scale=text())

    @classmethod
    def of(
        cls, levels: Sequence[str], counts: Sequence[int], *, mostly: float = MOSTLY
    ) -> Self | None:
        """Return the form of most values; None if there is none.

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
        if not total or all(match is None for match in found):
            return None
        bounds = sum(n for match, n in zip(found, counts, strict=True) if _is_bound(match))
        if bounds > _BOUNDS * total:
            return None
        for unit, scale in (
            *_sides(found, counts, mostly),
            *_counted(found, counts, mostly),
            *_plain(found, counts, mostly),
            *_sized(found, counts, mostly),
        ):
            form = cls._with_mark(found, counts, unit, scale, mostly)
            if form is not None:
                return form
        return None

    @classmethod
    def _with_mark(
        cls, found: Sequence[Match], counts: Sequence[int], unit: str, scale: str, mostly: float
    ) -> Self | None:
        """Return the form with the decimal mark that most have."""
        point, comma = cls(".", unit, scale), cls(",", unit, scale)
        by_point, by_comma = (
            match_values(found, one.decimal, unit, scale) for one in (point, comma)
        )
        n_point, n_comma = (int(np.dot(np.isfinite(read), counts)) for read in (by_point, by_comma))
        if max(n_point, n_comma) < mostly * sum(counts):
            return None
        if n_point == n_comma:
            # Bare numbers among values such as 1.234K are small with either decimal mark.
            return comma if not scale and _has_thousands(by_comma, by_point) else point
        return point if n_point > n_comma else comma

    def read(self, levels: Sequence[str]) -> Floats:
        """Return values as numbers; NaN for values of another form."""
        return read_numbers(levels, self.decimal, self.unit, self.scale)


def _is_bound(match: Match) -> bool:
    """Return whether text gives a bound, such as "at least 5", instead of a number."""
    return match is not None and bool(match["bound"] or match["more"])


def _plain(found: Sequence[Match], counts: Sequence[int], mostly: float) -> list[tuple[str, str]]:
    """Return the unit that most numbers have; a bare one among them is one of that unit."""
    units: Counter[str] = Counter()
    for match, count in zip(found, counts, strict=True):
        unit = NO_UNIT if match is None else unit_of(match)
        if unit != NO_UNIT:
            units[unit] += count
    unit = max(sorted(units), key=lambda name: (bool(name), units[name]), default="")
    enough = sum(units.get(name, 0) for name in {unit, ""}) >= mostly * sum(counts)
    return [(unit, "")] if enough else []


def _counted(found: Sequence[Match], counts: Sequence[int], mostly: float) -> list[tuple[str, str]]:
    """Return the unit that multiples have in common, if any: 963 then does not mean 963K."""
    behind = {match["after"]: match for match in found if match is not None}
    if not any(suffix_and_unit(match, "count")[0] for match in behind.values()):
        return []
    suffixes: Counter[str] = Counter()
    units: Counter[str] = Counter()
    fractions, bare_of_sized = False, 0
    for match, count in zip(found, counts, strict=True):
        if match is None:
            continue
        suffix, unit = suffix_and_unit(match, "count")
        if unit == NO_UNIT:
            continue
        suffixes[suffix] += count
        units[unit] += count
        fractions |= bool(suffix) and not match["digits"].strip().isdecimal()
        bare_of_sized += count * bool(suffix and not unit)
    sizes = {FAMILIES["count"][suffix] for suffix in suffixes if suffix}
    n_sized = sum(count for suffix, count in suffixes.items() if suffix)
    words = any(len(suffix) > 1 for suffix in suffixes)
    sure = words or len(sizes) > 1 or not _COUNTED.isdisjoint(suffixes)
    if not (sure and (fractions or words or n_sized >= _SCALED * sum(counts))):
        return []
    unit = max(sorted(units), key=lambda name: (bool(name), units[name]))
    if sum(units.get(name, 0) for name in {unit, ""}) < mostly * sum(counts):
        return []
    if unit and bare_of_sized > (1.0 - mostly) * sum(counts):  # sizes such as 34B and 36C
        return []
    if len(suffixes) == 1 and not unit:  # all share this suffix, so it is a unit
        unit = next(iter(suffixes))
    return [(unit, "count")]


def _sides(found: Sequence[Match], counts: Sequence[int], mostly: float) -> list[tuple[str, str]]:
    """Return the family of latitudes and longitudes, if some are south or west, and others not."""
    sizes = FAMILIES["degrees"]
    n, signs, exact = 0, set(), False
    for match, count in zip(found, counts, strict=True):
        if match is not None and match["after"] in sizes and not match["before"]:
            n += count
            signs.add(sizes[match["after"]])
            exact |= "°" in match["after"] or not match["digits"].isdecimal()
    return [("", "degrees")] if exact and len(signs) > 1 and n >= mostly * sum(counts) else []


def _sized(found: Sequence[Match], counts: Sequence[int], mostly: float) -> list[tuple[str, str]]:
    """Return families of units in which most numbers are, such as metres and kilometres."""
    known = [
        (match["after"], count)
        for match, count in zip(found, counts, strict=True)
        if match is not None and match["after"] and not match["before"]
    ]
    return [
        ("", name)
        for name, sizes in FAMILIES.items()
        if name not in ("count", "degrees")
        and sum(count for unit, count in known if unit.rstrip(".") in sizes) >= mostly * sum(counts)
    ]


def _has_thousands(values: Floats, as_decimals: Floats) -> bool:
    """Return whether marks group thousands, as 1.234 among 950, and are not decimal marks."""
    with np.errstate(invalid="ignore"):
        marked = np.abs(values) > np.abs(as_decimals)
    whole = np.abs(values[values == as_decimals])
    return bool(marked.any() and whole.any() and whole.max() < 1000.0)


# -- dates ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DateForm(Recorded):
    """How dates, times of the day, or durations, are written in a column of text.

    Parameters
    ----------
    order : str
        Order of the parts, of :attr:`ORDERS`: "ymd", "dmy", "mdy", "d month y" with the month's
        name, and so on; "time" for times of day; "h:m:s", "1h 2m" and "PT1H2M" for durations.
        Several orders in one column are joined by bars: "ymd|mdy". A trailing mark, as in "dmy.",
        means dates with that mark only.
    clear : bool
        Whether no other order would do, as it would if no day were above the 12th.

    Examples
    --------
    >>> form = DateForm.of(["31.01.2024", "1.2.2024 13:30"], [1, 1])
    >>> form.order, form.read(["31.01.2024", "1.2.2024 13:30", "soon"]).tolist()
    ('dmy', [1706659200.0, 1706794200.0, nan])
    >>> DateForm.of(["2024-01-31", "31 Jan 2024", "2024-02-01"], [1, 1, 1]).order
    'ymd|d month y'
    """

    order: str
    clear: bool = True

    _record = Record(order=text(), clear=truth())

    #: Orders that :meth:`of` looks for.
    ORDERS: ClassVar[tuple[str, ...]] = tuple(ORDERS)

    @classmethod
    def of(
        cls,
        levels: Sequence[str],
        counts: Sequence[int],
        *,
        mostly: float = MOSTLY,
        among: Collection[str] = tuple(ORDERS),
    ) -> Self | None:
        """Return the form of most values; None if there is none.

        Parameters
        ----------
        levels : sequence of str
            Different values.
        counts : sequence of int
            How often each occurs.
        mostly : float, default=0.95
            Share of all that must have it.
        among : collection of str, default=ORDERS
            Orders that it may be.
        """
        total = sum(counts)
        some = np.linspace(0, len(levels) - 1, min(_SAMPLE, len(levels))).astype(np.int64)
        few = [levels[i] for i in some]
        tried = [o for o in ORDERS if o in among and np.isfinite(read_dates(few, o)).any()]
        fits = {order: np.isfinite(read_dates(levels, order)) for order in tried}
        fits, clear = _days_and_months(levels, np.asarray(counts), fits)
        fits, clear = _days_and_years(few, np.asarray(counts), fits, clear)
        best: tuple[int, list[str]] = (0, [])
        for of_clocks in (False, True):  # times are not mixed with dates
            of_kind = {o: fit for o, fit in fits.items() if (o in CLOCKS) == of_clocks}
            n, orders = _joined(of_kind, np.asarray(counts))
            if n > best[0]:
                best = n, orders
        n, orders = best
        if not n or n < mostly * total:
            return None
        return cls(
            "|".join(orders),
            clear or not any(_unmarked(o) in ("dmy", "mdy", "yy-m-d") for o in orders),
        )

    @property
    def is_time(self) -> bool:
        """Whether these are times of the day, without a date."""
        return self.order == "time"

    @property
    def is_duration(self) -> bool:
        """Whether these are durations."""
        return not self.is_time and self.order.split("|")[0] in CLOCKS

    def read(self, levels: Sequence[str]) -> Floats:
        """Return seconds since 1970, or since midnight; NaN for values of another form."""
        return read_dates(levels, self.order)


def _days_and_months(
    levels: Sequence[str], counts: NDArray[np.int64], fits: dict[str, NDArray[np.bool_]]
) -> tuple[dict[str, NDArray[np.bool_]], bool]:
    """Decide what comes first of days and months in figures, for each mark if they differ.

    Returns the orders that are left, and whether the dates themselves have decided.
    """
    if "dmy" not in fits or "mdy" not in fits:
        return fits, True
    either = fits["dmy"] | fits["mdy"]
    marks = [""]
    if not (np.array_equal(either, fits["dmy"]) or np.array_equal(either, fits["mdy"])):
        marks = ["/", ".", "-", " "]
    others = {order: fit for order, fit in fits.items() if order not in ("dmy", "mdy")}
    clear = True
    for mark in marks:
        dmy, mdy = (
            fits[order] if not mark else np.isfinite(read_dates(levels, order + mark))
            for order in ("dmy", "mdy")
        )
        n_dmy, n_mdy = int(np.dot(dmy, counts)), int(np.dot(mdy, counts))
        if n_dmy == n_mdy:
            if not n_dmy:
                continue
            clear = False
            # Slashes are written where months come first, points and dashes where days do.
            seen = [level for level, fit in zip(levels, dmy, strict=True) if fit]
            first = "mdy" if 2 * sum("/" in level for level in seen) > len(seen) else "dmy"
        else:
            first = "dmy" if n_dmy > n_mdy else "mdy"
        others[first + mark] = dmy if first == "dmy" else mdy
    return others, clear


def _days_and_years(
    levels: Sequence[str],
    counts: NDArray[np.int64],
    fits: dict[str, NDArray[np.bool_]],
    clear: bool,
) -> tuple[dict[str, NDArray[np.bool_]], bool]:
    """Decide whether the year comes first or last where it has two figures, as in 23-01-31.

    If all dates can be read in both ways, days are what there are more of.
    """
    if "yy-m-d" not in fits:
        return fits, clear
    n = {order: int(np.dot(fit, counts)) for order, fit in fits.items()}
    last = max((n[order] for order in n if _unmarked(order) in ("dmy", "mdy")), default=0)
    first = n["yy-m-d"]
    if last == first:
        figures = [re.findall(r"\d+", level) for level in levels]
        parts = [{some[place] for some in figures if len(some) > 2} for place in (0, 2)]
        first += 1 if len(parts[0]) < len(parts[1]) else -1
        clear &= first < last
    left = ("dmy", "mdy") if first > last else ("yy-m-d",)
    return {o: fit for o, fit in fits.items() if _unmarked(o) not in left}, clear


def _unmarked(order: str) -> str:
    """Return an order without the mark that its dates have."""
    return order[:3] if order[:3] in ("dmy", "mdy") else order


def _joined(fits: dict[str, NDArray[np.bool_]], counts: NDArray[np.int64]) -> tuple[int, list[str]]:
    """Return the fewest orders that read as much as all together, the most common first."""
    orders: list[str] = []
    known = np.zeros(len(counts), dtype=bool)
    places = list(ORDERS)
    either = np.any(list(fits.values()), axis=0)
    ranks = {
        # If some cells are not times of day, 5:30 is not one either.
        order: (
            order == "time" and not np.array_equal(fit, either),
            -int(np.dot(fit, counts)),
            places.index(_unmarked(order)),
        )
        for order, fit in fits.items()
    }
    for order in sorted(fits, key=ranks.__getitem__):
        if (fits[order] & ~known).any():
            orders.append(order)
            known |= fits[order]
    return int(np.dot(known, counts)), orders
