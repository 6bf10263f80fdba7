"""Peak memory on a stream of ten million generated rows: it must stay flat.

Rows come from a generator, through ``mercer_app.files.stream``. None of them is kept.
"""

from __future__ import annotations

import resource
import sys

import _common
import numpy as np

from mercer import KernelClassifier
from mercer.expansions import KOMP
from mercer_app.files import stream

D = 8
BLOCK = 8192


def blocks(n_rows):
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, BLOCK):
        X = rng.standard_normal((min(BLOCK, n_rows - start), D))
        yield X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def follow(model, n_rows, measure):
    """Learn from the stream; return a row of a table at some places of it."""
    marks = {int(n_rows * f) for f in (0.001, 0.01, 0.1, 0.3, 1.0)}
    rows, seen = [], 0
    spent = 0.0
    for X, y in stream(blocks(n_rows), batch_size=BLOCK):
        seconds, _ = _common.cpu_seconds(lambda: model.partial_fit(X, y))
        spent += seconds
        seen += len(X)
        if marks and seen >= min(marks):
            marks.remove(min(marks))
            rows.append(
                {
                    "rows": seen,
                    "peak memory (MiB)": peak_mib(),
                    "model order": model.model_order_,
                    "records of history": len(model.history_.loss),
                    "µs per row": 1e6 * spent / seen,
                    measure: float(model.score(X, y)),
                }
            )
    return rows


def main(n_rows=10_000_000):
    model = KernelClassifier(kernel="gaussian", expansion=KOMP(max_size=100))
    _common.publish("memory", follow(model, n_rows, "accuracy"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
