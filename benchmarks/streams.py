"""Streams, test-then-train: each row is answered before it is learned, one thread.

Real streams in the order of their files, and generated ones whose changes are known: labels of
random centres that are drawn anew (abrupt), drawn with rising probability by the next concept
(gradual), a plane that turns (incremental), two concepts in turns (recurring), none (still). "last
label" answers with the label of the row before, which beats much where labels come in runs. mercer
gets rows as they are; so do peers that need no scaling, all others behind River's StandardScaler.

    python benchmarks/streams.py --rows 20000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common
import numpy as np
from _default_sets import SOURCES, data_directory

from mercer import KernelClassifier
from mercer.streams import Mixture

REAL = ("elec2_order", "covtype")


def centres(rng, X, n_centres=50):
    """Labels -1 and +1 of the nearest of some centres, drawn anew."""
    places, labels = rng.normal(size=(n_centres, X.shape[1])), rng.choice([-1.0, 1.0], n_centres)
    return labels[((X[:, np.newaxis] - places) ** 2).sum(axis=2).argmin(axis=1)]


def generated(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    if name == "still":
        return X, centres(rng, X)
    if name == "abrupt":
        return X, np.concatenate([centres(rng, part) for part in np.array_split(X, 4)])
    if name == "gradual":
        chance = np.clip((np.arange(n) / n - 0.35) / 0.3, 0.0, 1.0)
        return X, np.where(rng.random(n) < chance, centres(rng, X), centres(rng, X))
    if name == "incremental":
        normals = np.cumsum(0.01 * rng.normal(size=(n, 10)), axis=0) + rng.normal(size=10)
        return X, np.sign(np.sum(X * normals, axis=1) + 0.1 * rng.normal(size=n))
    first = np.sign(X[:, 0] * X[:, 1] + 0.3 * X[:, 2])
    second = np.sign(np.sin(2.0 * X[:, 3]) + X[:, 0])
    return X, np.where((8 * np.arange(n) // n) % 2 == 0, first, second)


GENERATED = ("still", "abrupt", "gradual", "incremental", "recurring")


def rows_of(name: str, n: int, directory: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in their order, and labels -1 and +1."""
    if name in GENERATED:
        return generated(name, n)
    source = SOURCES[name]
    table = source.read(data_directory() if directory is None else directory)
    X, y = np.asarray(table.X[:n], dtype=np.float64), np.asarray(table.y[:n])
    return np.ascontiguousarray(X), np.where(y == np.max(y), 1.0, -1.0)


def last_label(X, y):
    return np.concatenate([[1.0], y[:-1]])


def mixture(X, y):
    f, values = Mixture(X.shape[1], 1, is_class=True), np.empty(len(y))
    for t, x in enumerate(X):
        values[t] = f.values(x)[0]
        f.learn(x, y[t : t + 1])
    return values


def steps(average):
    def course(X, y):
        model = KernelClassifier(expansion="komp", average=average, random_state=0)
        values = np.zeros(len(y))
        model.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0])
        for t in range(1, len(y)):
            values[t] = model.predict_one(X[t])
            model.learn_one(X[t], y[t])
        return values

    return course


def river(make: Callable[[], Any], *, scale: bool):
    def course(X, y):
        from river import preprocessing

        model: Any = make()
        if scale:
            model = preprocessing.StandardScaler() | model
        values = np.empty(len(y))
        for t, row in enumerate(X):
            x = dict(enumerate(row.tolist()))
            values[t] = 1.0 if model.predict_one(x) else -1.0
            model.learn_one(x, bool(y[t] > 0.0))
        return values

    return course


def methods() -> dict[str, Callable[[Any, Any], Any]]:
    from river import ensemble, forest, linear_model, neighbors, tree

    return {
        "last label": last_label,
        "mercer, ways side by side": mixture,
        "mercer, KOMP, last iterate": steps(None),
        "mercer, KOMP, averages": steps("suffix"),
        "River, adaptive random forest": river(lambda: forest.ARFClassifier(seed=0), scale=False),
        "River, streaming random patches": river(
            lambda: ensemble.SRPClassifier(seed=0, n_models=10), scale=False
        ),
        "River, Hoeffding adaptive tree": river(
            lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0), scale=False
        ),
        "River, kNN of 1000 rows": river(neighbors.KNNClassifier, scale=True),
        "River, logistic regression": river(linear_model.LogisticRegression, scale=True),
    }


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rows", type=int, default=20_000, help="of each stream, at most")
    parser.add_argument("--streams", nargs="+", default=[*REAL, *GENERATED])
    parser.add_argument("--methods", nargs="+", default=None, help="parts of their names")
    parser.add_argument("--data", type=Path, default=None, help="default: MERCER_DATA")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.streams:
        X, y = rows_of(name, arguments.rows, arguments.data)
        for title, course in methods().items():
            if arguments.methods and not any(part in title for part in arguments.methods):
                continue
            course(X[:200], y[:200])  # compiles
            start = time.process_time()
            right = np.sign(course(X, y)) == y
            seconds = time.process_time() - start
            rows.append(
                {
                    "stream": name,
                    "method": title,
                    "rows": len(y),
                    "right, %": 100.0 * float(right.mean()),
                    "first 500": 100.0 * float(right[:500].mean()),
                    "last quarter": 100.0 * float(right[-len(y) // 4 :].mean()),
                    "rows / CPU s": len(y) / max(seconds, 1e-9),
                }
            )
            print(rows[-1], flush=True)
    _common.publish("streams", rows)


if __name__ == "__main__":
    main()
