"""Input data of a command: standard input, and files read as its options say."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from mercer.columns.null_values import NullValues
from mercer.model_file import unfinished_folder
from mercer_app.files import CsvDialect, CsvPath
from mercer_app.files.places import FilePath, ending_of_bytes
from mercer_app.files.tables import unusual_files
from mercer_app.messages import named, note

Options = TypeVar("Options")

_DATA = ("data", "test", "background", "calibrate")
_NAME = "standard-input"  # of the file that standard input is copied to


def reading(command: Callable[[Options], None]) -> Callable[[Options], None]:
    """Let a command read its data as its options say; ``-`` is standard input."""

    @functools.wraps(command)
    def run(options: Options) -> None:
        with _found(options) as found:
            command(found)

    return run


def dialect_of(options: Any) -> CsvDialect:
    """Return how CSV is written by the options of a command, not all of which have `--header`."""
    return CsvDialect(
        options.delimiter,
        options.decimal,
        options.encoding,
        header=getattr(options, "header", None),
        escape=options.escape,
        widths=options.widths,
        null_values=make_null_values(getattr(options, "null_values", None)),
    )


def make_null_values(words: Sequence[str] | None) -> NullValues | None:
    """Read ``--null-values``: marks for no value, of all columns or as COLUMN=MARK of one.

    Examples
    --------
    >>> make_null_values(["-999", "n.v.", "age=-1", "country="]).to_config()
    {'': ['-999', 'n.v.'], 'age': ['-1'], 'country': ['']}
    """
    if words is None:
        return None
    parts = [word.rpartition("=") for word in words]
    return NullValues(tuple((column, mark.strip()) for column, _, mark in parts))


@contextmanager
def _found(options: Any) -> Iterator[Any]:
    """Replace the data by what :func:`mercer_app.files.read_tables` reads with these options."""
    given = {name: getattr(options, name, None) for name in _DATA}
    paths = {name: path for name, path in given.items() if path is not None}
    told = dialect_of(options)
    if list(paths.values()).count("-") > 1:
        other = "background" if "background" in paths else "test"
        raise ValueError(f"Standard input can be read once: give DATA or `--{other}` as a file.")
    if "-" in paths.values() and getattr(options, "engine", None) is not None:
        raise ValueError(
            "`--engine` lets workers read the data, who have no standard input. Give a file."
        )
    with ExitStack() as stack:
        for name, path in paths.items():
            where = stack.enter_context(_spooled()) if path == "-" else path
            paths[name] = where if told == CsvDialect() else CsvPath(where, told)
        yield dataclasses.replace(options, **paths)


@contextmanager
def _spooled() -> Iterator[str]:
    """Copy standard input to a file for the time being, as data are read more than once."""
    source = sys.stdin.buffer
    if sys.stdin.isatty():
        note("reading a table from standard input; Ctrl-D ends it")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    place = Path(tempfile.gettempdir()) / f"mercer-{_NAME}-{user}"
    with unfinished_folder(place, 0o700) as folder:
        first = source.read(8)
        path = folder / f"{_NAME}{ending_of_bytes(first)}"
        named(str(path), "standard input")
        _copy(first, source, path)
        yield str(path)


def _copy(first: bytes, source: BinaryIO, path: Path) -> None:
    try:
        with open(path, "wb") as file:
            file.write(first)
            shutil.copyfileobj(source, file, 2**20)
    except OSError as error:
        raise OSError(
            f"Standard input could not be copied to {path.parent.parent} ({error.strerror}), from "
            "where it is read more than once. Name a folder with more space in the environment "
            "variable TMPDIR, or give a file instead."
        ) from error


def is_arrow_pipe(data: FilePath) -> bool:
    """Whether data came from standard input in Arrow's format."""
    return os.path.basename(data) == f"{_NAME}.arrow"


def note_dialects(data: FilePath, *, quiet: bool = False) -> None:
    """Say how CSV files are written that are not UTF-8 with commas and decimal points."""
    try:
        files = unusual_files(data)
    except OSError:  # the later reader reports it
        return
    for said, n in Counter(said for _, said in files).items():
        first = next(file for file, how in files if how == said)
        more = f" and {n - 1:,} more" if n > 1 else ""
        name = first if os.path.basename(data).startswith(_NAME) else first.name
        note(f"{name}{more}: {said}", quiet=quiet)
