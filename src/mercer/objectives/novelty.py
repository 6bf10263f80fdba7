"""The one-class objective: a function that is large where rows are common, and its threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_real
from mercer.objectives._base import Array, Batch, Objective

__all__ = ["Novelty", "lower_quantile"]


class Novelty(Objective):
    r"""Find f and a threshold tau that a share nu of the rows stay below.

    .. math:: \min_{f, \tau}\; E \max(0, \tau - f(x)) + \frac{\nu}{2}\|f\|^2 - \nu\tau

    At the minimum f is a weighted mean of kernels at the least common rows, so that f and tau are
    of the size of kernel values. The learner's ridge parameter must be nu.

    Parameters
    ----------
    nu : float
        Share of the rows below the threshold, in (0, 1].
    unit : float, default=1.0
        Typical size of f at the minimum. The threshold starts there and its steps are multiplied
        by it, which changes the way to the minimum, not the minimum itself. 1 is the paper's
        step; a smaller value such as the mean of the Gram matrix keeps the first steps from
        throwing the threshold far below every f.

    Attributes
    ----------
    threshold : float
        tau of now.

    References
    ----------
    DSG, Section 4, "Kernel Novelty Detection". Weights multiply the terms of their row,
    ``max(0, tau - f) - nu tau``, so that f and tau grow with them alike.

    Examples
    --------
    >>> batch = Batch(np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2))
    >>> novelty, values = Novelty(nu=0.5), np.array([[0.2], [2.0]])
    >>> novelty.slopes(values, batch)[0].ravel()
    array([-0.5,  0. ])
    >>> novelty.update(values, batch, step_size=0.1)  # as many rows below as there should be
    >>> novelty.threshold
    1.0
    """

    lipschitz = 1.0

    def __init__(self, nu: float, unit: float = 1.0) -> None:
        self.nu = nu
        self.unit = unit
        self.threshold = unit

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """See :class:`Objective`; a row that is exactly at the threshold has slope 0."""
        down = (-batch.weights / batch.weights.size)[:, np.newaxis]
        scaled: Array = np.where(values < self.threshold, down, 0.0)
        losses = np.maximum(self.threshold - values[:, 0], 0.0) - self.nu * self.threshold
        return scaled, losses

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Move the threshold down if more than a share nu of the rows are below it, else up."""
        below = values[:, 0] < self.threshold
        slope = float(np.mean(batch.weights * (below - self.nu)))
        self.threshold -= self.unit * step_size * slope

    def state(self) -> dict[str, Any]:
        """See :class:`Objective`."""
        return {"threshold": self.threshold}

    def set_state(self, state: dict[str, Any]) -> None:
        """See :class:`Objective`."""
        if set(state) != {"threshold"}:
            raise ValueError(f"The state of a novelty objective is a threshold, got {state!r}.")
        self.threshold = check_real("threshold", state["threshold"])


def lower_quantile(values: Array, weights: Array, share: float) -> float:
    """Return the largest threshold that at most a share of the weight lies strictly below.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values, at least one.
    weights : ndarray of shape (n,)
        Their weights, not all 0.
    share : float
        In (0, 1].

    Returns
    -------
    quantile : float
        One of the values.

    Examples
    --------
    >>> lower_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.25)
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    # Rounding must not take a row more than the share.
    within = np.searchsorted(total, share * total[-1] * (1.0 + 1e-12), side="right")
    return float(values[order[min(int(within), values.size - 1)]])
