"""Random features of sums, products and multiples of kernels, and of kernels after a map."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features.feature_map import (
    MOST_PATHS,
    SCALARS,
    FeatureMap,
    Floats,
    Numbers,
    Prepared,
    stream_of,
)
from mercer.numerics import philox


def child_paths(path: int) -> tuple[int, int]:
    """Paths of the two parts of a composite kernel.

    Parameters
    ----------
    path : int
        Path of the composite.

    Returns
    -------
    left, right : int
        Paths of its parts, different from the paths of all other parts.

    Raises
    ------
    ValueError
        If kernels are nested too deeply for the generator, which has 2**16 paths.

    Examples
    --------
    >>> child_paths(0)
    (1, 2)
    """
    left, right = 2 * path + 1, 2 * path + 2
    if right >= MOST_PATHS:
        raise ValueError(
            "Random features take sums and products nested at most 15 deep. Write "
            "(a + b) + (c + d) instead of ((a + b) + c) + d, which is one deeper per term."
        )
    return left, right


def _n_terms(feature_map: FeatureMap) -> int:
    """Terms of the outermost sum."""
    return int(getattr(feature_map, "n_terms", 1))


class _PairMap(FeatureMap):
    """Two maps of the same rows; a header of integers precedes the numbers of both parts."""

    def __init__(self, left: FeatureMap, right: FeatureMap, path: int) -> None:
        super().__init__(left.n_inputs, path)
        self.left = left
        self.right = right
        self.n_prepared = left.n_prepared + right.n_prepared

    def prepare(self, X: Floats) -> Prepared:
        """Both parts' arrays, one after the other."""
        return (*self.left.prepare(X), *self.right.prepare(X))

    def _parts(self, prepared: Prepared) -> tuple[Prepared, Prepared]:
        return prepared[: self.left.n_prepared], prepared[self.left.n_prepared :]


class SumMap(_PairMap):
    r"""Features of a sum of kernels: some columns for each term, :math:`z = [z_1, z_2]`.

    All terms of a nested sum get about as many columns.

    Parameters
    ----------
    left, right : FeatureMap
        Maps of the terms.
    path : int, default=0
        Place in a composite kernel.
    rotated : bool, default=False
        Whether columns are rotated by a random number of places. Then every column alone has the
        kernel as its expectation, up to the factor 1/m, as a product of maps needs it.

    Notes
    -----
    A block needs a column for each term.
    """

    def __init__(
        self, left: FeatureMap, right: FeatureMap, path: int = 0, *, rotated: bool = False
    ) -> None:
        super().__init__(left, right, path)
        self.rotated = rotated
        self.in_order = True
        self.n_terms = _n_terms(left) + _n_terms(right)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Sizes, then both parts' numbers."""
        if n_features < self.n_terms:
            raise ValueError(
                f"Random features of a sum of {self.n_terms} kernels must be at least "
                f"{self.n_terms}, got {n_features}: each kernel needs one of its own."
            )
        # Rounded up: a term more on the left never takes the last column from the right.
        n_left = -(-n_features * _n_terms(self.left) // self.n_terms)
        shift = 0
        if self.rotated:
            word = philox.words(seed, block, stream_of(self.path, SCALARS), 1, 1)[0, 0]
            shift = (int(word) * n_features) >> 32
        left = self.left.draw(seed, block, n_left, dtype)
        right = self.right.draw(seed, block, n_features - n_left, dtype)
        return (np.array([n_left, shift, len(left)]), *left, *right)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: both parts', side by side."""
        n_left, shift, count = (int(number) for number in numbers[0])
        n, m = out.shape
        left, right = self._parts(prepared)
        Z = np.empty((n, n_left), dtype=out.dtype)
        self.left.transform(left, numbers[1 : 1 + count], Z)
        place_columns(Z, shift, out)
        Z = np.empty((n, m - n_left), dtype=out.dtype)
        self.right.transform(right, numbers[1 + count :], Z)
        place_columns(Z, (shift + n_left) % m, out)


def place_columns(Z: Floats, start: int, out: Floats) -> None:
    """Copy columns to ``out`` from column ``start`` on, wrapping around to column 0."""
    n_before_end = min(Z.shape[1], out.shape[1] - start)
    out[:, start : start + n_before_end] = Z[:, :n_before_end]
    out[:, : Z.shape[1] - n_before_end] = Z[:, n_before_end:]


class ProductMap(_PairMap):
    r"""Features of a product of kernels: :math:`z_i = \sqrt{m}\, z_{1i}\, z_{2i}`.

    The product is taken column by column, so every column of the parts must have the kernel as its
    expectation, up to the factor 1/m: cosines with a phase do, cosine and sine halves do not. If
    the columns of both parts have an order, the columns of the right part are shuffled. Otherwise
    column i of one part would always meet the same kind of column of the other, such as the same
    degree or the same term, and the error would not fall with the number of features.

    Parameters
    ----------
    left, right : FeatureMap
        Maps of the factors, unpaired and drawn on different paths.
    path : int, default=0
        Place in a composite kernel.

    Notes
    -----
    Shuffled features are not the first of more.
    """

    def __init__(self, left: FeatureMap, right: FeatureMap, path: int = 0) -> None:
        super().__init__(left, right, path)
        self.in_order = left.in_order or right.in_order

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Return the size of the left part's numbers, of a permutation or nothing, then of both."""
        left = self.left.draw(seed, block, n_features, dtype)
        right = self.right.draw(seed, block, n_features, dtype)
        order = np.arange(0)
        if self.left.in_order and self.right.in_order:
            stream = stream_of(self.path, SCALARS)
            order = philox.words(seed, block, stream, n_features, 1)[0].argsort(kind="stable")
        return (np.array([len(left)]), order, *left, *right)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: products of the parts', column by column."""
        count, order = int(numbers[0][0]), numbers[1]
        left, right = self._parts(prepared)
        self.left.transform(left, numbers[2 : 2 + count], out)
        Z = np.empty_like(out)
        self.right.transform(right, numbers[2 + count :], Z)
        out *= np.take(Z, order, axis=1) if order.size else Z
        out *= math.sqrt(out.shape[1])


class _InnerMap(FeatureMap):
    """Features made from the features of one inner map."""

    def __init__(self, n_inputs: int, inner: FeatureMap) -> None:
        super().__init__(n_inputs, inner.path)
        self.inner = inner
        self.n_prepared = inner.n_prepared
        self.n_terms = _n_terms(inner)
        self.in_order = inner.in_order

    def prepare(self, X: Floats) -> Prepared:
        """Arrays of the kernel's map."""
        return self.inner.prepare(X)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Numbers of the kernel's map."""
        return self.inner.draw(seed, block, n_features, dtype)


class ScaledMap(_InnerMap):
    """Features of a scaled kernel: the kernel's features times the square root of the factor.

    Parameters
    ----------
    inner : FeatureMap
        Map of the kernel.
    factor : float
        Factor of the kernel, above 0.
    """

    def __init__(self, inner: FeatureMap, factor: float) -> None:
        super().__init__(inner.n_inputs, inner)
        self.factor = factor

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: the kernel's, scaled."""
        self.inner.transform(prepared, numbers, out)
        out *= math.sqrt(self.factor)


class MappedMap(_InnerMap):
    """Features of a kernel after a map: the kernel's features at the mapped rows.

    Parameters
    ----------
    n_inputs : int
        Number of inputs before the map.
    inner : FeatureMap
        Map of the kernel, for the mapped rows.
    image : callable
        Maps rows to mapped rows of the same dtype, C-ordered.
    """

    def __init__(self, n_inputs: int, inner: FeatureMap, image: Callable[[Floats], Floats]) -> None:
        super().__init__(n_inputs, inner)
        self.image = image

    def prepare(self, X: Floats) -> Prepared:
        """Arrays of the kernel's map for the mapped rows."""
        mapped = self.image(X)
        if mapped.shape[1] != self.inner.n_inputs:
            raise ValueError(
                f"`map` must always return as many columns, got {mapped.shape[1]} and, for a row "
                f"of ones, {self.inner.n_inputs}. Features are drawn for a fixed number."
            )
        return self.inner.prepare(mapped)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: the kernel's."""
        self.inner.transform(prepared, numbers, out)
