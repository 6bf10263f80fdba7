"""Losses with bounded slopes learn targets in any unit; what has no unit is not silent."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from mercer import KernelRegressor, load_model
from mercer.exceptions import NothingLearnedWarning, TargetScaleWarning
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.kernels import Bias, Gaussian, Linear, Mapped, Partitioned, Polynomial
from mercer.losses import AbsoluteError, EpsilonInsensitive, Huber, Quantile
from mercer.maps import Standardize
from mercer.schedules import Relative

pytestmark = pytest.mark.usefixtures("quick_race")

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
        return model.fit(X, s * Y).predict(X).reshape(300, -1) / s

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
    centred = TransformedTargetRegressor(
        KernelRegressor("absolute_error", **KOMP, random_state=0), transformer=StandardScaler()
    )
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
