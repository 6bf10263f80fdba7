"""Transitions from trajectories and from Gymnasium environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_integer
from mercer.estimators._transitions import Transitions

__all__ = ["EpisodeSources", "collect", "from_trajectories"]


class EpisodeSources:
    """Ways of learning from whole episodes, for estimators that learn transitions."""

    def _fit_transitions(self, raw: Transitions) -> Self:
        raise NotImplementedError

    def _partial_fit_transitions(self, raw: Transitions) -> Self:
        raise NotImplementedError

    def fit_trajectories(self, trajectories: Any) -> Self:
        """Learn from whole trajectories, starting afresh; see :meth:`fit`.

        Parameters
        ----------
        trajectories : list of (states, rewards, terminated)
            States of shape (T + 1, n_features), rewards of shape (T,), and whether the last state
            ended the episode for good; if it was only cut off there, its value counts.

        Returns
        -------
        self
        """
        return self._fit_transitions(from_trajectories(trajectories))

    def partial_fit_trajectories(self, trajectories: Any) -> Self:
        """Learn from some more whole trajectories; see :meth:`fit_trajectories`.

        Parameters
        ----------
        trajectories : list of (states, rewards, terminated)
            As in :meth:`fit_trajectories`.

        Returns
        -------
        self
        """
        return self._partial_fit_transitions(from_trajectories(trajectories))

    def fit_env(
        self, env: Any, policy: Callable[[Any], Any], n_steps: int, seed: int | None = None
    ) -> Self:
        """Follow a policy in a Gymnasium environment, and learn its value afresh.

        Parameters
        ----------
        env : gymnasium.Env
            With observations in a ``Box``, which are flattened; any actions. It is reset at the
            beginning and after each episode. Beyond the end of an episode the value is 0 if it
            was terminated, and that of the last observation if it was truncated.
        policy : callable
            From an observation, as the environment gives it, to an action.
        n_steps : int
            Steps to make in the environment; they are kept until all are made.
        seed : int or None, default=None
            Of the environment's first reset, and of its action space.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If Gymnasium is not installed.
        ValueError
            If observations are no arrays of numbers, or as in :meth:`fit`.
        """
        return self._fit_transitions(collect(env, policy, n_steps, seed))

    def partial_fit_env(
        self, env: Any, policy: Callable[[Any], Any], n_steps: int, seed: int | None = None
    ) -> Self:
        """Make some more steps in an environment, from a reset, and learn them.

        Parameters
        ----------
        env, policy, n_steps, seed
            As in :meth:`fit_env`.

        Returns
        -------
        self
        """
        return self._partial_fit_transitions(collect(env, policy, n_steps, seed))


# -- sources of transitions ------------------------------------------------------------------------


def from_trajectories(trajectories: Any) -> Transitions:
    """Transitions of whole trajectories, one after the other.

    Parameters
    ----------
    trajectories : sequence of (states, rewards, terminated)
        T + 1 states, T rewards, and whether the last state ended the episode for good.

    Raises
    ------
    ValueError
        If lengths do not fit, or there is none.
    """
    parts: list[tuple[NDArray[Any], ...]] = []
    for number, trajectory in enumerate(trajectories):
        try:
            states, rewards, terminated = trajectory
            states, rewards = np.asarray(states), np.asarray(rewards, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Trajectory {number} must be a tuple (states, rewards, terminated): {error}."
            ) from error
        if states.ndim != 2 or rewards.ndim != 1 or len(states) != len(rewards) + 1:
            raise ValueError(
                f"Trajectory {number} must have states of shape (T + 1, n_features) and rewards of "
                f"shape (T,), got {states.shape} and {rewards.shape}. The state after the last "
                "reward is needed, too."
            )
        if not isinstance(terminated, bool | np.bool_):
            raise ValueError(
                f"Trajectory {number}: `terminated` must be True if the last state ended the "
                f"episode for good, or False if it was only cut off, got {terminated!r}."
            )
        if parts and states.shape[1] != parts[0][0].shape[1]:
            raise ValueError(
                f"Trajectory {number} has {states.shape[1]} features and the first one has "
                f"{parts[0][0].shape[1]}."
            )
        if len(rewards):
            ends = np.zeros(len(rewards), dtype=np.bool_)
            ends[-1] = terminated
            parts.append((states[:-1], rewards, states[1:], ends, np.arange(len(rewards)) == 0))
    if not parts:
        raise ValueError("There is no transition in the trajectories.")
    states, rewards, next_states, terminals, begins = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    return Transitions(states, rewards, next_states, terminals, begins)


def collect(
    env: Any, policy: Callable[[Any], Any], n_steps: int, seed: int | None = None
) -> Transitions:
    """Follow a policy in a Gymnasium environment.

    Parameters
    ----------
    env : gymnasium.Env
        With observations in a ``Box``; they are flattened. Reset at the beginning and whenever an
        episode ends; left open.
    policy : callable
        From an observation as the environment gives it to an action as it takes it.
    n_steps : int
        Number of transitions.
    seed : int or None, default=None
        Of the first reset, and of the action space, which policies may draw from.

    Raises
    ------
    ImportError
        If Gymnasium is not installed.
    ValueError
        If observations are no vectors of numbers, or a parameter is wrong.
    """
    _check_env(env)
    check_integer("n_steps", n_steps, low=1)
    if not callable(policy):
        raise ValueError(
            f"`policy` must be a function from an observation to an action, got {policy!r}. For "
            "random actions pass `lambda observation: env.action_space.sample()`."
        )
    states: list[Any] = []
    next_states: list[Any] = []
    rewards, terminals = np.empty(n_steps), np.empty(n_steps, dtype=np.bool_)
    begins = np.zeros(n_steps, dtype=np.bool_)
    if seed is not None and hasattr(env, "action_space"):
        env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    begins[0] = True
    for t in range(n_steps):
        # An environment may write the next observation into the same array.
        states.append(np.array(observation).ravel())
        observation, rewards[t], terminals[t], truncated, info = env.step(policy(observation))
        # Wrappers that reset by themselves put the last observation of the episode here.
        final = info.get("final_obs", info.get("final_observation"))
        next_states.append(np.array(observation if final is None else final).ravel())
        if (terminals[t] or truncated) and t + 1 < n_steps:
            observation, _ = env.reset()
            begins[t + 1] = True
    return Transitions(np.stack(states), rewards, np.stack(next_states), terminals, begins)


def _check_env(env: Any) -> None:
    try:
        from gymnasium import spaces
    except ImportError as error:
        raise ImportError(
            "Learning from an environment needs Gymnasium. Install it with "
            '`pip install "mercer[rl]"`, or pass transitions as arrays to `fit`.'
        ) from error
    if isinstance(env, str):
        raise ValueError(
            f"`env` must be an environment, got its name: pass gymnasium.make({env!r})."
        )
    if hasattr(env, "num_envs"):
        raise ValueError(
            "`env` is a vector of environments. Pass one environment, or collect trajectories "
            "yourself and pass them to `fit_trajectories`."
        )
    space = getattr(env, "observation_space", None)
    if not isinstance(space, spaces.Box):
        raise ValueError(
            f"Observations must be arrays of numbers (gymnasium.spaces.Box), got {space}. A "
            "kernel needs vectors: wrap the environment in "
            "gymnasium.wrappers.FlattenObservation, which turns discrete observations into "
            "indicator vectors and joins those of a Dict or Tuple."
        )
