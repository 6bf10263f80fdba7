r"""Generated streams whose changes are known.

A *concept* is a vector of parameters :math:`\theta` of a rule that gives the label or the target of
a row. A stream goes from concept to concept, in one of four ways:

``"abrupt"``
    From one row to the next.
``"gradual"``
    Rows are of the old concept or the next one, at random; the chance of the next one rises
    linearly from 0 to 1.
``"incremental"``
    The parameters move in a straight line from those of the old concept to those of the next one.
``"recurring"``
    Abruptly, between two concepts in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SEA_THRESHOLDS = 8.0, 9.0, 7.0, 9.5
# Opposite phases first: after the first change nearly all labels are others.
_SINE_PHASES = np.pi * np.array([0.0, 1.0, 0.5, 1.5])


class ChangingStream(NamedTuple):
    """Rows in their order, and where they change.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs.
    y : ndarray of shape (n_rows,)
        Classes (int64, from 0), or numbers (float64).
    changes : ndarray of shape (n_changes,)
        Row numbers at which a change begins: the first that may be of the next concept.
    """

    X: Floats
    y: NDArray[np.int64] | Floats
    changes: Integers


class _Course(NamedTuple):
    """Concept of each row: a part of the way from an old one to the next one."""

    old: Integers
    new: Integers
    part: Floats
    changes: Integers

    def parameters(self, concepts: Floats) -> Floats:
        """Parameters of each row, of the shape (n_rows, ...), from (n_concepts, ...)."""
        part = self.part.reshape(-1, *[1] * (concepts.ndim - 1))
        return (1.0 - part) * concepts[self.old] + part * concepts[self.new]


def _course(
    rng: np.random.Generator,
    n_rows: int,
    change: str,
    changes: int | Sequence[int],
    width: int | None,
) -> _Course:
    if isinstance(changes, Integral):
        begins = np.arange(1, int(changes) + 1) * n_rows // (int(changes) + 1)
    else:
        begins = np.array(changes, dtype=np.int64)
    old, new, part = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64), np.zeros(n_rows)
    for k, (begin, end) in enumerate(pairwise([*begins.tolist(), n_rows])):
        last, following = (k % 2, 1 - k % 2) if change == "recurring" else (k, k + 1)
        old[begin:end], new[begin:end] = last, following
        if change in ("abrupt", "recurring"):
            part[begin:end] = 1.0
            continue
        rise = np.arange(end - begin) / (max((end - begin) // 2, 1) if width is None else width)
        part[begin:end] = np.minimum(rise, 1.0)
    if change == "gradual":
        part = (rng.random(n_rows) < part).astype(np.float64)
    return _Course(old, new, part, begins.astype(np.int64))


def _n_concepts(course: _Course) -> int:
    return int(course.new.max(initial=0)) + 1 if len(course.changes) else 1


def _finish(
    rng: np.random.Generator,
    X: Floats,
    y: Floats | NDArray[np.bool_],
    course: _Course,
    task: str,
    noise: float,
) -> ChangingStream:
    """Add noise: of classes 0 and 1 a part is turned over, of numbers it has this spread."""
    if task == "regression":
        return ChangingStream(X, y + noise * rng.standard_normal(len(y)), course.changes)
    return ChangingStream(X, _turned(rng, y.astype(np.int64), 2, noise), course.changes)


def _turned(rng: np.random.Generator, y: Integers, n_classes: int, noise: float) -> Integers:
    """Labels, of which a part is any of the other classes."""
    others = (y + rng.integers(1, n_classes, len(y))) % n_classes
    return np.where(rng.random(len(y)) < noise, others, y)


def make_sea(
    n_rows: int = 20_000,
    *,
    change: str = "abrupt",
    changes: int | Sequence[int] = 3,
    width: int | None = None,
    noise: float = 0.1,
    seed: int = 0,
) -> ChangingStream:
    r"""Draw the SEA concepts: whether the sum of two of three inputs is below a threshold.

    Inputs are uniform on [0, 10]; the label is 1 if :math:`x_1 + x_2 \le \theta` with the
    thresholds 8, 9, 7, 9.5, 8, ... of the concepts. The third input says nothing.

    Parameters
    ----------
    n_rows : int, default=20_000
        Number of rows.
    change : {"abrupt", "gradual", "incremental", "recurring"}, default="abrupt"
        How concepts follow each other.
    changes : int or sequence of int, default=3
        Number of changes, evenly spread, or the row numbers at which they begin.
    width : int or None, default=None
        Rows that a gradual or incremental change takes; None for half of those until the next one.
    noise : float, default=0.1
        Chance that a label is turned over.
    seed : int, default=0
        Seed.

    Returns
    -------
    stream : ChangingStream
        ``X, y, changes``; two classes.

    References
    ----------
    W. N. Street, Y. Kim, A streaming ensemble algorithm (SEA) for large-scale classification, KDD
    2001.
    """
    rng, of_course = np.random.default_rng(seed).spawn(2)
    course = _course(of_course, n_rows, change, changes, width)
    X = rng.uniform(0.0, 10.0, (n_rows, 3))
    thresholds = np.resize(_SEA_THRESHOLDS, _n_concepts(course))
    y = X[:, 0] + X[:, 1] <= course.parameters(thresholds)
    return _finish(rng, X, y, course, "classification", noise)


def make_rotating_plane(
    n_rows: int = 20_000,
    *,
    task: str = "classification",
    n_inputs: int = 10,
    change: str = "incremental",
    changes: int | Sequence[int] = 3,
    width: int | None = None,
    noise: float = 0.05,
    seed: int = 0,
) -> ChangingStream:
    r"""Draw rows on both sides of a plane through the middle that turns.

    Inputs are uniform on [-1, 1], and the normal :math:`\theta` of each concept is a random
    direction. The label is whether :math:`\theta^\top x > 0`; the target of a regression is
    :math:`\sqrt 3 \, \theta^\top x / \|\theta\|`, of variance 1.

    Parameters
    ----------
    n_rows : int, default=20_000
        Number of rows.
    task : {"classification", "regression"}, default="classification"
        What y is.
    n_inputs : int, default=10
        Number of inputs.
    change : {"abrupt", "gradual", "incremental", "recurring"}, default="incremental"
        How concepts follow each other.
    changes : int or sequence of int, default=3
        Number of changes, evenly spread, or the row numbers at which they begin.
    width : int or None, default=None
        Rows that a gradual or incremental change takes; None for half of those until the next one.
    noise : float, default=0.05
        Chance that a label is turned over, or standard deviation of what is added to targets.
    seed : int, default=0
        Seed.

    Returns
    -------
    stream : ChangingStream
        ``X, y, changes``; two classes, or numbers.

    References
    ----------
    G. Hulten, L. Spencer, P. Domingos, Mining time-changing data streams, KDD 2001.
    """
    rng, of_concepts, of_course = np.random.default_rng(seed).spawn(3)
    course = _course(of_course, n_rows, change, changes, width)
    normals = of_concepts.standard_normal((_n_concepts(course), n_inputs))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    X = rng.uniform(-1.0, 1.0, (n_rows, n_inputs))
    normal = course.parameters(normals)
    value = np.sum(X * normal, axis=1) / np.linalg.norm(normal, axis=1)
    y = np.sqrt(3.0) * value if task == "regression" else value > 0.0
    return _finish(rng, X, y, course, task, noise)


def make_moving_centers(
    n_rows: int = 20_000,
    *,
    task: str = "classification",
    n_inputs: int = 10,
    n_centers: int = 30,
    n_classes: int = 2,
    spread: float = 0.7,
    change: str = "abrupt",
    changes: int | Sequence[int] = 3,
    width: int | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> ChangingStream:
    """Draw rows around centers, each with a label of its own, that move (random RBF).

    Centers are standard normal; a row is at a center chosen at random, plus normal noise. Its label
    is that of the center (the classes have as many centers, as far as can be); the target of a
    regression is a standard normal number of the center. In each concept the centers are elsewhere.

    Parameters
    ----------
    n_rows : int, default=20_000
        Number of rows.
    task : {"classification", "regression"}, default="classification"
        What y is.
    n_inputs : int, default=10
        Number of inputs.
    n_centers : int, default=30
        Number of centers.
    n_classes : int, default=2
        Number of classes, 2 to ``n_centers``; a regression has none.
    spread : float, default=0.7
        Standard deviation of the rows around their center, in each input.
    change : {"abrupt", "gradual", "incremental", "recurring"}, default="abrupt"
        How concepts follow each other.
    changes : int or sequence of int, default=3
        Number of changes, evenly spread, or the row numbers at which they begin.
    width : int or None, default=None
        Rows that a gradual or incremental change takes; None for half of those until the next one.
    noise : float, default=0.0
        Chance that a label is any of the other classes, or standard deviation of what is added to
        targets.
    seed : int, default=0
        Seed.

    Returns
    -------
    stream : ChangingStream
        ``X, y, changes``; classes from 0, or numbers.

    References
    ----------
    A. Bifet, G. Holmes, B. Pfahringer, R. Kirkby, R. Gavaldà, New ensemble methods for evolving
    data streams, KDD 2009, for random RBF with drift.
    """
    rng, of_concepts, of_course = np.random.default_rng(seed).spawn(3)
    course = _course(of_course, n_rows, change, changes, width)
    concepts = of_concepts.standard_normal((_n_concepts(course), n_centers, n_inputs))
    chosen = rng.integers(n_centers, size=n_rows)
    part = course.part[:, np.newaxis]
    places = (1.0 - part) * concepts[course.old, chosen] + part * concepts[course.new, chosen]
    X = places + spread * rng.standard_normal((n_rows, n_inputs))
    if task == "regression":
        return _finish(rng, X, rng.standard_normal(n_centers)[chosen], course, task, noise)
    y = _turned(rng, chosen % n_classes, n_classes, noise)
    return ChangingStream(X, y, course.changes)


def make_sine(
    n_rows: int = 20_000,
    *,
    task: str = "classification",
    n_inputs: int = 4,
    change: str = "abrupt",
    changes: int | Sequence[int] = 3,
    width: int | None = None,
    noise: float = 0.05,
    seed: int = 0,
) -> ChangingStream:
    r"""Draw rows on both sides of a sine whose phase changes.

    Inputs are uniform on [0, 1]; all but the first two say nothing. With the phases :math:`\theta`
    0, :math:`\pi`, :math:`\pi/2`, :math:`3\pi/2`, 0, ... of the concepts the label is whether
    :math:`x_2 < \frac12 + \frac12 \sin(3 \pi x_1 + \theta)`; the target of a regression is
    :math:`\sin(3 \pi x_1 + \theta) + x_2`.

    Parameters
    ----------
    n_rows : int, default=20_000
        Number of rows.
    task : {"classification", "regression"}, default="classification"
        What y is.
    n_inputs : int, default=4
        Number of inputs, at least 2.
    change : {"abrupt", "gradual", "incremental", "recurring"}, default="abrupt"
        How concepts follow each other.
    changes : int or sequence of int, default=3
        Number of changes, evenly spread, or the row numbers at which they begin.
    width : int or None, default=None
        Rows that a gradual or incremental change takes; None for half of those until the next one.
    noise : float, default=0.05
        Chance that a label is turned over, or standard deviation of what is added to targets.
    seed : int, default=0
        Seed.

    Returns
    -------
    stream : ChangingStream
        ``X, y, changes``; two classes, or numbers.

    References
    ----------
    J. Gama, P. Medas, G. Castillo, P. Rodrigues, Learning with drift detection, SBIA 2004, for
    labels by a sine that change.
    """
    rng, of_course = np.random.default_rng(seed).spawn(2)
    course = _course(of_course, n_rows, change, changes, width)
    X = rng.uniform(0.0, 1.0, (n_rows, n_inputs))
    phase = course.parameters(np.resize(_SINE_PHASES, _n_concepts(course)))
    wave = np.sin(3.0 * np.pi * X[:, 0] + phase)
    y = wave + X[:, 1] if task == "regression" else X[:, 1] < 0.5 + 0.5 * wave
    return _finish(rng, X, y, course, task, noise)
