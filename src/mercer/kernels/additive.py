"""Additive kernels of non-negative numbers, such as histogram counts: sums over the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features._jensen_shannon import quantile
from mercer.features.additive import AdditiveMap
from mercer.features.laws import CoordinateLaw, SechLaw, TanLaw
from mercer.features.signs import SignMap
from mercer.kernels import _compiled_additive as _compiled
from mercer.kernels._compiled import RowFunction
from mercer.kernels._domain import HalfLineKernel
from mercer.kernels._pairwise import FloatArray, inner_products

__all__ = ["ChiSquared", "Hellinger", "Intersection", "JensenShannon"]


class _Additive(HalfLineKernel):
    """A sum over the features of a kernel of two numbers with k(a, a) = a."""

    def _diagonal(self, X: Any) -> FloatArray:
        sums: FloatArray = np.sum(self._inside(X), axis=1)
        return sums

    @property
    def bound(self) -> float | None:
        """None: k(x, x) is the sum of the inputs, which grows with x."""
        return None


class Hellinger(_Additive):
    r"""Hellinger kernel, :math:`k(x, x') = \sum_j \sqrt{x_j x'_j}`, for non-negative numbers.

    The Bhattacharyya coefficient, if rows are histograms that sum to 1. It is the linear kernel of
    :math:`\sqrt{x}`: a linear model on square roots is the same at less cost.

    Raises
    ------
    ValueError
        On evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1, whose features are printed with a factor too much.

    Examples
    --------
    >>> from mercer.kernels import Hellinger
    >>> Hellinger()([[1.0, 4.0]], [[9.0, 1.0], [0.0, 4.0]])
    array([[5., 4.]])
    """

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        roots = np.sqrt(self._inside(X))
        return inner_products(roots, roots if Z is X else np.sqrt(self._inside(Z)))

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.hellinger, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return SignMap(n_inputs, options, path, roots_of=type(self).__name__)


class ChiSquared(_Additive):
    r"""Chi-squared kernel, :math:`k(x, x') = \sum_j 2 x_j x'_j / (x_j + x'_j)`, with 0/0 = 0.

    For non-negative numbers. It is additive: not the exponential of the chi-squared distance,
    which other libraries give the same name.

    Raises
    ------
    ValueError
        On evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1. A. Vedaldi, A. Zisserman, Efficient additive kernels via explicit feature maps,
    IEEE TPAMI 34, 2012.

    Examples
    --------
    >>> from mercer.kernels import ChiSquared
    >>> ChiSquared()([[1.0, 2.0]], [[3.0, 2.0], [0.0, 6.0]])
    array([[3.5, 3. ]])
    """

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.chi_squared, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return AdditiveMap(n_inputs, SechLaw(), options, path, kernel=type(self).__name__)


class Intersection(_Additive):
    r"""Intersection kernel, :math:`k(x, x') = \sum_j \min(x_j, x'_j)`, for non-negative numbers.

    What two histograms have in common.

    Raises
    ------
    ValueError
        On evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1, where its random features are printed with half their probability.

    Examples
    --------
    >>> from mercer.kernels import Intersection
    >>> Intersection()([[1.0, 2.0]], [[3.0, 2.0], [0.0, 6.0]])
    array([[3., 2.]])
    """

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.intersection, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return AdditiveMap(n_inputs, TanLaw(0.5), options, path, kernel=type(self).__name__)


class JensenShannon(_Additive):
    r"""Jensen-Shannon kernel of non-negative numbers.

    .. math:: k(x, x') = \sum_j \frac{x_j}{2} \log_2 \frac{x_j + x'_j}{x_j} +
              \frac{x'_j}{2} \log_2 \frac{x_j + x'_j}{x'_j}, \quad 0 \log \cdot = 0.

    For histograms that sum to 1 it is 1 minus their Jensen-Shannon divergence in bits.

    Raises
    ------
    ValueError
        On evaluation, if an input is below 0.

    References
    ----------
    DSG, Table 1, where its random features are printed with half their probability.

    Examples
    --------
    >>> from mercer.kernels import JensenShannon
    >>> JensenShannon()([[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]).round(6)
    array([[1.      , 0.688722]])
    """

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.jensen_shannon, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        law = CoordinateLaw(quantile)
        return AdditiveMap(n_inputs, law, options, path, kernel=type(self).__name__)
