"""What is learned: kernel expansions, random features, dictionaries and bilinear functions.

An expansion (:mod:`mercer.expansions`) says how a function stays small and is parameters only; the
functions here have the numbers. :func:`start` makes the one from the other.
"""

from mercer.functions._function import Function
from mercer.functions._start import start, start_bilinear
from mercer.functions._start import start_known as start_known
from mercer.functions.bilinear_expansion import BilinearExpansion
from mercer.functions.bilinear_features import BilinearFeatures
from mercer.functions.bilinear_function import BilinearFunction
from mercer.functions.dictionary_function import DictionaryFunction
from mercer.functions.feature_expansion import FeatureExpansion
from mercer.functions.kernel_expansion import KernelExpansion

__all__ = [
    "BilinearExpansion",
    "BilinearFeatures",
    "BilinearFunction",
    "DictionaryFunction",
    "FeatureExpansion",
    "Function",
    "KernelExpansion",
    "start",
    "start_bilinear",
]
