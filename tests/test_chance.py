"""What tests draw, and what they are called, is the same in every run and any selection of them."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

TESTS = sorted(Path(__file__).parent.rglob("test_*.py"))


@pytest.fixture(params=["first", "second"])
def greedy(request):
    np.random.random(7)  # noqa: NPY002
    return request.param


def test_estimators_without_a_seed_draw_the_same_in_every_test(greedy, rng):
    seed = int(os.environ.get("MERCER_TEST_SEED", "0"))
    expected = np.random.RandomState(seed).random(3)
    assert np.array_equal(np.random.random(3), expected)  # noqa: NPY002
    assert rng.random() == np.random.default_rng([seed, 1]).random()


def test_no_test_draws_from_the_generator_of_its_module():
    inside = {
        path.name: found
        for path in TESTS
        if (found := re.findall(r"^ .*\bRNG\.", path.read_text(), flags=re.MULTILINE))
    }
    assert not inside, "the `rng` of a test does not depend on the tests before it"


def test_names_of_tests_hold_no_addresses(request):
    assert not [item.nodeid for item in request.session.items if " at 0x" in item.nodeid]
