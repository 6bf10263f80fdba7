"""A picture of the losses of single rows: how many are large, and how large the worst are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer.display._drawing import (
    FAINT,
    PALETTE,
    draw_legend,
    foreground,
    format_number,
    literal_text,
    new_axes,
    short_ticks,
    tidy,
)
from mercer.display._fitted import final_model, loss_words, name_of_loss, risk_of, short_name
from mercer.display._row_losses import checked_losses, row_losses, tail_of
from mercer.losses import Loss, as_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["LossDistributionDisplay"]

# A curve of more points looks the same and only makes the file larger.
_MAX_POINTS = 400
# The axis is logarithmic where the worst loss is this many times the median one.
_WIDE = 30.0
_GUIDE = "mercer-guide"


class LossDistributionDisplay:
    """Share of the rows that lose more than so much: the tail that a risk is about.

    The curve falls from all rows to the single worst one, on a logarithmic axis, so that rare
    large losses can be seen. A circle marks the value at risk, where the worst rows begin, and a
    diamond their mean, the CVaR. Models drawn into the same axes compare: a risk-averse one has a
    shorter tail, and pays with larger losses elsewhere.

    Parameters
    ----------
    losses : array-like of shape (n_rows,)
        Loss of each row, best held-out ones.
    level : float, default=0.9
        In (0, 1): 0.9 for the worst tenth.
    loss_name : str, default="loss"
        Name for the label of the horizontal axis.
    unit : str, default=""
        What the losses are measured in, for the label.
    name : str, default="model"
        Name of the model in the legend.

    Attributes
    ----------
    mean_loss, value_at_risk, cvar : float
        Mean of all losses, their quantile at the level and the mean of the worst of them.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    line_ : matplotlib Line2D
        The curve.

    Raises
    ------
    ValueError
        If there are no losses, one of them is not finite, or the level is outside its range.

    See Also
    --------
    MonitorDisplay : What the objective watched along the stream.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = LossDistributionDisplay(losses=[0.1, 0.2, 0.3, 4.0], level=0.75)
    >>> display.value_at_risk, display.cvar
    (0.3, 4.0)
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()
    'Loss of a row'
    """

    ax_: Axes
    figure_: Figure
    line_: Line2D

    def __init__(
        self,
        *,
        losses: ArrayLike,
        level: float = 0.9,
        loss_name: str = "loss",
        unit: str = "",
        name: str = "model",
    ) -> None:
        tail = tail_of(losses, level)
        self.losses = np.sort(checked_losses(losses))
        self.level, self.value_at_risk, self.cvar = tail
        self.mean_loss = float(self.losses.mean())
        self.loss_name, self.unit, self.name = loss_name, unit, name

    def plot(self, ax: Axes | None = None, *, log: bool | None = None, **line_kwargs: Any) -> Self:
        """Draw the curve, its value at risk and its CVaR.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None. Axes with curves of other models get one
            more, in the next colour.
        log : bool, default=None
            Logarithmic loss axis. None leaves axes with other curves as they are, and else
            chooses it where losses are positive and the worst is more than 30 times the median.
        **line_kwargs
            Passed to ``ax.plot``.

        Returns
        -------
        self : LossDistributionDisplay
        """
        self.ax_ = ax = new_axes(ax)
        self.figure_ = ax.figure  # type: ignore[assignment]
        n = self.losses.size
        guides = [line for line in ax.lines if line.get_gid() == _GUIDE]
        n_before = len(ax.get_legend_handles_labels()[0])
        # Beyond the i-th of n sorted losses are n - i; the worst itself is the last one of n.
        rank = np.unique(np.geomspace(1, n, min(n, _MAX_POINTS)).round().astype(int))
        rank = np.union1d(rank, np.linspace(1, n, min(n, _MAX_POINTS)).round().astype(int))
        numbers = f"VaR {format_number(self.value_at_risk)}, CVaR {format_number(self.cvar)}"
        style = {
            "color": PALETTE[n_before % len(PALETTE)],
            "linewidth": 2.0,
            "label": f"{literal_text(self.name, max_length=44)}: {numbers}",
            **line_kwargs,
        }
        (self.line_,) = ax.plot(self.losses[n - rank], rank / n, **style)
        share = 1.0 - self.level
        if not any(np.isclose(np.ravel(line.get_ydata())[0], share) for line in guides):
            self._guide(ax, share)
        points = ((self.value_at_risk, "o", "VaR"), (self.cvar, "D", "CVaR"))
        ax.plot([point[0] for point in points], [share] * 2, color=self.line_.get_color(), lw=1.0)
        for value, marker, word in points:
            ax.plot(
                value,
                share,
                marker=marker,
                color=self.line_.get_color(),
                markeredgecolor=foreground(ax),
                markersize=7,
                linestyle="none",
                zorder=4,
            )
            if not guides:  # Once is enough: the marks of other models mean the same.
                ax.annotate(word, (value, share), xytext=(5, 5), textcoords="offset points")
        self._scales(ax, log, first=not guides)
        short_ticks(ax.xaxis)
        label = f"{self.loss_name} of a row" + (f" ({self.unit})" if self.unit else "")
        ax.set_xlabel(literal_text(label[:1].upper() + label[1:], max_length=70))
        ax.set_ylabel("Rows that lose at least as much")
        tidy(ax)
        draw_legend(ax)
        return self

    def _guide(self, ax: Axes, share: float) -> None:
        """Draw the level at which the worst rows begin."""
        line = ax.axhline(share, color=FAINT, linewidth=1.0, linestyle="dashed", zorder=1)
        line.set_gid(_GUIDE)
        ax.annotate(
            f"worst {format_number(100.0 * share)} %",
            (0.0, share),
            xycoords=("axes fraction", "data"),
            xytext=(3, -3),
            textcoords="offset points",
            va="top",
            fontsize="small",
        )

    def _scales(self, ax: Axes, log: bool | None, *, first: bool) -> None:
        from matplotlib.ticker import FuncFormatter

        median, worst = float(np.median(self.losses)), float(self.losses[-1])
        if log is None and first:
            log = median > 0.0 and worst > _WIDE * median
        if log is not None:
            ax.set_xscale("log" if log else "linear")
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100.0 * v:g} %"))
        ax.set_ylim(top=1.15)
        if ax.get_xscale() == "log" and median > 0.0:
            # Rows without any loss to speak of would take most of a logarithmic axis.
            low = median / _WIDE
            ax.set_xlim(left=low if first else min(low, ax.get_xlim()[0]))

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        loss: str | Loss = "squared",
        level: float = 0.9,
        loss_name: str | None = None,
        name: str = "model",
        ax: Axes | None = None,
        log: bool | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the losses of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
            Targets as the loss takes them: numbers, labels -1 and +1, or class numbers.
        y_pred : array-like of shape (n_rows,) or (n_rows, n_scores)
            Predictions of a regressor, or scores of a classifier.
        loss : str or Loss, default="squared"
            Loss to measure by.
        level, loss_name, name
            As for the class; the name of the loss if None.
        ax, log, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : LossDistributionDisplay
        """
        chosen = as_loss(loss)
        display = cls(
            losses=chosen.value(y_true, y_pred),
            level=level,
            loss_name=loss_words(chosen) if loss_name is None else loss_name,
            name=name,
        )
        return display.plot(ax, log=log, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        loss: str | Loss | None = None,
        level: float = 0.9,
        loss_name: str | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        log: bool | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the losses of a fitted estimator.

        Parameters
        ----------
        estimator, X, y, loss
            As for :func:`row_losses`. Take rows that were not learned: losses on others are
            smaller.
        level, loss_name
            As for the class; the name of the loss if None.
        name : str, default=None
            Name in the legend. None: the risk of the estimator if it has one, else its class.
        ax, log, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : LossDistributionDisplay
        """
        if loss_name is None:
            loss_name = name_of_loss(estimator) if loss is None else loss_words(as_loss(loss))
        risk = risk_of(estimator)
        if name is None:
            name = type(final_model(estimator)).__name__ if risk is None else short_name(risk)
        display = cls(
            losses=row_losses(estimator, X, y, loss=loss),
            level=level,
            loss_name=loss_name,
            name=name,
        )
        return display.plot(ax, log=log, **line_kwargs)
