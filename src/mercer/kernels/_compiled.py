"""Rows of kernel values as C functions, for compiled loops that know a kernel by its address.

Every row function fills ``out[i] = k(points[i], x)`` for ``n`` points of ``d`` features stored row
after row. It is defined next to its kernel, and a test compares it with the kernel's array formula.
Functions are compiled on first use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import DTypeLike, NDArray

from mercer.jit import c_function, jit
from mercer.pointers import call_pointer

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}


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
    return c_function(signature, cache=cache, **_OPTIONS)(row)


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
@jit(nogil=True)
def _fill_rows(address, arrays, sizes, lower):  # type: ignore[no-untyped-def]
    x, z, out, parameters = arrays
    n, m, d, size = sizes
    for i in range(n):
        count = i + 1 if lower else m
        row = (z, x + i * d * size, out + i * m * size, parameters, np.int64(count), np.int64(d))
        call_pointer(address, row)
