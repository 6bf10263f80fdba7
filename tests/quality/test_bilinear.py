"""Bilinear functions: compression against dense algebra in higher precision, features, state."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from covering import covering
from mercer.expansions import KOMP, Budget, Full, RandomFeatures
from mercer.functions import BilinearExpansion, BilinearFeatures, start_bilinear
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from mercer.numerics.bilinear import (
    BilinearState,
    change_norm2,
    fold,
    project_away,
    trusted_inverse,
)
from mercer.numerics.compression import GREEDY, TRIANGULAR, Compressor

COMPRESSORS = [
    KOMP(tolerance=0.1),
    KOMP(tolerance=1e-3),
    KOMP(tolerance=1e-4, max_size=30),
    Budget(30, "project"),
    Budget(30, "remove"),
    Full(),
    Full(max_size=30),
]
REFITTING = [e for e in COMPRESSORS if isinstance(e, KOMP) or e == Budget(30, "project")]


def long_gram(kernel, X):
    """Gram matrix of the very kernel values that float64 gives, for algebra in longdouble."""
    return np.asarray(kernel(np.asarray(X, np.float64)), np.longdouble)


def hs_norm(kernel, X, C):
    """Hilbert-Schmidt norm, sqrt(tr(C' K C K))."""
    K, C = long_gram(kernel, X), C.astype(np.longdouble)
    return float(np.sqrt(max(np.sum(C * (K @ C @ K)), 0)))


def norm_of_sum(kernel, *parts):
    """Hilbert-Schmidt norm of a sum of functions, each given by points and coefficients."""
    every = np.vstack([np.asarray(x, np.float64) for x, _ in parts])
    # What goes to the same point is added up first, so that it cancels without rounding errors.
    X, where = np.unique(every, axis=0, return_inverse=True)
    C, start = np.zeros((len(X), len(X))), 0
    for x, c in parts:
        at = where[start : start + len(x)]
        np.add.at(C, (at[:, None], at[None, :]), c)
        start += len(x)
    return hs_norm(kernel, X, C)


def step_error(f, old, points, V):
    """Distance of f to what it would be without compression, after it was shrunk by 0.99."""
    return norm_of_sum(
        f.kernel, (old[0], 0.99 * old[1]), (points, V), (f.dictionary, -f.coefficients)
    )


class Stream:
    """Steps as a pairwise objective makes them: a row against a buffer, places changing hands."""

    def __init__(self, draw, n_places=12, seed=0, batch=1, dtype=np.float64):
        self.generator = np.random.default_rng(seed)
        self.draw, self.batch, self.dtype = draw, batch, dtype
        self.buffer = [None] * n_places
        self.t = 0

    def step(self):
        """Points, coefficients, places before and after."""
        rows = [
            np.asarray(self.draw(self.generator, self.t), self.dtype) for _ in range(self.batch)
        ]
        kept = [i for i, x in enumerate(self.buffer) if x is not None]
        points = np.array(rows + [self.buffer[i] for i in kept])
        entering = [(self.t * self.batch + j) % len(self.buffer) for j in range(self.batch)]
        before = np.array([-1] * self.batch + kept)
        after = np.array(entering + [-1 if i in entering else i for i in kept])
        V = np.zeros((len(points), len(points)))
        v = self.generator.normal(size=(self.batch, len(kept))) / len(self.buffer)
        V[: self.batch, self.batch :], V[self.batch :, : self.batch] = v, -0.7 * v.T
        for place, x in zip(entering, rows, strict=True):
            self.buffer[place] = x
        self.t += 1
        return points, V, before, after


def normal(n_features):
    return lambda generator, t: generator.normal(size=n_features)


STREAMS = {
    "three inputs": (normal(3), Gaussian(2.0)),
    "rough": (normal(2), Laplacian(1.0)),
    "smooth, one input": (normal(1), Gaussian(1.0)),
    "very smooth": (normal(1), Gaussian(5.0)),
    "duplicates": (lambda g, t: np.round(2 * g.normal(size=2)) / 2, Gaussian(1.0)),
    "near duplicates": (
        lambda g, t: np.round(g.normal(size=2)) + 1e-5 * g.normal(size=2),
        Gaussian(1.0),
    ),
    "far from the origin": (lambda g, t: 1000 + g.normal(size=2), Matern(2.5, 1.0)),
    "marching on": (lambda g, t: np.array([t / 100]), Gaussian(1.0)),
    "finite rank": (normal(2), Polynomial(degree=2, scale=1.0)),
    "rank two": (normal(2), Linear()),
}


def tolerance_of(expansion):
    return float(expansion.tolerances(np.ones(1), 1, 1.0)[0])


def run(expansion, name, n_steps, batch=1, n_places=12, dtype=np.float64, look=None):
    draw, kernel = STREAMS[name]
    stream = Stream(draw, n_places, batch=batch, dtype=dtype)
    f = None
    for _ in range(n_steps):
        points, V, before, after = stream.step()
        if f is None:
            f = BilinearExpansion(kernel, expansion, points.shape[1], dtype)
        old = f.dictionary, f.coefficients
        f.current(points)
        f.shrink(0.99)
        error = f.add(points, V, tolerance_of(expansion), before, after)
        if look is not None:
            look(f, old, points, V, error, stream)
    return f


# -- formulas --------------------------------------------------------------------------------------


def random_function(seed, order):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(order, 3))
    return Gaussian(1.0)(X), generator.normal(size=(order, order))


def dense_projection(K, C, keep):
    """Best approximation on the points ``keep``, by least squares, and its squared error."""
    W = np.linalg.solve(K[np.ix_(keep, keep)], K[keep])  # projections of all points
    projected = W @ C @ W.T
    whole = np.zeros_like(C)
    whole[np.ix_(keep, keep)] = projected
    return projected, np.sum((C - whole) * (K @ (C - whole) @ K))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_change_norm_is_that_of_the_operator(seed):
    generator = np.random.default_rng(seed)
    r, c, d = generator.normal(size=(3, 4))
    gamma = generator.normal()
    operator = np.outer(r, c) + np.outer(d, r) - gamma * np.outer(r, r)
    assert_allclose(
        change_norm2(r @ r, c @ c, d @ d, gamma, r @ c, r @ d), np.sum(operator**2), rtol=1e-9
    )


@pytest.mark.parametrize("n_gone", [1, 3])
def test_folded_points_leave_the_best_approximation(n_gone):
    K, C = random_function(3, 9)
    kept, gone = np.arange(9 - n_gone), np.arange(9 - n_gone, 9)
    inverse = np.linalg.inv(K[np.ix_(kept, kept)])
    projected, squared_error = fold(K, C, kept, gone, inverse)
    expected, expected_error = dense_projection(K, C, kept)
    assert_allclose(projected, expected, rtol=1e-8, atol=1e-10)
    assert_allclose(squared_error, expected_error, rtol=1e-8)


def test_points_that_are_chosen_for_an_inverse_are_far_from_each_other():
    X = np.linspace(-1, 1, 40)[:, None]
    K = Gaussian(1.0)(X)
    kept, inverse = trusted_inverse(K, 1e-10)
    assert 5 < kept.size < 20
    assert_array_equal(inverse, inverse.T)
    assert np.diag(inverse).max() < 1e11
    assert_allclose(K[np.ix_(kept, kept)] @ inverse, np.eye(kept.size), atol=1e-4)


def test_cheapest_removals_come_first_and_add_in_squares():
    K, C = random_function(5, 12)
    n = 12
    norms = np.sum(C @ K * C, axis=1), np.sum(C.T @ K * C.T, axis=1)
    state = BilinearState(np.ones(n), C.copy(), K.copy(), np.linalg.inv(K), *norms)
    pinned = np.zeros(n, np.bool_)
    pinned[4] = True
    origin = np.arange(n)
    size, squared_error, accurate = project_away(
        state, n, pinned.copy(), origin, 0.0, -1.0, 7, GREEDY
    )
    assert accurate
    assert size == 7
    # The same by brute force: in every round the cheapest of all that may go.
    keep, now, expected = list(range(n)), C, 0.0
    while len(keep) > 7:
        whole = range(len(keep))
        without = [[i for i in whole if i != j] for j in whole]
        kept_gram = K[np.ix_(keep, keep)]
        costs = np.array([dense_projection(kept_gram, now, rest)[1] for rest in without])
        costs[keep.index(4)] = np.inf
        expected += costs.min()
        gone = int(np.argmin(costs))
        now = dense_projection(kept_gram, now, without[gone])[0]
        keep.pop(gone)
    assert sorted(origin[:7]) == keep
    assert_allclose(squared_error, expected, rtol=1e-8)
    whole, error = dense_projection(K, C, list(origin[:7]))
    assert_allclose(error, expected, rtol=1e-8)  # of one projection: errors add in squares
    assert_allclose(state.coefficients[:7, :7], whole, rtol=1e-6, atol=1e-9)


# -- the promise of a step -------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", COMPRESSORS, ids=repr)
@pytest.mark.parametrize("name", ["three inputs", "rough"])
def test_reported_error_is_the_distance_in_hilbert_schmidt_norm(expansion, name):
    def look(f, old, points, V, error, stream):
        true = step_error(f, old, points, V)
        floor = 1e-8 * hs_norm(f.kernel, points, V)  # of differences that should be 0
        # A step deletes one point at most here, for which the error of a deletion is exact, too.
        assert_allclose(error, true, rtol=1e-6, atol=floor)
        if isinstance(f.expansion, KOMP) and f.size < f.expansion.limit():
            assert error <= tolerance_of(f.expansion)
        assert f.size <= f.expansion.limit()

    run(expansion, name, 45, look=look)


@pytest.mark.parametrize("expansion", COMPRESSORS, ids=repr)
@pytest.mark.parametrize("name", list(STREAMS)[2:])
def test_promise_holds_where_points_depend_on_each_other(expansion, name):
    def look(f, old, points, V, error, stream):
        true = step_error(f, old, points, V)
        # Kernel values are rounded, so distances to spans are known to about 1e-8, and with the
        # weights of a projection on points that resemble each other less well.
        floor = 1e-3 * hs_norm(f.kernel, points, V)
        assert abs(true - error) <= 1e-4 * error + floor
        if isinstance(f.expansion, KOMP) and f.size < f.expansion.limit():
            assert error <= tolerance_of(f.expansion)
        assert f.size <= f.expansion.limit()
        assert np.isfinite(f.coefficients).all()

    run(expansion, name, 30, look=look)


@pytest.mark.parametrize("expansion", REFITTING, ids=repr)
@pytest.mark.parametrize("name", ["three inputs", "smooth, one input", "near duplicates"])
def test_no_other_coefficients_on_the_dictionary_come_nearer(expansion, name):
    generator, seen = np.random.default_rng(1), []

    def look(f, old, points, V, error, stream):
        best = step_error(f, old, points, V)
        if best < 1e-6:
            return  # rounding errors
        full = (old[0], 0.99 * old[1]), (points, V)
        K = f.kernel(f.dictionary)
        for scale in (1e-1, 1e-3):
            change = generator.normal(size=f.coefficients.shape)
            change *= scale * best / np.sqrt(np.sum(change * (K @ change @ K)))
            other = norm_of_sum(f.kernel, *full, (f.dictionary, -f.coefficients - change))
            assert other >= best * (1 - 1e-9)
        seen.append(best)

    run(expansion, name, 40, look=look)
    assert seen


@pytest.mark.parametrize("batch", [3, 10])
@pytest.mark.parametrize("name", ["three inputs", "smooth, one input", "duplicates"])
def test_batches_of_rows_keep_the_promise(name, batch):
    expansion = KOMP(tolerance=0.01)

    def look(f, old, points, V, error, stream):
        true = step_error(f, old, points, V)
        assert error <= 0.01
        assert abs(true - error) <= 1e-5 * hs_norm(f.kernel, points, V)

    run(expansion, name, 20, batch=batch, look=look)


def test_deleted_points_take_their_row_and_column_along():
    kernel = Gaussian(1.0)
    X = np.arange(4.0)[:, None]
    V = np.random.default_rng(0).normal(size=(4, 4))
    f = BilinearExpansion(kernel, Full(max_size=3), 1)
    f.add(X[:3], V[:3, :3], -1.0)
    before = f.dictionary, f.coefficients
    W = np.zeros((4, 4))
    W[3], W[:3, 3] = V[3], V[:3, 3]
    error = f.add(X, W, -1.0)
    expected = V.copy()
    assert_array_equal(f.dictionary, [[3.0], [1.0], [2.0]])
    assert_allclose(f.coefficients, expected[np.ix_([3, 1, 2], [3, 1, 2])])
    true = norm_of_sum(kernel, before, (X, W), (f.dictionary, -f.coefficients))
    assert_allclose(error, true, rtol=1e-9)


@pytest.mark.parametrize("expansion", [*REFITTING, Budget(30, "remove")], ids=repr)
@pytest.mark.parametrize("name", ["three inputs", "rough", "duplicates"])
def test_norms_of_rows_and_columns_are_kept_up_to_date(expansion, name):
    f = run(expansion, name, 90)
    K, C, n = f.kernel(f.dictionary), f.arrays.coefficients[: f.size, : f.size], f.size
    rows, columns = np.diag(C @ K @ C.T), np.diag(C.T @ K @ C)
    assert_allclose(f.arrays.row_norms[:n], rows, rtol=1e-6, atol=1e-9 * rows.max())
    assert_allclose(f.arrays.column_norms[:n], columns, rtol=1e-6, atol=1e-9 * columns.max())


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.5])
def test_an_inverse_that_has_gone_wrong_is_mended(scale):
    stream = Stream(STREAMS["three inputs"][0])
    f = run(KOMP(tolerance=0.01), "three inputs", 30)
    f.arrays.inverse[: f.size, : f.size] *= scale
    for _ in range(3):
        points, V, *_ = stream.step()
        old = f.dictionary, f.coefficients / 0.99
        error = f.add(points, V, 0.01)
        true = step_error(f, old, points, V)
        assert_allclose(error, true, rtol=1e-6, atol=1e-8)
        assert error <= 0.01


@pytest.mark.parametrize("joins", [True, False])
def test_dependent_points_are_shed_where_nothing_else_helps(joins):
    kernel, X = Gaussian(1.0), np.array([[0.0], [3.0], [6.0], [9.0]])
    f = BilinearExpansion(kernel, KOMP(max_size=3), 1)
    f.add(X[:3], np.eye(3), -1.0, np.full(3, -1), np.array([0, -1, -1]))
    # As if rounding errors had made the last point a copy of another one that may go.
    twin = 1 if f.slots[0] != 1 else 0
    f.points[2] = f.points[twin]
    f.arrays.gram[2, :3] = f.arrays.gram[:3, 2] = f.arrays.gram[twin, :3]
    f.arrays.gram[2, 2] = 1.0
    f.arrays.inverse[:3, :3] = 0.0
    expected = np.unique(f.dictionary)
    if joins:
        error = f.add(X[3:], np.zeros((1, 1)), -1.0, np.array([-1]), np.array([1]))
    else:
        error = f.add(X[:1], np.zeros((1, 1)), 1e-6, np.array([0]), np.array([0]))
    assert_allclose(error, 0.0, atol=1e-9)
    assert_array_equal(np.sort(f.dictionary[:, 0]), [*expected, 9.0][: 2 + joins])
    diagonal = np.sort(np.diag(f.coefficients))
    assert_allclose(diagonal, [0.0, 1.0, 2.0] if joins else [1.0, 2.0], atol=1e-9)


# -- points that come again ------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", COMPRESSORS, ids=repr)
@pytest.mark.parametrize("name", ["three inputs", "duplicates", "near duplicates", "very smooth"])
def test_points_with_a_place_stay(expansion, name):
    def look(f, old, points, V, error, stream):
        assert f.slots.size <= len(stream.buffer)
        there = np.vstack([old[0], points])
        for place, slot in enumerate(f.slots):
            x = stream.buffer[place][np.newaxis]
            if slot >= 0:
                assert_allclose(f.kernel(x, f.dictionary[[slot]])[0], f.kernel.diag(x), rtol=1e-12)
            else:
                others = there[np.abs(there - x).sum(axis=1) > 0]
                row = f.kernel(x, others)[0]
                weights = np.linalg.lstsq(f.kernel(others), row, rcond=1e-12)[0]
                assert f.kernel.diag(x)[0] - weights @ row <= 2e-6

    run(expansion, name, 30, look=look)


def test_a_point_in_the_buffer_stays_although_it_adds_nothing():
    f = BilinearExpansion(Gaussian(1.0), KOMP(tolerance=1.0), 1)
    f.add(np.zeros((1, 1)), np.zeros((1, 1)), 1.0, np.array([-1]), np.array([5]))
    assert f.size == 1
    assert_array_equal(f.slots, [-1, -1, -1, -1, -1, 0])
    f.add(np.zeros((1, 1)), np.zeros((1, 1)), 1.0, np.array([5]), np.array([-1]))
    assert f.size == 0


def test_twins_share_a_slot():
    f = BilinearExpansion(Gaussian(1.0), KOMP(tolerance=0.0), 1)
    X = np.array([[0.0], [1.0], [0.0]])
    V = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    f.add(X, V, 0.0, np.full(3, -1), np.array([0, 1, 2]))
    assert_array_equal(f.dictionary, [[0.0], [1.0]])
    assert_array_equal(f.slots, [0, 1, 0])
    assert_array_equal(f.coefficients, [[20.0, 10.0], [10.0, 5.0]])
    f.add(X[2:], V[:1, :1], 0.0)
    assert_array_equal(f.coefficients, [[21.0, 10.0], [10.0, 5.0]])


@pytest.mark.parametrize(
    "expansion", [KOMP(max_size=3), Budget(3, "project"), Budget(3, "remove"), Full(3)], ids=repr
)
def test_a_budget_that_the_buffer_fills_is_refused_and_changes_nothing(expansion):
    f = BilinearExpansion(Gaussian(0.1), expansion, 1)
    X = np.arange(3.0)[:, None]
    f.add(X[:2], np.ones((2, 2)), 0.0, np.full(2, -1), np.array([0, 1]))
    state = f.snapshot()
    with pytest.raises(ValueError, match=r"at most 3 points, but the buffer holds 3 .* `buffer`"):
        f.add(X, np.ones((3, 3)), 0.0, np.array([0, 1, -1]), np.array([0, 1, 2]))
    assert_same(state, f.snapshot())
    f.add(X, np.ones((3, 3)), 0.0, np.array([0, 1, -1]), np.array([0, -1, 1]))
    assert f.size == 3


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expansion", [*COMPRESSORS, RandomFeatures(block_size=32, precision="double")], ids=repr
)
def test_values_are_those_of_the_coefficients(expansion):
    draw, kernel = STREAMS["three inputs"]
    f, stream = start_bilinear(expansion, kernel, 3), Stream(draw)
    for _ in range(40):
        points, V, before, after = stream.step()
        f.current(points)
        f.shrink(0.3)  # soon the common factor is multiplied in
        f.add(points, V, 0.01, before, after)
    X1, X2 = np.random.default_rng(2).normal(size=(2, 9, 3))
    if isinstance(f, BilinearFeatures):
        left, right = f.random_features(X1), f.random_features(X2)
    else:
        left, right = f.kernel(X1, f.dictionary), f.kernel(X2, f.dictionary)
    whole = left @ f.coefficients @ right.T
    assert_allclose(f.bilinear(X1, X2), np.diag(whole), rtol=1e-9, atol=1e-15)
    both = np.vstack([X1, X2])
    assert_allclose(f.current(both)[:9, 9:], whole, rtol=1e-9, atol=1e-15)
    assert f.coefficients.shape == (f.size, f.size)
    assert f.n_steps == 40


def test_long_lists_of_pairs_are_evaluated_in_blocks(monkeypatch):
    f = run(KOMP(tolerance=0.01), "three inputs", 20)
    X1, X2 = np.random.default_rng(2).normal(size=(2, 50, 3))
    expected = f.bilinear(X1, X2)
    monkeypatch.setattr("mercer.functions.bilinear._CHUNK", 3 * f.size)
    assert_allclose(f.bilinear(X1, X2), expected, rtol=1e-12)


def test_the_uncompressed_function_is_the_sum_of_all_steps():
    parts = []

    def look(f, old, points, V, error, stream):
        parts[:] = [(x, 0.99 * c) for x, c in parts] + [(points, V)]

    f = run(Full(), "duplicates", 30, look=look)
    assert norm_of_sum(f.kernel, *parts, (f.dictionary, -f.coefficients)) < 1e-8
    assert len(np.unique(f.dictionary, axis=0)) == f.size


@pytest.mark.parametrize("expansion", COMPRESSORS, ids=repr)
def test_points_in_float32_are_kept_and_computed_with_in_float64(expansion):
    def look(f, old, points, V, error, stream):
        assert points.dtype == f.dictionary.dtype == np.float32
        true = step_error(f, old, points, V)
        assert_allclose(error, true, rtol=1e-5, atol=1e-8 * hs_norm(f.kernel, points, V))

    f = run(expansion, "three inputs", 50, dtype=np.float32, look=look)
    assert f.dtype == np.float32
    assert f.current(f.dictionary).dtype == np.float64


# -- random features -------------------------------------------------------------------------------


def test_random_features_approximate_the_exact_function_on_average():
    draw, kernel = STREAMS["three inputs"]
    stream = Stream(draw)
    steps = [stream.step() for _ in range(10)]
    exact = start_bilinear(Full(), kernel, 3)
    for points, V, *_ in steps:
        exact.add(points, V, 0.0)
    X1, X2 = np.random.default_rng(3).normal(size=(2, 5, 3))
    values = []
    for seed in range(200):
        f = start_bilinear(RandomFeatures(block_size=64, seed=seed), kernel, 3)
        for points, V, *_ in steps:
            assert f.add(points, V, 0.0) == 0.0
        values.append(f.bilinear(X1, X2))
    # The mean of products of two kernel estimates has a bias of the order of 1 / size.
    mean, deviation = np.mean(values, axis=0), np.std(values, axis=0)
    bias = 2.0 / f.size * np.sum(np.abs(exact.coefficients))
    assert (np.abs(mean - exact.bilinear(X1, X2)) <= 4 * deviation / np.sqrt(200) + bias).all()
    errors = np.sqrt(np.mean((np.array(values) - exact.bilinear(X1, X2)) ** 2))
    large = start_bilinear(RandomFeatures(block_size=1024, seed=7), kernel, 3)
    for points, V, *_ in steps:
        large.add(points, V, 0.0)
    # 16 times the features: a quarter of the error; half, to leave room for chance.
    assert np.sqrt(np.mean((large.bilinear(X1, X2) - exact.bilinear(X1, X2)) ** 2)) < errors / 2


def test_size_of_random_features_and_their_gram_matrix():
    kernel, X = Gaussian(1.0), np.random.default_rng(0).normal(size=(6, 2))
    assert start_bilinear(RandomFeatures(block_size=100), kernel, 2).size == 200
    f = start_bilinear(RandomFeatures(block_size=512, mode="cyclic", max_blocks=8), kernel, 2)
    assert f.size == 4096
    assert_allclose(f.random_features(X) @ f.random_features(X).T, kernel(X), atol=0.06)
    assert f.dtype == np.float32


@pytest.mark.parametrize(
    "expansion",
    [
        RandomFeatures(ridge=0.1),
        RandomFeatures(mode="cyclic", growth="doubling"),
    ],
    ids=repr,
)
def test_options_of_random_features_that_mean_nothing_here_are_refused(expansion):
    with pytest.raises(ValueError, match="Leave both at 'auto'"):
        start_bilinear(expansion, Gaussian(1.0), 2)


# -- refusals --------------------------------------------------------------------------------------


def test_merging_is_refused():
    with pytest.raises(ValueError, match=r"not one to merge.*strategy='project'"):
        start_bilinear(Budget(10, "merge"), Gaussian(1.0), 2)


class Unknown(Full):
    def compressor(self, kernel):
        return Compressor(TRIANGULAR, 0.0, 0.0)


def test_an_expansion_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"Unknown\(\) does not exist for bilinear functions"):
        start_bilinear(Unknown(), Gaussian(1.0), 2)


@pytest.mark.parametrize("expansion", [KOMP(), RandomFeatures()], ids=repr)
def test_what_bilinear_functions_do_not_have_is_refused(expansion):
    with pytest.raises(ValueError, match="Averaged coefficients are not kept"):
        start_bilinear(expansion, Gaussian(1.0), 2, averaging=0.0)
    f = start_bilinear(expansion, Gaussian(1.0), 2)
    with pytest.raises(ValueError, match=r"Use `bilinear\(X1, X2\)`"):
        f.evaluate(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="does not keep"):
        f.keep_previous()
    with pytest.raises(ValueError, match="does not keep"):
        f.previous(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="cannot be mixed"):
        f.mix(np.eye(1))


# -- state -----------------------------------------------------------------------------------------


def assert_same(first, second):
    assert first["numbers"] == second["numbers"]
    assert first["arrays"].keys() == second["arrays"].keys()
    for name, array in first["arrays"].items():
        assert_array_equal(array, second["arrays"][name])
        assert array.dtype == second["arrays"][name].dtype


@pytest.mark.parametrize(
    ("expansion", "name", "packed"),
    covering(
        [*COMPRESSORS, RandomFeatures(block_size=16)],
        ["three inputs", "smooth, one input"],
        [True, False],
    ),
)
def test_a_restored_function_goes_on_bit_for_bit(expansion, name, packed):
    draw, kernel = STREAMS[name]
    stream = Stream(draw)
    n_features = len(draw(np.random.default_rng(0), 0))
    f = start_bilinear(expansion, kernel, n_features)
    for t in range(50):
        points, V, before, after = stream.step()
        if t == 30:
            state = f.snapshot(packed=packed)
            other = start_bilinear(expansion, kernel, n_features)
            other.restore(copy.deepcopy(state))
            assert_same(state, other.snapshot(packed=packed))
            third = pickle.loads(pickle.dumps(f))
        for g in (f,) if t < 30 else (f, other, third):
            g.current(points)
            g.shrink(0.99)
            g.add(points, V, 0.01, before, after)
    assert_same(f.snapshot(), other.snapshot())
    assert_same(f.snapshot(), third.snapshot())


def test_a_snapshot_undoes_steps():
    f = run(KOMP(tolerance=0.01), "three inputs", 30)
    state = f.snapshot(packed=False)
    f.add(np.ones((2, 3)), np.ones((2, 2)), 0.0)
    f.restore(state)
    assert_same(state, f.snapshot(packed=False))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("points", lambda a: a[:, :2]),
        ("coefficients", lambda a: a[:-1]),
        ("gram", lambda a: a.astype(np.float32)),
        ("inverse", lambda a: a[:-1]),
        ("row_norms", lambda a: a[:-1]),
        ("self_kernel", lambda a: a[:-1]),
        ("ages", lambda a: a.astype(np.float64)),
        ("slots", lambda a: a + 10**6),
        ("slots", lambda a: a - 10**6),
    ],
)
def test_arrays_that_do_not_fit_are_refused(part, change):
    f = run(KOMP(tolerance=0.01), "three inputs", 30)
    state = f.snapshot()
    state["arrays"][part] = change(state["arrays"][part])
    with pytest.raises(ValueError, match=r"` must be|do not fit"):
        start_bilinear(f.expansion, f.kernel, 3).restore(state)


@pytest.mark.parametrize(("name", "value"), [("scale", -1.0), ("n_steps", 1.5), ("n_joined", -1)])
def test_numbers_out_of_range_are_refused(name, value):
    f = run(KOMP(tolerance=0.01), "three inputs", 5)
    state = f.snapshot()
    state["numbers"][name] = value
    with pytest.raises(ValueError, match=f"`{name}` must"):
        f.restore(state)


def test_states_of_random_features_that_do_not_fit_are_refused():
    f = start_bilinear(RandomFeatures(block_size=16), Gaussian(1.0), 2)
    state = start_bilinear(RandomFeatures(block_size=8), Gaussian(1.0), 2).snapshot()
    with pytest.raises(ValueError, match="`coefficients` must be of shape"):
        f.restore(state)
