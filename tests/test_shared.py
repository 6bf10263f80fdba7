"""A model that several threads share: readers at once, writers alone, all in turn."""

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_regressor

from mercer import KernelClassifier, KernelRegressor, SharedModel
from mercer.expansions import KOMP, RandomFeatures
from mercer.kernels import Gaussian

_WAIT = 20.0  # seconds after which a thread counts as stuck
X = np.random.default_rng(0).standard_normal((400, 2))
Y = np.sin(2.0 * X[:, 0])


class Noted:
    """A model that notes who is inside."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most = {"read": 0, "write": 0, "both": 0}
        self.both = threading.Barrier(2)
        self.order: list[str] = []
        self._lock = threading.Lock()

    def _be_inside(self, kind: str, wait: float = 0.0) -> None:
        with self._lock:
            self.inside.append(kind)
            for each in ("read", "write"):
                self.most[each] = max(self.most[each], self.inside.count(each))
            self.most["both"] = max(self.most["both"], len(set(self.inside)))
        time.sleep(wait)
        with self._lock:
            self.inside.remove(kind)

    def predict(self, wait: float = 0.0) -> None:
        self._be_inside("read", wait)

    def partial_fit(self, wait: float = 0.0) -> "Noted":
        self._be_inside("write", wait)
        return self

    def predict_together(self) -> int:
        return self.both.wait(_WAIT)

    def predict_named(self, name: str) -> None:
        self.order.append(name)

    def partial_fit_named(self, name: str) -> None:
        self.order.append(name)

    def fit(self) -> None:
        raise ZeroDivisionError


def test_readers_are_inside_together() -> None:
    model = SharedModel(Noted())
    with ThreadPoolExecutor(2) as pool:
        met = [pool.submit(model.predict_together) for _ in range(2)]
        assert sorted(each.result() for each in met) == [0, 1]


def test_a_writer_is_alone() -> None:
    noted = Noted()
    model = SharedModel(noted)

    def work(number: int) -> None:
        for turn in range(20):
            (model.partial_fit if (number + turn) % 3 == 0 else model.predict)(1e-4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert noted.most["write"] == 1
    assert noted.most["both"] == 1
    assert noted.most["read"] > 1


def test_turns_are_in_the_order_of_coming() -> None:
    """Later readers do not overtake a writer that waits for an earlier one."""
    noted = Noted()
    model = SharedModel(noted)
    threads = []
    with model.reading():
        for name, call in (
            ("write 1", model.partial_fit_named),
            ("read", model.predict_named),
            ("write 2", model.partial_fit_named),
        ):
            before = len(model._turns)
            threads.append(threading.Thread(target=call, args=(name,)))
            threads[-1].start()
            end = time.monotonic() + _WAIT
            while len(model._turns) == before and time.monotonic() < end:
                time.sleep(1e-4)
        assert noted.order == []
    for thread in threads:
        thread.join(_WAIT)
    assert noted.order == ["write 1", "read", "write 2"]


def test_turns_may_be_nested_but_a_reader_cannot_write() -> None:
    model = SharedModel(Noted())
    with model.writing() as inner, model.reading(), model.writing():
        assert isinstance(inner, Noted)
        model.predict()
        assert model.partial_fit() is model
    with model.reading(), pytest.raises(RuntimeError, match="cannot change or copy it"):
        model.partial_fit()
    model.partial_fit()


def test_a_failed_call_ends_its_turn() -> None:
    model = SharedModel(Noted())
    with pytest.raises(ZeroDivisionError):
        model.fit()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(model.partial_fit).result(_WAIT) is model


def test_it_has_all_of_the_model() -> None:
    model = SharedModel(KernelRegressor(kernel="gaussian", expansion=KOMP(), random_state=0))
    assert model.fit(X, Y) is model
    with model.reading() as inner:
        np.testing.assert_array_equal(model.predict(X[:5]), inner.predict(X[:5]))
    assert model.model_order_ > 0
    assert isinstance(model.kernel_, Gaussian)  # which can be called, but is no method
    model.n_jobs = 2
    with model.reading() as inner:
        assert inner.n_jobs == 2
    assert is_regressor(model)
    assert "predict_interval" in dir(model)
    assert repr(model).startswith("SharedModel(KernelRegressor(")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError):
        SharedModel.__new__(SharedModel).predict  # noqa: B018  # as in copying


@pytest.mark.parametrize("way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_hold_copies(way: Any) -> None:
    model = SharedModel(KernelRegressor(kernel="gaussian", expansion=KOMP(), random_state=0))
    model.fit(X, Y)
    other, before = way(model), model.predict(X[:5])
    np.testing.assert_array_equal(other.predict(X[:5]), before)
    other.partial_fit(X, -Y)
    np.testing.assert_array_equal(model.predict(X[:5]), before)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KernelRegressor(kernel="gaussian", expansion=KOMP(), random_state=0),
        lambda: KernelRegressor(kernel="gaussian", expansion=RandomFeatures(64), random_state=0),
        lambda: KernelClassifier(random_state=0),
    ],
    ids=["KOMP", "features", "default"],
)
def test_answers_are_of_states_between_two_calls(make: Any) -> None:
    y = (Y > 0).astype(int) if isinstance(make(), KernelClassifier) else Y
    pieces = [slice(first, first + 40) for first in range(0, 400, 40)]

    def asked(model: Any) -> bytes:
        name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
        return bytes(getattr(model, name)(X[:8]).tobytes())

    one, known = make(), set()
    for rows in pieces:
        one.partial_fit(X[rows], y[rows], *([[0, 1]] if hasattr(one, "classes") else []))
        known.add(asked(copy.deepcopy(one)))
    model = SharedModel(make())
    model.partial_fit(X[pieces[0]], y[pieces[0]])
    ended = threading.Event()

    def ask() -> set[bytes]:
        found = {asked(model)}
        while not ended.is_set():
            found.add(asked(model))
        return found

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ask) for _ in range(4)]
        try:
            for rows in pieces[1:]:
                model.partial_fit(X[rows], y[rows])
        finally:
            ended.set()
        answers = set().union(*(each.result(_WAIT) for each in waiting))
    assert answers <= known
    assert asked(model) == asked(one)


def test_two_models_do_not_wait_for_each_other() -> None:
    """Who solves for one model holds up no answer of another, nor of a copy."""
    one, two = (KernelClassifier(random_state=0).fit(X, Y > 0) for _ in range(2))
    others = [two, copy.deepcopy(one)]
    with one.learner_.one_at_a_time(), ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(other.predict, X[:3]) for other in others]
        assert all(len(answer.result(_WAIT)) == 3 for answer in answers)
        held = threading.Thread(target=one.predict, args=(X[:3],))
        held.start()
        held.join(0.2)
        assert held.is_alive()
    held.join(_WAIT)
    assert not held.is_alive()
