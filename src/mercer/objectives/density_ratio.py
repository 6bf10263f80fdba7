"""The variational form of the Kullback-Leibler divergence, whose minimiser is log p/q."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.objectives._base import Array, Batch, Objective

__all__ = ["KullbackLeibler", "kl_lower_bound", "ratio_of"]

# 1e13 times as dense is as good as infinitely, and exp of more would overflow soon.
_LARGEST = 30.0


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
