"""The commands of ``mercer``, put together."""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated

import typer

from mercer import __version__
from mercer.cli._demo import demo
from mercer.cli._fit import fit
from mercer.cli._models import evaluate_command, inspect_command, predict_command
from mercer.cli._reproduce import reproduce

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


for _name, _command in (
    ("fit", fit),
    ("evaluate", evaluate_command),
    ("predict", predict_command),
    ("inspect", inspect_command),
    ("demo", demo),
    ("reproduce", reproduce),
):
    # Line ends within a paragraph are the source's, not the reader's.
    _paragraphs = cleandoc(_command.__doc__ or "").split("\n\n")
    _help = "\n\n".join(" ".join(text.split()) for text in _paragraphs)
    app.command(_name, epilog=_EPILOG, help=_help)(_command)
