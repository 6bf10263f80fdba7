"""Training a model of tables on files that workers of an engine read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from mercer.exceptions import ParameterError
from mercer.losses import Loss
from mercer_app.files.places import check_place
from mercer_app.rows import TASKS, TableRows
from mercer_app.training.tables import TableTraining
from mercer_cluster.engines import Engine
from mercer_cluster.models import check_learnable
from mercer_cluster.progress import Callback
from mercer_cluster.run import fit
from mercer_cluster.settings import DEFAULT, Settings

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
