"""Which cells are gaps: further marks that are named, and usual ones that are values."""

import contextlib
import datetime
import decimal
import gzip
import io
import json
import runpy
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import ConvertOptions

import command_line
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.columns.null_values import NullValues
from mercer.exceptions import ParameterError
from mercer.expansions import KOMP, Stream
from mercer_app.files import CsvDialect, CsvPath, csv_files, read_tables
from mercer_app.files.arrivals import Record
from mercer_app.rows import TableRows
from mercer_app.serve import Answers
from mercer_app.training import FileTraining
from mercer_app.training.streaming import BadRowError, RowReader, StreamTraining
from mercer_cluster import ShardTraining

TEXT = "age,country,y,n\n30,NA,null,-999\n-1,DE,set,5\nn.v.,NA,set,NA\n"
GAP = None


def read(file, null_values):
    return next(read_tables(file, dialect=CsvDialect(null_values=null_values))).to_pydict()


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("null_values", "age", "country", "y", "n"),
    [
        (None, [30, -1, GAP], [GAP, "DE", GAP], [GAP, "set", "set"], [-999, 5, GAP]),
        (-999, [30, -1, GAP], [GAP, "DE", GAP], [GAP, "set", "set"], [GAP, 5, GAP]),
        ([-999.0, "set"], [30, -1, GAP], [GAP, "DE", GAP], [GAP] * 3, [GAP, 5, GAP]),
        ({"age": -1}, [30, GAP, GAP], [GAP, "DE", GAP], [GAP, "set", "set"], [-999, 5, GAP]),
        ({"country": "DE"}, [30, -1, GAP], [GAP] * 3, [GAP, "set", "set"], [-999, 5, GAP]),
        ({"country": ""}, [30, -1, GAP], ["NA", "DE", "NA"], [GAP, "set", "set"], [-999, 5, GAP]),
        ({"y": ["", "set"]}, [30, -1, GAP], [GAP, "DE", GAP], ["null", GAP, GAP], [-999, 5, GAP]),
        ("", ["30", "-1", "n.v."], ["NA", "DE", "NA"], ["null", "set", "set"], ["-999", "5", "NA"]),
        (
            ["", "n.v.", "NA"],
            [30, -1, GAP],
            [GAP, "DE", GAP],
            ["null", "set", "set"],
            [-999, 5, GAP],
        ),
        (
            {"": -999, "country": "", "y": "", "age": [-1]},
            [30, GAP, GAP],
            ["NA", "DE", "NA"],
            ["null", "set", "set"],
            [GAP, 5, GAP],
        ),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_marks_of_csv(null_values, age, country, y, n, ending, tmp_path):
    file = tmp_path / f"a{ending}"
    file.write_bytes(TEXT.encode() if ending == ".csv" else gzip.compress(TEXT.encode()))
    assert read(file, null_values) == {"age": age, "country": country, "y": y, "n": n}


@pytest.mark.parametrize(
    ("cells", "null_values", "expected"),
    [
        (["1.5", "-999", "-999.00", "2"], -999, [1.5, GAP, GAP, 2.0]),
        (["1.5", "-99.9", "-99.90"], "-99.9", [1.5, GAP, GAP]),
        (["1.5", "absent", "2.5"], "absent", [1.5, GAP, 2.5]),
        (["1.5", " absent ", "2.5"], {"a": "absent"}, [1.5, GAP, 2.5]),
        (["1", "inf", "2"], float("inf"), [1, GAP, 2]),
        (["9223372036854775807", "1", "2"], 2**63 - 1, [GAP, 1, 2]),
        (["true", "unclear", "false"], {"a": "unclear"}, [True, GAP, False]),
        (["007", "7", "012"], 7, ["007", GAP, "012"]),
        (["007", "7", "012"], "007", [GAP, "7", "012"]),
        (["DE", "N/A", "-", "None"], {"a": ""}, ["DE", "N/A", "-", "None"]),
        (['"NA"', "NA", '""'], {"a": ""}, ["NA", "NA", GAP]),
        (["NA", "NA", "null"], {"a": ""}, ["NA", "NA", "null"]),
        (['"a, ""b"""', '"two\nlines"', "no"], {"a": "no"}, ['a, "b"', "two\nlines", GAP]),
        (["9999-12-31", "2024-01-31"], "9999-12-31", [GAP, datetime.date(2024, 1, 31)]),
        (["9999-12-31", "2024-01-31"], {"a": "9999-12-31"}, [GAP, datetime.date(2024, 1, 31)]),
    ],
)
def test_siblings_of_marks(cells, null_values, expected, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("k,a\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells)))
    assert read(file, null_values)["a"] == expected


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("k;a\n1,5;-99,9\n2,5;x\n0,5;3,25\n", {}),
        ("# made today\nk a\n1.5   -99.9\n2.5  x\n0.5 3.25\n", {"delimiter": "whitespace"}),
        ("1.5,-99.9\n2.5,x\n0.5,3.25\n", {"header": False}),
    ],
)
def test_other_dialects_have_marks_of_columns(text, more, tmp_path):
    file, name = tmp_path / "a.csv", "a" if "header" not in more else "column_2"
    file.write_text(text)
    dialect = CsvDialect(null_values={name: ["x", "-99.9"]}, **more)
    assert next(read_tables(file, dialect=dialect))[name].to_pylist() == [GAP, GAP, 3.25]


@pytest.mark.parametrize("null_values", ["gone", {"a": "gone"}, {"a": ["gone", ""]}])
def test_a_cell_further_down_and_another_file(null_values, tmp_path, monkeypatch):
    for name in ("INFERENCE_BYTES", "LAST_BYTES", "_BLOCK_BYTES"):
        monkeypatch.setattr(csv_files, name, 256)
    (tmp_path / "a.csv").write_text(
        "k,a\n" + "1,2\n" * 200 + "1,gone\n" * 2 + "1,3.5\n" + "1,2\n" * 200
    )
    (tmp_path / "b.csv").write_text("k,a\n1,gone\n")
    tables = read_tables(tmp_path, dialect=CsvDialect(null_values=null_values))
    cells = pa.concat_tables(tables, promote_options="permissive")["a"].to_pylist()
    assert cells == [2.0] * 200 + [GAP, GAP, 3.5] + [2.0] * 200 + [GAP]


TYPED = [
    (pa.int64(), [1, -999], -999),
    (pa.uint8(), [1, 255], 255),
    (pa.int64(), [1, 2**63 - 1], 2**63 - 1),
    (pa.float32(), [1.5, -999.9], "-999.9"),
    (pa.float64(), [1.5, -999.0], -999),
    (pa.decimal128(8, 2), [decimal.Decimal("1.50"), decimal.Decimal("-9.90")], "-9.9"),
    (pa.string(), ["a", "n.v."], "n.v."),
    (pa.large_string(), ["a", "-999"], -999),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "n.v."], "n.v."),
    (pa.date32(), [datetime.date(2024, 1, 1), datetime.date(9999, 12, 31)], "9999-12-31"),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1), datetime.datetime(1900, 1, 1)],
     "1900-01-01"),
    (pa.time64("us"), [datetime.time(1, 2), datetime.time(0, 0)], "00:00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "mark"), TYPED)
def test_what_is_named_is_a_gap_in_files_with_types_and_in_frames(kind, values, mark, tmp_path):
    table = pa.table({"a": pa.array(values).cast(kind), "b": ["NA", "null"]})
    pq.write_table(table, tmp_path / "a.parquet")
    for null_values in (mark, {"a": mark}):
        found = next(
            read_tables(tmp_path / "a.parquet", dialect=CsvDialect(null_values=null_values))
        )
        assert found["a"].is_null().to_pylist() == [False, True]
        assert found.schema.types == table.schema.types
        assert found["b"].to_pylist() == ["NA", "null"]  # what marks are values there
        preprocessor = TablePreprocessor(null_values=null_values)
        for frame in (table, table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)):
            column = preprocessor.view(frame).column("a")
            cells = column.codes < 0 if hasattr(column, "codes") else np.isnan(column.values)
            assert cells.tolist() == [False, True]


@pytest.mark.parametrize("mark", [0, 1, "n.v.", "2024-01-01"])
def test_what_is_no_value_of_a_type_is_not_looked_for(mark, tmp_path):
    table = pa.table({"a": [True, False], "b": [datetime.date(1970, 1, 1)] * 2, "c": [0.5, 2.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", mark) == table.to_pydict()


@pytest.mark.parametrize(
    "null_values",
    [True, float("nan"), [None], {"a": None}, {1: "x"}, {"a": {"b": 1}}, [["x"]], b"x", object()],
)
def test_what_cannot_be_a_mark_is_refused(null_values):
    with pytest.raises(ParameterError, match="must be text or a number that stands for no value"):
        CsvDialect(null_values=null_values)
    with pytest.raises(ParameterError, match="`null_values` must be"):
        TablePreprocessor(null_values=null_values)


def test_the_usual_marks_are_those_of_arrow_and_more():
    assert NullValues().gaps() == {*ConvertOptions().null_values, "\\N"}
    assert {"-", "None", "#N/V"} <= NullValues().number_gaps() - NullValues().gaps()


# -- models ----------------------------------------------------------------------------------------

N = 240
MARKS = ["--null-values", "gone", "--null-values", "age=-1", "--null-values", "country=",
         "--null-values", "y="]  # fmt: skip


def rows():
    """Rows without marks, and as a program writes them."""
    rng = np.random.default_rng(3)
    clean = pd.DataFrame({"age": rng.integers(18, 80, N), "size": rng.normal(size=N).round(3)})
    clean["country"] = rng.choice(["NAM", "DE", "FR"], N)
    clean["y"] = np.where((clean["age"] > 40) ^ (clean["country"] == "NAM"), "null_", "set")
    clean = clean.astype({"age": float})
    clean.loc[::11, "age"] = np.nan
    clean.loc[::7, "size"] = np.nan
    written = clean.assign(
        age=clean["age"].fillna(-1).astype(int),
        size=clean["size"].astype(object).where(clean["size"].notna(), "gone"),
        country=clean["country"].str.replace("NAM", "NA"),
        y=clean["y"].str.rstrip("_"),
    )
    return clean, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, and a model that the command made of them."""
    folder = tmp_path_factory.mktemp("nulls")
    clean, written = rows()
    clean.to_parquet(folder / "clean.parquet")
    written.to_csv(folder / "written.csv", index=False)
    learn = ["--target", "y", "--quiet", "--max-size", 20, "--passes", 2]
    for data, out, more in (("clean.parquet", "clean", []), ("written.csv", "written", MARKS)):
        words = ["fit", folder / data, "--out", folder / f"{out}.mercer", *learn, *more]
        assert command_line.run(*words) == 0
    return folder


def expected_of(folder):
    """Answers of the model of clean rows for these."""
    answers = load_model(folder / "clean.mercer").predict_proba(rows()[0])
    return np.round(answers, 9)


def answers_in(file):
    found = pd.read_csv(file, keep_default_na=False)
    return found[["probability_null", "probability_set"]].to_numpy().round(9)


def test_a_model_keeps_which_cells_are_gaps(folder):
    model, expected = load_model(folder / "written.mercer"), expected_of(folder)
    assert model.classes_.tolist() == ["null", "set"]
    words = ["predict", folder / "written.mercer", folder / "written.csv", "--out"]
    assert command_line.run(*words, folder / "answers.csv") == 0
    np.testing.assert_array_equal(answers_in(folder / "answers.csv"), expected)
    written = rows()[1]
    found = model.predict_proba(written.assign(size=pd.to_numeric(written["size"], "coerce")))
    np.testing.assert_array_equal(found.round(9), expected)


@pytest.mark.parametrize("named", ["y", "label"])
def test_evaluation_measures_classes_called_as_gaps(folder, named, capsys):
    data = folder / f"{named}.csv"
    rows()[1].rename(columns={"y": named}).to_csv(data, index=False)
    capsys.readouterr()
    words = ["evaluate", folder / "written.mercer", data, "--json", "--target", named]
    assert command_line.run(*words) == 0
    found = json.loads(capsys.readouterr().out)
    right = load_model(folder / "clean.mercer").predict(rows()[0]) == rows()[0]["y"]
    assert found["rows"] == N
    assert found["error_percent"] == pytest.approx(100 - 100 * right.mean())


def test_explanations_are_those_of_rows_with_gaps(folder, capsys):
    told = []
    for model, data in (("clean", "clean.parquet"), ("written", "written.csv")):
        capsys.readouterr()
        words = ["explain", folder / f"{model}.mercer", folder / data, "--rows", 3, "--json"]
        assert command_line.run(*words) == 0
        told.append(capsys.readouterr().out.replace("null_", "null").replace("NAM", "NA"))
    assert told[0].count("contribution") == told[1].count("contribution") > 0
    for one, other in zip(*(json.loads(text)["rows"] for text in told), strict=True):
        assert one["prediction"] == pytest.approx(other["prediction"])


def test_the_page_reads_files_and_rows_so(folder):
    answers, expected = Answers(load_model(folder / "written.mercer")), expected_of(folder)
    batch = answers.batch((folder / "written.csv").read_bytes())
    np.testing.assert_array_equal(answers_in(io.BytesIO(batch.csv)), expected)
    some = [{**row, "size": None if row["size"] == "gone" else row["size"]}
            for row in rows()[1].head(12).to_dict("records")]  # fmt: skip
    told = answers.rows([{k: v for k, v in row.items() if k != "y"} for row in some])
    found = [row["probability_null"] for row in told.predictions]
    np.testing.assert_allclose(found, expected[:12, 0], atol=1e-8)


def test_an_exported_model_reads_files_and_rows_so(folder, monkeypatch):
    assert command_line.run("export", folder / "written.mercer", "--out", folder / "m.py") == 0
    out = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["m.py", str(folder / "written.csv")])
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(folder / "m.py"), run_name="__main__")
    expected = expected_of(folder)
    np.testing.assert_allclose(answers_in(io.StringIO(out.getvalue())), expected, atol=1e-8)
    predict = runpy.run_path(str(folder / "m.py"))["predict_proba"]
    written = rows()[1].replace({"size": {"gone": None}}).drop(columns="y")
    for given in (written, written.to_dict("records")):
        np.testing.assert_allclose(predict(given), expected, atol=1e-8)


@pytest.mark.usefixtures("quickest_race")
def test_shards_are_read_so(tmp_path):
    for n in range(2):
        rows()[1].to_csv(tmp_path / f"{n}.csv", index=False)
    nulls = {"": "gone", "age": -1, "country": "", "y": ""}
    training = ShardTraining(tmp_path, "y", engine="here", null_values=nulls).start()
    training.run(tmp_path / "m.mercer")
    model = load_model(tmp_path / "m.mercer")
    assert (training.n_rows_, model.classes_.tolist()) == (2 * N, ["null", "set"])
    assert missing(model.audit_, "age") == 2 * len(range(0, N, 11))
    assert missing(model.audit_, "size") == 2 * len(range(0, N, 7))
    assert missing(model.audit_, "country") == 0


def missing(audit, name):
    return round(audit.n_rows * next(one.missing for one in audit if one.name == name))


def test_a_training_is_told_by_its_path_or_its_parameter(tmp_path):
    file = tmp_path / "a.csv"
    rows()[1].to_csv(file, index=False)
    told = CsvPath(file, CsvDialect(null_values={"age": -1, "size": "gone"}))
    options = {"expansion": KOMP(max_size=10)}
    by_path = FileTraining(told, "y", task="novelty").start()
    by_parameter = FileTraining(
        file, "y", task="novelty", null_values={"age": "-1", "size": ["gone"]}
    ).start()
    for training in (by_path, by_parameter):
        assert training.rows_.preprocessor.nulls_.columns == ["age", "size"]
        assert missing(training.model_.audit_, "age") == len(range(0, N, 11))
    with pytest.raises(ValueError, match=r"has no column 'aeg'.*'age'"):
        FileTraining(file, "y", null_values={"aeg": -1}, options=options).start()
    with pytest.raises(ValueError, match=r"\['null_values'\] are parameters of the training"):
        FileTraining(file, "y", columns={"null_values": -1})


def test_frames_have_the_gaps_that_a_table_model_was_told(tmp_path):
    x = np.arange(60.0) % 10
    frame = pd.DataFrame({"x": np.where(np.arange(60) % 6, x, -1), "y": 2.0 * x})
    clean = frame.assign(x=frame["x"].where(frame["x"] >= 0))
    found = []
    for rows_, more in ((clean, {}), (frame, {"null_values": {"x": -1}})):
        estimator = KernelRegressor(expansion=KOMP(max_size=10), normalize_y=True, random_state=0)
        columns = TablePreprocessor(exclude=("y",), **more)
        model = TableRows(estimator, columns, "y").partial_fit(rows_).model
        model.save(tmp_path / "m.mercer")
        found.append(load_model(tmp_path / "m.mercer").predict(rows_))
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match="`null_values` names a column, but the table has no"):
        TablePreprocessor(null_values={"z": 1}).fit(frame)


def test_numbers_that_look_like_marks_are_values_where_marks_are(tmp_path):
    x = np.arange(300.0) % 50
    x[::20] = 999
    frame = {"x": x, "z": np.arange(300) % 7}
    assert missing(TablePreprocessor().fit(frame).audit_, "x") == 15
    for null_values in ("", {"x": ""}):
        assert missing(TablePreprocessor(null_values=null_values).fit(frame).audit_, "x") == 0


def test_a_state_without_marks_is_as_before():
    table = {"x": [1.0, 2.0], "y": ["a", "b"]}
    seen = TablePreprocessor().fit(table)
    assert "null_values" not in seen.to_state()["params"]
    told = TablePreprocessor(null_values=[-1, "a"]).fit(table)
    again = TablePreprocessor.from_state(json.loads(json.dumps(told.to_state())))
    assert again.nulls_ == told.nulls_
    np.testing.assert_array_equal(again.transform(table), told.transform(table))


# -- streams ---------------------------------------------------------------------------------------


def record(text, **cells):
    return Record(cells, "row", is_text=text)


@pytest.mark.parametrize(
    ("null_values", "text", "cell", "expected"),
    [
        (None, True, "-", "gap"),
        (None, True, "#N/A", "gap"),
        (None, True, "n.d.", "gap"),
        (None, True, "-999", -999.0),
        (-999, True, "-999.000", "gap"),
        ({"a": -999}, False, -999, "gap"),
        ({"a": -999}, False, -999.0, "gap"),
        ({"b": -999}, False, -999.0, -999.0),
        ({"a": 1}, False, True, 1.0),
        ("gone", False, "gone", "gap"),
        ("gone", False, "stays", "error"),
        (None, True, " NA ", "gap"),
        (None, False, "NA", "error"),
        ({"a": ""}, True, "NA", "error"),
    ],
)
def test_gaps_of_streams(null_values, text, cell, expected):
    reader = RowReader("y", null_values=null_values, gaps=True, strict=True)
    row = record(text, a=cell, b="1" if text else 1, y="2" if text else 2)
    if expected == "error":
        fresh = RowReader("y", null_values=null_values, gaps=True, strict=True)
        assert fresh.read(row).x == {"a": cell, "b": 1.0}  # a first one begins a column of text
        reader.read(record(text, a="1" if text else 1, b="1" if text else 1, y="2" if text else 2))
        with pytest.raises(BadRowError, match="no number"):
            reader.read(row)
    else:
        assert reader.read(row).x == {"b": 1.0} | ({} if expected == "gap" else {"a": expected})


@pytest.mark.parametrize(
    ("null_values", "targets", "expected"),
    [
        (None, ["set", "null", "None"], ["set", None, "None"]),
        ({"y": ""}, ["set", "null", "NA"], ["set", "null", "NA"]),
        ("", ["null", "set", ""], ["null", "set", None]),
        ({"y": "unset"}, ["set", "unset"], ["set", None]),
        ({"y": -1}, ["3", "-1"], [3, None]),
        (None, ["-", "set", "-"], [None, "set", "-"]),  # nobody knows yet that these are names
    ],
)
def test_targets_of_streams(null_values, targets, expected):
    reader = RowReader("y", null_values=null_values)
    assert [reader.read(record(True, a="1", y=y)).y for y in targets] == expected


def test_marks_of_a_column_that_a_stream_lacks_are_refused():
    def reader():
        return RowReader("y", null_values={"height": -1}, needs_target=False)

    said = r"'heigth' for the `null_values`, .*Did you mean 'height'"
    with pytest.raises(ValueError, match=said):
        RowReader("y", null_values={"heigth": -1}).read(record(True, height="1", y="2"))
    assert reader().read(record(False, a=1.0, y=2)).x == {"a": 1.0}  # JSON names what it has
    goes_on = reader()
    goes_on.set_columns(["a"])
    assert goes_on.read(record(True, a="1", y="2")).x == {"a": 1.0}


def test_the_model_of_a_stream_keeps_its_marks(tmp_path):
    lines = ["a,y"] + [f"{-1 if n % 5 == 0 else n % 3},{n % 3}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "clean.csv").write_text("\n".join(lines).replace("-1,", ",") + "\n")
    learn = ["--target", "y", "--task", "regression", "--quiet"]
    for name, more in (("rows", ["--null-values", "a=-1"]), ("clean", [])):
        words = ["stream", tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}.mercer"]
        assert command_line.run(*words, *learn, *more) == 0
    assert load_model(tmp_path / "rows.mercer")._nulls.columns == ["a"]
    found = []
    for name in ("rows", "clean"):
        out = tmp_path / f"{name}.out.csv"
        words = ["predict", tmp_path / f"{name}.mercer", tmp_path / f"{name}.csv", "--out", out]
        assert command_line.run(*words) == 0
        found.append(pd.read_csv(out)["prediction"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("told", "read"), [(None, {}), ({"a": -2}, {"a": -1.0})])
def test_a_model_that_goes_on_has_its_marks_unless_others_are_told(told, read):
    def make(task):
        return KernelRegressor(expansion=Stream(), random_state=0)

    first = StreamTraining(
        RowReader("y", task="regression", null_values={"a": -1}, gaps=True), make
    )
    for n in range(4):
        first.take(record(True, a=str(n), b="1", y=str(n)))
    reader = RowReader("y", task="regression", null_values=told)
    StreamTraining(reader, make, model=first.estimator)
    assert reader.read(record(True, a="-1", b="1", y="2")).x == {"b": 1.0} | read


def test_a_classifier_takes_frames_as_they_are():
    frame = pd.DataFrame({"a": ["NA", "DE"] * 20, "b": np.arange(40) % 7})
    model = KernelClassifier(expansion=KOMP(max_size=10), random_state=0).fit(frame, frame["a"])
    assert model.classes_.tolist() == ["DE", "NA"]
