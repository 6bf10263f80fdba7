"""Fair comparisons of solvers: the same rows, the same clock, two ways to stop (DSG, Section 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.kernels import Kernel
from mercer.threads import one_blas_thread
from mercer.validation import check_real
from mercer_reproduction._experiment import Drawing
from mercer_reproduction.baselines import Solver
from mercer_reproduction.baselines._base import Array, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Errors are measured after these parts of a run, and at its end.
_MOMENTS = tuple(2.0**-k for k in range(5, 0, -1))


@dataclass(frozen=True)
class Task:
    """A classification problem with labels -1 and +1, and the settings that all methods share.

    Attributes
    ----------
    X, y : ndarrays of shapes (n_rows, n_inputs) and (n_rows,)
        Training rows and labels.
    X_test, y_test : ndarrays of shapes (n_test, n_inputs) and (n_test,)
        Rows on which errors are measured.
    kernel : Kernel
        With its numbers resolved.
    regularization : float
        nu.
    batch_size : int
        Rows of a step.
    seed : int
        Of orders and features.
    """

    X: Floats
    y: Array
    X_test: Floats
    y_test: Array
    kernel: Kernel
    regularization: float
    batch_size: int
    seed: int = 0

    def head(self, n_rows: int) -> Task:
        """Take the first rows only as a training set."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])


@dataclass(frozen=True)
class Method:
    """A way to solve a task.

    Attributes
    ----------
    name : str
        Name in tables.
    start : callable
        Makes a solver for a task. Its time is not counted (DSG does not count Nyström's
        preprocessing either).
    """

    name: str
    start: Callable[[Task], Solver]


@dataclass(frozen=True)
class Criterion:
    """When to stop: after ``passes`` over the rows or after ``cpu_seconds``; one of them."""

    passes: float | None = None
    cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.passes is None) == (self.cpu_seconds is None):
            raise ValueError(
                f"A criterion is either a number of passes or of CPU seconds, got passes="
                f"{self.passes!r} and cpu_seconds={self.cpu_seconds!r}. Give one of them."
            )
        name, value = ("passes", self.passes) if self.passes else ("cpu_seconds", self.cpu_seconds)
        check_real(name, value, low=0.0, open_low=True)


def one_pass() -> Criterion:
    """SC1 of DSG: every method sees each row once."""
    return Criterion(passes=1.0)


def same_time(course: Course) -> Criterion:
    """SC2 of DSG: every method gets the CPU time that another one took."""
    return Criterion(cpu_seconds=course.cpu_seconds)


@dataclass(frozen=True)
class Course:
    """How a run went.

    Attributes
    ----------
    method : str
        Name of the method.
    passes : float
        Rows visited / rows there are.
    cpu_seconds : float
        CPU time of the process in the steps; not of making the solver, nor of measuring errors.
    error_percent : float
        Test error at the end.
    curve : list of (float, float, float)
        Passes, CPU seconds and test error in percent along the run.
    """

    method: str
    passes: float
    cpu_seconds: float
    error_percent: float
    curve: list[tuple[float, float, float]]

    def row(self, **more: Any) -> dict[str, Any]:
        """Row of a table; ``more`` are columns put first."""
        return {
            **more,
            "method": self.method,
            "passes": self.passes,
            "CPU s": self.cpu_seconds,
            "test error %": self.error_percent,
        }


def compare(
    task: Task,
    methods: Iterable[Method],
    criterion: Criterion,
    *,
    say: Callable[[str], object] | None = None,
) -> list[Course]:
    """Run methods on a task until a criterion stops them.

    Parameters
    ----------
    task : Task
        The problem.
    methods : iterable of Method
        Run one after the other, on one BLAS thread.
    criterion : Criterion
        When to stop. After a number of passes: before the step that would exceed it; so a last
        batch that is short is not learned. After a time: with the step that exceeds it.
    say : callable or None, default=None
        Told the result of each run.

    Returns
    -------
    courses : list of Course
        In the order of the methods.
    """
    courses = []
    with one_blas_thread():
        for method in methods:
            _warm_up(task, method)
            course = _run(task, method, criterion)
            courses.append(course)
            if say is not None:
                say(
                    f"{course.method}: {course.error_percent:.2f} % after {course.passes:.2f} "
                    f"passes, {course.cpu_seconds:.2f} CPU s"
                )
    return courses


def _warm_up(task: Task, method: Method) -> None:
    """Compile, or load what was compiled, outside the clock."""
    solver = method.start(task.head(4 * task.batch_size))
    for _ in range(2):
        solver.step()
    solver.decision_function(task.X_test[:2])


def _run(task: Task, method: Method, criterion: Criterion) -> Course:
    solver, n = method.start(task), len(task.X)
    rows, last, seconds = 0, 0, 0.0
    moments, curve = list(_MOMENTS), []
    while True:
        passes = rows / n
        if criterion.passes is not None:
            done = passes / criterion.passes
            over = rows + last > criterion.passes * n
        else:
            assert criterion.cpu_seconds is not None
            done = seconds / criterion.cpu_seconds
            over = done >= 1.0
        if over:
            error = _error_percent(task, solver)
            curve.append((passes, seconds, error))
            return Course(method.name, passes, seconds, error, curve)
        if moments and rows and done >= moments[0]:
            moments = [moment for moment in moments if moment > done]
            curve.append((passes, seconds, _error_percent(task, solver)))
        start = time.process_time()
        last = solver.step()
        seconds += time.process_time() - start
        rows += last


def _error_percent(task: Task, solver: Solver) -> float:
    wrong = np.sign(solver.decision_function(task.X_test)) != task.y_test
    return 100.0 * float(wrong.mean())


def draw_courses(name: str, caption: str, courses: Sequence[Course]) -> Drawing:
    """Figure of test error against CPU time, one line for each run."""

    def draw(ax: Axes) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        for number, course in enumerate(courses):
            _, seconds, errors = zip(*course.curve, strict=True)
            # Colours repeat after seven lines, line styles tell those apart.
            style = ("-", "--", ":")[number // 7 % 3]
            ax.plot(seconds, errors, style, marker="o", markersize=3, label=course.method)
        ax.set_xscale("log")
        # Not down to 0, which a lucky test set gives.
        ax.set_yscale("log", nonpositive="clip")
        for axis, subs in ((ax.xaxis, (1.0,)), (ax.yaxis, (1.0, 2.0, 5.0))):
            axis.set_major_locator(LogLocator(subs=subs))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("CPU seconds")
        ax.set_ylabel("test error, %")

    return Drawing(name, caption, draw)
