"""Encode the columns of tables as inputs of a function.

The first rows of a model determine how columns are encoded (:func:`measured`). In the default for
streams, later rows extend the encoding (:class:`StreamColumns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns import TablePreprocessor
from mercer.columns.audit import ColumnAudit, TableAudit
from mercer.columns.odd_cells import Unreadable
from mercer.columns.readings import Reading, Readings
from mercer.columns.views import (
    Levels,
    TableView,
    check_names,
    is_number,
    level_column,
    listed,
    missing_cells,
    number_block,
    view_table,
)
from mercer.estimators.inputs import warn_user
from mercer.records import Maybe, Named, Part, Record, Recorded, Several
from mercer.validation import nearest, or_none, text

Array = NDArray[np.float64]

# Largest number of inputs of one categorical column in a stream.
_MOST_LEVELS = 128
_BY_DTYPE = "from_dtype"
_NO_VALUE = "The rows have no value in any column, so there is nothing to learn."


# -- columns that are named ------------------------------------------------------------------------


def named_columns(named: Any, names: Sequence[str], has_names: bool) -> list[str] | None:
    """Return the columns named by ``categorical_features``, read as scikit-learn reads it.

    Parameters
    ----------
    named : array-like of bool, int or str, "from_dtype" or None
        The parameter ``categorical_features``.
    names : sequence of str
        Names of the columns.
    has_names : bool
        Whether the rows came with these names.

    Returns
    -------
    found : list of str or None
        Columns named in addition to columns of a categorical type; None if no column is
        categorical.

    Raises
    ------
    ValueError
        For unknown columns.

    Examples
    --------
    >>> [named_columns(named, ["a", "b"], True) for named in (["b"], [0], [False, True], None)]
    [['b'], ['a'], ['b'], None]
    """
    check_named(named)
    if named is None:
        return None
    if isinstance(named, str):
        return []
    named = np.asarray(named)
    if named.dtype.kind == "b":
        if len(named) != len(names):
            raise ValueError(
                "`categorical_features` set as a boolean mask must have shape (n_features,) = "
                f"({len(names)},), got {named.shape}."
            )
        return [name for name, is_named in zip(names, named, strict=True) if is_named]
    if named.dtype.kind in "iu":
        wrong = named[(named < 0) | (named >= len(names))]
        if wrong.size:
            raise ValueError(
                "`categorical_features` set as integer indices must be in [0, n_features - 1] = "
                f"[0, {len(names) - 1}], got {wrong[0]}."
            )
        return [names[i] for i in np.unique(named)]
    if named.size and not has_names:
        raise ValueError(
            "`categorical_features` should be integers or a boolean mask where the rows have no "
            f"names of columns, got {named.tolist()!r}."
        )
    for name in named.tolist():
        if name not in names:
            raise ValueError(
                f"`categorical_features` has {name!r}, which is no column of the rows."
                f"{nearest(name, names)} They have {listed(names)}."
            )
    return [name for name in names if name in set(named.tolist())]


def check_named(named: Any) -> None:
    """Raise ``ValueError`` if a value cannot be ``categorical_features``."""
    wrong = isinstance(named, str) and named != _BY_DTYPE
    if named is not None and not isinstance(named, str):
        array = np.asarray(named)
        if array.dtype.kind == "O" and all(isinstance(one, str) for one in array.ravel()):
            array = array.astype(str)
        wrong = array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "biuU")
    if wrong:
        raise ValueError(
            "`categorical_features` must be 'from_dtype', None, or an array-like of bool, int or "
            f"str, got {named!r}."
        )


# -- columns to inputs -----------------------------------------------------------------------------


def kinds_of(view: TableView, named: list[str] | None) -> dict[str, str]:
    """Return the kinds of columns, as far as ``categorical_features`` determines them.

    Parameters
    ----------
    view : TableView
        Rows.
    named : list of str or None
        Result of :func:`named_columns`.

    Raises
    ------
    ValueError
        If categories are switched off, but a column holds text.
    """
    if named is not None:
        return dict.fromkeys(named, "category")
    kinds = {}
    for name in view.names:
        column = view.column(name)
        if not isinstance(column, Levels) or column.boolean or not column.levels:
            continue
        bad = next((level for level in column.levels if not is_number(level)), None)
        if bad is not None:
            raise ValueError(
                f"Column {name!r} holds text, for example {bad!r}, but "
                "`categorical_features=None` says that no column has categories. Leave "
                "`categorical_features` out, or convert the column."
            )
        kinds[name] = "number"
    return kinds


def measured(
    view: TableView, y: Any, named: list[str] | None, dtype: str = "auto"
) -> TablePreprocessor:
    """Fit the encoder of the columns on the first rows of a model.

    Parameters
    ----------
    view : TableView
        Rows.
    y : ndarray of shape (n_rows,) or None
        Targets of the rows, in the form that a preprocessor takes.
    named : list of str or None
        Result of :func:`named_columns`.
    dtype : {"float64", "float32", "auto"}, default="auto"
        Type of the inputs, as for a preprocessor.

    Returns
    -------
    columns : TablePreprocessor
        Fitted encoder; it does not scale numbers.

    Raises
    ------
    ValueError
        If a column is unusable, or all columns are constant.

    Warns
    -----
    UserWarning
        If columns have no values, or hold codes that occur in one row only.

    Examples
    --------
    >>> from mercer.columns.views import view_table
    >>> view = view_table({"town": ["Bern", "Bonn"], "height": [540.0, None]})
    >>> measured(view, None, []).feature_names_out()[:2]
    ['town=Bern', 'town=Bonn']
    """
    empty = [name for name in view.names if missing_cells(view.column(name)) == view.n_rows]
    if len(empty) == len(view.names):
        raise ValueError(_NO_VALUE)
    kinds = kinds_of(view, named)
    columns = TablePreprocessor(
        warmup_rows=None,
        scaling="none",
        exclude=tuple(empty),
        dtype=dtype,  # type: ignore[arg-type]
        kinds={name: kind for name, kind in kinds.items() if name not in empty},
        suspects="keep",
    ).fit(view, y)
    codes = [one.name for one in columns.audit_ if one.kind == "identifier"]
    for left, why in ((empty, "without a value in any"), (codes, "with another code in each")):
        if left:
            text = f"Columns {why} of the {view.n_rows:,} rows are left out: {listed(left)}."
            warn_user(text, UserWarning)
    return columns


def audit_of(
    columns: TablePreprocessor, names: Sequence[str], leaks: Mapping[str, str]
) -> TableAudit:
    """Return the audit of all columns, empty ones included, with those that reveal the target."""
    known = {one.name: one for one in columns.audit_}
    nothing = ColumnAudit("", "number", "left out", 0, 1.0, "no value")
    ordered = [*known.values()]
    if not known.keys() >= set(names):
        ordered = [known.get(name) or replace(nothing, name=name) for name in names]
    return TableAudit(ordered, columns.n_samples_seen_).with_leaks(leaks)


@dataclass(frozen=True)
class StreamColumns(Recorded):
    """Encoder of the columns of a stream: one input per number, and one per category.

    A category gets its input in the first row that has it. The interface is that of
    :class:`mercer.columns.TablePreprocessor`, but the encoding grows with the stream. A missing
    number is NaN, and the function skips it. A row is 1 at its category and 0 at the column's other
    categories, or NaN at all of them if the category is missing.

    Attributes
    ----------
    named : list of str or None
        Result of :func:`named_columns`.
    readings : Readings
        How to read each column that has had a value.
    inputs : list of (str, str or None)
        Column read, and category if any, for each input.

    Examples
    --------
    >>> from mercer.columns.views import view_table
    >>> table = view_table({"town": ["Bern", "Bonn"], "height": [540.0, None]})
    >>> columns = StreamColumns([]).grown(table)
    >>> columns.transform(table)
    array([[  1.,   0., 540.],
           [  0.,   1.,  nan]])
    """

    named: list[str] | None
    readings: Readings = field(default_factory=lambda: Readings([]))
    inputs: list[tuple[str, str | None]] = field(default_factory=list)

    _record = Record(
        named=Maybe(Several(text(), kind=list)),
        readings=Several(Part(Reading), kind=Readings),
        inputs=Several(Several(or_none(text()), 2), kind=list),
    ).where(
        "the inputs do not match the columns",
        lambda it: {name for name, _ in it["inputs"]} == {*it["readings"].names},
    )

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Self:
        """Return the encoder for columns of numbers only, each of which is one input."""
        view = view_table({name: np.zeros(1) for name in names})
        return cls([], Readings.plain(view, names), [(name, None) for name in names])

    @property
    def n_features_out_(self) -> int:
        """Number of inputs so far."""
        return len(self.inputs)

    @property
    def text_columns_(self) -> list[str]:
        """Names of the columns that are read as text."""
        return [name for name, one in self.readings.columns.items() if one.was_text]

    def grown(self, view: TableView) -> Self:
        """Return an encoder extended for more rows, or this one if nothing is new.

        Raises
        ------
        ValueError
            If no column has had a value yet.
        """
        known = dict(self.readings.columns)
        for name in view.names:
            if name not in known and missing_cells(view.column(name)) < view.n_rows:
                known[name] = _reading(view, name, self.named)
        readings = Readings(list(known.values()))
        read, inputs, slots = readings.read(view), list(self.inputs), self._slots()
        for name in read.names:
            of_column = slots.get(name, {})
            found: list[str | None] = [None]
            if _has_levels(readings, name):
                found = list(_present(level_column(read, name)))
            new = [level for level in found if level not in of_column]
            inputs += [(name, level) for level in new[: _MOST_LEVELS - len(of_column)]]
        if not inputs:
            raise ValueError(_NO_VALUE)
        if len(inputs) == len(self.inputs):
            return self
        return replace(self, readings=readings, inputs=inputs)

    def _slots(self) -> dict[str, dict[str | None, int]]:
        """Return the input numbers of each column, by category."""
        slots: dict[str, dict[str | None, int]] = {}
        for i, (name, level) in enumerate(self.inputs):
            slots.setdefault(name, {})[level] = i
        return slots

    def past_of_new(self, n_known: int) -> Array:
        """Return the values of earlier rows in the inputs after ``n_known``: 0 for a category."""
        new = self.inputs[n_known:]
        return np.array([np.nan if level is None else 0.0 for _, level in new])

    def transform(self, table: Any, *, extra: str = "drop", learned: bool = False) -> Array:
        """Return the inputs of rows, NaN where values are missing; unknown columns are ignored."""
        view = view_table(table)
        X = np.zeros((view.n_rows, len(self.inputs)))
        read, all_slots = self.readings.read(view), self._slots()
        for name in read.names:
            slots = all_slots[name]
            if not _has_levels(self.readings, name):
                X[:, slots[None]] = _truth_as_numbers(read, name)
                continue
            column = level_column(read, name)
            places = np.array(list(slots.values()))
            X[np.ix_(np.flatnonzero(column.codes < 0), places)] = np.nan
            slot = np.array([*(slots.get(level, -1) for level in column.levels), -1])[column.codes]
            rows = np.flatnonzero(slot >= 0)
            X[rows, slot[rows]] = 1.0
        return X


def _reading(view: TableView, name: str, named: list[str] | None) -> Reading:
    """Determine how to read a column of a stream, by its type since the first rows are few."""
    kinds = {of: kind for of, kind in kinds_of(view, named).items() if of == name}
    if not kinds:
        return Readings.plain(view, [name]).columns[name]
    return Readings.of(view, [name], kinds=kinds, include=(), keep=True, min_count=1).columns[name]


def _has_levels(readings: Readings, name: str) -> bool:
    reading = readings.columns.get(name)
    return reading is not None and reading.kind == "category"


def _present(column: Levels) -> list[str]:
    """Return the levels that occur in a column, in order of first occurrence."""
    _, first = np.unique(column.codes, return_index=True)
    return [column.levels[code] for code in column.codes[np.sort(first)] if code >= 0]


def _truth_as_numbers(view: TableView, name: str) -> Array:
    column = view.column(name)
    if isinstance(column, Levels) and column.boolean:
        return np.array([0.0, 1.0, np.nan])[column.codes]
    numbers: Array = number_block(view, [name])[0]
    return numbers


#: Encoders of the columns of rows.
Columns = TablePreprocessor | StreamColumns


@dataclass
class Roles(Recorded):
    """Columns of the training tables that had a role other than input.

    Attributes
    ----------
    target : str or None
        Learned column; for novelty detection a column of marks, or None.
    group : str or None
        Column whose groups were compared, or held out together.
    time : str or None
        Column that ordered the rows.
    leaks : dict of str to str
        Columns that alone revealed the target in the first rows, and how.
    """

    target: str | None = None
    group: str | None = None
    time: str | None = None
    leaks: dict[str, str] = field(default_factory=dict)

    _record = Record(
        target=or_none(text()), group=or_none(text()), time=or_none(text()), leaks=Named(text())
    )


def own_view(columns: TablePreprocessor, table: Any) -> TableView:
    """View a table that has all input columns, and no columns that training did not have.

    Raises
    ------
    ValueError
        If an input column is missing, or a column is new.
    """
    view, used = columns.view(table), columns.feature_names_in_
    others = {*columns.exclude, *columns.columns_in_}
    check_names(used, view.names, "The table", taken=others)
    new = [name for name in view.names if name not in others and name not in used]
    if new:
        raise ValueError(
            f"The table has columns that were not seen in training: {listed(new)}. Their values "
            "would be lost silently. Drop them."
        )
    return view


def lenient_inputs(columns: TablePreprocessor, view: TableView) -> NDArray[np.floating]:
    """Encode rows to predict; cells unlike their column count as missing, with a warning.

    If most cells of a column are unlike the training column, that is an error.

    Raises
    ------
    ValueError
        If a column is missing, new, or mostly unlike the training column.

    Warns
    -----
    UserWarning
        If some cells are unlike their column.
    """
    odd, lenient = Unreadable(strict=False), True
    for name, kind, n, cell, row in columns.unreadable(view):
        odd.add(name, kind, n, cell, f"row {row} of this table")
        some = view.n_rows - missing_cells(view.column(name))
        lenient &= not columns.readings_[name].is_another(n, some)
    X: NDArray[np.floating] = columns.transform(view, extra="drop", lenient=lenient)
    for said in odd.said():
        warn_user(said, UserWarning)
    return X


def check_columns(columns: Columns, names: Sequence[str]) -> None:
    """Raise ``ValueError`` for columns that are none of rows with such names."""
    if isinstance(columns, StreamColumns):
        used, is_ready = [*columns.readings.columns], True
    else:
        used, is_ready = columns.feature_names_in_, columns.frozen_
    if not is_ready or not set(used) <= set(names):
        raise ValueError("the columns do not match the names of the features")


def with_later_inputs(X: Any, n_inputs: int, columns: Columns | None) -> Any:
    """Extend earlier rows by inputs added since: 0 for a category, NaN for a number.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_known)
        Rows with the first inputs.
    n_inputs : int
        Present number of inputs.
    columns : Columns or None
        Encoder of the columns.

    Examples
    --------
    >>> with_later_inputs(np.ones((1, 2)), 3, None)
    array([[ 1.,  1., nan]])
    """
    n_known = X.shape[1]
    if n_known >= n_inputs:
        return X
    past = np.full(n_inputs - n_known, np.nan)
    if isinstance(columns, StreamColumns):
        past = columns.past_of_new(n_known)[: past.size]
    return np.hstack([X, np.tile(past, (len(X), 1))]).astype(X.dtype)
