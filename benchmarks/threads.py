"""The large steps again with one BLAS thread and with two: wall time per mini-batch.

BLAS is the library of linear algebra behind NumPy. mercer bounds it to one thread while it learns,
and this table is why. Here two threads are forced on it.

The last row, the product of two matrices, shows what the BLAS itself gains.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "2"

import time

import _common
import numpy as np
import step_cost
from threadpoolctl import threadpool_limits


def wall(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def main():
    rows = []
    rng = np.random.default_rng(0)
    square = rng.standard_normal((1500, 1500))
    for order in (200, 1000, 2300):
        f = step_cost.expansion(rng, order, 784, np.float32, 10)

        def step(f=f):
            X = step_cost.points(rng, 32, 784, np.float32)
            step_cost.mercer_step(f, X, rng.standard_normal((32, 10)))

        cells = {"d": 784, "type": "float32", "M": order}
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                step()
                cpu, ms = _common.cpu_seconds(lambda: wall(step, 15))
                cells[f"{threads} thread(s): wall ms"] = ms
                cells[f"{threads}: CPU ms"] = 1e3 * cpu / 15
        rows.append(cells)
    cells = {"d": "-", "type": "float64", "M": "1500 x 1500 product"}
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            cpu, ms = _common.cpu_seconds(lambda: wall(lambda: square @ square, 9))
            cells[f"{threads} thread(s): wall ms"] = ms
            cells[f"{threads}: CPU ms"] = 1e3 * cpu / 9
    rows.append(cells)
    _common.publish("threads", rows)


if __name__ == "__main__":
    main()
