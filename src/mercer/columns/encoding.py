"""A fixed map from tables to matrices, made of the statistics of their columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.columns.statistics import LevelCounts, NumberStatistics, TableStatistics
from mercer.columns.target_means import CategoryMeans, contents_of, folds_of
from mercer.columns.texts import TextMap
from mercer.columns.views import (
    Levels,
    TableView,
    level_column,
    number_block,
    row_blocks,
    rows_of_levels,
)

Floats = NDArray[np.float64]
_LARGEST_SPAN = 100.0
_PIXEL_COLUMNS = 32
_PIXEL_MAXIMUM = 255.0
_COMMON = 50  # rows that give a category its own output in addition to the mean of the target
_MANY_LEVELS = 30  # with more categories, their mean targets become an input
_DIRECTIONS = 64  # of all text columns together
_DIRECTIONS_OF_ONE = 32


def scales(statistics: NumberStatistics, scaling: str) -> tuple[Floats, Floats]:
    """Centre and scale of each numeric column; the encoded value is (x - centre) / scale.

    Parameters
    ----------
    statistics : NumberStatistics
        Statistics of the columns.
    scaling : {"auto", "standardize", "common", "none"}
        See :class:`mercer.columns.TablePreprocessor`.

    Returns
    -------
    centers, scales : ndarrays of shape (n_columns,)
        In the units of the columns.
    """
    n = len(statistics.count)
    center, scale = np.zeros(n), np.ones(n)
    if scaling == "none":
        return center, scale
    pixels = _pixels(statistics)
    if scaling == "common":
        bounds = np.abs(np.concatenate([statistics.minimum, statistics.maximum]))
        largest = np.max(bounds, initial=0.0, where=np.isfinite(bounds))
        # Whatever the first rows hold, the unit of pixels is 255, not the brightest one seen.
        scale[:] = _PIXEL_MAXIMUM if n and pixels.all() else (largest or 1.0)
        return center, scale
    varying = statistics.maximum > statistics.minimum
    common = pixels if scaling == "auto" else np.zeros(n, dtype=bool)
    scale[common] = _PIXEL_MAXIMUM
    alone = varying & ~common & ~statistics.binary
    spans = (statistics.maximum - statistics.minimum)[alone]
    center[alone] = statistics.mean[alone]
    # A column that is almost always the same would turn its rare values into far outliers.
    scale[alone] = np.maximum(np.sqrt(statistics.variance()[alone]), spans / _LARGEST_SPAN)
    return center, scale


def _pixels(statistics: NumberStatistics) -> NDArray[np.bool_]:
    """Mark the columns of an image: many integer columns that share the range 0..255."""
    seen = statistics.count > 0
    group = (
        seen & statistics.whole & (statistics.minimum >= 0) & (statistics.maximum <= _PIXEL_MAXIMUM)
    )
    varying = group & (statistics.maximum > statistics.minimum)
    shared = (
        group.sum() >= _PIXEL_COLUMNS
        and statistics.maximum[group].max() > _PIXEL_MAXIMUM / 2
        and 2 * (varying & statistics.binary).sum() <= varying.sum()
    )
    return group if shared else np.zeros_like(group)


@dataclass(frozen=True)
class _TextSlots:
    map: TextMap
    first: int  # output column of the first direction
    missing: int  # -1: such rows leave all columns of this one at 0


@dataclass(frozen=True)
class _MeanSlots:
    means: CategoryMeans
    first: int


@dataclass(frozen=True)
class _LevelSlots:
    lookup: dict[str, int]  # level -> output column
    other: int  # -1: such values leave all columns of this one at 0
    missing: int


class TableEncoding:
    """A fixed map from tables to matrices.

    Parameters
    ----------
    statistics : TableStatistics
        Statistics of the rows that the map is made for; not kept.
    categories : int
        Largest number of categories of a column that have their own output.
    min_count : int
        Rarer categories share the output "other".
    scaling : str
        Passed to :func:`scales`.
    parts : collection of str, optional
        Columns made of another one, whose gaps are marked there.
    texts : dict of str to TextMap, optional
        Maps of columns of text, if they are known.

    Attributes
    ----------
    feature_names : list of str
        Names of the outputs.
    owners : list of str
        Column that each output is made of.
    folded : dict of str to (int, int, int)
        Columns with more frequent categories than outputs: number of frequent categories, how many
        of them share an output, and the rows that hold these.
    repeats : bool
        Whether rows to predict get the means of other folds, as those that are learned do.

    Raises
    ------
    ValueError
        If no column varies.
    """

    def __init__(
        self,
        statistics: TableStatistics,
        *,
        categories: int,
        min_count: int,
        scaling: str,
        parts: Collection[str] = (),
        texts: dict[str, TextMap] | None = None,
    ) -> None:
        self._parts = frozenset(parts)
        self.number_names = list(statistics.number_names)
        self.feature_names: list[str] = []
        self.owners: list[str] = []
        numbers = statistics.numbers
        self._center, self._scale = scales(numbers, scaling)
        self._fill = numbers.mean.copy()
        self._value_slot = np.full(len(self.number_names), -1)
        self._missing_slot = np.full(len(self.number_names), -1)
        self._levels: dict[str, _LevelSlots] = {}
        self._texts: dict[str, _TextSlots] = {}
        self._means: dict[str, _MeanSlots] = {}
        self.repeats = statistics.repeats_tell()
        self.folded: dict[str, tuple[int, int, int]] = {}
        row_of = {name: row for row, name in enumerate(self.number_names)}
        directions = min(_DIRECTIONS_OF_ONE, _DIRECTIONS // max(1, len(statistics.texts)))
        for name in statistics.names:
            if name in row_of:
                self._place_number(name, row_of[name], numbers)
            elif name in statistics.texts:
                fitted = (texts or {}).get(name)
                fitted = fitted or TextMap.of(statistics.texts[name], max(1, directions))
                self._texts[name] = self._place_text(name, fitted, statistics)
            else:
                seen, frequent = statistics.levels[name], None
                if self._place_means(name, statistics):
                    # In addition to the mean, only common categories that differ from it are worth
                    # an output.
                    tell = self._means[name].means.telling()
                    least = max(min_count, _COMMON)
                    frequent = [level for level in tell if seen.counts.get(level, 0) >= least]
                    frequent = frequent if len(frequent) <= categories else []
                self._levels[name] = self._place_levels(name, seen, categories, min_count, frequent)
        # Beyond a bound not all levels are counted, so whether one occurred is unknown.
        self._known = {
            name: frozenset(seen.counts)
            for name, seen in statistics.levels.items()
            if name not in self._parts
            and self._levels[name].lookup
            and self._levels[name].other >= 0
            and sum(seen.counts.values()) + seen.missing == statistics.n_rows
        }
        if not self.feature_names:
            raise ValueError(
                "No column varies in the "
                f"{'one row' if statistics.n_rows == 1 else f'{statistics.n_rows} rows'} seen, so "
                "there is nothing to learn from. Use more rows for the warm-up, or other columns."
            )

    @property
    def texts(self) -> dict[str, TextMap]:
        """Maps of the columns of text."""
        return {name: slots.map for name, slots in self._texts.items()}

    def _slot(self, name: str, of: str) -> int:
        self.feature_names.append(name)
        self.owners.append(of)
        return len(self.feature_names) - 1

    def _place_number(self, name: str, row: int, numbers: NumberStatistics) -> None:
        if numbers.count[row] == 0:
            return
        if numbers.maximum[row] > numbers.minimum[row]:
            self._value_slot[row] = self._slot(name, name)
        if numbers.missing[row] and name not in self._parts:
            self._missing_slot[row] = self._slot(f"{name}=(missing)", name)

    def _place_text(self, name: str, fitted: TextMap, statistics: TableStatistics) -> _TextSlots:
        seen, first = statistics.texts[name], len(self.feature_names)
        for number in range(fitted.n_directions):
            self._slot(f"{name}:words_{number}", name)
        for code in statistics.targets.names[: fitted.n_codes] if statistics.targets else ():
            self._slot(f"{name}:predicts{code}", name)
        gaps = bool(seen.missing and seen.present)
        return _TextSlots(fitted, first, self._slot(f"{name}=(missing)", name) if gaps else -1)

    def _place_means(self, name: str, statistics: TableStatistics) -> bool:
        """Place the means of the target in many categories; return whether there are such."""
        seen, sums = statistics.levels[name], statistics.sums.get(name)
        if sums is None or statistics.targets is None or len(seen.counts) <= _MANY_LEVELS:
            return False
        means = CategoryMeans(sums)
        if means.varies:
            self._means[name] = _MeanSlots(means, len(self.feature_names))
            for code in statistics.targets.names:
                self._slot(f"{name}:mean{code}", name)
        return means.varies

    def _place_levels(
        self,
        name: str,
        seen: LevelCounts,
        categories: int,
        min_count: int,
        frequent: Sequence[str] | None,
    ) -> _LevelSlots:
        if not seen.counts:
            return _LevelSlots({}, -1, -1)
        if frequent is None:
            by_count = sorted(seen.counts.items(), key=lambda item: (-item[1], item[0]))
            frequent = [level for level, count in by_count if count >= min_count or seen.boolean]
        elif not frequent:
            categories = 0
        kept = sorted(frequent[:categories])
        rest = frequent[categories:]
        if rest and categories:
            rows = sum(seen.counts[level] for level in rest)
            self.folded[name] = len(frequent), len(rest), rows
        constant = len(kept) + (len(kept) < len(seen.counts)) < 2
        lookup: dict[str, int] = {}
        other = missing = -1
        if (not constant or seen.missing) and categories:
            lookup = {level: self._slot(f"{name}={level}", name) for level in kept}
            other = -1 if seen.boolean else self._slot(f"{name}=(other)", name)
        if seen.missing and name not in self._parts:
            missing = self._slot(f"{name}=(missing)", name)
        return _LevelSlots(lookup, other, other if missing < 0 else missing)

    def transform(
        self, view: TableView, dtype: DTypeLike, *, learned: bool = False
    ) -> NDArray[np.floating]:
        """Encode a table whose columns have been checked.

        Parameters
        ----------
        view : TableView
            The table.
        dtype : dtype
            Type of the result.
        learned : bool, default=False
            Whether these rows will be learned, so that means must not contain their own targets.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features_out)
            The encoded rows.
        """
        X: NDArray[np.floating] = np.zeros((view.n_rows, len(self.feature_names)), dtype=dtype)
        for start, block in row_blocks(view, len(self.feature_names)):
            out = X[start : start + block.n_rows]
            self._encode_numbers(block, out, start)
            by_fold = self._means and (learned or self.repeats)
            folds = folds_of(contents_of(block)) if by_fold else None
            for name in (*self._levels, *self._texts):
                self.encode_levels(name, level_column(block, name), out, folds, learned=learned)
        return X

    def encode_levels(
        self,
        name: str,
        column: Levels,
        out: NDArray[np.floating],
        folds: NDArray[np.int64] | None = None,
        *,
        learned: bool = False,
    ) -> None:
        """Write the outputs of a column of categories or texts.

        Parameters
        ----------
        name : str
            Name of the column.
        column : Levels
            Values of the column.
        out : ndarray of shape (n_rows, n_features_out)
            Where to write; 0 before.
        folds : ndarray of shape (n_rows,) or None, default=None
            Folds of rows that get the means of the others.
        learned : bool, default=False
            Whether these are such rows.
        """
        if name in self._texts:
            _encode_text(column, self._texts[name], out, learned=learned)
            return
        slots = self._levels[name]
        targets = [slots.lookup.get(level, slots.other) for level in column.levels]
        # The code -1 of missing values picks the last entry.
        slot = np.array([*targets, slots.missing])[column.codes]
        rows = np.flatnonzero(slot >= 0)
        out[rows, slot[rows]] = 1.0
        if name in self._means:
            sums = self._means[name]
            values = sums.means.transform(column, folds)
            out[:, sums.first : sums.first + values.shape[1]] = values

    def frequent_levels(self, name: str, most: int) -> list[str]:
        """Return the categories of a column that have their own output or mean, sorted.

        Parameters
        ----------
        name : str
            Name of the column.
        most : int
            Largest number of categories; of those with means, the most frequent are returned.
        """
        if name not in self._means:
            slots = self._levels[name]
            other = ["(other)"] if slots.other >= 0 else []
            return [*list(slots.lookup)[:most], *other]
        sums = self._means[name].means.sums.sums
        by_count = sorted(sums, key=lambda level: (-sums[level][:, 0].sum(), level))
        return sorted(by_count[:most])

    def numbers_of(self, name: str, X: NDArray[np.floating]) -> Floats:
        """Numbers that encoded rows had in a column, NaN where it was missing.

        Parameters
        ----------
        name : str
            Name of the column.
        X : ndarray of shape (n_rows, n_features_out)
            Encoded rows.
        """
        row = self.number_names.index(name)
        slot, gap = self._value_slot[row], self._missing_slot[row]
        if slot < 0:  # constant where it is there
            values = np.full(len(X), self._fill[row])
        else:
            values = X[:, slot] * self._scale[row] + self._center[row]
            if X.dtype == np.float32:  # 3.0000001 was 3
                digits = 5 - np.floor(np.log10(max(float(np.abs(values).max()), 1e-300)))
                values = np.round(values.astype(np.float64), int(min(max(digits, 0.0), 300.0)))
        return np.where(X[:, gap] > 0.5, np.nan, values) if gap >= 0 else values

    def encode_number(self, name: str, values: Floats, out: NDArray[np.floating]) -> None:
        """Write the outputs of a numeric column; NaN gets the outputs of a missing value.

        Parameters
        ----------
        name : str
            Name of the column.
        values : ndarray of shape (n_rows,)
            Values of the column.
        out : ndarray of shape (n_rows, n_features_out)
            Where to write.
        """
        row = self.number_names.index(name)
        absent = np.isnan(values)
        if self._value_slot[row] >= 0:
            filled = np.where(absent, self._fill[row], values)
            out[:, self._value_slot[row]] = (filled - self._center[row]) / self._scale[row]
        if self._missing_slot[row] >= 0:
            out[:, self._missing_slot[row]] = absent

    def new_categories(self, view: TableView) -> dict[str, tuple[int, str]]:
        """Count rows with unseen categories, in columns of which all categories were counted."""
        found = {}
        for name, known in self._known.items():
            column = level_column(view, name)
            rows = rows_of_levels(column, [level not in known for level in column.levels])
            if rows.size:
                found[name] = int(rows.size), column.levels[column.codes[rows[0]]]
        return found

    def fillings(self) -> dict[str, str]:
        """Say what takes the place of missing values, for columns that had none."""
        filled = {}
        dates = {part.rpartition(":")[0] for part in self._parts - self._levels.keys()}
        for row, name in enumerate(self.number_names):
            if name in self._parts:
                continue
            if self._value_slot[row] >= 0 and self._missing_slot[row] < 0:
                mean = f"{self._fill[row]:.4g}"
                if name in dates:  # in seconds
                    mean = str(np.datetime64(int(self._fill[row]), "s")).replace("T", " ")
                filled[name] = f"the mean, {mean}"
        for name, slots in self._levels.items():
            if name not in self._parts and slots.lookup and slots.missing == slots.other:
                filled[name] = "no category" if slots.other < 0 else "an unseen category"
        return filled

    def _encode_numbers(self, block: TableView, out: NDArray[np.floating], first_row: int) -> None:
        values = number_block(block, self.number_names, first_row)
        absent = np.isnan(values)
        if absent.any():
            np.copyto(values, self._fill[:, None], where=absent)
        values -= self._center[:, None]
        values /= self._scale[:, None]
        kept, flagged = self._value_slot >= 0, self._missing_slot >= 0
        out[:, self._value_slot[kept]] = values[kept].T
        out[:, self._missing_slot[flagged]] = absent[flagged].T


def _encode_text(
    column: Levels, slots: _TextSlots, out: NDArray[np.floating], *, learned: bool
) -> None:
    """Write the directions of texts, each found once, and mark gaps."""
    distinct, places = np.unique(column.codes, return_inverse=True)
    known = distinct[distinct >= 0]
    values = np.zeros((len(distinct), slots.map.n_outputs))
    values[len(distinct) - len(known) :] = slots.map.transform(
        [column.levels[code] for code in known], learned=learned
    )
    out[:, slots.first : slots.first + slots.map.n_outputs] = values[places]
    if slots.missing >= 0:
        out[:, slots.missing] = column.codes < 0
