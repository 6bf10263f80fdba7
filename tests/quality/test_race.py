"""The race that chooses maps, lengths and forms: what it looks at, notes and prefers."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelClassifier, KernelRegressor
from mercer.default import DefaultLearner, Settings
from mercer.default import learner as default_learner
from mercer.default.allocate import Allocation
from mercer.expansions import Auto
from mercer.kernels import Bias, Gaussian, Mapped
from mercer.maps import Affine
from mercer.selection import (
    FAMILIES,
    RaceResult,
    RaceSettings,
    global_kernel,
    judges_alone,
    race,
)
from mercer.selection.race import CellPilot, Pilots
from mercer.sums import CellsPart, Rows, TreesPart
from mercer.sums.cells import CELL_RIDGES
from mercer.sums.ridge import RIDGES
from oracles_parts import cells_by_hand
from quick import QUICK


def made_rows(n, n_features=3, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = np.sin(2.0 * X[:, :1]) + 0.5 * X[:, 1:2] ** 2 + 0.1 * rng.normal(size=(n, 1))
    return Rows(X, y + offset, rng.uniform(0.5, 2.0, n))


#: Cells race on some hundred rows.
FEW = RaceSettings(small=300, pilot_rows=200, cell_size=24, cell_rows=80, kept_rows=100)


# -- the table ------------------------------------------------------------------------------------


def test_the_table_says_what_was_tried():
    contest = race(made_rows(900), 900, 0, settings=FEW)
    fields = {"form", "family", "metric", "n_inputs", "length", "error", "standard_error"}
    assert all(set(entry) == fields for entry in contest.table)
    assert {entry["form"] for entry in contest.table} == {"global", "cells"}
    for candidate in (contest.best_global, *contest.cells):
        same = [e for e in contest.table if (e["form"], e["family"]) == candidate_kind(candidate)]
        entries = [e for e in same if e["error"] == candidate.error]
        assert [e["metric"] for e in entries] == [candidate.metric]
        assert [e["length"] for e in entries] == [candidate.length]
        assert [e["n_inputs"] for e in entries] == [candidate.map.n_outputs]
        assert len({e["length"] for e in same}) >= 2
    for some in (contest.finalists, contest.cells):
        errors = [one.error for one in some]
        assert errors == sorted(errors)
        assert errors[-1] <= 1.15 * errors[0]
    least = min(e["error"] for e in contest.table if e["form"] == "cells")
    assert contest.cells[0].error == least


def candidate_kind(candidate):
    return candidate.form, candidate.family


@pytest.mark.parametrize("pilot_rows", [1000, 200])  # of 200 the finalists are fitted again
def test_errors_of_few_rows_are_of_the_second_half(pilot_rows):
    rows = made_rows(400)
    noise = np.random.default_rng(1).normal(size=(400, 1))  # asks for a ridge beyond rounding
    rows = Rows(rows.X, rows.targets + 0.5 * noise, rows.weights)
    contest = race(rows, 400, 0, settings=RaceSettings(pilot_rows=pilot_rows))
    assert min(RIDGES[one.ridge] for one in contest.finalists) >= 1e-5
    fitted, judged = rows[:200], rows[200:]
    share = fitted.weights / fitted.weights.sum()
    mean = share @ fitted.targets
    for best in contest.finalists[:2]:
        A, B = (np.asarray(best.map(some.X)) for some in (fitted, judged))
        K, K_judged = best.kernel(A, A) + 0.1, best.kernel(B, A) + 0.1
        squares = {}
        for number, ridge in enumerate(RIDGES[:9]):
            C = K + np.diag(ridge / share)
            values = K_judged @ np.linalg.solve(C, fitted.targets - mean) + mean
            squares[number] = np.sum((values - judged.targets) ** 2, axis=1)
        found = squares[best.ridge]
        of = judged.weights / judged.weights.sum()
        # Single precision changes the matrix by 6e-8, as a change of the ridge by .6 % would.
        assert_allclose(best.error, of @ found, rtol=2e-3)
        assert_allclose(best.deviation, np.sqrt(of**2 @ (found - of @ found) ** 2), rtol=2e-3)
        assert best.error <= min(of @ each for each in squares.values()) * 1.002


def test_each_of_a_handful_of_rows_is_left_out():
    rows = made_rows(12)
    best = race(rows, 12, 0).best_global
    assert best.family == "gaussian"
    kernel = global_kernel(best.map, best.kernel, 1.0)
    K, others = np.asarray(kernel(rows.X)), ~np.eye(12, dtype=bool)
    errors = []
    for i, some in enumerate(others):
        # The same ridge for each unit of weight.
        C = K[np.ix_(some, some)] + np.diag(
            RIDGES[best.ridge] * rows.weights.sum() / rows.weights[some]
        )
        value = K[i, some] @ np.linalg.solve(C, rows.targets[some])
        errors.append(float(((value - rows.targets[i]) ** 2)[0]))
    assert_allclose(best.error, np.average(errors, weights=rows.weights), rtol=1e-3)


@pytest.mark.parametrize("family", ["laplacian", "matern", "gaussian"])
@pytest.mark.parametrize(("offset", "alone"), [(0.0, 0), (3.0, 0), (3.0, 700)])
def test_errors_of_cells_are_those_by_hand(offset, alone, family):
    rows, few = made_rows(700, seed=4, offset=offset), FEW._replace(alone=alone)
    result = race(rows, 700, 1, settings=few._replace(families=(family,)))
    (best,) = result.cells
    assert best.map is result.best_global.map
    tried = [e for e in result.table if e["form"] == "cells"]
    multiples = [e["length"] / result.best_global.length for e in tried]
    assert all(np.isclose(FEW.multiples, one).any() for one in multiples)
    make = FAMILIES[family].make
    by_hand = cells_by_hand(rows, best.map, make, [e["length"] for e in tried], few, CELL_RIDGES, 1)
    # Single precision behind ridges of 1e-6: 6e-8 / 1e-6 of the targets; twice for what a row
    # says of itself.
    assert_allclose([e["error"] for e in tried], by_hand, rtol=0.04 if alone else 0.02)
    assert_allclose(best.error, min(by_hand), rtol=0.02)


def test_rows_that_belong_together_are_not_left_out_alone():
    rows = made_rows(700)
    grouped = replace(rows, groups=np.arange(700) // 7)
    found = [judges_alone(rows, 1, FEW), judges_alone(rows, 50, FEW), judges_alone(grouped, 1, FEW)]
    assert found == [True, False, False]
    assert not judges_alone(rows, 1, FEW._replace(alone=699))
    errors = [race(some, 700, 0, settings=FEW).cells[0].error for some in (rows, grouped)]
    assert errors[0] != errors[1]


@pytest.mark.usefixtures("quick_race")
@pytest.mark.parametrize("alone", [0, 700])
def test_cells_keep_the_ridge_that_left_rows_out_alone(alone, monkeypatch):
    race_settings = QUICK.race._replace(alone=alone)
    monkeypatch.setattr(DefaultLearner, "settings", QUICK._replace(race=race_settings))
    monkeypatch.setattr(DefaultLearner, "_let_go", lambda self: None)  # parts without weight, too
    rows = made_rows(700)
    model = KernelRegressor(random_state=0).fit(rows.X, rows.targets[:, 0])
    parts = [p for p in model.learner_.function.components if isinstance(p, CellsPart)]
    kept = [part.ridges.tolist() == [CELL_RIDGES[part.first_ridge]] for part in parts]
    assert kept == [alone > 0] * len(parts)
    assert parts


def test_a_gaussian_without_a_metric_goes_beside_one_with():
    rows = made_rows(700, 5)
    result = race(rows, 700, 0, settings=FEW)
    plain = [e for e in result.table if e["family"] == "gaussian" and "," not in e["metric"]]
    assert result.plain.error == min(e["error"] for e in plain)
    assert "," in result.best_global.metric
    # Where there is none it is the best itself, which is not learned twice.
    single = Rows(rows.X[:, :1], rows.targets, rows.weights)
    gaussian = FEW._replace(families=("gaussian",))
    assert race(single, 700, 0, settings=gaussian).plain is None


def test_the_race_is_told_to_the_user():
    rows = made_rows(60)
    model = KernelRegressor(random_state=0).fit(rows.X, rows.targets[:, 0])
    table = model.race_
    assert (
        min(entry["error"] for entry in table)
        == model.learner_.function.race_result.best_global.error
    )
    table[0]["error"] = -1.0
    assert model.race_[0]["error"] > 0.0


def test_a_contest_survives_its_state():
    contest = race(made_rows(900), 900, 0, settings=FEW)
    again = RaceResult.from_state(contest.to_state())
    assert again.table == contest.table
    assert again.constant == contest.constant
    X = made_rows(20, seed=1).X
    for one, another in zip(
        (contest.best_global, *contest.cells), (again.best_global, *again.cells), strict=True
    ):
        assert_array_equal(one.map(X), another.map(X))
        assert replace(one, map=None) == replace(another, map=None)


# -- who takes part -------------------------------------------------------------------------------


def test_one_feature_has_no_metric_and_few_rows_no_cells():
    rows = made_rows(200)
    contest = race(Rows(rows.X[:, :1], rows.targets, rows.weights), 200, 0, settings=FEW)
    assert contest.cells == ()
    assert {entry["metric"] for entry in contest.table} == {"standardized", "normal scores"}
    assert race(made_rows(700), 150, 0, settings=FEW).cells == ()  # no more rows to come


def test_wide_inputs_are_projected():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(400, 3))
    X = hidden @ rng.normal(size=(3, 90)) + 0.1 * rng.normal(size=(400, 90))
    rows = Rows(X, np.sin(hidden[:, :1]), np.ones(400))
    for some in (rows, rows[:300]):
        table = race(some, 400, 0, settings=FEW).table
        names = {entry["metric"]: entry["n_inputs"] for entry in table}
        assert names["standardized, 40 principal components"] == 40
        assert names["standardized"] == 90
    # Cells would be of some directions only.
    assert all("components" not in one.metric for one in race(rows, 900, 0, settings=FEW).cells)


@pytest.mark.parametrize(
    ("family", "metric"),
    [("gaussian", "standardized"), ("matern", "standardized"), ("laplacian", "normal scores")],
)
def test_the_best_length_is_the_best_of_its_neighbours(family, metric):
    rows = made_rows(300)
    contest = race(rows, 300, 0)
    own = FAMILIES[family].lengths
    plain = [e for e in contest.table if (e["family"], e["metric"]) == (family, metric)]
    lengths = np.array(sorted(e["length"] for e in plain))
    ratios = np.array(own)[1:] / np.array(own)[:-1]
    assert all(np.isclose(ratios, r).any() for r in lengths[1:] / lengths[:-1])
    best = min(plain, key=lambda e: e["error"])
    at = np.flatnonzero(lengths == best["length"])[0]
    # Both neighbours were tried, or there is none.
    number = at + int(np.argmin(abs(ratios - lengths[1] / lengths[0])))
    assert at not in (0, len(lengths) - 1) or number in (0, len(own) - 1)


def test_metrics_keep_the_length_and_the_best_tries_others(monkeypatch):
    calls, best_length = [], Pilots._best_length

    def noted(self, family, name, map, like=None, *, known=False, others=False):
        n = len(self.table)
        found = best_length(self, family, name, map, like, known=known, others=others)
        lengths = [entry["length"] for entry in self.table[n:]]
        calls.append((name, map, known, lengths))
        return found

    monkeypatch.setattr(Pilots, "_best_length", noted)
    pilots = Pilots(made_rows(300), 1.0, 1, 20, 150)
    best = pilots.best(FAMILIES["matern"], 4, 64, 40)
    *behind, (name, map, _, others) = [call for call in calls if "," in call[0]]
    assert behind
    assert [known for _, _, known, _ in calls] == [False] * (len(calls) - 1) + [True]
    assert all(len(lengths) == 1 for _, _, _, lengths in behind)
    assert (name, map) == (best.name, best.map)
    assert 1 <= len(others) <= 9
    assert best.length not in others or best.length not in {own for *_, (own,) in behind}
    assert best.error == min(entry["error"] for entry in pilots.table)
    # More rows fit the same length again, and with metrics of their own; in a series, and where
    # no cells follow, they try others.
    for block, more in ((1, False), (10, False), (1, True)):
        calls.clear()
        again = Pilots(made_rows(300), 1.0, block, 20, 200).again(best, others=more)
        assert len(calls) == 1 + len({best.metric, "full metric"})
        kept = block == 1 and not more
        assert (sum(len(lengths) for *_, lengths in calls) == len(calls)) == kept
        assert not kept or again.number == best.number


def test_the_length_is_searched_again_where_no_cells_follow():
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, (3000, 2))
        y = np.sin(7.0 * X[:, :1]) * np.cos(7.0 * X[:, 1:]) + 0.3 * rng.normal(size=(3000, 1))
        rows, gaussian = Rows(X, y / y.std(), np.ones(3000)), RaceSettings(families=("gaussian",))
        raced = (race(rows, 90_000, 0, cells=cells, settings=gaussian) for cells in (False, True))
        errors.append([one.best_global.error for one in raced])
    alone, before_cells = np.transpose(errors)
    assert (alone <= before_cells + 1e-6).all()
    assert (alone < 0.99 * before_cells).any()


def few_of_many(n, seed=0):
    """A function of two of forty columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 40))
    y = np.sin(2.5 * X[:, 3]) * X[:, 7]
    y = y / y.std() + 0.6 * rng.normal(size=n)
    return Rows(X, y[:, np.newaxis] / y.std(), np.ones(n))


@pytest.mark.parametrize("family", ["laplacian", "matern", "gaussian"])
def test_trees_tell_which_of_many_columns_matter(family):
    gains = np.full(40, 0.03)
    gains[[3, 7]] = 1.0
    pilots = [Pilots(few_of_many(400), 1.0, 1, 20, 200) for _ in range(3)]
    alone, told, misled = (
        its.best(FAMILIES[family], 4, 64, 40, given)
        for its, given in zip(pilots, (None, gains, 1.03 - gains), strict=True)
    )
    assert told.error < 0.9 * alone.error
    assert any("gains of trees" in entry["metric"] for entry in pilots[1].table)
    # What does not help for sure is not used.
    assert (misled.error, misled.name, misled.length) == (alone.error, alone.name, alone.length)
    # Maps that drop constant columns get the gains of the others.
    rows = few_of_many(400)
    rows = Rows(np.insert(rows.X, 5, 2.0, axis=1), rows.targets, rows.weights)
    other = Pilots(rows, 1.0, 1, 20, 200)
    assert (
        other.best(FAMILIES[family], 4, 64, 40, np.insert(gains, 5, 0.0)).error < 0.9 * alone.error
    )
    assert any("gains of trees" in entry["metric"] for entry in other.table)
    # Maps that add columns get none.
    added = other.plain._replace(map=Affine(np.zeros(41), np.ones((41, 82))))
    assert other._behind_gains(added, np.insert(gains, 5, 0.0), 4, np.inf) == []


def test_trees_that_tell_are_those_of_the_model(monkeypatch):
    rows, told = few_of_many(600), []
    settings = QUICK._replace(race=QUICK.race._replace(many=40))
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    raced, grow = default_learner.race, TreesPart.grown
    calls = []

    def noted(*args, gains=None, **more):
        told.append(gains)
        return raced(*args, gains=gains, **more)

    def counted(*args, **more):
        calls.append(grow(*args, **more))
        return calls[-1]

    monkeypatch.setattr(default_learner, "race", noted)
    monkeypatch.setattr(TreesPart, "grown", counted)
    model = KernelRegressor(random_state=0).fit(rows.X, rows.targets[:, 0])
    assert len(rows.X) > settings.few
    assert len(calls) == 1
    assert told[0] is calls[0].map.gains
    # Trees that are grown again are the same.
    with monkeypatch.context() as patch:
        patch.setattr(Rows, "equals", lambda self, other: False)
        again = KernelRegressor(random_state=0).fit(rows.X, rows.targets[:, 0])
    assert len(calls) == 3
    assert_array_equal(again.predict(rows.X), model.predict(rows.X))
    # With fewer columns, or so few rows that all are points, trees are not asked.
    KernelRegressor(random_state=0).fit(rows.X[:, :39], rows.targets[:, 0])
    KernelRegressor(random_state=0).fit(rows.X[: settings.few], rows.targets[: settings.few, 0])
    assert told[2:] == [None, None]


def test_codes_race_as_indicators_and_skewed_columns_as_ranks():
    rng = np.random.default_rng(0)
    codes, skewed = rng.integers(0, 6, 500), np.exp(3.0 * rng.normal(size=500))
    effect = rng.normal(size=6)  # of a code: nothing that its order would tell
    y = effect[codes] + np.tanh(np.log(skewed))
    rows = Rows(np.column_stack([codes, skewed]), y[:, np.newaxis], np.ones(500))
    contest = race(rows, 500, 0)
    tried = {(e["family"], e["metric"].split(",")[0]) for e in contest.table}
    assert {("laplacian", "one-hot"), ("matern", "one-hot")} <= tried
    assert ("laplacian", "normal scores") in tried
    # Without codes there is nothing to split.
    plain = race(Rows(rows.X[:, 1:], rows.targets, rows.weights), 500, 0)
    assert "one-hot" not in {e["metric"] for e in plain.table}


def test_what_comes_decides_whether_cells_race():
    # None, if no more rows come than each part may have as points: whatever is raced on.
    few = race(made_rows(250), 290, 0, settings=FEW)
    many = race(made_rows(250), 400, 0, settings=FEW)
    assert few.exact
    assert not many.exact
    assert not few.cells
    assert many.cells
    whole = [{e["family"] for e in one.table if e["form"] == "global"} for one in (few, many)]
    assert whole == [set(FAMILIES), set(FAMILIES)]


def test_families_that_are_hopeless_do_not_race_with_cells():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    line = Rows(X, X @ np.array([[1.0], [-2.0], [0.5]]), np.ones(900))
    assert race(line, 900, 0, settings=FEW).cells == ()  # nothing comes near a straight line
    steps = Rows(X, np.sign(X[:, :1]) + np.sign(X[:, 1:2] - 0.5), np.ones(900))
    everyone = race(steps, 900, 0, settings=FEW._replace(hopeless=np.inf)).table
    some = race(steps, 900, 0, settings=FEW._replace(hopeless=1.1)).table
    families = [{e["family"] for e in one if e["form"] == "cells"} for one in (everyone, some)]
    assert families[0] == {"laplacian", "matern", "gaussian"}
    assert families[1] < families[0]


@pytest.mark.parametrize(("deviations", "n_families"), [(0.0, 1), (9.0, 3)])
def test_families_of_cells_that_may_be_as_good_go_on(deviations, n_families, monkeypatch):
    monkeypatch.setitem(
        race.__globals__,
        "CellPilot",
        lambda length, ridge, error, _: CellPilot(length, ridge, error, deviations * error),
    )
    X = np.random.default_rng(0).normal(size=(900, 3))
    steps = Rows(X, np.sign(X[:, :1]) + np.sign(X[:, 1:2] - 0.5), np.ones(900))
    found = race(steps, 900, 0, settings=FEW._replace(hopeless=np.inf, near=1.0))
    assert len(found.cells) == n_families


def test_families_that_lose_are_not_trained():
    rows = made_rows(600)
    contest = race(rows, 600, 0)
    errors = [one.error for one in contest.finalists]
    assert errors == sorted(errors)
    assert errors[-1] <= 1.15 * errors[0]
    assert len({one.family for one in contest.finalists}) == len(errors) <= 3
    line = Rows(rows.X, rows.X @ np.array([[1.0], [-2.0], [0.5]]), rows.weights)
    assert race(line, 600, 0).best_global.family == "linear"


def test_only_families_that_are_asked_for_race():
    table = race(made_rows(200), 200, 0, settings=FEW._replace(families=("matern",))).table
    assert {entry["family"] for entry in table} == {"matern"}


# -- what it finds --------------------------------------------------------------------------------


def test_columns_that_do_not_matter_are_weighed_down():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 20))
    y = np.sin(2.0 * X[:, [3]]) + X[:, [11]] ** 2 + 0.05 * rng.normal(size=(600, 1))
    contest = race(Rows(X, y, np.ones(600)), 600, 0)
    assert contest.best_global.metric.endswith((", relevance", ", full metric"))
    scales = np.linalg.norm(
        contest.best_global.map(np.eye(20) * X.std(axis=0))
        - contest.best_global.map(np.zeros((20, 20))),
        axis=1,
    )  # of steps of one deviation, behind ranks about as much
    others = np.delete(scales, [3, 11])
    assert others.max() < 0.5 * scales[[3, 11]].min()
    plain = min(e["error"] for e in contest.table if e["metric"] == "standardized")
    assert contest.best_global.error < 0.8 * plain
    # So the model does better than one that was told the columns count alike.
    test = rng.normal(size=(500, 20))
    truth = np.sin(2.0 * test[:, 3]) + test[:, 11] ** 2
    raced = KernelRegressor(random_state=0).fit(X, y[:, 0]).predict(test)
    alike = KernelRegressor(kernel=Gaussian(3.0), random_state=0).fit(X, y[:, 0]).predict(test)
    assert np.mean((raced - truth) ** 2) < 0.5 * np.mean((alike - truth) ** 2)


@pytest.mark.parametrize(
    ("task", "n"), [("regression", 120), ("regression", 320), ("classification", 320)]
)
def test_units_do_not_matter(task, n, monkeypatch):
    race = RaceSettings(small=300, pilot_rows=100, cell_rows=60, kept_rows=80)
    monkeypatch.setattr(DefaultLearner, "settings", QUICK._replace(race=race))
    rows, test = made_rows(n), made_rows(50, seed=1).X
    y = rows.targets[:, 0] if task == "regression" else rows.targets[:, 0] > 0.3
    cls = KernelRegressor if task == "regression" else KernelClassifier

    def values(scale, shift=0.0):
        model = cls(random_state=0).fit(rows.X * scale + shift, y)
        name = "predict" if task == "regression" else "decision_function"
        return getattr(model, name)(test * scale + shift)

    # Rounding of another scale is magnified by weak ridges.
    expected = values(1.0)
    assert_allclose(values(1e3), expected, atol=1e-4)
    assert_allclose(values(0.25), expected, atol=1e-4)
    assert_allclose(values(1.0, 16.0), expected, atol=1e-4)
    # Columns of one unit may also be left as they are; of different units they are not.
    uneven = np.array([1e-6, 1.0, 1e6])
    assert_allclose(values(uneven), values(uneven[::-1]), atol=1e-4)


def test_the_bias_grows_with_the_distance_of_the_targets_from_zero():
    near, far = race(made_rows(80), 80, 0), race(made_rows(80, offset=1000.0), 80, 0)
    assert near.constant == 1.0
    rows = made_rows(80, offset=1000.0)
    share = rows.weights / rows.weights.sum()
    mean = share @ rows.targets[:, 0]
    spread = np.sqrt(share @ (rows.targets[:, 0] - mean) ** 2)
    assert_allclose(far.constant, min(mean / spread, 300.0))
    moderate = race(made_rows(80, offset=20.0), 80, 0).constant
    assert 10.0 < moderate < 30.0
    kernel = global_kernel(far.best_global.map, Gaussian(1.0), far.constant)
    assert isinstance(kernel, Mapped)
    assert kernel.kernel.right == Bias(far.constant)
    assert global_kernel(near.best_global.map, Gaussian(1.0), near.constant).kernel.right == Bias(
        0.1
    )


def test_the_race_sees_no_row_beyond_the_first(monkeypatch):
    race_settings = QUICK.race._replace(small=200)
    settings = QUICK._replace(first_rows=400, most_held=100, race=race_settings)
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    rows = made_rows(900)
    seen = []

    def watched(some, n_rows, seed, **more):
        seen.append(some.X)
        return race(some, n_rows, seed, **more)

    monkeypatch.setattr(default_learner, "race", watched)
    X, y = rows.X, rows.targets[:, 0]
    models = [
        KernelRegressor(shuffle=False).fit(X, y),
        KernelRegressor(expansion=Auto(expected_rows=900)).partial_fit(X, y),
        KernelRegressor(expansion=Auto(expected_rows=900)).partial_fit(X[:50], y[:50]),
    ]
    models[2].partial_fit(X[50:], y[50:])
    first = {row.tobytes() for row in X[:400]}
    assert len(seen) == 3
    for raced in seen:
        assert {row.tobytes() for row in raced} < first
    # What comes later does not change what was found.
    other = y.copy()
    other[400:] = 0.0
    twin = KernelRegressor(shuffle=False).fit(X, other)
    assert twin.race_ == models[0].race_
    for model in models[1:]:
        assert model.race_ == models[0].race_


def test_the_race_has_no_order(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", Settings(race=FEW))
    # Rows of a stream are shuffled before, so that those that judge are like the others.
    rows = made_rows(500)
    order = np.argsort(rows.X[:, 0])
    X, y = rows.X[order], rows.targets[order, 0]
    model = KernelRegressor(expansion=Auto()).partial_fit(X, y)
    model.predict(X[:1])
    judged = min(entry["error"] for entry in model.race_)
    assert judged < 0.5 * y.var()


def test_a_small_budget_races_on_fewer_rows(monkeypatch):
    sizes = []

    def watched(some, n_rows, seed, **more):
        sizes.append(len(some))
        return race(some, n_rows, seed, **more)

    monkeypatch.setattr(default_learner, "race", watched)
    monkeypatch.setattr(DefaultLearner, "settings", Settings(hasty_rows=100))
    rows = made_rows(300)
    for budget in (None, 10.0, 1.0):
        KernelRegressor(expansion=Auto(budget_seconds=budget)).fit(rows.X, rows.targets[:, 0])
    assert sizes == [300, 300, 100]


@pytest.mark.parametrize("questions", [1, 7])
def test_there_are_two_races_each_time_the_rows_double(questions, monkeypatch):
    raced = []

    def watched(some, n_rows, seed, **more):
        raced.append(len(some))
        return race(some, n_rows, seed, **more)

    monkeypatch.setattr(default_learner, "race", watched)
    rows = made_rows(100)
    model = KernelRegressor(expansion=Auto(refresh=0.0))
    for i in range(0, 98, questions):
        model.partial_fit(rows.X[i : i + questions], rows.targets[i : i + questions, 0])
        model.predict(rows.X[:1])
    points = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]
    assert raced == (points if questions == 1 else [6, 12, 16, 24, 32, 48, 64, 96])


@pytest.mark.parametrize("n_rows", [300_000, 1_000_000])
def test_more_memory_makes_no_fewer_cells(n_rows):
    allocation, powers = Allocation(made_rows(10), n_rows, Auto(), classes=False), range(22, 36)
    found = [allocation._cell_sizes(8, 2**power) for power in powers]
    most = [sizes.most for sizes in found]
    assert most == sorted(most)
    assert most[-1] == max(1024, int(1.25 * (n_rows // 400)))  # all rows are kept
    for power, sizes in zip(powers, found, strict=True):
        assert sizes.most * 4 * sizes.size**2 <= 2**power


@pytest.mark.parametrize(("n_rows", "n_cells"), [(500, 2), (90_000, 225), (700_000, 1750)])
def test_cells_are_as_many_as_the_rows_need(n_rows, n_cells):
    allocation = Allocation(made_rows(10), n_rows, Auto(), classes=False)
    assert allocation.n_cells() == n_cells


@pytest.mark.parametrize(
    ("classes", "elsewhere", "sizes"),
    [
        (False, False, [1000, 1000, 1000]),
        (True, False, [1000, 2000, 2000]),
        (False, True, [1000, 1000, 4500]),
        (True, True, [1000, 2000, 4500]),
    ],
)
def test_pilots_grow_with_the_rows(classes, elsewhere, sizes):
    found = [
        Settings().for_many(n, classes=classes, elsewhere=elsewhere).race.pilot_rows
        for n in (99_999, 100_000, 10**7)
    ]
    assert found == sizes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pilots_of_many_rows_are_larger_for_several_classes(n_classes, monkeypatch):
    quick = Settings().race._replace(pilot_rows=100)
    settings = Settings(pilots_of_classes=(250, 200), race=quick)
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    asked = []

    def told(*given, settings, **named):
        asked.append(settings.pilot_rows)
        return race(*given, settings=settings, **named)

    monkeypatch.setattr(default_learner, "race", told)
    X = np.random.default_rng(0).standard_normal((300, 2))
    KernelClassifier(random_state=0).fit(X, np.digitize(X[:, 0], [0.0, 0.5][: n_classes - 1]))
    assert asked == [100 if n_classes == 2 else 200]
