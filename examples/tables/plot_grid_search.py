"""
Pipelines and grid search with scikit-learn
===========================================

The estimators follow scikit-learn's rules: they clone, sit in pipelines, and show the parameters of
their parts to a search. Here a search goes over the length scale of the kernel and the tolerance of
the compression, and the map shows which of the two the accuracy depends on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelClassifier
from mercer.expansions import KOMP
from mercer.kernels import Gaussian

# %%
# A nested parameter is reached by the names on the way to it.

N_ROWS = 569
X, y = load_breast_cancer(return_X_y=True)
pipeline = make_pipeline(
    StandardScaler(),
    KernelClassifier(kernel=Gaussian(1.0), expansion=KOMP(0.1), n_passes=2, random_state=0),
)
lengths = [0.5, 1, 2, 4, 8, 16]
tolerances = np.geomspace(0.01, 1, 4)
search = GridSearchCV(
    pipeline,
    {
        "kernelclassifier__kernel__length_scale": lengths,
        "kernelclassifier__expansion__tolerance": tolerances,
    },
    cv=3,
)
search.fit(X[:N_ROWS], y[:N_ROWS])
for name, value in search.best_params_.items():
    print(f"{name} = {value:.3g}")
print(f"cross-validated accuracy {search.best_score_:.3f}")

# %%
# Left the accuracy of every pair; right the number of points of models with them.

scores = search.cv_results_["mean_test_score"].reshape(len(tolerances), len(lengths))
orders = np.array(
    [
        pipeline.set_params(**parameters).fit(X[:N_ROWS], y[:N_ROWS])[-1].model_order_
        for parameters in search.cv_results_["params"]
    ]
).reshape(scores.shape)
figure, axes = plt.subplots(1, 2, figsize=(12, 4), sharey=True, layout="constrained")
panels = (100 * scores, "cross-validated accuracy [%]", "{:.1f}"), (orders, "points", "{:d}")
for axis, (values, title, form) in zip(axes, panels, strict=True):
    axis.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    for (i, j), value in np.ndenumerate(values):
        bright = value > (values.min() + values.max()) / 2
        text = form.format(value)
        axis.text(j, i, text, ha="center", va="center", color="black" if bright else "white")
    axis.set(title=title, xlabel="length scale")
    axis.set_xticks(range(len(lengths)), [f"{v:.2g}" for v in lengths])
    axis.set_yticks(range(len(tolerances)), [f"{v:.2g}" for v in tolerances])
axes[0].set_ylabel("tolerance")
plt.show()
