"""Rare positives: learn their order from pairs of rows, and compare the ROC curves.

One row in fifty is positive, in rings that no line separates. The ranker pairs every row with the
last ten of each class; the classifier weighs the classes by their frequencies; the linear model
sees all rows at once.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from mercer import KernelRanker, recipes
from mercer.display import ROCCurveDisplay
from mercer.expansions import KOMP


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4))
    signal = np.cos(2.0 * np.hypot(X[:, 0], X[:, 1])) + 0.4 * rng.standard_normal(n_rows)
    return X, (signal > 1.25).astype(int)


def main(path="rare_positives.png", n_rows=20_000):
    X, y = rows(n_rows, 0)
    X_test, y_test = rows(20_000, 1)
    ranker = KernelRanker(random_state=0).fit(X, y)
    same_size = KOMP(tolerance=1e-4, max_size=200)
    pointwise = recipes.unregularized(class_weight="balanced", expansion=same_size, random_state=0)
    models = {
        "pairs of rows": ranker,
        "balanced classes": pointwise.fit(X, y),
        "linear, all rows": LogisticRegression(class_weight="balanced").fit(X, y),
    }
    figure, axis = plt.subplots(figsize=(5, 5))
    for name, model in models.items():
        scores = model.decision_function(X_test)
        ROCCurveDisplay.from_predictions(y_test, scores, name=name, ax=axis)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return ranker


if __name__ == "__main__":
    main(*sys.argv[1:])
