"""Tables to matrices, learned on the first rows of a stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from mercer._component import Component, from_config, to_config
from mercer._validation import check_choice, check_integer
from mercer.data._columns import check_names
from mercer.data._encoding import TableEncoding
from mercer.data._statistics import TableStatistics
from mercer.data._views import is_table, missing_cells, view_table

__all__ = ["TablePreprocessor"]

_FORMAT = 1


class TablePreprocessor(Component):
    r"""Turn tables of numbers, text and times into matrices for kernel machines.

    The means, scales and categories come from the first ``warmup_rows`` rows and are then frozen.
    The points in a kernel model's dictionary are rows *after* this transformation; if the
    transformation went on changing, a stored point and a new row would be measured in different
    units, and the function already learned would drift without a step being taken.

    What becomes of a column:

    =====================  ========================================================================
    numbers                standardised, see ``scaling``; missing values become the mean
    numbers, only 0 and 1  unchanged: one-hot data stays one-hot
    dates and times        seconds since 1970 (UTC when no zone is given), then as numbers
    text, categories       one output per frequent value, ``name=(other)`` for rare and unseen ones
    booleans               ``name=false`` and ``name=true``
    missing values         if the warm-up has some: an additional output ``name=(missing)``; a
                           missing category not seen there counts as ``(other)``
    constant               dropped
    =====================  ========================================================================

    Parameters
    ----------
    categories : int, default=128
        Largest number of categories of a column with an output of their own, the most frequent
        first. At most 4,096 values of a column are counted at any time.
    min_count : int, default=5
        Categories seen less often in the warm-up share ``name=(other)``.
    warmup_rows : int or None, default=50_000
        Number of rows the statistics are taken from. None: all rows until :meth:`freeze`.
    scaling : {"auto", "standardize", "common", "none"}, default="auto"
        Of numeric columns. "standardize": :math:`(x - \bar x) / s` per column with the population
        standard deviation, at least 1/100 of the column's range. "common": one divisor for all
        columns, the largest absolute value (255 for images), so that pixels that are rarely on
        stay as unimportant as they are. "none": unchanged. "auto": division by 255 for pixels,
        that is for at least 32 integer columns within 0..255 that are not mostly 0/1 and of which
        the largest exceeds 127; "standardize" for all other columns.
    exclude : sequence of str, default=()
        Columns that are no features, such as the target or a row number. They may be absent when
        transforming.
    dtype : {"float64", "float32"}, default="float64"
        Of the matrices.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows the statistics were taken from.
    feature_names_in_ : list of str
        Columns used, in the order of the first table.
    frozen_ : bool
        Whether the warm-up is over.
    n_features_out_ : int
        Number of columns of the matrices, once frozen.

    See Also
    --------
    mercer.data.read_tables : Tables from files of any size.

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

    def __init__(
        self,
        categories: int = 128,
        *,
        min_count: int = 5,
        warmup_rows: int | None = 50_000,
        scaling: Literal["auto", "standardize", "common", "none"] = "auto",
        exclude: Sequence[str] = (),
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.categories = categories
        self.min_count = min_count
        self.warmup_rows = warmup_rows
        self.scaling = scaling
        self.exclude = exclude
        self.dtype = dtype
        self._check()

    def _check(self) -> None:
        check_integer("categories", self.categories, low=1, high=1024)
        check_integer("min_count", self.min_count, low=1)
        if self.warmup_rows is not None:
            check_integer("warmup_rows", self.warmup_rows, low=1)
        check_choice("scaling", self.scaling, ("auto", "standardize", "common", "none"))
        check_choice("dtype", self.dtype, ("float64", "float32"))
        names = self.exclude
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"`exclude` must be a sequence of column names, got {names!r}. "
                "Write one name as ('name',)."
            )

    @property
    def frozen_(self) -> bool:
        """Whether the warm-up is over, so that tables can be transformed."""
        return hasattr(self, "_encoding")

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows the statistics were taken from."""
        return self._statistics.n_rows if hasattr(self, "_statistics") else 0

    @property
    def feature_names_in_(self) -> list[str]:
        """Columns used, in the order of the first table."""
        return list(self._seen().names)

    @property
    def n_features_out_(self) -> int:
        """Number of columns of the matrices."""
        return len(self._frozen().feature_names)

    def feature_names_out(self) -> list[str]:
        """Return the names of the columns of the matrices, such as ``"town=Bern"``.

        Raises
        ------
        NotFittedError
            During the warm-up.
        """
        return list(self._frozen().feature_names)

    def fit(self, tables: Any) -> Self:
        """Forget everything, learn from the first ``warmup_rows`` rows and freeze.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or several of them;
            no more of them are drawn than needed.

        Returns
        -------
        self : TablePreprocessor
            Frozen.

        Raises
        ------
        ValueError
            As :meth:`partial_fit` and :meth:`freeze`.
        """
        for name in ("_statistics", "_encoding"):
            self.__dict__.pop(name, None)
        parts: Iterable[Any] = [tables] if is_table(tables) else tables
        for table in parts:
            if self.partial_fit(table).frozen_:
                break
        return self if self.frozen_ else self.freeze()

    def partial_fit(self, table: Any) -> Self:
        """Add rows to the statistics; the row ``warmup_rows`` freezes them, later ones do nothing.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            The next rows.

        Returns
        -------
        self : TablePreprocessor
            With the rows added.

        Raises
        ------
        ValueError
            If a column is missing, new, of an unusable type, changed between numbers and text, or
            holds infinite numbers; if the first table lacks a column of ``exclude``.
        """
        if self.frozen_:
            return self
        view = view_table(table)
        if not hasattr(self, "_statistics"):
            check_names(self.exclude, view.names, "`exclude` names a column, but the table")
            names = [name for name in view.names if name not in set(self.exclude)]
            if not names:
                raise ValueError("The table has no columns left to learn from.")
            self._statistics = TableStatistics.like(view, names)
        if self.warmup_rows is not None:
            view = view.slice(0, min(view.n_rows, self.warmup_rows - self.n_samples_seen_))
        self._statistics.update(view, excluded=self.exclude)
        return self._freeze_if_complete()

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
            If either is frozen, or parameters or columns differ.
        """
        if self.frozen_ or other.frozen_:
            raise ValueError(
                "Frozen statistics cannot be merged: rows were transformed with them already. "
                "Merge during the warm-up (`warmup_rows=None` lets you choose its end)."
            )
        if self != other:
            raise ValueError(f"Only preprocessors with equal parameters merge: {self}, {other}.")
        self._seen().merge(other._seen())
        return self._freeze_if_complete()

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
        for name, (frequent, folded, rows) in self._encoding.folded.items():
            warnings.warn(
                f"{name!r} has {frequent:,} frequent categories: '(other)' takes {folded:,} of "
                f"them, {100.0 * rows / self.n_samples_seen_:.2g} % of the rows; see `categories`.",
                stacklevel=2,
            )
        return self

    def _encode(self) -> None:
        statistics = self._seen()
        if statistics.n_rows == 0:
            raise ValueError("No rows were seen, so there is nothing to freeze.")
        self._encoding = TableEncoding(
            statistics,
            categories=self.categories,
            min_count=self.min_count,
            scaling=self.scaling,
        )

    def transform(
        self, table: Any, *, extra: Literal["error", "drop"] = "error"
    ) -> NDArray[np.floating]:
        """Encode a table; the preprocessor does not change.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the columns of the warm-up, in any order.
        extra : {"error", "drop"}, default="error"
            What to do about columns that were not there in the warm-up.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features_out)
            Of the chosen ``dtype``, without missing values.

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
        view = view_table(table)
        found = [name for name in view.names if name not in set(self.exclude)]
        check_names(self._statistics.names, found, "The table", allow_extra=extra == "drop")
        return encoding.transform(view, self.dtype)

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
        view = view_table(table)
        counts = {name: missing_cells(view.column(name)) for name in self.fillings()}
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
        return self._frozen().new_categories(view_table(table))

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
        statistics = self._statistics.to_state() if hasattr(self, "_statistics") else None
        config = to_config(self)
        return {
            "format": _FORMAT,
            "params": config["params"],
            "frozen": self.frozen_,
            "statistics": statistics,
        }

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
            result = cls(**{name: from_config(value) for name, value in state["params"].items()})
            result.exclude = tuple(result.exclude)
            if state["statistics"] is not None:
                result._statistics = TableStatistics.from_state(state["statistics"])
            if state["frozen"]:
                result._encode()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"This is not the state of a TablePreprocessor: {error}. It may be damaged, or "
                "written by another version of mercer."
            ) from None
        return result

    def _freeze_if_complete(self) -> Self:
        complete = self.warmup_rows is not None and self.n_samples_seen_ >= self.warmup_rows
        return self.freeze() if complete else self

    def _seen(self) -> TableStatistics:
        if not hasattr(self, "_statistics"):
            raise NotFittedError(
                "This TablePreprocessor has seen no rows. Call `fit` or `partial_fit` first."
            )
        return self._statistics

    def _frozen(self) -> TableEncoding:
        statistics = self._seen()
        if not self.frozen_:
            raise NotFittedError(
                f"The warm-up is not over ({statistics.n_rows} of {self.warmup_rows} rows seen), "
                "and its statistics may still change. Call `freeze()` to end it now."
            )
        return self._encoding
