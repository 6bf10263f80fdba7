"""Stationary kernels: functions of the difference of two points, equal to 1 at difference 0."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

import numpy as np

from mercer._validation import check_real, parameters, positive
from mercer.features import CosineMap, FeatureMap, FeatureOptions, laws
from mercer.kernels import _compiled
from mercer.kernels._base import Kernel
from mercer.kernels._compiled import RowFunction
from mercer.kernels._matern import LARGE_ORDER, matern_of_any_order, matern_of_large_order
from mercer.kernels._pairwise import (
    FloatArray,
    cauchy_products,
    cityblock_distances,
    squared_distances,
)

__all__ = ["Cauchy", "Gaussian", "Laplacian", "Matern", "RationalQuadratic"]

LengthScale = float | Literal["median", "half-median"]

_OF_MEDIAN = {"median": 1.0, "half-median": 0.5}


def _check_length_scale(name: str, value: Any) -> None:
    if isinstance(value, str) and value in _OF_MEDIAN:
        return
    why = (
        'It divides distances. "median" takes the median distance of the data, "half-median" '
        "half of it."
    )
    check_real(name, value, low=0, open_low=True, why=why)


class _Stationary(Kernel):
    """A kernel with a length scale and k(x, x) = 1."""

    length_scale: LengthScale

    _parameters = parameters(length_scale=_check_length_scale)

    @property
    def _scale(self) -> float:
        return float(self.length_scale)

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x), which is 1 everywhere."""
        return 1.0

    def _diagonal(self, X: Any) -> FloatArray:
        return np.ones(X.shape[0], dtype=X.dtype)

    def _missing(self) -> tuple[str, ...]:
        return ("length_scale",) if isinstance(self.length_scale, str) else ()

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        distances = self._distances(rows)[np.triu_indices(len(rows), k=1)]
        distances = distances[distances > 0]
        median = np.median(distances) if distances.size else self._expected_distance(rows.shape[1])
        return {"length_scale": _OF_MEDIAN[str(self.length_scale)] * float(median)}

    @abstractmethod
    def _law(self) -> laws.Law:
        """Law of the frequencies whose cosines average to the kernel."""

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return CosineMap(n_inputs, self._law(), options, path)

    # The metric in which the length scale is measured: Euclidean unless a kernel has its own.

    def _distances(self, rows: FloatArray) -> FloatArray:
        return np.sqrt(squared_distances(rows, rows))

    def _expected_distance(self, n_features: int) -> float:
        """Distance to expect between two rows of standardised columns."""
        return math.sqrt(2 * n_features)


class _Radial(_Stationary):
    """A stationary kernel that depends on the Euclidean distance only."""

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return self._profile(squared_distances(X, Z))

    @abstractmethod
    def _profile(self, S: FloatArray) -> FloatArray:
        """Kernel values from squared distances, which may be overwritten."""


class Gaussian(_Radial):
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

    def __init__(self, length_scale: LengthScale = "median") -> None:
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        S *= -0.5 / self._scale**2
        return np.exp(S, out=S)

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.squared_exponential, (0.5 / self._scale**2,))

    def _law(self) -> laws.Law:
        return laws.NormalLaw(1 / self._scale)


class Matern(_Radial):
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

    def __init__(self, nu: float = 1.5, length_scale: LengthScale = "median") -> None:
        self.nu = nu
        self.length_scale = length_scale
        self._check()

    def _profile(self, S: FloatArray) -> FloatArray:
        nu = float(self.nu)
        if nu >= LARGE_ORDER:
            S *= 2 / (nu * self._scale**2)
            np.minimum(S, _compiled.FAR**2, out=S)
            return matern_of_large_order(S, nu)
        a = np.sqrt(S, out=S)
        a *= math.sqrt(2 * nu) / self._scale
        np.minimum(a, _compiled.FAR, out=a)
        if nu not in (0.5, 1.5, 2.5):
            return matern_of_any_order(a, nu)
        K = np.exp(-a)
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
        return RowFunction(_compiled.half_integer_matern, (math.sqrt(2 * nu) / self._scale, nu))

    def _law(self) -> laws.Law:
        return laws.StudentLaw(float(self.nu), 1 / self._scale)


class RationalQuadratic(_Radial):
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
        return RowFunction(_compiled.rational_quadratic, self._numbers())

    def _law(self) -> laws.Law:
        return laws.NormalGammaLaw(float(self.alpha), 1 / self._scale)


class Laplacian(_Stationary):
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

    def __init__(self, length_scale: LengthScale = "median") -> None:
        self.length_scale = length_scale
        self._check()

    def _distances(self, rows: FloatArray) -> FloatArray:
        return cityblock_distances(rows, rows)

    def _expected_distance(self, n_features: int) -> float:
        # The mean of |u - v| for standard normal u and v is 2 / sqrt(pi).
        return 2 * n_features / math.sqrt(math.pi)

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = cityblock_distances(X, Z)
        K *= -1 / self._scale
        return np.exp(K, out=K)

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.cityblock_exponential, (1 / self._scale,))

    def _law(self) -> laws.Law:
        return laws.TanLaw(1 / self._scale)


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
        return RowFunction(_compiled.cauchy, (1 / self._scale,))

    def _law(self) -> laws.Law:
        return laws.LaplaceLaw(1 / self._scale)
