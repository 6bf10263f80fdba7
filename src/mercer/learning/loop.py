"""The loop by steps."""

from __future__ import annotations

__all__ = ["cut_pass"]


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
