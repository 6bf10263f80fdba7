"""Random features of the Gaussian kernel: time for each feature, and the error of each design.

A random feature of a row is a cosine of the row times a frequency, plus a phase. Frequencies and
phases are drawn at random, and a *design* is a way to draw the frequencies. d is the number of
inputs, and m the number of features.

*Time* is for one thread and for tiles of 131072 features (512 kB of float32). "GEMM" is the matrix
product of the rows and m frequencies, without anything else. "NumPy" and "torch" compute the same
cosines in the same tiles. "pairs" takes the cosine and the sine of each frequency. So it needs half
as many frequencies, and can be faster than GEMM.
"""

from __future__ import annotations

import _common
import numpy as np

from mercer.features import CosineMap, FeatureOptions, NormalLaw
from mercer.kernels import Gaussian
from mercer.numerics.philox import normals

BATCH = 1024
TILE = 131_072
SIZES = ((2, 1024), (54, 256), (123, 256), (784, 256), (784, 2048))
REPEATS = 30
DESIGNS = ("iid", "orthogonal", "hadamard", "sobol")
ROWS, DRAWS = 300, 8


def nanoseconds(function, n_numbers):
    """Smallest time of several calls, for each number that a call makes."""
    function()
    return 1e9 * _common.least_cpu_seconds(function, REPEATS) / n_numbers


def in_tiles(X, work):
    """Call ``work`` on tiles of rows."""
    size = min(len(X), work.rows)

    def run():
        for start in range(0, len(X), size):
            work(X[start : start + size])

    return run


def tiled(rows):
    """Mark a function with the number of rows that it takes at a time."""

    def mark(function):
        function.rows = rows
        return function

    return mark


def mercer_features(X, m, paired, design):
    d = X.shape[1]
    features = CosineMap(d, NormalLaw(1.0), FeatureOptions(paired, design))
    numbers = features.draw(0, 0, m, X.dtype)
    Z = np.empty((TILE // m, m), X.dtype)

    @tiled(TILE // m)
    def work(rows):
        features.transform((rows,), numbers, Z[: len(rows)])

    return in_tiles(X, work)


def numpy_features(X, W, b, with_cosine):
    m = W.shape[1]
    Z = np.empty((TILE // m, m), X.dtype)
    scale = X.dtype.type(np.sqrt(2 / m))

    @tiled(TILE // m)
    def work(rows):
        out = Z[: len(rows)]
        np.matmul(rows, W, out=out)
        if with_cosine:
            out += b
            np.cos(out, out=out)
            out *= scale

    return in_tiles(X, work)


def torch_features(X, W, b):
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    m = W.shape[1]
    rows_of, W, b = torch.from_numpy(X), torch.from_numpy(W), torch.from_numpy(b)
    Z = torch.empty((TILE // m, m))
    scale = float(np.sqrt(2 / m))

    @tiled(TILE // m)
    def work(rows):
        out = Z[: len(rows)]
        torch.addmm(b, rows, W, out=out)
        out.cos_().mul_(scale)

    return in_tiles(rows_of, work)


def speed(d, m):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH, d), np.float32)
    W, b = normals(0, 0, 0, m, d, np.float32), rng.random(m, np.float32)
    count = BATCH * m
    gemm = nanoseconds(numpy_features(X, W, b, with_cosine=False), count)
    ours = {
        "cosines": nanoseconds(mercer_features(X, m, False, "iid"), count),
        "pairs": nanoseconds(mercer_features(X, m, True, "iid"), count),
    }
    fast = nanoseconds(mercer_features(X, m, True, "hadamard"), count) if d >= 16 else None
    torch_run = torch_features(X, W, b)
    return {
        "d": d,
        "m": m,
        "GEMM": gemm,
        "NumPy": nanoseconds(numpy_features(X, W, b, with_cosine=True), count),
        "torch": "-" if torch_run is None else nanoseconds(torch_run, count),
        "mercer, cosines": ours["cosines"],
        "over GEMM": ours["cosines"] / gemm,
        "mercer, pairs": ours["pairs"],
        "mercer, pairs, hadamard": "-" if fast is None else fast,
        "drawing a normal": nanoseconds(lambda: normals(0, 0, 0, m, d, np.float32), m * d),
    }


def rms_error(kernel, X, K, m, design):
    options = {"design": design, "paired": True}
    errors = [
        Z @ Z.T - K for Z in (kernel.random_features(X, m, s, **options) for s in range(DRAWS))
    ]
    return float(np.sqrt(np.mean(np.square(errors))))


def accuracy(d, m):
    X = np.random.default_rng(1).standard_normal((ROWS, d))
    kernel = Gaussian("median").resolve(X)
    K = kernel(X)
    row = {"d": d, "m": m}
    for design in DESIGNS:
        possible = design != "hadamard" or d >= 16
        row[design] = rms_error(kernel, X, K, m, design) if possible else "-"
    row["auto takes"] = kernel._feature_map(d, FeatureOptions(True, "auto"), 0).design
    return row


def main():
    note = (
        f"Nanoseconds of CPU time for each feature, float32, {BATCH} rows; the last column for "
        "each normal number."
    )
    _common.publish("random_features", [speed(d, m) for d, m in SIZES], note)
    note = (
        f"Root mean square error of the Gaussian kernel matrix of {ROWS} standard normal rows, "
        f"length scale = median distance, cosine and sine pairs, {DRAWS} seeds."
    )
    cases = [(d, m) for d in (2, 5, 8, 20, 54, 127, 256) for m in (256, 1024)]
    _common.publish("random_feature_errors", [accuracy(d, m) for d, m in cases], note)


if __name__ == "__main__":
    main()
