"""Functions that are sums of parts, each an ordinary kernel expansion that learns by sums."""

from mercer.parts._blend import Blend
from mercer.parts._dependence import FEWEST_ROWS, block_length, block_order
from mercer.parts._fitted import FittedPart
from mercer.parts._line_up import Means
from mercer.parts._race import Candidate, Contest, race, race_point
from mercer.sums import CellsPart, GlobalPart

__all__ = [
    "FEWEST_ROWS",
    "Blend",
    "Candidate",
    "CellsPart",
    "Contest",
    "FittedPart",
    "GlobalPart",
    "Means",
    "block_length",
    "block_order",
    "race",
    "race_point",
]
