"""Transitions of a Markov chain: their sources, checks, and rows for the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators.estimator import numeric_rows
from mercer.estimators.inputs import warn_user
from mercer.exceptions import TrajectoryWarning
from mercer.objectives.bellman import transition_targets
from mercer.records import FLOATS, Maybe, Numbers, Record, Recorded
from mercer.validation import check_choice, check_integer, integer, truth

Array = NDArray[np.float64]

# With more breaks than this share of the transitions, they are not trajectories.
_MOST_BREAKS = 0.1
_FEW = 10
# Number of transitions that automatic passes learn, and the largest number of passes.
_ENOUGH = 100_000
_MOST_PASSES = 10


_ORDER = "The order of the arguments is states, rewards, next_states, terminals."


class Transitions(NamedTuple):
    """Steps of a Markov chain, in the order in which they are to be learned."""

    states: NDArray[np.floating]  # (n, n_features)
    rewards: Array  # (n,)
    next_states: NDArray[np.floating]  # (n, n_features)
    terminals: NDArray[np.bool_]  # (n,), whether the episode terminates in next_states
    #: Where a trajectory begins, (n,); None if this must be inferred from the states.
    begins: NDArray[np.bool_] | None = None
    #: An independent second outcome: rewards, next states, terminals.
    second: tuple[Array, NDArray[np.floating], NDArray[np.bool_]] | None = None

    def in_units(self, scale: float) -> Transitions:
        """Return the transitions with rewards divided by a unit."""
        if scale == 1.0:
            return self
        second = self.second
        if second is not None:
            second = second[0] / scale, *second[1:]
        return self._replace(rewards=self.rewards / scale, second=second)


# -- checks ----------------------------------------------------------------------------------------


def check_transitions(model: Any, raw: Transitions, *, reset: bool) -> Transitions:
    """Check transitions given by the user.

    Parameters
    ----------
    model : estimator
        Estimator whose number of features is set or compared.
    raw : Transitions
        Array-likes; ``terminals`` may be None.
    reset : bool
        Whether the number of features is set.

    Raises
    ------
    ValueError
        For arrays of wrong shapes, NaN and terminals that are not boolean.
    """
    states = _states(model, "states", raw.states, reset=reset)
    rewards, next_states, terminals = _outcome(
        model, (raw.rewards, raw.next_states, raw.terminals), states, ""
    )
    second = None
    if raw.second is not None:
        if not isinstance(raw.second, tuple | list) or len(raw.second) not in (2, 3):
            raise ValueError(
                "`second` must be a tuple (rewards, next_states, terminals) of outcomes drawn from "
                f"the same states a second time, got {type(raw.second).__name__}."
            )
        second = _outcome(model, (*raw.second, None)[:3], states, "second ")
    dtype = np.result_type(states, next_states, *([] if second is None else [second[1]]))
    if second is not None:
        second = second[0], second[1].astype(dtype, copy=False), second[2]
    return Transitions(
        states.astype(dtype, copy=False),
        rewards,
        next_states.astype(dtype, copy=False),
        terminals,
        raw.begins,
        second,
    )


def _outcome(
    model: Any, outcome: tuple[Any, Any, Any], states: NDArray[np.floating], which: str
) -> tuple[Array, NDArray[np.floating], NDArray[np.bool_]]:
    n = len(states)
    rewards, next_states, over = outcome
    terminals = _terminals(f"{which}terminals", over, n)
    next_states = _filled(next_states, states, terminals)
    next_states = _states(model, f"{which}next_states", next_states, reset=False)
    if len(next_states) != n:
        raise ValueError(
            f"`{which}next_states` has {len(next_states)} rows and `states` {n}. Each transition "
            "is a row of both: of a trajectory pass states[:-1] and states[1:]."
        )
    rewards = _rewards(f"{which}rewards", rewards, n)
    return rewards, next_states, terminals


def _filled(next_states: Any, states: NDArray[np.floating], terminals: NDArray[np.bool_]) -> Any:
    """Replace next states that do not count and are not finite by the states."""
    if not (
        terminals.any()
        and getattr(next_states, "shape", None) == states.shape
        and getattr(next_states, "dtype", None) in (np.float64, np.float32)
    ):
        return next_states
    unknown = terminals & ~np.isfinite(next_states).all(axis=1)
    return np.where(unknown[:, np.newaxis], states.astype(next_states.dtype), next_states)


def _states(model: Any, name: str, states: Any, *, reset: bool) -> NDArray[np.floating]:
    if states is None:
        raise ValueError(f"`{name}` is None. A transition is a state, a reward and a next state.")
    try:
        checked: NDArray[np.floating] = numeric_rows(
            model, states, dtype=[np.float64, np.float32], reset=reset
        )
    except ValueError as error:
        hint = ""
        if "NaN" in str(error) and "next" in name:
            hint = " Only where `terminals` is True the next state does not count."
        elif "1D array" in str(error) and "next" in name:
            hint = f" {_ORDER}"
        raise ValueError(f"`{name}`: {error}{hint}") from error
    return checked


def _rewards(name: str, rewards: Any, n: int) -> Array:
    try:
        array = np.asarray(rewards)
        if array.dtype.kind in "mM":
            raise TypeError("dates and durations have no unit")
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`{name}` must be numbers: {error}.") from error
    if array.shape != (n,):
        raise ValueError(
            f"`{name}` must have shape ({n},), one number for each transition, got {array.shape}. "
            + _ORDER
        )
    if not np.isfinite(array).all():
        at = int(np.argmin(np.isfinite(array)))
        raise ValueError(
            f"`{name}` must be finite, got {array[at]} at place {at}: every value would become so."
        )
    return array


def _terminals(name: str, terminals: Any, n: int) -> NDArray[np.bool_]:
    if terminals is None:
        return np.zeros(n, dtype=np.bool_)
    array = np.asarray(terminals)
    if array.dtype != np.bool_:
        raise ValueError(
            f"`{name}` must be boolean, got dtype {array.dtype}. It says for each transition "
            "whether the episode ended for good, so that nothing follows; write "
            f"`{name.split()[-1]} == 1` for zeros and ones. An episode that was only cut off, by a "
            "time limit say, is not terminal."
        )
    if array.shape != (n,):
        raise ValueError(
            f"`{name}` must have shape ({n},), one truth value for each transition, got "
            f"{array.shape}."
        )
    return array


def check_second(method: str, wanted: bool, given: bool) -> None:
    """Raise ``ValueError`` unless a second outcome is given exactly if the method needs one."""
    if given and not wanted:
        raise ValueError(
            f"`second` is for method='double_sampling', got it with method={method!r}, which looks "
            "at one outcome of each transition. Leave it out, or learn both as transitions."
        )
    if wanted and not given:
        raise ValueError(
            f"method={method!r} needs a second outcome of each transition, drawn independently "
            "from the same state: pass `second=(rewards, next_states, terminals)`. Where states "
            "cannot be visited again, as on trajectories and in environments, use method='td' or "
            "'gtd2'."
        )


def passes(n_passes: int | str, n: int, method: str, needs_order: bool) -> int:
    """Return the number of passes over ``n`` transitions.

    Raises
    ------
    ValueError
        If ``n_passes`` is neither an integer of at least 1 nor "auto".

    Examples
    --------
    >>> passes("auto", 20_000, "td", False), passes("auto", 20_000, "pkgtd", True)
    (5, 1)
    """
    if isinstance(n_passes, str):
        check_choice("n_passes", n_passes, ("auto",))
        return 1 if needs_order else min(max(round(_ENOUGH / n), 1), _MOST_PASSES)
    check_integer("n_passes", n_passes, low=1)
    if needs_order and n_passes > 1:
        warn_user(
            f"n_passes={n_passes} shows the transitions to the method {method!r} again, which is "
            "made for one pass along a trajectory: V has learned from the chance in them by then. "
            "Use one pass, or method='td'.",
            TrajectoryWarning,
        )
    return int(n_passes)


def spread_out(states: NDArray[np.floating], n: int) -> NDArray[np.floating]:
    """Choose up to ``n`` distinct states, each the farthest from those chosen before.

    A policy may keep its system in one place most of the time; that place counts once.

    Examples
    --------
    >>> spread_out(np.array([[0.0], [0.0], [0.1], [1.0], [5.0]]), 3).ravel()
    array([5., 0., 1.])
    """
    rows = states.astype(np.float64, copy=False)
    # The kernel finds and reports overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        chosen = [int(np.argmax(np.sum(np.square(rows - rows.mean(axis=0)), axis=1)))]
        nearest = np.full(len(rows), np.inf)
        while len(chosen) < n:
            nearest = np.minimum(nearest, np.sum(np.square(rows - rows[chosen[-1]]), axis=1))
            farthest = int(np.argmax(nearest))
            if not 0.0 < nearest[farthest] < np.inf:
                break
            chosen.append(farthest)
    return states[chosen]


# -- rows for the loop -----------------------------------------------------------------------------


def interleaved(
    transitions: Transitions, discount: float, begins: NDArray[np.bool_] | None
) -> tuple[NDArray[np.floating], Array]:
    """Return the states x, x+ (or x, x+1, x+2) of transitions as consecutive rows, and targets.

    Parameters
    ----------
    transitions : Transitions
        Checked transitions.
    discount : float
        Discount gamma.
    begins : ndarray of shape (n,) or None
        Where trajectories begin; None if that is not needed.
    """
    points = [transitions.states, transitions.next_states]
    outcomes = [(transitions.rewards, transitions.terminals)]
    if transitions.second is not None:
        rewards, next_states, terminals = transitions.second
        points.append(next_states)
        outcomes.append((rewards, terminals))
    rows = np.stack(points, axis=1).reshape(-1, points[0].shape[1])
    return rows, transition_targets(discount, outcomes, begins)


@dataclass(frozen=True, eq=False)
class Trail(Recorded):
    """Tracks whether transitions come in the order in which they happened.

    Attributes
    ----------
    last : ndarray of shape (n_features,) or None
        Present state of the stream; None at the beginning and between episodes.
    n_seen : int
        Number of transitions so far.
    n_breaks : int
        How often a transition began elsewhere although the episode was not over.
    warned : bool
        Whether the user has been warned.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> steps = Transitions(x, np.zeros(3), x + 1.0, np.zeros(3, np.bool_))
    >>> begins, trail = Trail().follow(steps)
    >>> begins, trail.n_breaks, trail.last
    (array([ True, False,  True]), 1, array([6.]))
    """

    last: NDArray[np.floating] | None = None
    n_seen: int = 0
    n_breaks: int = 0
    warned: bool = False

    _record = Record(
        last=Maybe(Numbers("n_features", dtype=FLOATS)),
        n_seen=integer(low=0),
        n_breaks=integer(low=0),
        warned=truth(),
    ).where(
        "the trail of the trajectory does not fit together",
        lambda it: it["n_breaks"] <= it["n_seen"],
    )

    def follow(self, transitions: Transitions) -> tuple[NDArray[np.bool_], Trail]:
        """Return where trajectories begin among the next transitions, and the trail after them."""
        states, next_states, over = transitions[0], transitions[2], transitions[3]
        n = len(states)
        expected = np.ones(n, dtype=np.bool_)
        expected[1:] = over[:-1]
        expected[0] = self.last is None
        if transitions.begins is not None:
            expected |= transitions.begins
        moved = np.empty(n, dtype=np.bool_)
        moved[1:] = (states[1:] != next_states[:-1]).any(axis=1)
        moved[0] = self.last is None or bool((states[0] != self.last).any())
        n_breaks = self.n_breaks + int(np.sum(moved & ~expected))
        cut = over[-1] or transitions.begins is not None
        last = None if cut else next_states[-1].copy()
        return expected | moved, Trail(last, self.n_seen + n, n_breaks, self.warned)

    def checked(self, method: str) -> Trail:
        """Return the trail; warns once if transitions are not trajectories."""
        if self.warned or self.n_seen < _FEW or self.n_breaks <= _MOST_BREAKS * self.n_seen:
            return self
        warn_user(
            f"{self.n_breaks} of {self.n_seen} transitions begin elsewhere than the one before "
            f"them ended, though its episode was not over: they are shuffled, replayed or no "
            f"trajectories. The method {method!r} averages temporal differences along a "
            "trajectory; without one it minimises the mean squared temporal difference, which is "
            "biased. Keep the order, or use method='td' or 'gtd2', which need none.",
            TrajectoryWarning,
        )
        return replace(self, warned=True)


# -- sources of transitions ------------------------------------------------------------------------


def from_trajectories(trajectories: Any) -> Transitions:
    """Return the transitions of whole trajectories, one trajectory after the other.

    Parameters
    ----------
    trajectories : sequence of (states, rewards, terminated)
        T + 1 states, T rewards, and whether the episode terminated in the last state.

    Raises
    ------
    ValueError
        If lengths do not fit, or there are no transitions.
    """
    parts: list[tuple[NDArray[Any], ...]] = []
    for number, trajectory in enumerate(trajectories):
        try:
            states, rewards, terminated = trajectory
            states, rewards = np.asarray(states), np.asarray(rewards, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
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
        Environment with observations in a ``Box``, which are flattened. It is reset at the
        beginning and after each episode, and left open.
    policy : callable
        Maps an observation of the environment to an action.
    n_steps : int
        Number of transitions.
    seed : int or None, default=None
        Seed of the first reset, and of the action space, from which policies may draw.

    Raises
    ------
    ImportError
        If Gymnasium is not installed.
    ValueError
        If observations are not vectors of numbers, or a parameter is invalid.
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
        # Wrappers that reset by themselves store the last observation of the episode here.
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
    if hasattr(getattr(env, "unwrapped", env), "num_envs"):  # wrappers may warn if asked
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
