"""The mean of a loss over single rows: E l(f(x), y)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, loss_and_slopes
from mercer.objectives._base import Array, Batch, Objective

__all__ = ["Pointwise"]


class Pointwise(Objective):
    """Expected loss of single rows (POLK, eq. (1); Ying & Zhou, Algorithm 1).

    Parameters
    ----------
    loss : Loss
        The loss.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.curvature, self.lipschitz = loss.curvature, loss.lipschitz

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """See :class:`Objective`."""
        losses, slopes = loss_and_slopes(self.loss, values, batch.targets)
        scaled: Array = slopes * (batch.weights / batch.weights.size)[:, np.newaxis]
        return scaled, losses
