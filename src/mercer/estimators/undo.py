"""Calls that fail and leave no trace, of models whose arrays may be mapped from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from mercer.learning import Learner


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Give a model all its attributes back if what is done with it inside fails.

    One that was unpickled gets arrays of its own first: some may be mapped for reading.

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
    """Give a learner its settings back if what is done with it inside fails.

    Learners undo by themselves what they learn.

    Parameters
    ----------
    learner : Learner
        What learns.
    whole : bool
        Whether its outputs may change, so that it must be restored as a whole.
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
