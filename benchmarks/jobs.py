"""Threads: wall seconds of fits and predictions with one job and with two, beside LightGBM.

Both methods get the same rows in the same process, one after the other. Numbers are medians of
several runs. "x" and "times" say how many times faster two jobs are. "same bits" says whether
predictions with one job and with two have the same hash.

"Side by side" is what the machine itself allows: how many times as many fits two processes with one
job each end in the same time as one process alone. Two cores that share memory, caches or a core's
units give less than 2.

The modelled columns are no measurement. They say how many times faster a fit would be on so many
cores. For that the times of all pieces of a fit with one job are laid out on the cores. In this
model nothing fights for memory or for the interpreter.

To run it:

    python benchmarks/jobs.py --repeats 3
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import _common
import numpy as np
from _default_run import cpu_time
from _default_sets import SOURCES, load

SETS = ("california", "protein_casp", "covtype")
MODELLED = (2, 4, 8, 16)


@dataclass
class Piece:
    """What a thread did: alone, and in lists of pieces that others could have done."""

    name: str
    alone: float = 0.0
    lists: list[list[Piece]] = field(default_factory=list)

    @property
    def work(self) -> float:
        return self.alone + sum(piece.work for pieces in self.lists for piece in pieces)

    def seconds(self, cores: int) -> float:
        """On so many cores: each list takes its longest piece, or its share of the work."""
        total = self.alone
        for pieces in self.lists:
            shared = sum(piece.work for piece in pieces) / cores
            total += max(shared, *(piece.seconds(cores) for piece in pieces), 0.0)
        return total


def traced(function) -> Piece:
    """Run a function with one job, and return the tree of its pieces."""
    from mercer import threads as _threads

    open_pieces, since = [Piece("all")], [time.perf_counter()]
    plain = _threads._on_threads

    def pause() -> None:
        now = time.perf_counter()
        open_pieces[-1].alone += now - since[0]
        since[0] = now

    def on_one_thread(work, pieces, n_threads):
        pause()
        mine, results = [], []
        open_pieces[-1].lists.append(mine)
        for item in pieces:
            mine.append(Piece(getattr(work, "__qualname__", "?")))
            open_pieces.append(mine[-1])
            results.append(work(item))
            pause()
            open_pieces.pop()
        return results

    _threads._on_threads = on_one_thread
    try:
        function()
    finally:
        _threads._on_threads = plain
    pause()
    return open_pieces[0]


def alone_by_name(tree: Piece) -> Counter[str]:
    """Seconds outside of any list, by the piece that they are in."""
    found = Counter({tree.name: tree.alone})
    for pieces in tree.lists:
        for piece in pieces:
            found += alone_by_name(piece)
    return found


def mercer_model(regression: bool, jobs: int):
    from mercer import KernelClassifier, KernelRegressor

    return (KernelRegressor if regression else KernelClassifier)(random_state=0, n_jobs=jobs)


def lightgbm_model(regression: bool, jobs: int):
    import lightgbm

    kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    return kind(n_jobs=jobs, verbosity=-1, random_state=0)


def timed(make, regression, split, jobs):
    """Wall and CPU seconds of a fit, wall seconds of predictions, and their hash."""
    model = make(regression, jobs)
    cpu, start = cpu_time(), time.perf_counter()
    model.fit(split.X, split.y)
    fit, cpu = time.perf_counter() - start, cpu_time() - cpu
    start = time.perf_counter()
    predicted = np.ascontiguousarray(model.predict(split.X_test))
    seconds = time.perf_counter() - start
    return fit, cpu, seconds, hashlib.sha256(predicted.tobytes()).hexdigest()


def side_by_side(make, name, directory, repeats) -> float:
    """Median seconds of a fit with one job while another process does the same."""
    start = multiprocessing.get_context("spawn")
    barrier, found = start.Barrier(2), start.Queue()
    told = (make, name, directory, repeats, barrier, found)
    both = [start.Process(target=_beside_another, args=told) for _ in range(2)]
    for process in both:
        process.start()
    seconds = [found.get() for _ in range(2 * repeats)]
    for process in both:
        process.join()
    return float(np.median(seconds))


def _beside_another(make, name, directory, repeats, barrier, found) -> None:
    regression, split = SOURCES[name].regression, load(name, 0, directory=directory)
    make(regression, 1).fit(split.X[:2000], split.y[:2000])
    for _ in range(repeats):
        barrier.wait()
        start = time.perf_counter()
        make(regression, 1).fit(split.X, split.y)
        found.put(time.perf_counter() - start)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=list(SOURCES), metavar="SET")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=None, help="default: MERCER_DATA")
    parser.add_argument("--alone", action="store_true", help="say what only one thread does")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.sets:
        source = SOURCES[name]
        split = load(name, 0, directory=arguments.data)
        for title, make in (("mercer", mercer_model), ("LightGBM", lightgbm_model)):
            make(source.regression, 1).fit(split.X[:2000], split.y[:2000])
            runs = {jobs: [] for jobs in (1, 2)}
            for _ in range(arguments.repeats):
                for jobs, mine in runs.items():
                    mine.append(timed(make, source.regression, split, jobs))
            one, two = (np.median([run[:3] for run in runs[jobs]], axis=0) for jobs in (1, 2))
            cells = {
                "set": name,
                "method": title,
                "fit, 1 job: wall s": one[0],
                "2 jobs": two[0],
                "x": one[0] / two[0],
                "CPU s, 1 job": one[1],
                "2 jobs: CPU s": two[1],
                "predict, 1 job: wall s": one[2],
                "2 jobs: s": two[2],
                "times": one[2] / two[2],
                "same bits": "yes"
                if len({run[3] for r in runs.values() for run in r}) == 1
                else "no",
            }
            beside = side_by_side(make, name, arguments.data, arguments.repeats)
            cells["side by side: x"] = 2.0 * one[0] / beside
            tree = None
            if title == "mercer":
                tree = traced(lambda: make(source.regression, 1).fit(split.X, split.y))
                if arguments.alone:
                    print(alone_by_name(tree).most_common(12))
            for cores in MODELLED:
                cells[f"modelled, {cores} cores: x"] = (
                    "-" if tree is None else tree.work / tree.seconds(cores)
                )
            rows.append(cells)
    _common.publish("jobs", rows)


if __name__ == "__main__":
    main()
