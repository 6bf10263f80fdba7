"""Slow and obvious parts of the default learner: dense algebra, one cell and one row at a time."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from mercer.kernels import Partitioned
from mercer.maps import Affine
from mercer.sums import CellsPart
from oracles_second_order import ridge_on_dictionary

__all__ = [
    "best_log_loss_weights",
    "best_squared_weights",
    "distinct_first",
    "leave_one_out",
    "newton_step",
    "race_by_hand",
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


def best_squared_weights(predictions, codes, weights, prior, total=None):
    """Non-negative weights of least squares: the best of all sets of parts that may be positive.

    With ``total`` they add up to it (an equation with a Lagrange multiplier).
    """
    n_parts = len(predictions)
    share = weights / weights.sum()
    strength = prior * np.sum(share[:, None] * codes**2) * np.sum(share**2)

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
    strength = prior * np.sum(share**2)

    def objective(root):
        v = root**2
        f = sum(a * p for a, p in zip(v, predictions, strict=True))
        loss = np.sum(share[:, None] * np.log1p(np.exp(-codes * f)))
        return loss + strength * np.sum((v - start) ** 2)

    options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000}
    found = minimize(objective, np.sqrt(start), method="Nelder-Mead", options=options)
    return found.x**2


def race_by_hand(rows, settings, ridges, seed=0):
    """Errors of all that a race of many rows and few inputs may try: {(form, metric): {length: e}}.

    Every length is tried with every ridge, where the race goes downhill; gradients of the pilot are
    sums over its points, one row and one point at a time. Cells are those of the library, whose
    oracle is elsewhere.
    """
    n = min(len(rows), settings.pilot_rows)
    n_fitted = n - int(settings.judging_share * n)
    fitted, judged = rows[:n_fitted], rows[n_fitted:n]
    D = rows.X[: settings.pilot_points]
    share = rows.weights / rows.weights.sum()
    mean = share @ rows.targets
    spread = np.sqrt(share @ (rows.targets - mean) ** 2)
    constant = max(1.0, float(np.max(np.abs(mean) / spread)))

    first = rows.X[:n]
    maps = {"standardized": Affine(first.mean(axis=0), 1.0 / first.std(axis=0))}
    ranges = first.max(axis=0) - first.min(axis=0)
    if np.quantile(ranges, 0.25) >= 0.5 * ranges.max():
        alike = 1.0 / np.sqrt(first.var(axis=0).mean())
        maps["common scale"] = Affine(first.mean(axis=0), np.full(first.shape[1], alike))

    def gaussian(A, B, length):
        squares = np.array([[np.sum((a - b) ** 2) for b in B] for a in A])
        return np.exp(-squares / (2.0 * length**2)) + (constant if constant > 2.0 else 0.1)

    def weighted_error(predictions, some):
        squares = np.sum((predictions - some.targets) ** 2, axis=1)
        return float(np.average(squares, weights=some.weights))

    def pilots(map):
        images, points, others = map(fitted.X), map(D), map(judged.X)
        apart = [np.linalg.norm(a - b) for a, b in combinations(images, 2)]
        found = {}
        for multiple in settings.lengths:
            length = multiple * np.median(apart)
            K, K_DD = gaussian(images, points, length), gaussian(points, points, length)
            K_new, tried = gaussian(others, points, length), []
            for ridge in ridges:
                c = ridge_on_dictionary(K, K_DD, fitted.targets, fitted.weights, ridge)
                tried.append((weighted_error(K_new @ c, judged), c))
            found[length] = min(tried, key=lambda pair: pair[0])
        return found

    def gradient_products(map, length, c):
        images, points = map(fitted.X[: settings.gradient_rows]), map(D)
        G = np.zeros((images.shape[1],) * 2)
        for x in images:
            slopes = np.zeros((images.shape[1], c.shape[1]))
            for point, coefficient in zip(points, c, strict=True):
                k = np.exp(-np.sum((x - point) ** 2) / (2.0 * length**2))
                slopes += np.outer((point - x) / length**2 * k, coefficient)
            G += slopes @ slopes.T / len(images)
        return G

    found = {name: pilots(map) for name, map in maps.items()}
    best = min(maps, key=lambda name: min(error for error, _ in found[name].values()))
    length = min(found[best], key=lambda one: found[best][one][0])
    G = gradient_products(maps[best], length, found[best][length][1])
    scales = np.sqrt(np.diag(G) / np.diag(G).max())
    values, axes = np.linalg.eigh(G)
    weights = np.sqrt(np.maximum(values, 0.0) / values.max())
    metrics = {
        "relevance": np.diag(scales)[:, scales >= 0.01],
        "full metric": (axes * weights)[:, weights >= 0.01][:, ::-1],
    }
    zero = np.zeros(len(G))
    finalists = {best: maps[best]}
    for name, matrix in metrics.items():
        finalists[f"{best}, {name}"] = maps[best].then(Affine(zero, matrix))
        found[f"{best}, {name}"] = pilots(finalists[f"{best}, {name}"])
    table = {
        ("global", name): {one: error for one, (error, _) in errors.items()}
        for name, errors in found.items()
    }
    n = min(len(rows), settings.cells_rows)
    seen, judged = rows[: int(0.8 * n)], rows[int(0.8 * n) : n]
    n_cells = max(2, len(seen) // settings.cell_rows)
    for name, map in finalists.items():
        table["cells", name] = {}
        for multiple in settings.multiples:
            partition = Partitioned.fitted(
                map(seen.X), n_cells, multiple=multiple, constant=constant, seed=seed
            )
            part = CellsPart(partition, map, settings.cell_size, rows.targets.shape[1])
            part.learn(seen)
            table["cells", name][multiple] = weighted_error(part.solve(judged), judged)
    return table
