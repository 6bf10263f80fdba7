"""The batch methods that POLK is compared with find the optima that they are meant to find."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from mercer.exceptions import DivergenceError
from mercer.kernels import Gaussian
from mercer.losses import MulticlassHinge, Softmax
from mercer.schedules import PowerDecay
from mercer_reproduction.baselines import (
    NPBSGD,
    KernelFactor,
    SmoothedHinge,
    import_vectors,
    minimize_risk,
)
from mercer_reproduction.baselines.ivm import _Fit

KERNEL = Gaussian(0.8)
RIDGE = 1e-3
C = 3


def problem(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n), [-0.3, 0.7])
    return X, y


def risk(loss, K, y, coefficients):
    """Objective of a function on all rows."""
    penalty = np.sum(coefficients * (K @ coefficients))
    return float(np.mean(loss.value(y, K @ coefficients)) + 0.5 * RIDGE * penalty)


def newton_logistic(K, y):
    """Minimise over the coefficients of all rows by damped Newton steps; dense and slow."""
    n = len(K)
    a, wanted = np.zeros((n, C)), np.eye(C)[y]
    for _ in range(50):
        F = K @ a
        p = np.exp(F - F.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        # The gradient divided by K: it is 0 at the optimum, since K is regular.
        residual = (p - wanted) / n + RIDGE * a
        curvature = np.zeros((n, C, n, C))
        for i in range(n):
            W = (np.diag(p[i]) - np.outer(p[i], p[i])) / n
            curvature[i] = np.einsum("cd,j->cjd", W, K[i])
            curvature[i, :, i, :] += RIDGE * np.eye(C)
        move = np.linalg.solve(curvature.reshape(n * C, n * C), residual.ravel()).reshape(n, C)
        size = 1.0
        while risk(Softmax(), K, y, a - size * move) > risk(Softmax(), K, y, a) and size > 1e-6:
            size /= 2
        a = a - size * move
    assert np.abs(residual).max() < 1e-12
    return a


@pytest.fixture(scope="module")
def solved():
    X, y = problem()
    return X, y, newton_logistic(KERNEL(X), y)


# -- L-BFGS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_factor_is_one_of_the_kernel_matrix(dtype):
    X = np.random.default_rng(1).standard_normal((60, 3)).astype(dtype)
    factor = KernelFactor(X, KERNEL)
    assert factor.rows.dtype == dtype
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    assert_allclose(factor.rows @ factor.rows.T, KERNEL(X), atol=tolerance)


def test_rows_that_depend_on_others_are_left_out_of_the_basis():
    X, _ = problem(20)
    factor = KernelFactor(np.vstack([X, X, X]), KERNEL)
    assert factor.rank == 20
    b = np.random.default_rng(0).standard_normal((20, 2))
    f = factor.function(b)
    assert f.model_order == 20
    assert_allclose(f.decision_function(X), factor.rows[:20] @ b, atol=1e-6)
    gram = KERNEL(f.dictionary)
    assert np.sum(f.coefficients * (gram @ f.coefficients)) == pytest.approx(np.sum(b**2))


def test_l_bfgs_finds_the_optimum_of_logistic_regression(solved):
    X, y, expected = solved
    factor = KernelFactor(X, KERNEL)
    f = minimize_risk(
        factor, y, Softmax(), n_outputs=C, regularization=RIDGE, tolerance=1e-8, max_iterations=3000
    )
    assert_allclose(f.decision_function(X), KERNEL(X) @ expected, atol=1e-4)


def least_hinge(K, y):
    """Optimum of the multi-class SVM by sequential quadratic programming, to about 1e-6."""
    n = len(K)
    L = np.linalg.cholesky(K + 1e-10 * np.eye(n))

    # Variables: b with f = L b, and a slack for each row.
    def split(v):
        return v[: n * C].reshape(n, C), v[n * C :]

    def value(v):
        b, slack = split(v)
        return slack.mean() + 0.5 * RIDGE * np.sum(b**2)

    def slope(v):
        b, _ = split(v)
        return np.r_[RIDGE * b.ravel(), np.full(n, 1.0 / n)]

    rows = []
    for i in range(n):
        for c in range(C):
            if c != y[i]:
                row = np.zeros((n, C))
                row[:, y[i]] += L[i]
                row[:, c] -= L[i]
                rows.append(np.r_[row.ravel(), np.eye(n)[i]])
    A = np.array(rows)
    start = np.r_[np.zeros(n * C), np.ones(n)]
    found = minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(None, None)] * (n * C) + [(0, None)] * n,
        constraints={"type": "ineq", "fun": lambda v: A @ v - 1.0, "jac": lambda v: A},
        options={"maxiter": 300, "ftol": 1e-10},
    )
    assert found.success
    return found.fun


def test_l_bfgs_comes_to_the_optimum_of_the_svm_by_ever_narrower_hinges():
    X, y = problem(16)
    K, factor, f = KERNEL(X), KernelFactor(X, KERNEL), None
    excesses = []
    for width in (1.0, 0.1, 0.01, 0.001):
        f = minimize_risk(
            factor, y, SmoothedHinge(width), n_outputs=C, regularization=RIDGE, start=f
        )
        scores = f.decision_function(X)
        norm = np.sum(f.coordinates**2)
        objective = np.mean(MulticlassHinge().value(y, scores)) + 0.5 * RIDGE * norm
        excesses.append(objective - least_hinge(K, y))
    # The smoothed hinge exceeds the hinge by at most width * log(C): so does the optimum.
    assert -1e-5 < excesses[-1] < 0.001 * np.log(C)
    assert excesses[-1] < excesses[0]


@pytest.mark.parametrize("width", [1.0, 0.1, 1e-3])
def test_the_smoothed_hinge_is_between_the_hinge_and_what_it_may_exceed_it_by(width):
    rng = np.random.default_rng(0)
    F, y = 2.0 * rng.standard_normal((200, C)), rng.integers(C, size=200)
    smooth, plain = SmoothedHinge(width).value(y, F), MulticlassHinge().value(y, F)
    assert np.all(smooth >= plain - 1e-12)
    assert np.all(smooth <= plain + width * np.log(C) + 1e-12)


def test_the_slopes_of_the_smoothed_hinge_are_those_of_its_value():
    rng = np.random.default_rng(1)
    F, y, loss = rng.standard_normal((30, C)), rng.integers(C, size=30), SmoothedHinge(0.3)
    for c in range(C):
        step = 1e-6 * np.eye(C)[c]
        numeric = (loss.value(y, F + step) - loss.value(y, F - step)) / 2e-6
        assert_allclose(loss.derivative(y, F)[:, c], numeric, atol=1e-7)


# -- import vectors -------------------------------------------------------------------------------


def test_with_all_points_import_vectors_are_logistic_regression(solved):
    X, y, expected = solved
    found = import_vectors(X, y, KERNEL, n_classes=C, regularization=RIDGE, tolerance=0.0)
    F = found.function.decision_function(X)
    assert_allclose(F, KERNEL(X) @ expected, atol=1e-5)
    assert found.objectives[-1] == pytest.approx(risk(Softmax(), KERNEL(X), y, expected), rel=1e-9)


def test_the_fit_on_the_chosen_rows_has_no_slope_left(solved):
    X, y, _ = solved
    found = import_vectors(X, y, KERNEL, n_classes=C, regularization=RIDGE, max_size=6)
    S, K = found.chosen, KERNEL(X)
    assert len(S) == len(set(S.tolist())) == 6

    def objective(flat):
        coefficients = np.zeros((len(X), C))
        coefficients[S] = flat.reshape(6, C)
        return risk(Softmax(), K, y, coefficients)

    w = found.function.coefficients.ravel()
    for i in range(w.size):
        step = 1e-5 * np.eye(w.size)[i]
        assert abs(objective(w + step) - objective(w - step)) / 2e-5 < 1e-7
    assert objective(w) == pytest.approx(found.objectives[-1], rel=1e-12)


def test_every_import_vector_lowers_the_objective_by_what_it_has_to():
    X, y = problem(120)
    found = import_vectors(X, y, KERNEL, n_classes=C, regularization=RIDGE, tolerance=0.01)
    gains = -np.diff(found.objectives)
    assert np.all(gains >= 0.01 * found.objectives[1:])
    assert 3 <= found.function.model_order == gains.size < 30
    assert found.objectives[0] == pytest.approx(np.log(C))


def test_a_promise_is_the_decrease_of_the_quadratic_model(solved):
    """Minimise the local model of each class over all coefficients, chosen ones included."""
    X, y, _ = solved
    K, n = KERNEL(X), len(X)
    fit = _Fit(K, y, C, RIDGE)
    for row in (3, 17, 30):
        fit.add(row)
    p = np.exp(K[:, fit.chosen] @ fit.coefficients)
    p /= p.sum(axis=1, keepdims=True)
    promises = fit.promises()
    assert_array_equal(promises[fit.chosen], 0.0)
    for new in (0, 8, 25):
        T = [*fit.chosen, new]
        decrease = 0.0
        for c in range(C):
            w = np.r_[fit.coefficients[:, c], 0.0]
            slope = K[:, T].T @ (p[:, c] - (y == c)) / n + RIDGE * K[np.ix_(T, T)] @ w
            weight = np.diag(p[:, c] * (1 - p[:, c]) / n)
            curvature = K[:, T].T @ weight @ K[:, T] + RIDGE * K[np.ix_(T, T)]
            decrease += 0.5 * slope @ np.linalg.solve(curvature, slope)
        assert promises[new] == pytest.approx(decrease, rel=1e-5)


# -- NPBSGD for several classes -------------------------------------------------------------------

SETTINGS = {"step_size": 0.5, "regularization": RIDGE, "n_outputs": C}


def advance(solver, n_steps):
    for _ in range(n_steps):
        solver.step()
    return solver


def test_npbsgd_with_room_is_functional_sgd_for_all_classes():
    X, y = problem(600)  # more rows than one tile of kernel values
    solver = NPBSGD(X, y, KERNEL, MulticlassHinge(), size=600, **SETTINGS)
    advance(solver, 600)
    K, loss = KERNEL(X), MulticlassHinge()
    coefficients = np.zeros((600, C))
    for t in range(600):
        slopes = loss.derivative(y[t : t + 1], K[t : t + 1, :t] @ coefficients[:t])
        coefficients *= 1.0 - 0.5 * RIDGE
        coefficients[t] = -0.5 * slopes[0]
    assert_allclose(solver.decision_function(X), K @ coefficients, atol=1e-9)
    # Rows without slope are no points.
    assert solver.model_order == np.count_nonzero(coefficients.any(axis=1)) < 600


def test_npbsgd_keeps_its_budget_as_long_as_that_is_certain_and_grows_then():
    X, y = problem(1500)
    solver = NPBSGD(X, y, KERNEL, Softmax(), size=20, certain=500, seed=1, **SETTINGS)
    advance(solver, 500)
    assert solver.model_order == 20
    advance(solver, 1000)
    # Each row t > 500 adds a point with probability 1 - 500 / t: 1000 - 500 log 3 = 451 on
    # average, with a deviation below sqrt(451 / 2) = 15.
    assert abs(solver.model_order - 20 - 451) < 4 * 15
    again = NPBSGD(X, y, KERNEL, Softmax(), size=20, certain=500, seed=1, **SETTINGS)
    assert_array_equal(advance(again, 1500).decision_function(X), solver.decision_function(X))


def test_npbsgd_learns_with_its_published_steps():
    X, y = problem(2000)
    steps = {"step_size": PowerDecay(1.0 / RIDGE, 1.0), "regularization": RIDGE}
    solver = NPBSGD(X, y, KERNEL, MulticlassHinge(), size=30, n_outputs=C, certain=1000, **steps)
    advance(solver, 2000)
    X_test, y_test = problem(500, seed=1)
    assert np.mean(solver.decision_function(X_test).argmax(axis=1) != y_test) < 0.25


def test_rows_in_single_precision_are_stored_so():
    X, y = problem(100)
    solver = NPBSGD(X.astype(np.float32), y, KERNEL, Softmax(), size=10, **SETTINGS)
    assert advance(solver, 100).dictionary.dtype == np.float32
    double = advance(NPBSGD(X, y, KERNEL, Softmax(), size=10, **SETTINGS), 100)
    assert_allclose(solver.decision_function(X), double.decision_function(X), atol=1e-3)


def test_npbsgd_of_several_classes_says_that_it_diverged():
    X, y = problem(200)
    steps = {"step_size": 1e200, "regularization": 0.0, "n_outputs": C}
    solver = NPBSGD(X, y, KERNEL, MulticlassHinge(), size=20, **steps)
    with pytest.raises(DivergenceError, match="no longer finite"):
        advance(solver, 200)
