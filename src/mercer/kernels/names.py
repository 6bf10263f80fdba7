"""Turn a name or a function given by the user into a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]
from numba.extending import is_jitted

from mercer.exceptions import Advice, InPython, ParameterError
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
from mercer.kernels.kernel import FloatArray, Kernel, RowFunction
from mercer.kernels.stationary import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic
from mercer.validation import choice, name_among, nearest, or_none, parameters, positive

_BLOCK = 16  # rows per block for the diagonal of a function of whole matrices

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

# Names of the same kernels in other libraries (docs/guide/names.md lists them).
_ALIASES = {
    "additive_chi2": "chi_squared",
    "arccos": "arc_cosine",
    "bhattacharyya": "hellinger",
    "gauss": "gaussian",
    "histogram_intersection": "intersection",
    "laplace": "laplacian",
    "poly": "polynomial",
    "rationalquadratic": "rational_quadratic",
    "rbf": "gaussian",
    "rq": "rational_quadratic",
    "skewed_chi2": "skewed_chi_squared",
    "squared_exponential": "gaussian",
}

# Names of kernels that do not exist here, and the nearest ones that do: for error messages.
_NEXT_TO = {
    "chi2": "chi_squared",
    "cosine": "linear",
    "cosine_similarity": "linear",
    "exponential": "matern",
    "periodic": "gaussian",
    "precomputed": "gaussian",
    "sigmoid": "arc_cosine",
    "tanh": "arc_cosine",
}
_WHY_NOT = {
    "chi2": "scikit-learn's is the exponential of the additive one, which is here.",
    "cosine": "It is the linear kernel of rows of length 1: put a Normalizer before the model.",
    "exponential": "It is Matern(nu=0.5), or Laplacian() for city-block distances.",
    "periodic": "Give the sine and the cosine of the phase as columns to the Gaussian one.",
    "precomputed": "Models keep rows and evaluate the kernel themselves: pass a function of rows.",
    "sigmoid": "It is not positive semi-definite; the kernel of a wide neural network is here.",
}
_WHY_NOT |= {"cosine_similarity": _WHY_NOT["cosine"], "tanh": _WHY_NOT["sigmoid"]}


def _check_function(name: str, value: Any) -> None:
    if not callable(value):
        raise ValueError(f"`{name}` must be a function of two arrays or two points, got {value!r}.")


@functools.cache
def _point_row(function: Callable[..., Any]) -> RowFunction:
    """Row function of a user's jitted ``function(x, z) -> float`` of two points."""

    def row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
        rows = carray(points, (n, d))
        point = carray(x, (d,))
        for i in range(n):
            out[i] = function(rows[i], point)

    # The code of a user's function is not kept: numba could not find it again.
    return RowFunction(row, (), cache=False)


@functools.cache
def _point_matrix(function: Callable[..., Any]) -> Callable[..., None]:
    """Jitted filler of ``out[i, j] = function(X[i], Z[j])`` for a jitted function of two points."""

    def matrix(X, Z, out):  # type: ignore[no-untyped-def]
        for i in range(len(X)):
            for j in range(len(Z)):
                out[i, j] = function(X[i], Z[j])

    jitted: Callable[..., None] = njit(nogil=True)(matrix)
    return jitted


class FunctionKernel(Kernel):
    """A kernel from a function, which has to be symmetric and positive semi-definite.

    Parameters
    ----------
    function : callable
        Either ``function(X, Z)`` of arrays of shapes (n_rows_X, n_features) and (n_rows_Z,
        n_features), which returns the kernel matrix (n_rows_X, n_rows_Z); or ``function(x, z)`` of
        two points of shape (n_features,), which returns a number. With ``numba.njit`` the latter is
        fast, and runs inside compiled loops.
    pairwise : bool or None, default=None
        Whether the function is one of two points. None means yes if it is compiled by numba, no
        otherwise.
    bound : float or None, default=None
        Upper bound of k(x, x) over all x, if known: learners derive a safe step size from it.

    Raises
    ------
    ValueError
        If ``function`` cannot be called or ``bound`` is not positive; on evaluation, if the
        function returns an array of a wrong shape.

    Notes
    -----
    A model file holds data only and so no function: a model with this kernel can be pickled, if
    the function can, but not saved.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import njit
    >>> from mercer.kernels import FunctionKernel
    >>> FunctionKernel(lambda X, Z: np.minimum(X, Z.T))([[1.0], [2.0]])
    array([[1., 1.],
           [1., 2.]])
    >>> @njit
    ... def brownian(x, z):
    ...     return min(x[0], z[0])
    >>> FunctionKernel(brownian)([[1.0], [2.0]])
    array([[1., 1.],
           [1., 2.]])
    """

    # A constructor parameter here: a plain attribute replaces the property of the base class.
    bound: float | None = None

    _parameters = parameters(
        function=_check_function,
        pairwise=choice(True, False, None),
        bound=or_none(positive("It bounds k(x, x). Use None if you know no bound.")),
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        pairwise: bool | None = None,
        bound: float | None = None,
    ) -> None:
        self.function = function
        self.pairwise = pairwise
        self.bound = bound
        self._check()

    @property
    def _is_pairwise(self) -> bool:
        return is_jitted(self.function) if self.pairwise is None else self.pairwise

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        if not self._is_pairwise:
            values = self.function(X, Z)
            try:
                K = np.array(values, dtype=X.dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"`function` must return numbers: {error}.") from error
            if K.shape != (len(X), len(Z)):
                raise ValueError(
                    f"`function` must return one value for each pair of rows, of the shape "
                    f"{(len(X), len(Z))}, got {K.shape}. If it takes two single points, say "
                    "pairwise=True."
                )
            return K
        K = np.empty((len(X), len(Z)), dtype=X.dtype)
        if is_jitted(self.function):
            _point_matrix(self.function)(X, Z, K)
        else:
            for i, x in enumerate(X):
                for j, z in enumerate(Z):
                    K[i, j] = self.function(x, z)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        values = np.empty(len(X), dtype=X.dtype)
        if self._is_pairwise:
            for i, x in enumerate(X):
                values[i] = self.function(x, x)
            return values
        for start in range(0, len(X), _BLOCK):
            rows = X[start : start + _BLOCK]
            values[start : start + _BLOCK] = self._gram(rows, rows).diagonal()
        return values

    def _row(self) -> RowFunction | None:
        if not (is_jitted(self.function) and self._is_pairwise):
            return None
        return _point_row(self.function)


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
        "skewed_chi_squared" or "skewed_intersection". Usual names of other libraries, such as
        "rbf" and "poly", are understood. A function becomes a :class:`FunctionKernel`.

    Returns
    -------
    kernel : Kernel
        The kernel.

    Raises
    ------
    ValueError
        If ``value`` is of another kind.

    Examples
    --------
    >>> from mercer.kernels import as_kernel
    >>> as_kernel("laplacian")
    Laplacian(length_scale='half-median')
    >>> as_kernel("rbf")
    Gaussian(length_scale='half-median')
    """
    if isinstance(value, Kernel):
        return value
    name = name_among(value, _NAMES, _ALIASES)
    if name is not None:
        kernel = _NAMES[name]()
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
        hint = nearest(value, _NAMES, _ALIASES | _NEXT_TO).lstrip()
        other = name_among(value, _WHY_NOT, {})
        hint = f"{_WHY_NOT[other]} {hint}" if other else hint
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
