"""Classification on a circle of finitely many points, where risks and their minimisers are known.

The inputs are m equally spaced points, all as frequent; each point has its own probability of the
label +1. A kernel on so few points is a matrix, and the linear kernel on the rows of its square
root is the same kernel, so that the library's own estimators and compiled loops learn it, with at
most m dictionary points. The kernel is of full rank: every function on the points is in its space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from mercer.losses import Loss
from mercer.validation import check_integer

Array = NDArray[np.float64]

# Decay of the kernel's eigenvalues: the square of the frequency.
_DECAY = 2.0
# The target's coefficients fall just fast enough for it to be in the kernel's space: bias is slow.
_BARELY = 0.6
_TARGET_SEED = 0
_FARTHEST = 50.0


class Sample(NamedTuple):
    """Inputs (n_rows, m) and labels (n_rows,), -1.0 and +1.0."""

    X: Array
    y: Array


class StreamModel(Protocol):
    """What learns a stream and gives each input a score."""

    def partial_fit(self, X: Any, y: Any, /) -> Any:
        """Learn some more rows."""

    def decision_function(self, X: Any, /) -> Any:
        """Scores of inputs, shape (n,)."""


@dataclass(frozen=True)
class Circle:
    r"""Points 0, 1/m, ..., (m - 1)/m with a kernel and probabilities of label +1.

    Attributes
    ----------
    positives : ndarray of shape (m,)
        Probability of the label +1 at each point.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> circle = Circle.of_log_odds(8, largest=2.0)
    >>> gram = circle.rows @ circle.rows.T
    >>> bool(np.allclose(np.diag(gram), 1.0))
    True
    >>> best = circle.optimum(Logistic())
    >>> bool(np.isclose(abs(best).max(), 2.0))
    True
    """

    positives: Array

    @classmethod
    def of_log_odds(cls, n_points: int, largest: float) -> Circle:
        """Make a circle whose log-odds are the target, scaled to a largest absolute value."""
        return cls(np.asarray(special.expit(_target(n_points, largest))))

    @classmethod
    def of_margins(cls, n_points: int, largest: float) -> Circle:
        """Make a circle on which P(+1) - P(-1) is the target, scaled likewise, to below 1."""
        return cls(0.5 * (1.0 + _target(n_points, largest)))

    @property
    def n_points(self) -> int:
        """Number of points m."""
        return int(self.positives.size)

    @cached_property
    def rows(self) -> Array:
        """Inputs, one row per point, shape (m, m): ``rows @ rows.T`` is the kernel matrix."""
        frequency = np.minimum(np.arange(self.n_points), self.n_points - np.arange(self.n_points))
        eigenvalues = np.maximum(frequency, 1.0) ** -_DECAY
        eigenvalues *= self.n_points / eigenvalues.sum()  # k(x, x) = 1
        first = np.fft.ifft(np.sqrt(eigenvalues)).real
        return np.stack([np.roll(first, shift) for shift in range(self.n_points)])

    def draw(self, n_rows: int, rng: np.random.Generator) -> Sample:
        """Draw rows of points that are all as frequent."""
        points = rng.integers(self.n_points, size=n_rows)
        labels = np.where(rng.random(n_rows) < self.positives[points], 1.0, -1.0)
        return Sample(self.rows[points], labels)

    def risk(self, loss: Loss, scores: Array) -> float:
        """Mean loss of the scores of the m points."""
        against = loss.value(-np.ones(self.n_points), scores)
        values = self.positives * loss.value(np.ones(self.n_points), scores)
        return float(np.mean(values + (1.0 - self.positives) * against))

    def pair_risk(self, loss: Loss, scores: Array) -> float:
        r"""Twice the part of pairs with labels +1, -1 in the mean loss of pairs.

        :math:`\frac{2}{m^2} \sum_{ij} \eta_i (1 - \eta_j)\, \phi(2 (g_i - g_j))`
        """
        return self._pairs(loss, scores)[0]

    def _pairs(self, loss: Loss, scores: Array) -> tuple[float, Array]:
        """Risk of pairs and its gradient in the scores."""
        margins = 2.0 * np.subtract.outer(scores, scores).ravel()
        values, slopes = loss.value_and_derivative(np.ones(margins.size), margins)
        weights = np.outer(self.positives, 1.0 - self.positives) * 2.0 / self.n_points**2
        pull = 2.0 * weights * slopes.reshape(weights.shape)
        return float(weights.ravel() @ values), pull.sum(axis=1) - pull.sum(axis=0)

    def optimum(self, loss: Loss) -> Array:
        """Scores of least :meth:`risk`, shape (m,)."""
        ones = np.ones(1)

        def balance(score: float, positive: float) -> float:
            up, down = (loss.derivative(y, np.array([score]))[0] for y in (ones, -ones))
            return float(positive * up + (1.0 - positive) * down)

        return np.array(
            [
                optimize.brentq(balance, -_FARTHEST, _FARTHEST, args=(p,), xtol=1e-13)
                for p in self.positives
            ]
        )

    def pair_optimum(self, loss: Loss) -> Array:
        """Scores of least :meth:`pair_risk`, with mean 0, shape (m,)."""
        found = optimize.minimize(
            lambda scores: self._pairs(loss, scores),
            0.25 * special.logit(self.positives),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-10, "maxiter": 10_000},
        )
        return np.asarray(found.x - found.x.mean(), dtype=np.float64)


def _target(n_points: int, largest: float) -> Array:
    """Return a rough function on the points: a random series of cosines."""
    frequency = np.arange(1, (n_points + 1) // 2)
    phases = np.random.default_rng(_TARGET_SEED).random(frequency.size)
    angles = np.outer(np.arange(n_points) / n_points, frequency) + phases
    values = np.cos(2.0 * np.pi * angles) @ frequency ** -(_DECAY / 2.0 + _BARELY)
    return np.asarray(values * (largest / np.abs(values).max()))


def mean_excess(
    circle: Circle,
    start: Callable[[], StreamModel],
    excess: Callable[[Array], float],
    checkpoints: Sequence[int],
    n_repetitions: int,
    seed: int,
) -> Array:
    """Learn streams of rows and measure on the way, shape (n_checkpoints,).

    Parameters
    ----------
    circle : Circle
        Rows to learn.
    start : callable
        Makes a new model.
    excess : callable
        Excess risk of the scores of the m points.
    checkpoints : sequence of int
        Numbers of rows after which it is measured, rising.
    n_repetitions : int
        Independent streams, whose excess risks are averaged: the theorems are about the mean.
    seed : int
        Of the streams.
    """
    check_integer("n_repetitions", n_repetitions, low=1)
    measured = np.empty((n_repetitions, len(checkpoints)))
    for repetition in range(n_repetitions):
        sample = circle.draw(checkpoints[-1], np.random.default_rng([seed, repetition]))
        model, done = start(), 0
        for place, rows in enumerate(checkpoints):
            model.partial_fit(sample.X[done:rows], sample.y[done:rows])
            measured[repetition, place] = excess(model.decision_function(circle.rows))
            done = rows
    means: Array = measured.mean(axis=0)
    return means


def slope(checkpoints: Sequence[int], excess: Array) -> float:
    """Slope of the straight line fitted to log excess over log rows.

    Examples
    --------
    >>> round(slope([1, 4, 16], np.array([1.0, 0.5, 0.25])), 12)
    -0.5
    """
    return float(np.polyfit(np.log(checkpoints), np.log(excess), 1)[0])
