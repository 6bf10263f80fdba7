"""Random features of every kernel against the kernel itself."""

import math
import pickle

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mercer import kernels
from mercer.features import CosineMap, FeatureOptions, SumLaw
from mercer.features.composite import ProductMap, ScaledMap, SumMap, child_paths
from mercer.features.dot import EXPONENTIAL_COEFFICIENTS
from mercer.kernels import (
    ArcCosine,
    Bias,
    Cauchy,
    ChiSquared,
    Convolutional,
    DistanceKernel,
    DotProduct,
    ExponentialSemigroup,
    FunctionKernel,
    Gaussian,
    Hellinger,
    Intersection,
    JensenShannon,
    Kernel,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
    RationalQuadratic,
    ReciprocalSemigroup,
    SkewedChiSquared,
    SkewedIntersection,
    half_line,
)
from mercer.maps import Affine

COSINES = [
    Gaussian(0.8),
    Laplacian(2.0),
    Cauchy(0.9),
    Matern(0.5, 1.1),
    Matern(1.7, 1.1),
    RationalQuadratic(0.7, 0.9),
]
ADDITIVE = [ChiSquared(), Intersection(), JensenShannon()]
SKEWED = [SkewedChiSquared(0.7), SkewedIntersection(0.7)]
SEMIGROUP = [ExponentialSemigroup(0.6), ReciprocalSemigroup(1.4)]
HALF_LINE = [Hellinger(), *ADDITIVE, *SKEWED, *SEMIGROUP]
DOT = [
    Linear(),
    Polynomial(1, 0.5, 0.4),
    Polynomial(2, 0.0, 0.3),
    Polynomial(3, 1.0, 0.3),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    ArcCosine(3),
    DotProduct(scale=0.3),
    DotProduct(scale=0.3, base=1.5),
    DotProduct([0.0, 1.0, 0.0, 0.5, 0.2], scale=0.3),
    DotProduct([2.0], scale=0.3),
    DotProduct([1 / math.factorial(n) for n in range(30)], scale=0.3, base=3.0),
]
COMPOSITE = [
    Gaussian(0.8) + Linear(),
    (Gaussian(0.8) + ChiSquared()) + 0.5 * Linear(),
    2.5 * JensenShannon(),
    Gaussian(0.8) * Laplacian(2.0),
    (2.0 * Gaussian(0.8)) * (Matern(1.5, 1.0) * Cauchy(2.0)),
    SkewedChiSquared(0.7) * SkewedIntersection(0.7),
    SkewedChiSquared(0.7) * SkewedChiSquared(1.0),
    Gaussian(0.8) * Linear(),
    Intersection() * Polynomial(2, 1.0, 0.3),
    (Gaussian(0.8) + Hellinger()) * (2.0 * SkewedChiSquared(1.0) + Linear()),
    Mapped(Gaussian(0.5), np.log1p),
    Mapped(Gaussian(0.5), Affine([0.5, 0.0, 1.0], [1.0, 0.0, 2.0])),
    Convolutional(Gaussian(0.8), (1, 3), (1, 2)),
    Convolutional(ChiSquared(), (1, 3), 1, grid=(1, 3)),
    Convolutional(Gaussian(0.8), (1, 3), (1, 2), grid=(1, 2)) * Laplacian(2.0),
    Mapped(Gaussian(0.8), np.log1p) * (ExponentialSemigroup(0.2) + Mapped(Linear(), np.tanh)),
]
ALL = COSINES + HALF_LINE + DOT + COMPOSITE
# Products of kernels whose features have an order each: of inputs, degrees, terms, or points of a
# sequence.
ORDERED_PRODUCTS = [
    ChiSquared() * Intersection(),
    DotProduct(scale=0.3) * DotProduct([1.0, 1.0], scale=0.5),
    (Gaussian(0.5) + Linear()) * (SkewedChiSquared(0.7) + Hellinger()),
    Gaussian(1.0) * Polynomial(2, 1.0, 0.3),
    Polynomial(2, 1.0, 0.3) * Polynomial(1, 1.0, 0.3),
    (ChiSquared() * Gaussian(1.0)) * (2.0 * Intersection()),
    Mapped(Gaussian(0.5), lambda X: X[:, :1]) * Mapped(Gaussian(0.5), lambda X: X[:, 1:]),
]

every_kernel = pytest.mark.parametrize("kernel", ALL, ids=lambda k: repr(k)[:60])


def rows(dtype=float):
    """Positive rows of three inputs, with two zeros."""
    X = np.abs(np.random.default_rng(0).standard_normal((5, 3))).astype(dtype)
    X[1, 2] = X[4, 0] = 0
    return X


PAIRED = FeatureOptions()


def block_of(kernel, X, block, n_features, *, seed=0, options=PAIRED):
    feature_map = kernel._feature_map(X.shape[1], options, 0)
    Z = np.full((len(X), n_features), np.nan, dtype=X.dtype)
    numbers = feature_map.draw(seed, block, n_features, X.dtype)
    feature_map.transform(feature_map.prepare(X), numbers, Z)
    return Z


class TestEveryKernel:
    @every_kernel
    @pytest.mark.parametrize(("paired", "m"), [(True, 256), (True, 129), (False, 150)])
    def test_inner_products_are_the_kernel_on_average(self, kernel, paired, m):
        X = rows()
        # Products of two features of these vary most.
        n_blocks = {2: 500, 3: 2000}.get(getattr(kernel, "order", 0), 250)
        feature_map = kernel._feature_map(3, FeatureOptions(paired), 0)
        prepared = feature_map.prepare(X)
        grams = np.empty((n_blocks, 5, 5))
        Z = np.empty((5, m))
        for block in range(n_blocks):
            feature_map.transform(prepared, feature_map.draw(11, block, m, X.dtype), Z)
            grams[block] = Z @ Z.T
        K = kernel(X)
        standard_error = grams.std(axis=0, ddof=1) / math.sqrt(n_blocks)
        # 42 kernels, 3 layouts and 15 pairs are 1890 comparisons: by Bonferroni's bound one of them
        # is beyond 4.9 standard errors by chance with a probability of 0.2 %.
        assert (np.abs(grams.mean(axis=0) - K) <= 4.9 * standard_error + 1e-12).all()
        # The test can see a constant that is wrong by a tenth, let alone a factor of two.
        size = np.sqrt(np.multiply.outer(np.diag(K), np.diag(K)))
        assert (4.9 * standard_error <= 0.1 * size.max()).all()

    @every_kernel
    def test_features_are_a_function_of_seed_and_block(self, kernel):
        X = rows()
        first = block_of(kernel, X, 3, 20)
        block_of(kernel, X, 7, 31)
        assert_array_equal(block_of(kernel, X, 3, 20), first)
        if kernel != DotProduct([2.0], scale=0.3):  # constant
            assert (block_of(kernel, X, 4, 20) != first).any()
            assert (block_of(kernel, X, 3, 20, seed=1) != first).any()
        for n_features in (7, 2**8):
            Z = kernel.random_features(X, n_features, seed=5)
            assert Z.shape == (5, n_features)
            assert_array_equal(Z, block_of(kernel, X, 0, n_features, seed=5))

    @every_kernel
    def test_a_row_has_its_features_whatever_the_other_rows_are(self, kernel):
        X = rows()
        Z = block_of(kernel, X, 0, 24)
        singles = [block_of(kernel, X[i : i + 1], 0, 24)[0] for i in range(5)]
        assert_allclose(singles, Z, rtol=1e-10, atol=1e-12)
        assert_allclose(kernel.random_features(sparse.csr_array(X), 24), Z, rtol=1e-12, atol=1e-14)
        assert block_of(kernel, X[:0], 0, 24).shape == (0, 24)

    @every_kernel
    @pytest.mark.parametrize("paired", [True, False])
    def test_float32_differs_by_rounding(self, kernel, paired):
        X, options = rows(), FeatureOptions(paired)
        double = block_of(kernel, X, 0, 256, options=options)
        single = block_of(kernel, X.astype(np.float32), 0, 256, options=options)
        assert single.dtype == np.float32
        differences = np.abs(single - double) / np.abs(double).max()
        # One feature in a hundred may have a frequency in the hundreds (Cauchy tails), whose phase
        # float32 cannot hold.
        assert np.quantile(differences, 0.99) <= 1e-4
        assert np.median(differences) <= 1e-6

    @every_kernel
    def test_unpaired_features_are_the_first_of_more(self, kernel):
        X, options = rows(), FeatureOptions(paired=False)
        few, many = (block_of(kernel, X, 2, m, options=options) * math.sqrt(m) for m in (16, 50))
        # The columns of a sum are divided between its terms, those of images between their parts,
        # those of some products are shuffled.
        summed = any(
            isinstance(part, kernels.Sum) or getattr(part, "grid", 1) != 1
            for part in [kernel, *parts_of(kernel)]
        )
        if summed or kernel == Intersection() * Polynomial(2, 1.0, 0.3):
            assert (few != many[:, :16]).any()
        else:
            assert_allclose(few, many[:, :16], rtol=1e-10, atol=1e-10)

    @every_kernel
    def test_maps_can_be_pickled(self, kernel):
        X = rows()
        feature_map = pickle.loads(pickle.dumps(kernel._feature_map(3, PAIRED, 0)))
        Z = np.empty((5, 20))
        feature_map.transform(feature_map.prepare(X), feature_map.draw(0, 3, 20, X.dtype), Z)
        assert_array_equal(Z, block_of(kernel, X, 3, 20))

    def test_every_public_kernel_is_tested_here_or_has_no_features(self):
        seen = {type(part) for kernel in ALL for part in [kernel, *parts_of(kernel)]}
        public = {getattr(kernels, name) for name in kernels.__all__}
        concrete = {k for k in public if isinstance(k, type) and issubclass(k, Kernel)}
        assert concrete - seen == {Kernel, DistanceKernel, FunctionKernel, Partitioned, Bias}
        with pytest.raises(ValueError, match="no random features"):
            FunctionKernel(lambda X, Z: X @ Z.T).random_features(rows(), 8)
        with pytest.raises(ValueError, match=r"resolve\(X\)"):
            DotProduct().random_features(rows(), 8)


def parts_of(kernel):
    found = [p for p in kernel.get_params().values() if isinstance(p, Kernel)]
    return found + [part for p in found for part in parts_of(p)]


class TestDomains:
    @pytest.mark.parametrize("kernel", HALF_LINE, ids=repr)
    def test_features_refuse_what_the_kernel_refuses_in_the_same_words(self, kernel):
        X = rows()
        X[3, 1] = -2.5
        with pytest.raises(ValueError, match=r"got -2\.5 in column 1") as of_kernel:
            kernel(X)
        for whole in (kernel, 2.0 * kernel + Gaussian(1.0), kernel * Linear()):
            with pytest.raises(ValueError, match=r"column 1 \(row 3\)") as of_features:
                whole.random_features(X, 16)
            assert str(of_features.value) == str(of_kernel.value)

    @pytest.mark.parametrize("kernel", [Hellinger(), *ADDITIVE], ids=repr)
    def test_an_input_of_zero_has_no_part_in_additive_kernels(self, kernel):
        Z = kernel.random_features(np.zeros((1, 3)), 33)
        assert_array_equal(Z, 0)
        X = np.array([[0.5, 0.0, 0.0]])
        Z = kernel.random_features(X, 3, paired=False)  # three features, of one input each
        if not isinstance(kernel, Hellinger):
            assert np.count_nonzero(Z) == 1

    @pytest.mark.parametrize("kernel", SEMIGROUP, ids=repr)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_semigroup_features_are_finite_at_zero_and_far_away(self, kernel, dtype):
        Z = kernel.random_features(np.array([[0, 0], [1e30, 0], [0, 1e-30]], dtype), 4096)
        assert_allclose(Z[0], 1 / 64, rtol=1e-6)
        assert np.isfinite(Z).all()
        assert (Z >= 0).all()

    def test_arc_cosine_features_of_the_origin_are_zero(self):
        for order in (0, 1, 2, 3):
            assert_array_equal(ArcCosine(order).random_features(np.zeros((2, 3)), 8), 0)

    @pytest.mark.parametrize("kernel", [k for k in HALF_LINE if k not in SKEWED] + DOT, ids=repr)
    def test_designs_are_refused_where_there_are_no_frequencies(self, kernel):
        X = rows()
        expected = kernel.random_features(X, 16)
        assert_array_equal(kernel.random_features(X, 16, design="auto"), expected)
        with pytest.raises(ValueError, match=f"for {type(kernel).__name__}, got 'orthogonal'"):
            kernel.random_features(X, 16, design="orthogonal")


class TestVariance:
    @pytest.mark.parametrize("kernel", ADDITIVE, ids=repr)
    def test_pairs_that_see_every_input_equally_often_have_exact_norms(self, kernel):
        X = rows()
        for pairs_per_input in (1, 4):
            Z = kernel.random_features(X, 2 * 3 * pairs_per_input)
            assert_allclose((Z**2).sum(axis=1), kernel.diag(X), rtol=1e-12)

    def test_pairs_of_joined_cosines_have_exact_norms(self):
        Z = (Gaussian(1.0) * Laplacian(2.0)).random_features(rows(), 64)
        assert_allclose((Z**2).sum(axis=1), 1, rtol=1e-12)

    def test_degrees_of_a_block_are_as_frequent_as_they_are_probable(self):
        feature_map = DotProduct(scale=1.0)._feature_map(3, PAIRED, 0)
        for block in range(5):
            counts = np.bincount(feature_map._choices(0, block, 512), minlength=17)
            expected = 512 * np.diff(feature_map.cumulated, prepend=0)
            # Independent draws would be off by twice the standard deviation of 11 one time in 20.
            assert (np.abs(counts - expected) <= 5).all()

    @pytest.mark.parametrize("kernel", ORDERED_PRODUCTS, ids=lambda k: repr(k)[:60])
    @pytest.mark.parametrize("design", ["iid", "auto"])
    def test_the_error_of_a_product_falls_like_the_root_of_the_features(self, kernel, design):
        """In one block: averages over blocks come to the kernel anyway."""
        X = rows()[:, :2]
        K = kernel(X)

        def error(m):
            draws = (kernel.random_features(X, m, seed=s, design=design) for s in range(6))
            return math.sqrt(np.mean([np.mean((Z @ Z.T - K) ** 2) for Z in draws]))

        # 64 times the features: 8 times the accuracy. The entries of a seed have much in common, so
        # each of the errors of six seeds has about a quarter of itself as its standard error.
        assert error(512) / error(32768) > 3.0


class TestParts:
    def test_jensen_shannon_quantiles_are_right_to_1e_7(self):
        with mpmath.workdps(20):

            def density(w):
                return 1 / (mpmath.cosh(mpmath.pi * w) * mpmath.log(2) * (1 + 4 * w * w))

            for u in (2.0**-25, 1e-4, 0.03, 0.2, 0.44, 0.5 + 2.0**-25, 0.7, 0.99, 1 - 2.0**-25):
                w = float(half_line._jensen_shannon_quantile(np.array([u]))[0])
                tail = mpmath.quad(density, [abs(w), abs(w) + 0.5, abs(w) + 2, abs(w) + 12])
                assert abs(tail - min(u, 1 - u)) / density(w) <= 1e-7
                assert np.sign(w) == np.sign(u - 0.5)

    def test_tensor_sketch_is_the_count_sketch_of_the_tensor_power(self):
        X = rows()
        feature_map = Polynomial(2, 0.7, 0.3)._feature_map(3, PAIRED, 0)
        for m in (5, 8):
            (places, signs) = feature_map.draw(1, 2, m, X.dtype)
            u = np.column_stack([np.full(5, math.sqrt(0.7)), math.sqrt(0.3) * X])
            expected = np.zeros((5, m))
            for i in range(4):
                for j in range(4):
                    place = (places[0, i] + places[1, j]) % m
                    expected[:, place] += signs[0, i] * signs[1, j] * u[:, i] * u[:, j]
            Z = np.empty((5, m))
            feature_map.transform(feature_map.prepare(X), (places, signs), Z)
            assert_allclose(Z, expected, atol=1e-14)

    @pytest.mark.parametrize(("t", "rest"), [(1.0, 1e-15), (4.0, 1e-6), (8.0, 4e-3)])
    def test_exponential_series_stops_where_the_documentation_says(self, t, rest):
        with mpmath.workdps(40):
            kept = sum(mpmath.mpf(t) ** n / mpmath.factorial(n) for n in range(17))
            relative = float(1 - kept / mpmath.exp(t))
        assert 0.5 * rest <= relative <= 1.5 * rest
        assert_allclose(np.polyval(EXPONENTIAL_COEFFICIENTS[::-1], t), float(kept), rtol=1e-14)

    def test_filters_of_an_image_are_features_of_patches_averaged_over_a_part(self, monkeypatch):
        X = np.random.default_rng(1).standard_normal((6, 20))
        kernel = Convolutional(Gaussian(1.3), (4, 5), 2, grid=(1, 3))
        feature_map = kernel._feature_map(20, PAIRED, 0)
        numbers = feature_map.draw(3, 2, 10, X.dtype)
        Z = np.empty((6, 10))
        feature_map.transform(feature_map.prepare(X), numbers, Z)
        patches = X.reshape(6, 4, 5)
        inner = Gaussian(1.3)._feature_map(4, PAIRED, 0)
        # Lanes of two, one and one positions, of 3, 3 and 4 features.
        for part, (lane, columns) in enumerate(
            zip([(0, 1), (2,), (3,)], [slice(3), slice(3, 6), slice(6, 10)], strict=True)
        ):
            total, m = 0.0, columns.stop - (columns.start or 0)
            for i in range(3):
                for j in lane:
                    P, F = patches[:, i : i + 2, j : j + 2].reshape(6, 4), np.empty((6, m))
                    inner.transform(inner.prepare(P), inner.draw(3, 6 + part, m, P.dtype), F)
                    total = total + F / (3 * len(lane) * math.sqrt(3))
            assert_allclose(Z[:, columns], total, rtol=1e-12, atol=1e-14)
        monkeypatch.setattr("mercer.features.convolutional._MOST_VALUES", 1)  # one image at a time
        again = np.empty_like(Z)
        feature_map.transform(feature_map.prepare(X), numbers, again)
        assert_allclose(again, Z, rtol=1e-12, atol=1e-14)
        with pytest.raises(ValueError, match="images in 3 parts must be at least 3, got 2"):
            kernel.random_features(X, 2)

    def test_terms_of_a_sum_share_the_columns(self):
        X, m = rows(), 9
        a, b, c = Gaussian(1.0), Linear(), ArcCosine(1)
        Z = ((a + b) + c).random_features(X, m)
        # Columns are scaled for three features a term, on the paths 3, 4 and 2.
        for part, path, columns in ((a, 3, slice(3)), (b, 4, slice(3, 6)), (c, 2, slice(6, 9))):
            feature_map = part._feature_map(3, PAIRED, path)
            expected = np.empty((5, 3))
            numbers = feature_map.draw(0, 0, 3, X.dtype)
            feature_map.transform(feature_map.prepare(X), numbers, expected)
            assert_allclose(Z[:, columns], expected, rtol=1e-14)
        with pytest.raises(ValueError, match="sum of 3 kernels must be at least 3, got 2"):
            ((a + b) + c).random_features(X, 2)

    def test_products_of_cosines_of_the_same_inputs_add_frequencies(self):
        def map_of(kernel):
            return kernel._feature_map(3, PAIRED, 0)

        joined = map_of(Gaussian(1.0) * Cauchy(1.0))
        assert type(joined) is CosineMap
        assert isinstance(joined.law, SumLaw)
        scaled = map_of((2.0 * Gaussian(1.0)) * (3.0 * Cauchy(1.0)))
        assert isinstance(scaled, ScaledMap)
        assert scaled.factor == 6
        assert type(scaled.inner) is CosineMap
        for kernel in (
            Gaussian(1.0) * Linear(),
            Gaussian(1.0) * SkewedChiSquared(1.0),
            SkewedChiSquared(2.0) * SkewedChiSquared(1.0),
        ):
            assert isinstance(map_of(kernel), ProductMap)
        assert isinstance(map_of(Gaussian(1.0) + Gaussian(2.0)), SumMap)

    def test_equal_parts_of_a_composite_draw_different_numbers(self):
        Z = (Gaussian(1.0) + Gaussian(1.0)).random_features(rows(), 16)
        assert (Z[:, :8] != Z[:, 8:]).all()

    def test_nesting_is_limited_by_the_paths_of_the_generator(self):
        assert child_paths(2**15 - 2) == (2**16 - 3, 2**16 - 2)
        kernel = Gaussian(1.0)
        for _ in range(15):
            kernel = Linear() + kernel
        assert np.isfinite(kernel.random_features(rows(), 64)).all()
        with pytest.raises(ValueError, match="nested at most 15 deep"):
            (Linear() + kernel).random_features(rows(), 64)

    def test_maps_with_a_varying_number_of_columns_are_refused(self):
        kernel = Mapped(Linear(), lambda X: X[:, : 1 + len(X) % 2])
        with pytest.raises(ValueError, match="always return as many columns, got 1 and"):
            kernel.random_features(rows()[:4], 8)
