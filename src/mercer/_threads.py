"""One BLAS thread while mercer computes: its products are small, and spinning threads cost more."""

from __future__ import annotations

from functools import cache
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@cache
def _controller() -> ThreadpoolController:
    # Asking which libraries are loaded takes a millisecond, so it is done once.
    import scipy.linalg  # noqa: F401  # its BLAS must be loaded to be found

    return ThreadpoolController().select(user_api="blas")


class _OneBlasThread:
    """The context; may be nested, and entered by several threads at once.

    Most BLAS libraries have one number of threads for the whole process, some one for each thread.
    Either way it comes back only if the thread that set it restores it, and nobody else takes the
    1 that it set for the setting to restore. So one thread at a time owns the setting.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        me = get_ident()
        with self._lock:
            if self._owner is None:
                self._limit = _controller().limit(limits=1)
                self._owner = me
            if self._owner == me:
                self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._limit.__exit__(None, None, None)


_CONTEXT = _OneBlasThread()


def one_blas_thread() -> _OneBlasThread:
    """Context in which BLAS uses one thread; the caller's setting is restored after it.

    Of threads that compute at the same time the first one in sets and restores it.
    """
    return _CONTEXT
