"""What an experiment is, and what it brings back."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.threads import one_blas_thread
from mercer.validation import check_choice, check_integer
from mercer_reproduction._data_files import require_files
from mercer_reproduction._paper_numbers import beside_ours

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Target:
    """A number that was to be reached.

    Attributes
    ----------
    name : str
        What was measured, with its unit.
    measured : float
        The number.
    bound : float
        What it is compared with.
    kind : {"at most", "at least"}, default="at most"
        Which side of the bound is wanted.
    paper : float or None, default=None
        What the paper prints for it, if it does; the bound may be another.
    claim : tuple of str, default=()
        Tables and figures of the paper whose claim it is: missed, they are not reproduced.

    Examples
    --------
    >>> Target("test error %", measured=15.1, bound=15.3).met
    True
    """

    name: str
    measured: float
    bound: float
    kind: str = "at most"
    paper: float | None = None
    claim: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("at most", "at least"))

    @property
    def met(self) -> bool:
        """Whether the number is on the wanted side of the bound; NaN is not."""
        if self.kind == "at most":
            return bool(self.measured <= self.bound)
        return bool(self.measured >= self.bound)


@dataclass(frozen=True)
class Drawing:
    """A figure that draws itself.

    Attributes
    ----------
    name : str
        Short name for the file: lower case, words joined by "-".
    caption : str
        What is to be seen, in a sentence.
    draw : callable
        Draws on the matplotlib axes that it is given. The style is the caller's.
    """

    name: str
    caption: str
    draw: Callable[[Axes], object]


@dataclass(frozen=True)
class Result:
    """What an experiment brings back.

    Attributes
    ----------
    rows : sequence of mappings
        Table: text or numbers by column, the same columns in all rows.
    targets : sequence of Target
        Numbers that were to be reached, with the full settings.
    drawings : sequence of Drawing
        Figures.
    notes : sequence of str
        What a reader of the table has to know.
    cpu_seconds : float or None
        What the run took, the reading of data included; filled in by the experiment. From a run:
        what processes took that were stopped before it went on.
    """

    rows: Sequence[Mapping[str, Any]]
    targets: Sequence[Target] = ()
    drawings: Sequence[Drawing] = ()
    notes: Sequence[str] = ()
    cpu_seconds: float | None = None


def _say_nothing(text: str) -> None:
    pass


@dataclass(frozen=True)
class Context:
    """What a run is given.

    Attributes
    ----------
    data : Path or None
        Directory of the data files.
    quick : bool
        Use few rows, so that the run takes seconds and shows that all works; its numbers cannot be
        compared with the paper.
    seed : int
        Seed of everything random.
    say : callable
        Told of progress, in a sentence at a time.
    download : bool
        Have scikit-learn download data sets where no directory is given.
    folder : Path or None
        Where runs that take long keep their state, to go on after they were stopped; None keeps
        nothing.
    passes : int or None
        Passes over the images, for the experiments that train nets; None for their own number.
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    say: Callable[[str], object] = field(default=_say_nothing)
    download: bool = False
    folder: Path | None = None
    passes: int | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Attributes
    ----------
    name : str
        Name for the command line.
    title : str
        A few words.
    place : str
        Where in the paper it is.
    shows : str
        What it shows and with which settings, in some sentences.
    run : callable
        Runs it.
    needs_data : tuple of str
        Files of the data directory (:data:`mercer_reproduction.DATA_FILES`).
    """

    name: str
    title: str
    place: str
    shows: str
    run: Callable[[Context], Result]
    needs_data: tuple[str, ...] = ()

    def __call__(self, context: Context) -> Result:
        """Run the experiment on one BLAS thread.

        Raises
        ------
        ValueError
            If it needs data and no directory is given, or the seed is below 0.
        FileNotFoundError
            If data files are missing; says how to get them.
        ConnectionError
            If data cannot be downloaded.
        """
        self.prepare(context)
        started = time.process_time()
        with one_blas_thread():
            result = self.run(context)
        earlier = result.cpu_seconds or 0.0
        return replace(result, cpu_seconds=earlier + time.process_time() - started)

    def prepare(self, context: Context) -> None:
        """Check that the experiment can be run, and download what it needs if that is allowed.

        Raises
        ------
        ValueError, FileNotFoundError, ConnectionError
            As when it is run.
        """
        check_integer("seed", context.seed, low=0)
        require_files(context.data, self.needs_data, download=context.download, say=context.say)

    def record(self, result: Result, context: Context) -> dict[str, Any]:
        """Turn a result into plain data for a JSON file."""
        return {
            "name": self.name,
            "title": self.title,
            "place": self.place,
            "shows": self.shows,
            "quick": context.quick,
            "seed": context.seed,
            "environment": environment(),
            "cpu_seconds": result.cpu_seconds,
            "rows": [dict(row) for row in result.rows],
            "paper": beside_ours(self.name, result.rows),
            "targets": [
                {
                    "name": target.name,
                    "measured": target.measured,
                    "paper": "-" if target.paper is None else target.paper,
                    "target": f"{target.kind} {target.bound:g}",
                    "met": verdict(target, context.quick),
                    "claim": list(target.claim),
                }
                for target in result.targets
            ],
            "figures": [
                {"file": figure_file(self, drawing, context), "caption": drawing.caption}
                for drawing in result.drawings
            ],
            "notes": list(result.notes),
        }


def verdict(target: Target, quick: bool) -> str:
    """Whether a target is met, in words; the targets are for the full settings."""
    if quick:
        return "not judged: quick run"
    return "met" if target.met else "missed"


def result_file(experiment: Experiment, context: Context) -> str:
    """Name of the file of a result; quick runs are stored apart."""
    return f"{experiment.name}{'-quick' if context.quick else ''}.json"


def figure_file(
    experiment: Experiment, drawing: Drawing, context: Context, ending: str = ".png"
) -> str:
    """Name of the file of a figure."""
    return f"{experiment.name}-{drawing.name}{'-quick' if context.quick else ''}{ending}"


def environment() -> dict[str, str]:
    """Versions and machine, to be quoted beside numbers."""
    import numba
    import scipy
    import sklearn

    import mercer

    return {
        "processor": _processor(),
        "python": platform.python_version(),
        "mercer": mercer.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "BLAS threads": "1",
    }


def _processor() -> str:
    """Name of the processor, as the operating system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
