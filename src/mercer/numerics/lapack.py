r"""Routines of LAPACK for symmetric matrices and their factors, called without Python's lock.

SciPy's wrappers of the same routines hold the interpreter's lock while they compute, so other
threads wait. Here the routines are called by their addresses, which SciPy provides for compiled
code: the results are the same bit for bit, and other threads continue. Large sums of products and
factors use the BLAS calls of LAPACK's own routines, cut into tiles that are computed by one thread
per job.

Matrices are in Fortran order, factors and packed matrices hold the **lower** triangle. All have
one precision, float32 or float64. What is only read is copied if it lies otherwise in memory; what
is changed in place has to lie so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

from mercer.threads import in_order, tiles

Floats = NDArray[Any]  # float32 or float64

_NOT, _LOWER, _TRANSPOSED, _NO_UNIT = (ctypes.c_char(letter) for letter in (b"N", b"L", b"T", b"N"))
_UPPER, _LEFT, _RIGHT = (ctypes.c_char(letter) for letter in (b"U", b"L", b"R"))

# Columns of a factor in double precision that are made at a time, as in OpenBLAS, and up to how
# many are made in one go; and multiplications that are not worth another thread.
_PANEL, _ONE_GO = 256, 1024
_FEW = 2**27
# Solves with few right-hand sides and many rows: reading the factor takes most of the time, and
# several threads read it faster. The last number is the columns and rows of the factor read at a
# time.
_MOST_COLUMNS, _MANY_ROWS, _BLOCK = 64, 2048, 512


@cache
def _routine(name: str, dtype: np.dtype[Any]) -> Any:
    """Give the routine for a precision, which takes everything by reference."""
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"LAPACK knows float32 and float64 here, got {dtype}.")
    known = {**cython_blas.__pyx_capi__, **cython_lapack.__pyx_capi__}
    capsule = known[("s" if dtype == np.float32 else "d") + name]
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
    """Replace a matrix by its lower Cholesky factor, in place; the upper triangle is not changed.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        In Fortran order; its lower triangle is read.

    Returns
    -------
    found : bool
        False if the matrix is not positive definite.
    """
    n, dtype = len(_checked(matrix)), matrix.dtype
    width = _PANEL if n > _ONE_GO and dtype == np.float64 else max(n, 1)
    for start in range(0, n, width):
        end, failed = min(start + width, n), ctypes.c_int()
        _call("potrf", dtype, _LOWER, end - start, matrix[start:, start:], n, failed)
        if failed.value:
            return False
        if end < n:
            below = tiles(n - end)
            in_order(partial(_solve_below, matrix, start, end), below)
            in_order(partial(_take_from_rest, matrix, start, end), below)
    return True


def _solve_below(matrix: Floats, start: int, end: int, tile: slice) -> None:
    """Complete some rows of a factor's panel, the triangle of which is known."""
    one, n, n_rows = _scalar(1.0, matrix.dtype), len(matrix), tile.stop - tile.start
    which = _RIGHT, _LOWER, _TRANSPOSED, _NO_UNIT
    rows, triangle = matrix[end + tile.start :, start:], matrix[start:, start:]
    _call("trsm", matrix.dtype, *which, n_rows, end - start, one, triangle, n, rows, n)


def _take_from_rest(matrix: Floats, start: int, end: int, tile: slice) -> None:
    """Subtract a panel's products from some columns of what is still to be factored."""
    one, minus = _scalar(1.0, matrix.dtype), _scalar(-1.0, matrix.dtype)
    n, first, last, depth = len(matrix), end + tile.start, end + tile.stop, end - start
    own, below = matrix[first:, start:], matrix[last:, start:]
    square, rest = matrix[first:, first:], matrix[last:, first:]
    size = last - first, depth
    _call("syrk", matrix.dtype, _LOWER, _NOT, *size, minus, own, n, one, square, n)
    factors = minus, below, n, own, n
    _call("gemm", matrix.dtype, _NOT, _TRANSPOSED, n - last, *size, *factors, one, rest, n)


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
    if n > _MANY_ROWS and n_columns <= _MOST_COLUMNS:
        _substitute(lower, solution.reshape(n, n_columns, order="F"))
        return solution
    step = max(n, 1)
    _call("potrs", lower.dtype, _LOWER, n, n_columns, lower, step, solution, step, ctypes.c_int())
    return solution


def _substitute(lower: Floats, solution: Floats) -> None:
    """Solve L L' x = b in place, by blocks, most of which are products of several threads."""
    n = len(solution)
    starts = range(0, n, _BLOCK)
    for start in starts:
        end = min(start + _BLOCK, n)
        _solve_block(lower, solution, start, end, _NOT)
        below = tiles(n - end, _BLOCK) if end < n else []
        rows = [slice(end + some.start, end + some.stop) for some in below]
        in_order(partial(_take_block, lower, solution, start, end, _NOT), rows)
    for start in reversed(starts):
        end = min(start + _BLOCK, n)
        _solve_block(lower, solution, start, end, _TRANSPOSED)
        rows = tiles(start, _BLOCK) if start else []
        in_order(partial(_take_block, lower, solution, start, end, _TRANSPOSED), rows)


def _solve_block(lower: Floats, solution: Floats, start: int, end: int, how: Any) -> None:
    """Solve for some rows, from which all others that they depend on were taken."""
    n, n_columns, one = *solution.shape, _scalar(1.0, lower.dtype)
    which = _LEFT, _LOWER, how, _NO_UNIT, end - start, n_columns
    _call("trsm", lower.dtype, *which, one, lower[start:, start:], n, solution[start:], n)


def _take_block(
    lower: Floats, solution: Floats, start: int, end: int, how: Any, rows: slice
) -> None:
    """Take what is known, rows ``start`` to ``end``, from rows that depend on it."""
    n, n_columns = solution.shape
    one, minus = _scalar(1.0, lower.dtype), _scalar(-1.0, lower.dtype)
    factors = lower[rows, start:] if how is _NOT else lower[start:, rows]
    size = rows.stop - rows.start, n_columns, end - start
    both = minus, factors, n, solution[start:], n
    _call("gemm", lower.dtype, how, _NOT, *size, *both, one, solution[rows], n)


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
    """Replace a lower triangle by its inverse, in place; the upper triangle is not changed.

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
        Whether to add to the present content; otherwise it is overwritten.
    """
    Z = np.ascontiguousarray(Z, _checked(packed).dtype)
    n_rows, n = Z.shape
    one, old = _scalar(1.0, Z.dtype), _scalar(float(keep), Z.dtype)
    half, is_even = n - n // 2, 1 - n % 2
    step = n + is_even
    # As in LAPACK's sfrk: two triangles, one of them upside down, and the block between them.
    window, second = packed.reshape(step, -1, order="F"), Z[:, half:]

    def triangle(which: ctypes.c_char, some: Floats, sums: Floats) -> None:
        size = some.shape[1], n_rows
        _call("syrk", Z.dtype, which, _NOT, *size, one, some, max(n, 1), old, sums, step)

    def between(some: slice) -> None:
        size, sums = (n - half, some.stop - some.start, n_rows), window[half + is_even :, some]
        both = second, max(n, 1), Z[:, some], max(n, 1)
        _call("gemm", Z.dtype, _NOT, _TRANSPOSED, *size, one, *both, old, sums, step)

    pieces: list[Callable[[], None]] = [partial(between, some) for some in tiles(half)]
    pieces.append(partial(triangle, _LOWER, Z[:, :half], window[is_even:]))
    pieces.append(partial(triangle, _UPPER, second, window[:, n % 2 :]))
    if n_rows * n**2 > _FEW:
        in_order(lambda piece: piece(), pieces)
    else:
        for piece in pieces:
            piece()


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
