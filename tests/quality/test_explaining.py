"""What columns add to predictions, which of them matter, and how predictions depend on them."""

import copy
import io
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    load_model,
)
from mercer.estimators.kept_rows import evenly
from mercer.expansions import KOMP, Auto, Budget, Dictionary, Full, RandomFeatures, Stream
from mercer.losses import Quantile
from mercer.numerics.attribution import shapley_values, total_effects
from oracles_explaining import mixed, shapley_by_orders, total_effects_by_hand

pytestmark = pytest.mark.usefixtures(
    "quickest_race", "few_evaluations", "quick_correction", "few_steps"
)

N, D = 400, 5


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def all_evaluations(monkeypatch):
    """Ask functions as often as usual: for what is as accurate as that."""
    monkeypatch.setattr("mercer.answers.explain._EVALUATIONS", 2**15)


def attributed(f, rows, background, owners, n_columns, n_walks=1, seed=0, output=0):
    outputs = np.full(len(rows), output)
    generator = np.random.default_rng(seed)
    return shapley_values(f, rows, background, owners, n_columns, outputs, n_walks, generator)


# -- the values by their definition -----------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_enumeration_is_the_mean_over_all_orders(data):
    n_columns = data.draw(st.integers(1, 4))
    owners = data.draw(arrays(int, st.integers(1, 6), elements=st.integers(0, n_columns - 1)))
    cells = st.integers(-2, 2).map(float)
    row = data.draw(arrays(float, owners.size, elements=cells))
    background = data.draw(arrays(float, (3, owners.size), elements=cells))
    slopes = data.draw(arrays(float, owners.size, elements=cells))

    def f(x):
        return float(np.sin(x @ slopes) + np.prod(x))

    def values(X):
        return np.array([[f(x)] for x in X])

    found = attributed(values, row[None], background, owners, n_columns, n_walks=50)
    expected = shapley_by_orders(f, row, background, owners, n_columns)
    assert_allclose(found.contributions[0], expected, atol=1e-9)
    assert_array_equal(found.standard_errors, 0.0)
    none = np.setdiff1d(np.arange(n_columns), owners)
    assert_array_equal(found.contributions[0, none], 0.0)


def test_single_walks_are_exact_where_columns_act_alone_and_in_twos(rng):
    rows, background = rng.normal(size=(2, 12)), rng.normal(size=(4, 12))
    pairs = rng.normal(size=(12, 12))

    def f(x):
        return float(np.sin(x).sum() + x @ pairs @ x + np.tanh(x[0] * x[1]))

    found = attributed(lambda X: np.array([[f(x)] for x in X]), rows, background, np.arange(12), 12)
    for row, contributions in zip(rows, found.contributions, strict=True):
        for one in range(12):  # of a function of twos: alone, and half of what others change
            first = [f(mixed(row, b, np.arange(12), {one})) - f(b) for b in background]
            rest = set(range(12)) - {one}
            last = [f(row) - f(mixed(row, b, np.arange(12), rest)) for b in background]
            assert_allclose(contributions[one], np.mean(np.add(first, last)) / 2, atol=1e-9)


def test_walks_come_close_to_all_orders_and_know_how_close(rng):
    n = 8
    rows, background = rng.normal(size=(1, n)), rng.normal(size=(6, n))

    def values(X):
        return np.prod(np.cos(X), axis=1, keepdims=True) + np.exp(X[:, :3].sum(axis=1))[:, None]

    exact = attributed(values, rows, background, np.arange(n), n, n_walks=200)
    assert_array_equal(exact.standard_errors, 0.0)
    off = []
    for seed in range(20):
        found = attributed(values, rows, background, np.arange(n), n, n_walks=4, seed=seed)
        assert_allclose(found.contributions.sum(), exact.contributions.sum(), atol=1e-9)
        off.append((found.contributions - exact.contributions)[0] / found.standard_errors[0])
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 2.0


def test_baseline_and_contributions_make_the_prediction_whatever_is_drawn(rng):
    rows, background = rng.normal(size=(3, 20)), rng.normal(size=(7, 20))
    background[:, 3] = rows[0, 3]
    owners = rng.integers(0, 15, size=20)
    seen = []

    def values(X):
        seen.append(len(X))
        return np.column_stack([np.sin(X.sum(axis=1)), np.prod(X, axis=1)])

    found = attributed(values, rows, background, owners, 15, output=1)
    assert_array_equal(found.predictions, values(rows)[:, 1])
    assert_array_equal(found.baselines, values(background)[:, 1].mean())
    total = found.baselines + found.contributions.sum(axis=1)
    assert_allclose(total, found.predictions, atol=1e-12)


def test_a_column_that_is_the_same_in_all_rows_adds_nothing_and_costs_nothing(rng):
    row, background = rng.normal(size=(1, 10)), rng.normal(size=(5, 10))
    background[:, 2:] = row[0, 2:]
    seen = []

    def values(X):
        seen.append(len(X))
        return X.sum(axis=1, keepdims=True) ** 2

    found = attributed(values, row, background, np.arange(10), 10)
    assert_array_equal(found.contributions[0, 2:], 0.0)
    assert sum(seen) == 1 + 5 + 2 * 5  # the row, the others, and two subsets of each


def test_gaps_count_as_values(rng):
    row, background = np.array([[np.nan, 1.0]]), np.array([[np.nan, 0.0], [2.0, 0.0]])

    def values(X):
        return np.nan_to_num(X, nan=-1.0).sum(axis=1, keepdims=True)

    found = attributed(values, row, background, np.arange(2), 2)
    assert_allclose(found.contributions, [[-1.5, 1.0]])


def test_total_effects_of_all_pairs_are_half_the_mean_squares(rng):
    rows, owners = rng.normal(size=(9, 4)).round(), np.array([2, 0, 0, 3])

    def f(x):
        return float(x[0] * x[1] + x[2])

    found = total_effects(lambda X: np.array([[f(x)] for x in X]), rows, owners, 4, 10**6)
    assert_allclose(found.effects, total_effects_by_hand(f, rows, owners, 4), atol=1e-12)
    assert found.effects[1] == found.effects[3] == 0.0
    assert found.standard_errors[1] == found.standard_errors[3] == 0.0


def test_total_effects_of_known_functions_are_as_far_off_as_they_say():
    off, known = [], np.array([1.0, 1.0, 4.0, 0.0])
    for seed in range(30):
        rows = np.random.default_rng(seed).normal(size=(300, 4))
        found = total_effects(
            lambda X: X[:, :1] * X[:, 1:2] + 2.0 * X[:, 2:3], rows, np.arange(4), 4, 5000
        )
        assert found.standard_errors[3] == 0.0
        off.append((found.effects - known)[:3] / found.standard_errors[:3])
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.6


def test_columns_that_are_known_well_enough_take_no_more_time(rng):
    rows, seen = rng.normal(size=(200, 50)), []

    def values(X):
        seen.append(len(X))
        return X @ np.r_[np.full(3, 5.0), np.full(47, 0.1)][:, None]

    found = total_effects(values, rows, np.arange(50), 50, 12_000, 0.02)
    assert sum(seen) < 12_000 + 5 * 200  # and the rest of a round
    assert found.standard_errors.max() < 0.1 * found.effects.max()
    seen.clear()
    total_effects(values, rows, np.arange(50), 50, 12_000, 1.0)
    assert sum(seen) < 7_500  # half of them, and the rest of a round


@pytest.mark.parametrize("n_columns", [60, 200])
def test_columns_that_are_known_worst_get_most_pairs(n_columns):
    """Where none is known well enough: changes are now and then large, and columns many."""
    rows = np.random.default_rng(0).normal(size=(900, n_columns))
    slopes = np.r_[np.ones(10), np.full(n_columns - 10, 0.3)][:, None]
    seen = []

    def values(X):
        seen.append(len(X))
        return X**3 @ slopes

    found = total_effects(values, rows, np.arange(n_columns), n_columns, 12_000, 0.01)
    assert sum(seen) < 12_000 + 900 + 12_000 // 8
    assert found.standard_errors.max() < 0.3 * found.effects.max()  # .4 if all columns get as many


# -- estimators -------------------------------------------------------------------------------


def data(rng, n=N):
    X = rng.uniform(-1.0, 1.0, (n, D))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]


EXPANSIONS = {
    "auto": Auto(),
    "dictionary": Dictionary(50),
    "komp": KOMP(max_size=40),
    "budget": Budget(30, "merge"),
    "full": Full(max_size=50),
    "features": RandomFeatures(50, min_steps=8),
    "stream": Stream(n_features=32, points=20),
}


def classes(rng, n_classes, n=150):
    X, y = data(rng, n)
    edges = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.array(list("abc"))[np.digitize(y, edges)]


def quantity(model, change=lambda y: y):
    X, y = data(np.random.default_rng(7), 150)
    return model.set_params(random_state=0).fit(X, change(y)), X


def labelled(model, n_classes):
    X, labels = classes(np.random.default_rng(7), n_classes)
    return model.set_params(random_state=0).fit(X, labels), X


#: By name: a fitted model and its rows, what it predicts for rows, and the output that this is of.
FAMILIES = {
    **{
        name: (lambda e=expansion: quantity(KernelRegressor(expansion=e)), "predict", None)
        for name, expansion in EXPANSIONS.items()
    },
    **{
        loss: (lambda one=loss: quantity(KernelRegressor(one), np.abs), "predict", None)
        for loss in ("absolute", "huber", "poisson")
    },
    "quantiles": (
        lambda: quantity(KernelRegressor(Quantile((0.1, 0.5, 0.9)))),
        lambda m, Z: m.predict(Z)[:, 2],
        0.9,
    ),
    "two targets": (
        lambda: quantity(KernelRegressor(), lambda y: np.column_stack([y, -3.0 * y])),
        lambda m, Z: m.predict(Z)[:, 1],
        1,
    ),
    "three classes": (
        lambda: labelled(KernelClassifier(), 3),
        lambda m, Z: m.predict_proba(Z)[:, 1],
        "b",
    ),
    "margins": (lambda: labelled(KernelClassifier("squared_hinge"), 2), "decision_function", "b"),
    "the other margin": (
        lambda: labelled(KernelClassifier("squared_hinge"), 2),
        lambda m, Z: -m.decision_function(Z),
        "a",
    ),
    "hinge": (
        lambda: labelled(KernelClassifier("hinge", expansion="komp"), 2),
        "decision_function",
        None,
    ),
    "ranker": (lambda: labelled(KernelRanker(), 2), "decision_function", None),
    "novelty": (lambda: quantity(NoveltyDetector()), "decision_function", None),
    **{
        f"process, {method}": (
            lambda how=method: quantity(GaussianProcessRegressor(method=how, n_features=50)),
            "predict",
            None,
        )
        for method in ("features", "dictionary")
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_explanations_add_up_in_every_family(family, tmp_path):
    make, ask, output = FAMILIES[family]
    model, X = make()
    told = model.explain(X[:3], output=output)
    predicted = getattr(model, ask)(X[:3]) if isinstance(ask, str) else ask(model, X[:3])
    assert_allclose(told.prediction, predicted, rtol=1e-10, atol=1e-12)
    total = told.baseline + told.contributions.sum(axis=1)
    assert_allclose(total, told.prediction, rtol=1e-9, atol=1e-9)
    shares = model.feature_importances_
    assert shares.shape == (D,)
    assert (shares >= 0.0).all()
    assert_allclose(shares.sum(), 1.0)
    # Rows to compare with are rows that were learned.
    assert np.isin(model._explained().background(), X).all()
    curve = model.partial_dependence(3, grid_size=5, output=output)
    assert_allclose(curve.values, curve.individual.mean(axis=0))
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert_array_equal(again.feature_importances_, shares)
    assert_array_equal(again.explain(X[:3], output=output).contributions, told.contributions)


@pytest.fixture(scope="module")
def fitted():
    """A regression whose last column is not looked at."""
    X, y = data(np.random.default_rng(3))
    return KernelRegressor(random_state=0).fit(X, y), X


def test_what_is_learned_is_what_matters(fitted):
    model, X = fitted
    shares = model.feature_importances_
    assert np.argmax(shares) == 0
    assert shares[4] < 0.01
    assert_allclose(shares[1], shares[2], atol=0.05)
    told = model.explain(X[:20])
    expected = np.sin(2.0 * X[:20, 0])
    assert_allclose(
        told.contributions[:, 0] - told.contributions[:, 0].mean(),
        expected - expected.mean(),
        atol=0.15,
    )
    assert np.abs(told.contributions[:, 4]).max() < 0.05


def test_dependence_is_the_mean_of_predictions(fitted):
    model, X = fitted
    curve = model.partial_dependence(0, grid=[-0.5, 0.7], background=X[:50])
    for i, value in enumerate((-0.5, 0.7)):
        rows = X[:50].copy()
        rows[:, 0] = value
        assert_allclose(curve.individual[:, i], model.predict(rows))
        assert_allclose(curve.values[i], model.predict(rows).mean())
    assert (curve.kind, curve.feature_name, curve.missing) == ("number", "x0", None)


def test_names_are_those_of_the_frame(rng):
    X, y = data(rng)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = KernelRegressor(random_state=0).fit(frame, y)
    told = model.explain(frame[:2])
    assert told.feature_names == list("vwxyz")
    assert told.largest(0, 1)[0][0] in "vwxyz"
    assert_array_equal(model.partial_dependence("x").values, model.partial_dependence(2).values)
    assert model.partial_dependence(2).feature_name == "x"


def test_inputs_of_a_column_move_together(rng):
    n = 600
    town = rng.choice(["Bern", "Bonn", "Ulm"], n)
    x = rng.normal(size=n)
    x[::7] = np.nan
    frame = pd.DataFrame({"town": town, "x": x, "code": np.full(n, "same")})
    y = 3.0 * (town == "Bern") + np.nan_to_num(x)
    model = KernelRegressor(random_state=0).fit(frame, y)
    assert model.preprocessor_.n_features_out_ > 3
    shares = model.feature_importances_
    assert shares.shape == (3,)
    assert shares[0] > shares[1] > 0.1
    assert shares[2] == 0.0
    told = model.explain(frame[:4])
    assert_allclose(told.baseline + told.contributions.sum(axis=1), model.predict(frame[:4]))
    assert_array_equal(told.contributions[:, 2], 0.0)
    towns = model.partial_dependence("town")
    assert towns.grid.tolist() == ["Bern", "Bonn", "Ulm"]
    others = frame.assign(town="Bonn")
    background = frame.iloc[:60]
    given_background = model.partial_dependence("town", background=background)
    assert_allclose(given_background.values[1], model.predict(others.iloc[:60]).mean())
    gap = model.partial_dependence("x", background=background)
    assert_allclose(gap.missing, model.predict(background.assign(x=np.nan)).mean())
    with pytest.raises(ValueError, match="'code' is no input of this model"):
        model.partial_dependence("code")


def test_a_constant_function_has_no_importances(rng):
    X = rng.normal(size=(300, 2))
    model = KernelRegressor(random_state=0).fit(X, np.zeros(300))
    assert_array_equal(model.feature_importances_, 0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_that_is_sure_is_measured_by_its_scores(n_classes, all_evaluations):
    """Of its probabilities only those of few rows move, in which classes flip."""
    rng, shares = np.random.default_rng(1), []
    X = rng.normal(size=(350, 6))
    sums = X[:, :4] @ [2.0, 1.0, 1.0, 0.5]
    y = np.digitize(sums, np.quantile(sums, np.linspace(0.0, 1.0, n_classes + 1)[1:-1]))
    for seed in (0, 1):
        model = KernelClassifier(random_state=seed).fit(X, y)
        shares.append(model.feature_importances_)
        errors = model.feature_importances_errors_
        assert errors.shape == (6,)
        assert 0.0 < errors.max() < 0.06 * shares[-1].max()
    # Of models whose races differ, and whose pairs do.
    assert np.abs(shares[0] - shares[1]).max() < 0.2 * np.max(shares)
    assert np.argmax(shares[0]) == 0
    assert shares[0][4:].max() < 0.02 < shares[0][3]
    if n_classes == 2:  # shares of one function do not depend on its unit
        rows = model._explained().background(1024)
        found = total_effects(
            lambda Z: model.decision_function(Z)[:, None], rows, np.arange(6), 6, 2**15, 0.01
        )
        assert_allclose(shares[-1], found.effects / found.effects.sum(), rtol=1e-6)


def test_targets_count_the_same_whatever_their_units(rng):
    X = rng.uniform(-1.0, 1.0, (500, 2))
    model = KernelRegressor(random_state=0).fit(X, np.column_stack([X[:, 0], 1e6 * X[:, 1]]))
    assert_allclose(model.feature_importances_, 0.5, atol=0.05)


def test_importances_follow_what_is_learned_later(rng):
    X, y = data(rng)
    model = KernelRegressor(expansion=Dictionary(50), random_state=0).partial_fit(X, y)
    before = model.feature_importances_
    assert model.feature_importances_ is not before
    assert_array_equal(model.feature_importances_, before)
    for _ in range(3):
        model.partial_fit(X, 5.0 * X[:, 4])
    assert model.feature_importances_[4] > before[4] + 0.1
    assert_array_equal(
        pickle.loads(pickle.dumps(model)).feature_importances_, model.feature_importances_
    )


def test_weights_of_zero_are_not_compared_with(rng):
    X, y = data(rng)
    weights = (np.arange(N) % 2).astype(float)
    for expansion in (Auto(), Dictionary(50)):
        model = KernelRegressor(expansion=expansion, random_state=0)
        model.fit(X, y, sample_weight=weights)
        assert not np.isin(model._explained().background(), X[::2]).any()


def test_rows_that_are_kept_do_not_depend_on_the_pieces(rng):
    X, y = data(rng, 1500)
    kept = []
    for size in (1500, 300):
        model = KernelRegressor(expansion=KOMP(max_size=10), random_state=0)
        for start in range(0, 1500, size):
            model.partial_fit(X[start : start + size], y[start : start + size])
        kept.append(model._explained().background())
    assert kept[0].shape == (256, D)
    assert_array_equal(*kept)


def test_streams_of_tables_keep_rows_as_wide_as_they_become(rng, tmp_path):
    model = KernelRegressor(random_state=0)
    for n in range(6):
        towns = rng.choice([f"t{n}", f"t{n + 1}"], 25)
        frame = pd.DataFrame({"town": towns, "x": rng.normal(size=25)})
        model.partial_fit(frame, (towns == "t1") + frame["x"])
    shares = model.feature_importances_
    assert shares.shape == (2,)
    told = model.explain(frame[:2])
    assert_allclose(told.baseline + told.contributions.sum(axis=1), model.predict(frame[:2]))
    curve = model.partial_dependence("town")
    assert curve.grid.tolist() == [f"t{n}" for n in range(7)] or len(curve.grid) == 7
    model.save(tmp_path / "m")
    assert_array_equal(load_model(tmp_path / "m").feature_importances_, shares)


def test_rows_with_gaps_of_a_stream_are_explained(rng, tmp_path):
    X, y = data(rng)
    X[::3, 0] = np.nan
    model = KernelRegressor(expansion="stream", random_state=0).fit(X, np.nan_to_num(y))
    told = model.explain(X[:6])
    assert_allclose(told.baseline + told.contributions.sum(axis=1), model.predict(X[:6]))
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert np.isnan(again._kept.rows[:, 0]).any()
    assert_array_equal(again.explain(X[:6]).contributions, told.contributions)
    state = model.to_state()
    rows = state["kept"]["rows"]
    rows["gaps"] = rows["gaps"][:, :2]
    with pytest.raises(ValueError, match=r"`gaps` must be of shape \(256, 5\)"):
        KernelRegressor.from_state(state)


def test_wide_rows_take_few_background_rows(rng):
    X = rng.normal(size=(300, 400))
    model = KernelRegressor(expansion=Dictionary(20), kernel="gaussian", random_state=0)
    model.fit(X, X[:, 0])
    assert len(model.explain(X[:1]).contributions[0]) == 400
    assert model.feature_importances_.shape == (400,)


# -- outputs ----------------------------------------------------------------------------------


def test_outputs_are_chosen_by_name(rng):
    X, labels = classes(rng, 3)
    model = KernelClassifier(random_state=0).fit(X, labels)
    told = model.explain(X[:8])
    assert told.output == model.predict(X[:8]).tolist()
    assert_allclose(told.prediction, model.predict_proba(X[:8]).max(axis=1))
    assert np.shape(told.baseline) == (8,)
    one = model.explain(X[:8], output="c")
    assert isinstance(one.baseline, float)
    total = sum(model.explain(X[:8], output=label).contributions for label in "abc")
    assert_allclose(total, 0.0, atol=1e-9)  # probabilities sum to 1
    with pytest.raises(ValueError, match="`output` must be one of 'a', 'b', 'c', got 'd'"):
        model.explain(X[:1], output="d")
    with pytest.raises(ValueError, match=r"this model has several\. Name it"):
        model.partial_dependence(0)
    X, labels = classes(rng, 2)
    two = KernelClassifier(random_state=0).fit(X, labels)
    assert two.explain(X[:1]).output == "b"
    assert two.explain(X[:1]).quantity == "probability"


def test_outputs_of_numbers(rng):
    X, y = data(rng, 150)
    levels = KernelRegressor(Quantile((0.1, 0.4, 0.9)), random_state=0).fit(X, y)
    assert levels.explain(X[:1]).output == 0.4
    assert levels.explain(X[:1], output="0.9").output == 0.9
    both = KernelRegressor(random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="`output` must be one of '0', '1', got None"):
        both.explain(X[:1])
    one = KernelRegressor(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="`output` must be None, got 1: this model has one"):
        one.explain(X[:1], output=1)


def test_a_single_class_is_sure(rng):
    X = rng.normal(size=(300, 2))
    model = KernelClassifier(random_state=0).fit(X, np.full(300, "a"))
    told = model.explain(X[:2])
    assert_array_equal(told.prediction, 1.0)
    assert_array_equal(told.contributions, 0.0)


# -- errors -----------------------------------------------------------------------------------


def test_before_fit_there_is_nothing_to_explain():
    for model in (KernelRegressor(), KernelClassifier(), NoveltyDetector(), KernelRanker()):
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(NotFittedError, match="not fitted yet"):
            model.explain([[1.0]])


def test_models_without_rows_ask_for_some(rng):
    X, y = data(rng)
    rows = sparse.csr_matrix(X)
    model = KernelRegressor(expansion=Dictionary(50), random_state=0).fit(rows, y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="learned sparse rows, of which it keeps none"):
        _ = model.feature_importances_
    with pytest.raises(
        ValueError, match="`background` must be given: this model learned sparse rows"
    ):
        model.explain(X[:1])
    with pytest.raises(ValueError, match=r"Use some rows of them, dense: `X.toarray\(\)`"):
        model.explain(rows[:1])
    told = model.explain(X[:1], background=X[:20])
    assert_allclose(told.baseline + told.contributions.sum(), model.predict(X[:1])[0])


@pytest.mark.parametrize("constant", [0.0, 5.0, 1e6])
@pytest.mark.parametrize("expansion", ["auto", "komp"])
def test_nothing_matters_to_a_constant(whole_race, constant, expansion, rng):
    X = rng.normal(size=(200, 3))
    model = KernelRegressor(expansion=expansion, random_state=0).fit(X, np.full(200, constant))
    assert_array_equal(model.feature_importances_, 0.0)


def test_an_explanation_says_what_the_first_row_is_made_of(rng):
    X = rng.normal(size=(200, 6))
    told = KernelRegressor(random_state=0).fit(X, X[:, 0]).explain(X[:2])
    name, add = told.largest(0, 1)[0]
    start = f"Explanation of 2 rows, 6 columns; prediction {told.prediction[0]:.4g} = "
    assert repr(told).startswith(f"{start}{told.baseline:.4g} {add:+.4g} ({name}) ")
    assert repr(told).endswith(" ...")
    assert "\n" not in repr(told)


SINGLE = {
    "stream": lambda: KernelRegressor(),
    "komp": lambda: KernelRegressor(expansion="komp", kernel="gaussian"),
    "classes": lambda: KernelClassifier(),
    "novelty": lambda: NoveltyDetector(),
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_rows_are_kept_as_those_of_batches(name, rng):
    X = rng.normal(size=(350, 3))
    y = (X[:, 0] > 0.0).astype(float)
    ours = SINGLE[name]().set_params(random_state=0)
    targets = [] if name == "novelty" else [y]
    if name == "classes":
        ours.partial_fit(X[:10], y[:10], classes=[0.0, 1.0])
    else:
        ours.partial_fit(X[:10], *(t[:10] for t in targets))
    for i in range(10, 350):
        ours.learn_one(X[i], *(float(t[i]) for t in targets))
        if i == 180:  # which rows are learned the quick way depends on this
            ours = type(ours).from_state(ours.to_state())
    kept = ours._explained().background()
    batches = KernelRegressor(expansion="komp", kernel="gaussian").partial_fit(X, y)
    assert_array_equal(kept, batches._explained().background())
    assert np.argmax(ours.feature_importances_) == 0 or name == "novelty"


def test_single_rows_without_weight_or_that_failed_are_not_kept():
    model = KernelRegressor(expansion="komp", kernel="gaussian")
    for i in range(50):
        model.learn_one([float(i), 1.0], float(i % 7), sample_weight=float(i % 2))
        with pytest.raises(ValueError, match="NaN"):
            model.learn_one([float(i), np.nan], 0.0)
    kept = model._explained().background()
    assert sorted(kept[:, 0]) == list(range(1, 50, 2))


def test_a_stream_of_dicts_is_explained_by_the_names_of_its_features():
    model = KernelRegressor(random_state=0)
    for i in range(150):
        row = {"a": float(i % 7), "b": float(i % 3)}
        model.learn_one(row | ({"late": float(i % 5)} if i > 60 else {}), float(i % 7))
    told = model.explain(np.array([[1.0, 2.0, 3.0], [5.0, 0.0, np.nan]]))
    assert told.feature_names == ["a", "b", "late"]
    assert model.feature_importances_[0] > 0.8
    assert_allclose(
        told.baseline + told.contributions.sum(axis=1),
        [model.predict_one(dict(zip("ab", row, strict=False)) | late)
         for row, late in (((1.0, 2.0), {"late": 3.0}), ((5.0, 0.0), {}))],
    )  # fmt: skip


def test_rankings_of_pairs_have_no_explanations(rng):
    X, labels = classes(rng, 2)
    model = KernelRanker(pair_kernel="symmetric", pair_label="same", average=None, random_state=0)
    model.fit(X, labels)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="pair"):
        model.explain(X[:1])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, X: m.explain(X[:1], n_permutations=0), "`n_permutations` must be an integer"),
        (lambda m, X: m.explain(X[:1], background=X[:0]), "0 sample"),
        (lambda m, X: m.explain(X[:1, :2]), "2 features"),
        (lambda m, X: m.partial_dependence(7), "`feature` must be a number from 0 to 4"),
        (lambda m, X: m.partial_dependence("x9"), "`feature` must be a column, got 'x9'"),
        (lambda m, X: m.partial_dependence(np.ones(3)), "`feature` must be a column, got array"),
        (lambda m, X: m.partial_dependence(0, grid_size=1), "`grid_size` must be an integer"),
        (lambda m, X: m.partial_dependence(0, grid=[np.inf]), "`grid` must hold finite numbers"),
        (lambda m, X: m.partial_dependence(0, grid=[]), "`grid` must hold finite numbers"),
    ],
)
def test_wrong_arguments_are_explained(fitted, call, said):
    with pytest.raises(ValueError, match=said):
        call(*fitted)


def test_rows_in_a_file_must_fit():
    X, y = data(np.random.default_rng(0))
    model = KernelRegressor(expansion=KOMP(max_size=10), random_state=0).fit(X, y)
    wrong = copy.deepcopy(model.to_state())
    wrong["kept"]["rows"] = wrong["kept"]["rows"][:, :2]
    with pytest.raises(ValueError, match=r"`rows` must be of shape \(256, 5\)"):
        KernelRegressor.from_state(wrong)
    many = copy.deepcopy(model.to_state())
    for name in ("rows", "keys", "weights"):
        many["kept"][name] = np.concatenate([many["kept"][name]] * 2)
    many["kept"]["n_seen"] = 1000
    with pytest.raises(ValueError, match="the rows kept do not fit together"):
        KernelRegressor.from_state(many)


def test_refused_rows_leave_the_sample_as_it_was(rng):
    X, y = data(rng)
    model = KernelRegressor(expansion=KOMP(max_size=10), random_state=0).partial_fit(X, y)
    kept = model._kept
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X, np.full(N, np.nan))
    assert model._kept is kept
    assert clone(model)._kept is None


def test_seeds_and_permutations_matter(rng):
    X = rng.uniform(-1.0, 1.0, (400, 8))
    y = np.prod(X[:, :4] + 1.0, axis=1) + X[:, 4:].sum(axis=1) ** 3
    model = KernelRegressor(random_state=0).fit(X, y)
    one, same = (model.explain(X[:1], random_state=1) for _ in range(2))
    assert_array_equal(one.contributions, same.contributions)
    other = model.explain(X[:1], random_state=2)
    assert (one.contributions != other.contributions).any()
    exact = model.explain(X[:1], n_permutations=40)
    assert_array_equal(exact.standard_errors, 0.0)
    assert np.abs(one.contributions - exact.contributions).max() < 10 * one.standard_errors.max()


def test_rows_are_drawn_evenly():
    X = np.arange(100.0)[:, None]
    some = evenly(X, 10, (X[:, 0] >= 50.0).astype(float))
    assert some.shape == (10, 1)
    assert (some >= 50.0).all()
    assert_array_equal(some, evenly(X, 10, (X[:, 0] >= 50.0).astype(float)))


def test_a_model_in_memory_and_its_pickle_explain_alike(fitted):
    model, X = fitted
    again = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert_array_equal(again.explain(X[:2]).contributions, model.explain(X[:2]).contributions)


def test_errors_of_walks_are_told_with_one_row_to_compare_with_too():
    """One walk from one row was taken for exact."""

    def f(X):
        return (X[:, :5].prod(axis=1) * (1.0 + X[:, 5]) + X[:, 6] + X[:, 7])[:, np.newaxis]

    row = np.arange(1.0, 9.0)[np.newaxis]
    told = shapley_values(
        f, row, np.zeros((1, 8)), np.arange(8), 8, np.zeros(1, int), 1, np.random.default_rng(0)
    )
    assert told.standard_errors[0, :5].max() > 1.0
    assert_allclose(told.contributions.sum(), f(row)[0, 0])


def test_values_given_for_a_column_of_a_stream_are_all_taken_and_checked():
    i = np.arange(120)
    towns = list("fedcba")
    frame = pd.DataFrame({"a": i % 5.0, "town": np.array(towns)[i % 6]})
    model = KernelRegressor(random_state=0).partial_fit(frame, i % 6.0)
    assert list(model.partial_dependence("town", grid=towns, grid_size=2).grid) == towns
    with pytest.raises(ValueError, match="`grid` must hold finite numbers"):
        model.partial_dependence("a", grid=[0.0, np.nan])
