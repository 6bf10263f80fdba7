"""The loop by steps.

Every algorithm that learns by steps is a choice of an objective, of a function that stays small in
its own way, and of a schedule::

    for batch in stream:
        eta = step_size(t)
        make_step(f, objective, batch, eta, regularization, tolerance, largest_loss)

The learner on kernel expansions makes its steps in plain view by :func:`make_step`; compiled code
(:mod:`mercer.numerics.row_loop`, :mod:`mercer.numerics.pair_loop`) does the same, and tests tie the
two together. The learner on random features takes the same way with a block of features in place
of the points: what it adds is known at all rows at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.functions import KernelExpansion
from mercer.objectives import Batch, Objective


class Step(NamedTuple):
    """What a step says of itself.

    Attributes
    ----------
    losses : ndarray of shape (n,)
        Loss of each row before it was learned.
    error : float
        RKHS norm of what was left out to keep the function small.
    """

    losses: NDArray[np.float64]
    error: float


class UnsoundStepError(ArithmeticError):
    """Slopes are not finite, or a loss is too large to go on: nothing has moved."""


def make_step(
    f: KernelExpansion,
    objective: Objective,
    batch: Batch,
    eta: float,
    regularization: float,
    tolerance: float,
    largest_loss: float,
) -> Step:
    """Move a function against the slopes of an objective on the rows of a batch.

    Parameters
    ----------
    f : KernelExpansion
        What is learned.
    objective : Objective
        What is minimised; its own scalars (a threshold, a tracked mean, a buffer) move, too.
    batch : Batch
        The rows.
    eta : float
        Step size.
    regularization : float
        Ridge parameter.
    tolerance : float
        What may be left out to keep the function small, in the RKHS norm.
    largest_loss : float
        Loss beyond which a run has diverged.

    Raises
    ------
    UnsoundStepError
        If slopes are not finite or a loss is larger than that.
    """
    points = objective.points(batch)  # where f must be known
    values = f.current(points)
    if objective.needs_previous:
        batch = batch._replace(previous=f.previous(points))
    slopes, losses = objective.slopes(values, batch)  # which way f should move there
    if not (np.isfinite(slopes).all() and losses.max() <= largest_loss):
        raise UnsoundStepError
    anchors = objective.anchors(batch)  # points that come again
    objective.update(values, batch, eta)
    mixing = objective.mixing(eta, regularization, f.n_outputs)
    if mixing is None:
        f.shrink(1.0 - eta * regularization)
    else:
        f.mix(mixing)
    return Step(losses, f.add(points, -eta * slopes, tolerance, *(anchors or ())))


def cut_pass(n: int, size: int, *, exact: bool) -> list[int]:
    """Where the batches of a pass over ``n`` rows begin, and its end.

    Parameters
    ----------
    n, size : int
        Rows of the pass and of a step.
    exact : bool
        Whether the last batch may be short; else its rows are shared out among the others.

    Examples
    --------
    >>> cut_pass(10, 4, exact=True), cut_pass(10, 4, exact=False)
    ([0, 4, 8, 10], [0, 5, 10])
    """
    starts = list(range(0, n, size))
    if not exact and len(starts) > 1 and n - starts[-1] < size:
        # A block fitted to few rows is worse than a batch that is somewhat larger.
        starts = [n * i // (len(starts) - 1) for i in range(len(starts) - 1)]
    return [*starts, n]
