"""KernelRanker as its users meet it: what it refuses, what it warns of, what leaves it alone."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelRanker, load_model
from mercer.buffers import FIFO, Everything, PerClassFIFO
from mercer.exceptions import DivergenceError, NothingLearnedWarning
from mercer.expansions import KOMP, Budget, Full, RandomFeatures
from mercer.kernels import PairKernel, Polynomial
from mercer.metrics import concordance
from mercer.schedules import PowerDecay, Relative

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
F = X[:, 0] + X[:, 1] ** 2
Y = (F > 1.5).astype(int)


def fitted(*arguments, data=(X, Y), **parameters):
    return KernelRanker(*arguments, random_state=0, **parameters).fit(*data)


def test_defaults_rank():
    model = fitted()
    assert model.score(X, Y) > 0.97
    assert model.buffer_ == PerClassFIFO(10)
    assert model.model_order_ <= 200
    f = model.kernel_(X, model.dictionary_) @ model.coefficients_
    assert_allclose(f[:, 0], model.decision_function(X), rtol=1e-9, atol=1e-9)
    assert_allclose(model.predict_pair(X[:9], X[9:18]), f[:9, 0] - f[9:18, 0], atol=1e-9)
    grades = fitted(data=(X, F))
    assert grades.buffer_ == FIFO(50)
    assert grades.score(X, F) > 0.9


@pytest.mark.parametrize("expansion", ["random_features", RandomFeatures(mode="faithful"), Full()])
def test_other_expansions_rank(expansion):
    assert fitted(expansion=expansion).score(X, Y) > 0.95


@pytest.mark.parametrize("ridge", [0.05, 100.0])
@pytest.mark.parametrize(
    "expansion", ["auto", Full(), KOMP(max_size=200), "random_features"], ids=str
)
def test_automatic_steps_go_with_any_ridge(expansion, ridge):
    model = fitted(expansion=expansion, regularization=ridge)
    assert model.score(X, Y) > 0.9
    assert model.history_.step_size.max() * ridge <= 0.5
    model.learn_one(X[0], Y[0])
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pair_kernel": "symmetric"}, "does not go with"),
        ({"pair_kernel": "mlpk", "pair_label": "difference"}, "does not go with"),
        ({"pair_label": "same"}, "does not go with"),
        ({"pair_kernel": "antisymmetric", "pair_label": "same"}, "does not go with"),
        ({"pair_kernel": "metric"}, "must be one of"),
        ({"pair_kernel": [1, 2, 3]}, "shape"),
        ({"pair_kernel": PairKernel, "loss": "logistic"}, "with brackets"),
        ({"loss": "softmax"}, "one of margins"),
        ({"loss": "hinge", "step_size": "theory"}, "Theorems 3 and 4"),
        ({"regularization": 0.1, "step_size": "theory"}, "regularization=0"),
        ({"normalize": "balanced"}, "goes with pair_label='same'"),
        ({"expansion": KOMP(max_size=20)}, "which stay in the dictionary"),
        ({"expansion": Budget(20)}, "which stay in the dictionary"),
        ({"expansion": KOMP(max_size=100), "buffer": "all"}, "which stay in the dictionary"),
        ({"buffer": "some"}, "`buffer` must be"),
        ({"buffer": 0}, "at least 1"),
        ({"pair_kernel": "product", "average": "polyak"}, "first order"),
        ({"pair_kernel": "product", "expansion": Budget(100)}, "merge"),
        ({"pair_kernel": "symmetric", "pair_label": "same", "buffer": 10}, "for any labels"),
        ({"batch_size": 0}, "batch_size"),
        ({"step_size": Relative(1.0), "expansion": "random_features"}, "gradient steps"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_work_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelRanker(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.zeros(600), "1 class only"),
        ({"buffer": FIFO(50)}, np.ones(600), "1 class only"),
        ({"buffer": 10}, F, "different values"),
        ({}, np.resize(["a", "b", "c"], 600), "no order to learn"),
        ({}, np.where(Y, np.nan, 1.0), "NaN"),
        ({"pair_kernel": "mlpk", "pair_label": "same"}, np.arange(600), "No two rows"),
    ],
)
def test_labels_that_hold_no_pair_are_refused(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        KernelRanker(**parameters).fit(X, y)


def test_rows_that_met_no_partner_are_not_learned_in_silence():
    for group, y in ((np.arange(600), Y), (np.arange(600) // 10, np.arange(600) // 10)):
        with pytest.warns(NothingLearnedWarning, match="No row met"):
            model = KernelRanker().fit(X, y, group=group)
        assert np.ptp(model.decision_function(X)) == 0.0
        assert_allclose(model.history_.loss, np.log(2.0))  # ties, not successes


def test_tolerances_that_undo_every_step_are_not_used_in_silence():
    with pytest.warns(NothingLearnedWarning, match="tolerance"):
        fitted(expansion=KOMP(tolerance=100.0))


def test_the_larger_label_ranks_above_unless_classes_say_otherwise():
    names = np.where(Y, "bad", "good")
    # By the alphabet "good" is above.
    model = fitted(data=(X, names))
    assert model.classes_.tolist() == ["bad", "good"]
    assert np.corrcoef(model.decision_function(X), F)[0, 1] < 0.0
    for classes, sign in ((["good", "bad"], 1.0), (["bad", "good"], -1.0)):
        model = KernelRanker(random_state=0).partial_fit(X, names, classes)
        assert model.classes_.tolist() == classes
        assert sign * np.corrcoef(model.decision_function(X), F)[0, 1] > 0.5
        assert model.score(X, names) > 0.97


def test_streams_may_begin_with_one_class():
    for first, y in (([0, 0], Y), ([1, 1], Y), ([-1, -1], 2 * Y - 1), ([True, True], Y > 0)):
        model = KernelRanker(random_state=0).partial_fit(X[:2], first).partial_fit(X, y)
        assert model.score(X, y) > 0.95
    model = KernelRanker().partial_fit(X[:2], [1, 1])
    with pytest.raises(ValueError, match="other side of 0"):
        model.partial_fit(X[:2], [1, 2])
    assert model.n_samples_seen_ == 2
    assert KernelRanker().partial_fit(X[:2], [1, 2]).partial_fit(X[:2], [2, 1]).classes_.size == 2
    with pytest.raises(ValueError, match="besides"):
        KernelRanker().partial_fit(X[:2], [1, 2]).partial_fit(X[:2], [2, 3])
    announced = KernelRanker(pair_label="difference").partial_fit(X[:2], [0, 0], classes=[0, 1])
    whole = KernelRanker(pair_label="difference").partial_fit(X[:2], [0, 1])
    assert announced.learner_.step_size(1) == whole.learner_.step_size(1)


def test_a_single_row_that_fails_leaves_the_model_as_it_was():
    model = KernelRanker("squared_hinge", kernel="linear", buffer=10)
    model.partial_fit(X[:3], [0, 0, 0], classes=[0, 1])
    before = model.decision_function(X)
    with pytest.raises(DivergenceError):
        model.partial_fit(X[3:4], [1], sample_weight=[1.5e308])
    assert_array_equal(model.decision_function(X), before)
    model.partial_fit(X[:2], [0, 0]).partial_fit(X, Y)
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric"])
def test_rows_without_partners_do_not_erase_a_window(pair_kernel):
    model = KernelRanker(
        expansion=Full(100), buffer=FIFO(10), pair_kernel=pair_kernel, random_state=0
    )
    model.partial_fit(X[:250], Y[:250], group=np.zeros(250))
    before = model.score(X, Y)
    model.partial_fit(X[:120], Y[:120], group=np.arange(1, 121))
    assert model.score(X, Y) > before - 0.1
    assert model.score(X, Y) > 0.7


@pytest.mark.parametrize("expansion", ["auto", "komp"])
def test_units_do_not_matter(expansion):
    usual = fitted(data=(X, F), pair_label="difference", loss="squared_hinge", expansion=expansion)
    scores = [usual.score(X, F)]
    for unit in (1e-3, 1e5):
        model = fitted(
            data=(X, F * unit), pair_label="difference", loss="squared_hinge", expansion=expansion
        )
        scores.append(model.score(X, F * unit))
    assert_allclose(scores, scores[0], atol=1e-3)
    linear = [
        fitted(data=(X * unit + shift, X[:, 0] > 0), kernel="linear", expansion=expansion).score(
            X * unit + shift, X[:, 0] > 0
        )
        for unit, shift in ((1.0, 0.0), (1e5, 0.0), (1.0, 300.0))
    ]
    assert min(linear) > 0.97
    symmetric = [
        fitted(
            data=(X[:200] * unit, Y[:200]),
            kernel="linear",
            pair_kernel="symmetric",
            pair_label="same",
            expansion=expansion,
        ).score(X[:200] * unit, Y[:200])
        for unit in (1.0, 100.0)
    ]
    assert_allclose(symmetric[1], symmetric[0], atol=0.01)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "least_squares_margin"])
def test_heavy_rows_and_long_ones_do_not_diverge(loss, rng):
    noisy = np.where(rng.random(600) < 0.2, 1 - Y, Y)
    for weight in (10.0, 100.0):
        model = fitted(loss, data=(X, noisy, np.full(600, weight)))
        assert model.score(X, Y) > 0.75
    rare = np.where(rng.random(600) < 0.1, 50.0, 1.0)
    assert fitted(loss, data=(X, Y, rare)).score(X, Y) > 0.8
    long = np.exp(X) - np.exp(0.5)
    assert np.isfinite(fitted(loss, data=(long, Y), kernel=Polynomial(3)).score(long, Y))


def test_a_bias_needs_a_dictionary():
    with pytest.raises(ValueError, match="has a bias"):
        KernelRanker(
            pair_kernel=PairKernel([1, 1], 10.0), pair_label="same", expansion="random_features"
        ).fit(X, Y)


def test_groups_are_paired_within(rng):
    level = rng.normal(size=60)[np.arange(600) // 10]
    y = F + 5.0 * level
    group = np.char.add("query ", (np.arange(600) // 10).astype(str))
    model = KernelRanker(random_state=0, n_passes=5).fit(X, y, group=group)
    assert model.score(X, y, group=group) > 0.9
    numbered = KernelRanker(random_state=0, n_passes=5).fit(X, y, group=np.arange(600) // 10)
    assert numbered.score(X, y, group=group) > 0.9
    large = KernelRanker().fit(X, y, group=np.arange(600) // 10 + 2**60)
    assert large.score(X, y, group=group) > 0.8
    with pytest.raises(ValueError, match="one entry for each"):
        KernelRanker().fit(X, y, group=[1, 2])
    with pytest.raises(ValueError, match="missing"):
        KernelRanker().fit(X, y, group=[None] * 600)


def test_the_ridge_of_random_features_is_judged_on_pairs_of_held_out_rows(rng):
    # Scattered groups: no two held rows of a group follow each other.
    y, group = F + 3.0 * rng.normal(size=100)[np.arange(600) % 100], np.arange(600) % 100
    model = KernelRanker(expansion=RandomFeatures(64), random_state=0, n_passes=3)
    model.fit(X, y, group=group)
    objective = model.learner_.objective
    from mercer.objectives import Batch

    batch = Batch(X, np.column_stack([y, group.astype(float)]), np.ones(600))
    losses = objective.losses_of(model.decision_function(X)[:, np.newaxis], batch)
    worse = objective.losses_of(-model.decision_function(X)[:, np.newaxis], batch)
    assert 0.0 < losses.mean() < worse.mean()


@pytest.mark.parametrize("name", ["difference", "antisymmetric", "product"])
def test_files_go_on_bit_for_bit(name, tmp_path):
    model = KernelRanker(pair_kernel=name, random_state=0).partial_fit(X[:100], Y[:100])
    model.save(tmp_path / "model.mercer")
    again = load_model(tmp_path / "model.mercer")
    for each in (model, again):
        each.partial_fit(X[100:200], Y[100:200]).learn_one(X[200], Y[200])
    assert_array_equal(model.predict_pair(X[:50], X[50:100]), again.predict_pair(X[:50], X[50:100]))


def test_scikit_learn_tools():
    pipe = make_pipeline(StandardScaler(), KernelRanker(random_state=0))
    search = GridSearchCV(
        pipe,
        {"kernelranker__loss": ["logistic", "squared_hinge"], "kernelranker__buffer": [5, 10]},
        cv=StratifiedKFold(3),
        scoring="roc_auc",
        error_score="raise",
    ).fit(X, Y)
    assert search.best_score_ > 0.95
    steps = KernelRanker(step_size=Relative(PowerDecay(4.0)), buffer=FIFO(7))
    assert clone(steps).set_params(buffer__size=9, step_size__schedule__scale=2.0).buffer == FIFO(9)


def test_rows_one_by_one_are_those_of_a_call():
    start, rest = slice(0, 100), slice(100, 200)
    whole = KernelRanker(random_state=0).partial_fit(X[start], Y[start])
    single = clone(whole).partial_fit(X[start], Y[start])
    whole.partial_fit(X[rest], Y[rest])
    for x, y in zip(X[rest], Y[rest], strict=True):
        single.learn_one(x, y)
    assert_array_equal(whole.decision_function(X), single.decision_function(X))
    assert_allclose(single.score_one(X[0]), single.decision_function(X[:1])[0], rtol=1e-12)
    names = KernelRanker()
    for x, y in zip(X[:50], Y[:50], strict=True):
        names.learn_one(dict(zip("abcd", x, strict=True)), bool(y))
    assert np.isfinite(names.score_one(dict(zip("dcba", X[0, ::-1], strict=True))))


def test_scores_of_rows_exist_for_differences_only():
    model = fitted(data=(X[:200], Y[:200]), pair_kernel="product")
    for ask in ("decision_function", "predict"):
        assert not hasattr(model, ask)
    with pytest.raises(AttributeError, match="predict_pair"):
        model.score_one(X[0])
    assert model.score(X[:200], Y[:200]) > 0.9


def test_score_is_auc_concordance_or_agreement():
    model = fitted(data=(X, F))
    assert model.score(X, F) == concordance(F, model.decision_function(X))
    assert 0.9 < model.score(X, F, group=np.arange(600) % 3) <= 1.0
    same = fitted(data=(X[:200], Y[:200]), pair_kernel="mlpk", pair_label="same")
    assert same.score(X[:200], Y[:200]) > 0.8
    with pytest.raises(ValueError, match="counted, not weighed"):
        same.score(X, Y, np.ones(600))


def test_labels_may_be_python_objects_as_tables_give_them():
    for y in (Y.astype(object), F.astype(object), np.where(Y, "yes", "no").astype(object)):
        model = fitted(data=(X, y))
        assert model.score(X, y) == fitted(data=(X, np.array(y.tolist()))).score(X, y.tolist())


def test_everything_means_all_points_unless_told_otherwise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(data=(X[:150], Y[:150]), buffer="all")
    assert model.buffer_ == Everything()
    assert model.model_order_ == 150
    large = fitted(buffer=FIFO(150))
    assert large.learner_.function.expansion.max_size == 300
