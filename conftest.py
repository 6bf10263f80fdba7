"""Doctests of optional parts run where what they need is installed; chance is the same every time.

``MERCER_TEST_SEED=1 make test`` tries other draws: estimators without `random_state`, the tests'
`rng` and the examples of hypothesis.
"""

import os
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pytest

SEED = int(os.environ.get("MERCER_TEST_SEED", "0"))


def _has_river():
    """Whether there is a River that `mercer.river` works with."""
    return find_spec("river") and int(version("river").split(".")[1]) >= 26


collect_ignore_glob = [
    f"src/mercer/{part}/*"
    for part, is_there in (("gpu", find_spec("torch")), ("river", _has_river()))
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed before the fixtures, those of a module among them."""
    np.random.seed(SEED)  # noqa: NPY002 - what `random_state=None` draws from


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """Seed after the fixtures: what a test draws does not depend on who made them."""
    np.random.seed(SEED)  # noqa: NPY002


@pytest.fixture
def rng():
    """Draw for one test: another stream than those that the modules draw their data from."""
    return np.random.default_rng([SEED, 1])
