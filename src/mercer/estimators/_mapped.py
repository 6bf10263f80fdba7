"""Models whose arrays are mapped from a file for reading, as joblib does between processes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = ["own_arrays"]


def own_arrays(part: Any) -> Any:
    """Copy every array that can only be read, wherever it is in a model.

    Parameters
    ----------
    part : object
        A model, or what it is made of: objects of this library's classes, mappings and lists are
        changed in place. All else is left alone.

    Returns
    -------
    part : object
        The same; a copy if it is such an array, or a tuple that holds some.

    Examples
    --------
    >>> import numpy as np
    >>> sums = np.zeros(3)
    >>> sums.flags.writeable = False
    >>> parts = {"sums": sums, "names": ("a", "b")}
    >>> own_arrays(parts)["sums"].flags.writeable
    True
    """
    return _own(part, {})


def _own(part: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(part, str | int | float | None):
        return part
    if id(part) not in seen:
        seen[id(part)] = part, part  # it may hold itself; and no other may get its id
        seen[id(part)] = part, _own_inside(part, seen)
    return seen[id(part)][1]


def _own_inside(part: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(part, np.ndarray):
        return part if part.flags.writeable else np.array(part)
    if isinstance(part, tuple):
        items = [_own(item, seen) for item in part]
        if all(new is old for new, old in zip(items, part, strict=True)):
            return part
        return type(part)(*items) if hasattr(part, "_fields") else tuple(items)
    if isinstance(part, list):
        part[:] = [_own(item, seen) for item in part]
    kind: Any = type(part)
    if isinstance(part, dict) or _is_ours(kind):
        inside = part if isinstance(part, dict) else vars(part)
        for name, value in inside.items():
            inside[name] = _own(value, seen)
    return part


@cache
def _is_ours(kind: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "mercer" for base in kind.__mro__)
