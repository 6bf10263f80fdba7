"""The first block of random features, as a basis that functions are solved for on."""

from __future__ import annotations

from typing import Any

from mercer.expansions._feature_blocks import FeatureBlocks

__all__ = ["BlockBasis"]


class BlockBasis:
    """Random features of block 0, whose squared norm of functions is that of the coefficients.

    Parameters
    ----------
    blocks : FeatureBlocks
        Where the features come from.
    """

    def __init__(self, blocks: FeatureBlocks) -> None:
        self._blocks = blocks

    @property
    def size(self) -> int:
        """Number of features."""
        return self._blocks.block_size

    def features(self, X: Any) -> Any:
        """Features of rows, shape (n, size)."""
        return self._blocks.of(self._blocks.prepare(X))

    def penalty(self) -> None:
        """None: the identity."""
        return
