"""Commands that are killed, or whose calls of the system fail, at every moment of writing.

*How.* A library that is loaded before that of C (`faults.c`) counts the calls that change files in
the folder of a command: open, write, fsync, rename, unlink and others. For each call there is a run
in which it goes wrong: SIGKILL before it, after it, or in the middle of a write; a power cut, in
which all bytes are lost that were not flushed by fsync; no space left, a
quota, an error of the device, once or from then on; a write that takes half of its bytes. More runs
are killed by SIGKILL at a random moment, wherever they are.

*The promise.* After a failed call there is one clear error. Files that were there are as before, or
are the new ones, whole. What was begun is removed. After SIGKILL the command is given again. Then
all files have the bytes that a run without accidents writes, and no other files are there.

To run it (Linux, with a C compiler):

    python reliability/writes.py                     # long
    python reliability/writes.py --short             # seconds
    python reliability/writes.py --tasks stream --at 12 --kind kill-half   # one, with its words
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np

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
KILLS = ("kill-before", "kill-after", "kill-half", "power cut")
#: Beside the model, where a run says them when it fails: to go on from, and to predict with.
_RESCUED = (".checkpoint", ".partial.mercer")
#: After these the process cannot remove what it began.
_CANNOT_CLEAN = ("device gone", "read-only")


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


def learning_by_hand(folder: Path) -> None:
    """Learn on in Python, and save over the file."""
    from mercer import load_model

    model = load_model(folder / "old.mercer")
    X, y = _rows(60)
    model.partial_fit(X[:30], y[:30]).save(folder / "model.mercer")
    model.partial_fit(X[30:], y[30:]).save(folder / "model.mercer")


GAUSSIAN = ("--kernel", "gaussian", "--length-scale", "1")
FIT = ("fit", "rows.csv", "--target", "y", "--out", "model.mercer", "--quiet")
RESUMED = (*FIT, "--checkpoint-every", "40", "--resume")
QUANTILES = ("--loss", "quantile", "--quantiles", "0.9")
PREDICT = ("predict", "table.mercer", "rows.csv", "--out")
STREAM = (
    *("stream", "rows.csv", "--target", "y", "--checkpoint", "state", "--checkpoint-every", "40"),
    *("--out", "model.mercer", "--predictions", "answers.jsonl", "--quiet"),
)
TASKS: dict[str, Task] = {
    "fit, default": command(*RESUMED),
    "fit, text and gaps": command("fit", "mixed.csv", *RESUMED[2:]),
    "fit, KOMP": command(*RESUMED, *GAUSSIAN, "--expansion", "komp"),
    "fit, quantiles": command("fit", "numbers.csv", *RESUMED[2:], *QUANTILES),
    "stream, default": command(*STREAM),
    "stream, KOMP": command(*STREAM, *GAUSSIAN, "--expansion", "komp"),
    "predict": command(*PREDICT, "answers.csv"),
    "predict, Parquet": command(*PREDICT, "answers.parquet"),
    "save": learning_by_hand,
}


def _rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 2)).round(3)
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] > 0).astype(int)


def prepare(folder: Path) -> None:
    """Write what the tasks read: tables, and a model that is replaced."""
    from mercer import KernelClassifier
    from mercer.expansions import KOMP
    from mercer.kernels import Gaussian

    X, y = _rows(200)
    lines = [f"{a},{b},{'yes' if c else 'no'}" for (a, b), c in zip(X, y, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    towns = np.array(["Bern", "Bonn", "", "Oslo"])[np.arange(200) % 4]
    mixed = [f"{town},{line}" for town, line in zip(towns, lines, strict=True)]
    (folder / "mixed.csv").write_text("\n".join(["town,a,b,y", *mixed, ""]))
    numbers = [f"{line.rpartition(',')[0]},{a - b}" for line, (a, b) in zip(lines, X, strict=True)]
    (folder / "numbers.csv").write_text("\n".join(["a,b,y", *numbers, ""]))
    model = KernelClassifier(kernel=Gaussian(1.0), expansion=KOMP(max_size=15), random_state=0)
    model.partial_fit(X[:40], y[:40])
    model.save(folder / "old.mercer")
    shutil.copy(folder / "old.mercer", folder / "model.mercer")
    fit = ("fit", "rows.csv", "--target", "y", "--out", "table.mercer", "--quiet", *GAUSSIAN)
    with contextlib.suppress(SystemExit):
        command(*fit, "--expansion", "komp")(folder)
    (folder / "answers.csv").write_text("older answers\n")


# -- runs -----------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their paths in it."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class Bench:
    """Runs of one task, each in a fresh copy of the folder."""

    def __init__(self, task: Task, faults: Any, base: Path) -> None:
        self.task, self.faults, self.base = task, faults, base
        self.before = contents(base)
        with self._folder() as folder:
            code, said, self.n_calls = self.run(folder)
            if code:
                raise RuntimeError(f"the task fails without any fault: {said}")
            self.after = contents(folder)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = _rig.scratch() / f"run-{os.getpid()}"
        shutil.copytree(self.base, folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def run(
        self, folder: Path, at: int = 0, kind: str = "short", after_s: float = 0.0
    ) -> tuple[int, str, int]:
        """Run the task in a child process: its exit code, what it said, and the calls counted."""
        said = folder.with_suffix(".said")
        child = os.fork()
        if child == 0:
            self._run_here(folder, said, at, kind)
        if after_s:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        words = said.read_text(errors="replace") if said.exists() else ""
        said.unlink(missing_ok=True)
        words, told, calls = words.partition("calls: ")
        return code, words, int(calls) if told else 0

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
            calls = self.faults.faults_calls()
            self.faults.faults_arm(b"", 0, 0, 0)
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(1, f"calls: {calls}".encode())
        finally:
            os._exit(code)

    def fault(self, at: int, kind: str) -> str:
        """Let a call go wrong; how it ended, or RuntimeError with what broke."""
        with self._folder() as folder:
            code, said, _ = self.run(folder, at, kind)
            found = contents(folder)
            if code == 0 and found == self.after:
                ended = "done all the same"
            elif code == -signal.SIGKILL and kind in KILLS:
                ended = "killed"
            elif code < 0:
                raise RuntimeError(f"died by signal {-code}")
            else:
                self._check_refusal(code, said, found, kind)
                ended = "refused"
            self._check_whole(found)
            code, said, _ = self.run(folder)
            if code:
                raise RuntimeError(f"begun again it ends with {code}: {said[-300:]}")
            self._check_end(contents(folder))
        return ended

    def kills(self, seed: int) -> str:
        """Kill at random moments until a run ends; how often, or RuntimeError."""
        rng = random.Random(seed)
        with self._folder() as folder:
            for start in itertools.count():
                wait = rng.uniform(0.0, 0.4) if start < 5 else 0.0
                code, said, _ = self.run(folder, after_s=wait)
                if code == 0:
                    break
                if code != -signal.SIGKILL:
                    raise RuntimeError(f"after {start} kills it ends with {code}: {said[-300:]}")
                self._check_whole(contents(folder))
            self._check_end(contents(folder))
        return f"{start} kills"

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

    def _check_end(self, found: dict[str, bytes]) -> None:
        if found != self.after:
            raise RuntimeError(f"begun again, files differ: {self._differences(found)}")

    def _differences(self, found: dict[str, bytes]) -> list[str]:
        names = sorted(found.keys() | self.after.keys())
        return [name for name in names if found.get(name) != self.after.get(name)]


def main(arguments: list[str]) -> int:
    """Run the tasks and keep the table."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--at", type=int)
    parser.add_argument("--kills", type=int)
    options = parser.parse_args(arguments)
    faults = _rig.preloaded("faults.c")
    warnings.simplefilter("ignore")
    base = _rig.scratch() / "base"
    base.mkdir()
    prepare(base)
    report = _rig.Report("writes", options)
    for name in options.tasks:
        bench = Bench(TASKS[name], faults, base)
        if options.at is not None:
            print(bench.fault(options.at, options.kind))
            continue
        kinds = [options.kind] if options.kind else list(KINDS)
        cases = list(itertools.product(kinds, range(1, bench.n_calls + 1)))
        if options.short:
            cases = random.Random(0).sample(cases, 6)
        n_kills = options.kills if options.kills is not None else 1 if options.short else 50
        tally = _rig.Tally()
        for number, (kind, at) in enumerate(cases):
            outcome, words = _rig.one(lambda _: bench.fault(at, kind), number)
            tally.add(number, outcome, words and f"{kind} at {at}: {words}")
        for seed in range(n_kills):
            outcome, words = _rig.one(bench.kills, seed)
            tally.add(seed, "killed at random: " + ("equal" if not words else outcome), words)
        report.add_tally(name, tally, **{"calls of the system": bench.n_calls})
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
