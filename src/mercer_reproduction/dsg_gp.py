"""Gaussian-process posteriors against the closed form (DSG, Section 7.2 and Figure 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import GaussianProcessRegressor, KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.gaussian_process import Cyclic, Faithful, Method, Operator
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer_reproduction._data import median_distance
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._synthetic import Rows, slice_inputs, synthetic
from mercer_reproduction.baselines import NORMA

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_NOISE = 0.1  # that of the model, as in the paper; that of the rows has variance 0.01
_BATCH, _BLOCK = 64, 512
_STEP = 3.0
_TARGET = "cyclic, 16 x 512, 1 sweep"
_DSG = "doubly stochastic, step 3, averaged"


class Posterior(NamedTuple):
    """Posterior means (n,) at some points, and variances (n_variances,) at the first of them."""

    mean: Array
    variance: Array


def closed_form(kernel: Gaussian, data: Rows, X: Array, n_variances: int) -> Posterior:
    """Posterior by one Cholesky decomposition in double precision (DSG, eq. (9)).

    Parameters
    ----------
    kernel : Gaussian
        Covariance of the prior.
    data : Rows
        Training rows.
    X : ndarray of shape (n, n_inputs)
        Points.
    n_variances : int
        Points, the first ones, of which variances are wanted.
    """
    from scipy.linalg import cho_factor, cho_solve

    gram = np.asarray(kernel(data.X), dtype=np.float64)
    gram[np.diag_indices(len(gram))] += _NOISE
    factor = cho_factor(gram, lower=True, overwrite_a=True)
    cross = np.asarray(kernel(X, data.X), dtype=np.float64)
    mean = cross @ cho_solve(factor, data.y)
    few = cross[:n_variances]
    explained = np.sum(few * cho_solve(factor, few.T).T, axis=1)
    return Posterior(mean, kernel.diag(X[:n_variances]) - explained)


@dataclass(frozen=True)
class _Problem:
    kernel: Gaussian
    data: Rows
    points: Array
    n_variances: int
    seed: int

    @property
    def ridge(self) -> float:
        """Regularization that gives the posterior mean: noise / n (the paper has 2 noise)."""
        return _NOISE / len(self.data.X)

    @property
    def few(self) -> Array:
        """Points of which variances are wanted."""
        return self.points[: self.n_variances]

    def columns(self) -> Array:
        """Targets of the mean and of the variances, side by side (DSG, Section 4, route 2)."""
        return np.column_stack([self.data.y, self.kernel(self.data.X, self.few)])

    def from_columns(self, mean: Array, explained: Array) -> Posterior:
        """Posterior from the values that were learned from the columns."""
        return Posterior(mean, np.maximum(self.kernel.diag(self.few) - explained, 0.0))


Solve = Callable[[_Problem], Posterior]


def _gaussian_process(**settings: Any) -> Solve:
    def solve(problem: _Problem) -> Posterior:
        model = GaussianProcessRegressor(
            problem.kernel, noise=_NOISE, random_state=problem.seed, **settings
        )
        model.fit(*problem.data)
        _, deviation = model.predict(problem.few, return_std=True)
        return Posterior(model.predict(problem.points), deviation**2)

    return solve


def _descent(method: Method) -> Solve:
    return _gaussian_process(method=method)


def _regressor(expansion: dict[str, Any], step_size: Any, n_passes: int) -> Solve:
    """Learn mean and variances with a regressor, as columns; predict with the last iterate."""

    def solve(problem: _Problem) -> Posterior:
        model = KernelRegressor(
            kernel=problem.kernel,
            expansion=RandomFeatures(_BLOCK, seed=problem.seed, min_steps=0, **expansion),
            step_size=step_size,
            regularization=problem.ridge,
            batch_size=_BATCH,
            n_passes=n_passes,
            average=None,
            random_state=problem.seed,
        )
        model.fit(problem.data.X, problem.columns())
        values = model.predict(problem.points)
        explained = np.einsum("ii->i", values[: problem.n_variances, 1:])
        return problem.from_columns(values[:, 0], explained)

    return solve


def _norma(n_steps: int) -> Solve:
    """Exact-kernel descent, averaged: one run for the mean and one for every variance."""

    def solve(problem: _Problem) -> Posterior:
        def learned(targets: Array, X: Array) -> Array:
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

        columns = problem.columns()
        explained = [
            learned(columns[:, j + 1], problem.few[j : j + 1])[0]
            for j in range(problem.n_variances)
        ]
        return problem.from_columns(learned(columns[:, 0], problem.points), np.array(explained))

    return solve


def _faithful(step_size: float, n_steps: int) -> Method:
    return Faithful(n_steps, _BLOCK, _BATCH, step_size)


def _table_methods(quick: bool) -> dict[str, Solve]:
    """Methods by name: the page's table of the paper's, then what the library adds."""
    steps, newton_passes = (64, 10) if quick else (1500, 100)
    many = 1024 if quick else 2048
    operator = Operator(16, 32) if quick else Operator()
    plain = {"mode": "faithful"}
    return {
        "doubly stochastic, step 1, averaged": _descent(_faithful(1.0, steps)),
        _DSG: _descent(_faithful(_STEP, steps)),
        "doubly stochastic, step 3, last": _regressor(plain, _STEP, max(1, steps // 32)),
        "doubly stochastic, operator": _descent(
            Faithful(steps, _BLOCK, _BATCH, _STEP, variance=operator)
        ),
        "newton": _regressor(
            {"mode": "newton", "ridge": 1e-3}, lambda t: 1.0 / (1.0 + t / 4.0), newton_passes
        ),
        "NORMA, step 3, averaged": _norma(steps),
        **_sweeps(4, (1, 2, 6)),
        **_sweeps(16, (1,) if quick else (1, 6)),
        "cyclic, 16 x 512, operator": _descent(Cyclic(16, _BLOCK, n_sweeps=1, variance=operator)),
        "features, 512": _gaussian_process(n_features=512),
        f"features, {many}": _gaussian_process(n_features=many),
        f"features, {many}, independent": _gaussian_process(n_features=many, design="iid"),
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
    n, n_test, n_variances = (512, 256, 4) if context.quick else (2**11, 2**10, 32)
    data, points = synthetic(n, context.seed), synthetic(n_test, context.seed + 1).X
    kernel = Gaussian(median_distance(data.X.astype(np.float32), context.seed))
    problem = _Problem(kernel, data, points, n_variances, context.seed)
    exact = closed_form(kernel, data, points, n_variances)
    rows, means = [], {}
    for name, solve in _table_methods(context.quick).items():
        clock = time.process_time()
        found = solve(problem)
        seconds = time.process_time() - clock
        means[name] = _rmse(found.mean, exact.mean)
        rows.append(
            {
                "method": name,
                "CPU s": seconds,
                "RMSE of the mean": means[name],
                "RMSE of the variance": _rmse(found.variance, exact.variance),
            }
        )
        context.say(f"{name}: mean {means[name]:.2e}, {seconds:.1f} CPU s")
    context.say("figures")
    return Result(
        rows,
        targets=[
            Target(f"{_TARGET}: RMSE of the mean to the closed form", means[_TARGET], 1.5e-2),
            Target(f"{_DSG}: RMSE of the mean to the closed form", means[_DSG], 3e-2),
        ],
        drawings=[*_slices(problem, context.quick), *_convergence(problem, exact, context.quick)],
        notes=[
            f"{n:,} rows, {n_test:,} points, of which {n_variances} for the variance; {kernel!r} "
            f"(the median distance), noise {_NOISE}, regularization noise / n, batches of {_BATCH} "
            f"rows and blocks of {_BLOCK} features. At the points the closed form has means of "
            f"root mean square {_rmse(exact.mean, np.zeros(n_test)):.2g} and variances of "
            f"{_rmse(exact.variance, np.zeros(n_variances)):.2g}. CPU seconds are of all that the "
            "row took, variances included.",
            "`features`: one exact solve on so many features, Sobol but for the last row. "
            "`operator`: the variances come from one operator for all points (DSG, Section 4, "
            "route 1), the means as in the row of the same method. The limit of `newton` is not "
            "the posterior but a function near it. The paper shows curves, no numbers.",
            "Compare the errors of the variance with the size of the variances: only `features` "
            "gives error bars that can be trusted; the operator's are far off after so few steps.",
        ],
    )


def _slices(problem: _Problem, quick: bool) -> list[Drawing]:
    """Figures of mean and variance along a line, with the closed form."""
    line = slice_inputs(21 if quick else 61)
    along = _Problem(problem.kernel, problem.data, line, len(line), problem.seed)
    steps = 64 if quick else 1500
    solves = {
        "doubly stochastic": _descent(_faithful(_STEP, steps)),
        "cyclic, 16 x 512": _descent(Cyclic(16, _BLOCK, n_sweeps=1 if quick else 4)),
        "features, 512": _gaussian_process(n_features=512),
    }
    found = {name: solve(along) for name, solve in solves.items()}
    exact = closed_form(problem.kernel, problem.data, line, len(line))

    def draw(part: str, label: str) -> Callable[[Axes], None]:
        def draw_lines(ax: Axes) -> None:
            ax.plot(
                line[:, 0], getattr(exact, part), color="0.65", linewidth=5, label="closed form"
            )
            for style, (name, posterior) in zip((":", "--", "-"), found.items(), strict=True):
                ax.plot(line[:, 0], getattr(posterior, part), style, label=name)
            ax.set_xlabel("first input (the second one is 0)")
            ax.set_ylabel(label)

        return draw_lines

    return [
        Drawing("mean", "Posterior mean along a line.", draw("mean", "posterior mean")),
        Drawing(
            "variance", "Posterior variance along a line.", draw("variance", "posterior variance")
        ),
    ]


def _convergence(problem: _Problem, exact: Posterior, quick: bool) -> list[Drawing]:
    """Figures of errors against CPU seconds, of runs of several lengths."""
    steps: Sequence[int] = (32, 64) if quick else (47, 94, 188, 375, 750, 1500)
    sweeps: Sequence[int] = (1, 2) if quick else (1, 2, 4, 8)
    ways: dict[str, list[Solve]] = {
        "doubly stochastic": [_descent(_faithful(_STEP, t)) for t in steps],
        "NORMA": [_norma(t) for t in steps],
        "cyclic, 16 x 512": [_descent(Cyclic(16, _BLOCK, n_sweeps=s)) for s in sweeps],
        "features": [_gaussian_process(n_features=2**k) for k in range(5, 8 if quick else 12)],
    }
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for name, solves in ways.items():
        curves[name] = []
        for solve in solves:
            clock = time.process_time()
            found = solve(problem)
            seconds = time.process_time() - clock
            mean, variance = (_rmse(a, b) for a, b in zip(found, exact, strict=True))
            curves[name].append((seconds, mean, variance))

    def draw(column: int, label: str) -> Callable[[Axes], None]:
        def draw_curves(ax: Axes) -> None:
            for name, curve in curves.items():
                values = np.array(curve)
                ax.plot(values[:, 0], values[:, column], "o-", markersize=3, label=name)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel("CPU seconds")
            ax.set_ylabel(label)

        return draw_curves

    return [
        Drawing(
            "mean-convergence",
            "Error of the posterior mean against CPU time, runs of several lengths.",
            draw(1, "RMSE of the mean"),
        ),
        Drawing(
            "variance-convergence",
            "Error of the posterior variance against CPU time, runs of several lengths.",
            draw(2, "RMSE of the variance"),
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
