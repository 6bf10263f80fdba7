"""Two moons: what a model that keeps about 20 of 20,000 points looks like.

The ringed points are the whole dictionary; the regions are what it predicts.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from mercer import KernelClassifier
from mercer.display import DecisionSurfaceDisplay, LearningCurveDisplay, ModelOrderDisplay


def main(path="moons.png", n_rows=20_000):
    X, y = make_moons(n_rows, noise=0.2, random_state=0)
    model = KernelClassifier(expansion="komp", random_state=0).fit(X, y)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), width_ratios=(1.3, 1, 1))
    DecisionSurfaceDisplay.from_estimator(model, X, y).plot(axes[0])
    LearningCurveDisplay.from_estimator(model).plot(axes[1])
    ModelOrderDisplay.from_estimator(model).plot(axes[2])
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
