"""Symmetric matrices and their factors: LAPACK and BLAS by their addresses.

SciPy's wrappers of the same routines hold the interpreter's lock while they compute, so other
threads wait, and copy a matrix that is a window of a larger one. Here the routines are called by
their addresses, which SciPy provides for compiled code: the results are the same bit for bit, other
threads continue, and compiled code can call them too. Large sums of products and factors use the
BLAS calls of LAPACK's own routines, cut into tiles that are computed by one thread per job.

Matrices of Python's callers are in Fortran order, factors and packed matrices hold the **lower**
triangle. All have one precision, float32 or float64. What is only read is copied if it lies
otherwise in memory; what is changed in place has to lie so. The updates for compiled code
(:func:`symmetric_product`, :func:`rank_update`, :func:`exchange_update`) take the first ``size``
rows and columns of a C-ordered array with spare capacity, of which they too read the lower triangle
only: row-major and lower is column-major and upper to the BLAS.

A sum of products is positive semi-definite but for its rounding errors. Every factorisation tries
one jitter after the other and takes the first with which the matrix is positive definite; they
differ in where the jitters begin and in what is said when none is enough.
"""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numba.core.types
import numpy as np
from llvmlite import ir
from numba.extending import get_cython_function_address, intrinsic
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import blas, cython_blas, cython_lapack, lu_factor, lu_solve

from mercer.exceptions import ConditioningWarning
from mercer.jit import jit
from mercer.numerics.lanes import N_LANES, load, spread, store
from mercer.records import Record, Recorded, Triangle
from mercer.threads import in_order, tiles
from mercer.validation import real

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
    if n_columns == 1:  # LAPACK solves as if there were many, in three times the time
        for how in (_NOT, _TRANSPOSED):
            _call("trsv", lower.dtype, _LOWER, how, _NO_UNIT, n, lower, step, solution, 1)
        return solution
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


Array = NDArray[np.float64]

#: Of the mean of the diagonal, a power of ten: for sums of products in float64. Each attempt is
#: with ten times the last.
LEAST_JITTER = 1e-11
_ATTEMPTS = 11
_EPS = float(np.finfo(np.float64).eps)


def _first_factor(
    matrix: Callable[[float], Array], jitters: Iterable[float]
) -> tuple[Array, float] | None:
    """Lower Cholesky factor of the first positive definite matrix, and its jitter.

    Parameters
    ----------
    matrix : callable
        Jitter to a matrix in Fortran order, which is overwritten; its lower triangle is read.
    jitters : iterable of float
        Jitters to try, in rising order.
    """
    for jitter in jitters:
        lower = matrix(jitter)
        if cholesky(lower):
            return lower, jitter
    return None


@dataclass(frozen=True)
class RidgeFactor(Recorded):
    """Cholesky factor of a ridge regression's matrix.

    Attributes
    ----------
    lower : ndarray of shape (n_features, n_features)
        Lower factor, in Fortran order; above the diagonal is anything.
    jitter : float
        What was added to the diagonal.
    least_jitter : float
        Smallest jitter, relative to the mean of the diagonal of the sums.
    """

    lower: Array
    jitter: float
    least_jitter: float

    _record = Record(
        lower=Triangle("n_features"), jitter=real(low=0.0), least_jitter=real(low=0.0)
    ).where(
        "the factor of a ridge regression has a diagonal that is not above 0",
        lambda it: (np.diag(it["lower"]) > 0.0).all(),
    )

    def solve(self, right: Array) -> Array:
        """Solution for right-hand sides of shape (n_features, n_columns)."""
        return solve(self.lower, right)

    def whiten(self, columns: Array, *, transposed: bool = False) -> Array:
        """L⁻¹ (or L'⁻¹) times columns, (n_features, n_columns): squares add up to leverages."""
        return solve_triangle(self.lower, columns, transposed=transposed)


def factor_ridge(
    moments: Array,
    ridge: float,
    penalty: Array | None = None,
    least_jitter: float = LEAST_JITTER,
) -> RidgeFactor:
    """Factor moments + ridge * penalty + jitter * I.

    Parameters
    ----------
    moments : ndarray of shape (n_features, n_features)
        Symmetric and positive semi-definite up to rounding; the lower triangle is read.
    ridge : float
        Ridge parameter, at least 0.
    penalty : ndarray of shape (n_features, n_features), default=None
        Symmetric, in C order; None for the identity.
    least_jitter : float, default=1e-11
        The first one that is tried, a power of ten, in means of the diagonal of
        moments + ridge * penalty; as it is where that is 0, so that no rows and no ridge have a
        factor, too.

    Raises
    ------
    ValueError
        If no jitter makes the matrix positive definite.
    """
    n = max(len(moments), 1)
    penalized = 1.0 if penalty is None else float(np.trace(penalty)) / n
    size = float(np.trace(moments)) / n + ridge * penalized or 1.0

    def matrix(relative: float) -> Array:
        whole = np.empty(moments.shape, order="F")

        def fill(columns: slice) -> None:
            below = slice(columns.start, None), columns
            if penalty is None:
                whole[below] = moments[below]
            else:
                # Symmetric, so the transpose only declares Fortran order.
                np.multiply(penalty.T[below], ridge, out=whole[below])
                whole[below] += moments[below]

        in_order(fill, tiles(len(whole)))
        jitter = size * relative
        whole.ravel("K")[:: len(whole) + 1] += jitter + (ridge if penalty is None else 0.0)
        return whole

    # The same values wherever the attempts began.
    first = round(math.log10(least_jitter))
    found = _first_factor(matrix, (10.0 ** (first + attempt) for attempt in range(_ATTEMPTS)))
    if found is None:
        raise ValueError(
            f"The sums over the rows are no Gram matrix even with jitter (mean of the diagonal "
            f"{size:.3g}): the features have values that are not finite or out of all proportion. "
            "Rescale the inputs, for example with sklearn.preprocessing.StandardScaler."
        )
    lower, relative = found
    return RidgeFactor(lower, size * relative, relative)


def factor_noise(gram: Callable[[], Array], noise: float, n_rows: int) -> tuple[Array, float]:
    """Lower Cholesky factor of Z'WZ + noise I, and the noise: more only where rounding needs it.

    Parameters
    ----------
    gram : callable
        Recomputes Z'WZ, (n_features, n_features): in Fortran order, with its lower triangle, and
        zeros where the factor has zeros.
    noise : float
        Variance of the noise.
    n_rows : int
        Rows that were added up.

    Raises
    ------
    ValueError
        If no jitter makes the matrix positive definite.
    """

    def matrix(jitter: float) -> Array:
        whole = gram()
        np.einsum("ii->i", whole)[:] += noise + jitter
        return whole

    def rounding() -> float:
        return _EPS * float(np.trace(gram()))

    def jitters() -> Iterator[float]:
        yield 0.0
        least = rounding()
        yield from (least * 10.0**attempt for attempt in range(_ATTEMPTS))

    found = _first_factor(matrix, jitters())
    if found is None:
        raise ValueError(
            f"The sums over {n_rows} rows are no Gram matrix even with jitter: the features have "
            "values that are not finite or out of all proportion. Rescale the inputs, for example "
            "with sklearn.preprocessing.StandardScaler."
        )
    lower, jitter = found
    if jitter > 0.0:
        warnings.warn(
            f"`noise` = {noise:.3g} is below the rounding error of the sums over {n_rows} rows "
            f"(about {rounding():.3g}), so {jitter:.3g} was added to it. The posterior is that "
            "of the larger noise; give a `noise` of at least that much.",
            ConditioningWarning,
            stacklevel=2,
        )
    return lower, noise + jitter


def covariance_of(Z: NDArray[np.floating], weights: Array | None = None) -> Array:
    """Return Z' W Z / n in double precision, its lower triangle.

    The product is made in the precision of the features, which is twice as fast in single: its
    rounding, about 1e-7 of the largest eigenvalue, is below the ridges in use.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features, float32 or float64, C-ordered.
    weights : ndarray of shape (n,), default=None
        Weights of the rows; None means 1.
    """
    scaled = Z if weights is None else Z * np.sqrt(weights).astype(Z.dtype)[:, np.newaxis]
    product = blas.ssyrk if Z.dtype == np.float32 else blas.dsyrk
    # Fortran order without a copy: the transpose of a C-ordered array.
    covariance: Array = product(1.0 / len(Z), scaled.T, lower=1).astype(np.float64, copy=False)
    return covariance


def solve_ridge(covariance: Array, ridge: float, right: Array) -> Array:
    """Solve (covariance + ridge I) x = right, with more ridge if rounding needs it.

    Parameters
    ----------
    covariance : ndarray of shape (m, m)
        Only its lower triangle is read.
    ridge : float
        Added to the diagonal.
    right : ndarray of shape (m, k)
        Right sides.

    Returns
    -------
    solution : ndarray of shape (m, k)
        NaN if the covariance is not finite.
    """
    least = _EPS * float(np.einsum("ii->i", covariance).sum())

    def matrix(ridge: float) -> Array:
        whole = covariance.copy(order="F")
        np.einsum("ii->i", whole)[:] += ridge
        return whole

    def ridges() -> Iterator[float]:
        rising = ridge
        while np.isfinite(rising):
            yield rising
            rising = max(10.0 * rising, least)

    found = _first_factor(matrix, ridges())
    if found is None:
        return np.full_like(right, np.nan)
    return solve(found[0], right)


def solve_square(matrix: Array, right: Array, size: float) -> Array:
    """Solve a system that need not be symmetric, with a little jitter.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        The matrix; its diagonal is changed.
    right : ndarray of shape (m,)
        Right side.
    size : float
        Unit of the jitter, at least 0.
    """
    matrix[np.diag_indices(len(matrix))] += LEAST_JITTER * size or 1.0
    solution: Array = lu_solve(lu_factor(matrix), right)
    return solution


# Numba's type stubs do not know intrinsics and the ways of its type objects.
types: Any = numba.core.types
_intrinsic: Any = intrinsic

# Below this many multiply-adds a plain loop beats the fixed cost of a BLAS call.
_SMALL = 4096
# Fewer right-hand sides than a BLAS routine is worth, which packs the whole matrix first.
_FEW_ROWS = 3

_LEFT_SIDE, _UPPER_HALF, _NO_TRANSPOSE = np.uint8(ord("L")), np.uint8(ord("U")), np.uint8(ord("N"))
_LOWER_HALF = _LEFT_SIDE  # the same letter


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
        To be passed to :func:`symmetric_product`, :func:`column_products`, :func:`rank_update`,
        :func:`exchange_update`.
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
            _LEFT_SIDE,  # the symmetric matrix stands on the left ...
            _UPPER_HALF,
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
            _UPPER_HALF,
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


@jit()
def column_products(
    blas: tuple[int, int], rows: NDArray[np.floating], matrix: NDArray[np.floating]
) -> None:
    """Write ``rows.T @ rows`` to ``matrix``, on and above the diagonal.

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`blas_addresses`, for the arrays' dtype.
    rows : ndarray of shape (n_rows, size)
        In C order.
    matrix : ndarray of shape (size, size)
        Result, C order.
    """
    n_rows, size = rows.shape
    if not size:
        return
    _call_fortran(
        blas[1],
        (
            _LOWER_HALF,  # row-major and above is column-major and below
            _NO_TRANSPOSE,
            np.int32(size),
            np.int32(n_rows),
            rows.dtype.type(1.0),
            rows.ctypes.data,
            np.int32(size),
            rows.dtype.type(0.0),
            matrix.ctypes.data,
            np.int32(size),
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


# -- products row by row ---------------------------------------------------------------------------
# BLAS rounds a row otherwise alone than beside others.

#: Columns, or points, that are computed together; and rows that meet them while they are in cache,
#: for an even number of terms at a time.
GROUP, ROWS, _COLUMNS = 4 * N_LANES, 16, 96

_jit = jit(nogil=True, error_model="numpy")
_inline = jit(nogil=True, error_model="numpy", forceinline=True)


class Multiplication:
    """Products (x - shift) @ matrix of rows x, with the same bits for a row in each batch.

    Parameters
    ----------
    shift : ndarray of shape (n_columns,)
        What is subtracted from rows.
    matrix : ndarray of shape (n_columns, n_outputs)
        The matrix.

    Examples
    --------
    >>> Multiplication(np.array([0.0, 1.0]), np.array([[1.0], [2.0]]))(np.array([[3.0, 5.0]]))
    array([[11.]])
    """

    def __init__(self, shift: Floats, matrix: Floats) -> None:
        n_columns, self._n_outputs = matrix.shape
        self._shift = np.array(shift)  # compiled for one type of array
        n_groups = -(-self._n_outputs // GROUP)
        packed = aligned((n_groups, n_columns + n_columns % 2, GROUP))
        fill_groups(packed[:, :n_columns], matrix.T)
        self._packed = packed.ravel()

    def __call__(self, X: Floats) -> Floats:
        """Return the products with C-ordered rows, (n_rows, n_outputs)."""
        values = np.empty((len(X), self._n_outputs))
        X = X if X.flags.writeable else X.copy()  # compiled for one type of array
        _multiply(X, self._shift, self._packed, values)
        return values


def aligned(shape: tuple[int, ...]) -> Floats:
    """Return zeros that begin where a line of the cache does: half as many lines are read."""
    size = int(np.prod(shape))
    room = np.zeros(size + N_LANES)
    start = -room.ctypes.data // room.itemsize % N_LANES
    return room[start : start + size].reshape(shape)


def fill_groups(groups: Floats, rows: Floats) -> None:
    """Write rows to groups, (n_groups, n_columns, 32)."""
    n_groups, n_columns, size = groups.shape
    padded = np.zeros((n_groups * size, n_columns))
    padded[: len(rows)] = rows
    groups[:] = padded.reshape(n_groups, size, n_columns).swapaxes(1, 2)


@_inline
def keep(found, row, a, b, c, d):  # type: ignore[no-untyped-def]
    """Write the numbers of a row for a group of columns, or points."""
    at = row * GROUP
    store(found, at, a)
    store(found, at + 8, b)
    store(found, at + 16, c)
    store(found, at + 24, d)


@_inline
def four(values, at):  # type: ignore[no-untyped-def]
    """Return the numbers of a row, or of a column of points, for a group."""
    return load(values, at), load(values, at + 8), load(values, at + 16), load(values, at + 24)


@_inline
def products(rows, n, points, start, n_columns, found):  # type: ignore[no-untyped-def]
    """Inner products of rows with the points of a group; the number of columns is even."""
    for first in range(0, n_columns, _COLUMNS):
        last = min(first + _COLUMNS, n_columns)
        for row in range(0, n - 1, 2):  # two rows meet what is loaded
            a = b = c = d = e = f = g = h = spread(0.0)
            p = q = r = s = t = u = v = w = spread(0.0)
            for column in range(first, last, 2):
                x, own = rows[row, column], rows[row + 1, column]
                i, j, k, m = four(points, start + column * GROUP)
                a, b, c, d = a + i * x, b + j * x, c + k * x, d + m * x
                p, q, r, s = p + i * own, q + j * own, r + k * own, s + m * own
                x, own = rows[row, column + 1], rows[row + 1, column + 1]
                i, j, k, m = four(points, start + column * GROUP + GROUP)
                e, f, g, h = e + i * x, f + j * x, g + k * x, h + m * x
                t, u, v, w = t + i * own, u + j * own, v + k * own, w + m * own
            a, b, c, d = a + e, b + f, c + g, d + h
            p, q, r, s = p + t, q + u, r + v, s + w
            if first > 0:
                i, j, k, m = four(found, row * GROUP)
                a, b, c, d = a + i, b + j, c + k, d + m
                i, j, k, m = four(found, row * GROUP + GROUP)
                p, q, r, s = p + i, q + j, r + k, s + m
            keep(found, row, a, b, c, d)
            keep(found, row + 1, p, q, r, s)
        for row in range(n - n % 2, n):
            a = b = c = d = spread(0.0)
            e = f = g = h = spread(0.0)  # twice as many sums, since additions wait for each other
            for k in range(first, last, 2):
                x, y, at = rows[row, k], rows[row, k + 1], start + k * GROUP
                a, b = a + load(points, at) * x, b + load(points, at + 8) * x
                c, d = c + load(points, at + 16) * x, d + load(points, at + 24) * x
                e, f = e + load(points, at + 32) * y, f + load(points, at + 40) * y
                g, h = g + load(points, at + 48) * y, h + load(points, at + 56) * y
            a, b, c, d = a + e, b + f, c + g, d + h
            if first > 0:
                at = row * GROUP
                a, b = a + load(found, at), b + load(found, at + 8)
                c, d = c + load(found, at + 16), d + load(found, at + 24)
            keep(found, row, a, b, c, d)


@_jit
def _multiply(X, shift, packed, values):  # type: ignore[no-untyped-def]
    """Write the products of rows and a matrix."""
    n_columns, n_outputs = X.shape[1], values.shape[1]
    width = n_columns + n_columns % 2
    rows, found = np.zeros((ROWS, width)), np.empty(ROWS * GROUP)
    for start in range(0, len(X), ROWS):
        n = min(ROWS, len(X) - start)
        for row in range(n):
            for k in range(n_columns):
                rows[row, k] = X[start + row, k] - shift[k]
        for first in range(0, n_outputs, GROUP):
            products(rows, n, packed, first * width, width, found)
            for row in range(n):
                for k in range(first, min(first + GROUP, n_outputs)):
                    values[start + row, k] = found[row * GROUP + k - first]
