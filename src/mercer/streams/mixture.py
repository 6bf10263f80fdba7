"""The default for streams: scaled inputs, several ways of learning side by side, and their blend.

:class:`Mixture` predicts and learns a row, :class:`StreamFunction` gives it the interface that
estimators use, and :class:`StreamLearner` learns row by row and watches the losses for changes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.expansions import KOMP, Stream
from mercer.functions import Function, KernelExpansion, start
from mercer.history import History
from mercer.kernels import Gaussian, Kernel
from mercer.learning import AutomaticStep, KernelLearner, Learner, NewOutputs, Passes
from mercer.learning.learner import StepSize, Take
from mercer.losses import Logistic, Loss, Softmax, Squared
from mercer.objectives import Objective, Pointwise
from mercer.records import Maybe, Numbered, Numbers, Part, Passing, Record, State
from mercer.schedules import Constant
from mercer.streams.drift import ChangeDetector
from mercer.streams.experts import Blend
from mercer.streams.ways import FeatureSets, LinearWays, RunningScale
from mercer.sums import (
    check_sizes,
    codes_of_targets,
    rows_at_once,
    shift_of_codes,
    targets_of_codes,
)
from mercer.validation import integer, real, truth

Array = NDArray[np.float64]

# Number of rows predicted at a time.
_CHUNK = 4096
# Exponent of the iterates' weights in averaged kernel expansions.
_AVERAGING = 3.0
# With more inputs, recursive ways use only random features, since their cost is quadratic.
_MOST_INPUTS = 32
# The importance of inputs is measured on one row in _BETWEEN; older rows fade by _KEPT.
_BETWEEN, _KEPT = 4, 0.997
# Number of rows after a change before the state is worth keeping as a memory.
_RIPE = 300
# Forgetting factor, and least number of rows, for the errors that compare restarted ways with
# others.
_RECENT, _FEW = 0.98, 20.0
# Losses are clipped here for change detection, in log odds or spreads of the target.
_WORST = 5.0
# The weight of a row is limited to _HEAVY times the mean over about _WEIGHTS rows.
_HEAVY, _WEIGHTS = 10.0, 1000
# Largest factor on the step of kernel ways for heavy rows, for classes and for numbers.
_HEAVIEST = {True: 4.0, False: 2.0}


class StreamSettings(NamedTuple):
    """Learning methods ("ways") that run side by side, and their sizes.

    Attributes
    ----------
    first_rows : int
        Number of rows that set the scale of the inputs before the ways start, which then learn
        these rows; until then predictions do not use inputs.
    lengths : tuple of float
        Length scales of Gaussian kernels, relative to the usual distance of standardised rows. Each
        has its own random features, and gradient ways with all steps.
    n_features : int
        Random features per length scale, in addition to the inputs and a constant.
    steps : tuple of float
        Step sizes of gradient ways for classes.
    number_steps : tuple of float
        Step sizes for numbers, divided by the squared norm of the features.
    forgettings : tuple of float
        Forgetting factors of recursive sums on the features of the last length scale. One more
        recursive sum, without forgetting, restarts when the stream changes.
    n_memories : int
        Number of functions kept from before changes, in case a state comes back; at least 1.
    n_metrics, metric_length, first_metric : int, float, int
        Number of additional sets of random features, with gradient ways and recursive sums, that
        weight inputs by their importance, measured by gradients of the function; their length
        scale; and when they start. The sets restart one after the other with the present metric,
        after ``first_metric`` rows, twice as many, four times as many, and so on.
    points : int
        Largest number of points of a kernel expansion.
    kernel_ways : tuple of (float, float, float)
        Length scale, step for classes and step for numbers of each kernel expansion, which gives
        two ways: its last iterate, and the average of its iterates.
    share : float
        See :class:`mercer.streams.Blend`.
    """

    first_rows: int = 8
    lengths: tuple[float, ...] = (0.25, 0.5, 1.0)
    n_features: int = 96
    steps: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0)
    number_steps: tuple[float, ...] = (0.01, 0.05, 0.2, 0.8)
    forgettings: tuple[float, ...] = (1.0, 0.999)
    n_memories: int = 3
    n_metrics: int = 2
    metric_length: float = 0.5
    first_metric: int = 300
    points: int = 200
    kernel_ways: tuple[tuple[float, float, float], ...] = ((0.25, 2.0, 0.5), (0.5, 2.0, 0.5))
    share: float = 1e-3


USUAL = StreamSettings()

# A mixture: with its first rows before the ways start, with the ways afterwards.
_MIXTURE = Record(
    n_inputs=integer(low=1),
    n_outputs=integer(low=1),
    is_class=truth(),
    seed=integer(low=0),
    n_rows=integer(low=0),
    distance=real(low=0.0),
    _weight=real(low=0.0),
    inputs=Part(RunningScale, n_columns="n_inputs"),
    targets=Part(RunningScale, n_columns="n_outputs"),
    first=Maybe(State()),
    started=Maybe(State()),
)
_FIRST = Record(
    x=Numbers("n_first", "n_inputs"),
    said=Numbers("n_first", "n_inputs", dtype=np.bool_),
    y=Numbers("n_first", "n_outputs"),
    w=Numbers("n_first", above=0.0),
)
_WAYS = Record(
    _n_changes=integer(low=0),
    _changed_at=integer(low=0),
    detector=Part(ChangeDetector),
    _relevance=Numbers("n_inputs"),
    _is_new=Numbers("n_new", dtype=np.bool_),
    _errors=Numbers("n_new", 3),
    sets=Part(FeatureSets, "n_sets", "n_inputs", "n_features"),
    ways=Part(
        LinearWays,
        *("n_sets", "n_steps", "n_outputs", "n_sums", "n_memories"),
        n_features="n_columns",
    ),
    kernels=Numbered(State(), "n_kernels"),
    blend=Part(Blend, "n_all"),
)


class Mixture(Passing):
    """Model of a stream of classes or numbers, learned row by row in bounded memory.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of columns of the rows and of the targets.
    is_class : bool
        Whether targets are class codes -1 and +1 (one output for two classes); otherwise numbers.
    seed : int, default=0
        Seed for the random features.
    settings : StreamSettings
        Ways that run side by side.

    Attributes
    ----------
    n_rows : int
        Rows learned so far.
    distance : float
        Usual distance of standardised rows; 0 before the ways start.
    has_changed : bool
        Whether a change of the stream was detected at the last row.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import Mixture
    >>> rng, f = np.random.default_rng(0), Mixture(2, 1, is_class=False)
    >>> for x in rng.normal(size=(500, 2)):
    ...     loss = f.learn(x, np.array([100.0 + np.sin(x[0])]))
    >>> bool(abs(f.values(np.array([1.0, 0.0]))[0] - 100.0 - np.sin(1.0)) < 0.2)
    True
    """

    _passing: ClassVar[dict[str, Any]] = {"_asked": None}

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        *,
        is_class: bool,
        seed: int = 0,
        settings: StreamSettings = USUAL,
    ) -> None:
        self.n_inputs, self.n_outputs, self.is_class = n_inputs, n_outputs, bool(is_class)
        self.seed, self.settings = seed, settings
        self.inputs, self.targets = RunningScale(n_inputs), RunningScale(n_outputs)
        self.n_rows, self.distance, self.has_changed = 0, 0.0, False
        self._weight = 0.0  # the mean so far
        self._first: list[tuple[Array, Array, float]] = []
        # Results for the last row that was predicted, which may be the next row to be learned.
        self._asked: tuple[bytes, Array, Array, Array] | None = None

    #: Kinds of ways, whose weights the history of a model records.
    kinds = "steps", "sums", "memories", "last iterates", "averages", "stacks"

    # -- the ways -------------------------------------------------------------------------------

    def _start(self, distance: float) -> None:
        """Create the ways, before they have learned anything."""
        settings, self.distance = self.settings, distance
        lengths = [h * distance for h in self._set_lengths]
        self.sets = FeatureSets(self.n_inputs, lengths, settings.n_features, self.seed)
        linear = self.n_inputs if self.n_inputs <= _MOST_INPUTS else 0
        last = len(settings.lengths) - 1
        self.ways = LinearWays(
            self.sets.n_columns,
            self.n_outputs,
            is_class=self.is_class,
            steps=settings.steps if self.is_class else settings.number_steps,
            sums=[
                *((last, factor) for factor in (*settings.forgettings, 1.0)),
                *((last + 1 + number, 1.0) for number in range(settings.n_metrics)),
            ],
            n_sets=len(lengths),
            n_in_sums=self.sets.n_features + 1 + linear,
            n_memories=settings.n_memories,
        )
        self._relevance = np.zeros(self.n_inputs)
        # What can restart: the sums since a change, and the set of each metric; and who predicts
        # for them.
        n_sums, n_steps = len(settings.forgettings), self.ways.steps.size
        first = len(lengths) * n_steps
        self._like = [(n_sums, n_sums - 1)]
        self._places = [([first + n_sums], [first + n_sums - 1])]
        for number in range(settings.n_metrics):
            pair = number, (number + 1) % settings.n_metrics
            self._like.append((n_sums + 1 + pair[0], n_sums + 1 + pair[1]))
            new, old = (
                [*range(start * n_steps, (start + 1) * n_steps), first + n_sums + 1 + at]
                for at, start in zip(pair, (last + 1 + at for at in pair), strict=True)
            )
            self._places.append((new, old))
        self._is_new = np.zeros(1 + settings.n_metrics, dtype=np.bool_)
        self._errors = np.zeros((1 + settings.n_metrics, 3))
        self._n_changes, self._changed_at, self.detector = 0, 0, ChangeDetector()
        self._watched = self.names.index("sums since a change")
        self.kernels = [self._kernel_way(number) for number in range(len(settings.kernel_ways))]
        names, n_kernels = self.names, len(self.kernels)
        n_points = 2 * n_kernels
        n_sums = len(self.ways.of_sums) + settings.n_memories
        starts = [len(names) - n_points - n_sums, len(names) - n_points - settings.n_memories]
        starts += [len(names) - n_points, len(names) - n_kernels, len(names)]
        self._kind_starts = np.array([0, *starts])
        is_class, share = self.is_class, settings.share
        self.blend = Blend(len(names), self.n_outputs, is_class=is_class, share=share)

    @property
    def _set_lengths(self) -> list[float]:
        settings = self.settings
        return [*settings.lengths, *(settings.n_metrics * [settings.metric_length])]

    @property
    def names(self) -> list[str]:
        """Return the name of each way, in the order of the blend's weights, without stacks."""
        settings = self.settings
        steps = settings.steps if self.is_class else settings.number_steps
        metrics = [f"metric {number}" for number in range(1, settings.n_metrics + 1)]
        sets = [*(f"length {length:g}" for length in settings.lengths), *metrics]
        names = [f"steps of {step:g}, {which}" for which in sets for step in steps]
        names += [f"sums, forgetting {factor:g}" for factor in settings.forgettings]
        names += ["sums since a change", *(f"sums, {which}" for which in metrics)]
        names += [f"memory {number}" for number in range(1, settings.n_memories + 1)]
        for what in ("last iterate", "averages"):
            names += [f"points, {what}, length {way[0]:g}" for way in settings.kernel_ways]
        return names

    @property
    def kind_weights(self) -> Array:
        """Return the weight of each of the :attr:`kinds`; they sum to 1, or are 0 at first."""
        if not self.distance:
            return np.zeros(len(self.kinds))
        return np.add.reduceat(self.blend.weights, self._kind_starts)

    @property
    def weights(self) -> list[tuple[str, str, float]]:
        """Return kind, name and weight of each way and each stack; empty before the ways start."""
        if not self.distance:
            return []
        weights, stacks = self.blend.weights.tolist(), self.blend.stacks
        names = [*self.names, *(f"stack, forgetting {stack.forgetting:g}" for stack in stacks)]
        starts = self._kind_starts[1:]
        kinds = [self.kinds[k] for k in np.searchsorted(starts, np.arange(len(names)), "right")]
        return list(zip(kinds, names, weights, strict=True))

    @property
    def size(self) -> int:
        """Number of points and random features of all ways."""
        if not self.distance:
            return 0
        points = sum(way.function.size for way in self.kernels)
        return points + len(self.sets.lengths) * self.sets.n_features

    @property
    def _loss(self) -> Loss:
        if not self.is_class:
            return Squared()
        return Logistic() if self.n_outputs == 1 else Softmax()

    def _kernel_way(self, number: int) -> KernelLearner:
        length, step, number_step = self.settings.kernel_ways[number]
        kernel, expansion = Gaussian(length * self.distance), KOMP(max_size=self.settings.points)
        function = start(
            expansion, kernel, self.n_inputs, self.n_outputs, np.float64, averaging=_AVERAGING
        )
        steps = Constant(step if self.is_class else number_step)
        automatic = AutomaticStep(1.0, 1.0, 1.0)
        return KernelLearner(Pointwise(self._loss), function, steps, 0.0, 1, automatic)

    # -- answers --------------------------------------------------------------------------------

    def _said(self, images: Array, features: Array) -> Array:
        """Return the predictions of all ways at standardised rows, (n, n_ways, n_outputs)."""
        if len(images) == 1:
            row = images[0]
            points = [way.last_iterate_row(row)[np.newaxis] for way in self.kernels]
            points += [way.evaluate_row(row)[np.newaxis] for way in self.kernels]
        else:
            functions: list[KernelExpansion] = [way.function for way in self.kernels]
            points = [f.current(images) for f in functions]
            points += [f.evaluate(images) for f in functions]
        linear = self.ways.values(features)
        if self._is_new.any():
            known = linear.copy()
            for number in np.flatnonzero(self._is_new):
                new, old = self._places[number]
                linear[:, new] = known[:, old]
        return np.concatenate([linear, *(values[:, np.newaxis] for values in points)], axis=1)

    def values(self, x: Array) -> Array:
        """Return the values at a row, (n_outputs,): log odds, log probabilities, or numbers.

        Parameters
        ----------
        x : ndarray of shape (n_inputs,)
            The row; NaN for missing values.
        """
        if not self.distance:
            return self._values_at_first()
        return self._unscaled(self.blend.values(self._ask(x)[-1]))

    def _ask(self, x: Array) -> tuple[bytes, Array, Array, Array]:
        """Return a row's key, standardised inputs, features and predictions of the ways."""
        key = x.tobytes()
        asked = self._asked  # read once: other threads may set it
        if asked is not None and asked[0] == key:
            return asked
        images = self.inputs.image(x[np.newaxis], flags=True)
        features = self.sets.features(images)
        asked = key, images[0], features[0], self._said(images, features)[0]
        self._asked = asked
        return asked

    def evaluate(self, X: Array) -> Array:
        """Return values at rows, (n, n_outputs).

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            The rows; NaN for missing values.
        """
        if not self.distance:
            return np.tile(self._values_at_first(), (len(X), 1))
        values = np.empty((len(X), self.n_outputs))
        for begin in range(0, len(X), _CHUNK):
            images = self.inputs.image(X[begin : begin + _CHUNK], flags=True)
            said = self._said(images, self.sets.features(images))
            for place, its in enumerate(said, begin):
                values[place] = self._unscaled(self.blend.values(its))
        return values

    def _values_at_first(self) -> Array:
        return np.zeros(self.n_outputs) if self.is_class else self.targets.mean.copy()

    def _unscaled(self, values: Array) -> Array:
        return values if self.is_class else self.targets.mean + self.targets.spread * values

    # -- learning -------------------------------------------------------------------------------

    def learn(self, x: Array, target: Array, weight: float = 1.0) -> float:
        """Learn a row.

        Parameters
        ----------
        x : ndarray of shape (n_inputs,)
            The row; NaN for missing values.
        target : ndarray of shape (n_outputs,)
            Class codes or numbers.
        weight : float, default=1.0
            Weight of the row, above 0; it counts relative to the mean weight, at most ten times.

        Returns
        -------
        loss : float
            Loss of the prediction before learning: the negative log probability of the class, or
            half the squared error.
        """
        self.has_changed = False
        n = min(self.n_rows + 1, _WEIGHTS)
        self._weight += (min(weight, _HEAVY * self._weight or weight) - self._weight) / n
        weight = min(weight / self._weight, _HEAVY)
        if self.distance:
            answer = self._learn(x, target, weight)
        elif self.is_class:
            answer = np.full(max(self.n_outputs, 2), 1.0 / max(self.n_outputs, 2))
        else:
            answer = self.targets.mean.copy()
        loss = self._loss_of(answer, target)
        self.inputs.learn(x)
        self.targets.learn(target)
        self.n_rows += 1
        self._asked = None
        if not self.distance:
            self._first.append((x.copy(), target.copy(), weight))
            if self.n_rows >= self.settings.first_rows:
                moving = int(np.count_nonzero(self.inputs.spread))
                self._start(float(np.sqrt(2.0 * max(moving, 1))))
                for row in self._first:
                    self._learn(*row)
                self._first = []
        return loss

    def _loss_of(self, answer: Array, target: Array) -> float:
        if not self.is_class:
            return 0.5 * float(np.sum((target - answer) ** 2))
        label = int(target.argmax()) if target.size > 1 else int(target[0] > 0.0)
        return -math.log(max(float(answer[label]), 1e-300))

    def _learn(self, x: Array, target: Array, weight: float) -> Array:
        """Teach all ways the row, and the blend their predictions for it."""
        _, image, features, said = self._ask(x)
        scaled = target if self.is_class else self.targets.image(target)
        answer = self._unscaled(self.blend.learn(said, scaled, weight))
        self._catch_up(features, scaled)
        self.ways.learn(features, scaled, weight)
        self._measure(features)
        # The way with all rows since the last change: ways that adapt quickly would not show a
        # change.
        missed = float(self.blend.losses[self._watched])
        missed = missed if self.is_class else math.sqrt(missed)
        if self.detector.add(missed if missed < _WORST else _WORST):  # also for NaN
            self._changed()
        encoded = targets_of_codes(self._loss, scaled[np.newaxis])[0]
        for number, kernel_way in enumerate(self.kernels):
            try:
                kernel_way.learn_row(image, encoded, min(weight, _HEAVIEST[self.is_class]))
            except DivergenceError:
                self.kernels[number] = self._kernel_way(number)
        self._asked = None
        return answer

    def _begin(self, number: int, restart: Callable[[], None]) -> None:
        """Restart ways; until they have caught up, others predict in their place.

        The blend and the stacks keep their weights, so a way's predictions must not jump.
        """
        restart()
        self._is_new[number] = True
        self._errors[number] = 0.0

    def _catch_up(self, features: Array, target: Array) -> None:
        """Let restarted ways predict again once they have smaller errors than their substitutes."""
        for number in np.flatnonzero(self._is_new):
            errors = self._errors[number]
            errors *= _RECENT
            for column, way in enumerate(self._like[number]):
                missed = self.ways.of_sums[way] @ features[self.ways.set_of(way)] - target
                errors[column] += missed @ missed
            errors[2] += 1.0  # number of rows, which fades like the errors
            self._is_new[number] = errors[2] < _FEW or errors[0] > errors[1]

    def _measure(self, features: Array) -> None:
        """Update the importance of each input; from time to time restart a set with this metric."""
        settings, n = self.settings, self.n_rows + 1
        last = len(settings.lengths) - 1
        if n % _BETWEEN == 0:
            # The recursive sums that forget, whose gradients describe the present.
            known = self.ways.of_sums[len(settings.forgettings) - 1]
            gradients = self.sets.gradients(last, features[last], known)
            self._relevance *= _KEPT
            self._relevance += np.sum(gradients**2, axis=0)
        times, rest = divmod(n, settings.first_metric)
        if rest or times & (times - 1):
            return
        newest, mean = self._newest_metric, self._relevance.mean()
        if newest is not None and mean > 0.0:
            number = last + 1 + newest
            self.sets.metric[number] = np.sqrt(self._relevance / mean)
            self._begin(1 + newest, partial(self.ways.restart_set, number))

    @property
    def _newest_metric(self) -> int | None:
        """Return the index of the metric that started last; None if there is none."""
        times = (self.n_rows + 1) // self.settings.first_metric
        n = self.settings.n_metrics
        return (times.bit_length() - 1) % n if times and n else None

    def _changed(self) -> None:
        """React to a change of the stream.

        The function learned since the last change is kept as a memory, in case that state comes
        back. The sums since a change restart, and so do the sums of the newest metric.
        """
        self.has_changed = True
        n = len(self.settings.forgettings)
        # Sums over a few rows would be a poor memory; then use the sums that forget.
        is_ripe = self.n_rows - self._changed_at >= _RIPE
        self.ways.remember(n if is_ripe else n - 1, self._n_changes % self.settings.n_memories)
        self._changed_at = self.n_rows
        self._begin(0, partial(self.ways.restart, n))
        newest = self._newest_metric
        if newest is not None:
            self._begin(1 + newest, partial(self.ways.restart, n + 1 + newest))
        self._n_changes += 1

    # -- other inputs and outputs ---------------------------------------------------------------

    def add_inputs(self, n: int, past: Array | None = None) -> None:
        """Add ``n`` columns to the rows.

        Parameters
        ----------
        n : int
            Number of new columns.
        past : ndarray of shape (n,) or None, default=None
            Value of all earlier rows in each new column, NaN for missing; None if all are missing.
        """
        past = np.full(n, np.nan) if past is None else past
        self.inputs.add_columns(past, self.n_rows)
        self.n_inputs += n
        self._asked = None
        self._first = [
            (np.concatenate([x, past]), target, weight) for x, target, weight in self._first
        ]
        if not self.distance:
            return
        # Recursive ways that use all features use the new ones, too; otherwise they use none of
        # them.
        all_heard = self.ways.of_sums.shape[2] == self.sets.n_columns
        self.ways.add_features(n, n if all_heard and self.n_inputs <= _MOST_INPUTS else 0)
        self.sets.add_inputs(n)
        self._relevance = np.concatenate([self._relevance, np.zeros(n)])
        for number, old in enumerate(self.kernels):
            state = old.to_state(whole=True)
            arrays = state["function"]["arrays"]
            points = arrays["points"]
            arrays["points"] = np.hstack([points, np.zeros((len(points), n), points.dtype)])
            self.kernels[number] = self._kernel_way(number)
            self.kernels[number].restore(state)

    def map_outputs(self, places: NDArray[np.int64], mixing: Array) -> None:
        """Add classes.

        Parameters
        ----------
        places : ndarray of shape (n_old,)
            Index of each old class among all classes.
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            Maps log odds of the old classes to log odds of all classes.
        """
        n_old, n_new = mixing.shape
        self.n_outputs, self._asked = n_new, None
        codes, offset = shift_of_codes(places, n_old, n_new)
        self.targets = RunningScale(n_new)  # not used for classes
        self._first = [(x, target @ codes + offset, weight) for x, target, weight in self._first]
        if not self.distance:
            return
        self.ways.map_outputs(mixing, codes, offset, self.sets.n_features)
        for way in self.kernels:
            way.map_outputs(NewOutputs(places, mixing, Pointwise(self._loss)))

    # -- state ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied, but for the settings."""
        first, ways = None, None
        if self.distance:
            ways = _WAYS.written(self)
        else:
            X = np.array([x for x, _, _ in self._first]).reshape(-1, self.n_inputs)
            Y = np.array([y for _, y, _ in self._first]).reshape(-1, self.n_outputs)
            weights = np.array([weight for *_, weight in self._first], dtype=np.float64)
            first = {"x": np.nan_to_num(X), "said": np.isfinite(X), "y": Y, "w": weights}
        return _MIXTURE.written_of({**vars(self), "first": first, "started": ways})

    @classmethod
    def from_state(cls, state: dict[str, Any], settings: StreamSettings = USUAL) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the numbers do not fit together."""
        values = _MIXTURE.read(state, {})
        sizes = {name: values[name] for name in ("n_inputs", "n_outputs")}
        made = cls(**sizes, is_class=values["is_class"], seed=values["seed"], settings=settings)
        first, ways = values.pop("first"), values.pop("started")
        vars(made).update(values)
        if not made.distance:
            rows = _FIRST.read(first, sizes).values()
            made._first = [
                (np.where(said, x, np.nan), target, float(weight))
                for x, said, target, weight in zip(*rows, strict=True)
            ]
            return made
        made._start(made.distance)
        sizes |= {
            "n_features": made.sets.n_features,
            "n_sets": len(made.sets.lengths),
            "n_columns": made.sets.n_columns,
            "n_steps": made.ways.steps.size,
            "n_sums": len(made.ways.of_sums),
            "n_memories": len(made.ways.memories),
            "n_kernels": len(made.kernels),
            "n_all": made.blend.weights.size,
            "n_new": made._is_new.size,
        }
        values = _WAYS.read(ways, sizes)
        if values["ways"].of_sums.shape[2] > made.sets.n_columns:
            raise ValueError("recursive ways are on more features than there are")
        states = values.pop("kernels")
        vars(made).update(values)
        for way, its in zip(made.kernels, states, strict=True):
            way.restore(its)
        return made


#: Error text: such a model has no single kernel or dictionary.
NO_SINGLE = (
    "A model of expansion=Stream() has several kernels and sets of features side by side; "
    "`learner_.function.mixture` has them, and `mercer.inspection.ways_table(model)` says how much "
    "each counts."
)


class StreamFunction(Function):
    """A :class:`Mixture` with the interface of a function.

    Parameters
    ----------
    expansion : Stream
        The expansion, with its sizes.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    is_class : bool
        Whether targets are class codes.

    Attributes
    ----------
    mixture : Mixture
        Model that learns and predicts.
    """

    expansion: Stream
    dtype = np.dtype(np.float64)

    def __init__(
        self, expansion: Stream, n_features: int, n_outputs: int, *, is_class: bool
    ) -> None:
        self.expansion, self.averaging = expansion, None
        settings = USUAL._replace(n_features=expansion.n_features, points=expansion.points)
        self.mixture = Mixture(
            n_features, n_outputs, is_class=is_class, seed=expansion.seed, settings=settings
        )

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of inputs; may grow with the stream."""
        return self.mixture.n_inputs

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """Number of outputs."""
        return self.mixture.n_outputs

    @property
    def size(self) -> int:
        """Number of points and random features of all models."""
        return self.mixture.size

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """Not available (``AttributeError``): there are several kernels."""
        raise AttributeError(NO_SINGLE)

    dictionary = coefficients = kernel

    def evaluate(self, X: Any) -> Array:
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return self.mixture.evaluate(np.ascontiguousarray(dense, dtype=np.float64))

    def keep_previous(self) -> None:
        """Not supported: no objective of this function needs the previous one."""
        raise NotImplementedError("A stream of ways side by side has no function before the last.")

    def map_outputs(self, mixing: Array) -> None:
        """Not supported: :meth:`Mixture.map_outputs` also needs the places of the classes."""
        raise NotImplementedError("Use `mixture.map_outputs`.")

    def snapshot(self) -> dict[str, Any]:
        return {"arrays": {}, "mixture": self.mixture.to_state()}

    def restore(self, state: dict[str, Any]) -> None:
        mixture = Mixture.from_state(state["mixture"], self.mixture.settings)
        if mixture.is_class != self.mixture.is_class:
            raise ValueError("The mixture is of another task.")
        self.mixture = mixture


_LOSSES = (Squared, Logistic, Softmax)
_REPORTED = 4096  # rows between two reports of progress
_N_LOSSES = 1000  # number of recent losses kept


def _why_not(objective: Objective, function: Any) -> str | None:
    """Return why an objective cannot be learned this way; None if it can."""
    if type(objective) is Pointwise and isinstance(objective.loss, _LOSSES):
        return None
    return (
        f"{function.expansion!r} learns the squared, the logistic and the softmax loss, without a "
        "risk. Use another expansion, such as 'komp', for this objective."
    )


class StreamLearner(Learner):
    """A mixture of models that learns each row when it comes.

    See :class:`mercer.learning.Learner` for the parameters.

    Attributes
    ----------
    recent_losses : deque of float
        Losses of the last 1,000 rows, each from the prediction before learning the row.
    """

    function: StreamFunction
    objective: Pointwise
    solves = (lambda objective: True,)
    refuses = (_why_not,)

    def __init__(
        self,
        objective: Objective,
        function: StreamFunction,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self.history = History(function.mixture.kinds)
        self.recent_losses: deque[float] = deque(maxlen=_N_LOSSES)

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        check_sizes(X, targets)  # of all rows, before the first is learned
        before = self.to_state() if X.shape[0] > 1 else None
        chunk = rows_at_once(X.shape[1], _REPORTED)
        try:
            for begin in range(0, X.shape[0], chunk):
                some = X[begin : begin + chunk]
                dense = some if isinstance(some, np.ndarray) else some.toarray()
                rows = np.ascontiguousarray(dense, dtype=np.float64)
                for number, x in enumerate(rows, begin):
                    self._learn_row(x, targets[number], float(weights[number]))
        except BaseException:
            if before is not None:
                self.restore(before)
            raise

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        for order in orders:
            for begin in range(0, order.size, _REPORTED):
                some = order[begin : begin + _REPORTED]
                self.learn(X[some], targets[some], weights[some])
                if report(some.size):
                    return

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        check_sizes(x, target)
        if weight > 0.0 and x.size > self.function.n_features:  # new inputs
            self.function.mixture.add_inputs(x.size - self.function.n_features)
        self._learn_row(x, target, weight)

    def _learn_row(self, x: Array, target: Array, weight: float) -> None:
        """Learn a row whose numbers are not too large."""
        self.n_samples += 1
        if weight <= 0.0:
            return
        mixture, loss = self.function.mixture, self.objective.loss
        codes = codes_of_targets(loss, target[np.newaxis], mixture.n_outputs)[0]
        missed = mixture.learn(x, codes, weight)
        self.recent_losses.append(missed)
        self.history.add_one(missed, mixture.size, 0.0, 0.0, mixture.kind_weights)
        if mixture.has_changed:
            self.history.note_change(mixture.n_rows)  # counted like the history

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        return Passes(n_passes, n_passes * len(weights))

    def end_race(self) -> None:
        """Do nothing: there are no candidates to choose from."""

    def finish(self, take: Take | None = None) -> None:
        """Do nothing: every row is learned at once."""

    # -- the function and its outputs -----------------------------------------------------------

    def current_function(self) -> StreamFunction:
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        return self.function.mixture.values(x)

    def map_outputs(self, new: NewOutputs) -> None:
        self.function.mixture.map_outputs(new.places, new.mixing)
        self._replace_objective(new.objective)

    # -- state ----------------------------------------------------------------------------------

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        recent = np.array(self.recent_losses, dtype=np.float64)
        return {**self._state_with(self.function.snapshot()), "recent_losses": recent}

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)
        recent = state["recent_losses"]
        if recent.ndim != 1 or recent.size > _N_LOSSES or not (recent >= 0.0).all():
            raise ValueError("the losses of the last rows are out of their range")
        self.recent_losses = deque(recent.tolist(), maxlen=_N_LOSSES)
