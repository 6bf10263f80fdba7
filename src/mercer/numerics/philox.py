r"""Random numbers by their address: a counter-based generator, Philox4x32-10.

Every number is a pure function of (seed, block, stream, feature, coordinate), so a block of random
features can be made again at any time, in any order, by any thread, and a prefix in features or in
coordinates stays bit-identical. NumPy's generators cannot do that: their normals eat a number of
draws that depends on the data.

The layout, which other implementations must share to give the same features: the key is (seed mod
2³², seed div 2³²), the counter words are (coordinate div 4, feature, block, stream), and the four
output words belong to the four coordinates of that group.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as 1, 2, 3,
SC 2011, for Philox4x32-10. G. E. P. Box, M. E. Muller, A note on the generation of random normal
deviates, 1958.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import DTypeLike, NDArray

from mercer.jit import jit
from mercer.numerics.cosine import COSINE_FLAGS, turn_cosine32, turn_cosine64
from mercer.validation import check_integer

Array = NDArray[np.float64]
Floats = NDArray[np.floating]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_8 = np.uint32(8)

_HALF32 = np.float32(0.5)
_GRAIN64 = 2.0**-24
_GRAIN32 = np.float32(_GRAIN64)
_BELOW_ONE32 = np.float32(1 - _GRAIN64)

# Features made at a time: the scratch of one chunk stays in the first-level cache.
_CHUNK = 1024

# Pairs of normal numbers from pairs of random words. No library's logarithm or cosine is called:
# their last digits differ between systems, and calls keep loops scalar.

# Coefficients 2 / (2 k + 1) of the series of 2 artanh(s), whose s is below 0.172.
_ONE32, _TWO32 = np.float32(1), np.float32(2)
_QUARTER32 = np.float32(0.25)
_L0, _L1, _L2, _L3, _L4 = (np.float32(2 / k) for k in (1, 3, 5, 7, 9))
_LN2_64 = float(np.log(2))
_LN2_32 = np.float32(_LN2_64)
# Bits of the square root of 1/2, which subtracted leave the exponent of q in [sqrt 1/2, sqrt 2).
_ROOT_HALF32 = np.int32(np.float32(0.5**0.5).view(np.int32))
_ROOT_HALF64 = np.int64(np.float64(0.5**0.5).view(np.int64))
_23, _ONE24 = np.int32(23), np.int32(1 << 24)


@jit(fastmath=COSINE_FLAGS, error_model="numpy", nogil=True)
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


@jit(fastmath=COSINE_FLAGS, error_model="numpy", nogil=True)
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


@jit(
    fastmath=COSINE_FLAGS,
    nogil=True,
)
def _box_muller32(r_even: Any, r_odd: Any, z_even: Any, z_odd: Any, n: Any) -> None:
    for i in range(n):
        radius = _radius32(r_even[i])
        v = np.float32(np.int32(r_odd[i] >> _8)) * _GRAIN32
        z_even[i] = radius * turn_cosine32(v)
        z_odd[i] = radius * turn_cosine32(v - _QUARTER32)


@jit(
    fastmath=COSINE_FLAGS,
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


# Words are kept in 64-bit lanes, because that is where vector instructions multiply 32 bits by 32;
# and the rounds are written out, because a loop inside would keep the loop over features scalar.


@njit(inline="always")
def _round(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    p0 = c0 * _M0
    p1 = c2 * _M1
    return (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW


@njit(inline="always")
def _two_rounds(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    k0 = (k0 + _W0) & _LOW
    k1 = (k1 + _W1) & _LOW
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    return c0, c1, c2, c3, (k0 + _W0) & _LOW, (k1 + _W1) & _LOW


@njit(inline="always")
def _philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Four words of output for a counter and a key, all 32-bit words in uint64."""
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    return c0, c1, c2, c3


@jit(nogil=True)
def _chunk_of_words(
    k0: Any, k1: Any, group: Any, first: Any, block: Any, stream: Any, r: Any, n: Any
) -> None:
    """Words of one group of four coordinates, one row of ``r`` each, for consecutive features."""
    r0, r1, r2, r3 = r[0], r[1], r[2], r[3]
    for i in range(n):
        feature = (first + np.uint64(i)) & _LOW
        a, b, c, d = _philox(group, feature, block, stream, k0, k1)
        r0[i] = np.uint32(a)
        r1[i] = np.uint32(b)
        r2[i] = np.uint32(c)
        r3[i] = np.uint32(d)


# From words to numbers, one row of a chunk: uniforms in (0, 1), and pairs of normals.


@jit(fastmath=COSINE_FLAGS, nogil=True)
def _uniform32(r: Any, u: Any, n: Any) -> None:
    for i in range(n):
        u[i] = min((np.float32(np.int32(r[i] >> _8)) + _HALF32) * _GRAIN32, _BELOW_ONE32)


@jit(fastmath=COSINE_FLAGS, nogil=True)
def _uniform64(r: Any, u: Any, n: Any) -> None:
    for i in range(n):
        u[i] = (np.float64(np.int32(r[i] >> _8)) + 0.5) * _GRAIN64


# The function to use, by the type of the numbers.


def _uniform(r: Any, u: Any, n: Any) -> None:
    """Stand-in for compiled callers."""


@overload(_uniform)
def _choose_uniform(r: Any, u: Any, n: Any) -> Any:
    chosen = _uniform32 if u.dtype == types.float32 else _uniform64

    def call(r: Any, u: Any, n: Any) -> None:
        chosen(r, u, n)

    return call


@jit(nogil=True)
def _fill_words(k0: Any, k1: Any, block: Any, stream: Any, first: Any, out: Any) -> None:
    d, m = out.shape
    r = np.empty((4, _CHUNK), np.uint32)
    for group in range((d + 3) // 4):
        for start in range(0, m, _CHUNK):
            n = min(_CHUNK, m - start)
            _chunk_of_words(k0, k1, np.uint64(group), first + np.uint64(start), block, stream, r, n)
            for j in range(4 * group, min(4 * group + 4, d)):
                row, words = out[j, start:], r[j - 4 * group]
                for i in range(n):
                    row[i] = words[i]


@jit(nogil=True)
def _fill_uniforms(k0: Any, k1: Any, block: Any, stream: Any, first: Any, out: Any) -> None:
    d, m = out.shape
    r = np.empty((4, _CHUNK), np.uint32)
    for group in range((d + 3) // 4):
        for start in range(0, m, _CHUNK):
            n = min(_CHUNK, m - start)
            _chunk_of_words(k0, k1, np.uint64(group), first + np.uint64(start), block, stream, r, n)
            for j in range(4 * group, min(4 * group + 4, d)):
                _uniform(r[j - 4 * group], out[j, start:], n)


@jit(nogil=True)
def _fill_normals(k0: Any, k1: Any, block: Any, stream: Any, first: Any, out: Any) -> None:
    d, m = out.shape
    r = np.empty((4, _CHUNK), np.uint32)
    unused = np.empty(_CHUNK, out.dtype)
    for group in range((d + 3) // 4):
        for start in range(0, m, _CHUNK):
            n = min(_CHUNK, m - start)
            _chunk_of_words(k0, k1, np.uint64(group), first + np.uint64(start), block, stream, r, n)
            for j in range(4 * group, min(4 * group + 4, d), 2):
                even, odd = r[j - 4 * group], r[j - 4 * group + 1]
                second = out[j + 1, start:] if j + 1 < d else unused
                box_muller(even, odd, out[j, start:], second, n)


def _fill(compiled: Any, address: tuple[int, int, int, int], out: Any) -> None:
    """Fill an array from (seed, block, stream, first feature), which are checked."""
    seed, *place = address
    check_integer("seed", seed, low=0, high=2**64 - 1, why="It is the generator's key of 64 bits.")
    for name, word in zip(("block", "stream", "first_feature"), place, strict=True):
        why = "It is a 32-bit word of the generator's counter."
        check_integer(name, word, low=0, high=2**32 - 1, why=why)
    high, low = divmod(int(seed), 2**32)
    compiled(*(np.uint64(word) for word in (low, high, *place)), out)


def words(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    first_feature: int = 0,
) -> NDArray[np.uint32]:
    """Raw words, 32 random bits each.

    Parameters
    ----------
    seed : int
        Key, 0 <= seed < 2**64.
    block, stream : int
        Words of the counter, 0 <= word < 2**32.
    n_features, n_coordinates : int
        How many numbers. Fewer are a part of more: both sizes only cut off.
    first_feature : int, default=0
        Feature to begin with.

    Returns
    -------
    words : ndarray of shape (n_coordinates, n_features), uint32
        One column for each feature.

    Raises
    ------
    ValueError
        If a word is out of range.

    Examples
    --------
    >>> [hex(r) for r in words(seed=0, block=0, stream=0, n_features=1, n_coordinates=4)[:, 0]]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    out: NDArray[np.uint32] = np.empty((n_coordinates, n_features), np.uint32)
    _fill(_fill_words, (seed, block, stream, first_feature), out)
    return out


def uniforms(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    dtype: DTypeLike = np.float64,
    first_feature: int = 0,
) -> Floats:
    """Uniform numbers, (top 24 bits of the word + 1/2) / 2^24: never 0 or 1.

    Parameters and errors are as in :func:`words`; ``dtype`` is float32 or float64. Float32 rounds
    the numbers above 1/2: use float64 to invert a distribution function.

    Returns
    -------
    uniforms : ndarray of shape (n_coordinates, n_features)
        One column for each feature.

    Examples
    --------
    >>> uniforms(seed=0, block=0, stream=1, n_features=2, n_coordinates=1).round(7)
    array([[0.1789314, 0.3087176]])
    """
    out: Floats = np.empty((n_coordinates, n_features), dtype)
    _fill(_fill_uniforms, (seed, block, stream, first_feature), out)
    return out


def normals(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    dtype: DTypeLike = np.float64,
    first_feature: int = 0,
) -> Floats:
    r"""Draw standard normal numbers by Box and Muller's transform, at most 5.9 in size.

    The words :math:`r_0, r_1` of a group of four coordinates give its first two numbers,
    :math:`\sqrt{-2 \ln u} (\cos 2 \pi v, \sin 2 \pi v)`, with u the uniform number of :math:`r_0`
    and v the top 24 bits of :math:`r_1` over 2^24; :math:`r_2, r_3` give the other two. Parameters
    and errors are those of :func:`words`; ``dtype`` is float32 or float64, which differ by at most
    3e-6.

    Returns
    -------
    normals : ndarray of shape (n_coordinates, n_features)
        One column for each feature.

    Examples
    --------
    >>> normals(seed=0, block=0, stream=0, n_features=2, n_coordinates=3).round(6)
    array([[ 0.991138,  1.136367],
           [-0.924663, -0.675883],
           [-0.617609,  1.240592]])
    """
    out: Floats = np.empty((n_coordinates, n_features), dtype)
    _fill(_fill_normals, (seed, block, stream, first_feature), out)
    return out


def signs(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    dtype: DTypeLike = np.float64,
    first_feature: int = 0,
) -> Floats:
    """Signs, 1 or -1 with equal odds: 1 where the top bit of the word is set.

    Parameters and errors are as in :func:`words`.

    Returns
    -------
    signs : ndarray of shape (n_coordinates, n_features)
        One column for each feature.

    Examples
    --------
    >>> signs(seed=0, block=0, stream=0, n_features=1, n_coordinates=4)[:, 0]
    array([-1.,  1.,  1.,  1.])
    """
    bits = words(seed, block, stream, n_features, n_coordinates, first_feature) >> np.uint32(31)
    drawn: Floats = bits.astype(dtype) * 2 - 1
    return drawn


def phases(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    dtype: DTypeLike = np.float64,
    first_feature: int = 0,
) -> Floats:
    """One uniform number for each feature, such as a phase in turns.

    Parameters and errors are as in :func:`words`.

    Returns
    -------
    phases : ndarray of shape (n_features,)
        In (0, 1).
    """
    row: Floats = uniforms(seed, block, stream, n_features, 1, dtype, first_feature)[0]
    return row


def row_uniforms(first: int, n: int) -> Array:
    """Uniform numbers in [0, 1) that belong to the rows ``first``, ``first + 1``, ... of a stream.

    They depend only on the number of the row, so nothing has to be remembered, and the result does
    not depend on how calls cut a stream.

    Parameters
    ----------
    first : int
        Number of the first row, from 0.
    n : int
        How many rows.

    Returns
    -------
    uniforms : ndarray of shape (n,)

    Examples
    --------
    >>> bool(row_uniforms(0, 5)[3] == row_uniforms(3, 1)[0])
    True
    """
    return np.random.Generator(np.random.PCG64(0).advance(first)).random(n)
