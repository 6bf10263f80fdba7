"""What a value function says of states and transitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from mercer.estimators._transitions import Transitions, check_transitions
from mercer.objectives.bellman import AUXILIARY, Bellman

__all__ = ["ValueAnswers"]

Array = NDArray[np.float64]


class ValueAnswers:
    """Values, temporal differences and the score, for estimators that learn transitions."""

    _problem: Bellman
    _fitted: Callable[[], Any]
    _scores: Callable[[Any], Array]

    def predict(self, states: Any) -> Array:
        """Estimate the value of states.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.

        Returns
        -------
        values : ndarray of shape (n,)
        """
        return self._scores(states)[:, 0]

    def predict_auxiliary(self, states: Any) -> Array:
        """Estimate the expected temporal difference, E[delta | x]; 0 where V is consistent.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.

        Returns
        -------
        h : ndarray of shape (n,)

        Raises
        ------
        AttributeError
            For methods other than "gtd2" and "tdc", which have no such function.
        """
        self._fitted()
        if self._problem.method not in AUXILIARY:
            raise AttributeError(
                "The expected temporal difference is learned by the methods 'gtd2' and 'tdc'; this "
                f"model has method={self._problem.method!r}."
            )
        return self._scores(states)[:, 1]

    def temporal_difference_errors(
        self, states: Any, rewards: Any, next_states: Any, terminals: Any = None
    ) -> Array:
        """Temporal differences r + discount · V(next state) - V(state) of transitions.

        Parameters
        ----------
        states, rewards, next_states, terminals
            As in :meth:`fit`.

        Returns
        -------
        errors : ndarray of shape (n,)
            Their mean over transitions from one state is 0 if V is right.
        """
        self._fitted()
        given = Transitions(states, rewards, next_states, terminals)
        x, r, following, over, *_ = check_transitions(self, given, reset=False)
        continuation = np.where(over, 0.0, self._problem.discount)
        return r + continuation * self.predict(following) - self.predict(x)

    def score(self, states: Any, returns: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R² of the values, against returns.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.
        returns : array-like of shape (n,)
            Discounted sums of rewards from there on, or exact values. Returns of random
            trajectories have a spread of their own, so R² stays below 1. Not rewards: searches of
            scikit-learn pass these and choose wrongly, so compare settings by hand.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
        """
        return float(r2_score(returns, self.predict(states), sample_weight=sample_weight))
