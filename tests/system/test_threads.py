"""Jobs: the same model and the same predictions, bit for bit, on any number of threads."""

import signal
import threading
import time
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from command_line import run
from mercer import GaussianProcessRegressor, KernelClassifier, KernelRegressor, load_model
from mercer.exceptions import ParameterError
from mercer.expansions import KOMP, Auto, Dictionary, RandomFeatures
from mercer.gaussian_process import InducingPoints
from mercer.kernels import Bias, Gaussian, Mapped
from mercer.maps import Standardize
from mercer.sums import KernelBasis
from mercer.threads import (
    _Helpers,
    ahead,
    in_order,
    jobs,
    own_property,
    spread,
)
from mercer_app.training import FileTraining, checkpoint_path

pytestmark = pytest.mark.usefixtures("quickest_race", "short_correction")

COUNTS = 1, 3
N = 900
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 4))
WAVES = np.column_stack([np.sin(4 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
WAVES += 0.1 * RNG.normal(size=WAVES.shape)
CLASSES = np.digitize(WAVES[:, 0], [-0.5, 0.5])


def fit(model, X, y):
    return model.fit(X, y)


def stream(model, X, y):
    """Cells split meanwhile, and are asked before the last rows come."""
    for start in range(0, len(X), 400):
        model.partial_fit(X[start : start + 400], y[start : start + 400])
        if start == 800:
            model.predict(X[:5])
    return model


def answers(model, X):
    said = [model.predict(X)]
    if hasattr(model, "predict_proba"):
        said.append(model.predict_proba(X))
    if isinstance(model, GaussianProcessRegressor):
        said.append(model.predict(X, return_std=True)[1])
    return b"".join(np.ascontiguousarray(one).tobytes() for one in said)


CASES = {
    "several outputs": (KernelRegressor(random_state=0), fit, X, WAVES),
    "float32": (KernelRegressor(random_state=0), fit, X.astype(np.float32), WAVES[:, 0]),
    "stream": (KernelRegressor(random_state=0), stream, X, WAVES[:, 0]),
    "forgetting": (KernelRegressor(expansion=Auto(forgetting=0.999)), stream, X, WAVES[:, 0]),
    "sums": (KernelRegressor(expansion=Auto(max_memory=2**20)), stream, X, WAVES[:, 0]),
    "classes": (KernelClassifier(random_state=0), stream, X, CLASSES),
    "steps on a loss": (KernelClassifier(kernel=Gaussian(1.0)), fit, X, CLASSES),
    "quantiles": (KernelRegressor("quantile", random_state=0), fit, X, WAVES[:, 0]),
    "risk": (KernelClassifier(risk="cvar:0.9", random_state=0), fit, X, CLASSES),
    "dictionary": (KernelClassifier(expansion=Dictionary(200)), fit, X, CLASSES),
    "features solved": (
        KernelRegressor(kernel=Gaussian(1.0), expansion=RandomFeatures(200, mode="solve")),
        fit,
        X,
        WAVES,
    ),
    "steps": (KernelRegressor(expansion=KOMP(max_size=50)), fit, X, WAVES[:, 0]),
    "features by steps": (KernelRegressor(expansion=RandomFeatures(64)), fit, X, WAVES),
    "process": (GaussianProcessRegressor(n_features=200, random_state=0), stream, X, WAVES),
    "inducing points": (
        GaussianProcessRegressor(method=InducingPoints(150), random_state=0),
        stream,
        X,
        WAVES[:, 0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_models_have_one_hash_whatever_the_jobs_and_the_threads_of_blas(name, tmp_path):
    model, learn, rows, targets = CASES[name]
    found = set()
    for n_jobs in COUNTS:
        mine = clone(model).set_params(n_jobs=n_jobs, random_state=0)
        with threadpool_limits(n_jobs, "blas"):
            learn(mine, rows, targets)
        path = tmp_path / f"{n_jobs}"
        mine.save(path)
        found.add((answers(mine, rows), path.read_bytes()))
        assert load_model(path).n_jobs is None  # it is of the machine, not of the model
    assert len(found) == 1


@pytest.mark.parametrize("name", ["predict_interval", "predict_set"])
def test_intervals_and_sets_have_the_jobs_of_the_model_and_one_thread_of_blas(name, monkeypatch):
    classes = name == "predict_set"
    model = KernelClassifier(random_state=0) if classes else KernelRegressor(random_state=0)
    model.fit(X[:400], CLASSES[:400] if classes else WAVES[:400])
    said = set()
    for n_jobs in COUNTS:
        with threadpool_limits(n_jobs, "blas"):
            said.add(getattr(model.set_params(n_jobs=n_jobs), name)(X).tobytes())
    assert len(said) == 1
    evaluate = model._scores_at

    def seen(rows):
        found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
        assert set(found) == {1}
        assert len({*in_order(lambda _: together.wait() >= 0 and threading.get_ident(), "ab")}) == 2
        return evaluate(rows)

    together = threading.Barrier(2, timeout=30)
    monkeypatch.setattr(model, "_scores_at", seen)
    with threadpool_limits(3, "blas"):
        getattr(model.set_params(n_jobs=2), name)(X)


def test_pieces_are_spread_over_the_jobs():
    together = threading.Barrier(3, timeout=30)
    with jobs(3):
        names = in_order(lambda _: together.wait() >= 0 and threading.get_ident(), range(3))
    assert len(set(names)) == 3
    assert in_order(lambda _: threading.get_ident(), range(3)) == [threading.get_ident()] * 3


def test_a_parallel_config_says_it_where_nobody_else_does():
    together = threading.Barrier(2, timeout=30)
    with parallel_config(n_jobs=2), jobs(None):
        assert in_order(lambda piece: together.wait() >= 0 and piece, "ab") == ["a", "b"]
    alone = threading.get_ident()
    with parallel_config(n_jobs=2), jobs(1):
        assert in_order(lambda _: threading.get_ident(), range(4)) == [alone] * 4
    with jobs(2), jobs(None):  # of an estimator within a command with --jobs
        assert in_order(lambda piece: together.wait() >= 0 and piece, "ab") == ["a", "b"]


@pytest.mark.parametrize("n_jobs", [2, 3, 5])
def test_pieces_that_have_pieces_end(n_jobs):
    """More pieces than threads, each of which spreads its own: nobody may wait for nobody."""

    def piece(i):
        written = np.zeros(6)

        def some(first, last):
            written[first:last] = in_order(lambda j: i + j, range(first, last))

        spread(some, 6)
        return float(written.sum())

    with jobs(n_jobs):
        for _ in range(20):
            assert in_order(piece, range(8)) == [6.0 * i + 15 for i in range(8)]


@pytest.mark.parametrize("n", [0, 1, 383, 385, N])
def test_features_in_tiles_are_those_of_the_kernel(n):
    kernel = Mapped(Gaussian(1.0) + Bias(0.1), Standardize().fit(X))
    with jobs(2):
        features = KernelBasis(kernel, X[:50]).features(X[:n])
    np.testing.assert_allclose(features, kernel(X[:n], X[:50]), rtol=1e-12)


def test_who_waits_for_a_piece_helps_with_its_pieces():
    both, inside = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)
    caller = threading.get_ident()

    def piece(_):
        both.wait()
        if threading.get_ident() == caller:
            return set()
        return set(in_order(lambda _: inside.wait() >= 0 and threading.get_ident(), range(2)))

    with jobs(2):
        assert caller in set().union(*in_order(piece, range(2)))


def test_the_first_error_in_order_is_raised_once_all_have_ended():
    running = []

    def piece(i):
        running.append(i)
        time.sleep(0.01 * (4 - i))
        running.remove(i)
        raise KeyError(i)

    for _ in range(5):
        with jobs(4), pytest.raises(KeyError, match="0"):
            in_order(piece, range(4))
        assert not running


@pytest.fixture
def ctrl_c():
    """Have Ctrl-C raise KeyboardInterrupt, as it does unless the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_the_main_thread_helps_is_raised_there_too():
    both, helped = threading.Barrier(2, timeout=30), threading.Event()
    found = []

    def others_piece(_):
        if threading.current_thread() is threading.main_thread():
            helped.set()
            signal.raise_signal(signal.SIGINT)
        return helped.wait(30)

    def other():
        try:
            with jobs(2):
                in_order(others_piece, range(2))
        except KeyboardInterrupt as error:  # its piece was not done
            found.append(error)

    thread = threading.Thread(target=other)

    def piece(_):
        both.wait()
        if threading.current_thread() is not threading.main_thread():
            thread.start()
            helped.wait(30)

    with jobs(2), pytest.raises(KeyboardInterrupt):
        in_order(piece, range(2))
    thread.join(30)
    assert not thread.is_alive()
    assert len(found) == 1
    with jobs(2):  # and all helpers go on
        together = threading.Barrier(2, timeout=30)
        assert in_order(lambda piece: together.wait() >= 0 and piece, "ab") == ["a", "b"]


@pytest.mark.parametrize("where", ["first", "popleft"])
def test_who_waits_is_told_wherever_ctrl_c_comes(where):
    class Interrupted(deque):
        def __getitem__(self, number):
            if where == "first":
                raise KeyboardInterrupt
            return super().__getitem__(number)

        def popleft(self):
            super().popleft()
            raise KeyboardInterrupt

    helpers = _Helpers(0)
    asked = helpers.ask(lambda: None, 1)
    helpers._wanted = Interrupted(helpers._wanted)
    with pytest.raises(KeyboardInterrupt):
        helpers._serve()
    assert asked[0].has_ended == (where == "popleft")
    for _ in range(2):
        helpers.end(asked)
    assert asked[0].has_ended


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_waiting_for_pieces_ends_them_first():
    both, ended, begun = threading.Barrier(2, timeout=30), [], count()

    def piece(_):
        if next(begun) >= 2:
            return
        both.wait()
        if threading.current_thread() is threading.main_thread():
            return
        time.sleep(0.05)
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
        time.sleep(0.3)
        ended.append(1)

    with jobs(2), pytest.raises(KeyboardInterrupt):
        in_order(piece, range(2))
    assert ended


def test_pieces_see_what_their_caller_has_set():
    with jobs(3), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        in_order(lambda _: np.ones(3) / np.zeros(3), range(6))


def test_the_next_item_is_made_while_one_is_used():
    made = []

    def items():
        for i in range(4):
            made.append(i)
            yield i

    with jobs(2):
        for i in ahead(items()):
            deadline = time.monotonic() + 30
            while i < 3 and i + 1 not in made and time.monotonic() < deadline:
                time.sleep(0.001)
            assert made == list(range(min(i + 2, 4)))
    made.clear()
    for i in ahead(items()):
        assert made == list(range(i + 1))


def test_an_error_of_a_reader_comes_after_what_it_gave():
    def items():
        yield 1
        raise OSError("gone")

    with jobs(2):
        reading = ahead(items())
        assert next(reading) == 1
        with pytest.raises(OSError, match="gone"):
            next(reading)


def test_properties_of_two_objects_are_computed_at_once():
    meet = threading.Barrier(2, timeout=10)

    class Computed:
        @own_property
        def value(self):
            meet.wait()  # nobody comes, if the other one has to wait
            return id(self)

    with ThreadPoolExecutor(2) as pool:
        several = [Computed(), Computed()]
        assert list(pool.map(lambda one: one.value, several)) == list(map(id, several))
    assert several[0].value == id(several[0])  # computed once


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_wrong_numbers_of_jobs_are_refused(n_jobs, tmp_path):
    model = KernelRegressor(n_jobs=n_jobs)
    with pytest.raises(ParameterError, match="`n_jobs` must be a number of threads"):
        model.fit(X, WAVES)
    with pytest.raises(ParameterError, match="`n_jobs`"):
        GaussianProcessRegressor(n_jobs=n_jobs).fit(X, WAVES)
    with pytest.raises(ParameterError, match="`n_jobs`"):
        FileTraining(tmp_path, "y", n_jobs=n_jobs)
    fitted = KernelRegressor(expansion=RandomFeatures(8)).fit(X, WAVES)
    with pytest.raises(ParameterError, match="`n_jobs`"):
        fitted.set_params(n_jobs=n_jobs).predict(X)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs") / "table.csv"
    columns = np.tile(np.column_stack([X, WAVES[:, 0]]), (10, 1))  # of two chunks and more
    np.savetxt(path, columns, delimiter=",", header="a,b,c,d,y", comments="")
    return path


def test_the_command_writes_the_same_files_whatever_the_jobs(table, tmp_path, capsys):
    models, said = set(), set()
    for n_jobs in (1, 3):
        out, predicted = tmp_path / "model.mercer", tmp_path / "predictions.csv"
        assert run("fit", table, "--target", "y", "--out", out, "--jobs", n_jobs, "--quiet") == 0
        capsys.readouterr()
        assert run("predict", out, table, "--out", predicted, "--jobs", n_jobs) == 0
        assert run("evaluate", out, table, "--jobs", n_jobs, "--json") == 0
        models.add(out.read_bytes())
        said.add((predicted.read_bytes(), capsys.readouterr().out))
    assert len(models) == len(said) == 1


def test_a_run_goes_on_with_another_number_of_jobs(table, tmp_path):
    def training(n_jobs):
        options = {"expansion": Auto(seed=0, resumable=True)}
        return FileTraining(table, "y", options=options, n_jobs=n_jobs)

    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert training(1).start().run(whole, checkpoint_every=8_192)
    assert not training(3).start().run(pieces, checkpoint_every=8_192, callback=lambda _: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert training(2).resume(checkpoint_path(pieces)).run(pieces)
    assert whole.read_bytes() == pieces.read_bytes()


def test_the_command_refuses_no_jobs(table, tmp_path, capsys):
    out = tmp_path / "model.mercer"
    assert run("fit", table, "--target", "y", "--out", out, "--jobs", "0", "--quiet") == 2
    assert "number of threads" in capsys.readouterr().err
    assert not out.exists()
