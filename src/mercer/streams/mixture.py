"""A function of a stream: scaled inputs, several ways to learn side by side, and their blend."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.expansions import KOMP
from mercer.features import FeatureMap, FeatureOptions
from mercer.functions import KernelExpansion, start
from mercer.kernels import Gaussian
from mercer.learning import AutomaticStep, KernelLearner, NewOutputs
from mercer.losses import Logistic, Loss, Softmax, Squared
from mercer.objectives import Pointwise
from mercer.schedules import Constant
from mercer.streams.experts import Blend
from mercer.streams.ways import LinearWays, RunningScale, linear_values
from mercer.sums import shift_of_codes, targets_of_codes

__all__ = ["Mixture", "StreamSettings"]

Array = NDArray[np.float64]

# Rows that are answered at a time, where there are many.
_CHUNK = 4096
# Averages of a kernel expansion weigh iterates like the third power of their number.
_AVERAGING = 3.0
# Steps of kernel ways are at most so many times as long for heavy rows, of classes and of numbers.
_HEAVIEST = {True: 4.0, False: 2.0}


class StreamSettings(NamedTuple):
    """What runs side by side.

    Attributes
    ----------
    first_rows : int
        Rows that scale the inputs before ways start, which learn them then; until then answers are
        those of no inputs.
    lengths : tuple of float
        Length scales of Gaussian kernels, by the usual distance of standardised rows: each has
        random features of its own, and gradient ways of all steps.
    n_features : int
        Random features of each length; besides there are the inputs, and a constant.
    steps : tuple of float
        Sizes of gradient steps on classes.
    number_steps : tuple of float
        Those on numbers, by the square of the features.
    forgettings : tuple of float
        Factors of recursive sums, on the features of the last length; one more, of factor 1, is of
        the rows since the stream changed.
    n_memories : int
        Functions of before a change that are kept, for states that come back.
    points : int
        Points of a kernel expansion at most.
    kernel_ways : tuple of (float, float, float)
        Length, step on classes and step on numbers of each kernel expansion, which has two ways:
        its last iterate, and the average of its iterates.
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
    points: int = 200
    kernel_ways: tuple[tuple[float, float, float], ...] = ((0.25, 2.0, 0.5), (0.5, 2.0, 0.5))
    share: float = 1e-3


USUAL = StreamSettings()


class Mixture:
    """Function of a stream, of classes or of numbers, learned row by row in bounded memory.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Columns of the rows and of the targets.
    is_class : bool
        Whether targets are class codes -1 and +1 (one output for two classes), else numbers.
    seed : int, default=0
        Of random features.
    settings : StreamSettings
        What runs side by side.

    Attributes
    ----------
    n_rows : int
        Rows learned so far.
    distance : float
        Usual distance of standardised rows; 0 until the ways have started.
    has_changed : bool
        Whether the loss of the last row said that the stream has changed.

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
        self._first: list[tuple[Array, Array, float]] = []
        # What was found out of the last row that was asked for: it may be the next to be learned.
        self._asked: tuple[bytes, Array, list[Array], Array] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asked": None}

    #: Kinds of ways, whose weights the history of a model has.
    kinds = "steps", "sums", "memories", "last iterates", "averages", "stacks"

    # -- the ways -------------------------------------------------------------------------------

    def _start(self, distance: float, n_inputs: int) -> None:
        """Make the ways, of which none has learned anything, for so many inputs."""
        settings, self.distance, self._scale = self.settings, distance, float(np.sqrt(n_inputs))
        self._draw()
        self.ways: list[LinearWays] = []
        for number, _ in enumerate(settings.lengths, 1):
            is_last = number == len(settings.lengths)
            self.ways.append(
                LinearWays(
                    settings.n_features + self.n_inputs + 1,
                    self.n_outputs,
                    is_class=self.is_class,
                    steps=settings.steps if self.is_class else settings.number_steps,
                    forgettings=(*settings.forgettings, 1.0) if is_last else (),
                )
            )
        self._memories = np.zeros((settings.n_memories, *self.ways[-1].coefficients.shape[1:]))
        self._n_changes = 0
        self.kernels = [self._kernel_way(number) for number in range(len(settings.kernel_ways))]
        sizes = [
            len(settings.lengths) * len(settings.steps),
            len(settings.forgettings) + 1,
            settings.n_memories,
            *(2 * [len(self.kernels)]),
        ]
        self._kind_starts = np.cumsum([0, *sizes])
        self.blend = Blend(
            len(self.names), self.n_outputs, is_class=self.is_class, share=settings.share
        )

    def _draw(self) -> None:
        """Draw the random features; those of more inputs go on from those of fewer."""
        settings = self.settings
        self._maps: list[tuple[FeatureMap, Any]] = []
        for block, length in enumerate(settings.lengths):
            kernel = Gaussian(length * self.distance)
            features = kernel._feature_map(self.n_inputs, FeatureOptions(), 0)
            drawn = features.draw(self.seed, block, settings.n_features, np.dtype(float))
            self._maps.append((features, drawn))

    @property
    def names(self) -> list[str]:
        """What each way is called, in the order of the weights of the blend, without stacks."""
        settings = self.settings
        steps = settings.steps if self.is_class else settings.number_steps
        names = [f"steps of {step:g}, length {h:g}" for h in settings.lengths for step in steps]
        names += [f"sums, forgetting {factor:g}" for factor in settings.forgettings]
        names += ["sums since a change"]
        names += [f"memory {number}" for number in range(1, settings.n_memories + 1)]
        for what in ("last iterate", "averages"):
            names += [f"points, {what}, length {way[0]:g}" for way in settings.kernel_ways]
        return names

    @property
    def kind_weights(self) -> Array:
        """How much each of the :attr:`kinds` of ways counts: they sum to 1, or 0 at first."""
        if not self.distance:
            return np.zeros(len(self.kinds))
        return np.add.reduceat(self.blend.weights, self._kind_starts)

    @property
    def size(self) -> int:
        """Points and random features of all ways."""
        if not self.distance:
            return 0
        points = sum(way.function.size for way in self.kernels)
        return points + len(self._maps) * self.settings.n_features

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

    def _features(self, images: Array) -> list[Array]:
        """Features of standardised rows, (n, n_features + 1 + n_inputs), for each length."""
        found, n = [], self.settings.n_features
        for features, drawn in self._maps:
            whole = np.empty((len(images), n + 1 + self.n_inputs))
            block = np.empty((len(images), n))
            features.transform(features.prepare(images), drawn, block)
            whole[:, :n], whole[:, n] = block, 1.0
            whole[:, n + 1 :] = images / self._scale
            found.append(whole)
        return found

    def _said(self, images: Array, features: list[Array]) -> Array:
        """Values of all ways at standardised rows, (n, n_ways, n_outputs)."""
        pairs = zip(self.ways, features, strict=True)
        said = [way.values(its) for way, its in pairs]
        said.append(linear_values(self._memories, features[-1]))
        if len(images) == 1:
            row = images[0]
            points = [way.last_iterate_row(row)[np.newaxis] for way in self.kernels]
            points += [way.evaluate_row(row)[np.newaxis] for way in self.kernels]
        else:
            functions: list[KernelExpansion] = [way.function for way in self.kernels]
            points = [f.current(images) for f in functions]
            points += [f.evaluate(images) for f in functions]
        said += [values[:, np.newaxis] for values in points]
        return np.concatenate(said, axis=1)

    def values(self, x: Array) -> Array:
        """Values at a row, (n_outputs,): log odds, logarithms of chances, or numbers.

        Parameters
        ----------
        x : ndarray of shape (n_inputs,)
            The row; NaN where it says nothing.
        """
        if not self.distance:
            return self._values_at_first()
        return self._unscaled(self.blend.values(self._ask(x)[-1]))

    def _ask(self, x: Array) -> tuple[bytes, Array, list[Array], Array]:
        """Return what there is to know of a row: its image, its features, what ways say."""
        key = x.tobytes()
        if self._asked is not None and self._asked[0] == key:
            return self._asked
        images = self.inputs.image(x[np.newaxis])
        features = self._features(images)
        self._asked = key, images[0], [its[0] for its in features], self._said(images, features)[0]
        return self._asked

    def evaluate(self, X: Array) -> Array:
        """Values at rows, (n, n_outputs).

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            The rows; NaN where they say nothing.
        """
        if not self.distance:
            return np.tile(self._values_at_first(), (len(X), 1))
        values = np.empty((len(X), self.n_outputs))
        for begin in range(0, len(X), _CHUNK):
            images = self.inputs.image(X[begin : begin + _CHUNK])
            said = self._said(images, self._features(images))
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
            The row; NaN where it says nothing.
        target : ndarray of shape (n_outputs,)
            Class codes or numbers.
        weight : float, default=1.0
            Of the row, above 0.

        Returns
        -------
        loss : float
            Of the answer before: minus the logarithm of the chance of the class, or half the
            squared error.
        """
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
                self._start(float(np.sqrt(2.0 * max(moving, 1))), self.n_inputs)
                for row in self._first:
                    self._learn(*row)
                self._first, self._asked = [], None
        return loss

    def _loss_of(self, answer: Array, target: Array) -> float:
        if not self.is_class:
            return 0.5 * float(np.sum((target - answer) ** 2))
        label = int(target.argmax()) if target.size > 1 else int(target[0] > 0.0)
        return -math.log(max(float(answer[label]), 1e-300))

    def _learn(self, x: Array, target: Array, weight: float) -> Array:
        """Let all ways learn a row, and the blend what they said of it."""
        _, image, features, said = self._ask(x)
        scaled = target if self.is_class else self.targets.image(target)
        answer = self._unscaled(self.blend.learn(said, scaled, weight))
        for way, its in zip(self.ways, features, strict=True):
            way.learn(its, scaled, weight)
        encoded = targets_of_codes(self._loss, scaled[np.newaxis])[0]
        for number, kernel_way in enumerate(self.kernels):
            try:
                kernel_way.learn_row(image, encoded, min(weight, _HEAVIEST[self.is_class]))
            except DivergenceError:
                self.kernels[number] = self._kernel_way(number)
        self._asked = None
        return answer

    def changed(self) -> None:
        """Take account of a change of the stream.

        Sums since a change begin anew, and what sums with forgetting know, mostly of before, is
        kept as a memory, for the state to come back.
        """
        if not self.distance:
            return
        sums = self.ways[-1]
        n = len(self.settings.forgettings)
        if len(self._memories):
            slot = self._n_changes % len(self._memories)
            factor = 2.0 if self.is_class else 1.0
            self._memories[slot] = factor * sums.coefficients[sums.steps.size + n - 1]
        sums.restart(n)
        self._n_changes += 1
        self._asked = None

    # -- other inputs and outputs ---------------------------------------------------------------

    def add_inputs(self, n: int) -> None:
        """Go on with rows of so many more columns, of which no row has said anything."""
        self.inputs.add_columns(n)
        self.n_inputs += n
        self._asked = None
        self._first = [
            (np.concatenate([x, np.full(n, np.nan)]), target, weight)
            for x, target, weight in self._first
        ]
        if not self.distance:
            return
        self._draw()
        for way in self.ways:
            way.add_features(n)
        zeros = np.zeros((*self._memories.shape[:2], n))
        self._memories = np.concatenate([self._memories, zeros], axis=2)
        for number, old in enumerate(self.kernels):
            state = old.to_state(whole=True)
            arrays = state["function"]["arrays"]
            points = arrays["points"]
            arrays["points"] = np.hstack([points, np.zeros((len(points), n), points.dtype)])
            self.kernels[number] = self._kernel_way(number)
            self.kernels[number].restore(state)

    def map_outputs(self, places: NDArray[np.int64], mixing: Array) -> None:
        """Go on with more classes.

        Parameters
        ----------
        places : ndarray of shape (n_old,)
            Where the old classes are among all.
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            Makes the log odds of all classes of those of the old ones.
        """
        n_old, n_new = mixing.shape
        self.n_outputs, self._asked = n_new, None
        codes, offset = shift_of_codes(places, n_old, n_new)
        self.targets = RunningScale(n_new)  # of classes it is not used
        self._first = [(x, target @ codes + offset, weight) for x, target, weight in self._first]
        if not self.distance:
            return
        for way in self.ways:
            way.map_outputs(mixing, codes, offset, self.settings.n_features)
        memories = self._memories.transpose(0, 2, 1) @ mixing
        self._memories = np.ascontiguousarray(memories.transpose(0, 2, 1))
        for way in self.kernels:
            way.map_outputs(NewOutputs(places, mixing, Pointwise(self._loss)))

    # -- state ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied, but for the settings."""
        numbers = "n_inputs", "n_outputs", "is_class", "seed", "n_rows", "distance"
        state: dict[str, Any] = {name: getattr(self, name) for name in numbers}
        state |= {"inputs": self.inputs.to_state(), "targets": self.targets.to_state()}
        if not self.distance:
            for name, rows in zip(("x", "y", "w"), zip(*self._first, strict=True), strict=False):
                state[name] = np.array(rows, dtype=np.float64)
            if "x" in state:
                state["said"] = np.isfinite(state["x"])
                state["x"] = np.where(state["said"], state["x"], 0.0)
            return state
        state |= {
            "scale": self._scale,
            "n_changes": self._n_changes,
            "memories": self._memories.copy(),
            "ways": {str(k): way.to_state() for k, way in enumerate(self.ways)},
            "kernels": {str(k): way.to_state(whole=True) for k, way in enumerate(self.kernels)},
            "blend": self.blend.to_state(),
        }
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any], settings: StreamSettings = USUAL) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the numbers do not fit together."""
        sizes = int(state["n_inputs"]), int(state["n_outputs"])
        is_class, seed = bool(state["is_class"]), int(state["seed"])
        made = cls(*sizes, is_class=is_class, seed=seed, settings=settings)
        made.inputs = RunningScale.from_state(state["inputs"])
        made.targets = RunningScale.from_state(state["targets"])
        made.n_rows = int(state["n_rows"])
        if (made.inputs.mean.size, made.targets.mean.size) != sizes or made.n_rows < 0:
            raise ValueError("The scales of a mixture do not fit its inputs and outputs.")
        if not state["distance"]:
            rows = (state[name] for name in ("x", "said", "y", "w")) if "x" in state else ()
            made._first = [
                (np.where(said, x, np.nan), target.copy(), float(weight))
                for x, said, target, weight in zip(*rows, strict=True)
            ]
            return made
        made._start(float(state["distance"]), 1)
        made._scale, made._n_changes = float(state["scale"]), int(state["n_changes"])
        memories, blend = np.array(state["memories"], float), Blend.from_state(state["blend"])
        ways = [LinearWays.from_state(state["ways"][str(k)]) for k in range(len(made.ways))]
        pairs = [(made._memories, memories), (made.blend.weights, blend.weights)]
        pairs += [(w.coefficients, its.coefficients) for w, its in zip(made.ways, ways, strict=True)]
        if any(mine.shape != its.shape for mine, its in pairs):
            raise ValueError("The parts of a mixture do not fit together.")
        made._memories, made.blend, made.ways = memories, blend, ways
        for k, way in enumerate(made.kernels):
            way.restore(state["kernels"][str(k)])
        return made
