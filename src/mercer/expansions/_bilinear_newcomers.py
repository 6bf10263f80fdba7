"""Points that join a bilinear expansion: which are new, and which depend on the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.bilinear import (
    DEPENDENT,
    INACCURATE,
    JOINED,
    add_block,
    fold,
    join,
    trusted_inverse,
)
from mercer.numerics.komp import BOOKED_SHARE, absorb
from mercer.numerics.state import GREEDY
from mercer.numerics.step import INVERSE

if TYPE_CHECKING:
    from mercer.expansions.bilinear_expansion import BilinearExpansion

__all__ = ["ABSORB_LESS", "Joining", "join_newcomers", "meet_points"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

# Newcomers closer than this to the span of the rest (squared, relative to k(x, x)) are projected
# on it. A point let in at a squared distance of s brings the condition number of the Gram matrix
# to 1 / s and, with the weights of its projection, some orders of magnitude beyond: up to about
# 1e13 for 1e-8, where an inverse that is refined once is still good to seven digits.
_ABSORB = 1e-8
#: The same where a small tolerance does not pay for it.
ABSORB_LESS = 1e-10
# Points nearer than this (squared, relative to k(x, x)) are one and the same up to rounding.
_TWINS = 1e-13


class Joining(NamedTuple):
    """Newcomers, and what a step adds to them and to the points that are there already."""

    points: Array  # (n_new, n_features)
    rows: Array  # (n_new, size), kernels with the dictionary
    gram: Array  # (n_new, n_new), among themselves
    slots: Indices  # (n_changed,), of the points with coefficients; newcomers count from size on
    block: Array  # (n_changed, n_changed), their coefficients, in units of the scaled ones


def meet_points(
    f: BilinearExpansion, points: Floats, coefficients: Array, before: Indices, after: Indices
) -> tuple[Joining, Indices, Indices]:
    """Find the points of a step in the dictionary; parameters as in ``BilinearExpansion.add``.

    Returns
    -------
    new : Joining
        The points that will join, and all coefficients.
    slots : ndarray of shape (n_points,) of int64
        Slot of each point; -1 if it needs none. Those that will join count from ``size`` on.
    unknown : ndarray of int64
        Numbers of the points that need a slot and were not known by their places.

    Raises
    ------
    ValueError
        If more points must stay than the expansion may keep.
    """
    slots = np.full(before.size, -1, np.int64)
    there = (before >= 0) & (before < f.slots.size)
    slots[there] = f.slots[before[there]]
    filled = coefficients.any(axis=0) | coefficients.any(axis=1)
    unknown = np.flatnonzero((filled | (after >= 0)) & (slots < 0))
    rows, gram = f.rows(points, unknown), f.kernels(points[unknown])
    joining: list[int] = []
    own, theirs = gram.diagonal(), f.arrays.self_kernel[: f.size]
    for p, point in enumerate(unknown):
        others = np.concatenate([theirs, own[joining]])
        distances = others + own[p] - 2.0 * np.concatenate([rows[p], gram[p, joining]])
        if distances.size:
            nearest = int(np.argmin(distances))
            if distances[nearest] <= _TWINS * max(own[p], others[nearest]):
                slots[point] = nearest
                continue
        slots[point] = f.size + len(joining)
        joining.append(p)
    _check_room(f, slots[after >= 0])
    at = np.array(joining, dtype=np.int64)
    block = coefficients[np.ix_(filled, filled)] / f.scale
    inputs = points[unknown[at]].astype(np.float64)
    return Joining(inputs, rows[at], gram[np.ix_(at, at)], slots[filled], block), slots, unknown


def _check_room(f: BilinearExpansion, held: Indices) -> None:
    n_held, limit = np.unique(held).size, f.expansion.limit()
    if n_held >= limit:
        raise ValueError(
            f"{f.expansion!r} keeps at most {limit} points, but the buffer holds {n_held} that "
            "must stay, which leaves no room for others. Keep more points, or take a smaller "
            "`buffer`."
        )


def join_newcomers(f: BilinearExpansion, new: Joining, squared: float) -> tuple[float, Indices]:
    """Let newcomers in and add the coefficients of a step.

    Parameters
    ----------
    f : BilinearExpansion
        Changed in place.
    new : Joining
        The newcomers and all coefficients.
    squared : float
        Squared error that the step may make, in units of the scaled coefficients.

    Returns
    -------
    squared_error : float
        Of projecting points that depend on the others.
    moved : ndarray of shape (size + n_new,) of int64
        Slot of each point of the dictionary and each newcomer now; -1 for projected ones.
    """
    n, own = f.size, np.ascontiguousarray(new.gram.diagonal())
    sparing = f.expansion.rule == GREEDY and squared >= 0.0
    thresholds = [-1.0]
    if f.kind == INVERSE:
        thresholds = [max(_ABSORB, f.expansion.absorb)] + [ABSORB_LESS] * sparing
    joined: list[int] = []
    for threshold in thresholds:
        crowded = _let_in(f, new, own, threshold, joined)
        left = [p for p in range(own.size) if p not in joined]
        # Those left over have numbers after all that joined.
        moved = np.concatenate([np.arange(n), np.empty(own.size, np.int64)])
        moved[[n + p for p in joined]] = n + np.arange(len(joined))
        moved[[n + p for p in left]] = f.size + np.arange(len(left))
        if not left:
            add_block(f.arrays, f.size, *_distinct(moved[new.slots], new.block))
            return 0.0, moved
        K, C = _with_left(f, new, moved[new.slots], joined, left)
        kept, inverse = np.arange(f.size), f.arrays.inverse[: f.size, : f.size]
        if crowded:
            kept, inverse = trusted_inverse(K, threshold)
        gone = np.setdiff1d(np.arange(len(K)), kept)
        coefficients, booked = fold(K, C, kept, gone, inverse)
        if booked <= BOOKED_SHARE * squared:
            break
    points = np.vstack([f.points[: f.size], new.points[left]])
    f.fill(kept, points, K, coefficients, inverse)
    slots = np.full(len(K), -1, np.int64)
    slots[kept] = np.arange(kept.size)
    return booked, slots[moved]


def _let_in(
    f: BilinearExpansion, new: Joining, own: Array, threshold: float, joined: list[int]
) -> bool:
    """Let newcomers join one by one; return whether others had better go in their place."""
    mended = False
    for p in _order(f, new, own):
        while p not in joined:
            row = np.concatenate([new.rows[p], new.gram[p, joined]])
            status = join(f.arrays, f.size, row, own[p], threshold)
            if status == JOINED:
                f.points[f.size] = new.points[p]
                f.size += 1
                joined.append(p)
            elif status == INACCURATE and not mended:
                mended = f.mend()
                if not mended:
                    return True
            elif status == DEPENDENT:
                break
            else:
                return True
    return False


def _order(f: BilinearExpansion, new: Joining, own: Array) -> Sequence[int]:
    """Order in which newcomers join: where they may depend on others, the farthest first."""
    if f.kind != INVERSE or own.size < 2:
        return range(own.size)
    n = new.rows.shape[1]
    schur = new.gram - new.rows @ f.arrays.inverse[:n, :n] @ new.rows.T
    kept, absorbed, _ = absorb(schur, own, ABSORB_LESS)
    return [*kept.tolist(), *absorbed.tolist()]


def _with_left(
    f: BilinearExpansion, new: Joining, slots: Indices, joined: list[int], left: list[int]
) -> tuple[Array, Array]:
    """Gram matrix and coefficients of the dictionary and of the newcomers left over."""
    n, total = f.size, f.size + len(left)
    K, C = np.empty((total, total)), np.zeros((total, total))
    K[:n, :n], C[:n, :n] = f.arrays.gram[:n, :n], f.arrays.coefficients[:n, :n]
    K[n:, :n] = np.hstack([new.rows[left], new.gram[np.ix_(left, joined)]])
    K[:n, n:] = K[n:, :n].T
    K[n:, n:] = new.gram[np.ix_(left, left)]
    np.add.at(C, (slots[:, None], slots[None, :]), new.block)
    return K, C


def _distinct(slots: Indices, block: Array) -> tuple[Indices, Array]:
    """Add up what goes to one and the same slot."""
    unique, where = np.unique(slots, return_inverse=True)
    if unique.size == slots.size:
        return slots, block
    total = np.zeros((unique.size, unique.size))
    np.add.at(total, (where[:, None], where[None, :]), block)
    return unique, total
