"""Experiments of the papers: the frame they run in, the command, the page."""

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmark_scripts import scripts
from mercer.kernels import Gaussian
from mercer_app.cli import main
from mercer_reproduction import (
    DATA_FILES,
    Context,
    Drawing,
    Experiment,
    Result,
    Target,
    _data_files,
    experiments,
    get_experiment,
)
from mercer_reproduction._comparison import Criterion, Method, Task, compare, one_pass, same_time
from mercer_reproduction._data import adult, covtype, median_distance, mnist_8_6, standardised
from mercer_reproduction._line_up import competitors, doubly_stochastic
from mercer_reproduction.baselines import Solver
from mercer_reproduction.command import _run

ROOT = Path(__file__).parents[3]
NAMES = [experiment.name for experiment in experiments()]
DSG = ["dsg-adult", "dsg-mnist-8-6", "dsg-covtype"]


def task(n=600, batch_size=50):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + 300, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    return Task(X[:n], y[:n], X[n:], y[n:], Gaussian(1.0), 1e-3, batch_size)


METHODS = [doubly_stochastic("hinge", 16, 1e-3, 0.5), *competitors(4.0, 64.0)]


# -- comparisons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_of_the_line_up_learns_in_some_passes(method):
    [course] = compare(task(), [method], Criterion(passes=5.0))
    assert course.error_percent < 20.0
    assert course.passes == pytest.approx(5.0)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_same_seed_gives_the_same_result(method):
    problem = task()
    scores = []
    for _ in range(2):
        solver = method.start(problem)
        for _ in range(5):
            solver.step()
        scores.append(solver.decision_function(problem.X_test))
    assert_array_equal(scores[0], scores[1])


class Sleeper(Solver):
    """Visits 10 rows a step, takes 5 ms, calls half of the rows wrong."""

    def __init__(self):
        self.n_steps = 0

    def step(self):
        self.n_steps += 1
        start = time.process_time()
        while time.process_time() - start < 0.005:
            pass
        return 10

    def decision_function(self, X):
        time.sleep(0.001)
        return np.where(np.arange(len(X)) % 2, 1.0, -1.0)


def test_one_pass_stops_before_rows_are_visited_twice():
    problem = task(n=604)
    [course] = compare(problem, [Method("sleeper", lambda _: Sleeper())], one_pass())
    assert course.passes == pytest.approx(600 / 604)
    assert course.cpu_seconds == pytest.approx(60 * 0.005, rel=0.3)


def test_same_time_gives_the_others_the_time_of_a_method_and_no_more_than_a_step():
    sleeper = Method("sleeper", lambda _: Sleeper())
    [first] = compare(task(n=200), [sleeper], one_pass())
    [second] = compare(task(n=50), [sleeper], same_time(first))
    assert first.cpu_seconds <= second.cpu_seconds < first.cpu_seconds + 0.03
    assert second.passes > 3.0


def test_a_course_ends_with_its_last_error_and_has_earlier_ones():
    [course] = compare(task(), [METHODS[0]], one_pass())
    passes, seconds, errors = zip(*course.curve, strict=True)
    assert (passes[-1], seconds[-1], errors[-1]) == (
        course.passes,
        course.cpu_seconds,
        course.error_percent,
    )
    assert len(passes) >= 4
    assert np.all(np.diff(passes) > 0)


@pytest.mark.parametrize("settings", [{}, {"passes": 1.0, "cpu_seconds": 1.0}])
def test_a_criterion_is_one_of_two(settings):
    with pytest.raises(ValueError, match="Give one of them"):
        Criterion(**settings)


# -- experiments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measured", "kind", "met"),
    [
        (1.0, "at most", True),
        (2.0, "at most", False),
        (2.0, "at least", True),
        (0.5, "at least", False),
        (np.nan, "at most", False),
        (np.nan, "at least", False),
    ],
)
def test_targets_know_whether_they_are_met(measured, kind, met):
    assert Target("x", measured, 1.0, kind).met is met


def test_experiments_have_names_of_their_own_and_say_where_they_are_from():
    assert len(set(NAMES)) == len(NAMES)
    for experiment in experiments():
        assert get_experiment(experiment.name) is experiment
        assert experiment.place
        assert experiment.shows.endswith(".")
        assert set(experiment.needs_data) <= set(DATA_FILES)


@pytest.mark.parametrize("experiment", experiments(), ids=NAMES)
def test_missing_data_are_described(experiment, tmp_path):
    if not experiment.needs_data:
        pytest.skip("needs no data")
    with pytest.raises(ValueError, match="No data directory is given"):
        experiment(Context())
    with pytest.raises(FileNotFoundError, match="has not all that is needed") as caught:
        experiment(Context(data=tmp_path))
    for name in experiment.needs_data:
        assert f"{name}: {DATA_FILES[name]}" in str(caught.value)


# -- data -----------------------------------------------------------------------------------------


def write(folder, name, X, labels, columns, **more):
    table = {c: X[:, i] for i, c in enumerate(columns)}
    pq.write_table(pa.table({**table, "label": labels, **more}), folder / f"{name}.parquet")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Made-up files of the right columns."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for part, n in (("train", 1500), ("test", 400)):
        X = (rng.random((n, 123)) < 0.1).astype(np.uint8)
        y = np.where(X[:, :8].sum(axis=1) > 0, 1, -1).astype(np.int8)
        write(folder, f"adult_{part}", X, y, [f"f{i + 1}" for i in range(123)])
        digits = rng.integers(0, 10, 4 * n).astype(np.uint8)
        pixels = np.zeros((4 * n, 784), np.uint8)
        pixels[:, :60] = rng.integers(0, 256, (4 * n, 60))
        pixels[np.arange(4 * n), 10 * digits.astype(int)] = 255
        write(folder, f"mnist_{part}", pixels, digits, [f"p{i}" for i in range(784)])
    X = rng.integers(0, 1000, (3000, 54)).astype(np.int16)
    X[:, 10:] = X[:, 10:] > 900
    y = np.where(X[:, 0] > 500, 1, -1).astype(np.int8)
    write(folder, "covtype", X, y, [f"c{i}" for i in range(54)], Cover_Type=np.ones(3000, np.uint8))
    return folder


def test_adult_is_taken_as_it_is(data):
    split = adult(data)
    assert split.X.shape == (1500, 123)
    assert split.X_test.shape == (400, 123)
    assert set(np.unique(split.X)) == {0.0, 1.0}
    assert set(np.unique(split.y)) == {-1.0, 1.0}


def test_covtype_is_standardised_on_its_training_rows_and_hides_the_label(data):
    split = covtype(data)
    assert split.X.shape == (2700, 54)
    assert len(split.X_test) == 300
    assert_allclose(split.X[:, :10].mean(axis=0), 0.0, atol=1e-5)
    assert_allclose(split.X[:, :10].std(axis=0), 1.0, rtol=1e-4)
    assert set(np.unique(split.X[:, 10:])) == {0.0, 1.0}


def test_mnist_8_6_has_the_leading_centred_components(data):
    split = mnist_8_6(data)
    assert split.X.shape[1] == 50
    assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-5)
    covariance = np.cov(split.X.T)
    assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-5)
    assert np.all(np.diff(np.diag(covariance)) <= 1e-6)


def test_constant_columns_become_zero():
    X, X_test = standardised(np.ones((3, 1), np.float32), np.full((1, 1), 5.0, np.float32))
    assert_array_equal(X, 0.0)
    assert np.isfinite(X_test).all()


@pytest.mark.skipif(not os.environ.get("MERCER_DATA"), reason="needs the data directory")
def test_real_data_have_the_sizes_and_distances_of_the_paper():
    """DSG, Section 7: 32K rows and 123 inputs; the median distance on MNIST is 9.03 there."""
    folder = Path(os.environ["MERCER_DATA"])
    split = adult(folder)
    assert split.X.shape == (32561, 123)
    assert median_distance(split.X) == pytest.approx(4.0, abs=0.13)
    split = mnist_8_6(folder)
    assert (len(split.X), len(split.X_test)) == (11769, 1932)
    assert median_distance(split.X) == pytest.approx(9.0, abs=0.2)


# -- the command ----------------------------------------------------------------------------------


@pytest.fixture
def mercer(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return exit_.value.code or 0, out, err

    return call


@pytest.mark.parametrize("name", DSG)
def test_quick_runs_write_tables_and_figures(name, data, mercer, tmp_path):
    words = ["reproduce", name, "--quick", "--no-svg", "--data", data]
    words += ["--out", tmp_path, "--seed", "3"]
    code, out, err = mercer(*words)
    assert code == 0, err
    assert "not judged: quick run" in out
    record = json.loads((tmp_path / f"{name}-quick.json").read_text())
    assert record["quick"]
    assert record["seed"] == 3
    methods = {row["method"] for row in record["rows"]}
    assert {"DSG newton, hinge", "NORMA", "k-SDCA", "r-SDCA", "n-Pegasos", "r-SBMD"} <= methods
    assert all(0.0 <= row["test error %"] <= 100.0 for row in record["rows"])
    for figure in record["figures"]:
        assert (tmp_path / figure["file"]).read_bytes().startswith(b"\x89PNG")


def toy(measured):
    def run(context):
        return Result(
            [{"method": "a [b]", "error": np.float64(context.seed)}],
            targets=[Target("error", measured, 1.0)],
            drawings=[Drawing("line", "A line.", lambda ax: ax.plot([1, 2], label="line"))],
            notes=["A note."],
        )

    return Experiment("toy", "A toy", "nowhere", "Nothing.", run)


def test_a_missed_target_is_said_and_no_error(monkeypatch, mercer, tmp_path):
    monkeypatch.setattr(_run, "experiments", lambda: (toy(2.0),))
    code, out, _ = mercer("reproduce", "all", "--out", tmp_path, "--seed", "5")
    assert code == 0
    assert "missed" in out
    assert "a [b]" in out
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["rows"] == [{"method": "a [b]", "error": 5.0}]
    target = {"name": "error", "measured": 2.0, "target": "at most 1", "met": "missed"}
    assert record["targets"] == [target | {"paper": "-", "claim": []}]
    assert (tmp_path / "toy-line.png").exists()


def test_a_target_that_is_met_is_said(monkeypatch, mercer, tmp_path):
    monkeypatch.setattr(_run, "experiments", lambda: (toy(0.5),))
    _, out, _ = mercer("reproduce", "all", "--out", tmp_path)
    assert "missed" not in out
    assert "met" in out


def test_without_a_name_experiments_are_listed(mercer):
    code, out, _ = mercer("reproduce")
    assert code == 0
    assert all(name in out for name in NAMES)


def test_wrong_names_and_missing_data_are_explained(mercer, tmp_path, monkeypatch):
    def no_route(*_, **__):
        raise OSError("no route")

    monkeypatch.delenv("MERCER_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "kept"))
    monkeypatch.setattr(_data_files, "_failed", {})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_route)
    code, _, err = mercer("reproduce", "dsg", "--out", tmp_path)
    assert code == 2
    assert "dsg-adult" in err
    code, _, err = mercer("reproduce", "dsg-adult", "--out", tmp_path)
    assert code == 2
    assert "no route" in err
    assert "a9a" in err
    assert "--data" in err


# -- the page -------------------------------------------------------------------------------------


def test_the_page_of_reproductions_is_what_the_results_say():
    """docs/reproduction.md is written by benchmarks/reproduce.py and by nothing else."""
    with scripts("reproduce") as found:
        assert (ROOT / "docs" / "reproduction.md").read_text() == found.reproduce.page()


def test_every_section_opens_with_what_its_record_says():
    """Numbers of an outcome stand in the record, the settings or the paper's numbers."""
    with scripts("_reproduction_openings") as found:
        openings = found._reproduction_openings.OPENINGS
    assert list(openings) == NAMES
    page = (ROOT / "docs" / "reproduction.md").read_text()
    for name, opening in openings.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert opening.outcome in section
        rest = page.replace(opening.outcome, "")  # targets stand above the sections
        for number in re.findall(r"\d[\d,]*\.\d+|\d{3,}", opening.outcome):
            assert number in rest, f"{name}: {number}"
