"""What a stream may rely on: pure predictions, bounded memory, and models that go on exactly."""

import copy
import datetime as dt
import functools
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import ThreadpoolController

from conditioning import rounding
from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    load_model,
)
from mercer.exceptions import DivergenceError
from mercer.expansions import KOMP, Budget, Dictionary, Full, Quantized, RandomFeatures
from mercer.kernels import Gaussian, Linear
from mercer.losses import Hinge
from mercer.schedules import PowerDecay

KERNEL = Gaussian(0.3)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
LABELS = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
TARGETS = np.sin(2.0 * X[:, 0]) + X[:, 1]
EXPANSIONS = [
    Full(),
    Full(max_size=11),
    KOMP(tolerance=0.05),
    KOMP(tolerance=0.01, max_size=9),
    Budget(9, "remove"),
    Budget(9, "project"),
    Budget(9, "merge"),
    Quantized(0.3, 15),
]
ESTIMATORS = [
    pytest.param(KernelClassifier, LABELS, id="classifier"),
    pytest.param(KernelRegressor, TARGETS, id="regressor"),
]
PARAMETERS = {"kernel": KERNEL, "step_size": 0.9, "regularization": 0.01, "batch_size": 10}


def plain(value):
    """Nested data as comparable tuples, arrays to the last bit."""
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return tuple(map(plain, value)) if isinstance(value, list) else value


def snapshot(model):
    """Everything that learning changes."""
    state = {"learner": model.learner_.to_state(whole=True), "targets": model.targets_.to_state()}
    return plain({**state, "n_features": model.n_features_in_})


def same_function(a, b):
    return (
        np.array_equal(a.dictionary_, b.dictionary_)
        and np.array_equal(a.coefficients_, b.coefficients_)
        and np.array_equal(a.history_.loss, b.history_.loss)
        and np.array_equal(a.history_.compression_error, b.history_.compression_error)
    )


def identical(a, b):
    return same_function(a, b) and snapshot(a) == snapshot(b)


def started(estimator, y, n=100, **parameters):
    return estimator(**{**PARAMETERS, **parameters}).partial_fit(X[:n], y[:n])


# -- how a stream is cut --------------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
@pytest.mark.parametrize("average", [None, "suffix"])
def test_one_call_equals_many_calls_of_whole_batches_bit_for_bit(estimator, y, expansion, average):
    extra = {"classes": [0, 1, 2]} if estimator is KernelClassifier else {}
    parameters = {**PARAMETERS, "expansion": expansion, "average": average}
    whole = estimator(**parameters).partial_fit(X, y, **extra)
    cut = estimator(**parameters)
    for start, stop in [(0, 10), (10, 20), (20, 50), (50, 60), (60, 200)]:
        cut.partial_fit(X[start:stop], y[start:stop], **extra)
    assert same_function(whole, cut)


@pytest.mark.parametrize("n_rows", [1, 4, 10])
def test_a_call_of_at_most_batch_size_rows_is_one_step(n_rows):
    model = KernelRegressor(expansion="full", average=None, **PARAMETERS)
    model.partial_fit(X[:n_rows], TARGETS[:n_rows])
    assert model.learner_.function.n_steps == 1
    # f = 0 - step * mean over the rows of the call
    assert_allclose(model.coefficients_[:, 0], 0.9 / n_rows * TARGETS[:n_rows])


def test_balanced_weights_do_not_depend_on_how_the_stream_is_cut():
    parameters = {**PARAMETERS, "class_weight": "balanced", "expansion": "full"}
    whole = KernelClassifier(**parameters).partial_fit(X, LABELS, classes=[0, 1, 2])
    cut = KernelClassifier(**parameters)
    for start in range(0, 200, 10):
        rows = slice(start, start + 10)
        cut.partial_fit(X[rows], LABELS[rows], classes=[0, 1, 2])
    assert same_function(whole, cut)


def test_sparse_rows_are_learned_like_dense_ones(rng):
    rows = X * (rng.random(X.shape) < 0.5)
    for average in (None, "suffix"):

        def scores(X, average=average):
            model = KernelClassifier(**{**PARAMETERS, "average": average}).partial_fit(X, LABELS)
            return model.decision_function(X)

        atol = rounding(scores, rows)
        assert_allclose(scores(sparse.csr_matrix(rows)), scores(rows), rtol=0.0, atol=atol)
        assert_allclose(scores(sparse.csr_array(rows)), scores(rows), rtol=0.0, atol=atol)
    parameters = {"kernel": "gaussian", "expansion": "komp", "random_state": 0, "n_passes": 2}
    dense = KernelRegressor(**parameters).fit(rows, TARGETS)
    thin = KernelRegressor(**parameters).fit(sparse.csr_matrix(rows), TARGETS)
    assert thin.kernel_.length_scale == pytest.approx(dense.kernel_.length_scale)
    assert_allclose(thin.predict(rows), dense.predict(rows), atol=1e-6)


# -- purity and aliasing --------------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_prediction_changes_nothing(estimator, y, expansion):
    model = started(estimator, y, expansion=expansion)
    before = snapshot(model)
    model.predict(X)
    model.predict_one(X[0])
    model.score(X, y)
    assert model.dictionary_ is not model.dictionary_
    model.dictionary_[:] = np.nan
    model.coefficients_[:] = np.nan
    if estimator is KernelClassifier:
        model.predict_proba(X)
        model.predict_proba_one(X[0])
        model.decision_function(X)
    assert snapshot(model) == before


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_inputs_are_neither_kept_nor_changed(estimator, y, expansion, rng):
    rows, targets, weights = X.copy(), y.copy(), rng.random(200)
    kept = weights.copy()
    model = estimator(expansion=expansion, **PARAMETERS)
    for start in range(0, 200, 50):
        part = slice(start, start + 50)
        model.partial_fit(rows[part], targets[part], sample_weight=weights[part])
    assert np.array_equal(rows, X)
    assert np.array_equal(targets, y)
    assert np.array_equal(weights, kept)
    expected = model.predict(X)
    rows[:], weights[:] = np.nan, np.nan
    assert np.array_equal(model.predict(X), expected)


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
def test_arrays_of_any_layout_are_learned_alike(estimator, y):
    expected = started(estimator, y, n=200)

    def frozen(a):
        a = a.copy()
        a.setflags(write=False)
        return a

    for form in (np.asfortranarray, frozen, lambda a: np.repeat(a, 2, axis=0)[::2]):
        model = estimator(**PARAMETERS).partial_fit(form(X), form(y), sample_weight=form(0 * y + 1))
        assert identical(model, expected)


def test_several_targets_may_be_in_fortran_order():
    targets = np.column_stack([TARGETS, X[:, 0]])
    models = [
        KernelRegressor(random_state=0, **PARAMETERS).fit(X, form(targets))
        for form in (np.ascontiguousarray, np.asfortranarray)
    ]
    assert identical(*models)


# -- going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_a_copy_goes_on_bit_for_bit(estimator, y, expansion, dtype, way):
    rows = X.astype(dtype)
    step_size = PowerDecay(0.9, 0.3)
    model = estimator(**{**PARAMETERS, "expansion": expansion, "step_size": step_size})
    model.partial_fit(rows[:70], y[:70])
    model.learn_one(rows[70], y[70])
    twin = way(model)
    assert identical(model, twin)
    for m in (model, twin):
        m.partial_fit(rows[71:150], y[71:150])
        for i in range(150, 160):
            m.learn_one(rows[i], y[i])
        m.partial_fit(rows[160:], y[160:])
    assert identical(model, twin)


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
def test_a_copy_shares_nothing(estimator, y):
    model = started(estimator, y)
    before = snapshot(model)
    copy.deepcopy(model).partial_fit(X, y).learn_one(X[0], y[0])
    assert snapshot(model) == before


# -- threads --------------------------------------------------------------------------------------


def blas_threads():
    info = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in info]


@pytest.fixture
def two_blas_threads():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = blas_threads()

    def set_all(counts):
        for library, count in zip(libraries, counts, strict=True):
            library.set_num_threads(count)
            # From threadpoolctl 3.8 on the first thread to set it would be the only one that can.
            getattr(library, "clear_controlling_thread", lambda: None)()

    set_all([2] * len(libraries))
    yield [2] * len(libraries)
    set_all(before)


def test_fits_that_overlap_leave_the_threads_of_blas_as_they_were(two_blas_threads):
    first_inside, second_inside, first_left = (threading.Event() for _ in range(3))
    inside = []

    def first(progress):
        inside.append(blas_threads())
        first_inside.set()
        assert second_inside.wait(10.0)

    def second(progress):
        inside.append(blas_threads())
        second_inside.set()
        assert first_left.wait(10.0)

    def fit(callback, left):
        KernelRegressor(kernel=KERNEL).fit(X, TARGETS, callback=callback)
        left.set()
        assert second_left.wait(10.0)  # a worker that lives on

    second_left = threading.Event()
    one = threading.Thread(target=fit, args=(first, first_left))
    two = threading.Thread(target=fit, args=(second, second_left))
    one.start()
    assert first_inside.wait(10.0)
    two.start()
    assert second_left.wait(10.0)
    after = blas_threads()
    one.join(10.0)
    two.join(10.0)
    assert inside == [[1] * len(after)] * 2
    assert after == two_blas_threads


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
def test_rows_and_failures_leave_the_threads_of_blas_as_they_were(estimator, y, two_blas_threads):
    model = estimator(kernel=KERNEL, expansion="full", step_size=0.5).partial_fit(X, y)
    model.learn_one(X[0], y[0])
    model.predict_one(X[0])
    assert blas_threads() == two_blas_threads
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, callback=interrupt)
    assert blas_threads() == two_blas_threads


def interrupt(progress):
    raise KeyboardInterrupt


# -- bounded memory -------------------------------------------------------------------------------


def memory(model):
    return sum(a.nbytes for a in model.learner_.function.arrays) + model.history_._records.nbytes


@pytest.mark.parametrize(
    "expansion",
    [KOMP(tolerance=0.0, max_size=20), Full(max_size=20), Budget(20, "merge")],
    ids=repr,
)
def test_memory_stays_bounded_on_a_long_stream(expansion):
    rng = np.random.default_rng(1)
    model = KernelRegressor(kernel=KERNEL, expansion=expansion, step_size=0.5)
    sizes = []
    for call in range(20):
        rows = 3.0 * rng.normal(size=(1000, 2))
        targets = np.sin(rows[:, 0]) * np.cos(rows[:, 1])
        if call % 5 == 4:
            for x, y in zip(rows, targets, strict=True):
                model.learn_one(x, y)
        else:
            model.partial_fit(rows, targets)
        assert model.model_order_ == 20
        sizes.append(memory(model))
    assert model.n_samples_seen_ == 20_000
    assert len(set(sizes[1:])) == 1
    assert model.learner_.function.arrays.points.shape[0] <= 20 + 32
    assert len(model.history_.loss) <= 1024
    assert model.history_.n_samples[-1] == 20_000


def test_a_pickle_holds_no_rows_beyond_the_dictionary_and_a_sample():
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=10), step_size=0.5)
    model.partial_fit(X[:40], TARGETS[:40])
    before = len(pickle.dumps(model))
    for _ in range(20):
        model.partial_fit(X, TARGETS)
    # The history may still grow up to its own bound: 1,024 records of five numbers are reserved.
    # Explanations have 256 rows, however long the stream, each with a key and a weight.
    kept = 256 * 8 * (X.shape[1] + 2)
    assert len(pickle.dumps(model)) < before + 10_000 + kept


# -- failures leave the model as it was ---------------------------------------------------------


def classifier(**parameters):
    return KernelClassifier(**{**PARAMETERS, **parameters}).partial_fit(X[:60], LABELS[:60])


@pytest.mark.parametrize("loss", ["auto", "hinge", Hinge()], ids=str)
@pytest.mark.parametrize(
    ("rows", "labels", "extra", "words"),
    [
        (X[:50, :1], LABELS[:50], {}, "1 features"),
        (np.where(X > 2.0, np.inf, X), LABELS, {}, "infinity"),
        (X[:50], LABELS[:49], {}, "inconsistent"),
        (X, LABELS + 1, {"classes": [0, 1, 2]}, "not in `classes`"),
        (X[:3], ["a", "b", "c"], {}, "text and numbers"),
        (X[:3], [0, 1, 9], {"sample_weight": [1.0, np.nan, 1.0]}, "finite and not neg"),
        (X[:3], [0, 1, 9], {"sample_weight": [1.0, 1.0]}, "sample_weight"),
        (X[:3], [0.5, 1.25, 2.0], {}, "label type: continuous. y holds 0.5, .*KernelRegressor"),
        (X[:3], [0, 1, 2], {"classes": [0.5, 1.0]}, "label type: continuous. classes holds 0.5"),
        (X[:0], LABELS[:0], {}, "0 sample"),
    ],
)
def test_a_refused_call_changes_nothing(loss, rows, labels, extra, words):
    model = classifier(loss=loss)
    before, names = snapshot(model), set(vars(model))
    with pytest.raises(ValueError, match=words):
        model.partial_fit(rows, labels, **extra)
    assert snapshot(model) == before
    assert set(vars(model)) == names
    model.partial_fit(X, LABELS)


@pytest.mark.parametrize("kernel", [Linear(), lambda A, B: A @ B.T], ids=["compiled", "python"])
@pytest.mark.parametrize("average", [None, "suffix"])
@pytest.mark.parametrize("n_bad", [3, 40])
@pytest.mark.parametrize("expansion", ["full", KOMP(tolerance=0.01), Budget(9, "project")], ids=str)
def test_a_diverging_call_changes_nothing(kernel, average, n_bad, expansion):
    """Divergence in the first step of a call, and in the middle of one."""
    model = KernelRegressor(
        kernel=kernel, step_size=0.3, batch_size=4, average=average, expansion=expansion
    ).partial_fit(X[:60], TARGETS[:60])
    before = snapshot(model)
    rows = np.vstack([X[:n_bad], 1e9 * X[:n_bad]])[-43:]
    with pytest.raises(DivergenceError, match=r"Try a step size of about"):
        model.partial_fit(rows, np.ones(len(rows)))
    assert snapshot(model) == before
    twin = copy.deepcopy(model).partial_fit(X, TARGETS)
    assert identical(model.partial_fit(X, TARGETS), twin)


@pytest.mark.parametrize("loss", ["auto", "squared_hinge", "least_squares_margin"])
@pytest.mark.parametrize("n_rows", [4, 60])
def test_a_diverging_call_that_brings_new_classes_takes_them_back(loss, n_rows):
    model = KernelClassifier(loss, kernel="linear", step_size=0.1, batch_size=4)
    model.partial_fit(X[:60], LABELS[:60] > 0).learn_one(X[0], True)
    before, classes, fitted_loss = snapshot(model), model.classes_, model.loss_
    labels = np.arange(n_rows) % 3 + 5
    with pytest.raises(DivergenceError):
        model.partial_fit(1e200 * X[:n_rows], labels)
    assert model.classes_ is classes
    assert model.loss_ is fitted_loss
    assert model.learner_.objective.loss is fitted_loss
    assert snapshot(model) == before
    model.learn_one(X[0], True).learn_one(X[1], 7).partial_fit(X, LABELS + 3)
    assert model.classes_.tolist() == [0, 1, 3, 4, 5, 7]


def test_a_first_call_that_fails_leaves_an_unfitted_model():
    model = KernelClassifier(**PARAMETERS)
    before = dict(vars(model))
    for rows, labels in [(X, LABELS[:3]), (np.full((3, 2), np.nan), [0, 1, 0]), (X[:3], None)]:
        with pytest.raises(ValueError, match=r"inconsistent|no value in any|required|requires"):
            model.partial_fit(rows, labels)
        assert vars(model) == before
    model.partial_fit(np.eye(4, 5), [0, 1, 0, 1])
    assert model.n_features_in_ == 5


def test_an_interrupted_call_changes_nothing():
    def schedule(t):
        if t > 8:
            raise KeyboardInterrupt
        return 0.5

    model = KernelRegressor(**{**PARAMETERS, "step_size": schedule})
    model.partial_fit(X[:50], TARGETS[:50])
    before = snapshot(model)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, TARGETS)
    assert snapshot(model) == before


# -- columns of all kinds -------------------------------------------------------------------------

LATER = {"a": 0, "town": 30, "due": 50, "price": 70}


def mixed_rows(n):
    """Dicts to which columns come one by one, and a number that all of them tell of."""
    rng, rows, targets = np.random.default_rng(1), [], []
    for i in range(n):
        a, town, day, price = rng.normal(), rng.choice(["Bern", "Bonn"]), i % 360, rng.integers(99)
        due = dt.date(2024, 1, 1) + dt.timedelta(days=day)
        cells = {
            "a": float(a),
            "town": str(town),
            "due": due.isoformat() if i % 2 else due.strftime("%Y-%m-%d"),
            "price": f"${1_000 + price:,}.50",
        }
        rows.append({name: cell for name, cell in cells.items() if i >= LATER[name]})
        targets.append(float(a + 2.0 * (town == "Bern") + price / 50.0))
    return rows, targets


@functools.cache
def learned_once(n):
    rows, targets = mixed_rows(n)
    model = KernelRegressor()
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, target)
    return model


def streamed(n=120):
    return copy.deepcopy(learned_once(n))


def seen_of(model):
    """What is known of the columns of a stream, and what is said of some rows."""
    rows = [{"a": 1.0}, {"town": "Bern"}, {"due": "2024-05-05"}, {"price": "$1,050.00"}, {"b": 2.0}]
    columns = None if model._columns is None else repr(model._columns.to_state())
    names = list(model._row_names), model.n_features_in_, model.n_inputs_
    return columns, names, [model.predict_one(row) for row in rows], snapshot(model)


def test_columns_of_text_dates_and_amounts_may_come_later():
    rows, targets = mixed_rows(400)
    model = KernelRegressor()
    assert model.learn_one(rows[0], targets[0])._columns is None
    for i in range(1, 400):
        model.learn_one(rows[i], targets[i])
        known = [name for name, first in LATER.items() if first <= i]
        assert model._row_names == known
    kinds = {one.name: one.kind for one in model._columns.readings.columns.values()}
    assert list(kinds.values()) == ["number", "category", "date", "number"]
    # Each says what it is worth, and a row may lack any.
    at = {"a": 0.0, "town": "Bonn", "due": "2024-03-03", "price": "$1,050.00"}
    assert model.predict_one(at | {"town": "Bern"}) - model.predict_one(at) > 1.0
    assert model.predict_one(at | {"price": "$1,090.00"}) - model.predict_one(at) > 0.4
    assert model.predict_one(at) == model.predict_one({**at, "never": "seen"})
    without = {name: cell for name, cell in at.items() if name != "town"}
    assert model.predict_one(without) == model.predict_one(at | {"town": None})
    typed = at | {"due": dt.date(2024, 3, 3), "price": 1050.0}
    assert model.predict_one(typed) == model.predict_one(at)


def test_a_text_column_that_is_new_leaves_what_was_learned_of_numbers():
    model, rng = KernelRegressor(), np.random.default_rng(2)
    for x in rng.normal(size=(60, 2)).tolist():
        model.learn_one(dict(zip("ab", x, strict=True)), x[0])
    asked = [{"a": a, "b": 0.3} for a in (-1.0, 0.5, 1.0)]
    before = [model.predict_one(row) for row in asked]
    model.learn_one({"a": 0.0, "b": 0.0, "town": "Bern"}, 0.0, 1e-12)
    assert model.n_inputs_ == 3
    assert_allclose([model.predict_one(row) for row in asked], before, atol=0.1)
    table = np.array([[-1.0, 0.3, "Bern"], [0.5, 0.3, None]], dtype=object)
    one_by_one = [model.predict_one(dict(zip(["a", "b", "town"], row, strict=True)))
                  for row in table]  # fmt: skip
    assert_array_equal(model.predict(table), one_by_one)


@pytest.mark.parametrize("n", [10, 40, 120])
@pytest.mark.parametrize(
    ("row", "target", "weight", "words"),
    [
        ({"a": np.inf, "new": "text"}, 1.0, 1.0, "inf"),
        ({"a": 1.0, "new": "text"}, "soon", 1.0, "number.*'soon'|'soon'.*quantities"),
        ({"a": 1.0, "new": "text"}, np.nan, 1.0, "NaN"),
        ({"a": 1.0, "new": "text"}, 1.0, -1.0, "finite and not negative"),
        ({"a": 1.0, "new": "text"}, [1.0, 2.0], 1.0, "target"),
        ({"a": "soon", "new": "text"}, 1.0, 1.0, "soon"),
        ({"a": "soon"}, 1.0, 1.0, "soon"),
    ],
)
def test_a_row_of_text_that_fails_changes_nothing(n, row, target, weight, words):
    model = streamed(n)
    before = seen_of(model)
    with pytest.raises(ValueError, match=words):
        model.learn_one(row, target, weight)
    assert seen_of(model) == before
    twin = streamed(n)
    for one in (model, twin):
        one.learn_one({"a": 1.0, "new": "text"}, 1.0)
    assert seen_of(model) == seen_of(twin)


@pytest.mark.parametrize("n", [40, 120])
def test_rows_of_no_weight_bring_no_columns(n):
    model = streamed(n)
    known = list(model._row_names), model._columns.inputs
    model.learn_one({"a": 1.0, "new": "text"}, 1.0, 0.0)
    assert (list(model._row_names), model._columns.inputs) == known


@pytest.mark.parametrize("n", [40, 120])
def test_a_stream_of_all_kinds_goes_on_bit_for_bit(n, tmp_path):
    model = learned_once.__wrapped__(n)  # no copy of one
    model.save(tmp_path / "m")
    twins = {
        "file": load_model(tmp_path / "m"),
        "pickle": pickle.loads(pickle.dumps(model)),
        "copy": copy.deepcopy(model),
    }
    before = seen_of(model)[:3]
    for way, again in twins.items():
        assert seen_of(again)[:3] == before, way
    rows, targets = mixed_rows(n + 35)  # of 40 rows: until the last column has come
    for one in (model, *twins.values()):
        for row, target in zip(rows[n:], targets[n:], strict=True):
            one.learn_one({**row, "late": "yes"}, target)
    after = seen_of(model)[:3]
    for way, again in twins.items():
        assert seen_of(again)[:3] == after, way


def test_classes_are_told_by_columns_of_all_kinds():
    rows, targets = mixed_rows(300)
    model = KernelClassifier()
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, "high" if target > 1.5 else "low")
    right = [model.predict_one(row) == ("high" if target > 1.5 else "low")
             for row, target in zip(rows[100:], targets[100:], strict=True)]  # fmt: skip
    assert np.mean(right) > 0.85


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("KOMP", "estimators.kept_rows.kept_of"),
        ("KOMP", "history.History.add"),
        ("dictionary", "estimators.kept_rows.kept_of"),
        ("features", "estimators.kept_rows.kept_of"),
        ("ranker", "history.History.add"),
        ("ranker", "functions.kernel_expansion.KernelExpansion.snapshot"),
        ("Gaussian process", "estimators.gaussian_process.kept_of"),
    ],
)
def test_memory_that_runs_out_at_the_end_changes_nothing(monkeypatch, name, where):
    """What learns in place is undone, or comes after all that may fail (reliability/memory.py)."""
    options = {"kernel": KERNEL, "random_state": 0}
    model = {
        "KOMP": lambda: KernelRegressor(expansion=KOMP(), **options),
        "dictionary": lambda: KernelRegressor(expansion=Dictionary(20), **options),
        "features": lambda: KernelRegressor(expansion=RandomFeatures(32), **options),
        "ranker": lambda: KernelRanker(expansion=KOMP(), **options),
        "Gaussian process": lambda: GaussianProcessRegressor(n_features=16, **options),
    }[name]()
    model.partial_fit(X[:100], TARGETS[:100])
    before = plain(model.to_state())

    def fail(*args, **kwargs):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(f"mercer.{where}", fail)
        with pytest.raises(MemoryError):
            model.partial_fit(X[100:], TARGETS[100:])
    assert plain(model.to_state()) == before
