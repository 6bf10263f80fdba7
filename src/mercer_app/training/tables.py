"""What all trainings on files share: what is learned, of which columns, and the first look."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import tee
from typing import Any

import numpy as np

from mercer.columns import TablePreprocessor, TaskGuess, guess_task
from mercer.columns.null_values import NullValues
from mercer.columns.odd_cells import Unreadable
from mercer.losses import Loss, as_loss
from mercer.validation import check_choice, check_integer
from mercer_app.files import read_tables, schema
from mercer_app.files.dialect import check_names_of_file
from mercer_app.files.tables import (
    Labelled,
    drawn_in_place,
    in_place,
    nulls_told,
    told_types,
    with_nulls,
)
from mercer_app.rows import TASKS, TableRows, check_group, check_marks, check_time
from mercer_app.training._checks import (
    check_two_classes,
    check_varies,
    first_classes,
    refuse_stray_text,
    warn_of_no_data,
    warn_of_stray_text,
    warn_of_unlabelled,
)
from mercer_app.training._estimator import chooses_scales, make_estimator

_LOOKED_AT = 2**23  # values that determine the kinds of columns
_FEWEST_ROWS = 1024
#: Columns that pandas adds to files for the index of a frame.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def columns_for(estimator: Any, given: Mapping[str, Any]) -> TablePreprocessor:
    """Return what makes inputs of columns: as they are, for an estimator that finds scales.

    Parameters
    ----------
    estimator : estimator
        Who learns them.
    given : mapping
        Parameters of the preprocessor; ``scaling="auto"`` is "none" where the estimator chooses its
        kernel, with scales of the inputs.
    """
    columns = TablePreprocessor(**{"dtype": "auto", **given})
    if columns.scaling == "auto" and chooses_scales(estimator):
        columns.set_params(scaling="none")
    return columns


class TableTraining:
    """What is to be learned from files.

    Parameters
    ----------
    data, target, task, group, loss, options, exclude, scaling, seed, categories, columns, ...
        See :class:`mercer_app.training.FileTraining`.

    Attributes
    ----------
    rows_ : TableRows
        What reads tables for the estimator, once the training was started.
    model_ : estimator
        The model, once the training was started.
    task : str
        Once started, no longer "auto".
    guess_ : TaskGuess or None
        Guessed task of the first rows, and why; None if the task was given, or the run is resumed.
    first_classes_ : list
        Labels among the first rows; none but of a classification that was started.
    n_passes_ : int
        Passes over the data.
    n_rows_ : int
        Rows learned so far.
    unreadable_ : Unreadable
        Cells that cannot be what their columns are, in all rows, once these were learned.
    """

    rows_: TableRows
    _finished: Any = None

    def __init__(
        self,
        data: str | os.PathLike[str],
        target: str | None,
        *,
        task: str,
        group: str | None,
        loss: str | Loss | None,
        options: Mapping[str, Any] | None,
        exclude: Sequence[str],
        scaling: str,
        seed: int,
        categories: int,
        columns: Mapping[str, Any] | None = None,
        warmup_rows: int = 50_000,
        strict: bool = False,
        time: str | None = None,
        null_values: Any = None,
    ) -> None:
        check_choice("task", task, ("auto", *TASKS))
        if target is None and task != "novelty":
            raise ValueError(
                "`target` must name the column to predict: only novelty detection (`task` "
                f"'novelty') goes without, and this is task {task!r}."
            )
        nulls = NullValues.of(null_values) or nulls_told(data)
        self.data = os.fspath(with_nulls(data, nulls))
        self.target = target
        self.options = dict(options or {})
        self.seed = check_integer("seed", seed, low=0, high=2**32 - 1)
        check_group(group, target, task in ("auto", "rank", "classification", "regression"), None)
        check_time(time, group, target, task in ("auto", "classification", "regression"))
        self.group, self.time = group, time
        if loss is not None and task != "auto" and TASKS[task].losses is None:
            raise ValueError(
                f"`loss` cannot be chosen for {TASKS[task].words}, which has an objective of its "
                "own. Leave it out."
            )
        known: Any = None if task == "auto" else TASKS[task].losses
        self.loss = None if loss is None else as_loss(loss, known)
        self.task: str = task if task != "auto" or self.loss is None else self.loss.task
        own = {"exclude", "scaling", "categories", "warmup_rows", "null_values"}
        twice = sorted(own & set(columns or {}))
        if twice:
            raise ValueError(f"{twice} are parameters of the training, not entries of `columns`.")
        wrong = sorted({"loss", "n_passes", "n_jobs", "random_state"} & set(self.options))
        if wrong:
            raise ValueError(f"{wrong} are parameters of the training, not entries of `options`.")
        self._more = dict(columns or {})
        self._columns: dict[str, Any] = {
            "exclude": tuple(
                dict.fromkeys(name for name in (target, group, *exclude) if name is not None)
            ),
            "scaling": scaling,
            "categories": categories,
            **({"null_values": nulls.to_config()} if nulls else {}),
            **self._more,
            "warmup_rows": check_integer("warmup_rows", warmup_rows, low=1),
        }
        self._warmup_rows = self._columns["warmup_rows"]
        TablePreprocessor(**self._columns)  # checks them
        self.strict = strict
        self.unreadable_ = Unreadable(strict=strict)
        self.guess_: TaskGuess | None = None
        self.first_classes_: list[Any] = []
        self.n_passes_, self.n_rows_ = 1, 0

    @property
    def model_(self) -> Any:
        """The model of the rows learned so far, for display; at the end, the final model."""
        if not hasattr(self, "rows_"):
            raise AttributeError("There is no model yet. Call `start` first.")
        return self.rows_.model if self._finished is None else self._finished

    def _estimator(self) -> Any:
        """Make the estimator, which checks its parameters."""
        return make_estimator(self.task, self.loss, self.options, 1, self.seed)

    def _begin(self) -> None:
        """Inspect the first rows, and create a model that has learned only their columns.

        Raises
        ------
        ImportError, FileNotFoundError, ValueError
            See :meth:`mercer_app.training.FileTraining.start`.
        """
        if self.task != "auto":
            self._estimator()  # checks the parameters
        names = schema(self.data).names
        told = [*self._columns["exclude"], *([] if self.time is None else [self.time])]
        told += self._columns.get("null_values", {}).keys() - {""}
        check_names_of_file(told, names, f"{self.data}")
        # Row numbers that data frames store beside their columns are not inputs.
        own = {self.target, *self._columns["exclude"]}
        numbers = [name for name in names if _ROW_NUMBERS.fullmatch(name) and name not in own]
        self._columns["exclude"] = (*self._columns["exclude"], *numbers)
        names = [name for name in names if name not in numbers]
        looked_at = names[0] if self.target is None else self.target
        types = told_types(self.data, self._more.get("kinds") or {})
        beginning = read_tables(
            self.data,
            columns=[looked_at],
            rows_per_table=self._warmup_rows,
            unreadable=Unreadable(strict=self.strict),
        )
        table = next(beginning, None)
        if table is None:
            raise ValueError(f"{self.data} holds no rows, so there is nothing to learn from.")
        if self.task not in ("classification", "novelty"):
            refuse_stray_text(self.data, str(self.target), table)
        if self.task == "novelty" and self.target is not None:
            check_marks(table, self.target)
        if self.task == "auto":
            try:
                self.guess_ = guess_task(table.column(looked_at))
                self.task = self.guess_.task
            except ValueError:
                self.task = "regression"  # then reading the targets reports what is wrong with them
        estimator = self._estimator()
        made = TableRows(
            estimator,
            columns_for(estimator, self._columns),
            self.target,
            self.group,
            self.time,
        )
        labelled = Labelled(self.target if made.has_target else None)
        written = warn_of_unlabelled(self.data, self.target, labelled.rows(table), table.num_rows)
        if made.has_target:
            (targets,) = in_place(self.data, iter([table]), made.targets, labelled=labelled)
            self._look_at(targets, table.num_rows, beginning, made, written)
        rows = int(np.clip(_LOOKED_AT // len(names), _FEWEST_ROWS, self._warmup_rows))
        tables = read_tables(
            self.data,
            rows_per_table=rows,
            column_types=types,
            unreadable=Unreadable(strict=self.strict),
        )
        self.rows_ = drawn_in_place(self.data, tables, made.warm_up, labelled)
        warn_of_stray_text(self.data, self.rows_.preprocessor, self._warmup_rows)

    def _look_at(
        self, targets: Any, n_rows: int, others: Iterator[Any], rows: TableRows, written: str
    ) -> None:
        """Say what is wrong with the targets of the first rows, and take down their classes."""
        others, ahead = tee(others)
        all_rows = next(ahead, None) is None
        if self.task in ("classification", "regression", "gp"):
            labelled = Labelled(self.target)
            more = in_place(self.data, others, rows.targets, n_rows, labelled=labelled)
            check_varies(targets, more, self.target, self.task, written)
        has_marks = rows.preprocessor.nulls_.has_usual(str(self.target))
        if self.task in ("regression", "gp") and has_marks:
            warn_of_no_data(targets, self.target)
        if self.task == "classification":
            self.first_classes_ = first_classes(
                targets, self.target, all_rows=all_rows, marks=has_marks
            )

    def _warn_of_unreadable(self) -> None:
        """Report which cells of all rows counted as missing, beyond those of the first rows."""
        known = {
            name: reading.strays for name, reading in self.rows_.preprocessor.readings_.items()
        }
        for text in self.unreadable_.said(known):
            warnings.warn(text, stacklevel=4)

    def _check_classes(self) -> None:
        """Raise ValueError if a classification has met one class only."""
        if self.task == "classification":
            check_two_classes(self.rows_.classes_, self.target, self.n_rows_)
