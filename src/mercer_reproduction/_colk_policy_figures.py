"""Figures of the experiment on policy evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer_reproduction._colk_policy import FixedBasis, root_mean_square
from mercer_reproduction._colk_policy_pendulum import Outcome, Pendulum
from mercer_reproduction._colk_policy_runs import (
    CHAIN,
    RESIDUAL,
    SLOW,
    TD,
    TRACKER,
    Course,
    Judge,
    Setting,
)
from mercer_reproduction._experiment import Drawing
from mercer_reproduction._ticks import plain_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_CURVE_RATES = tuple(float(rate) for rate in np.geomspace(0.005, 1.0, 24))


def draw_values(
    courses: Mapping[Setting, Sequence[Course]], places: Array, returns: Array
) -> Drawing:
    """Values of three methods, with the points that were kept."""

    def draw(ax: Axes) -> None:
        x = np.linspace(-3.0, 3.0, 301)
        for setting in (TD, RESIDUAL, SLOW):
            model = courses[setting][0].model
            ax.plot(x, model.predict(x[:, np.newaxis]), label=setting.name)
        points = courses[TD][0].model.dictionary_
        values = courses[TD][0].model.predict(points)
        ax.plot(points[:, 0], values, "o", markersize=5, color="C0", label="points of td")
        ax.plot(x, CHAIN.value(x[:, np.newaxis]), "--", color="0.45", label="exact")
        ax.plot(places[:, 0], returns, "x", color="0.45", label="mean return")
        ax.set_xlabel("state")
        ax.set_ylabel("value")

    return Drawing(
        "values",
        "Values of the chain by three methods, the exact one and mean sampled returns. The points "
        "are those that td kept. States beyond 2 and -2 are visited four times in a thousand.",
        draw,
    )


def draw_courses(courses: Mapping[Setting, Sequence[Course]], moments: Sequence[int]) -> Drawing:
    """Error against transitions learned."""

    def draw(ax: Axes) -> None:
        for number, (setting, found) in enumerate(courses.items()):
            curve = np.mean([course.curve for course in found], axis=0)
            style = "--" if setting.independent else "-"
            color = f"C{number}" if number < 6 else {6: "C0", 7: "C6"}[number]
            ax.plot(moments, curve, style, color=color, label=setting.name)
        ax.set_xscale("log")
        plain_log_scale(ax)
        ax.set_xlabel("transitions")
        ax.set_ylabel("RMSE of the value")

    return Drawing(
        "errors", "RMSE to the exact value on states held out, mean of the trajectories.", draw
    )


def draw_rates(
    basis: FixedBasis, courses: Mapping[Setting, Sequence[Course]], judge: Judge
) -> Drawing:
    """Error of PKGTD against the rate of its tracker."""
    features = basis.features(judge.states)

    def error(coefficients: Array) -> float:
        return root_mean_square(features @ coefficients - judge.exact)

    curve = [error(basis.tracked(rate)) for rate in _CURVE_RATES]
    lstd = error(basis.lstd())
    streamed = [
        (rate, course.errors[0])
        for setting, rate in ((SLOW, 0.01), (TRACKER, 0.1))
        for course in courses[setting]
    ]

    def draw(ax: Axes) -> None:
        ax.plot(_CURVE_RATES, curve, label="PKGTD, batch, 12 Gaussians")
        ax.plot(_CURVE_RATES, [lstd] * len(curve), "--", label="LSTD, 12 Gaussians")
        ax.plot(*zip(*streamed, strict=True), "o", label="PKGTD, streamed")
        ax.set_xscale("log")
        ax.set_xlabel("rate of the tracker (1 - discount is 0.1)")
        ax.set_ylabel("RMSE of the value")

    return Drawing(
        "rates",
        "Where PKGTD stands still on a trajectory, by the rate of its scalar tracker: at LSTD's "
        "solution for rate 1 - discount, elsewhere not.",
        draw,
    )


def draw_pendulum(problem: Pendulum, outcome: Outcome, name: str) -> Drawing:
    """Value of states against the rewards then collected."""
    some = np.random.default_rng(0).permutation(outcome.values.size)[:1000]

    def draw(ax: Axes) -> None:
        returns = problem.returns[some]
        ends = [returns.min(), returns.max()]
        ax.plot(returns, outcome.values[some], ".", markersize=3, label="states of other episodes")
        ax.plot(ends, ends, color="0.45", label="equal")
        ax.set_xlabel("rewards collected")
        ax.set_ylabel("value")

    return Drawing(
        "pendulum",
        f"Value of the swing-up policy by {name}, against what was then collected.",
        draw,
    )
