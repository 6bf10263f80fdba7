"""Compile the longest loops for one type of numbers: ``python compile_loops.py float32``."""

import sys

import numpy as np

from mercer import KernelClassifier, KernelRanker


def main(dtype):
    X, y = np.eye(4, dtype=dtype), np.array([0, 1, 0, 1])
    KernelClassifier("hinge", expansion="komp").fit(X, y)
    KernelRanker(expansion="komp").fit(X, y)


if __name__ == "__main__":
    main(sys.argv[1])
