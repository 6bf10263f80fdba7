"""The section of a report on the race that chose the parts of a model."""

from __future__ import annotations

from typing import Any

from mercer.display import RaceDisplay
from mercer.display.drawing import format_number, report_axes, report_style
from mercer.inspection import parts_table, race_table, rows_judged_together
from mercer.report._section import Section

__all__ = ["race_section"]

_LINE = 0.4  # inches of a line of the picture
_MEDIANS = " × median"  # noqa: RUF001  # of the length of cells
_TEXT = (
    "Pilots, small fits to the first rows, decided how inputs are scaled, projected or weighted, "
    "which length scales suit, and whether the space is cut into cells: by squared errors on rows "
    "that they were not fitted to. Lengths are in units of the mapped inputs, for cells in median "
    "distances of their rows. Parts are weighted by how they predict rows that they were not "
    "fitted to. Of few rows (up to 2,000) the winning metric is made again from all of them, which "
    "changes its length a little."
)

_SERIES = (
    " Blocks of {} rows in succession were held out together, as suits a series, where a row is "
    "like its neighbours: rows of the future will have no neighbours either. Standard errors count "
    "rows as if they were independent, and are too small then."
)


def race_section(estimator: Any) -> Section | None:
    """Say which parts a model of the default expansion has, and what the race tried.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    section : Section or None
        For :func:`mercer.report.write_report`; None if the model has no parts that were raced.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> section = race_section(KernelRegressor(random_state=0).fit(x, np.sin(x[:, 0])))
    >>> section.heading, list(section.tables)
    ('The race', ['Parts of the model', 'What was tried, the best of each form and map first'])
    """
    entries = race_table(estimator)
    if not entries:
        return None
    with report_style():
        display = RaceDisplay(entries=entries)
        figure, ax = report_axes(height=1.2 + _LINE * len(display.lines))
        display.plot(ax)
    block = rows_judged_together(estimator)
    best = min(entries, key=lambda entry: float(entry["error"]))
    figure.set_label(
        f"Errors of {len(entries)} pilots with their standard errors; the smallest is "
        f"{format_number(best['error'])}, of {best['form']}, {best['metric']}."
    )
    order = {line: i for i, line in enumerate(display.lines)}
    entries.sort(key=lambda e: (order[e["form"], e["metric"]], float(e["error"])))
    return Section(
        "The race",
        _TEXT + (_SERIES.format(block) if block > 1 else ""),
        figures=[("Errors of the pilots, with their standard errors", figure)],
        tables={
            "Parts of the model": [_part(part) for part in parts_table(estimator)],
            "What was tried, the best of each form and map first": [_pilot(e) for e in entries],
        },
    )


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "form and map": f"{part['form']}: {part.get('metric', part.get('kernel'))}",
        "weight": part["weight"],
        "points": part["points"],
        "cells": part["cells"] or "",
        "inputs": part["n_inputs"],
        "length": _length(part),
    }


def _pilot(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "form and map": f"{entry['form']}: {entry['metric']}",
        "inputs": entry["n_inputs"],
        "length": _length(entry),
        "error": entry["error"],
        "± standard error": entry["standard_error"],
        "in the model": "yes" if entry["chosen"] else "",
    }


def _length(entry: dict[str, Any]) -> str:
    length = entry.get("length")
    if length is None:
        return ""
    return format_number(length) + (_MEDIANS if entry["form"] == "cells" else "")
