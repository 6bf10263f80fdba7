"""Messages of the command on standard error: errors, warnings and notes in its own words."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

import typer

from mercer.exceptions import Advice, DivergenceError, InPython, Setting, WorkerError

P = ParamSpec("P")

# Errors of the library name its parameters; these are the options that set them.
_RENAMED = {
    "coverage": "interval",
    "n_passes": "passes",
    "size": "max-size",
    "levels": "quantiles",
    "n_features": "features",
    "n_workers": "workers",
    "kinds": "kind",
    "next_prefix": "next",
    "states": "state",
}
_SHARED = (
    "address background batch_size block_length block_size budget_seconds buffer calibrate "
    "categories checkpoint_every class_weight decimal delimiter discount encoding ends engine "
    "episode escape exclude expansion follow forgetting group header include kernel key "
    "length_scale loss max_age max_blocks max_memory max_size max_waiting mode noise normalize "
    "nu null_values outlier output pair_kernel pair_label parsimony port regularization "
    "resumable resume reward ridge risk scaling seed shuffle_buffer skip step_size strategy "
    "strict target task terminal time tolerance widths"
)
_OPTIONS = {name: name.replace("_", "-") for name in _SHARED.split()} | _RENAMED


_names: dict[str, str] = {}  # of files that the user did not name


class Stopped(Exception):  # noqa: N818  # no error: the user asked for it
    """The user stopped the command; the message says what happened to the work."""

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


class _Terminated(KeyboardInterrupt):
    """Another process asked this one to end."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let termination unwind what is to be removed, as Ctrl-C does."""

    def end(number: int, frame: Any) -> None:
        raise _Terminated

    before = signal.getsignal(signal.SIGTERM)
    if before != signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield  # it is somebody else's, or not to be had
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what a command raises into one message on standard error and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            try:
                with _terminable():
                    command(*args, **kwargs)
            except Stopped as error:
                _say(str(error))
                raise typer.Exit(error.code) from None
            except _Terminated:
                _say("terminated; nothing was saved.")
                raise typer.Exit(143) from None
            except KeyboardInterrupt:
                _say("interrupted; nothing was saved.")
                raise typer.Exit(130) from None
            except BrokenPipeError:
                leave_output()
                raise typer.Exit(1) from None
            except (typer.Exit, typer.Abort):
                raise
            except Exception as error:
                if os.environ.get("MERCER_DEBUG"):
                    traceback.print_exc()
                expected = isinstance(error, ValueError | OSError | DivergenceError | WorkerError)
                if isinstance(error, ImportError):
                    expected = "pip install" in str(error)
                if expected:
                    _say(f"error: {in_one_line(in_words_of_the_command(error))}")
                    for note in getattr(error, "__notes__", ()):
                        if isinstance(note, Advice):
                            _say(note)
                    raise typer.Exit(2) from None
                said = in_one_line(str(error))
                _say(
                    f"error: unexpected {type(error).__name__}: {said}. This is a fault of "
                    "mercer; with MERCER_DEBUG=1 in the environment it shows where."
                )
                raise typer.Exit(1) from None

    return run


def leave_output() -> None:
    """Write nothing more to standard output: its reader has closed it, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_words_of_the_command(message: object) -> str:
    """Put a message of the library in terms of command line options.

    Parameters
    ----------
    message : str, exception or warning
        Message. Names of parameters are between backticks, and an :class:`mercer.exceptions.Advice`
        marks other words of Python.

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
    """Return the option that corresponds to a setting, or the setting itself if there is none."""
    # Only here, where the library has spoken already: help and mistyped options do without it.
    from mercer.buffers import FIFO
    from mercer.expansions import Auto

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
    _say(f"warning: {in_one_line(in_words_of_the_command(message))}")


def named(path: str, name: str) -> None:
    """Call a file that the user did not name otherwise than by its path, from here on."""
    _names[path] = name


def shown(text: str) -> str:
    """Put names in place of paths that the user did not give."""
    for path, name in _names.items():
        text = text.replace(path, name)
    return text


def file_name(place: str | os.PathLike[str]) -> str:
    """Name a file, a folder or a glob without its place, for a report that others read.

    Examples
    --------
    >>> file_name("/home/ada/cars.csv"), file_name("s3://bucket/2024/*.parquet"), file_name("in/")
    ('cars.csv', '*.parquet', 'in')
    """
    parts = [part for part in re.split(r"[/\\\\]", shown(os.fspath(place))) if part]
    return parts[-1] if parts else ""


# What moves the cursor, changes colours or turns the direction of a terminal.
_CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]"
)
_LONGEST_ERROR = 1500  # characters


def in_one_line(text: str) -> str:
    r"""Write an error in one line, without the middle if it is very long.

    Examples
    --------
    >>> in_one_line("no\n\n  number\n")
    'no number'
    """
    text = " ".join(line.strip() for line in text.splitlines() if line.strip())
    if len(text) <= _LONGEST_ERROR:
        return text
    end = _LONGEST_ERROR // 3
    return f"{text[: _LONGEST_ERROR - end]} [...] {text[-end:]}"


def printable(text: str) -> str:
    r"""Show characters that command a terminal as codes: names and cells may hold some.

    Examples
    --------
    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _say(text: str) -> None:
    sys.stderr.write(f"{printable(shown(text))}\n")
    sys.stderr.flush()


def note(text: str, *, quiet: bool = False) -> None:
    """Tell the user something that is not a result."""
    if not quiet:
        _say(text)
