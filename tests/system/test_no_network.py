"""Nothing is sent anywhere, and nobody is let in, unless the user asks for it."""

import subprocess
import sys

import pytest

# An audit hook sees what Python's own modules do, also those of other packages, and stays for good.
FORBIDDEN = """
import sys

opened = []

def forbid(event, arguments):
    if event.startswith("socket.") or event == "urllib.Request":
        opened.append(event)
        raise AssertionError(f"{event}{arguments}")

sys.addaudithook(forbid)
"""
TRIED = """
import socket
try: socket.socket()
except AssertionError: print("forbidden", *opened)
"""
LIBRARY = """
import pickle
import numpy as np
from sklearn.datasets import load_iris
from mercer import (GaussianProcessRegressor, KernelClassifier, KernelRanker, KernelRegressor,
                    NoveltyDetector, compact, load_model)

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
for model in (KernelClassifier(random_state=0), KernelRegressor(random_state=0),
              KernelClassifier(expansion="komp", random_state=0),
              KernelRegressor(expansion="random_features", random_state=0),
              GaussianProcessRegressor(random_state=0), NoveltyDetector(random_state=0),
              KernelRanker(random_state=0)):
    model.fit(X, y)
    model.save("m.mercer")
    answers = load_model("m.mercer").score_samples if model.__class__ is NoveltyDetector else None
    answers = answers or load_model("m.mercer").predict
    assert np.isfinite(answers(X)).all()
    pickle.loads(pickle.dumps(model))
compact(KernelClassifier(random_state=0).fit(X, y))
KernelClassifier(random_state=0).learn_one({"a": 1.0}, "b")
print("done", *opened)
"""
COMMAND = """
from sklearn.datasets import load_iris
from mercer_app.cli import main

iris = load_iris(as_frame=True).frame[::2]
iris.columns = ["a", "b", "c", "d", "kind"]
iris.to_csv("iris.csv", index=False)
for words in (
    "fit iris.csv --target kind --out m.mercer --test iris.csv --report r.html",
    "predict m.mercer iris.csv --out p.csv --interval 0.9",
    "evaluate m.mercer iris.csv",
    "inspect m.mercer",
    "explain m.mercer iris.csv",
    "export m.mercer --out m.py",
    "stream iris.csv --target kind --out s.mercer --predictions s.jsonl",
    "--version",
):
    try: main(words.split())
    except SystemExit as end: assert not end.code, words
print("done", *opened)
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [(TRIED, "forbidden socket.__new__"), (LIBRARY, "done"), (COMMAND, "done")],
    ids=["socket", "library", "command"],
)
def test_no_socket_is_opened(program, said, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORBIDDEN + program],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == said
