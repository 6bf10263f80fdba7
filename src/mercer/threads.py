"""Threads: one for BLAS while mercer computes, and as many of mercer's own as there are jobs.

BLAS threads spin while they wait, and with more of them than free cores they cost up to 60 times
the CPU time. So BLAS gets one thread, and large independent pieces of work are spread over mercer's
own threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import count, pairwise
from multiprocessing import current_process
from numbers import Integral
from threading import Condition, Lock, Thread, current_thread, get_ident, main_thread
from typing import Any, TypeVar
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

from mercer.exceptions import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_WORKERS = 16
_MOST_THREADS = 256  # of `n_jobs`, whatever it says
# Seconds after which a thread lets others into the interpreter.
_TURN = 5e-4
# Pieces below which a second thread is not worth waking.
_FEW = 2
# A multiple of the widths in which BLAS processes matrices, 4, 8, 12, 16 and so on: a product cut
# here mostly equals the whole product to the last bit.
_TILE = 384

#: Threads for independent pieces of work in this context; None where nobody has said.
_JOBS: ContextVar[int | None] = ContextVar("mercer_jobs", default=None)


@cache
def _controller() -> ThreadpoolController:
    # Asking which libraries are loaded takes a millisecond, so it is done once.
    import scipy.linalg  # noqa: F401  # its BLAS must be loaded to be found

    return ThreadpoolController().select(user_api="blas")


#: Objects with locks, whose method ``_forked`` makes new ones in each forked process. A fork takes
#: along only the thread that forks: a lock that another one held would never be free there.
WITH_LOCKS: WeakSet[Any] = WeakSet()


def _forked() -> None:
    for one in list(WITH_LOCKS):
        one._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class own_property(cached_property[Result]):  # noqa: N801  # as functools names its own
    """``functools.cached_property`` that holds no lock while it computes the value.

    Until Python 3.11 all objects of a class have one such lock: threads that compute the property
    of different objects wait for each other, and a fork meanwhile leaves it locked. Without it
    several threads may compute the same value; the last one is kept.

    Examples
    --------
    >>> class Circle:
    ...     radius = 2.0
    ...
    ...     @own_property
    ...     def diameter(self):
    ...         return 2.0 * self.radius
    >>> circle = Circle()
    >>> circle.diameter, vars(circle)
    (4.0, {'diameter': 4.0})
    """

    def __init__(self, function: Callable[[Any], Result]) -> None:
        super().__init__(function)
        self.lock = nullcontext()  # newer ones have none


class _OneBlasThread:
    """The context; may be nested, and entered by several threads at once.

    Most BLAS libraries have one number of threads for the whole process, some have one per thread.
    In both cases the thread that sets the number must restore it, and no other thread may take the
    temporary 1 for the setting to restore. So one thread at a time owns the setting.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0
        self._before: list[int] = []
        self._is_left = False  # by a thread that a fork did not take along
        WITH_LOCKS.add(self)

    def __enter__(self) -> None:
        me = get_ident()
        with self._lock:
            if self._owner is None:
                libraries = _controller().lib_controllers
                if not self._is_left:
                    self._before = [library.num_threads for library in libraries]
                self._owner, self._is_left = me, False
                for library in libraries:
                    library.set_num_threads(1)
            if self._owner == me:
                self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                libraries = _controller().lib_controllers
                for library, before in zip(libraries, self._before, strict=True):
                    library.set_num_threads(before)
                self._owner = None  # last: a fork may come in between

    def _forked(self) -> None:
        self._lock = Lock()
        if self._owner not in (None, get_ident()):
            self._owner, self._depth, self._is_left = None, 0, True


_CONTEXT = _OneBlasThread()


def one_blas_thread() -> _OneBlasThread:
    """Context in which BLAS uses one thread; the caller's setting is restored after it.

    Of several threads that compute at the same time, the first one sets and restores the number.
    """
    return _CONTEXT


class _QuickTurns:
    """Context in which threads that want the interpreter get it soon; may be nested, and shared.

    Pieces of a millisecond in compiled functions have some Python between them, for which a thread
    waits up to 5 ms by default if another one is in Python code.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: list[int] = []  # threads
        self._before = 0.0
        WITH_LOCKS.add(self)

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getswitchinterval()
            self._inside.append(get_ident())  # before the change: a fork may come in between
            sys.setswitchinterval(min(self._before, _TURN))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if len(self._inside) == 1:
                sys.setswitchinterval(self._before)
            self._inside.remove(get_ident())

    def _forked(self) -> None:
        self._lock = Lock()
        if self._inside:
            self._inside = [thread for thread in self._inside if thread == get_ident()]
            if not self._inside:
                sys.setswitchinterval(self._before)


_QUICK_TURNS = _QuickTurns()


def n_workers() -> int:
    """Return the number of threads that :func:`spread` uses without an ``n_jobs``.

    The number of cores that this process may use, at most 16 and at most the environment variable
    ``OMP_NUM_THREADS``, with which joblib divides the cores among its workers. 1 in a worker of
    ``multiprocessing.Pool``, whose siblings use the other cores.
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


def check_jobs(n_jobs: Any) -> None:
    """Raise an error for an invalid number of jobs.

    Raises
    ------
    mercer.exceptions.ParameterError
        For 0 and for values that are not integers.
    """
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ParameterError(
            f"`n_jobs` must be a number of threads, -1 for all cores (-2 for all but one, ...), or "
            f"None for 1 unless a joblib.parallel_config says otherwise, got {n_jobs!r}.",
            parameter="n_jobs",
            value=n_jobs,
        )


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Set the number of threads of :func:`in_order` in a context, with one BLAS thread in each.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: None for 1, unless a ``joblib.parallel_config`` or an outer context says
        otherwise; -1 for all cores, -2 for all but one, and so on. At most 256 are begun.

    Raises
    ------
    mercer.exceptions.ParameterError
        For 0 and for values that are not integers.
    """
    from joblib import effective_n_jobs  # it takes a while to import

    check_jobs(n_jobs)
    n = 1 if n_jobs == 1 else min(effective_n_jobs(n_jobs), _MOST_THREADS)
    token = _JOBS.set(_JOBS.get() if n_jobs is None and n == 1 else n)
    try:
        with one_blas_thread(), _QUICK_TURNS if (_JOBS.get() or 1) > 1 else nullcontext():
            yield
    finally:
        _JOBS.reset(token)


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return ``[work(item) for item in items]``, computed on the threads of :func:`jobs`.

    Pieces depend only on their items, so results do not depend on the number of threads. Pieces may
    have pieces themselves: free or waiting threads help the thread that owns them, which never
    waits for pieces that no thread has begun.

    Parameters
    ----------
    work : callable
        Does a piece; what it changes must belong to the piece.
    items : iterable
        One for each piece, the longest ones best first.

    Raises
    ------
    BaseException
        That of the first piece, in their order, that failed.
    """
    return _on_threads(work, list(items), _JOBS.get() or 1)


def tiles(n: int, size: int = _TILE) -> list[slice]:
    """Return slices of some of n rows or columns, the last of which has what is left, too.

    They are pieces for :func:`in_order`, none of which is much smaller than the others.

    Parameters
    ----------
    n : int
        Rows or columns in all.
    size : int, default=384
        Size of a slice.

    Examples
    --------
    >>> tiles(1000)
    [slice(0, 384, None), slice(384, 1000, None)]
    """
    starts = range(0, max(n - size, 0) + 1, size)
    return list(map(slice, starts, [*starts[1:], n]))


def spread(work: Callable[[int, int], None], n_pieces: int) -> None:
    """Do pieces ``first`` to ``last - 1`` by ``work(first, last)``, on several threads if many.

    Without an ``n_jobs`` many threads are used (:func:`n_workers`). What a piece writes must not
    depend on other pieces; then the result does not depend on the number of threads. Limit BLAS by
    :func:`one_blas_thread`.

    Parameters
    ----------
    work : callable
        Does some pieces in order.
    n_pieces : int
        Number of pieces.
    """
    threads = n_pieces // _FEW
    if threads > 1:
        threads = min(_JOBS.get() or n_workers(), threads)
    if threads <= 1:
        work(0, n_pieces)
        return
    bounds = [n_pieces * i // threads for i in range(threads + 1)]
    _on_threads(lambda ends: work(*ends), list(pairwise(bounds)), threads)


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items, the next of which another thread makes meanwhile if there are several jobs.

    Parameters
    ----------
    items : iterator
        Must not depend on what becomes of the items that it gave.

    Examples
    --------
    >>> with jobs(2):
    ...     list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    if (_JOBS.get() or 1) == 1:
        yield from items
        return
    none: Any = object()
    with ThreadPoolExecutor(1, thread_name_prefix="mercer-ahead") as reader:
        following = reader.submit(next, items, none)
        while (item := following.result()) is not none:
            following = reader.submit(next, items, none)
            yield item


class _Helpers:
    """Threads for pieces that others have begun to do, in the order in which help was wanted.

    Who waits for help that has begun helps others meanwhile. That ends: what somebody waits for
    began later than the waiting thread's own piece, and so did all that it waits for in turn.
    """

    def __init__(self, n_threads: int) -> None:
        self._changed = Condition()
        self._wanted: deque[_Help] = deque()
        for number in range(n_threads):
            Thread(target=self._serve, name=f"mercer-{number}", daemon=True).start()

    def ask(self, work: Callable[[], None], n: int) -> list[_Help]:
        """Let several threads do some work, in a context like the caller's."""
        asked = [_Help(partial(copy_context().run, work)) for _ in range(n)]
        with self._changed:
            self._wanted.extend(asked)
            self._changed.notify(n)
        return asked

    def end(self, asked: list[_Help]) -> None:
        """Wait for all tasks that have begun; cancel the others."""
        begun = []
        with self._changed:
            for help in asked:
                if help in self._wanted:
                    help.has_ended = True
                    self._wanted.remove(help)
                else:
                    begun.append(help)
        if begun:
            self._serve(begun)

    def _serve(self, until: Sequence[_Help] = ()) -> None:
        """Help whoever wants it, until some help has ended or for good."""
        while True:
            help: _Help | None = None
            try:
                with self._changed:
                    while not self._wanted and not _have_ended(until):
                        self._changed.wait()
                    if _have_ended(until):
                        return
                    help = self._wanted[0]
                    self._wanted.popleft()
                help.work()
            finally:  # also after Ctrl-C, wherever it came: somebody may wait for it
                with self._changed:
                    if help is not None and help not in self._wanted:
                        help.has_ended = True
                        self._changed.notify_all()


@dataclass(eq=False)
class _Help:
    work: Callable[[], Any]
    has_ended: bool = False


def _have_ended(several: Sequence[_Help]) -> bool:
    return bool(several) and all(help.has_ended for help in several)


@cache
def _helpers(process: int, n_threads: int) -> _Helpers:
    # A forked process has none of its parent's threads, so each process has its own.
    return _Helpers(n_threads)


def _on_threads(
    work: Callable[[Item], Result], pieces: Sequence[Item], n_threads: int
) -> list[Result]:
    """Run pieces on several threads, the caller's included; see :func:`in_order`."""
    n_helpers = min(n_threads, len(pieces)) - 1
    if n_helpers <= 0:
        return [work(piece) for piece in pieces]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    numbers = count()

    def some() -> None:
        # All pieces before one that fails have begun, and are ended.
        while not errors and (number := next(numbers)) < len(pieces):
            try:
                results[number] = work(pieces[number])
            except BaseException as error:  # it is raised once all threads have ended
                errors[number] = error
                # Ctrl-C is for the main thread, also while it helps another one.
                if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                    raise

    helpers = _helpers(os.getpid(), n_threads - 1)
    asked = helpers.ask(some, n_helpers)
    try:
        some()
        helpers.end(asked)
    except BaseException as error:  # Ctrl-C, wherever it came
        errors[len(pieces)] = error  # no piece begins any longer
        helpers.end(asked)
        raise
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(pieces))]
