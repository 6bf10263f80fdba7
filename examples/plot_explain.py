"""
Which columns matter, and why this prediction?
==============================================

A model of rents from a table with numbers, categories, gaps and dates says which columns matter,
how predictions depend on one of them, and what each column adds to a single prediction. All of
it needs the model only: no targets, and no rows but those that it keeps.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import KernelRegressor
from mercer.display import DependenceDisplay, ExplanationDisplay, ImportanceDisplay

# %%
# Flats whose rent depends on size, town and floor together with a lift: without one, the higher the
# cheaper. The name of the street and the date of the offer have nothing to do with it.

N_ROWS = 1500
rng = np.random.default_rng(0)
flats = pd.DataFrame(
    {
        "size": rng.uniform(20, 120, N_ROWS).round(),
        "town": rng.choice(["Bern", "Bonn", "Ulm"], N_ROWS),
        "floor": rng.integers(0, 8, N_ROWS).astype(float),
        "lift": rng.choice(["yes", "no"], N_ROWS),
        "offered": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, N_ROWS), "D"),
        "street": [f"street {number}" for number in rng.integers(0, 12, N_ROWS)],
    }
)
rent = 300 + 11 * flats["size"] + 250 * (flats["town"] == "Bern")
rent += np.where(flats["lift"] == "yes", 30, -45) * flats["floor"] + rng.normal(0, 40, N_ROWS)
flats.loc[rng.random(N_ROWS) < 0.1, "floor"] = np.nan
model = KernelRegressor(random_state=0).fit(flats, rent)
for name, share in zip(flats.columns, model.feature_importances_, strict=True):
    print(f"{name:8} {share:.3f}")

# %%
# Baseline and contributions are the prediction, to rounding.

told = model.explain(flats[:5])
print(np.abs(told.baseline + told.contributions.sum(axis=1) - model.predict(flats[:5])).max())

# %%
# Above: importances, where inputs that are made of one column, such as those of ``town``, count
# together; and a flat, from the mean rent of those that the model keeps to what it predicts for
# this one. Below: dependence on the floor, and on the town. The thin lines are single flats. Some
# rise with the floor, those with a lift, and some fall, so that the mean alone would say that the
# floor hardly matters.

figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
ImportanceDisplay.from_estimator(model, ax=axes[0, 0])
ExplanationDisplay.from_estimator(model, flats, row=4, ax=axes[0, 1])
DependenceDisplay.from_estimator(model, "floor", ax=axes[1, 0])
DependenceDisplay.from_estimator(model, "town", ax=axes[1, 1])
plt.show()
