"""How tables become inputs, as the plain trees that exported files read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

import numpy as np

from mercer.columns import TablePreprocessor, calendar_parts, written
from mercer.columns.encoding import scales
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.null_values import NullValues, moment_of, number_of
from mercer.columns.readings import Reading
from mercer.columns.statistics import TableStatistics
from mercer.columns.target_means import CategoryMeans
from mercer.columns.views import Levels
from mercer.columns.written import CODES, FAMILIES
from mercer_app.export._kernels import ExportError, Tree

_MOST_PROBES = 50
_UNSEEN = "(a value that training did not have)"
# A moment, and the name of its month, in each order of dates.
_DATES = {
    "ymd": "{0:%Y-%m-%d %H:%M:%S}",
    "yy-m-d": "{0:%y-%m-%d %H:%M:%S}",
    "dmy": "{0:%d.%m.%Y %H:%M:%S}",
    "mdy": "{0:%m/%d/%Y %H:%M:%S}",
    "d month y": "{0.day} {1} {0.year}",
    "month d y": "{1} {0.day}, {0.year}",
    "month y": "{1} {0.year}",
    "y month d": "{0.year} {1} {0.day}",
    "month d time y": "{1} {0:%d %H:%M:%S %Y}",
    "yyyymmdd": "{0:%Y%m%dT%H%M%S}",
    "y年m月d日": "{0:%Y年%m月%d日 %H:%M:%S}",
    "m/y": "{0:%m/%Y}",
    "ymm": "{0.year}M{0:%m}",
    "y week d": "{0:%G-W%V-%u}",
    "week y": "W{0:%V/%G}",
    "y quarter": "{0.year}-Q{2}",
    "quarter y": "Q{2} {0.year}",
    "y-day": "{0:%Y-%jT%H:%M:%S}",
    "time": "{0:%H:%M:%S}",
}
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class _Names:
    """Names of the inputs, taken one after the other."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.at = names, 0

    def take(self, name: str) -> int:
        """Return the index of the next input if it has this name, else -1."""
        if self.at < len(self.names) and self.names[self.at] == name:
            self.at += 1
            return self.at - 1
        return -1


def table_tree(preprocessor: TablePreprocessor) -> Tree:
    """Return what a preprocessor does to tables as a tree.

    Raises
    ------
    ExportError
        If it makes inputs of a kind that exported files do not know.
    """
    statistics = statistics_of(preprocessor)
    names = _Names(preprocessor.feature_names_out())
    places = _number_places(statistics, preprocessor.scaling)
    columns = []
    for reading in preprocessor.readings_.values():
        if not reading.used:
            continue
        if reading.kind == "text":
            raise ExportError(
                f"The column {reading.name!r} is read as text, word by word, which exported files "
                "do not do. Leave it out or take it as categories in training, or load the model "
                "with mercer."
            )
        if reading.name not in places:
            columns.append(_levels(reading, statistics, names))
            continue
        parts: list[Tree] = [
            {
                "part": part,
                **places[name],
                "value": names.take(name),
                "missing": names.take(f"{name}=(missing)"),
            }
            for name, part in zip(reading.names, (None, *reading.parts), strict=True)
        ]
        columns.append(
            {
                "name": reading.name,
                "kind": "number",
                "form": _form(reading),
                "no_data": list(reading.marks),
                "parts": [part for part in parts if max(part["value"], part["missing"]) >= 0],
            }
        )
    columns = [column for column in columns if _is_used(column)]
    nulls = preprocessor.nulls_
    for column in columns:
        column["marks"] = _marks_tree(nulls.named(column["name"]))
        if column["name"] in nulls.columns:
            column["gaps"] = gaps_tree(nulls, column["name"])
    if names.at < len(names.names):
        raise ExportError(
            f"The input {names.names[names.at]!r} is made of its column in a way that exported "
            "files do not know. Leave the column out, or load the model with mercer."
        )
    return {"columns": columns, "width": len(names.names), "type": str(preprocessor.dtype_)}


def gaps_tree(nulls: NullValues, column: str = "") -> Tree:
    """Return the cells of CSV files that stand for no value, in one column or all others."""
    return {"text": sorted(nulls.gaps(column)), "numbers": sorted(nulls.number_gaps(column))}


def _marks_tree(marks: Sequence[str]) -> Tree | None:
    """Return what was named as no value: as text, as numbers, and as seconds since 1970."""
    numbers = [number_of(mark) for mark in marks]
    moments = [moment_of(mark) for mark in marks]
    return (
        {
            "text": list(marks),
            "numbers": [number for number in numbers if number is not None],
            "moments": [moment for moment in moments if moment is not None],
        }
        if marks
        else None
    )


def modules_of(tree: Tree) -> list[ModuleType]:
    """Return the modules that read what is written as text, and dates, if a model has such."""
    table = tree["table"]
    numbers = [c for c in table["columns"] if c["kind"] == "number"] if table is not None else []
    forms = {column["form"]["kind"] for column in numbers if column["form"] is not None}
    has_parts = any(part["part"] is not None for column in numbers for part in column["parts"])
    modules = []
    if forms & {"number", "date", *CODES}:
        modules.append(written)
    if "compact" in forms or has_parts or tree["moments"] is not None:
        modules.append(calendar_parts)
    return modules


def _number_places(statistics: TableStatistics, scaling: str) -> dict[str, dict[str, float]]:
    """Return what takes the place of gaps in columns of numbers, and their centres and scales."""
    numbers = statistics.numbers
    center, scale = scales(numbers, scaling)
    return {
        name: {
            "fill": float(numbers.mean[row]),
            "center": float(center[row]),
            "scale": float(scale[row]),
        }
        for row, name in enumerate(statistics.number_names)
    }


def _form(reading: Reading) -> Tree | None:
    """How the values of a column are written; None for numbers and datetimes themselves."""
    form = reading.form
    if isinstance(form, NumberForm):
        return {"kind": "number", **vars(form)}
    if isinstance(form, DateForm):
        return {"kind": "date", "order": form.order}
    if form is not None:
        return {"kind": form if form in CODES else "compact"}
    # CSV has no type for times of day.
    return {"kind": "date", "order": "time"} if reading.kind == "time" else None


def _is_used(column: Tree) -> bool:
    """Whether a column makes an input: constant ones need not be in the rows."""
    if column["kind"] == "number":
        return bool(column["parts"])
    has_means = column["means"] is not None
    return has_means or max([column["missing"], *column["levels"].values()]) >= 0


def _levels(reading: Reading, statistics: TableStatistics, names: _Names) -> Tree:
    """Categories or truth values: means of the target, indicators of levels, others, and gaps."""
    name, seen = reading.name, statistics.levels[reading.name]
    means = _means(name, statistics, names)
    slots = {}
    for level in sorted(seen.counts):
        slot = names.take(f"{name}={level}")
        if slot >= 0:
            slots[level] = slot
    other = -1 if seen.boolean else names.take(f"{name}=(other)")
    missing = names.take(f"{name}=(missing)") if seen.missing else -1
    return {
        "name": name,
        "kind": "levels",
        "boolean": bool(seen.boolean),
        "numeric": reading.kind == "category" and not reading.was_text,
        "means": means,
        "levels": slots,
        "other": other,
        "missing": other if missing < 0 else missing,
    }


def _means(name: str, statistics: TableStatistics, names: _Names) -> Tree | None:
    """Means of the target in categories, if they are inputs; unknown ones and gaps are 0."""
    sums, targets = statistics.sums.get(name), statistics.targets
    if sums is None or targets is None:
        return None
    slots = [names.take(f"{name}:mean{code}") for code in targets.names]
    if slots[0] < 0:
        return None
    if statistics.repeats_tell():
        raise ExportError(
            f"The means of the target in {name!r} go by what is in the whole row, as most rows "
            "learned repeat others, which exported files do not do. Leave it out, or load the "
            "model with mercer."
        )
    levels = list(sums.sums)
    values = CategoryMeans(sums).transform(Levels(np.arange(len(levels)), levels))
    # The last row is for all other values.
    return {
        "first": slots[0],
        "rows": {level: row for row, level in enumerate(levels)},
        "values": np.vstack([values, np.zeros(len(slots))]),
    }


def probe_table(preprocessor: TablePreprocessor) -> dict[str, Any]:
    """Return rows with ends, middles, levels and gaps of all columns, to compare encodings on."""
    statistics = statistics_of(preprocessor)
    numbers = statistics.numbers
    row_of = {name: row for row, name in enumerate(statistics.number_names)}
    columns: dict[str, list[Any]] = {}
    for reading in preprocessor.readings_.values():
        name = reading.name
        if not reading.used:
            continue
        if name in row_of:
            row = row_of[name]
            ends = numbers.minimum[row], numbers.mean[row], numbers.maximum[row]
            columns[name] = [*(written_value(reading, float(end)) for end in ends), None]
        elif statistics.levels[name].boolean:
            columns[name] = [True, False, None]
        else:
            levels = sorted(statistics.levels[name].counts)[:_MOST_PROBES]
            columns[name] = [*levels, _UNSEEN, None]
    n = max(map(len, columns.values()))
    # Cycles of different lengths meet in many ways.
    return {name: [values[i % len(values)] for i in range(n)] for name, values in columns.items()}


def written_value(reading: Reading, value: float) -> float | str | None:
    """Write a value as its column has it."""
    form = reading.form
    if form is None:
        return value
    if isinstance(form, NumberForm):
        # Of several sizes the first is the one that numbers are read in.
        ones = [word for word, size in FAMILIES.get(form.scale, {}).items() if size == 1.0]
        unit = form.unit or "".join(ones[:1])
        return f"{value!r} {unit}".replace(".", form.decimal, 1)
    if form in CODES:
        return str(int(value)) if form == "digits" else np.base_repr(int(value), 36).zfill(10)
    if isinstance(form, DateForm) and form.is_duration:
        return _length(value, form.order.split("|")[0])
    moment = datetime(1970, 1, 1) + timedelta(seconds=value)
    if not isinstance(form, DateForm):
        return moment.year * 1e4 + moment.month * 100 + moment.day
    order = form.order.split("|")[0]
    order, mark = (order[:3], order[3:]) if order[:3] in ("dmy", "mdy") else (order, "")
    written = _DATES[order].format(moment, _MONTHS[moment.month - 1], (moment.month + 2) // 3)
    return written.replace("/" if order == "mdy" else ".", mark) if mark else written


def _length(seconds: float, order: str) -> str:
    """Write a duration."""
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    if order == "h:m:s":
        days, rest = divmod(seconds, 86_400.0)
        hours, rest = divmod(rest, 3600.0)
        minutes, rest = divmod(rest, 60.0)
        return f"{sign}{int(days)} days {int(hours)}:{int(minutes):02}:{rest:09.6f}"
    return f"{sign}{seconds:.6f} s" if order == "1h 2m" else f"{sign}PT{seconds:.6f}S"


def statistics_of(preprocessor: TablePreprocessor) -> TableStatistics:
    """Return what was measured of the columns."""
    return TableStatistics.from_state(preprocessor.to_state()["statistics"])
