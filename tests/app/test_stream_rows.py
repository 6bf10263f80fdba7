"""Rows that arrive, one by one and without the command: what is a row, and where to go on."""

import itertools
import json
import math
import os
import socket
import sys
import threading
import time
from datetime import date, datetime, timedelta
from datetime import time as clock
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer import KernelClassifier, KernelRegressor, NoveltyDetector, load_model
from mercer.columns import TablePreprocessor
from mercer.columns.null_values import Unreadable
from mercer.conformal import AdaptiveConformal
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer.model_file import read_state, write_state
from mercer_app.files import arrivals
from mercer_app.files.arrivals import (
    ArrivingFiles,
    ArrowSocket,
    GrowingFile,
    Lines,
    Pipe,
    Record,
    TableFile,
    open_source,
)
from mercer_app.files.dialect import CsvDialect
from mercer_app.training.streaming import BadRowError, Measures, Row, RowReader, StreamTraining
from sender import sent


def never():
    return False


def at_once():
    return True


def records(*chunks, last=True, dialect=None):
    lines = Lines("rows", dialect)
    return [*lines.records([*chunks], to_the_end=lambda: last)], lines


def rows(source, pause=at_once):
    return [record.values for record in source.records(pause)]


# -- lines -----------------------------------------------------------------------------------------


def test_lines_have_places_and_errors_of_their_own():
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": }\n[1]\n"{"\n{"a": 2}'
    found, lines = records(text)
    assert [one.values for one in found] == [{"a": 1}, {}, {}, {}, {"a": 2}]
    assert [one.place for one in found] == [f"line {n} of rows" for n in (1, 4, 5, 6, 7)]
    assert [one.error for one in found] == [
        "",
        "it is no JSON (Expecting value, column 7)",
        "it is JSON, but no object with columns and values",
        "it is JSON, but no object with columns and values",
        "",
    ]
    assert not any(one.is_text for one in found)
    assert (lines.byte, lines.line) == (len(text), 7)
    found, lines = records(text, last=False)
    assert len(found) == 4
    assert (lines.byte, lines.line) == (len(text) - len(b'{"a": 2}'), 6)
    deep, _ = records(b'{"a": 1}\n{"a": ' + b"[" * 100_000 + b"\n")
    assert "recursion" in deep[1].error


def test_the_first_line_with_words_names_the_columns():
    found, lines = records(b"\n \r\n\xef\xbb\xbf a , b\r\n1,2\r\n\n3,4\n1\n1,2,3\n")
    assert [one.values for one in found] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {}, {}]
    assert [one.place for one in found] == [f"line {n} of rows" for n in (4, 6, 7, 8)]
    assert [one.error for one in found[2:]] == [
        "it has 1 cell, but there are 2 columns",
        "it has 3 cells, but there are 2 columns",
    ]
    assert [one.is_text for one in found] == [True, True, False, False]
    assert lines.line == 8
    for text, said in (
        (b"\n[1, 2]\n", "Line 2 of rows should be a JSON object, or name the columns"),
        (b"\n [1, 2]\n", "Line 2 of rows should be a JSON object, or name the columns"),
        (b"a,,b\r\n", "each by another name, got 'a,,b'."),
        (b"a,b,a\n", "each by another name"),
        (b'a,"b\n', "Line 1 of rows should name columns, but cannot be read: it is no CSV"),
        (b"\xff\xfea\0\n", "it is UTF-16"),
        (b"\xfe\xff\0a\n", "it is UTF-16"),
        (b"a,\x81\n", "Line 1 of rows should name columns, but cannot be read"),
        (b"a\rb,c\n", "Line 1 of rows should name columns, but cannot be read: new-line"),
    ):
        with pytest.raises(ValueError, match=said.replace("[", r"\[")):
            records(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"SEP=;  \r\na;b\n1,5;x\n", {"a": "1.5", "b": "x"}),
        (b"sep=;\na,b;c\n1;2\n", {"a,b": "1", "c": "2"}),
        (b"sep=,\na,b;c;d\n1,2\n", {"a": "1", "b;c;d": "2"}),
        (b"a;b\n+,5e-3;-1,\n", {"a": "+.5e-3", "b": "-1."}),
        (b"a;b\n1,2,3; 1,5 \n", {"a": "1,2,3", "b": " 1.5 "}),
        (b"a;b\nx1,5;1,5x\n", {"a": "x1,5", "b": "1,5x"}),
        (b"a\tb\n1,5\t2\n", {"a": "1,5", "b": "2"}),
        (b"a,b;c|d\n1;2\n", {"a,b": "1", "c|d": "2"}),
        (b"a,x\r\n1,2\n", {"a": "1", "x": "2"}),
        (b"a b\n1 2\n", {"a": "1", "b": "2"}),
        (b"a\n1 2\n", {"a": "1 2"}),
        (b"\xe4,b\n\xf6,1\n", {"ä": "ö"}),
    ],
)
def test_how_rows_are_written_is_found_out(text, values):
    found, _ = records(text)
    assert not found[-1].error
    assert {**found[-1].values, **values} == found[-1].values


def test_marks_of_the_order_of_bytes_and_ends_of_lines_are_no_cells():
    for text in (b'\n\xef\xbb\xbf {"a": 1}\r\n', b'{"a": 1}\n\xef\xbb\xbf{"a": 1}\r'):
        assert [one.values for one in records(text)[0]] == [{"a": 1}] * text.count(b"{")
    for told in (None, CsvDialect(quote=""), CsvDialect(delimiter="whitespace")):
        found, _ = records(b"\xef\xbb\xbfa\r\n1\r\n2\r", dialect=told)
        assert [one.values for one in found] == [{"a": "1"}, {"a": "2"}]
    (found,), _ = records(b"a\n\xff\n", dialect=CsvDialect(encoding="ascii"))
    assert found.error.startswith("it is no ASCII text")


def test_lines_without_an_end_are_given_up(monkeypatch):
    monkeypatch.setattr(arrivals, "_LONGEST_LINE", 10)
    assert len(records(b"a\n", b"12345", b"67890\n")[0]) == 1
    assert len(records(b"a\n", b"12345", b"67890")[0]) == 1
    for chunks in ([b"a\n", b"12345", b"67890", b"1"], [b"a\n12345678901"]):
        with pytest.raises(ValueError, match="Line 2 of rows has no end within 10 bytes"):
            records(*chunks)


def test_what_is_read_at_once_and_how_long_is_waited_is_known():
    assert (arrivals._LONGEST_LINE, arrivals._CHUNK) == (16_777_216, 65_536)
    assert (arrivals._POLL, arrivals._SETTLED, arrivals._CONNECTING) == (0.2, 1.0, 10.0)


# -- sources ---------------------------------------------------------------------------------------


def test_what_follows_and_what_is_skipped_is_said(tmp_path):
    (tmp_path / "rows.csv").touch()
    (tmp_path / "ROWS.PARQUET").touch()
    for address in (tmp_path / "ROWS.PARQUET", "-", "tcp:localhost:1"):
        with pytest.raises(ValueError, match=r"`follow` is for .* but .* ends by itself"):
            open_source(str(address), follow=True)
    for address in (tmp_path, tmp_path / "rows.csv"):
        assert open_source(str(address), follow=True).rewinds
    for address in ("-", "unix:/x"):
        source = open_source(address, skip=3)
        assert not source.rewinds
        assert source.position() == {"rows": 3}
        with pytest.raises(ValueError, match="`skip` must"):
            open_source(address, skip=-1)
    with pytest.raises(ValueError, match="`skip` is for what cannot be read again"):
        open_source(str(tmp_path / "rows.csv"), skip=0)


@pytest.mark.parametrize(
    "rest",
    [
        *("localhost", "localhost:", "localhost:http", ":80", "localhost:0", "localhost:65536"),
        *("localhost:-1", "localhost:\u00b2", "[]:80", "localhost:" + "9" * 5000, ""),
    ],
)
def test_addresses_of_sockets_have_a_host_and_a_port(rest):
    with pytest.raises(ValueError, match="is no address of a socket"):
        ArrowSocket(f"tcp:{rest}")


@pytest.mark.parametrize(
    "host",
    [
        *("example.org", "10.0.0.1", "0.0.0.0", "::", "127.example.org", "127.0.0.1.nip.io"),
        *("128.0.0.1", "localhost.example.org", "::2", "2130706433", "localhostx", "xlocalhost"),
    ],
)
def test_names_that_begin_like_this_machine_are_others(host):
    with pytest.raises(ValueError, match="may be another machine"):
        ArrowSocket(f"tcp:{host}:80")


def test_a_socket_without_a_name_is_refused():
    with pytest.raises(ValueError, match="`unix:` needs the path of a socket"):
        ArrowSocket("unix:")


def test_this_machine_has_several_names():
    for host, family in (
        ("localhost", socket.AF_INET),
        ("127.0.0.1", socket.AF_INET),
        ("127.9.9.9", socket.AF_INET),
        ("::1", socket.AF_INET6),
        ("[::1]", socket.AF_INET6),
    ):
        for port in (1, 65535):
            found = ArrowSocket(f"tcp:{host}:{port}")
            assert (found._family, found._where) == (family, (host.strip("[]"), port))
    found = ArrowSocket("unix:a:b")
    assert (found._family, found._where, found.name) == (socket.AF_UNIX, "a:b", "unix:a:b")


def test_a_socket_says_at_once_that_pyarrow_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="needs pyarrow"):
        ArrowSocket("unix:rows.sock")


def test_standard_input_is_read_and_stays_open():
    reading, writing = os.pipe()
    os.write(writing, b"a\n1\n2")
    os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        for source in (Pipe(), open_source("-")):
            assert source.name == "standard input"
        assert rows(source, never) == [{"a": "1"}, {"a": "2"}]
        assert os.read(0, 1) == b""
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


def test_a_pipe_drops_the_rows_that_are_known(tmp_path):
    os.mkfifo(tmp_path / "p")

    def send(text):
        with open(tmp_path / "p", "wb") as pipe:
            pipe.write(text)

    def read(source, text=b"a\n1\n2\n3\n4"):
        writer = threading.Thread(target=send, args=(text,))
        writer.start()
        try:
            return [one["a"] for one in rows(source, never)]
        finally:
            writer.join()

    address = str(tmp_path / "p")
    source = Pipe(address)
    assert source.name == address
    assert read(source) == ["1", "2", "3", "4"]
    assert source.position() == {"rows": 4}
    again = Pipe(address)
    again.go_to({"rows": 3})
    assert again.position() == {"rows": 3}
    assert read(again) == ["4"]
    assert again.position() == {"rows": 4}
    for skip in (0, 1):
        rest = Pipe(address, skip=skip)
        rest.go_to({"rows": 3})
        assert read(rest) == ["1", "2", "3", "4"][skip:]
        assert rest.position() == {"rows": 7 - skip}
    none = Pipe(address)
    none.go_to({"rows": 0})
    assert read(none) == ["1", "2", "3", "4"]
    none = Pipe(address)
    none.go_to({"rows": 4})
    assert read(none) == []
    short = Pipe(address)
    short.go_to({"rows": 6})
    with pytest.raises(ValueError, match="ended after 4 rows, but the first 6 were to be skipped"):
        read(short)
    with pytest.raises(ValueError, match="`rows` must"):
        Pipe(address).go_to({"rows": -1})


def test_who_gives_up_waiting_gets_whole_rows_only_and_no_error(tmp_path):
    os.mkfifo(tmp_path / "p")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with open(os.open(tmp_path / "p", os.O_RDWR), "wb", buffering=0) as pipe:
        pipe.write(b"a\n1\n2\nhal")
        source = Pipe(str(tmp_path / "p"))
        assert rows(source) == [{"a": "1"}, {"a": "2"}]
        pipe.write(b"a\n1\n")
        source = Pipe(str(tmp_path / "p"))
        source.go_to({"rows": 5})  # more than came until waiting was given up
        assert rows(source) == []
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_source_waits_only_where_nothing_is_there(tmp_path):
    os.mkfifo(tmp_path / "p")
    with open(os.open(tmp_path / "p", os.O_RDWR), "wb", buffering=0) as pipe:
        pipe.write(b"a\n1\n")
        asked = [time.monotonic()]

        def pause():
            asked.append(time.monotonic())
            if len(asked) == 3:
                pipe.write(b"2\n")
            return len(asked) > 4

        assert rows(Pipe(str(tmp_path / "p")), pause) == [{"a": "1"}, {"a": "2"}]
    assert len(asked) == 5
    waited = np.diff(asked)
    assert waited[0] < 0.15
    assert waited[1] > 0.15  # two looks in a row, with nothing between them
    assert waited[2] < 0.15


def test_a_socket_sends_rows_and_what_is_no_row_is_named(tmp_path):
    table = pa.table({"a": [1, 2, 3], "t": pa.array([0, 2**62, 5], pa.timestamp("s"))})

    def send(connection):
        with (
            connection.makefile("wb") as file,
            pa.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table)
            writer.write_table(table[:2])

    with sent(send, tmp_path / "s") as address:
        source = ArrowSocket(address, skip=1)
        found = [*source.records(never)]
    assert [one.values.get("a") for one in found] == [None, 3, 1, None]
    assert [one.place for one in found] == [
        f"row {n} of unix:{tmp_path / 's'} (the first is row 0)" for n in (1, 2, 3, 4)
    ]
    assert ["a value that Python has not" in one.error for one in found] == [
        *(True, False, False, True)
    ]
    assert source.position() == {"rows": 5}


@pytest.mark.parametrize("what", ["nothing", "half", "other"])
def test_a_socket_that_breaks_off_is_named(what, tmp_path):
    table = pa.table({"a": np.arange(3000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    part = {"nothing": b"", "half": content[: len(content) * 2 // 3], "other": b"GET / HTTP/1.1\n"}
    broken = f"broke off in it after {'3,000' if what == 'half' else '0'} rows: ."
    with (
        sent(part[what], tmp_path / "s") as address,
        pytest.raises(ValueError, match=broken),
    ):
        rows(ArrowSocket(address), never)


def test_waiting_for_a_socket_can_be_given_up(tmp_path):
    source = ArrowSocket(f"unix:{tmp_path / 's'}")
    source.go_to({"rows": 7})
    assert rows(source) == []  # nobody listens
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "s"))
        assert rows(source) == []  # nor now
    (tmp_path / "s").unlink()
    done = threading.Event()
    with sent(lambda _: done.wait(30), tmp_path / "s") as address:
        source = ArrowSocket(address)
        source.go_to({"rows": 7})
        assert rows(source) == []  # somebody does, and sends nothing
        done.set()


def test_nobody_is_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(arrivals, "_CONNECTING", 0.3)
    asked = []
    with pytest.raises(ConnectionError, match=r"Nobody listens on unix:.* Start the program"):
        rows(ArrowSocket(f"unix:{tmp_path / 's'}"), lambda: asked.append(1))
    assert 1 <= len(asked) <= 3


# -- files -----------------------------------------------------------------------------------------


TEXT = b"\nsep=;\na;b\n1,5;x\n2;y\n3;z\n"


def test_a_file_goes_on_after_any_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    expected = [{"a": "1.5", "b": "x"}, {"a": "2", "b": "y"}, {"a": "3", "b": "z"}]
    source = GrowingFile(path)
    assert source.name == str(path)
    places = [source.position()]
    reading = source.records(at_once)
    for values in expected:
        one = next(reading)
        assert one.values == values
        places.append(source.position())
    assert [*reading] == []
    assert [one["line"] for one in places] == [0, 4, 5, 6]
    assert [one["byte"] for one in places] == [0, 17, 21, 25]
    assert {len(one["head"]) for one in places} == {16}
    path.write_bytes(TEXT + b"4;w")
    for n, position in enumerate(places):
        again = GrowingFile(path)
        again.go_to(json.loads(json.dumps(position)))
        found = [*again.records(at_once)]
        assert [one.values for one in found] == [*expected, {"a": "4", "b": "w"}][n:]
        assert found[-1].place == "line 7 of rows.csv"
        assert again.position()["byte"] == len(TEXT) + 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-1], "but now it has 24 bytes"),
        (lambda text: b"x" + text[1:], "but now it begins otherwise"),
        (lambda text: text.replace(b"3;z", b"4;z"), "but now it begins otherwise"),
    ],
)
def test_a_file_that_is_another_one_is_refused(change, said, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    source = GrowingFile(path)
    rows(source)
    position = source.position()
    path.write_bytes(change(TEXT))
    with pytest.raises(ValueError, match=f"not the file that was read before: 25 bytes.*{said}"):
        GrowingFile(path).go_to(position)
    with pytest.raises(ValueError, match="`byte` must"):
        GrowingFile(path).go_to({**position, "byte": -1})
    path.write_bytes(TEXT)
    GrowingFile(path).go_to(position)


def test_only_the_first_bytes_of_those_read_say_which_file_it_is(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [b"a\n", *(b"%d\n" % n for n in range(1000, 1400))]
    path.write_bytes(b"".join(lines))
    source = GrowingFile(path)
    reading = source.records(at_once)
    for _ in range(300):
        next(reading)
    inside = source.position()
    assert inside["byte"] == 1502
    reading.close()
    assert source.position() == inside
    for at, fits in ((1100, True), (1030, True), (900, False), (1023, False), (1024, True)):
        other = bytearray(b"".join(lines))
        other[at] ^= 1
        path.write_bytes(other)
        if fits:
            GrowingFile(path).go_to(inside)
        else:
            with pytest.raises(ValueError, match="begins otherwise"):
                GrowingFile(path).go_to(inside)
    path.write_bytes(b"".join(lines)[:1400])
    with pytest.raises(ValueError, match="has 1,400 bytes"):
        GrowingFile(path).go_to(inside)


def test_where_a_file_is_read_is_of_that_file_wherever_its_name_leads(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    source = GrowingFile(path)
    reading = source.records(at_once)
    next(reading)
    position = source.position()
    path.rename(tmp_path / "rows.1.csv")
    path.write_bytes(b"x\n" + TEXT)
    assert source.position() == position
    assert len([*reading]) == 2


def test_columns_of_a_long_first_line_are_known_when_a_run_goes_on(tmp_path):
    path = tmp_path / "rows.csv"
    names = [f"column_{n}" for n in range(9000)]  # more than is read at once
    cells = [",".join(map(str, range(n, n + 9000))) for n in (0, 1)]
    path.write_text("\n".join([",".join(names), *cells, ""]))
    source = GrowingFile(path)
    reading = source.records(at_once)
    next(reading)
    again = GrowingFile(path)
    again.go_to(source.position())
    assert rows(again) == [dict(zip(names, map(str, range(1, 9001)), strict=True))]
    (tmp_path / "empty.csv").write_text(" \n\n")
    source = GrowingFile(tmp_path / "empty.csv")
    assert rows(source) == []
    again = GrowingFile(tmp_path / "empty.csv")
    again.go_to(source.position())
    assert rows(again) == []
    (tmp_path / "empty.csv").write_text(" \n\na\n")
    again.go_to(again.position())
    assert rows(again) == []
    (tmp_path / "empty.csv").write_text(" \n\na\n1\n")
    last = GrowingFile(tmp_path / "empty.csv")
    last.go_to(again.position())
    assert rows(last) == [{"a": "1"}]


def followed(path, change, **options):
    """What comes of a file that is followed, and changed when it was read to its end."""
    asked = []

    def pause():
        asked.append(time.monotonic())
        if len(asked) == 1:
            change()
        return len(asked) > 2

    found = rows(GrowingFile(path, follow=True, **options), pause)
    assert asked[2] - asked[1] > 0.15  # nothing came
    return found


def test_a_followed_file_ends_when_waiting_is_given_up(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a;b\n1,5;2\n3")

    def append():
        with open(path, "ab") as file:
            file.write(b";4\n5;")

    told = CsvDialect(decimal=".")
    assert followed(path, append, dialect=told) == [{"a": "1,5", "b": "2"}, {"a": "3", "b": "4"}]
    with pytest.raises(ValueError, match="was cut to 3 bytes, but 16 had been read"):
        followed(path, lambda: os.truncate(path, 3))
    path.write_bytes(b"a\n1\n")
    assert followed(path, lambda: path.write_bytes(b"a\n2\n")) == [{"a": "1"}]
    other = tmp_path / "other"
    for change in (path.unlink, partial(os.replace, other, path)):
        path.write_bytes(b"a\n1\n")
        other.write_bytes(b"a\n1\n")
        with pytest.raises(ValueError, match="was removed or replaced by another file"):
            followed(path, change)


def test_a_table_goes_on_after_any_row(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.arange(3000)}), path, row_group_size=700)
    source = TableFile(path)
    assert source.name == str(path)
    reading = source.records(never)
    positions = {0: source.position()}
    for n in range(3000):
        one = next(reading)
        assert one.values == {"a": n}
        assert one.place == f"row {n:,} of rows.parquet (the first is row 0)"
        positions[n + 1] = source.position()
    assert [*reading] == []
    assert positions[1] == {"row": 1, "size": path.stat().st_size}
    for n in (0, 1, 699, 700, 701, 1023, 1024, 1025, 2048, 2999, 3000):
        again = TableFile(path)
        again.go_to(positions[n])
        found = [*again.records(never)]
        assert [one.values["a"] for one in found] == [*range(n, 3000)]
        assert not found or found[0].place.startswith(f"row {n:,} of")
    with pytest.raises(ValueError, match="`row` must"):
        TableFile(path).go_to({**positions[1], "row": -1})
    with pytest.raises(ValueError, match="not the file that was read before: it had 1 bytes"):
        TableFile(path).go_to({**positions[1], "size": 1})


def test_files_of_a_folder_come_by_name_and_once(tmp_path):
    for name in ("b.csv", "a.jsonl", "C.TSV", "d.csv.tmp", ".e.csv", "_f.csv", "g.md", "h.csv~"):
        text = '{"a": 1}\n' if name.endswith("jsonl") else f"a,from\n1,{name}\n"
        (tmp_path / name).write_text(text)
    (tmp_path / "0.csv").touch()
    (tmp_path / "1.csv").mkdir()
    pq.write_table(pa.table({"a": [1], "from": ["i"]}), tmp_path / "i.PARQUET")
    source = ArrivingFiles(tmp_path, settled=0.0)
    assert source.name == str(tmp_path)
    found = [*source.records(never)]
    assert [one.values.get("from", "a.jsonl") for one in found] == [
        "C.TSV",
        "a.jsonl",
        "b.csv",
        "i",
    ]
    assert [one.place.split(" of ")[1][:5] for one in found] == ["C.TSV", "a.jso", "b.csv", "i.PAR"]
    position = source.position()
    assert position["part"] is None
    sizes = [[name, (tmp_path / name).stat().st_size] for name, _ in position["done"]]
    assert position["done"] == sizes
    again = ArrivingFiles(tmp_path, settled=0.0)
    again.go_to(json.loads(json.dumps(position)))
    assert rows(again, never) == []
    (tmp_path / "b.csv").unlink()
    (tmp_path / "k.csv").write_text("a\n7\n")
    assert rows(again, never) == [{"a": "7"}]
    assert [name for name, _ in again.position()["done"]] == [
        "C.TSV",
        "a.jsonl",
        "i.PARQUET",
        "k.csv",
    ]
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"a\.jsonl changed after it was read as a whole"):
        rows(again, never)


def test_files_of_a_folder_are_read_by_their_endings(tmp_path):
    for ending in ("csv", "tsv", "txt", "log"):
        (tmp_path / f"rows.{ending}").write_text("a\n1\n")
    for ending in ("jsonl", "ndjson", "json"):
        (tmp_path / f"rows.{ending}").write_text('{"a": 1}\n')
    table = pa.table({"a": [1]})
    for ending in ("parquet", "pq"):
        pq.write_table(table, tmp_path / f"rows.{ending}")
    for ending in ("arrow", "feather", "ipc"):
        with pa.ipc.new_file(tmp_path / f"rows.{ending}", table.schema) as writer:
            writer.write_table(table)
    found = rows(ArrivingFiles(tmp_path, settled=0.0), never)
    assert [str(values["a"]) for values in found] == ["1"] * 12


def test_a_folder_goes_on_inside_of_a_file(tmp_path):
    (tmp_path / "1.csv").write_text("a;b\n1;2\n3,5;4\n")
    (tmp_path / "2.csv").write_text("a\n5\n")
    told = CsvDialect(decimal=".")
    source = ArrivingFiles(tmp_path, settled=0.0, dialect=told)
    reading = source.records(never)
    next(reading)
    position = json.loads(json.dumps(source.position()))
    assert position["part"]["file"] == "1.csv"
    assert position["done"] == []
    again = ArrivingFiles(tmp_path, settled=0.0, dialect=told)
    again.go_to(position)
    assert rows(again, never) == [{"a": "3,5", "b": "4"}, {"a": "5"}]
    again.go_to(position)
    assert rows(again, never) == [{"a": "3,5", "b": "4"}, {"a": "5"}]
    source.go_to({"done": [["1.csv", 14]], "part": None})
    assert rows(source, never) == [{"a": "5"}]
    (tmp_path / "1.csv").unlink()
    with pytest.raises(ValueError, match=r"1\.csv is gone, of which a part was read before"):
        ArrivingFiles(tmp_path).go_to(position)
    (tmp_path / "1.csv").mkdir()
    with pytest.raises(ValueError, match=r"1\.csv is gone, of which a part was read before"):
        ArrivingFiles(tmp_path).go_to(position)


def test_a_file_is_whole_when_it_has_not_changed_for_a_while(tmp_path, monkeypatch):
    path = tmp_path / "1.csv"
    path.write_text("a\n1\n")
    now = [path.stat().st_mtime]
    monkeypatch.setattr(arrivals.time, "time", lambda: now[0])
    monkeypatch.setattr(arrivals.time, "monotonic", lambda: now[0] - 100.0)
    source = ArrivingFiles(tmp_path, settled=1.0)

    def is_whole(after):
        now[0] += after
        return source._is_whole(source._first())

    assert [is_whole(after) for after in (0.0, 0.5, 0.5)] == [False, False, True]
    path.write_text("a\n1\n2\n")  # and on it goes
    now[0] = path.stat().st_mtime
    assert [is_whole(after) for after in (0.0, 0.75, 0.25, 0.75)] == [False, False, True, True]
    path.write_text("a\n1\n3\n")  # of the same size
    os.utime(path, (now[0], now[0]))
    assert [is_whole(after) for after in (0.0, 0.5, 0.5)] == [False, False, True]
    os.utime(path, (now[0] - 2.0, now[0] - 2.0))
    assert not is_whole(0.0)
    assert is_whole(0.001)  # of before, by its time, and nobody needs to look twice
    source = ArrivingFiles(tmp_path, settled=1.0)
    assert is_whole(0.0)
    source = ArrivingFiles(tmp_path, settled=2.0)  # which is longer, as it changes more slowly
    assert not is_whole(0.0)


def test_a_file_that_grows_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "1.csv"
    for change in ("size", "time"):
        path.write_text("a\n1\n2\n")
        source = ArrivingFiles(tmp_path, settled=0.0)
        reading = source.records(never)
        next(reading)
        if change == "size":
            path.write_text("a\n1\n2\n3\n")
        else:
            path.write_text("a\n1\n3\n")
            os.utime(path, (1.0, 1.0))
        with pytest.raises(ValueError, match="changed after it was read as a whole"):
            list(reading)


def test_a_folder_is_looked_at_again_until_waiting_is_given_up(tmp_path):
    asked = []

    def pause():
        asked.append(time.monotonic())
        if len(asked) == 2:
            (tmp_path / "1.csv").write_text("a\n1\n")
        return len(asked) > 3

    source = ArrivingFiles(tmp_path, follow=True, settled=0.0)
    assert rows(source, pause) == [{"a": "1"}]
    assert 0.15 < asked[1] - asked[0] < 1.0
    (tmp_path / "2.csv").write_text("a\n2\n")
    unsettled = ArrivingFiles(tmp_path, settled=60.0)
    assert rows(unsettled) == []  # not whole yet
    assert rows(ArrivingFiles(tmp_path, settled=0.1), never) == [{"a": "1"}, {"a": "2"}]


def test_a_folder_that_takes_long_to_list_is_listed_rarely(tmp_path, monkeypatch):
    clock, slept = itertools.count(7.0), []
    monkeypatch.setattr(arrivals.time, "monotonic", clock.__next__)
    monkeypatch.setattr(arrivals.time, "sleep", slept.append)
    assert rows(ArrivingFiles(tmp_path, follow=True), lambda: len(slept) == 1) == []
    assert slept == [10.0]


# -- rows ------------------------------------------------------------------------------------------


def cells(text=False, **values):
    return Record(values, "row 7", is_text=text)


def refused(reader, record, said):
    state = reader.to_state()
    with pytest.raises(BadRowError, match=said) as caught:
        reader.read(record)
    assert str(caught.value).startswith("row 7: ")
    assert reader.to_state() == state


def test_a_row_has_inputs_a_target_and_a_key():
    reader = RowReader("y", key="id", exclude=["note"])
    assert reader.read(cells(id=3, a=1, b=2.5, note="x", y=1.5)) == Row(
        {"a": 1.0, "b": 2.5}, 1.5, "3"
    )
    assert reader.columns == ["a", "b"]
    assert (reader.kind, reader.task) == ("number", "regression")
    assert reader.read(cells(id="k", b=1, a=0)) == Row({"a": 0.0, "b": 1.0}, None, "k")
    assert reader.read(cells(id=0.5, y=2)) == Row(None, 2.0, "0.5")
    assert reader.read(cells(id=0, y=-1)) == Row(None, -1.0, "0")
    refused(reader, Record({}, "row 7", error="it is odd"), r"row 7: it is odd\.$")
    for key in (None, "", [1]):
        refused(reader, cells(id=key, a=1, b=2, y=1), "it has no key in 'id', got")
    refused(reader, cells(id=1), "it has no inputs nor a target")
    refused(reader, cells(id=1, a=1, y=1), "the column 'b' has no value. Fill such gaps")
    refused(reader, cells(id=1, a=1, b=None, y=1), "the column 'b' has no value. Fill such gaps")
    refused(reader, cells(id=1, a=math.nan, b=1, y=1), "the column 'a' has no value")
    refused(reader, cells(id=1, a=1, b=1, c=1, y=1), "a column 'c' that the first row did not have")
    refused(reader, cells(id=1, a="1", b=1, y=1), "'a' holds '1', which is no number .decimals")
    refused(reader, cells(id=1, a="1,5", b=1, y=1), r"'1,5', which is no number \(decimals have")
    refused(reader, cells(id=1, a="x,y", b=1, y=1), r"'x,y', which is no number\. Correct")
    refused(reader, cells(id=1, a=[1], b=1, y=1), "which is no number. .* column with `exclude`")
    refused(reader, cells(id=1, a=b"x", b=1, y=1), "which is no number")
    refused(reader, cells(id=1, a=10**400, b=1, y=1), "which is no number")
    refused(reader, cells(id=1, a=math.inf, b=1, y=1), "'a' holds inf, which is not finite")
    refused(reader, cells(id=1, a=1, b=1, y="x"), "'y' holds 'x', .* or leave out such rows")
    refused(reader, cells(id=1, a=1, b=1, y=-math.inf), "'y' holds -inf, which is not finite")
    no_key = RowReader("y")
    refused(no_key, cells(a="x", y=1), "which is no number")
    refused(no_key, cells(y=1), "it has no inputs, only the target 1")
    assert no_key.read(cells(a=1)) == Row({"a": 1.0}, None, None)
    assert type(no_key.read(cells(a=2)).x["a"]) is float
    labels = RowReader("y", key="id")
    assert labels.read(cells(id=1, y=2)) == Row(None, 2, "1")  # that of a row of before
    assert labels.columns is None
    wide = RowReader("y")
    wide.read(cells(a=1, b=2, c=3, y=4))
    refused(wide, cells(a=1, b=None, c=None, y=4), "the column 'b' has no value")


def test_cells_of_text_are_numbers_as_python_writes_no_others():
    reader = RowReader("y", task="regression")
    assert reader.read(cells(text=True, a=" 1e3 ", y="-2.5")) == Row({"a": 1000.0}, -2.5, None)
    for cell, said in (
        ("1_000", "which is no number. Correct"),
        ("1,5", "decimals have a point"),
        ("x" * 99, f"holds '{'x' * 40}', which"),
        ("1e999", "which is not finite"),
        ("", "it has no inputs, only the target"),
    ):
        refused(reader, cells(text=True, a=cell, y="1"), said)


def test_columns_of_csv_must_be_there():
    row = cells(text=True, a="1", b="2")
    for reader, said in (
        (RowReader("y"), "no column 'y' for the `target`, but 'a', 'b'"),
        (RowReader("a", key="aa"), "no column 'aa' for the `key`, but 'a', 'b'.$"),
        (RowReader("y", exclude=["c"], needs_target=False), "no column 'c' for the `exclude`"),
        (RowReader("a", key="bb"), r"no column 'bb' for the `key`.*Did you mean 'b'\?"),
        (RowReader("a", exclude=iter(["b", "c"])), "no column 'c' for the `exclude`"),
    ):
        with pytest.raises(ValueError, match=said):
            reader.read(row)
    assert RowReader("y", needs_target=False).read(row).x == {"a": 1.0, "b": 2.0}
    assert RowReader("y").read(cells(a=1)).x == {"a": 1.0}  # JSON names what it has
    twice = RowReader("b")
    twice.read(row)
    refused(twice, cells(text=True, a="1", c="2"), "a column 'c' that the first row did not have")
    twice.read(cells(text=True, a="1"))  # only the first one is looked at


@pytest.mark.parametrize(
    ("first", "is_text", "others", "said"),
    [
        ("yes", False, [1, True], "is no text, as those before are"),
        (True, False, [1, "true"], "is no truth value, as those before are"),
        (3, False, ["x", "3"], "is no whole number, as those before are.$"),
        (3, False, [True, 0.5], "is no whole number, as those before are. For quantities say"),
        (0.5, False, ["x", [1]], "which is no number"),
    ],
)
def test_targets_are_of_the_kind_of_the_first(first, is_text, others, said):
    reader = RowReader("y")
    assert reader.read(cells(a=1, y=first)).y is first or isinstance(first, float)
    again = RowReader("y")
    again.restore(reader.to_state())
    for one in (reader, again):
        for other in others:
            refused(one, cells(a=1, y=other), said)
        assert one.read(cells(a=1)).y is None
        assert one.read(cells(a=1, y=first)).y == first


def test_truth_values_of_text_are_read_where_those_before_were_such():
    reader = RowReader("y")
    assert reader.read(cells(a=1, y=True)).y is True
    assert reader.read(cells(text=True, a="1", y="FALSE")).y is False
    assert reader.read(cells(text=True, a="1", y="true")).y is True
    assert reader.read(cells(a=1, y=np.True_)).y is True
    assert RowReader("y").read(cells(a=1, y=np.True_)).y is True
    refused(reader, cells(text=True, a="1", y="0"), "'0' is no truth value")


def test_quantities_may_be_written_as_text():
    reader = RowReader("y")
    assert reader.read(cells(a=1, y="$1,000.50")).y == 1000.5
    assert (reader.kind, reader.task, reader.form.unit) == ("number", "regression", "$")
    assert reader.read(cells(a=1, y="$2.50")).y == 2.5
    assert reader.read(cells(a=1, y=3)).y == 3.0
    refused(reader, cells(a=1, y="soon"), "'soon' is not written as those before are")
    again = RowReader("y", task="regression")
    again.restore(reader.to_state())
    refused(again, cells(a=1, y="2024-01-31"), "is not written as those before are")
    assert again.read(cells(a=1, y="$2.50")).y == 2.5
    refused(again, cells(a=1, y="2024-01-31"), "is not written as those before are")
    numbers = RowReader("y", task="regression")
    numbers.read(cells(a=1, y=1))
    refused(numbers, cells(a=1, y="$2.50"), "which is no number")
    for kind in ("auto", "regression"):
        dates = RowReader("y", task=kind)
        error = ValueError if kind == "auto" else BadRowError
        with pytest.raises(error, match="date"):
            dates.read(cells(a=1, y="2024-01-31"))
    names = RowReader("y", task="classification")
    assert names.read(cells(a=1, y="2024-01-31")).y == "2024-01-31"
    assert names.form is None


def test_classes_that_are_whole_numbers_are_few_unless_they_were_asked_for():
    guessed, asked, named = (RowReader("y", task=t) for t in ("auto", "classification", "auto"))
    for label in (8, 1, -(2**63), *range(100, 117)):
        guessed.read(cells(a=1, y=label))
    assert guessed.to_state()["classes"] == sorted([8, 1, -(2**63), *range(100, 117)])
    again = RowReader("y")
    again.restore(guessed.to_state())
    for reader in (guessed, again):
        with pytest.raises(ValueError, match="has had more than 20 different whole numbers"):
            reader.read(cells(a=1, y=2))
    for label in range(25):
        asked.read(cells(a=1, y=label))
        named.read(cells(a=1, y=f"name {label}"))
    state = RowReader("y").to_state()
    with pytest.raises(ValueError, match="classes"):
        again.restore({**state, "classes": [-(2**63) - 1]})


def test_rows_of_a_table_model_have_cells_of_its_kinds():
    rng, n = np.random.default_rng(0), 60
    days = [date(2024, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 300, n)]
    columns = TablePreprocessor(exclude=("y",)).fit(
        {
            "when": np.datetime64("2024-01-01", "s") + rng.integers(0, 10**7, n),
            "clock": [clock(int(h), int(m)) for h, m in rng.integers(0, 24, (n, 2))],
            "flag": rng.integers(0, 2, n) == 1,
            "fee": [f"${one:,.2f}" for one in rng.uniform(100.0, 9000.0, n)],
            "day": [f"{one:%d.%m.%Y}" for one in days],
            "town": rng.choice(["Bern", "Bonn", "Ulm"], n),
            "size": rng.normal(size=n),
            "y": rng.normal(size=n),
        }
    )
    first = {"when": " 2024-03-01T05:29 ", "clock": "21:05", "flag": " TRUE ", "fee": "$2.50"}
    first |= {"day": "01.02.2024", "town": " Ulm ", "size": 3}
    read = first | {"when": "2024-03-01T05:29", "flag": True, "town": "Ulm", "size": 3.0}
    typed = read | {"when": datetime(2024, 3, 1, 5, 29), "clock": clock(21, 5)}
    lenient, strict = RowReader("y"), RowReader("y", strict=True)
    for reader in (lenient, strict):
        reader.of_table(columns, None)
        assert reader.read(cells(**first, y=1.5)) == Row(read, 1.5, None)
        assert reader.typed(read) == typed
        gaps = reader.read(cells(**first | {"when": None, "flag": "false"}, y=1.5)).x
        assert gaps == read | {"when": None, "flag": False}
        assert reader.typed(gaps) == typed | {"when": None, "flag": False}
        refused(reader, cells(y=1.5), "it has no inputs, only the target 1.5")
    for name, cell, what, said in (
        ("when", "soon", "a date", "no date as ISO 8601 writes it"),
        ("clock", "late", "a time of the day", "no time as ISO 8601 writes it"),
        ("flag", "perhaps", "a truth value", "no truth value"),
        ("flag", 1, "a truth value", "no truth value"),
        ("fee", "soon", "a number", "no number as the first ones are written"),
        ("day", "soon", "a date", "no date as the first ones are written"),
        ("size", "x" * 99, "a number", f"holds '{'x' * 40}', which is no number"),
    ):
        odd = first | {name: cell}
        refused(strict, cells(**odd, y=1.5), said)
        lenient.unreadable = Unreadable(strict=False)
        assert lenient.read(cells(**odd, y=1.5)).x == read | {name: None}
        (note,) = lenient.unreadable.said()
        assert f"{name!r} has 1 cell that cannot be read as {what}, first" in note
        assert f"{str(cell)[:40]!r} in row 7" in note


def test_rows_may_have_gaps_new_columns_and_odd_cells():
    reader = RowReader("y", key="id", gaps=True)
    assert reader.read(cells(id=1, a=1, b=None, y=2.5)).x == {"a": 1.0}
    assert reader.columns == ["a"]
    assert reader.read(cells(id=1, b=2, town="Ulm", y=2.5)).x == {"b": 2.0, "town": "Ulm"}
    assert reader.columns == ["a", "b", "town"]
    assert reader.read(cells(id=1, a=1, town=3)).x == {"a": 1.0, "town": "3"}
    assert reader.unreadable.counts == {}
    assert reader.read(cells(id=1, a="far", b=1)).x == {"b": 1.0}
    assert sum(reader.unreadable.counts.values()) == 1
    assert "row 7" in " ".join(reader.unreadable.said())
    assert "'far'" in " ".join(reader.unreadable.said())
    assert reader.read(cells(id=1, y=3.5)) == Row(None, 3.5, "1")  # the label of a row
    assert reader.read(cells(id=1, a=None, y=3.5)) == Row(None, 3.5, "1")
    names = cells(text=True, id="1", a="1", town="-", y="2.5")  # which would be a gap of numbers
    assert reader.read(names).x == {"a": 1.0, "town": "-"}
    gaps = reader.read(cells(id=1, a=None, b=None))
    assert [*gaps.x] == ["a", "b"]
    assert all(map(math.isnan, gaps.x.values()))
    refused(reader, cells(id=1, a=[1], new=[1]), "which is no number")
    refused(reader, cells(id=1), "it has no inputs nor a target")
    again = RowReader("y", key="id", gaps=True)
    again.restore(reader.to_state())
    assert again.columns == reader.columns
    assert again.read(cells(id=1, a=1, town=3)).x == {"a": 1.0, "town": "3"}
    strict = RowReader("y", gaps=True, strict=True)
    strict.read(cells(a=1, y=1))
    refused(strict, cells(a="far", y=1), "which is no number")
    assert strict.unreadable.counts == {}
    unnamed = RowReader("y", gaps=True)
    unnamed.read(cells(a=1, y=1))
    assert [*unnamed.read(cells(a=None, y=1)).x] == ["a"]  # a row of gaps is one to learn


def test_measures_are_of_labels_that_had_been_told():
    measures = Measures()
    assert measures.mean is None
    assert measures.window() is None
    measures.compare(3.0, 1.0, quantities=True)
    measures.compare(1.0, None, quantities=True)
    measures.compare(1.0, 2.0, quantities=True)
    assert (measures.n_labels, measures.n_compared, measures.total) == (3, 2, 3.0)
    assert measures.mean == 1.5
    assert measures.window() == 1.5
    assert measures.window() is None
    fresh = Measures()
    fresh.compare(3.0, 1.0, quantities=True)
    assert fresh.window() == 2.0
    measures.compare("a", "a", quantities=False)
    again = Measures.from_state(measures.to_state())
    assert again.window() is None
    assert again.mean == measures.mean == 4.0 / 3.0
    measures.compare("a", "b", quantities=False)
    assert measures.window() == 0.5
    assert Measures.from_state({**measures.to_state(), "total": 0.5}).total == 0.5
    for name in ("n_bad", "n_labels", "n_compared", "n_unlabelled"):
        with pytest.raises(ValueError, match=name):
            Measures.from_state({**measures.to_state(), name: -1})


# -- learning --------------------------------------------------------------------------------------

KERNEL = Gaussian(1.0)


def model_of(task):
    kind = KernelClassifier if task == "classification" else KernelRegressor
    return kind(kernel=KERNEL, expansion=KOMP(max_size=10), step_size=0.5)


def trained(n=20, **options):
    training = StreamTraining(RowReader("y", key="id"), model_of, **options)
    for i in range(n):
        training.take(cells(id=i, a=i / 10, y=i / 10))
    return training


def test_what_is_asked_and_learned_is_counted(monkeypatch):
    training = trained(3)
    answer = training.take(cells(id=3, a=0.5))
    assert (answer.row, answer.key) == (3, "3")
    assert math.isfinite(answer.prediction)
    assert type(answer.prediction) is float
    assert training.measures.n_unlabelled == 1
    assert training.late.max_waiting == 10_000
    assert training.take(cells(id=3, y=0.5)) is None
    assert training.measures.n_labels == 4
    assert training.estimator.n_samples_seen_ == 4
    with pytest.raises(BadRowError, match="row 7: the column 'a' holds 'x'"):
        training.take(cells(id=4, a="x"))

    def refuse(*_):
        raise ValueError("the model does not like it")

    with monkeypatch.context() as patch:
        patch.setattr(KernelRegressor, "learn_one", refuse)
        with pytest.raises(BadRowError, match="row 7: the model does not like it"):
            training.take(cells(id=4, a=0.5, y=0.5))
    assert (training.n_rows, training.measures.n_bad) == (7, 2)
    assert training.estimator.n_samples_seen_ == 4
    for _ in range(2):  # one that comes again is no label
        assert training.take(cells(id="again", a=0.5)).key == "again"
    assert len(training.late) == 1
    assert training.take(cells(id="again", a=0.5, y=0.5)) is None  # but this has one
    assert len(training.late) == 0
    assert len(trained(3).late) == 0
    assert training.take(cells(id="none", y=0.5)) is None  # of a row that never came
    assert training.late.n_unknown == 1
    without = StreamTraining(RowReader("y"), model_of)
    assert without.take(cells(a=1)).prediction is None
    assert without.estimator is None
    assert without.measures.n_unlabelled == 1
    assert len(without.late) == 0  # as no label can come
    asks_only = StreamTraining(RowReader("y"), model_of, model=training.estimator, learns=False)
    state = repr(training.estimator.to_state())
    asks_only.take(cells(a=0.5, y=0.5))
    assert asks_only.measures.n_compared == 1
    assert repr(training.estimator.to_state()) == state


def test_a_checkpoint_is_all_of_a_run(tmp_path):
    training = trained(12, max_waiting=3, coverage=0.5)
    training.take(cells(id="late", a=0.5))
    training.write(tmp_path / "c", {"position": {"byte": 3}})
    assert load_model(tmp_path / "c").n_samples_seen_ == 12
    again = StreamTraining(
        RowReader("y", key="id"), model_of, max_waiting=9, max_age=77, coverage=0.5
    )
    assert again.restore(tmp_path / "c") == {"position": {"byte": 3}}
    assert (again.n_rows, again.measures.n_labels, again.measures.n_unlabelled) == (13, 12, 1)
    assert (again.late.max_waiting, again.late.max_age) == (9, 77)
    assert "late" in again.late
    for one in (training, again):
        one.take(cells(id="late", y=0.5))
    answers = [one.take(cells(id="x", a=0.7)) for one in (training, again)]
    assert answers[0] == answers[1]
    assert answers[0].interval is not None
    assert repr(training.estimator.to_state()) == repr(again.estimator.to_state())
    other = StreamTraining(RowReader("y", key="id"), model_of, coverage=0.8)
    other.restore(tmp_path / "c")
    assert other.adaptive.coverage == 0.8
    plain = StreamTraining(RowReader("y", key="id"), model_of)
    plain.restore(tmp_path / "c")
    assert plain.adaptive is None
    plain.write(tmp_path / "d", {})
    later = StreamTraining(RowReader("y", key="id"), model_of, coverage=0.5)
    later.restore(tmp_path / "d")
    assert later.adaptive.coverage == 0.5
    fresh = StreamTraining(RowReader("y"), model_of, coverage=0.5)
    fresh.write(tmp_path / "d", {})
    assert StreamTraining(RowReader("y"), model_of).restore(tmp_path / "d") == {}


def test_a_checkpoint_that_does_not_fit_together_is_refused(tmp_path):
    trained(12, coverage=0.5).write(tmp_path / "c", {})
    forgeries = {
        ("n_rows",): -1,
        ("reader",): {},
        ("measures",): None,
        ("measures", "total"): -1.0,
        ("adaptive",): {},
        ("late",): [],
    }
    for keys, value in forgeries.items():
        state = read_state(tmp_path / "c")
        inside = state["stream"]
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = value
        write_state(tmp_path / "d", state)
        again = StreamTraining(RowReader("y", key="id"), model_of, coverage=0.5)
        with pytest.raises(ValueError, match=r"is not a valid checkpoint: .*Delete it"):
            again.restore(tmp_path / "d")
    state = read_state(tmp_path / "c")
    state["stream"]["n_rows"] = -1
    write_state(tmp_path / "d", state)
    with pytest.raises(ValueError, match="`n_rows` must"):
        StreamTraining(RowReader("y", key="id"), model_of).restore(tmp_path / "d")
    for change in ({"kind": "Popen"}, {"kind": "ValueFunction"}, {"model": None}, {"model": {}}):
        write_state(tmp_path / "d", {**read_state(tmp_path / "c"), **change})
        with pytest.raises(ValueError, match="is not a valid checkpoint"):
            StreamTraining(RowReader("y", key="id"), model_of).restore(tmp_path / "d")
    write_state(tmp_path / "d", {**read_state(tmp_path / "c"), "stream": 3})
    with pytest.raises(ValueError, match="is no checkpoint of `mercer stream`"):
        StreamTraining(RowReader("y"), model_of).restore(tmp_path / "d")
    with pytest.raises(FileNotFoundError):
        StreamTraining(RowReader("y"), model_of).restore(tmp_path / "nothing")


@pytest.mark.parametrize(
    "kind", [KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError]
)
def test_whatever_goes_wrong_with_a_checkpoint_it_is_a_wrong_one(kind, tmp_path, monkeypatch):
    def wrong(state):
        raise kind("so it is")

    trained(1).write(tmp_path / "c", {})
    monkeypatch.setattr(Measures, "from_state", wrong)
    with pytest.raises(ValueError, match=r"is not a valid checkpoint: .*so it is"):
        StreamTraining(RowReader("y", key="id"), model_of).restore(tmp_path / "c")


ROWS = np.random.default_rng(0).normal(size=(30, 2))
NUMBERS, NAMES = ROWS[:, 0], np.where(ROWS[:, 0] > 0, "up", "down")


def on_named(model, y):
    return model.fit(pd.DataFrame(ROWS, columns=["a", "b"]), y)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda: NoveltyDetector(kernel=KERNEL).fit(ROWS), {}, "a NoveltyDetector; streams"),
        (lambda: on_named(model_of("regression"), NUMBERS), {"task": "classification"}, "regress"),
        (lambda: on_named(model_of("classification"), NAMES), {"task": "regression"}, "classific"),
        (lambda: on_named(model_of("regression"), ROWS), {}, "targets of a kind"),
        (lambda: on_named(model_of("classification"), np.round(NUMBERS)), {}, "targets of a kind"),
        (lambda: model_of("regression").fit(ROWS, NUMBERS), {}, "does not know the names"),
        (lambda: on_named(model_of("regression"), NUMBERS), {"target": "a"}, "is an input of the"),
        (lambda: on_named(model_of("regression"), NUMBERS), {"key": "b"}, "is an input of the"),
    ],
)
def test_models_that_cannot_go_on_are_refused(make, options, said):
    reader = RowReader(**{"target": "y", **options})
    with pytest.raises(ValueError, match=said):
        StreamTraining(reader, model_of, model=make())


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (NAMES, "text"),
        (NUMBERS > 0, "boolean"),
        ((NUMBERS > 0) * 1, "integer"),
        (NUMBERS, "number"),
    ],
)
def test_models_that_go_on_say_what_rows_are(labels, kind):
    task = "regression" if kind == "number" else "classification"
    for asked in ("auto", task):
        reader = RowReader("y", task=asked)
        training = StreamTraining(reader, model_of, model=on_named(model_of(task), labels))
        assert (reader.kind, reader.task, reader.columns) == (kind, task, ["a", "b"])
        label = labels[0].item()
        training.take(cells(b=1, a=2, y=label))
        assert training.estimator.n_samples_seen_ == 31
        refused(reader, cells(a=1, y=label), "'b' has no value")
        if kind == "integer":  # which are known to be classes
            assert [reader.read(cells(a=1, b=2, y=n)).y for n in range(25)] == [*range(25)]


def test_intervals_are_of_quantities():
    training = StreamTraining(RowReader("y"), model_of, coverage=0.5)
    with pytest.raises(ValueError, match="`coverage` is of intervals of quantities"):
        training.take(cells(a=1, y="name"))
    training = trained(40, coverage=0.5)
    low, high = training.take(cells(id="x", a=0.5)).interval
    assert low < high
    training, by_hand, total = trained(0, coverage=0.5), AdaptiveConformal(0.5), 0.0
    for i in range(40):
        prediction = training.take(cells(id=i, a=i / 10, y=i / 10)).prediction
        if prediction is not None:
            by_hand.update(abs(prediction - i / 10))
            total += abs(prediction - i / 10)
    assert training.measures.total == total
    answer = training.take(cells(id="x", a=0.5))
    assert answer.interval == by_hand.interval(answer.prediction)
    assert trained(0, coverage=0.5).take(cells(id="x", a=0.5)).interval is None
    assert trained(1, coverage=0.5).take(cells(id="x", a=0.5)).interval is None
