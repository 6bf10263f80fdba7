"""Figures of predicted and true quantities: size, place and direction of the errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display.drawing import (
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Captioned = tuple[str, "Figure"]
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
