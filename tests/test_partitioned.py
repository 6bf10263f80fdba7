"""Kernels that are local to cells: which cell, what length, and splitting one."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist, pdist

from mercer import KernelRegressor, load_model
from mercer.expansions import KOMP, Budget, Full
from mercer.kernels import (
    ArcCosine,
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
)

BASES = [
    "gaussian",
    Gaussian(2.0),
    Laplacian(),
    Matern(2.5),
    Cauchy(),
    Linear(),
    Polynomial(2),
    ArcCosine(1),
    Gaussian() + 0.5 * Linear(),
]


def points(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def nearest(X, anchors):
    return cdist(X, anchors).argmin(axis=1)


def small(n_anchors=4, base="gaussian", **options):
    return Partitioned(base, points(n_anchors, seed=1), **options).resolve(points(200))


class TestCells:
    @pytest.mark.parametrize("n_anchors", [1, 2, 7, 300])
    @pytest.mark.parametrize("shift", [0.0, 1e3])
    def test_cell_is_the_nearest_anchor(self, n_anchors, shift):
        X, anchors = points(3000) + shift, points(n_anchors, seed=1) + shift
        cells = Partitioned(anchors=anchors).cells(X)
        assert cells.dtype == np.int64
        assert_array_equal(cells, nearest(X, anchors))

    def test_anchors_that_float32_cannot_tell_apart_are_told_apart(self):
        X = 1e-3 * points(500)
        anchors = np.vstack([1e-3 * points(40, seed=1), np.full((1, X.shape[1]), 1e5)])
        assert_array_equal(Partitioned(anchors=anchors).cells(X), nearest(X, anchors))
        mixed = np.vstack([X, anchors[-1] + X])
        assert_array_equal(Partitioned(anchors=anchors).cells(mixed), nearest(mixed, anchors))

    @pytest.mark.parametrize("offset", [0.0, 3e3, 1e8])
    def test_cell_depends_on_the_row_alone_and_not_on_its_dtype(self, offset):
        # Points of a grid have equally near anchors by the hundred, exactly or all but.
        grid = np.stack(np.meshgrid(*[np.arange(-3.0, 4.0)] * 3), axis=-1).reshape(-1, 3)
        X = np.vstack([grid, points(300)]).astype(np.float32) + np.float32(offset)
        kernel = Partitioned(anchors=np.vstack([grid[::5] + 0.5, points(30)]) + offset)
        cells = kernel.cells(X)
        assert_array_equal(kernel.cells(X.astype(np.float64)), cells)
        assert_array_equal([kernel.cells(x[None])[0] for x in X[::7]], cells[::7])
        assert_array_equal(kernel.cells(X[::-1]), cells[::-1])

    def test_equally_near_anchors_give_the_lowest_number(self):
        kernel = Partitioned(anchors=[[5.0, 5.0], [0.1, 0.0], [-0.1, 0.0], [0.1, 0.0]])
        X = np.array([[0.0, 0.0], [0.0, 0.3], [0.1, 0.0], [-0.1, 0.0]])
        assert_array_equal(kernel.cells(X), [1, 1, 1, 2])
        assert_array_equal(kernel.cells(X.astype(np.float32)), [1, 1, 1, 2])

    @settings(deadline=None, max_examples=60)
    @given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-30, 1e-6, 1.0, 1e15, 1e30]))
    def test_numbers_of_any_size_are_compared(self, seed, scale):
        rng = np.random.default_rng(seed)
        anchors = (scale * rng.standard_normal((6, 2))).astype(np.float32)
        X = (scale * rng.choice([0.01, 1.0, 100.0], (20, 1)) * rng.standard_normal((20, 2))).astype(
            np.float32
        )
        kernel = Partitioned(anchors=anchors)
        assert_array_equal(kernel.cells(X), nearest(X, anchors))
        assert_array_equal(kernel.cells(X.astype(float)), nearest(X, anchors))

    @pytest.mark.parametrize("n_anchors", [1, 5])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rows_that_are_not_finite_are_in_no_cell(self, n_anchors, dtype):
        X = points(5).astype(dtype)
        X[1, 0], X[2, 1], X[4, 2] = np.nan, np.inf, -np.inf
        cells = Partitioned(anchors=points(n_anchors, seed=1)).cells(X)
        assert_array_equal(cells == -1, [False, True, True, False, True])

    def test_rows_of_another_space_and_unknown_anchors_are_refused(self):
        with pytest.raises(ValueError, match="anchors have 3 features, got rows of 2"):
            small().cells(points(2, d=2))
        with pytest.raises(ValueError, match=r"`anchors`.*Call kernel\.resolve"):
            Partitioned(anchors=3).cells(points(2))


class TestKernel:
    @pytest.mark.parametrize("base", BASES, ids=repr)
    def test_blocks_are_those_of_the_cells_own_kernels(self, base):
        kernel = small(base=base, constant=0.7)
        X, Z = points(60), points(40, seed=2)
        expected = np.zeros((60, 40))
        for c in range(kernel.n_cells):
            block = np.ix_(kernel.cells(X) == c, kernel.cells(Z) == c)
            expected[block] = kernel.inside(c)(X, Z)[block]
        assert_allclose(kernel(X, Z), expected, rtol=1e-12)
        assert np.linalg.eigvalsh(kernel(X)).min() > -1e-12 * kernel.diag(X).max()

    @pytest.mark.parametrize("base", BASES, ids=repr)
    def test_kernel_inside_a_cell_is_the_base_kernel_there_plus_the_constant(self, base):
        kernel, X = small(base=base, constant=0.7), 3 * points(20)
        for c in range(kernel.n_cells):
            inside = kernel.inside(c)
            assert inside.is_resolved
            assert_allclose(inside(X), inside.kernel(X) + 0.7)
            assert_allclose(inside.diag(X), np.diag(inside(X)))
            assert inside.bound == kernel.bound
            assert inside.bound is None or inside.bound >= inside.diag(X).max()
        assert kernel.inside(0) != kernel.inside(1) or "length_scale" not in repr(kernel.kernel)
        assert kernel.cell_kernels == [kernel.inside(c).kernel for c in range(kernel.n_cells)]
        with pytest.raises(ValueError, match="`cell` must be an integer between 0 and 3"):
            kernel.inside(4)

    def test_a_given_length_scale_multiplies_those_of_the_cells(self):
        unit, twice = small(), small(base=Gaussian(2.0))
        assert_allclose(twice.length_scales, unit.length_scales)
        assert unit.inside(2).kernel == Gaussian(unit.length_scales[2])
        assert twice.inside(2).kernel == Gaussian(2.0 * unit.length_scales[2])
        assert small(base=Gaussian() + Linear()).inside(1).kernel == (
            Gaussian(unit.length_scales[1]) + Linear()
        )

    def test_evaluation_leaves_the_base_kernel_alone(self):
        base = Gaussian(2.0)
        small(base=base)(points(30))
        assert base == Gaussian(2.0)

    def test_average_of_partitions_is_a_kernel(self):
        X = points(50)
        parts = [Partitioned(anchors=5, seed=seed) for seed in (0, 1)]
        kernel = (0.5 * (parts[0] + parts[1])).resolve(X)
        first, second = (part.resolve(X) for part in parts)
        assert (first.centres != second.centres).any()
        assert_allclose(kernel(X), (first(X) + second(X)) / 2)
        assert kernel.bound == 2.0

    def test_map_goes_around_the_partition(self):
        X = np.exp(points(60))
        kernel = Mapped(Partitioned(anchors=4), np.log).resolve(X)
        assert_allclose(kernel(X), Partitioned(anchors=4).resolve(np.log(X))(np.log(X)))

    def test_random_features_are_refused(self):
        with pytest.raises(ValueError, match="no random features: each of its 4 cells"):
            small().random_features(points(2), 8)


class TestNumbersFromData:
    @pytest.mark.parametrize("base", [Gaussian(), Laplacian(), Linear()], ids=repr)
    def test_length_is_a_multiple_of_the_median_distance_inside_the_cell(self, base):
        X = points(300)
        kernel = Partitioned(base, points(3, seed=1), multiple=0.3).resolve(X)
        metric = "cityblock" if isinstance(base, Laplacian) else "euclidean"
        cells = nearest(X, kernel.centres)
        expected = [0.3 * np.median(pdist(X[cells == c], metric)) for c in range(3)]
        assert_allclose(kernel.length_scales, expected)

    def test_large_cells_use_some_of_their_rows(self):
        X = points(4000)
        length = Partitioned.fitted(X, 1, multiple=1.0).length_scales[0]
        assert_allclose(length, np.median(pdist(X)), rtol=0.05)

    def test_cells_without_two_distinct_rows_take_the_median_of_all_rows(self):
        X = np.array([[0.0], [1.0], [50.0], [50.0], [90.0]])
        kernel = Partitioned(anchors=[[0.0], [50.0], [91.0], [300.0]], multiple=2.0).resolve(X)
        overall = np.median(pdist(X)[pdist(X) > 0])
        assert_allclose(kernel.length_scales, [2.0, *[2 * overall] * 3])

    def test_anchors_are_means_of_their_rows_and_every_cell_has_some(self):
        rng = np.random.default_rng(0)
        means = 20.0 * points(12, d=2, seed=3)
        X = means[rng.integers(12, size=900)] + rng.standard_normal((900, 2))
        kernel = Partitioned.fitted(X, 12)
        cells = kernel.cells(X)
        assert_array_equal(np.unique(cells), np.arange(kernel.n_cells))
        spread = cdist(X, kernel.centres).min(axis=1)
        assert (spread**2).mean() < 0.6 * (cdist(X, X[:12]).min(axis=1) ** 2).mean()
        for c in range(kernel.n_cells):
            assert np.linalg.norm(kernel.centres[c] - X[cells == c].mean(axis=0)) < 2.0

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_fewer_distinct_rows_than_anchors_give_fewer_cells(self, dtype):
        X = np.repeat(points(5), 20, axis=0).astype(dtype)
        kernel = Partitioned(anchors=32).resolve(X)
        assert kernel.n_cells == 5
        centres = np.unique(kernel.centres, axis=0)
        assert_allclose(centres, np.unique(X, axis=0), rtol=1e-14)  # means of equal rows
        assert_array_equal(kernel.length_scales, kernel.length_scales[0])

    def test_centres_that_lose_their_rows_move_where_rows_are(self):
        # Most starting rows lie in the dense clump, where all but few lose theirs to neighbours.
        rng = np.random.default_rng(0)
        X = np.vstack([1e-9 * rng.integers(3, size=(400, 1)), 10.0 + rng.random((20, 1))])
        kernel = Partitioned.fitted(X, 10)
        assert 2 <= kernel.n_cells <= 10
        assert_array_equal(np.unique(kernel.cells(X)), np.arange(kernel.n_cells))

    def test_the_seed_decides_the_anchors_whatever_the_rest(self):
        X = points(400)
        first, again, other = (Partitioned(anchors=8, seed=s).resolve(X) for s in (0, 0, 1))
        assert first == again
        assert (first.centres != other.centres).any()

    def test_fitted_looks_at_all_rows(self):
        X = np.vstack([points(3000), 100.0 + points(1)])
        kernel = Partitioned.fitted(X, 40, kernel=Matern(1.5), multiple=2.0, constant=0.0, seed=3)
        assert kernel.is_resolved
        assert kernel.kernel == Matern(1.5, 1.0)
        assert (kernel.multiple, kernel.constant, kernel.seed) == (2.0, 0.0, 3)
        assert kernel.cells(X[-1:])[0] in kernel.cells(X[:-1]) or kernel.n_cells == 40
        few = points(500)
        assert Partitioned.fitted(few, 6) == Partitioned(anchors=6).resolve(few)
        anchors = points(4, seed=1)
        assert Partitioned.fitted(few, anchors) == Partitioned(anchors=anchors).resolve(few)

    def test_no_rows_and_rows_that_are_not_finite_are_refused(self):
        with pytest.raises(ValueError, match="must have a row"):
            Partitioned().resolve(np.empty((0, 2)))
        with pytest.raises(ValueError, match="must be finite"):
            Partitioned.fitted([[np.nan], [1.0]])


class TestBalanced:
    @pytest.mark.parametrize("columns", [True, False])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_cells_have_nearly_as_many_rows_each(self, dtype, columns):
        X = points(3000, seed=1).astype(dtype)
        X[:, 1] = np.exp(3.0 * X[:, 1])
        kernel = Partitioned.balanced(X, 13, kernel=Gaussian(0.7), columns=columns, seed=2)
        counts = np.bincount(kernel.cells(X), minlength=13)
        assert kernel.n_cells == 13
        assert counts.min() > 3000 / 13 / 2.2  # the largest is split always, between .4 and .6
        assert counts.max() < 3000 / 13 * 2.2
        assert_array_equal(kernel.length_scales, np.ones(13))
        assert kernel.inside(4).kernel == Gaussian(0.7)

    def test_along_columns_one_number_decides(self):
        X = points(500, seed=1)
        pairs = Partitioned.balanced(X, 8).split_anchors
        assert (np.count_nonzero(pairs[:, 0] != pairs[:, 1], axis=1) == 1).all()
        other = Partitioned.balanced(X, 8, columns=False).split_anchors
        assert (np.count_nonzero(other[:, 0] != other[:, 1], axis=1) > 1).any()

    def test_cells_that_cannot_be_divided_stay(self):
        X = np.r_[np.zeros(50), np.ones(50)][:, np.newaxis]
        assert Partitioned.balanced(X, 9).n_cells == 2
        assert Partitioned.balanced(X[:1], 9).n_cells == 1

    def test_what_has_no_cells_is_refused(self):
        with pytest.raises(ValueError, match="must have a row"):
            Partitioned.balanced(np.empty((0, 2)), 3)
        with pytest.raises(ValueError, match="must be finite"):
            Partitioned.balanced([[np.nan]], 3)
        with pytest.raises(ValueError, match="`n_cells` must be"):
            Partitioned.balanced([[0.0]], 0)


class TestSplit:
    def test_only_rows_of_the_cell_move_and_the_others_keep_their_values(self):
        kernel, X = small(), points(500, seed=4)
        cells = kernel.cells(X)
        halves = kernel.split(1, X[cells == 1])
        after = halves.cells(X)
        assert_array_equal(after[cells != 1], cells[cells != 1])
        assert set(after[cells == 1]) == {1, 4}
        assert min((after == 1).sum(), (after == 4).sum()) >= (cells == 1).sum() / 4
        others = np.flatnonzero(cells != 1)
        assert_array_equal(halves(X)[others], kernel(X)[others])
        assert_array_equal(halves.length_scales, kernel.length_scales[[0, 1, 2, 3, 1]])

    def test_cells_split_again_and_again_stay_exact(self):
        kernel, X = small(2), points(600, seed=4)
        expected = kernel.cells(X)
        rng = np.random.default_rng(0)
        for s in range(12):
            cell = int(rng.choice(np.flatnonzero(np.bincount(expected) > 7)))
            mine = expected == cell
            unchecked = kernel.split(cell, X[mine], seed=s, check=False)
            kernel = kernel.split(cell, X[mine], seed=s)
            assert unchecked == kernel
            assert_array_equal(kernel.last_half(X[mine]), kernel.cells(X[mine]) == 2 + s)
            single = X[mine].astype(np.float32)
            assert_array_equal(kernel.last_half(single), kernel.cells(single) == 2 + s)
            second = cdist(X, kernel.centres[[cell, 2 + s]])
            expected[mine & (second[:, 1] < second[:, 0])] = 2 + s
            assert_array_equal(kernel.cells(X), expected)
            assert kernel.n_cells == 3 + s
            inside = [kernel.inside(c).anchors[0] for c in range(3 + s)]
            assert_array_equal(inside, kernel.centres)
        assert np.linalg.eigvalsh(kernel(X[:200])).min() > -1e-12 * 200

    def test_rows_that_are_equal_are_not_divided(self):
        kernel = Partitioned(anchors=[[0.0]], length_scales=[3.0])
        halves = kernel.split(0, [[0.0], [0.0], [0.0], [90.0], [90.0]])
        assert_array_equal(halves.cells([[0.0], [90.0]]), [0, 1])
        assert_array_equal(halves.length_scales, [3.0, 3.0])
        assert kernel == Partitioned(anchors=[[0.0]], length_scales=[3.0])
        with pytest.raises(ValueError, match="a quarter of them at least"):
            kernel.split(0, np.r_[np.zeros(90), np.ones(10)][:, np.newaxis])

    def test_what_cannot_be_split_is_refused(self):
        kernel, X = small(), points(200)
        with pytest.raises(ValueError, match="No cell was split"):
            kernel.last_half(X)
        halved = kernel.split(2, X[kernel.cells(X) == 2])
        for wrong in (X[:, :1], np.hstack([X, X])):
            for ask in (halved.last_half, partial(kernel.split, 2, check=False)):
                with pytest.raises(ValueError, match="The anchors have"):
                    ask(wrong)
        assert not halved.last_half(np.full((3, X.shape[1]), np.inf)).any()
        own = X[kernel.cells(X) == 2]
        for rows in (own[:1], own[[0, 0, 0]], own[:0]):
            with pytest.raises(ValueError, match="Cell 2 cannot be split"):
                kernel.split(2, rows)
        with pytest.raises(ValueError, match=r"rows of cell 2, got \d+ of 200 rows"):
            kernel.split(2, X)
        with pytest.raises(ValueError, match="must be finite"):
            kernel.split(2, np.full((2, 3), np.nan))
        with pytest.raises(ValueError, match="`cell` must be an integer between 0 and 3"):
            kernel.split(-1, own)


EXPANSIONS = [
    Full(),
    KOMP(tolerance=0.05),
    KOMP(max_size=40),
    Budget(300, "remove"),
    Budget(60, "project"),
]


def steps(n, seed):
    """Rows whose target is wild on the right and flat on the left, with a jump between."""
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 1))
    return X, np.where(X[:, 0] > 0, np.sin(12 * X[:, 0]), 1.0)


class TestModels:
    @pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
    def test_learns_with_every_expansion_and_is_saved(self, expansion, tmp_path):
        X, y = steps(400, seed=0)
        kernel = Partitioned(anchors=6)
        model = KernelRegressor(kernel=kernel, expansion=expansion, n_passes=3, random_state=0)
        model.fit(X, y)
        Z, z = steps(300, seed=1)
        assert model.score(Z, z) > 0.9
        assert_allclose(
            model.predict(Z), (model.kernel_(Z, model.dictionary_) @ model.coefficients_).ravel()
        )
        model.save(tmp_path / "model")
        again = load_model(tmp_path / "model")
        assert again.kernel_ == model.kernel_
        assert_array_equal(again.predict(Z), model.predict(Z))

    def test_function_in_a_cell_does_not_see_the_others(self):
        X, y = steps(200, seed=0)
        kernel = Partitioned(anchors=[[-1.0], [1.0]]).resolve(X)
        options = {"kernel": kernel, "expansion": Full(), "step_size": 0.3, "shuffle": False}
        left = X[:, 0] < 0
        both = KernelRegressor(batch_size=1, **options).fit(X, y)
        other = KernelRegressor(batch_size=1, **options).fit(X, np.where(left, y, -3.0))
        assert_array_equal(both.predict(X[left]), other.predict(X[left]))
        assert (both.predict(X[~left]) != other.predict(X[~left])).all()

    def test_merging_is_refused(self):
        with pytest.raises(ValueError, match="Gaussian kernel only"):
            KernelRegressor(kernel=Partitioned(), expansion=Budget(9, "merge")).fit(*steps(50, 0))
