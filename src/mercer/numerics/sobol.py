"""Points of Sobol's sequence by their number, as uniform numbers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_DIMENSIONS", "sobol_uniforms"]

#: Dimensions that there are direction numbers for.
MOST_DIMENSIONS = 21201

_BITS = 32


@lru_cache(maxsize=8)
def _directions(n_dimensions: int) -> NDArray[np.uint32]:
    """Direction numbers, shape (n_dimensions, 32): column j belongs to the bit j of the number."""
    from scipy.stats import qmc  # takes longer to import than all of the kernels

    # SciPy's sequence can only be walked through; its table gives any point at once.
    table = qmc.Sobol(n_dimensions, scramble=False, bits=_BITS)._sv
    directions: NDArray[np.uint32] = np.asarray(table).astype(np.uint32)
    return directions


def sobol_uniforms(first: int, n_points: int, shift: NDArray[np.uint32]) -> NDArray[np.float64]:
    r"""Consecutive points of a sequence that fills the unit cube evenly, shifted digit by digit.

    Each point alone is uniform if the shift is; together they are far more even than independent
    ones. Points are in the order of their numbers (not in Gray code's, as SciPy has them), so each
    aligned run of :math:`2^j` points fills the cube.

    Parameters
    ----------
    first : int
        Number of the first point; numbers count modulo 2**32.
    n_points : int
        How many.
    shift : ndarray of shape (n_dimensions,), uint32
        Random words, the exclusive or of which moves all points.

    Returns
    -------
    uniforms : ndarray of shape (n_dimensions, n_points), float64
        In (0, 1), multiples of 2^-25: (top 24 bits + 1/2) / 2^24.

    References
    ----------
    S. Joe, F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008.

    Examples
    --------
    >>> sobol_uniforms(0, 4, np.zeros(2, np.uint32)).round(3)
    array([[0.  , 0.5 , 0.25, 0.75],
           [0.  , 0.5 , 0.75, 0.25]])
    """
    directions = _directions(shift.size)
    numbers = (np.arange(n_points, dtype=np.uint64) + np.uint64(first % 2**_BITS)).astype(np.uint32)
    points = np.repeat(shift[:, None], n_points, axis=1)
    for j in range(min(_BITS, (first % 2**_BITS + n_points).bit_length())):
        in_use = (numbers >> np.uint32(j)) & np.uint32(1)
        points ^= directions[:, j, None] * in_use
    points >>= np.uint32(8)
    uniforms = points.astype(np.float64)
    uniforms += 0.5
    uniforms *= 2.0**-24
    return uniforms
