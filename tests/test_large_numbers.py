"""Columns of large numbers, as nanoseconds and 64-bit keys, are centred before they are squared."""

import numpy as np
import pytest
from scipy import sparse

from mercer import GaussianProcessRegressor, KernelClassifier, KernelRegressor
from mercer.expansions import Dictionary, RandomFeatures
from mercer.kernels import Gaussian
from mercer.losses import Quantile

DAYS = np.random.default_rng(0).integers(0, 300, 160)

COLUMNS = {
    "nanoseconds": (1.7e18 + 8.64e13 * DAYS).astype(np.int64),
    "microseconds": 1.7e15 + 8.64e10 * DAYS,
    "64-bit keys": 2**60 + 2**50 * DAYS,
    "64-bit keys without sign": np.uint64(2**63) + np.uint64(2**50) * DAYS.astype(np.uint64),
    "card numbers": 4 * 10**15 + 10**12 * DAYS,
    "below zero": -1.7e18 - 8.64e13 * DAYS,
    "steps of a few ulps": 1.7e18 + 1000.0 * DAYS,
    "very large": 1e40 + 1e37 * DAYS,
    "single precision": (1.7e18 + 8.64e15 * DAYS).astype(np.float32),
}


def table(column):
    rng = np.random.default_rng(1)
    other = rng.normal(size=160)
    X = np.column_stack([other.astype(getattr(column, "dtype", float)), column])
    if column.dtype.kind in "iu":
        X = np.column_stack([other, column])
    return X, np.sin(DAYS / 60) + 0.1 * other


@pytest.mark.parametrize("name", COLUMNS)
def test_the_default_learns_from_large_numbers(name):
    X, y = table(COLUMNS[name])
    assert np.abs(X[:, 1]).max() > 1e15
    model = KernelRegressor(random_state=0).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) > 0.9


@pytest.mark.parametrize("name", ["nanoseconds", "64-bit keys"])
def test_classes_and_streams_of_large_numbers(name):
    X, y = table(COLUMNS[name])
    labels = y > 0.0
    assert KernelClassifier(random_state=0).fit(X[:120], labels[:120]).score(X, labels) > 0.9
    model = KernelRegressor(random_state=0)
    for start in range(0, 120, 40):
        model.partial_fit(X[start : start + 40], y[start : start + 40])
    assert model.score(X[120:], y[120:]) > 0.5


@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("largest", [1e70, -1e160])
def test_what_overflows_is_refused_with_its_column(estimator, make, largest):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0.0).astype(int)
    X[5, 1] = largest
    with pytest.raises(ValueError, match=r"The inputs reach 1e\+.* in column 1 .*Divide the colu"):
        estimator(random_state=0).fit(make(X), y)


@pytest.mark.filterwarnings("ignore:`noise` = 0.1 is below the rounding")
@pytest.mark.parametrize("heaviest", [1e300, 1.7e308])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: KernelRegressor(random_state=0), id="default"),
        pytest.param(lambda: KernelRegressor(expansion=Dictionary(12)), id="dictionary"),
        pytest.param(lambda: KernelRegressor(Quantile(0.8), expansion=Dictionary(12)), id="steps"),
        pytest.param(lambda: GaussianProcessRegressor(Gaussian(1.0), n_features=24), id="process"),
    ],
)
def test_weights_whose_sums_overflow_are_refused_with_their_row(make, heaviest):
    X = np.random.default_rng(0).normal(size=(300, 3))
    weights = np.ones(300)
    weights[7] = heaviest
    model = make().fit(X, X[:, 0])
    before = model.predict(X)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"Row 7 has the weight 1.*e\+30.*Divide all weights"):
            learn(X, X[:, 0], weights)
    assert np.array_equal(model.predict(X), before)
    if hasattr(model, "learn_one"):
        with pytest.raises(ValueError, match="Row 0 has the weight"):
            model.learn_one(X[0], 0.0, sample_weight=heaviest)
        assert np.array_equal(model.predict(X), before)
    weights[7] = 1e100
    assert np.isfinite(model.fit(X, X[:, 0], weights).predict(X)).all()


@pytest.mark.parametrize("largest", [1e61, 1.7e308])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_processes_refuse_targets_whose_squares_overflow(largest, normalize_y):
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = GaussianProcessRegressor(Gaussian(1.0), n_features=24, normalize_y=normalize_y)
    model.fit(X, X[:, 0])
    before = model.predict(X)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"The targets reach .* Divide the targets"):
            learn(X, np.full(40, largest))
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize(("target", "weight"), [(1e37, 1.0), (1.0, 1e100)])
def test_sums_in_single_precision_do_not_overflow(target, weight):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    features = RandomFeatures(32, mode="solve")
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=features, random_state=0)
    expected = model.fit(X, X[:, 0]).predict(X)
    found = model.fit(X, target * X[:, 0].astype(np.float64), np.full(40, weight)).predict(X)
    assert np.allclose(found / target, expected, atol=1e-3)


def test_ridges_beyond_single_precision_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = KernelRegressor(random_state=0).fit(X, X[:, 0])
    before = model.predict(X)
    for call in (model.fit, model.partial_fit):
        model.set_params(regularization=1e300)
        with pytest.raises(ValueError, match=r"`regularization` must be .* 1e\+30\]"):
            call(X, X[:, 0])
    assert np.array_equal(model.predict(X), before)
    model.set_params(regularization=1e30).partial_fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()
