"""Explanations of models of tables: in Python, as pictures, and by ``mercer explain``."""

import json

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from command_line import run
from mercer import GaussianProcessRegressor, KernelRegressor, NoveltyDetector, load_model
from mercer.columns import TablePreprocessor
from mercer.display import DependenceDisplay, ExplanationDisplay, ImportanceDisplay
from mercer.display.explaining import cells_of
from mercer_app.report.whole import column_shares, matters_section
from mercer_app.rows import TableRows

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures(
    "quickest_race", "quick_correction", "undrawn", "rough_importances"
)

N = 300
COLUMNS = ["town", "age", "day", "note", "steady"]


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Bonn", "Ulm"], n)
    age = rng.integers(18, 80, n).astype(float)
    day = np.datetime64("2020-01-01") + rng.integers(0, 700, n)
    words = np.array(["good quick service", "slow rude staff", "average nothing special"])
    kind = rng.integers(0, 3, n)
    note = [f"{words[k]} {rng.integers(1000)} times" for k in kind]
    z = 1000.0 + 100.0 * (town == "Bern") + 2.0 * age + 50.0 * (kind == 0)
    age[rng.random(n) < 0.1] = np.nan
    return pa.table(
        {
            "town": town,
            "age": pa.array(age, from_pandas=True),
            "day": day,
            "note": note,
            "steady": np.full(n, 3.0),
            "z": z,
            "y": np.where(z > np.median(z), "yes", "no"),
            "k": np.digitize(z, np.quantile(z, [0.3, 0.6])),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(table(), folder / "train.parquet")
    pq.write_table(table(20, 1), folder / "test.parquet")
    csv.write_csv(table(20, 1), folder / "test.csv")
    for name, target, options in (
        ("numbers", "z", []),
        ("classes", "y", []),
        ("three", "k", ["--task", "classification"]),
        ("quantiles", "z", ["--quantiles", "0.1,0.5,0.9"]),
        ("process", "z", ["--task", "gp", "--features", "50"]),
        ("pairs", "y", ["--task", "rank", "--pair-kernel", "symmetric", "--pair-label", "same"]),
    ):
        more = [w for c in sorted({"y", "z", "k"} - {target}) for w in ("--exclude", c)]
        words = ["fit", folder / "train.parquet", "--target", target, *more, *options, "--quiet"]
        assert run(*words, "--out", folder / f"{name}.mercer") == 0, name
    return folder


# -- in Python --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numbers", "process", "quantiles", "classes", "three"])
def test_columns_of_tables_in_units_of_the_target(files, name):
    model, test = load_model(files / f"{name}.mercer"), table(20, 1)
    assert model.feature_names_in_.tolist() == COLUMNS
    shares = dict(zip(COLUMNS, model.feature_importances_, strict=True))
    assert_allclose(sum(shares.values()), 1.0)
    assert shares["steady"] == 0.0
    if name != "process":  # of few features
        assert shares["town"] > 0.2
    told = model.explain(test)
    assert_allclose(told.baseline + told.contributions.sum(axis=1), told.prediction, rtol=1e-9)
    if name in ("classes", "three"):
        labels = told.output if name == "three" else ["yes"] * 20
        places = [model.classes_.tolist().index(label) for label in labels]
        expected = model.predict_proba(test)[np.arange(20), places]
        assert_allclose(told.prediction, expected)
    else:
        expected = model.predict(test)
        expected = expected[:, 1] if name == "quantiles" else expected
        assert_allclose(told.prediction, expected, rtol=1e-9)
        assert np.ptp(told.contributions[:, 0]) > 20.0


def test_grids_are_in_the_units_of_the_columns(files):
    model, test = load_model(files / "numbers.mercer"), table(20, 1)

    def mean_with(name, value, like):
        column = pa.array([value] * 20, type=like.schema.field(name).type)
        rows = like.set_column(like.column_names.index(name), name, column)
        return model.predict(rows).mean()

    ages = model.partial_dependence("age", grid=[20.0, 60.0], background=test)
    assert_allclose(ages.values, [mean_with("age", v, test) for v in (20.0, 60.0)])
    assert_allclose(ages.missing, mean_with("age", None, test))
    days = np.array(["2020-03-01", "2021-02-11"], dtype="datetime64[D]")
    found = model.partial_dependence("day", grid=days, background=test)
    assert found.kind == "time"
    # Times of a column of dates are those of the days.
    assert_allclose(found.values, [mean_with("day", d.item(), test) for d in days])
    towns = model.partial_dependence("town", background=test)
    assert towns.grid.tolist() == ["Bern", "Bonn", "Ulm"]
    assert_allclose(towns.values, [mean_with("town", town, test) for town in towns.grid])
    texts = ["good quick service 7 times", "slow rude staff"]
    notes = model.partial_dependence("note", grid=texts, background=test)
    assert_allclose(notes.values, [mean_with("note", text, test) for text in texts])
    with pytest.raises(ValueError, match="'note' is text, of which there is no range"):
        model.partial_dependence("note")
    assert model.partial_dependence("age").grid.min() >= 18.0
    assert model.partial_dependence("day", grid_size=7).grid.shape == (7,)


def test_grids_of_single_precision_are_what_was_read():
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 9, 300).astype(float) for i in range(70)}
    rows = pa.table({**columns, "z": columns["c0"] + columns["c1"]})
    reading = TableRows(
        KernelRegressor(random_state=0), TablePreprocessor(exclude=("z",), dtype="auto"), "z"
    ).partial_fit(rows)
    assert reading.inputs(rows, extra="drop").dtype == np.float32
    assert_array_equal(reading.model.partial_dependence("c0").grid, np.arange(9.0))


def test_many_categories_are_shown_by_their_frequency():
    rng = np.random.default_rng(0)
    code = np.array([f"c{i:02}" for i in range(60)])[np.minimum(rng.geometric(0.05, 4000), 59)]
    z = np.array([int(one[1:]) % 7 for one in code], dtype=float)
    rows = pa.table({"code": code, "z": z})
    reading = TableRows(KernelRegressor(random_state=0), TablePreprocessor(exclude=("z",)), "z")
    model = reading.partial_fit(rows).model
    assert any(":mean" in name for name in model.preprocessor_.feature_names_out())
    curve = model.partial_dependence("code", grid_size=10)
    assert len(curve.grid) == 10
    assert set(curve.grid) <= set(np.unique(code))
    assert_allclose(curve.values, [int(one[1:]) % 7 for one in curve.grid], atol=1.0)


def test_tasks_without_rows_of_their_own():
    rng = np.random.default_rng(0)
    rows = pa.table({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    reading = TableRows(NoveltyDetector(random_state=0), TablePreprocessor())
    model = reading.partial_fit(rows).model
    told = model.explain(rows.slice(0, 3))
    assert_allclose(told.prediction, model.decision_function(rows.slice(0, 3)))
    assert_allclose(model.feature_importances_, 0.5, atol=0.2)


# -- pictures ---------------------------------------------------------------------------------


def texts_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_importances_are_drawn_with_the_rest_in_one_bar():
    names = [f"column {i}" for i in range(20)]
    shares = np.arange(20.0) / np.arange(20.0).sum()
    display = ImportanceDisplay(importances=shares, feature_names=names)
    display.plot(Figure().subplots(), max_columns=5)
    assert texts_of(display.ax_) == [
        "column 19",
        "column 18",
        "column 17",
        "column 16",
        "16 other columns",
    ]
    assert_allclose(sum(bar.get_width() for bar in display.bars_), 100.0)
    with pytest.raises(ValueError, match="one number for each importance"):
        ImportanceDisplay(importances=[1.0], feature_names=["a"], standard_errors=[0.1, 0.2])
    with pytest.raises(ValueError, match="one number for each name"):
        ImportanceDisplay(importances=[1.0], feature_names=["a", "b"])


def test_pictures_of_a_table(files):
    model, test = load_model(files / "numbers.mercer"), table(20, 1)
    shown = ImportanceDisplay.from_estimator(model, ax=Figure().subplots())
    assert set(texts_of(shown.ax_)) == set(COLUMNS)
    row = ExplanationDisplay.from_estimator(model, test, row=2, ax=Figure().subplots())
    told = model.explain(test.slice(2, 1))
    ends = [bar.get_x() + bar.get_width() for bar in row.bars_]
    assert_allclose(ends[-1], told.prediction[0])
    assert_allclose(row.bars_[0].get_x(), told.baseline)
    assert any(text.startswith("day = 202") for text in texts_of(row.ax_))
    assert row.ax_.get_xlabel() == "Prediction"
    for column in ("town", "age", "day"):
        curve = DependenceDisplay.from_estimator(model, column, ax=Figure().subplots())
        curve.figure_.canvas.draw()
        labels = curve.ax_.get_xlabel(), curve.ax_.get_ylabel()
        assert set(labels) == {"Prediction", column}
    with pytest.raises(ValueError, match="`row` must be from 0 to 0"):
        ExplanationDisplay(explanation=told, row=1)


def test_pictures_of_a_pipeline():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = make_pipeline(StandardScaler(), KernelRegressor(random_state=0)).fit(X, X[:, 0])
    ImportanceDisplay.from_estimator(model, ax=Figure().subplots())
    shown = ExplanationDisplay.from_estimator(model, X, background=X[:9], ax=Figure().subplots())
    assert_allclose(shown.explanation.prediction, model.predict(X[:1]))
    DependenceDisplay.from_estimator(model, 1, ax=Figure().subplots())


def test_axes_say_what_is_explained(files):
    test = table(20, 1)
    for name, said in (("classes", "Probability of 'yes'"), ("quantiles", "Prediction, 0.5")):
        model = load_model(files / f"{name}.mercer")
        shown = ExplanationDisplay.from_estimator(model, test, ax=Figure().subplots())
        assert shown.ax_.get_xlabel() == said


@pytest.fixture(scope="module")
def daily():
    """Rows of a year, of which only the time of the day matters."""
    rng = np.random.default_rng(0)
    seconds = np.sort(rng.uniform(0.0, 365.0, 1500)) * 86_400.0
    table = {
        "when": (seconds + 1.7e9).astype("M8[s]"),
        "x": rng.normal(size=1500),
        "y": 3.0 * np.sin(2.0 * np.pi * (seconds + 1.7e9) / 86_400.0),
    }
    frame = pd.DataFrame(table)
    return KernelRegressor(random_state=0).fit(frame[["when", "x"]], frame.y)


def test_a_daily_rhythm_is_no_rhythm_of_the_year(daily):
    over_year, over_day = map(daily.partial_dependence, ("when", "when:hour"))
    assert "when:hour" in over_year.parts
    assert np.ptp(over_day.values) > 4.0
    assert np.ptp(over_year.values) < 0.1 * np.ptp(over_day.values)
    assert over_year.kind == "time"
    assert over_day.feature_name == "when:hour"
    assert 5.0 < over_day.grid[np.argmax(over_day.values)] < 7.0


def test_dates_that_are_given_are_taken_as_they_are(daily):
    noon = np.array(["2023-12-01T06:00", "2024-03-01T18:00"], dtype="M8[s]")
    high, low = daily.partial_dependence("when", grid=noon).values
    assert high > 2.0
    assert low < -2.0


@pytest.mark.parametrize("name", ["when:minute", "x:hour", "x:"])
def test_parts_that_are_not_there_are_refused(daily, name):
    with pytest.raises(ValueError, match=r"part|no input|`feature` must be a column"):
        daily.partial_dependence(name)


def test_a_report_shows_the_part_of_a_date_that_matters(daily):
    section = matters_section(daily, None, column_shares(daily), [])
    captions = [caption for caption, _ in section.figures]
    assert captions[1:3] == ["Prediction over when", "Prediction over when:hour"]


def test_cells_are_shown_as_they_are_written():
    assert cells_of({"price": np.array(["$10.19"])}, 0, ["price"]) == ["$10.19"]


# -- the command ------------------------------------------------------------------------------


def test_importances_of_a_file(files, mercer, tmp_path):
    model = load_model(files / "numbers.mercer")
    code, out, err = mercer("explain", files / "numbers.mercer", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["columns"]
    shares = dict(zip(COLUMNS, model.feature_importances_, strict=True))
    assert [one["column"] for one in found] == sorted(shares, key=lambda n: -shares[n])
    for one in found:
        assert_allclose(one["importance"], shares[one["column"]], atol=1e-6)
    picture = tmp_path / "p.svg"
    out = mercer("explain", files / "numbers.mercer", "--figure", picture)[1]
    assert "columns column  importance  standard error\n" in out
    assert picture.read_text().startswith("<?xml")


def test_a_long_file_is_explained_with_a_word_now_and_then(files, mercer, tmp_path, monkeypatch):
    asked = "explain", files / "numbers.mercer", files / "test.parquet", "--out"
    assert "so far" not in mercer(*asked, tmp_path / "a.csv")[2]
    monkeypatch.setattr("mercer_app.cli._explain._PATIENCE", -1.0)
    assert "20 rows so far" in mercer(*asked, tmp_path / "b.csv")[2]


def test_rows_of_a_file(files, mercer, tmp_path):
    model, test = load_model(files / "numbers.mercer"), table(20, 1)
    told = model.explain(test)
    code, _, err = mercer(
        "explain", files / "numbers.mercer", files / "test.parquet", "--out", tmp_path / "c.parquet"
    )
    assert code == 0
    assert "20 rows explained, 5 columns" in err
    found = pq.read_table(tmp_path / "c.parquet")
    assert found.column_names == ["baseline", "prediction", *COLUMNS]
    assert_allclose(np.column_stack([found.column(name) for name in COLUMNS]), told.contributions)
    sums = np.sum([found.column(name) for name in ["baseline", *COLUMNS]], axis=0)
    assert_allclose(sums, found.column("prediction"))
    words = "explain", files / "numbers.mercer", files / "test.csv", "--rows", 2
    rows = json.loads(mercer(*words, "--json")[1])["rows"]
    assert len(rows) == 2
    assert_allclose(rows[1]["prediction"], told.prediction[1], rtol=1e-6)
    assert_allclose(rows[1]["contributions"]["town"], told.contributions[1, 0], rtol=1e-6)
    out = mercer(*words)[1]
    assert out.count("(this row)") == 2
    assert "row_1 " in out
    code, out, _ = mercer(*words, "--out", "-", "--figure", tmp_path / "row.png")
    assert out.startswith('"baseline","prediction","town"')
    assert len(out.splitlines()) == 3
    assert (tmp_path / "row.png").stat().st_size > 1000


def test_classes_and_levels_on_the_command_line(files, mercer, tmp_path):
    test = files / "test.parquet"
    assert mercer("explain", files / "three.mercer", test, "--out", tmp_path / "c.csv")[0] == 0
    found = csv.read_csv(tmp_path / "c.csv")
    predicted = load_model(files / "three.mercer").predict(table(20, 1))
    assert found.column("class").to_pylist() == predicted.tolist()
    words = "--rows", 1, "--json"
    one = json.loads(mercer("explain", files / "three.mercer", test, "--output", 0, *words)[1])
    assert one["rows"][0]["output"] == 0
    one = json.loads(
        mercer("explain", files / "quantiles.mercer", test, "--output", 0.9, *words)[1]
    )
    assert one["rows"][0]["output"] == 0.9


def test_other_rows_to_compare_with(files, mercer):
    model = load_model(files / "numbers.mercer")
    words = "explain", files / "numbers.mercer", files / "test.parquet", "--json", "--rows", 1
    rows = json.loads(mercer(*words, "--background", files / "test.csv")[1])["rows"]
    baseline = model.predict(table(20, 1)).mean()
    assert_allclose(rows[0]["baseline"], baseline)


def test_names_of_columns_may_be_those_of_the_answer(mercer, tmp_path):
    rng = np.random.default_rng(0)
    rows = pa.table({"baseline": rng.normal(size=300), "b": rng.normal(size=300)})
    rows = rows.append_column("z", rows.column("baseline"))
    pq.write_table(rows, tmp_path / "t.parquet")
    model = tmp_path / "m"
    assert mercer("fit", tmp_path / "t.parquet", "--target", "z", "--out", model, "--quiet")[0] == 0
    out = mercer("explain", model, tmp_path / "t.parquet", "--rows", 1, "--out", "-")[1]
    assert out.splitlines()[0] == '"baseline","prediction","contribution_baseline","b"'


REFUSED = {
    "numbers.mercer --rows 2": "`--rows` is for explaining rows, and there are no DATA",
    "numbers.mercer --out a.csv": "`--out` is for explaining rows",
    "numbers.mercer test.csv --rows 0": "`--rows` must be at least 1",
    "numbers.mercer test.csv --out a.txt": "would need another ending: .parquet or .pq or .csv",
    "numbers.mercer test.csv --figure a.txt": "another ending: .svg or .png or .pdf",
    "numbers.mercer test.csv --out a.csv --json": "choose one of the two",
    "numbers.mercer test.csv --output 3": "`--output` must be None, got '3'",
    "classes.mercer test.csv --output 3": "`--output` must be one of 'no', 'yes', got '3'",
    "numbers.mercer nothing.csv": "nothing.csv",
    "pairs.mercer": "pair",
    "pairs.mercer test.csv": "pair",
    "numbers.mercer - --background -": "Standard input can be read once: give DATA or "
    "`--background` as a file",
}


@pytest.mark.parametrize("words", REFUSED)
def test_the_command_says_what_is_wrong(files, mercer, monkeypatch, words):
    monkeypatch.chdir(files)
    code, out, err = mercer("explain", *words.split())
    assert (code, out) == (2, "")
    assert REFUSED[words] in err


def test_processes_keep_rows_in_files(files):
    process = load_model(files / "process.mercer")
    assert isinstance(process, GaussianProcessRegressor)
    assert process._explained().background().shape[0] == 256
