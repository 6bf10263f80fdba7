"""Models whose arrays are mapped from a file for reading, as joblib hands them to processes."""

import copy
from types import SimpleNamespace
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.multioutput import MultiOutputRegressor

import mercer
from mercer.estimators.fitting import own_arrays
from mercer.expansions import (
    ALD,
    KOMP,
    Budget,
    Dictionary,
    FixedBudget,
    Full,
    Quantized,
    RandomFeatures,
    Tracking,
)
from mercer.kernels import Gaussian

pytestmark = pytest.mark.usefixtures("quickest_race", "few_steps")

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 2))
LABELS = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
TARGETS = np.sin(2.0 * X[:, 0]) + X[:, 1]
FIRST, LATER = slice(0, 100), slice(100, 160)
EXPANSIONS = [
    Full(),
    KOMP(),
    KOMP(max_size=9),
    Budget(9, "merge"),
    Budget(9, "project"),
    Quantized(0.3, 15),
    Dictionary(20),
    RandomFeatures(64),
    RandomFeatures(64, mode="faithful"),
    "auto",
]


TABLE = pd.DataFrame(X, columns=["a", "b"]).assign(town=np.where(X[:, 1] > 1.0, "Bern", "Bonn"))
TABLE.loc[::9, "a"] = np.nan


def learn_table(model, rows):
    model.partial_fit(TABLE[rows], TARGETS[rows])


def learn_pairs(model, rows):
    model.partial_fit(X[rows], LABELS[rows] > 0)


def learn_targets(model, rows):
    model.partial_fit(X[rows], TARGETS[rows])


def learn_transitions(model, rows):
    model.partial_fit(X[rows], TARGETS[rows], X[rows] + 0.1)


def gaussian_process(method):
    return mercer.GaussianProcessRegressor(
        Gaussian(0.5), n_features=32, method=method, random_state=0
    )


# Model, how it learns rows, what it then says.
MODELS = {
    **{
        f"{type(model).__name__} {expansion!r}": (model, learn, lambda m: m.predict(X))
        for expansion in EXPANSIONS
        for model, learn in [
            (mercer.KernelRegressor(expansion=expansion, random_state=0), learn_targets),
            (mercer.KernelClassifier(expansion=expansion, random_state=0), learn_pairs),
        ]
    },
    **{
        f"KernelRegressor {expansion!r}": (
            mercer.KernelRegressor(expansion=expansion, random_state=0),
            learn_targets,
            lambda m: m.predict(X),
        )
        for expansion in (ALD(), FixedBudget(9), Tracking(9))
    },
    "Gaussian process": (gaussian_process("features"), learn_targets, lambda m: m.predict(X)),
    "inducing points": (gaussian_process("dictionary"), learn_targets, lambda m: m.predict(X)),
    "risk": (
        mercer.KernelRegressor(risk="cvar", random_state=0),
        learn_targets,
        lambda m: m.predict(X),
    ),
    "novelty": (
        mercer.NoveltyDetector(random_state=0),
        lambda m, rows: m.partial_fit(X[rows]),
        lambda m: m.decision_function(X),
    ),
    "ranker": (
        mercer.KernelRanker(random_state=0),
        learn_pairs,
        lambda m: m.decision_function(X),
    ),
    "density ratio": (
        mercer.DensityRatio(random_state=0),
        lambda m, rows: m.partial_fit(X[rows], 0.5 * X[rows]),
        lambda m: m.ratio(X),
    ),
    "value function": (
        mercer.ValueFunction(0.9, random_state=0),
        learn_transitions,
        lambda m: m.predict(X),
    ),
    "table": (
        mercer.KernelRegressor(expansion=KOMP(max_size=9), random_state=0),
        learn_table,
        lambda m: m.predict(TABLE),
    ),
}


@pytest.mark.parametrize(("model", "learn", "answer"), MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # the models are small
def test_every_model_goes_on_and_leaves_the_file_as_it_was(tmp_path, model, learn, answer):
    model = copy.deepcopy(model)
    learn(model, FIRST)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    before = path.read_bytes()
    mapped = joblib.load(path, mmap_mode="r")
    assert_array_equal(answer(mapped), answer(model))
    for m in (mapped, model):
        learn(m, LATER)
    assert_array_equal(answer(mapped), answer(model))
    assert path.read_bytes() == before


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_model_learns_a_single_row_next(tmp_path, expansion):
    model = mercer.KernelRegressor(expansion=expansion, random_state=0)
    model.partial_fit(X[FIRST], TARGETS[FIRST])
    model.learn_one(X[200], TARGETS[200])
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    for m in (mapped, model):
        for i in (201, 202):
            m.learn_one(X[i], TARGETS[i])
    assert_array_equal(mapped.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:The Gram matrix")
def test_models_learn_on_in_other_processes():
    # joblib maps arrays of over a megabyte for them.
    model = mercer.KernelRegressor(kernel=Gaussian(0.05), expansion=KOMP(1e-9, max_size=400))
    both = MultiOutputRegressor(model, n_jobs=2)
    Y = np.column_stack([TARGETS, X[:, 0]])
    for order in (slice(None), slice(None, None, -1)):
        both.partial_fit(X[order], Y[order])
    assert both.estimators_[0].dictionary_.shape[0] == 400
    alone = copy.deepcopy(model).partial_fit(X, TARGETS).partial_fit(X[::-1], TARGETS[::-1])
    assert_array_equal(both.predict(X)[:, 0], alone.predict(X))


def test_pickles_do_not_tell_that_there_was_a_pickle_before():
    model = mercer.KernelRegressor(expansion=KOMP(), random_state=0)
    assert joblib.hash(copy.deepcopy(model)) == joblib.hash(model)
    model.partial_fit(X, TARGETS)
    twin = copy.deepcopy(model)
    assert twin.__getstate__().keys() <= model.__getstate__().keys()


def read_only(*shape):
    array = np.ones(shape)
    array.flags.writeable = False
    return array


def test_arrays_are_found_wherever_they_are():
    shared = read_only(3)
    kernel = Gaussian(2.0)
    kernel.note = {"rows": [shared, (read_only(2), "text")], "again": shared}
    kernel.itself = kernel
    assert own_arrays(kernel) is kernel
    first, (second, text) = kernel.note["rows"]
    assert first.flags.writeable
    assert second.flags.writeable
    assert kernel.note["again"] is first, "what was one array stays one"
    assert text == "text"
    assert not shared.flags.writeable


def test_arrays_of_its_own_are_not_copied():
    kept, pair = np.ones(3), (np.ones(2), 1)
    parts = {"kept": kept, "pair": pair}
    own_arrays(parts)
    assert parts["kept"] is kept
    assert parts["pair"] is pair


class Pair(NamedTuple):
    array: Any
    number: int


def test_arrays_that_are_read_only_are_copied_and_nothing_else():
    """In dicts, lists, tuples with and without names, and objects of this library, once each."""
    mapped, own = np.arange(3.0), np.arange(3.0)
    mapped.flags.writeable = False
    kernel, foreign = Gaussian(1.0), SimpleNamespace(array=mapped)
    kernel.array = mapped
    pair, whole = Pair(mapped, 1), ("a", own)
    parts = {"list": [mapped, own], "tuple": (own, mapped), "pair": pair, "whole": whole}
    parts |= {"kernel": kernel, "foreign": foreign, "none": None}
    parts["itself"] = parts
    found = own_arrays(parts)
    assert found is parts is parts["itself"]
    copied = parts["list"][0]
    assert copied is not mapped
    assert copied.flags.writeable
    assert copied.tolist() == [0.0, 1.0, 2.0]
    for one in (parts["tuple"][1], parts["pair"].array, kernel.array):
        assert one is copied  # as it was one array
    assert parts["list"][1] is parts["tuple"][0] is own
    assert type(parts["pair"]) is Pair
    assert type(parts["tuple"]) is tuple
    assert parts["whole"] is whole
    assert parts["kernel"] is kernel
    assert foreign.array is mapped
