"""
How few points does a kernel classifier need?
=============================================

A support vector machine keeps a share of its rows, so it grows with the data. Here every step of
kernel orthogonal matching pursuit (POLK) removes the points that the function can do without. The
ringed points are the whole model; the regions are what it predicts.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from mercer import KernelClassifier
from mercer.display import DecisionSurfaceDisplay, LearningCurveDisplay, ModelOrderDisplay

# %%
# One pass over the rows; a step is made of 32 of them.

N_ROWS = 20_000
X, y = make_moons(N_ROWS, noise=0.2, random_state=0)
model = KernelClassifier(expansion="komp", random_state=0).fit(X, y)
print(f"{model.model_order_} of {N_ROWS:,} points, accuracy {model.score(X, y):.3f}")

# %%
# The loss of rows before they were learned falls, while the number of points stays where it is.

figure, axes = plt.subplots(1, 3, figsize=(13, 4), width_ratios=(1.3, 1, 1), layout="constrained")
DecisionSurfaceDisplay.from_estimator(model, X, y, ax=axes[0])
LearningCurveDisplay.from_estimator(model, ax=axes[1])
ModelOrderDisplay.from_estimator(model, ax=axes[2])
plt.show()
