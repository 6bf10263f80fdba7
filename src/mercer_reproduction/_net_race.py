"""A net, its last layers learned anew, and DSG on its features, as copies come (DSG, Figure 7)."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import KernelClassifier
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer.model_file import replacing
from mercer_reproduction._convnet import Layers, Network, outputs, require_torch
from mercer_reproduction._data import median_distance
from mercer_reproduction._experiment import Context, Drawing, Target
from mercer_reproduction._images import Projection, uncentred_projection
from mercer_reproduction._ticks import plain_log_scale
from mercer_reproduction._virtual import Stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = NDArray[np.float32]
Labels = NDArray[Any]

JOINT, FIXED = "net, jointly trained", "net, last layers on fixed features"
PRINTED, NARROW, PLAIN = (
    "DSG newton, width 4 x median",
    "DSG newton, width 1 x median",
    "DSG plain, width 4 x median",
)
_WIDTH, _NU = 4.0, 0.0005  # DSG, Section 7.4: in medians; regularization
_RIDGES = (1e-3, 1e-4, 1e-5, 1e-6)
_SAMPLE = 10_000  # rows that axes and the median distance are computed from
_SECONDS_BETWEEN = 60.0  # of keeping the state of a run


class Learner(Protocol):
    """What learns rows as they come."""

    def learn(self, X: Rows, y: Labels) -> None:
        """Learn rows with labels 0, 1, ..."""

    def probabilities(self, X: Rows) -> NDArray[np.floating]:
        """Probabilities of the classes, (n_rows, n_classes)."""


@dataclass(frozen=True)
class Fading:
    """Steps that fade from ``first`` in a straight line to 0, just after the last one."""

    first: float
    n_steps: int

    def __call__(self, t: int) -> float:
        """Size of step ``t`` = 1, 2, ..."""
        return self.first * max(1.0 - (t - 1) / self.n_steps, 1.0 / self.n_steps)


@dataclass
class KernelMachine:
    """A classifier of mercer on rows, or on projections of them."""

    model: KernelClassifier
    projection: Projection | None

    def _inputs(self, X: Rows) -> Rows:
        return X if self.projection is None else self.projection(X)

    def learn(self, X: Rows, y: Labels) -> None:
        self.model.partial_fit(self._inputs(X), y, classes=np.arange(10))

    def probabilities(self, X: Rows) -> NDArray[np.floating]:
        found: NDArray[np.floating] = self.model.predict_proba(self._inputs(X))
        return found


@dataclass(frozen=True)
class Sizes:
    """How much is learned, and in which parts.

    Attributes
    ----------
    n_images : int
        Images that copies are made of; a pass has as many copies.
    passes, passes_on_features : int
        Passes of the net, and then of the learners on its features.
    batch_size, block_size : int
        Rows and features of a step of DSG. A batch is made at a time.
    n_components : int or None
        What the features of the net are reduced to by PCA; None leaves them as they are.
    """

    n_images: int
    passes: int
    passes_on_features: int
    batch_size: int = 8192
    block_size: int = 2048
    n_components: int | None = None

    def of(self, context: Context) -> Sizes:
        """Return these, or with as many passes as the context asks for."""
        if context.passes is None:
            return self
        return replace(self, passes=context.passes, passes_on_features=-(-context.passes // 2))

    def n_chunks(self, passes: int) -> int:
        """Batches in so many passes."""
        return max(1, passes * self.n_images // self.batch_size)


@dataclass
class Course:
    """CPU seconds and errors in percent after some numbers of rows; all seconds so far."""

    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    spent: float = 0.0


class Race:
    """Learners that learn the same rows, chunk by chunk; a run that was stopped goes on.

    Parameters
    ----------
    learners : mapping of str to Learner
        By name.
    n_chunks : int
        Chunks to learn.

    Attributes
    ----------
    courses : dict of str to Course
        By the names of the learners. The time of making the rows counts for each.
    earlier : float
        CPU seconds of processes that were stopped.
    """

    def __init__(self, learners: Mapping[str, Learner], n_chunks: int) -> None:
        self.learners, self.n_chunks = dict(learners), n_chunks
        self.courses = {name: Course() for name in learners}
        self.earlier = self._spent = 0.0
        self._done = 0

    def run(
        self,
        chunk: Callable[[int], tuple[Rows, Labels]],
        test: tuple[Rows, Labels],
        say: Callable[[str], object],
        keep: Callable[[], object],
    ) -> None:
        """Learn the chunks that are left.

        Parameters
        ----------
        chunk : callable
            Takes the number of a chunk, returns its rows and labels.
        test : (ndarray, ndarray)
            Rows and labels on which errors are measured, after 1, 2, 4, ... chunks and the last.
        say : callable
            Told of errors.
        keep : callable
            Called every minute to keep the state.
        """
        kept = time.monotonic()
        for number in range(self._done, self.n_chunks):
            start = time.process_time()
            X, y = chunk(number)
            made = time.process_time() - start
            last = number + 1 == self.n_chunks
            for name, learner in self.learners.items():
                course, before = self.courses[name], time.process_time()
                learner.learn(X, y)
                course.spent += made + time.process_time() - before
                if last or (number & (number + 1)) == 0:
                    course.rows.append((number + 1) * len(X))
                    course.seconds.append(course.spent)
                    course.errors.append(wrong([learner.probabilities(test[0])], test[1]))
                    say(
                        f"{name}: {course.errors[-1]:.2f} % after {course.rows[-1]:,} copies, "
                        f"{course.spent:.0f} CPU s"
                    )
            self._done = number + 1
            self._spent += time.process_time() - start
            if last or time.monotonic() - kept > _SECONDS_BETWEEN:
                keep()
                kept = time.monotonic()

    @classmethod
    def kept(cls, file: Path | None, key: str, start: Callable[[], Race]) -> Race:
        """Take up the race of a file that was kept under the same key, or start one."""
        if file is None or not file.exists():
            return start()
        found, race = pickle.loads(file.read_bytes())
        if found != key:
            return start()
        race.earlier = race._spent
        return race  # type: ignore[no-any-return]

    def keep(self, file: Path | None, key: str) -> None:
        """Write the state to a file, if one is given."""
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                temporary.write_bytes(pickle.dumps((key, self)))


def wrong(views: Sequence[NDArray[np.floating]], y: Labels) -> float:
    """Wrong labels in percent, by the mean of the probabilities of all views."""
    return 100.0 * float(np.mean(np.sum(views, axis=0).argmax(axis=1) != y))


@dataclass(frozen=True)
class Outcome:
    """What :func:`compare` found: rows of a table, errors by method, a figure, seconds before."""

    rows: list[dict[str, Any]]
    errors: dict[str, float]
    seconds: dict[str, float]
    drawing: Drawing
    earlier: float

    def claims(self, figure: str) -> list[Target]:
        """Judge DSG against the net as a figure of the paper does, by error and by time."""
        return [
            Target(
                "DSG newton against the net: test error %",
                self.errors[PRINTED] - self.errors[JOINT],
                0.0,
                claim=(figure,),
            ),
            Target(
                "DSG newton against the net: CPU time, as a part of the net's",
                self.seconds[PRINTED] / self.seconds[JOINT],
                1.0,
                claim=(figure,),
            ),
        ]


def compare(
    name: str,
    context: Context,
    sizes: Sizes,
    stream: Stream,
    views: Sequence[Rows],
    y_test: Labels,
    layers: Callable[[int], Layers],
    step_size: float = 3e-3,
) -> Outcome:
    """Train a net on copies; then its last layers anew, and DSG, on the features of new copies.

    Parameters
    ----------
    name : str
        Of the experiment, for the files of what is kept.
    context : Context
        Of the run.
    sizes : Sizes
        How much.
    stream : Stream
        Gives the copies.
    views : sequence of ndarrays
        The test images, scaled: as they are; then other views, for votes.
    y_test : ndarray
        Their labels.
    layers : callable
        Makes the layers of the net from a seed.
    step_size : float, default=3e-3
        Largest one of the net.
    """
    seed, n = context.seed, sizes.batch_size
    net = require_torch().nn.Sequential(*layers(seed))
    key = repr((sizes, seed, context.quick, step_size, net))
    files = [
        None if context.folder is None else context.folder / f"{name}-{part}.state"
        for part in ("net", "features")
    ]
    n_chunks, n_later = (sizes.n_chunks(p) for p in (sizes.passes, sizes.passes_on_features))

    def network(part: Any, chunks: int) -> Network:
        return Network(part, chunks * n, step_size, seed=seed)

    def start() -> Race:
        return Race({JOINT: network(net, n_chunks)}, n_chunks)

    def start_later() -> Race:
        sample = outputs(features, stream(n_chunks * n, min(_SAMPLE, sizes.n_images))[0])
        few = replace(sizes, batch_size=256, block_size=64)
        for learner in _machines(sample, few, 1, seed).values():
            # Compiles, or loads what was compiled, outside the clock.
            learner.learn(sample[:256], np.arange(len(sample[:256])) % 10)
        head = layers(seed + 1).head
        learners = {FIXED: network(head, n_later), **_machines(sample, sizes, n_later, seed)}
        return Race(learners, n_later)

    def later(number: int) -> tuple[Rows, Labels]:
        X, y = stream((n_chunks + number) * n, n)
        return outputs(features, X), y

    race = Race.kept(files[0], key, start)
    race.run(
        lambda number: stream(number * n, n),
        (views[0], y_test),
        context.say,
        lambda: race.keep(files[0], key),
    )
    trained: Any = race.learners[JOINT]
    features = trained.layers[0]
    seen = [outputs(features, view) for view in views]
    second = Race.kept(files[1], key, start_later)
    second.run(later, (seen[0], y_test), context.say, lambda: second.keep(files[1], key))
    courses = {**race.courses, **second.courses}
    rows = [_row(method, sizes, course) for method, course in courses.items()]
    if len(views) > 1:
        for row, learner in zip(rows, (trained, *second.learners.values()), strict=True):
            inputs = views if learner is trained else seen
            found = [learner.probabilities(view) for view in inputs]
            row[f"by votes of {len(views)} views %"] = wrong(found, y_test)
    for file in files:
        if file is not None:
            file.unlink(missing_ok=True)
    return Outcome(
        rows,
        {method: course.errors[-1] for method, course in courses.items()},
        {method: course.spent for method, course in courses.items()},
        _drawing(courses),
        race.earlier + second.earlier,
    )


def _machines(sample: Rows, sizes: Sizes, n_steps: int, seed: int) -> dict[str, Learner]:
    """Make DSG with the printed width in newton mode and as printed, and with a narrower kernel."""
    projection = None
    if sizes.n_components is not None:
        projection = uncentred_projection(sample, sizes.n_components)
    median = median_distance(sample if projection is None else projection(sample), seed)

    def machine(width: float, step: Any, **options: Any) -> Learner:
        model = KernelClassifier(
            "softmax",
            kernel=Gaussian(width * median),
            expansion=RandomFeatures(sizes.block_size, seed=seed, min_steps=0, **options),
            step_size=step,
            regularization=_NU,
            batch_size=sizes.batch_size,
            average=None,
            random_state=seed,
        )
        return KernelMachine(model, projection)

    fading = Fading(1.0, n_steps)
    return {
        PRINTED: machine(_WIDTH, fading, ridge=_RIDGES),
        NARROW: machine(1.0, fading, ridge=_RIDGES),
        PLAIN: machine(_WIDTH, "auto", mode="faithful"),
    }


def _row(method: str, sizes: Sizes, course: Course) -> dict[str, Any]:
    settings = f"B={sizes.batch_size:,}, m={sizes.block_size:,}" if "DSG" in method else "-"
    return {
        "method": method,
        "settings": settings,
        "copies": course.rows[-1],
        "CPU s": course.spent,
        "test error %": course.errors[-1],
    }


def remarks(sizes: Sizes) -> list[str]:
    """Say what all these comparisons have in common."""
    inputs = "all features"
    if sizes.n_components is not None:
        inputs = f"{sizes.n_components} components of an uncentred PCA"
    return [
        f"The net learns {sizes.passes} passes, the others {sizes.passes_on_features} more on the "
        "outputs of its last max-pooling, from copies that it has not seen. Times are CPU seconds "
        "on one thread and count the making of copies and features, but not the training of the "
        "net whose features they are, as in the paper.",
        f"DSG: {inputs}, softmax loss, "
        f"regularization {_NU:g}, batches of {sizes.batch_size:,}, blocks of {sizes.block_size:,}. "
        f"Newton mode: the ridge of {', '.join(f'{ridge:g}' for ridge in _RIDGES)} with the "
        "least loss on batches before they are learned; steps fade from 1 to 0. Plain: the steps "
        "as printed, automatic ones, the largest stable. The last iterate predicts.",
    ]


def _drawing(courses: Mapping[str, Course]) -> Drawing:
    def draw(ax: Axes) -> None:
        for method, course in courses.items():
            ax.plot(course.seconds, course.errors, "o-", markersize=3, label=method)
        ax.set_xscale("log")
        plain_log_scale(ax)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("CPU seconds, those of making copies and features included")
        ax.set_ylabel("test error, %")

    return Drawing("time", "Test error against the CPU time of training.", draw)
