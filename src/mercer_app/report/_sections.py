"""Sections of a report: the risk of a model, the race that chose its parts, a stream followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display import LossDistributionDisplay, MonitorDisplay, RaceDisplay, StreamDisplay
from mercer.display.drawing import format_number, report_axes, report_pair, report_style
from mercer.inspection import (
    final_model,
    history_of,
    monitor_words,
    name_of_loss,
    parts_table,
    race_summary,
    race_table,
    risk_of,
    rows_judged_together,
    short_name,
    unit_of_loss,
    way_of,
    ways_table,
    weighs_ways,
    weights_of_kinds,
)
from mercer_app.report._page import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.columns import TableAudit

_COLUMNS_TABLE = "Columns and their inputs"
_COLUMNS = (
    "What each column was taken for in the first rows, and which inputs are made of it. Means, "
    "scales and categories are those of {:,} rows."
)
_LEVEL = 0.9  # for risks without a level
# Share of clipped rows above which the model minimises something else.
_MANY = 0.1

_LINE = 0.4  # inches of a line of the picture
_TEXT = (
    "Pilots, small fits to the first rows, decided how inputs are scaled, projected or weighted, "
    "which length scales suit, and whether the space is cut into cells: by squared errors on rows "
    "that they were not fitted to. Lengths are in units of the mapped inputs. Parts are weighted "
    "by how they predict rows that they were not fitted to. Up to 2,000 rows, the best of up to "
    "three families of kernels are then fitted to all of them, with each row as a point; of more "
    "rows those of a cell are its points, and dictionaries of some of them go beside."
)
_TRIED = "What was tried: the best of each kernel and map"
_SERIES = (
    " Blocks of {} rows in succession were held out together, as suits a series, where a row is "
    "like its neighbours: rows of the future will have no neighbours either. Standard errors count "
    "rows as if they were independent, and are too small then."
)
# Of the tables of a stream: the ways that count most now, and the last changes.
_MOST_WAYS, _MOST_CHANGES = 10, 10
_STREAM = (
    "Several ways to learn run side by side: gradient steps, recursive sums with and without "
    "forgetting, memories of sums from before a change, the last iterates and the averages of "
    "kernel expansions, and stacks, which are regressions on what the others say. Each row was "
    "answered by all of them before they learned it; those that did best on the last rows count. "
)
_NO_CHANGE = "The losses did not say at any row that the stream had changed."
_CHANGES = (
    "The losses said {} that the stream had changed; sums since a change then began anew, and what "
    "was known was kept as a memory."
)


def risk_section(
    estimator: Any, losses: ArrayLike | None = None, *, of: str = "held-out rows"
) -> Section | None:
    """Say how a model does by the risk that it minimises.

    The distribution of the losses with its value at risk and CVaR, at the level of the risk or at
    0.9; the values that the risk tracked along the stream; the shares of rows in which a
    safeguard acted.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Model with ``risk_`` and ``history_``.
    losses : array-like of shape (n_rows,), default=None
        Loss of each row of a sample, as :func:`mercer.display.row_losses` returns them. None
        leaves their distribution out.
    of : str, default="held-out rows"
        What the losses are of.

    Returns
    -------
    section : Section or None
        For :func:`mercer_app.report.write_report`; None if the model minimises the mean loss.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If a loss is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.display import row_losses
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> model = KernelRegressor(risk="cvar:0.8", random_state=0).fit(x, np.sin(x[:, 0]))
    >>> section = risk_section(model, row_losses(model, x, np.sin(x[:, 0])), of="the rows learned")
    >>> print(section.text)
    Minimised: CVaR at level 0.8: the mean of the worst 20 % of the losses.
    >>> [caption for caption, _ in section.figures]
    ['Losses of the rows learned', 'Value at risk along the stream']
    """
    risk = risk_of(estimator)
    if risk is None:
        return None
    history = history_of(estimator)
    values: dict[str, Any] = {"loss": _with_unit(estimator)}
    figures = []
    with report_style():
        if losses is not None:
            display, figure = _distribution(estimator, losses, risk, of)
            figures.append((f"Losses of {of}", figure))
            at = f"at {display.level:g}, {of}"
            values |= {
                f"mean loss, {of}": display.mean_loss,
                f"value at risk {at}": display.value_at_risk,
                f"CVaR {at}": display.cvar,
            }
        shares = {n: v for n, v in history.monitors.items() if n.endswith("_fraction")}
        tracked = {n: v for n, v in history.monitors.items() if n not in shares}
        if tracked:
            figures.append(_values(estimator, tracked))
        values |= {f"{monitor_words(n)}, at the end": float(v[-1]) for n, v in tracked.items()}
        rows = np.diff(np.asarray(history.n_samples, dtype=float), prepend=0.0)
        means = {n: float(np.average(v, weights=rows)) for n, v in shares.items()}
        if any(means.values()):
            figures.append(_shares(estimator, means))
    values |= {
        f"{monitor_words(n)} rows": f"{format_number(100.0 * m)} %" for n, m in means.items()
    }
    values["model order"] = int(history.model_order[-1])
    text = f"Minimised: {risk.describe()}."
    if means.get("clipped_fraction", 0.0) >= _MANY:
        text += (
            " Many rows were clipped: in them the model follows a bounded slope and not the risk, "
            "as a robust loss would. A larger clip brings it closer to the risk."
        )
    return Section("Risk", text, values, figures)


def _with_unit(estimator: Any) -> str:
    unit = unit_of_loss(estimator)
    return name_of_loss(estimator) + (f", in {unit}" if unit else "")


def _distribution(
    estimator: Any, losses: ArrayLike, risk: Any, of: str
) -> tuple[LossDistributionDisplay, Figure]:
    display = LossDistributionDisplay(
        losses=losses,
        level=float(getattr(risk, "level", _LEVEL)),
        loss_name=name_of_loss(estimator),
        unit=unit_of_loss(estimator),
        name=short_name(risk),
    )
    figure, ax = report_axes(height=3.8)
    display.plot(ax)
    least, mean = format_number(display.value_at_risk), format_number(display.cvar)
    figure.set_label(
        f"Line chart on a logarithmic axis: the share of the {of} that lose more than so much. The "
        f"worst {format_number(100.0 * (1.0 - display.level))} % lose {least} or more, {mean} in "
        "the mean."
    )
    return display, figure


def _values(estimator: Any, tracked: Mapping[str, Any]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=3.8)
    MonitorDisplay.from_estimator(estimator, ax=ax)
    ends = (
        f"the {monitor_words(n)} goes from {format_number(float(v[0]))} to "
        f"{format_number(float(v[-1]))}"
        for n, v in tracked.items()
    )
    figure.set_label(f"Line chart: {', '.join(ends)}.")
    names = " and ".join(monitor_words(name) for name in tracked)
    return f"{names[:1].upper()}{names[1:]} along the stream", figure


def _shares(estimator: Any, means: Mapping[str, float]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=3.8)
    MonitorDisplay.from_estimator(estimator, kind="shares", ax=ax)
    shares = (f"{format_number(100.0 * m)} % {monitor_words(n)}" for n, m in means.items())
    figure.set_label(f"Line chart of the rows that a safeguard changed: {', '.join(shares)}.")
    return "Rows that a safeguard changed", figure


def columns_section(audit: TableAudit) -> Section:
    """Describe the columns of a table, and how they were encoded.

    Parameters
    ----------
    audit : TableAudit
        Audit of the columns: ``audit_`` of a model.

    Returns
    -------
    section : Section
        For :func:`mercer_app.report.write_report`.

    Examples
    --------
    >>> from mercer.columns import TablePreprocessor
    >>> seen = TablePreprocessor().fit({"price": ["$1,200", "$800"], "unit": ["USD", "USD"]})
    >>> section = columns_section(seen.audit_)
    >>> section.heading, [row["column"] for row in section.tables["Columns and their inputs"]]
    ('What became of each column', ['price', 'unit'])
    """
    header, *lines = audit.lines()
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    return Section(
        "What became of each column", _COLUMNS.format(audit.n_rows), tables={_COLUMNS_TABLE: rows}
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
        For :func:`mercer_app.report.write_report`; None if the model has no parts that were raced.

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
    ('The race', ['Parts of the model', 'What was tried: the best of each kernel and map'])
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
        f"{format_number(best['error'])}, of {best['form']}, {way_of(best)}."
    )
    return Section(
        "The race",
        _TEXT + (_SERIES.format(block) if block > 1 else ""),
        figures=[("Errors of the pilots, with their standard errors", figure)],
        tables={
            "Parts of the model": [_part(part) for part in parts_table(estimator)],
            _TRIED: [_pilot(row) for row in race_summary(estimator)],
        },
    )


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "form, kernel and map": f"{part['form']}: {way_of(part)}",
        "weight": part["weight"],
        "points": part["points"],
        "cells": part["cells"] or "",
        "inputs": part["n_inputs"],
        "length": _length(part),
    }


def _pilot(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "form, kernel and map": f"{row['form']}: {row['kernel_and_map']}",
        "inputs": row["inputs"],
        "length": _length(row),
        "error ± its standard error": row["error"],
        "tried": row["tried"],
        "in the model": "yes" if row["chosen"] else "",
    }


def _length(entry: dict[str, Any]) -> str:
    length = entry.get("length")
    if length is None:
        return ""
    return format_number(length)


def stream_section(estimator: Any) -> Section | None:
    """Say how a model of the default of streams followed its rows: which ways counted, and when.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    section : Section or None
        For :func:`mercer_app.report.write_report`; None if the model has another expansion.

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.random.default_rng(0).uniform(-3.0, 3.0, size=(200, 1))
    >>> section = stream_section(KernelRegressor().partial_fit(x, np.sin(x[:, 0])))
    >>> section.heading, list(section.tables)
    ('The stream', ['Ways that count most at the end'])
    """
    model = final_model(estimator)
    history = getattr(model, "history_", None)
    if history is None or not weighs_ways(history):
        return None
    changes = np.asarray(history.changes)
    kinds = {
        f"weight of {row['kind']}, at the end": row["weight"] for row in weights_of_kinds(model)
    }
    with report_style():
        figure, axes = report_pair()
        display = StreamDisplay.from_estimator(estimator, axes=axes)
    first, last = (format_number(float(display.window_loss[i])) for i in (0, -1))
    most = max(display.weights, key=lambda name: float(display.weights[name][-1]))
    ways = ways_table(estimator)[:_MOST_WAYS]
    said = f"of which {most} count most at the end" if ways else "none of which has started"
    figure.set_label(
        f"Line chart of the mean {display.loss_name}, from {first} to {last}, with "
        f"{changes.size:,} change{'s' * (changes.size != 1)} marked, over an area chart of the "
        f"weights of ways, {said}."
    )
    times = "once" if changes.size == 1 else f"{changes.size:,} times"
    tables = {}
    if ways:
        tables["Ways that count most at the end"] = [
            {"way": row["way"], "kind": row["kind"], "weight": row["weight"]} for row in ways
        ]
    if changes.size:
        which = f"The last {_MOST_CHANGES} changes" if changes.size > _MOST_CHANGES else "Changes"
        tables[which] = _changes(changes)
    return Section(
        "The stream",
        _STREAM + (_CHANGES.format(times) if changes.size else _NO_CHANGE),
        kinds,
        [("Loss, changes found, and what answers came from", figure)],
        tables,
    )


def _changes(changes: NDArray[np.int64]) -> list[dict[str, Any]]:
    since = np.diff(changes, prepend=0)
    rows = [
        {"found after row": format_number(int(row)), "rows since the change before": int(n)}
        for row, n in zip(changes, since, strict=True)
    ]
    return rows[-_MOST_CHANGES:]
