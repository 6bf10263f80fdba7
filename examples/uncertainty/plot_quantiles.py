"""
Prediction intervals: several quantiles at once
===============================================

Where the noise depends on the inputs, one number for the error misleads. Learning quantiles gives a
band that is as wide as the data are, wherever they are: the mean, and for each level what is to be
added to it.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.display import RegressionCurveDisplay
from mercer.losses import Quantile

# %%
# Noise that grows from left to right.

N_ROWS = 20_000
rng = np.random.default_rng(0)
x = rng.uniform(0, 10, size=(N_ROWS, 1))
y = np.sin(x[:, 0]) + 0.1 * (1 + x[:, 0] / 3) * rng.standard_normal(N_ROWS)
train, test = slice(N_ROWS // 2), slice(N_ROWS // 2, None)

# %%
# Three levels are three outputs of one model.

levels = [0.1, 0.5, 0.9]
model = KernelRegressor(Quantile(levels), random_state=0).fit(x[train], y[train])
below = y[test, None] < model.predict(x[test])
for level, share in zip(levels, below.mean(axis=0), strict=True):
    print(f"level {level}: {share:.3f} of the test rows lie below")

# %%
# Left the curves; right the share of test rows below each of them, along the input: a model that
# had learned one width for all would be off at both ends.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
RegressionCurveDisplay.from_estimator(model, x[:1500], y[:1500], ax=left)
edges = np.linspace(0, 10, 11)
cells = np.digitize(x[test, 0], edges) - 1
centres = (edges[1:] + edges[:-1]) / 2
shares = np.array([below[cells == c].mean(axis=0) for c in range(len(centres))])
for level, share, color in zip(levels, shares.T, ("#0072B2", "#E69F00", "#009E73"), strict=True):
    right.axhline(level, color=color, lw=1)
    right.plot(centres, share, "o", color=color)
right.set(xlabel="x0", ylabel="share of test rows below", ylim=(0, 1), yticks=levels)
right.set(xlim=(0, 10), title="lines: what was asked for")
right.spines[["top", "right"]].set_visible(False)
plt.show()
