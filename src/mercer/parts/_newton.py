"""Preconditioned Newton steps: from least squares on class codes to the loss itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, loss_and_slopes
from mercer.parts._global import GlobalPart
from mercer.parts._rows import Rows
from mercer.parts._stack import encode_codes

__all__ = ["mean_loss", "refine"]

Array = NDArray[np.float64]

_PASSES = 3
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
    take: Callable[[NDArray[np.int64]], Rows],
    n_rows: int,
    held: Rows,
) -> bool:
    r"""Take Newton steps on a loss with bounded curvature; keep them if they help.

    With A the mean products, P the kernel matrix and c the bound of the curvature a step is
    :math:`w \leftarrow w - \frac{\eta}{c} (A + \lambda P)^{-1} (\nabla + c \lambda P w)`, with a
    rate that falls to 0 in three passes. Rows kept back decide after the first pass whether it
    was of use; the others then learn these rows, too.

    Parameters
    ----------
    part : GlobalPart
        Solved.
    weight : float
        What its coefficients are multiplied by to be in units of the loss.
    loss : Loss
        Of classes.
    take : callable
        Numbers of rows to rows.
    n_rows : int
        Rows that can be visited again.
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
    start = mean_loss(part, loss, held)
    part.coefficients = min(weight, _MOST_SURE) * part.without_held
    error = float(np.mean(loss.decide(part.evaluate(held.X)) != _classes(held.targets)))
    share, first_rate = _CLEAN if error < _CLEAN_ERROR else _NOISY
    batch = max(_ROWS_AT_LEAST, int(share * part.n_points))
    factor, generator = part.factor(), np.random.default_rng(0)
    total = _PASSES * -(-n_rows // batch)
    step = 0
    for number in range(_PASSES):
        n = n_rows - len(held) if number == 0 else n_rows
        order = generator.permutation(n)
        for first in range(0, n, batch):
            rows = take(order[first : first + batch])
            rate = first_rate * (1.0 - step / total) / loss.curvature
            part.step(rows, _slopes(part, loss, rows), factor, rate, loss.curvature)
            step += 1
        if number == 0 and not mean_loss(part, loss, held) < start:
            part.coefficients = weight * before
            return False
    return True


def _slopes(part: GlobalPart, loss: Loss, rows: Rows) -> Callable[[Array], Array]:
    targets, share = encode_codes(loss, rows.targets), rows.weights / rows.weights.sum()
    return lambda values: loss_and_slopes(loss, values, targets)[1] * share[:, np.newaxis]


def mean_loss(part: GlobalPart, loss: Loss, rows: Rows) -> float:
    """Weighted mean of the loss at rows."""
    losses = loss_and_slopes(loss, part.evaluate(rows.X), encode_codes(loss, rows.targets))[0]
    return float(rows.weights @ losses / rows.weights.sum())


def _classes(codes: Array) -> NDArray[np.int64]:
    if codes.shape[1] == 1:
        return (codes[:, 0] > 0).astype(np.int64)
    return np.asarray(codes.argmax(axis=1))
