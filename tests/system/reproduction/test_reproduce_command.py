"""The command ``mercer reproduce``: progress, what is left out, figures, the paper's numbers."""

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from mercer_app.cli import main
from mercer_reproduction import Drawing, Experiment, Result, Target, _data_files
from mercer_reproduction._paper_numbers import PaperNumber
from mercer_reproduction.command import _experiment_view as view_module
from mercer_reproduction.command import _run
from mercer_reproduction.command._experiment_view import ExperimentView


@pytest.fixture
def mercer(capsys, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path_factory.mktemp("kept")))
    monkeypatch.delenv("MERCER_DATA", raising=False)

    def call(*words):
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return exit_.value.code or 0, out, err

    return call


def toy(name="toy", needs=(), run=None):
    def run_toy(context):
        context.say("halfway")
        drawing = Drawing("line", "A line.", lambda ax: ax.plot([1, 2], label="line"))
        return Result([{"method": "a", "error": np.float64(3.0)}], drawings=[drawing])

    return Experiment(name, "A toy", "nowhere", "Nothing.", run or run_toy, needs)


@pytest.fixture
def offer(monkeypatch):
    """Put experiments in the place of those there are."""

    def set_to(*experiments):
        monkeypatch.setattr(_run, "experiments", lambda: experiments)
        known = {experiment.name: experiment for experiment in experiments}
        monkeypatch.setattr(_run, "get_experiment", known.__getitem__)

    return set_to


# -- results --------------------------------------------------------------------------------------


def test_figures_are_png_and_the_same_svg_in_every_run(mercer, offer, tmp_path):
    offer(toy())
    texts = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        code, _, err = mercer("reproduce", "toy", "--out", folder)
        assert code == 0
        assert (folder / "toy-line.png").read_bytes().startswith(b"\x89PNG")
        texts.append((folder / "toy-line.svg").read_text())
        assert "toy-line.svg" in err
    assert texts[0] == texts[1]
    assert "<svg " in texts[0]


def test_svg_can_be_left_out(mercer, offer, tmp_path):
    offer(toy())
    mercer("reproduce", "toy", "--out", tmp_path, "--no-svg")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["toy-line.png", "toy.json"]


def test_numbers_of_the_paper_stand_beside_ours(mercer, offer, monkeypatch, tmp_path):
    number = PaperNumber("toy", "Fig. 1", "error of a", 2.5, {"method": "a"}, "error")
    monkeypatch.setattr("mercer_reproduction._paper_numbers.PAPER_NUMBERS", (number,))
    offer(toy())
    _, out, _ = mercer("reproduce", "toy", "--out", tmp_path)
    assert "The paper's numbers beside ours" in out
    assert "not to be compared" not in out
    assert re.search(r"Fig\. 1 +error of a +2\.5 +3", out)
    [row] = json.loads((tmp_path / "toy.json").read_text())["paper"]
    assert row == {"place": "Fig. 1", "what": "error of a", "paper": 2.5, "ours": 3.0}
    _, out, _ = mercer("reproduce", "toy", "--quick", "--out", tmp_path)
    assert re.search(r"few\s+rows:\s+not\s+to\s+be\s+compared", out)


# -- what is left out -----------------------------------------------------------------------------


def test_all_leaves_out_what_has_no_data_and_says_so(mercer, offer, tmp_path):
    offer(toy("first", ("lidar.parquet",)), toy("second"))
    folder = tmp_path / "out"
    for words in ([], ["--data", tmp_path]):
        code, out, err = mercer("reproduce", "all", "--out", folder, *words)
        assert code == 0
        assert "left out: " in err
        assert "left out, for want of data or packages: first." in err
        assert "A toy" in out
        assert (folder / "second.json").exists()
        assert not (folder / "first.json").exists()


def test_one_experiment_without_its_data_is_an_error(mercer, offer, tmp_path):
    offer(toy("first", ("lidar.parquet",)))
    code, _, err = mercer("reproduce", "first", "--out", tmp_path)
    assert code == 2
    assert "columns range" in err
    assert "lidar.csv" in err


@pytest.mark.parametrize("name", ["all", "first"])
def test_packages_that_are_missing_are_named(name, mercer, offer, tmp_path):
    def run(context):
        raise ImportError("This needs PyTorch: `pip install torch`.")

    offer(toy("first", run=run), toy("second"))
    code, _, err = mercer("reproduce", name, "--out", tmp_path)
    assert code == (0 if name == "all" else 2)
    assert "pip install torch" in err
    assert (tmp_path / "second.json").exists() == (name == "all")


def test_all_goes_on_after_faults_and_damaged_files_and_tells_them_in_the_end(
    mercer, offer, tmp_path
):
    def fault(context):
        raise RuntimeError("a fault")

    def read(context):
        return Result([{"rows": len(_data_files.load_arrays("lidar.parquet", context.data))}])

    (tmp_path / "lidar.parquet").write_bytes(b"PAR1 cut off")
    offer(toy("first", run=fault), toy("damaged", ("lidar.parquet",), read), toy("last"))
    code, _, err = mercer("reproduce", "all", "--out", tmp_path, "--data", tmp_path)
    assert code == 1
    assert (tmp_path / "last.json").exists()
    told = err[err.index("\nfailed:\n") :]
    assert "  first: RuntimeError: a fault" in told
    assert re.search(r"  damaged: \w+: .*lidar\.parquet", told)
    assert "last" not in told
    assert "left out" not in err


def test_faults_of_one_experiment_are_errors(mercer, offer, tmp_path):
    def run(context):
        raise RuntimeError("a fault")

    offer(toy(run=run))
    code, _, err = mercer("reproduce", "toy", "--out", tmp_path)
    assert code == 1
    assert "a fault" in err


def test_short_cells_of_tables_are_not_broken():
    rows = [{"task": "Multi-Logistic", "held-out error %": 3.25, "settings": "word " * 60}] * 2
    drawn = io.StringIO()
    Console(file=drawn, width=80).print(_run._table(rows, title="T"))
    lines = drawn.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("Multi-Logistic" in line for line in lines) == 2
    assert not any("held-out error" in line for line in lines)  # headings are


def test_numbers_of_the_paper_stand_beside_targets(mercer, offer, tmp_path):
    def run(context):
        targets = [
            Target("error", 3.0, 4.0, paper=2.5),
            Target("order", 9.0, 8.0, claim=("Fig. 1",)),
        ]
        return Result([{"method": "a"}], targets=targets)

    offer(toy(run=run))
    _, out, _ = mercer("reproduce", "toy", "--out", tmp_path)
    assert re.search(r"error +3 +2\.5 +at most 4 +met", out)
    assert re.search(r"order +9 +- +at most 8 +missed", out)
    first, second = json.loads((tmp_path / "toy.json").read_text())["targets"]
    assert (first["paper"], first["claim"]) == (2.5, [])
    assert (second["paper"], second["claim"]) == ("-", ["Fig. 1"])


def test_wrong_seeds_are_refused_before_anything_is_run(mercer, offer, tmp_path):
    offer(toy())
    code, _, err = mercer("reproduce", "all", "--seed", "-1", "--out", tmp_path / "out")
    assert code == 2
    assert "--seed" in err
    assert not (tmp_path / "out").exists()


def test_a_folder_is_made_only_when_something_is_written(mercer, offer, tmp_path):
    offer(toy(needs=("lidar.parquet",)))
    out = tmp_path / "new" / "out"
    code, _, _ = mercer("reproduce", "toy", "--data", tmp_path, "--out", out)
    assert code == 2
    assert os.listdir(tmp_path) == []
    offer(toy())
    assert mercer("reproduce", "toy", "--out", out)[0] == 0
    assert "toy.json" in os.listdir(out)
    code, _, err = mercer("reproduce", "toy", "--out", out / "toy.json" / "more")
    assert code == 2
    assert "is a file, but `--out` must be a folder" in err


def test_downloads_are_told_in_a_line(mercer, offer, monkeypatch, tmp_path):
    class Found:
        data = np.ones((260, 6))
        target = np.array(["1"] * 260, object)

    monkeypatch.setattr(_data_files, "_downloaded", {})
    monkeypatch.setattr(_data_files, "_failed", {})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: Found)
    offer(toy(needs=("mammography.parquet",)))
    code, _, err = mercer("reproduce", "toy", "--out", tmp_path)
    assert code == 0
    assert err.count("downloading mammography of OpenML") == 1


# -- progress -------------------------------------------------------------------------------------


def test_in_a_log_progress_is_plain_lines(mercer, offer, tmp_path):
    offer(toy(), toy("other"))
    _, _, err = mercer("reproduce", "all", "--out", tmp_path)
    assert "\x1b" not in err
    assert err.splitlines()[:2] == ["toy: A toy (nowhere)", "halfway"]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 100 columns on standard error; returns what was drawn, without the colours."""

    def make(width=100):
        drawn = io.StringIO()
        console = Console(file=drawn, force_terminal=True, width=width, legacy_windows=False)
        monkeypatch.setattr(view_module, "Console", lambda **_: console)
        return lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.getvalue())

    return make


@pytest.mark.parametrize("width", [50, 100])
def test_on_a_terminal_the_time_and_the_last_sentence_are_shown(terminal, width):
    drawn = terminal(width)
    view = ExperimentView(1)
    with view.running("dsg-adult"):
        view.say("a sentence")
    text = drawn()
    assert re.search(r"dsg-adult .*0:00:0\d a sentence", text)
    assert ("━" in text) == (width == 100)
    assert "all" not in text
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= width


def test_all_has_a_bar_over_the_experiments(terminal):
    drawn = terminal()
    view = ExperimentView(3)
    for name in ("first", "second"):
        with view.running(name):
            view.say(f"words of {name}")
        view.finished()
    text = drawn()
    assert re.search(r"all .*0 of 3 done", text)
    assert re.search(r"all .*1 of 3 done", text)
    assert "words of first" in text
    assert "first" not in text[text.index("1 of 3 done") :]


def test_the_bars_go_away_when_an_experiment_fails(terminal):
    drawn = terminal()
    view = ExperimentView(1)

    def fail():
        with view.running("toy"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    before = drawn()
    view._bar.refresh()
    assert drawn().count("toy") == before.count("toy")


def test_records_are_json_with_the_time(mercer, offer, tmp_path):
    offer(toy())
    mercer("reproduce", "toy", "--quick", "--out", tmp_path)
    record = json.loads((tmp_path / "toy-quick.json").read_text())
    assert record["cpu_seconds"] >= 0.0
    assert record["rows"] == [{"method": "a", "error": 3.0}]


def test_without_the_annex_the_command_is_not_listed():
    program = (
        "import sys; sys.modules['mercer_reproduction'] = None\n"
        "from mercer_app.cli import main; main(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "inspect" in done.stdout
    assert "reproduce" not in done.stdout
