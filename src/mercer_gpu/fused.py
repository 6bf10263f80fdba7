r"""Sums of random features by one kernel, in which neither frequencies nor features reach memory.

A library product of (n, d) rows with (d, m) frequencies has to read frequencies and write features,
and the cosine reads them again. Here each program makes the frequencies of a tile from their
addresses, by the counter-based generator, uses them for all its rows and drops them; so a function
with any number of blocks needs only its coefficients. The price is the arithmetic of the generator,
about forty operations for each frequency and tile of rows against two for each row.

References
----------
DSG, Algorithm 2, where frequencies are regenerated from their seeds.
"""

from __future__ import annotations

import functools
import math
import os
from typing import Any

from numpy.typing import ArrayLike

from mercer.features.laws import Address
from mercer.kernels import Kernel
from mercer.validation import check_integer
from mercer_gpu._blocks import coefficient_blocks, feature_scale
from mercer_gpu._spectrum import Spectrum, spectrum_of
from mercer_gpu._torch import Tensor, device_rows, require_torch, require_triton
from mercer_gpu.philox import split_seed

# Sizes of tiles; groups are of four coordinates. 128 rows share the making of a frequency. Larger
# tiles do not fit in the registers of compute capabilities 8.0 to 10.0, by the compiler's count.
_ROWS, _FEATURES, _GROUPS, _WARPS = 128, 64, 4, 8
# Outputs of one launch, the least that a product of tiles takes; further ones make the features
# again.
_MAX_OUTPUTS = 16
# Programs for each multiprocessor, so that none idles at the end.
_PROGRAMS_PER_PROCESSOR = 4


def fused_evaluate(
    kernel: Kernel,
    X: Tensor,
    coefficients: ArrayLike | Tensor,
    block_size: int,
    seed: int = 0,
    *,
    first_block: int = 0,
    paired: bool = True,
) -> Tensor:
    r"""Values of a function that was learnt on random features, :math:`\sum_i Z_i \alpha_i`.

    The same function as :func:`mercer_gpu.evaluate` with ``design="iid"``, to rounding, in float32.
    Frequencies of other designs cannot be made one by one, so they have no fused path.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Cauchy, Matern or RationalQuadratic, with a number as length scale.
    X : float32 tensor of shape (n, n_inputs)
        Rows, on a CUDA device; on the CPU only in Triton's interpreter (TRITON_INTERPRET=1), which
        is for tests.
    coefficients : tensor or array-like of shape (n_features,) or (n_features, n_outputs)
        Coefficients, block after block, ``block_size`` of each.
    block_size : int
        Features of a block; even, if they are paired.
    seed : int, default=0
        0 <= seed < 2**64.
    first_block : int, default=0
        Number of the block that the first coefficients belong to.
    paired : bool, default=True
        Cosine and sine of each frequency, instead of one cosine with a random phase.

    Returns
    -------
    values : float32 tensor of shape (n,) or (n, n_outputs)
        On the device of the rows.

    Raises
    ------
    ValueError
        If an argument is outside its range, the rows are not on a device that runs the kernel, or
        not float32.
    ImportError
        If PyTorch or Triton is not installed.

    Examples
    --------
    On a machine with a CUDA device::

        X = torch.randn(100_000, 54, device="cuda")
        f = fused_evaluate(Gaussian(4.0), X, coefficients, block_size=1024)
    """
    torch = require_torch()
    require_triton()
    rows = device_rows(X)
    spectrum = spectrum_of(kernel, rows.shape[1])
    _check_place(rows)
    check_integer("block_size", block_size, low=1)
    if paired and block_size % 2:
        raise ValueError(
            f"`block_size` must be even for paired features, got {block_size}: each frequency has "
            "a cosine and a sine. Use paired=False, or mercer_gpu.evaluate."
        )
    alpha, tail = coefficient_blocks(coefficients, block_size, rows)
    n_blocks = alpha.shape[0]
    check_integer("first_block", first_block, low=0, high=2**32 - n_blocks)
    with torch.no_grad():
        x = rows * spectrum.turns
        alpha = alpha * feature_scale(block_size)
        n_frequencies = block_size // 2 if paired else block_size
        factors = _all_factors(spectrum, seed, first_block, n_blocks, n_frequencies, rows)
        slabs = [
            _launch(
                x,
                alpha[:, :, start : start + _MAX_OUTPUTS].contiguous(),
                factors,
                law=spectrum.law,
                paired=paired,
                first_block=first_block,
                seed=seed,
            )
            for start in range(0, alpha.shape[2], _MAX_OUTPUTS)
        ]
        return torch.cat(slabs, dim=1).reshape(len(rows), *tail)


def _check_place(rows: Tensor) -> None:
    torch = require_torch()
    if rows.dtype != torch.float32:
        raise ValueError(
            f"`X` must be float32 for the fused path, got {rows.dtype}. Use X.float(), or "
            "mercer_gpu.evaluate for float64."
        )
    if rows.device.type != "cuda" and os.environ.get("TRITON_INTERPRET", "0") != "1":
        raise ValueError(
            f"`X` must be on a CUDA device for the fused path, got {rows.device}. Use X.cuda(), or "
            "mercer_gpu.evaluate, which runs everywhere."
        )


def _all_factors(
    spectrum: Spectrum, seed: int, first_block: int, n_blocks: int, n_frequencies: int, like: Tensor
) -> Tensor | None:
    """Factors of the frequencies of all blocks, shape (n_blocks, n_frequencies), or None."""
    if spectrum.radial is None:
        return None
    blocks, d = range(first_block, first_block + n_blocks), like.shape[1]
    return require_torch().stack(
        [
            spectrum.factors(Address(seed, block, 0, n_frequencies, d), like.device, like.dtype)
            for block in blocks
        ]
    )


def _launch(
    x: Tensor,
    alpha: Tensor,
    factors: Tensor | None,
    *,
    law: str,
    paired: bool,
    first_block: int,
    seed: int,
) -> Tensor:
    from mercer_gpu import _triton_kernels

    n, d = x.shape
    n_blocks, m, n_outputs = alpha.shape
    n_frequencies = m // 2 if paired else m
    row_tiles = math.ceil(n / _ROWS)
    feature_tiles = n_blocks * math.ceil(n_frequencies / _FEATURES)
    n_splits = min(feature_tiles, math.ceil(_programs(x.device) / max(row_tiles, 1)))
    partial = x.new_empty((n_splits, n, n_outputs))
    if n:
        _triton_kernels.fused_tiles[(row_tiles, n_splits)](
            x,
            alpha,
            # A kernel without factors does not read them.
            x if factors is None else factors,
            partial,
            n,
            d,
            n_outputs,
            n_frequencies,
            n_blocks,
            n_splits,
            _signed(first_block),
            0,
            *(_signed(word) for word in split_seed(seed)),
            law={
                "normal": _triton_kernels.NORMAL,
                "tangent": _triton_kernels.TANGENT,
                "laplace": _triton_kernels.LAPLACE,
            }[law],
            paired=paired,
            radial=factors is not None,
            tile_rows=_ROWS,
            tile_features=_FEATURES,
            tile_groups=_GROUPS,
            tile_outputs=1 if n_outputs == 1 else _MAX_OUTPUTS,
            num_warps=_WARPS,
            enable_fp_fusion=True,
        )
    # A sum in a fixed order, instead of atomic additions, gives the same number every time.
    return partial.sum(dim=0)


@functools.cache
def _programs(device: Any) -> int:
    """Programs that keep a device busy."""
    if device.type != "cuda":
        return 2
    properties = require_torch().cuda.get_device_properties(device)
    return int(_PROGRAMS_PER_PROCESSOR * properties.multi_processor_count)


def _signed(word: int) -> int:
    """Word of 32 bits as a signed integer, so that compiled code always sees one type."""
    return word - 2**32 if word >= 2**31 else word
