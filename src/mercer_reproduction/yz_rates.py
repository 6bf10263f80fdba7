"""Excess risks of Ying and Zhou's algorithms, beside the rates of their theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import KOMP
from mercer.kernels import Linear
from mercer.losses import LeastSquaresMargin, Logistic, Loss, QNormHinge, SquaredHinge
from mercer.recipes import unregularized, unregularized_pairs
from mercer.schedules import PowerDecay, Relative
from mercer_reproduction._circle import Circle, StreamModel, mean_excess, slope
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_POWERS = (0.5, 2.0 / 3.0, 0.8, 0.9)
_SLACK = 0.03
_FILES = (
    *("1-logistic", "1-squared-hinge", "1-q-norm", "1-least-squares"),
    *("2-logistic", "2-squared-hinge", "2-least-squares"),
)
# Dictionaries of all points of the circle: nothing is lost, and rows take microseconds.
_EXACT = KOMP(tolerance=0.0)

Steps = float | Callable[[int], float]


def _slower_than_powers(t: int) -> float:
    """Return a step of Theorem 1 that is no power: the squares are summable, the steps are not."""
    return 1.0 / (math.sqrt(t) * math.log(1.0 + t))


def _schedule(steps: Steps) -> Callable[[int], float]:
    return steps if callable(steps) else PowerDecay(1.0, steps)


@dataclass(frozen=True)
class _Case:
    """An algorithm with a loss on a circle.

    Attributes
    ----------
    name : str
        Algorithm and loss.
    circle : Circle
        Rows.
    start : callable
        Makes a learner with steps that fall by a power, or by another schedule.
    risk : callable
        Risk of the scores of all points.
    optimum : ndarray of shape (m,)
        Scores of least risk.
    exponent : callable
        The theorem's exponent for a power of the steps; None where it does not cover it.
    judged : float
        Power that the theorem proves the best rate for.
    limit : float or None
        Largest excess at the end for it; None if it is only measured.
    first, last : int
        Logarithms to the base 2 of the first and last numbers of rows at which is measured.
    n_streams : int
        Independent streams.
    """

    name: str
    circle: Circle
    start: Callable[[Steps], StreamModel]
    risk: Callable[[Array], float]
    optimum: Array
    exponent: Callable[[float], float | None]
    judged: float
    limit: float | None
    first: int
    last: int
    n_streams: int

    def checkpoints(self, quick: bool) -> list[int]:
        """Numbers of rows at which is measured."""
        return [2**k for k in range(self.first, self.last - (4 if quick else 0) + 1)]

    def course(self, power: Steps, context: Context) -> Array:
        """Mean excess risk at the checkpoints."""
        least = self.risk(self.optimum)
        return mean_excess(
            self.circle,
            lambda: self.start(power),
            lambda scores: self.risk(scores) - least,
            self.checkpoints(context.quick),
            2 if context.quick else self.n_streams,
            context.seed,
        )


def _pointwise(name: str, loss: Loss, circle: Circle, limit: float | None = None) -> _Case:
    """Algorithm 1; first step 1 / (L kappa²)."""
    alpha = float(loss.hoelder_exponent or math.nan)

    def start(steps: Steps) -> StreamModel:
        step_size = Relative(_schedule(steps))
        return unregularized(loss, kernel=Linear(), expansion=_EXACT, step_size=step_size)

    def exponent(power: float) -> float | None:  # Theorem 2
        if power <= 1.0 / (1.0 + alpha) + 1e-9:
            return None
        return min(alpha * power / 2.0, 1.0 - power)

    return _Case(
        f"Algorithm 1, {name}",
        circle,
        start,
        lambda scores: circle.risk(loss, scores),
        circle.optimum(loss),
        exponent,
        2.0 / (alpha + 2.0),
        limit,
        first=8,
        last=14,
        n_streams=32,
    )


def _pairwise(name: str, loss: Loss, circle: Circle, limit: float | None = None) -> _Case:
    """Algorithm 2, all past rows in the buffer; largest first step that the theorems allow."""
    gram = circle.rows @ circle.rows.T
    bound = 2.0 * float(1.0 - gram.min())  # of the difference kernel
    first_step = 1.0 / (4.0 * bound * float(loss.hoelder_constant or math.nan))

    def start(steps: Steps) -> StreamModel:
        schedule = _schedule(steps)
        model = unregularized_pairs(
            loss, kernel=Linear(), step_size=lambda t: first_step * schedule(t)
        )
        return model.set_params(expansion=_EXACT)

    def exponent(power: float) -> float | None:
        if power <= 0.5:
            return None
        # Theorem 4 for slopes with a bound, Theorem 3 for the others; delta goes to 0.
        variance = power / 2.0 - 0.25 if loss.lipschitz is None else power / 4.0
        return min(variance, 1.0 - power)

    return _Case(
        f"Algorithm 2, {name}",
        circle,
        start,
        lambda scores: circle.pair_risk(loss, scores),
        circle.pair_optimum(loss),
        exponent,
        2.0 / 3.0,
        limit,
        first=6,
        last=12,
        n_streams=16,
    )


def _cases() -> list[_Case]:
    small, large = Circle.of_log_odds(16, largest=1.5), Circle.of_margins(64, largest=0.8)
    return [
        _pointwise("logistic", Logistic(), Circle.of_log_odds(64, largest=2.0), 2.7e-3),
        _pointwise("squared hinge", SquaredHinge(), large, 4.1e-3),
        _pointwise("q-norm hinge, q = 1.5", QNormHinge(1.5), large),
        _pointwise("least squares", LeastSquaresMargin(), large),
        _pairwise("logistic", Logistic(), small, 5.1e-3),
        _pairwise("squared hinge", SquaredHinge(), small, 6.6e-3),
        _pairwise("least squares", LeastSquaresMargin(), small),
    ]


def _run(context: Context) -> Result:
    cases = _cases()
    courses: list[dict[float, Array]] = []
    rows: list[dict[str, Any]] = []
    targets: list[Target] = []

    def note(case: _Case, steps: str, excess: Array, proven: float | None) -> float:
        measured = slope(case.checkpoints(context.quick), excess)
        rows.append(
            {
                "algorithm and loss": case.name,
                "theta": steps,
                "slope measured": round(measured, 3),
                "slope proven": "" if proven is None else round(-proven, 3),
                "rows": case.checkpoints(context.quick)[-1],
                "excess risk at the end": float(excess[-1]),
            }
        )
        return measured

    for case in cases:
        context.say(case.name)
        course = {power: case.course(power, context) for power in _POWERS}
        courses.append(course)
        for power, excess in course.items():
            proven = case.exponent(power)
            measured = note(case, f"{power:.3g}", excess, proven)
            name = f"{case.name}, theta {power:.3g}"
            if proven is not None:
                targets.append(Target(f"{name}: slope", measured, _SLACK - proven))
            if power == case.judged and case.limit is not None:
                targets.append(Target(f"{name}: excess at the end", float(excess[-1]), case.limit))
        if case.name.startswith("Algorithm 1") and case.judged == _POWERS[1]:
            excess = case.course(_slower_than_powers, context)
            note(case, "1/2, over log(1 + t)", excess, None)
            share = float(excess[-1] / excess[0])
            targets.append(Target(f"{case.name}, steps over log(1 + t): excess left", share, 0.5))
    return Result(
        rows,
        targets=targets,
        drawings=[
            _drawing(file, case, course, case.checkpoints(context.quick))
            for file, case, course in zip(
                _FILES,
                cases,
                courses,
                strict=True,
            )
        ],
        notes=[
            "Inputs are points on a circle, all as frequent (64 for Algorithm 1, 16 for Algorithm "
            "2), so that risks are finite sums and their minimisers known; the eigenvalues of the "
            "kernel fall like the square of the frequency, and the target is barely in its space. "
            f"Means over {cases[0].n_streams} streams (Algorithm 1) and {cases[-1].n_streams} "
            "(Algorithm 2). Slopes are straight lines fitted to the logarithms at powers of 2. "
            "Steps are c t^(-theta), c = 1 / (L kappa²) for Algorithm 1 and 1 / (4 L kappa²) with "
            "the bound of the pair kernel for Algorithm 2, the largest that its theorems allow.",
            "The theorems hold as bounds: measured slopes are steeper, about "
            "-min(theta, 1 - theta + .1) for Algorithm 1. A theta of 1/2 is outside of them and no "
            "worse here. A target is the proven slope plus .03. Steps t^(-1/2) / log(1 + t) are no "
            "power, and Theorem 1 has no rate for them: it says that the excess goes to 0.",
        ],
    )


def _drawing(file: str, case: _Case, course: dict[float, Array], t: Sequence[int]) -> Drawing:
    def draw(ax: Axes) -> None:
        for power, excess in course.items():
            ax.plot(t, excess, marker="o", markersize=3, label=f"theta = {power:.3g}")
        proven = case.exponent(case.judged)
        if proven is not None:
            line = course[case.judged][0] * (np.array(t) / t[0]) ** -proven
            ax.plot(t, line, ":", color="0.4", label=f"slope proven for {case.judged:.3g}")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("rows t")
        ax.set_ylabel("mean excess risk")

    return Drawing(
        file,
        f"{case.name}: mean excess risk of the last iterate against rows, steps c t^(-theta); "
        f"dotted: a line with the slope that the theorem proves for theta = {case.judged:.3g}.",
        draw,
    )


EXPERIMENT = Experiment(
    name="yz-rates",
    title="Rates of convergence without regularization",
    place="Ying and Zhou, Theorems 1 to 4, Examples 1 to 4",
    shows=(
        "The excess risk of the last iterate falls no slower than the theorems say, pointwise and "
        "pairwise, on a design where the optimum is known."
    ),
    run=_run,
)
