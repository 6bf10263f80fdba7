"""What the command says: errors, notes, results and progress, on terminals and in logs."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mercer.buffers import FIFO
from mercer.display.drawing import format_number
from mercer.exceptions import Advice, DivergenceError, InPython, Setting
from mercer.expansions import Auto
from mercer.training import TrainingProgress

__all__ = [
    "COMPILING",
    "ProgressView",
    "Stopped",
    "guarded",
    "is_table",
    "note",
    "print_result",
]

P = ParamSpec("P")

_LINE_SECONDS = 5.0  # between two lines of progress in a log
_PATIENCE = 3.0  # seconds before a quiet first chunk is explained
COMPILING = "compiling, only the first time (about half a minute)"

# Errors of the library name its parameters; these are the options that set them.
_RENAMED = {
    "n_passes": "passes",
    "size": "max-size",
    "levels": "quantiles",
    "n_features": "features",
}
_SHARED = (
    "batch_size block_length block_size budget_seconds buffer categories checkpoint_every "
    "class_weight exclude expansion forgetting group kernel length_scale loss max_blocks "
    "max_memory max_size mode noise normalize nu outlier pair_kernel pair_label parsimony "
    "regularization resume ridge risk scaling seed shuffle_buffer step_size strategy target task "
    "tolerance"
)
_OPTIONS = {name: name.replace("_", "-") for name in _SHARED.split()} | _RENAMED


class Stopped(Exception):  # noqa: N818  # no error: the user asked for it
    """The user stopped the command; the message says what became of the work."""

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what a command raises into one message on standard error and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            try:
                command(*args, **kwargs)
            except Stopped as error:
                _say(str(error))
                raise typer.Exit(error.code) from None
            except KeyboardInterrupt:
                _say("interrupted; nothing was saved.")
                raise typer.Exit(130) from None
            except BrokenPipeError:
                # The reader went away, as `head` does; nothing else may be written to it.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(1) from None
            except (typer.Exit, typer.Abort):
                raise
            except Exception as error:
                if os.environ.get("MERCER_DEBUG"):
                    traceback.print_exc()
                expected = isinstance(error, ValueError | OSError | DivergenceError)
                if isinstance(error, ImportError):
                    expected = "pip install" in str(error)
                if expected:
                    _say(f"error: {in_words_of_the_command(error)}")
                    raise typer.Exit(2) from None
                _say(
                    f"error: unexpected {type(error).__name__}: {error}. This is a fault of "
                    "mercer; with MERCER_DEBUG=1 in the environment it shows where."
                )
                raise typer.Exit(1) from None

    return run


def in_words_of_the_command(message: object) -> str:
    """Put a message of the library in terms of command line options.

    Parameters
    ----------
    message : str, exception or warning
        What it says. Names of parameters are between backticks, and an
        :class:`mercer.exceptions.Advice` knows what else is Python.

    Examples
    --------
    >>> in_words_of_the_command("`batch_size` must be an integer of at least 1, got 0.")
    '`--batch-size` must be an integer of at least 1, got 0.'
    """
    if isinstance(message, Exception):
        advice = message.args[0] if message.args else None
        message = advice if isinstance(advice, Advice) else _text_of(message)
    pieces = message.pieces if isinstance(message, Advice) else (str(message),)
    return "".join(map(_in_options, pieces))


def _in_options(piece: str | Setting | InPython) -> str:
    """Say a piece of a message in options."""
    if isinstance(piece, InPython):
        return "".join(map(_in_options, piece.otherwise))
    if isinstance(piece, Setting):
        return _option_of(piece)
    spans = piece.split("`")
    # Every other part was between backticks, if these come in pairs.
    for i in range(1, len(spans) - 1, 2):
        name, _, value = spans[i].partition("=")
        if name in _OPTIONS and not value:
            spans[i] = f"--{_OPTIONS[name]}"
        elif name in _OPTIONS and value[0] == value[-1] == "'":
            spans[i] = f"--{_OPTIONS[name]} {value[1:-1]}"
    return "`".join(spans)


def _option_of(setting: Setting) -> str:
    """Write the option that does what a setting does, and the setting itself if there is none."""
    value = setting.value
    if isinstance(value, Auto):
        return "`--expansion auto`, with its options,"
    if isinstance(value, tuple):
        (value,) = value
    elif isinstance(value, FIFO):
        value = f"fifo:{value.size}"
    if setting.parameter not in _OPTIONS or not isinstance(value, str):
        return str(setting)
    return f"`--{_OPTIONS[setting.parameter]} {value}`"


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror.rstrip('.')}: {error.filename}."
    return str(error) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {in_words_of_the_command(message)}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def note(text: str, *, quiet: bool = False) -> None:
    """Tell the user something that is no result."""
    if not quiet:
        _say(text)


def print_result(values: Mapping[str, Any], *, title: str, as_json: bool = False) -> None:
    """Print named values: a table on a terminal, ``name value`` lines elsewhere, or JSON.

    Parameters
    ----------
    values : mapping of str to str, number, list or list of dict
        Names without spaces. Lists of dicts are tables of their own, and elsewhere than on a
        terminal a line ``name key=value ...`` for each row.
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
            for row in value if is_table(value) else ():
                cells = " ".join(f"{k}={_exact(v)}" for k, v in row.items() if v is not None)
                sys.stdout.write(f"{name} {cells}\n")
            if not is_table(value):
                sys.stdout.write(f"{name} {_listed(value, _exact)}\n")
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
            table.add_row(Text(_worded(name)), Text(_listed(value, format_number)))
    console.print(title, markup=False)
    console.print(table, markup=False)
    for name, rows in values.items():
        if not is_table(rows):
            continue
        table = Table()
        for key in rows[0]:
            number = isinstance(rows[0][key], int | float)
            table.add_column(_worded(key), justify="right" if number else "left", overflow="fold")
        for row in rows:
            cells = ["" if cell is None else format_number(cell) for cell in row.values()]
            table.add_row(*map(Text, cells), style="bold" if row.get("chosen") else None)
        console.print(_worded(name), markup=False)
        console.print(table, markup=False)


def _worded(name: str) -> str:
    return name.replace("_percent", " %").replace("_", " ")


def _listed(value: Any, text: Callable[[Any], str]) -> str:
    return ", ".join(map(text, value)) if isinstance(value, list | tuple) else text(value)


def _exact(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class ProgressView:
    """Progress of a training on standard error: a bar on a terminal, else lines now and then.

    Parameters
    ----------
    n_rows, n_total : int, int or None
        Rows learned already, and those of the whole training.
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
            _say(self._waiting)

    def update(self, progress: TrainingProgress) -> None:
        """Show how far the training has come."""
        # The speed of the first chunk tells nothing if it was spent on compiling.
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
        elif time.monotonic() - self._last_line >= _LINE_SECONDS:
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
        _say("  ".join(parts))

    def _order(self, progress: TrainingProgress) -> str:
        """Model order; there is none while rows are gathered for the race."""
        return f"order {progress.model_order:,}" if progress.model_order else "not yet chosen"

    def _loss(self, progress: TrainingProgress) -> str:
        return "" if progress.loss is None else f"{self._measure} {progress.loss:.4g}  "


def _speed(progress: TrainingProgress) -> str:
    """Rows per second, unless all are learned: the end says how long the whole took."""
    done = progress.n_rows == progress.n_total
    return "" if done else f"{progress.rows_per_second:,.0f} rows/s"


def _columns(width: int) -> list[Any]:
    """Columns of the bar that fit on a terminal of so many characters."""
    name = TextColumn("{task.description}", markup=False)
    figures = TextColumn("{task.fields[figures]}", markup=False)
    if width < 64:
        return [TaskProgressColumn(), figures]
    if width < 90:
        return [name, TaskProgressColumn(), figures, TimeRemainingColumn()]
    speed = TextColumn("{task.fields[speed]}", markup=False)
    return [name, BarColumn(), TaskProgressColumn(), figures, speed, TimeRemainingColumn()]
