"""Dot-product kernels: power series of the inner product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mercer._validation import check_real, or_none, parameters, positive, real
from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.series import EXPONENTIAL_COEFFICIENTS, SeriesMap
from mercer.kernels import _compiled_additive as _compiled
from mercer.kernels._base import Kernel
from mercer.kernels._compiled import RowFunction
from mercer.kernels._pairwise import FloatArray, inner_products, squared_norms

__all__ = ["DotProduct"]


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


class DotProduct(Kernel):
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
        Of the random features only: a feature has the degree n with a probability proportional to
        ``base**-n``. Above 1; below 2 degrees are drawn more evenly.

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

    _takes_sparse = True

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

    def _missing(self) -> tuple[str, ...]:
        return ("scale",) if self.scale is None else ()

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        return {"scale": 1 / rows.shape[1]}

    @property
    def _scale(self) -> float:
        assert self.scale is not None  # the kernel is resolved
        return float(self.scale)

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

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        return self._of(inner_products(X, Z))

    def _diagonal(self, X: Any) -> FloatArray:
        return self._of(squared_norms(X))

    @property
    def bound(self) -> float | None:
        """None: k(x, x) grows with x, unless it is constant."""
        constant = not isinstance(self.coefficients, str) and not any(self.coefficients[1:])
        return float(self.coefficients[0]) if constant else None

    def _row(self) -> RowFunction:
        if isinstance(self.coefficients, str):
            return RowFunction(_compiled.exponential_dot, (self._scale,))
        numbers = [float(a) for a in self.coefficients]
        return RowFunction(_compiled.power_series, (self._scale, len(numbers) - 1, *numbers))

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        exponential = isinstance(self.coefficients, str)
        given = EXPONENTIAL_COEFFICIENTS if exponential else self.coefficients
        coefficients = tuple(float(a) for a in given)
        scale, name = math.sqrt(self._scale), type(self).__name__
        return SeriesMap(
            n_inputs, coefficients, scale, float(self.base), options, path, kernel=name
        )
