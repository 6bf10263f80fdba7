"""Parts of the default learner against dense algebra, and the weights they get."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from mercer import KernelClassifier
from mercer.default import allocate as allocate_module
from mercer.default import learner as default_learner
from mercer.default.allocate import Allocation, boundary_rows
from mercer.default.learner import GradientsOfRows, refine
from mercer.expansions import Auto
from mercer.functions import FittedPart
from mercer.functions.sum_of_components import component_from_state, component_to_state
from mercer.kernels import Bias, Gaussian, Mapped, Partitioned
from mercer.losses import Hinge, Logistic, Softmax, Squared, loss_and_slopes
from mercer.maps import Affine
from mercer.numerics import dense
from mercer.selection import calibrate, mean_loss, stack
from mercer.sums import (
    CellsPart,
    GlobalPart,
    Rows,
    TreesPart,
    choose_centers,
    distinct_rows,
    labels_of_codes,
)
from mercer.sums import ridge as ridge_module
from mercer.sums.cells import CELL_RIDGES
from mercer.sums.ridge import RIDGES, descend
from oracles_parts import (
    best_log_loss_weights,
    best_squared_weights,
    distinct_first,
    leave_one_out,
    newton_step,
    ridge_path,
)
from oracles_second_order import exponential_weights, ridge_on_dictionary

SHARP = Mapped(Gaussian(0.3) + Bias(0.5), Affine([0.5, 0.0], [1.0, 2.0]))  # well conditioned
KERNEL = Mapped(Gaussian(0.8) + Bias(0.5), Affine([0.5, 0.0], [1.0, 2.0]))
PRIOR, CLASS_PRIOR = 1.0, 0.3  # rows' worth of equal weights, as `stack` documents


def made_rows(n, n_outputs=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    Y = np.sin(2.0 * X @ rng.normal(size=(2, n_outputs))) + noise * rng.normal(size=(n, n_outputs))
    return Rows(X, Y, rng.uniform(0.5, 2.0, n))


def split(rows, n):
    return rows[:n], rows[n:]


def best_of_all(errors):
    assert np.argmin(errors) not in (0, len(errors) - 1), "the ridges must bracket the best one"
    return int(np.argmin(errors))


# -- the dictionary -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boundary_rows_are_those_between_the_classes(n_classes):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (900, 2))
    # Classes are sectors of the circle, or half planes: distance from the nearest ray is known.
    angle = np.mod(np.arctan2(X[:, 1], X[:, 0]), 2.0 * np.pi)
    labels = (angle * n_classes / (2.0 * np.pi)).astype(int)
    rays = np.arange(n_classes) * 2.0 * np.pi / n_classes
    away = np.abs(np.exp(1j * angle)[:, None] - np.exp(1j * rays)).min(axis=1) * np.hypot(*X.T)
    codes = 2.0 * np.eye(n_classes)[labels] - 1.0 if n_classes > 2 else 2.0 * labels[:, None] - 1.0
    assert_array_equal(labels_of_codes(codes), labels)
    found = boundary_rows(KERNEL, Rows(X, codes, np.ones(900)), 200)
    assert found.size == np.unique(found).size == 200
    assert away[found].mean() < 0.5 * np.delete(away, found).mean()
    assert away[found[:20]].max() < np.median(away)


def test_a_dictionary_without_boundary_rows_is_made_of_the_rows_as_they_are(monkeypatch):
    """They were copied, and their means mapped once more, whether or not any were left out."""
    rows, seen = made_rows(200, n_outputs=1), []

    def centers(X, *arguments, **options):
        seen.append(X)
        return choose_centers(X, *arguments, **options)

    monkeypatch.setattr(allocate_module, "choose_centers", centers)
    monkeypatch.setattr(allocate_module, "distinct_rows", None)
    for classes in (False, True):
        codes = replace(rows, targets=np.sign(rows.targets)) if classes else rows
        points = Allocation(codes, None, Auto(seed=0), classes=classes).dictionary(KERNEL, 30)
        assert len(points) == 30
    assert all(X is rows.X for X in seen)


# -- one dictionary -------------------------------------------------------------------------------


def test_global_part_is_ridge_regression_with_the_ridge_that_rows_kept_back_choose():
    fitted, held = split(made_rows(300, noise=0.25), 240)
    points = fitted.X[:60]
    part = GlobalPart(SHARP, points, 2)
    for start in range(0, 240, 70):
        part.learn(fitted[start : start + 70])
    predictions = part.solve(held)
    K, K_held, K_DD = (SHARP(A, points) for A in (fitted.X, held.X, points))
    path = ridge_path(K, K_DD, fitted.targets, fitted.weights, RIDGES, K_held)
    errors = [np.sum(held.weights[:, None] * (p - held.targets) ** 2) for p in path]
    best = best_of_all(errors)
    assert_allclose(predictions, path[best], atol=1e-8)
    everything = Rows.joined([fitted, held])
    expected = ridge_on_dictionary(
        SHARP(everything.X, points), K_DD, everything.targets, everything.weights, RIDGES[best]
    )
    assert_allclose(part.evaluate(held.X), K_held @ expected, atol=1e-8)
    assert_allclose(
        SHARP(held.X, part.dictionary) @ part.coefficients, K_held @ expected, atol=1e-8
    )


@pytest.mark.parametrize("ridge", [1e-2, 1e-4])
def test_a_given_ridge_is_the_only_one(ridge):
    fitted, held = split(made_rows(300), 240)
    points = fitted.X[::40]
    part = GlobalPart(KERNEL, points, 2)
    part.fix_ridge(ridge)
    part.learn(fitted)
    predictions = part.solve(held)
    K, K_held, K_DD = (KERNEL(A, points) for A in (fitted.X, held.X, points))
    (expected,) = ridge_path(K, K_DD, fitted.targets, fitted.weights, [ridge], K_held)
    assert_allclose(predictions, expected, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_asking_for_a_solution_changes_nothing_of_the_next_one(dtype):
    fitted, held = split(made_rows(300), 240)
    often, once = (GlobalPart(KERNEL, fitted.X[:60].astype(dtype), 2) for _ in range(2))
    for start in range(0, 240, 40):
        often.learn(fitted[start : start + 40])
        once.learn(fitted[start : start + 40])
        often.solve(held)
        often.curvature()
        often = component_from_state(component_to_state(often, sums=True), 2, 2)
    often.solve(held)
    once.solve(held)
    assert often.ridge == once.ridge
    assert_array_equal(often.coefficients, once.coefficients)
    assert_array_equal(
        np.tril(often.curvature().factor.lower), np.tril(once.curvature().factor.lower)
    )
    assert often.statistics.jitter == once.statistics.jitter


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("lowest", range(6))
def test_going_downhill_tries_each_number_once_and_finds_the_bottom(start, lowest):
    tried = []

    def attempt(number):
        tried.append(number)
        return abs(number - lowest), str(number)

    assert descend(attempt, start, 6) == (lowest, str(lowest))
    assert tried[0] == start
    assert len(tried) == len(set(tried)) <= abs(start - lowest) + 3

    # Nothing else is tried where the start is not good enough.
    tried.clear()
    expected = lowest if abs(start - lowest) < 2 else start
    assert descend(attempt, start, 6, limit=2) == (expected, str(expected))
    assert expected != start or len(tried) == 1 or start == lowest


def test_what_rounding_asked_for_once_is_not_asked_for_ever(monkeypatch):
    starts, raised = [], []

    def watched(error, start, n):
        found = descend(error, start, n)
        starts.append(start)
        raised.append(part.statistics.jitter)
        return found

    monkeypatch.setattr(ridge_module, "descend", watched)
    fitted, held = split(made_rows(500, noise=0.5), 400)
    part = GlobalPart(KERNEL, fitted.X.astype(np.float32), 2)  # sums too rough for weak ridges
    part.learn(fitted)
    before = part.statistics.jitter
    for _ in range(2):
        part.solve(held)
        assert part.statistics.jitter == before
    assert min(raised) > before
    assert part.ridge != starts[0]
    assert starts[0] == starts[1]


@pytest.mark.parametrize(("first", "knows"), [(1, True), (6, False)])
def test_the_factor_for_steps_is_that_of_a_part_that_was_not_solved(monkeypatch, first, knows):
    monkeypatch.setattr(ridge_module, "_FIRST", first)
    fitted, held = split(made_rows(500), 400)
    points = fitted.X.astype(np.float32)  # sums too rough for weak ridges
    part, fresh = (GlobalPart(KERNEL, points, 2) for _ in range(2))
    for one in (part, fresh):
        one.learn(fitted)
    plain, attempts = dense.cholesky, []
    monkeypatch.setattr(dense, "cholesky", lambda A, **how: attempts.append(A) or plain(A, **how))

    def watched(*how):
        found = descend(*how)
        attempts.clear()
        return found

    monkeypatch.setattr(ridge_module, "descend", watched)
    part.solve(held)
    n_in_the_end = len(attempts)
    fresh.ridge = part.ridge
    expected = fresh.curvature().factor
    attempts.clear()
    found = part.curvature().factor
    assert_array_equal(np.tril(found.lower), np.tril(expected.lower))
    assert found.jitter == expected.jitter > 1e-7 * found.lower[0, 0] ** 2
    assert (part.ridge > first) == knows
    # What the choice of the ridge found out is not found out again.
    assert (n_in_the_end == 1) == (len(attempts) == 1) == knows


def test_leave_one_out_equals_a_fit_without_each_row():
    X = made_rows(40).X
    noise = 0.1 * np.random.default_rng(3).normal(size=(40, 2))
    rows = Rows(X, np.sin(X) + noise, made_rows(40).weights)
    part = GlobalPart(SHARP, rows.X, 2)
    predictions = part.solve_without(rows)
    K = SHARP(rows.X, rows.X)
    errors = [
        np.sum(
            rows.weights[:, None]
            * (leave_one_out(K, K, rows.targets, rows.weights, r) - rows.targets) ** 2
        )
        for r in RIDGES[:6]
    ]
    best = best_of_all(errors)
    assert part.ridge == best
    expected = leave_one_out(K, K, rows.targets, rows.weights, RIDGES[best])
    assert_allclose(predictions, expected, atol=1e-6)
    whole = ridge_on_dictionary(K, K, rows.targets, rows.weights, RIDGES[best])
    assert_allclose(part.evaluate(rows.X), K @ whole, atol=1e-6)


@pytest.mark.parametrize("ridge", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("block", [1, 2, 7, 9])
def test_leave_out_equals_a_fit_without_each_block(block, ridge):
    rows = made_rows(45)
    part = GlobalPart(SHARP, rows.X[:30], 2)
    part.fix_ridge(ridge)
    predictions = part.solve_without(rows, block)
    K, K_DD = SHARP(rows.X, rows.X[:30]), SHARP(rows.X[:30], rows.X[:30])
    expected = leave_one_out(K, K_DD, rows.targets, rows.weights, ridge, block)
    assert_allclose(predictions, expected, atol=1e-6)


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_forgetting_weighs_rows_by_their_age(cut):
    fitted, held = split(made_rows(75), 60)
    points = fitted.X[:15]
    part = GlobalPart(KERNEL, points, 2, forgetting=0.95)
    part.fix_ridge(1e-3)
    for start in range(0, 60, cut):
        part.learn(fitted[start : start + cut])
    part.solve(held)
    everything = Rows.joined([fitted, held])
    weights = everything.weights * exponential_weights(75, 0.95)
    expected = ridge_on_dictionary(
        KERNEL(everything.X, points), KERNEL(points, points), everything.targets, weights, 1e-3
    )
    assert_allclose(part.evaluate(held.X), KERNEL(held.X, points) @ expected, atol=1e-7)


def test_leave_one_out_forgets_too():
    rows = made_rows(30)
    part = GlobalPart(KERNEL, rows.X, 2, forgetting=0.9)
    part.fix_ridge(1e-3)
    predictions = part.solve_without(rows.discounted(0.9))
    K, weights = KERNEL(rows.X, rows.X), rows.weights * exponential_weights(30, 0.9)
    assert_allclose(predictions, leave_one_out(K, K, rows.targets, weights, 1e-3), atol=1e-6)


def test_forgetting_everything_of_long_ago_does_not_fail():
    fitted, held = split(made_rows(3000), 2900)
    part = GlobalPart(KERNEL, fitted.X[:10], 2, forgetting=0.5)
    part.learn(fitted)
    part.solve(held)
    assert np.isfinite(part.evaluate(held.X)).all()


@pytest.mark.parametrize("cut", [13, 100])
def test_rows_beyond_the_most_change_nothing(cut):
    fitted, held = split(made_rows(120), 100)
    limited = GlobalPart(KERNEL, fitted.X[:15], 2, max_rows=50)
    plain = GlobalPart(KERNEL, fitted.X[:15], 2)
    for start in range(0, 100, cut):
        limited.learn(fitted[start : start + cut])
    plain.learn(fitted[:50])
    assert_allclose(limited.solve(held), plain.solve(held), atol=1e-9)


def test_single_precision_is_close_to_double():
    fitted, held = split(made_rows(600), 500)
    values = []
    for dtype in (np.float32, np.float64):
        part = GlobalPart(KERNEL, fitted.X[:20].astype(dtype), 2)
        part.fix_ridge(1e-3)
        part.learn(Rows(fitted.X.astype(dtype), fitted.targets, fitted.weights))
        part.solve(Rows(held.X.astype(dtype), held.targets, held.weights))
        values.append(part.evaluate(held.X.astype(dtype)))
        assert part.basis.features(held.X).dtype == dtype
    # Products carry 1e-7 each; the smallest eigenvalue that counts is the ridge's.
    assert_allclose(values[0], values[1], atol=2e-3)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_a_newton_step_is_the_formula(dtype, atol):
    fitted, held = split(made_rows(200, 1), 160)
    points, loss = fitted.X[:20], Logistic()
    signs = Rows(fitted.X, np.sign(fitted.targets), fitted.weights)
    part = GlobalPart(KERNEL, points, 1, dtype=dtype)
    part.learn(signs)
    part.solve(Rows(held.X, np.sign(held.targets), held.weights))
    before, ridge = part.coefficients, RIDGES[part.ridge]

    Z = part.basis.features(signs.X)
    slopes = loss_and_slopes(loss, Z @ before, signs.targets)[1] / len(signs)
    part.step(Z.T @ slopes, part.curvature(), 0.7, 0.25)
    K, K_DD = KERNEL(fitted.X, points), KERNEL(points, points)
    A = (K * (fitted.weights / fitted.weights.sum())[:, None]).T @ K
    slope = -signs.targets / (1.0 + np.exp(signs.targets * (K @ before))) / len(signs)
    expected = newton_step(K, A, K_DD, before, slope, ridge, 0.7, 0.25)
    # Coefficients along flat directions are nobody's business: compare functions.
    assert_allclose(part.evaluate(held.X), KERNEL(held.X, points) @ expected, atol=atol)


def solved_for_classes(n, flip, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where((X[:, :1] * X[:, 1:] > 0) ^ (rng.random((n, 1)) < flip), 1.0, -1.0)
    rows = Rows(X, y, np.ones(n))
    part = GlobalPart(KERNEL, X[:100], 1)
    held = rows[int(0.8 * n) :]
    part.learn(rows[: int(0.8 * n)])
    part.solve(held)
    return part, rows, held


def at(rows, held):
    return GradientsOfRows(Logistic(), rows, len(held))


@pytest.mark.parametrize("weight", [2.0, 4.0, 12.0])
@pytest.mark.parametrize("batch", [50, 1024])
def test_refining_lowers_the_loss_of_rows_kept_back_or_leaves_the_solution(
    weight, batch, monkeypatch
):
    monkeypatch.setattr(default_learner, "_ROWS_AT_LEAST", batch)
    part, rows, held = solved_for_classes(3000, 0.0)
    ridge = Logistic().value(held.targets, weight * held_values(part, held)).mean()
    before = part.coefficients.copy()
    if refine([part], [weight], Logistic(), at(rows, held), held) is not None:
        assert mean_loss(Logistic(), part.evaluate(held.X), held) < ridge
    else:
        assert_array_equal(part.coefficients, weight * before)


def held_values(part, held):
    return part.kernel(held.X, part.dictionary) @ part.without_held


def test_many_short_steps_lower_the_loss_of_other_rows(monkeypatch):
    monkeypatch.setattr(default_learner, "_ROWS_AT_LEAST", 50)
    part, rows, held = solved_for_classes(3000, 0.0)
    test = solved_for_classes(3000, 0.0, seed=1)[1]
    scales = (2.0, 4.0, 8.0, 16.0)
    ridge = [Logistic().value(test.targets, s * part.evaluate(test.X)).mean() for s in scales]
    assert refine([part], [4.0], Logistic(), at(rows, held), held) is not None
    assert mean_loss(Logistic(), part.evaluate(test.X), test) < 0.9 * min(ridge)


def test_refining_that_does_not_help_leaves_the_solution(monkeypatch):
    part, rows, held = solved_for_classes(1500, 0.3)
    before = part.coefficients.copy()
    monkeypatch.setattr(default_learner, "_NOISY", (4.0, 40.0))  # steps far beyond the minimum
    assert refine([part], [2.0], Logistic(), at(rows, held), held) is None
    assert_array_equal(part.coefficients, 2.0 * before)


def test_the_default_keeps_a_bend_that_helps_more_than_steps():
    X, y = make_blobs(2100, n_features=4, centers=6, cluster_std=2.0, random_state=2)
    function = KernelClassifier(random_state=0).fit(X, y).learner_.function
    assert {part.form for _, part in function.used} == {"global", "trees"}  # so there are steps
    assert function.bend > 0.0  # steps leave a loss higher by a quarter


# -- cells ----------------------------------------------------------------------------------------

ANCHORS = np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.2]])
PARTITION = Partitioned(anchors=ANCHORS, length_scales=[0.7, 1.0, 1.3], constant=0.5)
TARGET_MAP = Affine([0.1, 0.0], [1.0, 1.1])


def cells_part(size=12, max_cells=0, forgetting=1.0, map=TARGET_MAP, n_outputs=2):
    return CellsPart(PARTITION, map, size, n_outputs, max_cells, forgetting)


def cell_oracle(fitted, held, size, new, partition=PARTITION, asked=(0, 1, 2)):
    """Fit every cell on its own; predictions of rows kept back and values at new rows.

    All have the ridge that is best for the rows kept back of some.
    """
    images, held_images, new_images = (TARGET_MAP(rows.X) for rows in (fitted, held, new))
    of_fitted, of_held, of_new = (partition.cells(A) for A in (images, held_images, new_images))
    n_outputs = fitted.targets.shape[1]
    paths = np.empty((len(CELL_RIDGES), len(held), n_outputs))
    kernels, points = [], []
    for c in range(partition.n_cells):
        base, mine = Gaussian(float(partition.length_scales[c])), of_fitted == c
        kernels.append(lambda A, D, base=base: base(A, D) + partition.constant)
        points.append(distinct_first(images[mine], size))
        k, D = kernels[c], points[c]
        values = ridge_path(
            k(images[mine], D),
            k(D, D),
            fitted.targets[mine],
            fitted.weights[mine],
            CELL_RIDGES,
            k(held_images[of_held == c], D),
        )
        seen = fitted.targets[mine]
        paths[:, of_held == c] = np.clip(values, seen.min(axis=0), seen.max(axis=0))
    errors = np.sum((paths - held.targets) ** 2, axis=2) * held.weights
    best = int(np.argmin(errors[:, np.isin(of_held, asked)].sum(axis=1)))
    values = np.empty((len(new), n_outputs))
    for c in range(partition.n_cells):
        mine = Rows.joined([fitted[of_fitted == c], held[of_held == c]])
        k, D = kernels[c], points[c]
        w = ridge_on_dictionary(
            k(TARGET_MAP(mine.X), D), k(D, D), mine.targets, mine.weights, CELL_RIDGES[best]
        )
        low, high = mine.targets.min(axis=0), mine.targets.max(axis=0)
        values[of_new == c] = np.clip(k(new_images[of_new == c], D) @ w, low, high)
    return paths[best], values


def test_cells_are_ridge_regressions_and_honest_about_rows_kept_back():
    fitted, held = split(made_rows(200, noise=0.5), 150)
    new = made_rows(100, seed=5)
    part = cells_part()
    part.learn(fitted)
    predictions, values = cell_oracle(fitted, held, 12, new)
    # A ridge of 1e-7 has normal equations of condition 1e7 and more.
    assert_allclose(part.solve(held), predictions, atol=1e-5)
    assert_allclose(part.evaluate(new.X), values, atol=1e-5)


def many_cells(n_rows, noisy, n_cells=128, seed=0):
    """Partition into distant cells, and rows that visit one after the other.

    ``noisy`` tells, of the number of a cell, whether its targets are mostly noise.
    """
    anchors = np.column_stack([np.arange(n_cells) * 4.0, np.zeros(n_cells)])
    partition = Partitioned(anchors=anchors, length_scales=np.full(n_cells, 0.5), constant=0.5)
    rng = np.random.default_rng(seed)
    of_row = np.arange(n_rows) % n_cells
    X = TARGET_MAP.shift + anchors[of_row] + rng.uniform(-1.5, 1.5, (n_rows, 2))
    noise = 2.0 * rng.standard_normal((n_rows, 2)) * noisy(of_row)[:, np.newaxis]
    return partition, Rows(X, np.sin(3.0 * X) + noise, np.ones(n_rows))


@pytest.mark.parametrize("noisy", [0, 1])
def test_of_many_cells_some_choose_the_ridge(noisy):
    partition, rows = many_cells(3840, lambda cell: cell % 2 == noisy)
    fitted, held, new = rows[:2560], rows[2560:3200], rows[3200:]
    part = CellsPart(partition, TARGET_MAP, 12, 2)
    part.learn(fitted)
    asked = np.linspace(0, 127, 64).astype(int)
    predictions, values = cell_oracle(fitted, held, 12, new, partition, asked)
    assert_allclose(part.solve(held), predictions, atol=1e-3)
    assert_allclose(part.evaluate(new.X), values, atol=1e-3)


# -- cells that keep their rows -------------------------------------------------------------------


def exact_oracle(part, fitted, held, new):
    """Fit to all rows of each cell with every ridge: the best for rows kept back, and new values.

    Returns predictions of the rows kept back without them, and values at new rows with them.
    """
    images = [TARGET_MAP(rows.X) for rows in (fitted, held, new)]
    of_fitted, of_held, of_new = (part.partition.cells(A) for A in images)
    cells = range(part.partition.n_cells)

    def exact(c, rows, A, ridge, B):
        base, constant = Gaussian(float(part.partition.length_scales[c])), part.partition.constant
        # With the penalty for all rows of the cell, also where some are kept back.
        weight = sum(
            some.weights[of == c].sum() for some, of in ((fitted, of_fitted), (held, of_held))
        )
        C = base(A, A) + constant + ridge * weight * np.diag(1.0 / rows.weights)
        values = (base(B, A) + constant) @ np.linalg.solve(C, rows.targets)
        return np.clip(values, rows.targets.min(axis=0), rows.targets.max(axis=0))

    paths = np.zeros((len(CELL_RIDGES), len(held), 2))
    for c in cells:
        mine = of_fitted == c
        for path, ridge in zip(paths, CELL_RIDGES, strict=True):
            path[of_held == c] = exact(
                c, fitted[mine], images[0][mine], ridge, images[1][of_held == c]
            )
    best = int(np.argmin(np.sum((paths - held.targets) ** 2, axis=2) @ held.weights))
    values = np.zeros((len(new), 2))
    for c in cells:
        mine = Rows.joined([fitted[of_fitted == c], held[of_held == c]])
        A = np.vstack([images[0][of_fitted == c], images[1][of_held == c]])
        values[of_new == c] = exact(c, mine, A, CELL_RIDGES[best], images[2][of_new == c])
    return paths[best], values


def left_out_oracle(part, rows):
    """Ridge with the least errors of rows, each predicted by a fit to all others of its cell."""
    images = TARGET_MAP(rows.X)
    of_row = part.partition.cells(images)
    errors = np.zeros(len(CELL_RIDGES))
    for c in range(part.partition.n_cells):
        A, y = images[of_row == c], rows.targets[of_row == c]
        K = Gaussian(float(part.partition.length_scales[c]))(A, A) + part.partition.constant
        for number, ridge in enumerate(CELL_RIDGES):
            inverse = np.linalg.inv(K + ridge * len(A) * np.eye(len(A)))
            values = y - inverse @ y / np.diag(inverse)[:, np.newaxis]
            errors[number] += np.sum((np.clip(values, y.min(axis=0), y.max(axis=0)) - y) ** 2)
    return CELL_RIDGES[np.argmin(errors)]


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_independent_rows_judge_ridges_by_all_of_them(seed, monkeypatch):
    """A few held out rows say little: here they are wrong and ask for the strongest ridge."""
    rng = np.random.default_rng(seed)
    partition = Partitioned(anchors=[[-4.0, 0.0], [4.0, 0.0]], length_scales=[1.0, 1.5])
    X = TARGET_MAP.shift + rng.normal(size=(200, 2)) * [4.0, 2.0]
    y = np.sin(X) + 0.1 * rng.normal(size=(200, 2))
    y[-6:] *= -1.0
    rows = Rows(X, y, np.ones(200))
    found, chosen, best = [], {}, CellsPart._best_ridge

    def noted(*given):
        found.append(best(*given))
        return found[-1]

    monkeypatch.setattr(CellsPart, "_best_ridge", noted)
    for name, groups in (("alone", None), ("in groups", np.arange(6)), ("in series", None)):
        part = CellsPart(partition, TARGET_MAP, 150, 2)
        part.alone = name != "in series"
        part.learn(rows[:-6])
        part.solve(replace(rows[-6:], groups=groups))
        chosen[name] = found[-1]
    assert chosen["alone"] == left_out_oracle(part, rows)
    assert chosen["in groups"] == chosen["in series"] > chosen["alone"]


def cut_where_split(part, fitted, held):
    """Whether each cell has rows of both kinds, as the oracle needs."""
    n = part.partition.n_cells
    return all(
        (np.bincount(part.partition.cells(TARGET_MAP(rows.X)), minlength=n) > 0).all()
        for rows in (fitted, held)
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 0.01)])
@pytest.mark.parametrize("max_cells", [0, 9])
def test_cells_that_keep_their_rows_are_exact(max_cells, dtype, tolerance):
    # Single precision behind ridges of 1e-5 and more: 6e-8 / 1e-5 of the targets.
    fitted, held = split(made_rows(400, noise=0.4), 300)
    new = made_rows(100, seed=5)
    keeps = 60 if max_cells else 400
    part = CellsPart(PARTITION, TARGET_MAP, 12, 2, max_cells, keeps=keeps, dtype=dtype)
    part.learn(fitted)
    assert part.dtype == dtype
    assert all(cell.is_filling for cell in part.cells)
    assert len(part.cells) == 3 if not max_cells else 3 < len(part.cells) <= 9
    assert cut_where_split(part, fitted, held)
    before = part.partition
    found = part.solve(held)
    # The ridge that is best of all is where going downhill ends, here.
    predictions, values = exact_oracle(part, fitted, held, new)
    assert_allclose(found, predictions, atol=tolerance)
    assert part.partition is before
    assert_allclose(part.evaluate(new.X), values, atol=tolerance)
    assert all(cell.function.points.dtype == dtype for cell in part.cells)


def test_cells_in_single_precision_predict_a_row_alike_whatever_is_beside_it():
    rows = made_rows(600, n_outputs=1, noise=1e-3)  # hardly any noise: coefficients are large
    part = CellsPart(PARTITION, TARGET_MAP, 30, 1, 0, keeps=10**4, dtype=np.float32)
    learned, held = split(rows, 500)
    part.learn(learned)
    part.solve(held)
    assert max(np.abs(cell.predictor.coefficients).sum() for cell in part.cells) > 1e4
    alone = np.concatenate([part.evaluate(held.X[i : i + 1]) for i in range(100)])
    assert_allclose(alone, part.evaluate(held.X), atol=1e-9)


def test_full_cells_are_split_and_no_row_is_lost():
    rows = made_rows(500)
    part = CellsPart(PARTITION, TARGET_MAP, 10, 2, 64, keeps=40)
    part.learn(rows)
    images = TARGET_MAP(rows.X)
    cells = part.partition.cells(images)
    for number, cell in enumerate(part.cells):
        mine = np.flatnonzero(cells == number)
        assert 10 <= len(cell.rows) < 40  # halves are a quarter of the rows at least
        assert cell.n_rows == len(cell.rows)
        order = [np.lexsort(X.T) for X in (images[mine], cell.rows.X)]
        assert_array_equal(images[mine][order[0]], cell.rows.X[order[1]])
        assert_array_equal(rows.targets[mine][order[0]], cell.rows.targets[order[1]])
        assert part.partition.length_scales[number] in PARTITION.length_scales
    assert sum(len(cell.rows) for cell in part.cells) == 500


def test_where_there_may_be_no_more_cells_sums_take_the_place_of_rows():
    rows = made_rows(600)
    part = CellsPart(PARTITION, TARGET_MAP, 10, 2, 8, keeps=40)
    part.learn(rows[:500])
    assert len(part.cells) == 8
    assert all(cell.n_rows >= 40 or cell.is_filling for cell in part.cells)
    frozen = [cell for cell in part.cells if not cell.is_filling]
    assert frozen
    assert all(cell.statistics.n_rows == cell.n_rows for cell in frozen)
    before = sum(len(cell.rows) for cell in part.cells if cell.is_filling)
    part.learn(rows[500:])
    assert len(part.cells) == 8
    assert sum(cell.function.size for cell in part.cells if not cell.is_filling) <= 80
    assert before < 8 * 40
    assert np.isfinite(part.solve(rows[:20])).all()


def test_halves_of_a_cell_predict_as_it_did_until_they_are_solved():
    rows = made_rows(300)
    part = CellsPart(PARTITION, TARGET_MAP, 10, 2, 64, keeps=120)
    part.learn(rows[:60])
    part.solve(rows[:20])
    before = part.evaluate(rows.X)
    part.learn(rows)
    assert len(part.cells) > 3
    assert_array_equal(part.evaluate(rows.X), before)
    part.solve(rows[:20])
    assert np.abs(part.evaluate(rows.X) - before).max() > 1e-3


@pytest.mark.parametrize("repeated", [True, False])
def test_many_rows_kept_back_in_one_cell_are_no_points(repeated):
    rng = np.random.default_rng(0)
    near = ANCHORS[0] + 0.3 * rng.normal(size=(9 if repeated else 300, 2))
    X = near[rng.integers(0, len(near), 300)] if repeated else near
    rows = Rows(X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(300, 1)), np.ones(300))
    fitted, held = split(rows, 30)
    part, exact = (CellsPart(PARTITION, None, 20, 1, 0, keeps=n) for n in (40, 10**4))
    for one in (part, exact):
        one.fix_ridge(1e-3)
        one.learn(fitted)
    # The penalty is of the 30 rows alone, or of all.
    assert np.sqrt(np.mean((part.solve(held) - exact.solve(held)) ** 2)) < 0.1
    assert part.cells[0].function.size == (9 if repeated else 40)
    assert part.cells[0].is_filling
    # They are learned all the same: by sums, or as one row for all that are equal.
    assert_allclose(part.evaluate(X), exact.evaluate(X), atol=1e-6 if repeated else 0.1)


@pytest.mark.parametrize("cut", [7, 40, 200])
def test_rows_that_repeat_count_once_with_all_their_weight(cut):
    rng = np.random.default_rng(0)
    X = rng.choice(ANCHORS[0] + 0.3 * rng.normal(size=(12, 2)), 200)
    rows = Rows(X, X[:, :1] + 0.1 * rng.normal(size=(200, 1)), rng.uniform(0.5, 2.0, 200))
    held = Rows(X[:20], X[:20, :1], np.ones(20))
    every, once = (CellsPart(PARTITION, None, 8, 1, 0, keeps=n) for n in (500, 20))
    for part in (every, once):
        part.fix_ridge(1e-3)
        for start in range(0, 200, cut):
            part.learn(rows[start : start + cut])
    assert once.cells[0].is_filling
    assert len(once.cells[0].rows) < 20
    assert once.cells[0].n_rows == 200
    assert once.cells[0].rows.weights.sum() == pytest.approx(rows.weights.sum())
    # Ridges are penalties for each row, of which there are fewer: that of the norm is the same.
    assert_allclose(once.solve(held), every.solve(held), atol=1e-8)
    assert_allclose(once.evaluate(X), every.evaluate(X), atol=1e-8)


def test_cells_choose_in_units_of_the_targets():
    fitted, held = split(made_rows(240, noise=0.01), 180)
    noise = 3.0 * np.random.default_rng(1).standard_normal(240)

    def solved(factor, unit):
        part = cells_part(size=60)
        part.unit = np.array([1.0, unit])
        changed = []
        for rows, some in ((fitted, noise[:180]), (held, noise[180:])):
            changed.append(replace(rows, targets=rows.targets.copy()))
            changed[-1].targets[:, 1] = factor * (rows.targets[:, 1] + some)
        part.learn(changed[0])
        return part.solve(changed[1]) / [1.0, factor]

    expected = solved(1e-3, 1.0)
    assert_allclose(solved(1.0, 1e3), expected, atol=1e-5)
    assert np.abs(solved(1.0, 1.0) - expected).max() > 1e-2


def test_cells_choose_by_rows_that_are_not_forgotten():
    fitted, held = split(made_rows(300, noise=0.05), 200)
    noise = np.where(np.arange(100) < 60, 9.0, 0.0) * np.random.default_rng(0).standard_normal(100)
    changed = replace(held, targets=held.targets + noise[:, np.newaxis])
    for forgetting in (0.7, 1.0):
        plain, noisy = (cells_part(60, forgetting=forgetting) for _ in range(2))
        for part in (plain, noisy):
            part.learn(fitted)
        same = np.array_equal(plain.solve(held), noisy.solve(changed))
        assert same == (forgetting < 1.0)


@settings(max_examples=12, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 240), max_size=6),
    seed=st.integers(0, 100),
    max_cells=st.sampled_from([0, 4, 9]),
    forgetting=st.sampled_from([1.0, 0.98]),
    values=st.sampled_from([0, 3, 9]),  # of each input; 0 for real numbers
)
def test_cutting_the_rows_differently_makes_the_same_cells(
    cuts, seed, max_cells, forgetting, values
):
    rows = made_rows(240, seed=seed)
    if values:
        rows = Rows(np.round(rows.X * (values - 1) / 4.0), rows.targets, rows.weights)
    fitted, held = split(rows, 200)
    whole, pieces = (cells_part(6, max_cells, forgetting) for _ in range(2))
    whole.learn(fitted)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 200], strict=True):
        pieces.learn(fitted[min(start, 200) : stop])
        if start % 3 == 0 and start:
            pieces.solve(held)  # questions change nothing
    assert len(pieces.cells) == len(whole.cells)
    assert_allclose(pieces.solve(held), whole.solve(held), atol=1e-5)
    assert_array_equal(pieces.dictionary, whole.dictionary)
    assert_allclose(pieces.evaluate(held.X), whole.evaluate(held.X), atol=1e-5)


def test_a_cell_that_fills_up_goes_on_predicting():
    rows = made_rows(300)
    part = cells_part(size=60)
    part.learn(rows[:40])
    part.solve(rows[40:60])
    before = part.evaluate(rows.X)
    assert all(cell.is_filling for cell in part.cells)
    part.learn(rows[40:])  # full now, but not solved again
    assert not any(cell.is_filling for cell in part.cells)
    assert_allclose(part.evaluate(rows.X), before, atol=1e-12)


def test_a_cell_without_rows_predicts_what_is_usual():
    rows = made_rows(200)
    rows = Rows(rows.X, 0.1 * rows.targets + 1000.0, rows.weights)
    third = PARTITION.cells(TARGET_MAP(rows.X)) == 2
    part = cells_part()
    part.learn(rows[~third])
    held = rows[:10]
    part.solve(held[~third[:10]])
    inside = part.evaluate(TARGET_MAP.shift + np.array([[0.0, 1.2 / 1.1]]))
    assert_allclose(inside, 1000.0, atol=3.0)
    # Its first rows may all be among those kept back.
    few = rows[np.flatnonzero(third)[:3]]
    predictions = part.solve(few)
    assert_allclose(predictions, 1000.0, atol=3.0)
    assert_allclose(part.evaluate(few.X), 1000.0, atol=3.0)


@pytest.mark.parametrize("size", [12, 200])
def test_a_cell_without_rows_predicts_the_weighted_mean(size):
    rows = made_rows(200)
    first = PARTITION.cells(TARGET_MAP(rows.X)) == 0
    rows = rows[first]
    part = cells_part(size)
    part.learn(rows)
    assert part.cells[0].is_filling == (size == 200)
    part.solve(rows[:0])
    mean = np.average(rows.targets, axis=0, weights=rows.weights)
    assert_allclose(part.cells[1].evaluate(ANCHORS[[1]])[0], mean, rtol=1e-12)


def test_points_too_near_to_be_divided_stay_in_one_cell():
    X = np.ones((300, 2)) + np.arange(300)[:, None] * 1e-18  # all the same after rounding
    X[::2] = np.nextafter(1.0, 2.0)
    part = cells_part(size=10, max_cells=9, n_outputs=1)
    part.learn(Rows(X, np.ones((300, 1)), np.ones(300)))
    part.solve(Rows(X[:10], np.ones((10, 1)), np.ones(10)))
    assert_allclose(part.evaluate(X), 1.0, atol=1e-3)


def test_predictions_stay_within_the_targets_of_their_cell():
    fitted, held = split(made_rows(150), 120)
    part = cells_part(size=30)
    part.fix_ridge(1e-12)
    part.learn(fitted)
    part.solve(held)
    far = np.random.default_rng(0).uniform(-30.0, 30.0, (500, 2))
    of_far, of_rows = (PARTITION.cells(TARGET_MAP(A)) for A in (far, made_rows(150).X))
    values, targets = part.evaluate(far), made_rows(150).targets
    for c in range(3):
        assert (values[of_far == c] >= targets[of_rows == c].min(axis=0)).all()
        assert (values[of_far == c] <= targets[of_rows == c].max(axis=0)).all()


@pytest.mark.parametrize("map", [TARGET_MAP, None], ids=["mapped", "plain"])
@pytest.mark.parametrize("form", ["global", "cells"])
def test_a_fitted_part_is_its_kernel_times_its_coefficients(form, map):
    rows = made_rows(200)
    rows = Rows(rows.X, 0.1 * rows.targets, rows.weights)
    if form == "cells":
        part = cells_part(map=map)
    else:
        kernel = Gaussian(0.8)
        part = GlobalPart(kernel if map is None else Mapped(kernel, map), rows.X[:20], 2)
    part.learn(rows[:150])
    # As if there were targets far away: nothing is cut.
    for cell in getattr(part, "cells", []):
        cell.range = np.array([[-9.0, -9.0], [9.0, 9.0]])
    part.solve(rows[150:])
    fitted = FittedPart.of(0.6, part)
    values = (
        fitted.weight * fitted.kernel(fitted.map(rows.X), fitted.dictionary) @ (fitted.coefficients)
    )
    assert_allclose(values, 0.6 * part.evaluate(rows.X), atol=1e-9)
    assert_allclose(fitted.evaluate(rows.X), 0.6 * part.evaluate(rows.X), atol=1e-12)
    assert fitted.form == form


def test_the_mean_of_two_partitions_errs_less_than_they_do():
    rows, test = made_rows(1500, 1, noise=0.3), made_rows(1500, 1, noise=0.0)
    assert_array_equal(rows.X, test.X)
    errors, values = [], []
    for seed in range(2):
        partition = Partitioned.fitted(rows.X, 12, multiple=0.5, seed=seed)
        part = CellsPart(partition, None, 40, 1)
        part.learn(rows[:1200])
        part.solve(rows[1200:])
        values.append(part.evaluate(test.X))
        errors.append(np.mean((values[-1] - test.targets) ** 2))
    assert np.mean((np.mean(values, axis=0) - test.targets) ** 2) < 0.95 * np.mean(errors)


@pytest.mark.parametrize("n", [15, 60, 300])
@pytest.mark.parametrize("form", ["global", "cells", "splitting cells"])
def test_a_part_from_its_state_goes_on_bit_for_bit(form, n):
    rows = made_rows(400)
    if form == "global":
        part = GlobalPart(KERNEL, rows.X[:20], 2, 0.99)
    else:
        part = cells_part(8, 9 if form == "splitting cells" else 0, 0.99)
    part.learn(rows[:n])
    part.solve(rows[300:320])
    part.learn(rows[n : n + 30])  # not solved since
    twin = component_from_state(component_to_state(part, sums=True), 2, 2)
    assert_array_equal(part.evaluate(rows.X), twin.evaluate(rows.X))
    for one in (part, twin):
        one.learn(rows[330:380])
        one.solve(rows[380:])
    assert_array_equal(part.evaluate(rows.X), twin.evaluate(rows.X))
    compact = component_from_state(component_to_state(part, sums=False), 2, 2)
    assert_array_equal(part.evaluate(rows.X), compact.evaluate(rows.X))


@pytest.mark.parametrize("form", ["global", "cells"])
def test_new_classes_are_as_if_they_had_been_known(form):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)

    def codes(n_classes, shift):
        made = np.full((200, n_classes), -1.0)
        made[np.arange(200), labels + shift] = 1.0
        return made

    first, second = codes(2, 0), codes(3, 1)  # the new class sorts before the old ones
    matrix = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    offset = np.array([-1.0, 0.0, 0.0])
    values = []
    for early in (False, True):
        n_outputs = 3 if early else 2
        part = (
            GlobalPart(KERNEL, X[:15], n_outputs)
            if form == "global"
            else cells_part(8, n_outputs=n_outputs)
        )
        part.fix_ridge(1e-3)
        part.learn(Rows(X[:80], (second if early else first)[:80], np.ones(80)))
        if not early:
            part.map_targets(matrix, offset)
        for cell in getattr(part, "cells", []):
            ends = np.sort(cell.range, axis=0)
            assert_array_equal(ends, [[-1.0] * 3, [-1.0, 1.0, 1.0]])
        part.learn(Rows(X[80:150], second[80:150], np.ones(70)))
        predictions = part.solve(Rows(X[150:], second[150:], np.ones(50)))
        values.append(np.vstack([predictions, part.evaluate(X)]))
    assert_allclose(values[0], values[1], atol=1e-8)
    # Nobody has been of the new class.
    assert values[0][:, 0].max() < 0.0


# -- weights --------------------------------------------------------------------------------------


def made_predictions(n, n_outputs, seed, signs=False):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_outputs))
    codes = np.where(truth > 0, 1.0, -1.0) if signs else truth + 3.0
    kinds = [codes + 0.7 * rng.normal(size=codes.shape) for _ in range(3)]
    if signs:
        kinds = [1.5 * truth + rng.normal(size=truth.shape) for _ in range(3)]
    kinds[2] = kinds[2] - 0.8 * codes  # hardly any use
    return kinds, codes, rng.uniform(0.2, 3.0, n)


def without_the_least(expected, predictions, codes, weights, loss):
    """Weights, or those of the others if one has less than a twentieth, but for what is 0."""
    expected = np.where(expected < 1e-6 * expected.sum(), 0.0, expected)
    least = expected[expected > 0.0].min()
    if least >= 0.05 * expected.sum():
        return expected
    others = np.flatnonzero(expected > least)
    found = np.zeros_like(expected)
    found[others] = stack([predictions[part] for part in others], codes, weights, loss)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [2, 15, 300])
def test_weights_for_numbers_are_non_negative_least_squares(n, seed):
    predictions, targets, weights = made_predictions(n, 2, seed)
    v = stack(predictions, targets, weights, Squared())
    expected = best_squared_weights(predictions, targets, weights, PRIOR)
    if expected.sum() > 1.0:
        expected = best_squared_weights(predictions, targets, weights, PRIOR, total=1.0)
    assert (v >= 0.0).all()
    assert_allclose(
        v, without_the_least(expected, predictions, targets, weights, Squared()), atol=1e-5
    )


def test_parts_that_are_dropped_leave_their_weight_to_the_others():
    rng = np.random.default_rng(0)
    y = 100.0 + rng.normal(size=(400, 1))
    good, bad = y + 1e-3 * rng.normal(size=y.shape), y + 0.02 * rng.normal(size=y.shape)
    v = stack([good, bad], y, np.ones(400), Squared())
    assert v[1] == 0.0  # less than a twentieth
    assert abs(v[0] - 1.0) < 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [3, 200])
def test_weights_for_classes_minimise_the_loss(n, seed):
    predictions, codes, weights = made_predictions(n, 1, seed, signs=True)
    v = stack(predictions, codes, weights, Logistic())
    expected = best_log_loss_weights(predictions, codes, weights, CLASS_PRIOR)
    assert (v >= 0.0).all()
    kept = without_the_least(expected, predictions, codes, weights, Logistic())
    assert_allclose(v, kept, atol=2e-3 * expected.sum())


@pytest.mark.parametrize("loss", [Hinge(), Softmax(), Logistic()])
def test_no_weights_on_a_grid_are_better(loss):
    n_outputs = 3 if loss.multiclass else 1
    rng = np.random.default_rng(0)
    truth = 2.0 * rng.normal(size=(200, n_outputs))
    codes = np.where(truth > 0, 1.0, -1.0)
    targets = codes
    if loss.multiclass:
        targets = truth.argmax(axis=1).astype(float)[:, None]
        codes = np.where(np.arange(3) == targets, 1.0, -1.0)
    predictions = [truth + rng.normal(size=truth.shape) for _ in range(2)]

    def mean_loss_of(v):
        return loss.value(targets, v[0] * predictions[0] + v[1] * predictions[1]).mean()

    v = stack(predictions, codes, np.ones(200), loss)
    grid = np.linspace(0.0, 4.0, 41)
    best = min(mean_loss_of((a, b)) for a in grid for b in grid)
    assert mean_loss_of(v) <= best + 2e-3


def test_a_useless_part_gets_no_weight_and_zeros_share_it():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(500, 1))
    v = stack([y, -y], y, np.ones(500), Squared())
    assert_allclose(v, [1.0, 0.0], atol=5e-3)
    assert v[1] == 0.0
    assert_allclose(stack([0 * y, 0 * y], 0 * y, np.ones(500), Squared()), 0.5)


def test_a_few_rows_are_not_believed_too_much():
    tiny = [np.array([[1e-9]])]
    assert_allclose(stack(tiny, np.array([[1.0]]), np.ones(1), Squared()), 1.0, atol=1e-6)
    right = np.array([[1.0], [-1.0], [1.0]])
    assert stack([right], right, np.ones(3), Logistic())[0] < 4.0
    many = np.tile(right, (1000, 1))
    assert stack([many], many, np.ones(3000), Logistic())[0] > 6.0


# -- calibrated scores ----------------------------------------------------------------------------


def noisy_in_places(n, seed=0):
    """Class codes of which a third are drawn by chance, and what least squares finds: 2 p - 1."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.02, 0.4, 0.6, 0.98], n)
    codes = np.where(rng.random(n) < p, 1.0, -1.0)[:, np.newaxis]
    return (2.0 * p - 1.0)[:, np.newaxis], codes


def bent(values, factor, bend):
    return factor * values + bend * (factor * values) ** 3


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_scores_are_calibrated_where_labels_are_noisy_and_where_they_are_clean(scale):
    values, codes = noisy_in_places(20_000)
    factor, bend = calibrate(scale * values, codes, np.ones(20_000), Logistic())
    scores = bent(scale * np.array([0.2, 0.96]), factor, bend)
    # Of p = .6 and .98, but for what chance leaves: 5,000 labels each.
    assert_allclose(scores, np.log([0.6 / 0.4, 0.98 / 0.02]), atol=0.15)


@pytest.mark.parametrize("loss", [Logistic(), Softmax()])
def test_no_factor_and_bend_on_a_grid_are_better(loss):
    rng = np.random.default_rng(1)
    n, n_outputs = 300, 3 if loss.multiclass else 1
    truth = rng.normal(size=(n, n_outputs))
    targets = truth.argmax(axis=1)[:, None] if loss.multiclass else np.sign(truth)
    codes = np.where(np.arange(3) == targets, 1.0, -1.0) if loss.multiclass else targets
    values, weights = truth + 0.3 * rng.normal(size=truth.shape), rng.uniform(0.5, 2.0, n)
    share = weights / weights.sum()
    size = np.sqrt(share @ np.mean(values**2, axis=1))

    def cost(factor, bend):
        prior = (share @ share) * ((factor - 1.0) ** 2 + (bend * factor**3 * size**2) ** 2)
        return share @ loss.value(targets.astype(float), bent(values, factor, bend)) + prior

    found = cost(*calibrate(values, codes, weights, loss))
    grid = np.linspace(0.1, 6.0, 60), np.linspace(0.0, 1.0, 51)
    assert found <= min(cost(a, b) for a in grid[0] for b in grid[1]) + 1e-6


def test_a_few_scores_or_none_are_hardly_calibrated():
    right = np.array([[1.0], [-1.0]])
    factor, bend = calibrate(right, right, np.ones(2), Logistic())
    assert factor + bend < 2.0
    assert calibrate(0.0 * right, right, np.ones(2), Logistic()) == (1.0, 0.0)


def test_several_parts_are_refined_together(monkeypatch):
    monkeypatch.setattr(default_learner, "_ROWS_AT_LEAST", 50)
    part, rows, held = solved_for_classes(3000, 0.0)
    trees = TreesPart.grown(rows[:2400])
    trees.learn(rows[:2400])
    trees.solve(held)
    parts, weights = [part, trees], [1.5, 2.0]
    test = solved_for_classes(3000, 0.0, seed=1)[1]

    def loss_of(values):
        return mean_loss(Logistic(), values, test)

    before = [w * one.evaluate(test.X) for w, one in zip(weights, parts, strict=True)]
    assert refine(parts, weights, Logistic(), at(rows, held), held) is not None
    after = [one.evaluate(test.X) for one in parts]
    assert loss_of(sum(after)) < loss_of(sum(before))
    for own, other, old in ((0, 1, before), (1, 0, before)):  # both have moved
        assert not np.allclose(after[own], old[own])
        assert loss_of(after[own] + old[other]) < loss_of(sum(before)) + 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e35, 1e-42])
@pytest.mark.parametrize("n_values", [1, 2, 3, 1000])
def test_rows_that_repeat_are_found(n_values, scale, dtype):
    rng = np.random.default_rng(n_values)
    X = (scale * rng.integers(-n_values, n_values, (90, 3))).astype(dtype)
    X[X == 0.0] *= rng.choice([-1.0, 1.0], (X == 0.0).sum())  # signs of zeros do not count
    seen, first = {}, []
    for i, x in enumerate(X):
        first.append(seen.setdefault(tuple(x.tolist()), i))
    expected = sorted(seen.values())
    assert_array_equal(distinct_rows(X), expected)
    rows = Rows(X, rng.normal(size=(90, 2)), rng.uniform(0.5, 2.0, 90))
    merged = rows.without_repeats()
    assert_array_equal(merged.X, X[expected])
    for i, weight, target in zip(expected, merged.weights, merged.targets, strict=True):
        mine = np.equal(first, i)
        assert_allclose(weight, rows.weights[mine].sum())
        assert_allclose(target, np.average(rows.targets[mine], 0, rows.weights[mine]))


def test_whole_numbers_are_rows_too():
    assert_array_equal(distinct_rows(np.array([[1, 2], [1, 2], [3, 4]])), [0, 2])
    assert_array_equal(distinct_rows(np.array([[True], [False], [True]])), [0, 1])


def test_rows_of_another_width_have_no_cell():
    X = made_rows(60).X
    part = CellsPart(Partitioned.balanced(X, 3, kernel=Gaussian(0.8)), None, 20, 1)
    for wrong in (X[:, :1], np.hstack([X, X])):
        with pytest.raises(ValueError, match="The anchors have"):
            part.place(wrong)


@pytest.mark.parametrize("seed", [5, 94, 200, 311])
def test_cells_of_rows_that_hardly_differ_are_split_or_frozen(seed):
    rng = np.random.default_rng(seed)
    X = np.unique(1e15 + rng.integers(0, 2, (60, 6)) * np.spacing(1e15), axis=0)
    rng.shuffle(X)
    kernel = Partitioned(Gaussian(1.0), X[:1], length_scales=[1.0])
    part = CellsPart(kernel, None, len(X), 1, max_cells=9)
    for _ in range(6):
        part.learn(Rows(X, np.zeros((len(X), 1)), np.ones(len(X))))
    assert all(cell.rows is None or len(cell.rows) < part.keeps for cell in part.cells)
