r"""Several ways to predict a stream, side by side: whom to believe, row by row.

Each way, an *expert*, says a value before the truth is known. Weights follow those that were right
lately (:class:`FixedShare`); a regression on what experts said is one more (:class:`Stack`), which
can be better than each of them.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer._validation import check_integer, check_real

__all__ = ["FixedShare", "Stack"]

Array = NDArray[np.float64]

# No fast mathematics: a stream that goes on from a file has the bits of one that never stopped.
_jit = njit(cache=True, nogil=True, error_model="numpy")

# Rows on which an expert was this much worse than the best count no more than this, so that one of
# infinite loss can come back.
_WORST = 50.0
# Curvature of the log loss counts at least so much, where all are sure.
_LEAST_CURVATURE = 0.02


class FixedShare:
    r"""Weights of experts, the best of whom may be another by and by.

    After each row :math:`w_k \leftarrow (1 - \alpha) v_k + \alpha / K` with
    :math:`v_k \propto w_k e^{-\eta \ell_k}` of the losses :math:`\ell_k`. If the loss is
    :math:`\eta`-mixable, as the log loss of probabilities is for :math:`\eta = 1`, the loss of the
    mixture over T rows exceeds that of *any* sequence of experts with S changes by no more than
    :meth:`bound`, about :math:`(\log K + S \log(K T / S) + S) / \eta` where :math:`\alpha = S / T`.
    For the log loss it is Bayes' rule, if the expert who knows changes with probability
    :math:`\alpha` to one drawn from all.

    Parameters
    ----------
    n_experts : int
        Number of experts K, at least 1.
    share : float, default=1e-3
        The part :math:`\alpha` of all weights that is shared anew after each row, from 0 to 1.
    rate : float, default=1.0
        Learning rate :math:`\eta`, above 0.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    M. Herbster, M. Warmuth, Tracking the best expert, Machine Learning 32, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import FixedShare
    >>> weights = FixedShare(2, share=0.01)
    >>> for _ in range(5):
    ...     weights.update(np.array([1.0, 0.1]))
    >>> weights.weights.round(2)
    array([0.02, 0.98])
    """

    def __init__(self, n_experts: int, share: float = 1e-3, rate: float = 1.0) -> None:
        check_integer("n_experts", n_experts, low=1)
        check_real("share", share, low=0.0, high=1.0)
        check_real("rate", rate, low=0.0, open_low=True)
        self.share, self.rate = float(share), float(rate)
        #: Weights of the experts, (n_experts,), which sum to 1.
        self.weights = np.full(n_experts, 1.0 / n_experts)

    def update(self, losses: Array) -> None:
        """Take account of what experts lost on a row.

        Parameters
        ----------
        losses : ndarray of shape (n_experts,)
            Losses; an infinite one counts as some more than the least.
        """
        _share(self.weights, losses, self.share, self.rate)

    def bound(self, n_rows: int, n_changes: int) -> float:
        """Most that the mixture loses beyond a sequence of experts with so many changes.

        Parameters
        ----------
        n_rows : int
            Number of rows T.
        n_changes : int
            How often the expert of the sequence is another than on the row before.
        """
        n = self.weights.size
        stays = (1.0 - self.share) + self.share / n
        moves = math.inf if self.share == 0.0 else math.log(n / self.share)
        changed = n_changes * moves if n_changes else 0.0
        same = (n_rows - 1 - n_changes) * -math.log(stays) if n_rows - 1 > n_changes else 0.0
        return (math.log(n) + changed + same) / self.rate

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        return {"weights": self.weights.copy(), "share": self.share, "rate": self.rate}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If a number is out of its range.
        """
        weights = np.array(state["weights"], dtype=np.float64)
        made = cls(weights.size, state["share"], state["rate"])
        if weights.ndim != 1 or not (weights >= 0.0).all() or not np.isclose(weights.sum(), 1.0):
            raise ValueError("Weights of experts must be at least 0 and sum to 1.")
        made.weights = weights
        return made


@_jit
def _share(weights, losses, share, rate):  # type: ignore[no-untyped-def]
    least = np.inf
    for k in range(weights.size):
        if losses[k] < least:
            least = losses[k]
    total = 0.0
    for k in range(weights.size):
        # "Not at most": also for NaN, and where all are infinite.
        excess = rate * (losses[k] - least)
        if not excess <= _WORST:
            excess = _WORST
        weights[k] *= np.exp(-excess)
        total += weights[k]
    for k in range(weights.size):
        weights[k] = (1.0 - share) * (weights[k] / total) + share / weights.size


class Stack:
    r"""Sum of what experts say, weighted by an online Newton method on the loss of the sum.

    Values of experts are :math:`s_{kc}` for the outputs c. Of numbers, the sum
    :math:`\sum_k a_k s_{kc}` is learned by recursive least squares; of class codes -1 and +1 (one
    output for two classes, else one for each), by the same steps on the log loss, of the logistic
    function of one output or the softmax of several, with the curvature at each row.

    Parameters
    ----------
    n_experts : int
        Number of experts K.
    is_class : bool
        Whether targets are class codes, else numbers.
    forgetting : float, default=1.0
        Factor of older rows for each row, at most 1.
    ridge : float, default=1.0
        Ridge on the difference of the weights from 1 / K; above 0.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import Stack
    >>> stack = Stack(2, is_class=False, ridge=1e-6)
    >>> rng = np.random.default_rng(0)
    >>> for values in rng.normal(size=(50, 2, 1)):
    ...     stack.learn(values, 2.0 * values[0] - values[1])
    >>> stack.weights.round(3)
    array([ 2., -1.])
    """

    def __init__(
        self, n_experts: int, *, is_class: bool, forgetting: float = 1.0, ridge: float = 1.0
    ) -> None:
        check_integer("n_experts", n_experts, low=1)
        check_real("forgetting", forgetting, low=0.0, open_low=True, high=1.0)
        check_real("ridge", ridge, low=0.0, open_low=True)
        self.is_class = bool(is_class)
        self.forgetting, self.ridge = float(forgetting), float(ridge)
        #: Weights of the experts, (n_experts,), of any sign.
        self.weights = np.full(n_experts, 1.0 / n_experts)
        self._inverse = np.eye(n_experts) / self.ridge

    def values(self, said: Array) -> Array:
        """Weighted sum of what experts say, (n_outputs,).

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            Values of the experts.
        """
        return self.weights @ said

    def learn(self, said: Array, target: Array) -> None:
        """Learn a row.

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            What experts said of it; finite.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        """
        values = self.weights @ said
        if not self.is_class:
            slopes, curvatures = target - values, np.ones(len(target))
        elif len(target) == 1:
            chances = 0.5 * (1.0 + np.tanh(0.5 * values))
            slopes, curvatures = 0.5 * (target + 1.0) - chances, chances * (1.0 - chances)
        else:
            chances = np.exp(values - values.max())
            chances /= chances.sum()
            slopes, curvatures = 0.5 * (target + 1.0) - chances, chances * (1.0 - chances)
        curvatures = np.maximum(curvatures, _LEAST_CURVATURE)
        said = np.ascontiguousarray(said.T)
        _newton(self.weights, self._inverse, said, slopes, curvatures, self.forgetting, self.ridge)

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        return {
            "is_class": self.is_class,
            "forgetting": self.forgetting,
            "ridge": self.ridge,
            "weights": self.weights.copy(),
            "inverse": self._inverse.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If a number is out of its range, or the arrays do not fit together.
        """
        weights, inverse = (np.array(state[name], float) for name in ("weights", "inverse"))
        numbers = {name: state[name] for name in ("is_class", "forgetting", "ridge")}
        made = cls(weights.size, **numbers)
        fits = weights.ndim == 1 and inverse.shape == 2 * weights.shape
        if not fits or not (np.isfinite(weights).all() and np.isfinite(inverse).all()):
            raise ValueError("The weights of a stack do not fit together.")
        made.weights, made._inverse = weights, inverse
        return made


@_jit
def _newton(weights, inverse, said, slopes, curvatures, forgetting, ridge):  # type: ignore[no-untyped-def]
    """Step on one row: rank-one updates of the inverse Hessian, one for each output."""
    n = weights.size
    along = np.empty(n)
    moved = np.zeros(n)
    for c in range(said.shape[0]):
        # What is forgotten is so once for each row.
        kept = forgetting if c == 0 else 1.0
        whole = kept / curvatures[c]
        for i in range(n):
            along[i] = 0.0
            for j in range(n):
                along[i] += inverse[i, j] * said[c, j]
            whole += said[c, i] * along[i]
        for i in range(n):
            for j in range(n):
                inverse[i, j] = (inverse[i, j] - along[i] * along[j] / whole) / kept
    # Directions that rows say nothing of would be forgotten for good: they keep their ridge.
    trace = 0.0
    for i in range(n):
        trace += inverse[i, i]
    if trace > n / ridge:
        for i in range(n):
            for j in range(n):
                inverse[i, j] *= n / ridge / trace
    for c in range(said.shape[0]):
        for i in range(n):
            for j in range(n):
                moved[i] += inverse[i, j] * said[c, j] * slopes[c]
    for i in range(n):
        weights[i] += moved[i]
