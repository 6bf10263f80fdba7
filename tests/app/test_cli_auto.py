"""The default expansion on the command line and in reports: its options, its parts, its race."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from command_line import run
from mercer import KernelRegressor, load_model
from mercer.default import DefaultLearner
from mercer.display import LearningCurveDisplay, ModelOrderDisplay, RaceDisplay
from mercer.exceptions import Advice, InPython, Setting
from mercer.expansions import KOMP, Auto, Dictionary
from mercer.inspection import describe, parts_table, race_summary, race_table
from mercer.kernels import Gaussian, Laplacian, Mapped
from mercer.maps import NormalScores
from mercer_app.cli._console import print_result
from mercer_app.messages import in_words_of_the_command
from mercer_app.report import race_section
from quick import QUICK

pytestmark = pytest.mark.usefixtures("quickest_race", "undrawn", "rough_importances")


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    y = np.where(x[:, 0] * x[:, 1] > 0, "in", "out")
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model of parts with cells among them, its file and tables."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(table(1500), folder / "train.parquet")
    pq.write_table(table(500, 1), folder / "test.parquet")
    words = ["fit", folder / "train.parquet", "--target", "y", "--out", folder / "m", "--quiet"]
    race = QUICK.race._replace(hopeless=np.inf)  # cells take part in any case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", QUICK._replace(race=race))
        assert run(*words) == 0
    return folder


@pytest.fixture(scope="module")
def model(files):
    return load_model(files / "m")


# -- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expansion"),
    [
        ("", Auto(expected_rows=120)),
        ("--expansion auto --seed 3", Auto(expected_rows=120, seed=3)),
        ("--max-memory 512M", Auto(max_memory=2**29, expected_rows=120)),
        ("--budget-seconds 9 --seed 3", Auto(budget_seconds=9.0, expected_rows=120, seed=3)),
        ("--resumable", Auto(resumable=True, expected_rows=120)),
        ("--forgetting 0.999", Auto(forgetting=0.999, expected_rows=120)),
        ("--expansion dictionary --max-size 40", Dictionary(size=40)),
        ("--tolerance 0.1", KOMP(max_size=1000, tolerance=0.1)),
        ("--expansion komp", KOMP(max_size=1000)),
        ("--expansion komp --max-size 50 --parsimony 0.1", KOMP(max_size=50, parsimony=0.1)),
        ("--step-size 0.5", KOMP(max_size=1000)),
    ],
)
def test_options_choose_the_expansion(words, expansion, mercer, tmp_path):
    pq.write_table(table(120), tmp_path / "d.parquet")
    fit = ["fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m"]
    code, _, err = mercer(*fit, *words.split())
    assert code == 0, err
    fitted = load_model(tmp_path / "m")
    assert fitted.learner_.function.expansion == expansion


def test_a_kernel_that_is_given_does_not_race(mercer, tmp_path):
    pq.write_table(table(120), tmp_path / "d.parquet")
    fit = ["fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m"]
    assert mercer(*fit, "--kernel", "laplacian", "--length-scale", "2")[0] == 0
    answer = json.loads(mercer("inspect", tmp_path / "m", "--json")[1])
    assert "race" not in answer
    assert [part["kernel"] for part in answer["parts"]] == ["Laplacian(length_scale=2.0)"]
    assert race_section(load_model(tmp_path / "m")) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--max-memory much", "`--max-memory` takes a number of bytes"),
        ("--max-memory 1K", "`--max-memory` must be"),
        ("--budget-seconds 0", "`--budget-seconds` must be"),
        ("--forgetting 2", "`--forgetting` must be"),
        ("--max-memory 1G --max-size 50", "The expansion 'auto' has no --max-size"),
        ("--expansion auto --max-size 50", "The expansion 'auto' has no --max-size: leave it out"),
        ("--expansion komp --forgetting 0.9", "The expansion 'komp' has no --forgetting"),
        ("--passes 3", "`--passes` is of learning by steps, and must be 1"),
        ("--regularization 0.1", "`--regularization` is of learning by steps"),
        ("--max-memory 1G --step-size 2", "step_size=2.0"),
        ("--max-memory 1G --task rank", "`--expansion auto`, with its options, learns by sums"),
    ],
)
def test_what_does_not_go_together_is_refused(words, message, files, mercer, tmp_path):
    fit = ["fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m"]
    code, _, err = mercer(*fit, *words.split())
    assert code == 2
    assert message in err


def test_errors_speak_of_options():
    expansion = Auto(max_memory=2**20)
    other = InPython(
        "another expansion, such as komp", ("another one, such as ", Setting("expansion", "komp"))
    )
    given = Setting("expansion", expansion, f"`expansion={expansion!r}`")
    message = Advice(given, " sums, choose ", other, ".")
    assert message == f"`expansion={expansion!r}` sums, choose another expansion, such as komp."
    assert in_words_of_the_command(message) == (
        "`--expansion auto`, with its options, sums, choose another one, such as "
        "`--expansion komp`."
    )


# -- inspect, evaluate, predict ---------------------------------------------------------------


def test_inspect_shows_parts_and_the_race(files, model, mercer):
    answer = json.loads(mercer("inspect", files / "m", "--json")[1])
    parts = model.parts_
    assert sorted(part["weight"] for part in answer["parts"]) == sorted(p.weight for p in parts)
    assert sum(part["points"] for part in answer["parts"]) == answer["model_order"]
    assert {"cells", "trees"} <= {part["form"] for part in answer["parts"]}
    raced = [part for part in answer["parts"] if part["form"] != "trees"]
    plain = [{k: v for k, v in entry.items() if k != "chosen"} for entry in answer["race"]]
    assert plain == model.race_
    chosen = {(e["form"], e["metric"], e["length"]) for e in answer["race"] if e["chosen"]}
    assert chosen == {(p["form"], p["metric"], p["length"]) for p in raced}
    assert answer["can_go_on_learning"] is (answer["bytes_of_sums"] > 0)
    assert not {"kernel", "step_size", "regularization"} & set(answer)


def test_inspect_shows_the_race_as_a_short_aligned_table(files, model, mercer):
    """A line for each form, kernel and map, with the best length; what was chosen is marked."""
    race = json.loads(mercer("inspect", files / "m", "--json")[1])["race"]
    lines = mercer("inspect", files / "m")[1].splitlines()
    heading, *rows = [line for line in lines if line.startswith("race ")]
    names = ["form", "kernel and map", "inputs", "length", "error", "tried", "chosen"]
    assert re.split(r"\s{2,}", heading.removeprefix("race ")) == names
    groups = {(e["form"], f"{e['family']}, {e['metric']}") for e in race}
    won = [e for e in race if e["chosen"]]
    assert len(groups) <= len(rows) <= len(groups) + len(won) < len(race)
    cells = [re.split(r"\s{2,}", row.removeprefix("race ")) for row in rows]
    assert {(row[0], row[1]) for row in cells} == groups
    assert [len(row) == len(names) for row in cells].count(True) == len(won)
    for row in cells:
        of_it = [e for e in race if (e["form"], f"{e['family']}, {e['metric']}") == tuple(row[:2])]
        error, deviation = map(float, row[4].split(" ± "))
        assert any(
            error == pytest.approx(e["error"], rel=0.02)
            and deviation == pytest.approx(e["standard_error"], rel=0.1)
            and float(row[3]) == pytest.approx(e["length"], rel=1e-4)
            and e["chosen"] == (len(row) == len(names))
            for e in of_it
        )
        assert int(row[5]) == len(of_it)
        if len(row) < len(names):
            assert error <= min(e["error"] for e in of_it) * 1.02
    ends = {row.index("±") for row in rows}
    assert len(ends) == 1  # aligned


def test_inspect_marks_the_winner_of_few_rows(mercer, tmp_path):
    pq.write_table(table(400), tmp_path / "d.parquet")
    words = ("fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m")
    assert mercer(*words)[0] == 0
    answer = json.loads(mercer("inspect", tmp_path / "m", "--json")[1])
    won = [entry for entry in answer["race"] if entry["chosen"]]
    assert min(e["error"] for e in won) == min(e["error"] for e in answer["race"])
    names = ("form", "family", "metric", "length", "n_inputs")
    raced = [part for part in answer["parts"] if part["form"] != "trees"]
    ways = [{tuple(e[name] for name in names) for e in some} for some in (won, raced)]
    assert ways[0] >= ways[1]  # a part may have got no weight


def test_a_kernel_behind_curves_is_told_in_one_line():
    X = np.random.default_rng(0).normal(size=(60, 2))
    kernel = Mapped(Laplacian(1.0), NormalScores().fit(X))
    model = KernelRegressor(kernel=kernel, random_state=0).fit(X, X[:, 0])
    told = describe(model)["kernel"]
    assert told == "Laplacian(length_scale=1.0) of 2 inputs made by the map"


@pytest.mark.parametrize("options", [[], ["--resumable"]])
def test_the_report_says_whether_the_file_can_go_on_learning(
    options, mercer, tmp_path, monkeypatch
):
    settings = QUICK._replace(small_file=0)  # sums and rows of more bytes are left out
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    pq.write_table(table(500), tmp_path / "d.parquet")
    words = ("fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m")
    kernel = ("--kernel", "gaussian", "--length-scale", "1")
    assert mercer(*words, "--report", tmp_path / "r.html", *kernel, *options)[0] == 0
    answer = json.loads(mercer("inspect", tmp_path / "m", "--json")[1])
    page = re.sub("<wbr>", "", (tmp_path / "r.html").read_text(encoding="utf-8"))
    said = re.search("can go on learning</th><td>(.*?)</td>", page)[1]
    assert (said, answer["can_go_on_learning"]) == (("yes", True) if options else ("no", False))
    for told in (page, answer.get("to_go_on", "")):
        assert ("`mercer fit --resumable`" in told) == (not options)


@pytest.mark.parametrize("steps", [False, True])
def test_the_latest_loss_is_in_the_units_of_the_target(steps, mercer, tmp_path):
    numbers = table(300)
    scaled = pa.array(1000.0 * numbers.column("a").to_numpy())
    pq.write_table(numbers.set_column(3, "y", scaled), tmp_path / "d.parquet")
    words = ("fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m")
    more = ("--kernel", "gaussian", "--expansion", "komp") if steps else ()
    assert mercer(*words, "--report", tmp_path / "r.html", *more)[0] == 0
    answer = json.loads(mercer("inspect", tmp_path / "m", "--json")[1])
    history = load_model(tmp_path / "m").history_
    assert answer["loss_unit"] == "y²"
    scale = np.std(scaled.to_numpy()) if steps else 1.0
    assert answer.get("target_scale", 1.0) == pytest.approx(scale)
    assert answer["latest_loss"] == pytest.approx(scale**2 * history.loss[-1])
    judged = "the rows since" if steps else "rows kept back"
    said = f"The loss, in y², is the mean over {judged}"
    assert said in (tmp_path / "r.html").read_text("utf-8")


def test_tables_are_drawn_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    race = [{"form": "trees", "n": 7}, {"form": "cells", "chosen": True}]  # not all have all
    print_result({"rows": 3, "race": race}, title="m")
    out = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    assert re.search(r"rows\W+3", out)
    assert re.search(r"race\n.*form +n +chosen", out, re.DOTALL)
    assert re.search(r"trees +7", out)
    assert re.search(r"cells {4,}yes", out)


def test_evaluate_and_predict_work_on_parts(files, model, mercer, tmp_path):
    found = json.loads(mercer("evaluate", files / "m", files / "test.parquet", "--json")[1])
    test = pq.read_table(files / "test.parquet")
    y = test.column("y").to_numpy(zero_copy_only=False).astype(str)
    assert found["error_percent"] == pytest.approx(100 * np.mean(model.predict(test) != y))
    assert found["error_percent"] < 5.0
    out = tmp_path / "p.parquet"
    assert mercer("predict", files / "m", files / "test.parquet", "--out", out)[0] == 0
    predicted = pq.read_table(out)
    assert predicted.column("prediction").to_pylist() == model.predict(test).tolist()


# -- reports and pictures ---------------------------------------------------------------------


def test_the_report_has_a_section_on_the_race(files, model, mercer, tmp_path):
    page_file = tmp_path / "r.html"
    words = ("evaluate", files / "m", files / "test.parquet", "--report", page_file)
    assert mercer(*words)[0] == 0
    page = page_file.read_text(encoding="utf-8")
    for words in ("<h3>The race</h3>", "Parts of the model", "in the model"):
        assert words in page
    table = page.partition("What was tried")[2].partition("</table>")[0]
    assert table.count("<tr>") == 1 + len(race_summary(model))
    assert "cells: " in table
    assert " ± " in table
    # A run of one solution has no course, and no steps.
    assert "Learning curve" not in page
    assert "step size" not in page
    assert "The loss is the mean over rows kept back" in page


def test_a_race_is_drawn_with_what_it_chose(model):
    entries = race_table(model)
    display = RaceDisplay.from_estimator(model, ax=Figure().subplots())
    tried, chosen = (len(bars.lines[0].get_xdata()) for bars in display.errorbars_)
    assert chosen == sum(entry["chosen"] for entry in entries)
    assert tried + chosen == len(entries)
    best = min(entries, key=lambda entry: entry["error"])
    assert min(display.errorbars_[1].lines[0].get_xdata()) == best["error"]
    assert len(display.lines) == len({(e["form"], e["family"], e["metric"]) for e in entries})


def test_races_without_entries_or_values_are_refused():
    with pytest.raises(ValueError, match="no entries"):
        RaceDisplay(entries=[])
    with pytest.raises(ValueError, match="lacks standard_error, chosen"):
        RaceDisplay(entries=[{"form": "global", "metric": "m", "length": 1.0, "error": 0.1}])


def test_models_without_parts_have_no_tables_of_them():
    x = np.linspace(-1.0, 1.0, 50)[:, None]
    model = KernelRegressor(expansion=KOMP(max_size=9)).fit(x, x[:, 0])
    assert parts_table(model) == race_table(model) == race_summary(model) == []
    assert race_section(model) is None
    one = KernelRegressor(kernel=Gaussian(1.0)).fit(x, x[:, 0])
    assert [part["form"] for part in parts_table(one)] == ["global"]
    unit = ModelOrderDisplay.from_estimator(one, ax=Figure().subplots()).unit
    assert unit == "dictionary points"


@pytest.mark.parametrize(("n_records", "marker"), [(1, "o"), (5, "o"), (40, "None")])
def test_few_records_are_marked_in_curves(n_records, marker):
    rows, values = np.arange(1, n_records + 1) * 100, np.linspace(1.0, 0.5, n_records)
    curve = LearningCurveDisplay(n_samples=rows, loss=values).plot(Figure().subplots())
    order = ModelOrderDisplay(n_samples=rows, model_order=rows).plot(Figure().subplots())
    assert {line.get_marker() for line in (curve.line_, curve.running_line_)} == {marker}
    assert order.line_.get_marker() == marker


# -- without test data ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name", "limits"),
    [
        ("", "logistic loss, rows kept back", (0.02, 0.5)),
        ("--expansion komp", "logistic loss, rows as they came", (0.02, 0.68)),
        ("--target a --exclude y", "RMSE, rows kept back", (0.8, 1.3)),
    ],
)
def test_without_test_data_the_error_is_of_rows_before_they_were_learned(
    words, name, limits, mercer, tmp_path
):
    """`a` is noise of deviation 1 to the other columns; chance is 0.69 for `y`."""
    target = [] if "--target" in words else ["--target", "y"]
    data = tmp_path / "data.parquet"
    pq.write_table(table(200), data)
    fit = ["fit", data, "--out", tmp_path / "m", *target, *words.split()]
    code, _, err = mercer(*fit, "--report", tmp_path / "r.html")
    assert code == 0
    (line,) = [line for line in err.splitlines() if line.startswith(f"{name}: ")]
    assert limits[0] < float(line.rpartition(" ")[2]) < limits[1]
    page = (tmp_path / "r.html").read_text()
    right = re.findall(r"right, rows kept back: (\d+\.\d)% of \d+ \(always answering", err)
    assert len(right) == (name == "logistic loss, rows kept back")
    assert all(60.0 < float(share) <= 100.0 for share in right)
    if "komp" not in words:
        assert "rows that were kept back" in page
        assert ("always answering the median" if "RMSE" in name else "always answering") in page
    else:
        assert f"<dt>{name}</dt>" in page
        assert "No test data were given" in page
        assert "alone it is 0." in page
        code, _, err = mercer(*fit, "--test", data, "--report", tmp_path / "r.html")
        assert code == 0
        assert name not in err + (tmp_path / "r.html").read_text()
