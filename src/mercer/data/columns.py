"""Columns of a table as arrays, with the checks that every reader of tables needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mercer._validation import nearest
from mercer.data.views import Levels, TableView

__all__ = [
    "LARGEST",
    "check_names",
    "first_text",
    "is_number",
    "level_column",
    "listed",
    "number_block",
    "row_blocks",
    "rows_of_levels",
]

LARGEST = 1e150  # the square of a larger number overflows float64
_BLOCK_VALUES = 2**21  # values converted at once: 16 MiB of float64
_MOST_LISTED = 20


def check_names(
    wanted: Sequence[str], found: Sequence[str], where: str, *, allow_extra: bool = True
) -> None:
    """Raise ``ValueError`` for wanted columns that are missing and, if asked, for extra ones."""
    present = set(found)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise ValueError(
            f"{where} has no column{'s' * (len(missing) > 1)} {listed(missing)}."
            f"{nearest(missing[0], found)} Its columns are {listed(found)}."
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
        The table, or a block of it.
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
        If a column holds text, an infinite number or one beyond 1e150.
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
    column = view.column(name)
    if isinstance(column, Levels):
        return column
    present = column.values[~np.isnan(column.values)]
    if len(present):
        raise ValueError(
            f"Column {name!r} held text or categories in training but now holds numbers, first "
            f"{present[0]!s}. Convert it to text in the same way as the training data."
        )
    return Levels(np.full(view.n_rows, -1), [])


def rows_of_levels(column: Levels, marked: Sequence[bool]) -> NDArray[np.intp]:
    """Return the rows that hold one of the marked levels; missing values are none."""
    # The code -1 of missing values picks the last entry.
    return np.flatnonzero(np.array([*marked, False])[column.codes])


def first_text(column: Levels) -> int | None:
    """Return the first row that holds something other than a number, if one does.

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
    raise ValueError(
        f"Column {name!r} held numbers in training but now holds text or booleans, first "
        f"{column.levels[column.codes[row]]!r} in row {first_row + row} of this table. Convert it "
        "to numbers, with a missing value in place of such entries."
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
