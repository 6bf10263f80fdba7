"""Minimisers of regularised objectives on few rows, by dense algebra, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from mercer.jit import jit
from mercer.losses import Loss

Array = NDArray[np.float64]


def smooth_minimiser(gram: Array, targets: Array, loss: Loss, regularization: float) -> Array:
    """Values at the rows of the minimiser of mean l(f(x), y) + regularization/2 |f|².

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Kernel matrix.
    targets : ndarray of shape (n, 1)
        Targets as the loss encodes them.
    loss : Loss
        A differentiable loss.
    regularization : float
        Ridge parameter.
    """
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # f = root @ w has |f|² = |w|²

    def objective(w: Array) -> tuple[float, Array]:
        losses, slopes = loss.value_and_derivative(targets, (root @ w)[:, np.newaxis])
        value = float(losses.mean()) + 0.5 * regularization * float(w @ w)
        return value, root.T @ slopes[:, 0] / len(w) + regularization * w

    options = {"maxiter": 100_000, "maxfun": 200_000, "gtol": 1e-12, "ftol": 1e-16, "maxcor": 50}
    found = minimize(objective, np.zeros(len(gram)), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(root @ found.x)


def box_minimiser(
    gram: Array,
    targets: Array,
    low: Array,
    high: Array,
    regularization: float,
    *,
    insensitive: float = 0.0,
) -> Array:
    """Do the same for piecewise linear losses: in the dual a box, by coordinate ascent.

    f = Σ a_i k(x_i, ·) / (regularization n) with low_i <= a_i <= high_i maximises
    Σ a_i y_i - insensitive |a_i| - regularization/2 |f|² n.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Kernel matrix.
    targets : ndarray of shape (n,)
        Numbers, or labels -1 and 1.
    low, high : ndarray of shape (n,)
        The box: [τ - 1, τ] for quantiles, [-1, 1] for absolute errors, between 0 and the label for
        the hinge loss.
    regularization : float
        Ridge parameter.
    insensitive : float, default=0.0
        Width of the epsilon-insensitive loss.
    """
    scale = regularization * len(gram)
    return np.asarray(_ascend(gram / scale, targets, low, high, insensitive, 20_000, 1e-13))


@jit()
def _ascend(Q, y, low, high, insensitive, most_sweeps, tolerance):  # type: ignore[no-untyped-def]
    n = len(y)
    a, f = np.zeros(n), np.zeros(n)
    for _ in range(most_sweeps):
        largest = 0.0
        for i in range(n):
            free = y[i] - f[i] + Q[i, i] * a[i]
            shrunk = np.sign(free) * max(abs(free) - insensitive, 0.0)
            new = min(max(shrunk / Q[i, i], low[i]), high[i])
            change = new - a[i]
            if change != 0.0:
                a[i] = new
                for j in range(n):
                    f[j] += Q[i, j] * change
                largest = max(largest, abs(change) * Q[i, i])
        if largest < tolerance:
            break
    return f
