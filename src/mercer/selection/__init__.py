"""Model selection by rows that were held out: a race of kernels, blocks of rows, stacking."""

from mercer.selection.held_out import FEWEST_ROWS, block_length, block_order, mean_loss, stack
from mercer.selection.race import (
    DEFAULT,
    Candidate,
    RaceResult,
    RaceSettings,
    global_kernel,
    race,
    race_point,
)

__all__ = [
    "DEFAULT",
    "FEWEST_ROWS",
    "Candidate",
    "RaceResult",
    "RaceSettings",
    "block_length",
    "block_order",
    "global_kernel",
    "mean_loss",
    "race",
    "race_point",
    "stack",
]
