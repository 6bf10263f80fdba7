"""Tables as users have them: what becomes of the columns of an estimator's rows.

Rows of numbers without gaps go in as they are. In others each column is read for what it is: by
what the rows that a model begins with have shown (:class:`TableColumns`), or, in the default of
streams, by what there was until now (:class:`StreamColumns`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from mercer._validation import nearest
from mercer.data import TablePreprocessor
from mercer.data.columns import (
    Levels,
    Numbers,
    TableView,
    is_frame,
    is_number,
    level_column,
    listed,
    missing_cells,
    number_block,
    view_table,
)
from mercer.estimators.inputs import warn_user

__all__ = [
    "Columns",
    "StreamColumns",
    "TableColumns",
    "TableInputs",
    "check_named",
    "columns_from_state",
    "numeric_rows",
]

Array = NDArray[np.float64]
FloatArray = NDArray[np.floating]

# Rarer categories share an input; where there are few rows, fewer make one of their own.
_RARE = 5
_RARE_SHARE = 20
# Inputs that a column of categories may get in a stream.
_MOST_LEVELS = 128
_BY_DTYPE = "from_dtype"
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


# -- what the rows are -----------------------------------------------------------------------------


def _has_numbers(X: Any) -> bool:
    """Whether all columns of a frame are of numbers or booleans, by their types."""
    if hasattr(X, "iloc"):
        from pandas.api.types import is_numeric_dtype

        return all(map(is_numeric_dtype, X.dtypes))
    if hasattr(X, "column_names"):
        from pyarrow import types

        kinds = types.is_integer, types.is_floating, types.is_boolean
        return all(any(kind(one) for kind in kinds) for one in X.schema.types)
    return all(one.is_numeric() or str(one) == "Boolean" for one in X.dtypes)


def _dense(X: Any) -> Any:
    """Return a frame whose sparse columns are dense, unless all columns are sparse and mostly 0."""
    fills = [getattr(one, "fill_value", None) for one in getattr(X, "dtypes", ())]
    if all(fill == 0 for fill in fills) or not any(hasattr(d, "fill_value") for d in X.dtypes):
        return X
    plain = {i: d.subtype for i, d in enumerate(X.dtypes) if hasattr(d, "fill_value")}
    return X.set_axis(range(X.shape[1]), axis=1).astype(plain).set_axis(X.columns, axis=1)


def _as_rows(X: Any) -> Any:
    """Return rows in a form that keeps the types of cells: lists with text would become text."""
    if is_frame(X):
        return _dense(X) if hasattr(X, "iloc") else X
    if isinstance(X, list | tuple):
        try:
            array = np.asarray(X)
        except ValueError:  # rows of different lengths, of which the check says more
            return X
        return np.asarray(X, dtype=object) if array.dtype.kind in "USOMm" else array
    return X


def _are_numbers(X: Any) -> bool:
    """Whether rows are numbers, gaps or not; what is no table at all is left to the check."""
    if sparse.issparse(X):
        return True
    if is_frame(X):
        return _has_numbers(X)
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind not in ("U", "S", "O", "M", "m") or np.ndim(X) != 2:
        return True
    try:
        np.asarray(X).astype(np.float64) if kind in "USO" else None
    except (ValueError, TypeError):
        return False
    return kind in "USO"


def _has_gaps(X: Any) -> bool:
    """Whether there is NaN in checked rows."""
    return isinstance(X, np.ndarray) and bool(np.isnan(np.min(X)))


def _means(X: FloatArray) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        means: Array = X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(means).all():  # sums of huge numbers
        means = (X / np.float64(len(X))).sum(axis=0)
    return means


def _view(X: Any, names: Sequence[str], texts: Sequence[str]) -> TableView:
    """Look at rows column by column, under the names of the model's columns."""
    if is_frame(X):
        view = view_table(X)
        return _derived(view, dict(zip(names, view.names, strict=True)), lambda _, column: column)
    array = np.asarray(X)
    columns = dict(zip(names, array.T, strict=True))
    if array.dtype.kind in "US":  # in which numbers are text, too
        columns = {n: c if n in set(texts) else _parsed(c) for n, c in columns.items()}
    return view_table(columns)


def _parsed(column: NDArray[Any]) -> NDArray[Any]:
    try:
        return column.astype(np.float64)
    except ValueError:
        return column


def _derived(
    view: TableView, sources: Mapping[str, str], change: Callable[[str, Any], Any]
) -> TableView:
    """Look at a view under other names, with changed columns."""
    return TableView(
        names=list(sources),
        n_rows=view.n_rows,
        column=lambda name: change(name, view.column(sources[name])),
        slice=lambda start, stop: _derived(view.slice(start, stop), sources, change),
    )


def _categories_of(column: Numbers | Levels) -> Levels:
    """Take numbers for categories: 2 and 2.0 are the same one."""
    if isinstance(column, Levels):
        return column
    codes = np.full(len(column.values), -1)
    present = np.flatnonzero(~np.isnan(column.values))
    values, codes[present] = np.unique(column.values[present], return_inverse=True)
    return Levels(codes, [_as_text(value) for value in values.tolist()])


def _as_text(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)


def _numbers_of(name: str, column: Numbers | Levels) -> Numbers:
    """Take a column for numbers, whatever its type, or say that it holds text."""
    if isinstance(column, Numbers):
        return column
    levels = ["0", "1"] if column.boolean else column.levels
    bad = [level for level in levels if not is_number(level)]
    if bad:
        raise ValueError(
            f"Column {name!r} holds text, for example {bad[0]!r}, but "
            "`categorical_features=None` says that no column has categories. Leave "
            "`categorical_features` out, or convert the column."
        )
    return Numbers(np.array([*map(float, levels), np.nan])[column.codes], integer=False)


def named_columns(named: Any, names: Sequence[str], has_names: bool) -> list[str] | None:
    """Columns that ``categorical_features`` names, as scikit-learn reads it.

    Parameters
    ----------
    named : array-like of bool, int or str, "from_dtype" or None
        The parameter.
    names : sequence of str
        Columns of the rows.
    has_names : bool
        Whether these are names that the rows came with.

    Returns
    -------
    found : list of str or None
        Those named besides the ones whose type says so; None if no column has categories.

    Raises
    ------
    ValueError
        For columns that are not there.

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
    """Raise ``ValueError`` if something cannot be ``categorical_features``."""
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


def _read(
    X: Any, names: Sequence[str], named: list[str] | None, texts: Sequence[str] = ()
) -> TableView:
    """Look at rows column by column, with categories where some are named.

    Parameters
    ----------
    X : frame or array of shape (n_rows, n_features)
        Rows.
    names, named, texts
        As in :class:`TableColumns`.
    """
    view = _view(X, names, texts)
    if named == []:
        return view

    def read(name: str, column: Numbers | Levels) -> Numbers | Levels:
        if named is None:
            return _numbers_of(name, column)
        return _categories_of(column) if name in named else column

    return _derived(view, {name: name for name in names}, read)


@dataclass(frozen=True)
class TableColumns:
    """Columns as a :class:`mercer.data.TablePreprocessor` encodes them, frozen.

    Attributes
    ----------
    names : list of str
        Columns, in the order of the rows.
    named : list of str or None
        Columns whose numbers are categories; None if no column has categories.
    preprocessor : TablePreprocessor
        What was measured; numbers are not scaled by it.

    Examples
    --------
    >>> columns = TableColumns.measured({"town": ["Bern", "Bonn"], "height": [540.0, None]}, [])
    >>> columns.preprocessor.feature_names_out()[:2]
    ['town=Bern', 'town=Bonn']
    """

    names: list[str]
    named: list[str] | None
    preprocessor: TablePreprocessor

    @classmethod
    def measured(cls, table: Any, named: list[str] | None, dtype: Any = "float64") -> Self:
        """Measure the columns of a table.

        Raises
        ------
        ValueError
            If there are no rows, a column is unusable, or none varies.
        """
        view = view_table(table)
        empty = [n for n in view.names if missing_cells(view.column(n)) == view.n_rows > 0]
        if empty:
            warn_user(
                f"Columns without a value in any of the {view.n_rows} rows are left out: "
                f"{listed(empty)}.",
                UserWarning,
            )
        columns = TablePreprocessor(
            min_count=max(1, min(_RARE, view.n_rows // _RARE_SHARE)),
            warmup_rows=None,
            scaling="none",
            exclude=tuple(empty),
            dtype=dtype,
        )
        return cls(list(view.names), named, columns.partial_fit(view).freeze())

    @property
    def n_inputs(self) -> int:
        """Number of inputs that they become."""
        return self.preprocessor.n_features_out_

    @property
    def texts(self) -> list[str]:
        """Columns that are read as text."""
        return self.preprocessor.text_columns_

    def encode(self, view: TableView) -> FloatArray:
        """Return the inputs of rows."""
        return self.preprocessor.transform(view)

    def to_state(self) -> dict[str, Any]:
        """Return all of it as plain data; names of categories may be anything, so as one text."""
        state = json.dumps(self.preprocessor.to_state())
        return {"names": self.names, "named": self.named, "preprocessor": state}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        columns = TablePreprocessor.from_state(json.loads(state["preprocessor"]))
        names = [*columns.feature_names_in_, *columns.exclude]
        if not columns.frozen_ or sorted(names) != sorted(state["names"]):
            raise ValueError("the columns do not match their names")
        return cls(list(state["names"]), state["named"], columns)


@dataclass(frozen=True)
class StreamColumns:
    """Columns of a stream: a number is an input, and so is each category from its first row on.

    A number that is missing is NaN, which says nothing; a row is 1 at its category and 0 at the
    others of that column, all NaN if it is missing.

    Attributes
    ----------
    names, named
        As in :class:`TableColumns`.
    kinds : dict of str to str
        "number" or "levels" for each column that had a value.
    inputs : list of (str, str or None)
        Column, and category, of each input.

    Examples
    --------
    >>> columns = StreamColumns(["town", "height"], [])
    >>> table = view_table({"town": ["Bern", "Bonn"], "height": [540.0, None]})
    >>> columns = columns.grown(table)
    >>> columns.encode(table)
    array([[  1.,   0., 540.],
           [  0.,   1.,  nan]])
    """

    names: list[str]
    named: list[str] | None
    kinds: dict[str, str] = field(default_factory=dict)
    inputs: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def n_inputs(self) -> int:
        """Number of inputs that they become."""
        return len(self.inputs)

    @property
    def texts(self) -> list[str]:
        """Columns that are read as text."""
        return [name for name, kind in self.kinds.items() if kind == "levels"]

    def grown(self, view: TableView) -> Self:
        """Return columns that have room for some more rows, or these if they have.

        Raises
        ------
        ValueError
            If nothing is known of any column yet.
        """
        kinds, inputs = dict(self.kinds), list(self.inputs)
        for name in self.names:
            column = view.column(name)
            if missing_cells(column) == view.n_rows:
                continue
            is_text = isinstance(column, Levels) and not column.boolean
            if kinds.setdefault(name, "levels" if is_text else "number") == "number":
                found: list[str | None] = [None]
            else:
                found = list(_present(level_column(view, name)))
            known = {level for of, level in inputs if of == name}
            new = [level for level in found if level not in known]
            inputs += [(name, level) for level in new[: _MOST_LEVELS - len(known)]]
        if not inputs:
            raise ValueError("The rows have no value in any column, so there is nothing to learn.")
        if len(inputs) == len(self.inputs):
            return self
        return replace(self, kinds=kinds, inputs=inputs)

    def past_of_new(self, n_known: int) -> Array:
        """Return what rows had so far in the inputs after ``n_known``: 0 for one of a category."""
        new = self.inputs[n_known:]
        return np.array([np.nan if level is None else 0.0 for _, level in new])

    def encode(self, view: TableView) -> FloatArray:
        """Return the inputs of rows, NaN for what they do not say."""
        X = np.zeros((view.n_rows, len(self.inputs)))
        for name, kind in self.kinds.items():
            slots = {level: i for i, (of, level) in enumerate(self.inputs) if of == name}
            if kind == "number":
                X[:, slots[None]] = _truth_as_numbers(view, name)
                continue
            column = level_column(view, name)
            places = np.array(list(slots.values()))
            X[np.ix_(np.flatnonzero(column.codes < 0), places)] = np.nan
            slot = np.array([*(slots.get(level, -1) for level in column.levels), -1])[column.codes]
            rows = np.flatnonzero(slot >= 0)
            X[rows, slot[rows]] = 1.0
        return X

    def to_state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        state = json.dumps({"kinds": self.kinds, "inputs": self.inputs})
        return {"names": self.names, "named": self.named, "stream": state}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        known = json.loads(state["stream"])
        inputs = [(name, level) for name, level in known["inputs"]]
        if not {*known["kinds"], *(name for name, _ in inputs)} <= set(state["names"]):
            raise ValueError("the columns do not match their names")
        return cls(list(state["names"]), state["named"], dict(known["kinds"]), inputs)


def _present(column: Levels) -> list[str]:
    """Levels that a column has, in the order of their rows."""
    _, first = np.unique(column.codes, return_index=True)
    return [column.levels[code] for code in column.codes[np.sort(first)] if code >= 0]


def _truth_as_numbers(view: TableView, name: str) -> Array:
    column = view.column(name)
    if isinstance(column, Levels) and column.boolean:
        return np.array([0.0, 1.0, np.nan])[column.codes]
    numbers: Array = number_block(view, [name])[0]
    return numbers


#: How the columns of rows become inputs of a function.
Columns = TableColumns | StreamColumns


def columns_from_state(state: Mapping[str, Any]) -> Columns:
    """Inverse of the ``to_state`` of either kind of columns."""
    return (StreamColumns if "stream" in state else TableColumns).from_state(state)


# -- estimators ------------------------------------------------------------------------------------


class TableInputs:
    """Rows of an estimator, checked; tables among them where it takes such; not for direct use."""

    n_features_in_: int
    categorical_features: Any
    #: What becomes of the columns; None where rows go in as they are.
    _columns: Columns | None = None
    #: Means of columns that went in as they are, which take the place of gaps in later rows.
    _means: Array | None = None
    #: Whether rows may be tables; else they must be numbers.
    _takes_tables: ClassVar[bool] = False

    @property
    def preprocessor_(self) -> TablePreprocessor | None:
        """How columns became inputs; None if rows went in as they are, or come as a stream."""
        if not hasattr(self, "n_features_in_"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        return self._columns.preprocessor if isinstance(self._columns, TableColumns) else None

    @property
    def _n_inputs(self) -> int:
        """Inputs that the columns become."""
        return self.n_features_in_ if self._columns is None else self._columns.n_inputs

    def _checked_rows(
        self, X: Any, *y: Any, first: bool, gaps: bool, learns: bool = True, **options: Any
    ) -> Any:
        """Return rows as inputs, and targets if there are any.

        Parameters
        ----------
        X : array-like, frame or CSR matrix of shape (n_rows, n_features)
            As they were given.
        *y : array-like
            Targets.
        first : bool
            Whether these rows say what the columns are.
        gaps : bool
            Whether the function knows what to do with NaN.
        learns : bool
            Whether the rows are to be learned.
        **options : dict
            Checks of the targets.
        """
        if not self._takes_tables:
            finite = "allow-nan" if gaps else True
            checks = {**_CHECKS, **options, "ensure_all_finite": finite}
            return numeric_rows(self, X, *y, reset=first, **checks)
        X, y = _as_rows(X), tuple(map(_plain_targets, y))
        if first:
            found = self._first_rows(X, y, gaps, options)
        else:
            found = self._later_rows(X, y, gaps, learns, options)
        return found if y else found[0]

    def _first_rows(self, X: Any, y: Sequence[Any], gaps: bool, options: dict[str, Any]) -> Any:
        """Decide what becomes of the columns."""
        self._columns = self._means = None
        rows, is_plain = X, _are_numbers(X)
        if is_plain:
            rows, *y = _numbers(self, X, y, reset=True, **options)
        else:
            validate_data(self, X, skip_check_array=True)
        names = _names(self)
        named = named_columns(self.categorical_features, names, hasattr(self, "feature_names_in_"))
        if is_plain and not named and (gaps or not _has_gaps(rows)):
            if isinstance(rows, np.ndarray) and not gaps:
                self._means = _means(rows)
            return rows, *y
        if sparse.issparse(rows):
            raise ValueError(
                "`categorical_features` are for dense rows, and these are sparse. Leave it out, or "
                "use `toarray()`."
            )
        view = _read(X if is_frame(X) else rows, names, named)
        if gaps:
            self._columns = StreamColumns(names, named).grown(view)
        else:
            dtype = str(rows.dtype) if is_plain else "float64"
            self._columns = TableColumns.measured(view, named, dtype)
        return _encoded(self, view, y, gaps, options)

    def _later_rows(
        self, X: Any, y: Sequence[Any], gaps: bool, learns: bool, options: dict[str, Any]
    ) -> Any:
        """Read rows as the first ones were."""
        columns = self._columns
        if columns is None:
            try:
                rows, *y = _numbers(self, X, y, reset=False, **options)
            except (TypeError, ValueError):
                if not _are_numbers(X):  # say where, and what to do
                    number_block(_view(X, _names(self), ()), _names(self))
                raise
            return (rows if gaps else self._filled(rows)), *y
        if sparse.issparse(X):
            raise ValueError(
                "This model learned columns with gaps or categories, and these rows are a sparse "
                "matrix. Use `toarray()`, or a DataFrame."
            )
        if not is_frame(X):
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)
        validate_data(self, X, skip_check_array=True, reset=False)
        view = _read(X, columns.names, columns.named, columns.texts)
        if learns and isinstance(columns, StreamColumns):
            self._columns = columns.grown(view)
        return _encoded(self, view, y, gaps, options)

    def _encoded_row(self, row: NDArray[Any]) -> FloatArray:
        """Return the inputs of a row, an array of shape (1, n_features)."""
        columns = self._columns
        assert columns is not None
        view = _read(row, columns.names, columns.named, columns.texts)
        inputs: FloatArray = columns.encode(view)[0]
        return inputs

    def _filled(self, X: Any) -> Any:
        """Put means in the place of gaps."""
        if not _has_gaps(X):
            return X
        if self._means is None:
            raise ValueError(
                "Input X contains NaN, but nothing is known of the means of the columns: the rows "
                "that this model learned had no gaps, and were sparse or of an older version of "
                "mercer. Impute them before."
            )
        return np.where(np.isnan(X), self._means.astype(X.dtype), X)


def _plain_targets(y: Any) -> Any:
    """Return targets of pandas' own types in those of NumPy: whole numbers stay whole.

    Raises
    ------
    ValueError
        If some are missing.
    """
    cells = y.to_numpy() if hasattr(y, "to_numpy") else y
    dtype = getattr(cells, "dtype", None)
    if dtype is None or cells.ndim != 1:
        return y
    if dtype.kind == "O":
        nothing = [
            cell is None or type(cell).__name__ == "NAType" or cell != cell for cell in cells
        ]
        if any(nothing):
            raise ValueError(
                f"Input y contains NaN, or nothing, in {sum(nothing):,} of {len(nothing):,} rows, "
                f"first in row {nothing.index(True)}. There is nothing to learn from such rows: "
                "remove them, or fill in the target."
            )
    return cells


def _names(estimator: Any) -> list[str]:
    """Names of the columns of an estimator's rows: x0, x1, ... where they came without."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{number}" for number in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def _numbers(estimator: Any, X: Any, y: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Check rows of numbers, dense ones with gaps or not, and targets if there are any."""
    found = validate_data(estimator, X, *y, ensure_all_finite="allow-nan", **_CHECKS, **options)
    rows = found[0] if y else found
    if sparse.issparse(rows) and np.isnan(rows.data).any():
        raise ValueError("Input X contains NaN, which must not be in a sparse matrix. Impute it.")
    return found if y else (rows,)


def _encoded(
    estimator: Any, view: TableView, y: Sequence[Any], gaps: bool, options: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Encode rows, and check that they go with their targets."""
    rows = estimator._columns.encode(view)
    checks: dict[str, Any] = {**_CHECKS, "ensure_all_finite": "allow-nan" if gaps else True}
    if y:
        found: tuple[Any, ...] = check_X_y(rows, *y, estimator=estimator, **checks, **options)
        return found
    return (check_array(rows, estimator=estimator, input_name="X", **checks),)


def numeric_rows(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Check rows of an estimator that takes numbers only, and say what to do with others.

    Parameters
    ----------
    estimator : estimator
        Whose rows they are.
    X : array-like, frame or CSR matrix of shape (n_rows, n_features)
        Rows.
    *y : array-like
        Targets, if there are any.
    **options : dict
        As for :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    rows : ndarray or CSR matrix, or with targets a tuple of these
        As that function returns them.

    Raises
    ------
    ValueError
        If rows or targets are unusable.
    """
    try:
        return validate_data(estimator, X, *y, **options)
    except (TypeError, ValueError) as error:
        text = _first_text(_as_rows(X))
        if text is None:
            raise
        raise ValueError(
            f"There is text in the rows, first {text!r}, but a {type(estimator).__name__} learns "
            "numbers. Encode the columns with mercer.data.TablePreprocessor, or use "
            "mercer.estimators.TableModel, which does so."
        ) from error


def _first_text(X: Any) -> str | None:
    """Return the first text among the cells of rows that is no number."""
    if _are_numbers(X):
        return None
    if is_frame(X):
        view = view_table(X)
        columns = [view.column(name) for name in view.names]
        cells: Any = [c.first() for c in columns if isinstance(c, Levels) and not c.boolean]
    else:
        cells = np.ravel(X)
    return next((str(one) for one in cells if isinstance(one, str) and not is_number(one)), None)
