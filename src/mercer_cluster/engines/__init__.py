"""Engines: where tasks run, and where their values lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.validation import check_choice, check_integer
from mercer_cluster.engines.dask import DaskEngine
from mercer_cluster.engines.engine import Engine, Handle, HereEngine
from mercer_cluster.engines.ray import RayEngine

__all__ = [
    "DaskEngine",
    "Engine",
    "Handle",
    "HereEngine",
    "RayEngine",
    "engine_of",
    "open_engine",
]

_NAMES = ("here", "ray", "dask")
_NONE = InPython("must be None", ("must be left out",))


def engine_of(
    engine: str | Engine, *, n_workers: int | None = None, address: str | None = None
) -> Engine:
    """Return the engine of a name.

    Parameters
    ----------
    engine : {"here", "ray", "dask"} or Engine
        "here" runs tasks in this process, one after the other, without another package; "ray" and
        "dask" on a cluster. An engine is returned as it is.
    n_workers : int, default=None
        Tasks that run at once, where mercer starts the workers; by default as many as this process
        has cores.
    address : str, default=None
        Address of a running cluster of Ray or Dask. Default: the cluster to which this process is
        connected; if there is none, a cluster is started.

    Returns
    -------
    engine : Engine
        To be closed by the caller, unless it was given: :func:`open_engine` does.

    Raises
    ------
    mercer.exceptions.ParameterError
        For an unknown name, and for settings that the engine does not have.
    ImportError
        If a package is not installed that the engine needs.

    Examples
    --------
    >>> from mercer_cluster.engines import engine_of
    >>> with engine_of("here") as engine:
    ...     engine.get(engine.submit(sum, [1, 2, 3]))
    6
    """
    if isinstance(engine, Engine):
        for name, value in (("n_workers", n_workers), ("address", address)):
            if value is not None:
                raise ParameterError(
                    f"`{name}` must be None where `engine` is an engine, got {value!r}.",
                    parameter=name,
                    value=value,
                    why="The engine has its workers already.",
                    mend=f"Leave out `{name}`, or name the engine by {engine.name!r}.",
                )
        return engine
    check_choice("engine", engine, _NAMES)
    if n_workers is not None:
        check_integer("n_workers", n_workers, low=1)
    if address is not None and engine == "here":
        raise ParameterError(
            Advice("`address` ", _NONE, " for ", Setting("engine", engine), f", got {address!r}."),
            parameter="address",
            value=address,
            why="This engine runs on this machine and connects to no cluster.",
            mend=Advice(
                "Leave it out, or use ",
                Setting("engine", "ray"),
                " or ",
                Setting("engine", "dask"),
                ".",
            ),
        )
    if engine == "ray":
        return RayEngine(n_workers, address=address)
    if engine == "dask":
        return DaskEngine(n_workers, address=address)
    if n_workers not in (None, 1):
        raise ParameterError(
            Advice(
                "`n_workers` must be 1",
                InPython(" or None"),
                " for ",
                Setting("engine", engine),
                f", got {n_workers!r}.",
            ),
            parameter="n_workers",
            value=n_workers,
            why="It runs tasks in this process, one after the other.",
            mend=Advice("Use ", Setting("engine", "ray"), " or ", Setting("engine", "dask"), "."),
        )
    return HereEngine()


@contextmanager
def open_engine(
    engine: str | Engine, *, n_workers: int | None = None, address: str | None = None
) -> Iterator[Engine]:
    """Context of an engine, which is closed at the end if it was made for it.

    Parameters
    ----------
    engine, n_workers, address
        As for :func:`engine_of`. An engine that is given stays open for whoever made it.

    Yields
    ------
    engine : Engine
        The engine.

    Raises
    ------
    mercer.exceptions.ParameterError, ImportError
        As :func:`engine_of`.

    Examples
    --------
    >>> from mercer_cluster.engines import HereEngine, open_engine
    >>> mine = HereEngine()
    >>> with open_engine(mine) as engine:
    ...     engine is mine
    True
    """
    made = engine_of(engine, n_workers=n_workers, address=address)
    with nullcontext(made) if made is engine else made:
        yield made
