r"""Budget maintenance of BSGD (Wang, Crammer, Vucetic 2012), truncation of NORMA, quantisation.

Budgets act on a dictionary that already holds the newcomers and bring it back to at most
``max_size`` points; quantisation decides which newcomers join. Projection is a removal of KOMP with
another rule for choosing the point, so it lives in :mod:`mercer.numerics.komp`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.state import Dictionary, Newcomers, move, put

Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949
_ROUNDS = 12


@jit()
def _norm2(row: Array, n_criterion: int) -> float:
    total = 0.0
    for c in range(n_criterion):
        total += row[c] ** 2
    return total


@jit()
def append(dictionary: Dictionary, size: int, new: Newcomers) -> int:
    """Append all newcomers; return the new size."""
    for i in range(new.points.shape[0]):
        put(dictionary, size + i, new, i)
    return int(size + new.points.shape[0])


@jit()
def _idle(dictionary: Dictionary, size: int) -> int:
    """Return the slot of a point without coefficients that may be removed, or -1."""
    for j in range(size):
        if not dictionary.pinned[j]:
            idle = True
            for c in range(dictionary.weights.shape[1]):
                idle = idle and dictionary.weights[j, c] == 0.0
            if idle:
                return j
    return -1


@jit()
def overwrite_oldest(
    dictionary: Dictionary, size: int, new: Newcomers, max_size: int, oldest: int, n_criterion: int
) -> tuple[int, int, float]:
    """Append newcomers to a ring of ``max_size`` slots: beyond it, each replaces the oldest point.

    Points without coefficients are replaced first.

    Returns
    -------
    size, oldest : int
        Points in use, and the slot of the oldest one.
    error : float
        Bound of the RKHS norm of what was dropped: the sum of the norms of the dropped terms.
    """
    error = 0.0
    for i in range(new.points.shape[0]):
        if size < max_size:
            put(dictionary, size, new, i)
            size += 1
            continue
        idle = _idle(dictionary, size)
        if idle >= 0:
            put(dictionary, idle, new, i)
            continue
        for _ in range(max_size):
            if not dictionary.pinned[oldest]:
                break
            oldest = (oldest + 1) % max_size
        dropped = _norm2(dictionary.weights[oldest], n_criterion)
        error += np.sqrt(dropped * dictionary.self_kernel[oldest])
        put(dictionary, oldest, new, i)
        oldest = (oldest + 1) % max_size
    return size, oldest, error


@jit()
def _smallest(dictionary: Dictionary, size: int, n_criterion: int) -> tuple[int, float]:
    best, least = -1, np.inf
    for j in range(size):
        value = _norm2(dictionary.weights[j], n_criterion) * dictionary.self_kernel[j]
        if value < least and not dictionary.pinned[j]:
            best, least = j, value
    return best, least


@jit()
def remove_smallest(
    dictionary: Dictionary, size: int, max_size: int, n_criterion: int
) -> tuple[int, float]:
    """Delete the terms of smallest RKHS norm until ``max_size`` remain (BSGD removal).

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the norms of the deleted terms, a bound of the RKHS error (exact for one).
    """
    error = 0.0
    while size > max_size:
        best, least = _smallest(dictionary, size, n_criterion)
        if best < 0:
            break  # all are pinned
        error += np.sqrt(least)
        size -= 1
        move(dictionary, best, size)
    return size, error


@jit()
def _merged_norm2(h: float, log_k: float, alpha: float, beta: float, rho: float) -> float:
    a = np.exp(log_k * (1.0 - h) ** 2)
    b = np.exp(log_k * h**2)
    norm2: float = alpha * a * a + beta * b * b + 2.0 * rho * a * b
    return norm2


@jit()
def _golden_section(
    low: float, high: float, log_k: float, alpha: float, beta: float, rho: float
) -> tuple[float, float]:
    """Largest squared norm of the merged term for h in [low, high], and that h."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = _merged_norm2(left, log_k, alpha, beta, rho)
    at_right = _merged_norm2(right, log_k, alpha, beta, rho)
    for _ in range(_ROUNDS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _merged_norm2(left, log_k, alpha, beta, rho)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _merged_norm2(right, log_k, alpha, beta, rho)
    if at_left > at_right:
        return at_left, left
    return at_right, right


@jit()
def _best_merge(log_k: float, alpha: float, beta: float, rho: float) -> tuple[float, float]:
    if log_k >= -2.0:
        found: tuple[float, float] = _golden_section(0.0, 1.0, log_k, alpha, beta, rho)
        return found
    # Distant points give two maxima, one near each point.
    first, h_first = _golden_section(0.0, 0.5, log_k, alpha, beta, rho)
    second, h_second = _golden_section(0.5, 1.0, log_k, alpha, beta, rho)
    if first > second:
        return first, h_first
    return second, h_second


@jit(fastmath={"reassoc", "contract"})
def _squared_distance(x: NDArray[np.floating], z: NDArray[np.floating]) -> float:
    total = x[0] * 0.0
    for j in range(x.size):
        total += (x[j] - z[j]) ** 2
    return np.float64(total)


@jit()
def merge_smallest(
    dictionary: Dictionary, size: int, max_size: int, inverse_width: float, n_criterion: int
) -> tuple[int, float]:
    r"""Merge the smallest term with its best partner until ``max_size`` remain (BSGD merging).

    Two Gaussian terms :math:`w_m k(d_m, \cdot) + w_n k(d_n, \cdot)` become one at
    :math:`z = h d_m + (1 - h) d_n`, which loses
    :math:`\alpha + \beta + 2 \rho k - \|w_z\|^2` of squared norm.

    Parameters
    ----------
    dictionary : Dictionary
        Changed in place; merged centres are not data points.
    size, max_size : int
        Points in use, and how many may remain.
    inverse_width : float
        :math:`1 / (2 \ell^2)` of the Gaussian kernel.
    n_criterion : int
        Leading columns whose change counts as error.

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the norms lost in each merge, a bound of the RKHS error (exact for one).
    """
    points, weights = dictionary.points, dictionary.weights
    error = 0.0
    while size > max_size:
        m, alpha = _smallest(dictionary, size, n_criterion)
        if m < 0:
            break  # all are pinned
        partner, least, place, log_best = -1, np.inf, 0.0, 0.0
        for n in range(size):
            if n == m or dictionary.pinned[n]:
                continue
            log_k = -inverse_width * _squared_distance(points[m], points[n])
            beta = _norm2(weights[n], n_criterion)
            rho = 0.0
            for c in range(n_criterion):
                rho += weights[m, c] * weights[n, c]
            joint = alpha + beta + 2.0 * rho * np.exp(log_k)
            norm2, h = _best_merge(log_k, alpha, beta, rho)
            if joint - norm2 < least:
                partner, least, place, log_best = n, joint - norm2, h, log_k
        if partner < 0:  # a budget of zero points, or a single one
            error += np.sqrt(alpha)
            size -= 1
            move(dictionary, m, size)
            continue
        error += np.sqrt(max(least, 0.0))
        to_m = np.exp(log_best * (1.0 - place) ** 2)
        to_n = np.exp(log_best * place**2)
        for c in range(weights.shape[1]):
            weights[partner, c] = to_m * weights[m, c] + to_n * weights[partner, c]
        for j in range(points.shape[1]):
            points[partner, j] = place * points[m, j] + (1.0 - place) * points[partner, j]
        dictionary.origin[partner] = 0
        size -= 1
        move(dictionary, m, size)
    return size, error


@jit()
def quantise(
    dictionary: Dictionary,
    size: int,
    new: Newcomers,
    squared_radius: float,
    max_size: int,
    n_criterion: int,
) -> tuple[int, float]:
    """Let newcomers join that are far from all points; others add to the nearest (QKLMS).

    Parameters
    ----------
    dictionary : Dictionary
        Changed in place.
    size : int
        Points in use.
    new : Newcomers
        Points to add, with their kernels.
    squared_radius : float
        Largest squared distance of a newcomer that does not join.
    max_size : int
        Points that there may be; from then on none joins.
    n_criterion : int
        Leading columns whose change counts as error.

    Returns
    -------
    size : int
        Model order after.
    error : float
        Sum of the RKHS norms of what moved, a bound of the error (exact for one newcomer).
    """
    error = 0.0
    before = size
    for i in range(new.points.shape[0]):
        nearest, least = -1, np.inf
        for j in range(size):
            distance = _squared_distance(dictionary.points[j], new.points[i])
            if distance < least:
                nearest, least = j, distance
        if nearest < 0 or (least > squared_radius and size < max_size):
            put(dictionary, size, new, i)
            size += 1
            continue
        if nearest < before:
            shared = new.rows[i, nearest]
        else:
            shared = new.gram[i, -1 - dictionary.origin[nearest]]
        squared = new.gram[i, i] + dictionary.self_kernel[nearest] - 2.0 * shared
        error += np.sqrt(_norm2(new.coefficients[i], n_criterion) * max(squared, 0.0))
        for c in range(dictionary.weights.shape[1]):
            dictionary.weights[nearest, c] += new.coefficients[i, c]
    return size, error
