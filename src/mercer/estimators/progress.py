"""Progress reports of a running fit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from mercer.learning import Learner


class Progress(NamedTuple):
    """Argument of the callback of ``fit``, which is called every few thousand rows.

    Attributes
    ----------
    n_samples : int
        Rows learned so far.
    n_total : int
        Rows that this fit will learn, over all passes.
    loss : float
        Mean progressive loss of the latest window; NaN before the first one.
    model_order : int
        Number of dictionary points or random features.
    seconds : float
        Wall time since the start of the fit.
    rows_per_second : float
        Rows learned per second.
    """

    n_samples: int
    n_total: int
    loss: float
    model_order: int
    seconds: float
    rows_per_second: float


class Reporter:
    """Reports the progress of a fit to a callback and, if asked to, to standard error.

    Parameters
    ----------
    learner : Learner
        Learner of the fit.
    n_total : int
        Rows that the learner will receive, over all passes.
    rows_per_sample : int
        Rows of the learner for each sample of the user.
    callback : callable or None
        Called with a :class:`Progress`; stops the fit if it returns a true value.
    verbose : int
        Above 0 writes lines to standard error.
    """

    def __init__(
        self,
        learner: Learner,
        n_total: int,
        rows_per_sample: int,
        callback: Callable[[Progress], object] | None,
        verbose: int,
    ) -> None:
        self.learner, self.n_total = learner, n_total // rows_per_sample
        self.rows_per_sample = rows_per_sample
        self.callback, self.verbose = callback, verbose
        self.start = time.perf_counter()
        self.done = 0

    def __call__(self, n_rows: int) -> bool:
        """Report ``n_rows`` more rows; return whether to stop."""
        self.done += n_rows
        if self.callback is None and not self.verbose:
            return False
        seconds = time.perf_counter() - self.start
        done = self.done // self.rows_per_sample
        progress = Progress(
            done,
            self.n_total,
            # Learners that solve sums at the end have no loss before.
            float(self.learner.history.loss[-1]) if len(self.learner.history) else float("nan"),
            self.learner.function.size,
            seconds,
            done / max(seconds, 1e-9),
        )
        if self.verbose:
            sys.stderr.write(
                f"{progress.n_samples}/{progress.n_total} rows  loss {progress.loss:.4f}  "
                f"model order {progress.model_order}  {progress.rows_per_second:,.0f} rows/s\n"
            )
        return bool(self.callback(progress)) if self.callback is not None else False
