"""Where a model errs: its worst rows, and its errors in groups of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.display.drawing import format_number
from mercer_app.report.judged import JudgedRows, percent, wilson

Array = NDArray[np.float64]
Table = list[dict[str, Any]]

_WORST = 10
_MOST_LETTERS = 60
_BINS, _MOST_GROUPS, _FEWEST = 5, 8, 5
_NONE = "(missing)"


def worst_table(rows: JudgedRows, columns: Sequence[str], most: int = _WORST) -> Table:
    """Return the rows that are predicted worst, with what they have in some columns.

    For classes these are wrongly predicted rows, those with the smallest probability of the true
    class first; for quantities, the rows with the largest errors.

    Parameters
    ----------
    rows : JudgedRows
        The rows.
    columns : sequence of str
        Columns to show.
    most : int, default=10
        Largest number of rows.
    """
    errors, of_truth = rows.errors, None
    if rows.classes is not None and rows.probability is not None:
        hit = np.asarray(rows.truth)[:, np.newaxis] == rows.classes[np.newaxis, :]
        of_truth = np.where(hit, rows.probability, 0.0).sum(axis=1)
        errors = errors * (2.0 - of_truth)  # of wrong rows 1 to 2, the surer the larger
    order = np.argsort(-errors, kind="stable")
    order = order[errors[order] > 0.0][:most]
    truth, predicted, write = rows.truth, rows.predicted, _cell
    if rows.classes is None:
        truth, predicted, write = truth.reshape(len(truth), -1)[:, 0], rows.middle, format_number
    table = []
    for i in order.tolist():
        line: dict[str, Any] = {"truth": write(truth[i]), "prediction": write(predicted[i])}
        if rows.classes is None:
            line["off by"] = _signed(float(predicted[i] - truth[i]))
        elif of_truth is not None:
            line["probability of the truth"] = percent(float(of_truth[i]))
        for name in columns:
            if name in rows.columns:
                heading = f"{name} (column)" if name in line else name
                line[heading] = _cell(rows.columns[name][i])
        table.append(line)
    return table


def class_table(counted: Mapping[str, tuple[int, int]]) -> Table:
    """Return the share of right rows of each class.

    Parameters
    ----------
    counted : mapping of str to (int, int)
        Rows of each class, and the number predicted wrongly.
    """
    table = []
    for label, (n, wrong) in counted.items():
        low, high = wilson(n - wrong, n)
        table.append({
            "true class": label,
            "rows": n,
            "right": percent((n - wrong) / n),
            "95 % interval": f"{percent(low)} to {percent(high)}",
        })  # fmt: skip
    return table


def confused_table(rows: JudgedRows, most: int = _WORST) -> Table:
    """Return the pairs of classes that are mixed up most often.

    Parameters
    ----------
    rows : JudgedRows
        Rows of classes.
    most : int, default=10
        Largest number of pairs.
    """
    wrong = np.asarray(rows.truth != rows.predicted)
    pairs = Counter(zip(rows.truth[wrong].tolist(), rows.predicted[wrong].tolist(), strict=True))
    counts = Counter(rows.truth.tolist())
    return [
        {
            "true class": str(truth),
            "predicted": str(said),
            "rows": n,
            "of the true class": percent(n / counts[truth]),
        }
        for (truth, said), n in pairs.most_common(most)
    ]


def group_table(rows: JudgedRows, column: str) -> Table:
    """Return the errors of groups of rows that have alike values in a column.

    Parameters
    ----------
    rows : JudgedRows
        The rows.
    column : str
        One of their columns. Numbers and dates make five groups of about equal size.

    Returns
    -------
    table : list of dict
        Groups of at least 5 rows; empty if there are fewer than two groups, or if the column is
        free text.
    """
    values = rows.columns.get(column)
    if values is None:
        return []
    table = []
    for name, members in _groups(values):
        if len(members) < _FEWEST:
            continue
        errors = rows.errors[members]
        line: dict[str, Any] = {column: name, "rows": len(members)}
        if rows.classes is not None:
            right = float(np.sum(errors == 0.0))
            low, high = wilson(right, len(members))
            line["right"] = percent(right / len(members))
            line["95 % interval"] = f"{percent(low)} to {percent(high)}"
        else:
            mean = float(errors.mean())
            half = 1.959963984540054 * float(errors.std(ddof=1)) / math.sqrt(errors.size)
            line["off by, on average"] = mean
            line["95 % interval"] = (
                f"{format_number(max(0.0, mean - half))} to {format_number(mean + half)}"
            )
            truth = rows.truth.reshape(len(rows.truth), -1)[members, 0]
            line["prediction minus truth, on average"] = _signed(
                float(np.mean(rows.middle[members] - truth))
            )
        table.append(line)
    return table if len(table) > 1 else []


def _groups(values: Sequence[Any]) -> list[tuple[str, NDArray[np.intp]]]:
    """Group rows by the values of a column: names of the groups, and their rows."""
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    known = np.flatnonzero(~missing)
    some = [values[i] for i in known.tolist()]
    lacking = [(_NONE, np.flatnonzero(missing))] if missing.any() else []
    if not some:
        return lacking
    distinct = sorted(set(map(_key, some)), key=str)
    ordered = all(_is_number(value) for value in some) or all(
        isinstance(value, date) for value in some
    )
    if ordered and len(distinct) > _MOST_GROUPS:
        return _bins(some, known) + lacking
    if not ordered and len(distinct) > max(_MOST_GROUPS, len(some) // 5):
        return []  # free text, or names: hardly two rows are alike
    found: dict[Any, list[int]] = {}
    for i, value in zip(known.tolist(), some, strict=True):
        found.setdefault(_key(value), []).append(i)
    # Numbers in their order, categories by how frequent they are.
    keys = sorted(found, key=None if ordered else lambda key: (-len(found[key]), str(key)))
    groups = [(_cell(key), np.asarray(found[key])) for key in keys[:_MOST_GROUPS]]
    rest = [i for key in keys[_MOST_GROUPS:] for i in found[key]]
    return groups + ([("(others)", np.asarray(rest))] if rest else []) + lacking


def _bins(some: Sequence[Any], known: NDArray[np.intp]) -> list[tuple[str, NDArray[np.intp]]]:
    """Cut ordered values into groups of about equal size; equal values stay together."""
    order = np.array(sorted(range(len(some)), key=lambda i: _stamp(some[i])), dtype=np.intp)
    stamps = np.array([_stamp(some[i]) for i in order.tolist()])
    edges = np.unique(np.quantile(stamps, np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
    place = np.searchsorted(edges, stamps, side="left")
    groups = []
    for number in np.unique(place).tolist():
        mine = order[place == number]
        first, last = _cell(some[int(mine[0])]), _cell(some[int(mine[-1])])
        groups.append((first if first == last else f"{first} to {last}", known[mine]))
    return groups


def _stamp(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp() if value.tzinfo else (value - datetime(1970, 1, 1)).total_seconds()
    if isinstance(value, date):
        return 86400.0 * (value - date(1970, 1, 1)).days
    return float(value)


def _key(value: Any) -> Any:
    if isinstance(value, str | bool | date):  # datetimes are dates
        return value
    return float(value) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("NaT", "<NA>", "")


def _signed(value: float) -> str:
    return ("+" if value > 0.0 else "") + format_number(value)


def _cell(value: Any) -> str:
    """Write what a row has in a column, in few letters."""
    if _is_missing(value):
        return _NONE
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    whole = _is_number(value) and float(value).is_integer() and abs(value) < 1e15
    # Whole numbers may be years or codes: as they are, without commas.
    text = str(int(value)) if whole else format_number(value)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
