"""Skewed kernels of numbers above -c: products over the features, equal to 1 at x = x'."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._validation import parameters, positive
from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.laws import Law, SechLaw, TanLaw
from mercer.features.log_cosine import LogCosineMap
from mercer.kernels import _compiled_additive as _compiled
from mercer.kernels._compiled import RowFunction
from mercer.kernels._domain import HalfLineKernel
from mercer.kernels._pairwise import FloatArray

__all__ = ["SkewedChiSquared", "SkewedIntersection"]


class _Skewed(HalfLineKernel):
    """A stationary kernel of log(x + c)."""

    c: float
    _open_low = True

    _parameters = parameters(
        c=positive("It is added to the inputs before the logarithm; inputs must be above -c.")
    )

    @property
    def _low(self) -> float:
        return -float(self.c)

    def _diagonal(self, X: Any) -> FloatArray:
        self._inside(X)
        return np.ones(X.shape[0], dtype=X.dtype)

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x), which is 1 everywhere."""
        return 1.0

    def _map(self, n_inputs: int, law: Law, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return LogCosineMap(n_inputs, law, float(self.c), options, path, kernel=name)


class SkewedChiSquared(_Skewed):
    r"""Skewed chi-squared kernel, for numbers above -c.

    .. math:: k(x, x') = \prod_j \frac{2 \sqrt{x_j + c} \sqrt{x'_j + c}}{x_j + x'_j + 2 c}

    Parameters
    ----------
    c : float, default=1.0
        Shift :math:`c`, above 0, in units of the inputs: differences well below it hardly count
        near 0.

    Raises
    ------
    ValueError
        If ``c`` is not positive; on evaluation, if an input is not above -c.

    References
    ----------
    DSG, Table 1, where the 2 is printed outside the product. F. Li, C. Ionescu, C. Sminchisescu,
    Random Fourier approximations for skewed multiplicative histogram kernels, DAGM 2010.

    Examples
    --------
    >>> from mercer.kernels import SkewedChiSquared
    >>> SkewedChiSquared(c=1.0)([[0.0, 1.0]], [[0.0, 1.0], [3.0, 1.0]])
    array([[1. , 0.8]])
    """

    def __init__(self, c: float = 1.0) -> None:
        self.c = c
        self._check()

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.skewed_chi_squared, (float(self.c),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return self._map(n_inputs, SechLaw(), options, path)


class SkewedIntersection(_Skewed):
    r"""Skewed intersection kernel, for numbers above -c.

    .. math:: k(x, x') = \prod_j \min \left( \sqrt{\frac{x_j + c}{x'_j + c}},
              \sqrt{\frac{x'_j + c}{x_j + c}} \right)

    Parameters
    ----------
    c : float, default=1.0
        Shift :math:`c`, above 0, in units of the inputs: differences well below it hardly count
        near 0.

    Raises
    ------
    ValueError
        If ``c`` is not positive; on evaluation, if an input is not above -c.

    References
    ----------
    DSG, Table 1, where its random features are printed with a probability of mass 2^-d. F. Li,
    C. Ionescu, C. Sminchisescu, DAGM 2010.

    Examples
    --------
    >>> from mercer.kernels import SkewedIntersection
    >>> SkewedIntersection(c=1.0)([[0.0, 1.0]], [[0.0, 1.0], [3.0, 1.0]])
    array([[1. , 0.5]])
    """

    def __init__(self, c: float = 1.0) -> None:
        self.c = c
        self._check()

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.skewed_intersection, (float(self.c),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return self._map(n_inputs, TanLaw(0.5), options, path)
