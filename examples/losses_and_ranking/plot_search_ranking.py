"""
Learning to rank: order documents within their queries
======================================================

Grades of documents are comparable within a query, not between queries: some users are strict. Here
those who are get to see the better documents, so that over all rows better documents have the lower
grades. A regression on the grades learns that. A ranker learns from pairs of rows of one query,
where the level of the query cancels.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRanker, KernelRegressor
from mercer.kernels import Gaussian
from mercer.metrics import concordance

# %%
# Ten documents a query. Relevance grows with the quality, and has its best age.

N_ROWS = 3000


def relevance(X):
    return X[:, 0] - 1.5 * X[:, 1] ** 2


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    query = np.arange(n_rows) // 10
    strictness = rng.uniform(-1, 1, size=n_rows)[query]
    quality = strictness + 0.5 * rng.standard_normal(n_rows)
    X = np.column_stack([quality, rng.uniform(-1, 1, size=n_rows)])
    return X, relevance(X) - 3 * strictness + 0.3 * rng.standard_normal(n_rows), query


X, grades, query = rows(N_ROWS, 0)
X_test, grades_test, query_test = rows(5000, 1)

# %%
# The same kernel for both models; and the true relevance, as the best there is.

kernel = Gaussian(0.8)
ranker = KernelRanker(kernel=kernel, random_state=0).fit(X, grades, group=query)
regression = KernelRegressor(kernel=kernel, random_state=0).fit(X, grades)
scorers = {
    "regression on grades": regression.predict,
    "pairs of a query": ranker.decision_function,
    "true relevance": relevance,
}
shares = {
    name: concordance(grades_test, score(X_test), query_test) for name, score in scorers.items()
}

# %%
# First the data: along a line of one query grades rise with the quality, from query to query they
# fall. Then what was learned, brightest on top, and the share of pairs of a query in right order.

figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
for q in range(20):
    ours = np.flatnonzero((query == q) & (np.abs(X[:, 1]) < 0.5))
    ours = ours[np.argsort(X[ours, 0])]
    axes[0].plot(X[ours, 0], grades[ours], ".-", color="#0072B2", lw=0.8)
axes[0].set(xlabel="quality", ylabel="grade", title="grades: a line for each query")
axes[0].spines[["top", "right"]].set_visible(False)
x0, x1 = np.meshgrid(np.linspace(-1.5, 1.5, 81), np.linspace(-1, 1, 81))
grid = np.column_stack([x0.ravel(), x1.ravel()])
for axis, (name, score) in zip(axes[1:], scorers.items(), strict=True):
    axis.contourf(x0, x1, score(grid).reshape(x0.shape), 14, cmap="cividis")
    axis.set(title=f"{name}\n{100 * shares[name]:.0f} % in order", xlabel="quality")
axes[1].set_ylabel("age")
plt.show()
