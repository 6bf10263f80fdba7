"""Kernels after a map of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features._base import FeatureMap, FeatureOptions
from mercer.features.composite import MappedMap
from mercer.kernels._base import Kernel
from mercer.kernels._pairwise import FloatArray

__all__ = ["Mapped"]


class Mapped(Kernel):
    """A kernel after a map, k(x, x') = kernel(map(x), map(x')).

    For layers learnt elsewhere, convolutions, logarithms, or a choice of columns:
    ``Mapped(Gaussian(), f) + Mapped(Linear(), g)`` gives every part its own view of the row.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    map : callable
        ``map(X)`` of an array of shape (n_rows, n_features) returns an array of shape (n_rows,
        n_mapped), row by row: what it gives for a row must not depend on the others. The number of
        columns it returns must be the same in every call; random features find it out on a row of
        ones.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel or ``map`` cannot be called; on evaluation, if ``map`` returns
        an array of a wrong shape.

    Notes
    -----
    A model file holds data only and so no function: a model with this kernel can be pickled, if
    the function can, but not saved.

    References
    ----------
    DSG, Section 2, "hierarchical kernels".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear, Mapped
    >>> Mapped(Linear(), np.sqrt)([[1.0, 4.0]], [[9.0, 1.0]])
    array([[5.]])
    """

    def __init__(self, kernel: Kernel, map: Callable[[Any], Any]) -> None:
        self.kernel = kernel
        self.map = map
        self._check()

    def _check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(
                f"`kernel` must be a kernel, got {self.kernel!r}. Make one of a name or a function "
                "with as_kernel."
            )
        if not callable(self.map):
            raise ValueError(f"`map` must be a function of an array of rows, got {self.map!r}.")

    def _image(self, X: FloatArray) -> FloatArray:
        """Apply the map to rows; the result is C-ordered and of their dtype."""
        image: FloatArray = np.ascontiguousarray(self.map(X), dtype=X.dtype)
        if image.ndim != 2 or len(image) != len(X):
            raise ValueError(
                f"`map` must return one row for each of the {len(X)} rows it is given, got the "
                f"shape {image.shape}. Return an array of shape (n_rows, n_mapped)."
            )
        return image

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        image = self._image(X)
        return self.kernel(image, image if Z is X else self._image(Z))

    def _diagonal(self, X: Any) -> FloatArray:
        return self.kernel.diag(self._image(X))

    @property
    def bound(self) -> float | None:
        """Bound of the kernel."""
        return self.kernel.bound

    def _missing(self) -> tuple[str, ...]:
        return () if self.kernel.is_resolved else ("kernel",)

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        return {"kernel": self.kernel.resolve(self._image(rows))}

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        with np.errstate(all="ignore"):
            n_mapped = self._image(np.ones((1, n_inputs))).shape[1]
        inner = self.kernel._feature_map(n_mapped, options, path)
        return MappedMap(n_inputs, inner, self._image)
