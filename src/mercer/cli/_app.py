"""The commands of ``mercer``, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from inspect import cleandoc
from typing import Annotated

import typer

from mercer import __version__
from mercer.cli._demo import demo
from mercer.cli._fit import fit
from mercer.cli._models import evaluate_command, inspect_command, predict_command

__all__ = ["app"]

_EPILOG = (
    "Exit codes: 0 fine; 2 wrong arguments, data or files, with the reason on standard error; "
    "1 anything unexpected; 130 interrupted, 143 terminated. Results go to standard output, "
    "progress and notes to standard error."
)

app = typer.Typer(
    name="mercer",
    epilog=_EPILOG,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mercer {__version__}")
        raise typer.Exit


@app.callback()
def _mercer(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show it and exit."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show where an error comes from, as MERCER_DEBUG=1 does."),
    ] = False,
) -> None:
    """Streaming kernel machines: the accuracy of kernels on tables of any size."""


def _commands_of_others() -> Iterator[tuple[str, Callable[..., None]]]:
    """Find the commands that other packages bring, such as that of the papers' experiments."""
    for entry in sorted(entry_points(group="mercer.commands")):
        with suppress(ModuleNotFoundError):  # it is known, but not there
            yield entry.name, entry.load()


def _add(name: str, command: Callable[..., None]) -> None:
    # Line ends within a paragraph are the source's, not the reader's.
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, epilog=_EPILOG, help=text)(command)


_add("fit", fit)
_add("evaluate", evaluate_command)
_add("predict", predict_command)
_add("inspect", inspect_command)
_add("demo", demo)
for _name, _command in _commands_of_others():
    _add(_name, _command)
