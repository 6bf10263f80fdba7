"""Three quantiles at once: where the noise grows, the band opens.

One dictionary serves all levels; the marks on the axis are its points.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.display import RegressionCurveDisplay
from mercer.losses import Quantile


def main(path="quantiles.png", n_rows=20_000):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, size=(n_rows, 1))
    y = np.sin(x[:, 0]) + 0.1 * (1 + x[:, 0] / 3) * rng.standard_normal(n_rows)
    model = KernelRegressor(Quantile([0.1, 0.5, 0.9]), random_state=0).fit(x, y)
    figure, axis = plt.subplots(figsize=(7, 4))
    RegressionCurveDisplay.from_estimator(model, x[:1500], y[:1500]).plot(axis)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
