"""Kernels: similarity functions whose feature space the learners work in.

A kernel is a small parameter object and a function: ``kernel(X, Z)`` is the matrix of its values.
Kernels add, multiply and scale; a name or a function of one's own becomes one by
:func:`as_kernel`.
"""

from mercer.kernels._base import Kernel
from mercer.kernels._compiled import CompiledKernel
from mercer.kernels._names import as_kernel
from mercer.kernels.additive import ChiSquared, Hellinger, Intersection, JensenShannon
from mercer.kernels.bias import Bias
from mercer.kernels.composite import Product, Scaled, Sum
from mercer.kernels.custom import FunctionKernel
from mercer.kernels.dot import ArcCosine, Linear, Polynomial
from mercer.kernels.mapped import Mapped
from mercer.kernels.pairs import PairKernel, as_pair_kernel
from mercer.kernels.partitioned import Partitioned
from mercer.kernels.semigroup import ExponentialSemigroup, ReciprocalSemigroup
from mercer.kernels.series import DotProduct
from mercer.kernels.skewed import SkewedChiSquared, SkewedIntersection
from mercer.kernels.stationary import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic

__all__ = [
    "ArcCosine",
    "Bias",
    "Cauchy",
    "ChiSquared",
    "CompiledKernel",
    "DotProduct",
    "ExponentialSemigroup",
    "FunctionKernel",
    "Gaussian",
    "Hellinger",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "Laplacian",
    "Linear",
    "Mapped",
    "Matern",
    "PairKernel",
    "Partitioned",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "ReciprocalSemigroup",
    "Scaled",
    "SkewedChiSquared",
    "SkewedIntersection",
    "Sum",
    "as_kernel",
    "as_pair_kernel",
]
