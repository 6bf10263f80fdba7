"""Regression targets and curvatures of objectives, for second-order learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.learning.learner import Array
from mercer.losses import LeastSquaresMargin, Loss, Poisson, RegressionLoss, Squared
from mercer.objectives import Compositional, Novelty, Objective, Pairwise, Pointwise
from mercer.sums import Rows

# Size of log-odds relative to the scores of a regression on labels -1 and +1, whose margins are of
# order 1.
_LOG_ODDS = 4.0
# Added to counts, so that 0 has a logarithm.
_OF_NONE = 0.5
# Targets further than so many median absolute deviations from the median are outliers.
_OUTLYING = 6.0


def is_quadratic(objective: Objective) -> bool:
    """Whether the objective is a squared error, whose minimum is the solution of equations."""
    return type(objective) is Pointwise and type(objective.loss) in (Squared, LeastSquaresMargin)


def _loss_of_rows(objective: Objective) -> Loss | None:
    return objective.loss if isinstance(objective, Pointwise | Compositional) else None


def regression_targets(objective: Objective, targets: Array, n_outputs: int) -> Array | None:
    """Return targets, (n, n_outputs), for a least squares fit to begin with; None if impossible.

    Parameters
    ----------
    objective : Objective
        Objective to learn.
    targets : ndarray of shape (n, target_width)
        Targets as the loss of the objective encodes them.
    n_outputs : int
        Number of outputs of the function.
    """
    loss = _loss_of_rows(objective)
    if loss is None:
        return None
    n_scores = n_outputs // objective.copies
    if loss.multiclass:
        # These losses depend only on differences of scores, so steps never correct the mean score.
        codes = np.where(targets == np.arange(n_scores), 2.0, 0.0) - 2.0 / n_scores
    elif loss.task == "classification":
        codes = targets
    elif isinstance(loss, Poisson):  # scores are logarithms of the mean
        codes = np.log(targets + _OF_NONE)
    elif type(loss).predict is RegressionLoss.predict or n_scores != targets.shape[1]:
        # Several quantile levels: the scores of the first target come first.
        codes = np.repeat(targets, n_scores // targets.shape[1], axis=1)
    else:  # scores are in other units than targets
        return None
    # Copies of the outputs are step directions, which start at 0.
    return np.hstack([codes, np.zeros((len(codes), n_outputs - n_scores))])


def counts_of(logarithms: Array) -> Array:
    """Return counts from their logarithms as :func:`regression_targets` makes them."""
    return np.asarray(np.exp(logarithms) - _OF_NONE)


def begins_with_regression(objective: Objective, n_outputs: int) -> bool:
    """Whether the objective has targets for a least squares fit to begin with."""
    loss: Any = getattr(objective, "loss", None)
    if loss is None:
        return False
    width = 1 if loss.multiclass else loss.target_width(n_outputs // objective.copies)
    return regression_targets(objective, np.ones((1, width)), n_outputs) is not None


def regression_scale(objective: Objective) -> float:
    """Return the size of scores of the objective relative to the scores of the regression."""
    loss = _loss_of_rows(objective)
    return _LOG_ODDS if loss is not None and loss.has_probabilities else 1.0


def newton_curvature(objective: Objective, fallback: float, residual: float | None) -> float:
    """Return a bound of the curvature of the objective, smoothed if necessary.

    If slopes jump, it is the curvature of the objective smoothed over a width: 1 for margins, the
    mean absolute residual of the first least squares fit for regressions, and the unit of the
    function for novelty. The same holds if slopes of a regression change over much less than this
    width.

    Parameters
    ----------
    objective : Objective
        Objective to learn.
    fallback : float
        Value for objectives with neither a curvature nor bounded slopes.
    residual : float or None
        Mean absolute residual, if there is one.
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
    """Return rows with regression targets, each scaled to unit standard deviation.

    If slopes are bounded, outliers are winsorised. None if the objective has no such targets.

    Parameters
    ----------
    objective : Objective
        Objective to learn.
    rows : Rows
        Rows with targets of the objective.
    n_outputs : int
        Number of outputs of the function.
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
    """Return the weighted median of each column; of two middle values the lower one.

    Parameters
    ----------
    values : ndarray of shape (n, n_columns)
        Numbers.
    weights : ndarray of shape (n,)
        Weights above 0.
    """
    order = np.argsort(values, axis=0)
    below = np.cumsum(weights[order], axis=0)
    at = np.argmax(below >= 0.5 * below[-1], axis=0)
    medians: Array = np.take_along_axis(values, order, axis=0)[at, np.arange(at.size)]
    return medians


def usual_size(residuals: Array, weights: Array) -> float:
    """Return the weighted mean of residuals clipped at six times their median.

    Parameters
    ----------
    residuals : ndarray of shape (n, n_outputs)
        Absolute residuals.
    weights : ndarray of shape (n,)
        Weights above 0.

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
    """Return winsorised columns: outliers are moved nearer, so that they pull a fit less.

    Parameters
    ----------
    values : ndarray of shape (n, n_columns)
        Numbers; copied.
    weights : ndarray of shape (n,)
        Weights above 0.
    beyond : float, default=6.0
        Values further than so many median absolute deviations from the median are moved to 6.

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
    """Return the distance of outliers, 6 times the median distance; infinite if that is 0."""
    return np.where(usual > 0.0, _OUTLYING * usual, np.inf)
