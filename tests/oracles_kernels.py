"""Kernels of two single points, written from their formulas, and the slow double loop over them."""

import functools
import math

import mpmath
import numpy as np


def gaussian(x, z, length_scale):
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * length_scale**2))


def laplacian(x, z, length_scale):
    return math.exp(-sum(abs(a - b) for a, b in zip(x, z, strict=True)) / length_scale)


def matern(x, z, nu, length_scale):
    return matern_at(math.dist(x, z), nu, length_scale)


@functools.cache
def matern_at(distance, nu, length_scale):
    """Bessel form in forty digits, whatever the order."""
    if distance == 0:
        return 1.0
    with mpmath.workdps(40):
        nu = mpmath.mpf(nu)
        a = mpmath.sqrt(2 * nu) * distance / length_scale
        return float(2 ** (1 - nu) / mpmath.gamma(nu) * a**nu * mpmath.besselk(nu, a))


def cauchy(x, z, length_scale):
    return math.prod(1 / (1 + ((a - b) / length_scale) ** 2) for a, b in zip(x, z, strict=True))


def rational_quadratic(x, z, alpha, length_scale):
    return (1 + math.dist(x, z) ** 2 / (2 * alpha * length_scale**2)) ** -alpha


def partitioned(x, z, formula, anchors, lengths, constant):
    """The formula with the length of the nearest anchor, if both points have the same one."""
    cell, other = (min(range(len(anchors)), key=lambda c: math.dist(p, anchors[c])) for p in (x, z))
    return formula(x, z, lengths[cell]) + constant if cell == other else 0.0


def convolutional(x, z, formula, image_shape, patch, stride, grid):
    """The formula of two patches, averaged over pairs of positions in the same part of an image."""
    height, width, channels = image_shape
    images = [np.reshape(image, (height, width, channels)) for image in (x, z)]
    positions = [
        range(0, side - size + 1, stride) for side, size in zip(image_shape, patch, strict=False)
    ]
    parts = [np.array_split(each, n) for each, n in zip(positions, grid, strict=True)]
    total = 0.0
    for band in parts[0]:
        for lane in parts[1]:
            first, second = (
                [image[i : i + patch[0], j : j + patch[1]].ravel() for i in band for j in lane]
                for image in images
            )
            pairs = [formula(u, v) for u in first for v in second]
            total += math.fsum(pairs) / len(pairs) / (grid[0] * grid[1])
    return total


def linear(x, z):
    return math.fsum(a * b for a, b in zip(x, z, strict=True))


def polynomial(x, z, degree, offset, scale):
    return (scale * linear(x, z) + offset) ** degree


def arc_cosine(x, z, order):
    """Order-n arc-cosine kernel; the angle from the three sides of the triangle of directions."""
    x_norm, z_norm = math.hypot(*x), math.hypot(*z)
    if x_norm == 0 or z_norm == 0:
        return 0.0
    u, v = [a / x_norm for a in x], [b / z_norm for b in z]
    t = 2 * math.atan2(math.dist(u, v), math.hypot(*(a + b for a, b in zip(u, v, strict=True))))
    if order > 2:
        j = arc_cosine_angle(t, order)
    else:
        j = [
            math.pi - t,
            math.sin(t) + (math.pi - t) * math.cos(t),
            3 * math.sin(t) * math.cos(t) + (math.pi - t) * (1 + 2 * math.cos(t) ** 2),
        ][order]
    return x_norm**order * z_norm**order * j / math.pi


@functools.cache
def arc_cosine_angle(theta, order):
    """Cho and Saul's J_n: derivatives in the cosine, taken numerically in sixty digits and more.

    With u = cos(theta), (1 / sin theta) d/d theta is -d/du.
    """
    if theta == 0:
        return math.pi * math.prod(range(1, 2 * order, 2))
    with mpmath.workdps(60 + 40 * (order > 20)):
        u = mpmath.cos(mpmath.mpf(theta))
        derivative = mpmath.diff(lambda u: mpmath.acos(-u) / mpmath.sqrt(1 - u * u), u, order)
        return float(mpmath.sin(mpmath.mpf(theta)) ** (2 * order + 1) * derivative)


def power_series(x, z, coefficients, scale):
    t = scale * linear(x, z)
    return math.fsum(a * t**n for n, a in enumerate(coefficients))


def exponential_series(x, z, scale):
    return math.exp(scale * linear(x, z))


def hellinger(x, z):
    return math.fsum(math.sqrt(a * b) for a, b in zip(x, z, strict=True))


def chi_squared(x, z):
    return math.fsum(2 * a * b / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)


def intersection(x, z):
    return math.fsum(min(a, b) for a, b in zip(x, z, strict=True))


def jensen_shannon(x, z):
    """As printed in DSG, Table 1: half of a number times the logarithm of a ratio, or 0 for 0."""

    def half(a, b):
        return 0.0 if a == 0 else a / 2 * math.log2((a + b) / a)

    return math.fsum(half(a, b) + half(b, a) for a, b in zip(x, z, strict=True))


def skewed_chi_squared(x, z, c):
    return math.prod(
        2 * math.sqrt(a + c) * math.sqrt(b + c) / (a + b + 2 * c) for a, b in zip(x, z, strict=True)
    )


def skewed_intersection(x, z, c):
    ratios = [(a + c) / (b + c) for a, b in zip(x, z, strict=True)]
    return math.prod(min(math.sqrt(r), math.sqrt(1 / r)) for r in ratios)


def exponential_semigroup(x, z, beta):
    return math.exp(-beta * math.fsum(math.sqrt(a + b) for a, b in zip(x, z, strict=True)))


def reciprocal_semigroup(x, z, rate):
    return math.prod(rate / (a + b + rate) for a, b in zip(x, z, strict=True))


def gram(function, X, Z):
    """All pairs, one at a time, in double precision."""
    X, Z = np.asarray(X, dtype=float).tolist(), np.asarray(Z, dtype=float).tolist()
    return np.array([[function(x, z) for z in Z] for x in X])
