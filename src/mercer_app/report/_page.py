"""The page of a report: one HTML file without scripts, fonts or anything else from outside.

The colours are named once, for light and for dark; figures use them too (``--ink``, ``--paper``
and ``--faint``). Print is always light.
"""

from __future__ import annotations

import base64
import io
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from html import escape
from pathlib import Path
from string import Template
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root {
  color-scheme: light;
  --ink: #1f2a36; --paper: #fdfefe; --faint: #a9b2bc;
  --quiet: #55616e; --line: #dde2e7; --card: #f4f6f8; --accent: #00639c;
  --first: #0072b2;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --ink: #e4e8ed; --paper: #14191f; --faint: #6b7783;
    --quiet: #a3aeba; --line: #2c353f; --card: #1c232b; --accent: #6cb8ea;
    --first: #6f9dff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 66rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1.25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, ul { margin: .5rem 0; }
ul { padding-left: 1.2rem; }
.summary { display: flex; flex-wrap: wrap; gap: .75rem; margin: 0; }
.summary div { flex: 1 1 8.5rem; max-width: 100%; padding: .7rem .9rem; }
.summary div { background: var(--card); border-radius: .4rem; }
.summary dt { color: var(--quiet); font-size: .85rem; }
.summary dd { margin: 0; font-size: 1.2rem; font-weight: 600; line-height: 1.3; }
.summary dd { overflow-wrap: normal; }
.lead { font-size: 1.08em; }
.lead, .lead ~ p { max-width: 48rem; }
p + .summary { margin-top: 1rem; }
.notes { padding: .4rem 1rem; border-left: 3px solid var(--accent); background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: .35rem; }
th, td { padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
th, td { vertical-align: top; }
th { text-align: left; font-weight: 600; }
tbody th { font-weight: 400; color: var(--quiet); }
table.pairs { table-layout: fixed; }
table.pairs th { width: 40%; }
table.grid th:not(:first-child), table.grid td { text-align: right; }
table.grid th:last-child, table.grid td:last-child { padding-right: 0; }
table.grid td { overflow-wrap: normal; }
table.grid thead th { overflow-wrap: break-word; }
table.grid thead th:first-child { overflow-wrap: anywhere; }
table.numbers th { overflow-wrap: normal; }
/* Columns of equal width cannot be wider than the page, whatever is in them. */
table.wide { table-layout: fixed; }
table.grid.wide th:not(:first-child), table.grid.wide td { text-align: left; }
table.grid.wide thead th, table.grid.wide td { overflow-wrap: anywhere; }
@media not screen, (min-width: 44.01rem) {
  table.grid.wide th.number, table.grid.wide td.number { text-align: right; padding-right: 1.2rem; }
}
table.wide thead th { vertical-align: bottom; }
details { border-top: 1px solid var(--line); padding: .6rem 0; }
details:last-of-type { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; font-weight: 600; }
summary h3 { display: inline; margin: 0; }
details[open] > summary { margin-bottom: .75rem; }
td { font-variant-numeric: tabular-nums; }
.figures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.75rem 2rem; }
table + .figures, p + .figures { margin-top: 1.5rem; }
.figures + h3 { margin-top: 2rem; }
figure { margin: 0; min-width: 0; }
figcaption { margin-bottom: .5rem; font-size: .95rem; font-weight: 600; }
figure svg, figure img { display: block; width: 100%; max-width: 34rem; height: auto; }
figure .plain { background: #fff; color: #000; padding: .5rem; border-radius: .4rem; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif !important;
}
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
@media screen and (max-width: 44rem) {
  body { padding: 1.25rem 1rem 2rem; }
  h1 { font-size: 1.4rem; }
  .figures { grid-template-columns: minmax(0, 1fr); }
  table.grid { font-size: .8rem; }
  table.grid th, table.grid td { padding-right: .4rem; }
  /* A row of many cells is wider than a phone: it becomes a card of names and values. */
  table.wide, table.wide tbody, table.wide tr, table.wide th, table.wide td { display: block; }
  table.wide thead { display: none; }
  table.wide tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.grid.wide tbody th, table.grid.wide td {
    display: grid; grid-template-columns: 42% minmax(0, 1fr); gap: .6rem; padding: .1rem 0;
    border: 0; color: var(--ink);
  }
  table.wide [data-label]::before { content: attr(data-label); color: var(--quiet); }
  table.grid.wide td:empty { display: none; }
}
@media print {
  @page { margin: 15mm; }
  :root { --paper: #fff; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h1, h2, h3, caption { break-after: avoid; }
  figure, tr, .summary div, .notes { break-inside: avoid; }
  table.wide { font-size: 8pt; }
  /* What is folded is left out on paper, with its line; what a reader opened is printed. */
  details:not([open]), .folded:not(:has(details[open])) { display: none; }
  .summary div, .notes { border: 1px solid var(--line); }
  .figures { gap: 8mm; }
}
"""
# The policy forbids scripts and every connection, whatever a title or a column is called.
_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>"""
    + _STYLE
    + """</style>
</head>
<body>
<header>
<h1>$title</h1>
</header>
<main>
$sections
</main>
<footer>Written by mercer $version.</footer>
</body>
</html>
"""
)

# An SVG grows with what it shows; beyond this many characters a picture of pixels is smaller.
_MAX_SVG_LENGTH = 600_000
_HISTORY_ROWS = 12
# Rows of more cells than this do not fit a phone side by side.
_MOST_CELLS = 4
_LONG = 16  # letters of a word
# A cell that is a number, or a share of 100 %.
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?(\s?%)?")
_FOLDED = "How it was found"
_UNFOLD = "For readers who want the technical side. Each line opens."


class Section(NamedTuple):
    """A section of a report.

    Attributes
    ----------
    heading : str
        Its title.
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

    It begins with what most people want to know: how good the model is, notes, the sections, the
    evaluation and the figures. Behind these, folded, is how the model was found: ``details``, the
    history and the settings. Paper shows of these what a reader has opened.
    :func:`mercer_app.report.report_model` makes all of that of a model and rows.

    The file appears whole or not at all: it is written beside its place and then renamed. All
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
        Held-out results. A mapping inside becomes a table of its own: of names and values, or,
        if its values are mappings too, of one row per name (such as measures per class).
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
        If there are figures but matplotlib is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     write_report(path, title="Spam", summary={"accuracy": 0.97}, notes=["One pass."])
    ...     "<dt>accuracy</dt><dd>0.97</dd>" in path.read_text(encoding="utf-8")
    True
    """
    first, *more = [f"{escape(one)}</p>\n" for one in text.split("\n\n") if one] or [""]
    lead = f'<p class="lead">{first}' if first else ""
    lead += "".join(f"<p>{one}" for one in more)
    parts = [_section("How good is it?" if text else "Summary", lead + _summary(summary))]
    if notes:
        items = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(_section("Notes", f'<div class="notes"><ul>\n{items}\n</ul></div>'))
    # Identifiers are unique on the page only if figures of all sections are counted.
    number = 0
    for section in sections:
        body = _body(section, number)
        number += len(section.figures)
        if body:
            parts.append(_section(section.heading, body))
    if evaluation:
        parts.append(_section("Evaluation on held-out rows", _evaluation(evaluation)))
    if figures:
        parts.append(_section("Figures", _body(Section("", figures=figures), number)))
        number += len(figures)
    folded = []
    for section in details:
        folded.append((section.heading, _body(section, number)))
        number += len(section.figures)
    if history is not None and len(history.n_samples):
        folded.append(("The run", _history(history)))
    if settings:
        folded.append(("Settings", _pairs(_flat(settings))))
    parts.append(_details([(heading, body) for heading, body in folded if body]))
    page = _PAGE.substitute(
        title=escape(title), sections="\n".join(filter(None, parts)), version=escape(__version__)
    )
    _replace_file(Path(path), page)


def _section(heading: str, body: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>"


def _details(folded: Sequence[tuple[str, str]]) -> str:
    """Fold parts away, each under its heading."""
    if not folded:
        return ""
    lines = "\n".join(
        f"<details>\n<summary><h3>{escape(heading)}</h3></summary>\n{body}\n</details>"
        for heading, body in folded
    )
    return f'<section class="folded">\n<h2>{_FOLDED}</h2>\n<p>{_UNFOLD}</p>\n{lines}\n</section>'


def _body(section: Section, number: int) -> str:
    """Text, values, figures and tables of a section, the figures counted from a number on."""
    parts = [f"<p>{escape(section.text)}</p>"] if section.text else []
    if section.values:
        parts.append(_pairs(_flat(section.values)))
    if section.figures:
        drawn = [_figure(number + i, *one) for i, one in enumerate(section.figures)]
        parts.append('<div class="figures">\n' + "\n".join(drawn) + "\n</div>")
    for caption, rows in section.tables.items():
        parts.append(f"<h3>{escape(caption)}</h3>")
        parts.append(_grid(list(rows[0]) if rows else [], [list(row.values()) for row in rows]))
    return "\n".join(parts)


def _text(value: Any) -> str:
    return escape(format_number(value))


def _breakable(text: str) -> str:
    """Let a long name or path break where a reader would break it."""
    return re.sub(r"(?<=\w[._/])(?=[^\W\d])", "<wbr>", text)


def _summary(values: Mapping[str, Any]) -> str:
    cells = [f"<div><dt>{escape(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in values.items()]
    return '<dl class="summary">\n' + "\n".join(cells) + "\n</dl>"


def _pairs(values: Iterable[tuple[str, Any]]) -> str:
    """Tabulate names and values."""
    rows = [
        f'<tr><th scope="row">{_breakable(escape(k))}</th><td>{_breakable(_text(v))}</td></tr>'
        for k, v in values
    ]
    return '<table class="pairs"><tbody>\n' + "\n".join(rows) + "\n</tbody></table>"


def _grid(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", kind: str = "grid"
) -> str:
    """Tabulate rows of values under column names; the first value of a row names it."""
    rows = list(rows)
    wide = kind == "grid" and (len(columns) > _MOST_CELLS or _has_long_words(rows))
    labels = [f' data-label="{escape(name)}"' if wide else "" for name in columns]
    marks = [' class="number"' if wide and j and _is_of_numbers(rows, j) else ""
             for j in range(len(columns))]  # fmt: skip
    labels = [mark + label for mark, label in zip(marks, labels, strict=True)]
    head = "".join(
        f'<th scope="col"{mark}>{escape(name)}</th>' if name else "<td></td>"
        for name, mark in zip(columns, marks, strict=True)
    )
    lines = [
        f'<tr><th scope="row"{labels[0]}>{_text(first)}</th>'
        + "".join(
            f"<td{label}>{_text(value)}</td>" for label, value in zip(labels[1:], rest, strict=True)
        )
        + "</tr>"
        for first, *rest in rows
    ]
    body = "\n".join(lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="{kind}{" wide" * wide}">{title}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


def _is_of_numbers(rows: Sequence[Sequence[Any]], column: int) -> bool:
    """Whether a column holds numbers, shares or nothing, and some number."""
    cells = [format_number(row[column]) for row in rows]
    return any(cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in cells)


def _has_long_words(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether cells behind the first hold words that may not fit beside each other."""
    cells = (format_number(value) for _, *rest in rows for value in rest)
    return any(len(word) > _LONG for cell in cells for word in cell.split())


def _evaluation(evaluation: Mapping[str, Any]) -> str:
    scalars = [(k, v) for k, v in evaluation.items() if not isinstance(v, Mapping)]
    parts = [_pairs(scalars)] if scalars else []
    for name, values in evaluation.items():
        if not isinstance(values, Mapping):
            continue
        parts.append(f"<h3>{escape(name)}</h3>")
        if values and all(isinstance(v, Mapping) for v in values.values()):
            columns = list(dict.fromkeys(str(c) for v in values.values() for c in v))
            rows = [[str(k), *(v.get(c, "") for c in columns)] for k, v in values.items()]
            parts.append(_grid(["", *columns], rows))
        else:
            parts.append(_pairs(_flat(values)))
    return "\n".join(parts)


def _flat(values: Mapping[Any, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the leaves of nested mappings under dotted names."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _history(history: HistoryLike) -> str:
    n_records = len(history.n_samples)
    chosen = np.unique(np.linspace(0, n_records - 1, _HISTORY_ROWS).round().astype(int))
    # What is watched besides is watched by a risk, and the history holds its objective; or there
    # are several ways side by side, which tell how much each counts.
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
        del columns["compression error"]  # nothing is compressed, as with random features
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
    return _grid(list(columns), rows, caption=caption, kind="grid numbers")


def _figure(number: int, caption: str, figure: Figure) -> str:
    """Embed a figure, with its caption and its description."""
    description = escape(str(figure.get_label() or caption))
    svg = _svg(number, figure)
    if len(svg) <= _MAX_SVG_LENGTH:
        plain = "" if figure.get_gid() == THEMED else ' class="plain"'
        picture = re.sub(
            r'<svg [^>]*?(viewBox="[^"]*")[^>]*>',
            lambda match: f'<svg{plain} {match[1]} role="img" aria-label="{description}">',
            svg,
            count=1,
        )
    else:
        data = base64.b64encode(_png(figure)).decode("ascii")
        picture = f'<img class="plain" src="data:image/png;base64,{data}" alt="{description}">'
    return f"<figure>\n<figcaption>{escape(caption)}</figcaption>\n{picture}\n</figure>"


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
