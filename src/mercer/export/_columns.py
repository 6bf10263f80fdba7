"""How tables become inputs, as the plain trees that exported files read."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data import TablePreprocessor
from mercer.data.encoding import scales
from mercer.data.statistics import LevelCounts, TableStatistics
from mercer.export._kernels import ExportError, Tree

__all__ = ["probe_table", "table_tree"]

_MOST_PROBES = 50
_UNSEEN = "(a value that training did not have)"


class _Names:
    """Names of the inputs, taken one after the other."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.at = names, 0

    def take(self, name: str) -> int:
        """Return the number of the next input if it has this name, else -1."""
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
    _check_plain(preprocessor)
    statistics = _statistics(preprocessor)
    names = _Names(preprocessor.feature_names_out())
    numbers = statistics.numbers
    center, scale = scales(numbers, preprocessor.scaling)
    row_of = {name: row for row, name in enumerate(statistics.number_names)}
    columns = []
    for name in statistics.names:
        if name not in row_of:
            columns.append(_levels(name, statistics.levels[name], names))
            continue
        row = row_of[name]
        column = {
            "name": name,
            "kind": "number",
            "fill": float(numbers.mean[row]),
            "center": float(center[row]),
            "scale": float(scale[row]),
            "value": names.take(name),
            "missing": names.take(f"{name}=(missing)"),
        }
        columns.append(column)
    columns = [column for column in columns if _is_used(column)]
    if names.at < len(names.names):
        raise ExportError(
            f"The input {names.names[names.at]!r} is made of its column in a way that exported "
            "files do not know. Leave the column out, or load the model with mercer."
        )
    return {"columns": columns, "width": len(names.names), "type": str(preprocessor.dtype)}


def _check_plain(preprocessor: TablePreprocessor) -> None:
    """Refuse columns that are read in ways that exported files do not know.

    Raises
    ------
    ExportError
        If there is one.
    """
    for reading in preprocessor.to_state()["readings"]:
        if reading["form"] is not None or reading["kind"] in ("date", "time", "text"):
            raise ExportError(
                f"The column {reading['name']!r} is read as a {reading['kind']} "
                f"({reading['note'] or 'free text'}), which exported files do not know. Turn it "
                "into numbers or categories before training, leave it out, or load the model with "
                "mercer."
            )


def _is_used(column: Tree) -> bool:
    """Whether a column makes an input: constant ones need not be in the rows."""
    slots = column.get("levels", {}).values()
    return bool(max([column.get("value", -1), column["missing"], *slots]) >= 0)


def _levels(name: str, seen: LevelCounts, names: _Names) -> Tree:
    """Text, categories or truth values: indicators of levels, of others, and of gaps."""
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
        "levels": slots,
        "other": other,
        "missing": other if missing < 0 else missing,
    }


def probe_table(preprocessor: TablePreprocessor) -> dict[str, Any]:
    """Return rows with ends, middles, levels and gaps of all columns, to compare encodings on."""
    statistics = _statistics(preprocessor)
    numbers = statistics.numbers
    row_of = {name: row for row, name in enumerate(statistics.number_names)}
    columns: dict[str, list[Any]] = {}
    for name in statistics.names:
        if name in row_of:
            row = row_of[name]
            ends = numbers.minimum[row], numbers.mean[row], numbers.maximum[row]
            columns[name] = [*(float(end) for end in ends), np.nan]
        elif statistics.levels[name].boolean:
            columns[name] = [True, False, None]
        else:
            levels = sorted(statistics.levels[name].counts)[:_MOST_PROBES]
            columns[name] = [*levels, _UNSEEN, None]
    n = max(map(len, columns.values()))
    # Cycles of different lengths meet in many ways.
    return {name: [values[i % len(values)] for i in range(n)] for name, values in columns.items()}


def _statistics(preprocessor: TablePreprocessor) -> TableStatistics:
    return TableStatistics.from_state(preprocessor.to_state()["statistics"])
