"""The default learner: a race on the first rows, and sums over all of them.

It learns a :class:`mercer.functions.SumOfComponents`, whose kernels a race chooses
(:mod:`mercer.selection`), in three phases (:class:`Phase`).
"""

from mercer.default.allocate import AllocationSettings, Resources
from mercer.default.held_out import HeldOut
from mercer.default.learner import DefaultLearner
from mercer.default.settings import Phase, Settings

__all__ = [
    "AllocationSettings",
    "DefaultLearner",
    "HeldOut",
    "Phase",
    "Resources",
    "Settings",
]
