"""What the default's components learn, and what is added to their scores.

Targets for least squares, the level of the scores, rows held out with predictions by a fit without
them, and the correction to the loss.

The *level* is a constant, added last, with which the mean prediction equals the mean target.
Without it the two differ: Newton steps end before a rare class has its share, few rows choose the
weights of components and the bend of scores, and counts are learned by their logarithms. For
classes, mean chances match the shares of classes nearly.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

from mercer.functions.sum_of_components import SumOfComponents
from mercer.kernels import Kernel
from mercer.learning.regression_targets import (
    begins_with_regression,
    counts_of,
    outlying_from,
    regression_targets,
    usual_size,
    weighted_medians,
)
from mercer.losses import AbsoluteError, Loss, Poisson, Softmax, Squared, loss_and_slopes
from mercer.objectives import Compositional, Objective, Pointwise
from mercer.records import IfAny, Maybe, Numbers, Part, Record, Recorded
from mercer.risks import Risk
from mercer.selection import left_out_by_pilot, pilot_kernel
from mercer.sums import Correction, Rows, coded_rows, targets_of_codes
from mercer.validation import integer, real

Array = NDArray[np.float64]
# Scores, targets and weights of some rows.
Looked = tuple[Array, Array, Array]

# Most rows of the sample of rows that are kept in sums only, and most bytes of their inputs.
_MOST_ROWS, _SAMPLE_BYTES = 50_000, 2**23
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
_FARTHEST, _STEPS, _EXACT = 50.0, 100, 1e-4
_TINY = 1e-300  # instead of 0, where it would be divided by or its logarithm taken


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
        self._bytes = min(_SAMPLE_BYTES, int(_SHARE * memory))
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


# Rows that decide on limits for outliers, and the fewest that may decide.
_ROWS, _FEWEST = 2000, 30
# Gains, in standard errors, from which limits are used. On eight tables of prices, speeds and the
# like (two draws of 2,000 rows each), limits around the median gain at most 2, and limits around a
# function at most 6. If a tenth of the targets are wrong by much, they gain 5 to 40.
_SURE_OF_WIDE, _SURE_OF_CLOSE = 4.0, 7.0
_ROUNDING = 1e-9
# Limits are dropped once the share of targets outside is so many times the share at the start, or
# so many times the least share.
_DRIFT, _LEAST_OUTSIDE = 2.0, 0.02


class _Reach(Numbers):
    """Distances in files: infinity (no limit) is written as -1."""

    def written(self, value: Any) -> Any:
        return np.where(np.isfinite(value), value, -1.0)

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Array:
        found = super().read(name, value, sizes)
        return np.where(found < 0.0, np.inf, found)


@dataclass(frozen=True, eq=False)
class Limits(Recorded):
    """Limits around a rough location that targets are clipped to, against outliers.

    Attributes
    ----------
    location : Correction
        Centre of the limits as a function of the inputs: the correction of the value 0.
    reach : ndarray of shape (n_targets,)
        Largest distance from the centre; targets beyond it are clipped.
    outside : float
        Share of the rows beyond the limits when these were found.
    """

    location: Correction
    reach: Array
    outside: float = 0.0

    _record = Record(
        location=Part(Correction, "n_features", n_values="n_targets", n_scores="n_targets"),
        reach=_Reach("n_targets"),
        outside=real(low=0.0, high=1.0),
    )

    def __call__(self, rows: Rows) -> Rows:
        """Return rows with targets clipped to the limits."""
        centre = self.location(rows.X, np.zeros_like(rows.targets))
        targets = np.clip(rows.targets, centre - self.reach, centre + self.reach)
        return replace(rows, targets=targets)

    @classmethod
    def around(cls, location: Correction, rows: Rows) -> Limits:
        """Return limits at six times the median distance of targets from a location."""
        centre = location(rows.X, np.zeros_like(rows.targets))
        usual = weighted_medians(np.abs(rows.targets - centre), rows.weights)
        found = cls(location, outlying_from(usual))
        return replace(found, outside=found.share_outside(rows))

    def share_outside(self, rows: Rows) -> float:
        """Return the share of rows with a target that is clipped."""
        return float(np.mean((self(rows).targets != rows.targets).any(axis=1)))


class LearnedTargets(Recorded):
    """Targets as components learn them: numbers (logarithms of counts), or codes of classes.

    Parameters
    ----------
    objective : Pointwise or Compositional
        Mean of a loss, or a risk of it.
    n_outputs : int
        Number of scores of the loss.

    Attributes
    ----------
    unit : ndarray of shape (n_targets,)
        Unit of each target in which errors are compared.
    limits : Limits or None
        Limits that numbers are clipped to, so that outliers do not spoil their mean.

    Raises
    ------
    ValueError
        If the scores of the loss are in other units than targets.
    """

    _record = Record(
        unit=Numbers("n_targets", above=0.0),
        limits=Maybe(Part(Limits, "n_features", "n_targets")),
    )

    def __init__(self, objective: Objective, n_outputs: int) -> None:
        if not isinstance(objective, Pointwise | Compositional):
            raise ValueError(
                "The default expansion learns the mean of a loss, or a risk of it, by sums over "
                f"rows, got the objective {type(objective).__name__}. Use "
                "expansion='dictionary', 'komp' or 'random_features'."
            )
        if objective.copies > 1:
            raise ValueError(
                "Tracker('nasa') averages directions of steps, and the default expansion makes "
                "none. Leave the tracker out, or use expansion='komp'."
            )
        if not begins_with_regression(objective, n_outputs):
            raise ValueError(
                f"The default expansion begins with least squares, but scores of "
                f"loss={objective.loss!r} are in other units than targets. Use "
                "expansion='dictionary' or 'komp'."
            )
        self.objective, self.n_outputs = objective, n_outputs
        self.unit = np.ones(self.n_targets)
        self.limits: Limits | None = None

    @property
    def loss(self) -> Loss:
        """The loss of the objective."""
        return self.objective.loss

    @property
    def corrects(self) -> bool:
        """Whether a correction is needed: the minimiser is neither a mean nor scores of classes."""
        return self.risk is not None or not (self.are_codes or isinstance(self.loss, Squared))

    @property
    def of_mean(self) -> bool:
        """Whether predictions are means of numbers, or probabilities of classes."""
        return self.risk is None and has_mean(self.loss)

    @property
    def risk(self) -> Risk | None:
        """The risk of the loss that is minimised; None if its mean is."""
        return self.objective.risk if isinstance(self.objective, Compositional) else None

    @property
    def stacked_by(self) -> Loss:
        """The loss that the weights of components minimise."""
        return self.loss if self.are_codes else Squared()

    @property
    def are_codes(self) -> bool:
        """Whether targets are codes of classes."""
        return self.loss.task == "classification"

    @property
    def n_targets(self) -> int:
        """Number of columns of the targets that components learn."""
        return self.n_outputs if self.are_codes else self.loss.target_width(self.n_outputs)

    def __call__(self, rows: Rows) -> Rows:
        """Return rows with the targets that components learn."""
        if self.are_codes or isinstance(self.loss, Squared):
            return rows
        numbers = regression_targets(self.objective, rows.targets, self.n_targets)
        assert numbers is not None
        learned = replace(rows, targets=numbers)
        return learned if self.limits is None else self.limits(learned)

    def measure(self, rows: Rows) -> None:
        """Set the limits, and the unit of each target, with which all targets count alike.

        Parameters
        ----------
        rows : Rows
            Rows in random order.
        """
        self.unit, self.limits = np.ones(self.n_targets), None
        if not self.are_codes and self.loss.lipschitz is not None:
            self.limits = limits_of(self(rows))
        if self.loss.task == "regression" and self.n_targets > 1:
            deviations = self(rows).targets.std(axis=0)
            self.unit = np.where(deviations > 0.0, deviations, 1.0)

    def in_units(self, rows: Rows) -> Rows:
        """Divide the learned targets of rows by their units."""
        return rows.map_targets(np.diag(1.0 / self.unit), np.zeros(self.n_targets))

    def correction(
        self, held: Rows, targets: Array, values: Array, kernel: Kernel | None
    ) -> Correction:
        """Fit the correction that maps predictions for held out rows to the least loss.

        Parameters
        ----------
        held : Rows
            The held out rows.
        targets : ndarray of shape (n, n_targets)
            Their targets as components learn them.
        values : ndarray of shape (n, n_targets)
            Predictions of the weighted components.
        kernel : Kernel or None
            Kernel of the inputs.
        """
        missed = [
            usual_size(residuals[:, np.newaxis], held.weights) or _ROUNDING * (size or 1.0)
            for residuals, size in zip(
                np.abs(values - targets).T, np.abs(targets).max(axis=0), strict=True
            )
        ]
        return Correction.fitted(
            replace(held, targets=targets_of_codes(self.loss, held.targets)),
            values,
            self.loss,
            self.n_outputs,
            risk=self.risk,
            unit=float(np.mean(missed)) if self.are_codes else np.array(missed),
            kernel=kernel,
        )

    def follow(self, rows: Rows) -> None:
        """Drop the limits if many more targets lie outside than before: the stream has drifted."""
        if self.limits is None:
            return
        limits, self.limits = self.limits, None
        if limits.share_outside(self(rows)) < _DRIFT * max(limits.outside, _LEAST_OUTSIDE):
            self.limits = limits


@dataclass(frozen=True)
class Learnable:
    """Map from rows to rows as components learn them, to be used where the rows lie."""

    targets: LearnedTargets
    n_outputs: int
    dtype: Any

    def __call__(self, X: Any, targets: Array, weights: Array) -> Rows:
        """Return rows as components learn them, from inputs, encoded targets and weights."""
        loss, sizes = self.targets.loss, (self.n_outputs, self.dtype)
        return self.targets(coded_rows(loss, X, targets, weights, *sizes))


def limits_of(rows: Rows) -> Limits | None:
    """Find limits outside which targets are wrong, rather than right and rare.

    A pilot fit learns the targets three times: as they are, clipped to limits around their median,
    and clipped to limits around a function with the least absolute error. Limits are used if they
    lower the absolute error of its leave-one-out predictions by many standard errors. If targets
    are rare but right, limits lower it by a few standard errors at most.

    Parameters
    ----------
    rows : Rows
        Rows in random order, with the targets that are learned by least squares.

    Returns
    -------
    limits : Limits or None
        None if targets are not clipped.
    """
    rows = rows[:_ROWS]
    middle = weighted_medians(rows.targets, rows.weights)
    wide = Limits.around(Correction.constant(middle, rows.X.shape[1]), rows)
    if len(rows) < _FEWEST or (wide(rows).targets == rows.targets).all():
        return wide
    loss, n_targets = AbsoluteError(), middle.size

    def errors(learned: Rows) -> Array:
        values = left_out_by_pilot(learned)
        missed = usual_size(np.abs(values - rows.targets), rows.weights)
        h = Correction.fitted(rows, values, loss, n_targets, unit=missed or 1.0)
        return loss_and_slopes(loss, h(rows.X, values), rows.targets)[0]

    spread = usual_size(np.abs(rows.targets - middle), rows.weights)
    location = Correction.fitted(
        rows,
        np.zeros_like(rows.targets),
        loss,
        n_targets,
        unit=spread or 1.0,
        kernel=pilot_kernel(rows.X),
    )
    close = Limits.around(location, rows)
    given, of_wide, of_close = errors(rows), errors(wide(rows)), errors(close(rows))
    if max(_sure(given - of_wide) / _SURE_OF_WIDE, _sure(given - of_close) / _SURE_OF_CLOSE) < 1.0:
        return None
    return wide if of_wide.mean() < of_close.mean() else close


def _sure(gains: Array) -> float:
    """Return the mean of gains, in units of its standard error."""
    return float(gains.mean() / max(gains.std() / np.sqrt(gains.size), _TINY))


# Inputs of held out rows are saved in every file; they take at most so many bytes.
_HELD_OUT_BYTES = 2**22
# A correction is learned on the held out rows; each fold is scored by one learned on the others.
_FOLDS = 3
# Number of fits to few rows that each leave some rows out: enough that each has nearly all rows.
_FITS = 10


class FitWithout(NamedTuple):
    """A fit to all rows but some.

    Attributes
    ----------
    left_out : ndarray of int
        Numbers of the rows left out, among the rows held out.
    function : SumOfComponents
        Fit to the other rows, which also chose its kernels, metrics, ridges and weights.
    """

    left_out: NDArray[np.intp]
    function: SumOfComponents


class HeldOut(NamedTuple):
    """Held out rows, and their scores by a fit without them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs of the function.
    targets : ndarray of shape (n_rows, n_targets)
        Numbers, or codes of classes: +1 in the column of a row's class and -1 in all others; one
        column for two classes.
    scores : ndarray of shape (n_rows, n_outputs)
        Scores of the rows.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of the rows; rows of a group are adjacent. None if each row is its own group.
    """

    X: NDArray[np.floating]
    targets: Array
    scores: Array
    weights: Array
    groups: NDArray[np.int64] | None = None


@dataclass(eq=False)
class Judged(Recorded):
    """Rows that chose the weights of components, before the components had learned these rows.

    Attributes
    ----------
    rows : Rows
        Rows with the targets that the learner was given.
    values : ndarray of shape (n_rows, n_values)
        Weighted sum of the components at the rows, before any correction.
    level : ndarray of shape (n_outputs,) or None, default=None
        Level of the fit that has not learned the rows; None for that of the function.
    """

    rows: Rows
    values: Array
    level: Array | None = None
    _scored: HeldOut | None = field(default=None, init=False, repr=False)
    _fits: list[FitWithout] | None = field(default=None, init=False, repr=False)

    _record = Record(
        rows=Part(Rows, "n_rows", "n_features", "n_targets"),
        values=Numbers("n_rows", "n_values"),
        level=IfAny(Numbers("n_levels")),
    )

    @classmethod
    def of(cls, rows: Rows, values: Array, fewest: int = 1) -> Self:
        """Keep rows: at least the last ``fewest``, and more while they take little memory."""
        each = max(1, rows.X.shape[1]) * rows.X.itemsize
        last = slice(-max(fewest, _HELD_OUT_BYTES // each), None)
        return cls(rows[last].own(), values[last].copy())

    def held_out(self, targets: LearnedTargets, function: SumOfComponents) -> HeldOut:
        """Return the rows with their scores; corrections are learned without the scored rows.

        Parameters
        ----------
        targets : LearnedTargets
            Targets as the components learned them.
        function : SumOfComponents
            Weighted sum of the components.
        """
        if self._scored is not None:
            return self._scored
        rows, scores = self.rows, self.values
        if targets.corrects:
            numbers, kernel = np.arange(len(rows)), function.kernel_of_inputs
            learned = targets(rows).targets
            scores = np.empty((len(rows), targets.n_outputs))
            cuts = [int(fold[0]) for fold in np.array_split(numbers, min(_FOLDS, len(rows)))[1:]]
            cuts = sorted({rows.whole(cut, least=1) for cut in cuts})
            for fold in np.split(numbers, cuts):
                others = np.setdiff1d(numbers, fold) if fold.size < len(rows) else fold
                given = rows[others], learned[others], self.values[others]
                scores[fold] = targets.correction(*given, kernel)(rows.X[fold], self.values[fold])
        level = function.level if self.level is None else self.level
        if level is not None:
            scores = scores + level
        self._scored = HeldOut(rows.X, rows.targets, scores, rows.weights, rows.groups)
        return self._scored

    def fits(self, learn: Callable[[Rows], SumOfComponents], block: int) -> list[FitWithout]:
        """Fit all rows but some, repeatedly, until each row was left out once.

        Parameters
        ----------
        learn : callable
            Maps rows to the function fitted to them, with everything chosen by these rows.
        block : int
            Number of successive rows that are left out together, if rows have no groups.
        """
        if self._fits is None:
            together = np.arange(len(self.rows)) // block
            if self.rows.groups is not None:
                together = np.repeat(np.arange(len(self.rows.ends) - 1), np.diff(self.rows.ends))
            n = int(together[-1]) + 1
            turn = together * min(_FITS, n) // n
            self._fits = [
                FitWithout(np.flatnonzero(turn == number), learn(self.rows[turn != number].own()))
                for number in range(min(_FITS, n) if n > 1 else 0)
            ]
        return self._fits
