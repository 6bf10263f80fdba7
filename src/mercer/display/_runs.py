"""Pictures of a run over the rows learned: loss, model order, a stream followed, and a race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

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
    require_matplotlib,
    short_ticks,
    tidy,
    wrapped_text,
)
from mercer.inspection import (
    SHARE,
    history_of,
    monitor_words,
    name_of_loss,
    objective_name,
    race_table,
    size_unit,
    unit_of_loss,
    way_of,
    weighs_ways,
)
from mercer.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

# With at most this many records, each gets a mark: nothing was measured between records, and a line
# through a single record would be invisible.
FEW = 12
Array = NDArray[np.float64]
_MAX_GROUPS = 50
# So many marks of changes are drawn faint.
_MANY_CHANGES = 40
_DASHES = ("solid", "dashed", "dotted", "dashdot")


class HistoryLike(Protocol):
    """What a picture of a run reads: one-dimensional arrays of equal length, a value a record."""

    @property
    def n_samples(self) -> NDArray[Any]:
        """Rows learned when the record was made, increasing."""

    @property
    def loss(self) -> NDArray[Any]:
        """Mean test-then-train loss of the rows since the previous record; of a risk its value."""

    @property
    def model_order(self) -> NDArray[Any]:
        """Dictionary points or random features in the model."""

    @property
    def compression_error(self) -> NDArray[Any]:
        """Largest error of a step since the previous record, in the RKHS norm."""

    @property
    def step_size(self) -> NDArray[Any]:
        """Step size of the last step."""


def history_columns(**columns: ArrayLike) -> list[NDArray[np.float64]]:
    """Check that the columns of a history are one-dimensional, of equal length and not empty."""
    arrays = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
        raise ValueError(
            f"The columns of a history must be one-dimensional and equally long, got shapes "
            f"{shapes}. Pass one value per record in each of them."
        )
    if next(iter(shapes.values())) == (0,):
        raise ValueError(
            "The history holds no record, so there is nothing to draw. Call `fit` or "
            "`partial_fit` first."
        )
    return list(arrays.values())


def label_rows(ax: Axes) -> None:
    """Label the horizontal axis of a picture over the stream: 10k, 2M rows."""
    from matplotlib.ticker import EngFormatter

    ax.set_xlabel("Rows learned")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))


def draw_changes(ax: Axes, rows: Array, label: str = "") -> LineCollection:
    """Mark the rows after which a stream was found changed, over the whole height."""
    many = rows.size > _MANY_CHANGES
    return ax.vlines(
        rows,
        0.0,
        1.0,
        transform=ax.get_xaxis_transform(),
        color=foreground(ax),
        linestyle="dashed",
        linewidth=0.6 if many else 1.1,
        alpha=0.35 if many else 0.9,
        label=label,
        zorder=3,
    )


class LearningCurveDisplay:
    """Progressive (test-then-train) loss against the number of rows learned.

    Each row is predicted before it is learned, so the curve measures generalisation as a
    held-out set would, without one. The faint line is the mean loss of each record's rows; the
    strong line is the mean over all rows since the first.

    Parameters
    ----------
    n_samples : array-like of shape (n_records,)
        Rows learned at each record, increasing.
    loss : array-like of shape (n_records,)
        Mean loss of the rows since the previous record. NaN marks records without a loss.
    loss_name : str, default="loss"
        Name for the label of the vertical axis.
    changes : array-like of shape (n_changes,), default=()
        Rows after which the stream was found changed, which are marked.

    Attributes
    ----------
    running_loss : ndarray of shape (n_records,)
        Mean loss of all rows up to each record.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    line_, running_line_ : matplotlib Line2D
        The faint and the strong line.
    change_lines_ : matplotlib LineCollection or None
        Marks of changes, if there are any.

    Raises
    ------
    ValueError
        If the columns differ in length, are empty or hold no finite loss.

    See Also
    --------
    ModelOrderDisplay : What the accuracy costs in memory.
    StreamDisplay : What counted when, of a model with several ways side by side.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = LearningCurveDisplay(n_samples=[100, 300], loss=[1.0, 0.4])
    >>> display.running_loss  # (100 * 1.0 + 200 * 0.4) / 300
    array([1. , 0.6])
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()
    'Rows learned'
    """

    ax_: Axes
    figure_: Figure
    line_: Line2D
    running_line_: Line2D
    change_lines_: LineCollection | None

    def __init__(
        self,
        *,
        n_samples: ArrayLike,
        loss: ArrayLike,
        loss_name: str = "loss",
        changes: ArrayLike = (),
    ) -> None:
        self.n_samples, self.loss = history_columns(n_samples=n_samples, loss=loss)
        self.loss_name = loss_name
        self.changes = np.asarray(changes, dtype=float).reshape(-1)
        finite = np.isfinite(self.loss)
        if not finite.any():
            raise ValueError(
                f"The history holds no finite loss in {len(self.loss)} records, so there is no "
                "curve to draw. Objectives without a loss have no learning curve."
            )
        rows = np.where(finite, np.diff(self.n_samples, prepend=0.0), 0.0)
        with np.errstate(invalid="ignore"):  # 0 / 0 before the first finite loss gives NaN: a gap
            self.running_loss = np.cumsum(rows * np.where(finite, self.loss, 0.0)) / np.cumsum(rows)

    def plot(self, ax: Axes | None = None, *, log: bool | None = None, **line_kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        log : bool, default=None
            Logarithmic loss axis. None chooses it where the loss is positive and spans more
            than a factor of 100.
        **line_kwargs
            Passed to ``ax.plot`` for the strong line.

        Returns
        -------
        self : LearningCurveDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        finite = self.loss[np.isfinite(self.loss)]
        if log is None:
            log = bool(finite.min() > 0 and finite.max() > 100 * finite.min())
        (self.line_,) = self.ax_.plot(
            self.n_samples,
            self.loss,
            color=PALETTE[5],
            linewidth=0.9,
            alpha=0.8,
            label="recent rows",
        )
        style = {"color": PALETTE[0], "linewidth": 2.0, "label": "all rows so far", **line_kwargs}
        (self.running_line_,) = self.ax_.plot(self.n_samples, self.running_loss, **style)
        if len(self.loss) <= FEW:
            for line in (self.line_, self.running_line_):
                line.set_marker("o")
        self.change_lines_ = None
        if self.changes.size:
            self.change_lines_ = draw_changes(self.ax_, self.changes, "the stream changed")
        if log:
            self.ax_.set_yscale("log")
        label_rows(self.ax_)
        short_ticks(self.ax_.yaxis)
        self.ax_.set_ylabel(wrapped_text(f"Mean progressive {self.loss_name}"))
        tidy(self.ax_)
        draw_legend(self.ax_)
        return self

    @classmethod
    def from_history(
        cls,
        history: HistoryLike,
        *,
        loss_name: str = "loss",
        ax: Axes | None = None,
        log: bool | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the learning curve of a run's history; see :meth:`plot` for the other parameters."""
        display = cls(
            n_samples=history.n_samples,
            loss=history.loss,
            loss_name=loss_name,
            changes=getattr(history, "changes", ()),
        )
        return display.plot(ax, log=log, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        loss_name: str | None = None,
        ax: Axes | None = None,
        log: bool | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the learning curve of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with ``history_``, or a Pipeline that ends in one
            What has been fitted.
        loss_name : str, default=None
            Name for the label. Default: the estimator's loss, or its objective if it minimises a
            risk, since the history holds the minimised quantity.
        ax, log, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : LearningCurveDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator has not learned any rows.
        """
        name = objective_name(estimator) if loss_name is None else loss_name
        return cls.from_history(
            history_of(estimator), loss_name=name, ax=ax, log=log, **line_kwargs
        )


class ModelOrderDisplay:
    """Number of dictionary points (or random features) against the number of rows learned.

    A curve that levels off shows a model of bounded memory; one that still climbs at the end
    shows that the stream still brought something new, or that the compression is too weak.

    Parameters
    ----------
    n_samples : array-like of shape (n_records,)
        Rows learned at each record, increasing.
    model_order : array-like of shape (n_records,)
        Size of the model at each record.
    unit : str, default="dictionary points"
        What the model order counts.

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
        If the columns differ in length or are empty.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ModelOrderDisplay(n_samples=[100, 300], model_order=[40, 52])
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'Model order (dictionary points)'
    """

    ax_: Axes
    figure_: Figure
    line_: Line2D

    def __init__(
        self, *, n_samples: ArrayLike, model_order: ArrayLike, unit: str = "dictionary points"
    ) -> None:
        self.n_samples, self.model_order = history_columns(
            n_samples=n_samples, model_order=model_order
        )
        self.unit = unit

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the curve, with its last value written at its end.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        **line_kwargs
            Passed to ``ax.plot``.

        Returns
        -------
        self : ModelOrderDisplay
        """
        self.ax_ = new_axes(ax)
        from matplotlib.ticker import MaxNLocator

        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        style = {"color": PALETTE[0], "linewidth": 2.0, **line_kwargs}
        (self.line_,) = self.ax_.plot(self.n_samples, self.model_order, **style)
        if len(self.model_order) <= FEW:
            self.line_.set_marker("o")
        self.ax_.annotate(
            format_number(int(self.model_order[-1])),
            (self.n_samples[-1], self.model_order[-1]),
            xytext=(-2, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
        )
        self.ax_.set_ylim(0, max(1.0, 1.15 * float(self.model_order.max())))
        self.ax_.yaxis.set_major_locator(MaxNLocator(integer=True))
        label_rows(self.ax_)
        self.ax_.set_ylabel(literal_text(f"Model order ({self.unit})", max_length=60))
        tidy(self.ax_)
        return self

    @classmethod
    def from_history(
        cls,
        history: HistoryLike,
        *,
        unit: str = "dictionary points",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the model order of a run's history; see :meth:`plot` for the other parameters."""
        display = cls(n_samples=history.n_samples, model_order=history.model_order, unit=unit)
        return display.plot(ax, **line_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, unit: str | None = None, ax: Axes | None = None, **line_kwargs: Any
    ) -> Self:
        """Draw the model order of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with ``history_``, or a Pipeline that ends in one
            What has been fitted.
        unit : str, default=None
            What the model order counts. None means dictionary points for a model with a
            ``dictionary_`` or ``parts_``, random features for others.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : ModelOrderDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator has not learned any rows.
        """
        history = history_of(estimator)
        if unit is None:
            unit = size_unit(estimator)
        return cls.from_history(history, unit=unit, ax=ax, **line_kwargs)


class MonitorDisplay:
    """What a risk watches, against the number of rows learned.

    There are two kinds of numbers. Values are what the risk tracks: the expectation g inside it,
    the value at risk of CVaR, the certainty equivalent of the entropic risk. They have settled
    where the curve is level; before that, the model minimised a risk with other values. Shares are
    the rows in which a safeguard acted: ``clipped``, if the slope was too long, and ``clamped``, if
    the weight of the row was changed. A model that clips many rows minimises something else than
    its risk. Shares are drawn as means of neighbouring records, because a single record has few
    rows.

    Parameters
    ----------
    n_samples : array-like of shape (n_records,)
        Rows learned at each record, increasing.
    monitors : mapping of str to array-like of shape (n_records,)
        What was watched, by name, a mean over the rows of each record; ``history_.monitors``.
    kind : {"values", "shares"}, default="values"
        Which to draw; names that end in ``_fraction`` are shares.
    value_name : str, default="loss"
        What values are in, for the label of the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    lines_ : list of matplotlib Line2D
        The curves.

    Raises
    ------
    ValueError
        If there are no such numbers, or the columns differ in length or are empty.

    See Also
    --------
    LossDistributionDisplay : What came of it on held-out rows.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> watched = {"clipped_fraction": [0.1, 0.0], "value_at_risk": [2.0, 1.5]}
    >>> display = MonitorDisplay(n_samples=[100, 300], monitors=watched)
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'Value at risk (loss)'
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]

    def __init__(
        self,
        *,
        n_samples: ArrayLike,
        monitors: Mapping[str, ArrayLike],
        kind: Literal["values", "shares"] = "values",
        value_name: str = "loss",
    ) -> None:
        check_choice("kind", kind, ("values", "shares"))
        chosen = {n: v for n, v in monitors.items() if n.endswith(SHARE) == (kind == "shares")}
        if not chosen:
            raise ValueError(
                f"There are no {kind} to draw: the history watches {sorted(monitors)}. Losses "
                "without a risk have none; of a risk, `kind` tells values from shares of rows."
            )
        self.n_samples, *columns = history_columns(n_samples=n_samples, **chosen)
        self.monitors = dict(zip(chosen, columns, strict=True))
        self.kind, self.value_name = kind, value_name

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the curves; the legend gives their last values, or the shares of all rows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        **line_kwargs
            Passed to ``ax.plot`` for each curve.

        Returns
        -------
        self : MonitorDisplay
        """
        self.ax_ = ax = new_axes(ax)
        self.figure_ = ax.figure  # type: ignore[assignment]
        self.lines_ = []
        for j, (name, column) in enumerate(self.monitors.items()):
            if self.kind == "shares":
                rows, shown = self._grouped(100.0 * column)
                number = f"{format_number(self._mean(100.0 * column))} % of all rows"
            else:
                rows, shown = self.n_samples, column
                number = f"at the end {format_number(float(column[-1]))}"
            style = {
                "color": PALETTE[j % len(PALETTE)],
                "linestyle": _DASHES[j % len(_DASHES)],
                "linewidth": 2.0,
                "label": f"{literal_text(monitor_words(name))}, {number}",
                **line_kwargs,
            }
            (line,) = ax.plot(rows, shown, **style)
            if len(shown) == 1:  # A line through one point would be invisible.
                line.set_marker("o")
            self.lines_.append(line)
        highest = max(float(np.nanmax(line.get_ydata())) for line in self.lines_)
        lowest = min(float(np.nanmin(line.get_ydata())) for line in self.lines_)
        if lowest >= 0.0:
            ax.set_ylim(0.0, (1.1 * highest if highest > 0.0 else 1.0))
        label_rows(ax)
        short_ticks(ax.yaxis)
        ax.set_ylabel(wrapped_text(self._label()))
        tidy(ax)
        draw_legend(ax)
        return self

    def _mean(self, column: Array) -> float:
        return float(np.average(column, weights=np.diff(self.n_samples, prepend=0.0)))

    def _grouped(self, column: Array) -> tuple[Array, Array]:
        """Means over the rows of neighbouring records, and the rows where each group ends."""
        ends = np.unique(np.linspace(0, len(column), _MAX_GROUPS + 1).round().astype(int))
        rows = np.diff(self.n_samples, prepend=0.0)
        sums = np.add.reduceat(rows * column, ends[:-1]) / np.add.reduceat(rows, ends[:-1])
        return self.n_samples[ends[1:] - 1], sums

    def _label(self) -> str:
        if self.kind == "shares":
            return "Rows that a safeguard changed (%)"
        names = list(self.monitors)
        what = monitor_words(names[0]).capitalize() if len(names) == 1 else "Tracked value"
        return f"{what} ({self.value_name})"

    @classmethod
    def from_history(
        cls,
        history: HistoryLike,
        *,
        kind: Literal["values", "shares"] = "values",
        value_name: str = "loss",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the monitors of a run's history; see :meth:`plot` for the other parameters."""
        display = cls(
            n_samples=history.n_samples,
            monitors=getattr(history, "monitors", {}),
            kind=kind,
            value_name=value_name,
        )
        return display.plot(ax, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        kind: Literal["values", "shares"] = "values",
        value_name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the monitors of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with ``history_``, or a Pipeline that ends in one
            What has been fitted, with a ``risk``.
        kind : {"values", "shares"}, default="values"
            As for the class.
        value_name : str, default=None
            Name for the label; the estimator's loss if None.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : MonitorDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator has not learned any rows.
        ValueError
            If the estimator does not record such numbers.
        """
        history = history_of(estimator)
        if value_name is None and weighs_ways(history):
            value_name = "weight of ways"
        if value_name is None:
            value_name = unit_of_loss(estimator) or name_of_loss(estimator)
        return cls.from_history(history, kind=kind, value_name=value_name, ax=ax, **line_kwargs)


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


_NEEDED = ("form", "metric", "length", "error", "standard_error", "chosen")
_ROOM = 0.6  # height that the marks of a line take, in lines
_SPREAD = 10.0  # ratio of errors from which on they are shown on a logarithmic axis


class RaceDisplay:
    """Errors of the pilots of a race, with their standard errors; what was chosen stands out.

    There is a line for each form of the function, family of kernels and map of the inputs, with a
    mark for each length scale that was tried. Errors are on rows that the pilots were not fitted
    to. Compare errors within a form; pilots of different forms have different sizes.

    Parameters
    ----------
    entries : sequence of mappings
        One mapping per pilot: ``form``, ``metric``, ``length``, ``error``, ``standard_error`` and
        ``chosen``, as in :meth:`from_estimator`; ``family`` defaults to the family of Gaussian
        kernels.

    Attributes
    ----------
    lines : list of (str, str)
        Form, and kernel and map, of each line; the best first.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    errorbars_ : list of matplotlib ErrorbarContainer
        Marks of all pilots and, if there are any, of the chosen ones.

    Raises
    ------
    ValueError
        If there are no entries, or an entry lacks a value.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> entry = {"form": "global", "metric": "standardized", "length": 1.0, "error": 0.2,
    ...          "standard_error": 0.01, "chosen": True}
    >>> display = RaceDisplay(entries=[entry, {**entry, "error": 0.3, "chosen": False}])
    >>> display.plot(Figure().subplots()).lines
    [('global', 'gaussian, standardized')]
    """

    ax_: Axes
    figure_: Figure
    errorbars_: list[ErrorbarContainer]

    def __init__(self, *, entries: Sequence[Mapping[str, Any]]) -> None:
        if not entries:
            raise ValueError(
                "The race has no entries, so there is nothing to draw. Pass those of a model whose "
                "kernel was raced: with `kernel='auto'` and `expansion='auto'`."
            )
        for entry in entries:
            missing = [name for name in _NEEDED if name not in entry]
            if missing:
                raise ValueError(
                    f"Every entry of a race must have the keys {', '.join(_NEEDED)}; one lacks "
                    f"{', '.join(missing)}."
                )
        self.entries = [dict(entry) for entry in entries]
        best: dict[tuple[str, str], float] = {}
        for entry in self.entries:
            line = str(entry["form"]), way_of(entry)
            best[line] = min(best.get(line, np.inf), float(entry["error"]))
        self.lines = sorted(best, key=lambda line: (line[0], best[line]))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.

        Returns
        -------
        self : RaceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        chosen = np.array([bool(entry["chosen"]) for entry in self.entries])
        self.errorbars_ = []
        if not chosen.all():
            self._marks(~chosen, color=FAINT, marker="o", markersize=3.5, label="tried")
        if chosen.any():
            self._marks(chosen, color=PALETTE[0], marker="D", markersize=5, label="in the model")
        names = [literal_text(f"{form}: {way}", max_length=52) for form, way in self.lines]
        self.ax_.set_yticks(np.arange(len(names)), names)
        self.ax_.set_ylim(len(names) - 0.4, -0.6)
        errors = self._column("error")
        if errors.min() > 0.0 and errors.max() > _SPREAD * errors.min():
            self.ax_.set_xscale("log")
        short_ticks(self.ax_.xaxis)
        self.ax_.set_xlabel("Mean squared error on rows not fitted", loc="right")
        tidy(self.ax_, grid=False)
        self.ax_.set_axisbelow(True)
        self.ax_.grid(axis="x", linewidth=0.6, alpha=0.45)
        self.ax_.tick_params(axis="y", length=0)
        draw_legend(self.ax_)
        return self

    def _marks(self, which: NDArray[np.bool_], **style: Any) -> None:
        self.errorbars_.append(
            self.ax_.errorbar(
                self._column("error")[which],
                self._heights()[which],
                xerr=self._column("standard_error")[which],
                linestyle="none",
                elinewidth=1.0,
                **style,
            )
        )

    def _heights(self) -> NDArray[np.float64]:
        """Where the marks are: on their line, one below the other in the order of their errors."""
        at = np.array([self.lines.index((str(e["form"]), way_of(e))) for e in self.entries])
        heights = at.astype(float)
        for line in range(len(self.lines)):
            ours = np.flatnonzero(at == line)
            ranks = np.argsort(np.argsort(self._column("error")[ours])) + 0.5
            heights[ours] += _ROOM * (ranks / ours.size - 0.5)
        return heights

    def _column(self, name: str) -> NDArray[np.float64]:
        return np.array([entry[name] for entry in self.entries], dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the race of a fitted estimator of the default expansion.

        Parameters
        ----------
        estimator : estimator with ``race_``, or a Pipeline that ends in one
            What has been fitted.
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.

        Returns
        -------
        display : RaceDisplay

        Raises
        ------
        ValueError
            If there was no race.
        """
        return cls(entries=race_table(estimator)).plot(ax)
