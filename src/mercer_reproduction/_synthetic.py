"""The function of two inputs that DSG, Section 7, learns from noisy rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HALF_WIDTH = 5.0
_NOISE = 0.1


class Rows(NamedTuple):
    """Inputs (n, 2) and noisy targets (n,)."""

    X: Array
    y: Array

    def head(self, n: int) -> Rows:
        """Take the first rows only."""
        return Rows(self.X[:n], self.y[:n])


def truth(X: Array) -> Array:
    r"""Values of :math:`\cos(\pi\|x\|/2)\exp(-\pi\|x\|/10)`, shape (n,).

    Examples
    --------
    >>> truth(np.array([[0.0, 0.0], [0.0, 1.0]])).round(3) + 0.0
    array([1., 0.])
    """
    r = np.linalg.norm(X, axis=1)
    values: Array = np.cos(0.5 * np.pi * r) * np.exp(-0.1 * np.pi * r)
    return values


def synthetic(n_rows: int, seed: int) -> Rows:
    """Rows uniform on the square [-5, 5]², targets with normal noise of deviation 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n_rows, 2))
    return Rows(X, truth(X) + _NOISE * rng.standard_normal(n_rows))


def slice_inputs(n_points: int) -> Array:
    """Points on the line from (-5, 0) to (5, 0)."""
    return np.column_stack([np.linspace(-HALF_WIDTH, HALF_WIDTH, n_points), np.zeros(n_points)])
