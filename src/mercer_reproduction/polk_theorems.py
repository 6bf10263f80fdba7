"""POLK's theorems on a problem whose minimiser is known: falling steps, and constant ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Gaussian
from mercer.recipes import polk
from mercer.schedules import InverseTime
from mercer.theory import polk_radius
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction.dsg_losses import Toy, toy_rows

Array = NDArray[np.float64]

_KERNEL, _RIDGE = Gaussian(0.5), 0.01
_CONSTANT = (0.5, 0.1, 0.02)
_FALLING = InverseTime(0.5, offset=400)
_K = 0.05  # epsilon = K eta^1.5 for constant steps
_ROWS, _QUICK_ROWS = (1_000, 10_000, 100_000, 1_000_000), (300, 3_000)


class _Course(NamedTuple):
    rows: tuple[int, ...]
    distances: list[float]
    orders: list[int]


class _Problem:
    """Squared loss on given rows: the minimiser, and how far functions are from it."""

    def __init__(self, toy: Toy) -> None:
        self.X, self.y = toy.X, toy.y
        gram = np.asarray(_KERNEL(self.X), dtype=np.float64)
        n = len(self.y)
        self.a = np.asarray(np.linalg.solve(gram + n * _RIDGE * np.eye(n), self.y), np.float64)
        self.norm = math.sqrt(float(self.a @ gram @ self.a))
        # Mean squared norm of a stochastic gradient at the minimiser, where k(x, x) = 1.
        residuals = gram @ self.a - self.y
        self.variance = float(np.mean(residuals**2)) - (_RIDGE * self.norm) ** 2

    def distance(self, model: Any) -> float:
        """Norm of the model's function less the minimiser."""
        points = np.vstack([model.dictionary_, self.X])
        w = np.concatenate([model.coefficients_[:, 0], -self.a])
        gram = np.asarray(_KERNEL(points.astype(np.float64)), dtype=np.float64)
        return math.sqrt(max(float(w @ gram @ w), 0.0))

    def course(
        self, eta: float | Callable[[int], float], rows: tuple[int, ...], seed: int
    ) -> _Course:
        """Learn rows drawn at random, one a step, and measure after so many."""
        K = 1.0 if callable(eta) else _K
        model = polk("squared", eta=eta, K=K, regularization=_RIDGE, batch_size=1, kernel=_KERNEL)
        drawn = np.random.default_rng(seed).integers(len(self.y), size=rows[-1])
        distances, orders, done = [], [], 0
        for stop in rows:
            model.partial_fit(self.X[drawn[done:stop]], self.y[drawn[done:stop]])
            distances.append(self.distance(model))
            orders.append(int(model.model_order_))
            done = stop
        return _Course(rows, distances, orders)

    def radius(self, eta: float) -> float:
        """Radius of Theorem 2."""
        return polk_radius(
            step_size=eta, regularization=_RIDGE, parsimony=_K, variance=self.variance
        )


def _run(context: Context) -> Result:
    problem = _Problem(toy_rows(context.seed))
    checkpoints = _QUICK_ROWS if context.quick else _ROWS
    courses: dict[str, _Course] = {}
    radii: dict[str, float] = {}
    for eta in (_FALLING, *_CONSTANT):
        name = "falling, 1/t" if callable(eta) else f"constant, {eta:g}"
        context.say(name)
        courses[name] = problem.course(eta, checkpoints, context.seed)
        if not callable(eta):
            radii[name] = problem.radius(eta)
    rows = [
        {
            "steps": name,
            "rows": n,
            "distance / norm of the minimiser": distance / problem.norm,
            "radius of Theorem 2 / norm": radii[name] / problem.norm if name in radii else "",
            "points": order,
        }
        for name, course in courses.items()
        for n, distance, order in zip(*course, strict=True)
    ]
    falling = courses["falling, 1/t"]
    constant = [courses[f"constant, {eta:g}"] for eta in _CONSTANT]
    return Result(
        rows,
        targets=[
            Target(
                "Theorem 1, falling steps: distance at the end / at first",
                falling.distances[-1] / falling.distances[0],
                0.2,
                claim=("Table 1",),
            ),
            Target(
                "Theorem 2, constant steps: largest distance / radius",
                max(
                    course.distances[-1] / radius
                    for course, radius in zip(constant, radii.values(), strict=True)
                ),
                1.0,
                claim=("Table 1",),
            ),
            Target(
                "Theorem 3, constant steps: most points at the end / at the second mark",
                max(course.orders[-1] / course.orders[1] for course in constant),
                1.25,
                claim=("Table 1",),
            ),
        ],
        drawings=[
            Drawing(
                "distance",
                "Distance to the minimiser after so many rows, as a share of its norm.",
                lambda axes: _draw(axes, courses, problem.norm),
            )
        ],
        notes=[
            f"{len(problem.y)} rows in one dimension, drawn at random one a step; {_KERNEL!r}, "
            f"squared loss, regularization {_RIDGE:g}. Falling steps are .5 / (1 + t/400) with a "
            f"tolerance of their square (eq. (22)); constant steps have K = {_K:g}. The variance "
            "in the radius is that of the gradients at the minimiser.",
        ],
    )


def _draw(axes: Any, courses: dict[str, _Course], norm: float) -> None:
    for name, course in courses.items():
        axes.loglog(course.rows, np.array(course.distances) / norm, marker=".", label=name)
    axes.set_xlabel("rows")
    axes.set_ylabel("distance / norm of the minimiser")
    axes.legend()


EXPERIMENT = Experiment(
    name="polk-theorems",
    title="Falling and constant steps, and how far they lead",
    place="POLK, Theorems 1 to 3 and Table 1",
    shows=(
        "With falling steps the distance to the minimiser goes to 0. With constant ones it ends in "
        "a ball, with a number of points that no longer grows."
    ),
    run=_run,
)
