"""Time to import, to the command's answer and to KOMP's first ``partial_fit``, in new processes.

The last row is measured with an empty compile cache, the others with a filled one.

Some answers need no work: help, and words on mistyped options. They should take at most 0.3 s of
CPU time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

import _common

PROGRAMS = {
    "import numpy": "import numpy",
    "import mercer": "import mercer",
    "from sklearn.svm import SVC": "from sklearn.svm import SVC",
    "from mercer import KernelClassifier": "from mercer import KernelClassifier",
}
ANSWERS = {  # with the exit status of each
    "mercer --version": 0,
    "mercer --help": 0,
    "mercer fitt": 2,
    "mercer fit --help": 0,
    "mercer fit table.csv --tagret y": 2,
    "mercer reproduce --help": 0,
}
TARGET = 0.3  # s of CPU for each answer
FIRST_FIT = """
from mercer import KernelClassifier
import numpy as np, time
X = np.random.default_rng(0).standard_normal((64, 5)); y = (X[:, 0] > 0).astype(int)
start = time.process_time()
KernelClassifier(expansion="komp").partial_fit(X, y)
print(time.process_time() - start)
"""
TIMED = """
import time; start = time.process_time(); wall = time.perf_counter()
{}
print(time.process_time() - start, time.perf_counter() - wall)
"""


def run(program, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def answer(command, cache):
    """CPU and wall seconds of the whole process of a command."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    program = [sys.executable, "-m", "mercer", *command.split()[1:]]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ANSWERS[command], (command, done)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main():
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        cold = run(FIRST_FIT, cache)[0]
        measured = {
            name: [run(TIMED.format(program), cache) for _ in range(7)]
            for name, program in PROGRAMS.items()
        }
        measured |= {name: [answer(name, cache) for _ in range(7)] for name in ANSWERS}
        for name, times in measured.items():
            cpu, wall = (sorted(t[i] for t in times)[3] for i in (0, 1))
            target = f"{TARGET}: {'met' if cpu <= TARGET else 'missed'}" if name in ANSWERS else "-"
            rows.append(
                {"what": name, "CPU s (median of 7)": cpu, "wall s": wall, "target": target}
            )
        warm = sorted(run(FIRST_FIT, cache)[0] for _ in range(7))[3]
    for name, cpu in (
        ("first partial_fit, warm cache", warm),
        ("first partial_fit ever (compiles)", cold),
    ):
        rows.append({"what": name, "CPU s (median of 7)": cpu, "wall s": "-", "target": "-"})
    import importlib.util

    note = "pandas is installed here; scikit-learn imports it where it finds it."
    _common.publish("start_up", rows, note if importlib.util.find_spec("pandas") else "")


if __name__ == "__main__":
    main()
