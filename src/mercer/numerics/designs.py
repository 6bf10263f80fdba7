"""What designs of frequencies need: points of a Sobol sequence, fast Hadamard transforms."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit

#: Dimensions that there are direction numbers for.
MOST_DIMENSIONS = 21201

_BITS = 32


@lru_cache(maxsize=8)
def _directions(n_dimensions: int) -> NDArray[np.uint32]:
    """Direction numbers, shape (n_dimensions, 32): column j belongs to the bit j of the number."""
    from scipy.stats import qmc  # takes longer to import than all of the kernels

    # SciPy's sequence can only be walked through; its table gives any point at once.
    table = qmc.Sobol(n_dimensions, scramble=False, bits=_BITS)._sv
    directions: NDArray[np.uint32] = np.asarray(table).astype(np.uint32)
    return directions


def sobol_uniforms(first: int, n_points: int, shift: NDArray[np.uint32]) -> NDArray[np.float64]:
    r"""Consecutive points of a sequence that fills the unit cube evenly, shifted digit by digit.

    Each point alone is uniform if the shift is; together they are far more even than independent
    ones. Points are in the order of their numbers (not in Gray code's, as SciPy has them), so each
    aligned run of :math:`2^j` points fills the cube.

    Parameters
    ----------
    first : int
        Number of the first point; numbers count modulo 2**32.
    n_points : int
        Number of points.
    shift : ndarray of shape (n_dimensions,), uint32
        Random words, the exclusive or of which moves all points.

    Returns
    -------
    uniforms : ndarray of shape (n_dimensions, n_points), float64
        In (0, 1), multiples of 2^-25: (top 24 bits + 1/2) / 2^24.

    References
    ----------
    S. Joe, F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008.

    Examples
    --------
    >>> sobol_uniforms(0, 4, np.zeros(2, np.uint32)).round(3)
    array([[0.  , 0.5 , 0.25, 0.75],
           [0.  , 0.5 , 0.75, 0.25]])
    """
    directions = _directions(shift.size)
    numbers = (np.arange(n_points, dtype=np.uint64) + np.uint64(first % 2**_BITS)).astype(np.uint32)
    points = np.repeat(shift[:, None], n_points, axis=1)
    for j in range(min(_BITS, (first % 2**_BITS + n_points).bit_length())):
        in_use = (numbers >> np.uint32(j)) & np.uint32(1)
        points ^= directions[:, j, None] * in_use
    points >>= np.uint32(8)
    uniforms = points.astype(np.float64)
    uniforms += 0.5
    uniforms *= 2.0**-24
    return uniforms


def padded_size(n_inputs: int) -> int:
    """Smallest power of two that is at least ``n_inputs``, and at least 4.

    Examples
    --------
    >>> padded_size(784)
    1024
    """
    return int(max(4, 1 << (n_inputs - 1).bit_length()))


@jit(nogil=True)
def _two_stages(a: Any, b: Any) -> None:
    # Every stage has the same pattern: contiguous reads, interleaved writes, in vector registers
    # at any stage. The usual order, in place, has a stage each with steps of 1, 2 and 4 numbers.
    q = a.size // 4
    a0, a1, a2, a3 = a[:q], a[q : 2 * q], a[2 * q : 3 * q], a[3 * q :]
    for i in range(q):
        s0, d0 = a0[i] + a2[i], a0[i] - a2[i]
        s1, d1 = a1[i] + a3[i], a1[i] - a3[i]
        b[4 * i] = s0 + s1
        b[4 * i + 1] = s0 - s1
        b[4 * i + 2] = d0 + d1
        b[4 * i + 3] = d0 - d1


@jit(nogil=True)
def _one_stage(a: Any, b: Any) -> None:
    h = a.size // 2
    a0, a1 = a[:h], a[h:]
    for i in range(h):
        b[2 * i] = a0[i] + a1[i]
        b[2 * i + 1] = a0[i] - a1[i]


@jit(nogil=True)
def _transform(a: Any, b: Any) -> Any:
    """Hadamard transform of ``a``, natural order, unscaled; returns (result, the other buffer)."""
    stages = 0
    while (1 << stages) < a.size:
        stages += 1
    while stages > 1:
        _two_stages(a, b)
        a, b = b, a
        stages -= 2
    if stages:
        _one_stage(a, b)
        a, b = b, a
    return a, b


@jit(nogil=True)
def hadamard_projections(X: Any, signs: Any, scales: Any, out: Any) -> None:
    r"""Inner products of rows with the rows of :math:`S H D_1 H D_2 H D_3`, group by group.

    H is the Hadamard matrix of the padded size p with entries 1 and -1, the D are diagonal
    matrices of signs, S one of scales. Each group of p frequencies has its own D and S.

    Parameters
    ----------
    X : ndarray of shape (n, n_inputs)
        Rows, C-ordered; padded with zeros to p numbers.
    signs : ndarray of shape (3, n_groups * p)
        Diagonals: the rows are :math:`D_3, D_2, D_1`.
    scales : ndarray of shape (n_frequencies,)
        Diagonal of S, with more than (n_groups - 1) * p and at most n_groups * p numbers.
    out : ndarray of shape (n, at least n_frequencies)
        Its first n_frequencies columns are overwritten.
    """
    n, d = X.shape
    k = scales.size
    p = 4
    while p < d:
        p *= 2
    first, second = np.empty(p, X.dtype), np.empty(p, X.dtype)
    for i in range(n):
        row = X[i]
        for start in range(0, k, p):
            a, b = first, second
            s = signs[0, start : start + p]
            for j in range(d):
                a[j] = row[j] * s[j]
            a[d:] = 0
            for t in (1, 2):
                a, b = _transform(a, b)
                s = signs[t, start : start + p]
                for j in range(p):
                    a[j] *= s[j]
            size = min(p, k - start)
            # The first frequencies of a group alone are a transform of a shorter, folded vector.
            while a.size >= 2 * max(size, 4):
                h = a.size // 2
                upper = a[h:]
                for j in range(h):
                    a[j] += upper[j]
                a, b = a[:h], b[:h]
            a, b = _transform(a, b)
            scale, target = scales[start : start + size], out[i, start : start + size]
            for j in range(size):
                target[j] = scale[j] * a[j]
