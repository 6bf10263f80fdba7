"""Logarithmic axes that are read as plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plain_log_scale(
    ax: Axes,
    name: Literal["x", "y"] = "y",
    ticks: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0),
) -> None:
    """Give an axis a logarithmic scale with ticks 1, 2, 3, 5, 10, 20, ..., or others."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set(**{f"{name}scale": "log"})
    axis = ax.xaxis if name == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
