"""Base class of bilinear functions, with errors for what they do not support."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import Expansion
from mercer.kernels import Kernel

Array = NDArray[np.float64]

# The common factor is multiplied into the coefficients when it falls below this.
_SMALL = 1e-6


class BilinearFunction(ABC):
    """Base class of bilinear functions, with errors for what they do not support."""

    n_outputs = 1
    averaging = None
    keeps_previous = False
    promoted = ""
    #: Slots of points that return in later steps; random features have none.
    slots: NDArray[np.int64] = np.empty(0, np.int64)

    kernel: Kernel
    expansion: Expansion
    n_features: int
    n_steps: int
    #: Number of dictionary points or of random features.
    size: int
    scale: float
    #: The points last given to :meth:`current`, and their kernels or features.
    _last: tuple[Any, NDArray[Any]] | None = None

    @property
    @abstractmethod
    def coefficients(self) -> Array:
        """Matrix C, shape (size, size)."""

    @abstractmethod
    def current(self, points: Any) -> Array:
        """Values B(points_i, points_j), shape (n_points, n_points)."""

    @abstractmethod
    def bilinear(self, X1: Any, X2: Any) -> Array:
        """Values B(X1_i, X2_i), shape (n,)."""

    @abstractmethod
    def _multiply(self, factor: float) -> None:
        """Multiply the coefficients as they are stored."""

    def shrink(self, factor: float) -> None:
        """Multiply the function by ``factor`` in O(1)."""
        self.scale *= factor
        if self.scale < _SMALL:
            self._multiply(self.scale)
            self.scale = 1.0

    def evaluate(self, X: Any) -> NoReturn:
        """Raise an error: a bilinear function has no values at single points."""
        raise ValueError(
            "A bilinear function B(x, z) has values at pairs of points only. Use "
            "`bilinear(X1, X2)`, or a pair kernel of first order such as 'difference' for scores "
            "of single points."
        )

    def mix(self, mixing: Array) -> NoReturn:
        """Raise an error: there is only one output."""
        raise ValueError(
            "The outputs of a bilinear function cannot be mixed: it has one. Objectives that move "
            "several outputs at once need a pair kernel of first order."
        )

    def keep_previous(self) -> NoReturn:
        """Raise an error: the previous function is not kept."""
        raise ValueError(
            "A bilinear function does not keep what it was before the last step. Objectives that "
            "compare the two, such as risks, need a pair kernel of first order."
        )

    def previous(self, points: Any) -> NoReturn:
        """Raise an error, as :meth:`keep_previous` does."""
        self.keep_previous()

    def forget(self) -> None:
        """Discard what :meth:`current` remembered."""
        self._last = None

    @staticmethod
    def refuse_averaging(averaging: float | None) -> None:
        """Raise ``ValueError`` if averaged coefficients are requested."""
        if averaging is not None:
            raise ValueError(
                f"Averaged coefficients are not kept for bilinear functions, got averaging="
                f"{averaging!r}: it would double their size² numbers. Use average=None, or a pair "
                "kernel of first order."
            )
