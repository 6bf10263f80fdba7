"""Preconditioned Newton steps: from least squares on class codes to the loss itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, loss_and_slopes
from mercer.selection import mean_loss, stack
from mercer.sums import GlobalPart, RevisitableRows, Rows, labels_of_codes, targets_of_codes

__all__ = ["refine"]

Array = NDArray[np.float64]

# Passes after the one that decides, and the rate with which they begin, of its first.
_MORE_PASSES, _AGAIN = 2, 0.75
# Rows of a step, by points, and its rate: where labels are noisy a gradient must be the mean of
# many rows, and a step shorter.
_CLEAN_ERROR = 0.05
_CLEAN, _NOISY = (0.5, 1.0), (4.0, 0.5)
# Scores at which the steps begin, in those of the codes: least squares is sure of its errors, too,
# which costs the more steps the larger its scores are.
_MOST_SURE = 3.0
_ROWS_AT_LEAST = 1024


def refine(
    part: GlobalPart,
    weight: float,
    loss: Loss,
    rows: RevisitableRows,
    held: Rows,
) -> bool:
    r"""Take Newton steps on a loss with bounded curvature; keep them if they help.

    With A the mean products, P the kernel matrix and c the bound of the curvature a step is
    :math:`w \leftarrow w - \frac{\eta}{c} (A + \lambda P)^{-1} (\nabla + c \lambda P w)`, with a
    rate that falls to 0. Rows kept back decide after the first pass whether it was of use; two
    more passes then learn these rows, too.

    Parameters
    ----------
    part : GlobalPart
        Solved.
    weight : float
        What its coefficients are multiplied by to be in units of the loss.
    loss : Loss
        Of classes.
    rows : RevisitableRows
        All of them.
    held : Rows
        The last of them.

    Returns
    -------
    changed : bool
        Whether the steps were kept; the coefficients are in units of the loss in any case.
    """
    assert loss.curvature is not None
    before = part.coefficients
    part.coefficients = weight * part.without_held
    start = mean_loss(loss, part.evaluate(held.X), held)
    part.coefficients = min(weight, _MOST_SURE) * part.without_held
    error = float(np.mean(loss.decide(part.evaluate(held.X)) != labels_of_codes(held.targets)))
    share, first_rate = _CLEAN if error < _CLEAN_ERROR else _NOISY
    batch = max(_ROWS_AT_LEAST, int(share * part.n_points))
    factor, generator = part.factor(), np.random.default_rng(0)

    def passes(n: int, n_passes: int, rate: float) -> None:
        orders = [generator.permutation(n) for _ in range(n_passes)]
        batches = [order[at : at + batch] for order in orders for at in range(0, n, batch)]
        for step, numbers in enumerate(batches):
            some, left = rows[numbers], 1.0 - step / len(batches)
            curvature = float(loss.curvature or 1.0)
            part.step(some, _slopes(part, loss, some), factor, rate * left / curvature, curvature)

    # The rate falls to 0 before the verdict, or the noise of the last steps would be judged.
    passes(len(rows) - len(held), 1, first_rate)
    # One pass finds the directions, not yet how sure to be, which one factor tells on both sides.
    values = part.evaluate(held.X)
    sure = stack([values], held.targets, held.weights, loss)[0]
    if not mean_loss(loss, sure * values, held) < start:
        part.coefficients = weight * before
        return False
    part.coefficients = max(sure, 1.0) * part.coefficients
    passes(len(rows), _MORE_PASSES, _AGAIN * first_rate)
    return True


def _slopes(part: GlobalPart, loss: Loss, rows: Rows) -> Callable[[Array], Array]:
    targets, share = targets_of_codes(loss, rows.targets), rows.weights / rows.weights.sum()
    return lambda values: loss_and_slopes(loss, values, targets)[1] * share[:, np.newaxis]
