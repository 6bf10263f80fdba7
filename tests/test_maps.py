"""Maps of the inputs: affine maps, what is learned from rows, and metrics from gradients."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import KernelRegressor
from mercer.component import from_config, to_config
from mercer.expansions import KOMP, RandomFeatures
from mercer.kernels import (
    FunctionKernel,
    Gaussian,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Polynomial,
)
from mercer.maps import (
    Affine,
    LearnedMap,
    MapStatistics,
    PrincipalComponents,
    Standardize,
    ard_metric,
    full_metric,
)
from mercer.maps.affine import axes_of_rows, leading_axes
from mercer.sums import average_gradient_outer_product


def points(n, d=4, seed=0, dtype=float):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def spread_points(n, d=4, seed=0):
    """Points whose principal components are well apart, far from the origin."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.standard_normal((d, d)))[0]
    return generator.standard_normal((n, d)) * 3.0 ** np.arange(d) @ rotation + 100.0


def random_affine(generator, n_inputs, kind):
    """A map of a kind: every column, some columns, some more, a matrix."""
    shift = generator.standard_normal(n_inputs)
    if kind == "matrix":
        n_outputs = int(generator.integers(1, 6))
        return Affine(shift, generator.standard_normal((n_inputs, n_outputs)))
    scale = generator.uniform(0.5, 2.0, n_inputs)
    if kind != "scale":
        scale[generator.integers(0, n_inputs)] = 0.0
    offset = generator.standard_normal(np.count_nonzero(scale)) if kind == "offset" else None
    return Affine(shift, scale, offset)


# Each takes rows of four columns.
MAPS = [
    Affine([1.0, -2.0, 0.5, 3.0], [2.0, 0.5, -1.0, 4.0]),
    Affine([1.0, -2.0, 0.5, 3.0], [0.0, 0.5, 0.0, 4.0]),
    Affine([1.0, -2.0, 0.5, 3.0], [0.0, 0.5, 0.0, 4.0], [7.0, -1.0]),
    Affine([1.0, -2.0, 0.5, 3.0], points(4, 3)),
    Affine([1.0, -2.0, 0.5, 3.0], points(4, 6), np.arange(6.0)),
    Standardize().fit(points(30)),
    PrincipalComponents(2).fit(points(30)),
    PrincipalComponents(0.9, whiten=True).fit(points(30)),
    ard_metric(np.diag([1.0, 2.0, 0.5, 1e-9])),
    full_metric(np.cov(points(30).T)),
]
LEARNED = [
    Standardize(),
    PrincipalComponents(),
    PrincipalComponents(2),
    PrincipalComponents(0.8),
    PrincipalComponents(3, whiten=True),
]
every_map = pytest.mark.parametrize("affine", MAPS, ids=range(len(MAPS)))
every_learned = pytest.mark.parametrize("learned", LEARNED, ids=repr)


def by_hand(affine, x):
    """The formula of an affine map for one row, column by column."""
    moved = [a - b for a, b in zip(x, np.asarray(affine.shift), strict=True)]
    matrix = np.asarray(affine.matrix)
    if matrix.ndim == 1:
        out = [m * a for m, a in zip(moved, matrix, strict=True) if a != 0]
    else:
        out = [sum(m * a for m, a in zip(moved, column, strict=True)) for column in matrix.T]
    return np.array(out) + (0.0 if affine.offset is None else np.asarray(affine.offset))


class TestAffine:
    @every_map
    @pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
    def test_equals_its_formula_and_keeps_the_dtype(self, affine, dtype, rtol):
        X = points(7, dtype=dtype)
        before = X.copy()
        mapped = affine(X)
        assert mapped.dtype == dtype
        assert mapped.shape == (7, affine.n_outputs)
        assert mapped.flags.c_contiguous
        assert affine.n_inputs == 4
        assert_allclose(mapped, [by_hand(affine, x) for x in X], rtol=rtol, atol=20 * rtol)
        assert_array_equal(X, before)
        assert_array_equal(affine(np.asfortranarray(X)), mapped)
        assert affine(X[:0]).shape == (0, affine.n_outputs)

    @every_map
    def test_integers_and_lists_are_float64(self, affine):
        mapped = affine([[1, 2, 3, 4]])
        assert mapped.dtype == np.float64
        assert_allclose(mapped[0], by_hand(affine, [1, 2, 3, 4]), atol=1e-13)

    @every_map
    def test_plain_data_restore_it_bit_for_bit(self, affine):
        again = from_config(json.loads(json.dumps(to_config(affine))))
        assert again == affine
        assert_array_equal(again(points(5)), affine(points(5)))
        single = points(5, dtype=np.float32)
        assert_array_equal(again(single), affine(single))

    @every_map
    def test_copies_are_equal_and_compute_the_same(self, affine):
        for copy in (pickle.loads(pickle.dumps(affine)), clone(affine)):
            assert copy == affine
            assert copy is not affine
            assert_array_equal(copy(points(3)), affine(points(3)))

    def test_maps_with_other_numbers_differ(self):
        assert len({json.dumps(to_config(affine)) for affine in MAPS}) == len(MAPS)
        for i, affine in enumerate(MAPS):
            assert [affine == other for other in MAPS] == [j == i for j in range(len(MAPS))]

    def test_later_changes_of_the_callers_arrays_change_nothing(self):
        shift, scale = np.zeros(2), np.ones(2)
        affine = Affine(shift, scale)
        shift += 1
        scale *= 5
        assert_array_equal(affine([[1.0, 1.0]]), [[1.0, 1.0]])

    def test_set_params_takes_effect(self):
        affine = Affine([0.0, 0.0], [1.0, 1.0]).set_params(matrix=[2.0, 0.0])
        assert_array_equal(affine([[3.0, 4.0]]), [[6.0]])

    def test_numbers_beyond_float32_do_not_become_infinite(self):
        affine = Affine([0.0], [1e40])
        assert_allclose(affine(np.array([[1e-40]], dtype=np.float32)), [[1.0]], rtol=1e-4)

    def test_far_from_the_origin_no_digits_are_lost(self):
        X = points(20)
        affine = Affine(np.full(4, 1e9), points(4, 3))
        assert_allclose(affine(X + 1e9), (X + 1e9 - 1e9) @ points(4, 3), atol=1e-12)

    def test_nan_stays_in_its_row_or_goes_with_its_column(self):
        X = points(3)
        X[1, 0] = np.nan
        assert_array_equal(np.isnan(MAPS[0](X)).any(axis=1), [False, True, False])
        assert_array_equal(np.isnan(MAPS[3](X)).any(axis=1), [False, True, False])
        assert np.isfinite(MAPS[1](X)).all()

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (([0.0], [1.0, 1.0]), r"got \(1,\) and \(2,\)"),
            (([[0.0]], [1.0]), r"got \(1, 1\) and \(1,\)"),
            (([0.0], [[[1.0]]]), r"one row of `matrix`"),
            ((0.0, 1.0), r"got \(\) and \(\)"),
            (([np.nan], [1.0]), "`shift` must be an array of finite numbers"),
            (([0.0], [np.inf]), "`matrix` must be an array of finite numbers"),
            ((["a"], [1.0]), "`shift` must be an array of finite numbers"),
            (([0.0], [[1.0], [2.0, 3.0]]), "`matrix` must be an array of finite numbers"),
            (([0.0, 0.0], [0.0, 0.0]), "must leave a column"),
            (([0.0], np.empty((1, 0))), "must leave a column"),
            (([], []), "must leave a column"),
            (([0.0, 0.0], [1.0, 0.0], [1.0, 1.0]), r"`offset` must have the shape \(1,\)"),
            (([0.0], [1.0], [np.nan]), "`offset` must be an array of finite numbers"),
        ],
    )
    def test_wrong_numbers_are_refused_by_name(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            Affine(*arguments)

    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            (np.zeros((2, 3)), r"shape \(n_rows, 4\), got \(2, 3\)"),
            (np.zeros(4), r"got \(4,\)"),
            (np.zeros((1, 4), dtype=complex), "must be real"),
            (sparse.csr_array(np.zeros((2, 4))), "must be dense"),
        ],
    )
    def test_wrong_rows_are_refused(self, rows, match):
        for call in (MAPS[0], Standardize().start(4).add):
            with pytest.raises(ValueError, match=match):
                call(rows)


class TestChains:
    kinds = st.sampled_from(["scale", "dropping", "offset", "matrix"])

    @given(seed=st.integers(0, 2**32 - 1), first=kinds, second=kinds, third=kinds)
    @settings(max_examples=60, deadline=None)
    def test_a_chain_is_one_map(self, seed, first, second, third):
        generator = np.random.default_rng(seed)
        n = {"scale": 3, "dropping": 5, "offset": 5, "matrix": 4}[first]
        maps = [random_affine(generator, n, first)]
        for kind in (second, third):
            # A map that drops a column needs another one.
            width = maps[-1].n_outputs
            maps.append(random_affine(generator, width, kind if width > 1 else "scale"))
        X = 5 * generator.standard_normal((6, n))
        chain = maps[0].then(maps[1]).then(maps[2])
        assert (chain.n_inputs, chain.n_outputs) == (n, maps[2].n_outputs)
        assert_allclose(chain(X), maps[2](maps[1](maps[0](X))), rtol=1e-10, atol=1e-10)
        assert_allclose(maps[0].then(maps[1].then(maps[2]))(X), chain(X), rtol=1e-10, atol=1e-10)

    def test_scales_stay_scales(self):
        standard = Standardize().fit(spread_points(20))
        chain = standard.then(ard_metric(np.diag([1.0, 4.0, 1e-9, 2.0])))
        assert np.asarray(chain.matrix).shape == (4,)
        assert chain.n_outputs == 3
        assert chain.offset is None

    @pytest.mark.parametrize("other", [Affine([0.0], [1.0]), np.sqrt, Standardize()])
    def test_what_does_not_follow_is_refused(self, other):
        with pytest.raises(ValueError, match="an Affine map of 4 inputs"):
            MAPS[0].then(other)

    @every_map
    def test_gradients_are_pulled_back_by_the_transposed_matrix(self, affine):
        # The gradient of f(map(x)) for f(y) = <g, y>, by differences that are exact: f is affine.
        g = points(2, affine.n_outputs)
        columns = [(affine(e[None]) - affine(np.zeros((1, 4))))[0] for e in np.eye(4)]
        assert_allclose(affine.pull_back(g), g @ np.array(columns).T, atol=1e-12)
        with pytest.raises(ValueError, match=f"must have {affine.n_outputs} numbers each"):
            affine.pull_back(points(2, 9))


class TestLearnedMaps:
    @every_learned
    @given(data=st.data())
    @settings(max_examples=15, deadline=None)
    def test_pieces_give_the_map_of_the_whole(self, learned, data):
        X = spread_points(60, seed=data.draw(st.integers(0, 2**32 - 1)))
        cuts = sorted(data.draw(st.lists(st.integers(0, 60), max_size=8)))
        statistics = learned.start(4)
        assert isinstance(statistics, MapStatistics)
        for piece in np.split(X, cuts):
            assert statistics.add(piece) is statistics
        assert statistics.n_rows == 60
        mapped, whole = statistics.finish()(X), learned.fit(X)(X)
        assert_allclose(mapped, whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max())

    @every_learned
    def test_parameters_are_plain_data_and_stay_as_they_are(self, learned):
        before = clone(learned)
        affine = learned.fit(points(30))
        assert isinstance(learned, LearnedMap)
        assert isinstance(affine, Affine)
        assert learned == before
        assert from_config(json.loads(json.dumps(to_config(learned)))) == learned
        assert affine == learned.fit(points(30))

    @every_learned
    def test_more_rows_than_a_block_and_rows_in_single_precision(self, learned):
        X = spread_points(5000).astype(np.float32)
        whole = learned.fit(X.astype(np.float64))
        assert_allclose(learned.fit(X)(X[:50]), whole(X[:50]), rtol=1e-3, atol=1e-3)
        half = learned.start(4).add(X[:2500])
        assert half.finish() != whole
        assert_allclose(half.add(X[2500:]).finish()(X[:9]), whole(X[:9]), rtol=1e-3, atol=1e-3)

    @every_learned
    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            (np.empty((0, 4)), "from no rows"),
            (np.array([[0.0, 1.0, np.nan, 2.0]]), r"got nan in column 2 \(row 0\)"),
            (np.full((2, 4), [[1.0], [-np.inf]]), r"got -inf in column 0 \(row 1\)"),
            (np.array([[0.0] * 4, [1e300] * 4]), "their squares overflow"),
            (np.zeros(4), r"got \(4,\)"),
            (np.empty((3, 0)), "n_inputs"),
        ],
    )
    def test_rows_that_teach_nothing_are_refused(self, learned, rows, match):
        with pytest.raises(ValueError, match=match):
            learned.fit(rows)

    @every_learned
    def test_refused_rows_leave_no_trace(self, learned):
        statistics = learned.start(4).add(points(30))
        bad = points(5)
        bad[3, 1] = np.nan
        with pytest.raises(ValueError, match="must be finite"):
            statistics.add(bad)
        assert statistics.n_rows == 30
        assert statistics.finish() == learned.fit(points(30))

    def test_standardize_equals_scikit_learn(self):
        X = np.column_stack([points(40), np.full(40, 0.1), 1e6 + 1e-3 * points(40, 1)])
        expected = StandardScaler().fit(X)
        affine = Standardize().fit(X)
        assert_allclose(affine(X), expected.transform(X), rtol=1e-6, atol=1e-7)
        assert_allclose(1 / np.asarray(affine.matrix), expected.scale_, rtol=1e-7)

    def test_constant_columns_become_zero_whatever_their_value(self):
        X = np.column_stack([points(1000, 1), np.full(1000, 0.1), np.full(1000, 1e15)])
        mapped = Standardize().fit(X)(X)
        assert_array_equal(mapped[:, 1:], 0.0)
        # A constant that went through arithmetic differs by rounding.
        X[::2, 1] = np.nextafter(0.1, 1.0)
        assert np.abs(Standardize().fit(X)(X)[:, 1]).max() < 1e-15
        assert_array_equal(Standardize().fit([[3.0, 4.0]])([[4.0, 4.0]]), [[1.0, 0.0]])

    @pytest.mark.parametrize("whiten", [False, True])
    @pytest.mark.parametrize(("n", "d", "k"), [(50, 6, 3), (50, 6, 6), (8, 20, 5)])
    def test_principal_components_equal_scikit_learn(self, n, d, k, whiten):
        X = spread_points(n, d)
        expected = PCA(k, whiten=whiten, svd_solver="full").fit(X)
        mapped = PrincipalComponents(k, whiten).fit(X)(X)
        reference = expected.transform(X)
        signs = np.sign((mapped * reference).sum(axis=0))
        assert_allclose(mapped, reference * signs, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("n", [2, 12, 39, 40])
    @pytest.mark.parametrize(
        "learned",
        [PrincipalComponents(5), PrincipalComponents(0.8), PrincipalComponents(5, whiten=True)],
        ids=repr,
    )
    def test_fewer_rows_than_columns_have_the_components_of_the_products_of_columns(
        self, learned, n
    ):
        X = 1e3 + spread_points(n, 40)
        whole, pieces = learned.fit(X), learned.start(40).add(X[: n // 2]).add(X[n // 2 :]).finish()
        assert whole.n_outputs == pieces.n_outputs
        assert_allclose(whole(X), pieces(X), rtol=1e-7, atol=1e-7)

    @pytest.mark.parametrize("fraction", [0.3, 0.9, 0.999])
    def test_a_fraction_of_the_variance_equals_scikit_learn(self, fraction):
        X = points(80, 12)
        expected = PCA(fraction, svd_solver="full").fit(X).n_components_
        assert PrincipalComponents(fraction).fit(X).n_outputs == expected

    def test_no_more_components_than_the_rows_span(self):
        X = points(30, 2) @ points(2, 9)  # rank 2
        for learned in (PrincipalComponents(5), PrincipalComponents(1.0), PrincipalComponents()):
            affine = learned.fit(X)
            assert affine.n_outputs == 2
            # Nothing is lost: the distances are those of the rows.
            assert_allclose(Gaussian(3.0)(affine(X)), Gaussian(3.0)(X), rtol=1e-9)
        assert PrincipalComponents(5).fit(points(3, 9)).n_outputs == 2

    def test_the_largest_number_of_a_component_is_positive(self):
        axes = np.asarray(PrincipalComponents(1.0).fit(spread_points(40, 7)).matrix)
        assert (axes[np.abs(axes).argmax(axis=0), np.arange(7)] > 0).all()
        assert_allclose(axes.T @ axes, np.eye(7), atol=1e-12)

    def test_few_components_of_many_inputs(self):
        # Wide enough for the iterative solver, of which the others are no witness.
        d, k = 1100, 5
        basis = np.linalg.qr(points(d, k))[0]
        matrix = (basis * [9.0, 7.0, 5.0, 3.0, 2.0]) @ basis.T + np.eye(d)
        values, axes = leading_axes(matrix, k)
        assert_allclose(values, [10.0, 8.0, 6.0, 4.0, 3.0], rtol=1e-10)
        assert_allclose(np.abs(axes.T @ basis), np.eye(k), atol=1e-8)

    @pytest.mark.parametrize("digits", [0, 4, 8, 12])
    def test_axes_of_rows_are_orthogonal_however_far_their_lengths_are_apart(self, digits):
        left, right = (np.linalg.qr(points(n, 20))[0] for n in (20, 60))
        lengths = np.logspace(0, -digits, 20)
        values, axes = axes_of_rows(left * lengths @ right.T, 20)
        assert_allclose(axes.T @ axes, np.eye(20), atol=1e-10)
        assert_allclose(values, lengths**2, rtol=0.0, atol=1e-13)
        found = lengths > 1e-6  # squares of others are rounding errors
        if digits:
            assert_allclose(np.abs((axes * right).sum(axis=0))[found], 1.0, atol=1e-9)
        assert (axes[np.abs(axes).argmax(axis=0), np.arange(20)] > 0).all()

    @pytest.mark.parametrize("n", [3, 300])
    def test_components_of_squares_whose_sum_overflows_are_refused(self, n):
        """Each sum is finite, but not that of all columns, which bounds the eigenvalues."""
        X = np.zeros((n, 200))
        X[1] = 3e153
        for learned in (PrincipalComponents(2), PrincipalComponents(0.5)):
            with pytest.raises(ValueError, match="their squares overflow"):
                learned.fit(X)
            assert Standardize().fit(X).n_outputs == 200

    @pytest.mark.parametrize("rows", [np.ones((1, 3)), np.full((5, 3), 0.1), np.full((2, 3), 0.1)])
    def test_equal_rows_have_no_components(self, rows):
        with pytest.raises(ValueError, match="at least two different rows"):
            PrincipalComponents().fit(rows)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ({"n_components": 0}, "For a fraction of the variance give a float"),
            ({"n_components": 0.0}, r"in \(0, 1\]"),
            ({"n_components": 2.0}, "without a point"),
            ({"n_components": True}, "n_components"),
            ({"n_components": "mle"}, "n_components"),
            ({"whiten": "yes"}, "whiten"),
        ],
    )
    def test_parameters_out_of_range_are_refused(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            PrincipalComponents(**arguments)


class TestMappedKernels:
    nested = Mapped(Mapped(Gaussian(), PrincipalComponents(2)), Standardize())

    def test_resolve_learns_the_map_and_then_the_kernel_on_mapped_rows(self):
        X = spread_points(50)
        kernel = Mapped(Gaussian(), PrincipalComponents(2))
        with pytest.raises(ValueError, match=r"`map` and `kernel` has to come from data"):
            kernel(X)
        with pytest.raises(ValueError, match=r"`map` has to come from data"):
            Mapped(Gaussian(1.0), Standardize())(X)
        affine = PrincipalComponents(2).fit(X)
        assert kernel.resolve(X) == Mapped(Gaussian().resolve(affine(X)), affine)
        # What is given stays.
        given = Mapped(Gaussian(2.0), Standardize()).resolve(X)
        assert given == Mapped(Gaussian(2.0), Standardize().fit(X))

    @every_map
    @pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 1e-4)])
    def test_values_are_those_of_the_mapped_points(self, affine, dtype, rtol):
        X, Z = points(6, dtype=dtype), points(5, seed=1, dtype=dtype)
        kernel = Mapped(Polynomial(2, 1.0, 0.3), affine)
        expected = [
            [(1 + 0.3 * (by_hand(affine, x) @ by_hand(affine, z))) ** 2 for z in Z] for x in X
        ]
        K = kernel(X, Z)
        assert K.dtype == dtype
        assert_allclose(K, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
        assert_array_equal(kernel(X), kernel(X).T)
        assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=10 * rtol)
        assert_array_equal(kernel(sparse.csr_array(X), Z), K)
        assert kernel.bound is None
        assert Mapped(3.0 * Gaussian(), affine).bound == 3
        with pytest.raises(ValueError, match=r"of the shape \(n_rows, 4\), got \(1, 3\)"):
            kernel(X[:1, :3])

    def test_resolved_kernels_are_plain_data(self):
        kernel = (2.0 * self.nested + Linear()).resolve(spread_points(50))
        again = from_config(json.loads(json.dumps(to_config(kernel))))
        assert again == kernel
        assert_array_equal(again(points(5)), kernel(points(5)))
        assert from_config(to_config(self.nested)) == self.nested

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_unwrapped_map_and_kernel_give_the_same_values(self, dtype):
        X = spread_points(50).astype(dtype)
        for kernel in (self.nested, Mapped(Laplacian(), Standardize()), Mapped(Matern(), np.tanh)):
            resolved = kernel.resolve(X)
            affine, inner = resolved.unwrapped()
            assert not isinstance(inner, Mapped)
            # Rounding differs by some ulps of the numbers before the first map, about 100.
            rtol = 1e-3 if dtype is np.float32 else 1e-10
            assert_allclose(inner(affine(X), affine(X[:5])), resolved(X, X[:5]), rtol, rtol)
        with pytest.raises(ValueError, match="has to come from data"):
            self.nested.unwrapped()

    def test_maps_that_are_none_are_refused(self):
        for wrong in (3, "standardize", Standardize, None):
            with pytest.raises(ValueError, match="an Affine map, a learned one"):
                Mapped(Gaussian(), wrong)

    def test_random_features_approach_the_kernel(self):
        X = spread_points(12)
        kernel = self.nested.resolve(X)
        Z = kernel.random_features(X, 2**14, seed=1)
        # 2^13 pairs: a standard error of at most 2^-6.5, of which five.
        assert_allclose(Z @ Z.T, kernel(X), atol=5 * 2**-6.5)

    @pytest.mark.parametrize(
        "expansion", [KOMP(max_size=30), RandomFeatures(block_size=64)], ids=["komp", "features"]
    )
    def test_estimators_learn_and_store_the_map(self, expansion, tmp_path):
        X = points(300, 3, seed=2) * [1.0, 100.0, 1e-3] + [0.0, 1e4, 5.0]
        y = np.sin((X[:, 1] - 1e4) / 100) + 1000 * (X[:, 2] - 5)
        model = KernelRegressor(
            kernel=Mapped(Gaussian(), Standardize()), expansion=expansion, random_state=0
        ).fit(X, y)
        assert model.score(X, y) > 0.5
        assert isinstance(model.kernel_.map, Affine)
        model.save(tmp_path / "model")
        again = mercer.load_model(tmp_path / "model")
        assert again.kernel_ == model.kernel_
        assert_array_equal(again.predict(X), model.predict(X))

    def test_grid_search_reaches_into_the_map(self):
        X = points(60, 3, seed=2)
        kernel = Mapped(Gaussian(), PrincipalComponents(1))
        search = GridSearchCV(
            KernelRegressor(kernel=kernel, expansion=KOMP(max_size=20), random_state=0),
            {"kernel__map__n_components": [1, 3]},
            cv=2,
        ).fit(X, X.sum(axis=1))
        assert search.best_estimator_.kernel_.map.n_outputs == 3
        assert kernel.map.n_components == 1
        with pytest.raises(ValueError, match="n_components"):
            kernel.set_params(map__n_components=-1)


def hidden(kernel):
    """The same kernel, as a function that has no formula for its gradient."""
    return FunctionKernel(lambda X, Z: kernel(X, Z))


DIFFERENTIABLE = [
    Gaussian(1.3),
    0.5 * Gaussian(2.0),
    Gaussian(1.0) + 2.0 * Gaussian(3.0),
    Gaussian(1.5) + Polynomial(2, 1.0, 0.3),
    Laplacian(1.3),
    *(Matern(nu, 1.3) for nu in (0.5, 1.2, 1.5, 2.5, 4.0)),
    Mapped(2.0 * Laplacian(1.0) + Matern(1.5, 1.0), MAPS[1]),
    *(Mapped(Gaussian(1.2), affine) for affine in MAPS),
    Mapped(Gaussian(1.0) + Linear(), MAPS[1]),
    Mapped(Gaussian(1.0), np.tanh),
    3.0 * Mapped(Mapped(Gaussian(1.0), MAPS[5]), Affine(np.ones(4), np.full(4, 1.5))),
]


class TestGradients:
    @pytest.mark.parametrize("kernel", DIFFERENTIABLE, ids=range(len(DIFFERENTIABLE)))
    def test_formulas_equal_differences(self, kernel):
        D, W, X = points(20), points(20, 3, seed=1), points(50, seed=2)
        expected = average_gradient_outer_product(hidden(kernel), D, W, X)
        G = average_gradient_outer_product(kernel, D, W, X)
        assert_allclose(G, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
        assert_allclose(G, G.T, rtol=1e-12)
        assert np.linalg.eigvalsh(G).min() >= -1e-12 * G.max()
        single = [A.astype(np.float32) for A in (D, W, X)]
        G32 = average_gradient_outer_product(kernel, *single)
        assert_allclose(G32, expected, rtol=2e-3, atol=1e-4 * np.abs(expected).max())

    def test_is_the_average_of_products_of_gradients(self):
        # A Gaussian at one point: the gradient is known in closed form.
        d, x, length = np.array([1.0, -1.0]), np.array([[0.5, 0.0], [2.0, 1.0]]), 1.5
        expected = np.zeros((2, 2))
        for row in x:
            value = np.exp(-np.sum((row - d) ** 2) / (2 * length**2))
            for weight in (2.0, -3.0):
                g = weight * value * (d - row) / length**2
                expected += np.outer(g, g) / 2
        kernel = Gaussian(length)
        G = average_gradient_outer_product(kernel, d[None], [[2.0, -3.0]], x)
        assert_allclose(G, expected, rtol=1e-12)
        halves = [average_gradient_outer_product(kernel, d[None], [[2.0, -3.0]], [r]) for r in x]
        assert_allclose(G, np.mean(halves, axis=0), rtol=1e-12)

    def test_many_rows_are_averaged_in_blocks(self, monkeypatch):
        D, w, X = points(20), points(20, 1)[:, 0], points(500, seed=2)
        whole = average_gradient_outer_product(Gaussian(1.0), D, w, X)
        monkeypatch.setattr("mercer.sums.gradients._NUMBERS", 700)
        pieces = average_gradient_outer_product(Gaussian(1.0), D, w, X)
        assert_allclose(pieces, whole, rtol=1e-10)

    def test_the_diagonal_can_be_had_alone(self, monkeypatch):
        D, W, X = points(20), points(20, 2), points(500, seed=2)
        monkeypatch.setattr("mercer.sums.gradients._NUMBERS", 700)
        G = average_gradient_outer_product(Gaussian(1.0), D, W, X)
        diagonal = average_gradient_outer_product(Gaussian(1.0), D, W, X, diagonal=True)
        assert_array_equal(diagonal, np.diag(G))
        monkeypatch.setattr("mercer.sums.gradients._COLUMNS", 3)
        pieces = average_gradient_outer_product(Gaussian(1.0), D, W, X, diagonal=True)
        assert_allclose(pieces, diagonal, rtol=1e-12)

    def test_far_from_the_origin(self):
        D, w, X = points(20), points(20, 1), points(50, seed=2)
        for kernel in (Gaussian(1.0), hidden(Gaussian(1.0))):
            G = average_gradient_outer_product(kernel, D, w, X)
            shifted = average_gradient_outer_product(kernel, D + 1e5, w, X + 1e5)
            # Differences of steps of 1e-5 keep eleven digits less those of 1e5.
            assert_allclose(shifted, G, rtol=1e-4, atol=1e-4 * np.abs(G).max())

    def test_inputs_without_influence_are_found(self):
        X = points(200, 3, seed=3)
        y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 2]
        kernel = Gaussian(2.0)
        w = np.linalg.solve(kernel(X) + 1e-3 * np.eye(200), y)
        G = average_gradient_outer_product(kernel, X, w, X)
        metric = ard_metric(G, floor=0.2)
        assert metric.n_outputs == 2
        assert_allclose(metric.matrix, [1.0, 0.0, 0.35], atol=0.05)
        # In the units of the inputs before a map, whatever they are.
        units = np.array([10.0, 1.0, 0.1])
        mapped = Mapped(kernel, Affine(np.zeros(3), 1 / units))
        rescaled = average_gradient_outer_product(mapped, X * units, w, X * units)
        assert_allclose(rescaled * np.multiply.outer(units, units), G, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ((Gaussian(), points(3), np.ones(3), points(2)), "cannot be differentiated"),
            ((Gaussian(1.0), points(3), np.ones(4), points(2)), r"shape \(3, n_outputs\)"),
            ((Gaussian(1.0), points(3), np.ones((3, 0)), points(2)), r"got \(3, 0\)"),
            ((Gaussian(1.0), points(3, 2), np.ones(3), points(2)), "points of one space"),
            ((Gaussian(1.0), points(3)[0], np.ones(3), points(2)), "points of one space"),
            ((Gaussian(1.0), points(3), np.ones(3), points(0)), "at least one row"),
            ((Gaussian(1.0), points(3), np.ones(3), np.full((1, 4), np.nan)), "not finite"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            average_gradient_outer_product(*arguments)


class TestMetrics:
    def test_distances_of_the_full_metric_are_those_of_the_matrix(self):
        G = np.cov(spread_points(30).T)
        top = np.linalg.eigvalsh(G)[-1]
        X = points(6)
        metric = full_metric(G, drop=False)
        assert metric.n_outputs == 4
        for x, image in zip(X, metric(X), strict=True):
            assert_allclose(image @ image, x @ G @ x / top, rtol=1e-10)

    def test_weights_are_relative_to_the_largest(self):
        G = np.diag([4.0, 1e-3, 0.0, 400.0])
        assert_allclose(ard_metric(G).matrix, [0.1, 0.0, 0.0, 1.0])
        assert_allclose(ard_metric(G, drop=False).matrix, [0.1, np.sqrt(1e-3 / 400), 0.0, 1.0])
        assert_allclose(ard_metric(G, floor=0.2).matrix, [0.0, 0.0, 0.0, 1.0])
        assert ard_metric(G)([[1.0, 1.0, 1.0, 1.0]]).shape == (1, 2)
        assert_array_equal(ard_metric(np.diag(G)).matrix, ard_metric(G).matrix)

    def test_directions_of_little_weight_are_dropped(self):
        G = np.diag([4.0, 1e-3, 0.0, 400.0])
        assert full_metric(G).n_outputs == 2
        assert full_metric(G, floor=0.2).n_outputs == 1
        assert full_metric(G, drop=False).n_outputs == 4
        assert full_metric(G, 3, drop=False).n_outputs == 3
        assert full_metric(G, 50).n_outputs == 2
        assert_allclose(full_metric(G, 1)([[1.0, 2.0, 3.0, 4.0]]), [[4.0]])

    @pytest.mark.parametrize("metric", [ard_metric, full_metric])
    @pytest.mark.parametrize(
        ("G", "match"),
        [
            (np.ones((2, 3)), r"square matrix of finite numbers, got the shape \(2, 3\)"),
            (np.ones((3, 3, 3)), "square matrix"),
            (np.full((2, 2), np.nan), "with NaN or infinity"),
            ([[1.0, 2.0], [0.0, 1.0]], "must be symmetric"),
            ([[-1.0, 0.0], [0.0, 1.0]], "no negative number"),
            (np.zeros((2, 2)), "the function is constant"),
        ],
    )
    def test_what_is_no_average_of_products_is_refused(self, metric, G, match):
        with pytest.raises(ValueError, match=match):
            metric(G)
        with pytest.raises(ValueError, match="floor"):
            metric(np.eye(2), floor=2.0)

    def test_directions_need_more_than_the_diagonal(self):
        with pytest.raises(ValueError, match=r"square matrix .* got the shape \(3,\)\."):
            full_metric(np.ones(3))
