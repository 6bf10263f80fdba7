r"""The generator of :mod:`mercer.numerics.philox` in plain PyTorch, on any device.

Same layout, so the same features: the key is (seed mod 2³², seed div 2³²), the counter words are
(coordinate div 4, feature, block, stream). Integers agree exactly; normals to 1e-6 and better,
because devices contract multiplications and additions differently.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as 1, 2, 3,
SC 2011, for Philox4x32-10. G. E. P. Box, M. E. Muller, A note on the generation of random normal
deviates, 1958.
"""

from __future__ import annotations

from typing import Any

from mercer.validation import check_integer
from mercer_gpu._polynomials import COSINE32, COSINE64, LN_2, LOG_SERIES, SQRT_HALF
from mercer_gpu._torch import Tensor, require_torch

_MASK = 0xFFFFFFFF
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85

# The float32 below 1: the largest midpoint, 1 - 2^-25, would be rounded to 1.
_BELOW_ONE = 1.0 - 2.0**-24


def philox(counter: tuple[Tensor, ...], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Philox4x32-10: four words of output for each counter.

    Parameters
    ----------
    counter : tuple of four int64 tensors
        Words of 32 bits, of shapes that broadcast.
    key : tuple of two int
        Words of 32 bits.

    Returns
    -------
    output : tuple of four int64 tensors
        Words of 32 bits.

    Examples
    --------
    >>> import torch
    >>> zero = torch.zeros(1, dtype=torch.int64)
    >>> [f"{int(word):08x}" for word in philox((zero, zero, zero, zero), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        # PyTorch has no arithmetic of unsigned words on every device. A product of two words wraps
        # round in int64, which leaves all its 64 bits in place.
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, p1 & _MASK
        c2, c3 = ((p0 >> 32) & _MASK) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


def split_seed(seed: int) -> tuple[int, int]:
    """Key of a seed: its low and its high word.

    Raises
    ------
    ValueError
        If the seed is not an integer below 2⁶⁴.
    """
    seed = check_integer("seed", seed, low=0, high=2**64 - 1)
    return seed & _MASK, seed >> 32


def words(
    seed: int, block: int, stream: int, n_features: int, n_coordinates: int, *, device: Any = None
) -> Tensor:
    """Random words of one block.

    Parameters
    ----------
    seed : int
        0 <= seed < 2**64.
    block, stream : int
        Words of the counter.
    n_features, n_coordinates : int
        Features and coordinates 0, 1, ... of the block.
    device : torch.device or str, default=None
        Where; None is PyTorch's default.

    Returns
    -------
    words : int64 tensor of shape (n_coordinates, n_features)
        Words of 32 bits.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    torch = require_torch()
    key = split_seed(seed)
    check_integer("block", block, low=0, high=_MASK)
    check_integer("stream", stream, low=0, high=_MASK)
    check_integer("n_features", n_features, low=1)
    check_integer("n_coordinates", n_coordinates, low=1)
    groups = torch.arange(-(-n_coordinates // 4), dtype=torch.int64, device=device)[:, None]
    features = torch.arange(n_features, dtype=torch.int64, device=device)[None, :]
    fixed = [torch.full((1, 1), w, dtype=torch.int64, device=device) for w in (block, stream)]
    output = torch.stack(philox((groups, features, *fixed), key), dim=1)
    return output.reshape(-1, n_features)[:n_coordinates]


def uniforms(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    *,
    device: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Uniform numbers of one block, on the 2²⁴ midpoints of (0, 1).

    Parameters
    ----------
    seed, block, stream, n_features, n_coordinates, device
        As for :func:`words`.
    dtype : torch.dtype, default=None
        float32 (None) or float64.

    Returns
    -------
    u : tensor of shape (n_coordinates, n_features)
        Uniform numbers, never 0 or 1. In float32 those above 1/2 are rounded.
    """
    torch = require_torch()
    r = words(seed, block, stream, n_features, n_coordinates, device=device)
    u = ((r >> 8).to(dtype or torch.float32) + 0.5) * 2.0**-24
    return u.clamp_(max=_BELOW_ONE) if u.dtype == torch.float32 else u


def phases(
    seed: int, block: int, stream: int, n_features: int, *, device: Any = None, dtype: Any = None
) -> Tensor:
    """Uniform phase of each feature, in turns.

    Parameters
    ----------
    seed, block, stream, n_features, device, dtype
        As for :func:`uniforms`.

    Returns
    -------
    b : tensor of shape (n_features,)
        Phases: word 0 of the group of coordinate 0.
    """
    return uniforms(seed, block, stream, n_features, 1, device=device, dtype=dtype)[0]


def normals(
    seed: int,
    block: int,
    stream: int,
    n_features: int,
    n_coordinates: int,
    *,
    device: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Draw the standard normal numbers of one block.

    Parameters
    ----------
    seed, block, stream, n_features, n_coordinates, device, dtype
        As for :func:`uniforms`.

    Returns
    -------
    z : tensor of shape (n_coordinates, n_features)
        Normal numbers by Box and Muller: coordinates 4g and 4g + 1 are the cosine and the sine of
        one angle, so are 4g + 2 and 4g + 3; none beyond 5.9.

    Examples
    --------
    >>> normals(seed=0, block=0, stream=0, n_features=2, n_coordinates=3)
    tensor([[ 0.9911,  1.1364],
            [-0.9247, -0.6759],
            [-0.6176,  1.2406]])
    """
    torch = require_torch()
    dtype = dtype or torch.float32
    n_whole = n_coordinates + n_coordinates % 2
    n = words(seed, block, stream, n_features, n_whole, device=device) >> 8
    v = n[1::2].to(dtype) * 2.0**-24
    # Above 1/2 a float32 u is rounded, the difference of u and 1 is not.
    u, below_one = (((n[0::2] - shift).to(dtype) + 0.5) * 2.0**-24 for shift in (0, 2**24))
    radius = torch.sqrt(-2.0 * logarithm(u, below_one))
    z = torch.stack((radius * cosine_of_turns_(v.clone()), radius * cosine_of_turns_(v - 0.25)), 1)
    return z.reshape(n_whole, n_features)[:n_coordinates]


def cosine_of_turns_(v: Tensor) -> Tensor:
    """Cosine of angles in turns, in place: error below 4e-7 in float32, 1e-14 in float64.

    Parameters
    ----------
    v : tensor
        Angles, overwritten; 1 is a full circle.

    Returns
    -------
    v : tensor
        The same tensor.
    """
    torch = require_torch()
    coefficients = COSINE32 if v.dtype == torch.float32 else COSINE64
    v.sub_(torch.round(v))
    q = v.mul_(v)
    value = torch.full_like(q, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        # One pass over memory for each coefficient, where mul and add would take two.
        torch.addcmul(q.new_full((), c), value, q, out=value)
    return v.copy_(value)


def distance_to_ends(r: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """Uniform numbers of words by their nearer end: (min(u, 1 - u), sign of u - 1/2), exact."""
    n = r >> 8
    upper = n >= 2**23
    t = (n.where(~upper, 2**24 - 1 - n).to(dtype) + 0.5) * 2.0**-24
    return t, 2.0 * upper.to(dtype) - 1.0


def logarithm(u: Tensor, below_one: Tensor) -> Tensor:
    """Natural logarithm of numbers in (0, 1], whose u - 1 may be known more exactly."""
    torch = require_torch()
    if u.dtype == torch.float64:
        return torch.log(u)
    q, exponent = torch.frexp(u)
    small = q < SQRT_HALF
    q = torch.where(small, 2.0 * q, q)
    exponent = exponent - small.to(exponent.dtype)
    s = torch.where(exponent == 0, below_one, q - 1.0) / (q + 1.0)
    s2 = s * s
    series = torch.full_like(s, LOG_SERIES[-1])
    for c in reversed(LOG_SERIES[:-1]):
        series = series * s2 + c
    return exponent.to(u.dtype) * LN_2 + s * series
