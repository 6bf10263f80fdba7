"""Sums that are merged are those over all rows: to the last bit, or within rounding."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.features import FeatureOptions
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process import DictionaryPosterior, FeaturePosterior, InducingPoints
from mercer.kernels import Gaussian, Linear, Partitioned
from mercer.learning.sums import LinearRows
from mercer.losses import Logistic, Softmax
from mercer.objectives import Bellman
from mercer.objectives.bellman import transition_targets
from mercer.sums import (
    CellsPart,
    GlobalPart,
    KernelBasis,
    RidgeStream,
    Rows,
    Statistics,
    codes_of_targets,
    merge_classes,
    shift_of_codes,
)
from oracles_second_order import exponential_weights, ridge_on_dictionary

EPS = np.finfo(np.float64).eps
N_FEATURES, N_TARGETS = 3, 2
# Of these points the features of integer rows are integers: sums of them are exact.
INTEGER_POINTS = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0], [-2.0, 1.0, 1.0]])
POINTS = np.random.default_rng(5).normal(size=(7, N_FEATURES))
KERNEL = Gaussian(1.5)
ANCHORS = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
PARTITION = Partitioned(anchors=ANCHORS, length_scales=[1.0, 1.5], constant=0.5)
SUMS = "packed", "products", "feature_sums", "target_sums", "target_squares"
NUMBERS = "weight", "log_weight"


def rows_of(n, seed, *, integers=False, weights=None):
    rng = np.random.default_rng(seed)
    if integers:
        draw = rng.integers(-9, 10, size=(n, N_FEATURES + N_TARGETS)).astype(np.float64)
    else:
        draw = rng.normal(size=(n, N_FEATURES + N_TARGETS))
    if weights is None:
        weights = np.ones(n) if integers else rng.uniform(0.2, 3.0, n)
    return Rows(draw[:, :N_FEATURES], draw[:, N_FEATURES:], weights)


def both(first, second):
    return Rows.joined([first, second])


def frozen(value):
    """Return everything an object holds, as bytes, to see whether it changes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [frozen(item) for item in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        getattr(value, "rows", None)  # a cell joins its pieces
        return {key: frozen(item) for key, item in vars(value).items()}
    return value


def assert_same_sums(one, other):
    for name in SUMS:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in (*NUMBERS, "n_rows", "jitter"):
        assert getattr(one, name) == getattr(other, name), name


def sums_and_sizes(Z, targets, weights, origin=0.0):
    """Sums in the longest precision, and the sums of absolute values of what is added up."""
    Z, weights = Z.astype(np.longdouble), weights.astype(np.longdouble)
    Y = targets.astype(np.longdouble) - origin
    absolute = [np.abs(Z), np.abs(targets) + np.abs(origin)]
    found = []
    for z, y in ((Z, Y), absolute):
        found.append(
            {
                "gram": z.T @ (z * weights[:, None]),
                "products": z.T @ (y * weights[:, None]),
                "feature_sums": weights @ z,
                "target_sums": weights @ y,
                "target_squares": weights @ y**2,
                "weight": weights.sum(),
            }
        )
    found[1]["log_weight"] = np.abs(np.log(weights)).sum()
    found[0]["log_weight"] = np.log(weights).sum()
    return found


def assert_within_rounding(statistics, Z, targets, weights, eps=EPS, *, logarithms=True):
    r"""Compare sums with the exact ones.

    Of a sum of n terms, in any order, the error is at most (n - 1) eps / 2 times the sum of the
    absolute values; each term has few more roundings: square roots of weights, products, and a
    shift of the origin. Twelve is more than there are.
    """
    exact, sizes = sums_and_sizes(Z, targets, weights, statistics.origin)
    M, bound = Z.shape[1], (len(Z) + 12) * eps
    if not logarithms:  # of weights that fall nobody asks for them
        del exact["log_weight"]
    for name in exact:
        found = getattr(statistics, name)
        if name == "gram":
            found, low = np.tril(found), np.tril(np.ones((M, M)))
            assert (np.abs(found - exact[name] * low) <= bound * sizes[name]).all()
        else:
            assert (np.abs(found - exact[name]) <= bound * sizes[name]).all(), name


def assert_faded(statistics, Z, targets, weights):
    """Compare sums of rows of which old ones are forgotten: powers are off by some roundings."""
    assert_within_rounding(statistics, Z, targets, weights, 4 * EPS, logarithms=False)


# -- statistics ------------------------------------------------------------------------------------


def statistics_of(rows, points=INTEGER_POINTS, dtype=np.float64, origin=None):
    statistics = Statistics(len(points), N_TARGETS)
    if origin is not None:
        statistics.origin = np.asarray(origin, dtype=np.float64)
    Z = Linear()(rows.X.astype(dtype), points.astype(dtype))
    statistics.add(np.ascontiguousarray(Z), rows.targets, rows.weights)
    return statistics


def merged_in_all_ways(a, b, c):
    """(a + b) + c, a + (b + c) and (c + b) + a."""
    left, right, turned = a.copy(), b.copy(), c.copy()
    for sums, others in ((left, (b, c)), (right, (c,)), (turned, (b, a))):
        for other in others:
            sums.merge(other)
    whole = a.copy()
    whole.merge(right)
    return left, whole, turned


sizes = st.integers(min_value=0, max_value=40)
# The first draws read the sources, which takes long beside other work.
repeated = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@repeated
@given(n=st.tuples(sizes, sizes, sizes), seed=st.integers(0, 2**20))
def test_merging_integers_is_exact_associative_and_commutative(n, seed):
    pieces = [rows_of(size, seed + i, integers=True) for i, size in enumerate(n)]
    whole = statistics_of(Rows.joined(pieces))
    for found in merged_in_all_ways(*map(statistics_of, pieces)):
        assert_same_sums(found, whole)


@repeated
@given(n=st.tuples(sizes, sizes, sizes), seed=st.integers(0, 2**20))
def test_merging_is_associative_and_commutative_within_rounding(n, seed):
    pieces = [rows_of(size, seed + i) for i, size in enumerate(n)]
    rows = Rows.joined(pieces)
    Z = Linear()(rows.X, POINTS)
    ways = merged_in_all_ways(*(statistics_of(piece, POINTS) for piece in pieces))
    for found in (*ways, statistics_of(rows, POINTS)):
        assert_within_rounding(found, Z, rows.targets, rows.weights)
        assert found.n_rows == len(rows)


@repeated
@given(n=sizes, seed=st.integers(0, 2**20), origin=st.floats(-5.0, 5.0))
def test_merging_with_nothing_changes_nothing(n, seed, origin):
    rows = rows_of(n, seed)
    sums = statistics_of(rows, POINTS, origin=[origin, 1.0])
    for nothing in (Statistics(7, N_TARGETS), statistics_of(rows[:0], POINTS)):
        mine, theirs = sums.copy(), nothing.copy()
        mine.merge(nothing)
        theirs.merge(sums)
        assert_same_sums(mine, sums)
        assert_same_sums(theirs, sums)
        if n:
            assert_array_equal(theirs.origin, sums.origin)


@repeated
@given(n=st.tuples(sizes, sizes), seed=st.integers(0, 2**20), integers=st.booleans())
def test_targets_may_have_other_origins(n, seed, integers):
    first, second = (rows_of(size + 1, seed + i, integers=integers) for i, size in enumerate(n))
    points = INTEGER_POINTS if integers else POINTS
    merged = statistics_of(first, points, origin=[3.0, -1.0])
    merged.merge(statistics_of(second, points, origin=[-2.0, 7.0]))
    assert_array_equal(merged.origin, [3.0, -1.0])
    rows = both(first, second)
    if integers:
        assert_same_sums(merged, statistics_of(rows, points, origin=[3.0, -1.0]))
        return
    whole = statistics_of(rows, points, origin=[3.0, -1.0])
    # Terms are as large as both origins.
    _, sizes = sums_and_sizes(Linear()(rows.X, points), rows.targets, rows.weights, 10.0)
    for name in ("products", "target_sums", "target_squares"):
        bound = 2 * (len(rows) + 12) * EPS * sizes[name]
        assert (np.abs(getattr(merged, name) - getattr(whole, name)) <= bound).all()


def test_sums_of_products_in_single_precision_merge_within_its_rounding():
    first, second = (rows_of(n, seed, weights=np.ones(n)) for seed, n in enumerate((5000, 300)))
    merged = statistics_of(first, POINTS, np.float32)
    merged.merge(statistics_of(second, POINTS, np.float32))
    rows = both(first, second)
    Z = Linear()(rows.X.astype(np.float32), POINTS.astype(np.float32))
    assert_within_rounding(merged, Z, rows.targets, rows.weights, np.finfo(np.float32).eps)
    assert merged.jitter == statistics_of(second, POINTS, np.float32).jitter > 1e-9
    fine = statistics_of(second, POINTS)
    fine.merge(merged)
    assert fine.jitter == merged.jitter


@pytest.mark.parametrize("shape", [(4, 2), (3, 3)])
def test_sums_of_other_shapes_are_refused(shape):
    mine, theirs = statistics_of(rows_of(5, 0)), Statistics(*shape)
    before = frozen(mine), frozen(theirs)
    with pytest.raises(ValueError, match=r"same numbers of features and targets, got \(3, 2\) and"):
        mine.merge(theirs)
    assert (frozen(mine), frozen(theirs)) == before


# -- regressions on a dictionary -------------------------------------------------------------------


def part_of(
    rows, *, ridges=None, forgetting=1.0, kernel=KERNEL, points=POINTS, n_targets=N_TARGETS
):
    part = GlobalPart(kernel, points, n_targets, forgetting)
    assert part.statistics.n_rows == 0
    if ridges is not None:
        part.choose_among(ridges)
    for start in range(0, len(rows), 97):
        part.learn(rows[start : start + 97])
    return part


def features_of(rows):
    return KERNEL(rows.X, POINTS)


@pytest.mark.parametrize("n", [(0, 300), (300, 0), (50, 2000), (2000, 50), (900, 700)])
def test_a_merged_part_of_integers_is_that_of_all_rows_to_the_last_bit(n):
    first, second = (rows_of(size, seed, integers=True) for seed, size in enumerate(n))
    linear = {"kernel": Linear(), "points": INTEGER_POINTS}
    earlier, part = part_of(first, **linear), part_of(second, **linear)
    before = frozen(earlier)
    part.merge(earlier)
    assert frozen(earlier) == before
    assert_same_sums(part.statistics, part_of(both(first, second), **linear).statistics)


@pytest.mark.parametrize("n", [(300, 0), (0, 300), (700, 20), (700, 900)])
def test_where_old_rows_are_forgotten_those_of_the_other_came_before(n):
    forgetting = 0.998
    first, second = (rows_of(size, seed) for seed, size in enumerate(n))
    rows = both(first, second)
    weights = rows.weights * exponential_weights(len(rows), forgetting)
    earlier, part = (part_of(some, forgetting=forgetting) for some in (first, second))
    before = frozen(earlier)
    part.merge(earlier)
    assert frozen(earlier) == before
    assert_faded(part.statistics, features_of(rows), rows.targets, weights)


def test_rows_learned_elsewhere_and_those_held_back_are_one_regression():
    first, second, held = rows_of(900, 0), rows_of(700, 1), rows_of(200, 2)
    stream = RidgeStream(KernelBasis(KERNEL, POINTS), N_TARGETS, (0.1, 1e-3))
    shares = [stream.part.emptied() for _ in range(2)]
    for share, rows in zip(shares, (first, second), strict=True):
        share.learn(rows)
    shares[1].merge(shares[0])
    stream.take_over(shares[1].statistics, held)
    rows = both(both(first, second), held)
    assert stream.n_rows == len(rows)
    coefficients = stream.solve()
    expected = ridge_on_dictionary(
        features_of(rows), KERNEL(POINTS), rows.targets, rows.weights, stream.ridge
    )
    assert_allclose(coefficients, expected, rtol=1e-6, atol=1e-9)
    # It learns on, and comes back from a state.
    more = rows_of(400, 9)
    twin = RidgeStream(KernelBasis(KERNEL, POINTS), N_TARGETS, (1.0,))
    twin.restore(stream.to_state())
    for one in (stream, twin):
        one.add(more)
    assert_array_equal(stream.solve(), twin.solve())


def test_a_regression_of_rows_that_are_all_held_back_is_theirs():
    held = rows_of(60, 0)
    stream = RidgeStream(KernelBasis(KERNEL, POINTS), N_TARGETS, (0.1,))
    stream.take_over(stream.part.emptied().statistics, held)
    expected = ridge_on_dictionary(
        features_of(held), KERNEL(POINTS), held.targets, held.weights, 0.1
    )
    assert_allclose(stream.solve(), expected, rtol=1e-6, atol=1e-9)


def test_a_merged_part_is_that_of_all_rows():
    first, second, held = rows_of(900, 0), rows_of(700, 1), rows_of(200, 2)
    earlier, part = part_of(first), part_of(second)
    before = frozen(earlier)
    part.merge(earlier)
    assert frozen(earlier) == before
    whole = part_of(both(first, second))
    Z = features_of(both(first, second))
    rows = both(first, second)
    assert_within_rounding(part.statistics, Z, rows.targets, rows.weights)
    assert_allclose(part.solve(held), whole.solve(held), rtol=1e-7, atol=1e-9)
    assert part.ridge == whole.ridge


def test_an_emptied_part_and_its_merged_share_are_the_part():
    part = part_of(rows_of(300, 0, integers=True), kernel=Linear(), points=INTEGER_POINTS)
    empty = part.emptied()
    assert part.statistics.n_rows == 300
    assert empty.statistics.n_rows == 0
    share = rows_of(200, 1, integers=True)
    empty.learn(share)
    part.merge(empty)
    rows = both(rows_of(300, 0, integers=True), share)
    whole = part_of(rows, kernel=Linear(), points=INTEGER_POINTS)
    assert_same_sums(part.statistics, whole.statistics)


OTHER_POINTS = POINTS + 1e-12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forgetting": 0.99}, r"same `forgetting`, got 1\.0 and 0\.99\. Learn all rows"),
        ({"ridges": (0.1,)}, r"same ridges to choose from, got .* Set the same"),
        ({"n_targets": 3}, r"same number of targets, got 2 and 3\. Of classes, map both"),
        (
            {"kernel": Gaussian(1.6)},
            r"kernels are Gaussian\(length_scale=1\.5\) and .*1\.6.* Let one process choose",
        ),
        ({"points": OTHER_POINTS}, r"points differ \(7 and 7 of them\)"),
        ({"points": POINTS.astype(np.float32)}, "points are float64 and float32"),
    ],
)
def test_parts_that_differ_are_refused_and_stay_as_they_are(change, message):
    part = part_of(rows_of(500, 0))
    other = part_of(rows_of(0, 0), **change)
    before = frozen(part), frozen(other)
    with pytest.raises(ValueError, match=message):
        part.merge(other)
    assert (frozen(part), frozen(other)) == before


# -- cells -----------------------------------------------------------------------------------------


def cells_of(rows, *, size=10, forgetting=1.0, max_cells=0, partition=PARTITION):
    part = CellsPart(partition, None, size, N_TARGETS, max_cells, forgetting)
    if len(rows):
        part.learn(rows)
    return part


HELD = rows_of(60, 77)


@pytest.mark.parametrize("n", [(0, 6), (6, 0), (6, 5), (8, 300), (4, 9)])
def test_cells_that_keep_rows_are_those_of_all_rows(n):
    first, second = (rows_of(size, seed) for seed, size in enumerate(n))
    earlier, part = cells_of(first), cells_of(second)
    before = frozen(earlier)
    part.merge(earlier)
    assert frozen(earlier) == before
    whole = cells_of(first)
    if len(second):
        whole.learn(second)
    same = [
        np.array_equal(mine.function.points, theirs.function.points)
        for mine, theirs in zip(part.cells, whole.cells, strict=True)
    ]
    for mine, theirs in zip(part.cells, whole.cells, strict=True):
        assert mine.n_rows == theirs.n_rows
        assert_array_equal(mine.range, theirs.range)
        assert mine.is_filling == theirs.is_filling
        if mine.is_filling:
            assert_array_equal(mine.rows.X, theirs.rows.X)
    values = part.solve(HELD), whole.solve(HELD)
    if all(same):
        assert_allclose(*values, rtol=1e-6, atol=1e-8)


def test_cells_with_fixed_points_add_up_where_these_are_the_same():
    begun = cells_of(rows_of(80, 0))
    assert not any(cell.is_filling for cell in begun.cells)
    shares = [rows_of(300, 1), rows_of(200, 2)]
    workers = [begun.emptied() for _ in shares]
    for worker, share in zip(workers, shares, strict=True):
        worker.learn(share)
    whole = cells_of(rows_of(80, 0))
    for share in shares:
        whole.learn(share)
    for worker in workers:
        begun.merge(worker)
    rows = Rows.joined([rows_of(80, 0), *shares])
    members = PARTITION.cells(rows.X)
    for number, (mine, theirs) in enumerate(zip(begun.cells, whole.cells, strict=True)):
        assert mine.n_rows == theirs.n_rows
        assert_array_equal(mine.range, theirs.range)
        some = rows[members == number]
        Z = mine.function.features(some.X)
        assert_within_rounding(mine.statistics, Z, some.targets, some.weights)
    assert_allclose(begun.solve(HELD), whole.solve(HELD), rtol=1e-6, atol=1e-8)


def test_cells_that_are_merged_later_came_before_where_rows_are_forgotten():
    forgetting, first = 0.995, rows_of(60, 0)
    begun = cells_of(first, forgetting=forgetting)
    later = begun.emptied()
    more = rows_of(120, 1)
    later.learn(more)
    later.merge(begun)
    rows = both(first, more)
    members = PARTITION.cells(rows.X)
    for number, cell in enumerate(later.cells):
        some = rows[members == number]
        weights = some.weights * exponential_weights(len(some), forgetting)
        Z = cell.function.features(some.X)
        assert_faded(cell.statistics, Z, some.targets, weights)


def test_an_emptied_part_predicts_and_solves():
    part = cells_of(rows_of(80, 0))
    part.solve(HELD)
    empty = part.emptied()
    assert_array_equal(empty.evaluate(HELD.X), part.evaluate(HELD.X))
    again = part.emptied()
    again.solve(HELD)
    assert np.isfinite(again.evaluate(HELD.X)).all()
    for one, other in zip(again.cells, part.cells, strict=True):
        assert_array_equal(one.function.points, other.function.points)


def test_cells_that_are_too_large_together_are_split():
    first, second = rows_of(100, 0), rows_of(100, 1)
    begun = CellsPart(PARTITION, None, 10, N_TARGETS, max_cells=4, keeps=80)
    parts = []
    for rows in (first, second):
        parts.append(begun.emptied())
        parts[-1].learn(rows)
    assert [len(part.cells) for part in parts] == [2, 2]
    before = frozen(parts[0])
    parts[1].merge(parts[0])
    assert len(parts[1].cells) == 4
    assert sum(len(cell.rows) for cell in parts[1].cells) == 200
    assert frozen(parts[0]) == before
    assert np.isfinite(parts[1].solve(HELD)).all()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (cells_of(rows_of(80, 5)), "same points in each cell.* learn on copies of it"),
        (cells_of(rows_of(9, 5), forgetting=0.9), "same `forgetting`"),
        (cells_of(rows_of(9, 5), size=11), "same `size`, got 10 and 11"),
        (cells_of(rows_of(9, 5), max_cells=3), "same `max_cells`"),
        (
            cells_of(
                rows_of(9, 5), partition=Partitioned(anchors=ANCHORS, length_scales=[1.0, 1.0])
            ),
            "same `partition`.*cells that are split apart cannot be put together",
        ),
    ],
)
def test_cells_that_differ_are_refused_and_stay_as_they_are(other, message):
    part = cells_of(rows_of(80, 0))
    before = frozen(part), frozen(other)
    with pytest.raises(ValueError, match=message):
        part.merge(other)
    assert (frozen(part), frozen(other)) == before


# -- classes ---------------------------------------------------------------------------------------


def classified(n, seed, classes, union):
    """Integer inputs, codes of some classes among all of them, and the classes' numbers."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, len(classes), n)
    X = rng.integers(-9, 10, size=(n, N_FEATURES)).astype(np.float64)
    loss = Logistic()
    own = loss.encode(numbers, max(len(classes), 2))
    wide = loss.encode(np.searchsorted(union, classes)[numbers], max(len(union), 2))
    return Rows(X, own, np.ones(n)), Rows(X, wide, np.ones(n))


def integer_regression(kind, n_targets):
    if kind == "part":
        return GlobalPart(Linear(), INTEGER_POINTS, n_targets)
    return CellsPart(PARTITION, None, 200, n_targets)


@pytest.mark.parametrize(("old", "new"), [("ovr", "ovr"), ("ovr", "all"), ("all", "all")])
@pytest.mark.parametrize(
    ("places", "n_new"), [([0], 3), ([2], 3), ([0, 2], 3), ([1, 2], 4), ([0, 2, 3], 5)]
)
def test_codes_go_where_their_classes_go(old, new, places, n_new):
    before, after = ({"ovr": Logistic(), "all": Softmax()}[kind] for kind in (old, new))
    n_old, numbers = len(places), np.arange(len(places))

    def codes(loss, labels, n_classes):
        return codes_of_targets(loss, loss.encode(labels, n_classes), loss.n_scores(n_classes))

    own = codes(before, numbers, n_old)
    matrix, offset = shift_of_codes(
        np.array(places), own.shape[1], after.n_scores(n_new), lone=before.multiclass
    )
    assert_array_equal(own @ matrix + offset, codes(after, np.array(places), n_new))


@pytest.mark.parametrize("place", [0, 1])
def test_the_code_of_a_lone_class_is_that_of_one_of_two(place):
    loss = Logistic()
    matrix, offset = shift_of_codes(np.array([place]), 1, 1)
    assert_array_equal(loss.encode([0], 1) @ matrix + offset, loss.encode([place], 2))


@pytest.mark.parametrize("kind", ["part", "cells"])
@pytest.mark.parametrize(
    ("classes", "others"),
    [
        ("ab", "ab"),
        ("a", "b"),
        ("b", "a"),
        ("a", "a"),
        ("ab", "bc"),
        ("bc", "a"),
        ("abc", "cd"),
        ("abd", "abcd"),
        ("ac", "bd"),
    ],
)
def test_sums_over_other_classes_are_merged_with_the_codes_of_all(kind, classes, others):
    union = np.array(sorted(set(classes) | set(others)))
    mine, other = (
        integer_regression(kind, 1 if len(labels) <= 2 else len(labels))
        for labels in (classes, others)
    )
    whole = integer_regression(kind, 1 if len(union) <= 2 else len(union))
    # The other's rows come first.
    for seed, (labels, sums) in enumerate(((list(others), other), (list(classes), mine))):
        own, wide = classified(150, seed, np.array(labels), union)
        sums.learn(own)
        whole.learn(wide)
    before = frozen(mine), frozen(other)
    merged, labels = merge_classes(mine, np.array(list(classes)), other, np.array(list(others)))
    assert (frozen(mine), frozen(other)) == before
    assert_array_equal(labels, union)
    if kind == "cells":
        for one, all_rows in zip(merged.cells, whole.cells, strict=True):
            assert_array_equal(one.rows.targets, all_rows.rows.targets)
            assert_array_equal(one.range, all_rows.range)
        return
    assert_same_sums(merged.statistics, whole.statistics)


def test_sums_of_other_numbers_of_codes_are_refused():
    mine, other = integer_regression("part", 1), integer_regression("part", 3)
    with pytest.raises(ValueError, match=r"got 1 and 3.* map both to all classes"):
        mine.merge(other)


# -- value functions -------------------------------------------------------------------------------


def transitions(n, seed):
    rng = np.random.default_rng(seed)
    states, rewards = rng.normal(size=(n, 2, N_FEATURES)), rng.normal(size=n)
    targets = transition_targets(0.9, [(rewards, rng.random(n) < 0.1)])
    return Rows(states.reshape(2 * n, N_FEATURES), targets, np.ones(2 * n))


def equations_of(rows, *, forgetting=1.0, discount=0.9, method="td", ridge=1e-3, points=POINTS):
    basis, objective = KernelBasis(KERNEL, points), Bellman(discount, method)
    made = LinearRows(objective, basis, objective.n_outputs, ridge, forgetting)
    for start in range(0, len(rows), 60):
        made.add(rows[start : start + 60])
    return made


@pytest.mark.parametrize("n", [(0, 200), (200, 0), (20, 30), (400, 250)])
@pytest.mark.parametrize("method", ["td", "gtd2", "residual"])
@pytest.mark.parametrize("forgetting", [1.0, 0.995])
def test_merged_equations_of_a_value_function_are_those_of_all_transitions(n, method, forgetting):
    first, second = (transitions(size, seed) for seed, size in enumerate(n))
    earlier, mine, whole = (
        equations_of(rows, method=method, forgetting=forgetting)
        for rows in (first, second, both(first, second))
    )
    before = frozen(earlier._matrix), frozen(earlier._waiting)
    mine.merge(earlier)
    assert (frozen(earlier._matrix), frozen(earlier._waiting)) == before
    solutions = mine.solve(), whole.solve()
    assert_allclose(mine.n_rows, whole.n_rows, rtol=1e-12)
    assert_allclose(mine._matrix, whole._matrix, rtol=1e-9, atol=1e-11)
    assert_allclose(*solutions, rtol=1e-7, atol=1e-8)
    assert mine.emptied().n_rows == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 0.8}, "same `discount`, got 0.9 and 0.8"),
        ({"method": "residual"}, "same `method`"),
        ({"forgetting": 0.9}, "same `forgetting`"),
        ({"ridge": 0.1}, "same `ridge`"),
        ({"points": POINTS[:3]}, r"points differ \(7 and 3 of them"),
    ],
)
def test_equations_that_differ_are_refused_and_stay_as_they_are(change, message):
    mine, other = equations_of(transitions(90, 0)), equations_of(transitions(50, 1), **change)
    before = frozen(mine.to_state()), frozen(other.to_state())
    with pytest.raises(ValueError, match=message):
        mine.merge(other)
    assert (frozen(mine.to_state()), frozen(other.to_state())) == before


# -- Gaussian processes ----------------------------------------------------------------------------


def posterior_of(rows, *, seed=0, normalize=True, kernel=KERNEL, noise=0.1):
    blocks = FeatureBlocks(kernel, N_FEATURES, 16, seed, FeatureOptions())
    posterior = FeaturePosterior(blocks, N_TARGETS, noise, normalize, 64)
    posterior.learn(*rows.arrays)
    return posterior


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("n", [(0, 200), (200, 0), (150, 250)])
def test_merged_posteriors_are_that_of_all_rows(n, normalize):
    first, second = (rows_of(size, seed) for seed, size in enumerate(n))
    other, mine = (posterior_of(rows, normalize=normalize) for rows in (first, second))
    before = frozen(other.statistics)
    mine.merge(other)
    assert frozen(other.statistics) == before
    whole = posterior_of(both(first, second), normalize=normalize)
    X = rows_of(20, 9).X
    assert mine.n_rows == whole.n_rows
    assert_allclose(mine.mean(X), whole.mean(X), rtol=1e-9, atol=1e-10)
    assert_allclose(mine.variance(X), whole.variance(X), rtol=1e-9)
    assert_allclose(mine.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "other features cannot be merged: 16 of Gaussian"),
        ({"kernel": Gaussian(2.0)}, "other features"),
        ({"normalize": False}, "same `normalize`"),
    ],
)
def test_posteriors_that_differ_are_refused_and_stay_as_they_are(change, message):
    mine, other = posterior_of(rows_of(30, 0)), posterior_of(rows_of(30, 1), **change)
    before = frozen(mine.statistics), frozen(other.statistics)
    with pytest.raises(ValueError, match=message):
        mine.merge(other)
    assert (frozen(mine.statistics), frozen(other.statistics)) == before


def sparse_of(rows, *, size=8, kernel=KERNEL, noise=0.1):
    posterior = DictionaryPosterior(
        InducingPoints(size, first_rows=100),
        kernel,
        N_TARGETS,
        noise=noise,
        normalize=True,
        chunk=64,
        seed=0,
        n_features=32,
        design="independent",
    )
    if len(rows):
        posterior.learn(*rows.arrays)
    return posterior


@pytest.mark.parametrize("n", [(0, 40), (40, 0), (40, 30), (60, 70), (40, 150), (150, 40)])
def test_merged_sparse_posteriors_are_that_of_all_rows(n):
    first, second = (rows_of(size, seed) for seed, size in enumerate(n))
    other, mine = sparse_of(first), sparse_of(second)
    before = frozen(other.to_state()) if n[0] else None
    mine.merge(other)
    assert n[0] == 0 or frozen(other.to_state()) == before
    assert mine.n_rows == sum(n)
    X = rows_of(20, 9).X
    if n == (40, 150):  # the dictionary is that of the later rows
        whole = sparse_of(second)
        whole.learn(*first.arrays)
    else:
        whole = sparse_of(first)
        if len(second):
            whole.learn(*second.arrays)
    assert_allclose(mine.mean(X), whole.mean(X), rtol=1e-7, atol=1e-8)
    assert_allclose(mine.variance(X), whole.variance(X), rtol=1e-7)
    assert_allclose(mine.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-8)


def test_sparse_posteriors_on_one_dictionary_add_up():
    begun, shares = sparse_of(rows_of(100, 0)), [rows_of(80, 1), rows_of(90, 2)]
    workers = [begun.emptied() for _ in shares]
    whole = sparse_of(rows_of(100, 0))
    for worker, share in zip(workers, shares, strict=True):
        worker.learn(*share.arrays)
        whole.learn(*share.arrays)
    for worker in workers:
        begun.merge(worker)
    X = rows_of(20, 9).X
    assert begun.n_rows == whole.n_rows == 270
    assert_allclose(begun.mean(X), whole.mean(X), rtol=1e-8, atol=1e-9)
    assert_allclose(begun.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-9)


def test_sparse_posteriors_that_differ_are_refused_and_stay_as_they_are():
    mine = sparse_of(rows_of(120, 0))
    others = [
        (sparse_of(rows_of(120, 1)), "other features"),
        (sparse_of(rows_of(20, 1), size=9), "same `method`"),
        (sparse_of(rows_of(20, 1), kernel=Gaussian(2.0)), "same `kernel`"),
    ]
    for other, message in others:
        before = frozen(mine.to_state()), frozen(other.to_state())
        with pytest.raises(ValueError, match=message):
            mine.merge(other)
        assert (frozen(mine.to_state()), frozen(other.to_state())) == before
