"""Gaussian-process posteriors against the closed form (DSG, Section 7.2 and Figure 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import GaussianProcessRegressor
from mercer.gaussian_process import Cyclic, Faithful, Method, Operator
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer_reproduction._data import median_distance
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._synthetic import Rows, slice_inputs, synthetic
from mercer_reproduction.baselines import NORMA
from mercer_reproduction.baselines._base import tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_NOISE = 0.1  # that of the model, as in the paper; that of the rows has variance 0.01
_BATCH, _BLOCK = 64, 512
_STEP = 3.0
_COLUMNS = 256  # points at a time, for variances
_SIXTEEN = f"cyclic, 16 x {_BLOCK}"
_MEAN, _VARIANCE = "RMSE of the mean", "RMSE of the variance"
_DSG, _FEATURES = "doubly stochastic", "features"
_COLORS = dict(
    zip(
        (_DSG, "NORMA", "operator", f"cyclic, 4 x {_BLOCK}", _SIXTEEN, _FEATURES),
        ("C0", "C1", "C2", "C3", "C4", "C5"),
        strict=True,
    )
)


class Posterior(NamedTuple):
    """Posterior means and variances at some points, each of shape (n,)."""

    mean: Array
    variance: Array


def closed_form(kernel: Gaussian, data: Rows, X: Array) -> Posterior:
    """Posterior by one Cholesky decomposition in double precision (DSG, eq. (9)).

    Parameters
    ----------
    kernel : Gaussian
        Covariance of the prior.
    data : Rows
        Training rows.
    X : ndarray of shape (n, n_inputs)
        Points.
    """
    from scipy.linalg import cho_factor, cho_solve

    gram = np.asarray(kernel(data.X), dtype=np.float64)
    gram[np.diag_indices(len(gram))] += _NOISE
    factor = cho_factor(gram, lower=True, overwrite_a=True)
    cross = np.asarray(kernel(X, data.X), dtype=np.float64)
    mean = cross @ cho_solve(factor, data.y)
    explained = np.sum(cross * cho_solve(factor, cross.T).T, axis=1)
    return Posterior(mean, kernel.diag(X) - explained)


@dataclass(frozen=True)
class _Problem:
    kernel: Gaussian
    data: Rows
    points: Array
    seed: int

    @property
    def ridge(self) -> float:
        """Regularization that gives the posterior mean: noise / n (the paper has 2 noise)."""
        return _NOISE / len(self.data.X)


Solve = Callable[[_Problem], Posterior]


def _gaussian_process(**settings: Any) -> Solve:
    def solve(problem: _Problem) -> Posterior:
        model = GaussianProcessRegressor(
            problem.kernel, noise=_NOISE, random_state=problem.seed, **settings
        )
        mean, deviation = model.fit(*problem.data).predict(problem.points, return_std=True)
        return Posterior(mean, deviation**2)

    return solve


def _descent(method: Method) -> Solve:
    return _gaussian_process(method=method)


# Values at some points from targets at the training rows, one function for each column of them.
Learn = Callable[[_Problem, Array, Array], Array]


def _by_columns(learn: Learn) -> Solve:
    """Learn the mean, then what the data explain of the variances (DSG, Section 4, route 2)."""

    def solve(problem: _Problem) -> Posterior:
        mean = learn(problem, problem.data.y[:, np.newaxis], problem.points)[:, 0]
        explained = []
        for tile in tiles(len(problem.points), _COLUMNS):
            points = problem.points[tile]
            targets = np.asarray(problem.kernel(problem.data.X, points), dtype=np.float64)
            explained.append(np.diagonal(learn(problem, targets, points)))
        rest = problem.kernel.diag(problem.points) - np.concatenate(explained)
        return Posterior(mean, np.maximum(rest, 0.0))

    return solve


def _norma(n_steps: int) -> Solve:
    """Exact-kernel descent, averaged."""

    def learn(problem: _Problem, targets: Array, X: Array) -> Array:
        solver = NORMA(
            problem.data.X,
            targets,
            problem.kernel,
            Squared(),
            step_size=_STEP,
            regularization=problem.ridge,
            batch_size=_BATCH,
            seed=problem.seed,
        )
        for _ in range(n_steps):
            solver.step()
        return solver.decision_function(X)

    return _by_columns(learn)


def _operator(n_steps: int, block_size: int) -> Solve:
    """Variances by one operator; the mean, by the cheapest descent, has no part in them."""
    return _descent(Cyclic(4, _BLOCK, n_sweeps=1, variance=Operator(n_steps, block_size)))


def _methods(quick: bool) -> dict[str, dict[str, Solve]]:
    """Families of methods, each from the cheapest on: the lines of the figures."""
    steps = (32, 64) if quick else (94, 375, 1500)
    features = (32, 128) if quick else (32, 128, 512, 2048)
    most = features[-1]
    sizes = ((4, 8), (8, 8)) if quick else ((8, 32), (32, 8), (32, 32), (32, 128), (128, 32))
    return {
        _DSG: {f"{_DSG}, {t} steps": _descent(Faithful(t, _BLOCK, _BATCH, _STEP)) for t in steps},
        "NORMA": {f"NORMA, {t} steps": _norma(t) for t in steps},
        "operator": {f"operator, {t} steps of {m}": _operator(t, m) for t, m in sizes},
        f"cyclic, 4 x {_BLOCK}": _sweeps(4, (1, 2, 6)),
        _SIXTEEN: _sweeps(16, (1, 2)),
        _FEATURES: {f"features, {m}": _gaussian_process(n_features=m) for m in features},
        "independent features": {
            f"features, {most}, independent": _gaussian_process(n_features=most, design="iid")
        },
    }


def _sweeps(n_blocks: int, numbers: Sequence[int]) -> dict[str, Solve]:
    """Block descent of several lengths."""
    return {
        f"cyclic, {n_blocks} x {_BLOCK}, {n} sweep{'s' * (n > 1)}": _descent(
            Cyclic(n_blocks, _BLOCK, n_sweeps=n)
        )
        for n in numbers
    }


def _rmse(values: Array, exact: Array) -> float:
    return float(np.sqrt(np.mean((values - exact) ** 2)))


def _run(context: Context) -> Result:
    quick = context.quick
    n, n_test = (256, 128) if quick else (2**11, 2**10)
    data, points = synthetic(n, context.seed), synthetic(n_test, context.seed + 1).X
    kernel = Gaussian(median_distance(data.X.astype(np.float32), context.seed))
    problem = _Problem(kernel, data, points, context.seed)
    exact = closed_form(kernel, data, points)
    curves: dict[str, list[dict[str, Any]]] = {}
    for family, solves in _methods(quick).items():
        curves[family] = []
        for name, solve in solves.items():
            clock = time.process_time()
            found = solve(problem)
            seconds = time.process_time() - clock
            mean, variance = (_rmse(a, b) for a, b in zip(found, exact, strict=True))
            row = {"method": name, "CPU s": seconds, _MEAN: mean, _VARIANCE: variance}
            curves[family].append(row)
            context.say(f"{name}: mean {mean:.2e}, variance {variance:.2e}, {seconds:.1f} CPU s")
    context.say("figures")
    dsg, norma, cyclic = (
        curves[family][k] for family, k in ((_DSG, -1), ("NORMA", -1), (_SIXTEEN, 0))
    )
    size = _rmse(exact.variance, np.zeros(n_test))
    return Result(
        [row for rows in curves.values() for row in rows],
        targets=[
            Target(f"{cyclic['method']}: {_MEAN} to the closed form", cyclic[_MEAN], 1.5e-2),
            Target(f"{dsg['method']}: {_MEAN} to the closed form", dsg[_MEAN], 3e-2),
            # The paper: comparable performance in approximating both.
            *(
                Target(
                    f"{dsg['method']}: {part}, over that of NORMA",
                    dsg[part] / norma[part],
                    1.25,
                    claim=("Fig. 5",),
                )
                for part in (_MEAN, _VARIANCE)
            ),
        ],
        drawings=[*_slices(problem, quick), *_convergence(curves, size)],
        notes=[
            f"{n:,} rows, {n_test:,} points for means and variances; {kernel!r} (the median "
            f"distance), noise {_NOISE}, regularization noise / n, batches of {_BATCH} rows and "
            f"blocks of {_BLOCK} features; step {_STEP:g}, averages of the later half of the "
            f"iterates. At the points the closed form has means of root mean square "
            f"{_rmse(exact.mean, np.zeros(n_test)):.2g} and variances of {size:.2g}. CPU seconds "
            "are of all that the row took, variances included.",
            "`features`: one exact solve on so many features, Sobol but for the last row. The "
            "paper shows curves, no numbers.",
            "`operator`: the variances come from one operator for all points (DSG, Section 4, "
            "route 1), with so many steps of so many features on each side; the means are those of "
            f"`cyclic, 4 x {_BLOCK}, 1 sweep`. {_trend(curves['operator'], size)}",
            "Compare the errors of the variance with the size of the variances: only `features` "
            "gives error bars that can be trusted.",
        ],
    )


def _trend(rows: Sequence[dict[str, Any]], size: float) -> str:
    """Say how the operator's error falls with its steps, and what an error of use would take."""
    few, many = rows[0], rows[-1]
    steps = [int(row["method"].split()[1]) for row in (few, many)]
    power = np.log(many[_VARIANCE] / few[_VARIANCE]) / np.log(steps[1] / steps[0])
    wanted = steps[1] * (0.5 * size / many[_VARIANCE]) ** (1.0 / power)
    features = wanted * int(many["method"].split()[-1])
    return (
        f"From {steps[0]} to {steps[1]} steps its error falls like the number of steps to the "
        f"power of {power:.2f}, while its memory grows like their square and its time like their "
        f"cube. Were that to go on, an error of half of the variances would take {wanted:,.0f} "
        f"steps, {8.0 * features**2 / 2**40:,.0f} TiB: it is of no use for error bars here."
    )


def _slices(problem: _Problem, quick: bool) -> list[Drawing]:
    """Figures of mean and variance along a line, with the closed form."""
    line = slice_inputs(21 if quick else 61)
    along = _Problem(problem.kernel, problem.data, line, problem.seed)
    steps = 64 if quick else 375
    solves = {
        _DSG: (f"{_DSG}, {steps} steps", _descent(Faithful(steps, _BLOCK, _BATCH, _STEP))),
        _SIXTEEN: (_SIXTEEN, _descent(Cyclic(16, _BLOCK, n_sweeps=1 if quick else 2))),
        _FEATURES: ("features, 512", _gaussian_process(n_features=512)),
    }
    styles = (":", "--", "-")
    found = {family: (name, solve(along)) for family, (name, solve) in solves.items()}
    exact = closed_form(problem.kernel, problem.data, line)

    def draw(part: str, label: str) -> Callable[[Axes], None]:
        def draw_lines(ax: Axes) -> None:
            ax.plot(
                line[:, 0], getattr(exact, part), color="0.65", linewidth=5, label="closed form"
            )
            for (family, (name, posterior)), style in zip(found.items(), styles, strict=True):
                values = getattr(posterior, part)
                ax.plot(line[:, 0], values, style, color=_COLORS[family], label=name)
            ax.set_xlabel("first input (the second one is 0)")
            ax.set_ylabel(label)

        return draw_lines

    return [
        Drawing("mean", "Posterior mean along a line.", draw("mean", "posterior mean")),
        Drawing(
            "variance", "Posterior variance along a line.", draw("variance", "posterior variance")
        ),
    ]


def _convergence(curves: dict[str, list[dict[str, Any]]], size: float) -> list[Drawing]:
    """Figures of errors against CPU seconds, of runs of several lengths."""

    def draw(column: str) -> Callable[[Axes], None]:
        def draw_curves(ax: Axes) -> None:
            for name, rows in curves.items():
                if len(rows) > 1 and (column == _VARIANCE or name != "operator"):
                    x, y = ([row[c] for row in rows] for c in ("CPU s", column))
                    style = "o" if name == "operator" else "o-"
                    ax.plot(x, y, style, color=_COLORS[name], markersize=3, label=name)
            if column == _VARIANCE:
                ax.axhline(size, color="0.65", linestyle=":", label="size of the variances")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel("CPU seconds")
            ax.set_ylabel(column)

        return draw_curves

    return [
        Drawing(
            "mean-convergence",
            "Error of the posterior mean against CPU time, runs of several lengths.",
            draw(_MEAN),
        ),
        Drawing(
            "variance-convergence",
            "Error of the posterior variance against CPU time, runs of several lengths.",
            draw(_VARIANCE),
        ),
    ]


EXPERIMENT = Experiment(
    name="dsg-gp",
    title="Gaussian-process posteriors",
    place="DSG, Section 7.2, Figure 5",
    shows=(
        "How near the posterior mean and variance come to the closed form, by doubly stochastic "
        "gradients and by the other ways of the library."
    ),
    run=_run,
)
