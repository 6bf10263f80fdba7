"""Streaming kernel machines: kernel accuracy in bounded memory.

>>> from mercer import KernelClassifier
>>> KernelClassifier(kernel="laplacian").kernel
'laplacian'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.estimators import (
        DensityRatio,
        GaussianProcessRegressor,
        KernelClassifier,
        KernelRanker,
        KernelRegressor,
        NoveltyDetector,
        ValueFunction,
    )
    from mercer.model_file import load_model

__version__ = "0.1.0"
__all__ = [
    "DensityRatio",
    "GaussianProcessRegressor",
    "KernelClassifier",
    "KernelRanker",
    "KernelRegressor",
    "NoveltyDetector",
    "ValueFunction",
    "load_model",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import: only what is asked for pays it.
    if name not in __all__:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    import mercer.estimators as estimators  # the classes that model files may name
    import mercer.model_file as model_file

    return model_file.load_model if name == "load_model" else getattr(estimators, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
