"""One BLAS thread while mercer computes: its products are small, and spinning threads cost more."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@cache
def _controller() -> ThreadpoolController:
    # Asking which libraries are loaded takes a millisecond, so it is done once.
    import scipy.linalg  # noqa: F401  # its BLAS must be loaded to be found

    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses one thread; the caller's setting is restored after it."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1)
    return context
