"""A picture of what an objective watches while it learns, such as the value at risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._validation import check_choice
from mercer.display._runs import HistoryLike, history_columns, label_rows
from mercer.display.drawing import (
    PALETTE,
    draw_legend,
    format_number,
    literal_text,
    new_axes,
    short_ticks,
    tidy,
    wrapped_text,
)
from mercer.inspection import SHARE, history_of, monitor_words, name_of_loss, unit_of_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["MonitorDisplay"]

Array = NDArray[np.float64]

_MAX_GROUPS = 50
_DASHES = ("solid", "dashed", "dotted", "dashdot")


class MonitorDisplay:
    """What a risk watches, against the number of rows learned.

    There are two kinds of numbers. Values are what the risk tracks: the expectation g inside it,
    the value at risk of CVaR, the certainty equivalent of the entropic risk. They have settled
    where the curve is level; what is learned before that follows a risk of other numbers. Shares
    are the rows in which a safeguard acted: ``clipped``, where the slope was too long, and
    ``clamped``, where the weight of the row was changed. A model that clips many rows minimises
    something else than it says. Shares are drawn as means of neighbouring records, as in the few
    rows of a single one they jump.

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
        If there is nothing of the kind, or the columns differ in length or are empty.

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
            If the estimator has learned nothing yet.
        ValueError
            If it watches nothing of the kind.
        """
        if value_name is None:
            value_name = unit_of_loss(estimator) or name_of_loss(estimator)
        return cls.from_history(
            history_of(estimator), kind=kind, value_name=value_name, ax=ax, **line_kwargs
        )
