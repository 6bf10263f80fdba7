r"""Frequencies of the Jensen-Shannon kernel, by an inverse distribution function in a table."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

__all__ = ["density", "quantile"]

# The tail beyond the last knot is 2e-12; the rarest uniform number asks for 6e-8.
_STEP, _LAST = 0.01, 8.0


def density(w: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Density of the frequencies, :math:`1 / (\cosh(\pi w) \ln 2 \, (1 + 4 w^2))`."""
    return 1 / (np.cosh(math.pi * w) * math.log(2) * (1 + 4 * w * w))


def quantile(u: NDArray[Any]) -> NDArray[np.float64]:
    """Frequency below which a share ``u`` lies, to 1e-7 for 3e-8 <= u <= 1 - 3e-8.

    Parameters
    ----------
    u : ndarray, float64
        Numbers in (0, 1).

    Returns
    -------
    frequencies : ndarray
        Of the shape of ``u``.
    """
    tail = 2 * np.minimum(u, 1 - u)
    sizes: NDArray[np.float64] = _table()(-np.log(tail))
    return np.copysign(sizes, u - 0.5)


@functools.cache
def _table() -> CubicHermiteSpline:
    """Size of a frequency as a function of -log of the share of greater sizes.

    In this variable it is smooth: linear at both ends, since the density is positive at 0 and its
    tail exponential. Its derivative is known, tail / (2 density).
    """
    knots = np.arange(0, _LAST + _STEP / 2, _STEP)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    points = knots[:-1, None] + _STEP / 2 * (1 + nodes)
    cells = _STEP * (density(points) @ weights)  # twice the mass, for both signs
    beyond = density(knots[-1:]) / math.pi * 2  # the tail decays like exp(-pi w) and a bit faster
    tails = np.cumsum(np.append(cells, beyond)[::-1])[::-1]
    tails /= tails[0]
    return CubicHermiteSpline(-np.log(tails), knots, tails / (2 * density(knots)))
