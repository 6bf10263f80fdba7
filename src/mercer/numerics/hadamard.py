"""Projections by fast Hadamard transforms, instead of products with a matrix of frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["hadamard_projections", "padded_size"]


def padded_size(n_inputs: int) -> int:
    """Smallest power of two that is at least ``n_inputs``, and at least 4.

    Examples
    --------
    >>> padded_size(784)
    1024
    """
    return int(max(4, 1 << (n_inputs - 1).bit_length()))


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _one_stage(a: Any, b: Any) -> None:
    h = a.size // 2
    a0, a1 = a[:h], a[h:]
    for i in range(h):
        b[2 * i] = a0[i] + a1[i]
        b[2 * i + 1] = a0[i] - a1[i]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
