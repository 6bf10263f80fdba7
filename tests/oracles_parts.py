"""Slow and obvious parts of the default learner: dense algebra, one cell and one row at a time."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from mercer.kernels import Partitioned
from oracles_second_order import ridge_on_dictionary

__all__ = [
    "best_log_loss_weights",
    "best_squared_weights",
    "cells_by_hand",
    "distinct_first",
    "leave_one_out",
    "newton_step",
    "ridge_path",
]


def ridge_path(K, K_DD, Y, weights, ridges, K_new):
    """Values at new rows of the fit with each ridge, (n_ridges, n_new, n_outputs)."""
    return np.stack([K_new @ ridge_on_dictionary(K, K_DD, Y, weights, r) for r in ridges])


def leave_one_out(K, K_DD, Y, weights, ridge, block=1):
    """Value at each row of a fit in which that row alone, or its block, has no weight."""
    values = np.empty_like(Y)
    for i in range(len(Y)):
        others = np.arange(len(Y)) // block != i // block
        # The mean is over all rows in either case, so the ridge is stronger for a mean of others.
        stronger = ridge * weights.sum() / weights[others].sum()
        c = ridge_on_dictionary(K[others], K_DD, Y[others], weights[others], stronger)
        values[i] = K[i] @ c
    return values


def newton_step(K, A, K_DD, coefficients, slopes, ridge, rate, curvature):
    """One step of w <- w - rate (A + ridge P)^-1 (K's + curvature ridge P w)."""
    gradient = K.T @ slopes + curvature * ridge * K_DD @ coefficients
    return coefficients - rate * np.linalg.solve(A + ridge * K_DD, gradient)


def distinct_first(X, size):
    """Return the first rows, in order, of which no two are equal."""
    found = []
    for x in X:
        if len(found) < size and not any(np.array_equal(x, other) for other in found):
            found.append(x)
    return np.array(found)


def prior_noise(predictions, codes, weights):
    """Noise that a prior of weights is scaled by: of the best part, if rows can tell it."""
    share = weights / weights.sum()
    if 1.0 / np.sum(share**2) < 100:
        return np.sum(share[:, None] * codes**2)
    return min(np.sum(share[:, None] * (p - codes) ** 2) for p in predictions)


def best_squared_weights(predictions, codes, weights, prior, total=None):
    """Non-negative weights of least squares: the best of all sets of parts that may be positive.

    With ``total`` they add up to it (an equation with a Lagrange multiplier).
    """
    n_parts = len(predictions)
    share = weights / weights.sum()
    strength = prior * prior_noise(predictions, codes, weights) * np.sum(share**2)

    def objective(v):
        residuals = sum(a * p for a, p in zip(v, predictions, strict=True)) - codes
        return np.sum(share[:, None] * residuals**2) + strength * np.sum((v - 1 / n_parts) ** 2)

    best, best_value = np.zeros(n_parts), np.inf if total else objective(np.zeros(n_parts))
    columns = np.stack([(np.sqrt(share)[:, None] * p).ravel() for p in predictions], axis=1)
    right = (np.sqrt(share)[:, None] * codes).ravel()
    for size in range(1, n_parts + 1):
        for some in combinations(range(n_parts), size):
            part = columns[:, some]
            normal = part.T @ part + strength * np.eye(size)
            v = np.zeros(n_parts)
            wanted = part.T @ right + strength / n_parts
            if total is not None:
                ones = np.ones((size, 1))
                normal = np.block([[normal, ones], [ones.T, np.zeros((1, 1))]])
                wanted = np.append(wanted, total)
            v[list(some)] = np.linalg.solve(normal, wanted)[:size]
            if (v >= 0).all() and objective(v) < best_value:
                best, best_value = v, objective(v)
    return best


def best_log_loss_weights(predictions, codes, weights, prior):
    """Non-negative weights of the smallest mean log(1 + exp(-y f)), by a general optimiser."""
    share = weights / weights.sum()
    start = np.full(len(predictions), 1.0 / len(predictions))
    strength = prior * prior_noise(predictions, codes, weights) * np.sum(share**2)

    def objective(root):
        v = root**2
        f = sum(a * p for a, p in zip(v, predictions, strict=True))
        loss = np.sum(share[:, None] * np.log1p(np.exp(-codes * f)))
        return loss + strength * np.sum((v - start) ** 2)

    options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000}
    found = minimize(objective, np.sqrt(start), method="Nelder-Mead", options=options)
    return found.x**2


def cells_by_hand(rows, map, make, lengths, settings, ridges, seed):
    """Errors of cells of some lengths, each with the best ridge, in the cells that a race asks.

    The cells are the library's, whose oracle is elsewhere. Few rows are each left out by
    themselves; of many, the last fifth is.
    """
    n = min(len(rows), settings.cells_rows)
    alone = len(rows) <= settings.alone
    n_fitted = n if alone else int(0.8 * n)
    images = np.ascontiguousarray(map(rows.X[:n]), dtype=np.float32)
    n_cells = max(2, n_fitted // settings.cell_rows)
    cells = Partitioned.balanced(images[:n_fitted], n_cells, seed=seed).cells(images)
    numbers, n_cells = np.arange(n), cells.max() + 1
    able = [c for c in range(n_cells) if alone or (cells[n_fitted:] == c).any()]
    n_asked = settings.alone_cells if alone else settings.asked_cells
    asked = np.linspace(0, len(able) - 1, min(len(able), n_asked)).astype(int)
    best = []
    for length in lengths:
        kernel, found = make(length), np.zeros(len(ridges))
        weight = 0.0
        for c in (able[i] for i in asked):
            mine = rows[numbers[(cells == c) & (numbers < n_fitted)]]
            if alone:
                mine = mine[: settings.alone_rows]
                theirs = mine[len(mine) // 2 :]
            else:
                theirs = rows[numbers[(cells == c) & (numbers >= n_fitted)]]
            A, B = (np.asarray(map(some.X), dtype=np.float64) for some in (mine, theirs))
            share = mine.weights / mine.weights.sum()
            mean = share @ mine.targets
            for i, ridge in enumerate(ridges):
                C = kernel(A, A) + 0.1 + ridge * np.diag(1.0 / share)
                K, y = kernel(B, A) + 0.1, mine.targets - mean
                if alone:
                    kept = [np.delete(np.arange(len(A)), j) for j in range(len(A) // 2, len(A))]
                    values = [
                        K[j, some] @ np.linalg.solve(C[np.ix_(some, some)], y[some])
                        for j, some in enumerate(kept)
                    ]
                else:
                    values = K @ np.linalg.solve(C, y)
                values = np.clip(values + mean, mine.targets.min(axis=0), mine.targets.max(axis=0))
                found[i] += theirs.weights @ np.sum((values - theirs.targets) ** 2, axis=1)
            weight += theirs.weights.sum()
        best.append(found.min() / weight)
    return best
