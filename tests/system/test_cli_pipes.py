"""The command in pipes, and on CSV files of other dialects."""

import bz2
import gzip
import io
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from command_line import run
from mercer import load_model
from mercer_app.files import read_tables

pytestmark = pytest.mark.usefixtures("quick_race")

COMMAND = [sys.executable, "-c", "from mercer_app.cli import main; main()"]
GERMAN = "columns separated by ';', decimal comma, Latin-1 (Windows-1252)"


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n)).round(3)
    return pa.table({"größe": a, "b": b, "y": np.where(a > b, "ja", "nö")})


def text_of(table, delimiter=",", decimal=".", encoding="utf-8", header=True):
    def shown(value):
        return str(value).replace(".", decimal)

    rows = [table.column_names] if header else []
    rows += zip(*table.to_pydict().values(), strict=True)
    return "".join(delimiter.join(map(shown, row)) + "\n" for row in rows).encode(encoding)


def arrow_of(table, kind):
    sink = io.BytesIO()
    with kind(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_of(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


KINDS = {
    "plain": text_of,
    "German": lambda t: text_of(t, ";", ",", "latin-1"),
    "UTF-16": lambda t: text_of(t, "\t", ",", "utf-16"),
    "compressed": lambda t: gzip.compress(text_of(t, "|")),
    "compressed by bzip2": lambda t: bz2.compress(text_of(t)),
    "Parquet": parquet_of,
    "Arrow": lambda t: arrow_of(t, pa.ipc.new_file),
    "Arrow stream": lambda t: arrow_of(t, pa.ipc.new_stream),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that learned a Parquet file."""
    folder = tmp_path_factory.mktemp("model")
    pq.write_table(table(), folder / "train.parquet")
    words = ["--target", "y", "--out", folder / "m.mercer", "--expansion", "dictionary"]
    assert run("fit", folder / "train.parquet", *words, "--max-size", 20) == 0
    return folder / "m.mercer"


@pytest.fixture
def pipe(monkeypatch, tmp_path):
    """Return a function that runs the command with bytes on standard input."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))

    def call(content, *words):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        code = run(*words)
        assert list(spool.iterdir()) == []  # nothing is left behind
        return code

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_learns_standard_input_as_it_does_a_file(pipe, model, tmp_path, kind, capsys):
    out = tmp_path / "m.mercer"
    words = ["--target", "y", "--out", out, "--expansion", "dictionary", "--max-size", 20]
    assert pipe(KINDS[kind](table()), "fit", "-", *words) == 0
    assert out.read_bytes() == model.read_bytes()
    said = capsys.readouterr()
    assert said.out == ""
    assert ("standard input: columns separated" in said.err) == (
        kind in {"German", "UTF-16", "compressed"}
    )
    assert "spool" not in said.err


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_go_from_pipe_to_pipe(pipe, model, tmp_path, kind, capfdbinary):
    new = table(50, 1)
    pq.write_table(new, tmp_path / "new.parquet")
    files = ["predict", model, tmp_path / "new.parquet", "--keep", "größe", "--out"]
    assert run(*files, tmp_path / "p.csv") == 0
    expected = (tmp_path / "p.csv").read_bytes()
    capfdbinary.readouterr()
    words = ["predict", model, "-", "--keep", "größe", "--out", "-"]
    assert pipe(KINDS[kind](new), *words) == 0
    said = capfdbinary.readouterr()
    if kind.startswith("Arrow"):
        found = pa.ipc.open_stream(said.out).read_all()
        assert found.equals(csv.read_csv(tmp_path / "p.csv"))
        assert pipe(KINDS[kind](new), *words, "--format", "csv") == 0
        said = capfdbinary.readouterr()
    assert said.out == expected
    assert b"standard output: 50 predictions\n" in said.err
    assert (GERMAN.encode() in said.err) == (kind == "German")
    assert pipe(KINDS[kind](new), *words, "--format", "arrow") == 0
    found = pa.ipc.open_stream(capfdbinary.readouterr().out).read_all()
    assert found.equals(csv.read_csv(tmp_path / "p.csv"))


def test_a_model_is_measured_on_standard_input(pipe, model, tmp_path, capsys):
    new = table(50, 1)
    pq.write_table(new, tmp_path / "new.parquet")
    assert run("evaluate", model, tmp_path / "new.parquet") == 0
    expected = capsys.readouterr().out
    assert pipe(KINDS["German"](new), "evaluate", model, "-") == 0
    assert capsys.readouterr().out == expected
    words = ["--target", "y", "--out", tmp_path / "m.mercer", "--report", tmp_path / "r.html"]
    words += ["--test", "-", "--expansion", "dictionary", "--max-size", 20]
    assert pipe(KINDS["German"](new), "fit", tmp_path / "new.parquet", *words) == 0
    assert "standard input" in (tmp_path / "r.html").read_text()
    assert "spool" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "standard input is empty (0 bytes)"),
        (b"a;b\n1;2\n3;4;5\n", "standard input: line 3 has 3 cells, but there are 2 columns"),
        (b'a,b\n1,2\n"3,4\n', "standard input: in line 3 a cell begins with"),
        (b"PAR1 and no more", "standard input could not be read, it may be damaged"),
        (b"1.5,2.5\n3,4\n", "with `--no-header`, call the columns column_1, column_2, ..."),
    ],
)
def test_what_standard_input_cannot_be_is_said(pipe, model, content, said, capsys):
    assert pipe(content, "predict", model, "-", "--out", "-") == 2
    found = capsys.readouterr()
    assert said in found.err
    assert "spool" not in found.err
    assert found.out == ""


def test_standard_input_is_read_once_and_here(pipe, model, tmp_path, capsys):
    words = ["--target", "y", "--out", tmp_path / "m.mercer"]
    assert pipe(b"", "fit", "-", "--test", "-", *words) == 2
    assert (
        "Standard input can be read once: give DATA or `--test` as a file."
        in capsys.readouterr().err
    )
    assert pipe(b"", "fit", "-", "--engine", "ray", *words) == 2
    assert "`--engine` lets workers read the data" in capsys.readouterr().err
    assert pipe(b"", "predict", model, "-", "--out", tmp_path / "p.csv", "--format", "csv") == 2
    assert "`--format` is of standard output" in capsys.readouterr().err
    (tmp_path / "a.csv").write_bytes(text_of(table()))
    words = ["--out", "-", "--engine", "here"]
    assert pipe(b"", "predict", model, tmp_path / "a.csv", *words) == 2
    assert "`--engine` writes a folder of files" in capsys.readouterr().err


def test_a_full_disk_is_named(pipe, model, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    assert pipe(b"a,b\n", "predict", model, "-", "--out", "-") == 2
    assert "(No space left on device)" in (said := capsys.readouterr().err)
    assert "TMPDIR" in said


def test_readers_may_leave_and_the_locale_may_be_c(model, tmp_path):
    (tmp_path / "new.csv").write_bytes(text_of(table(20_000, 1), ";", ",", "latin-1"))
    command = shlex.join([*COMMAND, "predict", str(model), "-", "--keep", "größe", "--out", "-"])
    done = subprocess.run(
        f"set -o pipefail; cat new.csv | {command} | head -3",
        shell=True,
        executable="/bin/bash",
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, len(lines)) == (0, 3), done.stderr.decode()
    assert lines[0] == '"größe","prediction","probability_ja","probability_nö"'
    assert done.stderr.decode().splitlines() == [f"standard input: {GERMAN}"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind_when_the_command_is_ended(model, tmp_path, how):
    command = [*COMMAND, "predict", str(model), "-", "--out", "-"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    process.stdin.write(b"a,b\n" + b"1,2\n" * 10)
    process.stdin.flush()
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".mercer-*/standard-input.csv")):
        assert time.monotonic() < until
        time.sleep(0.05)
    (place,) = tmp_path.iterdir()
    assert place.stat().st_mode & 0o777 == 0o700  # for nobody else
    process.send_signal(how)
    assert process.wait(60) == (143 if how == signal.SIGTERM else -how)
    process.stdin.close()
    if how == signal.SIGKILL:  # goes with the next
        subprocess.run(command, input=b"", env=environment, check=False)
    assert list(tmp_path.iterdir()) == []


def test_termination_removes_what_was_begun_and_says_so(model, tmp_path):
    rows = pa.concat_tables([table()] * (2_000_000 // table().num_rows))
    pq.write_table(rows, tmp_path / "rows.parquet")
    command = [*COMMAND, "predict", str(model), "rows.parquet", "--out", "said.csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".mercer-*")) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.endswith(b"terminated; nothing was saved.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


# -- files ----------------------------------------------------------------------------------------


def test_files_to_predict_need_not_be_written_as_those_learned(model, tmp_path, capsys):
    for name, content in (
        ("plain", text_of(table(), "\t")),
        ("german", KINDS["German"](table())),
    ):
        (tmp_path / f"{name}.csv").write_bytes(content)
        assert (
            run("predict", model, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}.parquet")
            == 0
        )
    assert pq.read_table(tmp_path / "plain.parquet").equals(
        pq.read_table(tmp_path / "german.parquet")
    )
    said = capsys.readouterr().err
    assert "plain.csv: columns separated by tabs\n" in said
    assert f"german.csv: {GERMAN}\n" in said


def test_the_options_say_how_files_are_written(tmp_path, capsys):
    train, out = tmp_path / "a.csv", tmp_path / "m.mercer"
    train.write_bytes(text_of(table(), "~", ",", "cp850", header=False))
    words = ["--delimiter", "~", "--decimal", "comma", "--encoding", "cp850", "--no-header"]
    fit = ["--expansion", "dictionary", "--max-size", 20, "--quiet", "--test", train, "--out", out]
    assert run("fit", train, "--target", "column_3", *words, *fit) == 0
    assert "error_percent" in capsys.readouterr().out
    loaded = load_model(out)
    assert loaded.feature_names_in_.tolist() == ["column_1", "column_2"]
    assert loaded.roles_.target == "column_3"
    assert loaded.classes_.tolist() == ["ja", "nö"]
    assert run("evaluate", out, train, *words) == 0
    assert run("predict", out, train, *words, "--out", tmp_path / "p.csv") == 0
    assert "a.csv: columns separated by '~', decimal comma, CP850, no line of names" in (
        capsys.readouterr().err
    )
    assert sum(part.num_rows for part in read_tables(tmp_path / "p.csv")) == 200
    assert run("evaluate", out, train, *words[:-1], "--delimiter", ";;") == 2
    assert "`--delimiter` must be a single character" in capsys.readouterr().err


def test_wrong_encodings_and_delimiters_are_named_as_options(model, tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_bytes(KINDS["German"](table()))
    assert run("evaluate", model, file, "--encoding", "utf-8") == 2
    assert "a.csv: line 1 holds bytes that are no UTF-8. Say what the encoding is with " in (
        said := capsys.readouterr().err
    )
    assert "`--encoding latin-1`" in said
    file.write_bytes(text_of(table()) + b"1,2\n")
    assert run("evaluate", model, file) == 2
    said = capsys.readouterr().err
    assert "a.csv: line 202 has 2 cells, but there are 3 columns" in said
    assert "say so with `--delimiter`." in said


def test_workers_read_as_they_are_told(tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(2):
        content = text_of(table(100, number), "~", ",", "cp850")
        (folder / f"{number}.csv").write_bytes(content)
    words = ["--delimiter", "~", "--encoding", "cp850"]
    fit = ["--target", "y", "--out", tmp_path / "m.mercer", "--engine", "here"]
    assert run("fit", folder, *fit, *words, "--expansion", "dictionary", "--max-size", 20) == 0
    assert (
        "0.csv and 1 more: columns separated by '~', decimal comma, CP850"
        in capsys.readouterr().err
    )
    predict = ["predict", tmp_path / "m.mercer", folder, "--out", tmp_path / "p"]
    assert run(*predict, "--engine", "here", *words) == 0
    assert sum(part.num_rows for part in read_tables(tmp_path / "p")) == 200


def test_a_stream_of_rows_is_read_as_it_is_told(tmp_path, capsys):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60)).round(3)
    rows = pa.table({"größe": a, "b": b, "y": (a + b).round(3)})
    found = []
    for name, content, words in (
        ("plain", text_of(rows), []),
        ("german", text_of(rows, ";", ",", "latin-1"), []),
        ("told", text_of(rows, "~", ",", "cp850"), ["--delimiter", "~", "--decimal", ","]),
    ):
        words += ["--encoding", "cp850"] if name == "told" else []
        (tmp_path / f"{name}.csv").write_bytes(content)
        out = tmp_path / f"{name}.mercer"
        assert run("stream", tmp_path / f"{name}.csv", "--target", "y", "--out", out, *words) == 0
        found.append(out.read_bytes())
    assert found[0] == found[1] == found[2]
    (tmp_path / "bad.csv").write_bytes(b"a,y\n1,2\n\xe4,3\n")
    assert (
        run("stream", tmp_path / "bad.csv", "--target", "y", "--out", tmp_path / "bad.mercer") == 2
    )
    assert "it is no UTF-8 text; `--encoding` tells another one" in capsys.readouterr().err
