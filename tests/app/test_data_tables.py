import bz2
import gzip
import os
import pickle
import sys

import numpy as np
import pytest

from mercer_app.files import count_rows, read_tables, schema
from mercer_app.files.places import MemoryFile, ending_of_bytes
from mercer_app.files.tables import file_parts, find_files

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, feather, ipc  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402


def example(n, start=0):
    number = np.arange(start, start + n)
    return pa.table(
        {
            "id": number,
            "x": number / 7,
            "town": pa.array([None if i % 5 == 4 else f"t{i % 3}" for i in number], pa.string()),
        }
    )


def write_stream(table, path):
    with ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=17)


def write_tsv(table, path):
    csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))


def write_gzip(table, path):
    with gzip.open(path, "wb") as sink:
        csv.write_csv(table, sink)


WRITERS = {
    "a.parquet": lambda t, p: pq.write_table(t, p, row_group_size=33),
    "a.pq": pq.write_table,
    "a.csv": csv.write_csv,
    "a.csv.gz": write_gzip,
    "a.tsv": write_tsv,
    "a.feather": lambda t, p: feather.write_feather(t, os.fspath(p), compression="lz4"),
    "a.arrow": write_stream,
}


@pytest.fixture(params=sorted(WRITERS))
def file(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](example(100), path)
    return path


def test_every_format_gives_the_same_rows_in_tables_of_the_wanted_size(file):
    tables = list(read_tables(file, rows_per_table=30))
    assert [t.num_rows for t in tables] == [30, 30, 30, 10]
    assert pa.concat_tables(tables).to_pydict() == example(100).to_pydict()
    assert all(t.schema == schema(file) for t in tables)


def test_bytes_in_memory_are_read_as_the_file_is(file, tmp_path, monkeypatch):
    in_memory = MemoryFile(file.read_bytes(), file.name, "what was sent")
    monkeypatch.chdir(tmp_path)
    file.write_bytes(b"something else")  # of the same name
    assert ending_of_bytes(in_memory.content) in (file.name[1:], ".csv", ".parquet", ".arrow")
    assert next(read_tables(in_memory, rows_per_table=100)).to_pydict() == example(100).to_pydict()
    assert file_parts(in_memory) == [(in_memory, None, 0)]
    with pytest.raises(TypeError, match="no path"):
        os.fspath(in_memory)
    with pytest.raises(ValueError, match="`what was sent` has no column 'y'"):
        list(read_tables(in_memory, columns=["y"]))
    with pytest.raises(ValueError, match=r"what was sent is empty \(0 bytes\)"):
        list(read_tables(MemoryFile(b"", file.name, "what was sent")))


def test_columns_come_in_the_order_asked_for(file):
    (table,) = read_tables(file, columns=["town", "id"])
    assert table.column_names == ["town", "id"]
    assert table.column("id").to_pylist() == list(range(100))


def test_rows_are_counted_without_reading_or_not_at_all(file):
    known = file.suffix in (".parquet", ".pq", ".feather")
    assert count_rows(file) == (100 if known else None)


def test_a_damaged_file_is_named(file):
    content = file.read_bytes()
    file.write_bytes(b"\x00\x01\xff" * 3)
    with pytest.raises(ValueError, match=f"{file.name}.*damaged or cut off"):
        list(read_tables(file))
    if not file.name.endswith((".csv", ".tsv")):  # half a text file is a text file
        file.write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=f"{file.name}.*damaged or cut off"):
            list(read_tables(file))


def test_an_empty_file_is_called_empty(file):
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=f"{file.name} is empty"):
        list(read_tables(file))


def test_all_columns_are_listed_up_to_twenty(tmp_path):
    for n, said in ((20, "'c18', 'c19'.$"), (21, r"'c18' and 2 more\.$")):
        pq.write_table(pa.table({f"c{i}": [1] for i in range(n)}), tmp_path / "wide.parquet")
        with pytest.raises(ValueError, match=said):
            list(read_tables(tmp_path / "wide.parquet", columns=["other"]))


def test_a_folder_and_a_glob_are_read_in_sorted_order(tmp_path):
    for start in (200, 0, 100):
        pq.write_table(example(100, start), tmp_path / f"part-{start:03}.parquet")
    (tmp_path / "_SUCCESS.csv").write_text("")
    (tmp_path / "notes.txt").write_text("not a table")
    for path in (tmp_path, tmp_path / "part-*.parquet", str(tmp_path / "**" / "*.parquet")):
        tables = list(read_tables(path, rows_per_table=90))
        assert [t.num_rows for t in tables] == [90, 90, 90, 30]
        assert pa.concat_tables(tables).column("id").to_pylist() == list(range(300))
        assert count_rows(path) == 300


def test_files_whose_columns_are_in_another_order_agree(tmp_path):
    pq.write_table(example(3), tmp_path / "1.parquet")
    pq.write_table(example(3, 3).select(["town", "x", "id"]), tmp_path / "2.parquet")
    (table,) = read_tables(tmp_path)
    assert table.to_pydict() == example(6).to_pydict()


def test_files_of_a_folder_with_different_columns_are_refused_before_the_first_row(tmp_path):
    pq.write_table(example(3), tmp_path / "1.parquet")
    pq.write_table(example(3).rename_columns(["id", "y", "town"]), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet has other columns.*lacks 'x' and adds 'y'"):
        read_tables(tmp_path)


def test_files_of_a_folder_with_other_types_are_cast_or_refused(tmp_path):
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"x": [2]}), tmp_path / "2.parquet")
    (table,) = read_tables(tmp_path)
    assert table.column("x").to_pylist() == [0.5, 2.0]
    pq.write_table(pa.table({"x": ["two"]}), tmp_path / "3.parquet")
    (table,) = read_tables(tmp_path)
    assert table.column("x").to_pylist() == ["0.5", "2", "two"]
    pq.write_table(pa.table({"x": [[2]]}), tmp_path / "4.parquet")
    with pytest.raises(ValueError, match=r"4\.parquet: column 'x' is of type list"):
        list(read_tables(tmp_path))


def test_missing_files_folders_and_globs_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*gone\.csv"):
        read_tables(tmp_path / "gone.csv")
    with pytest.raises(FileNotFoundError, match=r"No file matches .*\*\.csv"):
        read_tables(tmp_path / "*.csv")
    with pytest.raises(FileNotFoundError, match=r"holds no file that can be read.*\.parquet"):
        read_tables(tmp_path)


def test_an_unsupported_ending_lists_the_supported_ones(tmp_path):
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"'\.xlsx' is not supported\. Supported are \.parquet"):
        read_tables(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a.XLSX", "Save the sheet as CSV"),
        ("a.jsonl", "Learn it with `mercer stream`, or write it as Parquet or CSV"),
        ("a.csv.zip", "Unpack it"),
        ("a.doc", "If it is one of these, rename it"),
        ("a", "a: the name has no ending"),
    ],
)
def test_an_unsupported_ending_comes_with_what_to_do(tmp_path, name, advice):
    (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=advice):
        read_tables(tmp_path / name)


@pytest.mark.parametrize("ending", ["txt", "TXT", "data", "dat"])
def test_other_texts_are_read_as_csv_where_they_are_named(tmp_path, ending):
    (tmp_path / f"a.{ending}").write_text("x\ty\n1\t2\n")
    (table,) = read_tables(tmp_path / f"a.{ending}")
    assert table.to_pydict() == {"x": [1], "y": [2]}
    with pytest.raises(FileNotFoundError, match="holds no file that can be read"):
        read_tables(tmp_path)


def test_csv_compressed_by_bzip2(tmp_path):
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"x,y\n1,2\n"))
    (table,) = read_tables(tmp_path)
    assert table.to_pydict() == {"x": [1], "y": [2]}


def test_a_wrong_column_name_suggests_the_nearest(tmp_path):
    pq.write_table(example(3), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"no column 'twon'\. Did you mean 'town'\?"):
        read_tables(tmp_path / "a.parquet", columns=["twon"])
    with pytest.raises(ValueError, match="sequence of names"):
        read_tables(tmp_path / "a.parquet", columns="town")


@pytest.fixture
def late_text(tmp_path):
    # Longer than the 8 MiB from which types are inferred.
    path = tmp_path / "late.csv"
    rows = ["name,age,height"] + [f"someone,{i % 90},{i % 7}" for i in range(700_000)]
    path.write_text("\n".join([*rows, "someone,often,1"]))
    return path


def test_a_csv_value_that_does_not_fit_the_inferred_type_names_file_and_column(late_text):
    with pytest.raises(ValueError, match=r"line 700,002 of late\.csv: .*'age' holds 'often'"):
        for _ in read_tables(late_text, columns=["height", "age"]):
            pass


def test_column_types_settle_what_a_csv_column_is(late_text):
    *_, last = read_tables(late_text, column_types={"age": "string", "height": "float64"})
    assert last.column("age")[-1].as_py() == "often"
    assert last.schema.field("height").type == pa.float64()


def test_column_types_are_checked(tmp_path):
    csv.write_csv(example(3), tmp_path / "a.csv")
    with pytest.raises(ValueError, match="must name Arrow types"):
        read_tables(tmp_path / "a.csv", column_types={"x": "number"})
    with pytest.raises(ValueError, match="no column 'y'"):
        read_tables(tmp_path / "a.csv", column_types={"y": "string"})


def test_csv_fields_that_are_empty_or_na_are_missing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('town,x,none\nBern,1,\n,NA,\nNA,3,\n"a\nb",4,\n')
    (table,) = read_tables(path)
    assert table.column("town").to_pylist() == ["Bern", None, None, "a\nb"]
    assert table.column("x").to_pylist() == [1, None, 3, 4]
    assert table.schema.field("none").type == pa.float64()


def test_a_csv_row_with_too_few_fields_names_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"a\.csv: line 3 has 1 cell, but there are 2 columns"):
        list(read_tables(path))


def test_repeated_column_names_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        read_tables(tmp_path / "a.csv")


@pytest.mark.parametrize("ending", ["parquet", "pq", "csv", "feather"])
def test_memory_does_not_grow_with_the_file(tmp_path, ending, monkeypatch):
    # The CSV parser reads 32 blocks ahead: small blocks make small files long enough.
    monkeypatch.setattr("mercer_app.files.csv_files._BLOCK_BYTES", 2**15)
    monkeypatch.setattr("mercer_app.files.csv_files.INFERENCE_BYTES", 2**15)

    def most_memory(n):
        path = tmp_path / f"{n}.{ending}"
        noise = np.random.default_rng(0).standard_normal((4, n))
        table = pa.table({f"x{i}": column for i, column in enumerate(noise)})
        if ending in {"parquet", "pq"}:
            # A single row group, or many of them, which readers like to fetch before they are
            # needed; a dictionary would be held as a whole (8 MB).
            size = n if ending == "parquet" else 4096
            pq.write_table(table, path, row_group_size=size, use_dictionary=False)
        elif ending == "csv":
            csv.write_csv(table, path)
        else:
            feather.write_feather(table, os.fspath(path), chunksize=4096)
        del table
        before, most = pa.total_allocated_bytes(), 0
        for part in read_tables(path, rows_per_table=1000):
            assert part.num_rows <= 1000
            most = max(most, pa.total_allocated_bytes() - before)
        return most

    small, large = most_memory(100_000), most_memory(300_000)
    # 6.4 MB of numbers are added; the difference allowed covers the readahead of the parser.
    assert large - small < 1.5e6


def test_reading_without_pyarrow_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "mercer\[cli\]"'):
        read_tables(tmp_path / "a.csv")


# -- addresses --------------------------------------------------------------------------------


@pytest.fixture
def store():
    """An object store within the process."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for number, name in enumerate(("b.parquet", "a.parquet", "_no.parquet", "deep/c.parquet")):
        with memory.open(f"/bucket/{name}", "wb") as sink:
            pq.write_table(example(10, 10 * number), sink, row_group_size=3)
    with memory.open("/bucket/notes.txt", "wb") as sink:
        sink.write(b"nothing")
    yield memory
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("memory://bucket", ["a.parquet", "b.parquet"]),
        ("memory://bucket/b.parquet", ["b.parquet"]),
        ("memory://bucket/[ab].parquet", ["a.parquet", "b.parquet"]),
        ("memory://bucket/**/c.*", ["c.parquet"]),
        ("memory://bucket/**/[a-c].parquet", ["a.parquet", "b.parquet", "c.parquet"]),
    ],
)
def test_an_object_store_is_read_as_a_folder_is(store, address, names):
    assert [file.name for file in find_files(address)] == names
    assert count_rows(address) == 10 * len(names)
    (table,) = read_tables(address, rows_per_table=100)
    first = {"a.parquet": 10, "b.parquet": 0, "c.parquet": 30}
    expected = pa.concat_tables([example(10, first[name]) for name in names])
    assert table.to_pydict() == expected.to_pydict()
    assert schema(address) == expected.schema


def test_workers_are_sent_parts_of_files_in_an_object_store(store):
    parts = pickle.loads(pickle.dumps(file_parts("memory://bucket", rows=6)))
    assert [str(part) for part in parts] == [
        f"memory://bucket/{name}.parquet, row groups {groups}"
        for name in "ab"
        for groups in ("0 to 1", "2 to 3")
    ]
    layout = schema("memory://bucket")
    numbers = [n for part in parts for t in part.tables(layout) for n in t["id"].to_pylist()]
    assert numbers == [*range(10, 20), *range(10)]


def test_addresses_of_this_machine_are_paths(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    csv.write_csv(example(5), folder / "a.csv")
    assert count_rows(folder.as_uri()) is None
    for address in (folder.as_uri(), folder.as_uri() + "/*.csv", (folder / "a.csv").as_uri()):
        (table,) = read_tables(address)
        assert table.to_pydict() == example(5).to_pydict()


def test_addresses_that_lead_nowhere_are_refused(store):
    with pytest.raises(FileNotFoundError, match="There is no file or folder memory://else"):
        find_files("memory://else")
    with pytest.raises(FileNotFoundError, match=r"No file matches 'memory://bucket/\*.csv'"):
        find_files("memory://bucket/*.csv")
    with pytest.raises(ValueError, match=r"notes.txt is in an object store, of which only"):
        find_files("memory://bucket/notes.txt")
    with store.open("/bucket/d.csv", "wb") as sink:
        sink.write(b"a\n1\n")
    with pytest.raises(ValueError, match=r"d.csv is in an object store, of which only Parquet"):
        find_files("memory://bucket/*.csv")
    with pytest.raises(ImportError, match=r"nowhere://a cannot be read.*pip install fsspec"):
        find_files("nowhere://a")
    with store.open("/bucket/e.parquet", "wb") as sink:
        sink.write(b"PAR1")
    with pytest.raises(ValueError, match=r"memory://bucket/e.parquet could not be read"):
        schema("memory://bucket/e.parquet")
