"""Figures of predicted and true classes: which are confused, and how good the scores are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display.drawing import (
    FAINT,
    INK,
    PALETTE,
    draw_legend,
    format_number,
    literal_text,
    report_axes,
    report_diagonal,
    report_style,
    tidy,
)

if TYPE_CHECKING:
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
