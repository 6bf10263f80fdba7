"""Which learner learns a function.

Components of the default are learned by :mod:`mercer.default`, the ways of a stream by
:mod:`mercer.streams`, all other functions by :mod:`mercer.learning`, by steps or by sums.
"""

from __future__ import annotations

from typing import Any

from mercer.default import DefaultLearner
from mercer.functions import (
    DictionaryFunction,
    FeatureExpansion,
    KernelExpansion,
    RecursiveFunction,
    SumOfComponents,
)
from mercer.learning import (
    AutomaticStep,
    FeatureLearner,
    KernelLearner,
    Learner,
    RecursiveLearner,
    SecondOrderLearner,
)
from mercer.learning.learner import StepSize
from mercer.objectives import Objective
from mercer.streams import StreamFunction, StreamLearner

__all__ = ["make_learner"]


def make_learner(
    objective: Objective,
    function: KernelExpansion
    | FeatureExpansion
    | DictionaryFunction
    | RecursiveFunction
    | StreamFunction
    | SumOfComponents,
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
    function : KernelExpansion, FeatureExpansion, DictionaryFunction, StreamFunction or other
        What is learned, which has learned nothing yet.
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
    if isinstance(function, SumOfComponents):
        cls = DefaultLearner
    elif isinstance(function, RecursiveFunction):
        cls = RecursiveLearner
    elif isinstance(function, StreamFunction):
        cls = StreamLearner
    elif function.expansion.mode == "solve":
        cls = SecondOrderLearner
    learner: Learner = cls(objective, function, step_size, regularization, batch_size, automatic)
    return learner
