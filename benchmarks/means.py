"""Means of rare classes and rare counts, untuned: mercer and its peers.

*Data.* 4,000 rows of four normal columns are learned, and 20,000 others are predicted. A class is
"rare" with a probability, and a count has a rate, that depends on the first column alone.
"frequencies" are counts over an exposure, which is the weight of a row.

*Means.* "learned" is the mean of what is predicted for the rows learned, over the mean of their
targets; "new" is the same for the other rows. 1 is right. The two numbers are of two draws. Rows
count by their weights.

"as a stream" learns the rows one by one. It is a model that moves all the time, so its "learned"
is the mean of what it said of each row just before it learned it. It learns no counts.

*Loss.* It is the log loss, or the Poisson deviance, of the new rows: the mean of the two draws.
"""

from __future__ import annotations

import warnings

import _common
import numpy as np
from catboost import CatBoostClassifier, CatBoostRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP, Dictionary, RandomFeatures, Stream

N_LEARNED, N_NEW = 4000, 20_000
SEEDS = (0, 1)
CATBOOST = {"verbose": 0, "thread_count": 1, "random_seed": 0, "allow_writing_files": False}
EXPANSIONS = {
    "KOMP": KOMP(max_size=200),
    "dictionary": Dictionary(200),
    "random features": RandomFeatures(256),
}


class AsStream:
    """A classifier that learns row by row, and keeps what it said of each row before."""

    def fit(self, X, y, sample_weight):
        self.model = KernelClassifier(expansion=Stream(), random_state=0)
        self.said = np.full(len(X), np.nan)
        for number, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
            if number:
                self.said[number] = self.model.predict_proba_one(x).get(1, 0.0)
            self.model.learn_one(x, label)
        self.said[0] = y.mean()
        return self

    def predict_proba(self, X):
        chances = self.model.predict_proba(X)
        chances[: len(self.said), 1] = self.said
        return chances


CLASSES = {
    "mercer": lambda: KernelClassifier(random_state=0),
    **{
        f"mercer, {name}": lambda expansion=expansion: KernelClassifier(
            expansion=expansion, random_state=0
        )
        for name, expansion in EXPANSIONS.items()
    },
    "mercer, as a stream": AsStream,
    "CatBoost": lambda: CatBoostClassifier(**CATBOOST),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "linear model": LogisticRegression,
}
COUNTS = {
    "mercer": lambda: KernelRegressor("poisson", random_state=0),
    **{
        f"mercer, {name}": lambda expansion=expansion: KernelRegressor(
            "poisson", expansion=expansion, random_state=0
        )
        for name, expansion in EXPANSIONS.items()
    },
    "CatBoost": lambda: CatBoostRegressor(loss_function="Poisson", **CATBOOST),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(loss="poisson", random_state=0),
    "linear model": lambda: PoissonRegressor(alpha=1e-4),
}


def rare_class(rng, X):
    return (rng.random(len(X)) < 1.0 / (1.0 + np.exp(5.0 - X[:, 0]))).astype(int), None


def counts(rng, X):
    return rng.poisson(0.03 * np.exp(X[:, 0])).astype(float), None


def frequencies(rng, X):
    exposure = 0.05 + rng.random(len(X))
    return rng.poisson(0.1 * np.exp(X[:, 0]) * exposure) / exposure, exposure


CASES = {
    "a class of 1 %": (rare_class, CLASSES),
    "counts of mean .05": (counts, COUNTS),
    "frequencies of mean .16": (frequencies, COUNTS),
}


def of_draw(case, make, seed):
    """Ratios of means on the rows learned and on new ones, and the loss of these."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_LEARNED + N_NEW, 4))
    y, weights = case(rng, X)
    weights = np.ones(len(X)) if weights is None else weights
    old, new = slice(N_LEARNED), slice(N_LEARNED, None)
    model = make().fit(X[old], y[old], sample_weight=weights[old])
    is_class = hasattr(model, "predict_proba")
    said = model.predict_proba(X)[:, 1] if is_class else np.maximum(model.predict(X), 1e-9)
    ratios = [weights[some] @ said[some] / (weights[some] @ y[some]) for some in (old, new)]
    loss = log_loss if is_class else mean_poisson_deviance
    return [*ratios, loss(y[new], said[new], sample_weight=weights[new])]


def main():
    warnings.simplefilter("ignore")  # of few rows of a class
    rows = []
    for name, (case, methods) in CASES.items():
        for method, make in methods.items():
            learned, new, losses = np.array([of_draw(case, make, seed) for seed in SEEDS]).T
            row = {"data": name, "method": method}
            row["learned"] = ", ".join(f"{ratio:.3f}" for ratio in learned)
            row["new"] = ", ".join(f"{ratio:.2f}" for ratio in new)
            rows.append(row | {"loss": float(losses.mean())})
            print(rows[-1], flush=True)
    _common.publish("means", rows)


if __name__ == "__main__":
    main()
