"""The page of a report: one HTML file without scripts, fonts or other external content.

What it looks like is in ``templates/``. The colours are named once, for light and for dark; figures
use them too (``--ink``, ``--paper`` and ``--faint``). Print is always light.
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

from mercer import __version__
from mercer.display import HistoryLike
from mercer.display.drawing import (
    FAINT,
    INK,
    PALETTE,
    PAPER,
    THEMED,
    format_number,
    report_style,
    require_matplotlib,
)
from mercer.inspection import weighs_ways
from mercer.model_file import replacing
from mercer_app.report.templating import as_it_is, templates

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

# The size of an SVG grows with its content; beyond this many characters a bitmap is smaller.
_MAX_SVG_LENGTH = 600_000
_HISTORY_ROWS = 12
# Rows of more cells than this do not fit a phone side by side.
_MOST_CELLS = 4
_LONG = 16  # letters of a word
# A cell that is a number, or a share of 100 %.
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?(\s?%)?")
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
