"""Arrays that travel together through the compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit

GREEDY, SMALLEST = 0, 1


class Dictionary(NamedTuple):
    """Arrays of a kernel expansion, whose first ``size`` rows are in use; no ``Expansion``."""

    points: NDArray[np.floating]  # (capacity, n_features)
    self_kernel: NDArray[np.float64]  # (capacity,), k(d, d)
    weights: NDArray[np.float64]  # (capacity, n_columns): scaled coefficients, then their averages
    inverse: NDArray[np.floating]  # (capacity, capacity), lower triangle; what it holds is the
    # inverse Gram matrix P, or its triangular root T with P = T'T, as the step function says
    origin: NDArray[np.int64]  # (capacity,), 1 + the slot of the point when its owner last numbered
    # the slots; for a point that was not there -1 - its number among the newcomers, or 0 if it was
    # made by merging
    pinned: NDArray[np.bool_]  # (capacity,), whether the point must stay


class Newcomers(NamedTuple):
    """Points about to join a dictionary of ``size`` points."""

    points: NDArray[np.floating]  # (n_new, n_features)
    rows: NDArray[np.floating]  # (n_new, size), kernel with the dictionary
    gram: NDArray[np.floating]  # (n_new, n_new), kernel among themselves
    coefficients: NDArray[np.float64]  # (n_new, n_columns)
    pinned: NDArray[np.bool_]  # (n_new,), whether the point must stay, unless it is absorbed


class Limits(NamedTuple):
    """How far a compression may go."""

    squared_tolerance: float  # squared RKHS distance that it may cover
    max_size: int  # largest number of points; further points are removed at any cost
    threshold: float  # newcomers whose relative pivot is at most this are absorbed
    rule: int  # GREEDY: remove the cheapest point (KOMP); SMALLEST: of smallest norm (BSGD)
    n_criterion: int  # leading columns whose change counts as error


# Slices are assigned by explicit loops: for each slice assignment numba would compile the text of
# an error about shapes, which takes longer than all else in these functions.


@jit()
def copy_row(
    target: NDArray[np.floating], i: int, source: NDArray[np.floating], j: int, n: int
) -> None:
    """``target[i, :n] = source[j, :n]``."""
    for k in range(n):
        target[i, k] = source[j, k]


@jit()
def put(dictionary: Dictionary, slot: int, new: Newcomers, i: int) -> None:
    """Let newcomer ``i`` have a slot."""
    copy_row(dictionary.points, slot, new.points, i, new.points.shape[1])
    dictionary.self_kernel[slot] = new.gram[i, i]
    copy_row(dictionary.weights, slot, new.coefficients, i, new.coefficients.shape[1])
    dictionary.origin[slot] = -1 - i
    dictionary.pinned[slot] = new.pinned[i]


@jit()
def move(dictionary: Dictionary, slot: int, last: int) -> None:
    """Let the point of slot ``last`` have another one; the inverse is left to the caller."""
    copy_row(dictionary.points, slot, dictionary.points, last, dictionary.points.shape[1])
    dictionary.self_kernel[slot] = dictionary.self_kernel[last]
    copy_row(dictionary.weights, slot, dictionary.weights, last, dictionary.weights.shape[1])
    dictionary.origin[slot] = dictionary.origin[last]
    dictionary.pinned[slot] = dictionary.pinned[last]
