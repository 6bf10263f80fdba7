r"""Routines of LAPACK for symmetric matrices and their factors, called without Python's lock.

SciPy's wrappers of the same routines hold the interpreter's lock while they compute, so that other
threads wait. Here the routines are called by their addresses, which SciPy gives to compiled code:
the numbers are the same to the bit, and other threads go on.

Matrices are in Fortran order, factors and packed matrices hold the **lower** triangle. All have
one precision, float32 or float64. What is only read is copied if it lies otherwise in memory; what
is changed in place has to lie so.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

__all__ = ["add_products", "cholesky", "invert", "pack", "solve", "solve_triangle", "unpack"]

Floats = NDArray[Any]  # float32 or float64

_NOT, _LOWER, _TRANSPOSED, _NO_UNIT = (ctypes.c_char(letter) for letter in (b"N", b"L", b"T", b"N"))


@cache
def _routine(name: str, dtype: np.dtype[Any]) -> Any:
    """Give the routine for a precision, which takes everything by reference."""
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"LAPACK knows float32 and float64 here, got {dtype}.")
    capsule = cython_lapack.__pyx_capi__[("s" if dtype == np.float32 else "d") + name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer_of(capsule, name_of(capsule))
    # Unlike `ctypes.PYFUNCTYPE`, this type lets go of the interpreter's lock.
    return ctypes.CFUNCTYPE(None)(address)


def _call(name: str, dtype: np.dtype[Any], *arguments: Any) -> None:
    """Call a routine with letters, integers, scalars (ctypes) and arrays."""
    _routine(name, dtype)(
        *(
            ctypes.c_void_p(each.ctypes.data)
            if isinstance(each, np.ndarray)
            else ctypes.byref(ctypes.c_int(each) if isinstance(each, int) else each)
            for each in arguments
        )
    )


def _scalar(value: float, dtype: np.dtype[Any]) -> Any:
    return ctypes.c_float(value) if dtype == np.float32 else ctypes.c_double(value)


def _checked(matrix: Floats) -> Floats:
    """Give a matrix that is changed in place, if LAPACK can do that."""
    if not (matrix.flags.f_contiguous and matrix.flags.writeable):
        raise ValueError("Only what is writeable, and in Fortran order, is changed in place.")
    return matrix


def _own(right: Floats, dtype: np.dtype[Any]) -> tuple[Floats, int]:
    """Copy right-hand sides, one or several, in Fortran order; and how many they are."""
    solution = np.array(right, dtype, order="F")
    return solution, 1 if solution.ndim == 1 else solution.shape[1]


def cholesky(matrix: Floats) -> bool:
    """Replace a matrix by its lower Cholesky factor, in place; what is above it stays as it is.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        In Fortran order; its lower triangle is read.

    Returns
    -------
    found : bool
        False if the matrix is not positive definite.
    """
    n, failed = len(_checked(matrix)), ctypes.c_int()
    _call("potrf", matrix.dtype, _LOWER, n, matrix, max(n, 1), failed)
    return failed.value == 0


def solve(lower: Floats, right: Floats) -> Floats:
    """Solve L L' x = b by a factor from :func:`cholesky`.

    Parameters
    ----------
    lower : ndarray of shape (n, n)
        The factor L.
    right : ndarray of shape (n,) or (n, n_columns)
        Right-hand sides b.
    """
    lower, n = np.asfortranarray(lower), len(lower)
    solution, n_columns = _own(right, lower.dtype)
    step = max(n, 1)
    _call("potrs", lower.dtype, _LOWER, n, n_columns, lower, step, solution, step, ctypes.c_int())
    return solution


def solve_triangle(lower: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """Solve L x = b, or L' x = b.

    Parameters
    ----------
    lower : ndarray of shape (n, n)
        The triangle L, without zeros on its diagonal.
    right : ndarray of shape (n,) or (n, n_columns)
        Right-hand sides b.
    transposed : bool, default=False
        Whether it is L' that is solved with.
    """
    lower, n = np.asfortranarray(lower), len(lower)
    solution, n_columns = _own(right, lower.dtype)
    step = max(n, 1)
    which = _TRANSPOSED if transposed else _NOT
    sizes = (n, n_columns, lower, step, solution, step, ctypes.c_int())
    _call("trtrs", lower.dtype, _LOWER, which, _NO_UNIT, *sizes)
    return solution


def invert(lower: Floats) -> None:
    """Replace a lower triangle by its inverse, in place; what is above it stays as it is.

    Parameters
    ----------
    lower : ndarray of shape (n, n)
        In Fortran order, without zeros on its diagonal.
    """
    n = len(_checked(lower))
    _call("trtri", lower.dtype, _LOWER, _NO_UNIT, n, lower, max(n, 1), ctypes.c_int())


def add_products(Z: Floats, packed: Floats, *, keep: bool = True) -> None:
    """Add Z'Z to a packed matrix, in place.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n)
        In C order.
    packed : ndarray of shape (n * (n + 1) // 2,)
        As from :func:`pack`.
    keep : bool, default=True
        Whether to add; else what was there is written over, whatever it is.
    """
    Z = np.ascontiguousarray(Z, _checked(packed).dtype)
    n_rows, n = Z.shape
    one, old = _scalar(1.0, Z.dtype), _scalar(float(keep), Z.dtype)
    _call("sfrk", Z.dtype, _NOT, _LOWER, _NOT, n, n_rows, one, Z, max(n, 1), old, packed)


def pack(matrix: Floats) -> Floats:
    """Lower triangle of a matrix in the rectangular full packed format, (n * (n + 1) // 2,).

    It takes half of the memory of the matrix and is computed with as quickly.
    """
    matrix = np.asfortranarray(matrix)
    n = len(matrix)
    packed = np.empty(n * (n + 1) // 2, matrix.dtype)
    _call("trttf", matrix.dtype, _NOT, _LOWER, n, matrix, max(n, 1), packed, ctypes.c_int())
    return packed


def unpack(packed: Floats, n: int) -> Floats:
    """Matrix in Fortran order whose lower triangle was packed, with zeros above it, (n, n)."""
    packed = np.ascontiguousarray(packed)
    matrix = np.zeros((n, n), packed.dtype, order="F")
    _call("tfttr", packed.dtype, _NOT, _LOWER, n, packed, matrix, max(n, 1), ctypes.c_int())
    return matrix
