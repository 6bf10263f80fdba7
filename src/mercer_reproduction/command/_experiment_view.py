"""Progress of experiments on standard error: moving bars on a terminal, else plain lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from mercer_app.messages import note

_NARROW = 64  # characters; no bars on terminals below


class ExperimentView:
    """What is running, for how long, and the last sentence that it said.

    Parameters
    ----------
    n_experiments : int
        How many are to be run; with more than one there is a bar over all of them.
    """

    def __init__(self, n_experiments: int) -> None:
        self._total = n_experiments
        self._done = 0
        self._bar: Progress | None = None
        console = Console(stderr=True)
        if not console.is_terminal:
            return
        bars = [] if console.width < _NARROW else [BarColumn(bar_width=20)]
        said = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            *bars,
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}", markup=False, table_column=said),
            console=console,
            transient=True,
            refresh_per_second=2,  # experiments measure the CPU time of the process
            expand=True,
            redirect_stdout=False,  # results stay on standard output
        )
        if n_experiments > 1:
            self._all = self._bar.add_task("all", total=n_experiments, said="")

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Show that an experiment is running; nothing is shown outside of this."""
        if self._bar is None:
            yield
            return
        if self._total > 1:
            self._bar.update(self._all, completed=self._done, said=self._words())
        # Without a total the bar moves to and fro: experiments do not know how long they take.
        self._one = self._bar.add_task(name, total=None, said="starting")
        self._bar.start()
        try:
            yield
        finally:
            self._bar.stop()
            self._bar.remove_task(self._one)

    def finished(self) -> None:
        """Count an experiment as done or left out."""
        self._done += 1

    def say(self, text: str) -> None:
        """Show a sentence in the place of the last one, or write it as a line."""
        if self._bar is None:
            note(text)
        else:
            self._bar.update(self._one, said=text)

    def _words(self) -> str:
        return f"{self._done} of {self._total} done"
