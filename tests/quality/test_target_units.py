"""Losses with bounded slopes learn targets in any unit; what has no unit is not silent."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from mercer import KernelRegressor, load_model
from mercer.exceptions import NothingLearnedWarning, TargetScaleWarning
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures, Stream
from mercer.inspection import unit_of_target
from mercer.kernels import Bias, Gaussian, Linear, Mapped, Partitioned, Polynomial
from mercer.losses import AbsoluteError, EpsilonInsensitive, Huber, Quantile
from mercer.maps import Standardize
from mercer.schedules import Relative

pytestmark = pytest.mark.usefixtures("quickest_race", "quick_correction", "few_steps")

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, size=(300, 2))
Y = 1.4 * np.sin(X[:, 0]) + 0.1 * RNG.normal(size=300)

# The same loss in units of s.
IN_UNITS = {
    "absolute error": lambda s: AbsoluteError(),
    "huber": lambda s: Huber(0.3 * s),
    "epsilon": lambda s: EpsilonInsensitive(0.1 * s),
    "quantiles": lambda s: Quantile([0.3, 0.5, 0.7]),
}
EXPANSIONS = {
    "auto": "auto",
    "komp": KOMP(max_size=60),
    "budget": Budget(40),
    "full": Full(),
    "newton features": RandomFeatures(64, min_steps=8),
    "faithful features": RandomFeatures(64, "faithful"),
    "dictionary": Dictionary(20),
}


@pytest.mark.parametrize("expansion", EXPANSIONS.values(), ids=EXPANSIONS)
@pytest.mark.parametrize("in_units", IN_UNITS.values(), ids=IN_UNITS)
def test_a_target_in_another_unit_gives_the_same_model_in_that_unit(in_units, expansion):
    """Powers of two, so that rounding is the same: 6e-5 and 2.6e5 standard deviations."""

    def prediction(s):
        model = KernelRegressor(in_units(s), expansion=expansion, random_state=0)
        return model.fit(X[:210], s * Y[:210]).predict(X).reshape(300, -1) / s

    expected = prediction(1.0)
    for s in (2.0**-14, 2.0**18):
        assert_allclose(prediction(s), expected, rtol=1e-4, atol=1e-4)
    middle = expected[:, expected.shape[1] // 2]
    assert np.mean((middle - Y) ** 2) < 0.4 * Y.var()


def test_a_huber_loss_far_below_the_target_is_an_absolute_error():
    """Prices in units of the currency with the usual delta = 1."""
    errors = {}
    for loss in ("huber", "absolute_error"):
        model = KernelRegressor(loss, random_state=0).fit(X, 1e5 * Y)
        errors[loss] = np.abs(model.predict(X) / 1e5 - Y).mean()
    assert errors["huber"] < 0.3
    assert_allclose(errors["huber"], errors["absolute_error"], rtol=0.05)


def test_outliers_do_not_set_the_unit():
    y = Y.copy()
    y[::20] = 1e6
    clean = KernelRegressor("absolute_error", random_state=0).fit(X, Y)
    spoilt = KernelRegressor("absolute_error", random_state=0).fit(X, y)
    units = [1.0 / model.learner_.automatic.curvature for model in (clean, spoilt)]
    assert units[1] <= 2.0 * units[0] <= 2.0
    assert np.abs(spoilt.predict(X) - Y).mean() < 0.5


def test_the_unit_survives_the_file_and_further_learning(tmp_path):
    model = KernelRegressor("huber", expansion="dictionary", batch_size=8)
    model.partial_fit(X[:200], 1e5 * Y[:200])
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.learner_.regularization == model.learner_.regularization < 1e-6
    for learner in (model, again):
        learner.partial_fit(X[200:], 1e5 * Y[200:])
    assert_array_equal(again.predict(X), model.predict(X))


def test_a_ridge_or_a_step_that_is_given_is_used_as_it_is():
    model = KernelRegressor("huber", regularization=1e-9, random_state=0).fit(X, 1e5 * Y)
    assert model.learner_.regularization == 1e-9
    relative = {
        unit: KernelRegressor("huber", step_size=Relative(0.5)).fit(X, unit * Y)
        for unit in (1.0, 16.0)
    }
    steps = [model.history_.step_size[0] for model in relative.values()]
    assert steps[0] == steps[1]


def test_single_small_targets_do_not_make_steps_small():
    model = KernelRegressor("absolute_error", kernel=Gaussian(1.0)).learn_one(X[0], 1e-9)
    for x, y in zip(X[1:], Y[1:], strict=True):
        model.learn_one(x, y)
    assert model.learner_.automatic.curvature == 1.0


# -- what is said -------------------------------------------------------------------------------

COUNTS = np.random.default_rng(1).poisson(np.exp(5.0 + 0.5 * Y))
KOMP = {"expansion": "komp"}
GIVEN = {**KOMP, "kernel": "gaussian"}  # or inputs are scaled and the target is centred
WORDS = {
    "counts": ({"loss": "poisson", **KOMP}, COUNTS, "suit targets of about 1"),
    "rare counts": ({"loss": "poisson", **KOMP}, COUNTS > 290, "suit targets of about 1"),
    "a step": ({"loss": "huber", "step_size": 0.5}, 1e5 * Y, "may never get there"),
    "a risk": ({"loss": "huber", "risk": "cvar:0.5", **GIVEN}, 1e5 * Y, "may never get there"),
    "two units": (
        {"loss": "absolute_error", "expansion": "dictionary"},
        np.column_stack([Y, 1e4 * Y]),
        "different sizes",
    ),
    "an offset": ({"loss": "absolute_error", **GIVEN}, Y + 20.0, "learns an offset slowly"),
    "an offset, squares": (GIVEN, Y + 20.0, "learns an offset slowly"),
}


@pytest.mark.parametrize(("parameters", "y", "words"), WORDS.values(), ids=WORDS)
def test_targets_that_cannot_be_learned_well_are_named_once(parameters, y, words):
    model = KernelRegressor(random_state=0, **parameters)
    with pytest.warns(TargetScaleWarning, match=words) as seen:
        model.fit(X, y)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_targets_within_epsilon_of_zero_teach_nothing_and_say_so(loss):
    with pytest.warns(NothingLearnedWarning, match="f = 0 is a solution"):
        KernelRegressor(loss, expansion="dictionary").fit(X, 1e-3 * Y)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(1.0) + Bias(),
        2.0 * Mapped(Linear() + Bias(), Standardize()),
        Polynomial(1),
        Partitioned("gaussian", anchors=3),
    ],
    ids=str,
)
def test_kernels_with_a_constant_term_learn_targets_far_from_zero_in_silence(kernel):
    model = KernelRegressor(kernel=kernel, expansion=Full(), n_passes=3, random_state=0)
    errors = model.fit(X, Y + 20.0).predict(X) - Y - 20.0
    assert abs(errors.mean()) < 1.0


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(2),  # (1 + x'z)² has a constant, but steps are too short for it
        Polynomial(1, offset=0.0),
        Bias() * Gaussian(1.0),
        Partitioned("gaussian", anchors=3, constant=0.0),
    ],
    ids=str,
)
def test_kernels_that_learn_an_offset_slowly_are_told_so(kernel):
    model = KernelRegressor(kernel=kernel, expansion=Full(), random_state=0)
    with pytest.warns(TargetScaleWarning, match="begin at f = 0 and a .* learns an offset slowly"):
        off = np.mean((model.fit(X, Y + 20.0).predict(X) - Y - 20.0) ** 2)
    assert off > 2.0 * np.mean((model.fit(X, Y).predict(X) - Y) ** 2)


def test_equations_that_are_solved_have_no_trouble_with_an_offset():
    model = KernelRegressor(expansion=RandomFeatures(64, "solve"), random_state=0)
    assert model.fit(X, Y + 20.0).score(X, Y + 20.0) > 0.95


def test_what_the_warnings_advise_helps():
    rates = np.exp(5.0 + 0.5 * Y)
    with pytest.warns(TargetScaleWarning):
        plain = KernelRegressor("poisson", **KOMP, random_state=0).fit(X, COUNTS)
    scaled = TransformedTargetRegressor(
        KernelRegressor("poisson", **KOMP, random_state=0),
        transformer=StandardScaler(with_mean=False),
    )
    assert scaled.fit(X, COUNTS).score(X, rates) > max(0.7, plain.score(X, rates) + 0.2)
    plain = KernelRegressor("absolute_error", **KOMP, random_state=0)
    for centred in (
        TransformedTargetRegressor(plain, transformer=StandardScaler()),
        clone(plain).set_params(normalize_y=True),
    ):
        assert centred.fit(X, Y + 20.0).score(X, Y + 20.0) > 0.7
    KernelRegressor("absolute_error", kernel=Gaussian(1.0) + Bias(10.0), **KOMP).fit(X, Y + 20.0)


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e2])
def test_counts_of_any_size_are_learned_by_default(unit):
    logarithms = np.log(150.0 * unit) + 0.5 * Y
    found = []
    for seed in range(3 if unit < 1.0 else 1):
        counts = np.random.default_rng(2 + seed).poisson(np.exp(logarithms))
        model = KernelRegressor("poisson", random_state=0).fit(X, counts)
        found.append(np.corrcoef(np.log(model.predict(X)), logarithms)[0, 1])
    # Of the logarithm: counts of about one say little of a rate, some draws less than others.
    assert np.mean(found) > (0.7 if unit < 1.0 else 0.99)


@pytest.mark.parametrize("loss", ["absolute_error", "huber", Quantile([0.2, 0.8])], ids=str)
def test_targets_of_any_sizes_are_learned_beside_each_other_by_default(loss):
    small = 1e-3 * Y**2
    both = KernelRegressor(loss, random_state=0).fit(X, np.column_stack([Y, small])).predict(X)
    alone = KernelRegressor(loss, random_state=0).fit(X, small).predict(X)
    mine = both.reshape(len(X), 2, -1)[:, 1]
    assert np.abs(mine - alone.reshape(mine.shape)).mean() < 0.1 * small.std()


def test_the_default_loss_says_nothing_about_units():
    for y in (1e8 * Y, 1e-8 * Y, Y + 1e4):
        assert KernelRegressor(random_state=0).fit(X[:200], y[:200]).score(X, y) > 0.95


# -- units that are measured -----------------------------------------------------------------------

STEPS = {"kernel": Gaussian(1.0), "random_state": 0}
FAR = 1e4 + 64.0 * Y
BOTH = np.column_stack([FAR, -3.0 + 1e-3 * Y**2])
LEARN_BY_STEPS = {name: e for name, e in EXPANSIONS.items() if name != "auto"}


def standardised(y):
    """Targets by hand, and their mean and deviation."""
    mean, deviation = y.mean(axis=0), y.std(axis=0)
    return (y - mean) / deviation, mean, deviation


@pytest.mark.parametrize("expansion", LEARN_BY_STEPS.values(), ids=LEARN_BY_STEPS)
@pytest.mark.parametrize("loss", ["squared", "huber", Quantile([0.3, 0.5, 0.7])], ids=str)
@pytest.mark.parametrize("y", [FAR, BOTH], ids=["one", "two"])
def test_normalised_targets_are_learned_as_if_standardised_by_hand(loss, expansion, y):
    unit, mean, deviation = standardised(y)
    learner = KernelRegressor(loss, expansion=expansion, **STEPS)
    plain = learner.fit(X, unit).predict(X)
    model = clone(learner).set_params(normalize_y=True).fit(X, y)
    n_levels = plain.reshape(len(X), -1).shape[1] // np.atleast_1d(mean).size
    by_hand = plain * np.repeat(deviation, n_levels) + np.repeat(mean, n_levels)
    assert_allclose(model.predict(X), by_hand, rtol=1e-9)
    assert_allclose(model.y_scale_, np.atleast_1d(deviation), rtol=1e-12)
    assert_allclose(model.intercept_, np.repeat(mean, n_levels), rtol=1e-12)
    # The losses are those of targets in that unit.
    assert_allclose(model.history_.loss, learner.history_.loss, rtol=1e-6)
    assert_allclose(model.score(X, y), learner.score(X, unit), rtol=1e-6)


def test_the_learned_function_is_in_the_unit_and_predictions_in_their_own():
    model = KernelRegressor(expansion="komp", normalize_y=True, **STEPS).fit(X, FAR)
    values = model.kernel_(X, model.dictionary_) @ model.coefficients_
    assert np.abs(values).max() < 4.0
    predicted = model.predict(X)
    assert_allclose(predicted, model.y_scale_ * values[:, 0] + model.intercept_, rtol=1e-12)
    assert_allclose(model.scores(X), values, atol=1e-12)
    for i in range(3):
        assert_allclose(model.predict_one(X[i]), predicted[i], rtol=1e-12)
    assert unit_of_target(model) == (FAR.mean(), FAR.std())
    assert unit_of_target(KernelRegressor(expansion="komp", **STEPS).fit(X, Y)) is None


def test_units_are_those_of_the_first_rows_and_stay(tmp_path):
    model = KernelRegressor(expansion="komp", normalize_y=True, **STEPS)
    model.partial_fit(X[:100], FAR[:100])
    unit = FAR[:100].mean(), FAR[:100].std()
    model.partial_fit(X[100:200], 1e3 * FAR[100:200])
    assert unit_of_target(model) == unit
    model.learn_one(X[200], FAR[200])
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert unit_of_target(again) == unit
    assert again.normalize_y
    for learner in (model, again):
        learner.learn_one(X[201], FAR[201])
        learner.partial_fit(X[202:], FAR[202:])
    assert_array_equal(again.predict(X), model.predict(X))
    assert unit_of_target(model.fit(X, Y)) == (Y.mean(), Y.std())


def test_single_rows_are_learned_in_the_unit_of_the_first_call():
    unit, _, _ = standardised(FAR[:100])
    model = KernelRegressor(expansion="komp", normalize_y=True, **STEPS)
    plain = KernelRegressor(expansion="komp", **STEPS).partial_fit(X[:100], unit)
    model.partial_fit(X[:100], FAR[:100])
    mean, deviation = unit_of_target(model)
    for i in range(100, 150):
        model.learn_one(X[i], FAR[i])
        plain.learn_one(X[i], (FAR[i] - mean) / deviation)
    assert_allclose(model.predict(X), deviation * plain.predict(X) + mean, rtol=1e-9)
    # A first row alone has no deviation.
    one = KernelRegressor(expansion="komp", normalize_y=True, **STEPS).learn_one(X[0], 7.0)
    assert (one.intercept_.tolist(), one.y_scale_.tolist()) == ([7.0], [1.0])
    assert one.predict_one(X[0]) == 7.0


def test_weights_count_in_the_unit():
    weights = np.r_[np.ones(200), np.zeros(100)]
    y = np.r_[FAR[:200], np.full(100, 1e9)]
    model = KernelRegressor(expansion="komp", normalize_y=True, **STEPS)
    assert_allclose(
        unit_of_target(model.fit(X, y, sample_weight=weights)),
        (FAR[:200].mean(), FAR[:200].std()),
    )


def test_targets_that_do_not_vary_keep_their_unit():
    y = np.column_stack([FAR, np.full(300, 5.0)])
    model = KernelRegressor(expansion="komp", normalize_y=True, **STEPS).fit(X, y)
    assert_allclose(model.y_scale_, [FAR.std(), 1.0], rtol=1e-12)
    assert_allclose(model.predict(X)[:, 1], 5.0)


@pytest.mark.parametrize("loss", ["squared", Quantile([0.05, 0.5, 0.95])], ids=str)
def test_intervals_and_explanations_are_in_the_units_of_the_target(loss):
    learner = KernelRegressor(loss, expansion="komp", n_passes=3, **STEPS)
    plain = clone(learner).partial_fit(X[:100], (FAR[:100] - FAR[:100].mean()) / FAR[:100].std())
    model = learner.set_params(normalize_y=True).partial_fit(X[:100], FAR[:100])
    mean, deviation = unit_of_target(model)
    model.calibrate(X[100:200], FAR[100:200])
    plain.calibrate(X[100:200], (FAR[100:200] - mean) / deviation)
    ends = model.predict_interval(X[200:], 0.8)
    assert_allclose(ends, deviation * plain.predict_interval(X[200:], 0.8) + mean, rtol=1e-9)
    told, of_plain = (one.explain(X[:3], background=X[200:]) for one in (model, plain))
    middle = model.predict(X[:3]).reshape(3, -1)
    assert_allclose(told.prediction, middle[:, middle.shape[1] // 2], rtol=1e-12)
    assert_allclose(told.contributions, deviation * of_plain.contributions, rtol=1e-6, atol=1e-9)
    assert_allclose(told.baseline, deviation * of_plain.baseline + mean, rtol=1e-9)
    assert_allclose(model.feature_importances_, plain.feature_importances_, rtol=1e-6)
    curve, of_plain = (one.partial_dependence(0, background=X[200:]) for one in (model, plain))
    assert_allclose(curve.values, deviation * of_plain.values + mean, rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "the default expansion finds the unit of the targets by itself"),
        ({"kernel": "gaussian"}, "the default expansion finds the unit"),
        ({"expansion": Stream()}, "the default expansion finds the unit"),
        ({"loss": "poisson", "expansion": "komp"}, "counts have no other unit"),
        ({"expansion": "komp", "normalize_y": "yes"}, "must be True or False, got 'yes'"),
    ],
    ids=str,
)
def test_units_that_cannot_be_are_refused(parameters, words):
    y = np.abs(Y) if "loss" in parameters else Y
    with pytest.raises(ValueError, match=words):
        KernelRegressor(**{"normalize_y": True, **parameters}).fit(X, y)


def test_targets_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match=r"too large.*Divide them by some power of ten"):
        KernelRegressor(expansion="komp", normalize_y=True, **STEPS).fit(X, 1e200 * Y)


def test_nothing_is_said_of_targets_in_units_of_their_deviation():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (1e8 * Y, 1e-8 * Y, Y + 1e4, np.column_stack([Y, 1e4 * Y])):
            for loss in ("squared", "absolute_error"):
                model = KernelRegressor(loss, expansion="komp", normalize_y=True, random_state=0)
                assert model.fit(X, y).score(X, y) > 0.8
