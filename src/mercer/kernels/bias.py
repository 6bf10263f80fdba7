"""The kernel of constant functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._validation import parameters, positive
from mercer.kernels._pairwise import FloatArray
from mercer.kernels.kernel import Kernel

__all__ = ["Bias"]


class Bias(Kernel):
    """Constant kernel, k(x, x') = value: added to another one it gives functions an offset.

    Parameters
    ----------
    value : float, default=1.0
        Value, above 0: the larger, the less an offset costs in the norm.

    Raises
    ------
    ValueError
        If ``value`` is not positive.

    Examples
    --------
    >>> from mercer.kernels import Bias, Gaussian
    >>> (Gaussian(1.0) + Bias(2.0))([[0.0]], [[0.0], [100.0]])
    array([[3., 2.]])
    """

    _parameters = parameters(value=positive())

    def __init__(self, value: float = 1.0) -> None:
        self.value = value
        self._check()

    @property
    def bound(self) -> float:
        """Bound of k(x, x): the value."""
        return float(self.value)

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        values: FloatArray = np.add.outer(
            self._diagonal(X), self._diagonal(Z) - X.dtype.type(self.value)
        )
        return values

    def _add_to(self, K: FloatArray, X: Any, Z: Any) -> None:
        # Without a matrix of its own: this kernel is a term of most sums.
        K += self.diag(X)[:, np.newaxis]
        rest = self.diag(Z) - X.dtype.type(self.value)
        if rest.any():  # NaN, of rows that are no points
            K += rest

    def _diagonal(self, X: Any) -> FloatArray:
        # Rows that are not finite are no points: their values are NaN, as with other kernels.
        finite = np.isfinite(X).all(axis=1)
        values: FloatArray = np.where(finite, X.dtype.type(self.value), X.dtype.type(np.nan))
        return values
