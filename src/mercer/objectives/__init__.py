"""Objectives: what learners minimise."""

from mercer.objectives.bellman import Bellman
from mercer.objectives.local_changes import LocalChanges
from mercer.objectives.objective import (
    Anchors,
    Batch,
    Compositional,
    Novelty,
    Objective,
    Pointwise,
    TwoSample,
    make_objective,
)
from mercer.objectives.pairwise import JoinedPairwise, Pairwise

__all__ = [
    "Anchors",
    "Batch",
    "Bellman",
    "Compositional",
    "JoinedPairwise",
    "LocalChanges",
    "Novelty",
    "Objective",
    "Pairwise",
    "Pointwise",
    "TwoSample",
    "make_objective",
]
