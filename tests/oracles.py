"""Slow, obvious implementations that the fast code is compared with."""

from __future__ import annotations

import mpmath
import numpy as np


def gaussian_gram(X, Z, length_scale):
    """k(x, z) = exp(-|x - z|² / (2 length_scale²)) by explicit differences."""
    squared = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-squared / (2.0 * length_scale**2))


def project(gram, coefficients, keep):
    """Best approximation of f by the points ``keep``: its coefficients and its squared error."""
    norm2 = np.einsum("ic,ij,jc->", coefficients, gram, coefficients)
    if len(keep) == 0:
        return np.zeros((0, coefficients.shape[1])), norm2
    right = gram[keep] @ coefficients
    solution = np.linalg.lstsq(gram[np.ix_(keep, keep)], right, rcond=1e-13)[0]
    return solution, max(norm2 - float(np.sum(right * solution)), 0.0)


def brute_force_komp(gram, coefficients, tolerance, max_size=10**9):
    """POLK, Algorithm 1, by a least-squares solve for every candidate of every removal."""
    keep = list(range(len(gram)))
    while keep:
        errors = [project(gram, coefficients, [i for i in keep if i != j])[1] for j in keep]
        best = int(np.argmin(errors))
        if len(keep) <= max_size and errors[best] > tolerance**2:
            break
        keep.pop(best)
    solution, squared_error = project(gram, coefficients, keep)
    return keep, solution, squared_error


class NaivePOLK:
    """POLK, Algorithm 2, step by step: everything recomputed from scratch, nothing cached."""

    def __init__(self, length_scale, step_size, regularization, tolerance):
        self.length_scale, self.step_size = length_scale, step_size
        self.regularization, self.tolerance = regularization, tolerance
        self.points = self.coefficients = None

    def evaluate(self, X, n_outputs):
        if self.points is None or len(self.points) == 0:
            return np.zeros((len(X), n_outputs))
        return gaussian_gram(X, self.points, self.length_scale) @ self.coefficients

    def step(self, X, derivative, n_outputs):
        """``derivative(F)`` gives the slopes of the rows at the scores F."""
        slopes = derivative(self.evaluate(X, n_outputs))
        active = np.flatnonzero(slopes.any(axis=1))
        fresh = -self.step_size / len(X) * slopes[active]
        if self.points is None:
            points, coefficients = X[active], fresh
        else:
            shrunk = (1.0 - self.step_size * self.regularization) * self.coefficients
            points = np.vstack([self.points, X[active]])
            coefficients = np.vstack([shrunk, fresh])
        gram = gaussian_gram(points, points, self.length_scale)
        keep, self.coefficients, _ = brute_force_komp(gram, coefficients, self.tolerance)
        self.points = points[keep]


def exact_distance(points_f, weights_f, points_g, weights_g, length_scale, digits=60):
    """RKHS distance between two Gaussian expansions, in ``digits`` decimal digits."""
    with mpmath.workdps(digits):
        terms = {}  # of f - g, with one weight for each point
        for sign, points, weights in ((1, points_f, weights_f), (-1, points_g, weights_g)):
            for p, w in zip(points, weights, strict=True):
                point = tuple(mpmath.mpf(float(v)) for v in p)
                before = terms.get(point, [mpmath.mpf(0)] * len(w))
                terms[point] = [
                    a + sign * mpmath.mpf(float(v)) for a, v in zip(before, w, strict=True)
                ]
        points, weights = list(terms), list(terms.values())
        width = 1 / (2 * mpmath.mpf(float(length_scale)) ** 2)
        total = mpmath.mpf(0)
        for i, p in enumerate(points):
            for j in range(i + 1):
                squared = sum((a - b) ** 2 for a, b in zip(p, points[j], strict=True))
                product = sum(a * b for a, b in zip(weights[i], weights[j], strict=True))
                total += (1 if i == j else 2) * mpmath.exp(-width * squared) * product
        return float(mpmath.sqrt(abs(total)))


def functional_sgd(X, derivative, step_sizes, regularization, length_scale, n_outputs):
    """Functional SGD one row at a time, every row kept (NORMA without truncation)."""
    n = len(X)
    ridges = np.broadcast_to(regularization, n)
    gram = gaussian_gram(X, X, length_scale)
    coefficients = np.zeros((n, n_outputs))
    for t in range(n):
        score = gram[t, :t] @ coefficients[:t]
        coefficients[:t] *= 1.0 - step_sizes[t] * ridges[t]
        coefficients[t] = -step_sizes[t] * derivative(t, score)
    return coefficients
