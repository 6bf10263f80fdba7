"""What is minimised."""

from mercer.objectives._base import Batch, Objective
from mercer.objectives.pointwise import Pointwise

__all__ = ["Batch", "Objective", "Pointwise"]
