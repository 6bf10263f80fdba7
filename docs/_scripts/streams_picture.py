"""Draw docs/images/stream_*.png: how right methods are over the time of streams that change.

Run ``python docs/_scripts/streams_picture.py`` after ``benchmarks/streams.py``, which keeps in
``benchmarks/results`` what is drawn here.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TARGETS = ROOT / "docs" / "images"

#: Name of the picture and what is said above it, of each stream.
PICTURES = {
    "elec2": ("stream_elec2", "elec2: whether the price of electricity rises"),
    "covtype": ("stream_covtype", "covtype in the order of its file: cover 2 or another"),
    "sea, abrupt": ("stream_sea", "SEA, three abrupt changes of a threshold, 10 % noise"),
    "centers, abrupt": ("stream_abrupt", "Moving centers, three abrupt changes"),
    "centers, gradual": ("stream_gradual", "Moving centers, three gradual changes, four classes"),
    "plane, incremental": ("stream_incremental", "A plane that turns, three times, 5 % noise"),
    "sine, recurring": ("stream_recurring", "Two sines in turns, 5 % noise"),
    "sine numbers, recurring": ("stream_numbers", "Two sines in turns, numbers"),
}
#: Colours of Okabe and Ito, told apart by people who are colour-blind, and in grey by their dashes.
LINES = {
    "mercer": ("#D55E00", "-", 2.4),
    "mercer, KOMP, last iterate": ("#E69F00", (0, (4, 1.5)), 1.4),
    "River, adaptive random forest": ("#0072B2", "-", 1.4),
    "River, streaming random patches": ("#56B4E9", "-", 1.4),
    "CapyMOA, streaming random patches": ("#56B4E9", (0, (4, 1.5)), 1.4),
    "River, Hoeffding adaptive tree": ("#009E73", (0, (1.2, 1.2)), 1.4),
    "River, kNN with ADWIN": ("#CC79A7", "-", 1.4),
    "River, kNN": ("#CC79A7", "-", 1.4),
    "Vowpal Wabbit, kernel SVM": ("#000000", (0, (5, 1.5, 1, 1.5)), 1.1),
}
#: Parts of 200 of a stream whose mean is drawn.
WINDOW = 6


def table():
    """Rows of both tables of results, by stream and method."""
    found = {}
    for record in json.loads((RESULTS / "streams.json").read_text()).values():
        found |= {(row["stream"], row["method"]): row for row in record["rows"]}
    return found


def courses():
    """Return the runs, whose courses are drawn, by stream and method."""
    runs = map(json.loads, (RESULTS / "streams.jsonl").read_text().splitlines())
    return {(run["stream"], run["method"]): run for run in runs}


def smoothed(course):
    """Mean of the last parts, and where they end; of fewer at the beginning."""
    sums = np.concatenate([[0.0], np.cumsum(course)])
    ends = np.arange(1, len(course) + 1)
    begins = np.maximum(ends - WINDOW, 0)
    return ends, (sums[ends] - sums[begins]) / (ends - begins)


def apart(places, least):
    """Move places up or down until they are so far from each other, with their order kept."""
    order = np.argsort(places)
    moved = np.array(places, dtype=float)
    for _ in range(500):
        for low, high in pairwise(order):
            lack = least - (moved[high] - moved[low])
            if lack > 1e-9:
                moved[low] -= lack / 2
                moved[high] += lack / 2
    return moved


def draw(stream, words, rows, runs):
    """Return the figure of a stream."""
    kept = runs[stream, "mercer"]
    numbers = "MAE" in rows[stream, "mercer"]
    kind = "MAE" if numbers else "right, %"
    n_parts = len(kept["course"])
    part = kept["rows"] / n_parts
    figure, axis = plt.subplots(figsize=(10.0, 4.0), layout="constrained")
    labels = []
    lowest, highest = np.inf, -np.inf
    for name, (color, dashes, width) in LINES.items():
        if (stream, name) not in runs:
            continue
        ends, values = smoothed(runs[stream, name]["course"])
        # The first rows of all methods are much worse: the axis is that of the others.
        lowest, highest = min(lowest, values[WINDOW:].min()), max(highest, values[WINDOW:].max())
        zorder = 3 if name == "mercer" else 2
        axis.plot(ends * part, values, color=color, ls=dashes, lw=width, zorder=zorder)
        row = rows[stream, name]
        stopped = "" if row["rows"] == kept["rows"] else ", stopped at the cross"
        if stopped:
            axis.plot(ends[-1] * part, values[-1], "x", color=color, ms=8, mew=2, zorder=4)
        text = f"{row[kind]:.3g}" if numbers else f"{row[kind]:.1f} %"
        text += f"  {name.replace('River, ', '')}"
        if row["rows / CPU s"] != "-":  # measured beside other work
            text += f", {row['rows / CPU s']:,.0f} rows/s"
        labels.append((float(values[-1]), text + stopped, color))
    if numbers:
        highest = min(highest, 2.5 * np.median([label[0] for label in labels]) + lowest)
    margin = 0.05 * (highest - lowest)
    axis.set_ylim(lowest - margin, highest + margin)
    axis.set_xlim(0, kept["rows"])
    for number, row in enumerate(kept["changes"]):
        axis.axvline(row, color="0.55", lw=1.0, ls=":", zorder=1)
        if number == 0:
            axis.annotate(
                "change",
                (row, 1.0),
                (0, 2),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color="0.35",
                fontsize=8.5,
            )
    low, high = axis.get_ylim()
    places = apart([min(max(y, low), high) for y, *_ in labels], 0.066 * (high - low))
    places += min(high - places.max(), 0.0)
    places += max(low - places.min(), 0.0)
    for (y, text, color), place in zip(labels, places, strict=True):
        axis.annotate(
            text,
            (kept["rows"], min(max(y, low), high)),
            (1.035 * kept["rows"], place),
            color=color,
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops=None
            if "stopped" in text
            else {
                "arrowstyle": "-",
                "color": color,
                "lw": 0.7,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )
    axis.set_title(words, loc="left", fontsize=11, pad=17)
    axis.set_xlabel("row")
    window = f"of the last {WINDOW * part:,.0f} rows"
    axis.set_ylabel(f"absolute error, mean {window}" if numbers else f"right, % {window}")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="0.9", lw=0.7)
    axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
    axis.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
    return figure


def main():
    """Write the pictures of the streams that have results, or of those named."""
    rows, runs = table(), courses()
    for stream, (name, words) in PICTURES.items():
        if (stream, "mercer") not in rows or (sys.argv[1:] and stream not in sys.argv[1:]):
            continue
        figure = draw(stream, words, rows, runs)
        figure.savefig(TARGETS / f"{name}.png", dpi=100, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
