"""The default fed row by row: what users of the classifier and the regressor see."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer import KernelClassifier, KernelRanker, KernelRegressor, NoveltyDetector, load_model
from mercer.expansions import Auto, Stream
from mercer.streams import Mixture, RunningScale, StreamFunction

pytestmark = pytest.mark.usefixtures("quickest_race")
TASKS = pytest.mark.parametrize("task", ["numbers", "two numbers", "two classes", "three classes"])
SMALL = Stream(n_features=32, points=20)


def data_of(task, n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 50.0, 1.0] + [0.0, 1e3, 0.0]
    f = np.sin(2.0 * X[:, 0]) + X[:, 2]
    if task == "numbers":
        return X, 100.0 + 5.0 * f
    if task == "two numbers":
        return X, np.column_stack([100.0 + 5.0 * f, -f])
    if task == "two classes":
        return X, np.where(f > 0.0, "yes", "no")
    return X, np.digitize(f, [-0.7, 0.7])


def model_of(task, **options):
    return (KernelClassifier if "classes" in task else KernelRegressor)(**options)


def answers(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.predict(X)


class TestWhereItIsTaken:
    @TASKS
    def test_first_rows_decide(self, task):
        X, y = data_of(task, 300)
        few, many = model_of(task).partial_fit(X[:255], y[:255]), model_of(task)
        assert isinstance(few.learner_.function, StreamFunction)
        assert few.learner_.function.expansion == Stream()
        many.partial_fit(X[:256], y[:256])
        assert not isinstance(many.learner_.function, StreamFunction)
        assert not isinstance(model_of(task).fit(X, y).learner_.function, StreamFunction)
        one = model_of(task).learn_one(X[0], y[0])
        assert isinstance(one.learner_.function, StreamFunction)

    @pytest.mark.parametrize(
        "options",
        [
            {"expansion": Auto()},
            {"kernel": "gaussian"},
            {"step_size": 0.5},
            {"risk": "cvar"},
            {"regularization": 1e-3},
            {"loss": "huber"},
        ],
        ids=str,
    )
    def test_what_is_chosen_by_hand_stays(self, options):
        X, y = data_of("numbers", 60)
        model = KernelRegressor(**options).partial_fit(X, y)
        assert not isinstance(model.learner_.function, StreamFunction)

    @TASKS
    def test_it_can_be_asked_for(self, task):
        X, y = data_of(task, 250)
        model = model_of(task, expansion=SMALL, random_state=0).fit(X, y)
        assert model.learner_.function.expansion == SMALL
        assert model.score(X, y) > 0.7
        by_name = model_of(task, expansion="stream").fit(X[:20], y[:20])
        assert by_name.learner_.function.expansion == Stream()

    def test_it_is_refused_where_it_does_not_exist(self):
        X, y = data_of("numbers", 40)
        wrong = [
            KernelRegressor(expansion=SMALL, loss="huber"),
            KernelRegressor(expansion=SMALL, risk="cvar"),
            KernelRegressor(expansion=SMALL, kernel="gaussian"),
            KernelRegressor(expansion=SMALL, step_size=0.1),
            KernelRegressor(expansion=SMALL, regularization=0.1),
            KernelRegressor(expansion=SMALL, n_passes=2),
            KernelClassifier(expansion=SMALL, loss="hinge"),
            KernelRanker(expansion=SMALL),
            NoveltyDetector(expansion=SMALL),
        ]
        for model in wrong:
            with pytest.raises(ValueError, match=r"Stream|default expansion"):
                model.fit(X, (y > 100.0).astype(int))
            assert not hasattr(model, "learner_")


class TestAnswers:
    @TASKS
    def test_however_rows_are_cut(self, task):
        X, y = data_of(task, 80)
        one_by_one, some, all_at_once = (model_of(task, expansion=SMALL) for _ in range(3))
        if "classes" in task:  # all of them are known from the first row on
            for model in (one_by_one, some, all_at_once):
                model.partial_fit(X[:1], y[:1], classes=np.unique(y))
        else:
            for model in (one_by_one, some, all_at_once):
                model.partial_fit(X[:1], y[:1])
        for x, target in zip(X[1:], y[1:], strict=True):
            one_by_one.learn_one(x, target)
        for start in range(1, 80, 17):
            some.partial_fit(X[start : start + 17], y[start : start + 17])
        all_at_once.partial_fit(X[1:], y[1:])
        expected = answers(all_at_once, X)
        assert_array_equal(answers(one_by_one, X), expected)
        assert_array_equal(answers(some, X), expected)
        for model in (one_by_one, some):
            assert_array_equal(model.history_.loss, all_at_once.history_.loss)

    @TASKS
    def test_one_row_is_answered_as_many(self, task):
        X, y = data_of(task, 100)
        model = model_of(task, expansion=SMALL).partial_fit(X[:60], y[:60])
        many = answers(model, X[60:])
        for x, row in zip(X[60:], many, strict=True):
            if "classes" in task:
                one = list(model.predict_proba_one(x).values())
                assert model.predict_one(x) == model.predict(x[np.newaxis])[0]
            else:
                one = model.predict_one(x)
            assert_allclose(one, row, rtol=1e-9, atol=1e-12)

    @TASKS
    @pytest.mark.parametrize("n", [1, 2, 5, 12])
    def test_there_are_answers_from_the_first_row_on(self, task, n):
        X, y = data_of(task, n)
        model = model_of(task)
        for x, target in zip(X, y, strict=True):
            model.learn_one(x, target)
        assert np.isfinite(np.asarray(answers(model, X), dtype=float)).all()
        assert model.n_samples_seen_ == n

    def test_from_the_first_hundred_rows_on_they_are_good(self):
        X, y = data_of("numbers", 250)
        model, errors = KernelRegressor(), []
        for x, target in zip(X, y, strict=True):
            errors.append(model.predict_one(x) - target)
            model.learn_one(x, target)
        assert np.mean(np.square(errors[100:])) < 0.2 * y.var()
        X, y = data_of("two classes", 250)
        model, right = KernelClassifier(), []
        for x, label in zip(X, y, strict=True):
            right.append(model.predict_one(x) == label)
            model.learn_one(x, label)
        assert np.mean(right[100:]) > 0.85

    def test_rare_flags_do_not_hide_what_rows_have_in_common(self):
        rng = np.random.default_rng(0)
        X, flags = rng.uniform(-1.0, 1.0, (1000, 2)), rng.random((1000, 20)) < 0.03
        model, right = KernelClassifier(random_state=0), []
        for x, label in zip(np.hstack([X, flags]), X[:, 0] * X[:, 1] > 0.0, strict=True):
            right.append(model.predict_one(x) == label if right else True)
            model.learn_one(x, label)
        assert np.mean(np.array(right[500:])[flags[500:].any(axis=1)]) > 0.8  # by spread: .69

    def test_units_and_targets_far_from_zero_do_not_matter(self):
        X, y = data_of("numbers", 300)
        plain, other = KernelRegressor(expansion=SMALL), KernelRegressor(expansion=SMALL)
        plain.partial_fit(X[:200], y[:200])
        other.partial_fit(X[:200] * 1024.0, 8.0 * y[:200])
        expected = 8.0 * plain.predict(X[200:])
        assert_allclose(other.predict(X[200:] * 1024.0), expected, rtol=1e-6)

    def test_weights_count(self):
        X, y = data_of("numbers", 80)
        weights = np.ones(80)
        weights[40:] = 0.0
        half = KernelRegressor(expansion=SMALL).partial_fit(X[:40], y[:40])
        weighted = KernelRegressor(expansion=SMALL).partial_fit(X, y, sample_weight=weights)
        assert_array_equal(half.predict(X), weighted.predict(X))
        # Of two noisy answers to the same row the heavy one is believed.
        rng = np.random.default_rng(0)
        rows, targets = rng.integers(0, 3, (250, 1)).astype(float), rng.integers(0, 2, 250) * 1.0
        heavy = 1.0 + 8.0 * targets
        model = KernelRegressor(expansion=SMALL)
        model.partial_fit(rows, targets, sample_weight=heavy)
        assert_allclose(model.predict(rows[:1]), 0.9, atol=0.15)
        first = KernelClassifier(expansion=SMALL, class_weight={0: 1.0, 1: 9.0})
        first.partial_fit(rows, targets.astype(int))
        assert first.predict_proba(rows[:1])[0, 1] > 0.75


class TestClassesAndFeatures:
    def test_classes_are_added(self):
        X, y = data_of("three classes", 500)
        model = KernelClassifier()
        order = np.argsort(np.where(np.arange(500) < 200, y == 2, False), kind="stable")
        for i in order:
            model.learn_one(X[i], y[i])
        assert_array_equal(model.classes_, [0, 1, 2])
        assert model.score(X, y) > 0.8
        probabilities = model.predict_proba(X)
        assert_allclose(probabilities.sum(axis=1), 1.0)

    def test_a_lone_class_is_the_answer(self):
        model = KernelClassifier()
        for x in data_of("numbers", 20)[0]:
            model.learn_one(x, "only")
        assert model.predict_one(x) == "only"
        for x in data_of("numbers", 40, seed=1)[0]:
            model.learn_one(x, "a" if x[0] > 0 else "b")
        assert set(model.predict_proba_one(x)) == {"a", "b", "only"}

    def test_features_come_and_go(self):
        rng = np.random.default_rng(0)
        model, right = KernelClassifier(), []
        for t in range(560):
            a, b, c = rng.normal(size=3).tolist()
            x = {"a": a, "b": b} if t < 200 else {"b": b, "c": c, "a": a}
            if t % 7 == 3:
                del x["b"]
            if t % 7 == 5:
                x["b"] = float("nan")
            if t % 7 == 6:
                x["b"] = None
            label = a > 0.0 if t < 200 else c > 0.0
            right.append(model.predict_one(x) == label)
            model.learn_one(x, label)
        assert model._row_names == ["a", "b", "c"]
        assert model.n_features_in_ == 3
        assert np.mean(right[100:200]) > 0.9
        assert np.mean(right[360:]) > 0.9
        # What no row has said is not asked for either.
        assert model.predict_one({"a": 1.0, "z": 5.0}) in (True, False)
        assert model.n_features_in_ == 3

    def test_new_features_change_no_answer(self):
        X, y = data_of("two classes", 100)
        rows = [dict(zip("abc", x.tolist(), strict=True)) for x in X]
        model = KernelClassifier(expansion=SMALL)
        for x, label in zip(rows[:80], y[:80], strict=True):
            model.learn_one(x, label)
        before = [model.predict_proba_one(x)["yes"] for x in rows]
        mixture = model.learner_.function.mixture
        mixture.add_inputs(2)
        model._row_names += ["d", "e"]
        model.n_features_in_ += 2
        after = [model.predict_proba_one(x)["yes"] for x in rows]
        assert_allclose(after, before, rtol=1e-9)
        mixture.learn(np.array([0.0, 1e3, 0.0, 1.0, np.nan]), np.ones(1))

    def test_nan_says_nothing(self):
        X, y = data_of("numbers", 300)
        gaps = X.copy()
        gaps[::3, 1] = np.nan  # a column that does not matter
        model = KernelRegressor().partial_fit(gaps[:200], y[:200])
        model.partial_fit(gaps[200:], y[200:])
        late = data_of("numbers", 200, seed=1)
        assert model.score(*late) > 0.8
        assert np.isfinite(model.predict(gaps)).all()
        # Beyond the default of streams gaps are inputs of their own.
        many = KernelRegressor().partial_fit(np.tile(gaps, (2, 1)), np.tile(y, 2))
        assert many.preprocessor_.n_features_out_ == X.shape[1] + 1


class TestNothingIsLost:
    @pytest.mark.parametrize(
        ("task", "at"),
        [("numbers", 3), ("two numbers", 60), ("two classes", 60), ("three classes", 3)],
    )
    def test_files_copies_and_pickles_go_on_with_the_same_bits(self, task, at, tmp_path):
        X, y = data_of(task, 90)
        model = model_of(task, expansion=SMALL).partial_fit(X[:at], y[:at])
        model.save(tmp_path / "model.mercer")
        others = [
            load_model(tmp_path / "model.mercer"),
            pickle.loads(pickle.dumps(model)),
            copy.deepcopy(model),
        ]
        for one in (model, *others):
            one.partial_fit(X[at:], y[at:])
        for one in others:
            assert_array_equal(answers(one, X), answers(model, X))
            assert_array_equal(one.history_.loss, model.history_.loss)
        assert not hasattr(clone(model), "learner_")

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            ([np.inf, 0.0, 0.0], 1.0),
            ([1e70, 0.0, 0.0], 1.0),
            ([0.0, 0.0], 1.0),
            ([0.0, 0.0, 0.0], np.nan),
            ([0.0, 0.0, 0.0], 1e100),
            (["a", 0.0, 0.0], 1.0),
        ],
        ids=str,
    )
    def test_a_wrong_row_changes_nothing(self, x, y):
        X, targets = data_of("numbers", 60)
        model = KernelRegressor(expansion=SMALL).partial_fit(X, targets)
        before = model.predict(X)
        with pytest.raises(ValueError, match=r"row|target|inputs|NaN|convert|y"):
            model.learn_one(x, y)
        with pytest.raises(ValueError, match=r"row|target|inputs|NaN|convert|y|X|dtype"):
            model.partial_fit([X[0].tolist(), x], [targets[0], y])
        assert_array_equal(model.predict(X), before)
        assert model.n_samples_seen_ == 60

    def test_asking_changes_nothing(self):
        X, y = data_of("two classes", 100)
        asked, silent = (KernelClassifier(expansion=SMALL) for _ in range(2))
        for x, label in zip(X, y, strict=True):
            asked.predict_one(x)
            asked.predict_proba_one(X[0])
            for model in (asked, silent):
                model.learn_one(x, label)
        assert_array_equal(asked.predict_proba(X), silent.predict_proba(X))

    def test_a_gap_hides_no_number_that_is_too_large(self):
        X, y = data_of("numbers", 40)
        model = KernelRegressor(expansion=SMALL).partial_fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="reach 1e"):
            model.learn_one([np.nan, 1e200, 0.0], 1.0)
        with pytest.raises(ValueError, match="reach 1e"):
            model.partial_fit([[np.nan, 0.0, 0.0], [1e200, 0.0, 0.0]], [1.0, 2.0])
        assert_array_equal(model.predict(X), before)

    @pytest.mark.parametrize(
        ("row", "label", "weight"),
        [
            ({"a": 1.0, "b": "broken", "z": 1.0}, 1, 1.0),
            ({"a": 1.0, "b": np.inf, "z": 1.0}, 1, 1.0),
            ({"a": 1.0, "b": 1.0, "z": 1e70}, 1, 1.0),
            ({"a": 1.0, "b": 1.0, "z": [1.0, 2.0]}, 1, 1.0),
            ({"a": 1.0, "b": 1.0, "z": 1.0}, "text", 1.0),
            ({"a": 1.0, "b": 1.0, "z": 1.0}, 1, -1.0),
            ({"a": 1.0, "b": 1.0, "z": 1.0}, 1, np.nan),
        ],
        ids=str,
    )
    def test_a_wrong_row_brings_no_feature(self, row, label, weight):
        model = KernelClassifier(expansion=SMALL)
        for i in range(30):
            model.learn_one({"a": float(i), "b": 1.0}, i % 2)
        state = model.to_state()
        with pytest.raises(ValueError, match=r"."):
            model.learn_one(row, label, weight)
        assert model.n_features_in_ == model.learner_.function.n_features == 2
        assert repr(model.to_state()) == repr(state)
        model.learn_one({"a": 1.0, "b": 1.0, "z": 1.0}, 1, 0.0)  # of no weight: not looked at
        assert model.n_features_in_ == 2
        model.learn_one({"a": 1.0, "b": 1.0, "z": 1.0}, 7)  # a new label and a new feature
        assert model.n_features_in_ == model.learner_.function.n_features == 3

    def test_a_batch_that_is_interrupted_is_undone(self, monkeypatch):
        X, y = data_of("numbers", 80)
        model = KernelRegressor(expansion=SMALL).partial_fit(X[:40], y[:40])
        before, learn, n = repr(model.to_state()), Mixture.learn, []

        def interrupted(self, *row):
            n.append(1)
            if len(n) == 7:
                raise KeyboardInterrupt
            return learn(self, *row)

        monkeypatch.setattr(Mixture, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[40:], y[40:])
        assert repr(model.to_state()) == before

    def test_threads_that_ask_do_not_disturb_each_other(self, monkeypatch):
        X, y = data_of("numbers", 60)
        model = KernelRegressor(expansion=SMALL).partial_fit(X, y)
        mixture = model.learner_.function.mixture
        expected, said = mixture.values(X[0]), Mixture._said

        def another_asks(self, *arguments):
            found = said(self, *arguments)
            monkeypatch.setattr(Mixture, "_said", said)
            self.values(X[1])
            return found

        mixture.values(X[2])
        monkeypatch.setattr(Mixture, "_said", another_asks)
        assert_array_equal(mixture.values(X[0]), expected)

    def test_features_may_have_names_that_are_numbers(self, tmp_path):
        model = KernelRegressor(expansion=SMALL)
        for i in range(20):
            model.learn_one({np.int64(3): float(i), np.int64(5): 1.0}, float(i))
        model.save(tmp_path / "model.mercer")
        again = load_model(tmp_path / "model.mercer")
        assert again.predict_one({3: 4.0, 5: 1.0}) == model.predict_one({3: 4.0, 5: 1.0})


class TestRobustness:
    @TASKS
    def test_the_unit_of_weights_does_not_matter(self, task):
        X, y = data_of(task, 60)
        plain = model_of(task, expansion=SMALL).partial_fit(X, y)
        for weight in (1e-9, 10.0, 1e12):
            other = model_of(task, expansion=SMALL)
            other.partial_fit(X, y, sample_weight=np.full(60, weight))
            assert_array_equal(answers(plain, X), answers(other, X))

    def test_one_heavy_row_is_one_row(self, tmp_path):
        X, y = data_of("numbers", 300)
        weights = np.ones(300)
        weights[120] = 1e200
        model = KernelRegressor(expansion=SMALL).partial_fit(X, y, sample_weight=weights)
        assert model.score(*data_of("numbers", 200, seed=1)) > 0.8
        model.save(tmp_path / "model.mercer")

    @pytest.mark.parametrize("size", [30.0, 1e9])
    def test_a_fault_of_one_row_is_forgiven(self, size):
        X, y = data_of("numbers", 450)
        late = data_of("numbers", 300, seed=1)
        for of_inputs in (True, False):
            faulty, targets = X.copy(), y.copy()
            if of_inputs:
                faulty[300] *= size
            else:
                targets[300] *= size
            model = KernelRegressor().partial_fit(faulty[:200], targets[:200])
            model.partial_fit(faulty[200:], targets[200:])
            assert model.score(*late) > 0.9

    def test_a_scale_that_grows_is_followed(self):
        rng = np.random.default_rng(0)
        scale = RunningScale(1)
        for _ in range(1000):
            scale.learn(rng.normal(size=1))
        for _ in range(4000):
            scale.learn(100.0 * rng.normal(size=1))
        assert 70.0 < scale.spread[0] < 110.0

    def test_fit_keeps_the_order_and_takes_gaps(self):
        X, y = data_of("numbers", 120)
        X[::5, 1] = np.nan
        fitted = KernelRegressor(expansion=SMALL, random_state=0).fit(X, y)
        streamed = KernelRegressor(expansion=SMALL).partial_fit(X, y)
        assert_array_equal(fitted.predict(X), streamed.predict(X))

    def test_rows_that_say_nothing_are_rows(self):
        model = KernelRegressor()
        model.learn_one({"a": None, "b": np.float32("nan")}, 1.0)
        model.learn_one({"a": 1.0, "c": np.float32("nan")}, 2.0)
        assert model._row_names == ["a", "b"]
        for i in range(30):
            model.learn_one({"a": float(i)}, float(i))
        assert np.isfinite(model.predict_one({}))

    def test_what_is_no_table_is_refused(self):
        for wrong in (5, np.float64(3.0), None):
            with pytest.raises(ValueError, match=r"."):
                KernelRegressor().partial_fit(wrong, [1.0])
        with pytest.raises(ValueError, match="n_features"):
            Stream(n_features=1)

    def test_steps_cannot_be_set_on_a_running_stream(self):
        X, y = data_of("numbers", 40)
        model = KernelRegressor().partial_fit(X, y)
        model.set_params(step_size=0.1)
        for learn in (lambda: model.learn_one(X[0], y[0]), lambda: model.partial_fit(X, y)):
            with pytest.raises(ValueError, match="step_size"):
                learn()
        assert model.n_samples_seen_ == 40


class TestHistory:
    def test_says_who_counted_and_when_the_stream_changed(self, tmp_path):
        X, y = data_of("two classes", 500)
        y[350:] = np.where(y[350:] == "yes", "no", "yes")
        model = KernelClassifier()
        for x, label in zip(X, y, strict=True):
            model.learn_one(x, label)
        history = model.history_
        assert set(history.monitors) == set(Mixture.kinds)
        total = sum(history.monitors.values())
        assert_allclose(total[20:], 1.0, atol=1e-9)
        changes = history.changes
        assert ((changes > 350) & (changes < 450)).sum() == 1
        assert (changes < 350).sum() <= 1
        model.save(tmp_path / "model.mercer")
        assert_array_equal(load_model(tmp_path / "model.mercer").history_.changes, changes)

    def test_rows_of_weight_zero_move_no_mark(self):
        X, y = data_of("two classes", 400)
        y[200:] = np.where(y[200:] == "yes", "no", "yes")
        model = KernelClassifier(expansion=SMALL)
        model.partial_fit(X[:200], y[:200], sample_weight=np.zeros(200), classes=["no", "yes"])
        model.partial_fit(X, y)
        history = model.history_
        assert history.changes[-1] <= history.n_samples[-1] == 400
        assert model.n_samples_seen_ == 600

    def test_losses_are_of_rows_before_they_are_learned(self):
        X, y = data_of("numbers", 50)
        model, losses = KernelRegressor(expansion=SMALL), []
        for x, target in zip(X, y, strict=True):
            losses.append(0.5 * (model.predict_one(x) - target) ** 2)
            model.learn_one(x, target)
        assert_allclose(model.history_.loss[1:], losses[1:], rtol=1e-9)

    def test_there_is_no_single_kernel(self):
        X, y = data_of("numbers", 50)
        model = KernelRegressor().partial_fit(X, y)
        for name in ("kernel_", "dictionary_", "coefficients_", "parts_", "race_"):
            assert not hasattr(model, name)
        assert model.model_order_ > 0
