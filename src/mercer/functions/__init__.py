"""Functions that are learned: kernel expansions, random features, dictionaries and others.

An expansion (:mod:`mercer.expansions`) holds only the parameters of how a function stays small; the
functions here hold the numbers. :func:`start` creates a function from an expansion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mercer.expansions import (
    Auto,
    Dictionary,
    Expansion,
    RandomFeatures,
    RecursiveLeastSquares,
)
from mercer.functions.bilinear import BilinearExpansion, BilinearFeatures, BilinearFunction
from mercer.functions.dictionary_function import DictionaryFunction
from mercer.functions.feature_expansion import FeatureExpansion
from mercer.functions.function import Function
from mercer.functions.kernel_expansion import KernelExpansion
from mercer.functions.recursive_function import RecursiveFunction
from mercer.functions.sum_of_components import FittedPart, SumOfComponents
from mercer.kernels import Kernel

__all__ = [
    "BilinearExpansion",
    "BilinearFeatures",
    "BilinearFunction",
    "DictionaryFunction",
    "FeatureExpansion",
    "FittedPart",
    "Function",
    "KernelExpansion",
    "RecursiveFunction",
    "SumOfComponents",
    "start",
    "start_bilinear",
]


def start(
    expansion: Expansion,
    kernel: Kernel,
    n_features: int,
    n_outputs: int,
    dtype: DTypeLike = np.float64,
    averaging: float | None = None,
) -> Any:
    """Return the function f = 0 that an expansion keeps small.

    If the expansion has a method ``start`` with the parameters from ``kernel`` on, it creates the
    function. Otherwise the function is a :class:`FeatureExpansion` (random features), a
    :class:`DictionaryFunction` (a dictionary), a :class:`RecursiveFunction` (recursive least
    squares), a ``SumOfComponents`` (``Auto``) or a :class:`KernelExpansion`.

    Parameters
    ----------
    expansion : Expansion
        Expansion with its sizes resolved; see :meth:`mercer.expansions.Expansion.sized`.
    kernel : Kernel
        Kernel with its numbers resolved.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype, default=float64
        Type of points and kernel values; random features and dictionaries use their ``precision``
        instead.
    averaging : float or None, default=None
        Exponent of the averaging weights, None for the last iterate.

    Raises
    ------
    ValueError
        If random features are asked for, and the kernel has none, or none of this design.

    Examples
    --------
    >>> from mercer.expansions import KOMP
    >>> from mercer.kernels import Gaussian
    >>> f = start(KOMP(), Gaussian(1.0), n_features=1, n_outputs=1)
    >>> type(f).__name__, f.size
    ('KernelExpansion', 0)
    """
    own = getattr(expansion, "start", None)
    if own is not None:
        return own(kernel, n_features, n_outputs, dtype, averaging)
    match expansion:
        case Auto():
            return SumOfComponents(kernel, expansion, n_features, n_outputs, dtype)
        case RandomFeatures():
            return FeatureExpansion(kernel, expansion, n_features, n_outputs, averaging)
        case Dictionary():
            return DictionaryFunction(kernel, expansion, n_features, n_outputs, averaging)
        case RecursiveLeastSquares():
            return RecursiveFunction(kernel, expansion, n_features, n_outputs, averaging)
    return KernelExpansion(kernel, expansion, n_features, n_outputs, dtype, averaging)


def start_bilinear(
    expansion: Expansion,
    kernel: Kernel,
    n_features: int,
    dtype: DTypeLike = np.float64,
    averaging: float | None = None,
) -> BilinearExpansion | BilinearFeatures:
    """Return the bilinear function B = 0 that an expansion keeps small.

    Parameters
    ----------
    expansion : Expansion
        Random features, or an expansion that keeps a dictionary small.
    kernel : Kernel
        Kernel with its numbers resolved.
    n_features : int
        Number of inputs.
    dtype : dtype, default=float64
        Type of the points of a dictionary.
    averaging : None
        Not supported.

    Raises
    ------
    ValueError
        For options that bilinear functions do not support; see the two classes.
    """
    if isinstance(expansion, RandomFeatures):
        return BilinearFeatures(kernel, expansion, n_features, averaging)
    return BilinearExpansion(kernel, expansion, n_features, dtype, averaging)
