"""What the rigs share: child processes that may die, counts of what came out, and the page.

A *case* is a number. It is the seed of all that is random in it, so that a case that broke
something can be run again alone: ``python reliability/files.py --case 1234``.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import atexit
import ctypes
import hashlib
import itertools
import json
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "reliability" / "results"
#: A call that takes this long is ended; the case counts as broken.
PATIENCE_S = 30.0
_AT_ONCE = 1000  # cases of a child
_PRELOADED = "MERCER_PRELOADED"  # path of the library
SHOWN = 40  # broken cases that are printed


class Late(BaseException):
    """The alarm of a case that takes too long; no handler of the library catches it."""


@dataclass
class Tally:
    """How cases ended, and what the broken ones said."""

    ended: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str]] = field(default_factory=list)

    def add(self, case: int, outcome: str, words: str = "") -> None:
        """Count a case; ``words`` say what broke, and are empty where nothing did."""
        self.ended[outcome] += 1
        if words:
            self.broken.append((case, words))

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return sum(self.ended.values())


class Report:
    """What a rig found: rows of its table, printed as they come, and kept if that is asked for.

    A long run may be made in parts: rows that are kept replace those that begin with the same
    words, and the others stay.

    Parameters
    ----------
    rig : str
        Name of the rig.
    options : Namespace
        Of :func:`parser`.
    *parts : str
        Options of this rig that choose some cases of a row. Only whole rows are kept, so they do
        not go with ``--keep``, as ``--short``, ``--case`` and ``--at`` do not.
    names : collection of str, optional
        First words of all rows that there may be; earlier ones with others are dropped.
    """

    def __init__(
        self,
        rig: str,
        options: argparse.Namespace,
        *parts: str,
        names: Collection[str] | None = None,
    ) -> None:
        given = vars(options)
        some = [name for name in ("short", "case", "at", *parts) if name in given]
        some = [name for name in some if given[name] is not None and given[name] is not False]
        if options.keep and some:
            sys.exit(f"Only whole rows are kept: not --keep with --{', --'.join(some)}.")
        self._place = RESULTS / f"{rig}.json" if options.keep else None
        self._source = {"commit": _commit(), "environment": _environment()} if options.keep else {}
        self._names, self._begun = names, time.monotonic()
        self._broken = 0

    def add(self, row: dict[str, Any], n_broken: int) -> None:
        """Add a row of the table, and keep it if wanted: a run that is killed loses no other."""
        now = time.monotonic()
        hours, self._begun = round((now - self._begun) / 3600, 4), now
        self._broken += n_broken
        said = (f"{v:.4g}" if isinstance(v, float) else v for v in row.values())
        print(", ".join(map("{}: {}".format, row, said)), flush=True)
        if self._place is not None:
            self._keep(self._place, {"row": row, "hours": hours, **self._source})

    def _keep(self, place: Path, one: dict[str, Any]) -> None:
        """Put a row in its place among those of other runs, one process at a time."""
        import fcntl

        from mercer.model_file import replacing

        RESULTS.mkdir(exist_ok=True)
        folder = os.open(RESULTS, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            kept = json.loads(place.read_text()) if place.exists() else []
            rows = {_words(each["row"]): each for each in [*kept, one]}
            names = self._names
            kept = [each for words, each in rows.items() if names is None or words[0] in names]
            with replacing(place) as temporary:
                temporary.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        finally:
            os.close(folder)

    def add_tally(self, what: str, tally: Tally, **more: Any) -> None:
        """Add how cases ended, and print what broke."""
        ended = sorted(tally.ended.items(), key=lambda one: -one[1])
        words = "; ".join(f"{words} {n:,}" for words, n in ended)
        row = {"what": what, "cases": tally.n_cases, "broken": len(tally.broken)}
        self.add({**row, **more, "how they ended": words}, len(tally.broken))
        for case, said in tally.broken[:SHOWN]:
            print("  ", case, said, flush=True)

    def end(self) -> int:
        """Exit code of the rig: 1 if anything broke."""
        return int(self._broken > 0)


def _words(row: dict[str, Any]) -> tuple[str, ...]:
    """What a row is about: the words that it begins with."""
    return tuple(itertools.takewhile(lambda value: isinstance(value, str), row.values()))


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    from mercer_reproduction._experiment import environment

    return environment()


def parser(words: str | None) -> argparse.ArgumentParser:
    """Return the command line that all rigs have, with their docstrings as help."""
    made = argparse.ArgumentParser(
        description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--short", action="store_true", help="seconds to a minute")
    made.add_argument("--keep", action="store_true", help="keep the table for the page")
    return made


@cache
def scratch() -> Path:
    """A folder in memory for the files of this process and its children; it goes with them."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def needs(*programs: str) -> None:
    """End the script if programs are missing: well with ``--short``, as in CI."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        print(f"Nothing is tried: the rig needs {' and '.join(missing)}, not found here.")
        sys.exit(0 if "--short" in sys.argv else 1)


def preloaded(source: str) -> Any:
    """A library of C beside this file, loaded before that of C: this script begins again below it.

    Returns
    -------
    library : ctypes.CDLL
        The library; without a C compiler the script ends.
    """
    if _PRELOADED not in os.environ:
        compiler = (sysconfig.get_config_var("CC") or "cc").split()
        needs(compiler[0])
        built = scratch() / "preloaded.so"
        path = Path(__file__).with_name(source)
        options = ["-shared", "-fPIC", "-O1", "-fno-builtin"]
        subprocess.run([*compiler, *options, "-o", built, path, "-ldl"], check=True)
        again = {**os.environ, "LD_PRELOAD": str(built), _PRELOADED: str(built)}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=again, check=False).returncode)
    return ctypes.CDLL(os.environ[_PRELOADED])


def plain(value: Any) -> Any:
    """Nested state as text, to the last bit."""
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return repr(value.item() if isinstance(value, np.generic) else value)


def digest(model: Any) -> str:
    """Digest of all that a model is."""
    return hashlib.sha256(json.dumps(plain(model.to_state())).encode()).hexdigest()


def each_case(run: Callable[[int], str], cases: Sequence[int], memory: int = 0) -> Tally:
    """Run cases in child processes, each of which goes on until it ends or dies.

    Parameters
    ----------
    run : callable
        Gets a case and returns how it ended, in a few words. An exception of any kind means that
        the case is broken, and so do a crash and more than :data:`PATIENCE_S` seconds.
    cases : sequence of int
        The cases.
    memory : int, default=0
        Most bytes of address space beyond those of the process at its start; 0 is no limit.
    """
    scratch()  # made here: children share it, and it goes with this process
    tally, done = Tally(), 0
    while done < len(cases):
        some = cases[done : done + _AT_ONCE]
        ended, died = _in_child(run, some, memory)
        for case, outcome, words in ended:
            tally.add(case, outcome, words)
        if died:  # in the first case of which nothing was said
            tally.add(some[len(ended)], "crash", died)
        done += len(ended) + bool(died)
    return tally


def _in_child(
    run: Callable[[int], str], cases: Sequence[int], memory: int
) -> tuple[list[tuple[int, str, str]], str]:
    """What a child says of its cases, and how it died, if it did before their end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(run, cases, memory, os.fdopen(writer, "w", buffering=1))
    os.close(writer)
    with os.fdopen(reader) as lines:
        ended = [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ended, f"the process died ({code})" if len(ended) < len(cases) else ""


def _serve(run: Callable[[int], str], cases: Sequence[int], memory: int, out: TextIO) -> NoReturn:
    """Run cases in the child and never return."""
    try:
        if memory:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for case in cases:
            out.write(json.dumps([case, *one(run, case)]) + "\n")
    finally:
        os._exit(0)


def one(run: Callable[[int], str], case: int) -> tuple[str, str]:
    """How a case ended, and what broke."""
    # A handler in Python waits for compiled code, so a second alarm ends the process itself.
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S, PATIENCE_S)
    try:
        return run(case), ""
    except Late:
        return "too slow", f"more than {PATIENCE_S:.0f} s"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return type(error).__name__, f"{type(error).__name__}: {str(error)[:300]} ({place})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _late(number: int, frame: Any) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise Late
