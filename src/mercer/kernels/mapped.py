"""Kernels after a map of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._validation import parameters
from mercer.features.composite import MappedMap
from mercer.features.feature_map import FeatureMap, FeatureOptions
from mercer.kernels._pairwise import FloatArray
from mercer.kernels.kernel import Kernel, check_kernel
from mercer.maps import Affine, LearnedMap

__all__ = ["Mapped"]


def _check_map(name: str, value: Any) -> None:
    if isinstance(value, type) or not (callable(value) or isinstance(value, LearnedMap)):
        raise ValueError(
            f"`{name}` must be an Affine map, a learned one such as Standardize() or a function of "
            f"an array of rows, got {value!r}."
        )


class Mapped(Kernel):
    """A kernel after a map, k(x, x') = kernel(map(x), map(x')).

    For standardisation, principal components and metrics (:mod:`mercer.maps`), and for layers
    learnt elsewhere, convolutions or logarithms: ``Mapped(Gaussian(), f) + Mapped(Linear(), g)``
    gives every part its own view of the row.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    map : Affine, LearnedMap or callable
        An affine map, or one that is learned from rows by :meth:`resolve`, such as
        ``PrincipalComponents()``; numbers of the kernel that come from data are then those of the
        mapped rows. Or a function: ``map(X)`` of an array of shape (n_rows, n_features) returns an
        array of shape (n_rows, n_mapped), row by row: what it gives for a row must not depend on
        the others. The number of columns it returns must be the same in every call; random
        features find it out on a row of ones.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel or ``map`` no map; on evaluation, if ``map`` returns an array
        of a wrong shape.

    Notes
    -----
    A model file holds data only: affine and learned maps can be stored in it, functions cannot. A
    model with a function can be pickled, if the function can.

    A learned map is learned from the at most 1000 rows that :meth:`resolve` looks at. For more,
    learn it first: ``Mapped(kernel, PrincipalComponents().fit(X))``.

    Both arguments are mapped in every call. Who evaluates the kernel often at the same points maps
    them once and goes on with the two parts of :meth:`unwrapped`.

    References
    ----------
    DSG, Section 2, "hierarchical kernels".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Linear, Mapped
    >>> Mapped(Linear(), np.sqrt)([[1.0, 4.0]], [[9.0, 1.0]])
    array([[5.]])

    A learned map is learned where the kernel takes its numbers from rows:

    >>> from mercer.maps import Standardize
    >>> kernel = Mapped(Gaussian(), Standardize()).resolve([[10.0, 0.0], [30.0, 0.2]])
    >>> kernel.kernel  # from (-1, -1) to (1, 1)
    Gaussian(length_scale=2.8284271247461903)
    """

    _parameters = parameters(kernel=check_kernel, map=_check_map)

    def __init__(self, kernel: Kernel, map: Affine | LearnedMap | Callable[[Any], Any]) -> None:
        self.kernel = kernel
        self.map = map
        self._check()

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
        learned = ("map",) if isinstance(self.map, LearnedMap) else ()
        return learned if self.kernel.is_resolved else (*learned, "kernel")

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        known = self
        if isinstance(self.map, LearnedMap):
            known = Mapped(self.kernel, self.map.fit(rows))
        return {"kernel": self.kernel.resolve(known._image(rows)), "map": known.map}

    def unwrapped(self) -> tuple[Affine | Callable[[Any], Any], Kernel]:
        """Map and kernel apart, for points that are to be mapped once.

        Returns
        -------
        map : Affine or callable
            The map; that of nested affine maps is one affine map.
        kernel : Kernel
            The kernel of mapped points.

        Raises
        ------
        ValueError
            If a number of the map or the kernel still has to come from data.

        Examples
        --------
        >>> from mercer.kernels import Linear, Mapped
        >>> from mercer.maps import Affine
        >>> map, kernel = Mapped(Linear(), Affine([1.0], [2.0])).unwrapped()
        >>> points = map([[2.0], [3.0]])
        >>> kernel(map([[4.0]]), points)
        array([[12., 24.]])
        """
        self._require_resolved()
        map, kernel = self.map, self.kernel
        while (
            isinstance(map, Affine)
            and isinstance(kernel, Mapped)
            and isinstance(kernel.map, Affine)
        ):
            map, kernel = map.then(kernel.map), kernel.kernel
        return map, kernel

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        with np.errstate(all="ignore"):
            n_mapped = self._image(np.ones((1, n_inputs))).shape[1]
        inner = self.kernel._feature_map(n_mapped, options, path)
        return MappedMap(n_inputs, inner, self._image)
