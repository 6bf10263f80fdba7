"""What users give, as inputs of a function: rows, weights, groups, and columns of tables.

Rows are checked (:func:`check_weights`, :func:`finite_or_where`). The first rows of a model
determine how columns of tables are encoded (:func:`measured`). In the default for streams, later
rows extend the encoding (:class:`StreamColumns`).
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns import TablePreprocessor
from mercer.columns.audit import ColumnAudit, TableAudit
from mercer.columns.null_values import Unreadable
from mercer.columns.readings import Reading, Readings
from mercer.columns.views import (
    Levels,
    Numbers,
    TableView,
    check_names,
    is_frame,
    is_number,
    level_column,
    listed,
    missing_cells,
    number_block,
    says_nothing,
    view_table,
)
from mercer.exceptions import Advice, DependentRowsWarning, InputScaleWarning, InPython, Setting
from mercer.kernels import Kernel
from mercer.records import Maybe, Named, Part, Record, Recorded, Several
from mercer.selection import (
    FEWEST_GROUPS,
    FIRST_COLUMNS,
    columns_of_groups,
    groups_alike,
    neighbours_alike,
)
from mercer.sums import RevisitableRows
from mercer.validation import check_numbers, nearest, or_none, text

Array = NDArray[np.float64]
T = TypeVar("T")

#: Largest weight of a row.
HEAVIEST = float(np.finfo(np.float64).max)
_SAMPLE = 1000  # rows looked at for length scales and step sizes
# If one column has more than this share of the total variance, it alone decides distances.
_ALONE = 0.999
# Prefix of the folders of this library and of the packages built on it: no warnings point there.
_OURS = str(Path(__file__).parents[1])
_RESCALE = "Rescale the inputs, for example with sklearn.preprocessing.StandardScaler."
_DATES = "Dates count in seconds."


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this library that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_weights(sample_weight: Any, n_rows: int, *, some: bool = False) -> Array:
    """Return the weights of rows as an array; all 1 for None.

    Parameters
    ----------
    sample_weight : array-like or None
        Weights as the user gave them.
    n_rows : int
        Required number of weights.
    some : bool, default=False
        Whether at least one weight must be above 0.

    Raises
    ------
    ValueError
        If these are not valid weights.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except OverflowError:
        raise ValueError(
            f"`sample_weight` must be at most {HEAVIEST:g}, got an integer beyond."
        ) from None
    except (TypeError, ValueError):
        cells = [
            np.nan if says_nothing(one) else one
            for one in np.asarray(sample_weight, dtype=object).ravel().tolist()
        ]
        wrong = next((one for one in cells if not isinstance(one, int | float)), None)
        if wrong is not None:
            raise ValueError(
                f"`sample_weight` must be numbers, got {wrong!r} in row {cells.index(wrong)}. Give "
                "one number that is not negative for each row."
            ) from None
        weights = np.asarray(cells, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have shape ({n_rows},), one weight per row, got {weights.shape}."
        )
    wrong_rows = np.flatnonzero(~((weights >= 0.0) & (weights <= HEAVIEST)))
    if wrong_rows.size:
        raise ValueError(
            f"`sample_weight` must be finite and not negative, at most {HEAVIEST:g}: it has other "
            f"values in {wrong_rows.size:,} of {n_rows:,} rows, first {weights[wrong_rows[0]]:g} "
            f"in row {wrong_rows[0]}. A negative weight would drive the function away from its "
            "target; give rows that are not to count the weight 0."
        )
    if some and not weights.any():
        raise ValueError(
            "`sample_weight` is zero for all rows, so none counts. Give some rows a weight."
        )
    return weights


def are_plain(X: Any, n_columns: int) -> bool:
    """Whether rows are an array of finite numbers, of the right type and number of columns."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == n_columns
        and bool(np.isfinite(X).all())
    )


_SAID = re.compile(r"Input (\w+) contains (NaN|infinity)")
# What NumPy says of values that are no numbers.
_NO_NUMBERS = re.compile("could not convert|setting an array element|a real number|int too large")
_MENDS = {
    ("y", "NaN"): "There is nothing to learn from such rows: remove them, or fill in the target.",
    ("y", "infinity"): "No function has such values: remove these rows, or correct the target.",
    ("X", "NaN"): "Impute such cells before, for example with sklearn.impute.SimpleImputer, or "
    "remove these rows.",
    ("X", "infinity"): "Put a number in their place, or NaN where nothing is known, or remove "
    "these rows.",
}


def finite_or_where(check: Callable[[], T], X: Any, y: Any = None) -> T:
    """Run a scikit-learn check; if it finds NaN, infinity or no numbers, report the cells.

    Parameters
    ----------
    check : callable
        The check.
    X : array-like, frame, sparse matrix or TableView of shape (n_rows, n_columns)
        Rows as the user gave them.
    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Targets.

    Raises
    ------
    ValueError, TypeError
        The check's error, with the number of such rows, the first one, its column and a remedy.

    Examples
    --------
    >>> from sklearn.utils import check_array
    >>> X = np.array([[1.0, 2.0], [3.0, np.inf]])
    >>> finite_or_where(lambda: check_array(X, input_name="X"), X)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: Input X contains infinity in 1 of 2 rows, first inf in row 1, column 1. Put a ...
    """
    try:
        return check()
    except (TypeError, ValueError, OverflowError) as error:
        said = _SAID.match(str(error))
        if said is None:
            if _NO_NUMBERS.search(str(error)):
                for name, given in (("X", X), ("y", y)):
                    if not _is_told(given):
                        check_numbers(f"Input {name}", given)
            raise
        name, what = said.groups()
        most = float(np.finfo(np.float32 if "float32" in str(error) else np.float64).max)
        given = X if name == "X" else y
        where = None if given is None else _where(given, what, most)
        if where is None:
            raise
        mend = _MENDS.get((name, what), "Remove such rows, or correct them.")
        raise ValueError(f"Input {name} contains {what} in {where}. {mend}") from None


def _is_told(given: Any) -> bool:
    """Return whether cells are of a kind whose checks name the cell by themselves."""
    return isinstance(given, TableView) or sparse.issparse(given)


def _where(cells: Any, what: str, most: float) -> str | None:
    """Return a text with the number and first place of NaN or infinity; None if none is found."""
    first: tuple[int, str, float] | None = None
    rows: set[int] = set()
    for column, values in _columns(cells):
        bad = np.isnan(values) if what == "NaN" else np.abs(values) > most
        places = np.flatnonzero(bad)
        if places.size:
            rows.update(places.tolist())
            if first is None or places[0] < first[0]:
                first = int(places[0]), column, float(values[places[0]])
    if first is None:
        return None
    n_rows = cells.n_rows if isinstance(cells, TableView) else _n_rows(cells)
    value = "" if what == "NaN" else f" {first[2]:g}"
    of = f", column {first[1]}" if first[1] else ""
    return f"{len(rows):,} of {n_rows:,} rows, first{value} in row {first[0]}{of}"


def _n_rows(cells: Any) -> int:
    return int(cells.shape[0]) if hasattr(cells, "shape") else len(cells)


def _columns(cells: Any) -> Iterator[tuple[str, Array]]:
    """Iterate over columns as numbers, with their names or numbers; text counts as 0."""
    if sparse.issparse(cells):
        rows = cells.tocsc()
        for column in range(rows.shape[1]):
            dense = np.zeros(rows.shape[0])
            some = slice(rows.indptr[column], rows.indptr[column + 1])
            dense[rows.indices[some]] = rows.data[some]
            yield str(column), dense
    elif isinstance(cells, TableView) or is_frame(cells):
        view = cells if isinstance(cells, TableView) else view_table(cells)
        for name in view.names:
            found = view.column(name)
            if isinstance(found, Levels):
                yield repr(name), np.where(found.codes < 0, np.nan, 0.0)
            else:
                yield repr(name), np.asarray(found.values, dtype=np.float64)
    else:
        array = np.asarray(cells, dtype=object if isinstance(cells, list | tuple) else None)
        flat = array.ndim == 1
        for column, values in enumerate([array] if flat else array.reshape(len(array), -1).T):
            yield ("" if flat else str(column)), _as_numbers(values)


def _as_numbers(values: NDArray[Any]) -> Array:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_as_number(value) for value in values.tolist()])


def _as_number(value: Any) -> float:
    if says_nothing(value):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return 0.0


def check_not_tiny(sample: Any, *, each: bool) -> None:
    """Refuse inputs so small that their squares underflow: all distances would be 0.

    Parameters
    ----------
    sample : ndarray or CSR matrix of shape (n, n_features)
        Sample of the rows.
    each : bool
        Whether to check each column in its own unit, or all columns together.

    Raises
    ------
    ValueError
        If inputs are too small, but not all 0.
    """
    largest = abs(sample).max(axis=0)
    largest = np.ravel(largest if isinstance(largest, np.ndarray) else largest.toarray())
    # Columns are scaled in double precision; distances have the precision of the inputs.
    columns = [(f" of column {i}", x, np.float64) for i, x in enumerate(largest)] if each else []
    for which, x, dtype in [("", largest.max(initial=0.0), sample.dtype), *columns]:
        if 0.0 < x < np.sqrt(np.finfo(dtype).tiny):
            raise ValueError(
                f"These are rows whose largest input{which} is {float(x):.3g}: its square is 0 in "
                f"{np.dtype(dtype)}, so that they could not be told apart. {_RESCALE}"
            )


def warn_if_one_column_decides(sample: Any, names: Sequence[str] | None = None) -> None:
    """Warn if a single column decides the distances of rows, because of its unit.

    Parameters
    ----------
    sample : ndarray or CSR matrix of shape (n, n_features)
        Sample of the rows; sparse rows are counts or weights in one unit, so they are not checked.
    names : sequence of str, default=None
        Table column that each input encodes; None if inputs are the columns.

    Warns
    -----
    mercer.exceptions.InputScaleWarning
        If one column has more than 99.9 % of the variance, and other columns vary too.
    """
    if sparse.issparse(sample):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(sample, axis=0, dtype=np.float64)
    largest = int(np.argmax(spread))
    others = np.delete(spread, largest)
    if not (np.isfinite(spread).all() and others.any()):
        return
    if np.sum((others / spread[largest]) ** 2) < 1.0 - _ALONE:
        which, mend = f"Column {largest} of the inputs", _RESCALE
        if names is not None:
            which = f"The column {names[largest]!r}"
            mend = (
                f"Rescale the columns, or leave `kernel` out: one that is chosen does it. {_DATES}"
            )
        warn_user(
            f"{which} has a deviation of {spread[largest]:.3g}, the others "
            f"of {others.max():.3g} at most: distances between rows are those of this column, and "
            f"from the others hardly anything is learned. {mend}",
            InputScaleWarning,
        )


def sample_of(n: int, generator: np.random.RandomState) -> Any:
    """Return which of ``n`` rows automatic choices look at."""
    if n <= _SAMPLE:
        return slice(None)
    return np.sort(generator.choice(n, _SAMPLE, replace=False))


def resolve_kernel(kernel: Kernel, sample: Any, generator: np.random.RandomState) -> Kernel:
    """Resolve the kernel's numbers from a sample of rows.

    Raises
    ------
    ValueError
        If the rows do not allow that; the message says why.
    """
    try:
        return kernel.resolve(sample, generator)
    except ValueError as error:
        raise ValueError(
            f"{kernel!r} cannot take its numbers from these rows, whose largest input is "
            f"{float(abs(sample).max()):.3g}: {error} {_RESCALE}"
        ) from error


# -- rows that are held out together ---------------------------------------------------------------


class HeldBy(NamedTuple):
    """Groups or times that determine which rows are held out together.

    Attributes
    ----------
    groups, time : array-like of shape (n_rows,) or None
        Group of each row, and its time; after the check, numbers of the groups and ranks in time.
    """

    groups: Any = None
    time: Any = None

    def checked(self, n_rows: int, weights: Any) -> Self:
        """Return group numbers, or ranks in time, for ``n_rows`` rows.

        Raises
        ------
        ValueError
            If both are given, or if they do not fit the rows, have missing values or are too few.

        Examples
        --------
        >>> HeldBy(groups=list("cabdeab")).checked(7, None).groups
        array([2, 0, 1, 3, 4, 0, 1])
        >>> HeldBy(time=["2024-01-02", "2023-05-01"]).checked(2, None).time
        array([1, 0])
        """
        if self.groups is not None and self.time is not None:
            raise ValueError(
                "`groups` and `time` were both given, and rows are held out by one of them. Give "
                "`groups` if new rows will be of new groups, `time` if they will be later."
            )
        if self.time is not None:
            ranks = np.unique(_times(_each_row("time", self.time, n_rows)), return_inverse=True)[1]
            return self._replace(time=ranks.astype(np.int64))
        values = _each_row("groups", self.groups, n_rows)
        names = values.astype(str) if values.dtype == object else values
        numbers = np.unique(names, return_inverse=True)[1]
        n_groups = np.unique(numbers[check_weights(weights, n_rows) > 0.0]).size
        if n_groups < FEWEST_GROUPS:
            raise ValueError(
                f"`groups` has {n_groups} group{'s' * (n_groups != 1)} among the rows that count, "
                f"and at least {FEWEST_GROUPS} are needed to learn from some and judge by others. "
                "Leave it out, or name another column."
            )
        return self._replace(groups=numbers.astype(np.int64))


def values_by_column(table: Any, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return columns that may name groups as numbers or codes: the first ones of a table."""
    view = view_table(table)
    some = (view.names if names is None else names)[:FIRST_COLUMNS]
    columns = {name: view.column(name) for name in some}
    return {
        name: column.codes if isinstance(column, Levels) else column.values
        for name, column in columns.items()
    }


def say_if_alike(
    rows: RevisitableRows,
    columns: Mapping[str, NDArray[Any]],
    owners: Sequence[str],
    seed: int,
    *,
    named: bool = True,
) -> None:
    """Warn if rows look like groups or a time series, and the user has not said so.

    Parameters
    ----------
    rows : RevisitableRows
        Rows in the order of arrival; targets are numbers or codes of classes.
    columns : mapping of str to ndarray
        Columns of the first rows that may name groups, as numbers or codes.
    owners : sequence of str
        Column that each input encodes.
    seed : int
        Seed for random draws.
    named : bool, default=True
        Whether columns have names that can be given as ``groups``.

    Warns
    -----
    mercer.exceptions.DependentRowsWarning
        The message says how to declare groups or time.
    """
    for name, groups in columns_of_groups(columns).items():
        others = np.array([owner != name for owner in owners], dtype=bool)
        found = groups_alike(rows, groups, others, seed)
        if found:
            told = f"`groups={name!r}`" if named else "`groups` to `fit`"
            said = Advice(
                f"Rows with the same {name!r} are alike beyond what the inputs say (their errors "
                f"correlate {found:.2f}), so errors and intervals promise too much for rows with "
                "new ones. If such are to come, give ",
                InPython(told, (Setting("group", name),)),
                ".",
            )
            warn_user(said, DependentRowsWarning)
            return
    found = neighbours_alike(rows, seed)
    if found:
        said = Advice(
            "Neighbouring rows are alike beyond what the inputs say (their errors correlate "
            f"{found:.2f}), so errors and intervals promise too much for rows to come. If rows are "
            "in the order of time, give ",
            InPython("`time`", ("`--time`",)),
            "; if neighbours are of the same person, machine or place, ",
            InPython("`groups`", ("`--group`",)),
            ".",
        )
        warn_user(said, DependentRowsWarning)


def _each_row(name: str, given: Any, n_rows: int) -> NDArray[Any]:
    """Return one value per row; ValueError if the number differs or values are missing."""
    values = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
    if values.shape != (n_rows,):
        raise ValueError(
            f"`{name}` must have one value for each of the {n_rows:,} rows, got shape "
            f"{values.shape}. It says of each row what it belongs to, or is the name of a column "
            "of a table."
        )
    if values.dtype == object:
        missing = np.array([_is_missing(value) for value in values])
    elif values.dtype.kind in "mM":
        missing = np.isnat(values)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    if missing.any():
        raise ValueError(
            f"`{name}` has no value in {int(missing.sum()):,} of {n_rows:,} rows, first in row "
            f"{int(missing.argmax()):,}. Remove them, or fill in the values."
        )
    return values


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing; pandas' missing values do not allow comparisons."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _times(values: NDArray[Any]) -> NDArray[Any]:
    """Return values that can be sorted; ValueError for text that is not a date."""
    if values.dtype.kind in "biufmM":
        return values
    try:
        return values.astype("datetime64[us]")
    except (ValueError, TypeError):
        pass
    try:
        return values.astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(
            f"`time` must be numbers, dates or ISO text such as 2024-01-31, got {values[0]!r} "
            "among others. Convert it, for example with pandas.to_datetime."
        ) from None


def taken_out(X: Any, name: str, what: str) -> tuple[Any, Any]:
    """Return a table without one column, and the values of that column.

    Raises
    ------
    ValueError
        If the rows are not a table, or the column does not exist.
    """
    if not is_frame(X):
        raise ValueError(
            f"`{what}={name!r}` names a column, but the rows are no table: give one value for each "
            "row, or a DataFrame."
        )
    names = list(getattr(X, "column_names", None) or X.columns)
    if name not in names:
        raise ValueError(
            f"`{what}={name!r}` names no column of the rows.{nearest(name, names)} They have "
            f"{listed(names)}."
        )
    if len(names) == 1:
        raise ValueError(
            f"`{what}={name!r}` is the only column, so there is nothing to learn from."
        )
    return without_column(X, name), X[name]


def without_column(X: Any, name: str) -> Any:
    """Return a table without the named column; unchanged if there is no such column."""
    if hasattr(X, "column_names"):  # pyarrow
        return X.select([n for n in X.column_names if n != name])
    if name not in list(X.columns):
        return X
    return X.drop(columns=name) if hasattr(X, "iloc") else X.drop(name)


# -- columns that are named ------------------------------------------------------------------------

# Largest number of inputs of one categorical column in a stream.
_MOST_LEVELS = 128
_BY_DTYPE = "from_dtype"
_NO_VALUE = "The rows have no value in any column, so there is nothing to learn."


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
            f"names of columns, got {listed(named.tolist())}."
        )
    wanted, known = set(named.tolist()), set(names)
    for name in named.tolist():
        if name not in known:
            raise ValueError(
                f"`categorical_features` has {name!r}, which is no column of the rows."
                f"{nearest(name, names)} They have {listed(names)}."
            )
    return [name for name in names if name in wanted]


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
            f"str, got {named!r:.200}."
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
    view: TableView,
    y: Any,
    named: list[str] | None,
    dtype: str = "auto",
    codes: Collection[str] | None = None,
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
    codes : collection of str or None, default=None
        Columns of numbers that are codes; if there are such, all others are numbers. None to look
        for them.

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
    if codes:
        kinds = {one: "number" for one in view.names if isinstance(view.column(one), Numbers)}
    columns = TablePreprocessor(
        warmup_rows=None,
        scaling="none",
        exclude=tuple(empty),
        dtype=dtype,  # type: ignore[arg-type]
        kinds={name: kind for name, kind in kinds.items() if name not in empty},
        suspects="keep",
        codes="auto" if codes is None else tuple(sorted(codes)),
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
        known = self.readings.columns
        new = [name for name in view.names if name not in known]
        new = [name for name in new if missing_cells(view.column(name)) < view.n_rows]
        later = _readings_of(view, new, self.named) if new else ()
        readings = Readings([*known.values(), *later])
        read, inputs, slots = readings.read(view), list(self.inputs), self._slots()
        for name in read.names:
            of_column = slots.get(name, {})
            found: list[str | None] = [None]
            if _has_levels(readings, name):
                found = list(_present(level_column(read, name)))
            more = [level for level in found if level not in of_column]
            inputs += [(name, level) for level in more[: _MOST_LEVELS - len(of_column)]]
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


def _readings_of(
    view: TableView, names: Sequence[str], named: list[str] | None
) -> Iterator[Reading]:
    """Determine how to read columns of a stream, by their types since the first rows are few."""
    kinds = kinds_of(view, named)
    of_kinds = [name for name in names if name in kinds]
    told = Readings.of(view, of_kinds, kinds=kinds, include=(), keep=True, min_count=1).columns
    plain = Readings.plain(view, [name for name in names if name not in kinds]).columns
    return (told.get(name) or plain[name] for name in names)


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
    odd, lenient, readings = Unreadable(strict=False), True, columns.readings_
    for name, kind, n, cell, row in columns.unreadable(view):
        odd.add(name, kind, n, cell, f"row {row} of this table")
        some = view.n_rows - missing_cells(view.column(name))
        lenient &= not readings[name].is_another(n, some)
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
