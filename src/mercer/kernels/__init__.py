"""Kernels: similarity functions whose feature space the learners work in.

A kernel is a small parameter object and a function: ``kernel(X, Z)`` is the matrix of its values.
Kernels can be added, multiplied and scaled. :func:`as_kernel` turns a name or a function of yours
into a kernel.
"""

from mercer.kernels.convolutional import Convolutional
from mercer.kernels.dot import ArcCosine, Bias, DotProduct, Linear, Polynomial
from mercer.kernels.frequencies import cosines
from mercer.kernels.half_line import (
    ChiSquared,
    ExponentialSemigroup,
    Hellinger,
    Intersection,
    JensenShannon,
    ReciprocalSemigroup,
    SkewedChiSquared,
    SkewedIntersection,
)
from mercer.kernels.kernel import CompiledKernel, Kernel, Mapped, Product, Scaled, Sum
from mercer.kernels.names import FunctionKernel, as_kernel
from mercer.kernels.pairs import FunctionPairKernel, PairKernel, as_pair_kernel
from mercer.kernels.partitioned import Partitioned
from mercer.kernels.stationary import (
    Cauchy,
    DistanceKernel,
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
)

__all__ = [
    "ArcCosine",
    "Bias",
    "Cauchy",
    "ChiSquared",
    "CompiledKernel",
    "Convolutional",
    "DistanceKernel",
    "DotProduct",
    "ExponentialSemigroup",
    "FunctionKernel",
    "FunctionPairKernel",
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
    "cosines",
]
