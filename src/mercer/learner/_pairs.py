"""Pairs in compiled code: what goes in, what comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import KernelExpansion
from mercer.numerics import row_loop
from mercer.numerics.pair_loop import (
    ALL,
    BALANCED,
    DIFFERENCE,
    OPPOSITE,
    SAME,
    SIGN,
    Buffered,
    Rules,
    kernels_of_buffer,
    run_pairs,
)
from mercer.numerics.row_loop import Functions, Rows, Steps
from mercer.objectives import Pairwise

if TYPE_CHECKING:
    from mercer.learner._kernel import KernelLearner

__all__ = ["has_compiled_pairs", "learn_pairs"]

Array = NDArray[np.float64]

# As the compiled loop numbers them.
_LABELS = {"difference": DIFFERENCE, "sign": SIGN, "same": SAME}
_NORMALIZATIONS = {"opposite": OPPOSITE, "all": ALL, "balanced": BALANCED}


def has_compiled_pairs(objective: Any, batch_size: int) -> bool:
    """Whether the compiled loop on pairs knows this objective."""
    return (
        type(objective) is Pairwise
        and batch_size == 1
        and objective.pair_kernel.order == 1
        and objective.pair_kernel.bias == 0.0
    )


def learn_pairs(
    learner: KernelLearner,
    functions: Functions,
    X: NDArray[np.floating],
    targets: Array,
    weights: Array,
    steps: Steps,
    row: int,
    largest_loss: float,
) -> int:
    """Learn rows from ``row`` on, until all are learned or a safer path took over.

    Returns
    -------
    row : int
        The next row to learn.
    """
    objective: Any = learner.objective
    f: KernelExpansion = learner.function
    places = objective.places(targets[row:], weights[row:])
    rules = Rules(
        _LABELS[objective.pair_label],
        _NORMALIZATIONS[objective.normalize],
        float(objective.pattern[0]),
        float(objective.pattern[1]),
        float(objective.loss.value([1.0], [0.0])[0]),
        np.concatenate([np.full(row, -1, np.int64), places]),
    )
    n_places = max(int(places.max()) + 1, objective.kept.weights.size)
    buffered = _buffer(objective, f, X, n_places)
    rows = Rows(X, targets, weights)
    first = row
    try:
        while row < len(X):
            f.reserve(n_places + 1)
            buffered = buffered._replace(
                kernels=np.zeros((n_places, f.arrays.points.shape[0]), f.dtype)
            )
            kernels_of_buffer(functions, f.arrays, f.size, buffered)
            progress, reason = run_pairs(
                functions,
                f.compressor,
                f.arrays,
                buffered,
                rules,
                rows,
                steps,
                f.limits(),
                f.progress(row),
                learner.regularization,
                -1.0 if f.averaging is None else f.averaging,
                largest_loss,
            )
            f.resume(progress, buffered.slots)
            row = progress.rows_done
            if reason == row_loop.DIVERGED:
                raise learner.diverged(steps.step_sizes[row], row)
            if reason == row_loop.HALF_DONE:
                done = row - 1
                steps.errors[done] = f.finish_with_slots(steps.errors[done], steps.tolerances[done])
                steps.model_orders[done] = f.size
            elif reason in (row_loop.ILL_CONDITIONED, row_loop.BROKEN_DOWN):
                f.use_safer_path()
            if f.dtype != X.dtype:
                break
            buffered = buffered._replace(slots=f.slots)
    finally:
        objective.take_buffer(*buffered[:3], targets[first:row], weights[first:row])
    return row


def _buffer(
    objective: Pairwise, f: KernelExpansion, X: NDArray[np.floating], n_places: int
) -> Buffered:
    """Return a copy of the buffer, with room for all rows that come."""
    kept, slots = objective.kept, np.full(n_places, -1, np.int64)
    n = kept.weights.size
    points = np.zeros((n_places, X.shape[1]), X.dtype)
    targets, weights = np.zeros((n_places, 2)), np.zeros(n_places)
    if n:
        points[:n], targets[:n], weights[:n] = kept
    held = f.slots[:n_places]
    slots[: held.size] = held
    return Buffered(points, targets, weights, slots, np.zeros((0, 0), X.dtype))
