"""The script that compares the default with an earlier state of it, on records made by hand."""

import time
from argparse import Namespace
from contextlib import nullcontext

import numpy as np
import pytest

import benchmark_scripts
from mercer import KernelRegressor, compact


@pytest.fixture(scope="module")
def scripts():
    """The modules of the script."""
    names = ("_default_sets", "_default_run", "default_learner", "suite", "earlier")
    with benchmark_scripts.scripts(*names) as found:
        yield found


def record(name, method, seed, **found):
    base = {"train_rows": 800, "test_rows": 200, "rows_per_s": 1000.0, "version": "p 1.0"}
    return {"set": name, "method": method, "seed": seed, "size": 0, "cpu_s": 2.0, **base, **found}


RECORDS = [
    record("concrete", "before", 0, mse=0.20, pickled_mib=8.0),
    record("concrete", "before", 1, mse=0.40, pickled_mib=8.0),
    record("concrete", "now", 0, mse=0.22, cpu_s=1.0, pickled_mib=2.0, row_us=40.0),
    record("concrete", "now", 1, mse=0.42, cpu_s=1.0, pickled_mib=3.0, row_us=60.0),
    record("concrete", "lightgbm", 0, mse=0.30, cpu_s=0.5),
    record("iris", "before", 0, error=2.0, log_loss=0.2),
    record("iris", "now", 0, error=0.0, log_loss=0.1, cpu_s=0.5, rows_per_s=4000.0, row_us=200.0),
    record("churn", "now", 0, error=1.0),  # not run before
]


def test_what_both_states_have_is_compared_table_by_table(scripts):
    results = scripts.earlier.Results(RECORDS)
    concrete, iris = scripts.earlier.set_rows(results)
    assert (concrete["table"], concrete["seeds"]) == ("concrete", 2)
    assert concrete["now / before"] == pytest.approx(0.64 / 0.60)
    assert concrete["worse"] == "yes"  # by .02 with each seed
    assert (concrete["CPU s before"], concrete["CPU s"], concrete["LightGBM's"]) == (2.0, 1.0, 0.5)
    assert (concrete["MiB before"], concrete["MiB"]) == (8.0, 2.5)
    # None of 200 rows counts as half a one, .25 %.
    assert (iris["now / before"], iris["worse"]) == (0.25 / 2.0, "-")
    assert iris["LightGBM's"] == "-"


def test_groups_of_tables_have_geometric_means(scripts):
    rows = {
        row["tables"]: row for row in scripts.earlier.group_rows(scripts.earlier.Results(RECORDS))
    }
    every = rows["all (2)"]
    assert every["fit"] == pytest.approx((0.5 * 0.25) ** 0.5)
    assert every["rows/s"] == pytest.approx(2.0)
    assert every["error"] == pytest.approx((0.64 / 0.60 * 0.125) ** 0.5)
    assert (every["log loss"], every["fit, LightGBM's"]) == (pytest.approx(0.5), pytest.approx(2.0))
    assert (every["worse"], every["pickle"]) == ("1 of 1", 2.5)
    assert every["µs a row"] == pytest.approx((50.0 * 200.0) ** 0.5)
    assert list(rows) == ["all (2)", "to 2,000 rows (2)", "clean (1)"]  # no empty ones
    assert rows["clean (1)"]["error"] == pytest.approx(0.125)


def test_an_error_that_grows_less_than_its_noise_is_no_worse(scripts):
    noisy = [record("concrete", "now", seed, mse=mse) for seed, mse in enumerate((0.1, 0.6))]
    results = scripts.earlier.Results([one for one in RECORDS if one["method"] == "before"] + noisy)
    assert results.is_worse(("concrete", 0)) is False


def test_the_earlier_state_is_imported_by_processes_that_are_started(
    scripts, monkeypatch, tmp_path
):
    monkeypatch.setenv("PYTHONPATH", "mine")
    seen = scripts.earlier.os.environ
    with scripts.earlier.importing(tmp_path):
        assert seen["PYTHONPATH"].split(scripts.earlier.os.pathsep) == [str(tmp_path), "mine"]
    with scripts.earlier.importing(None):
        assert seen["PYTHONPATH"] == "mine"
    assert seen["PYTHONPATH"] == "mine"


def test_arrays_of_a_model_are_counted_once(scripts):
    held_mib = scripts._default_run.held_mib
    rows = np.ones((1024, 128))
    assert held_mib({"rows": rows, "again": [rows, rows[:10], rows.T]}) == 1.0
    X = np.random.default_rng(0).standard_normal((600, 4))
    model = KernelRegressor(random_state=0).fit(X, np.sin(2.0 * X[:, 0]))
    assert 0.0 < held_mib(compact(model)) < held_mib(model) < 3.0
    assert 0.0 < scripts._default_run.file_mib(model) < 3.0


def test_rows_are_asked_one_by_one(scripts):
    asked, X = [], np.arange(21.0).reshape(7, 3)

    def ask(row):
        until = time.perf_counter() + 1e-3
        asked.append((row.shape, row[0, 0]))
        while time.perf_counter() < until:
            pass

    # The clock of a processor may tick in 10 ms: a round of seven rows would take none.
    assert scripts._default_run.row_us(ask, X) > 300.0
    assert set(asked) == {((1, 3), first) for first in X[:, 0]}
    assert len(asked) > 5 * 7


def test_states_take_turns_and_what_is_there_is_not_run_again(scripts, monkeypatch, tmp_path):
    earlier, asked = scripts.earlier, []

    def run_one(name, method, seed, size, data, limit, timed):
        asked.append((name, method, size, "old" in earlier.os.environ.get("PYTHONPATH", "")))
        return {**record(name, method, seed, error=1.0), "size": size}

    monkeypatch.setattr(earlier, "source_of", lambda commit: nullcontext(tmp_path / "old"))
    monkeypatch.setattr(scripts.default_learner, "run_one", run_one)
    monkeypatch.setattr(scripts.suite, "RUNS", tmp_path / "suite.jsonl")
    runs = scripts.earlier._common.Runs(tmp_path / "runs.jsonl", "set", "method", "size", "seed")
    options = Namespace(
        data=None, commit="abc", sets=["digits"], seeds=[0], again=False, untimed=False, cpu_limit=9
    )
    earlier.run_all(options, runs)
    ours, before, peer = ("mercer", False), ("mercer", True), ("lightgbm", False)
    assert asked == [
        *(("digits", method, 0, is_old) for method, is_old in (before, peer, ours)),
        *(("digits", method, 500, is_old) for method, is_old in (ours, peer, before)),
    ]
    assert {key[1:3] for key in runs.all()} == {
        (which, size) for which in ("before", "now", "lightgbm") for size in (0, 500)
    }
    kept = scripts.default_learner.Cache(tmp_path / "suite.jsonl")
    assert kept.has("digits", "mercer", 0, 0)
    assert kept.has("digits", "lightgbm", 0, 0)
    assert not kept.has("digits", "mercer", 0, 500)
    earlier.run_all(options, runs)
    assert len(asked) == 6
    options.commit = "abd"
    earlier.run_all(options, runs)
    assert asked[6:] == [("digits", "mercer", 0, True), ("digits", "mercer", 500, True)]
