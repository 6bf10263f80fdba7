"""What is minimised."""

from mercer.objectives._base import Batch, Objective
from mercer.objectives.density_ratio import KullbackLeibler
from mercer.objectives.novelty import Novelty
from mercer.objectives.pointwise import Pointwise

__all__ = ["Batch", "KullbackLeibler", "Novelty", "Objective", "Pointwise"]
