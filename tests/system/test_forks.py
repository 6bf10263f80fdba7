"""Forks beside threads that hold locks: the child answers all the same, and soon."""

import copy
import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types
from threadpoolctl import threadpool_limits

from mercer import KernelClassifier, KernelRegressor, SharedModel
from mercer import jit as _jit
from mercer import threads as _threads
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer.losses import RegressionLoss
from mercer.threads import _QUICK_TURNS, _controller, one_blas_thread

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    pytest.mark.usefixtures("quickest_race", "short_correction"),
]

PATIENCE_S = 20  # after which a child counts as stuck
X = np.random.default_rng(0).standard_normal((200, 2))
Y = np.sin(2.0 * X[:, 0])


def is_fine_in_a_child(work):
    """Whether a forked process comes to its end, and `work` is true there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def beside(*contexts):
    """Another thread is within all of some contexts."""
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            inside.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(PATIENCE_S)
    try:
        yield
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize("context", [one_blas_thread(), _QUICK_TURNS])
def test_a_thread_that_computes_leaves_no_lock_behind(context):
    turns = sys.getswitchinterval()

    def enters():
        with context:
            pass
        blas = {library.num_threads for library in _controller().lib_controllers}
        return blas <= {2} and sys.getswitchinterval() == turns

    with threadpool_limits(2, user_api="blas"), beside(context, context._lock):
        assert is_fine_in_a_child(enters)


class Library:
    """A BLAS that keeps one thread of ours waiting before it has two threads again."""

    def __init__(self):
        self.num_threads, self.slow = 2, None
        self.inside, self.leave = threading.Event(), threading.Event()

    def wait(self):
        if threading.get_ident() == self.slow:
            self.inside.set()
            self.leave.wait()

    def set_num_threads(self, number):
        if number == 2:
            self.wait()
        self.num_threads = number

    @contextmanager
    def beside(self, context):
        """A thread waits in here as it enters or leaves a context."""

        def compute():
            self.slow = threading.get_ident()
            with context:
                pass

        thread = threading.Thread(target=compute)
        thread.start()
        try:
            assert self.inside.wait(PATIENCE_S)
            yield
        finally:
            self.leave.set()
            thread.join()


def test_a_fork_while_blas_gets_its_threads_back_loses_none(monkeypatch):
    library = Library()
    monkeypatch.setattr(_threads, "_controller", lambda: SimpleNamespace(lib_controllers=[library]))
    context = _threads._OneBlasThread()

    def enters():
        with context:
            within = library.num_threads
        return (within, library.num_threads) == (1, 2)

    with library.beside(context):
        assert is_fine_in_a_child(enters)
    assert enters()


@pytest.mark.parametrize("when", ["begins", "ends"])
def test_a_fork_while_turns_change_leaves_them_usual(when, monkeypatch):
    usual, library = 5e-3, Library()

    class System:
        interval = usual

        def getswitchinterval(self):
            return self.interval

        def setswitchinterval(self, interval):
            if interval == usual and when == "ends":
                library.wait()
            self.interval = interval
            if interval < usual and when == "begins":
                library.wait()

    system = System()
    monkeypatch.setattr(_threads, "sys", system)
    context = _threads._QuickTurns()

    def enters():
        before = system.interval
        with context:
            within = system.interval
        return (before, system.interval) == (usual, usual) and within < usual

    with library.beside(context):
        assert is_fine_in_a_child(enters)
    assert enters()


@pytest.mark.parametrize(
    "way", [lambda m: m, copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_model_that_another_thread_asks_answers(way):
    model = KernelClassifier(random_state=0).fit(X, Y > 0)
    expected = model.predict(X)
    asked = way(model)
    asked.predict(X)
    with beside(asked.learner_.one_at_a_time()):
        assert is_fine_in_a_child(lambda: np.array_equal(asked.predict(X), expected))


@pytest.mark.parametrize("at", ["reading", "writing", "_changed"])
def test_a_shared_model_has_nobodys_turns(at):
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=KOMP(), random_state=0).fit(X, Y)
    shared, expected = SharedModel(model), model.predict(X)
    copy.deepcopy(model).partial_fit(X, Y)  # compiles

    def goes_on():
        is_equal = np.array_equal(shared.predict(X), expected)
        with ThreadPoolExecutor(2) as pool:  # others than the one that forked
            pool.submit(shared.partial_fit, X, Y).result()
            return is_equal and len(pool.submit(shared.predict, X).result()) == len(X)

    with beside(shared._changed if at == "_changed" else getattr(shared, at)()):
        assert is_fine_in_a_child(goes_on)
    with shared.writing():
        assert is_fine_in_a_child(goes_on)
    assert goes_on()


def compiled_anew():
    """Compile a loss for the first time; its value."""

    class New(RegressionLoss):
        @staticmethod
        def row(target, scores, slopes, value, parameters, n_scores):
            value[0] = 0.0
            for i in range(n_scores):
                slopes[i] = 2.0 * (scores[i] - target[i])
                value[0] += (scores[i] - target[i]) ** 2

    return float(New().value([1.0], [0.5])[0])


def test_a_fork_waits_for_what_another_thread_compiles():
    ended = []
    usual = gc.get_threshold()
    compiled_anew()
    inside = threading.Event()

    @_jit._with_rare_collections
    def compile_long():
        inside.set()
        time.sleep(0.5)
        ended.append(True)

    thread = threading.Thread(target=compile_long)
    thread.start()
    inside.wait()
    assert is_fine_in_a_child(
        lambda: ended == [True] and compiled_anew() == 0.25 and gc.get_threshold() == usual
    )
    thread.join()
    with ThreadPoolExecutor(1) as pool:  # other threads may go on
        assert pool.submit(compiled_anew).result(PATIENCE_S) == 0.25


def test_threads_that_compile_the_same_function_get_the_same_code():
    both = threading.Barrier(2)

    def row(values):
        values[0] = 1.0

    def compiled(_):
        both.wait()
        signature = types.void(types.CPointer(types.float64))
        return _jit.c_function(signature, cache=False)(row)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(compiled, range(2))
    assert one is two
