"""Estimators: they check, keep the books and delegate."""

from mercer.estimators._progress import Progress
from mercer.estimators._two_sample import TwoSampleTest
from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.density_ratio import DensityRatio
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.ranker import KernelRanker
from mercer.estimators.regressor import KernelRegressor
from mercer.estimators.table import TableModel
from mercer.estimators.value_function import ValueFunction

__all__ = [
    "DensityRatio",
    "GaussianProcessRegressor",
    "KernelClassifier",
    "KernelRanker",
    "KernelRegressor",
    "NoveltyDetector",
    "Progress",
    "TableModel",
    "TwoSampleTest",
    "ValueFunction",
]
