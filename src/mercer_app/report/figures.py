"""Figures of a report: how a run went, and how the model does on held-out classes or quantities."""

from __future__ import annotations

from collections.abc import Sequence
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
    FAINT,
    INK,
    PALETTE,
    bar_edges,
    draw_legend,
    format_number,
    literal_text,
    report_axes,
    report_diagonal,
    report_style,
    short_ticks,
    subsample,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Captioned = tuple[str, "Figure"]
# Above this many classes the numbers and names in a confusion matrix cannot be read.
MAX_NAMED_CLASSES = 14


def class_figures(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    scores: ArrayLike | None = None,
    probability: ArrayLike | None = None,
    of: str = "held-out rows",
) -> list[tuple[str, Figure]]:
    """Draw predicted classes against the true ones.

    Shows the confusion matrix; for two classes with scores, the ROC curve; with probabilities,
    their calibration.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True labels and predicted ones.
    classes : array-like of shape (n_classes,), default=None
        Labels in the order of the probabilities; by default those that are there, sorted.
    scores : array-like of shape (n_samples,), default=None
        Scores for the last of two classes.
    probability : array-like of shape (n_samples, n_classes), default=None
        Probabilities of the classes.
    of : str, default="held-out rows"
        What rows these are, for the captions.

    Returns
    -------
    figures : list of (str, matplotlib Figure)
        Caption and figure, as :func:`mercer_app.report.write_report` takes them; free of pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there are no rows, or the number of predictions differs.

    Examples
    --------
    >>> truth, said = ["a", "b", "b", "a"], ["a", "b", "a", "a"]
    >>> for caption, figure in class_figures(truth, said, scores=[-1.0, 2.0, -0.5, -2.0]):
    ...     print(caption)
    Confusion matrix of held-out rows
    ROC curve for class b
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if not truth.size or len(truth) != len(predicted):
        raise ValueError(
            f"`y_true` and `y_pred` must have the same rows, at least one, got {len(truth)} and "
            f"{len(predicted)}."
        )
    labels = np.unique(np.concatenate([truth, predicted])) if classes is None else classes
    labels = np.asarray(labels)
    positive = np.asarray(truth == labels[-1])
    two = len(labels) == 2
    with report_style():
        figures = [_confusion(labels, truth, predicted, of)]
        if two and scores is not None and 0 < positive.sum() < len(truth):
            figures.append(
                roc_figure(positive, np.asarray(scores, dtype=float), f"class {labels[-1]}")
            )
        if probability is not None:
            chances = np.asarray(probability, dtype=float)
            if two:
                figures.append(_reliability(positive, chances[:, -1], f"class {labels[-1]}"))
            else:
                hit = labels[chances.argmax(axis=1)] == truth
                figures.append(_reliability(hit, chances.max(axis=1), "the likeliest class"))
    return figures


def roc_figure(positive: NDArray[np.bool_], scores: Array, what: str) -> Captioned:
    """Draw the ROC curve of scores for what is positive."""
    from sklearn.metrics import RocCurveDisplay, roc_auc_score

    figure, ax = report_axes(height=3.8)
    area = format_number(roc_auc_score(positive, scores))
    curve = RocCurveDisplay.from_predictions(positive, scores, plot_chance_level=True, ax=ax)
    curve.line_.set(color=PALETTE[0], linewidth=2.0, label=f"model, area {area}")
    curve.chance_level_.set(color=FAINT, linewidth=1.0, label="chance")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    tidy(ax)
    draw_legend(ax)
    figure.set_label(f"ROC curve for {what}: the area under it is {area}.")
    return f"ROC curve for {what}", figure


def _confusion(
    classes: NDArray[Any], y: NDArray[Any], predicted: NDArray[Any], of: str
) -> Captioned:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
    from sklearn.utils.multiclass import unique_labels

    labels = unique_labels(classes, y, predicted)
    counts = confusion_matrix(y, predicted, labels=labels)
    n = len(labels)
    named = n <= MAX_NAMED_CLASSES
    names = [literal_text(label, max_length=12) for label in labels]
    crowded = n > 4 and max(len(name) for name in names) > 3
    # Shades are degrees of transparency, so that the text on them fits a light and a dark page.
    shades = LinearSegmentedColormap.from_list(
        "shades", [to_rgba(PALETTE[0], 0.04), to_rgba(PALETTE[0], 0.75)]
    )
    figure, ax = report_axes(height=4.2 if n > 4 else 3.6)
    drawn = ConfusionMatrixDisplay(counts, display_labels=names).plot(
        ax=ax,
        cmap=shades,
        colorbar=False,
        include_values=named,
        values_format=",",
        text_kw={"color": INK, "fontsize": 9.5 if n <= 6 else 7.0},
        xticks_rotation=45 if crowded else "horizontal",
    )
    # Numbers are rows, shades their share of the true class.
    drawn.im_.set(data=counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), clim=(0.0, 1.0))
    ax.set(xlabel="Predicted class", ylabel="True class")
    if not named:
        ax.set(xticks=[], yticks=[])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    right, total = format_number(np.trace(counts)), format_number(len(y))
    figure.set_label(
        f"Confusion matrix of {n} classes: {right} of {total} rows are on its diagonal."
    )
    return f"Confusion matrix of {of}", figure


def _reliability(outcome: NDArray[np.bool_], probability: Array, of_what: str) -> Captioned:
    from sklearn.calibration import CalibrationDisplay

    figure, ax = report_diagonal()
    # Bins of equally many rows: bins of equal width can be nearly empty, hence very noisy.
    drawn = CalibrationDisplay.from_predictions(
        outcome.astype(int),
        np.clip(probability, 0.0, 1.0),
        n_bins=10,
        strategy="quantile",
        name="model",
        ref_line=False,
        ax=ax,
        color=PALETTE[0],
        marker="o",
        linewidth=2.0,
        markersize=5,
    )
    ax.set_xlabel(literal_text(f"Predicted probability of {of_what}", max_length=48))
    ax.set_ylabel("Observed fraction")
    tidy(ax)
    draw_legend(ax)
    gap = format_number(float(np.abs(drawn.prob_true - drawn.prob_pred).max()))
    figure.set_label(
        f"Reliability diagram for {of_what}: predicted probabilities and observed fractions "
        f"differ by at most {gap} in {len(drawn.prob_pred)} groups of rows."
    )
    return f"Reliability of the probability of {of_what}", figure


# A cloud of more points looks the same and only makes the file larger.
_MAX_POINTS = 1500
_MAX_CURVES = len(PALETTE)
# Groups of neighbours on the axis of predictions, in which the spread of errors is shown.
_GROUPS, _ROWS_OF_A_GROUP = 12, 15


def quantity_figures(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    levels: ArrayLike | None = None,
    of: str = "held-out rows",
) -> list[tuple[str, Figure]]:
    """Draw predicted quantities against the true ones.

    True against predicted values, the errors over the predicted values with the middle of their
    neighbours, and how the errors are distributed; of several quantiles also how many rows are
    below each.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        True values.
    y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Predictions, with one column per target or, for a single target, per quantile. The first 7
        are drawn.
    labels : sequence of str, default=None
        Names of the columns of ``y_pred``; by default their numbers.
    levels : array-like of shape (n_outputs,), default=None
        Levels of the quantiles that the columns are, if they are quantiles of one target.
    of : str, default="held-out rows"
        What rows these are, for the captions.

    Returns
    -------
    figures : list of (str, matplotlib Figure)
        Caption and figure, as :func:`mercer_app.report.write_report` takes them; free of pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there are no rows, or the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.linspace(0.0, 1.0, 50)
    >>> for caption, figure in quantity_figures(truth, truth**2):
    ...     print(caption)
    True against predicted values of held-out rows
    Errors of held-out rows over their predictions
    Errors of held-out rows (extremes in the end bars)
    """
    truth = np.asarray(y_true, dtype=float)
    predicted = np.asarray(y_pred, dtype=float)
    if not truth.size or len(truth) != len(predicted):
        raise ValueError(
            f"`y_true` and `y_pred` must have the same rows, at least one, got {len(truth)} and "
            f"{len(predicted)}."
        )
    truth, predicted = truth.reshape(len(truth), -1), predicted.reshape(len(truth), -1)
    n_outputs = predicted.shape[1]
    if n_outputs % truth.shape[1]:
        raise ValueError(
            f"`y_pred` has {n_outputs} columns, which are no outputs of {truth.shape[1]} targets."
        )
    names = [f"output {j}" for j in range(n_outputs)] if labels is None else list(labels)
    # Several quantiles of one target are columns side by side, and all compare with that target.
    truth = np.repeat(truth, n_outputs // truth.shape[1], axis=1)
    shown = slice(min(n_outputs, _MAX_CURVES))
    clouds = _Clouds(truth[:, shown], predicted[:, shown], names[shown], of)
    with report_style():
        figures = [clouds.against(), clouds.errors(), clouds.distribution()]
        if levels is not None and np.size(levels) == n_outputs > 1:
            figures.append(_below(truth, predicted, np.asarray(levels, dtype=float), of))
    return figures


class _Clouds:
    """True values, predictions and errors of the same rows, drawn in three ways."""

    def __init__(self, truth: Array, predicted: Array, labels: Sequence[str], of: str) -> None:
        self.truth, self.predicted, self.of = truth, predicted, of
        self.off = predicted - truth
        self.labels = [literal_text(label) for label in labels]
        self.alone = len(labels) == 1

    def against(self) -> Captioned:
        """Draw true values over predicted ones, ideal on the diagonal."""
        from matplotlib.ticker import AutoLocator
        from sklearn.metrics import PredictionErrorDisplay

        figure, ax = report_axes(height=3.8)
        rows = self.rows()
        for j in range(len(self.labels)):
            ideal = {"color": INK, "linewidth": 1.0, "zorder": 3, "alpha": 1.0}
            PredictionErrorDisplay(y_true=self.truth[rows, j], y_pred=self.predicted[rows, j]).plot(
                ax,
                kind="actual_vs_predicted",
                scatter_kwargs=self.style(j),
                line_kwargs={**ideal, "label": None if j else "ideal"},
            )
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(AutoLocator())
        ax.set_ylabel("True value")
        self._finish(ax)
        correlation = _correlation(self.truth, self.predicted)
        figure.set_label(
            "Scatter plot of true against predicted values, ideal on the diagonal"
            + (f"; their correlation is {format_number(correlation)}." if correlation else ".")
        )
        return f"True against predicted values of {self.of}", figure

    def errors(self) -> Captioned:
        """Draw errors over predictions, with the middle half of neighbours."""
        figure, ax = report_axes(height=3.8)
        ax.axhline(0.0, color=INK, linewidth=1.0, linestyle="dashed", zorder=3)
        rows = self.rows()
        for j in range(len(self.labels)):
            ax.scatter(self.predicted[rows, j], self.off[rows, j], **self.style(j))
        said = ""
        groups = min(_GROUPS, len(self.off) // _ROWS_OF_A_GROUP)
        if self.alone and groups > 1 and np.ptp(self.predicted) > 0.0:
            order = np.argsort(self.predicted[:, 0], kind="stable")
            parts = np.array_split(order, groups)
            at = [float(np.median(self.predicted[part])) for part in parts]
            low, middle, high = np.transpose(
                [np.percentile(self.off[part], [25, 50, 75]) for part in parts]
            )
            ax.fill_between(
                at, low, high, color=PALETTE[1], alpha=0.35, linewidth=0, label="middle half"
            )
            ax.plot(at, middle, color=PALETTE[3], linewidth=2.0, label="median of neighbours")
            spread = [format_number(float(high[i] - low[i])) for i in (0, -1)]
            said = (
                f" The middle half of the errors spans {spread[0]} at the smallest predictions "
                f"and {spread[1]} at the largest."
            )
        ax.set_ylabel("Error: prediction minus truth")
        self._finish(ax)
        figure.set_label(f"Scatter plot of the errors over the predictions.{said}")
        return f"Errors of {self.of} over their predictions", figure

    def distribution(self) -> Captioned:
        """Draw how the errors are distributed."""
        figure, ax = report_axes()
        edges = bar_edges(self.off)
        for j, label in enumerate(self.labels):
            counts, _ = np.histogram(np.clip(self.off[:, j], edges[0], edges[-1]), bins=edges)
            ax.stairs(
                counts,
                edges,
                fill=self.alone,
                color=PALETTE[j],
                linewidth=1.6,
                label=None if self.alone else label,
            )
        ax.axvline(0.0, color=INK, linewidth=1.0, linestyle="dashed")
        short_ticks(ax.xaxis)
        ax.set_xlabel("Error: prediction minus truth")
        ax.set_ylabel("Rows")
        tidy(ax)
        draw_legend(ax)
        middle = format_number(float(np.median(self.off)))
        spread = format_number(float(np.subtract(*np.percentile(self.off, [75, 25]))))
        figure.set_label(
            f"Histogram of the errors: the median is {middle}, the middle half spans {spread}."
        )
        return f"Errors of {self.of} (extremes in the end bars)", figure

    def rows(self) -> NDArray[np.intp]:
        """Return the rows to draw as points."""
        return subsample(len(self.truth), _MAX_POINTS // len(self.labels))

    def style(self, j: int) -> dict[str, Any]:
        """Say how points of an output look."""
        label = "row" if self.alone else self.labels[j]
        return {"s": 9, "color": PALETTE[j], "alpha": 0.55, "linewidths": 0, "label": label}

    def _finish(self, ax: Axes) -> None:
        ax.set_xlabel("Predicted value")
        short_ticks(ax.xaxis)
        short_ticks(ax.yaxis)
        tidy(ax)
        draw_legend(ax)


def _correlation(truth: Array, predicted: Array) -> float | None:
    a, b = truth[:, 0] - truth[:, 0].mean(), predicted[:, 0] - predicted[:, 0].mean()
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / scale if scale > 0 and truth.shape[1] == 1 else None


def _below(truth: Array, predicted: Array, levels: Array, of: str) -> Captioned:
    """Draw how many rows are below the quantile of each level."""
    order = np.argsort(levels)
    shares = np.mean(truth <= predicted, axis=0)[order]
    figure, ax = report_diagonal()
    ax.plot(
        levels[order], shares, color=PALETTE[0], marker="o", markersize=5, linewidth=2.0,
        label="model",
    )  # fmt: skip
    ax.set_xlabel("Level of the quantile")
    ax.set_ylabel("Rows below it")
    tidy(ax)
    draw_legend(ax)
    gap = format_number(float(np.abs(shares - levels[order]).max()))
    figure.set_label(
        f"Reliability of {levels.size} quantiles: levels and shares of rows below them differ by "
        f"at most {gap}."
    )
    return f"Reliability of the quantiles: {of} below them", figure


_KINDS = {
    "same": ("different", "same"),
    "sign": ("first below second", "first above second"),
    "difference": ("first below second", "first above second"),
}
# A curve or cloud of more points looks the same and only makes the file larger.


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
