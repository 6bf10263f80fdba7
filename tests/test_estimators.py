"""The classifier and the regressor: classes, weights, passes, probabilities, errors."""

import copy
import io
import warnings
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pytest
import river
from numpy.testing import assert_allclose
from river import compat
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.metrics import d2_pinball_score, mean_pinball_loss, r2_score
from sklearn.model_selection import GridSearchCV

from covering import covering
from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.estimators.fitting import Given
from mercer.estimators.start import Plan
from mercer.exceptions import DivergenceError, NothingLearnedWarning
from mercer.expansions import KOMP, Auto, Full, RandomFeatures, Stream
from mercer.kernels import Gaussian, Laplacian, Linear, Polynomial
from mercer.losses import Hinge, Huber, LeastSquaresMargin, Logistic, Quantile, Softmax
from mercer.schedules import PowerDecay

pytestmark = pytest.mark.usefixtures("quick_race", "quick_correction")

KERNEL = Gaussian(0.8)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 2))
LABELS = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
TARGETS = np.sin(2.0 * X[:, 0]) + X[:, 1]
FULL = {"kernel": KERNEL, "expansion": Full(), "step_size": 0.9, "batch_size": 8, "average": None}


@pytest.fixture(scope="module")
def learned():
    """Models with default parts that learned the rows; no test may change them."""

    def model(estimator, loss):
        start = estimator(random_state=0).learn_one({"u": 0.3, "v": 0.2}, 1.0)
        return start.set_params(loss=loss).fit(X, LABELS)

    losses = {KernelClassifier: LeastSquaresMargin(), KernelRegressor: "squared"}
    return {estimator: model(estimator, loss) for estimator, loss in losses.items()}


def same(a, b):
    if getattr(a, "parts_", None):
        pairs = [
            (one, other)
            for mine, theirs in zip(a.parts_, b.parts_, strict=True)
            for one, other in (
                (mine.dictionary, theirs.dictionary),
                (mine.coefficients, theirs.coefficients),
            )
        ]
    else:
        pairs = [(a.dictionary_, b.dictionary_), (a.coefficients_, b.coefficients_)]
    return all(np.array_equal(*pair) for pair in [*pairs, (a.history_.loss, b.history_.loss)])


# -- classes that appear later --------------------------------------------------------------------

ORDERS = [("b", "d", "f"), ("f", "d", "b"), ("d", "f", "b"), ("d", "b", "f")]


@pytest.mark.parametrize(
    ("order", "loss", "average"),
    covering(
        ORDERS,
        ["auto", "softmax", "multiclass_hinge", "logistic", "hinge", Hinge()],
        [None, "suffix"],
    ),
)
def test_classes_may_come_one_after_the_other(order, loss, average):
    names = np.array(order)
    model = KernelClassifier(loss, **{**FULL, "average": average})
    model.partial_fit(X[:40], names[np.zeros(40, int)])
    assert model.classes_.tolist() == [order[0]]
    assert set(model.predict(X)) == {order[0]}
    model.partial_fit(X[40:140], names[LABELS[40:140] % 2])
    assert model.classes_.tolist() == sorted(order[:2])
    assert model.decision_function(X).shape == (240,)
    assert model.score(X, names[LABELS % 2]) > 0.7
    for _ in range(8):
        model.partial_fit(X, names[LABELS])
    assert model.classes_.tolist() == sorted(order)
    assert model.decision_function(X).shape == (240, 3)
    assert model.score(X, names[LABELS]) > 0.85


def add_classes(model, labels):
    """Let a model meet labels, but learn no row of them."""
    rows = np.zeros((len(labels), model.n_features_in_))
    given = Given(rows, np.array(labels), more=True)
    model._meet(model._checked(given, model.targets_, model.plan()))


@pytest.mark.parametrize("second", ["a", "z"])
def test_growing_from_logistic_to_softmax_keeps_probabilities(second):
    """The softmax of (-f/2, f/2) is the logistic function of f."""
    model = KernelClassifier(kernel=KERNEL, step_size=0.9)
    model.partial_fit(X, np.where(LABELS > 0, "m", second))
    assert isinstance(model.loss_, Logistic)
    two, grown = model.predict_proba(X), copy.deepcopy(model)
    add_classes(grown, ["m", "q", second])
    assert isinstance(grown.loss_, Softmax)
    three = grown.predict_proba(X)
    old = [grown.classes_.tolist().index(c) for c in model.classes_.tolist()]
    assert_allclose(three[:, old] / three[:, old].sum(axis=1, keepdims=True), two, rtol=1e-10)
    # A class that nobody has seen never wins.
    assert (grown.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "softmax", "multiclass_hinge"])
@pytest.mark.parametrize("average", [None, "polyak"])
def test_a_new_class_changes_no_decision_before_it_is_learned(loss, average):
    model = KernelClassifier(loss, kernel=KERNEL, step_size=0.9, average=average, n_passes=3)
    for labels in (LABELS > 0, LABELS):
        model.fit(X, np.array([2.0, 4.0, 6.0])[labels.astype(int)])
        decided = model.predict(X)
        for new in (1.0, 3.0, 9.0):
            add_classes(model, [new])
            assert np.array_equal(model.predict(X), decided)


def test_learning_after_new_classes_equals_learning_with_classes_announced():
    """Multi-class losses start a new class at 0, so it does not matter when it is announced."""
    late = KernelClassifier("softmax", **FULL).partial_fit(X[:8], LABELS[:8] * 0 + 1)
    early = KernelClassifier("softmax", **FULL)
    early.partial_fit(X[:8], LABELS[:8] * 0 + 1, classes=[1, 2])
    assert late.coefficients_.size == 0  # one class: nothing to learn
    assert early.coefficients_.shape == (8, 2)
    late, early = KernelClassifier("softmax", **FULL), KernelClassifier("softmax", **FULL)
    early.partial_fit(X[:80], LABELS[:80] % 2, classes=[0, 1])
    late.partial_fit(X[:80], LABELS[:80] % 2)
    assert same(late, early)
    assert late.classes_.tolist() == [0, 1]


def test_announced_classes_are_there_from_the_start():
    model = KernelClassifier(kernel=KERNEL).partial_fit(X[:3], [0, 1, 0], classes=[0, 1, 7])
    assert model.classes_.tolist() == [0, 1, 7]
    assert isinstance(model.loss_, Softmax)
    with pytest.raises(ValueError, match=r"not in `classes`: \[9\]. Leave"):
        model.partial_fit(X[:3], [7, 9, 0], classes=[0, 1, 7, 8])


@pytest.mark.parametrize("expansion", ["auto", "komp"])
def test_classes_that_were_announced_are_all_until_more_are(expansion, tmp_path):
    model = KernelClassifier(kernel=KERNEL, expansion=expansion)
    model.partial_fit(X[:3], [0, 1, 0], classes=[0, 1])
    model.learn_one(X[3], 1)
    model.save(tmp_path / "m")
    for again in (model, load_model(tmp_path / "m")):
        with pytest.raises(ValueError, match=r"not in `classes`: \[8\]. These were given as"):
            again.partial_fit(X[:2], [0, 8])
        with pytest.raises(ValueError, match=r"not in `classes`: \[8\]. These were given as"):
            again.learn_one(X[0], 8)
        assert again.classes_.tolist() == [0, 1]
        again.partial_fit(X[:3], [7, 8, 0], classes=[7, 8, 0])
        assert again.classes_.tolist() == [0, 1, 7, 8]
        again.partial_fit(X[:3], [7, 1, 0])
    # Without them, and after a new fit, classes may come at any time.
    assert model.fit(X, LABELS).partial_fit(X[:1], [9]).classes_.tolist() == [0, 1, 2, 9]


def test_labels_of_longer_text_do_not_cut_others():
    model = KernelClassifier(kernel=KERNEL).partial_fit(X[:2], ["b", "c"])
    model.partial_fit(X[:2], ["apple", "b"])
    assert model.classes_.tolist() == ["apple", "b", "c"]
    model = KernelClassifier(kernel=KERNEL).partial_fit(X[:2], [0, 1])
    assert model.partial_fit(X[:2], [0.0, 2.0]).classes_.tolist() == [0, 1, 2]


def test_text_and_numbers_are_not_mixed():
    model = KernelClassifier(kernel=KERNEL).partial_fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="text and numbers cannot be mixed"):
        model.partial_fit(X[:2], ["0", "1"])
    with pytest.raises(ValueError, match="text and numbers cannot be mixed"):
        KernelClassifier(kernel=KERNEL).partial_fit(X[:2], ["0", "1"], classes=[0, 1])


def test_scores_of_two_classes_are_one_column_for_every_loss():
    for loss in ("logistic", "softmax", "hinge", "multiclass_hinge"):
        model = KernelClassifier(loss, kernel=KERNEL, step_size=0.9).fit(X, LABELS > 0)
        scores = model.decision_function(X)
        assert scores.shape == (240,)
        assert np.array_equal(model.predict(X), scores > 0.0)


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_a_weight_multiplies_the_slope(estimator):
    y = LABELS if estimator is KernelClassifier else TARGETS
    one = estimator(**FULL).partial_fit(X[:8], y[:8])
    two = estimator(**FULL).partial_fit(X[:8], y[:8], sample_weight=np.full(8, 2.0))
    assert_allclose(two.coefficients_, 2.0 * one.coefficients_, rtol=1e-12)


@pytest.mark.parametrize("average", [None, "polyak"])
def test_rows_of_zero_weight_only_count(average):
    model = KernelRegressor(**{**FULL, "average": average, "regularization": 0.0})
    model.partial_fit(X[:64], TARGETS[:64])
    before = copy.deepcopy(model)
    model.partial_fit(X[64:72], TARGETS[64:72], sample_weight=np.zeros(8))
    model.learn_one(X[72], TARGETS[72], sample_weight=0.0)
    assert np.array_equal(model.dictionary_, before.dictionary_)
    assert model.n_samples_seen_ == 73
    if average is None:
        assert np.array_equal(model.coefficients_, before.coefficients_)


def test_zero_weights_in_a_batch_still_count_in_its_mean():
    weights = np.tile([1.0, 0.0], 4)
    model = KernelRegressor(**FULL).partial_fit(X[:8], TARGETS[:8], sample_weight=weights)
    assert_allclose(model.dictionary_, X[:8:2])
    assert_allclose(model.coefficients_[:, 0], 0.9 / 8 * TARGETS[:8:2])


def test_class_weights_multiply_row_weights(rng):
    table = {0: 2.0, 2: 0.5}
    weights = rng.random(240)
    by_class = KernelClassifier(class_weight=table, random_state=0, **FULL)
    by_row = KernelClassifier(random_state=0, **FULL)
    products = weights * np.array([2.0, 1.0, 0.5])[LABELS]
    assert same(by_class.fit(X, LABELS, weights), by_row.fit(X, LABELS, products))
    by_class.partial_fit(X, LABELS, sample_weight=weights)
    assert same(by_class, by_row.partial_fit(X, LABELS, sample_weight=products))


def test_balanced_weights_in_fit_are_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_sample_weight

    labels = np.array(["x", "y", "z"])[LABELS]
    balanced = KernelClassifier(class_weight="balanced", random_state=0, **FULL).fit(X, labels)
    weights = compute_sample_weight("balanced", labels)
    assert_allclose(
        balanced.coefficients_,
        KernelClassifier(random_state=0, **FULL).fit(X, labels, weights).coefficients_,
        rtol=1e-9,
    )


def test_balanced_weights_on_a_stream_use_the_frequencies_so_far():
    counts, weights = np.ones(3), []
    for y in LABELS:
        counts[y] += 1.0
        weights.append(counts.sum() / (3.0 * counts[y]))
    streamed = KernelClassifier(class_weight="balanced", **FULL)
    for start in range(0, 240, 8):
        rows = slice(start, start + 8)
        streamed.partial_fit(X[rows], LABELS[rows], classes=[0, 1, 2])
    explicit = KernelClassifier(**FULL)
    explicit.partial_fit(X, LABELS, classes=[0, 1, 2], sample_weight=np.array(weights))
    assert_allclose(streamed.coefficients_, explicit.coefficients_, rtol=1e-12)


@pytest.mark.parametrize("bad", ["even", 3, {0: -1.0}, {0: "x"}, {0: np.nan}])
def test_wrong_class_weights_are_refused(bad):
    with pytest.raises(ValueError, match="class_weight"):
        KernelClassifier(class_weight=bad).fit(X, LABELS)


@pytest.mark.parametrize("expansion", ["auto", "komp"])
def test_class_weights_of_labels_that_do_not_exist_are_refused(expansion):
    def weighted(table):
        return KernelClassifier(class_weight=table, kernel=KERNEL, expansion=expansion)

    for table in ({0: 1.0, 7: 9.0}, {"a": 2.0}, {0: 1.0, "1": 2.0}):
        with pytest.raises(ValueError, match="`class_weight` has"):
            weighted(table).fit(X, LABELS)
    weighted({0: 1.0, 1: 2.0, 2: 3.0, 7: 9.0}).fit(X, LABELS)  # rows of 7 may be in another fold
    # On a stream they may still come, unless all classes are known.
    weighted({0: 1.0, 7: 9.0}).partial_fit(X[:9], LABELS[:9])
    with pytest.raises(ValueError, match=r"weights for \[7\]"):
        weighted({0: 1.0, 7: 9.0}).partial_fit(X[:9], LABELS[:9], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="text and numbers"):
        weighted({"0": 1.0}).partial_fit(X[:9], LABELS[:9])


def test_class_weights_that_leave_no_row_are_refused():
    with pytest.raises(ValueError, match="`class_weight` is zero for all rows"):
        KernelClassifier(class_weight={0: 0.0, 1: 0.0, 2: 0.0}).fit(X, LABELS)


# -- passes, order, seeds -----------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_the_same_seed_gives_the_same_model_and_another_another(estimator):
    y = LABELS if estimator is KernelClassifier else TARGETS

    def fitted(seed):
        return estimator(expansion="komp", random_state=seed, n_passes=2).fit(X, y)

    assert same(fitted(3), fitted(3))
    assert same(fitted(3), fitted(np.random.RandomState(3)))
    assert not same(fitted(3), fitted(4))


def test_the_seed_chooses_the_sample_that_scales_come_from(rng):
    rows = rng.normal(size=(3000, 2))
    scales = {
        KernelRegressor(kernel="gaussian", expansion="komp", random_state=seed, shuffle=False)
        .fit(rows, rows[:, 0])
        .kernel_.length_scale
        for seed in (0, 0, 1)
    }
    assert len(scales) == 2


@pytest.mark.parametrize("n_rows", [5, 240, 239])
@pytest.mark.parametrize("n_passes", [1, 3])
def test_unshuffled_passes_are_one_long_stream(n_rows, n_passes):
    fitted = KernelRegressor(shuffle=False, n_passes=n_passes, **FULL)
    fitted.fit(X[:n_rows], TARGETS[:n_rows])
    streamed = KernelRegressor(**FULL)
    streamed.partial_fit(np.tile(X[:n_rows], (n_passes, 1)), np.tile(TARGETS[:n_rows], n_passes))
    assert same(fitted, streamed)
    assert fitted.n_samples_seen_ == n_rows * n_passes


@pytest.mark.parametrize("excess", [0, 1, 7])
def test_fit_in_chunks_equals_one_call(monkeypatch, excess):
    """Also for a last batch that is short and would otherwise be a call of its own."""
    from mercer.learning import kernel_steps

    monkeypatch.setattr(kernel_steps, "_CHUNK", 64)
    rows = slice(0, 128 + excess)
    fitted = KernelRegressor(shuffle=False, **FULL).fit(X[rows], TARGETS[rows])
    assert same(fitted, KernelRegressor(**FULL).partial_fit(X[rows], TARGETS[rows]))


def test_a_pass_visits_every_row_once():
    model = KernelRegressor(
        kernel=KERNEL, expansion="full", step_size=0.5, n_passes=2, random_state=0
    ).fit(X, TARGETS + 5.0)
    points, counts = np.unique(model.dictionary_, axis=0, return_counts=True)
    assert_allclose(points, np.unique(X, axis=0))
    assert (counts == 2).all()
    assert not np.array_equal(model.dictionary_[:240], model.dictionary_[240:])
    assert not np.array_equal(model.dictionary_[:240], X)


def test_fit_starts_afresh():
    model = KernelClassifier(random_state=0).fit(X[:, :1], LABELS * 2)
    again = model.fit(X, LABELS)
    assert same(again, KernelClassifier(random_state=0).fit(X, LABELS))
    assert again.classes_.tolist() == [0, 1, 2]
    assert again.n_features_in_ == 2


# -- progress ---------------------------------------------------------------------------------


def test_a_callback_sees_the_fit_and_may_stop_it(monkeypatch):
    from mercer.learning import kernel_steps

    monkeypatch.setattr(kernel_steps, "_CHUNK", 64)
    seen = []
    model = KernelRegressor(expansion="komp", n_passes=2, random_state=0)
    model.fit(X, TARGETS, callback=seen.append)
    assert [p.n_samples for p in seen] == [64, 128, 192, 256, 320, 384, 448, 480]
    assert {p.n_total for p in seen} == {480}
    assert seen[-1].model_order == model.model_order_
    assert seen[-1].loss == model.history_.loss[-1]
    assert seen[-1].loss < seen[0].loss
    assert all(np.diff([p.seconds for p in seen]) >= 0.0)
    assert seen[-1].rows_per_second > 0.0
    model.fit(X, TARGETS, callback=lambda progress: progress.n_samples >= 128)
    assert model.n_samples_seen_ == 128
    model.predict(X)


def test_verbose_reports_on_standard_error(capsys):
    KernelRegressor(verbose=1).fit(X, TARGETS)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "240/240 rows  loss" in captured.err
    with redirect_stderr(io.StringIO()) as silent:
        KernelRegressor().fit(X, TARGETS)
    assert silent.getvalue() == ""


# -- outputs ----------------------------------------------------------------------------------


def test_several_targets_share_a_dictionary_and_are_independent_otherwise():
    targets = np.column_stack([TARGETS, X[:, 0], -TARGETS])
    joint = KernelRegressor(random_state=0, **FULL).fit(X, targets)
    assert joint.coefficients_.shape == (240, 3)
    assert joint.predict(X).shape == (240, 3)
    for j in range(3):
        alone = KernelRegressor(random_state=0, **FULL).fit(X, targets[:, j])
        assert alone.predict(X).shape == (240,)
        assert_allclose(joint.predict(X)[:, j], alone.predict(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="2 targets, but the model was started with 3"):
        joint.partial_fit(X, targets[:, :2])
    column = KernelRegressor(random_state=0, **FULL).fit(X, targets[:, :1])
    assert column.predict(X).shape == (240, 1)


def test_quantiles_of_several_levels_are_predicted_at_once():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-2.0, 2.0, size=(4000, 1))
    y = np.sin(2.0 * rows[:, 0]) + (0.2 + 0.2 * np.abs(rows[:, 0])) * rng.normal(size=4000)
    model = KernelRegressor(
        Quantile([0.1, 0.5, 0.9]),
        kernel=Gaussian(0.5),
        expansion="full",
        step_size=PowerDecay(3.0),
        random_state=0,
    ).fit(rows, y)
    predicted = model.predict(rows)
    assert predicted.shape == (4000, 3)
    assert_allclose((y[:, None] <= predicted).mean(axis=0), [0.1, 0.5, 0.9], atol=0.05)
    two = KernelRegressor(Quantile([0.1, 0.9]), kernel=KERNEL).fit(X, np.column_stack([TARGETS, X]))
    assert two.predict(X).shape == (240, 6)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_score_of_several_levels_is_the_d2_of_scikit_learn_over_the_levels(n_targets, weighted):
    levels = (0.1, 0.5, 0.9)
    y = np.column_stack([TARGETS, 3.0 * X[:, 1] ** 2])[:, :n_targets]
    y = y[:, 0] if n_targets == 1 else y
    weights = np.random.default_rng(1).uniform(0.0, 3.0, size=240) if weighted else None
    model = KernelRegressor(Quantile(levels), kernel=KERNEL, random_state=0).fit(X, y)
    predicted = model.predict(X).reshape(240, n_targets, 3)
    shares = []
    for target, columns in zip(y.reshape(240, -1).T, predicted.transpose(1, 2, 0), strict=True):
        lost, of_constants = 0.0, 0.0
        for level, column in zip(levels, columns, strict=True):
            settings = {
                "alpha": level,
                "sample_weight": np.ones(240) if weights is None else weights,
            }
            loss = mean_pinball_loss(target, column, **settings)
            lost += loss
            of_constants += loss / (1.0 - d2_pinball_score(target, column, **settings))
        shares.append(1.0 - lost / of_constants)
    assert model.score(X, y, weights) == pytest.approx(np.mean(shares), rel=1e-9)
    assert np.mean(shares) > 0.5


def test_searches_take_several_levels_and_other_losses_keep_their_score():
    search = GridSearchCV(
        KernelRegressor(Quantile((0.1, 0.5, 0.9)), random_state=0), {"kernel": [KERNEL]}, cv=2
    ).fit(X, TARGETS)
    assert 0.0 < search.best_score_ < 1.0
    model = search.best_estimator_
    with pytest.raises(ValueError, match="does not fit"):
        model.score(X, np.column_stack([TARGETS, TARGETS]))
    with pytest.raises(ValueError, match="`sample_weight` must have shape"):
        model.score(X, TARGETS, np.ones(3))
    with pytest.warns(UndefinedMetricWarning, match="fewer than two rows"):
        assert np.isnan(model.score(X[:1], TARGETS[:1]))
    for loss in ("squared", Quantile(0.9), Quantile([0.9])):
        one = KernelRegressor(loss, kernel=KERNEL, random_state=0).fit(X, TARGETS)
        assert one.score(X, TARGETS) == r2_score(TARGETS, one.predict(X))


@pytest.mark.parametrize(
    ("loss", "labels", "available"),
    [
        ("auto", LABELS, True),
        ("auto", LABELS > 0, True),
        ("softmax", LABELS > 0, True),
        ("logistic", LABELS, True),
        ("hinge", LABELS, False),
        ("multiclass_hinge", LABELS, False),
        ("squared_hinge", LABELS > 0, False),
    ],
)
def test_probabilities_exist_only_where_the_loss_models_them(loss, labels, available):
    model = KernelClassifier(loss, kernel=KERNEL)
    assert hasattr(model, "predict_proba") == available
    model.fit(X, labels)
    assert hasattr(model, "predict_proba") == available
    if not available:
        with pytest.raises(AttributeError, match="predict_proba") as caught:
            model.predict_proba(X)
        assert "'logistic' and 'softmax'" in str(caught.value.__cause__)
        return
    proba = model.predict_proba(X)
    assert proba.shape == (240, model.classes_.size)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))


def test_float32_stays_float32():
    rows = X.astype(np.float32)
    model = KernelClassifier(expansion="komp", random_state=0).fit(rows, LABELS)
    assert model.dictionary_.dtype == np.float32
    assert model.coefficients_.dtype == np.float64
    double = KernelClassifier(expansion="komp", random_state=0).fit(X, LABELS)
    assert double.dictionary_.dtype == np.float64
    assert (model.predict(rows) == double.predict(X)).mean() > 0.98
    assert (model.predict(X) == model.predict(rows)).all()
    assert KernelRegressor().fit((10 * X).astype(int), TARGETS).dictionary_.dtype == np.float64


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_an_unfitted_model_says_so(estimator):
    model = estimator()
    with pytest.raises(NotFittedError):
        model.predict(X)
    for name in (
        "dictionary_",
        "coefficients_",
        "model_order_",
        "n_samples_seen_",
        "history_",
    ):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="not fitted yet"):
            getattr(model, name)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": "gausian"}, "Did you mean 'gaussian'"),
        ({"kernel": Gaussian}, "class Gaussian itself"),
        ({"kernel": 3}, "`kernel` must be"),
        ({"expansion": "kompp"}, "`expansion` must be"),
        ({"expansion": KOMP}, "`expansion` must be"),
        ({"loss": "hing"}, "`loss` must be"),
        ({"loss": Logistic}, "with brackets"),
        ({"step_size": "fast"}, "`step_size` must be one of 'auto'"),
        ({"step_size": -0.5}, "above 0|in \\(0"),
        ({"step_size": None}, "positive number"),
        ({"step_size": True}, "positive number"),
        ({"regularization": -1e-3}, "`regularization`"),
        ({"regularization": None}, "`regularization`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"batch_size": 2.5}, "`batch_size`"),
        ({"n_passes": 0}, "`n_passes`"),
        ({"shuffle": "yes"}, "`shuffle`"),
        ({"average": "mean"}, "`average`"),
        ({"random_state": "x"}, "seed"),
        ({"expansion": "budget", "kernel": Laplacian()}, "Gaussian kernel only"),
    ],
)
@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_wrong_parameters_are_named(estimator, parameters, words):
    y = LABELS if estimator is KernelClassifier else TARGETS
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=words):
            getattr(estimator(**parameters), method)(X, y)


def test_a_loss_of_the_other_task_is_refused():
    with pytest.raises(ValueError, match="classification loss is needed"):
        KernelClassifier("squared").fit(X, LABELS)
    with pytest.raises(ValueError, match="regression loss is needed"):
        KernelRegressor("hinge").fit(X, TARGETS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_infinite_inputs_and_missing_targets_are_refused(bad, learned):
    rows, targets = X.copy(), TARGETS.copy()
    rows[3, 0] = np.inf
    targets[3] = bad
    for model in (KernelClassifier(), KernelRegressor()):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(rows, LABELS)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            learned[type(model)].predict(rows)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        KernelRegressor().fit(X, targets)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize(
    ("kernel", "dtype", "scale"),
    [
        ("linear", np.float32, 1e21),
        ("linear", np.float64, 1e200),
        ("gaussian", np.float64, 1e200),
        ("gaussian", np.float32, 1e-21),
        (Gaussian() + Linear(), np.float64, 1e160),
        (lambda A, B: np.log(A @ B.T), np.float64, -1.0),
    ],
)
def test_inputs_that_leave_the_range_of_the_kernel_are_refused(estimator, kernel, dtype, scale):
    model = estimator(kernel=kernel)
    with pytest.raises(ValueError, match=r"whose largest input is .*Rescale the inputs"):
        model.fit((scale * X).astype(dtype), LABELS)
    assert not hasattr(model, "kernel_")


@pytest.mark.parametrize("batch_size", [1, 16])
def test_divergence_names_a_step_size_that_is_safe(batch_size):
    rows = np.column_stack([X, np.ones(240)]) * 10.0
    model = KernelRegressor(kernel="linear", expansion="full", step_size=5.0, batch_size=batch_size)
    with pytest.raises(DivergenceError, match=r"step size 5: .*about \S+,") as caught:
        model.fit(rows, TARGETS)
    safe = float(str(caught.value).split("about ")[1].split(",")[0])
    model.set_params(step_size=safe).fit(rows, TARGETS)
    assert np.isfinite(model.predict(rows)).all()


@pytest.fixture(scope="module")
def shuffled():
    """Rows in random order, and a model of them."""
    rows = np.random.default_rng(1).uniform(0.0, 10.0, size=(900, 1))
    return rows, KernelRegressor("absolute_error", kernel="linear").fit(rows, rows[:, 0])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("order", ["ascending", "descending", "alternating"])
def test_the_automatic_step_does_not_depend_on_the_order_of_the_rows(method, order, shuffled):
    rows, model = shuffled
    rows = np.sort(rows, axis=0)
    if order == "descending":
        rows = rows[::-1]
    elif order == "alternating":
        rows = rows.reshape(2, 450).T.reshape(900, 1)
    ordered = getattr(KernelRegressor("absolute_error", kernel="linear"), method)(rows, rows[:, 0])
    a, b = model.learner_.automatic, ordered.learner_.automatic
    assert a.bound == pytest.approx(b.bound) == pytest.approx(rows.max() ** 2)
    assert a.top_eigenvalue == pytest.approx(b.top_eigenvalue, rel=0.15)


def test_rows_in_order_do_not_diverge(rng):
    rows = np.sort(rng.uniform(0.0, 10.0, size=(1000, 1)), axis=0)
    for kernel in ("linear", Polynomial(degree=2)):
        model = KernelRegressor(kernel=kernel, random_state=0).fit(rows, 2.0 * rows[:, 0])
        assert model.score(rows, 2.0 * rows[:, 0]) > 0.7


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize("average", ["suffix", "polyak"])
def test_points_that_live_briefly_are_not_averaged(estimator, average):
    parameters = {"kernel": KERNEL, "step_size": 0.9, "expansion": Full(max_size=20)}
    y = LABELS if estimator is KernelClassifier else TARGETS
    averaged = estimator(average=average, random_state=0, **parameters).fit(X, y)
    last = estimator(average=None, random_state=0, **parameters).fit(X, y)
    assert averaged.average == average
    assert same(averaged, last)


def test_learning_easy_rows_first_is_no_divergence():
    model = KernelRegressor(kernel=KERNEL, expansion="full", step_size=0.5)
    model.partial_fit(X, 1e-9 * TARGETS)
    model.partial_fit(X, 1e6 * TARGETS).learn_one(X[0], 1e12)
    assert np.isfinite(model.predict(X)).all()


def test_nothing_learned_warns_from_fit_too():
    with pytest.warns(NothingLearnedWarning, match="exceeds what a step adds"):
        KernelClassifier(kernel=KERNEL, expansion=KOMP(tolerance=1e3)).fit(X, LABELS)


def test_a_constant_target_of_zero_is_learned_without_a_word():
    model = KernelRegressor().fit(X, np.zeros(240))
    assert_allclose(model.predict(X), 0.0)
    assert KernelClassifier().fit(X, np.zeros(240, int)).predict(X).tolist() == [0] * 240


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern", "polynomial"])
def test_constant_columns_and_a_single_row_are_no_error(kernel):
    model = KernelRegressor(kernel=kernel).fit(np.zeros((5, 2)), np.arange(5.0))
    assert model.predict(np.zeros((1, 2))) > 0.0
    assert KernelRegressor(kernel=kernel).fit([[1.0, 2.0]], [1.0]).predict([[1.0, 2.0]]) > 0.0


@pytest.mark.parametrize("kernel", ["linear", "arc_cosine"])
def test_rows_without_length_teach_nothing_and_say_so(kernel):
    model = KernelRegressor(kernel=kernel, expansion="komp")
    with pytest.warns(NothingLearnedWarning):
        model.fit(np.zeros((5, 2)), np.arange(5.0))
    assert model.partial_fit(np.eye(2), [1.0, 2.0]).model_order_ == 2


# -- other libraries --------------------------------------------------------------------------


def test_names_of_data_frame_columns_are_checked():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = KernelClassifier(kernel=KERNEL).partial_fit(frame, pd.Series(LABELS))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])


def test_river_streams_through_a_converted_classifier():
    model = compat.convert_sklearn_to_river(
        KernelClassifier(kernel=KERNEL, step_size=0.9), classes=[False, True]
    )
    right = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(240):
            row, y = dict(zip("ab", X[i].tolist(), strict=True)), bool(LABELS[i] > 0)
            right += model.predict_one(row) == y
            assert sum(model.predict_proba_one(row).values()) == pytest.approx(1.0)
            model.learn_one(row, y)
    assert right > 190
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = compat.convert_sklearn_to_river(
        KernelClassifier(kernel=KERNEL), classes=["x", "y", "z"]
    )
    model.learn_many(frame, pd.Series(np.array(["x", "y", "z"])[LABELS]))
    assert model.predict_many(frame).shape == (240,)
    if tuple(map(int, river.__version__.split(".")[:2])) < (0, 25):
        return  # its converter makes a Series with columns, which pandas refuses
    assert list(model.predict_proba_many(frame).columns) == ["x", "y", "z"]


def test_river_streams_through_a_converted_regressor():
    model = compat.convert_sklearn_to_river(KernelRegressor(kernel=KERNEL, step_size=0.5))
    errors = []
    for i in range(240):
        row = dict(zip("ab", X[i].tolist(), strict=True))
        errors.append(abs(model.predict_one(row) - TARGETS[i]))
        model.learn_one(row, TARGETS[i])
    assert np.mean(errors[-60:]) < 0.6 * np.mean(errors[:60])


def test_set_params_on_a_running_stream_takes_effect_and_survives_the_file(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((64, 2)), rng.standard_normal(64)
    model = KernelRegressor(kernel=Gaussian(1.0), step_size=0.5, average=None).partial_fit(X, y)
    frozen = model.predict(X)
    model.set_params(step_size=1e-12, expansion=model.expansion).partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X), frozen, atol=1e-9)
    model.save(tmp_path / "m.mercer")
    again = load_model(tmp_path / "m.mercer").partial_fit(X, y)
    model.partial_fit(X, y)
    assert np.array_equal(again.coefficients_, model.coefficients_)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"step_size": 1e-3}, 1e-3),
        ({"step_size__scale": 1e-3}, 1e-3 / np.sqrt(22)),
        ({"step_size": PowerDecay(1e-3, 0.0)}, 1e-3),
    ],
)
def test_set_params_takes_effect_at_the_next_row(estimator, change, seen):
    model = estimator(kernel=KERNEL, step_size=PowerDecay(0.9, 0.5), average=None)
    for i in range(21):
        model.learn_one(X[i], float(i % 2))
    model.set_params(**change).learn_one(X[21], 1.0)
    assert model.history_.step_size[-1] == pytest.approx(seen)
    size = np.abs(model.coefficients_).max()
    model.regularization = 0.9 / seen
    model.learn_one(X[22], 0.0)
    assert np.abs(model.coefficients_).max() < 0.5 * size


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_settings_that_are_refused_do_not_stay(estimator):
    model, twin = (estimator(kernel=KERNEL, step_size=0.5, regularization=0.1) for _ in range(2))
    for m in (model, twin):
        m.partial_fit(X[:40], LABELS[:40])
        m.learn_one(X[40], 1.0)
    for change, words in [
        ({"step_size": 20.0}, "flip the sign"),
        ({"step_size": 0.5, "regularization": 3.0}, "flip the sign"),
        ({"regularization": -1.0}, "`regularization`"),
        ({"step_size": lambda t: np.nan, "regularization": 0.2}, "must be positive and finite"),
    ]:
        model.set_params(**change)
        for learn in (
            lambda: model.partial_fit(X[41:90], LABELS[41:90]),
            lambda: model.learn_one(X[41], 1.0),
        ):
            with pytest.raises(ValueError, match=words):
                learn()
        assert model.learner_.regularization == 0.1
        assert model.learner_.step_size == twin.learner_.step_size
    model.set_params(step_size=0.5, regularization=0.1)
    for m in (model, twin):
        m.learn_one(X[41], 1.0).partial_fit(X[42:], LABELS[42:])
    assert same(model, twin)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_changing_a_component_changes_no_fitted_model(estimator):
    """Only step size, regularisation and batch size are tuned on a running stream."""
    loss = Hinge() if estimator is KernelClassifier else Huber(1.0)
    parameters = {
        "loss": loss,
        "kernel": Gaussian(0.8) + Linear(),
        "expansion": KOMP(tolerance=0.01),
        "step_size": 0.3,
    }
    model, twin = (estimator(**clone(estimator(**parameters)).get_params(False)) for _ in "ab")
    for m in (model, twin):
        m.partial_fit(X[:60], LABELS[:60] % 2)
        m.learn_one(X[60], 1)
    model.set_params(expansion__tolerance=5.0, kernel__left__length_scale=50.0)
    if estimator is KernelRegressor:
        model.set_params(loss__delta=100.0)
    for m in (model, twin):
        m.learn_one(X[61], 0).partial_fit(X[62:], LABELS[62:] % 2)
    assert same(model, twin)
    assert np.array_equal(model.predict(X), twin.predict(X))
    assert model.learner_.function.expansion == KOMP(tolerance=0.01)
    assert model.kernel_ == twin.kernel_


def test_a_fitted_classifier_keeps_its_loss_when_classes_come():
    model = KernelClassifier("hinge", kernel=KERNEL, step_size=0.5).partial_fit(X, LABELS % 2)
    model.set_params(loss="auto").partial_fit(X, LABELS)
    assert isinstance(model.loss_, Hinge)


@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
@pytest.mark.parametrize(
    ("change", "data", "error", "words"),
    [
        (
            {"kernel": "linear", "step_size": 1e9, "regularization": 0.0},
            (1e3 * X, TARGETS),
            DivergenceError,
            "diverged",
        ),
        ({"kernel": "gausian"}, (X, TARGETS), ValueError, "Did you mean"),
        ({"kernel": "laplacian", "expansion": "budget"}, (X, TARGETS), ValueError, "Gaussian"),
        ({"step_size": 1e9}, (X, TARGETS), ValueError, "flip the sign"),
        ({}, (X[:, :1], np.full(240, np.nan)), ValueError, "NaN"),
        ({}, (X[:, :1], None), ValueError, "requires y"),
    ],
)
def test_a_fit_that_fails_leaves_the_model_as_it_was(
    estimator, change, data, error, words, learned
):
    model = copy.deepcopy(learned[estimator]).learn_one({"u": 0.3, "v": 0.2}, 1.0)
    rows, y = data
    if y is not None and estimator is KernelClassifier and np.isfinite(y).all():
        y = LABELS + 7
    model.set_params(**change)
    before = dict(vars(model))
    state = copy.deepcopy(model.learner_.to_state(whole=True))
    with pytest.raises(error, match=words):
        model.fit(rows, y)
    assert vars(model) == before
    np.testing.assert_equal(model.learner_.to_state(whole=True), state)
    fresh = estimator(model.loss).set_params(**change)
    before = dict(vars(fresh))
    with pytest.raises(error, match=words):
        fresh.fit(rows, y)
    assert vars(fresh) == before


def test_a_callback_that_fails_leaves_the_model_as_it_was():
    def interrupt(progress):
        raise KeyboardInterrupt

    model = KernelRegressor(random_state=0).fit(X, TARGETS)
    learner = model.learner_
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, -TARGETS, callback=interrupt)
    assert model.learner_ is learner


# -- what is left open -----------------------------------------------------------------------------


FEW, MANY = np.zeros((100, 2)), np.zeros((300, 2))
SPARSE_FRAME = pd.DataFrame.sparse.from_spmatrix(csr_matrix(FEW))


@pytest.mark.parametrize(
    ("model", "first", "expansion", "default", "races", "maps"),
    [
        (KernelClassifier(), None, Auto, "tables", True, False),
        (KernelClassifier(), MANY, Auto, "tables", True, False),
        (KernelClassifier(), FEW, Stream, "stream", True, False),
        (KernelClassifier(), [{"a": 1.0}], Stream, "stream", True, False),
        (KernelClassifier(), csr_matrix(FEW), Auto, "tables", True, False),
        (KernelClassifier(), SPARSE_FRAME, Auto, "tables", True, False),
        (KernelClassifier(kernel="gaussian"), FEW, Auto, "tables", False, False),
        (KernelClassifier(risk="cvar"), FEW, Auto, "tables", True, False),
        (KernelClassifier("hinge"), FEW, Auto, "tables", True, False),
        (KernelClassifier(step_size=0.1), FEW, KOMP, None, False, True),
        (KernelClassifier(expansion=Stream()), None, Stream, "stream", True, False),
        (KernelRegressor("huber"), FEW, Auto, "tables", True, False),
        (KernelRegressor("poisson"), FEW, Auto, "tables", True, False),
        (KernelRegressor(expansion="komp"), FEW, KOMP, None, False, True),
        (KernelRanker(), FEW, KOMP, None, False, False),
        (NoveltyDetector(kernel="auto"), FEW, KOMP, None, False, True),
    ],
)
def test_the_plan_says_what_auto_stands_for(model, first, expansion, default, races, maps):
    plan = model.plan(first)
    assert isinstance(plan.expansion, expansion)
    assert (plan.default, plan.races, plan.maps) == (default, races, maps)


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_the_plan_is_made_once(monkeypatch, call):
    made, of = [], Plan.of
    monkeypatch.setattr(Plan, "of", lambda *args, **more: made.append(args) or of(*args, **more))
    getattr(KernelClassifier(random_state=0), call)(X[:40], LABELS[:40])
    assert len(made) == 1


def test_few_rows_in_groups_begin_no_stream_and_their_gaps_are_filled():
    rows, y = X[:60].copy(), X[:60, 0]
    rows[3, 1] = np.nan
    model = KernelRegressor(random_state=0).learn_groups(rows, y, np.repeat(np.arange(12), 5))
    assert isinstance(model.learner_.function.expansion, Auto)
    assert np.isfinite(model.predict(rows)).all()


@pytest.mark.parametrize("bad", [10**400, "x", Linear(), [[1.0], [1.0, 2.0]]])
def test_a_single_target_that_is_no_number_is_named(bad):
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="The target must be a number"):
        model.learn_one(X[0], bad)


def test_a_loss_that_is_an_array_is_named():
    with pytest.raises(ValueError, match="loss"):
        KernelClassifier(np.ones(3)).fit(X, X[:, 0] > 0)


def test_a_frame_of_other_width_with_text_is_named():
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X, X[:, 0])
    rows = pd.DataFrame(X).assign(town="Bern")
    with pytest.raises(ValueError, match=f"have {X.shape[1] + 1} columns.* learned {X.shape[1]}"):
        model.predict(rows)


@pytest.mark.parametrize(
    ("loss", "scale"), [("least_squares", 1e200), (Quantile([0.1, 0.9]), 2e307)]
)
def test_scores_of_enormous_numbers_are_refused(loss, scale):
    model = KernelRegressor(loss, kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="beyond what numbers hold"):
        model.score(X, X[:, 0] * scale)


def test_scores_of_processes_and_values_refuse_enormous_numbers():
    process = GaussianProcessRegressor(KERNEL, n_features=16, random_state=0).fit(X, X[:, 0])
    values = ValueFunction(0.5, kernel=KERNEL, expansion=KOMP(max_size=5))
    values.fit(X[:-1], X[:-1, 0], X[1:])
    for model in (process, values):
        with pytest.raises(ValueError, match="beyond what numbers hold"):
            model.score(X, X[:, 0] * 1e200)


@pytest.mark.parametrize("loss", ["least_squares", Quantile([0.1, 0.9])])
def test_only_proportions_of_weights_count_in_scores(loss):
    model = KernelRegressor(loss, kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X, X[:, 0])
    weights = np.random.default_rng(7).uniform(size=len(X))
    expected = model.score(X, TARGETS, weights)
    for unit in (2.0**1023, 2.0**-900):
        assert model.score(X, TARGETS, unit * weights) == expected
    with pytest.raises(ValueError, match="zero for all rows"):
        model.score(X, TARGETS, np.zeros(len(X)))


def test_who_has_learned_nothing_has_no_score():
    for model in (KernelRegressor(), KernelClassifier(), GaussianProcessRegressor()):
        with pytest.raises(NotFittedError):
            model.score(X, LABELS)


def test_infinite_weights_are_refused():
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X, X[:, 0])
    for learn in (model.fit, model.partial_fit, model.score):
        with pytest.raises(ValueError, match="finite and not negative"):
            learn(X, X[:, 0], np.full(len(X), np.inf))
    with pytest.raises(ValueError, match="finite and not negative"):
        model.learn_one(X[0], 0.0, sample_weight=np.inf)


def test_more_threads_than_there_can_be_are_not_begun():
    rows = np.linspace(0.0, 1.0, 60)[:, np.newaxis]
    few, many = (
        KernelRegressor(expansion="auto", n_jobs=n, random_state=0).fit(rows, rows[:, 0] ** 2)
        for n in (1, 10**9)
    )
    assert np.array_equal(few.predict(rows), many.predict(rows))


def test_a_weight_of_one_row_that_is_no_number_is_named():
    model = NoveltyDetector(0.2, kernel=KERNEL, expansion=KOMP(max_size=5)).fit(X)
    for bad in (np.ones(3), 10**400, "x", None):
        with pytest.raises(ValueError, match="`sample_weight`"):
            model.learn_one(X[0], sample_weight=bad)


def test_expansions_and_sizes_that_are_arrays_are_named():
    with pytest.raises(ValueError, match="`expansion` must"):
        KernelRegressor(expansion=np.ones(3)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="`block_size` must"):
        RandomFeatures(block_size=np.ones(3))


def test_a_verbosity_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="`verbose` must be an integer"):
        KernelRegressor(kernel=KERNEL, expansion="komp", verbose=np.ones(3)).fit(X, X[:, 0])
