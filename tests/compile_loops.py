"""Compile some of the longest loops: ``python compile_loops.py double``.

Of those in double precision the second process takes what shares little with the first.
"""

import sys

import numpy as np

from mercer import KernelClassifier, KernelRanker, KernelRegressor
from mercer.expansions import ALD

LABELS = np.array([0, 1, 0, 1])
ROWS = np.random.default_rng(0).normal(size=(700, 3))


def risks(dtype):
    model = KernelRegressor(risk="variance", expansion="komp")
    model.partial_fit(np.eye(4, dtype=dtype), LABELS).partial_fit(np.eye(4, dtype=dtype), LABELS)


def steps(dtype):
    KernelClassifier("hinge", expansion="komp").fit(np.eye(4, dtype=dtype), LABELS)
    KernelRanker(expansion="komp").fit(np.eye(4, dtype=dtype), LABELS)


def double():
    steps(np.float64)
    risks(np.float64)
    model = KernelRegressor(random_state=0)
    for row in ROWS:
        model.learn_one(row, row[0])


def single():
    steps(np.float32)
    KernelRegressor(expansion=ALD()).fit(np.eye(4), LABELS)
    KernelClassifier(random_state=0).fit(ROWS, ROWS[:, 0] > 0.0)


def quality():
    """What only those of `tests/quality` need."""
    KernelRanker(expansion="komp", pair_kernel="product").fit(np.eye(4), LABELS)


def quality_single():
    risks(np.float32)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
