"""Kernel ridge regression on two inputs (DSG, Section 7, "Kernel Ridge Regression", Figure 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Gaussian
from mercer_reproduction._data import median_distance
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._ridge_line_up import (
    BATCH,
    BEST,
    FEW_FEATURES,
    PEER,
    PLAIN,
    RIDGE,
    STEP,
    Method,
    Model,
    exact,
    own_methods,
    peers,
)
from mercer_reproduction._synthetic import HALF_WIDTH, Rows, slice_inputs, synthetic, truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Lines of the figure of times: more could not be told apart.
_TIMED = (
    PLAIN,
    "DSG newton",
    "DSG cyclic, 1 x 384",
    BEST,
    "NORMA",
    "k-SDCA",
    "r-SDCA",
    "n-SDCA",
    "r-Pegasos",
    "n-Pegasos",
    PEER,
    "RBFSampler(1000)",
)


@dataclass
class Course:
    """How a run went: rows, CPU seconds and mean squared error to the truth, along it."""

    method: str
    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def at(self, n_rows: int) -> float:
        """Error after so many rows."""
        return self.errors[self.rows.index(n_rows)]

    def slope(self, first: int, last: int) -> float:
        """Slope of log error over log rows, by least squares, between two numbers of rows."""
        kept = [i for i, n in enumerate(self.rows) if first <= n <= last]
        n, e = (np.log(np.array(v)[kept]) for v in (self.rows, self.errors))
        return float(np.polyfit(n, e, 1)[0])

    def row(self) -> dict[str, Any]:
        """Row of a table: the end of the run."""
        return {
            "method": self.method,
            "rows": self.rows[-1],
            "CPU s": self.seconds[-1],
            "MSE to the truth": self.errors[-1],
        }


def run_method(method: Method, data: Rows, test: Array) -> tuple[Course, Model]:
    """Learn rows, chunk by chunk, and measure when their number has doubled, and at the end.

    The clock runs in what makes the model ready for a prediction; starting it counts, too. A model
    that is made ready by solving is charged for one solution, the last one.
    """
    seen = data.head(method.n_rows)
    clock = time.process_time()
    model = method.start(seen)
    learning = time.process_time() - clock
    course, measure_at, f = Course(method.name), method.chunk, truth(test)
    for start in range(0, len(seen.X), method.chunk):
        rows = slice(start, start + method.chunk)
        clock = time.process_time()
        model.partial_fit(seen.X[rows], seen.y[rows])
        learning += time.process_time() - clock
        stop = min(rows.stop, len(seen.X))
        if stop >= measure_at or stop == len(seen.X):
            measure_at = 2 * stop
            clock = time.process_time()
            model.predict(test[:1])
            ready = time.process_time() - clock
            course.rows.append(stop)
            course.seconds.append(learning + ready)
            course.errors.append(float(np.mean((model.predict(test) - f) ** 2)))
    return course, model


def _run(context: Context) -> Result:
    n, n_test = (2**13, 256) if context.quick else (2**20, 2**13)
    data, test = synthetic(n, context.seed), synthetic(n_test, context.seed + 1).X
    kernel = Gaussian(0.1 * median_distance(data.X.astype(np.float32), context.seed))
    courses, models = [], {}
    methods = [
        *own_methods(kernel, n, context.seed),
        *peers(kernel, n, context.seed),
        exact(kernel, 500 if context.quick else 2500),
    ]
    for method in methods:
        run_method(method, data.head(min(2 * method.chunk, 2048)), test[:2])  # compiles
        course, models[method.name] = run_method(method, data, test)
        courses.append(course)
        context.say(
            f"{course.method}: {course.errors[-1]:.2e} after {course.rows[-1]:,} rows, "
            f"{course.seconds[-1]:.1f} CPU s"
        )
    return Result(
        [course.row() for course in courses],
        targets=_targets(courses, n),
        drawings=_drawings(courses, models[PLAIN], data),
        notes=[
            f"{n:,} rows; {kernel!r} (a tenth of the median distance), regularization {RIDGE:g}, "
            f"batches of {BATCH} rows and blocks of {BATCH} features for the plain steps "
            f"(size {STEP:g}) and for newton. The error is the mean square of f less the function "
            f"without noise, on {n_test:,} points; the noise of a row has variance 0.01. Runs end "
            "after the rows that the table gives.",
            "Cyclic mode makes one pass in batches of an eighth or a sixteenth of all rows; the "
            "step of a block's i-th visit is 1/i, so that its coefficients are a mean of "
            "solutions. GP features: `GaussianProcessRegressor` with a noise of n times the "
            "regularization, which is streaming ridge regression on Sobol features.",
            f"Methods r- and n- have {FEW_FEATURES} features. NORMA and k-SDCA end early, as a "
            "pass costs the square of its rows. The steps 1 / (nu t) of Pegasos begin at a "
            "million: with squared loss they are stable only after thousands of steps, and until "
            "then only the bound on the norm holds it. Nystroem and RBFSampler are those of "
            "scikit-learn, with ridge regression by normal equations; how good 300 landmarks are "
            "depends on their draw.",
        ],
    )


def _targets(courses: Sequence[Course], n: int) -> list[Target]:
    named = {course.method: course for course in courses}
    plain, best = named[PLAIN], named[BEST]
    rivals = [course for name, course in named.items() if name.startswith(PEER)]
    middle = min(64, n // BATCH)
    return [
        Target("plain, averaged: MSE after 64 steps", plain.at(middle * BATCH), 1.5e-4),
        Target(
            "plain, averaged: slope of log MSE over log steps, 4 to 64",
            plain.slope(4 * BATCH, middle * BATCH),
            -0.9,
        ),
        Target(
            "GP features, 384: MSE / least one of Nystroem(300), three draws",
            best.errors[-1] / min(course.errors[-1] for course in rivals),
            1.0,
        ),
        Target(
            "GP features, 384: CPU time / least one of Nystroem(300), three draws",
            best.seconds[-1] / min(course.seconds[-1] for course in rivals),
            1.0,
        ),
    ]


def _drawings(courses: Sequence[Course], model: Model, data: Rows) -> list[Drawing]:
    by_steps = [course for course in courses if course.rows[0] == BATCH]
    by_time = [course for course in courses if course.method in _TIMED]

    def draw_function(ax: Axes) -> None:
        line = slice_inputs(201)
        near = np.abs(data.X[:, 1]) < HALF_WIDTH * 200.0 / len(data.X)  # some 200 rows
        ax.plot(*_points(data, near), ".", color="0.7", markersize=3, label="rows near the line")
        ax.plot(line[:, 0], truth(line), label="the function")
        ax.plot(line[:, 0], model.predict(line), "--", label=PLAIN)
        ax.set_xlabel("first input (the second one is 0)")
        ax.set_ylabel("y")

    def draw_rate(ax: Axes) -> None:
        _draw_lines(ax, by_steps, lambda course: np.array(course.rows) / BATCH)
        plain = next(c for c in by_steps if c.method == PLAIN)
        t = np.array(plain.rows) / BATCH
        ax.plot(t, plain.errors[2] * t[2] / t, ":", color="0.4", label="1/t")
        ax.set_xlabel(f"steps t of {BATCH} rows")

    def draw_times(ax: Axes) -> None:
        _draw_lines(ax, by_time, lambda course: np.array(course.seconds))
        ax.set_xlabel("CPU seconds")

    def draw_surface(ax: Axes) -> None:
        line = np.linspace(-HALF_WIDTH, HALF_WIDTH, 101)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        surface = model.predict(grid).reshape(line.size, line.size)
        mesh = ax.pcolormesh(line, line, surface, cmap="viridis")
        ax.figure.colorbar(mesh, ax=ax, label="learned function")
        ax.set_aspect("equal")
        ax.set_xlabel("first input")
        ax.set_ylabel("second input")

    return [
        Drawing("surface", f"The function that {PLAIN} learned.", draw_surface),
        Drawing(
            "function",
            "The function along a line, noisy rows, and what was learned.",
            draw_function,
        ),
        Drawing(
            "rate", "Mean squared error to the function against steps; dotted: 1/t.", draw_rate
        ),
        Drawing("time", "Mean squared error to the function against CPU time.", draw_times),
    ]


def _points(data: Rows, chosen: NDArray[np.bool_]) -> tuple[Array, Array]:
    return data.X[chosen, 0], data.y[chosen]


def _draw_lines(ax: Axes, courses: Sequence[Course], abscissae: Callable[[Course], Array]) -> None:
    for number, course in enumerate(courses):
        style = ("-", "--", ":")[number // 7 % 3]
        ax.plot(
            abscissae(course), course.errors, style, marker="o", markersize=3, label=course.method
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylabel("mean squared error")


EXPERIMENT = Experiment(
    name="dsg-ridge",
    title="Synthetic kernel ridge regression",
    place="DSG, Section 7, Figure 4",
    shows=(
        "The averaged iterate of doubly stochastic gradients falls like 1/t for the first hundred "
        "steps, more slowly after them; and what the other modes and solvers reach in which CPU "
        "time, on two inputs."
    ),
    run=_run,
)
