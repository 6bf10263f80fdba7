"""What is said of targets before anything is learned: too many classes, too few, or only one."""

import re

import numpy as np
import pandas as pd
import pytest

from mercer import KernelClassifier, KernelRegressor
from mercer_app.training import FileTraining

ROWS = 90


@pytest.fixture
def train(tmp_path):
    """Start a training of a target beside two inputs; return it."""

    def start(y, *, again=0, warmup_rows=50_000, **settings):
        y = np.concatenate([np.asarray(y), np.repeat(y[:1], again)])
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.normal(size=len(y)), "b": rng.normal(size=len(y)), "y": y})
        frame.to_csv(tmp_path / "rows.csv", index=False)
        training = FileTraining(tmp_path / "rows.csv", "y", warmup_rows=warmup_rows, **settings)
        return training.start()

    return start


NAMES = np.array([f"u{i}" for i in range(ROWS)])


@pytest.mark.parametrize("again", [0, 25])
def test_names_of_rows_are_no_classes(train, again):
    with pytest.raises(ValueError, match=rf"{ROWS} different values in {ROWS + again} rows") as e:
        train(NAMES, again=again)
    assert "`target`" in str(e.value)
    assert "regression" not in str(e.value)


def test_row_numbers_as_classes_are_refused_and_may_be_quantities(train):
    with pytest.raises(ValueError, match="or say `task='regression'` if these are quantities"):
        train(np.arange(ROWS), task="classification")
    assert train(np.arange(ROWS)).task == "regression"


def test_few_rows_may_be_of_different_classes_if_others_follow(train):
    y = np.tile([f"class {i}" for i in range(30)], 3)
    assert len(train(y, warmup_rows=30).first_classes_) == 30
    assert len(train(y).first_classes_) == 30


@pytest.mark.parametrize("again", [0, 110])
def test_one_class_is_refused_before_anything_is_learned(train, again, monkeypatch):
    monkeypatch.setattr(KernelClassifier, "partial_fit", None)
    monkeypatch.setattr(KernelClassifier, "fit", None)
    with pytest.raises(ValueError, match=f"'y' is 'up' in all {ROWS + again} rows, so there is"):
        train(["up"] * ROWS, again=again, warmup_rows=ROWS)


@pytest.mark.parametrize("task", ["regression", "gp"])
def test_equal_quantities_are_named_before_they_are_learned(train, task):
    with pytest.warns(UserWarning, match=r"'y' is 3.5 in all 90 rows.*another column the `target`"):
        train([3.5] * ROWS, task=task)


def test_targets_that_vary_late_are_enough(train):
    y = ["up"] * 80 + ["down"] * 10
    assert train(y, warmup_rows=20).first_classes_ == ["up"]
    train([3.5] * 80 + [4.0] * 10, warmup_rows=20)  # no warning, which would be an error


def test_classes_of_a_single_row_are_named(train):
    y = np.where(np.arange(ROWS) % 2, "odd", "even").astype(object)
    y[7] = "once"
    with pytest.warns(UserWarning, match=r"^1 of the 3 classes of 'y' has a single row \('once'\)"):
        assert len(train(y).first_classes_) == 3
    y[:6] = [f"rare {i}" for i in range(6)]
    expected = "7 of the 9 classes of 'y' have a single row each ('once', 'rare 0', 'rare 1'"
    with pytest.warns(UserWarning, match="^" + re.escape(expected)):
        train(y)
    assert train(y, warmup_rows=30).first_classes_  # others of them may follow


@pytest.mark.parametrize("labels", [NAMES, np.arange(ROWS)])
def test_the_classifier_refuses_as_many_classes_as_rows(labels):
    X = np.random.default_rng(0).normal(size=(ROWS, 2))
    with (
        pytest.warns(UserWarning, match="unique classes"),  # of scikit-learn
        pytest.raises(ValueError, match="90 different labels in 90 rows") as error,
    ):
        KernelClassifier().fit(X, labels)
    assert "KernelRegressor" in str(error.value)


def test_estimators_do_not_guess():
    """The class says what is learned: many quantities may be whole numbers, and classes too."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.arange(200) % 25
    assert KernelClassifier(expansion="komp").fit(X, y).classes_.size == 25
    model = KernelRegressor(expansion="komp").fit(X, y)
    assert np.ptp(model.predict(X)) > 0.0
    assert model.predict(X[:2]).dtype.kind == "f"
