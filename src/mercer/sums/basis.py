"""Functions that are sums over a fixed set of features, and the features of rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped
from mercer.maps import Affine

__all__ = ["Basis", "FeatureTable", "KernelBasis"]

Floats = NDArray[np.floating]


class Basis(Protocol):
    """A fixed set of features, in which functions are linear."""

    @property
    def size(self) -> int:
        """Number of features M."""
        ...

    def features(self, X: Any) -> Floats:
        """Features of rows, shape (n, M), C-ordered and the caller's own."""
        ...

    def penalty(self) -> NDArray[np.float64] | None:
        """Matrix P of the squared norm c'Pc of a function; None for the identity."""
        ...


class KernelBasis:
    """Kernel functions at the points of a fixed dictionary.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary, in units of the inputs; float32 makes features in float32.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> basis = KernelBasis(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> basis.features(np.array([[0.0]])).round(3)
    array([[1.   , 0.607]])
    """

    def __init__(self, kernel: Kernel, points: Floats) -> None:
        self.kernel = kernel
        self.points = points
        # A map is applied to the dictionary once.
        self._map, self._inner = None, kernel
        if isinstance(kernel, Mapped) and isinstance(kernel.map, Affine):
            self._map, self._inner = kernel.map, kernel.kernel
        self._images = self._image(points)

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    def _image(self, X: Any) -> Any:
        return X if self._map is None else self._map(X)

    def features(self, X: Any) -> Floats:
        """Kernel values between rows and points, shape (n, n_points), in the points' dtype."""
        return self._inner(self._image(X.astype(self.points.dtype, copy=False)), self._images)

    def penalty(self) -> NDArray[np.float64]:
        """Kernel matrix of the points, in float64."""
        images = np.asarray(self._images, dtype=np.float64)
        return np.asarray(self._inner(images, images), dtype=np.float64)


class FeatureTable:
    """Features of rows that are visited again and again; a row's only input is its number.

    Parameters
    ----------
    basis : Basis
        Where they come from.
    X : ndarray of shape (n_rows, n_features)
        The rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        The features of all rows, in float64: steps on them are not cut where rounding is coarse.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> table = FeatureTable(KernelBasis(Linear(), np.array([[2.0]])), np.array([[1.0], [3.0]]))
    >>> table.features(table.numbers[1:])
    array([[6.]])
    """

    def __init__(self, basis: Basis, X: Any) -> None:
        self._basis = basis
        self.values: Floats = np.asarray(basis.features(X), dtype=np.float64)

    @property
    def size(self) -> int:
        """Number of features."""
        return self._basis.size

    @property
    def numbers(self) -> NDArray[np.int64]:
        """All rows, shape (n_rows, 1)."""
        return np.arange(len(self.values))[:, np.newaxis]

    def features(self, X: Any) -> Floats:
        """Features of rows of given numbers, shape (n, 1)."""
        values: Floats = self.values[X[:, 0]]
        return values

    def penalty(self) -> NDArray[np.float64] | None:
        """See :class:`Basis`."""
        return self._basis.penalty()
