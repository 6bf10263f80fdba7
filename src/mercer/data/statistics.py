"""Statistics of tables that can be collected in pieces, in bounded memory, and merged.

Free of policy: what is done with means and counts is decided in ``preprocessing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.data.columns import (
    Levels,
    Numbers,
    TableView,
    check_names,
    level_column,
    number_block,
    row_blocks,
)

__all__ = ["LevelCounts", "NumberStatistics", "TableStatistics"]

Floats = NDArray[np.float64]
_TRACKED_LEVELS = 4096


@dataclass
class NumberStatistics:
    """Moments and ranges of numeric columns, all arrays of shape (n_columns,).

    ``mean`` and ``sum_squares`` (of deviations from the mean) are merged by the update of Chan,
    Golub and LeVeque, which does not cancel for columns whose mean is far from 0.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.

    Examples
    --------
    >>> both = NumberStatistics.of(np.array([[1.0, np.nan]]))
    >>> both.merge(NumberStatistics.of(np.array([[3.0]])))
    >>> both.mean, both.variance(), both.missing
    (array([2.]), array([1.]), array([1]))
    """

    count: NDArray[np.int64]
    missing: NDArray[np.int64]
    mean: Floats
    sum_squares: Floats
    minimum: Floats
    maximum: Floats
    whole: NDArray[np.bool_]  # every column so far had an integer type
    binary: NDArray[np.bool_]  # every value so far was 0 or 1

    @classmethod
    def of(cls, block: Floats, whole: NDArray[np.bool_] | None = None) -> Self:
        """Summarise a block of shape (n_columns, n_rows), NaN where missing."""
        absent = np.isnan(block)
        missing = absent.sum(axis=1)
        count = block.shape[1] - missing
        present = np.where(absent, 0.0, block) if missing.any() else block
        mean = present.sum(axis=1) / np.maximum(count, 1)
        deviations = np.where(absent, 0.0, block - mean[:, None])
        return cls(
            count=count,
            missing=missing,
            mean=mean,
            sum_squares=np.einsum("ij,ij->i", deviations, deviations),
            minimum=np.fmin.reduce(block, axis=1, initial=np.inf),
            maximum=np.fmax.reduce(block, axis=1, initial=-np.inf),
            whole=np.ones(len(block), dtype=bool) if whole is None else whole,
            binary=((present == 0.0) | (present == 1.0)).all(axis=1),
        )

    def merge(self, other: NumberStatistics) -> None:
        """Add the rows summarised by ``other``."""
        n_a, n_b = self.count, other.count
        n = n_a + n_b
        share = n_b / np.maximum(n, 1)
        delta = other.mean - self.mean
        self.mean = self.mean + delta * share
        self.sum_squares = self.sum_squares + other.sum_squares + delta**2 * n_a * share
        self.count = n
        self.missing = self.missing + other.missing
        self.minimum = np.minimum(self.minimum, other.minimum)
        self.maximum = np.maximum(self.maximum, other.maximum)
        self.whole = self.whole & other.whole
        self.binary = self.binary & other.binary

    def rounded(self) -> Self:
        """Return it with moments of seven digits: the same in whatever order rows were added."""
        mean, squares = (
            each.astype(np.float32).astype(np.float64) for each in (self.mean, self.sum_squares)
        )
        return replace(self, mean=mean, sum_squares=squares)

    def variance(self) -> Floats:
        """Return the population variance (divisor: the count) of each column."""
        return np.asarray(self.sum_squares / np.maximum(self.count, 1))

    def to_state(self) -> dict[str, list[Any]]:
        """Return plain lists; the range of a column without values is stored as null."""
        state = {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}
        for name in ("minimum", "maximum"):
            state[name] = [value if math.isfinite(value) else None for value in state[name]]
        return state

    @classmethod
    def from_state(cls, state: dict[str, list[Any]], n_columns: int) -> Self:
        """Inverse of :meth:`to_state`."""
        arrays = {}
        for name in cls.__dataclass_fields__:
            empty = {"minimum": np.inf, "maximum": -np.inf}.get(name)
            values = [empty if value is None else value for value in state[name]]
            kinds: dict[str, Any] = {"count": int, "missing": int, "whole": bool, "binary": bool}
            kind = kinds.get(name, float)
            if len(values) != n_columns or any(
                type(value) is not kind and not (kind is float and type(value) is int)
                for value in values
            ):
                raise ValueError(f"`{name}` must be a list of {n_columns} values of type {kind}")
            arrays[name] = np.array(values, dtype=np.int64 if kind is int else kind)
        result = cls(**arrays)
        seen = result.count > 0
        sums = np.concatenate([result.mean, result.sum_squares])
        ranges = np.concatenate([result.minimum[seen], result.maximum[seen]])
        if not (np.isfinite(sums).all() and np.isfinite(ranges).all()):
            raise ValueError("the statistics must be finite")
        if (result.count < 0).any() or (result.missing < 0).any() or (result.sum_squares < 0).any():
            raise ValueError("counts and sums of squares must not be negative")
        return result


@dataclass
class LevelCounts:
    """Counts of the values of a categorical column, at most 4,096 of them.

    Beyond that the smallest counts are cancelled against each other (Misra and Gries): any value
    whose share of the rows exceeds 1/4,096 stays, and counts are low by at most that share.

    References
    ----------
    Agarwal et al., "Mergeable summaries", PODS 2012.
    """

    counts: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    boolean: bool = True

    def update(self, column: Levels) -> None:
        """Count the values of a column."""
        totals = np.bincount(column.codes + 1, minlength=len(column.levels) + 1).tolist()
        present = {lv: n for lv, n in zip(column.levels, totals[1:], strict=True) if n}
        self.merge(LevelCounts(present, totals[0], column.boolean or not present))

    def merge(self, other: LevelCounts) -> None:
        """Add the values counted by ``other``."""
        for level, count in other.counts.items():
            self.counts[level] = self.counts.get(level, 0) + count
        self.missing += other.missing
        self.boolean = self.boolean and other.boolean
        if len(self.counts) > _TRACKED_LEVELS:
            cut = sorted(self.counts.values(), reverse=True)[_TRACKED_LEVELS]
            self.counts = {lv: n - cut for lv, n in self.counts.items() if n > cut}

    def to_state(self) -> dict[str, Any]:
        """Return plain data."""
        return {"counts": self.counts, "missing": self.missing, "boolean": self.boolean}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`."""
        counts, missing, boolean = state["counts"], state["missing"], state["boolean"]
        if not isinstance(counts, dict) or len(counts) > _TRACKED_LEVELS:
            raise ValueError(f"`counts` must be a dict of at most {_TRACKED_LEVELS} entries")
        if any(type(n) is not int or n < 0 for n in (missing, *counts.values())):
            raise ValueError("counts of categories must be whole numbers")
        if type(boolean) is not bool:
            raise ValueError("`boolean` must be true or false")
        return cls(dict(counts), missing, boolean)


@dataclass
class TableStatistics:
    """Statistics of every column of a table, in the order of the first one seen."""

    names: list[str]
    number_names: list[str]
    numbers: NumberStatistics
    levels: dict[str, LevelCounts]
    n_rows: int = 0

    @classmethod
    def like(cls, view: TableView, names: Sequence[str]) -> Self:
        """Start empty statistics for columns of the kinds found in ``view``."""
        number_names = [name for name in names if isinstance(view.column(name), Numbers)]
        return cls(
            names=list(names),
            number_names=number_names,
            numbers=NumberStatistics.of(np.empty((len(number_names), 0))),
            levels={name: LevelCounts() for name in names if name not in set(number_names)},
        )

    def update(self, view: TableView, *, excluded: Sequence[str] = ()) -> None:
        """Add the rows of a table; columns in ``excluded`` may be there and are not used.

        Raises
        ------
        ValueError
            If columns are missing or new, or changed between numbers and text.
        """
        found = [name for name in view.names if name not in excluded]
        check_names(self.names, found, "The table", allow_extra=False)
        for start, block in row_blocks(view, len(self.number_names)):
            values = number_block(block, self.number_names, start)
            whole = [getattr(block.column(name), "integer", False) for name in self.number_names]
            self.numbers.merge(NumberStatistics.of(values, np.array(whole, dtype=bool)))
            for name, counts in self.levels.items():
                counts.update(level_column(block, name))
        self.n_rows += view.n_rows

    def _as_in(self, other: TableStatistics) -> TableStatistics:
        """Take columns without any value for what they are in other statistics."""
        empty = {
            name: int(missing)
            for name, count, missing in zip(
                self.number_names, self.numbers.count, self.numbers.missing, strict=True
            )
            if not count and name in other.levels
        }
        absent = {
            name: one.missing
            for name, one in self.levels.items()
            if not one.counts and name in set(other.number_names)
        }
        if not (empty or absent):
            return self
        kept = [n for n, name in enumerate(self.number_names) if name not in empty]
        names = [self.number_names[n] for n in kept] + list(absent)
        nothing = NumberStatistics.of(np.empty((len(absent), 0)), np.zeros(len(absent), bool))
        nothing.missing = np.array(list(absent.values()), dtype=np.int64)
        fields = {
            key: np.concatenate([getattr(self.numbers, key)[kept], getattr(nothing, key)])
            for key in nothing.__dataclass_fields__
        }
        levels = {name: one for name, one in self.levels.items() if name not in absent}
        levels |= {name: LevelCounts(missing=missing) for name, missing in empty.items()}
        return TableStatistics(self.names, names, NumberStatistics(**fields), levels, self.n_rows)

    def merge(self, other: TableStatistics) -> None:
        """Add the rows summarised by ``other``.

        Raises
        ------
        ValueError
            If the two saw different columns or kinds of columns; one without any value is of the
            kind that it has in the other.
        """
        other = other._as_in(self)
        vars(self).update(vars(self._as_in(other)))
        if set(self.number_names) != set(other.number_names) or set(self.levels) != set(
            other.levels
        ):
            differing = set(self.number_names) ^ set(other.number_names)
            differing |= set(self.levels) ^ set(other.levels)
            raise ValueError(
                "Statistics of tables with different columns cannot be merged; these are absent "
                f"from one of them, or numbers in one and text in the other: {sorted(differing)}."
            )
        order = [other.number_names.index(name) for name in self.number_names]
        fields = {k: getattr(other.numbers, k)[order] for k in other.numbers.__dataclass_fields__}
        self.numbers.merge(NumberStatistics(**fields))
        for name, counts in self.levels.items():
            counts.merge(other.levels[name])
        self.n_rows += other.n_rows

    def to_state(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {
            "names": list(self.names),
            "number_names": list(self.number_names),
            "numbers": self.numbers.to_state(),
            "levels": {name: counts.to_state() for name, counts in self.levels.items()},
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; raises ``ValueError`` for anything inconsistent."""
        names, number_names = state["names"], state["number_names"]
        levels = {name: LevelCounts.from_state(part) for name, part in state["levels"].items()}
        listed = [*number_names, *levels]
        if sorted(names) != sorted(listed) or len(set(names)) < len(names):
            raise ValueError("the columns and their statistics do not match")
        if type(state["n_rows"]) is not int or state["n_rows"] < 0:
            raise ValueError("`n_rows` must be a whole number")
        numbers = NumberStatistics.from_state(state["numbers"], len(number_names))
        return cls(list(names), list(number_names), numbers, levels, state["n_rows"])
