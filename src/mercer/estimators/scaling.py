"""``kernel="auto"`` for functions that do not race: scale the inputs and centre the targets.

The race of :mod:`mercer.selection` chooses a map on some of the first rows. The learner then
receives mapped rows, so compiled loops need no mapped kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.learning.regression_targets import race_rows, weighted_medians, winsorised
from mercer.losses import Loss
from mercer.maps import Affine, Standardize
from mercer.objectives import Objective
from mercer.selection import RaceSettings, race
from mercer.sums import Rows

Array = NDArray[np.float64]

#: With fewer rows, scales and centres are too uncertain: inputs and targets stay as they are.
FEWEST_ROWS = 20
#: Fewer rows than in the race of a whole model, since only a map and perhaps a length scale are
#: chosen. The map is final, so weights of columns are not chosen on few rows.
RACE = RaceSettings(small=2000, pilot_rows=400, fewest_for_metrics=100)
#: Rows of that race if there are more than ``small``. A third is for pilots, which fit half of it
#: and then, for the best pilot, all of it; the other rows judge.
MANY_ROWS = 3000
# Values more median absolute deviations from the median than this are errors or codes. Heavy tails,
# which may matter, are nearer.
_OUTLYING = 100.0
# Squares of mapped values must not overflow, not even in float32.
_FAR = 1e9


def image_of(map: Affine, X: Any) -> NDArray[np.floating]:
    """Map rows to a dense array; values are clipped at ±1e9, which is far away as well.

    Parameters
    ----------
    map : Affine
        The map.
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
        Finite rows.

    Examples
    --------
    >>> image_of(Affine([0.0], [1e5]), np.array([[2.0], [-1e308]]))
    array([[ 2.e+05],
           [-1.e+09]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        image: NDArray[np.floating] = map(X if isinstance(X, np.ndarray) else X.toarray())
    if not np.abs(image).max(initial=0.0) <= _FAR:
        image = np.clip(np.nan_to_num(image, nan=_FAR, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)
    return image


class MappedRows:
    """Rows that are mapped only when they are read.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows, not copied.
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
        """Number of rows, and of columns after the map."""
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
        return image_of(self._map, self._rows[which])


def standardized(X: NDArray[np.floating]) -> Affine:
    """Return the map of each column to mean 0 and deviation 1, in which outliers count little."""
    return Standardize().fit(_without_outliers(X, np.ones(len(X))))


def _without_outliers(X: NDArray[np.floating], weights: Array) -> NDArray[np.floating]:
    """Return rows with far outliers moved closer, so that one value cannot set a column's scale."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = winsorised(np.asarray(X, dtype=np.float64), weights, beyond=_OUTLYING)
    return rows.astype(X.dtype, copy=False)


def input_map(
    objective: Objective, rows: Rows, n_outputs: int, settings: RaceSettings = RACE
) -> tuple[Affine, float] | None:
    """Choose the map of the inputs with which a regression best predicts an objective's targets.

    Parameters
    ----------
    objective : Objective
        Objective to minimise.
    rows : Rows
        Rows in random order, with positive weights and encoded targets.
    n_outputs : int
        Number of outputs of the function.
    settings : RaceSettings
        Settings of the race.

    Returns
    -------
    map, length_scale : Affine and float, or None
        The map, and the length scale that the regression uses after it; None if the objective has
        no regression targets.
    """
    rows = replace(rows, X=_without_outliers(rows.X, rows.weights))
    judged = race_rows(objective, rows, n_outputs)
    if judged is None:
        return None
    # Affine maps only. On few rows, metrics learned upon metrics follow noise, and steps do not
    # smooth.
    gaussian = settings._replace(families=("gaussian",), rounds=1)
    result = race(judged, None, 0, cells=False, settings=gaussian)
    best = result.best_global
    d, n = best.map.n_inputs, min(len(judged), settings.pilot_rows)
    if result.plain is not None and "full metric" in best.metric and d * (d + 1) // 2 > n:
        # The metric has more numbers than its pilot has rows. It helps pilots on few rows, but
        # harms the model of all rows.
        best = result.plain
    assert isinstance(best.map, Affine)
    return best.map, best.length


def centre_of(loss: Loss, y: Array, weights: Array) -> Array | None:
    """Return the centre of regression targets: the mean, or the median for bounded slopes.

    Parameters
    ----------
    loss : Loss
        Loss; the result is None unless it is a loss of residuals.
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


def mean_and_deviation(y: Array, weights: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of targets, (n_targets,); 1 for constant targets.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.

    Raises
    ------
    ValueError
        If mean or deviation is not finite.

    Examples
    --------
    >>> mean_and_deviation(np.array([1.0, 3.0]), np.ones(2))
    (array([2.]), array([1.]))
    """
    targets = y.reshape(len(y), -1)
    weights = weights if weights.any() else np.ones(len(y))
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Array = np.average(targets, axis=0, weights=weights)
        squares: Array = np.average((targets - mean) ** 2, axis=0, weights=weights)
    if not np.isfinite(squares).all():
        raise ValueError(
            f"The targets are too large to be learned in units of their deviation, up to "
            f"{np.abs(targets).max():.3g}. Divide them by some power of ten."
        )
    return mean, np.where(squares > 0.0, np.sqrt(squares), 1.0)
