"""The standard figures of a report: how a run went, and how the model does on held-out rows."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display import (
    DecisionSurfaceDisplay,
    LearningCurveDisplay,
    ModelOrderDisplay,
    RankingDisplay,
    RegressionCurveDisplay,
)
from mercer.display.drawing import (
    INK,
    PALETTE,
    bar_edges,
    draw_legend,
    format_number,
    report_axes,
    report_diagonal,
    report_style,
    tidy,
)
from mercer.inspection import (
    final_model,
    has_run,
    history_of,
    input_dictionary,
    learns_pairs,
    objective_name,
    output_labels,
    quantile_levels,
    risk_of,
    unit_of_loss,
    weighs_ways,
)
from mercer.metrics import concordant_pairs
from mercer.objectives.pairwise import pair_label_of
from mercer_app.report._classes import class_figures, roc_figure
from mercer_app.report._quantities import quantity_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Captioned = tuple[str, "Figure"]
_KINDS = {
    "same": ("different", "same"),
    "sign": ("first below second", "first above second"),
    "difference": ("first below second", "first above second"),
}
# A curve or cloud of more points looks the same and only makes the file larger.
_MAX_POINTS = 1500


def figures_for(
    estimator: Any, X: Any = None, y: ArrayLike | None = None, group: ArrayLike | None = None
) -> list[tuple[str, Figure]]:
    """Draw the standard figures of a fitted estimator.

    Shows the learning curve and the model order, unless the run has a single record, or the model
    is a Gaussian process, which is not learned in steps. With held-out rows ``X, y``, also: for a
    classifier, the confusion matrix, the ROC curve (two classes) and the calibration of its
    probabilities (if it has any); for a regressor, :func:`mercer_app.report.quantity_figures`; for
    a Gaussian process, in addition the coverage of its intervals; for a novelty detector, the
    scores; for a ranker, the ROC curve (two classes) or, with groups, how well each group is
    ordered, and the scores by class or target. Models of one or two inputs show the learned
    function itself. Figures do not use pyplot, so nothing is left open.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Model with ``history_``, or a Gaussian process.
    X : array-like or DataFrame of shape (n_samples, n_features), default=None
        Rows the model has not learned from.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        Classes or targets of the rows.
    group : array-like of shape (n_samples,), default=None
        Groups of the rows, for a ranker.

    Returns
    -------
    figures : list of (str, matplotlib Figure)
        Caption and figure, in reading order, as :func:`mercer_app.report.write_report` takes them.
        A figure's label describes it in words for readers who cannot see it.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator has not learned any rows.
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    mercer_app.report.write_report : Put the figures on a page.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> run = SimpleNamespace(n_samples=[64, 128], loss=[0.7, 0.3], model_order=[30, 41])
    >>> for caption, figure in figures_for(SimpleNamespace(history_=run)):
    ...     print(caption)
    Learning curve: loss on each row before learning it
    Model order: size of the model along the stream
    """
    return run_figures(estimator) + ([] if X is None else held_out_figures(estimator, X, y, group))


def run_figures(estimator: Any) -> list[Captioned]:
    """Draw how a run went, as :func:`figures_for` does."""
    with report_style():
        return _run_figures(estimator) if has_run(estimator) else []


def held_out_figures(
    estimator: Any, X: Any, y: ArrayLike | None = None, group: ArrayLike | None = None
) -> list[Captioned]:
    """Draw how a model does on held-out rows, as :func:`figures_for` does."""
    figures: list[Captioned] = []
    with report_style():
        if learns_pairs(estimator):
            if y is not None:
                figures += ranking_figures(estimator, X, np.asarray(y), group)
        elif hasattr(estimator, "classes_"):
            if y is not None:
                figures += _classifier_figures(estimator, X, np.asarray(y))
        elif hasattr(estimator, "decision_function"):
            figures.append(_scores(np.asarray(estimator.decision_function(X), dtype=float)))
        elif y is not None:
            truth = np.asarray(y, dtype=float)
            figures += _regressor_figures(
                estimator, truth, np.asarray(estimator.predict(X), dtype=float)
            )
            figures += interval_figure(estimator, X, truth)
        return figures + function_figures(estimator, X, y)


def _run_figures(estimator: Any) -> list[Captioned]:
    if len(history_of(estimator).n_samples) == 1:
        return []  # a single record has no curve, only the values in the page's table
    figure, ax = report_axes()
    order = ModelOrderDisplay.from_estimator(estimator, ax=ax)
    figure.set_label(
        f"Line chart: the model ends with {format_number(order.model_order[-1])} {order.unit} "
        f"after {format_number(order.n_samples[-1])} rows; at most it had "
        f"{format_number(order.model_order.max())}."
    )
    figures = [("Model order: size of the model along the stream", figure)]
    if np.isfinite(np.asarray(history_of(estimator).loss, dtype=float)).any():
        figure, ax = report_axes()
        curve = LearningCurveDisplay.from_estimator(estimator, ax=ax)
        finite = curve.loss[np.isfinite(curve.loss)]
        figure.set_label(
            f"Line chart: the mean progressive {curve.loss_name} goes from "
            f"{format_number(finite[0])} to {format_number(finite[-1])} in "
            f"{format_number(curve.n_samples[-1])} rows."
        )
        what = "loss" if risk_of(estimator) is None else objective_name(estimator)
        of = "the pairs of each row before learning them"
        of = of if learns_pairs(estimator) else "each row before learning it"
        history = history_of(estimator)
        if not weighs_ways(history) and not np.any(getattr(history, "step_size", 1.0)):
            of = "rows kept back, before learning them"  # by sums, without steps
        unit = unit_of_loss(estimator)
        caption = f"Learning curve: {what} on {of}"
        figures.insert(0, (caption + (f", in {unit}" if unit else ""), figure))
    return figures


def _classifier_figures(estimator: Any, X: Any, y: NDArray[Any]) -> list[Captioned]:
    scores = probability = None
    if len(estimator.classes_) == 2 and hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=float)
        scores = scores if scores.ndim == 1 else scores[:, -1]
    if hasattr(estimator, "predict_proba"):
        probability = estimator.predict_proba(X)
    return class_figures(
        y, estimator.predict(X), classes=estimator.classes_, scores=scores, probability=probability
    )


def _regressor_figures(estimator: Any, truth: Array, predicted: Array) -> list[Captioned]:
    n_outputs = predicted.size // len(predicted)
    return quantity_figures(
        truth,
        predicted,
        labels=output_labels(estimator, n_outputs),
        levels=quantile_levels(estimator),
    )


def interval_figure(estimator: Any, X: Any, truth: Array) -> list[Captioned]:
    """Draw the share of rows in central intervals of a Gaussian process against their coverage."""
    from scipy.special import erf

    if "include_noise" not in signature(final_model(estimator).predict).parameters:
        return []
    mean, std = estimator.predict(X, return_std=True, include_noise=True)
    distance = np.sort(np.ravel(np.abs(truth - mean) / std))
    said = erf(distance / np.sqrt(2.0))  # of the smallest interval around the mean with the row in
    seen = np.arange(1, distance.size + 1) / distance.size
    rows = np.unique(np.linspace(0, said.size - 1, min(said.size, 400)).round().astype(int))
    with report_style():
        figure, ax = report_diagonal()
    ax.plot(said[rows], seen[rows], color=PALETTE[0], linewidth=2.0, label="model")
    ax.set_xlabel("Probability of the central interval")
    ax.set_ylabel("Held-out rows in it")
    tidy(ax)
    draw_legend(ax)
    share = format_number(100.0 * float(np.mean(said <= 0.9)))
    figure.set_label(f"Reliability of intervals: {share} % of the rows are in those of 90 %.")
    return [("Reliability of the intervals", figure)]


def _scores(scores: Array) -> Captioned:
    figure, ax = report_axes()
    edges = bar_edges(scores)
    counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), bins=edges)
    ax.stairs(counts, edges, fill=True, color=PALETTE[0])
    ax.axvline(0.0, color=INK, linewidth=1.0, linestyle="dashed")
    ax.set_xlabel("Score: below 0 is novel")
    ax.set_ylabel("Held-out rows")
    tidy(ax)
    share = format_number(100.0 * float(np.mean(scores < 0)))
    figure.set_label(f"Histogram of the scores: {share} % of the rows are below 0, hence novel.")
    return "Scores of held-out rows", figure


def function_figures(estimator: Any, X: Any, y: Any) -> list[Captioned]:
    """Draw the learned function, if it is of one input or two."""
    with report_style():
        return _function_figures(estimator, X, y)


def _function_figures(estimator: Any, X: Any, y: Any) -> list[Captioned]:
    n_inputs = np.shape(X)[1]
    scored = hasattr(estimator, "decision_function")
    ranks = learns_pairs(estimator)
    if ranks and not scored:
        return []  # a function of pairs
    classes = None if ranks else getattr(estimator, "classes_", None)
    sparse = input_dictionary(estimator) is not None
    shown = "data and dictionary points" if sparse else "data"
    if n_inputs == 1 and classes is None and not scored:
        figure, ax = report_axes()
        RegressionCurveDisplay.from_estimator(estimator, X, y, ax=ax, max_points=_MAX_POINTS)
        figure.set_label(f"Line chart of the prediction over the input, with {shown}.")
        return [("The learned function", figure)]
    if n_inputs != 2 or (classes is not None and len(classes) < 2):
        return []
    if classes is None and not scored and np.size(estimator.predict(X[:1])) > 1:
        return []  # One map shows one output.
    figure, ax = report_axes(height=4.0)
    DecisionSurfaceDisplay.from_estimator(estimator, X, y, ax=ax, max_points=_MAX_POINTS)
    figure.set_label(f"Map of the decision over the two inputs, with {shown}.")
    return [("The learned function" + (", its data and its dictionary" if sparse else ""), figure)]


def ranking_figures(
    estimator: Any, X: Any, y: NDArray[Any], group: ArrayLike | None
) -> list[Captioned]:
    """Draw how a model ranks rows, or distinguishes pairs if rows have no scores.

    Parameters
    ----------
    estimator : fitted ranker
        Model.
    X : array-like of shape (n_samples, n_features)
        Rows the model has not learned from.
    y : ndarray of shape (n_samples,)
        Targets of the rows.
    group : array-like of shape (n_samples,) or None
        Groups of the rows.
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
