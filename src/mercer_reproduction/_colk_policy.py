"""Policy evaluation with a known answer: a linear-quadratic chain, and batch solutions beside.

Everything here is independent of the learner: exact values, sampled returns, and the linear systems
whose solutions the streaming methods have in a fixed basis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mercer.estimators.transitions import Transitions
from mercer.kernels import Kernel

Array = NDArray[np.float64]


def root_mean_square(errors: Array, weights: Array | None = None) -> float:
    """Root of the mean square, or of the weighted one."""
    return float(np.sqrt(np.average(np.square(errors), weights=weights)))


@dataclass(frozen=True)
class Chain:
    r"""The chain :math:`x^+ = a x + \sigma n`, n standard normal, with reward :math:`-x^2`.

    Its value is :math:`V(x) = -(P x^2 + v_0)` with :math:`P = 1 / (1 - \gamma a^2)` and
    :math:`v_0 = \gamma P \sigma^2 / (1 - \gamma)`.

    Attributes
    ----------
    factor : float, default=0.9
        a.
    noise : float, default=0.3
        sigma.
    discount : float, default=0.9
        gamma.

    Examples
    --------
    >>> Chain().value(np.array([[0.0], [1.0]])).round(3)
    array([-2.989, -6.679])
    """

    factor: float = 0.9
    noise: float = 0.3
    discount: float = 0.9

    @property
    def deviation(self) -> float:
        """Standard deviation of the states in the long run."""
        return float(self.noise / np.sqrt(1.0 - self.factor**2))

    def value(self, states: Array) -> Array:
        """Exact values of states of shape (n, 1)."""
        P = 1.0 / (1.0 - self.discount * self.factor**2)
        v0 = self.discount * P * self.noise**2 / (1.0 - self.discount)
        values: Array = -(P * np.square(states[:, 0]) + v0)
        return values

    def trajectory(self, n: int, generator: np.random.Generator) -> Transitions:
        """Draw ``n`` transitions, one after the other, that begin with a state of the long run.

        Each has a second next state, drawn independently from the same state.
        """
        first = self.deviation * generator.standard_normal()
        noise = self.noise * generator.standard_normal(n)
        later, _ = lfilter([1.0], [1.0, -self.factor], noise, zi=[self.factor * first])
        states = np.concatenate([[first], later])[:, np.newaxis]
        return self._transitions(states[:-1], states[1:], generator)

    def independent(self, n: int, generator: np.random.Generator) -> Transitions:
        """Draw ``n`` transitions from independent states of the long run."""
        states = self.deviation * generator.standard_normal((n, 1))
        return self._transitions(states, self._next(states, generator), generator)

    def _transitions(
        self, states: Array, next_states: Array, generator: np.random.Generator
    ) -> Transitions:
        rewards, never = -np.square(states[:, 0]), np.zeros(len(states), np.bool_)
        second = rewards, self._next(states, generator), never
        return Transitions(states, rewards, next_states, never, second=second)

    def _next(self, states: Array, generator: np.random.Generator) -> Array:
        return self.factor * states + self.noise * generator.standard_normal(states.shape)

    def returns(
        self, states: Array, n_runs: int, n_steps: int, generator: np.random.Generator
    ) -> tuple[Array, Array]:
        """Collect discounted rewards of ``n_steps`` steps from each state.

        Returns
        -------
        means, errors : ndarrays of shape (n,)
            Mean of ``n_runs`` runs, and its standard error.
        """
        at = np.repeat(states, n_runs, axis=0)
        total = np.zeros(len(at))
        for t in range(n_steps):
            total -= self.discount**t * np.square(at[:, 0])
            at = self._next(at, generator)
        runs = total.reshape(len(states), n_runs)
        return runs.mean(axis=1), runs.std(axis=1, ddof=1) / np.sqrt(n_runs)


class FixedBasis:
    """Functions on given points of a kernel, fitted to transitions in one go.

    Parameters
    ----------
    kernel : Kernel
        Its sections at ``points`` are the basis.
    points : ndarray of shape (n_points, n_features)
        Points.
    transitions : Transitions
        In the order in which they happened, without terminal ones.
    discount : float
        gamma.
    regularization : float, default=1e-7
        Ridge parameter of the RKHS norm, as the streaming methods have it.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: NDArray[np.floating],
        transitions: Transitions,
        discount: float,
        regularization: float = 1e-7,
    ) -> None:
        self._kernel, self._points = kernel, points
        self._features = self.features(transitions.states)
        # Features of delta: phi(x) - gamma phi(x+).
        self._differences = self._features - discount * self.features(transitions.next_states)
        self._rewards = transitions.rewards
        self._ridge = len(self._rewards) * regularization * self.features(points)

    def features(self, states: NDArray[np.floating]) -> Array:
        """Values of the basis functions, shape (n, n_points)."""
        return np.asarray(self._kernel(states, self._points), dtype=np.float64)

    def least_squares(self, states: Array, values: Array) -> Array:
        """Coefficients of the best fit to known values."""
        solution = np.linalg.lstsq(self.features(states), values, rcond=None)[0]
        return np.asarray(solution, dtype=np.float64)

    def lstd(self) -> Array:
        """Coefficients for which ``delta`` is uncorrelated with the basis (LSTD)."""
        return self._solved(self._features)

    def tracked(self, rate: float) -> Array:
        r"""Coefficients at which PKGTD stands still on average.

        They solve :math:`\sum_t z_t (\phi(x_t) - \gamma \phi(x_t^+)) = 0` for
        :math:`z_t = (1 - \beta) z_{t-1} + \beta \delta_t`. Rate 1 is the residual gradient.
        The filter is put on the other factor, which is the same sum in another order.

        Parameters
        ----------
        rate : float
            beta, in (0, 1].
        """
        backwards = lfilter([rate], [1.0, rate - 1.0], self._differences[::-1], axis=0)
        return self._solved(backwards[::-1])

    def _solved(self, tests: Array) -> Array:
        matrix = tests.T @ self._differences + self._ridge
        solution = np.linalg.solve(matrix, tests.T @ self._rewards)
        return np.asarray(solution, dtype=np.float64)
