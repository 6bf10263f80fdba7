"""From what a user may write for a kernel, a name or a function, to the kernel itself."""

from __future__ import annotations

import difflib
from typing import Any

from mercer.exceptions import Advice, InPython, ParameterError
from mercer.kernels.custom import FunctionKernel
from mercer.kernels.dot import ArcCosine, DotProduct, Linear, Polynomial
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
from mercer.kernels.kernel import Kernel
from mercer.kernels.stationary import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic

__all__ = ["as_kernel"]

_NAMES: dict[str, type[Kernel]] = {
    "arc_cosine": ArcCosine,
    "auto": Gaussian,
    "cauchy": Cauchy,
    "chi_squared": ChiSquared,
    "dot_product": DotProduct,
    "exponential_semigroup": ExponentialSemigroup,
    "gaussian": Gaussian,
    "hellinger": Hellinger,
    "intersection": Intersection,
    "jensen_shannon": JensenShannon,
    "laplacian": Laplacian,
    "linear": Linear,
    "matern": Matern,
    "polynomial": Polynomial,
    "rational_quadratic": RationalQuadratic,
    "reciprocal_semigroup": ReciprocalSemigroup,
    "skewed_chi_squared": SkewedChiSquared,
    "skewed_intersection": SkewedIntersection,
}

# At the whole median distance the constant dominates the kernel's spectrum, and first-order steps
# crawl: on seven data sets half of it lowered the error on six (docs/benchmarks.md, defaults).
_SCALE = {"length_scale": "half-median"}

# What other libraries call them, for the error message only: here each has one name.
_ELSEWHERE = {
    "additive_chi2": "chi_squared",
    "bhattacharyya": "hellinger",
    "chi2": "chi_squared",
    "histogram_intersection": "intersection",
    "poly": "polynomial",
    "rbf": "gaussian",
    "skewed_chi2": "skewed_chi_squared",
    "squared_exponential": "gaussian",
}


def as_kernel(value: Any) -> Kernel:
    """Turn a kernel, the name of one, or a function into a kernel.

    Parameters
    ----------
    value : Kernel, str or callable
        A kernel is returned as it is. A name gives that kernel with its default parameters,
        but a length scale of half the median distance, which learns faster than the whole:
        "arc_cosine", "cauchy", "chi_squared", "dot_product", "exponential_semigroup",
        "gaussian", "hellinger", "intersection", "jensen_shannon", "laplacian", "linear",
        "matern", "polynomial", "rational_quadratic", "reciprocal_semigroup",
        "skewed_chi_squared" or "skewed_intersection". A function becomes a
        :class:`FunctionKernel`.

    Returns
    -------
    kernel : Kernel
        The kernel.

    Raises
    ------
    ValueError
        If ``value`` is none of these.

    Examples
    --------
    >>> from mercer.kernels import as_kernel
    >>> as_kernel("laplacian")
    Laplacian(length_scale='half-median')
    """
    if isinstance(value, Kernel):
        return value
    if isinstance(value, str) and value in _NAMES:
        kernel = _NAMES[value]()
        return kernel.set_params(**_SCALE) if "length_scale" in kernel.get_params() else kernel
    if isinstance(value, type) and issubclass(value, Kernel):
        raise ValueError(
            f"`kernel` must be a kernel, got the class {value.__name__} itself. Write "
            f"{value.__name__}() with its parameters in the brackets."
        )
    if callable(value):
        return FunctionKernel(value)
    hint = ""
    if isinstance(value, str):
        lowered = value.lower()
        near = _ELSEWHERE.get(lowered) or next(iter(difflib.get_close_matches(lowered, _NAMES)), "")
        hint = f"Did you mean {near!r}?" if near else ""
    raise ParameterError(
        Advice(
            "`kernel` must be ",
            InPython("a kernel object, a function of two arrays, or "),
            f"one of {', '.join(map(repr, _NAMES))}, got {value!r}.",
        ),
        parameter="kernel",
        value=value,
        mend=hint,
    )
