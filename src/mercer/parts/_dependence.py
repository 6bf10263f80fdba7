"""Whether rows depend on their neighbours, as those of a series do, and orders that respect it.

A row held out alone beside its neighbours in time is predicted by them, which the rows of tomorrow
will not be. What is chosen by such errors is too local; so blocks of rows are held out together
where that makes a difference (block cross-validation; Racine, Journal of Econometrics 99, 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Bias, Gaussian, Mapped
from mercer.maps import Standardize
from mercer.sums import GlobalPart, Rows

__all__ = ["FEWEST_ROWS", "block_length", "block_order"]

# Rows of a block; fewer where there are few.
_BLOCK = 50
#: Rows that tell anything.
FEWEST_ROWS = 200
# Stretches of rows that are looked at, and blocks in each.
_STRETCHES, _BLOCKS = 20, 2
# The pilot: points, and its length in median distances, short enough to follow neighbours.
_POINTS, _LENGTH, _OFFSET = 250, 0.5, 0.1
# Errors of blocks are larger than those of as many rows drawn at random by so many standard
# errors, and by such a factor.
_SURE, _GROWTH = 3.0, 1.25
# Where so much of a target's variance lies between stretches, rows are sorted by it.
_SORTED = 0.7
_ROUNDING = 1e-14


def block_length(take: Callable[[NDArray[np.int64]], Rows], n_rows: int, seed: int) -> int:
    """Rows that are to be held out together: 1, or 50 if neighbours tell of each other.

    In each of twenty stretches over all rows a pilot predicts rows whose block was left out, and
    the same rows when as many others, drawn at random, were left out with them. Rows in no order
    make no difference. Rows that are sorted by a target, or may be by the only input, are taken as
    a sample: to leave out a block would be to leave out a class, or a part of the line.

    Parameters
    ----------
    take : callable
        Numbers of rows, in the order in which they came, to rows.
    n_rows : int
        How many there are.
    seed : int
        Of the pilot's points and the draws.

    Returns
    -------
    length : int
        1 if rows may be judged one by one.
    """
    if n_rows < FEWEST_ROWS:
        return 1
    block = min(_BLOCK, n_rows // _STRETCHES)
    stretch = min(_BLOCKS * block, n_rows // _STRETCHES)
    starts = np.arange(_STRETCHES, dtype=np.int64) * n_rows // _STRETCHES
    rows = _standard(take((starts[:, np.newaxis] + np.arange(stretch)).ravel()))
    if rows.X.shape[1] < 2 or _is_sorted(rows.targets):
        return 1
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(rows))
    in_blocks = _errors(rows, drawn, block)
    alone = np.empty_like(in_blocks)
    alone[drawn] = _errors(rows[drawn], np.arange(len(rows)), block)
    growth = (in_blocks - alone).reshape(_STRETCHES, stretch).mean(axis=1)
    sure = growth.mean() > _SURE * growth.std(ddof=1) / np.sqrt(_STRETCHES)
    return block if sure and in_blocks.mean() > _GROWTH * alone.mean() else 1


def block_order(order: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Rows in blocks that stay together, the blocks in the order of the first numbers of all.

    Parameters
    ----------
    order : ndarray of shape (n,) of int
        Permutation of the numbers from 0 to n - 1; rows in order stay so.
    block : int
        Rows of a block; a shorter last one stays last. No more than a fifth of all.

    Examples
    --------
    >>> block_order(np.array([6, 1, 3, 0, 5, 2, 4, 8, 7, 10, 9]), 2).tolist()
    [2, 3, 6, 7, 0, 1, 4, 5, 8, 9, 10]
    """
    block = min(block, max(1, order.size // 5))
    whole = order.size // block
    firsts = order[order < whole] * block
    moved = (firsts[:, np.newaxis] + np.arange(block)).ravel()
    return np.concatenate([moved, np.arange(whole * block, order.size)])


def _standard(rows: Rows) -> Rows:
    """Rows with targets of mean 0 and variance 1, but for those that are constant: these are 0."""
    mean, deviation = rows.targets.mean(axis=0), rows.targets.std(axis=0)
    varies = deviation > _ROUNDING * np.abs(mean)
    scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
    return replace(rows, targets=(rows.targets - mean) * scale)


def _is_sorted(targets: NDArray[np.float64]) -> bool:
    """Whether nearly all that there is of a standard target lies between stretches.

    Of one of several is enough: a class that is in one stretch only could not be predicted.
    """
    stretches = targets.reshape(_STRETCHES, -1, targets.shape[1])
    within, whole = stretches.var(axis=1).mean(axis=0), targets.var(axis=0)
    return bool((within < (1.0 - _SORTED) * whole).any())


def _errors(rows: Rows, some: NDArray[np.int64], block: int) -> NDArray[np.float64]:
    """Squared error of each row when its block was left out, with a pilot on some of the rows."""
    map = Standardize().fit(rows.X)
    length = Gaussian("median").resolve(np.asarray(map(rows.X[some[:1000]]))).length_scale
    kernel = Mapped(Gaussian(_LENGTH * float(length)) + Bias(_OFFSET), map)
    points = rows.X[some[:_POINTS]].astype(np.float64)
    pilot = GlobalPart(kernel, points, rows.targets.shape[1])
    left_out = pilot.solve_without(rows, block) - rows.targets
    return np.asarray(np.sum(left_out**2, axis=1))
