"""Tables to matrices, learned on the first rows of a stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.exceptions import NotFittedError

from mercer._component import Component, from_config, to_config
from mercer._validation import check_choice, choice, integer, or_none, parameters
from mercer.data.columns import (
    TableView,
    check_names,
    is_table,
    level_column,
    missing_cells,
    number_block,
    row_blocks,
    rows_of_levels,
    view_table,
)
from mercer.data.statistics import LevelCounts, NumberStatistics, TableStatistics
from mercer.exceptions import Advice, Setting

__all__ = ["TablePreprocessor"]

Floats = NDArray[np.float64]
_LARGEST_SPAN = 100.0
_PIXEL_COLUMNS = 32
_PIXEL_MAXIMUM = 255.0
_FORMAT = 1


def _check_excluded(name: str, value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise ValueError(
            f"`{name}` must be a sequence of column names, got {value!r}. "
            "Write one name as ('name',)."
        )


class TablePreprocessor(Component):
    r"""Turn tables of numbers, text and times into matrices for kernel machines.

    The means, scales and categories come from the first ``warmup_rows`` rows and are then frozen.
    The points in a kernel model's dictionary are rows *after* this transformation; if the
    transformation went on changing, a stored point and a new row would be measured in different
    units, and the function already learned would drift without a step being taken.

    What becomes of a column:

    =====================  ========================================================================
    numbers                standardised, see ``scaling``; missing values become the mean
    numbers, only 0 and 1  unchanged: one-hot data stays one-hot
    dates and times        seconds since 1970 (UTC when no zone is given), then as numbers
    text, categories       one output per frequent value, ``name=(other)`` for rare and unseen ones
    booleans               ``name=false`` and ``name=true``
    missing values         if the warm-up has some: an additional output ``name=(missing)``; a
                           missing category not seen there counts as ``(other)``
    constant               dropped
    =====================  ========================================================================

    Parameters
    ----------
    categories : int, default=128
        Largest number of categories of a column with an output of their own, the most frequent
        first. At most 4,096 values of a column are counted at any time.
    min_count : int, default=5
        Categories seen less often in the warm-up share ``name=(other)``.
    warmup_rows : int or None, default=50_000
        Number of rows the statistics are taken from. None: all rows until :meth:`freeze`.
    scaling : {"auto", "standardize", "common", "none"}, default="auto"
        Of numeric columns. "standardize": :math:`(x - \bar x) / s` per column with the population
        standard deviation, at least 1/100 of the column's range. "common": one divisor for all
        columns, the largest absolute value (255 for images), so that pixels that are rarely on
        stay as unimportant as they are. "none": unchanged. "auto": division by 255 for pixels,
        that is for at least 32 integer columns within 0..255 that are not mostly 0/1 and of which
        the largest exceeds 127; "standardize" for all other columns.
    exclude : sequence of str, default=()
        Columns that are no features, such as the target or a row number. They may be absent when
        transforming.
    dtype : {"float64", "float32"}, default="float64"
        Of the matrices.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows the statistics were taken from.
    feature_names_in_ : list of str
        Columns used, in the order of the first table.
    text_columns_ : list of str
        Those of them that held text or categories, and are read as text from CSV.
    frozen_ : bool
        Whether the warm-up is over.
    n_features_out_ : int
        Number of columns of the matrices, once frozen.

    See Also
    --------
    mercer.data.read_tables : Tables from files of any size.

    Notes
    -----
    Means and variances are merged by the stable update of Chan, Golub and LeVeque, so that pieces
    of the warm-up may be seen in any sizes, or by several processes and then joined by
    :meth:`merge`.

    Examples
    --------
    >>> import numpy as np
    >>> table = {"age": np.array([20.0, 40.0, np.nan]), "town": np.array(["Bern", "Bonn", "Bern"])}
    >>> preprocessor = TablePreprocessor(min_count=1).fit(table)
    >>> preprocessor.feature_names_out()
    ['age', 'age=(missing)', 'town=Bern', 'town=Bonn', 'town=(other)']
    >>> preprocessor.transform({"age": np.array([40.0]), "town": np.array(["Ulm"])})
    array([[1., 0., 0., 0., 1.]])
    """

    _parameters = parameters(
        categories=integer(low=1, high=1024),
        min_count=integer(low=1),
        warmup_rows=or_none(integer(low=1)),
        scaling=choice("auto", "standardize", "common", "none"),
        dtype=choice("float64", "float32"),
        exclude=_check_excluded,
    )
    _statistics: TableStatistics | None = None  # from the first row on
    _encoding: TableEncoding | None = None  # once the warm-up is over

    def __init__(
        self,
        categories: int = 128,
        *,
        min_count: int = 5,
        warmup_rows: int | None = 50_000,
        scaling: Literal["auto", "standardize", "common", "none"] = "auto",
        exclude: Sequence[str] = (),
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.categories = categories
        self.min_count = min_count
        self.warmup_rows = warmup_rows
        self.scaling = scaling
        self.exclude = exclude
        self.dtype = dtype
        self._check()

    @property
    def frozen_(self) -> bool:
        """Whether the warm-up is over, so that tables can be transformed."""
        return self._encoding is not None

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows the statistics were taken from."""
        return 0 if self._statistics is None else self._statistics.n_rows

    @property
    def feature_names_in_(self) -> list[str]:
        """Columns used, in the order of the first table."""
        return list(self._seen().names)

    @property
    def text_columns_(self) -> list[str]:
        """Columns used that held text or categories, and are read as text from CSV."""
        return [name for name, counts in self._seen().levels.items() if not counts.boolean]

    @property
    def n_features_out_(self) -> int:
        """Number of columns of the matrices."""
        return len(self._frozen().feature_names)

    def feature_names_out(self) -> list[str]:
        """Return the names of the columns of the matrices, such as ``"town=Bern"``.

        Raises
        ------
        NotFittedError
            During the warm-up.
        """
        return list(self._frozen().feature_names)

    def fit(self, tables: Any) -> Self:
        """Forget everything, learn from the first ``warmup_rows`` rows and freeze.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or several of them;
            no more of them are drawn than needed.

        Returns
        -------
        self : TablePreprocessor
            Frozen.

        Raises
        ------
        ValueError
            As :meth:`partial_fit` and :meth:`freeze`.
        """
        self._statistics = self._encoding = None
        parts: Iterable[Any] = [tables] if is_table(tables) else tables
        for table in parts:
            if self.partial_fit(table).frozen_:
                break
        return self if self.frozen_ else self.freeze()

    def partial_fit(self, table: Any) -> Self:
        """Add rows to the statistics; the row ``warmup_rows`` freezes them, later ones do nothing.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The next rows.

        Returns
        -------
        self : TablePreprocessor
            With the rows added.

        Raises
        ------
        ValueError
            If a column is missing, new, of an unusable type, changed between numbers and text, or
            holds infinite numbers; if the first table lacks a column of ``exclude``.
        """
        if self.frozen_:
            return self
        view = view_table(table)
        if self._statistics is None:
            check_names(self.exclude, view.names, "`exclude` names a column, but the table")
            names = [name for name in view.names if name not in set(self.exclude)]
            if not names:
                raise ValueError("The table has no columns left to learn from.")
            self._statistics = TableStatistics.like(view, names)
        if self.warmup_rows is not None:
            view = view.slice(0, min(view.n_rows, self.warmup_rows - self.n_samples_seen_))
        self._statistics.update(view, excluded=self.exclude)
        return self._freeze_if_complete()

    def merge(self, other: TablePreprocessor) -> Self:
        """Add the statistics of another preprocessor that is still warming up.

        Parameters
        ----------
        other : TablePreprocessor
            Having the same parameters and columns, with statistics of other rows; unchanged.

        Returns
        -------
        self : TablePreprocessor
            As if it had seen the rows of both; frozen if these are enough.

        Raises
        ------
        ValueError
            If either is frozen, or parameters or columns differ.
        """
        if self.frozen_ or other.frozen_:
            raise ValueError(
                "Frozen statistics cannot be merged: rows were transformed with them already. "
                "Merge during the warm-up (`warmup_rows=None` lets you choose its end)."
            )
        if self != other:
            raise ValueError(f"Only preprocessors with equal parameters merge: {self}, {other}.")
        self._seen().merge(other._seen())
        return self._freeze_if_complete()

    def rounded(self) -> Self:
        """Round moments to seven digits: the same in whatever order statistics were merged.

        Returns
        -------
        self
        """
        seen = self._seen()
        seen.numbers = seen.numbers.rounded()
        return self

    def freeze(self) -> Self:
        """End the warm-up: fix means, scales, categories and the columns of the matrices.

        Returns
        -------
        self : TablePreprocessor
            Ready to transform.

        Raises
        ------
        ValueError
            If no rows were seen, a column had no value, or no column varies.

        Warns
        -----
        UserWarning
            If a column has more than ``categories`` frequent categories.
        """
        if self.frozen_:
            return self
        self._encode()
        for name, (frequent, folded, rows) in self._frozen().folded.items():
            warnings.warn(
                f"{name!r} has {frequent:,} frequent categories: '(other)' takes {folded:,} of "
                f"them, {100.0 * rows / self.n_samples_seen_:.2g} % of the rows; see `categories`.",
                stacklevel=2,
            )
        return self

    def _encode(self) -> None:
        statistics = self._seen()
        if statistics.n_rows == 0:
            raise ValueError("No rows were seen, so there is nothing to freeze.")
        self._encoding = TableEncoding(
            statistics,
            categories=self.categories,
            min_count=self.min_count,
            scaling=self.scaling,
        )

    def transform(
        self, table: Any, *, extra: Literal["error", "drop"] = "error"
    ) -> NDArray[np.floating]:
        """Encode a table; the preprocessor does not change.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the columns of the warm-up, in any order.
        extra : {"error", "drop"}, default="error"
            What to do about columns that were not there in the warm-up.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features_out)
            Of the chosen ``dtype``, without missing values.

        Raises
        ------
        NotFittedError
            During the warm-up.
        ValueError
            If a column is missing or, by default, new; if a column changed between numbers and
            text; for infinite numbers.
        """
        encoding = self._frozen()
        check_choice("extra", extra, ("error", "drop"))
        view = view_table(table)
        found = [name for name in view.names if name not in set(self.exclude)]
        check_names(self._seen().names, found, "The table", allow_extra=extra == "drop")
        return encoding.transform(view, self.dtype)

    def new_gaps(self, table: Any) -> dict[str, int]:
        """Count missing values in columns that had none in the warm-up.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            As for :meth:`transform`.

        Returns
        -------
        gaps : dict of str to int
            Only columns with such gaps.

        Examples
        --------
        >>> seen = TablePreprocessor().fit({"age": [20.0, 40.0]})
        >>> seen.new_gaps({"age": [30.0, None]}), seen.fillings()
        ({'age': 1}, {'age': 'the mean, 30'})
        """
        view = view_table(table)
        counts = {name: missing_cells(view.column(name)) for name in self.fillings()}
        return {name: n for name, n in counts.items() if n}

    def new_categories(self, table: Any) -> dict[str, tuple[int, str]]:
        """Count rows with categories that the warm-up did not have.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            As for :meth:`transform`.

        Returns
        -------
        found : dict of str to (int, str)
            Rows, and the first such category. Columns that had more values than are counted are
            left out: nobody knows which.

        Examples
        --------
        >>> seen = TablePreprocessor(min_count=1).fit({"town": ["Bern", "Bonn"]})
        >>> seen.new_categories({"town": ["Ulm", "Bonn"]})
        {'town': (1, 'Ulm')}
        """
        return self._frozen().new_categories(view_table(table))

    def fillings(self) -> dict[str, str]:
        """Say what takes the place of missing values, for columns that had none in the warm-up."""
        return self._frozen().fillings()

    def to_state(self) -> dict[str, Any]:
        """Return everything learned as plain data that JSON can hold, with parameters.

        Examples
        --------
        >>> import json
        >>> seen = TablePreprocessor().fit({"age": [20.0, 40.0]})
        >>> again = TablePreprocessor.from_state(json.loads(json.dumps(seen.to_state())))
        >>> again.transform({"age": [50.0]})
        array([[2.]])
        """
        config = to_config(self)
        return {
            "format": _FORMAT,
            "params": config["params"],
            "frozen": self.frozen_,
            "statistics": None if self._statistics is None else self._statistics.to_state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`: transforms bit for bit as the original.

        Raises
        ------
        ValueError
            If the state is not what :meth:`to_state` returns.
        """
        try:
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']!r}, this version reads {_FORMAT}")
            result = cls(**{name: from_config(value) for name, value in state["params"].items()})
            result.exclude = tuple(result.exclude)
            if state["statistics"] is not None:
                result._statistics = TableStatistics.from_state(state["statistics"])
            if state["frozen"]:
                result._encode()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"This is not the state of a TablePreprocessor: {error}. It may be damaged, or "
                "written by another version of mercer."
            ) from None
        return result

    def _freeze_if_complete(self) -> Self:
        complete = self.warmup_rows is not None and self.n_samples_seen_ >= self.warmup_rows
        return self.freeze() if complete else self

    def _seen(self) -> TableStatistics:
        if self._statistics is None:
            raise NotFittedError(
                "This TablePreprocessor has seen no rows. Call `fit` or `partial_fit` first."
            )
        return self._statistics

    def _frozen(self) -> TableEncoding:
        statistics = self._seen()
        if self._encoding is None:
            raise NotFittedError(
                f"The warm-up is not over ({statistics.n_rows} of {self.warmup_rows} rows seen), "
                "and its statistics may still change. Call `freeze()` to end it now."
            )
        return self._encoding


def scales(statistics: NumberStatistics, scaling: str) -> tuple[Floats, Floats]:
    """Centre and scale of each numeric column; the encoded value is (x - centre) / scale.

    Parameters
    ----------
    statistics : NumberStatistics
        Statistics of the columns.
    scaling : {"auto", "standardize", "common", "none"}
        See :class:`mercer.data.TablePreprocessor`.

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
        Largest number of categories of a column with an output of their own.
    min_count : int
        Rarer categories share the output "other".
    scaling : str
        Passed to :func:`scales`.

    Attributes
    ----------
    folded : dict of str to (int, int, int)
        Columns with more frequent categories than outputs: number of frequent ones, how many of
        them have no output of their own, and rows that hold these.

    Raises
    ------
    ValueError
        If a column has no value at all, or no column varies.
    """

    def __init__(
        self, statistics: TableStatistics, *, categories: int, min_count: int, scaling: str
    ) -> None:
        self.number_names = list(statistics.number_names)
        self.feature_names: list[str] = []
        numbers = statistics.numbers
        self._center, self._scale = scales(numbers, scaling)
        self._fill = numbers.mean.copy()
        self._value_slot = np.full(len(self.number_names), -1)
        self._missing_slot = np.full(len(self.number_names), -1)
        self._levels: dict[str, _LevelSlots] = {}
        self.folded: dict[str, tuple[int, int, int]] = {}
        row_of = {name: row for row, name in enumerate(self.number_names)}
        for name in statistics.names:
            if name in row_of:
                self._place_number(name, row_of[name], numbers)
            else:
                self._levels[name] = self._place_levels(
                    name, statistics.levels[name], categories, min_count
                )
        # Beyond a bound not all levels are counted: whether one was there is then not known.
        self._known = {
            name: frozenset(seen.counts)
            for name, seen in statistics.levels.items()
            if self._levels[name].lookup
            and self._levels[name].other >= 0
            and sum(seen.counts.values()) + seen.missing == statistics.n_rows
        }
        if not self.feature_names:
            raise ValueError(
                f"No column varies in the {statistics.n_rows} rows seen, so there is nothing to "
                "learn from. Use more rows for the warm-up, or other columns."
            )

    def _slot(self, name: str) -> int:
        self.feature_names.append(name)
        return len(self.feature_names) - 1

    def _place_number(self, name: str, row: int, numbers: NumberStatistics) -> None:
        if numbers.count[row] == 0:
            raise ValueError(_all_missing(name, int(numbers.missing[row])))
        if numbers.maximum[row] > numbers.minimum[row]:
            self._value_slot[row] = self._slot(name)
        if numbers.missing[row]:
            self._missing_slot[row] = self._slot(f"{name}=(missing)")

    def _place_levels(
        self, name: str, seen: LevelCounts, categories: int, min_count: int
    ) -> _LevelSlots:
        if not seen.counts:
            raise ValueError(_all_missing(name, seen.missing))
        by_count = sorted(seen.counts.items(), key=lambda item: (-item[1], item[0]))
        frequent = [level for level, count in by_count if count >= min_count or seen.boolean]
        kept = sorted(frequent[:categories])
        if rest := frequent[categories:]:
            rows = sum(seen.counts[level] for level in rest)
            self.folded[name] = len(frequent), len(rest), rows
        constant = len(kept) + (len(kept) < len(seen.counts)) < 2
        lookup: dict[str, int] = {}
        other = missing = -1
        if not constant or seen.missing:
            lookup = {level: self._slot(f"{name}={level}") for level in kept}
            other = -1 if seen.boolean else self._slot(f"{name}=(other)")
        if seen.missing:
            missing = self._slot(f"{name}=(missing)")
        return _LevelSlots(lookup, other, other if missing < 0 else missing)

    def transform(self, view: TableView, dtype: DTypeLike) -> NDArray[np.floating]:
        """Encode a table whose columns have been checked.

        Parameters
        ----------
        view : TableView
            The table.
        dtype : dtype
            Of the result.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features_out)
            The encoded rows.
        """
        X: NDArray[np.floating] = np.zeros((view.n_rows, len(self.feature_names)), dtype=dtype)
        for start, block in row_blocks(view, len(self.feature_names)):
            out = X[start : start + block.n_rows]
            self._encode_numbers(block, out, start)
            for name, slots in self._levels.items():
                column = level_column(block, name)
                targets = [slots.lookup.get(level, slots.other) for level in column.levels]
                # The code -1 of missing values picks the last entry.
                slot = np.array([*targets, slots.missing])[column.codes]
                rows = np.flatnonzero(slot >= 0)
                out[rows, slot[rows]] = 1.0
        return X

    def new_categories(self, view: TableView) -> dict[str, tuple[int, str]]:
        """Count rows with categories that were not there, for columns where all were counted."""
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
        for row, name in enumerate(self.number_names):
            if self._value_slot[row] >= 0 and self._missing_slot[row] < 0:
                filled[name] = f"the mean, {self._fill[row]:.4g}"
        for name, slots in self._levels.items():
            if slots.lookup and slots.missing == slots.other:
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


def _all_missing(name: str, rows: int) -> Advice:
    return Advice(
        f"Column {name!r} has no value in any of the {rows} rows seen, so neither its mean nor its "
        "categories are known. Leave it out with ",
        Setting("exclude", (name,), f"`exclude=({name!r},)`"),
        ", or use more rows for the warm-up.",
    )
