"""Losses one row at a time in plain NumPy and SciPy: slow, obvious, independent of mercer."""

import numpy as np
from scipy import special


def squared(y, f):
    return 0.5 * np.sum((f - y) ** 2)


def absolute_error(y, f):
    return np.sum(np.abs(f - y))


def huber(delta):
    return lambda y, f: np.sum(special.huber(delta, f - y))


def epsilon_insensitive(epsilon):
    return lambda y, f: np.sum(np.maximum(np.abs(f - y) - epsilon, 0))


def squared_epsilon_insensitive(epsilon):
    return lambda y, f: 0.5 * np.sum(np.maximum(np.abs(f - y) - epsilon, 0) ** 2)


def quantile(levels):
    levels = np.atleast_1d(levels)

    def value(y, f):
        scores = f.reshape(len(y), len(levels))
        return sum(
            max(level * (y[t] - scores[t, k]), (level - 1) * (y[t] - scores[t, k]))
            for t in range(len(y))
            for k, level in enumerate(levels)
        )

    return value


def poisson(y, f):
    tangent = np.exp(30) + np.exp(30) * (f - 30)
    return np.sum(np.where(f > 30, tangent, np.exp(np.minimum(f, 30))) - y * f)


def logistic(y, f):
    return np.sum(np.logaddexp(0, -y * f))


def hinge(y, f):
    return np.sum(np.maximum(1 - y * f, 0))


def squared_hinge(y, f):
    return np.sum(np.maximum(1 - y * f, 0) ** 2)


def q_norm_hinge(q):
    return lambda y, f: np.sum(np.maximum(1 - y * f, 0) ** q)


def least_squares_margin(y, f):
    return np.sum((1 - y * f) ** 2)


def softmax(y, f):
    return special.logsumexp(f) - f[int(y[0])]


def multiclass_hinge(y, f):
    label = int(y[0])
    return max([0.0] + [1 + f[c] - f[label] for c in range(len(f)) if c != label])


def central_difference(value, y, f, step=1e-6):
    slopes = np.empty_like(f)
    for c in range(len(f)):
        move = np.zeros_like(f)
        move[c] = step
        slopes[c] = (value(y, f + move) - value(y, f - move)) / (2 * step)
    return slopes
