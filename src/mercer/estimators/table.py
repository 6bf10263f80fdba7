"""Models of tables: what they can learn, their columns, estimator and units in one file."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

from mercer.columns import TablePreprocessor
from mercer.columns.audit import TableAudit
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.odd_cells import Unreadable
from mercer.columns.readings import TargetForm, time_form
from mercer.columns.views import (
    Levels,
    Numbers,
    check_names,
    is_number,
    is_table,
    missing_cells,
    view_table,
)
from mercer.conformal import check_coverage
from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.explaining import Explaining
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.inputs import warn_user
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.pairs import group_numbers
from mercer.estimators.ranker import KernelRanker
from mercer.estimators.regressor import KernelRegressor
from mercer.estimators.undo import all_or_nothing
from mercer.estimators.value_function import ValueFunction
from mercer.exceptions import Advice, LeakWarning, ParameterError, Setting
from mercer.expansions import Auto
from mercer.history import History
from mercer.losses import Poisson, as_loss
from mercer.model_file import save_model, storable
from mercer.validation import check_choice

if TYPE_CHECKING:
    from mercer.answers.explain import Explained

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

# Learned from transitions, not from rows: see mercer_app.training.TransitionColumns.
_VALUES = TableTask(
    "value", "value function", "a value function", ValueFunction, "quantities", losses=None
)
_TASKS = (*TASKS.values(), _VALUES)
_ESTIMATORS: dict[str, Any] = {t.estimator.__name__: t.estimator for t in _TASKS}


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
    for task in _TASKS:
        if type(estimator) is task.estimator:
            if not hasattr(estimator, "partial_fit"):
                raise ValueError(
                    f"{estimator!r} needs all rows at once, but a TableModel learns from a stream. "
                    "Use its method='features' or 'dictionary'."
                )
            return task
    names = ", ".join(task.estimator.__name__ for task in _TASKS)
    raise ValueError(f"`estimator` must be one of {names}, got `{type(estimator).__name__}`.")


def read_targets(
    table: Any, name: str, *, kind: str, form: TargetForm | None = None
) -> NDArray[Any]:
    """Read the targets of a table.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column of the targets.
    kind : {"labels", "quantities", "any"}
        Whether they are labels, numbers to approach, or either: what can be ranked.
    form : TargetForm or None, default=None
        How quantities, or what can be ranked, are written, if they are more than plain numbers.

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
    ranked = kind == "any" and form is None
    if kind == "labels" or (ranked and (isinstance(values, Levels) or bool(values.integer))):
        return _labels(values, name)
    if form is not None and view.n_rows and not (isinstance(values, Levels) and values.boolean):
        return _written(values, name, form)
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


def _written(values: Numbers | Levels, name: str, form: TargetForm) -> Array:
    """Read quantities that are written as text, or are dates."""
    found = form.read(values)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        if isinstance(values, Levels):
            cell: Any = values.levels[values.codes[row]]
        else:
            cell = values.values[row].item()
        raise ValueError(
            f"The target {name!r} holds {cell!r} in row {row} of this table, which is no "
            f"{form.kind} as the first ones are written. Correct such cells, or remove these rows."
        )
    return found


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Class labels of a column without missing values."""
    if isinstance(values, Levels):
        if values.boolean:
            return np.asarray(values.codes == 1)
        return np.array(values.levels or [""], dtype=np.str_)[values.codes]
    if values.unit:
        return _named_moments(values)
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


def _named_moments(values: Numbers) -> NDArray[Any]:
    """Write dates and times of the day as text, each in the same way in any table."""
    seconds, rows = np.unique(values.values, return_inverse=True)
    moments = np.round(seconds * 1e6).astype(np.int64).astype("datetime64[us]")
    names = [str(moment).removesuffix(".000000") for moment in moments]
    if values.unit == "time":
        names = [name.partition("T")[2] for name in names]
    names = [name.removesuffix("T00:00:00").replace("T", " ") for name in names]
    return np.array(names or [""], dtype=np.str_)[rows]


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


def chooses_scales(estimator: Any) -> bool:
    """Whether an estimator finds scales of inputs and target by itself: it chooses its kernel."""
    return hasattr(estimator, "plan") and bool(estimator.plan().scales)


def check_time(time: str | None, group: str | None, target: str | None, takes: bool) -> None:
    """Raise ``ValueError`` unless a column can say which rows are later than others.

    Parameters
    ----------
    time, group, target : str or None
        Names of the columns.
    takes : bool
        Whether the model lets the last rows judge.
    """
    if time is None:
        return
    if not takes:
        raise ParameterError(
            "`time` is for classifications and regressions by the default expansion, which let "
            f"the last rows judge what was learned of those before, got {time!r}.",
            parameter="time",
            value=time,
            mend=Advice("Leave it out, or choose ", Setting("expansion", "auto"), "."),
        )
    if group is not None:
        raise ValueError(
            "`group` and `time` were both given, and rows are held out by one of them. Give "
            "`group` if new rows will be of new groups, `time` if they will be later."
        )
    if time == target:
        raise ValueError(
            f"`time` and `target` must be two columns, got {time!r} for both: rows would be in the "
            "order of what is to be predicted."
        )


def check_group(group: str | None, target: str | None, takes: bool, columns: Any) -> None:
    """Raise ``ValueError`` unless a column can say which rows belong together.

    Parameters
    ----------
    group, target : str or None
        Names of the columns.
    takes : bool
        Whether the model compares rows of a group, or holds them out together.
    columns : TablePreprocessor
        How columns become inputs.
    """
    if group is None:
        return
    if not takes:
        raise ParameterError(
            f"`group` is for rankings, which compare rows of a group, and for classifications and "
            f"regressions by the default expansion, which hold them out together, got {group!r}.",
            parameter="group",
            value=group,
            mend=Advice("Leave it out, or choose ", Setting("expansion", "auto"), "."),
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


def _said_of_leaks(leaks: dict[str, str], target: str | None) -> Advice:
    """Warn of columns that tell the target alone."""
    said = ", ".join(f"{name!r} ({how})" for name, how in leaks.items())
    several = len(leaks) > 1
    return Advice(
        f"The column{'s' * several} {said} tell{'s' * (not several)} the target {target!r} alone. "
        "If it is not known before the target is, the model will be useless however good it looks: "
        "leave it out with ",
        Setting("exclude", tuple(leaks)[:1], f"`exclude={tuple(leaks)}`"),
        ".",
    )


@storable
class TableModel(Explaining):
    r"""A kernel machine that learns from and predicts for tables with named columns.

    It joins a :class:`mercer.columns.TablePreprocessor`, an estimator and the target's column, so
    that a stream of raw tables goes in and labels or quantities come out. This is what
    ``mercer fit`` writes.

    All that is measured on data (means, scales, categories) comes from the warm-up and is then
    frozen, because the dictionary holds rows as they were encoded when learned. A regression whose
    kernel was given learns the standardised target :math:`(y - \bar y) / s`, with the mean and the
    standard deviation of the warm-up rows, and predictions are mapped back; so ``delta`` of a Huber
    loss and ``history_`` are in units of s. All others learn the target as it is.

    Parameters
    ----------
    estimator : estimator
        What learns: a KernelClassifier, KernelRegressor, KernelRanker, NoveltyDetector or
        GaussianProcessRegressor, trained in place; or a ValueFunction, which
        :class:`mercer_app.training.TransitionColumns` trains.
    preprocessor : TablePreprocessor
        How columns become inputs. Its ``exclude`` must hold the target and the group.
    target : str or None, default=None
        Column to predict, or to rank by. For a novelty detector it is not learned: a column of
        labels to compare with, or None.
    group : str or None, default=None
        Column that says which rows a ranking compares: those of one query, say; or which ones a
        classification or a regression holds out together.
    time : str or None, default=None
        Column of dates, times or numbers by which rows come in order, tables, too: the last rows
        judge what was learned of those before. It stays among the inputs, unless it is excluded.

    Attributes
    ----------
    task : {"classification", "regression", "rank", "novelty", "gp", "value"}
        What the estimator does.
    has_target : bool
        Whether learning needs the target.
    predicts_quantities : bool
        Whether predictions are numbers in units of the target.
    target_mean_, target_scale_ : float
        Mean and standard deviation of the target in the warm-up; 0 and 1 if it is no quantity.
    classes_ : ndarray of shape (n_classes,)
        Labels seen, sorted (classification, and ranking of two classes): integers, text or
        booleans. A classification keeps whole floats such as -1.0 as integers.
    audit_ : TableAudit
        What each column is, and what became of it.
    target_form_ : TargetForm or None
        How the first targets are written, if they are quantities as text, ``$1,200``, say, or
        dates, and in what unit they are learned; None for plain numbers.
    leaks_ : dict of str to str
        Columns that tell the target alone in the first rows, and how.
    history_ : History
        Progressive loss, model order and compression error over the stream (not of a Gaussian
        process, which has no steps).
    model_order_ : int
        Number of dictionary points, or of random features.

    Raises
    ------
    ValueError
        If the estimator or the preprocessor is of another kind, or would see the target.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelClassifier
    >>> from mercer.columns import TablePreprocessor
    >>> towns = np.array(["Bern", "Bonn"] * 100)
    >>> table = {"town": towns, "height": np.where(towns == "Bern", 540.0, 60.0)}
    >>> model = TableModel(
    ...     KernelClassifier(random_state=0), TablePreprocessor(exclude=("town",)), "town"
    ... ).partial_fit(table)
    >>> model.predict({"height": np.array([500.0, 70.0])}).tolist()
    ['Bern', 'Bonn']
    """

    def __init__(
        self,
        estimator: Any,
        preprocessor: TablePreprocessor,
        target: str | None = None,
        group: str | None = None,
        time: str | None = None,
    ) -> None:
        self._task = task_of(estimator)
        if not isinstance(preprocessor, TablePreprocessor):
            raise ValueError(
                f"`preprocessor` must be a TablePreprocessor, got `{type(preprocessor).__name__}`."
            )
        if target is None and self._task.has_target:
            raise ValueError(
                f"`target` must name the column to learn, got None: only novelty detection goes "
                f"without, and this is {self._task.words}."
            )
        if target is not None and target not in preprocessor.exclude:
            raise ValueError(
                f"The target {target!r} must be in the preprocessor's `exclude`, got "
                f"{tuple(preprocessor.exclude)!r}: else the inputs would give the answer away."
            )
        holds_out = self.task in ("classification", "regression") and isinstance(
            estimator.plan().expansion, Auto
        )
        check_group(group, target, holds_out or self.task == "rank", preprocessor)
        check_time(time, group, target, holds_out)
        self.estimator = estimator
        self.preprocessor = preprocessor
        self.target = target
        self.group = group
        self.time = time
        self._time_form: DateForm | NumberForm | None = None
        self._first_classes: NDArray[Any] | None = None
        self.target_mean_, self.target_scale_ = 0.0, 1.0
        self._form: TargetForm | None = None  # how the target is written, of any kind
        self.leaks_: dict[str, str] = {}

    def __repr__(self) -> str:
        group = "" if self.group is None else f", {self.group!r}"
        return f"TableModel({self.estimator!r}, {self.preprocessor!r}, {self.target!r}{group})"

    @property
    def task(self) -> str:
        """What the estimator does."""
        return self._task.name

    @property
    def has_target(self) -> bool:
        """Whether learning needs the target."""
        return self._task.has_target

    @property
    def compared_within(self) -> str | None:
        """Column of the groups within which rows are compared; None but of rankings."""
        return self.group if self.task == "rank" else None

    @property
    def ranked_by(self) -> str:
        """How a ranking takes its target, in words, if it is more than plain numbers or labels."""
        form = None if self.predicts_quantities else self._form
        return "" if form is None else form.said.partition(", with errors")[0]

    @property
    def scores_rows(self) -> bool:
        """Whether rows have scores: not all rankings do, some answer on pairs only."""
        return hasattr(self.estimator, "decision_function")

    @property
    def predicts_quantities(self) -> bool:
        """Whether predictions are numbers in units of the target."""
        return self._task.is_quantity

    @property
    def columns_(self) -> list[str]:
        """Columns that learning reads."""
        learned = [self.target] if self.has_target and self.target is not None else []
        inputs = self.preprocessor.feature_names_in_
        together = [name for name in (self.group, self.time) if name is not None]
        return [*inputs, *learned, *(name for name in together if name not in inputs)]

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels seen, sorted."""
        return np.asarray(self.estimator.classes_)

    @property
    def history_(self) -> History:
        """Course of the learning so far."""
        history: History = self.estimator.history_
        return history

    @property
    def model_order_(self) -> int:
        """Number of dictionary points, or of random features."""
        return int(self.estimator.model_order_)

    @property
    def audit_(self) -> TableAudit:
        """What each column is, what became of it, and whether it tells the target alone."""
        return self.preprocessor.audit_.remarked(
            {name: f"LEAK? {said}" for name, said in self.leaks_.items()}
        )

    @property
    def text_columns_(self) -> list[str]:
        """Columns that held text or categories in the warm-up, and are read as text from CSV."""
        form = self._form
        written = [] if form is None or not form.is_text else [str(self.target)]
        return [*self.preprocessor.text_columns_, *written]

    # -- reading --------------------------------------------------------------------------------

    def inputs(
        self,
        table: Any,
        *,
        extra: Literal["error", "drop"] = "error",
        learned: bool = False,
        lenient: bool = False,
    ) -> NDArray[np.floating]:
        """Encode a table for the estimator.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the columns of the warm-up; the target may be absent.
        extra : {"error", "drop"}, default="error"
            What to do about columns that the warm-up did not have.
        learned : bool, default=False
            Whether :meth:`learn` will take these rows: see
            :meth:`mercer.columns.TablePreprocessor.transform`.
        lenient : bool, default=False
            Whether text in columns that held numbers, dates or times is a gap, not an error.

        Returns
        -------
        X : ndarray of shape (n_rows, n_inputs)
            float32 from 64 inputs on (mercer computes in float64 where that is too coarse).

        Raises
        ------
        ValueError
            If a column is missing, new, or changed between numbers and text.
        """
        return self.preprocessor.transform(table, extra=extra, learned=learned, lenient=lenient)

    def targets(self, table: Any, *, column: str | None = None) -> NDArray[Any]:
        """Read the targets of a table, checked.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the target.
        column : str, default=None
            Where the targets are, if not in the column ``target``.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Labels (int64, text or bool) or quantities (float64) in their own units, dates in those
            of ``target_form_``, such as days since 1970; for a ranking what the column holds, of
            dates, too, numbers in their order.

        Raises
        ------
        ValueError
            If the column is missing, has rows without a value, or does not fit the task.
        """
        name = self.target if column is None else column
        if name is None:
            raise ValueError(
                "This model was made without a target, so `column` must say where labels to "
                "compare with are."
            )
        kind = self._task.targets if self._task.has_target else "labels"
        view = self.preprocessor.view(table)
        if kind != "labels" and self._form is None and not self.preprocessor.frozen_:
            check_names([name], view.names, "The table")
            told = (self.preprocessor.kinds or {}).get(name, "")
            self._form = TargetForm.of(name, view.column(name), told)
        return read_targets(view, name, kind=kind, form=self._form)

    def _learned(self, table: Any) -> NDArray[Any]:
        """Targets as :meth:`learn` takes them: of no width where none are learned."""
        if self._task.has_target:
            return self.targets(table)
        return np.empty((view_table(table).n_rows, 0))

    def groups(self, table: Any) -> Array | None:
        """Read the groups of the rows of a table, as numbers; None for a model without groups.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the column ``group``.

        Raises
        ------
        ValueError
            If the column is missing, or has rows without a value.
        """
        if self.group is None:
            return None
        return read_groups(self.preprocessor.view(table), self.group)

    def times(self, table: Any) -> Array:
        """Read what puts the rows of a table in order, as numbers, for a model with such a column.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the column ``time``.

        Raises
        ------
        ValueError
            If the column is missing, has rows without a value, or holds no times.
        """
        name, view = str(self.time), self.preprocessor.view(table)
        check_names([name], view.names, "The table")
        column = view.column(name)
        if self._time_form is None:
            self._time_form = time_form(name, column)
        if isinstance(column, Numbers):
            times = column.values.astype(np.float64)
        else:
            form = self._time_form or time_form(name, column)
            assert form is not None
            times = np.append(form.read(column.levels), np.nan)[column.codes]
        missing = ~np.isfinite(times)
        if missing.any():
            raise ValueError(
                f"The time {name!r} has no value that can be read in {int(missing.sum()):,} of "
                f"{view.n_rows:,} rows, first in row {int(np.argmax(missing))} of this table: "
                "nobody knows which rows are later. Remove them, or fill in the time."
            )
        return times

    def rows(self, table: Any) -> tuple[NDArray[np.floating], NDArray[Any]]:
        """Read what :meth:`learn` takes: inputs and targets of a table.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        X : ndarray of shape (n_rows, n_inputs)
            From :meth:`inputs`.
        y : ndarray of shape (n_rows,), or (n_rows, 0) for novelty detection
            From :meth:`targets`.

        Raises
        ------
        ValueError
            As :meth:`inputs` and :meth:`targets`.
        """
        return self.inputs(table, learned=True), self._learned(table)

    # -- measuring ------------------------------------------------------------------------------

    def warm_up(self, tables: Any) -> Self:
        """Measure columns and target on the first rows; must come before learning.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or several of them;
            no more are drawn than the preprocessor's ``warmup_rows``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are no rows, a column is unusable, or targets are missing or of a wrong kind;
            nothing is measured then.
        """
        if self.preprocessor.frozen_:
            raise ValueError(
                "The warm-up is over: what was learned since is in its units. Make a new "
                "TableModel to measure the columns again."
            )
        columns = self.preprocessor.__dict__
        before = copy.deepcopy(columns)
        with all_or_nothing(self):
            try:
                self._measure_first(tables)
            except BaseException:
                columns.clear()
                columns.update(before)
                raise
        return self

    def _measure_first(self, tables: Any) -> None:
        """Measure columns and target on the first rows."""
        parts: Iterable[Any] = [tables] if is_table(tables) else tables
        targets: list[NDArray[Any]] = []
        for table in parts:
            targets.append(self._learned(table))
            if len(targets) == 1:
                self.look(table)
            if self.measure(self.preprocessor, table, targets[-1]).frozen_:
                break
        self.preprocessor.freeze()
        self._finish_measuring()
        y = np.concatenate(targets)[: self.preprocessor.n_samples_seen_]
        if self.task == "rank":
            self._first_classes = first_classes(self.estimator, y, self.group is not None)
        if self._standardises():
            self.target_mean_ = float(y.mean())
            self.target_scale_ = float(y.std()) or 1.0

    def measure(self, columns: TablePreprocessor, table: Any, y: NDArray[Any]) -> TablePreprocessor:
        """Add rows to the statistics of columns, with what they tell of the target.

        Parameters
        ----------
        columns : TablePreprocessor
            Not frozen yet.
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows.
        y : ndarray of shape (n_rows,)
            Their targets.

        Returns
        -------
        columns : TablePreprocessor
            The same.
        """
        told = self._task.targets in ("labels", "quantities")
        return columns.partial_fit(table, y if told else None)

    def look(self, table: Any) -> Self:
        """Find out what the columns of a table are, before any row is measured.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            First rows.

        Returns
        -------
        self
        """
        told = self._task.targets in ("labels", "quantities")
        y = self._learned(table) if told else None
        self.preprocessor.look(table, y)
        if y is not None:
            self.leaks_ = self.preprocessor.leaks(table, y)
        return self

    def measured(self, columns: TablePreprocessor, targets: Any = None) -> Self:
        """Take over what was measured of columns and targets elsewhere, in place of a warm-up.

        Parameters
        ----------
        columns : TablePreprocessor
            With statistics of all rows, not frozen; it is frozen. Moments are rounded to seven
            digits, so that the order of merging does not matter.
        targets : NumberStatistics, default=None
            Moments of the target, if it is a quantity.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a column is unusable.
        """
        self.preprocessor = columns.rounded().freeze()
        self._finish_measuring()
        if targets is not None and self._standardises():
            targets = targets.rounded()
            self.target_mean_ = float(targets.mean[0])
            self.target_scale_ = float(np.sqrt(targets.variance()[0])) or 1.0
        return self

    def _finish_measuring(self) -> None:
        if self.leaks_:
            warn_user(_said_of_leaks(self.leaks_, self.target), LeakWarning)

    def _standardises(self) -> bool:
        """Whether the target is learned in units of its standard deviation.

        So it is where a kernel was given, to learn numbers that are near its own. An estimator that
        chooses its kernel finds the units, too; a Gaussian process has ``normalize_y``, and counts
        have no units.
        """
        if self.task != "regression" or chooses_scales(self.estimator):
            return False
        return not isinstance(as_loss(self.estimator.loss), Poisson)

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> Self:
        """Learn rows that :meth:`rows` and :meth:`groups` prepared, in order.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_inputs)
            Encoded inputs.
        y : ndarray of shape (n_rows,), or (n_rows, 0) for novelty detection
            Labels, or quantities in their own units.
        group : ndarray of shape (n_rows,) or None, default=None
            Groups, for a model that has them.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before the warm-up.
        ValueError
            For wrong parameters or data; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        if not self.preprocessor.frozen_:
            raise NotFittedError("The columns were not measured yet: call `warm_up` first.")
        if (group is None) != (self.group is None):
            raise ValueError(
                f"`group` must be {'None' if self.group is None else 'the groups of the rows'}: "
                f"this model was made with group={self.group!r}. Pass what `groups` returns."
            )
        if self.task == "value":
            raise ValueError(
                "A value function learns transitions, not rows with a target. Use "
                "mercer_app.training.TransitionColumns, or `mercer value`."
            )
        if self.predicts_quantities:
            y = (y - self.target_mean_) / self.target_scale_
        if self.task == "rank":
            self.estimator.partial_fit(X, y, classes=self._first_classes, group=group)
        elif self.time is not None:
            self.estimator.learn_in_time(X, y)
        elif group is None:
            self.estimator.partial_fit(X, y)
        else:
            self.estimator.learn_groups(X, y, np.ascontiguousarray(group + 0.0).view(np.int64))
        return self

    def partial_fit(self, table: Any) -> Self:
        """Learn the rows of a table in order; the first table is the warm-up if there was none.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        self

        Raises
        ------
        ValueError, mercer.exceptions.DivergenceError
            As :meth:`warm_up`, :meth:`inputs`, :meth:`targets` and :meth:`learn`.
        """
        if not self.preprocessor.frozen_:
            self.warm_up(table)
        X, y = self.rows(table)
        if self.time is not None:
            order = np.argsort(self.times(table), kind="stable")
            X, y = X[order], y[order]
        return self.learn(X, y, self.groups(table))

    def finish(self) -> Self:
        """Say that all rows came, as ``fit`` on arrays knows by itself.

        A sum of parts then predicts by every row, and its file leaves large sums out, unless its
        expansion is ``Auto(resumable=True)``. To other models it makes no difference.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before the warm-up.
        """
        if not self.preprocessor.frozen_:
            raise NotFittedError("Nothing was learned yet: call `partial_fit` first.")
        learner = getattr(self.estimator, "learner_", None)
        if learner is not None:
            learner.finish()
        return self

    # -- answers, in units of the target --------------------------------------------------------

    def predict(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> NDArray[Any]:
        """Labels or quantities of the rows of a table; -1 for a novel row, 1 for any other.

        Of a ranking the scores: rows with higher ones rank above.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Labels of ``classes_``, or quantities in the target's units, datetime64 if it holds
            dates; (n_rows, n_levels) for several quantile levels.

        Raises
        ------
        AttributeError
            For a ranking that answers on pairs only: see :meth:`predict_pair`.
        """
        return self.as_written(self.predict_inputs(self._asked(table, extra)))

    @property
    def target_form_(self) -> TargetForm | None:
        """How quantities are written that are learned and answered."""
        return self._form if self._task.is_quantity else None

    def as_written(self, values: NDArray[Any]) -> NDArray[Any]:
        """Turn numbers that :meth:`predict_inputs` gave into what the target holds.

        Parameters
        ----------
        values : ndarray
            Quantities, or any others.

        Returns
        -------
        answers : ndarray
            datetime64 if the target holds dates, text as ``13:30:00`` if it holds times of the day,
            else the values.
        """
        return values if self.target_form_ is None else self.target_form_.answers(values)

    def _asked(self, table: Any, extra: Literal["error", "drop"]) -> NDArray[np.floating]:
        """Encode rows to answer for; cells that cannot be what their column is are gaps, and said.

        A column most of whose cells cannot be is another one, which is an error.
        """
        columns, odd = self.preprocessor, Unreadable(strict=False)
        view, lenient = columns.view(table), True
        for name, kind, n, cell, row in columns.unreadable(table):
            odd.add(name, kind, n, cell, f"row {row} of this table")
            some = view.n_rows - missing_cells(view.column(name))
            lenient &= not columns.readings_[name].is_another(n, some)
        X = self.inputs(table, extra=extra, lenient=lenient)
        for text in odd.said():
            warn_user(text, UserWarning)
        return X

    def predict_pair(
        self, table1: Any, table2: Any, *, extra: Literal["error", "drop"] = "error"
    ) -> Array:
        """Values of pairs of rows, by a ranking of any pair kernel.

        Parameters
        ----------
        table1, table2 : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            First and second rows of the pairs; neither target nor group is looked at.
        extra : {"error", "drop"}, default="error"
            As :meth:`inputs`.

        Returns
        -------
        values : ndarray of shape (n_pairs,)
            Above 0 if the first row should rank above the second, or, for ``pair_label="same"``,
            if they belong together.

        Raises
        ------
        AttributeError
            If the model is no ranking.
        ValueError
            If one table has more rows than the other, or as :meth:`inputs`.
        """
        if self._task.name != "rank":
            raise AttributeError(
                f"Only a ranking has values of pairs of rows, but this is {self._task.words}. Use "
                "a KernelRanker, which `mercer fit --task rank` trains."
            )
        first, second = (self._asked(table, extra) for table in (table1, table2))
        if len(first) != len(second):
            raise ValueError(
                "`table1` and `table2` must have one row for each pair, got "
                f"{len(first):,} and {len(second):,} rows."
            )
        return np.asarray(self.estimator.predict_pair(first, second))

    def predict_inputs(self, X: NDArray[np.floating]) -> NDArray[Any]:
        """Labels, quantities (dates as numbers) or scores of rows encoded by :meth:`inputs`."""
        values = self.estimator.predict(X)
        if not self._task.is_quantity:
            return np.asarray(values)
        return np.asarray(values * self.target_scale_ + self.target_mean_)

    def predict_std(self, X: NDArray[np.floating], *, include_noise: bool = True) -> Array:
        """Say how far a Gaussian process's predictions may be off, as standard deviations.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_inputs)
            Rows encoded by :meth:`inputs`.
        include_noise : bool, default=True
            Of a new observation; otherwise of the function without noise.

        Returns
        -------
        std : ndarray of shape (n_rows,)
            In units of the target; of dates in those of ``target_form_``, such as days.

        Raises
        ------
        AttributeError
            If the model is no Gaussian process.
        """
        if self._task.name != "gp":
            raise AttributeError(
                f"Only a Gaussian process has standard deviations, but this is {self._task.words}. "
                "Use a GaussianProcessRegressor, or a quantile loss for intervals."
            )
        _, std = self.estimator.predict(X, return_std=True, include_noise=include_noise)
        return np.asarray(std * self.target_scale_)

    def predict_proba(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> Array:
        """Probabilities of ``classes_``, shape (n_rows, n_classes), if the loss models them.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Raises
        ------
        AttributeError
            If the estimator has no probabilities.
        """
        return np.asarray(self.estimator.predict_proba(self._asked(table, extra)))

    def decision_function(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> Array:
        """Scores of a classifier, (n_rows,) for two classes, else (n_rows, n_classes).

        Of a novelty detector (n_rows,), below 0 for what is novel; of a ranking (n_rows,), higher
        for what ranks above.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Raises
        ------
        AttributeError
            For a regression, and a ranking that answers on pairs only.
        """
        return np.asarray(self.estimator.decision_function(self._asked(table, extra)))

    # -- intervals ------------------------------------------------------------------------------

    def predict_interval(
        self,
        table: Any,
        coverage: float = 0.9,
        *,
        method: str = "auto",
        extra: Literal["error", "drop"] = "error",
    ) -> Array:
        """Intervals that hold the target of a share ``coverage`` of the rows.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.
        coverage, method
            As ``predict_interval`` of :class:`mercer.KernelRegressor`.

        Returns
        -------
        intervals : ndarray of shape (n_rows, 2)
            Lower and upper ends, in units of the target, or dates. Those of a Gaussian process are
            what it believes: the mean plus and minus multiples of the standard deviation of a new
            observation.

        Raises
        ------
        AttributeError
            If the model does not predict quantities.
        ValueError
            As ``predict_interval`` of :class:`mercer.KernelRegressor`.
        """
        X = self._asked(table, extra)
        return self.as_written(self.interval_of_inputs(X, coverage, method=method))

    def interval_of_inputs(
        self, X: NDArray[np.floating], coverage: float = 0.9, *, method: str = "auto"
    ) -> Array:
        """Intervals of rows already encoded by :meth:`inputs`."""
        if self._task.name == "gp":
            check_coverage(coverage)
            half = float(ndtri(0.5 + coverage / 2.0)) * self.predict_std(X)
            mean = self.predict_inputs(X)
            return np.column_stack([mean - half, mean + half])
        if not hasattr(self.estimator, "predict_interval"):
            raise AttributeError(
                f"Only models of quantities have intervals, but this is {self._task.words}."
                + (" Use `predict_set`." if self._task.name == "classification" else "")
            )
        found = self.estimator.predict_interval(X, coverage, method=method)
        return np.asarray(found * self.target_scale_ + self.target_mean_)

    def predict_set(
        self,
        table: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        empty: bool = False,
        extra: Literal["error", "drop"] = "error",
    ) -> NDArray[np.bool_]:
        """Find sets that hold the true class of a share ``coverage`` of the rows, at least.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.
        coverage, by_class, empty
            As ``predict_set`` of :class:`mercer.KernelClassifier`.

        Returns
        -------
        sets : ndarray of shape (n_rows, n_classes) of bool
            Columns in the order of ``classes_``.

        Raises
        ------
        AttributeError
            If the model does not predict classes.
        ValueError
            As ``predict_set`` of :class:`mercer.KernelClassifier`.
        """
        if not hasattr(self.estimator, "predict_set"):
            raise AttributeError(
                f"Only classifications have sets of classes, but this is {self._task.words}."
            )
        X = self._asked(table, extra)
        found = self.estimator.predict_set(X, coverage, by_class=by_class, empty=empty)
        return np.asarray(found)

    def calibrate(self, table: Any) -> Self:
        """Take rows to find intervals by, or sets of classes, that were and will not be learned.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If the model has neither intervals nor sets of classes that rows could calibrate.
        ValueError
            As :meth:`inputs` and :meth:`targets`.
        """
        return self.calibrate_by_inputs(self.inputs(table), self.targets(table))

    def calibrate_by_inputs(self, X: NDArray[np.floating], y: NDArray[Any]) -> Self:
        """Take rows already encoded by :meth:`inputs`, with targets in their own units."""
        if not hasattr(self.estimator, "calibrate"):
            raise AttributeError(
                "Only classifications and regressions are calibrated, but this is "
                f"{self._task.words}."
            )
        if self._task.is_quantity:
            y = (y - self.target_mean_) / self.target_scale_
        self.estimator.calibrate(X, y)
        return self

    # -- explanations ---------------------------------------------------------------------------

    @property
    def feature_names_in_(self) -> list[str]:
        """Columns that inputs are made of."""
        return self.preprocessor.feature_names_in_

    def _explained(self) -> Explained:
        """See :class:`Explaining`: in units of the target, by columns of the table."""
        if not hasattr(self.estimator, "explain"):
            raise AttributeError(
                f"{self._task.words.capitalize()} has no explanations: there are those of rows and "
                "their targets, of novelty and of the scores of a ranking."
            )
        columns, names = self.preprocessor, self.feature_names_in_
        number = {name: i for i, name in enumerate(names)}
        told: Explained = self.estimator._explained()
        form = self.target_form_
        if form is not None and form.kind != "number":
            told = told._replace(quantity=f"{told.quantity} in {form.axis}")
        return told._replace(
            owners=np.array([number[name] for name in columns.owners_out()], dtype=int),
            names=names,
            encode=lambda table: self.inputs(table, extra="drop"),
            grid=lambda column, *how: columns.grid(names[column], *how),
        ).scaled(self.target_scale_, self.target_mean_)

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the model to a file that :func:`mercer.load_model` reads.

        Parameters
        ----------
        path : str or path-like
            Where to write; an existing file is replaced once the new one is complete.

        Raises
        ------
        ValueError
            If nothing was learned yet, or a part cannot be stored without code.
        OSError
            If the file cannot be written.
        """
        save_model(self, path)

    def to_state(self) -> dict[str, Any]:
        """Everything that prediction and further learning need, as plain data.

        Raises
        ------
        ValueError
            If nothing was learned yet, or a part cannot be stored without code.
        """
        return {
            "target": self.target,
            "group": self.group,
            **({} if self.time is None else {"time": self.time}),
            "target_mean": self.target_mean_,
            "target_scale": self.target_scale_,
            "kind": type(self.estimator).__name__,
            "estimator": self.estimator.to_state(),
            # As text: names of columns and categories are keys in it, and may be any text.
            "preprocessor": json.dumps(self.preprocessor.to_state(), allow_nan=False),
            "leaks": [list(leak) for leak in self.leaks_.items()],
            "target_form": None if self._form is None else self._form.to_state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild a model; it predicts and goes on learning as if nothing had happened.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        kind = check_choice("kind", state["kind"], tuple(_ESTIMATORS))
        estimator = _ESTIMATORS[kind].from_state(state["estimator"])
        preprocessor = TablePreprocessor.from_state(json.loads(state["preprocessor"]))
        model = cls(estimator, preprocessor, state["target"], state.get("group"), state.get("time"))
        if not preprocessor.frozen_ or preprocessor.n_features_out_ != estimator.n_features_in_:
            raise ValueError("the inputs of the model do not match the columns of its tables")
        mean, scale = float(state["target_mean"]), float(state["target_scale"])
        if not (np.isfinite(mean) and 0.0 < scale < np.inf):
            raise ValueError("the units of the target are not finite")
        model.target_mean_, model.target_scale_ = mean, scale
        form = state["target_form"]
        model._form = None if form is None else TargetForm.from_state(form)
        model.leaks_ = {str(name): str(said) for name, said in state["leaks"]}
        return model
