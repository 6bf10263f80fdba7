"""What the experiments of POLK share: problems, and streams with measurements on the way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import KernelClassifier
from mercer.expansions import KOMP, Budget, Expansion
from mercer.kernels import Gaussian
from mercer.losses import Loss, MulticlassHinge, Softmax
from mercer.schedules import PowerDecay
from mercer_reproduction.baselines import NPBSGD

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]

SVM, LOGISTIC = "Multi-KSVM", "Multi-Logistic"
REGULARIZATION = 1e-6
BATCH = 32
LOSSES: dict[str, tuple[str, Loss]] = {
    SVM: ("multiclass_hinge", MulticlassHinge()),
    LOGISTIC: ("softmax", Softmax()),
}


@dataclass(frozen=True)
class Problem:
    """Rows of C classes and the kernel for them.

    Attributes
    ----------
    X, y : ndarrays of shapes (n_rows, n_inputs) and (n_rows,)
        Training rows and their classes, 0 to C - 1.
    X_test, y_test : ndarrays of shapes (n_test, n_inputs) and (n_test,)
        Rows on which risks and errors are measured.
    length_scale : float
        Of the Gaussian kernel.
    n_classes : int
        C.
    """

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels
    length_scale: float
    n_classes: int

    @property
    def kernel(self) -> Gaussian:
        """The Gaussian kernel."""
        return Gaussian(self.length_scale)

    def head(self, n_rows: int) -> Problem:
        """Take the first rows only as a training set."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])

    def held_out(self) -> Problem:
        """Take the last sixth of the training rows in the place of the test rows, to choose by."""
        n = len(self.X) - len(self.X) // 6
        X, y = self.X, self.y
        return replace(self, X=X[:n], y=y[:n], X_test=X[n:], y_test=y[n:])


@dataclass(frozen=True)
class Look:
    """What a model is worth after some samples.

    Attributes
    ----------
    samples : int
        Rows visited.
    risk : float
        Mean loss of the test rows, without the ridge; NaN where the model has none.
    error_percent : float
        Wrong classes of the test rows.
    model_order : float
        Points.
    spread : float
        Standard deviation of the error over draws of the problem; NaN for a single one.
    """

    samples: int
    risk: float
    error_percent: float
    model_order: float
    spread: float = np.nan


@dataclass(frozen=True)
class Run:
    """How a method did.

    Attributes
    ----------
    task : str
        :data:`SVM` or :data:`LOGISTIC`.
    method, settings : str
        In words.
    passes : float
        Over the rows.
    end : Look
        At the end; for streams the mean over looks at the last 5 % of the last pass.
    cpu_seconds : float
        Of training only.
    looks : list of Look
        On the way.
    ends : dict of int to Look
        What ``end`` is for the last pass, for others.
    model : object
        With a ``decision_function``.
    label : str
        What tells it from others of its method, for figures.
    budget : int
        Largest model order of BSGD; 0 for others.
    step_size : float
        Of BSGD.
    validation : float
        Error in percent on rows held out of training, of a run without them; NaN: not measured.
    iterations, converged : float
        Of batch solvers: iterations, and whether they converged (1 or 0; over draws the share).
    draws : int
        Draws of the problem, over which all numbers are means.
    """

    task: str
    method: str
    settings: str
    passes: float
    end: Look
    cpu_seconds: float
    looks: list[Look] = field(default_factory=list)
    ends: dict[int, Look] = field(default_factory=dict)
    model: Any = None
    label: str = ""
    budget: int = 0
    step_size: float = np.nan
    validation: float = np.nan
    iterations: float = np.nan
    converged: float = np.nan
    draws: int = 1


class _Learner(Protocol):
    @property
    def order(self) -> int: ...
    def learn(self, rows: NDArray[np.intp]) -> None: ...
    def decision_function(self, X: Floats) -> Floats: ...


@dataclass(frozen=True)
class Plan:
    """How long to stream, and when to look.

    Attributes
    ----------
    passes : int
        Over the rows, each in another order.
    n_looks : int
        On the way: half of them in the first pass, ever further apart, the others evenly over the
        rest.
    n_final : int
        In the last 5 % of a pass, for the means that are reported.
    seed : int
        Of the orders.
    reported : tuple of int
        Passes at whose ends means are wanted; the last is always among them.
    """

    passes: int
    n_looks: int = 16
    n_final: int = 8
    seed: int = 0
    reported: tuple[int, ...] = ()


def measure(problem: Problem, task: str, scores: Floats, samples: int, order: float) -> Look:
    """Risk and error of scores of the test rows."""
    values = LOSSES[task][1].value(problem.y_test, np.asarray(scores, np.float64))
    error = 100.0 * float(np.mean(scores.argmax(axis=1) != problem.y_test))
    return Look(samples, float(values.mean()), error, order)


def _average(looks: Sequence[Look]) -> Look:
    return Look(
        looks[-1].samples,
        *(
            float(np.mean([getattr(look, name) for look in looks]))
            for name in ("risk", "error_percent", "model_order")
        ),
    )


def _stream(
    problem: Problem, task: str, learner: _Learner, batch: int, plan: Plan
) -> tuple[list[Look], dict[int, Look], float]:
    """Visit the rows; return looks on the way, means at ends of passes, and the CPU seconds."""
    rng = np.random.default_rng(plan.seed)
    length = len(problem.X) // batch * batch  # a last batch that is short is dropped
    reported = {*plan.reported, plan.passes}
    # Early on all happens fast: half of the looks are within the first pass.
    first = np.geomspace(max(batch, length // 40), length, plan.n_looks // 2)
    rest = np.linspace(length, plan.passes * length, plan.n_looks - plan.n_looks // 2 + 1)
    on_the_way = np.unique(np.r_[first, rest[1:]].astype(int) // batch * batch)
    looks, ends, seconds, visited = [], {}, 0.0, 0
    for number in range(1, plan.passes + 1):
        order = rng.permutation(len(problem.X))[:length]
        start = (number - 1) * length
        tail: set[int] = set()
        if number in reported:
            tail = {
                int(moment) // batch * batch + start
                for moment in np.linspace(0.95 * length, length, plan.n_final)
            }
        here = {int(moment) for moment in on_the_way if start < moment <= start + length}
        final = []
        for moment in sorted(here | tail | {start + length}):
            rows = order[visited - start : moment - start]
            clock = time.process_time()
            if rows.size:
                learner.learn(rows)
            seconds += time.process_time() - clock
            visited = moment
            if moment in here or moment in tail:
                scores = learner.decision_function(problem.X_test)
                look = measure(problem, task, scores, moment, learner.order)
                if moment in here:
                    looks.append(look)
                if moment in tail:
                    final.append(look)
        if final:
            ends[number] = _average(final)
    return looks, ends, seconds


class _Estimator:
    """A classifier that is fed rows."""

    def __init__(self, problem: Problem, task: str, batch: int, **parameters: Any) -> None:
        self._problem = problem
        self.model = KernelClassifier(
            LOSSES[task][0],
            kernel=problem.kernel,
            regularization=REGULARIZATION,
            batch_size=batch,
            average=None,
            **parameters,
        )

    @property
    def order(self) -> int:
        return int(self.model.model_order_)

    def learn(self, rows: NDArray[np.intp]) -> None:
        X, y, classes = self._problem.X, self._problem.y, np.arange(self._problem.n_classes)
        # Cutting a call into batches is the same as a call for each.
        self.model.partial_fit(X[rows], y[rows], classes=classes)

    def decision_function(self, X: Floats) -> Floats:
        return np.asarray(self.model.decision_function(X))


def _warm(problem: Problem, task: str, batch: int, **parameters: Any) -> None:
    """Compile, or load what was compiled, outside the clock."""
    learner = _Estimator(problem, task, batch, **parameters)
    learner.learn(np.arange(min(4 * BATCH, len(problem.X))))


def _streamed(
    problem: Problem,
    task: str,
    method: str,
    settings: str,
    batch: int,
    plan: Plan,
    **parameters: Any,
) -> Run:
    _warm(problem, task, batch, **parameters)
    learner = _Estimator(problem, task, batch, **parameters)
    looks, ends, seconds = _stream(problem, task, learner, batch, plan)
    end = ends[plan.passes]
    return Run(task, method, settings, plan.passes, end, seconds, looks, ends, learner.model)


def polk(problem: Problem, task: str, parsimony: float, step_size: float, plan: Plan) -> Run:
    """POLK with tolerance K * step_size**1.5 and batches of 32 rows."""
    expansion: Expansion = KOMP(parsimony=parsimony)
    label = f"K = {parsimony:g}"
    settings = f"{label}, step {step_size:g}"
    run = _streamed(
        problem, task, "POLK", settings, BATCH, plan, step_size=step_size, expansion=expansion
    )
    return replace(run, label=label)


def budgeted(problem: Problem, size: int, strategy: str, step_size: float, plan: Plan) -> Run:
    """BSGD for the multi-class SVM, a row at a time with a constant step."""
    expansion: Expansion = Budget(size, strategy)
    settings = f"budget {size:,}, step {step_size:g}"
    name = f"BSGD, {strategy}"
    run = _streamed(problem, SVM, name, settings, 1, plan, step_size=step_size, expansion=expansion)
    return replace(run, label=f"{size:,}, step {step_size:g}", budget=size, step_size=step_size)


class _Npbsgd:
    """NPBSGD on the rows in the order of the plan."""

    def __init__(self, solver: NPBSGD) -> None:
        self.solver = solver

    @property
    def order(self) -> int:
        return self.solver.model_order

    def learn(self, rows: NDArray[np.intp]) -> None:
        for _ in range(rows.size):
            self.solver.step()

    def decision_function(self, X: Floats) -> Floats:
        return self.solver.decision_function(X)


def npbsgd(problem: Problem, task: str, size: int, step_size: float | None, plan: Plan) -> Run:
    """NPBSGD: projection on 5 neighbours, certain in the first half of the stream.

    Parameters
    ----------
    problem, task, plan
        As for the others.
    size : int
        Budget in the first half.
    step_size : float or None
        Constant, with the ridge of the others; None is the published 1 / (nu t) with nu = 1 / n.
    """
    rng = np.random.default_rng(plan.seed)
    n = len(problem.X)
    # The same orders as `_stream` makes, with a batch of one row.
    order = np.concatenate([rng.permutation(n) for _ in range(plan.passes)])
    constant = step_size is not None
    nu = REGULARIZATION if constant else 1.0 / n
    solver = NPBSGD(
        problem.X[order],
        problem.y[order],
        problem.kernel,
        LOSSES[task][1],
        step_size=step_size if constant else PowerDecay(1.0 / nu, 1.0),
        regularization=nu,
        size=size,
        n_outputs=problem.n_classes,
        certain=0.5 * order.size,
        seed=plan.seed,
    )
    looks, ends, seconds = _stream(problem, task, _Npbsgd(solver), 1, plan)
    step = f"step {step_size:g}" if constant else "step n / t, ridge 1 / n"
    settings = f"budget {size:,}, {step}"
    end = ends[plan.passes]
    return Run(task, "NPBSGD", settings, plan.passes, end, seconds, looks, ends, solver)


def mean_runs(by_draw: Sequence[Sequence[Run]]) -> list[Run]:
    """Mean over draws of the problem of each run, in the order of the first draw.

    Runs are the same if they agree in task, method and settings; later draws need not have all of
    them. The model is the first draw's.
    """
    return [
        _mean_run([run for runs in by_draw for run in runs if _key(run) == _key(first)])
        for first in by_draw[0]
    ]


def _key(run: Run) -> tuple[str, str, str]:
    return run.task, run.method, run.settings


def _mean_run(runs: Sequence[Run]) -> Run:
    def mean(name: str) -> float:
        known = [value for run in runs if not np.isnan(value := getattr(run, name))]
        return float(np.mean(known)) if known else np.nan

    looks = [
        replace(_over_draws(found), samples=found[0].samples)
        for found in zip(*(run.looks for run in runs), strict=True)
    ]
    return replace(
        runs[0],
        end=_over_draws([run.end for run in runs]),
        looks=looks,
        ends={n: _over_draws([run.ends[n] for run in runs]) for n in runs[0].ends},
        draws=len(runs),
        cpu_seconds=mean("cpu_seconds"),
        validation=mean("validation"),
        iterations=mean("iterations"),
        converged=mean("converged"),
    )


def _over_draws(looks: Sequence[Look]) -> Look:
    errors = [look.error_percent for look in looks]
    spread = float(np.std(errors, ddof=1)) if len(looks) > 1 else np.nan
    return replace(_average(looks), spread=spread)
