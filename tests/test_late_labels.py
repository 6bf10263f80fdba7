"""Labels that come late or never: compared with a list and a dict that forget nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP
from mercer.model_file import read_state, write_state
from mercer.streams import Delivered, LateLabels


class Recorder:
    """A model that predicts how many rows it has learned, and remembers these."""

    def __init__(self):
        self.learned = []

    def predict_one(self, x):
        return len(self.learned)

    def learn_one(self, x, y):
        self.learned.append((x, y))


class Oracle:
    """All rows that came, in a list; whether one still waits is found by looking at all."""

    def __init__(self, max_waiting, max_age):
        self.max_waiting, self.max_age = max_waiting, max_age
        self.rows, self.learned = [], []
        self.n_unknown = 0

    def predict(self, key, x):
        for row in self.rows:
            if row["key"] == key and row["state"] == "waits":
                row["state"] = "dropped"
        said = len(self.learned)
        self.rows.append({"key": key, "x": x, "said": said, "state": "waits"})
        waiting = [i for i, row in enumerate(self.rows) if row["state"] == "waits"]
        for rank, i in enumerate(reversed(waiting)):
            after = len(self.rows) - 1 - i
            if rank >= self.max_waiting or (self.max_age is not None and after >= self.max_age):
                self.rows[i]["state"] = "dropped"
        return said

    def label(self, key, y):
        for i, row in enumerate(self.rows):
            if row["key"] == key and row["state"] == "waits":
                row["state"] = "learned"
                self.learned.append((row["x"], y))
                return Delivered(row["said"], len(self.rows) - 1 - i)
        self.n_unknown += 1
        return None

    def count(self, state):
        return sum(row["state"] == state for row in self.rows)


events = st.lists(
    st.tuples(st.sampled_from(["row", "label", "stop"]), st.integers(0, 7)), max_size=60
)


@given(events, st.integers(1, 5), st.none() | st.integers(1, 9))
def test_rows_wait_as_a_list_of_all_rows_says(events, max_waiting, max_age):
    model, oracle = Recorder(), Oracle(max_waiting, max_age)
    late = LateLabels(model, max_waiting=max_waiting, max_age=max_age)
    for number, (event, key) in enumerate(events):
        if event == "row":
            assert late.predict(key, [number]) == oracle.predict(key, [number])
        elif event == "label":
            assert late.label(key, number) == oracle.label(key, number)
        else:
            late = LateLabels.from_state(late.to_state(), model)
        assert len(late) == oracle.count("waits") <= max_waiting
        assert (key in late) == any(
            row["key"] == key and row["state"] == "waits" for row in oracle.rows
        )
    assert model.learned == oracle.learned
    assert (late.n_predicted, late.n_learned) == (len(oracle.rows), len(oracle.learned))
    assert (late.n_dropped, late.n_unknown) == (oracle.count("dropped"), oracle.n_unknown)


def test_labels_at_once_are_a_plain_stream(rng):
    """Reduction: without delay the model is the one fed by `learn_one`, bit for bit."""
    X = rng.standard_normal((60, 2))
    y = np.where(X[:, 0] > 0, "a", "b").tolist()
    plain, waited = (
        KernelClassifier(kernel="gaussian", expansion=KOMP(max_size=20), random_state=0)
        for _ in range(2)
    )
    late = LateLabels(waited)
    for i, x in enumerate(X):
        said = plain.predict_one(x)
        assert late.predict(i, x) == said
        plain.learn_one(x, y[i])
        assert late.label(i, y[i]) == (said, 0)
    assert_array_equal(plain.decision_function(X), waited.decision_function(X))


def test_a_row_is_learned_when_its_label_comes_and_measured_by_what_was_said_then(rng):
    X = rng.standard_normal((40, 2))
    y = X[:, 0]
    model, slow = (
        KernelRegressor(kernel="gaussian", expansion=KOMP(max_size=20), random_state=0)
        for _ in range(2)
    )
    late = LateLabels(model)
    said = [late.predict(i, x) for i, x in enumerate(X)]
    assert said == [0.0] * 40  # nothing was known yet
    for i in reversed(range(40)):
        assert late.label(i, y[i]) == (0.0, 39 - i)
        slow.learn_one(X[i], y[i])
    assert_array_equal(model.predict(X), slow.predict(X))


def kinds_of_rows():
    yield "arrays", lambda i: np.array([float(i), 0.5])
    yield "dicts", lambda i: {"a": float(i), "b": 0.25}
    yield "dicts of two kinds", lambda i: {"a": float(i)} if i % 2 else {"b": 1.0, "a": True}
    yield "lists", lambda i: [i, None, "text", (1, 2.5)]
    yield "missing numbers", lambda i: {"a": float("nan"), "b": float("-inf") if i else 0.0}
    yield "float32", lambda i: np.array([[i, 2], [3, 4]], dtype=np.float32)
    yield "names that are numbers", lambda i: {0: float(i), 1: 2.0}


@pytest.mark.parametrize(("kind", "row"), list(kinds_of_rows()), ids=lambda value: str(value)[:20])
def test_what_waits_is_stored_as_it_was(kind, row, tmp_path):
    model = Recorder()
    late = LateLabels(model, max_waiting=5, max_age=50)
    keys = [0, "one", (2, "b"), None, 4.5]
    for i, key in enumerate(keys):
        late.predict(key, row(i))
    write_state(tmp_path / "late", late.to_state())
    again = LateLabels.from_state(read_state(tmp_path / "late"), model)
    assert (again.max_waiting, again.max_age, again.n_predicted) == (5, 50, 5)
    for i, key in enumerate(keys):
        assert again.label(key, i) == Delivered(0, 4 - i)
        x, y = model.learned[i]
        assert y == i
        assert type(x) is type(row(i))
        assert repr(x) == repr(row(i))


def test_a_label_that_the_model_refuses_leaves_the_row_waiting():
    model = KernelRegressor(kernel="gaussian", expansion=KOMP(max_size=20))
    model.learn_one([0.0], 0.0)
    late = LateLabels(model)
    late.predict("k", [1.0])
    with pytest.raises(ValueError, match="must be 1 finite number"):
        late.label("k", [1.0, 2.0])
    assert "k" in late
    assert late.n_learned == 0
    assert late.label("k", 1.0) is not None


def test_what_cannot_be_stored_is_named():
    late = LateLabels(Recorder())
    late.predict(0, {"a": object()})
    with pytest.raises(ValueError, match="cannot be stored: it holds a object"):
        late.to_state()


@pytest.mark.parametrize("bounds", [{"max_waiting": 0}, {"max_age": 0}, {"max_waiting": 1.5}])
def test_bounds_are_checked(bounds):
    with pytest.raises(ValueError, match=f"`{next(iter(bounds))}` must be an integer"):
        LateLabels(Recorder(), **bounds)


def test_a_state_that_does_not_fit_together_is_refused():
    late = LateLabels(Recorder())
    late.predict(0, {"a": 1.0})
    state = late.to_state()
    with pytest.raises(ValueError, match="not equally many"):
        LateLabels.from_state({**state, "keys": []}, Recorder())
    with pytest.raises(ValueError, match="named columns"):
        LateLabels.from_state({**state, "names": ["a", "b"]}, Recorder())


@pytest.mark.parametrize("model", [None, object()])
def test_a_model_must_learn_single_rows(model):
    with pytest.raises(ValueError, match="predict_one"):
        LateLabels(model)
