"""The first block of random features, as a basis that functions are solved for on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer.features._tiles import features_of

if TYPE_CHECKING:
    from mercer.expansions.feature_expansion import FeatureExpansion
    from mercer.features._base import Floats

__all__ = ["BlockBasis"]


class BlockBasis:
    """Random features of block 0, whose squared norm of functions is that of the coefficients.

    Parameters
    ----------
    function : FeatureExpansion
        Whose features they are.
    """

    def __init__(self, function: FeatureExpansion) -> None:
        self._function = function

    @property
    def size(self) -> int:
        """Number of features."""
        return self._function.block_size

    def features(self, X: Any) -> Floats:
        """Features of rows, shape (n, size)."""
        f = self._function
        return features_of(f.map, f.prepare(X), f.numbers(0), f.block_size)

    def penalty(self) -> None:
        """None: the identity."""
        return
