"""Draw docs/images/two_ways.svg: learning by steps and learning by sums.

Run ``python docs/_scripts/two_ways_picture.py`` after changing it.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

TARGET = Path(__file__).parent.parent / "images" / "two_ways.svg"
INK, LINE = "#1d2b36", "#8a99a6"
COLOURS = {"rows": "#eef2f5", "steps": "#d5e8f5", "sums": "#dcefdc", "model": "#f7e6d2"}
WIDTH = 13.4

# Boxes of a lane from left to right: (text, what stands below it).
STEPS = [
    ("predict\nf(x)", "objective: where\nf must be known"),
    ("slope\n$\\ell'$(f(x), y)", "objective: which\nway it should move"),
    ("add\n$-\\eta\\,\\ell'\\,k(x,\\cdot)$", "schedule: how far;\nkernel: what is near"),
    ("keep f small", "expansion: KOMP,\nBudget, features"),
]
SUMS = [
    ("features\nz = k(D, x)", "expansion: a fixed\ndictionary D"),
    ("A += z z'\nB += z y", "sums of all rows,\nin any order"),
    ("merge", "sums of\nother rows"),
    ("solve\n(A + $\\lambda$K) c = B", "when somebody\nasks"),
]


def box(axis, x, y, width, height, text, kind, size=10):
    """Draw a box with its left edge at x and its middle at y."""
    style = "round,pad=0.02,rounding_size=0.14"
    patch = FancyBboxPatch(
        (x, y - height / 2), width, height, boxstyle=style, fc=COLOURS[kind], ec="none"
    )
    axis.add_patch(patch)
    axis.text(
        x + width / 2, y, text, ha="center", va="center", color=INK, fontsize=size, linespacing=1.3
    )


def arrow(axis, start, end, bend=0.0):
    """Draw an arrow from one point to another."""
    style = {"arrowstyle": "-|>", "color": LINE, "lw": 1.3, "connectionstyle": f"arc3,rad={bend}"}
    axis.annotate("", end, start, arrowprops=style)


def lane(axis, y, title, boxes, kind, promise):
    """Draw the boxes of one way to learn, between the rows and the model."""
    axis.text(2.2, y + 1.05, title, color=INK, fontsize=11, weight="bold", va="center")
    axis.text(
        11.15, y + 1.05, promise, color=INK, fontsize=9, style="italic", va="center", ha="right"
    )
    for i, (text, below) in enumerate(boxes):
        x = 2.2 + 2.3 * i
        box(axis, x, y, 1.9, 1.1, text, kind)
        axis.text(x + 0.95, y - 0.72, below, ha="center", va="top", color=INK, fontsize=8)
        arrow(axis, (x - 0.36, y), (x, y))
    arrow(axis, (2.2 + 2.3 * 3 + 1.94, y), (11.5, y))


def draw():
    """Return the figure."""
    figure, axis = plt.subplots(figsize=(9.6, 4.3))
    axis.set_xlim(0, WIDTH)
    axis.set_ylim(-5.1, 1.4)
    axis.axis("off")
    high, low = 0.0, -3.35
    box(
        axis,
        0.1,
        (high + low) / 2,
        1.5,
        4.5,
        "rows\n(x, y)\nof a stream,\na file,\nan array",
        "rows",
    )
    for y in (high, low):
        axis.plot([1.62, 1.86], [y, y], color=LINE, lw=1.3)
    lane(
        axis,
        high,
        "by steps",
        STEPS,
        "steps",
        "every loss, risk, pair, value; an answer after each row",
    )
    # Back to the first box: the next row meets the function of now.
    axis.plot([10.05, 10.05, 3.15, 3.15], [-1.32, -1.5, -1.5, -1.34], color=LINE, lw=1.3)
    arrow(axis, (3.15, -1.5), (3.15, -1.28))
    axis.text(6.6, -1.58, "the next batch", ha="center", va="top", fontsize=8, color=INK)
    lane(axis, low, "by sums", SUMS, "sums", "squared errors, and what Newton steps make of others")
    model = "model\n\n$f(x) = \\sum_j c_j\\,k(d_j, x)$\n\nin bounded\nmemory"
    box(axis, 11.5, (high + low) / 2, 1.8, 4.5, model, "model", size=8.5)
    return figure


def main():
    """Write the picture."""
    # Text as paths and a fixed salt: the same file everywhere.
    with matplotlib.rc_context({"svg.hashsalt": "mercer"}):
        figure = draw()
        figure.savefig(TARGET, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
