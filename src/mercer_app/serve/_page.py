"""The page: one HTML file with its own style and script, generated for each request.

Its appearance is in ``templates/``, its content here. Everything from the model or from a request
is escaped. The content security policy allows only this style and this script, by their hashes;
pictures are SVG, whose sizes are attributes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from mercer import __version__
from mercer.display.drawing import format_number
from mercer_app.report.templating import as_it_is, templates
from mercer_app.serve._answers import Answers, Column, Told

_MOST_OPTIONS = 200  # categories in a list to choose from; with more, they are suggested
_MOST_BARS = 10
_MOST_FIELDS = 60  # further fields of the form are folded

_TEMPLATE = templates(__package__).get_template("page.html")
_STYLE, _SCRIPT = as_it_is(__package__, "page.css"), as_it_is(__package__, "page.js")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


#: What a browser may do with the page.
POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


class Shown(NamedTuple):
    """Question asked on the page, and its answer.

    Attributes
    ----------
    cells : mapping of str to str
        Text typed, by column; empty if nothing was asked.
    told : Told or None
        The answer, for one row.
    notes : sequence of str
        Notes to show.
    error : str
        Reason why there is no answer.
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
        Title of the model.
    answers : Answers
        The model.
    shown : Shown
        What was asked.
    report : bool
        Whether there is a report to link to.
    most_bytes : int
        Size of the largest file that is taken.
    """
    told = shown.told
    return _TEMPLATE.render(
        title=title,
        about=_about(answers),
        report=report,
        style=_STYLE,
        script=_SCRIPT,
        percent=_percent,
        fields=[
            _field(column, shown.cells.get(column.name, ""), number)
            for number, column in enumerate(answers.columns)
        ],
        most_fields=_MOST_FIELDS,
        typical=urlencode({column.name: column.typical for column in answers.columns}),
        error=shown.error,
        answer=told and _answer(answers, told),
        notes=[*shown.notes, *(told.notes if told else ())],
        program=told and _program(answers, shown.cells),
        batch="/batch" + ("" if answers.coverage is None else f"?interval={answers.coverage}"),
        most_bytes=most_bytes,
        version=__version__,
    )


def _about(answers: Answers) -> str:
    model = answers.reads
    n = model.preprocessor.n_samples_seen_
    words = f"{model._task.title.capitalize()}"
    if model.has_target:
        words += f" of {model.target!r}"
    return f"{words}, from {len(answers.columns):,} columns measured on {n:,} rows."


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f}%"


# -- the form -------------------------------------------------------------------------------------


def _field(column: Column, text: str, number: int) -> dict[str, Any]:
    """Say what the input of a column is."""
    options: list[str] = []
    control = "text"
    if column.kind == "text":
        control = "textarea"
    elif column.kind == "boolean":
        control, options, text = "select", ["true", "false"], text.strip().lower()
    elif column.kind == "category":
        few = len(column.levels) <= _MOST_OPTIONS
        control, options = "select" if few else "suggest", column.levels
    elif column.is_moment:
        control = "time" if column.kind == "time" else "date"
        control = "datetime-local" if column.has_hours else control
    elif column.kind == "number" and not column.reading.was_text:
        control = "number"
    if control == "select" and text and text not in options:
        options.append(text)  # an unknown value that was asked for
    return {
        "name": column.name,
        "number": number,
        "control": control,
        "options": options,
        "value": text,
        "hint": _hint(column),
        "typical": column.typical,
    }


def _hint(column: Column) -> str:
    if column.kind == "number" and column.ends is not None:
        low, high = column.ends
        if low == high:
            return f"always {format_number(low)}"
        return f"{format_number(low)} to {format_number(high)}"
    if column.kind == "date" and column.typical:
        return f"mean {column.typical}"
    return "free text" if column.kind == "text" else ""


# -- the answer -----------------------------------------------------------------------------------


def _answer(answers: Answers, told: Told) -> dict[str, Any]:
    """Return the prediction, what is around it, and why it is so."""
    model, row = answers.reads, told.predictions[0]
    kinds = ("probability_", "score_", "quantile_")
    bars = {
        name.removeprefix(kind): value
        for kind in kinds
        for name, value in row.items()
        if name.startswith(kind)
    }
    quantities = model.predicts_quantities
    if any(name.startswith("probability_") for name in row):
        heading, lines = "Probabilities", _shares(bars)
    else:
        heading = "Quantiles" if quantities else "Scores"
        write = partial(_with_unit, answers) if quantities else format_number
        lines = [_line(name, write(value)) for name, value in bars.items()]
    return {
        "said": _said(answers, row["prediction"]) if "prediction" in row else None,
        "heading": heading,
        "lines": lines,
        "named": [(said, format_number(row[name])) for name, said in _NAMED.items() if name in row],
        "meant": _MEANT.get(model.task),
        "around": _around(answers, row),
        "why": _explained(answers, told.explanations[0]) if told.explanations else None,
    }


def _line(name: str, text: str, share: float | None = None) -> dict[str, Any]:
    """Return a line of a table: a name, a bar if there is a share, and text."""
    return {"name": name, "share": share, "text": text}


_MEANT = {
    "novelty": "Below 0 is novel: unlike the rows that were learned.",
    "rank": "Rows with higher scores rank above.",
}
_NAMED = {"score": "Score", "value": "Value", "std": "Standard deviation of a new observation"}


def _said(answers: Answers, value: Any) -> str:
    """Write a prediction, a quantity with its unit."""
    model = answers.reads
    if model.task == "novelty":
        return "novel" if value == -1 else "not novel"
    if not model.predicts_quantities:
        return str(value)
    return _with_unit(answers, value)


def _with_unit(answers: Answers, value: float | str | None) -> str:
    if value is None:
        return "without end"
    form = answers.reads.target_form
    if isinstance(value, str):  # a date
        return value
    if form is not None and form.is_moment:
        return str(form.answers(np.array([value]))[0])
    number = format_number(value)
    if form is None or not form.unit:
        return number
    before = len(form.unit) == 1 and form.unit in "$£€¥₹"
    return f"{form.unit}{number}" if before else f"{number} {form.unit}"


def _around(answers: Answers, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the interval, or the set of classes."""
    if answers.coverage is None:
        return None
    share = f"{100.0 * answers.coverage:g} %"
    if "lower" in row:
        low, high = row["lower"], row["upper"]
        target = answers.reads.target
        return {
            "heading": f"{share} interval",
            "text": f"{_with_unit(answers, low)} to {_with_unit(answers, high)}",
            "at": _place(low, high, row.get("prediction")),
            "meant": f"Of rows like those learned, {share} have their {target} in such an interval."
            if answers.reads.task != "gp"
            else "As the Gaussian process itself believes; no rows kept back were asked.",
        }
    if "set" in row:
        return {
            "heading": f"{share} set",
            "text": ", ".join(map(str, row["set"])) or "none",
            "at": None,
            "meant": f"Of rows like those learned, {share} or more have their class in such a set.",
        }
    return None


def _place(low: Any, high: Any, middle: Any) -> float | None:
    """Say where in an interval a prediction is, of its width."""
    if not all(isinstance(end, float) for end in (low, high, middle)) or not high > low:
        return None
    return float(min(0.99, max(0.0, (middle - low) / (high - low))))


def _shares(shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return bars of probabilities, the largest first."""
    order = sorted(shares, key=lambda name: -shares[name])
    shown = {name: shares[name] for name in order[:_MOST_BARS]}
    if len(order) > len(shown):
        others = sum(shares[name] for name in order[_MOST_BARS:])
        shown[f"({len(order) - len(shown)} others)"] = others
    return [_line(name, f"{share:.1%}", min(1.0, max(0.0, share))) for name, share in shown.items()]


def _explained(answers: Answers, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return bars of what columns add."""
    adds = list(told["contributions"].items())
    largest = max((abs(add) for _, add in adds), default=0.0) or 1.0
    form = _form_of_adds(largest)
    lines = [_line(name, _signed(add, form), add / largest) for name, add in adds[:_MOST_BARS]]
    if rest := adds[_MOST_BARS:]:  # without a bar, which would be the longest
        lines.append(_line(f"({len(rest)} others)", _signed(sum(add for _, add in rest), form)))
    what = told["quantity"]
    if told["output"] is not None:
        what += f" of {told['output']}"
    in_units = answers.reads.predicts_quantities
    ends = (
        _with_unit(answers, told[name]) if in_units else format_number(told[name])
        for name in ("baseline", "prediction")
    )
    said = "The mean {what} is {0}; with what each column adds it is {1}.".format(*ends, what=what)
    return {"text": said, "lines": lines}


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
    return f"{number:{form}}".replace("-", "−")  # noqa: RUF001  # a minus


def _program(answers: Answers, cells: Mapping[str, str]) -> str:
    """Return how a program asks the same."""
    row = {c.name: c.value(cells.get(c.name, "")) for c in answers.columns}
    asked: dict[str, Any] = {"rows": [row]}
    if answers.coverage is not None:
        asked["interval"] = answers.coverage
    if not answers.no_explanation:
        asked["explain"] = True
    return json.dumps(asked, ensure_ascii=False)
