"""
Rows in order: why the error on held-out rows may be too good
=============================================================

Sensors drift along with a disturbance that nobody measures. A row that is held out beside its
neighbours in time is easy to predict; tomorrow's rows have no such neighbours. The default learner
notices, and holds out blocks of rows instead, so that it trusts what lasts.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import Auto

# %%
# A setting of the machine matters in the same way forever. Three temperatures wander, and so does
# the disturbance: for a while any of them seems to tell it.

N_ROWS = 4000
rng = np.random.default_rng(5)
steps = rng.normal(size=(N_ROWS, 4))
wander = np.zeros_like(steps)
for t in range(1, N_ROWS):
    wander[t] = 0.99 * wander[t - 1] + 0.14 * steps[t]
setting = rng.uniform(-1, 1, size=N_ROWS)
X = np.column_stack([setting, wander[:, 1:]])
lasting = np.sin(3 * setting)
y = lasting + 0.8 * wander[:, 0] + 0.1 * rng.normal(size=N_ROWS)
past, future = slice(0, N_ROWS // 2), slice(N_ROWS // 2, None)

# %%
# The same learner twice. What it believes is the error on the rows that it held out.

models = {"single rows held out": Auto(block_length=1), "blocks held out (default)": Auto()}
believed, true = [], []
for name, expansion in models.items():
    model = KernelRegressor(expansion=expansion, random_state=0).fit(X[past], y[past])
    models[name] = model
    believed.append(2 * model.history_.loss[-1])  # the loss is half the squared error
    true.append(np.mean((model.predict(X[future]) - y[future]) ** 2))
    print(f"{name} ({model.block_length_}): believed {believed[-1]:.2f}, true {true[-1]:.2f}")

# %%
# Left: what the two believe, and how it turned out. Right: their answers to the setting alone,
# for fifty of the temperatures that are to come.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
places = np.arange(len(models))
left.bar(places - 0.2, believed, 0.38, color="#9ecae1", label="on held-out rows of the past")
left.bar(places + 0.2, true, 0.38, color="#08519c", label="on rows of the future")
left.set(xticks=places, xticklabels=models, ylabel="mean squared error", xlabel="what chose")
left.legend(frameon=False)
grid = np.linspace(-1, 1, 60)
for (name, model), color in zip(models.items(), ("#D55E00", "#0072B2"), strict=True):
    some = X[future][:: max(1, N_ROWS // 100)]
    answers = [model.predict(np.column_stack([grid, np.tile(x[1:], (60, 1))])) for x in some]
    right.plot(grid, np.transpose(answers), color=color, linewidth=0.4, alpha=0.5)
    right.plot([], [], color=color, label=name)
right.plot(grid, np.sin(3 * grid), "k--", label="what lasts")
right.set(xlabel="setting", ylabel="predicted")
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
