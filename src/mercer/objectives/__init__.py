"""What is minimised."""

from mercer.objectives._base import Anchors, Batch, Objective
from mercer.objectives.bellman import Bellman
from mercer.objectives.pairwise import Pairwise
from mercer.objectives.risk import Compositional, make_objective
from mercer.objectives.rows import KullbackLeibler, Novelty, Pointwise

__all__ = [
    "Anchors",
    "Batch",
    "Bellman",
    "Compositional",
    "KullbackLeibler",
    "Novelty",
    "Objective",
    "Pairwise",
    "Pointwise",
    "make_objective",
]
