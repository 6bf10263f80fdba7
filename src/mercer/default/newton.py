"""Newton steps of the default learner: from least squares on class codes to the loss itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.learning import StepsElsewhere
from mercer.losses import Loss, loss_and_slopes
from mercer.selection import mean_loss, stack
from mercer.sums import (
    Basis,
    BasisPart,
    RevisitableRows,
    Rows,
    labels_of_codes,
    targets_of_codes,
)
from mercer.sums.newton import products_with
from mercer.threads import in_order

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


class Gradients(Protocol):
    """Gradients of a loss, step by step, wherever the rows are."""

    def steps(self, size: int, n_passes: int, *, held: bool) -> Sequence[Any]:
        """Cut passes into steps of about so many rows, with or without those held back."""

    def visit(self, step: Any, bases: Sequence[Basis]) -> Any:
        """Make what does not depend on the coefficients."""

    def at(
        self, visited: Any, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Gradient of the mean loss of the rows of a step in the coefficients of each basis."""


class GradientsOfRows:
    """Gradients at rows that are at hand: :class:`Gradients`.

    Parameters
    ----------
    loss : Loss
        Of classes.
    rows : RevisitableRows
        All of them.
    n_held : int
        How many of the last are held back.
    """

    def __init__(self, loss: Loss, rows: RevisitableRows, n_held: int) -> None:
        self.loss, self.rows, self.n_held = loss, rows, n_held
        self._generator = np.random.default_rng(0)

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[NDArray[np.int64]]:
        """See :class:`Gradients`: numbers of rows."""
        n = len(self.rows) - (0 if held else self.n_held)
        orders = [self._generator.permutation(n) for _ in range(n_passes)]
        return [order[at : at + size] for order in orders for at in range(0, n, size)]

    def visit(self, step: NDArray[np.int64], bases: Sequence[Basis]) -> tuple[Rows, list[Any]]:
        """See :class:`Gradients`: rows, and their features."""
        some = self.rows[step]
        some = replace(some, weights=some.weights / some.weights.sum())
        return some, [basis.features(some.X) for basis in bases]

    def at(
        self,
        visited: tuple[Rows, list[Any]],
        bases: Sequence[Basis],
        coefficients: Sequence[Array],
    ) -> list[Array]:
        """Gradients at the rows of a step, which are at hand."""
        return gradients_of(self.loss, *visited, coefficients)


class _ClassSlopes(NamedTuple):
    """Weight of rows, and gradients of a loss there: :class:`mercer.learning.Ask`."""

    loss: Loss
    bases: Sequence[Basis]

    def __call__(self, rows: Rows, coefficients: Sequence[Array]) -> list[Array]:
        features = [basis.features(rows.X) for basis in self.bases]
        gradients = gradients_of(self.loss, rows, features, coefficients)
        return [np.asarray(rows.weights.sum()), *gradients]


class GradientsElsewhere:
    """Gradients at rows that lie elsewhere: :class:`Gradients`.

    Parameters
    ----------
    loss : Loss
        Of classes.
    held : Rows
        Rows held back, which are at hand.
    rows : StepsElsewhere
        All others.
    """

    def __init__(self, loss: Loss, held: Rows, rows: StepsElsewhere) -> None:
        self.loss, self.held, self.rows = loss, held, rows
        self._ask: _ClassSlopes | None = None
        self._with_held = False

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[int]:
        """See :class:`Gradients`: numbers of steps, of as many rows as were laid out."""
        self._with_held = held
        return [step for _ in range(n_passes) for step in range(self.rows.n_steps)]

    def visit(self, step: int, bases: Sequence[Basis]) -> int:
        """See :class:`Gradients`: the step, as its rows are elsewhere."""
        return step

    def at(
        self, visited: int, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Gradients at the rows of a step, which are asked for where they lie."""
        if self._ask is None:
            self._ask = _ClassSlopes(self.loss, list(bases))
        held = self.held if self._with_held else None
        weight, *found = self.rows.total(visited, self._ask, list(coefficients), held)
        return [each / weight for each in found]


def gradients_of(
    loss: Loss, rows: Rows, features: Sequence[Any], coefficients: Sequence[Array]
) -> list[Array]:
    """Gradient of the weighted sum of a loss at rows in the coefficients of each basis.

    Parameters
    ----------
    loss : Loss
        Of classes.
    rows : Rows
        With class codes.
    features, coefficients : sequences
        Features of the rows on each basis, and coefficients: of a function that is the sum of their
        products.
    """
    pairs = list(zip(features, coefficients, strict=True))
    values: Array = np.asarray(
        np.sum([Z @ its.astype(Z.dtype) for Z, its in pairs], axis=0, dtype=np.float64)
    )
    slopes = loss_and_slopes(loss, values, targets_of_codes(loss, rows.targets))[1]
    slopes *= rows.weights[:, np.newaxis]
    return [products_with(Z, slopes) for Z in features]


def refine(
    parts: Sequence[BasisPart],
    weights: Sequence[float],
    loss: Loss,
    gradients: Gradients,
    held: Rows,
) -> Array | None:
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
    gradients : Gradients
        Of the loss at all rows.
    held : Rows
        Those of them that are held back.

    Returns
    -------
    values : ndarray of shape (n_held, n_outputs) or None
        Scores of the rows held back after the first pass, which did not have them; None if the
        steps were not kept. The coefficients are in units of the loss in any case.
    """
    assert loss.curvature is not None
    bound = float(loss.curvature)
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
    curvatures = [part.curvature() for part in parts]
    bases = [part.basis for part in parts]

    def step(visited: Any, rate: float) -> None:
        found = gradients.at(visited, bases, [part.coefficients for part in parts])
        for part, curvature, gradient in zip(parts, curvatures, found, strict=True):
            part.step(gradient, curvature, rate / (bound * len(parts)), bound)

    def passes(n_passes: int, rate: float, *, with_held: bool) -> None:
        steps = gradients.steps(batch, n_passes, held=with_held)
        visited: Any = gradients.visit(steps[0], bases)
        for number in range(len(steps)):
            decayed = rate * (1.0 - number / len(steps))
            pieces: list[Callable[[], Any]] = [partial(step, visited, decayed)]
            # What is there of the next rows does not depend on what the step changes.
            pieces += [partial(gradients.visit, n, bases) for n in steps[number + 1 : number + 2]]
            visited = in_order(lambda piece: piece(), pieces)[-1]

    # The rate falls to 0 before the verdict, or the noise of the last steps would be judged.
    passes(1, first_rate, with_held=False)
    # One pass finds the directions, not yet how sure to be, which one factor tells on both sides.
    values = values_at(held.X)
    sure = stack([values], held.targets, held.weights, loss)[0]
    if not mean_loss(loss, sure * values, held) < start:
        use(before)
        return None
    use([part.coefficients for part in parts], max(sure, 1.0))
    passes(_MORE_PASSES, _AGAIN * first_rate, with_held=True)
    return np.asarray(sure * values)
