"""Workers of a cluster, and the process that gives them work, killed at random moments.

*How.* A process starts a cluster of two workers on this machine and lets them learn shards: files
of a table. One model is a sum of parts, whose cells the workers solve; another makes steps, for
which they are asked again and again; a third is a Gaussian process. Then they predict for each
shard. Meanwhile one of them is drawn and gets SIGKILL, again and again. In some runs the process
itself gets it, too, at a random moment, and is begun again: what is there is not learned anew.

*The promise.* All files have the bytes that one process without workers writes, and no others are
there. No process goes on of a run that has ended or was killed. (Dask and Ray keep temporary files
of theirs: the next cluster of Dask removes those of dead workers, and Ray leaves its logs.)

To run it (Linux; Dask and, for the long form, Ray):

    python reliability/workers.py                    # long
    python reliability/workers.py --short            # seconds: Dask
    python reliability/workers.py --engines ray --case 3
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np
import psutil

#: What is imported for an engine, what is in the command line of its workers, and how far apart
#: kills are, in times that the work takes alone: workers of Dask make anew what was lost.
ENGINES = {"dask": ("distributed", "spawn_main", (1.0, 3.0)), "ray": ("ray", "ray::", (0.3, 1.5))}
N_SHARDS, N_ROWS = 8, 400
LASTS = 3.0  # times that the work takes alone, with the start of a cluster
MOST_KILLS = 4  # in a run, so that it ends on a busy machine, too
PATIENCE_S = 600.0  # of a run
GONE_S = 90.0  # within which the processes of a run have gone: Ray's wait a minute for a dead node


# -- what is run ----------------------------------------------------------------------------------


def work(folder: Path, name: str) -> None:
    """Learn the shards of a folder and predict for them; what is there is not made again."""
    sys.path.insert(0, str(_rig.ROOT / "tests"))
    from mercer.default import DefaultLearner
    from mercer.expansions import RandomFeatures
    from mercer.kernels import Gaussian
    from mercer_app.cli import main
    from mercer_cluster import Settings, ShardTraining
    from mercer_cluster.engines import engine_of
    from quick import QUICKEST

    DefaultLearner.settings = QUICKEST
    steps = {"kernel": Gaussian(1.0), "expansion": RandomFeatures(64, min_steps=9)}
    models: dict[str, dict[str, Any]] = {
        "parts": {"target": "y"},
        "steps": {"target": "c", "options": steps},
        "process": {"target": "y", "task": "gp", "options": {"n_features": 64}},
    }
    few = Settings(sample=400, least_sample=100, held=200, region_rows=300, shared=5)
    os.chdir(folder)
    with engine_of(name, n_workers=1 if name == "here" else 2) as engine, current(engine):
        Path(tempfile.gettempdir(), "begun").touch()
        for out, options in models.items():
            if not os.path.exists(out):
                both = {"engine": engine, "settings": few, "exclude": ["y", "c"]}
                ShardTraining("shards", **options, **both).start().run(out)
        if not os.path.exists("answers"):
            main(["predict", "parts", "shards", "--engine", name, "--out", "answers"])


def current(engine: Any) -> Any:
    """Context in which the command finds the workers that there are."""
    client = getattr(engine, "_client", None)
    return contextlib.nullcontext() if client is None else client.as_current()


# -- runs -----------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Write the shards."""
    (folder / "shards").mkdir(parents=True)
    rng = np.random.default_rng(7)
    for number in range(N_SHARDS):
        X = rng.uniform(-1.0, 1.0, (N_ROWS, 3)).round(4)
        y = (np.sin(4.0 * X[:, 0]) + X[:, 1]).round(4)
        rows = [
            f"{a},{b},{c},{z},{'up' if z > 0 else 'down'}"
            for (a, b, c), z in zip(X, y, strict=True)
        ]
        (folder / "shards" / f"{number:02}.csv").write_text("\n".join(["p,q,r,y,c", *rows, ""]))


class Killer:
    """Runs the work with an engine, and kills.

    Parameters
    ----------
    engine : str
        Its name.
    expected : dict
        What is to be in the folder at the end.
    seconds : float
        What the work takes alone.
    """

    def __init__(self, engine: str, expected: dict[str, bytes], seconds: float) -> None:
        self.engine, self.expected, self.seconds = engine, expected, seconds
        self.n_workers = self.n_runs = 0  # that were killed
        self._temporary = _rig.scratch() / engine

    def case(self, number: int) -> str:
        """Begin a run until it ends; how it did, or RuntimeError with what broke."""
        rng, n_runs = random.Random(number), self.n_runs
        folder = _rig.scratch() / f"run-{number}"
        prepare(folder)
        ends = [self.seconds * rng.uniform(0.0, LASTS) for _ in range(number % 3)]
        try:
            for seconds in [*ends, None]:
                if self._run(folder, rng, seconds):
                    break
            self._check(folder)
        finally:
            shutil.rmtree(folder)
        return "equal, begun again" if self.n_runs > n_runs else "equal"

    def _run(self, folder: Path, rng: random.Random, seconds: float | None) -> bool:
        """Run the work, kill workers, and itself after some seconds; whether it came to its end."""
        self._temporary.mkdir(exist_ok=True)
        begun = self._temporary / "begun"
        begun.unlink(missing_ok=True)
        with started(folder, self.engine, self._temporary) as process:
            end = time.monotonic() + (seconds or PATIENCE_S)
            pauses = [(0.0, 0.5), *[ENGINES[self.engine][2]] * (MOST_KILLS - 1)]
            due: float | None = None
            family, looked = set[psutil.Process](), 0.0
            while process.poll() is None:
                time.sleep(0.02)
                now = time.monotonic()
                if now > min(end, looked + 0.5):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        family.update(psutil.Process(process.pid).children(recursive=True))
                    looked = now
                if now > end:
                    process.kill()
                    process.wait()
                    if seconds is None:
                        raise RuntimeError(f"it goes on for more than {PATIENCE_S:.0f} s")
                    self.n_runs += 1
                    check_gone(family)
                    return False
                if due is not None and now > due:
                    self.n_workers += self._kill(process.pid, rng)
                    due = None
                if due is None and pauses and begun.exists():
                    due = now + self.seconds * rng.uniform(*pauses.pop(0))
            check_gone(family)
        if process.returncode:
            said = folder.with_suffix(".said").read_text(errors="replace")
            raise RuntimeError(f"it ends with {process.returncode}: {said[-600:]}")
        return True

    def _kill(self, run: int, rng: random.Random) -> bool:
        found = []
        for one in psutil.Process(run).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = " ".join(one.cmdline())
                # Ray's agents are named as workers are, and take their node with them.
                if ENGINES[self.engine][1] in words and "Agent" not in words:
                    found.append(one)
        if found:
            with contextlib.suppress(psutil.Error):
                rng.choice(found).kill()
                return True
        return False

    def _check(self, folder: Path) -> None:
        found = contents(folder)
        if found != self.expected:
            names = found.keys() | self.expected.keys()
            other = sorted(name for name in names if found.get(name) != self.expected.get(name))
            raise RuntimeError(f"files differ: {other}")


def contents(folder: Path) -> dict[str, bytes]:
    """All files and folders in a folder, by their paths in it."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in found.items()}


@contextlib.contextmanager
def started(folder: Path, engine: str, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Begin the work in a process of its own; what is left of it ends with the context."""
    command = [sys.executable, __file__, "--work", str(folder), "--engines", engine]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with open(folder.with_suffix(".said"), "wb") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check_gone(family: set[psutil.Process]) -> None:
    """Raise RuntimeError unless the processes end."""
    _, alive = psutil.wait_procs(family, timeout=GONE_S)
    left = [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    if left:
        raise RuntimeError(f"of a run that has ended go on: {left}")


def alone() -> tuple[dict[str, bytes], float]:
    """What one process without workers writes, and the seconds that it takes."""
    folder = _rig.scratch() / "alone"
    prepare(folder)
    began = time.monotonic()
    with started(folder, "here", _rig.scratch()) as process:
        if process.wait():
            raise RuntimeError(folder.with_suffix(".said").read_text())
    return contents(folder), time.monotonic() - began


def main(arguments: list[str]) -> int:
    """Run the cases and keep the table."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES, "here"])
    parser.add_argument("--work", type=Path, help="folder in which to work by an engine")
    parser.add_argument("--cases", type=int)
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    engines = options.engines or (["dask"] if options.short else list(ENGINES))
    if options.work:
        work(options.work, engines[0])
        return 0
    _rig.PATIENCE_S = 4 * PATIENCE_S
    report, wanted = _rig.Report("workers", options, names=ENGINES), alone()
    for engine in engines:
        if importlib.util.find_spec(ENGINES[engine][0]) is None:
            print(f"Nothing is tried: {ENGINES[engine][0]} is not installed.")
            continue
        killer, tally = Killer(engine, *wanted), _rig.Tally()
        n_cases = options.cases or (1 if options.short else 9)
        for number in range(n_cases) if options.case is None else [options.case]:
            tally.add(number, *_rig.one(killer.case, number))
        killed = {"workers killed": killer.n_workers, "runs killed": killer.n_runs}
        report.add_tally(engine, tally, **killed)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
