"""Model selection by rows that were held out: a race of kernels, blocks of rows, stacking."""

from mercer.selection.families import FAMILIES, Family, bias_of, global_kernel
from mercer.selection.held_out import (
    FEWEST_GROUPS,
    FEWEST_ROWS,
    block_length,
    block_of_series,
    block_order,
    calibrate,
    group_order,
    left_out_by_pilot,
    mean_loss,
    order_in_blocks,
    pilot_kernel,
    repeats,
    stack,
)
from mercer.selection.race import (
    DEFAULT,
    Candidate,
    RaceResult,
    RaceSettings,
    race,
    race_point,
)

__all__ = [
    "DEFAULT",
    "FAMILIES",
    "FEWEST_GROUPS",
    "FEWEST_ROWS",
    "Candidate",
    "Family",
    "RaceResult",
    "RaceSettings",
    "bias_of",
    "block_length",
    "block_of_series",
    "block_order",
    "calibrate",
    "global_kernel",
    "group_order",
    "left_out_by_pilot",
    "mean_loss",
    "order_in_blocks",
    "pilot_kernel",
    "race",
    "race_point",
    "repeats",
    "stack",
]
