"""The list of ``mercer reproduce``: tables and figures of the papers, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mercer_reproduction import Experiment
from mercer_reproduction._catalogue import (
    CATALOGUE,
    OWN_STUDIES,
    PAPERS,
    STATES,
    data_sets,
    run_minutes,
)
from mercer_reproduction._downloads import DOWNLOADS

_OURS = "ours"
_STUDY = "our own study"
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
        One for each item of the papers and each study of our own. ``minutes`` is None where there
        is nothing to run, and an estimate unless ``minutes_exact``.
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
            row = _row(_OURS, "-", question, (experiment.name,), data_sets(experiment.needs_data))
            rows.append(row | {"state": _STUDY, "why": experiment.place})
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


def catalogue_view(rows: Sequence[dict[str, Any]], experiments: Sequence[Experiment]) -> Group:
    """Lay out the rows of :func:`catalogue_rows`, for 80 characters or more.

    Items stand by paper and reason, each reason once; below, what a run of each experiment needs.
    """
    parts: list[RenderableType] = []
    for paper, title in {**PAPERS, _OURS: "questions of our own"}.items():
        parts.append(Text.assemble((paper, "bold"), f": {title}"))
        groups: dict[tuple[str, str], Table] = {}
        for row in rows:
            if row["paper"] != paper:
                continue
            reason = (row["state"], "" if paper == _OURS else f": {row['why']}")
            table = groups.setdefault(reason, _columns(item=13, shows=None, by=15))
            item = "" if paper == _OURS else row["item"]
            table.add_row(item, row["shows"], "\n".join(row["experiments"]))
        for (state, why), table in groups.items():
            words = Text.assemble((state, _COLOURS.get(state, "")), why)
            parts += [Padding(words, (0, 0, 0, 2)), Padding(table, (0, 0, 0, 4))]
        parts.append(Text())
    parts.append(Text.assemble(("Experiments", "bold"), ": mercer reproduce NAME"))
    table = _columns(name=15, min=4, title=None, data=24)
    table.show_header = True
    table.columns[1].justify = "right"
    for experiment in experiments:
        minutes = minutes_in_words(*(run_minutes((experiment.name,)) or (None, None)))
        data = data_sets(experiment.needs_data) or "-"
        table.add_row(experiment.name, minutes, experiment.title, data)
    return Group(*parts, Padding(table, (0, 0, 1, 2)))


def _columns(**widths: int | None) -> Table:
    """Return a table without lines; a column of None takes the room that is left."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    for head, width in widths.items():
        table.add_column(head, width=width, ratio=None if width else 1)
    return table


def minutes_in_words(minutes: float | None, exact: bool | None) -> str:
    """Write CPU minutes: whole ones, below 1, about so many, or - if they are not known."""
    if minutes is None:
        return "-"
    sign = "" if exact else "~"
    return f"{sign}{minutes:.0f}" if minutes >= 1.0 else "<1"


def catalogue_words() -> list[str]:
    """Explain the table, in lines."""
    downloads = data_sets(tuple(file for download in DOWNLOADS for file in download.files))
    return [
        "States. " + "; ".join(f"{state}: {meaning}" for state, meaning in STATES.items()) + ".",
        "Minutes (min): CPU time of a full run on one thread, as recorded; ~ about, estimated from "
        "part of a run. With --quick an experiment takes seconds.",
        "Data: Parquet, NumPy or the usual files in the folder that --data or MERCER_DATA names. "
        f"Without a folder scikit-learn downloads {downloads}.",
        "`mercer reproduce NAME` runs one experiment, `mercer reproduce all --quick` all of them "
        "in minutes; `mercer reproduce --list --json` prints this list as JSON.",
    ]
