"""Streaming kernel machines: kernel accuracy in bounded memory.

>>> from mercer import KernelClassifier
>>> KernelClassifier(kernel="laplacian").kernel
'laplacian'
"""

from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.model_file import load_model

__version__ = "0.1.0"
__all__ = ["KernelClassifier", "KernelRegressor", "load_model"]
