"""
Novelty detection: where do the data lie?
=========================================

Learn a region that holds all but a share ``nu`` of the rows, and call what is outside novel. This
is the problem of ``OneClassSVM``, whose region is drawn for comparison, but solved in small steps,
with a few points, so that it can go on with a stream.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import OneClassSVM

from mercer import NoveltyDetector
from mercer.kernels import Gaussian

# %%
# Two moons, and a few rows from anywhere.

N_ROWS = 3000
rng = np.random.default_rng(0)
X, _ = make_moons(N_ROWS, noise=0.1, random_state=0)
stray = rng.uniform(size=N_ROWS) < 0.04
X[stray] = rng.uniform((-1.6, -1.2), (2.6, 1.7), size=(stray.sum(), 2))

# %%
# One model for each share; scikit-learn writes the same length scale as a ``gamma``. Blue is the
# region learned, crosses are the rows outside of it; dashed is the border of ``OneClassSVM``.

LENGTH = 0.3
x0, x1 = np.meshgrid(np.linspace(-1.7, 2.7, 161), np.linspace(-1.3, 1.8, 121))
grid = np.column_stack([x0.ravel(), x1.ravel()])
figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), sharey=True, layout="constrained")
for axis, nu in zip(axes, (0.05, 0.2, 0.5), strict=True):
    model = NoveltyDetector(nu, kernel=Gaussian(LENGTH), n_passes=5, random_state=0).fit(X)
    machine = OneClassSVM(nu=nu, gamma=1 / (2 * LENGTH**2)).fit(X)
    novel = model.predict(X) < 0
    print(
        f"nu {nu}: {novel.mean():.3f} of the rows are novel, {model.model_order_} points,", end=""
    )
    print(f" {len(machine.support_)} support vectors")
    scores = model.decision_function(grid).reshape(x0.shape)
    axis.contourf(x0, x1, scores, np.linspace(0, scores.max(), 9), cmap="Blues", alpha=0.8)
    axis.contour(x0, x1, scores, [0], colors="#0072B2", linewidths=2)
    border = machine.decision_function(grid).reshape(x0.shape)
    axis.contour(x0, x1, border, [0], colors="black", linewidths=1, linestyles="dashed")
    axis.plot(*X[~novel].T, ".", color="0.35", ms=2)
    axis.plot(*X[novel].T, "x", color="#D55E00", ms=4, mew=0.9)
    axis.set(title=f"nu = {nu}", xlabel="x0")
axes[0].set_ylabel("x1")
axes[0].plot([], [], "x", color="#D55E00", label="novel")
axes[0].plot([], [], color="#0072B2", lw=2, label="border")
axes[0].plot([], [], "k--", lw=1, label="border of OneClassSVM")
axes[0].legend(loc="lower left", fontsize="small", framealpha=0.9)
plt.show()
