"""The page: one HTML file with its own style and script, made anew for each request.

All that comes from the model or from a request is escaped. The policy allows this style and this
script by their hashes, and nothing else; pictures are SVG, whose sizes are attributes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from mercer import __version__
from mercer.display.drawing import format_number
from mercer_app.serve._answers import Answers, Told
from mercer_app.serve._columns import Column

_MOST_OPTIONS = 200  # categories in a list to choose from; beyond, they are suggested
_MOST_BARS = 10
_MOST_FIELDS = 60  # beyond, the rest of the form is folded

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1f2a36; --paper: #fdfefe; --quiet: #55616e; --line: #c9d0d7; --card: #f4f6f8;
  --accent: #00639c; --on-accent: #fff; --less: #b3541e; --wrong: #a3262a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ed; --paper: #14191f; --quiet: #a3aeba; --line: #3a4552; --card: #1c232b;
    --accent: #6cb8ea; --on-accent: #0d1319; --less: #e8955d; --wrong: #ff8f8a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 2rem; max-width: 76rem;
  background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.1rem; margin: 0 0 .75rem; }
h3 { font-size: .95rem; margin: 1.25rem 0 .4rem; }
p { margin: .35rem 0; }
a { color: var(--accent); }
header { margin-bottom: 1.25rem; }
header p, .quiet, footer { color: var(--quiet); font-size: .9rem; }
main { display: grid; gap: 1.25rem; grid-template-columns: minmax(0, 1fr); }
section { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; min-width: 0; }
.result { background: var(--card); }
@media (min-width: 58rem) {
  main { grid-template: auto 1fr / minmax(0, 1fr) 25rem; align-items: start; }
  .form { grid-column: 1; grid-row: 1 / span 2; }
  .result, .file { grid-column: 2; }
}
.fields { display: grid; gap: .75rem 1rem; align-items: end; }
.fields { grid-template-columns: repeat(auto-fill, minmax(min(100%, 12rem), 1fr)); }
.fields .wide { grid-column: 1 / -1; }
label { display: block; font-size: .9rem; font-weight: 600; }
label small { font-weight: 400; color: var(--quiet); }
input, select, textarea {
  display: block; width: 100%; min-height: 2.5rem; margin-top: .2rem; padding: .4rem .5rem;
  font: inherit; font-weight: 400; color: inherit; background: var(--paper);
  border: 1px solid var(--line); border-radius: .3rem;
}
input::placeholder { color: var(--quiet); opacity: .8; }
input[type=file] { border-style: dashed; padding: 1rem .5rem; height: auto; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.over input[type=file] { border-color: var(--accent); background: var(--card); }
.actions { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin-top: 1rem; }
button {
  min-height: 2.5rem; padding: .4rem 1.2rem; font: inherit; font-weight: 600; cursor: pointer;
  color: var(--on-accent); background: var(--accent); border: 0; border-radius: .3rem;
}
.answer { font-size: 1.9rem; line-height: 1.2; font-weight: 650; margin: 0; }
.notes { padding: 0 0 0 1.1rem; margin: .75rem 0 0; font-size: .9rem; }
.wrong { color: var(--wrong); }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: .9rem; }
th, td { padding: .2rem .5rem .2rem 0; text-align: left; font-weight: 400; vertical-align: middle; }
th { width: 40%; }
td:last-child {
  width: 5.6rem; padding: 0; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums;
}
svg { display: block; width: 100%; height: .85rem; }
.track { fill: var(--line); opacity: .6; }
.bar, .more { fill: var(--accent); }
.less { fill: var(--less); }
.mark { fill: var(--ink); }
details { margin-top: .75rem; }
summary { cursor: pointer; color: var(--accent); }
pre { white-space: pre-wrap; font-size: .8rem; margin: .5rem 0 0; }
footer { margin-top: 1.5rem; }
"""

_SCRIPT = """
"use strict";
(() => {
  const place = document.getElementById("batch"), said = document.getElementById("said");
  const box = document.getElementById("file"), most = Number(place.dataset.most);
  const show = (text, wrong) => {
    said.textContent = text;
    said.className = wrong ? "wrong" : "";
  };
  const predict = async (file) => {
    if (file.size > most) {
      show(`${file.name} has more than ${most >> 20} MB. Use mercer predict.`, true);
      return;
    }
    show(`Predicting for ${file.name} ...`);
    try {
      const answer = await fetch(place.dataset.address, {
        method: "POST", headers: {"Content-Type": "application/octet-stream"}, body: file,
      });
      if (!answer.ok) {
        show((await answer.json()).error, true);
        return;
      }
      const notes = JSON.parse(answer.headers.get("Mercer-Notes") || "[]");
      const rows = Number(answer.headers.get("Mercer-Rows")).toLocaleString("en");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = `${file.name.replace(/[.].*$/, "")}-predictions.csv`;
      link.textContent = link.download;
      show(`${rows} predictions: `);
      said.append(link);
      for (const note of notes) {
        const line = document.createElement("p");
        line.textContent = note;
        said.append(line);
      }
      link.click();
    } catch {
      show("There was no answer. Is mercer serve still running?", true);
    }
  };
  box.addEventListener("change", () => { if (box.files.length) predict(box.files[0]); });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      place.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) predict(event.dataTransfer.files[0]);
    });
  }
})();
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: What a browser may do with the page.
POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header>
<h1>$title</h1>
<p>$about</p>
</header>
<main>
$sections
</main>
<footer>Served by mercer $version from this machine, to this machine only.</footer>
<script>$script</script>
</body>
</html>
"""
)


class Shown(NamedTuple):
    """What was asked on the page, and what came of it.

    Attributes
    ----------
    cells : mapping of str to str
        What was typed, by columns; empty if nothing was asked.
    told : Told or None
        The answer, for one row.
    notes : sequence of str
        What must be said besides.
    error : str
        Why there is no answer.
    """

    cells: Mapping[str, str] = {}
    told: Told | None = None
    notes: Sequence[str] = ()
    error: str = ""


def page(title: str, answers: Answers, shown: Shown, *, report: bool, most_bytes: int) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    title : str
        Of the model.
    answers : Answers
        The model.
    shown : Shown
        What was asked.
    report : bool
        Whether there is a report to link to.
    most_bytes : int
        Size of the largest file that is taken.
    """
    form = _form(answers, shown.cells)
    result = _result(answers, shown)
    asked = shown.told is not None or shown.error
    sections = [result, form] if asked else [form, result]
    return _PAGE.substitute(
        title=escape(title),
        about=_about(answers, report),
        style=_STYLE,
        script=_SCRIPT,
        sections="\n".join([*sections, _file(answers, most_bytes)]),
        version=escape(__version__),
    )


def _about(answers: Answers, report: bool) -> str:
    model = answers.model
    n = model.preprocessor.n_samples_seen_
    words = f"{model._task.title.capitalize()}"
    if model.has_target:
        words += f" of {model.target!r}"
    said = [escape(f"{words}, from {len(answers.columns):,} columns measured on {n:,} rows.")]
    if report:
        said.append('<a href="/report">Report</a>')
    said.append('<a href="/model">Description as JSON</a>')
    return " · ".join(said)


# -- the form -------------------------------------------------------------------------------------


def _form(answers: Answers, cells: Mapping[str, str]) -> str:
    fields = [
        _field(column, cells.get(column.name, ""), number)
        for number, column in enumerate(answers.columns)
    ]
    shown, rest = fields[:_MOST_FIELDS], fields[_MOST_FIELDS:]
    parts = [f'<div class="fields">\n{"".join(shown)}</div>']
    if rest:
        folded = f'<div class="fields">\n{"".join(rest)}</div>'
        parts.append(f"<details><summary>{len(rest):,} more columns</summary>{folded}</details>")
    typical = urlencode({c.name: c.typical for c in answers.columns})
    return (
        '<section class="form"><h2>A row</h2>\n<form method="get" action="/#result">\n'
        + "".join(parts)
        + '<div class="actions"><button>Predict</button>'
        f'<a href="/?{escape(typical)}">Typical values</a><a href="/">Clear</a></div></form>\n'
        '<p class="quiet">An empty field is a missing value. The address of the page holds what '
        "you typed: keep it, or open it again.</p></section>"
    )


def _field(column: Column, text: str, number: int) -> str:
    """Return a label with its input."""
    name, value = escape(column.name), escape(text)
    wide = ' class="wide"' if column.kind == "text" else ""
    hint = f" <small>{escape(_hint(column))}</small>" if _hint(column) else ""
    label = f"<label{wide}>{name}{hint}"
    if column.kind == "text":
        return f'{label}<textarea name="{name}" rows="2">{value}</textarea></label>\n'
    if column.kind == "boolean":
        return f"{label}{_select(name, ('true', 'false'), text.strip().lower())}</label>\n"
    if column.kind == "category" and len(column.levels) <= _MOST_OPTIONS:
        return f"{label}{_select(name, column.levels, text)}</label>\n"
    if column.kind == "category":
        known = "".join(f"<option>{escape(level)}</option>" for level in column.levels)
        box = f'<input name="{name}" value="{value}" list="known-{number}" autocomplete="off">'
        return f'{label}{box}</label><datalist id="known-{number}">{known}</datalist>\n'
    kind = "text"
    if column.is_moment:
        kind = "time" if column.kind == "time" else "date"
        kind = "datetime-local" if column.has_hours else kind
    elif column.kind == "number" and not column.reading.was_text:
        kind = "number"
    step = ' step="any"' if kind in ("number", "time", "datetime-local") else ""
    box = (
        f'<input type="{kind}"{step} name="{name}" value="{value}" '
        f'placeholder="{escape(column.typical)}" autocomplete="off">'
    )
    return f"{label}{box}</label>\n"


def _hint(column: Column) -> str:
    if column.kind == "number" and column.lowest is not None and column.highest is not None:
        if column.lowest == column.highest:
            return f"always {format_number(column.lowest)}"
        return f"{format_number(column.lowest)} to {format_number(column.highest)}"
    if column.kind == "date" and column.typical:
        return f"mean {column.typical}"
    return "free text" if column.kind == "text" else ""


def _select(name: str, levels: Iterable[str], text: str) -> str:
    """Return a list to choose from; an unknown value that was asked for is on it, too."""
    levels = list(levels)
    if text and text not in levels:
        levels.append(text)
    options = "".join(
        f'<option value="{escape(one)}"{" selected" * (one == text)}>{escape(one)}</option>'
        for one in levels
    )
    return f'<select name="{name}"><option value="">(no value)</option>{options}</select>'


# -- the answer -----------------------------------------------------------------------------------


def _result(answers: Answers, shown: Shown) -> str:
    parts = ['<section class="result" id="result" aria-live="polite"><h2>Prediction</h2>']
    if shown.error:
        parts.append(f'<p class="wrong">{escape(shown.error)}</p>')
    elif shown.told is None:
        parts.append('<p class="quiet">Fill in the form, or take typical values.</p>')
    else:
        parts += _answer(answers, shown.told)
    notes = [*shown.notes, *(shown.told.notes if shown.told else ())]
    if notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(f'<ul class="notes">{items}</ul>')
    if shown.told is not None:
        parts.append(_program(answers, shown.cells))
    return "\n".join([*parts, "</section>"])


def _answer(answers: Answers, told: Told) -> list[str]:
    """Return the prediction, what is around it, and why it is so."""
    model, row = answers.model, told.predictions[0]
    parts = []
    if "prediction" in row:
        said = _said(answers, row["prediction"])
        parts.append(f'<p class="answer">{escape(said)}</p>')
    kinds = ("probability_", "score_", "quantile_")
    bars = {
        name.removeprefix(kind): value
        for kind in kinds
        for name, value in row.items()
        if name.startswith(kind)
    }
    if any(name.startswith("probability_") for name in row):
        parts.append(_shares(bars))
    elif bars:
        parts.append(_values(answers, bars, quantities=model.predicts_quantities))
    parts += [
        f"<p>{escape(said)}: {escape(format_number(row[name]))}</p>"
        for name, said in _NAMED.items()
        if name in row
    ]
    if model.task in _MEANT:
        parts.append(f'<p class="quiet">{escape(_MEANT[model.task])}</p>')
    parts += _around(answers, row)
    if told.explanations:
        parts.append(_explained(answers, told.explanations[0]))
    return parts


_MEANT = {
    "novelty": "Below 0 is novel: unlike the rows that were learned.",
    "rank": "Rows with higher scores rank above.",
}
_NAMED = {"score": "Score", "value": "Value", "std": "Standard deviation of a new observation"}


def _said(answers: Answers, value: Any) -> str:
    """Write a prediction, a quantity with its unit."""
    model = answers.model
    if model.task == "novelty":
        return "novel" if value == -1 else "not novel"
    if not model.predicts_quantities:
        return str(value)
    return _with_unit(answers, value)


def _with_unit(answers: Answers, value: float | str | None) -> str:
    if value is None:
        return "without end"
    form = answers.model.target_form_
    if isinstance(value, str):  # a date
        return value
    if form is not None and form.is_moment:
        return str(form.answers(np.array([value]))[0])
    number = format_number(value)
    if form is None or not form.unit:
        return number
    before = len(form.unit) == 1 and form.unit in "$£€¥₹"
    return f"{form.unit}{number}" if before else f"{number} {form.unit}"


def _around(answers: Answers, row: Mapping[str, Any]) -> list[str]:
    """Return the interval, or the set of classes."""
    if answers.coverage is None:
        return []
    share = f"{100.0 * answers.coverage:g} %"
    if "lower" in row:
        low, high = row["lower"], row["upper"]
        text = f"{_with_unit(answers, low)} to {_with_unit(answers, high)}"
        target = escape(str(answers.model.target))
        meant = (
            f"Of rows like those learned, {share} have their {target} in such an interval."
            if answers.model.task != "gp"
            else "As the Gaussian process itself believes; no rows kept back were asked."
        )
        return [
            f"<h3>{share} interval</h3><p>{escape(text)}</p>",
            _interval(low, high, row.get("prediction")),
            f'<p class="quiet">{meant}</p>',
        ]
    if "set" in row:
        return [
            f"<h3>{share} set</h3><p>{escape(', '.join(map(str, row['set'])) or 'none')}</p>"
            f'<p class="quiet">Of rows like those learned, {share} or more have their class in '
            "such a set.</p>"
        ]
    return []


def _interval(low: Any, high: Any, middle: Any) -> str:
    if not all(isinstance(end, float) for end in (low, high, middle)) or not high > low:
        return ""
    at = min(100.0, max(0.0, 100.0 * (middle - low) / (high - low)))
    return (
        '<svg aria-hidden="true"><rect class="track" y="25%" width="100%" height="50%"/>'
        f'<rect class="mark" x="{min(at, 99.0):.2f}%" width="3" height="100%"/></svg>'
    )


def _shares(shares: Mapping[str, float]) -> str:
    """Return bars of probabilities, the largest first."""
    order = sorted(shares, key=lambda name: -shares[name])
    shown = {name: shares[name] for name in order[:_MOST_BARS]}
    if len(order) > len(shown):
        others = sum(shares[name] for name in order[_MOST_BARS:])
        shown[f"({len(order) - len(shown)} others)"] = others
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td>{_bar(share)}</td><td>{share:.1%}</td></tr>'
        for name, share in shown.items()
    ]
    return f"<h3>Probabilities</h3><table>{''.join(lines)}</table>"


def _bar(share: float) -> str:
    width = 100.0 * min(1.0, max(0.0, share))
    return (
        '<svg aria-hidden="true"><rect class="track" width="100%" height="100%"/>'
        f'<rect class="bar" width="{width:.2f}%" height="100%"/></svg>'
    )


def _values(answers: Answers, values: Mapping[str, float], *, quantities: bool) -> str:
    """Return scores of classes, or quantiles."""
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td></td>'
        f"<td>{escape(_with_unit(answers, v) if quantities else format_number(v))}</td></tr>"
        for name, v in values.items()
    ]
    return f"<h3>{'Quantiles' if quantities else 'Scores'}</h3><table>{''.join(lines)}</table>"


def _explained(answers: Answers, told: Mapping[str, Any]) -> str:
    """Return bars of what columns add."""
    adds = list(told["contributions"].items())
    largest = max((abs(add) for _, add in adds), default=0.0) or 1.0
    form = _form_of_adds(largest)
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td>{_signed_bar(add / largest)}</td>'
        f"<td>{_signed(add, form)}</td></tr>"
        for name, add in adds[:_MOST_BARS]
    ]
    if rest := adds[_MOST_BARS:]:  # without a bar, which would be the longest
        total = sum(add for _, add in rest)
        lines.append(
            f'<tr><th scope="row">({len(rest)} others)</th><td></td>'
            f"<td>{_signed(total, form)}</td></tr>"
        )
    what = told["quantity"]
    if told["output"] is not None:
        what += f" of {told['output']}"
    in_units = answers.model.predicts_quantities
    ends = (
        _with_unit(answers, told[name]) if in_units else format_number(told[name])
        for name in ("baseline", "prediction")
    )
    said = "The mean {what} is {0}; with what each column adds it is {1}.".format(*ends, what=what)
    return (
        f'<h3>Why</h3><p class="quiet">{escape(said)}</p>'
        f'<table class="why">{"".join(lines)}</table>'
    )


def _signed_bar(share: float) -> str:
    half = 50.0 * abs(share)
    at, kind = (50.0, "more") if share >= 0.0 else (50.0 - half, "less")
    return (
        '<svg aria-hidden="true">'
        f'<rect class="{kind}" x="{at:.2f}%" width="{half:.2f}%" height="100%"/>'
        '<rect class="mark" x="50%" width="1" height="100%"/></svg>'
    )


def _form_of_adds(largest: float) -> str:
    """Return how all of some numbers are written: with four digits of the largest.

    Examples
    --------
    >>> f"{1234.5:{_form_of_adds(1234.5)}}", f"{-0.01:{_form_of_adds(2.345)}}"
    ('+1,234', '-0.010')
    """
    if not 1e-3 <= largest < 1e7:
        return "+.2e"
    return f"+,.{max(0, 3 - math.floor(math.log10(largest)))}f"


def _signed(number: float, form: str) -> str:
    return f"{number:{form}}".replace("-", "&minus;")


def _program(answers: Answers, cells: Mapping[str, str]) -> str:
    """Return how a program asks the same."""
    row = {c.name: c.value(cells.get(c.name, "")) for c in answers.columns}
    asked: dict[str, Any] = {"rows": [row]}
    if answers.coverage is not None:
        asked["interval"] = answers.coverage
    if not answers.no_explanation:
        asked["explain"] = True
    said = json.dumps(asked, ensure_ascii=False)
    return (
        "<details><summary>From a program</summary><p>POST this to /predict, as "
        f"application/json:</p><pre>{escape(said)}</pre></details>"
    )


def _file(answers: Answers, most_bytes: int) -> str:
    interval = "" if answers.coverage is None else f"?interval={answers.coverage}"
    return (
        f'<section class="file" id="batch" data-address="/batch{interval}" '
        f'data-most="{most_bytes}"><h2>A file</h2>\n'
        '<label>CSV, TSV, Parquet or Arrow<input type="file" id="file"></label>\n'
        '<p class="quiet">Choose a file, or drop it anywhere on the page. Its rows are predicted '
        "in order, and you get a CSV file. Nothing is written to the disk of the server.</p>\n"
        '<div id="said" aria-live="polite"></div></section>'
    )
