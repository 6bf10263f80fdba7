"""One view of all tables, and their columns as arrays, with the checks that every reader needs.

A table is a ``pyarrow.Table``, a DataFrame of pandas or polars, or a dict of one-dimensional
arrays. The rest of the package sees it through :class:`TableView` only; no such library is imported
here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.null_values import NullValues, moment_of, number_of
from mercer.validation import nearest

LARGEST = 1e150  # the square of a larger number overflows float64
_BLOCK_VALUES = 2**21  # values converted at once: 16 MiB of float64
_MOST_LISTED = 20
# Types of missing values, from packages that may not be installed.
_NOTHING = frozenset(["NAType", "NaTType", "MaskedConstant", "NullScalar"])


@dataclass(frozen=True)
class Numbers:
    """A numeric column: ``values`` of shape (n_rows,), NaN where missing.

    ``unit`` is "" for numbers, "date" for seconds since 1970, "time" for seconds since midnight.
    """

    values: NDArray[Any]
    integer: bool
    unit: str = ""


@dataclass(frozen=True)
class Levels:
    """A column of text, categories or booleans: ``codes`` (n_rows,) into ``levels``, -1 missing.

    ``declared`` says that its type is that of categories, whatever they look like.
    """

    codes: NDArray[np.int64]
    levels: list[str]
    boolean: bool = False
    declared: bool = False

    def first(self) -> str | None:
        """Return the first value that is present."""
        present = self.codes[self.codes >= 0]
        return self.levels[present[0]] if len(present) else None

    def counted(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the different values that are present, and how often each is."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))
        used = np.flatnonzero(counts)
        return [self.levels[code] for code in used], counts[used]


class Texts(Levels):
    """A column of free text, of which words matter rather than whole values."""


@dataclass(frozen=True)
class TableView:
    """One face for all tables: names, number of rows, slices of rows, columns by name."""

    names: list[str]
    n_rows: int
    column: Callable[[str], Numbers | Levels]
    slice: Callable[[int, int], TableView]


def read_once(view: TableView, costly: Callable[[str, Numbers | Levels], bool]) -> TableView:
    """Look at a table of which costly columns are kept, once somebody has read one wholly.

    Rows of such a column are then cut from what is kept.

    Parameters
    ----------
    view : TableView
        The table.
    costly : callable
        Whether a column, given its name and what was read, is kept.
    """
    known: dict[str, Numbers | Levels] = {}

    def column(name: str) -> Numbers | Levels:
        found = known.get(name) or view.column(name)
        if costly(name, found):
            known[name] = found
        return found

    def slice(start: int, stop: int) -> TableView:
        if start == 0 and stop >= view.n_rows:
            return whole
        part = view.slice(start, stop)

        def of_part(name: str) -> Numbers | Levels:
            return _rows_of(known[name], start, stop) if name in known else part.column(name)

        return replace(part, column=of_part)

    whole = TableView(view.names, view.n_rows, column, slice)
    return whole


def _rows_of(column: Numbers | Levels, start: int, stop: int) -> Numbers | Levels:
    """Return some rows of a column, with no levels but theirs.

    Examples
    --------
    >>> _rows_of(Levels(np.array([0, 2, -1, 1, 2]), ["a", "b", "c"]), 1, 5)
    Levels(codes=array([ 0, -1,  1,  0]), levels=['c', 'b'], boolean=False, declared=False)
    """
    if isinstance(column, Numbers):
        return replace(column, values=column.values[start:stop])
    codes = column.codes[start:stop]
    if column.boolean or column.declared:
        return replace(column, codes=codes)
    used, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = [place for place in np.argsort(first) if used[place] >= 0]
    numbers = np.full(used.size, -1, dtype=np.int64)
    numbers[order] = np.arange(len(order))
    levels = [column.levels[code] for code in used[order]]
    return replace(column, codes=numbers[places], levels=levels)


def chosen_rows(view: TableView, rows: NDArray[np.intp]) -> TableView:
    """Look at some rows of a table."""

    def column(name: str) -> Numbers | Levels:
        found = view.column(name)
        if isinstance(found, Levels):
            return replace(found, codes=found.codes[rows])
        return replace(found, values=found.values[rows])

    return TableView(
        names=list(view.names),
        n_rows=len(rows),
        column=column,
        slice=lambda start, stop: chosen_rows(view, rows[start:stop]),
    )


def without_marks(view: TableView, nulls: NullValues) -> TableView:
    """Look at a table in which what was named as no value is a gap."""
    if not nulls:
        return view

    def column(name: str) -> Numbers | Levels:
        found, marks = view.column(name), nulls.named(name)
        if isinstance(found, Levels):
            gone = [level.strip() in marks for level in found.levels]
            # The code -1 of missing values picks the last entry.
            gaps = np.array([*gone, False])[found.codes]
            return replace(found, codes=np.where(gaps, -1, found.codes)) if gaps.any() else found
        gaps = np.zeros(len(found.values), dtype=bool)
        for mark in marks:
            value = _value_of(mark, found)
            gaps |= False if value is None else found.values == value
        if not gaps.any():
            return found
        values = np.where(gaps, np.nan, found.values.astype(np.float64))
        return replace(found, values=values)

    return TableView(
        names=view.names,
        n_rows=view.n_rows,
        column=column,
        slice=lambda start, stop: without_marks(view.slice(start, stop), nulls),
    )


def _value_of(mark: str, column: Numbers) -> Any:
    """Return the value of a mark in a column of numbers, dates or times; None if it has none."""
    if column.unit == "date":
        return moment_of(mark)
    if column.unit == "time":
        with suppress(ValueError):
            return _seconds(time.fromisoformat(mark))
        return None
    number = number_of(mark)
    if number is None or column.values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return None if number is None else column.values.dtype.type(number)
    return int(mark) if mark.lstrip("+-").isdigit() else number


def missing_cells(column: Numbers | Levels) -> int:
    """Count the cells of a column without a value."""
    if isinstance(column, Levels):
        return int(np.count_nonzero(column.codes < 0))
    return int(np.count_nonzero(np.isnan(column.values)))


def is_table(source: Any) -> bool:
    """Whether ``source`` is a table in memory."""
    return isinstance(source, Mapping | TableView) or is_frame(source)


def is_frame(source: Any) -> bool:
    """Whether ``source`` is a table of one of the libraries for such."""
    return isinstance(source, (*_arrow_types(), *_pandas_types(), *_polars_types()))


def view_table(table: Any) -> TableView:
    """Look at a table column by column.

    Parameters
    ----------
    table : pyarrow.Table, pyarrow.RecordBatch, DataFrame, dict of 1-D arrays, or TableView
        The table, with a DataFrame of pandas or polars; it is neither copied nor changed. A view is
        returned as it is.

    Returns
    -------
    view : TableView
        Columns of the rows.

    Raises
    ------
    ValueError
        For other types, columns of different lengths and repeated column names.
    ImportError
        For a polars DataFrame where pyarrow is not installed.
    """
    if isinstance(table, TableView):
        view = table
    elif isinstance(table, _arrow_types()):
        view = _view_arrow(table)
    elif isinstance(table, _polars_types()):
        view = _view_polars(table)
    elif isinstance(table, _pandas_types()):
        view = _view_pandas(table)
    elif isinstance(table, Mapping):
        view = _view_mapping(table)
    else:
        raise ValueError(
            "A table must be a pyarrow.Table, a DataFrame of pandas or polars, or a dict of 1-D "
            f"arrays, got `{type(table).__name__}`. Arrays without column names go to the model "
            "directly."
        )
    if len(set(view.names)) < len(view.names):
        repeated = next(name for name in view.names if view.names.count(name) > 1)
        raise ValueError(f"The table has more than one column named {repeated!r}; rename one.")
    if isinstance(table, TableView):
        return table
    return read_once(view, lambda _, column: isinstance(column, Levels))


def _arrow_types() -> tuple[type, ...]:
    arrow = sys.modules.get("pyarrow")
    return () if arrow is None else (arrow.Table, arrow.RecordBatch)


def _pandas_types() -> tuple[type, ...]:
    pandas = sys.modules.get("pandas")
    return () if pandas is None else (pandas.DataFrame,)


def _polars_types() -> tuple[type, ...]:
    polars = sys.modules.get("polars")
    return () if polars is None else (polars.DataFrame,)


def _view_polars(frame: Any) -> TableView:
    try:
        table = frame.to_arrow()
    except ImportError as error:
        raise ImportError(
            "Columns of a polars DataFrame that are not all numbers are read through Arrow, and "
            'pyarrow is not installed: pip install "mercer[cli]", or pip install pyarrow.'
        ) from error
    return _view_arrow(table)


def _view_arrow(table: Any) -> TableView:
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    return TableView(
        names=list(table.column_names),
        n_rows=table.num_rows,
        column=lambda name: _arrow_column(name, table.column(name)),
        slice=lambda start, stop: _view_arrow(table.slice(start, stop - start)),
    )


def _arrow_column(name: str, values: Any) -> Numbers | Levels:
    import pyarrow as pa

    kind, types = values.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind):
        return Numbers(values.to_numpy(), types.is_integer(kind))
    if types.is_boolean(kind):
        return _boolean_levels(values.cast(pa.int8()).to_numpy().astype(np.float64))
    if types.is_dictionary(kind):
        return _arrow_levels(values, declared=True)
    if types.is_string(kind) or types.is_large_string(kind) or "string_view" in str(kind):
        return _arrow_levels(values.cast(pa.large_string()).dictionary_encode())
    if types.is_decimal(kind):
        return Numbers(values.cast(pa.float64()).to_numpy(), integer=False)
    if types.is_null(kind):
        return Numbers(np.full(len(values), np.nan), integer=False)
    if types.is_temporal(kind) and not types.is_interval(kind):
        if types.is_time(kind):
            target = pa.time64("us")
        elif types.is_duration(kind):
            target = pa.duration("us")
        else:
            target = pa.timestamp("us", getattr(kind, "tz", None))
        microseconds = values.cast(target, safe=False).cast(pa.int64()).to_numpy()
        unit = "time" if types.is_time(kind) else "" if types.is_duration(kind) else "date"
        return Numbers(microseconds / 1e6, integer=False, unit=unit)
    raise ValueError(
        f"Column {name!r} has the type {kind}, which is neither a number, text, a category, a "
        "boolean nor a time. Split it into plain columns, or leave it out."
    )


def _arrow_levels(values: Any, *, declared: bool = False) -> Levels:
    import pyarrow as pa

    codes = np.empty(len(values), dtype=np.int64)
    levels: list[str | None] = []
    start = 0
    for chunk in values.unify_dictionaries().chunks:
        # Index types may be unsigned, as in polars, and so have no -1.
        found = chunk.indices.cast(pa.int64()).fill_null(-1)
        codes[start : start + len(chunk)] = found.to_numpy(zero_copy_only=False)
        start += len(chunk)
        levels = chunk.dictionary.to_pylist()
    if None in levels:
        codes[codes == levels.index(None)] = -1
    return _levels_of_values(codes, levels, declared=declared)


def _levels_of_values(codes: NDArray[np.int64], values: Sequence[Any], *, declared: bool) -> Levels:
    texts = [level_text(value) for value in values]
    place = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    if len(place) < len(texts):  # of several types
        # The code -1 of missing values picks the last entry.
        codes = np.array([*(place[text] for text in texts), -1])[codes]
    return Levels(codes, list(place), declared=declared)


def level_text(value: Any) -> str:
    """Name a category: whole numbers without a point, which gaps in pandas give them.

    Examples
    --------
    >>> level_text(2.0), level_text(2), level_text(2.5), level_text("b")
    ('2', '2', '2.5', 'b')
    """
    number = isinstance(value, float | np.floating)
    return str(int(value)) if number and float(value).is_integer() else str(value)


def _boolean_levels(values: NDArray[np.float64]) -> Levels:
    codes = np.where(np.isnan(values), -1.0, values).astype(np.int64)
    return Levels(codes, ["false", "true"], boolean=True)


def _view_pandas(frame: Any) -> TableView:
    position = {str(name): i for i, name in reversed(list(enumerate(frame.columns)))}
    return TableView(
        names=[str(name) for name in frame.columns],
        n_rows=len(frame),
        column=lambda name: _pandas_column(name, frame.iloc[:, position[name]]),
        slice=lambda start, stop: _view_pandas(frame.iloc[start:stop]),
    )


def _pandas_column(name: str, series: Any) -> Numbers | Levels:
    import pandas as pd

    kind, types = series.dtype, pd.api.types
    if isinstance(kind, pd.ArrowDtype):
        import pyarrow as pa

        values = series.array.__arrow_array__()
        return _arrow_column(
            name, pa.chunked_array(getattr(values, "chunks", [values]), values.type)
        )
    if isinstance(kind, np.dtype) and kind.kind in "iufb":
        return _array_column(name, series.to_numpy())
    if isinstance(kind, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        return _levels_of_values(codes, series.cat.categories.tolist(), declared=True)
    if types.is_bool_dtype(kind):
        return _boolean_levels(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Numbers(values, types.is_integer_dtype(kind))
    if types.is_datetime64_any_dtype(kind):
        plain = series.dt.tz_convert(None) if getattr(kind, "tz", None) else series
        return _array_column(name, plain.to_numpy(dtype="datetime64[us]"))
    if types.is_timedelta64_dtype(kind):
        return _array_column(name, series.to_numpy(dtype="timedelta64[us]"))
    return _object_column(series.astype(object).where(series.notna(), None).to_numpy())


def _view_mapping(table: Mapping[str, Any]) -> TableView:
    arrays = {str(name): _as_array(values) for name, values in table.items()}
    for name, values in arrays.items():
        if values.ndim != 1:
            raise ValueError(
                f"Column {name!r} of a dict table must be one-dimensional, got shape "
                f"{values.shape}. Split it into one entry per column."
            )
    n_rows = len(next(iter(arrays.values()), ()))
    for name, values in arrays.items():
        if len(values) != n_rows:
            raise ValueError(
                f"The columns of a dict table must have equal lengths, got {n_rows:,} in "
                f"{next(iter(arrays))!r} and {len(values):,} in {name!r}."
            )
    return TableView(
        names=list(arrays),
        n_rows=n_rows,
        column=lambda name: _array_column(name, arrays[name]),
        slice=lambda start, stop: _view_mapping({k: v[start:stop] for k, v in arrays.items()}),
    )


def _as_array(values: Any) -> NDArray[Any]:
    if isinstance(values, list | tuple):
        # NumPy would turn ["a", nan] into text "nan"; objects are looked at one by one.
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def _array_column(name: str, values: NDArray[Any]) -> Numbers | Levels:
    kind = values.dtype.kind
    if kind in "iuf":
        return Numbers(values, integer=kind != "f")
    if kind == "b":
        return _boolean_levels(values.astype(np.float64))
    if kind in "Mm":
        seconds = values.astype(f"{kind}8[us]").astype(np.int64) / 1e6
        unit = "date" if kind == "M" else ""
        return Numbers(np.where(np.isnat(values), np.nan, seconds), integer=False, unit=unit)
    if kind in "UST":
        return _object_column(values.astype(str).astype(object))
    if kind == "O":
        return _object_column(values)
    raise ValueError(
        f"Column {name!r} has the dtype {values.dtype}, which is neither a number, text, a boolean "
        "nor a time. Convert it, or leave it out."
    )


def _object_column(values: NDArray[Any]) -> Numbers | Levels:
    cells = [None if says_nothing(cell) else cell for cell in values.tolist()]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return _boolean_levels(np.array([np.nan if c is None else float(c) for c in cells]))
    if kinds and all(issubclass(kind, Real | Decimal) for kind in kinds):
        whole = all(issubclass(kind, int | np.integer) for kind in kinds)
        return Numbers(np.array([np.nan if c is None else _float(c) for c in cells]), whole)
    for of, unit in ((date, "date"), (timedelta, ""), (time, "time")):
        if kinds and all(issubclass(kind, of) for kind in kinds):
            seconds = np.array([np.nan if c is None else _seconds(c) for c in cells])
            return Numbers(seconds, integer=False, unit=unit)
    index: dict[str, int] = {}
    codes = [
        -1 if cell is None else index.setdefault(level_text(cell), len(index)) for cell in cells
    ]
    return Levels(np.array(codes, dtype=np.int64), list(index))


def _float(number: Any) -> float:
    """Return a number as a float; infinite if it is beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def says_nothing(cell: Any) -> bool:
    """Return whether a cell is missing: None, any NaN, or pandas', NumPy's or Arrow's marks.

    Examples
    --------
    >>> [says_nothing(cell) for cell in (None, float("nan"), Decimal("NaN"), 0.0, "", "nan")]
    [True, True, True, False, False, False]
    """
    if cell is None or type(cell).__name__ in _NOTHING:
        return True
    if isinstance(cell, Decimal):  # some of which cannot be compared
        return cell.is_nan()
    return not isinstance(cell, np.ndarray | tuple | list) and bool(cell != cell)


def _seconds(moment: date | timedelta | time) -> float:
    if isinstance(moment, timedelta):
        return moment.total_seconds()
    if isinstance(moment, time):
        whole = 3600 * moment.hour + 60 * moment.minute + moment.second
        return whole + moment.microsecond / 1e6
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def check_names(
    wanted: Sequence[str],
    found: Sequence[str],
    where: str,
    *,
    allow_extra: bool = True,
    taken: Iterable[str] = (),
) -> None:
    """Raise ``ValueError`` for wanted columns that are missing and, if asked, for extra ones.

    Nobody can have meant a column that is wanted, too, or ``taken`` for something else, such as
    the target.
    """
    present = set(found)
    missing = [name for name in wanted if name not in present]
    if missing:
        others = {*wanted, *taken}
        free = [name for name in found if name not in others]
        raise ValueError(
            f"{where} has no column{'s' * (len(missing) > 1)} {listed(missing)}."
            f"{nearest(missing[0], free)} Its columns are {listed(found)}."
        )
    if not allow_extra and len(present) > len(wanted):
        extra = sorted(present - set(wanted))
        raise ValueError(
            f"{where} has columns that were not seen in training: {listed(extra)}. Their values "
            'would be lost silently. Drop them, or pass `extra="drop"` to ignore them.'
        )


def row_blocks(view: TableView, n_columns: int) -> Iterator[tuple[int, TableView]]:
    """Cut a table into blocks of rows of about 16 MiB; yield (first row, block)."""
    step = max(256, _BLOCK_VALUES // max(n_columns, 1))
    for start in range(0, view.n_rows, step):
        yield start, view.slice(start, min(start + step, view.n_rows))


def number_block(view: TableView, names: Sequence[str], first_row: int = 0) -> NDArray[np.float64]:
    """Read numeric columns as one array.

    Parameters
    ----------
    view : TableView
        Table, or a block of its rows.
    names : sequence of str
        Columns that must hold numbers.
    first_row : int, default=0
        Row of the table that the block begins with; errors count from the table's first.

    Returns
    -------
    block : ndarray of shape (n_columns, n_rows)
        One *row* per column, so that statistics of columns run over contiguous memory.

    Raises
    ------
    ValueError
        If a column holds text, an infinite number or one above 1e150.
    """
    block = np.empty((len(names), view.n_rows))
    for out, name in zip(block, names, strict=True):
        column = view.column(name)
        if isinstance(column, Levels):
            _check_no_text(name, column, first_row)
            out[:] = np.nan
            continue
        out[:] = column.values
        if column.values.dtype.kind == "f":
            largest = np.fmax.reduce(np.abs(out), initial=0.0)
            if largest > LARGEST:
                row = int(np.flatnonzero(np.abs(out) > LARGEST)[0])
                raise ValueError(
                    f"Column {name!r} holds {out[row]:g} in row {first_row + row} of this table. "
                    f"Infinite or huge numbers (beyond {LARGEST:g}) leave no finite mean or "
                    "distance: replace them, or mark them as missing (NaN)."
                )
    return block


def level_column(view: TableView, name: str) -> Levels:
    """Read a column of categories.

    Raises
    ------
    ValueError
        If the column holds numbers.
    """
    return levels_of(view.column(name), name)


def levels_of(column: Numbers | Levels, name: str) -> Levels:
    """Return a column that is one of categories, or has no value.

    Raises
    ------
    ValueError
        If it holds numbers.
    """
    if isinstance(column, Levels):
        return column
    present = column.values[~np.isnan(column.values)]
    if len(present):
        raise ValueError(
            f"Column {name!r} held text or categories in training but now holds numbers, first "
            f"{present[0]!s}. Convert it to text in the same way as the training data."
        )
    return Levels(np.full(len(column.values), -1), [])


def rows_of_levels(column: Levels, marked: Sequence[bool]) -> NDArray[np.intp]:
    """Return the rows that hold one of the marked levels; missing values are none."""
    # The code -1 of missing values picks the last entry.
    return np.flatnonzero(np.array([*marked, False])[column.codes])


def first_text(column: Levels) -> int | None:
    """Return the first row that holds something other than a number; None if there is none.

    Examples
    --------
    >>> first_text(Levels(np.array([0, -1, 1, 1]), ["0.5", "12,5"]))
    2
    """
    bad = [column.boolean or not is_number(level) for level in column.levels]
    rows = rows_of_levels(column, bad)
    return int(rows[0]) if rows.size else None


def _check_no_text(name: str, column: Levels, first_row: int) -> None:
    if column.first() is None:
        return
    row = first_text(column)
    if row is None:
        raise ValueError(
            f"Column {name!r} held numbers in training but now holds numbers as text, first "
            f"{column.first()!r}. Convert the column to numbers."
        )
    text = column.levels[column.codes[row]]
    raise ValueError(
        f"Column {name!r} held numbers in training but now holds text or booleans, first "
        f"{text!r} in row {first_row + row} of this table. Convert it to numbers, with a missing "
        "value in place of such entries."
    )


def is_number(text: str) -> bool:
    """Whether text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Iterable[str]) -> str:
    """Quote names, the first ones if there are more than twenty.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    shown = names if len(names) <= _MOST_LISTED else names[: _MOST_LISTED - 1]
    tail = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return ", ".join(map(repr, shown)) + tail
