"""A part as a user sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped
from mercer.maps import Affine
from mercer.parts._line_up import Part

__all__ = ["FittedPart"]


@dataclass(frozen=True)
class FittedPart:
    """One term of a sum of kernel expansions.

    Its values are ``weight * kernel(map(X), dictionary) @ coefficients``; those of cells are cut
    to the range of the targets that the cell has seen, which :meth:`evaluate` does. On a stream a
    half of a cell that was split predicts as the whole one did, with its length scale and all of
    its points, until it has rows of its own; only :meth:`evaluate` knows that.

    Attributes
    ----------
    form : {"global", "cells"}
        One dictionary for the whole space, or one for each cell.
    weight : float
        Weight in the sum, above 0.
    map : Affine
        Map of the inputs.
    kernel : Kernel
        Kernel of mapped inputs.
    dictionary : ndarray of shape (n_points, n_mapped)
        Points, mapped.
    coefficients : ndarray of shape (n_points, n_outputs)
        Coefficients.
    """

    form: str
    weight: float
    map: Affine
    kernel: Kernel
    dictionary: NDArray[np.floating] = field(repr=False)
    coefficients: NDArray[np.float64] = field(repr=False)
    _part: Part = field(repr=False)

    @classmethod
    def of(cls, weight: float, part: Part) -> FittedPart:
        """Part with its weight."""
        map, kernel = None, part.kernel
        if isinstance(kernel, Mapped) and isinstance(kernel.map, Affine):
            map, kernel = kernel.map, kernel.kernel
        points = part.dictionary
        if map is None:
            n = points.shape[1]
            map = Affine(np.zeros(n), np.ones(n))
        elif part.form == "global":
            points = map(points)
        return cls(part.form, weight, map, kernel, points, part.coefficients, part)

    def evaluate(self, X: Any) -> NDArray[np.float64]:
        """Values at rows of shape (n, n_features): (n, n_outputs)."""
        return self.weight * self._part.evaluate(np.asarray(X))
