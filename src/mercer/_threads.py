"""Threads: one for BLAS while mercer computes, and a few of mercer's own over tiles of rows.

BLAS threads spin while they wait, and with more of them than free cores they cost up to 60 times
the CPU time. So BLAS gets one, and large independent pieces of work are spread over own threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from multiprocessing import current_process
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["n_workers", "one_blas_thread", "spread"]

_MOST_WORKERS = 16
# Pieces below which a second thread is not worth waking.
_FEW = 2


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


def n_workers() -> int:
    """Return the number of threads that mercer uses.

    The cores that this process may run on, 16 at most, and no more than the environment variable
    ``OMP_NUM_THREADS`` says, by which joblib divides the cores among its workers. One in a worker
    of ``multiprocessing.Pool``, whose siblings have the other cores.
    """
    if current_process().daemon:
        return 1
    cores = len(os.sched_getaffinity(0)) if _HAS_AFFINITY else os.cpu_count() or 1
    # A list has a number for each level of nested loops.
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        cores = min(cores, int(wanted))
    return min(cores, _MOST_WORKERS)


_HAS_AFFINITY = hasattr(os, "sched_getaffinity")


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    # A forked process has none of its parent's threads, so each process has a pool of its own.
    return ThreadPoolExecutor(size, thread_name_prefix="mercer")


def spread(work: Callable[[int, int], None], n_pieces: int) -> None:
    """Do pieces ``first`` to ``last - 1`` by ``work(first, last)``, on several threads if many.

    What a piece writes must not depend on the others: then the result does not depend on the
    number of threads. BLAS should be bounded by :func:`one_blas_thread`.

    Parameters
    ----------
    work : callable
        Does some pieces in order.
    n_pieces : int
        Number of pieces.
    """
    threads = n_pieces // _FEW
    if threads > 1:
        threads = min(n_workers(), threads)
    if threads <= 1:
        work(0, n_pieces)
        return
    bounds = [n_pieces * i // threads for i in range(threads + 1)]
    pool = _pool(os.getpid(), threads)
    futures = [pool.submit(work, a, b) for a, b in pairwise(bounds[1:])]
    try:
        work(bounds[0], bounds[1])
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
