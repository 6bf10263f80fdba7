"""Rows per CPU second on streams: one row at a time, and in batches of 32.

There are two ways to learn row by row. ``learn_one`` is one Python call for each row. A single call
of ``partial_fit`` with ``batch_size=1`` gets many rows. There, too, each row is a step of its own,
but all steps run in one compiled loop.

The peer is scikit-learn's linear SGDClassifier on 1,000 random features. It is updated by the same
calls.

The table of single calls also has the default of streams. Its rows are answered and then learned.
What was found for the answer is used again for learning.

To run it:

    python benchmarks/throughput.py --calls    # the table of single calls only
    python benchmarks/throughput.py --answers  # prints what fitted defaults take for an answer
"""

from __future__ import annotations

import argparse
import sys

import _common
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP, Budget, Stream
from mercer.kernels import Gaussian

N = 200_000


def stream(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, d))
    return X, (np.sin(X[:, 0]) + X[:, 1] > 0).astype(np.int64)


def model(d, expansion, batch_size):
    if isinstance(expansion, Stream):
        return KernelClassifier(expansion=expansion)
    step = 0.5 if batch_size == 1 else "auto"
    return KernelClassifier(
        kernel=Gaussian(np.sqrt(d)), expansion=expansion, batch_size=batch_size, step_size=step
    )


def in_one_call(d, expansion, batch_size):
    X, y = stream(d)
    m = model(d, expansion, batch_size).partial_fit(X[:2000], y[:2000])
    seconds, _ = _common.cpu_seconds(lambda: m.partial_fit(X, y))
    return N / seconds, m.model_order_, float(m.score(X[:5000], y[:5000]))


def arithmetic_of_one_row(m, X, y):
    """Microseconds of the compiled work per row, without a Python call for each."""
    seconds = _common.least_cpu_seconds(lambda: m.partial_fit(X, y), 3)
    return 1e6 * seconds / len(X)


def row_calls(d, expansion, n=20_000):
    X, y = stream(d)
    m = model(d, expansion, 1).partial_fit(X[:20_000], y[:20_000])

    def learn():
        for i in range(n):
            m.learn_one(X[i], y[i])

    def predict():
        for i in range(n):
            m.predict_one(X[i])

    def both():
        for i in range(n):
            m.predict_one(X[i])
            m.learn_one(X[i], y[i])

    learn(), predict()
    inside = arithmetic_of_one_row(m, X[:n], y[:n])
    microseconds = [1e6 * _common.least_cpu_seconds(what, 3) / n for what in (learn, predict, both)]
    return *microseconds, inside, m.model_order_


def peer(d, batch_size, n):
    X, y = stream(d)
    features = RBFSampler(gamma=1 / (2 * d), n_components=1000, random_state=0).fit(X[:1])
    linear = SGDClassifier(loss="log_loss", random_state=0)

    def run():
        for start in range(0, n, batch_size):
            block = slice(start, start + batch_size)
            linear.partial_fit(features.transform(X[block]), y[block], classes=(0, 1))

    return n / _common.cpu_seconds(run)[0], float(
        linear.score(features.transform(X[:5000]), y[:5000])
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="only one row per Python call")
    parser.add_argument("--answers", action="store_true", help="only rows that defaults answer")
    options = parser.parse_args()
    if options.answers:
        answers()
        return
    if not options.calls:
        throughput()
    calls()


def throughput():
    rows = []
    for d, expansion, batch in (
        (2, KOMP(tolerance=0.1), 1),
        (10, KOMP(max_size=32), 1),
        (10, KOMP(tolerance=0.2), 1),
        (10, Budget(32, "project"), 1),
        (10, Budget(32, "merge"), 1),
        (10, KOMP(max_size=32), 32),
        (10, KOMP(tolerance=0.2), 32),
    ):
        speed, order, accuracy = in_one_call(d, expansion, batch)
        rows.append(
            {
                "learner": repr(expansion),
                "d": d,
                "rows per step": batch,
                "rows / CPU s": speed,
                "model order": order,
                "accuracy": accuracy,
            }
        )
    for batch, n in ((1, 3000), (32, 64_000)):
        speed, accuracy = peer(10, batch, n)
        rows.append(
            {
                "learner": "peer: RBFSampler(1000) + SGDClassifier",
                "d": 10,
                "rows per step": batch,
                "rows / CPU s": speed,
                "model order": 1000,
                "accuracy": accuracy,
            }
        )
    _common.publish("throughput", rows)


def answers(n=5000, d=20):
    """Print microseconds a row, alone and in batches, that the default of tables answers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * n, d))
    f = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(2 * n)
    numbers = KernelRegressor(random_state=0, n_jobs=1).fit(X[:n], f[:n])
    classes = KernelClassifier(random_state=0, n_jobs=1).fit(X[:n], f[:n] > 0)
    rows = []
    for name, ask in (
        ("KernelRegressor.predict", numbers.predict),
        ("KernelClassifier.predict", classes.predict),
        ("KernelClassifier.predict_proba", classes.predict_proba),
    ):
        found: dict[str, object] = {"call": name}
        for size in (1, 10, 100, n):
            some = X[n : n + size]
            calls = max(1, 200 // size)
            ask(some)
            seconds = _common.least_cpu_seconds(lambda: [ask(some) for _ in range(calls)], 5)
            found[f"{size:,} rows (µs a row)"] = 1e6 * seconds / calls / size
        rows.append(found)
    sys.stdout.write(_common.markdown(rows) + "\n")


def calls():
    rows = []
    for d, expansion in ((2, KOMP(tolerance=0.1)), (10, KOMP(max_size=32)), (10, Stream())):
        learning, predicting, both, inside, order = row_calls(d, expansion)
        rows.append(
            {
                "learner": repr(expansion),
                "d": d,
                "model order": order,
                "learn_one (µs)": learning,
                "compiled work per row (µs)": inside,
                "overhead of the call (µs)": learning - inside,
                "predict_one (µs)": predicting,
                "predict_one, then learn_one (µs)": both,
            }
        )
    _common.publish("row_calls", rows)


if __name__ == "__main__":
    main()
