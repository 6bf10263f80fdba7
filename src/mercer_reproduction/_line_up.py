"""The methods of DSG, Figure 6 and Tables 2 and 3, with the settings used here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from mercer.estimators import KernelClassifier
from mercer.expansions import Expansion, RandomFeatures
from mercer.losses import Hinge, SquaredHinge
from mercer.recipes import dsg
from mercer.schedules import InverseTime, PowerDecay
from mercer_reproduction._comparison import (
    Course,
    Criterion,
    Method,
    Task,
    compare,
    draw_courses,
    same_time,
)
from mercer_reproduction._experiment import Context, Drawing
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
    row_batches,
)
from mercer_reproduction.baselines._base import Array, Floats

#: Features of the methods with a fixed number of them (DSG, Section 7: r = 2**8).
N_FEATURES = 256
#: What notes say of the steps of :func:`plain`.
PLAIN_STEPS = (
    "whose sizes are not printed: automatic ones and two constants. It predicts by the mean of all "
    "iterates."
)


class EstimatorSolver(Solver):
    """An estimator of mercer, fed a batch at a time.

    Parameters
    ----------
    model : KernelClassifier
        Not fitted; a step of the solver takes its ``batch_size``.
    task : Task
        Problem.
    """

    def __init__(self, model: Any, task: Task) -> None:
        self.model, self._task = model, task
        self._batches = row_batches(len(task.X), model.batch_size, task.seed)

    def step(self) -> int:
        rows = next(self._batches)
        self.model.partial_fit(self._task.X[rows], self._task.y[rows], classes=[-1.0, 1.0])
        return rows.size

    def decision_function(self, X: Floats) -> Array:
        scores: Array = self.model.decision_function(X)
        return scores


def doubly_stochastic(
    loss: str, block_size: int, ridge: float, step_size: float | str = "auto"
) -> Method:
    """Make mercer's own method: doubly stochastic gradients in newton mode, the last iterate.

    Parameters
    ----------
    loss : str
        "hinge", "logistic", ...
    block_size : int
        Features of a block.
    ridge : float
        Added to the covariance of a block.
    step_size : float or "auto", default="auto"
        First step size, falling like 1 / (1 + t/100); "auto" is 1 / (2 L) for curvature L.
    """

    def start(task: Task) -> Solver:
        falling = step_size if isinstance(step_size, str) else InverseTime(step_size, 100)
        expansion: Expansion = RandomFeatures(block_size=block_size, ridge=ridge, seed=task.seed)
        model = KernelClassifier(
            loss,
            kernel=task.kernel,
            expansion=expansion,
            step_size=falling,
            regularization=task.regularization,
            batch_size=task.batch_size,
            random_state=task.seed,
        )
        return EstimatorSolver(model, task)

    return Method(f"DSG newton, {loss}", start)


def plain(batch_size: int, block_size: int, steps: Sequence[float]) -> list[Method]:
    """Make the paper's own algorithm with its printed batches and blocks, the mean of iterates.

    Parameters
    ----------
    batch_size, block_size : int
        Rows and features of a step.
    steps : sequence of float
        Constant step sizes to try beside the automatic ones, as the paper prints none.
    """

    def method(step: float | None) -> Method:
        def start(task: Task) -> Solver:
            model = dsg(
                "hinge",
                nu=task.regularization,
                B=batch_size,
                m=block_size,
                kernel=task.kernel,
                seed=task.seed,
            )
            if step is not None:
                model.set_params(step_size=step)
            return EstimatorSolver(model, task)

        return Method("DSG plain" if step is None else f"DSG plain, step {step:g}", start)

    return [method(step) for step in (*steps, None)]


def competitors(norma_step: float, sbmd_step: float = 256.0) -> list[Method]:
    """List the other methods: hinge loss, except for RBCD, whose loss must be smooth.

    Parameters
    ----------
    norma_step : float
        Constant step size of NORMA, whose later iterates are averaged.
    sbmd_step : float, default=256
        First step size of SBMD, which falls like the square root of the step number.
    """

    def common(task: Task) -> dict[str, Any]:
        return {"regularization": task.regularization, "seed": task.seed}

    def norma(task: Task) -> Solver:
        step: dict[str, Any] = {"step_size": norma_step, "batch_size": task.batch_size}
        return NORMA(task.X, task.y, task.kernel, Hinge(), **step, **common(task))

    def k_sdca(task: Task) -> Solver:
        size = task.batch_size
        return KernelSDCA(task.X, task.y, task.kernel, "hinge", batch_size=size, **common(task))

    def on_features(prefix: str) -> list[Method]:
        def features(task: Task) -> CachedFeatures:
            n = min(N_FEATURES, len(task.X))
            if prefix == "r":
                return CachedFeatures(RandomFeatureMap(task.kernel, n, task.seed), task.X)
            return CachedFeatures(NystroemMap.from_rows(task.kernel, task.X, n, task.seed), task.X)

        def sdca(task: Task) -> Solver:
            size = task.batch_size
            return SDCA(features(task), task.y, "hinge", batch_size=size, **common(task))

        def pegasos(task: Task) -> Solver:
            return Pegasos(features(task), task.y, batch_size=task.batch_size, **common(task))

        def sbmd(task: Task) -> Solver:
            step: dict[str, Any] = {
                "step_size": PowerDecay(sbmd_step),
                "batch_size": task.batch_size,
            }
            return SBMD(features(task), task.y, Hinge(), **step, **common(task))

        def rbcd(task: Task) -> Solver:
            return RBCD(features(task), task.y, SquaredHinge(), **common(task))

        kinds = {"SDCA": sdca, "Pegasos": pegasos, "SBMD": sbmd, "RBCD": rbcd}
        return [Method(f"{prefix}-{kind}", start) for kind, start in kinds.items()]

    return [
        Method("NORMA", norma),
        Method("k-SDCA", k_sdca),
        *on_features("r"),
        *on_features("n"),
    ]


def both_criteria(
    context: Context,
    task: Task,
    own: Method,
    papers: list[Method],
    others: list[Method],
    n_passes: int = 1,
) -> tuple[list[dict[str, Any]], list[Drawing], Course]:
    """Compare under SC1 and SC2 of DSG; rows of a table, figures, and the own method's course.

    Under SC1 all methods make ``n_passes`` passes. Under SC2 the others get the CPU time that the
    own method took for them. Of ``papers``, the paper's algorithm with several steps, SC2 and the
    figures have the one with the smallest error under SC1.
    """
    sc1 = Criterion(passes=float(n_passes))
    passes = "one pass" if n_passes == 1 else f"{n_passes} passes"
    context.say(f"SC1: {passes} over {len(task.X):,} rows")
    [own_course] = compare(task, [own], sc1, say=context.say)
    swept = compare(task, papers, sc1, say=context.say)
    best = min(range(len(swept)), key=lambda i: swept[i].error_percent)
    same_rows = [own_course, *swept, *compare(task, others, sc1, say=context.say)]
    others = [papers[best], *others]
    context.say(f"SC2: {own_course.cpu_seconds:.2f} CPU seconds for each of the others")
    same_seconds = [own_course, *compare(task, others, same_time(own_course), say=context.say)]
    rows = [course.row(criterion=f"SC1, {passes}") for course in same_rows]
    rows += [course.row(criterion="SC2, same CPU time") for course in same_seconds]
    drawings = [
        draw_courses(
            "sc1",
            f"SC1: every method makes {passes}.",
            _of_figure_6([c for c in same_rows if c not in swept or c is swept[best]]),
        ),
        draw_courses(
            "sc2", "SC2: every method gets the same CPU time.", _of_figure_6(same_seconds)
        ),
    ]
    return rows, drawings, own_course


def _of_figure_6(courses: list[Course]) -> list[Course]:
    """Leave out the methods that are in the paper's tables only."""
    return [course for course in courses if not course.method.endswith(("SBMD", "RBCD"))]


def references(task: Task, n_svc: int, costs: tuple[float, ...]) -> list[dict[str, Any]]:
    """Linear logistic regression on all rows, and LIBSVM (scikit-learn's SVC) on some.

    Parameters
    ----------
    task : Task
        Problem with a Gaussian kernel.
    n_svc : int
        Rows for LIBSVM.
    costs : tuple of float
        Its parameters C.
    """
    import time

    gamma = 0.5 / task.kernel.get_params()["length_scale"] ** 2
    few = task.head(n_svc)
    models: list[tuple[str, Any, Task]] = [
        ("linear logistic regression", LogisticRegression(max_iter=1000), task)
    ]
    models += [
        (f"LIBSVM, {len(few.X):,} rows, C={cost:g}", SVC(C=cost, gamma=gamma), few)
        for cost in costs
    ]
    rows = []
    for name, model, data in models:
        start = time.process_time()
        model.fit(data.X, data.y)
        seconds = time.process_time() - start
        error = 100.0 * float(np.mean(model.predict(task.X_test) != task.y_test))
        course = Course(name, len(data.X) / len(task.X), seconds, error, [])
        rows.append({**course.row(criterion="own stopping rule"), "passes": "-"})
    return rows
