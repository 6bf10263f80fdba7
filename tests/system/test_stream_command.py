"""`mercer stream`: a killed run ends as one that was not; rows wait and do not pile up."""

import contextlib
import itertools
import json
import logging
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.expansions import KOMP
from mercer.streams import LateLabels
from mercer_app.cli import _stream, main
from mercer_app.cli._options import ExpansionName, StreamOptions
from mercer_app.cli._stream import _parameters
from mercer_app.files import arrivals
from mercer_app.files.arrivals import (
    ArrivingFiles,
    ArrowSocket,
    GrowingFile,
    Lines,
    Record,
    open_source,
)
from mercer_app.rows import TASKS
from mercer_app.training.streaming import Answer, BadRowError, RowReader

COMMAND = [sys.executable, "-c", "from mercer_app.cli import main; main()"]
KOMP_OPTIONS = [
    *("--kernel", "gaussian", "--length-scale", "1"),
    *("--expansion", "komp", "--max-size", "40", "--quiet"),
]
PATIENCE = 300.0  # compiling takes a while where nothing is kept, more so on a busy machine


def rows_of(n, seed=0, quantities=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    for i, (a, b) in enumerate(X.tolist()):
        y = a * b if quantities else "yes" if a * b > 0 else "no"
        yield {"id": i, "a": a, "b": b, "y": y}


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_lines(rows):
    rows = list(rows)
    lines = [rows[0].keys(), *(row.values() for row in rows)]
    return "".join(",".join("" if v is None else str(v) for v in line) + "\n" for line in lines)


def late(rows, delay, lost=()):
    """Rows without their labels, which follow some rows later, or never."""
    rows = list(rows)
    for i in range(len(rows) + delay):
        if i < len(rows):
            yield {**rows[i], "y": None}
        if i >= delay and i - delay not in lost:
            yield {"id": rows[i - delay]["id"], "y": rows[i - delay]["y"]}


def with_gaps(rows):
    """Rows that lack a number now and then, and have one more in the end."""
    for i, row in enumerate(rows):
        if i % 7 == 3:
            row["a"] = None
        elif i % 7 == 5:
            del row["b"]
        yield {**row, "c": row["id"] / 100} if i > 50 else row


def words_of(source, folder, *more, target="y", checkpoint=True):
    words = ["stream", source, "--target", target, "--out", folder / "model", *KOMP_OPTIONS]
    words += ["--predictions", folder / "said.jsonl"]
    if checkpoint:
        words += ["--checkpoint", folder / "kept", "--checkpoint-every", "20"]
    return [str(word) for word in [*words, *more]]


def outcome(folder, predictions="said.jsonl"):
    return (folder / "model").read_bytes(), (folder / predictions).read_bytes()


def said(folder):
    file = folder / "said.jsonl"  # which begins with the first prediction
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.005)


@contextlib.contextmanager
def beside(work):
    """Run a function in a thread; its error is that of the test.

    Signals that it sends too late, to no command, fail the test and do not end the process.
    """
    errors = []

    def guarded():
        try:
            work()
        except BaseException as error:
            errors.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    def strayed(number, _):
        raise AssertionError(f"signal {number} came when no command ran")

    before = {n: signal.signal(n, strayed) for n in (signal.SIGINT, signal.SIGTERM)}
    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        try:
            thread.join(PATIENCE)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        assert not errors, errors


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(arrivals, "_POLL", 0.01)
    monkeypatch.setattr(arrivals, "_SETTLED", 0.05)


@pytest.fixture
def make(tmp_path):
    """Make a new folder."""

    def new(name):
        (tmp_path / name).mkdir()
        return tmp_path / name

    return new


# -- killed runs --------------------------------------------------------------------------------


def folder_of_files(rows, folder):
    """Files of all kinds, to be read in the order of their names."""
    rows = list(rows)
    cut = [rows[i * len(rows) // 4 : (i + 1) * len(rows) // 4] for i in range(4)]
    (folder / "1.csv").write_text(csv_lines(cut[0]))
    (folder / "2.jsonl").write_text(json_lines(cut[1]))
    pq.write_table(pa.Table.from_pylist(cut[2]), folder / "3.parquet")
    with pa.OSFile(str(folder / "4.arrow"), "wb") as file:
        table = pa.Table.from_pylist(cut[3])
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return folder


def killed(words, stdin, n_bytes, folder, predictions):
    """Run the command in a process of its own; kill it once so many bytes are predicted."""
    with open(stdin or os.devnull, "rb") as file:
        process = subprocess.Popen([*COMMAND, *words], stdin=file, stderr=subprocess.PIPE)
        place, until = folder / predictions, time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            if place.exists() and place.stat().st_size >= n_bytes:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode in (0, -signal.SIGKILL), err.decode()
        return process.returncode


@contextlib.contextmanager
def standard_input(path):
    """Give this process a file as its standard input."""
    before = os.dup(0)
    with open(path, "rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.mark.parametrize("kind", ["file", "folder", "stdin"])
def test_a_run_killed_again_and_again_ends_as_one_that_was_not(kind, make, rng):
    n = 400
    if kind == "file":
        source = make("data") / "rows.jsonl"
        lost = set(range(0, n, 50))
        source.write_text(json_lines(late(rows_of(n), 30, lost)))
        more = ["--key", "id", "--max-waiting", "25"]
    elif kind == "folder":
        source, more = folder_of_files(rows_of(n), make("data")), ["--exclude", "id"]
    else:
        source, more = make("data") / "rows.csv", ["--exclude", "id"]
        source.write_text(csv_lines(rows_of(n)))
    stdin, address = (source, "-") if kind == "stdin" else (None, source)
    plain, broken = make("plain"), make("broken")
    assert run(*words_of(source, plain, *more)) == 0
    length = (plain / "said.jsonl").stat().st_size
    words = words_of(address, broken, *more)
    # Once: `test_it_goes_on_after_any_row` tries all places, in this process.
    n_bytes = rng.integers(1, length // 2)
    assert killed(words, stdin, n_bytes, broken, "said.jsonl") == -signal.SIGKILL
    # What the last killed run left behind its last checkpoint may be cut anywhere.
    with open(broken / "said.jsonl", "ab") as file:
        file.write(b'{"row": 12')
    with standard_input(stdin or os.devnull):
        assert run(*words) == 0
    assert outcome(broken) == outcome(plain)
    assert [line["row"] for line in said(broken)] == sorted({line["row"] for line in said(broken)})
    assert sorted(os.listdir(broken / "kept")) == ["lock", "stream.checkpoint"]


class Crash(BaseException):
    """As if the process had ended there."""


@pytest.mark.parametrize(
    "kind", ["csv", "json", "parquet", "folder", "late", "arrow predictions", "default, with gaps"]
)
def test_it_goes_on_after_any_row(kind, make, rng, monkeypatch):
    """Crashes after each of many rows, in this process: quick enough for more of them."""
    n, more, predictions = 150, ["--exclude", "id"], "said.jsonl"
    source = make("data") / "rows"
    if kind == "csv":
        source = source.with_suffix(".csv")
        source.write_text(csv_lines(rows_of(n)))
    elif kind in ("json", "arrow predictions"):
        source.write_text(json_lines(rows_of(n)))
    elif kind == "parquet":
        source = source.with_suffix(".parquet")
        pq.write_table(pa.Table.from_pylist(list(rows_of(n))), source)
    elif kind == "folder":
        source = folder_of_files(rows_of(n), source.parent)
    elif kind.startswith("default"):
        source.write_text(json_lines(with_gaps(rows_of(n))))
    else:
        source.write_text(json_lines(late(rows_of(n), 13, lost={5, 6, 50})))
        more = ["--key", "id", "--max-waiting", "12"]
    if kind == "arrow predictions":
        more += ["--predictions", "OUT/said.arrow", "--task", "classification"]
        predictions = "said.arrow"
    plain, broken = make("plain"), make("broken")
    words = {
        folder: [w.replace("OUT", str(folder)) for w in words_of(source, folder, *more)]
        for folder in (plain, broken)
    }
    if kind.startswith("default"):
        words = {f: [w for w in words[f] if w not in KOMP_OPTIONS[:-1]] for f in words}
    assert run(*words[plain]) == 0

    true_source = arrivals.open_source

    def open_broken(crash_at, *args, **options):
        source = true_source(*args, **options)
        records = source.records

        def until_crash(pause):
            for i, record in enumerate(records(pause)):
                if i == crash_at:
                    raise Crash
                yield record

        source.records = until_crash
        return source

    for crash_at in rng.integers(0, 60, 12).tolist():
        with monkeypatch.context() as patch:
            patch.setattr("mercer_app.cli._stream.open_source", partial(open_broken, crash_at))
            with contextlib.suppress(Crash, SystemExit):
                main(words[broken])
    assert run(*words[broken]) == 0
    if kind == "arrow predictions":  # batches are cut otherwise, rows are the same
        tables = [pa.ipc.open_stream(f / predictions).read_all() for f in (plain, broken)]
        assert tables[0].equals(tables[1])
        assert tables[0].column("row").to_pylist() == list(range(n))
        assert (plain / "model").read_bytes() == (broken / "model").read_bytes()
    else:
        assert outcome(broken) == outcome(plain)


def test_checkpoint_is_a_model_and_settings_must_be_the_same(make, mercer):
    folder = make("run")
    source = folder / "rows.csv"
    source.write_text(csv_lines(rows_of(60)))
    words = words_of(source, folder, "--exclude", "id")
    assert mercer(*words)[0] == 0
    kept = folder / "kept" / "stream.checkpoint"
    rows = np.zeros((1, 2))
    assert load_model(kept).predict(rows) == load_model(folder / "model").predict(rows)
    code, _, err = mercer(*words, "--max-size", "41")
    assert code == 2
    assert "other options: --max-size (then 40, now 41)" in err
    model = (folder / "model").read_bytes()
    code, _, err = mercer(*words)  # nothing new came
    assert (code, (folder / "model").read_bytes()) == (0, model)
    with open(source, "a") as file:
        file.write("60,1,1,yes\n")
    assert mercer(*words)[0] == 0
    assert [line["row"] for line in said(folder)] == list(range(61))
    (folder / "said.jsonl").write_text("")
    code, _, err = mercer(*words)
    assert code == 2
    assert "bytes of predictions, but now has 0" in err
    source.write_text("id,a,b,y\n")
    code, _, err = mercer(*words)
    assert code == 2
    assert "is not the file that was read before" in err


def test_two_runs_do_not_share_checkpoints(make, mercer):
    import fcntl

    folder = make("run")
    (folder / "rows.csv").write_text(csv_lines(rows_of(9)))
    (folder / "kept").mkdir()
    with open(folder / "kept" / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, _, err = mercer(*words_of(folder / "rows.csv", folder))
    assert code == 2
    assert "Another run uses the checkpoints" in err


# -- what is learned ----------------------------------------------------------------------------


@pytest.mark.parametrize("quantities", [False, True])
def test_the_command_does_what_predict_one_and_learn_one_do(quantities, make, mercer):
    folder, rows = make("run"), list(rows_of(200, quantities=quantities))
    (folder / "rows.jsonl").write_text(json_lines(rows))
    code, _, err = mercer(
        *(w for w in words_of(folder / "rows.jsonl", folder, "--exclude", "id") if w != "--quiet"),
        "--every", "100",
    )  # fmt: skip
    assert code == 0, err
    kind = KernelRegressor if quantities else KernelClassifier
    model = kind(kernel="gaussian", expansion=KOMP(max_size=40), random_state=0)
    model.set_params(kernel=load_model(folder / "model").kernel)
    expected, measured = [], []
    for i, row in enumerate(rows):
        x = {"a": row["a"], "b": row["b"]}
        prediction = model.predict_one(x) if i else None
        expected.append({"row": i, "prediction": prediction})
        if i:
            measured.append(abs(prediction - row["y"]) if quantities else prediction == row["y"])
        model.learn_one(x, row["y"])
    model.save(folder / "expected")
    assert said(folder) == expected
    assert (folder / "model").read_bytes() == (folder / "expected").read_bytes()
    name = "MAE" if quantities else "accuracy"
    assert f"200 rows, 200 labels, {name} {np.mean(measured):.4g}," in err
    assert f"100 rows  {name} {np.mean(measured[:99]):.4g} (since" in err
    guessed = "regression of 'y' (guessed: the first one is no whole number; --task classification"
    assert (f"{guessed} overrides)" if quantities else "classification of 'y' (text)") in err
    assert "; inputs: 2" in err


def test_whole_numbers_are_classes_and_the_first_line_says_what_makes_them_quantities(make, mercer):
    folder = make("whole")
    (folder / "rows.csv").write_text("a,y\n" + "".join(f"{i / 7},{i % 3}\n" for i in range(9)))
    words = [w for w in words_of(folder / "rows.csv", folder) if w != "--quiet"]
    code, _, err = mercer(*words)
    assert code == 0, err
    why = "(guessed: the first one is a whole number; --task regression overrides)"
    assert err.startswith(f"classification of 'y' {why}; inputs: 1\n")


@pytest.mark.parametrize("quiet", [False, True])
def test_it_says_that_code_is_compiled(make, mercer, monkeypatch, quiet):
    def opened(*args, **options):
        logging.getLogger("mercer.compile").warning("mercer: compiling, only the first time")
        return open_source(*args, **options)

    monkeypatch.setattr("mercer_app.cli._stream.open_source", opened)
    folder = make("compiled")
    (folder / "rows.csv").write_text(csv_lines(rows_of(9)))
    words = [w for w in words_of(folder / "rows.csv", folder) if quiet or w != "--quiet"]
    before = list(logging.getLogger("mercer.compile").handlers)
    code, _, err = mercer(*words)
    assert code == 0, err
    assert err.startswith("compiling, only the first time\n") != quiet
    assert logging.getLogger("mercer.compile").handlers == before


def test_late_labels_are_those_of_the_class_in_python(make, mercer):
    folder, rows = make("run"), list(rows_of(200))
    source = folder / "rows.jsonl"
    records = [*late(rows, 20, lost=set(range(0, 200, 7))), {"id": "nobody", "y": "no"}]
    source.write_text(json_lines(records))
    words = [w for w in words_of(source, folder) if w != "--quiet"]
    code, _, err = mercer(*words, "--key", "id", "--max-waiting", "30", "--every", "1000")
    assert code == 0, err
    kernel = load_model(folder / "model").kernel
    model = KernelClassifier(kernel=kernel, expansion=KOMP(max_size=40), random_state=0)
    waiting, right = LateLabels(model, max_waiting=30), []
    for record in records:
        if "a" in record:
            waiting.predict(record["id"], {"a": record["a"], "b": record["b"]})
        elif delivered := waiting.label(record["id"], record["y"]):
            right += [delivered.prediction == record["y"]] if delivered.prediction else []
    model.save(folder / "expected")
    assert (folder / "model").read_bytes() == (folder / "expected").read_bytes()
    assert f"accuracy {np.mean(right):.4g}" in err
    assert waiting.n_dropped > 0
    assert f"dropped {waiting.n_dropped}, labels of no row {waiting.n_unknown}" in err
    keys = [line["id"] for line in said(folder)]
    assert keys == [str(row["id"]) for row in rows]


def test_the_default_learns_rows_with_gaps_and_new_columns(make, mercer):
    folder, rows = make("run"), list(with_gaps(rows_of(90)))
    (folder / "rows").write_text(json_lines(rows))
    words = ["stream", folder / "rows", "--target", "y", "--exclude", "id", "--quiet"]
    words += ["--out", folder / "model", "--predictions", folder / "said.jsonl"]
    assert mercer(*words)[0] == 0
    model, predicted = KernelClassifier(random_state=0), []
    for row in rows:
        x = {k: v for k, v in row.items() if k in "abc" and v is not None}
        predicted.append(model.predict_one(x))
        model.learn_one(x, row["y"])
    model.save(folder / "expected")
    assert [line["prediction"] for line in said(folder)] == predicted
    assert (folder / "model").read_bytes() == (folder / "expected").read_bytes()
    # And what it wrote goes on in the same way.
    (folder / "rows").write_text(json_lines([{"a": 1.0, "y": "yes"}, {"d": 1.0, "y": "no"}]))
    words[words.index("--out") + 1] = folder / "again"
    code, _, err = mercer(*words, "--model", folder / "model")
    assert code == 0, err


def test_rows_without_labels_and_without_keys_are_only_predicted(make, mercer):
    folder, rows = make("run"), list(rows_of(90))
    known = [row for i, row in enumerate(rows) if i % 3]
    blank = [{**row, "y": row["y"] if i % 3 else None} for i, row in enumerate(rows)]
    for name, some in (("known", known), ("blank", blank)):
        (folder / name).write_text(csv_lines(some))
    words = words_of(folder / "blank", folder, "--exclude", "id", checkpoint=False)
    assert mercer(*words)[0] == 0
    with_blanks = (folder / "model").read_bytes()
    assert len(said(folder)) == 90
    words = words_of(folder / "known", folder, "--exclude", "id", checkpoint=False)
    assert mercer(*words)[0] == 0
    assert (folder / "model").read_bytes() == with_blanks


def test_a_model_goes_on_and_answers_only(make, mercer):
    folder, rows = make("run"), list(rows_of(120))
    for name, some in (("all", rows), ("first", rows[:70]), ("second", rows[70:])):
        (folder / f"{name}.csv").write_text(csv_lines(some))

    def stream(name, out, *more):
        words = ["stream", folder / f"{name}.csv", "--target", "y", "--exclude", "id", "--quiet"]
        return mercer(*words, *(("--out", folder / out) if out else ()), *more)

    assert stream("all", "whole", *KOMP_OPTIONS)[0] == 0
    assert stream("first", "half", *KOMP_OPTIONS)[0] == 0
    assert stream("second", "joined", "--model", folder / "half")[0] == 0
    assert (folder / "joined").read_bytes() == (folder / "whole").read_bytes()
    code, out, _ = stream(
        "second", None, "--model", folder / "half", "--predict-only", "--predictions", "-"
    )
    assert code == 0
    X = [[row["a"], row["b"]] for row in rows[70:]]
    expected = load_model(folder / "half").predict(X).tolist()
    assert [json.loads(line)["prediction"] for line in out.splitlines()] == expected
    code, _, err = stream("all", "m", "--model", folder / "half", "--max-size", "9")
    assert code == 2
    assert "of its own" in err
    assert stream("all", "m", "--model", folder / "half", "--task", "regression")[0] == 2


# -- sources ------------------------------------------------------------------------------------


def test_a_growing_file_counts_whole_lines_only(make, mercer):
    folder = make("run")
    source, rows = folder / "rows.csv", list(rows_of(40))
    text = csv_lines(rows)
    lines = text.splitlines(keepends=True)
    half = lines[21][:-4]  # without the end of the label: another word
    source.write_text("".join(lines[:21]) + half)

    def grow():
        wait_for(lambda: len(said(folder)) == 20)
        time.sleep(0.2)
        assert len(said(folder)) == 20
        with open(source, "a") as file:
            file.write(lines[21][-4:] + "".join(lines[22:]))
        wait_for(lambda: len(said(folder)) == 40)
        os.kill(os.getpid(), signal.SIGTERM)

    words = words_of(source, folder, "--exclude", "id")
    with beside(grow):
        code, _, err = mercer(*words, "--follow")
    assert code == 143
    assert f"stopped. {folder / 'model'}: model order" in err
    plain = make("plain")
    source.write_text(text)
    assert mercer(*words_of(source, plain, "--exclude", "id"))[0] == 0
    assert outcome(plain) == outcome(folder)


@pytest.mark.parametrize("how", ["cut", "replaced", "removed"])
def test_a_followed_file_that_is_cut_or_replaced_is_an_error(how, make, mercer):
    folder = make("run")
    source = folder / "rows.csv"
    source.write_text(csv_lines(rows_of(20)))

    def change():
        wait_for(lambda: len(said(folder)) == 20)
        if how == "cut":
            os.truncate(source, 10)
        elif how == "removed":
            source.unlink()
        else:
            (folder / "new").write_text("id,a,b,y\n")
            (folder / "new").replace(source)

    with beside(change):
        code, _, err = mercer(*words_of(source, folder, "--exclude", "id"), "--follow")
    assert code == 2
    assert ("was cut to 10 bytes" if how == "cut" else "was removed or replaced") in err


def test_files_that_arrive_during_the_run_are_read_once_and_whole(make, mercer):
    folder, data = make("run"), make("data")
    rows = list(rows_of(80))
    (data / "1.csv").write_text(csv_lines(rows[:20]))
    (data / "2.csv.tmp").write_text("garbage")
    (data / ".hidden.csv").write_text("garbage")
    (data / "readme.md").write_text("garbage")
    (data / "0.csv").touch()

    def arrive():
        wait_for(lambda: len(said(folder)) == 20)
        (data / "2.csv.tmp").write_text(csv_lines(rows[20:40]))
        (data / "2.csv.tmp").rename(data / "2.csv")
        wait_for(lambda: len(said(folder)) == 40)
        with open(data / "3.jsonl", "w") as file:  # slowly, under its own name
            for row in rows[40:]:
                file.write(json_lines([row]))
                file.flush()
                time.sleep(0.005)
        wait_for(lambda: len(said(folder)) == 80)
        os.kill(os.getpid(), signal.SIGINT)

    with beside(arrive):
        code, _, _ = mercer(*words_of(data, folder, "--exclude", "id"), "--follow")
    assert code == 130
    plain = make("plain")
    (plain / "rows.csv").write_text(csv_lines(rows))
    assert mercer(*words_of(plain / "rows.csv", plain, "--exclude", "id"))[0] == 0
    assert outcome(plain) == outcome(folder)


def test_a_file_that_changes_after_it_was_read_is_an_error(make):
    data = make("data")
    (data / "1.csv").write_text("a,y\n1,2\n")
    source = ArrivingFiles(data, follow=True, settled=0.01)
    records = source.records(lambda: False)
    assert next(records).values == {"a": "1", "y": "2"}

    def grow():
        with open(data / "1.csv", "a") as file:
            file.write("3,4\n")

    assert source.position()["part"]["file"] == "1.csv"
    (data / "2.csv").write_text("a,y\n5,6\n")
    assert next(records).values == {"a": "5", "y": "6"}
    assert source.position()["done"] == [["1.csv", 8]]
    grow()
    with pytest.raises(ValueError, match="changed after it was read as a whole"):
        next(records)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_arrow_comes_over_a_local_socket(kind, make, mercer):
    folder, rows = make("run"), list(rows_of(60))
    table = pa.Table.from_pylist(rows)
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family) as server:
        server.bind(str(folder / "s") if kind == "unix" else ("127.0.0.1", 0))
        server.listen()
        address = (
            f"unix:{folder / 's'}" if kind == "unix" else f"tcp:localhost:{server.getsockname()[1]}"
        )

        def send(n_rows=60, hold=False):
            connection, _ = server.accept()
            with (
                connection,
                connection.makefile("wb") as file,
                pa.ipc.new_stream(file, table.schema) as writer,
            ):
                for start in range(0, n_rows, 15):
                    writer.write_table(table.slice(start, 15))
                    file.flush()
                if hold:
                    wait_for(lambda: len(said(folder)) == n_rows)
                    os.kill(os.getpid(), signal.SIGTERM)

        words = words_of(address, folder, "--exclude", "id")
        with beside(lambda: send(30, hold=True)):
            assert mercer(*words)[0] == 143
        with beside(send):  # once more from the beginning
            assert mercer(*words)[0] == 0
    plain = make("plain")
    (plain / "rows.csv").write_text(csv_lines(rows))
    assert mercer(*words_of(plain / "rows.csv", plain, "--exclude", "id"))[0] == 0
    assert outcome(plain) == outcome(folder)


def test_sockets_elsewhere_and_those_of_nobody_are_refused(make, monkeypatch):
    for address, message in (
        ("tcp:example.org:80", "may be another machine"),
        ("tcp:localhost", "no address of a socket"),
        ("tcp:localhost:http", "no address of a socket"),
        ("unix:", "needs the path"),
    ):
        with pytest.raises(ValueError, match=message):
            ArrowSocket(address)
    monkeypatch.setattr(arrivals, "_CONNECTING", 0.05)
    with pytest.raises(ConnectionError, match="Nobody listens"):
        list(ArrowSocket(f"unix:{make('run') / 's'}").records(lambda: False))


def test_a_pipe_that_goes_on_may_send_all_again_or_only_the_rest(make, mercer):
    rows = list(rows_of(60))
    plain = make("plain")
    (plain / "rows.csv").write_text(csv_lines(rows))
    assert mercer(*words_of(plain / "rows.csv", plain, "--exclude", "id"))[0] == 0
    for name, again, more in (("all", rows, []), ("rest", rows[25:], ["--skip", "0"])):
        folder = make(name)
        os.mkfifo(folder / "pipe")
        words = [w for w in words_of(folder / "pipe", folder, "--exclude", "id") if w != "--quiet"]

        def send(some, stop, folder=folder):
            with open(folder / "pipe", "w") as pipe:
                pipe.write(json_lines(some))
                pipe.flush()
                if stop:
                    wait_for(lambda: len(said(folder)) == len(some))
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(0.2)

        with beside(partial(send, rows[:25], True)):
            assert mercer(*words)[0] == 143
        with beside(partial(send, again, False)):
            code, _, err = mercer(*words, *more)
        assert code == 0, err
        expected = "must go on with row 25" if more else "skipping the first 25 rows"
        assert expected in err
        assert outcome(folder) == outcome(plain)
    with beside(lambda: send(rows[:10], False)):
        code, _, err = mercer(*words)
    assert code == 2
    assert "ended after 10 rows, but the first 60 were to be skipped" in err
    assert "set `--skip` to 0" in err


def test_nothing_piles_up_between_a_fast_producer_and_a_slow_reader(make, mercer):
    """Predictions that nobody takes off stop the reading, and so the producer."""
    folder, rows = make("run"), list(rows_of(10_000))
    for name in ("in", "out"):
        os.mkfifo(folder / name)
    content, sent, taken = json_lines(rows).encode(), [0], []

    def produce():
        with open(folder / "in", "wb", buffering=0) as pipe:
            for start in range(0, len(content), 4096):
                sent[0] += pipe.write(content[start : start + 4096])

    def consume():
        with open(folder / "out") as pipe:
            seen = -1
            while seen != sent[0] or not seen:  # until the producer is stuck
                seen = sent[0]
                time.sleep(1.0)
            taken.append(sent[0])
            taken.extend(json.loads(line)["row"] for line in pipe)

    words = ["stream", folder / "in", "--target", "y", "--exclude", "id", "--out", folder / "m"]
    with beside(produce), beside(consume):
        code, _, _ = mercer(*words, "--predictions", folder / "out", *KOMP_OPTIONS)
    assert code == 0
    stuck_at, *numbers = taken
    # Two pipes of 64 KiB, as much read and as much to be written; a row takes twice as much coming
    # as going.
    assert 0 < stuck_at < 2**19 < len(content)
    assert numbers == list(range(10_000))


def test_a_second_signal_ends_a_run_that_waits_for_a_reader(make, mercer):
    folder = make("run")
    (folder / "rows").write_text(json_lines(rows_of(20_000)))
    os.mkfifo(folder / "out")
    held = []

    def stop():
        held.append(os.open(folder / "out", os.O_RDONLY))  # and read nothing
        held.append(os.open(folder / "out", os.O_WRONLY))
        wait_for((folder / "kept" / "stream.checkpoint").exists)
        wait_for(lambda: not select.select([], held[1:], [], 0)[1])  # full: the run is stuck
        for _ in range(2):
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGTERM)

    more = ["--exclude", "id", "--predictions", folder / "out", "--checkpoint-every", "500"]
    words = words_of(folder / "rows", folder, *more)
    with beside(stop):
        code, _, err = mercer(*words)
    for each in held:
        os.close(each)
    assert code == 130
    assert "stopped at once; the same command goes on from" in err
    assert not (folder / "model").exists()


# -- rows that are wrong ------------------------------------------------------------------------

BAD = {
    "text": ("2,x,1,yes", "column 'a' holds 'x', which is no number"),
    "comma": ('2,"0,5",1,yes', "decimals have a point"),
    "gap": ("2,,1,yes", "the column 'a' has no value"),
    "missing": ("2,NaN,1,yes", "the column 'a' has no value"),
    "infinite": ("2,inf,1,yes", "is not finite"),
    "underscore": ("2,1_0,1,yes", "which is no number"),
    "cells": ("2,1,1", "it has 3 cells, but there are 4 columns"),
    "quote": ('2,"1,1,yes', "quoted cells must end in their line"),
    "huge": ("2,1e200,1e200,yes", "line 4 of rows: "),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_of_csv_is_named_or_counted(kind, make, mercer):
    folder, rows = make("run"), list(rows_of(30))
    line, message = BAD[kind]
    good = csv_lines(rows).splitlines()
    (folder / "rows").write_text("\n".join([*good[:3], line, *good[3:], ""]))
    words = words_of(folder / "rows", folder, "--exclude", "id", checkpoint=False)
    words.remove("--quiet")
    code, _, err = mercer(*words)
    if kind == "huge":  # far away, but a row
        assert code == 0
        return
    assert code == 2
    assert "line 4 of rows: " in err
    assert message in err
    assert "`--skip-bad`" in err
    assert "model has what was learned before the error" in err
    assert len(said(folder)) == 2
    assert load_model(folder / "model").n_samples_seen_ == 2
    (folder / "model").write_bytes(b"of an earlier run")
    code, _, err = mercer(*words)
    assert code == 2
    assert "model is as it was" in err
    assert (folder / "model").read_bytes() == b"of an earlier run"
    code, _, err = mercer(*words, "--skip-bad")
    assert code == 0
    assert "left out: line 4" in err
    assert "left out 1" in err
    without = (folder / "model").read_bytes()
    (folder / "rows").write_text(csv_lines(rows))
    assert mercer(*words)[0] == 0
    assert (folder / "model").read_bytes() == without


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": "1", "y": 2.0}', "column 'a' holds '1', which is no number"),
        ('{"a": "0,5", "y": 2.0}', "JSON numbers no quotes"),
        ('{"a": [1], "y": 2.0}', "which is no number"),
        ('{"a": 1, "z": 1, "y": 2.0}', "a column 'z' that the first row did not have"),
        ('{"b": 1, "y": 2.0}', "it has no inputs, only the target"),
        ('{"y": null}', "it has no inputs nor a target"),
        ('{"a": 1, "y": "high"}', "column 'y' holds 'high'"),
        ('{"a": 1, "y": 2.0', "it is no JSON"),
        ("[1, 2]", "no object with columns"),
        ('{"a": 1e999, "y": 2.0}', "is not finite"),
        (f'{{"a": {"9" * 400}, "y": 2.0}}', "which is no number"),
    ],
)
def test_a_bad_row_of_json_is_named(line, message, make, mercer):
    folder = make("run")
    (folder / "rows").write_text('{"a": 0.5, "y": 1.5}\n\n' + line + "\n")
    code, _, err = mercer(*words_of(folder / "rows", folder))
    assert code == 2
    assert "line 3 of rows: " in err
    assert message in err


def test_bytes_that_are_no_text_are_a_bad_row(make, mercer):
    folder = make("run")
    (folder / "rows").write_bytes(b'\xef\xbb\xbf{"a": 1, "y": 1.5}\r\n{"a": "\xff"}\r\n')
    code, _, err = mercer(*words_of(folder / "rows", folder))
    assert code == 2
    assert "line 2 of rows: it is no UTF-8 text" in err


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("a,b\n1,2\n", "There is no column 'y' for the `--target`, but 'a', 'b'."),
        ("a,b\n1\n1,2\n", "There is no column 'y' for the `--target`"),
        ("a,a,y\n1,2,3\n", "each by another name"),
        ('[{"a": 1}]\n', "should be a JSON object, or name the columns of CSV"),
    ],
)
def test_a_wrong_beginning_is_an_error_for_all_rows(first, message, make, mercer):
    folder = make("run")
    (folder / "rows").write_text(first)
    code, _, err = mercer(*words_of(folder / "rows", folder), "--skip-bad")
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("value", "is_text", "asked", "kind", "read"),
    [
        ("yes", False, "auto", "text", "yes"),
        (True, False, "auto", "boolean", True),
        (3, False, "auto", "integer", 3),
        (3.0, False, "auto", "number", 3.0),
        (3.0, False, "classification", "integer", 3),
        (3, False, "regression", "number", 3.0),
        ("3", True, "auto", "integer", 3),
        ("-3", True, "auto", "integer", -3),
        ("3.5", True, "auto", "number", 3.5),
        ("3.5", True, "classification", "text", "3.5"),
        ("3", True, "regression", "number", 3.0),
        ("true", True, "auto", "text", "true"),
    ],
)
def test_the_first_target_says_of_what_kind_all_are(value, is_text, asked, kind, read):
    reader = RowReader("y", task=asked)
    row = reader.read(Record({"a": "1" if is_text else 1, "y": value}, "row 0", is_text))
    assert (reader.kind, row.y, type(row.y)) == (kind, read, type(read))
    assert reader.task == ("regression" if kind == "number" else "classification")
    again = RowReader("y", task=asked)
    again.restore(reader.to_state())
    assert again.read(Record({"a": 2.0, "y": read}, "row 1")).y == read


def test_whole_numbers_taken_for_classes_become_too_many():
    reader, chosen = RowReader("y"), RowReader("y", task="classification")
    for i in range(20):
        reader.read(Record({"a": 1, "y": i}, f"row {i}"))
    with pytest.raises(ValueError, match="more than 20 different whole numbers"):
        reader.read(Record({"a": 1, "y": 20}, "row 20"))
    for i in range(30):
        chosen.read(Record({"a": 1, "y": i}, f"row {i}"))
    with pytest.raises(BadRowError, match=r"the target 1\.5 is no whole number.*regression"):
        chosen.read(Record({"a": 1, "y": 1.5}, "row 30"))


@pytest.mark.parametrize("text", ["a,y\n1,2\n\n3,4\n5,6", '{"a": 1}\r\n{"a": 2}\n{"a": 3}\n'])
def test_rows_do_not_depend_on_how_bytes_are_cut(text, rng):
    content = text.encode()
    whole = Lines("x")
    expected = list(whole.records([content], to_the_end=lambda: True))
    assert len(expected) == 3
    for _ in range(20):
        cuts = [0, *sorted(rng.integers(0, len(content), 4).tolist()), len(content)]
        chunks = [content[i:j] for i, j in itertools.pairwise(cuts)]
        lines = Lines("x")
        assert list(lines.records(chunks, to_the_end=lambda: True)) == expected
        assert lines.byte == len(content)


# -- options ------------------------------------------------------------------------------------


def test_help_names_sources_and_options(mercer):
    code, out, _ = mercer("stream", "--help")
    assert code == 0
    for word in ("--target", "--checkpoint", "--follow", "--key", "--predictions", "unix:PATH"):
        assert word in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "m", "--follow"], "ends by itself"),
        ([], "`--out` must name"),
        (["--predict-only"], "needs a `--model`"),
        (["--out", "m", "--every", "soon"], "`--every` takes a number of rows"),
        (["--out", "m", "--checkpoint-every", "0"], "`--checkpoint-every` takes"),
        (["--out", "m", "--max-age", "3"], "name their `--key`"),
        (["--out", "m", "--max-waiting", "0"], "`--max-waiting` must be an integer"),
        (["--out", "m", "--key", "y"], "must be two columns"),
        (["--out", "m", "--exclude", "y"], "leaves out the `--target`"),
        (["--out", "m", "--format", "arrow"], "which are not asked for"),
        (["--out", "m", "--predictions", "m"], "name the same file"),
        (["--out", "m", "--predictions", "p.arrow"], "Say `--task classification`"),
        (["--out", "m", "--kernel", "gausian"], "Did you mean 'gaussian'"),
        (["--out", "m", "--skip", "-1"], "`--skip` must be an integer"),
        (["--out", "nowhere/m"], "does not exist. Create it first"),
    ],
)
def test_wrong_options_are_refused_before_a_row_is_read(
    words, message, mercer, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, err = mercer("stream", "-", "--target", "y", *words)
    assert code == 2
    assert message in err


def test_predictions_do_not_go_where_rows_are_read(make, mercer):
    data = make("data")
    words = ["stream", data, "--target", "y", "--out", data / "m"]
    code, _, err = mercer(*words, "--predictions", data / "said.jsonl")
    assert code == 2
    assert "which is read as data" in err


def test_sources_are_told_apart(tmp_path):
    (tmp_path / "rows.csv").touch()
    (tmp_path / "rows.parquet").touch()
    os.mkfifo(tmp_path / "pipe")
    kinds = {
        str(tmp_path): ArrivingFiles,
        str(tmp_path / "rows.csv"): GrowingFile,
        str(tmp_path / "rows.parquet"): arrivals.TableFile,
        str(tmp_path / "pipe"): arrivals.Pipe,
        "-": arrivals.Pipe,
        "unix:/x": ArrowSocket,
    }
    for address, kind in kinds.items():
        assert type(open_source(address)) is kind
    with pytest.raises(ValueError, match="`skip` is for what cannot be read again"):
        open_source(str(tmp_path), skip=1)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        open_source(str(tmp_path / "nothing"))


def test_the_guide_shows_what_the_command_prints(mercer, tmp_path, monkeypatch):
    """Speeds aside, and a few rows near a border: they are those of another machine."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/guide/stream_command.md").read_text()
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    (command,) = re.findall(r"```sh\nmercer (.*?)\n```", page, re.DOTALL)
    shown, lines, *_ = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    code, _, err = mercer(*shlex.split(command))
    assert code == 0
    number = r"\d[\d,.]*"
    assert re.sub(number, "#", err) == re.sub(number, "#", shown)
    said_now, said_then = (re.findall(r"accuracy ([\d.]+)", text) for text in (err, shown))
    assert_allclose([float(x) for x in said_now], [float(x) for x in said_then], atol=0.03)
    assert (tmp_path / "said.jsonl").read_text().startswith(lines.splitlines()[0])


def test_columns_to_leave_out_must_be_there(make, mercer):
    folder = make("run")
    (folder / "rows.csv").write_text("a,b,y\n1,2,3.5\n2,3,4.5\n")
    code, _, err = mercer(*words_of(folder / "rows.csv", folder), "--exclude", "c")
    assert code == 2
    assert "no column 'c'" in err


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_predictions_are_no_other_kind_of_file(ending, make, mercer):
    folder = make("run")
    (folder / "rows.csv").write_text("a,y\n1,3.5\n2,4.5\n")
    words = ["stream", folder / "rows.csv", "--target", "y", "--out", folder / "model"]
    code, _, err = mercer(*words, "--predictions", folder / f"said{ending}")
    assert code == 2
    assert "JSON lines or an Arrow IPC stream" in err
    code, _, _ = mercer(*words, "--predictions", folder / f"said{ending}", "--format", "json")
    assert code == 0


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("a,y\n1,low\n2,high\n", ("--interval", "0.9"), "interval"),
        ("a,y\n1,2024-01-31\n2,2024-02-29\n", (), "dates or times"),
    ],
)
def test_predictions_of_before_outlive_a_run_that_is_refused(rows, options, message, make, mercer):
    folder = make("run")
    (folder / "rows.csv").write_text(rows)
    words = ["stream", folder / "rows.csv", "--target", "y", "--out", folder / "model", *options]
    for ending in (".jsonl", ".arrow"):
        (folder / f"old{ending}").write_text("keep")
        for name in ("old", "new"):
            more = ["--task", "regression"] if ending == ".arrow" and not options else []
            code, _, err = mercer(*words, *more, "--predictions", folder / f"{name}{ending}")
            assert code == 2
            assert message in err or ending == ".arrow"
        assert (folder / f"old{ending}").read_text() == "keep"
        assert not (folder / f"new{ending}").exists()


def test_without_predictions_the_file_of_before_is_emptied(make, mercer):
    folder = make("run")
    (folder / "rows.csv").write_text("a,y\n")
    (folder / "old.jsonl").write_text("keep")
    words = ["stream", folder / "rows.csv", "--target", "y", "--out", folder / "model"]
    code, _, _ = mercer(*words, "--predictions", folder / "old.jsonl")
    assert code == 0
    assert (folder / "old.jsonl").read_text() == ""


def test_a_row_of_gaps_is_a_row_to_the_default(make, mercer):
    folder = make("run")
    lines = [f"{i % 7},{i % 5},{'ab'[i % 2]}" for i in range(40)]
    lines[0], lines[20] = ",,a", ",,b"
    (folder / "rows.csv").write_text("u,v,y\n" + "\n".join(lines) + "\n")
    words = ["stream", folder / "rows.csv", "--target", "y", "--out", folder / "model"]
    code, _, err = mercer(*words, "--predictions", folder / "said.jsonl")
    assert code == 0, err
    assert len((folder / "said.jsonl").read_text().splitlines()) == 40
    assert load_model(folder / "model").n_samples_seen_ == 40


def test_a_reader_that_goes_away_is_named(make):
    folder = make("run")
    (folder / "rows.csv").write_text("a,y\n" + "1,0.5\n2,1.5\n" * 4000)
    words = [*COMMAND, "stream", "rows.csv", "--target", "y", "--out", "model"]
    words += ["--predictions", "-", "--expansion", "komp", "--max-size", "5"]
    done = subprocess.run(
        f"{shlex.join(words)} | head -1 >/dev/null",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the reader of predictions went away at row" in done.stderr
    assert (folder / "model").exists()


@pytest.mark.parametrize(
    ("given", "learner", "left_for"),
    [
        ({}, "StreamLearner", ""),
        ({"step_size": "auto"}, "StreamLearner", ""),
        ({"expansion": ExpansionName.stream, "max_size": 20}, "StreamLearner", ""),
        ({"kernel": "gaussian"}, "DefaultLearner", "that of tables"),
        ({"length_scale": "2"}, "DefaultLearner", "that of tables"),
        ({"forgetting": 0.99}, "DefaultLearner", "that of tables"),
        ({"regularization": 1e-3}, "DefaultLearner", "that of tables"),
        ({"max_size": 20}, "KernelLearner", "KOMP"),
        ({"tolerance": 0.1}, "KernelLearner", "KOMP"),
        ({"step_size": "0.5"}, "KernelLearner", "KOMP"),
    ],
)
def test_help_says_which_options_leave_the_default_of_streams(given, learner, left_for):
    options = StreamOptions(source="-", target="y", out=Path("m"), **given)
    model = TASKS["regression"].estimator(**_parameters(options), random_state=0)
    for i in range(3):
        model.learn_one({"a": float(i)}, float(i))
    assert type(model.learner_).__name__ == learner
    hints = get_type_hints(StreamOptions, include_extras=True)
    for name in given if left_for else ():
        text = hints[name].__metadata__[0].help
        assert text.endswith(f" Leaves the default of streams, for {left_for}.")


def test_the_name_of_new_predictions_outlives_a_power_cut(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(_stream, "sync_folder", synced.append)
    where = tmp_path / "answers.jsonl"
    options = {"arrow": False, "key": None, "quantities": True, "length": None}
    with contextlib.closing(_stream.open_answers(str(where), **options)) as answers:
        assert synced == []
        answers.write(Answer(row=0, key=None, prediction=1.0, interval=None))
        answers.sync()
        assert where.read_bytes()
    assert synced == [tmp_path]
