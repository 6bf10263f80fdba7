"""Symmetric BLAS updates on the leading block of a larger array, callable from compiled code.

SciPy's Python wrappers copy a matrix that is a window of a larger one, and the inverse Gram
matrix is exactly that: the first ``size`` rows and columns of an array with spare capacity. So
compiled code calls the BLAS through its address with an explicit leading dimension.

Symmetric matrices live in their **lower triangle** (C order); the upper one is never read. What
is row-major and lower here is column-major and upper to the BLAS, hence the ``"U"`` below.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba.core.types
import numpy as np
from llvmlite import ir
from numba.extending import get_cython_function_address, intrinsic
from numpy.typing import DTypeLike, NDArray

from mercer.jit import jit

# Numba's type stubs do not know intrinsics and the ways of its type objects.
types: Any = numba.core.types
_intrinsic: Any = intrinsic

# Below this many multiply-adds a plain loop beats the fixed cost of a BLAS call.
_SMALL = 4096
# Fewer right-hand sides than a BLAS routine is worth, which packs the whole matrix first.
_FEW_ROWS = 3

_LEFT, _UPPER, _NO_TRANSPOSE = np.uint8(ord("L")), np.uint8(ord("U")), np.uint8(ord("N"))


@_intrinsic
def _call_fortran(typing_context: Any, address: Any, arguments: Any) -> Any:
    """Call the Fortran routine at ``address``: ``uintp`` are pointers, the rest are spilled."""
    signature = types.void(types.int64, arguments)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address_value, packed = values
        word = ir.IntType(64)
        passed = []
        for position, kind in enumerate(arguments):
            value = builder.extract_value(packed, position)
            if kind != types.uintp:
                # Fortran takes everything by reference; the stack slot outlives the call.
                slot = builder.alloca(value.type)
                builder.store(value, slot)
                value = builder.ptrtoint(slot, word)
            passed.append(value)
        routine = ir.FunctionType(ir.VoidType(), [word] * len(passed))
        builder.call(builder.inttoptr(address_value, routine.as_pointer()), passed)
        return context.get_dummy_value()

    return signature, codegen


@cache
def _addresses(letter: str) -> tuple[int, int]:
    module = "scipy.linalg.cython_blas"
    return (
        get_cython_function_address(module, f"{letter}symm"),
        get_cython_function_address(module, f"{letter}syrk"),
    )


def blas_addresses(dtype: DTypeLike) -> tuple[int, int]:
    """Addresses of ``symm`` and ``syrk`` for float32 or float64.

    Parameters
    ----------
    dtype : dtype
        float32 or float64.

    Returns
    -------
    addresses : tuple of int
        To be passed to the functions of this module.
    """
    return _addresses("s" if np.dtype(dtype) == np.float32 else "d")


@jit(fastmath={"reassoc", "contract"})
def _symmetric_times_vector(
    matrix: NDArray[np.floating], vector: NDArray[np.floating], out: NDArray[np.floating]
) -> None:
    n = vector.size
    for i in range(n):
        out[i] = 0.0
    for i in range(n):
        row, own = matrix[i], vector[i]
        total = own * row[i]
        for j in range(i):
            total += vector[j] * row[j]
            out[j] += own * row[j]
        out[i] += total


@jit()
def symmetric_product(
    blas: tuple[int, int],
    rows: NDArray[np.floating],
    matrix: NDArray[np.floating],
    out: NDArray[np.floating],
) -> None:
    """Write ``rows @ P`` to ``out``, P being the leading symmetric block of ``matrix``.

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`blas_addresses`, for the arrays' dtype.
    rows : ndarray of shape (n_rows, size)
        Left factor, C order.
    matrix : ndarray of shape (capacity, capacity)
        Symmetric in its leading (size, size) block; only the lower triangle is read.
    out : ndarray of shape (n_rows, size)
        Result, C order.
    """
    n_rows, size = rows.shape
    if n_rows == 0 or size == 0:
        return
    if n_rows <= _FEW_ROWS or n_rows * size * size <= _SMALL:
        for r in range(n_rows):
            _symmetric_times_vector(matrix, rows[r], out[r])
        return
    one = rows.dtype.type(1.0)
    order, columns = np.int32(size), np.int32(n_rows)
    stride = np.int32(matrix.shape[1])
    _call_fortran(
        blas[0],
        (
            _LEFT,  # the symmetric matrix stands on the left ...
            _UPPER,
            order,
            columns,
            one,
            matrix.ctypes.data,
            stride,
            rows.ctypes.data,  # ... of the rows, which are columns to the BLAS
            order,
            rows.dtype.type(0.0),
            out.ctypes.data,
            order,
        ),
    )


@jit()
def rank_update(
    blas: tuple[int, int],
    sign: float,
    rows: NDArray[np.floating],
    matrix: NDArray[np.floating],
) -> None:
    """Add ``sign * rows.T @ rows`` to the leading block of ``matrix`` (lower triangle).

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`blas_addresses`, for the arrays' dtype.
    sign : float
        Factor of the update, +1 or -1.
    rows : ndarray of shape (rank, size)
        The update, C order.
    matrix : ndarray of shape (capacity, capacity)
        Changed in place.
    """
    rank, size = rows.shape
    if rank == 0 or size == 0:
        return
    if rank == 1 or rank * size * size <= 4 * _SMALL:
        for r in range(rank):
            for i in range(size):
                factor = sign * rows[r, i]
                for j in range(i + 1):
                    matrix[i, j] += factor * rows[r, j]
        return
    _call_fortran(
        blas[1],
        (
            _UPPER,
            _NO_TRANSPOSE,
            np.int32(size),
            np.int32(rank),
            rows.dtype.type(sign),
            rows.ctypes.data,
            np.int32(size),
            rows.dtype.type(1.0),
            matrix.ctypes.data,
            np.int32(matrix.shape[1]),
        ),
    )


@jit(fastmath={"contract"})
def exchange_update(
    up: NDArray[np.floating], down: NDArray[np.floating], matrix: NDArray[np.floating]
) -> None:
    """Add ``outer(up, up) - outer(down, down)`` to the leading block (lower triangle), in one go.

    Parameters
    ----------
    up, down : ndarray of shape (size,)
        The vectors.
    matrix : ndarray of shape (capacity, capacity)
        Changed in place.
    """
    for i in range(up.size):
        row, a, b = matrix[i], up[i], down[i]
        for j in range(i + 1):
            row[j] += a * up[j] - b * down[j]
