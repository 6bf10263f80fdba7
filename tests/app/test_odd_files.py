"""Files as people have them, through `mercer fit` as a newcomer would: what must become of each."""

import gzip
import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer import load_model
from mercer_app.cli import main

N = 120
DRAWN = np.random.default_rng(0)  # for the files below, when they are made
X, Z = DRAWN.normal(size=(2, N)).round(3)
Y = np.where(X + 0.3 * Z > 0, "yes", "no")
Q = (3.0 * X + Z + DRAWN.normal(size=N) / 10).round(2)


def text(columns, delimiter=",", write=str, header=True):
    """Return a file of columns; cells with the delimiter are quoted."""

    def cell(value):
        shown = write(value)
        return f'"{shown}"' if delimiter in shown else shown

    rows = [delimiter.join(columns)] if header else []
    rows += [delimiter.join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join(rows) + "\n"


def with_column(name, values, target=None):
    return text({"x": X, name: values, "y": Q if target is None else target})


def comma(value):
    return str(value).replace(".", ",") if isinstance(value, float) else str(value)


def many(*kinds):
    return [kinds[i % len(kinds)] for i in range(N)]


def days(written):
    dates = np.datetime64("2023-01-01") + DRAWN.integers(0, 700, N)
    return [day.item().strftime(written) for day in dates]


BASE = {"x": X, "z": Z, "y": Q}
CLASSES = {"x": X, "z": Z, "y": Y}
WORDS = ["bright", "old", "near", "the", "lake", "garden", "quiet", "street", "view", "new"]
NOTES = [" ".join(DRAWN.choice(WORDS, 6)) + f" no {i}" for i in range(N)]
TALL = {"letter": 26, "hundred": 100, "five hundred": 500}


def codes(k, rows=10):
    n = k * rows
    y = np.tile(np.arange(k), rows)
    return text(
        {"x": (y + DRAWN.normal(size=n) / 9).round(3), "z": DRAWN.normal(size=n).round(3), "y": y}
    )


# Name: (content, options, exit code, what standard error says).
FILES = {
    "semicolons.csv": (text(BASE, ";", comma), "", 0, "columns separated by ';', decimal comma"),
    "tabs.csv": (text(BASE, "\t"), "", 0, "separated by tabs"),
    "pipes.csv": (text(BASE, "|"), "", 0, r"separated by '\|'"),
    "latin1.csv": (text({"größe": X, "y": Q}).encode("latin-1"), "", 0, "Latin-1"),
    "bom.csv": (b"\xef\xbb\xbf" + text(BASE).encode(), "", 0, "x +number"),
    "utf16.csv": (text(BASE).encode("utf-16"), "", 0, "UTF-16"),
    "excel.csv": ("sep=;\n" + text(BASE, ";", comma), "", 0, "x +number"),
    "comments.csv": ("# made by hand\n# twice\n" + text(BASE), "", 0, "x +number"),
    "quotes.csv": (text({"x": X, "n": many("a, b", "c"), "y": Q}), "", 0, "n +category +2 cat"),
    "compressed.csv.gz": (gzip.compress(text(BASE).encode()), "", 0, "x +number"),
    "gaps.csv": (with_column("g", many(1.5, 2.5, "NA", "n/a", "", "NULL")), "", 0,
                 "g +number +number, gaps +2 +66.7 %"),
    "question marks.csv": (with_column("g", [*Z[:-9], *"?????????"]), "", 0,
                           "number, gaps +2 +7.5 %"),
    "ragged.csv": (text(BASE) + "1.0,2.0\n", "", 2, f"line {N + 2} .*2 cells.*3 columns"),
    "bytes.csv": (text(BASE).encode() + b"\xff\xfe\x81,1.0,\x81\n", "--encoding utf-8", 2,
                  f"[Ll]ine {N + 2}"),
    "no header.csv": (text(BASE, header=False), "--target column_3", 2, "--no-header"),
    "no header, told.csv": (text(BASE, header=False), "--target column_3 --no-header", 0,
                            "column_1 +number"),
    "empty.csv": ("", "", 2, "empty"),
    "names only.csv": ("x,y\n", "", 2, "no rows"),
    "one row.csv": ("x,z,y\n1.0,2.0,3.0\n", "", 2, "one row"),
    "amounts.csv": (with_column("price", [f"${v:,.2f}" for v in 1000 + 100 * Z]), "", 0,
                    r"price +number +number +1 +as '\$"),
    "percent.csv": (with_column("share", [f"{v:.1f} %" for v in Z]), "", 0, "share +number"),
    "thousands.csv": (with_column("m", [f"{v:,.2f}".translate(str.maketrans(",.", ".,"))
                                        for v in 5000 + 999 * Z]), "", 0, "m +number +number +1"),
    "european dates.csv": (with_column("d", days("%d.%m.%Y")), "", 0, "d +date .*written dmy"),
    "american dates.csv": (with_column("d", days("%m/%d/%Y")), "", 0, "d +date .*written mdy"),
    "month names.csv": (with_column("d", days("%d %b %Y")), "", 0, "d +date .*written d month y"),
    "compact dates.csv": (with_column("d", days("%Y%m%d")), "", 0, "d +date .*dates as 20240131"),
    "iso times.csv": (with_column("d", days("%Y-%m-%dT%H:%M:%S")), "", 0, "d +date"),
    "row numbers.csv": (with_column("id", range(N)), "", 0, "id +identifier +left out"),
    "row numbers, told.csv": (with_column("id", range(N)), "--include id", 0,
                              "id +number +number +1"),
    "uuids.csv": (with_column("key", [f"{i * 7919:08x}-a{i}" for i in range(N)]), "", 0,
                  "key +identifier +left out"),
    "leak.csv": (with_column("cents", (100 * Q).round().astype(int)), "", 0,
                 "warning: The column 'cents' .*tells the target 'y' alone"),
    "leaking class.csv": (with_column("code", np.where(Y == "yes", "J", "N"), Y), "", 0,
                          "LEAK. its values tell the class"),
    "notes.csv": (with_column("note", NOTES), "", 0, "note +text +.*numbers of its words"),
    "constant.csv": (with_column("unit", ["USD"] * N), "", 0,
                     "unit +category +left out .*always 'USD'"),
    "a gap throughout.csv": (with_column("gone", [""] * N), "", 0,
                             "gone +empty +left out .*no value"),
    "twice.csv": (text({"x": X, "again": X, "y": Q}), "", 0, "again +copy +left out .*same as 'x'"),
    "same names.csv": (text({"x": X, "y": Q}).replace("x,y", "x,x", 1), "--target x", 2,
                       "more than one column named 'x'"),
    "zip codes.csv": (with_column("zip", many("01234", "98765", "00501")), "--kind zip=category", 0,
                      "zip +category"),
    "constant target.csv": (text({"x": X, "y": ["same"] * N}), "", 2, "is 'same' in all"),
    "names as target.csv": (text({"x": X, "y": [f"Person {i} A" for i in range(N)]}), "", 2,
                            f"{N} (different|rows)"),
    "amounts as target.csv": (text({"x": X, "y": [f"${v:,.0f}" for v in 5000 + 1000 * Q]}), "", 0,
                              "regression of 'y' .guessed: numbers written as"),
    **{f"{name} classes.csv": (codes(k, 6), "", 0,
                               f"classification of 'y' .guessed: {k} evenly")
       for name, k in TALL.items()},
    "ages.csv": (with_column("z", Z, np.clip(DRAWN.normal(45, 12, N), 18, 90).astype(int)), "", 0,
                 "regression of 'y'"),
    "a class named null.csv": (text({"x": X, "y": many("null", "set")}), "", 2,
                               "'null' counts as no value: if it is a class, give it another name"),
    "a class named NA.csv": (text({"x": X, "y": many("NA", "a", "b")}), "", 0,
                             "'NA' counts as no value: if it is a class, give it another name"),
    "classes alike.csv": (text({"x": X, "y": many("yes", "Yes ", "no")}), "", 0,
                          "differ in blanks or capital letters only: 'yes', 'Yes '|'Yes ', 'yes'"),
    "a class of question marks.csv": (text({"x": X, "y": many("yes", "?", "no")}), "", 0,
                                      r"'\?' is a class of 'y', in 40 .* `--null-values y=\?`"),
    "question marks that are gaps.csv": (text({"x": X, "y": many("yes", "?", "no")}),
                                         "--null-values y=?", 0, "no value in 40"),
    "Namibia.csv": (with_column("land", many("NA", "DE", "FR")), "", 0,
                    "land +category .* 'NA' counts as no value"),
    "one class.csv": (text({"x": X, "y": many("a")}), "", 2, "is 'a' in all"),
}  # fmt: skip
FAST = "--expansion budget --max-size 9"


def target_of(name, options):
    return "" if "--target" in options else "--target y"


@pytest.mark.parametrize("name", FILES)
def test_what_becomes_of_a_file(name, tmp_path, mercer):
    content, options, code, said = FILES[name]
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    model = tmp_path / "m.mercer"
    words = f"{FAST} {options} {target_of(name, options)}".split()
    found, out, err = mercer("fit", file, "--out", model, *words)
    assert found == code, err
    assert re.search(said, err), err
    assert out == ""
    assert model.exists() == (code == 0)
    if code == 0:
        assert load_model(model).audit_
        answers = tmp_path / "p.csv"
        csv = [word for word in options.split() if word.startswith("--no-")]
        assert mercer("predict", model, file, "--out", answers, *csv)[0] == 0
        assert len(answers.read_text().splitlines()) > 1


def test_there_are_thirty_odd_files():
    assert len(FILES) > 30


def test_parquet_with_types_of_its_own(tmp_path, mercer):
    table = pa.table({
        "when": pa.array(np.datetime64("2024-01-01") + np.arange(N), pa.date32()),
        "town": pa.array(many("Bern", "Bonn", None)).dictionary_encode(),
        "flag": pa.array(many(True, None, False)),
        "x": X,
        "y": Q,
    })  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(table, sink)
    (tmp_path / "t.parquet").write_bytes(sink.getvalue())
    words = f"--target y {FAST}".split()
    code, _, err = mercer("fit", tmp_path / "t.parquet", "--out", tmp_path / "m", *words)
    assert code == 0
    assert re.search("when +date +number, day of year, day, weekday", err)
    assert re.search("town +category +2 categories and others, gaps", err)
    assert re.search("flag +boolean", err)


@pytest.fixture(scope="module")
def plain_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "a.csv").write_text(text({"x": X, "z": many(1, 2, 3, 5), "y": Q}))
    with pytest.raises(SystemExit):
        main(["fit", f"{folder / 'a.csv'}", "--target", "y", "--out", f"{folder / 'm'}",
              *FAST.split()])  # fmt: skip
    return folder / "m"


@pytest.mark.parametrize("others", ["", "0.5,4\n"])
@pytest.mark.parametrize("mark", ["?", "-", "None", "missing", "NA", "k.A.", ":", "\\N", "#REF!"])
def test_a_gap_in_a_column_that_had_none_is_filled(mark, others, plain_model, tmp_path, mercer):
    (tmp_path / "new.csv").write_text(f"x,z\n1.0,{mark}\n{others}")
    code, out, err = mercer("predict", plain_model, tmp_path / "new.csv", "--out", "-")
    assert code == 0, err
    assert len(out.splitlines()) == 2 + bool(others)
    assert re.search("has gaps in columns that had none.* 'z' .1 row; taken as the mean", err)


def test_numbers_with_zeros_before_them_are_predicted_as_numbers(plain_model, tmp_path, mercer):
    (tmp_path / "a.csv").write_text("x,z\n1.0,02\n0.5,05\n")
    (tmp_path / "b.csv").write_text("x,z\n1.0,2\n0.5,5\n")
    answers = [
        mercer("predict", plain_model, tmp_path / f"{name}.csv", "--out", "-")[1] for name in "ab"
    ]
    assert answers[0] == answers[1] != ""


def test_other_text_in_a_column_of_numbers_is_named(plain_model, tmp_path, mercer):
    (tmp_path / "a.csv").write_text("x,z\n1.0,often\n0.5,5\n")
    for strict, expected in ([], 0), (["--strict"], 2):
        code, _, err = mercer("predict", plain_model, tmp_path / "a.csv", "--out", "-", *strict)
        assert (code, "'often'" in err) == (expected, True), err


@pytest.mark.parametrize("classes", [("+", "-"), ("yes", "no"), ("A", "B"), ("1", "2")])
def test_nothing_is_said_of_classes_as_they_should_be(classes, tmp_path, mercer):
    (tmp_path / "a.csv").write_text(text({"x": X, "y": many(*classes)}))
    words = f"--target y {FAST}".split()
    err = mercer("fit", tmp_path / "a.csv", "--out", tmp_path / "m", *words)[2]
    assert "warning" not in err


def test_codes_that_begin_with_zeros_are_categories(tmp_path, mercer):
    zips = many("02139", "94007", "00501")
    (tmp_path / "a.csv").write_text(with_column("zip", zips))
    code, _, err = mercer(
        "fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m", *FAST.split()
    )
    assert code == 0
    assert re.search("zip +category +3 categories", err)
    table = pa.table({"x": X, "zip": zips})
    (tmp_path / "b.csv").write_text(text({"x": X, "zip": zips}))
    _, out, _ = mercer("predict", tmp_path / "m", tmp_path / "b.csv", "--out", "-")
    known = load_model(tmp_path / "m").predict(table)
    np.testing.assert_allclose(np.loadtxt(io.StringIO(out), skiprows=1), known)
