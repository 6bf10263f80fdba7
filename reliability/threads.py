"""One thread learns, eight ask, explain and save; and Ctrl-C in the middle of compiled code.

*Threads.* The answers after each of twenty calls of `partial_fit` are known from a run by one
thread. Then one thread makes the same calls of a `SharedModel`, and eight others predict, explain,
copy, pickle and save it meanwhile, again and again. Each answer must be that of some state between
two calls, to the last bit, and no thread may see an older state than before. Seeds change the
moments.

*Ctrl-C.* A process learns, and gets SIGINT at a random moment of the call, or just after it.
KeyboardInterrupt must come, within a second. The model must be as it was before the call, or as
after it, to the last bit.

To run it (Linux):

    python reliability/threads.py                    # long
    python reliability/threads.py --short            # seconds
"""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import _rig  # one thread for BLAS, before numpy reads the variables
import numpy as np

from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    SharedModel,
    load_model,
)
from mercer.expansions import KOMP, Auto, Budget, Dictionary, RandomFeatures
from mercer.kernels import Gaussian

# It solves again once rows have grown by a tenth: an answer may be that of a somewhat older state.
_SOLVES_LATER = "regressor, default of tables"
KERNEL = Gaussian(1.0)
N_CALLS, ROWS, WIDTH, N_ASKING = 20, 25, 2, 8
#: Latest answer to Ctrl-C; shortly, where other work may be beside, only a hang counts.
LATEST_S, LATEST_SHORT_S = 1.0, 10.0
_rng = np.random.default_rng(0)
X = _rng.standard_normal((N_CALLS * ROWS, WIDTH))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]
CLASSES = (Y > 0).astype(int)
ASKED = _rng.standard_normal((5, WIDTH))
MODELS: dict[str, Callable[[], Any]] = {
    "classifier, default": lambda: KernelClassifier(random_state=0),
    _SOLVES_LATER: lambda: KernelRegressor(expansion=Auto(), random_state=0),
    "classifier, KOMP": lambda: KernelClassifier(kernel=KERNEL, expansion=KOMP(), random_state=0),
    "regressor, budget": lambda: KernelRegressor(
        kernel=KERNEL, expansion=Budget(20, "merge"), random_state=0
    ),
    "regressor, features": lambda: KernelRegressor(
        kernel=KERNEL, expansion=RandomFeatures(64), random_state=0
    ),
    "regressor, dictionary": lambda: KernelRegressor(
        kernel=KERNEL, expansion=Dictionary(30), random_state=0
    ),
    "ranker": lambda: KernelRanker(kernel=KERNEL, expansion=KOMP(), random_state=0),
    "novelty": lambda: NoveltyDetector(0.2, kernel=KERNEL, expansion=KOMP(), random_state=0),
    "Gaussian process": lambda: GaussianProcessRegressor(
        KERNEL, noise=0.05, n_features=24, random_state=0
    ),
}


def learn(name: str, model: Any, number: int) -> None:
    """Make one of the calls."""
    rows = slice(number * ROWS, (number + 1) * ROWS)
    if name == "novelty":
        model.partial_fit(X[rows])
    elif name.startswith("classifier"):
        model.partial_fit(X[rows], CLASSES[rows], classes=[0, 1])
    else:
        model.partial_fit(X[rows], Y[rows])


def _bits(*values: Any) -> str:
    joined = b"".join(np.ascontiguousarray(value).tobytes() for value in values)
    return hashlib.sha256(joined).hexdigest()


def _answers(model: Any) -> str:
    return _bits(model.predict(ASKED))


def scores(model: Any) -> str:
    """Digest of the real-valued answers, or of the only ones."""
    method = next(m for m in ("decision_function", "score_samples", "predict") if hasattr(model, m))
    return _bits(getattr(model, method)(ASKED))


def _pickled(model: Any) -> str:
    return _answers(pickle.loads(pickle.dumps(model)))


def _saved(model: Any) -> str:
    path = _rig.scratch() / f"{threading.get_ident()}.mercer"
    model.save(path)
    return _answers(load_model(path))


def _copied(model: Any) -> str:
    return _answers(copy.deepcopy(model))


def _explained(model: Any) -> str:
    return _bits(model.explain(ASKED[:2], background=ASKED[2:]).contributions)


ASKING: dict[str, Callable[[Any], str]] = {
    "predict": _answers,
    "scores": scores,
    "pickle": _pickled,
    "save": _saved,
    "copy": _copied,
    "explain": _explained,
}


def known(name: str) -> dict[str, list[str]]:
    """Answers after each call, by one thread; each state is asked on a copy."""
    model, found = MODELS[name](), {way: [] for way in ASKING}
    for number in range(N_CALLS):
        learn(name, model, number)
        for way, ask in ASKING.items():
            found[way].append(ask(copy.deepcopy(model)))
    return found


def together(name: str, expected: dict[str, list[str]], seed: int) -> int:
    """Let one thread learn while others ask; how many answers there were."""
    rng, broken, n = random.Random(seed), [], [0]
    model, ended = SharedModel(MODELS[name]()), threading.Event()
    learn(name, model, 0)

    def ask(way: str, waits: list[float]) -> None:
        last = 0
        for wait in waits:
            if ended.is_set():
                return
            time.sleep(wait)
            try:
                answer = ASKING[way](model)
            except Exception as error:
                broken.append(f"{way}: {type(error).__name__}: {error}")
                return
            places = [place for place, one in enumerate(expected[way]) if one == answer]
            if not places:
                broken.append(f"{way}: an answer of no state")
            elif places[-1] < last:
                broken.append(f"{way}: an older state than before")
            else:
                last = max(last, places[0])
            n[0] += 1

    threads = []
    for number in range(N_ASKING):
        way, waits = list(ASKING)[number % len(ASKING)], [rng.uniform(0, 2e-3) for _ in range(500)]
        threads.append(threading.Thread(target=ask, args=(way, waits)))
    for thread in threads:
        thread.start()
    for number in range(1, N_CALLS):
        learn(name, model, number)
        time.sleep(rng.uniform(0, 2e-3))
    ended.set()
    for thread in threads:
        thread.join()
    if broken:
        raise RuntimeError("; ".join(sorted(set(broken))[:3]))
    last = expected["predict"] if name == _SOLVES_LATER else expected["predict"][-1:]
    if _answers(model) not in last:
        raise RuntimeError("the model at the end is another")
    return n[0]


def interrupted(name: str, seed: int, latest_s: float = LATEST_S) -> str:
    """Send SIGINT at a random moment of a long call; when it came, and what the model was."""
    rng = random.Random(seed)
    rows = np.random.default_rng(1).standard_normal((4000, WIDTH))
    targets = np.sin(rows[:, 0])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _be_interrupted(name, rows, targets, writer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        seconds = float(said.readline())  # that the call takes, which begins
        time.sleep(rng.uniform(0.0, min(seconds, 0.3)))
        sent = time.monotonic()
        os.kill(child, signal.SIGINT)
        words = said.read().split(maxsplit=1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not words:
        raise RuntimeError(f"it died without a word, status {status}")
    came, outcome = float(words[0]), words[1]
    if outcome == "broken":
        raise RuntimeError("the model is neither as before nor as after the call")
    if outcome == "lost":
        raise RuntimeError("Ctrl-C was lost")
    if outcome == "interrupted" and came - sent > latest_s:
        raise RuntimeError(f"KeyboardInterrupt came after {came - sent:.1f} s")
    return outcome


def _be_interrupted(name: str, rows: np.ndarray, targets: np.ndarray, out: int) -> None:
    y = (targets > 0).astype(int) if name.startswith("classifier") else targets
    given = (rows,) if name == "novelty" else (rows, y)
    model = MODELS[name]()
    learn(name, model, 0)
    before = scores(copy.deepcopy(model))
    began = time.monotonic()
    after = scores(copy.deepcopy(model).partial_fit(*given))
    lasts = time.monotonic() - began
    outcome = "interrupted"
    try:
        os.write(out, f"{lasts}\n".encode())
        model.partial_fit(*given)
        outcome = "interrupted after the call"
        time.sleep(LATEST_SHORT_S)
        outcome = "lost"
    except KeyboardInterrupt:
        pass
    came = time.monotonic()
    if scores(model) not in (before, after):
        outcome = "broken"
    os.write(out, f"{came} {outcome}".encode())


def main(arguments: list[str]) -> int:
    """Run both and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    n = options.rounds or (1 if options.short else 50)
    latest = LATEST_SHORT_S if options.short else LATEST_S
    report = _rig.Report("threads", options, names=MODELS)
    for name in options.models:
        expected = known(name)
        tally, answers = _rig.Tally(), 0
        for seed in range(n):

            def run(seed: int) -> str:
                nonlocal answers
                answers += together(name, expected, seed)
                return "states"

            tally.add(seed, *_rig.one(run, seed))
        for seed in range(n):
            tally.add(seed, *_rig.one(lambda seed: interrupted(name, seed, latest), seed))
        report.add_tally(name, tally, answers=answers)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
