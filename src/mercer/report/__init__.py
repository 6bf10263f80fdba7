"""The report of a run: one HTML page that needs nothing else, for screen, phone and paper.

The page holds no script and loads nothing. Its figures are inline SVG whose text can be searched
and read aloud, and whose colours follow the reader's light or dark theme. The same input gives
the same bytes.
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
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import __version__
from mercer._atomic import replacing
from mercer.display import HistoryLike
from mercer.display.drawing import (
    FAINT,
    INK,
    PAPER,
    THEMED,
    format_number,
    report_style,
    require_matplotlib,
)
from mercer.report._figures import figures_for
from mercer.report._race import race_section
from mercer.report._risk import risk_section
from mercer.report._section import Section
from mercer.report._template import PAGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section", "figures_for", "race_section", "risk_section", "write_report"]

# An SVG grows with what it shows; beyond this many characters a picture of pixels is smaller.
_MAX_SVG_LENGTH = 600_000
_HISTORY_ROWS = 12


def write_report(
    path: str | os.PathLike[str],
    *,
    title: str,
    summary: Mapping[str, Any],
    history: HistoryLike | None = None,
    settings: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    sections: Sequence[Section] = (),
    figures: Sequence[tuple[str, Figure]] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write the report of a run as one self-contained HTML file.

    The file appears whole or not at all: it is written beside its place and then renamed. All
    text is escaped.

    Parameters
    ----------
    path : str or path-like
        Where to write; an existing file is replaced.
    title : str
        Heading and title of the page.
    summary : mapping of str to str or number
        The few values to see first, in order, such as accuracy and model order.
    history : HistoryLike, default=None
        Run to tabulate, thinned to a dozen records.
    settings : mapping of str to object, default=None
        Parameters of the run. Mappings inside become dotted names.
    evaluation : mapping, default=None
        Held-out results. A mapping inside becomes a table of its own: of names and values, or,
        if its values are mappings too, of one row per name (such as measures per class).
    sections : sequence of Section, default=()
        Further sections, after the evaluation, such as :func:`risk_section` and
        :func:`race_section` return.
    figures : sequence of (str, matplotlib Figure), default=()
        Captions and figures, as :func:`figures_for` returns them. A figure's label, if it has
        one, describes the figure to readers who cannot see it.
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
    parts = [_section("Summary", _summary(summary))]
    if notes:
        items = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(_section("Notes", f'<div class="notes"><ul>\n{items}\n</ul></div>'))
    if evaluation:
        parts.append(_section("Evaluation on held-out rows", _evaluation(evaluation)))
    # Identifiers are unique on the page only if figures of all sections are counted.
    number = 0
    for section in [*sections, Section("Figures", figures=figures)]:
        body = _body(section, number)
        number += len(section.figures)
        if body:
            parts.append(_section(section.heading, body))
    if history is not None and len(history.n_samples):
        parts.append(_section("The run", _history(history)))
    if settings:
        parts.append(_section("Settings", _pairs(_flat(settings))))
    page = PAGE.substitute(
        title=escape(title), sections="\n".join(parts), version=escape(__version__)
    )
    _replace_file(Path(path), page)


def _section(heading: str, body: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>"


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
    head = "".join(
        f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in columns
    )
    lines = [
        f'<tr><th scope="row">{_text(first)}</th>'
        + "".join(f"<td>{_text(value)}</td>" for value in rest)
        + "</tr>"
        for first, *rest in rows
    ]
    body = "\n".join(lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="{kind}">{title}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


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
    # What is watched besides is watched by a risk, and the history holds its objective.
    recorded = "objective" if getattr(history, "monitors", None) else "loss"
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
        for colour, name in ((INK, "ink"), (PAPER, "paper"), (FAINT, "faint")):
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
