"""What the loop asks of an objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "Objective"]

Array = NDArray[np.float64]


class Batch(NamedTuple):
    """Rows of one step."""

    X: NDArray[np.floating]  # (n, n_features)
    targets: Array  # (n, target_width), encoded by the loss
    weights: Array  # (n,), sample weight times class weight


class Objective:
    """What is minimised, as seen by the loop: where f must be known, and which way it should move.

    A new objective implements both methods; everything else (expansion, kernel, schedule) stays.
    """

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Points at which the objective needs the function, (n_points, n_features)."""
        raise NotImplementedError

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Differentiate the objective in the values of the function.

        Parameters
        ----------
        values : ndarray of shape (n_points, n_outputs)
            The function at :meth:`points`.
        batch : Batch
            Rows of this step.

        Returns
        -------
        slopes : ndarray of shape (n_points, n_outputs)
            Derivatives, divided by the number of rows.
        losses : ndarray of shape (n,)
            Loss of each row before it is learned, for the progressive curve.
        """
        raise NotImplementedError
