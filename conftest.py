"""What all tests and examples have in common: chance, order, and that nothing is left behind.

Doctests of optional parts run where what they need is installed.

``MERCER_TEST_SEED=1 make test`` tries other draws: estimators without `random_state`, the tests'
`rng` and the examples of hypothesis. ``MERCER_TEST_ORDER=1 make test`` runs the modules, and the
tests in each, in another order; every number is an order of its own.
"""

import os
import random
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pytest

import leftovers

SEED = int(os.environ.get("MERCER_TEST_SEED", "0"))
ORDER = int(os.environ.get("MERCER_TEST_ORDER", "0"))


def _has_river():
    """Whether there is a River that `mercer.river` works with."""
    return find_spec("river") and int(version("river").split(".")[1]) >= 26


collect_ignore_glob = [
    f"src/{part}/*"
    for part, is_there in (("mercer_gpu", find_spec("torch")), ("mercer/river", _has_river()))
    if not is_there
]

if find_spec("hypothesis"):
    import hypothesis

    # How long a draw takes says how busy the machine is, not whether the code is right.
    hypothesis.settings.register_profile(
        "repeatable",
        derandomize=SEED == 0,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before pytest brings together those that share a fixture
def pytest_collection_modifyitems(items):
    """Shuffle the modules, and the tests of each, if that was asked for."""
    if not ORDER:
        return
    modules = {}
    for item in items:
        modules.setdefault(item.nodeid.split("::")[0], []).append(item)
    draw = random.Random(ORDER)
    names = list(modules)
    draw.shuffle(names)
    for name in names:
        draw.shuffle(modules[name])
    items[:] = [item for name in names for item in modules[name]]


def pytest_report_header():
    """Say how to have the same order again."""
    return f"MERCER_TEST_ORDER={ORDER}" if ORDER else None


@pytest.fixture(autouse=True, scope="module")
def nothing_runs_after_its_module():
    """Fail where threads or processes of a module go on, or its fixtures leave something behind."""
    state, threads, processes = leftovers.state(), leftovers.threads(), leftovers.processes()
    yield
    left = leftovers.differences(state, leftovers.state())
    left += leftovers.running(threads, processes)
    leftovers.put_back(state)
    assert not left, "the module left behind:\n" + "\n".join(left)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(nothing_runs_after_its_module):
    """Fail a test that leaves its process otherwise than it was."""
    before = leftovers.state()
    yield
    left = leftovers.differences(before, leftovers.state())
    leftovers.put_back(before)
    assert not left, "the test left behind:\n" + "\n".join(left)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed before the fixtures, those of a module among them."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - what `random_state=None` draws from


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """Seed after the fixtures: what a test draws does not depend on who made them."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002


@pytest.fixture
def rng():
    """Draw for one test: another stream than those that the modules draw their data from."""
    return np.random.default_rng([SEED, 1])
