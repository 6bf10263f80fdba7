"""
What does the default learner try, and what does it choose?
===========================================================

``KernelRegressor()`` and ``KernelClassifier()`` leave nothing to tune: on the first rows small
models race, which differ in how they scale the inputs, in their length scale and in their form. The
winners become the parts of a sum that learns all rows. Half of the columns here are noise, and the
race finds that out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from mercer import KernelRegressor
from mercer.display import RaceDisplay

# %%
# Ten columns, of which the target depends on the first five.

N_ROWS = 5000
X, y = make_friedman1(N_ROWS, noise=1.0, random_state=0)
model = KernelRegressor(random_state=0).fit(X, y)
for part in model.parts_:
    print(f"{part.form}: weight {part.weight:.2f}, {len(part.dictionary)} points")

# %%
# Left all that was tried: a mark is a small model, a line a way to scale the inputs. Right the
# metric of the heaviest part: how much a step along each column counts.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), width_ratios=(2, 1))
RaceDisplay.from_estimator(model, ax=left)
heaviest = max(model.parts_, key=lambda part: part.weight)
steps = np.eye(X.shape[1])
origin = heaviest.map(np.zeros((1, X.shape[1])))
weights = np.linalg.norm(heaviest.map(steps) - origin, axis=1)
right.bar(np.arange(10), weights, color=["C0"] * 5 + ["0.7"] * 5)
right.set(xlabel="column (grey: noise)", ylabel="weight in the metric", xticks=range(10))
right.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
plt.show()
