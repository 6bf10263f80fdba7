"""What a step costs, and what is kept, as the stream grows (DSG, Tables 2 and 3)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.kernels import Gaussian
from mercer.losses import Hinge, SquaredHinge
from mercer.recipes import dsg
from mercer.schedules import PowerDecay
from mercer.threads import one_blas_thread
from mercer_reproduction._comparison import Task
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._line_up import EstimatorSolver
from mercer_reproduction.baselines import (
    NORMA,
    RBCD,
    SBMD,
    SDCA,
    CachedFeatures,
    KernelSDCA,
    NystroemMap,
    Pegasos,
    RandomFeatureMap,
    Solver,
)

_BATCH, _N_INPUTS, _RIDGE = 64, 20, 1e-4
_SIZES, _QUICK_SIZES = (512, 1024, 2048, 4096), (256, 512)
_TIMED = 5  # steps, at the end of a pass
_WHAT: dict[str, Any] = {"regularization": _RIDGE}


class _Method(NamedTuple):
    """A method, with the exponents of its costs in the paper's tables.

    Attributes
    ----------
    name : str
        As in the paper.
    start : callable
        Makes a solver of a task.
    kept : callable
        Numbers that predictions need, of a solver.
    step, memory : int
        Powers of the number of rows, of which features are as many.
    rows_grow : bool
        Whether a step costs more the more rows were visited.
    """

    name: str
    start: Callable[[Task], Solver]
    kept: Callable[[Any, int], int]
    step: int
    memory: int
    rows_grow: bool


def _task(n: int, seed: int) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, _N_INPUTS)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    return Task(X, y, X[:2], y[:2], Gaussian(5.0), _RIDGE, _BATCH, seed)


def _methods() -> list[_Method]:
    batches: dict[str, Any] = {**_WHAT, "batch_size": _BATCH}

    def plain(task: Task) -> Solver:
        model = dsg("hinge", nu=_RIDGE, B=_BATCH, m=_BATCH, kernel=task.kernel, average=None)
        return EstimatorSolver(model.set_params(step_size=1.0), task)

    def norma(task: Task) -> Solver:
        return NORMA(task.X, task.y, task.kernel, Hinge(), step_size=1.0, **batches)

    def k_sdca(task: Task) -> Solver:
        return KernelSDCA(task.X, task.y, task.kernel, "hinge", **batches)

    def on(prefix: str) -> list[_Method]:
        def features(task: Task) -> CachedFeatures:
            n = len(task.X)
            if prefix == "r":
                return CachedFeatures(RandomFeatureMap(task.kernel, n, 0), task.X, keep=False)
            return CachedFeatures(NystroemMap(task.kernel, task.X), task.X, keep=False)

        def sdca(task: Task) -> Solver:
            return SDCA(features(task), task.y, "hinge", **batches)

        def pegasos(task: Task) -> Solver:
            return Pegasos(features(task), task.y, **batches)

        def sbmd(task: Task) -> Solver:
            return SBMD(features(task), task.y, Hinge(), step_size=PowerDecay(1.0), **batches)

        def rbcd(task: Task) -> Solver:
            return RBCD(features(task), task.y, SquaredHinge(), **_WHAT)

        starts = {"SDCA": sdca, "Pegasos": pegasos, "SBMD": sbmd, "RBCD": rbcd}
        return [
            _Method(
                f"{prefix}-{name}",
                start,
                # Random features are drawn again from their seed; landmarks and the root of their
                # kernel matrix are kept.
                lambda solver, n: n if prefix == "r" else n + n * _N_INPUTS + n * n,
                2 if name == "RBCD" else 1,
                1,
                rows_grow=False,
            )
            for name, start in starts.items()
        ]

    def coefficients(solver: Any, _: int) -> int:
        return int(solver.model.coefficients_.size)

    def visited(solver: Any, _: int) -> int:
        return (_N_INPUTS + 1) * int(solver.rows.n_visited)

    return [
        _Method("DSG plain", plain, coefficients, 1, 1, rows_grow=True),
        _Method("NORMA", norma, visited, 1, 1, rows_grow=True),
        _Method("k-SDCA", k_sdca, visited, 1, 1, rows_grow=True),
        *on("r"),
        *on("n"),
    ]


class _Cost(NamedTuple):
    preparing: float
    step: float
    kept: int


def _measure(method: _Method, n: int, seed: int) -> _Cost:
    """Median CPU seconds of the last steps of a pass over n rows, on one BLAS thread."""
    task = _task(n, seed)
    clock = time.process_time()
    solver = method.start(task)
    preparing = time.process_time() - clock
    for _ in range(n // _BATCH - _TIMED if method.rows_grow else 2):
        solver.step()
    seconds = []
    for _ in range(_TIMED):
        clock = time.process_time()
        solver.step()
        seconds.append(time.process_time() - clock)
    return _Cost(preparing, float(np.median(seconds)), method.kept(solver, n))


def _run(context: Context) -> Result:
    sizes = _QUICK_SIZES if context.quick else _SIZES
    rows: list[dict[str, Any]] = []
    steps: dict[str, list[float]] = {}
    slopes: dict[str, float] = {}
    with one_blas_thread():
        for method in _methods():
            context.say(method.name)
            _measure(method, sizes[0], context.seed)  # compiles
            costs = [_measure(method, n, context.seed) for n in sizes]
            steps[method.name] = [1e3 * cost.step for cost in costs]
            slopes[method.name] = _slope(sizes, [cost.step for cost in costs])
            kept = _slope(sizes, [float(cost.kept) for cost in costs])
            rows.append(
                {
                    "method": method.name,
                    f"step at {sizes[0]}, ms": steps[method.name][0],
                    f"step at {sizes[-1]:,}, ms": steps[method.name][-1],
                    "power": round(slopes[method.name], 2),
                    "power in the paper": method.step,
                    f"preparing at {sizes[-1]:,}, s": costs[-1].preparing,
                    f"numbers kept at {sizes[-1]:,}": costs[-1].kept,
                    "their power": round(kept, 2),
                    "theirs in the paper": method.memory,
                }
            )
    return Result(
        rows,
        targets=[
            Target(
                f"{name}: power of the cost of a step",
                slopes[name],
                power + 0.4,
                claim=("Table 3",),
            )
            for name, power in (("DSG plain", 1), ("r-SDCA", 1), ("r-Pegasos", 1), ("r-SBMD", 1))
        ],
        drawings=[
            Drawing(
                "steps",
                "Cost of a step as rows and features grow together.",
                lambda axes: _draw(axes, sizes, steps),
            )
        ],
        notes=[
            f"Steps of {_BATCH} rows with {_N_INPUTS} inputs, after so many rows; features and "
            "landmarks are as many as rows, and features are made again in every step, as the "
            "tables count. RBCD visits all rows in a step. Numbers kept are those that "
            "predictions need: features are drawn again from their seeds, and Nyström's map keeps "
            "landmarks and the root of their kernel matrix. Powers are slopes of the logarithms "
            f"over {len(sizes)} sizes. Small steps have fixed costs, which lower the powers.",
        ],
    )


def _slope(sizes: tuple[int, ...], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _draw(axes: Any, sizes: tuple[int, ...], steps: dict[str, list[float]]) -> None:
    for number, (name, milliseconds) in enumerate(steps.items()):
        axes.loglog(sizes, milliseconds, ("-", "--")[number // 7], marker=".", label=name)
    axes.set_xlabel("rows and features")
    axes.set_ylabel("CPU ms of a step")
    axes.legend()


EXPERIMENT = Experiment(
    name="dsg-costs",
    title="What steps cost and models keep",
    place="DSG, Section 6, Tables 2 and 3",
    shows="How the time of a step and the numbers kept grow with the rows, for eleven methods.",
    run=_run,
)
