"""One compression step, whichever way the expansion keeps itself small.

The Python loop and the compiled row loop both end here, so that there is one place where
newcomers join a dictionary. The compiled loop has the step by its address: it is compiled once for
all kinds, and of these only what is used.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numba.core.types
import numpy as np
from numba.np.numpy_support import from_dtype

from mercer.jit import jit
from mercer.numerics.budget import (
    append,
    merge_smallest,
    overwrite_oldest,
    quantise,
    remove_smallest,
)
from mercer.numerics.komp import DONE, komp_step
from mercer.numerics.state import Dictionary, Limits, Newcomers
from mercer.numerics.triangular import triangular_step
from mercer.pointers import machine_code, pointer_call

_t: Any = numba.core.types  # numba is only partly typed

# How a dictionary is kept small.
PLAIN, RING, INVERSE, TRIANGULAR, REMOVE, MERGE, QUANTISE = range(7)


class Compressor(NamedTuple):
    """Which compression runs, and its constants."""

    kind: int  # one of the names above
    inverse_width: float  # MERGE: 1 / (2 length_scale²) of the Gaussian kernel
    conditioning_limit: float  # INVERSE: largest k(d, d) P_jj that is still trusted
    squared_radius: float = 0.0  # QUANTISE: of a point, within which newcomers add to it
    code: int = 0  # address of the step in compiled code, from with_code


@jit()
def needs_rows(kind: int) -> bool:
    """Whether a compression reads the kernels of the newcomers with the dictionary."""
    return bool(kind in (INVERSE, TRIANGULAR, QUANTISE))


@jit()
def worst_conditioning(dictionary: Dictionary, size: int) -> float:
    """Return the largest k(d, d) / (squared distance of d to the span of the others)."""
    worst = 0.0
    for j in range(size):
        worst = max(worst, dictionary.inverse[j, j] * dictionary.self_kernel[j])
    return worst


# -- one function for each kind, compiled when it is first used ------------------------------------


@jit()
def _inverse(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, squared_error, status = komp_step(blas, dictionary, size, new, limits)
    return size, oldest, np.sqrt(squared_error), status


@jit()
def _triangular(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, squared_error = triangular_step(dictionary, size, new, limits)
    return size, oldest, np.sqrt(squared_error), DONE


@jit()
def _ring(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, oldest, error = overwrite_oldest(
        dictionary, size, new, limits.max_size, oldest, limits.n_criterion
    )
    return size, oldest, error, DONE


@jit()
def _quantise(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size, error = quantise(
        dictionary, size, new, compressor.squared_radius, limits.max_size, limits.n_criterion
    )
    return size, oldest, error, DONE


@jit()
def _plain(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    return append(dictionary, size, new), oldest, 0.0, DONE


@jit()
def _remove(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size = append(dictionary, size, new)
    size, error = remove_smallest(dictionary, size, limits.max_size, limits.n_criterion)
    return size, oldest, error, DONE


@jit()
def _merge(blas, compressor, dictionary, size, oldest, new, limits):  # type: ignore[no-untyped-def]
    size = append(dictionary, size, new)
    size, error = merge_smallest(
        dictionary, size, limits.max_size, compressor.inverse_width, limits.n_criterion
    )
    return size, oldest, error, DONE


_FUNCTIONS: dict[int, Any] = {
    PLAIN: _plain,
    RING: _ring,
    INVERSE: _inverse,
    TRIANGULAR: _triangular,
    REMOVE: _remove,
    MERGE: _merge,
    QUANTISE: _quantise,
}


def compress(
    blas: tuple[int, int],
    compressor: Compressor,
    dictionary: Dictionary,
    size: int,
    oldest: int,
    new: Newcomers,
    limits: Limits,
) -> tuple[int, int, float, int]:
    """Let newcomers join the dictionary and bring it back within its limits.

    Parameters
    ----------
    blas : tuple of int
        Result of :func:`mercer.numerics.blas.blas_addresses`.
    compressor : Compressor
        What to do.
    dictionary : Dictionary
        Changed in place.
    size, oldest : int
        Points in use; slot of the oldest one (``RING`` only).
    new : Newcomers
        Points to add; ``rows`` are read if :func:`needs_rows` requires them.
    limits : Limits
        How far the compression may go.

    Returns
    -------
    size, oldest : int
        The same, after the step.
    error : float
        RKHS distance between the function before and after the compression: exact for
        ``INVERSE`` and ``TRIANGULAR``, an upper bound for the others.
    status : int
        ``DONE``, ``BREAKDOWN`` or ``UNFINISHED``, see :func:`mercer.numerics.komp.komp_step`.
    """
    function = _FUNCTIONS[compressor.kind]
    changed: tuple[int, int, float, int]
    changed = function(blas, compressor, dictionary, size, oldest, new, limits)
    return changed


def with_code(compressor: Compressor, dtype: np.dtype[Any]) -> Compressor:
    """Add the address of what :func:`compress` does on points of ``dtype``, for compiled loops.

    The address depends on the kind, which may change while learning, and is invalid in another
    process: ask for it at each call of a loop.
    """
    return compressor._replace(code=_address(compressor.kind, dtype))


@functools.cache
def _address(kind: int, dtype: np.dtype[Any]) -> int:
    return machine_code(_FUNCTIONS[kind], _arguments(dtype))


@functools.cache
def _arguments(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Types of the arguments of :func:`compress` in compiled code."""
    array, points = _t.Array, from_dtype(dtype)
    matrix, numbers = array(points, 2, "C"), array(_t.float64, 1, "C")
    weights, flags = array(_t.float64, 2, "C"), array(_t.boolean, 1, "C")
    dictionary = matrix, numbers, weights, matrix, array(_t.int64, 1, "C"), flags
    return (
        _t.UniTuple(_t.int64, 2),
        _t.NamedTuple((_t.int64, *3 * [_t.float64], _t.int64), Compressor),
        _t.NamedTuple(dictionary, Dictionary),
        _t.int64,
        _t.int64,
        _t.NamedTuple((matrix, matrix, matrix, weights, flags), Newcomers),
        _t.NamedTuple((_t.float64, _t.int64, _t.float64, _t.int64, _t.int64), Limits),
    )


# ``call_compress(address, arguments)``: :func:`compress` in compiled loops, which are the same for
# all kinds.
call_compress = pointer_call(
    _t.Tuple((_t.int64, _t.int64, _t.float64, _t.int64)),
    lambda: [_arguments(np.dtype(name)) for name in ("f", "d")],
)
