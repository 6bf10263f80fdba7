"""Faithful steps converge to the minimiser, for every loss of DSG, Section 4."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.schedules import InverseTime
from mercer_reproduction._exact import box_minimiser, smooth_minimiser
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target

Array = NDArray[np.float64]

_N, _BATCH, _STEPS, _QUICK_STEPS = 400, 64, 4000, 200
_RIDGE, _LENGTH_SCALE = 1e-3, 0.5
_STEP, _HALF_AFTER = 4.0, 500


class Toy(NamedTuple):
    """Rows, targets and labels."""

    X: Array
    y: Array
    labels: NDArray[np.int64]


def toy_rows(seed: int) -> Toy:
    """Rows in one dimension with targets and labels."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-2.0, 2.0, size=_N)
    y = np.sin(3.0 * x) + 0.3 * generator.normal(size=_N)
    return Toy(x[:, np.newaxis], y, (y > 0.3 * generator.normal(size=_N)).astype(np.int64))


def minimiser(toy: Toy, loss: Loss, ridge: float = _RIDGE) -> Array:
    """Values of the exact minimiser at the rows."""
    gram: Array = Gaussian(_LENGTH_SCALE)(toy.X).astype(np.float64)
    signs = np.where(toy.labels == 1, 1.0, -1.0)
    one = np.ones(_N)
    if isinstance(loss, Hinge):
        low, high = np.minimum(signs, 0.0), np.maximum(signs, 0.0)
        return box_minimiser(gram, signs, low, high, ridge)
    if isinstance(loss, AbsoluteError):
        return box_minimiser(gram, toy.y, -one, one, ridge)
    if isinstance(loss, EpsilonInsensitive):
        return box_minimiser(gram, toy.y, -one, one, ridge, insensitive=loss.epsilon)
    if isinstance(loss, Quantile):
        level = float(np.ravel(loss.levels)[0])
        return box_minimiser(gram, toy.y, (level - 1.0) * one, level * one, ridge)
    targets: Array = signs if loss.task == "classification" else toy.y
    return smooth_minimiser(gram, targets[:, np.newaxis], loss, ridge)


def _learn(toy: Toy, loss: Loss, n_steps: int, seed: int) -> Any:
    cls: Any = KernelClassifier if loss.task == "classification" else KernelRegressor
    model = cls(
        loss,
        kernel=Gaussian(_LENGTH_SCALE),
        expansion=RandomFeatures(_BATCH, mode="faithful", precision="double", seed=seed),
        step_size=InverseTime(_STEP, _HALF_AFTER),
        regularization=_RIDGE,
        batch_size=_BATCH,
        n_passes=n_steps * _BATCH // _N,
        random_state=seed,
    )
    return model.fit(toy.X, toy.labels if loss.task == "classification" else toy.y)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _run(context: Context) -> Result:
    toy = toy_rows(context.seed)
    n_steps = _QUICK_STEPS if context.quick else _STEPS
    losses = [
        Hinge(),
        SquaredHinge(),
        Logistic(),
        Squared(),
        Huber(),
        EpsilonInsensitive(0.2),
        AbsoluteError(),
        Quantile(0.8),
    ]
    rows: list[dict[str, Any]] = []
    curves = {}
    for loss in losses:
        context.say(repr(loss))
        exact = minimiser(toy, loss)
        model = _learn(toy, loss, n_steps, context.seed)
        function = model.learner_.function
        last = function.current(function.prepare(toy.X))[:, 0]
        averaged = function.evaluate(toy.X)[:, 0]
        row = {
            "loss": repr(loss),
            "rms of the minimiser": _rms(exact),
            "rms error, last iterate": _rms(last - exact),
            "rms error, suffix average": _rms(averaged - exact),
        }
        if isinstance(loss, Quantile):
            row["share below (0.8 wanted)"] = float(np.mean(toy.y <= averaged))
        rows.append(row)
        curves[repr(loss)] = exact, averaged
    columns = list(dict.fromkeys(name for row in rows for name in row))
    squared = next(row for row in rows if row["loss"] == "Squared()")
    return Result(
        [{name: row.get(name, "") for name in columns} for row in rows],
        targets=[
            Target(
                "squared loss: rms error of the average",
                squared["rms error, suffix average"],
                0.006,
            )
        ],
        drawings=[
            Drawing(
                "fits",
                "Learned functions (lines) on the exact minimisers (grey), for four of the losses.",
                lambda axes: _draw(axes, toy, curves),
            )
        ],
        notes=[
            f"{_N} rows in one dimension, {Gaussian(_LENGTH_SCALE)!r}, regularization {_RIDGE:g}; "
            f"{n_steps:,} steps of {_BATCH} rows and {_BATCH} features, step size "
            f"{_STEP:g} / (1 + t/{_HALF_AFTER}), averages weighted like t³. Minimisers by L-BFGS "
            "(smooth losses) and dual coordinate ascent (the others).",
        ],
    )


def _draw(axes: Any, toy: Toy, curves: dict[str, tuple[Array, Array]]) -> None:
    order = np.argsort(toy.X[:, 0])
    x = toy.X[order, 0]
    axes.plot(x, toy.y[order], ".", color="0.85", markersize=3)
    for name in ("Hinge()", "Logistic()", "Squared()", "Quantile(levels=0.8)"):
        if name in curves:
            exact, averaged = curves[name]
            axes.plot(x, exact[order], color="0.6", linewidth=4)
            axes.plot(x, averaged[order], linewidth=1.2, label=name)
    axes.set_xlabel("x")
    axes.set_ylabel("f(x)")
    axes.legend()


EXPERIMENT = Experiment(
    name="dsg-losses",
    title="Every loss: distance from the exact minimiser",
    place="DSG, Section 4 and Theorems 4 to 6",
    shows=(
        "Plain doubly stochastic steps (mode faithful) on one-dimensional data, against the exact "
        "minimiser of each regularised objective, at the rows."
    ),
    run=_run,
)
