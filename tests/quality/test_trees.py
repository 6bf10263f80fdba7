"""Trees and the ridge regression on their leaves: growth, features, fits, judging of few rows."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles_trees as oracles
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.component import from_config, to_config
from mercer.default import DefaultLearner
from mercer.expansions import Auto
from mercer.functions.sum_of_components import component_from_state, component_to_state
from mercer.maps import Leaves
from mercer.maps import leaves as maps_leaves
from mercer.maps.leaves import grow_leaves
from mercer.numerics.trees import binned, grow
from mercer.sums import LeafBasis, LeafFeatures, Rows, Statistics, TreesPart
from mercer.sums.leaves import _FOLDS, _MORE_SWEEPS, _WAY, ClassSweeps, LeafSweeps, log_loss
from mercer.sums.ridge import RIDGES
from quick import QUICKEST


def steps(n, n_outputs=1, seed=0, noise=0.1, weighted=True):
    """Targets that jump at thresholds of two of four columns."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 4, n)])
    jumps = np.column_stack([X[:, 0] > 0.3, X[:, 3] == 2.0, X[:, 0] > -0.5]).astype(float)
    Y = jumps @ rng.normal(size=(3, n_outputs)) + noise * rng.normal(size=(n, n_outputs))
    return Rows(X, Y, rng.uniform(0.5, 2.0, n) if weighted else np.ones(n))


def coded(n, n_classes, seed=0, noise=0.3):
    """Class codes that jump where the targets of ``steps`` do."""
    rows = steps(n, n_classes, seed, noise)
    classes = rows.targets.argmax(axis=1)
    codes = 2.0 * np.eye(n_classes)[classes] - 1.0
    return replace(rows, targets=codes if n_classes > 2 else codes[:, 1:])


def grown(rows, **options):
    settings = {
        "n_trees": 6,
        "n_leaves": 5,
        "n_bins": 256,
        "min_weight": 3.0,
        "rate": 0.3,
        "share": 1.0,
        "n_sketches": 10,
        "seed": 0,
    }
    settings = {**settings, **options}
    settings["n_leaves"] = np.full(settings.pop("n_trees"), settings["n_leaves"])
    return grow(rows.X, rows.targets, rows.weights, **settings)


def forest_of(rows, **options):
    return grown(rows, **options)[0]


def counting(rows):
    """Weights whose sum is the number of rows of one weight that would count for as much."""
    return rows.weights * rows.weights.sum() / np.sum(rows.weights**2)


def same_partition(a, b):
    """Whether two labelings of rows put the same rows together."""
    pairs = len(np.unique(np.column_stack([a, b]), axis=0))
    return pairs == len(np.unique(a)) == len(np.unique(b))


# -- growth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_trees_are_those_of_trying_every_split(n_outputs):
    rows = steps(120, n_outputs)
    leaves = Leaves(4, *forest_of(rows)).numbers(rows.X)
    expected = oracles.boosted_leaves(rows.X, rows.targets, rows.weights, 6, 5, 3.0, 0.3)
    assert all(same_partition(a, b) for a, b in zip(leaves, expected, strict=True))
    assert len(np.unique(leaves)) == leaves.max() + 1 == sum(len(np.unique(t)) for t in expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_of_classes_follow_the_gradients_of_the_log_loss(n_classes):
    rows = coded(150, n_classes)
    leaves = Leaves(4, *forest_of(rows, classes=True)).numbers(rows.X)
    how = rows.X, rows.targets, rows.weights, 6, 5, 3.0, 0.3
    expected = oracles.boosted_leaves_of_classes(*how)
    assert all(same_partition(a, b) for a, b in zip(leaves, expected, strict=True))
    # Squared errors to codes would have led elsewhere.
    others = Leaves(4, *forest_of(rows)).numbers(rows.X)
    assert not all(same_partition(a, b) for a, b in zip(leaves, others, strict=True))


def test_columns_gain_what_their_splits_explain():
    rows = steps(200, weighted=False)
    y = rows.targets[:, 0] - rows.targets[:, 0].mean()
    forest, gains = grown(rows, n_trees=1, n_leaves=2)
    left = rows.X[:, forest.columns[0]] <= forest.cuts[0]
    # Weights of halves are shrunk as if by one more row of the mean.
    expected = sum(y[side].sum() ** 2 / (side.sum() + 1.0) for side in (left, ~left))
    assert_allclose(gains[forest.columns[0]], expected)
    assert np.count_nonzero(gains) == 1
    assert (np.flatnonzero(grown(rows)[1]) == np.unique(forest_of(rows).columns)[1:]).all()


@pytest.mark.parametrize(("n_columns", "n_small"), [(9, 0), (60, 6), (180, 15)])
def test_small_trees_come_first_where_columns_are_many(n_columns, n_small):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, n_columns))
    y = X[:, :1] - X[:, 1:2] + 0.3 * rng.normal(size=(900, 1))
    leaves = grow_leaves(X, y, np.ones(900), n_trees=20, n_leaves=9)
    assert np.diff(leaves.starts).tolist() == [4] * n_small + [9] * (20 - n_small)
    assert leaves.gains.argsort()[-2:].tolist() in ([0, 1], [1, 0])
    assert pickle.loads(pickle.dumps(leaves)).gains is None


def test_many_columns_have_fewer_bins(monkeypatch):
    asked = []

    def noted(*args, n_bins, **more):
        asked.append(n_bins)
        return grow(*args, n_bins=n_bins, **more)

    monkeypatch.setattr(maps_leaves, "grow", noted)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 300)), rng.normal(size=(3000, 1))
    for n_columns in (10, 64, 128, 300):
        grow_leaves(X[:, :n_columns], y, np.ones(3000), n_trees=1, n_leaves=2)
    assert asked == [255, 255, 128, 64]


def test_leaves_weigh_what_they_must():
    rows = steps(300, noise=2.0)
    leaves = Leaves(4, *forest_of(rows, n_leaves=40, min_weight=9.0)).numbers(rows.X)
    weights = np.bincount(leaves.ravel(), np.tile(counting(rows), len(leaves)))
    assert weights.min() >= 9.0 - 1e-9
    assert len(np.unique(leaves[0])) > 10


def test_growth_depends_on_the_seed_alone_and_on_no_scale():
    rows = steps(400)
    trees = [forest_of(rows, share=0.5, seed=seed) for seed in (0, 0, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(*trees[:2], strict=True))
    assert not np.array_equal(trees[0].cuts, trees[2].cuts)
    # Powers of 2, so that nothing is rounded otherwise.
    other = forest_of(Rows(4.0 * rows.X, 2.0**20 * rows.targets, 8.0 * rows.weights), share=0.5)
    assert_array_equal(other.columns, trees[0].columns)
    assert_array_equal(other.cuts, 4.0 * trees[0].cuts)


def test_many_targets_are_seen_a_few_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 80))
    Y = np.column_stack([X[:, j] > 0.0 for j in range(8)]).astype(float)
    forest = forest_of(Rows(X, Y, np.ones(600)), n_trees=60, n_sketches=2)
    asked = np.bincount(forest.columns[forest.columns >= 0], minlength=80)
    assert asked[:8].min() > 3 * asked[8:].max()
    assert set(range(8)) <= set(forest.columns)


def test_constant_columns_and_targets_make_single_leaves():
    rows = steps(60)
    still = Rows(np.ones((60, 2)), rows.targets, rows.weights)
    assert_array_equal(forest_of(still).columns, -1)
    assert_array_equal(forest_of(replace(rows, targets=np.ones((60, 1)))).columns, -1)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=50), st.integers(2, 12))
def test_bins_are_in_order_and_told_apart_by_their_cuts(values, n_bins):
    column = np.array(values)
    codes, (cuts,) = binned(column[:, np.newaxis], n_bins)
    assert cuts.size < n_bins
    assert (np.diff(cuts) > 0.0).all()
    assert_array_equal(codes[0], [np.sum(value > cuts) for value in column])
    if np.unique(column).size <= n_bins:
        for a, b in pairwise(np.unique(column)):
            # Numbers next to each other have nothing in between.
            assert np.sum((cuts >= a) & (cuts < b)) == 1
    elif np.unique(column).size > 1:
        assert cuts.size


# -- the map --------------------------------------------------------------------------------------


def test_a_row_is_in_the_leaf_that_its_values_lead_to():
    # x_1 <= 2: leaf 0; else x_0 <= -1: leaf 1, else leaf 2. Then a tree of one leaf.
    tree = Leaves(
        2,
        columns=[1, -1, 0, -1, -1, -1],
        cuts=[2.0, 0.0, -1.0, 0.0, 0.0, 0.0],
        children=[1, 0, 3, 1, 2, 3],
        roots=[0, 5],
    )
    X = np.array([[0.0, 2.0], [-1.0, 2.1], [-0.9, 3.0]])
    assert_array_equal(tree.numbers(X), [[0, 1, 2], [3, 3, 3]])
    assert_array_equal(tree.numbers(X.astype(np.float32)), [[0, 1, 2], [3, 3, 3]])
    assert (tree.n_trees, tree.n_outputs) == (2, 4)
    assert_allclose(tree(X), oracles.indicators(tree.numbers(X), 4))
    again = from_config(to_config(tree))
    assert again == tree
    assert_array_equal(again.numbers(X), tree.numbers(X))


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [2, -1, -1]},  # no such input
        {"children": [0, 0, 1]},  # a node is its own child
        {"children": [2, 0, 1]},  # the right child is none
        {"children": [1, 1, 0]},  # leaves out of order
        {"cuts": [np.nan, 0.0, 0.0]},
        {"cuts": [0.0, 0.0]},
        {"roots": [3]},
        {"roots": []},
    ],
)
def test_nodes_that_are_no_trees_are_refused(change):
    nodes = {"columns": [0, -1, -1], "cuts": [0.0, 0, 0], "children": [1, 0, 1], "roots": [0]}
    Leaves(2, **nodes)
    with pytest.raises(ValueError, match=r"nodes of trees.*in their order"):
        Leaves(2, **{**nodes, **change})


# -- features and sums ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_sums_of_indicators_are_those_of_the_dense_matrix(n_outputs):
    rows = steps(90, n_outputs)
    leaves = Leaves(4, *forest_of(rows))
    Z, size = leaves.numbers(rows.X), leaves.n_outputs
    features, dense = LeafFeatures(Z, size), oracles.indicators(Z, size)
    sums = [Statistics(size, n_outputs) for _ in range(2)]
    for one, its in zip(sums, (features, dense.copy()), strict=True):
        for some in (slice(0, 50), slice(50, 90)):
            part = LeafFeatures(Z[:, some], size) if its is features else its[some]
            one.add(part, rows.targets[some], rows.weights[some])
    for name in ("packed", "products", "feature_sums", "target_sums", "target_squares"):
        assert_allclose(getattr(sums[0], name), getattr(sums[1], name), atol=1e-12)
    w = np.random.default_rng(0).normal(size=(size, 2))
    assert_allclose(features @ w, dense @ w, atol=1e-12)
    assert_allclose(rows.targets.T @ features, rows.targets.T @ dense, atol=1e-12)


def part_of(rows, **options):
    return TreesPart(Leaves(rows.X.shape[1], *forest_of(rows)), rows.targets.shape[1], **options)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_solution_is_the_ridge_regression_to_the_mean(offset):
    rows = steps(260, 2, noise=1.0)
    rows = replace(rows, targets=rows.targets + offset)
    part, learned, held = part_of(rows), rows[:200], rows[200:]
    part.learn(learned[:120])
    part.learn(learned[120:])
    values = part.solve(held)
    Z = oracles.indicators(part.map.numbers(rows.X), part.n_points)
    constant = part.map.n_trees**-0.5
    assert_allclose(Z @ np.full(part.n_points, constant), 1.0)
    errors = []
    for ridge in RIDGES:
        w = oracles.ridge_to_the_mean(Z[:200], learned.targets, learned.weights, ridge, constant)
        errors.append(held.weights @ np.sum((Z[200:] @ w - held.targets) ** 2, axis=1))
        if ridge == RIDGES[part.ridge]:
            assert_allclose(values, Z[200:] @ w, atol=1e-7 * (1.0 + 1e-3 * offset))
    assert errors[part.ridge] <= min(errors[max(part.ridge - 1, 0) : part.ridge + 2])
    w = oracles.ridge_to_the_mean(Z, rows.targets, rows.weights, RIDGES[part.ridge], constant)
    assert_allclose(part.evaluate(rows.X), Z @ w, atol=1e-7 * (1.0 + 1e-3 * offset))


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_merged_parts_have_learned_all_rows(forgetting):
    rows = steps(300)
    whole = part_of(rows, forgetting=forgetting)
    earlier, later = whole.emptied(), whole.emptied()
    whole.learn(rows[:240])
    earlier.learn(rows[:100])
    later.learn(rows[100:240])
    later.merge(earlier)
    for one in (whole, later):
        one.solve(rows[240:])
    assert_allclose(later.evaluate(rows.X), whole.evaluate(rows.X), atol=1e-8)
    with pytest.raises(ValueError, match="their features differ"):
        later.merge(TreesPart.grown(rows))


@pytest.mark.parametrize("sums", [False, True])
def test_a_part_comes_back_from_its_state(sums):
    rows = steps(300)
    part = part_of(rows, max_rows=1000, seed=3)
    part.learn(rows[:200])
    part.solve(rows[200:250])
    twin = component_from_state(component_to_state(part, sums=sums), 4, 1)
    assert_array_equal(twin.evaluate(rows.X), part.evaluate(rows.X))
    assert (twin.seed, twin.max_rows, twin.ridge) == (3, 1000, part.ridge)
    if sums:
        for one in (part, twin):
            one.learn(rows[250:])
            one.solve(rows[200:250])
        assert_array_equal(twin.evaluate(rows.X), part.evaluate(rows.X))


def test_rows_beyond_the_most_change_nothing():
    rows = steps(300)
    part, other = part_of(rows, max_rows=150), part_of(rows)
    part.learn(rows[:100])
    part.learn(rows[100:])
    other.learn(rows[:100])
    other.learn(rows[100:150])
    assert_array_equal(part.statistics.packed, other.statistics.packed)


# -- sweeps over rows in memory -------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_sweep_fits_each_tree_to_what_the_others_leave(n_outputs):
    rows, way = steps(90, n_outputs), ((1e-2, 2), (1e-4, 3))
    leaves = Leaves(4, *forest_of(rows))
    sweeps = LeafSweeps(leaves, rows)
    for step in way:
        sweeps.sweep(*step)
    numbers = leaves.numbers(rows.X)
    values = oracles.swept(numbers, leaves.starts, rows.targets, rows.weights, way)
    assert_allclose(sweeps.values.T, values, atol=1e-12)
    predicted = sweeps.mean + (oracles.indicators(numbers, len(values)) @ values) * 6**0.5
    assert_allclose(part_of(rows).basis.features(rows.X) @ sweeps.coefficients, predicted)


def test_many_sweeps_find_the_ridge_regression():
    """From wherever they begin: the function has one minimum."""
    rows, ridge = steps(200, 2, noise=1.0), 1e-3
    leaves = Leaves(4, *forest_of(rows))
    Z = oracles.indicators(leaves.numbers(rows.X), leaves.n_outputs)
    constant = leaves.n_trees**-0.5
    w = oracles.ridge_to_the_mean(Z, rows.targets, rows.weights, ridge, constant)
    start = np.random.default_rng(0).normal(size=(2, leaves.n_outputs))
    for values in (None, start):
        sweeps = LeafSweeps(leaves, rows, values)
        sweeps.sweep(ridge, 5000)
        assert_allclose(sweeps.coefficients, w, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_many_sweeps_of_classes_find_the_least_penalised_log_loss(n_classes):
    """From wherever they begin: at the minimum the slopes in all leaves are 0."""
    rows, ridge = coded(200, n_classes), 1e-3
    leaves = Leaves(4, *forest_of(rows, classes=True))
    numbers = leaves.numbers(rows.X)
    Z = oracles.indicators(numbers, leaves.n_outputs) * leaves.n_trees**0.5
    share = (rows.weights / rows.weights.sum())[:, np.newaxis]
    found = []
    start = np.random.default_rng(0).normal(size=(len(rows.targets.T), leaves.n_outputs))
    for values in (None, start):
        sweeps = ClassSweeps(leaves, rows, values)
        sweeps.sweep(ridge, 2000)
        scores = sweeps.mean + Z @ sweeps.values.T
        missed = (rows.targets + 1.0) / 2.0 - oracles.probabilities(scores)
        slopes = Z.T @ (share * missed) - ridge * leaves.n_trees * sweeps.values.T
        assert_allclose(slopes, 0.0, atol=1e-9)
        features = LeafBasis(leaves).features(rows.X)
        assert_allclose(features @ sweeps.coefficients * sweeps.unit, scores, atol=1e-9)
        found.append(scores)
    assert_allclose(oracles.probabilities(found[0]), oracles.probabilities(found[1]), atol=1e-7)


def test_the_log_loss_of_two_classes_is_that_of_a_softmax():
    rows = coded(50, 2)
    scores = np.random.default_rng(1).normal(size=(50, 1))
    both = replace(rows, targets=np.hstack([-rows.targets, rows.targets]))
    assert log_loss(scores, rows) == pytest.approx(log_loss(np.hstack([0 * scores, scores]), both))


def test_scores_of_rules_without_exceptions_stay_finite():
    rows = coded(300, 2, noise=0.0)
    sweeps = ClassSweeps(Leaves(4, *forest_of(rows, classes=True)), rows)
    for ridge in (1e-3, 1e-9, 0.0):
        sweeps.sweep(ridge, 50)
    assert np.isfinite(sweeps.coefficients).all()
    values = LeafBasis(sweeps._map).features(rows.X) @ sweeps.coefficients
    assert_array_equal(values > 0.0, rows.targets > 0.0)


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_gathered_rows_choose_the_ridge_and_are_taken_in(forgetting):
    rows = steps(300, 2, noise=1.0)
    part = part_of(rows, forgetting=forgetting)
    trial = part.judge_gathered(rows[:200], rows[200:])
    values = trial.values
    assert_allclose(part.evaluate(rows.X[200:]), values, atol=1e-12)
    trial.complete()
    aged = rows.discounted(forgetting)
    learned, held, numbers = aged[:200], aged[200:], part.map.numbers(rows.X)
    size, starts = part.n_points, part.map.starts
    Z, mean = oracles.indicators(numbers, size), np.average(learned.targets, 0, learned.weights)
    found = []
    for last in range(len(_WAY)):
        way = _WAY[: last + 1]
        v = oracles.swept(numbers[:, :200], starts, learned.targets, learned.weights, way)
        found.append(mean + (Z @ v * part.map.n_trees**0.5)[200:])
    errors = [held.weights @ np.sum((one - held.targets) ** 2, axis=1) for one in found]
    assert_allclose(values, found[np.argmin(errors)], atol=1e-10)
    assert_allclose(Z[200:] @ part.without_held, values, atol=1e-10)
    sweeps = LeafSweeps(part.map, learned)
    for step in _WAY[: np.argmin(errors) + 1]:
        sweeps.sweep(*step)
    whole = LeafSweeps(part.map, aged, sweeps.values)
    whole.sweep(_WAY[np.argmin(errors)][0], _MORE_SWEEPS)
    assert_allclose(part.coefficients, whole.coefficients, atol=1e-10)


def test_a_ridge_that_is_given_is_solved_for_exactly():
    rows = steps(400, noise=1.0)
    gathered, summed = (part_of(rows) for _ in range(2))
    for part in (gathered, summed):
        part.fix_ridge(1e-6)
    summed.learn(rows[:300])
    trial = gathered.judge_gathered(rows[:300], rows[300:])
    trial.complete()
    assert_array_equal(trial.values, summed.solve(rows[300:]))
    assert_array_equal(gathered.coefficients, summed.coefficients)


# -- few rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 7])
def test_few_rows_are_judged_by_trees_that_have_not_seen_them(block):
    rows, n_judges = steps(150, 2, noise=1.0), 94  # 56 others: whole blocks
    part = TreesPart.grown(rows, seed=5)
    trial = part.solve_few(rows, n_judges, block)
    values = trial.values
    trial.complete()
    ends = 150 - n_judges + np.linspace(0, n_judges, _FOLDS + 1).astype(int)
    ends[1:-1] -= ends[1:-1] % block

    def predicted(n_ridges):
        for start, stop in pairwise(ends):
            others = rows[np.r_[:start, stop:150]]
            leaves = TreesPart.grown(others, seed=5).map
            sweeps = LeafSweeps(leaves, others)
            for step in _WAY[:n_ridges]:
                sweeps.sweep(*step)
            yield LeafBasis(leaves).features(rows.X[start:stop]) @ sweeps.coefficients

    found = [np.concatenate(list(predicted(n))) for n in range(1, len(_WAY) + 1)]
    n_first = ends[1] - ends[0]
    first = rows[ends[0] : ends[1]]
    errors = [first.weights @ np.sum((f[:n_first] - first.targets) ** 2, axis=1) for f in found]
    assert_allclose(values, found[np.argmin(errors)], atol=1e-12)
    # Trees of all rows, which the fit to them all is of.
    sweeps = LeafSweeps(part.map, rows)
    for step in _WAY[: np.argmin(errors) + 1]:
        sweeps.sweep(*step)
    assert_array_equal(part.coefficients, sweeps.coefficients)


def test_trees_that_are_far_worse_than_others_are_given_up_at_once():
    rows = steps(200, noise=1.0)
    rivals = [rows.targets[100:] + 0.01]
    part = TreesPart.grown(rows)
    assert part.solve_few(rows, 100, rivals=rivals) is None
    assert part.solve_few(rows, 100, rivals=[0.0 * rivals[0]]) is not None


def test_trees_of_classes_whose_probabilities_are_far_worse_are_given_up():
    rows = coded(300, 3, noise=1.0)
    part = TreesPart.grown(rows, classes=True)
    # Of another size, as sure values are: beyond the codes they count as these.
    assert part.solve_few(rows, 150, rivals=[20.0 * rows.targets[150:]]) is None
    trial = part.solve_few(rows, 150, rivals=[-rows.targets[150:]])
    assert log_loss(ClassSweeps.unit * trial.values, rows[150:]) < np.log(3.0)


def test_a_ridge_of_ones_own_is_kept_even_if_it_is_none():
    rows = steps(150)
    for ridge in (0.0, 1e-3):
        part = TreesPart.grown(rows)
        part.fix_ridge(ridge)
        part.solve_few(rows, 75).complete()
        assert part.ridges[part.ridge] == ridge
        assert np.isfinite(part.evaluate(rows.X)).all()


# -- in the default learner -----------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Races on few rows."""
    monkeypatch.setattr(DefaultLearner, "settings", QUICKEST)


def jumps(n, seed=0, n_columns=12):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, n_columns))
    return X, 1.0 * (X[:, 0] > 0.2) + 2.0 * (X[:, 1] > -0.3) * (X[:, 2] > 0.0)


@pytest.mark.parametrize("n", [600, 1000])  # the second has more than are raced on as a whole
def test_targets_that_jump_are_learned_by_trees(n, monkeypatch):
    (X, y), (test, truth) = jumps(n), jumps(2000, seed=1)
    scores = []
    settings = DefaultLearner.settings
    if n > 600:
        settings = settings._replace(race=QUICKEST.race)
    for least in (100, 10**9):
        allocation = settings.allocation._replace(least_for_trees=least)
        with monkeypatch.context() as patch:
            patch.setattr(DefaultLearner, "settings", settings._replace(allocation=allocation))
            model = KernelRegressor(random_state=0).fit(X, y)
        scores.append(1.0 - model.score(test, truth))
        assert ("trees" in {part.form for part in model.parts_}) == (least == 100)
    assert scores[0] < 0.7 * scores[1]


def test_a_part_of_trees_is_what_it_says():
    X, y = jumps(600)
    model = KernelRegressor(random_state=0).fit(X, y)
    part = next(part for part in model.parts_ if part.form == "trees")
    values = part.weight * part.kernel(part.map(X), part.dictionary) @ part.coefficients
    assert_allclose(part.evaluate(X), values, atol=1e-10)
    assert model.model_order_ == sum(len(part.dictionary) for part in model.parts_)


def test_there_are_no_trees_for_images_nor_without_memory():
    X, y = jumps(600)
    wide = np.hstack([X, np.zeros((600, 250))])
    for rows, auto in ((wide, Auto()), (X, Auto(max_memory=2**24))):
        model = KernelRegressor(expansion=auto, random_state=0).fit(rows, y)
        assert "trees" not in {part.form for part in model.learner_.function.components}


@pytest.mark.usefixtures("quick")
def test_a_file_of_gathered_rows_has_no_sums_and_goes_on_all_the_same(tmp_path):
    X, y = jumps(700)
    labels = (y > 1.0).astype(int)
    model = KernelClassifier(expansion=Auto(expected_rows=700), random_state=0)
    model.partial_fit(X, labels, classes=[0, 1])
    model.predict(X[:1])
    model.save(tmp_path / "model")
    twin = load_model(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 2**20
    assert_array_equal(twin.decision_function(X), model.decision_function(X))
    for one in (model, twin):
        one.partial_fit(X[:300], labels[:300])
    assert_array_equal(twin.decision_function(X), model.decision_function(X))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("n", [300, 700])  # fewer and more than are raced on as a whole
def test_trees_grow_on_rows_that_count_as_their_age_says(n, monkeypatch):
    X, y = jumps(n)
    seen = []

    def grown(cls, rows, *arguments, **options):
        seen.append(rows)
        return original(rows, *arguments, **options)

    original = TreesPart.grown
    monkeypatch.setattr(TreesPart, "grown", classmethod(grown))
    model = KernelRegressor(expansion=Auto(forgetting=0.999), random_state=0).partial_fit(X, y)
    model.predict(X[:1])
    age = {x.tobytes(): n - 1 - i for i, x in enumerate(X)}
    for rows in seen:
        ages = np.array([age[x.tobytes()] for x in rows.X])
        assert_allclose(rows.weights / rows.weights.max(), 0.999 ** (ages - ages.min()), rtol=1e-9)
    assert seen


def test_rows_that_hardly_count_fill_no_leaves():
    rows = steps(400, noise=1.0, weighted=False)
    old = rows.weights * np.where(np.arange(400) < 300, 1e-9, 1.0)
    leaves = Leaves(4, *forest_of(replace(rows, weights=old), n_leaves=40, min_weight=9.0))
    counts = np.bincount(leaves.numbers(rows.X[300:])[0])
    assert counts.min() >= 9
    assert counts.size > 4


def test_no_trees_are_grown_for_a_constant_target_or_beyond_the_time():
    X, y = jumps(600)
    for target, auto in ((np.full(600, 3.0), Auto()), (y, Auto(budget_seconds=0.1))):
        model = KernelRegressor(expansion=auto, random_state=0).fit(X, target)
        assert "trees" not in {part.form for part in model.learner_.function.components}
        assert np.isfinite(model.predict(X)).all()
