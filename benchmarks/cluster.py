"""Many workers: error against rows, speed and memory at scale, and a model of large clusters.

*Data.* Rows are generated where they are learned. They have 54 columns of float32, five of which
matter. The noise has a standard deviation of 2, which is 29 % of that of the truth.

*Error.* The truth is known. So "error" is the mean squared distance to it on 20,000 other rows,
divided by its variance.

*Stages.* A fit has four stages, whose seconds are columns of the tables. The workers "look" at the
rows. The driver, which is the process that hands out the tasks, makes a "plan" from a sample. The
workers "learn" the rows, and they "solve" the regions of the space.

*Memory.* It is the peak of the resident pages, read twice a second. It is shown for the driver and
for the largest worker, or for all processes. Ray keeps its objects in shared memory. That memory
counts for each process that has looked at it.

*Hash.* Two runs with the same hash made the same predictions, bit for bit.

*Models that make steps* get only the five columns that matter. The error of classes is the share of
answers that differ from those of the truth.

*The model of large clusters* takes the seconds of the largest measured run. Tasks last as long as
they did there, and one in twenty takes twice as long. Messages wait for their bytes. A worker may
die, and its task is then run again.

To run it:

    python benchmarks/cluster.py grow --rows 1e5 1e6 1e7
    python benchmarks/cluster.py scale --rows 1e7 --engine dask
    python benchmarks/cluster.py engines --rows 2e6
    python benchmarks/cluster.py steps --rows 5e5
    python benchmarks/cluster.py simulate
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import heapq
import os
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import _common
import numpy as np
import psutil

N_COLUMNS, NOISE, SHARD = 54, 2.0, 500_000
MEAN = 14.0  # about that of the truth
WORKERS = 2


def truth(X):
    a, b, c, d, e = X[:, :5].T.astype(np.float64)
    waves = 10 * np.sin(2 * np.pi * a * b) + 5 * np.sin(6 * e)
    return waves + 20 * (c - 0.5) ** 2 + 10 * d


def shard(number, n_rows):
    """Rows of a shard: a function of its number alone."""
    rng = np.random.default_rng(number)
    X = rng.random((n_rows, N_COLUMNS), dtype=np.float32)
    return X, truth(X) + NOISE * rng.standard_normal(n_rows)


def shards(n_rows):
    n_shards = max(4, n_rows // SHARD)
    return [partial(shard, number, n_rows // n_shards) for number in range(n_shards)]


def test_rows():
    X = np.random.default_rng(2**40).random((20_000, N_COLUMNS), dtype=np.float32)
    return X, truth(X)


class Memory:
    """Peak resident memory of this process, of the largest child, and of all together."""

    def __init__(self):
        self.driver = self.worker = self.together = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        me = psutil.Process()
        while not self._stop.wait(0.5):
            sizes = []
            for child in me.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    sizes.append(child.memory_info().rss)
            self.driver = max(self.driver, me.memory_info().rss)
            self.worker = max(self.worker, *sizes, 0)
            self.together = max(self.together, me.memory_info().rss + sum(sizes))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()


class Times:
    """When each stage began and ended."""

    def __init__(self):
        self.start, self.stages = time.perf_counter(), {}

    def __call__(self, progress):
        now = time.perf_counter() - self.start
        first, n, _ = self.stages.get(progress.stage, (now - progress.seconds, 0, 0.0))
        self.stages[progress.stage] = first, n + 1, now

    def lasted(self, stage):
        first, _, last = self.stages.get(stage, (0.0, 0, 0.0))
        return last - first

    def between(self, earlier, later):
        return self.stages[later][0] - self.stages[earlier][2]


def fitted(n_rows, engine, n_workers=WORKERS, max_memory=2**30):
    """Fit so many rows; the model and what it took."""
    from mercer import KernelRegressor
    from mercer.expansions import Auto
    from mercer_cluster import fit
    from mercer_cluster.engines import Engine

    times = Times()
    estimator = KernelRegressor(expansion=Auto(max_memory=max_memory), random_state=0)
    counted = {"tasks": 0}
    plain = None
    if isinstance(engine, Engine):
        plain = engine.submit

        def submit(*args, **kwargs):
            counted["tasks"] += 1
            return plain(*args, **kwargs)

        engine.submit = submit
    with Memory() as memory:
        model = fit(
            estimator,
            shards(n_rows),
            engine=engine,
            n_workers=None if plain else n_workers,
            callback=times,
        )
    seconds = time.perf_counter() - times.start
    return model, times, memory, seconds, counted["tasks"]


def described(model, X, f):
    """Error, points, bytes of the file and hash of the predictions."""
    predicted = model.predict(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        model.save(path)
        size = path.stat().st_size
    cells = [part for part in model.learner_.function.components if part.form == "cells"]
    return {
        "error": float(np.mean((predicted - f) ** 2) / f.var()),
        "cells": sum(len(part.cells) for part in cells),
        "points": sum(part.n_points for part in model.learner_.function.components),
        "file, MB": size / 1e6,
        "hash": hashlib.sha256(np.ascontiguousarray(predicted).tobytes()).hexdigest()[:12],
    }


def replace(name, rows, keys):
    """Rows of before, but for those that were measured again."""
    new = {tuple(row[key] for key in keys) for row in rows}
    old = [row for row in _common.published(name) if tuple(row[key] for key in keys) not in new]
    _common.publish(name, sorted([*old, *rows], key=lambda row: [row[key] for key in keys]))


def grow(arguments):
    """Error against rows, beside LightGBM on as many of them as one process holds."""
    X, f = test_rows()
    rows = []
    for wanted in arguments.rows:
        model, _, _, seconds, _ = fitted(int(wanted), arguments.engine, arguments.workers)
        found = described(model, X, f)
        rows.append({"rows": int(wanted), "method": "mercer", "wall s": seconds, **found})
        print(rows[-1], flush=True)
        if wanted <= arguments.peer_rows:
            rows.append(peer(int(wanted), arguments.workers, X, f))
            print(rows[-1], flush=True)
    replace("cluster_grow", rows, ("rows", "method"))


def peer(n_rows, n_workers, X, f):
    """LightGBM with so many threads, 300 rounds of 127 leaves."""
    import lightgbm

    blocks = [make() for make in shards(n_rows)]
    inputs = np.concatenate([x for x, _ in blocks])
    targets = np.concatenate([y for _, y in blocks])
    del blocks
    start = time.perf_counter()
    sizes = {"n_estimators": 300, "num_leaves": 127}
    model = lightgbm.LGBMRegressor(n_jobs=n_workers, verbosity=-1, random_state=0, **sizes)
    model.fit(inputs, targets)
    seconds = time.perf_counter() - start
    predicted = model.predict(X)
    return {
        "rows": n_rows,
        "method": "LightGBM, one process, 300 x 127",
        "wall s": seconds,
        "error": float(np.mean((predicted - f) ** 2) / f.var()),
        "cells": "-",
        "points": "-",
        "file, MB": len(model.booster_.model_to_string()) / 1e6,
        "hash": hashlib.sha256(np.ascontiguousarray(predicted).tobytes()).hexdigest()[:12],
    }


def peer_on_dask(n_rows, n_workers, X, f):
    """LightGBM on Dask, on as many workers of a thread each: 300 rounds of 127 leaves."""
    import dask
    import dask.array as da
    import lightgbm
    from distributed import Client, LocalCluster

    makers = shards(n_rows)
    with (
        Memory() as memory,
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        blocks, n = [dask.delayed(make)() for make in makers], n_rows // len(makers)
        parts = [
            (
                da.from_delayed(block[0], (n, N_COLUMNS), np.float32),
                da.from_delayed(block[1], (n,), np.float64),
            )
            for block in blocks
        ]
        inputs = da.concatenate([part for part, _ in parts])
        targets = da.concatenate([part for _, part in parts])
        sizes = {"n_estimators": 300, "num_leaves": 127}
        start = time.perf_counter()
        model = lightgbm.DaskLGBMRegressor(client=client, verbosity=-1, random_state=0, **sizes)
        model.fit(inputs, targets)
        seconds = time.perf_counter() - start
        predicted = model.to_local().predict(X)
    return {
        "rows": n_rows,
        "engine": "LightGBM on Dask, 300 x 127",
        "workers": n_workers,
        "wall s": seconds,
        "look, s": "-",
        "learn, s": "-",
        "solve, s": "-",
        "driver, MB": memory.driver / 1e6,
        "all processes, MB": memory.together / 1e6,
        "error": float(np.mean((predicted - f) ** 2) / f.var()),
        "hash": hashlib.sha256(np.ascontiguousarray(predicted).tobytes()).hexdigest()[:12],
    }


def scale(arguments):
    """Rows a second, memory, tasks; and the error, among those of `grow`."""
    from mercer_cluster.engines import engine_of

    X, f = test_rows()
    rows, grown = [], []
    for wanted in arguments.rows:
        n = int(wanted)
        with engine_of(arguments.engine, n_workers=arguments.workers) as engine:
            model, times, memory, seconds, tasks = fitted(n, engine, arguments.workers)
        rows.append(
            {
                "rows": n,
                "engine": arguments.engine,
                "workers": arguments.workers,
                "wall s": seconds,
                "rows/s": n / seconds,
                "look, s": times.lasted("survey"),
                "plan, s": times.between("survey", "learn"),
                "learn, s": times.lasted("learn"),
                "solve, s": times.lasted("solve"),
                "tasks": tasks,
                "driver, MB": memory.driver / 1e6,
                "largest worker, MB": memory.worker / 1e6,
                **(found := described(model, X, f)),
            }
        )
        grown.append({"rows": n, "method": "mercer", "wall s": seconds, **found})
        print(rows[-1], flush=True)
    replace("cluster_scale", rows, ("rows", "engine", "workers"))
    replace("cluster_grow", grown, ("rows", "method"))


def engines(arguments):
    """The same shards on every engine: one hash, and what each engine costs."""
    X, f = test_rows()
    rows = []
    for wanted in arguments.rows:
        for name, n_workers in (("here", 1), *((name, WORKERS) for name in arguments.engines)):
            model, times, memory, seconds, _ = fitted(int(wanted), name, n_workers)
            found = described(model, X, f)
            stages = {"look, s": "survey", "learn, s": "learn", "solve, s": "solve"}
            rows.append(
                {
                    "rows": int(wanted),
                    "engine": name,
                    "workers": n_workers,
                    "wall s": seconds,
                    # In one process tasks are done when they are asked for, before any is reported.
                    **{k: "-" if name == "here" else times.lasted(v) for k, v in stages.items()},
                    "driver, MB": memory.driver / 1e6,
                    "all processes, MB": memory.together / 1e6,
                    "error": found["error"],
                    "hash": found["hash"],
                }
            )
            print(rows[-1], flush=True)
        rows.append(peer_on_dask(int(wanted), WORKERS, X, f))
    _common.publish("cluster_engines", rows)


def few_columns(make, classes):
    """The columns of a shard that matter; classes are whether targets are above the mean."""
    X, y = make()
    return X[:, :5], y > MEAN if classes else y


def steps(arguments):
    """What makes steps: on shards, with rows of steps on all workers, and by `fit` in one place.

    Only the five columns that matter are there, so that both find about the same metric. The error
    of classes is the share that differs from those of the truth.
    """
    from sklearn.base import clone

    from mercer import KernelClassifier, KernelRegressor
    from mercer.expansions import Dictionary, RandomFeatures
    from mercer_cluster import fit

    def of(kind, expansion, **more):
        return kind(expansion=expansion, random_state=0, **more)

    block = RandomFeatures(block_size="auto")
    cyclic = RandomFeatures(mode="cyclic")
    models = {
        "Dictionary(1000), Huber": of(KernelRegressor, Dictionary(1000), loss="huber"),
        "Dictionary(1000), logistic": of(KernelClassifier, Dictionary(1000)),
        "RandomFeatures(), squared": of(KernelRegressor, block),
        "RandomFeatures(), logistic": of(KernelClassifier, block),
        'RandomFeatures(mode="cyclic"), logistic': of(KernelClassifier, cyclic),
    }
    X, f = test_rows()
    X, rows = X[:, :5], []
    for wanted in arguments.rows:
        makers = shards(int(wanted))
        for name, estimator in models.items():
            classes = isinstance(estimator, KernelClassifier)
            mine = [partial(few_columns, make, classes) for make in makers]

            def error(model, classes=classes):
                predicted = model.predict(X)
                if classes:
                    return float(np.mean(predicted != (f > MEAN)))
                return float(np.mean((predicted - f) ** 2) / f.var())

            start = time.perf_counter()
            model = fit(estimator, mine, engine=arguments.engine, n_workers=arguments.workers)
            seconds = time.perf_counter() - start
            blocks = [make() for make in mine]
            inputs, targets = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
            start = time.perf_counter()
            whole = clone(estimator).fit(inputs, targets)
            rows.append(
                {
                    "rows": int(wanted),
                    "model": name,
                    f"wall s, {arguments.workers} workers": seconds,
                    "error": error(model),
                    "wall s, fit": time.perf_counter() - start,
                    "error, fit": error(whole),
                }
            )
            print(rows[-1], flush=True)
    replace("cluster_steps", rows, ("rows", "model"))


# -- a model of clusters that are not here ---------------------------------------------------------


def simulated(n_rows, n_workers, per_row, settings, rng, *, deaths=0.0):
    """Seconds of a run on a cluster, event by event.

    Tasks last as long as measured, times a factor that is drawn: one in twenty takes twice as long.
    Every message waits for its bytes; a driver submits one task after the other; a worker dies with
    a probability for each task, which is then run again, half done.
    """
    rows_of_task = settings["rows of a task"]
    n_tasks = -(-n_rows // rows_of_task)
    # The regions of each partition, by the rows and their size alone.
    n_regions = settings["partitions"] * settings["regions"](n_rows)
    row_bytes, bandwidth = settings["bytes of a row"], settings["bytes/s of a worker"]
    clock = 0.0

    def stage(n, seconds):
        nonlocal clock
        free, submitted, end = [clock] * min(n_workers, n), clock, clock
        heapq.heapify(free)
        for _ in range(n):
            submitted += settings["s to submit"]
            begin = max(heapq.heappop(free), submitted)
            lasts = seconds * (2.0 if rng.random() < 0.05 else rng.uniform(0.9, 1.1))
            while rng.random() < deaths:
                begin += 0.5 * lasts + settings["s to replace a worker"]
            end = max(end, begin + lasts)
            heapq.heappush(free, begin + lasts)
        clock = end

    reading = rows_of_task * settings["bytes read of a row"] / bandwidth
    stage(n_tasks, rows_of_task * per_row["look"] + reading)
    clock += settings["s to plan"]
    sending = rows_of_task * row_bytes * settings["partitions"] / bandwidth
    stage(n_tasks, rows_of_task * per_row["learn"] + reading + sending)
    of_region = n_rows * settings["partitions"] / n_regions
    receiving = of_region * row_bytes / bandwidth
    pilots = 3 * settings["partitions"] * 4  # regions that try, each with so many sizes of cells
    stage(pilots, of_region * per_row["solve"] + receiving)
    stage(n_regions, of_region * per_row["solve"] + receiving)
    return clock + settings["s to finish"]


def simulate(arguments):
    """Efficiency of 100 and 1,000 workers, from the largest measured run."""
    from mercer_cluster import Settings

    runs = [row for row in _common.published("cluster_scale") if row["engine"] == "dask"]
    if not runs:
        raise SystemExit("Measure first: python benchmarks/cluster.py scale")
    run = max(runs, key=lambda row: row["rows"])
    n, workers = run["rows"], run["workers"]
    partitions = 2  # what the race chooses at most
    per_row = {name: run[f"{name}, s"] * workers / n for name in ("look", "learn", "solve")}
    per_row["solve"] /= partitions
    finish = run["wall s"] - sum(run[f"{name}, s"] for name in ("look", "plan", "learn", "solve"))
    settings = {
        "rows of a task": 1_000_000,
        "partitions": partitions,
        "regions": lambda rows: Settings().regions_of(rows, N_COLUMNS),
        "bytes of a row": 4 * N_COLUMNS + 16,
        "bytes read of a row": 4 * N_COLUMNS,
        "bytes/s of a worker": 1.25e9 / 8,  # 10 Gbit/s for eight workers of a machine
        "s to submit": 1e-3,
        "s to replace a worker": 10.0,
        "s to plan": run["plan, s"],
        "s to finish": max(finish, 1.0),
    }
    rows = []
    for n_rows in (10**8, 10**9, 10**10, 10**11):
        for n_workers in (100, 1000):
            for deaths in (0.0, 0.001):
                seconds = simulated(
                    n_rows, n_workers, per_row, settings, np.random.default_rng(0), deaths=deaths
                )
                ideal = n_rows * (
                    per_row["look"] + per_row["learn"] + partitions * per_row["solve"]
                )
                moved = n_rows * settings["bytes of a row"] * partitions
                rows.append(
                    {
                        "rows": n_rows,
                        "workers": n_workers,
                        "deaths of 1,000 tasks": 1000 * deaths,
                        "modelled s": seconds,
                        "efficiency": ideal / n_workers / seconds,
                        "rows/s": n_rows / seconds,
                        "GB between workers": moved / 1e9,
                        "regions of a partition": settings["regions"](n_rows),
                    }
                )
    note = (
        f"Modelled from the run of {n:,} rows on {workers} workers: "
        + ", ".join(f"{name} {1e6 * each:.2g} us" for name, each in per_row.items())
        + " a row and core."
    )
    _common.publish("cluster_simulated", rows, note)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    commands = parser.add_subparsers()
    lists = {grow: [1e5, 1e6, 1e7], scale: [1e6, 1e7], engines: [2e6], steps: [5e5]}
    for function, rows in lists.items():
        one = commands.add_parser(function.__name__, help=function.__doc__)
        one.add_argument("--rows", type=float, nargs="+", default=rows)
        one.add_argument("--engine", default="dask")
        one.add_argument("--engines", nargs="+", default=["ray", "dask"])
        one.add_argument("--workers", type=int, default=WORKERS)
        one.add_argument("--peer-rows", type=float, default=1e6)
        one.set_defaults(function=function)
    one = commands.add_parser("simulate", help=simulate.__doc__)
    one.set_defaults(function=simulate)
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parent))  # for the workers
    # Without words all of it.
    lines = [sys.argv[1:]]
    if not sys.argv[1:]:
        lines = [[name] for name in ("engines", "scale", "grow", "steps", "simulate")]
    for line in lines:
        arguments = parser.parse_args(line)
        arguments.function(arguments)


if __name__ == "__main__":
    main()
