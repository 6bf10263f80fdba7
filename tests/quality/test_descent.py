"""Regressions with other losses than the squared one: whole steps, and the default for them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.linear_model import QuantileRegressor

from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.default import DefaultLearner
from mercer.exceptions import NothingLearnedWarning
from mercer.expansions import KOMP, Dictionary, RandomFeatures
from mercer.functions import DictionaryFunction
from mercer.inspection import parts_table, race_table
from mercer.kernels import Gaussian, Laplacian
from mercer.learning import sums
from mercer.learning.sums import SmoothedSlopes
from mercer.losses import AbsoluteError, Huber, Quantile, SquaredEpsilonInsensitive
from mercer.objectives import Batch, Pointwise
from mercer.selection import RaceSettings
from mercer.sums import KernelBasis, NewtonSteps, correction
from mercer.sums.newton import products_with
from oracles_second_order import least_objective, objective_of
from quick import QUICKEST

pytestmark = pytest.mark.usefixtures("quickest_race", "short_correction")

LOSSES = [
    Huber(0.3),
    AbsoluteError(),
    Quantile([0.1, 0.5, 0.9]),
    SquaredEpsilonInsensitive(0.1),
]


@pytest.fixture
def careful_race(monkeypatch):
    """A race that finds what is good to some hundredths."""
    race = QUICKEST.race._replace(pilot_rows=400, small=1000)
    monkeypatch.setattr(DefaultLearner, "settings", QUICKEST._replace(race=race))
    monkeypatch.setattr(DictionaryFunction, "settings", race)
    monkeypatch.setattr(correction, "_RIDGES", 10.0 ** -np.arange(0.0, 8.0))
    monkeypatch.setattr(correction, "_STEPS", 100)


def curve(n, seed=0):
    """A wave whose noise grows from left to right, and its true deciles."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, n)
    spread = 0.2 + 0.15 * (x + 2.0)
    y = np.sin(2.0 * x) + spread * rng.standard_normal(n)
    deciles = np.sin(2.0 * x)[:, None] + spread[:, None] * np.array([-1.2816, 0.0, 1.2816])
    return x[:, None], y, deciles


def friedman(n, outliers=0.0, seed=0):
    """Rows, targets of which some are off by a lot, and the clean ones."""
    X, clean = make_friedman1(n, noise=0.5, random_state=seed)
    rng = np.random.default_rng(seed)
    y = clean.copy()
    wrong = rng.random(n) < outliers
    y[wrong] += 100.0 * rng.standard_cauchy(wrong.sum())
    return X, y, clean


# -- the steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 40])
def test_whole_steps_with_momentum_reach_the_solution_of_a_quadratic_problem(size):
    X, y, _ = curve(200)
    basis = KernelBasis(Gaussian(0.5), X[:size])
    steps, Z = (
        NewtonSteps(basis, 1, curvature=4.0),
        basis.features(X),
    )  # a bound four times too high
    steps.add_points(Z, np.ones(200))
    steps.descend(Z, lambda values: (values - y[:, None]) / 200, 1e-3, 150)
    exact = np.linalg.solve(Z.T @ Z / 200 + 1e-3 * basis.penalty(), Z.T @ y / 200)
    assert_allclose(Z @ steps.iterate[:, 0], Z @ exact, atol=1e-6)
    assert steps.mean is steps.iterate


def test_momentum_needs_fewer_steps():
    X, y, _ = curve(200)
    basis = KernelBasis(Gaussian(0.5), X[:30])
    Z = basis.features(X)
    exact = np.linalg.solve(Z.T @ Z / 200 + 1e-3 * basis.penalty(), Z.T @ y / 200)

    def slopes(values):
        return (values - y[:, None]) / 200

    distances = []
    for momentum in (True, False):
        steps = NewtonSteps(basis, 1, curvature=10.0)
        steps.add_points(Z, np.ones(200))
        if momentum:
            steps.descend(Z, slopes, 1e-3, 25)
        else:
            for _ in range(25):
                steps.step(products_with(Z, slopes(Z @ steps.iterate)), 1.0, 1e-3)
        distances.append(np.abs(Z @ (steps.iterate[:, 0] - exact)).max())
    assert distances[0] < 0.3 * distances[1]


@pytest.mark.parametrize("loss", [AbsoluteError(), Huber(0.01), Quantile([0.2])], ids=repr)
@pytest.mark.parametrize("width", [0.5, 5.0])
def test_smoothed_slopes_are_those_of_the_loss_averaged_near_by(loss, width):
    values, target = np.linspace(-2.0, 2.0, 9) * width, np.zeros((9, 1))
    batch = Batch(np.zeros((9, 1)), target, np.ones(9))
    slopes = SmoothedSlopes(Pointwise(loss), batch, width)(values[:, None])[:, 0] * 9

    def mean_slope(value):
        near = value + np.linspace(-width, width, 20_001)[:, None]
        return loss.derivative(np.zeros_like(near), near).mean()

    # Five places within the width: off by half the jump between two of them.
    assert_allclose(slopes, [mean_slope(value) for value in values], atol=0.21)
    assert_allclose(slopes[[0, -1]], [mean_slope(values[0]), mean_slope(values[-1])], atol=1e-9)


# -- what they lead to ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [1e-2, 1e-5])
def test_fit_comes_within_a_hundredth_of_the_minimum(loss, ridge):
    X, y, _ = curve(300)
    kernel = Laplacian(0.5)
    model = KernelRegressor(loss, kernel=kernel, expansion=Dictionary(25, ridge=ridge)).fit(X, y)
    K, K_DD = kernel(X, model.dictionary_), kernel(model.dictionary_)
    n_outputs = model.coefficients_.shape[1]
    least = least_objective(loss, y[:, None], K, K_DD, ridge, n_outputs)
    reached, _ = objective_of(loss, y[:, None], K, K_DD, ridge, model.coefficients_)
    assert reached < 1.01 * least


@pytest.mark.parametrize("level", [0.1, 0.5, 0.95])
def test_quantiles_are_as_good_as_linear_programming_finds_them(level):
    X, y, _ = curve(400)
    kernel = Gaussian(0.7)
    expansion = Dictionary(12, ridge=1e-9)
    model = KernelRegressor(Quantile([level]), kernel=kernel, expansion=expansion).fit(X, y)
    K = kernel(X, model.dictionary_)
    exact = QuantileRegressor(quantile=level, alpha=0.0, fit_intercept=False).fit(K, y)

    def pinball(predicted):
        return np.mean(np.maximum(level * (y - predicted), (level - 1.0) * (y - predicted)))

    assert pinball(model.predict(X).ravel()) < 1.01 * pinball(exact.predict(K))


@pytest.mark.parametrize("unit", [1.0, 1e5])
def test_deciles_of_noise_that_grows_are_found_and_cover(unit, careful_race):
    X, y, deciles = curve(1000)
    model = KernelRegressor(Quantile([0.1, 0.5, 0.9]), random_state=0).fit(X, unit * y)
    predicted = model.predict(X) / unit
    # Each is told by 250 rows.
    assert np.abs(predicted - deciles).mean() < 0.1
    rows, targets, _ = curve(4000, seed=1)
    below = (unit * targets[:, None] < model.predict(rows)).mean(axis=0)
    # Three standard errors of a share of 4,000, and as much for the fit.
    assert_allclose(below, [0.1, 0.5, 0.9], atol=0.04)


def test_more_rows_than_are_descended_on_are_all_learned(monkeypatch):
    X, y, deciles = curve(4000)
    expansion = Dictionary(30, first_rows=300, ridge=1e-4)
    model = KernelRegressor(
        Quantile([0.1, 0.5, 0.9]), kernel=Gaussian(0.5), expansion=expansion, random_state=0
    )
    whole = model.fit(X, y).predict(X)
    few = model.fit(X[:300], y[:300]).predict(X)
    monkeypatch.setattr("mercer.learning.sums._FEATURE_BYTES", 8 * 30 * 300)
    partly = model.fit(X, y).predict(X)
    errors = [np.abs(predicted - deciles).mean() for predicted in (whole, partly, few)]
    assert errors[0] < 0.06
    assert errors[1] < 1.3 * errors[0] < 0.8 * errors[2]


def test_streams_come_close_to_fit(monkeypatch):
    monkeypatch.setattr(DictionaryFunction, "settings", RaceSettings(small=400))
    X, y, deciles = curve(6000)
    stream = KernelRegressor(Quantile([0.1, 0.5, 0.9]), expansion=Dictionary(50, first_rows=500))
    for start in range(0, 6000, 250):
        stream.partial_fit(X[start : start + 250], y[start : start + 250])
    assert np.abs(stream.predict(X) - deciles).mean() < 0.05


# -- the default ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "absolute_error", "squared"])
def test_gross_outliers_do_not_matter_to_robust_losses(loss, careful_race):
    X, y, _ = friedman(400, outliers=0.1)
    rows, _, clean = friedman(400, seed=1)
    model = KernelRegressor(loss, random_state=0).fit(X, y)
    error = np.abs(model.predict(rows) - clean).mean()
    assert error > 2.4 if loss == "squared" else error < 1.2


@pytest.mark.parametrize("params", [{"loss": "absolute_error"}, {"loss": "squared"}], ids=str)
def test_units_of_the_inputs_do_not_matter(params):
    X, y, _ = friedman(400)
    # Powers of two, which round nothing: choices that are as good as tied are the same ones. Of
    # columns of one unit one scale for all would race, too.
    units = 2.0 ** np.arange(-12, 18, 3)
    rows, others = X * units, X * units[::-1]
    model = KernelRegressor(**params, random_state=0).fit(rows, y)
    other = KernelRegressor(**params, random_state=0).fit(others, y)
    assert model.score(rows, y) > 0.9
    assert_allclose(other.predict(others), model.predict(rows), atol=1e-6)  # of targets up to 25


@pytest.mark.parametrize("loss", ["huber", "poisson", Quantile([0.2, 0.8])], ids=str)
def test_the_race_chooses_the_kernel_and_files_and_streams_go_on_with_it(
    loss, whole_race, tmp_path
):
    X, y, _ = friedman(240)
    y = (0.1 * y).round()
    model = KernelRegressor(loss, random_state=0)
    model.partial_fit(X[:150], y[:150])
    model.predict(X)
    assert {entry["form"] for entry in model.race_} == {"global"}
    assert "Affine" in repr(model.kernel_)
    (chosen,) = (entry for entry in race_table(model) if entry["chosen"])
    assert chosen["error"] == min(entry["error"] for entry in model.race_)
    (part,) = parts_table(model)
    assert (part["metric"], part["points"]) == (chosen["metric"], model.model_order_)
    model.save(tmp_path / "model.mercer")
    others = [load_model(tmp_path / "model.mercer"), pickle.loads(pickle.dumps(model))]
    before = model.predict(X)
    for other in others:
        assert_array_equal(other.predict(X), before)
        assert other.race_ == model.race_
        assert repr(other.kernel_) == repr(model.kernel_)
    for each in (model, *others):
        each.partial_fit(X[150:], y[150:])
    for other in others:
        assert_array_equal(other.predict(X), model.predict(X))
    whole = KernelRegressor(loss, random_state=0).partial_fit(X, y)
    assert_array_equal(whole.predict(X), model.predict(X))  # whenever somebody asked


def test_a_kernel_and_a_ridge_that_are_given_are_used():
    X, y, _ = friedman(200)
    model = KernelRegressor("huber", kernel=Gaussian(0.7), regularization=1e-2).fit(X, y)
    assert model.kernel_ == Gaussian(0.7)
    assert model.learner_.function.ridge == pytest.approx(1e-2)
    with pytest.raises(AttributeError, match="no race"):
        _ = model.race_
    free = KernelRegressor("huber", kernel=Gaussian(0.7)).fit(X, y)
    assert free.score(X, y) > model.score(X, y)


@pytest.mark.parametrize(("n", "size"), [(100, 1000), (9000, 1125), (40_000, 2000), (None, 1000)])
def test_automatic_sizes_go_by_the_rows(n, size):
    assert Dictionary("auto").sized(n, 1).size == size
    assert Dictionary(7).sized(n, 1).size == 7


# -- steps that pass through zero -----------------------------------------------------------------


def test_a_function_that_passes_through_zero_is_learning(recwarn):
    rows = np.sort(np.random.default_rng(84).uniform(0.0, 10.0, size=(900, 1)), axis=0)
    parameters = {"kernel": "linear", "expansion": KOMP(max_size=1000), "random_state": 84}
    model = KernelRegressor("absolute_error", **parameters).fit(rows, rows[:, 0])
    assert model.history_.model_order.max() == 1
    assert model.model_order_ == 0  # it is 0 when the last row was learned
    assert not [w for w in recwarn if issubclass(w.category, NothingLearnedWarning)]


# -- rows and settings that are not the usual ones ------------------------------------------------


@pytest.mark.parametrize("loss", [AbsoluteError(), Huber(0.5), Quantile([0.5])], ids=repr)
def test_targets_with_a_long_tail_are_learned_in_the_tail_too(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.exp(1.5 * X[:, 0] + 0.05 * rng.normal(size=400))
    predicted = KernelRegressor(loss, random_state=0).fit(X, y).predict(X).ravel()
    largest = np.argsort(y)[-10:]
    assert_allclose(predicted[largest], y[largest], rtol=0.3)


@pytest.mark.parametrize("params", [{"loss": "huber"}, {"loss": Quantile([0.5])}], ids=str)
def test_rows_without_weight_leave_no_trace(params):
    X, y, _ = friedman(300)
    weights = np.ones(300)
    weights[::3] = 0.0
    y = 1000.0 + y
    spoilt = np.where(weights > 0.0, y, 0.0)
    model = KernelRegressor(**params, shuffle=False, random_state=0)
    predicted = model.fit(X, spoilt, sample_weight=weights).predict(X).ravel()
    assert np.abs(predicted - y)[weights > 0.0].mean() < 1.0
    model = KernelRegressor(**params).partial_fit(X[:30], y[:30], sample_weight=np.zeros(30))
    assert_array_equal(model.predict(X), 0.0 * model.predict(X))
    model.partial_fit(X, y)
    assert np.abs(model.predict(X).ravel() - y).mean() < 1.0


@pytest.mark.parametrize("forgetting", [0.9, 0.99])
def test_streams_that_forget_do_not_descend(forgetting):
    X, y, _ = curve(600)
    expansion = Dictionary(50, forgetting=forgetting)
    model = KernelRegressor("huber", kernel=Gaussian(0.5), expansion=expansion).partial_fit(X, y)
    assert model.score(X, y) > 0.4


def test_a_step_size_that_is_given_is_used_and_checked():
    X, y, _ = curve(300)
    asked = []

    def schedule(t):
        asked.append(t)
        return 0.5

    parameters = {"loss": "huber", "kernel": Gaussian(0.5), "expansion": Dictionary(30)}
    KernelRegressor(**parameters, step_size=schedule).fit(X, y)
    assert min(asked) == 1
    with pytest.raises(ValueError, match="above 0 and at most 2"):
        KernelRegressor(**parameters, step_size=5.0).fit(X, y)


def test_rows_that_memory_is_not_for_are_learned_by_streams_too(monkeypatch):
    monkeypatch.setattr("mercer.learning.sums._FEATURE_BYTES", 8 * 30 * 300)
    X, y, deciles = curve(3000)
    expansion = Dictionary(30, first_rows=3000, ridge=1e-4)
    model = KernelRegressor(Quantile([0.1, 0.5, 0.9]), kernel=Gaussian(0.5), expansion=expansion)
    assert np.abs(model.partial_fit(X, y).predict(X) - deciles).mean() < 0.08


def test_parameters_set_on_the_way_do_not_change_the_race_of_a_file(tmp_path):
    X, y, _ = friedman(120)
    model = KernelRegressor("huber", random_state=0).partial_fit(X[:60], y[:60])
    model.set_params(expansion="komp")
    model.save(tmp_path / "model.mercer")
    other = load_model(tmp_path / "model.mercer")
    for each in (model, other):
        each.partial_fit(X[60:], y[60:])
    assert_array_equal(other.predict(X), model.predict(X))


# -- features that are coarse, weights, very many columns -----------------------------------------


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
@pytest.mark.parametrize(
    "expansion", [RandomFeatures(256, mode="solve"), Dictionary(256, precision="single")]
)
def test_whole_steps_do_not_diverge_on_features_in_single_precision(loss, expansion):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    clean = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    model = KernelRegressor(loss, kernel=Gaussian(2.0), expansion=expansion, random_state=0)
    model.fit(X, clean + 0.1 * rng.standard_normal(2000))
    # Whole steps on sums in float32 ended at 1e4 and beyond.
    assert np.abs(model.predict(X) - clean).mean() < 0.1


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "poisson", "squared"])
@pytest.mark.parametrize("stream", [False, True])
def test_rows_of_weight_0_leave_no_trace(loss, stream):
    X, y, _ = curve(900)
    y = 100.0 * np.abs(y)
    weights = np.repeat([0.0, 1.0, 0.0], 300)  # a few rows that count, after some that do not
    weights[450:] = np.where(np.arange(450) % 3, 0.0, 2.0)
    kept = weights > 0.0

    def learned(X, y, weights):
        model = KernelRegressor(
            loss, kernel=Gaussian(0.7), expansion=Dictionary(50), shuffle=False, random_state=0
        )
        if not stream:
            return model.fit(X, y, sample_weight=weights)
        for start in range(0, len(y), 100):
            part = slice(start, start + 100)
            model.partial_fit(X[part], y[part], sample_weight=weights[part])
        return model

    with_zeros, without = learned(X, y, weights), learned(X[kept], y[kept], weights[kept])
    assert_allclose(with_zeros.predict(X), without.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "poisson", "squared"])
def test_the_unit_of_the_weights_does_not_matter(loss):
    X, y, _ = curve(600)
    y = np.exp(y) if loss == "poisson" else y
    models = [
        KernelRegressor(
            loss, kernel=Gaussian(0.7), expansion=Dictionary(40, ridge=1e-3), random_state=0
        ).fit(X, y, sample_weight=np.full(600, weight))
        for weight in (1.0, 0.01, 64.0)
    ]
    for model in models[1:]:
        assert_allclose(model.predict(X), models[0].predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
def test_rows_that_hardly_count_do_not_set_the_width(loss):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (2000, 1))
    clean = np.sin(2.0 * X[:, 0])
    spread = rng.choice([3000.0, 3000.0, 0.1], 2000)  # most rows are noise, and known to be
    y = clean + spread * rng.standard_normal(2000)
    model = KernelRegressor(
        loss, kernel=Gaussian(0.7), expansion=Dictionary(40), random_state=0
    ).fit(X, y, sample_weight=0.1 / spread)
    assert np.abs(model.predict(X) - clean).mean() < 0.1


def test_rows_of_very_many_columns_get_the_passes_that_they_need(monkeypatch):
    X, y, _ = curve(1200)

    def visits():
        model = KernelRegressor(
            Huber(0.1), kernel=Gaussian(0.7), expansion=Dictionary(40), random_state=0
        ).fit(X, y)
        return model.history_.n_samples[-1]

    assert visits() == 1200  # whole steps on all rows
    monkeypatch.setattr(sums, "_FIRST_BYTES", 8 * 500)
    assert visits() > 10 * 1200


def test_a_stream_with_a_new_class_can_be_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = KernelClassifier(random_state=0)
    two = np.flatnonzero(y < 2)[:200]
    model.partial_fit(X[two], y[two])
    model.predict(X[:1])
    model.partial_fit(X[200:], y[200:])
    model.save(tmp_path / "model")
    assert_array_equal(
        load_model(tmp_path / "model").decision_function(X), model.decision_function(X)
    )
