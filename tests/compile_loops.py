"""Compile the longest loops for one type of numbers: ``python compile_loops.py float32``."""

import sys

import numpy as np

from mercer import KernelClassifier, KernelRanker, KernelRegressor


def main(dtype):
    X, y = np.eye(4, dtype=dtype), np.array([0, 1, 0, 1])
    KernelClassifier("hinge", expansion="komp").fit(X, y)
    KernelRanker(expansion="komp").fit(X, y)
    KernelRegressor(risk="variance", expansion="komp").partial_fit(X, y).partial_fit(X, y)
    # What the defaults need is in double precision: some by either of the two processes.
    rows = np.random.default_rng(0).normal(size=(700, 3))
    if dtype == "float64":
        KernelClassifier(random_state=0).fit(rows, rows[:, 0] > 0.0)
        KernelRegressor("quantile", random_state=0).fit(rows, rows[:, 0])
        model = KernelRegressor(random_state=0)
        for row in rows:
            model.learn_one(row, row[0])
    else:
        KernelRanker(expansion="komp", pair_kernel="product").fit(X, y)


if __name__ == "__main__":
    main(sys.argv[1])
