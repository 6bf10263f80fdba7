"""Cosines of angles in turns, by polynomials that compilers turn into vector instructions.

A compiled ``math.cos`` and NumPy's float64 cosine take 8 to 30 ns a number; these take a fraction
of one. An angle in turns (1 is a full circle) needs no division to reduce.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from mercer.jit import jit

#: Never all of fastmath: reassociation would delete the rounding by adding and subtracting.
COSINE_FLAGS = {"contract", "nnan", "ninf", "nsz"}

# Adding 1.5 * 2^23 (2^52) leaves no bits for a fraction, so that subtracting it again rounds; but
# not above 2^22 (2^51) turns, where features, whose angles may be of any size, take whole turns off
# by another instruction first: a polynomial of what was left would be of any size, too.
_ROUND32 = np.float32(12582912.0)
_ROUND64 = np.float64(6755399441055744.0)
# Exact in float32, which keeps float32 arithmetic in float32.
_QUARTER = np.float32(0.25)

# Least squares of cos(2 pi sqrt(q)) at Chebyshev nodes of q in [0, 1/4].
_A0, _A1, _A2, _A3, _A4, _A5, _A6 = (
    np.float32(a)
    for a in (
        1.0,
        -19.739204406738,
        64.939117431641,
        -85.450141906738,
        60.167629241943,
        -25.967599868774,
        6.528658390045,
    )
)
_B0, _B1, _B2, _B3, _B4, _B5, _B6, _B7, _B8, _B9 = (
    0.9999999999999922,
    -19.739208802173543,
    64.93939402199511,
    -85.45681717242462,
    60.2446404844402,
    -26.426243561550507,
    7.903416197644273,
    -1.7137127505035306,
    0.279683491356493,
    -0.03192978687068001,
)


@jit(fastmath=COSINE_FLAGS, nogil=True)
def turn_cosine32(v: Any) -> Any:
    """Cosine of one angle below 2^22 turns, float32: error below 4e-7; for compiled callers."""
    r = v - ((v + _ROUND32) - _ROUND32)
    q = r * r
    return _A0 + q * (_A1 + q * (_A2 + q * (_A3 + q * (_A4 + q * (_A5 + q * _A6)))))


@jit(fastmath=COSINE_FLAGS, nogil=True)
def turn_cosine64(v: Any) -> Any:
    """Cosine of one angle below 2^51 turns, float64: error below 1e-14; for compiled callers."""
    r = v - ((v + _ROUND64) - _ROUND64)
    q = r * r
    high = _B5 + q * (_B6 + q * (_B7 + q * (_B8 + q * _B9)))
    return _B0 + q * (_B1 + q * (_B2 + q * (_B3 + q * (_B4 + q * high))))


def turn_cosine(v: Any) -> Any:
    """Cosine of one angle in turns, of the type of ``v``; for compiled callers."""


@overload(turn_cosine)
def _choose_turn_cosine(v: Any) -> Any:
    chosen = turn_cosine32 if v == types.float32 else turn_cosine64

    def call(v: Any) -> Any:
        return chosen(v)

    return call


@jit(fastmath=COSINE_FLAGS, nogil=True)
def cosines_of_turns(V: Any, phases: Any, scale: Any) -> None:
    """Overwrite angles in turns with their cosines, ``V = scale * cos(2 pi (V + phases))``.

    Parameters
    ----------
    V : ndarray of shape (n, n_features)
        Float32 or float64, C-ordered.
    phases : ndarray of shape (n_features,)
        Added to each row, in turns.
    scale : float
        Scale, of the same type.
    """
    for i in range(V.shape[0]):
        row = V[i]
        for j in range(row.size):
            v = row[j] + phases[j]
            row[j] = scale * turn_cosine(v - np.rint(v))


@jit(fastmath=COSINE_FLAGS, nogil=True)
def cosine_pairs_of_turns(Z: Any, phases: Any, scale: Any) -> None:
    """Overwrite k angles in turns, in the first columns, with k cosines and then k sines.

    Parameters
    ----------
    Z : ndarray of shape (n, 2 k) or (n, 2 k + 1)
        Float32 or float64, C-ordered. If the number of columns is odd, column k is one more angle;
        it turns into a single cosine with a phase, in the last column.
    phases : ndarray of shape (0,) or (1,)
        That phase, in turns.
    scale : float
        Factor of all columns, of the same type.
    """
    k = Z.shape[1] // 2
    for i in range(Z.shape[0]):
        row = Z[i]
        last = row[row.size - 1 - k]
        cosines, sines = row[:k], row[k : 2 * k]
        for j in range(k):
            # Taking a quarter off a large angle would round it.
            r = cosines[j] - np.rint(cosines[j])
            cosines[j] = scale * turn_cosine(r)
            sines[j] = scale * turn_cosine(r - _QUARTER)
        if row.size > 2 * k:
            v = last + phases[0]
            row[2 * k] = scale * turn_cosine(v - np.rint(v))
