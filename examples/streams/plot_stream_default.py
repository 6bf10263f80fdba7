"""
The default of streams: which way to learn counts, and when the world changed
=============================================================================

Fed row by row, the default runs several ways to learn side by side and believes those that did best
lately. Here a rule holds, another one takes its place at once, the first one comes back, and then
the second one again. A picture shows what the answers came from.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelClassifier
from mercer.display import StreamDisplay
from mercer.expansions import KOMP

# %%
# Two rules for two inputs in units of their own: a wave, and a disc. They take turns.

N_ROWS = 8000
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(N_ROWS, 2))
wave = X[:, 1] > np.sin(2 * X[:, 0])
disc = np.hypot(X[:, 0], X[:, 1]) < 1.3
y = np.where((4 * np.arange(N_ROWS) // N_ROWS) % 2 == 0, wave, disc)
rows = [{"speed": 1000 + 50 * a, "load": b / 100} for a, b in X]

# %%
# One row at a time: first asked, then told. Beside it is a single kernel expansion, compressed by
# KOMP, which answers by the average of its iterates; its inputs are scaled by hand.

models = {
    "default": KernelClassifier(),
    "KOMP, averages": KernelClassifier(expansion=KOMP(max_size=200), kernel="gaussian"),
}
right = {name: np.zeros(N_ROWS) for name in models}
for t, (row, x, label) in enumerate(zip(rows, X, y, strict=True)):
    for (name, model), given in zip(models.items(), (row, x), strict=True):
        if t:
            right[name][t] = model.predict_one(given) == label
        model.learn_one(given, label)
default = models["default"]
print("changes found after rows", default.history_.changes.tolist())
for name, values in right.items():
    print(f"{name}: {100 * values.mean():.1f} % right")

# %%
# Above: how many of the last rows were answered rightly. Below: the losses of the default with the
# changes that it found, and how much each kind of way counted. *Memories* are what was known
# before a change; *stacks* are regressions on what all the others say.

figure, axes = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
width = max(1, N_ROWS // 80)
for (name, values), color in zip(right.items(), ("#0072B2", "#D55E00"), strict=True):
    means = values[: N_ROWS // width * width].reshape(-1, width).mean(axis=1)
    ends = width * np.arange(1, len(means) + 1)
    axes[0].plot(ends, 100 * means, color=color, label=name)
axes[0].set(ylabel=f"right answers, of {width} rows [%]", ylim=(None, 101))
axes[0].legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
axes[0].spines[["top", "right"]].set_visible(False)
StreamDisplay.from_estimator(default, axes=axes[1:])
plt.show()
