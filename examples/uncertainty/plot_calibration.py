"""
Are the predicted probabilities right?
======================================

Of the rows that are given a probability, the same share should be positive. The default classifier
fits its probabilities on rows that it has not learned yet; here they stay too cautious at both
ends. The logistic loss on one dictionary has probabilities from the start. A support vector machine
has scores only: turning those into probabilities takes more fits. Naive Bayes shows that to be
right on average is not enough.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from mercer import KernelClassifier
from mercer.expansions import Dictionary

# %%
# The true probabilities are known here: a wave that is nowhere certain.

N_ROWS = 4000


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n_rows, 2))
    return X, truth(X), (rng.uniform(size=n_rows) < truth(X)).astype(int)


def truth(X):
    return 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - 2 * X[:, 1]))


X, _, y = rows(N_ROWS, 0)
X_test, p_test, y_test = rows(5000, 1)
print(f"log loss of the true probabilities: {log_loss(y_test, p_test):.3f}")

# %%
# Above, of the rows with a prediction, the share that is positive; below the predictions against
# the true probabilities.

models = {
    "mercer, default": KernelClassifier(random_state=0),
    "mercer, logistic loss": KernelClassifier(
        "logistic", expansion=Dictionary(200), random_state=0
    ),
    "SVC, calibrated": CalibratedClassifierCV(SVC(), ensemble=False),
    "naive Bayes": GaussianNB(),
}
figure, axes = plt.subplots(2, 4, figsize=(13, 6.4), sharex=True, sharey=True, layout="constrained")
for (name, model), (above, below) in zip(models.items(), axes.T, strict=True):
    p = model.fit(X, y).predict_proba(X_test)[:, 1]
    print(f"{name}: log loss {log_loss(y_test, p):.3f}")
    shares, means = calibration_curve(y_test, p, n_bins=12, strategy="quantile")
    above.plot(means, shares, "o-", color="#0072B2")
    below.plot(p[:1500], p_test[:1500], ".", color="#0072B2", ms=3, alpha=0.5)
    above.set(title=f"{name}\nlog loss {log_loss(y_test, p):.3f}")
    below.set(xlabel="predicted probability")
    for axis in (above, below):
        axis.axline((0, 0), slope=1, color="0.6", lw=1)
        axis.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylabel("share of positives")
axes[1, 0].set_ylabel("true probability")
plt.show()
