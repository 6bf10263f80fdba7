"""How methods stand on many tables: mean ranks, Elo and improvability, as in [1]_.

All functions take errors of shape (n_tables, n_methods). Lower is better, none is missing.

References
----------
.. [1] Erickson et al., "TabArena: a living benchmark for machine learning on tabular data",
   NeurIPS 2025, https://arxiv.org/abs/2506.16791. Its formulas are in the package `bencheval`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

#: Elo of the method that the others are measured by.
ANCHOR_ELO = 1000.0
DRAWS = 400
_POINTS = 400.0  # so many more make the odds ten times as high
#: Weight of the squares of the log-strengths, as in `bencheval`: too small to be seen, unless a
#: method wins always, whose Elo would be infinite.
_RIDGE = 0.5 / (1e6 * np.log(10.0) ** 2)
_MOST_STEPS, _LONGEST_STEP, _PRECISION = 500, 1.0, 1e-9


def mean_ranks(errors: np.ndarray) -> np.ndarray:
    """Mean ranks over the tables; 1 is best, equal errors share.

    Examples
    --------
    >>> mean_ranks(np.array([[0.1, 0.2, 0.3], [0.1, 0.1, 0.2]]))
    array([1.25, 1.75, 3.  ])
    """
    return np.asarray(np.mean(rankdata(errors, axis=1), axis=0))


def improvability(errors: np.ndarray) -> np.ndarray:
    """How many % of a method's error the best one of a table does without; mean over the tables.

    Examples
    --------
    >>> improvability(np.array([[1.0, 2.0], [3.0, 3.0]]))
    array([ 0., 25.])
    """
    best = np.min(errors, axis=1, keepdims=True)
    return np.asarray(100.0 * np.mean((errors - best) / errors, axis=0))


def elo(errors: np.ndarray, anchor: int) -> np.ndarray:
    """Elo of each method by maximum likelihood; the anchor, a column of the errors, has 1,000.

    Of two methods the one with the lower error wins the table. Equal errors are half a win of each.
    A wins against B with the odds ``10 ** ((Elo of A - Elo of B) / 400)`` (Bradley and Terry).

    Examples
    --------
    Odds of 4 to 1:

    >>> errors = np.array([[1.0, 2.0]] * 4 + [[2.0, 1.0]])
    >>> np.round(elo(errors, anchor=1) - [400.0 * np.log10(4.0), 0.0], 3)
    array([1000., 1000.])
    """
    return np.asarray(_elo_of_wins(_wins(errors).sum(axis=0)[None], len(errors), anchor)[0])


def elo_interval(
    errors: np.ndarray, anchor: int, draws: int = DRAWS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of 95 % intervals of :func:`elo`, by tables that are drawn with replacement."""
    n_tables = len(errors)
    drawn = np.random.default_rng(seed).integers(n_tables, size=(draws, n_tables))
    found = _elo_of_wins(_wins(errors)[drawn].sum(axis=1), n_tables, anchor)
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return low, high


def _wins(errors: np.ndarray) -> np.ndarray:
    """Wins on each table of each method against all others, halves for equal errors."""
    return np.asarray(errors.shape[1] - rankdata(errors, axis=1))


def _elo_of_wins(wins: np.ndarray, n_tables: int, anchor: int) -> np.ndarray:
    """Elo of wins of shape (n_draws, n_methods), by Newton's steps.

    All methods meet on all tables, so that the likelihood knows of the tables by the wins only.
    """
    strengths = np.zeros(wins.shape)  # logarithms
    diagonal = np.arange(wins.shape[1])
    for _ in range(_MOST_STEPS):
        chances = expit(strengths[:, :, None] - strengths[:, None, :])
        chances[:, diagonal, diagonal] = 0.0
        slope = wins - n_tables * chances.sum(axis=2) - 2.0 * _RIDGE * strengths
        spreads = n_tables * chances * (1.0 - chances)
        curvature = -spreads
        curvature[:, diagonal, diagonal] = spreads.sum(axis=2) + 2.0 * _RIDGE
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        longest = np.max(np.abs(step), axis=1, keepdims=True)
        strengths += step / np.maximum(longest / _LONGEST_STEP, 1.0)
        if longest.max() < _PRECISION:
            break
    points = _POINTS / np.log(10.0) * strengths
    return np.asarray(points - points[:, [anchor]] + ANCHOR_ELO)
