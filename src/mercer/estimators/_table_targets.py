"""Targets of a table, checked: labels and quantities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._columns import check_names
from mercer.data._views import Levels, view_table

__all__ = ["read_targets"]


def read_targets(table: Any, name: str, *, quantity: bool) -> NDArray[Any]:
    """Read the targets of a table.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column of the targets.
    quantity : bool
        Whether they are numbers to approach rather than labels.

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
    if not quantity:
        return _labels(values, name)
    if isinstance(values, Levels):
        if not view.n_rows:
            return np.empty(0)
        raise ValueError(
            f"The target {name!r} holds text or truth values, first {values.first()!r}, but a "
            "regression predicts numbers. Choose classification, or another target."
        )
    y = values.values.astype(np.float64)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise ValueError(
            f"The target {name!r} holds {y[row]} in row {row} of this table, which no model "
            "can approach. Remove such rows, or replace the value."
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
