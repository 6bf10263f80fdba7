"""How well the inner expectation is tracked, and by which samples (COLK, eq. (19) and (20))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.losses import Squared
from mercer.objectives import Batch, make_objective
from mercer.risks import Semivariance, Tracker
from mercer_reproduction._colk_data import (
    REGIMES,
    Pool,
    Sample,
    TrainingSet,
    clean_error,
    draw_pool,
    worst_mean,
)
from mercer_reproduction._colk_methods import UNIT, regressor
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_POOL_SEED = 7
_RULES = {"scgd": "(19)", "momentum": "(20)"}
_PAIRS = ("tracked", "stream", "reservoir")
_WEIGHT, _CLIP = 0.5, 10.0
_CHUNK = 100  # rows that come together; a reservoir has those before


class _Case(NamedTuple):
    """Step size, rates and noise of a comparison of the two rules."""

    alpha: float
    beta: float
    regime: str


_CASES = (
    _Case(0.005, 0.01, "none"),
    _Case(0.02, 0.01, "none"),
    _Case(0.02, 0.05, "none"),
    _Case(0.1, 0.01, "none"),
    _Case(0.02, 0.01, "sym"),
    _Case(0.1, 0.01, "sym"),
)
_STANDARD = _CASES[1]


def _windows(n_steps: int) -> dict[str, slice]:
    """Parts of the run: its transient, its middle and its end."""
    bounds = ((1 / 24, 1 / 6), (1 / 6, 5 / 12), (5 / 8, 1))
    ends = [(round(low * n_steps), round(high * n_steps)) for low, high in bounds]
    return {f"t = {low:,} to {high:,}": slice(low, high) for low, high in ends}


# -- the two rules on the same functions ----------------------------------------------------------


def _errors(case: _Case, training: TrainingSet) -> dict[str, Array]:
    """Tracked value minus the mean of all losses, after every step, for both rules."""
    first, second = training
    model = regressor(Squared(), alpha=case.alpha)
    # Values at all rows, so that the expectation over them is known.
    orders = np.argsort(first.X[:, 0]), np.argsort(second.X[:, 0])
    place = np.empty(first.y.size, np.intp)
    place[orders[1]] = orders[0]  # row of `first` that is row t of `second`
    objectives = {
        rule: make_objective(
            Squared(),
            Semivariance(units=UNIT, tracker=Tracker(rule, rate=case.beta, pairs="stream")),
        )
        for rule in _RULES
    }
    errors: dict[str, list[float]] = {rule: [] for rule in _RULES}
    before = values = np.zeros(first.y.size)
    for t in range(first.y.size):
        if t > 0:
            before, values = values, model.predict(first.X)
        expected = float(np.mean((values - first.y) ** 2))
        rows = np.array([t, place[t]])
        for rule, objective in objectives.items():
            batch = Batch(
                first.X[rows],
                first.y[rows, np.newaxis],
                np.ones(2),
                previous=before[rows, np.newaxis] if rule == "momentum" else None,
            )
            objective.update(values[rows, np.newaxis], batch, case.alpha)
            tracked = dict(zip(objective.monitors, objective.measured(), strict=True))
            errors[rule].append(tracked["inner_value"] / UNIT - expected)
        model.partial_fit(first.X[t : t + 1], first.y[t : t + 1])
    return {rule: np.array(found) for rule, found in errors.items()}


def _compare_rules(
    context: Context, n_rows: int, n_sets: int
) -> tuple[list[dict[str, Any]], dict[_Case, dict[str, Array]]]:
    rows, curves = [], {}
    for case in (_STANDARD, _CASES[4]) if context.quick else _CASES:
        pool = draw_pool(REGIMES[case.regime], seed=_POOL_SEED + context.seed)
        found = [_errors(case, pool.training_set(i, n_rows)) for i in range(n_sets)]
        context.say(f"rules, {case}")
        squares = {rule: np.mean([e[rule] ** 2 for e in found], axis=0) for rule in _RULES}
        curves[case] = squares
        for rule, equation in _RULES.items():
            row: dict[str, Any] = {
                "comparison": f"rules: step {case.alpha:g}, rate {case.beta:g}, {case.regime}",
                "tracker": f"eq. {equation}, {rule}",
            }
            for name, part in _windows(n_rows).items():
                row[f"RMSE of g, {name}"] = float(np.sqrt(squares[rule][part].mean()))
            rows.append(row)
    return rows, curves


# -- where the second sample comes from -----------------------------------------------------------


def _learn(pairs: str, rule: str, stream: Sample, moments: Sequence[int], pool: Pool) -> Array:
    """Clean MSE, objective and CVaR99 after some numbers of rows, shape (n_moments, 3)."""
    risk = Semivariance(
        _WEIGHT,
        units=UNIT,
        max_deviation=None,
        clip=UNIT * _CLIP,
        tracker=Tracker(rule, rate=0.05, pairs=pairs),
    )
    model = regressor(Squared(), risk)
    measured = np.full((len(moments), 3), np.inf)
    for start in range(0, moments[-1], _CHUNK):
        rows = np.arange(start, start + _CHUNK)
        try:
            model.partial_fit(*stream.take(rows))
        except DivergenceError:
            return measured
        if start + _CHUNK in moments:
            losses = (model.predict(pool.test.X) - pool.test.y) ** 2
            above = np.maximum(losses - losses.mean(), 0.0)
            measured[moments.index(start + _CHUNK)] = (
                clean_error(model.predict, pool.setting.grid()),
                losses.mean() + _WEIGHT * np.mean(above**2),
                worst_mean(losses, 0.99),
            )
    return measured


def _compare_pairs(
    context: Context, moments: Sequence[int], n_sets: int
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Array]]:
    found = {}
    for regime in ("none", "rare"):
        pool = draw_pool(
            REGIMES[regime], seed=_POOL_SEED + context.seed, n_test=4000, n_rows=2 * moments[-1]
        )
        streams = [pool.training_set(i, moments[-1]).first for i in range(n_sets)]
        for pairs in _PAIRS:
            runs = [_learn(pairs, "momentum", stream, moments, pool) for stream in streams]
            found[regime, pairs] = np.mean(runs, axis=0)
        context.say(f"pairs, {regime}")
    rows = []
    for (regime, pairs), measured in found.items():
        for i, what in enumerate(("clean MSE", "objective", "worst 1 %")):
            cells = {f"{n:,} rows": float(v) for n, v in zip(moments, measured[:, i], strict=True)}
            rows.append({"comparison": f"pairs: {regime}, {what}", "tracker": pairs, **cells})
    return rows, found


# -- the experiment -------------------------------------------------------------------------------


def _run(context: Context) -> Result:
    n_rows, n_sets, moments = (
        (240, 1, (200, 400)) if context.quick else (2400, 10, (600, 2400, 4800))
    )
    rule_rows, curves = _compare_rules(context, n_rows, n_sets)
    pair_rows, found = _compare_pairs(context, moments, 1 if context.quick else 3)
    rows = [*rule_rows, *pair_rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    middle = list(_windows(n_rows).values())[1]
    standard = {r: float(np.sqrt(s[middle].mean())) for r, s in curves[_STANDARD].items()}
    last = {pairs: found["none", pairs][-1, 1] for pairs in _PAIRS}
    return Result(
        [{name: row.get(name, "") for name in columns} for row in rows],
        targets=[
            Target(
                "step .02, rate .01, none, middle: RMSE by eq. (20)", standard["momentum"], 0.04
            ),
            Target(
                "the same: RMSE by eq. (19) over that by eq. (20)",
                standard["scgd"] / standard["momentum"],
                1.5,
                "at least",
            ),
            Target(
                "none, all rows: objective with tracked pairs over that with pairs of the stream",
                float(last["tracked"] / last["stream"]),
                1.0,
            ),
        ],
        drawings=[_drawing(case, squares) for case, squares in curves.items() if _drawn(case)],
        notes=[
            f"Rules: g against the mean loss of the {n_rows:,} training rows under the same "
            f"functions, those of POLK, in the paper's units; {n_sets} sets. `none`: no outliers, "
            "`sym`: a tenth with N(0, 25). Eq. (20) takes out what a step does to f, at the price "
            "of the noise of differences: it wins on the way with small steps, gains nothing at "
            "the end, and loses with large steps or heavy tails. Early on the error is that of "
            "the first loss, which g starts with, and so differs much from set to set.",
            f"Pairs: mean plus {_WEIGHT:g} times the semivariance, step .02, clip {_CLIP:g}, rate "
            ".05, eq. (20), after equally many rows of the stream, each seen once. Pairs of the "
            "stream take two rows a step and so do half the steps; tracked ones, the library's "
            "default, and those from a reservoir take one. The objective is that of 4,000 noisy "
            "test rows.",
        ],
    )


def _drawn(case: _Case) -> bool:
    return case in (_STANDARD, _CASES[4])


def _drawing(case: _Case, squares: Mapping[str, Array]) -> Drawing:
    def draw(ax: Axes) -> None:
        for rule, equation in _RULES.items():
            size = squares[rule].size
            edges = np.unique(np.geomspace(5, size, 25).astype(int))
            parts = pairwise(edges)
            smooth = [np.sqrt(squares[rule][low:high].mean()) for low, high in parts]
            ax.plot(edges[1:], smooth, label=f"eq. {equation}, {rule}")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("steps")
        ax.set_ylabel("RMSE of the tracked mean loss")

    return Drawing(
        f"rules-{case.regime}",
        f"Error of the tracked expectation, step {case.alpha:g}, rate {case.beta:g}: "
        f"{REGIMES[case.regime].title}.",
        draw,
    )


EXPERIMENT = Experiment(
    name="colk-tracking",
    title="Tracking the inner expectation",
    place="COLK, eq. (19), (20) and Lemma 1",
    shows=(
        "The error of the tracked mean loss by the two rules, and what the learner reaches with "
        "the same number of rows if every row is both samples, if rows alternate, and if the "
        "second sample is drawn from earlier rows."
    ),
    run=_run,
)
