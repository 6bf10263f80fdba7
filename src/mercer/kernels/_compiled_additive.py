"""Row functions of the kernels on half-lines, and of power series (see ``_compiled``).

Sums and products over the features are of double precision. Numbers outside the domain, and NaN,
give NaN: the array code refuses them with an error that names the column, a compiled loop notices
the NaN.
"""

from __future__ import annotations

import math

from numba import njit

__all__ = [
    "chi_squared",
    "exponential_dot",
    "exponential_semigroup",
    "hellinger",
    "intersection",
    "jensen_shannon",
    "power_series",
    "reciprocal_semigroup",
    "skewed_chi_squared",
    "skewed_intersection",
]

_term = njit(inline="always", error_model="numpy")


# Every formula takes the lesser and the greater of the two numbers, which keeps ratios in [0, 1]:
# nothing overflows, and k(x, x') is k(x', x) to the last bit.


@_term
def _chi_squared_of(low, high):  # type: ignore[no-untyped-def]
    return 2.0 * low / (1.0 + low / high) if low > 0.0 else 0.0 * low


@_term
def _jensen_shannon_of(low, high):  # type: ignore[no-untyped-def]
    """(high/2) log2(1 + r) + (low/2) log2((1 + r)/r), r = low/high."""
    # In double precision: the logarithm of a ratio that underflows would lose the whole term.
    ratio = 1.0 * low / high if low > 0.0 else 0.0 * low
    if ratio > 0.0:
        together = math.log1p(ratio)
        return (high * together + low * (together - math.log(ratio))) * (0.5 / math.log(2.0))
    return ratio


def hellinger(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of sqrt(x_j x'_j)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += math.sqrt(points[i * d + j]) * math.sqrt(x[j])
        out[i] = s


def chi_squared(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of 2 x_j x'_j / (x_j + x'_j), with 0 for 0/0."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += _chi_squared_of(low, high) if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


def intersection(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of min(x_j, x'_j)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += low if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


def jensen_shannon(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of the Jensen-Shannon terms, with 0 for 0 log 0."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += _jensen_shannon_of(low, high) if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


def skewed_chi_squared(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of 2 sqrt(r) / (1 + r), r the lesser over the greater of x + c, x' + c."""
    c = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j] + c, x[j] + c
            low, high = (a, b) if a < b else (b, a)
            ratio = low / high if low > 0.0 and high > 0.0 else math.nan
            product *= 2.0 * math.sqrt(ratio) / (1.0 + ratio)
        out[i] = product


def skewed_intersection(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of sqrt(r), r the lesser over the greater of x + c, x' + c."""
    c = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j] + c, x[j] + c
            low, high = (a, b) if a < b else (b, a)
            product *= math.sqrt(low / high) if low > 0.0 and high > 0.0 else math.nan
        out[i] = product


def exponential_semigroup(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] sum of sqrt(x_j + x'_j))."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            s += math.sqrt(a + b) if a >= 0.0 and b >= 0.0 else math.nan
        out[i] = math.exp(-parameters[0] * s)


def reciprocal_semigroup(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of rate / (x_j + x'_j + rate), rate = parameters[0]."""
    rate = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            product *= rate / (a + b + rate) if a >= 0.0 and b >= 0.0 else math.nan
        out[i] = product


def exponential_dot(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(parameters[0] <x, x'>)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
        out[i] = math.exp(parameters[0] * s)


def power_series(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill sum_k a_k (parameters[0] <x, x'>)^k; parameters[1] = degree, then a_0, a_1, ..."""
    degree = int(parameters[1])
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
        s *= parameters[0]
        value = parameters[2 + degree]
        for k in range(degree - 1, -1, -1):
            value = value * s + parameters[2 + k]
        out[i] = value
