"""Rows of tables for estimators: which columns are learned, and how they are encoded.

An estimator is trained on inputs and targets that :class:`TableRows` makes from tables, piece by
piece; the resulting model reads tables by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from mercer.columns import TablePreprocessor
from mercer.columns.audit import TableAudit
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.readings import TargetForm, time_form
from mercer.columns.views import (
    Levels,
    Numbers,
    check_names,
    is_number,
    is_table,
    listed,
    view_table,
)
from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.estimator import with_columns, without_columns
from mercer.estimators.fitting import LossEstimator, all_or_nothing
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.inputs import Roles, warn_user
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.pairs import group_numbers
from mercer.estimators.ranker import KernelRanker
from mercer.estimators.regressor import KernelRegressor
from mercer.estimators.value_function import ValueFunction
from mercer.exceptions import Advice, LeakWarning, ParameterError, Setting
from mercer.expansions import Auto
from mercer.streams import StreamFunction

Array = NDArray[np.float64]

# Column of the target of a model of rows, as long as nobody has named it.
NO_TARGET = "(target)"


# -- tasks -----------------------------------------------------------------------------------------


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
        What is learned: classes, quantities, values that can be ordered, or nothing.
    losses : {"classification", "regression"} or None
        Kind of losses to choose from; None for an objective without a loss.
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
        """Whether predictions are numbers with a unit."""
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


def task_of(estimator: Any) -> TableTask:
    """Return the task that an estimator does.

    Raises
    ------
    ValueError
        If the estimator has none of these tasks.

    Examples
    --------
    >>> task_of(NoveltyDetector()).name
    'novelty'
    """
    for task in _TASKS:
        if type(estimator) is task.estimator:
            return task
    names = ", ".join(task.estimator.__name__ for task in _TASKS)
    raise ValueError(f"`estimator` must be one of {names}, got `{type(estimator).__name__}`.")


def check_learns_on(estimator: Any) -> None:
    """Raise ``ValueError`` if an estimator needs all rows at once."""
    if not hasattr(estimator, "partial_fit"):
        raise ValueError(
            f"{estimator!r} needs all rows at once, but files are read piece by piece. "
            "Use its method='features' or 'dictionary'."
        )


def check_time(time: str | None, group: str | None, target: str | None, takes: bool) -> None:
    """Raise ``ValueError`` unless a column can order rows by time.

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
    """Raise ``ValueError`` unless a column can define groups of rows.

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
            f"({listed(columns.exclude)}): a number of a query says nothing of its rows."
        )


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


# -- targets, groups -------------------------------------------------------------------------------


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
        return form.quantities(values, f"The target {name!r}", " of this table")
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


_LONGEST_CLASS = 1000  # characters: each row takes as many as the longest


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Class labels of a column without missing values."""
    if isinstance(values, Levels):
        if values.boolean:
            return np.asarray(values.codes == 1)
        longest = max(map(len, values.levels), default=0)
        if longest > _LONGEST_CLASS:
            raise ValueError(
                f"The target {name!r} holds text of {longest:,} characters, but the name of a "
                f"class may have {_LONGEST_CLASS:,}. Choose another target, or shorten the names."
            )
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


def read_groups(table: Any, name: str) -> Array:
    """Read the groups of the rows of a table, as numbers.

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
        Rows.
    name : str
        Column that holds the group of each row: numbers, text or truth values.

    Returns
    -------
    groups : ndarray of shape (n_rows,)
        Result of ``mercer.estimators.pairs.group_numbers``.

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


def first_classes(ranker: Any, y: NDArray[Any], grouped: bool) -> NDArray[Any] | None:
    """Two classes that the warm-up rows have, so that the first rows learned may lack one.

    Parameters
    ----------
    ranker : KernelRanker
        Unfitted ranker; not changed.
    y : ndarray of shape (n_rows,)
        Targets of the warm-up rows.
    grouped : bool
        Whether rows have groups.

    Returns
    -------
    classes : ndarray of shape (2,) or None
        None if the ranker does not treat y as two classes, or saw only one.

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
    """Warn of columns that alone reveal the target."""
    said = ", ".join(f"{name!r} ({how})" for name, how in leaks.items())
    several = len(leaks) > 1
    return Advice(
        f"The column{'s' * several} {said} tell{'s' * (not several)} the target {target!r} alone. "
        "If it is not known before the target is, the model will be useless however good it looks: "
        "leave it out with ",
        Setting("exclude", tuple(leaks)[:1], f"`exclude={tuple(leaks)}`"),
        ".",
    )


# -- rows ------------------------------------------------------------------------------------------


class TableRows:
    r"""Inputs, targets, groups and times that are read of tables, for one estimator.

    All that is measured on data (means, scales, categories) comes from the warm-up and is then
    frozen, because the dictionary holds rows as they were encoded when learned.

    Parameters
    ----------
    estimator : estimator
        What learns: a KernelClassifier, KernelRegressor, KernelRanker, NoveltyDetector or
        GaussianProcessRegressor, trained in place on inputs; or a ValueFunction, which
        :class:`mercer_app.training.TransitionColumns` trains.
    preprocessor : TablePreprocessor
        Encoder of the columns. Its ``exclude`` must contain the target and the group.
    target : str or None, default=None
        Column to predict, or to rank by. For a novelty detector it is not learned: a column of
        labels to compare with, or None.
    group : str or None, default=None
        Column of the groups: rows that a ranking compares, for example of one query, or rows that a
        classification or a regression holds out together.
    time : str or None, default=None
        Column of dates, times or numbers by which rows and tables are ordered: the last rows judge
        what was learned from earlier rows. It stays among the inputs, unless it is excluded.

    Attributes
    ----------
    task : {"classification", "regression", "rank", "novelty", "gp", "value"}
        What the estimator does.
    target_form : TargetForm or None
        How the first targets are written, if they are quantities as text, such as ``$1,200``, or
        dates, and the unit in which they are learned; None for plain numbers.
    leaks : dict of str to str
        Columns that alone reveal the target in the first rows, and how.
    model : estimator
        The estimator with its encoder, which reads tables by itself.
    knows_ranges : bool
        Whether more than means is known of the columns that were learned.

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
    >>> rows = TableRows(
    ...     KernelClassifier(random_state=0), TablePreprocessor(exclude=("town",)), "town"
    ... ).partial_fit(table)
    >>> rows.model.predict({"height": np.array([500.0, 70.0])}).tolist()
    ['Bern', 'Bonn']
    """

    knows_ranges = True

    def __init__(
        self,
        estimator: Any,
        preprocessor: TablePreprocessor,
        target: str | None = None,
        group: str | None = None,
        time: str | None = None,
    ) -> None:
        self._task = task_of(estimator)
        check_learns_on(estimator)
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
        if preprocessor.codes == "auto" and not (
            self.task in ("classification", "regression")
            and group is None
            and time is None
            and estimator.plan().races
            and estimator.plan().default != "stream"
            and isinstance(estimator.categorical_features, str)
        ):
            preprocessor = copy.copy(preprocessor)  # the caller's own stays as it is
            preprocessor.codes = ()
        self._begin(estimator, preprocessor, Roles(target, group, time))

    def _begin(self, estimator: Any, preprocessor: TablePreprocessor, roles: Roles) -> None:
        self._task = task_of(estimator)
        self.estimator, self.preprocessor = estimator, preprocessor
        estimator._learns_encoded = True
        self.target, self.group, self.time = roles.target, roles.group, roles.time
        self.leaks = dict(roles.leaks)
        self._form: TargetForm | None = None  # of any kind of target
        self._time_form: DateForm | NumberForm | None = None
        self._first_classes: NDArray[Any] | None = None

    @classmethod
    def of(cls, model: Any, target: str | None = None) -> Self | None:
        """Return the rows of tables for a fitted model that learned columns with names.

        Parameters
        ----------
        model : estimator
            Model trained on tables, or on rows or dicts whose features have names; not changed.
        target : str or None, default=None
            Column of the targets, where the model does not know it.

        Returns
        -------
        rows : TableRows or None
            Tables are read as the model reads them: numbers of a model of such as they are, and
            gaps as the mean of their column; of a stream, as the mean so far, and so is a feature
            that a row does not have. None for models whose features have no names.

        Raises
        ------
        ValueError
            If the target is one of the features, or features of a stream are not numbers.

        Examples
        --------
        >>> from mercer import KernelRegressor
        >>> model = KernelRegressor()
        >>> for i in range(20):
        ...     model = model.learn_one({"height": i % 5, "weight": i % 3}, i % 5)
        >>> TableRows.of(model).columns_
        ['height', 'weight', '(target)']
        """
        if model.roles_ is not None:
            return cls.of_tables(model)
        found, target = cls.__new__(cls), NO_TARGET if target is None else target
        columns = columns_of_rows(model, target)
        if columns is None:
            return None
        found._begin(without_columns(model), columns, Roles(target))
        found._form, found.knows_ranges = model.target_form_, model._columns is not None
        return found

    @classmethod
    def of_tables(cls, model: Any) -> Self:
        """Return the rows of tables for a model that was trained on such; let one of both learn."""
        found = cls.__new__(cls)
        found._begin(without_columns(model), model._columns, model.roles_)
        found._form = model.target_form_
        return found

    def __repr__(self) -> str:
        group = "" if self.group is None else f", {self.group!r}"
        return f"TableRows({self.estimator!r}, {self.preprocessor!r}, {self.target!r}{group})"

    @property
    def model(self) -> Any:
        """The estimator with its encoder, which reads tables; both share the learner."""
        roles = Roles(self.target, self.group, self.time, dict(self.leaks))
        model = with_columns(self.estimator, self.preprocessor, roles)
        model.target_form_ = self._form
        return model

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
    def target_form(self) -> TargetForm | None:
        """How quantities are written that are learned and answered."""
        return self._form if self.predicts_quantities else None

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
    def audit(self) -> TableAudit:
        """What each column holds, how it was encoded, and whether it alone reveals the target."""
        return self.preprocessor.audit_.with_leaks(self.leaks)

    @property
    def text_columns_(self) -> list[str]:
        """Columns that held text or categories in the warm-up, and are read as text from CSV."""
        form = self._form
        written = [] if form is None or not form.is_text else [str(self.target)]
        return [*self.preprocessor.text_columns_, *written]

    # -- reading ---------------------------------------------------------------------------------

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
            Result of :meth:`inputs`.
        y : ndarray of shape (n_rows,), or (n_rows, 0) for novelty detection
            Result of :meth:`targets`.

        Raises
        ------
        ValueError
            As :meth:`inputs` and :meth:`targets`.
        """
        return self.inputs(table, learned=True), self._learned(table)

    # -- measuring -------------------------------------------------------------------------------

    def warm_up(self, tables: Any) -> Self:
        """Measure columns and target on the first rows; must come before learning.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or an iterable of them,
            of which at most the preprocessor's ``warmup_rows`` rows are consumed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are no rows, a column is unusable, or targets are missing or of a wrong kind;
            then nothing is measured.
        """
        if self.preprocessor.frozen_:
            raise ValueError(
                "The warm-up is over: what was learned since is in its units. Make a new "
                "TableRows to measure the columns again."
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

    def measure(self, columns: TablePreprocessor, table: Any, y: NDArray[Any]) -> TablePreprocessor:
        """Add rows to the statistics of columns, and of columns given the target.

        Parameters
        ----------
        columns : TablePreprocessor
            Not frozen yet.
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows.
        y : ndarray of shape (n_rows,)
            Targets of the rows.

        Returns
        -------
        columns : TablePreprocessor
            The same preprocessor.
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
            self.leaks = self.preprocessor.leaks(table, y)
        return self

    def seen(self) -> tuple[dict[str, Any], dict[str, str], TargetForm | None]:
        """Return what :meth:`look` found out, for :meth:`looked` elsewhere."""
        return self.preprocessor.to_state(), self.leaks, self._form

    def looked(
        self, columns: dict[str, Any], leaks: dict[str, str], form: TargetForm | None
    ) -> Self:
        """Take over what another :meth:`look` found out."""
        self.preprocessor = TablePreprocessor.from_state(columns)
        self.leaks, self._form = leaks, form
        return self

    def measured(self, columns: TablePreprocessor) -> Self:
        """Take over what was measured of columns and targets elsewhere, in place of a warm-up.

        Parameters
        ----------
        columns : TablePreprocessor
            Statistics of all rows, not frozen yet; they are frozen here. Moments are rounded to
            seven digits, so that the order of merging does not matter.

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
        return self

    def _finish_measuring(self) -> None:
        if self.leaks:
            warn_user(_said_of_leaks(self.leaks, self.target), LeakWarning)

    # -- learning --------------------------------------------------------------------------------

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
            For invalid parameters or data; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
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

    def finish(
        self, again: Callable[[], Iterable[tuple[NDArray[np.floating], NDArray[Any]]]] = tuple
    ) -> Self:
        """Declare that all rows have come; ``fit`` on arrays knows that by itself.

        A sum of parts then predicts by every row, and its file leaves large sums out, unless its
        expansion is ``Auto(resumable=True)``. A dictionary of fewer rows than it waits for is
        chosen. Models that learned by steps, and chose their kernel, find the level of their
        scores, with which means of predictions are right.

        Parameters
        ----------
        again : callable, default=tuple
            Gives the encoded inputs and the targets of all rows once more, in pieces (X, y), to
            find the level by. None are given by default.

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
            if learner.gets_level and isinstance(self.estimator, LossEstimator):
                self.estimator.find_level(again())
        return self

    def as_written(self, values: NDArray[Any]) -> NDArray[Any]:
        """Turn numbers that were predicted into what the target holds.

        Parameters
        ----------
        values : ndarray
            Quantities, or any others.

        Returns
        -------
        answers : ndarray
            datetime64 if the target holds dates, text such as ``13:30:00`` if it holds times of
            day, otherwise the values.
        """
        return values if self.target_form is None else self.target_form.answers(values)


def columns_of_rows(model: Any, target: str) -> TablePreprocessor | None:
    """Return how tables become inputs of a model of rows; None if its features have no names."""
    columns = model._columns
    names = getattr(model, "feature_names_in_", None)
    function = getattr(getattr(model, "learner_", None), "function", None)
    if columns is not None:
        if isinstance(function, StreamFunction):
            raise ValueError(
                "This is a model of a stream whose rows hold text, categories or dates; each of "
                "these became inputs when it came. Predict by `mercer stream --predict-only`, or "
                "in Python, with mercer.load_model."
            )
    elif names is None and isinstance(function, StreamFunction):
        names = model._row_names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    if target in names:
        raise ValueError(
            f"The target {target!r} is one of the model's inputs, {list(names)[:8]}. Name the "
            "column of what it predicts."
        )
    if columns is not None:
        found: TablePreprocessor = copy.copy(columns)
        found.exclude = (*found.exclude, target)
        return found
    # Two rows with the means in the middle, which take the place of what is missing.
    means, kind = getattr(model, "_means", None), TablePreprocessor
    if isinstance(function, StreamFunction):
        means, kind = function.mixture.inputs.mean, _Columns
    means = np.zeros(len(names)) if means is None else np.asarray(means, dtype=np.float64)
    ends = [means - np.maximum(1.0, np.abs(means)), means + np.maximum(1.0, np.abs(means))]
    rows = dict(zip(names, np.transpose(ends), strict=True))
    nulls = getattr(model, "_nulls", None)
    nulls = None if nulls is None else nulls.within((*names, target)).to_config()
    made = kind(scaling="none", exclude=(target,), null_values=nulls)
    return made.fit({**rows, target: np.zeros(2)})


class _Columns(TablePreprocessor):
    """Return numbers unchanged; any column may have missing values."""

    def new_gaps(self, table: Any) -> dict[str, int]:
        """Return inputs of rows; such models accept missing values."""
        return {}
