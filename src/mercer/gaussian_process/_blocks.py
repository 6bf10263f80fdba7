"""Blocks of random features of some rows, by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.features import FeatureMap, FeatureOptions
from mercer.features._tiles import Part, add_blocks, features_of
from mercer.kernels import Kernel

__all__ = ["FeatureBlocks"]

Array = NDArray[np.float64]


class FeatureBlocks:
    r"""Random features of one kernel in numbered blocks, each of them :math:`E\,ZZ^T = k(X, X)`.

    A block is a pure function of (seed, number): nothing is stored but the last one drawn.
    Features are float64, because posterior variances are small differences of them.

    Parameters
    ----------
    kernel : Kernel
        A kernel that has random features, its numbers resolved.
    n_inputs : int
        Number of inputs.
    block_size : int
        Features of a block.
    seed : int
        0 <= seed < 2**64.
    options : FeatureOptions
        How features are drawn.
    """

    def __init__(
        self, kernel: Kernel, n_inputs: int, block_size: int, seed: int, options: FeatureOptions
    ) -> None:
        self.kernel = kernel
        self.options = options
        self.block_size = block_size
        self.seed = seed
        self.map: FeatureMap = kernel._feature_map(n_inputs, options, 0)
        self._last: tuple[int, Any] = (-1, None)

    def resized(self, block_size: int) -> FeatureBlocks:
        """Blocks of another size from the same seed."""
        return FeatureBlocks(self.kernel, self.map.n_inputs, block_size, self.seed, self.options)

    def prepare(self, X: Array) -> tuple[Any, ...]:
        """Rows as the feature map wants them; ValueError outside the kernel's domain."""
        return self.map.prepare(np.ascontiguousarray(X, dtype=np.float64))

    def of(self, prepared: tuple[Any, ...], number: int = 0) -> Array:
        """Features of prepared rows in one block, shape (n, block_size)."""
        return np.asarray(features_of(self.map, prepared, self._numbers(number), self.block_size))

    def add(
        self, prepared: tuple[Any, ...], number: int, coefficients: Array, values: Array
    ) -> None:
        """Add a block's part of a function to ``values``, (n, n_targets), without its features."""
        add_blocks(self.map, prepared, [Part(self._numbers(number), coefficients)], values)

    def _numbers(self, number: int) -> Any:
        last, numbers = self._last
        if last != number:
            numbers = self.map.draw(self.seed, number, self.block_size, np.float64)
            self._last = (number, numbers)
        return numbers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": (-1, None)}
