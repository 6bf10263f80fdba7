"""Whole runs of the command: the demonstration with its pages, and a process that is killed."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import run
from mercer.default import DefaultLearner, Settings

pytestmark = pytest.mark.usefixtures("quick_race")

COMMAND = [sys.executable, "-c", "from mercer_app.cli import main; main()"]


def test_demo_reads_digits_and_its_suggestions_work(
    mercer, tmp_path, monkeypatch, rough_importances, undrawn
):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", Settings())  # whose accuracy is promised
        code, out, err = mercer("demo", "--out", "here")
    assert code == 0, err
    assert float(re.search(r"held-out images: ([\d.]+) %", out)[1]) > 97.0
    assert "--expansion komp --max-size 300" in out
    assert re.search(r"model order [\d,]+: .* keeps? all 1,347 training images", out)
    written = {path.name for path in (tmp_path / "here").iterdir()}
    assert written >= {
        "digits.mercer", "report.html", "race.png", "dictionary.png",
    }  # fmt: skip
    page = (tmp_path / "here" / "report.html").read_text("utf-8").replace("<wbr>", "")
    assert tmp_path.name not in page
    assert "digits-train.parquet" in page
    suggestions = re.findall(r"^  mercer (.*)$", out, re.MULTILINE)
    assert len(suggestions) == 4
    for words in suggestions:
        assert mercer(*words.split())[0] == 0, words


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed")
def test_a_killed_command_resumes_to_the_same_bytes(tmp_path):
    x = np.random.default_rng(0).standard_normal((17_000, 2))
    y = np.where(x[:, 0] * x[:, 1] > 0, "yes", "no")
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y}), tmp_path / "many.parquet")
    # A kernel by name: tests choose maps of inputs faster than processes of their own do.
    words = ["fit", str(tmp_path / "many.parquet"), "--target", "y", "--max-size", "50"]
    words += ["--kernel", "gaussian", "--passes", "3", "--checkpoint-every", "8000", "--out"]
    process = subprocess.Popen([*COMMAND, *words, str(tmp_path / "m"), "--quiet"])
    checkpoint = tmp_path / "m.checkpoint"
    end = time.monotonic() + 300
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (tmp_path / "m").exists()
    assert run(*words, tmp_path / "m", "--quiet", "--resume") == 0
    assert run(*words, tmp_path / "a", "--quiet") == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "a").read_bytes()
