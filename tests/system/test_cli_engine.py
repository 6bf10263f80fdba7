"""Fit, predict and evaluate by the workers of an engine, on the command line and in Python."""

import gc
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.exceptions import ShardError
from mercer_app.cli._workers import StageView
from mercer_app.models.files import TableWriter, check_new_folder, new_folder
from mercer_cluster import Progress, Settings, ShardTraining, predict

pytestmark = pytest.mark.usefixtures("quick_race")

#: A sample of 300 rows, and regions of some hundred.
SMALL = Settings(sample=300, least_sample=100, held=100, region_rows=200, shared=3)
N_SHARDS, ROWS = 4, 250
HERE = ["--engine", "here"]


def table(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    town = rng.choice(["Bern", "Bonn"], n)
    wave = 1000.0 + 50.0 * np.sin(x[:, 0]) + 20.0 * (town == "Bern") + rng.standard_normal(n)
    return pa.table(
        {
            "id": np.arange(seed * n, seed * n + n),
            "a": x[:, 0],
            "b": x[:, 1],
            "town": town,
            "query": np.arange(n) // 5,
            "y": np.where(x[:, 0] * x[:, 1] > 0, "yes", "no"),
            "z": wave,
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Shards, and models of one process, that the tests only read."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "shards").mkdir()
    for number in range(N_SHARDS):
        pq.write_table(table(seed=number), folder / "shards" / f"{number}.parquet")
    pq.write_table(table(400, 9), folder / "test.parquet")
    for name, target, options in (
        ("classes", "y", []),
        ("risky", "y", ["--risk", "cvar:0.9"]),
        ("numbers", "z", []),
        ("quantiles", "z", ["--quantiles", "0.1,0.5,0.9"]),
        ("process", "z", ["--task", "gp", "--features", "50"]),
        ("novelty", "y", ["--task", "novelty"]),
        ("ranking", "y", ["--task", "rank"]),
        ("queries", "z", ["--task", "rank", "--group", "query"]),
        ("pairs", "y", ["--task", "rank", "--pair-kernel", "symmetric", "--pair-label", "same"]),
    ):
        excluded = {"id", "y", "z", "query"} - {target} - ({"query"} & {*options})
        more = [word for column in sorted(excluded) for word in ("--exclude", column)]
        out = folder / f"{name}.mercer"
        code = run(
            "fit", folder / "shards", "--target", target, "--out", out, "--quiet", *more, *options
        )
        assert code == 0, name
    return folder


@pytest.fixture
def small(monkeypatch):
    """Samples of few rows, so that shards and regions are learned by themselves."""
    monkeypatch.setitem(ShardTraining.__init__.__kwdefaults__, "settings", SMALL)


def learn(*words, target="y"):
    excluded = {"id", "y", "z", "query"} - {target}
    more = [word for column in sorted(excluded) for word in ("--exclude", column)]
    return ["fit", *words, "--target", target, *more]


# -- fit --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("target", ["y", "z"])
def test_shards_become_an_ordinary_model_file(files, mercer, tmp_path, target):
    out, test = tmp_path / "m.mercer", files / "test.parquet"
    more = ["--test", test, "--report", tmp_path / "r.html", "--log", tmp_path / "log.txt"]
    words = learn(files / "shards" / "*.parquet", target=target)
    code, said, err = mercer(*words, "--out", out, *HERE, *more)
    assert code == 0, err
    task = "classification" if target == "y" else "regression"
    why = "text" if target == "y" else "guessed: numbers with fractions; --task classification"
    assert f"{task} of '{target}' ({why}" in err
    assert "columns: 3, inputs made of them: 5" in err
    assert re.search(
        r"looking at shards: 4 of 4 shards  1,000 rows  [\d,]+ rows/s  1 worker\n", err
    )
    assert re.search(r"learning: 4 of 4 shards  1,000 rows  [\d,]+ rows/s  1 worker\n", err)
    assert re.search(r"m.mercer: model order [\d,]+ after 1,000 rows, .* rows/s", err)
    assert said == mercer("evaluate", out, test)[1]
    assert "workers" in (tmp_path / "r.html").read_text()
    log = (tmp_path / "log.txt").read_text()
    for number in range(N_SHARDS):
        assert re.search(rf"INFO survey ./4: .*/{number}.parquet, 250 rows after", log)
        assert re.search(rf"INFO learn ./4: .*/{number}.parquet, 250 rows after", log)
    model = load_model(out)
    truth = table(400, 9).column(target).to_pylist()
    if target == "y":
        assert np.mean(model.predict(table(400, 9)) == truth) > 0.9
    else:
        assert np.std(model.predict(table(400, 9)) - truth) < 10.0


@pytest.mark.usefixtures("small")
def test_a_quiet_fit_says_nothing(files, mercer, tmp_path):
    words = learn(files / "shards", "--out", tmp_path / "m", "--quiet")
    assert mercer(*words, *HERE) == (0, "", "")
    assert os.listdir(tmp_path) == ["m"]


REFUSED = {
    "--passes 2": "`--passes 2` does not go together with `--engine here`. Workers read",
    "--shuffle-buffer 5": "`--shuffle-buffer 5` does not go together with `--engine here`.",
    "--checkpoint-every 100": "`--checkpoint-every 100` does not go together with",
    "--resume": "`--resume` does not go together with `--engine here`. What fails is done again",
    "--jobs 2": "`--jobs 2` does not go together with `--engine here`. Each worker has one thread",
    "--group query": "`--group query` does not go together with `--engine here`. Rows of a",
    "--task rank": "`--task` must be one of 'classification', 'regression', 'gp' with an engine",
    "--task novelty": "Rows of novelty detection cannot be learned in several places. Leave "
    "`--engine` out",
    "--forgetting 0.99": "`--forgetting` cannot be 0.99 where rows are learned in several places.",
    "--block-length 4": "`--block-length` cannot be 4 where rows are learned in several places.",
    "--resumable": "`--resumable` cannot be True where rows are learned in several places.",
    "--expansion komp": "The expansion KOMP cannot be learned in several places. It makes many",
    "--step-size 0.5": "without what asks for steps: `--step-size`, `--tolerance` or `--max-size`.",
    "--nu 0.1": "`--nu` cannot be chosen for a classification",
    "--workers 0": "`--workers` must be an integer of at least 1, got 0",
    "--workers 2": "`--workers` must be 1 for `--engine here`, got 2. It runs tasks in this "
    "process, one after the other. Use `--engine ray` or `--engine dask`.",
    "--address a:1": "`--address` must be left out for `--engine here`, got 'a:1'. This engine "
    "runs on this machine and connects to no cluster. Leave it out, or use `--engine ray` or "
    "`--engine dask`.",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_does_not_go_with_an_engine_is_refused(files, mercer, tmp_path, option):
    words = learn(files / "shards", "--out", tmp_path / "m", *HERE, *option.split())
    code, _, err = mercer(*words)
    assert code == 2
    assert REFUSED[option] in err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("option", ["--workers 2", "--address a:1", "--log log.txt"])
@pytest.mark.parametrize("command", ["fit", "predict", "evaluate"])
def test_options_of_an_engine_need_one(files, mercer, tmp_path, command, option):
    words = {
        "fit": learn(files / "shards", "--out", tmp_path / "m"),
        "predict": ["predict", files / "classes.mercer", files / "shards", "--out", tmp_path / "p"],
        "evaluate": ["evaluate", files / "classes.mercer", files / "shards"],
    }[command]
    code, _, err = mercer(*words, *option.split())
    assert code == 2
    assert f"`{option}` is about the workers of an engine, but none is chosen. Add --engine" in err


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_threads_are_of_one_process(files, mercer, tmp_path, command):
    more = ["--out", tmp_path / "p"] if command == "predict" else []
    words = [command, files / "classes.mercer", files / "shards", *more]
    code, _, err = mercer(*words, *HERE, "--jobs", "2")
    assert code == 2
    assert "`--jobs 2` does not go together with `--engine here`." in err


@pytest.mark.usefixtures("small")
def test_data_that_cannot_be_learned_are_refused(files, mercer, tmp_path):
    out = ["--out", tmp_path / "m", *HERE]
    folder = tmp_path / "shards"
    folder.mkdir()

    def answer(*words):
        code, _, err = mercer(*words, *out)
        assert code == 2
        return err

    assert "has no column 'nothing'" in answer(*learn(files / "shards", target="nothing"))
    one = table().set_column(5, "y", pa.array(["yes"] * ROWS))
    for number in range(4):
        pq.write_table(one, folder / f"{number}.parquet")
    assert "'yes' in all 1,000 rows" in answer(*learn(folder))
    gaps = table().set_column(6, "z", pa.array([np.nan] * ROWS))
    for number in range(4):
        pq.write_table(gaps, folder / f"{number}.parquet")
    assert "no value in 1,000 of the first 1,000 rows" in answer(*learn(folder, target="z"))
    for number in range(3):
        pq.write_table(one, folder / f"{number}.parquet")
    pq.write_table(table().drop_columns(["a"]), folder / "3.parquet")
    assert re.search(r"3.parquet has other columns than .*lacks 'a'", answer(*learn(folder)))
    (folder / "3.parquet").write_bytes(b"PAR1")
    assert re.search(r"3.parquet could not be read", answer(*learn(folder)))


# -- predict ----------------------------------------------------------------------------------


MODELS = ["classes", "numbers", "quantiles", "process", "novelty", "ranking"]


@pytest.mark.parametrize("name", MODELS)
def test_predictions_of_shards_are_those_of_one_process(files, mercer, tmp_path, name):
    model, shards = files / f"{name}.mercer", files / "shards"
    words = ["predict", model, shards, "--keep", "id", "--out"]
    assert mercer(*words, tmp_path / "all.parquet")[0] == 0
    code, _, err = mercer(*words, tmp_path / "parts", *HERE)
    assert code == 0, err
    assert "parts: 1,000 predictions in 4 files" in err
    assert re.search(r"predicting: 4 of 4 shards  1,000 rows  [\d,]+ rows/s  1 worker", err)
    parts = sorted(os.listdir(tmp_path / "parts"))
    assert parts == [f"part-{number:06}.parquet" for number in range(N_SHARDS)]
    found = pa.concat_tables(pq.read_table(tmp_path / "parts" / part) for part in parts)
    expected = pq.read_table(tmp_path / "all.parquet")
    assert found.schema == expected.schema
    for column in expected.column_names:
        mine, theirs = found[column].to_numpy(), expected[column].to_numpy()
        if mine.dtype.kind == "f":
            assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
        else:
            assert_array_equal(mine, theirs)


def test_a_shard_without_rows_has_a_file_without_rows(files, mercer, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    pq.write_table(table().slice(0, 0), shards / "a.parquet")
    words = ["predict", files / "classes.mercer", shards, *HERE, "--out", tmp_path / "parts"]
    code, _, err = mercer(*words)
    assert code == 2
    assert "holds no rows, so there is nothing to predict" in err
    assert sorted(os.listdir(tmp_path)) == ["shards"]
    pq.write_table(table(), shards / "b.parquet")
    assert mercer(*words)[0] == 0
    empty, full = (pq.read_table(tmp_path / "parts" / f"part-00000{n}.parquet") for n in range(2))
    assert (empty.num_rows, full.num_rows) == (0, ROWS)
    assert empty.schema == full.schema


def test_folders_of_predictions_hold_nothing_else(files, mercer, tmp_path):
    def answer(out):
        words = ["predict", files / "classes.mercer", files / "shards", "--out", out, *HERE]
        code, _, err = mercer(*words)
        assert code == 2
        return err

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old.parquet").write_bytes(b"")
    (tmp_path / "file").write_bytes(b"")
    assert "full' is not empty: what it holds would be taken" in answer(tmp_path / "full")
    assert "file' is a file. Name a folder." in answer(tmp_path / "file")
    assert "p.parquet' is named as a file, but with `--engine`" in answer(tmp_path / "p.parquet")
    assert "p.CSV.gz' is named as a file" in answer(tmp_path / "p.CSV.gz")
    assert "does not exist. Create it first." in answer(tmp_path / "none" / "parts")


KILLED = """
import os, pathlib, signal, sys
from mercer_app.models.files import new_folder
with new_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "part").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_gone_with_the_next(tmp_path):
    place = tmp_path / "parts"
    subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with new_folder(place) as folder:
        (folder / "new").touch()
    assert os.listdir(tmp_path) == ["parts"]
    assert os.listdir(place) == ["new"]


def test_folders_may_have_a_dot_in_their_names(tmp_path):
    check_new_folder(tmp_path / "preds.v2")
    (tmp_path / "parts.parquet").mkdir()
    check_new_folder(tmp_path / "parts.parquet")


def test_a_disk_that_is_gone_is_told_once(tmp_path, monkeypatch):
    def gone(_):
        raise OSError(5, "Input/output error")

    writer = TableWriter(str(tmp_path / "a.parquet"), ".parquet")
    writer.write(table())
    monkeypatch.setattr(pq.ParquetWriter, "close", gone)
    with pytest.raises(OSError, match="Input/output"):
        writer.close()
    del writer
    gc.collect()  # where Parquet tried once more, and printed a traceback


def test_a_place_that_cannot_be_written_is_found_before_training(files, tmp_path, monkeypatch):
    training = ShardTraining(files, "y", exclude=["id", "z", "query"], engine="here").start()
    monkeypatch.setattr("mercer_cluster.run.fit", None)
    with pytest.raises(FileNotFoundError, match=r"does not exist\. Create it first"):
        training.run(tmp_path / "none" / "model.mercer")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        training.run(tmp_path)


def test_what_is_odd_about_the_data_is_told_once(files, mercer, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    odd = table().set_column(1, "a", pa.array([None, *np.zeros(ROWS - 1)]))
    odd = odd.set_column(3, "town", pa.array(["Ulm"] * ROWS))
    for number in range(2):
        pq.write_table(odd, shards / f"{number}.parquet")
    words = ["evaluate", files / "classes.mercer", shards]
    serial, parallel = mercer(*words)[2], mercer(*words, *HERE)[2]
    warnings = [line for line in serial.splitlines() if line.startswith("warning")]
    assert "'a' (2 rows; taken as " in warnings[0]
    assert "'town' (500 of 500 rows, such as 'Ulm')" in warnings[1]
    assert [line for line in parallel.splitlines() if line.startswith("warning")] == warnings


def test_mistakes_in_a_shard_are_placed(files, mercer, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(2):
        csv.write_csv(table(seed=number), shards / f"{number}.csv")
    lines = (shards / "1.csv").read_text().splitlines()
    place = lines[0].split(",").index('"a"')
    cells = lines[8].split(",")
    lines[8] = ",".join([*cells[:place], "inf", *cells[place + 1 :]])
    (shards / "1.csv").write_text("\n".join(lines))
    words = ["evaluate", files / "classes.mercer", shards, *HERE]
    code, _, err = mercer(*words)
    assert code == 2
    assert re.search(r"1\.csv, 250 rows from row 0 on: Column 'a' .*line 9 of 1\.csv", err)


def test_advice_on_a_shard_is_in_words_of_the_command(files, mercer, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    pq.write_table(table(), shards / "0.parquet")
    text = table().set_column(1, "a", pa.array(["12,5"] * ROWS))
    for number in (1, 2):
        pq.write_table(text, shards / f"{number}.parquet")
    code, _, err = mercer("evaluate", files / "classes.mercer", shards, *HERE)
    assert code == 2
    assert "Column 'a' held numbers in training but now holds '12,5' in row 250 of" in err
    assert re.search(r", and [1-9]\d* more such cells\. Correct such cells", err)
    assert err.endswith("Correct such cells, or leave them empty, which is a missing value.\n")


# -- evaluate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS, "risky", "queries", "pairs"])
def test_measures_of_shards_are_those_of_one_process(files, mercer, name):
    more = ["--outlier", "no"] if name == "novelty" else []
    words = ["evaluate", files / f"{name}.mercer", files / "shards", *more]
    serial, parallel = mercer(*words), mercer(*words, *HERE)
    assert serial[0] == parallel[0] == 0, parallel
    assert re.search(r"evaluating: 4 of 4 shards  1,000 rows", parallel[2])
    mine, theirs = (
        {name: float(value) for name, value in map(str.split, one[1].splitlines())}
        for one in (parallel, serial)
    )
    assert list(mine) == list(theirs)
    assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-3, atol=1e-5)


def test_an_evaluation_of_shards_writes_a_report(files, mercer, tmp_path):
    words = ["evaluate", files / "numbers.mercer", files / "shards", *HERE]
    assert mercer(*words, "--report", tmp_path / "r.html", "--log", tmp_path / "l")[0] == 0
    assert "RMSE" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "l").read_text().count("INFO evaluate") == N_SHARDS


# -- addresses, files of text -----------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_shards_may_lie_in_an_object_store(files, mercer, tmp_path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(f"{files / 'shards'}/", "/cloud/shards/", recursive=True)
    address = "memory://cloud/shards/*.parquet"
    code, _, err = mercer(*learn(address, "--out", tmp_path / "m.mercer", *HERE))
    assert code == 0, err
    code, _, _ = mercer(*learn(files / "shards", "--out", tmp_path / "n.mercer", *HERE))
    assert (tmp_path / "m.mercer").read_bytes() == (tmp_path / "n.mercer").read_bytes()
    here = mercer("evaluate", tmp_path / "m.mercer", (files / "shards").as_uri(), *HERE)
    assert here[:2] == mercer("evaluate", tmp_path / "m.mercer", address, *HERE)[:2]
    memory.rm("/cloud", recursive=True)


def test_columns_of_text_stay_text_in_every_shard(mercer, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(2):
        rows = [f"{'0' if i % 2 else 'x'}{i % 5},{i % 2}" for i in range(200)]
        (shards / f"{number}.csv").write_text("\n".join(["code,y", *rows]))
    words = ["fit", shards, "--target", "y", "--out", tmp_path / "m.mercer", *HERE, "--quiet"]
    assert mercer(*words)[0] == 0
    for number in range(2):  # all digits, which are categories all the same
        (shards / f"{number}.csv").write_text("code,y\n" + "01,1\n03,1\n" * 5)
    code, out, err = mercer("evaluate", tmp_path / "m.mercer", shards, *HERE)
    assert (code, "error_percent 0\n" in out) == (0, True), err
    assert "warning" not in err
    found = predict(load_model(tmp_path / "m.mercer"), shards, engine="here")
    assert [values.tolist() for values in found] == [[1] * 10] * 2


# -- Python -----------------------------------------------------------------------------------


def test_predictions_of_arrays_come_in_the_order_of_the_shards():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    model = KernelRegressor(random_state=0).fit(X, X[:, 0])
    shards = [X[:50], (X[50:150], None), lambda: X[150:160], lambda: iter([X[160:200], X[200:]])]
    told = []
    found = predict(model, shards, engine="here", callback=told.append)
    assert [len(values) for values in found] == [50, 100, 10, 140]
    assert_allclose(np.concatenate(found), model.predict(X), rtol=1e-5, atol=1e-5)
    assert [(one.stage, one.done, one.total, one.n_rows) for one in told] == [
        ("predict", 1, 4, 50),
        ("predict", 2, 4, 100),
        ("predict", 3, 4, 10),
        ("predict", 4, 4, 140),
    ]


def test_predictions_of_tables_go_by_the_names_of_columns(files):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (200, 2)), columns=["a", "b"])
    model = KernelClassifier(random_state=0).fit(frame, frame["a"] > 0)
    other = frame[["b", "a"]].assign(c=1.0)
    (found,) = predict(model, [other], engine="here")
    assert_array_equal(found, model.predict(frame))
    whole = load_model(files / "numbers.mercer")
    paths = sorted((files / "shards").iterdir())
    by_path = predict(whole, paths, engine="here")
    by_table = predict(whole, [table(seed=number) for number in range(N_SHARDS)], engine="here")
    for mine, theirs in zip(by_path, by_table, strict=True):
        assert_array_equal(mine, theirs)


def test_a_shard_that_does_not_fit_the_model_is_named(files):
    model = load_model(files / "numbers.mercer")
    with pytest.raises(ShardError, match=r"shard 1: .*'a'"):
        predict(model, [table(), table().drop_columns(["a"])], engine="here")


# -- progress ---------------------------------------------------------------------------------


def stages(view):
    with view:
        for done in (1, 2):
            view.update(Progress("survey", done, 2, f"shard {done}", 500, 3, 0.1))
        view.update(Progress("plan", 0, 1, "sample", 300, 3, 0.0))
        view.update(Progress("plan", 1, 1, "sample", 300, 3, 2.0))
        view.update(Progress("solve", 1, 1, "region 0", 0, 3, 0.1))


def test_progress_is_a_line_for_each_stage_elsewhere_than_on_a_terminal(capsys):
    stages(StageView())
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"looking at shards: 2 of 2 shards  1,000 rows  [\d,]+ rows/s  3 workers", lines[0]
    )
    assert lines[1:] == [
        "choosing scales, lengths and forms: 300 rows of a sample",
        "solving: 1 of 1 regions  3 workers",
    ]
    stages(StageView(quiet=True))
    assert capsys.readouterr().err == ""


def test_progress_is_a_bar_for_each_stage_on_a_terminal(monkeypatch):
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with StageView() as view:
            view.update(Progress("survey", 2, 2, "shard", 500, 3, 0.1))
            view.update(Progress("learn", 1, 2, "shard", 500, 3, 0.1))
        monkeypatch.undo()
    shown = b""
    with open(ours, "rb", buffering=0) as screen, suppress(OSError):  # once the other end is closed
        while piece := screen.read(10_000):
            shown += piece
    shown = shown.decode()
    assert re.search(r"looking at shards.*2 of 2 shards.*500 rows.*rows/s  3 workers", shown)
    assert re.search(r"learning.*1 of 2 shards", shown)


# -- engines ----------------------------------------------------------------------------------


def has(engine):
    package = {"ray": "ray", "dask": "distributed"}.get(engine, "mercer")
    return find_spec(package) and find_spec(f"mercer_cluster.engines.{engine}")


def commands(*many):
    """Run commands in a process of their own, as their workers are; return what they say."""
    call = (
        "import json, sys\nfrom mercer_app.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    try:\n        main(words)\n"
        "    except SystemExit as end:\n        assert not end.code, words\n"
    )
    words = json.dumps([[str(word) for word in one] for one in many])
    done = subprocess.run(
        [sys.executable, "-c", call, words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def of_here(files, tmp_path_factory):
    """What one process alone learns from all shards, and says of them."""
    return said_by(files / "shards", tmp_path_factory.mktemp("here"), HERE, HERE)


def said_by(shards, folder, engine, other):
    """Return a model's bytes, its predictions, and what the commands say, which are measures."""
    model, parts = folder / "model", folder / "parts"
    said = commands(
        learn(shards, "--out", model, *engine),
        ["predict", model, shards, "--out", parts, *other],
        ["evaluate", model, shards, *other],
    )
    return model.read_bytes(), pq.read_table(parts).to_pydict(), said


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_every_engine_gives_the_same_model(files, of_here, tmp_path, engine):
    if not has(engine):
        pytest.skip(f"the engine {engine} is not there")
    chosen = ["--engine", engine, "--workers"]
    if engine == "dask":
        assert said_by(files / "shards", tmp_path, [*chosen, 2], [*chosen, 1]) == of_here
    else:  # whose workers take long to begin
        commands(learn(files / "shards", "--out", tmp_path / "model", *chosen, 2))
        assert (tmp_path / "model").read_bytes() == of_here[0]
