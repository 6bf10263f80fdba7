"""Pairs of normal numbers from pairs of random words, in vector instructions.

No library's logarithm or cosine is called: their last digits differ between systems, and calls
keep loops scalar.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from mercer.numerics.cosine import COSINE_FLAGS, turn_cosine32, turn_cosine64

__all__ = ["box_muller"]

_8 = np.uint32(8)

# 2^-24, and the coefficients 2 / (2 k + 1) of the series of 2 artanh(s), whose s is below 0.172.
_HALF32, _ONE32, _TWO32 = np.float32(0.5), np.float32(1), np.float32(2)
_QUARTER32 = np.float32(0.25)
_GRAIN64 = 2.0**-24
_GRAIN32 = np.float32(_GRAIN64)
_L0, _L1, _L2, _L3, _L4 = (np.float32(2 / k) for k in (1, 3, 5, 7, 9))
_LN2_64 = float(np.log(2))
_LN2_32 = np.float32(_LN2_64)
# Bits of the square root of 1/2, which subtracted leave the exponent of q in [sqrt 1/2, sqrt 2).
_ROOT_HALF32 = np.int32(np.float32(0.5**0.5).view(np.int32))
_ROOT_HALF64 = np.int64(np.float64(0.5**0.5).view(np.int64))
_23, _ONE24 = np.int32(23), np.int32(1 << 24)


@njit(fastmath=COSINE_FLAGS, error_model="numpy", cache=True, nogil=True)
def _radius32(r: Any) -> Any:
    """Square root of -2 ln u for u = ((r >> 8) + 1/2) / 2^24, without a library's logarithm."""
    n = np.int32(r >> _8)
    u = (np.float32(n) + _HALF32) * _GRAIN32
    bits = np.float32(u).view(np.int32)
    exponent = np.int32((bits - _ROOT_HALF32) >> _23)
    q = np.int32(bits - np.int32(exponent << _23)).view(np.float32)
    # u is rounded above 1/2; its distance to 1 is not, if it is taken before the rounding.
    near = (np.float32(np.int32(n - _ONE24)) + _HALF32) * _GRAIN32
    s = (near if exponent == 0 else q - _ONE32) / (q + _ONE32)
    s2 = s * s
    log_q = s * (_L0 + s2 * (_L1 + s2 * (_L2 + s2 * (_L3 + s2 * _L4))))
    return np.sqrt(-_TWO32 * (np.float32(exponent) * _LN2_32 + log_q))


@njit(fastmath=COSINE_FLAGS, error_model="numpy", cache=True, nogil=True)
def _radius64(r: Any) -> Any:
    """Square root of -2 ln u for u = ((r >> 8) + 1/2) / 2^24, without a library's logarithm."""
    u = (np.float64(np.int32(r >> _8)) + 0.5) * _GRAIN64
    bits = np.float64(u).view(np.int64)
    exponent = (bits - _ROOT_HALF64) >> 52
    q = np.int64(bits - (exponent << 52)).view(np.float64)
    s = (q - 1.0) / (q + 1.0)
    s2 = s * s
    high = 2 / 11 + s2 * (2 / 13 + s2 * (2 / 15 + s2 * (2 / 17 + s2 * (2 / 19))))
    log_q = s * (2.0 + s2 * (2 / 3 + s2 * (2 / 5 + s2 * (2 / 7 + s2 * (2 / 9 + s2 * high)))))
    return np.sqrt(-2.0 * (np.float64(exponent) * _LN2_64 + log_q))


@njit(
    fastmath=COSINE_FLAGS,
    cache=True,
    nogil=True,
)
def _box_muller32(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> None:
    for i in range(n):
        radius = _radius32(r_even[i])
        v = np.float32(np.int32(r_odd[i] >> _8)) * _GRAIN32
        z_even[i] = radius * turn_cosine32(v)
        z_odd[i] = radius * turn_cosine32(v - _QUARTER32)


@njit(
    fastmath=COSINE_FLAGS,
    cache=True,
    nogil=True,
)
def _box_muller64(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> None:
    for i in range(n):
        radius = _radius64(r_even[i])
        v = np.float64(np.int32(r_odd[i] >> _8)) * _GRAIN64
        z_even[i] = radius * turn_cosine64(v)
        z_odd[i] = radius * turn_cosine64(v - 0.25)


def box_muller(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> None:
    """Two rows of normal numbers from two rows of words; for compiled callers.

    Parameters
    ----------
    r_even, r_odd : ndarray of shape (at least n,), uint32
        Words: the top 24 bits of the first become the radius, of the second the angle.
    z_even, z_odd : ndarray of shape (at least n,), float32 or float64
        Overwritten with radius times cosine and radius times sine.
    n : int
        How many pairs.

    References
    ----------
    G. E. P. Box, M. E. Muller, A note on the generation of random normal deviates, 1958.
    """


@overload(box_muller)
def _choose_box_muller(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> Any:
    chosen = _box_muller32 if z_even.dtype == types.float32 else _box_muller64

    def call(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> None:
        chosen(r_even, r_odd, z_even, z_odd, n)

    return call
