"""
Make the worst errors small, not the mean
=========================================

Where large errors are what hurts, their mean is the wrong thing to minimise. The conditional value
at risk (CVaR) is the mean of the worst losses only: a model that minimises it gives some accuracy
away everywhere, and moves to where rare, large targets cost less. It is the opposite of a robust
loss.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.display import LossDistributionDisplay, row_losses, tail_of

# %%
# Demand over a day, with rare peaks in its second half.

N_ROWS = 20_000


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    hour = rng.uniform(0, 24, size=n_rows)
    peak = rng.uniform(size=n_rows) < np.where(hour > 12, 0.15, 0.0)
    usual = 2 + np.sin(2 * np.pi * hour / 24) + 0.15 * rng.standard_normal(n_rows)
    return hour[:, None], usual + 2.0 * peak


x, y = rows(N_ROWS, 0)
x_test, y_test = rows(10_000, 1)

# %%
# The same model twice, but for the objective.

LEVEL = 0.9
models = {}
for name, risk in (("mean loss", None), (f"CVaR of level {LEVEL}", f"cvar:{LEVEL}")):
    model = KernelRegressor(risk=risk, random_state=0)
    models[name] = model.fit(x, y)
    losses = row_losses(model, x_test, y_test)
    tail = tail_of(losses, LEVEL)
    print(f"{name}: mean of all losses {losses.mean():.2f}, of the worst tenth {tail.cvar:.2f}")

# %%
# Left what they learn; right the share of test rows that lose more than a value. The line of the
# CVaR lies higher at first and ends earlier.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
grid = np.linspace(0, 24, 301)
left.plot(x[:1500], y[:1500], ".", color="0.7", ms=3)
for (name, model), color in zip(models.items(), ("#0072B2", "#D55E00"), strict=True):
    left.plot(grid, model.predict(grid[:, None]), color=color, lw=2.5, label=name)
    LossDistributionDisplay.from_estimator(
        model, x_test, y_test, level=LEVEL, name=name, ax=right, color=color
    )
left.set(xlabel="hour", ylabel="demand", xticks=range(0, 25, 6))
left.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
left.spines[["top", "right"]].set_visible(False)
plt.show()
