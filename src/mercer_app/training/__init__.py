"""Training a model on files: chunks, shuffling, passes, checkpoints. Prints nothing.

The rows are a function of the data and the settings only, and the estimator resumes bit for bit. So
a run that is killed and resumed from its checkpoint ends with the same model file as an
uninterrupted run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from mercer.columns.null_values import Unreadable
from mercer.component import to_config
from mercer.exceptions import Advice
from mercer.losses import Loss
from mercer.model_file import RECOVER, model_of_state, read_state, write_state
from mercer.threads import ahead, check_jobs, jobs
from mercer.validation import check_integer
from mercer_app.files import count_rows, read_tables
from mercer_app.files.places import size_of
from mercer_app.files.tables import Labelled, TableFiles
from mercer_app.rows import TableRows
from mercer_app.training._row_stream import RowStream, shuffled_groups
from mercer_app.training.tables import (
    RunPlan,
    TableTraining,
    TrainingProgress,
    Watch,
    finish_with_revisits,
    make_estimator,
    offer_revisits,
    plan_run,
    warn_if_no_pairs,
)
from mercer_app.training.transitions import TransitionColumns

__all__ = [
    "FileTraining",
    "TrainingProgress",
    "TransitionColumns",
    "checkpoint_path",
    "shuffled_groups",
]

_MOST_COLUMNS = 8
_AFRESH = "Delete it and start afresh, without `resume`."


def checkpoint_path(out: str | os.PathLike[str]) -> Path:
    """Where the checkpoint of a training for the model file ``out`` is."""
    return Path(f"{os.fspath(out)}.checkpoint")


def partial_path(out: str | os.PathLike[str]) -> Path:
    """Where the model of the rows before an error is, if the training for ``out`` had one."""
    place = Path(out)
    return place.with_name(f"{place.stem}.partial{place.suffix}")


def fingerprint(data: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell data files apart without reading them: by names, sizes, columns and types.

    Parameters
    ----------
    data : path
        As for :func:`mercer_app.files.read_tables`.

    Returns
    -------
    fingerprint : dict
        Fingerprint of lists and text.
    """
    found = TableFiles.of(data)
    return {
        "files": [file.name for file in found.files],
        "sizes in bytes": [size_of(file) for file in found.files],
        "columns": [f"{field.name}: {field.type}" for field in found.columns.typed()],
    }


class Checkpoint(NamedTuple):
    """A training as it stood after a chunk.

    Attributes
    ----------
    rows : TableRows
        What was learned so far.
    n_rows : int
        Rows learned, over all passes.
    rows_per_pass : int or None
        Rows of the data, if known.
    every : int
        Rows between checkpoints.
    settings, data : dict
        Settings and data on which the model depends; a resumed run must have the same.
    """

    rows: TableRows
    n_rows: int
    rows_per_pass: int | None
    every: int
    settings: dict[str, Any]
    data: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write atomically. :func:`mercer.load_model` can read it, too, and gives the model."""
        training = self._asdict()
        training.pop("rows")
        model = self.rows.model
        state = {"kind": type(model).__name__, "model": model.to_state(), "training": training}
        write_state(path, state)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a checkpoint.

        Raises
        ------
        FileNotFoundError
            If there is no checkpoint.
        ValueError
            If the file is damaged or not a checkpoint.
        """
        try:
            state = read_state(path)
        except ValueError as error:
            reason = str(error).removesuffix(RECOVER).rstrip()
            raise ValueError(f"{reason} {_AFRESH}") from error
        try:
            if "training" not in state:
                raise ValueError(f"it holds a finished {state['kind']}")
            training = state["training"]
            known, rows = training["rows_per_pass"], TableRows.of(model_of_state(state))
            if rows is None:
                raise ValueError("its model knows no columns")
            return cls(
                rows,
                check_integer("n_rows", training["n_rows"], low=1),
                None if known is None else check_integer("rows_per_pass", known, low=1),
                check_integer("every", training["every"], low=1),
                dict(training["settings"]),
                dict(training["data"]),
            )
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"{path} is not a valid checkpoint: {error}. {_AFRESH}") from error

    def check_same(
        self, path: str | os.PathLike[str], settings: dict[str, Any], data: dict[str, Any]
    ) -> None:
        """Raise ``ValueError``, naming what differs, unless settings and data are the same."""
        for then, now, of_what in (
            (self.settings, settings, "settings"),
            (self.data, data, "data"),
        ):
            differences = [
                f"{name} (then {_short(then.get(name))}, now {_short(now.get(name))})"
                for name in dict.fromkeys([*then, *now])
                if then.get(name) != now.get(name)
            ]
            if differences:
                raise ValueError(
                    f"{path} was written by a training with other {of_what}: "
                    f"{'; '.join(differences)}. Going on would give a model of neither. Use the "
                    f"{of_what} of then, or start afresh without resuming."
                )


def _short(value: Any) -> str:
    """Text of a setting: components as a call, missing ones as the default, lists cut."""
    if value is None:
        return "the default"
    if isinstance(value, dict) and set(value) == {"type", "params"}:
        given = ", ".join(f"{k}={_short(v)}" for k, v in value["params"].items() if v is not None)
        return f"{value['type']}({given})"
    if isinstance(value, list):
        more = f", and {len(value) - _MOST_COLUMNS} more" if len(value) > _MOST_COLUMNS else ""
        return f"{', '.join(map(_short, value[:_MOST_COLUMNS])) or 'none'}{more}"
    return str(value)


class FileTraining(TableTraining):
    r"""Train an estimator on Parquet, CSV or Arrow files of any size.

    Call :meth:`start` or :meth:`resume`, then :meth:`run`. Memory does not grow with the files.

    Parameters
    ----------
    data : path
        A file, a folder or a glob (:func:`mercer_app.files.read_tables`).
    target : str or None, default=None
        Column to predict. For novelty detection none is needed, and a column of labels that is
        given is not learned.
    task : {"auto", "classification", "regression", "rank", "novelty", "gp"}, default="auto"
        "auto" follows the loss, if one is given, or else the values of the target
        (:func:`mercer.columns.infer_task`). "rank" learns from pairs of rows, "gp" is
        Gaussian-process regression.
    group : str or None, default=None
        Column of groups. A ranking compares only rows of one group; a classification or a
        regression holds out whole groups. It is not an input.
    time : str or None, default=None
        Column of dates, times or numbers that orders the rows, for a classification or a regression
        with the default expansion: the last rows judge what was learned from earlier ones. It stays
        among the inputs, unless it is excluded. In the files, rows may be out of order by
        ``shuffle_buffer`` rows.
    loss : str or Loss, default=None
        None is the default of the estimator. Novelty detection and Gaussian processes have none.
    options : mapping, default=None
        Further parameters of :class:`mercer.KernelClassifier`, :class:`mercer.KernelRegressor`,
        :class:`mercer.KernelRanker`, :class:`mercer.NoveltyDetector` or
        :class:`mercer.GaussianProcessRegressor`.
    n_passes : int, default=1
        Passes over the data. Random features that are fitted by solving take more, to make their
        ``min_steps``, where the number of rows is known: in Parquet and Arrow files, and in
        others of fewer rows than the warm-up. A Gaussian process takes one, and so does the default
        expansion of classification and regression, which sums over rows.
    exclude : sequence of str, default=()
        Columns that are not inputs; target and group never are.
    scaling : {"auto", "standardize", "common", "none"}, default="auto"
        Scaling of numbers (:class:`mercer.columns.TablePreprocessor`). "auto" leaves them unchanged
        if the estimator chooses its kernel, since it then finds scales as well.
    seed : int, default=0
        Seed of all random choices: the same seed and data give the same model file.
    shuffle_buffer : int, default=65_536
        Rows shuffled at a time; fewer if they would take more than 64 MiB. 0 or 1 keeps the order
        of the files. With groups, rows of one group stay together, so that they meet: see
        :func:`mercer_app.training.shuffled_groups`. Blocks of a series stay together, too, where
        the default expansion holds them out (``block_length`` of :class:`mercer.expansions.Auto`).
    warmup_rows : int, default=50_000
        Rows that scales and categories are measured on.
    categories : int, default=128
        Largest number of categories of a text column that have their own input; rarer ones share an
        input.
    columns : mapping of str to object or None, default=None
        Further parameters of the :class:`mercer.columns.TablePreprocessor`: ``include`` and
        ``kinds``, where it would guess wrongly what a column is.
    n_jobs : int or None, default=None
        Threads, see :class:`mercer.KernelClassifier`; with more than one the next rows are read
        while some are learned. The model is the same bit for bit.
    strict : bool, default=False
        Whether the first cell that cannot be what its column is, such as a word among numbers, is
        an error. Otherwise such cells are gaps, and a warning counts them.
    null_values : str, number, sequence of these, mapping of columns to these, or None, default=None
        Further cells that mean a missing value, in addition to the usual marks of CSV files, such
        as -999 or ``{"age": -1}``; with an empty mark, "" or ``{"country": ""}``, the usual marks
        are values. See :class:`mercer_app.files.CsvDialect`. The model reads all later rows in the
        same way. None: as declared for ``data``.

    Attributes
    ----------
    model_ : estimator
        The model, after :meth:`start` or :meth:`resume`; it predicts for tables by itself, using
        their column names.
    task : str
        Once started, no longer "auto".
    first_classes_ : list
        Labels among the first rows; none but of a classification that was started.
    n_passes_ : int
        Number of passes over the data, at least ``n_passes``.
    n_rows_ : int
        Rows learned so far, over all passes.
    n_left_out_ : int
        Rows without a target, as many as were met in a pass: they are not learned.
    n_total_ : int or None
        Rows of all passes, if known.

    Raises
    ------
    ValueError
        For wrong parameters, and for a loss or a target that does not fit the task.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "points.csv"
    >>> _ = file.write_text("x,y\n" + "".join(f"{i % 9},{i % 9 > 4}\n" for i in range(500)))
    >>> training = FileTraining(file, "y").start()
    >>> training.run(pathlib.Path(folder.name) / "model.mercer")
    True
    >>> training.model_.predict({"x": [0.0, 8.0]}).tolist()
    [False, True]
    >>> folder.cleanup()
    """

    def __init__(  # noqa: PLR0913  # all that can be chosen
        self,
        data: str | os.PathLike[str],
        target: str | None = None,
        *,
        task: Literal["auto", "classification", "regression", "rank", "novelty", "gp"] = "auto",
        group: str | None = None,
        time: str | None = None,
        loss: str | Loss | None = None,
        options: Mapping[str, Any] | None = None,
        n_passes: int = 1,
        exclude: Sequence[str] = (),
        scaling: Literal["auto", "standardize", "common", "none"] = "auto",
        seed: int = 0,
        shuffle_buffer: int = 65_536,
        warmup_rows: int = 50_000,
        categories: int = 128,
        columns: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        strict: bool = False,
        null_values: Any = None,
    ) -> None:
        super().__init__(
            data,
            target,
            task=task,
            group=group,
            time=time,
            loss=loss,
            options=options,
            exclude=exclude,
            scaling=scaling,
            seed=seed,
            warmup_rows=warmup_rows,
            categories=categories,
            columns=columns,
            strict=strict,
            null_values=null_values,
        )
        self.n_passes = check_integer("n_passes", n_passes, low=1)
        self.shuffle_buffer = check_integer("shuffle_buffer", shuffle_buffer, low=0)
        if task == "gp" and self.n_passes > 1:
            raise ValueError(
                f"`n_passes` must be 1 for a Gaussian process, got {n_passes}: it would take every "
                f"row for {n_passes} independent observations. One pass is all it needs."
            )
        check_jobs(n_jobs)
        self.n_jobs = n_jobs
        self._settings = self._describe()
        self.n_passes_, self.n_left_out_ = self.n_passes, 0
        self._rows_per_pass: int | None = None
        self._every: int | None = None

    def _describe(self) -> dict[str, Any]:
        """All settings, besides the data, on which the model depends."""
        return {
            "target": self.target,
            "group": self.group,
            "time": self.time,
            "task": self.task,
            "loss": to_config(self.loss),
            "passes": self.n_passes,
            "exclude": [
                name for name in self._columns["exclude"] if name not in (self.target, self.group)
            ],
            "scaling": self._columns["scaling"],
            "categories": self._columns["categories"],
            **({"columns": to_config(self._more)} if self._more else {}),
            **{n: v for n, v in self._columns.items() if n == "null_values"},
            "warm-up rows": self._columns["warmup_rows"],
            "seed": self.seed,
            "shuffle buffer": self.shuffle_buffer,
            **{name: to_config(value) for name, value in self.options.items()},
        }

    @property
    def n_total_(self) -> int | None:
        """Rows of all passes, if known."""
        return None if self._rows_per_pass is None else self._rows_per_pass * self.n_passes_

    @property
    def checkpoints(self) -> bool:
        """Whether :meth:`run` writes checkpoints: asked for, or by the run that is resumed."""
        return self._every is not None

    # -- beginning ------------------------------------------------------------------------------

    def start(self) -> Self:
        """Inspect the first rows and create a model that has learned no rows.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without pyarrow.
        FileNotFoundError
            If a file does not exist.
        ValueError
            For files, columns or parameters that cannot be used, each with the reason.
        """
        self._begin()
        rows, n_classes = self.rows_, len(self.first_classes_)
        n_outputs = n_classes if n_classes > 2 else 1
        self._rows_per_pass = n_rows = self._counted()
        if n_rows is None and rows.preprocessor.n_samples_seen_ < self._warmup_rows:
            n_rows = rows.preprocessor.n_samples_seen_  # all there are
        self._follow(plan_run(rows.estimator, self.n_passes, n_rows, n_outputs))
        self.n_rows_ = 0
        return self

    def _counted(self) -> int | None:
        """Count the rows that have a target, unless all of a CSV file would have to be read."""
        n_rows = count_rows(self.data)
        if n_rows is None or not self.rows_.has_target:
            return n_rows
        labelled = Labelled(self.target)
        return sum(
            len(labelled.rows(table))
            for table in read_tables(
                self.data,
                columns=[str(self.target)],
                unreadable=Unreadable(strict=self.strict),
            )
        )

    def _follow(self, plan: RunPlan) -> None:
        self._plan = plan
        self.n_passes_ = plan.n_passes

    def _estimator(self) -> Any:
        return make_estimator(self.task, self.loss, self.options, self.n_passes, self.seed)

    def resume(self, checkpoint: str | os.PathLike[str]) -> Self:
        """Take up a training at its checkpoint.

        Parameters
        ----------
        checkpoint : path
            Written by :meth:`run` of a training with the same data and settings.

        Returns
        -------
        self

        Raises
        ------
        FileNotFoundError
            If there is no checkpoint.
        ValueError
            If it is damaged, or settings or data differ; the message says which.
        """
        self._look_again()
        found = Checkpoint.read(checkpoint)
        found.check_same(checkpoint, self._settings, fingerprint(self.data))
        self.rows_, self.task = found.rows, found.rows.task
        self.n_rows_, self._rows_per_pass = found.n_rows, found.rows_per_pass
        self._every = found.every
        # The sizes that depend on the number of rows are in the model.
        made = getattr(found.rows.estimator, "n_passes", 1)
        learner = getattr(found.rows.estimator, "learner_", None)
        n_outputs = 1 if learner is None else learner.function.n_outputs
        self._follow(plan_run(found.rows.estimator, made, None, n_outputs))
        return self

    # -- learning -------------------------------------------------------------------------------

    def run(
        self,
        out: str | os.PathLike[str],
        *,
        checkpoint_every: int | None = None,
        callback: Callable[[TrainingProgress], object] | None = None,
    ) -> bool:
        """Learn all rows that are left and write the model file.

        Parameters
        ----------
        out : path
            Model file to write at the end. The checkpoint is ``<out>.checkpoint``; it is removed
            once the model is written.
        checkpoint_every : int, default=None
            Rows between checkpoints, rounded up to whole chunks. None: as before the resumption,
            or none at all. What is learned does not depend on it.
        callback : callable, default=None
            Called with a :class:`TrainingProgress` after every chunk; a true result stops the
            training, after writing a checkpoint if these are wanted.

        Returns
        -------
        finished : bool
            False if the callback stopped it.

        Raises
        ------
        RuntimeError
            If the training was neither started nor resumed.
        ValueError
            For data that cannot be learned, such as classes of which there is only one, and if
            the files change while they are read.
        mercer.exceptions.DivergenceError
            If the step size is too large.
        OSError
            If a file cannot be written.

        Warns
        -----
        mercer.exceptions.NothingLearnedWarning
            If no row of a ranking met one to be compared with.
        """
        if not hasattr(self, "rows_"):
            raise RuntimeError(
                "There is nothing to run yet. Call `start` first, or `resume` with a checkpoint: "
                "training.start().run(out)."
            )
        if checkpoint_every is not None:
            self._every = check_integer("checkpoint_every", checkpoint_every, low=1)
        with jobs(self.n_jobs):
            return self._run(Path(out), callback)

    def _run(self, out: Path, callback: Callable[[TrainingProgress], object] | None) -> bool:
        data = fingerprint(self.data)
        stream = RowStream(
            self.data,
            self.rows_,
            n_passes=self.n_passes_,
            seed=self.seed,
            shuffle_buffer=self.shuffle_buffer,
            rows_per_pass=self._rows_per_pass,
            rows_per_step=self._plan.rows_per_step,
            cuts_matter=self._plan.cuts_matter,
            strict=self.strict,
        )
        if self.n_rows_ == 0:
            stream.find_blocks()
        watch = Watch(self.rows_, self.n_rows_)
        offer_revisits(self.rows_.estimator, self.n_total_)
        chunks = stream.chunks(self.n_rows_, every=self._every)
        try:
            finished = self._learn(stream, chunks, watch, data, out, callback)
        except Exception as error:
            self._keep(out, error)
            raise
        if not finished:
            return False
        self.unreadable_ = stream.unreadable
        self._check_classes()
        self._finished = self.rows_.model
        self._finished.save(out)
        for older in (checkpoint_path(out), partial_path(out)):
            older.unlink(missing_ok=True)
        self._warn_of_unreadable()
        warn_if_no_pairs(self.rows_, self.n_rows_, self.shuffle_buffer)
        return True

    def _learn(
        self,
        stream: RowStream,
        chunks: Iterator[Any],
        watch: Watch,
        data: dict[str, Any],
        out: Path,
        callback: Callable[[TrainingProgress], object] | None,
    ) -> bool:
        """Learn chunks of rows; return whether nobody stopped it."""
        saved_at = self.n_rows_
        # What was known of the number of rows when a chunk was read: the next may be read already.
        for (X, y, group), rows_per_pass in ahead((c, stream.rows_per_pass) for c in chunks):
            self.rows_.learn(X, y, group)
            self.n_rows_ += len(y)
            self.n_left_out_ = max(self.n_left_out_, stream.labelled.n_left_out)
            offer_revisits(self.rows_.estimator, self.n_total_)
            self._rows_per_pass = rows_per_pass
            self._end_passes(stream, out.resolve().parent)
            progress = watch.look(self.n_rows_, self.n_total_)
            stop = callback is not None and bool(callback(progress))
            if self._every is not None and (stop or self.n_rows_ - saved_at >= self._every):
                Checkpoint(
                    self.rows_,
                    self.n_rows_,
                    self._rows_per_pass,
                    self._every,
                    self._settings,
                    data,
                ).write(checkpoint_path(out))
                saved_at = self.n_rows_
            if stop:
                return False
        return True

    def _keep(self, out: Path, error: Exception) -> None:
        """Write the model of the rows that were learned before an error, and note where."""
        if not self.n_rows_:
            return
        place = partial_path(out)
        said = f"{self.n_rows_:,} rows had been learned."
        with suppress(Exception):  # for example a single class: then report only the first error
            self._check_classes()
            self.rows_.finish()
            self.model_.save(place)
            said = f"{said} The model of them is kept as {place}."
        if checkpoint_path(out).exists():
            said += f" The checkpoint {checkpoint_path(out)} is of an earlier point."
        error.add_note(Advice(said))  # for users; other notes are for developers

    def _end_passes(self, stream: RowStream, folder: Path) -> None:
        """Tell the model after a chunk if that was the end of the first pass, or of the last."""
        if self._rows_per_pass is not None and self.n_rows_ >= self._rows_per_pass:
            # Later passes visit learned rows, which cannot compare candidates.
            learner = getattr(self.rows_.estimator, "learner_", None)
            if learner is not None:
                learner.end_race()
        if self.n_rows_ == self.n_total_:
            again, estimator = stream.last_pass, self.rows_.estimator
            if not finish_with_revisits(estimator, again, self.n_rows_, folder):
                self.rows_.finish(again)
