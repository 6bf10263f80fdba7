"""The loop of learning by steps.

Every algorithm that learns by steps combines an objective, a function with a way to stay small, and
a schedule of step sizes::

    for batch in stream:
        eta = step_size(t)
        make_step(f, objective, batch, eta, regularization, tolerance, largest_loss)

The learner on kernel expansions takes its steps in Python by :func:`make_step`; compiled code
(:mod:`mercer.numerics.loops`) does the same, and tests compare the two. The learner on
random features does the same with a block of features in place of points: it computes the change of
a step at all rows at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.functions import KernelExpansion
from mercer.objectives import Batch, Objective


class Step(NamedTuple):
    """Result of a step.

    Attributes
    ----------
    losses : ndarray of shape (n,)
        Loss of each row before it was learned.
    error : float
        RKHS norm of the error of compression.
    """

    losses: NDArray[np.float64]
    error: float


class UnsoundStepError(ArithmeticError):
    """Slopes are not finite, or a loss is too large; the function has not changed."""


def make_step(
    f: KernelExpansion,
    objective: Objective,
    batch: Batch,
    eta: float,
    regularization: float,
    tolerance: float,
    largest_loss: float,
) -> Step:
    """Take a gradient step: move a function against the slopes of an objective on a batch.

    Parameters
    ----------
    f : KernelExpansion
        Function to update.
    objective : Objective
        Objective to minimise; its scalars (a threshold, a tracked mean, a buffer) are updated, too.
    batch : Batch
        The rows.
    eta : float
        Step size.
    regularization : float
        Ridge parameter.
    tolerance : float
        Largest error of compression, in the RKHS norm.
    largest_loss : float
        Loss beyond which a run has diverged.

    Raises
    ------
    UnsoundStepError
        If slopes are not finite or a loss is larger than ``largest_loss``.
    """
    points = objective.points(batch)  # points where values of f are needed
    values = f.current(points)
    if objective.needs_previous:
        batch = batch._replace(previous=f.previous(points))
    slopes, losses = objective.slopes(values, batch)  # derivatives in these values
    if not (np.isfinite(slopes).all() and losses.max() <= largest_loss):
        raise UnsoundStepError
    anchors = objective.anchors(batch)  # points that return in later steps
    objective.update(values, batch, eta)
    mixing = objective.mixing(eta, regularization, f.n_outputs)
    if mixing is None:
        f.shrink(1.0 - eta * regularization)
    else:
        f.mix(mixing)
    return Step(losses, f.add(points, -eta * slopes, tolerance, *(anchors or ())))


def cut_pass(n: int, size: int, *, exact: bool) -> list[int]:
    """Return the starts of the batches of a pass over ``n`` rows, and its end.

    Parameters
    ----------
    n, size : int
        Number of rows of the pass, and of a step.
    exact : bool
        Whether the last batch may be short; otherwise its rows are divided among the others.

    Examples
    --------
    >>> cut_pass(10, 4, exact=True), cut_pass(10, 4, exact=False)
    ([0, 4, 8, 10], [0, 5, 10])
    """
    starts = list(range(0, n, size))
    if not exact and len(starts) > 1 and n - starts[-1] < size:
        # A block of features fitted to few rows is worse than somewhat larger batches.
        starts = [n * i // (len(starts) - 1) for i in range(len(starts) - 1)]
    return [*starts, n]
