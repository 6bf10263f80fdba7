"""
Imbalanced classes: maximise the AUC by learning from pairs
===========================================================

Few rows are positive, in rings that no line separates, and what counts is that they come first. The
ranker pairs every row with the last ten of each class; the balanced classifier weighs the classes
by their frequencies; the linear model sees all rows at once. The curves show that balance is most
of the gain of pairs over rows, and that the default classifier, which makes no gradient steps,
needs neither.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay

from mercer import KernelClassifier, KernelRanker, recipes
from mercer.expansions import KOMP

# %%
# Only the first two of four columns matter.

N_ROWS = 20_000


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4))
    signal = np.cos(2.0 * np.hypot(X[:, 0], X[:, 1])) + 0.4 * rng.standard_normal(n_rows)
    return X, (signal > 1.25).astype(int)


X, y = rows(N_ROWS, 0)
X_test, y_test = rows(20_000, 1)
print(f"share of positives: {y.mean():.3f}")

# %%
# The same dictionary for both machines that learn by steps, so that only the objective differs.

same_size = KOMP(tolerance=1e-4, max_size=200)
pointwise = recipes.unregularized(
    step_size="auto", class_weight="balanced", expansion=same_size, shuffle=True, random_state=0
)
models = {
    "pairs of rows": KernelRanker(random_state=0).fit(X, y),
    "balanced classes": pointwise.fit(X, y),
    "the default classifier": KernelClassifier(random_state=0).fit(X, y),
    "linear, all rows": LogisticRegression(class_weight="balanced").fit(X, y),
}

# %%
# Left the ROC curves on fresh rows; right the score of the ranker in the plane of the two columns
# that matter, with the positive test rows.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for name, model in models.items():
    scores = model.decision_function(X_test)
    RocCurveDisplay.from_predictions(y_test, scores, name=name, ax=left)
x0, x1 = np.meshgrid(np.linspace(-3, 3, 81), np.linspace(-3, 3, 81))
grid = np.column_stack([x0.ravel(), x1.ravel(), np.zeros((x0.size, 2))])
scores = models["pairs of rows"].decision_function(grid).reshape(x0.shape)
figure.colorbar(right.contourf(x0, x1, scores, 20, cmap="cividis"), label="score: higher is first")
right.plot(*X_test[y_test == 1, :2].T, "o", ms=3.5, mfc="white", mec="black", mew=0.5)
right.set(xlabel="x0", ylabel="x1", xlim=(-3, 3), ylim=(-3, 3), title="dots: positive rows")
plt.show()
