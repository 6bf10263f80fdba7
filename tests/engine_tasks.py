"""Tasks for the tests of engines: the workers import them from here."""

import os
import signal
import time
from pathlib import Path
from threading import Lock

import numpy as np


def products(scale, rows, n_parts):
    """Return `n_parts` pieces of the scaled products of some columns."""
    return np.array_split(scale["by"] * rows.T @ rows, n_parts)


def added(*pieces):
    """Add into the first argument, as a task may do."""
    first = pieces[0]
    for piece in pieces[1:]:
        first += piece
    return first


def failing(message):
    raise KeyError(message)


def counted(marker):
    """Raise, and count how often by the length of a file."""
    with open(marker, "a") as file:
        file.write("x")
    raise ValueError("once and no more")


def odd():
    error = ArithmeticError("one and two")
    error.lock = Lock()  # it cannot be pickled
    raise error


def dying_once(marker, value):
    """Kill the worker by which it runs, unless the file is there."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value * 2


def shard_dying_once(marker, time, X, y):
    """Return the rows of a shard; kill the worker that reads it so many times after others."""
    with open(marker, "a") as file:
        file.write("x")
    if Path(marker).stat().st_size == time:
        os.kill(os.getpid(), signal.SIGKILL)
    return X, y


def dying():
    os.kill(os.getpid(), signal.SIGKILL)


def leaving():
    raise SystemExit("left")


def slept(seconds, value):
    time.sleep(seconds)
    return value


def waited_for(place, value, seconds=60.0):
    """Return the value once there is a file."""
    until = time.monotonic() + seconds
    while not Path(place).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"no {place} within {seconds:g} s")
        time.sleep(0.01)
    return value


def slept_there(seconds):
    """Return the worker's number, when others have had time to take the next task."""
    time.sleep(seconds)
    return os.getpid()


def worker():
    return os.getpid()


def threads():
    """Return the numbers of threads that BLAS libraries have here."""
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def table_rows(table):
    """Return a table's columns as lists, be it of pandas or pyarrow."""
    return table.to_pydict() if hasattr(table, "to_pydict") else table.to_dict("list")


def nothing(*arguments):
    return len(arguments)
