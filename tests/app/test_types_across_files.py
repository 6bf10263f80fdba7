"""Types of columns that differ from file to file, or from one part of a file to the next."""

import json
import os
import re
import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather
from pyarrow import parquet as pq

from command_line import run
from mercer import load_model
from mercer.columns.null_values import Unreadable
from mercer.expansions import KOMP
from mercer_app.files import csv_files, read_tables, schema
from mercer_app.files.tables import place_of
from mercer_app.training import FileTraining
from mercer_cluster import ShardTraining

N = 120


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Infer from 1,000 bytes and the last 500, and read 256 at a time."""
    monkeypatch.setattr(csv_files, "INFERENCE_BYTES", 1000)
    monkeypatch.setattr(csv_files, "LAST_BYTES", 500)
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 256)


def columns(n=N):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=n), rng.integers(1, 9, n)
    return x, z, 3.0 * x + z


def write_csv(path, cells, *, late=None, at=80):
    """Write whole numbers, of which one cell, behind those that are looked at, is another."""
    x, _, y = columns(len(cells))
    rows = [f"{a:.6f},{b},{c:.6f}" for a, b, c in zip(x, cells, y, strict=True)]
    if late is not None:
        rows[at] = f"{x[at]:.6f},{late},{y[at]:.6f}"
    path.write_text("x,z,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def read(path, **settings):
    tables = list(read_tables(path, **settings))
    return [cell for table in tables for cell in table.column("z").to_pylist()]


# -- one file -------------------------------------------------------------------------------------

FITTING = {
    "3.5": 3.5,
    "18446744073709551616": 2.0**64,
    "-9223372036854775809": -(2.0**63),
    "1e3": 1000.0,
    '"1,234"': 1234.0,
    " 7 ": 7,
    "-": None,
    "": None,
}


@pytest.mark.parametrize("late", FITTING)
@pytest.mark.parametrize("rows_per_table", [7, 8192])
def test_numbers_of_other_forms_are_numbers(tmp_path, late, rows_per_table):
    _, z, _ = columns()
    found = read(write_csv(tmp_path / "a.csv", z, late=late), rows_per_table=rows_per_table)
    assert found == [*z[:80].tolist(), FITTING[late], *z[81:].tolist()]


@pytest.mark.parametrize("late", ["many", "3.5 km", "2024-01-31", "true"])
def test_a_cell_that_is_none_is_a_gap_or_an_error_with_its_line(tmp_path, late):
    _, z, _ = columns()
    path = write_csv(tmp_path / "a.csv", z, late=late)
    seen = Unreadable(strict=False)
    assert read(path, unreadable=seen) == [*z[:80].tolist(), None, *z[81:].tolist()]
    assert seen.counts == {"z": 1}
    place = "line 82 of a.csv"
    assert seen.first["z"][1:] == (late, place)
    with pytest.raises(ValueError, match=f"{place}: .*'z' holds '{late}', which cannot be"):
        read(path)


@pytest.mark.parametrize(
    ("cells", "late", "value"),
    [
        (["2024-01-31"], "soon", None),
        (["2024-01-31"], "2024-02-01", date(2024, 2, 1)),
        (["true", "false"], "perhaps", None),
        (["13:30:00"], "noon", None),
        (["0.5"], "half", None),
        (["0.5"], '"1,234.5"', 1234.5),
    ],
)
def test_columns_of_other_types_have_gaps_as_well(tmp_path, cells, late, value):
    path = write_csv(tmp_path / "a.csv", cells * (N // len(cells)), late=late)
    seen = Unreadable(strict=False)
    found = read(path, unreadable=seen)
    assert found[80] == value
    assert None not in found[:80] + found[81:]
    assert seen.counts == ({"z": 1} if value is None else {})


def test_all_cells_are_counted_and_the_first_is_named(tmp_path):
    path = write_csv(tmp_path / "a.csv", ["1"] * 100 + ["no", "2", "2", "2"] * 50, late=None)
    seen = Unreadable(strict=False)
    # Behind the end that is looked at, which is text by a quarter: so all are.
    assert read(path, unreadable=seen)[100] == "no"
    path = write_csv(tmp_path / "a.csv", ["1"] * 100 + ["no", "2"] * 50 + ["1"] * 100)
    assert read(path, unreadable=seen)[99:102] == [1, None, 2]
    assert seen.counts == {"z": 50}
    assert seen.first["z"][1:] == ("no", "line 102 of a.csv")


def test_the_end_of_a_file_tells_types_too(tmp_path):
    assert str(schema(write_csv(tmp_path / "a.csv", ["1"] * 99 + ["1.5"])).field("z").type) == (
        "double"
    )
    codes = ["94007"] * 80 + ["94007-2585"] * 40
    assert set(read(write_csv(tmp_path / "b.csv", codes))) == {"94007", "94007-2585"}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_other_encodings_and_comments_are_read_in_the_same_way(tmp_path, encoding):
    _, z, _ = columns()
    path = write_csv(tmp_path / "a.csv", z, late="many")
    text = "# Grüße\n" + path.read_text("utf-8").replace("\n", "\r\n")
    path.write_bytes(text.encode(encoding))
    seen = Unreadable(strict=False)
    assert read(path, unreadable=seen)[80] is None
    assert seen.first["z"][2] == "line 83 of a.csv"


# -- folders --------------------------------------------------------------------------------------

A, B = slice(0, 50), slice(50, N)
_, Z, _ = columns()
PARTS = {
    "whole, then fractions": (Z[A], Z[B] + 0.5),
    "fractions, then whole": (Z[A] + 0.5, Z[B]),
    "nothing, then whole": (pa.nulls(50), Z[B]),
    "nothing, then text": (pa.nulls(50), ["ab", "cd"] * 35),
    "whole, then nothing": (Z[A], pa.nulls(70)),
    "whole, then text": (Z[A], [f"{z}-a" for z in Z[B]]),
    "text, then whole": ([f"{z}-a" for z in Z[A]], Z[B]),
    "large, then larger": (Z[A], Z[B].astype(np.float64) * 2.0**64),
    "dates, then moments": (
        [date(2024, 1, z) for z in Z[A]],
        [f"2024-02-0{z} 10:30" for z in Z[B]],
    ),
}
TYPED = {
    "bytes, then whole": (Z[A].astype(np.int8), Z[B]),
    "unsigned, then signed": (Z[A].astype(np.uint64), -Z[B]),
    "truth, then whole": (Z[A] > 4, Z[B]),
    "truth, then fractions": (Z[A] > 4, Z[B] + 0.5),
    "decimals, then fractions": ([Decimal(int(z)) / 4 for z in Z[A]], Z[B] + 0.5),
    "categories, then text": (pa.array(list("ab") * 25).dictionary_encode(), list("bc") * 35),
    "text, then large text": (list("ab") * 25, pa.array(list("bc") * 35, pa.large_string())),
    "categories of whole numbers": (pa.array(Z[A]).dictionary_encode(), Z[B] + 0.5),
    "dates, then nanoseconds": (
        [date(2024, 1, z) for z in Z[A]],
        pa.array(Z[B], pa.timestamp("ns")),
    ),
    "seconds, then nanoseconds": (
        pa.array(Z[A] * 10**5, pa.timestamp("s")),
        pa.array(Z[B] * 10**14 + 1, pa.timestamp("ns", "UTC")),
    ),
    "times": (pa.array(Z[A].astype(np.int32), pa.time32("s")), pa.array(Z[B], pa.time64("ns"))),
    "durations": (pa.array(Z[A], pa.duration("s")), pa.array(Z[B], pa.duration("ns"))),
    "single, then double": (np.float32(Z[A]), Z[B] + 0.5),
}


def write_folder(folder, parts, kind):
    folder.mkdir(exist_ok=True)
    x, _, y = columns()
    for number, (rows, z) in enumerate(zip((A, B), parts, strict=True)):
        table = pa.table({"x": x[rows], "z": z, "y": y[rows]})
        place = str(folder / f"{number}.{kind}")
        if kind == "csv":
            table.to_pandas().to_csv(place, index=False)
        elif kind == "parquet":
            pq.write_table(table, place)
        else:
            feather.write_feather(table, place)
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in PARTS for kind in ("csv", "parquet", "feather")]
    + [(name, kind) for name in TYPED for kind in ("parquet", "feather")],
)
def test_files_of_a_folder_may_hold_a_column_as_other_types(tmp_path, name, kind):
    parts = TYPED[name] if name in TYPED else PARTS[name]
    found = read(write_folder(tmp_path / "f", parts, kind))
    assert len(found) == N
    gaps = [None if isinstance(part, pa.NullArray) else len(part) for part in parts]
    for cells, n in zip((found[A], found[B]), gaps, strict=True):
        assert (None in cells) == (n is None)
    assert len({type(cell) for cell in found if cell is not None}) == 1


def test_whole_numbers_of_64_bits_stay_exact_where_all_files_have_such(tmp_path):
    keys = np.arange(N, dtype=np.int64) + 2**62
    for kind in ("csv", "parquet", "feather"):
        assert read(write_folder(tmp_path / kind, (keys[A], keys[B]), kind)) == keys.tolist()


def test_places_in_folders_are_lines_of_their_files(tmp_path):
    folder = write_folder(tmp_path / "f", (Z[A], Z[B]), "csv")
    assert [place_of(folder, row) for row in (0, 49, 50, N - 1)] == [
        "line 2 of 0.csv",
        "line 51 of 0.csv",
        "line 2 of 1.csv",
        "line 71 of 1.csv",
    ]


# -- learning -------------------------------------------------------------------------------------

QUICK = {"expansion": "dictionary"}


def file_training(path, out, **settings):
    training = FileTraining(path, "y", options=QUICK, **settings).start()
    training.run(out)
    return training


def shard_training(path, out, **settings):
    training = ShardTraining(path, "y", options=QUICK, engine="here", **settings).start()
    training.run(out)
    return training


BOTH = pytest.mark.parametrize("train", [file_training, shard_training])


@BOTH
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_whole_numbers_and_then_fractions_are_learned(tmp_path, train, kind):
    folder = write_folder(tmp_path / "f", PARTS["whole, then fractions"], kind)
    model = train(folder, tmp_path / "a.mercer").model_
    assert {"x", "z"} == set(model.preprocessor_.feature_names_in_)
    assert len(model.predict({"x": [0.0, 1.0], "z": [3, 4]})) == 2


@BOTH
def test_cells_that_cannot_be_read_are_said_once_with_count_and_place(tmp_path, train):
    write_folder(tmp_path / "f", (Z[A], Z[B]), "csv")
    cells = ["5"] * 90 + ["many", "few"] + ["4"] * 108
    write_csv(tmp_path / "f" / "2.csv", cells)
    with pytest.warns(UserWarning, match=r"'z' has 2 cells .* 'many' in line 92 of 2\.csv") as w:
        train(tmp_path / "f", tmp_path / "a.mercer")
    assert sum("cells" in str(one.message) for one in w) == 1
    with pytest.raises(ValueError, match=r"line 92 of 2\.csv: .*'z' holds 'many'"):
        train(tmp_path / "f", tmp_path / "a.mercer", strict=True)


@BOTH
def test_cells_of_text_that_is_read_as_numbers_are_counted_beyond_the_first_rows(tmp_path, train):
    prices = [f"${z}{i}.50" for i, z in enumerate([*Z, *Z])]
    prices[200] = "free"
    write_csv(tmp_path / "a.csv", prices)
    settings = {"warmup_rows": 100} if train is file_training else {}
    with pytest.warns(UserWarning, match=r"'z' has 1 cell .* number, first 'free' in line 202 of"):
        train(tmp_path / "a.csv", tmp_path / "a.mercer", **settings)


@BOTH
def test_told_kinds_decide_how_cells_are_read(tmp_path, train):
    codes = ["94007", "02139", "10115"] * 20 + ["94007-2585", "02139", "10115"] * 20
    write_csv(tmp_path / "a.csv", [code.lstrip("0") for code in codes[:60]])
    write_csv(tmp_path / "b.csv", codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = train(
            tmp_path / "*.csv", tmp_path / "a.mercer", columns={"kinds": {"z": "category"}}
        ).model_
    names = model.preprocessor_.feature_names_out()
    assert {"z=02139", "z=2139", "z=94007", "z=94007-2585"} <= set(names)


@BOTH
def test_told_categories_of_64_bits_are_not_rounded(tmp_path, train):
    codes = [2**62 + int(z) for z in Z]
    write_csv(tmp_path / "a.csv", codes)
    model = train(
        tmp_path / "a.csv", tmp_path / "a.mercer", columns={"kinds": {"z": "category"}}
    ).model_
    assert {f"z={code}" for code in codes} <= set(model.preprocessor_.feature_names_out())


def test_a_run_that_went_on_has_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer_app.training._row_stream._CHUNK", 64)
    write_csv(tmp_path / "a.csv", [*Z, *Z], late="many", at=110)
    first = FileTraining(tmp_path / "a.csv", "y", options={"expansion": "komp"}).start()
    with pytest.warns(UserWarning, match="'z' has 1 cell"):
        first.run(tmp_path / "b.mercer")
    halted = FileTraining(tmp_path / "a.csv", "y", options={"expansion": "komp"}).start()
    assert not halted.run(tmp_path / "c.mercer", checkpoint_every=64, callback=lambda _: True)
    again = FileTraining(tmp_path / "a.csv", "y", options={"expansion": "komp"})
    again.resume(tmp_path / "c.mercer.checkpoint")
    with pytest.warns(UserWarning, match="'z' has 1 cell"):
        again.run(tmp_path / "c.mercer")
    assert (tmp_path / "b.mercer").read_bytes() == (tmp_path / "c.mercer").read_bytes()


def test_what_was_learned_before_an_error_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 2**16)
    path = write_csv(tmp_path / "a.csv", np.resize(Z, 20_000))
    with open(path, "a") as file:
        file.write("1,2,3,4,5\n")
    few = {"expansion": KOMP(max_size=3)}
    training = FileTraining(path, "y", warmup_rows=100, shuffle_buffer=0, options=few).start()
    with pytest.raises(ValueError, match=r"line 20,002 has 5 cells") as error:
        training.run(tmp_path / "a.mercer")
    assert not (tmp_path / "a.mercer").exists()
    (said,) = error.value.__notes__
    assert re.search(
        r"rows had been learned. The model of them is kept as .*a\.partial\.mercer", said
    )
    model = load_model(tmp_path / "a.partial.mercer")
    assert model.n_samples_seen_ == training.n_rows_ > 0
    write_csv(path, np.resize(Z, 300))  # mended: nothing of the failure stays
    FileTraining(path, "y", warmup_rows=100, options=few).start().run(tmp_path / "a.mercer")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.csv", "a.mercer"]


def test_the_command_says_it_and_refuses_if_it_is_to_be_strict(tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", Z, late="many")
    words = ("fit", path, "--target", "y", "--expansion", "dictionary", "--out")
    assert run(*words, tmp_path / "a.mercer") == 0
    assert "'z' has 1 cell that cannot be read as a number, first 'many' in line 82 of a.csv" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert run(*words, tmp_path / "b.mercer", "--strict") == 2
    assert "line 82 of a.csv: the column 'z' holds 'many'" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert not (tmp_path / "b.mercer").exists()


# -- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("late", ["many", "3.5 km"])
def test_a_stream_takes_cells_that_are_no_numbers_for_gaps(tmp_path, capsys, kind, late):
    _, z, _ = columns()
    path = write_csv(tmp_path / "a.csv", z, late=late)
    line = 82
    if kind == "jsonl":
        path, line = tmp_path / "a.jsonl", 81
        rows = [{"x": x, "z": int(z), "y": y} for x, z, y in zip(*columns(), strict=True)]
        rows[80]["z"] = late
        path.write_text("\n".join(map(json.dumps, rows)))
    words = ("stream", path, "--target", "y", "--task", "regression", "--out")
    assert run(*words, tmp_path / "a.mercer") == 0
    said = " ".join(capsys.readouterr().err.split())
    place = f"'{late}' in line {line} of a.{kind}"
    assert f"'z' has 1 cell that cannot be read as a number, first {place}" in said
    assert load_model(tmp_path / "a.mercer").n_samples_seen_ == N
    assert run(*words, tmp_path / "b.mercer", "--strict") == 2
    assert f"line {line} of a.{kind}: the column 'z' holds" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_a_stream_of_a_folder_may_have_other_types_in_each_file(tmp_path, kind):
    folder = write_folder(tmp_path / "f", PARTS["whole, then fractions"], kind)
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    out = tmp_path / "a.mercer"
    assert run("stream", folder, "--target", "y", "--task", "regression", "--out", out) == 0
    assert load_model(out).n_samples_seen_ == N
