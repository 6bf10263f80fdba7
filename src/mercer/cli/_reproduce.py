"""``mercer reproduce``: run the papers' experiments and write what came out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mercer._atomic import replacing
from mercer._validation import check_integer
from mercer.cli._catalogue import catalogue_rows, catalogue_table, catalogue_words
from mercer.cli._console import guarded, note
from mercer.cli._experiment_view import ExperimentView
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
from mercer.reproduce._paper_numbers import beside_ours

__all__ = ["reproduce"]

_HELD_WIDTH = 120  # characters of a table that goes to a file or a pipe


@guarded
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the experiment, or `all`. Without one: list them."),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--list", help="List the papers' tables and figures, and what became of each."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
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
        typer.Option(
            help="Directory of the data files. Without one some data are downloaded.",
            envvar="MERCER_DATA",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    svg: Annotated[bool, typer.Option(help="Figures as SVG besides PNG.")] = True,
) -> None:
    """Run an experiment of the papers and compare it with its targets.

    Prints a table with the paper's numbers beside it, and writes both as JSON with the figures as
    images. A target that is missed is said to be missed; the exit code is 0 all the same. With
    `all`, experiments whose data or packages are missing are left out, and named in the end.
    """
    if name is None or show:
        _list(as_json)
        return
    if as_json:
        raise ValueError("`--json` is for the list; results are written as JSON in any case.")
    check_integer("seed", seed, low=0)
    chosen = experiments() if name == "all" else (get_experiment(name),)
    view = ExperimentView(len(chosen))
    context = Context(data=data, quick=quick, seed=seed, say=view.say, download=data is None)
    left_out = []
    out.mkdir(parents=True, exist_ok=True)
    for experiment in chosen:
        note(f"{experiment.name}: {experiment.title} ({experiment.place})")
        try:
            result = _run(experiment, context, view)
        except _MissingError as error:
            if name != "all":
                raise error.reason from None
            reason = str(error.reason).partition(". ")[0]  # what to do is in the sentences after it
            note(f"left out: {reason}")
            left_out.append(experiment.name)
        else:
            _print(experiment, result, context)
            for file in _write(experiment, result, context, out, svg=svg):
                note(f"wrote {file}")
        view.finished()
    if left_out:
        note(
            f"left out, for want of data or packages: {', '.join(left_out)}. "
            "`mercer reproduce NAME` says what one of them needs."
        )


class _MissingError(Exception):
    """Data or a package are missing: the experiment cannot be run here."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _run(experiment: Experiment, context: Context, view: ExperimentView) -> Result:
    try:
        # Downloads are told in lines that stay.
        experiment.prepare(replace(context, say=note))
    except (ValueError, OSError) as error:
        raise _MissingError(error) from error
    with view.running(experiment.name):
        try:
            return experiment(context)
        except ImportError as error:
            raise _MissingError(error) from error


def _list(as_json: bool) -> None:
    rows = catalogue_rows(experiments())
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    console = _console()
    console.print(catalogue_table(rows))
    for words in catalogue_words():
        console.print(words, markup=False)
    sys.stdout.flush()


def _print(experiment: Experiment, result: Result, context: Context) -> None:
    console = _console()
    if result.rows:
        table = _table(list(result.rows[0]), title=experiment.title)
        for row in result.rows:
            table.add_row(*(Text(format_number(value)) for value in row.values()))
        console.print(table)
    if numbers := beside_ours(experiment.name, result.rows):
        quick = " (few rows: not to be compared)" if context.quick else ""
        table = _table(list(numbers[0]), title=f"The paper's numbers beside ours{quick}")
        for row in numbers:
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


def _write(
    experiment: Experiment, result: Result, context: Context, folder: Path, *, svg: bool
) -> list[str]:
    """Write the result and its figures; return the names of the files."""
    written = []
    for drawing in result.drawings:
        for ending in (".png", ".svg") if svg else (".png",):
            file = folder / figure_file(experiment, drawing, context, ending)
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

    # The salt makes the identifiers, and with them the file, the same in every run.
    fixed: Any = {"axes.prop_cycle": cycler(color=PALETTE), "svg.hashsalt": "mercer"}
    kind = file.suffix.removeprefix(".")
    with report_style(), mpl.rc_context(fixed):
        figure, ax = report_axes()
        drawing.draw(ax)
        tidy(ax)
        draw_legend(ax, width=50)
        metadata = {"Date": None} if kind == "svg" else None
        with replacing(file) as temporary:
            figure.savefig(temporary, dpi=120, format=kind, metadata=metadata)
