"""Results on standard output, progress on standard error: on terminals and in logs."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mercer.display.drawing import format_number
from mercer_app.messages import note, printable
from mercer_app.training import TrainingProgress

LINE_SECONDS = 5.0  # between two lines of progress in a log
_PATIENCE = 3.0  # seconds before a quiet first chunk is explained
COMPILING = "compiling, only the first time (up to a minute)"
# That is said here, among the progress: not once more by the library.
logging.getLogger("mercer.compile").addHandler(logging.NullHandler())


def print_result(values: Mapping[str, Any], *, title: str, as_json: bool = False) -> None:
    """Print named values: a table on a terminal, ``name value`` lines elsewhere, or JSON.

    Parameters
    ----------
    values : mapping of str to str, number, list or list of dict
        Names without spaces. Lists of dicts become separate tables or, unless on a terminal,
        aligned lines that each begin with the name.
    title : str
        Heading on a terminal.
    as_json : bool, default=False
        Print one JSON object.
    """
    if as_json:
        sys.stdout.write(json.dumps(dict(values), allow_nan=False) + "\n")
    elif sys.stdout.isatty():
        _print_tables(values, title)
    else:
        for name, value in values.items():
            lines = _aligned(value) if is_table(value) else [_listed(value, _exact)]
            sys.stdout.writelines(f"{printable(f'{name} {line}')}\n" for line in lines)
    sys.stdout.flush()


def is_table(value: Any) -> bool:
    """Whether a value is a list of dicts, the rows of a table."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _print_tables(values: Mapping[str, Any], title: str) -> None:
    """Print on a terminal: the values, then each of the tables among them."""
    console = Console(highlight=False)
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        if not is_table(value):
            table.add_row(Text(_worded(name)), Text(printable(_listed(value, format_number))))
    console.print(printable(title), markup=False)
    console.print(table, markup=False)
    for name, rows in values.items():
        if not is_table(rows):
            continue
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        keys = _keys(rows)
        for key in keys:
            numbers = _is_of_numbers(rows, key)
            justify: Any = "right" if numbers else "left"
            table.add_column(_worded(key), justify=justify, overflow="fold", no_wrap=numbers)
        for row in rows:
            cells = [printable(_cell(row.get(key), format_number)) for key in keys]
            table.add_row(*map(Text, cells), style="bold" if row.get("chosen") else None)
        console.print(_worded(name), markup=False)
        console.print(table, markup=False)


def _aligned(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a table, its headings first, with columns that are aligned.

    Examples
    --------
    >>> _aligned([{"form": "global", "n_inputs": 12}, {"form": "trees", "chosen": True}])
    ['form    n inputs  chosen', 'global        12', 'trees             yes']
    """
    columns = []
    for key in _keys(rows):
        cells = [_worded(key), *(_cell(row.get(key), _exact) for row in rows)]
        adjust = str.rjust if _is_of_numbers(rows, key) else str.ljust
        columns.append([adjust(cell, max(map(len, cells))) for cell in cells])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def _keys(rows: list[dict[str, Any]]) -> list[str]:
    """Columns of a table whose rows may lack some."""
    return list(dict.fromkeys(key for row in rows for key in row))


def _is_of_numbers(rows: list[dict[str, Any]], key: str) -> bool:
    """Whether a column is of numbers, or of some with their errors, rather than of words."""
    cells = [row[key] for row in rows if row.get(key) is not None]
    return all(
        (isinstance(cell, int | float) and not isinstance(cell, bool)) or "±" in str(cell)
        for cell in cells
    )


def _cell(value: Any, text: Callable[[Any], str]) -> str:
    """Return the text of a cell; False and None are empty."""
    if value is None or value is False:
        return ""
    return "yes" if value is True else text(value)


def _worded(name: str) -> str:
    return name.replace("_percent", " %").replace("_", " ")


def _listed(value: Any, text: Callable[[Any], str]) -> str:
    return ", ".join(map(text, value)) if isinstance(value, list | tuple) else text(value)


def _exact(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class ProgressView:
    """Progress of a training on standard error: a bar on a terminal, otherwise occasional lines.

    Parameters
    ----------
    n_rows, n_total : int, int or None
        Rows learned already, and rows of the whole training.
    quiet : bool
        Show nothing.
    measure : str, default="loss"
        What the losses of the progress are called.
    waiting : str, default=COMPILING
        What a quiet first chunk is spent on.
    """

    def __init__(
        self,
        n_rows: int,
        n_total: int | None,
        *,
        quiet: bool,
        measure: str = "loss",
        waiting: str = COMPILING,
    ) -> None:
        self._quiet, self._measure, self._waiting = quiet, measure, waiting
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._last_line = time.monotonic()
        self._shown = -1
        self._latest: TrainingProgress | None = None
        self._speed_known = False
        if self._console.is_terminal and not quiet:
            self._bar = Progress(*_columns(self._console.width), console=self._console)
            self._task = self._bar.add_task(
                "starting", total=n_total, completed=n_rows, figures="", speed=""
            )
        self._timer = threading.Timer(_PATIENCE, self._explain)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        if not self._quiet:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()
        elif self._latest is not None and self._latest.n_rows != self._shown:
            self._line(self._latest)

    def _explain(self) -> None:
        if self._latest is None and self._bar is not None:
            self._bar.update(self._task, description=self._waiting)
        elif self._latest is None:
            note(self._waiting)

    def update(self, progress: TrainingProgress) -> None:
        """Show the progress of the training."""
        # The speed of the first chunk is meaningless if it includes compiling.
        self._speed_known = self._latest is not None
        self._latest = progress
        self._timer.cancel()
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(
                self._task,
                total=progress.n_total,
                completed=progress.n_rows,
                description="learning" if progress.n_total else f"{progress.n_rows:,} rows",
                figures=f"{self._loss(progress)}{self._order(progress)}",
                speed=_speed(progress),
            )
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._line(progress)

    def _line(self, progress: TrainingProgress) -> None:
        if self._quiet:
            return
        self._last_line, self._shown = time.monotonic(), progress.n_rows
        done, total = progress.n_rows, progress.n_total
        parts = [f"{done:,} of {total:,} rows  {done / total:.0%}" if total else f"{done:,} rows"]
        parts.append(f"{self._loss(progress)}model {self._order(progress)}")
        if speed := _speed(progress):
            parts.append(speed)
        if total and done < total and self._speed_known:
            seconds = round((total - done) / progress.rows_per_second)
            parts.append(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")
        note("  ".join(parts))

    def _order(self, progress: TrainingProgress) -> str:
        """Model order; empty while rows are collected for the race."""
        return f"order {progress.model_order:,}" if progress.model_order else "not yet chosen"

    def _loss(self, progress: TrainingProgress) -> str:
        return "" if progress.loss is None else f"{self._measure} {progress.loss:.4g}  "


def _speed(progress: TrainingProgress) -> str:
    """Rows per second; empty at the end, where the total time is printed."""
    done = progress.n_rows == progress.n_total
    return "" if done else f"{progress.rows_per_second:,.0f} rows/s"


def _columns(width: int) -> list[Any]:
    """Return the columns of the bar that fit on a terminal of some width."""
    name = TextColumn("{task.description}", markup=False)
    figures = TextColumn("{task.fields[figures]}", markup=False)
    if width < 64:
        return [TaskProgressColumn(), figures]
    if width < 90:
        return [name, TaskProgressColumn(), figures, TimeRemainingColumn()]
    speed = TextColumn("{task.fields[speed]}", markup=False)
    return [name, BarColumn(), TaskProgressColumn(), figures, speed, TimeRemainingColumn()]
