"""Random numbers that belong to the rows of a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["row_uniforms"]

Array = NDArray[np.float64]


def row_uniforms(first: int, n: int) -> Array:
    """Uniform numbers in [0, 1) that belong to the rows ``first``, ``first + 1``, ... of a stream.

    They depend on the number of the row only, so that nothing has to be remembered and it does
    not matter how a stream is cut into calls.

    Parameters
    ----------
    first : int
        Number of the first row, from 0.
    n : int
        How many rows.

    Returns
    -------
    uniforms : ndarray of shape (n,)

    Examples
    --------
    >>> bool(row_uniforms(0, 5)[3] == row_uniforms(3, 1)[0])
    True
    """
    return np.random.Generator(np.random.PCG64(0).advance(first)).random(n)
