"""``mercer reproduce``: run the papers' experiments and write what came out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mercer._atomic import replacing
from mercer.cli._console import guarded, note
from mercer.display._drawing import (
    PALETTE,
    draw_legend,
    format_number,
    report_axes,
    report_style,
    tidy,
)
from mercer.reproduce import (
    Context,
    Drawing,
    Experiment,
    Result,
    experiments,
    get_experiment,
)
from mercer.reproduce._experiment import figure_file, result_file, verdict

__all__ = ["reproduce"]

_HELD_WIDTH = 120  # characters of a table that goes to a file or a pipe


@guarded
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the experiment, or `all`. Without one: list them."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Few rows, seconds each: shows that it runs, not the paper's numbers."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")] = Path(
        "mercer-reproduce"
    ),
    data: Annotated[
        Path | None,
        typer.Option(help="Directory of the data files.", envvar="MERCER_DATA", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Run an experiment of the papers and compare it with its targets.

    Prints a table, and writes it as JSON with the figures as PNG images. A target that is missed
    is said to be missed; the exit code is 0 all the same.
    """
    if name is None:
        _list_experiments()
        return
    chosen = experiments() if name == "all" else (get_experiment(name),)
    context = Context(data=data, quick=quick, seed=seed, say=note)
    out.mkdir(parents=True, exist_ok=True)
    for experiment in chosen:
        note(f"{experiment.name}: {experiment.title} ({experiment.place})")
        result = experiment(context)
        _print(experiment, result, context)
        for file in _write(experiment, result, context, out):
            note(f"wrote {file}")


def _list_experiments() -> None:
    table = _table(["name", "title", "paper", "data"])
    for experiment in experiments():
        files = ", ".join(experiment.needs_data) or "-"
        table.add_row(experiment.name, experiment.title, experiment.place, files)
    _console().print(table, markup=False)


def _print(experiment: Experiment, result: Result, context: Context) -> None:
    console = _console()
    if result.rows:
        table = _table(list(result.rows[0]), title=experiment.title)
        for row in result.rows:
            table.add_row(*(Text(format_number(value)) for value in row.values()))
        console.print(table)
    for text in result.notes:
        console.print(text, markup=False)
    if result.targets:
        table = _table(["measured", "value", "target", "verdict"], title="Targets")
        for target in result.targets:
            bound = f"{target.kind} {target.bound:g}"
            words = verdict(target, context.quick)
            style = {"met": "green", "missed": "bold red"}.get(words, "")
            value = format_number(target.measured)
            table.add_row(target.name, value, bound, Text(words, style=style))
        console.print(table)
    sys.stdout.flush()


def _console() -> Console:
    width = None if sys.stdout.isatty() else _HELD_WIDTH
    return Console(highlight=False, width=width)


def _table(heads: Sequence[str], title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _write(experiment: Experiment, result: Result, context: Context, folder: Path) -> list[str]:
    """Write the result and its figures; return the names of the files."""
    written = []
    for drawing in result.drawings:
        file = folder / figure_file(experiment, drawing, context)
        _save(drawing, file)
        written.append(os.fspath(file))
    file = folder / result_file(experiment, context)
    with replacing(file) as temporary:
        text = json.dumps(experiment.record(result, context), indent=1, default=_plain)
        temporary.write_text(text + "\n")
    return [*written, os.fspath(file)]


def _plain(value: Any) -> Any:
    """NumPy numbers, which JSON does not know."""
    return value.item()


def _save(drawing: Drawing, file: Path) -> None:
    import matplotlib as mpl
    from cycler import cycler

    with report_style(), mpl.rc_context({"axes.prop_cycle": cycler(color=PALETTE)}):
        figure, ax = report_axes()
        drawing.draw(ax)
        tidy(ax)
        draw_legend(ax, width=50)
        with replacing(file) as temporary:
            figure.savefig(temporary, dpi=120, format="png")
