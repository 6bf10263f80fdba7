"""The script that compares the default learner with its peers, on tiny generated sets."""

import dataclasses
import importlib
import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import benchmark_scripts
import mercer

MODULES = ("_default_sets", "_peers", "_default_run", "_default_tables", "default_learner")
METHODS = (
    "mercer",
    "lightgbm",
    "lightgbm_300",
    "lightgbm_large",
    "hist_boosting",
    "svc",
    "rbf_sampler",
    "nystroem",
    "mlp",
)


@pytest.fixture(scope="module")
def scripts():
    """The modules of the script."""
    with benchmark_scripts.scripts(*MODULES) as found:
        yield found


def table(scripts, n=200, regression=False, test=None):
    rng = np.random.default_rng(0)
    X = np.column_stack([3.0 + 2.0 * rng.standard_normal((n, 3)), np.zeros(n)])
    slope = X[:, 0] - X[:, 1]
    return scripts._default_sets.Table(X, 5.0 + slope if regression else slope > 0.0, test)


def source(scripts, **options):
    return scripts._default_sets.Source(read=None, words="generated", **options)


# -- splits ---------------------------------------------------------------------------------------


def test_sizes_share_their_test_rows_and_seeds_do_not(scripts):
    prepare, plain = scripts._default_sets.prepare, source(scripts, standardise=False)
    whole = table(scripts)
    small, full = prepare(whole, plain, seed=0, size=50), prepare(whole, plain, seed=0)
    assert (len(small.X), len(full.X), len(full.X_test)) == (50, 160, 40)
    np.testing.assert_array_equal(small.X_test, full.X_test)
    np.testing.assert_array_equal(small.X, full.X[:50])
    assert not np.array_equal(full.X_test, prepare(whole, plain, seed=1).X_test)
    together = np.concatenate([full.X, full.X_test])
    np.testing.assert_array_equal(np.sort(together[:, 0]), np.sort(whole.X[:, 0]))


def test_a_given_split_is_kept_and_the_seed_orders_the_training_rows(scripts):
    prepare, plain = scripts._default_sets.prepare, source(scripts, standardise=False)
    held_out = np.arange(200) >= 150
    whole = table(scripts, test=lambda seed: held_out)
    first, second = (prepare(whole, plain, seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.X_test, whole.X[150:])
    np.testing.assert_array_equal(second.X_test, whole.X[150:])
    assert not np.array_equal(first.X, second.X)
    np.testing.assert_array_equal(np.sort(first.X[:, 0]), np.sort(whole.X[:150, 0]))


def test_ordered_rows_stay_in_order_and_few_of_them_are_the_latest(scripts):
    late = np.arange(200) >= 160
    whole = table(scripts, test=lambda seed: late)
    split = scripts._default_sets.prepare(
        whole, source(scripts, standardise=False, ordered=True), seed=3, size=30
    )
    np.testing.assert_array_equal(split.X, whole.X[130:160])


def test_training_rows_alone_set_the_scale(scripts):
    split = scripts._default_sets.prepare(
        table(scripts, regression=True), source(scripts, regression=True), seed=0
    )
    for part in (split.X[:, :3], split.y):
        np.testing.assert_allclose(part.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(part.std(axis=0), 1.0, atol=1e-12)
    assert abs(split.X_test[:, :3].mean()) > 1e-6
    assert not split.X[:, 3].any()  # a constant column is centred, not divided by nothing


@pytest.mark.parametrize(("name", "shape"), [("lidar", (177, 1)), ("mammography", (8946, 6))])
def test_sets_of_the_data_folder_are_read(scripts, name, shape):
    directory = scripts._default_sets.data_directory()
    if directory is None or not (directory / f"{name}.parquet").exists():
        pytest.skip(f"MERCER_DATA names no folder with {name}.parquet")
    assert scripts._default_sets.load(name, seed=0, directory=directory).X.shape == shape


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # peers warn of few rows
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_measured(scripts, monkeypatch, name, regression):
    method = dataclasses.replace(scripts._peers.METHODS[name], cap=120)
    if not method.installed:
        pytest.skip(f"{method.package} is not installed")
    monkeypatch.setattr(scripts._default_run, "_forget_peak", lambda: None)
    split = scripts._default_sets.prepare(
        table(scripts, 200, regression), source(scripts, regression=regression), seed=0
    )
    with threadpool_limits(1):
        found = scripts._default_run.measure(method, split, regression, seed=0)
    assert (found["train_rows"], found["learned_rows"], found["test_rows"]) == (160, 120, 40)
    if name != "mlp":  # which stops far too early on few rows
        assert found["mse"] < 0.6 if regression else found["error"] < 20.0
    if not regression:
        assert 0.0 <= found["auc"] <= 1.0
    assert found["numbers"] > 0
    assert found["pickled_mib"] > 0.0
    assert found["rows_per_s"] > 0.0
    assert found["cpu_s"] >= 0.0
    json.dumps(found)


def test_methods_are_those_that_are_tested(scripts):
    assert tuple(scripts._peers.METHODS) == METHODS


def test_a_run_in_a_process_of_its_own_tells_its_result(scripts):
    record = scripts.default_learner.run_one("wine", "mercer", 1, 0, None, limit=300)
    assert {k: record[k] for k in ("set", "method", "seed", "size")} == {
        "set": "wine",
        "method": "mercer",
        "seed": 1,
        "size": 0,
    }
    assert record["error"] < 30.0
    assert record["first_prediction_s"] > 0.0
    assert record["import_s"] > 0.0
    assert record["version"].startswith("mercer ")


@pytest.mark.skipif(os.name != "posix", reason="limits of CPU time are POSIX")
def test_a_run_over_its_cpu_limit_is_stopped(scripts):
    record = scripts.default_learner.run_one("digits", "mlp", 0, 0, None, limit=1)
    assert record["stopped"] == "stopped after 1 CPU s"


def test_a_run_that_fails_says_why(scripts, monkeypatch):
    done = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback ...\nOSError: no disk\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    record = scripts.default_learner.run_one("lidar", "svc", 0, 0, None, limit=100)
    assert record["failed"] == "OSError: no disk"


@pytest.mark.parametrize(("learned", "expected"), [(50, 200), (700, 700), (6000, 5000)])
def test_the_warm_up_has_no_more_rows_than_are_learned_but_enough(scripts, learned, expected):
    seen = []

    class Model:
        def fit(self, X, y):
            seen.append(len(X))
            return self

        def predict(self, X):
            return X[:, 0]

    method = dataclasses.replace(
        scripts._peers.METHODS["mercer"], make=lambda regression, X, seed: Model()
    )
    scripts._default_run.warm_up(method, True, np.zeros((learned, 2)), 0)
    assert seen == [expected]


# -- cache ----------------------------------------------------------------------------------------

ROWS = {"wine": 142, "elec2_order": 900}  # of the runs below; other sets have more


@pytest.fixture
def runs(scripts, monkeypatch, tmp_path):
    """Runs that are only counted, and a cache for them."""
    done = []

    def run_one(name, method, seed, size, data, limit, timed):
        done.append((name, method, seed, size))
        failed = {"failed": "no luck"} if seed == 9 and done.count(done[-1]) == 1 else {}
        return record(name, method, seed, size=size, train_rows=ROWS.get(name, 2000), **failed)

    monkeypatch.setattr(scripts.default_learner, "run_one", run_one)
    monkeypatch.setattr(scripts.default_learner, "code_state", lambda: "now")
    cache = scripts.default_learner.Cache(tmp_path / "cache.jsonl")

    def run(*words):
        done.clear()
        failures = scripts.default_learner.run_all(scripts.default_learner.parsed(words), cache)
        return list(done), failures

    return run


def test_runs_that_are_there_are_not_run_again_unless_asked_for(runs):
    words = ("--sets", "wine", "--methods", "mlp", "hist_boosting", "--seeds", "0")
    both = [("wine", "mlp", 0, 0), ("wine", "hist_boosting", 0, 0)]
    assert runs(*words) == (both, [])
    assert runs(*words) == ([], [])
    assert runs(*words, "--again") == (both, [])
    assert runs(*words[:-1], "0", "1")[0] == [(n, m, 1, s) for n, m, _, s in both]


def test_runs_that_failed_are_told_of_and_tried_again(runs):
    words = ("--sets", "wine", "--methods", "mlp", "--seeds", "9")
    assert runs(*words) == ([("wine", "mlp", 9, 0)], ["wine mlp 9 0: no luck"])
    assert runs(*words) == ([("wine", "mlp", 9, 0)], ["wine mlp 9 0: no luck"])  # counts anew


def test_only_the_judged_and_svc_learn_from_few_rows_and_only_where_there_are_more(runs):
    done, _ = runs("--sets", "digits", "--methods", "svc", "mlp", "--seeds", "0")
    assert done == [("digits", "svc", 0, 0), ("digits", "svc", 0, 1000), ("digits", "mlp", 0, 0)]


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("wine", 0, 10),  # has no more than 1,000 rows
        ("digits", 0, 3),
        ("digits", 1000, 10),
        ("digits", 10_000, 3),
        ("elec2_order", 0, 3),  # has few rows here, too, but in their order
        ("elec2_order", 1000, 3),
    ],
)
def test_few_rows_are_learned_with_more_seeds(monkeypatch, tmp_path, runs, name, size, expected):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    done, _ = runs("--sets", name, "--methods", "mercer", "mlp", "svc", "--sizes", str(size))
    for method, wanted in (("mercer", expected), ("svc", expected), ("mlp", 3)):
        assert [seed for _, m, seed, _ in done if m == method] == list(range(wanted))


def test_seeds_that_are_asked_for_are_those_that_are_run(runs):
    words = ("--sets", "wine", "--methods", "mercer", "--seeds", "1", "12")
    assert [seed for _, _, seed, _ in runs(*words)[0]] == [1, 12]


def test_runs_of_mercer_with_older_code_are_run_again(scripts, monkeypatch, tmp_path, runs):
    cache = scripts.default_learner.Cache(tmp_path / "cache.jsonl")
    cache.add(record("wine", "mercer", 0, train_rows=142))  # kept before its code was
    cache.add(record("wine", "mercer", 1, train_rows=142, code="before"))
    cache.add({**record("wine", "mercer", 2), "stopped": "stopped after 9 CPU s", "code": "now"})
    cache.add(record("wine", "svc", 0, train_rows=142))
    words = ("--sets", "wine", "--methods", "mercer", "svc", "--seeds", "0", "1", "2")
    mine, svc = [("wine", "mercer", s, 0) for s in range(3)], ("wine", "svc")
    assert runs(*words)[0] == [mine[0], mine[1], (*svc, 1, 0), (*svc, 2, 0)]
    assert [r["code"] for r in cache.records("wine", "mercer")] == ["now"] * 3
    assert not any("code" in r for r in cache.records("wine", "svc"))
    assert runs(*words)[0] == []
    monkeypatch.setattr(scripts.default_learner, "code_state", lambda: "later")
    assert runs(*words)[0] == mine


def test_runs_that_others_add_at_the_same_time_are_kept_in_order(tmp_path):
    import _common

    place = tmp_path / "results" / "runs.jsonl"
    mine, other = (_common.Runs(place, "set", "seed") for _ in range(2))
    assert mine.all() == {}
    for runs, name, seed, error in (
        (mine, "b", 10, 1.0),
        (other, "a", 2, 2.0),
        (mine, "b", 2, 0.1 + 0.2),
        (other, "b", 10, 4.0),
    ):
        runs.add({"set": name, "seed": seed, "error": error})
    expected = {("a", 2): 2.0, ("b", 2): 0.1 + 0.2, ("b", 10): 4.0}
    found = _common.Runs(place, "set", "seed").all()
    assert [(key, record["error"]) for key, record in found.items()] == list(expected.items())
    assert other.all() == found
    assert len(place.read_text().splitlines()) == 3
    assert [file.name for file in place.parent.iterdir()] == ["runs.jsonl"]


def test_tables_of_one_script_share_a_file(monkeypatch, tmp_path):
    import _common

    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    for name in ("drift_false", "drift_delay", "drift_false"):
        _common.keep(name, [{"name": name}], "a note")
    assert [file.name for file in tmp_path.iterdir()] == ["drift.json"]
    assert _common.published("drift_delay") == [{"name": "drift_delay"}]
    assert _common.table("drift_false")["note"] == "a note"
    assert _common.published("drift") == _common.published("pairs") == []


def test_tables_are_written_without_runs_and_tell_of_older_code(
    scripts, monkeypatch, tmp_path, runs
):
    import _common

    written = {}
    monkeypatch.setattr(
        _common, "publish", lambda name, rows, note, *_: written.update({name: note})
    )
    monkeypatch.setattr(scripts.default_learner, "RUNS", tmp_path / "cache.jsonl")
    runs("--sets", "wine", "--methods", "mercer", "--seeds", "0", "1", "2")
    monkeypatch.delattr(scripts.default_learner, "run_one")
    for code, words in (("now", "All of mercer's runs"), ("later", "3 of 3 runs of mercer are")):
        monkeypatch.setattr(scripts.default_learner, "code_state", lambda code=code: code)
        assert scripts.default_learner.main(["--write"]) == 0
        assert len(written) == 4
        assert all(words in note for note in written.values())


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (["now", "now"], "All of mercer's runs are of one state of its code."),
        (["now", None], "1 of 2 runs of mercer is of an older state of its code."),
        (["before", None, "now"], "2 of 3 runs of mercer are of an older state of its code."),
        ([], "No run of mercer is among them."),
    ],
)
def test_older_runs_of_mercer_are_counted(scripts, monkeypatch, codes, words):
    monkeypatch.setattr(scripts.default_learner, "code_state", lambda: "now")
    records = [record("wine", "svc", 0), {**record("wine", "mercer", 9), "failed": "no luck"}]
    for seed, code in enumerate(codes):
        told = {"code": code} if code else {}
        records.append(record("wine", "mercer", seed, **told))
    assert scripts.default_learner.words_on_code(records) == words


def test_times_of_several_machines_are_told_apart(scripts):
    told = scripts.default_learner.words_on_machines
    here = [record("wine", method, 0, processor="A") for method in ("mercer", "svc")]
    assert told(here) == ""
    untimed = record("wine", "lightgbm", 0)
    del untimed["cpu_s"]
    words = told([*here, record("wine", "catboost", 0, processor="B"), untimed])
    assert words.endswith("can be compared: SVC and mercer, default on A; CatBoost on B. ")
    assert "LightGBM" not in words
    assert "names were not kept" in told([*here, record("wine", "mercer", 1)])


@pytest.fixture
def package(scripts, tmp_path):
    """A package with one file for each folder or module that learns, and one that does not."""
    for file in (*learning_files(scripts), Path("cli", "deeper", "a.py")):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x = 1")
    return tmp_path


def learning_files(scripts):
    """A file in each place that learns."""
    places = map(Path, scripts.default_learner.LEARNING)
    return [place if place.suffix else place / "deeper" / "a.py" for place in places]


def test_the_state_of_the_code_is_that_of_all_files_that_learn(scripts, package):
    state, seen = scripts.default_learner.code_state.__wrapped__, set()
    for file in learning_files(scripts):
        seen.add(state(package))
        (package / file).write_text("x = 2")
        seen.add(state(package))
        if file.name == "a.py":
            (package / file).rename((package / file).with_name("b.py"))
            seen.add(state(package))
    n_folders = sum(file.name == "a.py" for file in learning_files(scripts))
    assert len(seen) == 1 + len(learning_files(scripts)) + n_folders


def test_the_state_of_the_code_knows_nothing_of_words_and_other_files(scripts, package):
    state = scripts.default_learner.code_state.__wrapped__
    before = state(package)
    (package / "cli" / "deeper" / "a.py").write_text("x = 2")
    (package / "maps" / "a.pyc").write_text("compiled")
    (package / "maps" / "deeper" / "a.py").write_text('"""Words."""\nx = 1  # more words')
    assert state(package) == before


def test_what_learns_is_there_from_the_estimators_down(scripts, monkeypatch):
    package = Path(mercer.__file__).parent
    learning = scripts.default_learner.LEARNING
    for name in learning:
        assert (package / name).is_file() or list((package / name).glob("*.py")), name
    assert {"estimators", "objectives", "default", "learning", "schedules.py"} < set(learning)
    monkeypatch.setattr(scripts.default_learner, "LEARNING", learning[:2])  # quicker to read
    state = scripts.default_learner.code_state.__wrapped__
    assert state() == state(package)


# -- tables ---------------------------------------------------------------------------------------


def record(name, method, seed, size=0, **numbers):
    """A record as a run leaves it, with numbers that do not matter."""
    usual = {"train_rows": 100_000, "learned_rows": 100_000, "cpu_s": 1.0, "rows_per_s": 2.0}
    usual |= {"learning_mib": 3.0, "pickled_mib": 4.0, "numbers": 5, "version": "x 1"}
    return {"set": name, "method": method, "seed": seed, "size": size, **usual, **numbers}


def verdicts(scripts, records):
    rows = scripts._default_tables.target_rows(scripts._default_tables.Results(records))
    return {row["target"]: row["verdict"] for row in rows}


def test_targets_are_met_missed_or_not_measured(scripts):
    records = [record("covtype", "mercer", s, error=e) for s, e in enumerate((4.0, 4.1, 4.6))]
    records += [record("ijcnn1", "mercer", 0, error=1.0, auc=0.993, first_prediction_s=2.5)]
    found = verdicts(scripts, records)
    assert found["covtype: error %"] == "missed"  # 4.23 on average
    assert found["covtype: CPU s"] == "met"
    assert found["ijcnn1: AUC"] == "met"
    assert found["skin: error %"] == "not measured"
    assert found["first prediction: wall s, slowest run (ijcnn1)"] == "missed"


@pytest.mark.parametrize(
    ("mercer", "svc", "expected"),
    [
        ((3.0, 4.0, 5.0), (2.0, 3.0, 3.9), "lost"),  # worse on every seed by about the same
        ((2.0, 5.0, 3.0), (3.0, 3.0, 3.0), "equal"),  # worse by less than the standard error
        ((2.0, 3.0, 3.9), (3.0, 4.0, 5.0), "won"),
    ],
)
def test_cases_are_lost_by_more_than_the_standard_error_of_paired_differences(
    scripts, mercer, svc, expected
):
    records = [
        record("adult", method, seed, size, error=error, auc=0.9)
        for method, errors in (("mercer", mercer), ("svc", svc))
        for seed, error in enumerate(errors)
        for size in (0, 1000)
    ]
    results = scripts._default_tables.Results(records)
    assert [row["verdict"] for row in scripts._default_tables.small_rows(results)] == [expected]
    lost = scripts._default_tables.lost_rows(results)
    assert [(row["rows"], row["measure"]) for row in lost] == (
        [("all", "error %"), ("1,000", "error %")] if expected == "lost" else []
    )


def test_a_lower_auc_is_lost_and_the_best_peer_named(scripts):
    records = [
        record("adult", method, 0, error=15.0, auc=auc)
        for method, auc in (("mercer", 0.90), ("mlp", 0.92), ("svc", 0.91), ("nystroem", 0.8))
    ]
    (row,) = scripts._default_tables.lost_rows(scripts._default_tables.Results(records))
    assert (row["measure"], row["best peer"], row["peers better"]) == ("AUC", "MLP", "2 of 3")


def test_sets_of_few_rows_are_compared_with_all_of_them(scripts):
    few = {"train_rows": 142, "learned_rows": 142, "error": 3.0}
    records = [record("wine", method, 0, **few) for method in ("mercer", "svc")]
    results = scripts._default_tables.Results(records)
    (row,) = scripts._default_tables.small_rows(results)
    assert (row["rows"], row["seeds"], row["verdict"]) == (142, "1", "equal")


def test_few_rows_are_judged_by_shared_seeds_and_all_seeds_are_counted(scripts):
    few = {"train_rows": 142, "learned_rows": 142}
    records = [record("wine", "mercer", s, error=3.0 + s % 2, **few) for s in range(10)]
    records += [record("wine", "svc", s, error=2.0 + s % 2, **few) for s in range(3)]
    results = scripts._default_tables.Results(records)
    (row,) = scripts._default_tables.small_rows(results)
    assert (row["seeds"], row["verdict"]) == ("10 and 3", "lost")
    assert row["mercer, default"].startswith("3.5 ")
    seeds = {row["method"]: row["seeds"] for row in scripts._default_tables.all_rows(results)}
    assert seeds == {"mercer, default": 10, "SVC": 3}


def test_the_big_table_tells_of_caps_and_of_what_was_stopped(scripts):
    records = [
        record("covtype", "svc", 0, error=15.0, learned_rows=60_000),
        {
            "set": "covtype",
            "method": "mlp",
            "seed": 0,
            "size": 0,
            "stopped": "stopped after 9 CPU s",
        },
    ]
    rows = scripts._default_tables.all_rows(scripts._default_tables.Results(records))
    assert rows[0]["rows"] == "60,000 of 100,000"
    assert rows[1]["error % or MSE"] == "stopped after 9 CPU s"


def test_one_seed_has_no_standard_error(scripts):
    found = scripts._default_tables.summary([2.0])
    assert math.isnan(found.error)
    assert str(found) == "2"


def test_all_tables_have_a_title_a_note_and_cells(scripts, monkeypatch):
    monkeypatch.setattr(scripts.default_learner, "code_state", lambda: "now")
    records = [
        record("adult", method, 0, size, error=error)
        for method, error in (("mercer", 16.0), ("svc", 15.0))
        for size in (0, 1000)
    ]
    tables = scripts.default_learner.tables(records)
    import _common

    run = importlib.import_module("run")
    assert tables.keys() == scripts.default_learner.notes(records).keys() <= run.TITLES.keys()
    for name, rows in tables.items():
        assert _common.ORIGINS.get(name, name) == "default_learner"
        assert len(_common.markdown(rows).splitlines()) == len(rows) + 2
