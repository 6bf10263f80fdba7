"""Draw docs/images/idea.svg: rows are added up into sums of a fixed size, which give the model.

Run ``python docs/_scripts/idea_picture.py`` after changing it. Letters are large, so that the
picture can be read on a telephone; its background is its own, so that it can be read in the dark.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

TARGET = Path(__file__).parent.parent / "images" / "idea.svg"
INK, SOFT, BLUE, GREEN, AMBER = "#1d2733", "#5b6775", "#2f78b5", "#3a8f5c", "#d9822b"


def draw():
    """Return the figure."""
    figure, axis = plt.subplots(figsize=(7.4, 3.3))
    figure.subplots_adjust(0, 0, 1, 1)
    axis.set(xlim=(0, 7.4), ylim=(0.2, 3.5))
    axis.axis("off")
    axis.add_patch(
        FancyBboxPatch(
            (0.08, 0.28), 7.24, 3.14, "round,pad=0,rounding_size=0.15", fc="white", ec="#c8d0d9"
        )
    )
    rng = np.random.default_rng(3)
    # Rows: a table that goes on below.
    for row in range(7):
        for column in range(4):
            fade = 1.0 if row < 5 else 0.45 - 0.2 * (row - 5)
            last = column == 3
            colour = AMBER if last else BLUE
            shade = (0.35 + 0.5 * rng.random()) * fade
            place = (0.42 + 0.33 * column + 0.08 * last, 2.6 - 0.22 * row)
            axis.add_patch(Rectangle(place, 0.29, 0.17, fc=colour, alpha=shade))
    # Sums: a square and a column whose size does not change.
    for i in range(6):
        for j in range(6):
            shade = 0.25 + 0.6 * np.exp(-abs(i - j) / 1.6)
            place = (2.95 + 0.2 * j, 2.5 - 0.2 * i)
            axis.add_patch(Rectangle(place, 0.18, 0.18, fc=GREEN, alpha=shade))
        axis.add_patch(
            Rectangle((4.27, 2.5 - 0.2 * i), 0.18, 0.18, fc=AMBER, alpha=0.4 + 0.5 * rng.random())
        )
    # The model: a curve with its band.
    x = np.linspace(0, 1, 200)
    y = 2.05 + 0.42 * np.sin(6.5 * x) + 0.25 * x
    axis.fill_between(5.42 + 1.6 * x, y - 0.2, y + 0.2, color=BLUE, alpha=0.18, lw=0)
    axis.plot(5.42 + 1.6 * x, y, color=BLUE, lw=3)
    at = np.sort(rng.random(16))
    noise = 0.11 * rng.standard_normal(16)
    axis.plot(5.42 + 1.6 * at, np.interp(at, x, y) + noise, "o", color=AMBER, ms=4.5)
    for start, end in ((1.95, 2.8), (4.6, 5.35)):
        axis.add_patch(
            FancyArrowPatch(
                (start, 2.0), (end, 2.0), arrowstyle="-|>", mutation_scale=22, color=INK, lw=2
            )
        )
    axis.text(2.37, 2.14, "add", ha="center", color=INK, fontsize=16)
    axis.text(4.97, 2.14, "solve", ha="center", color=INK, fontsize=16)
    texts = [
        (1.15, "rows", "any number,\neach read once"),
        (3.7, "sums", "bounded, however\nmany the rows"),
        (6.2, "model", "answers, and\nhow sure they are"),
    ]
    for place, title, below in texts:
        axis.text(place, 3.0, title, ha="center", color=INK, fontsize=20, weight="bold")
        axis.text(
            place, 0.98, below, ha="center", va="top", color=SOFT, fontsize=16, linespacing=1.2
        )
    return figure


def main():
    """Write the picture."""
    # Text as paths and a fixed salt: the same file everywhere.
    with matplotlib.rc_context({"svg.hashsalt": "mercer"}):
        figure = draw()
        figure.savefig(TARGET, transparent=True, metadata={"Date": None})
        if len(sys.argv) > 1:
            figure.savefig(sys.argv[1], dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main()
