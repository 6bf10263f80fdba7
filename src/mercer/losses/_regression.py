"""Regression losses: each is a row function with value and slope side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from mercer.losses._base import Array, RegressionLoss
from mercer.validation import check_real, parameters, positive, real


def _squared(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        total += 0.5 * r * r
        slopes[c] = r
    value[0] = total


class Squared(RegressionLoss):
    r"""Squared loss :math:`\ell = \tfrac12 (f - y)^2`: the score follows the mean.

    Examples
    --------
    >>> Squared().value([1.0], [3.0])
    array([2.])
    """

    of_residuals = True
    of_mean = True
    curvature = 1.0
    row = staticmethod(_squared)


def _absolute_error(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        total += abs(r)
        slopes[c] = 1.0 if r > 0.0 else (-1.0 if r < 0.0 else 0.0)
    value[0] = total


class AbsoluteError(RegressionLoss):
    r"""Absolute error :math:`\ell = |f - y|`: the score follows the median.

    Examples
    --------
    >>> AbsoluteError().derivative([1.0, 1.0], [3.0, 1.0])
    array([1., 0.])
    """

    of_residuals = True
    lipschitz = 1.0
    row = staticmethod(_absolute_error)


def _huber(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    delta = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        if r > delta:
            total += delta * (r - 0.5 * delta)
            slopes[c] = delta
        elif r < -delta:
            total += delta * (-r - 0.5 * delta)
            slopes[c] = -delta
        else:
            total += 0.5 * r * r
            slopes[c] = r
    value[0] = total


class Huber(RegressionLoss):
    r"""Huber's loss: :class:`Squared` up to a residual of ``delta``, linear beyond.

    :math:`\ell = \tfrac12 r^2` for :math:`|r| \le \delta`, else
    :math:`\delta (|r| - \tfrac12 \delta)`, with :math:`r = f - y`.

    Parameters
    ----------
    delta : float, default=1.0
        Residual, in units of the target, from which on a sample counts as an outlier; above 0.

    Raises
    ------
    ValueError
        If ``delta`` is not above 0.

    Examples
    --------
    >>> Huber(delta=1.0).value([0.0, 0.0], [1.0, 3.0])
    array([0.5, 2.5])
    """

    of_residuals = True
    curvature = 1.0
    row = staticmethod(_huber)
    _row_numbers = ("delta",)

    _parameters = parameters(delta=positive("At 0 nothing is learned."))

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta
        self._check()

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest slope, ``delta``."""
        return float(self.delta)


def _epsilon_insensitive(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    epsilon = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        excess = abs(r) - epsilon
        if excess <= 0.0:
            slopes[c] = 0.0
        else:
            total += excess
            slopes[c] = 1.0 if r > 0.0 else -1.0
    value[0] = total


def _squared_epsilon_insensitive(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    epsilon = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        excess = abs(r) - epsilon
        if excess <= 0.0:
            slopes[c] = 0.0
        else:
            total += 0.5 * excess * excess
            slopes[c] = excess if r > 0.0 else -excess
    value[0] = total


class EpsilonInsensitive(RegressionLoss):
    r"""Loss of support vector regression, :math:`\ell = \max(|f - y| - \epsilon, 0)`.

    Parameters
    ----------
    epsilon : float, default=0.1
        Residual, in units of the target, that costs nothing; at least 0.

    Raises
    ------
    ValueError
        If ``epsilon`` is negative.

    Examples
    --------
    >>> EpsilonInsensitive(epsilon=0.5).value([0.0, 0.0], [0.25, 1.5])
    array([0., 1.])
    """

    of_residuals = True
    lipschitz = 1.0
    row = staticmethod(_epsilon_insensitive)
    _row_numbers = ("epsilon",)

    _parameters = parameters(epsilon=real(low=0.0, why="It is half the width of a tube."))

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon
        self._check()


class SquaredEpsilonInsensitive(RegressionLoss):
    r"""Smooth tube loss, :math:`\ell = \tfrac12 \max(|f - y| - \epsilon, 0)^2`.

    With the factor one half it is :class:`Squared` at ``epsilon=0``; scikit-learn's
    ``squared_epsilon_insensitive`` lacks the factor and is twice as large.

    Parameters
    ----------
    epsilon : float, default=0.1
        Residual, in units of the target, that costs nothing; at least 0.

    Raises
    ------
    ValueError
        If ``epsilon`` is negative.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(epsilon=0.5).value([0.0, 0.0], [0.25, 1.5])
    array([0. , 0.5])
    """

    of_residuals = True
    curvature = 1.0
    row = staticmethod(_squared_epsilon_insensitive)
    _row_numbers = ("epsilon",)

    _parameters = parameters(epsilon=real(low=0.0, why="It is half the width of a tube."))

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon
        self._check()


def _quantile(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    n_levels = int(parameters[0])
    total = 0.0
    for c in range(n_scores):
        level = parameters[1 + c % n_levels]
        r = target[c // n_levels] - scores[c]
        if r > 0.0:
            total += level * r
            slopes[c] = -level
        else:
            total += (level - 1.0) * r
            slopes[c] = 1.0 - level if r < 0.0 else 0.0
    value[0] = total


def _listed(levels: Any) -> list[Any]:
    return [levels] if np.ndim(levels) == 0 else list(levels)


def _check_levels(name: str, value: Any) -> None:
    if np.ndim(value) > 1 or np.size(value) == 0:
        raise ValueError(
            f"`{name}` must be a number or a list of numbers, got {value!r}. "
            "Write levels=0.5 for the median, levels=[0.1, 0.9] for two quantiles."
        )
    for level in _listed(value):
        check_real(name, level, low=0.0, high=1.0, open_low=True, open_high=True)


class Quantile(RegressionLoss):
    r"""Pinball loss: the score follows a quantile of the target, or several at once.

    :math:`\ell = \tau r` for :math:`r = y - f > 0`, else :math:`(\tau - 1) r`. Several levels
    share one dictionary and are learned in one pass; nothing forces their scores into order.

    Parameters
    ----------
    levels : float or list of float, default=0.5
        Levels :math:`\tau` between 0 and 1. With L levels a row has L scores per target, target
        by target: (target 0, level 0), (target 0, level 1), ..., (target 1, level 0), ...

    Raises
    ------
    ValueError
        If ``levels`` is empty or a level is not strictly between 0 and 1.

    Examples
    --------
    >>> loss = Quantile(levels=[0.1, 0.9])
    >>> loss.n_scores(1)
    2
    >>> loss.derivative([2.0], [[0.0, 3.0]])
    array([[-0.1,  0.1]])
    """

    of_residuals = True
    row = staticmethod(_quantile)

    _parameters = parameters(levels=_check_levels)

    def __init__(self, levels: float | Sequence[float] = 0.5) -> None:
        self.levels = levels
        self._check()

    def _levels(self) -> list[Any]:
        return _listed(self.levels)

    def __eq__(self, other: object) -> bool:
        # A tuple or an array of levels comes back from a model file as a list or an array.
        if type(other) is not type(self):
            return NotImplemented
        one_number = np.ndim(self.levels) == np.ndim(other.levels)
        return one_number and self._levels() == other._levels()

    __hash__ = None  # type: ignore[assignment]  # mutable by set_params

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest slope over the levels."""
        return max(max(float(level), 1.0 - float(level)) for level in self._levels())

    def row_parameters(self) -> list[float]:
        """Give ``row`` the number of levels, then the levels."""
        levels = self._levels()
        return [float(len(levels)), *levels]

    @property
    def scores_per_target(self) -> int:  # type: ignore[override]
        """Number of levels."""
        return len(self._levels())

    def explained(self, y: ArrayLike, f: ArrayLike, sample_weight: Array) -> float:
        """Explained share of the loss, D², averaged over targets.

        Parameters
        ----------
        y, f : array-like
            As in :meth:`value`; of one target and several levels ``f`` has one column per level.
        sample_weight : ndarray of shape (n_samples,)
            Weights of the rows.

        Returns
        -------
        share : float
            1 minus the mean loss divided by the loss of the quantiles of ``y``, the best constants;
            0 if only constants have no loss; NaN, with a warning, for fewer than two rows.

        Raises
        ------
        ValueError
            As :meth:`value`.

        Examples
        --------
        >>> f = [[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]
        >>> round(Quantile([0.1, 0.9]).explained([1.0, 2.0, 3.0], f, np.ones(3)), 3)
        0.833
        """
        targets = np.asarray(y, dtype=np.float64).reshape(np.shape(y)[0], -1)
        scores = np.asarray(f, dtype=np.float64)
        if len(targets) < 2:
            warnings.warn("D² of fewer than two rows is not defined.", UndefinedMetricWarning, 2)
            return math.nan
        self.value(targets, scores)  # checks the shapes
        shares = []
        for column, levels in zip(targets.T, np.split(scores, targets.shape[1], 1), strict=True):
            order = np.argsort(column)
            heights = np.cumsum(sample_weight[order])
            ranks = np.searchsorted(heights, np.asarray(self._levels()) * heights[-1])
            constants = np.broadcast_to(column[order][ranks], levels.shape)
            left, least = (
                float(np.average(self.value(column, tried), weights=sample_weight))
                for tried in (levels, constants)
            )
            shares.append(1.0 - left / least if least > 0.0 else float(left == 0.0))
        return float(np.mean(shares))


_LARGEST_LOG_RATE = 30.0


def _poisson(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        f = scores[c]
        if f > _LARGEST_LOG_RATE:
            rate = math.exp(_LARGEST_LOG_RATE)
            total += rate * (1.0 + f - _LARGEST_LOG_RATE) - target[c] * f
        else:
            rate = math.exp(f)
            total += rate - target[c] * f
        slopes[c] = rate - target[c]
    value[0] = total


def _rates(F: Array) -> Array:
    """Rates exp(f), at most exp(30)."""
    rates: Array = np.exp(np.minimum(F, _LARGEST_LOG_RATE))
    return rates


class Poisson(RegressionLoss):
    r"""Poisson loss with logarithmic link, :math:`\ell = e^f - y f`, for counts and rates.

    Beyond :math:`f = 30` (a rate of :math:`10^{13}`) the exponential continues along its tangent,
    so that a diverging score stays finite. The slope is ``predict(f) - y`` everywhere. The constant
    :math:`\log y!` of the likelihood is left out; the loss can be negative.

    Examples
    --------
    >>> loss = Poisson()
    >>> loss.derivative([3.0], [0.0])
    array([-2.])
    >>> loss.predict([[0.0]])
    array([[1.]])
    """

    of_mean = True
    row = staticmethod(_poisson)
    _inverse_link = staticmethod(_rates)

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        super()._check_targets(targets, n_scores)
        if (targets < 0).any():
            raise ValueError(
                f"`y` contains {targets.min():g}, but the Poisson loss needs targets of at least "
                "0: below, it has no minimum. Use `Squared` or `Huber` for signed targets."
            )
