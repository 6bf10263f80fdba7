"""Measured model orders and rates beside what the theory says (COLK, Table I)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import KOMP
from mercer.risks import Semivariance, Tracker
from mercer_reproduction._colk_data import SETTINGS, Pool, clean_error, draw_pool
from mercer_reproduction._colk_methods import ALPHA, UNIT, colk, moments, polk
from mercer_reproduction._colk_nonconvex import Descent, Population, descend
from mercer_reproduction._colk_runs import Method
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._ticks import plain_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_POOL_SEED = 7
_PARSIMONIES = (5.0, 50.0, 400.0)
_STANDARD = 5.0
_CLIP = 2.0
_POLK, _SEMIVARIANCE, _MOMENTS = "POLK", "COLK, semivariance", "COLK, moments 2-4, clip 2"
_NONCONVEX = "COLK, not convex"
_N_POPULATION = 500
_MEAN, _LEAST, _BOUND = "squared gradient, mean", "squared gradient, least", "its bound"
_NO_GRADIENT = dict.fromkeys((_MEAN, _LEAST, _BOUND), "-")


class _Growth(NamedTuple):
    """One way to run: points at some numbers of steps, the last of which has an error."""

    method: str
    parsimony: float
    orders: Array  # (n_moments,), mean over the runs
    clean: float


class _Point(NamedTuple):
    """Runs with one step size."""

    alpha: float
    n_steps: int
    clean: float
    model_order: float


def _semivariance(rate: float) -> Semivariance:
    return Semivariance(
        0.1,
        units=UNIT,
        max_deviation=None,
        clip=10.0 * UNIT,
        tracker=Tracker("momentum", rate=rate, pairs="stream"),
    )


def _of_parsimony(parsimony: float) -> list[Method]:
    """Methods with the tolerance K alpha²."""
    tolerance = parsimony * ALPHA**2
    expansion = KOMP(tolerance=tolerance)
    methods = [
        polk(_POLK, ALPHA, tolerance),
        colk(_SEMIVARIANCE, _semivariance(0.01), expansion=expansion),
    ]
    if tolerance < ALPHA * _CLIP:  # else every step would be undone
        methods.append(colk(_MOMENTS, moments(_CLIP), expansion=expansion))
    return methods


def _grow(method: Method, parsimony: float, pool: Pool, steps: Array, n_sets: int) -> _Growth:
    orders, errors = [], []
    for number in range(n_sets):
        run = method.start(pool.training_set(number, int(steps[-1])))
        found = []
        for moment in steps:
            run.advance(int(moment) - run.n_steps)
            found.append(run.model_order)
        orders.append(found)
        errors.append(clean_error(run.predict, pool.test.X))
    return _Growth(method.name, parsimony, np.mean(orders, axis=0), float(np.mean(errors)))


def _point(alpha: float, n_steps: int, pool: Pool, n_sets: int) -> _Point:
    """COLK with rates as Theorem 2 wants them: beta = alpha / 2, tolerance = 5 alpha²."""
    errors, orders = [], []
    for number in range(n_sets):
        run = colk(_SEMIVARIANCE, _semivariance(alpha / 2.0), alpha=alpha).learn(
            pool.training_set(number, n_steps)
        )
        errors.append(clean_error(run.predict, pool.test.X))
        orders.append(run.model_order)
    return _Point(alpha, n_steps, float(np.mean(errors)), float(np.mean(orders)))


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _run(context: Context) -> Result:
    quick = context.quick
    steps = np.array([100, 300] if quick else [500, 2400, 10000, 20000])
    pool = draw_pool(SETTINGS["B"], seed=_POOL_SEED + context.seed, n_rows=600 if quick else 40000)
    growths = []
    for parsimony in _PARSIMONIES:
        # The widest tolerance has nothing to show that takes long.
        last = len(steps) if parsimony < _PARSIMONIES[-1] else 2
        n_sets = 1 if quick or parsimony != _STANDARD else 2
        for method in _of_parsimony(parsimony):
            growth = _grow(method, parsimony, pool, steps[:last], n_sets)
            growths.append(growth)
            context.say(f"{method.name}, K = {parsimony:g}: {growth.orders[-1]:g} points")

    # T alpha ~ log(1 / alpha), as Theorem 2 wants: the start is forgotten as the error shrinks.
    plain = draw_pool(SETTINGS["A"], seed=_POOL_SEED + context.seed, n_rows=60000)
    alphas = (0.08, 0.04) if quick else (0.16, 0.08, 0.04, 0.02, 0.01, 0.005)
    factor = 5.0 if quick else 20.0
    ladder = [
        _point(a, round(factor * math.log(1.0 / a) / a), plain, 1 if quick else 2) for a in alphas
    ]
    context.say("rates")
    population = Population(pool.rows.take(np.arange(_N_POPULATION)).standardised())
    n_runs = 1 if quick else 4
    accuracies = (0.16, 0.08) if quick else (0.16, 0.08, 0.04, 0.02, 0.01, 0.005, 0.0025)
    descents = [descend(population, accuracy, n_runs, context.seed) for accuracy in accuracies]
    start = population.risk_and_gradient(np.zeros(_N_POPULATION))[1]
    context.say("rates, not convex")
    steps_of = [p.n_steps for p in ladder]
    rate = _slope(steps_of, [p.clean for p in ladder])
    by_step = _slope([p.alpha for p in ladder], [p.clean for p in ladder])
    ideal = _slope(steps_of, [p.alpha for p in ladder])
    growth_rate = _slope([p.alpha for p in ladder], [p.model_order for p in ladder])
    slack = [descent.bound / descent.mean for descent in descents]
    by_mean = _slope(accuracies, [descent.mean for descent in descents])
    by_least = _slope(accuracies, [descent.least for descent in descents])
    by_order = _slope(accuracies, [descent.model_order for descent in descents])
    return Result(
        [*_growth_rows(growths, steps), *_ladder_rows(ladder), *_descent_rows(descents)],
        targets=[
            *_targets(growths, steps),
            Target(
                "not convex: power of the step in the mean squared gradient",
                by_mean,
                0.9,
                "at least",
            ),
            Target("not convex: power of the step in the least", by_least, 0.9, "at least"),
            Target(
                "not convex: largest mean squared gradient over its bound",
                1.0 / min(slack),
                1.0,
            ),
        ],
        drawings=[
            _drawing_of_growth(growths, steps),
            _drawing_of_rates(ladder),
            _drawing_of_gradients(descents),
        ],
        notes=[
            "Upper rows: setting B (10 % outliers N(0, 25)), step .02, tolerance K step²; points "
            "while learning, two training sets for K = 5 and one for the others. Lower rows: "
            "setting A (no outliers), COLK with the semivariance (weight .1, clip 10), step a, "
            "tracker rate a/2, tolerance 5a², as Theorem 2 ties them together, "
            f"T = {factor:g} log(1/a) / a steps; two training sets.",
            "Theory, strongly convex case (Theorems 1 and 2): an error of order a, so 1/T up to a "
            "logarithm, with no more than a multiple of (a / tolerance)^2p = a^-2p points; here "
            f"p = 1. Measured: error like a^{by_step:.2f} and T^{rate:.2f} (an error of exactly "
            f"order a would be T^{ideal:.2f} here, for the logarithm), points like "
            f"a^{growth_rate:.2f}, far fewer than the bound allows. The error is to the function "
            "itself, not to the minimiser, and the directions that the kernel hardly has are "
            "learned last.",
            "Last rows: a risk that is not convex, the mean plus half the upper semideviation "
            "(smoothing .25) of Welsch's loss (1 - exp(-r²)) / 2, on rows of setting B with "
            f"standardised targets, drawn with replacement from {_N_POPULATION:,}, so that its "
            "gradient is known exactly. Steps and tracker rates are a, the tolerance .2 a^1.5, "
            f"T = 4 / a², as Theorem 3 wants for a squared gradient of order a; {n_runs} runs, "
            "measured at some 60 moments. Theorem 3 bounds the least over all steps of the mean "
            "over runs, and its proof the mean over all steps, too. Measured: the mean like "
            f"a^{by_mean:.2f} and the least like a^{by_least:.2f}, where the theory has a^1 = "
            f"2 T^-0.5; points like a^{by_order:.2f}, where it has no more than a^-1. The bound, "
            f"from constants that hold everywhere, is {min(slack):.0f} to {max(slack):.0f} times "
            f"the mean; the squared gradient at the start is {start:.2g}.",
            "A tolerance above the largest coefficient of a step, which is step times clip, would "
            "delete every newcomer: the library refuses it, so that the clipped moments are "
            f"missing for K = {_PARSIMONIES[-1]:g}.",
        ],
    )


def _growth_rows(growths: Sequence[_Growth], steps: Array) -> list[dict[str, Any]]:
    rows = []
    for growth in growths:
        orders = [f"{order:g}" for order in growth.orders]
        orders += ["-"] * (steps.size - len(orders))
        rows.append(
            {
                "method": growth.method,
                "step": ALPHA,
                "tolerance": growth.parsimony * ALPHA**2,
                "steps": int(steps[len(growth.orders) - 1]),
                "points": f"{growth.orders[-1]:g}",
                "points on the way": " / ".join(orders),
                "clean MSE": growth.clean,
                **_NO_GRADIENT,
            }
        )
    return rows


def _ladder_rows(ladder: Sequence[_Point]) -> list[dict[str, Any]]:
    return [
        {
            "method": f"{_SEMIVARIANCE}, no outliers",
            "step": point.alpha,
            "tolerance": 5.0 * point.alpha**2,
            "steps": point.n_steps,
            "points": f"{point.model_order:g}",
            "points on the way": "-",
            "clean MSE": point.clean,
            **_NO_GRADIENT,
        }
        for point in ladder
    ]


def _descent_rows(descents: Sequence[Descent]) -> list[dict[str, Any]]:
    return [
        {
            "method": _NONCONVEX,
            "step": descent.step,
            "tolerance": descent.tolerance,
            "steps": descent.n_steps,
            "points": f"{descent.model_order:g}",
            "points on the way": "-",
            "clean MSE": "-",
            _MEAN: descent.mean,
            _LEAST: descent.least,
            _BOUND: descent.bound,
        }
        for descent in descents
    ]


def _targets(growths: Sequence[_Growth], steps: Array) -> list[Target]:
    start = 0 if steps.size < 4 else 1
    return [
        Target(
            f"{growth.method}, K = 5: largest number of points after t = {steps[start]:,} over "
            "that at it",
            float(growth.orders[start:].max() / growth.orders[start]),
            1.3,
        )
        for growth in growths
        if growth.parsimony == _STANDARD
    ]


def _drawing_of_growth(growths: Sequence[_Growth], steps: Array) -> Drawing:
    def draw(ax: Axes) -> None:
        for i, name in enumerate((_POLK, _SEMIVARIANCE, _MOMENTS)):
            styles = iter(("-", "--", ":"))
            for growth in growths:
                if growth.method == name and len(growth.orders) == steps.size:
                    label = f"{name}, K = {growth.parsimony:g}"
                    ax.plot(steps, growth.orders, next(styles), color=f"C{i}", label=label)
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("steps")
        ax.set_ylabel("points")

    return Drawing("points", "Points while learning, tolerance K step²: flat in time.", draw)


def _drawing_of_rates(ladder: Sequence[_Point]) -> Drawing:
    def draw(ax: Axes) -> None:
        n_steps = np.array([point.n_steps for point in ladder])
        clean = np.array([point.clean for point in ladder])
        ax.plot(n_steps, clean, "o-", label="measured")
        proved = clean[0] * np.array([point.alpha for point in ladder]) / ladder[0].alpha
        ax.plot(n_steps, proved, "--", color="0.6", label="like the step size, as proved")
        ax.set_xscale("log")
        plain_log_scale(ax)
        ax.set_xlabel("steps T; step size, tracker rate and tolerance as in Theorem 2")
        ax.set_ylabel("clean mean squared error")

    return Drawing("rate", "Error against the number of steps.", draw)


def _drawing_of_gradients(descents: Sequence[Descent]) -> Drawing:
    def draw(ax: Axes) -> None:
        n_steps = np.array([descent.n_steps for descent in descents])
        mean = np.array([descent.mean for descent in descents])
        ax.plot(n_steps, [descent.bound for descent in descents], "s-", label="Theorem 3")
        ax.plot(n_steps, mean, "o-", label="mean over the steps")
        ax.plot(n_steps, [descent.least for descent in descents], "o:", label="least")
        ax.plot(n_steps, mean[0] * (n_steps[0] / n_steps) ** 0.5, "--", color="0.6", label="1 / √T")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("steps T; step size, tracker rate and tolerance as in Theorem 3")
        ax.set_ylabel("squared norm of the gradient")

    return Drawing("gradient", "A risk that is not convex: gradient and bound.", draw)


EXPERIMENT = Experiment(
    name="colk-table1",
    title="Model order and rate, measured and in theory",
    place="COLK, Theorems 1 to 3, Table I",
    shows=(
        "How many points COLK and POLK keep over a long stream, for several tolerances, and how "
        "the error falls when step, tracker rate and tolerance shrink together; for a risk that "
        "is not convex, how its squared gradient falls, and the bound of Theorem 3."
    ),
    run=_run,
)
