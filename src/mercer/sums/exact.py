"""Kernel ridge regression with a point at every row, from the Gram matrix instead of sums."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.lapack import cholesky, invert, solve

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Least weight of a row, relative to the largest: it limits rounding and changes nothing else.
_LEAST_SHARE = 1e-12
_CHUNK = 128  # columns of a triangular inverse at a time


class ExactFit(NamedTuple):
    """Solution of :class:`ExactRidge` for one ridge."""

    lower: Floats  # (n, n), Cholesky factor of S K S + n ridge I; anything above the diagonal
    scaled: Floats  # (n, n_outputs), solution of that matrix for S y / unit
    coefficients: Array  # (n, n_outputs)
    unit: float  # size of the targets

    def values(self, K: Floats) -> Array:
        """Return values at rows, (n_rows, n_outputs), from their kernel values with all points."""
        return scaled_product(K, self.coefficients, self.unit)


class ExactRidge:
    r"""Weighted kernel ridge regression with a point at every row.

    .. math:: \min_f \frac{1}{W} \sum_i w_i |f(x_i) - y_i|^2 + \lambda \|f\|^2, \qquad
        f = \sum_i c_i k(x_i, \cdot), \quad c = S (S K S + n \lambda I)^{-1} S y

    with S the diagonal matrix of the square roots of the weights over their mean. The same Cholesky
    factor gives leave-out residuals in closed form (Allen's PRESS): with
    :math:`C = S K S + n \lambda I`, the residuals of a block b that is left out are
    :math:`S_b^{-1} (C^{-1})_{bb}^{-1} (C^{-1} S y)_b`. If b are the last rows,
    :math:`(C^{-1})_{bb}` needs only the last corner of the factor.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, overwritten. All is computed in its type, float32 or float64.
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
        # The matrix is symmetric; the transpose only gives it Fortran order.
        whole = np.array(self._matrix.T, order="F")
        whole.ravel("K")[:: n + 1] += ridge * n
        if not cholesky(whole):
            return None
        scaled = solve(whole, self._right)
        return ExactFit(whole, scaled, self._unit * (self._root * scaled), self._unit)

    def left_out(
        self, fit: ExactFit, n: int, block: int = 1, ends: NDArray[np.int64] | None = None
    ) -> Array:
        """Return leave-one-out (or leave-one-block-out) residuals of the last rows.

        Parameters
        ----------
        fit : ExactFit
            Solution from :meth:`fit`.
        n : int
            Number of rows, counted from the end.
        block : int, default=1
            Number of rows left out together; blocks start at multiples of it.
        ends : ndarray of int, default=None
            Used instead of ``block``: where blocks start among the last rows, and ``n``.

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
            for i in range(0, n, _CHUNK):  # the inverse is in the lower triangle only
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
        """Return residuals of the last rows, predicted by a fit that leaves all of these out.

        Parameters
        ----------
        fit : ExactFit
            Solution from :meth:`fit`.
        n : int
            Number of rows, counted from the end.

        Returns
        -------
        residuals : ndarray of shape (n, n_outputs)
        """
        start = len(fit.lower) - n
        corner = np.tril(fit.lower[start:, start:]).astype(np.float64)
        scaled = corner @ (corner.T @ fit.scaled[start:])
        return np.asarray(scaled / self._root[start:] * self._unit)


def scaled_product(K: Floats, coefficients: Array, unit: float | None = None) -> Array:
    """Return K @ coefficients in the precision of K, without overflow for large coefficients.

    Examples
    --------
    >>> scaled_product(np.ones((1, 2), np.float32), np.array([[1e50], [2e50]]))
    array([[3.e+50]])
    """
    size = (float(np.abs(coefficients).max(initial=0.0)) if unit is None else unit) or 1.0
    return np.asarray(K @ (coefficients / size).astype(K.dtype), dtype=np.float64) * size
