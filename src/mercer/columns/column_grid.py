"""Values of one column of a table, in its own units, and the inputs that they become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.columns.calendar_parts import PARTS
from mercer.columns.encoding import TableEncoding
from mercer.columns.readings import Reading
from mercer.columns.views import Levels

Floats = NDArray[np.float64]

# Of the rows, so that single far values do not stretch a grid.
_RANGE = 0.025, 0.975
# A year, a week and a day, in seconds.
_PERIODS = 365.25 * 86_400.0, 7 * 86_400.0, 86_400.0
MISSING, OTHER = "(missing)", "(other)"


class ColumnGrid(NamedTuple):
    """Some values of a column, and what they are to a function.

    Attributes
    ----------
    kind : {"number", "time", "category"}
        What they are; times are ``datetime64[s]``.
    values : ndarray of shape (n_values,)
        In the units of the column, or names of categories.
    inputs : ndarray of shape (n_values, n_inputs) or (n_values, n_rows, n_inputs)
        Inputs for each value; for dates, the inputs for each row, which keeps its own time of day.
    slots : ndarray of shape (n_inputs,)
        Which of all inputs these are.
    missing : ndarray of shape (n_inputs,) or None
        Inputs of a gap; None if the column had none, or gaps are among the values.
    parts : tuple of str
        Parts of the calendar that the column is read as, too.
    """

    kind: str
    values: NDArray[Any]
    inputs: Floats
    slots: NDArray[np.intp]
    missing: Floats | None = None
    parts: tuple[str, ...] = ()


def number_grid(values: Any, size: int) -> Floats:
    """Grid of numbers: each of a few different ones, or equally spaced ones where most are.

    Parameters
    ----------
    values : array-like of shape (n_rows,)
        Numbers of some rows; NaN is left out.
    size : int
        Largest number of grid points.

    Returns
    -------
    grid : ndarray of shape (n_grid,)
        Increasing; from the 2.5 % to the 97.5 % quantile where there are more values than
        ``size``.

    Examples
    --------
    >>> number_grid([3.0, 1.0, 3.0, np.nan], 10).tolist()
    [1.0, 3.0]
    >>> number_grid(np.arange(1001.0), 3).tolist()
    [25.0, 500.0, 975.0]
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    distinct = np.unique(known)
    if distinct.size <= size:
        return distinct
    low, high = np.quantile(known, _RANGE)
    return np.linspace(low, high, size) if low < high else np.unique([distinct[0], low])


def column_grid(
    encoding: TableEncoding,
    reading: Reading,
    rows: NDArray[np.floating],
    size: int,
    values: Sequence[Any] | NDArray[Any] | None = None,
    part: str = "",
) -> ColumnGrid:
    """Grid of a column that a table encoding knows.

    Parameters
    ----------
    encoding : TableEncoding
        How columns become inputs.
    reading : Reading
        How the column is read.
    rows : ndarray of shape (n_rows, n_features_out)
        Encoded rows, which say where the values are.
    size : int
        Largest number of values.
    values : sequence or None, default=None
        These values instead.
    part : str, default=""
        For dates, the part of the calendar to vary while the rest is unchanged.

    Returns
    -------
    grid : ColumnGrid
        The values and their inputs.

    Raises
    ------
    ValueError
        If the column or its part is not an input, or the column is text and no values are given.
    """
    name = reading.name
    if part:
        name = f"{name}:{part}"
        reading = Reading(name, "number")
    slots = np.array([i for i, of in enumerate(encoding.owners) if of in reading.names], dtype=int)
    if not slots.size:
        raise ValueError(
            f"Column {name!r} is no input of this model, which does not look at it: nothing "
            "depends on it. Choose another column."
        )
    if name in encoding.number_names:
        return _of_numbers(encoding, reading, rows, size, values, slots)
    if reading.kind == "text" and values is None:
        raise ValueError(
            f"Column {name!r} is text, of which there is no range of values. Give some texts as "
            "`grid`, or choose another column."
        )
    gaps = f"{name}={MISSING}" in encoding.feature_names
    levels = encoding.frequent_levels(name, size) if values is None else [*map(str, values)]
    if values is None and OTHER in levels:
        other = encoding.feature_names.index(f"{name}={OTHER}")
        levels = [one for one in levels if one != OTHER or rows[:, other].any()]
    if values is None and gaps:
        levels.append(MISSING)
    known = [level for level in levels if not (level == MISSING and gaps)]
    codes = np.array([known.index(one) if one in known else -1 for one in levels], dtype=np.int64)
    out = np.zeros((len(levels), len(encoding.feature_names)))
    encoding.encode_levels(name, Levels(codes, known), out)
    return ColumnGrid("category", np.array(levels, dtype=object), out[:, slots], slots)


def _of_numbers(
    encoding: TableEncoding,
    reading: Reading,
    rows: NDArray[np.floating],
    size: int,
    values: Any,
    slots: NDArray[np.intp],
) -> ColumnGrid:
    """Return a grid of numbers or times."""
    is_time = reading.kind == "date"
    if values is None:
        grid = number_grid(encoding.numbers_of(reading.name, rows), size)
    elif is_time:
        grid = np.asarray(values, dtype="datetime64[s]").astype(np.float64)
    else:
        grid = np.asarray(values, dtype=np.float64)
    gaps = f"{reading.name}={MISSING}" in encoding.feature_names

    def encoded(cells: Floats) -> Floats:
        out = np.zeros((len(cells), len(encoding.feature_names)))
        encoding.encode_number(reading.name, cells, out)
        for part in reading.parts:
            encoding.encode_number(f"{reading.name}:{part}", PARTS[part](cells), out)
        return out[:, slots]

    missing = encoded(np.full(1, np.nan))[0] if gaps else None
    if not is_time:
        return ColumnGrid("number", grid, encoded(grid), slots, missing)
    inputs = encoded(grid)
    if values is None and reading.parts and len(grid) > 1:
        own = encoding.numbers_of(reading.name, rows)
        inputs = np.stack([encoded(cells) for cells in _moved(grid, own)])
    return ColumnGrid("time", grid.astype("datetime64[s]"), inputs, slots, missing, reading.parts)


def _moved(grid: Floats, own: Floats) -> list[Floats]:
    """Move the dates of rows near each date of a grid, where they keep what varies in between.

    If the dates of a grid are weeks apart, each row keeps its weekday and its time of the day. The
    hours of the grid's own dates would be any, so that a daily rhythm would look like a slow one.

    Examples
    --------
    >>> day = 86_400.0
    >>> moved = _moved(np.array([0.0, 10.0, 20.0]) * day, np.array([5.25 * day]))
    >>> [float(cells[0] / day) for cells in moved]
    [5.25, 12.25, 19.25]
    """
    spacing = float(np.diff(grid).min())
    period = next((period for period in _PERIODS if period <= spacing), 0.0)
    if not period:
        return [np.full(len(own), date) for date in grid]
    since = np.where(np.isnan(own), 0.0, own % period)
    return [np.floor(date / period) * period + since for date in grid]
