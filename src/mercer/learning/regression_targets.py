"""What second-order learning asks of objectives: a curvature, a regression to begin with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.learning.learner import Array
from mercer.losses import LeastSquaresMargin, Loss, Poisson, RegressionLoss, Squared
from mercer.objectives import Compositional, Novelty, Objective, Pairwise, Pointwise
from mercer.sums import Rows

# Scores that are log-odds, in units of those of a regression on labels -1 and +1, whose margins are
# of order 1.
_LOG_ODDS = 4.0
# What counts as no count, so that it has a logarithm.
_OF_NONE = 0.5
# Targets that are so many median absolute deviations from the median are outlying.
_OUTLYING = 6.0


def is_quadratic(objective: Objective) -> bool:
    """Whether the objective is a squared error, whose minimum is the solution of equations."""
    return type(objective) is Pointwise and type(objective.loss) in (Squared, LeastSquaresMargin)


def _loss_of_rows(objective: Objective) -> Loss | None:
    return objective.loss if isinstance(objective, Pointwise | Compositional) else None


def regression_targets(objective: Objective, targets: Array, n_outputs: int) -> Array | None:
    """Targets of the regression that learning begins with, (n, n_outputs); None for none.

    Parameters
    ----------
    objective : Objective
        What is learned.
    targets : ndarray of shape (n, target_width)
        As its loss encodes them.
    n_outputs : int
        Of the function.
    """
    loss = _loss_of_rows(objective)
    if loss is None:
        return None
    n_scores = n_outputs // objective.copies
    if loss.multiclass:
        # These losses see differences of scores only, so that the mean must be right at once.
        codes = np.where(targets == np.arange(n_scores), 2.0, 0.0) - 2.0 / n_scores
    elif loss.task == "classification":
        codes = targets
    elif isinstance(loss, Poisson):  # scores are logarithms of the mean
        codes = np.log(targets + _OF_NONE)
    elif type(loss).predict is RegressionLoss.predict or n_scores != targets.shape[1]:
        # Several quantile levels: those of the first target come first.
        codes = np.repeat(targets, n_scores // targets.shape[1], axis=1)
    else:  # scores are in other units than targets
        return None
    # Copies of the outputs are directions, 0 at first.
    return np.hstack([codes, np.zeros((len(codes), n_outputs - n_scores))])


def counts_of(logarithms: Array) -> Array:
    """Return counts whose logarithms were learned: see :func:`regression_targets`."""
    return np.asarray(np.exp(logarithms) - _OF_NONE)


def begins_with_regression(objective: Objective, n_outputs: int) -> bool:
    """Whether the objective has targets that a regression can be on."""
    loss: Any = getattr(objective, "loss", None)
    if loss is None:
        return False
    width = 1 if loss.multiclass else loss.target_width(n_outputs // objective.copies)
    return regression_targets(objective, np.ones((1, width)), n_outputs) is not None


def regression_scale(objective: Objective) -> float:
    """Scores in units of those of the regression."""
    loss = _loss_of_rows(objective)
    return _LOG_ODDS if loss is not None and loss.has_probabilities else 1.0


def newton_curvature(objective: Objective, fallback: float, residual: float | None) -> float:
    """Bound of the objective's curvature, or what takes its place.

    Where slopes jump, that of the objective smoothed over a width: 1 for margins, for regressions
    the mean absolute residual of the regression that learning begins with, for novelty the unit
    of the function. So, too, where slopes of a regression turn much faster than over that width.

    Parameters
    ----------
    objective : Objective
        What is learned.
    fallback : float
        For objectives with neither a curvature nor bounded slopes.
    residual : float or None
        Mean absolute residual, where there is one.
    """
    loss = _loss_of_rows(objective)
    bounded = loss is not None and loss.task == "regression" and objective.lipschitz is not None
    if objective.curvature is not None and not (bounded and residual):
        return float(objective.curvature)
    if objective.lipschitz is None:
        return fallback
    if isinstance(objective, Novelty):
        return 1.0 / objective.unit
    width = 1.0
    if isinstance(objective, Pairwise):
        width = 1.0 / float(objective.label_scale * np.abs(objective.pattern).sum())
    if bounded and residual:
        width = residual
    smoothed = float(objective.lipschitz) / width
    return smoothed if objective.curvature is None else min(smoothed, float(objective.curvature))


def race_rows(objective: Objective, rows: Rows, n_outputs: int) -> Rows | None:
    """Rows with the targets of a regression, each in a unit of its own.

    Where slopes are bounded, none are far out.

    None if the objective has no such targets.

    Parameters
    ----------
    objective : Objective
        What is learned.
    rows : Rows
        As the objective takes them.
    n_outputs : int
        Of the function.
    """
    targets = regression_targets(objective, rows.targets, n_outputs)
    if targets is None:
        return None
    clipped = targets if objective.lipschitz is None else winsorised(targets, rows.weights)
    middle = np.average(clipped, axis=0, weights=rows.weights)
    unit = np.sqrt(np.average((clipped - middle) ** 2, axis=0, weights=rows.weights))
    used = unit > 0.0 if (unit > 0.0).any() else np.full(unit.size, True)
    return replace(rows, targets=clipped[:, used] / np.where(unit > 0.0, unit, 1.0)[used])


def weighted_medians(values: Array, weights: Array) -> Array:
    """Weighted median of each column; of two that are in the middle the lower one.

    Parameters
    ----------
    values : ndarray of shape (n, n_columns)
        Numbers.
    weights : ndarray of shape (n,)
        Above 0.
    """
    order = np.argsort(values, axis=0)
    below = np.cumsum(weights[order], axis=0)
    at = np.argmax(below >= 0.5 * below[-1], axis=0)
    medians: Array = np.take_along_axis(values, order, axis=0)[at, np.arange(at.size)]
    return medians


def usual_size(residuals: Array, weights: Array) -> float:
    """Weighted mean of residuals, in which those far out count little.

    Parameters
    ----------
    residuals : ndarray of shape (n, n_outputs)
        Not negative.
    weights : ndarray of shape (n,)
        Above 0.

    Examples
    --------
    >>> usual_size(np.array([[1.0], [1.0], [1.0], [2.0], [1e9]]), np.ones(5))
    2.2
    """
    of_all = np.repeat(weights, residuals.shape[1])
    middle = float(weighted_medians(residuals.reshape(-1, 1), of_all)[0])
    reach = _OUTLYING * middle if middle > 0.0 else np.inf
    return float(np.average(np.minimum(residuals.ravel(), reach), weights=of_all))


def winsorised(values: Array, weights: Array, beyond: float = _OUTLYING) -> Array:
    """Winsorised columns: what lies far out is moved nearer, so that it does not pull a fit.

    Parameters
    ----------
    values : ndarray of shape (n, n_columns)
        Copied.
    weights : ndarray of shape (n,)
        Above 0.
    beyond : float, default=6.0
        Median absolute deviations from the median beyond which values are moved, to 6 of them.

    Examples
    --------
    >>> winsorised(np.array([[0.0], [1.0], [2.0], [3.0], [1e9]]), np.ones(5)).ravel()
    array([0., 1., 2., 3., 8.])
    """
    middle = weighted_medians(values, weights)
    distances = np.abs(values - middle)
    usual = weighted_medians(distances, weights)
    reach = outlying_from(usual)
    near = np.clip(values, middle - reach, middle + reach)
    return np.where(distances > beyond * usual, near, values)


def outlying_from(usual: Array) -> Array:
    """Distances from which values are outlying, of the median ones; infinite where these are 0."""
    return np.where(usual > 0.0, _OUTLYING * usual, np.inf)
