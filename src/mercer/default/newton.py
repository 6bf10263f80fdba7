"""Newton steps of the default learner: from least squares on class codes to the loss itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._threads import in_order
from mercer.losses import Loss, loss_and_slopes
from mercer.selection import mean_loss, stack
from mercer.sums import BasisPart, RevisitableRows, Rows, labels_of_codes, targets_of_codes

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
    parts: Sequence[BasisPart],
    weights: Sequence[float],
    loss: Loss,
    rows: RevisitableRows,
    held: Rows,
) -> bool:
    r"""Take Newton steps on a loss with bounded curvature; keep them if they help.

    With A the mean products, P the kernel matrix and c the bound of the curvature a step is
    :math:`w \leftarrow w - \frac{\eta}{c} (A + \lambda P)^{-1} (\nabla + c \lambda P w)`, with a
    rate that falls to 0, and of several parts each one's share of it. Rows kept back decide after
    the first pass whether it was of use; two more passes then learn these rows, too.

    Parameters
    ----------
    parts : sequence of BasisPart
        Solved.
    weights : sequence of float
        What their coefficients are multiplied by to be in units of the loss.
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
    curvature = float(loss.curvature)
    before = [weight * part.coefficients for weight, part in zip(weights, parts, strict=True)]
    without = [weight * part.without_held for weight, part in zip(weights, parts, strict=True)]

    def use(coefficients: list[Array], scale: float = 1.0) -> None:
        for part, its in zip(parts, coefficients, strict=True):
            part.coefficients = scale * its

    def values_at(X: Any) -> Array:
        return np.asarray(sum(part.evaluate(X) for part in parts))

    use(without)
    start = mean_loss(loss, values_at(held.X), held)
    use(without, min(1.0, _MOST_SURE / sum(weights)))
    error = float(np.mean(loss.decide(values_at(held.X)) != labels_of_codes(held.targets)))
    share, first_rate = _CLEAN if error < _CLEAN_ERROR else _NOISY
    batch = max(_ROWS_AT_LEAST, int(share * max(part.n_points for part in parts)))
    factors, generator = [part.factor() for part in parts], np.random.default_rng(0)

    def visit(numbers: NDArray[np.int64]) -> tuple[Rows, list[Any]]:
        some = rows[numbers]
        return some, [part.basis.features(some.X) for part in parts]

    def step(visited: tuple[Rows, list[Any]], rate: float) -> None:
        some, features = visited
        pairs = list(zip(parts, features, strict=True))
        each = [Z @ part.coefficients.astype(Z.dtype) for part, Z in pairs]
        values: Array = np.asarray(np.sum(each, axis=0, dtype=np.float64))
        slopes = loss_and_slopes(loss, values, targets_of_codes(loss, some.targets))[1]
        slopes *= (some.weights / some.weights.sum())[:, np.newaxis]
        for (part, Z), factor in zip(pairs, factors, strict=True):
            part.step(Z, slopes, factor, rate / (curvature * len(parts)), curvature)

    def passes(n: int, n_passes: int, rate: float) -> None:
        orders = [generator.permutation(n) for _ in range(n_passes)]
        batches = [order[at : at + batch] for order in orders for at in range(0, n, batch)]
        visited: Any = visit(batches[0])
        for number in range(len(batches)):
            decayed = rate * (1.0 - number / len(batches))
            pieces: list[Callable[[], Any]] = [partial(step, visited, decayed)]
            # Features of the next rows do not depend on what the step changes.
            pieces += [partial(visit, some) for some in batches[number + 1 : number + 2]]
            visited = in_order(lambda piece: piece(), pieces)[-1]

    # The rate falls to 0 before the verdict, or the noise of the last steps would be judged.
    passes(len(rows) - len(held), 1, first_rate)
    # One pass finds the directions, not yet how sure to be, which one factor tells on both sides.
    values = values_at(held.X)
    sure = stack([values], held.targets, held.weights, loss)[0]
    if not mean_loss(loss, sure * values, held) < start:
        use(before)
        return False
    use([part.coefficients for part in parts], max(sure, 1.0))
    passes(len(rows), _MORE_PASSES, _AGAIN * first_rate)
    return True
