"""Dictionaries fixed early, solved for: every objective, streams, files, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize

from mercer import (
    DensityRatio,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.divergences import KullbackLeibler
from mercer.estimators.start import make_learner
from mercer.exceptions import DivergenceError
from mercer.expansions import Dictionary, RandomFeatures, as_expansion
from mercer.functions import DictionaryFunction
from mercer.kernels import Gaussian, Laplacian, Linear, Mapped
from mercer.learning import (
    FeatureLearner,
    KernelLearner,
    SecondOrderLearner,
    automatic_step,
)
from mercer.losses import MulticlassHinge, Quantile, Softmax, Squared
from mercer.maps import Affine
from mercer.objectives import Bellman, Novelty, Pointwise, TwoSample
from mercer.risks import CVaR, Entropic, Variance
from mercer.schedules import Constant
from oracles_second_order import (
    least_objective,
    logistic_newton,
    objective_of,
    ridge_on_dictionary,
    softmax_newton,
)
from quick import take_few_steps

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=N)
LABELS = np.digitize(Y, [-0.7, 0.7])
WEIGHTS = RNG.uniform(0.1, 2.0, N)
KERNEL = Laplacian(1.0)
SMALL = {"size": 20, "first_rows": 50}
ONE_RIDGE = Dictionary(**SMALL, ridge=1e-3, refresh=0.0)
EXPANSIONS = [
    Dictionary(**SMALL),
    Dictionary(20),  # more first rows than there are
    Dictionary(**SMALL, ridge=None, forgetting=0.999, precision="single"),
    Dictionary(**SMALL, ridge=[1e-2, 1e-4], centers="uniform", refresh=0.0),
    Dictionary(**SMALL, centers="leverage"),
    Dictionary(**SMALL, centers="komp"),
    RandomFeatures(32, "solve", precision="double"),
    RandomFeatures(32, "solve", ridge=1e-2),
]


def regressor(expansion=ONE_RIDGE, **parameters):
    parameters = {"kernel": KERNEL, "shuffle": False, "random_state": 0, **parameters}
    return KernelRegressor(expansion=expansion, **parameters)


def classifier(loss="auto", expansion=ONE_RIDGE, **parameters):
    parameters = {"kernel": KERNEL, "shuffle": False, "random_state": 0, **parameters}
    return KernelClassifier(loss, expansion=expansion, **parameters)


def targets_of(model):
    return LABELS if isinstance(model, KernelClassifier) else Y


def streamed(model, cuts, y=None, X=X, weights=None, **first):
    y = targets_of(model) if y is None else y
    for i, numbers in enumerate(np.split(np.arange(len(X)), cuts)):
        options = first if i == 0 else {}
        weight = None if weights is None else weights[numbers]
        model.partial_fit(X[numbers], y[numbers], sample_weight=weight, **options)
    return model


def contract(model):
    """F by the formula that everyone can evaluate."""
    if hasattr(model.learner_.function, "dictionary"):
        return model.kernel_(X, model.dictionary_) @ model.coefficients_
    return model.random_features(X) @ model.coefficients_


# -- the squared loss ------------------------------------------------------------------------------


def test_fit_is_the_ridge_regression_on_its_dictionary():
    Y2 = np.stack([Y, Y**2], axis=1)
    model = regressor().fit(X, Y2, sample_weight=WEIGHTS)
    K, K_DD = KERNEL(X, model.dictionary_), KERNEL(model.dictionary_)
    expected = ridge_on_dictionary(K, K_DD, Y2, WEIGHTS, 1e-3)
    assert_allclose(model.predict(X), K @ expected, atol=1e-8)
    assert model.dictionary_.shape == (20, 2)
    assert model.n_samples_seen_ == N


def test_a_dictionary_of_all_rows_is_kernel_ridge_regression():
    model = regressor(Dictionary(N), regularization=1e-2).set_params(expansion__ridge=None)
    gram = KERNEL(X)
    exact = gram @ np.linalg.solve(gram + N * 1e-2 * np.eye(N), Y)
    assert_allclose(model.fit(X, Y).predict(X), exact, atol=1e-8)
    assert_allclose(
        streamed(model.set_params(random_state=1), [100, 250]).predict(X), exact, atol=1e-8
    )


@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(2, N - 1), max_size=5))
def test_streams_cut_anywhere_equal_fit(cuts):
    for expansion in (ONE_RIDGE, Dictionary(**SMALL, ridge=[1e-1, 1e-3], refresh=0.0)):
        whole = regressor(expansion).fit(X, Y, sample_weight=WEIGHTS)
        stream = streamed(regressor(expansion), sorted(cuts), weights=WEIGHTS)
        assert_allclose(stream.predict(X), whole.predict(X), atol=1e-8)
        assert_array_equal(stream.dictionary_, whole.dictionary_)


def test_predictions_follow_every_row_if_they_are_to():
    model = regressor()
    for start in range(0, 120, 8):
        model.partial_fit(X[start : start + 8], Y[start : start + 8])
        n = start + 8
        D = model.dictionary_
        exact = ridge_on_dictionary(KERNEL(X[:n], D), KERNEL(D), Y[:n, None], np.ones(n), 1e-3)
        assert_allclose(model.predict(X), (KERNEL(X, D) @ exact)[:, 0], atol=1e-8)


def test_solutions_wait_until_a_stream_has_grown():
    model = regressor(Dictionary(**SMALL, ridge=1e-3, refresh=0.5)).partial_fit(X[:100], Y[:100])
    before = model.predict(X)
    assert_array_equal(model.partial_fit(X[100:140], Y[100:140]).predict(X), before)
    assert not np.array_equal(model.partial_fit(X[140:160], Y[140:160]).predict(X), before)


def test_a_stream_that_forgets_follows_a_drift():
    turned = np.concatenate([-Y[:200], Y[200:]])
    forgets, remembers = (
        streamed(regressor(Dictionary(**SMALL, ridge=1e-3, forgetting=f)), [50, 300], turned)
        for f in (0.97, 1.0)
    )
    assert forgets.score(X, Y) > 0.8 > 0.2 > remembers.score(X, Y)


@pytest.mark.parametrize(("memory", "turn"), [(100, 3000), (300, 4500)])
def test_raced_ridges_of_a_stream_that_forgets_are_not_judged_by_its_drift(memory, turn):
    # A function that turns slowly; the best ridge is found by a stream for each.
    rng = np.random.default_rng(3)
    n, ridges = 10_000, [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
    rows, angle = rng.normal(size=(n, 2)), 2.0 * np.pi * np.arange(n) / turn
    y = np.sin(2.0 * (rows[:, 0] * np.cos(angle) + rows[:, 1] * np.sin(angle)))
    noisy = y + 0.02 * rng.normal(size=n)

    def error(ridge):
        expansion = Dictionary(
            50, first_rows=200, ridge=ridge, forgetting=1.0 - 1.0 / memory, refresh=0.0
        )
        model, errors = regressor(expansion, kernel=Gaussian(1.0)), []
        for start in range(0, n, 200):
            if start >= 3 * n // 4:
                errors.append(model.predict(rows[start : start + 20]) - y[start : start + 20])
            model.partial_fit(rows[start : start + 200], noisy[start : start + 200])
        return float(np.mean(np.square(errors)))

    assert error(ridges) < 1.2 * min(error(ridge) for ridge in ridges)


def test_a_margin_of_least_squares_is_regression_on_labels_and_classes_may_come_late():
    first, later = LABELS < 2, LABELS == 2
    order = np.concatenate([np.flatnonzero(first), np.flatnonzero(later)])
    codes = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0)
    for cuts in ([30], [first.sum()], [60, first.sum() + 20]):
        model = classifier("least_squares_margin")
        streamed(model, cuts, LABELS[order], X[order])
        K, K_DD = KERNEL(X, model.dictionary_), KERNEL(model.dictionary_)
        # Its curvature is 2.
        expected = ridge_on_dictionary(K, K_DD, codes, np.ones(N), 0.5e-3)
        assert_allclose(model.decision_function(X), K @ expected, atol=1e-8)


# -- losses with Newton steps ----------------------------------------------------------------------


def test_logistic_passes_reach_the_minimum():
    y = LABELS > 1
    expansion = Dictionary(20, ridge=None)
    model = classifier("logistic", expansion, regularization=1e-3, n_passes=200).fit(X, y)
    D = model.dictionary_
    expected = logistic_newton(KERNEL(X, D), KERNEL(D), np.where(y, 1.0, -1.0), 1e-3)
    assert_allclose(model.decision_function(X), (KERNEL(X, D) @ expected)[:, 0], atol=1e-3)


def test_softmax_passes_reach_the_minimum():
    expansion = Dictionary(20, ridge=1e-3)
    model = classifier("softmax", expansion, batch_size=N, n_passes=250).fit(X, LABELS)
    D = model.dictionary_
    expected = KERNEL(X, D) @ softmax_newton(KERNEL(X, D), KERNEL(D), LABELS, 3, 1e-3)
    assert_allclose(model.decision_function(X), expected, atol=1e-3)


REGRESSIONS = ["huber", "absolute_error", "epsilon_insensitive", Quantile([0.1, 0.8]), "poisson"]
MARGINS = ["logistic", "hinge", "squared_hinge", "softmax", MulticlassHinge()]


@pytest.mark.parametrize("loss", [*REGRESSIONS, *MARGINS], ids=str)
def test_every_loss_comes_close_to_its_minimum(loss):
    make, y = (classifier, LABELS) if loss in MARGINS else (regressor, np.abs(Y).round())
    expansion = Dictionary(30, ridge=None)
    model = make(loss=loss, expansion=expansion, regularization=1e-2).fit(X, y)
    targets = model.targets_.encode(y)
    targets = targets[:, 0] if model.loss_.multiclass else targets
    K, K_DD = KERNEL(X, model.dictionary_), KERNEL(model.dictionary_)
    least = least_objective(model.loss_, targets, K, K_DD, 1e-2, model.coefficients_.shape[1])
    reached, _ = objective_of(model.loss_, targets, K, K_DD, 1e-2, model.coefficients_)
    assert reached < 1.02 * least


@pytest.mark.parametrize(
    "risk",
    [
        CVaR(0.8),
        Variance(0.5, units=1.0, clamp=False, max_deviation=None),
        Entropic(1.0, units=1.0),
    ],
    ids=repr,
)
def test_risks_come_close_to_their_minimum(risk):
    expansion = Dictionary(30, ridge=1e-2)
    model = regressor(expansion, risk=risk, n_passes=60, shuffle=True).fit(X, Y)
    K, K_DD = KERNEL(X, model.dictionary_), KERNEL(model.dictionary_)

    def objective(c):
        return risk_of(risk, 0.5 * (K @ c - Y) ** 2) + 0.5e-2 * c @ K_DD @ c

    mean = ridge_on_dictionary(K, K_DD, Y[:, None], np.ones(N), 1e-2)[:, 0]
    least = minimize(objective, mean, options={"maxiter": 200}).fun
    assert objective(model.coefficients_[:, 0]) < 1.05 * least


def risk_of(risk, losses):
    if isinstance(risk, CVaR):
        return np.sort(losses)[int(0.8 * len(losses)) :].mean()
    if isinstance(risk, Variance):
        return losses.mean() + 0.5 * losses.var()
    return np.log(np.mean(np.exp(losses)))


def test_curved_streams_come_close_to_fit():
    n = 3000
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n, 2))
    y = np.digitize(np.sin(2.0 * rows[:, 0]) + rows[:, 1] + 0.2 * rng.normal(size=n), [-0.7, 0.7])
    expansion = Dictionary(40, first_rows=200)
    stream = streamed(classifier(expansion=expansion), range(100, n, 100), y, rows)
    fitted = classifier(expansion=expansion).fit(rows, y)
    loss = Softmax()
    losses = [loss.value(LABELS, m.decision_function(X)).mean() for m in (stream, fitted)]
    # One pass, in steps that the bound of the curvature makes careful.
    assert losses[0] < 1.4 * losses[1]
    assert stream.score(X, LABELS) > fitted.score(X, LABELS) - 0.02


@pytest.mark.parametrize("loss", ["auto", "logistic", "hinge", "softmax"])
def test_classes_may_come_late_to_curved_losses(loss, monkeypatch):
    take_few_steps(monkeypatch)
    n = 800
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n, 2))
    y = (rows[:, 0] > 0.0).astype(int) + (rows[:, 1] > 0.3)
    order = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)])
    # A lone class, then two, in the first rows; the third one in them, or far behind them.
    order = np.concatenate([order[y[order] == 0][:5], order])
    for n_first in (100, 600):
        late = rng.permutation(n)
        parts = [order[:5], order[5:60], order[60:n_first] if n_first > 100 else order[60:61], late]
        knowing, model = (classifier(loss, Dictionary(30, first_rows=100)) for _ in range(2))
        for i, part in enumerate(parts):
            knowing.partial_fit(rows[part], y[part], classes=[0, 1, 2] if i == 0 else None)
            model.partial_fit(rows[part], y[part])
        assert_array_equal(model.classes_, [0, 1, 2])
        assert model.score(rows, y) > knowing.score(rows, y) - 0.02
        assert model.score(rows, y) > 0.75


# -- other objectives ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_rankers_order_rows(loss, monkeypatch):
    take_few_steps(monkeypatch)
    model = KernelRanker(loss, kernel=KERNEL, expansion=Dictionary(40), random_state=0)
    some = slice(150)
    assert model.fit(X[some], Y[some] > 0.0).score(X, Y > 0.0) > 0.95
    stream = KernelRanker(
        loss, kernel=KERNEL, expansion=Dictionary(40, first_rows=100), random_state=0
    )
    for start in range(0, N, 100):
        stream.partial_fit(X[start : start + 100], Y[start : start + 100] > 0.0)
    assert stream.score(X, Y > 0.0) > 0.93


@pytest.mark.parametrize("expansion", [Dictionary(20, first_rows=40), RandomFeatures(32, "solve")])
def test_rankers_predict_before_there_is_a_pair_and_learn_once_there_are(expansion):
    model = KernelRanker(kernel=KERNEL, expansion=expansion, random_state=0)
    for start, stop in ((0, 1), (1, 60)):
        model.partial_fit(X[start:stop], np.ones(stop - start))
        assert_array_equal(model.predict(X[:5]), np.zeros(5))
    for _ in range(4):
        model.partial_fit(X, Y > 0.0)
    assert model.score(X, Y > 0.0) > 0.9


def test_density_ratios_and_novelty_take_the_ridge_of_their_problem():
    ratio = DensityRatio(
        kernel=Gaussian(1.0), expansion=Dictionary(60), regularization=1e-2, random_state=0
    )
    X_p, X_q = X, X + np.array([0.5, 0.0])
    close = np.corrcoef(ratio.fit(X_p, X_q).log_ratio(X), 0.125 - 0.5 * X[:, 0])[0, 1]
    assert close > 0.9
    novelty = NoveltyDetector(
        0.2, kernel=Gaussian(0.5), expansion=Dictionary(60), random_state=0
    ).fit(X)
    assert_allclose(np.mean(novelty.predict(X) < 0), 0.2, atol=0.02)


@pytest.mark.parametrize("method", ["td", "gtd2", "tdc", "double_sampling", "residual"])
@pytest.mark.parametrize("expansion", [Dictionary(30, first_rows=60), RandomFeatures(64, "solve")])
def test_value_functions_are_solved_for(method, expansion):
    # Of a deterministic walk V(s) = s + 0.8 V(s / 2), so that V(s) = s / 0.6.
    states = np.random.default_rng(1).uniform(-1.0, 1.0, (400, 1))
    after, rewards = states / 2.0, states[:, 0]
    model = ValueFunction(0.8, method, kernel=Gaussian(1.0), expansion=expansion, random_state=0)
    stream = copy.deepcopy(model)
    transitions = states, rewards, after
    for each, cuts in ((model.fit, []), (stream.partial_fit, [37, 211])):
        for rows in np.split(np.arange(400), cuts):
            part = [array[rows] for array in transitions]
            twice = (part[1], part[2], None) if method == "double_sampling" else None
            each(*part, second=twice)
    for each in (model, stream):
        assert_allclose(each.predict(states), states[:, 0] / 0.6, atol=0.02)


# -- streams and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_the_formula_of_the_function_holds_and_streams_and_files_go_on(
    make, expansion, tmp_path, monkeypatch
):
    take_few_steps(monkeypatch)  # all that is asked holds after any number of them
    model, y = make(expansion=expansion), targets_of(make())
    for start, stop in ((0, 30), (30, 90), (90, 330)):
        model.partial_fit(X[start:stop], y[start:stop])
        f = model.learner_.evaluate(X)
        assert_allclose(f, contract(model), atol=1e-4 if f.dtype != np.float64 else 2e-5)
        assert model.model_order_ == len(model.coefficients_) <= 32
        model.save(tmp_path / "model")
        twins = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
        for twin in twins:
            assert_array_equal(twin.learner_.evaluate(X), f)
            twin.partial_fit(X[stop : stop + 60], y[stop : stop + 60])
        again = copy.deepcopy(model).partial_fit(X[stop : stop + 60], y[stop : stop + 60])
        for twin in twins:
            assert_array_equal(twin.learner_.evaluate(X), again.learner_.evaluate(X))
    assert np.isfinite(model.history_.loss).all()
    assert model.n_samples_seen_ == 330


@pytest.mark.parametrize("make", [regressor, classifier])
@pytest.mark.parametrize("n", [20, 100])
def test_a_call_that_fails_leaves_the_model_as_it_was(make, n):
    model, y = make(kernel=Linear() + KERNEL), targets_of(make())
    model.partial_fit(X[:n], y[:n])
    untouched = copy.deepcopy(model)
    with pytest.raises((ValueError, DivergenceError), match=r"overflows|large"):
        model.partial_fit(np.vstack([X[n:], [[1e200, 0.0]]]), np.append(y[n:], y[0]))
    for each in (model, untouched):
        each.partial_fit(X[n:], y[n:])
    assert_array_equal(model.predict(X), untouched.predict(X))


@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_fit_refuses_rows_at_which_its_kernel_overflows(make):
    model, rows = make(kernel=Linear() + KERNEL, shuffle=False), np.vstack([X, [[1e80, 0.0]]])
    with pytest.raises(ValueError, match="overflows on these rows, whose largest input is 1e"):
        model.fit(rows, np.append(targets_of(model), targets_of(model)[0]))


@pytest.mark.parametrize("loss", ["auto", "least_squares_margin"])
@pytest.mark.parametrize("n", [20, 100])
def test_a_call_that_fails_takes_its_new_classes_with_it(loss, n):
    model = classifier(loss, kernel=Linear() + KERNEL).partial_fit(X[:n], LABELS[:n] > 0)
    untouched = copy.deepcopy(model)
    with pytest.raises((ValueError, DivergenceError), match=r"overflows|large"):
        model.partial_fit(np.vstack([X[n:], [[1e200, 0.0]]]), np.append(LABELS[n:], 2))
    assert_array_equal(model.classes_, [False, True])
    for each in (model, untouched):
        each.partial_fit(X[n:], LABELS[n:] > 0)
    assert_array_equal(model.decision_function(X), untouched.decision_function(X))


def test_single_rows_and_sparse_rows_are_learned_like_others():
    one, many, thin = regressor(), regressor(), regressor()
    one.partial_fit(X[:5], Y[:5])
    for x, y in zip(X[5:120], Y[5:120], strict=True):
        one.learn_one(x, y)
    many.partial_fit(X[:120], Y[:120])
    thin.partial_fit(sparse.csr_array(X[:120]), Y[:120])
    assert_allclose(one.predict(X), many.predict(X), atol=1e-8)
    assert_allclose(thin.predict(sparse.csr_array(X)), many.predict(X), atol=1e-12)


def test_predictions_ask_nothing_of_the_stream():
    quiet, asked = (classifier(expansion=Dictionary(**SMALL)) for _ in range(2))
    for start in range(0, N, 40):
        for model in (quiet, asked):
            model.partial_fit(X[start : start + 40], LABELS[start : start + 40], classes=[0, 1, 2])
        asked.predict(X)
    assert_array_equal(quiet.predict_proba(X), asked.predict_proba(X))


def test_parameters_set_on_the_way_take_effect():
    model = regressor(Dictionary(**SMALL, ridge=None, refresh=0.0), regularization=1e-6)
    model.partial_fit(X[:200], Y[:200]).set_params(regularization=1e-1)
    model.partial_fit(X[200:], Y[200:])
    fresh = regressor(Dictionary(**SMALL, ridge=None), regularization=1e-1).fit(X, Y)
    assert_allclose(model.predict(X), fresh.predict(X), atol=1e-8)


def test_parameters_set_before_a_file_is_written_take_effect_behind_it_as_without(tmp_path):
    expansion = Dictionary(**SMALL, ridge=None, refresh=0.0)
    model = regressor(expansion, regularization=1e-6).partial_fit(X[:200], Y[:200])
    model.set_params(regularization=1e-2).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.predict(X), model.predict(X))
    for each in (model, loaded):
        each.partial_fit(X[200:], Y[200:])
    assert_array_equal(loaded.predict(X), model.predict(X))
    fresh = regressor(expansion, regularization=1e-2).fit(X, Y)
    assert_allclose(loaded.predict(X), fresh.predict(X), atol=1e-8)


def test_maps_in_the_kernel_are_part_of_the_function(tmp_path):
    kernel = Mapped(KERNEL, Affine([0.0, 1.0], [1.0, 0.5]))
    model = regressor(kernel=kernel).fit(X, Y)
    assert_allclose(model.predict(X), contract(model)[:, 0], atol=1e-10)
    model.save(tmp_path / "model")
    assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))


def test_files_that_were_tampered_with_are_refused():
    for make, rows in ((regressor, 30), (regressor, 200), (classifier, 200)):
        model = make().partial_fit(X[:rows], targets_of(make())[:rows])
        model.predict(X)
        state = model.to_state()
        type(model).from_state(copy.deepcopy(state))
        for path, value, message in (
            (
                ("function", "arrays", "coefficients"),
                np.full((20, 1), np.nan),
                "`coefficients` must be",
            ),
            (("function", "numbers", "n_outputs"), 5, "must be of shape"),
            (("rows", "n_solved"), 10**6, "More rows were solved for"),
        ):
            wrong = copy.deepcopy(state)
            part = wrong["learner"]
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = value
            with pytest.raises(ValueError, match=message):
                type(model).from_state(wrong)


# -- what is chosen, and what is refused -----------------------------------------------------------


def test_names_and_sizes():
    assert as_expansion("dictionary") == Dictionary()
    assert Dictionary(10).n_first_rows == 2000
    assert Dictionary(1000).n_first_rows == 5000
    assert Dictionary(8000).n_first_rows == 30_000
    assert Dictionary(40_000).n_first_rows == 40_000
    assert KernelRegressor(expansion="dictionary", random_state=0).fit(X, Y).score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"size": 0}, "size"),
        ({"centers": "best"}, "komp"),
        ({"ridge": "small"}, "auto"),
        ({"ridge": []}, "some numbers"),
        ({"ridge": np.ones(1001)}, "1,001 numbers, but each is solved for"),
        ({"ridge": -1.0}, "ridge"),
        ({"first_rows": 0}, "first_rows"),
        ({"forgetting": 0.0}, "multiplies the weights"),
        ({"refresh": -1.0}, "refresh"),
        ({"precision": "half"}, "precision"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, words):
    with pytest.raises(ValueError, match=words):
        Dictionary(**parameters)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: regressor(step_size=0.1).fit(X, Y), "no meaning"),
        (lambda: classifier(step_size=3.0).fit(X, LABELS), "at most 2"),
        (
            lambda: KernelRanker(pair_kernel="product", expansion=Dictionary()).fit(X, Y),
            "second order",
        ),
        (lambda: NoveltyDetector(expansion=Dictionary(ridge=0.1)).fit(X), "is `nu`"),
        (lambda: KernelRanker(expansion=Dictionary(ridge=[1.0, 0.1])).fit(X, Y > 0), "one number"),
        (
            lambda: ValueFunction(0.9, "pkgtd", expansion=Dictionary()).fit(X[:-1], Y[:-1], X[1:]),
            "follow an average",
        ),
        (lambda: RandomFeatures(mode="solve", max_blocks=3), "max_blocks"),
    ],
)
def test_combinations_that_cannot_be_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_greedy_choice_is_among_the_rows():
    points = regressor(Dictionary(**SMALL, centers="komp")).fit(X, Y).dictionary_
    assert {tuple(p) for p in points} <= {tuple(x) for x in X[:50]}
    assert len(points) == 20


def test_learners_declare_which_objectives_have_no_steps():
    equations = [Pointwise(Squared()), Bellman(0.9, "td"), Bellman(0.9, "gtd2")]
    steps = [Pointwise(Softmax()), Pointwise(Quantile([0.5])), Novelty(0.1)]
    assert not any(SecondOrderLearner.makes_steps(o) for o in equations)
    assert all(SecondOrderLearner.makes_steps(o) for o in steps)
    for cls in (KernelLearner, FeatureLearner):
        assert all(cls.makes_steps(o) for o in equations + steps)


@pytest.mark.parametrize(
    ("objective", "ridge", "step_size", "message"),
    [
        (Pointwise(Squared()), "auto", Constant(0.5), "`step_size` has no meaning for Dict"),
        (Bellman(0.9, "td"), "auto", Constant(0.5), "`step_size` has no meaning for Dict"),
        (Bellman(0.9, "pkgtd"), "auto", None, "no equations for method='pkgtd'"),
        (Novelty(0.1), 0.1, None, "`ridge` is `nu` for novelty detection, got ridge=0.1"),
        (
            TwoSample(KullbackLeibler()),
            (0.1, 1.0),
            None,
            "`ridge` must be one number for the objective Two",
        ),
    ],
)
def test_what_sums_cannot_learn_is_refused_before_the_first_row(
    objective, ridge, step_size, message
):
    automatic = automatic_step(KERNEL, X, 1.0, 1.0)
    function = DictionaryFunction(KERNEL, Dictionary(10, ridge=ridge), 2, 1, None)
    with pytest.raises(ValueError, match=message):
        make_learner(objective, function, step_size or automatic, 1e-6, 32, automatic)
