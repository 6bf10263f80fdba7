"""Gaussian mixtures in the plane: POLK, BSGD and batch methods (POLK, Section 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp, softmax

from mercer.validation import check_integer
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._polk_batch import import_vector_machine, support_vectors
from mercer_reproduction._polk_rivals import (
    CHOICE_OF_STEPS,
    STRATEGIES,
    dense_solutions,
    with_budgets,
)
from mercer_reproduction._polk_runs import (
    LOGISTIC,
    SVM,
    Floats,
    Labels,
    Plan,
    Problem,
    Run,
    mean_runs,
    polk,
)
from mercer_reproduction._polk_tables import chosen, claims, courses, select, table_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_CLASSES, _N_COMPONENTS = 5, 3
_RADIUS_OF_CLASS, _SPREAD_OF_MEANS, _SPREAD_OF_POINTS = 1.0, 1.0, 0.2
# Draws whose Bayes error is near the paper's errors.
SEEDS = (16, 59, 93, 105, 108, 113, 135, 155)
_LENGTH_SCALE = 0.6
_STEP = 6.0
_PASSES = 4
# K, points of the paper, windows of the model order, the paper's "risk / error / order".
_CASES = {
    SVM: ((0.04, (13, 19), "0.0919 / 3.98 / 16"), (1e-4, (110, 140), "- / - / 129")),
    LOGISTIC: ((0.03, (14, 20), "0.120 / 4.36 / 16"), (1e-3, (74, 86), "- / - / 75")),
}
_SIZES = {16: "0.385 / 21.8 / 16", 129: "-"}
_DENSE_IN_PAPER = {SVM: "0.0854 / 4.08 / 5000", LOGISTIC: "0.0854 / 4.04 / 5000"}
_SURE = 0.8  # probability at the dashed lines
_CLAIMED = 1249  # samples after which the paper's POLK is below 4 %


def make_multidist(
    seed: int, n_train: int = 5000, n_test: int = 2500
) -> tuple[Floats, Labels, Floats, Labels]:
    """Draw the synthetic "multidist" classification problem of POLK.

    Five classes in the plane, each a mixture of three Gaussians of standard deviation 0.2 whose
    means are scattered with standard deviation 1 around a point of the unit circle.

    Parameters
    ----------
    seed : int
        Seed of the problem and its rows; the difficulty differs much between seeds. The Bayes
        error is near that of the paper (3.4 to 4.0 %) for 16, 59, 93, 105, 108, 113, 135 and 155.
    n_train, n_test : int, default=5000, 2500
        Numbers of rows.

    Returns
    -------
    X_train : ndarray of shape (n_train, 2)
        Training points.
    y_train : ndarray of shape (n_train,)
        Their classes, 0 to 4.
    X_test, y_test : ndarrays of shapes (n_test, 2) and (n_test,)
        The same for testing.

    Raises
    ------
    ValueError
        If the numbers are negative or no integers.

    References
    ----------
    POLK, Section 5.2. The spreads printed there as variances are taken as standard deviations:
    with variances no draw comes near the error rates reported.

    Examples
    --------
    >>> X_train, y_train, X_test, y_test = make_multidist(16)
    >>> X_train.shape, y_test.shape
    ((5000, 2), (2500,))
    """
    check_integer("seed", seed, low=0)
    check_integer("n_train", n_train, low=1)
    check_integer("n_test", n_test, low=0)
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(_N_CLASSES) / _N_CLASSES
    centers = _RADIUS_OF_CLASS * np.c_[np.cos(angle), np.sin(angle)][:, None]
    means = centers + _SPREAD_OF_MEANS * rng.standard_normal((_N_CLASSES, _N_COMPONENTS, 2))

    def draw(n: int) -> tuple[Floats, Labels]:
        y = rng.integers(_N_CLASSES, size=n)
        component = rng.integers(_N_COMPONENTS, size=n)
        return means[y, component] + _SPREAD_OF_POINTS * rng.standard_normal((n, 2)), y

    return *draw(n_train), *draw(n_test)


def _problem(seed: int, quick: bool) -> Problem:
    sizes = (240, 100) if quick else (5000, 2500)
    return Problem(*make_multidist(seed, *sizes), _LENGTH_SCALE, 5)


def bayes_error_percent(seed: int, X: Floats, y: Labels) -> float:
    """Error on rows of the best rule for the mixture that ``make_multidist(seed)`` draws."""
    # The means are the first numbers that it draws.
    angle = 2 * np.pi * np.arange(5) / 5
    scatter = np.random.default_rng(seed).standard_normal((5, 3, 2))
    means = np.c_[np.cos(angle), np.sin(angle)][:, None] + scatter
    squared = ((X[:, None, None, :] - means) ** 2).sum(axis=-1)
    best = logsumexp(-squared / (2.0 * 0.2**2), axis=2).argmax(axis=1)
    return 100.0 * float(np.mean(best != y))


def _batch(problem: Problem, context: Context) -> list[tuple[Run, str]]:
    quick = context.quick
    return [
        (support_vectors(problem), "- / 3.92 / 656"),
        *((run, _DENSE_IN_PAPER[run.task]) for run in dense_solutions(problem, context)),
        (import_vector_machine(problem, 3 if quick else None), "0.0894 / 4.08 / 16"),
        *([] if quick else [(import_vector_machine(problem, 16), "0.0894 / 4.08 / 16")]),
    ]


def _streams(problem: Problem, plan: Plan, context: Context) -> list[tuple[Run, str]]:
    own = [
        (polk(problem, task, K, _STEP, plan), paper)
        for task, cases in _CASES.items()
        for K, _, paper in cases
    ]
    return [*own, *with_budgets(problem, _SIZES, plan, context, plan)]


def _run(context: Context) -> Result:
    quick = context.quick
    seeds = SEEDS[:1] if quick else SEEDS
    passes = 1 if quick else _PASSES
    by_seed: list[list[tuple[Run, str]]] = []
    floors = []
    silent = Context(quick=quick)  # a sentence for each draw, not for each run
    for seed in seeds:
        problem = _problem(seed, quick)
        plan = Plan(passes, n_looks=6 if quick else 24, seed=seed + context.seed, reported=(1,))
        floors.append(bayes_error_percent(seed, problem.X_test, problem.y_test))
        by_seed.append([*_batch(problem, silent), *_streams(problem, plan, silent)])
        context.say(f"draw {seed}: Bayes error {floors[-1]:.2f} %")
    papers = [paper for _, paper in by_seed[0]]
    runs = mean_runs([[run for run, _ in found] for found in by_seed])
    bayes = float(np.mean(floors))
    rows = [
        _row(run, paper, bayes, after)
        for run, paper in zip(runs, papers, strict=True)
        # Early rows are for what the targets are about.
        for after in ((1, passes) if run.method == "POLK" and passes > 1 else (None,))
    ]
    return Result(
        rows,
        targets=_targets(runs, bayes),
        drawings=_drawings(runs, [run for run, _ in by_seed[0]], _problem(seeds[0], quick)),
        notes=_notes(runs, floors, seeds),
    )


def _row(run: Run, paper: str, bayes: float, after: int | None) -> dict[str, Any]:
    end = run.end if after is None else run.ends[after]
    above = {"above Bayes": end.error_percent - bayes}
    return table_row(run, paper, after, spread=run.draws > 1, **above)


def _targets(runs: Sequence[Run], bayes: float) -> list[Target]:
    found = []
    for task, cases in _CASES.items():
        for K, (low, high), paper in cases:
            printed = float(paper.rpartition(" / ")[2])
            [run] = select(runs, "POLK", task, f"K = {K:g},")
            name, one = f"{task}, POLK with K = {K:g}, one pass", run.ends[1]
            order = one.model_order
            found.append(Target(f"{name}: model order", order, low, "at least", paper=printed))
            found.append(Target(f"{name}: model order", order, high, paper=printed))
            above = one.error_percent - bayes
            found.append(Target(f"{name}: error above Bayes, points", above, 0.8))
    for size, (K, _, _) in zip(_SIZES, _CASES[SVM], strict=True):
        [own] = select(runs, "POLK", SVM, f"K = {K:g},")
        rivals = select(runs, "BSGD", SVM, f"budget {size:,},")
        found += claims(own, rivals, f"{size} points", ("Table 2", "Fig. 2"))
    return found


def _notes(runs: Sequence[Run], floors: Sequence[float], seeds: Sequence[int]) -> list[str]:
    [own] = select(runs, "POLK", SVM, "K = 0.04,")
    bayes = float(np.mean(floors))
    near = min(own.looks, key=lambda look: abs(look.samples - _CLAIMED))
    return [
        f"Means over the draws with seeds {', '.join(map(str, seeds))}; spread: standard deviation "
        "of their errors. These draws were not taken at random: of many seeds they are those whose "
        f"Bayes errors, on their test rows, are near the paper's errors, {min(floors):.2f} to "
        f"{max(floors):.2f} %, {bayes:.2f} % on average. The paper's draw cannot be recovered; its "
        "LIBSVM has 3.92 %. Spreads that it prints "
        "as variances are taken as standard deviations; with variances no draw comes near its "
        "errors. Streams: means over looks in the last 5 % of a pass. Risk: mean loss of the test "
        "rows, without the ridge.",
        "All: Gaussian kernel of length scale 0.6, ridge 1e-6. POLK: tolerance K step^1.5, "
        "batches of 32 rows. LIBSVM: scikit-learn's SVC, C = 1 / (n ridge), one against one. "
        "L-BFGS (the hinge smoothed, to a width of .01): on the kernel matrix of all rows, by a "
        "pivoted Cholesky factor to 1e-10, whose rank is the model order; the paper counts all "
        "rows. IVM: import vectors, until one lowers the objective by less than .001 of itself, "
        "and up to the paper's 16. BSGD with projection may stay below its budget: rows that "
        "depend on the others are absorbed. NPBSGD is not in the paper: removals are certain in "
        "the first half of the stream and random later, so that it grows beyond its budget; with "
        f"the steps of BSGD and with its published ones. {CHOICE_OF_STEPS}",
        f"The paper's POLK is below 4 % after {_CLAIMED:,} samples; here, with K = .04, it is "
        f"{near.error_percent - bayes:.2f} points above the Bayes error after {near.samples:,}. "
        "The paper's BSGD of 16 points has 21.8 %: of the strategies here, plain removal is the "
        "one that is as bad.",
    ]


def _drawings(runs: Sequence[Run], first: Sequence[Run], problem: Problem) -> list[Drawing]:
    svm = [
        *select(runs, "POLK", SVM),
        *(chosen(select(runs, f"BSGD, {s}", SVM, "budget 16,")) for s in STRATEGIES),
        chosen(select(runs, "BSGD, merge", SVM, "budget 129,")),
    ]
    surfaces = [
        _surface(select(first, "POLK", task, f"K = {_CASES[task][0][0]:g},")[0], problem, name)
        for task, name in ((SVM, "hinge"), (LOGISTIC, "logistic"))
    ]
    return [
        Drawing("data", "Training rows of the first draw (Fig. 1a).", _scatter(problem)),
        *courses("svm", svm, "the SVM, means over the draws (Fig. 2)"),
        *surfaces,
        *courses(
            "logistic", select(runs, "POLK", LOGISTIC), "logistic, means over the draws (Fig. 4)"
        ),
    ]


def _draw_rows(ax: Axes, problem: Problem, n_rows: int) -> None:
    """Draw the first rows, a colour and a marker for each class, and name the axes."""
    X, y = problem.X[:n_rows], problem.y[:n_rows]
    for c, marker in zip(range(problem.n_classes), "os^Dv", strict=True):
        style: dict[str, Any] = {"color": f"C{c}", "marker": marker, "linewidths": 0}
        ax.scatter(X[y == c, 0], X[y == c, 1], s=7, alpha=0.8, label=f"class {c}", **style)
    ax.set_xlabel("first input")
    ax.set_ylabel("second input")


def _scatter(problem: Problem) -> Callable[[Axes], None]:
    return lambda ax: _draw_rows(ax, problem, 2500)


def _surface(run: Run, problem: Problem, name: str) -> Drawing:
    """Decision regions with the dictionary; for the logistic loss also where it is sure."""
    points = run.model.dictionary_
    low, high = problem.X.min(axis=0) - 0.3, problem.X.max(axis=0) + 0.3
    x0, x1 = np.linspace(low[0], high[0], 160), np.linspace(low[1], high[1], 160)
    grid = np.stack(np.meshgrid(x0, x1), axis=-1)
    scores = run.model.decision_function(grid.reshape(-1, 2)).reshape(160, 160, -1)

    def draw(ax: Axes) -> None:
        ink = ax.xaxis.label.get_color()
        for c in range(problem.n_classes):
            # How far a class leads the others: smooth where "which class" is a step.
            lead = scores[..., c] - np.delete(scores, c, axis=-1).max(axis=-1)
            if lead.max() > 0.0:
                ax.contourf(x0, x1, lead, [0.0, np.inf], colors=[f"C{c}"], alpha=0.22)
                ax.contour(x0, x1, lead, [0.0], colors=[ink], linewidths=1.0)
        _draw_rows(ax, problem, 700)
        ax.scatter(points[:, 0], points[:, 1], s=30, color=ink, zorder=3, label="dictionary")
        if run.task == LOGISTIC:
            sure = softmax(scores, axis=-1).max(axis=-1)
            ax.contour(x0, x1, sure, [_SURE], colors=[ink], linestyles="dashed", linewidths=0.7)

    dashed = f" Dashed: the largest probability is {_SURE:g}." if run.task == LOGISTIC else ""
    return Drawing(
        f"regions-{name}",
        f"Decision regions of POLK after {run.passes:g} passes over the first draw, {name} loss, "
        f"{run.settings}; dots are its {len(points)} points (Fig. 3).{dashed}",
        draw,
    )


EXPERIMENT = Experiment(
    name="polk-multidist",
    title="Gaussian mixtures in the plane: a sparse stream against budgets and batch solvers",
    place="POLK, Section 5.3, Table 2 and Fig. 1a, 2, 3, 4",
    shows=(
        "Multi-class SVM and logistic regression on fifteen Gaussians of five classes: POLK at the "
        "paper's two tolerances each against LIBSVM, L-BFGS on the full kernel matrix, the import "
        "vector machine, the three strategies of budgeted SGD and NPBSGD."
    ),
    run=_run,
)
