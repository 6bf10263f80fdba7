"""Cost of one POLK mini-batch of 32 rows against the model order, beside simpler ways to do it.

The model order M is the number of points. A row is active if its loss makes it a new point.

"32 active" is the worst case. All rows are active, and as many points are removed as were added
(``KOMP`` at its cap). "8 active" is the usual case late in a run.

There are two simpler ways. "rank-one NumPy" grows and shrinks the inverse by one point at a time.
"naive" solves a least-squares problem for each point that could be removed. It is too slow to
measure, so the time of one problem is multiplied.

Only mercer's columns contain the time to evaluate the kernel.
"""

from __future__ import annotations

import _common
import numpy as np

from mercer.expansions import KOMP
from mercer.functions import KernelExpansion
from mercer.kernels import Gaussian

BATCH = 32
ORDERS = {2: (16, 200, 1000), 784: (16, 200, 1000, 2300)}


def points(rng, n, d, dtype):
    """Rows far enough apart for a well-conditioned Gram matrix at length scale 1."""
    spread = 12.0 * np.sqrt(n / 1000) if d == 2 else 0.06
    return (spread * rng.standard_normal((n, d))).astype(dtype)


def expansion(rng, order, d, dtype, n_outputs):
    f = KernelExpansion(Gaussian(1.0), KOMP(tolerance=0.0, max_size=order), d, n_outputs, dtype)
    f.add(points(rng, order, d, dtype), rng.standard_normal((order, n_outputs)), 0.0)
    return f


def mercer_step(f, X, coefficients):
    f.current(X)
    f.shrink(1.0 - 1e-6)
    f.add(X, coefficients, 0.0)


def rank_one_step(state, rows, gram, coefficients, order):
    """Textbook way: grow and shrink the explicit inverse by one point at a time, in NumPy."""
    P, W = state
    n = len(P)
    for i in range(len(rows)):
        k = np.concatenate([rows[i], gram[i, :i]])
        b = P @ k
        s = gram[i, i] - k @ b
        P = np.block([[P + np.outer(b, b) / s, -b[:, None] / s], [-b[None] / s, 1.0 / s]])
        P = P.astype(rows.dtype, copy=False)
        W = np.vstack([W, coefficients[i : i + 1]])
    while len(P) > order:
        j = int(np.argmin((W**2).sum(axis=1) / np.diag(P)))
        column = P[:, j] / P[j, j]
        W = np.delete(W - np.outer(column, W[j]), j, axis=0)
        P = np.delete(np.delete(P - np.outer(column, P[j]), j, axis=0), j, axis=1)
    return P[:n, :n], W[:n]


def naive_seconds(gram, coefficients):
    """One candidate of the printed algorithm (a least-squares solve); the rest is multiplied."""
    n = len(gram)
    keep = np.arange(1, n)
    right = gram[keep] @ coefficients

    def once():
        np.linalg.lstsq(gram[np.ix_(keep, keep)], right, rcond=None)

    candidates = sum(range(n - BATCH + 1, n + 1))
    return _common.least_cpu_seconds(once, 2) * candidates


def case(d, dtype, order):
    rng = np.random.default_rng(0)
    n_outputs = 10 if d == 784 else 5
    f = expansion(rng, order, d, dtype, n_outputs)
    repeats = 60 if order <= 200 else 12
    times = {}
    for name, active in (("32 active", 32), ("8 active", 8)):
        costs = []
        for _ in range(repeats):
            X = points(rng, BATCH, d, dtype)
            coefficients = rng.standard_normal((BATCH, n_outputs))
            coefficients[active:] = 0.0
            costs.append(_common.cpu_seconds(lambda: mercer_step(f, X, coefficients))[0])
        times[name] = 1e3 * float(np.median(costs))
    X = points(rng, BATCH, d, dtype)
    D = f.dictionary
    gram, rows, new = f.kernel(D), f.kernel(X, D), f.kernel(X)
    coefficients = rng.standard_normal((BATCH, n_outputs))
    state = np.linalg.inv(gram), f.coefficients
    rank_one = _common.least_cpu_seconds(
        lambda: rank_one_step(state, rows, new, coefficients, order), 3 if order <= 200 else 1
    )
    naive = None
    if order <= 200:
        whole = np.block([[gram, rows.T], [rows, new]])
        naive = naive_seconds(whole, np.vstack([f.coefficients, coefficients]))
    return {
        "d": d,
        "type": np.dtype(dtype).name,
        "M": order,
        "mercer, 32 active (ms)": times["32 active"],
        "mercer, 8 active (ms)": times["8 active"],
        "rank-one NumPy (ms)": 1e3 * rank_one,
        "naive, extrapolated (ms)": "-" if naive is None else 1e3 * naive,
        "path": f.promoted or "explicit inverse",
    }


def main():
    rows = [
        case(d, dtype, order)
        for d in (784, 2)
        for dtype in (np.float64, np.float32)
        for order in ORDERS[d]
    ]
    _common.publish("step_cost", rows)


if __name__ == "__main__":
    main()
