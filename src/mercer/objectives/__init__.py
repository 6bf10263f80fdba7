"""Objectives: what learners minimise."""

from mercer.objectives.bellman import Bellman
from mercer.objectives.objective import (
    Anchors,
    Batch,
    KullbackLeibler,
    Novelty,
    Objective,
    Pointwise,
)
from mercer.objectives.pairwise import Pairwise
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
