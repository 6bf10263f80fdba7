"""Calls that fail and leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mercer.estimators._mapped import own_arrays

__all__ = ["all_or_nothing"]


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
