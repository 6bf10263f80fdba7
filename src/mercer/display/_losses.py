"""A picture of the losses of single rows: how many are large, and how large the worst are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
    tidy,
)
from mercer.estimators.estimator import answering_numbers
from mercer.inspection import (
    final_model,
    loss_units,
    loss_words,
    name_of_loss,
    risk_of,
    short_name,
    targets_in_numbers,
)
from mercer.losses import Loss, as_loss
from mercer.risks import CVaR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Array = NDArray[np.float64]
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
        Mean of all losses, their quantile at the level, and the mean of the losses above it.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    line_ : matplotlib Line2D
        The curve.

    Raises
    ------
    ValueError
        If there are no losses, a loss is not finite, or the level is out of range.

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
        self.losses = np.sort(_checked_losses(losses))
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


class Tail(NamedTuple):
    """The worst losses of a sample.

    Attributes
    ----------
    level : float
        Share of the losses that are not among the worst.
    value_at_risk : float
        Quantile of the losses at the level: where the worst begin.
    cvar : float
        Conditional value at risk: mean of the worst.
    """

    level: float
    value_at_risk: float
    cvar: float


def tail_of(losses: ArrayLike, level: float = 0.9) -> Tail:
    """Value at risk and CVaR of a sample of losses, without smoothing.

    Parameters
    ----------
    losses : array-like of shape (n_rows,)
        Losses, one or more.
    level : float, default=0.9
        In (0, 1): 0.9 for the worst tenth. A loss at the border counts with the share of it that
        belongs to the worst part.

    Returns
    -------
    tail : Tail

    Raises
    ------
    ValueError
        If there are no losses, a loss is not finite, or the level is out of range.

    References
    ----------
    Rockafellar and Uryasev (2000), "Optimization of conditional value-at-risk".

    Examples
    --------
    >>> tail_of([1.0, 2.0, 3.0, 4.0, 10.0], level=0.6)
    Tail(level=0.6, value_at_risk=3.0, cvar=7.0)
    """
    values = _checked_losses(losses)
    risk = CVaR(level, smoothing=0.0)
    start = np.quantile(values, level, method="inverted_cdf", keepdims=True)
    outer = risk.outer(values, np.empty(0), start, unit=1.0)
    return Tail(float(level), float(start[0]), float(outer.value.mean()))


def _checked_losses(losses: ArrayLike) -> Array:
    """Return losses as an array; ValueError if there are none or they are not finite."""
    values = np.asarray(losses, dtype=float)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"`losses` must be a row of finite numbers, at least one, got shape {values.shape} "
            f"with {int((~np.isfinite(values)).sum())} that are not finite. Pass the loss of each "
            "row, as `row_losses` returns them."
        )
    return values


def row_losses(
    estimator: Any, X: Any, y: ArrayLike, *, loss: str | Loss | None = None
) -> NDArray[np.float64]:
    """Loss of an estimator on each row.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        A :class:`mercer.KernelRegressor` or :class:`mercer.KernelClassifier`; with ``loss`` any
        regressor, or any classifier with a ``decision_function``.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets or labels.
    loss : str or Loss, default=None
        Loss to measure by, so that models which minimise different ones compare. None: the
        estimator's own.

    Returns
    -------
    losses : ndarray of shape (n_rows,)
        In units of the loss, of the targets as they are.

    Raises
    ------
    ValueError
        If the estimator has no loss and none is given, or a label was not learned.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> mean = DummyRegressor().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> row_losses(mean, [[0.0], [1.0]], [1.0, 3.0], loss="absolute_error")
    array([0., 2.])
    """
    classes, targets = getattr(estimator, "classes_", None), targets_in_numbers(estimator, y)
    targets = np.asarray(targets)
    if classes is not None and not np.isin(targets, classes).all():
        extra = np.setdiff1d(targets, classes)[:5].tolist()
        raise ValueError(
            f"`y` has labels that the model has not learned: {extra}. There is no score to compare "
            "them with; leave these rows out."
        )
    if loss is None:
        return _own_losses(estimator, X, targets)
    if classes is None:
        chosen = as_loss(loss, "regression")
        scores = np.asarray(answering_numbers(estimator).predict(X), dtype=float)
        if not np.array_equal(chosen.predict([[2.0]]), [[2.0]]):
            raise ValueError(
                f"The loss {chosen!r} is of scores that are not the predictions, and predictions "
                "are all that is known of other models. Choose another loss to compare by."
            )
        scores = scores.reshape(len(scores), -1)
        return chosen.value(chosen.encode(targets.reshape(scores.shape)), scores)
    chosen = as_loss(loss, "classification")
    scores = np.asarray(estimator.decision_function(X), dtype=float)
    codes = np.searchsorted(classes, targets)
    return chosen.value(chosen.encode(codes, len(classes)), scores.reshape(len(scores), -1))


def _own_losses(estimator: Any, X: Any, y: NDArray[Any]) -> Array:
    model = final_model(estimator)
    if getattr(model, "loss_", None) is None or not hasattr(model, "targets_"):
        raise ValueError(
            f"`{type(model).__name__}` has no loss of its own, or is not fitted. Fit it, or pass "
            "the loss to measure by, such as loss='squared'."
        )
    inputs = X if model is estimator else estimator[:-1].transform(X)
    losses = model.loss_.value(model.targets_.encode(y), model.scores(inputs))
    return np.asarray(loss_units(model).factor * losses)
