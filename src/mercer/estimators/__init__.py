"""Estimators: they check, keep the books and delegate."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mercer.model_file import storable_in

if TYPE_CHECKING:
    from mercer.answers.explain import Dependence, Explanation
    from mercer.estimators.classifier import KernelClassifier
    from mercer.estimators.density_ratio import DensityRatio, TwoSampleTest
    from mercer.estimators.fitting import Progress
    from mercer.estimators.gaussian_process import GaussianProcessRegressor
    from mercer.estimators.gradient import KernelGradient
    from mercer.estimators.novelty import NoveltyDetector
    from mercer.estimators.ranker import KernelRanker
    from mercer.estimators.regressor import KernelRegressor
    from mercer.estimators.value_function import ValueFunction

__all__ = [
    "DensityRatio",
    "Dependence",
    "Explanation",
    "GaussianProcessRegressor",
    "KernelClassifier",
    "KernelGradient",
    "KernelRanker",
    "KernelRegressor",
    "NoveltyDetector",
    "Progress",
    "TwoSampleTest",
    "ValueFunction",
]

_STORABLE = {
    "DensityRatio": "mercer.estimators.density_ratio",
    "GaussianProcessRegressor": "mercer.estimators.gaussian_process",
    "KernelClassifier": "mercer.estimators.classifier",
    "KernelGradient": "mercer.estimators.gradient",
    "KernelRanker": "mercer.estimators.ranker",
    "KernelRegressor": "mercer.estimators.regressor",
    "NoveltyDetector": "mercer.estimators.novelty",
    "ValueFunction": "mercer.estimators.value_function",
}
_HOMES = _STORABLE | {
    "Dependence": "mercer.answers.explain",
    "Explanation": "mercer.answers.explain",
    "Progress": "mercer.estimators.fitting",
    "TwoSampleTest": "mercer.estimators.density_ratio",
}

storable_in(_STORABLE)


def __getattr__(name: str) -> Any:
    # One estimator need not import what the others need.
    if name not in _HOMES:
        raise AttributeError(f"module 'mercer.estimators' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
