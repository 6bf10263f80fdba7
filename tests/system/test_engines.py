"""Engines: the same answers everywhere, whatever becomes of the workers."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import psutil
import pytest

import engine_tasks as tasks
from mercer import KernelClassifier, KernelRegressor
from mercer.exceptions import ParameterError, WorkerError
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer_cluster import Settings, fit
from mercer_cluster.engines import (
    DaskEngine,
    Engine,
    HereEngine,
    RayEngine,
    engine_of,
)
from mercer_cluster.engines.engine import Packed

STORE = 200_000_000
# Of Dask each death counts for all tasks that the worker had been given.
RETRIES = 5
MADE = {
    "here": HereEngine,
    "ray": lambda: RayEngine(2, address="local", retries=1, object_store_memory=STORE),
    "dask": lambda: DaskEngine(2, retries=RETRIES),
}
PACKAGES = {"ray": "ray", "dask": "distributed"}


@contextmanager
def warnings_of(name):
    """Let pass what Ray warns of when it starts and ends, until all of it is collected."""
    with warnings.catch_warnings():
        if name == "ray":
            # What some versions will do about GPUs, and what old ones leave open.
            warnings.filterwarnings("ignore", ".*Ray will no longer override", FutureWarning)
            warnings.filterwarnings("ignore", "unclosed file .*/logs/", ResourceWarning)
            warnings.filterwarnings("ignore", "subprocess .* is still running", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="module", params=MADE)
def engine(request):
    """Each engine, once for all tests of the module."""
    name = request.param
    if package := PACKAGES.get(name):
        pytest.importorskip(package, reason=f"{package} is not installed")
    with warnings_of(name):
        one = MADE[name]()
    yield one
    with warnings_of(name):
        one.close()
        del one


def of(*names):
    """Run a test with some of the engines."""
    return pytest.mark.parametrize("engine", names, indirect=True, scope="module")


elsewhere = of(*(name for name in MADE if name != "here"))  # whose workers may die


def graph(engine, rows):
    """Map, reduce and solve: blocks of a matrix of products, added up pairwise."""
    n_parts, scale = 3, engine.put({"by": 2.0})
    shards = [
        engine.submit(tasks.products, scale, part, n_parts, n_parts=n_parts, name=f"shard {i}")
        for i, part in enumerate(np.array_split(rows, 4))
    ]
    sums = []
    for block in zip(*shards, strict=True):
        pairs = [engine.submit(tasks.added, *block[i : i + 2]) for i in (0, 2)]
        engine.release(block)
        sums.append(engine.submit(tasks.added, *pairs))
    return [engine.get(one) for one in sums]


def test_answers_are_those_of_one_process(engine, rng):
    rows = rng.normal(size=(400, 200))
    with HereEngine() as here:
        expected = graph(here, rows)
    for found, right in zip(graph(engine, rows), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_a_task_changes_nobody_elses_values(engine):
    zeros = np.zeros(50_000)
    value, other = engine.put(zeros), engine.submit(np.ones, 50_000)
    engine.get(engine.submit(tasks.added, value, other))
    zeros += 7
    for _ in range(2):
        engine.get(value)[:] = 3
        engine.get(other)[:] = 3
    assert not engine.get(value).any()
    np.testing.assert_array_equal(engine.get(other), 1)


def test_exceptions_come_back_as_themselves_and_are_not_retried(engine, tmp_path):
    marker = tmp_path / "times"
    failed = engine.submit(tasks.counted, marker, name="bad one")
    follower = engine.submit(tasks.nothing, failed, 1)
    parts = engine.submit(tasks.nothing, 1, follower, n_parts=2)
    for handle in (failed, follower, parts[1]):
        with pytest.raises(ValueError, match=r"^once and no more\n") as caught:
            engine.get(handle)
        assert (type(caught.value), str(caught.value)) == (ValueError, "once and no more")
        assert "In task 'bad one'" in caught.value.__notes__[0]
    assert marker.read_text() == "x"
    with pytest.raises(KeyError, match=r"^'a word'\n"):
        engine.get(engine.submit(tasks.failing, "a word"))
    with pytest.raises(SystemExit, match=r"^left\n"):
        engine.get(engine.submit(tasks.leaving))


def test_an_exception_that_cannot_be_sent_is_told(engine):
    with pytest.raises(WorkerError, match="'odd' raised ArithmeticError: one and two") as caught:
        engine.get(engine.submit(tasks.odd))
    assert caught.value.task == "odd"


def test_parts_are_as_many_as_were_said(engine):
    handles = engine.submit(divmod, 17, 5, n_parts=2)
    assert [engine.get(handle) for handle in handles] == [3, 2]
    with pytest.raises(ValueError, match="returned 2 parts, but it was submitted with n_parts=3"):
        engine.get(engine.submit(divmod, 17, 5, n_parts=3)[2])
    with pytest.raises(ParameterError, match="`n_parts` must be an integer of at least 1, got 0"):
        engine.submit(divmod, 17, 5, n_parts=0)


def test_handles_are_arguments_themselves(engine):
    handle = engine.put(1)
    with pytest.raises(TypeError, match="The handle of 'put' is a part of an argument"):
        engine.submit(tasks.nothing, [handle])
    assert engine.get(engine.submit(tasks.nothing, handle, handle)) == 2


def test_released_values_are_there_for_tasks_that_need_them(engine):
    value = engine.submit(tasks.slept, 0.2, np.arange(20_000))
    total = engine.submit(np.sum, value)
    engine.release([value])
    engine.release(value)
    with pytest.raises(ValueError, match="The value of 'slept' was released"):
        engine.get(value)
    with pytest.raises(ValueError, match="or submit the tasks that need it, before"):
        engine.submit(np.sum, value)
    assert engine.get(total) == 199_990_000
    assert engine.get(total) == 199_990_000


def test_tasks_are_told_as_they_complete(engine, tmp_path):
    gate = tmp_path / "gate"
    if engine.name == "here":  # where a task is over when it was submitted
        gate.touch()
    quick = engine.submit(tasks.slept, 0.0, "quick")
    slow = engine.submit(tasks.waited_for, str(gate), "slow")
    failed = engine.submit(tasks.failing, "word", name="failed")
    found = []
    for one in engine.completed(iter([slow, failed, quick])):
        found.append(one)
        if one == quick:
            gate.touch()
    assert set(found) == {slow, quick, failed}
    assert len(found) == 3
    assert engine.get(slow) == "slow"
    assert list(engine.completed([])) == []


def test_blas_has_one_thread(engine):
    assert set(engine.get(engine.submit(tasks.threads))) == {1}


@elsewhere
def test_tasks_run_in_processes_of_their_own(engine):
    assert engine.n_workers == 2
    handles = [engine.submit(tasks.worker) for _ in range(4)]
    assert os.getpid() not in {engine.get(handle) for handle in handles}


@elsewhere
def test_a_killed_worker_loses_and_doubles_nothing(engine, tmp_path):
    value = engine.submit(np.arange, 30_000)
    engine.get(value)
    marker = tmp_path / "dead"
    handles = [engine.submit(tasks.dying_once, marker, value) for _ in range(4)]
    total = engine.submit(tasks.added, *handles)
    np.testing.assert_array_equal(engine.get(total), 8 * np.arange(30_000))
    assert marker.exists()


@elsewhere
def test_workers_killed_at_any_time_change_no_result(engine, rng):
    pid = engine.get(engine.submit(tasks.worker))
    handles = [engine.submit(tasks.slept, 0.05, i) for i in range(20)]
    engine.get(handles[2])
    os.kill(pid, signal.SIGKILL)
    total = engine.submit(tasks.added, *handles)
    assert engine.get(total) == sum(range(20))
    assert [engine.get(handle) for handle in handles] == list(range(20))


@elsewhere
def test_a_task_that_always_kills_its_worker_is_named(engine, monkeypatch):
    if engine.name == "dask":
        scheduler = engine._client.cluster.scheduler
        assert scheduler.allowed_failures == RETRIES
        monkeypatch.setattr(scheduler, "allowed_failures", 1)  # dead sooner
    handle = engine.submit(tasks.dying, name="deadly shard")
    follower = engine.submit(tasks.nothing, handle)
    other = engine.submit(tasks.nothing, 1)
    with pytest.raises(WorkerError, match="'deadly shard' has no result") as caught:
        engine.get(handle)
    assert caught.value.task == "deadly shard"
    with pytest.raises(WorkerError):
        engine.get(follower)
    assert len(list(engine.completed([handle, follower]))) == 2
    assert engine.get(other) == 1


@elsewhere
@pytest.mark.usefixtures("quickest_race")
def test_killed_workers_change_no_bit_of_models(engine, rng, tmp_path):
    X = rng.uniform(-1, 1, (1200, 4))
    waves = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=1200)
    few = Settings(sample=400, least_sample=100, held=200, region_rows=300, shared=5)

    def shards_of(y):
        return list(zip(np.array_split(X, 4), np.array_split(y, 4), strict=True))

    def bits_of(estimator, shards, engine):
        return fit(estimator, shards, engine=engine, settings=few).predict(X).tobytes()

    # One worker is killed when rows are counted and drawn, and one when they are learned.
    markers = [tmp_path / f"{number}" for number in range(4)]
    shards = shards_of(waves)
    dying = [
        partial(tasks.shard_dying_once, marker, time, *shard)
        for marker, time, shard in zip(markers, [1, 0, 2, 0], shards, strict=True)
    ]
    model = KernelRegressor(random_state=0)
    assert bits_of(model, dying, engine) == bits_of(model, shards, "here")
    reads = [marker.stat().st_size for marker in markers]
    assert min(reads) >= 2
    assert min(reads[0], reads[2]) >= 3
    # By steps, workers are asked again and again.
    model = KernelClassifier(kernel=Gaussian(1.0), expansion=RandomFeatures(64, min_steps=9))
    shards = shards_of(waves > 0.5)
    assert bits_of(model, shards, engine) == bits_of(model, shards, "here")


def test_other_data_are_no_shards(engine):
    assert engine.shards(np.zeros((3, 2))) is None
    assert engine.shards(["a.parquet"]) is None


def test_engines_go_by_name():
    with engine_of("here") as one:
        assert isinstance(one, Engine)
        assert engine_of(one) is one
        with pytest.raises(ParameterError, match="`n_workers` must be None where `engine` is"):
            engine_of(one, n_workers=2)
    with pytest.raises(ParameterError, match=r"`engine` must be one of .* Did you mean 'here'"):
        engine_of("hear")
    with pytest.raises(ParameterError, match="`n_workers` must be an integer of at least 1"):
        engine_of("ray", n_workers=0)
    with pytest.raises(ParameterError, match="`n_workers` must be 1 or None for engine='here'"):
        engine_of("here", n_workers=2)
    told = r"must be None for engine='here'.*connects to no cluster.*use engine='ray' or"
    with pytest.raises(ParameterError, match=told):
        engine_of("here", address="127.0.0.1:1")


# Clusters.


@pytest.mark.parametrize("name", PACKAGES)
def test_an_engine_whose_package_is_missing_says_how_to_install_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(ImportError, match=rf'pip install "mercer\[{name}\]"'):
        engine_of(name)


HANDLER = """
import os, signal, sys
from mercer_cluster.engines import engine_of

def own(number, _):
    print("mine", number, flush=True)

def of_process():
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    return handlers, dict(os.environ)

if __name__ == "__main__":
    name = sys.argv[1]
    __import__({"dask": "distributed"}.get(name, name))
    signal.signal(signal.SIGTERM, own)
    before = of_process()
    engine = engine_of(name, n_workers=1)
    if name == "dask":
        # Modules are there before tasks ask for them, which they would do in several threads.
        imported = "'mercer_cluster.run' in __import__('sys').modules"
        assert list(engine._client.run(eval, imported).values()) == [True]
    os.kill(os.getpid(), signal.SIGTERM)
    assert of_process()[0] == before[0]
    os.environ["SET_MEANWHILE"] = "kept"
    engine.close()
    os.kill(os.getpid(), signal.SIGTERM)
    assert os.environ.pop("SET_MEANWHILE") == "kept"
    assert of_process() == before
    if name == "ray":
        import psutil
        engine = engine_of(name, n_workers=1)
        print(*(one.pid for one in psutil.Process().children(recursive=True)), flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
"""


def runs(pid):
    """Whether there is such a process; one that only waits to be counted by its parent is none."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", PACKAGES)
def test_a_users_signals_and_environment_stay_as_they_are(name, tmp_path):
    pytest.importorskip(PACKAGES[name], reason=f"{PACKAGES[name]} is not installed")
    script = tmp_path / "script.py"
    script.write_text(HANDLER)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, name],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told, pids = done.stdout.splitlines()[:2], done.stdout.splitlines()[2:]
    assert told == ["mine 15"] * 2, done.stderr
    if name != "ray":
        assert done.returncode == 0, done.stderr
        return
    # A process that is ended takes its cluster with it.
    assert done.returncode == -signal.SIGTERM
    patience = time.monotonic() + 180
    while any(runs(int(pid)) for pid in pids[0].split()) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not [pid for pid in pids[0].split() if runs(int(pid))]


# Ray Data sets deprecated attributes of its own settings to their defaults.
@pytest.mark.filterwarnings(r"ignore:.*:DeprecationWarning:ray\.data\.context")
@of("ray")
def test_parts_of_a_ray_dataset_come_in_order(engine):
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    import ray.data

    data = ray.data.range(60, override_num_blocks=6)
    data = data.map_batches(lambda batch: {"id": batch["id"], "twice": 2 * batch["id"]})
    handles = engine.shards(data)
    assert len(handles) == 6
    tables = [engine.get(engine.submit(tasks.table_rows, one)) for one in handles]
    assert [i for table in tables for i in table["id"]] == list(range(60))
    assert [i for table in tables for i in table["twice"]] == list(range(0, 120, 2))
    assert engine.get(handles[0]).num_rows == 10


@of("ray")
def test_a_ray_cluster_of_the_user_goes_on(engine):
    import ray

    with engine_of("ray", address="auto") as other:
        assert other.get(other.submit(tasks.nothing, 1, 2)) == 2
        assert other.n_workers == 2
    assert ray.is_initialized()
    assert engine.get(engine.submit(tasks.nothing, 1)) == 1
    with pytest.raises(ParameterError, match="Ray allows one connection per process"):
        engine_of("ray", address="192.0.2.1:6379")


@of("dask")
def test_parts_of_a_dask_frame_come_in_order(engine):
    pytest.importorskip("dask.dataframe", reason="dask[dataframe] is not installed")
    import dask.dataframe
    import pandas

    frame = pandas.DataFrame({"id": range(60)})
    data = dask.dataframe.from_pandas(frame, npartitions=6)
    data = data.assign(twice=2 * data["id"])
    handles = engine.shards(data)
    assert len(handles) == 6
    tables = [engine.get(engine.submit(tasks.table_rows, one)) for one in handles]
    assert [i for table in tables for i in table["id"]] == list(range(60))
    assert [i for table in tables for i in table["twice"]] == list(range(0, 120, 2))
    assert len(engine.get(handles[0])) == 10


@of("dask")
def test_a_dask_cluster_of_the_user_goes_on(engine, rng):
    import distributed

    client, rows = engine._client, rng.normal(size=(2000, 3))
    client.wait_for_workers(2)  # a test before may have killed one
    with engine_of("dask", address=client.scheduler.address) as other:
        assert other.get(other.submit(tasks.nothing, 1, 2)) == 2
        # Through the scheduler, which pickles by an older protocol.
        np.testing.assert_array_equal(other.get(other.put(rows)), rows)
        assert other.n_workers == 2
    with client.as_current(), engine_of("dask") as other:
        assert other.get(other.submit(tasks.nothing, 1, 2, 3)) == 3
    assert client.status == "running"
    assert engine.get(engine.submit(tasks.nothing, 1)) == 1
    with pytest.raises(ValueError, match="No"):
        distributed.default_client()


@of("dask")
def test_what_is_put_survives_the_workers_that_have_it(engine, rng):
    import dask

    rows = {"a": rng.normal(size=(1_500_000)), "b": [rng.normal(size=3), "text"]}
    value = engine.put(rows)
    engine.get(engine.submit(tasks.nothing, value))
    waiting = [engine.submit(tasks.slept_there, 0.2) for _ in range(2)]
    # The time after which Dask looks for a worker that was lost: none can be there so soon.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
        for pid in {engine.get(handle) for handle in waiting}:
            os.kill(pid, signal.SIGKILL)
        value.place.result(timeout=60)
        engine._client.wait_for_workers(2, timeout=60)  # all come back
    found = engine.get(value)
    np.testing.assert_array_equal(found["a"], rows["a"])
    np.testing.assert_array_equal(found["b"][0], rows["b"][0])


def test_a_script_that_would_start_dask_again_and_again_is_told(tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    script = tmp_path / "script.py"
    script.write_text("import mercer_cluster.engines as e; e.engine_of('dask', n_workers=1)")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "The workers of Dask could not be started." in done.stderr


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_packed_is_pickled_by_any_protocol(protocol, rng):
    value = {"a": rng.normal(size=(300, 4)), "b": "text"}
    found = pickle.loads(pickle.dumps(Packed.of(value), protocol=protocol)).value()
    np.testing.assert_array_equal(found["a"], value["a"])
    found["a"][0] = 0.0  # a copy of one's own
    assert found["b"] == "text"
