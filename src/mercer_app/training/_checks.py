"""What is found wrong with the data of a training, in its first rows or at its end."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.columns.null_values import NullValues
from mercer.columns.preprocessing import TablePreprocessor
from mercer.columns.readings import TargetForm, no_data_of
from mercer.columns.tasks import infer_task
from mercer.columns.views import Levels, Numbers, is_number, view_table
from mercer.exceptions import Advice, NothingLearnedWarning, Setting
from mercer_app.files.tables import place_of, read_tables, schema, written_at
from mercer_app.rows import TableRows

_MOST_CLASSES = 1000
# With _MANY_ROWS rows or more, classes are too many if their number exceeds this share of the rows.
_UNIQUE, _MANY_ROWS = 2 / 3, 20
_TELLING_ROWS = 1000  # number of rows that suffices for a conclusion
_NAMED = 5


def refuse_stray_text(data: str, target: str, table: Any) -> None:
    """Raise ``ValueError`` if a few cells make text of a target that is to be a number.

    Parameters
    ----------
    data : str
        The files, for the message.
    target : str
        Column of the target.
    table : table
        The first rows, with the target.
    """
    column = view_table(table).column(target)
    stray = None if TargetForm.of(target, column) is not None else stray_text(column)
    if stray is not None:
        raise ValueError(
            f"The target {target!r} is text, because {stray.says(place_of(data, stray.row))}. "
            "Correct such cells, or leave out rows whose target is not known. If the column holds "
            "classes, say `task='classification'`."
        )


def warn_of_unlabelled(data: str, target: str | None, labelled: Any, n_rows: int) -> str:
    """Warn of rows without a target, which cannot be learned.

    Parameters
    ----------
    data : str
        The files, for the message.
    target : str or None
        Column of the target.
    labelled : ndarray of int
        Rows that have one, of the first ones.
    n_rows : int
        How many rows these are.

    Returns
    -------
    written : str
        What stands in the first row without one, in a CSV file.

    Raises
    ------
    ValueError
        If no row has one.
    """
    n = n_rows - len(labelled)
    if n == 0:
        return ""
    said = f"The target {target!r} has no value in {n:,} of the first {n_rows:,} rows"
    if n == n_rows:
        raise ValueError(
            f"{said} of {data}: there is nothing to learn from. Fill in the target, or name "
            "another column."
        )
    first = int(np.setdiff1d(np.arange(len(labelled) + 1), labelled)[0])
    written = written_at(data, first, str(target))
    warnings.warn(
        f"{said}, first in {place_of(data, first)}. {counts_as_none(written)}Rows without one are "
        "left out.",
        stacklevel=2,
    )
    return written


def counts_as_none(written: str) -> str:
    """Return a sentence that a word counts as a missing value, if it does.

    Examples
    --------
    >>> counts_as_none("null")
    "'null' counts as no value: if it is a class, give it another name, or its column an empty \
mark by `null_values`. "
    """
    if not written:
        return ""
    return (
        f"{written!r} counts as no value: if it is a class, give it another name, or its "
        "column an empty mark by `null_values`. "
    )


def warn_of_stray_text(data: str, columns: TablePreprocessor, n_rows: int) -> None:
    """Warn of inputs that a few cells make categories of, and of cells that are taken for gaps.

    What is written in gaps of categories is noted, since NA may be a country.

    Parameters
    ----------
    data : str
        The files.
    columns : TablePreprocessor
        What the columns are.
    n_rows : int
        How many of the first rows are looked at.
    """
    readings = columns.readings_
    text = [field.name for field in schema(data) if "string" in str(field.type)]
    text = [name for name in text if name in readings and readings[name].used]
    if not text:
        return
    table = next(read_tables(data, columns=text, rows_per_table=n_rows))
    for name in text:
        column, reading = view_table(table).column(name), readings[name]
        if reading.kind in ("category", "text"):
            assert isinstance(column, Levels)
            gaps = np.flatnonzero(column.codes < 0)
            written = written_at(data, int(gaps[0]), name) if gaps.size else ""
            if written:
                columns.remark(name, f"{written!r} counts as no value")
            stray = stray_text(column)
            if stray is not None:
                warnings.warn(
                    f"The column {name!r} is taken for categories, because "
                    f"{stray.says(place_of(data, stray.row))}. If it holds quantities, correct "
                    "such cells, or leave them empty, which is a missing value.",
                    stacklevel=4,
                )
        elif isinstance(column, Levels) and reading.strays:
            read = reading.read(column)
            assert isinstance(read, Numbers)
            row = int(np.argmax((column.codes >= 0) & np.isnan(read.values)))
            warnings.warn(
                f"The column {name!r} has {reading.strays:,} "
                f"cell{'s' * (reading.strays != 1)} that cannot be read as a {reading.kind}, first "
                f"{column.levels[column.codes[row]]!r} in {place_of(data, row)}: such cells are "
                "taken for missing values.",
                stacklevel=4,
            )


class Stray(NamedTuple):
    """What keeps a column of quantities from being one of numbers.

    Attributes
    ----------
    row : int
        First row of the table that holds it.
    text : str
        What this row holds.
    n_rows : int
        Rows that hold no number.
    """

    row: int
    text: str
    n_rows: int

    def says(self, where: str) -> str:
        """Say it in a clause, with where the row is.

        Examples
        --------
        >>> Stray(3, "12,5", 2).says("line 5")
        "'12,5' in line 5 is no number (decimals have a point), nor is 1 more"
        """
        comma = " (decimals have a point)" if _number(self.text) is not None else ""
        others = self.n_rows - 1
        more = f", nor {'is' if others == 1 else 'are'} {others:,} more" if others else ""
        return f"{self.text!r} in {where} is no number{comma}{more}"


def stray_text(column: Numbers | Levels) -> Stray | None:
    """Find the text in a column of which most cells are numbers that make quantities.

    Examples
    --------
    >>> import numpy as np
    >>> stray_text(Levels(np.array([0, 1, 2, 3]), ["0.5", "1.5", "n/a?", "2.5"]))
    Stray(row=2, text='n/a?', n_rows=1)
    >>> stray_text(Levels(np.array([0, 1, 2]), ["1", "2", "other"])) is None
    True
    """
    if not isinstance(column, Levels) or column.boolean:
        return None
    present = column.codes[column.codes >= 0]
    counts = np.bincount(present, minlength=len(column.levels))
    numbers = [_number(level) for level in column.levels]
    alike = np.array([number is not None for number in numbers], dtype=bool)
    stray = np.array([not is_number(level) for level in column.levels], dtype=bool)
    if 2 * counts[alike].sum() <= present.size or not counts[stray].any():
        return None
    said = [numbers[code] for code in present]
    if infer_task([number for number in said if number is not None]) != "regression":
        return None
    # The code -1 of missing values picks the last entry.
    row = int(np.argmax(np.append(stray, False)[column.codes]))
    return Stray(row, column.levels[column.codes[row]], int(counts[stray].sum()))


def _number(text: str) -> float | None:
    """Return the number that somebody may have meant."""
    for form in (text, text.replace(",", "."), text.replace(",", "")):
        if is_number(form):
            return float(form) if set(form) & set(".eEnN") else int(form)
    return None


def first_classes(
    labels: NDArray[Any], target: str | None, *, all_rows: bool, marks: bool = True
) -> list[Any]:
    """Return the classes in the first rows.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Targets of the first rows.
    target : str or None
        Column of the targets.
    all_rows : bool
        Whether these are all rows.
    marks : bool, default=True
        Whether the usual marks of gaps would be gaps in this column.

    Raises
    ------
    ValueError
        If few rows share a class, or there are more classes than a model can distinguish.

    Warns
    -----
    UserWarning
        If there are classes of a single row, such as "?", or such as "yes" and "Yes".
    """
    classes, counts = np.unique(labels, return_counts=True)
    n, n_rows = classes.size, labels.size
    # Of a few of many rows most can be of different classes.
    telling = all_rows or n_rows >= _TELLING_ROWS
    if telling and n > 2 and (n == n_rows or (n_rows >= _MANY_ROWS and n > _UNIQUE * n_rows)):
        quantities = ", or say `task='regression'` if these are quantities"
        raise ValueError(
            f"The target {target!r} has {n:,} different values in {n_rows:,} rows, such as "
            f"{classes[0]!s} and {classes[1]!s}: hardly two rows are of one class, as with names "
            "or numbers of rows, so there is nothing to learn. Name another column as `target`"
            f"{quantities if is_number(str(classes[0])) else ''}."
        )
    if n > _MOST_CLASSES:
        raise ValueError(
            f"The target {target!r} has {n:,} different values in the first "
            f"rows, such as {classes[0]!s} and {classes[1]!s}: more than the "
            f"{_MOST_CLASSES:,} classes that a model can tell apart. Choose another target, "
            "or regression if these are quantities."
        )
    _warn_of_odd_classes(dict(zip(classes.tolist(), counts.tolist(), strict=True)), target, marks)
    alone = classes[counts == 1].tolist()
    if all_rows and alone and n > 1:
        some = ", ".join(map(repr, alone[:_NAMED])) + ", ..." * (len(alone) > _NAMED)
        warnings.warn(
            f"{len(alone):,} of the {n:,} classes of {target!r} "
            f"{'has a single row' if len(alone) == 1 else 'have a single row each'} ({some}): too "
            "few to learn or to measure anything about them. Give more such rows, join classes, or "
            "leave these rows out.",
            stacklevel=4,
        )
    return list(classes.tolist())


def _warn_of_odd_classes(classes: dict[Any, int], target: str | None, marks: bool) -> None:
    """Warn of classes that may be no class, and of those that may be one."""
    words = {label: n for label, n in classes.items() if isinstance(label, str)}
    alike: dict[str, list[str]] = {}
    for label in words:
        alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
    for same in alike.values():
        if len(same) > 1:
            warnings.warn(
                f"The target {target!r} has classes that differ in blanks or capital letters only: "
                f"{', '.join(map(repr, same[:_NAMED]))}. If they are one, write them alike.",
                stacklevel=5,
            )
    gaps = NullValues().number_gaps() if marks and "+" not in words else ()
    for label, n in words.items():
        if label.strip() in gaps:
            warnings.warn(
                Advice(
                    f"{label!r} is a class of {target!r}, in {n:,} of the first rows. If it means "
                    "that there is no value, say ",
                    Setting(
                        "null_values",
                        (f"{target}={label}",),
                        f"`null_values={{{target!r}: {label!r}}}`",
                    ),
                    ".",
                ),
                stacklevel=5,
            )


def check_varies(
    targets: NDArray[Any],
    others: Iterable[NDArray[Any]],
    target: str | None,
    task: str,
    written: str = "",
) -> None:
    """Say it if all targets are equal; more rows are read only as long as they are.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
        Targets of the first rows.
    others : iterable of ndarray
        Targets of the other rows.
    target : str or None
        Column of the targets.
    task : {"classification", "regression", "gp"}
        What is to be learned.
    written : str, default=""
        What stands in rows without a target.

    Raises
    ------
    ValueError
        If all rows are of one class.

    Warns
    -----
    UserWarning
        If all quantities are equal.
    """
    n_rows = 0
    for some in chain([targets], others):
        if np.any(some != targets[0]):
            return
        n_rows += some.size
    if n_rows == 1:
        return
    if task == "classification":
        check_two_classes(np.unique(targets), target, n_rows, written)
    warnings.warn(
        f"The target {target!r} is {targets[0]:g} in all {n_rows:,} rows, so that is all that a "
        "model can learn to answer. Is another column the `target`?",
        stacklevel=4,
    )


def warn_of_no_data(targets: NDArray[Any], target: str | None) -> None:
    """Warn of numbers in a target that may mean a missing value, such as -9999.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
        Targets of the first rows.
    target : str or None
        Column of the targets.

    Warns
    -----
    UserWarning
        Naming the number.
    """
    for mark in no_data_of(targets)[0]:
        n = int(np.count_nonzero(targets == mark))
        warnings.warn(
            f"The target {target!r} is {mark:.10g} in {n:,} of the first {targets.size:,} rows, "
            "far from all others. If that means that there is no value, leave these cells empty: "
            "rows without a target are left out.",
            stacklevel=4,
        )


def check_two_classes(
    classes: NDArray[Any], target: str | None, n_rows: int, written: str = ""
) -> None:
    """Raise ``ValueError`` if all rows of a classification were of one class."""
    if classes.size < 2:
        raise ValueError(
            f"The target {target!r} is {classes.tolist()[0]!r} in all {n_rows:,} rows, so there is "
            f"nothing to tell apart. {counts_as_none(written)}Give rows of another class or "
            "another target; or use `task='novelty'`, which needs no target, to find what is "
            "unlike these rows."
        )


def warn_if_no_pairs(rows: TableRows, n_rows: int, shuffle_buffer: int) -> None:
    """Warn if a ranking has learned nothing, because no row met a row to compare with.

    Parameters
    ----------
    rows : TableRows
        After the training; no ranking is fine, too.
    n_rows : int
        Rows that it learned.
    shuffle_buffer : int
        Rows shuffled at a time.

    Warns
    -----
    NothingLearnedWarning
        If all coefficients are 0.
    """
    if rows.task != "rank" or np.any(rows.estimator.coefficients_):
        return
    other = "" if rows.estimator.pair_label == "same" else f" with another {rows.target!r}"
    if rows.group is None:
        why = f"a row is paired with an earlier one{other}, and there was none in the buffer"
        mend = "Give data whose target has several values, in mixed order, or a larger `buffer`"
    else:
        why = (
            f"a row is paired with an earlier one of its {rows.group!r}{other}, and there was "
            "none in the buffer"
        )
        mend = (
            "If hardly two rows have the same value there, it is no column of groups: name another "
            "as `group`, or leave it out. If the rows of a group are far apart in the data, raise "
            f"`shuffle_buffer` ({shuffle_buffer:,} rows) above that distance, or sort the data by "
            "the group"
        )
    warnings.warn(
        f"The ranking has learned nothing from {n_rows:,} rows, and its values are all 0: {why}. "
        f"{mend}.",
        NothingLearnedWarning,
        stacklevel=3,
    )
