"""``kernel="auto"`` where no race is part of the function: inputs are scaled, targets centred."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mercer import (
    DensityRatio,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.estimators.start import MappedRows, centre_of, input_map
from mercer.expansions import KOMP, Budget, Full, RandomFeatures
from mercer.kernels import Gaussian, Mapped
from mercer.losses import Huber, Quantile, Squared
from mercer.maps import Affine
from mercer.objectives import Pointwise
from mercer.sums import Rows

X = np.random.default_rng(5).normal(size=(160, 3)) * [1.0, 1e3, 0.01] + [0.0, 1e4, 3.0]
SIGNAL = np.sin(X[:, 0]) + (X[:, 1] - 1e4) / 1e3
Y = 50.0 * SIGNAL + 2000.0
NEW = X[:40] + np.array([0.1, 50.0, 0.001])
POINTS = [KOMP(max_size=60), Budget(60), Full(), KOMP(tolerance=0.05)]
EVERY = [*POINTS, RandomFeatures(64), RandomFeatures(64, mode="faithful"), "dictionary"]
BY_STEPS = pytest.mark.parametrize("expansion", POINTS, ids=str)


def regressor(**parameters):
    return KernelRegressor(random_state=0, **parameters)


@pytest.fixture(scope="module", autouse=True)
def quick_map():
    """Choose maps as users' models do."""


# -- what it is for ------------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", EVERY, ids=str)
def test_units_of_inputs_and_target_make_no_difference(expansion):
    model = regressor(expansion=expansion).fit(X, Y)
    assert model.score(NEW, 50.0 * (np.sin(NEW[:, 0]) + (NEW[:, 1] - 1e4) / 1e3) + 2000.0) > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = regressor(expansion=expansion).fit(100.0 * X + 7.0, 3.0 * Y + 1000.0)
    # Rounding of the inputs may be enlarged by what chooses points.
    assert_allclose(
        (other.predict(100.0 * NEW + 7.0) - 1000.0) / 3.0, model.predict(NEW), rtol=0, atol=5.0
    )


@pytest.mark.parametrize("risk", ["cvar:0.8", "semideviation", "entropic", "variance"])
def test_units_make_no_difference_to_risks(risk):
    """Entropic risks and variances have units of their own: inputs alone are changed for them."""
    scale = 3.0 if risk in ("cvar:0.8", "semideviation") else 1.0
    y = Y / 50.0
    model = regressor(risk=risk).fit(X, y)
    other = regressor(risk=risk).fit(100.0 * X + 7.0, scale * y + 1000.0)
    assert_allclose(
        (other.predict(100.0 * NEW + 7.0) - 1000.0) / scale, model.predict(NEW), rtol=0, atol=0.1
    )


@pytest.mark.parametrize("risk", [None, "cvar:0.8", "semideviation"])
@pytest.mark.parametrize("loss", ["absolute_error", Quantile([0.2, 0.5])], ids=str)
def test_losses_of_bounded_slopes_follow_the_unit_of_the_target(loss, risk):
    """By powers of two, which are the unit that steps are in."""
    parameters = {"loss": loss, "risk": risk, "expansion": "komp"}
    model = regressor(**parameters).fit(X, Y)
    other = regressor(**parameters).fit(X, 2.0**12 * Y)
    assert_allclose(other.predict(NEW) / 2.0**12, model.predict(NEW), rtol=0, atol=5.0)


@pytest.mark.parametrize(
    "parameters", [{"expansion": "komp"}, {"risk": "cvar:0.9"}, {"expansion": "random_features"}]
)
def test_raw_tables_are_learned_as_well_as_standardised_ones(parameters):
    raw, y = load_diabetes(return_X_y=True, scaled=False)
    scores = []
    for seed in range(2):
        train, test, a, b = train_test_split(raw, y, random_state=seed)
        standard, mean, deviation = StandardScaler().fit(train), a.mean(), a.std()
        inputs, targets = standard.transform(train), (a - mean) / deviation
        by_hand = regressor(kernel="gaussian", **parameters).fit(inputs, targets)
        scores.append(
            [
                by_hand.score(standard.transform(test), (b - mean) / deviation),
                regressor(**parameters).fit(train, a).score(test, b),
            ]
        )
    by_hand, automatic = np.mean(scores, axis=0)
    assert automatic > by_hand - 0.03
    assert automatic > 0.15


def test_a_column_that_says_nothing_counts_little(rng):
    noisy = np.c_[SIGNAL, 5.0 * rng.normal(size=(160, 4))]
    model = regressor(expansion="komp").fit(noisy[:120], SIGNAL[:120])
    plain = regressor(expansion="komp", kernel="gaussian").fit(noisy[:120], SIGNAL[:120])
    assert model.score(noisy[120:], SIGNAL[120:]) > plain.score(noisy[120:], SIGNAL[120:]) + 0.2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_scale_inputs(n_classes):
    labels = np.digitize(SIGNAL, np.quantile(SIGNAL, [0.33, 0.66]))
    labels = labels if n_classes == 3 else labels > 0
    for parameters in ({"expansion": "komp"}, {"expansion": "komp", "risk": "cvar:0.5"}):
        model = KernelClassifier(random_state=0, **parameters).fit(X, labels)
        assert model.score(X, labels) > 0.85
        assert isinstance(model.kernel_, Mapped)


# -- the model -----------------------------------------------------------------------------------


@BY_STEPS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_function_is_what_the_attributes_say(expansion, dtype):
    rows = X.astype(dtype)
    model = regressor(expansion=expansion).fit(rows, Y)
    assert model.dictionary_.shape[1] == 3
    assert model.dictionary_.dtype == model.learner_.function.dtype
    by_hand = model.intercept_ + model.kernel_(NEW, model.dictionary_) @ model.coefficients_
    rtol = 1e-9 if dtype == np.float64 else 1e-3
    assert_allclose(by_hand[:, 0], model.predict(NEW), rtol=rtol)


def test_random_features_are_of_the_raw_rows():
    model = regressor(expansion=RandomFeatures(64)).fit(X, Y)
    by_hand = model.intercept_ + model.random_features(NEW) @ model.coefficients_
    assert_allclose(by_hand[:, 0], model.predict(NEW), rtol=1e-6)


def test_points_are_rows_that_were_learned_as_far_as_the_kernel_tells():
    model = regressor(expansion=KOMP(max_size=20)).fit(X, Y)
    images = model.kernel_.map(X)
    distances = np.abs(model.kernel_.map(model.dictionary_)[:, np.newaxis] - images).max(axis=2)
    assert distances.min(axis=1).max() < 1e-9 * np.abs(images).max()


def test_several_targets_and_levels_have_a_centre_each():
    both = np.column_stack([Y, -3.0 * Y])
    model = regressor(expansion="komp").fit(X, both)
    assert_allclose(model.targets_.intercept, both.mean(axis=0))
    model = regressor(loss=Quantile([0.1, 0.9]), expansion="komp").fit(X, both)
    assert_array_equal(model.targets_.intercept, np.repeat(np.sort(both, axis=0)[79], 2))
    assert model.predict(NEW).shape == (40, 4)


@BY_STEPS
def test_single_rows_are_mapped_like_many(expansion):
    parameters = {"expansion": expansion, "batch_size": 1}
    many, single = (regressor(**parameters).partial_fit(X[:100], Y[:100]) for _ in range(2))
    for x, y in zip(X[100:], Y[100:], strict=True):
        many.partial_fit(x[np.newaxis], [y])
        single.learn_one(x, y)
    assert_array_equal(single.predict(NEW), many.predict(NEW))
    assert_allclose([single.predict_one(x) for x in NEW], single.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize("expansion", [KOMP(max_size=60), RandomFeatures(64)], ids=str)
def test_models_go_on_from_files_and_pickles(expansion, tmp_path):
    model = regressor(expansion=expansion).partial_fit(X[:100], Y[:100])
    model.save(tmp_path / "model")
    copies = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for one in (model, *copies):
        one.partial_fit(X[100:], Y[100:])
    for one in copies:
        assert_array_equal(one.predict(NEW), model.predict(NEW))
        assert one.kernel_ == model.kernel_


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.update(inputs="no map"), "`inputs` must be a Affine"),
        (lambda state: state["targets"].update(centre=np.zeros(2)), "centre"),
        (lambda state: state["targets"].update(centre=np.array([np.nan])), "centre"),
        (lambda state: state.pop("inputs"), "dictionary does not match"),
    ],
)
def test_states_that_do_not_fit_together_are_refused(change, words, rng):
    # Columns that say nothing are left out: the points have other columns than the rows.
    wide = np.c_[X, rng.normal(size=(160, 60))]
    state = regressor(expansion="komp").fit(wide, Y).to_state()
    assert state["learner"]["function"]["arrays"]["points"].shape[1] < 63
    change(state)
    with pytest.raises((ValueError, TypeError, KeyError), match=words):
        KernelRegressor.from_state(state)


def test_a_failed_call_leaves_the_map():
    model = regressor(expansion="komp").partial_fit(X, Y)
    before = model.predict(NEW), model.kernel_
    bad = Y.copy()
    bad[3] = np.inf
    for learn in (model.partial_fit, model.fit):
        with pytest.raises(ValueError, match="infinity"):
            learn(X, bad)
    assert_array_equal(model.predict(NEW), before[0])
    assert model.kernel_ == before[1]


def test_a_new_fit_forgets_the_map():
    model = regressor(expansion="komp").fit(X, Y)
    assert isinstance(model.kernel_, Mapped)
    model.set_params(kernel=Gaussian(1.0)).fit(X[:, :1], SIGNAL)
    assert model.kernel_ == Gaussian(1.0)
    assert_array_equal(model.targets_.intercept, [0.0])


# -- where it says nothing -----------------------------------------------------------------------


def test_given_kernels_and_few_or_sparse_rows_leave_inputs_as_they_are():
    given = regressor(expansion="komp", kernel="gaussian").fit(X[:, :1], SIGNAL)
    assert not isinstance(given.kernel_, Mapped)
    few = regressor(expansion="komp").partial_fit(X[:19, :1], SIGNAL[:19])
    assert not isinstance(few.kernel_, Mapped)
    assert_array_equal(few.targets_.intercept, [0.0])
    rows = sparse.csr_array(np.abs(X))
    model = regressor(expansion="komp").fit(rows, Y)
    assert not isinstance(model.kernel_, Mapped)
    assert_allclose(model.targets_.intercept, [Y.mean()])


def test_rows_without_weight_say_nothing():
    weights = np.ones(160)
    weights[100:] = 0.0
    spoilt, targets = X.copy(), Y.copy()
    spoilt[100:] *= 1e6
    targets[100:] = -1e9
    model = regressor(expansion="komp").fit(spoilt, targets, sample_weight=weights)
    assert_allclose(model.targets_.intercept, [Y[:100].mean()])
    assert model.score(X[:100], Y[:100]) > 0.7


def test_counts_keep_their_origin_and_inputs_are_scaled():
    counts = np.random.default_rng(0).poisson(np.exp(SIGNAL))
    model = regressor(loss="poisson", expansion="komp").fit(X, counts)
    assert_array_equal(model.targets_.intercept, [0.0])
    assert isinstance(model.kernel_, Mapped)


@pytest.mark.parametrize(("n_inputs", "is_full"), [(8, True), (40, False)])
def test_metrics_have_no_more_numbers_than_their_pilots_have_rows(n_inputs, is_full, rng):
    """Pilots gain by them here, but a model of all rows would lose."""
    X = rng.normal(size=(500, n_inputs))
    y = np.sin(2 * X @ np.linspace(0.2, 1.0, n_inputs) / np.sqrt(n_inputs))
    found, _ = input_map(Pointwise(Squared()), Rows(X, y[:, None], np.ones(500)), 1)
    one, other = found(np.eye(n_inputs)[:2]) - found(np.zeros((1, n_inputs)))
    mixes = abs(one @ other) > 1e-6 * np.linalg.norm(one) * np.linalg.norm(other)
    assert mixes == is_full


def test_outliers_do_not_move_the_centre_of_losses_of_bounded_slopes():
    y = Y.copy()
    y[::20] = 1e9
    assert abs(centre_of(Huber(), y, np.ones(160))[0] - np.median(Y)) < Y.std() / 5


def test_columns_without_a_number_of_their_own_are_no_error():
    rows = np.c_[np.ones(160), X, np.zeros(160)]
    model = regressor(expansion="komp").fit(rows, Y)
    assert model.score(rows, Y) > 0.8
    regressor(expansion="komp").fit(np.ones((40, 2)), Y[:40])


def test_numbers_too_large_to_scale_are_refused():
    for expansion in ("komp", "random_features"):
        with pytest.raises(ValueError, match=r"overflow|range|large"):
            regressor(expansion=expansion).fit(1e200 * X, Y)


# -- rows that are unlike the first --------------------------------------------------------------


@pytest.mark.parametrize("expansion", ["komp", "random_features"])
def test_a_row_far_out_does_not_set_the_scale(expansion, rng):
    rows = rng.normal(size=(300, 2))
    y = np.sin(3.0 * rows[:, 0])
    clean = regressor(expansion=expansion, n_passes=3).fit(rows, y).score(rows[6:], y[6:])
    for size in (1e3, 1e6, 1e300):
        rows[5, 0] = size
        spoilt = regressor(expansion=expansion, n_passes=3).fit(rows, y)
        assert spoilt.score(rows[6:], y[6:]) > clean - 0.1 > 0.6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("expansion", ["komp", "budget"])
def test_rows_whose_image_overflows_are_far_away_and_do_no_harm(expansion, dtype, tmp_path):
    most = np.finfo(dtype).max
    rows = (0.1 * X).astype(dtype)
    model = regressor(expansion=expansion, batch_size=1).partial_fit(rows, Y)
    before = model.predict(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one(np.array([most, 0.0, -most], dtype=dtype), Y.mean())
        far = model.predict_one(np.array([most, 0.0, 0.0], dtype=dtype))
    assert np.isfinite(far)
    assert np.corrcoef(model.predict(rows), before)[0, 1] > 0.9
    model.save(tmp_path / "model")


def test_sparse_rows_after_dense_ones_are_mapped_as_they_are():
    rows = np.abs(X)
    thin = sparse.csr_array(rows)
    model = regressor(expansion="komp").fit(rows, Y)
    assert_array_equal(model.predict(thin), model.predict(rows))
    other = regressor(expansion="komp").fit(rows, Y)
    model.partial_fit(thin, Y)
    other.partial_fit(rows, Y)
    assert_array_equal(model.predict(rows), other.predict(rows))


def test_few_first_rows_do_not_drop_an_input():
    """A map stays: of 25 rows a column may seem to say nothing."""
    draws = np.random.default_rng(0)
    rows = np.c_[draws.random(2000) < 0.5, draws.normal(size=2000)].astype(float)
    y = np.sin(3.0 * rows[:, 1]) * (2.0 * rows[:, 0] - 1.0)
    model = regressor(expansion="komp").partial_fit(rows[:25], y[:25]).partial_fit(rows, y)
    assert model.kernel_.map.n_outputs == 2
    assert model.score(rows, y) > 0.5


def test_many_rows_are_mapped_in_blocks():
    model = regressor(expansion=KOMP(max_size=20)).fit(X, Y)
    many = np.tile(X, (2**15 // 160 + 2, 1))
    assert_array_equal(model.predict(many)[-160:], model.predict(many[-160:]))


# -- losses of one's own -------------------------------------------------------------------------


class LogSquared(Squared):
    """Squared error of logarithms."""

    def encode(self, labels, n_classes=None):
        """Return logarithms."""
        return np.log(super().encode(labels, n_classes))

    def predict(self, scores):
        """Return what they are of."""
        return np.exp(scores)


def test_losses_with_a_link_of_their_own_are_not_centred():
    y = np.exp(1.0 + 0.5 * SIGNAL)
    model = regressor(loss=LogSquared(), expansion="komp", n_passes=3).fit(X, y)
    assert_array_equal(model.targets_.intercept, [0.0])
    assert model.score(X, y) > 0.6


# -- other estimators ----------------------------------------------------------------------------


def test_objectives_without_targets_have_their_inputs_standardised():
    rows = X[:, :2]
    stretched = rows * [1.0, 1e5] + 3.0
    labels = SIGNAL > 0
    novelty = [NoveltyDetector(kernel="auto", random_state=0).fit(r) for r in (rows, stretched)]
    assert_allclose(novelty[1].score_samples(stretched), novelty[0].score_samples(rows), rtol=1e-6)
    assert_allclose(novelty[1].offset_, novelty[0].offset_, rtol=1e-6)
    rankers = [
        KernelRanker(kernel="auto", random_state=0).fit(r, labels) for r in (rows, stretched)
    ]
    assert_allclose(
        rankers[1].decision_function(stretched), rankers[0].decision_function(rows), atol=1e-6
    )
    halves = rows[:80], rows[80:] + 1.0
    other = tuple(half * [1.0, 1e5] + 3.0 for half in halves)
    ratios = [
        DensityRatio(kernel="auto", validation_fraction=0.3, random_state=0).fit(*pair)
        for pair in (halves, other)
    ]
    assert_allclose(ratios[1].divergence_, ratios[0].divergence_, atol=1e-6)
    assert_allclose(ratios[1].log_ratio(other[0]), ratios[0].log_ratio(halves[0]), atol=1e-5)
    values = [
        ValueFunction(0.9, kernel="auto", random_state=0).fit(r[:-1], SIGNAL[1:], r[1:])
        for r in (rows, stretched)
    ]
    assert_allclose(values[1].predict(stretched), values[0].predict(rows), atol=1e-5)


def test_pairs_of_points_are_mapped():
    stretched = X * [1.0, 1e5, 1e-3] + 3.0
    rankers = [
        KernelRanker(
            kernel="auto", pair_kernel="symmetric", pair_label="same", average=None, random_state=0
        ).fit(rows, SIGNAL > 0)
        for rows in (X, stretched)
    ]
    assert_allclose(
        rankers[1].predict_pair(stretched[:50], stretched[50:100]),
        rankers[0].predict_pair(X[:50], X[50:100]),
        atol=1e-6,
    )


# -- rows behind a map ---------------------------------------------------------------------------


def test_rows_are_mapped_when_they_are_taken():
    map = Affine([1.0, 0.0], [2.0, 0.0])
    rows = np.arange(12.0).reshape(6, 2)
    mapped = MappedRows(rows, map)
    assert (len(mapped), mapped.shape, mapped.dtype) == (6, (6, 1), np.float64)
    assert_array_equal(mapped[np.array([4, 0])], map(rows)[[4, 0]])
    rows[0] = 100.0  # nothing was copied
    assert_array_equal(mapped.toarray(), map(rows))


@pytest.mark.parametrize(
    "map",
    [
        Affine([1.0, 2.0, 3.0], [2.0, 0.0, 0.5]),
        Affine([1.0, 2.0, 3.0], [2.0, 4.0, 0.5], [7.0, 7.0, 7.0]),
        Affine([1.0, 2.0, 3.0], [[1.0, 2.0], [-1.0, 0.5], [0.3, 0.0]], [1.0, -1.0]),
        Affine([1.0, 2.0, 3.0], np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 1.0])),
    ],
    ids=["dropped", "scales", "narrow", "of rank one"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_preimages_have_the_image_they_are_of(map, dtype, rng):
    images = map(rng.normal(size=(5, 3)).astype(dtype))
    preimages = map.preimage(images)
    assert preimages.dtype == dtype
    assert_allclose(map(preimages), images, rtol=1e-9 if dtype == np.float64 else 1e-4)
    with pytest.raises(ValueError, match="shape"):
        map.preimage(np.ones((2, map.n_outputs + 1)))
