"""
Forecast a time series, learning one row at a time
==================================================

``predict_one`` and ``learn_one`` take a row, a list or a dict, as River's models do. The series is
chaotic: it never repeats, but what comes next is a function of what was. The model starts with
nothing and forecasts every value before it is told.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import KOMP
from mercer.kernels import Gaussian

# %%
# The equation of Mackey and Glass: production with a delay, and decay.

N_ROWS = 6000
DELAY = 17
series = [1.2] * (DELAY + 1)
for _ in range(N_ROWS + 200):
    before, now = series[-DELAY - 1], series[-1]
    series.append(now + 0.2 * before / (1 + before**10) - 0.1 * now)
series = np.array(series[200:])

# %%
# Six steps ahead, from four values of the past.

AHEAD, PAST = 6, (0, 6, 12, 18)
model = KernelRegressor(
    kernel=Gaussian(0.5),
    expansion=KOMP(tolerance=1e-3),
    step_size=0.5,
    regularization=1e-6,
    average=None,
)
forecasts, truths, lasts = [], [], []
for t in range(max(PAST), len(series) - AHEAD):
    x, y = [series[t - lag] for lag in PAST], series[t + AHEAD]
    if t > max(PAST):
        forecasts.append(model.predict_one(x))
        truths.append(y)
        lasts.append(series[t])
    model.learn_one(x, y)
errors = np.abs(np.array(truths) - forecasts)
naive = np.abs(np.array(truths) - lasts)
print(f"{model.model_order_} points after {model.n_samples_seen_:,} rows")

# %%
# The last forecasts; the mean error of a hundred rows at a time; and the path of the series, with
# the points that the model keeps of it.

figure, axes = plt.subplot_mosaic("AAC;BBC", figsize=(12, 5.5), layout="constrained")
axes["A"].plot(truths[-300:], color="0.6", lw=4, label="series")
axes["A"].plot(forecasts[-300:], "C0", lw=1.2, label=f"forecast {AHEAD} steps before")
axes["A"].set(xlabel="step of the last 300", ylabel="value")
axes["A"].legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 0.98))
windows = len(errors) // 100
for values, label, style in ((naive, "last value", "0.6"), (errors, "model", "C0")):
    means = values[: windows * 100].reshape(windows, 100).mean(axis=1)
    axes["B"].semilogy(100 * np.arange(1, windows + 1), means, color=style, label=label)
axes["B"].set(xlabel="rows learned", ylabel="mean absolute error")
axes["B"].legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 0.98))
axes["C"].plot(series[:-18], series[18:], color="0.8", lw=0.5, zorder=0)
axes["C"].plot(model.dictionary_[:, 3], model.dictionary_[:, 0], "o", mfc="none", color="C0")
axes["C"].set(xlabel="18 steps before", ylabel="now", title="points of the dictionary")
for axis in axes.values():
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
