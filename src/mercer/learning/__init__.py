"""How a function is learned: by steps, or by sums over rows that are solved when somebody asks.

By steps, every objective is learned by one loop (``mercer.learning.loop``): on kernel
expansions, whose points come from the stream, and on random features, where what a step adds is
known at all rows at once. POLK is a pointwise loss with ``KOMP``; NORMA the same with ``Full`` and
truncation; BSGD with ``Budget``; Ying & Zhou's Algorithm 1 with ``Full``, ``regularization=0`` and
``PowerDecay``; DSG any objective with ``RandomFeatures``. By sums, on a fixed dictionary or a fixed
number of random features: equations are solved where the objective is quadratic, Newton steps are
made where it is not. Recursive least squares solve equations row by row. (The sums of the default
are in :mod:`mercer.default`.)
"""

from mercer.learning.elsewhere import Ask, Elsewhere, Layout, Solved, StepsElsewhere
from mercer.learning.feature_steps import FeatureLearner
from mercer.learning.kernel_steps import KernelLearner
from mercer.learning.learner import Learner, NewOutputs, Passes, Record, StepLearner
from mercer.learning.recursive import RecursiveLearner
from mercer.learning.step_sizes import (
    AutomaticStep,
    CarefulSteps,
    FeatureSteps,
    FirstRows,
    automatic_step,
    stable_steps,
    steps_of_batch,
    theorem_steps,
    warn_if_off_centre,
)
from mercer.learning.sums import SecondOrderLearner

__all__ = [
    "Ask",
    "AutomaticStep",
    "CarefulSteps",
    "Elsewhere",
    "FeatureLearner",
    "FeatureSteps",
    "FirstRows",
    "KernelLearner",
    "Layout",
    "Learner",
    "NewOutputs",
    "Passes",
    "Record",
    "RecursiveLearner",
    "SecondOrderLearner",
    "Solved",
    "StepLearner",
    "StepsElsewhere",
    "automatic_step",
    "stable_steps",
    "steps_of_batch",
    "theorem_steps",
    "warn_if_off_centre",
]
