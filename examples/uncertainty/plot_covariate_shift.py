"""
Have the inputs changed? A density ratio and a two-sample test
==============================================================

A model is used on rows that may differ from those it was made of. The logarithm of the ratio of two
densities says where: above zero rows have become more frequent, below zero rarer. The same function
tests whether the samples differ at all, by comparing with samples whose rows were dealt out at
random.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import DensityRatio
from mercer.kernels import Gaussian

# %%
# The mean of every column is the same then and now, and so are their deviations, up to chance: only
# how they go together differs.

N_ROWS = 1500
rng = np.random.default_rng(0)
correlation = 0.6
before = rng.multivariate_normal([0, 0], [[1, 0], [0, 1]], size=N_ROWS)
now = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], size=N_ROWS)

# %%
# The ratio from all rows; the test once for the two samples, and once where nothing has changed.

model = DensityRatio(kernel=Gaussian(1.5), regularization=1e-3, n_passes=5, random_state=0)
model.fit(now, before)
N_DEALS = 49
few = slice(N_ROWS // 3)
tests = {
    "then and now": model.two_sample_test(now[few], before[few], n_permutations=N_DEALS),
    "then and then": model.two_sample_test(before[few], before[::-1][few], n_permutations=N_DEALS),
}
for name, test in tests.items():
    print(f"{name}: p = {test.p_value:.2f}")

# %%
# Left the logarithm of the ratio with the rows of now, beside the truth: where rows are few, the
# regularization draws it to zero. Right the tests: the line is the divergence found, the bars are
# those of rows dealt out at random.

figure, axes = plt.subplot_mosaic("ABC;ABD", figsize=(13, 4.2), layout="constrained")
x0, x1 = np.meshgrid(np.linspace(-3, 3, 81), np.linspace(-3, 3, 81))
grid = np.column_stack([x0.ravel(), x1.ravel()])
inverse = np.linalg.inv([[1, correlation], [correlation, 1]]) - np.eye(2)
truth = -0.5 * (np.einsum("ni,ij,nj->n", grid, inverse, grid) + np.log(1 - correlation**2))
levels = np.linspace(-3, 3, 13)
panels = (("A", model.log_ratio(grid), "log ratio, learned"), ("B", truth, "log ratio, true"))
for key, values, title in panels:
    values = values.reshape(x0.shape)
    filled = axes[key].contourf(x0, x1, values, levels, cmap="PuOr_r", extend="both")
    axes[key].contour(x0, x1, values, [0], colors="black", linewidths=1)
    axes[key].set(title=title, xlabel="x0", ylabel="x1", aspect="equal")
axes["A"].plot(*now[:400].T, "k.", ms=2)
axes["A"].set(xlim=(-3, 3), ylim=(-3, 3))
figure.colorbar(filled, ax=axes["B"], shrink=0.8)
for key, (name, test) in zip("CD", tests.items(), strict=True):
    axes[key].hist(test.null_statistics, 20, color="0.75")
    axes[key].axvline(test.statistic, color="#D55E00", lw=2)
    axes[key].set(title=f"{name}: p = {test.p_value:.2f}", yticks=[])
    axes[key].locator_params(axis="x", nbins=5)
    axes[key].spines[["top", "right", "left"]].set_visible(False)
axes["D"].set_xlabel("divergence")
plt.show()
