"""One run of ``default_learner.py`` or ``suite.py`` in a process of its own: one line of JSON.

python benchmarks/_default_run.py covtype lightgbm --seed 0 --size 0 --cpu-limit 600
"""

from __future__ import annotations

import argparse
import gc
import json
import pickle
import resource
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common  # one thread for BLAS and OpenMP, before numpy reads the variables
import numpy as np

_FIRST_ROWS = 100
_LEAST_WARM_UP_ROWS = 200
_LEAST_PREDICTION_S = 0.05
#: Different rows that are asked one by one, and rounds of so many seconds.
_ROWS_ALONE, _ROUNDS_ALONE, _ROUND_ALONE_S = 100, 5, 0.2
#: What says nothing where other work went on, or nothing was learned before.
_TIMES = (
    *("cpu_s", "wall_s", "rows_per_s", "row_us", "row_proba_us"),
    *("learning_mib", "peak_mib", "first_prediction_s"),
)


def cpu_time() -> float:
    """CPU seconds so far: all threads, and the child processes that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def score(
    model: Any, X: np.ndarray, y: np.ndarray, predicted: np.ndarray, regression: bool
) -> dict[str, float]:
    """What the tables judge; errors in %."""
    if regression:
        return {"mse": float(np.mean((predicted - y) ** 2))}
    found = {"error": 100.0 * float(np.mean(predicted != y))}
    if hasattr(model, "predict_proba"):
        from sklearn.metrics import log_loss

        shares = np.asarray(model.predict_proba(X), dtype=np.float64)
        found["log_loss"] = float(log_loss(y, shares, labels=model.classes_))
    ordered = hasattr(model, "decision_function") or hasattr(model, "predict_proba")
    if ordered and len(model.classes_) == 2 and len(np.unique(y)) == 2:
        from sklearn.metrics import roc_auc_score

        if hasattr(model, "decision_function"):
            scores = model.decision_function(X)
        else:
            scores = model.predict_proba(X)[:, 1]
        found["auc"] = float(roc_auc_score(y == model.classes_[1], np.ravel(scores)))
    return found


def warm_up(method: Any, regression: bool, X: np.ndarray, n_classes: int) -> None:
    """Fit and predict generated rows with as many inputs and classes: imports, compilation.

    No more rows than are learned, but for the least that are enough: short runs stay short.
    """
    rng = np.random.default_rng(0)
    n_rows = max(_LEAST_WARM_UP_ROWS, 2 * n_classes, min(method.warm_up_rows, len(X)))
    rows = rng.standard_normal((n_rows, X.shape[1])).astype(X.dtype)
    y = rng.standard_normal(n_rows) if regression else np.arange(n_rows) % n_classes
    method.make(regression, rows, 0).fit(rows, y).predict(rows)


def first_prediction(make: Any, regression: bool, X: np.ndarray, y: np.ndarray) -> float:
    """Wall seconds from the constructor over the first hundred rows to a prediction."""
    options = {} if regression else {"classes": np.unique(y)}
    start = time.perf_counter()
    model = make(regression, X, 0)
    model.partial_fit(X[:_FIRST_ROWS], y[:_FIRST_ROWS], **options)
    model.predict(X[:1])
    return time.perf_counter() - start


def row_us(ask: Callable[[np.ndarray], Any], X: np.ndarray) -> float:
    """CPU microseconds of a row that is asked alone: the least mean of several rounds.

    A round lasts many ticks of the clock, which may be as coarse as 10 ms.
    """
    rows = [X[place : place + 1] for place in range(min(_ROWS_ALONE, len(X)))]
    ask(rows[0])
    start = time.perf_counter()
    ask(rows[0])
    n = 1 + int(_ROUND_ALONE_S / max(time.perf_counter() - start, 1e-6))
    asked = [rows[place % len(rows)] for place in range(n)]
    return 1e6 * _common.least_cpu_seconds(lambda: [ask(row) for row in asked], _ROUNDS_ALONE) / n


def held_mib(model: Any) -> float:
    """MiB of all arrays that a model holds, each memory once."""
    arrays: dict[int, int] = {}
    seen, left = set(), [model]
    apart = (type, types.ModuleType, types.FunctionType, types.CodeType)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, apart):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray) and one.base is None:
            arrays[id(one)] = one.nbytes
        left += [one.base] if isinstance(one, np.ndarray) else []
        left += gc.get_referents(one)
    return sum(arrays.values()) / 2.0**20


def file_mib(model: Any) -> float:
    """MiB of the file that a model of mercer is saved to."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.mercer"
        model.save(place)
        return place.stat().st_size / 2.0**20


def measure(
    method: Any, split: Any, regression: bool, seed: int, timed: bool = True
) -> dict[str, Any]:
    """Fit and predict, with the clock on.

    Keys of the result with units: ``cpu_s`` and ``wall_s`` of the fit; ``rows_per_s`` predicted,
    per CPU second, and ``row_us`` and ``row_proba_us`` of one that is asked alone, by ``predict``
    and by ``predict_proba``; ``learning_mib``, growth of the resident memory in the fit, at its
    peak; ``peak_mib`` of the process from the fit on; ``pickled_mib``, and of mercer's ``file_mib``
    and ``held_mib``; ``numbers`` that a prediction needs. Nothing is learned before the clock
    starts unless the run is timed.
    """
    learned = split.head(method.cap) if method.cap else split
    X, y, X_test, y_test = learned
    n_classes = 0 if regression else len(np.unique(y))
    if timed:
        warm_up(method, regression, X, n_classes)
    _forget_peak()
    before = _memory("VmRSS")
    wall, start = time.perf_counter(), cpu_time()
    model = method.make(regression, X, seed)
    model.fit(X, y)
    cpu, wall = cpu_time() - start, time.perf_counter() - wall
    growth = max(_memory("VmHWM") - before, 0.0)  # the system counts pages in lots

    start, repeats = cpu_time(), 0
    while repeats == 0 or cpu_time() - start < _LEAST_PREDICTION_S:
        predicted = np.reshape(model.predict(X_test), len(X_test))  # some return a column
        repeats += 1
    predicting = (cpu_time() - start) / repeats
    alone = {"row_us": row_us(model.predict, X_test)}
    if not regression and hasattr(model, "predict_proba"):
        alone["row_proba_us"] = row_us(model.predict_proba, X_test)
    held = {}
    if hasattr(model, "save") and hasattr(model, "partial_fit"):
        held = {"file_mib": file_mib(model), "held_mib": held_mib(model)}
    return {
        "train_rows": len(split.X),
        "learned_rows": len(X),
        "test_rows": len(X_test),
        "inputs": X.shape[1],
        "classes": n_classes,
        **score(model, X_test, y_test, predicted, regression),
        "cpu_s": cpu,
        "wall_s": wall,
        "rows_per_s": len(X_test) / predicting,
        **alone,
        **held,
        "learning_mib": growth,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        "pickled_mib": len(pickle.dumps(model)) / 2.0**20,
        "numbers": int(method.numbers(model)),
    }


def _forget_peak() -> None:
    """Start the peak of the resident memory anew (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _memory(key: str) -> float:
    """A line of the process's status, in MiB (Linux); NaN elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1024.0 for line in lines if line.startswith(key + ":"))


def limit_cpu(seconds: int) -> None:
    """Let the operating system stop this process after so many CPU seconds."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set")
    parser.add_argument("method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=0, help="training rows at most; 0: all")
    parser.add_argument("--cpu-limit", type=int, default=600)
    parser.add_argument("--data", default=None)
    parser.add_argument("--untimed", action="store_true")
    options = parser.parse_args(arguments)
    limit_cpu(options.cpu_limit)
    warnings.simplefilter("ignore")  # of peers, on convergence and the like
    record = {"set": options.set, "method": options.method, "seed": options.seed}
    record["size"] = options.size

    judged = options.method == "mercer"
    if judged:  # before anything else has imported what it needs
        start = time.perf_counter()
        from mercer import KernelClassifier, KernelRegressor  # noqa: F401

        record["import_s"] = time.perf_counter() - start
    import _default_sets
    import _peers

    _peers.one_thread()
    method = _peers.method_of(options.method)
    regression = _default_sets.source_of(options.set).regression
    split = _default_sets.load(
        options.set, options.seed, options.size, _default_sets.data_directory(options.data)
    )
    if judged:
        record["first_prediction_s"] = first_prediction(method.make, regression, split.X, split.y)
    record |= measure(method, split, regression, options.seed, timed=not options.untimed)
    if options.untimed:
        record = {key: found for key, found in record.items() if key not in _TIMES}
    else:
        record["processor"] = _common.environment()["processor"]
    record["version"] = method.version
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
