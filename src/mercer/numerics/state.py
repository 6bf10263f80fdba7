"""Arrays that travel together through the compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["GREEDY", "SMALLEST", "Dictionary", "Limits", "Newcomers"]

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
    max_size: int  # points beyond this go whatever they cost
    threshold: float  # newcomers whose relative pivot is at most this are absorbed
    rule: int  # GREEDY: remove the cheapest point (KOMP); SMALLEST: of smallest norm (BSGD)
    n_criterion: int  # leading columns whose change counts as error
