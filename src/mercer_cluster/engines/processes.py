"""The engine of one machine: processes whose values lie in files. It needs no other package."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any
from weakref import finalize

from mercer.exceptions import WorkerError
from mercer.validation import check_integer
from mercer_cluster.engines.engine import (
    RETRIES,
    Engine,
    Failure,
    Handle,
    Packed,
    check_parts,
    cores,
    depth_of,
    listed,
    name_of,
    python_path,
)
from mercer_cluster.engines.files import read, write
from mercer_cluster.engines.worker import Answer, Request

# Ctrl-C goes to all processes of a terminal, but it is for the one that the workers work for to say
# what becomes of them. So they are deaf to it from the first line on.
_PROGRAM = """\
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import sys
from mercer_cluster.engines.worker import serve
serve(sys.argv[1])
"""
# Seconds for a process to end that wrote half an answer.
_PATIENCE = 1.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(eq=False)
class _Value:
    """What is in a file, or will be."""

    path: Path
    done: bool = False
    failure: Failure | None = None
    wanted: bool = True
    users: int = 0
    waiting: list[_Task] = field(default_factory=list)


@dataclass(eq=False)
class _Task:
    """A task that waits, or runs."""

    request: Request
    order: tuple[int, int]
    inputs: list[_Value]
    outputs: list[_Value]
    missing: int = 0
    deaths: int = 0

    def __lt__(self, other: _Task) -> bool:
        return self.order < other.order


class ProcessEngine(Engine):
    """Runs tasks in processes of this machine.

    Each task reads its arguments from files and writes its values to files, so that neither this
    process nor a worker holds more than it works with: what is bounded is the disk. Of the tasks
    that are ready those that need most others come first, which keeps few values on the disk while
    sums are merged. Workers map large arrays from the files: what :meth:`put` makes known is in
    their memory once, whatever their number.

    Workers are new Python processes with the ``sys.path`` of this one. They do not run the script
    of this one again, so it needs no ``if __name__ == "__main__":``. A worker that dies is replaced
    and its task is run again.

    Parameters
    ----------
    n_workers : int, default=None
        Number of processes; by default the cores that this process may use.
    folder : path-like, default=None
        Where the files are, in a new folder that is removed in the end; by default where
        ``tempfile`` makes folders, which the environment variable ``TMPDIR`` changes.
    retries : int, default=4
        How often a task is run again whose worker died.

    Examples
    --------
    >>> from mercer_cluster.engines import ProcessEngine
    >>> with ProcessEngine(1) as engine:
    ...     one, two = engine.submit(divmod, 17, 5, n_parts=2)
    ...     total = engine.submit(pow, one, two)
    ...     engine.get(total)
    9
    """

    name = "processes"

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        retries: int = RETRIES,
    ) -> None:
        self.n_workers = cores(n_workers)
        check_integer("retries", retries, low=0)
        self._pool = _Pool(self.n_workers, folder, retries)
        # Also if it is forgotten, or the interpreter ends.
        self._close = finalize(self, self._pool.close)

    def put(self, value: Any) -> Handle:  # noqa: D102
        return Handle(self._pool.put(Packed.of(value)), "put")

    def submit(  # noqa: D102
        self, work: Callable[..., Any], *arguments: Any, n_parts: int = 1, name: str = ""
    ) -> Any:
        check_parts(n_parts)
        name, depth = name_of(work, name), depth_of(arguments)
        inputs = {i: a.place for i, a in enumerate(arguments) if isinstance(a, Handle)}
        plain = [None if i in inputs else a for i, a in enumerate(arguments)]
        outputs = self._pool.submit(Packed.of((work, plain)), inputs, n_parts, name, depth)
        handles = [Handle(value, name, depth) for value in outputs]
        return handles if n_parts > 1 else handles[0]

    def completed(self, handles: Iterable[Handle]) -> Iterator[Handle]:  # noqa: D102
        left = {handle: handle.place for handle in handles}
        while left:
            done = self._pool.wait_for_any(left)
            for handle in done:
                del left[handle]
            yield from done

    def get(self, handle: Handle) -> Any:  # noqa: D102
        value: _Value = handle.place
        self._pool.wait_for_any({handle: value})
        if value.failure is not None:
            raise value.failure.error()
        return read(value.path).value()

    def release(self, handles: Handle | Iterable[Handle]) -> None:  # noqa: D102
        places = (handle.forget() for handle in listed(handles))
        self._pool.release([place for place in places if place is not None])

    def shards(self, data: Any) -> list[Handle] | None:  # noqa: D102
        return None

    def close(self) -> None:
        """End the workers, and remove the files."""
        self._close()


class _Pool:
    """Processes, the tasks they wait for, and the files.

    Each process has a thread here that gives it tasks and waits for its answers. It knows nothing
    of the engine, so that an engine which is forgotten is closed.
    """

    def __init__(self, n_workers: int, folder: str | os.PathLike[str] | None, retries: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mercer-", dir=folder)).absolute()
        self._retries = retries
        self._changed = Condition()
        self._numbers = count()
        self._ready: list[_Task] = []
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._threads = [
            Thread(target=self._work, name=f"mercer-worker-{i}", daemon=True)
            for i in range(n_workers)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, packed: Packed) -> _Value:
        value = self._new_value(done=True)
        write(packed, value.path)
        return value

    def submit(
        self, work: Packed, inputs: dict[int, _Value], n_parts: int, name: str, depth: int
    ) -> list[_Value]:
        self._check_open()
        number = next(self._numbers)
        path = self._folder / f"task-{number}"
        write(work, path)
        outputs = [self._new_value() for _ in range(n_parts)]
        request = Request(
            name,
            str(path),
            {i: str(value.path) for i, value in inputs.items()},
            tuple(str(value.path) for value in outputs),
        )
        task = _Task(request, (-depth, number), list(inputs.values()), outputs)
        with self._changed:
            for value in task.inputs:
                value.users += 1
                if not value.done:
                    task.missing += 1
                    value.waiting.append(task)
            if not task.missing:
                self._make_ready(task)
        return outputs

    def wait_for_any(self, values: dict[Handle, _Value]) -> list[Handle]:
        """Wait until one is done; return those that are."""
        with self._changed:
            while True:
                self._check_open()
                done = [handle for handle, value in values.items() if value.done]
                if done:
                    return done
                self._changed.wait()

    def release(self, values: list[_Value]) -> None:
        with self._changed:
            for value in values:
                value.wanted = False
                self._remove_if_unused(value)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)  # others may clean up there, too

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(
                "The engine is closed, so its workers and files are gone. Submit and get inside of "
                "its `with` block."
            )

    def _new_value(self, *, done: bool = False) -> _Value:
        self._check_open()
        return _Value(self._folder / f"value-{next(self._numbers)}", done=done)

    # The following need the lock.

    def _make_ready(self, task: _Task) -> None:
        failure = next((v.failure for v in task.inputs if v.failure is not None), None)
        if failure is not None:
            self._end(task, failure)
            return
        heappush(self._ready, task)
        self._changed.notify_all()

    def _end(self, task: _Task, failure: Failure | None) -> None:
        _remove(Path(task.request.work))
        for value in task.inputs:
            value.users -= 1
            self._remove_if_unused(value)
        for value in task.outputs:
            value.done, value.failure = True, failure
            followers, value.waiting = value.waiting, []
            for follower in followers:
                follower.missing -= 1
                if not follower.missing:
                    self._make_ready(follower)
            self._remove_if_unused(value)
        self._changed.notify_all()

    def _remove_if_unused(self, value: _Value) -> None:
        if value.done and not value.wanted and not value.users and not self._closed:
            _remove(value.path)  # failed tasks have none

    # The threads.

    def _work(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while (task := self._next()) is not None:
            try:
                if process is None:
                    process = self._start()
                failure: Failure | None = _ask(process, task.request)
            except Exception as error:  # whatever it is, somebody waits for the task
                # Of Popen, too, and then there is nothing that could be replaced.
                code = self._bury(process) if process is not None else None
                process = None
                with self._changed:
                    if self._closed:
                        break
                    task.deaths += 1
                    if task.deaths <= self._retries:
                        self._make_ready(task)
                        continue
                failure = _deaths(task, code, error)
            with self._changed:
                if self._closed:
                    break
                self._end(task, failure)
        if process is not None:
            self._bury(process)

    def _next(self) -> _Task | None:
        with self._changed:
            while not self._closed:
                if self._ready:
                    return heappop(self._ready)
                self._changed.wait()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        threads = dict.fromkeys(_ONE_THREAD, "1")
        with self._changed:
            if self._closed:
                raise EOFError
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **threads, "PYTHONPATH": python_path()},
            )
            self._processes.add(process)
        return process

    def _bury(self, process: subprocess.Popen[bytes]) -> int:
        """End a process, or see that it has ended; return its exit code."""
        code = process.poll()
        process.kill()
        process.wait()
        with self._changed:
            self._processes.discard(process)
        for pipe in _pipes(process):
            try:
                pipe.close()
            except BrokenPipeError:  # what it had not read yet
                continue
        return process.returncode if code is None else code


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _ask(process: subprocess.Popen[bytes], request: Request) -> Failure | None:
    """Have a process run a task; return what went wrong."""
    to_it, from_it = _pipes(process)
    pickle.dump(request, to_it)
    to_it.flush()
    try:
        answer = pickle.load(from_it)
        if not isinstance(answer, Answer) or answer.work != request.work:
            raise ValueError(f"it says {answer!r:.100}")
    except (OSError, EOFError):
        raise
    except Exception as error:
        # Half an answer cannot be read either.
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise _UnreadableError(f"{type(error).__name__}: {error}") from error
        raise EOFError from error
    return answer.failure


class _UnreadableError(Exception):
    """What a process wrote is no answer to what it was asked."""


def _remove(path: Path) -> None:
    """Remove a file that nobody needs; it is no harm if it is gone, or cannot be removed."""
    with suppress(OSError):
        path.unlink()


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"signal {number}"


def _deaths(task: _Task, code: int | None, error: Exception) -> Failure:
    name = task.request.name
    if isinstance(error, _UnreadableError):
        return Failure(
            WorkerError(
                f"Task {name!r} has no result: {task.deaths} times the answer of its worker "
                f"process could not be read, the last time for {error}. Something else writes on "
                f"its standard output, such as a module that Python imports when it starts. Have "
                f"it write on standard error.",
                task=name,
            ),
            name,
        )
    if code is None:
        how = f"could not be started ({error})"
    elif code < 0:
        how = f"was ended by {_name_of_signal(-code)}"
    else:
        how = f"ended with code {code}"
    return Failure(
        WorkerError(
            f"Task {name!r} has no result: its worker process died {task.deaths} times, and the "
            f"last one {how}. A process is killed where memory runs out, so use fewer workers or "
            f"smaller shards; if it crashed, see what it wrote to standard error.",
            task=name,
        ),
        name,
    )
