"""Model files that users have go on working: they load, answer as they did and learn on."""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors import safe_open

import mercer.estimators
from mercer import GaussianProcessRegressor, load_model, model_file
from mercer.exceptions import DivergenceError
from mercer.losses import Softmax
from mercer.model_file import read_state, write_state

FOLDER = Path(__file__).parent / "golden"
RECORDED = json.loads((FOLDER / "answers.json").read_text())
EPS = np.finfo(np.float64).eps


def script():
    spec = spec_from_file_location("golden_write", FOLDER / "write.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = script()


def size_of_sum(model):
    """Sum of the absolute values of the terms that make an answer, at most; and how many."""
    if getattr(model, "parts_", None):
        # Kernels are at most 1.
        return (
            sum(part.weight * np.abs(part.coefficients).sum() for part in model.parts_),
            sum(len(part.coefficients) for part in model.parts_),
        )
    values = 1.0
    if not hasattr(model, "dictionary_"):
        values = np.abs(model.random_features(golden.X_ASKED)).max()
    return values * np.abs(model.coefficients_).sum(), len(model.coefficients_)


def rounding(model):
    """How far the answers of two processors may be from each other, from the sums that they are.

    A sum of n products of kernel values with coefficients has an error of (n + c) eps times the sum
    of absolute values, where c eps is the relative error of a kernel value or a feature: that of
    its exponent or phase, which is a difference of numbers of up to 300 here, three or four
    roundings each. Probabilities and thresholds are no steeper than the values themselves.
    """
    size, n = size_of_sum(model)
    tolerance = (n + 1000) * EPS * size
    if isinstance(model, GaussianProcessRegressor):
        # It is solved for when it is asked: the error grows by the condition of Z'Z + noise, whose
        # eigenvalues are at most one for each row; the root of a variance is steep where it is
        # small, and no deviation is below a fifth of that of the noise.
        condition = (model.n_samples_seen_ + model.noise) / model.noise
        tolerance *= condition / np.sqrt(model.noise)
    return tolerance


def assert_answers(found, recorded, tolerance):
    assert found.keys() == recorded.keys()
    for method, values in recorded.items():
        assert_allclose(found[method], values, rtol=0.0, atol=tolerance, err_msg=method)


def test_every_file_has_answers_and_is_small():
    files = {path.stem: path.stat().st_size for path in FOLDER.glob("*.mercer")}
    assert files.keys() == RECORDED.keys() == golden.MODELS.keys()
    assert max(files.values()) < 30_000


@pytest.mark.parametrize("name", RECORDED)
def test_old_files_answer_as_they_did(name):
    model = load_model(FOLDER / f"{name}.mercer")
    tolerance = rounding(model)
    assert tolerance < 1e-8  # or this would compare nothing
    assert_answers(
        golden.answers_of(model, golden.asked(name)), RECORDED[name]["answers"], tolerance
    )


@pytest.mark.parametrize("name", RECORDED)
def test_old_files_learn_on(name):
    model = load_model(FOLDER / f"{name}.mercer")
    seen, tolerance = model.n_samples_seen_, rounding(model)
    golden.learn_on(name, model)
    assert model.n_samples_seen_ > seen
    # Steps on eight rows do not enlarge errors of the values, and systems that are solved have
    # condition numbers of at most n / ridge = 1e5 here. A race is run anew, with pilots that are
    # calculated in float32: of equally good kernels another may win on another processor.
    recorded, tolerance = RECORDED[name]["after_learning_on"], 1e5 * tolerance
    if model.kernel == "auto":
        tolerance = 0.1 * np.abs(list(recorded.values())).max()
    assert_answers(golden.answers_of(model, golden.asked(name)), recorded, tolerance)


# Processes that know no estimator, but need not import again what all of them need.
FRESH = """
import os, sys
import mercer.functions, mercer.learning, mercer.model_file, sklearn.utils.validation
assert not any(name.startswith("mercer.estimators") for name in sys.modules)
for file in sys.argv[1:]:
    if os.fork() == 0:
        from mercer.model_file import load_model
        print(type(load_model(file)).__name__, flush=True)
        os._exit(0)
    os.wait()
"""
SOME = {
    "gaussian_process": "GaussianProcessRegressor",
    "komp": "KernelClassifier",
    "table": "KernelRegressor",
    "value_function": "ValueFunction",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_file_is_all_that_a_fresh_process_needs_to_be_told():
    files = [FOLDER / f"{name}.mercer" for name in SOME]
    done = subprocess.run([sys.executable, "-c", FRESH, *files], capture_output=True, text=True)
    assert done.stdout.split() == list(SOME.values()), done.stderr


def test_every_class_that_files_name_has_a_known_home():
    for name in mercer.estimators.__all__:
        getattr(mercer.estimators, name)
    ours = {kind for kind, of in model_file._KINDS.items() if of.__module__.startswith("mercer.")}
    assert ours == {model["kind"] for model in map(read_state, FOLDER.glob("*.mercer"))}
    assert ours == model_file._HOMES.keys()


def keys_of(value, name=""):
    if not isinstance(value, dict):
        return {name}
    return {name}.union(*(keys_of(item, f"{name}/{key}") for key, item in value.items()))


@pytest.mark.parametrize("name", RECORDED)
def test_old_files_are_saved_with_the_same_keys(name, tmp_path):
    old, new = FOLDER / f"{name}.mercer", tmp_path / "model"
    load_model(old).save(new)
    assert keys_of(read_state(new)) == keys_of(read_state(old))
    with safe_open(old, "numpy") as before, safe_open(new, "numpy") as after:
        assert set(before.keys()) == set(after.keys())
        for key in before.keys():  # noqa: SIM118  # it is no dict
            one, other = before.get_tensor(key), after.get_tensor(key)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)


@pytest.mark.parametrize("name", RECORDED)
def test_new_files_have_the_keys_of_old_ones(name, tmp_path):
    golden.MODELS[name]().save(tmp_path / "model")
    old, new = (
        keys_of(read_state(file)) for file in (FOLDER / f"{name}.mercer", tmp_path / "model")
    )
    # Of columns, for gaps in rows to come, and a sample of all rows.
    later = "/model/means", "/model/kept"
    assert old <= new
    assert all(any(word in key for word in later) for key in new - old)
    load_model(tmp_path / "model").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [
        ("default", "learner/default/rows/weights", 1.7e308),
        ("table", "learner/default/judged/rows/weights", 1.7e308),
        ("gaussian_process", "posterior/statistics/origin", 1.7e308),
        ("gaussian_process", "posterior/statistics/products", 1.7e308),
        ("dictionary", "targets/n_targets", 2**53),
        ("gradient", "targets/width", 1.7e308),
        ("gradient", "targets/width", 1e-300),
    ],
)
def test_numbers_that_no_model_has_end_in_clear_errors(name, place, number, tmp_path):
    state = read_state(FOLDER / f"{name}.mercer")
    *keys, last = place.split("/")
    there = state["model"]
    for key in keys:
        there = there[key]
    there[last] = np.full_like(there[last], number) if np.ndim(there[last]) else number
    write_state(tmp_path / "altered", state)

    def use():
        model = load_model(tmp_path / "altered")
        golden.answers_of(model, golden.asked(name))
        golden.learn_on(name, model)

    with pytest.raises((ValueError, DivergenceError)):
        use()


@pytest.mark.parametrize("name", ["komp", "novelty", "ranker"])
def test_an_inverse_that_is_none_is_made_anew(name, tmp_path):
    state = read_state(FOLDER / f"{name}.mercer")
    arrays = state["model"]["learner"]["function"]["arrays"]
    arrays["inverse"] = np.ones_like(arrays["inverse"])  # removing a point then divides by 0
    write_state(tmp_path / "altered", state)
    model = load_model(tmp_path / "altered")
    for _ in range(3):
        golden.learn_on(name, model)
    for answers in golden.answers_of(model, golden.asked(name)).values():
        assert np.isfinite(answers).all()


def test_of_thousands_of_objects_a_few_are_shown(tmp_path, monkeypatch):
    state = read_state(FOLDER / "komp.mercer")
    state["model"]["loss"] = [state["model"]["loss"]] * 10_000
    write_state(tmp_path / "altered", state)
    shown = []
    monkeypatch.setattr(Softmax, "__repr__", lambda loss: str(shown.append(loss)))
    with pytest.raises(ValueError, match=r"`loss` must be a Loss, got \[None, "):
        load_model(tmp_path / "altered")
    assert len(shown) < 20
