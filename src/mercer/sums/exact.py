"""Kernel ridge regression whose points are all rows: from the kernel matrix, without sums."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.lapack import cholesky, invert, solve

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Rows count at least so much of the one that counts most: no difference, but for rounding.
_LEAST_SHARE = 1e-12
_CHUNK = 128  # columns of an inverse at a time, of which what is below the diagonal counts


class ExactFit(NamedTuple):
    """Solution for one ridge, see :class:`ExactRidge`."""

    lower: Floats  # (n, n), Cholesky factor of S K S + n ridge I; anything above the diagonal
    scaled: Floats  # (n, n_outputs), solution of that matrix for S y / unit
    coefficients: Array  # (n, n_outputs)
    unit: float  # size of the targets

    def values(self, K: Floats) -> Array:
        """Values at rows, (n_rows, n_outputs), from their kernel values with all points."""
        return scaled_product(K, self.coefficients, self.unit)


class ExactRidge:
    r"""Weighted kernel ridge regression with a point at every row.

    .. math:: \min_f \frac{1}{W} \sum_i w_i |f(x_i) - y_i|^2 + \lambda \|f\|^2, \qquad
        f = \sum_i c_i k(x_i, \cdot), \quad c = S (S K S + n \lambda I)^{-1} S y

    with the square roots S of the weights over their mean. Values of fits without some rows are
    known from the same factor (Allen's PRESS): with :math:`C = S K S + n \lambda I` the residuals
    of a block b that is left out are :math:`S_b^{-1} (C^{-1})_{bb}^{-1} (C^{-1} S y)_b`, and of the
    last rows :math:`(C^{-1})_{bb}` needs the last corner of the Cholesky factor only.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, float32 or float64, in which all is computed; taken over.
    targets : ndarray of shape (n, n_outputs)
        Targets y.
    weights : ndarray of shape (n,)
        Weights w, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> exact = ExactRidge(Linear()(X), y, np.ones(3))
    >>> fit = exact.fit(1e-9)
    >>> (Linear()([[5.0]], X) @ fit.coefficients).round(3)
    array([[10.]])
    """

    def __init__(self, K: Floats, targets: Array, weights: Array) -> None:
        share = np.maximum(weights, _LEAST_SHARE * weights.max()) / weights.mean()
        self._root = np.sqrt(share)[:, np.newaxis]
        if (share != 1.0).any():
            root = self._root.astype(K.dtype)
            K *= root
            K *= root.T
        self._matrix = K
        self._unit = float(np.abs(targets).max(initial=0.0)) or 1.0
        self._right = (self._root * (targets / self._unit)).astype(K.dtype)

    def fit(self, ridge: float) -> ExactFit | None:
        """Solve for one ridge; None if the matrix is not positive definite in this precision."""
        n = len(self._matrix)
        # Symmetric, so that the transpose only says that it is in Fortran order.
        whole = np.array(self._matrix.T, order="F")
        whole.ravel("K")[:: n + 1] += ridge * n
        if not cholesky(whole):
            return None
        scaled = solve(whole, self._right)
        return ExactFit(whole, scaled, self._unit * (self._root * scaled), self._unit)

    def left_out(
        self, fit: ExactFit, n: int, block: int = 1, ends: NDArray[np.int64] | None = None
    ) -> Array:
        """Residuals of the last rows, each (or each block) predicted by the fit to all others.

        Parameters
        ----------
        fit : ExactFit
            From :meth:`fit`.
        n : int
            How many of the last rows.
        block : int, default=1
            Rows that are left out together, the first of them at a multiple of it.
        ends : ndarray of int, default=None
            Where rows that are left out together begin among the last ones, and ``n``, instead.

        Returns
        -------
        residuals : ndarray of shape (n, n_outputs)
        """
        start = len(fit.lower) - n
        inverse = np.array(fit.lower[start:, start:], order="F")
        invert(inverse)
        scaled = fit.scaled[start:].astype(np.float64)
        root = self._root[start:]
        if block == 1 and ends is None:
            curvatures = np.empty(n)
            for i in range(0, n, _CHUNK):  # only what is below the diagonal is the inverse
                some = np.tril(inverse[i:, i : i + _CHUNK])
                curvatures[i : i + _CHUNK] = np.einsum("ij,ij->j", some, some)
            return np.asarray(scaled / curvatures[:, np.newaxis] / root * self._unit)
        residuals = np.empty_like(scaled)
        blocks = [0, *range(block - start % block, n, block), n] if ends is None else ends.tolist()
        for first, last in pairwise(blocks):
            some = np.tril(inverse[first:, first:last]).astype(np.float64)
            residuals[first:last] = np.linalg.solve(some.T @ some, scaled[first:last])
        return np.asarray(residuals / root * self._unit)

    def held_out(self, fit: ExactFit, n: int) -> Array:
        """Residuals of the last rows, all of which are predicted by the fit to the others.

        Parameters
        ----------
        fit : ExactFit
            From :meth:`fit`.
        n : int
            How many of the last rows.

        Returns
        -------
        residuals : ndarray of shape (n, n_outputs)
        """
        start = len(fit.lower) - n
        corner = np.tril(fit.lower[start:, start:]).astype(np.float64)
        scaled = corner @ (corner.T @ fit.scaled[start:])
        return np.asarray(scaled / self._root[start:] * self._unit)


def scaled_product(K: Floats, coefficients: Array, unit: float | None = None) -> Array:
    """Return K @ coefficients in the precision of K, whatever the size of the coefficients.

    Examples
    --------
    >>> scaled_product(np.ones((1, 2), np.float32), np.array([[1e50], [2e50]]))
    array([[3.e+50]])
    """
    size = (float(np.abs(coefficients).max(initial=0.0)) if unit is None else unit) or 1.0
    return np.asarray(K @ (coefficients / size).astype(K.dtype), dtype=np.float64) * size
