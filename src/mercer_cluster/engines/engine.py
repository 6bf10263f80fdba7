"""What all engines have in common: pure tasks, handles of their values, errors that come back.

Work on many cores is a graph of tasks: functions that depend only on their arguments. So a task
whose worker dies is run again, and nothing is lost or doubled. Engines all run a task by
:func:`run`, which gives it its arguments, limits its threads, and packs its result or exception.

The trivial engine, :class:`HereEngine`, runs tasks in this process, one after the other.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.exceptions import WorkerError
from mercer.threads import jobs
from mercer.validation import check_integer

try:
    # It also pickles functions and classes of scripts and notebooks. Ray, Dask and joblib have it.
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps

#: How often a task is run again whose worker died.
RETRIES = 4
_WITH_BUFFERS = 5  # the first protocol of pickle that can send arrays without copying them


class Handle:
    """A value that lies elsewhere, or will.

    Attributes
    ----------
    name : str
        Name of the task that makes it, for messages.
    depth : int
        Length of the longest chain of tasks that leads to it.
    """

    __slots__ = ("_place", "depth", "name")

    def __init__(self, place: Any, name: str, depth: int = 0) -> None:
        self._place, self.name, self.depth = place, name, depth

    def __repr__(self) -> str:
        return f"<Handle of {self.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"The handle of {self.name!r} is a part of an argument, and a task gets the values of "
            f"handles only that are arguments themselves. Pass handles one by one, such as "
            f"`engine.submit(work, *handles)`."
        )

    @property
    def place(self) -> Any:
        """Where the value is, in the engine's own terms."""
        if self._place is None:
            raise ValueError(
                f"The value of {self.name!r} was released, so it is not there any longer. Get it, "
                f"or submit the tasks that need it, before you release it."
            )
        return self._place

    def forget(self) -> Any:
        """Return the place, and None from the second time on."""
        place, self._place = self._place, None
        return place


class Packed:
    """A value as bytes, with its large arrays kept separately.

    Engines need not know the content: its size is visible, and unpacking gives an independent copy,
    which may be changed without changing the value of another task.

    Parameters
    ----------
    data : bytes
        The pickled value without its arrays.
    buffers : sequence of buffer
        The arrays.

    Examples
    --------
    >>> import numpy as np
    >>> packed = Packed.of([np.zeros(1000), "text"])
    >>> packed.size > 8000, len(packed.buffers)
    (True, 1)
    >>> packed.value()[1]
    'text'
    """

    __slots__ = ("buffers", "data")

    def __init__(self, data: bytes, buffers: Sequence[Any]) -> None:
        self.data, self.buffers = data, tuple(buffers)

    @classmethod
    def of(cls, value: Any) -> Packed:
        """Pack a value; its arrays are not copied, so they must not be changed afterwards."""
        buffers: list[pickle.PickleBuffer] = []
        data = dumps(value, protocol=5, buffer_callback=buffers.append)
        return cls(data, [buffer.raw() for buffer in buffers])

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data) + sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def copied(self) -> Packed:
        """Return the value with its own arrays."""
        return Packed(self.data, [_copy(buffer) for buffer in self.buffers])

    def value(self) -> Any:
        """Unpack a copy of the value."""
        return pickle.loads(self.data, buffers=self.copied().buffers)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Engines that can send arrays without copying need them separately. Arrays in messages
        # through Dask's scheduler cannot be: those are pickled by an older protocol.
        whole = bytes if protocol < _WITH_BUFFERS else pickle.PickleBuffer
        return Packed, (self.data, [whole(buffer) for buffer in self.buffers])

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.size


def _copy(buffer: Any) -> memoryview:
    return np.array(np.frombuffer(buffer, dtype=np.uint8)).data


class Failure:
    """What a task raised, in place of its value.

    Tasks that need the value fail with it in turn. So no engine sees an exception, which it would
    log, wrap or take as a reason to try again.
    """

    __slots__ = ("packed",)

    def __init__(self, error: BaseException, name: str) -> None:
        where = "".join(traceback.format_exception(error)).rstrip()
        error.add_note(f"\nIn task {name!r}, where it ran:\n\n{where}")
        try:
            self.packed = Packed.of(error).copied()
            self.packed.value()
        except Exception:
            # It holds what cannot be sent, or cannot be made again from its arguments.
            lost = WorkerError(
                f"Task {name!r} raised {type(error).__name__}: {error}. The exception itself "
                f"cannot be sent to this process. See its traceback below.",
                task=name,
            )
            lost.add_note(f"\nIn task {name!r}, where it ran:\n\n{where}")
            self.packed = Packed.of(lost)

    def __reduce__(self) -> tuple[Any, ...]:
        return _failure, (self.packed,)

    def error(self) -> BaseException:
        """Return the exception."""
        found: BaseException = self.packed.value()
        return found


def _failure(packed: Packed) -> Failure:
    made = Failure.__new__(Failure)
    made.packed = packed
    return made


def run(
    work: Callable[..., Any], n_parts: int, name: str, *arguments: Any
) -> Packed | Failure | list[Packed | Failure]:
    """Run a task: ``work(*arguments)`` on one thread, with unpacked arguments.

    Returns
    -------
    outcome : Packed, Failure, or list of them
        The packed value or what was raised; with several parts, a list of as many.
    """
    failed = next((a for a in arguments if isinstance(a, Failure)), None)
    try:
        if failed is None:
            with jobs(1):
                value = work(*(unpack(a) for a in arguments))
                if n_parts == 1:
                    return Packed.of(value)
                if len(value) != n_parts:
                    raise ValueError(
                        f"Task {name!r} returned {len(value)} parts, but it was submitted with "
                        f"n_parts={n_parts}. Return as many."
                    )
                return [Packed.of(part) for part in value]
    except (Exception, SystemExit) as error:
        failed = Failure(error, name)
    return failed if n_parts == 1 else [failed] * n_parts


def unpack(outcome: Any) -> Any:
    """Return the value of what :func:`run` gave; of anything else, itself.

    Raises
    ------
    BaseException
        What the task raised.
    """
    if isinstance(outcome, Failure):
        raise outcome.error()
    return outcome.value() if isinstance(outcome, Packed) else outcome


def name_of(work: Callable[..., Any], name: str) -> str:
    """Return the name of a task, by default the name of its function."""
    return name or getattr(work, "__name__", type(work).__name__)


def python_path() -> str:
    """Return the ``PYTHONPATH`` by which another Python finds what this one finds."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


def check_parts(n_parts: int) -> None:
    """Raise an error for an invalid number of parts."""
    check_integer("n_parts", n_parts, low=1)


def cores(n_workers: int | None) -> int:
    """Return the number of workers: the cores that this process may use, unless it is given."""
    if n_workers is not None:
        return check_integer("n_workers", n_workers, low=1)
    from joblib import cpu_count

    return int(cpu_count())


class Engine(ABC):
    """Runs pure tasks elsewhere.

    A task is a function that can be pickled and depends only on its arguments: an engine runs it
    again if its worker dies, or if its value is lost with a machine. Arguments and values are
    copies, so a task may change them. The exceptions are :meth:`shards`, which tasks must not
    change. In a task BLAS has one thread.

    An engine is a context manager that closes itself. It is used by one thread.

    Attributes
    ----------
    name : str
        What :func:`engine_of` calls it.
    n_workers : int
        Tasks that can run at once.
    """

    name: str
    n_workers: int

    @abstractmethod
    def put(self, value: Any) -> Handle:
        """Make a value known to all tasks, which is sent once, not with every task.

        Parameters
        ----------
        value : object
            Can be pickled. It is copied.

        Returns
        -------
        handle : Handle
            The argument of tasks.
        """

    @abstractmethod
    def submit(
        self, work: Callable[..., Any], *arguments: Any, n_parts: int = 1, name: str = ""
    ) -> Any:
        """Have a task run when its arguments are there; does not wait for it.

        Parameters
        ----------
        work : callable
            The function. It should belong to a module that the workers can import; functions of
            scripts and notebooks need the package cloudpickle, which Ray, Dask and new versions of
            joblib bring.
        *arguments : object or Handle
            Handles become their values where the task runs. They must be arguments themselves,
            not parts of one. What is large and no handle yet had better be :meth:`put`.
        n_parts : int, default=1
            If larger than 1, ``work`` returns a sequence of that many values, each with its own
            handle.
        name : str, default=""
            For messages and dashboards. That of the function by default.

        Returns
        -------
        handle : Handle or list of Handle
            A list if there are several parts.
        """

    @abstractmethod
    def completed(self, handles: Iterable[Handle]) -> Iterator[Handle]:
        """Yield handles as their tasks complete, including failed tasks.

        Parameters
        ----------
        handles : iterable of Handle
            Each is yielded once.

        Yields
        ------
        handle : Handle
            One whose value is there, or whose task failed.
        """

    @abstractmethod
    def get(self, handle: Handle) -> Any:
        """Wait for a value and return it.

        Raises
        ------
        mercer.exceptions.WorkerError
            If workers died whenever they ran the task.
        BaseException
            What the task raised, or the first of those whose values it needed.
        """

    @abstractmethod
    def release(self, handles: Handle | Iterable[Handle]) -> None:
        """Tell that values are not needed any longer, but by tasks that were submitted."""

    @abstractmethod
    def shards(self, data: Any) -> list[Handle] | None:
        """Return the parts of a dataset of the engine's own, in order.

        Parameters
        ----------
        data : object
            Such as a Ray Dataset or a Dask DataFrame.

        Returns
        -------
        handles : list of Handle, or None
            Handles of tables; None if ``data`` is not a dataset of this engine.
        """

    @abstractmethod
    def close(self) -> None:
        """End everything that the engine started; a cluster that it connected to keeps running."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def listed(handles: Handle | Iterable[Handle]) -> list[Handle]:
    """Return one handle or several as a list."""
    return [handles] if isinstance(handles, Handle) else list(handles)


@contextmanager
def signals_kept() -> Iterator[None]:
    """Give the signals that end a process their handlers back, which a cluster's package takes.

    Ray does so when it starts and when it ends. By a handler of Python's only: what was
    installed in another way cannot be put back by it.
    """
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # no other may set them
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def environment_changes() -> Iterator[Callable[[], None]]:
    """Yield what takes back the variables of the environment that are set inside.

    It leaves alone those that have changed once more since. After an error they are taken back.

    Examples
    --------
    >>> import os
    >>> with environment_changes() as take_back:
    ...     os.environ["MERCER_AN_EXAMPLE"] = "1"
    >>> take_back()
    >>> "MERCER_AN_EXAMPLE" in os.environ
    False
    """
    before = dict(os.environ)
    changed: dict[str, str | None] = {}

    def take_back() -> None:
        for name, value in changed.items():
            if os.environ.get(name) != value:
                continue
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)

    done = False
    try:
        yield take_back
        done = True
    finally:
        for name in {*before, *os.environ}:
            if (value := os.environ.get(name)) != before.get(name):
                changed[name] = value
        if not done:
            take_back()


class HereEngine(Engine):
    """Runs tasks in this process when they are submitted, one after the other.

    What other engines do must equal what this one does. Values lie in memory, packed, until they
    are released or their handles are gone.

    Examples
    --------
    >>> from mercer_cluster.engines import HereEngine
    >>> with HereEngine() as engine:
    ...     whole, rest = engine.submit(divmod, 17, 5, n_parts=2)
    ...     total = engine.submit(max, whole, rest)
    ...     engine.get(total)
    3
    """

    name = "here"
    n_workers = 1

    def put(self, value: Any) -> Handle:
        return Handle(Packed.of(value).copied(), "put")

    def submit(
        self, work: Callable[..., Any], *arguments: Any, n_parts: int = 1, name: str = ""
    ) -> Any:
        check_parts(n_parts)
        name = name_of(work, name)
        # Plain arguments are packed, as they are for other engines.
        places = (a.place if isinstance(a, Handle) else Packed.of(a) for a in arguments)
        outcome = run(work, n_parts, name, *places)
        if isinstance(outcome, list):
            return [Handle(_own(one), name) for one in outcome]
        return Handle(_own(outcome), name)

    def completed(self, handles: Iterable[Handle]) -> Iterator[Handle]:
        yield from handles

    def get(self, handle: Handle) -> Any:
        return unpack(handle.place)

    def release(self, handles: Handle | Iterable[Handle]) -> None:
        for handle in listed(handles):
            handle.forget()

    def shards(self, data: Any) -> list[Handle] | None:
        return None

    def close(self) -> None:
        """Do nothing: the engine started nothing."""


def _own(outcome: Packed | Failure) -> Packed | Failure:
    # The task may have returned arrays that are used elsewhere, too.
    return outcome.copied() if isinstance(outcome, Packed) else outcome


_LOG = logging.getLogger("mercer_cluster")


class Progress(NamedTuple):
    """How far a run has come.

    Attributes
    ----------
    stage : {"survey", "plan", "learn", "solve", "predict", "evaluate"}
        Shards are surveyed, learned, predicted or evaluated; regions are solved. The plan is made
        from a sample in this process, and reported at its start and end.
    done, total : int
        Tasks of the stage.
    name : str
        What the last task was about.
    n_rows : int
        Rows of the shard; 0 if rows are not counted.
    n_workers : int
        Workers of the engine.
    seconds : float
        Since the beginning of the stage.
    """

    stage: str
    done: int
    total: int
    name: str
    n_rows: int
    n_workers: int
    seconds: float


Callback = Callable[[Progress], object] | None


def tell(callback: Callback, progress: Progress) -> None:
    """Tell the log and the callback."""
    _LOG.info(
        "%s %d/%d: %s%s after %.1f s",
        progress.stage,
        progress.done,
        progress.total,
        progress.name,
        f", {progress.n_rows:,} rows" if progress.n_rows else "",
        progress.seconds,
    )
    if callback is not None:
        callback(progress)


def watched(
    workers: Engine,
    stage: str,
    handles: Sequence[Any],
    names: Sequence[str],
    rows: Callable[[int], int],
    callback: Callback,
) -> Iterator[int]:
    """Wait for tasks, and report each one.

    Parameters
    ----------
    workers : Engine
        Who does them.
    stage : str
        See :class:`Progress`.
    handles, names : sequence
        Handles and names of the tasks.
    rows : callable
        Tells the rows of a task that is done, by its number.
    callback : callable or None
        Is given a :class:`Progress`.

    Yields
    ------
    number : int
        Number of a completed task.

    Raises
    ------
    Exception
        What a task raised.
    """
    start = time.perf_counter()
    numbers = {id(handle): number for number, handle in enumerate(handles)}
    for done, handle in enumerate(workers.completed(handles), 1):
        number = numbers[id(handle)]
        n_rows, seconds = rows(number), time.perf_counter() - start
        name, n_workers = names[number], workers.n_workers
        tell(
            callback,
            Progress(stage, done, len(handles), name, n_rows, n_workers, seconds),
        )
        yield number
