"""Calls that fail and leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["all_or_nothing"]


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Give an object all its attributes back if what is done with it inside fails.

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
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise
