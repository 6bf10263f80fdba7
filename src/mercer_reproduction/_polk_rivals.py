"""What POLK is compared with, with the paper's numbers beside each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from mercer_reproduction._experiment import Context
from mercer_reproduction._polk_batch import batch_solution
from mercer_reproduction._polk_runs import LOGISTIC, SVM, Plan, Problem, Run, budgeted, npbsgd
from mercer_reproduction.baselines import KernelFactor

STRATEGIES = ("remove", "project", "merge")
_STEPS = (1.0, 0.3, 0.1)
# The paper has its numbers of BSGD with this one.
_STEP_OF_PAPER = _STEPS[0]
#: For the notes of experiments.
CHOICE_OF_STEPS = (
    "Held-out error: on the last sixth of the training rows, of a run on the others; by it, never "
    "by test rows, the step of BSGD and its best strategy are chosen for the paper's claims among "
    "the targets. L-BFGS: converged is where the largest entry of the gradient is 1e-4 of what it "
    "was for f = 0; else its iterations or, in float32, the line search have ended it."
)


def told(run: Run, context: Context) -> Run:
    """Return the run, after saying how it ended."""
    context.say(
        f"{run.task}, {run.method}, {run.settings}: {run.end.error_percent:.2f} %, "
        f"{run.end.model_order:,.0f} points, {run.cpu_seconds:.1f} CPU s"
    )
    return run


def with_budgets(
    problem: Problem,
    sizes: Mapping[int, str],
    plan: Plan,
    context: Context,
    tuning: Plan | None,
) -> Iterator[tuple[Run, str]]:
    """Run BSGD in all strategies, and NPBSGD at the largest budget, with several steps.

    Parameters
    ----------
    problem, plan, context
        As for single runs.
    sizes : mapping of int to str
        Budgets, and what the paper prints for each.
    tuning : Plan or None
        Of a run of each on five sixths of the rows, whose error is measured on the others; None:
        there are no such runs.
    """

    def run(method: Callable[..., Run]) -> Run:
        found = method(problem, plan=plan)
        if tuning is not None:
            other = method(problem.held_out(), plan=replace(tuning, n_looks=2, n_final=2))
            found = replace(found, validation=other.end.error_percent)
        return told(found, context)

    for size, paper in sizes.items():
        for strategy in STRATEGIES:
            # Removal with smaller steps forgets before it has learned.
            for step in _STEPS if strategy != "remove" else (_STEP_OF_PAPER,):
                one = partial(budgeted, size=size, strategy=strategy, step_size=step)
                yield run(one), paper if step == _STEP_OF_PAPER else "-"
    for published_or_step in (*_STEPS, None):
        one = partial(npbsgd, task=SVM, size=max(sizes), step_size=published_or_step)
        yield run(one), "-"


def dense_solutions(problem: Problem, context: Context) -> Iterator[Run]:
    """Solve both tasks on the kernel matrix of all rows; its time counts for each."""
    clock = time.process_time()
    factor = KernelFactor(problem.X, problem.kernel)
    seconds = time.process_time() - clock
    for task in (SVM, LOGISTIC):
        iterations = 10 if context.quick else 500
        yield told(batch_solution(problem, task, factor, seconds, iterations), context)
