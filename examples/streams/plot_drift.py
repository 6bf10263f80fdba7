"""
Concept drift: which learners keep up with a changing stream?
=============================================================

The boundary between two classes turns while rows come in. A model that counts all rows the same
learns the average of the past; one that forgets, or makes steps of a constant size, follows. Every
row is predicted before it is learned, so the error needs no test set.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelClassifier
from mercer.display import DecisionSurfaceDisplay
from mercer.evaluation import progressive
from mercer.expansions import KOMP, Dictionary
from mercer.kernels import Gaussian
from mercer_app.files import stream

# %%
# A wave separates the classes. It stands still, turns by a right angle, and stands still again.

N_ROWS = 18_000
rng = np.random.default_rng(0)
time = np.arange(N_ROWS) / N_ROWS
angle = np.clip(time - 1 / 3, 0, 1 / 3) * 3 * np.pi / 2
X = rng.uniform(-2, 2, size=(N_ROWS, 2))
along = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
across = X[:, 1] * np.cos(angle) - X[:, 0] * np.sin(angle)
y = (across > 0.7 * np.sin(2 * along)).astype(int)

# %%
# In the second model a row counts about a third (1/e) of a new one after ``memory`` further rows.

memory = N_ROWS / 18
common = {"kernel": Gaussian(0.7), "batch_size": 32, "random_state": 0}
models = {
    "all rows count the same": KernelClassifier(expansion=Dictionary(150), **common),
    "old rows fade": KernelClassifier(
        expansion=Dictionary(150, forgetting=1 - 1 / memory), **common
    ),
    "constant steps": KernelClassifier(expansion=KOMP(), step_size=1.0, average=None, **common),
}
results = {
    name: progressive(model, stream(X, y, batch_size=32), classes=[0, 1], every=N_ROWS // 36)
    for name, model in models.items()
}

# %%
# Above the error as it goes; below what each model believes at the end, with the last rows.

figure, axes = plt.subplot_mosaic("AAA;BCD", figsize=(11, 7.5), layout="constrained")
axes["A"].axvspan(N_ROWS / 3, 2 * N_ROWS / 3, color="0.92", label="the boundary turns")
for (name, result), color in zip(results.items(), ("#D55E00", "#0072B2", "#009E73"), strict=True):
    axes["A"].plot(result.samples, 100 * result.windowed, color=color, label=name)
    print(f"{name}: {100 * result.value:.1f} % errors in all")
axes["A"].set(xlabel="rows", ylabel="errors in a window [%]", xlim=(0, N_ROWS), ylim=(0, None))
axes["A"].legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
axes["A"].spines[["top", "right"]].set_visible(False)
for (name, model), key in zip(models.items(), "BCD", strict=True):
    DecisionSurfaceDisplay.from_estimator(model, X[-400:], y[-400:], ax=axes[key])
    axes[key].get_legend().remove()
    axes[key].set(title=name, aspect="equal")
plt.show()
