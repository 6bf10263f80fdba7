"""Tables to matrices, learned on the first rows of a stream; one column over its range, too."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from mercer.columns.audit import TableAudit, audit_of, leaks_of
from mercer.columns.calendar_parts import PARTS
from mercer.columns.encoding import TableEncoding
from mercer.columns.null_values import NullValues, cut_short
from mercer.columns.readings import CODE, KINDS, Reading, Readings, as_levels
from mercer.columns.statistics import TableStatistics
from mercer.columns.target_means import TargetCodes
from mercer.columns.texts import TextMap
from mercer.columns.views import (
    Levels,
    Numbers,
    TableView,
    check_names,
    is_table,
    missing_cells,
    view_table,
    without_marks,
)
from mercer.component import Component, from_config, to_config
from mercer.records import Maybe, Named, Part, Record, Several, State
from mercer.validation import check_choice, choice, integer, or_none, parameters, truth

Floats = NDArray[np.float64]

# Of the rows, so that single far values do not stretch a grid.
_RANGE = 0.025, 0.975
# A year, a week and a day, in seconds.
_PERIODS = 365.25 * 86_400.0, 7 * 86_400.0, 86_400.0
MISSING, OTHER = "(missing)", "(other)"


class ColumnGrid(NamedTuple):
    """Some values of a column, and what they are to a function.

    Attributes
    ----------
    kind : {"number", "time", "category"}
        What they are; times are ``datetime64[s]``.
    values : ndarray of shape (n_values,)
        In the units of the column, or names of categories.
    inputs : ndarray of shape (n_values, n_inputs) or (n_values, n_rows, n_inputs)
        Inputs for each value; for dates, the inputs for each row, which keeps its own time of day.
    slots : ndarray of shape (n_inputs,)
        Which of all inputs these are.
    missing : ndarray of shape (n_inputs,) or None
        Inputs of a gap; None if the column had none, or gaps are among the values.
    parts : tuple of str
        Parts of the calendar that the column is read as, too.
    """

    kind: str
    values: NDArray[Any]
    inputs: Floats
    slots: NDArray[np.intp]
    missing: Floats | None = None
    parts: tuple[str, ...] = ()


def number_grid(values: Any, size: int) -> Floats:
    """Grid of numbers: each of a few different ones, or equally spaced ones where most are.

    Parameters
    ----------
    values : array-like of shape (n_rows,)
        Numbers of some rows; NaN is left out.
    size : int
        Largest number of grid points.

    Returns
    -------
    grid : ndarray of shape (n_grid,)
        Increasing; from the 2.5 % to the 97.5 % quantile where there are more values than
        ``size``.

    Examples
    --------
    >>> number_grid([3.0, 1.0, 3.0, np.nan], 10).tolist()
    [1.0, 3.0]
    >>> number_grid(np.arange(1001.0), 3).tolist()
    [25.0, 500.0, 975.0]
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    distinct = np.unique(known)
    if distinct.size <= size:
        return distinct
    low, high = np.quantile(known, _RANGE)
    return np.linspace(low, high, size) if low < high else np.unique([distinct[0], low])


def column_grid(
    encoding: TableEncoding,
    reading: Reading,
    rows: NDArray[np.floating],
    size: int,
    values: Sequence[Any] | NDArray[Any] | None = None,
    part: str = "",
) -> ColumnGrid:
    """Grid of a column that a table encoding knows.

    Parameters
    ----------
    encoding : TableEncoding
        How columns become inputs.
    reading : Reading
        How the column is read.
    rows : ndarray of shape (n_rows, n_features_out)
        Encoded rows, which say where the values are.
    size : int
        Largest number of values.
    values : sequence or None, default=None
        These values instead.
    part : str, default=""
        For dates, the part of the calendar to vary while the rest is unchanged.

    Returns
    -------
    grid : ColumnGrid
        The values and their inputs.

    Raises
    ------
    ValueError
        If the column or its part is not an input, or the column is text and no values are given.
    """
    name = reading.name
    if part:
        name = f"{name}:{part}"
        reading = Reading(name, "number")
    slots = np.array([i for i, of in enumerate(encoding.owners) if of in reading.names], dtype=int)
    if not slots.size:
        raise ValueError(
            f"Column {name!r} is no input of this model, which does not look at it: nothing "
            "depends on it. Choose another column."
        )
    if name in encoding.number_names:
        return _of_numbers(encoding, reading, rows, size, values, slots)
    if reading.kind == "text" and values is None:
        raise ValueError(
            f"Column {name!r} is text, of which there is no range of values. Give some texts as "
            "`grid`, or choose another column."
        )
    gaps = f"{name}={MISSING}" in encoding.feature_names
    levels = encoding.frequent_levels(name, size) if values is None else [*map(str, values)]
    if values is None and OTHER in levels:
        other = encoding.feature_names.index(f"{name}={OTHER}")
        levels = [one for one in levels if one != OTHER or rows[:, other].any()]
    if values is None and gaps:
        levels.append(MISSING)
    known = [level for level in levels if not (level == MISSING and gaps)]
    codes = np.array([known.index(one) if one in known else -1 for one in levels], dtype=np.int64)
    out = np.zeros((len(levels), len(encoding.feature_names)))
    encoding.encode_levels(name, Levels(codes, known), out)
    return ColumnGrid("category", np.array(levels, dtype=object), out[:, slots], slots)


def _of_numbers(
    encoding: TableEncoding,
    reading: Reading,
    rows: NDArray[np.floating],
    size: int,
    values: Any,
    slots: NDArray[np.intp],
) -> ColumnGrid:
    """Return a grid of numbers or times."""
    is_time = reading.kind == "date"
    if values is None and reading.coded:  # there are no others
        grid = np.sort(np.array(encoding.frequent_levels(reading.names[1], size), np.float64))
    elif values is None:
        grid = number_grid(encoding.numbers_of(reading.name, rows), size)
    elif is_time:
        grid = np.asarray(values, dtype="datetime64[s]").astype(np.float64)
    else:
        grid = np.asarray(values, dtype=np.float64)
    gaps = f"{reading.name}={MISSING}" in encoding.feature_names

    def encoded(cells: Floats) -> Floats:
        out = np.zeros((len(cells), len(encoding.feature_names)))
        encoding.encode_number(reading.name, cells, out)
        for name, part in zip(reading.names[1:], reading.parts, strict=True):
            if part == CODE:
                encoding.encode_levels(name, as_levels(Numbers(cells, integer=False)), out)
            else:
                encoding.encode_number(name, PARTS[part](cells), out)
        return out[:, slots]

    missing = encoded(np.full(1, np.nan))[0] if gaps else None
    if not is_time:
        return ColumnGrid("number", grid, encoded(grid), slots, missing)
    inputs = encoded(grid)
    if values is None and reading.parts and len(grid) > 1:
        own = encoding.numbers_of(reading.name, rows)
        inputs = np.stack([encoded(cells) for cells in _moved(grid, own)])
    return ColumnGrid("time", grid.astype("datetime64[s]"), inputs, slots, missing, reading.parts)


def _moved(grid: Floats, own: Floats) -> list[Floats]:
    """Move the dates of rows near each date of a grid, where they keep what varies in between.

    If the dates of a grid are weeks apart, each row keeps its weekday and its time of the day. The
    hours of the grid's own dates would be any, so that a daily rhythm would look like a slow one.

    Examples
    --------
    >>> day = 86_400.0
    >>> moved = _moved(np.array([0.0, 10.0, 20.0]) * day, np.array([5.25 * day]))
    >>> [float(cells[0] / day) for cells in moved]
    [5.25, 12.25, 19.25]
    """
    spacing = float(np.diff(grid).min())
    period = next((period for period in _PERIODS if period <= spacing), 0.0)
    if not period:
        return [np.full(len(own), date) for date in grid]
    since = np.where(np.isnan(own), 0.0, own % period)
    return [np.floor(date / period) * period + since for date in grid]


_FORMAT = 2
_STORED = Record(
    format=integer(low=1),
    params=State(),
    frozen=truth(),
    _readings=Maybe(Several(Part(Reading), kind=Readings)),
    _targets=Maybe(Part(TargetCodes)),
    _statistics=Maybe(Part(TableStatistics)),
    texts=Named(Part(TextMap)),
)
# Rarer categories share an output; with few rows, less frequent ones have their own.
_RARE, _RARE_SHARE = 5, 20
# With this many columns, matrix products take most of the time, and float32 halves it.
_MANY_COLUMNS = 64


def _check_excluded(name: str, value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise ValueError(
            f"`{name}` must be a sequence of column names, got {value!r:.200}. "
            "Write one name as ('name',)."
        )


def _check_codes(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value == "auto"):
        if not isinstance(value, list | tuple):
            raise ValueError(f"`{name}` must be 'auto' or a list of names, got {value!r}.")
        _check_excluded(name, value)


def _check_kinds(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ValueError(f"`{name}` must map names of columns to kinds, got {value!r:.200}.")
    for column, kind in value.items():
        if kind not in KINDS:
            raise ValueError(
                f"`{name}` must say of each column that it is one of {', '.join(KINDS)}, got "
                f"{kind!r} for {column!r}."
            )


def _check_nulls(_: str, value: Any) -> None:
    if value is not None:
        NullValues.of(value)


class TablePreprocessor(Component):
    r"""Turn tables of numbers, text and times into matrices for kernel machines.

    The means, scales and categories come from the first ``warmup_rows`` rows and are then frozen.
    The points in a kernel model's dictionary are rows *after* this transformation; if the
    transformation went on changing, a stored point and a new row would be measured in different
    units, and the function already learned would drift without a step being taken.

    The first table determines how each column is encoded; :attr:`audit_` shows the result:

    =====================  ========================================================================
    numbers                standardised, see ``scaling``; missing values become the mean
    numbers, only 0 and 1  unchanged: one-hot data stays one-hot
    numbers that are       besides, as categories, ``name:code``: 50 whole numbers and more, in 3
    codes, as of shops     rows each on average, if targets of one number are alike, but not those
                           of neighbours, and if no other column hangs together with it; see
                           ``codes``
    numbers as text        read as numbers: ``$1,234``, ``1.234,5``, ``12 %``, ``(20)``, ``5 km``,
                           ``1.3K``, and durations as seconds: ``1h 20m``; cells that are none (one
                           in twenty at most) are missing
    dates and times        seconds since 1970 (UTC when no zone is given), then as numbers; besides,
                           day of the year and of the month, weekday and hour, where they vary. Also
                           dates as text, of the usual forms, and as 20240131
    categories             one output per frequent value, ``name=(other)`` for rare and unseen ones;
                           more than 30, if there are targets, become the mean of the target in
                           them, ``name:mean``, beside outputs of those with 50 rows and more whose
                           mean is another than that of all rows by three standard errors, unless
                           these are more than ``categories``
    text                   values that are mostly rare, or more than 100 phrases of four words and
                           more, or lists such as ``Comedy, Drama``: hashed words and pieces of
                           words, in the directions in which texts vary most (32; 64 of all such
                           columns; 8 of names and codes), ``name:words_0`` and so on, and if there
                           are targets, what the words predict, ``name:predicts``
    booleans               ``name=false`` and ``name=true``
    missing values         if the warm-up has some: an additional output ``name=(missing)``; a
                           missing category not seen there counts as ``(other)``
    constant, empty        dropped
    identifiers, copies    dropped, see ``suspects``: numbers of the rows, a code of its own in each
                           row, columns that are the same as another one. Identifiers whose order
                           tells of the target, if there is one, are numbers
    =====================  ========================================================================

    Parameters
    ----------
    categories : int, default=128
        Largest number of categories of a column that have their own output, the most frequent
        first. At most 4,096 values of a column are counted at any time.
    min_count : int or None, default=None
        Categories seen less often in the warm-up share ``name=(other)``. None: 5, or a twentieth of
        the rows of the warm-up, if that is less.
    warmup_rows : int or None, default=50_000
        Number of rows the statistics are taken from. None: all rows until :meth:`freeze`.
    scaling : {"auto", "standardize", "common", "none"}, default="auto"
        Scaling of numeric columns. "standardize": :math:`(x - \bar x) / s` per column with the
        population standard deviation, at least 1/100 of the column's range. "common": one divisor
        for all columns, the largest absolute value (255 for images), so that pixels that are rarely
        on remain unimportant. "none": unchanged. "auto": division by 255 for pixels (at least 32
        integer columns within 0..255 that are not mostly 0/1, the largest above 127), otherwise
        "standardize".
    exclude : sequence of str, default=()
        Columns that are not features, such as the target or a row number. They may be absent in
        later tables.
    dtype : {"float64", "float32", "auto"}, default="float64"
        Type of the matrices. "auto" is float32 from 64 columns on, where matrix products take most
        of the time, otherwise float64.
    kinds : mapping of str to str or None, default=None
        What columns are, for those that would be taken for something else: "number", "category",
        "text", "date" (or "date:dmy" and the like, where days and months could be confused) or
        "time".
    include : sequence of str, default=()
        Columns to use although they look like identifiers or copies.
    suspects : {"drop", "keep"}, default="drop"
        What becomes of numbers that look like identifiers, and of copies. Codes as text are always
        dropped, unless ``include`` names them: no row to come will have the same.
    null_values : str, number, sequence of these, mapping of columns to these, or None, default=None
        Cells that mean a missing value, such as -999, as in :class:`mercer_app.files.CsvDialect`:
        in all columns, the target included, or in some. In tables in memory, only these cells and
        real missing values count as missing. An empty mark means that numbers such as -9999 are
        values.
    codes : "auto" or sequence of str, default="auto"
        Columns of numbers that are codes, and so categories, too. "auto": those found.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows the statistics were taken from.
    audit_ : TableAudit
        What each column holds and how it was encoded; available once frozen.
    columns_in_ : list of str
        Columns looked at, used or not: all but the excluded ones.
    readings_ : dict of str to Reading
        How each of these columns is read.
    feature_names_in_ : list of str
        Columns used, in the order of the first table.
    text_columns_ : list of str
        Columns among them that held text or categories, and are read as text from CSV.
    frozen_ : bool
        Whether the warm-up is over.
    n_features_out_ : int
        Number of columns of the matrices, once frozen.

    See Also
    --------
    mercer_app.files.read_tables : Tables from files of any size.

    Notes
    -----
    Means and variances are merged by the stable update of Chan, Golub and LeVeque, so that pieces
    of the warm-up may be seen in any sizes, or by several processes and then joined by
    :meth:`merge`.

    Examples
    --------
    >>> import numpy as np
    >>> table = {"age": np.array([20.0, 40.0, np.nan]), "town": np.array(["Bern", "Bonn", "Bern"])}
    >>> preprocessor = TablePreprocessor(min_count=1).fit(table)
    >>> preprocessor.feature_names_out()
    ['age', 'age=(missing)', 'town=Bern', 'town=Bonn', 'town=(other)']
    >>> preprocessor.transform({"age": np.array([40.0]), "town": np.array(["Ulm"])})
    array([[1., 0., 0., 0., 1.]])
    """

    _parameters = parameters(
        categories=integer(low=1, high=1024),
        min_count=or_none(integer(low=1)),
        warmup_rows=or_none(integer(low=1)),
        scaling=choice("auto", "standardize", "common", "none"),
        dtype=choice("float64", "float32", "auto"),
        exclude=_check_excluded,
        kinds=_check_kinds,
        include=_check_excluded,
        suspects=choice("drop", "keep"),
        null_values=_check_nulls,
        codes=_check_codes,
    )
    _readings: Readings | None = None  # from the first look on
    _targets: TargetCodes | None = None  # from the first look on, if there are targets
    _statistics: TableStatistics | None = None  # from the first row on
    _encoding: TableEncoding | None = None  # once the warm-up is over

    def __init__(
        self,
        categories: int = 128,
        *,
        min_count: int | None = None,
        warmup_rows: int | None = 50_000,
        scaling: Literal["auto", "standardize", "common", "none"] = "auto",
        exclude: Sequence[str] = (),
        dtype: Literal["float64", "float32", "auto"] = "float64",
        kinds: Mapping[str, str] | None = None,
        include: Sequence[str] = (),
        suspects: Literal["drop", "keep"] = "drop",
        null_values: Any = None,
        codes: Literal["auto"] | Sequence[str] = "auto",
    ) -> None:
        self.categories = categories
        self.min_count = min_count
        self.warmup_rows = warmup_rows
        self.scaling = scaling
        self.exclude = exclude
        self.dtype = dtype
        self.kinds = kinds
        self.include = include
        self.suspects = suspects
        self.null_values = null_values
        self.codes = codes
        self._check()

    @property
    def frozen_(self) -> bool:
        """Whether the warm-up is over, so that tables can be transformed."""
        return self._encoding is not None

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows the statistics were taken from."""
        return 0 if self._statistics is None else self._statistics.n_rows

    @property
    def feature_names_in_(self) -> list[str]:
        """Columns used, in the order of the first table."""
        return self._read().used

    @property
    def readings_(self) -> dict[str, Reading]:
        """How each of these columns is read."""
        return dict(self._read().columns)

    @property
    def statistics_(self) -> TableStatistics:
        """What was measured of these columns; not to be altered."""
        return self._seen()

    @property
    def columns_in_(self) -> list[str]:
        """Columns looked at, used or not: all but the excluded ones."""
        return list(self._read().columns)

    @property
    def text_columns_(self) -> list[str]:
        """Columns used that held text or categories, and are read as text from CSV."""
        return [one.name for one in self._read().columns.values() if one.used and one.was_text]

    @property
    def n_features_out_(self) -> int:
        """Number of columns of the matrices."""
        return len(self._frozen().feature_names)

    @property
    def dtype_(self) -> Literal["float64", "float32"]:
        """Type of the numbers of the matrices."""
        if self.dtype != "auto":
            return self.dtype
        return "float32" if self.n_features_out_ >= _MANY_COLUMNS else "float64"

    @property
    def nulls_(self) -> NullValues:
        """Which cells stand for no value."""
        return NullValues.of(self.null_values)

    def view(self, table: Any) -> TableView:
        """Look at a table, in which what ``null_values`` names is a gap.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Any rows.

        Returns
        -------
        view : TableView
            Columns to encode.

        Examples
        --------
        >>> view = TablePreprocessor(null_values={"age": -1}).view({"age": [40, -1], "n": [1, -1]})
        >>> view.column("age").values, view.column("n").values
        (array([40., nan]), array([ 1., -1.]))
        """
        view = view_table(table)
        return view if self.null_values is None else without_marks(view, self.nulls_)

    def feature_names_out(self) -> list[str]:
        """Return the names of the columns of the matrices, such as ``"town=Bern"``.

        Raises
        ------
        NotFittedError
            During the warm-up.
        """
        return list(self._frozen().feature_names)

    def owners_out(self) -> list[str]:
        """Return the name of the column that each column of the matrices is made of.

        Raises
        ------
        NotFittedError
            During the warm-up.

        Examples
        --------
        >>> seen = TablePreprocessor(min_count=1).fit({"town": ["Bern", "Bonn"], "age": [1, 2]})
        >>> seen.owners_out()
        ['town', 'town', 'town', 'age']
        """
        columns = self._read().columns.values()
        of = {name: one.name for one in columns if one.used for name in one.names}
        return [of[owner] for owner in self._frozen().owners]

    def grid(
        self, column: str, X: Any, size: int, values: Any = None, part: str = ""
    ) -> ColumnGrid:
        """Return values of a column and the inputs that they become.

        Parameters
        ----------
        column : str
            Name of the column.
        X : ndarray of shape (n_rows, n_features_out)
            Encoded rows, which determine the range of the values.
        size : int
            Largest number of values.
        values : sequence or None, default=None
            These values instead.
        part : str, default=""
            For dates, the part of the calendar to vary.

        Raises
        ------
        NotFittedError
            During the warm-up.
        ValueError
            If the column is not an input, or is text and no values are given.
        """
        reading = self._read().columns[column]
        return column_grid(self._frozen(), reading, X, size, values, part)

    def fit(self, tables: Any, y: Any = None) -> Self:
        """Forget everything, learn from the first ``warmup_rows`` rows and freeze.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or an iterable of them,
            which is consumed only as far as needed.
        y : array-like of shape (n_rows,) or None, default=None
            Targets of a single table: float64 for quantities, anything else for labels. With
            targets, columns of many categories, and of text, are encoded by what they predict.

        Returns
        -------
        self : TablePreprocessor
            Frozen.

        Raises
        ------
        ValueError
            As :meth:`partial_fit` and :meth:`freeze`.
        """
        self._readings = self._targets = self._statistics = self._encoding = None
        parts: Iterable[Any] = [tables] if is_table(tables) else tables
        for table in parts:
            if self.partial_fit(table, y).frozen_:
                break
        return self if self.frozen_ else self.freeze()

    def partial_fit(self, table: Any, y: Any = None) -> Self:
        """Add rows to the statistics until ``warmup_rows`` rows freeze them; ignore later rows.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The next rows.
        y : array-like of shape (n_rows,) or None, default=None
            Targets of the rows, as for :meth:`fit`; with all tables, or with none.

        Returns
        -------
        self : TablePreprocessor
            This object.

        Raises
        ------
        ValueError
            If a column is missing, new, of an unusable type, changed between numbers and text, or
            holds infinite numbers; if the first table lacks a column of ``exclude``; if there are
            not as many targets as rows. Nothing of the table is then counted.
        """
        if self.frozen_:
            return self
        view = self.view(table)
        y = None if y is None else np.asarray(y)
        before = self._readings, self._targets
        try:
            self._count(view, y)
        except BaseException:
            self._readings, self._targets = before
            raise
        return self._freeze_if_complete()

    def _count(self, view: TableView, y: NDArray[Any] | None) -> None:
        """Add rows to the statistics."""
        readings = self.look(view, y)._read()
        self._check_targets(view, y)
        self._check_columns(view, allow_extra=False)
        if self.warmup_rows is not None:
            view = view.slice(0, min(view.n_rows, self.warmup_rows - self.n_samples_seen_))
        if readings.empty:  # these may have values now
            found = self._found(view, readings.empty, y)
            readings = readings.known(found).or_identifiers()
        read = readings.read(view)
        statistics = self._statistics
        if statistics is None:
            statistics = TableStatistics.like(read, self._targets)
        elif readings is not self._readings:
            statistics = statistics.retyped(TableStatistics.like(read).kinds())
        statistics.update(read, y)
        self._readings, self._statistics = readings, statistics

    def _check_targets(self, view: TableView, y: NDArray[Any] | None) -> None:
        """Raise ``ValueError`` unless each row has a target if those before had."""
        if y is None:
            if self._targets is not None:
                raise ValueError(
                    "`y` must be given with all tables or with none: the first rows had targets, "
                    "these have none. Pass theirs."
                )
        elif len(y) != view.n_rows:
            raise ValueError(
                f"`y` must have one target for each row, got {len(y):,} for {view.n_rows:,} rows. "
                "Targets of several tables are given with each of them, to `partial_fit`."
            )

    def look(self, table: Any, y: Any = None) -> Self:
        """Find out what the columns are, without learning from the rows; only the first time.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            First rows, some thousand if there are so many.
        y : array-like of shape (n_rows,) or None, default=None
            Targets of the rows, as for :meth:`fit`.

        Returns
        -------
        self : TablePreprocessor
            Knowing how to read the columns.

        Raises
        ------
        ValueError
            If the table lacks a column of ``exclude``, ``include`` or ``kinds``, or one cannot be
            of the kind that was said.

        Examples
        --------
        >>> prices = {"price": ["$1,200", "$800", "$1,950"]}
        >>> TablePreprocessor().look(prices).fit({"price": ["$900", "$1,000"]}).feature_names_out()
        ['price']
        """
        if self._readings is not None:
            return self
        view = self.view(table)
        check_names(self.exclude, view.names, "`exclude` names a column, but the table")
        check_names(self.include, view.names, "`include` names a column, but the table")
        check_names(list(self.kinds or ()), view.names, "`kinds` names a column, but the table")
        told = [] if isinstance(self.codes, str) else list(self.codes)
        check_names(told, view.names, "`codes` names a column, but the table")
        own = [] if self.null_values is None else self.nulls_.columns
        check_names(own, view.names, "`null_values` names a column, but the table")
        excluded = set(self.exclude)
        names = [name for name in view.names if name not in excluded]
        if not names:
            raise ValueError("The table has no columns left to learn from.")
        self._readings = self._found(view, names, y).or_identifiers()
        self._targets = None if y is None else TargetCodes.of(np.asarray(y))
        return self

    def leaks(self, table: Any, y: Any) -> dict[str, str]:
        """Find columns that alone reveal the target.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The first rows; :meth:`look` must have seen such.
        y : array-like of shape (n_rows,)
            Targets of the rows, as for :meth:`fit`.

        Returns
        -------
        leaks : dict of str to str
            What such columns do.
        """
        readings = self._read()
        return leaks_of(readings.read(self.view(table)), readings.used, np.asarray(y))

    def remark(self, remarks: Mapping[str, str]) -> None:
        """Add something to the remarks of the audit on some columns.

        Parameters
        ----------
        remarks : mapping of str to str
            Remarks by the names of columns.

        Examples
        --------
        >>> seen = TablePreprocessor().fit({"land": ["DE", "FR", None] * 9})
        >>> seen.remark({"land": "'NA' counts as no value"})
        >>> seen.audit_[0].remarks
        "'NA' counts as no value"
        """
        readings = self._read()
        check_names(list(remarks), list(readings.columns), "The table")
        self._readings = readings.remarked(remarks)

    def _found(self, view: TableView, names: Sequence[str], y: Any) -> Readings:
        """Find out what columns are."""
        if self.warmup_rows is not None:
            view = view.slice(0, min(view.n_rows, self.warmup_rows))
        nulls = None if self.null_values is None else self.nulls_
        return Readings.of(
            view,
            names,
            kinds=dict(self.kinds or {}),
            include=self.include,
            keep=self.suspects == "keep",
            codes=None if isinstance(self.codes, str) else self.codes,
            literal=[] if nulls is None else [n for n in names if not nulls.has_usual(n)],
            min_count=self._least(view.n_rows),
            y=None if y is None else np.asarray(y)[: view.n_rows],
        )

    def _check_columns(self, view: TableView, *, allow_extra: bool) -> None:
        """Raise ``ValueError`` unless a table has the columns used, and none that are new."""
        readings = self._read()
        unused = {*self.exclude, *readings.columns} - {*readings.used}
        found = [name for name in view.names if name not in unused]
        check_names(readings.used, found, "The table", allow_extra=allow_extra)

    def merge(self, other: TablePreprocessor) -> Self:
        """Add the statistics of another preprocessor that is still warming up.

        Parameters
        ----------
        other : TablePreprocessor
            Having the same parameters and columns, with statistics of other rows; unchanged.

        Returns
        -------
        self : TablePreprocessor
            As if it had seen the rows of both; frozen if these are enough.

        Raises
        ------
        ValueError
            If either is frozen, or parameters or columns differ, or how targets are counted: by
            the first ones that each saw.
        """
        if self.frozen_ or other.frozen_:
            raise ValueError(
                "Frozen statistics cannot be merged: rows were transformed with them already. "
                "Merge during the warm-up (`warmup_rows=None` lets you choose its end)."
            )
        if self != other:
            raise ValueError(f"Only preprocessors with equal parameters merge: {self}, {other}.")
        mine, theirs = self._seen(), other._seen()
        if mine.targets != theirs.targets:
            raise ValueError(
                "Statistics of targets in different units, or with and without targets, cannot be "
                "merged. Let all preprocessors `look` at the same rows and targets first."
            )
        readings = self._read().merged(
            other._read(), self._without_values(), other._without_values()
        )
        found = {**theirs.kinds(), **mine.kinds()}
        for name, reading in readings.columns.items():
            if reading.way != self._read().columns[name].way:  # as in the other
                found.update((one, theirs.kinds()[one]) for one in reading.names)
        kinds = {name: found[name] for name in readings.names}
        self._readings, self._statistics = readings, mine.retyped(kinds)
        self._statistics.merge(theirs.retyped(kinds))
        return self._freeze_if_complete()

    def _least(self, n_rows: int) -> int:
        """Return how many rows a category needs to have its own output."""
        return (
            max(1, min(_RARE, n_rows // _RARE_SHARE)) if self.min_count is None else self.min_count
        )

    def _without_values(self) -> set[str]:
        """Return the columns used that had no value yet."""
        return self._seen().without_values(self._read().used)

    def rounded(self) -> Self:
        """Round moments to seven digits: the same in whatever order statistics were merged.

        Returns
        -------
        self
        """
        seen = self._seen()
        seen.numbers = seen.numbers.rounded()
        return self

    def freeze(self) -> Self:
        """End the warm-up: fix means, scales, categories and the columns of the matrices.

        Returns
        -------
        self : TablePreprocessor
            Ready to transform.

        Raises
        ------
        ValueError
            If no rows were seen, a column had no value, or no column varies.

        Warns
        -----
        UserWarning
            If a column has more than ``categories`` frequent categories.
        """
        if self.frozen_:
            return self
        self._encode()
        said = cut_short(
            f"{name!r} has {frequent:,} frequent categories: '(other)' takes {folded:,} of "
            f"them, {100.0 * rows / self.n_samples_seen_:.2g} % of the rows; see `categories`."
            for name, (frequent, folded, rows) in self._frozen().folded.items()
        )
        for message in said:
            warnings.warn(message, stacklevel=2)
        return self

    def _encode(self, texts: dict[str, TextMap] | None = None) -> None:
        statistics = self._seen()
        if statistics.n_rows == 0:
            raise ValueError("No rows were seen, so there is nothing to freeze.")
        self._encoding = TableEncoding(
            statistics,
            categories=self.categories,
            min_count=self._least(statistics.n_rows),
            scaling=self.scaling,
            parts=self._read().parts,
            texts=texts,
        )
        for sample in statistics.texts.values():
            sample.sums = {}  # only needed to make the maps

    @property
    def audit_(self) -> TableAudit:
        """What each column holds and how it was encoded."""
        return audit_of(self._read(), self._seen(), self._frozen())

    def transform(
        self,
        table: Any,
        *,
        extra: Literal["error", "drop"] = "error",
        learned: bool = False,
        lenient: bool = False,
    ) -> NDArray[np.floating]:
        """Encode a table; the preprocessor does not change.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the columns of the warm-up, in any order.
        extra : {"error", "drop"}, default="error"
            What to do about columns that were absent in the warm-up.
        learned : bool, default=False
            Whether a model will learn these rows. What their own targets said of categories and
            texts then does not count for them: a fifth of the warm-up is left out for each row.
        lenient : bool, default=False
            Whether text in columns that held numbers, dates or times is a gap, not an error.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features_out)
            Encoded rows of the chosen ``dtype``, without missing values.

        Raises
        ------
        NotFittedError
            During the warm-up.
        ValueError
            If a column is missing or, by default, new; if a column changed between numbers and
            text; for infinite numbers.
        """
        encoding = self._frozen()
        check_choice("extra", extra, ("error", "drop"))
        view = self.view(table)
        self._check_columns(view, allow_extra=extra == "drop")
        read = self._read().read(view, lenient=lenient)
        return encoding.transform(read, self.dtype_, learned=learned)

    def new_gaps(self, table: Any) -> dict[str, int]:
        """Count missing values in columns that had none in the warm-up.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            As for :meth:`transform`.

        Returns
        -------
        gaps : dict of str to int
            Only columns with such gaps.

        Examples
        --------
        >>> seen = TablePreprocessor().fit({"age": [20.0, 40.0]})
        >>> seen.new_gaps({"age": [30.0, None]}), seen.fillings()
        ({'age': 1}, {'age': 'the mean, 30'})
        """
        readings, view = self._read(), self.view(table)
        read = readings.read(view, lenient=True)
        filled = [name for name in self.fillings() if name in readings.columns]
        counts = {name: missing_cells(read.column(name)) for name in filled}
        return {name: n for name, n in counts.items() if n}

    def new_categories(self, table: Any) -> dict[str, tuple[int, str]]:
        """Count rows with categories that the warm-up did not have.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            As for :meth:`transform`.

        Returns
        -------
        found : dict of str to (int, str)
            Rows, and the first such category. Columns that had more values than are counted are
            left out: nobody knows which.

        Examples
        --------
        >>> seen = TablePreprocessor(min_count=1).fit({"town": ["Bern", "Bonn"]})
        >>> seen.new_categories({"town": ["Ulm", "Bonn"]})
        {'town': (1, 'Ulm')}
        """
        return self._frozen().new_categories(self._read().read(self.view(table), lenient=True))

    def unreadable(self, table: Any) -> list[tuple[str, str, int, str, int]]:
        """Find cells that are written unlike their column, and so count as missing.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            As for :meth:`transform`.

        Returns
        -------
        found : list of (str, str, int, str, int)
            Name of the column, its kind, number of such cells, the first such cell and its row.

        Examples
        --------
        >>> seen = TablePreprocessor().fit({"price": ["$1,200", "$800", "$1,950"]})
        >>> seen.unreadable({"price": ["$900", "free", None]})
        [('price', 'number', 1, 'free', 1)]
        """
        return self._read().unreadable(self.view(table))

    def fillings(self) -> dict[str, str]:
        """Say what takes the place of missing values, for columns that had none in the warm-up."""
        return self._frozen().fillings()

    def to_state(self) -> dict[str, Any]:
        """Return everything learned as plain data that JSON can hold, with parameters.

        Examples
        --------
        >>> import json
        >>> seen = TablePreprocessor().fit({"age": [20.0, 40.0]})
        >>> again = TablePreprocessor.from_state(json.loads(json.dumps(seen.to_state())))
        >>> again.transform({"age": [50.0]})
        array([[2.]])
        """
        config = to_config(self)
        del config["params"]["null_values"]
        if self.null_values is not None:
            config["params"]["null_values"] = to_config(self.nulls_.to_config())
        texts = {} if self._encoding is None else self._encoding.texts
        return _STORED.written_of(
            {
                "format": _FORMAT,
                "params": config["params"],
                "frozen": self.frozen_,
                "_readings": self._readings,
                "_targets": self._targets,
                "_statistics": self._statistics,
                "texts": texts,
            }
        )

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`: transforms bit for bit as the original.

        Raises
        ------
        ValueError
            If the state is not what :meth:`to_state` returns.
        """
        try:
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']!r}, this version reads {_FORMAT}")
            values = _STORED.read(state, {})
            params, texts = values["params"], values["texts"]
            result = cls(**{name: from_config(value) for name, value in params.items()})
            result.exclude, result.include = tuple(result.exclude), tuple(result.include)
            for name in ("_readings", "_targets", "_statistics"):
                setattr(result, name, values[name])
            if result._statistics is not None and result._statistics.names != result._read().names:
                raise ValueError("its columns are read as others than it has statistics of")
            if values["frozen"]:
                result._encode(texts)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"This is not the state of a TablePreprocessor: {error}. It may be damaged, or "
                "written by another version of mercer."
            ) from None
        return result

    def _freeze_if_complete(self) -> Self:
        complete = self.warmup_rows is not None and self.n_samples_seen_ >= self.warmup_rows
        return self.freeze() if complete else self

    def _read(self) -> Readings:
        if self._readings is None:
            raise NotFittedError(
                "This TablePreprocessor has seen no rows. Call `fit` or `partial_fit` first."
            )
        return self._readings

    def _seen(self) -> TableStatistics:
        if self._statistics is None:
            raise NotFittedError(
                "This TablePreprocessor has seen no rows. Call `fit` or `partial_fit` first."
            )
        return self._statistics

    def _frozen(self) -> TableEncoding:
        statistics = self._seen()
        if self._encoding is None:
            raise NotFittedError(
                f"The warm-up is not over ({statistics.n_rows} of {self.warmup_rows} rows seen), "
                "and its statistics may still change. Call `freeze()` to end it now."
            )
        return self._encoding
