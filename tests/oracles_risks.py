"""Risks one number at a time in plain Python, and of whole samples: slow, obvious."""

import math

import numpy as np


def softplus(u, smoothing):
    if smoothing == 0:
        return max(u, 0.0)
    return smoothing * math.log1p(math.exp(u / smoothing)) if u / smoothing < 700 else u


def mean():
    return lambda loss, g, v, unit: loss


def variance(weight):
    return lambda loss, g, v, unit: loss + weight * (loss - g[0]) ** 2 / unit


def semivariance(weight, smoothing):
    def phi(loss, g, v, unit):
        return loss + weight * softplus(loss - g[0], smoothing * unit) ** 2 / unit

    return phi


def central_moments(order, weight, smoothing=None):
    def phi(loss, g, v, unit):
        z = loss - g[0]
        if smoothing is not None:
            z = softplus(z, smoothing * unit)
        return loss + weight * sum(z**p / unit ** (p - 1) for p in range(2, order + 1))

    return phi


def upper_semideviation(weight, smoothing):
    return lambda loss, g, v, unit: loss + weight * softplus(loss - g[0], smoothing * unit)


def cvar(level, smoothing):
    return lambda loss, g, v, unit: v[0] + softplus(loss - v[0], smoothing * unit) / (1 - level)


def entropic(temperature):
    def phi(loss, g, v, unit):
        rho = temperature * unit
        return v[0] + rho * (math.exp((loss - v[0]) / rho) - 1)

    return phi


def mixture(*terms):
    """Of (weight, phi, length of g, length of v, own unit or None)."""

    def phi(loss, g, v, unit):
        total, g, v = 0.0, list(g), list(v)
        for weight, part, m, k, own in terms:
            total += weight * part(loss, g[:m], v[:k], own or unit)
            g, v = g[m:], v[k:]
        return total

    return phi


def mean_of_the_worst(losses, share):
    """Mean of the largest losses; the share must be a whole number of them."""
    n_worst = round(share * len(losses))
    return sum(sorted(losses)[-n_worst:]) / n_worst


def exponential_mean(losses, rho):
    top = max(losses)
    total = sum(math.exp((loss - top) / rho) for loss in losses)
    return top + rho * math.log(total / len(losses))


def central_difference(function, x, step):
    """Derivative of an array-valued function in each coordinate of x, as a last axis."""
    slopes = []
    for index in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[index] = step
        slopes.append((function(x + move) - function(x - move)) / (2 * step))
    return np.stack(slopes, axis=-1)
