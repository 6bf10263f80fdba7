"""Workers of an engine, as its options declare them, and their progress on standard error."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from mercer.exceptions import ParameterError
from mercer.validation import check_integer
from mercer_app.cli._console import LINE_SECONDS
from mercer_app.cli._options import EngineName
from mercer_app.messages import note
from mercer_app.models.shards import Workers
from mercer_cluster import Progress

# What is done in a stage, and to what.
_STAGES = {
    "survey": ("looking at shards", "shards"),
    "plan": ("choosing scales, lengths and forms", "rows of a sample"),
    "learn": ("learning", "shards"),
    "solve": ("solving", "regions"),
    "predict": ("predicting", "shards"),
    "evaluate": ("evaluating", "shards"),
}


class StageView:
    """Progress of the workers of an engine.

    Parameters
    ----------
    quiet : bool, default=False
        Show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bars: Bars | None = None
        self._bar: TaskID | None = None
        self._stage = ""
        self._n_rows = 0
        self._began = self._line_at = self._latest = time.monotonic()
        if self._console.is_terminal and not quiet:
            wide = self._console.width >= 80
            self._bars = Bars(
                TextColumn("{task.description}", markup=False),
                *([BarColumn()] if wide else []),
                TextColumn("{task.fields[figures]}", markup=False),
                TimeRemainingColumn(),
                console=self._console,
            )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
            self._bar = self._bars.add_task("starting workers", total=None, figures="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, progress: Progress) -> None:
        """Show that a task is done."""
        now = time.monotonic()
        what, things = _STAGES[progress.stage]
        if progress.stage != self._stage:  # it began when the last one ended
            self._bar = None if self._stage else self._bar
            self._stage, self._began, self._n_rows = progress.stage, self._latest, 0
        self._latest = now
        self._n_rows += progress.n_rows
        if self._quiet:
            return
        if progress.stage == "plan":
            self._show(what, f"{progress.n_rows:,} {things}", progress, line=not progress.done)
            return
        figures = [f"{progress.done:,} of {progress.total:,} {things}"]
        if self._n_rows:
            speed = self._n_rows / max(now - self._began, 1e-9)
            figures += [f"{self._n_rows:,} rows", f"{speed:,.0f} rows/s"]
        figures += [f"{progress.n_workers} worker{'s' * (progress.n_workers != 1)}"]
        late = now - self._line_at >= LINE_SECONDS
        self._show(what, "  ".join(figures), progress, line=late or progress.done == progress.total)

    def _show(self, what: str, figures: str, progress: Progress, *, line: bool) -> None:
        if self._bars is not None:
            if self._bar is None:
                self._bar = self._bars.add_task(what, total=None, figures="")
            total = progress.total if progress.done else None  # nobody knows how long it takes
            self._bars.update(
                self._bar,
                description=what,
                total=total,
                completed=progress.done,
                figures=figures,
            )
        elif line:
            self._line_at = self._latest
            note(f"{what}: {figures}")


ONE_THREAD = "Each worker has one thread; --workers says how many there are."


class EngineOptions(Protocol):
    """Options of commands that an engine may do."""

    @property
    def engine(self) -> EngineName | None: ...

    @property
    def workers(self) -> int | None: ...

    @property
    def address(self) -> str | None: ...

    @property
    def log(self) -> Path | None: ...


def workers_of(options: EngineOptions) -> Workers | None:
    """Return the workers' engine; None for this process, as without an engine.

    Raises
    ------
    ParameterError
        If options of an engine are given without one.
    """
    given = {"workers": options.workers, "address": options.address, "log": options.log}
    if options.engine is None:
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    f"`--{name} {value}` is about the workers of an engine, but none is chosen.",
                    parameter=name,
                    value=value,
                    mend="Add --engine ray or dask, or leave it out.",
                )
        return None
    if options.workers is not None:
        check_integer("n_workers", options.workers, low=1)
    return Workers(options.engine.value, options.workers, options.address)


def check_alone(options: EngineOptions, why: dict[str, str]) -> None:
    """Refuse options that do not go together with an engine.

    Parameters
    ----------
    options : record of options
        Options of a command; nothing is refused without an engine.
    why : dict of str to str
        Names of options that must be as they are by default, and a sentence why.
    """
    if options.engine is None:
        return
    for name, reason in why.items():
        value = getattr(options, name)
        if value != type(options).__dataclass_fields__[name].default:  # type: ignore[attr-defined]
            option = f"--{name.replace('_', '-')}"
            shown = option if value is True else f"{option} {value}"
            raise ParameterError(
                f"`{shown}` does not go together with `--engine {options.engine}`.",
                parameter=name,
                value=value,
                why=reason,
                mend="Leave one of them out.",
            )


@contextmanager
def logged(file: Path | None) -> Iterator[None]:
    """Write what the workers of an engine did to a file meanwhile, a line for each task."""
    if file is None:
        yield
        return
    logger = logging.getLogger("mercer_cluster")
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        logger.error("%s", error)
        raise
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()
