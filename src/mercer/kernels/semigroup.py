"""Semigroup kernels of non-negative numbers: functions of the sum of two points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._validation import parameters, positive
from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.exponential import ExponentialMap
from mercer.kernels import _compiled_additive as _compiled
from mercer.kernels._compiled import RowFunction
from mercer.kernels._domain import HalfLineKernel
from mercer.kernels._pairwise import FloatArray

__all__ = ["ExponentialSemigroup", "ReciprocalSemigroup"]


class _Semigroup(HalfLineKernel):
    """A kernel of x + x' with the value 1 at 0 and smaller ones elsewhere."""

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x): 1, its value at x = 0."""
        return 1.0


class ExponentialSemigroup(_Semigroup):
    r"""Exponential semigroup kernel, :math:`\exp(-\beta \sum_j \sqrt{x_j + x'_j})`.

    For non-negative numbers. Its values fall with the size of the points, not with their distance.

    Parameters
    ----------
    beta : float, default=1.0
        Rate :math:`\beta`, above 0, per square root of the inputs' unit.

    Raises
    ------
    ValueError
        If ``beta`` is not positive; on evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1, whose density holds for beta = 1 only. J. Yang, V. Sindhwani, Q. Fan, H. Avron,
    M. W. Mahoney, Random Laplace feature maps for semigroup kernels on histograms, CVPR 2014.

    Examples
    --------
    >>> from mercer.kernels import ExponentialSemigroup
    >>> ExponentialSemigroup(beta=1.0)([[0.0, 0.0]], [[0.0, 0.0], [1.0, 4.0]])
    array([[1.        , 0.04978707]])
    """

    _parameters = parameters(beta=positive("At 0 the kernel is constant, below it is no kernel."))

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta
        self._check()

    def _diagonal(self, X: Any) -> FloatArray:
        exponents = np.sqrt(self._inside(X)).sum(axis=1)
        exponents *= -math.sqrt(2) * float(self.beta)
        values: FloatArray = np.exp(exponents, out=exponents)
        return values

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.exponential_semigroup, (float(self.beta),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return ExponentialMap(n_inputs, "levy", float(self.beta), options, path, kernel=name)


class ReciprocalSemigroup(_Semigroup):
    r"""Reciprocal semigroup kernel, :math:`\prod_j \lambda / (x_j + x'_j + \lambda)`.

    For non-negative numbers. Its values fall with the size of the points, not with their distance.

    Parameters
    ----------
    rate : float, default=1.0
        Rate :math:`\lambda`, above 0, in units of the inputs.

    Raises
    ------
    ValueError
        If ``rate`` is not positive; on evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1. J. Yang, V. Sindhwani, Q. Fan, H. Avron, M. W. Mahoney, CVPR 2014.

    Examples
    --------
    >>> from mercer.kernels import ReciprocalSemigroup
    >>> ReciprocalSemigroup(rate=1.0)([[0.0, 0.0]], [[0.0, 0.0], [1.0, 4.0]])
    array([[1. , 0.1]])
    """

    _parameters = parameters(rate=positive("It is what the sum of two inputs is compared with."))

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate
        self._check()

    def _diagonal(self, X: Any) -> FloatArray:
        rate = float(self.rate)
        values: FloatArray = np.prod(rate / (2 * self._inside(X) + rate), axis=1)
        return values

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.reciprocal_semigroup, (float(self.rate),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return ExponentialMap(n_inputs, "exponential", float(self.rate), options, path, kernel=name)
