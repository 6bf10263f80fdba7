"""Gaussian-process posteriors: exact for a fixed set of features or points, or by descent.

Four ways to the posterior of DSG, eq. (9): the exact one of a Bayesian linear model on M random
features (:class:`FeaturePosterior`), the same on M inducing points (:class:`InducingPoints`), block
coordinate descent (:class:`Cyclic`) and the paper's doubly stochastic gradients
(:class:`Faithful`).
"""

from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._descent import (
    Cyclic,
    DescentPosterior,
    Faithful,
    Method,
    Operator,
    as_method,
)
from mercer.gaussian_process._exact import DictionaryPosterior, FeaturePosterior, InducingPoints

__all__ = [
    "Cyclic",
    "DescentPosterior",
    "DictionaryPosterior",
    "Faithful",
    "FeatureBlocks",
    "FeaturePosterior",
    "InducingPoints",
    "Method",
    "Operator",
    "as_method",
]
