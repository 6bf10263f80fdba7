"""Which digit is larger: images ranked by pairs that are only known by their order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from mercer.buffers import FIFO
from mercer.estimators import KernelRanker, KernelRegressor
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer.metrics import concordance
from mercer.schedules import PowerDecay, Relative
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._yz_data import Sample, centred_pca, digits, montage, rows_of_norm_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Scores = Callable[[Array], Array]

_COMPONENTS = 50
_BUFFER = 50
_LENGTH_SCALE = math.sqrt(0.5)
_MAX_SIZE = 400
_LEAST_GAIN = 0.15
# Of the test rows, whose spread gives standard errors.
_N_PARTS = 10
_SIDE = 28
_PER_ROW, _N_IMAGE_ROWS = 15, 8

_OWN, _BOLD = "pairwise", "pairwise, steps x 4, averaged"
_RIDGE, _BOOSTING = "Ridge", "HistGradientBoosting"


class Method(NamedTuple):
    """A way to learn scores: its name, and a function from rows and labels to scores of rows."""

    name: str
    fit: Callable[[Array, Array], Scores]


class Outcome(NamedTuple):
    """Kendall's tau-b with the digits and its standard error, time, and the scores of test rows."""

    tau: float
    error: float
    microseconds: float
    scores: Array


def _pairwise(first: float | None, average: str | None) -> Callable[[Array, Array], Scores]:
    def fit(X: Array, y: Array) -> Scores:
        model = KernelRanker(
            buffer=FIFO(_BUFFER),
            kernel=Gaussian(_LENGTH_SCALE),
            expansion=KOMP(tolerance=1e-4, max_size=_MAX_SIZE),
            step_size="auto" if first is None else Relative(PowerDecay(first, 0.5)),
            shuffle=False,
            average=average,
        ).fit(X, y)
        return lambda rows: np.asarray(model.decision_function(rows))

    return fit


def _regression(X: Array, y: Array) -> Scores:
    model = KernelRegressor(
        kernel=Gaussian(_LENGTH_SCALE),
        expansion=KOMP(max_size=_MAX_SIZE),
        batch_size=1,
        shuffle=False,
    ).fit(X, y)
    return lambda rows: np.asarray(model.predict(rows))


def _sklearn(make: Callable[[], Any]) -> Callable[[Array, Array], Scores]:
    def fit(X: Array, y: Array) -> Scores:
        # The threads of OpenMP would be counted while they wait.
        with threadpool_limits(1):
            model = make().fit(X, y)
        return lambda rows: np.asarray(model.predict(rows))

    return fit


METHODS = (
    Method(_OWN, _pairwise(None, None)),
    Method(_BOLD, _pairwise(64.0, "suffix")),
    Method("KernelRegressor, one pass", _regression),
    Method(_RIDGE, _sklearn(Ridge)),
    Method(_BOOSTING, _sklearn(lambda: HistGradientBoostingRegressor(random_state=0))),
)


def judge(method: Method, sample: Sample) -> Outcome:
    """Learn from the training rows, measure on the test rows."""
    method.fit(sample.X[: 2 * _BUFFER], sample.y[: 2 * _BUFFER])  # compile outside the clock
    start = time.process_time()
    scores = method.fit(sample.X, sample.y)
    seconds = time.process_time() - start
    values = scores(sample.X_test)
    tau = float(kendalltau(sample.y_test, values).statistic)
    parts = [
        kendalltau(sample.y_test[i::_N_PARTS], values[i::_N_PARTS]).statistic
        for i in range(_N_PARTS)
    ]
    error = float(np.std(parts, ddof=1) / math.sqrt(_N_PARTS))
    return Outcome(tau, error, 1e6 * seconds / sample.y.size, values)


def _run(context: Context) -> Result:
    n_rows, n_test = (400, 500) if context.quick else (20_000, 10_000)
    images = digits(context.data, n_rows, n_test, context.seed)
    project = centred_pca(images.X, _COMPONENTS)
    X, X_test = (rows_of_norm_one(project(part)) for part in (images.X, images.X_test))
    sample = Sample(X, images.y, X_test, images.y_test)
    found = {}
    for method in METHODS:
        found[method.name] = judge(method, sample)
        context.say(f"{method.name}: tau {found[method.name].tau:.4f}")
    return Result(
        [_row(name, outcome, sample.y_test) for name, outcome in found.items()],
        targets=[
            Target(
                "Kendall's tau-b of pairwise learning minus that of Ridge",
                found[_OWN].tau - found[_RIDGE].tau,
                _LEAST_GAIN,
                "at least",
            )
        ],
        drawings=[
            _drawing_of_images(found[_OWN].scores, images.X_test),
            _drawing_of_scores(found, sample.y_test),
        ],
        notes=_notes(n_rows, sample.y_test),
    )


def _row(name: str, outcome: Outcome, y: Array) -> dict[str, Any]:
    return {
        "method": name,
        "Kendall's tau-b": f"{outcome.tau:.4f} ({outcome.error:.4f})",
        "pairs in order %": f"{100 * concordance(y, outcome.scores):.2f}",
        "CPU us/row": f"{outcome.microseconds:.3g}",
    }


def _notes(n_rows: int, y: Array) -> list[str]:
    best = float(kendalltau(y, y + 1e-9 * np.arange(y.size)).statistic)
    return [
        f"MNIST, {n_rows:,} images, one pass; {y.size:,} test images. {_COMPONENTS} principal "
        "components of the training images, rows of norm 1. Pairwise: difference kernel on a "
        f"Gaussian with length scale sqrt(1/2), at most {_MAX_SIZE} points, every image paired "
        f"with the last {_BUFFER}, logistic loss, only the sign of y - y' is learned.",
        "The others are told the digits and predict them; scores are ranked by what they predict. "
        f"Scores without ties cannot have more than tau-b = {best:.4f}, as equal digits are tied. "
        "KernelRegressor, averaged too, has the same kernel and as many points: its lead is what "
        "the digits tell beyond their order. "
        f"One run; in brackets the standard error from {_N_PARTS} parts of the test images.",
        "In the place of the films ranked by rating of the method's notes, whose data are not "
        "among these files.",
    ]


# -- figures --------------------------------------------------------------------------------------


def _drawing_of_images(scores: Array, images: Array) -> Drawing:
    # Test images come in random order, so that the first ones are a sample.
    few = np.argsort(scores[: _PER_ROW * _N_IMAGE_ROWS])
    rows = [
        [images[i].reshape(_SIDE, _SIDE) for i in few[start : start + _PER_ROW]]
        for start in range(0, few.size, _PER_ROW)
    ]
    words = ["lowest scores", *[""] * (_N_IMAGE_ROWS - 2), "highest scores"]
    return Drawing(
        "images",
        f"{few.size} test images sorted by the learned score, row by row: an image is right where "
        "its digit is not below those before it.",
        montage(rows, words),
    )


def _drawing_of_scores(found: dict[str, Outcome], y: Array) -> Drawing:
    values = np.unique(y)

    def draw(ax: Axes) -> None:
        for number, name in enumerate((_OWN, _RIDGE, _BOOSTING)):
            ranks = 100 * rankdata(found[name].scores) / y.size
            low, middle, high = np.array(
                [np.quantile(ranks[y == value], (0.1, 0.5, 0.9)) for value in values]
            ).T
            places = values + 0.2 * (number - 1)
            ax.vlines(places, low, high, color=f"C{number}")
            ax.plot(places, middle, "o", color=f"C{number}", label=name)
        ax.set_xticks(values)
        ax.set_xlabel("digit")
        ax.set_ylabel("place in the ranking, %")

    return Drawing(
        "places",
        "Places of the test images in the ranking by digit: medians, and from 10 to 90 %.",
        draw,
    )


EXPERIMENT = Experiment(
    name="yz-ranking",
    title="Which digit is larger",
    place="Ying and Zhou, Algorithm 2, with the difference kernel",
    shows=(
        "Images of digits ranked by a score that was learned from pairs of which only the order "
        "is known, against regression on the digits."
    ),
    run=_run,
    needs_data=("mnist_train.parquet", "mnist_test.parquet"),
)
