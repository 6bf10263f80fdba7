"""Audit of a table: what each column holds and how it was encoded, for people to read."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.encoding import TableEncoding
from mercer.columns.readings import Reading, Readings
from mercer.columns.statistics import TableStatistics
from mercer.columns.views import Levels, Numbers, TableView

Floats = NDArray[np.float64]

_MOST_LINES = 40
_WIDEST = 60  # characters of a cell
_WIDEST_REMARKS = 100
_HEADER = ("column", "kind", "becomes", "inputs", "missing", "remarks")


@dataclass(frozen=True)
class ColumnAudit:
    """Audit of one column.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : str
        What it was taken for: "number", "category", "boolean", "date", "time", "text",
        "identifier" or "copy".
    becomes : str
        How it was encoded; "left out" if it was not.
    n_inputs : int
        Number of inputs that encode it.
    missing : float
        Share of the rows without a value; NaN if nobody counted.
    remarks : str
        What was found: how values are written, and why it is left out.
    """

    name: str
    kind: str
    becomes: str
    n_inputs: int
    missing: float
    remarks: str = ""

    @property
    def left_out(self) -> bool:
        """Whether the column is not encoded as any input."""
        return not self.n_inputs

    def cells(self) -> tuple[str, ...]:
        """Return its line of the table."""
        missing = "" if not self.missing > 0.0 else f"{max(100.0 * self.missing, 0.1):.3g} %"
        inputs = f"{self.n_inputs:,}" if self.n_inputs else ""
        return self.name, self.kind, self.becomes, inputs, missing, self.remarks


class TableAudit(Sequence[ColumnAudit]):
    """Audit of all columns of a table.

    It prints as a compact table; similar columns, such as those of an image, share a line.

    Parameters
    ----------
    columns : sequence of ColumnAudit
        In the order of the table.
    n_rows : int
        Rows that were looked at.

    Examples
    --------
    >>> from mercer.columns import TablePreprocessor
    >>> table = {"price": ["$1,200", "$800", "$1,950"], "unit": ["USD", "USD", "USD"]}
    >>> print(TablePreprocessor().fit(table).audit_)
    column  kind      becomes   inputs  missing  remarks
    price   number    number         1           as '$1,200'
    unit    category  left out                   always 'USD'
    """

    def __init__(self, columns: Sequence[ColumnAudit], n_rows: int) -> None:
        self._columns = tuple(columns)
        self.n_rows = n_rows

    def __getitem__(self, index: Any) -> Any:
        return self._columns[index]

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def left_out(self) -> dict[str, str]:
        """Columns of which no input is made, and why."""
        return {one.name: one.remarks for one in self if one.left_out}

    def remarked(self, remarks: Mapping[str, str]) -> TableAudit:
        """Return it with further remarks on some columns."""
        columns = [
            replace(one, remarks="; ".join(filter(None, (one.remarks, remarks.get(one.name, "")))))
            for one in self
        ]
        return TableAudit(columns, self.n_rows)

    def with_leaks(self, leaks: Mapping[str, str]) -> TableAudit:
        """Return the audit with remarks on columns that alone reveal the target, and how."""
        return self.remarked({name: f"LEAK? {said}" for name, said in leaks.items()})

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dict for each column, as JSON knows it; a share nobody knows is None."""
        return [
            vars(one) | {"missing": None if np.isnan(one.missing) else one.missing} for one in self
        ]

    def lines(self) -> list[tuple[str, ...]]:
        """Return the lines of the table, with a header, neighbours that are alike in one."""
        lines: list[tuple[str, ...]] = [_HEADER]
        groups = list(_groups(self._columns, alone=len(self) <= _MOST_LINES))
        shown = groups[:_MOST_LINES]
        lines += [group[0].cells() if len(group) == 1 else _joined(group) for group in shown]
        rest = sum(map(len, groups[_MOST_LINES:]))
        if rest:
            lines.append((f"... and {rest:,} more", "", "", "", "", ""))
        return lines

    def __str__(self) -> str:
        lines = [
            (*(_cut(cell, _WIDEST) for cell in cells), _cut(remarks, _WIDEST_REMARKS))
            for *cells, remarks in self.lines()
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADER))]
        right = {3, 4}
        return "\n".join(
            "  ".join(
                cell.rjust(width) if i in right else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *lines = self.lines()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>"
            for line in lines
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cut(text: str, widest: int) -> str:
    """Leave out the end of long text, from a word on."""
    text = " ".join(text.split())
    if len(text) <= widest:
        return text
    begin, _, word = text[: widest - 3].rpartition(" ")
    return f"{begin} ..." if len(begin) > len(word) else f"{text[: widest - 3]}..."


def _groups(columns: Sequence[ColumnAudit], *, alone: bool) -> Iterator[list[ColumnAudit]]:
    """Join neighbouring columns whose lines would be equal."""
    group: list[ColumnAudit] = []
    for one in columns:
        if group and (alone or one.cells()[1:] != group[0].cells()[1:]):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _joined(group: Sequence[ColumnAudit]) -> tuple[str, ...]:
    """Return the line of columns that are alike."""
    _, kind, becomes, _, missing, remarks = group[0].cells()
    name = f"{group[0].name} ... {group[-1].name} ({len(group):,})"
    inputs = sum(one.n_inputs for one in group)
    return name, kind, becomes, f"{inputs:,}" if inputs else "", missing, remarks


def audit_of(
    readings: Readings, statistics: TableStatistics, encoding: TableEncoding
) -> TableAudit:
    """Say what became of the columns of a table.

    Parameters
    ----------
    readings : Readings
        How they are read.
    statistics : TableStatistics
        Statistics of the rows read.
    encoding : TableEncoding
        Made of these.
    """
    made: dict[str, list[str]] = {}
    for feature, owner in zip(encoding.feature_names, encoding.owners, strict=True):
        made.setdefault(owner, []).append(feature)
    columns, gaps = [], statistics.missing
    lowest = dict(zip(statistics.number_names, statistics.numbers.minimum, strict=True))
    for one in readings.columns.values():
        n_inputs = sum(len(made.get(name, ())) for name in one.names) if one.used else 0
        missing, remarks = np.nan, one.note
        if one.used:
            missing = gaps[one.name] / max(statistics.n_rows, 1)
        becomes = _becomes(one, made) if n_inputs else "left out"
        if not n_inputs and one.used:
            remarks = "no value"
            if gaps[one.name] < statistics.n_rows:
                remarks = _why_unused(one.name, statistics, lowest)
        columns.append(ColumnAudit(one.name, one.kind, becomes, n_inputs, missing, remarks))
    return TableAudit(columns, statistics.n_rows)


def _becomes(reading: Reading, made: Mapping[str, Sequence[str]]) -> str:
    """Say what is made of a column."""
    name = reading.name
    mine = made.get(name, ())
    gap = f"{name}=(missing)" in mine
    other = f"{name}=(other)" in mine
    means = sum(feature.startswith(f"{name}:mean") for feature in mine)
    n = len(mine) - gap - means
    if reading.kind == "text":
        said = [f"{n} numbers of its words"]
    elif reading.kind in ("category", "boolean"):
        n -= other
        said = ["mean of the target"] if means else []
        if n:
            said.append(f"{n} categor{'y' if n == 1 else 'ies'}" + (" and others" if other else ""))
    else:
        said = ["number"] if n else []
        parts = [part for part in reading.parts if f"{name}:{part}" in made]
        said += [part.replace("_", " ") for part in parts]
    return ", ".join([*said, *["gaps"] * gap])


def _why_unused(name: str, statistics: TableStatistics, lowest: Mapping[str, float]) -> str:
    """Return why a column that has values is left out, given the least values of numbers."""
    if name in lowest:
        return f"always {lowest[name]:g}"
    if name in statistics.texts:
        return "no word occurs twice"
    counts = statistics.levels[name].counts
    if len(counts) == 1:
        return f"always {next(iter(counts))!r}"
    return f"{len(counts):,} different values, all rare"


# -- leaks ----------------------------------------------------------------------------------------

_FEWEST_ROWS = 30
_EXACT = 0.9999  # correlation of a copy
_PURE = 0.999  # share of rows whose class a value determines
_ROWS_A_VALUE = 5  # mean number of rows per value needed for a conclusion


def leaks_of(view: TableView, names: Sequence[str], y: NDArray[Any]) -> dict[str, str]:
    """Find columns that alone reveal the target: they may be unknown at prediction time.

    Parameters
    ----------
    view : TableView
        First rows, as they are read.
    names : sequence of str
        Columns to examine.
    y : ndarray of shape (n_rows,)
        Targets: float64 for quantities, anything else for labels.

    Returns
    -------
    leaks : dict of str to str
        What such columns do.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.columns.views import view_table
    >>> y = np.arange(40.0) ** 2
    >>> table = view_table({"in_cents": 100 * y, "x": np.sin(y)})
    >>> leaks_of(table, ["in_cents", "x"], y)
    {'in_cents': 'a copy of the target in another unit'}
    """
    if len(y) < _FEWEST_ROWS or len(names) < 2:  # one column alone is what there is
        return {}
    quantity = y.dtype.kind == "f"
    labels = None if quantity else np.unique(y, return_inverse=True)[1]
    found = {}
    for name in names:
        column = view.column(name)
        said = _copies(column, y) if labels is None else _tells(column, labels)
        if said:
            found[name] = said
    return found


def _copies(column: Numbers | Levels, y: Floats) -> str:
    """Say whether a column is the target in other numbers."""
    if isinstance(column, Levels):
        return ""
    x = column.values.astype(np.float64)
    known = np.isfinite(x)
    x, y = x[known], y[known]
    if x.size < _FEWEST_ROWS or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return ""
    if np.array_equal(x, y):
        return "a copy of the target"
    if abs(np.corrcoef(x, y)[0, 1]) > _EXACT:
        return "a copy of the target in another unit"
    if np.unique(y).size > _FEWEST_ROWS and abs(np.corrcoef(_ranks(x), _ranks(y))[0, 1]) > _EXACT:
        return "in the same order as the target"
    return ""


def _ranks(x: Floats) -> Floats:
    return np.asarray(np.unique(x, return_inverse=True)[1], dtype=np.float64)


def _tells(column: Numbers | Levels, labels: NDArray[np.int64]) -> str:
    """Return a remark if the values of a column separate the classes."""
    n = labels.size
    n_classes = int(labels.max()) + 1
    most = int(np.bincount(labels).max())
    if n_classes < 2 or n - most < _FEWEST_ROWS / 2:
        return ""
    if isinstance(column, Levels):
        values = column.codes + 1
    else:
        values = np.unique(column.values, return_inverse=True)[1]  # all gaps are one value
        if n_classes == 2 and _splits(column.values.astype(np.float64), labels):
            return "one threshold of it tells the classes apart"
    n_values = int(values.max()) + 1
    if n_values * _ROWS_A_VALUE > n:
        return ""
    table = np.zeros((n_values, n_classes), dtype=np.int64)
    np.add.at(table, (values, labels), 1)
    if table.max(axis=1).sum() >= _PURE * n:
        return "its values tell the class"
    return ""


def _splits(x: Floats, labels: NDArray[np.int64]) -> bool:
    """Return whether one threshold separates two classes."""
    known = np.isfinite(x)
    if np.count_nonzero(known) < max(_FEWEST_ROWS, labels.size / 2):
        return False
    zero, one = (x[known & (labels == label)] for label in (0, 1))
    if min(zero.size, one.size) < _FEWEST_ROWS / 2:
        return False
    return bool(zero.max() < one.min() or one.max() < zero.min())
