"""Rows near the boundary between classes, for the dictionary of a classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.sums import GlobalPart, Rows, labels_of_codes

__all__ = ["boundary_rows"]

# Points of the pilot, rows that it learns, and rows that choose its ridge.
_POINTS, _ROWS, _JUDGES = 800, 8000, 2000


def boundary_rows(kernel: Kernel, rows: Rows, n: int) -> NDArray[np.int64]:
    """Numbers of the rows at which a small pilot is least sure of the class.

    A loss of classes is decided near their boundary, where k-means has few points if classes are
    far apart: there steps on the loss want more of them.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    rows : Rows
        In random order; targets are class codes -1 and +1, one column for two classes.
    n : int
        How many rows to find.

    Returns
    -------
    numbers : ndarray of shape (min(n, n_rows),)
        The least sure first.
    """
    learned = min(_ROWS, 4 * len(rows) // 5)
    points = np.asarray(rows.X[:_POINTS], dtype=np.float64)
    pilot = GlobalPart(kernel, points, rows.targets.shape[1])
    pilot.learn(rows[:learned])
    pilot.solve(rows[learned : learned + _JUDGES])
    values = pilot.evaluate(rows.X)
    if values.shape[1] == 1:
        margins = np.abs(values[:, 0])
    else:
        own = np.take_along_axis(values, labels_of_codes(rows.targets)[:, np.newaxis], 1)[:, 0]
        np.put_along_axis(values, labels_of_codes(rows.targets)[:, np.newaxis], -np.inf, 1)
        margins = np.abs(own - values.max(axis=1))
    return np.argsort(margins, kind="stable")[:n]
