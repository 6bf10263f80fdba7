"""Targets of a table, checked: labels and quantities; and its groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._columns import check_names, is_number
from mercer.data._views import Levels, view_table
from mercer.estimators._pair_targets import group_numbers

__all__ = ["read_groups", "read_targets"]

Array = NDArray[np.float64]


def read_targets(table: Any, name: str, *, kind: str) -> NDArray[Any]:
    """Read the targets of a table.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column of the targets.
    kind : {"labels", "quantities", "any"}
        Whether they are labels, numbers to approach, or either: what can be ranked.

    Returns
    -------
    y : ndarray of shape (n_rows,)
        Labels (int64, text or bool) or quantities (float64).

    Raises
    ------
    ValueError
        If the column is missing, has rows without a value, or does not fit the task.
    """
    view = view_table(table)
    check_names([name], view.names, "The table")
    values = view.column(name)
    missing = values.codes < 0 if isinstance(values, Levels) else np.isnan(values.values)
    if missing.any():
        raise ValueError(
            f"The target {name!r} has no value in {int(missing.sum()):,} of {view.n_rows:,} "
            f"rows, first in row {int(np.argmax(missing))} of this table. There is nothing to "
            "learn from or to compare with in such rows: remove them, or fill in the target."
        )
    if kind == "labels" or (kind == "any" and (isinstance(values, Levels) or bool(values.integer))):
        return _labels(values, name)
    if isinstance(values, Levels):
        if not view.n_rows:
            return np.empty(0)
        bad = [level for level in values.levels if values.boolean or not is_number(level)]
        if not bad:
            raise ValueError(
                f"The target {name!r} holds numbers as text, first {values.first()!r}. Convert the "
                "column to numbers; in a CSV file some cell further down is none."
            )
        raise ValueError(
            f"The target {name!r} holds text or truth values, first {bad[0]!r}, but numbers are to "
            "be predicted. Correct such cells, or choose classification, or another target."
        )
    y = values.values.astype(np.float64)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise ValueError(
            f"The target {name!r} holds {y[row]} in row {row} of this table, which no model "
            "can learn. Remove such rows, or replace the value."
        )
    return y


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Class labels of a column without missing values."""
    if isinstance(values, Levels):
        if values.boolean:
            return np.asarray(values.codes == 1)
        return np.array(values.levels or [""], dtype=np.str_)[values.codes]
    whole = values.values.astype(np.int64, copy=False) if values.integer else None
    if whole is None:
        with np.errstate(invalid="ignore"):
            whole = values.values.astype(np.int64)
        if not np.array_equal(whole, values.values):
            row = int(np.argmax(whole != values.values))
            raise ValueError(
                f"The target {name!r} holds {values.values[row]!s} (row {row} of this table), "
                "which is a quantity rather than a class. Choose regression, or turn the target "
                "into classes."
            )
    return np.asarray(whole)


def read_groups(table: Any, name: str) -> Array:
    """Read the groups of the rows of a table, as numbers.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column that says which group a row is of: numbers, text or truth values.

    Returns
    -------
    groups : ndarray of shape (n_rows,)
        From :func:`mercer.estimators._pair_targets.group_numbers`.

    Raises
    ------
    ValueError
        If the column is missing, or has rows without a value.
    """
    view = view_table(table)
    check_names([name], view.names, "The table")
    values = view.column(name)
    missing = values.codes < 0 if isinstance(values, Levels) else ~np.isfinite(values.values)
    if missing.any():
        raise ValueError(
            f"The group {name!r} has no value in {int(missing.sum()):,} of {view.n_rows:,} rows, "
            f"first in row {int(np.argmax(missing))} of this table: nobody knows which rows to "
            "compare these with. Remove them, or fill in the group."
        )
    if not isinstance(values, Levels):
        return group_numbers(values.values, view.n_rows)
    if values.boolean:
        return np.asarray(values.codes == 1, dtype=np.float64)
    return group_numbers(
        np.array(values.levels or [""], dtype=np.str_), max(1, len(values.levels))
    )[values.codes]
