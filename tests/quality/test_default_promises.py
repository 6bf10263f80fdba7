"""Promises of the default learner that a single bad choice would break."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mercer import KernelClassifier, KernelRegressor, compact, load_model
from mercer.default import DefaultLearner, Settings
from mercer.expansions import Auto
from mercer.functions.sum_of_components import (
    SumOfComponents,
    component_from_state,
    component_to_state,
)
from mercer.kernels import ChiSquared, Gaussian
from mercer.risks import CVaR
from mercer.selection import RaceSettings
from mercer.sums import CellsPart, GlobalPart, Rows, Trial
from quick import QUICKEST


def rows(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_random_labels_are_not_believed():
    """A metric made of the labels that judge it would look good, and weights grow with it."""
    losses = []
    for seed in range(4):
        X, test = rows(60, 30, seed), rows(2000, 30, 100 + seed)
        labels = np.random.default_rng(seed).integers(2, size=60)
        truth = np.random.default_rng(50 + seed).integers(2, size=2000)
        p = KernelClassifier(random_state=0).fit(X, labels).predict_proba(test)
        losses.append(-np.log(p[np.arange(2000), truth]).mean())
    assert np.mean(losses) < 0.85  # log 2 = 0.69; the same rows as judges gave 0.95 to 1.6


def test_a_target_of_noise_in_large_units_does_not_spoil_another():
    X, test = rows(300), rows(500, seed=1)
    noise = 1000.0 * np.random.default_rng(2).normal(size=300)
    joint = KernelRegressor(random_state=0).fit(X, np.column_stack([noise, np.sin(X[:, 0])]))
    error = np.mean((joint.predict(test)[:, 1] - np.sin(test[:, 0])) ** 2)
    assert error < 0.02  # 0.98 where errors are compared in the targets' own units


def test_every_chunk_of_a_long_fit_is_reported(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", Settings(chunk=1024))
    X, seen = rows(2500), []
    KernelRegressor(expansion=Auto(budget_seconds=1)).fit(X, X[:, 0], callback=seen.append)
    assert [progress.n_samples for progress in seen] == [1024, 2048, 2500]
    assert np.isfinite(seen[-1].loss)


def test_what_was_asked_before_does_not_change_what_a_stream_ends_with():
    X = rows(260)
    asked, silent = (KernelRegressor(expansion=Auto(refresh=0.5)) for _ in range(2))
    for model in (asked, silent):
        model.partial_fit(X[:250], np.sin(X[:250, 0]))
    asked.predict(X[:3])
    for model in (asked, silent):
        model.partial_fit(X[250:], np.sin(X[250:, 0]))
    asked.predict(X[:3])
    for model in (asked, silent):
        model.learner_.finish()
    np.testing.assert_array_equal(asked.predict(X), silent.predict(X))


def test_rows_that_a_kernel_cannot_take_are_refused_and_forgotten():
    X = np.abs(rows(50))
    model = KernelRegressor(kernel=ChiSquared()).partial_fit(X, X[:, 0])
    before = model.predict(X)
    with pytest.raises(ValueError, match="at least 0"):
        model.partial_fit(-X, X[:, 0])
    np.testing.assert_array_equal(model.predict(X), before)
    model.partial_fit(X, X[:, 0]).predict(X)


@pytest.mark.parametrize("spike", [0.0, 0.85])
def test_columns_of_one_value_mostly_cost_no_more_than_others(spike):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((2500, 1)) < spike, 0.0, rng.normal(size=(2500, 1)))
    model = KernelRegressor(random_state=0).fit(X, np.sin(3.0 * X[:, 0]))
    for part in model.learner_.function.components:
        if isinstance(part, CellsPart):
            assert max(cell.function.size for cell in part.cells) <= 2 * part.keeps
    assert model.score(X, np.sin(3.0 * X[:, 0])) > 0.99


def test_parts_that_are_worse_by_far_do_not_spoil_the_best():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3600, 2))
    y = np.sin(5.0 * X[:, 0]) * np.cos(7.0 * X[:, 1])
    model = KernelRegressor(random_state=0).fit(X[:3000], y[:3000])
    error = np.mean((model.predict(X[3000:]) - y[3000:]) ** 2)
    # Errors cancel each other in part; the best alone would do.
    parts = [part.evaluate(X[3000:])[:, 0] / part.weight for part in model.parts_]
    assert error < 4.0 * min(np.mean((one - y[3000:]) ** 2) for one in parts)


def test_cells_are_split_when_more_rows_come_than_a_fit_had(monkeypatch):
    race = RaceSettings(small=150, cell_size=16, cell_rows=32, kept_rows=40, hopeless=np.inf)
    settings = Settings(first_rows=500, most_held=100, waiting=50, race=race)
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    X = rows(3000)
    model = KernelRegressor(expansion=Auto(budget_seconds=60)).fit(X[:600], np.sin(X[:600, 0]))

    def n_cells():
        parts = model.learner_.function.components
        return [len(part.cells) for part in parts if isinstance(part, CellsPart)]

    after_fit = n_cells()
    assert after_fit
    model.partial_fit(X[600:], np.sin(X[600:, 0]))
    assert min(n_cells()) > max(after_fit)


def test_a_file_holds_what_newton_steps_begin_with():
    X = rows(300)
    learned = Rows(X, np.where(X[:, :1] > 0, 1.0, -1.0), np.ones(300))
    part = GlobalPart(Gaussian(1.0), X[:20], 1)
    part.learn(learned[:200])
    part.solve(learned[200:])
    again = component_from_state(component_to_state(part, sums=True), 3, 1)
    np.testing.assert_array_equal(again.without_held, part.without_held)
    assert part.without_held.any()


@pytest.mark.parametrize("sums", [True, False])
def test_parts_without_weights_yet_are_in_the_state(sums):
    function, again = (SumOfComponents(Gaussian(1.0), Auto(), 3, 1, None) for _ in range(2))
    function.components = [GlobalPart(Gaussian(1.0), rows(20), 1)]
    function.components[0].learn(Rows(rows(50), rows(50, 1), np.ones(50)))
    again.restore(function.snapshot(sums=sums))
    assert len(again.components) == 1
    assert not again.weights.size


@pytest.mark.parametrize("n", [300, 3000], ids=["few", "many"])
@pytest.mark.parametrize("task", ["numbers", "classes"])
@pytest.mark.parametrize("how", ["fit", "stream"])
def test_a_model_holds_what_predicts_and_learns_on_and_no_more(n, task, how, tmp_path):
    X = rows(n)
    y = X[:, 0] + X[:, 1] ** 2
    model = KernelRegressor() if task == "numbers" else KernelClassifier()
    target = y if task == "numbers" else y > 1
    if how == "fit":
        model.fit(X, target)
    else:
        model.partial_fit(X, target).predict(X[:1])
    model.save(tmp_path / "model")
    # Sums of a thousand points alone are 4 MB.
    assert len(pickle.dumps(model)) < 1.6 * (tmp_path / "model").stat().st_size + 50_000
    function = model.learner_.function
    assert (function.weights > 0).all()
    model.partial_fit(X[:50], target[:50]).predict(X[:1])
    again = load_model(tmp_path / "model").partial_fit(X[:50], target[:50])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("n", [100, 3000], ids=["few", "many"])
@pytest.mark.parametrize("task", ["numbers", "classes", "risk"])
def test_a_compact_model_gives_the_same_answers_and_learns_no_more(n, task, tmp_path):
    X = rows(n)
    y = X[:, 0] + X[:, 1] ** 2
    if task == "classes":
        model, y = KernelClassifier(random_state=0), y > 1
    else:
        model = KernelRegressor(risk=None if task == "numbers" else CVaR(0.8), random_state=0)
    model.fit(X, y)
    before = pickle.dumps(model)
    small = compact(model)
    assert pickle.dumps(model) == before
    assert len(pickle.dumps(small)) < len(before) - X.nbytes
    small.save(tmp_path / "small")
    model.save(tmp_path / "model")
    sizes = [(tmp_path / name).stat().st_size for name in ("small", "model")]
    assert sizes[0] < sizes[1] - 0.5 * X.nbytes  # a file is compressed
    for again in (small, load_model(tmp_path / "small"), pickle.loads(pickle.dumps(small))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        explained = again.explain(X[:2], random_state=0), model.explain(X[:2], random_state=0)
        np.testing.assert_array_equal(*(one.contributions for one in explained))
        if task == "numbers":
            np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
        elif task == "classes":
            np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))
        with pytest.raises(ValueError, match="compact"):
            again.partial_fit(X, y)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_parts_with_a_point_at_every_row_share_the_points():
    X, y = load_digits(return_X_y=True)
    model = KernelClassifier(random_state=0).fit(X[:600], y[:600])
    for one in (model, pickle.loads(pickle.dumps(model)), compact(model)):
        parts = [part for _, part in one.learner_.function.used if isinstance(part, GlobalPart)]
        assert len(parts) > 1
        assert len({id(part.dictionary) for part in parts}) == 1
        # Nor are there mapped points, beside those that predictions take.
        assert all(part.basis._mapped is None for part in parts)


def test_only_models_that_keep_rows_are_made_compact():
    X = rows(50)
    with pytest.raises(AttributeError, match="not fitted"):
        compact(KernelRegressor())
    with pytest.raises(ValueError, match="keeps no rows"):
        compact(KernelRegressor(expansion="komp").fit(X, X[:, 0]))


def test_rows_of_cells_are_pickled_once(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", Settings(first_rows=2500, most_held=200))
    X = rows(4000, 20)
    y = np.sin(X[:, 0]) + X[:, 1]
    model = KernelRegressor(random_state=0).fit(X, y)
    parts = [part for part in model.learner_.function.components if isinstance(part, CellsPart)]
    kept = [cell for part in parts for cell in part.cells if cell.is_filling]
    assert kept
    for cell in kept:
        again = pickle.loads(pickle.dumps(cell))
        arrays = *cell.function[2:4], cell.rows.targets, cell.rows.weights
        assert len(pickle.dumps(cell)) < sum(array.nbytes for array in arrays) + 3000
        for name in ("X", "targets", "weights"):
            np.testing.assert_array_equal(getattr(again.rows, name), getattr(cell.rows, name))
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[:300], y[:300])
    np.testing.assert_array_equal(again.predict(X), model.partial_fit(X[:300], y[:300]).predict(X))


def test_only_parts_with_a_weight_are_fitted_to_the_rows_that_judge(monkeypatch):
    """What has a weight is as if all had been fitted: nothing else depends on the others."""
    monkeypatch.setattr(DefaultLearner, "settings", QUICKEST)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.05 * X[:, 1] + 0.1 * rng.normal(size=700)
    weigh, n_judged = DefaultLearner._weigh, []

    def counted(self, held, learned, trials):
        n_judged.append(len(trials))
        weigh(self, held, learned, trials)

    monkeypatch.setattr(DefaultLearner, "_weigh", counted)
    lazy = KernelRegressor(random_state=0).fit(X, y)
    function = lazy.learner_.function
    assert 0 < len(function.components) < n_judged[0]

    def eager(self, held, learned, trials):
        for trial in trials:
            if trial.complete is not None:
                trial.complete()
        weigh(self, held, learned, [Trial(trial.values) for trial in trials])

    monkeypatch.setattr(DefaultLearner, "_weigh", eager)
    other = KernelRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(other.predict(X), lazy.predict(X))
    twins = zip(function.components, other.learner_.function.components, strict=True)
    for weight, (mine, its) in zip(function.weights, twins, strict=True):
        if weight > 0.0:
            np.testing.assert_array_equal(mine.coefficients, its.coefficients)
