"""Kernels of inner products: linear, polynomial and arc-cosine."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from mercer._validation import integer, or_none, parameters, positive, real
from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.arc_cosine import ArcCosineMap
from mercer.features.series import SeriesMap
from mercer.features.signs import SignMap
from mercer.features.tensor_sketch import TensorSketchMap
from mercer.kernels import _compiled
from mercer.kernels._base import Kernel
from mercer.kernels._compiled import RowFunction
from mercer.kernels._pairwise import FloatArray, angles, inner_products, squared_norms

__all__ = ["ArcCosine", "Linear", "Polynomial"]

# Random features of a product of kernels: the power n is drawn with a probability like 2^-n.
_BASE = 2.0


class Linear(Kernel):
    r"""Linear kernel, :math:`k(x, x') = \langle x, x' \rangle`.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0], [-2.0, 1.0]])
    array([[11.,  0.]])
    """

    _takes_sparse = True

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return inner_products(X, Z)

    def _diagonal(self, X: Any) -> FloatArray:
        return squared_norms(X)

    @property
    def bound(self) -> float | None:
        """None: k(x, x) grows with x."""
        return None

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.polynomial, (1.0, 0.0, 1.0))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return SignMap(n_inputs, options, path)


class Polynomial(Kernel):
    r"""Polynomial kernel, :math:`k(x, x') = (s \langle x, x' \rangle + c)^p`.

    In scikit-learn's convention: ``gamma`` = scale, ``coef0`` = offset.

    Parameters
    ----------
    degree : int, default=3
        Degree :math:`p`, at least 1.
    offset : float, default=1.0
        Offset :math:`c`, at least 0; 0 leaves only the terms of the full degree.
    scale : float or None, default=None
        Factor :math:`s` of the inner product, above 0. None is 1 / n_features, known once the
        kernel is resolved: with standardised columns :math:`s \|x\|^2` is then about 1.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Random features are a TensorSketch; unpaired ones, which products with other kernels take, are
    those of the binomial series (see :class:`DotProduct`), less accurate.

    References
    ----------
    DSG, Table 1, for scale = 1.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> Polynomial(degree=2, scale=1.0)([[1.0, 2.0]], [[3.0, 4.0], [-2.0, 1.0]])
    array([[144.,   1.]])
    """

    _takes_sparse = True

    _parameters = parameters(
        degree=integer(low=1, why="Other powers are no kernels."),
        offset=real(low=0, why="Below 0 the kernel is not positive semi-definite."),
        scale=or_none(positive("It multiplies inner products; None takes 1 / n_features.")),
    )

    def __init__(self, degree: int = 3, offset: float = 1.0, scale: float | None = None) -> None:
        self.degree = degree
        self.offset = offset
        self.scale = scale
        self._check()

    def _missing(self) -> tuple[str, ...]:
        return ("scale",) if self.scale is None else ()

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        return {"scale": 1 / rows.shape[1]}

    def _numbers(self) -> tuple[float, float, int]:
        assert self.scale is not None  # the kernel is resolved
        return float(self.scale), float(self.offset), int(self.degree)

    def _of(self, products: FloatArray) -> FloatArray:
        scale, offset, degree = self._numbers()
        products *= scale
        products += offset
        return _power(products, degree)

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return self._of(inner_products(X, Z))

    def _diagonal(self, X: Any) -> FloatArray:
        return self._of(squared_norms(X))

    @property
    def bound(self) -> float | None:
        """None: k(x, x) grows with x."""
        return None

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.polynomial, self._numbers())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        scale, offset, degree = self._numbers()
        if options.paired:
            return TensorSketchMap(n_inputs, degree, offset, scale, options, path)
        # A product of features asks for unpaired ones. A sketch of many places leaves most of them
        # empty, which would void what the other factor has there; powers do not.
        powers = tuple(math.comb(degree, n) * offset ** (degree - n) for n in range(degree + 1))
        name = type(self).__name__
        return SeriesMap(n_inputs, powers, math.sqrt(scale), _BASE, options, path, kernel=name)


def _power(base: FloatArray, exponent: int) -> FloatArray:
    """Integer power by repeated squaring, which is many times faster than ``np.power``."""
    result = base if exponent % 2 else np.ones_like(base)
    while exponent := exponent // 2:
        base = base * base
        if exponent % 2:
            result = result * base
    return result


class ArcCosine(Kernel):
    r"""Arc-cosine kernel: an infinitely wide layer of a neural network.

    .. math:: k(x, x') = \tfrac{1}{\pi} \|x\|^n \|x'\|^n J_n(\theta),

    where :math:`\theta` is the angle between the points, and :math:`J_0 = \pi - \theta`,
    :math:`J_1 = \sin \theta + (\pi - \theta) \cos \theta`,
    :math:`J_2 = 3 \sin \theta \cos \theta + (\pi - \theta)(1 + 2 \cos^2 \theta)`.
    The activation is a step for n = 0, a ramp (ReLU) for n = 1 and its square for n = 2. The
    origin has no angle; its values are 0.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        Order :math:`n`.

    Raises
    ------
    ValueError
        If ``order`` is another one.

    References
    ----------
    Y. Cho, L. K. Saul, Kernel Methods for Deep Learning, NIPS 2009, eqs. (1)-(6); DSG, Table 1.

    Examples
    --------
    >>> from mercer.kernels import ArcCosine
    >>> ArcCosine(order=0)([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    array([[1. , 0.5, 0. ]])
    """

    _parameters = parameters(order=integer(low=0, high=2))

    def __init__(self, order: Literal[0, 1, 2] = 1) -> None:
        self.order = order
        self._check()

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        theta, x, z = angles(X, Z)
        cosine, sine = np.cos(theta), np.sin(theta)
        K = np.subtract(math.pi, theta, out=theta)
        if self.order == 0:
            # The powers 0 of the norms: 1, but 0 for the origin.
            x, z = np.sign(x), np.sign(z)
        elif self.order == 1:
            K *= cosine
            K += sine
        else:
            K *= 1 + 2 * cosine**2
            K += 3 * sine * cosine
            x, z = x * x, z * z
        K *= np.multiply.outer(x, z)
        K /= math.pi
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        squares = squared_norms(X)
        if self.order == 0:
            return np.sign(squares)
        if self.order == 2:
            squares *= 3 * squares
        return squares

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x): 1 for order 0, None for the others, which grow with x."""
        return 1.0 if self.order == 0 else None

    def _row(self) -> RowFunction:
        return RowFunction(_compiled.arc_cosine, (float(self.order),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return ArcCosineMap(n_inputs, int(self.order), options, path)
