"""What workers of an engine do to each shard of the data, with a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from mercer_app.files.tables import in_place, looked_through
from mercer_app.models.files import (
    Encoded,
    Oddities,
    column_types,
    columns_of,
    encoded_in_place,
    refuse_text,
)
from mercer_app.rows import TableRows
from mercer_cluster.engines.engine import Callback
from mercer_cluster.predicting import Answer, over_shards
from mercer_cluster.shards import FileShard


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
    reads : TableRows
        Who answers.
    target : str or None
        Column of the targets, if these are wanted.
    more : tuple
        Further arguments.
    coverage : float or None
        Coverage of the intervals, if these are wanted.
    strict : bool
        Whether cells that cannot be what their columns are are refused.
    """

    reads: TableRows
    target: str | None
    more: tuple[Any, ...] = ()
    coverage: float | None = None
    strict: bool = False


def of_shards(
    answer: Answer,
    asked: Asked,
    data: str | os.PathLike[str],
    workers: Workers,
    *,
    stage: str,
    more: Sequence[str] = (),
    callback: Callback = None,
) -> Iterator[tuple[int, Any]]:
    """Let workers do something with each shard of the files; yield its number and the answer.

    Parameters
    ----------
    answer : callable
        Given what is asked, a :class:`mercer_cluster.shards.FileShard`, and its number.
    asked : Asked
        The model and the question.
    data : path
        The files.
    workers : Workers
        Who does it.
    stage : str
        For progress.
    more : sequence of str, default=()
        Columns in addition to those of the model and the target.
    callback : callable, default=None
        Told a :class:`mercer_cluster.Progress` whenever a shard is done.
    """
    reads = asked.reads
    refuse_text(reads, data)
    columns = columns_of(reads, asked.target, more)
    yield from over_shards(
        answer,
        asked,
        data,
        stage=stage,
        callback=callback,
        wanted=columns.__contains__,
        types=column_types(reads, data),
        **workers._asdict(),
    )


def encoded_shard(asked: Asked, shard: FileShard, odd: Oddities) -> Iterator[Encoded]:
    """Yield tables of a shard with encoded inputs and, with a target, targets."""
    file, first, unreadable = shard.part.file, shard.part.first, odd.unreadable
    tables = looked_through(file, shard(unreadable), asked.reads.preprocessor, unreadable, first)
    read = partial(in_place, file, tables, start=first)
    return encoded_in_place(read, asked.reads, asked.target, odd)
