"""Formulas and checks that several risks use."""

from __future__ import annotations

import numpy as np
from scipy import special

from mercer._validation import real
from mercer.risks._base import Array

__all__ = ["check_smoothing", "positive_part"]


def positive_part(u: Array, smoothing: float) -> tuple[Array, Array]:
    r"""Positive part :math:`\max(u, 0)`, smoothed to a softplus, and its derivative.

    .. math:: s(u) = \tau \log(1 + e^{u/\tau}), \qquad s'(u) = \frac{1}{1 + e^{-u/\tau}}

    Parameters
    ----------
    u : ndarray of shape (n,)
        Numbers in units of the loss scale.
    smoothing : float
        :math:`\tau`, in the same units; 0 gives the positive part itself, with slope 0 at its
        kink.

    Returns
    -------
    value, slope : ndarray of shape (n,)

    References
    ----------
    COLK, Section II, after eq. (12), which calls it a softmax.

    Examples
    --------
    >>> positive_part(np.array([-1.0, 0.0, 2.0]), 0.0)
    (array([0., 0., 2.]), array([0., 0., 1.]))
    """
    if smoothing == 0:
        return np.maximum(u, 0.0), np.where(np.isnan(u), np.nan, u > 0.0)
    # A loss that is NaN or overflows is for the learner to report.
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = u / smoothing
        slope: Array = special.expit(scaled)
        return smoothing * np.logaddexp(0.0, scaled), slope


#: Check of the width of a smoothed kink.
check_smoothing = real(
    low=0, why="It is the width of a smoothed kink in units of the loss scale; 0 leaves the kink."
)
