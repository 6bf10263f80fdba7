"""Figures of a model that was learned from pairs of rows, on held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display import RankingDisplay, ROCCurveDisplay
from mercer.display._drawing import PALETTE, format_number, report_axes, tidy
from mercer.display._fitted import final_model
from mercer.metrics import concordant_pairs
from mercer.objectives.pairwise import pair_label_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ranking_figures", "roc_figure"]

Array = NDArray[np.float64]
Captioned = tuple[str, "Figure"]

_KINDS = {
    "same": ("different", "same"),
    "sign": ("first below second", "first above second"),
    "difference": ("first below second", "first above second"),
}


def ranking_figures(
    estimator: Any, X: Any, y: NDArray[Any], group: ArrayLike | None
) -> list[Captioned]:
    """Draw how a model ranks rows, or tells pairs apart if rows have no scores.

    Parameters
    ----------
    estimator : fitted ranker
        Model.
    X : array-like of shape (n_samples, n_features)
        Rows the model has not learned from.
    y : ndarray of shape (n_samples,)
        Their targets.
    group : array-like of shape (n_samples,) or None
        Their groups.
    """
    groups = None if group is None else np.asarray(group)
    if not hasattr(estimator, "decision_function"):
        return _of_pairs(estimator, X, y, groups)
    scores = np.asarray(estimator.decision_function(X), dtype=float)
    values = np.unique(y)
    figures = []
    if values.size == 2 and groups is None:
        figures.append(roc_figure(y == values[1], scores, f"class {values[1]}"))
    if groups is not None:
        figures += _by_group(y, scores, groups)
    figure, ax = report_axes(height=3.8)
    RankingDisplay.from_predictions(y, scores, group=groups, ax=ax)
    what = "each class" if values.size <= 2 else "rows over their targets"
    middles = ", ".join(
        f"{format_number(float(np.median(scores[y == value])))} for {value}"
        for value in values[:: max(1, values.size - 1)]
    )
    figure.set_label(f"Scores of held-out rows: their median is {middles}.")
    return [*figures, (f"Scores of {what}", figure)]


def roc_figure(positive: NDArray[np.bool_], scores: Array, what: str) -> Captioned:
    """Draw the ROC curve of scores for what is positive."""
    figure, ax = report_axes(height=3.8)
    curve = ROCCurveDisplay.from_predictions(positive, scores, ax=ax)
    ax.set_xlabel("False positive rate")
    area = format_number(curve.roc_auc)
    figure.set_label(f"ROC curve for {what}: the area under it is {area}.")
    return f"ROC curve for {what}", figure


def _by_group(y: NDArray[Any], scores: Array, groups: NDArray[Any]) -> list[Captioned]:
    """Draw the shares of the pairs of each group that are in the right order."""
    numbers = np.unique(y, return_inverse=True)[1].astype(float)
    n_right, n_pairs = concordant_pairs(numbers, scores, groups)
    shares = n_right[n_pairs > 0.0] / n_pairs[n_pairs > 0.0]
    if not shares.size:
        return []
    figure, ax = report_axes()
    counts, edges = np.histogram(shares, bins=np.linspace(0.0, 1.0, 21))
    ax.stairs(counts, edges, fill=True, color=PALETTE[0])
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("Share of the pairs of a group in the right order")
    ax.set_ylabel("Groups")
    tidy(ax)
    middle = format_number(float(np.median(shares)))
    figure.set_label(
        f"Histogram over {shares.size} groups of the share of their pairs in the "
        f"right order: the median is {middle}."
    )
    return [("How well the rows of each group are ordered", figure)]


def _of_pairs(
    estimator: Any, X: Any, y: NDArray[Any], groups: NDArray[Any] | None
) -> list[Captioned]:
    """Draw the answers on random pairs of neighbours in a random order, within groups."""
    label = str(final_model(estimator).pair_label)
    first, second = _neighbours(len(y), groups)
    numbers = np.unique(y, return_inverse=True)[1].astype(float)
    tau = pair_label_of(label, numbers[first], numbers[second])
    acting = tau != 0.0
    first, second, positive = first[acting], second[acting], tau[acting] > 0.0
    if positive.all() or not positive.any():
        return []
    values = np.asarray(estimator.predict_pair(X[first], X[second]), dtype=float)
    names = _KINDS[label]
    figure, ax = report_axes(height=3.8)
    RankingDisplay.from_predictions(
        positive, values, labels=names, score_name="value of a pair", unit="pairs", ax=ax
    )
    figure.set_label(f"Histograms of the values of pairs: {names[0]}, and {names[1]}.")
    return [
        roc_figure(positive, values, f"pairs ({names[1]})"),
        ("Values of random pairs of held-out rows", figure),
    ]


def _neighbours(n: int, groups: NDArray[Any] | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pair each row with a random other one of its group; no row twice as the first."""
    order = np.random.default_rng(0).permutation(n)
    if groups is None:
        return order, np.roll(order, 1)
    order = order[np.argsort(groups[order], kind="stable")]
    together = groups[order[1:]] == groups[order[:-1]]
    return order[1:][together], order[:-1][together]
