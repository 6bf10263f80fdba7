"""What matters to a model: its most important columns, and how predictions depend on them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.display import DependenceDisplay, ImportanceDisplay
from mercer.display.drawing import format_number, report_axes, report_style
from mercer.inspection import final_model
from mercer_app.report._page import Section
from mercer_app.report.judged import JudgedRows, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.estimators import Dependence

_MOST_BARS, _BAR = 15, 0.27  # inches
_MOST_CURVES, _LEAST_SHARE = 4, 0.02
_TEXT = (
    "The bars say how much predictions change if a column gets the value of another row, as shares "
    "that add up to 100 %; of classes it is their scores that change. The curves say what is "
    "predicted on average if all rows had the same value in a column, and the thin lines what is "
    "predicted for single rows. Both tell what the model goes by, and not what causes what."
)


def column_shares(model: Any) -> list[tuple[str, float]]:
    """Return the columns of a model with their importances, the most important first.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        Any model; there are none of one without ``feature_importances_``.
    """
    last = final_model(model)
    try:
        shares = np.asarray(last.feature_importances_, dtype=float)
    except (AttributeError, ValueError):
        return []  # it answers on pairs only, or keeps no rows
    called = last._explained().names
    order = np.argsort(-shares, kind="stable")
    return [(called[j], float(shares[j])) for j in order.tolist()]


def matters_section(
    model: Any,
    rows: JudgedRows | None,
    shares: list[tuple[str, float]],
    figures: list[tuple[str, Figure]],
) -> Section | None:
    """Say which columns matter, and how.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        The model.
    rows : JudgedRows or None
        Rows to explain; for classes, the most common class is explained.
    shares : list of (str, float)
        As :func:`column_shares` returns them.
    figures : list of (str, matplotlib Figure)
        What shows the learned function itself, if anything does.
    """
    drawn: list[tuple[str, Figure]] = []
    if any(share > 0.0 for _, share in shares):
        with report_style():
            drawn = [_bars(model, shares), *_curves(model, rows, shares)]
    if not drawn and not figures:
        return None
    return Section("What matters", _TEXT if drawn else "", figures=[*drawn, *figures])


def _bars(model: Any, shares: list[tuple[str, float]]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=1.1 + _BAR * max(3, min(len(shares), _MOST_BARS)))
    ImportanceDisplay.from_estimator(model, ax=ax, max_columns=_MOST_BARS)
    said = ", ".join(f"{name} {percent(share)}" for name, share in shares[:5])
    figure.set_label(f"Bar chart of how much each column matters, the most first: {said}.")
    return "How much each column matters", figure


def _curves(
    model: Any, rows: JudgedRows | None, shares: list[tuple[str, float]]
) -> list[tuple[str, Figure]]:
    """Draw how predictions depend on the first columns, those aside that are free text."""
    output = None
    if rows is not None and rows.classes is not None and len(rows.classes) > 2:
        labels, counts = np.unique(rows.truth, return_counts=True)
        output = labels[np.argmax(counts)]
        if output not in rows.classes:
            return []
    figures: list[tuple[str, Figure]] = []
    for name, share in shares:
        if len(figures) >= _MOST_CURVES or share < _LEAST_SHARE:
            break
        try:
            told = final_model(model).partial_dependence(name, output=output)
        except ValueError:
            continue  # free text has no order, and of several outputs none is the first
        figures.append(_curve(told))
        if part := _strongest_part(model, told, output):
            figures.append(_curve(part))
    return figures


def _curve(told: Dependence) -> tuple[str, Figure]:
    """Draw one curve."""
    figure, ax = report_axes(height=3.4)
    DependenceDisplay(dependence=told).plot(ax)
    low, high = (format_number(float(end(told.values))) for end in (np.min, np.max))
    figure.set_label(f"Prediction over {told.feature_name}: between {low} and {high} on average.")
    return f"{told.quantity.capitalize()} over {told.feature_name}", figure


def _strongest_part(model: Any, told: Dependence, output: Any) -> Dependence | None:
    """Return the curve over that part of a date which matters most; None if none does."""
    found: list[Dependence] = []
    for name in told.parts:
        with suppress(ValueError):  # it is always the same
            found.append(final_model(model).partial_dependence(name, output=output))
    best = max(found, key=lambda one: np.ptp(one.values), default=None)
    return best if best is not None and np.ptp(best.values) > 0.5 * np.ptp(told.values) else None
