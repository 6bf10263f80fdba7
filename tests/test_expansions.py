"""Values of packed kernel expansions: an oracle, the same bits in each batch, what they follow."""

import pickle
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.functions.sum_of_components import component_from_state, component_to_state
from mercer.kernels import Bias, Cauchy, Gaussian, Laplacian, Mapped, Matern, Partitioned
from mercer.maps import Affine
from mercer.numerics.dense import Multiplication
from mercer.numerics.expansions import Expansion, gram
from mercer.sums import CellsPart, GlobalPart, KernelBasis, Rows
from mercer.threads import jobs

KERNELS = [Gaussian, Laplacian, *(partial(Matern, nu) for nu in (0.5, 1.5, 2.5))]
NAMES = ["gaussian", "laplacian", "matern 1/2", "matern 3/2", "matern 5/2"]
SIZES = [0, 1, 31, 32, 33, 100, 0]


def distances(x, points, kernel):
    gaps = np.abs(points - x)
    return gaps.sum(axis=1) if isinstance(kernel, Laplacian) else np.sqrt((gaps**2).sum(axis=1))


def kernel_values(kernel, x, points):
    """Formulas of the kernels, from differences."""
    a = distances(x, points, kernel) / float(kernel.length_scale)
    if isinstance(kernel, Gaussian):
        return np.exp(-(a**2) / 2.0)
    if isinstance(kernel, Laplacian):
        return np.exp(-a)
    a = a * np.sqrt(2.0 * kernel.nu)
    factor = {0.5: 1.0, 1.5: 1.0 + a, 2.5: 1.0 + a + a**2 / 3.0}[kernel.nu]
    return factor * np.exp(-a)


def values_of(kernels, offset, points, coefficients, ranges, X, cells):
    """Values row by row, as they are defined."""
    found = np.zeros((len(X), coefficients[0].shape[1]))
    for row, (x, cell) in enumerate(zip(X, cells, strict=True)):
        if len(points[cell]):
            k = kernel_values(kernels[cell], x, points[cell]) + offset
            found[row] = k @ coefficients[cell]
            low, high = ranges[cell]
            if low[0] <= high[0]:
                found[row] = np.clip(found[row], low, high)
    return found


def in_cells(make, n_outputs, n_columns=3, far=0.0, seed=0):
    """Kernels, points, coefficients and ranges of cells of different sizes, and rows in them."""
    rng = np.random.default_rng(seed)
    kernels = [make(length) for length in np.linspace(0.5, 3.0, len(SIZES))]
    points = [rng.normal(size=(size, n_columns)) + far for size in SIZES]
    coefficients = [rng.normal(size=(size, n_outputs)) for size in SIZES]
    ranges = np.repeat([[[-1.0], [1.0]]], n_outputs, axis=2).repeat(len(SIZES), axis=0)
    ranges[::2] = ranges[::2, ::-1]  # no limits
    X = rng.normal(size=(90, n_columns)) + far
    X[:10] = points[5][:10]
    return kernels, points, coefficients, ranges, X, rng.integers(0, len(SIZES), len(X))


def packed(kernels, offset, points, coefficients, ranges, compact=False):
    profiles = [kernel.profile._replace(offset=offset) for kernel in kernels]
    return Expansion(profiles, points, coefficients, ranges, compact=compact)


@pytest.mark.parametrize("make", KERNELS, ids=NAMES)
@pytest.mark.parametrize("n", [0, 1, 7, 130])
def test_half_a_gram_matrix_is_that_of_the_formulas(make, n):
    """Also far from the origin, with equal and nearly equal rows, and columns without a spread."""
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 6))
    points += [1e3, 0.0, -50.0, 0.0, 0.0, 0.0]
    points[:, 3] = 7.0
    points[n // 2 : n // 2 + 2] = points[:1]
    points[n // 3 : n // 3 + 2] += 1e-4
    points = points.astype(np.float32)
    kernel = make(3.0)
    found = gram(points, kernel.profile._replace(offset=0.5))
    exact = np.array([kernel_values(kernel, x, points.astype(np.float64)) for x in points])
    assert found.dtype == np.float32
    assert_allclose(found, np.triu(exact.reshape(n, n) + 0.5), atol=1e-6)
    points.flags.writeable = False
    assert_array_equal(
        gram(np.asfortranarray(points), kernel.profile), gram(points, kernel.profile)
    )
    alike = np.ones((3, 2), np.float32)
    assert_array_equal(gram(alike, kernel.profile), np.triu(np.ones((3, 3))))


@pytest.mark.parametrize("far", [0.0, 1e4], ids=["near", "far"])
@pytest.mark.parametrize("make", KERNELS, ids=NAMES)
def test_values_are_those_of_the_formulas(make, far):
    for n_outputs, n_columns in product((1, 3), (1, 2, 7, 201)):
        *case, X, cells = in_cells(make, n_outputs, n_columns, far)
        expected = values_of(case[0], 0.3, *case[1:], X, cells)
        for compact in (False, True):
            found = packed(case[0], 0.3, *case[1:], compact)(X, cells)
            # Rows far from 0 have lost digits of their differences before any arithmetic.
            assert_allclose(found, expected, atol=1e-12 * (1.0 + far))


def of_all_kinds(points):
    """Points with columns in double and single precision, of two values and of one value."""
    points = points.copy()
    points[:, 1] = points[:, 1].astype(np.float32)
    points[:, 2] = np.where(points[:, 2] > np.median(points[:, 2]), 0.7, -0.0)
    points[:, 3] = 0.1
    return points


@pytest.mark.parametrize("make", KERNELS, ids=NAMES)
def test_compact_points_are_exact_and_small(make):
    kernels, points, coefficients, ranges, X, cells = in_cells(make, 2, n_columns=7)
    points = [of_all_kinds(own) if len(own) else own for own in points]
    X[:, 3] = np.where(X[:, 3] > 0.0, 0.1, 0.2)  # also rows that differ where no point does
    case = kernels, 0.3, points, coefficients, ranges
    expected = values_of(*case, X, cells)
    expansion = packed(*case, compact=True)
    assert_allclose(expansion(X, cells), expected, atol=1e-12)
    for cell, own in enumerate(points):
        found = expansion.parts(cell)
        assert_array_equal(found[0], own)
        assert_array_equal(found[1], coefficients[cell])
    assert_array_equal(expansion.counts, SIZES)
    big = of_all_kinds(np.random.default_rng(0).normal(size=(3200, 7)))
    own = Expansion([kernels[0].profile], [big], [np.ones((3200, 1))], compact=True)._cells
    # Four numbers of 8 bytes, one of 4 bytes, a bit, nothing; and a coefficient.
    n_bytes = [array.nbytes for array in (*own.points, own.sizes, own.weights)]
    assert sum(n_bytes) == pytest.approx(3200 * (4 * 8 + 4 + 1 / 8 + 8), rel=0.01)


@pytest.mark.parametrize("wide", [False, True], ids=["one centre", "outliers"])
@pytest.mark.parametrize("compact", [False, True], ids=["scaled", "compact"])
@pytest.mark.parametrize("make", KERNELS, ids=NAMES)
def test_a_row_has_the_same_bits_in_each_batch(make, compact, wide):
    *case, X, cells = in_cells(make, 2, n_columns=5)
    if wide:
        case[1][5][0] *= 1e4
    if compact:
        case[1][4:6] = map(of_all_kinds, case[1][4:6])
    expansion = packed(case[0], 0.3, *case[1:], compact)
    expected = expansion(X, cells)
    for n in (1, 2, 7, 16, 17):
        starts = range(0, len(X), n)
        pieces = [expansion(X[at : at + n], cells[at : at + n]) for at in starts]
        assert_array_equal(np.concatenate(pieces), expected)
    order = np.random.default_rng(1).permutation(len(X))
    assert_array_equal(expansion(X[order], cells[order]), expected[order])
    many = np.tile(X, (30, 1)), np.tile(cells, 30)
    with jobs(3):
        assert_array_equal(expansion(*many), np.tile(expected, (30, 1)))


@pytest.mark.parametrize("make", KERNELS, ids=NAMES)
@given(data=st.data())
def test_extreme_rows_have_values_in_range(make, data):
    numbers = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, 1e-300, 1e30, -1e150, 1.7e308]))
    rows = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40)
    points, X = (np.array(data.draw(rows)) for _ in range(2))
    length = data.draw(st.sampled_from([1e-3, 1.0, 1e6]))
    ones = np.ones((len(points), 1))
    for compact in (False, True):
        expansion = Expansion([make(length).profile], [points], [ones], compact=compact)
        values = expansion(X)[:, 0]
        assert (values >= 0.0).all()
        assert (values <= len(points) * (1.0 + 1e-9)).all()
        assert (expansion(points) >= 1.0 - 1e-9).all()  # each is at distance 0 from itself


@given(st.lists(st.floats(0.0, 708.0), min_size=1, max_size=40))
def test_exponentials_are_right_to_the_last_digits(exponents):
    """Values of a Laplacian kernel of length 1 at 0, one point at a time."""
    for a in exponents:
        expansion = Expansion([Laplacian(1.0).profile], [np.array([[a]])], [np.ones((1, 1))])
        rows = np.array([[0.0], [2.0 * a]])
        assert_allclose(expansion(rows)[:, 0], np.exp(-a), rtol=1e-15 * (2.0 + a))


def test_missing_and_infinite_inputs():
    expansion = Expansion([Gaussian(1.0).profile], [np.zeros((40, 2))], [np.ones((40, 1))])
    assert_array_equal(expansion(np.array([[np.nan, 0.0]])), [[np.nan]])
    assert_allclose(expansion(np.array([[np.inf, 0.0]])), 0.0, atol=1e-290)


def test_profiles_are_of_kernels_of_distances_and_constants():
    gaussian = Gaussian(2.0)
    assert (gaussian + Bias(0.5)).profile == gaussian.profile._replace(offset=0.5)
    others = [Cauchy(1.0), Matern(2.0, 1.0), gaussian + gaussian, Bias(0.5) + gaussian]
    assert [kernel.profile for kernel in others] == [None] * len(others)


def test_products_have_the_same_bits_in_each_batch():
    rng = np.random.default_rng(0)
    for n_columns, n_outputs in ((1, 1), (7, 33), (40, 64), (201, 5)):
        X, matrix = rng.normal(size=(37, n_columns)), rng.normal(size=(n_columns, n_outputs))
        shift = rng.normal(size=n_columns)
        multiplication = Multiplication(shift, matrix)
        found = multiplication(X)
        assert_allclose(found, (X - shift) @ matrix, atol=1e-13)
        assert_array_equal(np.concatenate([multiplication(x[np.newaxis]) for x in X]), found)


# -- what is packed follows the coefficients -------------------------------------------------------


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Cauchy(1.0)], ids=["packed", "other"])
def test_values_follow_the_coefficients(kernel):
    rng = np.random.default_rng(0)
    points, X = rng.normal(size=(20, 2)), rng.normal(size=(5, 2))
    basis = KernelBasis(Mapped(kernel + Bias(0.5), Affine([0.5, 0.0], [1.0, 2.0])), points)
    for coefficients in rng.normal(size=(3, 20, 2)):
        for _ in range(2):
            expected = basis.features(X) @ coefficients
            assert_allclose(basis.values(X, coefficients), expected, rtol=1e-12)


def test_values_of_cells_follow_their_functions():
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(300, 2)), rng.normal(size=(300, 1)), np.ones(300))
    partition = Partitioned(Gaussian(1.0), anchors=1, length_scales=None).resolve(rows.X)
    part = CellsPart(partition, None, 40, 1, max_cells=8)

    def expected(X):
        images, members = part.place(X)
        found = np.zeros((len(X), part.n_outputs))
        for number, mine in members.items():
            predictor = part.cells[number].predictor
            if predictor.size:
                found[mine] = predictor.evaluate(images[mine])
        return found

    def check():
        assert_allclose(part.evaluate(rows.X), expected(rows.X), atol=1e-12)

    for start in range(0, 240, 60):  # cells are split on the way
        part.learn(rows[start : start + 60])
        check()
        part.solve(rows[240:])
        check()
    part.map_targets(np.array([[2.0, -1.0]]), np.array([0.5, 0.0]))
    check()
    other = pickle.loads(pickle.dumps(part))
    assert other._packed is None
    assert_array_equal(other.evaluate(rows.X), part.evaluate(rows.X))


@pytest.mark.parametrize("kernel", [Matern(1.5, 1.0), Cauchy(1.0)], ids=["packed", "other"])
def test_cells_at_rest_are_the_same_cells(kernel):
    rng = np.random.default_rng(0)
    flags = rng.integers(0, 2, size=(500, 8)) / 3.0
    X = np.hstack([rng.normal(size=(500, 2)), flags])
    rows = Rows(X, rng.choice([-1.0, 1.0], size=(500, 1)), np.ones(500))
    partition = Partitioned(kernel, anchors=1, length_scales=None).resolve(X)
    part, other = (CellsPart(partition, None, 60, 1, 12, dtype=np.float32) for _ in range(2))

    def arrays(part):
        cells = part.cells
        kept = [array for cell in cells for array in cell.rows.arrays]
        return [part.dictionary, part.coefficients, *kept]

    for start in (0, 200):
        some = slice(start, start + 200)
        for one in (part, other):
            one.learn(rows[some])
            one.solve(rows[400:])
        assert part.evaluate(X).tobytes() == other.evaluate(X).tobytes()
        before = len(pickle.dumps(part))
        part.rest(sums=False)
        assert part.n_points == other.n_points
        assert part.sum_bytes == other.sum_bytes
        assert part.evaluate(X).tobytes() == other.evaluate(X).tobytes()
        for mine, its in zip(arrays(part), arrays(other), strict=True):
            assert mine.dtype == its.dtype
            assert_array_equal(mine, its)
        if isinstance(kernel, Matern):
            assert len(pickle.dumps(part)) < 0.7 * before
            part = pickle.loads(pickle.dumps(part))
    part.rest()
    assert all(cell.rows is None for cell in part.cells)
    assert part.evaluate(X).tobytes() == other.evaluate(X).tobytes()


def part_of_flags():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(300, 2)), rng.integers(0, 2, size=(300, 8)) / 3.0])
    rows = Rows(X, rng.choice([-1.0, 1.0], size=(300, 1)), np.ones(300))
    partition = Partitioned(Laplacian(1.0), anchors=1, length_scales=None).resolve(X)
    part = CellsPart(partition, None, 60, 1, 12, dtype=np.float32)
    part.learn(rows[:250])
    part.solve(rows[250:])
    return part, X


def test_files_have_points_of_cells_in_few_bytes():
    part, X = part_of_flags()
    expected = part.evaluate(X)
    state = component_to_state(part, sums=False)
    points = state["points"]
    assert 2 * sum(array.nbytes for array in points.values()) < part.dictionary.nbytes
    earlier = {**state, "points": part.dictionary}  # as in files of earlier versions
    for one in (state, earlier):
        assert_array_equal(component_from_state(one, 10, 1).evaluate(X), expected)


@pytest.mark.parametrize("name", ["counts", "columns", "lows", "singles", "bits"])
def test_points_of_cells_that_do_not_fit_are_refused(name):
    state = component_to_state(part_of_flags()[0], sums=False)
    array = state["points"][name]
    for forged in (array[:-1], array + array.dtype.type(1)):
        if name in ("lows", "singles", "bits") and len(forged) == len(array):
            continue  # other points, which fit
        points = {**state["points"], name: forged}
        with pytest.raises(ValueError, match=r"fit|shape|match|whole groups"):
            component_from_state({**state, "points": points}, 10, 1)


def test_packed_points_are_in_no_pickle():
    rng = np.random.default_rng(0)
    part = GlobalPart(Gaussian(1.0), rng.normal(size=(50, 3)), 1)
    before = len(pickle.dumps(part))
    part.evaluate(rng.normal(size=(5, 3)))
    assert part.basis._packed is not None
    assert len(pickle.dumps(part)) == before


@pytest.mark.usefixtures("quick_race")
@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier])
def test_predictions_of_a_row_have_the_same_bits_alone(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    f = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0.3)
    model = estimator(random_state=0).fit(X, f if estimator is KernelRegressor else f > 0.5)
    ask = model.predict if estimator is KernelRegressor else model.predict_proba
    expected = ask(X)
    assert_array_equal(np.concatenate([ask(x[np.newaxis]) for x in X[:50]]), expected[:50])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(ask(X), expected)
    again = loaded.predict if estimator is KernelRegressor else loaded.predict_proba
    assert_array_equal(again(X), expected)
