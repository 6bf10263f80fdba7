"""Kernels of inner products: constant, linear, polynomial, arc-cosine and power series."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.features.dot import (
    EXPONENTIAL_COEFFICIENTS,
    ArcCosineMap,
    SeriesMap,
    SignMap,
    TensorSketchMap,
)
from mercer.features.feature_map import FeatureMap, FeatureOptions
from mercer.kernels.kernel import (
    FloatArray,
    FormulaKernel,
    FromData,
    Kernel,
    RowFunction,
    angles,
    compile_row,
    gram_by_rows,
    inner_products,
    squared_norms,
)
from mercer.validation import check_real, integer, or_none, parameters, positive, real

# Random features of a product of kernels: the power n is drawn with a probability like 2^-n.
_BASE = 2.0


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

    def _note(self) -> None:
        self._constant = float(self.value)

    _relations = (_note,)

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
        # Without its own matrix: this kernel is a term of most sums.
        K += self._diagonal(self._points(X, "X"))[:, np.newaxis]
        rest = self._diagonal(self._points(Z, "Z")) - X.dtype.type(self.value)
        if rest.any():  # NaN for rows that are not finite
            K += rest

    def _diagonal(self, X: Any) -> FloatArray:
        # Rows that are not finite have the value NaN, as with other kernels.
        finite = np.isfinite(X).all(axis=1)
        values: FloatArray = np.where(finite, X.dtype.type(self.value), X.dtype.type(np.nan))
        return values


class _InnerProduct(FormulaKernel):
    """A kernel that depends on the inner product only."""

    _takes_sparse = True

    @property
    def bound(self) -> float | None:
        """None: k(x, x) grows with x."""
        return None

    @abstractmethod
    def _of(self, products: FloatArray) -> FloatArray:
        """Kernel values from inner products, which may be overwritten."""

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return self._of(inner_products(X, Z))

    def _diagonal(self, X: Any) -> FloatArray:
        return self._of(squared_norms(X))


class _ScaledInnerProduct(_InnerProduct):
    """A kernel of the inner product times a scale, which is 1 / n_features if it is None."""

    scale: float | None

    _from_data: ClassVar[Mapping[str, FromData]] = {
        "scale": FromData(lambda scale: scale is None, lambda kernel, rows: 1 / rows.shape[1])
    }

    @property
    def _scale(self) -> float:
        assert self.scale is not None  # the kernel is resolved
        return float(self.scale)


class Linear(_InnerProduct):
    r"""Linear kernel, :math:`k(x, x') = \langle x, x' \rangle`.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0], [-2.0, 1.0]])
    array([[11.,  0.]])
    """

    def _of(self, products: FloatArray) -> FloatArray:
        return products

    def _row(self) -> RowFunction:
        return RowFunction(_polynomial_row, (1.0, 0.0, 1.0))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return SignMap(n_inputs, options, path)


def _polynomial_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill (parameters[0] <x, x'> + parameters[1])^parameters[2]."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            s += points[i * d + j] * x[j]
        base = parameters[0] * s + parameters[1]
        value = 1.0
        for _ in range(int(parameters[2])):
            value *= base
        out[i] = value


class Polynomial(_ScaledInnerProduct):
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
    Random features are a TensorSketch. Products with other kernels use unpaired features, which are
    less accurate: those of the binomial series (see :class:`DotProduct`).

    References
    ----------
    DSG, Table 1, for scale = 1.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> Polynomial(degree=2, scale=1.0)([[1.0, 2.0]], [[3.0, 4.0], [-2.0, 1.0]])
    array([[144.,   1.]])
    """

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

    def _numbers(self) -> tuple[float, float, int]:
        return self._scale, float(self.offset), int(self.degree)

    def _of(self, products: FloatArray) -> FloatArray:
        scale, offset, degree = self._numbers()
        products *= scale
        products += offset
        return _power(products, degree)

    def _row(self) -> RowFunction:
        return RowFunction(_polynomial_row, self._numbers())

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        scale, offset, degree = self._numbers()
        if options.paired:
            return TensorSketchMap(n_inputs, degree, offset, scale, options, path)
        # Products of features need unpaired features. A sketch leaves most of many places empty,
        # which would erase the other factor there; powers do not.
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


def _arc_cosine_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the arc-cosine kernel of order parameters[0]; sums are of double precision."""
    order = parameters[0]
    x2 = 0.0
    for j in range(d):
        x2 += x[j] * x[j]
    for i in range(n):
        s = 0.0
        z2 = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
            z2 += points[i * d + j] * points[i * d + j]
        norms = math.sqrt(x2) * math.sqrt(z2)
        if norms == 0.0:
            out[i] = 0.0
            continue
        cosine = s / norms
        # Kahan's half-angle formula near 0 and pi: the arc cosine would lose half the digits.
        if abs(cosine) < 0.999:
            angle = math.acos(cosine)
            opposite = math.pi - angle
        else:
            sign = 1.0 if cosine > 0.0 else -1.0
            s = 0.0
            for j in range(d):
                t = points[i * d + j] / math.sqrt(z2) - sign * (x[j] / math.sqrt(x2))
                s += t * t
            angle = 2.0 * math.asin(0.5 * math.sqrt(s))
            opposite = math.pi - angle
            if sign < 0.0:
                angle, opposite = opposite, angle
        sine, cosine, rest = math.sin(angle), math.cos(angle), math.pi - angle
        if order == 0.0:
            out[i] = rest / math.pi
        elif order == 1.0:
            out[i] = norms * (sine + rest * cosine) / math.pi
        elif order == 2.0:
            value = 3.0 * sine * cosine + rest * (1.0 + 2.0 * cosine * cosine)
            out[i] = norms * norms * value / math.pi
        else:
            # Sums of positive terms on both sides of the right angle, so that no digit cancels.
            degree = int(order)
            if cosine >= 0.0:
                below, value = opposite, sine + opposite * cosine
                for k in range(1, degree):
                    above = (2 * k + 1) * cosine * value + k * k * sine * sine * below
                    below, value = value, above
            else:
                half = math.sin(0.5 * opposite)
                term = 2.0 * half
                for k in range(1, degree + 1):
                    term *= 4.0 * k * k * half * half / (2 * k + 1)
                value, k = 0.0, 0
                while term > 1e-17 * value:
                    value += term
                    odd = 2 * k + 1
                    term *= odd * odd * half * half / ((odd + 2 * degree + 2) * (odd + 1))
                    k += 1
            out[i] = math.pow(norms, order) * value / math.pi


class ArcCosine(FormulaKernel):
    r"""Arc-cosine kernel: an infinitely wide layer of a neural network.

    .. math:: k(x, x') = \tfrac{1}{\pi} \|x\|^n \|x'\|^n J_n(\theta),

    where :math:`\theta` is the angle between the points, and :math:`J_0 = \pi - \theta`,
    :math:`J_1 = \sin \theta + (\pi - \theta) \cos \theta`,
    :math:`J_{n+1} = (2n + 1) \cos \theta\, J_n + n^2 \sin^2 \theta\, J_{n-1}`.
    The activation is a step for n = 0, a ramp (ReLU) for n = 1, and the ramp to the power n above.
    The origin has no angle; its values are 0.

    Parameters
    ----------
    order : int, default=1
        Order :math:`n`, from 0 to 150.

    Raises
    ------
    ValueError
        If ``order`` is outside its range.

    Notes
    -----
    Beyond the right angle the recurrence would cancel; there, from n = 3 on, with
    :math:`s = \cos^2(\theta / 2)`,

    .. math::

        J_n = 2\sqrt{s} \Big(\prod_{k=1}^n \frac{4 k^2 s}{2k + 1}\Big)\,
              {}_2F_1(\tfrac12, \tfrac12; n + \tfrac32; s),

    all of whose terms are positive: against sixty digits, the relative error was at most 5e-16
    times :math:`(2n + 1)(1 + 1/(\pi - \theta))`, which roundings of the angle cause, and the
    absolute one 4e-15 of :math:`\|x\|^n \|x'\|^n` times the value at angle 0, up to order 30.

    For a row of length 1, :math:`k(x, x) = 1 \cdot 3 \cdots (2n - 1)`; scale rows to that length
    for orders above 2. The variance of random features grows faster: about
    :math:`2 \binom{4n}{2n} / \binom{2n}{n} - 1` times the squared value, which is 22 for order 2
    and 91 for order 3.

    References
    ----------
    Y. Cho, L. K. Saul, Kernel Methods for Deep Learning, NIPS 2009, eqs. (1)-(6); DSG, Table 1.
    The recurrence is integration by parts of
    :math:`J_n = n! \int_0^{\pi-\theta} (\cos \psi + \cos \theta)^n d\psi`.

    Examples
    --------
    >>> from mercer.kernels import ArcCosine
    >>> ArcCosine(order=0)([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    array([[1. , 0.5, 0. ]])
    >>> ArcCosine(order=3)([[1.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]])
    array([[15.,  0.]])
    """

    _parameters = parameters(
        order=integer(low=0, high=150, why="1 * 3 * ... * (2 order - 1) overflows above.")
    )

    def __init__(self, order: int = 1) -> None:
        self.order = order
        self._check()

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        if self.order > 2:
            return gram_by_rows(compile_row(self._row(), X.dtype), X, Z)
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
        values = np.sign(squares)
        for odd in range(1, 2 * int(self.order), 2):
            values *= odd * squares
        return values

    @property
    def bound(self) -> float | None:
        """Bound of k(x, x): 1 for order 0, None for the others, which grow with x."""
        return 1.0 if self.order == 0 else None

    def _row(self) -> RowFunction:
        return RowFunction(_arc_cosine_row, (float(self.order),))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return ArcCosineMap(n_inputs, int(self.order), options, path)


def _exponential_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(parameters[0] <x, x'>)."""
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
        out[i] = math.exp(parameters[0] * s)


def _power_series_row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill sum_k a_k (parameters[0] <x, x'>)^k; parameters[1] = degree, then a_0, a_1, ..."""
    degree = int(parameters[1])
    for i in range(n):
        s = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
        s *= parameters[0]
        value = parameters[2 + degree]
        for k in range(degree - 1, -1, -1):
            value = value * s + parameters[2 + k]
        out[i] = value


def _check_coefficients(name: str, given: Any) -> None:
    if isinstance(given, str):
        if given != "exponential":
            raise ValueError(
                f'`{name}` must be "exponential" or a sequence of numbers, got {given!r}.'
            )
    elif not isinstance(given, Sequence | np.ndarray) or np.ndim(given) != 1 or not len(given):
        raise ValueError(
            f"`{name}` must be a sequence of the numbers a_0, a_1, ..., got "
            f'{given!r}. Or give the name "exponential".'
        )
    else:
        why = "A power series with a coefficient below 0 need not be a kernel."
        for n, a in enumerate(given):
            check_real(f"{name}[{n}]", a, low=0, why=why)
        if not any(given):
            raise ValueError(f"`{name}` must not all be 0, got {given!r}: the kernel would be 0.")


class DotProduct(_ScaledInnerProduct):
    r"""Dot-product kernel, :math:`k(x, x') = \sum_n a_n (s \langle x, x' \rangle)^n`.

    Parameters
    ----------
    coefficients : "exponential" or sequence of float, default="exponential"
        Coefficients :math:`a_0, a_1, \dots`, none below 0 and one above. "exponential" is
        :math:`a_n = 1/n!` for all n, :math:`k = \exp(s \langle x, x' \rangle)`.
    scale : float or None, default=None
        Factor :math:`s` of the inner product, above 0. None is 1 / n_features, known once the
        kernel is resolved: with standardised columns :math:`s \|x\|^2` is then about 1.
    base : float, default=2.0
        For random features only: a feature has degree n with a probability proportional to
        ``base**-n``. Above 1; below 2, degrees are drawn more evenly.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Random features of "exponential" stop at degree 16: at :math:`t = s \langle x, x' \rangle` in
    [0, 1] the rest of the series is 1e-15 of the kernel, at 4 it is 1e-6 and at 8 it is 4e-3.
    Their variance is large (DSG, Table 1, has the same): scale inputs so that t stays small.

    References
    ----------
    DSG, Table 1, whose probabilities are right for base = 2 only. P. Kar, H. Karnick, Random
    feature maps for dot product kernels, AISTATS 2012.

    Examples
    --------
    >>> from mercer.kernels import DotProduct
    >>> DotProduct([1.0, 0.0, 0.5], scale=1.0)([[1.0, 2.0]], [[2.0, 0.0], [-2.0, 1.0]])
    array([[3., 1.]])
    """

    _parameters = parameters(
        coefficients=_check_coefficients,
        scale=or_none(positive("It multiplies inner products; None takes 1 / n_features.")),
        base=real(
            low=1,
            open_low=True,
            why="The degrees of random features are drawn with probabilities like base**-n.",
        ),
    )

    def __init__(
        self,
        coefficients: Literal["exponential"] | Sequence[float] = "exponential",
        scale: float | None = None,
        base: float = 2.0,
    ) -> None:
        self.coefficients = coefficients
        self.scale = scale
        self.base = base
        self._check()

    def _of(self, products: FloatArray) -> FloatArray:
        products *= self._scale
        if isinstance(self.coefficients, str):
            return np.exp(products, out=products)
        values = np.full_like(products, self.coefficients[-1])
        for a in self.coefficients[-2::-1]:
            values *= products
            values += float(a)
        # NaN times 0 is NaN, but a constant kernel never looked at its products.
        return values if len(self.coefficients) > 1 else values + 0 * products

    @property
    def bound(self) -> float | None:
        """None: k(x, x) grows with x, unless it is constant."""
        constant = not isinstance(self.coefficients, str) and not any(self.coefficients[1:])
        return float(self.coefficients[0]) if constant else None

    def _row(self) -> RowFunction:
        if isinstance(self.coefficients, str):
            return RowFunction(_exponential_row, (self._scale,))
        numbers = [float(a) for a in self.coefficients]
        return RowFunction(_power_series_row, (self._scale, len(numbers) - 1, *numbers))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        exponential = isinstance(self.coefficients, str)
        given = EXPONENTIAL_COEFFICIENTS if exponential else self.coefficients
        coefficients = tuple(float(a) for a in given)
        scale, name = math.sqrt(self._scale), type(self).__name__
        return SeriesMap(
            n_inputs, coefficients, scale, float(self.base), options, path, kernel=name
        )
