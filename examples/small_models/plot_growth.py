"""
How do a support vector machine and a streaming model grow with the rows?
=========================================================================

Where classes overlap, the number of support vectors is a share of the rows: prediction gets slower
with every row, and training faster than that. Models of bounded size learn each row in the same
time and stay what they are; what they need to go on learning makes them larger than a small support
vector machine. All that is drawn is measured while the example runs.
"""

import pickle
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from mercer import KernelClassifier
from mercer.expansions import KOMP, Dictionary
from mercer.kernels import Gaussian

# %%
# Overlapping classes, and the same kernel for all.

N_ROWS = 12_000
LENGTH = 1.0


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.standard_normal(n_rows) > 0).astype(int)


X, y = rows(N_ROWS, 0)
X_test, y_test = rows(4000, 1)
common = {"kernel": Gaussian(LENGTH), "random_state": 0}
models = {
    "SVC": (SVC(gamma=1 / (2 * LENGTH**2)), "#D55E00"),
    "mercer, Dictionary": (KernelClassifier(expansion=Dictionary(300), **common), "#0072B2"),
    "mercer, KOMP": (KernelClassifier(expansion=KOMP(max_size=300), **common), "#009E73"),
}

# %%
# The size of a model is that of its pickle. The first fit of a kind may compile its loops, so a
# small one is made before the clock starts.

sizes = N_ROWS // np.array([16, 8, 4, 2, 1])
found = {name: [] for name in models}
for name, (model, _) in models.items():
    model.fit(X[:500], y[:500]).predict(X_test[:10])
    for n_rows in sizes:
        start = time.process_time()
        model.fit(X[:n_rows], y[:n_rows])
        fitted = time.process_time()
        errors = 100 * np.mean(model.predict(X_test) != y_test)
        predicted = time.process_time()
        size = len(pickle.dumps(model)) / 1e6
        found[name].append((fitted - start, predicted - fitted, size, errors))

# %%
# Axes are logarithmic, but for that of the errors.

measures = ("seconds to fit", "seconds to predict", "size [MB]", "errors on test rows [%]")
figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
for name, (_, color) in models.items():
    for axis, values in zip(axes, np.transpose(found[name]), strict=True):
        axis.plot(sizes, values, "o-", color=color, label=name, ms=4)
for axis, measure in zip(axes, measures, strict=True):
    axis.set(title=measure, xlabel="rows learned", xscale="log")
    axis.set_yscale("linear" if "errors" in measure else "log")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
plt.show()
