"""What a loss adds to least squares: quantiles, robust losses, counts and risks of the default."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.linear_model import QuantileRegressor

from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.default import DefaultLearner
from mercer.default.targets import limits_of
from mercer.expansions import Auto
from mercer.kernels import Gaussian
from mercer.losses import (
    AbsoluteError,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    loss_and_slopes,
)
from mercer.risks import (
    CVaR,
    Entropic,
    Mean,
    Semivariance,
    Tracker,
    UpperSemideviation,
    risk_of_rows,
)
from mercer.sums import Correction, Rows
from quick import QUICK, QUICK_CORRECTION, QUICKEST

pytestmark = pytest.mark.usefixtures("quickest_race")


def spread(n, seed=0):
    """Rows, means at them, targets whose noise grows with the mean, and the size of the noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    mean = 3.0 * X[:, 0] + np.sin(3.0 * X[:, 1])
    size = 0.1 + 0.2 * np.maximum(mean + 1.0, 0.0)
    return X, mean, mean + size * rng.standard_normal(n), size


def rows_of(X, y, weights=None):
    return Rows(X, y.reshape(len(X), -1), np.ones(len(X)) if weights is None else weights)


def pinball(level, predicted, y):
    return np.mean(np.maximum(level * (y - predicted), (level - 1.0) * (y - predicted)))


# -- the correction by itself ---------------------------------------------------------------------


def test_few_rows_tell_a_number_which_is_the_median():
    y = np.array([0.0, 1.0, 2.0, 7.0, 100.0])
    found = Correction.fitted(rows_of(np.zeros((5, 1)), y), np.zeros((5, 1)), AbsoluteError(), 1)
    assert_allclose(found(np.zeros((3, 1)), np.zeros((3, 1))), 2.0, atol=0.1)  # of a width of .1


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_some_rows_tell_a_line_as_linear_programming_finds_it(level):
    X, mean, y, _ = spread(50)
    found = Correction.fitted(rows_of(X, y), mean[:, None], Quantile([level]), 1)
    exact = QuantileRegressor(quantile=level, alpha=0.0).fit(mean[:, None], y)
    mine = found(X, mean[:, None]).ravel()
    assert pinball(level, mine, y) < 1.02 * pinball(level, exact.predict(mean[:, None]), y)


@pytest.mark.parametrize("kernel", [None, Gaussian(1.0)], ids=str)
def test_quantiles_of_noise_that_grows_with_the_mean_are_found(kernel):
    X, mean, y, size = spread(4000)
    levels = [0.1, 0.5, 0.9]
    loss = Quantile(levels)
    found = Correction.fitted(rows_of(X, y), mean[:, None], loss, 3, unit=0.5, kernel=kernel)
    rows, at, targets, size = spread(4000, seed=1)
    deciles = at[:, None] + size[:, None] * np.array([-1.2816, 0.0, 1.2816])
    assert np.abs(found(rows, at[:, None]) - deciles).mean() < 0.06
    below = (targets[:, None] < found(rows, at[:, None])).mean(axis=0)
    assert_allclose(below, levels, atol=0.03)  # three standard errors of 4,000, and of the fit


def test_rates_add_up_to_the_counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1000, 1))
    y = rng.poisson(np.exp(X[:, 0]))
    start = 0.5 * X  # too flat, and without the shift
    found = Correction.fitted(rows_of(X, y.astype(float)), start, Poisson(), 1)
    rates = np.exp(found(X, start)).ravel()
    assert rates.sum() == pytest.approx(y.sum(), rel=1e-3)  # the line has no ridge
    assert np.corrcoef(np.log(rates), X[:, 0])[0, 1] > 0.97


def test_each_of_several_targets_is_a_problem_of_its_own():
    X, mean, y, _ = spread(500)
    values, targets = np.column_stack([mean, mean]), np.column_stack([y, 1e3 * y])
    start = values * [1.0, 1e3]
    both = Correction.fitted(rows_of(X, targets), start, Huber(0.1), 2, unit=np.array([0.3, 300.0]))
    assert both(X, start).shape == (500, 2)
    assert np.abs(both(X, start) - start)[:, 0].max() > 0.01
    for column, unit in ((0, 0.3), (1, 300.0)):
        # Its line has the values of the other, too, which are the same in their deviations.
        lone = rows_of(X, targets[:, column])
        alone = Correction.fitted(lone, start[:, [column]], Huber(0.1), 1, unit=unit)
        mine, its = both(X, start)[:, [column]], alone(X, start[:, [column]])
        assert np.abs(mine - its).max() < 0.1 * unit


def test_weights_are_worth_rows():
    X, mean, y, _ = spread(50)  # a line, without points and halves
    weights = np.where(y > mean, 9, 1)
    weighted = Correction.fitted(
        rows_of(X, y, weights.astype(float)), mean[:, None], Quantile([0.5]), 1, unit=0.5
    )
    again = np.repeat(np.arange(50), weights)
    exact = QuantileRegressor(quantile=0.5, alpha=0.0).fit(mean[again, None], y[again])
    mine = weighted(X[again], mean[again, None]).ravel()
    best = pinball(0.5, exact.predict(mean[again, None]), y[again])
    assert pinball(0.5, mine, y[again]) < 1.02 * best
    unweighted = Correction.fitted(rows_of(X, y), mean[:, None], Quantile([0.5]), 1, unit=0.5)
    plain = unweighted(X[again], mean[again, None]).ravel()
    assert pinball(0.5, plain, y[again]) > 1.1 * best


@pytest.mark.parametrize("n", [30, 60, 150, 400])
def test_noise_alone_is_covered(n, quick):
    covers = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
        low, high = KernelRegressor(Quantile([0.1, 0.9])).fit(X, y).predict(X[:, ::-1]).T
        new = np.random.default_rng(99).normal(size=n)
        covers.append(np.mean((low <= new) & (new <= high)))
    # Binomial errors of 3 n rows, and those of the fits, whose bands of few rows are too narrow.
    assert 0.55 < np.mean(covers) < 0.95


def test_what_is_left_out_does_not_turn_a_line_round():
    # The fit of a constant to all others: the higher a target the lower.
    y = np.random.default_rng(0).normal(size=100)
    left_out = ((y.sum() - y) / 99.0)[:, None]
    found = Correction.fitted(
        rows_of(np.zeros((100, 1)), y), left_out, AbsoluteError(), 1, unit=0.8
    )
    predicted = found(np.zeros((3, 1)), np.array([[-1.0], [0.0], [1.0]])).ravel()
    assert (np.diff(predicted) >= -1e-9).all()


RISKS = [
    None,
    Mean(),
    CVaR(0.8),
    Entropic(),
    UpperSemideviation(),
    Semivariance(),
    0.5 * CVaR(0.8) + 0.5 * Mean(),
]


@pytest.mark.parametrize("risk", RISKS, ids=str)
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_slopes_of_a_risk_are_its_derivatives(risk, loss):
    rng = np.random.default_rng(0)
    targets = (
        rng.normal(size=(20, 1)) if loss.task == "regression" else rng.choice([-1.0, 1], (20, 1))
    )
    share = rng.dirichlet(np.ones(20))
    scalars = np.empty(0) if risk is None else 0.9 * np.ones(risk.n_scalars)

    def at(flat):
        values = flat[:20].reshape(20, 1)
        found = loss_and_slopes(loss, values, targets)
        return risk_of_rows(risk, targets, values, *found, share, flat[20:], 1.0)

    where = np.append(rng.normal(size=20), scalars)
    error = check_grad(
        lambda flat: at(flat).value,
        lambda flat: np.append(at(flat).slopes, at(flat).by_scalars),
        where,
    )
    assert error < 1e-5


def test_a_cvar_settles_on_the_quantile_of_the_losses():
    X, mean, y, _ = spread(2000)
    rows = rows_of(X, y)
    found = Correction.fitted(rows, mean[:, None], Squared(), 1, risk=CVaR(0.9), unit=0.5)
    losses = 0.5 * (found(X, mean[:, None])[:, 0] - y) ** 2
    assert (losses > found.scalars[0]).mean() == pytest.approx(0.1, abs=0.02)


# -- targets far out ------------------------------------------------------------------------------


def test_targets_that_are_wrong_are_drawn_near_and_rare_ones_are_not():
    X, _, y, _ = spread(300)
    rng = np.random.default_rng(1)
    wrong = rng.random(300) < 0.1
    spoilt = np.where(wrong, 50.0 * rng.standard_normal(300), y)
    limits = limits_of(rows_of(X, spoilt))
    assert limits is not None
    near = limits(rows_of(X, spoilt)).targets.ravel()
    assert np.abs(near[wrong] - y[wrong]).mean() < 0.1 * np.abs(spoilt - y)[wrong].mean()
    assert (near[~wrong] == y[~wrong]).mean() > 0.9
    skewed = np.exp(1.5 * y)  # right, and the rarer the larger
    assert limits_of(rows_of(X, skewed)) is None


@pytest.mark.parametrize("loss", [Huber(0.1), AbsoluteError()], ids=str)
def test_outliers_hardly_move_a_robust_default(loss, quick):
    X, mean, _, _ = spread(420)
    rng = np.random.default_rng(2)
    y = mean + 0.1 * rng.standard_normal(420)
    wrong = rng.random(420) < 0.15
    y[wrong] += 100.0 * rng.random(wrong.sum())
    rows, at, _, _ = spread(500, seed=1)
    robust, plain = (
        np.abs(KernelRegressor(each, random_state=0).fit(X, y).predict(rows) - at).mean()
        for each in (loss, "squared")
    )
    assert robust < 0.15 < 0.1 * plain


# -- the default ----------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", QUICKEST._replace(first_rows=600, waiting=150))
    for name, value in QUICK_CORRECTION.items():
        monkeypatch.setattr(f"mercer.sums.correction.{name}", value)


LOSSES = {"quantiles": Quantile([0.2, 0.8]), "huber": Huber(0.3), "poisson": Poisson()}


@pytest.mark.parametrize("name", LOSSES)
def test_streams_go_on_from_files_through_all_stages(name, quick, tmp_path, monkeypatch):
    X, _, y, _ = spread(450)
    y = np.round(np.exp(0.5 * y)) if name == "poisson" else y
    race = QUICK.race._replace(small=200, cells_rows=300)
    settings = QUICK._replace(race=race, first_rows=300, waiting=75)
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    model = KernelRegressor(LOSSES[name], random_state=0)
    for start, stop in ((0, 70), (70, 175), (175, 340), (340, 450)):
        model.partial_fit(X[start:stop], y[start:stop])
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert_array_equal(loaded.predict(X), model.predict(X))
        model = loaded
    whole = KernelRegressor(LOSSES[name], random_state=0).partial_fit(X, y)
    # Whenever somebody asked: the last bits of sums differ then, which a descent makes more of.
    assert_allclose(whole.predict(X), model.predict(X), rtol=0.01, atol=0.01)
    assert len(model.parts_) > 1


@pytest.mark.parametrize("n", [60, 700])
def test_a_batch_that_is_refused_leaves_the_model_as_it_was(n, quick):
    X, _, y, _ = spread(n)
    model = KernelRegressor(Quantile([0.2, 0.8]), random_state=0).partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="inputs reach"):
        model.partial_fit(np.full((1, 2), 1e200), [0.0])
    assert_array_equal(model.predict(X), before)


def test_quantiles_cover_rows_of_their_own_and_use_all_parts(quick):
    X, _, y, size = spread(1200)
    model = KernelRegressor(Quantile([0.1, 0.9]), random_state=0).fit(X, y)
    rows, _, targets, size = spread(3000, seed=1)
    low, high = model.predict(rows).T
    assert ((low <= targets) & (targets <= high)).mean() == pytest.approx(0.8, abs=0.06)
    assert np.corrcoef(high - low, size)[0, 1] > 0.8
    assert len(model.parts_) > 1


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e30])
@pytest.mark.parametrize("parameters", [{"loss": "huber"}, {"risk": "cvar:0.9"}], ids=str)
def test_targets_of_any_unit_are_learned(unit, parameters, quick):
    X, _, y, _ = spread(80)
    predicted = KernelRegressor(**parameters).fit(X, unit * y).predict(X) / unit
    assert np.isfinite(predicted).all()
    assert np.abs(predicted).max() < 3.0 * np.abs(y).max()


def test_constant_targets_have_constant_quantiles(quick):
    X = spread(100)[0]
    for constant in (0.0, 3.0):
        predicted = KernelRegressor(Quantile([0.1, 0.9])).fit(X, np.full(100, constant)).predict(X)
        assert_allclose(predicted, constant, atol=1e-6)


def test_a_robust_stream_follows_a_drift(quick):
    X, _, y, _ = spread(4000)
    y = y + np.where(np.arange(4000) > 1200, 30.0 + 20.0 * (X[:, 1] > 0), 0.0)
    model = KernelRegressor("absolute_error", expansion=Auto(forgetting=0.998), random_state=0)
    for start in range(0, 3000, 500):
        model.partial_fit(X[start : start + 500], y[start : start + 500])
    assert np.abs(model.predict(X[3000:]) - y[3000:]).mean() < 3.0


def test_sparse_rows_and_single_precision_predict_the_same(quick):
    from scipy import sparse

    X, _, y, _ = spread(200)
    model = KernelRegressor("absolute_error", random_state=0).fit(X, y)
    assert_allclose(model.predict(sparse.csr_matrix(X)), model.predict(X))
    single = KernelRegressor("absolute_error", random_state=0).fit(X.astype(np.float32), y)
    assert np.abs(single.predict(X.astype(np.float32)) - model.predict(X)).mean() < 0.05


# -- risks ----------------------------------------------------------------------------------------


def tail(losses, share=0.1):
    return np.sort(losses)[-round(share * len(losses)) :].mean()


def skewed(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + (0.2 + 0.5 * (X[:, 1] > 0)) * rng.exponential(size=n)


@cache
def worst_losses(risk):
    """The tail of losses of new rows; all that ask for it learn by the same settings."""
    X, y = skewed(1000)
    rows, targets = skewed(4000, seed=1)
    params = {} if risk is None else {"risk": risk, "expansion": Auto()}
    model = KernelRegressor(random_state=0, **params).fit(X, y)
    return tail(0.5 * (model.predict(rows) - targets) ** 2)


@pytest.mark.parametrize("risk", ["cvar:0.9", "entropic", "semivariance"])
def test_a_risk_of_the_default_lowers_the_tail(risk, quick):
    assert worst_losses(risk) < 0.95 * worst_losses(None)


def test_a_risk_of_classes_bounds_their_worst_losses(quick):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=1500) > 0).astype(int) ^ (rng.random(1500) < 0.1)

    def worst(**params):
        model = KernelClassifier(random_state=0, **params).fit(X[:900], y[:900])
        probabilities = model.predict_proba(X[900:])[np.arange(600), y[900:]]
        return model, tail(-np.log(probabilities))

    _, plain = worst()
    model, averse = worst(risk="cvar:0.9", expansion=Auto())
    assert averse < 0.8 * plain
    assert model.value_at_risk_ > 0.0
    assert model.score(X[900:], y[900:]) > 0.75


def test_a_risk_goes_on_from_its_file(quick, tmp_path):
    X, y = skewed(600)
    model = KernelRegressor(risk="cvar:0.9", expansion=Auto(), random_state=0)
    model.partial_fit(X[:350], y[:350]).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for each in (model, loaded):
        each.partial_fit(X[350:], y[350:])
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.value_at_risk_ == model.value_at_risk_


def test_classes_may_come_later_under_a_risk(quick, whole_race, tmp_path):
    rng = np.random.default_rng(4)  # of 8 draws the scores are .84 to 1
    X = rng.normal(size=(240, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = KernelClassifier(risk="cvar:0.8", random_state=0)
    model.partial_fit(X[:100], np.minimum(y[:100], 1)).predict(X)
    model.partial_fit(X[100:], y[100:]).save(tmp_path / "model")  # before anybody asks
    assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))
    assert model.predict_proba(X).shape == (240, 3)
    assert model.score(X[100:], y[100:]) > 0.9


@pytest.mark.parametrize("n", [300, 700])
def test_a_class_that_is_refused_under_a_risk_is_forgotten(n, quick):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    model = KernelClassifier(risk="cvar:0.8", random_state=0).partial_fit(X, X[:, 0] > 0)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inputs reach"):
        model.partial_fit(np.full((2, 2), 1e200), [1, 2])
    assert_array_equal(model.predict_proba(X), before)
    model.partial_fit(X, X[:, 0] > 0)
    assert model.score(X, X[:, 0] > 0) > 0.9


def test_the_history_has_the_risk_of_rows_held_out(quick):
    X, y = skewed(800)
    model = KernelRegressor(risk="cvar:0.9", random_state=0).fit(X, y)
    assert model.history_.loss[-1] > model.history_.monitors["value_at_risk"][-1] > 0.0


def test_trackers_of_steps_are_refused_where_there_are_none():
    X, y = skewed(60)
    nasa = Semivariance(tracker=Tracker("nasa"))
    with pytest.raises(ValueError, match=r"Tracker\('nasa'\) averages directions of steps"):
        KernelRegressor(risk=nasa, expansion=Auto()).fit(X, y)
