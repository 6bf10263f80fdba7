"""What is minimised."""

from mercer.objectives._base import Anchors, Batch, Objective
from mercer.objectives.bellman import Bellman
from mercer.objectives.density_ratio import KullbackLeibler
from mercer.objectives.novelty import Novelty
from mercer.objectives.pairwise import Pairwise
from mercer.objectives.pointwise import Pointwise
from mercer.objectives.risk import Compositional, make_objective

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
