"""Level of the scores: a constant with which the mean prediction equals the mean target.

Without it the two differ: Newton steps end before a rare class has its share, few rows choose the
weights of components and the bend of scores, and counts are learned by their logarithms. So a
*level* is added to the scores last. For classes, mean chances match the shares of classes nearly.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

from mercer.learning.regression_targets import counts_of
from mercer.losses import Loss, Poisson, Softmax, Squared
from mercer.records import Numbers, Part, Record, Recorded
from mercer.sums import Rows
from mercer.validation import integer, real

Array = NDArray[np.float64]
# Scores, targets and weights of some rows.
Looked = tuple[Array, Array, Array]

# Most rows of the sample of rows that are kept in sums only, and most bytes of their inputs.
_MOST_ROWS, _MOST_BYTES = 50_000, 2**23
_SHARE = 1 / 16  # of all memory, at most
# Rows that are predicted together, and the relative standard error of the mean that is enough.
_CHUNK, _PRECISE = 8192, 0.003
# Least mean of a class, in rows, and of counts, where the data have none.
_OF_A_CLASS, _OF_COUNTS = 0.5, 1e-9
# Weight, in rows, of a pull of the level of classes towards 0: if all rows are predicted with
# certainty, changing the mean by a little would take a large level.
_PULL = 0.02
# A mean chance is near enough if it is off by at most this part of the share of its class. Models
# are surer about learned rows than about new ones, so matching the mean of learned rows exactly
# would take a level that spoils predictions for new rows.
_NEAR = 0.0125
# Number of the sum that belongs to no component.
_NUMBER = -1
_FARTHEST, _STEPS, _EXACT, _TINY = 50.0, 100, 1e-4, 1e-300


class Total:
    """Total weight of rows and weighted sum of their targets, to be summed where the rows lie.

    Parameters
    ----------
    total : ndarray of shape (n_targets,)
        Sum so far.
    weight : float, default=0.0
        Weight so far.
    counts : bool, default=False
        Whether the targets of rows are logarithms of counts; counts are summed.
    """

    def __init__(self, total: Array, weight: float = 0.0, *, counts: bool = False) -> None:
        self.total, self.weight, self.counts = total, weight, counts
        self.n_rows = 0

    def learn(self, rows: Rows) -> None:
        """Add rows with the targets that components learn."""
        targets = counts_of(rows.targets) if self.counts else rows.targets
        self.n_rows += len(rows)
        self.weight += float(rows.weights.sum())
        self.total = self.total + rows.weights @ targets

    def merge(self, other: Total) -> None:
        """Add the rows of another total."""
        self.n_rows += other.n_rows
        self.weight, self.total = self.weight + other.weight, self.total + other.total

    def emptied(self) -> Total:
        """Return a total of the same kind without rows."""
        return Total(np.zeros_like(self.total), counts=self.counts)


class LearnedMean(Recorded):
    """Mean target of the rows that are in sums, and a random sample of these rows.

    Parameters
    ----------
    n_features, n_targets : int
        Dimensions of inputs and targets.
    dtype : dtype
        Type of the inputs.
    seed : int
        Seed of the sample.
    memory : int, default=2**40
        Bytes that the whole model may keep; the sample takes at most 1/16 of them.

    Attributes
    ----------
    weight : float
        Total weight of all rows.
    total : ndarray of shape (n_targets,)
        Weighted sum of the targets.
    sample : Rows
        Random sample of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.sums import Rows
    >>> learned = LearnedMean(1, 1, np.float64, seed=0)
    >>> learned.add(Rows(np.zeros((2, 1)), np.array([[0.0], [3.0]]), np.array([1.0, 2.0])))
    >>> learned.total / learned.weight
    array([2.])
    """

    _record = Record(
        weight=real(low=0.0),
        total=Numbers("n_targets"),
        sample=Part(Rows, "n_features", "n_targets", n_rows="n_sample"),
        _keys=Numbers("n_sample"),
        _n_rows=integer(low=0),
    )

    def __init__(
        self, n_features: int, n_targets: int, dtype: Any, seed: int, memory: int = 2**40
    ) -> None:
        self.weight, self.total, self._seed = 0.0, np.zeros(n_targets), seed
        self._bytes = min(_MOST_BYTES, int(_SHARE * memory))
        self.sample = Rows.none(n_features, n_targets, dtype)
        self._keys = np.empty(0)
        self._n_rows = 0

    def add(self, rows: Rows) -> None:
        """Add rows. Each gets a random key; the sample is the rows with the smallest keys."""
        rows = replace(rows, groups=None)  # the sample needs no groups
        self.weight += float(rows.weights.sum())
        self.total = self.total + rows.weights @ rows.targets
        drawn = np.random.Generator(np.random.PCG64(self._seed).advance(self._n_rows))
        keys = drawn.random(len(rows))
        self._n_rows += len(rows)
        most = min(_MOST_ROWS, max(1, self._bytes // (max(1, rows.X.shape[1]) * rows.X.itemsize)))
        if len(self._keys) == most:  # in a long stream, nearly no new row enters the sample
            rows, keys = rows[keys < self._keys.max()], keys[keys < self._keys.max()]
        if not len(keys):
            return
        joined, keys = Rows.joined([self.sample, rows]), np.append(self._keys, keys)
        least = np.sort(np.argpartition(keys, most)[:most]) if keys.size > most else slice(None)
        self.sample, self._keys = joined[least].own(), keys[least]

    def with_rows(self, rows: Rows) -> tuple[Rows, Array]:
        """Return rows that represent the rows in sums and the given rows, and their mean target."""
        rows = replace(rows, groups=None)
        weight = self.weight + float(rows.weights.sum())
        mean = (self.total + rows.weights @ rows.targets) / weight
        sample = self.sample
        if len(sample):
            share = self.weight / sample.weights.sum()
            rows = Rows.joined([replace(sample, weights=share * sample.weights), rows])
        return rows, mean

    def elsewhere(self, sample: Rows, loss: Loss) -> dict[int, Total]:
        """Keep a sample of rows that are summed elsewhere; return the empty sum, by its number."""
        self.sample = sample
        return {_NUMBER: Total(np.zeros_like(self.total), counts=isinstance(loss, Poisson))}

    def adopted(self, sums: dict[int, Any]) -> tuple[LearnedMean, dict[int, Any]]:
        """Return a copy with the sum computed elsewhere, and the sums of the components."""
        made, its = copy(self), sums[_NUMBER]
        made.weight, made.total = its.weight, its.total
        return made, {number: one for number, one in sums.items() if number != _NUMBER}

    def map_targets(self, matrix: Array, offset: Array) -> None:
        """Replace all targets y by y @ matrix + offset."""
        self.total = self.total @ matrix + self.weight * offset
        self.sample = self.sample.map_targets(matrix, offset)


def has_mean(loss: Loss) -> bool:
    """Whether the loss predicts a mean of numbers, or the probabilities of classes."""
    return loss.has_probabilities or loss.of_mean


def level_of(
    look: Callable[[NDArray[np.int64]], Looked], n: int, mean: Array, loss: Loss, seed: int
) -> Array:
    """Find the constant to add to scores for the mean prediction to equal the mean target.

    Rows are predicted in random order until the standard error of the mean prediction is small, or
    all rows are used.

    Parameters
    ----------
    look : callable
        Maps row numbers to the scores (n, n_outputs), targets and weights of the rows. Targets are
        numbers or codes of classes.
    n : int
        Number of rows available: a sample of the rows learned, or all of them.
    mean : ndarray of shape (n_targets,)
        Weighted mean of the targets of all rows.
    loss : Loss
        Loss whose predictions are means, or probabilities of classes.
    seed : int
        Seed of the order.

    Returns
    -------
    level : ndarray of shape (n_outputs,)
        For classes, the level smallest in absolute values with which the mean probability of each
        class is within 1.25 % of its share.
    """
    goal = _shares(mean) if _of_classes(loss) else mean
    order = np.random.default_rng(seed).permutation(n)
    found: list[Looked] = []
    for start in range(0, n, _CHUNK):
        found.append(look(np.sort(order[start : start + _CHUNK])))
        values, targets, weights = (np.concatenate(each) for each in zip(*found, strict=True))
        targets = _shares(targets) if _of_classes(loss) else targets
        share, likely = weights / weights.sum(), _predicted(loss, values)
        middle = share @ targets
        off, spread = targets - middle, likely - share @ likely
        variance = share @ off**2
        # Control variate: if the drawn rows have a larger mean target than all rows, their mean
        # prediction is larger, too, by this slope.
        slope = share @ (spread * off) / np.where(variance > 0.0, variance, 1.0)
        unsure = np.sqrt(share**2 @ (spread - slope * off) ** 2 * (1.0 - len(share) / n))
        size = goal if loss.curvature is None or _of_classes(loss) else np.sqrt(variance)
        if (unsure <= _PRECISE * np.maximum(size, abs(goal))).all():
            break
    wanted = goal - slope * (goal - middle)
    if isinstance(loss, Squared):
        return np.asarray(wanted - share @ values)
    least, most = goal / 2.0, (1.0 + goal) / 2.0 if _of_classes(loss) else 2.0 * goal
    return _solved(loss, values, share, np.clip(wanted, least, most))


def _of_classes(loss: Loss) -> bool:
    return loss.task == "classification"


def _shares(codes: Array) -> Array:
    """Map codes -1 and +1 to 0 and 1, whose mean is the share of a class."""
    return (1.0 + codes) / 2.0


def _predicted(loss: Loss, values: Array) -> Array:
    """Predict means, or the probability of each class that has a column of codes."""
    if not _of_classes(loss):
        return loss.predict(values)
    chances = loss.probabilities(values)
    return chances[:, 1:] if values.shape[1] == 1 else chances


def _solved(loss: Loss, values: Array, share: Array, wanted: Array) -> Array:
    """Return the smallest level with which the mean prediction is as wanted, for classes nearly.

    Classes whose mean is near enough get level 0, and other levels stop once the mean is near
    enough. Levels of classes are also pulled towards 0.
    """
    rows = 1.0 / float(share @ share)
    of_classes = _of_classes(loss)
    pull, least = (_PULL / rows, _OF_A_CLASS / rows) if of_classes else (0.0, _OF_COUNTS)
    wanted = np.maximum(wanted, least)
    if of_classes and wanted.size > 1:
        return _solved_for_classes(loss, values, share, wanted / wanted.sum(), pull)
    wanted = np.minimum(wanted, 1.0 - least) if of_classes else wanted
    slack = _NEAR * np.minimum(wanted, 1.0 - wanted) if of_classes else np.zeros(wanted.size)
    far = _FARTHEST + float(np.abs(values).max())

    def likely(level: float, column: int) -> float:
        return float(share @ _predicted(loss, values[:, column : column + 1] + level)[:, 0])

    def found(column: int) -> float:
        off = likely(0.0, column) - wanted[column]
        if abs(off) <= slack[column]:
            return 0.0
        goal = float(wanted[column] + np.copysign(slack[column], off))
        return float(brentq(lambda level: likely(level, column) + pull * level - goal, -far, far))

    return np.array([found(column) for column in range(wanted.size)])


def _solved_for_classes(
    loss: Loss, values: Array, share: Array, wanted: Array, pull: float
) -> Array:
    """Return the level for several classes, as :func:`_solved` does for one."""
    n, slack = wanted.size, _NEAR * wanted
    level = np.zeros(n)
    if isinstance(loss, Softmax):  # minimise its mean + slack @ |level| over the level

        def value(moves: Array) -> tuple[float, Array]:
            level = moves[:n] - moves[n:]  # up and down
            scores = values + level
            mean = share @ logsumexp(scores, axis=1) - wanted @ level
            slopes = share @ loss.probabilities(scores) - wanted + pull * level
            least = mean + 0.5 * pull * level @ level + slack @ (moves[:n] + moves[n:])
            return float(least), np.concatenate([slack + slopes, slack - slopes])

        options = {"gtol": _EXACT * wanted.min(), "ftol": 0.0, "maxiter": _STEPS}
        bounds = [(0.0, None)] * (2 * n)
        moves = minimize(
            value, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=bounds, options=options
        ).x
        level = moves[:n] - moves[n:]
    for _ in range(_STEPS):
        likely = np.maximum(share @ loss.probabilities(values + level), _TINY)
        goal = np.maximum(wanted - pull * level, wanted / 2.0)
        step = np.log(np.clip(likely, goal - slack, goal + slack) / likely)
        level = level + step
        if np.abs(step).max() < _EXACT:
            break
    return level
