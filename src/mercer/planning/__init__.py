"""Choices that data make: automatic step sizes and the unit of automatic tolerances."""

from mercer.planning._automatic import (
    AutomaticStep,
    CarefulSteps,
    automatic_step,
    theorem_steps,
)
from mercer.planning._batches import FirstRows, stable_steps, steps_of_batch
from mercer.planning._feature_steps import FeatureSteps, warn_if_off_centre

__all__ = [
    "AutomaticStep",
    "CarefulSteps",
    "FeatureSteps",
    "FirstRows",
    "automatic_step",
    "stable_steps",
    "steps_of_batch",
    "theorem_steps",
    "warn_if_off_centre",
]
