"""What a model of tables can learn, and the targets and groups of each of these tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.data import TablePreprocessor
from mercer.data.columns import check_names, is_number
from mercer.data.views import Levels, Numbers, view_table
from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.pairs import group_numbers
from mercer.estimators.ranker import KernelRanker
from mercer.estimators.regressor import KernelRegressor
from mercer.exceptions import Advice, ParameterError, Setting

__all__ = [
    "TASKS",
    "TableTask",
    "check_group",
    "check_marks",
    "first_classes",
    "read_groups",
    "read_targets",
    "task_of",
]

Array = NDArray[np.float64]


class TableTask(NamedTuple):
    """A task.

    Attributes
    ----------
    name : str
        As ``mercer fit --task`` takes it.
    title : str
        For headings.
    words : str
        For messages.
    estimator : type
        Class of the estimators that do it.
    targets : {"labels", "quantities", "any", "none"}
        What is learned: classes, numbers in units of their own, what can be put in order, or
        nothing.
    losses : {"classification", "regression"} or None
        Kind of losses to choose from; None for an objective of its own.
    """

    name: str
    title: str
    words: str
    estimator: Any
    targets: str
    losses: str | None

    @property
    def has_target(self) -> bool:
        """Whether learning needs a target."""
        return self.targets != "none"

    @property
    def is_quantity(self) -> bool:
        """Whether what is predicted is a number, in units of its own."""
        return self.targets == "quantities"


_CLASSES, _NUMBERS = "classification", "regression"


TASKS = {
    task.name: task
    for task in (
        TableTask(
            _CLASSES, _CLASSES, "a classification", KernelClassifier, "labels", losses=_CLASSES
        ),
        TableTask(
            _NUMBERS, _NUMBERS, "a regression", KernelRegressor, "quantities", losses=_NUMBERS
        ),
        TableTask("rank", "ranking", "a ranking", KernelRanker, "any", losses=_CLASSES),
        TableTask("novelty", "novelty", "novelty detection", NoveltyDetector, "none", losses=None),
        TableTask(
            "gp",
            "Gaussian process",
            "a Gaussian process",
            GaussianProcessRegressor,
            "quantities",
            losses=None,
        ),
    )
}


def task_of(estimator: Any) -> TableTask:
    """Return the task that an estimator does.

    Raises
    ------
    ValueError
        If no model of tables can be made with it.

    Examples
    --------
    >>> task_of(NoveltyDetector()).name
    'novelty'
    """
    for task in TASKS.values():
        if type(estimator) is task.estimator:
            if not hasattr(estimator, "partial_fit"):
                raise ValueError(
                    f"{estimator!r} needs all rows at once, but a TableModel learns from a stream. "
                    "Use its method='features' or 'dictionary'."
                )
            return task
    names = ", ".join(task.estimator.__name__ for task in TASKS.values())
    raise ValueError(f"`estimator` must be one of {names}, got `{type(estimator).__name__}`.")


def read_targets(table: Any, name: str, *, kind: str) -> NDArray[Any]:
    """Read the targets of a table.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column of the targets.
    kind : {"labels", "quantities", "any"}
        Whether they are labels, numbers to approach, or either: what can be ranked.

    Returns
    -------
    y : ndarray of shape (n_rows,)
        Labels (int64, text or bool) or quantities (float64).

    Raises
    ------
    ValueError
        If the column is missing, has rows without a value, or does not fit the task.
    """
    view = view_table(table)
    check_names([name], view.names, "The table")
    values = view.column(name)
    missing = values.codes < 0 if isinstance(values, Levels) else np.isnan(values.values)
    if missing.any():
        raise ValueError(
            f"The target {name!r} has no value in {int(missing.sum()):,} of {view.n_rows:,} "
            f"rows, first in row {int(np.argmax(missing))} of this table. There is nothing to "
            "learn from or to compare with in such rows: remove them, or fill in the target."
        )
    if kind == "labels" or (kind == "any" and (isinstance(values, Levels) or bool(values.integer))):
        return _labels(values, name)
    if isinstance(values, Levels):
        if not view.n_rows:
            return np.empty(0)
        bad = [level for level in values.levels if values.boolean or not is_number(level)]
        if not bad:
            raise ValueError(
                f"The target {name!r} holds numbers as text, first {values.first()!r}. Convert the "
                "column to numbers; in a CSV file some cell further down is none."
            )
        raise ValueError(
            f"The target {name!r} holds text or truth values, first {bad[0]!r}, but numbers are to "
            "be predicted. Correct such cells, or choose classification, or another target."
        )
    y = values.values.astype(np.float64)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise ValueError(
            f"The target {name!r} holds {y[row]} in row {row} of this table, which no model "
            "can learn. Remove such rows, or replace the value."
        )
    return y


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Class labels of a column without missing values."""
    if isinstance(values, Levels):
        if values.boolean:
            return np.asarray(values.codes == 1)
        return np.array(values.levels or [""], dtype=np.str_)[values.codes]
    whole = values.values.astype(np.int64, copy=False) if values.integer else None
    if whole is None:
        with np.errstate(invalid="ignore"):
            whole = values.values.astype(np.int64)
        if not np.array_equal(whole, values.values):
            row = int(np.argmax(whole != values.values))
            raise ValueError(
                f"The target {name!r} holds {values.values[row]!s} (row {row} of this table), "
                "which is a quantity rather than a class. Choose regression, or turn the target "
                "into classes."
            )
    return np.asarray(whole)


def check_marks(table: Any, target: str) -> None:
    """Raise ``ValueError`` if a target that is to mark novel rows holds quantities.

    Examples
    --------
    >>> check_marks({"kind": [1, -1]}, "kind")
    """
    column = view_table(table).column(target)
    if not isinstance(column, Numbers):
        return
    present = column.values[~np.isnan(column.values)]
    quantities = present[present != np.round(present)]
    if quantities.size:
        raise ValueError(
            f"The target {target!r} holds quantities, first {quantities[0]:g}, but "
            "`task='novelty'` learns no target: it only marks which rows are known, as 1 and -1 "
            "or by labels, to measure what was found. Leave the target out (then exclude the "
            "column, unless it is an input), name a column of labels, or choose regression to "
            "predict it."
        )


def read_groups(table: Any, name: str) -> Array:
    """Read the groups of the rows of a table, as numbers.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column that says which group a row is of: numbers, text or truth values.

    Returns
    -------
    groups : ndarray of shape (n_rows,)
        From ``mercer.estimators.pairs.group_numbers``.

    Raises
    ------
    ValueError
        If the column is missing, or has rows without a value.
    """
    view = view_table(table)
    check_names([name], view.names, "The table")
    values = view.column(name)
    missing = values.codes < 0 if isinstance(values, Levels) else ~np.isfinite(values.values)
    if missing.any():
        raise ValueError(
            f"The group {name!r} has no value in {int(missing.sum()):,} of {view.n_rows:,} rows, "
            f"first in row {int(np.argmax(missing))} of this table: nobody knows which rows to "
            "compare these with. Remove them, or fill in the group."
        )
    if not isinstance(values, Levels):
        return group_numbers(values.values, view.n_rows)
    if values.boolean:
        return np.asarray(values.codes == 1, dtype=np.float64)
    return group_numbers(
        np.array(values.levels or [""], dtype=np.str_), max(1, len(values.levels))
    )[values.codes]


def check_group(group: str | None, target: str | None, ranks: bool, columns: Any) -> None:
    """Raise ``ValueError`` unless a column can say which rows are compared.

    Parameters
    ----------
    group, target : str or None
        Names of the columns.
    ranks : bool
        Whether the model is a ranking.
    columns : TablePreprocessor
        How columns become inputs.
    """
    if group is None:
        return
    if not ranks:
        raise ParameterError(
            f"`group` is for rankings, which compare rows of a group, got {group!r} for a model of "
            "single rows.",
            parameter="group",
            value=group,
            mend=Advice(
                "Leave it out, or use a KernelRanker, which ", Setting("task", "rank"), " makes."
            ),
        )
    if group == target:
        raise ValueError(
            f"`group` and `target` must be two columns, got {group!r} for both: rows of a group "
            "would all have the same target, with nothing to compare."
        )
    if isinstance(columns, TablePreprocessor) and group not in columns.exclude:
        raise ValueError(
            f"The group {group!r} must be in the preprocessor's `exclude`, got "
            f"{tuple(columns.exclude)!r}: a number of a query says nothing of its rows."
        )


def first_classes(ranker: Any, y: NDArray[Any], grouped: bool) -> NDArray[Any] | None:
    """Two classes that the warm-up rows have, so that the first rows learned may lack one.

    Parameters
    ----------
    ranker : KernelRanker
        Not fitted yet; stays as it is.
    y : ndarray of shape (n_rows,)
        Targets of the warm-up rows.
    grouped : bool
        Whether rows have groups.

    Returns
    -------
    classes : ndarray of shape (2,) or None
        None where the ranker takes y for something else than two classes, or saw one only.

    Raises
    ------
    ValueError
        For targets that the ranker cannot learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRanker
    >>> first_classes(KernelRanker(), np.array(["no", "yes", "no"]), False).tolist()
    ['no', 'yes']
    """
    labels = ranker.start_pairs(y, grouped=grouped).labels
    return labels.classes if labels.kind == "two" and labels.classes.size == 2 else None
