"""Streams without end: memory and the cost of a row stay flat, and counters do not overflow.

*Length.* Rows come in pieces. After each tenth of them the memory of the process is read, and what
a row costs. In the middle the model is saved and loaded. Both learn up to 30,000 rows more, and
must then be alike, to the last bit of their states. A run of hours may be made in parts: with
``--go-on FOLDER`` each run begins with the model at which the last one ended, as after a restart.
Memory is then compared with that of the first run; the cost of a row with the beginning of the same
run, as machines are not equally fast each day. Random features visit four blocks again and again
(mode "cyclic"): in the other modes each step draws a new block, as in the paper.

*Counters.* All numbers in a model that are that of its rows are set to just below 2^31 and 2^53, as
after years. It then learns past these, is saved, loaded, and learns more.
No counter may fall, that of rows must be larger by the rows, and all answers finite. (Not so the
default of tables, whose counters belong to the weights in its sums.)

To run it (Linux):

    python reliability/length.py                     # long: 100,000,000 rows for each model
    python reliability/length.py --short             # some thousands
    python reliability/length.py --models "default of streams" --rows 25000000 --go-on parts
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np

from mercer import KernelClassifier, KernelRanker, KernelRegressor, load_model
from mercer.expansions import KOMP, Auto, RandomFeatures
from mercer.kernels import Gaussian

KERNEL, WIDTH, PIECE = Gaussian(1.0), 3, 5_000
#: Growth that counts as flat: of memory after a fifth of the rows, and of what a row costs.
GROWTH, DEARER = 1.05, 1.5
_ALIKE = 6  # pieces that a model from a file learns beside the one that was saved
_FEW = 400  # pieces up to which growth says nothing
_COUNTERS = "{}: counters at 2^31, 2^53"
_MEMORY, _COST = "memory at the end / after a fifth", "cost of a row, last / first"
MODELS: dict[str, Callable[[], Any]] = {
    "default of tables": lambda: KernelClassifier(expansion=Auto(), random_state=0),
    "default of streams": lambda: KernelClassifier(random_state=0),
    "KOMP": lambda: KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=100), random_state=0),
    "random features": lambda: KernelRegressor(
        kernel=KERNEL,
        expansion=RandomFeatures(128, mode="cyclic", max_blocks=4),
        random_state=0,
    ),
    "ranker": lambda: KernelRanker(kernel=KERNEL, expansion=KOMP(max_size=100), random_state=0),
}
#: Rows of one call, where it is not a piece: a first call of few begins a stream.
CALLS = {"default of streams": 100}


def rows(name: str, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A piece of the stream; the law drifts slowly."""
    rng = np.random.default_rng([7, number])
    X = rng.standard_normal((n, WIDTH))
    y = np.sin(2.0 * X[:, 0]) + np.cos(1e-3 * number) * X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, (y > 0).astype(int) if name.startswith("default") else y


def learn(name: str, model: Any, number: int, n: int) -> None:
    """Learn a piece."""
    X, y = rows(name, number, n)
    step = CALLS.get(name, n)
    more = {"classes": [0, 1]} if name.startswith("default") else {}
    for at in range(0, n, step):
        model.partial_fit(X[at : at + step], y[at : at + step], **more)


def memory_mib() -> float:
    """Memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def lengthened(name: str, n_pieces: int, folder: Path | None) -> dict[str, Any]:
    """Learn many pieces; what the table says of it, and of earlier parts in the folder."""
    model, before = _begun(name, folder)
    asked, seen, broken = rows(name, 10**9, 50)[0], [], []
    began, tenth, middle = time.process_time(), max(n_pieces // 10, 1), n_pieces // 2
    for at in range(n_pieces):
        number = before["cases"] // PIECE + at
        learn(name, model, number, PIECE)
        if at == middle:
            after = range(number + 1, number + 1 + min(_ALIKE, n_pieces - middle))
            model.predict(asked)  # what was put off is learned before both go on
            alike = _rig.each_case(partial(_goes_on, name, model, after), [number])
            broken += [words for _, words in alike.broken]
        if (at + 1) % tenth == 0:
            model.predict(asked)
            seen.append((memory_mib(), (time.process_time() - began) / tenth / PIECE))
            began = time.process_time()
    if not np.isfinite(np.asarray(model.predict(asked), np.float64)).all():
        broken.append("an answer is not finite")
    settled = seen[2:] or seen
    first = before.get("first", settled[0][0])
    grown = settled[-1][0] / first
    dearer = np.mean([cost for _, cost in settled[-3:]]) / np.mean([c for _, c in settled[:3]])
    if n_pieces > _FEW:  # few rows: caches and races are what grows
        broken += ["memory grows"] if grown > GROWTH else []
        broken += ["rows cost more and more"] if dearer > DEARER else []
    row = {
        "what": name,
        "cases": before["cases"] + n_pieces * PIECE,
        "broken": before["broken"] + len(broken),
        _MEMORY: max(before.get(_MEMORY, 0.0), float(grown)),
        _COST: max(before.get(_COST, 0.0), float(dearer)),
        "how they ended": "; ".join([*before["words"], *broken]) or "flat",
    }
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        model.save(_part(name, folder))
        kept = row | {"first": first, "words": [*before["words"], *broken]}
        _part(name, folder).with_suffix(".json").write_text(json.dumps(kept))
    return row


def _part(name: str, folder: Path) -> Path:
    return folder / f"{name.replace(' ', '_')}.mercer"


def _begun(name: str, folder: Path | None) -> tuple[Any, dict[str, Any]]:
    """The model that an earlier part left, or a new one, and what the table says so far."""
    if folder is None or not _part(name, folder).exists():
        return MODELS[name](), {"cases": 0, "broken": 0, "words": []}
    said = json.loads(_part(name, folder).with_suffix(".json").read_text())
    return load_model(_part(name, folder)), said


def _goes_on(name: str, model: Any, numbers: range, case: int) -> str:
    """Let a model and the one from its file learn on, in a child process, and compare them."""
    path = _rig.scratch() / "middle.mercer"
    model.save(path)
    both = model, load_model(path)
    for one in both:
        for number in numbers:
            learn(name, one, number, PIECE)
        one.predict(rows(name, 10**9, 50)[0])
    if _rig.digest(both[0]) != _rig.digest(both[1]):
        raise RuntimeError(f"the model from the file is another after piece {case}")
    return "alike"


def counted(name: str, start: int) -> str:
    """Set the counters of a model, and let it learn past them."""
    model = MODELS[name]()
    for number in range(2):
        learn(name, model, number, 500)
    asked = rows(name, 10**9, 20)[0]
    model.predict(asked)
    before = model.learner_.to_state(whole=True)
    seen = int(model.learner_.n_samples)
    counters: list[tuple[Any, ...]] = []
    moved = _moved(before, {seen}, start - seen - 250, (), counters)
    model.learner_.restore(moved)
    path = _rig.scratch() / "counters.mercer"
    for number in range(2, 4):
        learn(name, model, number, 500)
        model.predict(asked)
        model.save(path)
        model = load_model(path)
    after = model.learner_.to_state(whole=True)
    grown = 0
    for place in counters:
        first, last = _at(moved, place), _at(after, place)
        grown += last - first == 1_000
        if not first <= last <= first + 2_000:
            raise RuntimeError(f"{'/'.join(map(str, place))}: {first:,} became {last:,}")
    if not grown:
        raise RuntimeError("no counter grew by the rows")
    if not np.isfinite(np.asarray(model.predict(asked), np.float64)).all():
        raise RuntimeError("an answer is not finite")
    return f"{len(counters)} counters"


def _moved(
    state: Any, values: set[int], by: int, place: tuple[Any, ...], found: list[tuple[Any, ...]]
) -> Any:
    """A state with larger counters: whole numbers that are those of rows or steps."""
    if isinstance(state, dict):
        return {k: _moved(v, values, by, (*place, k), found) for k, v in state.items()}
    if isinstance(state, list):
        return [_moved(v, values, by, (*place, i), found) for i, v in enumerate(state)]
    if isinstance(state, int) and not isinstance(state, bool) and state in values:
        found.append(place)
        return state + by
    return state


def _at(state: Any, place: tuple[Any, ...]) -> int:
    for key in place:
        state = state[key]
    return int(state)


def main(arguments: list[str]) -> int:
    """Learn long streams and past large counters, and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--go-on", type=Path, metavar="FOLDER", help="of the parts of a long run")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    _rig.PATIENCE_S = 600.0  # a default of tables solves its sums again and again
    names = [*MODELS, *map(_COUNTERS.format, MODELS)]
    report = _rig.Report("length", options, names=names)
    n = options.rows or (20_000 if options.short else 100_000_000)
    for name in options.models:
        row = lengthened(name, max(n // PIECE, 2), options.go_on)
        report.add(row, row["broken"])
        if name == "default of tables":
            continue
        tally = _rig.Tally()
        for bits in (31, 53):
            tally.add(bits, *_rig.one(lambda bits: counted(name, 2**bits), bits))
        report.add_tally(_COUNTERS.format(name), tally, **{_MEMORY: "", _COST: ""})
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
