"""
Many small models instead of a large one: a kernel in cells
===========================================================

Data are often denser or wilder in some places than in others, and one length scale is wrong in
both. ``Partitioned`` cuts the space into cells, each with a dictionary and a length scale of its
own. The default learner has such parts; here one is alone, beside a single dictionary.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import Dictionary
from mercer.kernels import Gaussian, Partitioned

# %%
# A wave that gets shorter towards a corner, where there are more rows.

N_ROWS = 20_000


def wave(X):
    return np.sin(6 / (0.12 + np.hypot(X[:, 0], X[:, 1])))


rng = np.random.default_rng(0)
X = rng.uniform(size=(N_ROWS, 2)) ** 1.5
y = wave(X) + 0.2 * rng.standard_normal(N_ROWS)

# %%
# The same rows for both; the cells are placed by k-means.

kernel = Partitioned(Gaussian(), anchors=30).fitted(X)
models = {
    "one dictionary": KernelRegressor(kernel=Gaussian(0.1), expansion=Dictionary(500)),
    "cells": KernelRegressor(kernel=kernel),
}
x0, x1 = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201))
grid = np.column_stack([x0.ravel(), x1.ravel()])
pictures = {"truth": wave(grid)}
for name, model in models.items():
    pictures[name] = model.set_params(random_state=0).fit(X, y).predict(grid)
    error = np.sqrt(np.mean((pictures[name] - pictures["truth"]) ** 2))
    print(f"{name}: root mean squared error on the grid {error:.3f}")

# %%
# Last the cells, coloured by their length scales.

figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), sharey=True, layout="constrained")
for axis, (name, values) in zip(axes, pictures.items(), strict=False):
    shades = axis.pcolormesh(x0, x1, values.reshape(x0.shape), cmap="PuOr", vmin=-1.2, vmax=1.2)
    axis.set_title(name)
figure.colorbar(shades, ax=axes[2], shrink=0.8)
cells = kernel.cells(grid).reshape(x0.shape)
lengths = axes[3].pcolormesh(x0, x1, kernel.length_scales[cells], cmap="viridis")
axes[3].contour(x0, x1, cells, np.arange(cells.max()) + 0.5, colors="white", linewidths=0.7)
axes[3].set_title("length scales of the cells")
figure.colorbar(lengths, ax=axes[3], shrink=0.8)
for axis in axes:
    axis.set(xlabel="x0", aspect="equal")
axes[0].set_ylabel("x1")
plt.show()
