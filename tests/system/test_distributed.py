"""Learning in several places: the same model from any cut of the work, and nothing lost."""

import hashlib
import pickle
from functools import partial, reduce

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone

from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    load_model,
)
from mercer.columns import TablePreprocessor
from mercer.default import DefaultLearner
from mercer.default.learner import GradientsElsewhere
from mercer.exceptions import ParameterError, ShardError
from mercer.expansions import Auto, Dictionary, RandomFeatures
from mercer.gaussian_process import InducingPoints
from mercer.inspection import unit_of_target
from mercer.kernels import Gaussian, Partitioned
from mercer.losses import Huber, Softmax
from mercer.numerics.dense import LEAST_JITTER
from mercer.sums import CellsPart, KernelBasis
from mercer.sums import cells as cells_module
from mercer.sums.cells import CELL_RIDGES
from mercer_cluster import Plan, Region, Settings, content_keys, fit, predict, row_keys
from mercer_cluster.engines import HereEngine
from mercer_cluster.plan import Sums, Totals
from mercer_cluster.shards import ArrayReader, Survey
from oracles_second_order import ridge_on_dictionary
from quick import FEW_POINTS, QUICK

pytestmark = pytest.mark.usefixtures("quickest_race", "short_correction")

#: A sample of 800 rows, and regions of some hundred.
SMALL = Settings(
    sample=800, least_sample=100, held=200, region_rows=300, shared=5, judging=0.1, chunk=350
)
#: The same, of which no cells by sums are tried.
ROWS_KEPT = SMALL._replace(rows_per_point=())
N, N_SHARDS = 2400, 4
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 4))
WAVE = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=N)
TWO = np.column_stack([WAVE, X[:, 2] * X[:, 1]])
CLASSES = np.array(["low", "mid", "top"])[np.digitize(WAVE, [-0.5, 0.5])]
X_TEST = RNG.uniform(-1, 1, (300, 4))
TRUTH = np.sin(4 * X_TEST[:, 0]) + X_TEST[:, 1]
TWO_TRUTH = np.column_stack([TRUTH, X_TEST[:, 2] * X_TEST[:, 1]])


def cut(*arrays, n=N_SHARDS):
    return [tuple(part) for part in zip(*(np.array_split(a, n) for a in arrays), strict=True)]


def here(estimator, shards, **kwargs):
    return fit(estimator, shards, engine="here", settings=SMALL, **kwargs)


def hash_of(model):
    said = [model.predict(X_TEST)]
    if hasattr(model, "predict_proba"):
        said.append(model.predict_proba(X_TEST))
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in said)).hexdigest()


def planned(estimator, y, *, weights=None, settings=SMALL):
    """A plan for all rows, of which the last 200 are held back."""
    sample = (X[:800], y[:800]) if weights is None else (X[:800], y[:800], weights[:800])
    held = (X[-200:], y[-200:])
    counts = None
    if y.dtype.kind == "U":
        counts = dict(zip(*map(np.ndarray.tolist, np.unique(y, return_counts=True)), strict=True))
    return Plan.of(estimator, sample, held, N, class_counts=counts, settings=settings)


MODELS = {
    "numbers": (KernelRegressor(random_state=0), WAVE),
    "several numbers": (KernelRegressor(random_state=0), TWO),
    "classes": (KernelClassifier(random_state=0), CLASSES),
    "quantiles": (KernelRegressor("quantile", random_state=0), WAVE),
    "counts": (KernelRegressor("poisson", random_state=0), np.round(np.exp(WAVE))),
    "risk": (KernelClassifier(risk="cvar:0.9", random_state=0), CLASSES),
    "sums in cells": (KernelRegressor(expansion=Auto(max_memory=2**20), random_state=0), WAVE),
    "dictionary": (KernelRegressor(expansion=Dictionary(100), random_state=0), WAVE),
    "features": (
        KernelRegressor(kernel=Gaussian(1.0), expansion=RandomFeatures(100, mode="solve")),
        TWO,
    ),
    "process": (GaussianProcessRegressor(Gaussian(1.0), n_features=100, random_state=0), WAVE),
    "inducing points": (
        GaussianProcessRegressor(Gaussian(1.0), method=InducingPoints(80), random_state=0),
        WAVE,
    ),
    "steps on a dictionary": (
        KernelRegressor("huber", kernel=Gaussian(1.0), expansion=Dictionary(100), random_state=0),
        WAVE,
    ),
    "steps for classes": (KernelClassifier(expansion=Dictionary(100), random_state=0), CLASSES),
    "steps from nothing": (
        KernelRegressor("poisson", kernel=Gaussian(1.0), expansion=Dictionary(100), random_state=0),
        np.round(np.exp(WAVE)),
    ),
    # Of two passes over the rows.
    "blocks": (
        KernelRegressor(kernel=Gaussian(1.0), expansion=RandomFeatures(64, min_steps=18)),
        TWO,
    ),
    "blocks for classes": (
        KernelClassifier(kernel=Gaussian(1.0), expansion=RandomFeatures(64, min_steps=18)),
        CLASSES,
    ),
    "blocks in turns": (
        KernelRegressor(
            "huber",
            kernel=Gaussian(1.0),
            expansion=RandomFeatures(64, mode="cyclic", max_blocks=4, min_steps=18),
        ),
        WAVE,
    ),
    "partition of one's own": (
        KernelRegressor(kernel=Partitioned(Gaussian(0.5), 6), random_state=0),
        WAVE,
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    """Each model, for all tests of it one after the other: they share its plan and its sums."""
    return MODELS[request.param]


def of(*names):
    """Run a test with some of the models."""
    return pytest.mark.parametrize("case", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def plan(case):
    return pickle.loads(pickle.dumps(planned(*case)))


@pytest.fixture(scope="module")
def several(case, plan):
    """The sums of four shards."""
    return [plan.add(X[i : i + 550], case[1][i : i + 550], shard=i) for i in range(0, N - 200, 550)]


@pytest.fixture(scope="module")
def ahead(several):
    return reduce(Sums.merge, several)


@pytest.fixture(scope="module")
def model(plan, ahead):
    return plan.finish(ahead)


@pytest.fixture(scope="module")
def regions(plan, ahead):
    """Regions that are solved elsewhere."""
    blocks, work = ahead.split(), pickle.loads(pickle.dumps(plan.work))

    def solve(pairs):
        found = [work.solve(*pair, [blocks[pair[0]]]) for pair in pairs]
        return pickle.loads(pickle.dumps(found))

    return work.regions.solved(solve)


def test_the_model_is_as_good_as_that_of_fit(case, model):
    estimator, y = case
    whole = clone(estimator).fit(X, y)
    expected = whole.predict(X_TEST)
    if y.dtype.kind == "U":
        right = np.array(["low", "mid", "top"])[np.digitize(TRUTH, [-0.5, 0.5])]
        # Of 300 rows; the standard error of the difference is about .015.
        assert np.mean(model.predict(X_TEST) != right) < np.mean(expected != right) + 0.05
    else:
        truth = TRUTH if y is WAVE else TWO_TRUTH if y is TWO else np.exp(TRUTH)
        errors = [np.mean((found - truth) ** 2) for found in (model.predict(X_TEST), expected)]
        # The sample has a third of the rows, and fewer are held back.
        assert errors[0] < 2 * errors[1] + 0.005 * np.var(truth), errors
    assert model.get_params().keys() == estimator.get_params().keys()
    assert not hasattr(estimator, "learner_")


def test_merging_in_any_order_gives_the_same_cells(case, plan, several, ahead, model):
    back = plan.finish(reduce(Sums.merge, several[::-1]))
    if ahead.summands:  # additions are rounded
        y = case[1]
        ask = "predict_proba" if y is CLASSES else "predict"
        found = getattr(model, ask)(X_TEST), getattr(back, ask)(X_TEST)
        # A risk's correction descends on the values, which makes more of last bits.
        assert_allclose(*found, rtol=0, atol=0.02 if len(ahead.summands) and y is CLASSES else 1e-3)
    else:
        assert hash_of(model) == hash_of(back)


def test_regions_may_be_solved_anywhere(plan, ahead, model, regions):
    *blocks, rest = ahead.split()
    work = pickle.loads(pickle.dumps(plan.work))

    def gather(step, ask, of):
        ask, of = pickle.loads(pickle.dumps((ask, of)))
        return [work.total(step, [blocks[step]], ask, of)]

    # The first model has changed nothing.
    assert hash_of(plan.finish(rest, regions, gather)) == hash_of(model)


def test_every_row_is_learned_once(plan, ahead, regions):
    n_partitions = len(plan.work.regions.partitions)
    assert sum(region.n_rows for region in regions) == n_partitions * (N - 200)
    held = np.sort(np.concatenate([[], *(region.numbers for region in regions)]))
    assert_array_equal(held, np.repeat(np.arange(200), n_partitions))
    for one in ahead.summands.values():
        assert one.n_rows == N - 200


@of("numbers", "classes", "risk", "dictionary", "process", "steps for classes", "blocks")
def test_two_models_of_one_plan_are_two(plan, several, model):
    before = pickle.dumps(model)
    with pytest.warns(UserWarning, match="rows were added"):
        half = plan.finish(several[0].merge(several[1]))
    assert pickle.dumps(model) == before
    assert hash_of(half) != hash_of(model)


#: Models whose rows are added in the order of the shards, and how far that may move them.
ROUNDED = {
    **dict.fromkeys(("dictionary", "process", "inducing points"), 1e-3),
    **dict.fromkeys(("steps on a dictionary", "steps for classes", "steps from nothing"), 1e-3),
    **dict.fromkeys(("features", "blocks", "blocks for classes", "blocks in turns"), 3e-2),
    **dict.fromkeys(("numbers", "sums in cells"), 1e-12),  # the level, by the mean of the targets
}


@pytest.mark.parametrize("name", MODELS)
def test_another_cut_of_the_rows_gives_the_same_model(name, monkeypatch):
    # What is no cell learns from the sample alone.
    few = FEW_POINTS.allocation._replace(enough=2, enough_for_steps=2)
    monkeypatch.setattr(DefaultLearner, "settings", QUICK._replace(allocation=few))
    estimator, y = MODELS[name]
    expected = here(estimator, cut(X, y))
    order = np.random.default_rng(1).permutation(N)
    other = here(estimator, cut(X[order], y[order], n=7))
    if name in ROUNDED:
        # Sums are rounded, those of random features in single precision; solving enlarges that.
        ask = "predict_proba" if y is CLASSES else "predict"
        found, right = (getattr(model, ask)(X_TEST) for model in (other, expected))
        assert_allclose(found, right, atol=ROUNDED[name] * np.std(right))
    else:
        assert hash_of(other) == hash_of(expected)


def test_equal_rows_are_drawn_one_by_one(rng):
    codes = np.repeat(np.arange(12), N // 12)[rng.permutation(N)]
    few = np.column_stack([codes % 3, codes % 4]).astype(float)
    y = few[:, 0] - few[:, 1] ** 2
    model = here(KernelRegressor(random_state=0), cut(few, y))
    assert_allclose(model.predict(few[:50]), y[:50], atol=0.05)
    assert model.learner_.n_rows == N


@pytest.mark.parametrize(
    ("dtype", "ridges", "atol"),
    [(np.float64, CELL_RIDGES, 1e-9), (np.float32, CELL_RIDGES[4:5], 2e-5)],
    ids=["double", "single"],
)
@pytest.mark.usefixtures("whole_race")
def test_cells_are_ridge_regressions_on_their_rows(dtype, ridges, atol, monkeypatch):
    # By the weakest ridges, matrices have conditions of some 1e6: too many for single precision.
    monkeypatch.setattr(cells_module, "CELL_RIDGES", ridges)
    plan = planned(KernelRegressor(random_state=0), WAVE, settings=ROWS_KEPT)
    for whole in plan.work.regions.partitions.values():
        whole.dtype = np.dtype(dtype)
    model = plan.finish(plan.add(X[:-200], WAVE[:-200]))
    learned = np.arange(N)  # rows held back are learned in the end
    parts = [part for part in model.parts_ if part.form == "cells"]
    assert parts
    for part in parts:
        images, cells = part.map(X), part.kernel.cells(part.map(X_TEST))
        own = part.kernel.cells(images)
        values = part.evaluate(X_TEST)[:, 0] / part.weight
        for cell in np.unique(cells):
            mine, asked = learned[own == cell], cells == cell
            inside = part.kernel.inside(int(cell))
            K = inside(images[mine], images[mine])
            K_test = inside(part.map(X_TEST)[asked], images[mine])
            low, high = WAVE[mine].min(), WAVE[mine].max()
            found = [
                np.clip(
                    K_test @ np.linalg.solve(K + len(mine) * r * np.eye(len(mine)), WAVE[mine]),
                    low,
                    high,
                )
                for r in ridges
            ]
            errors = [np.abs(one - values[asked]).max() for one in found]
            assert min(errors) < atol, errors


@pytest.mark.parametrize(
    "ridges", [CELL_RIDGES, CELL_RIDGES[:1], CELL_RIDGES[-1:]], ids=["best", "strong", "weak"]
)
def test_cells_by_sums_are_ridge_regressions_on_some_points(ridges, monkeypatch):
    monkeypatch.setattr(cells_module, "CELL_RIDGES", ridges)
    plan = planned(KernelRegressor(random_state=0), WAVE)
    whole, regions = plan.add(X[:-200], WAVE[:-200]), plan.work.regions
    pieces = [rows for piece in whole.pieces[:1] for rows in piece.values()]
    found = regions.solve(0, 300, pieces)
    component, _ = regions.places[0]
    mapped, members = regions.partitions[component].place(plan.work.held.X)
    held = members[0]
    images = np.concatenate([pieces[0].rows.X, mapped[held]])
    targets = np.concatenate([pieces[0].rows.targets, plan.work.held.targets[held]])
    own = found.part.partition.cells(images)
    for number, cell in enumerate(found.part.cells):
        mine, points = images[own == number].astype(float), cell.function.points
        assert len(points) < len(mine)
        inside = found.part.partition.inside(number)
        K, K_DD, ones = inside(mine, points), inside(points, points), np.ones(len(mine))
        values = cell.function.features(mine) @ cell.function.coefficients
        # By weak ridges, their jitter alone makes the sums positive definite: without it values
        # differ by 0.01 and more, by one row less by some 1e-4, by rounding by some 1e-6.
        errors = [
            np.abs(
                K @ ridge_on_dictionary(K, K_DD, targets[own == number], ones, r, LEAST_JITTER)
                - values
            ).max()
            for r in ridges
        ]
        assert min(errors) < 1e-5, errors


def test_regions_that_try_decide_for_all():
    plan = planned(KernelRegressor(random_state=0), WAVE)
    regions, asked = plan.work.regions, []

    def solve(pairs):
        asked.append(list(pairs))
        part = CellsPart.__new__(CellsPart)
        # Cells of 160 rows are the best of those that try, of every component.
        return [
            Region(part, np.zeros(0, int), np.zeros((0, 1)), 0, float(abs(rows - 160)))
            for _, rows in pairs
        ]

    solved = regions.solved(solve)
    assert len(solved) == len(regions)
    trials, rest = asked
    for component in regions.partitions:
        pilots = regions.pilots(component)
        expected = {(n, r) for n in pilots for r in regions.choices(component)}
        assert expected <= set(trials)
    assert len({rows for _, rows in rest}) == 1
    assert len(set(trials) | set(rest)) == len(trials) + len(rest)


def test_a_dictionary_is_ridge_regression_on_all_rows():
    estimator = KernelRegressor(
        kernel=Gaussian(1.0), expansion=Dictionary(60, ridge=1e-3), random_state=0
    )
    model = here(estimator, cut(X, TWO))
    points = model.dictionary_
    kernel = Gaussian(1.0)
    expected = ridge_on_dictionary(kernel(X, points), kernel(points, points), TWO, np.ones(N), 1e-3)
    assert_allclose(model.predict(X_TEST), kernel(X_TEST, points) @ expected, atol=1e-5)
    assert model.n_samples_seen_ == N
    model.partial_fit(X[:100], TWO[:100])  # it has all sums


def test_a_posterior_is_that_of_all_rows():
    estimator = GaussianProcessRegressor(Gaussian(1.0), n_features=50, random_state=0)
    model, whole = here(estimator, cut(X, WAVE)), clone(estimator).fit(X, WAVE)
    assert_allclose(model.predict(X_TEST), whole.predict(X_TEST), rtol=1e-6, atol=1e-6)
    assert_allclose(
        model.predict(X_TEST, return_std=True)[1],
        whole.predict(X_TEST, return_std=True)[1],
        rtol=1e-6,
    )


@pytest.fixture
def wide(monkeypatch):
    """Rows that are too wide for cells, as images are: a dictionary, and Newton steps."""
    settings = QUICK._replace(race=QUICK.race._replace(wide=5))
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    rng = np.random.default_rng(3)
    centres = 0.55 * rng.normal(size=(6, 70))
    of_centre = rng.integers(0, 6, N + 1000)
    return centres[of_centre] + rng.normal(size=(N + 1000, 70)), of_centre % 3


def test_newton_steps_elsewhere_are_as_good_as_those_of_fit(wide):
    inputs, labels = wide
    estimator = KernelClassifier(random_state=0)
    model = here(estimator, cut(inputs[:N], labels[:N]))
    assert not any(part.form == "cells" for part in model.parts_)
    whole = clone(estimator).fit(inputs[:N], labels[:N])

    def loss(model):
        p = model.predict_proba(inputs[N:])
        return -np.log(np.maximum(p[np.arange(1000), labels[N:]], 1e-12)).mean()

    # Points are chosen among the 800 rows of a sample, instead of all.
    assert loss(model) < loss(whole) + 0.1
    assert model.score(inputs[N:], labels[N:]) > whole.score(inputs[N:], labels[N:]) - 0.04


def test_gradients_of_steps_are_those_of_all_rows(wide):
    inputs, labels = wide
    counts = {label: int(np.sum(labels[:N] == label)) for label in range(3)}
    plan = Plan.of(
        KernelClassifier(random_state=0),
        (inputs[:800], labels[:800]),
        (inputs[N - 200 : N], labels[N - 200 : N]),
        N,
        class_counts=counts,
        settings=SMALL,
    )
    work = plan.work
    assert work.n_steps > 1
    X_all, y_all = inputs[: N - 200], labels[: N - 200]
    several = [
        plan.add(X_all[i : i + 550], y_all[i : i + 550], shard=i) for i in range(0, N - 200, 550)
    ]
    basis = KernelBasis(Gaussian(10.0), inputs[:40])
    w = np.random.default_rng(0).normal(size=(40, 3))
    steps = Totals(work.n_steps, lambda *step: [work.total(step[0], several, *step[1:])])
    gradients = GradientsElsewhere(Softmax(), work.held, steps)
    seen, total = 0.0, np.zeros_like(w)
    for step in gradients.steps(100, 1, held=False):
        n = sum(len(its.rows) for one in several for its in one.pieces[step].values())
        seen, total = seen + n, total + n * gradients.at(step, [basis], [w])[0]
    assert seen == len(X_all)
    slopes = Softmax().derivative(y_all[:, None].astype(float), basis.features(X_all) @ w)
    assert_allclose(total, basis.features(X_all).T @ slopes, rtol=1e-6, atol=1e-8)


@of("steps on a dictionary", "steps for classes", "blocks")
def test_steps_are_asked_of_all_rows(case, plan):
    """What all steps of a pass are told of all shards adds up to what one place would tell."""
    y = case[1]
    work, asked = plan.work, []
    keys = row_keys(0, 0, 0, N)
    several = [
        plan.add(X[i : i + 550], y[i : i + 550], shard=i, keys=keys[i : i + 550])
        for i in range(0, N - 200, 550)
    ]
    whole = plan.add(X[:-200], y[:-200], shard=9, keys=keys[:-200])

    def gather(step, ask, of):
        if all(ask is not old for old in asked):
            asked.append(ask)
        parts = [work.total(step, [some], ask, of) for some in several]
        together = [sum(each) for each in zip(*parts, strict=True)]
        expected = work.total(step, [whole], ask, of)
        assert together[0].flat[0] == sum(len(one.rows) for one in whole.pieces[step].values())
        for found, right in zip(together, expected, strict=True):
            assert_allclose(found, right, atol=1e-5 * np.abs(right).max(initial=1.0))
        return parts

    model = plan.finish(reduce(Sums.merge, several), gather=gather)
    assert len(asked) <= 2  # each is sent once
    # Blocks do not learn the rows held back.
    assert model.n_samples_seen_ == N - (200 if case is MODELS["blocks"] else 0)


@of("steps on a dictionary", "steps for classes", "blocks")
def test_steps_go_on_from_more_rows(case, model):
    more = pickle.loads(pickle.dumps(model))
    more.partial_fit(X[:1000], case[1][:1000])
    assert more.n_samples_seen_ == model.n_samples_seen_ + 1000
    assert hash_of(more) != hash_of(model)


@pytest.mark.parametrize("expansion", [Dictionary(100), RandomFeatures(64, min_steps=27)])
def test_steps_on_heavy_rows_do_not_overshoot(expansion):
    """Rows that the sample has not seen make steps shorter, instead of the model useless."""
    weights = np.where(np.arange(N) % 50 == 0, 500.0, 1.0)
    estimator = KernelClassifier("squared_hinge", kernel=Gaussian(1.0), expansion=expansion)
    labels = WAVE > 0.0
    model = here(estimator, cut(X, labels, weights))
    assert model.score(X, labels) > 0.9
    weights = np.where(np.arange(N) == 5, 1e5, 1.0)
    estimator = KernelRegressor("huber", kernel=Gaussian(1.0), expansion=expansion)
    assert here(estimator, cut(X, WAVE, weights)).score(X, WAVE) > 0.9


@pytest.mark.filterwarnings("ignore::mercer.exceptions.TargetScaleWarning")
@pytest.mark.parametrize("mode", [None, "newton", "cyclic"])
def test_steps_on_steep_losses_do_not_overshoot(mode, rng):
    counts = rng.poisson(np.exp(2 + 1.5 * WAVE)).astype(float)
    expansion = Dictionary(100) if mode is None else RandomFeatures(64, mode=mode, min_steps=27)
    estimator = KernelRegressor("poisson", kernel=Gaussian(1.0), expansion=expansion)
    assert here(estimator, cut(X, counts)).score(X, counts) > 0.8
    if mode is not None:  # a dictionary follows a wrong row as far as its minimum
        wrong = np.where(np.arange(N) == 5, 4e5, counts)
        assert here(estimator, cut(X, wrong)).score(X, counts) > -10  # by whole steps -1e22


@pytest.mark.parametrize("name", ["steps for classes", "blocks"])
def test_steps_without_rows_are_left_out(name):
    estimator, y = MODELS[name]
    counts = dict(zip(*(a.tolist() for a in np.unique(y, return_counts=True)), strict=True))
    plan = Plan.of(
        estimator,
        (X[:800], y[:800]),
        (X[-200:], y[-200:]),
        10**6,
        class_counts=counts if y is CLASSES else None,
        settings=SMALL,
    )
    with pytest.warns(UserWarning, match="rows were added or held back"):
        model = plan.finish(plan.add(X[:30], y[:30]))
    assert np.isfinite(model.predict(X_TEST) if y is TWO else model.predict_proba(X_TEST)).all()


def test_newton_steps_elsewhere_come_to_the_minimum():
    estimator = KernelRegressor(
        "huber", kernel=Gaussian(1.0), expansion=Dictionary(60, ridge=1e-3), random_state=0
    )
    model, loss = here(estimator, cut(X, WAVE)), Huber()
    points = model.dictionary_
    K, K_DD = Gaussian(1.0)(X, points), Gaussian(1.0)(points, points)

    def objective(w):
        values = (K @ w)[:, None]
        slopes = loss.derivative(WAVE[:, None], values)[:, 0]
        mean = loss.value(WAVE[:, None], values).mean()
        return mean + 0.5e-3 * w @ K_DD @ w, K.T @ slopes / N + 1e-3 * K_DD @ w

    least = minimize(
        objective, np.zeros(60), jac=True, method="L-BFGS-B", options={"maxiter": 3000}
    )
    found, _ = objective(model.coefficients_[:, 0])
    at_zero, _ = objective(np.zeros(60))
    assert found - least.fun < 1e-3 * (at_zero - least.fun)


def test_few_rows_are_fitted_as_by_fit():
    shards = cut(X[:700], WAVE[:700])
    model = here(KernelRegressor(random_state=0), shards)
    assert hash_of(model) == hash_of(KernelRegressor(random_state=0).fit(X[:700], WAVE[:700]))
    model.partial_fit(X[700:], WAVE[700:])


@of("numbers")
def test_files_hold_the_model(model, tmp_path):
    model.save(tmp_path / "model.mercer")
    loaded = load_model(tmp_path / "model.mercer")
    assert hash_of(loaded) == hash_of(model)
    for one in (model, loaded):
        with pytest.raises(ValueError, match=r"without the sums.*in several places"):
            one.partial_fit(X[:10], WAVE[:10])
    assert model.history_.n_samples[-1] == N


@pytest.mark.usefixtures("whole_race")
def test_a_small_model_of_many_rows(rng):
    wide = np.column_stack([X, rng.uniform(-1, 1, (N, 56))])
    small = KernelRegressor(expansion=Auto(max_memory=2**20), random_state=0)
    model = here(small, cut(wide, WAVE))

    def cells_of(model):
        return [part for part in model.learner_.function.components if part.form == "cells"]

    assert cells_of(model)
    # Rows in single precision, behind maps that leave out columns of no effect.
    kept = [part.n_points * (part.partition.n_features + 1) * 4 for part in cells_of(model)]
    assert sum(kept) <= 2**20
    large = fit(KernelRegressor(random_state=0), cut(wide, WAVE), engine="here", settings=ROWS_KEPT)
    assert sum(kept) < sum(part.n_points * (60 + 1) * 4 for part in cells_of(large))


# -- weights ---------------------------------------------------------------------------------------


def test_shards_may_have_no_weight_at_all():
    weights = np.ones(N)
    weights[:900] = 0.0
    spoilt = np.where(weights > 0.0, WAVE, 1e3)
    model = here(KernelRegressor(random_state=0), cut(X, spoilt, weights))
    assert model.learner_.n_rows == N - 900
    assert np.mean((model.predict(X_TEST) - TRUTH) ** 2) < 0.05
    few = np.zeros(N)
    few[::80] = 1.0
    small = here(KernelRegressor(random_state=0), cut(X, spoilt, few))
    alone = clone(small).fit(X[::80], spoilt[::80])
    assert_array_equal(small.predict(X_TEST), alone.predict(X_TEST))
    with pytest.raises(ValueError, match="has a weight above 0"):
        here(KernelRegressor(), cut(X, WAVE, np.zeros(N)))
    with pytest.raises(ShardError, match=r"shard 0: .*negative"):
        here(KernelRegressor(), cut(X, WAVE, -np.ones(N)))


def test_balanced_classes_of_a_plan_are_those_of_its_sample():
    estimator = KernelClassifier(class_weight="balanced", random_state=0)
    order = np.argsort(CLASSES[:2200], kind="stable")
    models = []
    for rows in (np.arange(2200), order):
        plan = Plan.of(estimator, (X[:800], CLASSES[:800]), (X[-200:], CLASSES[-200:]), N)
        models.append(plan.finish(plan.add(X[rows], CLASSES[rows], keys=np.uint64(rows))))
    probabilities = [model.predict_proba(X_TEST) for model in models]
    assert_allclose(*probabilities, atol=1e-3)


def test_rows_of_weight_0_are_none():
    weights = np.ones(N)
    weights[::3] = 0.0
    spoilt = np.where(weights > 0.0, WAVE, 1e3)
    model = here(KernelRegressor(random_state=0), cut(X, spoilt, weights))
    assert np.mean((model.predict(X_TEST) - TRUTH) ** 2) < 0.03


def test_balanced_classes_are_those_of_all_rows(rng):
    rare = np.where(rng.uniform(size=N) < 0.05, "top", "low")
    estimator = KernelClassifier(class_weight="balanced", random_state=0)
    model = here(estimator, cut(X, rare))
    n_top = int((rare == "top").sum())
    same = {"top": N / (2 * n_top), "low": N / (2 * (N - n_top))}
    by_hand = here(estimator.set_params(class_weight=same), cut(X, rare))
    assert_array_equal(model.predict_proba(X_TEST), by_hand.predict_proba(X_TEST))
    assert_array_equal(model.class_counts_, [N - n_top, n_top])


# -- shards ----------------------------------------------------------------------------------------


def table_of(numbers, *, town=True):
    table = {"a": X[numbers, 0], "b": X[numbers, 1], "y": WAVE[numbers]}
    if town:
        table["town"] = np.where(X[numbers, 2] > 0, "Bern", "Bonn")
    return table


#: Learned in no time, where a test is about the shards.
PLAIN = KernelRegressor(kernel=Gaussian(1.0), expansion=Dictionary(50), random_state=0)


def of_tables(shards, estimator=PLAIN, *, target="y"):
    """Fit an estimator to shards that are tables with columns of any kind."""
    return here(estimator, shards, target=target, columns=TablePreprocessor())


PARTS = np.array_split(np.arange(N), N_SHARDS)


def test_tables_of_mixed_columns():
    tables = [table_of(part) for part in PARTS]
    model = of_tables(tables, KernelRegressor(random_state=0))
    assert isinstance(model, KernelRegressor)
    assert np.mean((model.predict(table_of(slice(0, 300))) - WAVE[:300]) ** 2) < 0.05
    assert unit_of_target(model) is None  # sums learn quantities as they are
    assert (model.roles_.target, model.target_form_) == ("y", None)
    assert model.preprocessor_.n_samples_seen_ == N


def test_a_kernel_that_was_given_learns_mixed_columns():
    tables = [table_of(part) for part in PARTS]
    model = of_tables(tables, KernelRegressor(kernel="gaussian", random_state=0))
    assert np.mean((model.predict(table_of(slice(0, 300))) - WAVE[:300]) ** 2) < 0.1
    assert model.preprocessor_.n_samples_seen_ == N


def test_targets_are_standardised_where_the_estimator_says_so():
    far = 1e6 + 1e3 * WAVE
    tables = [table_of(part) | {"y": far[part]} for part in PARTS]
    steps = KernelRegressor(
        kernel="gaussian",
        expansion=RandomFeatures(64, min_steps=9),
        normalize_y=True,
        random_state=0,
    )
    model = of_tables(tables, steps)
    assert np.mean((model.predict(table_of(slice(0, 300))) - far[:300]) ** 2) < 0.1 * far.var()
    mean, scale = unit_of_target(model)
    # Of the sample, a third of the rows.
    assert mean == pytest.approx(far.mean(), abs=5.0 * far.std() / np.sqrt(800))
    assert scale == pytest.approx(far.std(), rel=0.1)


def test_another_cut_of_tables_gives_the_same_model(monkeypatch):
    few = FEW_POINTS.allocation._replace(enough=2, enough_for_steps=2)
    monkeypatch.setattr(DefaultLearner, "settings", QUICK._replace(allocation=few))
    order = np.random.default_rng(2).permutation(N)
    cuts = [PARTS, [part[::-1] for part in np.array_split(order, 7)]]
    estimator = KernelRegressor(random_state=0)
    both = [of_tables([table_of(part) for part in parts], estimator) for parts in cuts]
    said = [model.predict(table_of(slice(0, 200))) for model in both]
    assert_array_equal(*said)


def test_a_category_of_the_last_shard_is_known():
    tables = [table_of(part) for part in PARTS]
    tables[-1]["town"] = np.where(X[PARTS[-1], 2] > 0, "Ulm", "Bonn")
    model = of_tables(tables)
    assert any("Ulm" in name for name in model.preprocessor_.feature_names_out())


def test_shards_of_every_kind_give_the_same(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    tables = [pa.table(table_of(part, town=False)) for part in PARTS]
    paths = [tmp_path / f"part-{number}.parquet" for number in range(N_SHARDS)]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=200)
    kinds = {
        "file": [paths[0], *tables[1:]],
        "folder": tmp_path,
        "glob": str(tmp_path / "*.parquet"),
        "files": paths,
        "tables": [table_of(part, town=False) for part in PARTS],
        "functions": [partial(table_of, part, town=False) for part in PARTS],
    }
    expected = here(PLAIN, tables, target="y")
    both = pd.DataFrame({"a": X_TEST[:, 0], "b": X_TEST[:, 1]})
    for kind, shards in kinds.items():
        model = here(PLAIN, shards, target="y")
        assert_array_equal(model.predict(both), expected.predict(both), kind)
        assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.usefixtures("whole_race")
def test_a_new_class_in_the_last_shard_is_learned():
    order = np.argsort(CLASSES == "top", kind="stable")
    model = here(KernelClassifier(random_state=0), cut(X[order], CLASSES[order]))
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert model.score(X, CLASSES) > 0.9


def test_blocks_of_a_shard_may_be_empty():
    several = [(X[:300], WAVE[:300]), (X[:0], WAVE[:0]), (X[300:], WAVE[300:])]
    model, whole = here(PLAIN, [partial(iter, several)]), here(PLAIN, [(X, WAVE)])
    assert_allclose(model.predict(X_TEST), whole.predict(X_TEST), atol=1e-4)


def test_labels_keep_their_type():
    y = np.digitize(WAVE, [0.0]).astype(np.int32)
    assert here(KernelClassifier(random_state=0), cut(X, y)).classes_.dtype == np.int32


def test_empty_shards_are_no_rows():
    shards = cut(X, WAVE)
    with_empty = [*shards[:2], (X[:0], WAVE[:0]), *shards[2:]]
    assert here(PLAIN, with_empty).n_samples_seen_ == N
    with pytest.raises(ValueError, match="has a row"):
        here(KernelRegressor(), [(X[:0], WAVE[:0])])


def test_an_engine_that_is_given_stays_open():
    shards, closed = cut(X[:600], WAVE[:600]), []

    class Watched(HereEngine):
        def close(self):
            closed.append(self)

    with Watched() as engine:
        for _ in range(2):
            model = fit(PLAIN, shards, engine=engine)
            found = predict(model, shards, engine=engine)
        # Of other numbers of rows at a time products are rounded otherwise.
        assert_allclose(np.concatenate(found), model.predict(X[:600]), rtol=1e-4, atol=1e-4)
        assert not closed
    assert closed == [engine]


def test_large_shards_are_told_of_once(monkeypatch, recwarn):
    shards = [(X[:300], WAVE[:300]), (X[300:500], WAVE[300:500]), (X[500:600], WAVE[500:600])]
    here(PLAIN, shards)
    assert not [one for one in recwarn if "GiB" in str(one.message)]
    monkeypatch.setattr("mercer_cluster.run._LARGE_BYTES", 150 * 4 * 8)
    with pytest.warns(UserWarning, match=r"^shard 0 has 300 rows, 0.0 GiB as float64, and 1 ") as w:
        here(PLAIN, shards)
    assert len([one for one in w if "at most 150 rows" in str(one.message)]) == 1
    monkeypatch.setattr("mercer_cluster.run._LARGE_ROWS", 120)
    equal = np.zeros((N, 4)), np.ones(N)
    with pytest.warns(UserWarning, match="at most 120 rows") as w:
        here(PLAIN, [equal])  # of which a second look is taken
    assert len([one for one in w if "GiB" in str(one.message)]) == 1


def failing(error):
    raise error


def bad(which, shard):
    shards = cut(X, WAVE)
    shards[2] = shard
    return shards


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ((X[:50, :3], WAVE[:50]), "3 and 4 columns of inputs"),
        ((X[:50], WAVE[:49]), "a value for each row"),
        ((np.where(X[:50] > 0.5, np.nan, X[:50]), WAVE[:50]), "NaN"),
        ((X[:50], np.where(WAVE[:50] > 0.5, np.inf, WAVE[:50])), "infinity"),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: [][3], "IndexError"),
        (lambda: {}["a"], "KeyError: 'a'"),
        (lambda: None.rows, "AttributeError"),
        (lambda: failing(RuntimeError("no more")), "RuntimeError: no more"),
        (lambda: failing(ValueError("no rows")), "shard 2: no rows"),
        ((X[:50],), r"must be \(X, y\)"),
        (3, "must be a path"),
    ],
)
def test_a_bad_shard_is_named(shard, message):
    kind = ValueError if shard == 3 else ShardError
    with pytest.raises(kind, match=message) as caught:
        here(KernelRegressor(), bad(2, shard))
    assert "hard 2" in str(caught.value)


@pytest.mark.parametrize("error", [ImportError("no such module"), MemoryError()])
def test_errors_of_the_machine_note_the_shard(error):
    with pytest.raises(type(error)) as caught:
        here(KernelRegressor(), bad(2, partial(failing, error)))
    assert "This happened with shard 2." in caught.value.__notes__


def test_targets_that_nobody_looks_at_are_refused():
    with pytest.raises(ShardError, match="shard 0: The table has no column 'zzz'"):
        of_tables([table_of(part) for part in PARTS], target="zzz")
    with pytest.raises(ParameterError, match="must be None for shards that are arrays"):
        here(KernelRegressor(), cut(X, WAVE), target="nonsense")
    with pytest.raises(ShardError, match="shard 0: `target` names the column 'nonsense'"):
        here(KernelRegressor(), [lambda: (X, WAVE)], target="nonsense")
    few = [table_of(part[:50]) for part in PARTS]
    assert of_tables(few, target="y").roles_.target == "y"


def test_predictions_of_no_rows_have_the_shape_of_the_model():
    two = clone(PLAIN).fit(X[:200], TWO[:200])
    none, few, empty = predict(two, [X[:0], X[:5], lambda: iter(())], engine="here")
    assert none.shape == empty.shape == (0, 2)
    assert_allclose(few, two.predict(X[:5]), rtol=1e-9)
    classes = KernelClassifier(random_state=0).fit(X[:200], CLASSES[:200])
    both = lambda: iter([(X[:0], CLASSES[:0]), (X[:5], CLASSES[:5])])  # noqa: E731
    said = predict(classes, [both, (X[:0], CLASSES[:0])], engine="here")
    assert [(len(one), one.dtype.kind) for one in said] == [(5, "U"), (0, "U")]
    tables = [table_of(part[:100]) for part in PARTS]
    model = of_tables(tables)
    shards = [tables[0], table_of(slice(0, 0)), lambda: iter(())]
    assert [one.shape for one in predict(model, shards, engine="here")] == [(100,), (0,), (0,)]
    numbers = [table_of(part[:100], town=False) for part in PARTS]
    model = here(PLAIN, numbers, target="y")
    said = predict(model, [table_of(slice(0, 0), town=False), numbers[0]], engine="here")
    assert [one.shape for one in said] == [(0,), (100,)]


def test_a_file_that_is_cut_off_is_named(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    for number, part in enumerate(PARTS):
        pq.write_table(pa.table(table_of(part)), tmp_path / f"part-{number}.parquet")
    broken = tmp_path / "part-2.parquet"
    broken.write_bytes(broken.read_bytes()[:-300])
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        of_tables(tmp_path)
    pq.write_table(pa.table(table_of(PARTS[2], town=False)), broken)
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        of_tables(tmp_path)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", ["gap", "int32", "order", "category", "float32"])
def test_tables_of_other_types_are_joined(kind, inside):
    pytest.importorskip("pyarrow")
    tables = [pd.DataFrame(table_of(part) | {"n": np.arange(len(part)) % 7}) for part in PARTS]
    expected = of_tables(tables)
    other = tables[1].copy()
    if kind == "gap":
        other["n"] = other["n"].astype(float)
    elif kind == "int32":
        other["n"] = other["n"].astype("int32")
    elif kind == "order":
        other = other[other.columns[::-1]]
    elif kind == "category":
        other["town"] = other["town"].astype("category")
    else:
        other["n"] = other["n"].astype("float32")
    shards = [tables[0], other, *tables[2:]]
    model = of_tables([partial(iter, shards)] if inside else shards)
    whole = tables[0]
    if inside:
        assert_allclose(model.predict(whole), expected.predict(whole), atol=0.3)
    else:
        assert_array_equal(model.predict(whole), expected.predict(whole))
    # Few rows are all a sample, which is joined.
    few = [table.iloc[:60] for table in shards]
    model = of_tables([partial(iter, few)] if inside else few)
    assert model.preprocessor_.n_samples_seen_ == 60 * N_SHARDS


def test_numbers_with_a_gap_are_joined():
    tables = [pd.DataFrame(table_of(part) | {"n": np.arange(len(part)) % 7}) for part in PARTS]
    tables[2].loc[tables[2].index[3], "n"] = np.nan
    model = of_tables(tables)
    assert np.isfinite(model.predict(tables[2])).all()


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("missing", [None, np.nan])
def test_text_without_values_in_a_shard_is_text(place, missing):
    tables = [table_of(part) for part in PARTS]
    tables[place]["town"] = [missing] * len(PARTS[place])
    model = of_tables(tables)
    assert model.preprocessor_.text_columns_ == ["town"]
    assert np.isfinite(model.predict(table_of(slice(0, 50)))).all()


def test_what_cannot_be_joined_names_both_shards():
    pa = pytest.importorskip("pyarrow")
    tables = [{**table_of(part), "when": np.arange(len(part))} for part in PARTS]
    tables[2]["when"] = tables[2]["when"].astype("datetime64[s]")
    with pytest.raises(ShardError, match=r"shard 2 and shard 3 have times and numbers in"):
        of_tables([pa.table(table) for table in tables])
    tables = [table_of(part) for part in PARTS]
    tables[1]["a"] = np.where(X[PARTS[1], 0] > 0, "high", "low")
    with pytest.raises(ShardError) as caught:
        of_tables([partial(iter, tables)])
    assert "Tables of shard 0 have" in str(caught.value)
    assert ".." not in str(caught.value)
    shards = cut(X, WAVE)
    shards[3] = (shards[3][0], TWO[: len(shards[3][0])])
    with pytest.raises(ShardError, match=r"shard \d and shard 3 have targets of the shapes"):
        here(KernelRegressor(), shards)


def test_columns_of_other_kinds_are_refused():
    tables = [table_of(part) for part in PARTS]
    tables[1]["a"] = np.where(X[PARTS[1], 0] > 0, "high", "low")
    with pytest.raises(ShardError, match="shard 0 and shard 1"):
        of_tables(tables)


def test_labels_of_other_types_are_refused():
    shards = cut(X, CLASSES)
    shards[3] = (shards[3][0], np.arange(len(shards[3][0])) % 3)
    with pytest.raises(ShardError, match="labels of different types"):
        here(KernelClassifier(), shards)


def test_a_shard_that_changes_is_refused(tmp_path):
    called = tmp_path / "called"

    def changing():
        n = 590 if called.exists() else 600
        called.touch()
        return X[:n] + 5.0, WAVE[:n]

    with pytest.raises(ShardError, match="600 rows when it was looked at, and 590"):
        here(KernelRegressor(), [*cut(X, WAVE), changing])


# -- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KernelRegressor(expansion="komp"), "many small steps"),
        (KernelRegressor(expansion=RandomFeatures(64, mode="faithful")), "many small steps"),
        (KernelRegressor(expansion=Auto(forgetting=0.99)), "how old a row is"),
        (KernelRegressor(expansion=Dictionary(50, forgetting=0.99)), "how old a row is"),
        (KernelRegressor(risk="cvar:0.9", expansion=Dictionary(50)), "an average from step to"),
        (KernelRegressor(risk="cvar:0.9", expansion=RandomFeatures(64)), "an average from step to"),
        (KernelRanker(), "many small steps"),
        (KernelRanker(expansion=RandomFeatures(64)), "rows belong together"),
        (KernelRanker(expansion=Dictionary(50)), "rows belong together"),
        (GaussianProcessRegressor(method="dsg"), "again and again"),
    ],
)
def test_what_needs_an_order_is_refused(estimator, message):
    y = WAVE > 0 if isinstance(estimator, KernelRanker) else WAVE
    with pytest.raises(ValueError, match=message):
        here(estimator, cut(X, y))


def test_a_plan_says_that_rows_are_missing():
    plan = planned(KernelRegressor(random_state=0), WAVE)
    with pytest.warns(UserWarning, match="500 rows were added or held back, but the plan is for"):
        plan.finish(plan.add(X[:300], WAVE[:300]))


def test_rows_of_a_plan_may_be_lists():
    plan = planned(KernelRegressor(random_state=0), WAVE)
    sums = plan.add(X[:200].tolist(), WAVE[:200].tolist())
    assert sums.total == 200


def test_a_small_sample_still_holds_rows_back():
    sizes = Settings(sample=500, least_sample=100, region_rows=300)
    model = fit(KernelRegressor(random_state=0), cut(X, WAVE), engine="here", settings=sizes)
    assert np.mean((model.predict(X_TEST) - TRUTH) ** 2) < 0.05


def test_sums_are_merged_once_and_by_one_plan():
    plan = planned(KernelRegressor(random_state=0), WAVE)
    one, other = plan.add(X[:100], WAVE[:100], shard=0), plan.add(X[:50], WAVE[:50], shard=1)
    with pytest.raises(ValueError, match="would count twice"):
        one.merge(plan.add(X[:100], WAVE[:100], shard=0))
    second = planned(KernelRegressor(random_state=1), 2 * WAVE)
    with pytest.raises(ValueError, match="two plans"):
        other.merge(second.add(X[:50], WAVE[:50]))
    with pytest.raises(ValueError, match="another plan"):
        second.finish(one)


# -- keys and samples ------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(0, 10**6), st.integers(0, 10**9), st.integers(1, 200))
@settings(max_examples=50)
def test_keys_do_not_depend_on_the_cut(seed, shard, first, n):
    whole = row_keys(seed, shard, first, n)
    at = n // 3
    assert_array_equal(whole[:at], row_keys(seed, shard, first, at))
    assert_array_equal(whole[at:], row_keys(seed, shard, first + at, n - at))
    assert len(np.unique(whole)) == n


def test_keys_are_uniform_and_shards_differ():
    keys = np.concatenate([row_keys(0, shard, 0, 20_000) for shard in range(5)])
    assert len(np.unique(keys)) == keys.size
    counts = np.histogram(keys.astype(np.float64) / 2.0**64, 50, (0, 1))[0]
    expected = keys.size / 50
    # Chi-square with 49 degrees of freedom: mean 49, deviation 9.9.
    assert np.sum((counts - expected) ** 2) / expected < 49 + 5 * 9.9


@pytest.mark.parametrize("by_content", [True, False])
@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_survey_finds_the_rows_of_least_keys(n, by_content):
    reader, sizes = ArrayReader(None), Settings(sample=150, least_sample=10, chunk=100)
    total = None
    for number, shard in enumerate(cut(X, CLASSES, n=n)):
        how = {"seed": 7, "classes": True, "settings": sizes, "by_content": by_content}
        one = Survey.of(reader, shard, number, f"{number}", **how)
        total = one if total is None else total.merge(one)
    keys = np.concatenate(
        [row_keys(7, number, 0, len(s[0])) for number, s in enumerate(cut(X, CLASSES, n=n))]
    )
    if by_content:
        keys = content_keys(7, [X, CLASSES])
    order = np.argsort(keys)[:150]
    drawn = total.drawn(0, 150)
    assert_array_equal(drawn.X, X[order])
    assert_array_equal(drawn.y, CLASSES[order])
    assert total.n_used == sum(total.n_rows.values()) == N
    assert total.class_counts == {name: int((name == CLASSES).sum()) for name in np.unique(CLASSES)}


@given(st.integers(1, 6), st.lists(st.integers(1, 5), min_size=6, max_size=6), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_refined_partitions_are_those_of_each_cell(n_cells, inner, seed):
    rows = np.random.default_rng(seed).normal(size=(200, 3)).astype(np.float32)
    outer = Partitioned.balanced(rows, n_cells, kernel=Gaussian(2.0), seed=seed)
    own = outer.cells(rows)
    divided = [
        Partitioned.balanced(rows[own == cell], inner[cell], kernel=Gaussian(2.0), seed=cell)
        for cell in range(outer.n_cells)
    ]
    fine = outer.refined(divided)
    found = fine.cells(rows)
    firsts = outer.n_cells + np.cumsum([0, *(each.n_cells - 1 for each in divided)])
    for cell, each in enumerate(divided):
        mine = each.cells(rows[own == cell])
        expected = np.where(mine == 0, cell, firsts[cell] + mine - 1)
        assert_array_equal(found[own == cell], expected)
    assert fine.n_cells == sum(each.n_cells for each in divided)
