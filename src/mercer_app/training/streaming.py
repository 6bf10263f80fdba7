"""Learning from arriving rows: columns, late labels, measures, and checkpoints.

Nothing here reads or prints: each row goes in, and a prediction comes out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.columns import TablePreprocessor
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.null_values import NullValues, Unreadable, number_of
from mercer.columns.readings import Reading, Readings, TargetForm, sure_quantities
from mercer.columns.views import listed, view_table
from mercer.conformal import AdaptiveConformal
from mercer.estimators.estimator import column_names
from mercer.model_file import read_state, write_state
from mercer.records import Maybe, Part, Recorded, Several
from mercer.records import Record as Fields
from mercer.streams import LateLabels, StreamLearner
from mercer.validation import (
    check_integer,
    choice,
    integer,
    nearest,
    or_none,
    real,
    text,
    truth,
)
from mercer_app.files.arrivals import Record
from mercer_app.rows import TASKS, task_of

_TRUTH = {"true": True, "false": False}
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
# More whole numbers than these are quantities rather than classes.
_MOST_CLASSES = 20


class BadRowError(ValueError):
    """A row cannot be used; those after it can."""


class Row(NamedTuple):
    """Content of a record.

    Attributes
    ----------
    x : dict of str to float, text or None, or None
        Inputs; None if the record only delivers a label.
    y : object
        Target; None if it is not known yet.
    key : str or None
        What a later label calls the row by.
    """

    x: dict[str, Any] | None
    y: Any
    key: str | None


class RowReader(Recorded):
    """Find inputs, target and key in records.

    The first row determines which columns are inputs, and the first target the kind of targets.

    Parameters
    ----------
    target : str
        Column of the targets.
    key : str or None, default=None
        Column of the keys.
    exclude : iterable of str, default=()
        Columns that are not inputs.
    task : {"auto", "classification", "regression"}, default="auto"
        Kind of the targets; "auto" follows the first one: text, truth values and whole numbers are
        classes, other numbers are quantities.
    needs_target : bool, default=True
        Whether it is an error if a table of named columns has no target.
    gaps : bool, default=False
        Whether rows may lack columns and have new ones, which the default for streams can learn,
        and whether columns may hold text: categories, dates, ``$6,888.22``. A cell that is not a
        number in a numeric column then counts as missing, and is counted.
    strict : bool, default=False
        Whether such a cell makes the row a bad one nevertheless.
    null_values : str, number, sequence of these, mapping of columns to these, or None, default=None
        Cells that stand for no value, as in :class:`mercer_app.files.CsvDialect`.

    Attributes
    ----------
    columns : list of str or None
        Inputs; None before the first row.
    kind : {"number", "integer", "boolean", "text"} or None
        Kind of the targets; None before the first one.
    task : str
        As above; "auto" until the first target.
    form : TargetForm or None
        How quantities to learn are written as text, if they are.
    unreadable : Unreadable
        Cells that were taken for gaps.

    Examples
    --------
    >>> reader = RowReader("y", key="id")
    >>> reader.read(Record({"id": 1, "a": 0.5, "y": None}, "line 1"))
    Row(x={'a': 0.5}, y=None, key='1')
    >>> reader.read(Record({"id": 1, "y": "yes"}, "line 2"))
    Row(x=None, y='yes', key='1')
    >>> reader.task
    'classification'
    """

    _record = Fields(
        columns=Maybe(Several(text(), kind=list)),
        kind=or_none(choice("number", "integer", "boolean", "text")),
        task=choice("auto", "classification", "regression"),
        _classes=Several(integer(low=-(2**63)), kind=set),
        _readings=Several(Part(Reading), kind=Readings),
        _fixed=truth(),
        form=Maybe(Part(TargetForm)),
    )

    def __init__(
        self,
        target: str,
        *,
        key: str | None = None,
        exclude: Iterable[str] = (),
        task: str = "auto",
        needs_target: bool = True,
        gaps: bool = False,
        strict: bool = False,
        null_values: Any = None,
    ) -> None:
        self.nulls = NullValues.of(null_values)
        self._gaps: dict[str, _Gaps] = {}
        self.unreadable = Unreadable(strict=False)
        self._strict = strict
        self.target, self.key, self.task = target, key, task
        self.gaps = gaps
        self.form: TargetForm | None = None
        self._readings: dict[str, Reading] = {}  # of columns that are more than numbers
        self._fixed = False
        self._has_target = False
        self.columns: list[str] | None = None
        self.kind: str | None = "number" if task == "regression" else None
        self._guessed = task == "auto"
        self._needs_target = needs_target
        self._exclude = tuple(exclude)
        self._others = {target, key, *self._exclude}
        self._known: set[str | None] = set()
        self._classes: set[int] = set()
        self._looked = False

    def read(self, record: Record) -> Row:
        """Read a record.

        Raises
        ------
        BadRowError
            If the record cannot be used. The known columns and targets are unchanged.
        ValueError
            If no record of this source can be used.
        """
        if record.error:
            raise BadRowError(f"{record.place}: {record.error}.")
        if not self._looked:
            self._look(record)
        try:
            key = self._key_of(record.values)
            kind, y = self._target_of(record)
            odd: dict[str, str] = {}
            # One with a key and no inputs brings a label.
            x = self._inputs_of(record, odd, all_gaps=self.gaps and (key is None or y is None))
        except BadRowError as error:
            raise BadRowError(f"{record.place}: {error}") from None
        if x is None and (y is None or key is None):
            missing = "inputs nor a target" if y is None else f"inputs, only the target {y!r}"
            raise BadRowError(f"{record.place}: it has no {missing}.")
        if x is not None and (self.columns is None or (self.gaps and not x.keys() <= self._known)):
            new = {n: [cell] for n, cell in x.items() if isinstance(cell, str)}
            self._readings |= Readings.plain(view_table(new), [*new.keys() - self._known]).columns
            self.set_columns(dict.fromkeys([*(self.columns or ()), *x]))
        if y is not None:
            self._settle(kind, y, record)
        for name, cell in odd.items():
            reading = self._readings.get(name)
            what = "number" if reading is None else reading.kind
            self.unreadable.add(name, what, 1, cell, record.place)
        return Row(x, y, key)

    def set_columns(self, columns: Iterable[str]) -> None:
        """Say which columns are inputs."""
        self.columns = list(columns)
        self._known = {*self.columns, *self._others}

    def of_table(self, columns: TablePreprocessor, form: TargetForm | None) -> None:
        """Read rows as a model of tables does, whose columns are known, and may have gaps."""
        self.set_columns(columns.feature_names_in_)
        self._fixed, self.form = True, form
        self._readings = {
            name: one
            for name, one in columns.readings_.items()
            if one.was_text or one.kind in ("date", "time", "boolean")
        }

    def typed(self, x: dict[str, Any]) -> dict[str, Any]:
        """Return inputs with dates and times where a model of tables learned such, not as text."""
        kinds: dict[str, Any] = {"date": datetime, "time": time}
        moments = [n for n, one in self._readings.items() if one.kind in kinds and not one.was_text]
        made = {n: kinds[self._readings[n].kind].fromisoformat(x[n]) for n in moments if x[n]}
        return x | made if made else x

    def _look(self, record: Record) -> None:
        """Check the columns of CSV, which all its rows have."""
        self._looked = True
        if not record.is_text:
            return
        named = [("target", self.target), ("key", self.key)]
        named += [("exclude", name) for name in self._exclude]
        if self.columns is None:  # a resumed model may have known other columns
            named += [("null_values", name) for name in self.nulls.columns]
        for option, name in named:
            needed = name is not None and (name != self.target or self._needs_target)
            if needed and name not in record.values:
                free = [known for known in record.values if known not in self._others]
                raise ValueError(
                    f"There is no column {name!r} for the `{option}`, but "
                    f"{', '.join(map(repr, record.values))}.{nearest(str(name), free)}"
                )

    def _key_of(self, values: Mapping[str, Any]) -> str | None:
        if self.key is None:
            return None
        value = values.get(self.key)
        if value == "" or not isinstance(value, str | int | float):
            raise BadRowError(f"it has no key in {self.key!r}, got {value!r}.")
        return str(value)

    def _inputs_of(
        self, record: Record, odd: dict[str, str], *, all_gaps: bool
    ) -> dict[str, Any] | None:
        """Return inputs by column; None if there are none at all.

        Cells that are not numbers, in columns that held numbers before, are recorded in ``odd``.

        With ``all_gaps``, columns without values become inputs if no column has a value.
        """
        values, is_text = record.values, record.is_text
        names = self.columns
        if names is None or self.gaps:
            names = [name for name in values if name not in self._others]
        x: dict[str, Any] = {}
        gap = None
        for name in names:
            value = values.get(name)
            if type(value) is float and math.isfinite(value) and not self.nulls:
                x[name] = value
            elif self._is_missing(name, value, is_text, of_text=name in self._readings):
                gap = name if gap is None else gap
            else:
                try:
                    if name in self._readings:
                        x[name] = _cell(value, self._readings[name])
                    else:
                        x[name] = _number(value, name, is_text)
                except BadRowError:
                    known = name in self._known
                    if self.gaps and not known and isinstance(value, str):
                        x[name] = value
                    elif self._strict or not (known and (self.gaps or self._fixed)):
                        raise
                    else:
                        odd[name] = str(value)[:40]
        if self._fixed:
            return {name: x.get(name) for name in names} if x else None
        if not x or self.gaps:
            return x or (dict.fromkeys(names, math.nan) if names and all_gaps else None)
        if gap is not None:
            raise BadRowError(
                f"the column {gap!r} has no value. Fill such gaps before, or leave out the column "
                "with `exclude`."
            )
        if self.columns is not None and len(values) > len(names):
            for name in values:
                if name not in self._known:
                    raise BadRowError(
                        f"there is a column {name!r} that the first row did not have. Leave it out "
                        "with `exclude`, or start with it."
                    )
        return x

    def _target_of(self, record: Record) -> tuple[str | None, Any]:
        """Return the kind and the value of a target; None for both if it is missing."""
        value = record.values.get(self.target)
        if self._is_missing(self.target, value, record.is_text, of_text=self.kind == "text"):
            return None, None
        kind = self.kind or self._kind_of(value, record.is_text)
        if kind == "number":
            form = self.form if self._has_target else _form_of(value)
            if isinstance(value, str) and form is not None:
                if form.is_moment:
                    raise BadRowError(f"the target {value!r} is a date or a time, not a quantity.")
                return kind, _written(form, value)
            return kind, _number(value, self.target, record.is_text, is_target=True)
        if kind == "text":
            if not isinstance(value, str):
                raise BadRowError(f"the target {value!r} is no text, as those before are.")
            return kind, value
        if kind == "boolean":
            if record.is_text:
                value = _TRUTH.get(str(value).lower(), value)
            if not isinstance(value, bool | np.bool_):
                raise BadRowError(f"the target {value!r} is no truth value, as those before are.")
            return kind, bool(value)
        try:
            number = _number(value, self.target, record.is_text)
        except BadRowError:
            raise BadRowError(
                f"the target {value!r} is no whole number, as those before are."
            ) from None
        if isinstance(value, bool) or number != round(number):
            raise BadRowError(
                f"the target {value!r} is no whole number, as those before are. For quantities say "
                "`task='regression'`."
            )
        return kind, int(number)

    def _is_missing(self, name: str, value: Any, is_text: bool, *, of_text: bool) -> bool:
        """Whether a cell stands for no value, in a column of numbers unless it is one of text."""
        if value is None:
            return True
        if name not in self._gaps:
            self._gaps[name] = _Gaps.of(self.nulls, name)
        gaps = self._gaps[name]
        if isinstance(value, str):
            cell = value.strip()
            if is_text and cell in (gaps.of_text if of_text else gaps.of_numbers):
                return True
            number = _parsed(cell) if is_text and gaps.numbers else None
            return cell in gaps.named or number in gaps.numbers
        if isinstance(value, float) and math.isnan(value):
            return True
        return type(value) in (int, float) and value in gaps.numbers

    def _kind_of(self, value: Any, is_text: bool) -> str:
        """Tell from the first target of what kind targets are."""
        if self.task != "classification":
            form = _form_of(value)
            if form is not None and form.is_moment:
                raise ValueError(
                    f"The target {self.target!r} holds dates or times, first {value!r}, which are "
                    "not learned from streams here. For classes say `task='classification'`; "
                    "quantities that are dates are learned in Python, by `learn_one`."
                )
            if form is not None:
                return "number"
        if is_text:
            number = _parsed(value)
            if number is None:
                return "text"
            if _WHOLE.fullmatch(value):
                return "integer"
            return "text" if self.task == "classification" else "number"
        if isinstance(value, bool | np.bool_):
            return "boolean"
        if isinstance(value, int):
            return "integer"
        if isinstance(value, str):
            return "text"
        return "integer" if self.task == "classification" else "number"

    def _settle(self, kind: str | None, y: Any, record: Record) -> None:
        """Record what a valid target says about all targets."""
        if not self._has_target and kind == "number":
            self.form = _form_of(record.values[self.target])
        self._has_target = True
        self.kind = kind
        self.task = "regression" if kind == "number" else "classification"
        if self._guessed and kind == "integer":
            self._classes.add(y)
            if len(self._classes) > _MOST_CLASSES:
                raise ValueError(
                    f"{record.place}: the target {self.target!r} has had more than {_MOST_CLASSES} "
                    "different whole numbers, which look like quantities, but were taken for "
                    "classes. Start afresh with `task='regression'`, or with "
                    "`task='classification'` if they are classes."
                )

    @property
    def _values(self) -> dict[str, Any]:
        known = {"_classes": sorted(self._classes), "_readings": self._readings.values()}
        return {**vars(self), **known}

    def _adopt(self, values: dict[str, Any]) -> None:
        super()._adopt({**values, "_readings": values["_readings"].columns})
        if self.columns is not None:
            self.set_columns(self.columns)
        self._has_target = self.kind is not None


class _Gaps(NamedTuple):
    """Cells of a column that stand for no value: in CSV, and what was named for any rows."""

    of_text: frozenset[str]
    of_numbers: frozenset[str]
    named: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, nulls: NullValues, name: str) -> Self:
        named = nulls.named(name)
        numbers = (number_of(mark) for mark in named)
        return cls(
            nulls.gaps(name),
            nulls.number_gaps(name),
            frozenset(named),
            frozenset(number for number in numbers if number is not None),
        )


def _form_of(cell: Any) -> TargetForm | None:
    """Return how a date or an amount of money is written, which nobody means for a class.

    Examples
    --------
    >>> _form_of("$6,888.22").unit, _form_of(12), _form_of("3D"), _form_of("2024-01-31").kind
    ('$', None, None, 'date')
    """
    if not isinstance(cell, str):
        return None
    column = view_table({"y": [cell]}).column("y")
    return None if sure_quantities("y", column) is None else TargetForm.of("y", column)


def _written(form: TargetForm, cell: str) -> float:
    """Read a quantity that is written as text; BadRowError if it is written otherwise."""
    (number,) = form.read(view_table({"y": [cell]}).column("y"))
    if not math.isfinite(number):
        raise BadRowError(f"the target {cell!r} is not written as those before are.")
    return float(number)


def _cell(value: Any, reading: Reading) -> Any:
    """Return a cell as a column that is more than numbers takes it.

    Raises
    ------
    BadRowError
        If it cannot be what the column is.
    """
    said = f"the column {reading.name!r} holds {str(value)[:40]!r}, which is no"
    if reading.kind == "boolean":
        truth = _TRUTH.get(value.strip().lower()) if isinstance(value, str) else value
        if not isinstance(truth, bool):
            raise BadRowError(f"{said} truth value. Correct it, or leave it empty.")
        return truth
    text = str(value).strip()
    if reading.was_text:
        form = reading.form
        if isinstance(form, NumberForm | DateForm) and not np.isfinite(form.read([text])).all():
            raise BadRowError(f"{said} {reading.kind} as the first ones are written.")
        return text
    try:
        (datetime if reading.kind == "date" else time).fromisoformat(text)
    except ValueError:
        raise BadRowError(f"{said} {reading.kind} as ISO 8601 writes it.") from None
    return text


def _parsed(text: str) -> float | None:
    """Read a number; None if it is not one. Python's own spelling 1_000 is refused."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _number(value: Any, name: str, is_text: bool, *, is_target: bool = False) -> float:
    """Read a finite number.

    Raises
    ------
    BadRowError
        If the value is not one.
    """
    number = None
    if isinstance(value, str):
        number = _parsed(value) if is_text else None
    else:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
    if number is None:
        comma = isinstance(value, str) and _parsed(value.replace(",", ".")) is not None
        hint = " (decimals have a point, and JSON numbers no quotes)" if comma else ""
        other = "such rows" if is_target else "the column with `exclude`"
        raise BadRowError(
            f"the column {name!r} holds {str(value)[:40]!r}, which is no number{hint}. Correct it, "
            f"or leave out {other}."
        )
    if not math.isfinite(number):
        raise BadRowError(f"the column {name!r} holds {value!r}, which is not finite.")
    return number


class Measures(Recorded):
    """Progressive measures: each label is compared with what was said before it was known.

    Attributes
    ----------
    n_labels, n_compared, n_unlabelled, n_bad : int
        Labels; labels of rows that had been predicted; rows without a label when they came; records
        that were not rows.
    total : float
        Sum of absolute errors, or labels that were right.
    """

    _record = Fields(
        n_labels=integer(low=0),
        n_compared=integer(low=0),
        n_unlabelled=integer(low=0),
        n_bad=integer(low=0),
        total=real(low=0.0),
    )

    def __init__(self) -> None:
        self.n_labels = self.n_compared = self.n_unlabelled = self.n_bad = 0
        self.total = 0.0
        self._window = (0, 0.0)

    def compare(self, y: Any, prediction: Any, *, quantities: bool) -> None:
        """Take a label, and what had been said."""
        self.n_labels += 1
        if prediction is not None:
            self.n_compared += 1
            self.total += abs(prediction - y) if quantities else float(prediction == y)

    @property
    def mean(self) -> float | None:
        """Accuracy or mean absolute error over all; None without a comparison."""
        return self.total / self.n_compared if self.n_compared else None

    def window(self) -> float | None:
        """Mean since the last call; None without a comparison."""
        n, total = self._window
        self._window = (self.n_compared, self.total)
        return (self.total - total) / (self.n_compared - n) if self.n_compared > n else None

    def _adopt(self, values: dict[str, Any]) -> None:
        super()._adopt(values)
        self._window = (self.n_compared, self.total)


class Answer(NamedTuple):
    """What is said of a row when it comes.

    Attributes
    ----------
    row : int
        Number of the record, from 0 on.
    key : str or None
        Key of the row.
    prediction : object
        None before anything was learned.
    interval : tuple of (float, float) or None
        Lower and upper end, if these are asked for; None before enough labels came.
    """

    row: int
    key: str | None
    prediction: Any
    interval: tuple[float, float] | None = None


class _Learner:
    """The estimator, once the first label has said of which kind it is."""

    def __init__(self, make: Callable[[str], Any], reader: RowReader, *, learns: bool) -> None:
        self._make, self._reader, self.learns = make, reader, learns
        self.estimator: Any = None

    def predict_one(self, x: dict[str, Any]) -> Any:
        """Predict as plain Python; None before anything was learned."""
        if self.estimator is None:
            return None
        prediction = self.estimator.predict_one(self._reader.typed(x))
        return prediction.item() if isinstance(prediction, np.generic) else prediction

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn a row; the first one makes the estimator."""
        if self.learns:
            estimator = self.estimator
            if estimator is None:
                estimator = self._make(self._reader.task)
            estimator.learn_one(self._reader.typed(x), y)
            estimator._nulls, estimator.target_form_ = self._reader.nulls, self._reader.form
            self.estimator = estimator


class StreamTraining:
    """Predict each row when it comes, and learn it when its label does.

    Parameters
    ----------
    reader : RowReader
        Reader of the records.
    make : callable
        Makes an estimator for a task, when the first label comes.
    max_waiting : int, default=10_000
        Largest number of rows that wait for their label.
    max_age : int or None, default=None
        See :class:`mercer.streams.LateLabels`.
    model : estimator or None, default=None
        A classifier or regressor of rows to continue with.
    learns : bool, default=True
        Whether labels are learned; otherwise they are compared with predictions only.
    coverage : float or None, default=None
        Share of the rows whose interval is to hold the target, of quantities, by adaptive conformal
        inference (:class:`mercer.conformal.AdaptiveConformal`); None for no intervals.

    Attributes
    ----------
    n_rows : int
        Records so far.
    late : LateLabels
        What waits for its label.
    measures : Measures
        Progressive measures.
    adaptive : AdaptiveConformal or None
        Sets the width of intervals.

    Examples
    --------
    >>> from mercer import KernelRegressor
    >>> from mercer.expansions import KOMP
    >>> training = StreamTraining(
    ...     RowReader("y"), lambda task: KernelRegressor(kernel="gaussian", expansion=KOMP())
    ... )
    >>> training.take(Record({"a": 0.0, "y": 0.5}, "row 0"))
    Answer(row=0, key=None, prediction=None, interval=None)
    >>> for i in range(1, 100):
    ...     answer = training.take(Record({"a": float(i % 2), "y": 0.5 - i % 2}, f"row {i}"))
    >>> answer.row, training.measures.n_compared, training.measures.mean < 0.1
    (99, 99, True)
    """

    def __init__(
        self,
        reader: RowReader,
        make: Callable[[str], Any],
        *,
        max_waiting: int = 10_000,
        max_age: int | None = None,
        model: Any = None,
        learns: bool = True,
        coverage: float | None = None,
    ) -> None:
        self.reader = reader
        self.adaptive = None if coverage is None else AdaptiveConformal(coverage)
        self.n_rows = 0
        self.measures = Measures()
        self._learner = _Learner(make, reader, learns=learns)
        self.late = LateLabels(self._learner, max_waiting=max_waiting, max_age=max_age)
        if model is not None:
            self._adopt(model)

    @property
    def estimator(self) -> Any:
        """The model; None before the first label."""
        return self._learner.estimator

    def _adopt(self, model: Any) -> None:
        """Go on with a model that has learned."""
        task = task_of(model).name
        if task not in ("classification", "regression"):
            raise ValueError(
                f"The model is a {type(model).__name__}; streams of rows are learned by "
                "KernelClassifier and KernelRegressor."
            )
        reader = self.reader
        if reader.task not in ("auto", task):
            raise ValueError(
                f"The model is of a {task}, but `task={reader.task!r}` was asked for. Leave it out."
            )
        kinds = {"U": "text", "i": "integer", "b": "boolean"}
        kind = "number" if task == "regression" else kinds.get(model.classes_.dtype.kind)
        names = getattr(model, "_row_names", None)
        if names is None:
            names = getattr(model, "feature_names_in_", None)
        form, columns = model.target_form_, model.preprocessor_
        if kind is None or (task == "regression" and not model.targets_.flat):
            raise ValueError("The model has targets of a kind that rows here cannot have.")
        if names is None:
            raise ValueError(
                "The model does not know the names of its columns, as it learned arrays. Train it "
                "by `mercer stream`, or with dicts or data frames."
            )
        if reader.target in names or reader.key in names:
            raise ValueError(f"The target or the key is an input of the model: {listed(names)}.")
        if form is not None and form.is_moment:
            raise ValueError(
                "The model answers dates or times, of which no progressive error is measured here. "
                "Learn on in Python, by `partial_fit`."
            )
        if self._learner.learns and getattr(model.learner_, "is_compact", False):
            raise ValueError(
                "The model cannot go on learning, as its file leaves out the sums that this takes. "
                "Train it with `mercer fit --resumable`, or let it answer only: `--predict-only`."
            )
        reader.gaps = isinstance(model.learner_, StreamLearner)
        if columns is not None:
            reader.of_table(columns, form)
        else:
            reader.set_columns(map(str, names))
            known = {} if model._columns is None else model._columns.readings.columns
            called = zip(map(str, names), column_names(model), strict=True)
            found = {name: known[column] for name, column in called if column in known}
            reader._readings = {name: one for name, one in found.items() if one.was_text}
        reader.nulls = reader.nulls or NullValues.of(model._nulls)
        reader.task, reader.kind, reader._guessed = task, kind, False
        self._learner.estimator = model

    def take(self, record: Record) -> Answer | None:
        """Take a record: a row, a row with its label, or the label of an earlier row.

        Returns
        -------
        answer : Answer or None
            None if it was only a label.

        Raises
        ------
        BadRowError
            If the record cannot be used; nothing is learned from it.
        """
        number = self.n_rows
        self.n_rows += 1
        try:
            row = self.reader.read(record)
        except BadRowError:
            self.measures.n_bad += 1
            raise
        if self.adaptive is not None and self.reader.task == "classification":
            raise ValueError(
                f"`coverage` is of intervals of quantities, but the target {self.reader.target!r} "
                "holds classes. Leave it out, or say `task='regression'`."
            )
        try:
            return self._take(number, row)
        except ValueError as error:  # from the model, which is unchanged
            self.measures.n_bad += 1
            raise BadRowError(f"{record.place}: {error}") from error

    def _take(self, number: int, row: Row) -> Answer | None:
        if row.y is not None and (row.x is None or row.key in self.late):
            assert row.key is not None
            delivered = self.late.label(row.key, row.y)
            if delivered is not None:
                self._compare(row.y, delivered.prediction)
            return None
        assert row.x is not None
        if row.y is not None or row.key is None:
            prediction = self._learner.predict_one(row.x)
        else:
            prediction = self.late.predict(row.key, row.x)
        interval = self._interval(prediction)
        if row.y is None:
            self.measures.n_unlabelled += 1
        else:
            self._learner.learn_one(row.x, row.y)
            self._compare(row.y, prediction)
        return Answer(number, row.key, prediction, interval)

    def _interval(self, prediction: Any) -> tuple[float, float] | None:
        """Return the interval of a prediction, by the labels that have arrived."""
        if self.adaptive is None or prediction is None:
            return None
        ends = self.adaptive.interval(prediction)
        return ends if math.isfinite(ends[1]) else None

    def _compare(self, y: Any, prediction: Any) -> None:
        quantities = self.reader.task == "regression"
        self.measures.compare(y, prediction, quantities=quantities)
        if self.adaptive is not None and prediction is not None:
            self.adaptive.update(abs(prediction - y))

    def write(self, path: Path, more: Mapping[str, Any]) -> None:
        """Write a checkpoint of the run, in one file that appears as a whole.

        :func:`mercer.load_model` reads it, too, and gives the model.

        Parameters
        ----------
        path : Path
            The file.
        more : mapping
            Plain data that belong to it: where the source is, what was written elsewhere.
        """
        model = self.estimator
        state = {
            "kind": None if model is None else type(model).__name__,
            "model": None if model is None else model.to_state(),
            "stream": {
                "n_rows": self.n_rows,
                "reader": self.reader.to_state(),
                "measures": self.measures.to_state(),
                "late": self.late.to_state(),
                "adaptive": None if self.adaptive is None else self.adaptive.to_state(),
                **more,
            },
        }
        write_state(path, state)

    def restore(self, path: Path) -> dict[str, Any]:
        """Go on from a file written by :meth:`write`.

        Returns
        -------
        more : dict
            Further content of the checkpoint.

        Raises
        ------
        FileNotFoundError
            If there is no checkpoint.
        ValueError
            If it is damaged, or something else.
        """
        state = read_state(path)
        if not isinstance(state.get("stream"), dict):
            raise ValueError(
                f"{path} is no checkpoint of `mercer stream`. Give another folder for checkpoints."
            )
        stream: dict[str, Any] = state["stream"]
        try:
            self.n_rows = check_integer("n_rows", stream.pop("n_rows"), low=0)
            self.reader.restore(stream.pop("reader"))
            self.measures = Measures.from_state(stream.pop("measures"))
            adaptive = stream.pop("adaptive", None)
            if adaptive is not None and self.adaptive is not None:
                known = AdaptiveConformal.from_state(adaptive)
                if known.coverage == self.adaptive.coverage:  # otherwise widths are found again
                    self.adaptive = known
            if state["kind"] is not None:
                kinds = {t.estimator.__name__: t.estimator for t in TASKS.values()}
                self._learner.estimator = kinds[state["kind"]].from_state(state["model"])
            bounds = (self.late.max_waiting, self.late.max_age)
            self.late = LateLabels.from_state(stream.pop("late"), self._learner)
            self.late.max_waiting, self.late.max_age = bounds
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise ValueError(
                f"{path} is not a valid checkpoint: {error}. Delete it and start afresh."
            ) from error
        return stream
