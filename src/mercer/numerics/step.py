"""One compression step, whichever way the expansion keeps itself small.

The Python loop and the compiled row loop both end here, so that there is one place where
newcomers join a dictionary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._jit import jit
from mercer.numerics.budget import (
    append,
    merge_smallest,
    overwrite_oldest,
    quantise,
    remove_smallest,
)
from mercer.numerics.komp import BREAKDOWN, DONE, UNFINISHED, komp_step
from mercer.numerics.state import Dictionary, Limits, Newcomers
from mercer.numerics.triangular import triangular_step

__all__ = [
    "BREAKDOWN", "DONE", "INVERSE", "MERGE", "PLAIN", "QUANTISE", "REMOVE", "RING", "TRIANGULAR",
    "UNFINISHED",
    "Compressor", "compress", "needs_rows", "worst_conditioning",
]  # fmt: skip

# How a dictionary is kept small.
PLAIN, RING, INVERSE, TRIANGULAR, REMOVE, MERGE, QUANTISE = range(7)


class Compressor(NamedTuple):
    """Which compression runs, and its constants."""

    kind: int  # one of the names above
    inverse_width: float  # MERGE: 1 / (2 length_scale²) of the Gaussian kernel
    conditioning_limit: float  # INVERSE: largest k(d, d) P_jj that is still trusted
    squared_radius: float = 0.0  # QUANTISE: of a point, within which newcomers add to it


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


@jit()
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
        From :func:`mercer.numerics.blas.blas_addresses`.
    compressor : Compressor
        What to do.
    dictionary : Dictionary
        Changed in place.
    size, oldest : int
        Points in use; slot of the oldest one (``RING`` only).
    new : Newcomers
        Points to add; ``rows`` are read where :func:`needs_rows` says so.
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
    if compressor.kind == INVERSE:
        size, squared_error, status = komp_step(blas, dictionary, size, new, limits)
        return size, oldest, np.sqrt(squared_error), status
    if compressor.kind == TRIANGULAR:
        size, squared_error = triangular_step(dictionary, size, new, limits)
        return size, oldest, np.sqrt(squared_error), DONE
    if compressor.kind == RING:
        size, oldest, error = overwrite_oldest(
            dictionary, size, new, limits.max_size, oldest, limits.n_criterion
        )
        return size, oldest, error, DONE
    if compressor.kind == QUANTISE:
        size, error = quantise(
            dictionary, size, new, compressor.squared_radius, limits.max_size, limits.n_criterion
        )
        return size, oldest, error, DONE
    size = append(dictionary, size, new)
    error = 0.0
    if compressor.kind == REMOVE:
        size, error = remove_smallest(dictionary, size, limits.max_size, limits.n_criterion)
    elif compressor.kind == MERGE:
        size, error = merge_smallest(
            dictionary, size, limits.max_size, compressor.inverse_width, limits.n_criterion
        )
    return size, oldest, error, DONE
