"""Cells that cannot be what their column is, in rows to predict or to measure: gaps, and said."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run
from mercer import load_model

pytestmark = pytest.mark.usefixtures("quickest_race")

N = 120
RNG = np.random.default_rng(0)
A, Z = RNG.normal(size=N).round(3), RNG.integers(0, 9, N)
FRAME = pd.DataFrame(
    {
        "a": A,
        "z": Z,
        "day": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
        "price": [f"${1000 + 7 * n:,}" for n in range(N)],
        "y": (A + 0.3 * Z).round(4),
    }
)
# Cells, with what each column is.
ODD = {"a": ("a number", "n/a?"), "z": ("a number", "many"), "day": ("a date", "soon")}


def odd(places):
    frame = FRAME.astype(object)
    for name, rows in places.items():
        frame.loc[rows, name] = ODD[name][1]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files, and a model of the one without odd cells."""
    folder = tmp_path_factory.mktemp("odd")
    FRAME.to_csv(folder / "rows.csv", index=False)
    odd({"z": [5, 90], "day": [7]}).to_csv(folder / "odd.csv", index=False)
    odd({"z": list(range(100))}).to_csv(folder / "other.csv", index=False)
    words = ["--target", "y", "--out", folder / "m.mercer", "--quiet"]
    assert run("fit", folder / "rows.csv", *words) == 0
    return folder


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_odd_cells_of_files_are_gaps_and_counted(folder, mercer, tmp_path, command):
    more = ["--out", tmp_path / "p.csv"] if command == "predict" else ["--json"]
    code, out, err = mercer(command, folder / "m.mercer", folder / "odd.csv", *more)
    assert code == 0, err
    assert (
        "'z' has 2 cells that cannot be read as a number, first 'many' in line 7 of odd.csv" in err
    )
    assert (
        "'day' has 1 cell that cannot be read as a date, first 'soon' in line 9 of odd.csv" in err
    )
    rows = len(pd.read_csv(tmp_path / "p.csv")) if command == "predict" else json.loads(out)["rows"]
    assert rows == N


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_strict_commands_refuse_them_with_the_line(folder, mercer, tmp_path, command):
    more = ["--out", tmp_path / "p.csv"] if command == "predict" else []
    code, _, err = mercer(command, folder / "m.mercer", folder / "odd.csv", "--strict", *more)
    assert code == 2
    assert "line 7 of odd.csv: the column 'z' holds 'many'" in err


def test_they_are_predicted_as_gaps_are(folder, mercer, tmp_path):
    places = {"z": [5, 90], "day": [7]}
    gaps = FRAME.astype(object)
    for name, rows in places.items():
        gaps.loc[rows, name] = None
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    for name, file in (("odd", folder / "odd.csv"), ("gaps", tmp_path / "gaps.csv")):
        words = ["predict", folder / "m.mercer", file, "--out", tmp_path / f"{name}.parquet"]
        assert mercer(*words)[0] == 0
    pd.testing.assert_frame_equal(
        *(pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("odd", "gaps"))
    )


def test_a_column_of_something_else_is_refused(folder, mercer, tmp_path):
    words = ["predict", folder / "m.mercer", folder / "other.csv", "--out", tmp_path / "p.csv"]
    code, _, err = mercer(*words)
    assert code == 2
    assert "'z' held numbers in training but now holds 'many' in line 2 of other.csv" in err
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("name", ODD)
def test_tables_in_python_have_gaps_there_too(folder, name):
    model = load_model(folder / "m.mercer")
    frame = FRAME.drop(columns="y")
    bad = odd({name: [3, 8]}).drop(columns="y")
    what, cell = ODD[name]
    gaps = frame.astype(object)
    gaps.loc[[3, 8], name] = None
    said = f"'{name}' has 2 cells that cannot be read as {what}, first '{cell[:3]}.*' in row 3"
    with pytest.warns(UserWarning, match=said.replace("?", r"\?")):
        found = model.predict(bad)
    np.testing.assert_array_equal(found, model.predict(gaps))
    with pytest.raises(ValueError, match=f"'{name}' held .* in training but now holds"):
        model.predict(bad.loc[[3, 8]])


def test_text_of_the_form_of_its_column_is_counted_as_well(folder):
    model = load_model(folder / "m.mercer")
    bad = FRAME.drop(columns="y")
    bad.loc[4, "price"] = "free"
    with pytest.warns(UserWarning, match="'price' has 1 cell .* a number, first 'free' in row 4"):
        model.predict(bad)
