"""Classification losses: margins of labels -1 and +1, and losses over all classes at once."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from mercer.losses._base import Array, MarginLoss, MulticlassLoss
from mercer.validation import parameters, real


def _logistic(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        margin = target[c] * scores[c]
        if margin > 0.0:  # exponentials of negative numbers only: no overflow
            e = math.exp(-margin)
            total += math.log1p(e)
            slopes[c] = -target[c] * (e / (1.0 + e))
        else:
            e = math.exp(margin)
            total += math.log1p(e) - margin
            slopes[c] = -target[c] / (1.0 + e)
    value[0] = total


def _logistic_probabilities(F: Array) -> Array:
    """Logistic function of the score; normalised over one-versus-rest scores."""
    if F.shape[1] == 1:
        return np.asarray(special.expit(np.hstack([-F, F])))
    # In logarithms: far from all classes every logistic function underflows.
    return np.asarray(special.softmax(special.log_expit(F), axis=1))


class Logistic(MarginLoss):
    r"""Logistic loss :math:`\ell = \log(1 + e^{-y f})`: the score follows the log-odds.

    References
    ----------
    POLK, eq. (7), with the sign of f turned: there P(y = 0) is the logistic function of f.

    Examples
    --------
    >>> loss = Logistic()
    >>> loss.derivative([1.0, -1.0], [0.0, 0.0])
    array([-0.5,  0.5])
    >>> loss.probabilities([[0.0]])
    array([[0.5, 0.5]])
    """

    curvature = 0.25
    lipschitz = 1.0
    hoelder_exponent = 1.0
    hoelder_constant = 0.25
    has_probabilities: ClassVar[bool] = True
    row = staticmethod(_logistic)
    _inverse_link = staticmethod(_logistic_probabilities)


def _hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit
            slopes[c] = -target[c]
    value[0] = total


class Hinge(MarginLoss):
    r"""Hinge loss :math:`\ell = \max(1 - y f, 0)` of support vector machines.

    Examples
    --------
    >>> Hinge().value([1.0, 1.0], [0.25, 2.0])
    array([0.75, 0.  ])
    """

    lipschitz = 1.0
    row = staticmethod(_hinge)


def _squared_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit * deficit
            slopes[c] = -2.0 * target[c] * deficit
    value[0] = total


class SquaredHinge(MarginLoss):
    r"""Squared hinge loss :math:`\ell = \max(1 - y f, 0)^2`, smooth.

    Examples
    --------
    >>> SquaredHinge().derivative([1.0], [0.5])
    array([-1.])
    """

    curvature = 2.0
    hoelder_exponent = 1.0
    hoelder_constant = 2.0
    row = staticmethod(_squared_hinge)


def _q_norm_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    q = parameters[0]
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit**q
            slopes[c] = -target[c] * q * deficit ** (q - 1.0)
    value[0] = total


class QNormHinge(MarginLoss):
    r"""Loss :math:`\ell = \max(1 - y f, 0)^q`, between :class:`Hinge` and :class:`SquaredHinge`.

    Its derivative is Hölder continuous with exponent q - 1.

    Parameters
    ----------
    q : float, default=1.5
        Exponent, above 1 and at most 2.

    Raises
    ------
    ValueError
        If ``q`` is outside its range.

    References
    ----------
    Ying and Zhou, Unregularized Online Learning Algorithms with General Loss Functions.

    Examples
    --------
    >>> QNormHinge(q=1.5).value([1.0], [-3.0])
    array([8.])
    """

    row = staticmethod(_q_norm_hinge)
    _row_numbers = ("q",)

    _parameters = parameters(
        q=real(low=1.0, high=2.0, open_low=True, why="Use `Hinge` for an exponent of 1.")
    )

    def __init__(self, q: float = 1.5) -> None:
        self.q = q
        self._check()

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """Twice a square's; unbounded at the kink for q below 2."""
        return 2.0 if self.q == 2 else None

    @property
    def hoelder_exponent(self) -> float | None:  # type: ignore[override]
        """Return q - 1."""
        return float(self.q) - 1.0

    @property
    def hoelder_constant(self) -> float | None:  # type: ignore[override]
        """Return q: powers below 1 are subadditive, so differences are largest from the kink."""
        return float(self.q)


def _least_squares_margin(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        total += deficit * deficit
        slopes[c] = -2.0 * target[c] * deficit
    value[0] = total


class LeastSquaresMargin(MarginLoss):
    r"""Least squares on the labels, :math:`\ell = (1 - y f)^2`.

    For labels of -1 and +1 it is twice :class:`Squared`.

    Examples
    --------
    >>> LeastSquaresMargin().value([1.0], [3.0])
    array([4.])
    """

    curvature = 2.0
    hoelder_exponent = 1.0
    hoelder_constant = 2.0
    row = staticmethod(_least_squares_margin)


def _softmax(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    label = int(target[0])
    top = scores[0]
    for c in range(1, n_scores):
        if scores[c] > top:
            top = scores[c]
    total = 0.0
    for c in range(n_scores):
        slopes[c] = math.exp(scores[c] - top)
        total += slopes[c]
    for c in range(n_scores):
        slopes[c] /= total
    slopes[label] -= 1.0
    value[0] = math.log(total) + (top - scores[label])


def _softmax_probabilities(F: Array) -> Array:
    return np.asarray(special.softmax(F, axis=1))


class Softmax(MulticlassLoss):
    r"""Cross-entropy :math:`\ell = \log \sum_c e^{f_c} - f_y` of multinomial logistic regression.

    References
    ----------
    POLK, eqs. (27) and (28), without the regularisation.

    Examples
    --------
    >>> loss = Softmax()
    >>> loss.derivative([0], [[0.0, 0.0]])
    array([[-0.5,  0.5]])
    >>> loss.probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    curvature = 0.5
    lipschitz = math.sqrt(2.0)
    has_probabilities: ClassVar[bool] = True
    row = staticmethod(_softmax)
    _inverse_link = staticmethod(_softmax_probabilities)


def _multiclass_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    label = int(target[0])
    rival = -1
    for c in range(n_scores):
        slopes[c] = 0.0
        # A NaN wins, so that the value shows it.
        if c != label and (rival < 0 or scores[c] > scores[rival] or math.isnan(scores[c])):
            rival = c
    value[0] = 0.0
    if rival >= 0:  # -1 with a single class
        deficit = 1.0 + scores[rival] - scores[label]
        if not deficit <= 0.0:
            value[0] = deficit
            slopes[label] = -1.0
            slopes[rival] = 1.0


class MulticlassHinge(MulticlassLoss):
    r"""Multi-class hinge :math:`\ell = \max(0, 1 + \max_{c \ne y} f_c - f_y)`.

    Among rivals with equal scores, the one with the lowest class number gets the slope.

    References
    ----------
    POLK, eq. (26), without the regularisation.

    Examples
    --------
    >>> loss = MulticlassHinge()
    >>> loss.derivative([0], [[0.0, 0.5, 0.5]])
    array([[-1.,  1.,  0.]])
    """

    lipschitz = math.sqrt(2.0)
    row = staticmethod(_multiclass_hinge)
