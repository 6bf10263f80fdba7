"""Draw docs/images/cluster.svg: from shards by regions to a model.

Run ``python docs/_scripts/cluster_picture.py`` after changing it.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parent))
from two_ways_picture import INK, arrow, box

TARGET = Path(__file__).parent.parent / "images" / "cluster.svg"
ROWS = (1.5, 0.0, -1.5)
WORDS = ("look", "plan", "learn", "solve", "finish")
PLACES = (3.05, 5.45, 7.85, 10.8, 13.2)
BELOW = (
    "a task for\neach shard",
    "in the driver,\non a sample",
    "a task for\neach shard",
    "a task for\neach region",
    "in the driver",
)


def draw():
    """Return the figure."""
    figure, axis = plt.subplots(figsize=(10.6, 4.4))
    axis.set_xlim(0, 15.2)
    axis.set_ylim(-3.4, 2.9)
    axis.axis("off")
    for number, y in enumerate(ROWS):
        box(axis, 0.1, y, 1.6, 1.0, f"shard {number}", "rows")
        arrow(axis, (1.72, y), (2.2, y))
        box(axis, 2.2, y, 1.7, 1.0, "count,\nsample", "steps", size=9)
        arrow(axis, (3.92, y), (4.6, 0.45 * y))
        arrow(axis, (6.32, 0.45 * y), (7.0, y))
        box(axis, 7.0, y, 1.7, 1.0, "rows by\nregion", "sums", size=9)
        for other in ROWS:
            arrow(axis, (8.74, y), (9.9, other))
        box(axis, 9.9, y, 1.8, 1.0, f"region {number}:\nits cells", "sums", size=9)
        arrow(axis, (11.72, y), (12.4, 0.45 * y))
    box(axis, 4.6, 0.0, 1.7, 2.6, "race,\ntrees,\nregions,\nrows\nheld back", "model", size=9)
    box(axis, 12.4, 0.0, 1.6, 2.6, "weights\nby rows\nheld back", "model", size=9)
    arrow(axis, (14.02, 0.0), (14.7, 0.0))
    for x, word, below in zip(PLACES, WORDS, BELOW, strict=True):
        axis.text(x, 2.5, word, ha="center", color=INK, fontsize=11, weight="bold")
        axis.text(x, -2.35, below, ha="center", va="top", color=INK, fontsize=8.5)
    axis.text(9.3, 2.15, "once over the net", ha="center", color=INK, fontsize=8.5, style="italic")
    return figure


def main():
    """Write the picture, and a PNG where an argument says."""
    with plt.rc_context({"svg.hashsalt": "mercer"}):
        figure = draw()
        figure.savefig(TARGET, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
        if len(sys.argv) > 1:
            figure.savefig(sys.argv[1], bbox_inches="tight", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
