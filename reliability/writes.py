"""Commands that are killed, or whose calls of the system fail, at every moment of writing.

*How.* A library that is loaded before that of C (`faults.c`) counts the calls that change files in
the folder of a command: open, write, fsync, rename, unlink and others. For each call there is a run
in which it goes wrong: SIGKILL before it, after it, or in the middle of a write; a power cut, also
after the command's end, in which all is lost that was not flushed by fsync, bytes of files and new
names in folders; no space left, a quota, an error of the device, once or from then on; a write that
takes half of its bytes. Where calls are many, some are drawn, evenly spread. More runs are killed
by SIGKILL at random moments, wherever they are, again and again until one ends.

*What runs.* Each learner learns from a file, with checkpoints, and most also from a stream or in
Python, saved after each piece. So that a few hundred rows have many checkpoints, and all stages of
learning, chunks of files have 50 rows here, and the default of tables races on fewer.

*The promise.* After a failed call there is one clear error. Files that were there are as before, or
are the new ones, whole. What was begun is removed. After SIGKILL the command is given again. Then
all files have the bytes that a run without accidents writes, and no other files are there. No power
cut after its end takes anything back.

To run it (Linux, with a C compiler):

    python reliability/writes.py                     # long
    python reliability/writes.py --short             # seconds
    python reliability/writes.py --tasks predict --at 5 --kind kill-half   # one, with its words
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import _rig  # one thread, before numpy reads the variables
import numpy as np

sys.path.insert(0, str(_rig.ROOT / "tests"))  # quick.py
#: What the calls do: a code of the library, and whether all later calls do the same.
KINDS = {
    "kill-before": (-1, False),
    "kill-after": (-2, False),
    "kill-half": (-4, False),
    "power cut": (-5, False),
    "short": (-3, False),
    "no space": (errno.ENOSPC, True),
    "quota": (errno.EDQUOT, True),
    "device error": (errno.EIO, False),
    "device gone": (errno.EIO, True),
    "read-only": (errno.EROFS, True),
}
#: The number of a call that is after all of them.
AT_END = 10**9
KILLS = ("kill-before", "kill-after", "kill-half", "power cut")
#: Beside the model, where a run says them when it fails: to go on from, and to predict with.
_RESCUED = (".checkpoint", ".partial.mercer")
#: After these the process cannot remove what it began.
_CANNOT_CLEAN = ("device gone", "read-only")
NO_FAULT = "no fault"
_FEW = 25  # calls that all go wrong
_KILLS = 5  # most of a run that is killed again and again


# -- tasks ----------------------------------------------------------------------------------------


#: What a user runs in a folder with the files of :func:`prepare`; given again, it goes on.
Task = Callable[[Path], None]


def command(*arguments: str) -> Callable[[Path], None]:
    """The command line, in the folder."""

    def run(folder: Path) -> None:
        from mercer_app.cli import main

        os.chdir(folder)
        main(list(arguments))

    return run


def piped(*arguments: str) -> Task:
    """The command line, with rows on standard input, which it copies beside the model."""

    def run(folder: Path) -> None:
        before = sys.stdin, tempfile.tempdir
        tempfile.tempdir = str(folder)
        try:
            with open(folder / "rows.csv") as sys.stdin:
                command(*arguments)(folder)
        finally:
            sys.stdin, tempfile.tempdir = before

    return run


def fit(data: str, *options: str) -> Task:
    """`mercer fit` of a file with columns a, b and y."""
    return command("fit", data, *TARGET, "--checkpoint-every", "40", "--resume", *options)


def stream(data: str, *options: str) -> Task:
    """`mercer stream` of a file with columns a, b and y."""
    kept = ("--checkpoint", "state", "--checkpoint-every", "40")
    return command("stream", data, *TARGET, *kept, "--predictions", "answers.jsonl", *options)


TARGET = ("--target", "y", "--out", "model.mercer", "--quiet")
GAUSSIAN = ("--kernel", "gaussian", "--length-scale", "1")
KOMP = (*GAUSSIAN, "--expansion", "komp", "--max-size", "15")
FEATURES = (*GAUSSIAN, "--expansion", "random_features", "--block-size", "16")
HERE = ("--engine", "here")
TASKS: dict[str, Task] = {
    "fit, default": fit("rows.csv"),
    "fit, text and gaps": fit("mixed.csv"),
    "fit, quantiles": fit("numbers.csv", "--quantiles", "0.1,0.9"),
    "fit, risk": fit("numbers.csv", "--risk", "cvar:0.9"),
    "fit, default of streams": fit("rows.csv", "--expansion", "stream"),
    "fit, dictionary": fit("rows.csv", *GAUSSIAN, "--expansion", "dictionary", "--max-size", "15"),
    "fit, KOMP": fit("mixed.csv", *KOMP),
    "fit, KOMP, quantiles": fit("numbers.csv", *KOMP, "--quantiles", "0.1,0.9"),
    "fit, KOMP, risk": fit("numbers.csv", *KOMP, "--risk", "cvar:0.9"),
    "fit, budget": fit("rows.csv", *GAUSSIAN, "--expansion", "budget", "--max-size", "15"),
    "fit, features, newton": fit("rows.csv", *FEATURES, "--mode", "newton"),
    "fit, features, cyclic": fit("rows.csv", *FEATURES, "--mode", "cyclic", "--max-blocks", "3"),
    "fit, features, faithful": fit("rows.csv", *FEATURES, "--mode", "faithful"),
    "fit, ranker": fit("rows.csv", "--task", "rank", "--buffer", "5", *KOMP),
    "fit, novelty": fit("rows.csv", "--task", "novelty", *KOMP),
    "fit, Gaussian process": fit("numbers.csv", "--task", "gp", "--features", "24"),
    "fit, Gaussian process, points": fit("numbers.csv", "--task", "gp", "--max-size", "15"),
    "fit, standard input": piped("fit", "-", *TARGET, *KOMP),
    "fit, shards": command("fit", "shards", *TARGET, *HERE),
    "value": command(
        *("value", "numbers.csv", "--reward", "y", "--discount", "0.9", "--ends"),
        *("--out", "model.mercer", "--quiet", *GAUSSIAN, "--max-size", "15", "--passes", "3"),
    ),
    "stream, default": stream("rows.csv"),
    "stream, text and gaps": stream("mixed.csv"),
    "stream, late labels": stream("late.csv", "--key", "id"),
    "stream, intervals": stream("numbers.csv", "--interval", "0.9", "--task", "regression"),
    "stream, default of tables": stream("rows.csv", "--forgetting", "0.999"),
    "stream, KOMP": stream("rows.csv", *KOMP),
    "predict": command("predict", "table.mercer", "rows.csv", "--out", "answers.csv"),
    "predict, Parquet": command("predict", "table.mercer", "rows.csv", "--out", "new.parquet"),
    "predict, calibrated": command(
        *("predict", "numbers.mercer", "numbers.csv", "--out", "answers.csv"),
        *("--interval", "0.9", "--calibrate", "numbers.csv"),
    ),
    "predict, shards": command("predict", "table.mercer", "shards", "--out", "parts", *HERE),
}


def saving(estimator: Any) -> Task:
    """Learn in Python, and save after each piece; what was saved is not learned again."""
    arguments: dict[str, Callable[..., Any]] = {
        "DensityRatio": lambda X, y: (X, X + 0.5),
        "NoveltyDetector": lambda X, y: (X,),
        "ValueFunction": lambda X, y: (X, y, X + 0.1),
    }
    taken = arguments.get(type(estimator).__name__, lambda X, y: (X, y))

    def run(folder: Path) -> None:
        from mercer import load_model

        model = copy.deepcopy(estimator)
        X, y = _rows(90)
        for number, some in enumerate(np.split(np.arange(90), 3)):
            place = folder / f"{number}.mercer"
            if place.exists():
                model = load_model(place)
                continue
            model.partial_fit(*taken(X[some], y[some]))
            if hasattr(model, "calibrate"):
                model.calibrate(X[some] + 0.1, y[some])
            model.save(place)
        model.save(folder / "model.mercer")

    return run


def savings() -> dict[str, Task]:
    """What is learned in Python: by each estimator, and calibrated where it has intervals."""
    import mercer
    from mercer.buffers import FIFO
    from mercer.expansions import KOMP, Auto
    from mercer.kernels import Gaussian

    shared = {"kernel": Gaussian(1.0), "random_state": 0}
    steps: dict[str, Any] = {**shared, "expansion": KOMP(max_size=15)}
    made = {
        "default of tables": mercer.KernelRegressor(expansion=Auto(), random_state=0),
        "default of streams": mercer.KernelClassifier(random_state=0),
        "KOMP": mercer.KernelRegressor(**steps),
        "ranker": mercer.KernelRanker(**steps, buffer=FIFO(8)),
        "novelty": mercer.NoveltyDetector(0.2, **steps),
        "density ratio": mercer.DensityRatio(**steps),
        "gradient": mercer.KernelGradient(**steps, batch_size=10),
        "value function": mercer.ValueFunction(0.8, "gtd2", **steps),
        "Gaussian process": mercer.GaussianProcessRegressor(**shared, noise=0.05, n_features=24),
    }
    return {f"save, {name}": saving(estimator) for name, estimator in made.items()}


def _rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 2)).round(3)
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] > 0).astype(int)


def _write(path: Path, **columns: Sequence[Any]) -> None:
    lines = (",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    path.write_text("\n".join([",".join(columns), *lines, ""]))


def prepare(folder: Path) -> None:
    """Write what the tasks read: tables, models to predict with, and files that are replaced."""
    X, labels = _rows(200)
    a, b = X.T.tolist()
    y = ["yes" if label else "no" for label in labels]
    _write(folder / "rows.csv", a=a, b=b, y=y)
    _write(folder / "numbers.csv", a=a, b=b, y=(X[:, 0] - X[:, 1]).round(3))
    towns, days = ["Bern", "Bonn", "", "Oslo"], ["2024-02-29", "", "2023-12-31", "2024-03-01"]
    _write(folder / "mixed.csv", town=towns * 50, day=days * 50, a=a, b=b, y=y)
    late = [(i, "", "", y[i]) for i in range(190)]  # labels, ten rows after theirs
    asked = [(i, a[i], b[i], "") for i in range(200)]
    late = [*asked[:10], *itertools.chain.from_iterable(zip(late, asked[10:], strict=True))]
    _write(
        folder / "late.csv",
        **dict(zip(("id", "a", "b", "y"), zip(*late, strict=True), strict=True)),
    )
    (folder / "shards").mkdir()
    for number in range(2):
        half = slice(100 * number, 100 * number + 100)
        _write(folder / "shards" / f"{number}.csv", a=a[half], b=b[half], y=y[half])
    for name, data in (("table.mercer", "rows.csv"), ("numbers.mercer", "numbers.csv")):
        here(command("fit", data, "--target", "y", "--out", name, "--quiet", *KOMP), folder)
    shutil.copy(folder / "table.mercer", folder / "model.mercer")
    (folder / "answers.csv").write_text("older answers\n")


def here(task: Task, folder: Path) -> None:
    """Run a task in this process, which then has what it imports and compiles, for its children."""
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        task(folder)


def in_small() -> None:
    """Learn in chunks of 50 rows, and have the default of tables race on some of these."""
    from mercer.default import DefaultLearner
    from mercer_app.training import _row_stream
    from quick import QUICKEST

    _row_stream._CHUNK = 50
    race = QUICKEST.race._replace(small=80, pilot_rows=60, cells_rows=120)
    DefaultLearner.settings = QUICKEST._replace(race=race)


# -- runs -----------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """All files and folders in a folder, by their paths in it."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in found.items()}


class Ended(NamedTuple):
    """Exit code of a task, what it said, the calls it made, and those that went wrong."""

    code: int
    said: str
    n_calls: int = 0
    n_faults: int = 0


class Bench:
    """Runs of one task, each in a fresh copy of the folder."""

    def __init__(self, task: Task, faults: Any, base: Path) -> None:
        self.task, self.faults, self.base = task, faults, base
        self.before, self.n_kills = contents(base), 0
        with self._folder() as folder:
            here(task, folder)
        with self._folder() as folder:
            began = time.perf_counter()
            ended = self.run(folder)
            self.seconds, self.n_calls = time.perf_counter() - began, ended.n_calls
            if ended.code:
                raise RuntimeError(f"the task fails without any fault: {ended.said}")
            self.after = contents(folder)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = _rig.scratch() / f"run-{os.getpid()}"
        shutil.copytree(self.base, folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            for kept in folder.parent.glob(f"{folder.name}.kept-*"):  # by faults.c
                kept.unlink()

    def run(self, folder: Path, at: int = 0, kind: str = "short", after_s: float = 0.0) -> Ended:
        """Run the task in a child process."""
        said = folder.with_suffix(".said")
        child = os.fork()
        if child == 0:
            self._run_here(folder, said, at, kind)
        if after_s:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.n_kills += code == -signal.SIGKILL
        words = said.read_text(errors="replace") if said.exists() else ""
        said.unlink(missing_ok=True)
        words, _, calls = words.partition("calls: ")
        return Ended(code, words, *map(int, calls.split()))

    def _run_here(self, folder: Path, said: Path, at: int, kind: str) -> None:
        code = 1
        try:
            out = os.open(said, os.O_CREAT | os.O_WRONLY)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            how, for_ever = KINDS[kind]
            self.faults.faults_arm(str(folder).encode() + b"/", at, how, int(for_ever))
            try:
                self.task(folder)
                code = 0
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}".encode())
            self.faults.faults_end()
            calls = self.faults.faults_calls(), self.faults.faults_happened()
            self.faults.faults_arm(b"", 0, 0, 0)
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(1, f"calls: {calls[0]} {calls[1]}".encode())
        finally:
            os._exit(code)

    def fault(self, at: int, kind: str) -> str:
        """Let a call go wrong; how it ended, or RuntimeError with what broke."""
        with self._folder() as folder:
            code, said, _, n_faults = self.run(folder, at, kind)
            found = contents(folder)
            if code == 0 and found == self.after:
                if not n_faults:
                    return NO_FAULT
                ended = "done all the same"
            elif code == -signal.SIGKILL and kind in KILLS:
                ended = "killed"
                if at == AT_END and found != self.after:
                    raise RuntimeError(f"the cut after its end takes {self._differences(found)}")
            elif code < 0:
                raise RuntimeError(f"died by signal {-code}")
            else:
                self._check_refusal(code, said, found, kind)
                ended = "refused"
            self._check_whole(found)
            self._check_end(self.run(folder), folder)
        return ended

    def kills(self, seed: int) -> str:
        """Kill at random moments until a run ends, or RuntimeError."""
        rng = random.Random(seed)
        with self._folder() as folder:
            for start in itertools.count():
                wait = rng.uniform(0.0, self.seconds) if start < _KILLS else 0.0
                ended = self.run(folder, after_s=wait)
                if ended.code != -signal.SIGKILL:
                    break
                self._check_whole(contents(folder))
            self._check_end(ended, folder)
        return "killed at random: equal" if start else NO_FAULT

    def _check_refusal(self, code: int, said: str, found: dict[str, bytes], kind: str) -> None:
        if code == 0:
            raise RuntimeError(f"said to be done, but files differ: {self._differences(found)}")
        if "Traceback" in said or not said.strip():
            raise RuntimeError(f"no clear error: {said[-400:]!r}")
        known = self.before.keys() | self.after.keys()
        more = [name for name in found if name not in known and not name.endswith(_RESCUED)]
        if more and kind not in _CANNOT_CLEAN:
            raise RuntimeError(f"left behind: {more}")

    def _check_whole(self, found: dict[str, bytes]) -> None:
        from mercer.model_file import read_state

        for name, content in self.before.items():
            if name not in found:
                raise RuntimeError(f"{name} is gone")
            if found[name] not in (content, self.after[name]):
                if not name.endswith(".mercer"):
                    raise RuntimeError(f"{name} is neither as it was nor as it is to be")
                place = _rig.scratch() / "whole.mercer"
                place.write_bytes(found[name])
                read_state(place)

    def _check_end(self, ended: Ended, folder: Path) -> None:
        found, (code, said, *_) = contents(folder), ended
        if found != self.after:
            raise RuntimeError(
                f"begun again it ends with {code}, and files differ: {self._differences(found)}; "
                f"{said[-300:]}"
            )
        if code and "is not empty" not in said:  # a folder of predictions that is there already
            raise RuntimeError(f"begun again it ends with {code}: {said[-300:]}")

    def _differences(self, found: dict[str, bytes]) -> list[str]:
        names = sorted(found.keys() | self.after.keys())
        return [name for name in names if found.get(name) != self.after.get(name)]


def spread(n_calls: int, kinds: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Pairs of a kind of fault and a call: all, or so many of each kind, evenly spread."""
    end = [("power cut", AT_END)] if "power cut" in kinds else []
    if n_calls <= max(most, _FEW):
        return [*itertools.product(kinds, range(1, n_calls + 1)), *end]
    step, shift = n_calls / most, n_calls / most / len(kinds)
    some = [
        (kind, 1 + int(i * step + number * shift))
        for number, kind in enumerate(kinds)
        for i in range(most)
    ]
    return [*some, *end]


def tried(bench: Bench, cases: Sequence[tuple[str, int]], n_kills: int) -> _rig.Tally:
    """Let calls go wrong, and kill at random; how it ended, where anything happened."""
    tally = _rig.Tally()
    for number, (kind, at) in enumerate(cases):
        outcome, words = _rig.one(lambda _: bench.fault(at, kind), number)
        tally.add(number, outcome, words and f"{kind} at {at}: {words}")
    for seed in range(n_kills):
        tally.add(seed, *_rig.one(bench.kills, seed))
    del tally.ended[NO_FAULT]  # no case: a close takes no half, a run was over before it was killed
    return tally


def main(arguments: list[str]) -> int:
    """Run the tasks and keep the table."""
    faults = _rig.preloaded("faults.c")
    tasks = {**TASKS, **savings()}
    parser = _rig.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(tasks), default=list(tasks))
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--at", type=int)
    parser.add_argument("--most", type=int, default=8, help="calls of each kind, of many calls")
    parser.add_argument("--kills", type=int, help="runs that are killed again and again")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    base = _rig.scratch() / "base"
    base.mkdir()
    in_small()
    prepare(base)
    report = _rig.Report("writes", options, "kind", names=tasks)
    for number, name in enumerate(options.tasks):
        bench = Bench(tasks[name], faults, base)
        if options.at is not None:
            print(bench.fault(options.at, options.kind))
            continue
        cases = spread(bench.n_calls, [options.kind] if options.kind else list(KINDS), options.most)
        n_kills = 5 if options.kills is None else options.kills
        if options.short:
            some = random.Random(number).sample(cases, 1 + number % 2)
            cases, n_kills = some, int(number % 4 == 0)
        tally = tried(bench, cases, n_kills)
        more = {"calls": bench.n_calls, "tried": len({at for _, at in cases} - {AT_END})}
        report.add_tally(name, tally, **more, kills=bench.n_kills)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
