"""Rows of kernel values as C functions, for compiled loops that know a kernel by its address.

Every function here fills ``out[i] = k(points[i], x)`` for ``n`` points of ``d`` features stored row
after row. They are the twins of the kernels' array formulas, which a test compares with them.
Nothing is compiled before it is asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numpy.typing import DTypeLike, NDArray

from mercer._pointers import call_pointer

__all__ = [
    "FAR",
    "CompiledKernel",
    "RowFunction",
    "compile_row",
    "gram_by_rows",
    "point_matrix",
    "point_row",
]

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}

# exp(-FAR) is 0 in both precisions, and so are its products with polynomials in FAR: scaled
# distances are cut here, because infinity times 0 would be NaN.
FAR = 1e4


class CompiledKernel(NamedTuple):
    """A kernel with its numbers, as compiled code.

    Attributes
    ----------
    address : int
        Address of the C function ``void row(T *points, T *x, T *out, double *parameters,
        int64_t n, int64_t d)`` with ``out[i] = k(points[i], x)``; ``points`` has shape (n, d), row
        after row. It stays valid for the life of the process.
    parameters : ndarray of shape (n_parameters,), float64
        What to pass as ``parameters``.
    """

    address: int
    parameters: NDArray[np.float64]


class RowFunction(NamedTuple):
    """A row function before it is compiled.

    Attributes
    ----------
    function : callable
        Python function of the arguments of the C function, in the language of numba.
    parameters : tuple of float
        Its parameters.
    cache : bool
        Whether its compiled code is kept on disk.
    """

    function: Callable[..., None]
    parameters: tuple[float, ...]
    cache: bool = True


def compile_row(row: RowFunction, dtype: DTypeLike) -> CompiledKernel:
    """Compile a row function for points of ``dtype``, float32 or float64."""
    compiled = _compile(row.function, np.dtype(dtype).char, row.cache)
    return CompiledKernel(compiled.address, np.array(row.parameters, dtype=np.float64))


@functools.cache  # also keeps the compiled code alive: a caller holds no more than its address
def _compile(row: Callable[..., None], char: str, cache: bool) -> Any:
    pointer: Any = types.CPointer
    points = pointer({"f": types.float32, "d": types.float64}[char])
    parameters = pointer(types.float64)
    signature = types.void(points, points, points, parameters, types.int64, types.int64)
    return cfunc(signature, cache=cache, **_OPTIONS)(row)


def gram_by_rows(code: CompiledKernel, X: NDArray[Any], Z: NDArray[Any]) -> NDArray[Any]:
    """Kernel matrix by compiled rows, for kernels whose one formula is their row function.

    Parameters
    ----------
    code : CompiledKernel
        The kernel, compiled for the dtype of the points.
    X : ndarray of shape (n_rows_X, n_features)
        Points, C-ordered, float32 or float64.
    Z : ndarray of shape (n_rows_Z, n_features)
        Points of the same dtype; if it is ``X`` itself, half of the matrix is computed and the
        result is exactly symmetric.

    Returns
    -------
    K : ndarray of shape (n_rows_X, n_rows_Z)
        Kernel values.
    """
    K = np.zeros((len(X), len(Z)), dtype=X.dtype)
    arrays = tuple(array.ctypes.data for array in (X, Z, K, code.parameters))
    _fill_rows(code.address, arrays, (len(X), len(Z), X.shape[1], X.itemsize), Z is X)
    if Z is X:
        K += np.tril(K, -1).T
    return K


# Addresses instead of arrays: compiled once, for either precision and for read-only arrays.
@njit("void(int64,UniTuple(int64,4),UniTuple(int64,4),bool_)", cache=True, nogil=True)
def _fill_rows(address, arrays, sizes, lower):  # type: ignore[no-untyped-def]
    x, z, out, parameters = arrays
    n, m, d, size = sizes
    for i in range(n):
        count = i + 1 if lower else m
        row = (z, x + i * d * size, out + i * m * size, parameters, np.int64(count), np.int64(d))
        call_pointer(address, row)


# In all of them `out[i] = 0` and `s = out[i]` give a sum of the dtype of the data: the literal 0.0
# is of double precision and would halve the width of the float32 loop.


def squared_exponential(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] |x - x'|^2)."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        out[i] = math.exp(-parameters[0] * s)


def cityblock_exponential(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill exp(-parameters[0] |x - x'|_1)."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            s += abs(points[i * d + j] - x[j])
        out[i] = math.exp(-parameters[0] * s)


def half_integer_matern(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the Matérn kernel: a = parameters[0] |x - x'|, nu = parameters[1] in {.5, 1.5, 2.5}."""
    nu = parameters[1]
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        a = parameters[0] * math.sqrt(s)
        if a > FAR:
            a = FAR
        value = math.exp(-a)
        if nu == 1.5:
            value *= 1.0 + a
        elif nu == 2.5:
            value *= 1.0 + a + a * a / 3.0
        out[i] = value


def rational_quadratic(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill (1 + parameters[0] |x - x'|^2)^(-parameters[1])."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            t = points[i * d + j] - x[j]
            s += t * t
        out[i] = math.exp(-parameters[1] * math.log1p(parameters[0] * s))


def cauchy(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the product over features of 1 / (1 + (parameters[0] (x_j - x'_j))^2)."""
    for i in range(n):
        out[i] = parameters[0]
        inverse_scale = out[i]
        out[i] = 1.0
        one = out[i]
        s = one
        for j in range(d):
            t = (points[i * d + j] - x[j]) * inverse_scale
            s *= one + t * t
        out[i] = one / s


def polynomial(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill (parameters[0] <x, x'> + parameters[1])^parameters[2]."""
    for i in range(n):
        out[i] = 0.0
        s = out[i]
        for j in range(d):
            s += points[i * d + j] * x[j]
        base = parameters[0] * s + parameters[1]
        value = 1.0
        for _ in range(int(parameters[2])):
            value *= base
        out[i] = value


def arc_cosine(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
    """Fill the arc-cosine kernel of order parameters[0]; sums are of double precision."""
    order = parameters[0]
    x2 = 0.0
    for j in range(d):
        x2 += x[j] * x[j]
    for i in range(n):
        s = 0.0
        z2 = 0.0
        for j in range(d):
            s += points[i * d + j] * x[j]
            z2 += points[i * d + j] * points[i * d + j]
        norms = math.sqrt(x2) * math.sqrt(z2)
        if norms == 0.0:
            out[i] = 0.0
            continue
        cosine = s / norms
        # Kahan's half-angle formula near 0 and pi: the arc cosine would lose half the digits.
        if abs(cosine) < 0.999:
            angle = math.acos(cosine)
        else:
            sign = 1.0 if cosine > 0.0 else -1.0
            s = 0.0
            for j in range(d):
                t = points[i * d + j] / math.sqrt(z2) - sign * (x[j] / math.sqrt(x2))
                s += t * t
            angle = 2.0 * math.asin(0.5 * math.sqrt(s))
            if sign < 0.0:
                angle = math.pi - angle
        sine, cosine, rest = math.sin(angle), math.cos(angle), math.pi - angle
        if order == 0.0:
            out[i] = rest / math.pi
        elif order == 1.0:
            out[i] = norms * (sine + rest * cosine) / math.pi
        else:
            value = 3.0 * sine * cosine + rest * (1.0 + 2.0 * cosine * cosine)
            out[i] = norms * norms * value / math.pi


@functools.cache
def point_row(function: Callable[..., Any]) -> RowFunction:
    """Row function of a user's jitted ``function(x, z) -> float`` of two points."""

    def row(points, x, out, parameters, n, d):  # type: ignore[no-untyped-def]
        rows = carray(points, (n, d))
        point = carray(x, (d,))
        for i in range(n):
            out[i] = function(rows[i], point)

    # The code of a user's function is not kept: numba could not find it again.
    return RowFunction(row, (), cache=False)


@functools.cache
def point_matrix(function: Callable[..., Any]) -> Callable[..., None]:
    """Jitted filler of ``out[i, j] = function(X[i], Z[j])`` for a jitted function of two points."""

    def matrix(X, Z, out):  # type: ignore[no-untyped-def]
        for i in range(len(X)):
            for j in range(len(Z)):
                out[i, j] = function(X[i], Z[j])

    jitted: Callable[..., None] = njit(nogil=True)(matrix)
    return jitted
