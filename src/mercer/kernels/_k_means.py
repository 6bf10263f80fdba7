"""K-means on rows, to place the anchors of a partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.kernels._cells import Cells, rows_by_cell
from mercer.kernels._pairwise import FloatArray, squared_norms

__all__ = ["k_means"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_N_ITERATIONS = 8
_ROWS_PER_CENTRE = 20
_ROWS_AT_LEAST = 8000


def k_means(rows: FloatArray, n_centres: int, seed: int) -> Array:
    """Centres of clusters of the rows, by Lloyd's algorithm on a sample of them.

    It starts from distinct rows drawn at random; a centre that loses all its rows moves to the row
    that is farthest from its own.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Finite rows, at least one. Of more than 8000 and 20 for each centre, so many are drawn.
    n_centres : int
        Number of centres.
    seed : int
        Source of randomness.

    Returns
    -------
    centres : ndarray of shape (n_found, n_features) of float64
        ``n_centres`` of them, or all distinct rows if those are fewer.

    References
    ----------
    S. P. Lloyd, Least squares quantization in PCM, IEEE Trans. Information Theory, 1982.
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    rows = rows[order[: max(_ROWS_AT_LEAST, _ROWS_PER_CENTRE * n_centres)]]
    firsts = np.unique(rows, axis=0, return_index=True)[1]
    centres = rows[np.sort(firsts)[:n_centres]].astype(np.float64)
    before: Indices | None = None
    for _ in range(_N_ITERATIONS):
        cells = Cells(centres).of(rows)
        if before is not None and np.array_equal(cells, before):
            break
        before = cells
        _move_to_means(centres, rows, cells)
    return centres


def _move_to_means(centres: Array, rows: FloatArray, cells: Indices) -> None:
    groups = rows_by_cell(cells)
    empty = np.setdiff1d(np.arange(len(centres)), list(groups))
    if empty.size:
        distances = squared_norms(rows - centres[cells])
        farthest = np.argsort(-distances, kind="stable")[: empty.size]
    for cell, members in groups.items():
        centres[cell] = rows[members].mean(axis=0, dtype=np.float64)
    if empty.size:
        centres[empty] = rows[farthest]
