"""
Random features: a kernel machine without a dictionary
======================================================

A kernel is an average over random waves. A model of random features keeps coefficients of waves
that are drawn from a seed whenever they are needed, and never stored, so that its size depends on
their number alone. More waves bring it nearer to the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mercer import KernelClassifier
from mercer.expansions import Dictionary, RandomFeatures
from mercer.kernels import Gaussian

# %%
# Handwritten digits. A model is its coefficients, a seed, and the number of features.

N_ROWS = 1797
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:N_ROWS] / 16, y[:N_ROWS], random_state=0)
kernel = Gaussian(1.5)


def fit(n_features, seed):
    expansion = RandomFeatures(n_features, mode="solve", seed=seed)
    return KernelClassifier(kernel=kernel, expansion=expansion, random_state=0).fit(X, y)


sizes = [32, 64, 128, 256, 512]
models = [[fit(n, seed) for seed in range(3)] for n in sizes]
errors = np.array([[100 * (1 - m.score(X_test, y_test)) for m in row] for row in models])
exact = KernelClassifier(kernel=kernel, expansion=Dictionary(len(X)), random_state=0)
limit = 100 * (1 - exact.fit(X, y).score(X_test, y_test))
print(f"all rows in the dictionary: {limit:.2f} % errors")

# %%
# Left the kernel between a digit and all others, by features against the formula. Right the errors
# for several seeds.

figure, axes = plt.subplot_mosaic("ABCC", figsize=(13, 3.8), layout="constrained")
values = kernel(X_test[:1], X_test)[0]
for key, i in (("A", 0), ("B", -1)):
    features = models[i][0].random_features(X_test)
    axes[key].axline((0, 0), slope=1, color="0.6", lw=1)
    axes[key].plot(values, features @ features[0], ".", color="#0072B2", alpha=0.5)
    axes[key].set(title=f"{features.shape[1]} features", xlabel="kernel", ylim=(-0.5, 1.1))
axes["A"].set_ylabel("product of features")
axes["C"].semilogx(sizes, errors, "o", color="#0072B2", mfc="none")
axes["C"].semilogx(sizes, errors.mean(axis=1), color="#0072B2", label="mean of the seeds")
axes["C"].axhline(limit, color="#D55E00", ls="--", label="the kernel itself, all rows kept")
axes["C"].set(xlabel="features", ylabel="errors on test rows [%]", xticks=sizes, ylim=(0, None))
axes["C"].set_xticklabels(sizes)
axes["C"].minorticks_off()
axes["C"].legend(frameon=False)
for axis in axes.values():
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
