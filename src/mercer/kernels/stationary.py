"""Stationary kernels: functions of the difference of two points, equal to 1 at difference 0."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, kve

from mercer.features import CosineMap, FeatureMap, FeatureOptions, laws
from mercer.kernels.kernel import (
    FloatArray,
    FormulaKernel,
    FromData,
    RowFunction,
    cauchy_products,
    cityblock_distances,
    squared_distances,
)
from mercer.numerics import expansions
from mercer.validation import check_real, parameters, positive

LengthScale = float | Literal["median", "half-median"]

# From this order on the expansion for large orders is used, good to 3e-12 there; below, the Bessel
# function itself.
_LARGE_ORDER = 60.0

# exp(-_FAR) is 0 in both precisions, and so are its products with polynomials in _FAR: scaled
# distances are cut here, because infinity times 0 would be NaN.
_FAR = 1e4

_OF_MEDIAN = {"median": 1.0, "half-median": 0.5}


#: Squares of these, and of their inverses, are still numbers.
_SHORTEST, _LONGEST = 1e-150, 1e150


def _check_length_scale(name: str, value: Any) -> None:
    if isinstance(value, str) and value in _OF_MEDIAN:
        return
    why = (
        'It divides distances. "median" takes the median distance of the data, "half-median" '
        "half of it."
    )
    check_real(name, value, low=_SHORTEST, high=_LONGEST, why=why)


class _Metric(NamedTuple):
    """In what a length scale is measured."""

    distances: Callable[[FloatArray, FloatArray], FloatArray]
    #: What kernels are functions of: squares of Euclidean distances need no roots.
    separations: Callable[[FloatArray, FloatArray], FloatArray]
    #: Distance to expect between two rows, by the number of their standardised columns.
    expected: Callable[[int], float]


def _euclidean_distances(X: FloatArray, Z: FloatArray) -> FloatArray:
    distances: FloatArray = np.sqrt(squared_distances(X, Z))
    return distances


_EUCLIDEAN = _Metric(_euclidean_distances, squared_distances, lambda d: math.sqrt(2 * d))
# The mean of |u - v| for standard normal u and v is 2 / sqrt(pi).
_CITYBLOCK = _Metric(cityblock_distances, cityblock_distances, lambda d: 2 * d / math.sqrt(math.pi))


class _Stationary(FormulaKernel):
    """A kernel with a length scale and k(x, x) = 1."""

    length_scale: LengthScale
    _metric: ClassVar[_Metric] = _EUCLIDEAN

    _parameters = parameters(length_scale=_check_length_scale)
    _from_data: ClassVar[Mapping[str, FromData]] = {
        "length_scale": FromData(
            lambda length: isinstance(length, str),
            lambda kernel, rows: _OF_MEDIAN[kernel.length_scale] * kernel.median_distance(rows),
        )
    }

    @classmethod
    def median_distance(cls, rows: FloatArray) -> float:
        """Median of the distances above 0 between rows, (n, n_features), of float64.

        If there are none, the distance to expect between rows with standardised columns.
        """
        distances = cls._metric.distances(rows, rows)[np.tri(len(rows), k=-1, dtype=np.bool_)]
        distances = distances[distances > 0]
        if not distances.size:
            return cls._metric.expected(len(rows.T))
        return max(float(np.median(distances)), 2.0 * _SHORTEST)  # a half is allowed

    @property
    def _scale(self) -> float:
        return float(self.length_scale)

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x), which is 1 everywhere."""
        return 1.0

    def _diagonal(self, X: Any) -> FloatArray:
        return np.ones(X.shape[0], dtype=X.dtype)

    @abstractmethod
    def _law(self) -> laws.Law:
        """Law of the frequencies whose cosines average to the kernel."""

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return CosineMap(n_inputs, self._law(), options, path)


class DistanceKernel(_Stationary):
    """A stationary kernel that is a function of one distance, whatever its length scale.

    Distances of many rows are expensive and do not depend on the length scale. To try several
    length scales, compute distances once: ``kernel.of_separations(kernel.separations(X, Z))``
    equals ``kernel(X, Z)``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> separations = Gaussian().separations(np.zeros((1, 1)), np.array([[1.0], [2.0]]))
    >>> [Gaussian(length).of_separations(separations).round(3).tolist() for length in (1.0, 2.0)]
    [[[0.607, 0.135]], [[0.882, 0.607]]]
    """

    def separations(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Squared Euclidean distances of rows, or city-block distances, as a new array.

        Parameters
        ----------
        X, Z : ndarray of shape (n, n_features) and (m, n_features)
            Rows, C-ordered and of one dtype.

        Returns
        -------
        separations : ndarray of shape (n, m)
        """
        return self._metric.separations(X, Z)

    def of_separations(self, separations: FloatArray) -> FloatArray:
        """Return kernel values for the result of :meth:`separations`, which is not changed.

        Parameters
        ----------
        separations : ndarray of shape (n, m)
            At least 0.

        Returns
        -------
        values : ndarray of shape (n, m)
        """
        return self._profile(separations.copy())

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return self._profile(self.separations(X, Z))

    @abstractmethod
    def _profile(self, S: FloatArray) -> FloatArray:
        """Kernel values from separations, which may be overwritten."""


# In rows `out[i] = 0` and `s = out[i]` give a sum of the dtype of the data: the literal 0.0 is of
# double precision and would halve the width of the float32 loop.


def _gaussian_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] |x - x'|^2)."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        out[i] = math.exp(-parameters[0] * s)


class Gaussian(DistanceKernel):
    r"""Gaussian kernel, :math:`k(x, x') = \exp(-\|x - x'\|^2 / (2 \ell^2))`.

    In other conventions: ``gamma`` = 1 / (2 length_scale²) in scikit-learn.

    Parameters
    ----------
    length_scale : float, "median" or "half-median", default="median"
        Length scale :math:`\ell`, in units of the features; "median" is the median Euclidean
        distance of the data, "half-median" half of it.

    Raises
    ------
    ValueError
        If ``length_scale`` is neither positive nor one of these.

    References
    ----------
    POLK, Section 2; DSG, Table 1.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian(length_scale=2.0)([[0.0]], [[0.0], [2.0], [4.0]])
    array([[1.        , 0.60653066, 0.13533528]])
    """

    _forms: ClassVar[Mapping[float | None, tuple[int, float]]] = {
        None: (expansions.GAUSSIAN, math.sqrt(0.5))
    }

    def __init__(self, length_scale: LengthScale = "median") -> None:
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        S *= -0.5 / self._scale**2
        return np.exp(S, out=S)

    def _row(self) -> RowFunction:
        return RowFunction(_gaussian_row, (0.5 / self._scale**2,))

    def _law(self) -> laws.Law:
        return laws.NormalLaw(1 / self._scale)


def _matern_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the Matérn kernel: a = parameters[0] |x - x'|, nu = parameters[1] in {.5, 1.5, 2.5}."""
    nu = parameters[1]
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        a = parameters[0] * math.sqrt(s)
        if a > _FAR:
            a = _FAR
        value = math.exp(-a)
        if nu == 1.5:
            value *= 1.0 + a
        elif nu == 2.5:
            value *= 1.0 + a + a * a / 3.0
        out[i] = value


class Matern(DistanceKernel):
    r"""Matérn kernel, whose functions are about :math:`\nu` times differentiable.

    .. math:: k(x, x') = \frac{2^{1-\nu}}{\Gamma(\nu)} a^\nu K_\nu(a), \quad
              a = \sqrt{2 \nu} \|x - x'\| / \ell,

    with the modified Bessel function :math:`K_\nu` and the value 1 at distance 0. For
    :math:`\nu` = 1/2, 3/2 and 5/2 it is :math:`e^{-a}`, :math:`(1 + a) e^{-a}` and
    :math:`(1 + a + a^2 / 3) e^{-a}`, which are fast; it tends to the Gaussian kernel as
    :math:`\nu` grows.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness :math:`\nu`, above 0.
    length_scale : float, "median" or "half-median", default="median"
        Length scale :math:`\ell`, in units of the features; "median" is the median Euclidean
        distance of the data, "half-median" half of it.

    Raises
    ------
    ValueError
        If ``nu`` is not positive, or ``length_scale`` neither positive nor one of these.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, eq. (4.14).
    Orders of 60 and more: F. W. J. Olver's uniform expansion, DLMF, eq. (10.41.4). DSG, Table 1,
    has the kernel with other constants.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)([[0.0]], [[0.0], [2.0], [4.0]])
    array([[1.        , 0.36787944, 0.13533528]])
    """

    _parameters = parameters(
        nu=positive("It is the smoothness; 0.5, 1.5 and 2.5 are fast. For infinity use Gaussian."),
        **_Stationary._parameters,
    )

    _forms: ClassVar[Mapping[float | None, tuple[int, float]]] = {
        0.5: (expansions.EXPONENTIAL, 1.0),
        1.5: (expansions.MATERN_3_2, math.sqrt(3.0)),
        2.5: (expansions.MATERN_5_2, math.sqrt(5.0)),
    }

    def __init__(self, nu: float = 1.5, length_scale: LengthScale = "median") -> None:
        self.nu = nu
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        nu = float(self.nu)
        if nu >= _LARGE_ORDER:
            S *= 2 / (nu * self._scale**2)
            np.minimum(S, _FAR**2, out=S)
            return _matern_of_large_order(S, nu)
        a = np.sqrt(S, out=S)
        a *= math.sqrt(2 * nu) / self._scale
        np.minimum(a, _FAR, out=a)
        if nu not in (0.5, 1.5, 2.5):
            return _matern_of_any_order(a, nu)
        K = np.negative(a)
        np.exp(K, out=K)
        if nu == 1.5:
            a += 1
            K *= a
        elif nu == 2.5:
            K *= 1 + a * (1 + a / 3)
        return K

    def _row(self) -> RowFunction | None:
        nu = float(self.nu)
        if nu not in (0.5, 1.5, 2.5):
            return None
        return RowFunction(_matern_row, (math.sqrt(2 * nu) / self._scale, nu))

    def _law(self) -> laws.Law:
        return laws.StudentLaw(float(self.nu), 1 / self._scale)


def _matern_of_any_order(a: FloatArray, nu: float) -> FloatArray:
    """Matérn kernel of an order below 60, by logarithms: its factors overflow, it does not."""
    a64 = a.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_bessel = np.log(kve(nu, a64)) - a64
        K = np.exp((1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(a64) + log_bessel)
    # Where the Bessel function is infinite a is tiny, and two terms of the series are exact.
    near = np.isposinf(log_bessel)
    K[near] = 1 - a64[near] ** 2 / (4 * (nu - 1)) if nu > 1 else 1.0
    values: FloatArray = np.minimum(K, 1.0).astype(a.dtype)
    return values


def _matern_of_large_order(squares: FloatArray, nu: float) -> FloatArray:
    r"""Matérn kernel of a large order, from :math:`z^2`, :math:`z = a / \nu`.

    DLMF, eq. (10.41.4), divided by its own limit at z = 0 so that nothing large cancels:
    with :math:`s = \sqrt{1 + z^2}`, k = exp(-nu (s - 1 - log((1 + s) / 2))) / sqrt(s) *
    U(1 / s) / U(1), where U(t) = sum_k (-1)^k u_k(t) / nu^k with the u_k of DLMF, eq. (10.41.10).
    """
    z2 = squares.astype(np.float64)
    s = np.sqrt(1 + z2)
    excess = z2 / (1 + s)
    K = np.exp(-nu * (excess - np.log1p(excess / 2)))
    K *= _debye_sum(1 / s, nu) / (_debye_sum(np.ones(1), nu) * np.sqrt(s))
    values: FloatArray = K.astype(squares.dtype)
    return values


def _debye_sum(t: FloatArray, nu: float) -> FloatArray:
    t2 = t * t
    u1 = t * (3 - 5 * t2) / 24
    u2 = t2 * (81 + t2 * (-462 + t2 * 385)) / 1152
    u3 = t * t2 * (30375 + t2 * (-369603 + t2 * (765765 - t2 * 425425))) / 414720
    u4 = (
        t2
        * t2
        * (4465125 + t2 * (-94121676 + t2 * (349922430 + t2 * (-446185740 + t2 * 185910725))))
        / 39813120
    )
    total: FloatArray = 1 - (u1 - (u2 - (u3 - u4 / nu) / nu) / nu) / nu
    return total


def _rational_quadratic_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill (1 + parameters[0] |x - x'|^2)^(-parameters[1])."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        out[i] = math.exp(-parameters[1] * math.log1p(parameters[0] * s))


class RationalQuadratic(DistanceKernel):
    r"""Rational quadratic kernel, :math:`(1 + \|x - x'\|^2 / (2 \alpha \ell^2))^{-\alpha}`.

    A mixture of Gaussian kernels of many length scales; it tends to the Gaussian kernel of length
    scale :math:`\ell` as :math:`\alpha` grows.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent :math:`\alpha`, above 0: the smaller, the heavier the tail.
    length_scale : float, "median" or "half-median", default="median"
        Length scale :math:`\ell`, in units of the features; "median" is the median Euclidean
        distance of the data, "half-median" half of it.

    Raises
    ------
    ValueError
        If ``alpha`` is not positive, or ``length_scale`` neither positive nor one of these.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, eq. (4.19).

    Examples
    --------
    >>> from mercer.kernels import RationalQuadratic
    >>> RationalQuadratic(length_scale=1.0)([[0.0]], [[0.0], [1.0], [2.0]])
    array([[1.        , 0.66666667, 0.33333333]])
    """

    _parameters = parameters(
        alpha=positive("At 0 the kernel is constant. For infinity use Gaussian."),
        **_Stationary._parameters,
    )

    def __init__(self, alpha: float = 1.0, length_scale: LengthScale = "median") -> None:
        self.alpha = alpha
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        inverse, alpha = self._numbers()
        S *= inverse
        np.log1p(S, out=S)
        S *= -alpha
        return np.exp(S, out=S)

    def _numbers(self) -> tuple[float, float]:
        alpha = float(self.alpha)
        return 0.5 / (alpha * self._scale**2), alpha

    def _row(self) -> RowFunction:
        return RowFunction(_rational_quadratic_row, self._numbers())

    def _law(self) -> laws.Law:
        return laws.NormalGammaLaw(float(self.alpha), 1 / self._scale)


def _laplacian_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] |x - x'|_1)."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            s += abs(points[i * d + j] - x[j])
        out[i] = math.exp(-parameters[0] * s)


class Laplacian(DistanceKernel):
    r"""Laplacian kernel, :math:`k(x, x') = \exp(-\|x - x'\|_1 / \ell)`.

    It uses the sum of absolute differences, as DSG does; with the Euclidean distance it would be
    ``Matern(nu=0.5)``.

    Parameters
    ----------
    length_scale : float, "median" or "half-median", default="median"
        Length scale :math:`\ell`, in units of the features; "median" is the median of the data's
        distances in the same norm.

    Raises
    ------
    ValueError
        If ``length_scale`` is neither positive nor one of these.

    References
    ----------
    DSG, Table 1.

    Examples
    --------
    >>> from mercer.kernels import Laplacian
    >>> Laplacian(length_scale=2.0)([[0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]])
    array([[1.        , 0.36787944]])
    """

    _metric = _CITYBLOCK
    _forms: ClassVar[Mapping[float | None, tuple[int, float]]] = {None: (expansions.LAPLACIAN, 1.0)}

    def __init__(self, length_scale: LengthScale = "median") -> None:
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        S *= -1 / self._scale
        return np.exp(S, out=S)

    def _row(self) -> RowFunction:
        return RowFunction(_laplacian_row, (1 / self._scale,))

    def _law(self) -> laws.Law:
        return laws.TanLaw(1 / self._scale)


def _cauchy_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product over features of 1 / (1 + (parameters[0] (x_j - x'_j))^2)."""
    for i in range(n):
        out[i] = parameters[0]
        inverse_scale = out[i]
        out[i] = 1.0
        one = out[i]
        s = one
        for j in range(d):
            t = (points[i * d + j] - x[j]) * inverse_scale
            s *= one + t * t
        out[i] = one / s


class Cauchy(_Stationary):
    r"""Cauchy kernel, :math:`k(x, x') = \prod_j 1 / (1 + (x_j - x'_j)^2 / \ell^2)`.

    A product over the features, as in DSG, with the value 1 at difference 0; not the radial kernel
    of the same name, which is ``RationalQuadratic(alpha=1)``.

    Parameters
    ----------
    length_scale : float, "median" or "half-median", default="median"
        Length scale :math:`\ell`, in units of the features; "median" is the median Euclidean
        distance of the data, "half-median" half of it.

    Raises
    ------
    ValueError
        If ``length_scale`` is neither positive nor one of these.

    References
    ----------
    DSG, Table 1, where it is printed with another constant.

    Examples
    --------
    >>> from mercer.kernels import Cauchy
    >>> Cauchy(length_scale=1.0)([[0.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]])
    array([[0.5 , 0.25]])
    """

    def __init__(self, length_scale: LengthScale = "median") -> None:
        self.length_scale = length_scale
        self._check()

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = cauchy_products(X, Z, 1 / self._scale)
        return np.reciprocal(K, out=K)

    def _row(self) -> RowFunction:
        return RowFunction(_cauchy_row, (1 / self._scale,))

    def _law(self) -> laws.Law:
        return laws.LaplaceLaw(1 / self._scale)
