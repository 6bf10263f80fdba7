"""
A Gaussian process on 100,000 rows, with its uncertainty
========================================================

An exact Gaussian process of that many rows needs a matrix that few memories hold. Learned from
sums over inducing points it needs one pass and a small matrix, and still says how far it may be
wrong: little where rows are, much in the gap between them.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GaussianProcessRegressor
from mercer.gaussian_process import InducingPoints
from mercer.kernels import Gaussian

# %%
# Nothing was observed between 4 and 6.

N_ROWS = 100_000
rng = np.random.default_rng(0)
x = rng.uniform(0, 8, size=(N_ROWS, 1))
x[x >= 4] += 2
y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + 0.5 * rng.standard_normal(N_ROWS)

# %%
# One pass over the rows; then the same function from the first fifty rows only.

models = {}
for n_rows in (50, N_ROWS):
    model = GaussianProcessRegressor(
        4.0 * Gaussian(0.7), noise=0.25, method=InducingPoints(60), random_state=0
    )
    models[n_rows] = model.fit(x[:n_rows], y[:n_rows])
    _, deviation = model.predict([[2.0], [5.0]], return_std=True)
    print(f"{n_rows:,} rows: ±{deviation[0]:.3f} at 2, ±{deviation[1]:.3f} at 5")

# %%
# Above the mean with a band of two deviations, and functions drawn from the posterior, which agree
# where there are rows; below the deviation alone.

grid = np.linspace(-0.5, 10.5, 300)[:, None]
figure, axes = plt.subplots(
    2, 2, figsize=(12, 6), sharex=True, sharey="row", height_ratios=(2, 1), layout="constrained"
)
for (n_rows, model), (above, below) in zip(models.items(), axes.T, strict=True):
    rows = slice(min(n_rows, 1000))
    mean, deviation = model.predict(grid, return_std=True)
    above.plot(x[rows], y[rows], ".", color="0.6", ms=3, label="rows (up to 1,000)")
    band = (mean - 2 * deviation, mean + 2 * deviation)
    above.fill_between(grid[:, 0], *band, color="#0072B2", alpha=0.2, lw=0)
    above.plot(grid, model.sample_y(grid, 3, random_state=0), color="#56B4E9", lw=0.8)
    above.plot(grid, mean, color="#0072B2", lw=2, label="mean ± two deviations")
    above.set(title=f"{n_rows:,} rows")
    below.plot(grid, deviation, color="#0072B2")
    below.set(xlabel="x", ylim=(0, None))
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
axes[0, 0].legend(frameon=False, loc="upper left")
axes[0, 0].set_ylabel("y")
axes[1, 0].set_ylabel("deviation")
plt.show()
