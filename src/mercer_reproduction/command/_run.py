"""``mercer reproduce``: run the papers' experiments and write what came out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from mercer.display.drawing import (
    PALETTE,
    draw_legend,
    format_number,
    report_axes,
    report_style,
    tidy,
)
from mercer.model_file import replacing
from mercer.validation import check_integer
from mercer_app.messages import note
from mercer_app.models.files import check_writable
from mercer_reproduction import (
    Context,
    Drawing,
    Experiment,
    Result,
    experiments,
    get_experiment,
)
from mercer_reproduction._experiment import figure_file, result_file, verdict
from mercer_reproduction._paper_numbers import beside_ours
from mercer_reproduction.command import ReproduceOptions
from mercer_reproduction.command._catalogue_view import (
    catalogue_rows,
    catalogue_view,
    catalogue_words,
)
from mercer_reproduction.command._experiment_view import ExperimentView

_HELD_WIDTH = 120  # characters of a table that goes to a file or a pipe
_SHORT, _SHORT_HEAD = 16, 8  # characters of cells that are not broken, and of their headings


def run(options: ReproduceOptions) -> None:
    """List the experiments, or run some and write what came out."""
    name = options.name
    if name is None or options.show:
        _list(options.as_json)
        return
    if options.as_json:
        raise ValueError("`--json` is for the list; results are written as JSON in any case.")
    out, data, seed = options.out, options.data, options.seed
    check_integer("seed", seed, low=0)
    if options.passes is not None:
        check_integer("passes", options.passes, low=1)
    chosen = experiments() if name == "all" else (get_experiment(name),)
    view = ExperimentView(len(chosen))
    context = Context(
        data=data,
        quick=options.quick,
        seed=seed,
        say=view.say,
        download=data is None,
        folder=out,
        passes=options.passes,
    )
    left_out = []
    failed = {}
    _check_folder(out)
    for experiment in chosen:
        note(f"{experiment.name}: {experiment.title} ({experiment.place})")
        try:
            result = _run(experiment, context, view)
            _print(experiment, result, context)
            for file in _write(experiment, result, context, out, svg=options.svg):
                note(f"wrote {file}")
        except _MissingError as error:
            if name != "all":
                raise error.reason from None
            reason = str(error.reason).partition(". ")[0]  # what to do is in the sentences after it
            note(f"left out: {reason}")
            left_out.append(experiment.name)
        except Exception as error:
            if name != "all":
                raise
            failed[experiment.name] = f"{type(error).__name__}: {error}"
            note(f"failed: {failed[experiment.name]}")
        view.finished()
    if left_out:
        note(
            f"left out, for want of data or packages: {', '.join(left_out)}. "
            "`mercer reproduce NAME` says what one of them needs."
        )
    if failed:
        note("failed:\n" + "\n".join(f"  {one}: {why}" for one, why in failed.items()))
        raise typer.Exit(1)


def _check_folder(out: Path) -> None:
    """Raise unless a folder can be written to, or made once there is something to write."""
    place = out.absolute()
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(
            f"{str(nearest)!r} is a file, but `--out` must be a folder. Choose another place."
        )
    check_writable(nearest / "results.json")


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
    console.print(catalogue_view(rows, experiments()))
    for words in catalogue_words():
        console.print(words, markup=False)
    sys.stdout.flush()


def _print(experiment: Experiment, result: Result, context: Context) -> None:
    console = _console()
    if result.rows:
        console.print(_table(result.rows, title=experiment.title))
    if numbers := beside_ours(experiment.name, result.rows):
        quick = " (few rows: not to be compared)" if context.quick else ""
        console.print(_table(numbers, title=f"The paper's numbers beside ours{quick}"))
    for text in result.notes:
        console.print(text, markup=False)
    if result.targets:
        rows = []
        for target in result.targets:
            words = verdict(target, context.quick)
            style = {"met": "green", "missed": "bold red"}.get(words, "")
            rows.append(
                {
                    "measured": target.name,
                    "value": target.measured,
                    "paper": "-" if target.paper is None else target.paper,
                    "target": f"{target.kind} {target.bound:g}",
                    "verdict": Text(words, style=style),
                }
            )
        console.print(_table(rows, title="Targets"))
    sys.stdout.flush()


def _console() -> Console:
    width = None if sys.stdout.isatty() else _HELD_WIDTH
    return Console(highlight=False, width=width)


def _table(rows: Sequence[Mapping[str, Any]], title: str) -> Group:
    """Make a table of rows with the same columns; short cells are never broken, long ones are."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    cells = [
        [cell if isinstance(cell, Text) else Text(format_number(cell)) for cell in row.values()]
        for row in rows
    ]
    for head, column in zip(rows[0], zip(*cells, strict=True), strict=True):
        longest = max(map(len, column))
        words = fill(head, max(longest, _SHORT_HEAD), break_long_words=False)
        table.add_column(words, overflow="fold", no_wrap=longest <= _SHORT)
    for one in cells:
        table.add_row(*one)
    return Group(Text(title, "table.title"), table)


def _write(
    experiment: Experiment, result: Result, context: Context, folder: Path, *, svg: bool
) -> list[str]:
    """Write the result and its figures; return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
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
