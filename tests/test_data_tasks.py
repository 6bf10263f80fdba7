"""Whether a target is taken for classes or for quantities, and what is said of it."""

import datetime
import importlib.util
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.columns import guess_task, infer_task

pa = pytest.importorskip("pyarrow")
import pandas as pd  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"


def table_script():
    place = DOCS / "_scripts" / "guess_table.py"
    spec = importlib.util.spec_from_file_location("guess_table", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = table_script()


@pytest.mark.parametrize("case", SCRIPT.CASES, ids=lambda case: case.name)
def test_targets_are_taken_for_what_they_are(case):
    guess = guess_task(case.values)
    assert guess.task == case.task, guess
    assert not guess.certain


def test_the_page_shows_what_the_script_prints():
    page = (DOCS / "guide" / "targets.md").read_text()
    assert "\n".join(SCRIPT.made()) in page


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA names no folder")
def test_tables_of_the_suite_are_taken_for_what_they_are():
    page = (DOCS / "guide" / "targets.md").read_text()
    found = list(SCRIPT.real(Path(os.environ["MERCER_DATA"])))
    assert [guess.task for _, guess, _ in found] == [task for task, _, _ in found]
    assert sum(line in page for _, _, line in found) == 6


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pa.array])
@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        ([3, 7, 3], "classification"),
        (list(range(20)), "regression"),
        (2 * list(range(20)), "classification"),
        (4 * list(range(21)), "regression"),
        (5 * list(range(21)), "classification"),
        ([4, 4, 9, 9, 9, 100], "classification"),
        ([1, 2, 3], "regression"),
        ([-1.0, 1.0, 1.0], "classification"),
        ([0.0, 1.0, 2.0], "regression"),
        (5 * [0.0, 1.0, 2.0], "classification"),
        ([0.5, 1.0], "regression"),
        (2 * [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 30], "regression"),
        ([0, 2**62, 2**62, 5, 5, 5, *range(10, 18), *range(10, 18)], "regression"),
        ([7, 7, 7], "classification"),
    ],
)
def test_the_task_follows_from_the_values(kind, values, task):
    assert infer_task(kind(values)) == task


def test_missing_targets_do_not_count_but_some_must_be_there():
    assert infer_task(["a", None]) == "classification"
    assert infer_task(pa.chunked_array([[1, None], [2]])) == "classification"
    assert infer_task(pd.Series([1, None, 2, 1])) == "classification"
    for empty in ([None], [float("nan")], []):
        with pytest.raises(ValueError, match="no values"):
            infer_task(empty)


def test_some_values_can_be_nothing_else():
    days = [datetime.date(2020, 1, 1 + i % 20) for i in range(400)]
    for values in (days, pd.Series(pd.to_datetime(days)), np.array(days, dtype="M8[D]")):
        assert guess_task(values)[::2] == ("regression", True)
    assert guess_task(pa.array(days))[::2] == ("regression", True)
    assert guess_task([True, False]) == ("classification", "truth values", True)
    assert guess_task(pd.Series(["a", "b"], dtype="category")).certain
    assert guess_task(20 * [Decimal("1.50"), Decimal("2")]).task == "regression"


@pytest.mark.parametrize("cells", [[*range(2000)], [0.5, 1.5], ["$1,200", "$900"]])
def test_columns_of_categories_are_classes_whatever_they_hold(cells):
    categories = pd.Series(cells * 2, dtype="category")
    for values in (categories, pa.array(cells).dictionary_encode()):
        assert guess_task(values).task == "classification"
        assert guess_task(values).certain
    assert infer_task(categories.astype(object)) == "regression"
    with pytest.raises(ValueError, match="no values"):
        guess_task(categories[:0])


def test_the_reason_names_numbers_that_a_reader_can_check():
    letters = guess_task(np.repeat(np.arange(26), SCRIPT.LETTERS))
    assert letters.reason == "26 evenly spaced whole numbers, each about 769 times"
    rare = guess_task(np.repeat(np.arange(22), SCRIPT.TUMORS))
    assert rare.reason.startswith("21 whole numbers, 1 to 84 times")
    assert guess_task(np.arange(440) // 2).reason == "220 different whole numbers in only 440 rows"


COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=80).filter(any)


@settings(max_examples=200, deadline=None)
@given(COUNTS, st.integers(-1000, 1000), st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_does_not_matter(counts, first, seed):
    values = np.repeat(first + np.arange(len(counts)), counts)
    shuffled = np.random.default_rng(seed).permutation(values)
    assert guess_task(shuffled) == guess_task(values)


@settings(max_examples=200, deadline=None)
@given(COUNTS, st.integers(-50, 50), st.sampled_from([1, 2, 10, 100]))
def test_numbers_of_classes_may_begin_anywhere_and_have_any_step(counts, first, step):
    """Only round numbers that stand out are looked for at their places."""
    codes = np.repeat(np.arange(len(counts)), counts)
    one, other = guess_task(codes), guess_task(first + step * codes)
    if "round ones" not in one.reason + other.reason:
        assert other == one


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 400), st.integers(5, 40), st.integers(0, 2**32 - 1))
def test_classes_of_one_size_are_always_classes(n_classes, rows, seed):
    first = np.random.default_rng(seed).integers(-100, 100)
    assert infer_task(np.repeat(first + np.arange(n_classes), rows)) == "classification"


def test_classes_of_any_shares_in_any_order_are_seldom_quantities():
    rng = np.random.default_rng(0)
    tasks = [
        infer_task(rng.choice(n, size=30 * n, p=rng.dirichlet(np.full(n, 3.0))))
        for n in rng.integers(21, 200, size=200)
    ]
    assert tasks.count("classification") >= 196
