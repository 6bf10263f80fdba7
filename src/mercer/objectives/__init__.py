"""Objectives: what learners minimise."""

from mercer.objectives.bellman import Bellman
from mercer.objectives.objective import (
    Anchors,
    Batch,
    Compositional,
    KullbackLeibler,
    Novelty,
    Objective,
    Pointwise,
    make_objective,
)
from mercer.objectives.pairwise import Pairwise

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
