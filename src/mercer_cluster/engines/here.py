"""The trivial engine: tasks run in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mercer_cluster.engines.engine import (
    Engine,
    Failure,
    Handle,
    Packed,
    check_parts,
    listed,
    name_of,
    run,
    unpack,
)


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
