"""The papers' algorithms by name, against loops in the papers' own symbols and units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import oracles_features
import oracles_pairwise
from mercer import KernelClassifier, KernelRanker, KernelRegressor, recipes
from mercer.features import FeatureOptions
from mercer.kernels import Gaussian
from mercer.losses import QNormHinge
from mercer.risks import CVaR, Mean, Mixture, Semivariance, Variance
from mercer.schedules import PowerDecay
from oracles import NaivePOLK, brute_force_komp, gaussian_gram

RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 2))
LABELS = np.where(X[:, 0] + X[:, 1] ** 2 > 0.8, 1, -1)
CLASSES = (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0.0)
TARGETS = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=96)
KERNEL = Gaussian(0.7)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def softmax_slopes(rows):
    def slopes(F):
        P = np.exp(F - F.max(axis=1, keepdims=True))
        return P / P.sum(axis=1, keepdims=True) - np.eye(3)[CLASSES[rows]]

    return slopes


@pytest.mark.parametrize("eta", [0.9, PowerDecay(0.9, 1.0)], ids=str)
def test_polk(eta):
    # epsilon = K eta^1.5 for constant steps (Theorem 2), epsilon_t = eta_t^2 for falling ones (22).
    K, power = (0.1, 1.5) if isinstance(eta, float) else (1.0, 2.0)
    model = recipes.polk(
        "softmax", eta=eta, K=K, regularization=0.01, batch_size=8, kernel=KERNEL
    ).partial_fit(X, CLASSES)
    oracle = NaivePOLK(0.7, None, 0.01, None)
    for t in range(12):
        rows = slice(8 * t, 8 * t + 8)
        oracle.step_size = eta if isinstance(eta, float) else 0.9 / (t + 1)
        oracle.tolerance = K * oracle.step_size**power
        oracle.step(X[rows], softmax_slopes(rows), 3)
    assert 3 < model.model_order_ == len(oracle.points) < 90
    assert_allclose(model.decision_function(X), oracle.evaluate(X, 3), rtol=1e-9, atol=1e-10)


def colk(rule, alpha, beta, K, ridge, outer):
    """COLK, Algorithm 1 for the loss r²: a row theta and a row xi a step, then KOMP."""
    points, w = np.zeros((0, 2)), np.zeros(0)
    before, g = None, None

    def value(x, points, w):
        return float((gaussian_gram(x[None], points, 0.7) @ w).item()) if len(points) else 0.0

    for t in range(0, len(X), 2):
        theta, xi = X[t], X[t + 1]
        r, s = value(theta, points, w) - TARGETS[t], value(xi, points, w) - TARGETS[t + 1]
        if g is None:
            g = s**2
        elif rule == "scgd":  # (19)
            g = (1 - beta) * g + beta * s**2
        else:  # (20): what the step did to the same row is taken out
            old = (value(xi, *before) - TARGETS[t + 1]) ** 2
            g = (1 - beta) * (g + s**2 - old) + beta * s**2
        a = outer(r**2 - g)
        before = points, w
        points = np.vstack([points, theta, xi])
        w = np.append((1 - alpha * ridge) * w, [-alpha * a * 2 * r, -alpha * (1 - a) * 2 * s])
        keep, w, _ = brute_force_komp(gaussian_gram(points, points, 0.7), w[:, None], K * alpha**2)
        points, w = points[keep], w[:, 0]
    return gaussian_gram(X, points, 0.7) @ w, len(points)


def printed_slope(z):
    return 1.0 + 0.1 * (2.0 * z + 3.0 * z**2 + 4.0 * z**3)  # of (46)


@pytest.mark.parametrize("rule", ["scgd", "momentum"])
@pytest.mark.parametrize(
    ("risk", "outer"),
    [
        (None, printed_slope),
        (Variance(0.3, clamp=False, max_deviation=None), lambda z: 1.0 + 0.6 * z),
    ],
    ids=["moments", "variance"],
)
def test_colk(rule, risk, outer):
    numbers = {"alpha": 0.02, "beta": 0.1, "K": 5.0}
    model = recipes.colk(
        risk=risk, tracker=rule, kernel=KERNEL, regularization=0.01, **numbers
    ).partial_fit(X, TARGETS)
    values, order = colk(rule, **numbers, ridge=0.01, outer=outer)
    assert 3 < model.model_order_ == order < 90
    assert_allclose(model.predict(X), values, rtol=1e-9, atol=1e-11)


def test_colk_without_an_inner_mean_takes_single_rows_and_refuses_the_mean():
    model = recipes.colk(risk=CVaR(0.8), kernel=KERNEL)
    assert model.batch_size == 1
    assert np.isfinite(model.partial_fit(X, TARGETS).predict(X)).all()
    assert recipes.colk("softmax", risk=Semivariance()).step_size == 0.02
    with pytest.raises(ValueError, match="Use `polk`"):
        recipes.colk(risk="mean")


@pytest.mark.parametrize("theta", [0.5, 20.0])  # theta nu = .05, 2
@pytest.mark.parametrize(("B", "m"), [(1, 1), (16, 8)])
@pytest.mark.parametrize("average", [None, "polyak"])
def test_dsg(B, m, theta, average):
    # The squared hinge of the paper has one half.
    model = recipes.dsg(
        "squared_hinge", theta=theta, nu=0.1, B=B, m=m, kernel=KERNEL, average=average, seed=3
    )
    model.set_params(expansion__precision="double").partial_fit(X, LABELS)
    n_steps = len(X) // B
    blocks = oracles_features.features_of_blocks(
        KERNEL, X, n_steps, m, 3, FeatureOptions(False, "iid")
    )

    def slopes(rows, F):
        y = LABELS[rows, np.newaxis]
        return -y * np.maximum(1.0 - y * F, 0.0)

    iterates = oracles_features.faithful(
        blocks,
        np.split(np.arange(len(X)), n_steps),
        slopes,
        theta / np.arange(1.0, n_steps + 1),
        0.1,
    )
    padded = [np.vstack([*i, np.zeros(((n_steps - len(i)) * m, 1))]) for i in iterates]
    forgotten = 1 if theta * 0.1 == 2.0 else 0  # a factor of 0 at step 2
    expected = padded[-1] if average is None else np.mean(padded[forgotten:], axis=0)
    assert_allclose(model.coefficients_, expected, rtol=1e-10, atol=1e-12 * np.abs(padded).max())


def single_rows(eta, ridge, keep):
    """Functional gradient steps of the hinge on single rows; ``keep`` maps coefficients."""
    gram, w = KERNEL(X), np.zeros(len(X))
    for t, y in enumerate(LABELS):
        slope = -y if y * (gram[t] @ w) < 1.0 else 0.0
        w = (1.0 - eta * ridge) * w
        w[t] -= eta * slope
        w = keep(w)
    return gram @ w


def test_norma():
    def newest(w):
        return np.where(np.cumsum((w != 0.0)[::-1])[::-1] <= 10, w, 0.0)

    model = recipes.norma(eta=0.5, regularization=0.02, tau=10, kernel=KERNEL)
    values = model.partial_fit(X, LABELS).decision_function(X)
    assert model.model_order_ == 10
    assert_allclose(values, single_rows(0.5, 0.02, newest), **CLOSE)


def test_bsgd():
    def largest(w):
        if np.count_nonzero(w) > 12:
            w[np.argmin(np.where(w == 0.0, np.inf, np.abs(w)))] = 0.0
        return w

    model = recipes.bsgd(
        "hinge", eta=0.5, regularization=0.02, size=12, strategy="remove", kernel=KERNEL
    )
    values = model.partial_fit(X, LABELS).decision_function(X)
    assert model.model_order_ == 12
    assert_allclose(values, single_rows(0.5, 0.02, largest), **CLOSE)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_unregularized_pairs(loss):
    model = recipes.unregularized_pairs(loss, step_size=PowerDecay(0.5, 0.5), kernel=KERNEL)
    model.partial_fit(X, LABELS)
    oracle = oracles_pairwise.naive_pairs(
        X, LABELS, kernel=oracles_pairwise.gaussian(0.7), loss=loss, schedule=(0.5, 0.5)
    )
    gram = KERNEL(X)
    pairs = oracle.at_rows(gram, np.arange(95), np.arange(1, 96))
    assert_allclose(model.predict_pair(X[:-1], X[1:]), pairs, rtol=1e-10, atol=1e-12)


def test_pairs_take_a_ridge_for_each_step():
    model = recipes.unregularized_pairs(step_size=PowerDecay(0.5, 0.5), kernel=KERNEL)
    model.set_params(regularization=PowerDecay(0.9, 1.0)).partial_fit(X, LABELS)
    oracle = oracles_pairwise.naive_pairs(
        X,
        LABELS,
        kernel=oracles_pairwise.gaussian(0.7),
        schedule=(0.5, 0.5),
        regularization=0.9 / np.arange(1.0, 97.0),
    )
    pairs = oracle.at_rows(KERNEL(X), np.arange(95), np.arange(1, 96))
    assert_allclose(model.predict_pair(X[:-1], X[1:]), pairs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "L", "theta"),
    [("logistic", 0.25, 0.8), ("squared_hinge", 2, 5 / 6), ("least_squares_margin", 2, 5 / 6)],
)
def test_steps_of_pairs_are_the_largest_of_theorems_3_and_4(loss, L, theta):
    # The difference kernel of a Gaussian is at most 2.
    largest = PowerDecay(1.0 / (4.0 * 2.0 * L), theta)
    models = [recipes.unregularized_pairs(loss, kernel=KERNEL)]
    models.append(recipes.unregularized_pairs(loss, kernel=KERNEL, step_size=largest))
    by_name, written = (
        model.partial_fit(X, LABELS).predict_pair(X[:-1], X[1:]) for model in models
    )
    assert_allclose(by_name, written, **CLOSE)


@pytest.mark.parametrize("name", recipes.__all__)
def test_recipes_are_plain_estimators(name):
    model = getattr(recipes, name)(kernel=KERNEL)
    assert isinstance(model, KernelClassifier | KernelRegressor | KernelRanker)
    assert repr(clone(model)) == repr(model)
    with pytest.raises(ValueError, match="`loss` must be"):
        getattr(recipes, name)("nothing")


def test_colk_takes_mixtures_of_risks():
    mixed = recipes.colk(risk=0.5 * Variance(0.1) + CVaR(0.9), beta=0.2, kernel=KERNEL)
    parts = mixed.risk.risks
    assert [part.units for part in parts] == [0.5, 0.5] == [mixed.risk.units] * 2
    assert parts[0].tracker.rate == 0.2
    alone, sum_of_one = (
        recipes.colk(risk=risk, kernel=KERNEL).partial_fit(X, TARGETS).predict(X)
        for risk in (Variance(0.1), Mixture([Variance(0.1)], [1.0]))
    )
    assert_allclose(sum_of_one, alone, **CLOSE)
    with pytest.raises(ValueError, match="`risk` must not be the mean"):
        recipes.colk(risk=Mixture([Mean()], [1.0]))


def test_settings_of_a_paper_may_be_schedules():
    # The loss of COLK is twice the library's, so steps count twice and ridges half.
    falling, ridge = PowerDecay(0.5, 0.5), PowerDecay(0.1, 1.0)
    model = recipes.colk(risk=Variance(0.1), alpha=falling, regularization=ridge, kernel=KERNEL)
    assert [model.step_size(t) for t in (1, 4)] == [1.0, 0.5]
    assert [model.regularization(t) for t in (1, 4)] == [0.05, 0.0125]
    assert model.partial_fit(X, TARGETS).model_order_ > 1
    assert recipes.dsg("squared_hinge", nu=ridge).regularization(1) == 0.2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: recipes.colk(alpha="a"), "`alpha` must be a finite number"),
        (lambda: recipes.colk(K=-1.0), r"`K` must be a finite number in \[0, inf\), got -1.0"),
        (lambda: recipes.colk(risk="cvar:0.9", tracker="x"), "`rule` must be one of"),
        (lambda: recipes.dsg(theta="a"), "`theta` must be a finite number"),
        (lambda: recipes.dsg(nu="auto"), "`nu` must be a finite number"),
        (lambda: recipes.unregularized("hinge"), "with a Hölder continuous slope"),
        (lambda: recipes.unregularized_pairs("hinge"), "with a Lipschitz continuous slope"),
        (
            lambda: recipes.unregularized_pairs(QNormHinge(1.5)),
            "with a Lipschitz continuous slope",
        ),
    ],
)
def test_wrong_settings_are_told_in_the_words_of_the_paper(call, match):
    with pytest.raises(ValueError, match=match):
        call()
