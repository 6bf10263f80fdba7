"""Objectives of single rows: the mean of a loss, density ratios, and novelty.

The density ratio's is the variational form of the Kullback-Leibler divergence, whose minimiser is
log p/q; novelty's function is large where rows are common, and has a threshold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, loss_and_slopes
from mercer.objectives._base import Array, Batch, Objective

__all__ = [
    "KullbackLeibler",
    "Novelty",
    "Pointwise",
    "kl_lower_bound",
    "lower_quantile",
    "ratio_of",
]

# 1e13 times as dense is as good as infinitely, and exp of more would overflow soon.
_LARGEST = 30.0


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


class KullbackLeibler(Objective):
    r"""Estimate the log ratio of two densities from a sample of each.

    .. math:: \min_f\; E_q e^{f(x)} - E_p f(x) + \frac{\lambda}{2}\|f\|^2

    Without the ridge the minimiser is :math:`f = \log p/q`. Column 0 of the targets tells the
    samples apart: 1 for rows of p, 0 for rows of q. Every batch needs rows of both; the mean over
    each sample is taken by itself, whatever their numbers.

    References
    ----------
    DSG, eq. (8), where the minimiser is said to be log q/p; it is log p/q. Both samples are seen
    in every step instead of one at the throw of a coin, which takes away the coin's noise.

    Examples
    --------
    >>> batch = Batch(np.zeros((3, 1)), np.array([[1.0], [0.0], [0.0]]), np.ones(3))
    >>> KullbackLeibler().slopes(np.zeros((3, 1)), batch)[0].ravel()
    array([-1. ,  0.5,  0.5])
    """

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """See :class:`Objective`."""
        from_p = batch.targets[:, 0] > 0.5
        n, n_p = from_p.size, int(from_p.sum())
        share = batch.weights / np.where(from_p, n_p, n - n_p)
        f = values[:, 0]
        ratio = ratio_of(f)
        slopes: Array = np.where(from_p, -1.0, ratio) * share
        # Where the slope stays the same the loss is its straight line.
        beyond = np.maximum(f - _LARGEST, 0.0)
        losses = np.where(from_p, -f, ratio * (1.0 + beyond)) * share * n
        return slopes[:, np.newaxis], losses


def ratio_of(log_ratio: Array) -> Array:
    """Return e^f, but no more than e^30.

    Parameters
    ----------
    log_ratio : ndarray
        f.

    Returns
    -------
    ratio : ndarray
        Like ``log_ratio``, in (0, 1.1e13].

    Examples
    --------
    >>> bool(np.isfinite(ratio_of(np.array([0.0, 1e300]))).all())
    True
    """
    ratio: Array = np.exp(np.minimum(log_ratio, _LARGEST))
    return ratio


def kl_lower_bound(log_ratio_p: Array, log_ratio_q: Array) -> float:
    r"""Evaluate :math:`E_p f - E_q e^f + 1`, which is at most KL(p‖q), on a sample of each.

    Parameters
    ----------
    log_ratio_p, log_ratio_q : ndarray of shape (n_p,) and (n_q,)
        f at rows of p and of q that f was not learned from; what exceeds 30 counts as 30.

    Returns
    -------
    bound : float
        In nats. Its expectation is at most the divergence, and equal to it for f = log p/q.

    Examples
    --------
    >>> kl_lower_bound(np.zeros(3), np.zeros(5))
    0.0
    """
    mean_p = np.minimum(log_ratio_p, _LARGEST).mean()
    return float(mean_p - ratio_of(log_ratio_q).mean() + 1.0)


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
    saved_scalars = ("threshold",)

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
