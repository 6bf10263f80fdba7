"""Weights of parts from their predictions of rows that they had not learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from mercer.losses import Loss, Squared, loss_and_slopes
from mercer.sums import targets_of_codes

__all__ = ["stack"]

Array = NDArray[np.float64]

_DUST = 0.01  # weights below this share of all make a part not worth its time
# Rows' worth of equal weights that add up to 1, for numbers and for classes: a handful of rows
# would make them grow at will.
_PRIOR, _CLASS_PRIOR = 1.0, 0.1
_HEAVY = 1e4  # of the equation that weights add up to 1, beside all others


def stack(predictions: list[Array], codes: Array, weights: Array, loss: Loss) -> Array:
    r"""Non-negative weights :math:`v_p` that minimise the loss of :math:`\sum_p v_p f_p`.

    For a squared loss of numbers they add up to 1 at most; for classes they also turn
    values between the codes -1 and +1 into scores in units of the loss. Minimised is the mean loss
    plus :math:`\frac{s^2}{n} \sum_p (v_p - 1/P)^2` (a tenth of it for classes), with the mean
    square s² of the codes and the number of rows n (as many as count, if their weights differ),
    without which the first rows would be believed too much.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, n_outputs)
        Values of each part at the rows.
    codes : ndarray of shape (n, n_outputs)
        Numbers, or class codes -1 and +1.
    weights : ndarray of shape (n,)
        Weights of the rows.
    loss : Loss
        The loss.

    Returns
    -------
    v : ndarray of shape (n_parts,)

    References
    ----------
    L. Breiman, Stacked regressions, Machine Learning 24, 1996.
    """
    n_parts, share = len(predictions), weights / weights.sum()
    start = np.full(n_parts, 1.0 / n_parts)
    worth = _PRIOR if isinstance(loss, Squared) else _CLASS_PRIOR
    prior = worth * float(share @ np.sum(codes**2, axis=1)) * float(share @ share)
    if isinstance(loss, Squared):
        root = np.sqrt(share)[:, np.newaxis]
        columns = np.column_stack([(root * values).ravel() for values in predictions])
        stacked = np.vstack([columns, np.sqrt(prior) * np.eye(n_parts)])
        right = np.append((root * codes).ravel(), np.sqrt(prior) * start)
        v: Array = nnls(stacked, right)[0]
        if v.sum() > 1.0:
            # Not more than all: few rows would be exaggerated.
            heavy = _HEAVY * np.sqrt(float(np.sum(stacked**2)))
            v = nnls(np.vstack([stacked, np.full(n_parts, heavy)]), np.append(right, heavy))[0]
        return _without_dust(v)
    targets = targets_of_codes(loss, codes)
    parts = np.stack(predictions)

    def value(v: Array) -> tuple[float, Array]:
        losses, slopes = loss_and_slopes(loss, np.tensordot(v, parts, 1), targets)
        slope = np.einsum("pij,ij->p", parts, slopes * share[:, np.newaxis])
        distance = v - start
        total = float(share @ losses) + prior * float(distance @ distance)
        return total, slope + 2.0 * prior * distance

    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 50.0)] * n_parts)
    return _without_dust(np.asarray(found.x, dtype=np.float64))


def _without_dust(v: Array) -> Array:
    """Weights with those that change nothing set to 0; equal ones if all are 0."""
    if not v.any():
        return np.full(v.size, 1.0 / v.size)
    return np.asarray(np.where(v < _DUST * v.sum(), 0.0, v), dtype=np.float64)
