"""Rows and frames of River, checked for values that are not numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from river.utils.dataframe import into_frame, to_numpy

from mercer.columns.views import says_nothing

Row = dict[Any, Any]

# Types that need no closer look.
_NUMBERS = frozenset([float, int, bool, np.float64, np.float32, np.int64, np.bool_])


def numbers_of(x: Row) -> Row:
    """Return a row whose values are numbers, without missing values.

    Parameters
    ----------
    x : dict
        Features by name. Returned itself if no values are missing.

    Raises
    ------
    ValueError
        If a value is not a number.

    Examples
    --------
    >>> numbers_of({"a": 1, "b": None, "c": 0.5})
    {'a': 1, 'c': 0.5}
    """
    if _NUMBERS.issuperset(map(type, x.values())):
        return x
    known = {name: value for name, value in x.items() if not says_nothing(value)}
    for name, value in known.items():
        if not _is_number(value):
            raise ValueError(
                f"The feature {name!r} is {value!r}, a {type(value).__name__}; kernels take "
                "numbers. Put a transformer before: `compose.SelectType(str) | "
                "preprocessing.OneHotEncoder()` makes 0 and 1 of text, "
                "`compose.SelectType(numbers.Number)` leaves out what is no number."
            )
    return known


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes):  # even if it could be read as one
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def matrix_of(X: Any) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return names and numbers of a frame (pandas, polars, Arrow, ...), NaN for missing values.

    Raises
    ------
    ValueError
        If a column does not hold numbers.
    """
    frame = into_frame(X)
    names = list(frame.columns)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype.is_boolean()):
            for value in frame[name].to_list():  # objects may be numbers
                numbers_of({name: value})
    numbers = to_numpy(frame) if names else np.empty((len(frame), 0))
    return names, numbers


def rows_of(X: Any) -> Iterator[Row]:
    """Yield the rows of a frame as dicts, without NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> list(rows_of(pd.DataFrame({"a": [1.0, None], "b": [2, 3]})))
    [{'a': 1.0, 'b': 2.0}, {'b': 3.0}]
    """
    names, numbers = matrix_of(X)
    whole = not np.isnan(numbers).any()
    for row in numbers.tolist():
        pairs = zip(names, row, strict=True)
        yield dict(pairs) if whole else {name: value for name, value in pairs if value == value}
