"""Compiled part of :mod:`mercer_gpu.fused`: random features that never reach memory.

One program owns a tile of rows and walks over tiles of features. For each it makes the frequencies
W from their addresses (seed, block, feature, coordinate), a chunk of coordinates at a time, adds
their products with the rows to the phases, takes the cosines, and adds the products with the
coefficients to the outputs of its rows.
"""

from __future__ import annotations

from typing import Any

from mercer_gpu._polynomials import COSINE32, LN_2, LOG_SERIES, ROUND32, SQRT_HALF

try:
    import triton
    import triton.language as tl
except ImportError:
    # The module can still be imported and documented; `fused` asks for Triton before it is used.
    triton = None


# In the kernels a constant of the module stands on the right of a tensor: Triton's interpreter
# would otherwise take the result for a constant.


def _jit(function: Any = None, **options: Any) -> Any:
    if function is None:
        return lambda f: _jit(f, **options)
    return function if triton is None else triton.jit(function, **options)


def _constant(value: Any) -> Any:
    return value if triton is None else tl.constexpr(value)


#: Laws of one coordinate of a frequency.
NORMAL, TANGENT, LAPLACE = _constant(0), _constant(1), _constant(2)

_A0, _A1, _A2, _A3, _A4, _A5, _A6 = (_constant(a) for a in COSINE32)
_L0, _L1, _L2, _L3, _L4 = (_constant(c) for c in LOG_SERIES)
_LN_2 = _constant(LN_2)
_SQRT_2 = _constant(2.0 * SQRT_HALF)
_ROUND = _constant(ROUND32)
_PI = _constant(3.141592653589793)
_M0, _M1 = _constant(0xD2511F53), _constant(0xCD9E8D57)
_W0, _W1 = _constant(0x9E3779B9), _constant(0xBB67AE85)
_UNIT = _constant(2.0**-24)


@_jit
def _philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Philox4x32-10 of uint32 words, see :func:`mercer_gpu.philox.philox`."""
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, _M0), c0 * _M0
        high1, low1 = tl.umulhi(c2, _M1), c2 * _M1
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@_jit
def _cosine(v):  # type: ignore[no-untyped-def]
    """Cosine of angles in turns."""
    v = v - tl.floor(v)  # the next line rounds nothing above 2^22 turns
    r = v - ((v + _ROUND) - _ROUND)
    q = r * r
    return (((((q * _A6 + _A5) * q + _A4) * q + _A3) * q + _A2) * q + _A1) * q + _A0


@_jit
def _logarithm(u, below_one):  # type: ignore[no-untyped-def]
    """Natural logarithm of normal float32 numbers in (0, 1], whose u - 1 is known more exactly."""
    bits = u.to(tl.int32, bitcast=True)
    exponent = (bits >> 23) - 127
    q = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    large = q >= _SQRT_2
    q = tl.where(large, 0.5 * q, q)
    exponent = tl.where(large, exponent + 1, exponent)
    s = tl.div_rn(tl.where(exponent == 0, below_one, q - 1.0), q + 1.0)
    s2 = s * s
    series = (((s2 * _L4 + _L3) * s2 + _L2) * s2 + _L1) * s2 + _L0
    return exponent.to(tl.float32) * _LN_2 + s * series


@_jit
def _uniform(n):  # type: ignore[no-untyped-def]
    """Midpoints of (0, 1) of 24-bit integers; those above 1/2 are rounded."""
    return (n.to(tl.float32) + 0.5) * _UNIT


@_jit
def _normal_pair(r_radius, r_angle):  # type: ignore[no-untyped-def]
    """Two standard normals of two words, by Box and Muller."""
    n = (r_radius >> 8).to(tl.int32)
    radius = tl.sqrt_rn(-2.0 * _logarithm(_uniform(n), _uniform(n - 16777216)))
    v = (r_angle >> 8).to(tl.float32) * _UNIT
    return radius * _cosine(v), radius * _cosine(v - 0.25)


@_jit
def _sine_of_half_turns(t):  # type: ignore[no-untyped-def]
    """sin(pi t) for t in [0, 1/2], to a small *relative* error: Taylor to the 13th power."""
    x = t * _PI
    q = x * x
    high = 1.0 / 362880.0 - q * (1.0 / 39916800.0 - q * (1.0 / 6227020800.0))
    return x * (1.0 - q * (1.0 / 6.0 - q * (1.0 / 120.0 - q * (1.0 / 5040.0 - q * high))))


@_jit
def _quantile(r, law: tl.constexpr):  # type: ignore[no-untyped-def]
    """Draw from a symmetric law by its inverse distribution function, one number from a word."""
    # Distance of the uniform number from the nearer end of (0, 1): exact, unlike 1 - u.
    n = (r >> 8).to(tl.int32)
    upper = n >= 8388608
    t = _uniform(tl.where(upper, 16777215 - n, n))
    if law == TANGENT:
        value = tl.div_rn(_sine_of_half_turns(0.5 - t), _sine_of_half_turns(t))
    else:
        value = -_logarithm(2.0 * t, 2.0 * t - 1.0)
    return tl.where(upper, value, -value)


@_jit
def _frequencies(  # type: ignore[no-untyped-def]
    groups, features, block, stream, k0, k1, law: tl.constexpr, n_groups: tl.constexpr
):
    """Frequencies of some groups of four coordinates, of shape (4 n_groups, n_features)."""
    c0 = tl.broadcast_to(groups[:, None], [groups.shape[0], features.shape[0]])
    c1 = tl.broadcast_to(features[None, :], [groups.shape[0], features.shape[0]])
    r0, r1, r2, r3 = _philox(c0, c1, tl.zeros_like(c0) + block, tl.zeros_like(c0) + stream, k0, k1)
    if law == NORMAL:
        z0, z1 = _normal_pair(r0, r1)
        z2, z3 = _normal_pair(r2, r3)
    else:
        z0, z1 = _quantile(r0, law), _quantile(r1, law)
        z2, z3 = _quantile(r2, law), _quantile(r3, law)
    z = tl.join(tl.join(z0, z1), tl.join(z2, z3))  # [group, feature, low, high], word 2 high + low
    return tl.reshape(tl.permute(z, (0, 3, 2, 1)), [4 * n_groups, features.shape[0]])


# Compiled code takes an argument of 1 for a constant, which these must not be.
@_jit(do_not_specialize=["first_block", "stream", "key_low", "key_high"])
def fused_tiles(  # type: ignore[no-untyped-def]  # noqa: PLR0913
    rows_ptr,
    coefficients_ptr,
    radial_ptr,
    partial_ptr,
    n_rows,
    n_inputs,
    n_outputs,
    n_frequencies,
    n_blocks,
    n_splits,
    first_block,
    stream,
    key_low,
    key_high,
    law: tl.constexpr,
    paired: tl.constexpr,
    radial: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_features: tl.constexpr,
    tile_groups: tl.constexpr,
    tile_outputs: tl.constexpr,
):
    """Sum of features times coefficients, for one tile of rows and every n_splits-th of features.

    ``rows`` (n_rows, n_inputs) are divided by 2 pi length_scale, so that phases are in turns;
    ``coefficients`` are (n_blocks, n_columns, n_outputs) with n_columns = n_frequencies, or twice
    that if paired, cosines first; ``radial`` (n_blocks, n_frequencies) multiplies whole
    frequencies; ``partial`` is (n_splits, n_rows, n_outputs). ``tile_outputs`` 1 is a sum, other
    powers of two from 16 on a matrix product.
    """
    rows = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    split = tl.program_id(1)
    outputs = tl.arange(0, tile_outputs)
    row_starts = rows.to(tl.int64)[:, None] * n_inputs
    row_inside = rows[:, None] < n_rows

    k0 = key_low.to(tl.uint32, bitcast=True)
    k1 = key_high.to(tl.uint32, bitcast=True)
    c3 = stream.to(tl.uint32, bitcast=True)
    n_groups = tl.cdiv(n_inputs, 4)
    tiles_per_block = tl.cdiv(n_frequencies, tile_features)
    total = tl.zeros([tile_rows, tile_outputs], dtype=tl.float32)

    for tile in range(split, n_blocks * tiles_per_block, n_splits):
        index = tile // tiles_per_block
        frequency = (tile - index * tiles_per_block) * tile_features + tl.arange(0, tile_features)
        inside = frequency < n_frequencies
        block = (first_block + index).to(tl.uint32, bitcast=True)
        c1 = frequency.to(tl.uint32, bitcast=True)

        phase = tl.zeros([tile_rows, tile_features], dtype=tl.float32)
        for start in range(0, n_groups, tile_groups):
            groups = (start + tl.arange(0, tile_groups)).to(tl.uint32, bitcast=True)
            W = _frequencies(groups, c1, block, c3, k0, k1, law, tile_groups)
            inputs = 4 * start + tl.arange(0, 4 * tile_groups)
            # Coordinates beyond the last have numbers too; rows of zeros leave them out.
            x = tl.load(
                rows_ptr + row_starts + inputs[None, :],
                mask=row_inside & (inputs[None, :] < n_inputs),
                other=0.0,
            )
            phase = tl.dot(x, W, phase, input_precision="ieee")

        if radial:
            at = radial_ptr + index.to(tl.int64) * n_frequencies + frequency
            factors = tl.load(at, mask=inside, other=0.0)
            phase *= factors[None, :]

        first = index.to(tl.int64) * n_frequencies
        if paired:
            first *= 2
        cosine_at = coefficients_ptr + (first + frequency)[:, None] * n_outputs + outputs[None, :]
        kept = inside[:, None] & (outputs[None, :] < n_outputs)
        if paired:
            a = tl.load(cosine_at, mask=kept, other=0.0)
            total = _add_products(total, _cosine(phase), a, tile_outputs)
            a = tl.load(cosine_at + n_frequencies * n_outputs, mask=kept, other=0.0)
            total = _add_products(total, _cosine(phase - 0.25), a, tile_outputs)
        else:
            zero = tl.zeros_like(c1)
            r, _1, _2, _3 = _philox(zero, c1, zero + block, zero + (c3 + 1), k0, k1)
            a = tl.load(cosine_at, mask=kept, other=0.0)
            total = _add_products(
                total, _cosine(phase + _uniform(r >> 8)[None, :]), a, tile_outputs
            )

    at = (split.to(tl.int64) * n_rows + rows)[:, None] * n_outputs + outputs[None, :]
    tl.store(partial_ptr + at, total, mask=row_inside & (outputs[None, :] < n_outputs))


@_jit
def _add_products(total, features, a, tile_outputs: tl.constexpr):  # type: ignore[no-untyped-def]
    if tile_outputs == 1:
        return total + tl.sum(features * tl.trans(a), axis=1, keep_dims=True)
    return tl.dot(features, a, total, input_precision="ieee")
