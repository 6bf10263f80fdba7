"""What all trainings on files share: the estimator, columns, and what the first look finds."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, tee
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.columns import TablePreprocessor, TaskGuess, guess_task
from mercer.columns.null_values import NullValues, Unreadable, cut_short
from mercer.columns.readings import TargetForm, no_data_of
from mercer.columns.tasks import infer_task
from mercer.columns.views import Levels, Numbers, is_number, view_table
from mercer.default import DefaultLearner
from mercer.exceptions import Advice, InPython, NothingLearnedWarning, ParameterError, Setting
from mercer.expansions import Auto, Dictionary, Expansion, RandomFeatures
from mercer.kernels import as_pair_kernel
from mercer.losses import Loss, Poisson, as_loss
from mercer.validation import check_choice, check_integer
from mercer_app.files.dialect import check_names_of_file
from mercer_app.files.places import FilePath
from mercer_app.files.tables import (
    Labelled,
    TableFiles,
    drawn_in_place,
    in_place,
    nulls_told,
    place_of,
    read_tables,
    told_types,
    with_nulls,
    written_at,
)
from mercer_app.rows import TASKS, TableRows, check_group, check_marks, check_time

_MOST_CLASSES = 1000
# With _MANY_ROWS rows or more, classes are too many if their number exceeds this share of the rows.
_UNIQUE, _MANY_ROWS = 2 / 3, 20
_TELLING_ROWS = 1000  # number of rows that suffices for a conclusion
_NAMED = 5


def refuse_stray_text(data: FilePath, target: str, table: Any) -> None:
    """Raise ``ValueError`` if a few cells make text of a target that is to be a number.

    Parameters
    ----------
    data : str
        The files, for the message.
    target : str
        Column of the target.
    table : table
        The first rows, with the target.
    """
    column = view_table(table).column(target)
    stray = None if TargetForm.of(target, column) is not None else stray_text(column)
    if stray is not None:
        raise ValueError(
            f"The target {target!r} is text, because {stray.says(place_of(data, stray.row))}. "
            "Correct such cells, or leave out rows whose target is not known. If the column holds "
            "classes, say `task='classification'`."
        )


def warn_of_unlabelled(data: FilePath, target: str | None, labelled: Any, n_rows: int) -> str:
    """Warn of rows without a target, which cannot be learned.

    Parameters
    ----------
    data : str
        The files, for the message.
    target : str or None
        Column of the target.
    labelled : ndarray of int
        Rows that have one, of the first ones.
    n_rows : int
        How many rows these are.

    Returns
    -------
    written : str
        What stands in the first row without one, in a CSV file.

    Raises
    ------
    ValueError
        If no row has one.
    """
    n = n_rows - len(labelled)
    if n == 0:
        return ""
    said = f"The target {target!r} has no value in {n:,} of the first {n_rows:,} rows"
    if n == n_rows:
        raise ValueError(
            f"{said} of {data}: there is nothing to learn from. Fill in the target, or name "
            "another column."
        )
    first = int(np.setdiff1d(np.arange(len(labelled) + 1), labelled)[0])
    written = written_at(data, {str(target): first}).get(str(target), "")
    warnings.warn(
        f"{said}, first in {place_of(data, first)}. {counts_as_none(written)}Rows without one are "
        "left out.",
        stacklevel=2,
    )
    return written


def counts_as_none(written: str) -> str:
    """Return a sentence that a word counts as a missing value, if it does.

    Examples
    --------
    >>> counts_as_none("null")
    "'null' counts as no value: if it is a class, give it another name, or its column an empty \
mark by `null_values`. "
    """
    if not written:
        return ""
    return (
        f"{written!r} counts as no value: if it is a class, give it another name, or its "
        "column an empty mark by `null_values`. "
    )


def warn_of_stray_text(data: FilePath, columns: TablePreprocessor, n_rows: int) -> None:
    """Warn of inputs that a few cells make categories of, and of cells that are taken for gaps.

    What is written in gaps of categories is noted, since NA may be a country.

    Parameters
    ----------
    data : str
        The files.
    columns : TablePreprocessor
        What the columns are.
    n_rows : int
        How many of the first rows are looked at.
    """
    readings = columns.readings_
    text = TableFiles.of(data).columns.of_text
    text = [name for name in text if name in readings and readings[name].used]
    if not text:
        return
    view = view_table(next(read_tables(data, columns=text, rows_per_table=n_rows)))
    where, said, gaps = cache(partial(place_of, data)), [], dict[str, int]()
    for name in text:
        column, reading = view.column(name), readings[name]
        if reading.kind in ("category", "text"):
            assert isinstance(column, Levels)
            missing = np.flatnonzero(column.codes < 0)
            if missing.size:
                gaps[name] = int(missing[0])
            stray = stray_text(column)
            if stray is not None:
                said.append(
                    f"The column {name!r} is taken for categories, because "
                    f"{stray.says(where(stray.row))}. If it holds quantities, correct such cells, "
                    "or leave them empty, which is a missing value."
                )
        elif isinstance(column, Levels) and reading.strays:
            read = reading.read(column)
            assert isinstance(read, Numbers)
            row = int(np.argmax((column.codes >= 0) & np.isnan(read.values)))
            said.append(
                f"The column {name!r} has {reading.strays:,} "
                f"cell{'s' * (reading.strays != 1)} that cannot be read as a {reading.kind}, first "
                f"{column.levels[column.codes[row]]!r} in {where(row)}: such cells are taken for "
                "missing values."
            )
    for message in cut_short(said):
        warnings.warn(message, stacklevel=4)
    written = {name: cell for name, cell in written_at(data, gaps).items() if cell}
    columns.remark({name: f"{cell!r} counts as no value" for name, cell in written.items()})


class Stray(NamedTuple):
    """What keeps a column of quantities from being one of numbers.

    Attributes
    ----------
    row : int
        First row of the table that holds it.
    text : str
        What this row holds.
    n_rows : int
        Rows that hold no number.
    """

    row: int
    text: str
    n_rows: int

    def says(self, where: str) -> str:
        """Say it in a clause, with where the row is.

        Examples
        --------
        >>> Stray(3, "12,5", 2).says("line 5")
        "'12,5' in line 5 is no number (decimals have a point), nor is 1 more"
        """
        comma = " (decimals have a point)" if _number(self.text) is not None else ""
        others = self.n_rows - 1
        more = f", nor {'is' if others == 1 else 'are'} {others:,} more" if others else ""
        return f"{self.text!r} in {where} is no number{comma}{more}"


def stray_text(column: Numbers | Levels) -> Stray | None:
    """Find the text in a column of which most cells are numbers that make quantities.

    Examples
    --------
    >>> import numpy as np
    >>> stray_text(Levels(np.array([0, 1, 2, 3]), ["0.5", "1.5", "n/a?", "2.5"]))
    Stray(row=2, text='n/a?', n_rows=1)
    >>> stray_text(Levels(np.array([0, 1, 2]), ["1", "2", "other"])) is None
    True
    """
    if not isinstance(column, Levels) or column.boolean:
        return None
    present = column.codes[column.codes >= 0]
    counts = np.bincount(present, minlength=len(column.levels))
    numbers = [_number(level) for level in column.levels]
    alike = np.array([number is not None for number in numbers], dtype=bool)
    stray = np.array([not is_number(level) for level in column.levels], dtype=bool)
    if 2 * counts[alike].sum() <= present.size or not counts[stray].any():
        return None
    said = [numbers[code] for code in present]
    if infer_task([number for number in said if number is not None]) != "regression":
        return None
    # The code -1 of missing values picks the last entry.
    row = int(np.argmax(np.append(stray, False)[column.codes]))
    return Stray(row, column.levels[column.codes[row]], int(counts[stray].sum()))


def _number(text: str) -> float | None:
    """Return the number that somebody may have meant."""
    for form in (text, text.replace(",", "."), text.replace(",", "")):
        if is_number(form):
            return float(form) if set(form) & set(".eEnN") else int(form)
    return None


def first_classes(
    labels: NDArray[Any], target: str | None, *, all_rows: bool, marks: bool = True
) -> list[Any]:
    """Return the classes in the first rows.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Targets of the first rows.
    target : str or None
        Column of the targets.
    all_rows : bool
        Whether these are all rows.
    marks : bool, default=True
        Whether the usual marks of gaps would be gaps in this column.

    Raises
    ------
    ValueError
        If few rows share a class, or there are more classes than a model can distinguish.

    Warns
    -----
    UserWarning
        If there are classes of a single row, such as "?", or such as "yes" and "Yes".
    """
    classes, counts = np.unique(labels, return_counts=True)
    n, n_rows = classes.size, labels.size
    # Of a few of many rows most can be of different classes.
    telling = all_rows or n_rows >= _TELLING_ROWS
    if telling and n > 2 and (n == n_rows or (n_rows >= _MANY_ROWS and n > _UNIQUE * n_rows)):
        quantities = ", or say `task='regression'` if these are quantities"
        raise ValueError(
            f"The target {target!r} has {n:,} different values in {n_rows:,} rows, such as "
            f"{classes[0]!s} and {classes[1]!s}: hardly two rows are of one class, as with names "
            "or numbers of rows, so there is nothing to learn. Name another column as `target`"
            f"{quantities if is_number(str(classes[0])) else ''}."
        )
    if n > _MOST_CLASSES:
        raise ValueError(
            f"The target {target!r} has {n:,} different values in the first "
            f"rows, such as {classes[0]!s} and {classes[1]!s}: more than the "
            f"{_MOST_CLASSES:,} classes that a model can tell apart. Choose another target, "
            "or regression if these are quantities."
        )
    _warn_of_odd_classes(dict(zip(classes.tolist(), counts.tolist(), strict=True)), target, marks)
    alone = classes[counts == 1].tolist()
    if all_rows and alone and n > 1:
        some = ", ".join(map(repr, alone[:_NAMED])) + ", ..." * (len(alone) > _NAMED)
        warnings.warn(
            f"{len(alone):,} of the {n:,} classes of {target!r} "
            f"{'has a single row' if len(alone) == 1 else 'have a single row each'} ({some}): too "
            "few to learn or to measure anything about them. Give more such rows, join classes, or "
            "leave these rows out.",
            stacklevel=4,
        )
    return list(classes.tolist())


def _warn_of_odd_classes(classes: dict[Any, int], target: str | None, marks: bool) -> None:
    """Warn of classes that may be no class, and of those that may be one."""
    words = {label: n for label, n in classes.items() if isinstance(label, str)}
    alike: dict[str, list[str]] = {}
    for label in words:
        alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
    for same in alike.values():
        if len(same) > 1:
            warnings.warn(
                f"The target {target!r} has classes that differ in blanks or capital letters only: "
                f"{', '.join(map(repr, same[:_NAMED]))}. If they are one, write them alike.",
                stacklevel=5,
            )
    gaps = NullValues().number_gaps() if marks and "+" not in words else ()
    for label, n in words.items():
        if label.strip() in gaps:
            warnings.warn(
                Advice(
                    f"{label!r} is a class of {target!r}, in {n:,} of the first rows. If it means "
                    "that there is no value, say ",
                    Setting(
                        "null_values",
                        (f"{target}={label}",),
                        f"`null_values={{{target!r}: {label!r}}}`",
                    ),
                    ".",
                ),
                stacklevel=5,
            )


def check_varies(
    targets: NDArray[Any],
    others: Iterable[NDArray[Any]],
    target: str | None,
    task: str,
    written: str = "",
) -> None:
    """Say it if all targets are equal; more rows are read only as long as they are.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
        Targets of the first rows.
    others : iterable of ndarray
        Targets of the other rows.
    target : str or None
        Column of the targets.
    task : {"classification", "regression", "gp"}
        What is to be learned.
    written : str, default=""
        What stands in rows without a target.

    Raises
    ------
    ValueError
        If all rows are of one class.

    Warns
    -----
    UserWarning
        If all quantities are equal.
    """
    n_rows = 0
    for some in chain([targets], others):
        if np.any(some != targets[0]):
            return
        n_rows += some.size
    if n_rows == 1:
        return
    if task == "classification":
        check_two_classes(np.unique(targets), target, n_rows, written)
    warnings.warn(
        f"The target {target!r} is {targets[0]:g} in all {n_rows:,} rows, so that is all that a "
        "model can learn to answer. Is another column the `target`?",
        stacklevel=4,
    )


def warn_of_no_data(targets: NDArray[Any], target: str | None) -> None:
    """Warn of numbers in a target that may mean a missing value, such as -9999.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
        Targets of the first rows.
    target : str or None
        Column of the targets.

    Warns
    -----
    UserWarning
        Naming the number.
    """
    for mark in no_data_of(targets)[0]:
        n = int(np.count_nonzero(targets == mark))
        warnings.warn(
            f"The target {target!r} is {mark:.10g} in {n:,} of the first {targets.size:,} rows, "
            "far from all others. If that means that there is no value, leave these cells empty: "
            "rows without a target are left out.",
            stacklevel=4,
        )


def check_two_classes(
    classes: NDArray[Any], target: str | None, n_rows: int, written: str = ""
) -> None:
    """Raise ``ValueError`` if all rows of a classification were of one class."""
    if classes.size < 2:
        raise ValueError(
            f"The target {target!r} is {classes.tolist()[0]!r} in all {n_rows:,} rows, so there is "
            f"nothing to tell apart. {counts_as_none(written)}Give rows of another class or "
            "another target; or use `task='novelty'`, which needs no target, to find what is "
            "unlike these rows."
        )


def warn_if_no_pairs(rows: TableRows, n_rows: int, shuffle_buffer: int) -> None:
    """Warn if a ranking has learned nothing, because no row met a row to compare with.

    Parameters
    ----------
    rows : TableRows
        After the training; no ranking is fine, too.
    n_rows : int
        Rows that it learned.
    shuffle_buffer : int
        Rows shuffled at a time.

    Warns
    -----
    NothingLearnedWarning
        If all coefficients are 0.
    """
    if rows.task != "rank" or np.any(rows.estimator.coefficients_):
        return
    other = "" if rows.estimator.pair_label == "same" else f" with another {rows.target!r}"
    if rows.group is None:
        why = f"a row is paired with an earlier one{other}, and there was none in the buffer"
        mend = "Give data whose target has several values, in mixed order, or a larger `buffer`"
    else:
        why = (
            f"a row is paired with an earlier one of its {rows.group!r}{other}, and there was "
            "none in the buffer"
        )
        mend = (
            "If hardly two rows have the same value there, it is no column of groups: name another "
            "as `group`, or leave it out. If the rows of a group are far apart in the data, raise "
            f"`shuffle_buffer` ({shuffle_buffer:,} rows) above that distance, or sort the data by "
            "the group"
        )
    warnings.warn(
        f"The ranking has learned nothing from {n_rows:,} rows, and its values are all 0: {why}. "
        f"{mend}.",
        NothingLearnedWarning,
        stacklevel=3,
    )


# A sum of parts is solved for display when its rows have grown by this factor.
_GROWTH = 8
# Not so late that the last solution follows at once.
_LATEST = 2 / 3
# Rows are stored on the disk for later passes, up to this many bytes.
_MOST_BYTES = 2**33


def expansion_of(estimator: Any) -> Expansion | None:
    """Return the expansion that an estimator will take; None for a Gaussian process."""
    return estimator.plan().expansion if hasattr(estimator, "plan") else None


def chooses_scales(estimator: Any) -> bool:
    """Return whether an estimator scales inputs and target by itself: it chooses its kernel."""
    return hasattr(estimator, "plan") and bool(estimator.plan().scales)


def make_estimator(
    task: str, loss: Loss | None, options: Mapping[str, Any], n_passes: int, seed: int
) -> Any:
    """Create an estimator that has learned no rows.

    Parameters
    ----------
    task : str
        Key of ``TASKS``.
    loss : Loss or None
        None is the default of the estimator.
    options : mapping
        Further parameters of the estimator.
    n_passes, seed : int
        Passes and seed of the training.

    Raises
    ------
    ValueError
        For parameters that it does not have, or that do not go together.
    """
    kind = TASKS[task]
    chosen = dict(options) if loss is None else {**options, "loss": loss}
    accepted = kind.estimator().get_params(deep=False)
    for name in chosen:
        if name not in accepted:
            raise ValueError(f"`{name}` cannot be chosen for {kind.words}.")
    run = {"n_passes": n_passes, "random_state": seed}
    estimator = kind.estimator(
        **{name: value for name, value in run.items() if name in accepted}, **chosen
    )
    if "normalize_y" in accepted and "normalize_y" not in chosen:
        estimator.set_params(normalize_y=_by_deviation(estimator))
    # What is wrong shall be known before hours of reading, not after.
    estimator.check()
    if isinstance(expansion_of(estimator), Auto):
        _check_sums(estimator, kind.words, options)
        if estimator.expansion == "auto":
            estimator.set_params(expansion=Auto(seed=seed))
    return estimator


def _by_deviation(estimator: Any) -> bool:
    """Whether targets are learned in units of their standard deviation.

    A given kernel needs inputs of suitable size. An estimator that chooses its kernel, and sums
    over rows, find scales by themselves; counts have no unit.
    """
    if not hasattr(estimator, "plan"):
        return True
    plan = estimator.plan()
    return not (plan.scales or plan.default or isinstance(as_loss(estimator.loss), Poisson))


def _check_sums(estimator: Any, words: str, options: Mapping[str, Any]) -> None:
    """Refuse what does not go together with parts that learn by sums."""
    if isinstance(estimator.expansion, Auto):
        by_itself = estimator.__class__(**estimator.get_params(deep=False))
        without = {"risk": None} if "risk" in by_itself.get_params(deep=False) else {}
        by_itself.set_params(expansion="auto", **without)
        if not isinstance(expansion_of(by_itself), Auto):
            given: list[str | Setting] = [words]
            for name in ("loss", "risk", "step_size"):
                if name in options:
                    given += [" and ", Setting(name, estimator.get_params()[name])]
            raise ParameterError(
                Advice(
                    Setting(
                        "expansion", estimator.expansion, f"`expansion={estimator.expansion!r}`"
                    ),
                    " learns by sums over rows, which gives the mean of a loss whose scores are "
                    "in units of the targets, or a risk of it, without steps; got ",
                    *given,
                    ".",
                ),
                parameter="expansion",
                value=estimator.expansion,
                mend="Leave out the options of this expansion, or what it cannot do.",
            )
    if options.get("regularization", "auto") != "auto":
        raise ParameterError(
            "`regularization` is of learning by steps, but the default expansion sums over rows, "
            "and chooses ridges on rows that it has not learned.",
            parameter="regularization",
            value=options["regularization"],
            mend=Advice(
                "Leave it out, or choose ",
                InPython(
                    "another expansion, such as komp",
                    ("another one, such as ", Setting("expansion", "komp")),
                ),
                ".",
            ),
        )
    estimator.check_settings(anew=True)


class RunPlan(NamedTuple):
    """Sizes of a training.

    Attributes
    ----------
    n_passes : int
        Passes over the data.
    rows_per_step : int
        Rows that a step learns.
    cuts_matter : bool
        Whether what is learned depends, in its last digits, on where the rows are cut into chunks:
        random features evaluate old blocks on a whole chunk at once, and sums are taken chunk by
        chunk.
    """

    n_passes: int
    rows_per_step: int
    cuts_matter: bool


def plan_run(estimator: Any, n_passes: int, n_rows: int | None, n_outputs: int = 1) -> RunPlan:
    """Plan a training; give the estimator the sizes that depend on the number of rows.

    Parameters
    ----------
    estimator : estimator
        One that has not learned yet, or whose sizes are known.
    n_passes : int
        Passes that were asked for.
    n_rows : int or None
        Rows of a pass, if known.
    n_outputs : int, default=1
        Components of the function.

    Returns
    -------
    plan : RunPlan
    """
    planned = hasattr(estimator, "plan")
    batch_size = estimator.plan().batch_size if planned else estimator.batch_size
    expansion = expansion_of(estimator)
    # Functions of pairs of second order have a fixed number of features, in ordinary steps.
    bilinear = as_pair_kernel(getattr(estimator, "pair_kernel", "difference")).order == 2
    if isinstance(expansion, Auto):
        # Cells are laid out for the rows to come, if it is known how many these are.
        if n_rows is not None:
            estimator.set_params(expansion=expansion.sized(n_rows, n_outputs))
        return RunPlan(n_passes, batch_size, cuts_matter=True)
    if bilinear or not isinstance(expansion, RandomFeatures):
        return RunPlan(n_passes, batch_size, cuts_matter=isinstance(expansion, Dictionary))
    plan = expansion.plan(batch_size, n_passes, n_rows, n_outputs)
    made = n_passes if n_rows is None else plan.n_passes
    if n_rows is not None:
        estimator.set_params(expansion=expansion.sized(n_rows, n_outputs), n_passes=made)
    return RunPlan(made, plan.rows_per_step, cuts_matter=True)


class TrainingProgress(NamedTuple):
    """What a callback is given after every chunk.

    Attributes
    ----------
    n_rows : int
        Rows learned so far, over all passes and including those before a resumed checkpoint.
    n_total : int or None
        Rows of all passes; None during the first pass over files of unknown length.
    loss : float or None
        Mean loss of the chunk's rows, each before it was learned (regression by a kernel that was
        given: of the standardised target). Of a sum of parts: at its last solution, of the rows
        kept back until then; None before the first one. None for a Gaussian process, which has
        none.
    model_order : int
        Number of dictionary points, or of random features; 0 before there are any.
    rows_per_second : float
        Since the end of the first chunk, which may include compilation.
    """

    n_rows: int
    n_total: int | None
    loss: float | None
    model_order: int
    rows_per_second: float


class Watch:
    """Loss, size and speed of a model along a training.

    What it asks for depends on the rows that were learned only, so that it does not matter to the
    model file when, or how often, a training was stopped. A sum of parts is solved when somebody
    asks, which takes a second or two; here that is each time there are eight times the rows.

    Parameters
    ----------
    rows : TableRows
        What is trained, perhaps resumed.
    n_rows : int
        Rows that it has learned.
    """

    def __init__(self, rows: TableRows, n_rows: int) -> None:
        self.estimator = rows.estimator
        self._sum = self._sum_of_losses()
        self._n_rows = self._n_timed = n_rows
        self._timed_from = time.perf_counter()
        self._looked = False

    def look(self, n_rows: int, n_total: int | None) -> TrainingProgress:
        """Say how far the training has come, after a chunk.

        Parameters
        ----------
        n_rows : int
            Rows learned so far.
        n_total : int or None
            Rows of the training, if known.
        """
        loss, model_order = self._loss_and_order(n_rows - self._n_rows, n_total)
        now = time.perf_counter()
        speed = (n_rows - self._n_timed) / max(now - self._timed_from, 1e-9)
        if not self._looked:
            self._n_timed, self._timed_from, self._looked = n_rows, now, True
        self._n_rows = n_rows
        return TrainingProgress(n_rows, n_total, loss, model_order, speed)

    def _loss_and_order(self, n_new: int, n_total: int | None) -> tuple[float | None, int]:
        """Loss of the rows learned since the last look, and model order."""
        learner = getattr(self.estimator, "learner_", None)
        if isinstance(learner, DefaultLearner):
            late = n_total is not None and learner.n_rows > _LATEST * n_total
            grown = learner.n_rows >= _GROWTH * learner.solved_at
            if learner.is_decided and grown and not late:
                learner.current_function()
            if not learner.solved_at:
                return None, 0
            return float(learner.held_loss), learner.function.size
        before, self._sum = self._sum, self._sum_of_losses()
        if before is None or self._sum is None:
            return None, int(self.estimator.model_order_)
        return (self._sum - before) / n_new, int(self.estimator.model_order_)

    def _sum_of_losses(self) -> float | None:
        """Losses of all rows so far; None for a model whose history has no losses."""
        if not hasattr(self.estimator, "learner_"):
            return 0.0 if hasattr(type(self.estimator), "history_") else None
        history = self.estimator.history_
        return float(history.loss @ np.diff(history.n_samples, prepend=0))


def offer_revisits(estimator: Any, n_rows: int | None) -> bool:
    """Tell a sum of parts, before it is laid out, that its rows can be visited again.

    Parameters
    ----------
    estimator : estimator
        Estimator being trained; only a classifier with the default expansion is changed. Balanced
        classes are weighted in the order of arrival, which a second reading cannot repeat.
    n_rows : int or None
        Rows of the training, if known.

    Returns
    -------
    offered : bool
    """
    learner = getattr(estimator, "learner_", None)
    balanced = getattr(estimator, "class_weight", None) is not None
    if not isinstance(learner, DefaultLearner) or balanced:
        return False
    function = learner.function
    row_bytes = function.n_features * function.dtype.itemsize
    promised, few = learner.revisits, n_rows is None or n_rows * row_bytes <= _MOST_BYTES
    learner.revisits = learner.loss.task == "classification" and few
    if promised and not few:
        most = f"{n_rows:,} rows of {row_bytes:,} bytes are more than {_MOST_BYTES / 2**30:.3g} GiB"
        _warn(f"{most} that would be laid down for it")
    return learner.revisits


def _warn(why: str) -> None:
    warnings.warn(
        f"Newton steps on the loss are left out: {why}. The model is that of least squares on "
        "labels; a file of fewer rows, or Python and `fit`, has the steps.",
        stacklevel=3,
    )


def finish_with_revisits(
    estimator: Any, again: Callable[[], Iterable[Any]], n_rows: int, folder: Path
) -> bool:
    """Say that all rows came, and let steps on the loss follow where they help.

    Parameters
    ----------
    estimator : estimator
        After its last row.
    again : callable
        Gives all its rows once more, in pieces (X, y), in the order in which they were learned.
    n_rows : int
        How many they are.
    folder : Path
        Where to lay them down meanwhile.

    Returns
    -------
    finished : bool
        False if the rows cannot be visited again, so that the model is to be finished without.
    """
    learner: Any = getattr(estimator, "learner_", None)
    if not offer_revisits(estimator, n_rows) or not learner.is_decided:
        return False
    n_features, dtype = learner.function.n_features, learner.function.dtype
    needed = 2 * n_rows * n_features * dtype.itemsize
    if shutil.disk_usage(folder).free < needed:
        _warn(f"{folder} has no {needed / 2**30:.3g} GiB of room")
        return False
    laid: list[NDArray[Any]] = []

    def take(numbers: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        if not laid:
            laid.append(np.memmap(file, dtype, "w+", shape=(n_rows, n_features)))
            labels, at = [], 0
            for X, y in again():
                laid[0][at : at + len(y)] = X
                labels.append(y)
                at += len(y)
            laid.append(estimator.targets_.encode(np.concatenate(labels)))
        inputs, targets = laid
        return inputs[numbers], targets[numbers], np.ones(len(numbers))

    with tempfile.TemporaryFile(dir=folder) as file:
        learner.finish(take)
    return True


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
        self.data, self._looked = TableFiles.of(with_nulls(data, nulls)), False
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

    def _look_again(self) -> None:
        """Forget what the files were when they were looked at last, if that was here."""
        if self._looked:
            self.data = TableFiles(self.data.path)
        self._looked = True

    def _begin(self) -> None:
        """Inspect the first rows, and create a model that has learned only their columns.

        Raises
        ------
        ImportError, FileNotFoundError, ValueError
            See :meth:`mercer_app.training.FileTraining.start`.
        """
        self._look_again()
        if self.task != "auto":
            self._estimator()  # checks the parameters
        names = self.data.columns.names
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
