"""KOMP, its square-root path and the budgets, against dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer.exceptions import ConditioningWarning
from mercer.expansions import KOMP, Budget, Full
from mercer.functions import KernelExpansion
from mercer.kernels import Gaussian
from mercer.numerics.compression import (
    DONE,
    GREEDY,
    INVERSE,
    TRIANGULAR,
    Compressor,
    Dictionary,
    Limits,
    Newcomers,
    compress,
)
from mercer.numerics.dense import blas_addresses, rank_update, symmetric_product
from mercer.numerics.small_dense import cholesky
from oracles import brute_force_komp, exact_distance, gaussian_gram

LENGTH_SCALE = 0.6


def lower(matrix):
    return np.tril(matrix) + np.tril(matrix, -1).T


def problem(seed, n_old, n_new, n_outputs, duplicates=False):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_old + n_new, 2))
    if duplicates and n_new > 1:
        points[-1] = points[0]
        points[-2] = points[len(points) // 2]
    weights = 0.5 * rng.normal(size=(n_old + n_new, n_outputs))
    return points, weights, float(rng.uniform(0.0, 1.0))


def run_step(path, points, weights, n_old, tolerance, max_size=10**6):
    """One compression step on plain arrays; unused storage is NaN to catch reads of it."""
    capacity = len(points) + 3
    gram = gaussian_gram(points, points, LENGTH_SCALE)
    inverse = np.full((capacity, capacity), np.nan)
    if path == "inverse":
        inverse[:n_old, :n_old] = np.tril(np.linalg.inv(gram[:n_old, :n_old]))
    else:
        inverse[:] = 0.0
        inverse[:n_old, :n_old] = np.linalg.inv(np.linalg.cholesky(gram[:n_old, :n_old]))
    inverse[np.triu_indices(capacity, 1)] = np.nan if path == "inverse" else 0.0
    state = Dictionary(
        np.full((capacity, 2), np.nan),
        np.ones(capacity),
        np.full((capacity, weights.shape[1]), np.nan),
        inverse,
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.bool_),
    )
    state.points[:n_old], state.weights[:n_old] = points[:n_old], weights[:n_old]
    new = Newcomers(
        points[n_old:].copy(),
        np.ascontiguousarray(gram[n_old:, :n_old]),
        np.ascontiguousarray(gram[n_old:, n_old:]),
        weights[n_old:].copy(),
        np.zeros(len(points) - n_old, np.bool_),
    )
    limits = Limits(tolerance**2, max_size, 1e-10, GREEDY, weights.shape[1])
    kind = INVERSE if path == "inverse" else TRIANGULAR
    size, _, error, status = compress(
        blas_addresses(float), Compressor(kind, 0.0, np.inf), state, n_old, 0, new, limits
    )
    assert status == DONE
    return state, size, error**2


def check_against_brute_force(path, points, weights, n_old, tolerance, max_size=10**6):
    gram = gaussian_gram(points, points, LENGTH_SCALE)
    keep, solution, squared = brute_force_komp(gram, weights, tolerance, max_size)
    state, size, tracked = run_step(path, points, weights, n_old, tolerance, max_size)
    assert_allclose(tracked, squared, atol=1e-7)
    order = [int(np.argmin(((points - p) ** 2).sum(axis=1))) for p in state.points[:size]]
    assert sorted(order) == keep
    by_point = np.argsort(order)
    assert_allclose(state.weights[:size][by_point], solution, atol=1e-5)
    kept_gram = gaussian_gram(state.points[:size], state.points[:size], LENGTH_SCALE)
    stored = state.inverse[:size, :size]
    inverse = lower(stored) if path == "inverse" else np.tril(stored).T @ np.tril(stored)
    assert_allclose(inverse @ kept_gram, np.eye(size), atol=1e-5)


@pytest.mark.parametrize("path", ["inverse", "triangular"])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_old=st.integers(0, 14),
    n_new=st.integers(1, 8),
    n_outputs=st.integers(1, 4),
)
def test_a_step_equals_brute_force(path, seed, n_old, n_new, n_outputs):
    points, weights, tolerance = problem(seed, n_old, n_new, n_outputs)
    gram = gaussian_gram(points, points, LENGTH_SCALE)
    if np.linalg.cond(gram) > 1e7:
        return  # the brute force itself is not that accurate; see the 60-digit test
    check_against_brute_force(path, points, weights, n_old, tolerance)


@pytest.mark.parametrize("path", ["inverse", "triangular"])
@pytest.mark.parametrize("max_size", [0, 1, 4])
def test_a_cap_prunes_beyond_the_tolerance_and_reports_it(path, max_size):
    points, weights, _ = problem(3, 6, 5, 2)
    check_against_brute_force(path, points, weights, 6, 0.0, max_size)
    _, size, squared = run_step(path, points, weights, 6, 1e-3, max_size)
    assert size == max_size
    assert squared > 1e-6


@pytest.mark.parametrize("path", ["inverse", "triangular"])
@pytest.mark.parametrize("separation", [0.0, 1e-9, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("seed", range(4))
def test_the_error_promise_holds_in_sixty_digits(path, separation, seed):
    """Never above the tolerance, and the tracked error is the true one, near-duplicates or not."""
    rng = np.random.default_rng(seed)
    points, weights, _ = problem(seed, 8, 6, 2)
    # Newcomers at a given distance from old points and from each other.
    points[8] = points[0] + separation * rng.normal(size=2)
    points[9] = points[1] + separation * rng.normal(size=2)
    points[11] = points[10] + separation * rng.normal(size=2)
    for tolerance in (0.05, 0.4):
        state, size, squared = run_step(path, points, weights, 8, tolerance)
        true = exact_distance(
            points, weights, state.points[:size], state.weights[:size], LENGTH_SCALE
        )
        assert true <= tolerance * (1.0 + 1e-6)
        assert abs(true - np.sqrt(squared)) <= 1e-5 * tolerance


@pytest.mark.parametrize("tolerance", [0.25, 0.05, 0.01, 3e-5])
@pytest.mark.parametrize("gap", [0.1, 0.05, 0.02])
@pytest.mark.parametrize("n", [16, 32, 64])
def test_the_promise_holds_for_a_batch_of_rows_that_resemble_each_other(n, gap, tolerance):
    """A sorted stream: in order of arrival the newcomers' own factor would be singular."""
    x = gap * np.arange(n)[:, None]
    f = KernelExpansion(Gaussian(1.0), KOMP(tolerance=tolerance), 1, 1)
    tracked = f.add(x, np.ones((n, 1)), tolerance)
    true = exact_distance(x, np.ones((n, 1)), f.dictionary, f.coefficients, 1.0, 40)
    assert true <= tolerance * (1.0 + 1e-6)
    assert abs(true - tracked) <= 1e-3 * tolerance
    assert np.abs(f.coefficients).max() < 1e3


def test_float32_never_breaks_a_tolerance_of_zero():
    f = KernelExpansion(Gaussian(1.0), KOMP(tolerance=0.0), 1, 1, np.float32)
    error = f.add(np.array([[0.0], [0.009]], np.float32), np.ones((2, 1)), 0.0)
    assert f.size == 2
    assert error < 1e-4


def test_float32_keeps_the_promise_for_fine_tolerances():
    x = np.array([[0.0], [2.4e-4]], np.float32)
    f = KernelExpansion(Gaussian(1.0), KOMP(tolerance=1e-4), 1, 1, np.float32)
    tracked = f.add(x, np.ones((2, 1)), 1e-4)
    true = exact_distance(x, np.ones((2, 1)), f.dictionary, f.coefficients, 1.0)
    assert true <= 1.0001e-4
    assert abs(true - tracked) < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_a_cap_holds_even_if_the_arithmetic_breaks_down_on_the_way(seed):
    rng = np.random.default_rng(seed)
    f = KernelExpansion(Gaussian(0.5), KOMP(tolerance=0.0, max_size=20), 1, 1, np.float32)
    for _ in range(2):
        X = rng.uniform(0, 30, size=(700, 1)).astype(np.float32)
        before = f.dictionary, f.coefficients
        weights = rng.normal(size=(700, 1))
        tracked = f.add(X, weights, 0.0)
        assert f.size == 20
    points = np.vstack([before[0], X, f.dictionary]).astype(np.float64)
    all_weights = np.vstack([before[1], weights, -f.coefficients])
    true = np.sqrt((all_weights * (gaussian_gram(points, points, 0.5) @ all_weights)).sum())
    assert_allclose(tracked, true, rtol=1e-4)


def test_tracked_error_is_true_to_1e_8_of_the_tolerance_when_well_conditioned():
    """Target: |true - tracked| <= 1e-8 tolerance for cond(K) <= 1e5, after thousands of steps."""
    rng = np.random.default_rng(0)
    f = KernelExpansion(Gaussian(LENGTH_SCALE), KOMP(tolerance=0.05), 2, 3)
    for step in range(1500):
        X = 1.5 * rng.normal(size=(4, 2))
        before = f.dictionary, f.coefficients
        coefficients = 0.05 * rng.normal(size=(4, 3))
        tracked = f.add(X, coefficients, 0.05)
        assert tracked <= 0.05
        if step % 300 == 299:
            gram = gaussian_gram(f.dictionary, f.dictionary, LENGTH_SCALE)
            assert np.linalg.cond(gram) <= 1e5
            points, weights = np.vstack([before[0], X]), np.vstack([before[1], coefficients])
            true = exact_distance(points, weights, f.dictionary, f.coefficients, LENGTH_SCALE, 40)
            assert abs(true - tracked) <= 1e-8 * 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_duplicates_are_absorbed_without_error(dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 2)).astype(dtype)
    f = KernelExpansion(Gaussian(LENGTH_SCALE), KOMP(tolerance=0.0), 2, 1, dtype)
    f.add(X, np.ones((5, 1)), 0.0)
    error = f.add(np.vstack([X, X]), np.ones((10, 1)), 0.0)
    assert f.size == 5
    assert error < 1e-5
    grid = rng.normal(size=(50, 2)).astype(dtype)
    expected = 3.0 * gaussian_gram(grid, X, LENGTH_SCALE).sum(axis=1)
    assert_allclose(f.evaluate(grid)[:, 0], expected, rtol=1e-5 if dtype == np.float32 else 1e-9)


def test_an_ill_conditioned_dictionary_goes_to_the_square_root_and_keeps_the_promise():
    rng = np.random.default_rng(2)
    f = KernelExpansion(Gaussian(3.0), KOMP(tolerance=1e-5), 1, 1)
    for _ in range(40):
        X, coefficients = rng.uniform(-1, 1, size=(4, 1)), rng.normal(size=(4, 1))
        before = f.dictionary, f.coefficients
        tracked = f.add(X, coefficients, 1e-5)
        points, weights = np.vstack([before[0], X]), np.vstack([before[1], coefficients])
        true = exact_distance(points, weights, f.dictionary, f.coefficients, 3.0)
        assert tracked <= 1e-5
        assert true <= 1.001e-5
    assert f.promoted == "triangular"


def test_a_large_ill_conditioned_dictionary_warns_once():
    f = KernelExpansion(Gaussian(0.05), KOMP(tolerance=0.0), 1, 1)
    grid = np.arange(400.0)[:, None]
    f.add(grid, np.ones((400, 1)), 0.0)
    with pytest.warns(ConditioningWarning, match="401 dictionary points"):
        f.add(np.array([[7.0 + 1e-4]]), np.ones((1, 1)), 0.0)
    assert f.promoted == "triangular"
    f.add(np.array([[9.0 + 1e-4]]), np.ones((1, 1)), 0.0)  # a second warning would be an error


def test_float32_gives_way_to_float64_when_the_tolerance_is_too_fine_for_it():
    rng = np.random.default_rng(3)
    f = KernelExpansion(Gaussian(1.0), KOMP(tolerance=1e-3), 2, 1, np.float32)
    for _ in range(5):
        X = 4.0 * rng.normal(size=(8, 2)).astype(np.float32)
        f.add(np.vstack([X, X + np.float32(0.02)]), rng.normal(size=(16, 1)), 1e-3)
    assert f.dtype == np.float64
    assert f.promoted == "float64"
    inverse = lower(f.arrays.inverse[: f.size, : f.size])
    gram = gaussian_gram(f.dictionary, f.dictionary, 1.0)
    assert_allclose(inverse @ gram, np.eye(f.size), atol=1e-6)


def test_many_removals_in_one_step_flush_the_factor_and_go_on():
    rng = np.random.default_rng(4)
    points = rng.uniform(-10, 10, size=(700, 2))
    f = KernelExpansion(Gaussian(LENGTH_SCALE), KOMP(tolerance=0.0, max_size=50), 2, 1)
    weights = rng.normal(size=(700, 1))
    error = f.add(points, weights, 0.0)
    assert f.size == 50
    gram = gaussian_gram(points, points, LENGTH_SCALE)
    keep = [int(np.argmin(((points - p) ** 2).sum(axis=1))) for p in f.dictionary]
    right = gram[keep] @ weights
    solution = np.linalg.solve(gram[np.ix_(keep, keep)], right)
    assert_allclose(f.coefficients, solution, atol=1e-8)
    expected = (weights * (gram @ weights)).sum() - (right * solution).sum()
    assert_allclose(error**2, expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "rank"), [(0, 2), (1, 1), (7, 3), (40, 2), (150, 20)])
def test_blas_on_a_window_equals_dense_products(dtype, size, rank):
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(size + 5, size + 5)).astype(dtype)
    before, rows = matrix.copy(), rng.normal(size=(rank, size)).astype(dtype)
    out = np.empty_like(rows)
    symmetric_product(blas_addresses(dtype), rows, matrix, out)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert_allclose(out, rows @ lower(before[:size, :size]), atol=tolerance)
    rank_update(blas_addresses(dtype), -1.0, rows, matrix)
    expected = np.tril(before[:size, :size] - rows.T @ rows)
    assert_allclose(np.tril(matrix[:size, :size]), expected, atol=tolerance)
    assert_allclose(matrix[size:], before[size:])
    assert_allclose(np.triu(matrix[:size, :size], 1), np.triu(before[:size, :size], 1))


def test_cholesky_reports_a_matrix_that_is_not_positive_definite():
    assert cholesky(np.array([[4.0, 2.0], [2.0, 3.0]]))[1]
    assert not cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))[1]


# -- budgets ----------------------------------------------------------------------------------


def single_excess(strategy, seed=6, n=9, n_outputs=2):
    """n points in a budget of n - 1: exactly one maintenance step."""
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(n, 2)), rng.normal(size=(n, n_outputs))
    f = KernelExpansion(Gaussian(LENGTH_SCALE), Budget(n - 1, strategy), 2, n_outputs)
    f.add(points[:-1], weights[:-1], -1.0)
    assert f.size == n - 1
    error = f.add(points[-1:], weights[-1:], -1.0)
    return points, weights, f, error


@pytest.mark.parametrize("strategy", ["remove", "project", "merge"])
@pytest.mark.parametrize("seed", range(5))
def test_a_budget_step_reports_its_true_error(strategy, seed):
    points, weights, f, error = single_excess(strategy, seed)
    assert f.size == len(points) - 1
    true = exact_distance(points, weights, f.dictionary, f.coefficients, LENGTH_SCALE, 30)
    assert_allclose(error, true, rtol=1e-6)


def test_removal_deletes_the_smallest_term_and_projection_refits_the_others():
    points, weights, removed, _ = single_excess("remove")
    smallest = int(np.argmin((weights**2).sum(axis=1)))
    rest = [i for i in range(len(points)) if i != smallest]
    keys = {tuple(p) for p in points[rest]}
    assert {tuple(p) for p in removed.dictionary} == keys
    _, _, projected, _ = single_excess("project")
    assert {tuple(p) for p in projected.dictionary} == keys
    gram = gaussian_gram(points, points, LENGTH_SCALE)
    expected = np.linalg.solve(gram[np.ix_(rest, rest)], gram[rest] @ weights)
    order = [int(np.argmin(((points[rest] - p) ** 2).sum(axis=1))) for p in projected.dictionary]
    assert_allclose(projected.coefficients, expected[order], atol=1e-9)


def test_merging_finds_the_best_partner_and_place():
    """A fine search over all partners and places finds nothing better (to its own resolution)."""
    points, weights, _, error = single_excess("merge")
    m = int(np.argmin((weights**2).sum(axis=1)))
    best = np.inf
    for n in range(len(points)):
        if n == m:
            continue
        k = gaussian_gram(points[m : m + 1], points[n : n + 1], LENGTH_SCALE)[0, 0]
        for h in np.linspace(0, 1, 2001):
            merged = k ** ((1 - h) ** 2) * weights[m] + k ** (h**2) * weights[n]
            joint = (weights[m] ** 2).sum() + (weights[n] ** 2).sum()
            joint += 2 * k * weights[m] @ weights[n]
            best = min(best, joint - (merged**2).sum())
    assert error**2 <= best + 1e-4


def test_truncation_keeps_the_most_recent_points():
    rng = np.random.default_rng(7)
    f = KernelExpansion(Gaussian(LENGTH_SCALE), Full(max_size=5), 2, 1)
    points = rng.normal(size=(23, 2))
    for start in range(0, 23, 3):
        f.add(points[start : start + 3], np.ones((len(points[start : start + 3]), 1)), 0.0)
    assert {tuple(p) for p in f.dictionary} == {tuple(p) for p in points[-5:]}


def test_merging_refuses_other_kernels():
    from mercer.kernels import Laplacian

    with pytest.raises(ValueError, match="Gaussian kernel only"):
        KernelExpansion(Laplacian(1.0), Budget(5), 2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": -1.0}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"tolerance": 0.1, "parsimony": 0.1}, "not both"),
        ({"max_size": 0}, "max_size"),
        ({"parsimony": "much"}, "parsimony"),
        ({"parsimony": 0.1, "power": 0.5}, "power"),
    ],
)
def test_wrong_parameters_are_refused_at_construction(arguments, words):
    with pytest.raises(ValueError, match=words):
        KOMP(**arguments)


# -- scaling, averaging, state ------------------------------------------------------------------


def test_shrinking_is_lazy_and_never_underflows():
    f = KernelExpansion(Gaussian(1.0), Full(), 1, 1)
    f.add(np.zeros((1, 1)), np.ones((1, 1)), 0.0)
    for _ in range(2000):
        f.shrink(0.99)
    assert_allclose(f.coefficients, 0.99**2000, rtol=1e-10)
    f.add(np.ones((1, 1)), np.ones((1, 1)), 0.0)
    assert_allclose(f.coefficients[1], 1.0, rtol=1e-12)


@pytest.mark.parametrize("expansion", [Full(), KOMP(tolerance=0.0)])
def test_averaged_coefficients_are_the_weighted_mean_of_the_iterates(expansion):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(12, 2))
    f = KernelExpansion(Gaussian(LENGTH_SCALE), expansion, 2, 1, averaging=3.0)
    g = KernelExpansion(Gaussian(LENGTH_SCALE), expansion, 2, 1)
    mean, grid = np.zeros((20, 1)), rng.normal(size=(20, 2))
    for t in range(12):
        c = rng.normal(size=(1, 1))
        for function in (f, g):
            function.shrink(0.9)
            function.add(X[t : t + 1], c, 0.0)
        rho = 4.0 / (t + 1 + 3.0)
        mean = (1 - rho) * mean + rho * g.evaluate(grid)
    assert_allclose(f.evaluate(grid), mean, atol=1e-7)


@pytest.mark.parametrize("expansion", [Full(), Full(7), KOMP(0.2), Budget(6), Budget(6, "project")])
def test_snapshot_and_restore_go_on_bit_for_bit(expansion):
    rng = np.random.default_rng(9)

    def steps(f, generator, count):
        for _ in range(count):
            f.shrink(0.999)
            f.add(generator.normal(size=(3, 2)), generator.normal(size=(3, 2)), 0.2)

    f = KernelExpansion(Gaussian(LENGTH_SCALE), expansion, 2, 2)
    steps(f, rng, 10)
    state = f.snapshot()
    again = KernelExpansion(Gaussian(LENGTH_SCALE), expansion, 2, 2)
    again.restore(state)
    steps(f, np.random.default_rng(1), 10)
    steps(again, np.random.default_rng(1), 10)
    assert np.array_equal(f.dictionary, again.dictionary)
    assert np.array_equal(f.coefficients, again.coefficients)
