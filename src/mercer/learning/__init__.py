"""Learners: they update a function by steps, or from sums over rows solved on demand.

One loop (``mercer.learning.loop``) takes steps for every objective: on kernel expansions, whose
points come from the stream, and on random features, where the change of a step is computed at all
rows at once. POLK is a pointwise loss with ``KOMP``; NORMA is the same with ``Full`` and
truncation; BSGD with ``Budget``; Ying & Zhou's Algorithm 1 with ``Full``, ``regularization=0`` and
``PowerDecay``; DSG is any objective with ``RandomFeatures``. Sums are for a fixed dictionary or a
fixed number of random features: quadratic objectives are solved by equations, others by Newton
steps. Recursive least squares solve equations row by row. (The learner of the default expansion is
in :mod:`mercer.default`.)
"""

from mercer.learning.feature_steps import FeatureLearner
from mercer.learning.kernel_steps import KernelLearner
from mercer.learning.learner import (
    Ask,
    Elsewhere,
    Layout,
    Learner,
    NewOutputs,
    Passes,
    Solved,
    StepLearner,
    StepRecord,
    StepsElsewhere,
)
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
    "RecursiveLearner",
    "SecondOrderLearner",
    "Solved",
    "StepLearner",
    "StepRecord",
    "StepsElsewhere",
    "automatic_step",
    "stable_steps",
    "steps_of_batch",
    "theorem_steps",
    "warn_if_off_centre",
]
