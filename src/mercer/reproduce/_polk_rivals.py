"""What POLK is compared with on data of images, with the paper's numbers beside each run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from mercer.reproduce._experiment import Context
from mercer.reproduce._polk_batch import batch_solution
from mercer.reproduce._polk_runs import LOGISTIC, SVM, Plan, Problem, Run, budgeted, npbsgd
from mercer.reproduce.baselines import KernelFactor

__all__ = ["dense_solutions", "told", "with_budgets"]

_STRATEGIES = ("remove", "project", "merge")


def told(run: Run, context: Context) -> Run:
    """Return the run, after saying how it ended."""
    context.say(
        f"{run.task}, {run.method}, {run.settings}: {run.end.error_percent:.2f} %, "
        f"{run.end.model_order:,.0f} points, {run.cpu_seconds:.1f} CPU s"
    )
    return run


def with_budgets(
    problem: Problem, sizes: Mapping[int, str], plan: Plan, context: Context
) -> Iterator[tuple[Run, str]]:
    """Run all strategies at budgets with the paper's numbers, and NPBSGD at the largest."""
    share = 8 if context.quick else 1
    for size, paper in sizes.items():
        for strategy in _STRATEGIES:
            yield told(budgeted(problem, size // share, strategy, 1.0, plan), context), paper
    for step in (1.0, None):
        yield told(npbsgd(problem, SVM, max(sizes) // share, step, plan), context), "-"


def dense_solutions(problem: Problem, context: Context) -> Iterator[Run]:
    """Solve both tasks on the kernel matrix of all rows; its time counts for each."""
    clock = time.process_time()
    factor = KernelFactor(problem.X, problem.kernel)
    seconds = time.process_time() - clock
    for task in (SVM, LOGISTIC):
        iterations = 10 if context.quick else 300
        yield told(batch_solution(problem, task, factor, seconds, iterations), context)
