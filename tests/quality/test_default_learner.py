"""The default learner: streams, states, odd data and what the estimators make of it.

Most tests make the constants of its recipe small, so that a few hundred rows pass through every
stage: rows judged one by one, rows kept, parts that learn by sums.
"""

import pickle
from copy import deepcopy
from itertools import pairwise

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import GridSearchCV

from covering import covering
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.default import AllocationSettings, DefaultLearner, Settings, allocate
from mercer.default.allocate import Allocation
from mercer.expansions import KOMP, Auto, Dictionary
from mercer.kernels import Gaussian, Laplacian, Mapped, Partitioned, Polynomial
from mercer.losses import Hinge, RegressionLoss
from mercer.maps import Affine
from mercer.risks import CVaR, Semivariance, Tracker
from mercer.selection import Candidate, RaceSettings, held_out
from mercer.sums import CellsPart, GlobalPart, Rows, RowsByNumber, cells
from oracles_second_order import exponential_weights, ridge_on_dictionary

#: Rows of each stage with small constants.
STAGES = {"judged one by one": 90, "kept": 220, "decided": 420}
SMALL = Settings(
    first_rows=300,
    most_held=100,
    waiting=60,
    race=RaceSettings(
        small=150,
        pilot_rows=60,
        families=("gaussian",),
        rounds=1,
        cell_size=24,
        cell_rows=32,
        kept_rows=48,
        multiples=(0.5, 1.0),
        first_multiple=0,
        asked_cells=3,
        hopeless=np.inf,  # cells take part in any case
    ),
    allocation=AllocationSettings(n_points=60, beside_cells=60, n_trees=2, many_trees=4),
)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL)
    # As the least number of points would be all rows, memory keeps the dictionary small.
    monkeypatch.setattr(allocate, "most_points", lambda memory, n_outputs, **kept: 60)
    monkeypatch.setattr(held_out, "_POINTS", 60)
    monkeypatch.setattr(cells, "_ASKED", 3)


def numbers(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + noise * rng.normal(size=n)


def classes(n, n_classes=2, seed=0):
    X, y = numbers(n, seed)
    return X, np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def data_of(task, n, seed=0):
    return numbers(n, seed) if task == "regression" else classes(n, 3, seed)


def model_of(task, **params):
    cls = KernelRegressor if task == "regression" else KernelClassifier
    return cls(**params)


def values_of(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def stream(model, X, y, cuts=(), questions=()):
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        model.partial_fit(X[start:stop], y[start:stop])
        if stop in questions:
            values_of(model, X[:2])
    return model


def solved(model):
    model.learner_._solve(now=True)
    return model


TASKS = pytest.mark.parametrize("task", ["regression", "classification"])

# -- streams --------------------------------------------------------------------------------------


@TASKS
@pytest.mark.parametrize("stage", STAGES)
def test_cuts_and_questions_make_no_difference(task, stage, small):
    n = STAGES[stage]
    X, y = data_of(task, n)
    y[:3] = [0, 1, 2]  # all classes from the start
    test = data_of(task, 60, seed=1)[0]
    expansion = Auto(expected_rows=n, refresh=0.0)
    cuts = [41, 42, *range(60, n, 83)]
    fitted = model_of(task, expansion=expansion, shuffle=False).fit(X, y)
    at_once = solved(stream(model_of(task, expansion=expansion), X, y))
    in_pieces = solved(stream(model_of(task, expansion=expansion), X, y, cuts))
    asked = solved(stream(model_of(task, expansion=expansion), X, y, cuts, cuts[::2]))
    assert fitted.history_.n_samples[-1] == asked.history_.n_samples[-1] == n
    expected = values_of(at_once, test)
    # Sums in other pieces differ by rounding, which weak ridges magnify.
    for other in (in_pieces, asked, *([fitted] if task == "regression" else [])):
        assert_allclose(values_of(other, test), expected, atol=1e-3)
    for one, another in zip(at_once.parts_, asked.parts_, strict=True):
        assert_array_equal(one.dictionary, another.dictionary)


@pytest.mark.parametrize("stage", ["kept", "decided"])
def test_targets_of_rows_that_judge_do_not_lay_out_components(stage, small, monkeypatch):
    """Centres of classes were found with the labels of all rows, so judges knew some."""
    monkeypatch.setattr(DefaultLearner, "_let_go", lambda self: None)  # parts without weight, too
    n = STAGES[stage]
    X, y = classes(n, 3)
    other = y.copy()
    n_first = min(n, 300)
    other[n_first - n_first // 6 : n_first] = np.roll(other[n_first - n_first // 6 : n_first], 1)
    models = [KernelClassifier(shuffle=False).fit(X, targets) for targets in (y, other)]
    before, after = (model.learner_.function.components for model in models)
    assert isinstance(before[0], GlobalPart)
    assert before[0].n_points == 60
    assert_array_equal(before[0].dictionary, after[0].dictionary)


@TASKS
def test_answers_between_do_not_depend_on_earlier_questions(task, small):
    X, y = data_of(task, 230)
    test = data_of(task, 30, seed=1)[0]
    expansion = Auto(refresh=0.0)
    asked = stream(model_of(task, expansion=expansion), X, y, [30, 70, 150], [30, 70, 150])
    silent = stream(model_of(task, expansion=expansion), X, y, [30, 70, 150])
    assert_array_equal(values_of(asked, test), values_of(silent, test))


def test_single_rows_are_as_many_at_once(small, monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL._replace(most_pieces=20))
    X, y = numbers(400)
    at_once, one_by_one = (KernelRegressor(expansion=Auto()) for _ in range(2))
    at_once.partial_fit(X, y)
    for i in range(400):
        one_by_one.learn_one(X[i], y[i])
        assert len(one_by_one.learner_._kept) <= 21
    assert_allclose(solved(one_by_one).predict(X), solved(at_once).predict(X), atol=1e-3)


@TASKS
def test_there_is_an_answer_after_every_row(task):
    X, y = data_of(task, 25)
    model = model_of(task, expansion=Auto())
    for i in range(25):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        values = values_of(model, X)
        assert np.isfinite(values).all()
        assert np.abs(values).max() < 100.0
    assert model.n_samples_seen_ == 25


def test_predictions_are_pure_and_lag_behind_by_the_refresh(small):
    X, y = numbers(500)
    model = stream(KernelRegressor(expansion=Auto(refresh=0.5)), X[:400], y[:400])
    before = model.predict(X)
    assert_array_equal(model.predict(X), before)
    model.partial_fit(X[400:], y[400:])
    # A cell that is split evaluates other rows together, in single precision.
    assert_allclose(model.predict(X), before, atol=1e-4)
    assert model.learner_.n_rows == 500
    assert np.abs(solved(model).predict(X) - before).max() > 0.0


def test_a_wrong_number_of_expected_rows_does_no_harm(small):
    X, y = numbers(450)
    model = KernelRegressor(expansion=Auto(expected_rows=40)).partial_fit(X[:200], y[:200])
    model.partial_fit(X[200:], y[200:])
    assert model.score(X, y) > 0.9
    assert model.learner_.function.components[0].n_points <= 60
    again = KernelRegressor(shuffle=False).fit(X[:40], y[:40])
    again.partial_fit(X[40:], y[40:])
    assert again.score(X, y) > 0.9
    assert again.learner_.function.components[0].n_points <= 60


def test_stages_follow_each_other(small):
    X, y = numbers(500)
    model = KernelRegressor(expansion=Auto(refresh=0.0))
    kept = []
    for start in range(0, 500, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
        model.predict(X[:1])
        kept.append(len(model.learner_.waiting))
    assert kept[:5] == list(range(50, 300, 50))
    assert max(kept[5:]) <= 100
    forms = {component.form for component in model.learner_.function.components}
    assert forms == {"global", "cells", "trees"}


# -- states ---------------------------------------------------------------------------------------


def from_file(model, tmp_path):
    model.save(tmp_path / "model")
    return load_model(tmp_path / "model")


@TASKS
@pytest.mark.parametrize(
    ("n", "solve"), [(40, False), (90, True), (240, True), (310, False), (450, True)]
)
def test_a_stored_model_goes_on_bit_for_bit(task, n, solve, small, tmp_path):
    X, y = data_of(task, n + 70)
    model = model_of(task, expansion=Auto())  # few rows alone begin the default of streams
    stream(model, X[:n], y[:n], range(30, n, 100), range(150))
    if solve:
        model.predict(X[:1])
    twins = [from_file(model, tmp_path), pickle.loads(pickle.dumps(model))]
    for one in (model, *twins):
        one.partial_fit(X[n : n + 30], y[n : n + 30])
    for twin in twins:
        assert_array_equal(values_of(twin, X), values_of(model, X))
    for one in (model, *twins):
        one.partial_fit(X[n + 30 :], y[n + 30 :])
    for twin in twins:
        assert_array_equal(values_of(twin, X), values_of(model, X))
        assert_array_equal(twin.history_.loss, model.history_.loss)


@TASKS
@pytest.mark.parametrize("n", STAGES.values())
def test_a_fitted_model_from_its_file_goes_on(task, n, small, tmp_path, monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL._replace(small_file=2**25))
    X, y = data_of(task, n + 100)
    model = model_of(task, random_state=0).fit(X[:n], y[:n])
    twin = from_file(model, tmp_path)
    assert_array_equal(values_of(twin, X), values_of(model, X))
    for one in (model, twin):
        one.partial_fit(X[n:], y[n:])
    assert_array_equal(values_of(twin, X), values_of(model, X))
    if n == STAGES["decided"]:
        assert [entry["error"] for entry in twin.race_] == [e["error"] for e in model.race_]


def test_newton_steps_after_a_file_without_sums_are_the_same(small, tmp_path):
    X, y = classes(280)
    model = KernelClassifier(kernel=Gaussian(1.0), expansion=Auto(), random_state=0)
    model.partial_fit(X, y)
    model.predict(X[:1])
    twin = from_file(model, tmp_path)
    assert not twin.learner_.function.components[0].statistics.n_rows
    for _ in range(2):  # the second time changes nothing
        for one in (model, twin):
            one.learner_.finish()
        assert_array_equal(twin.decision_function(X), model.decision_function(X))
    again = from_file(model, tmp_path)
    again.learner_.finish()
    assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_large_sums_are_left_out_of_the_file_and_learning_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL._replace(small_file=0))
    X, y = classes(500)
    model = KernelClassifier(random_state=0).fit(X, y)
    compact = from_file(model, tmp_path)
    compact.learner_.finish()
    assert_array_equal(compact.decision_function(X), model.decision_function(X))
    for labels in (y[:10], y[:10] + 7):
        with pytest.raises(ValueError, match=r"without the sums.*resumable=True"):
            compact.partial_fit(X[:10], labels)
        assert_array_equal(compact.decision_function(X), model.decision_function(X))
        assert_array_equal(compact.classes_, [0, 1])
    again = from_file(compact, tmp_path)
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    whole = KernelClassifier(expansion=Auto(resumable=True), random_state=0).fit(X, y)
    from_file(whole, tmp_path).partial_fit(X, y)


def test_a_fitted_model_that_learned_more_keeps_its_sums(small, tmp_path, monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL._replace(small_file=0))
    X, y = numbers(600)
    model = KernelRegressor(random_state=0).fit(X[:500], y[:500])
    model.partial_fit(X[500:520], y[500:520])
    twin = from_file(model, tmp_path)
    for one in (model, twin):
        one.partial_fit(X[520:], y[520:])
    assert_array_equal(twin.predict(X), model.predict(X))


@pytest.mark.parametrize("n", STAGES.values())
def test_numbers_out_of_all_proportion_are_refused_and_forgotten(n, small):
    X, y = numbers(n + 40)
    model, twin = (
        stream(KernelRegressor(expansion=Auto()), X[:n], y[:n], [n // 2]) for _ in range(2)
    )
    with pytest.raises(ValueError, match="inputs reach 1e\\+200"):
        model.partial_fit(np.vstack([X[n:], 1e200 * np.ones((1, 3))]), np.append(y[n:], 0.0))
    with pytest.raises(ValueError, match="targets reach 1e\\+200"):
        model.partial_fit(X[:2], np.array([0.0, -1e200]))
    for one in (model, twin):
        one.partial_fit(X[n:], y[n:])
    assert_array_equal(model.predict(X), twin.predict(X))


def test_a_new_class_in_rows_that_are_refused_is_forgotten(small):
    X, y = classes(400)
    model, twin = (
        stream(KernelClassifier(expansion=Auto()), X[:350], y[:350], [150]) for _ in range(2)
    )
    with pytest.raises(ValueError, match="inputs reach"):
        model.partial_fit(np.full((1, 3), 1e200), [9])
    assert_array_equal(model.classes_, [0, 1])
    for one in (model, twin):
        one.partial_fit(X[350:], y[350:])
    assert_array_equal(model.decision_function(X), twin.decision_function(X))


# -- classes that come later ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "n", "order"),  # and when the last classes come
    covering(
        ["auto", "hinge", "softmax"],
        [60, 300, 700],
        [[2, 4, 0, 1, 3], [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]],
    ),
)
def test_late_classes_are_as_if_they_had_been_known(loss, n, order, small):
    X, labels = classes(900, 5)
    early = np.minimum(labels, 1)
    labels[: n // 2] = early[: n // 2]
    labels[:20] = 0
    labels[n // 2 : n] = np.minimum(labels[n // 2 : n], 2)
    y = np.array(order)[labels]
    # No race: what is compared are sums.
    late, known = (KernelClassifier(loss, kernel=Gaussian(1.0), regularization=1e-4) for _ in "ab")
    pieces = [0, 10, 20, n // 2, n, 900]
    for start, stop in pairwise(pieces):
        late.partial_fit(X[start:stop], y[start:stop])
        known.partial_fit(X[start:stop], y[start:stop], classes=range(5))
        assert np.isin(late.predict(X[:50]), late.classes_).all()
    assert_array_equal(late.classes_, range(5))
    assert late.n_samples_seen_ == 900
    parts = [solved(model).learner_.function.components[0] for model in (late, known)]
    if len(parts[0].dictionary) == len(parts[1].dictionary):
        assert_allclose(parts[0].statistics.products, parts[1].statistics.products, atol=1e-7)
        assert_allclose(parts[0].statistics.gram, parts[1].statistics.gram, atol=1e-7)
    assert_allclose(late.decision_function(X), known.decision_function(X), atol=2e-3)
    assert late.history_.n_samples[-1] == 900


def test_classes_that_come_late_are_learned_with_a_race(small):
    X, y = make_blobs(900, centers=5, cluster_std=0.7, random_state=0)
    y_late = y.copy()
    y_late[:600] = np.minimum(y[:600], 2)
    model = KernelClassifier(expansion=Auto())
    for start in range(0, 600, 100):
        rows = slice(start, start + 100)
        known = y[rows] < 2 + (start > 300)
        model.partial_fit(X[rows][known], y[rows][known])
        model.predict(X[:3])
    model.partial_fit(X[600:], y[600:])
    assert model.score(X[600:], y[600:]) > 0.9


# -- weights of rows ------------------------------------------------------------------------------


def part_values(model, X):
    solved(model)
    return model.learner_.function.components[0].evaluate(X)


def test_a_row_of_weight_two_is_two_rows():
    X, y = numbers(80)
    twice = np.arange(80) < 30
    params = {"kernel": Gaussian(0.5), "regularization": 1e-3, "shuffle": False}
    weighted = KernelRegressor(**params).fit(X, y, np.where(twice, 2.0, 1.0))
    repeated = KernelRegressor(**params).fit(np.vstack([X, X[twice]]), np.append(y, y[twice]))
    # Which rows are left out to choose the weight of the part is not the same.
    assert_allclose(part_values(weighted, X), part_values(repeated, X), atol=1e-6)


@TASKS
@pytest.mark.parametrize("n", STAGES.values())
def test_a_row_of_weight_zero_is_no_row(task, n, small):
    X, y = data_of(task, n)
    weights = np.where(np.arange(n) % 3 == 1, 0.0, 1.5)
    weights[:6] = 1.5
    some = weights > 0.0
    expansion = Auto(expected_rows=n)
    with_them = model_of(task, expansion=expansion, shuffle=False).fit(X, y, weights)
    without = model_of(task, expansion=expansion, shuffle=False).fit(
        X[some], y[some], weights[some]
    )
    assert_array_equal(values_of(with_them, X), values_of(without, X))


def test_class_weights_multiply_sample_weights(small):
    X, y = classes(350)
    by_class = KernelClassifier(class_weight={0: 3.0}, shuffle=False).fit(X, y)
    by_row = KernelClassifier(shuffle=False).fit(X, y, np.where(y == 0, 3.0, 1.0))
    assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    weights = np.where(y == 0, 3.0, 1.0)
    said = weights @ by_class.predict_proba(X) / weights.sum()
    assert_allclose(said, np.bincount(y, weights) / weights.sum(), atol=0.005)


# -- kinds of data --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", STAGES.values())
def test_sparse_inputs_are_as_dense_ones(n, small):
    X, y = numbers(n)
    X[X < 0.3] = 0.0
    dense = KernelRegressor(shuffle=False).fit(X, y)
    matrix = sparse.csr_array(X)
    assert_array_equal(
        KernelRegressor(shuffle=False).fit(matrix, y).predict(matrix), dense.predict(X)
    )


@pytest.mark.parametrize("n", STAGES.values())
def test_single_precision_inputs_learn_as_much(n, small):
    X, y = numbers(n)
    test, truth = numbers(400, seed=1)
    single = KernelRegressor(random_state=0).fit(X.astype(np.float32), y)
    double = KernelRegressor(random_state=0).fit(X, y)
    assert abs(single.score(test.astype(np.float32), truth) - double.score(test, truth)) < 0.01


def odd_data():
    rng = np.random.default_rng(0)
    X, y = numbers(60)
    yield "one feature", X[:, :1], np.sin(X[:, 0])
    yield "a constant feature", np.column_stack([X, np.full(60, 7.0)]), y
    yield "a constant target", X, np.full(60, 5.0)
    yield "a constant target far away", X, np.full(60, -5e7)
    yield "no target but 0", X, np.zeros(60)
    yield "all rows equal", np.ones((60, 2)), y
    yield "two kinds of rows", np.repeat([[0.0, 1.0], [2.0, 3.0]], 30, axis=0), y
    yield "more features than rows", rng.normal(size=(20, 90)), y[:20]
    yield "many more features than rows", rng.normal(size=(20, 400)), y[:20]
    yield "tiny inputs", 1e-90 * X, y
    yield "large inputs", 1e12 * X, y
    yield "far inputs", X + 1e6, y
    yield "tiny targets", X, 1e-90 * y
    yield "large targets", X, 1e50 * y
    yield "columns of wildly different units", X * [1e-9, 1.0, 1e9], y
    yield "an outlier", np.vstack([X, [[1e5, 0.0, 0.0]]]), np.append(y, 0.0)
    yield "numbers of few values", np.round(X), np.round(y)


# 60 rows, 240, 360: one for each stage; a third of the data in that between the others.
@pytest.mark.parametrize(
    ("X", "y", "copies"),
    [
        pytest.param(X, y, copies, id=f"{copies}-{name}")
        for i, (name, X, y) in enumerate(odd_data())
        for copies in ((1, 4, 6) if i % 3 == 0 else (1, 6))
    ],
)
def test_odd_data_are_learned(X, y, copies, small):
    X, y = np.tile(X, (copies, 1)), np.tile(y, copies)
    spread = max(float(y.std()), 1e-3 * abs(float(y.mean())), 1e-99)
    model = KernelRegressor(random_state=0).fit(X, y)
    assert np.mean(((model.predict(X) - y) / spread) ** 2) < 1.1
    labels = (y > np.median(y)).astype(int)
    classifier = KernelClassifier(random_state=0).fit(X, labels)
    assert np.isfinite(classifier.predict_proba(X)).all()
    assert classifier.score(X, labels) >= max(labels.mean(), 1 - labels.mean()) - 0.15


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_a_handful_of_rows_is_enough_to_begin(n):
    X, y = numbers(n)
    values = KernelRegressor().fit(X, y).predict(X)
    assert np.abs(values).max() <= 1.5 * np.abs(y).max()
    model = KernelClassifier().fit(X, np.arange(n) % 2)
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    # So few rows prove nothing.
    assert n == 1 or proba.max() < 0.999


@pytest.mark.parametrize("n", [90, 350, 600])
@pytest.mark.parametrize("deviations", [3.0, 100.0])
def test_targets_far_from_zero_need_no_centring(n, deviations, small, monkeypatch):
    # A handful of rows held out among 300 would choose by rounding.
    monkeypatch.setattr(DefaultLearner, "settings", SMALL._replace(first_rows=500))
    X, y = numbers(n)
    test, truth = numbers(500, seed=1)
    centred = KernelRegressor(random_state=0).fit(X, y).score(test, truth)

    def far(values):
        return 1e6 * (values + deviations * y.std())

    moved = KernelRegressor(random_state=0).fit(X, far(y)).score(test, far(truth))
    # Rounding errors act like a ridge that grows with the distance from 0.
    assert moved > centred - (0.015 if deviations < 10.0 else 0.03)


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [False, True], [3, 1], ["a", "b", "c"], [0.0, 1.0]], ids=str
)
def test_labels_may_be_of_any_kind(labels, small):
    X, y = classes(350, len(labels))
    named = np.array(labels)[y]
    model = KernelClassifier(random_state=0).fit(X, named)
    assert model.score(X, named) > 0.85
    assert model.predict(X).dtype == named.dtype


@pytest.mark.parametrize("n", STAGES.values())
def test_several_targets_are_learned_together(n, small):
    X, y = numbers(n)
    targets = np.column_stack([y, X[:, 2], -y])
    model = KernelRegressor(random_state=0).fit(X, targets)
    values = model.predict(X)
    assert values.shape == (n, 3)
    errors = np.mean((values - targets) ** 2, axis=0) / targets.var(axis=0)
    assert errors.max() < 0.2
    # Each column is rounded by itself, to 6e-8 where cells keep their rows, which a ridge of 1e-4
    # magnifies.
    assert_allclose(values[:, 2], -values[:, 0], atol=1e-3)


# -- estimators -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "n_classes", "n"),
    covering(["auto", "hinge", "squared_hinge", "logistic", "softmax"], [2, 3], [120, 500]),
)
def test_every_loss_of_classes_is_learned(loss, n_classes, n, small):
    X, y = classes(n + 300, n_classes)
    model = KernelClassifier(loss, random_state=0).fit(X[:n], y[:n])
    assert model.score(X[n:], y[n:]) > (0.85 if n_classes == 2 else 0.7)
    scores = model.decision_function(X)
    assert scores.shape == ((n + 300,) if n_classes == 2 else (n + 300, 3))


@pytest.mark.parametrize("n", STAGES.values())
@pytest.mark.parametrize("kernel", [Gaussian(0.8), Laplacian(2.0), "laplacian"], ids=str)
def test_a_kernel_of_the_users_own_ends_the_race(kernel, n, small):
    X, y = numbers(n)
    model = KernelRegressor(kernel=kernel, random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="no race"):
        _ = model.race_
    assert len(model.parts_) == 1
    if not isinstance(kernel, str):
        assert model.kernel_ == kernel
    assert_allclose(
        model.kernel_(X, model.dictionary_) @ model.coefficients_[:, 0], model.predict(X), atol=1e-8
    )
    assert model.model_order_ == len(model.dictionary_)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_partitioned_kernel_makes_cells(mapped, small):
    X, y = numbers(500)
    kernel = Partitioned(anchors=6)
    if mapped:
        kernel = Mapped(kernel, Affine(np.zeros(3), np.ones(3)))
    model = KernelRegressor(kernel=kernel, random_state=0).fit(X, y)
    assert [part.form for part in model.parts_] == ["cells"]
    assert isinstance(model.learner_.function.components[0], CellsPart)
    assert model.score(*numbers(300, seed=1)) > 0.8
    few = KernelRegressor(kernel=kernel, random_state=0).fit(X[:100], y[:100])
    assert isinstance(few.learner_.function.components[0], GlobalPart)


@TASKS
@pytest.mark.parametrize("n", STAGES.values())
def test_parts_add_up_to_the_function(task, n, small):
    X, y = data_of(task, n)
    model = model_of(task, random_state=0).fit(X, y)
    f = sum(part.evaluate(X) for part in model.parts_)
    values = f + model.bend_ * f**3 + model.level_
    assert_allclose(values.reshape(values_of(model, X).shape), values_of(model, X), atol=1e-10)
    assert model.model_order_ == sum(len(part.dictionary) for part in model.parts_)
    if len(model.parts_) == 1 and model.bend_:
        with pytest.raises(AttributeError, match=r"calibrated.*parts_"):
            _ = model.coefficients_
    elif len(model.parts_) == 1:
        with pytest.raises(AttributeError, match=r"a kernel expansion and a number.*level_"):
            _ = model.coefficients_
    else:
        with pytest.raises(AttributeError, match=r"sum of \d parts.*parts_"):
            _ = model.dictionary_


def test_newton_steps_leave_the_other_parts_without_weight(small):
    # Only one part counts, but there are others.
    X, y = make_moons(500, noise=0.1, random_state=0)
    model = KernelClassifier(random_state=0)
    partial = KernelClassifier(expansion=Auto(expected_rows=500)).partial_fit(X, y)
    learner, function = partial.learner_, partial.learner_.function
    partial.predict(X[:1])
    assert len(function.components) > 1
    function.weights = np.array([0.0] * (len(function.components) - 1) + [2.0])
    kept = learner.waiting
    rows = RowsByNumber(learner.n_rows, lambda numbers: kept[numbers % len(kept)])
    learner._finish(rows)
    assert np.isfinite(partial.decision_function(X)).all()
    function.weights = np.array([2.0] + [0.0] * (len(function.components) - 1))
    learner._finish(rows)
    assert partial.score(X, y) > 0.9
    assert model.fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_calibrated(n_classes, monkeypatch):
    settings = Settings(race=RaceSettings(pilot_rows=500))
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    rng = np.random.default_rng(0)
    n = 800
    X = rng.uniform(-2.0, 2.0, (n + 3500, 2))
    scores = np.column_stack([np.zeros(len(X)), 2.0 * np.sin(2.0 * X[:, 0]), X[:, 0] * X[:, 1]])
    truth = np.exp(scores[:, :n_classes])
    truth /= truth.sum(axis=1, keepdims=True)
    y = (rng.random(len(X))[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    model = KernelClassifier(random_state=0).fit(X[:n], y[:n])
    proba = model.predict_proba(X[n:])
    assert_allclose(proba.sum(axis=1), 1.0)
    # 0.05 and 0.07; scores too large by a half would make 0.082 and 0.088.
    assert np.sqrt(np.mean((proba - truth[n:]) ** 2)) < 0.08
    for c in range(n_classes):
        # In each fifth as many of the class as announced, up to three standard errors of new rows
        # and of the rows learned.
        for some in np.array_split(np.argsort(proba[:, c]), 5):
            p = proba[some, c]
            error = np.sqrt(np.mean(p * (1.0 - p)) * (1.0 / some.size + 5.0 / n))
            assert abs(np.mean(y[n:][some] == c) - p.mean()) < 3.0 * error


@TASKS
def test_the_same_seed_makes_the_same_model(task, small):
    X, y = data_of(task, 500)
    model = model_of(task, random_state=3).fit(X, y)
    expected = values_of(model, X)
    for twin in (clone(model).fit(X, y), model_of(task, random_state=3).fit(X, y)):
        assert_array_equal(values_of(twin, X), expected)
    assert_array_equal(values_of(pickle.loads(pickle.dumps(model)), X), expected)
    other = model_of(task, random_state=3, expansion=Auto(seed=1)).fit(X, y)
    assert np.abs(values_of(other, X) - expected).max() > 0.0


class OfLogarithms(RegressionLoss):
    """Squared error of the logarithm, whose scores are in other units than targets."""

    curvature = 1.0

    def value(self, y, f):
        return 0.5 * np.sum((f - np.log1p(y**2)) ** 2, axis=1)

    def derivative(self, y, f):
        return f - np.log1p(y**2)

    def predict(self, scores):
        return np.exp(scores)


def test_what_sums_cannot_minimise_is_refused_or_left_to_steps():
    X, y = numbers(60)
    nasa = CVaR(0.9) + Semivariance(tracker=Tracker("nasa"))
    with pytest.raises(ValueError, match=r"Tracker\('nasa'\) averages directions of steps"):
        KernelRegressor(risk=nasa, expansion=Auto()).fit(X, y)
    with pytest.raises(ValueError, match=r"in other units than targets.*'dictionary' or 'komp'"):
        KernelRegressor(OfLogarithms(), expansion=Auto()).fit(X, y)
    for params, kind in (
        ({"loss": OfLogarithms()}, Dictionary),
        ({"risk": Semivariance(tracker=Tracker("scgd"))}, KOMP),
        ({"risk": Semivariance(clip=1.0)}, KOMP),
        ({"step_size": 0.1}, KOMP),
    ):
        model = KernelRegressor(**params).fit(X, y)
        assert isinstance(model.learner_.function.expansion, kind)
        with pytest.raises(AttributeError, match="single part"):
            _ = model.parts_


@TASKS
@pytest.mark.parametrize("params", [{"n_passes": 3}, {"batch_size": 1}, {"average": None}], ids=str)
@pytest.mark.parametrize("expansion", ["auto", Auto()], ids=str)
def test_settings_of_steps_are_refused_rather_than_ignored(task, params, expansion, tmp_path):
    X, y = data_of(task, 60)
    (name,) = params
    words = f"`{name}` is of learning by steps.*such as 'komp'"
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=words):
            getattr(model_of(task, expansion=expansion, **params), learn)(X, y)
    defaults = model_of(task).get_params(deep=False)
    model = model_of(task, expansion=expansion, **{name: defaults[name]}).partial_fit(X, y)
    model.set_params(**params)
    with pytest.raises(ValueError, match=words):
        model.learn_one(X[0], y[0])
    for again in (model, from_file(model, tmp_path)):  # which is no time to complain
        with pytest.raises(ValueError, match=words):
            again.partial_fit(X, y)
    # What makes steps takes them, whether it was chosen or fallen back to.
    for choice in ({"expansion": "komp"}, {"step_size": 0.5}):
        model_of(task, **choice, **params).fit(X, y)


@TASKS
@pytest.mark.parametrize("expansion", ["auto", "komp"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inputs_whose_squares_vanish_are_refused(task, expansion, dtype):
    X, y = data_of(task, 60)
    tiny = (X * (1e-200 if dtype == np.float64 else 1e-30)).astype(dtype)
    model = model_of(task, expansion=expansion, random_state=0)
    for rows in (tiny, sparse.csr_matrix(tiny)):
        with pytest.raises(ValueError, match=r"largest input is .*its square is 0 in float"):
            model.fit(rows, y)
    model.fit(0.0 * tiny, y).fit((1e-15 * X).astype(dtype), y)  # none at all are no such
    X[:, 1] *= 1e-200
    with pytest.raises(ValueError, match="largest input of column 1 is"):  # each is scaled
        model.fit(X, y)
    if expansion != "auto":
        model.set_params(kernel="gaussian").fit(X, y)


@pytest.mark.parametrize("n", STAGES.values())
def test_a_given_ridge_is_used(n, small):
    X, y = numbers(n)
    params = {"kernel": Gaussian(0.7), "shuffle": False}
    scores = []
    for ridge in (1e-4, 10.0):
        model = KernelRegressor(regularization=ridge, **params).fit(X, y)
        part = model.learner_.function.components[0]
        D = part.dictionary
        K, K_DD = Gaussian(0.7)(X, D), Gaussian(0.7)(D, D)
        expected = K @ ridge_on_dictionary(K, K_DD, y[:, None], np.ones(n), ridge)
        assert_allclose(part.evaluate(X), expected, atol=1e-5)
        scores.append(np.std(part.evaluate(X)))
    assert scores[1] < 0.5 * scores[0]
    KernelRegressor(regularization=1e-4, random_state=0).fit(X, y)  # with a race, too


def test_forgetting_follows_a_drift(small):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3000, 2))
    phase = np.linspace(0.0, 6.0, 3000)
    y = np.sin(3.0 * X[:, 0] + phase) + 0.05 * rng.normal(size=3000)
    errors = {}
    for forgetting in (1.0, 0.99):
        model = KernelRegressor(
            kernel=Gaussian(0.5), expansion=Auto(forgetting=forgetting, refresh=0.0)
        )
        squares = []
        for start in range(0, 3000, 50):
            rows = slice(start, start + 50)
            if start >= 1000:
                squares.append(np.mean((model.predict(X[rows]) - y[rows]) ** 2))
            model.partial_fit(X[rows], y[rows])
        errors[forgetting] = np.mean(squares)
    # A fifth of the hundred rows that count is kept back.
    assert len(model.learner_.waiting) <= 20 + 50
    # The phase moves by .2 in the hundred rows that count; without forgetting by 2 and more.
    assert errors[0.99] < 0.08
    assert errors[1.0] > 5.0 * errors[0.99]


def test_with_forgetting_predictions_are_renewed_by_rows_that_still_count(small):
    """Of 1000 rows about 100 count: a tenth more of them are 10 rows, not 100."""
    X, y = numbers(1016)
    renewed = {}
    for forgetting in (1.0, 0.99):
        model = KernelRegressor(kernel=Gaussian(0.7), expansion=Auto(forgetting=forgetting))
        model.partial_fit(X[:1000], y[:1000])
        before = model.predict(X[:5])
        model.partial_fit(X[1000:1005], y[1000:1005])
        assert_array_equal(model.predict(X[:5]), before)
        model.partial_fit(X[1005:], y[1005:])
        renewed[forgetting] = not np.array_equal(model.predict(X[:5]), before)
    assert renewed == {1.0: False, 0.99: True}


def test_forgetting_in_the_first_rows_is_ridge_regression_with_falling_weights():
    X, y = numbers(100)
    model = KernelRegressor(
        kernel=Gaussian(0.7), regularization=1e-3, expansion=Auto(forgetting=0.95)
    ).partial_fit(X, y)
    K = Gaussian(0.7)(X, X)
    weights = 0.95 ** np.arange(99, -1, -1.0)
    expected = K @ ridge_on_dictionary(K, K, y[:, None], weights, 1e-3)
    assert_allclose(part_values(model, X), expected, atol=1e-6)


@pytest.mark.parametrize("n", [3000, 50_000, 500_000, 5_000_000])
@pytest.mark.parametrize("with_cells", [True, False])
def test_smaller_budgets_plan_for_less(n, with_cells):
    map = Affine(np.zeros(10), np.ones(10))
    candidate = Candidate("cells", "standardized", map, 0.5, 1.0, 0.1)
    near = [candidate] if with_cells else []
    budgets = [None, 1000.0, 100.0, 30.0, 10.0, 5.0, 3.0, 1.0, 0.1]
    rows = Rows.none(10, 1, np.float64)
    several = [Allocation(rows, n, Auto(budget_seconds=b), classes=False) for b in budgets]
    plans = [one.sizes(10, near, steps=False) for one in several]
    seconds = [one.seconds(plan, 10) for one, plan in zip(several, plans, strict=True)]
    assert seconds == sorted(seconds, reverse=True)
    for before, after in pairwise(plans):
        assert after.n_points <= before.n_points
        assert after.n_partitions <= before.n_partitions
    assert plans[0] == plans[1] or seconds[0] > 900.0
    assert plans[-1].n_partitions == 0
    assert plans[-1].n_points <= 250
    race = several[0].seconds_of_race()
    assert 0.5 < race < 1.0
    for plan, spent, budget in zip(plans[1:], seconds[1:], budgets[1:], strict=True):
        assert spent + race <= budget or plan == plans[-1]


@pytest.mark.parametrize(("n", "budget"), [(600, 0.5), (2400, 2.0), (9000, 2.0)])
def test_budgets_of_about_a_fit_drop_no_trees(n, budget):
    X, y = numbers(n)
    rows = Rows(X, y[:, np.newaxis], np.ones(n))

    def grows(budget):
        auto = Auto(budget_seconds=budget)
        allocation = Allocation(rows, n, auto, classes=False, learned=rows)
        return allocation.trees() is not None

    assert grows(budget)
    assert not grows(0.05)


def test_a_race_of_many_columns_takes_hardly_longer():
    def race(n_columns):
        rows = Rows.none(n_columns, 1, np.float64)
        return Allocation(rows, 4000, Auto(), classes=False).seconds_of_race()

    assert race(20) < race(100) == race(3000) < 3.0


@pytest.mark.parametrize("far", [1e3, 1e10])
def test_given_kernels_take_large_inputs_as_they_come(far):
    X, y = numbers(200)
    model = KernelRegressor(kernel=Polynomial(3)).fit(far * X, y)
    assert model.score(far * X, y) > 0.0  # cubes alone, which tell little of a sine


def test_a_ridge_of_zero_is_that_of_rounding():
    X, y = numbers(60)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)  # rows that are there twice have no exact solution
    model = KernelRegressor(kernel=Gaussian(1.0), regularization=0.0).fit(X, y)
    # Its weight is less than 1: such a fit says little of rows of which it has no copy.
    (part,) = model.parts_
    assert np.corrcoef(part.evaluate(X)[:, 0], y)[0, 1] > 0.995


def test_rows_of_a_smaller_dictionary_are_forgotten_once(monkeypatch):
    monkeypatch.setattr(allocate, "most_points", lambda memory, n_outputs, **kept: 30)
    X, y = numbers(90)
    model = KernelRegressor(
        kernel=Gaussian(0.7), regularization=1e-3, expansion=Auto(forgetting=0.95)
    ).partial_fit(X, y)
    values, points = part_values(model, X), model.dictionary_
    assert len(points) == 30
    weights = exponential_weights(90, 0.95)
    K, K_DD = model.kernel_(X, points), model.kernel_(points)
    expected = K @ ridge_on_dictionary(K, K_DD, y[:, np.newaxis], weights, 1e-3)
    assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize("max_memory", [2**20, 2**21])
@pytest.mark.parametrize("kernel", ["auto", Gaussian(0.8)], ids=str)
def test_sums_stay_within_the_memory_allowed(max_memory, kernel, quick_race):
    X, y = numbers(1500)
    model = KernelRegressor(kernel=kernel, expansion=Auto(max_memory=max_memory), random_state=0)
    model.fit(X, y)
    assert sum(part.sum_bytes for part in model.learner_.function.components) <= max_memory
    assert model.score(X, y) > 0.9


def test_grid_search_reaches_the_budget(small):
    X, y = numbers(300)
    search = GridSearchCV(
        KernelRegressor(expansion=Auto(), random_state=0),
        {"expansion__budget_seconds": [None, 0.1], "expansion__seed": [0, 1]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert set(search.best_params_) == {"expansion__budget_seconds", "expansion__seed"}
    assert search.best_score_ > 0.8


def test_history_has_a_record_for_each_solution(small):
    X, y = numbers(500)
    model = KernelRegressor(expansion=Auto())
    stream(model, X, y, range(100, 500, 100), range(100, 501, 100))
    history = model.history_
    assert_array_equal(history.n_samples, range(100, 501, 100))
    # Of rows not learned: the noise and more.
    assert (history.loss > 0.5 * 0.1**2 * 0.5).all()
    assert history.model_order[-1] == model.model_order_


def test_callbacks_stop_the_fit(small):
    X, y = numbers(400)
    model = KernelRegressor(random_state=0).fit(X, y, callback=lambda progress: True)
    assert np.isfinite(model.predict(X)).all()


def test_a_loss_object_is_as_good_as_its_name(small):
    X, y = classes(350)
    by_name = KernelClassifier("hinge", random_state=0).fit(X, y)
    by_object = KernelClassifier(Hinge(), random_state=0).fit(X, y)
    assert_array_equal(by_name.decision_function(X), by_object.decision_function(X))


@TASKS
def test_a_state_does_not_change_with_the_model_it_was_taken_of(small, task):
    X, y = data_of(task, 560)
    model = stream(model_of(task), X[:400], y[:400])
    state = model.to_state()
    expected = deepcopy(state)
    stream(model, X[400:], y[400:], cuts=(60, 120))
    first, second = (stream(type(model).from_state(s), X[:100], y[:100]) for s in (state, expected))
    assert_array_equal(values_of(first, X), values_of(second, X))


@TASKS
@pytest.mark.parametrize("questions", [(), (400,)])
def test_a_model_mapped_from_a_file_for_reading_goes_on(small, task, questions, tmp_path):
    X, y = data_of(task, 470)
    model = stream(model_of(task), X[:400], y[:400], cuts=(350,), questions=questions)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_array_equal(values_of(mapped, X), values_of(model, X))  # that adds the last rows
    first, second = (values_of(stream(m, X[400:], y[400:]), X) for m in (mapped, model))
    assert_array_equal(first, second)


def test_numbers_of_many_thresholds_get_many_trees(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", Settings())
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 3))
    i, j, k = np.floor(X * [8, 8, 4]).astype(int).T
    steps = rng.standard_normal((8, 8, 4))[i, j, k] + rng.standard_normal(8)[i]
    y = steps + 0.1 * rng.standard_normal(5000)

    def n_trees(model, y):
        trees = [part for part in model.fit(X[:4000], y[:4000]).parts_ if part.form == "trees"]
        return trees[-1].map.n_trees if trees else 0

    many = KernelRegressor(random_state=0)
    few = KernelRegressor(expansion=Auto(budget_seconds=30.0), random_state=0)
    assert (n_trees(many, y), n_trees(few, y)) == (300, 100)
    errors = [np.mean((model.predict(X[4000:]) - steps[4000:]) ** 2) for model in (many, few)]
    assert errors[0] < 0.9 * errors[1]
    assert n_trees(KernelClassifier(random_state=0), (y > 0.0).astype(int)) == 100
    simple = np.floor(9.0 * X[:, 0]) % 3 + 0.3 * rng.standard_normal(5000)
    assert n_trees(KernelRegressor(random_state=0), simple) == 100  # 300 fit its noise
    smooth = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(5000)
    assert n_trees(KernelRegressor(random_state=0), smooth) <= 100
