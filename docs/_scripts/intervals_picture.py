"""Draw docs/images/intervals.png: three kinds of intervals around one curve.

python docs/_scripts/intervals_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor

OUT = Path(__file__).parents[1] / "images" / "intervals.png"
BAND, LINE, POINT, MISS = "#9ecae1", "#08519c", "#969696", "#cb181d"


def main() -> None:
    """Write the picture."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(3000, 1))
    y = np.sin(X[:, 0]) + 0.05 * (1.0 + X[:, 0] ** 2) * rng.normal(size=3000)
    model = KernelRegressor(random_state=0).fit(X[:2000], y[:2000])
    grid = np.linspace(-3.0, 3.0, 300)[:, np.newaxis]
    test = slice(2000, 3000)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.6), sharey=True, layout="constrained")
    for ax, method in zip(axes, ("split", "normalized", "quantile"), strict=True):
        low, high = model.predict_interval(grid, 0.9, method=method).T
        least, most = model.predict_interval(X[test], 0.9, method=method).T
        inside = (least <= y[test]) & (y[test] <= most)
        ax.fill_between(grid[:, 0], low, high, color=BAND, lw=0)
        ax.plot(grid[:, 0], model.predict(grid), color=LINE, lw=1.5)
        for mine, colour in ((inside, POINT), (~inside, MISS)):
            ax.plot(X[test][mine, 0], y[test][mine], ".", color=colour, ms=2.5)
        ax.set_title(f'"{method}": {100.0 * inside.mean():.1f} % inside', fontsize=12)
        ax.set_xlabel("x")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("y")
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
