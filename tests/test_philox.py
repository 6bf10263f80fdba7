"""The generator: known answers, its layout, and that its numbers look random."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import qmc

from mercer.numerics import philox
from mercer.numerics.designs import MOST_DIMENSIONS, sobol_uniforms
from mercer.numerics.philox import box_muller

GOLDEN = json.loads((Path(__file__).parent / "golden" / "philox.json").read_text())
DTYPES = [np.float32, np.float64]
FLOAT_MAKERS = [philox.uniforms, philox.normals, philox.signs]
WORD = st.integers(0, 2**32 - 1)


def slow_philox(counter, key):
    """Philox4x32-10 as Salmon et al. write it, in Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(c[0] * 0xD2511F53, 2**32)
        high1, low1 = divmod(c[2] * 0xCD9E8D57, 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def slow_word(seed, block, stream, feature, coordinate):
    counter = (coordinate // 4, feature, block, stream)
    return slow_philox(counter, (seed % 2**32, seed // 2**32))[coordinate % 4]


@pytest.mark.parametrize("case", GOLDEN["known_answers"])
def test_compiled_rounds_give_the_published_known_answers(case):
    counter, key = ([int(word, 16) for word in case[name]] for name in ("counter", "key"))
    expected = [int(word, 16) for word in case["words"]]
    assert slow_philox(counter, key) == expected
    words = np.empty((4, 1), np.uint32)
    group, feature, block, stream = (np.uint64(word) for word in counter)
    k0, k1 = (np.uint64(word) for word in key)
    philox._chunk_of_words(k0, k1, group, feature, block, stream, words, 1)
    assert words[:, 0].tolist() == expected


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**64 - 1),
    block=WORD,
    stream=WORD,
    first=st.integers(0, 2**32 - 10),
    n_features=st.integers(0, 9),
    n_coordinates=st.integers(0, 9),
)
def test_words_are_addressed_by_coordinate_feature_block_stream_and_seed(
    seed, block, stream, first, n_features, n_coordinates
):
    words = philox.words(seed, block, stream, n_features, n_coordinates, first)
    assert words.shape == (n_coordinates, n_features)
    for j in range(n_coordinates):
        for i in range(n_features):
            assert words[j, i] == slow_word(seed, block, stream, first + i, j)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", GOLDEN["layout"])
def test_normals_and_phases_are_the_golden_ones(case, dtype):
    seed, block, feature = case["seed"], case["block"], case["feature"]
    z = philox.normals(seed, block, 0, 1, 6, dtype, first_feature=feature)
    assert_allclose(z[:, 0], case["normals"], rtol=0, atol=3e-6)
    # The golden numbers have eight digits; a float32 just below 1 has a grain of 6e-8.
    b = philox.phases(seed, block, 1, 1, dtype, first_feature=feature)
    assert_allclose(b, case["phase"], rtol=0, atol=7e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_the_documented_functions_of_the_words(dtype):
    # 2500 features are three chunks; 7 coordinates end in half a group.
    address, size = (11, 3, 2), (2500, 7)
    r = philox.words(*address, *size)
    u = ((r >> np.uint32(8)) + 0.5) * 2.0**-24
    v = (r >> np.uint32(8)) * 2.0**-24
    atol = 1e-7 if dtype == np.float32 else 0
    assert_allclose(philox.uniforms(*address, *size, dtype), u, rtol=0, atol=atol)
    assert_array_equal(philox.signs(*address, *size, dtype), np.where(r >= 2**31, 1, -1))
    r8 = philox.words(*address, 2500, 8)
    assert_array_equal(r8[:7], r)
    u, v = ((r8 >> np.uint32(8)) + 0.5) * 2.0**-24, (r8 >> np.uint32(8)) * 2.0**-24
    radius, angle = np.sqrt(-2 * np.log(u[::2])), 2 * np.pi * v[1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(8, 2500)[:7]
    # The cosine is good to 4e-7 (1e-14), times a radius of up to 5.9.
    tolerance = 3e-6 if dtype == np.float32 else 1e-13
    assert_allclose(philox.normals(*address, *size, dtype), z, rtol=0, atol=tolerance)


def test_single_and_double_precision_agree():
    single = philox.normals(5, 0, 0, 100_000, 8, np.float32)
    double = philox.normals(5, 0, 0, 100_000, 8)
    assert np.abs(single - double).max() < 3e-6


def test_numbers_at_the_ends_are_finite_and_uniforms_stay_inside():
    ends = np.array([0, 255, 256, 2**32 - 256, 2**32 - 1, 2**31], np.uint32)
    for dtype in DTYPES:
        u = np.empty(ends.size, dtype)
        convert = philox._uniform32 if dtype == np.float32 else philox._uniform64
        convert(ends, u, ends.size)
        assert u.min() > 0
        assert u.max() < 1
    from numba import njit

    make = njit(lambda r, z, n: box_muller(r, r[::-1].copy(), z[0], z[1], n))
    for dtype in DTYPES:
        z = np.empty((2, ends.size), dtype)
        make(ends, z, ends.size)
        assert np.isfinite(z).all()
        assert np.abs(z).max() < 5.9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", FLOAT_MAKERS)
def test_fewer_numbers_are_a_part_of_more(make, dtype):
    whole = make(9, 4, 0, 2100, 11, dtype)
    assert_array_equal(make(9, 4, 0, 7, 11, dtype), whole[:, :7])
    assert_array_equal(make(9, 4, 0, 2100, 2, dtype), whole[:2])
    assert_array_equal(make(9, 4, 0, 100, 5, dtype, first_feature=1000), whole[:5, 1000:1100])


def test_blocks_are_the_same_in_any_order_and_on_any_thread():
    def block(number):
        return philox.normals(1, number, 0, 300, 5, np.float32)

    in_order = [block(number) for number in range(16)]
    backwards = [block(number) for number in reversed(range(16))][::-1]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(block, range(16)))
    assert_array_equal(in_order, backwards)
    assert_array_equal(in_order, threaded)
    assert len({tuple(z[:, 0]) for z in in_order}) == 16


N = 2**20  # numbers per statistic; standard errors below are for as many independent ones


@pytest.mark.parametrize("dtype", DTYPES)
def test_normals_have_the_moments_and_the_law_of_normal_numbers(dtype):
    z = philox.normals(2024, 0, 0, N // 16, 16, dtype).astype(np.float64).ravel()
    # Five statistics for each type, fixed seed: 4 standard errors.
    assert abs(z.mean()) < 4 / np.sqrt(N)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / N)
    assert abs(stats.skew(z)) < 4 * np.sqrt(6 / N)
    assert abs(stats.kurtosis(z)) < 4 * np.sqrt(24 / N)
    assert stats.kstest(z, "norm").pvalue > 1e-4


def test_uniforms_are_uniform():
    u = philox.uniforms(77, 0, 0, N // 4, 4).ravel()
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    counts = np.bincount((u * 256).astype(int), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("make", FLOAT_MAKERS)
def test_neighbours_in_every_direction_are_uncorrelated(make):
    def row(**change):
        address = {"seed": 3, "block": 5, "stream": 0, "first_feature": 0, **change}
        z = make(n_features=N // 8, n_coordinates=8, **address)
        return (z - (0.5 if make is philox.uniforms else 0)).ravel()

    z = row()
    others = {
        "block": row(block=6),
        "seed": row(seed=4),
        "high half of the seed": row(seed=3 + 2**32),
        "stream": row(stream=1),
        "path": row(stream=65536),
        "feature": row(first_feature=1),
        "coordinate": np.roll(z.reshape(8, -1), 1, axis=0).ravel(),
        "group": np.roll(z.reshape(8, -1), 4, axis=0).ravel(),
    }
    for name, other in others.items():
        correlation = np.mean(z * other) / np.mean(z * z)
        # The standard error is at most sqrt(2 / N), as rolled pairs count twice.
        assert abs(correlation) < 5 * np.sqrt(2 / N), name


def test_squares_of_the_numbers_of_one_box_muller_pair_are_uncorrelated():
    z = philox.normals(8, 0, 0, N // 4, 4)
    squares = z**2 - 1
    for i, j in ((0, 1), (2, 3), (0, 2)):
        # The variance of (z^2 - 1)(z'^2 - 1) is 4.
        assert abs(np.mean(squares[i] * squares[j])) < 4 * 2 / np.sqrt(N // 4)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"block": 2**32}, "block"),
        ({"stream": -1}, "stream"),
        ({"first_feature": 2**32}, "first_feature"),
    ],
)
def test_addresses_out_of_range_are_refused(change, name):
    address = {"seed": 0, "block": 0, "stream": 0, **change}
    with pytest.raises(ValueError, match=f"`{name}` must be an integer"):
        philox.normals(n_features=1, n_coordinates=1, **address)


def test_sobol_points_are_those_of_scipy_in_the_order_of_their_numbers():
    d, n = 7, 256
    theirs = qmc.Sobol(d, scramble=False, bits=32).random(n).T
    gray = np.arange(n) ^ (np.arange(n) >> 1)
    ours = sobol_uniforms(0, n, np.zeros(d, np.uint32))
    # Ours lie in the middle of cells of 2^-24.
    assert_allclose(ours[:, gray], theirs + 2.0**-25, rtol=0, atol=1e-12)


def test_sobol_points_are_addressed_by_number_and_fill_the_cube_after_a_shift():
    shift = philox.words(0, 0, 5, 1, 3)[:, 0]
    whole = sobol_uniforms(0, 1024, shift)
    assert_array_equal(sobol_uniforms(700, 100, shift), whole[:, 700:800])
    for j in range(4):  # each aligned run of 256 points has one in each of 256 intervals
        cells = np.floor(whole[:, 256 * j : 256 * (j + 1)] * 256)
        assert all(len(set(row)) == 256 for row in cells)
    far = sobol_uniforms(2**32 - 1, 2, shift)
    assert_array_equal(far[:, 1], whole[:, 0])


def test_sobol_dimensions_are_as_many_as_scipy_has():
    assert MOST_DIMENSIONS == qmc.Sobol.MAXDIM
