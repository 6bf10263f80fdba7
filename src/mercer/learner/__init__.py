"""The one loop: predict, take slopes, shrink, add, keep small.

POLK is a pointwise loss with ``KOMP``; NORMA the same with ``Full`` and truncation; BSGD with
``Budget``; Ying & Zhou's Algorithm 1 with ``Full``, ``regularization=0`` and ``PowerDecay``; DSG
any objective with ``RandomFeatures``. Two learners run it: on kernel expansions, whose points come
from the stream, and on random features, where what a step adds is known at all rows at once. A
third one solves: on a fixed dictionary, or a fixed number of random features.
"""

from __future__ import annotations

from typing import Any

from mercer.functions import DictionaryFunction, FeatureExpansion, KernelExpansion
from mercer.learner._base import Learner, StepSize
from mercer.learner._blend import BlendLearner
from mercer.learner._features import FeatureLearner
from mercer.learner._kernel import KernelLearner
from mercer.learner._second_order import SecondOrderLearner
from mercer.objectives import Objective
from mercer.parts import Blend
from mercer.planning import AutomaticStep

__all__ = [
    "BlendLearner",
    "FeatureLearner",
    "KernelLearner",
    "Learner",
    "SecondOrderLearner",
    "make_learner",
]


def make_learner(
    objective: Objective,
    function: KernelExpansion | FeatureExpansion | DictionaryFunction | Blend,
    step_size: StepSize | AutomaticStep,
    regularization: float,
    batch_size: int,
    automatic: AutomaticStep,
) -> Learner:
    """Return the learner for a function that has learned nothing.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    function : KernelExpansion, FeatureExpansion, DictionaryFunction or Blend
        What is learned, from :func:`mercer.functions.start`.
    step_size : callable or AutomaticStep
        Step number (1, 2, ...) to step size.
    regularization : float
        Ridge parameter.
    batch_size : int
        Rows per step.
    automatic : AutomaticStep
        The automatic choice, for reference even when ``step_size`` is another.
    """
    cls: Any = FeatureLearner if isinstance(function, FeatureExpansion) else KernelLearner
    if isinstance(function, Blend):
        cls = BlendLearner
    elif function.expansion.mode == "solve":
        cls = SecondOrderLearner
    learner: Learner = cls(objective, function, step_size, regularization, batch_size, automatic)
    return learner
