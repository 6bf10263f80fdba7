"""Models in several processes: fork, spawn, joblib's workers, and memory that cannot be written.

*A case.* A model has learned some calls. Another process gets it, and makes the next call: after a
fork, while a thread of this process learns something else (also on two threads of mercer's own),
asks the same model, or compiles losses, as the child does then; by a pickle, in a process that
begins anew; by joblib, whose workers see arrays as maps of a file that cannot be written; from a
file, arrays of which are such maps (`joblib.load` with `mmap_mode`), as services do that share a
model's memory. Or the rows are such maps.

*The promise.* The process answers, and both states and answers equal those of one process, to the
last bit. Nobody waits for ever, and who gave the model has it as it was.

To run it (Linux):

    python reliability/processes.py                  # long
    python reliability/processes.py --short          # seconds
"""

from __future__ import annotations

import copy
import faulthandler
import multiprocessing
import os
import pickle
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import _rig  # one thread for BLAS, before numpy reads the variables
import joblib
import threads

from mercer.losses import RegressionLoss

#: How long a process that was forked may be silent.
PATIENCE_S = 20.0


class Ways:
    """How another process makes the next call: each gives digests of state and answers."""

    def __init__(self) -> None:
        method = multiprocessing.get_context("spawn")
        self._spawned = ProcessPoolExecutor(1, mp_context=method)
        self._joblib = joblib.Parallel(n_jobs=2, max_nbytes=1)

    def fork(self, name: str, model: Any, number: int, rng: random.Random) -> tuple[str, str]:
        """A fork at a random moment of another thread's work."""
        reader, writer = os.pipe()
        beside = rng.choice([_another_learns, _is_asked, _losses_compile])
        with beside(model, rng):
            time.sleep(rng.uniform(0.0, 0.02))
            child = os.fork()
            if child == 0:
                _forked(name, model, number, writer, compiles=beside is _losses_compile)
        os.close(writer)
        with os.fdopen(reader) as said:
            words = said.read().split()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if len(words) != 2:
            raise RuntimeError(f"the forked process ended with {code}, without a word")
        return words[0], words[1]

    def spawn(self, name: str, model: Any, number: int, rng: random.Random) -> tuple[str, str]:
        """A pickle for a process that begins anew."""
        return self._spawned.submit(next_call, name, model, number).result()

    def joblib(self, name: str, model: Any, number: int, rng: random.Random) -> tuple[str, str]:
        """Two workers of joblib, which see the arrays of the model as maps."""
        one, two = self._joblib([joblib.delayed(next_call)(name, model, number)] * 2)
        if one != two:
            raise RuntimeError("two workers give two answers")
        return one

    def map(self, name: str, model: Any, number: int, rng: random.Random) -> tuple[str, str]:
        """A model whose arrays are maps that cannot be written."""
        path = _rig.scratch() / "mapped.joblib"
        joblib.dump(model, path)
        return next_call(name, joblib.load(path, mmap_mode="r"), number)

    def rows(self, name: str, model: Any, number: int, rng: random.Random) -> tuple[str, str]:
        """Rows and targets that cannot be written."""
        kept = threads.X, threads.Y, threads.CLASSES, threads.ASKED
        path = _rig.scratch() / "rows.joblib"
        joblib.dump(kept, path)
        mapped = joblib.load(path, mmap_mode="r")
        threads.X, threads.Y, threads.CLASSES, threads.ASKED = mapped
        try:
            return next_call(name, copy.deepcopy(model), number)
        finally:
            threads.X, threads.Y, threads.CLASSES, threads.ASKED = kept

    def end(self) -> None:
        """End the processes."""
        self._spawned.shutdown()


WAYS = ("fork", "spawn", "joblib", "map", "rows")


def next_call(name: str, model: Any, number: int) -> tuple[str, str]:
    """Make a call of a model; the digest of its state after it, and of its answers."""
    threads.learn(name, model, number)
    answers = threads.scores(model)
    return _rig.digest(model), answers


def _forked(name: str, model: Any, number: int, out: int, *, compiles: bool) -> None:
    """Make the call in the forked process and never return."""
    try:
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # says where it waits
        model.set_params(n_jobs=2)
        if compiles:
            _compile_a_loss()
        digest, answers = next_call(name, model, number)
        os.write(out, f"{digest} {answers}".encode())
    finally:
        os._exit(0)


@contextmanager
def _again_and_again(work: Callable[[int], object]) -> Iterator[None]:
    """A thread that works all the time."""
    ended = threading.Event()

    def loop() -> None:
        number = 0
        while not ended.is_set():
            work(number)
            number += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _another_learns(model: Any, rng: random.Random) -> AbstractContextManager[None]:
    """A thread that teaches another model and asks it, on two threads of mercer's own."""
    name = rng.choice(list(threads.MODELS))
    other = threads.MODELS[name]().set_params(n_jobs=2)

    def work(number: int) -> None:
        threads.learn(name, other, number % threads.N_CALLS)
        other.predict(threads.ASKED)

    return _again_and_again(work)


def _is_asked(model: Any, rng: random.Random) -> AbstractContextManager[None]:
    """A thread that asks the same model, which is at rest."""
    return _again_and_again(lambda number: threads.scores(model))


def _losses_compile(model: Any, rng: random.Random) -> AbstractContextManager[None]:
    """A thread that compiles one loss after another."""
    return _again_and_again(lambda number: _compile_a_loss())


def _compile_a_loss() -> None:
    """Compile a loss that nobody has seen before: code is kept by function."""

    class New(RegressionLoss):
        @staticmethod
        def row(target, scores, slopes, value, parameters, n_scores):
            value[0] = 0.0
            for i in range(n_scores):
                slopes[i] = 2.0 * (scores[i] - target[i])
                value[0] += (scores[i] - target[i]) ** 2

    if New().value([1.0], [0.5]).item() != 0.25:
        raise RuntimeError("a wrong loss")


def made(name: str, ways: Ways, way: str, seed: int) -> str:
    """Let another process make a call of a model, and compare with this one."""
    rng = random.Random(f"{name} {way} {seed}")
    model, number = threads.MODELS[name](), rng.randrange(1, threads.N_CALLS)
    for one in range(number):
        threads.learn(name, model, one)
    threads.scores(model)
    before = pickle.dumps(model)
    expected = next_call(name, pickle.loads(before), number)
    found = getattr(ways, way)(name, model, number, rng)
    if found[1] != expected[1]:
        raise RuntimeError(f"{way} after {number} calls: another answer")
    if found[0] != expected[0]:
        raise RuntimeError(f"{way} after {number} calls: another state")
    if pickle.dumps(model) != before:
        raise RuntimeError(f"{way} after {number} calls: the model given is another")
    return "equal"


def main(arguments: list[str]) -> int:
    """Try all ways with all models and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(threads.MODELS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    report, ways = _rig.Report("processes", options, "models", names=WAYS), Ways()
    n = options.rounds or (1 if options.short else 60)
    for way in options.ways:
        tally = _rig.Tally()
        for name in options.models or threads.MODELS:
            for seed in range(n):
                outcome, words = _rig.one(partial(made, name, ways, way), seed)
                tally.add(seed, outcome, words and f"{name}: {words}")
        report.add_tally(way, tally)
    ways.end()
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
