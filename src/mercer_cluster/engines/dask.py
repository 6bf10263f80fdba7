"""The engine of Dask: futures of a distributed cluster, and the parts of a Dask DataFrame."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from multiprocessing.spawn import get_preparation_data
from operator import getitem
from typing import Any
from uuid import uuid4
from weakref import finalize

from mercer.exceptions import Advice, Setting, WorkerError
from mercer.validation import check_integer
from mercer_cluster.engines.engine import (
    RETRIES,
    Engine,
    Handle,
    Packed,
    check_parts,
    cores,
    environment_changes,
    listed,
    name_of,
    run,
    unpack,
)

# Bytes sent through the scheduler at once. It does nothing else meanwhile, and Dask warns from 10
# MB on.
_PIECE = 8_000_000
_LENGTH_OF_KEY = 3


class DaskEngine(Engine):
    """Runs tasks on a Dask cluster.

    Values lie in the memory of the workers, which write them to disk where it becomes scarce: Dask
    knows the size of each. A value that was lost with its worker is made again by the tasks that
    made it. That includes what :meth:`put` makes known, which the scheduler keeps, in its memory,
    until it is released: data that are scattered would be lost with their worker. Of the tasks
    that are ready those that need most others come first.

    Dask counts the death of a worker against all tasks that it had been given, not only the task
    that was running. So more deaths are allowed here than by other engines, and tasks are named
    such that Dask gives a worker few at a time. A running cluster allows as many deaths as its
    setting ``distributed.scheduler.allowed-failures`` says. Values die with their worker, so
    workers must on average live longer than it takes to recompute the values of one of them.

    A cluster that is started here begins its workers by ``multiprocessing``, which runs the
    script again that started them. A script therefore needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    n_workers : int, default=None
        Processes, of one thread each, of a cluster that is started on this machine; by default the
        cores that this process may use. A cluster that runs already has its own number.
    address : str, default=None
        Address of the scheduler of a running cluster. Default: the cluster to which this process is
        connected by a ``distributed.Client``; if there is none, a cluster is started, which ends
        when the engine is closed.
    retries : int, default=8
        How often a task is run again whose worker died.

    Raises
    ------
    ImportError
        If Dask is not installed.
    """

    name = "dask"

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        address: str | None = None,
        retries: int = 2 * RETRIES,
    ) -> None:
        self._retries = check_integer("retries", retries, low=0)
        n_workers = cores(n_workers)
        self._distributed = _imported()
        self._token, self._numbers = uuid4().hex, count()
        ours: list[Callable[[], Any]] = []  # what to close, in this order
        if address is not None:
            self._client = self._distributed.Client(address, set_as_default=False)
            ours = [self._client.close]
        elif (client := _current(self._distributed)) is not None:
            self._client = client
        else:
            with environment_changes() as take_back:
                cluster = self._started(n_workers)
            self._client = self._distributed.Client(
                cluster, set_as_default=False, direct_to_workers=True
            )
            ours = [self._client.close, cluster.close, take_back]
        self._close = finalize(self, _all, ours)
        self.n_workers = max(1, sum(self._client.nthreads().values()))

    def _started(self, n_workers: int) -> Any:
        import dask

        # What workers import while they start. Two of their threads would do it at once later, and
        # one would find modules that are not whole.
        preloaded = [*dask.config.get("distributed.worker.preload", []), "mercer_cluster.run"]
        settings = {
            "distributed.worker.preload": preloaded,
            "distributed.scheduler.allowed-failures": self._retries,
            "distributed.scheduler.worker-saturation": 1.0,  # no task waits at a worker
        }
        with dask.config.set(settings):
            try:
                # New processes would run the main script again and are refused. So they end here,
                # where old versions of Dask would wait for ever.
                get_preparation_data("")
                return _cluster(self._distributed)(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    worker_class=_nanny(self._distributed),
                    dashboard_address=None,
                    # Else its page of figures takes a fixed port, and warns if others have it.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=logging.ERROR,
                )
            except RuntimeError as error:
                raise RuntimeError(
                    "The workers of Dask could not be started. A worker runs the script again that "
                    "starts it, and must not start workers itself: put what the script does under "
                    '`if __name__ == "__main__":`. Other causes are above.'
                ) from error

    def put(self, value: Any) -> Handle:
        packed = Packed.of(value)
        group = f"put-{uuid4().hex}"
        lengths, pieces = [], []
        for buffer in (packed.data, *packed.buffers):
            content = memoryview(buffer).cast("B")
            lengths.append(len(content))
            for first in range(0, len(content), _PIECE):
                # A copy: the caller may change the array before it is sent.
                piece = Packed(bytes(content[first : first + _PIECE]), ())
                pieces.append(self._submit(group, "piece", 0, _same, piece))
        whole = self._submit(f"joined-{group}", "put", 0, _joined, lengths, *pieces)
        return Handle(whole, "put")

    def submit(
        self, work: Callable[..., Any], *arguments: Any, n_parts: int = 1, name: str = ""
    ) -> Any:
        check_parts(n_parts)
        name, depth = name_of(work, name), _depth_of(arguments)
        places = (a.place if isinstance(a, Handle) else Packed.of(a) for a in arguments)
        group = f"{name_of(work, '')}-{depth}-{self._token}"
        outcome = self._submit(group, name, depth, run, work, n_parts, name, *places)
        if n_parts == 1:
            return Handle(outcome, name, depth)
        group = f"part-of-{group}"
        parts = (self._submit(group, name, depth + 1, getitem, outcome, i) for i in range(n_parts))
        return [Handle(part, name, depth) for part in parts]

    def _submit(
        self, group: str, name: str, priority: int, work: Callable[..., Any], *arguments: Any
    ) -> Any:
        # The group shows Dask that tasks are many and alike. It then keeps them until a worker is
        # free, instead of giving all of them at once to workers that may die. The name appears in
        # the message about the task that killed its workers.
        return self._client.submit(
            work,
            *arguments,
            key=(group, name, next(self._numbers)),
            priority=priority,
            retries=self._retries,
            pure=False,
        )

    def completed(self, handles: Iterable[Handle]) -> Iterator[Handle]:
        left = {handle.place.key: handle for handle in handles}
        futures = [handle.place for handle in left.values()]
        for future in self._distributed.as_completed(futures, loop=self._client.loop):
            yield left.pop(future.key)

    def get(self, handle: Handle) -> Any:
        try:
            outcome = handle.place.result()
        except self._distributed.KilledWorker as error:
            # A task of a frame has a key of Dask's.
            key = error.task
            ours = isinstance(key, tuple) and len(key) == _LENGTH_OF_KEY
            name = str(key[1] if ours else key)
            raise WorkerError(
                f"Task {name!r} has no result: {error.allowed_failures + 1} workers died that had "
                f"it. A worker is ended where memory runs out, so use fewer workers on a machine "
                f"or smaller shards; other causes are in the workers' logs.",
                task=name,
            ) from error
        return unpack(outcome)

    def release(self, handles: Handle | Iterable[Handle]) -> None:
        for handle in listed(handles):
            handle.forget()  # Dask counts the futures that there are

    def shards(self, data: Any) -> list[Handle] | None:
        module = sys.modules.get("dask.dataframe")  # whoever has a frame has imported it
        if module is None or not isinstance(data, module.DataFrame):
            return None
        futures = self._client.compute(data.to_delayed())
        return [Handle(one, f"part {i} of the frame") for i, one in enumerate(futures)]

    def close(self) -> None:
        """End the cluster if it was started for this engine; disconnect from it if not."""
        self._close()


def _depth_of(arguments: Iterable[Any]) -> int:
    """Return the depth of a task of these arguments."""
    return 1 + max((a.depth for a in arguments if isinstance(a, Handle)), default=0)


def _imported() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            Advice(
                Setting("engine", "dask"),
                " needs the package distributed, which is not installed. Install it by "
                '`pip install "mercer[dask]"`, or use ',
                Setting("engine", "here"),
                ", which needs none.",
            )
        ) from error
    return distributed


def _nanny(distributed: Any) -> Any:
    """Return the class that starts workers, which gives up those that end while they start.

    Old versions of Dask would start them again and again.
    """
    nanny: Any = distributed.Nanny

    class Nanny(nanny):
        async def _on_worker_exit(self, exitcode: Any) -> None:
            if self.status.name not in ("init", "starting"):
                await super()._on_worker_exit(exitcode)

    return Nanny


def _cluster(distributed: Any) -> Any:
    """Return the class of clusters that keep all that start workers until they are closed.

    After a worker died, Dask checks for some seconds whether another took its place. If that one
    has just died, too, Dask would never start another there, and when no worker is left all tasks
    would wait for ever.
    """
    local: Any = distributed.LocalCluster

    class Cluster(local):
        def _update_worker_status(self, op: Any, msg: Any) -> None:
            super(distributed.SpecCluster, self)._update_worker_status(op, msg)

    return Cluster


def _current(distributed: Any) -> Any:
    try:
        return distributed.Client.current()
    except ValueError:  # there is none
        return None


def _all(ours: list[Callable[[], Any]]) -> None:
    for one in ours:
        one()


def _same(piece: Packed) -> Packed:
    return piece


def _joined(lengths: list[int], *pieces: Packed) -> Packed:
    """Return the packed value whose buffers of these lengths were cut into pieces."""
    content = memoryview(b"".join(piece.data for piece in pieces))
    buffers, end = [], 0
    for length in lengths:
        buffers.append(content[end : end + length])
        end += length
    return Packed(bytes(buffers[0]), buffers[1:])
