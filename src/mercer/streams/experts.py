r"""Prediction with expert advice: how much each of several models counts, row by row.

Each model, an *expert*, predicts a value before the truth is known. Weights follow the experts that
were right recently (:class:`FixedShare`). A regression on the experts' predictions is one more
expert (:class:`Stack`), which can be better than each of them. :class:`Blend` combines both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.records import Numbered, Numbers, Part, Record, Recorded
from mercer.validation import check_integer, check_real, positive, real, truth

Array = NDArray[np.float64]

# No fast mathematics: a stream restored from a file must match one that never stopped, bit by bit.
_jit = jit(nogil=True, error_model="numpy")

# Largest excess loss over the best expert on one row, so that an expert with an infinite loss can
# recover.
_WORST = 50.0
# Predictions of experts are clipped here, in log odds or spreads of the target.
_FURTHEST = 10.0
# The slopes that correct over- or underconfident log odds are learned at rate _MENDING; the divisor
# of the rate forgets by the factor _MENDED.
_MENDING, _MENDED = 0.2, 0.999
# The noise of numbers is a running mean of the blend's squared errors with this factor.
_NOISE = 0.99
# Squared errors of numbers are clipped at _MOST_LOST times twice the noise and count half as much
# as in a normal likelihood, since their tails are longer.
_MOST_LOST, _RATE = 4.0, 0.5
# Smallest probability, so that losses are finite.
_LEAST_CHANCE = 1e-6
# Smallest curvature of the log loss, for very confident predictions.
_LEAST_CURVATURE = 0.02


class FixedShare(Recorded):
    r"""Weights of experts when the best expert may change over time.

    After each row :math:`w_k \leftarrow (1 - \alpha) v_k + \alpha / K` with :math:`v_k \propto w_k
    e^{-\eta \ell_k}`, for losses :math:`\ell_k`. If the loss is :math:`\eta`-mixable, as the log
    loss of probabilities is for :math:`\eta = 1`, the loss of the mixture over T rows exceeds the
    loss of *any* sequence of experts with S changes by at most :meth:`bound`, about :math:`(\log K
    + S \log(K T / S) + S) / \eta` for :math:`\alpha = S / T`. For the log loss this is Bayes' rule,
    if after each row the right expert is replaced with probability :math:`\alpha` by one drawn from
    all.

    Parameters
    ----------
    n_experts : int
        Number of experts K, at least 1.
    share : float, default=1e-3
        Share :math:`\alpha` of all weights that is redistributed after each row, from 0 to 1.
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

    _record = Record(
        weights=Numbers("n_experts", low=0.0), share=real(low=0.0, high=1.0), rate=positive()
    ).where("weights of experts must sum to 1", lambda it: np.isclose(it["weights"].sum(), 1.0))

    def __init__(self, n_experts: int, share: float = 1e-3, rate: float = 1.0) -> None:
        check_integer("n_experts", n_experts, low=1)
        check_real("share", share, low=0.0, high=1.0)
        check_real("rate", rate, low=0.0, open_low=True)
        self.share, self.rate = float(share), float(rate)
        #: Weights of the experts, (n_experts,), which sum to 1.
        self.weights = np.full(n_experts, 1.0 / n_experts)

    def update(self, losses: Array) -> None:
        """Update the weights by the experts' losses on a row.

        Parameters
        ----------
        losses : ndarray of shape (n_experts,)
            Losses; an infinite loss counts as the smallest one plus a constant.
        """
        _share(self.weights, losses, self.share, self.rate)

    def bound(self, n_rows: int, n_changes: int) -> float:
        """Return the largest excess loss of the mixture over a sequence of experts.

        Parameters
        ----------
        n_rows : int
            Number of rows T.
        n_changes : int
            Number of rows at which the sequence changes its expert.
        """
        n = self.weights.size
        stays = (1.0 - self.share) + self.share / n
        moves = math.inf if self.share == 0.0 else math.log(n / self.share)
        changed = n_changes * moves if n_changes else 0.0
        same = (n_rows - 1 - n_changes) * -math.log(stays) if n_rows - 1 > n_changes else 0.0
        return (math.log(n) + changed + same) / self.rate


@_jit
def _share(weights, losses, share, rate):  # type: ignore[no-untyped-def]
    least = np.inf
    for k in range(weights.size):
        if losses[k] < least:
            least = losses[k]
    total = 0.0
    for k in range(weights.size):
        # Not written as "at most", so that it also catches NaN, and all losses infinite.
        excess = rate * (losses[k] - least)
        if not excess <= _WORST:
            excess = _WORST
        weights[k] *= np.exp(-excess)
        total += weights[k]
    for k in range(weights.size):
        weights[k] = (1.0 - share) * (weights[k] / total) + share / weights.size


class Stack(Recorded):
    r"""Weighted sum of experts' predictions, learned by an online Newton method on its loss.

    Expert k predicts :math:`s_{kc}` for output c. For numbers, the sum :math:`\sum_k a_k s_{kc}` is
    learned by recursive least squares. For class codes -1 and +1 (one output for two classes, else
    one per class), the same steps are taken on the log loss of the logistic function or the
    softmax, with the curvature at each row.

    Parameters
    ----------
    n_experts : int
        Number of experts K.
    is_class : bool
        Whether targets are class codes; otherwise they are numbers.
    forgetting : float, default=1.0
        Factor on the weights of older rows for each new row, at most 1.
    ridge : float, default=1.0
        Ridge on the differences of the weights from 1 / K; above 0.

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

    _record = Record(
        is_class=truth(),
        forgetting=real(low=0.0, open_low=True, high=1.0),
        ridge=positive(),
        weights=Numbers("n_experts"),
        _inverse=Numbers("n_experts", "n_experts"),
    )

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
        """Return the weighted sum of the experts' predictions, (n_outputs,).

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            Predictions of the experts.
        """
        return self.weights @ said

    def learn(self, said: Array, target: Array, weight: float = 1.0) -> None:
        """Learn a row.

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            Predictions of the experts for the row; finite.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        weight : float, default=1.0
            Weight of the row, above 0.
        """
        numbers = self.forgetting, self.ridge, self.is_class, float(weight)
        _newton(self.weights, self._inverse, said, target, *numbers)


@_jit
def _chances_of(values):  # type: ignore[no-untyped-def]
    """Return class probabilities from log odds of two classes, or log probabilities of several."""
    if values.size == 1:
        chance = 0.5 * (1.0 + np.tanh(0.5 * values[0]))
        return np.array([1.0 - chance, chance])
    chances = np.exp(values - values.max())
    return chances / chances.sum()


@_jit
def _newton(weights, inverse, said, target, forgetting, ridge, is_class, weight):  # type: ignore[no-untyped-def]
    """Take a step on one row: rank-one updates of the inverse Hessian, one per output."""
    n, n_outputs = said.shape
    values = np.zeros(n_outputs)
    for i in range(n):
        for c in range(n_outputs):
            values[c] += weights[i] * said[i, c]
    slopes, curvatures = np.empty(n_outputs), np.ones(n_outputs)
    if is_class:
        chances = _chances_of(values)
        for c in range(n_outputs):
            chance = chances[c] if n_outputs > 1 else chances[1]
            slopes[c] = 0.5 * (target[c] + 1.0) - chance
            curvatures[c] = max(chance * (1.0 - chance), _LEAST_CURVATURE)
    else:
        for c in range(n_outputs):
            slopes[c] = target[c] - values[c]
    along = np.empty(n)
    moved = np.zeros(n)
    for c in range(n_outputs):
        # Forget only once per row, not once per output.
        kept = forgetting if c == 0 else 1.0
        whole = kept / (weight * curvatures[c])
        for i in range(n):
            along[i] = 0.0
            for j in range(n):
                along[i] += inverse[i, j] * said[j, c]
            whole += said[i, c] * along[i]
        for i in range(n):
            for j in range(n):
                inverse[i, j] = (inverse[i, j] - along[i] * along[j] / whole) / kept
    # Directions without information would lose their ridge for good, so they keep it.
    trace = 0.0
    for i in range(n):
        trace += inverse[i, i]
    if trace > n / ridge:
        for i in range(n):
            for j in range(n):
                inverse[i, j] *= n / ridge / trace
    for c in range(n_outputs):
        for i in range(n):
            for j in range(n):
                moved[i] += inverse[i, j] * said[j, c] * (weight * slopes[c])
    for i in range(n):
        weights[i] += moved[i]


class Blend(Recorded):
    r"""Combine several experts into one prediction that follows whoever is best.

    The candidates are the experts themselves, and stacks of them (:class:`Stack`) that forget at
    different rates; a fixed share (:class:`FixedShare`) decides how much each counts. For classes,
    probabilities are mixed and the loss is the log loss, so over T rows the blend loses at most
    :meth:`FixedShare.bound` more than any sequence of experts and stacks. Since experts may be
    overconfident, each one's log odds are multiplied by a slope that is learned by online gradient
    steps on the same loss. For numbers, means are weighted, and the loss is the squared error
    divided by twice the recent mean squared error, at most 4, with the rate 1/2.

    Parameters
    ----------
    n_experts, n_outputs : int
        Number of experts, and number of outputs of each.
    is_class : bool
        Whether targets are class codes -1 and +1 (one output for two classes) and predictions are
        log odds, or log probabilities up to a constant; otherwise both are numbers of spread about
        1.
    forgettings : sequence of float, default=(0.9999, 0.999, 0.99)
        Forgetting factors of the stacks.
    share : float, default=1e-3
        Share of the weights that is redistributed after each row.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import Blend
    >>> blend = Blend(2, 1, is_class=True)
    >>> for y in [1.0, -1.0] * 50:  # the first one knows, the second one says the opposite
    ...     answer = blend.learn(np.array([[y], [-y]]), np.array([y]))
    >>> bool(blend.values(np.array([[1.0], [-1.0]]))[0] > 2.0)
    True
    """

    _record = Record(
        is_class=truth(),
        share=Part(FixedShare, n_experts="n_all"),
        stacks=Numbered(Part(Stack, "n_experts")),
        _slopes=Numbers("n_all"),
        _steepness=Numbers("n_all"),
        _noise=positive(),
    )

    def __init__(
        self,
        n_experts: int,
        n_outputs: int,
        *,
        is_class: bool,
        forgettings: Sequence[float] = (0.9999, 0.999, 0.99),
        share: float = 1e-3,
    ) -> None:
        check_integer("n_outputs", n_outputs, low=1)
        self.is_class = bool(is_class)
        self.stacks = tuple(
            Stack(n_experts, is_class=is_class, forgetting=forgetting) for forgetting in forgettings
        )
        n = n_experts + len(self.stacks)
        self.share = FixedShare(n, share, 1.0 if is_class else _RATE)
        self._slopes, self._steepness = np.ones(n), np.ones(n)
        #: Losses of all candidates on the last row, (n_experts + n_stacks,): negative log
        #: probabilities, or half the squared errors.
        self.losses = np.zeros(n)
        self._noise = 1.0

    @property
    def weights(self) -> Array:
        """Weights of the experts, then of the stacks; they sum to 1."""
        return self.share.weights

    def _heard(self, said: Array) -> tuple[Array, Array]:
        """Return the inputs of the stacks, and the predictions of all candidates."""
        every = np.empty((self.weights.size, said.shape[1]))
        heard = _hear(said, every, self.is_class)
        for k, stack in enumerate(self.stacks, len(said)):
            every[k] = stack.weights @ heard
        return heard, every

    def values(self, said: Array) -> Array:
        """Return the blend's values, (n_outputs,): log odds, log probabilities, or numbers.

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            Predictions of the experts; finite.
        """
        every = self._heard(said)[1]
        if not self.is_class:
            return np.asarray(self.weights @ every)
        chances = self.weights @ _chances(every, self._slopes)
        logarithms = np.log(np.maximum(chances, _LEAST_CHANCE))
        return np.asarray(logarithms[1:] - logarithms[:1] if len(chances) == 2 else logarithms)

    def learn(self, said: Array, target: Array, weight: float = 1.0) -> Array:
        """Learn a row.

        Parameters
        ----------
        said : ndarray of shape (n_experts, n_outputs)
            Predictions of the experts before they learned the row.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        weight : float, default=1.0
            Weight of the row, above 0.

        Returns
        -------
        answer : ndarray of shape (n_classes,) or (n_outputs,)
            Prediction of the blend before it learned the row: probabilities, or numbers.
        """
        heard, every = self._heard(said)
        if self.is_class:
            label = int(target.argmax()) if len(target) > 1 else int(target[0] > 0.0)
            chances = _chances(every, self._slopes)
            self.losses = losses = -np.log(np.maximum(chances[:, label], _LEAST_CHANCE))
            answer = self.weights @ chances
            _mend(every, chances, label, float(weight), self._slopes, self._steepness)
        else:
            self.losses = 0.5 * np.sum((every - target) ** 2, axis=1)
            losses = np.minimum(self.losses / self._noise, _MOST_LOST)
            answer = self.weights @ every
            missed = float(np.sum((answer - target) ** 2))
            self._noise = max(_NOISE * self._noise + (1.0 - _NOISE) * missed, _LEAST_CHANCE)
        self.share.update(weight * losses)
        for stack in self.stacks:
            stack.learn(heard, target, weight)
        return np.asarray(answer)

    def _adopt(self, values: dict[str, Any]) -> None:
        slopes, stacks = values["_slopes"], values["stacks"]
        if any(stack.weights.size + len(stacks) != slopes.size for stack in stacks):
            raise ValueError("the stacks of a blend do not have its experts")
        super()._adopt(values)
        self.losses = np.zeros(slopes.size)


@_jit
def _hear(said, every, is_class):  # type: ignore[no-untyped-def]
    """Return the stacks' inputs; clip predictions in the first rows of ``every``."""
    heard = np.empty(said.shape)
    for k in range(said.shape[0]):
        for c in range(said.shape[1]):
            value = min(max(said[k, c], -_FURTHEST), _FURTHEST)
            every[k, c] = value
            heard[k, c] = np.tanh(0.5 * value) if is_class else value
    return heard


@_jit
def _chances(every, slopes):  # type: ignore[no-untyped-def]
    """Return each candidate's class probabilities, (n_experts, n_classes)."""
    n, n_outputs = every.shape
    chances = np.empty((n, max(n_outputs, 2)))
    for k in range(n):
        chances[k] = _chances_of(slopes[k] * every[k])
    return chances


@_jit
def _mend(every, chances, label, weight, slopes, steepness):  # type: ignore[no-untyped-def]
    """Take a gradient step on the slope of each candidate's log odds, for its log loss."""
    n, n_outputs = every.shape
    for k in range(n):
        if n_outputs == 1:
            gradient = (chances[k, 1] - label) * every[k, 0]
        else:
            gradient = -every[k, label]
            for c in range(n_outputs):
                gradient += chances[k, c] * every[k, c]
        gradient *= weight
        steepness[k] = _MENDED * steepness[k] + gradient * gradient
        slope = slopes[k] - _MENDING * gradient / np.sqrt(steepness[k])
        slopes[k] = min(max(slope, 0.05), 20.0)
