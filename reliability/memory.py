"""Calls in the middle of which memory runs out, at any allocation that they make.

*How.* A library that is loaded before that of C (`memory.c`) counts the allocations of at least
4 KiB that a call makes: those of arrays, of compiled code, of other libraries. For each of them
there is a run in which it fails; of more than 1,000, so many are drawn. (Not so the buffers of
NumPy's iterators: NumPy itself crashes where there is no memory for them.)

*The promise.* The call ends in MemoryError. The model is as it was, to the last bit of its state,
and answers as before once there is memory again. Or the call succeeds, as what failed was not
needed: the model and what the call gives are those of a run with memory. The process does not die.

To run it (Linux with glibc, and a C compiler):

    python reliability/memory.py                     # long
    python reliability/memory.py --short             # seconds
    python reliability/memory.py --models ranker --calls predict --at 7     # one, with its words
"""

from __future__ import annotations

import copy
import ctypes
import itertools
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np
from numpy._core import _multiarray_umath as multiarray
from threads import MODELS, WIDTH

NO_FAULT = "no fault"
LEAST = 4096  # bytes of allocations that count
ROWS = 400
_rng = np.random.default_rng(5)
X = _rng.standard_normal((ROWS, WIDTH))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]
ASKED = _rng.standard_normal((2000, WIDTH))


def _given(name: str) -> tuple[Any, ...]:
    if name == "novelty":
        return (X,)
    return X, (Y > 0).astype(int) if name.startswith("classifier") else Y


def _save(name: str, model: Any) -> Path:
    path = _rig.scratch() / "saved.mercer"
    model.save(path)
    return path


CALLS: dict[str, Callable[[str, Any], Any]] = {
    "partial_fit": lambda name, model: model.partial_fit(*_given(name)),
    "fit": lambda name, model: model.fit(*_given(name)),
    "predict": lambda name, model: model.predict(ASKED),
    "save": _save,
}


def spare_iterators(memory: Any) -> None:
    """Let the buffers of NumPy's iterators always have memory."""
    path = str(Path(multiarray.__file__).resolve())
    said = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^(\w+) (\w+) t npyiter_allocate_buffers$", said, re.MULTILINE)
    if found is None:
        print("Nothing is tried: this NumPy has no names of its functions.")
        sys.exit(0 if "--short" in sys.argv else 1)
    lines = Path("/proc/self/maps").read_text().splitlines()
    base = int(next(line for line in lines if line.endswith(path)).split("-")[0], 16)
    start, length = (int(digits, 16) for digits in found.groups())
    memory.memory_spare.argtypes = [ctypes.c_size_t] * 2
    memory.memory_spare(base + start, base + start + length)


class Bench:
    """One call of one model, with memory that runs out."""

    def __init__(self, name: str, call: str, memory: Any) -> None:
        self.name, self.memory, self.call = name, memory, CALLS[call]
        self.model = MODELS[name]().fit(*(part[: ROWS // 2] for part in _given(name)))
        self.was, self.answer = _rig.digest(self.model), self.model.predict(ASKED[:5])
        for _ in range(2):  # the first one compiles
            one = copy.deepcopy(self.model)
            memory.memory_arm(LEAST, 0)
            given = self.call(name, one)
            self.n = memory.memory_count()
        self.then, self.given = _rig.digest(one), _bytes(given)

    def run(self, number: int) -> str:
        """Let an allocation fail; how the call ended."""
        model = copy.deepcopy(self.model)
        self.memory.memory_arm(LEAST, number)
        try:
            given = self.call(self.name, model)
            outcome = "done all the same" if self.memory.memory_count() >= number else NO_FAULT
        except MemoryError:
            outcome = "MemoryError"
        except Exception as error:
            if "Memory allocation failed" not in str(error):  # SciPy's words
                raise
            outcome = "MemoryError"
        finally:
            self.memory.memory_arm(LEAST, 0)
        if _rig.digest(model) != (self.was if outcome == "MemoryError" else self.then):
            raise RuntimeError(f"{outcome}: the model is another")
        if outcome != "MemoryError" and _bytes(given) != self.given:
            raise RuntimeError("it gives something else")
        answer = model.predict(ASKED[:5])
        if outcome == "MemoryError" and not np.array_equal(answer, self.answer):
            raise RuntimeError("it answers otherwise")
        if not np.isfinite(np.asarray(answer, np.float64)).all():
            raise RuntimeError("an answer is not finite")
        return outcome


def _bytes(given: Any) -> bytes:
    """What a call gives: bytes of an array or of a file; nothing of a model."""
    if isinstance(given, Path):
        return given.read_bytes()
    return given.tobytes() if isinstance(given, np.ndarray) else b""


def main(arguments: list[str]) -> int:
    """Let memory run out and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=list(CALLS))
    parser.add_argument("--at", type=int)
    options = parser.parse_args(arguments)
    _rig.needs("nm")
    memory = _rig.preloaded("memory.c")
    warnings.simplefilter("ignore")
    spare_iterators(memory)
    both = [f"{name}: {call}" for name, call in itertools.product(MODELS, CALLS)]
    report = _rig.Report("memory", options, names=both)
    for name, call in itertools.product(options.models, options.calls):
        bench = Bench(name, call, memory)
        if options.at is not None:
            print(bench.run(options.at))
            continue
        cases = range(1, bench.n + 1)
        some = random.Random(0).sample(cases, min(bench.n, 2 if options.short else 1000))
        tally = _rig.each_case(bench.run, sorted(some))
        del tally.ended[NO_FAULT]  # the run had fewer allocations
        report.add_tally(f"{name}: {call}", tally, allocations=bench.n)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
