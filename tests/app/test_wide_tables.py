"""Tables of thousands of columns; files that all of a command looks at once."""

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.columns.null_values import Unreadable
from mercer.expansions import Dictionary
from mercer_app.export import export_python
from mercer_app.files import read_tables, schema, tables
from mercer_app.files.csv_files import Csv
from mercer_app.files.tables import TableFiles
from mercer_app.models.files import as_learned, load_table_rows
from mercer_app.models.predictions import check_columns
from mercer_app.serve import Answers
from mercer_app.training import FileTraining
from mercer_cluster import ShardTraining

pytestmark = pytest.mark.usefixtures("quickest_race", "few_steps")

WIDE, ROWS, NEW = 3000, 60, 5
LONGEST = 2000  # characters of a message


def wide(n=ROWS + NEW, seed=0):
    """Numbers, of which some have gaps, and every tenth column text."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, WIDE)).round(3)
    columns = {}
    for i in range(WIDE):
        if i % 10 == 9:
            columns[f"c{i}"] = pd.Series(np.where(X[:, i] > 0, "up", "down"))
        else:
            columns[f"c{i}"] = pd.Series(X[:, i]).mask(rng.random(n) < 0.1 * (i % 10 == 8))
    return pd.DataFrame(columns), np.where(X[:, 0] + (X[:, 9] > 0) > 0.5, "yes", "no")


def classifier():
    return KernelClassifier(kernel="gaussian", expansion=Dictionary(30), random_state=0)


def is_short(error):
    return len(str(error.value)) < LONGEST


# -- frames ---------------------------------------------------------------------------------------

WAYS = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}


@pytest.mark.parametrize("way", WAYS)
def test_frames_of_thousands_of_columns_are_learned(way):
    frame, y = wide()
    learned, new = WAYS[way](frame[:ROWS]), WAYS[way](frame[ROWS:])
    model = classifier().fit(learned, y[:ROWS])
    answers = model.predict_proba(new)
    assert answers.shape == (NEW, 2)
    assert np.isfinite(answers).all()
    alone = model.predict_proba(WAYS[way](frame[ROWS : ROWS + 1]))
    np.testing.assert_allclose(alone[0], answers[0], rtol=1e-9)
    again = pickle.loads(pickle.dumps(model)).predict_proba(new)
    np.testing.assert_array_equal(again, answers)


@pytest.mark.parametrize("numbers", [True, False])
def test_wrong_columns_of_wide_frames_are_told_shortly(numbers):
    frame, y = wide()
    frame = frame[[f"c{i}" for i in range(WIDE) if i % 10 < 8]] if numbers else frame
    model = classifier().fit(frame[:ROWS], y[:ROWS])
    others = {
        "c1": frame[ROWS:].drop(columns="c1"),
        "unseen": frame[ROWS:].assign(unseen=1.0),
        "c0": frame[ROWS:].assign(c0="much"),
        "names": frame[ROWS:].set_axis([f"d{i}" for i in range(frame.shape[1])], axis=1),
    }
    for said, rows in others.items():
        with pytest.raises(ValueError, match=said) as error:
            model.predict(rows)
        assert is_short(error)


def test_roles_and_categories_that_are_no_columns_are_told_shortly():
    frame, y = wide()
    for options in ({"groups": "c3001"}, {"time": "c3001"}):
        with pytest.raises(ValueError, match=r"'c3001'.* Did you mean 'c\d+'") as error:
            KernelClassifier(random_state=0).fit(frame, y, **options)
        assert is_short(error)
    named = [f"d{i}" for i in range(WIDE)]
    for rows in (frame, frame.select_dtypes("number").fillna(0.0).to_numpy()):
        with pytest.raises(ValueError, match="`categorical_features`") as error:
            classifier().set_params(categorical_features=named).fit(rows, y)
        assert is_short(error)
    with pytest.raises(ValueError, match="got 3 in 'c0' and 2 in 'c7'"):
        TablePreprocessor().fit({f"c{i}": [1, 2, 3][: 3 - (i == 7)] for i in range(WIDE)})


def test_rows_of_a_wide_stream_are_told_shortly():
    rng = np.random.default_rng(0)
    model = KernelRegressor(kernel="gaussian", expansion="komp")
    row = dict(zip((f"c{i}" for i in range(WIDE)), rng.normal(size=WIDE).tolist(), strict=True))
    for _ in range(3):
        model.learn_one(row, 1.0)
    assert np.isfinite(model.predict_one(row))
    few = {name: row[name] for name in list(row)[:5]}
    for wrong in (few, {**row, **{f"d{i}": 0.0 for i in range(WIDE)}}, {**row, "c7": np.nan}):
        with pytest.raises(ValueError, match="row") as error:
            model.predict_one(wrong)
        assert is_short(error)


def test_statistics_of_other_columns_do_not_merge_and_this_is_told_shortly():
    frame, _ = wide()
    one, other = (
        TablePreprocessor(warmup_rows=None).partial_fit(rows)
        for rows in (frame, frame.add_prefix("d"))
    )
    with pytest.raises(ValueError, match="cannot be merged") as error:
        one.merge(other)
    assert is_short(error)


def test_odd_cells_of_many_columns_are_told_of_some():
    seen = Unreadable(strict=False)
    for i in range(WIDE):
        seen.add(f"c{i}", "number", 2, "many", "line 7 of a.csv")
    said = seen.said()
    assert len(said) == 21
    assert said[-1] == "So it is with 2,980 more columns."


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    frame, y = wide()
    frame.assign(y=y)[:ROWS].to_csv(folder / "learned.csv", index=False)
    new = frame[ROWS:]
    new.to_csv(folder / "new.csv", index=False)
    new.assign(y=y[ROWS:]).to_csv(folder / "test.csv", index=False)
    new[["c0", "c1"]].to_csv(folder / "few.csv", index=False)
    others = pd.DataFrame(1, new.index, [f"d{i}" for i in range(WIDE)])
    pd.concat([new, others], axis=1).to_csv(folder / "many.csv", index=False)
    new.assign(c0="much", c10="more").to_csv(folder / "text.csv", index=False)
    return folder


WORDS = ("--target", "y", "--kernel", "gaussian", "--expansion", "dictionary", "--max-size", "30")


@pytest.fixture(scope="module")
def model(folder, quickest_race):
    place = folder / "model.mercer"
    assert run("fit", folder / "learned.csv", *WORDS, "--out", place, "--quiet") == 0
    return place


def test_files_of_thousands_of_columns_are_learned(folder, model, capsys):
    assert run("predict", model, folder / "new.csv", "--out", folder / "answers.csv") == 0
    capsys.readouterr()
    answers = pd.read_csv(folder / "answers.csv")["probability_yes"].to_numpy()
    new = pa.concat_tables(read_tables(folder / "new.csv"))
    np.testing.assert_allclose(load_model(model).predict_proba(new)[:, 1], answers, rtol=1e-9)


def test_wrong_columns_of_wide_files_are_told_shortly(folder, model, capsys):
    for name, said in (("few.csv", "has no columns 'c2'"), ("text.csv", "'c0' held numbers")):
        capsys.readouterr()
        assert run("predict", model, folder / name, "--out", folder / "none.csv") == 2
        found = capsys.readouterr().err
        assert said in found
        assert len(found) < LONGEST
    assert run("predict", model, folder / "many.csv", "--out", folder / "other.csv") == 0
    found = capsys.readouterr().err
    assert "'d0', 'd1'" in found
    assert "more" in found
    assert len(found) < LONGEST
    reads = load_table_rows(model)
    with pytest.raises(ValueError, match="has no columns") as error:
        check_columns(reads, as_learned(reads, folder / "few.csv"), ())
    assert is_short(error)


def test_one_row_of_thousands_of_columns_is_answered_by_the_page(folder, model):
    answers, (new,) = Answers(load_model(model)), read_tables(folder / "new.csv")
    row = new.slice(0, 1).to_pylist()[0]
    expected = load_model(model).predict(new)[0]
    assert answers.rows([row]).predictions[0]["prediction"] == expected
    for wrong, said in (
        ({name: row[name] for name in ("c0", "c1")}, "has no columns 'c2'"),
        ({**row, "c0": "much"}, "'c0' held numbers"),
        ({**row, "c9": 1.0}, "'c9' held text"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            answers.rows([wrong])
        assert is_short(error)
    told = answers.rows([{**row, **{f"d{i}": 1 for i in range(WIDE)}}])
    assert told.predictions[0]["prediction"] == expected
    assert sum(map(len, told.notes)) < LONGEST


def test_an_exported_model_tells_shortly_which_columns_are_missing(model, tmp_path):
    export_python(load_model(model), tmp_path / "model.py")
    names = {"__name__": "model"}
    exec((tmp_path / "model.py").read_text(), names)
    with pytest.raises(ValueError, match="no column 'c2'") as error:
        names["predict"]({"c0": [1.0], "c1": [1.0]})
    assert is_short(error)


# -- files are looked at once ---------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch):
    """How often the columns of each file were looked for."""
    counts = Counter()

    def counting(kind):
        plain = kind.schema

        def schema(file):
            counts[file.name] += 1
            return plain(file)

        monkeypatch.setattr(kind, "schema", staticmethod(schema))

    for kind in (Csv, tables._Parquet):
        counting(kind)
    return counts


def points(n=120):
    rng = np.random.default_rng(1)
    x, kind = rng.normal(size=n).round(3), rng.choice(["a", "b", "c"], n)
    return pd.DataFrame({"x": x, "kind": kind, "y": (x + (kind == "a")).round(3)})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_command_looks_once_at_the_columns_of_each_file(ending, tmp_path, looks):
    learned, test, new = (tmp_path / f"{name}.{ending}" for name in ("learned", "test", "new"))
    for file, rows in ((learned, points()), (test, points(30)), (new, points(20))):
        rows.to_csv(file, index=False) if ending == "csv" else pq.write_table(
            pa.Table.from_pandas(rows), file
        )
    model, out = tmp_path / "a.mercer", tmp_path / "out.csv"
    commands = (
        ("fit", learned, "--target", "y", "--test", test, "--out", model, "--passes", 1),
        ("fit", learned, "--target", "y", "--out", model, "--report", tmp_path / "a.html"),
        ("fit", learned, "--target", "y", "--out", model, "--kind", "x=number"),
        ("fit", learned, "--target", "y", "--out", model, "--engine", "here"),
        ("fit", learned, "--target", "y", "--out", model, "--null-values", "c"),
        ("predict", model, new, "--out", out),
        ("predict", model, new, "--out", out, "--interval", 0.8, "--calibrate", test),
        ("predict", model, new, "--out", tmp_path / "folder", "--engine", "here"),
        ("evaluate", model, test),
        ("explain", model, new, "--background", test),
    )
    for words in commands:
        looks.clear()
        assert run(*words) == 0
        read = {file.name: 1 for file in (learned, test, new) if file in words}
        assert looks == read, words


def test_a_training_looks_once_at_the_columns_of_its_files(tmp_path, looks):
    for name in "ab":
        points().to_csv(tmp_path / f"{name}.csv", index=False)
    for training in (
        FileTraining(tmp_path / "*.csv", "y", n_passes=2, options={"expansion": "komp"}),
        ShardTraining(tmp_path / "*.csv", "y", engine="here", options={"expansion": "dictionary"}),
    ):
        looks.clear()
        training.start().run(tmp_path / "a.mercer")
        assert looks == {"a.csv": 1, "b.csv": 1}


def test_a_page_looks_once_at_the_columns_of_a_file(tmp_path, looks):
    model = classifier().fit(points()[["x", "kind"]], (points()["y"] > 0).to_numpy())
    answers = Answers(model)
    looks.clear()
    assert answers.batch(points(10).to_csv(index=False).encode()).n_rows == 10
    assert looks == {"file.csv": 1}


def test_a_training_looks_again_when_it_begins_again(tmp_path):
    for name, cells in (("a", [b"1"]), ("b", ["2"])):
        pq.write_table(pa.table({"x": [1.0], "y": cells}), tmp_path / f"{name}.parquet")
    training = FileTraining(tmp_path, "y")
    with pytest.raises(ValueError, match="no type has in common"):
        training.start()
    (tmp_path / "b.parquet").unlink()
    pq.write_table(pa.Table.from_pandas(points()), tmp_path / "a.parquet")
    assert training.start().rows_.preprocessor.n_samples_seen_ == 120


def test_a_page_says_why_a_model_that_keeps_no_rows_explains_nothing(monkeypatch):
    model = classifier().fit(points()[["x", "kind"]], (points()["y"] > 0).to_numpy())
    assert not Answers(model).no_explanation
    monkeypatch.setattr(type(model._explained()), "background", lambda *_: None)
    assert Answers(model).no_explanation.startswith("`background` must be given")


def test_files_that_were_found_are_those_of_their_path(tmp_path):
    points().to_csv(tmp_path / "a.csv", index=False)
    found = TableFiles(tmp_path / "*.csv")
    assert str(found) == str(tmp_path / "*.csv")
    assert TableFiles.of(found) is found
    assert schema(found) == schema(tmp_path / "a.csv")
    assert schema(found, column_types={"x": "string"}).field("x").type == pa.string()
    again = pickle.loads(pickle.dumps(found))
    assert again.columns.names == ["x", "kind", "y"]


def test_told_types_settle_columns_that_no_type_holds_in_all_files(tmp_path):
    for name, cells in (("a", [b"1"]), ("b", ["2"])):
        pq.write_table(pa.table({"x": [1.0], "z": cells}), tmp_path / f"{name}.parquet")
    found = TableFiles(tmp_path)
    assert found.columns.names == ["x", "z"]
    with pytest.raises(ValueError, match="'z' is of type string, which no type has in common"):
        found.columns.typed()
    cells = [t.column("z").to_pylist() for t in read_tables(found, column_types={"z": "string"})]
    assert cells == [["1", "2"]]
