import ctypes
import functools
import inspect
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import oracles_kernels as oracles
from mercer import kernels
from mercer.component import from_config, to_config
from mercer.kernels import (
    ArcCosine,
    Bias,
    Cauchy,
    ChiSquared,
    Convolutional,
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
)


@njit
def jitted_gaussian(x, z):
    s = 0.0
    for j in range(len(x)):
        s += (x[j] - z[j]) ** 2
    return math.exp(-s / 2)


def whole_linear(X, Z):
    return X @ Z.T


def single_gaussian(x, z):
    return oracles.gaussian(x.astype(float), z.astype(float), 1.0)


def sums_of_neighbours(X):
    return X[:, :-1] + X[:, 1:]


def mapped_gaussian(x, z):
    u, v = (np.convolve(point, [1, 1], "valid") for point in (x, z))
    return oracles.gaussian(u, v, 1.5)


# Each kernel with its formula for two points.
STATIONARY = [
    (Gaussian(1.7), lambda x, z: oracles.gaussian(x, z, 1.7)),
    (Laplacian(2.5), lambda x, z: oracles.laplacian(x, z, 2.5)),
    (Cauchy(1.3), lambda x, z: oracles.cauchy(x, z, 1.3)),
    (RationalQuadratic(0.7, 1.2), lambda x, z: oracles.rational_quadratic(x, z, 0.7, 1.2)),
    *(
        (Matern(nu, 1.4), lambda x, z, nu=nu: oracles.matern(x, z, nu, 1.4))
        for nu in (0.3, 0.5, 1.0, 1.5, 2.5, 7.3, 60.0)
    ),
]
DOT = [
    (Linear(), oracles.linear),
    (Polynomial(3, 1.0, 0.5), lambda x, z: oracles.polynomial(x, z, 3, 1.0, 0.5)),
    (Polynomial(6, 0.0, 0.2), lambda x, z: oracles.polynomial(x, z, 6, 0.0, 0.2)),
    *(
        (ArcCosine(order), lambda x, z, order=order: oracles.arc_cosine(x, z, order))
        for order in (0, 1, 2, 3, 6)
    ),
]
DOT += [
    (DotProduct(scale=0.3), lambda x, z: oracles.exponential_series(x, z, 0.3)),
    (
        DotProduct([0.5, 0.0, 2.0, 1.0], scale=0.5),
        lambda x, z: oracles.power_series(x, z, [0.5, 0.0, 2.0, 1.0], 0.5),
    ),
    (DotProduct([2.0], scale=0.5), lambda x, z: 2.0),
]
# Kernels that are defined for numbers of at least, or above, a bound.
HALF_LINE = [
    (Hellinger(), oracles.hellinger),
    (ChiSquared(), oracles.chi_squared),
    (Intersection(), oracles.intersection),
    (JensenShannon(), oracles.jensen_shannon),
    (SkewedChiSquared(0.7), lambda x, z: oracles.skewed_chi_squared(x, z, 0.7)),
    (SkewedIntersection(0.7), lambda x, z: oracles.skewed_intersection(x, z, 0.7)),
    (ExponentialSemigroup(0.6), lambda x, z: oracles.exponential_semigroup(x, z, 0.6)),
    (ReciprocalSemigroup(1.4), lambda x, z: oracles.reciprocal_semigroup(x, z, 1.4)),
]
COMPOSITE = [
    (
        Gaussian(1.0) + Linear(),
        lambda x, z: oracles.gaussian(x, z, 1.0) + oracles.linear(x, z),
    ),
    (
        Laplacian(3.0) * Polynomial(2, 0.5, 0.3),
        lambda x, z: oracles.laplacian(x, z, 3.0) * oracles.polynomial(x, z, 2, 0.5, 0.3),
    ),
    (2.5 * Cauchy(2.0), lambda x, z: 2.5 * oracles.cauchy(x, z, 2.0)),
    (Bias(0.7), lambda x, z: 0.7),
    (Gaussian(1.0) + Bias(2.0), lambda x, z: oracles.gaussian(x, z, 1.0) + 2.0),
]
# One anchor among the special rows below, so that there are cells of one row and of several.
ANCHORS = np.array([[0.1, -0.1, 0.6, 0.1], [1.0, -2.0, 0.0, 0.5], [-1.0, 0.0, 0.2, 0.3]])
LENGTHS = [0.7, 1.9, 3.0]
PARTITIONED = [
    (
        Partitioned(anchors=ANCHORS, length_scales=LENGTHS),
        lambda x, z: oracles.partitioned(x, z, oracles.gaussian, ANCHORS, LENGTHS, 1.0),
    ),
    (
        Partitioned(Laplacian(2.0), ANCHORS, length_scales=LENGTHS, constant=0.0),
        lambda x, z: oracles.partitioned(
            x, z, oracles.laplacian, ANCHORS, 2 * np.array(LENGTHS), 0.0
        ),
    ),
    (
        Partitioned(Linear(), ANCHORS, length_scales=LENGTHS, constant=0.5),
        lambda x, z: oracles.partitioned(
            x, z, lambda u, v, _: oracles.linear(u, v), ANCHORS, LENGTHS, 0.5
        ),
    ),
]
IMAGES = [
    (
        Convolutional(Gaussian(1.3), [2, 2], 1),
        lambda x, z: oracles.convolutional(
            x, z, lambda u, v: oracles.gaussian(u, v, 1.3), (2, 2, 1), (1, 1), 1, (1, 1)
        ),
    ),
    (
        Convolutional(Laplacian(2.0), (1, 2, 2), (1, 1), grid=(1, 2)),
        lambda x, z: oracles.convolutional(
            x, z, lambda u, v: oracles.laplacian(u, v, 2.0), (1, 2, 2), (1, 1), 1, (1, 2)
        ),
    ),
    (
        Convolutional(Linear(), [4, 1], [2, 1], grid=[2, 1]),
        lambda x, z: oracles.convolutional(x, z, oracles.linear, (4, 1, 1), (2, 1), 1, (2, 1)),
    ),
]
FUNCTIONS = [
    (FunctionKernel(whole_linear), oracles.linear),
    (FunctionKernel(jitted_gaussian, bound=1.0), lambda x, z: oracles.gaussian(x, z, 1.0)),
    (FunctionKernel(single_gaussian, pairwise=True), lambda x, z: oracles.gaussian(x, z, 1.0)),
    (Mapped(Gaussian(1.5), sums_of_neighbours), mapped_gaussian),
]
BUILT_IN = STATIONARY + DOT + HALF_LINE + COMPOSITE + PARTITIONED + IMAGES
FAMILY = BUILT_IN + FUNCTIONS
WITHOUT_CODE = (Matern(0.3, 1.4), Matern(1.0, 1.4), Matern(7.3, 1.4), Matern(60.0, 1.4))
COMPILED = [
    (k, f) for k, f in STATIONARY + DOT + HALF_LINE + FUNCTIONS[1:2] if k not in WITHOUT_CODE
]


def parametrize(pairs):
    # Without addresses of functions: names are those of other runs, too.
    names = [f"{i}-{kernel!r}".split(" at 0x")[0][:60] for i, (kernel, _) in enumerate(pairs)]
    return pytest.mark.parametrize(("kernel", "formula"), pairs, ids=names)


def points(n, d=4, seed=0, dtype=float):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def dimension(kernel, otherwise):
    """Number of inputs: any one but for kernels of points of their own and of images."""
    return ANCHORS.shape[1] if isinstance(kernel, Partitioned | Convolutional) else otherwise


def inside(kernel, X):
    """Points in the domain of the kernel, by taking absolute values where there are bounds."""
    return np.abs(X) if any(kernel is other for other, _ in HALF_LINE) else X


def with_special_rows(dtype=float):
    """Points with an exact, a near and a scaled duplicate, an opposite, and the origin."""
    X = points(9, dtype=dtype)
    X[1] = X[0]
    X[2] = X[0] * dtype(1 + 1e-4)
    X[3] = -X[0]
    X[4] = 2 * X[0]
    X[5] = 0
    return X


class TestEveryKernel:
    @parametrize(FAMILY)
    @pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 2e-5)])
    def test_equals_its_formula_and_keeps_the_dtype(self, kernel, formula, dtype, rtol):
        X = inside(kernel, with_special_rows(dtype))
        Z = np.vstack([X, inside(kernel, points(3, seed=1))]).astype(dtype)
        K = kernel(X, Z)
        assert K.dtype == dtype
        # Polynomials and sums cancel: the error is relative to the size of the terms.
        size = np.sqrt(np.multiply.outer(kernel.diag(X), kernel.diag(Z))).max()
        assert_allclose(K, oracles.gram(formula, X, Z), rtol=rtol, atol=rtol * size)

    @parametrize(FAMILY)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_gram_matrix_is_symmetric_with_the_diagonal_of_diag(self, kernel, formula, dtype):
        X = inside(kernel, with_special_rows(dtype))
        K = kernel(X)
        assert_array_equal(K, K.T)
        assert_allclose(np.diag(K), kernel.diag(X), rtol=1e-13 if dtype == np.float64 else 1e-5)
        assert kernel.diag(X).dtype == dtype
        assert_array_equal(kernel(X, X), K)

    @parametrize(FAMILY)
    def test_gram_matrix_is_positive_semi_definite(self, kernel, formula):
        K = kernel(inside(kernel, with_special_rows()))
        largest = max(1, kernel.diag(inside(kernel, points(9))).max())
        assert np.linalg.eigvalsh(K).min() >= -1e-12 * len(K) * largest

    @parametrize(FAMILY)
    def test_bound_is_at_least_the_diagonal(self, kernel, formula):
        if kernel.bound is not None:
            X = inside(kernel, 100 * points(20))
            assert kernel.bound >= kernel.diag(X).max() * (1 - 1e-15)
            assert kernel.bound >= kernel.diag(np.zeros((1, 4)))[0]

    @parametrize(FAMILY)
    def test_value_does_not_depend_on_the_other_rows(self, kernel, formula):
        X, Z = inside(kernel, points(5)), inside(kernel, points(7, seed=1))
        K = kernel(X, Z)
        singles = [[kernel(X[i : i + 1], Z[j : j + 1])[0, 0] for j in range(7)] for i in range(5)]
        assert_allclose(K, singles, rtol=1e-11, atol=1e-12)

    @parametrize(FAMILY)
    def test_equal_rows_of_two_arrays_give_the_diagonal(self, kernel, formula):
        X = inside(kernel, points(6, d=dimension(kernel, 50), dtype=np.float32))
        assert_allclose(np.diag(kernel(X, X.copy())), kernel.diag(X), rtol=1e-5)

    @parametrize(FAMILY)
    def test_accepts_lists_integers_and_mixed_dtypes_as_float64(self, kernel, formula):
        rows = inside(kernel, np.array([[1, 2, 0, 1], [0, -1, 1, 0]])).tolist()
        expected = oracles.gram(formula, rows, [[2, 2, 1, 0]])
        K = kernel(rows, np.array([[2, 2, 1, 0]], dtype=np.float32))
        assert K.dtype == np.float64
        assert_allclose(K, expected, rtol=1e-10, atol=1e-14)

    @parametrize(FAMILY)
    def test_sparse_equals_dense(self, kernel, formula):
        X = inside(kernel, points(6)) * (points(6, seed=2) > 0)
        Z = inside(kernel, points(5, seed=1)) * (points(5, seed=3) > 0)
        expected = kernel(X, Z)
        for left in (X, sparse.csr_array(X), sparse.csr_matrix(X), sparse.coo_array(X)):
            for right in (Z, sparse.csr_array(Z)):
                assert_allclose(kernel(left, right), expected, rtol=1e-12, atol=1e-12)
        S = sparse.csr_array(X)
        assert_allclose(kernel(S), kernel(X), rtol=1e-12, atol=1e-12)
        assert_allclose(kernel.diag(S), kernel.diag(X), rtol=1e-12)

    @parametrize(FAMILY)
    def test_arguments_stay_as_they_are_and_may_be_laid_out_anyhow(self, kernel, formula):
        X = inside(kernel, points(6))
        before = X.copy()
        K = kernel(X, X[:3])
        kernel.diag(X)
        assert_array_equal(X, before)
        assert_allclose(kernel(np.asfortranarray(X), X[:3]), K, rtol=1e-12)
        assert_allclose(kernel(X[::2], X[:3]), K[::2], rtol=1e-12, atol=1e-14)
        X.flags.writeable = False
        assert_allclose(kernel(X, X[:3]), K, rtol=1e-12)  # functions are compiled for each layout

    @parametrize(FAMILY)
    def test_no_rows_give_no_values(self, kernel, formula):
        X = inside(kernel, points(2))
        assert kernel(np.empty((0, 4)), X).shape == (0, 2)
        assert kernel(X, np.empty((0, 4))).shape == (2, 0)
        assert kernel.diag(np.empty((0, 4))).shape == (0,)

    @parametrize(FAMILY)
    def test_wrong_shapes_are_refused(self, kernel, formula):
        with pytest.raises(ValueError, match="two-dimensional"):
            kernel(np.zeros(3))
        with pytest.raises(ValueError, match="same number of features, got 3 and 2"):
            kernel(np.zeros((1, 3)), np.zeros((1, 2)))
        with pytest.raises(ValueError, match="must be real"):
            kernel.diag(np.zeros((1, 3), dtype=complex))

    @parametrize(FAMILY)
    def test_copies_are_equal_and_compute_the_same(self, kernel, formula):
        X = inside(kernel, points(4))
        for copy in (pickle.loads(pickle.dumps(kernel)), clone(kernel), kernel.resolve(X)):
            assert copy == kernel
            assert copy is not kernel
            assert_array_equal(copy(X), kernel(X))
        assert type(kernel).__name__ in repr(kernel)

    @parametrize(BUILT_IN)
    def test_plain_data_restore_it(self, kernel, formula):
        assert from_config(json.loads(json.dumps(to_config(kernel)))) == kernel

    @parametrize(FUNCTIONS)
    def test_functions_are_not_stored_as_data(self, kernel, formula):
        with pytest.raises(ValueError, match="no code"):
            to_config(kernel)

    @parametrize(FAMILY)
    def test_nan_in_a_row_shows_in_its_values_only(self, kernel, formula):
        X = inside(kernel, points(3))
        X[1, 0] = np.nan
        K = kernel(X, inside(kernel, points(2, seed=1)))
        assert np.isnan(K[1]).all()
        assert np.isfinite(K[[0, 2]]).all()


class TestCompiledRows:
    @staticmethod
    def row(kernel, D, x):
        real = {"f": ctypes.c_float, "d": ctypes.c_double}[D.dtype.char]
        pointer = ctypes.POINTER(real)
        doubles, integer = ctypes.POINTER(ctypes.c_double), ctypes.c_int64
        code = kernel.compiled(D.dtype)
        call = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, doubles, integer, integer)
        out = np.full(len(D) + 1, -7, dtype=D.dtype)
        call(code.address)(
            D.ctypes.data_as(pointer),
            x.ctypes.data_as(pointer),
            out.ctypes.data_as(pointer),
            code.parameters.ctypes.data_as(doubles),
            *D.shape,
        )
        assert out[-1] == -7  # nothing is written behind the end
        return out[:-1]

    @parametrize(COMPILED)
    @pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
    def test_row_equals_call(self, kernel, formula, dtype, rtol):
        D = np.vstack([with_special_rows(dtype), points(30, dtype=dtype)])
        D = np.ascontiguousarray(inside(kernel, D))
        for x in D[:8]:
            K = kernel(D, x[None])[:, 0]
            assert_allclose(self.row(kernel, D, x), K, rtol=rtol, atol=rtol * np.abs(K).max())
        assert len(self.row(kernel, D[:0], D[0])) == 0

    @parametrize(COMPILED)
    def test_parameters_are_numbers_of_the_kernel_and_code_is_shared(self, kernel, formula):
        code = kernel.compiled(np.float32)
        assert code.parameters.dtype == np.float64
        assert code.address == clone(kernel).compiled("float32").address
        assert code.address != kernel.compiled(np.float64).address

    @pytest.mark.parametrize(
        "kernel",
        [
            *WITHOUT_CODE,
            FUNCTIONS[0][0],
            FUNCTIONS[3][0],
            PARTITIONED[0][0],
            IMAGES[0][0],
            Linear() + Linear(),
        ],
    )
    def test_kernels_without_compiled_form_say_so_by_none(self, kernel):
        assert kernel.compiled(np.float64) is None

    def test_other_dtypes_are_refused(self):
        with pytest.raises(ValueError, match="float32 or float64, got int64"):
            Linear().compiled(np.int64)


class TestDomains:
    @parametrize(HALF_LINE)
    def test_numbers_outside_are_refused_by_column_row_and_value(self, kernel, formula):
        X, Z = inside(kernel, points(4)), inside(kernel, points(3, seed=1))
        bad = X.copy()
        bad[2, 1] = -5.25
        name = type(kernel).__name__
        for call in (
            lambda: kernel(bad),
            lambda: kernel(bad, Z),
            lambda: kernel(Z, bad),
            lambda: kernel.diag(bad),
            lambda: (Gaussian(1.0) + kernel)(bad),
            lambda: kernel(sparse.csr_array(bad)),
        ):
            with pytest.raises(ValueError, match=rf"^{name} .*got -5.25 in column 1 \(row 2\)"):
                call()

    @parametrize(HALF_LINE)
    def test_numbers_outside_are_found_beside_nan(self, kernel, formula):
        with pytest.raises(ValueError, match="got -9 in column 1"):
            kernel([[np.nan, -9.0]])

    @parametrize(HALF_LINE)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_compiled_rows_are_nan_where_the_kernel_is_not_defined(self, kernel, formula, dtype):
        D = inside(kernel, points(4, dtype=dtype))
        D[1, 2], D[3, 0] = -2.0, np.nan
        values = TestCompiledRows.row(kernel, D, D[0])
        assert_array_equal(np.isnan(values), [False, True, False, True])
        assert np.isnan(TestCompiledRows.row(kernel, D, D[1])).all()

    @pytest.mark.parametrize("kernel", [SkewedChiSquared(2.0), SkewedIntersection(2.0)])
    def test_skewed_kernels_take_numbers_down_to_minus_c(self, kernel):
        assert_allclose(kernel.diag([[-1.999]]), 1)
        with pytest.raises(ValueError, match="above -2 only, got -2 in column 0"):
            kernel([[-2.0]])

    @pytest.mark.parametrize("kernel", [ChiSquared(), Intersection(), JensenShannon()])
    def test_additive_kernels_of_numbers_of_very_different_size(self, kernel):
        for dtype, small, large in ((np.float32, 1e-38, 1e38), (np.float64, 1e-150, 1e150)):
            X = np.array([[small], [large], [0]], dtype=dtype)
            K = kernel(X)
            assert_allclose(np.diag(K), X[:, 0], rtol=1e-6)
            # Less than the lesser times a thousand: its logarithm may enter.
            assert X[0, 0] * dtype(0.9) <= K[0, 1] <= X[0, 0] * dtype(1e4)
            assert_array_equal(K[2], 0)
        assert_allclose(kernel([[1e300]], [[1e300], [1e-300], [0.0]]), [[1e300, 0, 0]], atol=1e-290)

    def test_jensen_shannon_is_one_minus_the_divergence_of_distributions(self):
        P = np.random.default_rng(0).dirichlet(np.ones(6), size=2)
        M = P.mean(axis=0)
        divergence = 0.5 * (P * np.log2(P / M)).sum()
        assert_allclose(JensenShannon()(P[:1], P[1:])[0, 0], 1 - divergence, rtol=1e-12)

    def test_hellinger_is_the_linear_kernel_of_square_roots(self):
        X = np.abs(points(5))
        assert_allclose(Hellinger()(X), Mapped(Linear(), np.sqrt)(X), rtol=1e-14)

    def test_series_of_one_term_is_a_monomial(self):
        X = points(5)
        monomial = DotProduct([0.0, 0.0, 0.0, 1.0], scale=0.4)
        assert_allclose(monomial(X), Polynomial(3, 0.0, 0.4)(X), rtol=1e-12)


class TestImages:
    @pytest.mark.parametrize(
        ("shape", "patch", "stride", "grid"),
        [
            ((5, 6, 2), (3, 2), 1, (1, 1)),
            ((5, 6, 2), (2, 2), 2, (2, 1)),
            ((7, 4, 1), (3, 3), 1, (3, 2)),
        ],
    )
    def test_is_the_mean_over_pairs_of_positions(self, shape, patch, stride, grid, monkeypatch):
        X, Z = points(4, math.prod(shape)), points(3, math.prod(shape), seed=1)
        kernel = Convolutional(Gaussian(2.0), shape, patch, stride=stride, grid=grid)

        def formula(x, z):
            of_patches = functools.partial(oracles.gaussian, length_scale=2.0)
            return oracles.convolutional(x, z, of_patches, shape, patch, stride, grid)

        expected = oracles.gram(formula, X, Z)
        assert_allclose(kernel(X, Z), expected, rtol=1e-12)
        assert_allclose(kernel.diag(X), np.diag(oracles.gram(formula, X, X)), rtol=1e-12)
        monkeypatch.setattr("mercer.kernels.convolutional._MOST_VALUES", 1)  # tiles of a pair
        assert_allclose(kernel(X, Z), expected, rtol=1e-12)

    def test_an_image_may_be_anywhere_in_its_part(self):
        image = np.zeros((9, 12))
        image[4:6, 2:4] = points(2, 2)
        moved = np.roll(image, 2, axis=1)
        for grid, same in ((1, True), ((1, 2), False)):
            K = Convolutional(Gaussian(0.5), (9, 12), grid=grid)([image.ravel(), moved.ravel()])
            assert (abs(K[0, 0] - K[0, 1]) < 1e-13) == same

    def test_the_length_scale_is_that_of_patches(self):
        X = points(40, 12)
        kernel = Convolutional(Gaussian(), (3, 4), 2).resolve(X)
        all_patches = np.vstack(
            [
                X.reshape(-1, 3, 4)[:, i : i + 2, j : j + 2].reshape(-1, 4)
                for i in (0, 1)
                for j in (0, 1, 2)
            ]
        )
        assert kernel.kernel == Gaussian().resolve(all_patches)
        many = Convolutional(Gaussian(), (3, 4), 2)
        assert many.resolve(points(900, 12)) == many.resolve(points(900, 12))

    def test_other_numbers_of_pixels_are_refused(self):
        kernel = Convolutional(Linear(), (3, 4), 2)
        for call in (kernel, kernel.diag, lambda X: kernel.random_features(X, 8)):
            with pytest.raises(ValueError, match=r"rows of 12 inputs, got 11\. Use the `image_s"):
                call(points(2, 11))


class TestMaps:
    def test_map_of_a_wrong_shape_is_refused(self):
        for wrong in (lambda X: X[:1], lambda X: X[:, 0]):
            with pytest.raises(ValueError, match="one row for each of the 3 rows"):
                Mapped(Linear(), wrong)(points(3))

    def test_length_scale_is_that_of_the_mapped_rows(self):
        X = np.exp(points(20))
        kernel = Mapped(Gaussian(), np.log).resolve(X)
        assert kernel.kernel == Gaussian().resolve(np.log(X))
        assert_allclose(kernel(X), kernel.kernel(np.log(X)))


class TestArcCosines:
    @pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 10, 30])
    def test_every_angle_has_its_digits(self, order):
        theta = np.array([0, 1e-9, 1e-3, 0.1, 1.0, 1.57, 1.572, 2.0, 3.0, 3.1, 3.14])
        Z = np.column_stack([np.cos(theta), np.sin(theta)])
        expected = np.array([oracles.arc_cosine_angle(t, order) for t in theta]) / np.pi
        one = np.array([[1.0, 0.0]])
        row = TestCompiledRows.row(ArcCosine(order), Z, one[0])
        for values in (ArcCosine(order)(one, Z)[0], row):
            # An angle known to some roundings: k falls like the power 2n + 1 of its supplement.
            slack = 8 * np.finfo(float).eps * (2 * order + 1)
            loss = slack * (1 + 1 / (np.pi - theta)) * expected
            # The closed forms of orders 1 and 2 cancel at opposite points, to a rounding of 1.
            assert (np.abs(values - expected) <= loss + (order < 3) * 1e-15).all()
            assert np.abs(values - expected).max() <= 1e-14 * expected[0]

    def test_orders_are_the_activations_of_a_wide_layer(self):
        # dk/d cos = n^2 times the kernel of the order below, on the unit sphere.
        c, h = np.linspace(-0.9, 0.9, 7), 1e-5
        for order in (3, 4, 7):

            def k(c, order=order):
                return ArcCosine(order)([[1.0, 0.0]], np.column_stack([c, np.sqrt(1 - c * c)]))[0]

            slope = (k(c + h) - k(c - h)) / (2 * h)
            assert_allclose(slope, order**2 * k(c, order - 1), rtol=1e-6)


class TestHardNumbers:
    @parametrize(STATIONARY)
    def test_far_from_the_origin(self, kernel, formula):
        # Multiples of 2^-10 are exact at 1e6, so that the shift changes no difference.
        X, Z = np.round(points(8) * 1024) / 1024, np.round(points(6, seed=1) * 1024) / 1024
        Z[0] = X[0]
        assert_allclose(kernel(X + 1e6, Z + 1e6), kernel(X, Z), rtol=1e-9, atol=1e-12)
        assert kernel(X + 1e6, Z + 1e6)[0, 0] == 1

    @parametrize(STATIONARY)
    def test_values_far_away_are_zero_not_nan(self, kernel, formula):
        for dtype, far in ((np.float32, 1e30), (np.float64, 1e200)):
            K = kernel(np.array([[0, 0], [1, 0]], dtype=dtype), np.array([[0, far]], dtype=dtype))
            assert_allclose(K, 0, atol=1e-6)

    @parametrize(STATIONARY)
    def test_a_near_duplicate_among_long_rows_keeps_its_digits(self, kernel, formula):
        X = points(3, d=60, dtype=np.float32)
        Z = X.copy()
        Z[:, 0] += 1e-3
        expected = np.diag(oracles.gram(formula, X, Z))
        # The distance from 1 is what a Gram matrix is inverted by.
        assert_allclose(1 - np.diag(kernel(X, Z)), 1 - expected, rtol=2e-2, atol=2e-7)

    @pytest.mark.parametrize("outlier", [0.0, 1e4])
    def test_close_pairs_are_exact_whatever_the_other_rows_are(self, outlier):
        X = 1e3 + points(40, d=3)
        X[-1] += outlier
        expected = oracles.gram(lambda x, z: oracles.gaussian(x, z, 1.0), X, X)
        assert_allclose(Gaussian(1.0)(X), expected, rtol=1e-6, atol=1e-9)

    @settings(deadline=None, max_examples=60)
    @given(
        X=arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
        index=st.integers(0, len(STATIONARY) - 1),
    )
    def test_stationary_values_lie_between_zero_and_one(self, X, index):
        K = STATIONARY[index][0](X)
        assert_array_equal(K, K.T)
        assert_array_equal(np.diag(K), 1)
        assert (K >= 0).all()
        assert (K <= 1).all()

    @settings(deadline=None, max_examples=60)
    @given(
        X=arrays(np.float64, (4, 4), elements=st.floats(-10, 10)),
        index=st.integers(0, len(BUILT_IN) - 1),
    )
    def test_cauchy_schwarz_inequality(self, X, index):
        kernel = BUILT_IN[index][0]
        X = inside(kernel, X)
        squares = np.multiply.outer(kernel.diag(X), kernel.diag(X))
        assert (kernel(X) ** 2 <= squares * (1 + 1e-9) + 1e-12).all()

    @settings(deadline=None, max_examples=30)
    @given(nu=st.floats(0.05, 300), a=st.floats(0, 50), b=st.floats(0, 50))
    def test_matern_decreases_with_distance(self, nu, a, b):
        near, far = Matern(nu, 1.0)([[0.0]], [[min(a, b)], [max(a, b)]])[0]
        assert far <= near * (1 + 1e-10) <= 1 + 1e-9

    def test_matern_of_both_large_order_forms_agree_and_tend_to_the_gaussian(self):
        X = np.linspace(0, 6, 30)[:, None]
        below, above = Matern(60 * (1 - 1e-12), 1.0)([[0.0]], X), Matern(60.0, 1.0)([[0.0]], X)
        assert_allclose(below, above, rtol=1e-9)
        assert_allclose(Matern(1e9, 1.0)([[0.0]], X), Gaussian(1.0)([[0.0]], X), rtol=1e-6)


def test_public_names_exist_and_every_concrete_kernel_is_tested_here():
    public = {name: getattr(kernels, name) for name in kernels.__all__}
    concrete = {
        v
        for v in public.values()
        if isinstance(v, type) and issubclass(v, Kernel) and not inspect.isabstract(v)
    }
    assert concrete == {type(kernel) for kernel, _ in FAMILY}


def test_constants_are_added_where_rows_are_points():
    X, Z = np.array([[0.0], [np.nan]]), np.array([[1.0], [np.inf], [2.0]])
    nan = np.nan
    assert_allclose((Bias(1.0) + Bias(2.0))(X, Z), [[3.0, nan, 3.0], [nan] * 3])
    assert (Gaussian(1.0) + Bias(0.1))(np.float32(X[:1])).dtype == np.float32


def test_names_of_parameters_are_each_subclass_own_and_not_shared():
    class Named(Gaussian):
        def __init__(self, length_scale=1.0, name="mine"):
            super().__init__(length_scale)
            self.name = name

    names = Gaussian._get_param_names()
    names.append("changed")
    assert list(Gaussian(2.0).get_params()) == ["length_scale"]
    assert list(Named().get_params()) == ["length_scale", "name"]
