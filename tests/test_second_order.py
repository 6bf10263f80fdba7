"""Choice of a dictionary, ridge regression by sums, and Newton steps on fixed features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.kernels import Gaussian, Laplacian, Linear, Mapped
from mercer.maps import Affine
from mercer.sums import (
    CENTERS,
    KernelBasis,
    NewtonSteps,
    RidgeStream,
    Rows,
    Statistics,
    choose_centers,
    factor_ridge,
)
from mercer.sums.newton import products_with
from oracles_second_order import (
    exponential_weights,
    logistic_newton,
    recursive_least_squares,
    ridge_on_dictionary,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
WEIGHTS = RNG.uniform(0.1, 2.0, 300)
KERNEL = Laplacian(1.0)
POINTS = X[::15]
K, K_DD = KERNEL(X, POINTS), KERNEL(POINTS)
BASIS = KernelBasis(KERNEL, POINTS)


def rows_of(numbers):
    return Rows(X[numbers], Y[numbers], WEIGHTS[numbers])


# -- choice of the dictionary ----------------------------------------------------------------------


@pytest.mark.parametrize("method", CENTERS)
def test_all_methods_choose_at_most_so_many_distinct_points(method):
    twice = np.repeat(X, 2, axis=0)
    for size in (1, 7, 299):
        points = choose_centers(twice, size, method, kernel=Gaussian(1.0), seed=1)
        assert points.shape == (size, 2)
        assert len(np.unique(points, axis=0)) == size
        assert_array_equal(
            points, choose_centers(twice, size, method, kernel=Gaussian(1.0), seed=1)
        )
    assert_array_equal(choose_centers(twice, 300, method, kernel=Gaussian(1.0)), X)


@pytest.mark.parametrize("method", ["uniform", "leverage"])
def test_rows_are_drawn_by_the_seed(method):
    first, second = (
        choose_centers(X, 20, method, kernel=Gaussian(1.0), seed=seed) for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    for points in (first, second):
        assert {tuple(p) for p in points} <= {tuple(x) for x in X}


def test_zeros_of_either_sign_are_equal_rows():
    assert len(choose_centers(np.array([[0.0], [-0.0], [1.0]]), 2)) == 2


def test_k_means_comes_nearer_to_the_rows_than_rows_drawn_at_random():
    def distance(points):
        return np.mean(np.min(np.sum((X[:, None] - points) ** 2, axis=2), axis=1))

    at_random = np.mean([distance(choose_centers(X, 20, "uniform", seed=s)) for s in range(10)])
    assert distance(choose_centers(X, 20)) < 0.6 * at_random


def test_each_class_gets_its_share_and_rare_ones_a_point():
    labels = np.zeros(300, dtype=int)
    labels[:30] = 2
    labels[0] = 7
    far = X + 100.0 * labels[:, None]
    points = choose_centers(far, 20, labels=labels)
    nearest = np.round(points.mean(axis=1) / 100.0)
    assert_array_equal(np.unique(nearest, return_counts=True), [[0.0, 2.0, 7.0], [18, 1, 1]])
    # More classes than points: as if there were none.
    assert_array_equal(choose_centers(X, 20, labels=np.arange(300)), choose_centers(X, 20))


def test_k_means_behind_an_affine_map_is_k_means_on_mapped_rows():
    scale = Affine([1.0, 2.0], [10.0, 0.1])
    points = choose_centers(X, 10, kernel=Mapped(Gaussian(1.0), scale))
    assert_allclose(scale(points), choose_centers(scale(X), 10), atol=1e-12)
    # A column of scale 0 has no say, and rows that differ there only are one.
    flat = Mapped(Gaussian(1.0), Affine([0.0, 0.0], [1.0, 0.0]))
    rounded = np.stack([np.round(X[:, 0]), X[:, 1]], axis=1)
    n_values = np.unique(rounded[:, 0]).size
    assert len(choose_centers(rounded, 100, kernel=flat)) == n_values


def test_k_means_behind_another_map_chooses_rows():
    points = choose_centers(X, 10, kernel=Mapped(Gaussian(1.0), np.tanh))
    assert {tuple(p) for p in points} <= {tuple(x) for x in X}


def test_many_columns_are_clustered_by_their_principal_components(rng):
    wide = np.hstack([X, 1e-3 * rng.normal(size=(300, 80))])
    points = choose_centers(wide, 10)
    assert_allclose(points[:, :2], choose_centers(X, 10), atol=0.05)
    assert points.shape == (10, 82)


def test_leverage_prefers_rows_that_resemble_no_others():
    lonely = np.vstack(
        [np.zeros((290, 2)) + 0.01 * X[:290], X[290:] + 50.0 * np.arange(1, 11)[:, None]]
    )
    points = choose_centers(lonely, 15, "leverage", kernel=Gaussian(1.0))
    assert np.sum(points[:, 0] > 10.0) > 3  # of 10 in 300: half a row, if drawn at random


def test_choices_that_cannot_be_made_are_refused():
    with pytest.raises(ValueError, match="needs `kernel`"):
        choose_centers(X, 10, "leverage")
    with pytest.raises(ValueError, match="must be one of"):
        choose_centers(X, 10, "best")


# -- ridge regression by sums ----------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, 299), max_size=6), ridge=st.sampled_from([1e-1, 1e-3, 1e-5]))
def test_streams_cut_anywhere_give_the_batch_ridge_regression(cuts, ridge):
    stream = RidgeStream(BASIS, 2, [ridge])
    for numbers in np.split(np.arange(300), sorted(cuts)):
        stream.add(rows_of(numbers))
    expected = ridge_on_dictionary(K, K_DD, Y, WEIGHTS, ridge)
    assert_allclose(K @ stream.solve(), K @ expected, atol=1e-8)


def test_rows_without_weight_leave_no_trace():
    stream, without = RidgeStream(BASIS, 2, [1e-2, 1e-4]), RidgeStream(BASIS, 2, [1e-2, 1e-4])
    numbers = np.arange(300)
    used = numbers % 3 > 0
    stream.add(Rows(X, Y, np.where(used, WEIGHTS, 0.0)))
    without.add(rows_of(numbers[used]))
    assert_array_equal(stream.solve(), without.solve())
    assert_array_equal(RidgeStream(BASIS, 2, [1.0]).solve(), np.zeros((20, 2)))


def test_forgetting_weighs_rows_exponentially():
    stream = RidgeStream(BASIS, 2, [1e-3], forgetting=0.98)
    for numbers in np.split(np.arange(300), [1, 100, 290]):
        stream.add(rows_of(numbers))
    weights = WEIGHTS * exponential_weights(300, 0.98)
    expected = ridge_on_dictionary(K, K_DD, Y, weights, 1e-3)
    assert_allclose(K @ stream.solve(), K @ expected, atol=1e-8)


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_sums_solve_what_recursive_least_squares_follows_row_by_row(forgetting):
    # The recursion forgets its ridge, too; the one of the sums is relative to their weight.
    n, start = 120, 0.3
    recursive = recursive_least_squares(K[:n], Y[:n, 0], start * K_DD, forgetting)
    ridge = start * forgetting**n / exponential_weights(n, forgetting).sum()
    stream = RidgeStream(BASIS, 1, [ridge], forgetting)
    stream.add(Rows(X[:n], Y[:n, :1], np.ones(n)))
    assert_allclose(K @ stream.solve()[:, 0], K @ recursive, atol=1e-7)


def test_the_ridge_is_chosen_on_the_last_rows_and_all_rows_are_learned():
    ridges = [1e-4, 1.0, 1e-6, 1e-2]  # in any order
    stream = RidgeStream(BASIS, 2, ridges)
    for numbers in np.split(np.arange(300), [120, 250]):
        stream.add(rows_of(numbers))
    solution = stream.solve()
    last = np.arange(300) >= 240  # a fifth of few rows
    errors = []
    for ridge in ridges:
        c = ridge_on_dictionary(K[~last], K_DD, Y[~last], WEIGHTS[~last], ridge)
        errors.append(WEIGHTS[last] @ np.sum((K[last] @ c - Y[last]) ** 2, axis=1))
    assert stream.ridge == ridges[int(np.argmin(errors))]
    expected = ridge_on_dictionary(K, K_DD, Y, WEIGHTS, stream.ridge)
    assert_allclose(K @ solution, K @ expected, atol=1e-8)


def test_the_ridge_of_a_stream_that_forgets_is_chosen_on_a_fifth_of_its_memory_by_age():
    forgetting, ridges, n = 0.98, [1.0, 1e-1, 1e-2, 1e-3, 1e-4], 300
    weights = WEIGHTS * exponential_weights(n, forgetting)
    last = np.arange(n) >= n - 9  # of 49.9 rows that count
    for seed in range(8):
        # Noise that grows, so that the number of the rows and their age tell.
        y = Y + np.random.default_rng(seed).normal(size=Y.shape) * np.linspace(0.0, 2.0, n)[:, None]
        stream = RidgeStream(BASIS, 2, ridges, forgetting)
        for numbers in np.split(np.arange(n), [100, 290]):
            stream.add(Rows(X[numbers], y[numbers], WEIGHTS[numbers]))
        solution = stream.solve()
        errors = []
        for ridge in ridges:
            c = ridge_on_dictionary(K[~last], K_DD, y[~last], weights[~last], ridge)
            errors.append(weights[last] @ np.sum((K[last] @ c - y[last]) ** 2, axis=1))
        assert stream.ridge == ridges[int(np.argmin(errors))]
        expected = ridge_on_dictionary(K, K_DD, y, weights, stream.ridge)
        assert_allclose(K @ solution, K @ expected, atol=1e-7)


def test_single_precision_is_as_good_as_its_digits():
    basis = KernelBasis(KERNEL, POINTS.astype(np.float32))
    stream = RidgeStream(basis, 2, [1e-3])
    stream.add(rows_of(np.arange(300)))
    expected = ridge_on_dictionary(K, K_DD, Y, WEIGHTS, 1e-3)
    assert_allclose(K @ stream.solve(), K @ expected, atol=1e-3)


def test_twins_of_a_stream_go_their_own_ways():
    stream = RidgeStream(BASIS, 2, [1e-3])
    stream.add(rows_of(np.arange(260)))
    twin = stream.copy()
    before = stream.solve()
    twin.add(rows_of(np.arange(260, 300)))
    twin.solve()
    assert_array_equal(stream.solve(), before)


def test_a_snapshot_goes_on_bit_for_bit():
    stream = RidgeStream(BASIS, 2, [1e-3, 1e-5])
    stream.add(rows_of(np.arange(250)))
    stream.solve()
    other = RidgeStream(BASIS, 2, [1.0])  # the snapshot's ridges are those it was made with
    other.restore(stream.to_state())
    for each in (stream, other):
        each.add(rows_of(np.arange(250, 300)))
    assert_array_equal(stream.solve(), other.solve())
    for change in (
        {"ridge": 7.0},
        {"ridges": []},
        {"ridges": [1e-3, 1e-5, -1.0]},
        {"n_rows": 1},
        {"recent": None, "n_rows": -1},
    ):
        with pytest.raises(ValueError, match=r"fit together|must be"):
            other.restore({**stream.to_state(), **change})


def test_codes_of_new_classes_are_mapped_in_the_sums():
    labels = np.where(X[:, :1] > 0.0, 1.0, -1.0)
    stream = RidgeStream(BASIS, 1, [1e-3])
    stream.add(Rows(X, labels, WEIGHTS))
    # Two classes become the first and the third of three.
    stream.map_targets(np.array([[-1.0, 0.0, 1.0]]), np.array([0.0, -1.0, 0.0]))
    codes = np.hstack([-labels, -np.ones_like(labels), labels])
    expected = ridge_on_dictionary(K, K_DD, codes, WEIGHTS, 1e-3)
    assert_allclose(K @ stream.solve(), K @ expected, atol=1e-8)


@pytest.mark.parametrize("penalty", [None, np.eye(3), np.ones((3, 3))])
@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("size", [0.0, 1e-60])
def test_sums_of_next_to_nothing_have_a_factor(size, ridge, penalty):
    factor = factor_ridge(size * np.ones((3, 3)), ridge, penalty)
    expected = size * np.ones((3, 3)) + ridge * (np.eye(3) if penalty is None else penalty)
    lower = np.tril(factor.lower)
    scale = np.diag(expected).mean() or 1.0
    assert 0.0 < factor.jitter <= 1e-9 * scale
    assert_allclose(lower @ lower.T, expected + factor.jitter * np.eye(3), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    n_features=st.integers(1, 9),
    n=st.integers(0, 20),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 10**6),
)
def test_packed_sums_are_the_lower_triangle_in_half_the_memory(n_features, n, dtype, seed):
    rng = np.random.default_rng(seed)
    sums, expected = Statistics(n_features, 1), np.zeros((n_features, n_features))
    for _ in range(3):
        Z = rng.normal(size=(n, n_features)).astype(dtype)
        weights = rng.uniform(0.5, 2.0, n)
        expected += (Z * weights[:, np.newaxis]).T @ Z
        sums.add(Z.copy(), np.zeros((n, 1)), weights)
    assert sums.packed.size == n_features * (n_features + 1) // 2
    rounding = np.finfo(dtype).eps * 10 * (n + 1)
    assert_allclose(np.tril(sums.gram), np.tril(expected), rtol=1e-12, atol=rounding)
    twin = Statistics(n_features, 1)
    twin.gram = sums.gram
    assert_array_equal(twin.packed, sums.packed)
    sums.forget(0.5)
    assert_allclose(2.0 * np.tril(sums.gram), np.tril(twin.gram), rtol=1e-15)


def test_long_blocks_in_single_precision_are_added_up_in_pieces():
    Z = np.full((200_000, 3), 0.3, dtype=np.float32)
    sums, ones = Statistics(3, 1), np.ones(len(Z))
    sums.add(Z.copy(), ones[:, np.newaxis], ones)
    expected = 0.3 * len(Z)
    assert_allclose(sums.feature_sums, expected, rtol=1e-4)
    assert_allclose(sums.products, expected, rtol=1e-4)
    assert sums.n_rows == len(Z)


@pytest.mark.parametrize("size", [40, 400, 1000])
def test_jitter_of_single_precision_begins_below_what_is_needed(size):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2 * size, 3)).astype(np.float32)
    basis = KernelBasis(Gaussian(1.0), rows[:size])
    sums, ones = Statistics(size, 1), np.ones(len(rows))
    sums.add(basis.features(rows), ones[:, np.newaxis], ones)
    begins = sums.jitter
    found = factor_ridge(sums.moments(), 1e-7, basis.penalty(), 1e-8).least_jitter
    assert 1e-8 <= begins <= found
    assert sums.factor(1e-7, basis.penalty()).least_jitter == found  # wherever the attempts begin
    assert sums.jitter == found
    with sums.trial():
        sums.jitter = 1.0
    assert sums.jitter == found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("forgetting", [1.0, 0.5])
def test_sums_mapped_from_a_file_for_reading_go_on(dtype, forgetting):
    Z, ones = BASIS.features(X).astype(dtype), np.ones(len(X))
    sums, expected = Statistics(BASIS.size, 2), Statistics(BASIS.size, 2)
    for one in (sums, expected):
        one.add(Z.copy(), Y, ones)
    mapped = {name: value for name, value in vars(sums).items() if isinstance(value, np.ndarray)}
    before = {name: value.copy() for name, value in mapped.items()}
    for value in mapped.values():
        value.flags.writeable = False
    for one in (sums, expected):
        if forgetting < 1.0:
            one.forget(forgetting)
        one.add(Z.copy(), Y, ones)
    for name, value in before.items():
        assert_array_equal(mapped[name], value)
        assert_array_equal(getattr(sums, name), getattr(expected, name))


def test_a_snapshot_of_sums_does_not_change_with_them():
    sums = Statistics(BASIS.size, 2)
    sums.add(BASIS.features(X), Y, WEIGHTS)
    state, twin = sums.to_state(), Statistics(BASIS.size, 2)
    expected = sums.copy()
    sums.forget(0.5)
    sums.add(BASIS.features(X), Y, WEIGHTS)
    twin.restore(state)
    assert vars(twin).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        assert_array_equal(getattr(twin, name), value)


def test_more_features_than_lapack_counts_are_refused():
    with pytest.raises(ValueError, match=r"at most 46,340 features, got 46,341, .* 9 GB"):
        Statistics(46_341, 1)


def test_asking_a_stream_leaves_its_jitter_as_it_was():
    rows = np.random.default_rng(0).normal(size=(1200, 2)).astype(np.float32)
    stream = RidgeStream(KernelBasis(Gaussian(3.0), rows[:300]), 1, [1e-3, 1e-9, 0.0])
    stream.add(Rows(rows, rows[:, :1].astype(np.float64), np.ones(1200)))
    first = stream.solve()
    assert stream.sums.jitter == 1e-8  # as float32 begins, though weak ridges need more
    assert_array_equal(stream.solve(), first)


# -- Newton steps ----------------------------------------------------------------------------------


def logistic_slopes(steps, Z, y):
    values = steps.values(Z, steps.iterate)[:, 0]
    return (-y / (1.0 + np.exp(y * values)) / len(y))[:, None]


def test_whole_steps_on_all_rows_reach_the_minimum_of_newtons_method():
    y = np.where(Y[:, 0] > 0.0, 1.0, -1.0)
    steps, Z, ones = NewtonSteps(BASIS, 1, curvature=0.25), BASIS.features(X), np.ones(300)
    steps.add_points(Z.copy(), ones)
    for _ in range(300):
        size = steps.largest_step(Z, ones, 1e-2)
        assert size > 0.99
        steps.step(products_with(Z, logistic_slopes(steps, Z, y)), size, 1e-2)
    expected = logistic_newton(K, K_DD, y, 1e-2)
    assert_allclose(K @ steps.iterate, K @ expected, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_a_step_on_few_rows_is_short_enough_for_them(seed, n):
    batch = np.random.default_rng(seed).choice(300, n, replace=False)
    steps, Z = NewtonSteps(BASIS, 1, curvature=1.0), BASIS.features(X)
    steps.add_points(Z.copy(), WEIGHTS)
    size = steps.largest_step(Z[batch], WEIGHTS[batch], 1e-4)
    metric = (Z * WEIGHTS[:, None]).T @ Z / 300 + 1e-4 * K_DD
    own = (Z[batch] * WEIGHTS[batch, None]).T @ Z[batch] / n
    top = np.linalg.eigvals(np.linalg.solve(metric, own)).real.max()
    # Power iteration finds it from below; twice the size would be the limit.
    assert min(1.0, 1.0 / top) * 0.999 <= size <= min(1.0, 1.3 / top)


def test_a_linear_function_of_one_feature_is_learned_in_one_step():
    basis = KernelBasis(Linear(), np.array([[1.0]]))
    steps, Z = NewtonSteps(basis, 1, curvature=1.0), np.array([[1.0], [2.0]])
    steps.add_points(Z.copy(), np.ones(2))
    residuals = (Z @ steps.iterate - 3.0 * Z) / 2.0
    steps.step(products_with(Z, residuals), 1.0, 0.0)
    assert_allclose(steps.iterate, [[3.0]], atol=1e-9)


def test_averages_weigh_late_steps_more():
    steps = NewtonSteps(BASIS, 1, 1.0, averaging=3.0)
    steps.add_points(BASIS.features(X), np.ones(300))
    iterates = []
    for t in range(6):
        batch = BASIS.features(X[50 * t : 50 * t + 50])
        steps.step(products_with(batch, -Y[50 * t : 50 * t + 50, :1] / 50), 0.1, 1e-3)
        steps.average(50)
        iterates.append(steps.iterate)
    weights = np.arange(1.0, 7.0) ** 3
    assert_allclose(steps.mean, np.average(iterates, axis=0, weights=weights), atol=1e-12)


def test_steps_go_on_from_a_snapshot_bit_for_bit():
    first, second = (NewtonSteps(BASIS, 1, 0.25, averaging=0.0) for _ in range(2))
    Z, y = BASIS.features(X), np.sign(Y[:, 0])

    def step(steps, numbers):
        batch, ones = Z[numbers], np.ones(len(numbers))
        steps.add_points(batch.copy(), ones)
        size = steps.falling(len(numbers)) * steps.largest_step(batch, ones, 1e-3)
        slopes = logistic_slopes(steps, batch, y[numbers])
        steps.step(products_with(batch, slopes), size, 1e-3)
        steps.average(len(numbers))

    for start in range(0, 200, 40):
        step(first, np.arange(start, start + 40))
    second.restore(first.to_state())
    for steps in (first, second):
        step(steps, np.arange(200, 300))
    assert_array_equal(first.mean, second.mean)
    for change in (
        {"iterate": np.zeros((3, 1))},
        {"top": np.inf},
        {"factor": first.to_state()["factor"] | {"lower": np.zeros(3)}},
    ):
        with pytest.raises(ValueError, match="must be"):
            second.restore({**first.to_state(), **change})
