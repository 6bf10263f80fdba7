"""Draw docs/images/default.svg: what the default learner does with few rows and with many.

Run ``python docs/_scripts/default_picture.py`` after changing it.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parent))
from two_ways_picture import INK, LINE, arrow, box

TARGET = Path(__file__).parent.parent / "images" / "default.svg"
WIDTH = 2.35

RACE = [
    ("families race\nlinear, Laplacian,\nMatérn, Gaussian", "500 rows fitted,\n2,500 judge"),
    ("metrics\nfrom gradients", "columns that do\nnot matter fade"),
]
FEW = ("up to 3 families\non all rows, trees", "each row is a point")
MANY = [
    ("cells race\nten of 400 rows", "the same cells\nfor all families"),
    ("2 dictionaries,\n4 partitions,\ntrees", "rows of a cell\nare its points"),
]
JUDGES = {
    "few": ("each row judged by\nthe fit to all others", "in closed form"),
    "many": ("the last rows\njudge", "before they are\nlearned"),
}


def boxes(axis, x, y, several, kind):
    """Draw boxes in a row with arrows between them; return where the last one ends."""
    for number, (text, below) in enumerate(several):
        if number:
            arrow(axis, (x - 0.42, y), (x, y))
        box(axis, x, y, WIDTH, 1.1, text, kind, size=8)
        axis.text(x + WIDTH / 2, y - 0.68, below, ha="center", va="top", color=INK, fontsize=7.5)
        x += WIDTH + 0.46
    return x - 0.46


def draw():
    """Return the figure."""
    figure, axis = plt.subplots(figsize=(11.4, 3.7))
    axis.set_xlim(0, 19.6)
    axis.set_ylim(-3.7, 2.2)
    axis.axis("off")
    middle, high, low = -0.65, 0.9, -2.2
    box(axis, 0.1, middle, 1.5, 2.2, "the first\nrows, in\nrandom\norder", "rows", size=9)
    arrow(axis, (1.62, middle), (2.1, middle))
    split = boxes(axis, 2.1, middle, RACE, "steps")
    start = split + 0.75
    for y in (high, low):
        axis.plot(
            [split + 0.04, split + 0.35, split + 0.35], [middle, middle, y], color=LINE, lw=1.3
        )
        arrow(axis, (split + 0.35, y), (start, y))
    axis.text(start, high + 0.85, "up to 2,000 rows", color=INK, fontsize=10, weight="bold")
    end = boxes(axis, start, high, [FEW], "sums")
    axis.text(start, low + 0.85, "more rows", color=INK, fontsize=10, weight="bold")
    last = boxes(axis, start, low, MANY, "sums")
    place = last + 0.46
    arrow(axis, (end + 0.04, high), (place, high))
    arrow(axis, (last + 0.04, low), (place, low))
    end = boxes(axis, place, high, [JUDGES["few"]], "sums")
    boxes(axis, place, low, [JUDGES["many"]], "sums")
    for y in (high, low):
        arrow(axis, (end + 0.04, y), (end + 0.5, middle + 0.35 * (1 if y > middle else -1)))
    text = "a weighted\nsum of parts\n\n$f = \\sum_p v_p f_p$"
    box(axis, end + 0.5, middle, 2.0, 2.2, text, "model", size=9)
    axis.text(
        end + 1.5,
        middle - 1.25,
        "the same rows add\nclasses: $f + b f^3$\nother losses, risks:\n$f + h(x, f)$",
        ha="center",
        va="top",
        color=INK,
        fontsize=7.5,
        linespacing=1.4,
    )
    return figure


def main():
    """Write the picture."""
    # Text as paths and a fixed salt: the same file everywhere.
    with matplotlib.rc_context({"svg.hashsalt": "mercer"}):
        figure = draw()
        figure.savefig(TARGET, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
        if len(sys.argv) > 1:
            figure.savefig(sys.argv[1], bbox_inches="tight", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
