"""Sums, products and multiples of kernels, which are kernels again."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._validation import parameters, positive
from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.composite import ProductMap, ScaledMap, SumMap, child_paths
from mercer.features.log_cosine import joined_cosines
from mercer.kernels._base import Kernel
from mercer.kernels._pairwise import FloatArray

__all__ = ["Product", "Scaled", "Sum"]


def check_kernel(name: str, value: Any) -> None:
    if not isinstance(value, Kernel):
        raise ValueError(
            f"`{name}` must be a kernel, got {value!r}. Make one of a name or a function with "
            "as_kernel."
        )


class _Pair(Kernel):
    """Two kernels; `_gram` and `_diagonal` combine theirs."""

    _takes_sparse = True  # the parts decide for themselves

    _parameters = parameters(left=check_kernel, right=check_kernel)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right
        self._check()

    def _missing(self) -> tuple[str, ...]:
        return tuple(n for n in ("left", "right") if not getattr(self, n).is_resolved)

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        return {name: getattr(self, name).resolve(rows) for name in ("left", "right")}

    def _part_maps(
        self, n_inputs: int, options: FeatureOptions, path: int
    ) -> tuple[FeatureMap, FeatureMap]:
        left, right = child_paths(path)
        return (
            self.left._feature_map(n_inputs, options, left),
            self.right._feature_map(n_inputs, options, right),
        )


class Sum(_Pair):
    """Sum of two kernels, k(x, x') = left(x, x') + right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The terms.

    Raises
    ------
    ValueError
        If a term is not a kernel.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) + Linear())([[1.0]], [[1.0], [2.0]])
    array([[2.        , 2.60653066]])
    """

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.left(X, Z)
        self.right._add_to(K, X, Z)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        return np.add(self.left.diag(X), self.right.diag(X))

    @property
    def bound(self) -> float | None:
        """Sum of the bounds of the terms; None if one has none."""
        left, right = self.left.bound, self.right.bound
        return None if left is None or right is None else left + right

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        left, right = self._part_maps(n_inputs, options, path)
        # Unpaired is what a product asks for, which needs every column to be alike.
        return SumMap(left, right, path, rotated=not options.paired)


class Product(_Pair):
    """Product of two kernels, k(x, x') = left(x, x') right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The factors.

    Raises
    ------
    ValueError
        If a factor is not a kernel.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) * Linear())([[1.0]], [[1.0], [2.0]])
    array([[1.        , 1.21306132]])
    """

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.left(X, Z)
        K *= self.right(X, Z)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        return np.multiply(self.left.diag(X), self.right.diag(X))

    @property
    def bound(self) -> float | None:
        """Product of the bounds of the factors; None if one has none."""
        left, right = self.left.bound, self.right.bound
        return None if left is None or right is None else left * right

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        # A product of cosines of the same inputs is a cosine of the sum of their frequencies.
        joined = joined_cosines(*self._part_maps(n_inputs, options, path), options, path)
        if joined is not None:
            return joined
        unpaired = options._replace(paired=False)
        return ProductMap(*self._part_maps(n_inputs, unpaired, path), path)


class Scaled(Kernel):
    """A kernel times a positive number, k(x, x') = factor * kernel(x, x').

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    factor : float
        The number, above 0.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel or ``factor`` is not positive.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> (2.0 * Linear())([[1.0]], [[1.0], [2.0]])
    array([[2., 4.]])
    """

    _takes_sparse = True  # the part decides for itself

    _parameters = parameters(
        kernel=check_kernel,
        factor=positive("A factor of 0 or below leaves no positive definite kernel."),
    )

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor
        self._check()

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.kernel(X, Z)
        K *= float(self.factor)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        return np.multiply(self.kernel.diag(X), float(self.factor))

    @property
    def bound(self) -> float | None:
        """Factor times the bound of the kernel; None if it has none."""
        inner = self.kernel.bound
        return None if inner is None else inner * float(self.factor)

    def _missing(self) -> tuple[str, ...]:
        return () if self.kernel.is_resolved else ("kernel",)

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        return {"kernel": self.kernel.resolve(rows)}

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return ScaledMap(self.kernel._feature_map(n_inputs, options, path), float(self.factor))
