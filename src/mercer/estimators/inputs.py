"""First processing of rows: weights, finite values, a sample, numbers of the kernel, groups."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns.views import Levels, TableView, is_frame, says_nothing, view_table
from mercer.exceptions import (
    Advice,
    DependentRowsWarning,
    InputScaleWarning,
    InPython,
    Setting,
)
from mercer.kernels import Kernel
from mercer.selection import FEWEST_GROUPS, columns_of_groups, groups_alike, neighbours_alike
from mercer.sums import RevisitableRows

Array = NDArray[np.float64]
T = TypeVar("T")

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
    wrong_rows = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if wrong_rows.size:
        raise ValueError(
            "`sample_weight` must be finite and not negative: it has NaN, infinite or negative "
            f"values in {wrong_rows.size:,} of {n_rows:,} rows, first {weights[wrong_rows[0]]:g} "
            f"in row {wrong_rows[0]}. A negative weight would drive the function away from its "
            "target; give rows that are not to count the weight 0."
        )
    if some and not weights.any():
        raise ValueError(
            "`sample_weight` is zero for all rows, so none counts. Give some rows a weight."
        )
    return weights


_SAID = re.compile(r"Input (\w+) contains (NaN|infinity)")
_MENDS = {
    ("y", "NaN"): "There is nothing to learn from such rows: remove them, or fill in the target.",
    ("y", "infinity"): "No function has such values: remove these rows, or correct the target.",
    ("X", "NaN"): "Impute such cells before, for example with sklearn.impute.SimpleImputer, or "
    "remove these rows.",
    ("X", "infinity"): "Put a number in their place, or NaN where nothing is known, or remove "
    "these rows.",
}


def finite_or_where(check: Callable[[], T], X: Any, y: Any = None) -> T:
    """Run a scikit-learn check; if it finds NaN or infinity, report the cells.

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
    ValueError
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
    except ValueError as error:
        said = _SAID.match(str(error))
        if said is None:
            raise
        name, what = said.groups()
        most = float(np.finfo(np.float32 if "float32" in str(error) else np.float64).max)
        given = X if name == "X" else y
        where = None if given is None else _where(given, what, most)
        if where is None:
            raise
        mend = _MENDS.get((name, what), "Remove such rows, or correct them.")
        raise ValueError(f"Input {name} contains {what} in {where}. {mend}") from None


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


def values_by_column(table: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a table as numbers or codes."""
    view = view_table(table)
    columns = {name: view.column(name) for name in view.names}
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
        raise ValueError(f"`{what}={name!r}` names no column of the rows, which are {names!r}.")
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
