"""What is learned: kernel expansions, random features, dictionaries and bilinear functions.

An expansion (:mod:`mercer.expansions`) says how a function stays small and is parameters only; the
functions here have the numbers. :func:`start` makes the one from the other.
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
from mercer.functions._function import Function
from mercer.functions.bilinear_expansion import BilinearExpansion
from mercer.functions.bilinear_features import BilinearFeatures
from mercer.functions.bilinear_function import BilinearFunction
from mercer.functions.dictionary_function import DictionaryFunction
from mercer.functions.feature_expansion import FeatureExpansion
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
    """Return the function f = 0 that is kept small by an expansion.

    An expansion of your own that has a method ``start`` with the parameters from ``kernel`` on
    decides by it; all others start a
    :class:`FeatureExpansion` (random features), a :class:`DictionaryFunction` (a dictionary), a
    :class:`RecursiveFunction` (recursive least squares), a ``SumOfComponents`` (``Auto``) or a
    :class:`KernelExpansion`.

    Parameters
    ----------
    expansion : Expansion
        With its sizes filled in; see :meth:`mercer.expansions.Expansion.sized`.
    kernel : Kernel
        With its numbers resolved.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype, default=float64
        Type of points and kernel values; random features and dictionaries have a ``precision``
        that says it.
    averaging : float or None, default=None
        Exponent of the averaging weights, None for the last iterate.

    Raises
    ------
    ValueError
        If the kernel has no random features, or not of the design, where they are asked for.

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
    """Return the bilinear function B = 0 that is kept small by an expansion.

    Parameters
    ----------
    expansion : Expansion
        Random features, or what keeps a dictionary small.
    kernel : Kernel
        With its numbers resolved.
    n_features : int
        Number of inputs.
    dtype : dtype, default=float64
        Type of the points of a dictionary.
    averaging : None
        There is no averaging.

    Raises
    ------
    ValueError
        For what bilinear functions do not have; see the two classes.
    """
    if isinstance(expansion, RandomFeatures):
        return BilinearFeatures(kernel, expansion, n_features, averaging)
    return BilinearExpansion(kernel, expansion, n_features, dtype, averaging)
