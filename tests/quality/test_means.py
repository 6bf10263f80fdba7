"""The mean of what is predicted for the rows learned is the mean of their targets."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns.null_values import NullValues
from mercer.default import targets as default_targets
from mercer.default.learner import DefaultLearner
from mercer.default.targets import LearnedMean, level_of
from mercer.exceptions import TargetScaleWarning
from mercer.expansions import KOMP, Auto, Budget, Dictionary, RandomFeatures
from mercer.kernels import Gaussian
from mercer.losses import AbsoluteError, Logistic, Poisson, Softmax, Squared
from mercer.sums import Rows
from mercer_cluster import fit
from mercer_cluster.settings import Settings
from quick import QUICK, take_few_steps

N = 600
X = np.random.default_rng(0).normal(size=(N, 3))
RATE = np.exp(X[:, 0])


def drawn(seed=1):
    return np.random.default_rng(seed)


def three_classes():
    odds = np.column_stack([np.ones(N), RATE, 0.03 * np.exp(X[:, 1])])
    shares = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    return np.array(["a", "b", "rare"])[(shares < drawn().random((N, 1))).sum(axis=1)]


CASES = {
    "a rare class": (KernelClassifier(), (drawn().random(N) < 0.02 * RATE / 1.6).astype(int)),
    "three classes": (KernelClassifier(), three_classes()),
    "each class against the rest": (KernelClassifier("logistic"), three_classes()),
    "rare counts": (KernelRegressor("poisson"), drawn().poisson(0.05 * RATE)),
    "large counts": (KernelRegressor("poisson"), drawn().poisson(60.0 * RATE)),
    "numbers far from 0": (KernelRegressor(), 10.0 + np.sin(2.0 * X[:, 0])),
    "rare numbers": (KernelRegressor(), drawn().poisson(0.05 * RATE).astype(float)),
}
WEIGHTS = {"as they are": None, "weighted": drawn(2).gamma(1.0, size=N) + 0.01}


@pytest.fixture(autouse=True)
def few_rows_decide(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", QUICK._replace(first_rows=250, waiting=100))


def ratios(model, y, weights=None):
    """Mean of what is predicted over the mean of the targets, of each class."""
    weights = np.ones(N) if weights is None else weights
    if not hasattr(model, "classes_"):
        return [weights @ model.predict(X) / (weights @ y)]
    chances = weights @ model.predict_proba(X)
    return chances / [weights[y == label].sum() for label in model.classes_]


def by_fit(model, y, weights):
    return model.fit(X, y, sample_weight=weights)


def by_pieces(model, y, weights):
    if model.expansion == "auto":
        model.set_params(expansion=Auto())  # which is not that of streams
    known = {"classes": np.unique(y)} if isinstance(model, KernelClassifier) else {}
    for start in range(0, N, 100):
        some = slice(start, start + 100)
        some_weights = None if weights is None else weights[some]
        model.partial_fit(X[some], y[some], sample_weight=some_weights, **known)
    return model


def by_shards(model, y, weights):
    arrays = (X, y) if weights is None else (X, y, weights)
    shards = [tuple(each[start : start + 200] for each in arrays) for start in range(0, N, 200)]
    few = Settings(sample=400, least_sample=400)
    return fit(model, shards, engine="here", settings=few)


WAYS = {"fit": (by_fit, "weighted"), "pieces": (by_pieces, "as they are")}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_means_are_right_on_the_rows_learned(case, way):
    (model, y), (learn, weights) = case, way
    model = learn(model.__class__(model.loss, random_state=0), y, WEIGHTS[weights])
    assert_allclose(ratios(model, y, WEIGHTS[weights]), 1.0, atol=0.02)


EXPANSIONS = {
    "KOMP": KOMP(max_size=30),
    "POLK's budget": Budget(30),
    "random features by steps": RandomFeatures(32, mode="faithful"),
    "random features by sums": RandomFeatures(32),
    "dictionary": Dictionary(30),
}


@pytest.mark.parametrize("case", ["three classes", "rare counts", "rare numbers"])
@pytest.mark.parametrize("expansion", EXPANSIONS.values(), ids=EXPANSIONS)
def test_means_of_other_expansions_are_right(expansion, case, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    (model, y), weights = CASES[case], WEIGHTS["weighted"]
    model = model.__class__(model.loss, expansion=expansion, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TargetScaleWarning)  # of counts
        model.fit(X, y, sample_weight=weights)
    assert_allclose(ratios(model, y, weights), 1.0, atol=0.02)
    if isinstance(expansion, RandomFeatures):
        basis = model.random_features(X)
    else:
        basis = model.kernel_(X, model.dictionary_)
    scores = np.squeeze(basis @ model.coefficients_ + model.intercept_)
    said = model.predict(X) if case != "three classes" else model.decision_function(X)
    assert_allclose(np.log(said) if case == "rare counts" else said, scores, atol=1e-4)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.level_, model.level_)


def test_single_rows_and_all_rows_get_the_level():
    _, y = CASES["rare numbers"]
    model = KernelRegressor(expansion=KOMP(max_size=30), random_state=0).fit(X, y)
    assert model.level_[0] != 0.0
    assert model.predict_one(X[0]) == pytest.approx(model.predict(X[:1])[0], abs=1e-12)


def test_a_class_that_comes_later_needs_another_level():
    _, y = CASES["a rare class"]
    model = KernelClassifier(expansion=KOMP(max_size=30), random_state=0).fit(X, y)
    assert model.level_ is not None
    model.partial_fit(X[:5], [0, 1, 2, 1, 2])
    assert model.level_ is None
    assert model.predict_proba(X[:3]).shape == (3, 3)


def test_a_kernel_that_is_given_is_all_there_is():
    _, y = CASES["rare numbers"]
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=KOMP(max_size=30)).fit(X, y)
    assert model.level_ is None
    assert_array_equal(model.intercept_, 0.0)


@pytest.mark.parametrize("case", ["a rare class", "three classes", "rare counts"])
def test_means_are_right_on_clusters(case):
    model, y = CASES[case]
    weights = WEIGHTS["weighted"]
    model = by_shards(model.__class__(model.loss, random_state=0), y, weights)
    assert model.learner_.is_compact  # not merely what its `fit` makes of them
    # The mean of what is predicted is estimated from a sample.
    assert_allclose(ratios(model, y, weights), 1.0, atol=0.15)


def test_class_weights_are_weights_of_rows():
    y = CASES["a rare class"][1]
    model = KernelClassifier(class_weight="balanced", random_state=0).fit(X, y)
    weights = N / (2.0 * np.bincount(y)[y])
    assert_allclose(ratios(model, y, weights), 1.0, atol=0.02)
    assert_allclose(weights @ model.predict_proba(X)[:, 1] / weights.sum(), 0.5, atol=0.01)


def test_exposures_as_weights_of_frequencies():
    exposure = WEIGHTS["weighted"]
    y = drawn().poisson(0.05 * RATE * exposure) / exposure
    model = KernelRegressor("poisson", random_state=0).fit(X, y, sample_weight=exposure)
    assert_allclose(ratios(model, y, exposure), 1.0, atol=0.02)


@pytest.mark.parametrize(
    ("count", "learn"), [(0.0, by_fit), (0.0, by_pieces), (0.01, by_fit), (1000.0, by_pieces)]
)
def test_a_constant_count_is_predicted(count, learn):
    model = learn(KernelRegressor("poisson", random_state=0), np.full(N, count), None)
    assert_allclose(model.predict(X), count, rtol=1e-6, atol=1e-6)


def test_medians_have_no_level():
    y = CASES["rare numbers"][1]
    model = KernelRegressor("absolute_error", random_state=0).fit(X, y)
    assert not AbsoluteError().of_mean
    assert model.level_ is None


def test_files_keep_the_mean_and_go_on(tmp_path):
    _, y = CASES["a rare class"]
    model = by_pieces(KernelClassifier(random_state=0), y, None)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for one in (model, loaded):
        one.partial_fit(X[:300], y[:300])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


# -- the parts ------------------------------------------------------------------------------------


def scored(loss, n, seed=0):
    """Scores of which all say too much of the first class or of counts, and rows."""
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=n)
    if isinstance(loss, Softmax):
        truth = rng.integers(0, 3, n)
        codes = np.where(truth[:, np.newaxis] == np.arange(3), 1.0, -1.0)
        values = codes + rng.normal(size=(n, 3)) + [2.0, 0.0, -1.0]
    elif isinstance(loss, Logistic):
        codes = np.where(rng.random((n, 1)) < 0.05, 1.0, -1.0)
        values = 2.0 * codes + rng.normal(size=(n, 1)) + 1.0
    else:
        codes = rng.poisson(np.exp(shift))[:, np.newaxis].astype(float)
        values = shift[:, np.newaxis] - 0.7
    return values, Rows(np.arange(n)[:, np.newaxis].astype(float), codes, 0.1 + rng.random(n))


def mean_of_codes(rows):
    return np.average(rows.targets, axis=0, weights=rows.weights)


def said(loss, values):
    if loss.task == "regression":
        return loss.predict(values)
    chances = loss.probabilities(values)
    return 2.0 * (chances[:, 1:] if values.shape[1] == 1 else chances) - 1.0


@pytest.mark.parametrize("chunk", [100_000, 500])
@pytest.mark.parametrize("loss", [Squared(), Poisson(), Logistic(), Softmax()])
def test_a_level_makes_the_mean_right(loss, chunk, monkeypatch):
    monkeypatch.setattr(default_targets, "_CHUNK", chunk)
    values, rows = scored(loss, 2000)
    asked = []

    def look(numbers):
        asked.append(len(numbers))
        return values[numbers], rows.targets[numbers], rows.weights[numbers]

    level = level_of(look, len(rows), mean_of_codes(rows), loss, seed=0)
    found = np.average(said(loss, values + level), axis=0, weights=rows.weights)
    size = 1.0 + mean_of_codes(rows) if loss.task == "classification" else mean_of_codes(rows)
    assert_allclose((found - mean_of_codes(rows)) / size, 0.0, atol=0.02)
    assert max(asked) <= chunk


def test_rows_that_are_drawn_are_the_same_in_any_pieces():
    _, rows = scored(Poisson(), 3000)
    whole, pieces = (LearnedMean(1, 1, np.float64, seed=0) for _ in range(2))
    whole.add(rows)
    for start in range(0, 3000, 70):
        pieces.add(rows[start : start + 70])
    assert_array_equal(whole.sample.X, pieces.sample.X)
    assert_allclose(pieces.total / pieces.weight, mean_of_codes(rows))


def test_a_sample_is_of_all_rows_and_bounded(monkeypatch):
    monkeypatch.setattr(default_targets, "_MOST_ROWS", 400)
    _, rows = scored(Poisson(), 20_000)
    learned = LearnedMean(1, 1, np.float64, seed=0)
    for start in range(0, 20_000, 500):
        learned.add(rows[start : start + 500])
    places = learned.sample.X[:, 0]
    assert len(places) == np.unique(places).size == 400
    assert abs(places.mean() - 10_000) < 4.0 * 20_000 / np.sqrt(12 * 400)
    kept, mean = learned.with_rows(rows[:100])
    assert_allclose(kept.weights.sum(), rows.weights.sum() + rows.weights[:100].sum())
    assert_allclose(
        mean * kept.weights.sum(), (learned.total + rows.weights[:100] @ rows.targets[:100])
    )


def test_a_second_fit_forgets_the_level_and_the_marks_of_the_first():
    y = (X[:80, 0] > 1.0).astype(int)
    model = KernelClassifier(expansion=KOMP(max_size=20), random_state=0).fit(X[:80], y)
    assert model.level_ is not None
    model._nulls = NullValues.of(-999)  # as streams leave it
    model.set_params(kernel=Gaussian(1.0)).fit(X[:80], y)
    assert model.level_ is None
    assert model._nulls is None


@pytest.mark.parametrize("loss", [Logistic(), Softmax()])
def test_scores_of_classes_move_no_more_than_the_mean_wants(loss):
    """Which is the least of a convex sum, so signs and sizes of what is left say that it is."""
    values, rows = scored(loss, 2000)
    share = rows.weights / rows.weights.sum()

    def chances(scores):
        return (1.0 + share @ said(loss, scores)) / 2.0

    wanted = (1.0 + mean_of_codes(rows)) / 2.0
    level = default_targets._solved(loss, values, share, wanted)
    off = chances(values + level) - wanted
    near = default_targets._NEAR * np.minimum(wanted, 1.0 - wanted if wanted.size == 1 else wanted)
    allowed = 1e-3 * wanted + default_targets._PULL * (share @ share) * abs(level)
    assert (abs(off) <= near + allowed).all()
    far = abs(level) > 1e-3
    assert far.any()
    assert_allclose(off[far], -np.sign(level[far]) * near[far], atol=allowed.max())
    near_enough = chances(values) * (
        1.0 + 0.5 * default_targets._NEAR * np.resize([1.0, -1.0], wanted.size)
    )
    assert not default_targets._solved(loss, values, share, near_enough).any()
