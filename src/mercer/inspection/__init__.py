"""What a fitted model is and how it came about, as plain data.

:func:`describe` is what ``mercer inspect`` prints, what its JSON holds and what a report tabulates.
"""

from mercer.inspection._describe import (
    LossUnits,
    describe,
    describe_pairs,
    describe_risk,
    history_in_units,
    loss_units,
    parts_table,
    race_table,
    rows_judged_together,
)

__all__ = [
    "LossUnits",
    "describe",
    "describe_pairs",
    "describe_risk",
    "history_in_units",
    "loss_units",
    "parts_table",
    "race_table",
    "rows_judged_together",
]
