"""``learn_one`` and ``predict_one`` do what ``partial_fit`` and ``predict`` do with one row."""

import copy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from river import metrics

from covering import covering
from mercer import KernelClassifier, KernelRegressor
from mercer.exceptions import DivergenceError
from mercer.expansions import KOMP, Budget, Full
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Poisson, Quantile
from mercer.schedules import PowerDecay

KERNEL = Gaussian(0.8)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = np.where(X[:, 0] * X[:, 1] > 0.0, "same", "other")
CLASSIFIERS = {
    "auto": {},
    "hinge": {"loss": "hinge"},
    "full": {"expansion": "full", "step_size": 0.5},
    "ring": {"expansion": Full(max_size=9), "step_size": PowerDecay(0.9)},
    "budget": {"expansion": Budget(9), "step_size": 0.5},
    "callable tolerance": {"expansion": KOMP(tolerance=lambda t: 0.1 / t), "step_size": 0.5},
    "callable step": {"step_size": lambda t: 1.0 / t},
    "last iterate": {"average": None, "regularization": 0.3, "step_size": 0.5},
    "polyak": {"average": "polyak"},
    "class weights": {"class_weight": {"same": 2.0}},
    "balanced": {"class_weight": "balanced"},
    "no compiled kernel": {"kernel": lambda A, B: (1.0 + A @ B.T) ** 2, "step_size": 0.01},
}


def same_model(a, b):
    assert_allclose(a.dictionary_, b.dictionary_, rtol=1e-12)
    assert_allclose(a.coefficients_, b.coefficients_, rtol=1e-9, atol=1e-12)
    assert a.n_samples_seen_ == b.n_samples_seen_
    for name in ("n_samples", "loss", "model_order", "step_size"):
        assert_allclose(getattr(a.history_, name), getattr(b.history_, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("parameters", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_classifier_learns_a_row_as_partial_fit_does(parameters, batch_size, rng):
    parameters = {"kernel": KERNEL, "expansion": "komp", "batch_size": batch_size, **parameters}
    by_rows, by_calls = KernelClassifier(**parameters), KernelClassifier(**parameters)
    weights = rng.uniform(0.5, 2.0, size=60)
    for x, y, w in zip(X, LABELS, weights, strict=True):
        by_rows.learn_one(x, y, sample_weight=w)
        by_calls.partial_fit(x[None], [y], sample_weight=[w])
    same_model(by_rows, by_calls)
    assert np.array_equal(by_rows.class_counts_, by_calls.class_counts_)
    for i in range(0, 60, 3):
        assert by_rows.predict_one(X[i]) == by_calls.predict(X[i : i + 1])[0]
    if by_rows.loss_.has_probabilities:
        expected = by_rows.predict_proba(X[:1])[0]
        assert_allclose(list(by_rows.predict_proba_one(X[0]).values()), expected, rtol=1e-9)
        assert list(by_rows.predict_proba_one(X[0])) == ["other", "same"]


@pytest.mark.parametrize(
    ("loss", "n_targets", "average"),
    covering(
        ["squared", "huber", Quantile([0.1, 0.5, 0.9]), "poisson"], [0, 1, 2], [None, "suffix"]
    ),
)
def test_a_regressor_learns_a_row_as_partial_fit_does(loss, n_targets, average):
    parameters = {"kernel": KERNEL, "average": average, "step_size": 0.3}
    by_rows, by_calls = KernelRegressor(loss, **parameters), KernelRegressor(loss, **parameters)
    targets = np.abs(X[:, :n_targets]) if n_targets else np.abs(X[:, 0])
    for x, y in zip(X, targets, strict=True):
        by_rows.learn_one(x, y)
        by_calls.partial_fit(x[None], y[None])
    same_model(by_rows, by_calls)
    prediction = by_rows.predict_one(X[0])
    assert_allclose(prediction, by_calls.predict(X[:1])[0], rtol=1e-9, atol=1e-12)
    several = n_targets or isinstance(loss, Quantile)
    assert isinstance(prediction, np.ndarray if several else float)


def test_rows_and_batches_may_alternate():
    parameters = {"kernel": KERNEL, "expansion": "komp", "batch_size": 5}
    model, other = KernelClassifier(**parameters), KernelClassifier(**parameters)
    for start in range(0, 60, 10):
        model.partial_fit(X[start : start + 5], LABELS[start : start + 5])
        other.partial_fit(X[start : start + 5], LABELS[start : start + 5])
        for i in range(start + 5, start + 10):
            model.learn_one(X[i], LABELS[i])
            other.partial_fit(X[i : i + 1], LABELS[i : i + 1])
    same_model(model, other)


@pytest.mark.parametrize("loss", ["auto", "hinge", Hinge(), "multiclass_hinge"], ids=str)
def test_new_labels_add_classes_whichever_way_they_come(loss):
    parameters = {"kernel": KERNEL, "loss": loss, "step_size": 0.5}
    by_rows, by_calls = KernelClassifier(**parameters), KernelClassifier(**parameters)
    labels = ["m"] * 3 + ["z", "m"] * 4 + ["a", "z", "m"] * 4 + ["loss", "a"] * 4
    for i, y in enumerate(labels):
        if i % 5 == 4:
            by_rows.partial_fit(X[i : i + 1], [y])
        else:
            by_rows.learn_one(X[i], y)
        by_calls.partial_fit(X[i : i + 1], [y])
        assert by_rows.predict_one(X[i]) == by_calls.predict(X[i : i + 1])[0]
    assert by_rows.classes_.tolist() == ["a", "loss", "m", "z"]
    same_model(by_rows, by_calls)


def test_a_second_fit_forgets_what_rows_were_like():
    model = KernelClassifier(Hinge(), kernel=KERNEL)
    model.learn_one({"u": 1.0, "v": 2.0}, 0).learn_one({"u": 0.0, "v": 1.0}, 1)
    model.fit(X, np.arange(60) % 3 + 1)
    model.learn_one(X[0], 1).learn_one(dict(zip("abc", X[1], strict=True)), 2)
    assert model.n_features_in_ == 3
    assert model.coefficients_.shape[1] == 3
    regressor = KernelRegressor(kernel=KERNEL).learn_one({"u": 1.0}, 2.0).fit(X, X[:, 0])
    assert regressor.predict_one(dict(zip("abc", X[1], strict=True))) == pytest.approx(
        regressor.predict(X[1:2])[0]
    )


# -- dicts --------------------------------------------------------------------------------------


def test_dicts_are_read_by_name():
    parameters = {"kernel": KERNEL}
    model, other = KernelClassifier(**parameters), KernelClassifier(**parameters)
    for i in range(40):
        row = dict(zip(("b", "a", "c"), X[i].tolist(), strict=True))
        turned = dict(reversed(row.items())) if i % 2 else row
        model.learn_one(turned, LABELS[i])
        other.learn_one(X[i, [1, 0, 2]], LABELS[i])
    same_model(model, other)
    assert model.predict_one({"c": 0.1, "b": 0.2, "a": 0.3}) == other.predict_one([0.3, 0.2, 0.1])


def test_names_of_a_data_frame_hold_for_dicts():
    frame = pd.DataFrame(X, columns=["zeta", "alpha", "mid"])
    model = KernelRegressor(kernel=KERNEL).fit(frame, X[:, 0])
    row = {"alpha": X[0, 1], "mid": X[0, 2], "zeta": X[0, 0]}
    assert model.predict_one(row) == pytest.approx(model.predict(frame[:1])[0])


def test_names_may_be_numbers():
    model = KernelRegressor(kernel=KERNEL).learn_one({10: 1.0, 9: 2.0, "a": 0.5}, 1.0)
    assert model.dictionary_.tolist() == [[2.0, 1.0, 0.5]]


def test_a_missing_feature_is_named():
    model = KernelClassifier(kernel=KERNEL).learn_one({"a": 1.0, "b": 2.0}, "x")
    with pytest.raises(ValueError, match="no feature 'b'"):
        model.learn_one({"a": 1.0}, "x")
    with pytest.raises(ValueError, match="no feature 'a'"):
        model.predict_one({"b": 1.0})


@pytest.mark.parametrize("start", ["dict", "array", "frame"])
@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_a_feature_too_many_is_named(estimator, start):
    model = estimator(kernel=KERNEL)
    if start == "dict":
        model.learn_one({"a": 1.0, "b": 2.0, "c": 0.0}, 1.0)
    elif start == "array":
        model.fit(X, LABELS == "same").learn_one({"a": 1.0, "b": 2.0, "c": 0.0}, 1.0)
    else:
        model.fit(pd.DataFrame(X, columns=["a", "b", "c"]), LABELS == "same")
    before = copy.deepcopy(model)
    row = {"c": 0.0, "more": 1e9, "a": 1.0, "b": 2.0}
    for call in (model.predict_one, lambda x: model.learn_one(x, 1.0)):
        with pytest.raises(ValueError, match=r"feature\(s\) \['more'\].*cannot be added"):
            call(row)
    same_model(model, before)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_names_that_do_not_fit_are_not_remembered(estimator):
    model = estimator(kernel=KERNEL).fit(X, LABELS == "same")
    before = dict(vars(model))
    bad = {"a": np.nan, "b": 0.0, "d": 1.0}
    for row, words in [({"a": 1.0}, r"1 feature\(s\).*has 3"), (bad, "NaN or infinite")]:
        for call in (model.predict_one, lambda x: model.learn_one(x, 1.0)):
            with pytest.raises(ValueError, match=words):
                call(row)
    assert vars(model) == before
    row = dict(zip("abc", X[0].tolist(), strict=True))
    assert model.predict_one(row) == model.predict_one(X[0])
    assert vars(model) == before
    model.learn_one(row, 1.0)
    with pytest.raises(ValueError, match="no feature 'a'"):
        model.predict_one({"b": 1.0, "c": 0.0, "d": 0.0})


def test_rows_of_a_model_of_a_data_frame_give_no_warning():
    frame = pd.DataFrame(X, columns=["zeta", "alpha", "mid"])
    for model in (KernelRegressor(kernel=KERNEL), KernelClassifier(kernel=KERNEL)):
        model.fit(frame, LABELS == "same")
        model.learn_one({"alpha": 0.1, "mid": 0.2, "zeta": 0.3}, True)
        model.set_params(step_size=0.1).learn_one({"alpha": 0.1, "mid": 0.2, "zeta": 0.3}, False)


# -- before the first row -------------------------------------------------------------------------


def test_predictions_before_the_first_row_are_those_of_river():
    """River's loops predict each row before they learn it."""
    classifier, regressor = KernelClassifier(kernel=KERNEL), KernelRegressor(kernel=KERNEL)
    row = dict(zip("abc", X[0].tolist(), strict=True))
    for x in (row, X[0]):
        assert classifier.predict_one(x) is None
        assert classifier.predict_proba_one(x) == {}
        assert regressor.predict_one(x) == 0.0
    assert not vars(classifier).keys() & {"_row_names", "n_features_in_"}
    accuracy, error = metrics.Accuracy(), metrics.MAE()
    for x, y in zip(X, LABELS, strict=True):
        row = dict(zip("abc", x.tolist(), strict=True))
        accuracy.update(y, classifier.predict_one(row))
        error.update(x[0], regressor.predict_one(row))
        classifier.learn_one(row, y)
        regressor.learn_one(row, x[0])
    assert accuracy.get() > 0.5
    assert error.get() < np.abs(X[:, 0]).mean()


# -- errors leave the model as it was -------------------------------------------------------------


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1.0, 2.0], r"vector of 3 numbers .* got shape \(2,\)"),
        ([[1.0, 2.0, 3.0]], r"got shape \(1, 3\)"),
        ([1.0, np.nan, 2.0], "NaN or infinite"),
        ([np.inf, -np.inf, 2.0], "NaN or infinite"),
        (["a", 1.0, 2.0], "could not convert"),
    ],
)
def test_a_bad_row_is_refused_and_changes_nothing(estimator, row, words):
    model = estimator(kernel=KERNEL)
    for i in range(5):
        model.learn_one(X[i], float(i % 2))
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match=words):
        model.learn_one(row, 1.0)
    with pytest.raises(ValueError, match=words):
        model.predict_one(row)
    same_model(model, before)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_a_bad_weight_is_refused(estimator, weight):
    model = estimator(kernel=KERNEL)
    for i in range(4):
        model.learn_one(X[i], float(i % 2))
    with pytest.raises(ValueError, match="ample_weight"):
        model.learn_one(X[0], 1.0, sample_weight=weight)
    assert model.n_samples_seen_ == 4


@pytest.mark.parametrize("row", [[1.0, np.nan], [[1.0, 2.0]], 3.0])
def test_a_bad_first_row_leaves_nothing_behind(row):
    for model in (KernelClassifier(kernel=KERNEL), KernelRegressor(kernel=KERNEL)):
        before = dict(vars(model))
        with pytest.raises(ValueError, match=r"NaN|vector of numbers"):
            model.learn_one(row, 1.0)
        assert vars(model) == before
        model.learn_one([1.0, 2.0, 3.0], 1.0)


@pytest.mark.parametrize("y", [np.nan, np.inf, [1.0, 2.0]])
def test_a_bad_target_is_refused(y):
    model = KernelRegressor(kernel=KERNEL).learn_one(X[0], 1.0)
    with pytest.raises(ValueError, match=r"target|`y` contains NaN"):
        model.learn_one(X[0], y)


def test_targets_that_a_loss_does_not_know_are_refused():
    model = KernelRegressor(Poisson(), kernel=KERNEL, step_size=0.1).learn_one(X[0], 1.0)
    with pytest.raises(ValueError, match="at least 0"):
        model.learn_one(X[0], -1.0)


def test_a_diverging_row_is_refused_and_changes_nothing():
    model = KernelRegressor(kernel="linear", step_size=10.0)
    for i in range(2):
        model.learn_one(X[i], 1.0)
    for _ in range(200):
        before = copy.deepcopy(model)
        try:
            model.learn_one(X[0], 1.0)
        except DivergenceError as error:
            assert "step size of about" in str(error)  # noqa: PT017
            break
    else:
        pytest.fail("a step size of 10 must diverge")
    same_model(model, before)
    assert np.isfinite(model.predict_one(X[0]))


def test_huge_but_finite_rows_are_no_error():
    model = KernelRegressor(kernel=KERNEL, expansion="komp").learn_one([1e200, 1.0, 1.0], 1.0)
    assert model.learn_one([1.0, 1e308, -1e308], 1.0).predict_one([1e200, 1.0, 1.0]) > 0.0


# -- forms of rows --------------------------------------------------------------------------------


def test_rows_of_any_form_give_the_same_prediction():
    model = KernelClassifier(kernel=KERNEL).fit(X, LABELS)
    row = X[7]
    frozen = row.copy()
    frozen.setflags(write=False)
    strided = np.repeat(row, 2)[::2]
    expected = model.predict_proba_one(row)
    for form in (row.tolist(), tuple(row), frozen, strided, pd.Series(row)):
        assert model.predict_proba_one(form) == expected
        copy.deepcopy(model).learn_one(form, "same")


def test_rows_are_copied():
    model = KernelRegressor(kernel=KERNEL, expansion="full", step_size=0.5)
    row = np.ones(3)
    for i in range(3):
        row[:] = float(i)
        model.learn_one(row, 1.0)
    assert model.dictionary_[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_float32_models_stay_float32():
    model = KernelClassifier(kernel=KERNEL, expansion=KOMP(tolerance=0.1), step_size=0.5)
    model.partial_fit(X[:5].astype(np.float32), LABELS[:5])
    for i in range(5, 20):
        model.learn_one(X[i], LABELS[i])
    assert model.dictionary_.dtype == np.float32
    assert_allclose(
        list(model.predict_proba_one(X[0]).values()),
        model.predict_proba(X[:1].astype(np.float32))[0],
        rtol=1e-5,
    )


def test_probabilities_exist_only_where_the_loss_models_them():
    model = KernelClassifier("hinge", kernel=KERNEL).learn_one(X[0], 0).learn_one(X[1], 1)
    assert not hasattr(model, "predict_proba_one")
    with pytest.raises(AttributeError, match="predict_proba_one") as caught:
        model.predict_proba_one(X[0])
    assert "'logistic' and 'softmax'" in str(caught.value.__cause__)


def test_one_class_is_predicted_for_certain():
    model = KernelClassifier(kernel=KERNEL).learn_one(X[0], "only")
    assert model.predict_one(X[1]) == "only"
    assert model.predict_proba_one(X[1]) == {"only": 1.0}
