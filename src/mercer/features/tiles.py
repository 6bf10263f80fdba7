"""Sums of random features by tiles: the features of a tile stay in the cache and are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mercer._threads import spread
from mercer.features.feature_map import FeatureMap, Floats, Numbers, Prepared

__all__ = ["Part", "add_blocks", "features_of"]

# Features of a tile: 512 kB of float32, which fits in a core's second-level cache.
_TILE = 131_072


def _rows_per_tile(n_features: int) -> int:
    return max(16, _TILE // n_features)


class Part(NamedTuple):
    """One block's part of a function: Z @ coefficients * factor.

    Attributes
    ----------
    numbers : tuple of ndarray
        Of the block, from ``FeatureMap.draw``.
    coefficients : ndarray of shape (n_features, n_columns)
        Of the dtype of the rows.
    factor : float
        What multiplies them.
    """

    numbers: Numbers
    coefficients: Floats
    factor: float = 1.0


def add_blocks(
    feature_map: FeatureMap, prepared: Prepared, parts: Sequence[Part], values: Floats
) -> None:
    """Add the parts of some blocks of a function, ``values += Z @ coefficients * factor`` for each.

    Parameters
    ----------
    feature_map : FeatureMap
        Makes Z.
    prepared : tuple of ndarray
        Rows, from ``feature_map.prepare``.
    parts : sequence of Part
        Blocks, all of one size.
    values : ndarray of shape (n, n_columns)
        Changed in place. Does not depend on the number of threads, nor on how blocks are grouped.
    """
    n, (m, n_columns) = values.shape[0], parts[0].coefficients.shape
    dtype = parts[0].coefficients.dtype
    tile = _rows_per_tile(m)

    def work(first: int, last: int) -> None:
        Z = np.empty((min(tile, n), m), dtype)
        product = np.empty((Z.shape[0], n_columns), dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at the values
            for start in range(first * tile, min(last * tile, n), tile):
                rows = slice(start, min(start + tile, n))
                size = rows.stop - rows.start
                points = tuple(P[rows] for P in prepared)
                Z_rows, product_rows, sums = Z[:size], product[:size], values[rows]
                for numbers, coefficients, factor in parts:
                    feature_map.transform(points, numbers, Z_rows)
                    np.matmul(Z_rows, coefficients, out=product_rows)
                    if factor != 1.0:
                        product_rows *= factor
                    sums += product_rows

    spread(work, -(-n // tile))


def features_of(
    feature_map: FeatureMap, prepared: Prepared, numbers: Numbers, n_features: int
) -> Floats:
    """Features of all rows, shape (n, n_features)."""
    n = prepared[0].shape[0]
    Z: Floats = np.empty((n, n_features), prepared[0].dtype)
    tile = _rows_per_tile(n_features)

    def work(first: int, last: int) -> None:
        rows = slice(first * tile, min(last * tile, n))
        for start in range(rows.start, rows.stop, tile):
            piece = slice(start, min(start + tile, rows.stop))
            feature_map.transform(tuple(P[piece] for P in prepared), numbers, Z[piece])

    spread(work, -(-n // tile))
    return Z
