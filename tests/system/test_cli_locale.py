"""Names with accents are read, written and shown in a locale that has none."""

import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from command_line import run
from mercer import load_model

# Learn, and look at what was learned.
SCRIPT = """
import sys
from mercer_app.cli import main

try:
    main()
finally:
    main(["inspect", sys.argv[-1]])
"""
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FEW = ["--kernel", "gaussian", "--length-scale", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with accents in its name, its columns, its categories and its classes."""
    folder = tmp_path_factory.mktemp("données")
    rng = np.random.default_rng(0)
    size = rng.normal(size=200)
    seasons, classes = rng.choice(["été", "où"], 200), np.where(size > 0, "très bon", "mauvaïs")
    frame = pd.DataFrame({"größe": size, "saison d'été": seasons, "qualité": classes})
    frame.to_parquet(folder / "données.parquet")
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="such a locale there is UTF-8")
def test_a_locale_of_ascii_has_accents(folder):
    words = ["fit", "données.parquet", "--target", "qualité", *FEW]
    words += ["--report", "rapport d'été.html", "--out", "modèle.mercer"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=folder,
        env={**os.environ, **ASCII},
        capture_output=True,
        check=False,
    )
    said, told = done.stderr.decode(), done.stdout.decode()
    assert done.returncode == 0, said
    assert "classification of 'qualité' (text); 2 classes: mauvaïs, très bon" in said
    assert "classes mauvaïs, très bon" in told
    model = load_model(folder / "modèle.mercer")
    assert model.roles_.target == "qualité"
    assert model.classes_.tolist() == ["mauvaïs", "très bon"]
    page = (folder / "rapport d'été.html").read_text(encoding="utf-8")
    assert "qualité: classification by modèle.mercer" in page


def test_a_console_that_lacks_letters_shows_their_codes(monkeypatch):
    errors = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", errors)
    assert run("inspect", "où.mercer") == 2
    errors.flush()
    said = errors.buffer.getvalue().decode("ascii").split()
    assert " ".join(said) == r"error: There is no model file o\xf9.mercer."


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_an_encoding_lacks_is_written_as_codes(errors, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=errors)
    monkeypatch.setattr(sys, "stdout", out)
    assert run("--version") == 0
    out.write("où ± \udce9")
    out.flush()
    assert out.buffer.getvalue().endswith(rb"o\xf9 \xb1 \udce9")


def test_output_that_is_utf8_stays_as_it_is(monkeypatch):
    """Bytes of names that are no UTF-8 are written as they came where the locale says so."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", out)
    assert run("--version") == 0
    out.write("où \udce9")
    out.flush()
    assert out.buffer.getvalue().endswith("où ".encode() + b"\xe9")


def test_a_run_that_stays_ascii_is_not_started_again_and_again(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mercer", "--version"])
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    started = []
    monkeypatch.setattr(os, "execv", lambda *words: started.append(words))
    monkeypatch.setenv("PYTHONUTF8", "0")
    from mercer_app.cli import main

    for _ in range(2):  # the second time the environment says so already
        with pytest.raises(SystemExit):
            main()
    assert len(started) == 1
    assert os.environ["PYTHONUTF8"] == "1"
    assert started[0][1][1:] == sys.orig_argv[1:]
