"""The default learner: a race chooses kernels, and sums over all rows fit them by least squares.

It learns a :class:`mercer.functions.SumOfComponents`. A race on the first rows chooses the kernels
(:mod:`mercer.selection`). Learning has three phases (:class:`Phase`).
"""

from mercer.default.allocate import AllocationSettings, Resources
from mercer.default.learner import DefaultLearner, Phase, Settings
from mercer.default.targets import HeldOut

__all__ = [
    "AllocationSettings",
    "DefaultLearner",
    "HeldOut",
    "Phase",
    "Resources",
    "Settings",
]
