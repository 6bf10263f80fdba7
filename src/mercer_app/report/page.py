"""The page of a report: one HTML file without scripts, fonts or other external content.

What it looks like is in ``templates/``. The colours are named once, for light and for dark; figures
use them too (``--ink``, ``--paper`` and ``--faint``). Print is always light. Sections are made here
of a risk, of the columns, of the race that chose the parts of a model, and of a stream followed.
"""

from __future__ import annotations

import base64
import io
import itertools
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer import __version__
from mercer.display import (
    HistoryLike,
    LossDistributionDisplay,
    MonitorDisplay,
    RaceDisplay,
    StreamDisplay,
)
from mercer.display.drawing import (
    FAINT,
    INK,
    PALETTE,
    PAPER,
    THEMED,
    format_number,
    report_axes,
    report_pair,
    report_style,
    require_matplotlib,
)
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
from mercer.model_file import replacing
from mercer_app.report.templating import as_it_is, templates

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from mercer.columns import TableAudit

# The size of an SVG grows with its content; beyond this many characters a bitmap is smaller.
_MAX_SVG_LENGTH = 600_000
_HISTORY_ROWS = 12
# Rows of more cells than this do not fit a phone side by side.
_MOST_CELLS = 4
_LONG = 16  # letters of a word
# A cell that is a number, or a share of 100 %.
_NUMBER = re.compile(r"[-+]?([\d,]*\.\d+|[\d,]*\d)(e[-+]?\d+)?(\s?%)?")
Block = dict[str, Any]  # of a section, as the template has it


class Section(NamedTuple):
    """A section of a report.

    Attributes
    ----------
    heading : str
        Title of the section.
    text : str
        A paragraph to begin with.
    values : mapping of str to str or number
        What is tabulated.
    figures : sequence of (str, matplotlib Figure)
        Captions and figures.
    tables : mapping of str to sequence of mappings
        Captions and tables, after the figures. The rows of a table have the same keys, the names of
        its columns; the first value of a row names it.
    """

    heading: str
    text: str = ""
    values: Mapping[str, Any] = {}
    figures: Sequence[tuple[str, Figure]] = ()
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = {}


def write_report(
    path: str | os.PathLike[str],
    *,
    title: str,
    summary: Mapping[str, Any],
    text: str = "",
    history: HistoryLike | None = None,
    settings: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    sections: Sequence[Section] = (),
    figures: Sequence[tuple[str, Figure]] = (),
    details: Sequence[Section] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write the report of a run as one self-contained HTML file.

    It begins with what most readers want to know: how good the model is, notes, the sections, the
    evaluation and the figures. Below these, folded, is how the model was found: ``details``, the
    history and the settings. On paper only the parts that the reader has opened are shown.
    :func:`mercer_app.report.report_model` makes all of this from a model and rows.

    The file appears as a whole or not at all: it is written to a temporary file and renamed. All
    text is escaped.

    Parameters
    ----------
    path : str or path-like
        Where to write; an existing file is replaced.
    title : str
        Heading and title of the page.
    summary : mapping of str to str or number
        The few values to see first, in order, such as the accuracy and a baseline.
    text : str, default=""
        How good the model is, in words, above these values; an empty line begins a paragraph.
    history : HistoryLike, default=None
        Run to tabulate, thinned to a dozen records.
    settings : mapping of str to object, default=None
        Parameters of the run. Mappings inside become dotted names.
    evaluation : mapping, default=None
        Held-out results. A nested mapping becomes a separate table: of names and values, or, if its
        values are mappings too, with one row per name (such as measures per class).
    sections : sequence of Section, default=()
        Further sections, before the evaluation, such as :func:`mercer_app.report.risk_section`
        returns.
    figures : sequence of (str, matplotlib Figure), default=()
        Captions and figures, as :func:`mercer_app.report.figures_for` returns them. A figure's
        label, if it has one, describes the figure to readers who cannot see it.
    details : sequence of Section, default=()
        What stands folded at the end, such as :func:`mercer_app.report.race_section` returns.
    notes : sequence of str, default=()
        What a reader must know, such as warnings of the run.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    ImportError
        If Jinja2 is not installed or, for figures, matplotlib.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     write_report(path, title="Spam", summary={"accuracy": 0.97}, notes=["One pass."])
    ...     "<dt>accuracy</dt><dd>0.97</dd>" in path.read_text(encoding="utf-8")
    True
    """
    # Identifiers are unique on the page only if figures of all sections are counted.
    number = itertools.count()
    shown = [(one.heading, _blocks(one, number)) for one in sections]
    if evaluation:
        shown.append(("Evaluation on held-out rows", _evaluation(evaluation)))
    shown.append(("Figures", _blocks(Section("", figures=figures), number)))
    folded = [(one.heading, _blocks(one, number)) for one in details]
    if history is not None and len(history.n_samples):
        folded.append(("The run", [_history(history)]))
    if settings:
        folded.append(("Settings", [_pairs(_flat(settings))]))
    page = (
        templates(__package__)
        .get_template("report.html")
        .render(
            title=title,
            style=as_it_is(__package__, "report.css"),
            paragraphs=list(filter(None, text.split("\n\n"))),
            summary=[(name, format_number(value)) for name, value in summary.items()],
            notes=notes,
            sections=[(heading, blocks) for heading, blocks in shown if blocks],
            folded=[(heading, blocks) for heading, blocks in folded if blocks],
            breakable=_breakable,
            version=__version__,
        )
    )
    _replace_file(Path(path), page)


def _blocks(section: Section, number: Iterator[int]) -> list[Block]:
    """Text, values, figures and tables of a section, the figures counted on."""
    blocks: list[Block] = [{"kind": "text", "text": section.text}] if section.text else []
    if section.values:
        blocks.append(_pairs(_flat(section.values)))
    if section.figures:
        drawn = [_figure(next(number), *one) for one in section.figures]
        blocks.append({"kind": "figures", "figures": drawn})
    for caption, rows in section.tables.items():
        blocks.append({"kind": "heading", "text": caption})
        blocks.append(_grid(list(rows[0]) if rows else [], [list(row.values()) for row in rows]))
    return blocks


def _breakable(text: str) -> Markup:
    """Let a long name or path break where a reader would break it."""
    from markupsafe import Markup

    return Markup("<wbr>").join(re.split(r"(?<=\w[._/])(?=[^\W\d])", text))


def _pairs(values: Iterable[tuple[str, Any]]) -> Block:
    """Tabulate names and values."""
    return {"kind": "pairs", "lines": [(name, format_number(value)) for name, value in values]}


def _grid(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", looks: str = "grid"
) -> Block:
    """Tabulate rows of values under column names; the first value of a row names it."""
    cells = [[format_number(value) for value in row] for row in rows]
    wide = looks == "grid" and (len(columns) > _MOST_CELLS or _has_long_words(cells))
    heads = [
        {"name": name, "of_numbers": wide and j > 0 and _is_of_numbers(cells, j)}
        for j, name in enumerate(columns)
    ]
    return {
        "kind": "grid",
        "looks": looks,
        "wide": wide,
        "caption": caption,
        "columns": heads,
        "rows": cells,
    }


def _is_of_numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Return whether a column holds only numbers, shares or empty cells, and some number."""
    cells = [row[column] for row in rows]
    return any(cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in cells)


def _has_long_words(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether cells after the first hold words that may not fit next to each other."""
    return any(len(word) > _LONG for _, *rest in rows for cell in rest for word in cell.split())


def _evaluation(evaluation: Mapping[str, Any]) -> list[Block]:
    scalars = [(k, v) for k, v in evaluation.items() if not isinstance(v, Mapping)]
    blocks = [_pairs(scalars)] if scalars else []
    for name, values in evaluation.items():
        if not isinstance(values, Mapping):
            continue
        blocks.append({"kind": "heading", "text": name})
        if values and all(isinstance(v, Mapping) for v in values.values()):
            columns = list(dict.fromkeys(str(c) for v in values.values() for c in v))
            rows = [[str(k), *(v.get(c, "") for c in columns)] for k, v in values.items()]
            blocks.append(_grid(["", *columns], rows))
        else:
            blocks.append(_pairs(_flat(values)))
    return blocks


def _flat(values: Mapping[Any, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the leaves of nested mappings under dotted names."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _history(history: HistoryLike) -> Block:
    n_records = len(history.n_samples)
    chosen = np.unique(np.linspace(0, n_records - 1, _HISTORY_ROWS).round().astype(int))
    # Additional curves belong to a risk, whose objective the history holds, or are weights of
    # several models side by side.
    of_ways = weighs_ways(history)
    recorded = "objective" if getattr(history, "monitors", None) and not of_ways else "loss"
    columns = {
        "rows": history.n_samples,
        recorded: history.loss,
        "model order": history.model_order,
        "compression error": history.compression_error,
        "step size": history.step_size,
    }
    if not np.any(history.compression_error):
        del columns["compression error"]  # nothing is compressed, for example with random features
    if not np.any(history.step_size):
        del columns["step size"]  # what learns by sums makes no steps
    if of_ways:
        judged = "the rows since the record before, each predicted before it was learned."
    elif not np.any(history.step_size):
        judged = "rows kept back until then, each predicted by a fit that did not have it."
    else:
        judged = "the rows since the record before, each predicted before its step."
    rows = [[format_number(column[i]) for column in columns.values()] for i in chosen]
    caption = f"{len(chosen)} of {n_records} records. " if len(chosen) < n_records else ""
    unit = getattr(history, "loss_unit", "")
    caption += f"The {recorded}{f', in {unit},' * bool(unit)} is the mean over {judged}"
    return _grid(list(columns), rows, caption=caption, looks="grid numbers")


def _figure(number: int, caption: str, figure: Figure) -> dict[str, Any]:
    """Return a figure, with its caption and its description, as the template has it."""
    from markupsafe import Markup

    svg = _svg(number, figure)
    shown = {
        "caption": caption,
        "description": str(figure.get_label() or caption),
        "themed": figure.get_gid() == THEMED,
        "png": "",
    }
    if len(svg) > _MAX_SVG_LENGTH:
        return shown | {"png": base64.b64encode(_png(figure)).decode("ascii")}
    head, _, rest = svg.partition(">")
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None
    return shown | {"box": box[1], "svg": Markup(rest.removesuffix("</svg>"))}


def _svg(number: int, figure: Figure) -> str:
    """Render a figure as an SVG element fit to stand inside HTML."""
    require_matplotlib()
    import matplotlib

    themed = figure.get_gid() == THEMED
    buffer = io.StringIO()
    # The salt makes the identifiers, and with them the file, the same in every run.
    fixed: Any = {"svg.fonttype": "none", "svg.hashsalt": "mercer", "savefig.bbox": None}
    # Ticks are placed while drawing, by settings of that moment.
    style = report_style() if themed else nullcontext()
    with style, matplotlib.rc_context(fixed), warnings.catch_warnings():
        # matplotlib's own font may lack a letter of a name; the browser's fonts have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", transparent=themed, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<style .*?</style>", "", svg, flags=re.DOTALL
    )
    # Identifiers are unique within one figure only, and a page holds several.
    svg = re.sub(r'(?<=[ <])id="', f'id="f{number}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>f{number}-", svg)
    if themed:
        first = PALETTE[0].lower()
        for colour, name in ((INK, "ink"), (PAPER, "paper"), (FAINT, "faint"), (first, "first")):
            svg = svg.replace(colour, f"var(--{name})")
    return svg.strip()


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def _replace_file(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that a power cut leaves the old file or the new one."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder of the report, {str(path.parent)!r}, does not exist. Create it first."
        )
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


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
