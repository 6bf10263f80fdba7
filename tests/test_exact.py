"""Exact kernel ridge regression: solutions, and what fits without some rows predict."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer.kernels import Bias, Gaussian, Laplacian, Linear, Matern, RationalQuadratic, Scaled
from mercer.sums import ExactRidge, GlobalPart, Rows
from mercer.sums.ridge import RIDGES, descend_ridges

MATERN = [lambda length, nu=nu: Matern(nu, length) for nu in (0.5, 1.5, 2.5, 3.2)]
KERNEL = Gaussian(1.0) + Bias(0.1)


def made_rows(n=30, n_outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    targets = np.sin(X[:, :1] * np.arange(1, n_outputs + 1)) + 0.3 * rng.normal(size=(n, n_outputs))
    return Rows(X, targets, rng.uniform(0.2, 3.0, n))


def solution(rows, ridge, total):
    """Coefficients of sum_i w_i |f(x_i) - y_i|² + total * ridge * |f|², from its equations."""
    K = KERNEL(rows.X, rows.X)
    return np.linalg.solve(K + total * ridge * np.diag(1.0 / rows.weights), rows.targets)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [1.0, 1e-3])
def test_coefficients_solve_the_equations(ridge, weighted):
    rows = made_rows()
    rows = rows if weighted else Rows(rows.X, rows.targets, np.ones(len(rows)))
    fit = ExactRidge(KERNEL(rows.X), rows.targets, rows.weights).fit(ridge)
    expected = solution(rows, ridge, rows.weights.sum())
    # The condition number is at most (n * 1.1 + n * ridge) / (n * ridge) < 2e3.
    assert_allclose(fit.coefficients, expected, atol=1e-11 * np.abs(expected).max())
    K = KERNEL(rows.X[:3], rows.X)
    assert_allclose(fit.values(K), K @ expected, atol=1e-11 * np.abs(expected).max() * len(rows))


@pytest.mark.parametrize(("n", "block"), [(30, 1), (13, 1), (30, 5), (12, 4), (30, 7), (10, 20)])
def test_rows_are_left_out_as_if_the_fit_were_made_without_them(n, block):
    rows, ridge = made_rows(), 1e-2
    total = rows.weights.sum()
    exact = ExactRidge(KERNEL(rows.X), rows.targets, rows.weights)
    found = exact.left_out(exact.fit(ridge), n, block)
    numbers = np.arange(30)
    assert found.shape == (n, 2)
    for i in range(30 - n, 30):
        # Of a block whose first rows are no judges, those that are.
        own = (numbers // block == i // block) & (numbers >= 30 - n)
        others = rows[~own]
        value = KERNEL(rows.X[[i]], others.X) @ solution(others, ridge, total)
        assert_allclose(found[i - 30 + n], (rows.targets[i] - value)[0], atol=1e-10)


def test_a_row_that_hardly_counts_is_predicted_by_the_others():
    rows = made_rows()
    rows.weights[3] = 1e-200
    exact = ExactRidge(KERNEL(rows.X), rows.targets, rows.weights)
    fit = exact.fit(1e-2)
    others = rows[np.arange(30) != 3]
    value = KERNEL(rows.X[[3]], others.X) @ solution(others, 1e-2, rows.weights.sum())
    assert_allclose(exact.left_out(fit, 30)[3], (rows.targets[3] - value)[0], rtol=1e-6)
    assert np.isfinite(fit.coefficients).all()


@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_single_precision_is_double_precision_but_for_rounding(size):
    rows = made_rows()
    targets = rows.targets * size
    fits = [
        ExactRidge(KERNEL(rows.X).astype(dtype), targets, rows.weights)
        for dtype in (np.float32, np.float64)
    ]
    single, double = (exact.left_out(exact.fit(1e-2), 20) for exact in fits)
    # Rounding of 6e-8 is enlarged by a condition number of 110 at most, and sums of 30 terms.
    assert_allclose(single, double, atol=6e-8 * 110 * 30 * np.abs(targets).max())


def test_a_matrix_that_is_not_positive_definite_has_no_fit():
    exact = ExactRidge(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 1)), np.ones(2))
    assert exact.fit(0.1) is None
    assert exact.fit(1.0) is not None  # 1 + 2 > 2


def test_the_descent_begins_with_a_ridge_that_is_enough():
    tried = []

    def judge(fit):
        tried.append(fit)
        return 1.0 / len(tried), "found"

    exact = ExactRidge(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 1)), np.ones(2))
    assert descend_ridges(exact, judge, 5, RIDGES) == (0, "found")
    hopeless = ExactRidge(np.array([[1.0, 9.0], [9.0, 1.0]]), np.ones((2, 1)), np.ones(2))
    assert descend_ridges(hopeless, judge, 5, RIDGES)[1] is None


# -- a part of all rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 5])
def test_a_part_of_all_rows_is_that_of_their_sums(block):
    rows = made_rows(60)
    one, other = (GlobalPart(KERNEL, rows.X, 2) for _ in range(2))
    for part in (one, other):
        part.fix_ridge(1e-3)
    exact, sums = one.solve_exactly(rows, 60, block), other.solve_without(rows, block)
    # The sums' matrix is K²/n + K / 1000 with a jitter of 1e-11: a ridge that is larger by up to
    # 1e-11 / k for functions of an eigenvalue k of K, of which f has parts of k / (k + .06).
    assert_allclose(exact, sums, atol=1e-6)
    X = made_rows(9, seed=1).X
    assert_allclose(one.evaluate(X), other.evaluate(X), atol=1e-6)


def test_the_last_rows_choose_the_ridge():
    rows = made_rows(80, 1)
    part = GlobalPart(KERNEL, rows.X, 1)
    found = part.solve_exactly(rows, 30)
    exact = ExactRidge(KERNEL(rows.X), rows.targets, rows.weights)
    errors = []
    for ridge in RIDGES:
        squares = exact.left_out(exact.fit(ridge), 30)[:, 0] ** 2
        errors.append(np.average(squares, weights=rows.weights[-30:]))
    assert part.ridge == np.argmin(errors)
    own = np.average((found - rows.targets[-30:])[:, 0] ** 2, weights=rows.weights[-30:])
    assert_allclose(own, min(errors), rtol=1e-9)


def test_predictions_do_not_depend_on_the_rows_beside_them():
    # A linear kernel has coefficients of residuals over the ridge, which cancel each other.
    rng = np.random.default_rng(0)
    X, asked = rng.normal(size=(500, 4)), rng.normal(size=(50, 4))
    y = X @ np.array([1.0, 2.0, 3.0, 4.0]) + rng.normal(size=500)
    part = GlobalPart(Linear() + Bias(0.1), X, 1, dtype=np.float32)
    part.solve_exactly(Rows(X, y[:, np.newaxis], np.ones(500)), 500)
    alone = np.concatenate([part.evaluate(row[np.newaxis]) for row in asked])
    assert np.abs(part.evaluate(asked) - alone).max() < 1e-3 * y.std()


def test_weak_ridges_are_found_in_double_precision():
    X = np.random.default_rng(0).uniform(size=(200, 1))
    rows = Rows(X, np.sin(6.0 * X), np.ones(200))  # without noise
    part = GlobalPart(Gaussian(0.5) + Bias(0.1), X, 1, dtype=np.float32)
    part.solve_exactly(rows, 200)
    assert part.basis.dtype == np.float64
    asked = np.linspace(0.1, 0.9, 50)[:, np.newaxis]
    assert_allclose(part.evaluate(asked), np.sin(6.0 * asked), atol=1e-4)
    noisy = Rows(X, rows.targets + np.random.default_rng(1).normal(size=(200, 1)), rows.weights)
    part = GlobalPart(Gaussian(0.5) + Bias(0.1), X, 1, dtype=np.float32)
    part.ridge = 3  # as of a pilot; errors are flat, and steps from another stay near it
    part.solve_exactly(noisy, 200)
    assert part.basis.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ridge", [None, 1e-300])
def test_a_matrix_that_rounding_makes_indefinite_is_fitted_by_sums(ridge, dtype):
    rows = made_rows(60)
    X = np.repeat(rows.X[:30], 2, axis=0)
    kernel = KERNEL if ridge else Scaled(KERNEL, 1e25)
    rows = Rows(X, rows.targets, rows.weights)
    exact, sums = GlobalPart(kernel, X, 2, dtype=dtype), GlobalPart(kernel, X, 2)
    for part in (exact, sums) if ridge else ():
        part.fix_ridge(ridge)
    found = exact.solve_exactly(rows, 20)
    assert_array_equal(found, sums.solve_without(rows)[40:])
    assert_array_equal(exact.evaluate(X), sums.evaluate(X))
    assert not exact.is_exact


def test_rows_beyond_single_precision_have_finite_values():
    rows = made_rows(60)
    part = GlobalPart(Linear() + KERNEL, rows.X, 2, dtype=np.float32)
    part.fix_ridge(1e-2)
    part.solve_exactly(rows, 60)
    assert part.basis.dtype == np.float32
    far = np.outer([1e37, 1e39, 1e300], [1.0, -1.0])
    assert np.isfinite(part.evaluate(far)).all()


# -- distances that are computed once -------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "make", [Gaussian, Laplacian, *MATERN, lambda length: RationalQuadratic(2.0, length)]
)
def test_kernels_of_a_distance_are_functions_of_their_separations(make, dtype):
    X, Z = made_rows().X.astype(dtype), made_rows(7, seed=1).X.astype(dtype)
    separations = make(1.0).separations(X, Z)
    before = separations.copy()
    for length in (0.3, 1.0, 5.0):
        kernel = make(length)
        assert_array_equal(kernel.of_separations(separations), kernel(X, Z))
        assert_array_equal(separations, before)
