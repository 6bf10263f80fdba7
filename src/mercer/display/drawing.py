"""What all pictures share: colour-blind safe colours, axes, and the style of a report's figures.

Only functions import matplotlib, which is an optional dependency.
"""

from __future__ import annotations

import numbers
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours without black and with yellow last: it is faint on white.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
# Six shapes and seven colours repeat together only after 42 classes.
MARKERS = ("o", "s", "^", "D", "v", "P")

# Colours of report figures that follow the reader's light or dark theme (see mercer_app.report).
# They have no other use, so they can safely be replaced in the SVG text.
INK, PAPER, FAINT = "#1f2a36", "#fdfefe", "#a9b2bc"
THEMED = "mercer-themed"


def require_matplotlib() -> None:
    """Raise an ``ImportError`` that names the extra if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Drawing needs matplotlib, which is not installed. Install it with "
            '`pip install "mercer[cli]"`.'
        ) from error


def new_axes(ax: Axes | None) -> Axes:
    """Return ``ax``, or the axes of a new pyplot figure for ``None``."""
    require_matplotlib()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax


def tidy(ax: Axes, *, grid: bool = True) -> None:
    """Keep only what helps to read values: two spines and faint horizontal lines."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.set_axisbelow(True)
        ax.grid(axis="y", linewidth=0.6, alpha=0.45)


def foreground(ax: Axes) -> Any:
    """Colour of the text of ``ax``: marks that must stand out in any theme use it."""
    return ax.xaxis.label.get_color()


def _legend_columns(labels: list[str], width: int) -> int:
    """Return how many legend columns fit into the width of some letters.

    Examples
    --------
    >>> _legend_columns(["short", "name"], width=40), _legend_columns(["x" * 30] * 2, width=40)
    (2, 1)
    """
    lengths = [len(label) + 5 for label in labels]  # a handle and its gaps take five letters' room
    for n in range(len(labels), 1, -1):
        # matplotlib fills columns as array_split does: the first ones take what is left over.
        if sum(max(column) for column in np.array_split(lengths, n)) <= width:
            return n
    return 1


def draw_legend(ax: Axes, width: int = 62) -> None:
    """Draw the legend above ``ax``, where it hides no data, if anything is labelled."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.01),
            borderaxespad=0.0,
            ncols=_legend_columns(labels, width),
            frameon=False,
            handlelength=1.4,
            columnspacing=1.2,
            handletextpad=0.5,
        )


def literal_text(value: Any, max_length: int = 24) -> str:
    r"""Text of ``value`` that matplotlib draws as it stands, without reading ``$`` as mathematics.

    Examples
    --------
    >>> print(literal_text("cost in $"))
    cost in \$
    """
    return short_text(value, max_length).replace("$", r"\$")


def short_text(value: Any, max_length: int) -> str:
    """Text of ``value`` in one line, cut where it is too long.

    Examples
    --------
    >>> short_text("a very long name of a class", 12)
    'a very long…'
    """
    text = " ".join(str(value).split())
    return text if len(text) <= max_length else text[: max_length - 1].rstrip() + "…"


def wrapped_text(value: Any, max_length: int = 100, width: int = 40) -> str:
    r"""Return the text of :func:`literal_text`, wrapped to fit next to a small picture.

    Examples
    --------
    >>> print(wrapped_text("a label that is too long for the height of a picture"))
    a label that is too long for the height
    of a picture
    """
    return "\n".join(textwrap.wrap(literal_text(value, max_length), width))


def short_ticks(axis: Axis) -> None:
    """Write large and small numbers of an axis out at its ticks, not as a factor above them."""
    low, high = axis.get_view_interval()
    if axis.get_scale() == "linear" and not 1e-3 < max(abs(low), abs(high)) < 1e5:
        from matplotlib.ticker import FuncFormatter

        axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(value: float) -> str:
    """Write a number in few letters, for a tick.

    Examples
    --------
    >>> _short(2.5e9), _short(0.0), _short(2e-5)
    ('2.5e9', '0', '2e-5')
    """
    mantissa, e, exponent = f"{value:.3g}".partition("e")
    return mantissa + (f"e{int(exponent)}" if e else "")


def format_number(value: Any) -> str:
    """Short text for a table or caption: four significant digits, thousands grouped.

    Examples
    --------
    >>> [format_number(v) for v in (12000, 0.123456, 1234567.8, True, None, "text")]
    ['12,000', '0.1235', '1,234,568', 'yes', 'none', 'text']
    """
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}"
    if isinstance(value, numbers.Real):
        number = float(value)
        return f"{number:,.0f}" if 1e4 <= abs(number) < 1e12 else f"{number:.4g}"
    return str(value)


def subsample(n_rows: int, max_rows: int) -> NDArray[np.intp]:
    """Return indices of at most ``max_rows`` of ``n_rows`` rows: an even draw, always the same.

    Examples
    --------
    >>> subsample(3, 10)
    array([0, 1, 2])
    >>> len(subsample(1000, 10))
    10
    """
    if n_rows <= max_rows:
        return np.arange(n_rows)
    # Not every n-th row: that would alias with periodic data.
    return np.sort(np.random.default_rng(0).choice(n_rows, size=max_rows, replace=False))


@contextmanager
def report_style() -> Iterator[None]:
    """Draw in the report's own style, whatever the user's matplotlib settings are."""
    require_matplotlib()
    import matplotlib.style

    style = {
        "axes.edgecolor": FAINT,
        "axes.facecolor": PAPER,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "figure.facecolor": PAPER,
        "font.size": 9.5,
        "grid.color": FAINT,
        "legend.fontsize": 9.0,
        "text.color": INK,
        "xtick.color": FAINT,
        "xtick.labelcolor": INK,
        "ytick.color": FAINT,
        "ytick.labelcolor": INK,
    }
    with matplotlib.style.context(["default", style]):
        yield


def report_axes(*, height: float = 3.4) -> tuple[Figure, Axes]:
    """Return a new report figure, free of pyplot, and its axes; width 5 in, ``height`` in inches.

    Its size makes the text legible both on a phone and beside a second figure on a desk.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, height), layout="constrained")
    figure.set_gid(THEMED)
    return figure, figure.subplots()


def report_diagonal() -> tuple[Figure, Axes]:
    """Return a new report figure as :func:`report_axes`, of shares over shares, alike if ideal."""
    figure, ax = report_axes(height=3.8)
    ax.plot([0, 1], [0, 1], color=FAINT, linestyle="dashed", linewidth=1.0, label="ideal")
    ax.set(aspect="equal", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return figure, ax


def bar_edges(values: NDArray[np.float64], n_bars: int = 40) -> NDArray[np.float64]:
    """Return edges of the bars of a histogram, for all values but the outer half per cent.

    These would squeeze all others into a few bars: clip them, so that they go into the end bars.

    Examples
    --------
    >>> bar_edges(np.array([1.0, 1.0]), n_bars=2)
    array([0.5, 1. , 1.5])
    """
    low, high = np.percentile(values, [0.5, 99.5])
    return (
        np.linspace(low, high, n_bars + 1)
        if high > low
        else np.linspace(low - 0.5, high + 0.5, n_bars + 1)
    )


def report_pair(*, height: float = 4.6) -> tuple[Figure, list[Axes]]:
    """Return a new report figure as :func:`report_axes`, with two axes one below the other."""
    figure, ax = report_axes(height=height)
    ax.remove()
    return figure, list(figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.2)))
