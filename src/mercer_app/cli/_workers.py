"""Workers of an engine: what its options say, and what they do to each shard of the data."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mercer.estimators import TableModel
from mercer.exceptions import ParameterError
from mercer.validation import check_integer
from mercer_app.cli._choices import EngineName
from mercer_app.cli._files import (
    Encoded,
    Oddities,
    column_types,
    columns_of,
    encoded_in_place,
    refuse_text,
)
from mercer_app.cli._stages import StageView
from mercer_app.files.tables import in_place, looked_through
from mercer_cluster.predicting import Answer, over_shards
from mercer_cluster.shards import FileShard

ONE_THREAD = "Each worker has one thread; --workers says how many there are."


class EngineOptions(Protocol):
    """Options of commands that an engine may do."""

    @property
    def engine(self) -> EngineName | None: ...

    @property
    def workers(self) -> int | None: ...

    @property
    def address(self) -> str | None: ...

    @property
    def log(self) -> Path | None: ...


class Workers(NamedTuple):
    """Who works.

    Attributes
    ----------
    engine, n_workers, address
        See :func:`mercer_cluster.fit`.
    """

    engine: str
    n_workers: int | None
    address: str | None

    def __str__(self) -> str:
        n = "" if self.n_workers is None else f", {self.n_workers} workers"
        return f"{self.engine}{n}{'' if self.address is None else f', {self.address}'}"


class Asked(NamedTuple):
    """What workers are sent once.

    Attributes
    ----------
    model : TableModel
        Who answers.
    target : str or None
        Column of the targets, if these are wanted.
    more : tuple
        What else the answer needs.
    coverage : float or None
        Of intervals, if these are wanted.
    strict : bool
        Whether cells that cannot be what their columns are are refused.
    """

    model: TableModel
    target: str | None
    more: tuple[Any, ...] = ()
    coverage: float | None = None
    strict: bool = False


def workers_of(options: EngineOptions) -> Workers | None:
    """Return who works; None for this process, as without an engine.

    Raises
    ------
    ParameterError
        If options of an engine are given without one.
    """
    given = {"workers": options.workers, "address": options.address, "log": options.log}
    if options.engine is None:
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    f"`--{name} {value}` is about the workers of an engine, but none is chosen.",
                    parameter=name,
                    value=value,
                    mend="Add --engine ray or dask, or leave it out.",
                )
        return None
    if options.workers is not None:
        check_integer("n_workers", options.workers, low=1)
    return Workers(options.engine.value, options.workers, options.address)


def check_alone(options: EngineOptions, why: dict[str, str]) -> None:
    """Refuse options that do not go together with an engine.

    Parameters
    ----------
    options : record of options
        Of a command; nothing is refused without an engine.
    why : dict of str to str
        Names of options that must be as they are by default, and a sentence why.
    """
    if options.engine is None:
        return
    for name, reason in why.items():
        value = getattr(options, name)
        if value != type(options).__dataclass_fields__[name].default:  # type: ignore[attr-defined]
            option = f"--{name.replace('_', '-')}"
            shown = option if value is True else f"{option} {value}"
            raise ParameterError(
                f"`{shown}` does not go together with `--engine {options.engine}`.",
                parameter=name,
                value=value,
                why=reason,
                mend="Leave one of them out.",
            )


@contextmanager
def logged(file: Path | None) -> Iterator[None]:
    """Write what the workers of an engine did to a file meanwhile, a line for each task."""
    if file is None:
        yield
        return
    logger = logging.getLogger("mercer_cluster")
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        logger.error("%s", error)
        raise
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()


def of_shards(
    answer: Answer,
    asked: Asked,
    data: str | os.PathLike[str],
    workers: Workers,
    *,
    stage: str,
    more: Sequence[str] = (),
) -> Iterator[tuple[int, Any]]:
    """Let workers do something with each shard of the files; yield its number and the answer.

    Parameters
    ----------
    answer : callable
        Given what is asked, a :class:`mercer_cluster.shards.FileShard`, and its number.
    asked : Asked
        The model, with what else is needed.
    data : path
        The files.
    workers : Workers
        Who does it.
    stage : str
        For progress.
    more : sequence of str, default=()
        Columns besides those of the model and the target.
    """
    model = asked.model
    refuse_text(model, data)
    columns = columns_of(model, asked.target, more)
    with StageView() as view:
        yield from over_shards(
            answer,
            asked,
            data,
            stage=stage,
            callback=view.update,
            wanted=columns.__contains__,
            types=column_types(model, data),
            **workers._asdict(),
        )


def encoded_shard(asked: Asked, shard: FileShard, odd: Oddities) -> Iterator[Encoded]:
    """Yield tables of a shard with encoded inputs and, with a target, targets."""
    file, first, unreadable = shard.part.file, shard.part.first, odd.unreadable
    tables = looked_through(file, shard(unreadable), asked.model.preprocessor, unreadable, first)
    read = partial(in_place, file, tables, start=first)
    return encoded_in_place(read, asked.model, asked.target, odd)
