"""The engine of Ray: tasks of Ray Core, and the parts of a Ray Dataset."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import finalize

from mercer.exceptions import Advice, InPython, ParameterError, Setting, WorkerError
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
    python_path,
    run,
    signals_kept,
    unpack,
)


class RayEngine(Engine):
    """Runs tasks on a Ray cluster.

    They are tasks of Ray Core, without actors: Ray runs those again whose workers died, and makes
    values again that were lost with a machine, by the tasks that made them. What :meth:`put` makes
    known belongs to this process; Ray sends it to each machine once.

    Values lie in Ray's object store, the size of which is bounded (30 % of a machine's memory,
    unless it was started with another), and what does not fit is spilled to disk. So are the parts
    of a dataset, which :meth:`shards` has Ray make all at once.

    On other machines mercer must be installed, in the same version.

    Parameters
    ----------
    n_workers : int, default=None
        Cores of a cluster that is started on this machine; by default those that this process may
        use. A cluster that runs already has its own number.
    address : str, default=None
        Address of a running cluster, as for ``ray.init``: "auto" for the cluster on this machine.
        Default: the cluster to which this process is connected, or that of the environment variable
        ``RAY_ADDRESS``; if there is none, or for "local", a cluster is started, which ends when the
        engine is closed. Other users' clusters on this machine are not used.
    retries : int, default=4
        How often a task is run again whose worker died.
    object_store_memory : int, default=None
        Bytes of the object store of a cluster that is started.

    Raises
    ------
    ImportError
        If Ray is not installed.
    mercer.exceptions.ParameterError
        If this process is connected to another cluster already.
    """

    name = "ray"

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        address: str | None = None,
        retries: int = RETRIES,
        object_store_memory: int | None = None,
    ) -> None:
        check_integer("retries", retries, low=0)
        n_workers = cores(n_workers)
        self._ray = _imported()
        self._close: Callable[[], Any] | None = None
        if self._ray.is_initialized():
            self._check_address(address)
        elif not self._connected(address):
            with _python_path():
                self._connect(
                    address="local",
                    num_cpus=n_workers,
                    object_store_memory=object_store_memory,
                    include_dashboard=False,
                )
        self.n_workers = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        # Exceptions of a task are packed by `run`, so what is left to retry are deaths.
        self._options = {"num_cpus": 1, "max_retries": retries, "retry_exceptions": False}
        self._run = self._ray.remote(run)

    def _connected(self, address: str | None) -> bool:
        """Connect to the cluster that is named, if one is."""
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        if address == "local":
            return False
        self._connect(address=address)
        return True

    def _connect(self, **options: Any) -> None:
        """Start Ray or connect to it; this process's settings are restored when it ends."""
        with signals_kept(), environment_changes() as take_back:
            self._ray.init(**options, **_QUIET)
        self._close = finalize(self, _shut_down, self._ray, take_back)

    def _check_address(self, address: str | None) -> None:
        ours = self._ray.get_runtime_context().gcs_address
        if address not in (None, "auto", ours):
            raise ParameterError(
                f"`address` must be that of the cluster to which this process is connected, "
                f"{ours!r}, got {address!r}.",
                parameter="address",
                value=address,
                why="Ray allows one connection per process.",
                mend=Advice("Leave it out", InPython(", or call `ray.shutdown()` first"), "."),
            )

    def put(self, value: Any) -> Handle:
        return Handle(self._ray.put(Packed.of(value)), "put")

    def submit(
        self, work: Callable[..., Any], *arguments: Any, n_parts: int = 1, name: str = ""
    ) -> Any:
        check_parts(n_parts)
        name = name_of(work, name)
        places = (a.place if isinstance(a, Handle) else Packed.of(a) for a in arguments)
        task = self._run.options(num_returns=n_parts, name=name, **self._options)
        references = task.remote(work, n_parts, name, *places)
        if n_parts > 1:
            return [Handle(reference, name) for reference in references]
        return Handle(references, name)

    def completed(self, handles: Iterable[Handle]) -> Iterator[Handle]:
        left = {handle.place: handle for handle in handles}
        while left:
            # Without fetching: values need not come to this machine.
            done, _ = self._ray.wait(list(left), num_returns=1, fetch_local=False)
            for reference in done:
                yield left.pop(reference)

    def get(self, handle: Handle) -> Any:
        try:
            outcome = self._ray.get(handle.place)
        except self._ray.exceptions.RayError as error:
            raise self._no_result(handle.name, error) from error
        return unpack(outcome)

    def _no_result(self, name: str, error: Exception) -> WorkerError:
        if isinstance(error, self._ray.exceptions.RayTaskError):
            how = "it could not be run, or a task whose value it needs could not."
        else:
            how = "its workers died whenever they ran it, or its value was lost."
        return WorkerError(
            f"Task {name!r} has no result: {how} Ray says: {_shortened(error)} A worker is killed "
            f"where memory runs out, so use smaller shards; other causes are in Ray's logs.",
            task=name,
        )

    def release(self, handles: Handle | Iterable[Handle]) -> None:
        for handle in listed(handles):
            handle.forget()

    def shards(self, data: Any) -> list[Handle] | None:
        module = sys.modules.get("ray.data")  # whoever has a dataset has imported it
        if module is None or not isinstance(data, module.Dataset):
            return None
        with _in_order(data.context):
            references = data.to_arrow_refs()
        return [Handle(one, f"part {i} of the dataset") for i, one in enumerate(references)]

    def close(self) -> None:
        """End the cluster if it was started for this engine; disconnect from it if not."""
        if self._close is not None:
            self._close()


_LONG = 500
# What workers print stays in their logs: an exception of a task comes back with its traceback.
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def _shut_down(ray: Any, take_back: Callable[[], None]) -> None:
    """End a cluster that was started here, or disconnect from another's."""
    with signals_kept():
        ray.shutdown()
    take_back()


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ImportError(
            Advice(
                Setting("engine", "ray"),
                " needs the package ray, which is not installed. Install it by "
                '`pip install "mercer[ray]"`, or use ',
                Setting("engine", "here"),
                ", which needs none.",
            )
        ) from error
    return ray


@contextmanager
def _python_path() -> Iterator[None]:
    """Have the workers of a cluster that is started find the modules that this process finds.

    Ray itself passes on the folders of the script and the current one only.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = python_path()
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def _in_order(context: Any) -> Iterator[None]:
    """Make Ray Data keep the order of rows, and print nothing."""
    options = context.execution_options
    wanted = (
        (options, "preserve_order", True),
        (context, "enable_progress_bars", False),
        (context, "print_on_execution_start", False),
    )
    before = [(where, name, getattr(where, name)) for where, name, _ in wanted]
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.ERROR)
    for where, name, value in wanted:
        setattr(where, name, value)
    try:
        yield
    finally:
        logger.setLevel(level)
        for where, name, value in before:
            setattr(where, name, value)


def _shortened(error: Exception) -> str:
    text = " ".join(re.sub("\x1b\\[\\d*m", "", str(error)).split())  # colours of a terminal
    return text if len(text) < _LONG else f"{text[:_LONG]} ..."
