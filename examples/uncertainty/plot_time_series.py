"""
A kernel for a time series: trend, season and their forecast
============================================================

Kernels add and multiply, and a map of the inputs makes a new kernel of an old one. A Gaussian
kernel on the circle of the year says that the seasons come back; a wide one in time says that the
trend is slow. A Gaussian process with their sum forecasts both, and says how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GaussianProcessRegressor
from mercer.gaussian_process import InducingPoints
from mercer.kernels import Gaussian, Mapped

# %%
# Weekly values of some years. The last four years are kept for the test.

N_ROWS = 600
NOISE = 0.3
rng = np.random.default_rng(0)
year = np.arange(N_ROWS) / 52
level = 0.25 * year + 0.8 * np.sin(year / 2)
season = np.sin(2 * np.pi * year) + 0.5 * np.sin(4 * np.pi * year + 1)
y = level + season + NOISE * rng.standard_normal(N_ROWS)
train, test = year < year[-1] - 4, year >= year[-1] - 4
y -= y[train].mean()  # the mean of the prior is 0

# %%
# The season may change its shape over the years: the product with a wide kernel lets it.


def circle(X):
    return np.column_stack([np.cos(2 * np.pi * X[:, 0]), np.sin(2 * np.pi * X[:, 0])])


trend = 4.0 * Gaussian(4.0)
periodic = Mapped(Gaussian(0.7), circle) * Gaussian(20.0)
kernels = {"one Gaussian kernel": 4.0 * Gaussian(0.3), "trend + season": trend + periodic}
models = {}
for name, kernel in kernels.items():
    model = GaussianProcessRegressor(
        kernel, noise=NOISE**2, method=InducingPoints(200), random_state=0
    )
    models[name] = model.fit(year[train, None], y[train])
    error = np.sqrt(np.mean((model.predict(year[test, None]) - y[test]) ** 2))
    print(f"{name}: error of the forecast {error:.2f} (noise {NOISE:.2f})")

# %%
# Black dots were learned, rings came later; the band is two deviations of a new value.

grid = np.arange(0, year[-1], 0.02)
figure, axes = plt.subplots(2, 1, figsize=(11, 6.5), sharex=True, sharey=True, layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    mean, deviation = model.predict(grid[:, None], return_std=True, include_noise=True)
    band = (mean - 2 * deviation, mean + 2 * deviation)
    axis.fill_between(grid, *band, color="#0072B2", alpha=0.2, lw=0)
    axis.plot(grid, mean, color="#0072B2")
    axis.plot(year[train], y[train], ".", color="black", ms=3)
    axis.plot(year[test], y[test], "o", mfc="none", color="#D55E00", ms=3.5)
    axis.axvline(year[train][-1], color="0.5", lw=1, ls="--")
    axis.set(ylabel="value", title=name)
    axis.spines[["top", "right"]].set_visible(False)
axes[1].set_xlabel("year")
plt.show()
