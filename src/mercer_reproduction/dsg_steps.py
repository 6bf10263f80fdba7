"""Steps theta / t: where the theorem of doubly stochastic gradients can be run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer.recipes import dsg
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction.dsg_losses import Toy, minimiser, toy_rows

Array = NDArray[np.float64]

_KERNEL = Gaussian(0.5)
_BATCH = 64
# Passes of six steps.
_PASSES, _QUICK_PASSES = (16, 50, 160, 500, 1000), (4, 16)
_RIDGES, _PRODUCTS = (0.1, 0.03, 0.01), (1.0, 1.5, 2.0)
_WHOLE = 6 * _BATCH  # rows of a pass


def _error(toy: Toy, exact: Array, theta: float | None, nu: float, n_passes: int) -> float:
    """Root mean square of the last iterate less the minimiser; infinity if learning diverges."""
    model = dsg("squared", theta=theta, nu=nu, B=_BATCH, m=_BATCH, kernel=_KERNEL, average=None)
    model.set_params(n_passes=n_passes, shuffle=True, random_state=0, expansion__precision="double")
    try:
        model.fit(toy.X, toy.y)
    except DivergenceError:
        return float("inf")
    return float(np.sqrt(np.mean(np.square(model.predict(toy.X) - exact))))


def _run(context: Context) -> Result:
    X, y, labels = toy_rows(context.seed)
    toy = Toy(X[:_WHOLE], y[:_WHOLE], labels[:_WHOLE])
    passes = _QUICK_PASSES if context.quick else _PASSES
    rows: list[dict[str, Any]] = []
    curves: dict[str, list[float]] = {}
    for nu in _RIDGES:
        exact = minimiser(toy, Squared(), nu)
        for product in (*_PRODUCTS, None):
            theta = None if product is None else product / nu
            name = f"nu = {nu:g}, " + (
                "automatic" if product is None else f"theta nu = {product:g}"
            )
            context.say(name)
            errors = [_error(toy, exact, theta, nu, n) for n in passes]
            curves[name] = errors
            steps = {
                f"rms error after {6 * n:,} steps": e for n, e in zip(passes, errors, strict=True)
            }
            rows.append(
                {"nu": nu, "theta nu": "automatic" if product is None else product, **steps}
            )
    finite = curves[f"nu = {_RIDGES[0]:g}, theta nu = 1.5"]
    slope = float(np.polyfit(np.log(passes), np.log(finite), 1)[0])
    return Result(
        rows,
        targets=[
            Target(
                "nu = .1, theta nu = 1.5: slope of the log error over the log steps", slope, -0.4
            )
        ],
        drawings=[
            Drawing(
                "rates",
                "Distance to the minimiser after t steps; the proved rate is the dotted line.",
                lambda axes: _draw(axes, passes, curves),
            )
        ],
        notes=[
            f"{_WHOLE} rows in one dimension, {_KERNEL!r}, squared loss, mode faithful, steps of "
            f"{_BATCH} rows and {_BATCH} features. Errors are those of the last iterate at the "
            "rows. The theorem bounds their square by a constant over t, so the slope of the error "
            "is -1/2. inf: the run ended with DivergenceError. Automatic steps begin with the "
            "largest stable step and approach 1 / (nu t).",
        ],
    )


def _draw(axes: Any, passes: tuple[int, ...], curves: dict[str, list[float]]) -> None:
    steps = 6.0 * np.array(passes)
    for nu in (0.1, 0.03):
        for steps_of in ("theta nu = 1.5", "automatic"):
            name = f"nu = {nu:g}, {steps_of}"
            axes.loglog(steps, curves[name], marker=".", label=name)
    axes.loglog(steps, 0.02 * (steps / steps[0]) ** -0.5, ":", color="0.4", label="rate of t^-1/2")
    axes.set_xlabel("steps t")
    axes.set_ylabel("rms error")
    axes.legend()


EXPERIMENT = Experiment(
    name="dsg-steps",
    title="Steps of the theorem: theta / t",
    place="DSG, Theorem 4",
    shows=(
        "The theorem's steps, from the first one on, for three ridges, beside the automatic ones: "
        "distance of the last iterate from the exact minimiser."
    ),
    run=_run,
)
