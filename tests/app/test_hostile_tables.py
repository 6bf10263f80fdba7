"""Tables as strangers may send them: what `reliability/tables.py` found, in its smallest form."""

import contextlib
import io
import json
import struct
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer.columns import guess_task
from mercer.columns.views import view_table
from mercer_app.files import arrivals, csv_files
from mercer_app.files.dialect import CsvDialect, _is_number, rewritten
from mercer_app.files.tables import check_batch
from mercer_app.report import page
from mercer_app.serve import _answers
from sender import sent

FAST = ("--expansion", "budget", "--max-size", "9")
N = 40
X = np.random.default_rng(0).normal(size=N).round(3)
NO_DATE = pa.array([0, 2**31 - 1] * (N // 2), pa.int32()).view(pa.date32())


def one_error(code, err):
    """The error, which is one line that a terminal only shows."""
    assert code == 2, err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert all(mark.isprintable() for mark in line)
    assert len(line) < 2000
    return line


def arrow_bytes(table, make=pa.ipc.new_file):
    sink = io.BytesIO()
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def misdirected(kind):
    """A column that points to places outside of it."""
    if kind == "dictionary":
        codes = pa.array([0, 77] * (N // 2))
        return pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    ends = np.arange(N + 1, dtype=np.int32)
    ends[3] = 1_000_000
    return pa.StringArray.from_buffers(N, pa.py_buffer(ends), pa.py_buffer(b"a" * N))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from command_line import run

    folder = tmp_path_factory.mktemp("model")
    rows = [f"{x},{'ab'[i % 2]},{2 * x}" for i, x in enumerate(X)]
    (folder / "a.csv").write_text("\n".join(["x,z,y", *rows]) + "\n")
    assert run("fit", folder / "a.csv", "--target", "y", "--out", folder / "m", *FAST) == 0
    return folder / "m"


@pytest.mark.parametrize("kind", ["dictionary", "text"])
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_columns_that_point_elsewhere_are_refused(kind, make, model, tmp_path, mercer):
    content = arrow_bytes(pa.table({"x": X, "z": misdirected(kind)}), make)
    (tmp_path / "a.arrow").write_bytes(content)
    code, _, err = mercer("predict", model, tmp_path / "a.arrow", "--out", tmp_path / "p.csv")
    assert "a.arrow could not be read, it may be damaged" in one_error(code, err)


@pytest.mark.parametrize("kind", ["dictionary", "text"])
def test_columns_from_sockets_that_point_elsewhere_are_refused(kind, tmp_path, mercer):
    content = arrow_bytes(pa.table({"x": misdirected(kind), "y": X}), pa.ipc.new_stream)
    with sent(content, tmp_path / "s") as address:
        code, _, err = mercer("stream", address, "--target", "y", "--out", tmp_path / "m")
    assert "broke off in it after 0 rows" in one_error(code, err)


def test_what_a_socket_announces_may_not_fit_into_memory(tmp_path, mercer, monkeypatch):
    def lacks(*_):
        raise MemoryError

    monkeypatch.setattr(arrivals._Waiting, "readinto", lacks)
    with sent(arrow_bytes(pa.table({"y": X}), pa.ipc.new_stream), tmp_path / "s") as address:
        code, _, err = mercer("stream", address, "--target", "y", "--out", tmp_path / "m")
    assert "after 0 rows: what it announced does not fit" in one_error(code, err)


def test_text_of_parquet_that_is_no_unicode_is_refused(model, tmp_path, mercer):
    latin = pa.array([b"Z\xfcrich"] * N, pa.binary()).view(pa.string())
    pq.write_table(pa.table({"x": X, "z": latin}), tmp_path / "a.parquet")
    code, _, err = mercer("predict", model, tmp_path / "a.parquet", "--out", tmp_path / "p.csv")
    assert "UTF8" in one_error(code, err)


@pytest.mark.parametrize("bits", [4, 128])
def test_numbers_of_widths_that_pyarrow_lacks_are_refused(bits, model, tmp_path, mercer):
    content = arrow_bytes(pa.table({"x": pa.array([1] * N, pa.int64())}))
    places = [at for at in range(len(content)) if content[at : at + 4] == struct.pack("<i", 64)]
    found = []
    for at in places:
        changed = content[:at] + struct.pack("<i", bits) + content[at + 4 :]
        (tmp_path / "a.arrow").write_bytes(changed)
        code, _, err = mercer("predict", model, tmp_path / "a.arrow", "--out", tmp_path / "p.csv")
        found.append(one_error(code, err))
    assert any(f"than {bits // 2 if bits > 64 else 8} bits" in error for error in found)


def test_what_takes_more_memory_than_there_is_is_a_damaged_file(
    model, tmp_path, mercer, monkeypatch
):
    def lacks(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 137438955264 failed")

    pq.write_table(pa.table({"x": X, "z": ["a"] * N}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lacks)
    code, _, err = mercer("predict", model, tmp_path / "a.parquet", "--out", tmp_path / "p.csv")
    assert "may be damaged or cut off: malloc of size" in one_error(code, err)


def test_types_that_nothing_can_be_made_of_are_named(tmp_path, mercer):
    months = pa.array([pa.MonthDayNano([1, 2, 3])] * N)
    (tmp_path / "a.arrow").write_bytes(arrow_bytes(pa.table({"span": months, "x": X, "y": X})))
    code, _, err = mercer("fit", tmp_path / "a.arrow", "--target", "y", "--out", tmp_path / "m")
    assert "'span' has the type month_day_nano_interval" in one_error(code, err)


@pytest.mark.parametrize("way", ["parquet", "socket"])
def test_a_date_that_python_has_not_spoils_its_row_only(way, tmp_path, mercer):
    table = pa.table({"when": NO_DATE, "x": X, "y": X})
    options = ("--target", "y", "--out", tmp_path / "m", "--predictions", tmp_path / "p.jsonl",
               "--expansion", "komp", "--kernel", "gaussian", "--exclude", "when")  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    rows = contextlib.nullcontext(tmp_path / "a.parquet")
    content = arrow_bytes(table, pa.ipc.new_stream)
    with sent(content, tmp_path / "s") if way == "socket" else rows as source:
        code, _, err = mercer("stream", source, *options)
    assert "row 1 of" in one_error(code, err)
    (tmp_path / "s").unlink(missing_ok=True)
    with sent(content, tmp_path / "s") if way == "socket" else rows as source:
        code, _, err = mercer("stream", source, *options, "--skip-bad")
    assert code == 0, err
    said = (tmp_path / "p.jsonl").read_text().splitlines()
    assert len(said) == N // 2
    assert np.isfinite([json.loads(line)["prediction"] for line in said[1:]]).all()


def fitted_to(target, tmp_path, mercer):
    pq.write_table(pa.table({"x": X, "y": target}), tmp_path / "a.parquet")
    words = (tmp_path / "a.parquet", "--target", "y", "--out", tmp_path / "m", *FAST)
    code, _, err = mercer("fit", *words)
    return code, err


def test_names_of_classes_may_not_be_books(tmp_path, mercer):
    """A row has room for the longest of them: these would take 488 GiB."""
    books = pa.array(["a", "b" * 2_000_000] * (N // 2))
    code, err = fitted_to(books, tmp_path, mercer)
    assert "text of 2,000,000 characters" in one_error(code, err)


def test_dates_that_python_has_not_are_quantities(tmp_path, mercer):
    code, err = fitted_to(NO_DATE, tmp_path, mercer)
    assert code == 0, err
    with pytest.raises(ValueError, match="holds a date that Python has not"):
        guess_task(NO_DATE)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array(["a", "b"] * (N // 2), pa.string_view()), ""),
        (pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([1.5])), "unusual"),
    ],
    ids=["views of text", "runs"],
)
def test_rows_without_a_target_beside_columns_of_new_types(column, said, tmp_path, mercer):
    table = pa.table({"x": X, "z": column, "y": [None, *X[1:]]})
    (tmp_path / "a.arrow").write_bytes(arrow_bytes(table))
    words = (tmp_path / "a.arrow", "--target", "y", "--out", tmp_path / "m", *FAST)
    code, _, err = mercer("fit", *words)
    assert code == 0 if not said else said in one_error(code, err)


def test_names_of_a_stream_with_ends_of_lines_in_them_are_an_error(tmp_path, mercer):
    (tmp_path / "a.csv").write_bytes(b"x,y\rz\n1,2\n")
    code, _, err = mercer("stream", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m")
    assert "should name columns" in one_error(code, err)


def test_errors_are_one_line_whatever_the_names(tmp_path, mercer):
    for name in ("\x1b[31mred", "\u202eright to left", "\ufeffx", "a\x07" * 5000):
        (tmp_path / "a.csv").write_text(f"{name},y\n1,2\n2,3\n")
        code, _, err = mercer("fit", tmp_path / "a.csv", "--target", "q", "--out", tmp_path / "m")
        assert "There is no column" in one_error(code, err) or "'q'" in err


def test_an_error_of_pyarrow_in_several_lines_is_shown_in_one(model, tmp_path, mercer, monkeypatch):
    def breaks(*_, **__):
        raise pa.ArrowInvalid("don't know what type: \x0f\n\n  at all\n")

    pq.write_table(pa.table({"x": X, "z": ["a"] * N}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq, "ParquetFile", breaks)
    code, _, err = mercer("predict", model, tmp_path / "a.parquet", "--out", tmp_path / "p.csv")
    assert one_error(code, err).endswith("don't know what type: \\x0f at all")


def test_values_that_pyarrow_does_not_know_are_an_error():
    # Months as a type are in no file that pyarrow writes: of three units the byte of another one.
    sink = io.BytesIO()
    table = pa.table({"x": pa.array([None, None], pa.month_day_nano_interval()), "y": [1.0, 2.0]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found = []
    for place, byte in enumerate(sink.getvalue()):
        if byte == 2:
            altered = bytearray(sink.getvalue())
            altered[place] = 0
            with contextlib.suppress(pa.ArrowException, OSError):
                batch = pa.ipc.open_stream(bytes(altered)).read_next_batch()
                try:
                    check_batch(batch)
                except pa.ArrowInvalid as error:
                    found.append(str(error))
    assert any("pyarrow knows no values of a type among 'x'" in one for one in found)


def test_an_end_of_nothing_but_empty_lines_is_given_up(model, tmp_path, mercer, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 1000)
    for n_empty, refused in ((5000, False), (20_000, True)):
        file = tmp_path / f"{n_empty}.csv"
        file.write_text("x,z\n1,a\n" + "\n" * n_empty + "2,a\n", encoding="cp1252")
        where = ["--encoding", "cp1252", "--out", tmp_path / "p.csv"]
        code, _, err = mercer("predict", model, file, *where)
        if refused:
            assert "has nothing but empty lines for 8,000 characters" in one_error(code, err)
        else:
            assert code == 0


@pytest.mark.parametrize("number", [_is_number, page._NUMBER.fullmatch, _answers._NUMBER.fullmatch])
def test_long_digits_take_no_longer_than_they_are(number):
    began = time.process_time()
    assert not number("9" * 70_000 + "x")
    assert number("9" * 70_000)
    assert number("1.5")
    assert number("-1e5")
    assert time.process_time() - began < 2.0  # half a minute, when each end was tried


def test_numbers_beyond_all_are_infinite():
    values = view_table({"a": [10**400, -(10**400), 1.5]}).column("a").values
    assert values.tolist() == [np.inf, -np.inf, 1.5]


def test_a_long_line_takes_no_longer_than_it_is(tmp_path, mercer):
    lines = ["x y", *["a b"] * 1000, "1.5," * 50_000]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    began = time.process_time()
    code, _, err = mercer("fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m")
    one_error(code, err)
    assert time.process_time() - began < 5.0  # half a minute, when all lines were as long


def test_cells_may_be_longer_than_pythons_reader_takes():
    cell = "word " * 40_000
    lines = ["a;b\n", f"1;'{cell}'\n"]
    assert list(rewritten(lines, CsvDialect(delimiter=";", quote="'"), "The text")) == [
        "a\tb\n",
        f"1\t{cell}\n",
    ]


@pytest.mark.parametrize("cell", ['"\\"', '"'])
def test_cells_of_empty_lines_without_end_are_given_up_soon(cell):
    n_read = 0

    def lines():
        nonlocal n_read
        yield from ("a,b\n", f"1,{cell}\n")
        while n_read < 3_000_000:
            n_read += 1
            yield "\n"

    dialect = CsvDialect(delimiter=",", quote='"', escape="\\" if "\\" in cell else None)
    with pytest.raises(ValueError, match="in line 2 a cell begins with"):
        list(rewritten(lines(), dialect, "The text"))
    assert n_read < 300_000


def test_a_file_of_an_unclosed_cell_and_empty_lines_is_refused_soon(mercer, tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,2\n3,"4' + 3_000_000 * "\n")
    began = time.process_time()
    code, _, err = mercer("fit", tmp_path / "a.csv", "--target", "b", "--out", tmp_path / "m")
    one_error(code, err)
    assert "in line 3 a cell begins with" in err
    assert time.process_time() - began < 5.0
