r"""A risk that is not convex, with all constants of COLK, Theorem 3, and its gradient.

The loss of a row is Welsch's, which has a ceiling; the risk is the mean plus a smoothed upper
semideviation. Rows are drawn with replacement from a finite population, so that the risk and its
gradient are known exactly at every function.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from mercer.exceptions import NothingLearnedWarning
from mercer.losses import RegressionLoss
from mercer.recipes import colk
from mercer.risks import UpperSemideviation
from mercer.theory import COLKBounds
from mercer_reproduction._colk_data import Sample, TrainingSet
from mercer_reproduction._colk_methods import KERNEL
from mercer_reproduction._colk_runs import ModelRun

Array = NDArray[np.float64]


class Welsch(RegressionLoss):
    r"""Welsch's loss, :math:`\frac12 (1 - e^{-r^2})` with :math:`r = f - y`.

    Examples
    --------
    >>> Welsch().value([0.0, 0.0], [0.1, 3.0]).round(3)
    array([0.005, 0.5  ])
    """

    curvature = 1.0
    lipschitz = math.exp(-0.5) / math.sqrt(2.0)
    #: The largest value.
    ceiling = 0.5

    @staticmethod
    def row(
        target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
    ) -> None:
        value[0] = 0.0
        for c in range(n_scores):
            residual = scores[c] - target[c]
            near = np.exp(-residual * residual)
            slopes[c] = residual * near
            value[0] += 0.5 * (1.0 - near)


_LOSS = Welsch()
_WEIGHT, _SMOOTHING = 0.5, 0.25
_RISK = UpperSemideviation(_WEIGHT, smoothing=_SMOOTHING, units=1.0)
_PARSIMONY = 0.2
_N_MOMENTS = 64


@dataclass(frozen=True)
class Population:
    """Rows that steps are drawn from, each with the same probability.

    Attributes
    ----------
    sample : Sample
        Inputs and targets.
    """

    sample: Sample

    def draw(self, n_steps: int, rng: np.random.Generator) -> TrainingSet:
        """Draw independent pairs of rows, with replacement."""
        first, second = rng.integers(len(self.sample.y), size=(2, n_steps))
        return TrainingSet(self.sample.take(first), self.sample.take(second))

    def risk_and_gradient(self, values: Array) -> tuple[float, float]:
        """Risk, and squared norm of its gradient, from the values of a function at all rows.

        Examples
        --------
        >>> rows = Population(Sample(np.array([[0.0], [1.0]]), np.array([0.0, 0.5])))
        >>> rows.risk_and_gradient(rows.sample.y)[1]
        0.0
        """
        losses, slopes = _LOSS.value_and_derivative(self.sample.y, values)
        outer = _RISK.outer(losses, np.array([losses.mean()]), np.empty(0), 1.0)
        own = (outer.by_loss + outer.by_inner.mean()) * slopes / losses.size
        gram = np.asarray(KERNEL(self.sample.X), np.float64)
        return float(outer.value.mean()), float(own @ gram @ own)


class Descent(NamedTuple):
    """What runs with one step size came to.

    Attributes
    ----------
    step, tolerance : float
        Step size, which is the rate of the tracker, too, and tolerance of KOMP.
    n_steps : int
        Steps.
    moments, gradients : ndarray of shape (n_moments,)
        Numbers of steps, each a factor above the last, and the squared norm of the gradient after
        them, mean over the runs.
    bound : float
        Theorem 3, eq. (79): of the mean over all steps, and so of the least.
    model_order : float
        Points at the end, mean over the runs.
    """

    step: float
    tolerance: float
    n_steps: int
    moments: Array
    gradients: Array
    bound: float
    model_order: float

    @property
    def mean(self) -> float:
        """Mean over the steps, by the trapezoidal rule."""
        return float(trapezoid(self.gradients, self.moments) / self.n_steps)

    @property
    def least(self) -> float:
        """Least of the moments."""
        return float(self.gradients.min())


def descend(population: Population, accuracy: float, n_runs: int, seed: int = 0) -> Descent:
    r"""Run COLK as Theorem 3 wants it for an accuracy :math:`\delta`.

    Steps and rates are :math:`\delta`, the tolerance is :math:`.2 \delta^{3/2}`, and there are
    :math:`4 / \delta^2` steps. There is no ridge.

    Parameters
    ----------
    population : Population
        Where rows are drawn from.
    accuracy : float
        :math:`\delta`.
    n_runs : int
        Runs, each on rows of its own.
    seed : int, default=0
        Of the rows.
    """
    tolerance = _PARSIMONY * accuracy**1.5
    n_steps = round(4.0 / accuracy**2)
    moments = np.unique(np.geomspace(1, n_steps, _N_MOMENTS).round())
    gradients, orders = np.empty((n_runs, moments.size)), np.empty(n_runs)
    for number in range(n_runs):
        training = population.draw(n_steps, np.random.default_rng((seed, number)))
        model = colk(
            _LOSS,
            risk=_RISK,
            alpha=accuracy,
            beta=accuracy,
            K=tolerance / accuracy**2,
            regularization=0.0,
            kernel=KERNEL,
        )
        run = ModelRun(model, training)
        for i, moment in enumerate(moments):
            with warnings.catch_warnings():  # the first steps may be undone
                warnings.simplefilter("ignore", NothingLearnedWarning)
                run.advance(int(moment) - run.n_steps)
            values = run.predict(population.sample.X)
            gradients[number, i] = population.risk_and_gradient(values)[1]
        orders[number] = run.model_order
    return Descent(
        accuracy,
        tolerance,
        n_steps,
        moments,
        gradients.mean(axis=0),
        _bound(population, accuracy, tolerance, n_steps),
        float(orders.mean()),
    )


def _bound(population: Population, accuracy: float, tolerance: float, n_steps: int) -> float:
    """Eq. (79), with constants that hold for every function and all rows; k(x, x) = 1.

    With a = 1 + w s' the weight of a row's own slope and 1 - a that of its partner's, where s' is
    between 0 and 1 and changes by 1 / (4 tau) at most: a step has the norm (1 + 2 w) G, and an
    error of g changes the mean step by w / (4 tau) times 2 G, for both rows.
    """
    slope = _LOSS.lipschitz
    outer_curvature = _WEIGHT / (4.0 * _SMOOTHING)
    spread = _LOSS.ceiling**2 / 4.0  # of numbers between 0 and the ceiling
    start, _ = population.risk_and_gradient(np.zeros(len(population.sample.y)))
    problem = COLKBounds(
        outer_curvature=outer_curvature,
        inner_lipschitz=slope,
        inner_slope=2.0 * slope,
        gradient_variance=((1.0 + 2.0 * _WEIGHT) * slope + tolerance / accuracy) ** 2,
        inner_variance=spread,
        kernel_bound=KERNEL,
        # Only the theorem about convex risks has these.
        strong_convexity=0.5,
        distance=1.0,
        solution_norm=1.0,
    )
    return problem.squared_gradient(
        n_steps,
        step_size=accuracy,
        tracker_rate=accuracy,
        tolerance=tolerance,
        initial_gap=start + spread,
        risk_curvature=(1.0 + _WEIGHT) * _LOSS.curvature + outer_curvature * slope**2,
    )
