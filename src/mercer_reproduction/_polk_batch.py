"""The batch methods that POLK is compared with: LIBSVM, L-BFGS and import vectors."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from sklearn.svm import SVC

from mercer.losses import Loss, Softmax
from mercer_reproduction._polk_runs import (
    LOGISTIC,
    REGULARIZATION,
    SVM,
    Look,
    Problem,
    Run,
    measure,
)
from mercer_reproduction.baselines import (
    KernelFactor,
    SmoothedHinge,
    import_vectors,
    minimize_risk,
)

# Of the smoothed hinge, by which L-BFGS comes to the hinge.
_WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01)


def support_vectors(problem: Problem) -> Run:
    """LIBSVM (scikit-learn's SVC), one against one; C = 1 / (n ridge) is the same trade-off."""
    cost = 1.0 / (REGULARIZATION * len(problem.X))
    model = SVC(C=cost, gamma=0.5 / problem.length_scale**2, cache_size=500)
    clock = time.process_time()
    model.fit(problem.X, problem.y)
    seconds = time.process_time() - clock
    error = 100.0 * float(np.mean(model.predict(problem.X_test) != problem.y_test))
    end = Look(len(problem.X), np.nan, error, float(model.n_support_.sum()))
    return Run(SVM, "LIBSVM", f"C = {cost:.3g}, {len(problem.X):,} rows", np.nan, end, seconds)


def batch_solution(
    problem: Problem, task: str, factor: KernelFactor, seconds: float, max_iterations: int
) -> Run:
    """L-BFGS on all rows; ``seconds`` is the time of the factor, which both tasks share."""
    smooth: list[Loss] = [SmoothedHinge(w) for w in _WIDTHS] if task == SVM else [Softmax()]
    clock = time.process_time()
    found, n_iterations = None, 0
    for loss in smooth:
        found = minimize_risk(
            factor,
            problem.y,
            loss,
            n_outputs=problem.n_classes,
            regularization=REGULARIZATION,
            max_iterations=max_iterations,
            start=found,
        )
        n_iterations += found.n_iterations
    assert found is not None
    seconds += time.process_time() - clock
    scores = found.decision_function(problem.X_test)
    end = measure(problem, task, scores, len(problem.X), found.model_order)
    settings = f"{len(problem.X):,} rows"
    run = Run(task, "L-BFGS", settings, np.nan, end, seconds, model=found)
    return replace(run, iterations=n_iterations, converged=float(found.converged))


def import_vector_machine(problem: Problem, max_size: int | None) -> Run:
    """Fit the import vector machine, to its own stop or to a number of points."""
    clock = time.process_time()
    found = import_vectors(
        problem.X,
        problem.y,
        problem.kernel,
        n_classes=problem.n_classes,
        regularization=REGULARIZATION,
        max_size=max_size,
    )
    seconds = time.process_time() - clock
    scores = found.function.decision_function(problem.X_test)
    end = measure(problem, LOGISTIC, scores, len(problem.X), found.function.model_order)
    settings = "stops at a gain of .001" if max_size is None else f"stops at {max_size} points"
    return Run(LOGISTIC, "IVM", settings, np.nan, end, seconds)
