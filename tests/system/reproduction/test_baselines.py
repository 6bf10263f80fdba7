"""The solvers for comparison solve what they say they solve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from mercer import KernelClassifier, KernelRegressor
from mercer.exceptions import DivergenceError
from mercer.expansions import Budget, Full
from mercer.kernels import Gaussian
from mercer.learning import KernelLearner
from mercer.losses import Hinge, Logistic, Squared, SquaredHinge
from mercer.risks import CentralMoments, CVaR, Tracker, UpperSemideviation, Variance
from mercer.schedules import PowerDecay
from mercer_reproduction.baselines import (
    NORMA,
    NPBSGD,
    RBCD,
    SBMD,
    SDCA,
    CachedFeatures,
    KernelSDCA,
    NystroemMap,
    Pegasos,
    RandomFeatureMap,
    RBFNetwork,
    _base,
    row_batches,
)

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


def test_norma_learns_many_targets_as_if_each_were_alone():
    X, y = problem(40)
    settings = {"step_size": 1.0, "regularization": 0.1, "batch_size": 8, "seed": 1}
    targets = np.column_stack([y, X])
    together = advance(NORMA(X, targets, KERNEL, Squared(), **settings), 13).decision_function(X)
    for j, target in enumerate(targets.T):
        alone = advance(NORMA(X, target, KERNEL, Squared(), **settings), 13)
        assert_allclose(together[:, j], alone.decision_function(X), rtol=1e-12, atol=1e-15)


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
    solver = advance(KernelSDCA(X, y, KERNEL, "hinge", batch_size=16, **LAST), 8000)
    gram, y = KERNEL(solver.rows.X), solver.rows.y
    beta = y * solver.dual
    assert beta.min() >= 0.0
    assert beta.max() <= 1.0
    start = dual_gap(Hinge().value, y, np.zeros(N), gram, RIDGE * N)
    assert dual_gap(Hinge().value, y, solver.dual, gram, RIDGE * N) < 1e-6 * start


def test_kernel_sdca_solves_kernel_ridge_regression():
    X, _ = problem()
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    solver = advance(KernelSDCA(X, y, KERNEL, "square", batch_size=16, **LAST), 4000)
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
    "Pegasos, squares": (
        lambda Z, y: Pegasos(Z, y, "square", regularization=RIDGE, batch_size=8),
        Squared(),
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


# -- a budget of points ---------------------------------------------------------------------------

BUDGETED = {"step_size": 0.5, "regularization": RIDGE}


def regression(n=N):
    X, _ = problem(n)
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


def test_npbsgd_like_is_norma_while_there_is_room():
    X, y = regression()
    norma = NORMA(X, y, KERNEL, Squared(), average=False, **BUDGETED)
    solver = NPBSGD(norma.rows.X, norma.rows.y, KERNEL, Squared(), size=N, **BUDGETED)
    expected = advance(norma, N).decision_function(X)
    assert_allclose(advance(solver, N).decision_function(X), expected, rtol=1e-9)
    assert solver.model_order == N


def nearest_projection(dictionary, coefficients, n_neighbours, ridge):
    """Remove the smallest term: minimise the RKHS error over the neighbours, plus the ridge."""
    j = np.argmin(np.abs(coefficients))
    others = np.delete(np.arange(len(coefficients)), j)
    distances = np.linalg.norm(dictionary[others] - dictionary[j], axis=1)
    near = others[np.argsort(distances)[:n_neighbours]]
    K = KERNEL(dictionary[near])
    k = KERNEL(dictionary[near], dictionary[[j]])[:, 0]
    # |f_j - sum_i u_i k(d_i, .)|^2 + ridge |u|^2 with f_j = w_j k(d_j, .), by its normal equations.
    L = np.linalg.cholesky(K + ridge * np.eye(near.size))
    u = np.linalg.lstsq(L.T, np.linalg.solve(L, coefficients[j] * k), rcond=None)[0]
    changed = coefficients.copy()
    changed[near] += u
    return dictionary[others], changed[others]


@pytest.mark.parametrize("n_neighbours", [1, 5, 50])
def test_what_npbsgd_like_removes_goes_to_its_nearest_neighbours(n_neighbours):
    X, y = regression(40)
    size, ridge = 12, 1e-3
    solver = NPBSGD(
        X, y, KERNEL, Squared(), size=size, n_neighbours=n_neighbours, ridge=ridge, **BUDGETED
    )
    dictionary, coefficients = np.empty((0, 2)), np.empty(0)
    for x, target in zip(X, y, strict=True):
        score = KERNEL(x[None], dictionary)[0] @ coefficients if len(dictionary) else 0.0
        new = -0.5 * (score - target)
        dictionary = np.vstack([dictionary, x])
        coefficients = np.append((1.0 - 0.5 * RIDGE) * coefficients, new)
        if len(dictionary) > size:
            dictionary, coefficients = nearest_projection(
                dictionary, coefficients, n_neighbours, ridge
            )
        solver.step()
        assert solver.model_order == len(dictionary) <= size
        # The same points, in another order.
        mine, theirs = np.lexsort(solver.dictionary.T), np.lexsort(dictionary.T)
        assert_allclose(solver.dictionary[mine], dictionary[theirs], rtol=0)
        assert_allclose(solver.coefficients[mine], coefficients[theirs], rtol=1e-7, atol=1e-10)


def test_npbsgd_like_with_all_neighbours_is_bsgd_with_projection(monkeypatch):
    monkeypatch.setattr(KernelLearner, "compiled", lambda self, dtype: None)
    # Points so far from each other that neither way has to guard against a singular Gram matrix.
    X = np.random.default_rng(0).permutation(np.linspace(0, 20, 30))[:, None]
    y = np.sin(X[:, 0])
    solver = NPBSGD(X, y, KERNEL, Squared(), size=10, n_neighbours=10, ridge=0.0, **BUDGETED)
    model = KernelRegressor(
        "squared",
        kernel=KERNEL,
        expansion=Budget(10, "project"),
        batch_size=1,
        average=None,
        **BUDGETED,
    ).partial_fit(X, y)
    assert_allclose(
        advance(solver, 30).decision_function(X), model.predict(X), rtol=1e-6, atol=1e-9
    )


def test_npbsgd_like_says_that_it_diverged():
    X, y = regression()
    solver = NPBSGD(X, y, KERNEL, Squared(), step_size=50.0, regularization=0.0, size=20)
    with pytest.raises(DivergenceError, match=r"no longer finite after \d+ steps of size 50"):
        advance(solver, 5000)


# -- fixed centres and a risk ---------------------------------------------------------------------

STREAM = Tracker("scgd", rate=0.05, pairs="stream")
CENTRES = np.random.default_rng(5).standard_normal((12, 2))


def paired_rows(n_pairs, seed=0):
    X, y = regression()
    rng = np.random.default_rng(seed)
    rows = rng.integers(N, size=2 * n_pairs)
    return X[rows], y[rows]


def test_the_network_with_the_mean_loss_is_sgd_on_its_features():
    X, y = regression()
    network = RBFNetwork(X, y, KERNEL, CENTRES, Squared(), None, batch_size=3, **BUDGETED)
    w = np.zeros(12)
    for t in range(40):  # more than one pass
        rows = np.arange(3 * t, 3 * t + 3) % N
        Z = KERNEL(X[rows], CENTRES)
        w -= 0.5 * (Z.T @ (Z @ w - y[rows]) / 3 + RIDGE * w)
    assert_allclose(advance(network, 40).weights, w, rtol=1e-9)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_network_follows_the_formulas_of_scgd(clip):
    X, y = paired_rows(60)
    weight, beta, step = 0.4, 0.05, 0.1
    risk = Variance(weight, units=1.0, max_deviation=None, tracker=STREAM, clip=clip)
    network = RBFNetwork(
        X, y, KERNEL, CENTRES, Squared(), risk, step_size=step, regularization=RIDGE
    )
    w, g, n_clipped = np.zeros(12), None, 0
    for t in range(60):
        (z, z2), (u, u2) = KERNEL(X[2 * t : 2 * t + 2], CENTRES), y[2 * t : 2 * t + 2]
        h = 0.5 * (z2 @ w - u2) ** 2
        g = h if g is None else (1 - beta) * g + beta * h  # COLK, eq. (19)
        a = max(1.0 + 2.0 * weight * (0.5 * (z @ w - u) ** 2 - g), 0.0)
        own, other = a * (z @ w - u), (1.0 - a) * (z2 @ w - u2)
        largest = max(abs(own), abs(other))
        if clip is not None and largest > clip:
            own, other, n_clipped = own * clip / largest, other * clip / largest, n_clipped + 1
        w = (1.0 - step * RIDGE) * w - step * (own * z + other * z2)
        network.step()
        assert_allclose(network.weights, w, rtol=1e-9, atol=1e-12)
    assert network.objective.inner == pytest.approx([g])
    assert network.monitors["clipped_fraction"] == pytest.approx(n_clipped / 60)
    assert (n_clipped > 0) == (clip is not None)


def test_the_network_follows_the_formulas_of_nasa():
    X, y = paired_rows(60)
    weight, beta, rho, step = 0.4, 0.05, 0.2, 0.1
    tracker = Tracker("nasa", rate=beta, pairs="stream", direction_rate=rho)
    risk = Variance(weight, units=1.0, max_deviation=None, tracker=tracker)
    network = RBFNetwork(
        X, y, KERNEL, CENTRES, Squared(), risk, step_size=step, regularization=RIDGE
    )
    w, d, g = np.zeros(12), np.zeros(12), None
    for t in range(60):
        (z, z2), (u, u2) = KERNEL(X[2 * t : 2 * t + 2], CENTRES), y[2 * t : 2 * t + 2]
        h = 0.5 * (z2 @ w - u2) ** 2
        g = h if g is None else g
        a = max(1.0 + 2.0 * weight * (0.5 * (z @ w - u) ** 2 - g), 0.0)
        g = (1 - beta) * g + beta * h  # at once with the step: Jacobi
        gradient = a * (z @ w - u) * z + (1.0 - a) * (z2 @ w - u2) * z2
        d = (1 - rho) * d + rho * gradient
        w = (1.0 - step * RIDGE) * w - step * d
        network.step()
        assert_allclose(network.weights, w, rtol=1e-9, atol=1e-12)
    assert network.objective.inner == pytest.approx([g])
    assert network.weights.shape == (12,)


def variance(losses):
    return losses.mean() + 0.3 * losses.var()


def semideviation(losses):
    z = (losses - losses.mean()) / 0.05
    return losses.mean() + 0.8 * 0.05 * np.logaddexp(0.0, z).mean()


def worst_part(losses):
    return np.sort(losses)[-N // 5 :].mean()


RISKS = {
    "variance": (Variance(0.3, units=1.0, max_deviation=None, tracker=STREAM), variance),
    "semideviation": (
        UpperSemideviation(0.8, units=1.0, smoothing=0.05, tracker=STREAM),
        semideviation,
    ),
    "CVaR": (CVaR(0.8, units=1.0, smoothing=0.01, quantile_step=0.003), worst_part),
}


@pytest.mark.parametrize(("risk", "value"), RISKS.values(), ids=RISKS)
def test_the_network_approaches_the_least_risk(risk, value):
    X, y = regression()
    y = y + 0.3 * np.random.default_rng(2).standard_normal(N)
    Z = KERNEL(X, CENTRES)

    def of_weights(w):
        return value(0.5 * (Z @ w - y) ** 2) + 0.5 * RIDGE * w @ w

    rows = np.random.default_rng(1).integers(N, size=8000)
    network = RBFNetwork(
        X[rows], y[rows], KERNEL, CENTRES, Squared(), risk, step_size=0.015, regularization=RIDGE
    )
    first = of_weights(np.zeros(12))
    least = minimize(of_weights, np.zeros(12), method="BFGS").fun
    reached = of_weights(advance(network, 4000).weights)
    # Steps of constant size: the last iterate stays in a neighbourhood of the optimum.
    assert least - 1e-6 <= reached <= least + 0.05 * (first - least)


def test_the_network_says_that_it_diverged_and_what_to_change():
    X, y = paired_rows(400)
    risk = CentralMoments(4, weight=1.0, units=1.0, max_deviation=None, tracker=STREAM)
    network = RBFNetwork(
        X, 10 * y, KERNEL, CENTRES, Squared(), risk, step_size=0.5, regularization=0.0
    )
    with pytest.raises(DivergenceError, match=r"(?s)no longer finite after .*`clip`"):
        advance(network, 400)


def test_the_network_refuses_trackers_of_other_rules():
    X, y = regression()
    with pytest.raises(ValueError, match=r"trained by SCGD or NASA.*Tracker\('scgd'"):
        RBFNetwork(X, y, KERNEL, CENTRES, Squared(), Variance(), **BUDGETED)
