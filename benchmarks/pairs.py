"""Cost of a row of pairwise learning, one at a time, against the model order.

The rows are generated (two classes, a tenth positive) or those of two real sets. All settings are
the defaults, but for the largest number of points.

Beside it stands *pointwise*: the classifier of single rows, with the same kernel, expansion, batch
size and steps. The aim was at most 25 microseconds a row, at 200 points and up to 40 inputs.

With pair kernels of second order the function is a matrix on the dictionary, which a step
multiplies by a vector about a dozen times. For "mlpk" there is one more product for each partner.
"""

from __future__ import annotations

import _common
import defaults
import numpy as np

from mercer import KernelClassifier, KernelRanker
from mercer.expansions import KOMP, Budget, Full
from mercer.schedules import PowerDecay, Relative

N, REPEATS = 20_000, 3
FEW, ORDER = slice(2_000), 100
MATRICES = {
    "KOMP": KOMP(tolerance=1e-4, max_size=ORDER),
    "Budget, project": Budget(ORDER, "project"),
    "Budget, remove": Budget(ORDER, "remove"),
    "Full": Full(max_size=ORDER),
}


def generated(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, d))
    f = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.5 * rng.standard_normal(N)
    return X, (f > np.quantile(f, 0.9)).astype(np.int64)


def real(name):
    X, y, *_ = defaults.load(name)
    return X[:N], y[:N]


def microseconds(model, X, y):
    model.fit(X[:500], y[:500])  # compile
    return 1e6 * _common.least_cpu_seconds(lambda: model.fit(X, y), REPEATS) / len(X)


def matrices():
    X, y = generated(10)
    rows = []
    for pair_kernel, label in {
        "product": "sign",
        "antisymmetric": "sign",
        "symmetric": "same",
        "mlpk": "same",
    }.items():
        row = {"pair kernel": pair_kernel}
        for name, expansion in MATRICES.items():
            model = KernelRanker(
                expansion=expansion, pair_kernel=pair_kernel, pair_label=label, random_state=0
            )
            row[f"{name}, µs"] = microseconds(model, X[FEW], y[FEW])
            assert model.model_order_ == ORDER
        rows.append(row)
        print(row, flush=True)
    _common.publish("pair_matrices", rows)


def main():
    matrices()
    cases = [(f"generated, {d} inputs", generated(d), m) for d in (10, 40) for m in (50, 100, 200)]
    cases += [("generated, 10 inputs", generated(10), 400)]
    cases += [(name, real(name), 200) for name in ("ijcnn1", "adult")]
    rows = []
    for name, (X, y), max_size in cases:
        expansion = KOMP(tolerance=1e-4, max_size=max_size)
        ranker = KernelRanker(expansion=expansion, random_state=0)
        pointwise = KernelClassifier(  # with a kernel of its own it would race for a map first
            "logistic",
            kernel="gaussian",
            expansion=expansion,
            regularization=0,
            batch_size=1,
            average=None,
            step_size=Relative(PowerDecay(4.0)),
            random_state=0,
        )
        rows.append(
            {
                "rows": name,
                "points": max_size,
                "pairs, µs": microseconds(ranker, X, y),
                "pointwise, µs": microseconds(pointwise, X, y),
                "path": ranker.learner_.function.promoted or "inverse",
            }
        )
        print(rows[-1], flush=True)
    _common.publish("pairs", rows)


if __name__ == "__main__":
    main()
