"""
Regression with outliers: which loss is robust?
===============================================

Some of the targets are wrong, all to the same side. The squared loss splits the difference; Huber's
loss and the absolute error, whose slopes are bounded, stay near the majority. The more rows are
wrong, the more it matters.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import Dictionary
from mercer.kernels import Gaussian
from mercer.losses import AbsoluteError, Huber, Squared

# %%
# A signal that falls steeply, with noise that grows.

N_ROWS = 4000


def truth(x):
    return -0.8 / (1 + np.exp(-12 * (x - 0.6)))


def rows(share):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(N_ROWS, 1))
    y = truth(x[:, 0]) + (0.02 + 0.08 * x[:, 0]) * rng.standard_normal(N_ROWS)
    return x, y + np.where(rng.uniform(size=N_ROWS) < share, rng.uniform(0.5, 1.5, N_ROWS), 0.0)


# %%
# A panel for each share of wrong targets.

LOSSES = {
    "squared": (Squared(), "#D55E00"),
    "Huber": (Huber(0.1), "#0072B2"),
    "absolute": (AbsoluteError(), "#009E73"),
}
shares = (0.02, 0.1, 0.3)
grid = np.linspace(0, 1, 201)
figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True, layout="constrained")
for axis, share in zip(axes, shares, strict=True):
    x, y = rows(share)
    axis.plot(x[:1000], y[:1000], ".", color="0.75", ms=3)
    axis.plot(grid, truth(grid), "k--", lw=1.2, label="truth", zorder=5)
    for name, (loss, color) in LOSSES.items():
        model = KernelRegressor(
            loss, kernel=Gaussian(0.15), expansion=Dictionary(50), random_state=0
        ).fit(x, y)
        curve = model.predict(grid[:, None])
        axis.plot(grid, curve, color=color, lw=2, label=name)
        distance = np.sqrt(np.mean((curve - truth(grid)) ** 2))
        print(f"{share:.0%} wrong, {name} loss: distance to the truth {distance:.3f}")
    axis.set(xlabel="x", title=f"{share:.0%} of the targets are wrong")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("y")
axes[0].legend(frameon=False, fontsize="small")
plt.show()
