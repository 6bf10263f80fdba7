"""Tests that leave something behind in their process fail; orders can be tried."""

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import psutil
import pytest
import sklearn

import leftovers

matplotlib.use("Agg")
CONFTEST = Path(__file__).parents[2] / "conftest.py"
LEAVES = {
    "environment: LEFT": (
        lambda: os.environ.update(LEFT="here"),
        lambda: os.environ.pop("LEFT", None),
    ),
    "current folder": (lambda: os.chdir("/"), lambda: None),
    "handlers of signals: SIGTERM": (
        lambda: signal.signal(signal.SIGTERM, print),
        lambda: None,
    ),
    "handler of errors in threads": (
        lambda: setattr(threading, "excepthook", print),
        lambda was=threading.excepthook: setattr(threading, "excepthook", was),
    ),
    "arguments of the command line": (lambda: sys.argv.append("--left"), lambda: sys.argv.pop()),
    "recursion limit": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 1),
    ),
    "logging: mercer": (
        lambda: logging.getLogger("mercer").setLevel(logging.DEBUG),
        lambda: logging.getLogger("mercer").setLevel(logging.NOTSET),
    ),
    "numpy's errors": (
        lambda: np.seterr(over="raise"),
        lambda: np.seterr(over="warn"),
    ),
    "numpy's printing": (
        lambda: np.set_printoptions(precision=3),
        lambda: np.set_printoptions(precision=8),
    ),
    "scikit-learn's settings": (
        lambda: sklearn.set_config(transform_output="pandas"),
        lambda: sklearn.set_config(transform_output="default"),
    ),
    "figures of matplotlib": (
        lambda: __import__("matplotlib.pyplot").pyplot.figure(),
        lambda: __import__("matplotlib.pyplot").pyplot.close("all"),
    ),
}


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_left_behind_is_seen(name):
    import matplotlib.pyplot  # noqa: F401 - what is not there cannot be left

    leave, undo = LEAVES[name]
    before = leftovers.state()
    leave()
    try:
        (line,) = leftovers.differences(before, leftovers.state())
        assert line.startswith(name)
        assert " -> " in line
    finally:
        undo()
        leftovers.put_back(before)
    assert not leftovers.differences(before, leftovers.state())


def test_threads_and_processes_that_go_on_are_seen(monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE", 0.0)
    before, stop = (leftovers.threads(), leftovers.processes()), threading.Event()
    thread = threading.Thread(target=stop.wait, name="lasting")
    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        thread.start()
        lines = leftovers.running(*before)
        stop.set()
    thread.join()
    assert lines[0] == "thread 'lasting'"
    assert lines[1].startswith(f"process {process.pid}: ")
    assert len(lines) == 2
    assert not psutil.pid_exists(process.pid)
    assert not leftovers.running(*before)


TESTS = """
import os, threading
import pytest

STOP = threading.Event()

@pytest.fixture(scope="module", autouse=True)
def of_the_module():
    os.environ["OF_ALL"] = "1"
    thread = threading.Thread(target=STOP.wait)
    thread.start()
    yield
    STOP.set()
    thread.join()
    UNDO

def test_bad():
    os.environ["LEFT"] = "1"

def test_good(monkeypatch):
    assert "LEFT" not in os.environ
    monkeypatch.setenv("PASSING", "1")
"""


@pytest.mark.parametrize("undo", [True, False])
def test_who_leaves_something_behind_fails(undo, tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    text = TESTS.replace("UNDO", 'del os.environ["OF_ALL"]' if undo else "pass")
    (tmp_path / "test_text.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "test_text.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MERCER_TEST_ORDER": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    out = done.stdout
    assert "ERROR test_text.py::test_bad - AssertionError: the test left behind:" in out, out
    assert "environment: LEFT: None -> '1'" in out
    assert "PASSED test_text.py::test_good" in out
    assert ("ERROR test_text.py::test_good" not in out) == undo
    assert ("the module left behind:" not in out) == undo
    assert ("environment: OF_ALL: None -> '1'" not in out) == undo


def order_of(items, number, monkeypatch):
    monkeypatch.setenv("MERCER_TEST_ORDER", number)
    spec = importlib.util.spec_from_file_location("conftest_of_all", CONFTEST)
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    found = [SimpleNamespace(nodeid=one) for one in items]
    conftest.pytest_collection_modifyitems(found)
    return [one.nodeid for one in found]


def test_an_order_is_another_and_the_same_each_time(monkeypatch):
    items = [f"test_{module}.py::test_{i}" for module in "abcde" for i in range(9)]
    assert order_of(items, "0", monkeypatch) == items
    first, again, second = (order_of(items, number, monkeypatch) for number in "112")
    assert first == again
    assert sorted(first) == sorted(second) == sorted(items)
    assert len({tuple(one) for one in (items, first, second)}) == 3
    for found in (first, second):  # modules stay together: their fixtures are made once
        modules = [one.split("::")[0] for one in found]
        assert sum(a != b for a, b in pairwise(modules)) == 4
