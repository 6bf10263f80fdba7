"""Kernels on half-lines: additive, skewed and semigroup kernels.

Every input has to be at least, or above, a number. Additive kernels are sums over the features of
non-negative numbers, such as histogram counts; skewed ones are products over the features of
numbers above -c, equal to 1 at x = x'; semigroup kernels are functions of the sum of two points.

The formula of such a kernel is its row function. Sums and products over the features are of double
precision. Numbers outside the domain, and NaN, give NaN: the array code refuses them with an error
that names the column, a compiled loop notices the NaN.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from mercer.features.composite import MappedMap
from mercer.features.cosine import CosineMap
from mercer.features.dot import SignMap
from mercer.features.feature_map import FeatureMap, FeatureOptions, check_domain
from mercer.features.half_line import AdditiveMap, ExponentialMap, Logarithms, Roots
from mercer.features.laws import CoordinateLaw, Law, SechLaw, TanLaw
from mercer.kernels.kernel import (
    FloatArray,
    FormulaKernel,
    RowFunction,
    compile_row,
    gram_by_rows,
    inner_products,
)
from mercer.validation import parameters, positive


class _HalfLine(FormulaKernel):
    """A kernel of numbers from ``_low`` on, whose one formula is its row function."""

    _open_low = False

    @property
    def _low(self) -> float:
        return 0.0

    def _inside(self, X: Any) -> Any:
        """Return rows after checking that they lie in the domain."""
        check_domain(X, type(self).__name__, self._low, open_low=self._open_low)
        return X

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        self._inside(X)
        if Z is not X:
            self._inside(Z)
        return gram_by_rows(compile_row(self._row(), X.dtype), X, Z)

    @abstractmethod
    def _row(self) -> RowFunction:
        """Row function, which is the formula, and its parameters."""


# Every formula takes the lesser and the greater of the two numbers, which keeps ratios in [0, 1]:
# nothing overflows, and k(x, x') is k(x', x) to the last bit.
_term = njit(inline="always", error_model="numpy")


class _Additive(_HalfLine):
    """A sum over the features of a kernel of two numbers with k(a, a) = a."""

    def _diagonal(self, X: Any) -> FloatArray:
        sums: FloatArray = np.sum(self._inside(X), axis=1)
        return sums

    @property
    def bound(self) -> float | None:
        """None: k(x, x) is the sum of the inputs, which grows with x."""
        return None


def _hellinger_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of sqrt(x_j x'_j)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += math.sqrt(points[i * d + j]) * math.sqrt(x[j])
        out[i] = s


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
        return RowFunction(_hellinger_row, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return MappedMap(n_inputs, SignMap(n_inputs, options, path, kernel=name), Roots(name))


@_term
def _chi_squared_of(low, high):  # type: ignore[no-untyped-def]
    return 2.0 * low / (1.0 + low / high) if low > 0.0 else 0.0 * low


def _chi_squared_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of 2 x_j x'_j / (x_j + x'_j), with 0 for 0/0."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += _chi_squared_of(low, high) if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


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
        return RowFunction(_chi_squared_row, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return AdditiveMap(n_inputs, SechLaw(), options, path, kernel=type(self).__name__)


def _intersection_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of min(x_j, x'_j)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += low if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


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
        return RowFunction(_intersection_row, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return AdditiveMap(n_inputs, TanLaw(0.5), options, path, kernel=type(self).__name__)


@_term
def _jensen_shannon_of(low, high):  # type: ignore[no-untyped-def]
    """(high/2) log2(1 + r) + (low/2) log2((1 + r)/r), r = low/high."""
    # In double precision: the logarithm of a ratio that underflows would lose the whole term.
    ratio = 1.0 * low / high if low > 0.0 else 0.0 * low
    if ratio > 0.0:
        together = math.log1p(ratio)
        return (high * together + low * (together - math.log(ratio))) * (0.5 / math.log(2.0))
    return ratio


def _jensen_shannon_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the sum of the Jensen-Shannon terms, with 0 for 0 log 0."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            low, high = (a, b) if a < b else (b, a)
            s += _jensen_shannon_of(low, high) if low >= 0.0 and high >= 0.0 else math.nan
        out[i] = s


# Frequencies of the Jensen-Shannon kernel, by an inverse distribution function in a table.

# The tail beyond the last knot is 2e-12; the rarest uniform number asks for 6e-8.
_STEP, _LAST = 0.01, 8.0


def _jensen_shannon_density(w: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Density of the frequencies, :math:`1 / (\cosh(\pi w) \ln 2 \, (1 + 4 w^2))`."""
    return 1 / (np.cosh(math.pi * w) * math.log(2) * (1 + 4 * w * w))


def _jensen_shannon_quantile(u: NDArray[Any]) -> NDArray[np.float64]:
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
    sizes: NDArray[np.float64] = _jensen_shannon_table()(-np.log(tail))
    return np.copysign(sizes, u - 0.5)


@functools.cache
def _jensen_shannon_table() -> CubicHermiteSpline:
    """Size of a frequency as a function of -log of the share of greater sizes.

    In this variable it is smooth: linear at both ends, since the density is positive at 0 and its
    tail exponential. Its derivative is known, tail / (2 density).
    """
    knots = np.arange(0, _LAST + _STEP / 2, _STEP)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    points = knots[:-1, None] + _STEP / 2 * (1 + nodes)
    cells = _STEP * (_jensen_shannon_density(points) @ weights)  # twice the mass, for both signs
    # The tail decays like exp(-pi w) and a bit faster.
    beyond = _jensen_shannon_density(knots[-1:]) / math.pi * 2
    tails = np.cumsum(np.append(cells, beyond)[::-1])[::-1]
    tails /= tails[0]
    return CubicHermiteSpline(-np.log(tails), knots, tails / (2 * _jensen_shannon_density(knots)))


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
        return RowFunction(_jensen_shannon_row, ())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        law = CoordinateLaw(_jensen_shannon_quantile)
        return AdditiveMap(n_inputs, law, options, path, kernel=type(self).__name__)


class _Skewed(_HalfLine):
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
        logarithms = Logarithms(type(self).__name__, float(self.c))
        return MappedMap(n_inputs, CosineMap(n_inputs, law, options, path), logarithms)


def _skewed_chi_squared_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of 2 sqrt(r) / (1 + r), r the lesser over the greater of x + c, x' + c."""
    c = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j] + c, x[j] + c
            low, high = (a, b) if a < b else (b, a)
            ratio = low / high if low > 0.0 and high > 0.0 else math.nan
            product *= 2.0 * math.sqrt(ratio) / (1.0 + ratio)
        out[i] = product


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
        return RowFunction(_skewed_chi_squared_row, (float(self.c),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return self._map(n_inputs, SechLaw(), options, path)


def _skewed_intersection_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of sqrt(r), r the lesser over the greater of x + c, x' + c."""
    c = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j] + c, x[j] + c
            low, high = (a, b) if a < b else (b, a)
            product *= math.sqrt(low / high) if low > 0.0 and high > 0.0 else math.nan
        out[i] = product


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
        return RowFunction(_skewed_intersection_row, (float(self.c),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return self._map(n_inputs, TanLaw(0.5), options, path)


class _Semigroup(_HalfLine):
    """A kernel of x + x' with the value 1 at 0 and smaller ones elsewhere."""

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x): 1, its value at x = 0."""
        return 1.0


def _exponential_semigroup_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] sum of sqrt(x_j + x'_j))."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            s += math.sqrt(a + b) if a >= 0.0 and b >= 0.0 else math.nan
        out[i] = math.exp(-parameters[0] * s)


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
        return RowFunction(_exponential_semigroup_row, (float(self.beta),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return ExponentialMap(n_inputs, "levy", float(self.beta), options, path, kernel=name)


def _reciprocal_semigroup_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product of rate / (x_j + x'_j + rate), rate = parameters[0]."""
    rate = parameters[0]
    for i in range(n):
        product = 1.0
        for j in range(d):
            a, b = points[i * d + j], x[j]
            product *= rate / (a + b + rate) if a >= 0.0 and b >= 0.0 else math.nan
        out[i] = product


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
        return RowFunction(_reciprocal_semigroup_row, (float(self.rate),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        name = type(self).__name__
        return ExponentialMap(n_inputs, "exponential", float(self.rate), options, path, kernel=name)
