"""Statistics of tables that can be collected in pieces, in bounded memory, and merged.

Free of policy: what is done with means and counts is decided in ``preprocessing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.target_means import CategorySums, Repeats, TargetCodes, contents_of, folds_of
from mercer.columns.texts import TextSample
from mercer.columns.views import (
    Levels,
    Numbers,
    TableView,
    Texts,
    level_column,
    number_block,
    row_blocks,
)
from mercer.records import Listed, Maybe, Named, Part, Record, Recorded, Several
from mercer.validation import integer, text, truth

Floats = NDArray[np.float64]
_TRACKED_LEVELS = 4096


class _End(Listed):
    """Ends of the ranges of columns; None where a column has no value."""

    def __init__(self, none: float) -> None:
        super().__init__("n_columns")
        self.none = none

    def written(self, value: Any) -> Any:
        return [one if math.isfinite(one) else None for one in value.tolist()]

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Floats:
        values = value if isinstance(value, list) else [value]
        found = super().read(name, [0.0 if one is None else one for one in values], sizes)
        return np.where([one is None for one in values], self.none, found)


@dataclass
class NumberStatistics(Recorded):
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

    _record = Record(
        count=Listed("n_columns", dtype=np.int64, low=0),
        missing=Listed("n_columns", dtype=np.int64, low=0),
        mean=Listed("n_columns"),
        sum_squares=Listed("n_columns", low=0.0),
        minimum=_End(np.inf),
        maximum=_End(-np.inf),
        whole=Listed("n_columns", dtype=np.bool_),
        binary=Listed("n_columns", dtype=np.bool_),
    ).where(
        "a column with values must have a finite range",
        lambda it: np.isfinite([it["minimum"], it["maximum"]])[:, it["count"] > 0].all(),
    )

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


@dataclass
class LevelCounts(Recorded):
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

    _record = Record(
        counts=Named(integer(low=0), _TRACKED_LEVELS), missing=integer(low=0), boolean=truth()
    )

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


@dataclass
class TableStatistics(Recorded):
    """Statistics of every column of a table, in the order of the first one seen."""

    names: list[str]
    number_names: list[str]
    numbers: NumberStatistics
    levels: dict[str, LevelCounts]
    n_rows: int = 0
    texts: dict[str, TextSample] = field(default_factory=dict)
    targets: TargetCodes | None = None
    sums: dict[str, CategorySums] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=lambda: Repeats(0))

    _record = Record(
        names=Several(text(), kind=list),
        number_names=Several(text(), "n_numbers", list),
        numbers=Part(NumberStatistics, n_columns="n_numbers"),
        levels=Named(Part(LevelCounts)),
        texts=Named(Part(TextSample)),
        targets=Maybe(Part(TargetCodes)),
        sums=Named(Part(CategorySums)),
        repeats=Part(Repeats),
        n_rows=integer(low=0),
    ).where(
        "the columns and their statistics do not match",
        lambda it: (
            sorted(it["names"])
            == sorted([*it["number_names"], *it["levels"], *it["texts"]])
            == sorted({*it["names"]})
        ),
    )

    @classmethod
    def like(cls, view: TableView, targets: TargetCodes | None = None) -> Self:
        """Start empty statistics for columns of the kinds found in ``view``, and for targets."""
        kinds = {name: type(view.column(name)) for name in view.names}
        number_names = [name for name, kind in kinds.items() if kind is Numbers]
        return cls(
            names=list(view.names),
            number_names=number_names,
            numbers=NumberStatistics.of(np.empty((len(number_names), 0))),
            levels={name: LevelCounts() for name, kind in kinds.items() if kind is Levels},
            texts={name: TextSample() for name, kind in kinds.items() if kind is Texts},
            targets=targets,
            sums={}
            if targets is None
            else {name: CategorySums(targets.n) for name, kind in kinds.items() if kind is Levels},
            repeats=Repeats(0 if targets is None else targets.n),
        )

    def update(self, view: TableView, y: NDArray[Any] | None = None) -> None:
        """Add the rows of a table with the same columns, and their targets if these count.

        Raises
        ------
        ValueError
            If columns changed between numbers and text, or hold infinite numbers; the statistics
            are unchanged.
        """
        new = self._empty()
        for start, block in row_blocks(view, len(self.number_names)):
            values = number_block(block, self.number_names, start)
            whole = [getattr(block.column(name), "integer", False) for name in self.number_names]
            new.numbers.merge(NumberStatistics.of(values, np.array(whole, dtype=bool)))
            for name, counts in new.levels.items():
                counts.update(level_column(block, name))
            codes = None
            if self.targets is not None and y is not None:
                codes = self.targets.codes(y[start : start + block.n_rows])
            for name, texts in new.texts.items():
                texts.update(level_column(block, name), codes)
            if new.sums and codes is not None:
                keys = contents_of(block)
                new.repeats.update(keys, codes)
                for name, sums in new.sums.items():
                    sums.update(level_column(block, name), folds_of(keys), codes)
        new.n_rows = view.n_rows
        self.merge(new)

    def _empty(self) -> Self:
        """Return statistics of the same columns and targets, without rows."""
        return type(self)(
            list(self.names),
            list(self.number_names),
            NumberStatistics.of(np.empty((len(self.number_names), 0))),
            {name: LevelCounts() for name in self.levels},
            0,
            {name: TextSample() for name in self.texts},
            self.targets,
            {} if self.targets is None else {n: CategorySums(self.targets.n) for n in self.sums},
            Repeats(self.repeats.n_codes),
        )

    @property
    def missing(self) -> dict[str, int]:
        """Rows without a value in each column."""
        others: dict[str, LevelCounts | TextSample] = {**self.levels, **self.texts}
        return {
            **dict(zip(self.number_names, self.numbers.missing.tolist(), strict=True)),
            **{name: seen.missing for name, seen in others.items()},
        }

    def repeats_tell(self) -> bool:
        """Whether rows mostly repeat others, which predict more than any column's categories."""
        return all(self.repeats.tell_more(sums) for sums in self.sums.values())

    def without_values(self, names: Collection[str]) -> set[str]:
        """Return the columns among these that had no value."""
        missing = self.missing
        return {name for name in names if missing[name] == self.n_rows}

    def kinds(self) -> dict[str, type]:
        """Return of each column what it was read as: Numbers, Levels or Texts."""
        numbers, texts = set(self.number_names), set(self.texts)
        return {
            name: Numbers if name in numbers else Texts if name in texts else Levels
            for name in self.names
        }

    def retyped(self, kinds: Mapping[str, type]) -> Self:
        """Take columns of other kinds for columns without a value; they had none.

        Parameters
        ----------
        kinds : mapping of str to type
            Kinds of all columns wanted, in order.
        """
        mine = self.kinds()
        if list(kinds.items()) == list(mine.items()):
            return self
        same = {name for name, kind in mine.items() if kinds.get(name) is kind}
        kept = [n for n, name in enumerate(self.number_names) if name in same]
        absent = [name for name, kind in kinds.items() if kind is Numbers and name not in same]
        nothing = NumberStatistics.of(np.full((len(absent), self.n_rows), np.nan))
        fields = {
            key: np.concatenate([getattr(self.numbers, key)[kept], getattr(nothing, key)])
            for key in nothing.__dataclass_fields__
        }
        return type(self)(
            list(kinds),
            [*(self.number_names[n] for n in kept), *absent],
            NumberStatistics(**fields),
            {
                name: self.levels[name] if name in same else LevelCounts(missing=self.n_rows)
                for name, kind in kinds.items()
                if kind is Levels
            },
            self.n_rows,
            {
                name: self.texts[name] if name in same else TextSample(missing=self.n_rows)
                for name, kind in kinds.items()
                if kind is Texts
            },
            self.targets,
            {}
            if self.targets is None
            else {
                name: self.sums[name] if name in same else CategorySums(self.targets.n)
                for name, kind in kinds.items()
                if kind is Levels
            },
            self.repeats,
        )

    def merge(self, other: TableStatistics) -> None:
        """Add the rows summarised by ``other``, which are of the same columns and kinds."""
        places = {name: place for place, name in enumerate(other.number_names)}
        order = [places[name] for name in self.number_names]
        fields = {k: getattr(other.numbers, k)[order] for k in other.numbers.__dataclass_fields__}
        self.numbers.merge(NumberStatistics(**fields))
        for name, counts in self.levels.items():
            counts.merge(other.levels[name])
        for name, sample in self.texts.items():
            sample.merge(other.texts[name])
        for name, sums in self.sums.items():
            sums.merge(other.sums[name])
        self.repeats.merge(other.repeats)
        self.n_rows += other.n_rows
