"""Cells that cannot be what their columns are: counted, or an error."""

from __future__ import annotations

from collections.abc import Mapping

from mercer.exceptions import Advice, InPython

_NO_COUNTS: Mapping[str, int] = {}
#: How messages call what a column is.
_A = {
    **dict.fromkeys(("number", "int64", "double", "float"), "a number"),
    **dict.fromkeys(("date", "date32[day]", "timestamp[s]", "timestamp[ns]"), "a date"),
    **dict.fromkeys(("time", "time32[s]"), "a time of the day"),
    "bool": "a truth value",
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
        return [
            f"The column {name!r} has {n:,} cell{'s' * (n != 1)} that cannot be read as "
            f"{_A.get(kind, kind)}, first {cell!r} in {place}: "
            "such cells are taken for missing values."
            for name, n in self.counts.items()
            if n > more.get(name, 0)
            for kind, cell, place in [self.first[name]]
        ]


def typed(setting: str) -> InPython:
    """Return the advice to declare the type of a column."""
    return InPython(
        f"choose a type with {setting}",
        ("convert it to Parquet with the types that you want",),
    )
