"""Restore models after failed calls, even if their arrays are mapped from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from mercer.learning import Learner


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Restore all attributes of a model if the body of the ``with`` statement fails.

    An unpickled model first gets its own arrays, since some may be mapped read-only.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(n_rows=3)
    >>> try:
    ...     with all_or_nothing(model):
    ...         model.n_rows = 4
    ...         raise ValueError
    ... except ValueError:
    ...     print(model.n_rows)
    3
    """
    if model.__dict__.pop("_unpickled", False):
        own_arrays(model)
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


@contextmanager
def as_before(learner: Learner, *, whole: bool) -> Iterator[None]:
    """Restore a learner's settings if the body of the ``with`` statement fails.

    Learners restore by themselves what they have learned.

    Parameters
    ----------
    learner : Learner
        The learner.
    whole : bool
        Whether its outputs may change, so that all of it must be restored.
    """
    settings = learner.step_size, learner.regularization, learner.batch_size
    before = (learner.objective, learner.to_state(whole=True)) if whole else None
    try:
        yield
    except BaseException:
        learner.tune(*settings)
        if before is not None:
            learner.objective = before[0]
            learner.restore(before[1])
        raise


def own_arrays(part: Any) -> Any:
    """Copy every read-only array in a model.

    Parameters
    ----------
    part : object
        A model or a part of one. Objects of this library's classes, mappings and lists are changed
        in place; all else is left alone.

    Returns
    -------
    part : object
        The same object; a copy if it is a read-only array, or a tuple that holds one.

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
        seen[id(part)] = part, part  # it may contain itself; keeping it also keeps its id unique
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
