"""A function of a stream: scaled inputs, several ways to learn side by side, and their blend."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import KOMP
from mercer.features import FeatureMap, FeatureOptions
from mercer.functions import start
from mercer.kernels import Gaussian
from mercer.learning import AutomaticStep, KernelLearner
from mercer.losses import Logistic, Loss, Softmax, Squared
from mercer.objectives import Pointwise
from mercer.schedules import Constant
from mercer.streams.experts import Blend
from mercer.streams.ways import LinearWays, RunningScale
from mercer.sums import targets_of_codes

__all__ = ["Mixture", "StreamSettings"]

Array = NDArray[np.float64]


class StreamSettings(NamedTuple):
    """What runs side by side.

    Attributes
    ----------
    first_rows : int
        Rows that scale the inputs before ways start; until then answers are those of no inputs.
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
        Factors of recursive sums, on the features of the last length.
    points : int
        Points of a kernel expansion at most.
    kernel_ways : tuple of (float, float, float)
        Length, step on classes and step on numbers of each kernel expansion.
    share : float
        See :class:`mercer.streams.Blend`.
    """

    first_rows: int = 8
    lengths: tuple[float, ...] = (0.25, 0.5, 1.0)
    n_features: int = 96
    steps: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0)
    number_steps: tuple[float, ...] = (0.01, 0.05, 0.2, 0.8)
    forgettings: tuple[float, ...] = (1.0, 0.999)
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

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import Mixture
    >>> rng, f = np.random.default_rng(0), Mixture(2, 1, is_class=False)
    >>> for x in rng.normal(size=(500, 2)):
    ...     f.learn(x, np.array([100.0 + np.sin(x[0])]))
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
        #: Usual distance of standardised rows; 0 until the ways have started.
        self.distance = 0.0

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return int(self.inputs.n_rows)

    def _start(self, distance: float) -> None:
        """Make the ways, of which none has learned anything."""
        settings, self.distance = self.settings, distance
        self._maps: list[tuple[FeatureMap, Any]] = []
        self.ways: list[LinearWays] = []
        for length in settings.lengths:
            features = Gaussian(length * distance)._feature_map(self.n_inputs, FeatureOptions(), 0)
            drawn = features.draw(self.seed, len(self._maps), settings.n_features, np.dtype(float))
            last = len(self._maps) == len(settings.lengths) - 1
            self._maps.append((features, drawn))
            self.ways.append(
                LinearWays(
                    settings.n_features + self.n_inputs + 1,
                    self.n_outputs,
                    is_class=self.is_class,
                    steps=settings.steps if self.is_class else settings.number_steps,
                    forgettings=settings.forgettings if last else (),
                )
            )
        self.kernels = [self._kernel_way(*way) for way in settings.kernel_ways]
        n = sum(map(len, self.ways)) + len(self.kernels)
        self.blend = Blend(n, self.n_outputs, is_class=self.is_class, share=settings.share)

    @property
    def _loss(self) -> Loss:
        if not self.is_class:
            return Squared()
        return Logistic() if self.n_outputs == 1 else Softmax()

    def _kernel_way(self, length: float, step: float, number_step: float) -> KernelLearner:
        kernel, points = Gaussian(length * self.distance), self.settings.points
        function = start(KOMP(max_size=points), kernel, self.n_inputs, self.n_outputs)
        steps = Constant(step if self.is_class else number_step)
        automatic = AutomaticStep(1.0, 1.0, 1.0)
        return KernelLearner(Pointwise(self._loss), function, steps, 0.0, 1, automatic)

    def _features(self, x: Array) -> list[Array]:
        """Features of a standardised row, for each of the ways."""
        found = []
        n = self.settings.n_features
        for features, drawn in self._maps:
            whole = np.empty((1, n + 1 + self.n_inputs))
            block = np.empty((1, n))
            features.transform(features.prepare(x[np.newaxis]), drawn, block)
            whole[:, :n], whole[:, n] = block, 1.0
            whole[:, n + 1 :] = x / np.sqrt(self.n_inputs)
            found.append(whole[0])
        return found

    def _said(self, x: Array, features: list[Array]) -> Array:
        """Values of all ways at a standardised row, (n_ways, n_outputs)."""
        linear = [way.values(its) for way, its in zip(self.ways, features, strict=True)]
        kernels = [way.evaluate_row(x)[np.newaxis] for way in self.kernels]
        return np.concatenate([*linear, *kernels])

    def values(self, x: Array) -> Array:
        """Values at a row, (n_outputs,): log odds, logarithms of chances, or numbers.

        Parameters
        ----------
        x : ndarray of shape (n_inputs,)
            The row; finite.
        """
        if not self.distance:
            return np.zeros(self.n_outputs) if self.is_class else self.targets.mean.copy()
        image = self.inputs.image(x)
        values = self.blend.values(self._said(image, self._features(image)))
        return values if self.is_class else self.targets.mean + self.targets.spread * values

    def learn(self, x: Array, target: Array) -> None:
        """Learn a row.

        Parameters
        ----------
        x : ndarray of shape (n_inputs,)
            The row; finite.
        target : ndarray of shape (n_outputs,)
            Class codes or numbers.
        """
        if self.distance:
            image = self.inputs.image(x)
            features = self._features(image)
            scaled = target if self.is_class else self.targets.image(target)
            self.blend.learn(self._said(image, features), scaled)
            for way, its in zip(self.ways, features, strict=True):
                way.learn(its, scaled)
            encoded = targets_of_codes(self._loss, scaled[np.newaxis])[0]
            for kernel_way in self.kernels:
                kernel_way.learn_row(image, encoded, 1.0)
        self.inputs.learn(x)
        self.targets.learn(target)
        if not self.distance and self.n_rows >= self.settings.first_rows:
            moving = int(np.count_nonzero(self.inputs.squares))
            self._start(float(np.sqrt(2.0 * max(moving, 1))))

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        state: dict[str, Any] = {
            "n_inputs": self.n_inputs,
            "n_outputs": self.n_outputs,
            "is_class": self.is_class,
            "seed": self.seed,
            "settings": self.settings._asdict(),
            "inputs": self.inputs.to_state(),
            "targets": self.targets.to_state(),
            "distance": self.distance,
        }
        if self.distance:
            state["ways"] = [way.to_state() for way in self.ways]
            state["kernels"] = [way.to_state(whole=True) for way in self.kernels]
            state["blend"] = self.blend.to_state()
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the numbers do not fit together."""
        sizes = state["n_inputs"], state["n_outputs"]
        settings = StreamSettings(**state["settings"])
        made = cls(*sizes, is_class=state["is_class"], seed=state["seed"], settings=settings)
        made.inputs = RunningScale.from_state(state["inputs"])
        made.targets = RunningScale.from_state(state["targets"])
        if state["distance"]:
            made._start(float(state["distance"]))
            made.ways = [LinearWays.from_state(way) for way in state["ways"]]
            for way, its in zip(made.kernels, state["kernels"], strict=True):
                way.restore(its)
            made.blend = Blend.from_state(state["blend"])
        return made
