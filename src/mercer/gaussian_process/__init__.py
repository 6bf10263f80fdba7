"""Gaussian-process posteriors on random features: exact for a fixed set, or by descent.

Three ways to the posterior of DSG, eq. (9): the exact one of a Bayesian linear model on M features
(:class:`FeaturePosterior`), block coordinate descent (:class:`Cyclic`) and the paper's doubly
stochastic gradients (:class:`Faithful`).
"""

from mercer.gaussian_process._blocks import FeatureBlocks
from mercer.gaussian_process._features import FeaturePosterior
from mercer.gaussian_process._methods import Cyclic, Faithful, Method, Operator, as_method
from mercer.gaussian_process._rows import DescentPosterior

__all__ = [
    "Cyclic",
    "DescentPosterior",
    "Faithful",
    "FeatureBlocks",
    "FeaturePosterior",
    "Method",
    "Operator",
    "as_method",
]
