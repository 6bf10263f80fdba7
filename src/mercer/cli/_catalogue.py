"""The list of ``mercer reproduce``: tables and figures of the papers, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from mercer.reproduce import Experiment
from mercer.reproduce._catalogue import (
    CATALOGUE,
    OWN_STUDIES,
    PAPERS,
    STATES,
    data_sets,
    run_minutes,
)
from mercer.reproduce._downloads import DOWNLOADS

__all__ = ["catalogue_rows", "catalogue_table", "catalogue_words", "minutes_in_words"]

_OURS = "our own study"
_COLOURS = {
    "reproduced": "green",
    "changed settings": "cyan",
    "in part": "yellow",
    "not reproducible": "red",
    "no experiment": "dim",
}


def catalogue_rows(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return everything that the list shows, as plain data.

    Parameters
    ----------
    experiments : sequence of Experiment
        Those there are.

    Returns
    -------
    rows : list of dict
        One for each item of the papers and each study of our own. ``minutes`` is None where none
        are recorded, and a lower bound unless ``minutes_exact``.
    """
    needs = {experiment.name: experiment.needs_data for experiment in experiments}
    rows = []
    for item in CATALOGUE:
        files = tuple(file for name in item.experiments for file in needs.get(name, ()))
        data = ", ".join(words for words in (data_sets(files), item.unavailable) if words)
        rows.append(
            _row(item.paper, item.place, item.shows, item.experiments, data)
            | {"state": item.state, "why": item.why}
        )
    for experiment in experiments:
        if question := OWN_STUDIES.get(experiment.name):
            row = _row("ours", "-", question, (experiment.name,), data_sets(experiment.needs_data))
            rows.append(row | {"state": _OURS, "why": experiment.place})
    return rows


def _row(
    paper: str, item: str, shows: str, experiments: tuple[str, ...], data: str
) -> dict[str, Any]:
    minutes = run_minutes(experiments)
    return {
        "paper": paper,
        "item": item,
        "shows": shows,
        "experiments": list(experiments),
        "data": data,
        "minutes": None if minutes is None else minutes[0],
        "minutes_exact": None if minutes is None else minutes[1],
    }


def catalogue_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Make a table of the rows of :func:`catalogue_rows`, for 80 characters or more."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("item", no_wrap=True)
    table.add_column("shows; state: reason", ratio=1)
    table.add_column("run by", no_wrap=True)
    table.add_column("data", max_width=14)
    table.add_column("min", justify="right", no_wrap=True)
    paper = None
    for row in rows:
        if paper not in (None, row["paper"]):
            table.add_section()
        paper = row["paper"]
        item = row["paper"] if row["item"] == "-" else f"{row['paper']} {row['item']}"
        state = (row["state"], _COLOURS.get(row["state"], ""))
        table.add_row(
            Text(item),
            Text.assemble((row["shows"], "bold"), "\n", state, f": {row['why']}"),
            Text("\n".join(row["experiments"]) or "-"),
            Text(row["data"] or "-"),
            Text(minutes_in_words(row["minutes"], row["minutes_exact"])),
        )
    return table


def minutes_in_words(minutes: float | None, exact: bool | None) -> str:
    """Write CPU minutes: whole ones, below 1, at least so many, or - if they are not known."""
    if minutes is None:
        return "-"
    sign = "" if exact else "≥"
    return f"{sign}{minutes:.0f}" if minutes >= 1.0 else f"{sign}<1" if exact else "-"


def catalogue_words() -> list[str]:
    """Explain the table, in lines."""
    downloads = data_sets(tuple(file for download in DOWNLOADS for file in download.files))
    papers = "; ".join(f"{short}: {title}" for short, title in PAPERS.items())
    return [
        f"Papers. {papers}.",
        "States. " + "; ".join(f"{state}: {meaning}" for state, meaning in STATES.items()) + ".",
        "Minutes (min): CPU time of a full run on one thread, as recorded; ≥ at least, - not "
        "recorded or nothing to run. With --quick an experiment takes seconds.",
        "Data: Parquet, NumPy or the usual files in the folder that --data or MERCER_DATA names. "
        f"Without a folder scikit-learn downloads {downloads}.",
        "`mercer reproduce NAME` runs one experiment, `mercer reproduce all --quick` all of them "
        "in minutes; `mercer reproduce --list --json` prints this list as JSON.",
    ]
