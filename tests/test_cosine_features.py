"""Cosine features: polynomials, fast transforms, laws, designs, and the kernels they average to."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.linalg import hadamard

from mercer.features import (
    CosineMap,
    FeatureOptions,
    LaplaceLaw,
    NormalLaw,
    SechLaw,
    StudentLaw,
    SumLaw,
    TanLaw,
)
from mercer.features.cosine import choose_design
from mercer.features.laws import Address
from mercer.kernels import (
    Cauchy,
    FunctionKernel,
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from mercer.numerics.cosine import cosine_pairs_of_turns, cosines_of_turns
from mercer.numerics.designs import hadamard_projections, padded_size

DTYPES = [np.float32, np.float64]
# Matérn of a chi-squared law by squares (nu = 3/2) and by its inverse (0.7, 9).
ISOTROPIC = [
    Gaussian(1.3),
    Matern(1.5, 1.0),
    Matern(0.7, 1.0),
    Matern(9.0, 1.0),
    RationalQuadratic(0.8, 1.0),
]
KERNELS = [*ISOTROPIC, Laplacian(2.5), Cauchy(1.0)]
name = repr


def points(n, d, scale=1.5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * scale / np.sqrt(d)


def errors_of(kernel, X, n_features, n_seeds, **options):
    """Error of the kernel matrix for each seed."""
    K = kernel(X)
    Z = (kernel.random_features(X, n_features, seed, **options) for seed in range(n_seeds))
    return np.array([z @ z.T - K for z in Z])


def assert_zero_on_average(errors, bound=6.0):
    # Student's t with at least 39 degrees of freedom is beyond 6 in one of 2e6 cases; each test
    # has at most 30 different entries, all tests together about 3000.
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert np.all(np.abs(errors.mean(axis=0)) <= bound * standard_error + 1e-12)


# Cosines


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 4e-7), (np.float64, 1e-14)])
def test_cosines_of_turns_are_accurate(dtype, tolerance):
    v = np.linspace(-3, 3, 300_001).astype(dtype)[None]
    angles = 2 * np.pi * v.astype(np.longdouble)
    cosines, none = v.copy(), np.zeros(v.size, dtype)
    cosines_of_turns(cosines, none, dtype(1))
    assert np.abs(cosines - np.cos(angles)).max() < tolerance
    pairs = np.concatenate([v, np.empty_like(v)], axis=1)
    cosine_pairs_of_turns(pairs, none[:0], dtype(1))
    assert np.abs(pairs - np.hstack([np.cos(angles), np.sin(angles)])).max() < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
def test_cosines_are_scaled_and_shifted_and_an_odd_column_is_single(dtype):
    V = np.array([[0.0, 0.25, 0.5], [1.0, -0.5, 0.125]], dtype)
    phases = np.array([0.0, 0.5, 0.25], dtype)
    expected = 3 * np.cos(2 * np.pi * (V + phases))
    Z = V.copy()
    cosines_of_turns(Z, phases, dtype(3))
    assert_allclose(Z, expected, rtol=0, atol=2e-6)
    Z = np.empty((2, 5), dtype)
    Z[:, :3] = V
    cosine_pairs_of_turns(Z, phases[2:], dtype(3))
    angles = 2 * np.pi * V[:, :2]
    expected = 3 * np.hstack([np.cos(angles), np.sin(angles), expected[:, 2:] / 3])
    assert_allclose(Z, expected, rtol=0, atol=2e-6)


# Fast transforms


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e12), (np.float64, 1e22)])
def test_angles_beyond_all_digits_have_cosines_still(dtype, size):
    """No digit of the cosine is known there, but a feature must not be large."""
    turns = (size ** np.linspace(0.2, 1, 200)).astype(dtype)[:, np.newaxis]
    phases = np.array([0.3], dtype)
    Z = np.concatenate([turns, -turns, turns], axis=1)
    cosines_of_turns(Z, np.repeat(phases, 3), dtype(1))
    assert (np.abs(Z) <= 1 + 1e-6).all()
    Z = np.concatenate([turns, turns, turns], axis=1)
    cosine_pairs_of_turns(Z, phases, dtype(1))
    assert (np.abs(Z) <= 1 + 1e-6).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "k"), [(3, 9), (16, 16), (20, 5), (33, 64), (33, 200), (128, 131)])
def test_fast_transforms_are_the_dense_products(d, k, dtype):
    rng = np.random.default_rng(d * k)
    p = padded_size(d)
    n_groups = -(-k // p)
    signs = rng.choice([-1.0, 1.0], (3, n_groups * p))
    scales, X = rng.standard_normal(k), rng.standard_normal((4, d))
    H, out = hadamard(p), np.full((4, k + 2), 7, dtype)
    hadamard_projections(X.astype(dtype), signs.astype(dtype), scales.astype(dtype), out)
    groups = signs.reshape(3, n_groups, p)
    dense = np.vstack([H * s1 @ (H * s2) @ (H * s3) for s3, s2, s1 in groups.transpose(1, 0, 2)])
    expected = X @ (dense[:k, :d] * scales[:, None]).T
    rtol = 1e-5 if dtype == np.float32 else 1e-13
    assert_allclose(out[:, :k], expected, rtol=0, atol=rtol * np.abs(expected).max())
    assert np.all(out[:, k:] == 7)


# Laws


@pytest.mark.parametrize(
    ("law", "distribution"),
    [
        (NormalLaw(2.0), stats.norm(scale=2.0).cdf),
        (TanLaw(0.5), stats.cauchy(scale=0.5).cdf),
        (LaplaceLaw(3.0), stats.laplace(scale=3.0).cdf),
        (SechLaw(), lambda w: 2 / np.pi * np.arctan(np.exp(np.pi * w))),
        (StudentLaw(1.5, 2.0), stats.t(df=3, scale=2.0).cdf),
        (StudentLaw(0.6, 2.0), stats.t(df=1.2, scale=2.0).cdf),
    ],
    ids=lambda value: type(value).__name__,
)
def test_coordinates_of_laws_have_their_distribution(law, distribution):
    address = Address(seed=1, block=0, path=0, n_frequencies=20_000, n_inputs=2)
    U = np.random.default_rng(0).random((law.n_uniforms(2), 20_000))
    for W in (law.draw(address, np.float64), law.from_uniforms(U, 2)):
        assert W.shape == (2, 20_000)
        for coordinate in W:  # 24 tests in all
            assert stats.kstest(coordinate, distribution).pvalue > 1e-4


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_frequencies_are_finite_at_the_ends_of_the_generator(kernel, dtype):
    law = kernel._law()
    for end in (2.0**-25, 1 - 2.0**-25):
        W = law.from_uniforms(np.full((law.n_uniforms(3), 1), end), 3)
        assert np.isfinite(W.astype(dtype)).all()


# Kernels


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("design", ["iid", "orthogonal", "sobol"])
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_features_have_the_kernel_as_their_expectation(kernel, design, paired):
    X = points(6, 3)
    if design == "orthogonal" and kernel not in ISOTROPIC:
        with pytest.raises(ValueError, match="preferred direction"):
            kernel.random_features(X, 8, design=design)
        return
    assert_zero_on_average(errors_of(kernel, X, 150, 60, design=design, paired=paired))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("kernel", ISOTROPIC, ids=name)
def test_hadamard_features_have_the_kernel_as_their_expectation(kernel, paired):
    # 40 inputs are padded to 64; 100 frequencies are a group and a part of one.
    assert_zero_on_average(
        errors_of(kernel, points(6, 40), 200, 60, design="hadamard", paired=paired)
    )


@pytest.mark.parametrize("n_features", [1, 2, 7])
@pytest.mark.parametrize("paired", [True, False])
def test_any_number_of_features_has_the_kernel_as_its_expectation(n_features, paired):
    errors = errors_of(Gaussian(1.0), points(4, 2), n_features, 2000, paired=paired)
    assert_zero_on_average(errors)


def test_blocks_of_one_seed_average_to_the_kernel_too():
    kernel, X = Matern(1.5, 1.0), points(6, 3)
    features = kernel._feature_map(3, FeatureOptions(), 0)
    Z = np.empty((6, 100))
    errors = []
    for block in range(80):
        features.transform(features.prepare(X), features.draw(4, block, 100, X.dtype), Z)
        errors.append(Z @ Z.T - kernel(X))
    assert_zero_on_average(np.array(errors))


@pytest.mark.parametrize("design", ["iid", "sobol", "orthogonal"])
def test_sums_of_laws_belong_to_products_of_kernels(design):
    left, right = Gaussian(1.5), Matern(1.5, 2.0) if design == "orthogonal" else Cauchy(2.0)
    X = points(6, 3)
    law = SumLaw(left._law(), right._law())
    features = CosineMap(3, law, FeatureOptions(design=design))
    K, Z, errors = left(X) * right(X), np.empty((6, 150)), []
    for seed in range(60):
        features.transform(features.prepare(X), features.draw(seed, 0, 150, X.dtype), Z)
        errors.append(Z @ Z.T - K)
    assert_zero_on_average(np.array(errors))


def test_terms_of_a_sum_of_laws_are_drawn_on_different_paths():
    address = Address(seed=0, block=0, path=0, n_frequencies=100, n_inputs=1)
    W = SumLaw(NormalLaw(1.0), NormalLaw(1.0)).draw(address, np.float64)
    parts = [NormalLaw(1.0).draw(address._replace(path=path), np.float64) for path in (1, 2)]
    assert_array_equal(W, parts[0] + parts[1])
    assert np.abs(parts[0] - parts[1]).min() > 0


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_rows_of_pairs_have_norm_one(kernel):
    Z = kernel.random_features(points(5, 3), 64)
    assert_allclose(np.sum(Z**2, axis=1), 1.0, rtol=1e-12)


# Designs


# Ratio of mean squared errors against independent draws. The tables behind the designs give about
# 0.02 (0.0014 / 0.024, squared: 0.004) for Sobol at d = 2, 0.2 for orthogonal and 0.08 for Hadamard
# at d = 54; 60 seeds leave ratios uncertain by about a third.
@pytest.mark.parametrize(
    ("design", "d", "most"), [("sobol", 2, 0.15), ("orthogonal", 54, 0.7), ("hadamard", 54, 0.7)]
)
def test_designs_have_a_smaller_error_than_independent_draws(design, d, most):
    # Length scale = median distance, as in the tables.
    X = np.random.default_rng(0).standard_normal((20, d))
    kernel = Gaussian("median").resolve(X)

    def mean_square(chosen):
        return np.mean(errors_of(kernel, X, 256, 60, design=chosen) ** 2)

    assert mean_square(design) < most * mean_square("iid")


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=name)
def test_orthogonal_frequencies_are_orthogonal_with_the_norms_of_independent_ones(kernel):
    address = Address(seed=0, block=0, path=0, n_frequencies=25, n_inputs=10)
    W = kernel._law().draw_orthogonal(address, np.float64)
    for group in (W[:, :10], W[:, 10:20], W[:, 20:]):
        gram = group.T @ group
        scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
        assert_allclose(gram / scale, np.eye(len(gram)), atol=1e-12)
    independent = kernel._law().draw(address, np.float64)
    assert_allclose(np.linalg.norm(W, axis=0), np.linalg.norm(independent, axis=0))


def test_directions_of_orthogonal_frequencies_are_uniform():
    norms, heads = [], []
    for block in range(400):
        address = Address(seed=0, block=block, path=0, n_frequencies=3, n_inputs=3)
        W = NormalLaw(1.0).draw_orthogonal(address, np.float64)
        norms.extend(np.linalg.norm(W, axis=0))
        heads.extend(W[0] / np.linalg.norm(W, axis=0))
    # In three dimensions a coordinate of a uniform direction is uniform in (-1, 1).
    assert stats.kstest(heads, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(norms, stats.chi(3).cdf).pvalue > 1e-3


@pytest.mark.parametrize("paired", [True, False])
def test_sobol_goes_on_from_block_to_block(paired):
    features = CosineMap(2, NormalLaw(1.0), FeatureOptions(paired, "sobol"))
    m = 64
    blocks = [features.draw(5, block, m, np.float64)[0] for block in range(4)]
    assert_array_equal(np.hstack(blocks), features.draw(5, 0, 4 * m, np.float64)[0])


@pytest.mark.parametrize(
    ("law", "d", "expected"),
    [
        (NormalLaw(1.0), 2, "sobol"),
        (TanLaw(1.0), 5, "sobol"),
        (StudentLaw(1.5, 1.0), 6, "orthogonal"),
        (NormalLaw(1.0), 127, "orthogonal"),
        (NormalLaw(1.0), 128, "hadamard"),
        (TanLaw(1.0), 6, "iid"),
        (LaplaceLaw(1.0), 784, "iid"),
        (SumLaw(NormalLaw(1.0), StudentLaw(1.5, 1.0)), 50, "orthogonal"),
        (SumLaw(NormalLaw(1.0), NormalLaw(1.0)), 784, "iid"),
        (SumLaw(NormalLaw(1.0), TanLaw(1.0)), 50, "iid"),
    ],
)
def test_the_automatic_design_follows_law_and_number_of_inputs(law, d, expected):
    assert choose_design(law, d, "auto") == expected
    assert CosineMap(d, law, FeatureOptions(design="auto")).design == expected


def test_designs_that_cannot_be_had_are_refused():
    kernel, few, many = Gaussian(1.0), np.zeros((1, 15)), np.zeros((1, 21_202))
    with pytest.raises(ValueError, match="at least 16 inputs, got 15"):
        kernel.random_features(few, 8, design="hadamard")
    with pytest.raises(ValueError, match="at most 21201 dimensions"):
        kernel.random_features(many, 2, design="sobol")
    with pytest.raises(ValueError, match="'iid', 'sobol' or 'auto'"):
        Laplacian(1.0).random_features(few, 8, design="orthogonal")
    with pytest.raises(ValueError, match="`design` must be one of"):
        kernel.random_features(few, 8, design="halton")
    address = Address(seed=0, block=0, path=0, n_frequencies=1, n_inputs=1)
    with pytest.raises(ValueError, match="no orthogonal frequencies"):
        TanLaw(1.0).draw_orthogonal(address, np.float64)
    with pytest.raises(ValueError, match="Hadamard"):
        TanLaw(1.0).factors(address)


# Blocks

DESIGNS = [("iid", 3), ("orthogonal", 3), ("sobol", 3), ("hadamard", 20)]
CASES = [
    pytest.param(kernel, design, d, id=f"{kernel!r}-{design}")
    for kernel in KERNELS
    for design, d in DESIGNS
    if design in kernel._law().designs
]


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("design", "d"), DESIGNS)
def test_a_block_is_the_same_whenever_it_is_drawn(design, d, paired):
    kernel, X = Gaussian(1.0), points(9, d)
    Z = kernel.random_features(X, 33, 5, paired=paired, design=design)
    assert_array_equal(kernel.random_features(X, 33, 5, paired=paired, design=design), Z)
    others = (kernel.random_features(X, 33, s, paired=paired, design=design) for s in (6, 2**33))
    assert all(np.abs(other - Z).max() > 0.1 for other in others)
    features = kernel._feature_map(d, FeatureOptions(paired, design), 0)

    def block(number):
        out = np.empty((9, 33))
        features.transform(features.prepare(X), features.draw(5, number, 33, X.dtype), out)
        return out

    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(block, [3, 0, 1, 2, 0]))
    assert_array_equal(blocks[1], Z)
    assert_array_equal(blocks[4], Z)
    assert np.abs(blocks[0] - Z).max() > 0.1


@pytest.mark.parametrize(("kernel", "design", "d"), CASES)
def test_frequency_i_is_the_same_for_any_number_of_features(kernel, design, d):
    X = points(4, d)
    few, many = (kernel.random_features(X, m, design=design, paired=False) for m in (7, 50))
    # Orthogonal frequencies come from a factorisation, equal to rounding.
    assert_allclose(few * np.sqrt(7 / 50), many[:, :7], rtol=0, atol=1e-12)
    few, many = (kernel.random_features(X, m, design=design) for m in (6, 50))
    columns = [0, 1, 2, 25, 26, 27]
    assert_allclose(few * np.sqrt(6 / 50), many[:, columns], rtol=0, atol=1e-12)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("kernel", "design", "d"), CASES)
def test_single_precision_is_close_to_double(kernel, design, d, paired):
    X = points(8, d).astype(np.float32)
    options = {"paired": paired, "design": design}
    single = kernel.random_features(X, 65, **options)
    double = kernel.random_features(X.astype(np.float64), 65, **options)
    assert single.dtype == np.float32
    assert double.dtype == np.float64
    # A phase of p radians has an error of about 1e-7 p; heavy-tailed laws reach p = 1000.
    heavy = isinstance(kernel, Laplacian) or kernel in (Matern(0.7, 1.0),)
    assert_allclose(single, double, rtol=0, atol=1e-3 if heavy else 2e-5)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("design", "d"), DESIGNS)
def test_a_transform_allocates_nothing_of_the_size_of_the_features(design, d, paired):
    features = CosineMap(d, NormalLaw(1.0), FeatureOptions(paired, design))
    X, Z = points(500, d), np.empty((500, 1000))
    numbers = features.draw(0, 0, 1000, X.dtype)
    features.transform((X,), numbers, Z)
    tracemalloc.start()
    features.transform((X,), numbers, Z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < Z.nbytes / 100


def test_rows_do_not_depend_on_each_other():
    kernel, X = Matern(2.5, 1.0), points(700, 4)
    Z = kernel.random_features(X, 300)
    assert_allclose(kernel.random_features(X[613:614], 300), Z[613:614], rtol=0, atol=1e-12)


# The public face


def test_rows_may_be_sparse_few_or_none():
    from scipy.sparse import csr_array

    kernel, X = Gaussian(1.0), points(5, 3)
    assert_array_equal(kernel.random_features(csr_array(X), 10), kernel.random_features(X, 10))
    assert kernel.random_features(X[:0], 10).shape == (0, 10)


def test_random_features_refuse_what_they_cannot_do():
    X = points(5, 3)
    with pytest.raises(ValueError, match="has no random features: no law is known"):
        FunctionKernel(lambda x, z: float(x @ z)).random_features(X, 4)
    with pytest.raises(ValueError, match="`length_scale` has to come from data first"):
        Gaussian().random_features(X, 4)
    with pytest.raises(ValueError, match="`n_features` must be an integer of at least 1"):
        Gaussian(1.0).random_features(X, 0)
    with pytest.raises(ValueError, match="`seed` must be an integer"):
        Gaussian(1.0).random_features(X, 4, seed=-1)
    with pytest.raises(ValueError, match="`X` must be two-dimensional"):
        Gaussian(1.0).random_features(X[0], 4)
