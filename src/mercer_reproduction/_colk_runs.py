"""Training on the training sets of COLK's experiments, step by step, by any of its methods."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import KernelRegressor
from mercer_reproduction._colk_data import TrainingSet
from mercer_reproduction.baselines import NPBSGD, RBFNetwork

Array = NDArray[np.float64]


class Run(ABC):
    """One training on one training set, that goes on step by step."""

    n_steps: int = 0

    @abstractmethod
    def advance(self, n_steps: int) -> None:
        """Do some more steps.

        Raises
        ------
        DivergenceError
            If the function is no longer finite.
        """

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """Values of the function of now, shape (n_rows,)."""

    @property
    @abstractmethod
    def model_order(self) -> int:
        """Points of the function, or centres."""

    @property
    @abstractmethod
    def clipped(self) -> float:
        """Share of the steps that were clipped; NaN for methods that clip nothing."""


@dataclass(frozen=True)
class Method:
    """A way to learn from a training set; one step for each of its rows.

    Attributes
    ----------
    name : str
        Name in tables.
    start : callable
        Makes a run on a training set.
    """

    name: str
    start: Callable[[TrainingSet], Run]

    def learn(self, training: TrainingSet) -> Run:
        """Visit all rows in both orders.

        Raises
        ------
        DivergenceError
            If the function is no longer finite.
        """
        run = self.start(training)
        run.advance(training.first.y.size)
        return run


class ModelRun(Run):
    """An estimator of the library on a stream."""

    def __init__(self, model: KernelRegressor, training: TrainingSet) -> None:
        self._model = model
        self._rows_per_step = int(model.batch_size)
        self._stream = training.interleaved() if self._rows_per_step == 2 else training.first

    def advance(self, n_steps: int) -> None:
        at, size = self.n_steps * self._rows_per_step, n_steps * self._rows_per_step
        X, y = self._stream.take(np.arange(at, at + size))
        self._model.partial_fit(X, y)
        self.n_steps += n_steps

    def predict(self, X: Array) -> Array:
        values: Array = self._model.predict(X)
        return values

    @property
    def model_order(self) -> int:
        return self._model.model_order_

    @property
    def clipped(self) -> float:
        history = self._model.history_
        shares = history.monitors.get("clipped_fraction")
        if shares is None:
            return math.nan
        return float(np.average(shares, weights=np.diff(history.n_samples, prepend=0)))


class SolverRun(Run):
    """A solver of the baselines."""

    def __init__(self, solver: RBFNetwork | NPBSGD) -> None:
        self._solver = solver

    def advance(self, n_steps: int) -> None:
        for _ in range(n_steps):
            self._solver.step()
        self.n_steps += n_steps

    def predict(self, X: Array) -> Array:
        return self._solver.decision_function(X)

    @property
    def model_order(self) -> int:
        solver = self._solver
        return solver.model_order if isinstance(solver, NPBSGD) else solver.weights.size

    @property
    def clipped(self) -> float:
        monitors = getattr(self._solver, "monitors", {})
        return float(monitors.get("clipped_fraction", math.nan))
