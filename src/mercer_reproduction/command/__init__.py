"""The command ``mercer reproduce``, which :mod:`mercer_app.cli` finds by its entry point."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mercer_app.cli import Command

__all__ = ["ReproduceOptions", "reproduce"]


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Run an experiment of the papers and compare it with its targets.

    Prints a table with the paper's numbers beside it, and writes both as JSON with the figures as
    images. A target that is missed is said to be missed; the exit code is 0 all the same. With
    `all`, experiments whose data or packages are missing are left out, and named in the end; so
    are those that fail, for example at a damaged file, and then the exit code is 1. Experiments
    that train nets keep their state in the folder of the results, and go on there after a stop.
    """

    name: Annotated[
        str | None,
        typer.Argument(help="Name of the experiment, or `all`. Without one: list them."),
    ] = None
    show: Annotated[
        bool,
        typer.Option(
            "--list", help="List the papers' tables and figures, and what became of each."
        ),
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Few rows, seconds each: shows that it runs, not the paper's numbers."
        ),
    ] = False
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")] = Path(
        "mercer-reproduce"
    )
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the data files. Without one some data are downloaded.",
            envvar="MERCER_DATA",
            show_default=False,
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0
    passes: Annotated[
        int | None,
        typer.Option(
            help="Passes over the images in the experiments that train nets. [default: their own]",
            show_default=False,
        ),
    ] = None
    svg: Annotated[bool, typer.Option(help="Figures as SVG besides PNG.")] = True


reproduce = Command(ReproduceOptions, "mercer_reproduction.command._run")
