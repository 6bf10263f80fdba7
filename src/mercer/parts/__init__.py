"""Functions that are sums of parts, each an ordinary kernel expansion that learns by sums."""

from mercer.parts._blend import Blend
from mercer.parts._fitted import FittedPart
from mercer.parts._line_up import Means
from mercer.sums import CellsPart, GlobalPart

__all__ = [
    "Blend",
    "CellsPart",
    "FittedPart",
    "GlobalPart",
    "Means",
]
