"""Same digit or not: a similarity learned from pairs of images that agree or do not."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from mercer.buffers import FIFO
from mercer.estimators import KernelRanker
from mercer.expansions import KOMP, Expansion, RandomFeatures
from mercer.kernels import Gaussian, Kernel, Linear, PairKernel
from mercer.schedules import PowerDecay, Relative
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._yz_data import (
    Indices,
    Sample,
    centred_pca,
    digits,
    montage,
    pairs_of_labels,
    rows_of_norm_one,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_COMPONENTS = 50
_BUFFER = 50
# In units of 1 / (L kappa²) of the pair kernel.
_FIRST_STEP = 128.0
_LDA_ROWS = 10_000
_SHOWN = 6
_SIDE = 28


class Learner(NamedTuple):
    """A similarity to be learned.

    Attributes
    ----------
    pair_kernel : str
        Kernel of pairs; a constant is added to it.
    kernel : Kernel
        Of points.
    expansion : Expansion
        How the function is kept small.
    floors : tuple of float
        AUC that is to be reached at the last two moments.
    """

    pair_kernel: str
    kernel: Kernel
    expansion: Expansion
    floors: tuple[float, float]

    @property
    def name(self) -> str:
        """Name in tables."""
        kept = "random features" if isinstance(self.expansion, RandomFeatures) else "dictionary"
        return f"{self.pair_kernel}, {type(self.kernel).__name__}, {kept}"

    def start(self) -> KernelRanker:
        """Make an estimator that has not learned yet."""
        return KernelRanker(
            pair_kernel=PairKernel(self.pair_kernel, bias=1.0),
            pair_label="same",
            buffer=FIFO(_BUFFER),
            normalize="balanced",
            kernel=self.kernel,
            expansion=self.expansion,
            step_size=Relative(PowerDecay(_FIRST_STEP, 0.5)),
        )


def learners(quick: bool) -> list[Learner]:
    """List the similarities; floors are .01 under what other code reached with these settings."""
    komp = KOMP(tolerance=1e-4, max_size=100 if quick else 400)
    features = RandomFeatures(block_size=50 if quick else 200, mode="faithful")
    gaussian = Gaussian(math.sqrt(0.5))
    return [
        Learner("symmetric", Linear(), komp, (0.912, 0.919)),
        Learner("mlpk", Linear(), komp, (0.920, 0.927)),
        Learner("symmetric", gaussian, features, (0.924, 0.944)),
        Learner("symmetric", gaussian, komp, (0.924, 0.944)),
    ]


class Course(NamedTuple):
    """AUC on the way, and what it took.

    Attributes
    ----------
    learner : Learner
        What learned.
    auc : list of float
        On the test pairs, at each moment.
    size : int
        Points or features at the end.
    seconds : float
        CPU seconds of learning.
    values : ndarray of shape (n_pairs,)
        Of the test pairs at the end.
    """

    learner: Learner
    auc: list[float]
    size: int
    seconds: float
    values: Array


class _Test(NamedTuple):
    """Pairs of test rows; ``same`` is 1 or 0."""

    X: Array
    first: Indices
    second: Indices
    same: Array

    def auc(self, values: Array) -> float:
        return float(roc_auc_score(self.same, values))


def follow(learner: Learner, X: Array, y: Array, moments: Sequence[int], test: _Test) -> Course:
    """Learn the rows in order; measure on the pairs after these numbers of rows."""
    learner.start().partial_fit(X[: 2 * _BUFFER], y[: 2 * _BUFFER])  # compile outside the clock
    model, seconds, auc, values = learner.start(), 0.0, [], np.empty(0)
    for low, high in zip((0, *moments[:-1]), moments, strict=True):
        start = time.process_time()
        model.partial_fit(X[low:high], y[low:high])
        seconds += time.process_time() - start
        values = model.predict_pair(test.X[test.first], test.X[test.second])
        auc.append(test.auc(values))
    return Course(learner, auc, int(model.model_order_), seconds, values)


def references(sample: Sample, test: _Test) -> dict[str, float]:
    """AUC of similarities of pixels, and of one that was fitted to the digits themselves."""
    few = sample.X[:_LDA_ROWS], sample.y[:_LDA_ROWS]
    project = centred_pca(few[0], 40)
    discriminant = LinearDiscriminantAnalysis().fit(centred_pca(few[0], 50)(few[0]), few[1])
    spaces = {
        "Euclidean distance, 40 components": project(sample.X_test),
        "cosine, 40 components": rows_of_norm_one(project(sample.X_test)),
        f"LDA on {few[1].size:,} labelled digits, 9 directions": discriminant.transform(
            centred_pca(few[0], 50)(sample.X_test)
        ),
    }
    return {
        name: test.auc(-np.sum((Z[test.first] - Z[test.second]) ** 2, axis=1))
        for name, Z in spaces.items()
    }


# -- the experiment -------------------------------------------------------------------------------


def _run(context: Context) -> Result:
    moments = (30, 60, 120) if context.quick else (1_000, 5_000, 20_000)
    n_test, n_pairs = (200, 800) if context.quick else (10_000, 40_000)
    sample = digits(context.data, max(moments[-1], _LDA_ROWS), n_test, context.seed)
    project = centred_pca(sample.X, _COMPONENTS)
    X, X_test = (rows_of_norm_one(project(part)) for part in (sample.X, sample.X_test))
    first, second = pairs_of_labels(sample.y_test, n_pairs, context.seed)
    same = (sample.y_test[first] == sample.y_test[second]).astype(np.float64)
    test = _Test(X_test, first, second, same)
    found = references(sample, test)
    courses = []
    for learner in learners(context.quick):
        courses.append(follow(learner, X, sample.y, moments, test))
        context.say(f"{learner.name}: {', '.join(f'{auc:.4f}' for auc in courses[-1].auc)}")
    return Result(
        [
            *(_row(c, moments) for c in courses),
            *(_reference(n, a, moments) for n, a in found.items()),
        ],
        targets=[
            Target(f"{c.learner.name}: pair AUC after {n:,} rows", auc, floor, "at least")
            for c in courses
            for n, auc, floor in zip(moments[1:], c.auc[1:], c.learner.floors, strict=True)
        ],
        drawings=[
            _drawing_of_courses(courses, moments, found),
            _drawing_of_pairs(courses[1], sample.X_test, test),
        ],
        notes=_notes(n_pairs, max(c.auc[-1] for c in courses)),
    )


def _row(course: Course, moments: Sequence[int]) -> dict[str, Any]:
    row: dict[str, Any] = {"similarity": course.learner.name}
    for n, auc in zip(moments, course.auc, strict=True):
        row[f"pair AUC, {n:,} rows"] = f"{auc:.4f}"
    row["points or features"] = course.size
    row["CPU us/row"] = f"{1e6 * course.seconds / moments[-1]:.0f}"
    return row


def _reference(name: str, auc: float, moments: Sequence[int]) -> dict[str, Any]:
    row: dict[str, Any] = {"similarity": name}
    row.update((f"pair AUC, {n:,} rows", "-") for n in moments[:-1])
    row[f"pair AUC, {moments[-1]:,} rows"] = f"{auc:.4f}"
    return {**row, "points or features": "-", "CPU us/row": "-"}


def _standard_error(auc: float, n: int) -> float:
    """Of an AUC from n positives and as many negatives, all independent (Hanley, McNeil, 1982)."""
    spread = auc / (2.0 - auc) + 2.0 * auc**2 / (1.0 + auc) - 2.0 * auc**2
    return math.sqrt((auc * (1.0 - auc) + (n - 1) * spread) / n**2)


def _notes(n_pairs: int, best: float) -> list[str]:
    return [
        f"MNIST, {_COMPONENTS} principal components of the training images, rows of norm 1. Every "
        f"image is paired with the last {_BUFFER}; the learner is told for each pair whether the "
        "digits agree, and never a digit. Logistic loss, a constant 1 added to the pair kernel, "
        "pairs that agree and pairs that do not weigh one half each, steps "
        f"{_FIRST_STEP:g} t^(-1/2) / (L kappa²), one pass, one row a step.",
        f"{n_pairs:,} pairs of test images, one half of them with the same digit; one run. If "
        f"the pairs were independent, the standard error of the AUC {best:.3f} would be "
        f"{_standard_error(best, n_pairs // 2):.4f}.",
        "LDA is told the digits, and so knows more; distances are told nothing. Gaussian kernels: "
        "length scale sqrt(1/2). The targets are ours: .01 under what a first trial reached.",
    ]


# -- figures --------------------------------------------------------------------------------------


def _drawing_of_courses(
    courses: Sequence[Course], moments: Sequence[int], found: dict[str, float]
) -> Drawing:
    def draw(ax: Axes) -> None:
        for course in courses:
            ax.plot(moments, course.auc, "o-", label=course.learner.name)
        for (name, auc), style in zip(found.items(), (":", "--", "-."), strict=True):
            label = name.split()[0].strip(",")
            ax.plot([moments[0], moments[-1]], [auc, auc], style, color="0.5", label=label)
        ax.set_xscale("log")
        ax.set_xticks(moments, [f"{n:,}" for n in moments])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("images learned")
        ax.set_ylabel("pair AUC")

    return Drawing("auc", "AUC of telling pairs with the same digit from the others.", draw)


def _drawing_of_pairs(course: Course, images: Array, test: _Test) -> Drawing:
    order = np.argsort(course.values)[::-1]
    share = (0.01, 0.25, 0.5, 0.75, 0.99)
    shown: list[Indices] = []
    for place in share:
        start = int(place * (order.size - _SHOWN))
        shown.append(order[start : start + _SHOWN])

    def pair(number: int) -> Array:
        both = [images[rows[number]].reshape(_SIDE, _SIDE) for rows in (test.first, test.second)]
        return np.hstack(both)

    return Drawing(
        "pairs",
        "Pairs of test images in the order of their learned similarity "
        f"({course.learner.name}): six at a time, after these shares of all pairs. One half of "
        "all pairs are of the same digit.",
        montage(
            [[pair(i) for i in row] for row in shown], [f"after {100 * s:.0f} %" for s in share]
        ),
    )


EXPERIMENT = Experiment(
    name="yz-same-digit",
    title="Same digit or not",
    place="Ying and Zhou, Algorithm 2, with symmetric pair kernels",
    shows=(
        "A similarity of images learned from pairs that are only known to agree or not, against "
        "distances and against discriminant analysis with the digits."
    ),
    run=_run,
    needs_data=("mnist_train.parquet", "mnist_test.parquet"),
)
