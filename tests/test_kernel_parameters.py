import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

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
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
    Product,
    RationalQuadratic,
    ReciprocalSemigroup,
    Scaled,
    SkewedChiSquared,
    SkewedIntersection,
    Sum,
    as_kernel,
)
from mercer.maps import PrincipalComponents, Standardize


def points(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def whole_linear(X, Z):
    return X @ Z.T


UNRESOLVED = [Gaussian(), Laplacian(), Matern(), Cauchy(), RationalQuadratic(), Polynomial()]
UNRESOLVED += [DotProduct(), Mapped(Gaussian(), np.tanh)]
UNRESOLVED += [Mapped(Gaussian(1.0), Standardize()), Mapped(Gaussian(), PrincipalComponents(2))]
UNRESOLVED += [Mapped(Mapped(Polynomial(), PrincipalComponents(0.9)), Standardize())]
UNRESOLVED += [Partitioned(anchors=3), Partitioned(Polynomial(), points(2), multiple=2.0)]
UNRESOLVED += [Gaussian() + Linear(), Laplacian() * Matern(), 2.0 * Cauchy()]


class TestNumbersFromData:
    @pytest.mark.parametrize("kernel", UNRESOLVED, ids=repr)
    def test_unresolved_kernel_says_how_to_mend_it(self, kernel):
        assert not kernel.is_resolved
        for call in (kernel, kernel.diag, lambda X: kernel.compiled(X.dtype)):
            with pytest.raises(ValueError, match=r"Call kernel\.resolve\(X\)"):
                call(points(3))

    @pytest.mark.parametrize("kernel", UNRESOLVED, ids=repr)
    def test_resolve_fills_a_copy(self, kernel):
        before = clone(kernel)
        resolved = kernel.resolve(points(20))
        assert resolved.is_resolved
        assert kernel == before
        assert resolved != kernel
        assert np.isfinite(resolved(points(5))).all()
        assert resolved.resolve(100 * points(3)) == resolved
        assert kernel.resolve(sparse.csr_array(points(20))) == resolved

    def test_composite_resolves_every_part(self):
        X = points(30)
        kernel = (Gaussian() + 2.0 * Laplacian()).resolve(X)
        assert kernel == Gaussian().resolve(X) + 2.0 * Laplacian().resolve(X)

    def test_length_scale_is_the_median_distance_without_zeros(self):
        X = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
        pairs = [(i, j) for i in range(4) for j in range(i) if (X[i] != X[j]).any()]
        euclidean = np.median([math.dist(X[i], X[j]) for i, j in pairs])
        cityblock = np.median([np.abs(X[i] - X[j]).sum() for i, j in pairs])
        for kernel in (Gaussian(), Matern(), Cauchy(), RationalQuadratic()):
            assert_allclose(kernel.resolve(X).length_scale, euclidean)
        assert_allclose(Laplacian().resolve(X).length_scale, cityblock)

    @pytest.mark.parametrize("X", [np.ones((1, 8)), np.ones((5, 8)), np.empty((0, 8))])
    def test_without_two_distinct_rows_columns_count_as_standardised(self, X):
        assert_allclose(Gaussian().resolve(X).length_scale, 4.0)
        assert_allclose(Laplacian().resolve(X).length_scale, 16 / math.sqrt(math.pi))

    def test_expected_distances_are_those_of_normal_columns(self):
        X = points(1000, d=200)
        assert_allclose(Gaussian().resolve(X).length_scale, math.sqrt(400), rtol=0.02)
        assert_allclose(Laplacian().resolve(X).length_scale, 400 / math.sqrt(math.pi), rtol=0.02)

    @pytest.mark.parametrize("make", [int, np.random.default_rng, np.random.RandomState])
    def test_the_seed_decides_which_rows_of_many_are_used(self, make):
        X = points(3000)
        scales = [Gaussian().resolve(X, make(seed)).length_scale for seed in (0, 0, 1)]
        assert scales[0] == scales[1] != scales[2]
        assert_allclose(scales[0], scales[2], rtol=0.05)

    def test_scale_of_inner_products_is_one_over_the_number_of_features(self):
        for kernel in (Polynomial(), DotProduct()):
            assert kernel.resolve(points(3, d=8)).scale == 1 / 8

    def test_rows_that_are_not_finite_are_refused(self):
        with pytest.raises(ValueError, match="NaN or infinity"):
            Gaussian().resolve([[np.nan], [1.0]])


class TestConstruction:
    @pytest.mark.parametrize(
        ("make", "match"),
        [
            *(
                (lambda k=k: k(length_scale=0.0), "length_scale")
                for k in (Gaussian, Laplacian, Matern, Cauchy, RationalQuadratic)
            ),
            (lambda: Gaussian("mean"), "median distance"),
            (lambda: Gaussian(np.inf), "length_scale"),
            (lambda: Gaussian(1e-300), "length_scale"),
            (lambda: Gaussian(1e300), "length_scale"),
            (lambda: Gaussian(10**400), "length_scale"),
            (lambda: Gaussian().set_params(length_scale=-1), "length_scale"),
            (lambda: Matern(nu=0), "nu"),
            (lambda: RationalQuadratic(alpha=-1), "alpha"),
            (lambda: Polynomial(degree=0), "degree"),
            (lambda: Polynomial(degree=1.5), "degree"),
            (lambda: Polynomial(offset=-1), "semi-definite"),
            (lambda: Polynomial(scale=0), "scale"),
            (lambda: ArcCosine(-1), "order"),
            (lambda: ArcCosine(1.5), "order"),
            (lambda: ArcCosine(151), "order.*overflows"),
            *((lambda k=k: k(c=0.0), "`c`") for k in (SkewedChiSquared, SkewedIntersection)),
            (lambda: ExponentialSemigroup(beta=0), "beta"),
            (lambda: ReciprocalSemigroup(rate=-1), "rate"),
            (lambda: DotProduct("exp"), '"exponential" or a sequence'),
            (lambda: DotProduct(1.0), "sequence of the numbers"),
            (lambda: DotProduct([]), "sequence of the numbers"),
            (lambda: DotProduct([[1.0], [2.0]]), "sequence of the numbers"),
            (lambda: DotProduct([1.0, -1.0]), r"coefficients\[1\]"),
            (lambda: DotProduct([0.0, 0.0]), "not all be 0"),
            (lambda: DotProduct(scale=0), "scale"),
            (lambda: DotProduct(base=1), "base"),
            (lambda: Mapped("linear", np.exp), "kernel"),
            (lambda: Mapped(Linear(), 3), "map"),
            (lambda: Bias(0.0), "value"),
            (lambda: Convolutional("gaussian", (3, 3)), "kernel"),
            (lambda: Convolutional(Linear(), 9), "image_shape.*sequence of 2 or 3 integers"),
            (lambda: Convolutional(Linear(), (3, 0)), r"image_shape\[1\]"),
            (lambda: Convolutional(Linear(), (3, 3), (1, 2, 3)), "patch_size.*of 2 integers"),
            (lambda: Convolutional(Linear(), (3, 3), stride=0), "stride"),
            (lambda: Convolutional(Linear(), (5, 3), 4), "width 3 have 0 positions.*width 4"),
            (lambda: Convolutional(Linear(), (5, 5), 3, grid=(4, 1)), "3 positions.*4 part"),
            (lambda: Partitioned(3), "kernel"),
            (lambda: Partitioned(anchors=0), "anchors"),
            (lambda: Partitioned(anchors=[1.0, 2.0]), r"anchors.*shape \(any, any\)"),
            (lambda: Partitioned(anchors=[[np.nan]]), "anchors.*finite"),
            (lambda: Partitioned(multiple=0), "multiple"),
            (lambda: Partitioned(constant=-1), "constant"),
            (lambda: Partitioned(seed=-1), "seed"),
            (lambda: Partitioned(length_scales=[1.0]), "needs `anchors` that are points"),
            (lambda: Partitioned(anchors=[[1.0]], length_scales=[1.0, 2.0]), "length_scales"),
            (lambda: Partitioned(anchors=[[1.0]], length_scales=[0.0]), "above 0, got 0"),
            (lambda: Partitioned(anchors=[[1.0]], split_cells=[0]), "go together"),
            (
                lambda: Partitioned(
                    anchors=[[1.0]], split_cells=[0, 3], split_anchors=np.ones((2, 2, 1))
                ),
                "exist when they are split",
            ),
            (lambda: -1.0 * Linear(), "factor"),
            (lambda: Sum(Linear(), 1.0), "right"),
            (lambda: Product("linear", Linear()), "left"),
            (lambda: Scaled(1.0, 1.0), "kernel"),
            (lambda: FunctionKernel(3), "function"),
            (lambda: FunctionKernel(whole_linear, pairwise="yes"), "pairwise"),
            (lambda: FunctionKernel(whole_linear, bound=0), "bound"),
        ],
    )
    def test_values_out_of_range_are_refused_by_name(self, make, match):
        with pytest.raises(ValueError, match=match):
            make()

    def test_operators_build_composites_that_parameters_reach_into(self):
        kernel = Gaussian(1.0) + np.float64(2) * Linear() * Laplacian(1.0)
        assert kernel == Sum(Gaussian(1.0), Product(Scaled(Linear(), 2.0), Laplacian(1.0)))
        assert Linear() * 2 == 2 * Linear()
        kernel.set_params(left__length_scale=3.0)
        assert kernel.left == Gaussian(3.0)
        for wrong in (lambda: Linear() + 1, lambda: Linear() * "a", lambda: [1] * Linear()):
            with pytest.raises(TypeError):
                wrong()

    def test_bounds_of_composites(self):
        assert (Gaussian() + 3.0 * Cauchy()).bound == 4
        assert (2.0 * Gaussian() * (3.0 * Cauchy())).bound == 6
        for unbounded in (Gaussian() + Linear(), Linear() * Gaussian(), 2.0 * Linear()):
            assert unbounded.bound is None
        assert Mapped(3.0 * Gaussian(), np.exp).bound == 3
        assert DotProduct([2.0, 0.0]).bound == 2
        assert DotProduct([2.0, 1.0]).bound is None
        assert (FunctionKernel(whole_linear, bound=2.0) + Gaussian()).bound == 3

    def test_function_of_a_wrong_shape_is_refused(self):
        with pytest.raises(ValueError, match="pairwise=True"):
            FunctionKernel(lambda x, z: 1.0)(points(2), points(3))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kernel"),
        [
            ("arc_cosine", ArcCosine()),
            ("cauchy", Cauchy(length_scale="half-median")),
            ("chi_squared", ChiSquared()),
            ("dot_product", DotProduct()),
            ("exponential_semigroup", ExponentialSemigroup()),
            ("hellinger", Hellinger()),
            ("intersection", Intersection()),
            ("jensen_shannon", JensenShannon()),
            ("reciprocal_semigroup", ReciprocalSemigroup()),
            ("skewed_chi_squared", SkewedChiSquared()),
            ("skewed_intersection", SkewedIntersection()),
            ("gaussian", Gaussian(length_scale="half-median")),
            ("laplacian", Laplacian(length_scale="half-median")),
            ("linear", Linear()),
            ("matern", Matern(length_scale="half-median")),
            ("polynomial", Polynomial()),
            ("rational_quadratic", RationalQuadratic(length_scale="half-median")),
        ],
    )
    def test_name_gives_the_default_kernel_on_half_the_median_distance(self, name, kernel):
        assert as_kernel(name) == kernel

    @pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Cauchy])
    def test_half_median_is_half_the_median(self, kernel):
        whole = kernel("median").resolve(points(40)).length_scale
        assert kernel("half-median").resolve(points(40)).length_scale == whole / 2

    def test_kernels_and_functions(self):
        kernel = Gaussian(2.0)
        assert as_kernel(kernel) is kernel
        assert as_kernel(whole_linear) == FunctionKernel(whole_linear)

    @pytest.mark.parametrize(
        ("value", "match"),
        [
            ("gausian", "Did you mean 'gaussian'"),
            ("rbff", "Did you mean 'gaussian'"),
            ("chi2", "exponential of the additive one.*Did you mean 'chi_squared'"),
            ("cosine", "Normalizer"),
            ("tanh", "positive semi-definite"),
            ("zzz", "'skewed_intersection', got 'zzz'"),
            (3, "got 3"),
            (None, "got None"),
            (Gaussian, r"Write Gaussian\(\)"),
        ],
    )
    def test_anything_else_is_refused_with_a_suggestion(self, value, match):
        with pytest.raises(ValueError, match=match):
            as_kernel(value)
