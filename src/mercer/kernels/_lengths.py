"""Length scales inside kernels: setting them to 1, multiplying them, taking them from cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer._component import own_copy
from mercer.kernels._base import Kernel
from mercer.kernels._pairwise import FloatArray
from mercer.kernels.stationary import Gaussian, _Stationary

__all__ = ["median_distance", "median_distances", "stretching", "with_unit_lengths"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROWS_OF_A_CELL = 256  # the median of their distances is good to a few per cent


def with_unit_lengths(kernel: Kernel) -> Kernel:
    """Copy of a kernel in which length scales that are no numbers yet are 1."""
    units = {
        name: 1.0
        for name, value in kernel.get_params().items()
        if name.split("__")[-1] == "length_scale" and isinstance(value, str)
    }
    return own_copy(kernel).set_params(**units)


def stretching(kernel: Kernel, factors: Array) -> Callable[[int], Kernel]:
    """Return the function from i to the kernel with all its length scales times ``factors[i]``.

    Each of its calls may change the kernel that the one before returned.
    """
    if (factors == 1).all():
        return lambda i: kernel
    copy = own_copy(kernel)
    parts = [part for part in (copy, *copy.get_params().values()) if isinstance(part, Kernel)]
    lengths = [(part, part.get_params(deep=False).get("length_scale")) for part in parts]

    def stretched(i: int) -> Kernel:
        for part, length in lengths:
            if length is not None:
                part.set_params(length_scale=length * float(factors[i]))
        return copy

    return stretched


def median_distance(kernel: Kernel, rows: FloatArray, seed: int = 0) -> float:
    """Median distance of at most 1000 rows, or the one to expect if they are all the same.

    Distances are the kernel's own if it is stationary, otherwise Euclidean.
    """
    stationary = isinstance(kernel, _Stationary)
    metric = own_copy(kernel).set_params(length_scale="median") if stationary else Gaussian()
    return float(metric.resolve(rows, seed).get_params()["length_scale"])


def median_distances(
    kernel: Kernel, rows: FloatArray, groups: dict[int, Indices], usual: Array
) -> Array:
    """Median distance in each group of rows, ``usual`` where it has no two distinct rows.

    ``groups`` has the numbers of the rows of a group by its number; at most 256 of them are used.
    """
    medians = usual.copy()
    for group, members in groups.items():
        few = rows[members[:: -(-len(members) // _ROWS_OF_A_CELL)]]
        if (few != few[0]).any():
            medians[group] = median_distance(kernel, few)
    return medians
