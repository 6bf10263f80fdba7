"""Draw docs/images/adaptive_filters.svg: learning curves of kernel adaptive filters.

Run ``python docs/_scripts/adaptive_filters_picture.py`` after
``python benchmarks/kernel_adaptive_filters.py``.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
CURVES = HERE.parent.parent / "benchmarks" / "results" / "kernel_adaptive_filters.jsonl"
TARGET = HERE.parent / "images" / "adaptive_filters.svg"
# KRLS (ALD) on the Lorenz series after the first 1,000 rows: README of KAFBOX.
PUBLISHED = -40.17
# Filter in the results, name in the picture, colour, width.
SHOWN = {
    "lorenz": [
        ("stream default", "stream default", "#7a4fb5", 2.0),
        ("KRLS-T, M = 100", "KRLS-T", "#c0392b", 2.0),
        ("FB-KRLS, M = 100", "FB-KRLS", "#1e8449", 1.4),
        ("KRLS, ALD 1e-4", "KRLS (ALD)", "#1f5fa8", 1.4),
        ("QKLMS, radius 1", "QKLMS", "#b9770e", 1.4),
        ("KOMP steps, tolerance 0.01", "KOMP steps", "#555555", 1.4),
    ],
    "glass": [
        ("stream default", "stream default", "#7a4fb5", 2.0),
        ("KRLS-T, M = 50", "KRLS-T", "#c0392b", 2.0),
        ("FB-KRLS, M = 50", "FB-KRLS", "#1e8449", 1.4),
        ("KRLS, ALD 0.007", "KRLS (ALD)", "#1f5fa8", 1.4),
        ("QKLMS, radius 0.3", "QKLMS", "#b9770e", 1.4),
        ("KOMP steps, M <= 50", "KOMP steps", "#555555", 1.4),
    ],
    "switch": [
        ("stream default", "stream default", "#7a4fb5", 2.0),
        ("KRLS-T, M = 50", "KRLS-T", "#c0392b", 2.0),
        ("SW-KRLS, M = 50", "SW-KRLS", "#16a085", 1.4),
        ("KRLS, ALD 0.01", "KRLS (ALD)", "#1f5fa8", 1.4),
        ("QKLMS, radius 0.3", "QKLMS", "#b9770e", 1.4),
        ("KOMP steps, M <= 50", "KOMP steps", "#555555", 1.4),
    ],
}
TITLES = {
    "lorenz": "Lorenz: the next value",
    "glass": "Mackey-Glass: the next value",
    "switch": "a channel that switches at row 500",
}


def draw():
    """Return the figure."""
    curves = {run["series"]: run for run in map(json.loads, CURVES.read_text().splitlines())}
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "adaptive filters"})
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.9), layout="constrained")
    for axis, (series, shown) in zip(axes, SHOWN.items(), strict=True):
        every = curves[series]["every"]
        for name, label, colour, width in shown:
            values = curves[series]["dB"][name]
            rows = [every * (i + 1) for i in range(len(values))]
            axis.plot(rows, values, color=colour, lw=width, label=label)
        axis.set_title(TITLES[series], fontsize=10)
        axis.set_xlabel("rows learned")
        axis.grid(color="#dddddd", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean squared error, dB")
    axes[0].set_ylim(-72.0, 60.0)
    axes[0].axhline(PUBLISHED, color="#1f5fa8", lw=1.2, ls=":", label="KRLS (ALD), published")
    axes[1].set_ylim(-26.5, -6.0)
    axes[2].set_ylim(-33.0, -3.0)
    noise = curves["switch"]["noise"]
    axes[2].axhline(noise, color="#999999", lw=1.0, ls=":")
    axes[2].text(1500, noise - 0.2, "noise", ha="right", va="top", color="#777777", fontsize=8)
    for axis in axes:
        axis.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def main():
    """Write the picture."""
    draw().savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
