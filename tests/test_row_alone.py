"""What a row is answered does not depend on the rows beside it."""

import numpy as np
import pytest

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
)
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.kernels import Gaussian

pytestmark = pytest.mark.usefixtures("quick_race", "quick_correction")

EXPANSIONS = {
    "auto": "auto",
    "dictionary": Dictionary(60),
    "dictionary in float32": Dictionary(60, precision="single"),
    "komp": KOMP(max_size=60),
    "full": Full(max_size=100),
    "budget": Budget(40),
    "random features": "random_features",
    "random features by sums": RandomFeatures(mode="solve"),
}
#: In parts of the spread of the answers; coefficients enlarge the last bits of double precision.
TOLERANCE = 1e-9


def table(dtype, n=650):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(dtype)
    f = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * X[:, 4]
    return X, f, f + 0.3 * rng.normal(size=n)


def assert_alike(answer, X):
    together = np.asarray(answer(X))
    alone = np.concatenate([answer(X[i : i + 1]) for i in range(0, len(X), 9)])
    some = np.concatenate([answer(X[i : i + 7]) for i in range(0, len(X), 7)])
    spread = np.ptp(together, axis=0).max()
    assert spread > 0
    assert np.abs(alone - together[::9]).max() <= TOLERANCE * spread
    assert np.abs(some - together).max() <= TOLERANCE * spread
    wider = answer(X.astype(np.float64))  # the same numbers
    assert np.abs(wider - together).max() <= TOLERANCE * spread


def assert_alike_by_one(answer, one, X):
    together = np.asarray(answer(X)).reshape(len(X), -1)
    single = np.array([[*x.values()] if isinstance(x, dict) else [x] for x in map(one, X)])
    assert np.abs(single - together).max() <= TOLERANCE * np.ptp(together, axis=0).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXPANSIONS)
class TestRowAlone:
    def test_regression(self, name, dtype):
        X, _, y = table(dtype)
        model = KernelRegressor(expansion=EXPANSIONS[name], random_state=0).fit(X, y)
        assert_alike(model.predict, X[:70])
        assert_alike_by_one(model.predict, model.predict_one, X[:20])

    def test_classes(self, name, dtype):
        X, f, _ = table(dtype)
        y = np.digitize(f, [-0.5, 0.5])
        model = KernelClassifier(expansion=EXPANSIONS[name], random_state=0).fit(X, y)
        assert_alike(model.decision_function, X[:70])
        assert_alike(model.predict_proba, X[:70])
        assert_alike_by_one(model.predict_proba, model.predict_proba_one, X[:20])


def test_line_of_sure_classes():
    """Scores of a separable line are steep, so that they show every rounding."""
    X = np.random.default_rng(0).normal(size=(600, 6))
    model = KernelClassifier(random_state=0).fit(X, X @ np.arange(1, 7) > 0)
    assert_alike(model.decision_function, X[:100])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["quantile", "poisson"])
def test_other_losses_of_the_default(loss, dtype):
    X, f, y = table(dtype)
    y = y if loss == "quantile" else np.random.default_rng(1).poisson(np.exp(f / 2))
    model = KernelRegressor(loss, random_state=0).fit(X, y)
    assert_alike(model.predict, X[:100])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["novelty", "process", "ranker", "ratio"])
def test_other_estimators(kind, dtype):
    X, f, y = table(dtype, 400)
    if kind == "novelty":
        answer = NoveltyDetector(random_state=0).fit(X).score_samples
    elif kind == "process":
        answer = GaussianProcessRegressor(random_state=0).fit(X, y).predict
    elif kind == "ranker":
        answer = KernelRanker(random_state=0).fit(X, f > 0).decision_function
    else:
        answer = DensityRatio(random_state=0).fit(X, X + 0.3).ratio
    assert_alike(answer, X[:70])


@pytest.mark.parametrize(
    "expansion", [Dictionary(40, precision="single"), RandomFeatures(64)], ids=str
)
def test_what_leaves_the_range_of_learning_is_refused(expansion):
    """Models predict in float64, but rows that they cannot learn have no answer either."""
    X, _, y = table(np.float64, 200)
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=expansion, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="leaves the range of float32"):
        model.predict(np.full((2, 5), 1e39))
