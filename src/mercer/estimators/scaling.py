"""What ``kernel="auto"`` does where no race is part of the function: scale inputs, centre targets.

The race of :mod:`mercer.selection` chooses a map on a few of the first rows; what learns gets the
rows behind it, so that its kernel is one of mapped rows in compiled loops as in any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.learning.regression_targets import race_rows, weighted_medians
from mercer.losses import Loss
from mercer.maps import Affine, Standardize
from mercer.objectives import Objective
from mercer.selection import RaceSettings, race
from mercer.sums import Rows

__all__ = ["FEWEST_ROWS", "RACE", "MappedRows", "centre_of", "input_map", "standardized"]

Array = NDArray[np.float64]

#: Fewer rows say too little of scales and centres: inputs and targets stay as they are.
FEWEST_ROWS = 20
#: Fewer rows than a race of the whole model has: only a map, and perhaps a length, is wanted.
RACE = RaceSettings(few_rows=400, pilot_rows=4000)


class MappedRows:
    """Rows behind a map, which are mapped when they are taken.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows; nothing is copied.
    map : Affine
        The map.

    Examples
    --------
    >>> rows = MappedRows(np.array([[1.0], [3.0], [5.0]]), Affine([3.0], [0.5]))
    >>> rows.shape, rows[1:]
    ((3, 1), array([[0.],
           [1.]]))
    """

    def __init__(self, X: NDArray[np.floating], map: Affine) -> None:
        self._rows, self._map = X, map

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns behind the map."""
        return len(self._rows), self._map.n_outputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return self._rows.dtype

    def __len__(self) -> int:
        return len(self._rows)

    def toarray(self) -> NDArray[np.floating]:
        """Return all rows, mapped."""
        return self[:]

    def __getitem__(self, which: Any) -> NDArray[np.floating]:
        return self._map(self._rows[which])


def standardized(X: NDArray[np.floating]) -> Affine:
    """Return the map to mean 0 and deviation 1 of each column; of fewer rows than two the first."""
    return Standardize().fit(X)


def input_map(
    objective: Objective, rows: Rows, n_outputs: int, settings: RaceSettings = RACE
) -> tuple[Affine, float] | None:
    """Find the map of the inputs by which a regression predicts an objective's targets best.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    rows : Rows
        Some rows in random order, all with a weight; targets as the loss encodes them.
    n_outputs : int
        Of the function.
    settings : RaceSettings
        How much is tried.

    Returns
    -------
    map, length_scale : Affine and float, or None
        The map, and the length scale behind it of the regression; None if there are no targets
        that a regression can be on.
    """
    judged = race_rows(objective, rows, n_outputs)
    if judged is None:
        return None
    best = race(judged, None, 0, cells=False, settings=settings).best_global
    return best.map, best.length


def centre_of(loss: Loss, y: Array, weights: Array) -> Array | None:
    """Return where the targets of a regression are: their mean, or median if slopes are bounded.

    Parameters
    ----------
    loss : Loss
        Of the residuals; None is returned for one of the scores themselves.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.

    Examples
    --------
    >>> from mercer.losses import AbsoluteError, Poisson, Squared
    >>> y, weights = np.r_[np.zeros(30), 4.0], np.ones(31)
    >>> [centre_of(loss, y, weights) for loss in (Squared(), AbsoluteError(), Poisson())]
    [array([0.12903226]), array([0.]), None]
    """
    used = weights > 0.0
    if not loss.of_residuals or np.count_nonzero(used) < FEWEST_ROWS:
        return None
    targets, weights = y.reshape(len(y), -1)[used], weights[used]
    if loss.lipschitz is not None:
        return weighted_medians(targets, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        centre: Array = np.average(targets, axis=0, weights=weights)
    return centre if np.isfinite(centre).all() else None
