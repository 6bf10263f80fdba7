"""Newton steps of the default learner, from a least squares fit to class codes to the loss."""

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

# Passes after the first, which decides whether steps help; and their first rate, relative to the
# first rate of that pass.
_MORE_PASSES, _AGAIN = 2, 0.75
# Rows of a step as a multiple of the points, and first rate: if labels are noisy, gradients must be
# means of more rows, and steps shorter.
_CLEAN_ERROR = 0.05
_CLEAN, _NOISY = (0.5, 1.0), (4.0, 0.5)
# Largest scale of the scores at which steps begin, relative to the class codes: least squares also
# gives its errors large scores, and the larger they are, the more steps are needed.
_MOST_SURE = 3.0
_ROWS_AT_LEAST = 1024


class Gradients(Protocol):
    """Gradients of a loss at the rows of one step after another, wherever the rows lie."""

    def steps(self, size: int, n_passes: int, *, held: bool) -> Sequence[Any]:
        """Cut passes into steps of about ``size`` rows, with or without the held out rows."""

    def visit(self, step: Any, bases: Sequence[Basis]) -> Any:
        """Compute what a step needs that does not depend on the coefficients."""

    def at(
        self, visited: Any, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Return the gradients of the mean loss at a step's rows, one per basis."""


class GradientsOfRows:
    """Gradients at rows in this process: :class:`Gradients`.

    Parameters
    ----------
    loss : Loss
        Loss for classification.
    rows : RevisitableRows
        All rows.
    n_held : int
        Number of rows at the end that are held out.
    """

    def __init__(self, loss: Loss, rows: RevisitableRows, n_held: int) -> None:
        self.loss, self.rows, self.n_held = loss, rows, n_held
        self._generator = np.random.default_rng(0)

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[NDArray[np.int64]]:
        """Cut shuffled row numbers into steps."""
        n = len(self.rows) - (0 if held else self.n_held)
        orders = [self._generator.permutation(n) for _ in range(n_passes)]
        return [order[at : at + size] for order in orders for at in range(0, n, size)]

    def visit(self, step: NDArray[np.int64], bases: Sequence[Basis]) -> tuple[Rows, list[Any]]:
        """Return the rows of a step, with weights that sum to 1, and their features."""
        some = self.rows[step]
        some = replace(some, weights=some.weights / some.weights.sum())
        return some, [basis.features(some.X) for basis in bases]

    def at(
        self,
        visited: tuple[Rows, list[Any]],
        bases: Sequence[Basis],
        coefficients: Sequence[Array],
    ) -> list[Array]:
        """Compute the gradients from the rows and features of :meth:`visit`."""
        return gradients_of(self.loss, *visited, coefficients)


class _ClassSlopes(NamedTuple):
    """Weight of rows and gradients of a loss at them, to ask for where rows lie.

    It is a :class:`mercer.learning.Ask`.
    """

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
        Loss for classification.
    held : Rows
        Held out rows, which are in this process.
    rows : StepsElsewhere
        All other rows.
    """

    def __init__(self, loss: Loss, held: Rows, rows: StepsElsewhere) -> None:
        self.loss, self.held, self.rows = loss, held, rows
        self._ask: _ClassSlopes | None = None
        self._with_held = False

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[int]:
        """Return the numbers of the steps, whose sizes are fixed where the rows lie."""
        self._with_held = held
        return [step for _ in range(n_passes) for step in range(self.rows.n_steps)]

    def visit(self, step: int, bases: Sequence[Basis]) -> int:
        """Return the number of the step, as its rows lie elsewhere."""
        return step

    def at(
        self, visited: int, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Ask for the gradients at the rows of a step where these lie."""
        if self._ask is None:
            self._ask = _ClassSlopes(self.loss, list(bases))
        held = self.held if self._with_held else None
        weight, *found = self.rows.total(visited, self._ask, list(coefficients), held)
        return [each / weight for each in found]


def gradients_of(
    loss: Loss, rows: Rows, features: Sequence[Any], coefficients: Sequence[Array]
) -> list[Array]:
    """Return gradients of the weighted sum of a loss at rows, in the coefficients of each basis.

    Parameters
    ----------
    loss : Loss
        Loss for classification.
    rows : Rows
        Rows with class codes as targets.
    features, coefficients : sequences
        Features of the rows in each basis, and coefficients for each basis. The function is the sum
        of the products of the two.
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
    :math:`w \leftarrow w - \frac{\eta}{c} (A + \lambda P)^{-1} (\nabla + c \lambda P w)`. The rate
    falls to 0, and is divided by the number of parts. After the first pass, the held out rows
    decide whether the steps helped; if so, two more passes learn the held out rows, too.

    Parameters
    ----------
    parts : sequence of BasisPart
        Solved parts.
    weights : sequence of float
        Factors that bring the coefficients of the parts to units of the loss.
    loss : Loss
        Loss for classification.
    gradients : Gradients
        Gradients of the loss at all rows.
    held : Rows
        The held out rows among them.

    Returns
    -------
    values : ndarray of shape (n_held, n_outputs) or None
        Scores of the held out rows after the first pass, which did not learn them; None if the
        steps were not kept. The coefficients of the parts are in units of the loss in any case.
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
            # Features of the next rows do not depend on the coefficients that this step changes.
            pieces += [partial(gradients.visit, n, bases) for n in steps[number + 1 : number + 2]]
            visited = in_order(lambda piece: piece(), pieces)[-1]

    # The rate falls to 0 before the comparison, which would otherwise see the noise of large steps.
    passes(1, first_rate, with_held=False)
    # One pass finds the direction of the scores, not yet their scale: one factor corrects it.
    values = values_at(held.X)
    sure = stack([values], held.targets, held.weights, loss)[0]
    if not mean_loss(loss, sure * values, held) < start:
        use(before)
        return None
    use([part.coefficients for part in parts], max(sure, 1.0))
    passes(_MORE_PASSES, _AGAIN * first_rate, with_held=True)
    return np.asarray(sure * values)
