"""Which objective for which problem: outliers, costly large losses, rare regions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.risks import CVaR, Semivariance, UpperSemideviation
from mercer_reproduction._colk_data import (
    REGIMES,
    Pool,
    Setting,
    TrainingSet,
    clean_error,
    draw_pool,
    truth,
    worst_mean,
)
from mercer_reproduction._colk_methods import (
    UNIT,
    absolute,
    colk,
    huber,
    polk,
    squared_errors,
    tolerance_of,
)
from mercer_reproduction._colk_runs import Method, Run
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_POOL_SEED, _N_TEST = 100, 4000
_N_PASSES, _N_SETS = 5, 2
_ALPHA, _LARGE = 0.01, 0.05
_CLIP = 20.0

_MEAN = "mean"
_STEEP = f"mean, step {_LARGE:g}"
_HUBER = "Huber(.3)"
_SEMIDEVIATION = "semideviation, weight 1"
_SEMIVARIANCE = "semivariance, weight .5"
_CVAR = "CVaR .9"
_NUDGED = f"{_CVAR}, labels moved by a rounding"


def _methods() -> list[Method]:
    # Trackers, bounds and the clamp are the library's defaults: one row a step.
    clip = UNIT * _CLIP
    return [
        polk(_MEAN, _ALPHA, tolerance_of(_ALPHA)),
        polk(_STEEP, _LARGE, tolerance_of(_LARGE)),
        huber("Huber(1)", 1.0, alpha=_ALPHA),
        huber(_HUBER, 0.3, alpha=_ALPHA),
        absolute("absolute error", _ALPHA, tolerance_of(_ALPHA)),
        colk(_SEMIDEVIATION, UpperSemideviation(1.0, units=UNIT, clip=clip), alpha=_ALPHA),
        colk(_SEMIVARIANCE, Semivariance(0.5, units=UNIT, clip=clip), alpha=_ALPHA),
        colk(_CVAR, CVaR(0.9, units=UNIT, clip=clip), alpha=_ALPHA),
    ]


@dataclass(frozen=True)
class _Score:
    """What a method reached on one training set; the losses are squared errors of test rows."""

    clean: float
    losses: Array
    seconds: float
    run: Run


def _score(method: Method, training: TrainingSet, pool: Pool) -> _Score | None:
    """Learn and measure; None if the run diverged."""
    clock = time.process_time()
    try:
        run = method.learn(training)
    except DivergenceError:
        return None
    seconds = time.process_time() - clock
    clean = clean_error(run.predict, pool.setting.grid())
    return _Score(clean, squared_errors(run, pool.test), seconds, run)


def _nudged(training: TrainingSet) -> TrainingSet:
    """Move every label to the next floating-point number."""
    first, second = (part._replace(y=np.nextafter(part.y, np.inf)) for part in training)
    return TrainingSet(first, second)


_Scores = Mapping[str, Sequence[_Score | None]]


def _worst(scores: Sequence[_Score | None], level: float) -> float:
    """Mean over the training sets of the mean of the worst losses; infinite if one diverged."""
    return float(np.mean([math.inf if s is None else worst_mean(s.losses, level) for s in scores]))


def _clean(scores: Sequence[_Score | None]) -> float:
    return float(np.mean([math.inf if s is None else s.clean for s in scores]))


def _run(context: Context) -> Result:
    n_rows, n_passes, n_sets = (400, 1, 1) if context.quick else (2400, _N_PASSES, _N_SETS)
    results: dict[str, _Scores] = {}
    rows = []
    for name, setting in REGIMES.items():
        pool = draw_pool(setting, seed=_POOL_SEED + context.seed, n_test=_N_TEST)
        sets = [pool.training_set(i, n_rows, n_passes) for i in range(n_sets)]
        scored = {m.name: [_score(m, one, pool) for one in sets] for m in _methods()}
        if name == "shift":
            [cvar] = (m for m in _methods() if m.name == _CVAR)
            scored[_NUDGED] = [_score(cvar, _nudged(one), pool) for one in sets]
        results[name] = scored
        context.say(f"{name}: {setting.title}")
        for method, scores in results[name].items():
            seconds = [math.nan if s is None else s.seconds for s in scores]
            rows.append(
                {
                    "noise": f"{name}: {setting.title}",
                    "objective": method,
                    "clean MSE": _clean(scores),
                    "mean loss": _worst(scores, 0.0),
                    "worst 10 %": _worst(scores, 0.9),
                    "worst 1 %": _worst(scores, 0.99),
                    "us per row": 1e6 * float(np.mean(seconds)) / (n_rows * n_passes),
                }
            )
    return Result(
        rows,
        targets=_targets(results),
        drawings=[
            _fits("outliers", "shift", results, (_MEAN, _HUBER, _SEMIDEVIATION, _CVAR)),
            _fits("rare", "rare", results, (_MEAN, _STEEP, _HUBER, _SEMIVARIANCE, _CVAR)),
            _fits("uneven", "het", results, (_MEAN, _HUBER, _SEMIDEVIATION, _CVAR)),
            _losses("shift", results["shift"], (_MEAN, _HUBER, _SEMIDEVIATION, _CVAR)),
        ],
        notes=[
            f"{n_rows:,} rows, {n_passes} passes, means over {n_sets} training sets; paper's "
            f"units: step {_ALPHA:g}, tolerance 5 step², clip {_CLIP:g} for the risks, whose "
            "trackers and other bounds are the library's defaults. Clean MSE: to the function, on "
            "a grid. Losses are squared errors of 4,000 noisy test rows, the outliers included. "
            "Times per row: the mean of a loss is learned by compiled steps, a risk is not.",
            "A run repeats itself to the last digit, but CVaR on `shift` magnifies roundings: a "
            "row counts or not, by the side of the threshold that it is on. Labels moved by a "
            f"rounding (a row of its own) change the clean MSE by {_change(results):.1f} %; a "
            "build that adds in another order can do so, too.",
            "Labels that are wrong (`sym`, `shift`, `skew`): take a robust loss. A risk gives more "
            "weight to just those rows, and its clean error is worse than that of the plain mean.",
            "Large losses that are real and costly (`shift`, if what is far from the curve has to "
            "be paid): CVaR cuts the worst losses and raises the mean loss; the semideviation does "
            "so mildly. A robust loss gives the worst tail of all.",
            "Regions that are rare but must be learned (`rare`): a risk finds them sooner, as does "
            "the mean with a larger step; a robust loss takes them for outliers.",
            "Noise that is symmetric (`none`, `het`) leaves nothing to gain: all have the same "
            "function to find, and a risk only makes the steps noisier.",
        ],
    )


def _change(results: Mapping[str, _Scores]) -> float:
    """Percent by which roundings change the clean error of CVaR."""
    shift = results["shift"]
    return 100.0 * abs(_clean(shift[_NUDGED]) / _clean(shift[_CVAR]) - 1.0)


def _targets(results: Mapping[str, _Scores]) -> list[Target]:
    shift, rare, sym = results["shift"], results["rare"], results["sym"]
    worst = "mean of the worst 1 % of test losses"
    return [
        Target(f"shift, {_CVAR}: {worst}", _worst(shift[_CVAR], 0.99), 13.0),
        Target(f"shift, {_MEAN}: {worst}", _worst(shift[_MEAN], 0.99), 25.0, "at least"),
        Target(f"shift, {_MEAN}: {worst}", _worst(shift[_MEAN], 0.99), 27.0),
        Target(f"rare, {_SEMIVARIANCE}: {worst}", _worst(rare[_SEMIVARIANCE], 0.99), 0.85),
        Target(f"rare, {_MEAN}: {worst}", _worst(rare[_MEAN], 0.99), 1.2, "at least"),
        Target(f"sym, {_HUBER}: clean MSE", _clean(sym[_HUBER]), 0.004),
    ]


def _fits(file: str, regime: str, results: Mapping[str, _Scores], names: Sequence[str]) -> Drawing:
    setting: Setting = REGIMES[regime]
    grid = setting.grid()
    sample = setting.draw(500, np.random.default_rng(_POOL_SEED))

    def draw(ax: Axes) -> None:
        ax.plot(sample.X[:, 0], sample.y, ".", color="0.8", markersize=2)
        ax.plot(grid[:, 0], truth(grid), color="0.6", linewidth=4)
        for name in names:
            score = results[regime][name][0]
            if score is not None:
                ax.plot(grid[:, 0], score.run.predict(grid), label=name)
        ax.set_xlabel("x")
        ax.set_ylabel("f(x)")

    return Drawing(
        file,
        f"Learned functions, {setting.title}: rows (dots) and the function behind them (grey).",
        draw,
    )


def _losses(regime: str, scores: _Scores, names: Sequence[str]) -> Drawing:
    def draw(ax: Axes) -> None:
        for name in names:
            score = scores[name][0]
            if score is not None:
                losses = np.sort(score.losses)[::-1]
                ax.plot(losses, 100.0 * np.arange(1, losses.size + 1) / losses.size, label=name)
        ax.set_yscale("log")
        ax.set_xlim(0.0, 50.0)
        ax.set_xlabel("squared error of a test row")
        ax.set_ylabel("% of the rows above")

    return Drawing(
        "losses",
        f"How many test rows have losses above a value, {REGIMES[regime].title}: CVaR cuts the "
        "tail and pays with the bulk, a robust loss does the opposite.",
        draw,
    )


EXPERIMENT = Experiment(
    name="colk-guidance",
    title="Which objective: robust losses, tail control, rare regions",
    place="COLK, Sections II and V; our settings",
    shows=(
        "The same learner with the mean, robust losses and risks of the squared loss, in six kinds "
        "of noise: error to the function, mean loss, and mean of the worst losses."
    ),
    run=_run,
)
