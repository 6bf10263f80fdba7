"""The commands of ``mercer``, put together."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from inspect import cleandoc, signature
from typing import Annotated, Any, get_type_hints

import typer

from mercer import __version__
from mercer.threads import jobs
from mercer_app.cli._options import (
    DemoOptions,
    EvaluateOptions,
    ExplainOptions,
    ExportOptions,
    FitOptions,
    InspectOptions,
    PredictOptions,
    ServeOptions,
    StreamOptions,
    ValueOptions,
)
from mercer_app.cli.command import Command
from mercer_app.messages import guarded

_COMMANDS = {
    "fit": Command(FitOptions, "mercer_app.cli._fit"),
    "evaluate": Command(EvaluateOptions, "mercer_app.cli._evaluate"),
    "predict": Command(PredictOptions, "mercer_app.cli._predict"),
    "explain": Command(ExplainOptions, "mercer_app.cli._explain"),
    "stream": Command(StreamOptions, "mercer_app.cli._stream"),
    "value": Command(ValueOptions, "mercer_app.cli._value"),
    "serve": Command(ServeOptions, "mercer_app.cli._serve"),
    "inspect": Command(InspectOptions, "mercer_app.cli._inspect"),
    "export": Command(ExportOptions, "mercer_app.cli._export"),
    "demo": Command(DemoOptions, "mercer_app.cli._demo"),
}

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


def _commands_of_others() -> Iterator[tuple[str, Command]]:
    """Yield the commands that other packages provide, such as the papers' experiments."""
    for entry in sorted(entry_points(group="mercer.commands")):
        try:
            command = entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != entry.module.partition(".")[0]:
                raise
            continue  # the entry point exists, but its package is missing
        yield entry.name, command


def _add(name: str, command: Command) -> None:
    """Let typer read the options off the fields of the record, and run the module with them."""

    def call(**values: Any) -> None:
        options, module = command.options(**values), import_module(command.module)
        with jobs(values.get("jobs")):
            module.run(options)

    function: Any = guarded(call)
    types = get_type_hints(command.options, include_extras=True)
    fields = signature(command.options)
    function.__signature__ = fields.replace(
        parameters=[p.replace(annotation=types[p.name]) for p in fields.parameters.values()]
    )
    # Line ends within a paragraph are the source's, not the reader's.
    paragraphs = cleandoc(command.options.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, epilog=_EPILOG, help=text)(function)


for _name, _command in (*_COMMANDS.items(), *_commands_of_others()):
    _add(_name, _command)
