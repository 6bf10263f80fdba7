"""The solvers for comparison solve what they say they solve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from mercer import KernelClassifier
from mercer.expansions import Full
from mercer.kernels import Gaussian
from mercer.learner import KernelLearner
from mercer.losses import Hinge, Logistic, Squared, SquaredHinge
from mercer.reproduce.baselines import (
    NORMA,
    RBCD,
    SBMD,
    SDCA,
    CachedFeatures,
    KernelSDCA,
    NystroemMap,
    Pegasos,
    RandomFeatureMap,
    _base,
    row_batches,
)
from mercer.schedules import PowerDecay

KERNEL = Gaussian(1.0)
RIDGE = 0.01
N = 90


def problem(n=N, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)).astype(dtype)
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def exact_features(X):
    """Features whose inner products are the kernel's on these rows."""
    return CachedFeatures(NystroemMap(KERNEL, X), X)


def advance(solver, n_steps):
    for _ in range(n_steps):
        solver.step()
    return solver


def objective(loss, y, f, squared_norm):
    return float(np.mean(loss.value(y, f)) + 0.5 * RIDGE * squared_norm)


# -- the exact kernel -----------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("step_size", [0.5, PowerDecay(2.0)])
def test_norma_is_functional_sgd_with_all_points_kept(batch_size, step_size, monkeypatch):
    # Both ways through the learner are the same, and this one needs no compiling.
    monkeypatch.setattr(KernelLearner, "compiled", lambda self, dtype: None)
    X, y = problem(96)
    settings = {"step_size": step_size, "regularization": RIDGE, "batch_size": batch_size}
    solver = NORMA(X, y, KERNEL, Logistic(), average=False, seed=3, **settings)
    advance(solver, 96 // batch_size)
    model = KernelClassifier(
        "logistic", kernel=KERNEL, expansion=Full(), average=None, **settings
    ).partial_fit(solver.rows.X, solver.rows.y)
    assert_allclose(solver.decision_function(X), model.decision_function(X), rtol=1e-9)


def test_norma_predicts_with_the_mean_of_the_later_half_of_the_iterates():
    X, y = problem(40)
    settings = {"step_size": 1.0, "regularization": 0.1, "batch_size": 8, "seed": 1}
    averaged = NORMA(X, y, KERNEL, Hinge(), **settings)
    plain = NORMA(X, y, KERNEL, Hinge(), average=False, **settings)
    iterates = []
    for _ in range(13):  # more than two passes: rows have coefficients of several steps
        averaged.step()
        plain.step()
        iterates.append(plain.coefficients)
    assert_allclose(averaged.coefficients, np.mean(iterates[6:], axis=0), rtol=1e-12, atol=1e-15)


def test_norma_refuses_steps_after_which_nothing_is_left():
    X, y = problem(10)
    solver = NORMA(X, y, KERNEL, Hinge(), step_size=1.0, regularization=1.0)
    with pytest.raises(ValueError, match="nothing would be left"):
        solver.step()


def dual_gap(loss_value, y, dual, gram, nu_n):
    """Primal minus dual value of the hinge problem, both times n."""
    f = gram @ dual / nu_n
    norm = dual @ f
    return loss_value(y, f).sum() + 0.5 * norm - (y @ dual - 0.5 * norm)


LAST = {"regularization": RIDGE, "average": False}


def test_kernel_sdca_closes_the_duality_gap_of_the_svm():
    X, y = problem()
    solver = advance(KernelSDCA(X, y, KERNEL, "hinge", batch_size=16, **LAST), 12000)
    gram, y = KERNEL(solver.rows.X), solver.rows.y
    beta = y * solver.dual
    assert beta.min() >= 0.0
    assert beta.max() <= 1.0
    start = dual_gap(Hinge().value, y, np.zeros(N), gram, RIDGE * N)
    assert dual_gap(Hinge().value, y, solver.dual, gram, RIDGE * N) < 1e-6 * start


def test_kernel_sdca_solves_kernel_ridge_regression():
    X, _ = problem()
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    solver = advance(KernelSDCA(X, y, KERNEL, "square", batch_size=16, **LAST), 6000)
    expected = KERNEL(X) @ np.linalg.solve(KERNEL(X) + RIDGE * N * np.eye(N), y)
    assert_allclose(solver.decision_function(X), expected, atol=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_the_batches_of_kernel_sdca_are_only_a_way_to_compute(loss):
    X, y = problem()
    duals = []
    for batch_size in (1, 16, N):
        solver = KernelSDCA(X, y, KERNEL, loss, batch_size=batch_size, **LAST)
        duals.append(advance(solver, -(-N // batch_size)).dual)
    assert_allclose(duals[1], duals[0], atol=1e-10)
    assert_allclose(duals[2], duals[0], atol=1e-10)


def test_sdca_predicts_with_the_mean_of_the_functions_weighted_by_their_number():
    X, y = problem()
    for make in (
        lambda average: KernelSDCA(X, y, KERNEL, "hinge", regularization=RIDGE, average=average),
        lambda average: SDCA(exact_features(X), y, "hinge", regularization=RIDGE, average=average),
    ):
        averaged, last = make(True), make(False)
        scores = []
        for _ in range(4):
            averaged.step()
            last.step()
            scores.append(last.decision_function(X))
        expected = np.average(scores, axis=0, weights=[1.0, 2.0, 3.0, 4.0])
        assert_allclose(averaged.decision_function(X), expected, atol=1e-10)


# -- features -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_sdca_on_exact_features_is_kernel_sdca_at_the_solution(loss):
    X, y = problem()
    on_kernel = KernelSDCA(X, y, KERNEL, loss, batch_size=30, **LAST)
    on_features = SDCA(exact_features(X), y, loss, batch_size=30, **LAST)
    # Features are in float32: their inner products have errors of 1e-7, which the hinge's kinks
    # enlarge.
    expected = advance(on_kernel, 3000).decision_function(X)
    assert_allclose(advance(on_features, 9000).decision_function(X), expected, atol=1e-3)


def test_sdca_reaches_the_solution_of_liblinear():
    X, y = problem()
    features = exact_features(X)
    solver = advance(SDCA(features, y, "hinge", batch_size=30, **LAST), 9000)
    svc = LinearSVC(
        loss="hinge", C=1 / (RIDGE * N), fit_intercept=False, tol=1e-10, max_iter=10**7
    ).fit(features[np.arange(N)].astype(np.float64), y)
    assert_allclose(solver.decision_function(X), svc.decision_function(features.make(X)), atol=1e-3)


def optimum(loss, Z, y):
    """Value of the regularised problem at its solution, by a general solver."""
    if loss == Hinge():
        C = 1 / (RIDGE * y.size)
        svc = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=10**7)
        w = svc.fit(Z, y).coef_[0]
        return objective(loss, y, Z @ w, w @ w)

    def value(w):
        f = Z @ w
        return objective(loss, y, f, w @ w), loss.derivative(y, f) @ Z / y.size + RIDGE * w

    return minimize(value, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B", tol=1e-14).fun


APPROACHING = {
    # Solver, loss, steps, and by which part of the first value the last may exceed the optimum.
    "Pegasos": (
        lambda Z, y: Pegasos(Z, y, regularization=RIDGE, batch_size=8),
        Hinge(),
        20000,
        2e-3,
    ),
    "SBMD": (
        lambda Z, y: SBMD(
            Z, y, Hinge(), step_size=PowerDecay(4.0), regularization=RIDGE, batch_size=8, n_blocks=4
        ),
        Hinge(),
        20000,
        1e-2,
    ),
    "RBCD": (
        lambda Z, y: RBCD(Z, y, Logistic(), regularization=RIDGE, n_blocks=4),
        Logistic(),
        4000,
        1e-5,
    ),
    "RBCD, squared hinge": (
        lambda Z, y: RBCD(Z, y, SquaredHinge(), regularization=RIDGE, n_blocks=4),
        SquaredHinge(),
        4000,
        1e-5,
    ),
}


@pytest.mark.parametrize(
    ("make", "loss", "n_steps", "excess"), APPROACHING.values(), ids=APPROACHING
)
def test_solvers_on_features_approach_the_regularised_solution(make, loss, n_steps, excess):
    X, y = problem()
    features = CachedFeatures(NystroemMap.from_rows(KERNEL, X, 20), X)
    Z = features[np.arange(N)].astype(np.float64)
    solver = advance(make(features, y), n_steps)
    w = solver.weights
    reached, best = objective(loss, y, Z @ w, w @ w), optimum(loss, Z, y)
    first = objective(loss, y, np.zeros(N), 0.0)
    assert best - 1e-6 <= reached <= best + excess * first


def test_rbcd_refuses_losses_with_kinks():
    X, y = problem()
    with pytest.raises(ValueError, match="not smooth"):
        RBCD(exact_features(X), y, Hinge(), regularization=RIDGE)


# -- maps and batches -----------------------------------------------------------------------------


def test_nystroem_features_are_exact_on_the_landmarks():
    X, _ = problem()
    Z = NystroemMap(KERNEL, X[:20])(X)
    assert_allclose(Z @ Z[:20].T, KERNEL(X, X[:20]), atol=1e-7)


def test_nystroem_survives_landmarks_that_repeat_each_other():
    X, _ = problem()
    repeated = NystroemMap(KERNEL, np.concatenate([X[:10], X[:10]]))(X)
    once = NystroemMap(KERNEL, X[:10])(X)
    assert_allclose(repeated @ repeated.T, once @ once.T, atol=1e-7)


def test_random_features_have_the_kernel_as_their_mean_product():
    X, _ = problem(30)
    products = [(Z := RandomFeatureMap(KERNEL, 256, seed)(X)) @ Z.T for seed in range(40)]
    spread = np.std(products, axis=0, ddof=1) / np.sqrt(40)
    scores = (np.mean(products, axis=0) - KERNEL(X)) / np.maximum(spread, 1e-6)
    # The largest of 465 scores of 40 draws each.
    assert np.abs(scores).max() < 5.0


def test_features_are_computed_once_for_each_row_and_again_without_memory(monkeypatch):
    X, _ = problem()
    seen = []

    def make(rows):
        seen.append(len(rows))
        return rows * 2.0

    kept = CachedFeatures(make, X)
    order = np.array([3, 1, 2])
    assert_allclose(kept[order], 2.0 * X[order], rtol=1e-6)
    assert_allclose(kept[np.array([1, 5])], 2.0 * X[[1, 5]], rtol=1e-6)
    assert sum(seen) == 1 + 3 + 1  # one row to count the features
    monkeypatch.setattr(_base, "_CACHE_BYTES", 0)
    again = CachedFeatures(make, X)
    assert_allclose(again[order], 2.0 * X[order], rtol=1e-6)
    assert_allclose(again[order], kept[order])


def test_every_pass_visits_each_row_at_most_once_in_a_new_order():
    batches = row_batches(10, 3, seed=0)
    first, second = (np.concatenate([next(batches) for _ in range(3)]) for _ in range(2))
    assert np.unique(first).size == 9
    assert np.unique(second).size == 9
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_norma_learns_with_any_loss_of_one_output(loss):
    X, y = problem()
    solver = NORMA(X, y, KERNEL, loss, step_size=1.0, regularization=1e-3, batch_size=10)
    start = objective(loss, y, solver.decision_function(X), 0.0)
    assert objective(loss, y, advance(solver, 200).decision_function(X), 0.0) < 0.7 * start
