"""The section of a report on the risk that a model minimises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.display import LossDistributionDisplay, MonitorDisplay
from mercer.display.drawing import format_number, report_axes, report_style
from mercer.inspection import (
    final_model,
    monitor_words,
    name_of_loss,
    risk_of,
    short_name,
    unit_of_loss,
)
from mercer.report._section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["risk_section"]

_LEVEL = 0.9  # of risks that have none of their own
# A share of clipped rows that changes what is minimised.
_MANY = 0.1


def risk_section(
    estimator: Any, losses: ArrayLike | None = None, *, of: str = "held-out rows"
) -> Section | None:
    """Say how a model does by the risk that it minimises.

    The distribution of the losses with its value at risk and CVaR, at the level of the risk or at
    0.9; the values that the risk tracked along the stream; the shares of rows in which a
    safeguard acted.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Model with ``risk_`` and ``history_``.
    losses : array-like of shape (n_rows,), default=None
        Loss of each row of a sample, as :func:`mercer.display.row_losses` returns them. None
        leaves their distribution out.
    of : str, default="held-out rows"
        What the losses are of.

    Returns
    -------
    section : Section or None
        For :func:`mercer.report.write_report`; None if the model minimises the mean loss.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If a loss is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.display import row_losses
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> model = KernelRegressor(risk="cvar:0.8", random_state=0).fit(x, np.sin(x[:, 0]))
    >>> section = risk_section(model, row_losses(model, x, np.sin(x[:, 0])), of="the rows learned")
    >>> print(section.text)
    Minimised: CVaR at level 0.8: the mean of the worst 20 % of the losses.
    >>> [caption for caption, _ in section.figures]
    ['Losses of the rows learned', 'Value at risk along the stream']
    """
    risk = risk_of(estimator)
    if risk is None:
        return None
    history = final_model(estimator).history_
    values: dict[str, Any] = {"loss": _with_unit(estimator)}
    figures = []
    with report_style():
        if losses is not None:
            display, figure = _distribution(estimator, losses, risk, of)
            figures.append((f"Losses of {of}", figure))
            at = f"at {display.level:g}, {of}"
            values |= {
                f"mean loss, {of}": display.mean_loss,
                f"value at risk {at}": display.value_at_risk,
                f"CVaR {at}": display.cvar,
            }
        shares = {n: v for n, v in history.monitors.items() if n.endswith("_fraction")}
        tracked = {n: v for n, v in history.monitors.items() if n not in shares}
        if tracked:
            figures.append(_values(estimator, tracked))
        values |= {f"{monitor_words(n)}, at the end": float(v[-1]) for n, v in tracked.items()}
        rows = np.diff(np.asarray(history.n_samples, dtype=float), prepend=0.0)
        means = {n: float(np.average(v, weights=rows)) for n, v in shares.items()}
        if any(means.values()):
            figures.append(_shares(estimator, means))
    values |= {
        f"{monitor_words(n)} rows": f"{format_number(100.0 * m)} %" for n, m in means.items()
    }
    values["model order"] = int(history.model_order[-1])
    text = f"Minimised: {risk.describe()}."
    if means.get("clipped_fraction", 0.0) >= _MANY:
        text += (
            " Many rows were clipped: in them the model follows a bounded slope and not the risk, "
            "as a robust loss would. A larger clip brings it closer to the risk."
        )
    return Section("Risk", text, values, figures)


def _with_unit(estimator: Any) -> str:
    unit = unit_of_loss(estimator)
    return name_of_loss(estimator) + (f", in {unit}" if unit else "")


def _distribution(
    estimator: Any, losses: ArrayLike, risk: Any, of: str
) -> tuple[LossDistributionDisplay, Figure]:
    display = LossDistributionDisplay(
        losses=losses,
        level=float(getattr(risk, "level", _LEVEL)),
        loss_name=name_of_loss(estimator),
        unit=unit_of_loss(estimator),
        name=short_name(risk),
    )
    figure, ax = report_axes(height=3.8)
    display.plot(ax)
    least, mean = format_number(display.value_at_risk), format_number(display.cvar)
    figure.set_label(
        f"Line chart on a logarithmic axis: the share of the {of} that lose more than so much. The "
        f"worst {format_number(100.0 * (1.0 - display.level))} % lose {least} or more, {mean} in "
        "the mean."
    )
    return display, figure


def _values(estimator: Any, tracked: Mapping[str, Any]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=3.8)
    MonitorDisplay.from_estimator(estimator, ax=ax)
    ends = (
        f"the {monitor_words(n)} goes from {format_number(float(v[0]))} to "
        f"{format_number(float(v[-1]))}"
        for n, v in tracked.items()
    )
    figure.set_label(f"Line chart: {', '.join(ends)}.")
    names = " and ".join(monitor_words(name) for name in tracked)
    return f"{names[:1].upper()}{names[1:]} along the stream", figure


def _shares(estimator: Any, means: Mapping[str, float]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=3.8)
    MonitorDisplay.from_estimator(estimator, kind="shares", ax=ax)
    shares = (f"{format_number(100.0 * m)} % {monitor_words(n)}" for n, m in means.items())
    figure.set_label(f"Line chart of the rows that a safeguard changed: {', '.join(shares)}.")
    return "Rows that a safeguard changed", figure
