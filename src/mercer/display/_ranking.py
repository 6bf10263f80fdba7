"""Pictures of how well scores tell two classes apart or order rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display.drawing import (
    FAINT,
    PALETTE,
    draw_legend,
    foreground,
    format_number,
    literal_text,
    new_axes,
    short_ticks,
    subsample,
    tidy,
)
from mercer.inspection import final_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# A curve of more points looks the same and only makes the file larger.
_MAX_POINTS = 400
_CHANCE = "mercer-chance"
Array = NDArray[np.float64]
_MAX_GRADES = 12
_N_BINS = 40


class ROCCurveDisplay:
    """Share of the positive rows that are found, over the share of the others taken for such.

    The area under the curve (AUC) is the probability that a positive row has a higher score than
    a negative one: what :class:`mercer.KernelRanker` maximises. Models drawn into the same axes
    compare.

    Parameters
    ----------
    fpr, tpr : array-like of shape (n_points,)
        False and true positive rates, from 0 to 1.
    roc_auc : float, default=None
        Area under the curve; computed from the points if None.
    pos_label : label, default=None
        Class that counts as positive, for the labels of the axes.
    name : str, default="model"
        Name of the model in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    line_ : matplotlib Line2D
        The curve.

    Raises
    ------
    ValueError
        If the rates are no vectors of one length.

    See Also
    --------
    RankingDisplay : The scores themselves.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> y, scores = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]
    >>> display = ROCCurveDisplay.from_predictions(y, scores, ax=Figure().subplots())
    >>> display.roc_auc
    0.75
    """

    ax_: Axes
    figure_: Figure
    line_: Line2D

    def __init__(
        self,
        *,
        fpr: ArrayLike,
        tpr: ArrayLike,
        roc_auc: float | None = None,
        pos_label: Any = None,
        name: str = "model",
    ) -> None:
        self.fpr, self.tpr = np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)
        if self.fpr.ndim != 1 or self.fpr.shape != self.tpr.shape or self.fpr.size < 2:
            raise ValueError(
                "`fpr` and `tpr` must be vectors of one length, at least 2, got shapes "
                f"{self.fpr.shape} and {self.tpr.shape}."
            )
        # The name of NumPy's rule of trapezoids depends on its version.
        area = np.sum(np.diff(self.fpr) * (self.tpr[1:] + self.tpr[:-1]) / 2.0)
        self.roc_auc = float(area if roc_auc is None else roc_auc)
        self.pos_label, self.name = pos_label, name

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None. Axes with curves of other models get one
            more, in the next colour.
        **line_kwargs
            Passed to ``ax.plot``.

        Returns
        -------
        self : ROCCurveDisplay
        """
        self.ax_ = ax = new_axes(ax)
        self.figure_ = ax.figure  # type: ignore[assignment]
        if not any(line.get_gid() == _CHANCE for line in ax.lines):
            style: dict[str, Any] = {"color": FAINT, "linestyle": "dashed", "linewidth": 1.0}
            ax.plot([0, 1], [0, 1], label="chance", gid=_CHANCE, **style)
        n_before = len(ax.get_legend_handles_labels()[0]) - 1
        places = np.linspace(0, self.fpr.size - 1, min(self.fpr.size, _MAX_POINTS))
        rows = np.unique(places.round().astype(int))
        style = {
            "color": PALETTE[n_before % len(PALETTE)],
            "linewidth": 2.0,
            "label": f"{literal_text(self.name)}, area {format_number(self.roc_auc)}",
            **line_kwargs,
        }
        (self.line_,) = ax.plot(self.fpr[rows], self.tpr[rows], **style)
        ax.set(aspect="equal", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        of = "" if self.pos_label is None else f" (positive: {self.pos_label})"
        ax.set_xlabel(literal_text(f"False positive rate{of}", max_length=48))
        ax.set_ylabel("True positive rate")
        tidy(ax)
        draw_legend(ax)
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str = "model",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the curve of scores.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
            Two classes.
        y_score : array-like of shape (n_rows,)
            Scores, higher for the positive class.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        pos_label : label, default=None
            The positive class; None: the second of the two in order.
        name, ax, **line_kwargs
            As for the class and in :meth:`plot`.

        Returns
        -------
        display : ROCCurveDisplay

        Raises
        ------
        ValueError
            If there are not two classes, or the positive one is none of them.
        """
        from sklearn.metrics import auc, roc_curve

        positive, label = _positive(np.asarray(y_true), pos_label)
        fpr, tpr, _ = roc_curve(positive, y_score, sample_weight=sample_weight)
        shown = cls(fpr=fpr, tpr=tpr, roc_auc=auc(fpr, tpr), pos_label=label, name=name)
        return shown.plot(ax, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the curve of a fitted ranker, classifier of two classes or novelty detector.

        Parameters
        ----------
        estimator : fitted estimator, or a Pipeline that ends in one
            With ``decision_function``.
        X : array-like of shape (n_rows, n_features)
            Inputs; take rows that were not learned.
        y : array-like of shape (n_rows,)
            Two classes.
        sample_weight, pos_label
            As in :meth:`from_predictions`.
        name : str, default=None
            Name in the legend; the class of the estimator if None.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : ROCCurveDisplay

        Raises
        ------
        AttributeError
            If the estimator has no scores.
        ValueError
            As :meth:`from_predictions`, and for scores of more than two classes.
        """
        scores = np.asarray(estimator.decision_function(X), dtype=float)
        if scores.ndim != 1:
            raise ValueError(
                f"A ROC curve is of two classes, but the model has {scores.shape[1]} scores a row. "
                "Draw `from_predictions(y == label, scores[:, i])` for each class."
            )
        label = pos_label
        classes = getattr(estimator, "classes_", None)
        if classes is not None and len(classes) == 2:
            label = classes[-1] if pos_label is None else pos_label
            scores = scores if label == classes[-1] else -scores
        return cls.from_predictions(
            y,
            scores,
            sample_weight=sample_weight,
            pos_label=label,
            name=type(final_model(estimator)).__name__ if name is None else name,
            ax=ax,
            **line_kwargs,
        )


def _positive(y: NDArray[Any], pos_label: Any) -> tuple[NDArray[np.bool_], Any]:
    """Which rows are positive, and the label of these."""
    labels = np.unique(y)
    if labels.size != 2:
        raise ValueError(
            f"A ROC curve is of two classes, got {labels.size} value(s) such as "
            f"{labels[:3].tolist()}. For graded targets use RankingDisplay."
        )
    label = labels[1] if pos_label is None else pos_label
    if label not in labels.tolist():
        raise ValueError(f"`pos_label` must be one of {labels.tolist()}, got {pos_label!r}.")
    return y == label, label


class RankingDisplay:
    """Scores of rows against their targets: a good ranking pulls them apart in order.

    For two classes a histogram of each, for up to twelve grades a box of each, else a cloud of
    points. Only differences of scores mean something, with groups only those within a group: there
    the mean score of the group is taken off.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Classes, grades or numbers.
    scores : array-like of shape (n_rows,)
        Scores.
    group : array-like of shape (n_rows,), default=None
        Group of each row.
    labels : sequence of str, default=None
        Names of the sorted values of ``y``; these themselves if None.
    score_name : str, default="score"
        Name for the label of the axis.
    unit : str, default="rows"
        What has scores.

    Attributes
    ----------
    values : ndarray of shape (n_values,)
        The sorted values of ``y``.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.

    Raises
    ------
    ValueError
        If the arrays are no vectors of one length, or a score is not finite.

    See Also
    --------
    ROCCurveDisplay : How well scores tell two classes apart.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = RankingDisplay(y=["no", "yes", "no"], scores=[0.1, 0.9, 0.3])
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'Share of the rows of a class'
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        *,
        y: ArrayLike,
        scores: ArrayLike,
        group: ArrayLike | None = None,
        labels: Any = None,
        score_name: str = "score",
        unit: str = "rows",
    ) -> None:
        self.y, self.scores = np.asarray(y), np.asarray(scores, dtype=float)
        self.group = None if group is None else np.asarray(group)
        vectors = [self.y, self.scores] + ([] if self.group is None else [self.group])
        if self.scores.ndim != 1 or any(v.shape != self.scores.shape for v in vectors):
            shapes = ", ".join(str(v.shape) for v in vectors)
            raise ValueError(
                "`y`, `scores` and `group` must be vectors with one entry a row, got shapes "
                f"{shapes}."
            )
        if self.scores.size == 0 or not np.isfinite(self.scores).all():
            raise ValueError("`scores` must be finite, and there must be some.")
        self.values = np.unique(self.y)
        self.labels = list(map(str, self.values.tolist() if labels is None else labels))
        if len(self.labels) != self.values.size:
            raise ValueError(
                f"`labels` must name the {self.values.size} values of `y`, got {labels!r}."
            )
        self.score_name, self.unit = score_name, unit

    def plot(self, ax: Axes | None = None, *, max_points: int = 1500) -> Self:
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_points : int, default=1500
            Points of a cloud at most: an even sample.

        Returns
        -------
        self : RankingDisplay
        """
        self.ax_ = ax = new_axes(ax)
        self.figure_ = ax.figure  # type: ignore[assignment]
        shown, name = self.scores, self.score_name
        if self.group is not None:
            shown, name = _centred(shown, self.group), f"{name} minus the mean of its group"
        name = literal_text(name[:1].upper() + name[1:], max_length=60)
        if self.values.size <= 2:
            self._draw_histograms(ax, shown, name)
        elif self.values.size <= _MAX_GRADES:
            self._draw_boxes(ax, shown, name)
        else:
            rows = subsample(shown.size, max_points)
            style: dict[str, Any] = {"s": 9, "color": PALETTE[0], "alpha": 0.45, "linewidths": 0}
            ax.scatter(self.y[rows].astype(float), shown[rows], **style)
            short_ticks(ax.xaxis)
            ax.set_xlabel("Target")
            ax.set_ylabel(name)
        tidy(ax)
        draw_legend(ax)
        return self

    def _draw_histograms(self, ax: Axes, shown: Array, name: str) -> None:
        # The outer half per cent would squeeze all others into a few bars; it goes into the ends.
        low, high = np.percentile(shown, [0.5, 99.5])
        if high <= low:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, _N_BINS + 1)
        for i, (value, label) in enumerate(zip(self.values, self.labels, strict=True)):
            own = np.clip(shown[self.y == value], low, high)
            shares = np.histogram(own, bins=edges)[0] / own.size
            text = f"{literal_text(label)}: {format_number(own.size)} {self.unit}"
            ax.stairs(shares, edges, fill=True, color=PALETTE[i], alpha=0.3)
            ax.stairs(shares, edges, color=PALETTE[i], linewidth=1.6, label=text)
        ax.set_xlabel(name)
        ax.set_ylabel(f"Share of the {self.unit} of a class")

    def _draw_boxes(self, ax: Axes, shown: Array, name: str) -> None:
        parts = [shown[self.y == value] for value in self.values]
        drawn = ax.boxplot(parts, whis=(5, 95), showfliers=False, widths=0.6, patch_artist=True)
        for box in drawn["boxes"]:
            box.set(facecolor=PALETTE[0], alpha=0.35, edgecolor=PALETTE[0])
        for line in [*drawn["whiskers"], *drawn["caps"]]:
            line.set(color=PALETTE[0])
        for line in drawn["medians"]:
            line.set(color=foreground(ax), linewidth=1.6)
        names = [literal_text(label, max_length=12) for label in self.labels]
        ax.set_xticks(np.arange(1, len(parts) + 1), names)
        ax.set_xlabel("Target (box: middle half of its rows; whiskers: 5 to 95 %)")
        ax.set_ylabel(name)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        group: ArrayLike | None = None,
        labels: Any = None,
        score_name: str = "score",
        unit: str = "rows",
        ax: Axes | None = None,
        max_points: int = 1500,
    ) -> Self:
        """Draw scores.

        Parameters
        ----------
        y_true, y_score : array-like of shape (n_rows,)
            Targets and scores.
        group, labels, score_name, unit
            As for the class.
        ax, max_points
            As in :meth:`plot`.

        Returns
        -------
        display : RankingDisplay
        """
        shown = cls(
            y=y_true, scores=y_score, group=group, labels=labels, score_name=score_name, unit=unit
        )
        return shown.plot(ax, max_points=max_points)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        group: ArrayLike | None = None,
        labels: Any = None,
        ax: Axes | None = None,
        max_points: int = 1500,
    ) -> Self:
        """Draw the scores of a fitted ranker, or of anything else with one score a row.

        Parameters
        ----------
        estimator : fitted estimator, or a Pipeline that ends in one
            With ``decision_function``.
        X : array-like of shape (n_rows, n_features)
            Inputs; take rows that were not learned.
        y : array-like of shape (n_rows,)
            Targets.
        group, labels
            As for the class.
        ax, max_points
            As in :meth:`plot`.

        Returns
        -------
        display : RankingDisplay

        Raises
        ------
        AttributeError
            If the estimator has no scores.
        """
        return cls.from_predictions(
            y,
            estimator.decision_function(X),
            group=group,
            labels=labels,
            score_name=f"score by {type(final_model(estimator)).__name__}",
            ax=ax,
            max_points=max_points,
        )


def _centred(scores: Array, group: NDArray[Any]) -> Array:
    """Scores minus the mean of their group."""
    _, numbers = np.unique(group, return_inverse=True)
    return scores - (np.bincount(numbers, scores) / np.bincount(numbers))[numbers]
