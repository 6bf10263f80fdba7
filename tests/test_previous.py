"""The function before the last step: against a copy that was made before the step."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from covering import covering
from mercer import KernelRegressor
from mercer.expansions import KOMP, Budget, Full, Quantized, RandomFeatures
from mercer.functions import FeatureExpansion, KernelExpansion
from mercer.kernels import Gaussian
from mercer.model_file import read_state, write_state

D = 2
EXPANSIONS = {
    "komp": KOMP(tolerance=0.05),
    "komp exact": KOMP(tolerance=0.0),
    "komp capped": KOMP(tolerance=0.01, max_size=9),
    "budget merge": Budget(9, "merge"),
    "budget project": Budget(9, "project"),
    "budget remove": Budget(9, "remove"),
    "quantised": Quantized(0.3, 15),
    "full": Full(),
    "full ring": Full(max_size=9),
}
SINGLE_RIDGE = {"block_size": 8, "design": "iid", "min_steps": 0, "precision": "double"}
MODES = {
    "newton": RandomFeatures(mode="newton", ridge=1e-2, **SINGLE_RIDGE),
    "newton race": RandomFeatures(mode="newton", ridge=[1e-3, 1e-1], **SINGLE_RIDGE),
    "faithful": RandomFeatures(mode="faithful", **SINGLE_RIDGE),
    "cyclic": RandomFeatures(mode="cyclic", max_blocks=3, ridge=1e-2, **SINGLE_RIDGE),
    "cyclic race": RandomFeatures(
        mode="cyclic", max_blocks=3, growth="block", ridge=[1e-3, 1e-1], **SINGLE_RIDGE
    ),
}


class CountingGaussian(Gaussian):
    """A Gaussian that notes how many points each call compares the rows with."""

    calls: list[int] = []  # noqa: RUF012

    def __call__(self, X, Z=None):
        self.calls.append(len(X) if Z is None else len(Z))
        return super().__call__(X, Z)


def start(expansion, n_outputs=1, dtype=np.float64, averaging=None, kernel=None):
    f = KernelExpansion(kernel or Gaussian(0.7), expansion, D, n_outputs, dtype, averaging)
    f.keep_previous()
    return f


def step(f, rng, n_rows=1, spread=1.0, factor=0.9, tolerance=None):
    """One step as a learner makes it; returns the function before it."""
    before = copy.deepcopy(f)
    X = (spread * rng.normal(size=(n_rows, D))).astype(f.dtype)
    values = f.current(X)
    f.previous(X)
    f.shrink(factor)
    slopes = 0.3 * values + rng.normal(size=values.shape)
    slopes[rng.random(n_rows) < 0.1] = 0.0  # such rows do not join
    if tolerance is None:
        tolerance = float(f.expansion.tolerances(np.ones(1), 1, 1.0)[0])
    f.add(X, -0.5 * slopes, tolerance)
    return before


def queries(f, seed=99, n_rows=7):
    return np.random.default_rng(seed).normal(size=(n_rows, D)).astype(f.dtype)


def assert_previous_is(f, before, exact=1e-13):
    """``f.previous`` at new points is ``before``, up to the order of the sums."""
    X = queries(f)
    now = f.current(X)
    size = 1.0 + np.abs(before._iterate()).sum()
    single = np.float32 in (f.dtype, before.dtype)
    assert_allclose(f.previous(X), before.current(X), atol=(3e-7 if single else exact) * size)
    assert_array_equal(f.current(X), now)


# -- kernel expansions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_rows", "n_outputs", "dtype", "averaging"),
    covering(EXPANSIONS, [1, 8], [1, 3], [np.float32, np.float64], [None, 0.0]),
)
def test_previous_is_the_function_before_the_step(name, n_rows, n_outputs, dtype, averaging):
    rng = np.random.default_rng(0)
    f = start(EXPANSIONS[name], n_outputs, dtype, averaging)
    for _ in range(18):
        assert_previous_is(f, step(f, rng, n_rows))
    assert f.size > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 8])
@pytest.mark.parametrize("name", ["komp", "komp exact", "komp capped", "budget project"])
def test_previous_survives_the_change_to_safer_paths(name, n_rows, dtype):
    """Rows that resemble each other: the dictionary is rebuilt in the middle of a step."""
    rng = np.random.default_rng(1)
    f = start(EXPANSIONS[name], 2, dtype)
    paths = set()
    for _ in range(25):
        before = step(f, rng, n_rows, spread=0.15, factor=0.99, tolerance=1e-5)
        # Coefficients of near-dependent points are large and of both signs.
        assert_previous_is(f, before)
        paths.add(f.promoted)
    assert "triangular" in paths


def test_previous_survives_a_safer_path_between_steps():
    rng = np.random.default_rng(2)
    f = start(EXPANSIONS["komp"], 2, np.float32, kernel=Gaussian(0.3))
    for _ in range(12):
        before = step(f, rng, 4)
    assert f.promoted == ""
    for path in ("float64", "triangular"):
        f.use_safer_path()
        assert f.promoted == path
        assert_previous_is(f, before)
    for _ in range(3):
        assert_previous_is(f, step(f, rng, 4))


def test_previous_survives_a_compression_of_many_removals():
    """More removals than are committed at once, and newcomers that stay."""
    rng = np.random.default_rng(3)
    f = start(KOMP(tolerance=0.0), kernel=Gaussian(0.02))
    for _ in range(2):
        step(f, rng, 200)
    assert f.size > 300
    before = step(f, rng, 50, tolerance=8.0)
    assert f.size < before.size - 256
    assert_previous_is(f, before)


def test_previous_survives_multiplying_out_the_scale():
    rng = np.random.default_rng(4)
    f = start(EXPANSIONS["komp"])
    step(f, rng, 8)
    before = step(f, rng, 8, factor=1e-7)
    assert f.scale == 1.0
    assert_previous_is(f, before)


def test_before_any_step_the_previous_function_is_zero():
    f = start(Full(), 3)
    X = queries(f)
    assert_array_equal(f.current(X), np.zeros((7, 3)))
    assert_array_equal(f.previous(X), np.zeros((7, 3)))
    before = step(f, np.random.default_rng(0))
    assert before.size == 0
    assert_array_equal(f.previous(X), np.zeros((7, 3)))


def test_keeping_may_begin_late():
    """Until the next step the current function counts as the one before."""
    rng = np.random.default_rng(5)
    f = KernelExpansion(Gaussian(0.7), EXPANSIONS["komp"], D, 1)
    X = queries(f)
    with pytest.raises(ValueError, match="keep_previous"):
        f.previous(X)
    f.add(rng.normal(size=(5, D)), rng.normal(size=(5, 1)), 0.05)
    assert not f.keeps_previous
    f.keep_previous()
    assert f.keeps_previous
    assert_allclose(f.previous(X), f.current(X), atol=1e-14)
    assert_previous_is(f, step(f, rng))


def test_a_step_that_adds_nothing_only_shrinks():
    rng = np.random.default_rng(6)
    f = start(Full())
    step(f, rng, 8)
    X = queries(f)
    values = f.current(X)
    f.shrink(0.5)
    f.add(X, np.zeros((7, 1)), 0.0)
    assert_allclose(f.current(X), 0.5 * values, atol=1e-14)
    assert_allclose(f.previous(X), values, atol=1e-14)


def test_in_the_middle_of_a_step_previous_is_the_function_before_it():
    rng = np.random.default_rng(7)
    f = start(EXPANSIONS["komp"])
    step(f, rng, 8)
    before = copy.deepcopy(f)
    f.shrink(0.5)
    f.shrink(0.5)
    assert_previous_is(f, before)
    f.restore(f.snapshot())
    assert_previous_is(f, before)
    f.add(rng.normal(size=(3, D)), rng.normal(size=(3, 1)), 0.05)
    assert_previous_is(f, before)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_only_points_that_went_need_new_kernels(name):
    rng = np.random.default_rng(8)
    f = start(EXPANSIONS[name], kernel=CountingGaussian(0.2))
    evaluated = 0
    for _ in range(20):
        before = step(f, rng, 3)
        left = {tuple(point) for point in f.dictionary}
        went = [point for point in before.dictionary if tuple(point) not in left]
        X = queries(f)
        f.current(X)
        f.kernel.calls.clear()
        f.previous(X)
        assert sum(f.kernel.calls) == len(went)
        evaluated += len(went)
    assert f.promoted == ""  # a rebuilt dictionary counts as new
    assert (evaluated > 0) == (name not in ("full", "komp exact", "quantised"))


def test_without_current_the_kernels_are_taken_once():
    rng = np.random.default_rng(9)
    f = start(Full(), kernel=CountingGaussian(0.7))
    before = step(f, rng, 5)
    X = queries(f)
    f.kernel.calls.clear()
    f.previous(X)
    assert_allclose(f.previous(X), before.current(X), atol=1e-13)
    assert f.kernel.calls == [f.size, before.size]


def test_points_are_not_copied_unless_that_is_asked_for():
    f = KernelExpansion(Gaussian(0.7), KOMP(0.05), D, 1)
    rng = np.random.default_rng(10)
    f.shrink(0.9)
    f.add(rng.normal(size=(5, D)), rng.normal(size=(5, 1)), 0.05)
    assert f.past is None
    assert not any(key.startswith("past") for key in f.snapshot()["arrays"])


def test_compiled_loops_end_the_keeping():
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(40, D)), rng.normal(size=40)
    model = KernelRegressor(kernel="gaussian", expansion="komp", batch_size=1).partial_fit(X, y)
    f = model.learner_.function
    f.keep_previous()
    model.partial_fit(X, y)
    assert not f.keeps_previous
    with pytest.raises(ValueError, match="compiled loop"):
        f.previous(X)


def test_outputs_are_mapped():
    rng = np.random.default_rng(12)
    f = start(EXPANSIONS["komp"], 2)
    for _ in range(8):
        before = step(f, rng, 4)
    mixing = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
    f.map_outputs(mixing)
    before.map_outputs(mixing)
    assert_previous_is(f, before)
    assert_previous_is(f, step(f, rng, 4))


# -- kernel expansions, stored -------------------------------------------------------------------


def assert_same(f, g):
    X = queries(f)
    assert_array_equal(f.current(X), g.current(X))
    assert_array_equal(f.previous(X), g.previous(X))


def through_file(state, folder):
    write_state(folder / "state.mercer", state)
    return read_state(folder / "state.mercer")


@pytest.mark.parametrize(
    ("name", "dtype", "way"),
    covering(EXPANSIONS, [np.float32, np.float64], ["packed", "plain", "file", "pickle"]),
)
def test_the_previous_function_is_part_of_the_state(name, dtype, way, tmp_path):
    rng = np.random.default_rng(13)
    f = start(EXPANSIONS[name], 2, dtype)
    for n_steps in (0, 1, 14):
        for _ in range(n_steps):
            step(f, rng, 3)
        if way == "pickle":
            g = pickle.loads(pickle.dumps(f))
        else:
            state = f.snapshot(packed=way != "plain")
            g = KernelExpansion(f.kernel, f.expansion, D, 2)
            g.restore(through_file(state, tmp_path) if way == "file" else state)
        assert_same(f, g)
        twin = copy.deepcopy(rng)
        for _ in range(2):
            step(f, rng, 3)
            step(g, twin, 3)
            assert_same(f, g)


def test_restoring_undoes_a_step():
    rng = np.random.default_rng(14)
    f = start(EXPANSIONS["komp"], 2)
    for _ in range(6):
        step(f, rng, 3)
    undo, copied = f.snapshot(packed=False), copy.deepcopy(f)
    for _ in range(2):
        step(f, rng, 3)
    f.restore(undo)
    assert_same(f, copied)


def test_a_state_without_previous_function_goes_on_from_the_current_one():
    """Old files know nothing of it."""
    rng = np.random.default_rng(15)
    f = start(EXPANSIONS["komp"], 2)
    for _ in range(6):
        step(f, rng, 3)
    state = f.snapshot()
    for key in [key for key in state["arrays"] if key.startswith("past")]:
        del state["arrays"][key]
    plain = KernelExpansion(f.kernel, f.expansion, D, 2)
    plain.restore(state)
    assert not plain.keeps_previous
    f.restore(state)
    assert_previous_is(f, f)
    assert_previous_is(f, step(f, rng, 3))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("past_points", np.zeros((2, D + 1))),
        ("past_points", np.zeros((2, D), np.int64)),
        ("past_coefficients", np.zeros((99, 2))),
        ("past_coefficients", np.zeros((0, 1))),
        ("past_on_slots", np.zeros((99, 2))),
        ("past_on_slots", np.zeros((0, 2), np.float32)),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(key, value):
    rng = np.random.default_rng(16)
    f = start(EXPANSIONS["komp"], 2)
    for _ in range(6):
        step(f, rng, 3)
    copied, state = copy.deepcopy(f), f.snapshot()
    state["arrays"][key] = value
    with pytest.raises(ValueError, match=r"before the last step does not fit|`past_.*` must be"):
        f.restore(state)
    assert_same(f, copied)


# -- random features -----------------------------------------------------------------------------


def feature_start(expansion, n_outputs, averaging=None, precision="double"):
    expansion = copy.deepcopy(expansion).set_params(precision=precision)
    f = FeatureExpansion(Gaussian(0.7), expansion, D, n_outputs, averaging)
    f.keep_previous()
    return f


def feature_step(f, rng, n_rows, step_size=0.4, regularization=0.2):
    prepared = f.prepare(rng.normal(size=(n_rows, D)))
    values = f.current(prepared)
    f.previous(prepared, values)
    slopes = (0.5 * values + rng.normal(size=values.shape)) / n_rows
    return f.step(prepared, slopes, step_size, regularization)


def assert_feature_previous_is(f, before):
    prepared = f.prepare(queries(f))
    values = f.current(prepared)
    kept = values.copy()
    tolerance = 1e-12 if f.dtype == np.float64 else 1e-5
    scale = 1.0 + np.abs(values).max()
    previous = f.previous(prepared, values)
    assert_allclose(previous, before.current(prepared), atol=tolerance * scale)
    assert_array_equal(values, kept)


@pytest.mark.parametrize(
    ("name", "n_rows", "n_outputs", "precision", "averaging"),
    covering(MODES, [1, 8], [1, 3], ["single", "double"], [None, 0.0]),
)
def test_features_go_back_by_one_block(name, n_rows, n_outputs, precision, averaging):
    rng = np.random.default_rng(20)
    f = feature_start(MODES[name], n_outputs, averaging, precision)
    prepared = f.prepare(queries(f))
    zeros = np.zeros((7, f.n_candidates * n_outputs))
    assert_array_equal(f.previous(prepared, f.current(prepared)), zeros)
    asked = []
    for _ in range(10):
        before = copy.deepcopy(f)
        update = feature_step(f, rng, n_rows)
        assert_feature_previous_is(f, before)
        values, numbers = f.current(prepared), f.features.numbers
        f.features.numbers = lambda block, numbers=numbers: asked.append(block) or numbers(block)
        f.previous(prepared, values)
        del f.features.numbers
        assert asked.pop() == update.block
        assert not asked


def test_features_go_back_when_the_scale_was_multiplied_out():
    rng = np.random.default_rng(21)
    f = feature_start(MODES["faithful"], 1)
    feature_step(f, rng, 8)
    before = copy.deepcopy(f)
    feature_step(f, rng, 8, step_size=1.0, regularization=1.0 - 1e-7)
    assert f.scale == 1.0
    prepared = f.prepare(queries(f))
    # Going back divides by the factor 1e-7, and with it the rounding errors of float64.
    expected = before.current(prepared)
    assert_allclose(f.previous(prepared, f.current(prepared)), expected, atol=1e-7)


def test_values_followed_by_apply_go_back_too():
    rng = np.random.default_rng(22)
    f = feature_start(MODES["newton"], 2)
    prepared = f.prepare(queries(f))
    values = f.current(prepared)
    for _ in range(5):
        before = values.copy()
        f.apply(feature_step(f, rng, 8), prepared, values)
        assert_allclose(f.previous(prepared, values), before, atol=1e-12)


@pytest.mark.parametrize("name", MODES)
def test_outputs_and_candidates_of_features_are_mapped(name):
    rng = np.random.default_rng(23)
    f = feature_start(MODES[name], 2)
    for _ in range(5):
        before = copy.deepcopy(f)
        feature_step(f, rng, 8)
    mixing = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
    for function in (f, before):
        function.map_outputs(mixing)
    assert_feature_previous_is(f, before)
    for function in (f, before):
        function.keep(function.n_candidates - 1)
    assert_feature_previous_is(f, before)


@pytest.mark.parametrize("name", MODES)
def test_going_back_to_a_copy_undoes_the_memory_too(name):
    rng = np.random.default_rng(24)
    f = feature_start(MODES[name], 2)
    for n_steps in (0, 3):
        for _ in range(n_steps):
            before = copy.deepcopy(f)
            feature_step(f, rng, 8)
        kept, copied = f.copy(), copy.deepcopy(f)
        feature_step(f, rng, 8)
        f = kept
        assert_same_features(f, copied)
    assert_feature_previous_is(f, before)


def assert_same_features(f, g):
    prepared = f.prepare(queries(f))
    assert_array_equal(f.current(prepared), g.current(prepared))
    values = f.current(prepared)
    assert_array_equal(f.previous(prepared, values), g.previous(prepared, values))


@pytest.mark.parametrize(
    ("name", "precision", "way"),
    covering(MODES, ["single", "double"], ["state", "file", "pickle"]),
)
def test_the_last_step_of_features_is_part_of_the_state(name, precision, way, tmp_path):
    rng = np.random.default_rng(25)
    f = feature_start(MODES[name], 2, precision=precision)
    for n_steps in (0, 1, 6):
        for _ in range(n_steps):
            feature_step(f, rng, 8)
        if way == "pickle":
            g = pickle.loads(pickle.dumps(f))
        else:
            state = f.snapshot()
            g = FeatureExpansion(f.kernel, f.expansion, D, 2)
            g.restore(through_file(state, tmp_path) if way == "file" else state)
            assert g.keeps_previous == (f.n_steps > 0)
            g.keep_previous()
        assert_same_features(f, g)
        twin = copy.deepcopy(rng)
        feature_step(f, rng, 8)
        feature_step(g, twin, 8)
        assert_same_features(f, g)


def test_features_remember_nothing_unless_that_is_asked_for():
    rng = np.random.default_rng(26)
    f = FeatureExpansion(Gaussian(0.7), MODES["newton"], D, 1)
    prepared = f.prepare(rng.normal(size=(8, D)))
    f.step(prepared, rng.normal(size=(8, 1)), 0.5, 0.0)
    assert f.last is None
    assert "last" not in f.snapshot()["numbers"]
    assert "last" not in f.snapshot()["arrays"]
    with pytest.raises(ValueError, match="keep_previous"):
        f.previous(prepared, f.current(prepared))


@pytest.mark.parametrize(
    ("number", "array"),
    [
        ({"block": 99}, {}),
        ({"block": 0.0}, {}),
        ({"factor": 0.0}, {}),
        ({}, {"last": np.zeros((8, 3))}),
        ({}, {"last": np.zeros((8, 2), np.float32)}),
    ],
)
def test_a_last_step_that_does_not_fit_is_refused_and_changes_nothing(number, array):
    rng = np.random.default_rng(27)
    f = feature_start(MODES["newton"], 2)
    for _ in range(3):
        feature_step(f, rng, 8)
    copied, state = copy.deepcopy(f), f.snapshot()
    state["numbers"]["last"].update(number)
    state["arrays"].update(array)
    with pytest.raises(ValueError, match=r"last step does not fit|must be"):
        f.restore(state)
    assert_same_features(f, copied)
