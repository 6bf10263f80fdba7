"""Several candidates that learn from the same rows, and the race between them."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from mercer._validation import check_real
from mercer.learner._base import Array
from mercer.learner._waiting import Waiting
from mercer.objectives import Batch, Objective

__all__ = ["Candidates", "Slopes"]

# Predictions this many times larger than any target or 1 mean that the run has diverged.
_EXPLODED = 1e3
# Steps over which the losses of the candidates are averaged.
_MEMORY = 50.0


class Slopes(NamedTuple):
    """What the objectives of all candidates say of some rows.

    Attributes
    ----------
    slopes : ndarray of shape (n_points, n_candidates * n_outputs)
        Derivatives in the values; 0 for candidates that are ruined.
    losses : ndarray of shape (n_candidates,)
        Sums over the rows; infinite for candidates that are ruined.
    sound : bool
        Whether a candidate is not ruined.
    size : float
        Least root mean square of the values.
    unit : float
        Largest target so far, if that is above 1.
    """

    slopes: Array
    losses: Array
    sound: bool
    size: float
    unit: float


class Candidates:
    """An objective for each candidate, because objectives may have scalars of their own.

    Parameters
    ----------
    objective : Objective
        Copied for each.
    n : int
        How many there are.

    Attributes
    ----------
    objectives : list of Objective
        One of each.
    race : ndarray of shape (n,)
        Mean losses so far.
    unit : float
        Largest target so far, if that is above 1.
    """

    def __init__(self, objective: Objective, n: int) -> None:
        self.objectives = [copy.deepcopy(objective) for _ in range(n)]
        self.race = np.zeros(n)
        self.unit = 1.0

    def __len__(self) -> int:
        return len(self.objectives)

    def split(self, values: Array) -> list[Array]:
        """Columns of each candidate."""
        return np.split(values, len(self), axis=1)

    def slopes(self, values: Array, batches: list[Batch]) -> Slopes:
        """Ask the objective of each candidate about some rows, as it sees them."""
        parts = self.split(values)
        results = [
            o.slopes(v, batch) for o, v, batch in zip(self.objectives, parts, batches, strict=True)
        ]
        unit = max(self.unit, float(np.abs(batches[0].targets).max(initial=0.0)))
        sizes = np.array([np.sqrt(np.mean(np.square(v))) for v in parts])
        # A ridge that is too small for the step may ruin its candidate, and no other.
        sound = np.array([bool(np.isfinite(slopes).all()) for slopes, _ in results])
        sound &= sizes <= _EXPLODED * unit
        slopes = [np.where(ok, s, 0.0) for (s, _), ok in zip(results, sound, strict=True)]
        losses = np.array([float(losses.sum()) for _, losses in results])
        losses[~sound] = np.inf
        return Slopes(np.hstack(slopes), losses, bool(sound.any()), float(sizes.min()), unit)

    def update(self, values: Array, batches: list[Batch], step_size: float) -> None:
        """Let the scalars of the objectives follow a step."""
        for o, v, batch in zip(self.objectives, self.split(values), batches, strict=True):
            o.update(v, batch, step_size)

    def note(self, means: Array) -> None:
        """Count the mean losses of a step's rows, new to all candidates, in the race."""
        share = 1.0 / _MEMORY if self.race.any() else 1.0
        self.race = (1.0 - share) * self.race + share * means

    def judge(self, held: Waiting) -> None:
        """Let rows that were held out decide the race."""
        batch = held.batch()
        losses = [
            float(objective.losses_of(part, batch) @ held.weights)
            for objective, part in zip(self.objectives, self.split(held.values), strict=True)
        ]
        self.race = np.array(losses)

    def keep(self, one: int) -> None:
        """Drop all but one; there is nothing to race any more."""
        self.objectives, self.race = self.objectives[one : one + 1], np.zeros(1)

    def replace(self, objective: Objective) -> None:
        """Go on with copies of another objective, which take over the scalars."""
        states = self.states()
        self.objectives = [copy.deepcopy(objective) for _ in states]
        self.set_states(states)

    # -- state ------------------------------------------------------------------------------------

    def states(self) -> list[dict[str, Any]]:
        """Scalars of the objectives."""
        return [objective.state() for objective in self.objectives]

    def set_states(self, states: list[dict[str, Any]]) -> None:
        """Go back to :meth:`states`."""
        for objective, state in zip(self.objectives, states, strict=True):
            objective.set_state(state)

    def snapshot(self) -> dict[str, Any]:
        """Return everything as plain data."""
        objectives = {str(i): state for i, state in enumerate(self.states())}
        return {"race": self.race.copy(), "unit": self.unit, "objectives": objectives}

    def restore(self, state: dict[str, Any], n: int) -> None:
        """Inverse of :meth:`snapshot` for so many candidates; ValueError if it does not fit."""
        race, objectives = state["race"], state["objectives"]
        if race.shape != (n,) or race.dtype != np.float64 or len(objectives) != n:
            raise ValueError("The candidates of the learner do not fit together.")
        self.race, self.unit = race.copy(), check_real("unit", state["unit"], low=1.0)
        self.objectives = [copy.deepcopy(self.objectives[0]) for _ in range(n)]
        self.set_states([objectives[str(i)] for i in range(n)])
