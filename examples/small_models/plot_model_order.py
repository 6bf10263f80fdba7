"""
How many points does an accuracy cost?
======================================

``KOMP(tolerance)`` lets the function move by at most the tolerance in every step when points are
removed. A larger tolerance means fewer points, faster learning and prediction, and at some place
more errors. The curve shows where that place is.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelClassifier
from mercer.display import DecisionSurfaceDisplay
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer_reproduction.polk_multidist import make_multidist

# %%
# Five classes, each a mixture of three Gaussians: data of the paper that introduced the method.

N_ROWS = 5000
X, y, X_test, y_test = make_multidist(seed=0, n_train=N_ROWS)

# %%
# The same rows in the same order, for tolerances that cover the whole trade-off.

tolerances = np.geomspace(0.03, 10, 10)
models = [
    KernelClassifier(kernel=Gaussian(0.6), expansion=KOMP(tolerance=t), random_state=0).fit(X, y)
    for t in tolerances
]
errors = [100 * (1 - model.score(X_test, y_test)) for model in models]
orders = [model.model_order_ for model in models]
for tolerance, order, error in zip(tolerances, orders, errors, strict=True):
    print(f"tolerance {tolerance:.3f}: {order:4d} points, {error:.1f} % errors")

# %%
# Three models of the curve, from many points to too few.

figure, axes = plt.subplot_mosaic("AAA;BCD", figsize=(11, 6.6), height_ratios=(1, 1.4))
axes["A"].semilogx(orders, errors, "o-", color="#0072B2")
axes["A"].set(xlabel="points in the model", ylabel="errors on test rows [%]", ylim=(0, None))
axes["A"].set_xticks([2, 5, 10, 20, 50, 100], [2, 5, 10, 20, 50, 100])
axes["A"].minorticks_off()
axes["A"].spines[["top", "right"]].set_visible(False)
for key, i in zip("BCD", (2, 7, 8), strict=True):
    DecisionSurfaceDisplay.from_estimator(models[i], X_test, y_test, ax=axes[key], max_points=400)
    axes[key].get_legend().remove()
    axes[key].set(title=f"{orders[i]} points", aspect="equal")
    axes["A"].annotate(f"{orders[i]}", (orders[i], errors[i]), (0, 8), textcoords="offset points")
figure.tight_layout()
plt.show()
