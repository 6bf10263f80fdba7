"""How rows that can be visited again are cut into steps, and which of them are held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["cut_pass", "held_out", "n_held_out"]

# Rows held out to choose the ridge on, if a twentieth of all is not between these.
_HELD_OUT = 500, 5000
_FEW_ROWS = 50


def cut_pass(n: int, size: int, *, exact: bool) -> list[int]:
    """Where the batches of a pass over ``n`` rows begin, and its end.

    Parameters
    ----------
    n, size : int
        Rows of the pass and of a step.
    exact : bool
        Whether the last batch may be short; else its rows are shared out among the others.

    Examples
    --------
    >>> cut_pass(10, 4, exact=True), cut_pass(10, 4, exact=False)
    ([0, 4, 8, 10], [0, 5, 10])
    """
    starts = list(range(0, n, size))
    if not exact and len(starts) > 1 and n - starts[-1] < size:
        # A block fitted to few rows is worse than a batch that is somewhat larger.
        starts = [n * i // (len(starts) - 1) for i in range(len(starts) - 1)]
    return [*starts, n]


def n_held_out(n: int, n_passes: int, n_candidates: int) -> int:
    """Rows to choose among candidates on: in one pass every batch is new, so none is needed."""
    if n_candidates == 1 or n_passes == 1 or n < _FEW_ROWS:
        return 0
    return min(max(_HELD_OUT[0], n // 20), _HELD_OUT[1], n // 5)


def held_out(n: int, how_many: int) -> NDArray[np.bool_]:
    """Mark rows to hold out."""
    held = np.zeros(n, dtype=np.bool_)
    held[np.random.default_rng(n).permutation(n)[:how_many]] = True
    return held
