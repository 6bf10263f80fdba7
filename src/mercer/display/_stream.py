"""The picture of a stream: its loss, where it changed, and which ways to learn counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display._runs import FEW, HistoryLike, draw_changes, history_columns, label_rows
from mercer.display.drawing import (
    PALETTE,
    draw_legend,
    literal_text,
    require_matplotlib,
    short_ticks,
    tidy,
    wrapped_text,
)
from mercer.inspection import history_of, objective_name, weighs_ways

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

Array = NDArray[np.float64]

# Windows that are drawn: of more, neighbours are joined, as the losses of a few rows jump.
_MAX_WINDOWS = 100
# Share of the height of the lower picture that a label takes.
_LABEL = 0.125
# Neighbours in this order differ most, in lightness too.
_COLORS = tuple(PALETTE[i] for i in (0, 1, 2, 5, 4, 3))
# Letters of a name, so that labels leave room for the picture.
_NAME = 22


class StreamDisplay:
    """Loss along a stream with the changes found in it, and below what the answers came from.

    The upper picture is the mean loss of windows of rows, each predicted before it was learned,
    with a dashed line wherever the losses said that the stream had changed. The lower one stacks
    the weights of the kinds of ways that learn side by side, as they were on the mean in each
    window; they are 0 for the few rows before the ways start.

    Parameters
    ----------
    n_samples : array-like of shape (n_records,)
        Rows learned at each record, increasing.
    loss : array-like of shape (n_records,)
        Mean loss of the rows since the previous record.
    weights : mapping of str to array-like of shape (n_records,)
        Weight of each kind of way, a mean over the rows of each record; ``history_.monitors``.
    changes : array-like of shape (n_changes,), default=()
        Rows after which changes were found; ``history_.changes``.
    loss_name : str, default="loss"
        Name for the label of the upper vertical axis.

    Attributes
    ----------
    ends : ndarray of shape (n_windows,)
        Rows learned at the end of each window that is drawn, at most 100.
    window_loss : ndarray of shape (n_windows,)
        Mean loss of each window.
    window_weights : dict of str to ndarray of shape (n_windows,)
        Mean weight of each kind of way.
    ax_, weights_ax_ : matplotlib Axes
        Upper and lower picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    line_ : matplotlib Line2D
        The loss.
    change_lines_ : list of matplotlib LineCollection
        The changes in the upper and in the lower picture; empty if there are none.
    areas_ : list of matplotlib PolyCollection
        The weights, from the bottom to the top.
    labels_ : list of matplotlib Annotation
        The name and the last weight of each; empty if all weights are 0.

    Raises
    ------
    ValueError
        If there are no weights, or the columns differ in length or are empty.

    See Also
    --------
    LearningCurveDisplay : The loss of any model.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> weights = {"steps": [0.9, 0.4], "sums": [0.1, 0.6]}
    >>> display = StreamDisplay(n_samples=[64, 128], loss=[0.7, 0.3], weights=weights, changes=[90])
    >>> display = display.plot(Figure().subplots(2, 1, sharex=True))
    >>> [label.get_text() for label in display.labels_]
    ['steps 40 %', 'sums 60 %']
    """

    ax_: Axes
    weights_ax_: Axes
    figure_: Figure
    line_: Line2D
    change_lines_: list[LineCollection]
    areas_: list[PolyCollection]
    labels_: list[Annotation]

    def __init__(
        self,
        *,
        n_samples: ArrayLike,
        loss: ArrayLike,
        weights: Mapping[str, ArrayLike],
        changes: ArrayLike = (),
        loss_name: str = "loss",
    ) -> None:
        if not weights:
            raise ValueError(
                "There are no weights of ways, so there is nothing to draw. Pass the `monitors` of "
                "the history of a model that follows a stream, or use LearningCurveDisplay."
            )
        named = {f"weights[{name!r}]": column for name, column in weights.items()}
        self.n_samples, self.loss, *columns = history_columns(
            n_samples=n_samples, loss=loss, **named
        )
        self.weights = dict(zip(weights, columns, strict=True))
        self.changes = np.asarray(changes, dtype=float).reshape(-1)
        self.loss_name = loss_name
        last = np.linspace(0, len(self.loss), min(_MAX_WINDOWS, len(self.loss)) + 1)
        self._starts = last.round().astype(int)[:-1]
        self.ends = self.n_samples[np.append(self._starts[1:], len(self.loss)) - 1]
        self.window_loss = self._mean(self.loss)
        self.window_weights = {name: self._mean(column) for name, column in self.weights.items()}

    def _mean(self, column: Array) -> Array:
        """Mean over the rows of each window."""
        rows = np.diff(self.n_samples, prepend=0.0)
        sums = np.add.reduceat(rows * column, self._starts)
        return np.asarray(sums / np.add.reduceat(rows, self._starts))

    def plot(self, axes: Sequence[Axes] | None = None) -> Self:
        """Draw both pictures.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Where to draw the losses and the weights; a new pyplot figure if None.

        Returns
        -------
        self : StreamDisplay

        Raises
        ------
        ValueError
            If ``axes`` are not two.
        """
        self.ax_, self.weights_ax_ = _two_axes(axes)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        self._draw_weights(self.weights_ax_)
        self._draw_loss(self.ax_)
        return self

    def _draw_loss(self, ax: Axes) -> None:
        (self.line_,) = ax.plot(
            self.ends, self.window_loss, color=PALETTE[0], linewidth=2.0, label="loss of a window"
        )
        if len(self.ends) <= FEW:
            self.line_.set(marker="o", clip_on=False)
        self.change_lines_ = []
        if self.changes.size:
            n = f"{self.changes.size:,}" + " of them" * (self.changes.size > 1)
            for one, label in ((ax, f"a change was found ({n})"), (self.weights_ax_, "")):
                self.change_lines_.append(draw_changes(one, self.changes, label))
        finite = self.window_loss[np.isfinite(self.window_loss)]
        if finite.size and finite.min() >= 0.0:
            if finite.min() > 0.0 and finite.max() > 100.0 * finite.min():
                ax.set_yscale("log")
            else:
                ax.set_ylim(bottom=0.0)
        ax.tick_params(axis="x", labelbottom=False)
        short_ticks(ax.yaxis)
        ax.set_ylabel(wrapped_text(f"Mean {self.loss_name}", width=24))
        tidy(ax)
        draw_legend(ax)

    def _draw_weights(self, ax: Axes) -> None:
        # Each window has one weight of each, from its first row to its last.
        edges = np.append(0.0, self.ends)
        heights = [np.append(column[:1], column) for column in self.window_weights.values()]
        colors = [_COLORS[i % len(_COLORS)] for i in range(len(heights))]
        self.areas_ = ax.stackplot(
            edges, heights, colors=colors, step="pre", edgecolor=ax.get_facecolor(), linewidth=0.6
        )
        ax.set(xlim=(0.0, self.ends[-1]), ylim=(0.0, 1.0))
        ax.set_ylabel("Weight of ways")
        label_rows(ax)
        tidy(ax, grid=False)
        self.labels_ = []
        if not any(column.any() for column in self.weights.values()):
            ax.text(0.5, 0.5, "no way has started yet", ha="center", transform=ax.transAxes)
            return
        # As they are now, not on the mean of the last window that is drawn.
        now = np.array([column[-1] for column in self.weights.values()])
        middles = np.cumsum(now) - 0.5 * now
        places = _apart(middles, min(_LABEL, 1.0 / len(now)))
        rows = zip(self.weights, now, middles, places, colors, strict=True)
        for name, weight, middle, place, color in rows:
            label = ax.annotate(
                f"{literal_text(name, max_length=_NAME)} {100.0 * weight:.0f} %",
                xy=(1.0, middle),
                xytext=(1.05, place),
                xycoords="axes fraction",
                va="center",
                arrowprops={
                    "arrowstyle": "-",
                    "color": color,
                    "linewidth": 2.5,
                    "relpos": (0.0, 0.5),
                    "shrinkA": 0.0,
                    "shrinkB": 0.0,
                },
            )
            self.labels_.append(label)

    @classmethod
    def from_history(
        cls, history: HistoryLike, *, loss_name: str = "loss", axes: Sequence[Axes] | None = None
    ) -> Self:
        """Draw the history of a model that follows a stream; see :meth:`plot`.

        Raises
        ------
        ValueError
            If the history is of another model.
        """
        if not weighs_ways(history):
            raise ValueError(
                "The history has no weights of ways: only KernelClassifier and KernelRegressor "
                "with expansion='stream' have several ways side by side, as they begin with "
                "`learn_one`. Use LearningCurveDisplay for other models."
            )
        run: Any = history
        display = cls(
            n_samples=run.n_samples,
            loss=run.loss,
            weights=run.monitors,
            changes=run.changes,
            loss_name=loss_name,
        )
        return display.plot(axes)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, loss_name: str | None = None, axes: Sequence[Axes] | None = None
    ) -> Self:
        """Draw how a model followed its stream.

        Parameters
        ----------
        estimator : estimator with ``history_``, or a Pipeline that ends in one
            KernelClassifier or KernelRegressor of the default of streams.
        loss_name : str, default=None
            Name for the label; the estimator's loss if None.
        axes : sequence of two matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : StreamDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator has not learned any rows.
        ValueError
            If it has another expansion.
        """
        name = objective_name(estimator) if loss_name is None else loss_name
        return cls.from_history(history_of(estimator), loss_name=name, axes=axes)


def _two_axes(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    """Return two axes; None makes a new pyplot figure."""
    require_matplotlib()
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(2, 1, sharex=True, layout="constrained", height_ratios=(1.0, 1.1))
    found = np.ravel(np.array(axes, dtype=object))
    if found.size != 2:
        raise ValueError(
            f"`axes` must be two matplotlib Axes, for the losses and for the weights, got "
            f"{found.size}. Make them with `plt.subplots(2, 1, sharex=True)`."
        )
    return found[0], found[1]


def _apart(middles: Array, gap: float) -> Array:
    """Places in order, no closer than ``gap`` and within 0 and 1, near those that are asked for.

    Examples
    --------
    >>> _apart(np.array([0.5, 0.5, 0.9]), 0.2).round(2).tolist()
    [0.4, 0.6, 0.9]
    """
    n = len(middles)
    low, high = 0.5 * gap, 1.0 - 0.5 * gap
    # The nearest ones by least squares: those without gaps, kept in order by pooling neighbours.
    offsets = gap * np.arange(n)
    pools: list[tuple[float, int]] = []
    for value in middles - offsets:
        mean, count = float(value), 1
        while pools and pools[-1][0] >= mean:
            before, number = pools.pop()
            mean, count = (before * number + mean * count) / (number + count), number + count
        pools.append((mean, count))
    shifted = np.concatenate([np.full(count, mean) for mean, count in pools])
    return np.asarray(np.clip(shifted, low, max(low, high - offsets[-1])) + offsets)
