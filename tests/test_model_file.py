"""Saved models predict and go on learning bit for bit; everything else is refused."""

import copy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mercer
from mercer import KernelClassifier, KernelRegressor, kernels, load_model, losses, model_file
from mercer.expansions import KOMP, Budget, Full, Quantized
from mercer.kernels import Gaussian
from mercer.losses import Loss, Squared
from mercer.numerics.compression import TRIANGULAR
from mercer.schedules import InverseTime, PowerDecay

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 2))
LABELS = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
TARGETS = np.abs(np.sin(2.0 * X[:, 0]) + X[:, 1])
KERNEL = Gaussian(0.3)
KERNELS = [
    "gaussian",
    kernels.Laplacian(2.0),
    kernels.Cauchy(),
    kernels.Matern(2.5),
    kernels.RationalQuadratic(0.7),
    kernels.Linear(),
    kernels.Polynomial(degree=2),
    kernels.ArcCosine(1),
    kernels.Convolutional(kernels.Gaussian(1.0), [1, 2], 1),
    kernels.Gaussian(1.0) + 0.5 * kernels.Linear() * kernels.Laplacian(3.0),
]
EXPANSIONS = [
    Full(),
    Full(max_size=11),
    KOMP(tolerance=0.05),
    KOMP(max_size=9),
    Budget(9, "remove"),
    Budget(9, "project"),
    Budget(9, "merge"),
    Quantized(0.3, 15),
]
LOSSES = [
    cls()
    for cls in vars(losses).values()
    if isinstance(cls, type) and issubclass(cls, Loss) and cls.row is not None
]
LOSSES.append(losses.Quantile([0.1, 0.9]))


def targets_of(model):
    return LABELS if isinstance(model, KernelClassifier) else TARGETS


def coefficients_of(model):
    """Those of the function, or of the parts and of what the loss adds to them."""
    loss = getattr(model, "loss_", None)
    adds = model.expansion == "auto" and loss is not None and loss.task == "regression"
    if not adds or isinstance(loss, Squared) or model.step_size != "auto":
        return model.coefficients_
    parts = [part.coefficients for part in model.parts_]
    return np.concatenate([model.correction_.coefficients.ravel(), *map(np.ravel, parts)])


def assert_identical(a, b):
    assert type(a) is type(b)
    assert np.array_equal(a.dictionary_, b.dictionary_)
    assert a.dictionary_.dtype == b.dictionary_.dtype
    assert np.array_equal(coefficients_of(a), coefficients_of(b))
    assert np.array_equal(a.predict(X), b.predict(X))
    assert a.n_samples_seen_ == b.n_samples_seen_
    for name in ("n_samples", "loss", "model_order", "compression_error", "step_size"):
        assert np.array_equal(getattr(a.history_, name), getattr(b.history_, name))


def check_round_trip(model, path, dtype=np.float64):
    y, rows = targets_of(model), X.astype(dtype)
    model.partial_fit(rows[:70], y[:70])
    model.learn_one(rows[70], y[70])
    model.save(path)
    loaded = load_model(path)
    assert_identical(model, loaded)
    assert repr(loaded) == repr(model)
    for m in (model, loaded):
        m.partial_fit(rows[71:140], y[71:140])
        for i in range(140, 150):
            m.learn_one(rows[i], y[i])
        m.partial_fit(rows[150:], y[150:])
    assert_identical(model, loaded)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_goes_on_after_loading(tmp_path, kernel):
    check_round_trip(KernelRegressor(kernel=kernel, step_size=0.02), tmp_path / "model")


@pytest.mark.parametrize("average", [None, "polyak", "suffix"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_every_expansion_goes_on_after_loading(tmp_path, expansion, dtype, average):
    model = KernelClassifier(
        kernel=KERNEL, expansion=expansion, step_size=0.9, regularization=0.01, average=average
    )
    check_round_trip(model, tmp_path / "model", dtype)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_goes_on_after_loading(tmp_path, loss):
    cls = KernelClassifier if loss.task == "classification" else KernelRegressor
    check_round_trip(cls(loss, kernel=KERNEL), tmp_path / "model")


@pytest.mark.parametrize(
    "step_size", ["auto", 0.3, PowerDecay(0.9, 0.4), InverseTime(0.5, 30)], ids=repr
)
@pytest.mark.parametrize("estimator", [KernelClassifier, KernelRegressor])
def test_every_schedule_goes_on_after_loading(tmp_path, estimator, step_size):
    check_round_trip(estimator(kernel=KERNEL, step_size=step_size), tmp_path / "model")


def test_safer_paths_go_on_after_loading(tmp_path):
    model = KernelRegressor(
        kernel=Gaussian(4.0), expansion=KOMP(tolerance=1e-6), step_size=0.5, batch_size=4
    )
    check_round_trip(model, tmp_path / "model")
    assert model.learner_.function.promoted == "triangular"
    model = KernelRegressor(kernel=Gaussian(2.0), expansion=KOMP(tolerance=1e-3), step_size=0.5)
    check_round_trip(model, tmp_path / "model", np.float32)
    assert model.learner_.function.promoted == "float64"


def test_several_targets_and_passes(tmp_path):
    targets = np.column_stack([TARGETS, X])
    model = KernelRegressor(expansion="komp", n_passes=3, random_state=1).fit(X, targets)
    model.save(tmp_path / "model")
    assert_identical(model, load_model(tmp_path / "model"))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["left", "right", "zentrum"]),
        np.array(["left", "right", "zentrum"], dtype=object),
        np.array([0.5, 1.5, 2.5]) * 2.0,
        np.array([-3, 5, 2**40]),
        np.array([False, True, True]),
    ],
    ids=["text", "object", "float", "int", "bool"],
)
def test_labels_keep_their_type_and_new_ones_may_come_after_loading(tmp_path, labels):
    model = KernelClassifier(kernel=KERNEL, class_weight="balanced")
    model.partial_fit(X[:80], labels[LABELS[:80] % 2])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    for m in (model, loaded):
        m.partial_fit(X[80:], labels[LABELS[80:]])
    assert np.array_equal(loaded.classes_, model.classes_)
    assert np.array_equal(loaded.class_counts_, model.class_counts_)
    assert_identical(model, loaded)


def test_class_weights_of_numbers_and_text_survive(tmp_path):
    for weights, labels in [
        ({0: 2.0, 1: 1.0}, LABELS % 2),
        ({"a": 2.0}, np.array(["a", "b"])[LABELS % 2]),
    ]:
        model = KernelClassifier(kernel=KERNEL, class_weight=weights).fit(X, labels)
        model.save(tmp_path / "model")
        assert load_model(tmp_path / "model").class_weight == weights


def test_names_of_features_survive(tmp_path):
    frame = pd.DataFrame(X, columns=["b", "a"])
    model = KernelRegressor(kernel=KERNEL).fit(frame, TARGETS)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["b", "a"]
    assert np.array_equal(loaded.predict(frame), model.predict(frame))
    by_rows = KernelRegressor(kernel=KERNEL).learn_one({"v": 1.0, "u": 2.0}, 1.0)
    by_rows.save(tmp_path / "rows")
    again = load_model(tmp_path / "rows")
    assert again.learn_one({"u": 0.5, "v": 0.5}, 1.0).predict_one({"u": 2.0, "v": 1.0}) > 0.0


def test_what_is_of_the_machine_and_not_of_the_model_is_not_stored(tmp_path):
    generator = np.random.RandomState(0)
    for given, kept in ((generator, None), (np.int64(3), 3), (3, 3), (None, None)):
        model = KernelRegressor(kernel=KERNEL, expansion="komp", random_state=given, n_jobs=2)
        model.fit(X, TARGETS).save(tmp_path / "model")
        params = model_file.read_state(tmp_path / "model")["model"]["params"]
        assert not {"n_jobs", "categorical_features"} & params.keys()
        loaded = load_model(tmp_path / "model")
        assert (loaded.random_state, loaded.n_jobs) == (kept, None)
    model = KernelRegressor(kernel=KERNEL, categorical_features=np.array([1]))
    model.fit(np.column_stack([X[:, 0], LABELS]), TARGETS).save(tmp_path / "model")
    assert load_model(tmp_path / "model").categorical_features == [1]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_rows_to_calibrate_by_are_kept_and_must_fit(kind, tmp_path):
    rows, labels = kind(X), np.array(["a", "b", "c"])[LABELS]
    model = KernelClassifier(kernel=KERNEL, expansion=KOMP(max_size=9), step_size=0.9)
    model.fit(rows[:100], labels[:100]).calibrate(rows[100:], labels[100:])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict_set(rows), model.predict_set(rows))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    for wrong in (
        {"y": np.full(60, -1)},
        {"y": np.full(60, 3)},
        {"y": np.zeros(59, np.int64)},
        {"weights": np.ones(59)},
        {"X": X[:59]},
        {"X": np.zeros((60, 3))},
    ):
        state = model_file.read_state(tmp_path / "model")
        state["model"]["calibration"] |= wrong
        model_file.write_state(tmp_path / "forged", state)
        with pytest.raises(ValueError, match=r"not a valid mercer.*[^.]\.$"):
            load_model(tmp_path / "forged")


@pytest.mark.parametrize("stored", ["none", "all"])
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("by", [-(10**6), -9, 9, 10**6])
def test_sparse_rows_in_files_follow_each_other(stored, place, by, tmp_path):
    rows = sparse.csr_matrix(X)
    model = KernelClassifier(kernel=KERNEL, expansion=KOMP(max_size=9), step_size=0.9)
    model.fit(rows[:100], LABELS[:100]).calibrate(rows[100:], LABELS[100:])
    model.save(tmp_path / "model")
    state = model_file.read_state(tmp_path / "model")
    inputs = state["model"]["calibration"]["X"]
    if stored == "none":  # SciPy then looks at nothing between the first and the last
        inputs |= {"data": inputs["data"][:0], "indices": inputs["indices"][:0]}
        inputs["indptr"] = np.zeros_like(inputs["indptr"])
    ends = inputs["indptr"].copy()
    ends[place] += by
    model_file.write_state(tmp_path / "good", state)
    assert load_model(tmp_path / "good").predict_set(rows[:5]).shape == (5, 3)
    state["model"]["calibration"]["X"] = inputs | {"indptr": ends}
    model_file.write_state(tmp_path / "forged", state)
    with pytest.raises(ValueError, match="must be a sparse matrix whose rows"):
        load_model(tmp_path / "forged")


def test_saving_replaces_a_file_and_changes_nothing(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    model = KernelRegressor(kernel=KERNEL).fit(X, TARGETS)
    before = copy.deepcopy(model)
    model.save(str(path))
    assert_identical(model, before)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("average", [None, "suffix"])
@pytest.mark.parametrize(
    "change",
    [
        {"average": None},
        {"average": "polyak"},
        {"expansion": Full()},
        {"expansion": "budget"},
        {"expansion": KOMP(max_size=2)},
        {"expansion__max_size": 2},
        {"kernel": "linear"},
        {"loss": "huber"},
        {"step_size": 0.1, "regularization": 0.2, "batch_size": 3},
    ],
    ids=str,
)
def test_parameters_changed_after_fitting_and_the_fitted_function_are_both_kept(
    tmp_path, average, change
):
    model = KernelRegressor(
        kernel=KERNEL, expansion=KOMP(max_size=30), average=average, random_state=0
    )
    model.fit(X, TARGETS).set_params(**change).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.get_params(deep=False) == model.get_params(deep=False)
    assert_identical(model, loaded)
    for m in (model, loaded):
        m.learn_one(X[0], TARGETS[0]).partial_fit(X, TARGETS)
    assert_identical(model, loaded)
    assert_identical(model.fit(X[:9], TARGETS[:9]), loaded.fit(X[:9], TARGETS[:9]))


# -- what cannot be stored ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": lambda A, B: A @ B.T, "step_size": 0.01},
        {"kernel": KERNEL, "step_size": lambda t: 0.1},
        {"kernel": KERNEL, "expansion": KOMP(tolerance=lambda t: 0.1 / t)},
    ],
)
def test_functions_are_not_stored(tmp_path, parameters):
    model = KernelRegressor(**parameters).fit(X, TARGETS)
    with pytest.raises(ValueError, match="cannot be stored in a model file"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_part_of_ones_own_is_not_taken_for_a_built_in_one_of_that_name(tmp_path):
    class Huber(losses.RegressionLoss):
        curvature = lipschitz = 1.0

        def value(self, y, f):
            return np.sum(np.logaddexp(f - y, y - f) - np.log(2.0), axis=1)

        def derivative(self, y, f):
            return np.tanh(f - y)

    model = KernelRegressor(Huber(), kernel=KERNEL).fit(X, TARGETS)
    with pytest.raises(ValueError, match="`Huber` is not part of mercer"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_is_not_stored(tmp_path):
    for model in (KernelRegressor(), KernelClassifier()):
        with pytest.raises(ValueError, match="not fitted yet"):
            model.save(tmp_path / "model")


# -- wrong files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    KernelClassifier(kernel=KERNEL, expansion=KOMP(max_size=9), step_size=0.9).fit(X, LABELS).save(
        path
    )
    return path


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")


def test_an_altered_file_is_refused(saved, tmp_path):
    content = saved.read_bytes()
    path = tmp_path / "altered"
    for at in np.linspace(0, len(content) - 1, 40).astype(int):
        altered = bytearray(content)
        altered[at] ^= 1
        path.write_bytes(altered)
        with pytest.raises(ValueError, match="model file"):
            load_model(path)
    for wrong in (b"", b"hello", content[:-1], content + b"\0", content[: len(content) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="model file"):
            load_model(path)


def at(state, *keys):
    for key in keys:
        state = state[key]
    return state


FORGERIES = {
    ("kind",): ["Popen", None, 3, [], "Learner"],
    ("model",): [None, [], {}, "x"],
    ("model", "params"): [None, {"no_such": 1}, {"step_size": -1.0}, []],
    ("model", "params", "batch_size"): [0, 1.5, None, "x"],
    ("model", "params", "average"): ["mean", 3.0],
    ("model", "params", "kernel"): ["gausian", None, {"type": "KOMP", "params": {}}],
    ("model", "params", "expansion"): ["komb", None, {"type": "Gaussian", "params": {}}],
    ("model", "expansion"): [
        None,
        "auto",
        {"type": "Full", "params": {}},
        {"type": "KOMP", "params": {"max_size": 8}},
        {"type": "Gaussian", "params": {}},
    ],
    ("model", "averaging"): [None, "suffix", 1.0, -1.0, True, [3.0]],
    ("model", "kernel"): [None, {"type": "Popen", "params": {}}, {"type": "KOMP", "params": {}}],
    ("model", "kernel", "params"): [{"length_scale": -1.0}, {"length_scale": "median"}, {"x": 1}],
    ("model", "loss"): [
        None,
        {"type": "Gaussian", "params": {}},
        {"type": "Squared", "params": {}},
        {"type": "Hinge"},
    ],
    ("model", "automatic"): [None, [], [1.0], ["a", "b", "c"], [0.0, 0.0, 0.0, 0.0]],
    ("model", "n_features"): [3, 10**30, -1, None],
    ("model", "feature_names"): [["a"], 3, ["a", "b", "c"]],
    ("model", "row_names"): [3, ["a"]],
    ("model", "means"): [np.zeros(3), np.zeros(2, np.float32), "x"],
    ("model", "kept"): [{}, [], "x"],
    ("model", "targets"): [None, {}],
    ("model", "targets", "labels"): [{"dtype": "<i8", "values": [1, 1, 2]}, {}, None],
    ("model", "targets", "labels", "values"): [[2, 1, 0], [0, 1], [0, 1, 2, 3], [[0, 1, 2]]],
    ("model", "targets", "labels", "dtype"): ["V8", "nonsense", "M8[s]", None],
    ("model", "targets", "counts"): [np.ones(2), None, np.array([-1.0, 1.0, 1.0])],
    ("model", "learner"): [None, {}],
    ("model", "learner", "numbers"): [None, {}],
    ("model", "learner", "numbers", "n_samples"): ["many", None, -1],
    ("model", "learner", "numbers", "first"): ["x", None, [1.0], [-1, 1.0, 1.0]],
    ("model", "learner", "function", "numbers", "oldest"): [-1, 50, 0.5, None],
    ("model", "learner", "function", "numbers", "scale"): [0.0, -1.0, "x", None],
    ("model", "learner", "function", "numbers", "n_steps"): [-1, None, 1.5],
    ("model", "learner", "function", "numbers", "kind"): [0, 1, 5, 99, None],
    ("model", "learner", "function", "numbers", "n_outputs"): [0, 1, 2, 4, None],
    ("model", "learner", "function", "arrays", "points"): [
        np.zeros((9, 3)),
        np.zeros((8, 2)),
        np.zeros((9, 2), np.int64),
        np.zeros(9),
        None,
    ],
    ("model", "learner", "function", "arrays", "self_kernel"): [
        np.zeros(3),
        np.zeros(9, np.float32),
        np.full(9, 2.0),  # a Gaussian's are 1
    ],
    ("model", "learner", "function", "arrays", "weights"): [
        np.zeros((9, 1)),
        np.zeros((9, 6), np.float32),
    ],
    ("model", "learner", "function", "arrays", "inverse"): [
        np.zeros(44),
        np.zeros(45, np.float32),
        np.zeros(45),
        np.full(45, 1e300),
        None,
    ],
    ("model", "learner", "history", "numbers", "open_steps"): [-1, 10**6, None],
    ("model", "learner", "history", "arrays", "records"): [np.zeros((5, 4)), None],
}


@pytest.mark.parametrize("keys", FORGERIES, ids="/".join)
def test_a_forged_file_whose_parts_do_not_fit_is_refused(saved, tmp_path, keys):
    assert at(model_file.read_state(saved), *keys) is not ...
    for value in FORGERIES[keys]:
        state = model_file.read_state(saved)
        at(state, *keys[:-1])[keys[-1]] = value
        model_file.write_state(tmp_path / "forged", state)
        with pytest.raises(ValueError, match="not a valid mercer"):
            load_model(tmp_path / "forged")


def test_a_ring_whose_oldest_slot_lies_outside_is_refused(tmp_path):
    path = tmp_path / "model"
    KernelRegressor(kernel=KERNEL, expansion=Full(max_size=5), step_size=0.5).fit(X, TARGETS).save(
        path
    )
    state = model_file.read_state(path)
    at(state, "model", "learner", "function", "numbers")["oldest"] = 5
    model_file.write_state(path, state)
    with pytest.raises(ValueError, match="do not fit together"):
        load_model(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverses_that_were_updated_often_are_taken_for_those_of_the_points(tmp_path, dtype):
    rows = np.random.default_rng(0).normal(size=(3000, 2)).astype(dtype)
    expansion = KOMP(tolerance=1e-4, max_size=60)
    model = KernelRegressor(kernel=Gaussian(0.7), expansion=expansion, random_state=0)
    model.fit(rows, np.sin(3.0 * rows[:, 0])).save(tmp_path / "model")
    assert load_model(tmp_path / "model").model_order_ == model.model_order_ > 40


def test_roots_of_ill_conditioned_inverses_are_taken_for_those_of_the_points(tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 2))
    model = KernelRegressor(kernel=Gaussian(3.0), expansion=KOMP(tolerance=0.0), random_state=0)
    model.fit(rows, np.sin(3.0 * rows[:, 0]))
    assert model.learner_.function.compressor.kind == TRIANGULAR
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").model_order_ == model.model_order_ > 40


def test_coefficients_that_leave_the_range_of_numbers_give_no_answers(saved, tmp_path):
    state = model_file.read_state(saved)
    weights = at(state, "model", "learner", "function", "arrays")["weights"]
    weights[:] = 1.7e308
    model_file.write_state(tmp_path / "large", state)
    with pytest.raises(ValueError, match=r"f is not finite at row \d.*Rescale"):
        load_model(tmp_path / "large").predict(X)


def test_a_file_of_no_state_is_refused(tmp_path):
    model_file.write_state(tmp_path / "empty", {})
    with pytest.raises(ValueError, match="not a valid mercer model"):
        load_model(tmp_path / "empty")


def test_states_that_name_arrays_which_are_not_there_are_refused(tmp_path):
    path = tmp_path / "m"
    for name in ("missing", ["list"]):
        model_file.write_state(path, {"kind": {"tensor": name}})
        with pytest.raises(ValueError, match="is not a valid mercer file"):
            model_file.read_state(path)
    model_file.write_tensors(path, {"tensor": "x"}, {"x": np.ones(2)})
    with pytest.raises(ValueError, match="no state in it"):
        model_file.read_state(path)
    state = {"a": {"tensor": np.ones(1), "b": np.zeros(2)}, "n": np.int64(3)}
    model_file.write_state(path, state)
    assert model_file.read_tensors(path)[1].keys() == {"a/tensor", "a/b"}
    found = model_file.read_state(path)
    assert found["a"]["tensor"].tolist() == [1.0]
    assert found["a"]["b"].tolist() == [0.0, 0.0]
    assert found["n"] == 3


def test_classes_that_files_name_are_imported_from_their_homes(monkeypatch):
    kinds = {name: of for name, of in model_file._KINDS.items() if name != "KernelRegressor"}
    imported = []

    def import_module(name):
        imported.append(name)
        kinds["KernelRegressor"] = KernelRegressor

    monkeypatch.setattr(model_file, "_KINDS", kinds)
    monkeypatch.setattr(model_file, "import_module", import_module)
    monkeypatch.setattr(model_file, "_HOMES", {})
    model_file.storable_in({"KernelRegressor": "its.home"})
    assert model_file._class_named("KernelRegressor") is KernelRegressor
    assert imported == ["mercer.estimators", "its.home"]
    assert model_file._class_named("KernelRegressor") is KernelRegressor
    with pytest.raises(ValueError, match="'Popen', which this version does not know"):
        model_file._class_named("Popen")
    assert imported == ["mercer.estimators", "its.home", "mercer.estimators"]
    assert model_file.storable(Gaussian) is Gaussian is model_file._class_named("Gaussian")


@pytest.mark.parametrize(
    "kind", [KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError]
)
def test_whatever_goes_wrong_with_a_state_it_is_a_wrong_file(kind, saved, monkeypatch):
    def wrong(state):
        raise kind("so it is")

    monkeypatch.setattr(model_file, "model_of_state", wrong)
    with pytest.raises(ValueError, match=r"is not a valid mercer model: .*so it is"):
        load_model(saved)


def test_the_package_offers_loading():
    assert mercer.load_model is load_model
