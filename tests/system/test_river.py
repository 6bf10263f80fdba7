"""River's own checks, its pipelines and evaluation, and mercer's estimators as oracles."""

import copy
import functools
import itertools
import pickle
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from river import (
    anomaly,
    bandit,
    checks,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    metrics,
    model_selection,
    optim,
    preprocessing,
    utils,
)

from mercer import KernelClassifier, KernelRegressor, NoveltyDetector, load_model
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer.losses import Quantile
from mercer.river import AnomalyDetector, Classifier, Regressor

pytestmark = pytest.mark.usefixtures("quickest_race")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
TARGETS = np.sin(2.0 * X[:, 0]) + X[:, 1]
ROWS = [dict(zip("abc", x, strict=True)) for x in X.tolist()]
LABELS = {
    "bool": (TARGETS > 0.0).tolist(),
    "int": np.digitize(TARGETS, [-0.5, 0.5]).tolist(),
    "text": np.array(["low", "medium", "very high"])[np.digitize(TARGETS, [-0.5, 0.5])].tolist(),
    "numpy": list(TARGETS > 0.0),
}
STEPS = {"kernel": Gaussian(0.8), "expansion": KOMP(max_size=50), "step_size": 0.5}
CLASSIFIERS = {"default": {}, "steps": STEPS, "hinge": {"loss": "hinge", **STEPS}}


class CreditCard:
    """In place of River's data set of that name, which is not in its package: as many columns."""

    def take(self, n):
        rng = np.random.default_rng(0)
        for i in range(n):
            fraud = i % 20 == 19
            values = rng.normal(size=28) * np.linspace(2.0, 0.3, 28) * (1.5 + fraud)
            amount = float(rng.lognormal(3.0, 1.5))
            names = [f"V{j + 1}" for j in range(28)]
            yield (
                {"Time": 0.8 * i, **dict(zip(names, values.tolist(), strict=True))}
                | {"Amount": amount},
                int(fraud),
            )


# -- River's checks -------------------------------------------------------------------------------


def checks_of(models):
    """As River's own tests list them for each of its estimators."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "CreditCard", CreditCard)
        for name, model in models.items():
            for i, check in enumerate(checks.yield_checks(model)):
                yield pytest.param(model, check, id=f"{name}-{check.__name__}-{i}")


# With kernel expansions of a fixed number of inputs, features cannot come and go; and their
# mini-batches are steps of their own, as those of River's linear models are.
FIXED = {
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
    "check_learn_many_matches_learn_one",
}
OF_DEFAULTS = list(
    checks_of({"classifier": Classifier(), "regressor": Regressor(), "anomaly": AnomalyDetector()})
)
OF_OTHERS = [
    parameter
    for parameter in checks_of(
        {
            "hinge": Classifier("hinge", kernel="gaussian", expansion=KOMP(max_size=50)),
            "huber": Regressor("huber", kernel="gaussian", expansion=KOMP(max_size=50)),
            "pipeline": preprocessing.StandardScaler() | Classifier(**STEPS),
            "one-class": AnomalyDetector(0.2, kernel=Gaussian(5.0), step_size=0.5),
        }
    )
    if parameter.values[1].__name__ not in FIXED or isinstance(parameter.values[0], AnomalyDetector)
]


@pytest.mark.parametrize(("model", "check"), OF_DEFAULTS + OF_OTHERS)
def test_river_checks(model, check):
    """On the first rows of the streams that River would take: they show the same, soon."""
    random.seed(0)
    assert model._unit_test_skips() == set()
    n = 400 if check.__name__ == "check_bounded_memory_growth" else 100
    for name, rows in getattr(check, "keywords", {}).items():
        check = functools.partial(check, **{name: itertools.islice(rows, n)})
    check(model.clone())


# -- mercer's estimators are the oracles ----------------------------------------------------------


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("parameters", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_classifier_answers_as_the_estimator_does(parameters, labels):
    model = Classifier(**parameters, seed=3)
    oracle = KernelClassifier(**parameters, random_state=3)
    assert model.predict_one(ROWS[0]) is None
    for i, (x, y) in enumerate(zip(ROWS, labels, strict=True)):
        model.learn_one(x, y, w=1.0 + i % 2)
        oracle.learn_one(x, y, sample_weight=1.0 + i % 2)
        label = model.predict_one(ROWS[i - 5])
        assert label == oracle.predict_one(ROWS[i - 5])
        assert type(label) is type(np.asarray(labels)[0].item())
        if "loss" not in parameters:
            assert model.predict_proba_one(x) == oracle.predict_proba_one(x)
    assert model.estimator.n_samples_seen_ == 120


@pytest.mark.parametrize(
    "parameters", [{}, STEPS, {"loss": "huber", **STEPS}], ids=["default", "steps", "huber"]
)
def test_a_regressor_answers_as_the_estimator_does(parameters):
    model = Regressor(**parameters, seed=3)
    oracle = KernelRegressor(**parameters, random_state=3)
    assert model.predict_one(ROWS[0]) == 0.0
    for i, (x, y) in enumerate(zip(ROWS, TARGETS, strict=True)):
        model.learn_one(x, np.float32(y))
        oracle.learn_one(x, float(np.float32(y)))
        value = model.predict_one(ROWS[i - 5])
        assert type(value) is float
        assert value == oracle.predict_one(ROWS[i - 5])


def test_before_the_first_row():
    """River's loops predict first."""
    model = Classifier()
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert Regressor().predict_one({"a": 1.0}) == 0.0
    assert AnomalyDetector().score_one({"a": 1.0}) == 0.0
    for nothing in ({}, {"a": None}, {"a": float("nan")}):
        model.learn_one(nothing, True)
        assert model.predict_one(nothing) is None
    model.learn_one({"b": 1.0}, True)
    assert model.predict_one({}) is True


# -- features come and go -------------------------------------------------------------------------


def scattered():
    """Rows of which each has some of six features, later ones others than the first."""
    rng, draw = np.random.default_rng(1), random.Random(1)
    for i in range(400):
        values = rng.normal(size=6)
        names = draw.sample("abcd" if i < 100 else "abcdef", 3)
        x = {name: values["abcdef".index(name)] for name in (*names, "s")[:-1]}
        yield {"s": values[0], **x}, bool(values[0] + 0.3 * values[1] > 0.0)


def test_features_may_come_and_go():
    model, right = Classifier(seed=0), 0
    for x, y in scattered():
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    assert right > 300
    assert model.estimator.n_features_in_ == 7


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_what_is_none_or_nan_is_missing(missing):
    absent, empty = Regressor(seed=0), Regressor(seed=0)
    for i, (x, y) in enumerate(zip(ROWS, TARGETS, strict=True)):
        without = {name: value for name, value in x.items() if name != "abc"[i % 3]}
        absent.learn_one(without, y)
        empty.learn_one({**x, "abc"[i % 3]: missing}, y)
        assert absent.predict_one(without) == empty.predict_one({**without, "new": missing})


def test_a_given_expansion_says_what_it_cannot():
    model = Classifier(**STEPS)
    model.learn_one({"a": 1.0, "b": 2.0}, "x")
    for x in ({"a": 1.0}, {"a": 1.0, "b": 2.0, "c": 3.0}):
        for call in (model.predict_one, lambda x: model.learn_one(x, "y")):
            with pytest.raises(ValueError, match="feature"):
                call(x)


# -- frames ---------------------------------------------------------------------------------------

FRAME = pd.DataFrame(ROWS, index=np.arange(120) + 7)


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_a_frame_is_learned_row_by_row_by_the_default(order):
    by_rows, by_frames = Classifier(seed=0), Classifier(seed=0)
    for x, y in zip(ROWS, LABELS["text"], strict=True):
        by_rows.learn_one(x, y)
    for start in range(0, 120, 30):
        part = slice(start, start + 30)
        by_frames.learn_many(FRAME[list(order)][part], pd.Series(LABELS["text"][part]))
    labels = by_frames.predict_many(FRAME)
    assert labels.index.tolist() == FRAME.index.tolist()
    assert labels.tolist() == [by_rows.predict_one(x) for x in ROWS]
    chances = by_frames.predict_proba_many(FRAME[list(order)])
    assert chances.columns.tolist() == ["low", "medium", "very high"]
    assert_allclose(
        chances.to_numpy(), [list(by_rows.predict_proba_one(x).values()) for x in ROWS], rtol=1e-9
    )


def test_many_rows_at_once_are_no_batch_to_race_on():
    """A first frame of any length begins a stream, as the first row does."""
    frame = pd.concat([FRAME] * 4)
    by_rows, by_frame = Regressor(seed=0), Regressor(seed=0)
    by_frame.learn_many(frame, pd.Series(np.tile(TARGETS, 4)))
    for x, y in zip(ROWS * 4, np.tile(TARGETS, 4), strict=True):
        by_rows.learn_one(x, y)
    assert_allclose(by_frame.predict_many(FRAME), [by_rows.predict_one(x) for x in ROWS], rtol=1e-9)


def test_frames_with_gaps_and_other_columns():
    by_rows, by_frames = Regressor(seed=0), Regressor(seed=0)
    frame = FRAME.mask(np.random.default_rng(0).random(FRAME.shape) < 0.2)
    frame["d"] = np.where(np.arange(120) < 40, np.nan, X[:, 0])
    rows = [
        {name: value for name, value in x.items() if value == value}
        for x in frame.to_dict("records")
    ]
    for x, y in zip(rows, TARGETS, strict=True):
        by_rows.learn_one(x, y)
    by_frames.learn_many(frame[["a", "b", "c"]][:40], pd.Series(TARGETS[:40]))
    by_frames.learn_many(frame[40:], pd.Series(TARGETS[40:]))
    assert_allclose(by_frames.predict_many(frame), [by_rows.predict_one(x) for x in rows])
    part = by_frames.predict_many(frame[["d"]].assign(unknown=3.0))
    assert_allclose(part, [by_rows.predict_one({"d": x["d"]} if "d" in x else {}) for x in rows])


def test_with_an_expansion_a_frame_is_a_mini_batch():
    model = Regressor(**STEPS, batch_size=16)
    oracle = KernelRegressor(**STEPS, batch_size=16)
    model.learn_many(FRAME[["c", "b", "a"]], pd.Series(TARGETS))
    oracle.partial_fit(X, TARGETS)
    model.learn_one(ROWS[0], TARGETS[0])
    oracle.learn_one(X[0], TARGETS[0])
    model.learn_many(FRAME[["b", "c", "a"]][:50], pd.Series(TARGETS[:50]))
    oracle.partial_fit(X[:50], TARGETS[:50])
    assert_allclose(model.predict_many(FRAME), oracle.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="no feature 'b'"):
        model.predict_many(FRAME[["a", "c"]])
    assert model.estimator.history_.step_size.size > 0


def test_a_batch_after_rows_is_in_the_order_of_their_names():
    model, oracle = Classifier(**STEPS), KernelClassifier(**STEPS)
    model.learn_one({10: 1.0, 9: 2.0, "a": 0.5}, 0)
    oracle.learn_one([2.0, 1.0, 0.5], 0)
    frame = pd.DataFrame({"a": X[:, 0], 10: X[:, 1], 9: X[:, 2]})
    model.learn_many(frame, pd.Series(LABELS["int"]))
    oracle.partial_fit(X[:, [2, 1, 0]], LABELS["int"])
    assert model.predict_many(frame).tolist() == oracle.predict(X[:, [2, 1, 0]]).tolist()


@pytest.mark.parametrize("parameters", [{}, STEPS], ids=["default", "steps"])
def test_empty_frames_and_frames_before_the_first_row(parameters):
    model = Classifier(**parameters)
    assert model.predict_many(FRAME).tolist() == [None] * 120
    assert model.predict_proba_many(FRAME).empty
    model.learn_many(FRAME[:0], pd.Series([], dtype=bool))
    assert model.predict_one(ROWS[0]) is None
    model.learn_many(FRAME, pd.Series(LABELS["bool"]))
    assert model.predict_many(FRAME[:0]).empty
    assert Regressor(**parameters).predict_many(FRAME).tolist() == [0.0] * 120


@pytest.mark.parametrize("parameters", [{}, STEPS], ids=["default", "steps"])
def test_a_frame_that_does_not_match_its_targets_changes_nothing(parameters):
    model = Classifier(**parameters)
    with pytest.raises(ValueError, match="`X` has 120 rows, but `y` has 119"):
        model.learn_many(FRAME, pd.Series(LABELS["bool"][:-1]))
    assert model.predict_one(ROWS[0]) is None
    model.learn_many(FRAME, np.array(LABELS["bool"]))
    assert model.estimator.n_samples_seen_ == 120


def test_frames_of_arrow():
    pa = pytest.importorskip("pyarrow")
    model, table = Classifier(seed=0), pa.Table.from_pandas(FRAME, preserve_index=False)
    model.learn_many(table, pa.chunked_array([LABELS["bool"]]))
    assert model.predict_many(table).to_pylist() == model.predict_many(FRAME).tolist()
    chances = model.predict_proba_many(table)
    assert chances.column_names == ["False", "True"]  # Arrow's names are text


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["red", "12", b"1", 1j, [1.0, 2.0]])
@pytest.mark.parametrize("kind", [Classifier, Regressor, AnomalyDetector])
def test_what_is_no_number_is_named_with_what_makes_it_one(kind, value):
    model = kind()
    calls = [lambda x: model.learn_one(x, *() if kind is AnomalyDetector else (1,))]
    calls.append(model.score_one if kind is AnomalyDetector else model.predict_one)
    for call in calls:
        with pytest.raises(ValueError, match=r"'colour' is .*SelectType.*OneHotEncoder"):
            call({"size": 1.0, "colour": value})
    frame = pd.DataFrame({"size": [1.0], "colour": [value]}, dtype=object)
    with pytest.raises(ValueError, match=r"'colour' is .*SelectType.*OneHotEncoder"):
        model.learn_many(frame, *() if kind is AnomalyDetector else (pd.Series([1]),))


def test_what_the_error_proposes_works():
    encoded = compose.SelectType(str) | preprocessing.OneHotEncoder()
    model = (encoded + compose.SelectType(float)) | Classifier(seed=0)
    draw, right = random.Random(0), 0
    for i in range(300):
        x = {"colour": draw.choice(["red", "blue", "green"]), "size": draw.random()}
        y = (x["colour"] == "red") == (x["size"] > 0.5)
        right += i >= 150 and model.predict_one(x) is y
        model.learn_one(x, y)
    assert right > 110  # chance: 75


def test_numbers_of_all_types_are_numbers():
    from decimal import Decimal
    from fractions import Fraction

    model, oracle = Regressor(**STEPS), Regressor(**STEPS)
    for x in (model, oracle):
        x.learn_one({"a": 0.5, "b": 1.0}, 2.0)
    for a in (np.float16(0.5), Decimal("0.5"), Fraction(1, 2), np.array(0.5)):
        for b in (True, np.int8(1), np.bool_(True), 1):
            assert model.predict_one({"a": a, "b": b}) == oracle.predict_one({"a": 0.5, "b": 1.0})


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_targets_and_weights_that_are_none_are_refused(kind):
    model = kind(**STEPS)
    with pytest.raises(ValueError, match=r"None|NaN"):
        model.learn_one(ROWS[0], None)
    model.learn_one(ROWS[0], 1)
    with pytest.raises(ValueError, match=r"None|NaN"):
        model.learn_one(ROWS[0], None)
    with pytest.raises(ValueError, match="weight"):
        model.learn_one(ROWS[0], 1, w=-1.0)
    assert model.estimator.n_samples_seen_ == 1


def test_probabilities_that_do_not_exist():
    """River's own classifiers say so by this error."""
    with pytest.raises(NotImplementedError, match=r"losses 'logistic' and 'softmax'"):
        Classifier("hinge").predict_proba_one(ROWS[0])


def test_parameters_are_those_of_the_estimators():
    with pytest.raises(TypeError, match="n_passes"):
        Classifier(n_passes=2)
    with pytest.raises(ValueError, match="predict one number"):
        Regressor(Quantile([0.1, 0.9]))
    with pytest.raises(ValueError, match="nope"):
        Classifier("nope").learn_one(ROWS[0], 1)
    with pytest.raises(TypeError, match="typo"):
        Classifier().predict_one(ROWS[0], typo=1)
    for wrapper, estimator in (
        (Classifier(), KernelClassifier()),
        (Regressor(), KernelRegressor()),
    ):
        params = estimator.get_params(deep=False)
        ours = wrapper._get_params()
        assert ours.pop("seed") is params.pop("random_state") is None
        of_fit = {
            "n_passes": 1,
            "shuffle": True,
            "verbose": 0,
            "categorical_features": "from_dtype",
            "normalize_y": False,
        }
    assert params == {**ours, **of_fit}
    params = NoveltyDetector().get_params(deep=False)
    ours = AnomalyDetector()._get_params()
    assert {name: params.get(name) for name in ours} == {**ours, "kernel": "gaussian"}


def test_without_river_the_error_names_the_extra():
    """In a process of its own: modules that are imported stay imported."""
    program = (
        "import sys; sys.modules['river'] = None\n"
        "import mercer, mercer.estimators\n"
        "try:\n    import mercer.river\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'none is installed. Install it with `pip install "mercer[river]"`' in done.stdout
    program = "import sys, mercer.estimators; print([m for m in sys.modules if 'river' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# -- clone, copy, pickle, of ----------------------------------------------------------------------


@pytest.mark.parametrize("model", [Classifier(seed=0), Classifier(**STEPS), Regressor(seed=0)])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_go_on_alike_and_apart(model, duplicate):
    model = model.clone()
    labels = LABELS["int"]
    for x, y in zip(ROWS[:60], labels[:60], strict=True):
        model.learn_one(x, y)
    other = duplicate(model)
    before = model.predict_many(FRAME).tolist()
    for x, y in zip(ROWS[60:], labels[60:], strict=True):
        other.learn_one(x, y)
    assert model.predict_many(FRAME).tolist() == before
    for x, y in zip(ROWS[60:], labels[60:], strict=True):
        model.learn_one(x, y)
    assert model.predict_many(FRAME).tolist() == other.predict_many(FRAME).tolist()
    fresh = model.clone()
    assert not hasattr(fresh.estimator, "learner_")
    assert repr(fresh) == repr(model)


def test_parameters_reach_the_estimator():
    model = Classifier("hinge", kernel="laplacian", class_weight={1: 2.0}, n_jobs=2, seed=4)
    changed = model.clone({"kernel": Gaussian(2.0), "seed": 5})
    assert model.estimator.kernel == "laplacian"
    assert changed.estimator.get_params(deep=False) == {
        **model.estimator.get_params(deep=False),
        "kernel": changed.kernel,
        "random_state": 5,
    }
    assert 'loss="hinge"' in repr(changed)
    assert "length_scale=2.0" in repr(changed)


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_a_fitted_or_stored_model_goes_on_in_river(kind, tmp_path):
    targets = LABELS["text"] if kind is Classifier else TARGETS
    estimator = kind._kind(**STEPS, n_passes=2).fit(FRAME, targets)
    model = kind.of(estimator)
    assert model.predict_many(FRAME).tolist() == estimator.predict(FRAME).tolist()
    assert model.predict_one(ROWS[0]) == estimator.predict_one(X[0])
    model.learn_one(ROWS[0], targets[0])
    model.estimator.save(tmp_path / "m.mercer")
    again = kind.of(load_model(tmp_path / "m.mercer"))
    assert again.predict_many(FRAME).tolist() == model.predict_many(FRAME).tolist()
    assert repr(again) == repr(model)
    with pytest.raises(TypeError, match=r"\.of takes a Kernel"):
        kind.of(NoveltyDetector())


# -- in River -------------------------------------------------------------------------------------


def test_metrics_know_the_estimators():
    for metric in (metrics.Accuracy(), metrics.F1(), metrics.ROCAUC(), metrics.LogLoss()):
        assert metric.works_with(Classifier())
        assert metric.works_with(preprocessing.StandardScaler() | Classifier())
        assert not metric.works_with(Regressor())
    for metric in (metrics.MAE(), metrics.R2(), metrics.MAE() + metrics.RMSE()):
        assert metric.works_with(Regressor())
        assert not metric.works_with(Classifier())


@pytest.mark.parametrize(("metric", "least"), [(metrics.Accuracy(), 0.85), (metrics.ROCAUC(), 0.9)])
def test_progressive_validation_of_a_classifier(metric, least):
    model = preprocessing.StandardScaler() | Classifier(seed=0)
    result = evaluate.progressive_val_score(datasets.Phishing().take(600), model, metric)
    assert result.get() > least


def test_progressive_validation_of_a_regressor_step_by_step():
    rows = datasets.TrumpApproval().take(600)
    model = compose.Pipeline(compose.Discard("ordinal_date"), Regressor(seed=0))
    course = list(
        evaluate.iter_progressive_val_score(
            rows, model, metrics.MAE(), step=200, measure_memory=True, yield_predictions=True
        )
    )
    assert [step["Step"] for step in course] == [200, 400, 600]
    assert course[-1]["MAE"].get() < 1.0
    assert course[-1]["Memory"] < 2.0 * course[0]["Memory"]
    assert isinstance(course[0]["Prediction"], float)


def test_weights_and_late_labels_of_an_evaluation():
    pairs = zip(ROWS, LABELS["bool"], strict=True)
    rows = [(x, y, {"w": 1.0 + i % 3}) for i, (x, y) in enumerate(pairs)]
    model, oracle = Classifier(seed=0), KernelClassifier(random_state=0)
    evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    for i, (x, y) in enumerate(zip(ROWS, LABELS["bool"], strict=True)):
        oracle.learn_one(x, y, sample_weight=1.0 + i % 3)
    assert model.predict_proba_one(ROWS[0]) == oracle.predict_proba_one(ROWS[0])
    rows = zip(ROWS, LABELS["bool"], strict=True)
    late = evaluate.progressive_val_score(rows, model.clone(), metrics.Accuracy(), delay=20)
    assert late.get() > 0.6


def test_ensembles_drift_and_selection_take_the_estimators():
    rows = list(zip(ROWS, LABELS["bool"], strict=True)) * 2
    fixed = Classifier(**STEPS)
    grid = utils.expand_param_grid(fixed, {"step_size": [1e-6, 0.5]})
    assert [model.estimator.step_size for model in grid] == [1e-6, 0.5]
    for model in (
        ensemble.BaggingClassifier(fixed, n_models=3, seed=0),
        ensemble.VotingClassifier([fixed.clone(), Classifier(seed=0)]),
        drift.DriftRetrainingClassifier(fixed.clone()),
        model_selection.SuccessiveHalvingClassifier(grid, metrics.Accuracy(), budget=200),
    ):
        score = evaluate.progressive_val_score(rows, model, metrics.Accuracy())
        assert score.get() > 0.6, model
    chooser = model_selection.BanditClassifier(
        grid, metrics.Accuracy(), bandit.EpsilonGreedy(epsilon=0.3, burn_in=20, seed=0)
    )
    for x, y in rows:
        chooser.learn_one(x, y)
    assert chooser.best_model.step_size == 0.5


def test_the_default_is_no_worse_than_river_s_usual_pipeline():
    """Two rings: linear models see nothing, and no scale helps them."""
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0.0, 2.0 * np.pi, 600), rng.random(600) < 0.5
    radius = np.where(y, 2.0, 1.0) + 0.1 * rng.normal(size=600)
    rows = [
        ({"x": 1e3 * r * np.cos(a), "y": 1e-3 * r * np.sin(a)}, bool(label))
        for r, a, label in zip(radius, angle, y, strict=True)
    ]
    assert evaluate.progressive_val_score(rows, Classifier(seed=0), metrics.Accuracy()).get() > 0.9


# -- anomalies ------------------------------------------------------------------------------------


def scores_by_hand(rows, nu):
    """The definition, slowly: statistics of all rows so far, a detector with all columns ever."""
    names, model, usual, scores = "abc", NoveltyDetector(nu, kernel=Gaussian(1.0)), 0.0, []
    seen = {name: [] for name in names}

    def scaled(x):
        row = np.zeros(3)
        for j, name in enumerate(names):
            if name in x and len(seen[name]) > 1:
                off, spread = x[name] - np.mean(seen[name]), np.std(seen[name])
                far = off / spread if spread > 0.0 else np.inf * np.sign(off) if off else 0.0
                row[j] = np.clip(far, -5.0, 5.0)
        return row

    for i, x in enumerate(rows):
        if i == 0:
            scores.append(0.0)
        else:
            value = max(-model.score_one(scaled(x)), 0.0)
            scores.append(usual / (usual + value) if value else 1.0)
        for name in x:
            seen[name].append(x[name])
        if i:
            value = max(-model.score_one(scaled(x)), 0.0)
            usual += (value - usual) / min(i, 1000)
        model.learn_one(scaled(x))
    return scores


@pytest.mark.parametrize("case", ["all", "some", "later", "constant"])
def test_scores_are_those_of_the_definition(case):
    draw = random.Random(0)
    rows = [dict(x) for x in ROWS]
    for i, x in enumerate(rows):
        if case == "some" and i:
            for name in draw.sample("abc", 2):
                del x[name]
        if case == "later" and i < 40:
            del x["b"], x["c"]
        if case == "constant" and i < 80:
            x["a"] = 7.0
    # The length scale of the first row would be that of its number of columns.
    model = AnomalyDetector(0.2)
    model.estimator.kernel = Gaussian(1.0)
    found = []
    for x in rows:
        found.append(model.score_one(x))
        model.learn_one(x)
    assert_allclose(found, scores_by_hand(rows, 0.2), rtol=1e-6, atol=1e-9)
    assert len(set(found)) > 100
    assert min(found) >= 0.0
    assert max(found) <= 1.0


@pytest.mark.parametrize("expansion", ["komp", "full", "budget", "random_features"])
def test_a_column_that_comes_later_was_zero_before(expansion):
    """With a kernel that is given, features are taken as they are."""
    parameters = {"kernel": Gaussian(1.0), "expansion": expansion}
    model = AnomalyDetector(**parameters, seed=0, n_jobs=1)
    oracle = NoveltyDetector(**parameters, random_state=0)
    for i, x in enumerate(ROWS):
        model.learn_one({name: x[name] for name in ("a" if i < 30 else "ab" if i < 60 else "abc")})
        oracle.learn_one([x["a"], x["b"] * (i >= 30), x["c"] * (i >= 60)])
    assert_allclose(model.estimator.score_samples(X), oracle.score_samples(X), rtol=1e-9)
    assert model.estimator.n_samples_seen_ == 120
    assert model.estimator.n_jobs == 1


def test_a_kernel_that_cannot_take_a_column_says_so():
    model = AnomalyDetector(kernel=lambda A, B: A @ B.T)
    model.learn_one({"a": 1.0})
    before = pickle.dumps(model.estimator.dictionary_)
    with pytest.raises(ValueError, match=r"feature\(s\) \['b'\].*cannot take in more"):
        model.learn_one({"a": 1.0, "b": 2.0})
    assert pickle.dumps(model.estimator.dictionary_) == before
    assert model.score_one({"a": 1.0}) >= 0.0


@pytest.mark.parametrize("value", [float("inf"), -np.inf])
def test_infinite_features_and_wrong_weights_are_refused(value):
    model = AnomalyDetector()
    for call in (model.learn_one, model.score_one):
        with pytest.raises(ValueError, match=r"'a' is -?inf"):
            call({"a": value})
    with pytest.raises(ValueError, match="`w`"):
        model.learn_one({"a": 1.0}, w=-1.0)
    assert not hasattr(model.estimator, "learner_")


def anomalies():
    """Rows of which one in thirty is wilder, in units that differ by a million."""
    rng = np.random.default_rng(0)
    for i in range(900):
        wild = i % 30 == 29
        yield (
            {
                "a": 1e3 * (5.0 + rng.normal() * (1 + 4 * wild)),
                "b": 1e-3 * rng.normal() * (1 + 4 * wild),
                "c": float(rng.random()),
            },
            wild,
        )


def test_anomalies_are_found_by_river_s_metric_and_filter():
    """Scores are between 0 and 1, as ROCAUC needs them."""
    result = evaluate.progressive_val_score(anomalies(), AnomalyDetector(), metrics.ROCAUC(50))
    assert result.get() > 0.9
    scaled = preprocessing.StandardScaler() | anomaly.OneClassSVM(nu=0.1)
    rival = evaluate.progressive_val_score(anomalies(), scaled, metrics.RollingROCAUC(900))
    assert result.get() > rival.get()
    model = preprocessing.StandardScaler() | anomaly.QuantileFilter(AnomalyDetector(), q=0.95)
    caught = wrong = 0
    for i, (x, wild) in enumerate(anomalies()):
        is_anomaly = model["QuantileFilter"].classify(model.score_one(x))
        caught, wrong = caught + (wild and is_anomaly), wrong + (not wild and is_anomaly)
        model.learn_one(x)
        if i < 100:
            caught = wrong = 0
    assert caught > 15  # of 27
    assert wrong < 60
    guard = anomaly.ThresholdFilter(AnomalyDetector(), 0.9)
    regression = guard | preprocessing.StandardScaler() | Regressor(seed=0)
    for x, y in zip(ROWS, TARGETS, strict=True):
        regression.learn_one(x, y)
    assert 0 < regression["Regressor"].estimator.n_samples_seen_ < 120


def test_a_frame_of_rows_without_labels():
    by_rows, by_frame = AnomalyDetector(), AnomalyDetector()
    gaps = FRAME.mask(np.random.default_rng(0).random(FRAME.shape) < 0.2)
    by_frame.learn_many(gaps)
    for x in gaps.to_dict("records"):
        by_rows.learn_one(x)
    assert [by_rows.score_one(x) for x in ROWS] == [by_frame.score_one(x) for x in ROWS]
    by_rows.learn_one({})
    by_rows.learn_one({"a": None})
    assert by_rows.estimator.n_samples_seen_ == by_frame.estimator.n_samples_seen_
    assert by_frame.score_one({}) < 0.6  # as usual as can be


def test_a_detector_goes_on_after_a_copy():
    model = AnomalyDetector(seed=0)
    for x in ROWS[:60]:
        model.learn_one(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        again = copy.deepcopy(model)
        for x in ROWS[60:]:
            assert other.score_one(x) == again.score_one(x)
            other.learn_one({**x, "d": 1.0})
            again.learn_one({**x, "d": 1.0})


def test_schedules_of_river_are_not_those_of_mercer():
    with pytest.raises(ValueError, match=r"schedule must be a positive number.*SGD"):
        Classifier(**{**STEPS, "step_size": optim.SGD(0.1)}).learn_one(ROWS[0], 1)
