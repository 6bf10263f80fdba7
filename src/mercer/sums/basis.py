"""Functions that are sums over a fixed set of features, and the features of rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Mapped
from mercer.maps import Affine

__all__ = ["Basis", "FeatureTable", "KernelBasis", "check_same_basis"]

Floats = NDArray[np.floating]


class Basis(Protocol):
    """A fixed set of features, in which functions are linear.

    Bases that are equal have the same features, to the last bit; without an ``__eq__`` of its own a
    basis equals itself only.
    """

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

    def __eq__(self, other: object) -> bool:
        """Whether kernel, points and their dtype are the same."""
        return isinstance(other, KernelBasis) and (
            self.kernel == other.kernel
            and self.points.dtype == other.points.dtype
            and np.array_equal(self.points, other.points)
        )

    __hash__ = None  # type: ignore[assignment]

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


def check_same_basis(mine: Basis, theirs: Basis) -> None:
    """Raise ValueError if sums on two bases are no sums of the same features."""
    if mine is theirs or mine == theirs:
        return
    if isinstance(mine, KernelBasis) and isinstance(theirs, KernelBasis):
        dtypes = mine.points.dtype, theirs.points.dtype
        if mine.kernel != theirs.kernel:
            why = f"their kernels are {mine.kernel!r} and {theirs.kernel!r}"
        elif dtypes[0] != dtypes[1]:
            why = f"their points are {dtypes[0]} and {dtypes[1]}"
        else:
            sizes = f"{mine.size:,} and {theirs.size:,}"
            why = f"their points differ ({sizes} of them)"
    else:
        why = "their features differ"
    raise ValueError(
        f"Sums on two dictionaries cannot be merged: {why}. Let one process choose the features, "
        "and let all others learn on copies of it (`emptied`)."
    )
