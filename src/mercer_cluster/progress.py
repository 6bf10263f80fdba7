"""Progress of an engine's work, passed to a callback and to the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mercer_cluster.engines import Engine

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
