"""Sums of random features, tile by tile: the features of a tile stay in the cache and are dropped."""

from __future__ import annotations

import numpy as np

from mercer._threads import spread
from mercer.features._base import FeatureMap, Floats, Numbers, Prepared

__all__ = ["add_block", "features_of"]

# Features of a tile: 512 kB of float32, which fits in a core's second-level cache.
_TILE = 131_072


def _rows_per_tile(n_features: int) -> int:
    return max(16, _TILE // n_features)


def add_block(
    feature_map: FeatureMap,
    prepared: Prepared,
    numbers: Numbers,
    coefficients: Floats,
    values: Floats,
) -> None:
    """Add one block's part of a function, ``values += Z @ coefficients``.

    Parameters
    ----------
    feature_map : FeatureMap
        Makes Z.
    prepared : tuple of ndarray
        Rows, from ``feature_map.prepare``.
    numbers : tuple of ndarray
        Of the block, from ``feature_map.draw``.
    coefficients : ndarray of shape (n_features, n_columns)
        Of the block, of the dtype of the rows.
    values : ndarray of shape (n, n_columns)
        Changed in place. Does not depend on the number of threads.
    """
    n, (m, n_columns) = values.shape[0], coefficients.shape
    tile = _rows_per_tile(m)

    def work(first: int, last: int) -> None:
        Z = np.empty((min(tile, n), m), coefficients.dtype)
        product = np.empty((Z.shape[0], n_columns), coefficients.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # the learner looks at the values
            for number in range(first, last):
                rows = slice(number * tile, min((number + 1) * tile, n))
                size = rows.stop - rows.start
                feature_map.transform(tuple(P[rows] for P in prepared), numbers, Z[:size])
                np.matmul(Z[:size], coefficients, out=product[:size])
                values[rows] += product[:size]

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
