"""Streaming kernel machines: kernel accuracy in bounded memory.

>>> from mercer import KernelClassifier
>>> KernelClassifier(kernel="laplacian").kernel
'laplacian'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.answers.compact import compact
    from mercer.estimators import (
        DensityRatio,
        GaussianProcessRegressor,
        KernelClassifier,
        KernelGradient,
        KernelRanker,
        KernelRegressor,
        NoveltyDetector,
        ValueFunction,
    )
    from mercer.model_file import load_model
    from mercer.shared import SharedModel

__version__ = "0.1.0"
__all__ = [
    "DensityRatio",
    "GaussianProcessRegressor",
    "KernelClassifier",
    "KernelGradient",
    "KernelRanker",
    "KernelRegressor",
    "NoveltyDetector",
    "SharedModel",
    "ValueFunction",
    "compact",
    "load_model",
]
_HOMES = {
    "SharedModel": "mercer.shared",
    "compact": "mercer.answers.compact",
    "load_model": "mercer.model_file",
}


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import: only what is asked for pays it.
    if name not in __all__:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "mercer.estimators")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
