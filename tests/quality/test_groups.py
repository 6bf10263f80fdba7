"""Rows that are not independent: groups, time, and rows that repeat are held out together."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
    make_moons,
    make_regression,
    make_s_curve,
)
from sklearn.model_selection import GroupKFold, cross_val_score

from mercer import KernelClassifier, KernelRegressor
from mercer.columns import TablePreprocessor
from mercer.default.learner import DefaultLearner, GradientsOfRows
from mercer.default.targets import Judged
from mercer.estimators.inputs import say_if_alike
from mercer.exceptions import DependentRowsWarning
from mercer.expansions import Auto
from mercer.kernels import Gaussian
from mercer.losses import Logistic, Squared
from mercer.model_file import load_model, save_model
from mercer.selection import (
    FEWEST_GROUPS,
    columns_of_groups,
    group_order,
    half_life,
    repeats,
    stack,
)
from mercer.selection.race import Pilots
from mercer.sums import CellsPart, GlobalPart, Rows, TreesPart
from mercer.sums.ridge import RIDGES, ExactRidge
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining
from mercer_app.training._row_stream import RowStream

pytestmark = pytest.mark.usefixtures("quickest_race")


def subjects(n: int, each: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of subjects who have two numbers and an effect of their own."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n), each)
    own, effect = rng.normal(size=(n, 2)), rng.normal(size=n)
    X = np.column_stack([own[of], rng.normal(size=of.size)])
    return X, effect[of] + 0.3 * X[:, 2] + 0.3 * rng.normal(size=of.size), of


def in_groups(sizes: list[int], seed: int = 0) -> Rows:
    """Rows of groups of so many."""
    rng, n = np.random.default_rng(seed), sum(sizes)
    groups = np.repeat(rng.permutation(len(sizes)), sizes).astype(np.int64)
    X = rng.normal(size=(n, 2))
    return Rows(X, np.sin(X[:, :1]), np.ones(n), groups=groups)


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_divides_a_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = in_groups(rng.integers(1, 9, size=rng.integers(2, 12)).tolist(), seed)
    assert rows.groups is not None
    for at in range(len(rows) + 1):
        for least in (0, 1):
            cut = rows.whole(at, least)
            assert not set(rows.groups[:cut]) & set(rows.groups[cut:])
            assert cut >= least or at == 0
    assert [len(set(rows.groups[a:b])) for a, b in pairwise(rows.ends)] == [1] * (
        len(rows.ends) - 1
    )


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_group_become_neighbours_and_large_groups_come_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.r_[rng.integers(0, 30, size=200), np.full(90, 77)]
    order = group_order(rng.permutation(290), groups)
    assert_array_equal(np.sort(order), np.arange(290))
    assert np.count_nonzero(np.diff(groups[order])) == np.unique(groups).size - 1
    assert groups[order[0]] == 77


def test_values_of_a_group_are_those_of_a_fit_without_it() -> None:
    rows = in_groups([3, 5, 2, 7, 4, 6])
    part = GlobalPart(Gaussian(1.0), rows.X, 1)
    values = part.solve_exactly(rows, len(rows))
    ridge = float(RIDGES[part.ridge])
    for first, last in pairwise(rows.ends):
        kept = np.r_[:first, last : len(rows)]
        exact = ExactRidge(part.kernel(rows.X[kept]), rows.targets[kept], np.ones(kept.size))
        fit = exact.fit(ridge * len(rows) / kept.size)
        assert fit is not None
        there = part.kernel(rows.X[first:last], rows.X[kept])
        assert_allclose(values[first:last], fit.values(there), rtol=1e-4, atol=1e-6)
    sums = GlobalPart(Gaussian(1.0), rows.X, 1).solve_without(rows)
    assert np.abs(sums - rows.targets).mean() > 1e-6


def test_halves_of_a_race_have_groups_of_their_own() -> None:
    rows = in_groups([9] * 12)
    pilots = Pilots(rows, 1.0, 1, 20, 50)
    assert pilots._fitted.groups is not None
    assert pilots._judges.groups is not None
    assert not set(pilots._fitted.groups) & set(pilots._judges.groups)


def test_trees_are_judged_by_groups_that_they_were_not_grown_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = in_groups([40] * 9)
    seen = []
    grown = TreesPart.grown

    def noted(others: Rows, *arguments: Any, **options: Any) -> Any:
        seen.append(set(others.groups))  # type: ignore[arg-type]
        return grown(others, *arguments, **options)

    part = TreesPart.grown(rows, n_trees=5)
    monkeypatch.setattr(TreesPart, "grown", noted)
    part.solve_few(rows, 360)
    everyone = set(rows.groups)  # type: ignore[arg-type]
    assert [len(everyone - others) for others in seen] == [3, 3, 3]
    assert set.union(*(everyone - others for others in seen)) == everyone


def test_folds_of_a_correction_are_whole_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    class Targets:
        corrects, n_outputs = True, 1

        def __call__(self, rows: Rows) -> Rows:
            return rows

        def correction(self, rows: Rows, *_: Any) -> Any:
            learned.append(set(rows.groups))  # type: ignore[arg-type]
            return lambda X, values: values

    class Function:
        kernel_of_inputs = level = None

    rows, learned = in_groups([7, 5, 9, 4, 8, 6]), []
    assert rows.groups is not None
    Judged.of(rows, rows.targets).held_out(Targets(), Function())  # type: ignore[arg-type]
    everything = set(rows.groups)
    held = [everything - each for each in learned]
    assert sum(map(len, held)) == len(everything) == len(set().union(*held))


# -- rows that repeat ------------------------------------------------------------------------------


@pytest.mark.parametrize("of_classes", [False, True])
@pytest.mark.parametrize("times", [2, 5])
def test_rows_that_repeat_are_found(times: int, of_classes: bool) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    y = np.sign(y) if of_classes else y
    drawn = rng.permutation(np.repeat(np.arange(100), times))
    found = repeats(X[drawn], y[drawn])
    assert found is not None
    same = found[:, np.newaxis] == found
    assert_array_equal(same, drawn[:, np.newaxis] == drawn)


@pytest.mark.parametrize(
    "data", [load_iris, load_wine, load_diabetes, load_breast_cancer], ids=lambda d: d.__name__[5:]
)
def test_ordinary_tables_have_no_copies(data: Any) -> None:
    X, y = data(return_X_y=True)
    found = repeats(X, np.asarray(y, dtype=float)[:, np.newaxis])
    # One flower of iris stands there twice, in a table of few values.
    assert found is None


@pytest.mark.parametrize("levels", [(2, 3, 4), (10,), (3, 3, 3, 3)])
@pytest.mark.parametrize("n", [50, 2000])
def test_rows_of_few_values_that_repeat_by_chance_are_no_copies(
    levels: tuple[int, ...], n: int
) -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, each, size=n) for each in levels]).astype(float)
    y = np.sign(X[:, :1] - 0.5 + rng.normal(size=(n, 1)))
    assert repeats(X, y) is None


def test_copies_are_held_out_together() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.permutation(np.repeat(np.arange(60), 4))
    X, y = rng.normal(size=(60, 3))[drawn], rng.normal(size=60)[drawn]
    model = KernelRegressor(random_state=0).fit(X, y)
    held = model.held_out_
    assert held is not None
    assert held.groups is not None
    for number in np.unique(held.groups):
        assert np.unique(held.y[held.groups == number]).size == 1
    copies = model.held_out_.scores  # noise that no copy gave away
    assert np.corrcoef(copies[:, 0], held.y)[0, 1] < 0.5
    low, high = model.predict_interval(rng.normal(size=(2000, 3))).T
    new = rng.normal(size=2000)
    assert np.mean((low <= new) & (new <= high)) > 0.85


# -- groups ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grouped() -> tuple[KernelRegressor, Any, Any, Any]:
    X, y, of = subjects(50, 10, 0)
    drawn = np.random.default_rng(0).permutation(len(y))
    X, y, of = X[drawn], y[drawn], of[drawn]
    return KernelRegressor(random_state=0).fit(X, y, groups=of), X, y, of


def test_groups_are_judged_whole(grouped: Any) -> None:
    model, X, _, of = grouped
    held = model.held_out_
    names = dict(zip(X[:, 2].tolist(), of.tolist(), strict=True))
    theirs = np.array([names[value] for value in held.X[:, 2].tolist()])
    assert_array_equal(theirs[:, np.newaxis] == theirs, held.groups[:, np.newaxis] == held.groups)
    assert model.block_length_ == 1


def test_intervals_hold_new_subjects(grouped: Any) -> None:
    # 2,000 subjects: the standard error is .7 %, beside that of the rows learned, some 4 %.
    Z, z, _ = subjects(2000, 1, 1)
    low, high = grouped[0].predict_interval(Z, 0.9).T
    assert 0.83 < np.mean((low <= z) & (z <= high)) < 0.98


def test_a_file_keeps_the_groups(grouped: Any, tmp_path: Any) -> None:
    model, X, *_ = grouped
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert_array_equal(again.held_out_.groups, model.held_out_.groups)
    assert_array_equal(again.predict_interval(X[:5]), model.predict_interval(X[:5]))


def test_too_few_groups_for_a_coverage_are_refused(grouped: Any) -> None:
    with pytest.raises(ValueError, match="of new groups needs at least 99 groups"):
        grouped[0].predict_interval(np.zeros((1, 3)), 0.99)


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table], ids=["pandas", "arrow"])
def test_a_column_of_groups_is_no_input(make: Any, grouped: Any, tmp_path: Any) -> None:
    model, X, y, of = grouped
    table = make({"who": [f"p{n}" for n in of], **{f"x{i}": X[:, i] for i in range(3)}})
    found = KernelRegressor(random_state=0).fit(table, y, groups="who")
    assert found.n_features_in_ == 3
    assert_array_equal(found.predict(table), model.predict(X))
    save_model(found, tmp_path / "model")
    assert_array_equal(load_model(tmp_path / "model").predict(table), model.predict(X))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(30), "one value for each of the 60 rows"),
        (np.r_[np.nan, np.arange(59.0)], "no value in 1 of 60 rows, first in row 0"),
        ([None, *range(59)], "no value in 1 of 60 rows"),
        (np.zeros(60), "1 group among"),
        (np.arange(60) % (FEWEST_GROUPS - 1), f"{FEWEST_GROUPS - 1} groups among"),
        ("who", "the rows are no table"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: Any, message: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=message):
        KernelRegressor().fit(X, X[:, 0], groups=groups)


def test_nothing_is_ignored() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    of = np.arange(60) // 2
    with pytest.raises(ValueError, match="were both given"):
        KernelRegressor().fit(X, X[:, 0], groups=of, time=of)
    for expansion in ("komp", "dictionary", "random_features"):
        with pytest.raises(ValueError, match="only the default expansion does"):
            KernelClassifier(expansion=expansion).fit(X, X[:, 0] > 0, groups=of)
    with pytest.raises(ValueError, match="names no column"):
        KernelRegressor().fit(pd.DataFrame(X, columns=["a", "b"]), X[:, 0], groups="who")
    with pytest.raises(ValueError, match="must be numbers, dates or ISO text"):
        KernelRegressor().fit(X, X[:, 0], time=["spring"] * 60)


def test_groups_are_routed_by_meta_estimators() -> None:
    X, y, of = subjects(16, 5, 0)
    with config_context(enable_metadata_routing=True):
        model = KernelRegressor(random_state=0).set_fit_request(groups=True)
        scores = cross_val_score(model, X, y, cv=GroupKFold(2), params={"groups": of})
    assert np.isfinite(scores).all()


# -- time ------------------------------------------------------------------------------------------


def test_the_last_rows_in_time_judge() -> None:
    rng, n = np.random.default_rng(0), 300
    X = np.column_stack([np.arange(n), rng.normal(size=n)])
    y = np.sin(X[:, 0] / 40.0) + X[:, 1] + 0.1 * rng.normal(size=n)
    drawn = rng.permutation(n)
    days = np.datetime64("2020-01-01") + X[drawn, 0].astype("timedelta64[D]")
    model = KernelRegressor(random_state=0).fit(X[drawn], y[drawn], time=days)
    held = model.held_out_
    assert held is not None
    assert_array_equal(held.X[:, 0], np.arange(n - n // 5, n))
    assert model.block_length_ == min(50, n // 20)


def test_of_many_rows_the_last_in_time_stay_last_and_the_others_in_blocks() -> None:
    n, rng = 3000, np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    learner = KernelRegressor(random_state=0).fit(X, X[:, 0]).learner_
    learner.n_rows = n
    ranked = rng.permutation(n)
    found = learner._before_last(ranked, rng.permutation(n), 50)
    assert_array_equal(np.sort(found), np.arange(n))
    assert_array_equal(found[-600:], ranked[-600:])
    places = np.argsort(ranked)[found][:2400].reshape(-1, 50)
    assert (np.diff(places, axis=1) == 1).all()
    assert (np.diff(places[:, 0]) < 0).any()


def changing(n: int, seed: int, turns: float, *, told: bool = False) -> tuple[Any, Any]:
    """Rows whose law turns by so many quarter turns; ``told`` adds a column that tells the time."""
    rng, time = np.random.default_rng(seed), np.arange(n) / n
    X = rng.normal(size=(n, 3))
    angle = 0.5 * np.pi * turns * time
    y = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.3 * rng.normal(size=n)
    return (np.column_stack([X, time]) if told else X), y


@pytest.mark.parametrize("seed", range(3))
def test_old_rows_count_less_only_where_the_law_changes(seed: int) -> None:
    n = 1200

    def found(X: Any, y: Any) -> float:
        return half_life(Rows(X, y[:, np.newaxis], np.ones(n)), 0)

    X, y = changing(n, seed, 2.0)
    assert n / 32 <= found(X, y) <= n / 4
    drawn = np.random.default_rng(seed).permutation(n)
    assert np.isinf(found(X[drawn], y[drawn]))
    assert np.isinf(found(*changing(n, seed, 0.0)))
    assert np.isinf(found(*changing(n, seed, 2.0, told=True)))


@pytest.mark.parametrize("task", [KernelRegressor, KernelClassifier])
def test_later_rows_are_predicted_by_the_law_of_the_last_rows(task: Any) -> None:
    n, errors = 800, []
    for seed in range(4):  # a race of few rows finds the law in most of the draws
        X, y = changing(1000, seed, 2.0)
        y = y if task is KernelRegressor else np.sign(y)
        for told in (None, np.arange(n)):
            model = task(random_state=0).fit(X[:n], y[:n], time=told)
            errors.append(np.mean((model.predict(X[n:]) - y[n:]) ** 2))
    untold, told_too = np.exp(np.mean(np.log(np.reshape(errors, (4, 2))), axis=0))
    assert told_too < 0.7 * untold


def test_where_the_law_stays_time_costs_nothing() -> None:
    X, y = changing(1000, 1, 0.0)
    told, untold = (
        KernelRegressor(random_state=0).fit(X[:800], y[:800], time=time)
        for time in (np.arange(800), None)
    )
    errors = [np.mean((model.predict(X[800:]) - y[800:]) ** 2) for model in (told, untold)]
    assert errors[0] < 1.05 * errors[1]


def test_the_last_rows_judge_parts_that_have_learned_them() -> None:
    """A level of the last fifth only is learned, while its errors are those of a surprise."""
    rng, n = np.random.default_rng(0), 1000
    X = np.column_stack([np.arange(n), rng.normal(size=n)])
    y = X[:, 1] + 5.0 * (X[:, 0] >= 800) + 0.1 * rng.normal(size=n)
    model = KernelRegressor(random_state=0).fit(X, y, time=X[:, 0])
    held = model.held_out_
    assert_array_equal(held.X[:, 0], np.arange(800, n))
    assert np.mean(np.abs(held.scores[:, 0] - held.y)) > 3.0
    late = np.column_stack([np.full(50, n - 1), rng.normal(size=50)])
    assert np.mean(np.abs(model.predict(late) - late[:, 1] - 5.0)) < 1.0


def test_later_rows_choose_the_ridge_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(CellsPart, "keep_ridge", lambda part: kept.append(part))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(2600, 2))
    y = np.sin(20.0 * X[:, 0] * X[:, 1]) + 0.05 * rng.normal(size=len(X))
    for time, n_kept in ((None, 1), (np.arange(len(X)), 0)):
        model = KernelRegressor(expansion=Auto(block_length=1), random_state=0)
        model.fit(X, y, time=time)
        assert "cells" in {part.form for part in model.parts_}
        assert min(len(kept), 1) == n_kept
        kept.clear()


def falling(n: int) -> tuple[Any, Any]:
    """Rows in time whose targets fall from 100 to 60 in the last fifth."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(n), rng.normal(size=n)])
    return X, 100.0 + X[:, 1] - 40.0 * (X[:, 0] >= 0.8 * n) + 0.3 * rng.normal(size=n)


def test_errors_of_many_rows_in_time_are_those_of_a_surprise_after_all_are_learned(
    tmp_path: Any,
) -> None:
    X, y = falling(2400)
    model = KernelRegressor(random_state=0).fit(X, y, time=X[:, 0])
    save_model(model, tmp_path / "m")
    for one in (model, load_model(tmp_path / "m")):
        held = one.held_out_
        assert_array_equal(held.X[:, 0], np.arange(1920, 2400))
        assert np.mean(held.scores[:, 0] - held.y) > 10.0
    late = X[2100:]
    assert np.mean(np.abs(model.predict(late) - y[2100:])) < 2.0
    low, high = model.predict_interval(late).T
    assert np.mean(high - low) > 10.0


@pytest.mark.parametrize("told", [True, False])
def test_errors_in_time_have_no_level_of_the_rows_that_judge(told: bool) -> None:
    X, y = falling(2400)
    X = X if told else X[:, [1, 1]]  # then old rows fade
    model = KernelRegressor(random_state=0).fit(X, y, time=np.arange(2400))
    assert told or model.learner_.waiting.weights.min() < 0.01
    held = model.held_out_
    assert np.mean(held.scores[:, 0] - held.y) > 38.0
    low, high = model.predict_interval(X[:50]).T
    assert np.mean(high - low) > 60.0


@pytest.mark.parametrize("in_time", [True, False])
def test_an_interrupted_level_is_found_anew(monkeypatch: Any, in_time: bool) -> None:
    X, y = falling(2800)

    def model() -> KernelRegressor:
        time = {"time": X[:2200, 0]} if in_time else {}
        found = KernelRegressor(random_state=0).fit(X[:2200], y[:2200], **time)
        return found.partial_fit(X[2200:], y[2200:])

    right = model().predict(X)
    find = DefaultLearner._find_level

    def interrupted(self: Any, *args: Any, **more: Any) -> Any:
        monkeypatch.setattr(DefaultLearner, "_find_level", find)
        raise KeyboardInterrupt

    other = model()
    monkeypatch.setattr(DefaultLearner, "_find_level", interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.predict(X[:5])
    assert_array_equal(other.predict(X), right)


def test_an_interrupted_second_solution_is_begun_anew(monkeypatch: Any) -> None:
    X, y = falling(2800)
    model = KernelRegressor(random_state=0).fit(X[:2200], y[:2200], time=X[:2200, 0])
    model.partial_fit(X[2200:], y[2200:])
    solve, calls = DefaultLearner._solve_gathered, []

    def interrupted(self: Any, rows: Any, *, now: bool) -> Any:
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return solve(self, rows, now=now)

    monkeypatch.setattr(DefaultLearner, "_solve_gathered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.predict(X[:5])
    assert np.mean(np.abs(model.predict(X) - y)) < 2.0
    assert len(calls) == 4


def test_newton_steps_in_time_do_not_learn_the_rows_that_judge_them(monkeypatch: Any) -> None:
    X, y = falling(2400)
    y = X[:, 1] > 0.3 * np.sin(X[:, 0] / 300.0)
    visited, judges = [], []

    class Seen(GradientsOfRows):
        def steps(self, size: int, n_passes: int, *, held: bool) -> Any:
            found = super().steps(size, n_passes, held=held)
            if not held:
                visited.extend(self.rows[np.concatenate(found)].X[:, 0])
                judges.extend(self.rows[np.arange(len(self.rows))[-self.n_held :]].X[:, 0])
            return found

    seen: dict[str, Any] = {}
    refine = DefaultLearner._refine

    def kept(self: Any, gradients: Any, held: Any) -> None:
        seen["held"] = held.X[:, 0]
        refine(self, gradients, held)

    monkeypatch.setattr("mercer.default.learner.GradientsOfRows", Seen)
    monkeypatch.setattr(DefaultLearner, "_refine", kept)
    KernelClassifier(kernel=Gaussian(4.0), random_state=0).fit(X, y, time=X[:, 0])
    assert visited
    assert not set(visited) & set(seen["held"])
    assert set(judges) == set(seen["held"])


def test_newest_rows_keep_their_weight_where_old_ones_lose_it() -> None:
    X, y = changing(1200, 0, 2.0)
    model = KernelRegressor(random_state=0).fit(X[:1000], y[:1000], time=np.arange(1000))
    weights = model.learner_.waiting.weights
    assert weights.max() == 1.0
    assert weights.min() < 0.1
    model.partial_fit(X[1000:], y[1000:])
    assert model.learner_.waiting.weights[-200:].min() == 1.0


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_a_block_counts_as_one_row_in_the_weights_of_parts(loss: Any) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(150, 1))
    parts = [y + rng.normal(size=y.shape) for _ in range(3)]
    codes = y if isinstance(loss, Squared) else np.sign(y)
    alone = stack(parts, codes, np.ones(150), loss)
    parts, codes = [np.repeat(part, 20, axis=0) for part in parts], np.repeat(codes, 20, axis=0)
    assert_allclose(stack(parts, codes, np.ones(3000), loss, 20), alone, rtol=1e-4)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def file_of(tmp_path: Any) -> Any:
    """Write rows of so many subjects, in the order of time, to a file."""

    def write(n: int, each: int = 8) -> Any:
        X, y, of = subjects(n, each, 0)
        table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=of, y=y)
        table = table.iloc[np.random.default_rng(0).permutation(len(table))]
        table.assign(who=[f"p{n}" for n in table.who]).to_csv(tmp_path / "rows.csv", index=False)
        return tmp_path / "rows.csv"

    return write


def test_the_command_holds_out_groups(file_of: Any, mercer: Any, tmp_path: Any) -> None:
    data, out = file_of(30), tmp_path / "m"
    code, _, err = mercer("fit", data, "--target", "y", "--group", "who", "--out", out)
    assert code == 0, err
    assert "held out together by groups of 'who'" in err
    model = load_model(out)
    assert model.preprocessor_.feature_names_in_ == ["a", "b", "c"]
    assert (model.roles_.target, model.roles_.group) == ("y", "who")
    held = model.held_out_
    assert np.count_nonzero(np.diff(held.groups)) == np.unique(held.groups).size - 1 == 29
    test = pd.read_csv(data).drop(columns="who")
    test.to_csv(tmp_path / "new.csv", index=False)
    for words in (["evaluate", out, tmp_path / "new.csv"], ["predict", out, tmp_path / "new.csv"]):
        written = (
            ["--out", tmp_path / "p.csv", "--interval", "0.9"] if words[0] == "predict" else []
        )
        code, _, err = mercer(*words, *written)
        assert code == 0, err


@pytest.mark.parametrize(
    ("n", "words", "message"),
    [
        (30, ["--shuffle-buffer", "50"], "are far apart in"),
        (4, [], "'who' has 4 groups"),
        (30, ["--expansion", "komp"], "`--group` is for rankings"),
        (30, ["--engine", "here"], "does not go together with `--engine here`"),
    ],
)
def test_groups_that_the_command_cannot_honour_are_refused(
    file_of: Any, mercer: Any, tmp_path: Any, n: int, words: list[str], message: str
) -> None:
    given = ["--target", "y", "--group", "who", "--out", tmp_path / "m", *words]
    code, _, err = mercer("fit", file_of(n), *given)
    assert code != 0
    assert message in " ".join(err.split())
    assert not (tmp_path / "m").exists()


# -- what is said ----------------------------------------------------------------------------------


def said_of(rows: Rows, names: list[str]) -> list[str]:
    """What is said of rows in their order."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        say_if_alike(rows, dict(zip(names, rows.X.T, strict=True)), names, 0)
    assert all(one.category is DependentRowsWarning for one in found)
    return [str(one.message) for one in found]


def coded(X: Any, y: Any) -> Rows:
    """Rows with numbers as targets, or codes of classes."""
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    codes = np.where(y[:, np.newaxis] == np.unique(y), 1.0, -1.0) if y.dtype.kind != "f" else y
    return Rows(X, codes.reshape(len(y), -1), np.ones(len(y)))


@pytest.mark.parametrize(
    "data",
    [load_iris, load_wine, load_diabetes, load_breast_cancer, load_digits, make_friedman1,
     make_moons, make_classification, make_regression, make_s_curve],
    ids=lambda data: data.__name__[5:],
)  # fmt: skip
def test_nothing_is_said_of_ordinary_tables(data: Any) -> None:
    made = data.__name__.startswith("make")
    X, y = data(500, random_state=0) if made else data(return_X_y=True)
    names = [f"x{number}" for number in range(X.shape[1])]
    if data is load_diabetes:
        y = y.astype(float)
    rows = coded(X, y)
    assert said_of(rows, names) == []
    for sorter in (X[:, 0], y, X[:, 1] > np.median(X[:, 1])):
        assert said_of(rows[np.argsort(sorter, kind="stable")], names) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("told_by", ["columns", "subject", "patient_id"])
def test_rows_that_look_like_groups_are_said(seed: int, shuffled: bool, told_by: str) -> None:
    X, y, of = subjects(50, 5, seed)
    X, names = (X, ["a", "b", "c"]) if told_by == "columns" else (
        np.column_stack([of, X[:, 2]]), [told_by, "c"]
    )  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(y)) if shuffled else np.arange(len(y))
    (said,) = said_of(coded(X, y)[order], names)
    assert f"Rows with the same '{names[0]}' are alike" in said
    assert f"`groups='{names[0]}'`" in said


def test_a_column_in_two_units_names_no_groups() -> None:
    rng = np.random.default_rng(0)
    minutes, other = rng.integers(0, 60, 600) / 10.0, rng.integers(0, 60, 600).astype(float)
    for unit in (0.17, -0.17, 0.05):  # the last one rounds two values to one
        columns = {"minutes": minutes, "charge": np.round(unit * minutes, 2), "other": other}
        assert columns_of_groups(columns) == {}
    known = columns_of_groups(
        {"who": minutes, "age": rng.permutation(60)[(minutes * 10).astype(int)]}
    )
    assert set(known) == {"who", "age"}  # each is constant where the other is


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["walk", "noise", "classes"])
def test_rows_that_look_like_a_series_are_said(seed: int, kind: str) -> None:
    rng, n = np.random.default_rng(seed), 300
    noise = np.zeros(n)
    for row in range(1, n):
        noise[row] = 0.85 * noise[row - 1] + rng.normal()
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + noise
    if kind == "walk":
        X, y = np.column_stack([np.arange(n), X[:, 0]]), np.cumsum(rng.normal(size=n))
    elif kind == "classes":
        y = noise > 0
    (said,) = said_of(coded(X, y), ["a", "b"])
    assert "Neighbouring rows are alike" in said
    assert "give `time`" in said
    assert said_of(coded(X, y)[rng.permutation(n)], ["a", "b"]) == []


def test_fit_and_the_command_say_how_to_mend(mercer: Any, tmp_path: Any) -> None:
    X, y, of = subjects(40, 5, 0)
    table = pd.DataFrame(X[:, 2:], columns=["a"]).assign(person=[f"p{n}" for n in of])
    with pytest.warns(DependentRowsWarning, match=r"give `groups='person'`"):
        KernelRegressor(random_state=0).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRegressor(random_state=0).fit(table, y, groups="person")
    table.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    code, _, err = mercer("fit", tmp_path / "rows.csv", "--target", "y", "--out", tmp_path / "m")
    assert code == 0, err
    assert err.count("Rows with the same 'person' are alike") == 1
    assert "give `--group person`" in err


# -- time in files ---------------------------------------------------------------------------------

_WRITTEN = {
    "numbers": lambda n: n * 3 - 7,
    "iso": lambda n: (pd.Timestamp("2024-01-31") + pd.to_timedelta(n, "D")).strftime("%Y-%m-%d"),
    "german": lambda n: (pd.Timestamp("2024-01-31") + pd.to_timedelta(n, "D")).strftime("%d.%m.%Y"),
    "compact": lambda n: (pd.Timestamp("2024-01-31") + pd.to_timedelta(n, "D")).strftime("%Y%m%d"),
    "time": lambda n: (pd.Timestamp("2024-01-31") + pd.to_timedelta(n, "h")).strftime(
        "%d %b %Y %H:%M"
    ),
    "durations": lambda n: [f"{k // 60}:{k % 60:02}:30" for k in n],
}


def in_time(n: int, written: str = "iso") -> pd.DataFrame:
    """Rows in the order of time, and their number as an input."""
    rng, number = np.random.default_rng(0), np.arange(n)
    a = rng.normal(size=n)
    y = a + np.sin(number / 30.0) + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"number": number, "a": a, "when": _WRITTEN[written](number), "y": y})


@pytest.fixture
def fit_in_time(mercer: Any, tmp_path: Any) -> Any:
    """Run ``mercer fit`` on rows in some order."""

    def fit(table: pd.DataFrame, *words: Any) -> tuple[int, str, Any]:
        data, out = tmp_path / "rows.csv", tmp_path / "m"
        table.sample(frac=1.0, random_state=0).to_csv(data, index=False)
        given = "fit", data, "--target", "y", "--include", "number", "--include", "a"
        code, _, err = mercer(*given, "--out", out, *words)
        return code, " ".join(err.split()), out

    return fit


@pytest.mark.parametrize("written", list(_WRITTEN))
def test_times_are_read_as_they_are_written(written: str) -> None:
    columns = TablePreprocessor(exclude=("y",))
    table = in_time(90, written)
    for source in (table, pa.Table.from_pandas(table)):
        times = TableRows(KernelRegressor(), columns, "y", time="when").times(source)
        assert (np.diff(times) > 0.0).all()


def test_the_command_lets_the_last_rows_judge(fit_in_time: Any) -> None:
    table = in_time(80)
    code, err, out = fit_in_time(table, "--time", "when")
    assert code == 0, err
    assert "in the order of 'when'; the last rows judge" in err
    model = load_model(out)
    assert model.learner_.in_time
    of = model.preprocessor_.feature_names_in_.index("number")
    X = model.preprocessor_.transform(table.drop(columns="y"), extra="drop")
    assert_array_equal(model.held_out_.X[:, of], X[-16:, of])


def test_a_column_of_times_stays_an_input(fit_in_time: Any, mercer: Any, tmp_path: Any) -> None:
    table = in_time(80).rename(columns={"when": "day"})
    code, err, out = fit_in_time(table, "--time", "day", "--include", "day")
    assert code == 0, err
    model = load_model(out)
    assert model.feature_names_in_.tolist() == ["number", "a", "day"]
    assert model.roles_.time == "day"
    assert TableRows.of(model).columns_ == ["number", "a", "day", "y"]
    table.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    code, _, err = mercer(
        "predict", out, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--interval", "0.9"
    )
    assert code == 0, err


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        ({}, ["--time", "hour"], "no column 'hour'"),
        ({"when": "spring"}, ["--time", "when"], "`--time` must be a column of dates, times or"),
        ({"when": [True, False] * 60}, ["--time", "when"], "`--time` must be a column of dates"),
        ({"when": [None, *range(119)]}, ["--time", "when"], "no value that can be read in 1 of"),
        ({}, ["--time", "y"], "`--time` and `--target` must be two columns"),
        ({}, ["--time", "when", "--group", "a"], "`--group` and `--time` were both given"),
        ({}, ["--time", "when", "--task", "rank"], "`--time` is for classifications and"),
        ({}, ["--time", "when", "--expansion", "komp"], "`--time` is for classifications and"),
        ({}, ["--time", "when", "--engine", "here"], "does not go together with `--engine here`"),
        ({}, ["--time", "when", "--shuffle-buffer", "0"], "out of the order of 'when' by more"),
    ],
)
def test_times_that_the_command_cannot_honour_are_refused(
    fit_in_time: Any, change: Any, words: list[str], message: str
) -> None:
    table = in_time(120).assign(**change)
    if words[-2:] == ["--shuffle-buffer", "0"]:
        table = pd.concat([table] * 80)
    code, err, out = fit_in_time(table, *words)
    assert code != 0
    assert message in err
    assert not out.exists()


def test_rows_of_files_come_in_blocks_and_the_last_in_order(tmp_path: Any) -> None:
    n = 3000
    table = in_time(n, "numbers")
    table.sample(frac=1.0, random_state=0).to_csv(tmp_path / "rows.csv", index=False)
    training = FileTraining(tmp_path / "rows.csv", "y", time="when", exclude=("when",)).start()
    stream = RowStream(
        tmp_path / "rows.csv", training.rows_, n_passes=1, seed=0, shuffle_buffer=65_536,
        rows_per_pass=None, rows_per_step=1,
    )  # fmt: skip
    numbers = np.concatenate([y for _, y, _ in stream.chunks(0, every=None)])
    where = {value: place for place, value in enumerate(table.y)}
    places = np.array([where[value] for value in numbers])
    assert_array_equal(np.sort(places), np.arange(n))
    assert_array_equal(places[-750:], np.arange(n - 750, n))
    assert np.mean(np.diff(places[:-750]) == 1) > 0.9
    assert np.count_nonzero(np.diff(places[:-750]) < 0) > 9


def test_tables_in_the_order_of_time() -> None:
    table = in_time(100)
    columns = TablePreprocessor(exclude=("y", "when"))
    rows = TableRows(KernelRegressor(random_state=0), columns, "y", time="when")
    rows.warm_up(table)
    for part in (table[:60], table[60:]):
        rows.partial_fit(part.sample(frac=1.0, random_state=0))
    held = rows.model.held_out_
    assert_array_equal(held.X[:, 0], rows.inputs(table, extra="drop")[-20:, 0])


def test_what_many_rows_are_is_no_copy():
    """A column that is 0 in most rows: new rows will be 0, too."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((600, 1)) < 0.85, 0.0, rng.normal(size=(600, 1)))
    assert repeats(X, X) is None
