"""Learning in several places: shards are looked at, learned and solved by workers of an engine.

They are shards of arrays and frames (:func:`fit`) or files for a model of tables
(:class:`ShardTraining`).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone

from mercer.columns import TablePreprocessor
from mercer.estimators import KernelClassifier
from mercer.exceptions import ParameterError, ShardError
from mercer.learning import Ask
from mercer.losses import Loss
from mercer.sums import rows_at_once
from mercer.threads import jobs
from mercer_app.files.places import check_place
from mercer_app.rows import TASKS, TableRows
from mercer_app.training.tables import TableTraining
from mercer_cluster.engines import Engine, Handle, open_engine
from mercer_cluster.engines.engine import Callback, Progress, cores, tell, watched
from mercer_cluster.models import check_learnable, unfitted
from mercer_cluster.plan import Piece, Plan, Region, Sums, Work, seed_of
from mercer_cluster.settings import DEFAULT, Settings
from mercer_cluster.shards import (
    ArrayReader,
    Block,
    FileShard,
    Reader,
    Shard,
    Survey,
    TableReader,
    naming,
    shards_of,
)

# Rows, and bytes of float64, of which one worker had better not hold more at once.
_LARGE_ROWS, _LARGE_BYTES = 5_000_000, 2**31
# Shards whose rows of a step are asked by one task.
_SHARDS_OF_A_TASK = 4


def fit(
    estimator: Any,
    shards: Any,
    *,
    target: str | None = None,
    columns: TablePreprocessor | None = None,
    engine: str | Engine = "here",
    n_workers: int | None = None,
    address: str | None = None,
    callback: Callback = None,
    settings: Settings = DEFAULT,
    strict: bool = False,
) -> Any:
    """Fit an estimator to shards of data, on workers of an engine.

    The model has the same bits for every engine and number of workers, whatever fails and is done
    again: all that a worker does is a pure function of a shard, or of the rows of a region.

    Parameters
    ----------
    estimator : KernelClassifier, KernelRegressor or GaussianProcessRegressor
        Estimator with its parameters; not changed.
    shards : path or sequence
        A folder, a glob or a file; or a sequence of paths, arrays (X, y) or (X, y, sample_weight),
        tables, and functions that return one of these or an iterator of them; or a dataset of the
        engine: a Ray Dataset, a Dask DataFrame. Large Parquet files are cut into parts of 524,288
        rows, or of one row group if it has more. Nothing else is cut: a worker holds all rows of a
        shard, as float64.
    target : str, default=None
        Column to predict, where shards are tables.
    columns : TablePreprocessor, default=None
        How columns of any kind become inputs: text, categories, dates, gaps. None: all columns but
        the target are numbers without gaps.
    engine : {"here", "ray", "dask"} or Engine, default="here"
        Who works: this process alone, Ray or Dask. The first holds in memory what the others put on
        disks when it grows large: rows of regions.
    n_workers : int, default=None
        Number of workers to start; None for one per core, or for the workers of the cluster.
    address : str, default=None
        Address of a running cluster.
    callback : callable, default=None
        Told a :class:`Progress` whenever a task is done.
    settings : Settings
        Sizes of the sample and of regions.
    strict : bool, default=False
        Whether a cell of a CSV file that cannot be what its column is is an error. Otherwise such
        cells are gaps, and a warning counts them.

    Returns
    -------
    estimator : estimator
        Fitted estimator of the same kind. If the sample (65,536 rows, fewer if they are wide)
        contains all rows, it equals the result of ``fit``. Otherwise it predicts by the default
        expansion, and learns further rows only by a new fit.

    Raises
    ------
    ShardError
        If a shard cannot be read or does not fit the others; the message names the shard.
    ValueError
        If `target` does not fit the shards, the estimator cannot learn in several places, or no row
        can be learned.
    ImportError
        If the engine is not installed.

    Warns
    -----
    UserWarning
        If a shard has more than 5,000,000 rows, or more than 2 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer_cluster import fit
    >>> def shard(seed):
    ...     X = np.random.default_rng(seed).normal(size=(100, 2))
    ...     return X, np.sin(X[:, 0])
    >>> model = fit(KernelRegressor(), [shard(seed) for seed in range(5)], engine="here")
    >>> model.score(*shard(5)) > 0.9
    True
    """
    check_learnable(estimator)
    if columns is not None and target is None:
        raise ParameterError(
            "`target` must name the column to predict, where `columns` says how the others become "
            "inputs.",
            parameter="target",
            value=target,
            mend="Name it.",
        )
    with open_engine(engine, n_workers=n_workers, address=address) as workers:
        kinds = {} if columns is None else columns.kinds or {}
        found = shards_of(shards, workers.shards(shards), kinds=kinds, strict=strict)
        if target is not None and any(_is_arrays(shard.data) for shard in found):
            raise ParameterError(
                f"`target` must be None for shards that are arrays, got {target!r}.",
                parameter="target",
                value=target,
                why="It names a column of tables; arrays (X, y) have their targets in y.",
                mend="Leave it out.",
            )
        with closing(_Run(workers, found, callback, settings)) as run:
            if columns is not None:
                return _fit_tables(run, estimator, columns, str(target))
            reader = ArrayReader(target)
            survey = run.survey(reader, seed_of(estimator), isinstance(estimator, KernelClassifier))
            model = run.fit(estimator, reader, survey)
            if isinstance(survey.columns, tuple):
                model.feature_names_in_ = np.array(survey.columns, dtype=object)
            return model


def _warn_of_large(survey: Survey, names: Sequence[str]) -> None:
    """Warn once if shards are larger than a worker should hold."""
    width = 8 * max(survey.n_inputs, 1)
    most = min(_LARGE_ROWS, _LARGE_BYTES // width)
    large = [number for number, n_rows in survey.n_rows.items() if n_rows > most]
    if not large:
        return
    largest = max(large, key=lambda number: survey.n_rows[number])
    n_rows = survey.n_rows[largest]
    others = f", and {len(large) - 1} more are large" if len(large) > 1 else ""
    warnings.warn(
        f"{names[largest]} has {n_rows:,} rows, {n_rows * width / 2**30:.1f} GiB as float64"
        f"{others}: one worker holds all rows of a shard, and others wait for it. Cut it into "
        f"shards of at most {most:,} rows: several files, Parquet with smaller row groups, or more "
        "partitions.",
        stacklevel=4,
    )


def _fit_tables(run: _Run, estimator: Any, columns: TablePreprocessor, target: str) -> Any:
    """Fit an estimator to tables with columns of any kind."""
    exclude = (*columns.exclude, *({target} - {*columns.exclude}))
    given = {**columns.get_params(deep=False), "warmup_rows": None, "exclude": exclude}
    reads = TableRows(clone(estimator), TablePreprocessor(**given), target)
    reader = run.looked(TableReader(reads))
    classes = isinstance(estimator, KernelClassifier)
    survey = run.survey(reader, seed_of(estimator), classes)
    assert isinstance(survey.columns, TablePreprocessor)
    reads.measured(survey.columns)
    known = {name: one.strays for name, one in reads.preprocessor.readings_.items()}
    for text in survey.unreadable.said(known):
        warnings.warn(text, stacklevel=3)
    reads.estimator = run.fit(reads.estimator, reader, survey)
    return reads.model


class _Run:
    """Shards and workers of one fit, and what it has laid down with them."""

    def __init__(
        self, workers: Engine, shards: Sequence[Shard], callback: Callback, settings: Settings
    ) -> None:
        self.workers, self.callback, self.settings = workers, callback, settings
        self._handles: dict[int, Handle] = {}
        self.names = [shard.name for shard in shards]
        # What is read twice is sent once.
        self._data = [
            shard.data
            if callable(shard.data) or isinstance(shard.data, Handle)
            else self.put(shard.data)
            for shard in shards
        ]

    def put(self, value: Any) -> Handle:
        """Make a value known to all tasks."""
        return self._kept([self.workers.put(value)])[0]

    def submit(self, *task: Any, n_parts: int = 1, name: str) -> list[Handle]:
        """Have a task run; the handles of its values."""
        made = self.workers.submit(*task, n_parts=n_parts, name=name)
        return self._kept(made if isinstance(made, list) else [made])

    def _kept(self, handles: list[Handle]) -> list[Handle]:
        self._handles.update((id(handle), handle) for handle in handles)
        return handles

    def release(self, handles: Sequence[Handle]) -> None:
        """Say that values are not needed any longer."""
        self.workers.release(handles)
        for handle in handles:
            self._handles.pop(id(handle), None)

    def close(self) -> None:
        """Release all that is left, whatever happened."""
        self.release(list(self._handles.values()))

    def looked(self, reader: TableReader) -> TableReader:
        """Find out in the first rows what the columns are, so that all shards read them alike."""
        for name, data in zip(self.names, self._data, strict=True):
            (handle,) = self.submit(_first_look, reader, data, name, name=name)
            found = self.workers.get(handle)
            self.release([handle])
            if found is not None:
                reader.reads.looked(*found)
                break
        return reader

    def survey(
        self, reader: Reader, seed: int, classes: bool, *, by_content: bool = True
    ) -> Survey:
        """Look at all shards; once more, if many rows are equal and would be drawn together."""
        reads = self.put(reader)
        looks = [
            self.submit(
                _look,
                reads,
                data,
                number,
                name,
                seed,
                classes,
                self.settings,
                by_content,
                n_parts=2,
                name=name,
            )
            for number, (name, data) in enumerate(zip(self.names, self._data, strict=True))
        ]
        self._count("survey", [count for _, count in looks])
        handle = self._merged(_merge_surveys, [look for look, _ in looks])
        survey: Survey = self.workers.get(handle)
        self.release([handle, reads])
        if not survey.n_used:
            why = "has a row" if not any(survey.n_rows.values()) else "has a weight above 0"
            raise ValueError(f"None of {len(looks)} shards {why}: nothing can be learned.")
        if by_content and len(survey.keys) < survey.n_used and not survey.is_varied:
            return self.survey(reader, seed, classes, by_content=False)
        _warn_of_large(survey, self.names)
        return survey

    def fit(self, estimator: Any, reader: Reader, survey: Survey) -> Any:
        """Fit an estimator to all rows."""
        if len(survey.keys) == survey.n_used:
            rows = reader.rows(survey.in_order())
            with self._planning(survey.n_used):
                return unfitted(estimator).fit(rows.X, rows.y, sample_weight=rows.weights)
        plan = self._planned(estimator, reader, survey)
        work, reads = self.put(plan.work), self.put(reader)
        learned = [
            self.submit(
                _learn,
                work,
                reads,
                data,
                number,
                name,
                survey.n_rows[number],
                n_parts=plan.work.n_blocks + 2,
                name=name,
            )
            for number, (name, data) in enumerate(zip(self.names, self._data, strict=True))
        ]
        self._count("learn", [parts.pop() for parts in learned])
        sums = self.workers.get(self._merged(_merge_sums, [parts.pop() for parts in learned]))
        if sums.total != survey.n_used:
            raise RuntimeError(
                f"{sums.total:,} rows were learned of {survey.n_used:,}: this is a mistake of "
                "mercer. Please tell its makers."
            )

        def solve(pairs: Sequence[tuple[int, int]]) -> list[Region]:
            names = [f"region {number}" for number, _ in pairs]
            tasks = [
                self.submit(_solve, work, *pair, *(parts[pair[0]] for parts in learned), name=name)[
                    0
                ]
                for pair, name in zip(pairs, names, strict=True)
            ]
            found: dict[int, Region] = {}
            for n in watched(self.workers, "solve", tasks, names, lambda _: 0, self.callback):
                found[n] = self.workers.get(tasks[n])
                self.release([tasks[n]])
            return [found[n] for n in range(len(tasks))]

        regions = plan.work.regions.solved(solve)
        gather = _Steps(self, work, learned) if plan.work.n_steps else None
        return plan.finish(sums, regions, gather)

    def _planned(self, estimator: Any, reader: Reader, survey: Survey) -> Plan:
        """Make the plan, from as many rows of the sample as are not too wide once encoded."""
        n_held = survey.n_below(self.settings.held_of(survey.n_used))
        held = reader.rows(survey.drawn(0, n_held))
        n = max(n_held + 1, self.settings.sample_of(held.X.shape[1]))
        sample = reader.rows(survey.drawn(n_held, min(n, len(survey.keys))))
        with self._planning(len(sample)):
            return Plan.of(
                estimator,
                _arrays(sample),
                _arrays(held),
                survey.n_used,
                class_counts=survey.class_counts,
                least_key=int(np.sort(survey.keys)[n_held]),
                by_content=survey.by_content,
                settings=self.settings,
            )

    def _merged(self, merge: Callable[[Any, Any], Any], handles: Sequence[Handle]) -> Handle:
        """Merge values in a tree over their order, the same for any number of workers."""
        level = list(handles)
        while len(level) > 1:
            pairs = [
                self.submit(merge, level[i], level[i + 1], name="merging")[0]
                for i in range(0, len(level) - 1, 2)
            ]
            self.release(level[: 2 * len(pairs)])
            level = pairs + level[2 * len(pairs) :]
        return level[0]

    def _count(self, stage: str, counts: Sequence[Handle]) -> None:
        """Wait for one task per shard, which returns its rows; raise the first exception."""

        def rows(number: int) -> int:
            return int(self.workers.get(counts[number]))

        for _ in watched(self.workers, stage, counts, self.names, rows, self.callback):
            pass
        self.release(counts)

    @contextmanager
    def _planning(self, n_rows: int) -> Iterator[None]:
        """Context of what is done here, with a sample or with all rows if these are few.

        Workers are idle meanwhile, so threads replace them, up to the number of cores here.
        """
        start, n_workers = time.perf_counter(), self.workers.n_workers
        tell(self.callback, Progress("plan", 0, 1, "sample", n_rows, n_workers, 0.0))
        with jobs(min(n_workers, cores(None))):
            yield
        seconds = time.perf_counter() - start
        tell(self.callback, Progress("plan", 1, 1, "sample", n_rows, n_workers, seconds))


class _Steps:
    """Sums over the rows of steps in all shards, some of these in each task."""

    def __init__(self, run: _Run, work: Handle, learned: Sequence[Sequence[Handle]]) -> None:
        self.run, self.work, self.learned = run, work, learned
        self._asked: list[tuple[Ask, Handle]] = []  # sent once each

    def __call__(self, step: int, ask: Ask, of: Any) -> list[list[Any]]:
        sent = next((handle for old, handle in self._asked if old is ask), None)
        if sent is None:
            sent = self.run.put(ask)
            self._asked.append((ask, sent))
        point = self.run.put(of)
        tasks = [
            self.run.submit(
                _total,
                self.work,
                step,
                sent,
                point,
                *(parts[step] for parts in self.learned[at : at + _SHARDS_OF_A_TASK]),
                name=f"step {step}",
            )[0]
            for at in range(0, len(self.learned), _SHARDS_OF_A_TASK)
        ]
        found = [self.run.workers.get(task) for task in tasks]
        self.run.release([*tasks, point])
        return found


def _is_arrays(data: Any) -> bool:
    return isinstance(data, tuple) and not isinstance(data, FileShard)


def _arrays(block: Block) -> tuple[Any, ...]:
    return block.X, block.y, block.weights


# -- tasks: pure functions of their arguments ------------------------------------------------------


def _first_look(
    reader: TableReader, data: Any, name: str
) -> tuple[dict[str, Any], dict[str, str], Any] | None:
    """Return what the columns and the target are in the first rows of a shard, if it has any."""
    with naming(name):
        for block in reader.blocks(data):
            if len(block):
                return reader.reads.look(block.X).seen()
    return None


def _look(
    reader: Reader,
    data: Any,
    shard: int,
    name: str,
    seed: int,
    classes: bool,
    settings: Settings,
    by_content: bool,
) -> tuple[Survey, int]:
    found = Survey.of(
        reader,
        data,
        shard,
        name,
        seed=seed,
        classes=classes,
        settings=settings,
        by_content=by_content,
    )
    return found, sum(found.n_rows.values())


def _merge_surveys(one: Survey, other: Survey) -> Survey:
    return one.merge(other)


def _learn(
    work: Work, reader: Reader, data: Any, shard: int, name: str, n_rows: int
) -> tuple[Piece | Sums | int, ...]:
    """Add up a shard: rows of each block, what is left, and how many rows these were."""
    total, first = work.no_sums(), 0
    with naming(name):
        for block in _cut(reader, data):
            rows = reader.rows(block)
            keys = block.keys(work.drawn.seed, shard, first, by_content=work.drawn.by_content)
            sums = work.add(rows.X, rows.y, rows.weights, shard=shard, first=first, keys=keys)
            first += len(block)
            total = total.merge(sums)
        if first != n_rows:
            raise ShardError(
                f"{name} had {n_rows:,} rows when it was looked at, and {first:,} when it was "
                "learned. Shards must not change meanwhile, and functions must return the same "
                "rows each time.",
                name,
            )
    return (*total.split(), first)


def _cut(reader: Reader, data: Any) -> Iterator[Block]:
    """Blocks of a shard, cut so that they are not too large once they are encoded."""
    for block in reader.blocks(data):
        n = len(block)
        step = rows_at_once(reader.width(block))
        for start in range(0, n, step):
            yield block if n <= step else block.take(np.arange(start, min(start + step, n)))


def _solve(work: Work, number: int, rows_per_cell: int, *pieces: Piece) -> Region:
    return work.solve(number, rows_per_cell, pieces)


def _total(work: Work, step: int, ask: Ask, of: Any, *pieces: Piece) -> list[Any]:
    return work.total(step, pieces, ask, of)


def _merge_sums(one: Sums, other: Sums) -> Sums:
    return one.merge(other)


# -- files of tables -------------------------------------------------------------------------------


_LEARNABLE = ("classification", "regression", "gp")


class ShardTraining(TableTraining):
    r"""Train an estimator on files, each read by some worker.

    What :class:`mercer_app.training.FileTraining` is for one process: call :meth:`start`, then
    :meth:`run`. Categories are measured on all rows, and so are scales where a kernel is given.

    Parameters
    ----------
    data : path
        A file, a folder, a glob or an address (:func:`mercer_app.files.read_tables`), where all
        workers find it. Large Parquet files are cut into parts.
    target : str
        Column to predict.
    task : {"auto", "classification", "regression", "gp"}, default="auto"
        As for ``FileTraining``; other tasks are not learned in several places.
    loss, options, exclude, scaling, seed, categories, columns, strict
        As for ``FileTraining``.
    engine, n_workers, address
        Who works: see :func:`mercer_cluster.fit`.
    settings : Settings
        Sizes of the sample and of regions.

    Attributes
    ----------
    model_ : KernelClassifier, KernelRegressor or GaussianProcessRegressor
        The model. Before :meth:`run` it has learned no rows, but knows the columns of the first
        rows.
    task : str
        Once started, no longer "auto".
    first_classes_ : list
        Labels among the first rows; none but of a classification that was started.
    n_rows_ : int
        Rows learned so far.

    Raises
    ------
    ValueError
        For wrong parameters, and for tasks and expansions that cannot be learned in several places.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "abc":
    ...     file = pathlib.Path(folder.name) / f"{name}.csv"
    ...     _ = file.write_text("x,y\n" + "".join(f"{i % 9},{i % 9 > 4}\n" for i in range(200)))
    >>> training = ShardTraining(folder.name, "y", engine="here").start()
    >>> training.run(pathlib.Path(folder.name) / "model.mercer")
    >>> training.model_.predict({"x": [0.0, 8.0]}).tolist()
    [False, True]
    >>> folder.cleanup()
    """

    def __init__(  # noqa: PLR0913  # all that can be chosen
        self,
        data: str | os.PathLike[str],
        target: str | None,
        *,
        task: Literal["auto", "classification", "regression", "gp"] = "auto",
        loss: str | Loss | None = None,
        options: Mapping[str, Any] | None = None,
        exclude: Sequence[str] = (),
        scaling: Literal["auto", "standardize", "common", "none"] = "auto",
        seed: int = 0,
        categories: int = 128,
        columns: Mapping[str, Any] | None = None,
        engine: str | Engine = "here",
        n_workers: int | None = None,
        address: str | None = None,
        settings: Settings = DEFAULT,
        strict: bool = False,
        null_values: Any = None,
    ) -> None:
        super().__init__(
            data,
            target,
            task=task,
            group=None,
            loss=loss,
            options=options,
            exclude=exclude,
            scaling=scaling,
            seed=seed,
            categories=categories,
            columns=columns,
            strict=strict,
            null_values=null_values,
        )
        if self.task not in ("auto", *_LEARNABLE):
            raise ParameterError(
                f"`task` must be one of {', '.join(map(repr, _LEARNABLE))} with an engine, got "
                f"{task!r}.",
                parameter="task",
                value=task,
                why=f"Rows of {TASKS[task].words} cannot be learned in several places.",
                mend="Leave `engine` out, and all rows are learned in one process.",
            )
        self.engine, self.n_workers, self.address = engine, n_workers, address
        self.settings = settings

    def start(self) -> Self:
        """Inspect the first rows and create a model that has learned no rows.

        Returns
        -------
        self

        Raises
        ------
        ImportError, FileNotFoundError, ValueError
            See :meth:`mercer_app.training.FileTraining.start`.
        """
        self._begin()
        return self

    def _estimator(self) -> Any:
        estimator = super()._estimator()
        check_learnable(estimator)
        return estimator

    def run(self, out: str | os.PathLike[str], *, callback: Callback = None) -> None:
        """Let workers learn all rows, and write the model file.

        Parameters
        ----------
        out : path
            Model file to write at the end.
        callback : callable, default=None
            Told a :class:`mercer_cluster.Progress` whenever a task is done.

        Raises
        ------
        mercer.exceptions.ShardError
            If a shard cannot be read or does not fit the others.
        ValueError
            For data that cannot be learned, such as classes of which there is only one.
        ImportError
            If the engine is not installed.
        OSError
            If the file cannot be written; found before anything is learned.
        """
        place = Path(out)
        if place.is_dir():
            raise IsADirectoryError(f"{str(place)!r} is a folder. Name a file in it to write to.")
        check_place(place)
        model = fit(
            self.rows_.estimator,
            self.data,
            target=self.target,
            columns=self.rows_.preprocessor,
            engine=self.engine,
            n_workers=self.n_workers,
            address=self.address,
            callback=callback,
            settings=self.settings,
            strict=self.strict,
        )
        self.rows_, self._finished = TableRows.of_tables(model), model
        self.n_rows_ = int(model.n_samples_seen_)
        self._check_classes()
        model.save(place)
