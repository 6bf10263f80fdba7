r"""Blocks of random features on tensors, by library products: the same numbers as on the CPU.

A block of features is :math:`Z_i = [\cos X W_i, \sin X W_i] \sqrt{2 / m}` with frequencies
:math:`W_i` that are a pure function of (seed, block); a function is :math:`f(X) = \sum_i Z_i
\alpha_i`. Frequencies are kept on the device as far as a budget goes and made again otherwise; the
features are made tile by tile and dropped.

References
----------
DSG, Algorithms 1 and 2, Table 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.features import FeatureOptions
from mercer.kernels import Kernel
from mercer.maps import Affine
from mercer.validation import check_integer
from mercer_gpu._draws import Draws, draws_of
from mercer_gpu._torch import Tensor, device_rows, float32_products, require_torch
from mercer_gpu.philox import cosine_of_turns_

# Features of a tile: on the CPU 512 kB, which stay in a core's cache; elsewhere 64 MB, enough to
# keep a device busy.
_CPU_TILE, _DEVICE_TILE = 2**17, 2**24


class FeatureBlocks:
    r"""Blocks of random features of one kernel on one device.

    The numbers equal the numbers on the CPU but for rounding: features differ by about 1e-6 in
    float32, more where phases are large (Laplacian and Cauchy kernels have heavy-tailed frequencies
    or large coordinates). Independent frequencies are drawn on the device. Other designs and
    products of different kernels draw their frequencies on the CPU, from where they are moved.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Cauchy, Matern, RationalQuadratic or a product of such kernels, with
        numbers as length scales.
    n_inputs : int
        Number of inputs d.
    block_size : int
        Features of a block, m.
    seed : int, default=0
        0 <= seed < 2**64.
    paired : bool, default=True
        Cosine and sine of each frequency, instead of one cosine with a random phase.
    design : {"iid", "orthogonal", "hadamard", "sobol", "auto"}, default="iid"
        How frequencies are drawn, as for ``kernel.random_features``. "hadamard" gives the
        frequencies of the fast transform, applied by a product of matrices.
    device : torch.device or str, default=None
        Where to compute; None is PyTorch's default.
    dtype : torch.dtype, default=None
        float32 (None) or float64.
    cache_bytes : int, default=2**30
        Bytes of frequencies to keep on the device. The blocks that come first are kept, for blocks
        are visited in turn, where dropping the oldest would keep none in time.
    map : Affine, default=None
        Map of the rows, behind which the features are; ``n_inputs`` are those of the rows.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the kernel has no features here.
    ImportError
        If PyTorch is not installed.

    Examples
    --------
    >>> import torch
    >>> from mercer_gpu import FeatureBlocks
    >>> from mercer.kernels import Gaussian
    >>> blocks = FeatureBlocks(Gaussian(1.0), n_inputs=2, block_size=4096)
    >>> Z = blocks.features(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), block=0)
    >>> (Z @ Z.T).round(decimals=1)  # exp(-1/2) = 0.61 off the diagonal
    tensor([[1.0000, 0.6000],
            [0.6000, 1.0000]])
    >>> blocks.evaluate(torch.zeros(3, 2), torch.ones(2 * 4096)).shape  # two blocks
    torch.Size([3])
    """

    def __init__(
        self,
        kernel: Kernel,
        n_inputs: int,
        block_size: int,
        seed: int = 0,
        *,
        paired: bool = True,
        design: str = "iid",
        device: Any = None,
        dtype: Any = None,
        cache_bytes: int = 2**30,
        map: Affine | None = None,
    ) -> None:
        torch = require_torch()
        self.n_inputs = check_integer("n_inputs", n_inputs, low=1)
        self.paired = bool(paired)
        self._map = map
        n_mapped = self.n_inputs if map is None else map.n_outputs
        self._draws: Draws = draws_of(kernel, n_mapped, FeatureOptions(self.paired, design))
        self.block_size = check_integer("block_size", block_size, low=1)
        self.seed = check_integer("seed", seed, low=0, high=2**64 - 1)
        self.device = torch.get_default_device() if device is None else torch.device(device)
        self.dtype = dtype or torch.float32
        if self.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"`dtype` must be torch.float32 or torch.float64, got {self.dtype}. With fewer "
                "bits phases have errors of 1e-3 radians and more for each radian."
            )
        self.cache_bytes = check_integer("cache_bytes", cache_bytes, low=0)
        self._cached: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._n_bytes = 0

    def features(self, X: ArrayLike | Tensor, block: int = 0) -> Tensor:
        """Features of one block.

        Parameters
        ----------
        X : tensor or array-like of shape (n, n_inputs)
            Rows.
        block : int, default=0
            Number of the block, 0, 1, ... below 2**32.

        Returns
        -------
        Z : tensor of shape (n, block_size)
            With E[Z Z'] the kernel matrix. Carries no gradient.

        Raises
        ------
        ValueError
            If the shape of ``X`` does not fit, or ``block`` is outside its range.
        """
        rows = self._rows(X)
        Z = require_torch().empty(
            (len(rows), self.block_size), dtype=self.dtype, device=self.device
        )
        with float32_products(self.device):
            numbers = self._numbers(block)
            step = self._tile
            for start in range(0, len(rows), step):
                self._transform(rows[start : start + step], numbers, Z[start : start + step])
        return Z

    def evaluate(
        self, X: ArrayLike | Tensor, coefficients: ArrayLike | Tensor, *, first_block: int = 0
    ) -> Tensor:
        """Sum of features times coefficients over blocks (DSG, Algorithm 2).

        Parameters
        ----------
        X : tensor or array-like of shape (n, n_inputs)
            Rows.
        coefficients : tensor or array-like of shape (n_blocks * block_size,) or \
                (n_blocks * block_size, n_outputs)
            Coefficients, block after block.
        first_block : int, default=0
            Number of the block that the first coefficients belong to.

        Returns
        -------
        values : tensor of shape (n,) or (n, n_outputs)
            Values of the function. Carries no gradient.

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        torch = require_torch()
        rows = self._rows(X)
        by_block, tail = coefficient_blocks(coefficients, self.block_size, rows)
        values = torch.zeros((len(rows), by_block.shape[2]), dtype=self.dtype, device=self.device)
        Z = torch.empty(
            (min(self._tile, len(rows)), self.block_size), dtype=self.dtype, device=self.device
        )
        with float32_products(self.device):
            for index, alpha in enumerate(by_block):
                numbers = self._numbers(first_block + index)
                for start in range(0, len(rows), self._tile):
                    part = rows[start : start + self._tile]
                    self._transform(part, numbers, Z[: len(part)])
                    values[start : start + self._tile].addmm_(Z[: len(part)], alpha)
        return values.reshape(len(rows), *tail)

    def clear(self) -> None:
        """Forget the frequencies that are kept on the device."""
        self._cached.clear()
        self._n_bytes = 0

    @property
    def cached_bytes(self) -> int:
        """Bytes of frequencies that are kept on the device now."""
        return self._n_bytes

    @property
    def _tile(self) -> int:
        """Rows of a tile."""
        numbers = _CPU_TILE if self.device.type == "cpu" else _DEVICE_TILE
        return max(16, numbers // self.block_size)

    def _rows(self, X: ArrayLike | Tensor) -> Tensor:
        rows = device_rows(X)
        if rows.shape[1] != self.n_inputs:
            raise ValueError(
                f"`X` must have {self.n_inputs} columns, got {rows.shape[1]}: the frequencies were "
                "made for that many inputs."
            )
        if self._map is not None:
            rows = mapped_rows(self._map, rows)
        return rows.to(device=self.device, dtype=self.dtype)

    def _numbers(self, block: int) -> tuple[Tensor, Tensor | None]:
        """Frequencies and, where they are needed, phases of a block, both in turns."""
        kept = self._cached.get(block)
        if kept is not None:
            return kept
        check_integer("block", block, low=0, high=2**32 - 1)
        W, b = self._draws(self.seed, block, self.block_size, self.device, self.dtype)
        size = sum(T.numel() * T.element_size() for T in (W, b) if T is not None)
        if self._n_bytes + size <= self.cache_bytes:
            self._cached[block] = W, b
            self._n_bytes += size
        return W, b

    def _transform(self, rows: Tensor, numbers: tuple[Tensor, Tensor | None], Z: Tensor) -> None:
        """Write the features of some rows into ``Z``."""
        torch = require_torch()
        W, b = numbers
        if not self.paired:
            torch.addmm(b, rows, W, out=Z)
        else:
            n_pairs = self.block_size // 2
            phases = rows @ W
            Z[:, :n_pairs] = phases[:, :n_pairs]
            torch.sub(phases[:, :n_pairs], 0.25, out=Z[:, n_pairs : 2 * n_pairs])
            if b is not None:
                Z[:, -1] = phases[:, -1] + b[-1]
        cosine_of_turns_(Z).mul_(feature_scale(self.block_size))


def mapped_rows(map: Affine, rows: Tensor) -> Tensor:
    """Rows behind a map, in the dtype and on the device of the rows."""
    torch = require_torch()

    def tensor(numbers: ArrayLike) -> Tensor:
        return torch.as_tensor(np.asarray(numbers), dtype=rows.dtype, device=rows.device)

    moved, matrix = rows - tensor(map.shift), tensor(map.matrix)
    with float32_products(rows.device):
        # Columns of scale 0 are dropped.
        image = moved @ matrix if matrix.ndim > 1 else (moved * matrix)[:, matrix != 0.0]
    return image if map.offset is None else image + tensor(map.offset)


def feature_scale(block_size: int) -> float:
    """Factor of a cosine: a pair has mean square 1, so m columns have m / 2."""
    return math.sqrt(2.0 / block_size)


def coefficient_blocks(
    coefficients: ArrayLike | Tensor, block_size: int, like: Tensor
) -> tuple[Tensor, tuple[int, ...]]:
    """Coefficients of shape (n_blocks, block_size, n_outputs), and the shape of one row's values.

    Raises
    ------
    ValueError
        If the shape is none of whole blocks.
    """
    torch = require_torch()
    check_integer("block_size", block_size, low=1)
    alpha = torch.as_tensor(coefficients).detach().to(device=like.device, dtype=like.dtype)
    if alpha.ndim not in (1, 2) or len(alpha) == 0 or len(alpha) % block_size:
        raise ValueError(
            f"`coefficients` must have the shape (n_blocks * {block_size},) or "
            f"(n_blocks * {block_size}, n_outputs), got {tuple(alpha.shape)}: one row for each "
            "feature, block after block."
        )
    tail = tuple(alpha.shape[1:])
    return alpha.reshape(-1, block_size, *(tail or (1,))), tail
