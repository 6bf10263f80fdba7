"""The value of a policy that swings a pendulum up, against what is then collected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import ValueFunction
from mercer.estimators.transitions import Transitions, collect
from mercer.kernels import Gaussian
from mercer_reproduction._colk_policy import FixedBasis, root_mean_square

Array = NDArray[np.float64]

DISCOUNT = 0.95
#: Steps that returns look ahead: 0.95**100 is 0.006, and it stands still by then.
AHEAD = 100
_SCALE = np.array([1.0, 1.0, 4.0])  # of cosine, sine and velocity
_EPISODE = 200


def swing_up(observation: Array) -> Array:
    """Pump energy in until the pendulum is up, then hold it there.

    Parameters
    ----------
    observation : ndarray of shape (3,)
        Cosine and sine of the angle, and the velocity divided by 4.

    Returns
    -------
    torque : ndarray of shape (1,)
    """
    cosine, sine, velocity = observation * _SCALE
    if cosine > 0.9:
        torque = -12.0 * sine - 3.0 * velocity
    else:
        energy = velocity**2 / 6.0 + 5.0 * cosine
        torque = 4.0 * np.sign(velocity + 1e-9) * (5.0 - energy)
    return np.array([min(max(float(torque), -2.0), 2.0)])


def make_pendulum() -> Any:
    """Make the environment with observations of a size of about 1; None without Gymnasium."""
    try:
        import gymnasium
    except ImportError:
        return None

    class Scaled(gymnasium.ObservationWrapper):  # type: ignore[misc,type-arg,unused-ignore]
        def observation(self, observation: Any) -> Any:
            return observation / _SCALE

    return Scaled(gymnasium.make("Pendulum-v1"))


class Pendulum(NamedTuple):
    """Transitions to learn from, and states of other episodes with what was collected."""

    training: Transitions
    states: Array
    returns: Array

    @classmethod
    def follow(cls, env: Any, n_steps: int, n_episodes: int, seed: int) -> Pendulum:
        """Follow the policy in the environment.

        Parameters
        ----------
        env : gymnasium.Env
            See :func:`make_pendulum`.
        n_steps : int
            Transitions to learn from.
        n_episodes : int
            Other episodes; the states of the first half of each are kept.
        seed : int
            Of everything random.
        """
        training = collect(env, swing_up, n_steps, seed)
        others = collect(env, swing_up, n_episodes * _EPISODE, seed + 1_000_000)
        rewards = others.rewards.reshape(n_episodes, _EPISODE)
        weights = DISCOUNT ** np.arange(AHEAD)
        half = _EPISODE - AHEAD
        returns = [rewards[:, t : t + AHEAD] @ weights for t in range(half)]
        seen = np.asarray(others.states, dtype=np.float64)
        states = seen.reshape(n_episodes, _EPISODE, -1)[:, :half]
        return cls(training, states.reshape(n_episodes * half, -1), np.ravel(returns, order="F"))


@dataclass(frozen=True)
class Outcome:
    """What a method made of it.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Of the states with known returns.
    error, batch_error : float
        RMSE to the returns, and that of the batch solution on the same points: of the squared
        temporal difference for "residual", of LSTD for all others.
    model_order : int
        Points.
    cpu_seconds : float
        CPU time of the fit.
    """

    values: Array
    error: float
    batch_error: float
    model_order: int
    cpu_seconds: float


def evaluate(problem: Pendulum, method: str, n_passes: int, seed: int) -> Outcome:
    """Learn the value with automatic steps, and compare it with the returns."""
    training = problem.training
    # Most of the time it stands still: the median distance of states says nothing.
    model = ValueFunction(
        DISCOUNT, method, kernel=Gaussian(0.5), n_passes=n_passes, random_state=seed
    )
    start = time.process_time()
    model.fit(training.states, training.rewards, training.next_states, training.terminals)
    seconds = time.process_time() - start
    basis = FixedBasis(model.kernel_, model.dictionary_, training, DISCOUNT, model.regularization)
    values = model.predict(problem.states)
    solution = basis.tracked(1.0) if method == "residual" else basis.lstd()
    batch_values = basis.features(problem.states) @ solution
    return Outcome(
        values,
        root_mean_square(values - problem.returns),
        root_mean_square(batch_values - problem.returns),
        model.model_order_,
        seconds,
    )
