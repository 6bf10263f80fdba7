"""Pictures of how well scores order rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display.drawing import (
    PALETTE,
    bar_edges,
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

Array = NDArray[np.float64]
_MAX_GRADES = 12


class RankingDisplay:
    """Scores of rows against their targets: a good ranking pulls them apart in order.

    Shows a histogram per class for two classes, a box per grade for up to twelve grades, otherwise
    a scatter plot. Only differences of scores have a meaning, with groups only differences within a
    group, so the mean score of each group is subtracted.

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
        If the arrays are not vectors of one length, or a score is not finite.

    See Also
    --------
    sklearn.metrics.RocCurveDisplay : How well scores tell two classes apart.

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
        edges = bar_edges(shown)
        for i, (value, label) in enumerate(zip(self.values, self.labels, strict=True)):
            own = np.clip(shown[self.y == value], edges[0], edges[-1])
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
        """Draw the scores of a fitted ranker, or of another model with one score per row.

        Parameters
        ----------
        estimator : fitted estimator, or a Pipeline that ends in one
            Model with a ``decision_function``.
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
