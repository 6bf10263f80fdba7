"""A weighted sum of parts, whatever they were learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.parts._line_up import Part
from mercer.sums import GlobalPart

__all__ = ["SumOfParts"]

Array = NDArray[np.float64]


class SumOfParts:
    r"""The function :math:`f = \sum_p v_p f_p`; 0 while there is no part.

    Parameters
    ----------
    kernel : Kernel
        What :attr:`kernel` is while there is no part.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype or None
        Of the inputs; None for float64.

    Attributes
    ----------
    parts : list
        The parts.
    v : ndarray of shape (n_parts,)
        Their weights, at least 0.
    """

    def __init__(self, kernel: Kernel, n_features: int, n_outputs: int, dtype: Any) -> None:
        self.given_kernel = kernel
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.dtype = np.dtype(np.float64 if dtype is None else dtype)
        self.parts: list[Part] = []
        self.v = np.zeros(0)

    def evaluate(self, X: Any) -> Array:
        """Values at rows, shape (n, n_outputs)."""
        values = np.zeros((X.shape[0], self.n_outputs))
        for weight, part in zip(self.v, self.parts, strict=True):
            if weight > 0.0:
                values += weight * part.evaluate(X)
        return values

    @property
    def used(self) -> list[tuple[float, Part]]:
        """Parts that count, with their weights."""
        return [(float(v), part) for v, part in zip(self.v, self.parts, strict=True) if v > 0.0]

    @property
    def size(self) -> int:
        """Points of all parts that count."""
        return sum(part.n_points for _, part in self.used)

    @property
    def kernel(self) -> Kernel:
        """Kernel of the only part; AttributeError if there are several."""
        return self._only()[1].kernel if self.parts else self.given_kernel

    @property
    def dictionary(self) -> Any:
        """Points of the only part, in units of the inputs; AttributeError if there are several."""
        if not self.parts:
            return np.empty((0, self.n_features), self.dtype)
        return self._only()[1].dictionary

    @property
    def coefficients(self) -> Array:
        """Coefficients of the :attr:`dictionary`; AttributeError if there are several parts."""
        if not self.parts:
            return np.zeros((0, self.n_outputs))
        weight, part = self._only()
        return weight * part.coefficients

    def _only(self) -> tuple[float, GlobalPart]:
        used = self.used
        if len(used) != 1 or not isinstance(used[0][1], GlobalPart):
            raise AttributeError(
                f"This model is a sum of {len(used)} parts ({self.size} points), each with a "
                "kernel, a dictionary and coefficients of its own: see `parts_`. For a single "
                "dictionary choose expansion=Dictionary() or KOMP()."
            )
        return used[0][0], used[0][1]
