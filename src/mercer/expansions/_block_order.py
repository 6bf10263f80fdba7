"""Which block of random features a step works on."""

from __future__ import annotations

from mercer.expansions.random_features import RandomFeatures

__all__ = ["block_of_step"]

_MAX_BLOCKS = 16


def block_of_step(expansion: RandomFeatures, step: int, n_blocks: int) -> tuple[int, int]:
    """Block of a step, and how many blocks share the penalty.

    Parameters
    ----------
    expansion : RandomFeatures
        Its mode and growth.
    step : int
        Number of the step, from 0.
    n_blocks : int
        Blocks so far.
    """
    if expansion.mode != "cyclic":
        return n_blocks, 1
    most = expansion.max_blocks or _MAX_BLOCKS
    if expansion.growth == "block":
        return (step, step + 1) if step < most else (step % most, most)
    n_blocks = most
    if expansion.growth == "doubling":
        n_blocks = 1
        while n_blocks < most and step >= 2 * n_blocks:
            step -= 2 * n_blocks
            n_blocks = min(2 * n_blocks, most)
    return step % n_blocks, n_blocks
