"""Time to import, and to the first ``partial_fit`` in a fresh process, beside scikit-learn.

The first row is measured with an empty compile cache, the others with a warm one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import _common

PROGRAMS = {
    "import numpy": "import numpy",
    "import mercer": "import mercer",
    "from sklearn.svm import SVC": "from sklearn.svm import SVC",
    "from mercer import KernelClassifier": "from mercer import KernelClassifier",
}
FIRST_FIT = """
from mercer import KernelClassifier
import numpy as np, time
X = np.random.default_rng(0).standard_normal((64, 5)); y = (X[:, 0] > 0).astype(int)
start = time.process_time()
KernelClassifier().partial_fit(X, y)
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


def main():
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        cold = run(FIRST_FIT, cache)[0]
        for name, program in PROGRAMS.items():
            times = [run(TIMED.format(program), cache) for _ in range(7)]
            cpu, wall = (sorted(t[i] for t in times)[3] for i in (0, 1))
            rows.append({"what": name, "CPU s (median of 7)": cpu, "wall s": wall})
        warm = sorted(run(FIRST_FIT, cache)[0] for _ in range(7))[3]
    rows.append(
        {"what": "first partial_fit, warm cache", "CPU s (median of 7)": warm, "wall s": "-"}
    )
    rows.append(
        {"what": "first partial_fit ever (compiles)", "CPU s (median of 7)": cold, "wall s": "-"}
    )
    import importlib.util

    note = "pandas is installed here; scikit-learn imports it where it finds it."
    _common.publish("start_up", rows, note if importlib.util.find_spec("pandas") else "")


if __name__ == "__main__":
    main()
