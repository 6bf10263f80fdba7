"""What a worker process of :class:`ProcessEngine` does: read which task to run, run it, answer.

It is started by :mod:`mercer_cluster.engines.processes` and talks to it by the pipes of its
standard input and output. What tasks print goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, NamedTuple

from mercer_cluster.engines.engine import Failure, run
from mercer_cluster.engines.files import read, write


class Request(NamedTuple):
    """A task in files.

    Attributes
    ----------
    name : str
        Name of the task.
    work : str
        File of the function and the plain arguments, with None where a value of a file belongs.
    inputs : dict of int to str
        Position of each argument that is the value of a file, and the file.
    outputs : tuple of str
        A file for each part of what the task returns.
    """

    name: str
    work: str
    inputs: dict[int, str]
    outputs: tuple[str, ...]


class Answer(NamedTuple):
    """What is said of a task once its values are in their files.

    Attributes
    ----------
    work : str
        File of the function, by which it is known which task was done.
    failure : Failure or None
        What went wrong.
    """

    work: str
    failure: Failure | None


def serve(folder: str) -> None:
    """Run tasks until there are none to come.

    Parameters
    ----------
    folder : str
        Of the files; it is removed when the process that started this one has ended without
        doing so.
    """
    incoming = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    requests: SimpleQueue[Request] = SimpleQueue()
    Thread(target=_listen, args=(incoming, requests, folder), daemon=True).start()
    while True:
        request = requests.get()
        pickle.dump(Answer(request.work, _failure_of(request)), answers)
        answers.flush()


def _listen(incoming: IO[bytes], requests: SimpleQueue[Request], folder: str) -> None:
    # A thread of its own, so that the worker ends at once when nobody waits for it any longer.
    try:
        while True:
            requests.put(pickle.load(incoming))
    except EOFError:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        sys.stderr.flush()
        os._exit(0)


def _failure_of(request: Request) -> Failure | None:
    try:
        work, arguments = read(request.work).value()
        for position, path in request.inputs.items():
            arguments[position] = read(path, mapped=True)
        outcome: Any = run(work, len(request.outputs), request.name, *arguments)
        parts = outcome if isinstance(outcome, list) else [outcome]
        for part, path in zip(parts, request.outputs, strict=True):
            if isinstance(part, Failure):
                return part
            write(part, path)
    except Exception as error:  # a module is missing, the disk is full
        return Failure(error, request.name)
    return None
